//! Watchers, stores, waiting.

use std::{collections::BTreeMap, sync::Arc};

use futures::{Stream, StreamExt as _, TryStreamExt as _};
use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        core::v1::{ConfigMap, Pod},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{
        DeleteParams, PartialObjectMeta, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
    },
    runtime::{
        WatchStreamExt as _, predicates, reflector,
        wait::{await_condition, conditions},
        watcher::{self, Event, watcher},
    },
};
use kube_sandbox::faults::{Effect, Interruption, Matcher, WatchFault, When};
use serde_json::json;
use tidegate_tests::wire::{config_map, deployment};

use super::{made, running, soon, still};

async fn create(api: &Api<ConfigMap>, name: &str) {
    let mut map = config_map(name, "1");
    map["metadata"]["labels"] = json!({ "app": "x" });
    api.create(&PostParams::default(), &made(map)).await.unwrap();
}

async fn set(api: &Api<ConfigMap>, name: &str, value: &str) {
    let patch = Patch::Merge(json!({ "data": { "value": value } }));
    api.patch(name, &PatchParams::default(), &patch).await.unwrap();
}

/// The next event in short.
async fn next<S>(events: &mut S) -> String
where
    S: Stream<Item = Result<Event<ConfigMap>, watcher::Error>> + Unpin,
{
    match soon(events.next()).await {
        Some(Ok(Event::Init)) => "init".into(),
        Some(Ok(Event::InitApply(map))) => format!("init {}", map.name_any()),
        Some(Ok(Event::InitDone)) => "done".into(),
        Some(Ok(Event::Apply(map))) => format!("apply {}", map.name_any()),
        Some(Ok(Event::Delete(map))) => format!("delete {}", map.name_any()),
        Some(Err(error)) => format!("error: {error}"),
        None => "end".into(),
    }
}

