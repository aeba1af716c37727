//! Mistakes of the published operators, each with the tests that fail if it is made here.
//!
//! The mistakes are those of `docs/mistakes.md`, "Game workloads", by their numbers. Rules about pods and runs
//! are tested in the engine, where every case can be played; objects, events, caches and the API server are
//! tested here and in the files beside.

use std::{cell::Cell, time::Duration};

use kube_sandbox::{
    cluster::{CONTROLLER_REVISIONS, Cluster as _, Deletion, PODS},
    faults::{Effect, Matcher, WatchFault, When},
    request::Verb,
};
use serde_json::{Value, json};
use tidegate_operator::telemetry::Format;
use tidegate_tests::{
    network::{Metric, Reply},
    rollout::OPERATOR,
};

use crate::rig::{
    ARENA, GAME_DEPLOYMENTS, HOOK_RUNS, HOOK_TEMPLATES, Stage, arena, name_of, numbered, run,
    send_patch, template, web,
};

const JSON_PATCH: &str = "application/json-patch+json";

fn rolling() -> Value {
    json!({ "type": "RollingUpdate", "maxUnavailable": 1 })
}

fn in_place() -> Value {
    json!({ "type": "InplaceUpdate", "maxUnavailable": 1 })
}

#[expect(clippy::needless_pass_by_value, reason = "always made on the spot")]
fn in_steps(mut strategy: Value, steps: Value) -> Value {
    strategy["canary"] = json!({ "steps": steps });
    strategy
}

fn hook_step() -> Value {
    json!({ "hook": { "templateName": "check" } })
}

fn is_paused_at(step: i64) -> impl Fn(&Stage) -> bool {
    move |stage| {
        stage.status()["currentStepIndex"] == step
            && stage.get()["spec"]["updateStrategy"]["paused"] == true
            && !stage.status()["pauseConditions"][0].is_null()
    }
}

fn pauses(stage: &Stage) -> Vec<String> {
    let status = stage.status();
    let reasons = status["pauseConditions"].as_array().into_iter().flatten();
    reasons.filter_map(|it| it["reason"].as_str().map(str::to_owned)).collect()
}

/// The phase of a run.
fn phase(stage: &Stage, name: &str) -> String {
    stage.run(name)["status"]["phase"].as_str().unwrap_or_default().to_owned()
}

/// The operator's writes within so many seconds.
async fn written(stage: &Stage, seconds: u64) -> Vec<String> {
    let log = stage.world.sandbox.server().log.clone();
    let mark = log.mark();
    stage.world.advance_s(seconds).await;
    let ours = log.writes_since(mark).into_iter().filter(|it| &*it.user == OPERATOR);
    ours.map(|it| format!("{:?} {} {}", it.verb, it.target(), it.name)).collect()
}

// === Safety of the gate ===

// Mistake 1.
#[tokio::test(start_paused = true)]
async fn a_hook_that_fails_ends_its_run_with_the_first_failure() {
    let stage = Stage::up(arena(&rolling())).await;
    stage.age(45);
    for (name, limit) in [("absent", None), ("zero", Some(0))] {
        let mut metric = web("asInt(result) < 30");
        (metric["count"], metric["interval"]) = (json!(2), json!("60s"));
        if let Some(limit) = limit {
            metric["failureLimit"] = json!(limit);
        }
        stage.world.create(HOOK_RUNS, run(name, metric, &[]));
    }
    stage.world.advance_s(180).await;
    for name in ["absent", "zero"] {
        assert_eq!(phase(&stage, name), "Failed");
        assert_eq!(stage.run(name)["status"]["metricResults"][0]["count"], 1, "{name}");
    }
}

// Mistake 2.
#[tokio::test(start_paused = true)]
async fn a_hook_that_nobody_answers_is_an_error_and_stops_the_release() {
    let steps = json!([{ "partition": 2 }, hook_step()]);
    let stage = Stage::up(arena(&in_steps(rolling(), steps))).await;
    stage.world.network.hook("1.1.1.1/", Reply::Refuse);
    stage.image("game:2");
    stage.until(300, "paused", is_paused_at(1)).await;
    let run = &stage.runs()[0];
    assert_eq!(run["status"]["phase"], "Error", "{run:#}");
    assert_eq!(run["status"]["metricResults"][0]["error"], 5);
    assert!(run["status"]["metricResults"][0]["count"].is_null(), "errors do not count");
    assert_eq!(
        (stage.with_image("game:2"), pauses(&stage)),
        (1, vec!["PausedByStepBasedHook".to_owned()])
    );
}

