//! Watches: answers that stream changes.
//!
//! A watcher holds a position in the log of its kind and reads on from there whenever the kind
//! changes, so a slow client costs no queue. One that falls behind the log gets 410 and has to list
//! again.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{FutureExt as _, StreamExt as _, stream};
use http_body::Frame;
use http_body_util::StreamBody;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::{BoxError, ResponseBody, negotiate::Format, render};
use crate::{
    clock::Sleep,
    failure::{Failure, Outcome},
    faults::{WatchAction, WatchPlan, WatchSignal},
    protobuf,
    registry::ResourceDef,
    request_log::Number,
    server::{
        Request, Selection, Server, empty_object,
        options::ListOptions,
        read::{parse_revision, too_old},
        version_bytes,
    },
    store::{Event, EventKind, Stored, to_bytes},
    table::{self, IncludeObject},
};

/// As kube-apiserver: one bookmark a minute, if requested.
const BOOKMARK_EVERY: Duration = Duration::from_mins(1);
/// As kube-apiserver: lets the next watch resume close to the end.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// Watches without a timeout of their own end after 30 to 60 minutes.
const TIMEOUT_MIN: Duration = Duration::from_mins(30);
/// Maximum number of events read from the log at once.
const BATCH: usize = 512;

struct Watcher {
    server: Arc<Server>,
    /// Its entry in the request log.
    number: Number,
    def: Arc<ResourceDef>,
    namespace: Option<String>,
    selection: Selection,
    format: Format,
    /// Everything up to this revision has been read.
    cursor: u64,
    /// The revision last sent: the limit for bookmarks of a watch that withholds events.
    sent_to: u64,
    changed: watch::Receiver<u64>,
    interrupted: watch::Receiver<u64>,
    plan: WatchPlan,
    /// Objects that existed at the start and were not sent yet.
    initial: VecDeque<Arc<Stored>>,
    /// Whether a bookmark marks the end of the initial objects.
    initial_end: bool,
    pending: VecDeque<Bytes>,
    deadline: std::pin::Pin<Box<Sleep>>,
    bookmark: Option<std::pin::Pin<Box<Sleep>>>,
    has_sent_headers: bool,
    flow: Flow,
}

/// State of the stream.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    Open,
    /// Nothing is sent, but the connection stays open.
    Silent,
    Over,
}

/// Starts a watch; returns content type and streaming body.
pub(super) fn start(
    server: &Arc<Server>,
    request: &Request,
    format: Format,
    number: Number,
) -> Outcome<(String, ResponseBody)> {
    let def = server.resolve(&request.info)?;
    if def.is_review() {
        return Err(Failure::method_not_allowed());
    }
    let options = ListOptions::parse(&request.query)?;
    let selection = Selection::parse(&def, &options, &request.info.name)?;
    let from = parse_revision(&options.resource_version)
        .map_err(|error| Failure::unclassified(error.to_string()))?;
    let timeout = options.timeout.filter(|timeout| !timeout.is_zero()).unwrap_or_else(|| {
        TIMEOUT_MIN + Duration::from_secs(server.random_below(TIMEOUT_MIN.as_secs()))
    });
    let namespace = Some(request.info.namespace.clone());
    let namespace = namespace.filter(|name| def.namespaced && !name.is_empty());
    let mut watcher = Watcher {
        plan: server.faults.on_watch_start(&request.info),
        changed: server.store.subscribe(&def.table),
        interrupted: server.interruptions(),
        deadline: Box::pin(server.clock.sleep(timeout)),
        bookmark: options.bookmarks.then(|| Box::pin(server.clock.sleep(first_bookmark(timeout)))),
        server: Arc::clone(server),
        number,
        namespace,
        selection,
        format,
        cursor: from,
        sent_to: from,
        initial: VecDeque::new(),
        initial_end: false,
        pending: VecDeque::new(),
        has_sent_headers: false,
        flow: Flow::Open,
        def,
    };
    watcher.begin(&options, from);
    let content_type = match format {
        Format::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
        _ => "application/json",
    };
    Ok((content_type.to_owned(), body(watcher)))
}

