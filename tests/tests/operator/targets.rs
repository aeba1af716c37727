//! Targets other than Deployments, and scalers other than `HorizontalPodAutoscaler`: mistakes of other
//! controllers with them. The numbers are those of `docs/mistakes.md`.

use kube_sandbox::{
    cluster::{Cluster as _, NODES},
    controllers::keda_crds,
    dataplane::routing_crds,
    faults::{Effect, Matcher, When},
    request::Verb,
};
use serde_json::{Value, json};
use tidegate_tests::rollout::{
    CANARIES, DAEMON_SETS, DEPLOYMENTS, OPERATOR, SCALED_OBJECTS, SERVICES, World, canary,
    daemon_set, deployment, scaled_object,
};

use crate::stage::{
    GATEWAY_API, blue_green, by_weight, canary_of, condition, kill_pods, mark, object, reach,
    reasons, text, told, writes_since,
};

const SCALE_TO_ZERO: &str = "flagger.app/scale-to-zero";
const PAUSED: &str = "autoscaling.keda.sh/paused-replicas";

/// A canary of the `DaemonSet` `web`.
fn of_daemons() -> Value {
    let mut canary = canary("web", "kubernetes", blue_green());
    canary["spec"]["targetRef"]["kind"] = json!("DaemonSet");
    canary
}

/// The `DaemonSet` `web` and its canary on three nodes, before the operator starts.
fn with_daemons(set: Value, canary: Value) -> World {
    let world = World::new();
    let node = world.admin.list(NODES, None).remove(0);
    for name in ["second", "third"] {
        let mut other = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name } });
        for field in ["spec", "status"] {
            other[field] = node[field].clone();
        }
        other["metadata"]["labels"] = node["metadata"]["labels"].clone();
        other["metadata"]["labels"]["kubernetes.io/hostname"] = json!(name);
        world.admin.create(NODES, "", other).expect("the node is accepted");
    }
    world.create(DAEMON_SETS, set);
    world.create(CANARIES, canary);
    world
}

async fn initialized_daemons() -> World {
    let mut world = with_daemons(daemon_set("web", "web:1.0"), of_daemons());
    world.start().await;
    reach(&world, "Initialized").await;
    world
}

