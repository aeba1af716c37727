//! Runs the control loops: queues, backoff and time, one key at a time.
//!
//! Changes in the store become keys in a queue ordered by due time; [`Runtime::step`] works on one.
//! With a real clock a task steps whenever something is due. With a virtual clock a test does, in
//! order or, given a seed, in any order a real cluster might choose.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use serde_json::Value;

use self::{collector::Collector, reaper::Reaper};
use crate::{
    clock::later,
    controllers::{Change, Controller, Key, Next},
    random::Random,
    server::{Server, User, local::Local},
    store::{Event, EventKind, TableKey},
};

mod collector;
mod reaper;

pub(crate) use self::reaper::CRD_CLEANUP;

/// First wait after a failed look; doubles up to [`RETRY_MAX`].
const RETRY_FIRST: Duration = Duration::from_millis(5);
const RETRY_MAX: Duration = Duration::from_secs(30);

/// In which order due work is taken.
#[derive(Debug, Default)]
pub enum Order {
    /// First come, first served.
    #[default]
    Fair,
    /// Any due key may be next, drawn from this source.
    Shuffled(Random),
}

/// Every control loop of a cluster, and what each has to do.
pub struct Runtime {
    server: Arc<Server>,
    loops: Vec<Loop>,
    collector: Collector,
    reaper: Reaper,
    queue: Queue,
    order: Order,
    paused: BTreeSet<String>,
}

struct Loop {
    controller: Box<dyn Controller>,
    cluster: Local,
    failures: BTreeMap<Key, u32>,
}

/// Keys in order of when they are due.
#[derive(Default)]
struct Queue {
    due: BTreeMap<(Timestamp, u64), (usize, Key)>,
    index: BTreeMap<(usize, Key), (Timestamp, u64)>,
    serial: u64,
}

// === impl Runtime ===

impl Runtime {
    pub fn new(server: Arc<Server>, controllers: Vec<Box<dyn Controller>>, order: Order) -> Self {
        server.store.track_unseen();
        let loops = controllers.into_iter().map(|controller| {
            let name = format!("system:sandbox:{}", controller.name());
            let cluster = Local::new(Arc::clone(&server), User::new(&name, &["system:masters"]));
            Loop { controller, cluster, failures: BTreeMap::new() }
        });
        Self {
            collector: Collector::new(Arc::clone(&server)),
            reaper: Reaper::new(Arc::clone(&server)),
            loops: loops.collect(),
            queue: Queue::default(),
            order,
            paused: BTreeSet::new(),
            server,
        }
    }

    /// Stops a loop (`deployment`, `kubelet`, `garbage-collector`, ...) as if its process hung.
    pub fn pause(&mut self, name: &str) {
        self.paused.insert(name.to_owned());
    }

    /// Lets a paused loop go on with all that happened meanwhile.
    pub fn resume(&mut self, name: &str) {
        self.paused.remove(name);
    }

    /// Makes a loop look at everything again: a knob it reads was turned.
    pub fn requeue(&mut self, name: &str) {
        let now = self.server.clock.now();
        for index in 0..self.loops.len() {
            let Some(each) = self.loops.get(index).filter(|each| each.controller.name() == name)
            else {
                continue;
            };
            let mut keys = Vec::new();
            for (group, plural) in each.controller.watches() {
                let (_, objects) = self.server.store.list(&TableKey::new(group, plural), None);
                for object in objects {
                    let new = object.value();
                    let change = Change {
                        group,
                        plural,
                        namespace: &object.key.namespace,
                        name: &object.key.name,
                        old: Some(&new),
                        new: Some(&new),
                    };
                    keys.extend(each.controller.keys(&each.cluster, &change));
                }
            }
            for key in keys {
                self.queue.push(index, key, now);
            }
        }
    }

