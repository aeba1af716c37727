//! Clusters that Flagger 1.44 left in the middle of its work: adopted as they are.
//!
//! Objects are written by the field manager `flagger` in Flagger's form: its fingerprints, a random
//! `flagger-id`, its routing object. The operator must not start a rollout, change traffic, or lose the
//! state in Flagger's status.

use serde_json::{Value, json};
use tidegate_tests::{
    network::Reply,
    rollout::{CANARIES, CONFIG_MAPS, DEPLOYMENTS, HTTP_ROUTES, SERVICES, World},
    wire::Wire,
};

use crate::stage::{
    GATEWAY_API, by_weight, canary_of, canary_share, generation, hooked, image, object, reach,
    reasons, release, replicas, revision, shares_since, told, with_canary,
};

/// SHA-256 of `{"color":"blue"}`, cut to 16 digits, as Flagger does.
const BLUE: &str = "f234cb93c08ad64e";
const RANDOM_ID: &str = "2f1c9a3e-7f0b-4c57-9d7e-0a4be1f0d6c1";

/// The state that Flagger left.
struct Left {
    phase: &'static str,
    /// Images of target and primary.
    target: &'static str,
    primary: &'static str,
    /// Replicas of the target.
    replicas: i64,
    share: i64,
    status: Value,
}

/// Every phase in which Flagger may have stopped, with its state.
fn phases() -> Vec<Left> {
    let at_rest = |phase, target| Left {
        phase,
        target,
        primary: "web:1.0",
        replicas: 0,
        share: 0,
        status: json!({}),
    };
    let moving = |phase, primary, share, status| Left {
        phase,
        target: "web:2.0",
        primary,
        replicas: 2,
        share,
        status,
    };
    vec![
        at_rest("Initialized", "web:1.0"),
        at_rest("Succeeded", "web:1.0"),
        at_rest("Failed", "web:2.0"),
        at_rest("Waiting", "web:2.0"),
        moving("Progressing", "web:1.0", 30, json!({ "canaryWeight": 30 })),
        moving("WaitingPromotion", "web:1.0", 60, json!({ "iterations": -1 })),
        moving("Promoting", "web:2.0", 60, json!({ "canaryWeight": 60 })),
        moving("Finalising", "web:2.0", 0, json!({})),
    ]
}

/// A cluster as Flagger left it, without an operator.
async fn left(by: &Left) -> World {
    let mut analysis = by_weight();
    analysis["stepWeight"] = json!(10);
    let analysis = hooked(hooked(analysis, "confirm-rollout"), "confirm-promotion");
    let world = with_canary(canary_of("web", GATEWAY_API, analysis));
    for gate in ["confirm-rollout", "confirm-promotion"] {
        world.network.hook(&format!("hooks/{gate}"), Reply::no());
    }
    world.create(CONFIG_MAPS, config("web-config"));
    world.patch(DEPLOYMENTS, "web", &json!({ "spec": { "template": template("web", by.target) } }));
    world.advance_s(5).await;
    let flagger = Flagger::new(&world);
    flagger.workloads(by);
    flagger.routing(by.share);
    world.advance_s(5).await;
    flagger.status(by);
    world.advance_s(5).await;
    world
}

fn config(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name },
            "data": { "color": "blue" } })
}

fn template(name: &str, image: &str) -> Value {
    let config = if name == "web" { "web-config" } else { "web-config-primary" };
    let mut template = json!({
        "metadata": { "labels": { "app": name } },
        "spec": { "containers": [{
            "name": "app", "image": image, "ports": [{ "containerPort": 8080 }],
            "envFrom": [{ "configMapRef": { "name": config } }],
        }] },
    });
    if name == "web-primary" {
        template["metadata"]["annotations"] = json!({ "flagger-id": RANDOM_ID });
    }
    template
}

/// A client with Flagger's field manager.
struct Flagger {
    wire: Wire,
    owner: Value,
}

