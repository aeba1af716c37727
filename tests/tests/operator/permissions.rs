//! The shipped role: enough for every rollout, and nothing that no rollout uses.
//!
//! Every test of this folder runs under it; here its lines are compared with the requests of rollouts
//! that together do everything.

use std::collections::BTreeSet;

use kube_sandbox::{
    cluster::{Cluster as _, Deletion, Resource},
    controllers::keda_crds,
    faults::{Effect, Matcher, When},
    request::Verb,
    request_log::Entry,
};
use serde_json::{Value, json};
use tidegate_operator::install::{Install, Scope, node_rules, rules};
use tidegate_tests::{
    providers::{KNATIVE, canary_for, foreign, furnish, redirect},
    rollout::{
        AUTOSCALERS, CANARIES, CONFIG_MAPS, DAEMON_SETS, DEPLOYMENTS, OPERATOR, SCALED_OBJECTS,
        SECRETS, SERVICES, World, daemon_set, scaled_object,
    },
};

use crate::stage::{
    GATEWAY_API, ISTIO, KUBERNETES, blue_green, break_metrics, by_weight, condition, edit,
    edit_analysis, image, initialized, object, reach, release, text, with_canary,
};

const METRIC_TEMPLATES: Resource = Resource { group: "flagger.app", plural: "metrictemplates" };
const UPSTREAMS: Resource = Resource { group: "gloo.solo.io", plural: "upstreams" };
const ALERT_PROVIDERS: Resource = Resource { group: "flagger.app", plural: "alertproviders" };

/// One namespace, no game workloads, no configuration.
const SMALLEST: Scope = Scope { game: false, config_tracking: false, namespaced: true };

/// `group/resource verb` of the operator's requests; those that were denied apart.
fn asked(world: &World) -> (BTreeSet<String>, BTreeSet<String>) {
    let log = &world.sandbox.server().log;
    let ours = log.matching(|entry| &*entry.user == OPERATOR && !entry.resource.is_empty());
    let denied = ours.iter().filter(|entry| entry.code == 403).map(line).collect();
    (ours.iter().map(line).collect(), denied)
}

fn line(entry: &Entry) -> String {
    let slash = if entry.subresource.is_empty() { "" } else { "/" };
    let resource = format!("{}{slash}{}", entry.resource, entry.subresource);
    // An apply that made the object used the right to do so.
    let is_creation = entry.verb == Verb::Patch && entry.code == 201;
    let verb = if is_creation { Verb::Create } else { entry.verb };
    format!("{}/{resource} {}", entry.group, verb.as_str())
}

fn granted(scope: Scope) -> BTreeSet<String> {
    let nodes = if scope.namespaced { node_rules() } else { Vec::new() };
    let lines = rules(scope).into_iter().chain(nodes).flat_map(|rule| {
        let place = format!("{}/{}", rule.group, rule.resource);
        rule.verbs.iter().map(move |verb| format!("{place} {verb}")).collect::<Vec<_>>()
    });
    lines.collect()
}

/// The manifests of an operator that lives where the canaries are.
fn manifests(scope: Scope) -> Vec<Value> {
    let install = Install {
        namespace: "default".to_owned(),
        create_namespace: false,
        image: "tidegate:1".to_owned(),
        arguments: Vec::new(),
        scope,
    };
    install.manifests()
}

/// Gives the operator the permissions and settings of an installation for less than everything.
fn confine(world: &mut World, scope: Scope) {
    const GROUP: &str = "rbac.authorization.k8s.io";
    for plural in ["clusterroles", "clusterrolebindings"] {
        let table = Resource { group: GROUP, plural };
        for name in ["tidegate", "tidegate-game"] {
            world.admin.delete(table, "", name, &Deletion::default()).expect("it was there");
        }
    }
    let is_permission = |it: &Value| it["apiVersion"] == format!("{GROUP}/v1");
    let mut roles: Vec<_> = manifests(scope).into_iter().filter(is_permission).collect();
    for binding in roles.iter_mut().filter(|it| it["subjects"].is_array()) {
        // The account of every operator of these tests.
        binding["subjects"][0]["namespace"] = json!("tidegate");
    }
    world.sandbox.load(roles).expect("roles are accepted");
    world.options.config_tracking = scope.config_tracking;
    world.options.game = scope.game;
    world.namespace = scope.namespaced.then(|| "default".to_owned());
}

