//! Hooks from end to end: their requests to the cluster, and the pods that wait for them.

use kube_sandbox::{
    cluster::{Cluster as _, Deletion, PODS},
    faults::{Effect, Matcher, When},
    request::Verb,
};
use serde_json::{Value, json};
use tidegate_loadtester::auth::{Auth, AuthError, Signed};
use tidegate_tests::{network::Reply, rollout::OPERATOR};

use crate::rig::{
    ARENA, HOOK_RUNS, HOOK_TEMPLATES, Stage, arena, measured, name_of, numbered, run, template, web,
};

const DRAINED: &str = "example.com/drained";

fn rolling() -> Value {
    json!({ "type": "RollingUpdate", "maxUnavailable": 1 })
}

fn in_place(unavailable: i64) -> Value {
    json!({ "type": "InplaceUpdate", "maxUnavailable": unavailable })
}

/// With a hook around single pods.
fn hooked(strategy: &Value, member: &str, template: &str) -> Value {
    let mut object = arena(strategy);
    object["spec"][member] = json!({ "hook": { "templateName": template } });
    object
}

fn waits_with(stage: &Stage, list: &str, phase: &str) -> bool {
    let status = stage.status();
    let entries = status[list].as_array().cloned().unwrap_or_default();
    entries.len() == 1 && entries[0]["phase"] == phase && entries[0]["startTime"].is_string()
}

/// The labels by which runs for this pod are found.
fn labels_for(stage: &Stage, pod: &str, kind: &str) -> Value {
    let pod = stage.world.get(PODS, pod).unwrap_or_default();
    let id = name_of(&pod).rsplit('-').next().map(str::to_owned);
    json!({
        "hookrun-type": kind, "instance-id": id,
        "workload-revision": pod["metadata"]["labels"]["controller-revision-hash"],
    })
}

// === The provider `web` ===

#[tokio::test(start_paused = true)]
async fn a_web_hook_is_signed_as_the_hooks_of_canaries_are() {
    let file = std::env::temp_dir().join(format!("game-hook-secret-{}", std::process::id()));
    std::fs::write(&file, "of-the-game\n").unwrap();
    let mut stage = Stage::set(arena(&rolling()));
    stage.world.options.hook_secret_file = Some(file.clone());
    stage.world.start().await;
    stage.until(300, "up", Stage::is_settled).await;
    let status = measured(&stage, web("asInt(result) < 30"), &[]).await;
    assert_eq!(status["phase"], "Successful", "{status:#}");
    let calls = stage.world.network.calls_to("1.1.1.1/");
    assert!(!calls.is_empty());
    let auth = Auth { secret_file: Some(file.clone()), ..Auth::default() };
    for call in &calls {
        let time = call.headers.get("x-tidegate-timestamp").expect("it is signed");
        let now = time.to_str().unwrap().parse().unwrap();
        let checked = |body: &[u8]| {
            let signed = Signed { path: "/", body };
            auth.check(&call.headers, signed, Some("default"), now).map(|_| ())
        };
        assert_eq!(checked(&call.sent), Ok(()));
        assert_eq!(checked(b"another"), Err(AuthError::Wrong));
    }
    std::fs::remove_file(file).unwrap();
}

// === The provider `kubernetes` ===

/// The phase and message of a metric of this function and field.
fn object(function: &str, path: &str, value: &str) -> Value {
    json!({ "provider": { "kubernetes": {
        "function": function, "fields": [{ "path": path, "value": value }],
    } } })
}

