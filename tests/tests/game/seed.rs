//! The published example, row by row: in-place updates in five steps, the last of them a hook.
//!
//! The columns of `kubectl get` are checked on the way; at the end every version of the workload is read
//! from the history of the store, and is compared line by line.

use jiff::Timestamp;
use kube_sandbox::store::TableKey;
use serde_json::{Value, json};
use tidegate_tests::{game::STATUS_MEMBERS, rollout::World};

use crate::rig::{
    GAME_DEPLOYMENTS, HOOK_RUNS, HOOK_TEMPLATES, NAME, Rig, game_deployment, hook_template,
};

const FIRST: &str = "test-gamedeployment-67864c6f65";
const SECOND: &str = "test-gamedeployment-9d78dd5db";
const RUN: &str = "test-gamedeployment-9d78dd5db-4-test";

/// Columns of the trace: generation, `paused`, step, reason of the pause, stable revision and run of the
/// hook; then updated/updated ready/ready, those of them that the trace has, in order and from the first.
type Line = (&'static str, &'static [&'static str]);

/// Rows 1 to 13. Of two writes the one of the spec comes first, and is a line of its own.
const TO_THE_HOOK: [Line; 13] = [
    ("2 false 5 - R1 -", &["4/4/4"]),
    ("2 false 0 - R1 -", &["0/0/4", "1/0/3"]),
    ("2 false 1 - R1 -", &["1/1/4"]),
    ("3 true 1 - R1 -", &["1/1/4"]),
    ("3 true 1 PausedByCanaryPauseStep R1 -", &["1/1/4"]),
    ("4 false 1 PausedByCanaryPauseStep R1 -", &["1/1/4"]),
    ("4 false 2 - R1 -", &["1/1/4", "2/1/3"]),
    ("4 false 3 - R1 -", &["2/2/4"]),
    ("5 true 3 - R1 -", &["2/2/4"]),
    ("5 true 3 PausedByCanaryPauseStep R1 -", &["2/2/4"]),
    ("6 false 3 PausedByCanaryPauseStep R1 -", &["2/2/4"]),
    ("6 false 4 - R1 -", &["2/2/4"]),
    ("6 false 4 - R1 R2-4-test", &["2/2/4"]),
];
/// Row 14, and 15a to 17a. The stable revision is the old one until all pods are updated.
const GOING_ON: [Line; 5] = [
    ("7 true 4 - R1 R2-4-test", &["2/2/4"]),
    ("7 true 4 PausedByStepBasedHook R1 R2-4-test", &["2/2/4"]),
    ("8 false 4 PausedByStepBasedHook R1 R2-4-test", &["2/2/4"]),
    ("8 false 5 - R1 -", &["2/2/4", "4/2/2"]),
    ("8 false 5 - R2 -", &["4/4/4"]),
];
/// Row 14, 15b and 16b.
const GOING_BACK: [Line; 5] = [
    ("7 true 4 - R1 R2-4-test", &["2/2/4"]),
    ("7 true 4 PausedByStepBasedHook R1 R2-4-test", &["2/2/4"]),
    ("8 true 4 PausedByStepBasedHook R1 R2-4-test", &["2/2/4"]),
    ("9 false 4 PausedByStepBasedHook R1 R2-4-test", &["2/2/4"]),
    ("9 false 5 - R1 -", &["2/2/4", "4/2/2", "4/4/4"]),
];
/// The hook passes: never paused.
const PASSING: [Line; 2] =
    [("6 false 5 - R1 -", &["2/2/4", "4/2/2"]), ("6 false 5 - R2 -", &["4/4/4"])];

/// The example at the end of its timed pause.
struct Begun {
    rig: Rig,
    /// The revision of the store at row 0.
    since: u64,
    /// The time at which the pause of row 10 began.
    paused: Timestamp,
}

/// One row of the trace: paused, step, reason of the pause, stable revision, updated/updated ready/ready.
fn row(rig: &Rig) -> (bool, i64, Vec<String>, String, [i64; 3]) {
    let object = rig.get();
    let status = &object["status"];
    let reasons = status["pauseConditions"].as_array().into_iter().flatten();
    let reasons = reasons.filter_map(|it| it["reason"].as_str().map(str::to_owned)).collect();
    let [_, updated, updated_ready, ready, _] = rig.columns();
    (
        object["spec"]["updateStrategy"]["paused"] == true,
        status["currentStepIndex"].as_i64().unwrap_or(-1),
        reasons,
        status["canary"]["revision"].as_str().unwrap_or_default().to_owned(),
        [updated, updated_ready, ready],
    )
}

fn want(
    paused: bool,
    step: i64,
    reason: Option<&str>,
    counts: [i64; 3],
) -> (bool, i64, Vec<String>, String, [i64; 3]) {
    (paused, step, reason.map(str::to_owned).into_iter().collect(), FIRST.to_owned(), counts)
}

async fn until(rig: &Rig, seconds: u64, what: &str, is_so: impl FnMut(&World) -> bool) {
    let reached = rig.world.until_seen(seconds, is_so).await;
    assert!(reached, "never {what}: {:#}", rig.get());
}

fn line(object: &Value) -> String {
    let status = &object["status"];
    let reasons = status["pauseConditions"].as_array().into_iter().flatten();
    let reasons: Vec<&str> = reasons.filter_map(|it| it["reason"].as_str()).collect();
    let short = |name: &Value| match name.as_str() {
        None => "-",
        Some(FIRST) => "R1",
        Some(SECOND) => "R2",
        Some(RUN) => "R2-4-test",
        Some(_) => "?",
    };
    format!(
        "{} {} {} {} {} {}",
        object["metadata"]["generation"],
        object["spec"]["updateStrategy"]["paused"],
        status["currentStepIndex"],
        if reasons.is_empty() { "-".to_owned() } else { reasons.join(",") },
        short(&status["canary"]["revision"]),
        short(&status["canary"]["currentStepHookRun"]),
    )
}

/// All lines of the workload since then, each with the counts that were seen in it.
fn lines(rig: &Rig, since: u64) -> Vec<(String, Vec<String>)> {
    let table = TableKey::new(GAME_DEPLOYMENTS.group, GAME_DEPLOYMENTS.plural);
    let store = &rig.world.sandbox.server().store;
    let (events, _) = store.events_since(&table, since, usize::MAX).expect("all is remembered");
    let mut lines: Vec<(String, Vec<String>)> = Vec::new();
    for event in events {
        let object = event.object.value();
        let status = &object["status"];
        let counts = ["updatedReplicas", "updatedReadyReplicas", "readyReplicas"];
        let counts = counts.map(|name| status[name].to_string()).join("/");
        let line = line(&object);
        match lines.last_mut() {
            Some((known, seen)) if *known == line => {
                if seen.last() != Some(&counts) {
                    seen.push(counts);
                }
            }
            _ => lines.push((line, vec![counts])),
        }
    }
    lines
}

/// The whole trace: these lines and no others.
fn compare(begun: &Begun, ending: &[Line]) {
    let wanted: Vec<Line> = TO_THE_HOOK.iter().chain(ending).copied().collect();
    let seen = lines(&begun.rig, begun.since);
    let texts: Vec<&str> = seen.iter().map(|(line, _)| line.as_str()).collect();
    assert_eq!(texts, wanted.iter().map(|(line, _)| *line).collect::<Vec<_>>());
    for ((line, seen), (_, wanted)) in seen.iter().zip(wanted) {
        assert_eq!(seen.first().map(String::as_str), wanted.first().copied(), "{line}");
        let mut rest = seen.iter();
        let is_in_order = wanted.iter().all(|counts| rest.any(|it| it == counts));
        assert!(is_in_order, "{line}: {seen:?}, and the trace has {wanted:?}");
    }
}

fn time(value: &Value) -> Timestamp {
    value
        .as_str()
        .and_then(|text| text.parse().ok())
        .unwrap_or_else(|| panic!("{value} is no time"))
}

/// The start of the current pause.
fn paused_at(rig: &Rig) -> Timestamp {
    time(&rig.get()["status"]["pauseConditions"][0]["startTime"])
}

fn seconds(from: Timestamp, to: Timestamp) -> i64 {
    to.as_second() - from.as_second()
}

/// Rows 0 to 10, and almost to the end of that pause.
async fn to_the_hook(condition: &str) -> Begun {
    let rig = Rig::new().await;
    rig.age(45);
    rig.world.create(HOOK_TEMPLATES, hook_template(condition));
    rig.world.create(GAME_DEPLOYMENTS, game_deployment());
    until(&rig, 60, "four pods", |_| rig.columns() == [4, 4, 4, 4, 4]).await;
    rig.world.advance_s(5).await;
    assert_eq!(row(&rig), want(false, 5, None, [4, 4, 4]), "row 0");
    assert_eq!(rig.get()["metadata"]["generation"], 1);
    assert_eq!(rig.get()["status"]["updateRevision"], FIRST);
    let since = rig.world.sandbox.server().store.revision();

    rig.image("python:3.5");
    rig.world.settle().await;
    assert_eq!(rig.get()["status"]["updateRevision"], SECOND);
    assert_eq!(row(&rig), want(false, 0, None, [1, 0, 3]), "row 2: one pod is out of service");
    rig.world.advance_s(29).await;
    let images = |rig: &Rig| -> Vec<String> {
        let image = |pod: &Value| pod["spec"]["containers"][0]["image"].as_str().map(str::to_owned);
        rig.pods().iter().filter_map(image).collect()
    };
    assert_eq!(images(&rig).iter().filter(|it| *it == "python:3.5").count(), 0, "grace");
    until(&rig, 60, "paused at step 1", |_| row(&rig).0).await;
    let paused = Some("PausedByCanaryPauseStep");
    assert_eq!(row(&rig), want(true, 1, paused, [1, 1, 4]), "row 5");
    assert_eq!(rig.columns(), [4, 1, 1, 4, 4]);
    rig.world.advance_s(120).await;
    assert_eq!(row(&rig), want(true, 1, paused, [1, 1, 4]), "it stays so");
    let object = rig.get();
    assert_eq!(object["metadata"]["generation"], 3);
    assert_eq!(object["status"]["observedGeneration"], 3);
    assert_eq!(object["status"]["collisionCount"], 0);
    assert_eq!(object["status"]["labelSelector"], "app=test-gamedeployment");
    let strategy = &object["spec"]["updateStrategy"];
    assert_eq!(strategy["canary"]["steps"][1], json!({ "pause": {} }));
    assert_eq!(
        strategy.as_object().map(|it| it.keys().cloned().collect::<Vec<_>>()).unwrap_or_default(),
        ["canary", "inPlaceUpdateStrategy", "maxUnavailable", "paused", "type"]
    );
    assert!(object["status"]["canary"]["currentStepHookRun"].is_null());
    let members = object["status"].as_object().into_iter().flatten();
    assert_eq!(members.map(|(name, _)| name.as_str()).collect::<Vec<_>>(), STATUS_MEMBERS);

    rig.pause(false);
    rig.world.settle().await;
    assert_eq!(row(&rig), want(false, 2, None, [2, 1, 3]), "rows 7 and 8");
    until(&rig, 90, "paused at step 3", |_| row(&rig).0).await;
    assert_eq!(row(&rig), want(true, 3, paused, [2, 2, 4]), "row 10");

    rig.world.advance_s(58).await;
    assert_eq!(row(&rig).1, 3, "not before 60 s");
    let paused = paused_at(&rig);
    Begun { rig, since, paused }
}

/// Row 14: a minute after the pause of row 10 began.
async fn to_the_failed_hook() -> Begun {
    let begun = to_the_hook("asInt(result) < 30").await;
    let rig = &begun.rig;
    until(rig, 10, "paused by the hook", |_| row(rig).1 == 4 && row(rig).0).await;
    assert_eq!(row(rig), want(true, 4, Some("PausedByStepBasedHook"), [2, 2, 4]), "row 14");
    assert_eq!(seconds(begun.paused, paused_at(rig)), 60);
    begun
}

#[tokio::test(start_paused = true)]
async fn the_published_example_pauses_at_its_failed_hook_and_goes_on_when_told() {
    let begun = to_the_failed_hook().await;
    let rig = &begun.rig;
    assert_eq!(rig.get()["status"]["canary"]["currentStepHookRun"], RUN);
    let run = rig.world.get(HOOK_RUNS, RUN).unwrap();
    assert_eq!(
        run["spec"],
        json!({ "metrics": [{
            "count": 2, "interval": "60s", "name": "webtest",
            "provider": { "web": { "jsonPath": "{$.age}", "url": "http://1.1.1.1:9091" } },
            "successCondition": "asInt(result) < 30",
        }] })
    );
    let status = &run["status"];
    assert_eq!(status["phase"], "Failed");
    let result = &status["metricResults"][0];
    assert_eq!((&result["count"], &result["failed"]), (&json!(1), &json!(1)));
    assert_eq!(result["measurements"].as_array().map(Vec::len), Some(1));
    assert_eq!(result["measurements"][0]["value"], "45");

    rig.pause(false);
    rig.world.settle().await;
    assert_eq!(rig.columns(), [4, 4, 2, 2, 4], "row 16a");
    until(rig, 90, "all updated", |_| rig.columns() == [4, 4, 4, 4, 4]).await;
    rig.world.advance_s(5).await;
    compare(&begun, &GOING_ON);
    let object = rig.get();
    assert_eq!(object["status"]["currentStepIndex"], 5);
    assert_eq!(object["status"]["canary"]["revision"], SECOND);
    assert_eq!(object["spec"]["updateStrategy"]["paused"], false);
}

#[tokio::test(start_paused = true)]
async fn the_published_example_goes_back_when_its_template_does() {
    let begun = to_the_failed_hook().await;
    let rig = &begun.rig;
    rig.image("python:latest");
    rig.world.settle().await;
    assert_eq!(row(rig), want(false, 5, None, [4, 2, 2]), "rows 15b and 16b");
    until(rig, 90, "all back", |_| rig.columns() == [4, 4, 4, 4, 4]).await;
    rig.world.advance_s(5).await;
    compare(&begun, &GOING_BACK);
    assert!(rig.world.get(HOOK_RUNS, RUN).is_none(), "runs of the other revision are gone");
    assert_eq!(rig.get()["status"]["updateRevision"], FIRST);
}

#[tokio::test(start_paused = true)]
async fn the_published_example_does_not_pause_at_a_hook_that_passes() {
    let begun = to_the_hook("asInt(result) > 30").await;
    let rig = &begun.rig;
    until(rig, 200, "all updated", |_| rig.columns() == [4, 4, 4, 4, 4]).await;
    rig.world.advance_s(5).await;
    compare(&begun, &PASSING);
    let run = rig.world.get(HOOK_RUNS, RUN).unwrap();
    let result = &run["status"]["metricResults"][0];
    assert_eq!((&result["count"], &result["successful"]), (&json!(2), &json!(2)), "{run:#}");
    let [first, second] = [0_usize, 1].map(|at| time(&result["measurements"][at]["startedAt"]));
    assert_eq!(seconds(begun.paused, first), 60, "as soon as the pause is over");
    assert!((60..=61).contains(&seconds(first, second)), "{run:#}");
    let object = rig.get();
    assert_eq!(object["metadata"]["generation"], 6, "paused twice, and no more");
    assert_eq!(NAME, object["metadata"]["name"]);
}
