//! Reads and writes.

use futures::{AsyncBufReadExt as _, TryStreamExt as _};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Namespace, Node, Pod, Secret, ServiceAccount},
};
use kube::{
    Api, ResourceExt as _,
    api::{
        DeleteParams, DynamicObject, EvictParams, GetParams, ListParams, LogParams, Patch,
        PatchParams, PostParams, Preconditions, PropagationPolicy, ValidationDirective,
    },
    core::{ApiResource, GroupVersionKind},
    discovery::{self, Discovery, Scope},
};
use serde_json::{Value, json};
use tidegate_api::Canary;
use tidegate_tests::wire::{config_map, deployment};

use super::{made, refused, soon, still};

fn post() -> PostParams {
    PostParams::default()
}

fn canary(name: &str) -> Value {
    json!({
        "apiVersion": "flagger.app/v1beta1", "kind": "Canary", "metadata": { "name": name },
        "spec": {
            "targetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": name },
            "service": { "port": 80 },
            "analysis": { "interval": "1m", "threshold": 5, "maxWeight": 50, "stepWeight": 10 },
        },
    })
}

fn canary_definitions() -> Vec<Value> {
    tidegate_api::crds().iter().map(|crd| serde_json::to_value(crd).unwrap()).collect()
}

#[tokio::test]
async fn typed_objects_are_made_read_changed_and_deleted() {
    let (_sandbox, client) = still();
    let api: Api<ConfigMap> = Api::default_namespaced(client);
    let created = api.create(&post(), &made(config_map("a", "1"))).await.unwrap();
    assert!(created.uid().is_some() && created.creation_timestamp().is_some());
    let mut read = api.get("a").await.unwrap();
    assert_eq!(read, created);
    read.data.as_mut().unwrap().insert("more".into(), "2".into());
    let replaced = api.replace("a", &post(), &read).await.unwrap();
    assert_ne!(replaced.resource_version(), created.resource_version());
    let stale = refused(api.replace("a", &post(), &created).await);
    assert!(stale.is_conflict(), "{stale:?}");
    let again = refused(api.create(&post(), &made(config_map("a", "1"))).await);
    assert!(again.is_already_exists(), "{again:?}");
    assert_eq!(again.details.unwrap().name, "a");
    let gone = api.delete("a", &DeleteParams::default()).await.unwrap();
    let status = gone.right().expect("what goes at once is answered with a status");
    assert!(status.is_success());
    let missing = refused(api.get("a").await);
    assert!(missing.is_not_found(), "{missing:?}");
    assert_eq!(missing.message, "configmaps \"a\" not found");
    assert!(api.get_opt("a").await.unwrap().is_none());
    let missing = refused(api.delete("a", &DeleteParams::default()).await);
    assert!(missing.is_not_found());
}

#[tokio::test]
async fn every_kind_of_failure_is_recognised() {
    let (_sandbox, client) = still();
    let api: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let bad = refused(api.create(&post(), &made(config_map("Not_A_Name", "1"))).await);
    assert!(bad.is_invalid() && bad.code == 422, "{bad:?}");
    let elsewhere: Api<ConfigMap> = Api::namespaced(client.clone(), "nowhere");
    let lost = refused(elsewhere.create(&post(), &made(config_map("a", "1"))).await);
    assert!(lost.is_not_found(), "{lost:?}");
    let namespaces: Api<Namespace> = Api::all(client);
    let kept = refused(namespaces.delete("default", &DeleteParams::default()).await);
    assert!(kept.is_forbidden(), "{kept:?}");
    api.create(&post(), &made(config_map("a", "1"))).await.unwrap();
    let other_uid = Preconditions { uid: Some("other".into()), ..Preconditions::default() };
    let params = DeleteParams::default().preconditions(other_uid);
    assert!(refused(api.delete("a", &params).await).is_conflict());
    let wrong = ListParams::default().labels("a==b==c");
    assert_eq!(refused(api.list(&wrong).await).code, 400);
}

