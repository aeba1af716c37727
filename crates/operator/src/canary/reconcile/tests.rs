use std::sync::atomic::Ordering;

use serde_json::json;
use tidegate_providers::{traffic::VIRTUAL_SERVICE, workload::DEPLOYMENT};

use super::*;
use crate::{
    canary::{
        observe::testing::Bench,
        testing::{Kit, Reply, Request, in_analysis},
    },
    cluster::{ALERT_PROVIDER, cache::TableState},
};

const STATUS: &str = "PATCH canaries/web/status";
const ROUTE: &str = "PATCH virtualservices/web";

fn second(second: u64) -> Duration {
    Duration::from_secs(second)
}

/// A hook of this type at `http://hook.example/`.
fn hook(kind: &str) -> Value {
    json!({ "analysis": { "webhooks": [
        { "name": "hook", "type": kind, "url": "http://hook.example/", "timeout": "2h" },
    ] } })
}

/// A canary with a new image that was not started yet.
fn pending(spec: &Value) -> Kit {
    let kit =
        Kit::of(Bench::new("istio").set_up().metadata(&json!({ "finalizers": [] })).spec(spec));
    release(&kit, 2);
    kit
}

/// Gives the target another image.
fn release(kit: &Kit, generation: u64) {
    let mut web = kit.api.get(DEPLOYMENT, "web").unwrap();
    web["spec"]["template"]["spec"]["containers"][0]["image"] = json!(format!("web:{generation}"));
    web["metadata"]["generation"] = json!(generation);
    web["status"]["observedGeneration"] = json!(generation);
    let web = kit.api.put(DEPLOYMENT, web);
    kit.cx.cluster.cache.insert_watched(DEPLOYMENT, web);
}