    pub fn names(&self) -> Vec<&'static str> {
        let own = self.loops.iter().map(|each| each.controller.name());
        own.chain([collector::NAME, reaper::NAME]).collect()
    }

    /// Does one piece of due work. False when nothing is due now.
    pub fn step(&mut self) -> bool {
        self.observe();
        let (collects, reaps) = (self.collector_is_due(), self.reaper_is_due());
        if collects && self.goes_first() && self.collector.step() {
            return true;
        }
        if reaps && self.goes_first() && self.reaper.step() {
            return true;
        }
        let Some((index, key)) = self.take_due() else {
            return (collects && self.collector.step()) || (reaps && self.reaper.step());
        };
        self.work(index, &key);
        true
    }

    fn collector_is_due(&self) -> bool {
        self.collector.has_work() && !self.paused.contains(collector::NAME)
    }

    fn reaper_is_due(&self) -> bool {
        self.reaper.has_work() && !self.paused.contains(reaper::NAME)
    }

    /// Whether garbage collection comes before the other loops this time. In a real cluster it may
    /// lag behind them by any amount.
    fn goes_first(&self) -> bool {
        match &self.order {
            Order::Fair => true,
            Order::Shuffled(random) => random.below(2) == 0,
        }
    }

    /// Steps until nothing is due or `steps_max` is reached. True when quiet.
    pub fn settle(&mut self, steps_max: usize) -> bool {
        (0..steps_max).any(|_| !self.step())
    }

    /// When the next piece of work is due: now, later, or (`None`) only after a change.
    pub fn next_due(&mut self) -> Option<Timestamp> {
        self.observe();
        if self.collector_is_due() || self.reaper_is_due() {
            return Some(self.server.clock.now());
        }
        let mut due = self.queue.due.iter();
        due.find(|(_, (index, _))| !self.is_paused(*index)).map(|((at, _), _)| *at)
    }

    fn is_paused(&self, index: usize) -> bool {
        let name = self.loops.get(index).map(|each| each.controller.name());
        name.is_some_and(|name| self.paused.contains(name))
    }

    fn observe(&mut self) {
        let now = self.server.clock.now();
        for (table, event) in self.server.store.take_unseen() {
            self.collector.observe(&table, &event);
            self.reaper.observe(&table, &event);
            self.enqueue(&table, &event, now);
        }
    }

    fn enqueue(&mut self, table: &TableKey, event: &Event, now: Timestamp) {
        let watched = (&*table.group, &*table.plural);
        let mut parsed: Option<(Option<Value>, Option<Value>)> = None;
        for (index, each) in self.loops.iter().enumerate() {
            if !each.controller.watches().contains(&watched) {
                continue;
            }
            let (old, new) = parsed.get_or_insert_with(|| {
                let old = event.previous.as_ref().map(|object| object.value());
                let is_gone = event.kind == EventKind::Deleted;
                (old, (!is_gone).then(|| event.object.value()))
            });
            let change = Change {
                group: watched.0,
                plural: watched.1,
                namespace: &event.object.key.namespace,
                name: &event.object.key.name,
                old: old.as_ref(),
                new: new.as_ref(),
            };
            for key in each.controller.keys(&each.cluster, &change) {
                self.queue.push(index, key, now);
            }
        }
    }

    fn take_due(&mut self) -> Option<(usize, Key)> {
        let now = self.server.clock.now();
        let ready = self.queue.due.range(..=(now, u64::MAX));
        let mut ready = ready.filter(|(_, (index, _))| !self.is_paused(*index));
        let slot = match &self.order {
            Order::Fair => ready.next().map(|(slot, _)| *slot),
            Order::Shuffled(random) => {
                let slots: Vec<_> = ready.map(|(slot, _)| *slot).collect();
                let chosen = random.below(slots.len() as u64);
                slots.get(usize::try_from(chosen).unwrap_or_default()).copied()
            }
        };
        self.queue.take(slot?)
    }

    fn work(&mut self, index: usize, key: &Key) {
        let Some(each) = self.loops.get_mut(index) else { return };
        let next = each.controller.reconcile(&each.cluster, key);
        let now = self.server.clock.now();
        match next {
            Next::Idle => {
                each.failures.remove(key);
            }
            Next::After(wait) => {
                each.failures.remove(key);
                self.queue.push(index, key.clone(), later(now, wait));
            }
            Next::Retry => {
                let failures = each.failures.entry(key.clone()).or_default();
                let wait = RETRY_FIRST * 2_u32.saturating_pow((*failures).min(16));
                *failures += 1;
                self.queue.push(index, key.clone(), later(now, wait.min(RETRY_MAX)));
            }
        }
    }
}

// === impl Queue ===

impl Queue {
    /// Adds a key, or brings it forward if it is due later.
    fn push(&mut self, index: usize, key: Key, at: Timestamp) {
        let known = self.index.get(&(index, key.clone())).copied();
        if let Some(slot) = known {
            if slot.0 <= at {
                return;
            }
            self.due.remove(&slot);
        }
        let slot = (at, self.serial);
        self.serial += 1;
        self.due.insert(slot, (index, key.clone()));
        self.index.insert((index, key), slot);
    }

    fn take(&mut self, slot: (Timestamp, u64)) -> Option<(usize, Key)> {
        let work = self.due.remove(&slot)?;
        self.index.remove(&work);
        Some(work)
    }
}