// Mistake 3.
#[tokio::test(start_paused = true)]
async fn a_run_ends_although_one_of_its_metrics_never_began() {
    let stage = Stage::up(arena(&rolling())).await;
    stage.age(45);
    let mut late = web("true");
    (late["name"], late["initialDelay"]) = (json!("late"), json!("10m"));
    for (name, policy) in [("ordered", "Ordered"), ("parallel", "Parallel")] {
        let mut object = run(name, web("asInt(result) < 30"), &[]);
        object["spec"]["policy"] = json!(policy);
        object["spec"]["metrics"].as_array_mut().unwrap().push(late.clone());
        stage.world.create(HOOK_RUNS, object);
    }
    let mut object = run("ended", web("true"), &[]);
    object["spec"]["metrics"] = json!([late]);
    stage.world.create(HOOK_RUNS, object);
    stage.world.advance_s(5).await;
    stage.world.patch(HOOK_RUNS, "ended", &json!({ "spec": { "terminate": true } }));
    stage.world.advance_s(5).await;
    let phases = ["ordered", "parallel", "ended"].map(|name| phase(&stage, name));
    assert_eq!(phases, ["Failed", "Failed", "Successful"]);
    assert_eq!(stage.run("ended")["status"]["message"], "Run Terminated");
}

// Mistake 4.
#[tokio::test(start_paused = true)]
async fn pods_that_are_made_in_a_pause_become_ready() {
    let steps = json!([{ "partition": 2 }, { "pause": {} }]);
    let stage = Stage::up(arena(&in_steps(in_place(), steps))).await;
    stage.image("game:2");
    stage.until(120, "paused", is_paused_at(1)).await;
    stage.world.delete(PODS, &name_of(&stage.pods()[0]));
    stage.scale(5);
    stage.until(60, "five", |stage| stage.status()["readyReplicas"] == 5).await;
    assert!(is_paused_at(1)(&stage));
}

// Mistake 6.
#[tokio::test(start_paused = true)]
async fn a_second_change_within_the_grace_period_loses_no_image() {
    let mut strategy = in_place();
    strategy["maxUnavailable"] = json!(3);
    strategy["inPlaceUpdateStrategy"] = json!({ "gracePeriodSeconds": 60 });
    let mut object = arena(&strategy);
    let containers =
        |x: &str, y: &str| json!([{ "name": "x", "image": x }, { "name": "y", "image": y }]);
    object["spec"]["template"]["spec"]["containers"] = containers("x:1", "y:1");
    let stage = Stage::up(object).await;
    let set = |x: &str, y: &str| {
        let spec = json!({ "containers": containers(x, y) });
        stage.patch(json!({ "spec": { "template": { "spec": spec } } }));
    };
    set("x:2", "y:1");
    stage.world.advance_s(10).await;
    set("x:2", "y:2");
    stage.until(300, "updated", Stage::is_settled).await;
    for pod in stage.pods() {
        let images: Vec<_> = pod["spec"]["containers"].as_array().unwrap().iter().collect();
        assert_eq!((&images[0]["image"], &images[1]["image"]), (&json!("x:2"), &json!("y:2")));
    }
}

// Mistake 7.
#[tokio::test(start_paused = true)]
async fn steps_that_come_with_the_template_are_taken() {
    let stage = Stage::up(arena(&rolling())).await;
    let container = json!({ "name": "game", "image": "game:2" });
    stage.patch(json!({ "spec": {
        "template": { "spec": { "containers": [container] } },
        "updateStrategy": { "canary": { "steps": [{ "partition": 2 }, { "pause": {} }] } },
    } }));
    stage.until(120, "paused", is_paused_at(1)).await;
    stage.world.advance_s(120).await;
    assert_eq!(stage.with_image("game:2"), 1);
}

// Mistake 49.
#[tokio::test(start_paused = true)]
async fn old_pods_that_are_all_lost_come_back_old() {
    for strategy in [
        in_steps(rolling(), json!([{ "partition": 1 }, { "pause": {} }])),
        json!({ "type": "RollingUpdate", "maxUnavailable": 1, "partition": 1 }),
    ] {
        let mut object = arena(&strategy);
        object["spec"]["replicas"] = json!(2);
        let stage = Stage::up(object).await;
        stage.image("game:2");
        stage.until(120, "half-way", |stage| stage.status()["updatedReadyReplicas"] == 1).await;
        stage.world.advance_s(10).await;
        let is_old = |pod: &&Value| pod["spec"]["containers"][0]["image"] == "game:1";
        let old = stage.pods().iter().find(is_old).map(name_of).unwrap();
        stage.world.delete(PODS, &old);
        stage.world.advance_s(120).await;
        assert_eq!((stage.with_image("game:1"), stage.with_image("game:2")), (1, 1));
        assert_ne!(stage.pods().iter().find(is_old).map(name_of), Some(old));
    }
}

