//! Validation of game workloads, rule by rule.
//!
//! Rules that a definition can express are checked by the API server, which names the field. The others (an
//! annotation, a condition, the inside of a pod template) are checked by the controller, which reports them
//! in status and events, and does nothing by halves.

use std::{fs, path::PathBuf};

use kube_sandbox::cluster::{Cluster as _, Resource};
use serde_json::{Value, json};
use tidegate_tests::rollout::World;

use crate::rig::{
    ARENA, GAME_DEPLOYMENTS, GAME_STATEFUL_SETS, HOOK_RUNS, HOOK_TEMPLATES, Stage, arena, numbered,
    run, template, web,
};

fn rolling() -> Value {
    json!({ "type": "RollingUpdate", "maxUnavailable": 1 })
}

fn kind_of(object: &Value) -> Resource {
    match object["kind"].as_str().unwrap_or_default() {
        "GameDeployment" => GAME_DEPLOYMENTS,
        "GameStatefulSet" => GAME_STATEFUL_SETS,
        "HookTemplate" => HOOK_TEMPLATES,
        "HookRun" => HOOK_RUNS,
        other => panic!("{other} is no game"),
    }
}

/// JSON merge patch.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(members) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (name, value) in members {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(name);
        } else {
            merge(&mut target[name], value);
        }
    }
}

fn with(mut object: Value, patch: &Value) -> Value {
    merge(&mut object, patch);
    object
}

fn strategy(members: &Value) -> Value {
    json!({ "spec": { "updateStrategy": members } })
}

fn steps(steps: &Value) -> Value {
    strategy(&json!({ "canary": { "steps": steps } }))
}

/// The API server's refusal of a new object; nothing if it accepts it.
fn refusal(object: &Value) -> Option<String> {
    let world = World::of_games();
    let made = world.admin.create(kind_of(object), "default", object.clone());
    made.err().map(|failure| failure.message)
}

/// Its refusal of a change.
fn refused_change(object: &Value, patch: &Value) -> Option<String> {
    let world = World::of_games();
    let kind = kind_of(object);
    world.create(kind, object.clone());
    let name = object["metadata"]["name"].as_str().unwrap();
    world.admin.patch(kind, "default", name, "", patch).err().map(|failure| failure.message)
}

#[track_caller]
fn takes(object: &Value) {
    assert_eq!(refusal(object), None);
}

#[track_caller]
fn refuses(object: &Value, field: &str) {
    let said = refusal(object).unwrap_or_else(|| panic!("{field} is taken: {object:#}"));
    assert!(said.contains(field), "{field} is not named: {said}");
}

#[track_caller]
fn takes_change(object: &Value, patch: &Value) {
    assert_eq!(refused_change(object, patch), None);
}

#[track_caller]
fn refuses_change(object: &Value, patch: &Value, field: &str) {
    let said = refused_change(object, patch).unwrap_or_else(|| panic!("{field} may be changed"));
    assert!(said.contains(field), "{field} is not named: {said}");
}

/// Both kinds of workload.
fn both() -> [Value; 2] {
    let set = json!({ "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": 1 } });
    [arena(&rolling()), numbered("Parallel", &set)]
}

#[test]
fn a_selector_matches_its_template_and_stays() {
    for object in both() {
        takes(&object);
        takes(&with(
            object.clone(),
            &json!({ "spec": { "selector": {
            "matchExpressions": [{ "key": "app", "operator": "In", "values": [ARENA, "b"] }],
        } } }),
        ));
        let other = json!({ "spec": { "selector": { "matchLabels": { "app": "other" } } } });
        refuses(&with(object.clone(), &other), "spec.selector.matchLabels");
        let empty = json!({ "spec": { "selector": { "matchLabels": null } } });
        refuses(&with(object.clone(), &empty), "spec.selector");
        let more = json!({ "spec": {
            "selector": { "matchLabels": { "tier": "game" } },
            "template": { "metadata": { "labels": { "tier": "game" } } },
        } });
        refuses_change(&object, &more, "spec.selector");
    }
}