/// Rights to owners. Only the admission plugin `OwnerReferencesPermissionEnforcement` asks for them, which
/// the sandbox does not have. On a real API server it is on: `tests/e2e`.
fn is_for_admission(line: &str) -> bool {
    line.contains("/finalizers ")
}

/// A canary with configuration, an autoscaler, a metric template and an alert provider.
fn furnished(provider: &str, protocol: &str) -> World {
    let analysis = if provider == KUBERNETES { blue_green() } else { by_weight() };
    let mut canary = canary_for(provider, analysis);
    canary["spec"]["service"]["appProtocol"] = json!(protocol);
    canary["spec"]["revertOnDeletion"] = json!(true);
    canary["spec"]["analysis"]["alerts"] =
        json!([{ "name": "team", "severity": "info", "providerRef": { "name": "team" } }]);
    canary["spec"]["analysis"]["metrics"] = json!([{
        "name": "own", "templateRef": { "name": "own" }, "thresholdRange": { "min": 99 },
    }]);
    if provider == "apisix" {
        // Built-in metrics look up the addresses of the canary here.
        let metrics = canary["spec"]["analysis"]["metrics"].as_array_mut().expect("it has one");
        metrics.push(json!({ "name": "request-success-rate", "thresholdRange": { "min": 99 } }));
    }
    canary["spec"]["autoscalerRef"] = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "name": "web",
    });
    let world = with_canary(canary);
    if foreign().contains(&provider) {
        furnish(&world, provider);
    }
    world.create(
        CONFIG_MAPS,
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "web" },
            "data": { "COLOUR": "green" },
        }),
    );
    world.create(SECRETS, secret("Opaque"));
    world.create(
        AUTOSCALERS,
        json!({
            "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
            "metadata": { "name": "web" },
            "spec": {
                "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
                "minReplicas": 2, "maxReplicas": 4,
            },
        }),
    );
    world.create(
        METRIC_TEMPLATES,
        json!({
            "apiVersion": "flagger.app/v1beta1", "kind": "MetricTemplate",
            "metadata": { "name": "own" },
            "spec": {
                "provider": { "type": "prometheus", "address": "http://prometheus:9090" },
                "query": "own{target=\"{{ target }}\",status!~\"5..\"}",
            },
        }),
    );
    world.create(
        ALERT_PROVIDERS,
        json!({
            "apiVersion": "flagger.app/v1beta1", "kind": "AlertProvider",
            "metadata": { "name": "team" },
            "spec": { "type": "webhook", "address": "http://chat/team" },
        }),
    );
    give(
        &world,
        "envFrom",
        json!([
            { "configMapRef": { "name": "web" } }, { "secretRef": { "name": "web" } },
        ]),
    );
    world
}