// Mistake 50.
#[tokio::test(start_paused = true)]
async fn a_run_that_somebody_ends_does_not_let_the_release_on() {
    let mut slow = web("asInt(result) < 30");
    (slow["count"], slow["interval"]) = (json!(10), json!("60s"));
    let steps = json!([{ "partition": 2 }, { "hook": { "templateName": "slow" } }]);
    let stage = Stage::up(arena(&in_steps(rolling(), steps))).await;
    stage.world.create(HOOK_TEMPLATES, template("slow", slow));
    stage.image("game:2");
    stage.until(120, "a run", |stage| stage.runs().len() == 1).await;
    stage.world.advance_s(5).await;
    let name = name_of(&stage.runs()[0]);
    stage.world.patch(HOOK_RUNS, &name, &json!({ "spec": { "terminate": true } }));
    stage.until(30, "paused", is_paused_at(1)).await;
    stage.world.advance_s(60).await;
    assert_eq!((phase(&stage, &name), stage.with_image("game:2")), ("Successful".to_owned(), 1));
}

// === Control and visibility ===

// Mistake 12.
#[tokio::test(start_paused = true)]
async fn a_pause_by_hand_sticks_and_survives_the_operator() {
    let mut stage = Stage::up(arena(&rolling())).await;
    stage.pause(true);
    stage.world.advance_s(5).await;
    assert_eq!(pauses(&stage), ["PausedByUser"]);
    stage.image("game:2");
    stage.world.start().await;
    stage.world.advance_s(300).await;
    assert_eq!((stage.with_image("game:2"), pauses(&stage)), (0, vec!["PausedByUser".to_owned()]));
    stage.pause(false);
    stage.until(120, "updated", Stage::is_settled).await;
}

// Mistake 12.
#[tokio::test(start_paused = true)]
async fn a_tool_that_applies_its_manifest_again_does_not_resume_where_that_is_asked_for() {
    let steps = json!([{ "partition": 2 }, { "pause": {} }]);
    let mut strategy = in_steps(rolling(), steps);
    strategy["canary"]["resumeBy"] = json!("Annotation");
    strategy["paused"] = json!(false);
    let mut manifest = arena(&strategy);
    let stage = Stage::up(manifest.clone()).await;
    manifest["spec"]["template"]["spec"]["containers"][0]["image"] = json!("game:2");
    let place = format!("gamedeployments/{ARENA}?fieldManager=gitops&force=true");
    for _ in 0..5 {
        send_patch(&stage.world, "application/apply-patch+yaml", &place, &manifest).await.unwrap();
        stage.world.advance_s(60).await;
    }
    assert!(is_paused_at(1)(&stage), "{:#}", stage.get());
    assert_eq!(stage.with_image("game:2"), 1);
    stage.ask("resume");
    stage.until(120, "updated", Stage::is_settled).await;
}

// Mistake 13.
#[tokio::test(start_paused = true)]
async fn a_timed_pause_can_be_cut_short() {
    let steps = json!([{ "partition": 2 }, { "pause": { "duration": 3600 } }]);
    let stage = Stage::up(arena(&in_steps(rolling(), steps))).await;
    stage.image("game:2");
    stage.until(120, "paused", is_paused_at(1)).await;
    stage.pause(false);
    stage.until(120, "updated", Stage::is_settled).await;
}

// Mistake 14.
#[tokio::test(start_paused = true)]
async fn a_hook_without_a_template_is_told_and_stops_neither_scaling_nor_replacement() {
    let steps = json!([{ "partition": 2 }, { "hook": { "templateName": "nobody" } }]);
    let mut object = arena(&in_steps(rolling(), steps));
    object["spec"]["preDeleteUpdateStrategy"] = json!({ "hook": { "templateName": "nobody" } });
    let stage = Stage::up(object).await;
    stage.image("game:2");
    stage.world.advance_s(60).await;
    stage.scale(5);
    stage.world.delete(PODS, &name_of(&stage.pods()[0]));
    stage.until(120, "five", |stage| stage.status()["readyReplicas"] == 5).await;
    let blocked = stage.condition("HookBlocked").expect("a condition");
    assert!(blocked.contains("there is no hook template nobody"), "{blocked}");
    stage.world.advance_s(1_200).await;
    // Warnings are published before any other write.
    let is_told = |(reason, text): &(String, String)| {
        !reason.ends_with("Doubtful") && text.contains("nobody")
    };
    let told = stage.world.events().iter().filter(|event| is_told(event)).count();
    assert!((1..=4).contains(&told), "once for each pod and step: {:#?}", stage.world.events());
    stage.world.create(HOOK_TEMPLATES, template("nobody", web("true")));
    stage.world.advance_s(60).await;
    assert_eq!(stage.condition("HookBlocked"), None, "{:#}", stage.status());
}

