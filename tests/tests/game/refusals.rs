//! A refused write is published once, retried with backoff, and made up for once it is allowed.

use std::collections::BTreeMap;

use kube_sandbox::{
    cluster::{Cluster as _, EVENTS},
    faults::{Effect, Matcher, RuleId, When},
    request::Verb,
    request_log::Entry,
};
use serde_json::{Value, json};
use tidegate_tests::rollout::OPERATOR;

use crate::rig::{GAME_DEPLOYMENTS, Stage, arena, numbered};

const GAME: &str = "tkex.tencent.com";
/// The duration of the refusal.
const MINUTES: u64 = 10;
/// Writes within that time: a handful, and one or two a minute with the ones that follow from them.
const WRITES_MAX: usize = 160;

fn steps() -> Value {
    json!([{ "partition": 1 }, { "hook": { "templateName": "check" } }])
}

fn deployment(way: &str) -> Value {
    with_hooks(arena(&json!({
        "type": way, "maxUnavailable": 1, "canary": { "steps": steps() },
    })))
}

fn set(way: &str) -> Value {
    let mut set = with_hooks(numbered(
        "Parallel",
        &json!({
            "type": way, "rollingUpdate": { "maxUnavailable": 1 }, "canary": { "steps": steps() },
        }),
    ));
    set["spec"]["volumeClaimTemplates"] = json!([{
        "metadata": { "name": "world" },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } },
        },
    }]);
    set
}

fn with_hooks(mut object: Value) -> Value {
    object["spec"]["revisionHistoryLimit"] = json!(0);
    for member in ["preDelete", "preInplace", "postInplace"] {
        let hook = json!({ "hook": { "templateName": "check" } });
        object["spec"][format!("{member}UpdateStrategy")] = hook;
    }
    object
}

/// Events of the operator about a refusal, by reason and object.
fn told(stage: &Stage) -> BTreeMap<(String, String), usize> {
    let mut counts = BTreeMap::new();
    for event in stage.world.admin.list(EVENTS, Some("default")) {
        let message = event["message"].as_str().unwrap_or_default().to_owned();
        if event["source"]["component"] == "tidegate" && message.contains("refused") {
            let about = event["involvedObject"]["uid"].as_str().unwrap_or_default().to_owned();
            *counts.entry((about, message)).or_insert(0) += 1;
        }
    }
    counts
}

/// A write of the operator other than events.
fn is_ours(entry: &Entry) -> bool {
    &*entry.user == OPERATOR && entry.is_write() && !entry.concerns("", "events")
}

/// Runs a release and a change of size during which some writes are refused.
async fn endure(object: Value, verb: Verb, group: &str, resource: &str) -> bool {
    let about = format!("{} {verb:?} {resource}", object["kind"]);
    let stage = Stage::up(object).await;
    let log = stage.world.sandbox.server().log.clone();
    let rule = stage.forbid(&[verb], group, resource);
    let mark = log.mark();
    stage.image("game:2");
    stage.world.advance_s(MINUTES * 30).await;
    stage.scale(2);
    stage.world.advance_s(MINUTES * 30).await;
    let writes = log.matching_since(mark, is_ours);
    let refused = writes.iter().filter(|it| it.code == 403).count();
    assert!(writes.len() <= WRITES_MAX, "{about}: {} writes, {refused} refused", writes.len());
    let told = told(&stage);
    let twice: Vec<_> = told.iter().filter(|(_, count)| **count > 1).collect();
    assert!(twice.is_empty(), "{about}: {twice:#?}");
    assert_eq!(told.is_empty(), refused == 0, "{about}: {refused} refused, told {told:#?}");
    stage.allow(rule);
    // A hook that could not be run in time paused the release, and only a user can resume it.
    let is_paused = |stage: &Stage| stage.get()["spec"]["updateStrategy"]["paused"] == true;
    for _ in 0..10 {
        stage.world.advance_s(60).await;
        if is_paused(&stage) {
            stage.pause(false);
        }
    }
    stage.until(300, &about, |stage| stage.is_settled() && stage.with_image("game:2") == 2).await;
    stage.world.advance_s(60).await;
    for condition in ["FailedScale", "FailedUpdate", "HookBlocked"] {
        assert_eq!(stage.condition(condition), None, "{about}");
    }
    refused > 0
}

async fn endure_all(kinds: &[Value], rules: &[(Verb, &str, &str)]) {
    for (verb, group, resource) in rules {
        let mut refused = false;
        for object in kinds {
            refused |= endure(object.clone(), *verb, group, resource).await;
        }
        assert!(refused, "{verb:?} {resource}: nothing was refused, so nothing is shown");
    }
}

