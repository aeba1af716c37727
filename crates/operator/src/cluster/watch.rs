//! Watches: one per kind, into the cache.
//!
//! ```text
//! list ──► watch ──► watch from where it ended ──► ...
//!   ▲        │ connection lost, or silent
//!   └── probe: one page of a list; a server that went back is found out ──► super::rewind
//! ```
//!
//! API servers send a bookmark a minute to each watch, so a watch that hears nothing for longer is not to be
//! trusted: its connection may hang, or its version be one of the future. A healthy watch costs no request but
//! its own, every five minutes.
//!
//! Objects arrive as untyped JSON: a malformed one disturbs no other. A kind that the cluster does not serve
//! is retried with backoff, and marked in the cache. The same holds for a kind that is served no longer,
//! after a while without another answer: API servers of one cluster may start to serve a kind at different
//! times.

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use kube::{
    Api, Error,
    api::{ApiResource, DynamicObject, ListParams, WatchEvent, WatchParams},
};
use serde_json::Value;
use tidegate_providers::{game::NODE, object::Kind};
use tracing::{debug, warn};

use super::{
    Cluster,
    cache::{Key, TableState},
    rewind::is_older,
};
use crate::{clock::Clock, telemetry::Telemetry};

/// The pause after a watch failed; twice that after each further failure, up to the longest.
const PAUSE_FIRST: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Longest pause where the cluster has no such kind, or RBAC forbids it: only a person can change that.
const REFUSED_MAX: Duration = Duration::from_mins(5);
/// A failure this long after the previous one starts again with the first pause. A server that always lists
/// and never watches does not get there: its lists would cost the most.
const QUIET: Duration = Duration::from_mins(2);

/// A kind that was listed counts as gone after it was not found for this long.
const GONE_AFTER: Duration = Duration::from_mins(1);

/// After an outage of this length everything is listed: an API server that is restored from a backup may have got to
/// the version of the watch meanwhile.
const OUTAGE: Duration = Duration::from_mins(1);

/// The server ends a watch after this time; kube-rs reads for 295 s at most.
const LIFE: Duration = Duration::from_secs(290);
/// A connection that ends earlier than this before its time was lost.
const LIFE_SLACK: Duration = Duration::from_secs(5);
/// A connection is given up after this time without events and bookmarks: two bookmarks, and half a minute.
const SILENCE_MAX: Duration = Duration::from_secs(150);
/// A watch is silent after so many silent connections in a row, which is five minutes.
const SILENT_CONNECTIONS: u32 = 2;

const OBJECTS_PER_PAGE: u32 = 500;
/// Nodes are large, 100 KiB with all their images, and there may be thousands: one page of them is held
/// at a time.
const NODES_PER_PAGE: u32 = 100;

/// Receives the changes of a watch, besides the cache.
pub(crate) trait Listener: Send {
    /// Something about the object of this name changed, or it is gone.
    fn changed(&mut self, key: &Key);

    /// A list is complete, after [`Listener::changed`] for each change.
    fn listed(&mut self) {}

    /// The cluster has no such kind, or RBAC forbids it; with a sentence for people.
    fn refused(&mut self, _why: &str) {}
}

/// For kinds without a listener.
pub(crate) struct Silent;

impl Listener for Silent {
    fn changed(&mut self, _: &Key) {}
}

/// How long to wait after failures.
#[derive(Default)]
struct Pauses {
    /// The last failure's time and the pause after it.
    last: Option<(Duration, Duration)>,
}

/// The watch of one kind.
pub(crate) struct Watch<L> {
    cluster: Cluster,
    clock: Arc<dyn Clock>,
    telemetry: Arc<Telemetry>,
    kind: Kind,
    api: Api<DynamicObject>,
    listener: L,
    next: Next,
    /// The version up to which everything was heard; empty before the first list.
    heard_to: String,
    /// Silent connections since something was heard.
    silences: u32,
    /// The server sends bookmarks to this watch: only then is silence a fault.
    has_bookmarks: bool,
    pauses: Pauses,
    missing_since: Option<Duration>,
    failing_since: Option<Duration>,
}

/// The next request of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// Everything is listed.
    List,
    /// One page is listed, to see whether the watch can go on where it ended. Most kinds have no more.
    Probe,
    /// The watch goes on.
    Listen,
}

// === impl Watch ===

impl<L: Listener> Watch<L> {
    pub(crate) fn new(
        cluster: Cluster,
        clock: Arc<dyn Clock>,
        telemetry: Arc<Telemetry>,
        kind: Kind,
        listener: L,
    ) -> Self {
        let resource = ApiResource {
            group: kind.group.to_owned(),
            version: kind.version.to_owned(),
            api_version: kind.api_version(),
            kind: kind.kind.to_owned(),
            plural: kind.plural.to_owned(),
        };
        let client = cluster.client_for(kind).clone();
        let api = match &cluster.namespace {
            Some(namespace) if kind.is_namespaced() => {
                Api::namespaced_with(client, namespace, &resource)
            }
            _ => Api::all_with(client, &resource),
        };
        Self {
            cluster,
            clock,
            telemetry,
            kind,
            api,
            listener,
            next: Next::List,
            heard_to: String::new(),
            silences: 0,
            has_bookmarks: false,
            pauses: Pauses::default(),
            missing_since: None,
            failing_since: None,
        }
    }

