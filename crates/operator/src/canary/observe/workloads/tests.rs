use serde_json::json;
use tidegate_engine::{Form, ManagedObject};
use tidegate_providers::workload::{
    CONFIG_MAP, DAEMON_SET, DEPLOYMENT, HORIZONTAL_POD_AUTOSCALER, SECRET,
};

use super::*;
use crate::canary::observe::testing::{Bench, deployment, owned, state, why};

fn with_scaler(bench: Bench) -> Bench {
    bench.spec(&json!({ "autoscalerRef": {
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "name": "web",
    } }))
}

fn scaler(name: &str, min: i64) -> Value {
    json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": { "name": name },
        "spec": {
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": name },
            "minReplicas": min, "maxReplicas": 10,
        },
    })
}

fn set_image(bench: &Bench, name: &str, image: &str) {
    bench.edit(DEPLOYMENT, name, |it| {
        it["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
        it["metadata"]["generation"] = json!(2);
    });
}

#[test]
fn the_target_is_what_the_deployment_asks_for() {
    let bench = Bench::new("istio").set_up();
    let target = bench.observe().observed.target.unwrap();
    assert_eq!((target.replicas, target.form), (2, Form::Replicas));
    assert!(target.readiness.is_ready() && target.same_as_primary);
    assert!(!target.scaler_paused && !target.edited_since);
    assert!(target.configs.is_some_and(|configs| configs.is_empty()));
    let before = target.revision;
    set_image(&bench, "web", "web:2.0");
    let target = bench.observe().observed.target.unwrap();
    assert!(target.revision != before && !target.same_as_primary);
}

#[test]
fn a_missing_target_is_gone_and_an_unusable_one_says_why() {
    let bench = Bench::new("istio");
    bench.remove(DEPLOYMENT, "web");
    assert_eq!(bench.observe().observed.target, Err(Missing::Gone("Deployment web".to_owned())));
    let bench = Bench::new("istio");
    bench.edit(DEPLOYMENT, "web", |web| {
        web["spec"]["template"]["spec"]["volumes"] =
            json!([{ "name": "c", "configMap": { "name": "settings" } }]);
    });
    let Err(Missing::Unusable(why)) = bench.observe().observed.target else { panic!("usable") };
    assert!(why.contains("settings"), "{why}");
}

#[test]
fn configuration_that_pods_mount_is_tracked_unless_a_flag_says_otherwise() {
    let mount = |bench: &Bench| {
        bench.put(CONFIG_MAP, json!({ "metadata": { "name": "settings" }, "data": { "a": "1" } }));
        bench.edit(DEPLOYMENT, "web", |web| {
            web["spec"]["template"]["spec"]["volumes"] =
                json!([{ "name": "c", "configMap": { "name": "settings" } }]);
        });
    };
    let bench = Bench::new("istio");
    mount(&bench);
    let observation = bench.observe();
    let names: Vec<_> = observation.tracked.keys().cloned().collect();
    assert_eq!(names, ["configmap/settings"]);
    let before = observation.observed.target.unwrap().configs;
    bench.put(CONFIG_MAP, json!({ "metadata": { "name": "settings" }, "data": { "a": "2" } }));
    assert_ne!(bench.observe().observed.target.unwrap().configs, before, "another content");

    let mut bench = Bench::new("istio");
    bench.options.config_tracking = false;
    mount(&bench);
    let observation = bench.observe();
    assert!(observation.tracked.is_empty());
    assert_eq!(observation.observed.target.unwrap().configs, None);
}

#[test]
fn a_template_written_by_others_since_the_last_transition_counts_as_edited() {
    let write = |manager: &str, time: &str| {
        json!([{ "manager": manager, "operation": "Update", "time": time,
                 "fieldsV1": { "f:spec": { "f:template": { "f:spec": {} } } } }])
    };
    let cases = [
        ("a person, later", write("kubectl", "2026-01-01T00:00:30Z"), true),
        ("a person, before", write("kubectl", "2025-12-31T23:00:00Z"), false),
        ("the operator, later", write("tidegate", "2026-01-01T00:00:30Z"), false),
        ("Flagger, later", write("flagger", "2026-01-01T00:00:30Z"), false),
    ];
    for (reason, fields, is_edited) in cases {
        let bench = Bench::new("istio").set_up();
        bench.edit(DEPLOYMENT, "web", |web| web["metadata"]["managedFields"] = fields);
        assert_eq!(bench.observe().observed.target.unwrap().edited_since, is_edited, "{reason}");
    }
}

#[test]
fn a_scaler_says_how_many_replicas_a_parked_target_gets() {
    let parked =
        |bench: &Bench| bench.edit(DEPLOYMENT, "web", |web| web["spec"]["replicas"] = json!(0));
    let bench = with_scaler(Bench::new("istio").set_up());
    parked(&bench);
    bench.put(HORIZONTAL_POD_AUTOSCALER, scaler("web", 4));
    let target = bench.observe().observed.target.unwrap();
    assert_eq!((target.replicas, target.replicas_to_run), (0, 4));
    let bench = Bench::new("istio").set_up();
    parked(&bench);
    assert_eq!(bench.observe().observed.target.unwrap().replicas_to_run, 2, "as the primary has");
}

#[test]
fn a_primary_is_updated_once_it_carries_the_applied_revision() {
    let bench = Bench::new("istio").set_up();
    let observed = bench.observe().observed;
    assert!(observed.primary.exists && observed.primary.readiness.is_ready());
    assert_eq!(observed.primary.replicas, 2);
    assert!(observed.primary.is_updated, "without an identifier the template decides");
    let applied = observed.memory.applied.unwrap();
    let annotate = |id: &str| {
        bench.edit(DEPLOYMENT, "web-primary", |primary| {
            primary["spec"]["template"]["metadata"]["annotations"] = json!({ "flagger-id": id });
        });
    };
    annotate(&primary::flagger_id(applied.as_str(), &Tracked::new()));
    assert!(bench.observe().observed.primary.is_updated);
    annotate(&primary::flagger_id("v1-another", &Tracked::new()));
    assert!(!bench.observe().observed.primary.is_updated, "an identifier of ours decides");
    annotate("00000000-0000-4000-0000-000000000000");
    assert!(bench.observe().observed.primary.is_updated, "one of Flagger says nothing");
    set_image(&bench, "web", "web:2.0");
    assert!(!bench.observe().observed.primary.is_updated, "nor does it say so of another image");
}

#[test]
fn a_primary_of_another_owner_is_left_alone() {
    let bench = Bench::new("istio").set_up();
    bench.edit(DEPLOYMENT, "web-primary", |primary| {
        primary["metadata"]["ownerReferences"][0]["name"] = json!("other");
    });
    let found = state(&bench.observe(), ManagedObject::Primary);
    assert!(why(&found).contains("other"), "{found:?}");
    bench.edit(DEPLOYMENT, "web-primary", |primary| {
        primary["metadata"]["ownerReferences"] = json!([]);
    });
    assert!(matches!(state(&bench.observe(), ManagedObject::Primary), State::Blocked(_)));
}

#[test]
fn a_lost_primary_is_created_again_only_from_what_was_promoted() {
    let lost = || {
        let bench = Bench::new("istio").set_up();
        bench.remove(DEPLOYMENT, "web-primary");
        bench
    };
    let keep_snapshot = |bench: &Bench| {
        bench.put(SECRET, json!({ "metadata": { "name": Snapshot::name("web") } }));
    };
    let observe = |bench: &Bench| state(&bench.observe(), ManagedObject::Primary);
    assert_eq!(observe(&lost()), State::OutOfSync, "the target is what was promoted");

    let bench = lost();
    set_image(&bench, "web", "web:2.0");
    assert!(why(&observe(&bench)).contains("revert the target"), "{:?}", observe(&bench));
    keep_snapshot(&bench);
    assert_eq!(observe(&bench), State::OutOfSync, "a snapshot knows what it ran");
    bench.remove(DEPLOYMENT, "web");
    assert!(why(&observe(&bench)).contains("without the target"), "{:?}", observe(&bench));

    let absent = lost().observe().observed.primary;
    assert!(!absent.exists && !absent.readiness.is_ready() && !absent.is_updated);
    assert_eq!(absent.replicas, 1);
}

#[test]
fn the_primary_gets_a_scaler_once_there_is_one_to_copy() {
    let observe = |bench: &Bench| {
        bench.observe().findings[&ManagedWrite::Ensure(ManagedObject::PrimaryScaler)].clone()
    };
    let bench = with_scaler(Bench::new("istio").set_up());
    let found = observe(&bench);
    assert!(why(&found.state).contains("web"), "there is none to copy: {found:?}");
    bench.put(HORIZONTAL_POD_AUTOSCALER, scaler("web", 4));
    let found = observe(&bench);
    assert_eq!((found.state, found.changes.len()), (State::OutOfSync, 1));
    bench.put(HORIZONTAL_POD_AUTOSCALER, owned(scaler("web-primary", 4)));
    assert_eq!(observe(&bench).state, State::InSync);
    bench.put(HORIZONTAL_POD_AUTOSCALER, scaler("web", 5));
    assert_eq!(observe(&bench).state, State::InSync, "promotions alone update it");
    bench.put(HORIZONTAL_POD_AUTOSCALER, {
        let mut foreign = scaler("web-primary", 4);
        foreign["metadata"]["ownerReferences"] = json!([]);
        foreign
    });
    assert!(matches!(observe(&bench).state, State::Blocked(_)), "of somebody else");
}

#[test]
fn a_promotion_refreshes_the_scaler_and_keeps_one_whose_model_is_gone() {
    let bench = with_scaler(Bench::new("istio").set_up());
    let refreshed = |bench: &Bench| {
        let observation = bench.observe();
        observation.inputs.refreshed_scaler(&observation.inputs.scalers).map(|it| it.len()).ok()
    };
    assert_eq!(refreshed(&bench), None, "no scaler at all");
    bench.put(HORIZONTAL_POD_AUTOSCALER, scaler("web", 4));
    assert_eq!(refreshed(&bench), Some(1), "created");
    bench.put(HORIZONTAL_POD_AUTOSCALER, owned(scaler("web-primary", 2)));
    assert_eq!(refreshed(&bench), Some(1), "updated");
    bench.remove(HORIZONTAL_POD_AUTOSCALER, "web");
    assert_eq!(refreshed(&bench), Some(0), "kept");
    assert_eq!(refreshed(&Bench::new("istio")), Some(0), "none is asked for");
}

#[test]
fn a_daemon_set_has_no_replicas_and_its_deadline_runs_from_the_first_missing_pod() {
    let set = |name: &str, available: i64| {
        let mut set = deployment(name, "web:1.0", 1);
        set["kind"] = json!("DaemonSet");
        set["spec"].as_object_mut().unwrap().remove("replicas");
        set["status"] = json!({
            "observedGeneration": 1, "desiredNumberScheduled": 2, "currentNumberScheduled": 2,
            "updatedNumberScheduled": 2, "numberAvailable": available, "numberReady": available,
        });
        set
    };
    let bench = Bench::new("kubernetes")
        .spec(&json!({ "targetRef": { "kind": "DaemonSet" }, "progressDeadlineSeconds": 60 }))
        .remembering(&json!({
            "phase": "Progressing",
            "rollout": { "canaryLackingSince": "2026-01-01T00:00:30Z" },
        }));
    bench.put(DAEMON_SET, set("web", 2));
    let target = bench.observe().observed.target.unwrap();
    assert_eq!((target.form, target.readiness.is_ready()), (Form::PerNode, true));
    let bench = Bench { memo: std::cell::RefCell::default(), ..bench };
    bench.put(DAEMON_SET, set("web", 1));
    let waits = bench.observe().observed.target.unwrap().readiness;
    assert!(matches!(waits, Readiness::Waiting(_)), "half a minute of one: {waits:?}");
    let since = bench.memo.borrow().unready_since.target;
    assert!(since.is_some(), "it is remembered");
}

#[test]
fn the_previous_target_is_named_with_its_kind() {
    let bench = Bench::new("istio").remembering(&json!({
        "phase": "Succeeded",
        "rollout": { "target": { "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "old" } },
    }));
    let previous = bench.observe().observed.objects.previous_target;
    assert_eq!(previous.as_deref(), Some("the DaemonSet `old`"));
    assert_eq!(Bench::new("istio").set_up().observe().observed.objects.previous_target, None);
}

#[test]
fn a_revision_of_knative_that_has_traffic_by_its_name_is_a_primary_that_can_be_named_again() {
    let named = |more: &Value| {
        let mut entry = json!({ "revisionName": "web-00001", "percent": 50 });
        crate::canary::observe::testing::merge(&mut entry, more);
        json!([{ "latestRevision": true, "percent": 50 }, entry])
    };
    let latest = json!([{ "latestRevision": true, "percent": 100 }]);
    let cases = [
        ("named", named(&json!({})), true),
        ("a preview", named(&json!({ "tag": "look" })), false),
        ("nothing is named", latest, false),
    ];
    for (reason, traffic, is_known) in cases {
        let bench = crate::canary::testing::knative(None, &traffic).remembering(&json!({
            "phase": "Succeeded", "lastPromotedSpec": "another", "lastAppliedSpec": "another",
        }));
        let state = state(&bench.observe(), ManagedObject::Primary);
        assert_eq!(state == State::OutOfSync, is_known, "{reason}: {state:?}");
        if !is_known {
            assert!(why(&state).contains("primary-revision is gone"), "{reason}: {state:?}");
        }
    }
}

#[test]
fn the_target_of_knative_is_the_primary_if_its_newest_revision_is() {
    let same = |primary: &str| {
        let bench = crate::canary::testing::knative(Some(primary), &json!([]));
        let observation = bench.remembering(&json!({ "phase": "Succeeded" })).observe();
        observation.observed.target.expect("a target").same_as_primary
    };
    assert!(same("web-00002"));
    assert!(!same("web-00001"));
}

#[test]
fn without_tracking_a_primary_that_is_gone_is_made_again_from_what_may_be_kept() {
    let state_of = |tracks_configs: bool| {
        let mut bench = Bench::new("istio").set_up();
        bench.options.config_tracking = tracks_configs;
        set_image(&bench, "web", "web:2.0");
        bench.remove(DEPLOYMENT, "web-primary");
        state(&bench.observe(), ManagedObject::Primary)
    };
    assert!(matches!(state_of(true), State::Blocked(_)), "no Secret has the promoted template");
    assert_eq!(state_of(false), State::OutOfSync, "it is not known whether one has");
}