#[test]
fn a_step_is_one_thing() {
    for object in both() {
        let hook = json!({ "hook": { "templateName": "check" } });
        let good =
            json!([{ "partition": 1 }, { "pause": {} }, { "pause": { "duration": 0 } }, hook]);
        takes(&with(object.clone(), &steps(&good)));
        refuses(&with(object.clone(), &steps(&json!([{}]))), "canary.steps[0]");
        let two = json!([{ "partition": 1, "pause": {} }]);
        refuses(&with(object.clone(), &steps(&two)), "canary.steps[0]");
        let many = json!(vec![json!({ "pause": {} }); 101]);
        refuses(&with(object, &steps(&many)), "canary.steps");
    }
}

#[test]
fn shares_and_durations_are_within_bounds() {
    for object in both() {
        for share in [json!(0), json!(7), json!("0%"), json!("100%")] {
            takes(&with(object.clone(), &steps(&json!([{ "partition": share }]))));
        }
        for share in [json!(-1), json!("101%"), json!("-1%"), json!("half")] {
            let object = with(object.clone(), &steps(&json!([{ "partition": share }])));
            refuses(&object, "canary.steps[0].partition");
        }
        let negative = json!([{ "pause": { "duration": -1 } }]);
        refuses(&with(object, &steps(&negative)), "pause.duration");
    }
}

#[test]
fn a_hook_has_a_template() {
    for object in both() {
        let hook = |name: &str| steps(&json!([{ "hook": { "templateName": name } }]));
        takes(&with(object.clone(), &hook("nobody")));
        refuses(&with(object.clone(), &hook("")), "hook.templateName");
        let pod =
            json!({ "spec": { "preDeleteUpdateStrategy": { "hook": { "templateName": "" } } } });
        refuses(&with(object, &pod), "preDeleteUpdateStrategy.hook.templateName");
    }
}