fn ways() -> [(&'static str, watcher::Config); 3] {
    let config = watcher::Config::default().labels("app=x");
    [
        ("list and watch", config.clone()),
        ("list in pages", config.clone().page_size(1)),
        ("streaming list", config.streaming_lists()),
    ]
}

#[tokio::test]
async fn a_watcher_lists_and_then_follows() {
    for (way, config) in ways() {
        let (_sandbox, client) = still();
        let api: Api<ConfigMap> = Api::default_namespaced(client);
        create(&api, "a").await;
        create(&api, "b").await;
        let mut events = watcher(api.clone(), config).boxed();
        for want in ["init", "init a", "init b", "done"] {
            assert_eq!(next(&mut events).await, want, "{way}");
        }
        create(&api, "c").await;
        set(&api, "a", "2").await;
        api.delete("b", &DeleteParams::default()).await.unwrap();
        let unlabelled = Patch::Merge(json!({ "metadata": { "labels": { "app": "y" } } }));
        api.patch("c", &PatchParams::default(), &unlabelled).await.unwrap();
        for want in ["apply c", "apply a", "delete b", "delete c"] {
            assert_eq!(next(&mut events).await, want, "{way}");
        }
    }
}

#[tokio::test]
async fn a_watcher_survives_closed_and_expired_watches() {
    for (way, config) in ways() {
        let (sandbox, client) = still();
        let api: Api<ConfigMap> = Api::default_namespaced(client);
        create(&api, "a").await;
        let faults = &sandbox.server().faults;
        let mut events = watcher(api.clone(), config).boxed();
        for want in ["init", "init a", "done"] {
            assert_eq!(next(&mut events).await, want, "{way}");
        }
        let before = faults.injected().total();
        create(&api, "b").await;
        assert_eq!(next(&mut events).await, "apply b", "{way}");
        faults.interrupt_watches(Matcher::any(), Interruption::Close);
        create(&api, "c").await;
        assert_eq!(next(&mut events).await, "apply c", "{way}: it resumes without a list");
        faults.interrupt_watches(Matcher::any(), Interruption::Gone);
        create(&api, "d").await;
        let mut seen = Vec::new();
        while seen.last().map(String::as_str) != Some("done") {
            seen.push(next(&mut events).await);
        }
        let listed: Vec<_> = seen.iter().filter(|what| what.starts_with("init ")).collect();
        assert_eq!(listed, ["init a", "init b", "init c", "init d"], "{way}: {seen:?}");
        assert_eq!(faults.injected().total(), before + 2, "{way}");
    }
}

#[tokio::test]
async fn a_watcher_whose_version_was_compacted_starts_over() {
    let (sandbox, client) = still();
    let api: Api<ConfigMap> = Api::default_namespaced(client);
    create(&api, "a").await;
    let mut events = watcher(api.clone(), watcher::Config::default().labels("app=x")).boxed();
    for want in ["init", "init a", "done"] {
        assert_eq!(next(&mut events).await, want);
    }
    let faults = &sandbox.server().faults;
    let silent = WatchFault::CloseAfter { events: 0 };
    let rule = faults.add(Matcher::any(), When::Always, Effect::Watch(silent));
    create(&api, "b").await;
    faults.interrupt_watches(Matcher::any(), Interruption::Close);
    sandbox.server().store.compact();
    create(&api, "c").await;
    faults.remove(rule);
    let mut seen = Vec::new();
    while seen.last().map(String::as_str) != Some("done") {
        seen.push(next(&mut events).await);
    }
    assert!(seen.contains(&"init c".to_owned()), "{seen:?}");
}

#[tokio::test]
async fn a_raw_watch_delivers_bookmarks_and_every_kind_of_event() {
    let (sandbox, client) = still();
    let api: Api<ConfigMap> = Api::default_namespaced(client);
    let params = WatchParams::default().labels("app=x").timeout(120);
    let mut events = api.watch(&params, "0").await.unwrap().boxed();
    create(&api, "a").await;
    set(&api, "a", "2").await;
    api.delete("a", &DeleteParams::default()).await.unwrap();
    let mut kinds = Vec::new();
    for _ in 0..3 {
        kinds.push(match soon(events.try_next()).await.unwrap().unwrap() {
            WatchEvent::Added(_) => "added",
            WatchEvent::Modified(_) => "modified",
            WatchEvent::Deleted(_) => "deleted",
            WatchEvent::Bookmark(_) => "bookmark",
            WatchEvent::Error(_) => "error",
        });
    }
    assert_eq!(kinds, ["added", "modified", "deleted"]);
    sandbox.advance(std::time::Duration::from_mins(1));
    let bookmark = soon(events.try_next()).await.unwrap();
    assert!(matches!(bookmark, Some(WatchEvent::Bookmark(_))), "{bookmark:?}");
    sandbox.advance(std::time::Duration::from_mins(1));
    // The last bookmark may be due at the same moment as the end.
    while let Some(event) = soon(events.try_next()).await.unwrap() {
        assert!(matches!(event, WatchEvent::Bookmark(_)), "{event:?}");
    }
}

#[tokio::test]
async fn a_store_holds_what_the_cluster_holds() {
    let (_sandbox, client) = still();
    let api: Api<ConfigMap> = Api::default_namespaced(client);
    for (way, config) in ways() {
        let (store, writer) = reflector::store();
        let mut touched = reflector(writer, watcher(api.clone(), config)).applied_objects().boxed();
        let follow = tokio::spawn(async move { while touched.next().await.is_some() {} });
        soon(store.wait_until_ready()).await.unwrap();
        for name in ["a", "b", "c"] {
            create(&api, name).await;
        }
        set(&api, "b", "2").await;
        api.delete("a", &DeleteParams::default()).await.unwrap();
        let values = || -> BTreeMap<String, String> {
            let state = store.state();
            let value = |map: &Arc<ConfigMap>| map.data.as_ref().unwrap()["value"].clone();
            state.iter().map(|map| (map.name_any(), value(map))).collect()
        };
        let want = BTreeMap::from([("b".into(), "2".into()), ("c".into(), "1".into())]);
        soon(async {
            while values() != want {
                tokio::task::yield_now().await;
            }
        })
        .await;
        follow.abort();
        for name in ["b", "c"] {
            api.delete(name, &DeleteParams::default()).await.unwrap();
        }
        assert!(!way.is_empty());
    }
}

#[tokio::test]
async fn a_metadata_watcher_gets_metadata_only() {
    for (way, config) in ways() {
        let (_sandbox, client) = still();
        let api: Api<ConfigMap> = Api::default_namespaced(client.clone());
        create(&api, "a").await;
        let partial: Api<PartialObjectMeta<ConfigMap>> = Api::default_namespaced(client);
        let mut objects = watcher(partial, config).applied_objects().boxed();
        let first = soon(objects.try_next()).await.unwrap().unwrap();
        assert_eq!(first.name_any(), "a", "{way}");
        assert_eq!(first.types.as_ref().unwrap().kind, "PartialObjectMetadata");
        assert_eq!(first.labels()["app"], "x");
        assert!(first.resource_version().is_some());
        set(&api, "a", "2").await;
        let second = soon(objects.try_next()).await.unwrap().unwrap();
        assert!(second.resource_version() > first.resource_version(), "{way}");
    }
}

#[tokio::test]
async fn a_predicate_lets_only_new_generations_pass() {
    let (_sandbox, client) = still();
    let api: Api<Deployment> = Api::default_namespaced(client);
    api.create(&PostParams::default(), &made(deployment("web", 1, "x:1"))).await.unwrap();
    let stream = watcher(api.clone(), watcher::Config::default()).applied_objects();
    let mut changes = stream
        .predicate_filter(predicates::generation, kube::runtime::PredicateConfig::default())
        .boxed();
    assert_eq!(soon(changes.try_next()).await.unwrap().unwrap().metadata.generation, Some(1));
    let label = Patch::Merge(json!({ "metadata": { "labels": { "a": "b" } } }));
    let status = Patch::Merge(json!({ "status": { "observedGeneration": 1 } }));
    let spec = Patch::Merge(json!({ "spec": { "replicas": 2 } }));
    api.patch("web", &PatchParams::default(), &label).await.unwrap();
    api.patch_status("web", &PatchParams::default(), &status).await.unwrap();
    api.patch("web", &PatchParams::default(), &spec).await.unwrap();
    let next = soon(changes.try_next()).await.unwrap().unwrap();
    assert_eq!(next.metadata.generation, Some(2));
}

#[tokio::test]
async fn waiting_ends_when_the_condition_holds() {
    let (sandbox, client) = running();
    let web: Api<Deployment> = Api::default_namespaced(client.clone());
    let wait =
        tokio::spawn(await_condition(web.clone(), "web", conditions::is_deployment_completed()));
    web.create(&PostParams::default(), &made(deployment("web", 2, "x:1"))).await.unwrap();
    let done = soon(wait).await.unwrap().unwrap().unwrap();
    assert_eq!(done.status.unwrap().available_replicas, Some(2));
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let pod = pods.list(&kube::api::ListParams::default()).await.unwrap().items.remove(0);
    let (name, uid) = (pod.name_any(), pod.uid().unwrap());
    let running = await_condition(pods.clone(), &name, conditions::is_pod_running());
    soon(running).await.unwrap();
    pods.delete(&name, &DeleteParams::default()).await.unwrap();
    soon(await_condition(pods, &name, conditions::is_deleted(&uid))).await.unwrap();
    let crd = serde_json::to_value(&tidegate_api::crds()[0]).unwrap();
    let definitions: Api<CustomResourceDefinition> = Api::all(client);
    let name = crd["metadata"]["name"].as_str().unwrap().to_owned();
    sandbox.load(vec![crd]).unwrap();
    soon(await_condition(definitions, &name, conditions::is_crd_established())).await.unwrap();
}

#[tokio::test]
async fn two_watchers_over_a_socket_see_the_same() {
    let (sandbox, _) = running();
    let listener = sandbox.listen(std::net::SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let uri: http::Uri = format!("http://{}", listener.address).parse().unwrap();
    let client = Client::try_from(kube::Config::new(uri)).unwrap();
    let api: Api<ConfigMap> = Api::default_namespaced(client);
    let [(_, listing), _, (_, streaming)] = ways();
    let mut one = watcher(api.clone(), listing).boxed();
    let mut two = watcher(api.clone(), streaming).boxed();
    for want in ["init", "done"] {
        assert_eq!(next(&mut one).await, want);
        assert_eq!(next(&mut two).await, want);
    }
    create(&api, "a").await;
    api.delete("a", &DeleteParams::default()).await.unwrap();
    for want in ["apply a", "delete a"] {
        assert_eq!(next(&mut one).await, want);
        assert_eq!(next(&mut two).await, want);
    }
    drop((one, two));
    listener.stop().await;
}
