//! Watches: one per kind, into the cache.
//!
//! Objects arrive as JSON, whatever they hold: one that nobody can decode disturbs no other. A kind
//! the cluster does not serve is tried again with growing pauses, and says so in the cache meanwhile.

use futures::{StreamExt, TryStreamExt};
use kube::{
    Api,
    api::{ApiResource, DynamicObject},
    runtime::{WatchStreamExt, watcher},
};
use serde_json::Value;
use tidegate_providers::object::Kind;
use tracing::{debug, warn};

use super::{Cluster, cache::Key};

/// What a watch of canaries is told, besides the cache.
pub(crate) trait Listener: Send {
    /// Something about the object of this name changed, or it is gone.
    fn changed(&mut self, key: &Key);
}

/// Nobody else is interested.
pub(crate) struct Silent;

impl Listener for Silent {
    fn changed(&mut self, _: &Key) {}
}

/// Feeds the cache with all objects of a kind, until dropped.
pub(crate) async fn feed(cluster: Cluster, kind: Kind, mut listener: impl Listener) {
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
    let events = watcher(api, watcher::Config::default()).default_backoff();
    let mut events = std::pin::pin!(events.into_stream());
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => take(&cluster, kind, event, &mut listener),
            Err(error) => {
                debug!(kind = kind.kind, %error, "Watch interrupted");
                cluster.cache.failed(kind, describe(kind, &error));
                cluster.synced.notify_waiters();
            }
        }
    }
    warn!(kind = kind.kind, "Watch ended");
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
            cluster.synced.notify_waiters();
        }
        watcher::Event::Apply(object) => {
            let object = json(object);
            let key = Key::of(&object);
            if cache.observe(kind, object) {
                listener.changed(&key);
            }
        }
        watcher::Event::Delete(object) => {
            let object = json(object);
            cache.observe_deleted(kind, &object);
            listener.changed(&Key::of(&object));
        }
    }
}

fn json(object: DynamicObject) -> Value {
    // What came as JSON goes as JSON.
    serde_json::to_value(object).unwrap_or_default()
}

fn describe(kind: Kind, error: &watcher::Error) -> String {
    let cause = match error {
        watcher::Error::InitialListFailed(cause)
        | watcher::Error::WatchStartFailed(cause)
        | watcher::Error::WatchFailed(cause) => Some(cause),
        _ => None,
    };
    let api = kind.api_version();
    match cause {
        Some(kube::Error::Api(status)) if status.code == 404 => {
            format!("this cluster does not serve {} of {api}; install its definitions", kind.kind)
        }
        Some(kube::Error::Api(status)) if status.code == 403 => {
            format!("not allowed to watch {} of {api}; check the operator's role", kind.kind)
        }
        _ => format!("{} of {api} cannot be watched yet", kind.kind),
    }
}