/// The same of a `DaemonSet`.
fn furnished_daemons() -> World {
    let world = furnished(KUBERNETES, "http");
    world.delete(DEPLOYMENTS, "web");
    world.create(DAEMON_SETS, daemon_set("web", "web:1.0"));
    let target = json!({ "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "web" });
    edit(&world, json!({ "targetRef": target, "autoscalerRef": null }));
    let sources = json!([
        { "configMapRef": { "name": "web" } }, { "secretRef": { "name": "web" } },
    ]);
    give(&world, "envFrom", sources);
    world
}

/// The same with KEDA.
fn furnished_keda() -> World {
    let world = furnished(KUBERNETES, "http");
    world.sandbox.load(keda_crds()).expect("definitions are accepted");
    world.delete(AUTOSCALERS, "web");
    world.create(SCALED_OBJECTS, scaled_object("web", 2, 4));
    let scaler = json!({ "apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "name": "web" });
    edit(&world, json!({ "autoscalerRef": scaler }));
    world
}

/// Changes one field of the target's container.
fn give(world: &World, field: &str, value: Value) {
    let kinds = [DEPLOYMENTS, DAEMON_SETS];
    let kind = kinds.into_iter().find(|kind| world.get(*kind, "web").is_some());
    let kind = kind.expect("there is a target");
    let target = world.get(kind, "web").unwrap_or_default();
    let mut containers = target["spec"]["template"]["spec"]["containers"].clone();
    containers[0][field] = value;
    let template = json!({ "spec": { "containers": containers } });
    world.patch(kind, "web", &json!({ "spec": { "template": template } }));
}

/// Edits every object that is copied for the primary.
fn edit_everything(world: &World) {
    let policy = json!({ "loadBalancer": { "simple": "RANDOM" } });
    edit(world, json!({ "service": { "port": 8081, "trafficPolicy": policy } }));
    world.patch(CONFIG_MAPS, "web", &json!({ "data": { "COLOUR": "blue" } }));
    world.delete(SECRETS, "web");
    world.create(SECRETS, secret("kubernetes.io/basic-auth"));
    for (scalers, field) in [(AUTOSCALERS, "maxReplicas"), (SCALED_OBJECTS, "maxReplicaCount")] {
        if world.get(scalers, "web").is_some() {
            world.patch(scalers, "web", &json!({ "spec": { field: 5 } }));
        }
    }
}

/// An edit of our objects by another client, which is corrected.
fn meddle(world: &World) {
    for upstream in world.admin.list(UPSTREAMS, Some("default")) {
        let name = upstream["metadata"]["name"].as_str().unwrap_or_default();
        world.patch(UPSTREAMS, name, &json!({ "spec": { "kube": { "servicePort": 1 } } }));
    }
}

fn secret(kind: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "web" },
        "type": kind, "stringData": { "username": "web", "password": "one" },
    })
}

/// A whole life: set up, promote, rename, fail, a conflict, deletion.
async fn live(world: &mut World) {
    world.start().await;
    reach(world, "Initialized").await;
    edit_everything(world);
    give(world, "image", json!("web:2.0"));
    reach(world, "Succeeded").await;
    meddle(world);
    edit(world, json!({ "service": { "headless": true } }));
    world.advance_s(10).await;
    // Objects with the old name are deleted, and so is the copy of a ConfigMap that is no longer read.
    edit(world, json!({ "service": { "name": "shop" } }));
    redirect(world, "shop");
    world.advance_s(10).await;
    give(world, "envFrom", json!([{ "secretRef": { "name": "web" } }]));
    reach(world, "Progressing").await;
    reach(world, "Succeeded").await;
    world.advance_s(10).await;
    // After a conflict the operator reads everything again.
    let statuses = Matcher::writes().user(OPERATOR).resource("flagger.app", "canaries");
    world.sandbox.server().faults.add(statuses, When::First(1), Effect::Conflict);
    // Pods are listed for the cause.
    give(world, "image", json!("web:2.1-never-ready"));
    reach(world, "Progressing").await;
    world.advance_s(20).await;
    break_metrics(world);
    // Pods that do not become ready are asked for the cause.
    give(world, "image", json!("web:3.0-never-ready"));
    world.advance_s(30).await;
    give(world, "image", json!("web:3.0"));
    world.until(300, |world| world.phase("web") == "Failed").await;
    world.delete(CANARIES, "web");
    world.until(120, |world| world.get(CANARIES, "web").is_none()).await;
}

/// The target is of another kind there, with objects of its own.
fn furnished_knative() -> World {
    let mut canary = canary_for(KNATIVE, by_weight());
    canary["spec"]["revertOnDeletion"] = json!(true);
    let world = with_canary(canary);
    furnish(&world, KNATIVE);
    world
}

/// A release, and the end.
async fn live_with_knative(world: &mut World) {
    world.start().await;
    reach(world, "Initialized").await;
    release(world, "web:2.0");
    reach(world, "Succeeded").await;
    world.delete(CANARIES, "web");
    assert!(world.until(120, |world| world.get(CANARIES, "web").is_none()).await);
}

/// Plays every kind of rollout, and compares its requests with the role.
async fn compare_with_the_role(scope: Scope) {
    let is_whole = scope == Scope::default();
    let (mut used, mut denied) = (BTreeSet::new(), BTreeSet::new());
    let known = [
        (KUBERNETES, "http"),
        (GATEWAY_API, "http"),
        (GATEWAY_API, "grpc"),
        ("gatewayapi:v1beta1", "http"),
        (ISTIO, "http"),
    ];
    // Its kinds are in no namespace.
    let has_role = |provider: &&str| !scope.namespaced || !provider.starts_with("kuma");
    let others = foreign().into_iter().filter(has_role).map(|provider| (provider, "http"));
    let cases = known.into_iter().chain(others);
    let worlds = cases.map(|(provider, protocol)| (provider, furnished(provider, protocol)));
    let others = [("daemons", furnished_daemons()), ("keda", furnished_keda())];
    let knative = [(KNATIVE, furnished_knative())];
    for (case, mut world) in worlds.chain(others).chain(knative) {
        if !is_whole {
            confine(&mut world, scope);
        }
        if case == KNATIVE {
            live_with_knative(&mut world).await;
        } else {
            live(&mut world).await;
            assert!(world.get(SERVICES, "shop-primary").is_none(), "{case}: the life was whole");
        }
        let (asked, refused) = asked(&world);
        used.extend(asked);
        denied.extend(refused);
    }
    assert_eq!(denied, BTreeSet::new(), "denied");
    let mut vain: Vec<_> = granted(scope).difference(&used).cloned().collect();
    vain.retain(|line| !is_for_admission(line));
    assert_eq!(vain, Vec::<String>::new(), "granted and never used");
}

#[tokio::test(start_paused = true)]
async fn the_role_denies_nothing_and_grants_nothing_in_vain() {
    compare_with_the_role(Scope::default()).await;
}

#[tokio::test(start_paused = true)]
async fn the_smallest_role_denies_nothing_and_grants_nothing_in_vain() {
    compare_with_the_role(SMALLEST).await;
}

#[tokio::test(start_paused = true)]
async fn without_tracking_a_deleted_primary_is_made_again_from_the_promoted_template() {
    let mut world = with_canary(canary_for(KUBERNETES, blue_green()));
    confine(&mut world, SMALLEST);
    world.start().await;
    reach(&world, "Initialized").await;
    release(&world, "web:2.0");
    reach(&world, "Succeeded").await;
    break_metrics(&world);
    edit_analysis(
        &world,
        json!({ "metrics": [{ "name": "request-success-rate", "thresholdRange": { "min": 99 } }] }),
    );
    release(&world, "web:3.0");
    reach(&world, "Failed").await;
    // Another process, which wrote no Secret.
    world.start().await;
    world.delete(DEPLOYMENTS, "web-primary");
    world.until(60, |world| world.get(DEPLOYMENTS, "web-primary").is_some()).await;
    assert_eq!(image(&world, "web-primary"), "web:2.0", "as it was promoted");
    world.delete(SECRETS, "web-primary-promoted");
    world.delete(DEPLOYMENTS, "web-primary");
    world.advance_s(60).await;
    assert_eq!(world.get(DEPLOYMENTS, "web-primary"), None, "3.0 failed, and 2.0 is nowhere");
    let (status, _, message) = condition(&world, "web", "Stalled");
    assert!(status == "True" && message.contains("web-primary"), "{message}");
    let (_, denied) = asked(&world);
    assert_eq!(denied, BTreeSet::new());
}

#[test]
fn an_installation_for_less_than_everything_has_smaller_roles_and_says_so_to_the_operator() {
    let kinds_and_names = |scope| -> BTreeSet<String> {
        let is_role = |it: &&Value| it["kind"].as_str().is_some_and(|kind| kind.contains("Role"));
        let name = |it: &Value| {
            let namespace = it["metadata"]["namespace"].as_str().unwrap_or("*");
            format!("{} {namespace}/{}", text(&it["kind"]), text(&it["metadata"]["name"]))
        };
        manifests(scope).iter().filter(is_role).map(name).collect()
    };
    let want = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(
        kinds_and_names(SMALLEST),
        want(&[
            "Role default/tidegate",
            "RoleBinding default/tidegate",
            "ClusterRole */tidegate-nodes",
            "ClusterRoleBinding */tidegate-nodes-default",
        ])
    );
    let without_game = Scope { game: false, ..Scope::default() };
    let whole = kinds_and_names(Scope::default());
    let game = want(&["ClusterRole */tidegate-game", "ClusterRoleBinding */tidegate-game"]);
    assert_eq!(
        whole.difference(&kinds_and_names(without_game)).cloned().collect::<BTreeSet<_>>(),
        game
    );
    for object in manifests(SMALLEST) {
        let subject = &object["subjects"][0]["namespace"];
        assert!(subject.is_null() || subject == "default", "{object:#}");
        for rule in object["rules"].as_array().into_iter().flatten() {
            let is_of = |kind: &str| rule["resources"].to_string().contains(kind);
            let verbs = rule["verbs"].to_string();
            assert!(!is_of("configmaps"), "{rule}");
            assert!(!is_of("secrets") || !(verbs.contains("list") || verbs.contains("watch")));
            assert!(!is_of("pods") || !verbs.contains("create"), "{rule}");
        }
    }
    let flags = |scope| {
        let deployment = manifests(scope).into_iter().find(|it| it["kind"] == "Deployment");
        let arguments =
            &deployment.expect("there is one")["spec"]["template"]["spec"]["containers"][0]["args"];
        arguments.as_array().expect("it has some").iter().map(text).collect::<Vec<_>>()
    };
    let said =
        ["--enable-game-workloads=false", "--enable-config-tracking=false", "--namespace=default"];
    assert!(flags(SMALLEST).ends_with(&said.map(str::to_owned)), "{:?}", flags(SMALLEST));
    assert!(!flags(Scope::default()).iter().any(|flag| said.contains(&flag.as_str())));
}

#[tokio::test(start_paused = true)]
async fn a_primary_whose_owners_may_not_be_changed_is_promoted_with_those_it_has() {
    let world = initialized(KUBERNETES, blue_green()).await;
    let owners = |world: &World| {
        object(world, DEPLOYMENTS, "web-primary")["metadata"]["ownerReferences"].clone()
    };
    let mut edited = owners(&world);
    edited[0]["blockOwnerDeletion"] = json!(false);
    let patch = json!({ "metadata": { "ownerReferences": edited } });
    world.patch(DEPLOYMENTS, "web-primary", &patch);
    // The message of the admission plugin for a user without the permission to delete.
    let refusal = "cannot set an ownerRef on a resource you can't delete";
    let refusal = Effect::FailBefore { code: 403, reason: refusal };
    let writes = Matcher::writes().user(OPERATOR).resource("apps", "deployments");
    let faults = world.sandbox.server().faults.clone();
    faults.add(writes.name("web-primary"), When::First(1), refusal);
    release(&world, "web:2.0");
    reach(&world, "Succeeded").await;
    assert_eq!(faults.injected().total(), 1, "it was refused once");
    assert_eq!(image(&world, "web-primary"), "web:2.0");
    assert_eq!(owners(&world), edited, "and not taken from anybody");
}

#[test]
fn no_canary_is_ever_written_as_a_whole() {
    let is_read = |it: &String| ["get", "list", "watch"].iter().any(|verb| it.ends_with(verb));
    let of_canaries =
        granted(Scope::default()).into_iter().filter(|it| it.starts_with("flagger.app/canaries"));
    let writes: Vec<_> = of_canaries.filter(|it| !is_read(it) && !is_for_admission(it)).collect();
    let patches = ["flagger.app/canaries patch", "flagger.app/canaries/status patch"];
    assert_eq!(writes, patches, "a replacement drops what is not known here");
}

#[test]
fn the_pod_is_one_that_the_restricted_standard_lets_in() {
    let install = Install {
        namespace: "tidegate-system".to_owned(),
        create_namespace: false,
        image: "tidegate:1".to_owned(),
        arguments: vec!["--mesh-provider=istio".to_owned()],
        scope: Scope::default(),
    };
    let manifests = install.manifests();
    let deployment = manifests.iter().find(|it| it["kind"] == "Deployment").unwrap();
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
    let container = &pod["containers"][0];
    assert_eq!(container["securityContext"]["allowPrivilegeEscalation"], false);
    assert_eq!(container["securityContext"]["capabilities"]["drop"], json!(["ALL"]));
    assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
    let arguments = container["args"].as_array().unwrap();
    assert!(arguments.contains(&json!("--mesh-provider=istio")));
    let sandbox = kube_sandbox::Sandbox::new(kube_sandbox::Settings::for_tests());
    sandbox.load(manifests).expect("everything is accepted");
}