// Mistake 15.
#[tokio::test(start_paused = true)]
async fn a_workload_that_waits_or_is_deleted_with_its_pods_ends_nothing_else() {
    let mut object = arena(&rolling());
    object["spec"]["minReadySeconds"] = json!(30);
    let stage = Stage::up(object.clone()).await;
    stage.image("game:2");
    stage.world.advance_s(5).await;
    let foreground = Deletion { propagation: Some("Foreground".to_owned()), ..Deletion::default() };
    stage.world.admin.delete(GAME_DEPLOYMENTS, "default", ARENA, &foreground).unwrap();
    stage.until(120, "gone", |stage| stage.get().is_null() && stage.pods().is_empty()).await;
    let telemetry = stage.world.telemetry.borrow().clone().unwrap();
    assert!(telemetry.render(Format::Prometheus).contains("tidegate_panics_total 0"));
    stage.world.create(GAME_DEPLOYMENTS, object);
    stage.until(120, "up again", Stage::is_settled).await;
}

// Mistake 16.
#[tokio::test(start_paused = true)]
async fn what_a_set_may_not_do_is_told_and_tried_again() {
    let mut stage = Stage::set(numbered("OrderedReady", &rolling_set()));
    let rule = stage.forbid(&[Verb::Create], "", "pods");
    stage.world.start().await;
    stage.world.advance_s(300).await;
    assert!(stage.condition("FailedScale").is_some(), "{:#}", stage.status());
    assert_eq!(stage.told("FailedCreate").len(), 1);
    assert_eq!(stage.status()["replicas"], 0);
    stage.allow(rule);
    stage.until(180, "up", Stage::is_settled).await;
    assert_eq!(stage.condition("FailedScale"), None);
}

fn rolling_set() -> Value {
    json!({ "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": 1 } })
}

// Mistake 17.
#[tokio::test(start_paused = true)]
async fn the_counts_of_a_set_are_never_zero_while_it_has_pods() {
    let steps = json!([{ "partition": 2 }, hook_step(), { "pause": {} }]);
    let stage = Stage::up(numbered("Parallel", &in_steps(rolling_set(), steps))).await;
    stage.age(45);
    let least = Cell::new(i64::MAX);
    let look = |stage: &Stage| {
        let status = stage.status();
        let number = |name: &str| status[name].as_i64().unwrap_or(0);
        least.set(least.get().min(number("replicas")).min(number("readyReplicas")));
    };
    let wait = async |what: &str, is_so: &dyn Fn(&Stage) -> bool| {
        let seen = |stage: &Stage| {
            look(stage);
            is_so(stage)
        };
        stage.until(300, what, seen).await;
    };
    stage.image("game:2");
    wait("paused by the hook", &is_paused_at(1)).await;
    let steps = json!([{ "partition": 1 }, { "pause": {} }]);
    stage.patch(json!({ "spec": { "updateStrategy": { "canary": { "steps": steps } } } }));
    wait("paused", &is_paused_at(1)).await;
    stage.pause(false);
    wait("updated", &Stage::is_settled).await;
    assert!(least.get() >= 2, "it read {}", least.get());
}

// Mistake 18.
#[tokio::test(start_paused = true)]
async fn the_selector_of_a_set_is_whole_and_stays_as_it_is() {
    let mut object = numbered("Parallel", &rolling_set());
    let labels = json!({ "app": ARENA, "zone": "a", "env": "live", "tier": "game" });
    object["spec"]["template"]["metadata"]["labels"] = labels;
    object["spec"]["selector"] = json!({
        "matchLabels": { "zone": "a", "app": ARENA, "env": "live" },
        "matchExpressions": [{ "key": "tier", "operator": "In", "values": ["other", "game"] }],
    });
    let stage = Stage::up(object).await;
    let text = "app=arena,env=live,tier in (game,other),zone=a";
    assert_eq!(stage.status()["labelSelector"], text);
    assert_eq!(written(&stage, 1_800).await, Vec::<String>::new());
    assert_eq!(stage.status()["labelSelector"], text);
}

// Mistake 37.
#[tokio::test(start_paused = true)]
async fn arguments_that_nobody_declared_are_told() {
    let hook = json!({ "hook": { "templateName": "check", "args": [
        { "name": "MyPodIP", "value": "1" }, { "name": "room", "value": "7" },
    ] } });
    let stage = Stage::up(arena(&in_steps(rolling(), json!([{ "partition": 2 }, hook])))).await;
    stage.image("game:2");
    stage.until(120, "a run", |stage| stage.runs().len() == 1).await;
    assert!(stage.runs()[0]["spec"]["args"].is_null());
    let told: Vec<_> =
        stage.world.events().into_iter().filter(|(_, text)| text.contains("room")).collect();
    assert!(told.len() == 1 && told[0].1.contains("MyPodIP"), "{:?}", stage.world.events());
}