#[tokio::test(start_paused = true)]
async fn steps_that_may_not_be_meant_so_are_told_where_a_release_begins() {
    let doubtful = json!([
        { "partition": 9 }, { "partition": 1 }, { "partition": 2 },
        { "hook": { "templateName": "missing" } },
    ]);
    let stage = Stage::up(with(arena(&rolling()), &steps(&doubtful))).await;
    stage.image("game:2");
    stage.world.advance_s(5).await;
    let told = stage.told("StepDoubtful");
    for wanted in [
        "Step 0 keeps 9 pods as they are",
        "Step 2 keeps 2 pods as they are, step 1 only 1",
        "Step 3 is invalid: there is no hook template missing",
    ] {
        assert!(told.iter().any(|text| text.contains(wanted)), "{wanted}: {told:?}");
    }

    let plain = Stage::up(with(arena(&rolling()), &steps(&json!([{ "partition": 1 }])))).await;
    plain.image("game:2");
    plain.world.advance_s(5).await;
    assert_eq!(plain.told("StepDoubtful"), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn what_is_wrong_with_templates_is_told_where_a_release_begins() {
    let bad = |metric: Value| template("bad", metric);
    let url = "http://1.1.1.1:9091";
    let web = |url: &str, path: &str, condition: &str| {
        json!({
            "successCondition": condition,
            "provider": { "web": { "url": url, "jsonPath": path } },
        })
    };
    let rows = [
        (web(url, "{$.age}", "result < 30"), "metric bad: successCondition: a string and an"),
        (web(url, "{$.age", "true"), "metric bad: jsonPath: "),
        (web("http://{{ args.room }}", "{$.age}", "true"), "{{ args.room }} is not declared"),
        (web("nowhere", "{$.age}", "true"), "the address is not a valid URL"),
        (web("http://{{ args.PodIP }}:80", "{$.age}", "asInt(result) < 30"), ""),
    ];
    for (metric, says) in rows {
        let hooks = json!({ "spec": {
            "preDeleteUpdateStrategy": { "hook": { "templateName": "bad" } },
            "postInplaceUpdateStrategy": { "hook": { "templateName": "missing" } },
        } });
        let mut stage = Stage::set(with(arena(&rolling()), &hooks));
        stage.world.create(HOOK_TEMPLATES, bad(metric));
        stage.world.start().await;
        stage.until(300, "up", Stage::is_settled).await;
        let told = stage.told("SpecDoubtful");
        let missing = "The postinplace hook is invalid: there is no hook template missing";
        assert!(told.iter().any(|text| text.contains(missing)), "{told:?}");
        let about = told.iter().filter(|text| text.contains("of hook template bad")).count();
        assert_eq!(about, usize::from(!says.is_empty()), "{says}: {told:?}");
        assert!(told.iter().any(|text| text.contains(says)), "{says}: {told:?}");
    }
}

#[test]
fn a_workload_may_miss_or_have_at_least_one_pod() {
    let pace = |unavailable: Value, surge: Value| {
        strategy(&json!({ "maxUnavailable": unavailable, "maxSurge": surge }))
    };
    let one = arena(&rolling());
    for (unavailable, surge) in
        [(json!(0), json!(1)), (json!("0%"), json!("10%")), (json!("100%"), json!(0))]
    {
        takes(&with(one.clone(), &pace(unavailable, surge)));
    }
    for (unavailable, surge) in [
        (json!(0), json!(0)),
        (json!("0%"), json!("0%")),
        (json!(0), Value::Null),
        (json!(-1), json!(1)),
        (json!("101%"), json!(0)),
    ] {
        refuses(&with(one.clone(), &pace(unavailable, surge)), "maxUnavailable");
    }
    refuses(&with(one, &pace(json!(1), json!("101%"))), "maxSurge");
    let set = |value: Value| {
        let rolling = json!({ "rollingUpdate": { "maxUnavailable": value } });
        with(both()[1].clone(), &strategy(&rolling))
    };
    takes(&set(json!("1%")));
    for value in [json!(0), json!("0%")] {
        refuses(&set(value), "rollingUpdate.maxUnavailable");
    }
}

#[test]
fn what_cannot_be_changed_in_place_is_refused_as_far_as_the_definition_sees_it() {
    let containers =
        |list: Value| json!({ "spec": { "template": { "spec": { "containers": list } } } });
    let two = json!([{ "name": "game", "image": "game:1" }, { "name": "b", "image": "b" }]);
    for replaced in both() {
        for kind in ["InplaceUpdate", "HotPatchUpdate"] {
            let object = with(replaced.clone(), &strategy(&json!({ "type": kind })));
            takes_change(&object, &containers(json!([{ "name": "game", "image": "game:2" }])));
            refuses_change(&object, &containers(two.clone()), "template.spec.containers");
        }
        takes_change(&replaced, &containers(two.clone()));
    }
}

#[test]
fn numbers_are_not_negative() {
    for object in both() {
        for (member, least) in
            [("replicas", 0), ("revisionHistoryLimit", 0), ("minReadySeconds", 0)]
        {
            takes(&with(object.clone(), &json!({ "spec": { member: least } })));
            let object = with(object.clone(), &json!({ "spec": { member: least - 1 } }));
            refuses(&object, &format!("spec.{member}"));
        }
        takes(&with(object.clone(), &json!({ "spec": { "minReadySeconds": 86_400 } })));
        let day = json!({ "spec": { "minReadySeconds": 86_401 } });
        refuses(&with(object.clone(), &day), "spec.minReadySeconds");
        let grace = strategy(&json!({ "inPlaceUpdateStrategy": { "gracePeriodSeconds": -1 } }));
        refuses(&with(object, &grace), "gracePeriodSeconds");
    }
}

#[test]
fn a_name_leaves_room_for_that_of_a_revision() {
    for object in both() {
        let named = |length: usize| {
            with(object.clone(), &json!({ "metadata": { "name": "a".repeat(length) } }))
        };
        takes(&named(52));
        refuses(&named(53), "name");
    }
}

#[test]
fn what_pods_of_a_set_are_known_by_stays() {
    let set = both()[1].clone();
    takes_change(&set, &json!({ "spec": { "replicas": 5 } }));
    let claim =
        json!([{ "metadata": { "name": "world" }, "spec": { "accessModes": ["ReadWriteOnce"] } }]);
    for (member, value) in [
        ("serviceName", json!("other")),
        ("podManagementPolicy", json!("OrderedReady")),
        ("volumeClaimTemplates", claim.clone()),
    ] {
        refuses_change(&set, &json!({ "spec": { member: value } }), member);
    }
    let with_claim = with(set, &json!({ "spec": { "volumeClaimTemplates": claim } }));
    refuses_change(
        &with_claim,
        &json!({ "spec": { "volumeClaimTemplates": [] } }),
        "volumeClaimTemplates",
    );
}

fn indexed(range: &str) -> Value {
    let prefix = "tkex.bkbcs.tencent.com/gamedeployment-index";
    with(
        arena(&rolling()),
        &json!({ "metadata": { "annotations": {
        format!("{prefix}-on"): "true", format!("{prefix}-range"): range,
    } } }),
    )
}

#[tokio::test(start_paused = true)]
async fn numbers_of_pods_are_given_out_or_nothing_is_made() {
    let stage = Stage::up(indexed(r#"{"podStartIndex":7,"podEndIndex":12}"#)).await;
    let index = "tkex.bkbcs.tencent.com/gamedeployment-index-id";
    let mut numbers: Vec<String> = stage
        .pods()
        .iter()
        .map(|pod| pod["metadata"]["annotations"][index].as_str().unwrap_or_default().to_owned())
        .collect();
    numbers.sort();
    assert_eq!(numbers, ["7", "8", "9"]);

    for (range, says) in [
        ("7 to 9", "gamedeployment-index-range must be like"),
        (r#"{"podStartIndex":9,"podEndIndex":7}"#, "gamedeployment-index-range must be like"),
    ] {
        let mut stage = Stage::set(indexed(range));
        stage.world.start().await;
        stage.world.advance_s(120).await;
        assert!(stage.pods().is_empty());
        assert_eq!(stage.status()["phase"], "Degraded");
        let message = stage.condition("FailedScale").unwrap_or_default();
        assert!(message.contains(says), "{message}");
        assert_eq!(stage.told("FailedScale").len(), 1, "{:?}", stage.world.events());
        let range = r#"{"podStartIndex":7,"podEndIndex":12}"#;
        stage.patch(json!({ "metadata": { "annotations": {
            "tkex.bkbcs.tencent.com/gamedeployment-index-range": range,
        } } }));
        stage.until(120, "up", Stage::is_settled).await;
        assert_eq!(stage.condition("FailedScale"), None);
    }
    let mut stage = Stage::set(indexed(r#"{"podStartIndex":0,"podEndIndex":2}"#));
    stage.world.start().await;
    stage.world.advance_s(120).await;
    assert!(stage.pods().is_empty(), "two numbers are too few for three pods");
    assert!(stage.condition("FailedScale").is_some(), "{:#}", stage.status());
}

#[test]
fn what_a_metric_measures_and_how_often_can_be_done() {
    let bad: [(Value, &str); 8] = [
        (json!({ "count": 2 }), "interval"),
        (json!({ "count": 1, "failureLimit": 2 }), "failureLimit"),
        (json!({ "count": 1, "successfulLimit": 2 }), "successfulLimit"),
        (json!({ "interval": "soon" }), "interval"),
        (json!({ "initialDelay": "1 minute" }), "initialDelay"),
        (json!({ "consecutiveSuccessfulLimit": 0 }), "consecutiveSuccessfulLimit"),
        (json!({ "consecutiveErrorLimit": -1 }), "consecutiveErrorLimit"),
        (json!({ "provider": { "prometheus": { "address": "a", "query": "b" } } }), "provider"),
    ];
    takes(&template(
        "a",
        with(web("asInt(result) < 30"), &json!({ "count": 2, "interval": "1m30s" })),
    ));
    takes(&run("a", web("asInt(result) < 30"), &[]));
    for (patch, field) in bad {
        refuses(&template("a", with(web("true"), &patch)), field);
        refuses(&run("a", with(web("true"), &patch), &[]), field);
    }
    let twice = json!([
        with(web("true"), &json!({ "name": "a" })),
        with(web("true"), &json!({ "name": "a" }))
    ]);
    refuses(
        &with(template("a", web("true")), &json!({ "spec": { "metrics": twice } })),
        "spec.metrics",
    );
    refuses(
        &with(template("a", web("true")), &json!({ "spec": { "metrics": [] } })),
        "spec.metrics",
    );
}

#[tokio::test(start_paused = true)]
async fn what_a_definition_does_not_see_ends_a_run_before_anything_is_asked() {
    let stage = Stage::up(arena(&rolling())).await;
    let url = |url: &str| json!({ "provider": { "web": { "url": url } } });
    let prometheus = |condition: &str| {
        json!({
            "successCondition": condition,
            "provider": { "prometheus": { "address": "http://prometheus:9090", "query": "up" } },
        })
    };
    let bad: [(&str, Value, &str); 7] = [
        ("type", web("result < 30"), "a string and an integer do not go together"),
        ("half", web("asInt(result) <"), "the condition ends too early"),
        ("failure", with(web("true"), &json!({ "failureCondition": "oops" })), "failureCondition"),
        (
            "path",
            with(web("true"), &json!({ "provider": { "web": { "jsonPath": "{.a[}" } } })),
            "jsonPath",
        ),
        ("tag", with(web("true"), &url("http://1.1.1.1/{{ args.room }}")), "failed to resolve"),
        ("open", with(web("true"), &url("http://1.1.1.1/{{ args.room")), "is not closed"),
        ("vector", prometheus("result == 'a'"), "do not go together"),
    ];
    // A wait would never end.
    let waits = json!({ "interval": "5s", "successfulLimit": 1 });
    for (name, metric, _) in &bad {
        stage.world.create(HOOK_RUNS, run(name, with(metric.clone(), &waits), &[]));
    }
    stage.world.create(HOOK_RUNS, run("good", web("asInt(result) < 30"), &[]));
    for condition in ["result > 0.5", "len(result) == 0"] {
        let name = if condition.starts_with("len") { "list" } else { "scalar" };
        stage.world.create(HOOK_RUNS, run(name, prometheus(condition), &[]));
    }
    stage.world.advance_s(2).await;
    for (name, _, says) in bad {
        let status = stage.run(name)["status"].clone();
        assert_eq!(status["phase"], "Error", "{name}: {status:#}");
        let message = status["message"].as_str().unwrap_or_default();
        assert!(message.contains(says) && message.contains(name), "{name}: {message}");
        assert!(status["metricResults"].is_null() && status["completedAt"].is_string());
    }
    assert_eq!((stage.asked(), &stage.run("good")["status"]["phase"]), (1, &json!("Successful")));
    assert_eq!(stage.run("list")["status"]["phase"], "Successful", "{:#}", stage.run("list"));
    let scalar = &stage.run("scalar")["status"]["metricResults"][0];
    assert_eq!(scalar["error"], 1, "which of the two it is, only the answer tells");
}

#[tokio::test(start_paused = true)]
async fn a_broken_template_pauses_a_release_and_updates_nobody_further() {
    let hook = json!([{ "partition": 2 }, { "hook": { "templateName": "broken" } }]);
    let stage = Stage::up(with(arena(&rolling()), &steps(&hook))).await;
    stage.world.create(HOOK_TEMPLATES, template("broken", web("asint(result) < 30")));
    stage.image("game:2");
    stage
        .until(120, "paused", |stage| {
            stage.status()["pauseConditions"][0]["reason"] == "PausedByStepBasedHook"
        })
        .await;
    stage.world.advance_s(300).await;
    assert_eq!((stage.with_image("game:2"), stage.asked()), (1, 0));
    assert_eq!(stage.runs()[0]["status"]["phase"], "Error");
}

#[tokio::test(start_paused = true)]
async fn a_metric_that_never_ends_is_told_as_its_run_begins() {
    let stage = Stage::up(arena(&rolling())).await;
    stage.age(20);
    let mut endless = web("asInt(result) < 30");
    endless["interval"] = json!("60s");
    let mut enough = endless.clone();
    enough["successfulLimit"] = json!(1);
    stage.world.create(HOOK_RUNS, run("endless", endless, &[]));
    stage.world.create(HOOK_RUNS, run("enough", enough, &[]));
    stage.world.advance_s(200).await;
    let told = stage.told("MetricDoubtful");
    assert_eq!(told.len(), 1, "once, and of the one only: {told:?}");
    assert!(told[0].contains("measured until it fails"), "{told:?}");
}

#[test]
fn a_run_stays_what_it_is_and_may_only_be_ended() {
    let object = run("a", web("true"), &[("room", "7")]);
    takes_change(&object, &json!({ "spec": { "terminate": true } }));
    takes_change(&object, &json!({ "metadata": { "labels": { "team": "a" } } }));
    let other = run("a", web("false"), &[]);
    let rows = [
        (json!({ "metrics": other["spec"]["metrics"] }), "spec.metrics"),
        (json!({ "args": [{ "name": "room", "value": "8" }] }), "spec.args"),
        (json!({ "policy": "Ordered" }), "spec.policy"),
    ];
    for (spec, field) in rows {
        refuses_change(&object, &json!({ "spec": spec }), field);
    }
    let ended = with(object, &json!({ "spec": { "terminate": true } }));
    refuses_change(&ended, &json!({ "spec": { "terminate": false } }), "spec.terminate");
}

#[test]
fn defaults_that_are_stored_are_those_and_no_others() {
    let world = World::of_games();
    let mut one = arena(&json!({}));
    one["spec"].as_object_mut().unwrap().remove("replicas");
    for member in ["preDelete", "preInplace", "postInplace"] {
        let hook =
            json!({ "hook": { "templateName": "a", "args": [{ "name": "b", "value": "c" }] } });
        one["spec"][format!("{member}UpdateStrategy")] = hook;
    }
    let mut set = one.clone();
    (set["kind"], set["spec"]["serviceName"]) = (json!("GameStatefulSet"), json!(ARENA));
    for (object, more) in
        [(one, json!({})), (set, json!({ "podManagementPolicy": "OrderedReady" }))]
    {
        let mut want = object["spec"].clone();
        merge(&mut want, &more);
        merge(
            &mut want,
            &json!({
                "replicas": 1, "updateStrategy": { "type": "RollingUpdate", "paused": false },
                "preDeleteUpdateStrategy": { "retry": false },
                "preInplaceUpdateStrategy": { "retry": false },
                "postInplaceUpdateStrategy": { "retry": false },
            }),
        );
        assert_eq!(world.create(kind_of(&object), object)["spec"], want);
    }
    for object in [template("a", web("true")), run("a", web("true"), &[])] {
        let want = object["spec"].clone();
        assert_eq!(world.create(kind_of(&object), object)["spec"], want);
    }
}

/// The published manifests of game kinds.
fn published() -> Vec<Value> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../testdata/manifests");
    let files = ["seeds.yaml", "gamedeployments.yaml", "gamestatefulsets.yaml", "hooks.yaml"];
    let mut all: Vec<Value> = Vec::new();
    for file in files {
        let text = fs::read_to_string(folder.join(file)).unwrap();
        all.extend(serde_saphyr::from_multiple::<Value>(&text).unwrap());
    }
    all.retain(|object| object["apiVersion"] == "tkex.tencent.com/v1alpha1");
    all
}

async fn strictly(world: &World, object: &Value) -> Result<Value, kube::Error> {
    let client = kube::Client::new(world.sandbox.service(), "default");
    let plural = kind_of(object).plural;
    let group = "/apis/tkex.tencent.com/v1alpha1/namespaces/default";
    let request = http::Request::post(format!("{group}/{plural}?fieldValidation=Strict"))
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(object.to_string().into_bytes())
        .unwrap();
    client.request(request).await
}

/// `whole` contains every member of `part`.
fn says_all(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            part.iter().all(|(name, value)| whole.get(name).is_some_and(|it| says_all(it, value)))
        }
        _ => whole == part,
    }
}

#[tokio::test(start_paused = true)]
async fn published_manifests_are_taken_as_they_are_and_strangers_are_not() {
    let world = World::of_games();
    let manifests = published();
    assert!(manifests.len() >= 12, "only {}", manifests.len());
    for object in &manifests {
        let name = format!("{} {}", object["kind"], object["metadata"]["name"]);
        let stored = strictly(&world, object).await;
        let stored = stored.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(says_all(&stored["spec"], &object["spec"]), "{name}: {stored:#}");
    }
    let stranger = with(arena(&rolling()), &json!({ "spec": { "replicaCount": 3 } }));
    let said = strictly(&world, &stranger).await.unwrap_err().to_string();
    assert!(said.contains("replicaCount"), "{said}");
}