/// A Deployment that KEDA scales, and its canary.
async fn initialized_keda() -> World {
    let mut world = World::new();
    world.sandbox.load(keda_crds()).expect("definitions are accepted");
    world.create(DEPLOYMENTS, deployment("web", "web:1.0", 2));
    world.create(SCALED_OBJECTS, scaled_object("web", 2, 4));
    let mut canary = canary("web", "kubernetes", blue_green());
    canary["spec"]["autoscalerRef"] =
        json!({ "apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "name": "web" });
    world.create(CANARIES, canary);
    world.start().await;
    reach(&world, "Initialized").await;
    world
}

fn release(world: &World, image: &str) {
    let ports = json!([{ "containerPort": 8080 }]);
    let containers = json!([{ "name": "app", "image": image, "ports": ports }]);
    let template = json!({ "spec": { "containers": containers } });
    world.patch(DAEMON_SETS, "web", &json!({ "spec": { "template": template } }));
}

fn is_parked(world: &World, name: &str) -> bool {
    let set = object(world, DAEMON_SETS, name);
    set["spec"]["template"]["spec"]["nodeSelector"].get(SCALE_TO_ZERO).is_some()
}

fn available(world: &World, name: &str) -> i64 {
    object(world, DAEMON_SETS, name)["status"]["numberAvailable"].as_i64().unwrap_or(0)
}

fn is_paused(world: &World, name: &str) -> bool {
    object(world, SCALED_OBJECTS, name)["metadata"]["annotations"][PAUSED] == "0"
}

#[tokio::test(start_paused = true)]
async fn a_daemon_set_is_copied_to_every_node_and_kept_from_them() {
    let world = initialized_daemons().await;
    assert!(is_parked(&world, "web") && !is_parked(&world, "web-primary"));
    assert_eq!((available(&world, "web"), available(&world, "web-primary")), (0, 3));
    let primary = object(&world, DAEMON_SETS, "web-primary");
    assert_eq!(primary["spec"]["selector"]["matchLabels"], json!({ "app": "web-primary" }));
    assert_eq!(primary["metadata"]["ownerReferences"][0]["kind"], "Canary");
}

#[tokio::test(start_paused = true)]
async fn a_selector_of_the_users_own_is_kept() {
    let mut set = daemon_set("web", "web:1.0");
    set["spec"]["template"]["spec"]["nodeSelector"] = json!({ "kubernetes.io/os": "linux" });
    let mut canary = of_daemons();
    canary["spec"]["revertOnDeletion"] = json!(true);
    let mut world = with_daemons(set, canary);
    world.start().await;
    reach(&world, "Initialized").await;
    let nodes = |name: &str| {
        object(&world, DAEMON_SETS, name)["spec"]["template"]["spec"]["nodeSelector"].clone()
    };
    let own = json!({ "kubernetes.io/os": "linux" });
    assert_eq!(nodes("web-primary"), own);
    assert_eq!(nodes("web"), json!({ "kubernetes.io/os": "linux", SCALE_TO_ZERO: "true" }));
    world.delete(CANARIES, "web");
    assert!(world.until(120, |world| world.get(CANARIES, "web").is_none()).await);
    assert_eq!(nodes("web"), own, "as the user had it");
}

// Mistake 6 of docs/mistakes.md.
#[tokio::test(start_paused = true)]
async fn a_primary_made_again_is_not_kept_from_the_nodes() {
    let world = initialized_daemons().await;
    assert!(is_parked(&world, "web"));
    world.delete(DAEMON_SETS, "web-primary");
    assert!(world.until(60, |world| available(world, "web-primary") == 3).await);
    assert!(!is_parked(&world, "web-primary"));
}

// Mistake 5 of docs/mistakes.md.
#[tokio::test(start_paused = true)]
async fn daemons_that_fit_no_node_do_not_pass() {
    let world = initialized_daemons().await;
    let template = json!({ "spec": { "nodeSelector": { "disk": "none-has-this" } } });
    world.patch(DAEMON_SETS, "web", &json!({ "spec": { "template": template } }));
    reach(&world, "Progressing").await;
    world.advance_s(300).await;
    assert_eq!(world.phase("web"), "Progressing");
    let (_, reason, message) = condition(&world, "web", "Reconciling");
    assert_eq!(reason, "CanaryNotReady", "{message}");
    assert!(message.contains("0 pods are asked for"), "{message}");
}

// Mistake 29 of docs/mistakes.md.
#[tokio::test(start_paused = true)]
async fn a_pod_that_is_missing_for_a_moment_after_a_long_rest_fails_nothing() {
    let world = initialized_daemons().await;
    world.advance_s(3600).await;
    release(&world, "web:2.0");
    reach(&world, "Progressing").await;
    world.advance_s(5).await;
    for app in ["web", "web-primary"] {
        kill_pods(&world, app);
    }
    reach(&world, "Succeeded").await;
    assert_eq!(told(&world, "Failed"), 0);
}

// Mistake 29 of docs/mistakes.md.
#[tokio::test(start_paused = true)]
async fn operators_that_start_again_and_again_give_daemons_one_deadline() {
    let mut canary = of_daemons();
    canary["spec"]["progressDeadlineSeconds"] = json!(60);
    let mut world = with_daemons(daemon_set("web", "web:1.0"), canary);
    world.start().await;
    reach(&world, "Initialized").await;
    release(&world, "web:2.0-never-ready");
    for _ in 0..3 {
        world.advance_s(18).await;
        assert_eq!(world.phase("web"), "Progressing", "{:#}", world.status("web"));
        world.kill();
        world.start().await;
    }
    let is_back = world.until(20, |world| world.phase("web") == "Failed").await;
    assert!(is_back, "{:#}", world.status("web"));
    assert_eq!(told(&world, "ProgressDeadlineExceeded"), 1);
    assert!(is_parked(&world, "web"));
    let memory = world.status("web")["rollout"].clone();
    assert_eq!(memory["canaryLackingSince"], Value::Null, "it is over: {memory}");
}

#[tokio::test(start_paused = true)]
async fn a_target_of_another_kind_and_of_one_name_is_refused_with_the_reason() {
    let mut world = with_daemons(daemon_set("web", "web:1.0"), of_daemons());
    world.create(DEPLOYMENTS, deployment("web", "web:1.0", 2));
    world.start().await;
    reach(&world, "Initialized").await;
    let mut newer = canary("newer", "kubernetes", blue_green());
    newer["spec"]["targetRef"]["name"] = json!("web");
    world.create(CANARIES, newer);
    world.advance_s(30).await;
    let (status, reason, message) = condition(&world, "newer", "Stalled");
    assert_eq!((&*status, &*reason), ("True", "Refused"), "{message}");
    assert!(message.contains("canary `web` has the DaemonSet `web` as its target"), "{message}");
    assert!(message.contains("the same names"), "{message}");
    assert_eq!(world.get(DEPLOYMENTS, "web-primary"), None);
}

// Mistake 34 of docs/mistakes.md.
#[tokio::test(start_paused = true)]
async fn daemons_at_rest_cost_no_write() {
    let world = initialized_daemons().await;
    world.advance_s(60).await;
    let mark = mark(&world);
    world.advance_s(3600).await;
    assert_eq!(writes_since(&world, mark), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_daemon_set_that_is_updated_by_hand_is_refused() {
    let mut set = daemon_set("web", "web:1.0");
    set["spec"]["updateStrategy"] = json!({ "type": "OnDelete" });
    let mut world = with_daemons(set, of_daemons());
    world.start().await;
    world.advance_s(30).await;
    let (status, _, message) = condition(&world, "web", "Stalled");
    assert_eq!(status, "True");
    assert!(message.contains("OnDelete") && message.contains("RollingUpdate"), "{message}");
    assert!(!is_parked(&world, "web") && world.get(DAEMON_SETS, "web-primary").is_none());
    let strategy = json!({ "spec": { "updateStrategy": { "type": "RollingUpdate" } } });
    world.patch(DAEMON_SETS, "web", &strategy);
    reach(&world, "Initialized").await;
}

#[tokio::test(start_paused = true)]
async fn daemons_that_cannot_be_looked_at_are_not_taken_for_gone() {
    let mut canary = of_daemons();
    canary["spec"]["revertOnDeletion"] = json!(true);
    let mut world = with_daemons(daemon_set("web", "web:1.0"), canary);
    let lists = Matcher::any().user(OPERATOR).resource("apps", "daemonsets").verbs([Verb::List]);
    let forbidden = Effect::FailBefore { code: 403, reason: "Forbidden" };
    world.sandbox.server().faults.add(lists, When::Always, forbidden);
    world.start().await;
    world.advance_s(30).await;
    let (_, _, message) = condition(&world, "web", "Stalled");
    assert!(message.contains("not allowed to watch DaemonSet"), "{message}");
    world.sandbox.server().faults.clear();
    let there = world.until(600, |world| world.phase("web") == "Initialized").await;
    assert!(there, "{:#}", world.status("web"));
}

#[tokio::test(start_paused = true)]
async fn daemons_flagger_left_are_taken_over_without_a_rollout() {
    let mut target = daemon_set("web", "web:1.0");
    target["spec"]["template"]["spec"]["nodeSelector"] = json!({ SCALE_TO_ZERO: "true" });
    let mut world = with_daemons(target, of_daemons());
    let mut primary = daemon_set("web-primary", "web:1.0");
    // Its fingerprints and identifiers mean nothing to us.
    let id = json!({ "flagger-id": "2f1c9a3e-7f0b-4c57-9d7e-0a4be1f0d6c1" });
    primary["spec"]["template"]["metadata"]["annotations"] = id;
    primary["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "flagger.app/v1beta1", "kind": "Canary", "name": "web",
        "uid": object(&world, CANARIES, "web")["metadata"]["uid"],
        "controller": true, "blockOwnerDeletion": true,
    }]);
    world.create(DAEMON_SETS, primary);
    let status = json!({ "status": {
        "phase": "Succeeded", "lastAppliedSpec": "5c6d7f8b9d", "lastPromotedSpec": "5c6d7f8b9d",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    } });
    let patched = world.admin.patch(CANARIES, "default", "web", "status", &status);
    patched.expect("the status is accepted");
    world.advance_s(30).await;
    let before = object(&world, DAEMON_SETS, "web-primary")["metadata"]["generation"].clone();
    world.start().await;
    world.advance_s(120).await;
    assert_eq!(world.phase("web"), "Succeeded");
    assert!(is_parked(&world, "web"));
    let after = object(&world, DAEMON_SETS, "web-primary")["metadata"]["generation"].clone();
    assert_eq!(before, after, "no pod was restarted");
    assert_eq!(told(&world, "NewRevision"), 0, "{:?}", reasons(&world));
    release(&world, "web:2.0");
    reach(&world, "Progressing").await;
    reach(&world, "Succeeded").await;
}

// Mistake 7 of docs/mistakes.md.
#[tokio::test(start_paused = true)]
async fn a_scaled_object_made_again_is_not_paused() {
    let world = initialized_keda().await;
    assert!(is_paused(&world, "web"));
    world.delete(SCALED_OBJECTS, "web-primary");
    assert!(world.until(60, |world| world.get(SCALED_OBJECTS, "web-primary").is_some()).await);
    world.advance_s(120).await;
    assert!(!is_paused(&world, "web-primary"));
    let primary = object(&world, DEPLOYMENTS, "web-primary");
    assert_eq!(primary["spec"]["replicas"], 2, "KEDA did not take it down");
}

// Mistake 7 of docs/mistakes.md.
#[tokio::test(start_paused = true)]
async fn a_primary_that_flagger_left_paused_at_zero_is_let_go() {
    let mut world = initialized_keda().await;
    world.kill();
    let paused = json!({ "metadata": { "annotations": { PAUSED: "0" } } });
    world.patch(SCALED_OBJECTS, "web-primary", &paused);
    world.advance_s(60).await;
    let primary = |world: &World| object(world, DEPLOYMENTS, "web-primary");
    assert_eq!(primary(&world)["spec"]["replicas"], 0, "that is how it was left");
    world.start().await;
    world.advance_s(60).await;
    assert!(!is_paused(&world, "web-primary"));
    assert!(primary(&world)["spec"]["replicas"].as_i64() > Some(0), "{:#}", primary(&world));
    assert!(is_paused(&world, "web"), "the target's stays");
    let at_rest = mark(&world);
    world.advance_s(600).await;
    assert_eq!(writes_since(&world, at_rest), Vec::<String>::new());
}

// Mistake 5 of docs/mistakes.md.
#[tokio::test(start_paused = true)]
async fn a_primary_that_keda_took_to_zero_is_waited_for_and_that_is_said() {
    let world = initialized_keda().await;
    let triggers = |mark: Value| {
        let annotations = json!({ "sandbox.tidegate.dev/triggers": mark });
        let metadata = json!({ "annotations": annotations });
        json!({ "metadata": metadata, "spec": { "minReplicaCount": 0 } })
    };
    world.patch(SCALED_OBJECTS, "web-primary", &triggers(json!("idle")));
    world.advance_s(60).await;
    assert_eq!(object(&world, DEPLOYMENTS, "web-primary")["spec"]["replicas"], 0);
    let containers = json!([{ "name": "app", "image": "web:2.0" }]);
    let template = json!({ "spec": { "template": { "spec": { "containers": containers } } } });
    world.patch(DEPLOYMENTS, "web", &template);
    world.advance_s(600).await;
    assert_eq!(world.phase("web"), "Initialized", "there would be no way back");
    assert_eq!(object(&world, DEPLOYMENTS, "web")["spec"]["replicas"], 0);
    let (_, reason, message) = condition(&world, "web", "Reconciling");
    assert_eq!(reason, "PrimaryNotReady", "{message}");
    assert!(message.contains("0 replicas are asked for, at least 1 has to run"), "{message}");
    // Demand for replicas.
    world.patch(SCALED_OBJECTS, "web-primary", &triggers(Value::Null));
    reach(&world, "Succeeded").await;
}

// Mistake 19 of docs/mistakes.md.
#[tokio::test(start_paused = true)]
async fn a_users_scaled_object_of_the_name_is_left_alone() {
    let mut world = World::new();
    world.sandbox.load(keda_crds()).expect("definitions are accepted");
    world.create(DEPLOYMENTS, deployment("web", "web:1.0", 2));
    world.create(SCALED_OBJECTS, scaled_object("web", 2, 4));
    let users = world.create(SCALED_OBJECTS, scaled_object("web-primary", 7, 9));
    let mut canary = canary("web", "kubernetes", blue_green());
    canary["spec"]["autoscalerRef"] =
        json!({ "apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "name": "web" });
    world.create(CANARIES, canary);
    world.start().await;
    world.advance_s(60).await;
    let (_, _, message) = condition(&world, "web", "Stalled");
    assert!(message.contains("ScaledObject `web-primary` exists"), "{message}");
    assert_eq!(object(&world, SCALED_OBJECTS, "web-primary")["spec"], users["spec"]);
    assert!(!is_paused(&world, "web"), "the target still serves");
}

// Mistake 25 of docs/mistakes.md.
#[tokio::test(start_paused = true)]
async fn fields_nobody_here_knows_are_copied_and_a_pause_is_written_once() {
    let world = initialized_keda().await;
    let spec =
        json!({ "spec": { "fallback": { "failureThreshold": 3, "replicas": 6, "new": {} } } });
    world.patch(SCALED_OBJECTS, "web", &spec);
    world.advance_s(60).await;
    let at_rest = mark(&world);
    world.advance_s(600).await;
    assert_eq!(writes_since(&world, at_rest), Vec::<String>::new(), "it is paused already");
    let containers = json!([{ "name": "app", "image": "web:2.0" }]);
    let template = json!({ "spec": { "template": { "spec": { "containers": containers } } } });
    world.patch(DEPLOYMENTS, "web", &template);
    reach(&world, "Progressing").await;
    assert!(!is_paused(&world, "web"));
    reach(&world, "Succeeded").await;
    let copy = object(&world, SCALED_OBJECTS, "web-primary");
    assert_eq!(copy["spec"]["fallback"], object(&world, SCALED_OBJECTS, "web")["spec"]["fallback"]);
    let label = &copy["metadata"]["labels"]["scaledobject.keda.sh/name"];
    assert_eq!(label, "web-primary", "KEDA's own");
    world.advance_s(60).await;
    assert!(is_paused(&world, "web"));
    assert_eq!(object(&world, DEPLOYMENTS, "web")["spec"]["replicas"], 0);
}

/// A Service of the user's, `web`, and its canary with Gateway API.
async fn initialized_service(edit: impl FnOnce(&mut Value)) -> World {
    let mut world = World::new();
    world.sandbox.load(routing_crds()).expect("definitions are accepted");
    world.create(SERVICES, service("web"));
    let mut canary = canary_of("web", GATEWAY_API, by_weight());
    canary["spec"]["targetRef"] = json!({ "apiVersion": "v1", "kind": "Service", "name": "web" });
    edit(&mut canary);
    world.create(CANARIES, canary);
    world.start().await;
    reach(&world, "Initialized").await;
    world
}

fn service(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": name },
        "spec": { "type": "NodePort", "selector": { "app": "web", "version": "1" }, "ports": [
            { "name": "http", "port": 80, "targetPort": 8080 },
        ] },
    })
}

/// The user's edit that makes the Service select other pods.
fn lead(world: &World, version: &str) {
    let selector = json!({ "app": "web", "version": version });
    world.patch(SERVICES, "web", &json!({ "spec": { "selector": selector } }));
}

fn leads_to(world: &World, name: &str) -> String {
    text(&object(world, SERVICES, name)["spec"]["selector"]["version"])
}

#[tokio::test(start_paused = true)]
async fn a_service_is_released_and_itself_never_written() {
    let world = initialized_service(|_| {}).await;
    let version =
        |name: &str| object(&world, SERVICES, name)["metadata"]["resourceVersion"].clone();
    let users = object(&world, SERVICES, "web");
    for name in ["web-primary", "web-canary"] {
        let copy = object(&world, SERVICES, name);
        assert_ne!(copy["spec"]["clusterIP"], users["spec"]["clusterIP"], "{name}");
        assert_ne!(copy["spec"]["ports"][0]["nodePort"], users["spec"]["ports"][0]["nodePort"]);
    }
    lead(&world, "2");
    let written = version("web");
    reach(&world, "Progressing").await;
    assert_eq!((leads_to(&world, "web-canary"), leads_to(&world, "web-primary")), two("2", "1"));
    let address = object(&world, SERVICES, "web-primary")["spec"]["clusterIP"].clone();
    reach(&world, "Succeeded").await;
    assert_eq!(leads_to(&world, "web-primary"), "2");
    let primary = object(&world, SERVICES, "web-primary");
    assert_eq!(primary["spec"]["clusterIP"], address, "it keeps its address");
    assert_eq!(primary["metadata"]["ownerReferences"][0]["kind"], "Canary", "and its owner");
    assert_eq!(version("web"), written, "the user's is not written");
    assert_eq!(told(&world, "IdleTargetRuns"), 0);
}

fn two(one: &str, other: &str) -> (String, String) {
    (one.to_owned(), other.to_owned())
}

// Mistake 34 of docs/mistakes.md.
#[tokio::test(start_paused = true)]
async fn a_service_at_rest_costs_no_write() {
    let world = initialized_service(|_| {}).await;
    world.advance_s(60).await;
    let mark = mark(&world);
    world.advance_s(3600).await;
    assert_eq!(writes_since(&world, mark), Vec::<String>::new());
}

// Mistake 19 of docs/mistakes.md.
#[tokio::test(start_paused = true)]
async fn a_users_service_of_a_copys_name_is_left_alone() {
    for name in ["web-primary", "web-canary"] {
        let mut world = World::new();
        world.sandbox.load(routing_crds()).expect("definitions are accepted");
        world.create(SERVICES, service("web"));
        let users = world.create(SERVICES, service(name));
        let mut canary = canary_of("web", GATEWAY_API, by_weight());
        canary["spec"]["targetRef"] =
            json!({ "apiVersion": "v1", "kind": "Service", "name": "web" });
        world.create(CANARIES, canary);
        world.start().await;
        world.advance_s(60).await;
        let (_, _, message) = condition(&world, "web", "Stalled");
        assert!(message.contains(&format!("Service `{name}` exists")), "{message}");
        assert_eq!(object(&world, SERVICES, name)["spec"], users["spec"], "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_hint_of_the_canary_is_on_both_copies_for_good() {
    let world = initialized_service(|canary| {
        canary["spec"]["service"]["trafficDistribution"] = json!("PreferClose");
    })
    .await;
    lead(&world, "2");
    reach(&world, "Progressing").await;
    reach(&world, "Succeeded").await;
    for name in ["web-primary", "web-canary"] {
        let copy = object(&world, SERVICES, name);
        assert_eq!(copy["spec"]["trafficDistribution"], "PreferClose", "{name}");
    }
}

/// The Service `web` inside the cluster, headless or not.
fn inner_service(is_headless: bool, version: &str) -> Value {
    let mut service = service("web");
    service["spec"]["type"] = json!("ClusterIP");
    service["spec"]["selector"]["version"] = json!(version);
    if is_headless {
        service["spec"]["clusterIP"] = json!("None");
    }
    service
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_made_again_headless_or_not_is_released_all_the_same() {
    for is_headless in [false, true] {
        let mut world = World::new();
        world.sandbox.load(routing_crds()).expect("definitions are accepted");
        world.create(SERVICES, inner_service(is_headless, "1"));
        let mut canary = canary_of("web", GATEWAY_API, by_weight());
        canary["spec"]["targetRef"] =
            json!({ "apiVersion": "v1", "kind": "Service", "name": "web" });
        world.create(CANARIES, canary);
        world.start().await;
        reach(&world, "Initialized").await;
        let addresses = || {
            let copies = ["web-primary", "web-canary"];
            copies.map(|name| object(&world, SERVICES, name)["spec"]["clusterIP"].clone())
        };
        let before = addresses();
        assert_eq!(before.iter().all(|it| it == "None"), is_headless, "{before:?}");
        // The server does not allow that change of an existing Service.
        world.delete(SERVICES, "web");
        world.create(SERVICES, inner_service(!is_headless, "2"));
        reach(&world, "Progressing").await;
        assert_eq!(leads_to(&world, "web-canary"), "2", "{is_headless}");
        reach(&world, "Succeeded").await;
        assert_eq!(leads_to(&world, "web-primary"), "2", "{is_headless}");
        assert_eq!(addresses(), before, "{is_headless}: each stays as it was made");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_service_cannot_be_is_refused() {
    let scaler = json!({ "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
                         "name": "web" });
    let cases = [
        ("without weights", "/provider", json!("kubernetes"), "spec.provider"),
        ("behind an Ingress", "/provider", json!("nginx"), "spec.provider"),
        ("behind one of Skipper", "/provider", json!("skipper"), "spec.provider"),
        ("under another name", "/service/name", json!("shop"), "spec.service.name"),
        ("scaled", "/autoscalerRef", scaler, "spec.autoscalerRef"),
        ("of Knative", "/targetRef/apiVersion", json!("serving.knative.dev/v1"), "Knative"),
    ];
    for (reason, path, value, word) in cases {
        let mut world = World::new();
        world.sandbox.load(routing_crds()).expect("definitions are accepted");
        world.create(SERVICES, service("web"));
        let mut canary = canary_of("web", GATEWAY_API, by_weight());
        canary["spec"]["targetRef"] =
            json!({ "apiVersion": "v1", "kind": "Service", "name": "web" });
        let (parent, name) = path.rsplit_once('/').expect("a path has a last part");
        canary["spec"].pointer_mut(parent).expect("its parent is there")[name] = value;
        world.create(CANARIES, canary);
        world.start().await;
        world.advance_s(30).await;
        let (stalled, _, message) = condition(&world, "web", "Stalled");
        assert_eq!(stalled, "True", "{reason}");
        assert!(message.contains(word), "{reason}: {message}");
        assert!(world.get(SERVICES, "web-primary").is_none(), "{reason}: nothing is made");
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_flagger_left_is_taken_over_without_a_rollout_and_owned_again() {
    let mut world = World::new();
    world.sandbox.load(routing_crds()).expect("definitions are accepted");
    world.create(SERVICES, service("web"));
    let mut canary = canary_of("web", GATEWAY_API, by_weight());
    canary["spec"]["targetRef"] = json!({ "apiVersion": "v1", "kind": "Service", "name": "web" });
    world.create(CANARIES, canary);
    // As after a promotion of Flagger: the primary's copy has the owners of the target, none.
    world.create(SERVICES, service("web-primary"));
    let status = json!({ "status": {
        "phase": "Succeeded", "lastAppliedSpec": "5c6d7f8b9d", "lastPromotedSpec": "5c6d7f8b9d",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    } });
    let patched = world.admin.patch(CANARIES, "default", "web", "status", &status);
    patched.expect("the status is accepted");
    world.advance_s(30).await;
    world.start().await;
    world.advance_s(120).await;
    assert_eq!(world.phase("web"), "Succeeded");
    assert_eq!(told(&world, "NewRevision"), 0, "{:?}", reasons(&world));
    let primary = object(&world, SERVICES, "web-primary");
    assert_eq!(primary["metadata"]["ownerReferences"][0]["kind"], "Canary");
    lead(&world, "2");
    reach(&world, "Progressing").await;
    reach(&world, "Succeeded").await;
    world.delete(CANARIES, "web");
    world.advance_s(30).await;
    assert!(world.get(SERVICES, "web-primary").is_none(), "it goes with the canary");
}