impl Flagger {
    fn new(world: &World) -> Self {
        let canary = object(world, CANARIES, "web");
        let owner = json!([{
            "apiVersion": "flagger.app/v1beta1", "kind": "Canary", "name": "web",
            "uid": canary["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true,
        }]);
        Self { wire: Wire::new(&world.sandbox), owner }
    }

    fn create(&self, path: &str, mut object: Value) {
        object["metadata"]["ownerReferences"] = self.owner.clone();
        self.wire.post(&format!("{path}?fieldManager=flagger"), &object).ok();
    }

    fn workloads(&self, left: &Left) {
        self.create("/api/v1/namespaces/default/configmaps", config("web-config-primary"));
        let apps = "/apis/apps/v1/namespaces/default/deployments";
        self.create(
            apps,
            json!({
                "apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": { "name": "web-primary", "labels": { "app": "web-primary" } },
                "spec": {
                    "replicas": 2, "selector": { "matchLabels": { "app": "web-primary" } },
                    "progressDeadlineSeconds": 600, "revisionHistoryLimit": 10,
                    "template": template("web-primary", left.primary),
                },
            }),
        );
        let scale = json!({ "spec": { "replicas": left.replicas } });
        self.wire.merge(&format!("{apps}/web?fieldManager=flagger"), &scale).ok();
    }

    fn routing(&self, share: i64) {
        let flux = json!({
            "helm.toolkit.fluxcd.io/driftDetection": "disabled",
            "kustomize.toolkit.fluxcd.io/reconcile": "disabled",
        });
        for (name, app) in
            [("web", "web-primary"), ("web-primary", "web-primary"), ("web-canary", "web")]
        {
            let port = json!({ "name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP" });
            self.create(
                "/api/v1/namespaces/default/services",
                json!({
                    "apiVersion": "v1", "kind": "Service",
                    "metadata": { "name": name, "labels": { "app": name }, "annotations": flux },
                    "spec": { "type": "ClusterIP", "selector": { "app": app }, "ports": [port] },
                }),
            );
        }
        let backend = |name: &str, weight: i64| json!({ "group": "", "kind": "Service", "name": name, "port": 80, "weight": weight });
        let gateway = json!({
            "group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "edge",
        });
        self.create(
            "/apis/gateway.networking.k8s.io/v1/namespaces/default/httproutes",
            json!({
                "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
                "metadata": { "name": "web", "annotations": flux },
                "spec": {
                    "parentRefs": [gateway],
                    "rules": [{
                        "matches": [{ "path": { "type": "PathPrefix", "value": "/" } }],
                        "backendRefs": [
                            backend("web-primary", 100 - share), backend("web-canary", share),
                        ],
                    }],
                },
            }),
        );
    }

    fn status(&self, left: &Left) {
        let now = "2026-01-01T00:00:10Z";
        let mut status = json!({
            "phase": left.phase, "failedChecks": 0, "canaryWeight": 0, "iterations": 0,
            "lastAppliedSpec": if left.target == left.primary { "59c8d7f6b" } else { "7d6f9b85c4" },
            "lastPromotedSpec": "59c8d7f6b", "lastTransitionTime": now,
            "trackedConfigs": { "configmap/web-config": BLUE },
            "conditions": [{
                "type": "Promoted", "status": "Unknown", "reason": left.phase, "message": "…",
                "lastUpdateTime": now, "lastTransitionTime": now,
            }],
        });
        for (name, value) in left.status.as_object().into_iter().flatten() {
            status[name] = value.clone();
        }
        let path = "/apis/flagger.app/v1beta1/namespaces/default/canaries/web/status";
        self.wire.merge(&format!("{path}?fieldManager=flagger"), &json!({ "status": status })).ok();
    }
}

#[tokio::test(start_paused = true)]
async fn every_phase_is_adopted_without_a_rollout_or_a_change_of_traffic() {
    for left_in in phases() {
        let phase = left_in.phase;
        let mut world = left(&left_in).await;
        let (since, primary) = (revision(&world), generation(&world, "web-primary"));
        world.start().await;
        let status = world.status("web");
        assert_eq!(status["phase"], phase, "{:#?}", world.events());
        let shares = shares_since(&world, since);
        assert!(shares.iter().all(|share| *share == left_in.share), "{phase}: {shares:?}");
        assert_eq!(generation(&world, "web-primary"), primary, "{phase}: the primary restarted");
        assert_eq!(replicas(&world, "web"), left_in.replicas, "{phase}");
        assert_eq!(told(&world, "Adopted"), 1, "{phase}: {:?}", world.events());
        let applied = status["lastAppliedSpec"].as_str().unwrap_or_default();
        assert!(applied.starts_with("v1-"), "{phase}: {applied}");
        assert_eq!(status["trackedConfigs"], json!({ "configmap/web-config": BLUE }), "{phase}");
        let started = ["NewRevision", "AnalysisRestarted"];
        let reasons = reasons(&world);
        assert!(!reasons.iter().any(|it| started.contains(&&**it)), "{phase}: {reasons:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_rested_under_flagger_rests_on() {
    for left_in in phases().into_iter().filter(|it| it.replicas == 0) {
        let phase = left_in.phase;
        let mut world = left(&left_in).await;
        world.start().await;
        world.advance_s(300).await;
        assert_eq!(world.phase("web"), phase, "{:#?}", world.events());
        assert_eq!((replicas(&world, "web"), canary_share(&world)), (0, 0), "{phase}");
        assert_eq!(image(&world, "web-primary"), "web:1.0", "{phase}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_moved_under_flagger_moves_on_to_the_end() {
    for left_in in phases().into_iter().filter(|it| it.replicas > 0 || it.phase == "Waiting") {
        let phase = left_in.phase;
        let mut world = left(&left_in).await;
        world.start().await;
        for gate in ["confirm-rollout", "confirm-promotion"] {
            world.network.hook(&format!("hooks/{gate}"), Reply::yes());
        }
        let (since, primary) = (revision(&world), generation(&world, "web-primary"));
        let done = world.until(300, |world| world.phase("web") == "Succeeded").await;
        assert!(done, "{phase}: {:#} {:#?}", world.status("web"), world.events());
        assert_eq!(image(&world, "web-primary"), "web:2.0", "{phase}");
        assert_eq!((replicas(&world, "web"), canary_share(&world)), (0, 0), "{phase}");
        if left_in.primary == "web:2.0" {
            let after = generation(&world, "web-primary");
            assert_eq!(after, primary, "{phase}: it was promoted already");
        }
        if phase == "Progressing" {
            assert_eq!(shares_since(&world, since), [40, 50, 60, 0], "on from where it was");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_revision_stays_failed_until_the_target_changes() {
    let failed = phases().into_iter().find(|it| it.phase == "Failed").expect("it is a phase");
    let mut world = left(&failed).await;
    world.network.hook("hooks/confirm-rollout", Reply::yes());
    world.start().await;
    world.advance_s(300).await;
    assert_eq!(world.phase("web"), "Failed", "what failed under Flagger is not tried again");
    release(&world, "web:3.0");
    reach(&world, "Progressing").await;
}

#[tokio::test(start_paused = true)]
async fn an_edit_while_nobody_looked_is_a_new_revision() {
    for (phase, after) in [
        ("Initialized", "Progressing"),
        ("Succeeded", "Progressing"),
        ("Failed", "Progressing"),
        ("Waiting", "Progressing"),
        ("Progressing", "Progressing"),
        ("WaitingPromotion", "Progressing"),
    ] {
        let left_in = phases().into_iter().find(|it| it.phase == phase).expect("it is a phase");
        let mut world = left(&left_in).await;
        world.network.hook("hooks/confirm-rollout", Reply::yes());
        let edited = json!({ "spec": { "template": template("web", "web:3.0") } });
        world.patch(DEPLOYMENTS, "web", &edited);
        world.start().await;
        let there = world.until(30, |world| world.phase("web") == after).await;
        assert!(there, "{phase}: {:#} {:#?}", world.status("web"), world.events());
        assert_eq!(canary_share(&world), 0, "{phase}: nothing of 3.0 was analysed");
        let reasons = reasons(&world);
        let is_told = reasons.iter().any(|it| it == "NewRevision" || it == "AnalysisRestarted");
        assert!(is_told, "{phase}: {reasons:?}");
        assert_eq!(told(&world, "Adopted"), 0, "{phase}: {reasons:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_edit_during_flaggers_promotion_gets_no_traffic_unanalysed() {
    let left_in = phases().into_iter().find(|it| it.phase == "Promoting").expect("it is a phase");
    let mut world = left(&left_in).await;
    world.network.hook("hooks/confirm-promotion", Reply::yes());
    world.network.hook("hooks/confirm-rollout", Reply::yes());
    let edited = json!({ "spec": { "template": template("web", "web:3.0") } });
    world.patch(DEPLOYMENTS, "web", &edited);
    world.start().await;
    assert_eq!(canary_share(&world), 0, "{:#?}", world.events());
    assert_eq!(image(&world, "web-primary"), "web:2.0", "3.0 was not analysed yet");
    let done = world.until(300, |world| image(world, "web-primary") == "web:3.0").await;
    assert!(done, "{:#}", world.status("web"));
}

#[tokio::test(start_paused = true)]
async fn an_edit_of_something_else_is_no_new_revision() {
    let left_in = phases().into_iter().find(|it| it.phase == "Progressing").expect("is a phase");
    let mut world = left(&left_in).await;
    let path = "/apis/apps/v1/namespaces/default/deployments/web?fieldManager=kubectl-edit";
    let edited = json!({
        "metadata": { "labels": { "team": "shop" } }, "spec": { "revisionHistoryLimit": 3 },
    });
    Wire::new(&world.sandbox).merge(path, &edited).ok();
    world.start().await;
    assert_eq!((told(&world, "Adopted"), told(&world, "AnalysisRestarted")), (1, 0));
    assert_eq!(canary_share(&world), 30);
}

#[tokio::test(start_paused = true)]
async fn changed_configuration_is_noticed_against_flaggers_checksums() {
    let left_in = phases().into_iter().find(|it| it.phase == "Succeeded").expect("it is a phase");
    let mut world = left(&left_in).await;
    world.network.hook("hooks/confirm-rollout", Reply::yes());
    world.patch(CONFIG_MAPS, "web-config", &json!({ "data": { "color": "green" } }));
    world.start().await;
    reach(&world, "Progressing").await;
    let copy = object(&world, CONFIG_MAPS, "web-config-primary");
    assert_eq!(copy["data"]["color"], "blue", "the primary keeps its own until promotion");
}

#[tokio::test(start_paused = true)]
async fn what_users_added_to_taken_over_objects_survives() {
    let left_in = phases().into_iter().find(|it| it.phase == "Progressing").expect("is a phase");
    let mut world = left(&left_in).await;
    let note = json!({ "metadata": { "annotations": { "example.com/owner": "shop" } } });
    world.patch(HTTP_ROUTES, "web", &note);
    world.patch(SERVICES, "web", &json!({ "spec": { "sessionAffinity": "ClientIP" } }));
    world.network.hook("hooks/confirm-promotion", Reply::yes());
    world.start().await;
    reach(&world, "Succeeded").await;
    let route = object(&world, HTTP_ROUTES, "web");
    assert_eq!(route["metadata"]["annotations"]["example.com/owner"], "shop");
    assert_eq!(object(&world, SERVICES, "web")["spec"]["sessionAffinity"], "ClientIP");
    let owners = &route["metadata"]["ownerReferences"];
    assert_eq!(owners.as_array().map(Vec::len), Some(1), "still one owner: {owners}");
}

#[tokio::test(start_paused = true)]
async fn what_flagger_had_lost_is_made_again_and_the_next_release_goes_through() {
    let mut canary = canary_of("web", GATEWAY_API, by_weight());
    canary["spec"]["suspend"] = json!(true);
    let mut world = with_canary(canary);
    world.create(CONFIG_MAPS, config("web-config"));
    let same = json!({ "spec": { "template": template("web", "web:1.0") } });
    world.patch(DEPLOYMENTS, "web", &same);
    // The operator runs already, and changes nothing.
    world.start().await;
    world.advance_s(5).await;
    let succeeded = phases().into_iter().find(|it| it.phase == "Succeeded").expect("it is one");
    let flagger = Flagger::new(&world);
    flagger.workloads(&succeeded);
    world.advance_s(5).await;
    flagger.status(&succeeded);
    world.patch(CANARIES, "web", &json!({ "spec": { "suspend": false } }));
    world.advance_s(30).await;
    assert_eq!(world.phase("web"), "Succeeded");
    for name in ["web", "web-primary", "web-canary"] {
        assert!(world.get(SERVICES, name).is_some(), "{name}: {:#}", world.status("web"));
    }
    assert_eq!(canary_share(&world), 0);
    assert!(world.get(HTTP_ROUTES, "web").is_some(), "{:#}", world.status("web"));
    release(&world, "web:2.0");
    reach(&world, "Progressing").await;
    reach(&world, "Succeeded").await;
    assert_eq!(image(&world, "web-primary"), "web:2.0");
}
