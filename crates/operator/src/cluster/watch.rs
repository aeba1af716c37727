//! Watches: one per kind, into the cache.
//!
//! Objects arrive as untyped JSON: a malformed one disturbs no other. A kind that the cluster does not serve
//! is retried with backoff, and marked in the cache. The same holds for a kind that is served no longer,
//! after a while without another answer: API servers of one cluster may start to serve a kind at different
//! times.

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use kube::{
    Api,
    api::{ApiResource, DynamicObject},
    runtime::watcher,
};
use serde_json::Value;
use tidegate_providers::{game::NODE, object::Kind};
use tracing::{debug, warn};

use super::{
    Cluster,
    cache::{Key, TableState},
};
use crate::clock::Clock;

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

/// Feeds the cache with all objects of a kind, until dropped.
pub(crate) async fn feed(
    cluster: Cluster,
    clock: Arc<dyn Clock>,
    kind: Kind,
    mut listener: impl Listener,
) {
    let resource = ApiResource {
        group: kind.group.to_owned(),
        version: kind.version.to_owned(),
        api_version: kind.api_version(),
        kind: kind.kind.to_owned(),
        plural: kind.plural.to_owned(),
    };
    let client = cluster.client_for(kind).clone();
    let api: Api<DynamicObject> = match &cluster.namespace {
        Some(namespace) if kind.is_namespaced() => {
            Api::namespaced_with(client, namespace, &resource)
        }
        _ => Api::all_with(client, &resource),
    };
    let mut config = watcher::Config::default();
    if kind == NODE {
        config = config.page_size(NODES_PER_PAGE);
    }
    let mut events = std::pin::pin!(watcher(api.clone(), config.clone()));
    let mut pauses = Pauses::default();
    let mut missing_since = None;
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => {
                // The start of a list does not mean that it succeeds.
                if !matches!(event, watcher::Event::Init) {
                    missing_since = None;
                }
                take(&cluster, kind, event, &mut listener);
            }
            Err(error) => {
                debug!(kind = kind.kind, %error, "Watch interrupted");
                let (code, now) = (code_of(&error), clock.monotonic());
                let state = failure(kind, code);
                missing_since = missing_since.or(Some(now)).filter(|_| code == Some(404));
                let is_gone = missing_since.is_some_and(|since| now >= since + GONE_AFTER);
                if is_gone
                    && cluster.is_claimed(kind)
                    && cluster.cache.vanished(kind, state.clone())
                {
                    warn!(kind = kind.kind, "A kind is no longer served; its watch is retried");
                    // When it is back it is listed: a watch would go on where this one ended.
                    events.set(watcher(api.clone(), config.clone()));
                }
                if is_refused(&error) {
                    listener.refused(state.failure().unwrap_or_default());
                }
                let why = match &state {
                    TableState::Failed(why) => Some(why.clone()),
                    // Most clusters lack most meshes.
                    TableState::Pending | TableState::Synced | TableState::NotServed(_) => None,
                };
                // The listener of nodes logs the consequences itself.
                let is_told = kind == NODE && is_refused(&error);
                if cluster.cache.failed(kind, state)
                    && !is_told
                    && let Some(why) = why
                {
                    warn!(kind = kind.kind, why, "A kind could not be listed; it is retried");
                }
                cluster.synced.notify_waiters();
                // No request is made before the stream is polled.
                let longest = if is_refused(&error) { REFUSED_MAX } else { PAUSE_MAX };
                clock.sleep(pauses.after_failure(clock.monotonic(), longest)).await;
            }
        }
    }
    warn!(kind = kind.kind, "Watch ended");
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

fn take(
    cluster: &Cluster,
    kind: Kind,
    event: watcher::Event<DynamicObject>,
    listener: &mut impl Listener,
) {
    let cache = &cluster.cache;
    match event {
        watcher::Event::Init => cache.list_begins(kind),
        watcher::Event::InitApply(object) => cache.list_has(kind, json(object)),
        watcher::Event::InitDone => {
            for key in cache.list_ends(kind) {
                listener.changed(&key);
            }
            listener.listed();
            cluster.synced.notify_waiters();
        }
        watcher::Event::Apply(object) => {
            let object = json(object);
            let key = Key::of(&object);
            if cache.insert_watched(kind, object) {
                listener.changed(&key);
            }
        }
        watcher::Event::Delete(object) => {
            let object = json(object);
            cache.remove_watched(kind, &object);
            listener.changed(&Key::of(&object));
        }
    }
}

fn json(object: DynamicObject) -> Value {
    // It was JSON when it arrived.
    serde_json::to_value(object).unwrap_or_default()
}

/// The code of the server's refusal, if it is one.
fn code_of(error: &watcher::Error) -> Option<u16> {
    if let watcher::Error::InitialListFailed(kube::Error::Api(status))
    | watcher::Error::WatchStartFailed(kube::Error::Api(status))
    | watcher::Error::WatchFailed(kube::Error::Api(status)) = error
    {
        return Some(status.code);
    }
    None
}

fn is_refused(error: &watcher::Error) -> bool {
    matches!(code_of(error), Some(403 | 404))
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
