use serde_json::{Value, json};
use tidegate_engine::{Notice, Outcome, Percent, Phase, Revision, Severity};
use tidegate_providers::{
    traffic::{KNATIVE_SERVICE, VIRTUAL_SERVICE},
    workload::{CONFIG_MAP, DEPLOYMENT, HORIZONTAL_POD_AUTOSCALER, SCALED_OBJECT, SECRET, SERVICE},
};

use super::*;
use crate::{
    canary::{
        observe::testing::Bench,
        testing::{Kit, Reply, in_analysis, knative},
    },
    cluster::{ALERT_PROVIDER, CANARY},
};

fn split(canary: i64) -> Split {
    Split { canary: Percent::clamped(canary), mirrored: false }
}

fn nothing() -> Value {
    json!({})
}

fn rolling() -> Kit {
    Kit::in_analysis(&nothing(), &nothing())
}

/// A rollout at 20 % that was begun with a route of another name.
fn rerouted() -> Kit {
    let route = json!({
        "provider": "istio", "kind": "VirtualService", "name": "web", "service": "web",
    });
    Kit::in_analysis(
        &json!({ "service": { "name": "shop" } }),
        &json!({ "rollout": { "provider": "istio", "route": route } }),
    )
}

/// Divides the route by hand.
fn divide(kit: &Kit, canary: i64) {
    kit.edit(VIRTUAL_SERVICE, "web", |route| {
        let both = &mut route["spec"]["http"][0]["route"];
        (both[0]["weight"], both[1]["weight"]) = (json!(100 - canary), json!(canary));
    });
}

fn chat(kit: &Kit) {
    kit.put(
        ALERT_PROVIDER,
        json!({
            "metadata": { "name": "chat" },
            "spec": { "type": "webhook", "address": "http://chat.example/" },
        }),
    );
}

fn alerts() -> Value {
    json!({ "analysis": { "alerts": [{
        "name": "a", "severity": "info", "providerRef": { "name": "chat" },
    }] } })
}

fn alert(about: Notice) -> Action {
    Action::Alert(Alert { severity: Severity::Info, about })
}

const STATUS: &str = "PATCH canaries/web/status";

#[tokio::test(start_paused = true)]
async fn actions_are_carried_out_in_order_and_the_status_last() {
    let kit = rolling();
    let advanced = Fact::Advanced(Percent::clamped(40));
    let actions = vec![
        Action::ScaleTarget(3),
        Action::Shift(split(40)),
        Action::Announce(advanced),
        Action::Count(Outcome::Failed),
    ];
    let acted = kit.act(actions).await;
    assert_eq!(acted.error, "");
    assert_eq!(kit.api.writes(), ["PATCH deployments/web", "PATCH virtualservices/web", STATUS],);
    assert_eq!(kit.api.get(DEPLOYMENT, "web").unwrap()["spec"]["replicas"], 3);
    assert_eq!(kit.event_reasons().len(), 1, "{:?}", kit.events());
    assert!(kit.api.requests().iter().all(|it| it.has_permit), "writes need a permit");
    assert!(kit.has_metric("flagger_canary_failures_total"), "counted");
    assert!(kit.has_metric("flagger_canary_weight{"), "the weight is shown");
    let memory = acted.memory.unwrap();
    assert_eq!(memory.phase, Phase::Progressing, "as before: nothing else was remembered");
}