/// A watch that ends before the first regular bookmark has one before its end.
fn first_bookmark(timeout: Duration) -> Duration {
    let last_call = timeout.checked_sub(BOOKMARK_BEFORE_END).filter(|wait| !wait.is_zero());
    last_call.unwrap_or(BOOKMARK_EVERY).min(BOOKMARK_EVERY)
}

fn body(watcher: Watcher) -> ResponseBody {
    let frames = stream::unfold(watcher, |mut watcher| async move {
        let bytes = watcher.next().await?;
        Some((Ok::<_, BoxError>(Frame::data(bytes)), watcher))
    });
    // Fused: a body polled after its end reports the end again.
    ResponseBody::new(StreamBody::new(frames.fuse()))
}

// === impl Watcher ===

impl Watcher {
    /// Queues the existing objects, unless the client resumes at a revision or wants changes only.
    fn begin(&mut self, options: &ListOptions, from: u64) {
        let store = &self.server.store;
        match options.send_initial_events {
            Some(true) => {
                if let Err(failure) = self.server.check_not_future(from, Some(1)) {
                    return self.fail(&failure);
                }
            }
            None if from == 0 => {}
            // Changes from now on only.
            Some(false) if from == 0 => {
                self.cursor = store.revision();
                self.sent_to = self.cursor;
                return;
            }
            Some(false) | None => {
                if let Err(compacted) = store.check_remembered(&self.def.table, from) {
                    self.fail(&too_old(from, compacted));
                }
                return;
            }
        }
        let (revision, objects) = store.list(&self.def.table, self.namespace.as_deref());
        let selection = &self.selection;
        self.initial = objects.into_iter().filter(|each| selection.matches(each)).collect();
        self.initial_end = options.send_initial_events == Some(true) && options.bookmarks;
        self.cursor = revision;
        self.sent_to = revision;
    }

    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(frame) = self.pending.pop_front() {
                self.server.log.add_bytes(self.number, frame.len() as u64);
                return Some(frame);
            }
            if self.flow == Flow::Over || is_due(&mut self.deadline) {
                return None;
            }
            self.changed.borrow_and_update();
            self.interrupted.borrow_and_update();
            if !self.consult(WatchSignal::Wake).await {
                continue;
            }
            if self.flow != Flow::Silent {
                self.read().await;
            }
            if self.pending.is_empty() && self.flow != Flow::Over {
                self.wait().await;
            }
        }
    }

    /// Queues the next frames: initial objects, their end bookmark, then changes.
    async fn read(&mut self) {
        for _ in 0..self.batch() {
            let Some(object) = self.initial.front().cloned() else { break };
            self.deliver("ADDED", &object, WatchSignal::Initial).await;
            if self.flow != Flow::Open {
                return;
            }
            self.initial.pop_front();
        }
        if !self.initial.is_empty() {
            return;
        }
        if std::mem::take(&mut self.initial_end) {
            let end = json!({ "k8s.io/initial-events-end": "true" });
            let frame = self.bookmark_frame(&end);
            self.pending.push_back(frame);
        }
        self.read_log().await;
        if self.pending.is_empty() && !self.server.serves(&self.def) {
            self.flow = Flow::Over;
        }
        // A busy watch has its bookmarks too.
        let is_due = !self.pending.is_empty() && self.bookmark.as_mut().is_some_and(is_due);
        if is_due && self.flow == Flow::Open {
            self.send_bookmark().await;
        }
    }

    /// Number of events to queue at once. With faults it is one: a pause after an event must not
    /// delay that event.
    fn batch(&self) -> usize {
        if self.plan.is_uneventful() { BATCH } else { 1 }
    }

    async fn read_log(&mut self) {
        match self.server.store.events_since(&self.def.table, self.cursor, self.batch()) {
            Err(compacted) => self.fail(&too_old(self.cursor, compacted)),
            Ok((events, seen_to)) => {
                for event in events {
                    if let Some((kind, object)) = self.seen(&event) {
                        self.deliver(kind, &object, WatchSignal::Event).await;
                    }
                    if self.flow != Flow::Open {
                        return;
                    }
                    self.cursor = event.revision;
                }
                // A watch from a future revision waits for it.
                self.cursor = self.cursor.max(seen_to);
            }
        }
    }

    async fn deliver(&mut self, kind: &str, object: &Stored, signal: WatchSignal) {
        let action = self.server.faults.on_watch_event(&mut self.plan, signal);
        let copies = match action {
            WatchAction::Send => 1,
            WatchAction::SendTwice => 2,
            WatchAction::Withhold => 0,
            WatchAction::Stall(lasting) => {
                if !self.stall(lasting).await {
                    return;
                }
                1
            }
            WatchAction::FallSilent => {
                self.flow = Flow::Silent;
                return;
            }
            WatchAction::Close => {
                self.flow = Flow::Over;
                return;
            }
            WatchAction::Fail(failure) => return self.fail(&failure),
        };
        for _ in 0..copies {
            let frame = self.frame(kind, object);
            self.pending.push_back(frame);
        }
        if copies > 0 {
            self.sent_to = self.sent_to.max(object.revision);
        }
    }

    /// Pauses the stream. False if the watch ended meanwhile.
    async fn stall(&mut self, lasting: Duration) -> bool {
        let mut over = Box::pin(self.server.clock.sleep(lasting));
        loop {
            tokio::select! {
                biased;
                result = self.interrupted.changed() => {
                    let wake = WatchSignal::Wake;
                    match self.server.faults.on_watch_event(&mut self.plan, wake) {
                        WatchAction::Fail(failure) => self.fail(&failure),
                        WatchAction::Close => self.flow = Flow::Over,
                        _ => self.end_if(result.is_err()),
                    }
                }
                () = &mut self.deadline => self.flow = Flow::Over,
                () = &mut over => return true,
            }
            if self.flow == Flow::Over {
                return false;
            }
        }
    }

    /// A change as seen through the selection, which an object may enter or leave.
    fn seen(&self, event: &Event) -> Option<(&'static str, Arc<Stored>)> {
        let object = &event.object;
        if self.namespace.as_ref().is_some_and(|name| **name != *object.key.namespace) {
            return None;
        }
        let before = event.previous.as_ref().is_some_and(|old| self.selection.matches(old));
        let after = event.kind != EventKind::Deleted && self.selection.matches(object);
        let kind = match (before, after) {
            (false, true) => "ADDED",
            (true, true) => "MODIFIED",
            (true, false) => "DELETED",
            (false, false) => return None,
        };
        if kind == "DELETED" && event.kind != EventKind::Deleted {
            // It left the selection: its last state inside, with the revision of the change.
            let previous = event.previous.as_ref()?;
            let mut last = previous.value();
            last["metadata"]["resourceVersion"] = event.revision.to_string().into();
            return Some((kind, Arc::new(Stored::new(&last, event.revision))));
        }
        Some((kind, Arc::clone(object)))
    }

    /// Checks for faults before `signal`; false if a frame was queued or the stream ended.
    async fn consult(&mut self, signal: WatchSignal) -> bool {
        match self.server.faults.on_watch_event(&mut self.plan, signal) {
            WatchAction::Send | WatchAction::SendTwice | WatchAction::Withhold => true,
            WatchAction::Stall(lasting) => self.stall(lasting).await,
            WatchAction::FallSilent => {
                self.flow = Flow::Silent;
                true
            }
            WatchAction::Close => {
                self.flow = Flow::Over;
                false
            }
            WatchAction::Fail(failure) => {
                self.fail(&failure);
                false
            }
        }
    }

    async fn wait(&mut self) {
        let never = std::future::pending::<()>();
        let bookmark = self.bookmark.as_mut();
        tokio::select! {
            biased;
            result = self.interrupted.changed() => {
                // The server has shut down.
                self.end_if(result.is_err());
            }
            () = &mut self.deadline => self.flow = Flow::Over,
            result = self.changed.changed() => self.end_if(result.is_err()),
            () = async { match bookmark { Some(due) => due.await, None => never.await } } => {
                self.send_bookmark().await;
            }
        }
    }

    async fn send_bookmark(&mut self) {
        self.bookmark = Some(Box::pin(self.server.clock.sleep(BOOKMARK_EVERY)));
        // Writes of other kinds may have moved the store on: a bookmark with that revision saves a
        // later relist.
        self.read_log().await;
        // A watch from a future revision hears nothing, not even bookmarks, until the store gets there.
        let is_future = self.cursor > self.server.store.revision();
        if self.flow == Flow::Open && !is_future && self.consult(WatchSignal::Bookmark).await {
            let frame = self.bookmark_frame(&Value::Null);
            self.pending.push_back(frame);
        }
    }

    fn end_if(&mut self, is_over: bool) {
        if is_over {
            self.flow = Flow::Over;
        }
    }

    fn fail(&mut self, failure: &Failure) {
        let frame = self.event("ERROR", &to_bytes(&failure.to_status()));
        self.pending.push_back(frame);
        self.flow = Flow::Over;
    }

    fn frame(&mut self, kind: &str, object: &Stored) -> Bytes {
        let bytes = version_bytes(&self.def, object);
        let bytes = match self.format {
            Format::Table(include) => {
                let table = self.table(&parse(&bytes), include);
                to_bytes(&table)
            }
            Format::Metadata | Format::MetadataList => {
                to_bytes(&render::metadata_only(&parse(&bytes)))
            }
            Format::Json | Format::Yaml | Format::Protobuf => bytes,
        };
        self.event(kind, &bytes)
    }

    /// A bookmark at the revision read so far, including writes of other kinds.
    fn bookmark_frame(&mut self, annotations: &Value) -> Bytes {
        let revision = if self.plan.withholds_events() { self.sent_to } else { self.cursor };
        let mut object = empty_object(&self.def);
        object["metadata"]["resourceVersion"] = revision.to_string().into();
        if !annotations.is_null() {
            object["metadata"]["annotations"] = annotations.clone();
        }
        let object = match self.format {
            Format::Table(include) => {
                // The end bookmark is sent even to clients that want no objects.
                let include = match include {
                    IncludeObject::None if !annotations.is_null() => IncludeObject::Metadata,
                    other => other,
                };
                self.table(&object, include)
            }
            Format::Metadata | Format::MetadataList => render::metadata_only(&object),
            Format::Json | Format::Yaml | Format::Protobuf => object,
        };
        self.event("BOOKMARK", &to_bytes(&object))
    }

    /// A table with one row; the first one of a watch includes the column definitions.
    fn table(&mut self, object: &Value, include: IncludeObject) -> Value {
        let layout = render::layout(&self.def, object);
        let headers = !std::mem::replace(&mut self.has_sent_headers, true);
        table::to_table(&layout, object, include, headers, self.server.clock.now())
    }

    fn event(&self, kind: &str, object: &[u8]) -> Bytes {
        if self.format == Format::Protobuf
            && let Some(frame) = protobuf::encode_watch_event(kind, &parse(object))
        {
            return frame.into();
        }
        let mut out = Vec::with_capacity(object.len() + 40);
        out.extend_from_slice(b"{\"type\":\"");
        out.extend_from_slice(kind.as_bytes());
        out.extend_from_slice(b"\",\"object\":");
        out.extend_from_slice(object);
        out.extend_from_slice(b"}\n");
        out.into()
    }
}

fn is_due(sleep: &mut std::pin::Pin<Box<Sleep>>) -> bool {
    sleep.as_mut().now_or_never().is_some()
}

fn parse(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or(Value::Null)
}
