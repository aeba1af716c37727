//! A reconciler.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use futures::StreamExt as _;
use k8s_openapi::api::{
    core::v1::{ConfigMap, ObjectReference, Secret},
    events::v1::Event as ClusterEvent,
};
use kube::{
    Api, Client, Resource as _, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
    runtime::{
        Controller,
        controller::{self, Action},
        events::{Event, EventType, Recorder, Reporter},
        finalizer::{Event as Finalizing, finalizer},
        watcher,
    },
};
use kube_sandbox::faults::{Effect, Matcher, When};
use serde_json::json;
use tidegate_tests::wire::config_map;

use super::{made, running, soon, still};

const FINALIZER: &str = "example.com/cleanup";

struct Shared {
    client: Client,
    runs: AtomicU32,
    cleaned: AtomicU32,
}

/// Every ConfigMap labelled `app=x` gets a Secret with its value, which is deleted with it.
async fn reconcile(map: Arc<ConfigMap>, shared: Arc<Shared>) -> Result<Action, kube::Error> {
    shared.runs.fetch_add(1, Ordering::SeqCst);
    let maps: Api<ConfigMap> = Api::default_namespaced(shared.client.clone());
    let secrets: Api<Secret> = Api::default_namespaced(shared.client.clone());
    let handled = finalizer(&maps, FINALIZER, map, |event| async {
        match event {
            Finalizing::Apply(map) => {
                let secret = json!({
                    "apiVersion": "v1", "kind": "Secret",
                    "metadata": {
                        "name": map.name_any(),
                        "ownerReferences": [map.controller_owner_ref(&()).unwrap()],
                    },
                    "stringData": map.data,
                });
                let apply = PatchParams::apply("tests").force();
                secrets.patch(&map.name_any(), &apply, &Patch::Apply(&secret)).await?;
            }
            Finalizing::Cleanup(_) => {
                shared.cleaned.fetch_add(1, Ordering::SeqCst);
            }
        }
        Ok::<_, kube::Error>(Action::await_change())
    });
    handled.await.map_err(|error| kube::Error::Service(Box::new(error)))
}

fn start(client: &Client) -> (Arc<Shared>, tokio::task::JoinHandle<()>) {
    let (runs, cleaned) = (AtomicU32::new(0), AtomicU32::new(0));
    let shared = Arc::new(Shared { client: client.clone(), runs, cleaned });
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let secrets: Api<Secret> = Api::default_namespaced(client.clone());
    let retry = |_: Arc<ConfigMap>, _: &kube::Error, _: Arc<Shared>| {
        Action::requeue(Duration::from_millis(5))
    };
    let config = watcher::Config::default().labels("app=x");
    let work = Controller::new(maps, config)
        .owns(secrets, watcher::Config::default())
        .with_config(controller::Config::default().debounce(Duration::from_millis(1)))
        .run(reconcile, retry, Arc::clone(&shared));
    let task = tokio::spawn(work.for_each(|_| futures::future::ready(())));
    (shared, task)
}