#[tokio::test(start_paused = true)]
async fn each_action_writes_its_object() {
    let scaled = |paused: bool| {
        let kit = Kit::in_analysis(
            &json!({ "autoscalerRef": {
                "apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "name": "web",
            } }),
            &nothing(),
        );
        let mark = json!({ "autoscaling.keda.sh/paused-replicas": "0" });
        kit.put(
            SCALED_OBJECT,
            json!({
                "apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject",
                "metadata": {
                    "name": "web", "annotations": if paused { mark } else { json!({}) },
                },
                "spec": { "scaleTargetRef": { "name": "web" }, "triggers": [] },
            }),
        );
        kit
    };
    let divided = || {
        let kit = rerouted();
        divide(&kit, 20);
        kit
    };
    let without_service = || {
        let kit = rolling();
        kit.remove(SERVICE, "web-canary");
        kit
    };
    let finalizer = || Kit::in_analysis(&nothing(), &nothing());
    let bare = || Kit::at_rest(&nothing(), &nothing());
    let cases = vec![
        ("park", rolling(), Action::Park, "PATCH deployments/web"),
        ("scale", rolling(), Action::ScaleTarget(5), "PATCH deployments/web"),
        ("scaled already", rolling(), Action::ScaleTarget(2), ""),
        ("pause", scaled(false), Action::PauseScaler, "PATCH scaledobjects/web"),
        ("paused already", scaled(true), Action::PauseScaler, ""),
        ("resume", scaled(true), Action::ResumeScaler, "PATCH scaledobjects/web"),
        ("never paused", scaled(false), Action::ResumeScaler, ""),
        ("refresh", scaled(false), Action::RefreshPrimaryScaler, "PATCH scaledobjects/web-primary"),
        ("nothing to refresh", rolling(), Action::RefreshPrimaryScaler, ""),
        (
            "a Service is missing",
            without_service(),
            Action::Ensure(ManagedObject::CanaryService),
            "PATCH services/web-canary",
        ),
        ("a Service is there", rolling(), Action::Ensure(ManagedObject::CanaryService), ""),
        ("its finalizer is there", finalizer(), Action::AddFinalizer, ""),
        ("its finalizer goes", finalizer(), Action::RemoveFinalizer, "PATCH canaries/web"),
        ("it gets a finalizer", bare(), Action::AddFinalizer, "PATCH canaries/web"),
        ("there is none to remove", bare(), Action::RemoveFinalizer, ""),
        ("the previous route", divided(), Action::RetirePreviousRoute, "PATCH virtualservices/web"),
        ("no previous route", rolling(), Action::RetirePreviousRoute, ""),
        ("nothing to restore", rolling(), Action::RestoreRoute, ""),
        ("nothing to prune", rolling(), Action::Prune, ""),
        ("no step", rolling(), Action::DropManualStep(None), ""),
        ("no annotation", rolling(), Action::ClearRetry, ""),
    ];
    for (reason, kit, action, want) in cases {
        let acted = kit.act(vec![action]).await;
        assert_eq!(acted.error, "", "{reason}");
        let mut writes = kit.api.writes();
        assert_eq!(writes.pop().as_deref(), Some(STATUS), "{reason}: {writes:?}");
        assert_eq!(writes.first().map_or("", String::as_str), want, "{reason}");
        assert!(writes.len() <= 1, "{reason}: {writes:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_failure_ends_it_and_only_rejections_of_managed_writes_are_decided_upon() {
    let shift = || Action::Shift(split(40));
    let route = "PATCH virtualservices/web";
    let target = "PATCH deployments/web";
    let cases = [
        ("rejected", shift(), route, 403, "refused", true),
        ("not allowed by a policy", shift(), route, 422, "refused", true),
        ("another one wrote", shift(), route, 409, "changed", false),
        ("it is gone", shift(), route, 404, "does not exist", false),
        ("no answer", shift(), route, 500, "could not be written", false),
        ("not now", shift(), route, 503, "could not be written", false),
        ("rejected, and not managed", Action::ScaleTarget(7), target, 403, "refused", false),
    ];
    for (reason, action, line, code, error, is_rejection) in cases {
        let kit = rolling();
        kit.api.fail(line, code, 1);
        let (mut actor, observation) = (kit.actor(), kit.observe());
        let actions = vec![action, Action::Announce(Fact::Mirroring)];
        let acted = kit.act_by(&mut actor, &observation, actions).await;
        assert!(acted.error.contains(error), "{reason}: {}", acted.error);
        assert_eq!(acted.is_rejection, is_rejection, "{reason}");
        assert_eq!(kit.api.writes(), [line], "{reason}: nothing follows");
        assert_eq!(kit.event_reasons(), Vec::<String>::new(), "{reason}: nothing follows");
        let kept = actor.rejected.last(&ManagedWrite::Shift);
        assert_eq!(kept.is_some(), is_rejection, "{reason}: remembered");
    }
}

#[tokio::test(start_paused = true)]
async fn a_rejection_rests_for_an_interval_and_ends_with_success() {
    let kit = rolling();
    kit.api.fail("PATCH virtualservices/web", 403, 1);
    let (mut actor, observation) = (kit.actor(), kit.observe());
    kit.act_by(&mut actor, &observation, vec![Action::Shift(split(40))]).await;
    let now = kit.cx.clock.monotonic();
    let rests = |actor: &Actor, later: u64, generation: i64| {
        let now = now + Duration::from_millis(later);
        actor.rejected.obstacle(&ManagedWrite::Shift, now, generation).is_some()
    };
    assert!(rests(&actor, 9_999, 1), "an interval is ten seconds");
    assert!(!rests(&actor, 10_000, 1));
    assert!(!rests(&actor, 1, 2), "another spec");
    kit.act_by(&mut actor, &observation, vec![Action::Shift(split(40))]).await;
    assert_eq!(actor.rejected.last(&ManagedWrite::Shift), None, "it succeeded");
}

#[test]
fn restores_rest_for_two_minutes_at_least() {
    let second = Duration::from_secs;
    let cases = [
        (ManagedWrite::Shift, 10, 10),
        (ManagedWrite::Ensure(ManagedObject::Route), 300, 300),
        (ManagedWrite::Prune, 10, 10),
        (ManagedWrite::RetirePreviousRoute, 10, 10),
        (ManagedWrite::RestoreApex, 10, 120),
        (ManagedWrite::RestoreApex, 300, 300),
        (ManagedWrite::RestoreRoute, 10, 120),
    ];
    for (write, interval, want) in cases {
        assert_eq!(retry_delay(write, second(interval)), second(want), "{write:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_chat_that_hangs_keeps_no_permit_and_delays_nothing_but_the_status_for_a_second() {
    let kit = Kit::in_analysis(&alerts(), &nothing());
    chat(&kit);
    kit.net.answer("chat", &[Reply::After(Duration::from_secs(4))]);
    let actions =
        vec![alert(Notice::NewRevision), alert(Notice::NewRevision), Action::ScaleTarget(3)];
    let start = kit.cx.clock.monotonic();
    let (acted, (writes, free)) = tokio::join!(kit.act(actions), async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        (kit.api.writes(), kit.cx.reconcile_permits.available_permits())
    });
    assert_eq!(acted.error, "");
    assert_eq!(writes, ["PATCH deployments/web"], "pods and traffic do not wait for a chat");
    assert_eq!(free, kit.cx.options.permits, "a chat must not keep others from writing");
    assert_eq!(kit.api.writes(), ["PATCH deployments/web", STATUS]);
    let waited = kit.cx.clock.monotonic().saturating_sub(start);
    assert_eq!(waited, Duration::from_secs(1), "the status waits");
    assert_eq!(kit.net.calls().len(), 1, "once at one position");
    assert!(kit.api.requests().iter().all(|it| it.has_permit));
}

#[tokio::test(start_paused = true)]
async fn the_status_waits_for_an_alert_of_a_decision_that_failed() {
    let kit = Kit::in_analysis(&alerts(), &nothing());
    chat(&kit);
    kit.net.answer("chat", &[Reply::After(Duration::from_millis(900))]);
    kit.api.fail("PATCH deployments/web", 409, 1);
    let (mut actor, observation) = (kit.actor(), kit.observe());
    let actions = || vec![alert(Notice::NewRevision), Action::ScaleTarget(3)];
    let start = kit.cx.clock.monotonic();
    assert_ne!(kit.act_by(&mut actor, &observation, actions()).await.error, "");
    assert_eq!(kit.act_by(&mut actor, &observation, actions()).await.error, "");
    let waited = kit.cx.clock.monotonic().saturating_sub(start);
    assert_eq!(waited, Duration::from_millis(900), "the message is out before the status");
    assert_eq!(kit.net.calls().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_decision_whose_alert_is_being_sent_is_finished_when_the_loop_is_to_stop() {
    let kit = Kit::in_analysis(&alerts(), &nothing());
    chat(&kit);
    kit.net.answer("chat", &[Reply::After(Duration::from_secs(4))]);
    let (acted, ()) = tokio::join!(kit.act(vec![alert(Notice::Promoted)]), async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        kit.stop.send_replace(true);
    });
    assert_eq!(acted.error, "");
    assert_eq!(kit.api.writes(), [STATUS]);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_is_rejected_is_an_error_and_not_decided_upon() {
    let kit = rolling();
    let canary = kit.canary();
    let (observation, mut actor) = (kit.observe(), kit.actor());
    let refused = Err(WriteError::Refused { what: "it".to_owned(), why: "no".to_owned() });
    let rejects = |actor: &mut Actor, action: &Action| {
        actor.note_outcome(&canary, &observation, action, &refused)
    };
    assert!(rejects(&mut actor, &Action::Shift(split(40))), "the engine has an answer to that");
    assert!(!rejects(&mut actor, &Action::Prune), "an orphan that stays");
}

#[tokio::test(start_paused = true)]
async fn an_alert_that_is_lost_at_once_is_an_event() {
    let kit = Kit::in_analysis(&alerts(), &nothing());
    kit.act(vec![alert(Notice::Promoted)]).await;
    let events = kit.events();
    assert_eq!(events.len(), 1);
    assert!(events[0].1.contains("AlertProvider shop/chat does not exist"), "{events:?}");
    assert!(kit.api.requests().iter().all(|it| it.has_permit), "the event is a write");
}

#[tokio::test(start_paused = true)]
async fn the_status_is_written_unless_the_finalizer_is_gone() {
    let remember = || Action::Remember(Box::default());
    let deleted = |bench: Bench| Kit::of(bench.deleted());
    let held = || in_analysis("istio");
    let free = || in_analysis("istio").metadata(&json!({ "finalizers": null }));
    let cases = [
        ("a canary as usual", rolling(), vec![], vec![STATUS]),
        ("remembered once", rolling(), vec![remember()], vec![STATUS]),
        ("being deleted, and held", deleted(held()), vec![], vec![STATUS]),
        ("let go now", deleted(held()), vec![Action::RemoveFinalizer], vec!["PATCH canaries/web"]),
        ("let go before", deleted(free()), vec![], vec![]),
        ("without a finalizer, and alive", Kit::of(free()), vec![], vec![STATUS]),
    ];
    for (reason, kit, actions, want) in cases {
        assert_eq!(kit.act(actions).await.error, "", "{reason}");
        assert_eq!(kit.api.writes(), want, "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_memory_that_is_written_is_the_memory_of_what_follows() {
    let kit = rolling();
    let memory = Memory { weight: Percent::clamped(40), ..kit.observe().observed.memory };
    let actions = vec![Action::Remember(Box::new(memory.clone()))];
    assert_eq!(kit.act(actions).await.memory, Some(memory));
    assert_eq!(kit.live()["status"]["canaryWeight"], 40);
    assert!(kit.has_metric("flagger_canary_status{"), "the phase is shown");
}

#[tokio::test(start_paused = true)]
async fn a_status_that_cannot_be_written_is_a_failure_and_no_rejection() {
    for code in [403, 409, 500] {
        let kit = rolling();
        kit.api.fail(STATUS, code, 1);
        let acted = kit.act(vec![]).await;
        assert_ne!(acted.error, "", "{code}");
        assert!(!acted.is_rejection, "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn results_of_checks_are_written_once() {
    let kit = rolling();
    let (mut actor, observation) = (kit.actor(), kit.observe());
    let measured = vec![tidegate_engine::Measurement {
        name: "latency".to_owned(),
        value: 5.0,
        min: None,
        max: Some(9.0),
        passed: true,
    }];
    actor.checks = Some(Checks { measured, ..Checks::default() });
    kit.act_by(&mut actor, &observation, vec![]).await;
    assert!(kit.live()["status"].to_string().contains("latency"), "{}", kit.live()["status"]);
    assert!(actor.checks.is_none(), "a later decision did not measure this");
}

#[tokio::test(start_paused = true)]
async fn a_stopped_pass_writes_nothing() {
    let kit = rolling();
    let permits = kit.cx.options.permits;
    let all = kit.cx.reconcile_permits.acquire_many(u32::try_from(permits).unwrap());
    let all = all.await.unwrap();
    kit.stop.send_replace(true);
    let follower = Key::new("shop", "other");
    let reconciler = kit.reconciler();
    let stop = kit.stop.subscribe();
    crate::reconcile::run(Arc::clone(&kit.cx), follower, reconciler, Duration::ZERO, stop).await;
    drop(all);
    assert_eq!(kit.api.requests().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_route_is_remembered_before_it_has_a_share_and_after_the_previous_one_has_none() {
    let kit = rerouted();
    divide(&kit, 20);
    let route = |kit: &Kit| kit.live()["status"]["rollout"]["route"]["service"].clone();
    kit.act(vec![Action::Shift(split(20))]).await;
    assert_eq!(route(&kit), "web", "the previous route still has a share");

    let kit = rerouted();
    divide(&kit, 20);
    let retired = kit.act(vec![Action::RetirePreviousRoute]).await;
    assert_eq!(retired.error, "");
    assert!(kit.has_metric(r#"flagger_canary_weight{workload="web",namespace="shop"} 0"#));
    kit.catch_up();
    kit.api.clear();
    assert_eq!(route(&kit), "web", "until the next action says otherwise");
    kit.act(vec![Action::Ensure(ManagedObject::Route)]).await;
    let writes = kit.api.writes();
    assert_eq!(writes.first().map(String::as_str), Some(STATUS), "{writes:?}");
    assert!(writes.contains(&"PATCH virtualservices/shop".to_owned()), "{writes:?}");
    assert_eq!(route(&kit), "shop");
    kit.catch_up();
    kit.api.clear();
    kit.act(vec![Action::Shift(split(20))]).await;
    assert_ne!(kit.api.writes().first().map(String::as_str), Some(STATUS), "it is known");
}

#[tokio::test(start_paused = true)]
async fn a_share_of_a_kind_that_cannot_be_listed_is_refused() {
    let kit = Kit::in_analysis(&nothing(), &nothing());
    let mut observation = kit.observe();
    observation.routes.unlisted = Some(TableState::Failed("forbidden".to_owned()));
    let mut actor = kit.actor();
    // The route is at 20 %: nothing would be written.
    let acted = kit.act_by(&mut actor, &observation, vec![Action::Shift(split(20))]).await;
    assert!(acted.error.contains("forbidden") && acted.is_rejection, "{acted:?}");
    assert_eq!(kit.api.writes(), Vec::<String>::new());
    let acted = kit.act_by(&mut actor, &observation, vec![Action::Shift(split(30))]).await;
    assert_eq!(acted.error, "", "there is something to write");
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_served_has_no_share_to_take_back() {
    let known = json!({ "rollout": { "provider": "istio", "route": {
        "provider": "istio", "kind": "VirtualService", "name": "web", "service": "web",
    } } });
    let route = "PATCH virtualservices/web";
    let cases = [
        ("all to the primary, and the route is known", known.clone(), 0, false),
        ("a share", known, 30, true),
        ("all to the primary, and no route is known", nothing(), 0, true),
    ];
    for (reason, status, weight, is_written) in cases {
        let kit = Kit::in_analysis(&nothing(), &status);
        // Out of sync, so that a write is needed.
        divide(&kit, 50);
        let mut observation = kit.observe();
        observation.routes.unlisted = Some(TableState::NotServed("no such kind".to_owned()));
        let mut actor = kit.actor();
        let acted = kit.act_by(&mut actor, &observation, vec![Action::Shift(split(weight))]).await;
        assert_eq!(acted.error, "", "{reason}");
        assert_eq!(kit.api.writes().contains(&route.to_owned()), is_written, "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn fresh_cookies_are_written_down_before_a_route_has_them() {
    let affinity = json!({ "analysis": { "sessionAffinity": {
        "cookieName": "side", "primaryCookieName": "stay",
    } } });
    let change = |canary, primary| Action::Cookies(CookieChange { canary, primary });
    let kit = Kit::in_analysis(&affinity, &nothing());
    let actions = vec![change(Cookie::Fresh, Cookie::Fresh), Action::Shift(split(30))];
    assert_eq!(kit.act(actions).await.error, "");
    let writes = kit.api.writes();
    assert_eq!(writes[..2], [STATUS, "PATCH virtualservices/web"]);
    let cookie = kit.live()["status"]["sessionAffinityCookie"].as_str().unwrap().to_owned();
    assert!(cookie.starts_with("side="), "{cookie}");
    let route = kit.api.bodies("PATCH virtualservices/web");
    assert!(route[0].to_string().contains(&cookie), "the route has the one of the status");

    for (reason, canary, primary, is_first) in [
        ("the canary's", Cookie::Fresh, Cookie::Keep, true),
        ("the primary's", Cookie::Keep, Cookie::Fresh, true),
        ("none", Cookie::Retire, Cookie::Retire, false),
    ] {
        let kit = Kit::in_analysis(&affinity, &nothing());
        kit.act(vec![change(canary, primary), Action::Shift(split(30))]).await;
        let first = kit.api.writes().first().cloned();
        assert_eq!(first.as_deref() == Some(STATUS), is_first, "{reason}");
    }

    let kit = Kit::in_analysis(&affinity, &json!({ "sessionAffinityCookie": "side=old" }));
    kit.act(vec![change(Cookie::Retire, Cookie::Keep)]).await;
    let status = &kit.live()["status"];
    assert_eq!(status["previousSessionAffinityCookie"], "side=old", "written with the memory");
    assert!(status["sessionAffinityCookie"].is_null());
}

#[tokio::test(start_paused = true)]
async fn a_manual_step_is_removed_unless_somebody_changed_it() {
    let step = json!({ "manualStep": { "resume": true } });
    let kit = Kit::in_analysis(&step, &nothing());
    let canary = kit.canary();
    let place = canary.place(CANARY, &canary.key.name);
    let differs = json!([{ "op": "test", "path": "/spec/manualStep", "value": 1 }]);
    let outcome = canary.cx.cluster.json_patch(place, &differs).await;
    assert!(matches!(outcome, Err(WriteError::Conflict { .. })), "{outcome:?}");

    let actions = || vec![Action::DropManualStep(Some(Fact::Mirroring))];
    let kit = Kit::in_analysis(&step, &nothing());
    assert_eq!(kit.act(actions()).await.error, "");
    assert!(kit.live()["spec"]["manualStep"].is_null());
    assert_eq!(kit.event_reasons(), [Fact::Mirroring.reason()]);

    let kit = Kit::in_analysis(&step, &nothing());
    kit.edit_live(|canary| canary["spec"]["manualStep"]["weight"] = json!(30));
    let observation = kit.observe();
    let acted = kit.act_by(&mut kit.actor(), &observation, actions()).await;
    assert!(!kit.live()["spec"]["manualStep"].is_null(), "it says something else now");
    assert_eq!(kit.event_reasons(), [Fact::ResumeStays(String::new()).reason()]);
    assert!(acted.error.contains("changed"), "the status names the version: {}", acted.error);

    let kit = Kit::in_analysis(&step, &nothing());
    assert_eq!(kit.act(vec![Action::ResetResume]).await.error, "");
    assert_eq!(kit.live()["spec"]["manualStep"]["resume"], false);
}

#[tokio::test(start_paused = true)]
async fn a_finding_with_a_note_is_announced_after_its_changes() {
    let kit = rolling();
    let mut observation = kit.observe();
    let write = ManagedWrite::Prune;
    let finding = observation.findings.get_mut(&write).unwrap();
    finding.note = Some(Fact::Mirroring);
    let (name, uid) = ("web-canary".to_owned(), "services-web-canary".to_owned());
    let delete = tidegate_providers::object::Change::Delete { kind: SERVICE, name, uid };
    finding.changes = vec![delete];
    let mut actor = kit.actor();
    kit.act_by(&mut actor, &observation, vec![Action::Prune]).await;
    assert_eq!(kit.api.writes()[0], "DELETE services/web-canary");
    assert_eq!(kit.event_reasons(), [Fact::Mirroring.reason()]);
    kit.api.clear();
    kit.api.fail("DELETE services/web-canary", 403, 1);
    let acted = kit.act_by(&mut kit.actor(), &observation, vec![Action::Prune]).await;
    assert_ne!(acted.error, "");
    assert!(kit.event_reasons().is_empty(), "not before it is done");
}

#[tokio::test(start_paused = true)]
async fn restores_write_what_was_found() {
    let kit = rolling();
    let mut observation = kit.observe();
    let cases = [
        (Action::RestoreApex, ManagedWrite::RestoreApex, "web"),
        (Action::RestoreRoute, ManagedWrite::RestoreRoute, "web-canary"),
    ];
    for (action, write, name) in cases {
        let patch = json!({ "metadata": { "labels": { "restored": name } } });
        let name = name.to_owned();
        let change =
            tidegate_providers::object::Change::Merge { kind: SERVICE, name: name.clone(), patch };
        observation.findings.get_mut(&write).unwrap().changes = vec![change];
        let mut actor = kit.actor();
        kit.api.clear();
        kit.api.fail(&format!("PATCH services/{name}"), 403, 1);
        let acted = kit.act_by(&mut actor, &observation, vec![action]).await;
        assert!(acted.is_rejection, "{write:?}");
        assert_eq!(kit.api.writes(), [format!("PATCH services/{name}")], "{write:?}");
        assert!(actor.rejected.last(&write).is_some(), "{write:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_when_not_leading() {
    let kit = rolling();
    kit.leads.store(false, std::sync::atomic::Ordering::SeqCst);
    let acted = kit.act(vec![Action::ScaleTarget(9)]).await;
    assert!(acted.error.contains("not the leader"), "{acted:?}");
    assert_eq!(kit.api.requests().len(), 0);
}

// === The primary ===

const PRIMARY: &str = "PATCH deployments/web-primary";
const SNAPSHOT: &str = "PATCH secrets/web-primary-promoted";

/// A target that mounts this ConfigMap.
fn mounts(bench: &Bench) {
    bench.put(CONFIG_MAP, settings("1"));
    bench.edit(DEPLOYMENT, "web", |web| {
        web["spec"]["template"]["spec"]["volumes"] =
            json!([{ "name": "c", "configMap": { "name": "settings" } }]);
        web["metadata"]["generation"] = json!(3);
        web["status"]["observedGeneration"] = json!(3);
    });
}

fn settings(value: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "settings", "namespace": "shop" }, "data": { "a": value },
    })
}

/// A canary that has no primary yet.
fn fresh() -> Kit {
    let bench = Bench::new("istio");
    mounts(&bench);
    let kit = Kit::of(bench);
    kit.api.put(CONFIG_MAP, settings("1"));
    kit
}

fn ensure_primary() -> Vec<Action> {
    vec![Action::Ensure(ManagedObject::Primary)]
}

#[tokio::test(start_paused = true)]
async fn a_primary_is_created_after_its_configuration_and_its_snapshot() {
    let kit = fresh();
    let acted = kit.act(ensure_primary()).await;
    assert_eq!(acted.error, "");
    let writes = kit.api.writes();
    assert_eq!(writes[..3], ["PATCH configmaps/settings-primary", SNAPSHOT, PRIMARY]);
    let primary = kit.api.get(DEPLOYMENT, "web-primary").unwrap();
    let volume = &primary["spec"]["template"]["spec"]["volumes"][0];
    assert_eq!(volume["configMap"]["name"], "settings-primary");
    assert_eq!(kit.api.get(CONFIG_MAP, "settings-primary").unwrap()["data"]["a"], "1");
}

#[tokio::test(start_paused = true)]
async fn configuration_that_changed_since_is_a_conflict_and_the_cache_learns_it() {
    let kit = fresh();
    kit.api.put(CONFIG_MAP, settings("2"));
    let before = kit.observe().tracked;
    let acted = kit.act(ensure_primary()).await;
    assert!(acted.error.contains("configmap/settings was changed"), "{acted:?}");
    assert!(!acted.is_rejection);
    assert_eq!(kit.api.writes(), Vec::<String>::new());
    assert_ne!(kit.observe().tracked, before, "the next look sees it");

    kit.api.remove(CONFIG_MAP, "settings");
    let acted = kit.act(ensure_primary()).await;
    assert!(acted.error.contains("does not exist"), "{acted:?}");
}

#[tokio::test(start_paused = true)]
async fn a_target_that_is_gone_has_no_primary() {
    let kit = fresh();
    kit.api.remove(DEPLOYMENT, "web");
    let acted = kit.act(ensure_primary()).await;
    assert!(acted.error.contains("Deployment `web` does not exist"), "{acted:?}");
    assert_eq!(kit.api.writes(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_deleted_primary_is_created_again_from_its_snapshot() {
    let kit = fresh();
    kit.act(ensure_primary()).await;
    let snapshot = kit.api.get(SECRET, "web-primary-promoted").expect("a snapshot");
    assert!(snapshot.to_string().contains("web-primary-promoted"));

    // The target has another image by now.
    let kit = Kit::in_analysis(&nothing(), &nothing());
    kit.remove(DEPLOYMENT, "web-primary");
    let unknown = kit.act(ensure_primary()).await;
    assert!(unknown.is_rejection, "the promoted revision is nowhere: {unknown:?}");
    kit.api.put(SECRET, snapshot);
    kit.api.clear();
    assert_eq!(kit.act(ensure_primary()).await.error, "");
    assert_eq!(kit.api.writes()[0], PRIMARY, "no new snapshot");
    let image = |kit: &Kit| {
        let primary = kit.api.get(DEPLOYMENT, "web-primary").unwrap();
        primary["spec"]["template"]["spec"]["containers"][0]["image"].clone()
    };
    assert_eq!(image(&kit), "web:1.0");

    let kit = Kit::at_rest(&nothing(), &nothing());
    kit.remove(DEPLOYMENT, "web-primary");
    let again = kit.act(ensure_primary()).await;
    assert_eq!(again.error, "", "the target is at the promoted revision");
    assert_eq!(kit.api.writes()[0], PRIMARY, "no new snapshot");
    assert_eq!(image(&kit), "web:1.0");
}

/// A rollout that is to be promoted, with its revision.
fn to_promote(spec: &Value, is_tracking: bool) -> (Kit, Revision) {
    let mut bench = in_analysis("istio");
    mounts(&bench);
    bench.options.config_tracking = is_tracking;
    let target = bench.observe().observed.target.expect("a target");
    let configs: std::collections::BTreeMap<String, String> =
        target.configs.as_deref().cloned().unwrap_or_default();
    let bench = bench.spec(spec).remembering(&json!({
        "lastAppliedSpec": target.revision.as_str(), "trackedConfigs": configs,
    }));
    let kit = Kit::of(bench);
    kit.api.put(CONFIG_MAP, settings("1"));
    (kit, target.revision)
}

#[tokio::test(start_paused = true)]
async fn a_promotion_writes_configuration_then_the_snapshot_then_the_template() {
    let (kit, revision) = to_promote(&nothing(), true);
    let acted = kit.act(vec![Action::Promote(revision)]).await;
    assert_eq!(acted.error, "");
    let writes = kit.api.writes();
    assert_eq!(writes[..3], ["PATCH configmaps/settings-primary", SNAPSHOT, PRIMARY]);
    let primary = kit.api.get(DEPLOYMENT, "web-primary").unwrap();
    let image = &primary["spec"]["template"]["spec"]["containers"][0]["image"];
    assert_eq!(image, "web:2.0");
}

#[tokio::test(start_paused = true)]
async fn a_promotion_of_anything_but_the_analysed_revision_is_a_conflict() {
    type Change = fn(&Kit);
    let cases: [(&str, bool, Change, &str); 5] = [
        (
            "the target moved",
            true,
            |kit| {
                let mut web = kit.api.get(DEPLOYMENT, "web").unwrap();
                web["spec"]["template"]["spec"]["containers"][0]["image"] = json!("web:3.0");
                kit.api.put(DEPLOYMENT, web);
            },
            "the target was changed",
        ),
        (
            "the cache has other configuration than was analysed",
            true,
            |kit| kit.put(CONFIG_MAP, settings("2")),
            "the target was changed",
        ),
        (
            "the API server has other configuration",
            true,
            |kit| {
                kit.api.put(CONFIG_MAP, settings("2"));
            },
            "configmap/settings was changed",
        ),
        (
            "the primary is gone",
            true,
            |kit| kit.api.remove(DEPLOYMENT, "web-primary"),
            "web-primary does not exist",
        ),
        ("configuration is not tracked", false, |kit| kit.put(CONFIG_MAP, settings("2")), ""),
    ];
    for (reason, is_tracking, change, want) in cases {
        let (kit, revision) = to_promote(&nothing(), is_tracking);
        change(&kit);
        let acted = kit.act(vec![Action::Promote(revision)]).await;
        assert!(!acted.is_rejection, "{reason}: {acted:?}");
        if want.is_empty() {
            assert_eq!(acted.error, "", "{reason}");
        } else {
            assert!(acted.error.contains(want), "{reason}: {acted:?}");
            assert!(!kit.api.writes().contains(&PRIMARY.to_owned()), "{reason}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_other_primaries_read_is_announced() {
    let (kit, revision) = to_promote(&nothing(), true);
    let mut copy = settings("1");
    copy["metadata"] = json!({
        "name": "settings-primary", "namespace": "shop",
        "ownerReferences": [{
            "apiVersion": "flagger.app/v1beta1", "kind": "Canary", "name": "other",
            "uid": "canary-other", "controller": true, "blockOwnerDeletion": true,
        }],
    });
    kit.api.put(CONFIG_MAP, copy);
    let acted = kit.act(vec![Action::Promote(revision)]).await;
    assert_eq!(acted.error, "");
    let events = kit.events();
    let is_shared = |(_, text): &(String, String)| text.contains("is shared with the primary of");
    assert!(events.iter().any(is_shared), "{events:?}");
    let (kit, revision) = to_promote(&nothing(), true);
    kit.act(vec![Action::Promote(revision)]).await;
    assert!(!kit.events().iter().any(is_shared), "its own copy");
}

#[tokio::test(start_paused = true)]
async fn replicas_of_a_primary_with_a_scaler_are_the_scalers() {
    let scaled = json!({ "autoscalerRef": {
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "name": "web",
    } });
    for (spec, want) in [(nothing(), json!(2)), (scaled, json!(5))] {
        let (kit, revision) = to_promote(&spec, true);
        kit.put(
            HORIZONTAL_POD_AUTOSCALER,
            json!({ "metadata": { "name": "web" }, "spec": { "minReplicas": 1, "maxReplicas": 3 } }),
        );
        let mut primary = kit.api.get(DEPLOYMENT, "web-primary").unwrap();
        primary["spec"]["replicas"] = json!(5);
        kit.api.put(DEPLOYMENT, primary);
        assert_eq!(kit.act(vec![Action::Promote(revision)]).await.error, "");
        let bodies = kit.api.bodies(PRIMARY);
        assert_eq!(bodies[0]["spec"]["replicas"], want);
    }
}

#[tokio::test(start_paused = true)]
async fn a_target_that_is_a_service_has_a_service_as_primary() {
    let bench = Bench::new("istio").spec(&json!({
        "targetRef": { "apiVersion": "v1", "kind": "Service", "name": "backend" },
    }));
    bench.put(
        SERVICE,
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": { "name": "backend" },
            "spec": { "type": "ClusterIP", "clusterIP": "10.0.0.7", "selector": { "app": "b" },
                "ports": [{ "name": "http", "port": 80 }] },
        }),
    );
    let kit = Kit::of(bench);
    let acted = kit.act(ensure_primary()).await;
    assert_eq!(acted.error, "");
    assert_eq!(kit.api.writes()[0], "PATCH services/backend-primary");
}

#[tokio::test(start_paused = true)]
async fn the_primary_of_knative_is_a_name_in_the_target() {
    let all = json!([{ "latestRevision": true, "percent": 100 }]);
    let kit = Kit::of(knative(None, &all));
    assert_eq!(kit.act(ensure_primary()).await.error, "");
    let service = |kit: &Kit| kit.api.get(KNATIVE_SERVICE, "web").unwrap();
    let primary =
        |kit: &Kit| service(kit)["metadata"]["annotations"]["flagger.app/primary-revision"].clone();
    assert_eq!(kit.api.writes()[0], "PATCH services/web");
    assert_eq!(primary(&kit), "web-00002");

    let divided = json!([
        { "latestRevision": true, "percent": 50 },
        { "latestRevision": false, "revisionName": "web-00001", "percent": 50 },
    ]);
    let kit = Kit::of(knative(Some("web-00001"), &divided).remembering(&json!({
        "phase": "Progressing",
    })));
    let revision = kit.observe().observed.target.expect("a target").revision;
    assert_eq!(kit.act(vec![Action::Promote(revision)]).await.error, "");
    assert_eq!(primary(&kit), "web-00002");
    let acted = kit.act(vec![Action::Promote(Revision::new("another"))]).await;
    assert!(acted.error.contains("the target was changed"), "{acted:?}");
}

#[tokio::test(start_paused = true)]
async fn a_route_that_was_never_seen_is_not_remembered() {
    let route = |kit: &Kit| kit.live()["status"]["rollout"]["route"]["name"].clone();
    let kit = rolling();
    kit.act(vec![]).await;
    assert_eq!(route(&kit), "web");
    let kit = rolling();
    kit.remove(VIRTUAL_SERVICE, "web");
    kit.act(vec![]).await;
    assert!(route(&kit).is_null(), "{}", route(&kit));
}

#[tokio::test(start_paused = true)]
async fn a_rejection_is_of_the_generation_that_was_observed() {
    let kit = Kit::of(in_analysis("istio").metadata(&json!({ "generation": 7 })));
    kit.api.fail("PATCH virtualservices/web", 403, 1);
    let (mut actor, observation) = (kit.actor(), kit.observe());
    kit.act_by(&mut actor, &observation, vec![Action::Shift(split(40))]).await;
    let now = kit.cx.clock.monotonic();
    let rests = |generation| actor.rejected.obstacle(&ManagedWrite::Shift, now, generation);
    assert!(rests(7).is_some() && rests(1).is_none());
    let mut bench = in_analysis("istio").metadata(&json!({ "generation": 7 }));
    let until = now + Duration::from_secs(100);
    let write = ManagedWrite::Ensure(ManagedObject::CanaryService);
    bench.rejected.add(write, "a policy".to_owned(), until, 7);
    let state = bench.observe().observed.objects.canary_service;
    assert!(matches!(state, State::Blocked(_)), "{state:?}");
}