#[tokio::test(start_paused = true)]
async fn refused_writes_of_pods_are_told_once() {
    let kinds = ["RollingUpdate", "InplaceUpdate"].map(|way| [deployment(way), set(way)]);
    let rules = [
        (Verb::Create, "", "pods"),
        (Verb::Patch, "", "pods"),
        (Verb::Delete, "", "pods"),
        (Verb::Create, "", "persistentvolumeclaims"),
    ];
    endure_all(&kinds.concat(), &rules).await;
}

#[tokio::test(start_paused = true)]
async fn refused_writes_of_runs_and_revisions_are_told_once() {
    let kinds = [deployment("InplaceUpdate"), set("RollingUpdate")];
    let rules = [
        (Verb::Create, GAME, "hookruns"),
        (Verb::Patch, GAME, "hookruns"),
        (Verb::Delete, GAME, "hookruns"),
        (Verb::Create, "apps", "controllerrevisions"),
        (Verb::Delete, "apps", "controllerrevisions"),
    ];
    endure_all(&kinds, &rules).await;
}

#[tokio::test(start_paused = true)]
async fn refused_writes_of_the_workload_itself_are_told_once() {
    let mut paused = deployment("InplaceUpdate");
    paused["spec"]["updateStrategy"]["canary"]["steps"] =
        json!([{ "partition": 1 }, { "pause": {} }]);
    endure_all(&[paused], &[(Verb::Patch, GAME, GAME_DEPLOYMENTS.plural)]).await;
}

/// Pods cannot be created, for this reason.
fn refuse_pods(stage: &Stage, when: When, code: u16, reason: &'static str) -> RuleId {
    stage.world.sandbox.server().faults.add(
        Matcher::any().user(OPERATOR).verbs([Verb::Create]).resource("", "pods"),
        when,
        Effect::FailBefore { code, reason },
    )
}

#[tokio::test(start_paused = true)]
async fn a_webhook_that_is_down_is_told_and_freezes_nothing() {
    let strategy = json!({ "type": "RollingUpdate", "maxUnavailable": 1 });
    for object in [arena(&strategy), numbered("Parallel", &json!({ "type": "RollingUpdate" }))] {
        let stage = Stage::up(object).await;
        let down = "failed calling webhook \"pods.example.com\"";
        let rule = refuse_pods(&stage, When::Always, 500, down);
        stage.scale(4);
        stage.pause(true);
        stage
            .until(60, "told and paused", |stage| {
                let (object, status) = (stage.get(), stage.status());
                status["observedGeneration"] == object["metadata"]["generation"]
                    && status["pauseConditions"][0]["reason"] == "PausedByUser"
                    && stage.condition("FailedScale").is_some_and(|text| text.contains(down))
            })
            .await;
        stage.world.advance_s(MINUTES * 60).await;
        assert_eq!(stage.told("FailedCreate").len(), 1, "{:?}", stage.told("FailedCreate"));
        assert_eq!(stage.pods().len(), 3);
        stage.allow(rule);
        stage.pause(false);
        stage.until(180, "four", Stage::is_settled).await;
        assert_eq!(stage.condition("FailedScale"), None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_in_other_words_each_time_is_tried_again_at_leisure() {
    let stage = Stage::up(arena(&json!({ "type": "RollingUpdate", "maxUnavailable": 1 }))).await;
    let words = [(1, "exceeded quota: 30 of 30"), (2, "exceeded quota: 31 of 31")];
    let rules = words.map(|(first, reason)| {
        refuse_pods(&stage, When::nth((first..10_000).step_by(2)), 403, reason)
    });
    let log = stage.world.sandbox.server().log.clone();
    let mark = log.mark();
    stage.scale(4);
    stage.world.advance_s(MINUTES * 60).await;
    let writes = log.matching_since(mark, is_ours);
    let refused = writes.iter().filter(|it| it.code == 403).count();
    // Two at once, six more in the first minute as backoff grows, and then one a minute.
    assert!((6..=30).contains(&refused), "{refused} refused of {} writes", writes.len());
    assert!(writes.len() <= 3 * refused, "{refused} refused of {} writes", writes.len());
    let shown = stage.condition("FailedScale");
    assert!(shown.is_some_and(|text| text.contains("exceeded quota")), "{:#}", stage.status());
    assert_eq!(stage.told("FailedCreate").len(), 2, "{:?}", stage.told("FailedCreate"));
    for rule in rules {
        stage.allow(rule);
    }
    stage.until(180, "four", Stage::is_settled).await;
    assert_eq!(stage.condition("FailedScale"), None);
}
