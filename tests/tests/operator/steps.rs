//! One step an interval, also when writes fail.

use std::time::Duration;

use kube_sandbox::{
    faults::{Effect, Interruption, Matcher, WatchFault, When},
    request::Verb,
};
use serde_json::{Value, json};
use tidegate_tests::{
    network::{PROMETHEUS, Reply},
    rollout::{CANARIES, DEPLOYMENTS, HTTP_ROUTES, OPERATOR, SERVICES, VIRTUAL_SERVICES, World},
};

use crate::stage::{
    GATEWAY_API, ISTIO, at_share, break_metrics, by_weight, canary_of, canary_share, condition,
    history, hooked, initialized, initialized_with, measured, reach, release, replicas, revision,
    shares_since, told, with_canary,
};

/// The temporary failures of a write.
fn mishaps() -> [(&'static str, Effect); 5] {
    [
        ("a conflict", Effect::Conflict),
        ("an error", Effect::ServerError { code: 500 }),
        ("too many requests", Effect::TooManyRequests { retry_after_s: None }),
        ("a lost answer", Effect::LoseAnswer),
        ("a conflict that is none", Effect::FailBefore { code: 409, reason: "AlreadyExists" }),
    ]
}

fn routes() -> Matcher {
    Matcher::writes().user(OPERATOR).resource("gateway.networking.k8s.io", "httproutes")
}

fn statuses() -> Matcher {
    Matcher::writes().user(OPERATOR).resource("flagger.app", "canaries").subresource("status")
}

fn failed_checks(world: &World) -> i64 {
    world.status("web")["failedChecks"].as_i64().unwrap_or(0)
}

#[tokio::test(start_paused = true)]
async fn a_step_whose_route_write_fails_is_repeated_soon_and_taken_once() {
    for (what, effect) in mishaps() {
        let world = at_share(GATEWAY_API, measured(by_weight()), 20).await;
        let since = revision(&world);
        let faults = &world.sandbox.server().faults;
        let before = faults.injected().total();
        faults.add(routes(), When::First(1), effect);
        world.advance_s(9).await;
        assert_eq!(canary_share(&world), 20, "{what}: not before its time");
        world.advance_s(3).await;
        assert_eq!(faults.injected().total(), before + 1, "{what}: it was injected");
        assert_eq!(canary_share(&world), 40, "{what}: soon, and not an interval later");
        world.advance_s(7).await;
        assert_eq!(canary_share(&world), 40, "{what}: one step");
        reach(&world, "Succeeded").await;
        assert_eq!(shares_since(&world, since), [40, 60, 0], "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_check_whose_write_fails_is_counted_once() {
    for (what, effect) in mishaps() {
        let world = at_share(GATEWAY_API, measured(by_weight()), 20).await;
        let is_lost = matches!(effect, Effect::LoseAnswer);
        break_metrics(&world);
        world.sandbox.server().faults.add(statuses(), When::First(1), effect);
        world.network.forget_calls();
        world.advance_s(13).await;
        assert_eq!(failed_checks(&world), 1, "{what}: soon, and once");
        let asked = world.network.calls_to(PROMETHEUS).len();
        if is_lost {
            assert_eq!(asked, 1, "it was counted: there is nothing to ask again");
        }
        world.advance_s(5).await;
        assert_eq!(failed_checks(&world), 1, "{what}: the next check is an interval away");
        assert_eq!(world.network.calls_to(PROMETHEUS).len(), asked, "{what}");
        world.advance_s(6).await;
        assert_eq!(failed_checks(&world), 2, "{what}");
        assert_eq!(told(&world, "CheckFailed"), 1, "{what}: {:?}", world.events());
    }
}

/// The status says that the rollout failed, and the watch has not delivered it yet: until then the cache
/// shows a rollout under way whose pods are gone.
#[tokio::test(start_paused = true)]
async fn an_end_whose_answer_was_lost_does_not_start_the_pods_again() {
    let mut canary = canary_of("web", GATEWAY_API, measured(by_weight()));
    canary["spec"]["progressDeadlineSeconds"] = json!(40);
    let world = initialized_with(canary).await;
    let faults = world.sandbox.server().faults.clone();
    let watches = Matcher::any().user(OPERATOR).resource("flagger.app", "canaries");
    let lasting = Some(Duration::from_mins(10));
    let silence = WatchFault::SilenceAfter { events: 0, lasting };
    faults.add(watches.clone().verbs([Verb::Watch]), When::Always, Effect::Watch(silence));
    faults.interrupt_watches(watches, Interruption::Close);
    release(&world, "web:2.0-never-ready");
    reach(&world, "Progressing").await;
    world.advance_s(35).await;
    let since = revision(&world);
    faults.add(statuses(), When::First(1), Effect::LoseAnswer);
    world.advance_s(60).await;
    assert_eq!((&*world.phase("web"), replicas(&world, "web")), ("Failed", 0));
    let written = history(&world, DEPLOYMENTS, "web", since);
    let counts: Vec<_> = written.iter().map(|it| it["spec"]["replicas"].as_i64()).collect();
    assert!(counts.iter().all(|count| *count == Some(0)), "parked, and left alone: {counts:?}");
}

#[tokio::test(start_paused = true)]
async fn a_promotion_decided_upon_what_is_no_longer_so_is_not_begun() {
    let world = at_share(GATEWAY_API, measured(by_weight()), 60).await;
    let faults = &world.sandbox.server().faults;
    // The operator gets no events of canaries for a while, as from a watch that hangs.
    let watches = Matcher::any().user(OPERATOR).resource("flagger.app", "canaries");
    let watches = watches.verbs([Verb::Watch]);
    let silence = WatchFault::SilenceAfter { events: 0, lasting: Some(Duration::from_mins(10)) };
    faults.add(watches.clone(), When::Always, Effect::Watch(silence));
    faults.interrupt_watches(watches, Interruption::Close);
    world.settle().await;
    world.patch(CANARIES, "web", &json!({ "spec": { "suspend": true } }));
    world.advance_s(25).await;
    let status = world.status("web");
    assert_eq!(status["phase"], "Progressing", "it is suspended: {:#}", status["lastDecision"]);
    let primary = world.get(DEPLOYMENTS, "web-primary").unwrap();
    assert_eq!(primary["spec"]["template"]["spec"]["containers"][0]["image"], "web:1.0");
}

#[tokio::test(start_paused = true)]
async fn a_promotion_whose_copy_fails_still_takes_its_intervals() {
    let mut analysis = by_weight();
    analysis["stepWeightPromotion"] = json!(30);
    let world = at_share(GATEWAY_API, analysis, 60).await;
    let primary = Matcher::writes().user(OPERATOR).resource("apps", "deployments");
    let error = Effect::ServerError { code: 500 };
    world.sandbox.server().faults.add(primary.name("web-primary"), When::First(1), error);
    let since = revision(&world);
    // The observer reports a step that comes before its interval has passed.
    reach(&world, "Succeeded").await;
    assert_eq!(shares_since(&world, since), [30, 0]);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_refused_in_mid_rollout_does_not_hold_it_beyond_its_deadline() {
    let mut canary = canary_of("web", GATEWAY_API, measured(by_weight()));
    canary["spec"]["progressDeadlineSeconds"] = json!(60);
    let world = initialized_with(canary).await;
    release(&world, "web:2.0");
    assert!(world.until(60, |world| canary_share(world) == 20).await);
    let services = Matcher::writes().user(OPERATOR).resource("", "services");
    let no = Effect::FailBefore { code: 403, reason: "Forbidden" };
    world.sandbox.server().faults.add(services, When::Always, no);
    world.delete(SERVICES, "web-canary");
    world.advance_s(30).await;
    let (stalled, reason, message) = condition(&world, "web", "Stalled");
    assert_eq!((&*stalled, &*reason), ("True", "Obstructed"), "{message}");
    assert!(message.contains("web-canary") && message.contains("refused"), "{message}");
    assert_eq!((canary_share(&world), world.phase("web").as_str()), (20, "Progressing"));
    reach(&world, "Failed").await;
    assert_eq!(canary_share(&world), 0, "it went back");
    assert_eq!(told(&world, "ProgressDeadlineExceeded"), 1, "{:?}", world.events());
}

#[tokio::test(start_paused = true)]
async fn a_split_that_is_refused_is_tried_again_and_judged_by_the_deadline() {
    // Corrected in time, and too late.
    for (seconds, end) in [(35, "Succeeded"), (100, "Failed")] {
        let mut canary = canary_of("web", GATEWAY_API, measured(by_weight()));
        canary["spec"]["progressDeadlineSeconds"] = json!(60);
        let world = initialized_with(canary).await;
        release(&world, "web:2.0");
        assert!(world.until(60, |world| canary_share(world) == 20).await);
        let no = Effect::FailBefore { code: 422, reason: "Invalid" };
        let faults = &world.sandbox.server().faults;
        let rule = faults.add(routes(), When::Always, no);
        let before = faults.injected().total();
        world.advance_s(15).await;
        let (stalled, _, message) = condition(&world, "web", "Stalled");
        assert_eq!(stalled, "True", "{message}");
        assert!(message.contains("refused"), "{message}");
        world.advance_s(seconds - 15).await;
        let tried = faults.injected().total() - before;
        assert!((2..30).contains(&tried), "{end}: tried {tried} times in {seconds} s");
        faults.remove(rule);
        reach(&world, end).await;
        assert_eq!(canary_share(&world), 0, "{end}");
    }
}

/// Every version of the canary and of its route, in the order they were written.
fn versions(world: &World, since: u64) -> Vec<(u64, Value)> {
    let version = |object: &Value| {
        object["metadata"]["resourceVersion"].as_str().and_then(|it| it.parse().ok()).unwrap_or(0)
    };
    let mut all: Vec<(u64, Value)> = [CANARIES, HTTP_ROUTES, VIRTUAL_SERVICES]
        .into_iter()
        .flat_map(|kind| history(world, kind, "web", since))
        .map(|object| (version(&object), object))
        .collect();
    all.sort_by_key(|(version, _)| *version);
    all
}

#[tokio::test(start_paused = true)]
async fn cookies_last_as_they_should_and_are_stored_before_a_route_has_them() {
    for provider in [GATEWAY_API, ISTIO] {
        let mut analysis = by_weight();
        analysis["sessionAffinity"] =
            json!({ "cookieName": "seen-canary", "primaryCookieName": "seen-primary" });
        let world = initialized(provider, analysis).await;
        let since = revision(&world);
        release(&world, "web:2.0");
        reach(&world, "Succeeded").await;
        let (mut canary, mut primary) = (Vec::new(), Vec::new());
        let mut stored = String::new();
        for (_, object) in versions(&world, since) {
            if object["kind"] != "Canary" {
                let text = object.to_string();
                for cookie in text.split("seen-").skip(1).filter(|it| it.contains('=')) {
                    let cookie: String = cookie
                        .chars()
                        .take_while(|it| it.is_alphanumeric() || "=-".contains(*it))
                        .collect();
                    let is_value = cookie.split('=').nth(1).is_some_and(|it| it.len() >= 10);
                    assert!(
                        !is_value || stored.contains(&cookie),
                        "{provider}: {cookie} is only in the route"
                    );
                }
                continue;
            }
            let status = &object["status"];
            stored.push_str(&status.to_string());
            canary.extend(status["sessionAffinityCookie"].as_str().map(str::to_owned));
            primary.extend(status["primarySessionAffinityCookie"].as_str().map(str::to_owned));
        }
        canary.dedup();
        primary.dedup();
        assert_eq!(canary.len(), 1, "{provider}: who saw the canary stays: {canary:?}");
        assert_eq!(primary.len(), 3, "{provider}: drawn again at 20, 40 and 60: {primary:?}");
        assert!(primary.iter().all(|it| it.starts_with("seen-primary=")), "{primary:?}");
        let status = world.status("web");
        assert_eq!(status["sessionAffinityCookie"], Value::Null, "{provider}: {status:#}");
        assert_eq!(status["primarySessionAffinityCookie"], Value::Null, "{provider}");
        let last = canary.first().map(String::as_str);
        assert_eq!(status["previousSessionAffinityCookie"].as_str(), last, "{provider}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_asks_for_an_hour_does_not_get_it() {
    let mut canary = canary_of("web", GATEWAY_API, hooked(by_weight(), "rollout"));
    canary["spec"]["analysis"]["webhooks"][0]["retries"] = json!(10);
    let mut world = with_canary(canary);
    world.start().await;
    reach(&world, "Initialized").await;
    world.network.hook("hooks/rollout", Reply::Later(503, 3600));
    release(&world, "web:2.0");
    assert!(world.until(60, |world| canary_share(world) == 20).await);
    // The next attempt would come after the deadline: there is none.
    world.advance_s(11).await;
    assert_eq!(failed_checks(&world), 1, "{:#}", world.status("web"));
    world.network.hook("hooks/rollout", Reply::yes());
    assert!(world.until(60, |world| world.phase("web") == "Succeeded").await);
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_asks_for_a_moment_gets_it() {
    let mut canary = canary_of("web", GATEWAY_API, hooked(by_weight(), "rollout"));
    canary["spec"]["analysis"]["webhooks"][0]["retries"] = json!(3);
    let mut world = with_canary(canary);
    world.start().await;
    reach(&world, "Initialized").await;
    release(&world, "web:2.0");
    assert!(world.until(60, |world| canary_share(world) == 20).await);
    world.network.hook_once("hooks/rollout", Reply::Later(503, 4));
    world.advance_s(15).await;
    assert_eq!((failed_checks(&world), canary_share(&world)), (0, 40), "asked again, and heard");
}