async fn until(mut is_so: impl AsyncFnMut() -> bool) {
    soon(async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

fn labelled(name: &str) -> ConfigMap {
    let mut map = config_map(name, "1");
    map["metadata"]["labels"] = json!({ "app": "x" });
    made(map)
}

#[tokio::test]
async fn a_controller_brings_the_world_about_and_keeps_it() {
    let (_sandbox, client) = running();
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let secrets: Api<Secret> = Api::default_namespaced(client.clone());
    let (shared, task) = start(&client);
    maps.create(&PostParams::default(), &labelled("a")).await.unwrap();
    let value = async || {
        let secret = secrets.get_opt("a").await.unwrap()?;
        String::from_utf8(secret.data?.remove("value")?.0).ok()
    };
    until(async || value().await.as_deref() == Some("1")).await;
    assert_eq!(maps.get("a").await.unwrap().finalizers(), [FINALIZER]);
    let patch = Patch::Merge(json!({ "data": { "value": "2" } }));
    maps.patch("a", &PatchParams::default(), &patch).await.unwrap();
    until(async || value().await.as_deref() == Some("2")).await;
    // An owned object that another client deletes is created again.
    secrets.delete("a", &DeleteParams::default()).await.unwrap();
    until(async || value().await.as_deref() == Some("2")).await;
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    until(async || maps.get_opt("a").await.unwrap().is_none()).await;
    until(async || secrets.get_opt("a").await.unwrap().is_none()).await;
    assert_eq!(shared.cleaned.load(Ordering::SeqCst), 1);
    task.abort();
}

#[tokio::test]
async fn a_controller_gets_there_though_a_third_of_its_writes_fail() {
    let (sandbox, client) = running();
    let faults = &sandbox.server().faults;
    for effect in [Effect::Conflict, Effect::ServerError { code: 500 }, Effect::LoseAnswer] {
        let mine = Matcher::writes().user("kubernetes-admin");
        faults.add(mine, When::Share(0.12), effect);
    }
    let other = sandbox.service_as(kube_sandbox::server::User::named("other"));
    let maps: Api<ConfigMap> = Api::default_namespaced(Client::new(other, "default"));
    let (shared, task) = start(&client);
    for index in 0..10 {
        maps.create(&PostParams::default(), &labelled(&format!("m{index}"))).await.unwrap();
    }
    let secrets: Api<Secret> = Api::default_namespaced(client);
    until(async || secrets.list(&ListParams::default()).await.unwrap().items.len() == 10).await;
    for index in 0..10 {
        maps.delete(&format!("m{index}"), &DeleteParams::default()).await.unwrap();
    }
    until(async || secrets.list(&ListParams::default()).await.unwrap().items.is_empty()).await;
    assert!(faults.injected().total() > 0);
    assert!(shared.runs.load(Ordering::SeqCst) >= 20);
    task.abort();
}

#[tokio::test]
async fn an_idle_controller_asks_for_nothing() {
    let (sandbox, client) = running();
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let secrets: Api<Secret> = Api::default_namespaced(client.clone());
    let (shared, task) = start(&client);
    maps.create(&PostParams::default(), &labelled("a")).await.unwrap();
    until(async || secrets.get_opt("a").await.unwrap().is_some()).await;
    let log = &sandbox.server().log;
    // Its own writes come back as changes once; applying the same again changes nothing.
    let mut runs = 0;
    until(async || {
        let before = std::mem::replace(&mut runs, shared.runs.load(Ordering::SeqCst));
        tokio::time::sleep(Duration::from_millis(30)).await;
        before == shared.runs.load(Ordering::SeqCst) && before > 0
    })
    .await;
    let mark = log.mark();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let asked = log.matching_since(mark, |entry| &*entry.user == "kubernetes-admin");
    assert!(asked.is_empty(), "{asked:?}");
    task.abort();
}

#[tokio::test]
async fn recorded_events_are_stored_and_counted_up() {
    let (_sandbox, client) = still();
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let map = maps.create(&PostParams::default(), &labelled("a")).await.unwrap();
    let reporter = Reporter { controller: "tests".into(), instance: Some("one".into()) };
    let recorder = Recorder::new(client.clone(), reporter);
    let event = Event {
        type_: EventType::Warning,
        reason: "Tested".into(),
        note: Some("so it was".into()),
        action: "Testing".into(),
        secondary: None,
    };
    let reference: ObjectReference = map.object_ref(&());
    for _ in 0..3 {
        recorder.publish(&event, &reference).await.unwrap();
    }
    let events: Api<ClusterEvent> = Api::default_namespaced(client);
    let found = events.list(&ListParams::default()).await.unwrap().items;
    let mine: Vec<_> =
        found.iter().filter(|event| event.reason.as_deref() == Some("Tested")).collect();
    assert_eq!(mine.len(), 1, "one event, counted");
    assert_eq!(mine[0].regarding.as_ref().unwrap().uid, map.uid());
    assert_eq!(mine[0].series.as_ref().unwrap().count, 3);
    assert_eq!(mine[0].type_.as_deref(), Some("Warning"));
}
