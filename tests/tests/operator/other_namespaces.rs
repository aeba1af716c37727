//! Names of other namespaces in the routes of a canary for Istio: which are refused, by which flag, and how a
//! canary that is under way ends.

use kube_sandbox::cluster::{Cluster as _, Deletion, NAMESPACES};
use serde_json::{Value, json};
use tidegate_api::canary::CrossNamespace;
use tidegate_tests::rollout::{CANARIES, SERVICES, VIRTUAL_SERVICES, World};

use crate::stage::{
    ISTIO, at_share, by_weight, canary_of, canary_share, condition, edit, initialized_with, object,
    reach, told, with_canary,
};

const FULL: &str = "api.team-b.svc.cluster.local";

/// A canary with these hosts, at a gateway and inside the mesh.
fn with_hosts(hosts: &[&str]) -> Value {
    let mut canary = canary_of("web", ISTIO, by_weight());
    canary["spec"]["service"]["hosts"] = json!(hosts);
    canary["spec"]["service"]["gateways"] = json!(["istio-system/public-gateway", "mesh"]);
    canary
}

/// The Service `api` of another team.
fn found_team_b(world: &World) {
    let namespace =
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "team-b" } });
    // It stays when the Service goes.
    let _ = world.admin.create(NAMESPACES, "", namespace);
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": "api" },
        "spec": { "ports": [{ "port": 80 }] },
    });
    world.admin.create(SERVICES, "team-b", service).expect("it is created");
}

fn hosts(world: &World) -> Value {
    object(world, VIRTUAL_SERVICES, "web")["spec"]["hosts"].clone()
}

fn stalled(world: &World) -> Option<String> {
    let (status, _, message) = condition(world, "web", "Stalled");
    (status == "True").then_some(message)
}

#[tokio::test(start_paused = true)]
async fn by_default_hosts_of_any_namespace_are_written_as_with_flagger() {
    let world = initialized_with(with_hosts(&[FULL, "api.team-b", "*.svc.cluster.local"])).await;
    assert_eq!(hosts(&world), json!([FULL, "api.team-b", "*.svc.cluster.local", "web"]));
}

#[tokio::test(start_paused = true)]
async fn with_the_flag_a_host_of_another_namespace_is_refused_and_nothing_is_written() {
    let mut world = with_canary(with_hosts(&["app.example.com", FULL]));
    world.options.cross_namespace = CrossNamespace::Forbidden;
    world.start().await;
    world.advance_s(60).await;
    let why = stalled(&world).unwrap_or_default();
    assert!(why.contains("spec.service.hosts[1]: \"api.team-b.svc.cluster.local\""), "{why}");
    assert!(why.contains("--no-cross-namespace-refs=false"), "{why}");
    assert_eq!(world.get(VIRTUAL_SERVICES, "web"), None);
    edit(&world, json!({ "service": { "hosts": ["app.example.com"] } }));
    reach(&world, "Initialized").await;
    assert_eq!(hosts(&world), json!(["app.example.com", "web"]));
}

#[tokio::test(start_paused = true)]
async fn a_short_name_is_refused_while_there_is_such_a_service_elsewhere() {
    let mut world = with_canary(with_hosts(&["api.team-b"]));
    world.options.cross_namespace = CrossNamespace::Forbidden;
    world.start().await;
    reach(&world, "Initialized").await;
    assert_eq!(stalled(&world), None, "a name like any other");
    found_team_b(&world);
    world.advance_s(2).await;
    let why = stalled(&world).unwrap_or_default();
    assert!(why.contains("\"api.team-b\" is of the namespace \"team-b\""), "{why}");
    world.admin.delete(SERVICES, "team-b", "api", &Deletion::default()).expect("it was there");
    world.advance_s(2).await;
    assert_eq!(stalled(&world), None);
}

#[tokio::test(start_paused = true)]
async fn an_operator_of_one_namespace_refuses_short_names_inside_the_mesh_alone() {
    let mut world = with_canary(with_hosts(&["api.team-b"]));
    found_team_b(&world);
    world.options.cross_namespace = CrossNamespace::Forbidden;
    world.namespace = Some("default".to_owned());
    world.start().await;
    world.advance_s(30).await;
    let why = stalled(&world).unwrap_or_default();
    assert!(why.contains("which --namespace hides"), "{why}");
    edit(&world, json!({ "service": { "gateways": ["istio-system/public-gateway"] } }));
    reach(&world, "Initialized").await;
}

#[tokio::test(start_paused = true)]
async fn gateways_of_other_namespaces_are_bounded_by_the_flag_that_names_them() {
    let mut world = with_canary(with_hosts(&["app.example.com"]));
    world.options.cross_namespace = CrossNamespace::Forbidden;
    world.options.shared_gateways = vec!["istio-system/public-gateway".to_owned()];
    world.start().await;
    reach(&world, "Initialized").await;
    edit(&world, json!({ "service": { "gateways": ["edge/inner", "own"] } }));
    world.advance_s(20).await;
    let why = stalled(&world).unwrap_or_default();
    assert!(why.contains("spec.service.gateways[0]: \"edge/inner\""), "{why}");
    assert!(why.contains("istio-system/public-gateway"), "{why}");
    let gateways = &object(&world, VIRTUAL_SERVICES, "web")["spec"]["gateways"];
    assert_eq!(*gateways, json!(["istio-system/public-gateway", "mesh"]));
}

/// A rollout at 40 percent whose spec is edited to a refused host.
async fn refused_half_way() -> World {
    let mut world = at_share(ISTIO, by_weight(), 40).await;
    let gateways = json!(["istio-system/public-gateway", "mesh"]);
    edit(
        &world,
        json!({
            "progressDeadlineSeconds": 60,
            "service": { "hosts": ["app.example.com"], "gateways": gateways },
        }),
    );
    world.settle().await;
    world.kill();
    world.options.cross_namespace = CrossNamespace::Forbidden;
    world.start().await;
    edit(&world, json!({ "service": { "hosts": [FULL] } }));
    world.advance_s(5).await;
    world
}

#[tokio::test(start_paused = true)]
async fn a_rollout_that_becomes_refused_goes_back_with_the_hosts_that_its_route_has() {
    let world = refused_half_way().await;
    assert!(stalled(&world).unwrap_or_default().contains("spec.service.hosts[0]"));
    let is_back = world.until(120, |it| it.phase("web") == "Failed").await;
    assert!(is_back, "{:#}", world.status("web"));
    world.advance_s(20).await;
    assert_eq!(canary_share(&world), 0);
    assert_eq!(hosts(&world), json!(["app.example.com", "web"]), "clients keep their host");
    assert_eq!(told(&world, "ProgressDeadlineExceeded"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_refused_canary_that_is_deleted_leaves_the_host_of_another_alone() {
    let world = refused_half_way().await;
    world.delete(CANARIES, "web");
    world.advance_s(60).await;
    assert_eq!(world.get(CANARIES, "web"), None);
    let left = hosts(&world).to_string();
    assert!(!left.contains("team-b"), "{left}");
}