#[tokio::test]
async fn all_four_patches_do_what_they_are_known_for() {
    let (_sandbox, client) = still();
    let api: Api<Deployment> = Api::default_namespaced(client);
    api.create(&post(), &made(deployment("web", 1, "x:1"))).await.unwrap();
    let plain = PatchParams::default();
    let merge = json!({ "metadata": { "labels": { "by": "merge" } }, "spec": { "replicas": 2 } });
    let merged = api.patch("web", &plain, &Patch::Merge(&merge)).await.unwrap();
    assert_eq!(merged.labels()["by"], "merge");
    assert_eq!(merged.spec.unwrap().replicas, Some(2));
    let strategic = json!({ "spec": { "template": { "spec": { "containers": [
        { "name": "main", "image": "x:2" }, { "name": "side", "image": "y:1" }] } } } });
    let strategic = api.patch("web", &plain, &Patch::Strategic(&strategic)).await.unwrap();
    let containers = strategic.spec.unwrap().template.spec.unwrap().containers;
    let images: Vec<_> = containers.iter().map(|c| c.image.clone().unwrap()).collect();
    assert_eq!(images.len(), 2, "{images:?}");
    assert!(images.contains(&"x:2".to_owned()));
    let operations = json!([
        { "op": "test", "path": "/spec/replicas", "value": 2 },
        { "op": "replace", "path": "/spec/replicas", "value": 3 },
    ]);
    let operations: kube::core::params::Patch<()> =
        Patch::Json(serde_json::from_value(operations).unwrap());
    let patched = api.patch("web", &plain, &operations).await.unwrap();
    assert_eq!(patched.spec.unwrap().replicas, Some(3));
    let failed = refused(api.patch("web", &plain, &operations).await);
    assert_eq!(failed.code, 422, "the test no longer holds: {failed:?}");
    let mine = json!({ "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": "web" }, "spec": { "replicas": 5 } });
    let apply = PatchParams::apply("tests");
    let contested = refused(api.patch("web", &apply, &Patch::Apply(&mine)).await);
    assert!(contested.is_conflict(), "{contested:?}");
    assert!(contested.message.contains(".spec.replicas"), "{}", contested.message);
    let forced = api.patch("web", &apply.force(), &Patch::Apply(&mine)).await.unwrap();
    let spec = forced.spec.as_ref().unwrap();
    assert_eq!(spec.replicas, Some(5));
    assert_eq!(spec.selector.match_labels.as_ref().unwrap()["app"], "web", "the rest is kept");
    assert_eq!(spec.template.spec.as_ref().unwrap().containers.len(), 2);
    let owner = |manager: &str| {
        forced.managed_fields().iter().any(|entry| entry.manager.as_deref() == Some(manager))
    };
    assert!(owner("tests"));
}