/// Watches of this kind bring everything late.
fn delay(stage: &Stage, resource: &str, seconds: u64) {
    let fault = WatchFault::SilenceAfter { events: 0, lasting: Some(Duration::from_secs(seconds)) };
    stage.world.sandbox.server().faults.add(
        Matcher::any().user(OPERATOR).resource("tkex.tencent.com", resource),
        When::Always,
        Effect::Watch(fault),
    );
}

// Mistake 38.
#[tokio::test(start_paused = true)]
async fn what_was_measured_is_not_measured_again_while_the_cache_lags() {
    let mut stage = Stage::set(arena(&rolling()));
    delay(&stage, "hookruns", 7);
    stage.world.start().await;
    let mut metric = web("asInt(result) < 30");
    (metric["count"], metric["interval"]) = (json!(3), json!("2s"));
    stage.world.create(HOOK_RUNS, run("thrice", metric, &[]));
    stage.until(120, "over", |stage| phase(stage, "thrice") == "Successful").await;
    stage.world.advance_s(60).await;
    assert_eq!(stage.asked(), 3);
    assert!(stage.world.sandbox.server().faults.injected().total() > 0, "nothing was late");
}

// Mistake 45.
#[tokio::test(start_paused = true)]
async fn a_hook_is_run_once_while_the_cache_lags() {
    let steps = json!([{ "partition": 2 }, hook_step(), { "pause": {} }]);
    let mut stage = Stage::up(arena(&in_steps(rolling(), steps))).await;
    delay(&stage, "hookruns", 20);
    stage.world.start().await;
    stage.image("game:2");
    stage.until(300, "past the hook", is_paused_at(2)).await;
    stage.world.advance_s(120).await;
    let names: Vec<_> = stage.runs().iter().map(name_of).collect();
    assert_eq!((stage.asked(), names.len()), (1, 1), "{names:?}");
    let made = stage
        .world
        .sandbox
        .server()
        .log
        .matching(|it| it.verb == Verb::Create && it.concerns("tkex.tencent.com", "hookruns"));
    assert_eq!(made.len(), 1);
    assert!(stage.world.sandbox.server().faults.injected().total() > 0, "nothing was late");
}

// Mistake 47.
#[tokio::test(start_paused = true)]
async fn a_pause_has_a_start_a_phase_and_a_sentence() {
    let steps = json!([{ "partition": 2 }, { "pause": {} }]);
    let stage = Stage::up(arena(&in_steps(rolling(), steps))).await;
    assert_eq!(stage.status()["phase"], "Healthy");
    stage.image("game:2");
    stage.until(120, "paused", is_paused_at(1)).await;
    stage.world.advance_s(30).await;
    let status = stage.status();
    assert_eq!(status["phase"], "Paused");
    assert_eq!(status["canary"]["pauseStartTime"], status["pauseConditions"][0]["startTime"]);
    assert!(status["message"].as_str().is_some_and(|text| text.contains("paused")), "{status:#}");
    assert_eq!(
        (&status["expectedUpdatedReplicas"], &status["updatedAvailableReplicas"]),
        (&json!(1), &json!(1))
    );
    stage.pause(false);
    stage.until(120, "updated", Stage::is_settled).await;
    stage.world.advance_s(5).await;
    assert!(stage.status()["canary"]["pauseStartTime"].is_null());
}

// Mistake 48.
#[tokio::test(start_paused = true)]
async fn a_failed_hook_takes_the_template_back_where_that_is_wanted() {
    let hook = json!({ "hook": { "templateName": "check", "onFailure": "rollback" } });
    let stage = Stage::up(arena(&in_steps(in_place(), json!([{ "partition": 1 }, hook])))).await;
    stage.age(45);
    stage.image("game:2");
    stage
        .until(300, "back", |stage| {
            stage.is_settled() && stage.get()["metadata"]["generation"].as_i64() > Some(2)
        })
        .await;
    let image = &stage.get()["spec"]["template"]["spec"]["containers"][0]["image"];
    assert_eq!((image, stage.with_image("game:1")), (&json!("game:1"), 3));
}

// Mistake 51.
#[tokio::test(start_paused = true)]
async fn the_documented_patches_are_taken_at_any_time() {
    let mut object = arena(&in_steps(rolling(), json!([{ "partition": 2 }, { "pause": {} }])));
    object["spec"]["preDeleteUpdateStrategy"] = json!({ "hook": { "templateName": "check" } });
    let stage = Stage::up(object).await;
    let place = format!("gamedeployments/{ARENA}");
    let replace = async |path: &str, value: bool| {
        let patch = json!([{ "op": "replace", "path": path, "value": value }]);
        let outcome = send_patch(&stage.world, JSON_PATCH, &place, &patch).await;
        assert!(outcome.is_ok(), "{path}: {outcome:?}");
        stage.world.advance_s(10).await;
    };
    replace("/spec/updateStrategy/paused", false).await;
    replace("/spec/preDeleteUpdateStrategy/retry", true).await;
    stage.image("game:2");
    stage.until(120, "paused", is_paused_at(1)).await;
    replace("/spec/updateStrategy/paused", false).await;
    replace("/spec/preDeleteUpdateStrategy/retry", true).await;
    stage.until(120, "updated", Stage::is_settled).await;
    replace("/spec/updateStrategy/paused", false).await;
    let spec = &stage.get()["spec"];
    assert_eq!(spec["updateStrategy"]["paused"], false);
    assert_eq!(spec["preDeleteUpdateStrategy"]["retry"], false, "set back, and not away");
}

