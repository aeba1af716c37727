use serde_json::json;
use tidegate_engine::{ManagedObject, Missing, Phase, State};
use tidegate_providers::{
    traffic::VIRTUAL_SERVICE,
    workload::{DAEMON_SET, DEPLOYMENT},
};

use super::testing::{Bench, state};
use crate::canary::env::{ManagedWrite, NotYet};

#[test]
fn a_new_canary_has_everything_to_be_put_in_place() {
    let observation = Bench::new("istio").observe();
    let observed = &observation.observed;
    assert_eq!(observed.memory.phase, Phase::New);
    assert_eq!(observed.target.as_ref().map(|target| target.replicas), Ok(2));
    assert!(!observed.primary.exists);
    for object in ManagedObject::ALL {
        let want = match object {
            // There is no scaler to copy.
            ManagedObject::PrimaryScaler => State::InSync,
            _ => State::OutOfSync,
        };
        assert_eq!(state(&observation, object), want, "{object:?}");
    }
    assert!(observed.blockers.is_empty() && observed.objects.spec_error.is_none());
}

#[test]
fn a_canary_that_is_set_up_is_in_sync_and_has_nothing_to_change() {
    for provider in ["istio", "linkerd", "kubernetes", "contour", "traefik"] {
        let bench = Bench::new(provider).set_up();
        let observation = bench.observe();
        for object in ManagedObject::ALL {
            assert_eq!(state(&observation, object), State::InSync, "{provider}: {object:?}");
        }
        for (write, finding) in &observation.findings {
            assert_eq!(finding.changes, [], "{provider}: {write:?}");
        }
        let observed = &observation.observed;
        assert!(observed.primary.exists && observed.primary.is_updated, "{provider}");
        assert!(observed.routes.is_ok(), "{provider}: {:?}", observed.routes);
    }
}

#[test]
fn an_object_that_cannot_be_read_says_where() {
    let bench = Bench::new("istio").spec(&json!({ "analysis": { "maxWeight": "many" } }));
    let Err(NotYet::Unreadable(why)) = bench.look() else { panic!("it is readable") };
    assert!(why.contains("many"), "{why}");
}

#[test]
fn nothing_is_observed_before_all_kinds_are_listed() {
    use crate::cluster::cache::TableState;
    let mut bench = Bench::new("istio");
    bench.fail(VIRTUAL_SERVICE, TableState::Pending);
    assert_eq!(bench.look().err(), Some(NotYet::Listing));
    assert!(bench.watched.lock().contains(&VIRTUAL_SERVICE), "a watch is started");
    bench.list(&[VIRTUAL_SERVICE]);
    assert!(bench.look().is_ok());
}

#[test]
fn a_definition_of_a_route_that_was_not_read_is_waited_for() {
    let bench = Bench::new("gatewayapi:v1")
        .spec(&json!({ "service": { "gatewayRefs": [{ "name": "edge" }] } }));
    assert_eq!(bench.look().err(), Some(NotYet::Listing));
}

#[test]
fn fields_that_the_definition_drops_are_filled_in_while_the_phase_is_the_same() {
    let meant = json!({
        "phase": "Progressing", "observedGeneration": 3,
        "lastDecision": { "reason": "WeightAdvanced", "message": "m", "time": "2026-01-01T00:00:00Z" },
        "rollout": { "prepared": true },
        "manualPause": { "weight": 20 },
    });
    let cases = [
        ("pruned", json!({ "phase": "Progressing" }), true),
        ("another phase", json!({ "phase": "Failed" }), false),
        ("complete", json!({ "phase": "Progressing", "observedGeneration": 4 }), false),
    ];
    for (reason, status, is_filled) in cases {
        let mut bench = Bench::new("istio").remembering(&status);
        bench.unpruned_status = serde_json::from_value(meant.clone()).ok();
        let observation = bench.observe();
        let status = &observation.inputs.remembered.status;
        assert_eq!(status.observed_generation == Some(3), is_filled, "{reason}");
        assert_eq!(status.last_decision.is_some(), is_filled, "{reason}");
        assert_eq!(status.manual_pause.is_some(), is_filled, "{reason}");
        assert_eq!(observation.observed.memory.prepared, is_filled, "{reason}");
    }
}