// Mistake 36 of docs/mistakes.md.
#[tokio::test(start_paused = true)]
async fn a_field_that_differs_is_a_failure_and_an_object_that_is_not_there_an_error() {
    let stage = Stage::up(arena(&rolling())).await;
    let pod = name_of(&stage.pods()[0]);
    let place = [("PodName", pod.as_str()), ("PodNamespace", "default")];
    let path = format!("metadata.annotations.{DRAINED}");

    let status = measured(&stage, object("get", &path, "yes"), &place).await;
    assert_eq!(status["phase"], "Failed", "absent is a no");
    let measurement = &status["metricResults"][0]["measurements"][0];
    assert_eq!(measurement["message"], format!("{path} is absent, not \"yes\""));

    stage.annotate(&pod, DRAINED, "soon");
    let status = measured(&stage, object("get", &path, "yes"), &place).await;
    assert_eq!(status["phase"], "Failed");
    assert_eq!(
        status["metricResults"][0]["measurements"][0]["value"], "soon",
        "what is seen is told"
    );

    stage.annotate(&pod, DRAINED, "yes");
    let status = measured(&stage, object("get", &path, "yes"), &place).await;
    assert_eq!(status["phase"], "Successful");
    let status = measured(&stage, object("get", "status.phase", "Running"), &place).await;
    assert_eq!(status["phase"], "Successful", "any field can be looked at");

    let nobody = [("PodName", "nobody"), ("PodNamespace", "default")];
    let status = measured(&stage, object("get", &path, "yes"), &nobody).await;
    assert_eq!(
        (&status["phase"], &status["metricResults"][0]["error"]),
        (&json!("Error"), &json!(5))
    );
    let message = status["metricResults"][0]["measurements"][0]["message"].as_str().unwrap();
    assert!(message.contains("Pod default/nobody does not exist"), "{message}");
}