// === Scaling and pods ===

// Mistake 21.
#[tokio::test(start_paused = true)]
async fn a_set_without_a_type_is_updated() {
    let mut object = numbered("OrderedReady", &Value::Null);
    object["spec"].as_object_mut().unwrap().remove("updateStrategy");
    let stage = Stage::up(object).await;
    stage.image("game:2");
    stage.until(300, "updated", |stage| stage.with_image("game:2") == 3).await;
}

// Mistake 26.
#[tokio::test(start_paused = true)]
async fn names_of_pods_that_are_gone_are_taken_off_the_list() {
    let stage = Stage::up(arena(&rolling())).await;
    let named = name_of(&stage.pods()[1]);
    stage.patch(json!({ "spec": { "scaleStrategy": { "podsToDelete": [named, "nobody"] } } }));
    stage.world.advance_s(60).await;
    assert!(stage.pods().iter().all(|pod| name_of(pod) != named) && stage.pods().len() == 3);
    assert_eq!(stage.get()["spec"]["scaleStrategy"]["podsToDelete"], json!([]));
    assert_eq!(written(&stage, 600).await, Vec::<String>::new());
}

// Mistake 41.
#[tokio::test(start_paused = true)]
async fn what_cannot_be_changed_in_place_is_told_with_its_path_and_left_alone() {
    let stage = Stage::up(arena(&in_place())).await;
    let uids = |stage: &Stage| -> Vec<Value> {
        stage.pods().iter().map(|pod| pod["metadata"]["uid"].clone()).collect()
    };
    let before = uids(&stage);
    let env = json!([{ "name": "MODE", "value": "fast" }]);
    let container = json!({ "name": "game", "image": "game:2", "env": env });
    stage.patch(json!({ "spec": { "template": { "spec": { "containers": [container] } } } }));
    stage.world.advance_s(600).await;
    let failed = stage.condition("FailedUpdate").expect("a condition");
    assert!(failed.contains("spec.containers[0].env"), "{failed}");
    assert_eq!((uids(&stage), stage.with_image("game:1")), (before.clone(), 3));
    let told: Vec<_> =
        stage.world.events().into_iter().filter(|(_, text)| text.contains("env")).collect();
    assert!(told.len() == 1 && told[0].0 == "FailedUpdatePodInPlace", "{told:#?}");
    stage.patch(
        json!({ "metadata": { "annotations": { "tidegate.dev/in-place-if-possible": "true" } } }),
    );
    stage.until(300, "replaced", Stage::is_settled).await;
    assert!(uids(&stage).iter().all(|uid| !before.contains(uid)));
}

// Mistake 43.
#[tokio::test(start_paused = true)]
async fn a_pod_that_failed_is_replaced_and_told() {
    let stage = Stage::up(arena(&rolling())).await;
    let pod = name_of(&stage.pods()[0]);
    let failed = json!({ "status": { "phase": "Failed", "reason": "Evicted" } });
    stage.world.admin.patch(PODS, "default", &pod, "status", &failed).unwrap();
    stage
        .until(60, "replaced", |stage| {
            stage.is_settled() && stage.pods().iter().all(|known| name_of(known) != pod)
        })
        .await;
    assert!(
        stage.world.events().iter().any(|(_, text)| text.contains(&pod) && text.contains("failed"))
    );
}

// === Hooks and operations ===

// Mistake 31.
#[tokio::test(start_paused = true)]
async fn a_workload_that_says_little_is_taken_and_runs() {
    let mut object = arena(&Value::Null);
    for member in ["replicas", "updateStrategy"] {
        object["spec"].as_object_mut().unwrap().remove(member);
    }
    let stage = Stage::up(object).await;
    assert_eq!((stage.get()["spec"]["replicas"].as_i64(), stage.pods().len()), (Some(1), 1));
    stage.image("game:2");
    stage
        .until(120, "updated", |stage| stage.with_image("game:2") == 1 && stage.is_settled())
        .await;
}

