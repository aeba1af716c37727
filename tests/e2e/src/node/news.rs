//! Changes of pods and nodes, from a watch of each.

use std::collections::BTreeMap;

use futures::{StreamExt as _, TryStreamExt as _};
use kube::{
    Api, Client, ResourceExt as _,
    api::{ApiResource, DynamicObject},
    core::GroupVersionKind,
    runtime::{WatchStreamExt as _, watcher},
};
use kube_sandbox::{
    cluster::{NODES, PODS, Resource},
    controllers::Key,
};
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// An object was added or changed, or is deleted.
#[derive(Debug)]
pub(super) struct News {
    pub(super) resource: Resource,
    pub(super) key: Key,
    pub(super) object: Value,
    pub(super) is_gone: bool,
}

/// Watches until the receiver is dropped. Must be called within a runtime.
pub(super) fn listen(client: &Client) -> UnboundedReceiver<News> {
    let (sender, receiver) = unbounded_channel();
    for (resource, kind) in [(NODES, "Node"), (PODS, "Pod")] {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", kind));
        let api = Api::all_with(client.clone(), &kind);
        tokio::spawn(follow(api, resource, sender.clone()));
    }
    receiver
}

async fn follow(api: Api<DynamicObject>, resource: Resource, sender: UnboundedSender<News>) {
    let mut known: BTreeMap<Key, Value> = BTreeMap::new();
    let mut before = BTreeMap::new();
    let mut events =
        watcher(api, watcher::Config::default()).default_backoff().into_stream().boxed();
    while let Some(event) = events.next().await {
        let mut news = Vec::new();
        match event {
            // The watch retries by itself.
            Err(_) => {}
            Ok(watcher::Event::Init) => before = std::mem::take(&mut known),
            Ok(watcher::Event::InitApply(object) | watcher::Event::Apply(object)) => {
                let (key, object) = read(object);
                before.remove(&key);
                known.insert(key.clone(), object.clone());
                news.push((key, object, false));
            }
            // Known objects that are not listed were deleted between two watches.
            Ok(watcher::Event::InitDone) => {
                let gone = std::mem::take(&mut before).into_iter();
                news.extend(gone.map(|(key, object)| (key, object, true)));
            }
            Ok(watcher::Event::Delete(object)) => {
                let (key, object) = read(object);
                known.remove(&key);
                news.push((key, object, true));
            }
        }
        for (key, object, is_gone) in news {
            if sender.send(News { resource, key, object, is_gone }).is_err() {
                return;
            }
        }
    }
}

fn read(object: DynamicObject) -> (Key, Value) {
    let namespace = object.namespace().unwrap_or_default();
    let key = Key { namespace, name: object.name_any() };
    (key, serde_json::to_value(object).unwrap_or_default())
}