    /// Feeds the cache with all objects of the kind, until dropped.
    pub(crate) async fn feed(mut self) {
        loop {
            let outcome = match self.next {
                Next::List | Next::Probe => self.list().await,
                Next::Listen => self.listen().await,
            };
            if let Err(error) = outcome {
                self.failed(&error).await;
            }
        }
    }

    /// Lists everything; a probe of a large kind ends after the first page, if that is as it is known.
    async fn list(&mut self) -> Result<(), Error> {
        let cache = &self.cluster.cache;
        cache.list_begins(self.kind);
        let page = if self.kind == NODE { NODES_PER_PAGE } else { OBJECTS_PER_PAGE };
        let mut params = ListParams::default().limit(page);
        let version = loop {
            let list = self.api.list(&params).await?;
            let version = list.metadata.resource_version.unwrap_or_default();
            let token = list.metadata.continue_.filter(|token| !token.is_empty());
            if self.next == Next::Probe && token.is_some() {
                let is_known = !is_older(&version, &self.heard_to) && self.knows(list.items);
                self.next = if is_known { Next::Listen } else { Next::List };
                (self.missing_since, self.failing_since) = (None, None);
                cache.list_is_dropped(self.kind);
                return Ok(());
            }
            for object in list.items {
                cache.list_has(self.kind, json(object));
            }
            match token {
                Some(token) => params = params.continue_token(&token),
                None => break version,
            }
        };
        if is_older(&version, &self.heard_to)
            || cache.list_is_from_the_past(self.kind, &self.heard_to)
        {
            self.went_back("list");
        }
        (self.missing_since, self.failing_since) = (None, None);
        self.heard_to = version;
        self.next = Next::Listen;
        for key in cache.list_ends(self.kind) {
            self.listener.changed(&key);
        }
        self.listener.listed();
        self.cluster.synced.notify_waiters();
        self.set_silent(self.has_bookmarks && self.silences >= SILENT_CONNECTIONS);
        Ok(())
    }

    /// Whether these objects are in the cache, as far as the watch has heard of their versions.
    fn knows(&self, objects: Vec<DynamicObject>) -> bool {
        let mut heard = objects.into_iter().filter(|it| !is_older(&self.heard_to, version_of(it)));
        heard.all(|object| self.cluster.cache.knows(self.kind, json(object), &self.heard_to))
    }

    /// Watches from where it ended, until the connection ends or falls silent.
    async fn listen(&mut self) -> Result<(), Error> {
        let params = WatchParams::default().timeout(u32::try_from(LIFE.as_secs()).unwrap_or(290));
        let start = self.clock.monotonic();
        self.next = Next::Probe;
        let mut events = self.api.watch(&params, &self.heard_to).await?.boxed();
        (self.missing_since, self.failing_since) = (None, None);
        let (mut heard_at, mut is_deaf) = (start, true);
        loop {
            let patience = (heard_at + SILENCE_MAX).saturating_sub(self.clock.monotonic());
            let event = tokio::select! {
                biased;
                event = events.next() => event,
                () = self.clock.sleep(patience) => {
                    self.fell_silent();
                    return Ok(());
                }
            };
            match event {
                Some(Ok(event)) => self.take(event)?,
                // The next event may be readable.
                Some(Err(Error::SerdeError(error))) => {
                    debug!(kind = self.kind.kind, %error, "An event cannot be read");
                    continue;
                }
                Some(Err(error)) => return Err(error),
                None => break,
            }
            (heard_at, is_deaf) = (self.clock.monotonic(), false);
        }
        let lasted = self.clock.monotonic().saturating_sub(start);
        if lasted + LIFE_SLACK >= LIFE {
            self.next = Next::Listen;
        } else if lasted < PAUSE_FIRST && is_deaf {
            // The server accepts watches and ends them at once.
            let pause = self.pauses.after_failure(self.clock.monotonic(), PAUSE_MAX);
            self.clock.sleep(pause).await;
        }
        Ok(())
    }