// Mistake 32.
#[tokio::test(start_paused = true)]
async fn the_role_is_enough_for_a_release_that_is_taken_back_in_its_hook() {
    let mut slow = web("true");
    (slow["count"], slow["interval"]) = (json!(100), json!("60s"));
    let steps = json!([{ "partition": 2 }, { "hook": { "templateName": "slow" } }]);
    for object in [
        arena(&in_steps(in_place(), steps.clone())),
        numbered("Parallel", &in_steps(rolling_set(), steps.clone())),
    ] {
        let stage = Stage::up(object).await;
        stage.world.create(HOOK_TEMPLATES, template("slow", slow.clone()));
        stage.image("game:2");
        stage.until(120, "a run", |stage| stage.runs().len() == 1).await;
        stage.world.advance_s(5).await;
        stage.image("game:1");
        stage.until(120, "back", Stage::is_settled).await;
        stage.scale(1);
        stage.until(120, "one", Stage::is_settled).await;
        let refused =
            stage.world.sandbox.server().log.matching(|it| &*it.user == OPERATOR && it.code == 403);
        let refused: Vec<String> =
            refused.iter().map(|it| format!("{:?} {}", it.verb, it.target())).collect();
        assert_eq!(refused, Vec::<String>::new());
        assert!(stage.runs().is_empty());
    }
}

// Mistake 33.
#[tokio::test(start_paused = true)]
async fn runs_are_tied_to_no_node() {
    let stage = Stage::up(arena(&rolling())).await;
    let arguments = [("HostIP", "203.0.113.9"), ("PodName", "gone"), ("PodIP", "203.0.113.10")];
    stage.world.create(HOOK_RUNS, run("far", web("asInt(result) < 30"), &arguments));
    stage.world.advance_s(5).await;
    assert_eq!(phase(&stage, "far"), "Successful");
}

// Mistake 34.
#[tokio::test(start_paused = true)]
async fn large_numbers_stay_numbers_and_conditions_say_what_is_wrong() {
    let stage = Stage::up(arena(&rolling())).await;
    stage.age(12_345_678);
    stage.world.create(HOOK_RUNS, run("large", web("asInt(result) == 12345678"), &[]));
    stage.world.create(HOOK_RUNS, run("typo", web("asint(result) < 30"), &[]));
    stage.world.network.hook("2.2.2.2/", Reply::Status(200, r#"{"age":"many"}"#.to_owned()));
    let mut text = web("asInt(result) < 30");
    text["provider"]["web"]["url"] = json!("http://2.2.2.2");
    stage.world.create(HOOK_RUNS, run("text", text, &[]));
    stage.world.advance_s(120).await;
    let phases = ["large", "typo", "text"].map(|name| phase(&stage, name));
    assert_eq!(phases, ["Successful", "Error", "Error"]);
    let message = &stage.run("typo")["status"]["message"];
    assert_eq!(message, "metric typo: successCondition: `asint` is not a function at character 0");
    let measurement = &stage.run("text")["status"]["metricResults"][0]["measurements"][0];
    assert_eq!(measurement["message"], "this string is no integer at character 0");
}

// Mistake 35.
#[tokio::test(start_paused = true)]
async fn prometheus_is_found_by_argument_and_an_empty_answer_has_a_message() {
    let stage = Stage::up(arena(&rolling())).await;
    let query = |query: &str| {
        json!({
            "successCondition": "result[0] > 0.5",
            "provider": { "prometheus": { "address": "http://{{ args.host }}:9090", "query": query } },
        })
    };
    stage.world.network.metric("players_online", Metric::Value(0.75));
    stage.world.network.metric("players_gone", Metric::Nothing);
    let arguments = [("host", "prometheus")];
    stage.world.create(HOOK_RUNS, run("some", query("players_online"), &arguments));
    stage.world.create(HOOK_RUNS, run("none", query("players_gone"), &arguments));
    stage.world.advance_s(120).await;
    assert_eq!(
        (phase(&stage, "some"), phase(&stage, "none")),
        ("Successful".to_owned(), "Error".to_owned())
    );
    let measurement = &stage.run("none")["status"]["metricResults"][0]["measurements"][0];
    assert_eq!(measurement["message"], "the query has no result: there are no samples");
    assert_eq!(
        stage.run("some")["status"]["metricResults"][0]["measurements"][0]["value"],
        "[0.75]"
    );
}

// Mistake 40.
#[tokio::test(start_paused = true)]
async fn the_same_template_in_other_words_and_a_new_operator_make_no_revision() {
    let mut object = arena(&rolling());
    let template = &mut object["spec"]["template"];
    template["metadata"]["labels"] = json!({ "app": ARENA, "tier": "game" });
    let mut stage = Stage::up(object.clone()).await;
    let revisions = |stage: &Stage| -> Vec<String> {
        stage.world.admin.list(CONTROLLER_REVISIONS, Some("default")).iter().map(name_of).collect()
    };
    let (before, pods) = (revisions(&stage), stage.pods().iter().map(name_of).collect::<Vec<_>>());
    assert_eq!(before.len(), 1);
    let place = format!("gamedeployments/{ARENA}");
    let texts = [
        r#"{"spec":{"template":{"spec":{"containers":[{"image":"game:1","resources":{},"name":"game"}]}}}}"#,
        r#"{"spec":{"template":{"metadata":{"labels":{"tier":"game","app":"arena"}},
            "spec":{"containers":[{"name":"game","image":"game:1"}]}}}}"#,
    ];
    for text in texts {
        let patch: Value = serde_json::from_str(text).unwrap();
        send_patch(&stage.world, "application/merge-patch+json", &place, &patch).await.unwrap();
        stage.world.advance_s(60).await;
        stage.world.start().await;
        stage.world.advance_s(60).await;
        assert_eq!(revisions(&stage), before);
        assert_eq!(
            stage.pods().iter().map(name_of).collect::<Vec<_>>(),
            pods,
            "nobody is replaced"
        );
    }
    assert_eq!(stage.status()["updateRevision"], before[0]);
}