#[test]
fn a_rejected_write_blocks_its_object_and_no_other() {
    use std::time::Duration;
    let until = Duration::from_secs(2000);
    for object in ManagedObject::ALL {
        let mut bench = Bench::new("istio").set_up();
        bench.rejected.add(ManagedWrite::Ensure(object), "a policy".to_owned(), until, 1);
        let observation = bench.observe();
        for other in ManagedObject::ALL {
            let is_blocked = matches!(state(&observation, other), State::Blocked(_));
            assert_eq!(is_blocked, other == object, "{object:?} was rejected: {other:?}");
        }
    }
    let cases = [
        ("an old one", 999, 1, false),
        ("of another spec", 2000, 2, false),
        ("a fresh one", 2000, 1, true),
    ];
    for (reason, until, generation, blocks) in cases {
        let mut bench = Bench::new("istio").set_up();
        let until = Duration::from_secs(until);
        bench.rejected.add(ManagedWrite::Shift, "a policy".to_owned(), until, generation);
        let objects = bench.observe().observed.objects;
        assert_eq!(objects.route != State::InSync, blocks, "{reason}");
        assert!(objects.shift_refused.is_some(), "{reason}: it is remembered");
    }
}

#[test]
fn the_canary_depends_on_every_object_that_was_looked_at() {
    let bench = Bench::new("istio").spec(&json!({ "autoscalerRef": {
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "name": "web",
    } }));
    bench.edit(DEPLOYMENT, "web", |web| {
        web["spec"]["template"]["spec"]["volumes"] =
            json!([{ "name": "c", "configMap": { "name": "settings" } }]);
    });
    let found = bench.observe().dependencies();
    let found: Vec<String> =
        found.iter().map(|(kind, key)| format!("{} {}", kind.kind, key.name)).collect();
    let mut want = vec![
        "ConfigMap settings",
        "Deployment web",
        "Deployment web-primary",
        "DestinationRule web-canary",
        "DestinationRule web-primary",
        "HorizontalPodAutoscaler web",
        "HorizontalPodAutoscaler web-primary",
        "Service web",
        "Service web-canary",
        "Service web-primary",
        "VirtualService web",
    ];
    let mut found: Vec<&str> = found.iter().map(String::as_str).collect();
    found.sort_unstable();
    want.sort_unstable();
    assert_eq!(found, want);
}

#[test]
fn the_lifecycle_is_that_of_the_canary() {
    let finalizer = json!({ "finalizers": ["finalizer.flagger.app"] });
    let other = json!({ "finalizers": ["other"] });
    let cases = [
        ("plain", Bench::new("istio"), false, false),
        ("with the finalizer", Bench::new("istio").metadata(&finalizer), true, false),
        ("with another one", Bench::new("istio").metadata(&other), false, false),
        ("deleted", Bench::new("istio").deleted(), false, true),
    ];
    for (reason, bench, has_finalizer, is_deleted) in cases {
        let lifecycle = bench.observe().observed.lifecycle;
        assert_eq!(lifecycle.has_finalizer, has_finalizer, "{reason}");
        assert_eq!(lifecycle.deleted_at.is_some(), is_deleted, "{reason}");
    }
}

#[test]
fn hooks_are_sent_the_pending_revision_before_a_rollout_and_the_started_one_after() {
    let applied = json!({ "lastAppliedSpec": "v1-old", "phase": "Initialized" });
    let checksum = |phase: &str| {
        let status = json!({ "lastAppliedSpec": "v1-old", "phase": phase });
        Bench::new("istio").remembering(&applied).remembering(&status).observe().checksum()
    };
    let pending = checksum("Initialized");
    for phase in ["Succeeded", "Failed", "Waiting"] {
        assert_eq!(checksum(phase), pending, "{phase}");
    }
    let started = checksum("Progressing");
    assert_ne!(started, pending);
    for phase in ["Promoting", "Finalising", "WaitingPromotion"] {
        assert_eq!(checksum(phase), started, "{phase}");
    }
    let observation = Bench::new("istio").remembering(&applied).observe();
    assert!(observation.step().ends_with(&pending), "{}", observation.step());
    assert!(observation.step().starts_with("Initialized/0/0/0/"), "{}", observation.step());
}

#[test]
fn a_target_of_an_unlisted_kind_is_not_taken_for_gone() {
    use crate::cluster::cache::TableState;
    let daemon_set = json!({ "targetRef": { "kind": "DaemonSet" } });
    let mut bench = Bench::new("istio").spec(&daemon_set);
    bench.remove(DEPLOYMENT, "web");
    assert_eq!(
        bench.observe().observed.target.err(),
        Some(Missing::Gone("DaemonSet web".to_owned()))
    );
    bench.fail(DAEMON_SET, TableState::Failed("forbidden".to_owned()));
    let missing = bench.observe().observed.target.err();
    assert_eq!(missing, Some(Missing::Unusable("forbidden".to_owned())));
}
