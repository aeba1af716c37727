//! The open connections of a server, and which of them gives way when there is no room.
//!
//! A connection may give way unless a handler works on its complete request. It is the oldest one of the address that
//! has the most, so that a flood from one pod ends its own connections and not those of the kubelet. Ages count
//! from the last request or answer. Three quarters of the places are for requests in progress, so that the others can
//! always give way.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
    mem,
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};
use tracing::warn;

/// All connections.
pub(super) struct Connections {
    max: usize,
    table: Mutex<Table>,
    /// One has ended, or needs its place although it was asked to close.
    changed: Notify,
}

#[derive(Default)]
struct Table {
    last_id: u64,
    rows: BTreeMap<u64, Row>,
    /// Closed for others since the last warning.
    closed: u64,
    warned: Option<Instant>,
}

struct Row {
    peer: IpAddr,
    state: State,
    since: Instant,
    close: Arc<Notify>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// For a head, or for its answer to be read.
    Waiting,
    /// The body of a request is still arriving.
    Reading,
    /// A handler has the whole request.
    Answering,
    /// Asked to close. It goes on if a request has arrived before it noticed.
    Closing,
}

/// One connection; its place is free when this is dropped.
pub(super) struct Connection {
    connections: Arc<Connections>,
    id: u64,
    close: Arc<Notify>,
}

/// Between two warnings about connections that were closed for others.
const WARNING_INTERVAL: Duration = Duration::from_mins(1);

/// As many requests as are allowed are in progress.
#[derive(Debug)]
pub(super) struct Refused;

// === impl Connections ===

impl Connections {
    pub(super) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, table: Mutex::default(), changed: Notify::new() })
    }

    /// Resolves when another connection may be accepted. Closes one if all places are taken.
    pub(super) async fn room(&self) {
        while !self.makes_room() {
            self.changed.notified().await;
        }
    }

    pub(super) fn add(self: &Arc<Self>, peer: IpAddr) -> Connection {
        let close = Arc::new(Notify::new());
        let mut table = self.table.lock();
        table.last_id += 1;
        let id = table.last_id;
        let (state, since) = (State::Waiting, Instant::now());
        table.rows.insert(id, Row { peer, state, since, close: Arc::clone(&close) });
        Connection { connections: Arc::clone(self), id, close }
    }

    /// Closes connections on which nothing has happened for longer than this, and no handler works.
    pub(super) fn close_older_than(&self, age: Duration) {
        for row in self.table.lock().rows.values_mut() {
            if row.may_close() && row.since.elapsed() > age {
                row.ask_to_close();
            }
        }
    }

    pub(super) fn close_oldest(&self) {
        self.table.lock().close_one(Row::may_close);
    }

    fn makes_room(&self) -> bool {
        let mut table = self.table.lock();
        let is_staying = |row: &&Row| row.state != State::Closing;
        let is_full = table.rows.values().filter(is_staying).count() >= self.max;
        if is_full && table.close_one(Row::may_close) {
            table.warn(self.max);
        }
        table.rows.len() < self.max
    }

    /// The requests that may be in progress.
    fn requests_max(&self) -> usize {
        self.max.div_ceil(4) * 3
    }
}

// === impl Table ===

impl Table {
    /// Asks the oldest connection of the address that has the most of these to close. False if there is none.
    fn close_one(&mut self, may: impl Fn(&Row) -> bool) -> bool {
        let mut held: HashMap<IpAddr, usize> = HashMap::new();
        for row in self.rows.values().filter(|row| may(row)) {
            *held.entry(row.peer).or_default() += 1;
        }
        let candidates = self.rows.values_mut().filter(|row| may(row));
        let oldest =
            candidates.max_by_key(|row| (held.get(&row.peer).copied(), Reverse(row.since)));
        oldest.map(Row::ask_to_close).is_some()
    }

    /// Once a minute at most.
    fn warn(&mut self, max: usize) {
        self.closed += 1;
        if self.warned.is_none_or(|at| at.elapsed() >= WARNING_INTERVAL) {
            let closed = mem::take(&mut self.closed);
            warn!(
                max,
                closed, "All connections were taken: the oldest without a request were closed"
            );
            self.warned = Some(Instant::now());
        }
    }
}

// === impl Row ===

impl Row {
    fn may_close(&self) -> bool {
        matches!(self.state, State::Waiting | State::Reading)
    }

    fn ask_to_close(&mut self) {
        self.state = State::Closing;
        self.close.notify_one();
    }
}

// === impl Connection ===

impl Connection {
    /// Resolves when the connection must close.
    pub(super) async fn asked_to_close(&self) {
        loop {
            self.close.notified().await;
            // A request may have arrived since.
            let table = self.connections.table.lock();
            if table.rows.get(&self.id).is_none_or(|row| row.state == State::Closing) {
                return;
            }
        }
    }

    /// A probe arrived: it is answered at once and takes no share.
    pub(super) fn probed(&self) {
        self.turn(State::Waiting);
    }

    /// Another request arrived. If too many are in progress, one whose body is not complete gives way.
    pub(super) fn asked(&self, has_body: bool) -> Result<(), Refused> {
        {
            let mut table = self.connections.table.lock();
            let is_in_progress =
                |row: &&Row| matches!(row.state, State::Reading | State::Answering);
            let in_progress = table.rows.values().filter(is_in_progress).count();
            if in_progress >= self.connections.requests_max()
                && !table.close_one(|row| row.state == State::Reading)
            {
                return Err(Refused);
            }
        }
        self.turn(if has_body { State::Reading } else { State::Answering });
        Ok(())
    }

    /// The body of the request is complete.
    pub(super) fn read_whole(&self) {
        self.turn(State::Answering);
    }

    /// The handler has answered.
    pub(super) fn answered(&self) {
        self.turn(State::Waiting);
    }

    fn turn(&self, state: State) {
        let mut table = self.connections.table.lock();
        let Some(row) = table.rows.get_mut(&self.id) else { return };
        let was_closing = row.state == State::Closing;
        (row.state, row.since) = (state, Instant::now());
        drop(table);
        if was_closing {
            self.connections.changed.notify_one();
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.connections.table.lock().rows.remove(&self.id);
        self.connections.changed.notify_one();
    }
}