#[tokio::test(start_paused = true)]
async fn a_pass_over_a_canary_that_is_not_to_be_decided_upon() {
    let gone = || {
        let kit = Kit::at_rest(&json!({}), &json!({}));
        kit.cx.cluster.cache.cache_remove(CANARY, &Kit::key());
        kit
    };
    let another = || {
        let mut bench = Bench::new("istio").set_up();
        bench.canary["metadata"]["uid"] = json!("another");
        Kit::of(bench)
    };
    let listing = || {
        let mut bench = Bench::new("istio").set_up();
        bench.fail(VIRTUAL_SERVICE, TableState::Pending);
        Kit::of(bench)
    };
    let unreadable = || Kit::of(Bench::new("istio").spec(&json!({ "targetRef": 7 })));
    let follower = || {
        let kit = Kit::at_rest(&json!({}), &json!({}));
        kit.leads.store(false, Ordering::SeqCst);
        kit
    };
    let cases = [
        ("gone", gone(), Next::Gone, vec![]),
        ("another one of that name", another(), Next::Gone, vec![]),
        ("kinds are being listed", listing(), Next::At(second(1001)), vec![]),
        ("unreadable", unreadable(), Next::OnChange, vec![STATUS]),
        ("another operator leads", follower(), Next::OnChange, vec![]),
    ];
    for (reason, kit, want, writes) in cases {
        let next = kit.pass(&mut kit.reconciler()).await;
        assert_eq!(next, Some(Ok(want)), "{reason}");
        assert_eq!(kit.api.writes(), writes, "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_canary_is_set_up_in_one_pass() {
    let kit = Kit::of(Bench::new("istio"));
    let next = kit.pass(&mut kit.reconciler()).await.unwrap();
    assert!(matches!(next, Ok(Next::At(_) | Next::OnChange)), "{next:?}");
    let writes = kit.api.writes();
    for line in ["PATCH deployments/web-primary", "PATCH services/web-primary"] {
        assert!(writes.iter().any(|it| it == line), "{line}: {writes:?}");
    }
    assert_eq!(kit.live()["status"]["phase"], "Initializing");
    assert!(kit.cx.cluster.cache.followed(&Kit::key()).is_empty(), "the loop has ended");
    kit.api.clear();
    kit.catch_up();
    let again = kit.pass(&mut kit.reconciler()).await.unwrap();
    assert!(again.is_ok());
    assert!(kit.api.writes().iter().all(|it| it == STATUS), "it waits for the primary");
}

#[tokio::test(start_paused = true)]
async fn a_step_of_an_analysis_asks_checks_then_shifts_and_waits_an_interval() {
    let kit = Kit::in_analysis(&hook("rollout"), &json!({}));
    let next = kit.pass(&mut kit.reconciler()).await.unwrap();
    assert_eq!(kit.net.calls().len(), 1, "one check");
    assert!(kit.net.calls().iter().all(|it| !it.has_permit));
    assert!(kit.api.requests().iter().all(|it| it.has_permit));
    assert_eq!(kit.live()["status"]["canaryWeight"], 40);
    assert_eq!(next, Ok(Next::At(second(1010))), "an interval later");
    assert!(kit.has_metric(
        r#"tidegate_canary_checks_total{name="web",namespace="shop",verdict="passed"} 1"#
    ));
    assert!(kit.has_metric("flagger_canary_duration_seconds_count"), "the time of the step");
    assert!(kit.has_metric("tidegate_decisions_total{"));
}

#[tokio::test(start_paused = true)]
async fn a_pass_before_its_interval_is_over_asks_nothing() {
    let kit = Kit::in_analysis(&hook("rollout"), &json!({}));
    let mut reconciler = kit.reconciler();
    kit.pass(&mut reconciler).await.unwrap().unwrap();
    kit.catch_up();
    kit.pass(&mut reconciler).await.unwrap().unwrap();
    assert_eq!(kit.net.calls().len(), 1);
    tokio::time::sleep(second(10)).await;
    kit.pass(&mut reconciler).await.unwrap().unwrap();
    assert_eq!(kit.net.calls().len(), 2);
    assert_eq!(kit.live()["status"]["canaryWeight"], 60);
}

#[tokio::test(start_paused = true)]
async fn an_approval_of_one_revision_is_none_of_the_next() {
    let kit = pending(&hook("confirm-rollout"));
    kit.net.answer("hook", &[Reply::After(second(2)), Reply::status(200)]);
    let mut reconciler = kit.reconciler();
    let edit = async {
        tokio::time::sleep(second(1)).await;
        release(&kit, 3);
    };
    let (next, ()) = tokio::join!(kit.pass(&mut reconciler), edit);
    assert!(next.unwrap().is_ok());
    let calls = kit.net.calls();
    let sums: Vec<Value> = calls.iter().map(|it| it.json()["checksum"].clone()).collect();
    assert_eq!(sums.len(), 2, "asked again");
    assert_ne!(sums[0], sums[1]);
    assert_eq!(kit.live()["status"]["phase"], "Progressing");
}

#[tokio::test(start_paused = true)]
async fn a_revision_that_never_stays_ends_the_pass_with_a_pause() {
    let kit = pending(&hook("confirm-rollout"));
    kit.net.answer("hook", &[Reply::After(second(2))]);
    let mut reconciler = kit.reconciler();
    let edit = async {
        tokio::time::sleep(second(1)).await;
        for generation in 3..200 {
            release(&kit, generation);
            tokio::time::sleep(second(1)).await;
        }
    };
    let (next, ()) = tokio::join!(kit.pass(&mut reconciler), edit);
    assert_eq!(next, Some(Ok(Next::Backoff)));
    assert_eq!(kit.net.calls().len(), OBSERVATIONS_MAX / 2, "every other round asks");
}

#[tokio::test(start_paused = true)]
async fn a_question_is_given_up_when_the_canary_is_deleted() {
    let kit = Kit::in_analysis(&hook("rollout"), &json!({}));
    kit.net.answer("hook", &[Reply::After(second(3600))]);
    let start = kit.cx.clock.monotonic();
    let mut reconciler = kit.reconciler();
    let delete = async {
        tokio::time::sleep(second(1)).await;
        // Another change is no reason to give up.
        kit.edit_live(|canary| canary["metadata"]["labels"] = json!({ "a": "b" }));
        kit.catch_up();
        kit.cx.cluster.cache.notify(&Kit::key());
        tokio::time::sleep(second(1)).await;
        kit.edit_live(|it| it["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:01:00Z"));
        kit.catch_up();
        kit.cx.cluster.cache.notify(&Kit::key());
    };
    let (next, ()) = tokio::join!(kit.pass(&mut reconciler), delete);
    assert!(next.unwrap().is_ok());
    assert_eq!(kit.cx.clock.monotonic().saturating_sub(start), second(2));
    assert_eq!(kit.live()["metadata"]["finalizers"], json!([]), "the deletion went on");
    assert_ne!(kit.live()["status"]["canaryWeight"], 40, "nothing was decided upon an answer");
}

#[tokio::test(start_paused = true)]
async fn a_question_is_given_up_when_the_loop_is_to_stop() {
    let kit = Kit::in_analysis(&hook("rollout"), &json!({}));
    kit.net.answer("hook", &[Reply::After(second(3600))]);
    let start = kit.cx.clock.monotonic();
    let mut reconciler = kit.reconciler();
    let stop = async {
        tokio::time::sleep(second(1)).await;
        kit.stop.send_replace(true);
    };
    let (next, ()) = tokio::join!(kit.pass(&mut reconciler), stop);
    assert_eq!(next, Some(Ok(Next::OnChange)));
    assert_eq!(kit.cx.clock.monotonic().saturating_sub(start), second(1));
    assert!(!kit.api.writes().contains(&ROUTE.to_owned()), "nothing was decided");
}

#[tokio::test(start_paused = true)]
async fn a_conflict_is_read_again_at_once_and_backs_off_after_five() {
    for (conflicts, want, attempts) in
        [(1, Next::At(second(1010)), 2), (5, Next::At(second(1010)), 6), (99, Next::Backoff, 6)]
    {
        let kit = Kit::in_analysis(&json!({}), &json!({}));
        kit.api.fail(ROUTE, 409, conflicts);
        let next = kit.pass(&mut kit.reconciler()).await.unwrap();
        assert_eq!(next, Ok(want), "{conflicts}");
        let requests = kit.api.requests();
        let lines: Vec<String> = requests.iter().map(Request::line).collect();
        assert_eq!(lines.iter().filter(|it| *it == ROUTE).count(), attempts, "{conflicts}");
        let reads = lines.iter().filter(|it| *it == "GET canaries/web").count();
        assert_eq!(reads, usize::try_from(conflicts.min(6)).unwrap(), "{conflicts}: read again");
        for line in ["GET virtualservices/web", "GET deployments/web", "GET services/web-canary"] {
            assert!(lines.contains(&line.to_owned()), "{line}: all that it depends on");
        }
        let absent = "GET horizontalpodautoscalers/web".to_owned();
        assert!(!lines.contains(&absent), "what it does not know is not read");
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_rejection_is_decided_upon_in_the_same_pass() {
    let kit = Kit::in_analysis(&json!({}), &json!({}));
    kit.api.fail(ROUTE, 403, 99);
    let next = kit.pass(&mut kit.reconciler()).await.unwrap();
    assert!(next.is_ok(), "{next:?}");
    let routes = kit.api.writes().iter().filter(|it| *it == ROUTE).count();
    assert_eq!(routes, 1, "not tried again before an interval is over");
    let status = kit.live()["status"].to_string();
    assert!(status.contains("was refused"), "{status}");
}

#[tokio::test(start_paused = true)]
async fn a_rejection_that_cannot_be_decided_upon_is_reported_and_fails_the_pass() {
    let kit = Kit::of(in_analysis("istio").metadata(&json!({ "finalizers": null })).spec(&json!({
        "revertOnDeletion": true,
    })));
    kit.api.fail("PATCH canaries/web", 403, 99);
    let next = kit.pass(&mut kit.reconciler()).await.unwrap();
    let error = next.unwrap_err();
    assert!(error.contains("refused"), "{error}");
    let events = kit.events();
    assert!(events.iter().any(|(_, text)| text.contains("refused")), "{events:?}");
    assert!(kit.live()["status"].to_string().contains("refused"), "and in the conditions");
}

#[tokio::test(start_paused = true)]
async fn after_a_write_without_an_answer_the_cache_is_not_believed() {
    let first = |kit: &Kit| kit.api.requests().first().map(Request::line).unwrap_or_default();
    for (code, refreshes) in [(500, true), (403, false)] {
        let kit = Kit::in_analysis(&json!({}), &json!({}));
        kit.api.fail(STATUS, code, 1);
        let mut reconciler = kit.reconciler();
        let failed = kit.pass(&mut reconciler).await.unwrap();
        assert!(failed.is_err(), "{code}");
        kit.api.clear();
        kit.pass(&mut reconciler).await.unwrap().unwrap();
        assert_eq!(first(&kit) == "GET canaries/web", refreshes, "{code}");
        kit.api.clear();
        kit.catch_up();
        kit.pass(&mut reconciler).await.unwrap().unwrap();
        assert_ne!(first(&kit), "GET canaries/web", "{code}: once");
    }
}

#[tokio::test(start_paused = true)]
async fn alerts_that_were_lost_since_are_recorded_by_the_next_pass() {
    let alerts = json!({ "analysis": { "alerts": [
        { "name": "a", "providerRef": { "name": "chat" } },
    ] } });
    let kit = pending(&alerts);
    kit.put(
        ALERT_PROVIDER,
        json!({ "metadata": { "name": "chat" },
            "spec": { "type": "webhook", "address": "http://chat.example/" } }),
    );
    kit.net.answer("chat", &[Reply::Late(second(3), 404)]);
    let mut reconciler = kit.reconciler();
    kit.pass(&mut reconciler).await.unwrap().unwrap();
    assert_eq!(kit.net.calls().len(), 1, "{:?}", kit.event_reasons());
    let is_lost = |kit: &Kit| kit.events().iter().any(|(_, text)| text.contains("answered 404"));
    assert!(!is_lost(&kit));
    tokio::time::sleep(second(3)).await;
    kit.catch_up();
    kit.pass(&mut reconciler).await.unwrap().unwrap();
    assert!(is_lost(&kit), "{:?}", kit.events());
}

#[test]
fn each_gate_has_its_answer() {
    let gate = || Gate { passed: vec!["hook".to_owned()], ..Gate::default() };
    let kinds = [
        GateKind::ConfirmRollout,
        GateKind::PreRollout,
        GateKind::ConfirmTrafficIncrease,
        GateKind::ConfirmPromotion,
        GateKind::PostRollout,
    ];
    for kind in kinds {
        let mut answers = Answers::default();
        put_gate(&mut answers, kind, gate());
        let given = [
            answers.confirm_rollout.is_some(),
            answers.pre_rollout.is_some(),
            answers.confirm_traffic_increase.is_some(),
            answers.confirm_promotion.is_some(),
            answers.post_rollout.is_some(),
        ];
        let want = kinds.map(|it| it == kind);
        assert_eq!(given, want, "{kind:?}");
    }
}