#[tokio::test]
async fn applying_what_generators_write_twice_changes_nothing() {
    let (_sandbox, client) = still();
    let api: Api<Deployment> = Api::default_namespaced(client);
    // As `kubectl create --dry-run=client -o yaml` prints it.
    let mut config = deployment("web", 1, "x:1");
    config["metadata"]["creationTimestamp"] = Value::Null;
    config["spec"]["strategy"] = json!({});
    config["spec"]["template"]["metadata"]["creationTimestamp"] = Value::Null;
    config["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({});
    config["status"] = json!({});
    let apply = PatchParams::apply("one");
    let first = api.patch("web", &apply, &Patch::Apply(&config)).await.unwrap();
    assert!(first.creation_timestamp().is_some());
    let second = api.patch("web", &apply, &Patch::Apply(&config)).await.unwrap();
    assert_eq!(second, first);
    let other = PatchParams::apply("two");
    config["spec"]["template"]["metadata"].as_object_mut().unwrap().remove("creationTimestamp");
    let third = api.patch("web", &other, &Patch::Apply(&config)).await.unwrap();
    assert_eq!(third.spec, first.spec, "the same wish is no conflict");
}

#[tokio::test]
async fn dry_runs_and_strict_validation_are_heard() {
    let (_sandbox, client) = still();
    let api: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let dry = PostParams { dry_run: true, field_manager: Some("tests".into()) };
    let shown = api.create(&dry, &made(config_map("a", "1"))).await.unwrap();
    assert!(shown.uid().is_some());
    assert!(api.get_opt("a").await.unwrap().is_none());
    let resource = ApiResource::erase::<Deployment>(&());
    let untyped: Api<DynamicObject> = Api::default_namespaced_with(client, &resource);
    untyped.create(&post(), &made(deployment("web", 1, "x:1"))).await.unwrap();
    let typo = Patch::Merge(json!({ "spec": { "replics": 2 } }));
    let strict = PatchParams {
        field_validation: Some(ValidationDirective::Strict),
        ..PatchParams::default()
    };
    let bad = refused(untyped.patch("web", &strict, &typo).await);
    assert!(bad.message.contains("spec.replics"), "{}", bad.message);
    untyped.patch("web", &PatchParams::default(), &typo).await.unwrap();
}

#[tokio::test]
async fn status_and_scale_are_written_apart_from_the_rest() {
    let (sandbox, client) = still();
    sandbox.load(canary_definitions()).unwrap();
    let api: Api<Canary> = Api::default_namespaced(client.clone());
    let created = api.create(&post(), &made(canary("web"))).await.unwrap();
    assert_eq!(created.metadata.generation, Some(1));
    let status = json!({ "status": { "phase": "Progressing", "canaryWeight": 10,
        "failedChecks": 0, "iterations": 0 } });
    let patched =
        api.patch_status("web", &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    assert_eq!(patched.metadata.generation, Some(1), "a status is no new wish");
    let mut replaced = patched.clone();
    replaced.spec.analysis = made(json!({ "interval": "9m", "threshold": 1 }));
    replaced.status.as_mut().unwrap().canary_weight = 20;
    let replaced = api.replace_status("web", &post(), &replaced).await.unwrap();
    assert_eq!(replaced.spec, created.spec, "the spec is not heard there");
    assert_eq!(replaced.status.as_ref().unwrap().canary_weight, 20);
    let read = api.get_status("web").await.unwrap();
    assert_eq!(read, replaced);
    let web: Api<Deployment> = Api::default_namespaced(client);
    web.create(&post(), &made(deployment("web", 1, "x:1"))).await.unwrap();
    let mut scale = web.get_scale("web").await.unwrap();
    assert_eq!(scale.spec.as_ref().unwrap().replicas, Some(1));
    scale.spec.as_mut().unwrap().replicas = Some(3);
    let scaled = web.replace_scale("web", &post(), &scale).await.unwrap();
    assert_eq!(scaled.spec.unwrap().replicas, Some(3));
    let late = refused(web.replace_scale("web", &post(), &scale).await);
    assert!(late.is_conflict());
    let patch = Patch::Merge(json!({ "spec": { "replicas": 2 } }));
    web.patch_scale("web", &PatchParams::default(), &patch).await.unwrap();
    sandbox.settle();
    let web = web.get("web").await.unwrap();
    assert_eq!(web.status.unwrap().ready_replicas, Some(2));
}

#[tokio::test]
async fn custom_resources_work_typed_and_untyped() {
    let (sandbox, client) = still();
    sandbox.load(canary_definitions()).unwrap();
    let typed: Api<Canary> = Api::default_namespaced(client.clone());
    let kind = GroupVersionKind::gvk("flagger.app", "v1beta1", "Canary");
    let (resource, capabilities) = discovery::pinned_kind(&client, &kind).await.unwrap();
    assert_eq!((resource.plural.as_str(), capabilities.scope), ("canaries", Scope::Namespaced));
    let untyped: Api<DynamicObject> = Api::default_namespaced_with(client, &resource);
    let created = untyped.create(&post(), &made(canary("web"))).await.unwrap();
    assert_eq!(created.types.as_ref().unwrap().kind, "Canary");
    let read = typed.get("web").await.unwrap();
    assert_eq!(read.uid(), created.uid());
    assert_eq!(read.spec.target_ref.name, "web");
    let mut changed = read.clone();
    changed.spec.skip_analysis = Some(true);
    let changed = typed.replace("web", &post(), &changed).await.unwrap();
    assert_eq!(changed.metadata.generation, Some(2));
    let listed = untyped.list(&ListParams::default()).await.unwrap();
    assert_eq!(listed.items[0].data["spec"]["skipAnalysis"], true);
    let bad = json!({ "spec": { "analysis": { "interval": 5 } } });
    let bad = typed.patch("web", &PatchParams::default(), &Patch::Merge(&bad)).await;
    assert!(refused(bad).is_invalid());
}

#[tokio::test]
async fn lists_select_page_and_show_metadata_alone() {
    let (_sandbox, client) = still();
    let api: Api<ConfigMap> = Api::default_namespaced(client.clone());
    for index in 0..7 {
        let mut map = config_map(&format!("m{index}"), "1");
        map["metadata"]["labels"] = json!({ "odd": (index % 2).to_string() });
        api.create(&post(), &made(map)).await.unwrap();
    }
    let odd = ListParams::default().labels("odd=1");
    assert_eq!(api.list(&odd).await.unwrap().items.len(), 3);
    let one = ListParams::default().fields("metadata.name=m2");
    assert_eq!(api.list(&one).await.unwrap().items.len(), 1);
    let mut page = ListParams::default().labels("odd in (0,1)").limit(3);
    let mut names = Vec::new();
    loop {
        let list = api.list(&page).await.unwrap();
        names.extend(list.items.iter().map(kube::ResourceExt::name_any));
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => break,
        }
    }
    assert_eq!(names, ["m0", "m1", "m2", "m3", "m4", "m5", "m6"]);
    let partial = api.list_metadata(&odd).await.unwrap();
    assert_eq!(partial.items.len(), 3);
    assert_eq!(partial.items[0].metadata.labels.as_ref().unwrap()["odd"], "1");
    let meta = api.get_metadata("m1").await.unwrap();
    assert_eq!(meta.types.unwrap().kind, "PartialObjectMetadata");
    let any: Api<ConfigMap> = Api::all(client);
    assert!(any.list(&ListParams::default()).await.unwrap().items.len() > 7);
    let get = api.get_with("m1", &GetParams::any()).await.unwrap();
    assert_eq!(get.name_any(), "m1");
}

#[tokio::test]
async fn deletions_go_one_by_one_together_and_down_the_line() {
    let (sandbox, client) = still();
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    for name in ["a", "b"] {
        let mut map = config_map(name, "1");
        map["metadata"]["labels"] = json!({ "app": "x" });
        maps.create(&post(), &made(map)).await.unwrap();
    }
    maps.create(&post(), &made(config_map("c", "1"))).await.unwrap();
    let selected = ListParams::default().labels("app=x");
    let deleted = maps.delete_collection(&DeleteParams::default(), &selected).await.unwrap();
    assert_eq!(deleted.left().expect("a list of what went").items.len(), 2);
    assert!(maps.get_opt("a").await.unwrap().is_none());
    assert!(maps.get_opt("c").await.unwrap().is_some());
    let web: Api<Deployment> = Api::default_namespaced(client.clone());
    web.create(&post(), &made(deployment("web", 2, "x:1"))).await.unwrap();
    sandbox.settle();
    let params = DeleteParams {
        propagation_policy: Some(PropagationPolicy::Foreground),
        ..DeleteParams::default()
    };
    let going = web.delete("web", &params).await.unwrap().left().expect("it waits for its own");
    assert_eq!(going.finalizers(), ["foregroundDeletion"]);
    sandbox.advance(std::time::Duration::from_mins(1));
    assert!(web.get_opt("web").await.unwrap().is_none());
    let pods: Api<Pod> = Api::default_namespaced(client);
    assert!(pods.list(&ListParams::default()).await.unwrap().items.is_empty());
}

#[tokio::test]
async fn pods_are_evicted_and_their_logs_read() {
    let (sandbox, client) = still();
    let web: Api<Deployment> = Api::default_namespaced(client.clone());
    web.create(&post(), &made(deployment("web", 1, "x:1"))).await.unwrap();
    sandbox.settle();
    let pods: Api<Pod> = Api::default_namespaced(client);
    let first = pods.list(&ListParams::default()).await.unwrap().items[0].name_any();
    let text = pods.logs(&first, &LogParams::default()).await.unwrap();
    let stream = pods.log_stream(&first, &LogParams::default()).await.unwrap();
    let lines: Vec<String> = soon(stream.lines().try_collect()).await.unwrap();
    assert_eq!(lines, text.lines().collect::<Vec<_>>());
    assert!(!lines.is_empty());
    let tail = LogParams { tail_lines: Some(1), ..LogParams::default() };
    assert_eq!(pods.logs(&first, &tail).await.unwrap().lines().count(), 1);
    pods.evict(&first, &EvictParams::default()).await.unwrap();
    sandbox.advance(std::time::Duration::from_mins(1));
    let second = pods.list(&ListParams::default()).await.unwrap().items[0].name_any();
    assert_ne!(first, second);
    let missing = refused(pods.evict(&first, &EvictParams::default()).await);
    assert!(missing.is_not_found());
}

#[tokio::test]
async fn helpers_for_single_kinds_work() {
    let (sandbox, client) = still();
    let web: Api<Deployment> = Api::default_namespaced(client.clone());
    web.create(&post(), &made(deployment("web", 1, "x:1"))).await.unwrap();
    let restarted = web.restart("web").await.unwrap();
    let template = restarted.spec.unwrap().template.metadata.unwrap();
    let annotations = template.annotations.unwrap();
    assert!(annotations.contains_key("kube.kubernetes.io/restartedAt"), "{annotations:?}");
    let nodes: Api<Node> = Api::all(client.clone());
    let node = nodes.list(&ListParams::default()).await.unwrap().items[0].name_any();
    assert_eq!(nodes.cordon(&node).await.unwrap().spec.unwrap().unschedulable, Some(true));
    nodes.uncordon(&node).await.unwrap();
    let accounts: Api<ServiceAccount> = Api::default_namespaced(client.clone());
    let token = accounts
        .create_token_request(
            "default",
            &post(),
            &made(json!({ "spec": {
        "audiences": [] } })),
        )
        .await;
    assert!(!token.unwrap().status.unwrap().token.unwrap().is_empty());
    let secrets: Api<Secret> = Api::default_namespaced(client);
    let secret = json!({ "metadata": { "name": "s" }, "stringData": { "key": "value" } });
    let secret = secrets.create(&post(), &made(secret)).await.unwrap();
    assert_eq!(secret.data.unwrap()["key"].0, b"value");
    sandbox.settle();
    let entry = secrets.entry("t").await.unwrap();
    assert!(entry.get().is_none());
}

#[tokio::test]
async fn discovery_finds_built_in_and_custom_kinds() {
    let (sandbox, client) = still();
    let version = client.apiserver_version().await.unwrap();
    assert_eq!((version.major.as_str(), version.minor.as_str()), ("1", "36"));
    let crds = canary_definitions();
    sandbox.load(crds.clone()).unwrap();
    for found in [
        Discovery::new(client.clone()).run().await.unwrap(),
        Discovery::new(client.clone()).run_aggregated().await.unwrap(),
    ] {
        for (group, version, kind, plural) in [
            ("", "v1", "Pod", "pods"),
            ("apps", "v1", "Deployment", "deployments"),
            ("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers"),
            ("flagger.app", "v1beta1", "Canary", "canaries"),
            ("tkex.tencent.com", "v1alpha1", "GameDeployment", "gamedeployments"),
        ] {
            let kind = GroupVersionKind::gvk(group, version, kind);
            let (resource, capabilities) = found.resolve_gvk(&kind).unwrap();
            assert_eq!(resource.plural, plural);
            assert!(capabilities.supports_operation(discovery::verbs::WATCH));
        }
    }
    let name = crds[0]["metadata"]["name"].as_str().unwrap();
    let definitions: Api<DynamicObject> = Api::all_with(
        client.clone(),
        &ApiResource::from_gvk(&GroupVersionKind::gvk(
            "apiextensions.k8s.io",
            "v1",
            "CustomResourceDefinition",
        )),
    );
    definitions.delete(name, &DeleteParams::default()).await.unwrap();
    sandbox.settle();
    let group = crds[0]["spec"]["group"].as_str().unwrap();
    let kind = crds[0]["spec"]["names"]["kind"].as_str().unwrap();
    let version = crds[0]["spec"]["versions"][0]["name"].as_str().unwrap();
    let gone = GroupVersionKind::gvk(group, version, kind);
    assert!(discovery::pinned_kind(&client, &gone).await.is_err());
}