    fn take(&mut self, event: WatchEvent<DynamicObject>) -> Result<(), Error> {
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                self.hear(version_of(&object));
                let object = json(object);
                let key = Key::of(&object);
                if self.cluster.cache.insert_watched(self.kind, object) {
                    self.listener.changed(&key);
                }
            }
            WatchEvent::Deleted(object) => {
                self.hear(version_of(&object));
                let object = json(object);
                self.cluster.cache.remove_watched(self.kind, &object);
                self.listener.changed(&Key::of(&object));
            }
            WatchEvent::Bookmark(bookmark) => {
                self.has_bookmarks = true;
                self.hear(&bookmark.metadata.resource_version);
            }
            WatchEvent::Error(status) => {
                if status.code == 410 {
                    self.next = Next::List;
                }
                return Err(Error::Api(status));
            }
        }
        Ok(())
    }

    fn hear(&mut self, version: &str) {
        if is_older(version, &self.heard_to) {
            self.went_back("watch");
        }
        version.clone_into(&mut self.heard_to);
        self.silences = 0;
        self.set_silent(false);
    }

    fn fell_silent(&mut self) {
        self.silences += 1;
        debug!(kind = self.kind.kind, connections = self.silences, "A watch is silent");
        // Without bookmarks there may be nothing to hear.
        if self.has_bookmarks && self.silences.is_multiple_of(SILENT_CONNECTIONS) {
            self.next = Next::List;
        }
    }

    fn set_silent(&self, is_silent: bool) {
        let mut silent = self.cluster.silent.lock();
        let was_silent =
            if is_silent { !silent.insert(self.kind) } else { silent.remove(&self.kind) };
        if is_silent == was_silent {
            return;
        }
        self.telemetry.set_watch_silent(self.kind, is_silent);
        if is_silent {
            warn!(
                kind = self.kind.kind,
                "A watch hears nothing although the server answers; its kind is listed again and again"
            );
        }
    }

    /// The supervisor ends this watch with all others.
    fn went_back(&self, what: &str) {
        let (kind, heard_to) = (self.kind.kind, &self.heard_to);
        self.cluster.went_back(&format!("a {what} of {kind} is from before version {heard_to}"));
    }

    /// Marks the kind in the cache, and waits.
    async fn failed(&mut self, error: &Error) {
        let (cluster, kind, now) = (&self.cluster, self.kind, self.clock.monotonic());
        debug!(kind = kind.kind, %error, "Watch interrupted");
        let code = code_of(error);
        let state = failure(kind, code);
        self.missing_since = self.missing_since.or(Some(now)).filter(|_| code == Some(404));
        let is_gone = self.missing_since.is_some_and(|since| now >= since + GONE_AFTER);
        if is_gone && cluster.is_claimed(kind) && cluster.cache.vanished(kind, state.clone()) {
            warn!(kind = kind.kind, "A kind is no longer served; its watch is retried");
            // When it is back it is listed: a watch would go on where this one ended.
            self.next = Next::List;
        }
        if now >= *self.failing_since.get_or_insert(now) + OUTAGE {
            self.next = Next::List;
        }
        let is_refused = matches!(code, Some(403 | 404));
        if is_refused {
            self.listener.refused(state.failure().unwrap_or_default());
        }
        let why = match &state {
            TableState::Failed(why) => Some(why.clone()),
            // Most clusters lack most meshes.
            TableState::Pending | TableState::Synced | TableState::NotServed(_) => None,
        };
        // The listener of nodes logs the consequences itself.
        let is_told = kind == NODE && is_refused;
        if cluster.cache.failed(kind, state)
            && !is_told
            && let Some(why) = why
        {
            warn!(kind = kind.kind, why, "A kind could not be listed; it is retried");
        }
        cluster.synced.notify_waiters();
        let longest = if is_refused { REFUSED_MAX } else { PAUSE_MAX };
        let pause = self.pauses.after_failure(now, longest);
        self.clock.sleep(pause).await;
    }
}

// === impl Pauses ===

impl Pauses {
    fn after_failure(&mut self, now: Duration, longest: Duration) -> Duration {
        let pause = match self.last {
            Some((at, pause)) if now.saturating_sub(at) < pause + QUIET => pause * 2,
            _ => PAUSE_FIRST,
        };
        let pause = pause.min(longest);
        self.last = Some((now, pause));
        pause
    }
}

fn json(object: DynamicObject) -> Value {
    // It was JSON when it arrived.
    serde_json::to_value(object).unwrap_or_default()
}

fn version_of(object: &DynamicObject) -> &str {
    object.metadata.resource_version.as_deref().unwrap_or_default()
}

/// The code of the server's refusal, if it is one.
fn code_of(error: &Error) -> Option<u16> {
    if let Error::Api(status) = error { Some(status.code) } else { None }
}

/// The state of the kind after this error. Only "not found" says that there is no such kind: a passing error must
/// not look like one.
fn failure(kind: Kind, code: Option<u16>) -> TableState {
    let (api, name) = (kind.api_version(), kind.kind);
    match code {
        Some(404) => TableState::NotServed(format!(
            "this cluster does not serve {name} of {api}; install its definitions"
        )),
        Some(403) => TableState::Failed(format!(
            "not allowed to watch {name} of {api}; check the operator's role"
        )),
        _ => TableState::Failed(format!("{name} of {api} cannot be watched yet")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_with_failures_in_a_row_and_start_over_after_quiet_times() {
        let mut pauses = Pauses::default();
        let mut now = Duration::ZERO;
        let mut seen = Vec::new();
        for _ in 0..8 {
            let pause = pauses.after_failure(now, PAUSE_MAX);
            seen.push(pause.as_secs());
            now += pause;
        }
        assert_eq!(seen, [1, 2, 4, 8, 16, 30, 30, 30]);
        assert_eq!(pauses.after_failure(now + Duration::from_mins(1), PAUSE_MAX), PAUSE_MAX);
        assert_eq!(pauses.after_failure(now + Duration::from_mins(10), PAUSE_MAX), PAUSE_FIRST);
    }
}