// Mistake 36 of docs/mistakes.md.
#[tokio::test(start_paused = true)]
async fn marks_are_set_where_there_were_none_and_whatever_their_text() {
    let stage = Stage::up(arena(&rolling())).await;
    let pod = name_of(&stage.pods()[0]);
    assert!(stage.world.get(PODS, &pod).unwrap()["metadata"]["annotations"].is_null());
    let arguments =
        [("PodName", pod.as_str()), ("PodNamespace", "default"), ("who", "O'Hara \"x\"")];
    let hostile = r#"for {{ args.who }}"}],{"op":"remove","path":"/spec"}\"#;
    let path = "metadata.annotations.example.com/note";
    let status = measured(&stage, object("patch", path, hostile), &arguments).await;
    assert_eq!(status["phase"], "Successful", "{status:#}");
    let pod = stage.world.get(PODS, &pod).unwrap();
    let note = &pod["metadata"]["annotations"]["example.com/note"];
    assert_eq!(note, r#"for O'Hara "x""}],{"op":"remove","path":"/spec"}\"#);
}

#[tokio::test(start_paused = true)]
async fn what_a_hook_cannot_look_at_is_an_error_that_says_why() {
    let stage = Stage::up(arena(&rolling())).await;
    let rows = [
        ("example.com", "v1", "Unicorn", "does not know Unicorn of example.com/v1"),
        ("rbac.authorization.k8s.io", "v1", "ClusterRole", "ClusterRole is not in a namespace"),
        ("rbac.authorization.k8s.io", "v1", "Role", "role does not let it at Role default/probe"),
    ];
    for (group, version, kind, says) in rows {
        let arguments = [
            ("PodName", "probe"),
            ("PodNamespace", "default"),
            ("Group", group),
            ("Version", version),
            ("Kind", kind),
        ];
        let status = measured(&stage, object("get", "metadata.name", "probe"), &arguments).await;
        let result = &status["metricResults"][0];
        assert_eq!((&status["phase"], &result["error"]), (&json!("Error"), &json!(5)), "{kind}");
        let message = result["measurements"][0]["message"].as_str().unwrap_or_default();
        assert!(message.contains(says), "{kind}: {message}");
    }
}

/// The reason, the query, its object, and the result.
type Row<'a> = (&'a str, Value, Vec<(&'a str, &'a str)>, &'a str);

#[tokio::test(start_paused = true)]
async fn a_hook_sees_its_own_namespace_and_of_the_core_kinds_pods_only() {
    let stage = Stage::up(arena(&rolling())).await;
    let pod = name_of(&stage.pods()[0]);
    let path = "metadata.annotations.a";
    let rows: [Row<'_>; 4] = [
        (
            "another namespace",
            object("get", path, "b"),
            vec![("PodName", &pod), ("PodNamespace", "kube-system")],
            "must be the namespace of the run",
        ),
        (
            "a secret",
            object("get", "data.token", "b"),
            vec![
                ("PodName", "s"),
                ("PodNamespace", "default"),
                ("Version", "v1"),
                ("Kind", "Secret"),
            ],
            "may look at Pods only",
        ),
        (
            "the spec of a pod",
            object("patch", "spec.nodeName", "b"),
            vec![("PodName", &pod), ("PodNamespace", "default")],
            "may set annotations and labels only",
        ),
        (
            "no pod at all",
            object("get", path, "b"),
            vec![("PodName", &pod)],
            "PodNamespace is missing",
        ),
    ];
    for (reason, metric, arguments, says) in rows {
        let status = measured(&stage, metric, &arguments).await;
        assert_eq!(status["phase"], "Error", "{reason}");
        assert!(status.to_string().contains(says), "{reason}: {status:#}");
    }
    let arguments = [
        ("PodName", ARENA),
        ("PodNamespace", "default"),
        ("Group", "tkex.tencent.com"),
        ("Version", "v1alpha1"),
        ("Kind", "GameDeployment"),
    ];
    let status = measured(&stage, object("get", "status.phase", "Healthy"), &arguments).await;
    assert_eq!(status["phase"], "Successful", "of other kinds what the role grants: {status:#}");
}

// === Before deletion ===

#[tokio::test(start_paused = true)]
async fn a_pod_goes_when_it_says_that_it_is_drained() {
    let stage = Stage::up(hooked(&rolling(), "preDeleteUpdateStrategy", "drained")).await;
    stage.scale(2);
    stage.world.advance_s(60).await;
    assert_eq!(stage.pods().len(), 3, "nobody goes before");
    let marked = stage.marked();
    assert_eq!(marked.len(), 1);
    assert!(waits_with(&stage, "preDeleteHookCondition", "Running"), "{:#}", stage.status());
    let [run] = &stage.runs()[..] else { panic!("one run") };
    assert!(name_of(run).starts_with("predelete-arena-"), "{}", name_of(run));
    assert_eq!(run["metadata"]["labels"], labels_for(&stage, &marked[0], "pre-delete-step"));
    assert!(run["status"]["metricResults"][0]["failed"].as_i64() > Some(5), "it waits: {run:#}");
    let given = run["spec"]["args"].as_array().unwrap();
    let names: Vec<_> = given.iter().filter_map(|it| it["name"].as_str()).collect();
    assert_eq!(names, ["PodName", "PodNamespace", "PodIP", "HostIP", "PodContainer[0]"]);

    stage.annotate(&marked[0], DRAINED, "yes");
    stage.until(30, "gone", Stage::is_settled).await;
    stage.world.advance_s(10).await;
    assert!(stage.world.get(PODS, &marked[0]).is_none());
    assert!(stage.runs().is_empty(), "and its run with it");
    assert!(stage.status()["preDeleteHookCondition"].as_array().is_none_or(Vec::is_empty));
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_hook_fails_or_does_not_know_stays_until_it_is_run_again() {
    let unclear = json!({
        "successCondition": "asInt(result) < 30", "failureCondition": "asInt(result) > 60",
        "provider": { "web": { "url": "http://1.1.1.1:9091", "jsonPath": "{$.age}" } },
    });
    for (age, phase) in [(90, "Failed"), (45, "Inconclusive")] {
        let stage = Stage::up(hooked(&rolling(), "preDeleteUpdateStrategy", "unclear")).await;
        stage.world.create(HOOK_TEMPLATES, template("unclear", unclear.clone()));
        stage.age(age);
        stage.scale(2);
        stage.world.advance_s(300).await;
        assert_eq!(stage.pods().len(), 3, "{phase}");
        assert!(waits_with(&stage, "preDeleteHookCondition", phase), "{:#}", stage.status());
        let blocked = stage.condition("HookBlocked").expect("somebody should know");
        assert!(blocked.contains(phase), "{blocked}");
        assert_eq!(stage.asked(), 1, "it is not asked again by itself");

        stage.age(20);
        stage.patch(json!({ "spec": { "preDeleteUpdateStrategy": { "retry": true } } }));
        stage.until(30, "gone", Stage::is_settled).await;
        assert_eq!(
            stage.get()["spec"]["preDeleteUpdateStrategy"]["retry"],
            false,
            "it is set back"
        );
        assert_eq!(stage.condition("HookBlocked"), None);
        assert_eq!(stage.asked(), 2);
    }
}

// Mistake 24 of docs/mistakes.md.
#[tokio::test(start_paused = true)]
async fn a_deletion_that_waits_is_called_off_and_a_new_operator_chooses_nobody_else() {
    let mut stage = Stage::up(hooked(&rolling(), "preDeleteUpdateStrategy", "drained")).await;
    let before: Vec<String> = stage.pods().iter().map(name_of).collect();
    stage.scale(1);
    stage.world.advance_s(20).await;
    let marked = stage.marked();
    assert_eq!(marked.len(), 2);
    let other = before.iter().find(|name| !marked.contains(name)).unwrap();
    stage.annotate(other, "controller.kubernetes.io/pod-deletion-cost", "-100");
    stage.world.start().await;
    stage.world.advance_s(60).await;
    assert_eq!(stage.marked(), marked, "a restart chooses nobody else");
    assert_eq!(stage.runs().len(), 2);
    stage.scale(3);
    stage.until(30, "settled", Stage::is_settled).await;
    stage.world.advance_s(60).await;
    assert_eq!(stage.pods().iter().map(name_of).collect::<Vec<_>>(), before);
    assert!(stage.marked().is_empty() && stage.runs().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_numbered_pod_is_asked_by_its_number() {
    let mut object = numbered("OrderedReady", &json!({ "type": "RollingUpdate" }));
    object["spec"]["preDeleteUpdateStrategy"] = json!({ "hook": { "templateName": "drained" } });
    let stage = Stage::up(object).await;
    stage.scale(2);
    stage.world.advance_s(20).await;
    assert_eq!(stage.marked(), ["arena-2"]);
    let [run] = &stage.runs()[..] else { panic!("one run") };
    let revision = stage.status()["updateRevision"].as_str().unwrap().to_owned();
    assert_eq!(name_of(run), format!("predelete-{revision}-2-drained"));
    assert_eq!(run["metadata"]["labels"], labels_for(&stage, "arena-2", "pre-delete-step"));
    stage.annotate("arena-2", DRAINED, "yes");
    stage.until(60, "two", Stage::is_settled).await;
    assert!(stage.runs().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_hook_of_a_pod_that_vanishes_goes_with_it() {
    let stage = Stage::up(hooked(&rolling(), "preDeleteUpdateStrategy", "drained")).await;
    stage.scale(2);
    stage.world.advance_s(20).await;
    let marked = stage.marked();
    let now = Deletion { grace_period_s: Some(0), ..Deletion::default() };
    stage.world.admin.delete(PODS, "default", &marked[0], &now).unwrap();
    stage.until(30, "settled", Stage::is_settled).await;
    stage.world.advance_s(60).await;
    assert_eq!(stage.pods().len(), 2, "nobody goes for it, and nobody comes");
    assert!(stage.runs().is_empty() && stage.marked().is_empty());
    assert!(stage.status()["preDeleteHookCondition"].as_array().is_none_or(Vec::is_empty));
}

// === Around an update in place ===

#[tokio::test(start_paused = true)]
async fn an_update_in_place_waits_for_the_hook_before_it_and_takes_its_mark_back() {
    let stage = Stage::up(hooked(&in_place(1), "preInplaceUpdateStrategy", "drained")).await;
    let uids = |stage: &Stage| -> Vec<Value> {
        stage.pods().iter().map(|pod| pod["metadata"]["uid"].clone()).collect()
    };
    let before = uids(&stage);
    stage.image("game:2");
    stage.world.advance_s(60).await;
    assert_eq!(stage.with_image("game:2"), 0);
    assert!(waits_with(&stage, "preInplaceHookCondition", "Running"), "{:#}", stage.status());
    let [run] = &stage.runs()[..] else { panic!("one pod at a time") };
    assert!(name_of(run).starts_with("preinplace-arena-"));
    let labels = labels_for(&stage, &stage.marked()[0], "pre-inplace-step");
    assert_eq!(run["metadata"]["labels"], labels, "what the pod is, not what it is to become");
    let given = run["spec"]["args"].as_array().unwrap();
    assert!(given.contains(&json!({ "name": "ModifiedContainer[0]", "value": "game" })), "{run:#}");
    for updated in 1..=3 {
        let marked = stage.marked();
        assert_eq!(marked.len(), 1, "one at a time, and no longer than it takes");
        stage.annotate(&marked[0], DRAINED, "yes");
        stage.until(60, "updated", |stage| stage.with_image("game:2") == updated).await;
        stage.world.advance_s(15).await;
    }
    stage.until(60, "settled", Stage::is_settled).await;
    assert_eq!(uids(&stage), before, "the pods stay");
    assert!(stage.marked().is_empty() && stage.runs().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_pod_stays_as_it_is_while_the_hook_before_its_update_fails() {
    let stage = Stage::up(hooked(&in_place(1), "preInplaceUpdateStrategy", "check")).await;
    stage.age(45);
    stage.image("game:2");
    stage.world.advance_s(300).await;
    assert_eq!(
        (stage.with_image("game:1"), stage.status()["readyReplicas"].as_i64()),
        (3, Some(3))
    );
    assert!(waits_with(&stage, "preInplaceHookCondition", "Failed"), "{:#}", stage.status());
    assert!(stage.condition("HookBlocked").is_some());
    stage.age(20);
    // Mistake 30: it is run again without a change of the spec.
    stage.ask("retry-hook");
    stage.until(120, "updated", Stage::is_settled).await;
    assert_eq!(stage.with_image("game:2"), 3);
    assert!(stage.get()["metadata"]["annotations"]["tidegate.dev/ask"].is_null());
    assert_eq!(stage.get()["metadata"]["generation"], 2, "nobody touched the spec");
}

// Mistake 28 of docs/mistakes.md.
#[tokio::test(start_paused = true)]
async fn the_hook_after_an_update_waits_for_the_pod_and_can_be_run_again() {
    let mut strategy = in_place(3);
    strategy["inPlaceUpdateStrategy"] = json!({ "gracePeriodSeconds": 20 });
    let stage = Stage::up(hooked(&strategy, "postInplaceUpdateStrategy", "check")).await;
    stage.age(45);
    stage.image("game:2-slow-start-10s");
    stage.world.advance_s(25).await;
    assert!(stage.runs().is_empty(), "neither within the grace period nor before they are ready");
    stage.until(60, "updated", Stage::is_settled).await;
    stage.world.advance_s(10).await;
    assert_eq!(stage.runs().len(), 3);
    assert!(stage.runs().iter().all(|run| run["status"]["phase"] == "Failed"));
    let updated = &stage.status()["updateRevision"];
    let is_new = |run: &Value| run["metadata"]["labels"]["workload-revision"] == *updated;
    assert!(stage.runs().iter().all(is_new));
    let entries = stage.status()["postInplaceHookCondition"].as_array().map(Vec::len);
    assert_eq!(entries, Some(3), "{:#}", stage.status());
    assert_eq!(stage.asked(), 3);
    stage.age(20);
    stage.patch(json!({ "spec": { "postInplaceUpdateStrategy": { "retry": true } } }));
    stage.until(60, "run again", |stage| stage.runs().is_empty()).await;
    stage.world.advance_s(10).await;
    assert!(stage.status()["postInplaceHookCondition"].as_array().is_none_or(Vec::is_empty));
    assert_eq!(
        (stage.get()["spec"]["postInplaceUpdateStrategy"]["retry"].as_bool(), stage.asked()),
        (Some(false), 6)
    );
}

// === What is left of runs ===

// Mistake 39 of docs/mistakes.md.
#[tokio::test(start_paused = true)]
async fn of_the_runs_of_a_workload_five_of_each_kind_are_kept() {
    let mut strategy = in_place(1);
    strategy["canary"] = json!({ "steps": [{ "partition": 2 }, { "pause": {} }] });
    let stage = Stage::up(arena(&strategy)).await;
    stage.image("game:2");
    let is_at = |step: i64| {
        move |stage: &Stage| {
            stage.status()["currentStepIndex"] == step
                && stage.get()["spec"]["updateStrategy"]["paused"] == true
        }
    };
    stage.until(60, "paused", is_at(1)).await;
    let count = |stage: &Stage, phase: &str| {
        stage.runs().iter().filter(|run| run["status"]["phase"] == phase).count()
    };
    // Another list of steps starts the steps anew.
    for (age, stops_at, most) in [(45, 0, (6, 0)), (20, 1, (5, 5))] {
        stage.age(age);
        for extra in 1..=8 {
            let mut steps = vec![json!({ "hook": { "templateName": "check" } })];
            steps.extend(vec![json!({ "pause": { "duration": 900 } }); extra]);
            stage.patch(json!({ "spec": { "updateStrategy": { "canary": { "steps": steps } } } }));
            stage.world.advance_s(5).await;
            stage.until(60, "past the hook", is_at(stops_at)).await;
        }
        let kept = (count(&stage, "Failed"), count(&stage, "Successful"));
        assert_eq!(kept, most, "five, and that of the step while it is the step");
    }
    assert_eq!(stage.asked(), 16);
    stage.image("game:1");
    stage.until(120, "back", Stage::is_settled).await;
    stage.world.advance_s(5).await;
    assert!(stage.runs().is_empty(), "runs of a release that was taken back go with it");
}

// Mistake 39 of docs/mistakes.md.
#[tokio::test(start_paused = true)]
async fn a_run_of_nobodys_goes_when_its_time_is_over() {
    let stage = Stage::up(arena(&rolling())).await;
    let mut short = run("short", web("true"), &[]);
    short["metadata"]["annotations"] = json!({ "tidegate.dev/ttl-seconds-after-finished": "90" });
    stage.world.create(HOOK_RUNS, short.clone());
    stage.world.create(HOOK_RUNS, run("long", web("true"), &[]));
    short["metadata"]["name"] = json!("owned");
    short["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "tkex.tencent.com/v1alpha1", "kind": "GameDeployment", "name": ARENA,
        "uid": stage.get()["metadata"]["uid"], "controller": true,
    }]);
    stage.world.create(HOOK_RUNS, short);
    stage.world.advance_s(85).await;
    assert_eq!(stage.runs().len(), 3);
    stage.world.advance_s(10).await;
    assert_eq!(stage.runs().iter().map(name_of).collect::<Vec<_>>(), ["long", "owned"]);
}

// === What the cluster refuses ===

#[tokio::test(start_paused = true)]
async fn pods_that_may_not_be_made_are_told_once_and_made_when_they_may() {
    let stage = Stage::up(arena(&rolling())).await;
    let rule = stage.forbid(&[Verb::Create], "", "pods");
    stage.scale(5);
    for _ in 0..20 {
        stage.world.advance_s(30).await;
    }
    assert_eq!(stage.told("FailedCreate").len(), 1, "{:?}", stage.told("FailedCreate"));
    assert!(stage.condition("FailedScale").is_some());
    let attempts = stage
        .world
        .sandbox
        .server()
        .log
        .matching(|it| it.verb == Verb::Create && it.concerns("", "pods") && it.code == 403);
    assert!(attempts.len() > 5, "it was tried again: {}", attempts.len());
    assert!(attempts.len() < 60, "and not all the time: {}", attempts.len());
    stage.allow(rule);
    stage.until(120, "five", Stage::is_settled).await;
    assert_eq!(stage.condition("FailedScale"), None);
}

#[tokio::test(start_paused = true)]
async fn pods_that_may_not_be_changed_are_told_once_each() {
    let stage = Stage::up(arena(&in_place(3))).await;
    let rule = stage.forbid(&[Verb::Patch], "", "pods");
    stage.image("game:2");
    for _ in 0..10 {
        stage.world.advance_s(60).await;
    }
    let told = stage.told("FailedUpdatePodInPlace");
    assert_eq!(told.len(), 3, "one for each pod: {told:?}");
    assert!(stage.condition("FailedUpdate").is_some());
    stage.allow(rule);
    stage.until(120, "updated", Stage::is_settled).await;
    assert_eq!(stage.condition("FailedUpdate"), None);
    assert_eq!(stage.with_image("game:2"), 3);
}

#[tokio::test(start_paused = true)]
async fn runs_that_may_not_be_made_are_told_once_and_hold_no_pod_up() {
    let stage = Stage::up(hooked(&rolling(), "preDeleteUpdateStrategy", "check")).await;
    let rule = stage.forbid(&[Verb::Create], "tkex.tencent.com", "hookruns");
    stage.scale(2);
    for _ in 0..10 {
        stage.world.advance_s(60).await;
    }
    assert_eq!(stage.told("FailedUpdate").len(), 1, "{:?}", stage.told("FailedUpdate"));
    assert_eq!(stage.pods().len(), 3);
    let victim = name_of(&stage.pods()[0]);
    let now = Deletion { grace_period_s: Some(0), ..Deletion::default() };
    stage.world.admin.delete(PODS, "default", &victim, &now).unwrap();
    stage.allow(rule);
    stage.until(120, "two", Stage::is_settled).await;
}

#[tokio::test(start_paused = true)]
async fn revisions_that_may_not_be_made_are_told_once() {
    let stage = Stage::up(arena(&rolling())).await;
    let rule = stage.forbid(&[Verb::Create], "apps", "controllerrevisions");
    stage.image("game:2");
    for _ in 0..10 {
        stage.world.advance_s(60).await;
    }
    let told = stage.told("Refused");
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(stage.status()["phase"], "Degraded");
    assert!(stage.status()["message"].as_str().unwrap_or_default().contains("was refused"));
    assert_eq!(stage.with_image("game:1"), 3);
    stage.allow(rule);
    stage.until(120, "updated", Stage::is_settled).await;
    assert_eq!(stage.status()["phase"], "Healthy");
}

// Mistake 38 of docs/mistakes.md.
#[tokio::test(start_paused = true)]
async fn a_hook_whose_answer_cannot_be_written_down_is_not_asked_again() {
    let stage = Stage::up(arena(&rolling())).await;
    let rule = stage.forbid(&[Verb::Patch], "tkex.tencent.com", "hookruns");
    stage.world.create(HOOK_RUNS, run("once", web("asInt(result) < 30"), &[]));
    for _ in 0..10 {
        stage.world.advance_s(60).await;
    }
    assert_eq!(stage.asked(), 1);
    assert_eq!(stage.told("FailedUpdate").len(), 1, "{:?}", stage.told("FailedUpdate"));
    stage.allow(rule);
    stage.world.advance_s(120).await;
    assert_eq!((&stage.run("once")["status"]["phase"], stage.asked()), (&json!("Successful"), 1));
}

// Mistake 38 of docs/mistakes.md.
#[tokio::test(start_paused = true)]
async fn a_run_that_changes_while_it_is_measured_is_not_measured_again() {
    let stage = Stage::up(arena(&rolling())).await;
    let (answer, hold) = Reply::Status(200, json!({ "age": 20 }).to_string()).held();
    stage.world.network.hook("1.1.1.1/", answer);
    stage.world.create(HOOK_RUNS, run("once", web("asInt(result) < 30"), &[]));
    stage.world.settle().await;
    let label = json!({ "metadata": { "labels": { "team": "arena" } } });
    stage.world.patch(HOOK_RUNS, "once", &label);
    stage.world.settle().await;
    hold.release();
    stage.world.advance_s(5).await;
    let run = stage.run("once");
    assert_eq!((&run["status"]["phase"], stage.asked()), (&json!("Successful"), 1), "{run:#}");
    assert_eq!(run["metadata"]["labels"]["team"], "arena");
}

#[tokio::test(start_paused = true)]
async fn no_hook_is_asked_before_nodes_are_known_or_known_to_be_out_of_sight() {
    for (code, reason, early) in [(503, "ServiceUnavailable", 0), (403, "Forbidden", 1)] {
        let mut stage = Stage::set(arena(&rolling()));
        let nodes = Matcher::any().user(OPERATOR).resource("", "nodes").verbs([Verb::List]);
        let trouble = Effect::FailBefore { code, reason };
        let rule = stage.world.sandbox.server().faults.add(nodes, When::Always, trouble);
        stage.world.create(HOOK_RUNS, run("once", web("asInt(result) < 30"), &[]));
        stage.world.start().await;
        stage.world.advance_s(60).await;
        assert_eq!(stage.asked(), early, "{reason}");
        stage.allow(rule);
        stage.until(600, "up", Stage::is_settled).await;
        assert_eq!(stage.asked(), 1, "{reason}");
    }
}