// Mistake 40.
#[tokio::test(start_paused = true)]
async fn a_revision_that_others_wrote_in_other_words_is_taken_over() {
    let mut object = arena(&in_place());
    let resources = json!({ "limits": { "cpu": "1000m", "memory": "1024Mi" } });
    object["spec"]["template"]["spec"]["containers"][0]["resources"] = resources;
    let mut stage = Stage::set(object);
    let metadata = stage.get()["metadata"].clone();
    let container = json!({
        "image": "game:1", "name": "game", "resources": { "limits": { "cpu": "1", "memory": "1Gi" } },
    });
    let owner = json!({
        "apiVersion": "tkex.tencent.com/v1alpha1", "kind": "GameDeployment", "name": ARENA,
        "uid": metadata["uid"], "controller": true, "blockOwnerDeletion": true,
    });
    stage.world.create(
        CONTROLLER_REVISIONS,
        json!({
            "apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1,
            "metadata": {
                "name": "arena-other", "labels": { "app": ARENA }, "ownerReferences": [owner],
            },
            "data": { "spec": { "template": {
                "$patch": "replace", "spec": { "containers": [container] },
                "metadata": { "creationTimestamp": null, "labels": { "app": ARENA } },
            } } },
        }),
    );
    stage.world.start().await;
    stage.until(120, "up", Stage::is_settled).await;
    assert_eq!(stage.status()["updateRevision"], "arena-other");
    assert_eq!(stage.world.admin.list(CONTROLLER_REVISIONS, Some("default")).len(), 1);
    stage.image("game:2");
    stage.until(120, "updated in place", Stage::is_settled).await;
    assert_eq!((stage.with_image("game:2"), stage.condition("FailedUpdate")), (3, None));
}

#[tokio::test(start_paused = true)]
async fn a_pod_without_the_labels_is_let_go_and_another_takes_its_place() {
    let stage = Stage::up(arena(&rolling())).await;
    let pod = name_of(&stage.pods()[0]);
    stage.world.patch(PODS, &pod, &json!({ "metadata": { "labels": { "app": "quarantine" } } }));
    stage.until(60, "four", |stage| stage.pods().len() == 4).await;
    stage.world.advance_s(60).await;
    let kept = stage.world.get(PODS, &pod).unwrap();
    assert!(kept["metadata"]["ownerReferences"].as_array().is_none_or(Vec::is_empty), "{kept:#}");
    assert_eq!((stage.status()["replicas"].as_i64(), stage.pods().len()), (Some(3), 4));
    stage.world.patch(PODS, &pod, &json!({ "metadata": { "labels": { "app": ARENA } } }));
    stage.until(60, "three", Stage::is_settled).await;
}

#[tokio::test(start_paused = true)]
async fn pods_that_ended_and_belong_to_nobody_are_left_alone() {
    let mut stage = Stage::set(arena(&rolling()));
    let strangers = [("done", "Succeeded"), ("broken", "Failed")];
    for (name, phase) in strangers {
        stage.world.create(
            PODS,
            json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": { "name": name, "labels": { "app": ARENA } },
                "spec": { "containers": [{ "name": "game", "image": "game:1" }] },
            }),
        );
        let status = json!({ "status": { "phase": phase } });
        stage.world.admin.patch(PODS, "default", name, "status", &status).unwrap();
    }
    stage.world.start().await;
    stage.until(120, "three", |stage| stage.status()["readyReplicas"] == 3).await;
    stage.world.advance_s(300).await;
    for (name, phase) in strangers {
        let pod = stage.world.get(PODS, name).unwrap();
        assert!(pod["metadata"]["ownerReferences"].as_array().is_none_or(Vec::is_empty), "{pod:#}");
        assert_eq!(pod["status"]["phase"], phase);
    }
    assert_eq!(stage.status()["replicas"], 3);
    assert!(stage.told("RecreatingFailedPod").is_empty(), "{:?}", stage.world.events());
}
