//! Faults of single requests.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use kube_sandbox::{
    Sandbox, Settings,
    faults::{Effect, Matcher, When},
    request::Verb,
    server::User,
};
use serde_json::{Value, json};
use tidegate_tests::wire::{Broken, Wire, config_map, contents, deployment, revision};

use super::{MAPS, at, sandbox};

fn maps() -> Matcher {
    Matcher::any().resource("", "configmaps")
}

#[test]
fn nothing_goes_wrong_unless_it_is_asked_to() {
    let (sandbox, wire) = sandbox();
    for index in 0..50 {
        wire.post(MAPS, &config_map(&format!("m{index}"), "1")).ok();
        wire.get(&at(&format!("m{index}"))).ok();
    }
    assert_eq!(sandbox.server().faults.injected().total(), 0);
    assert_eq!(sandbox.server().faults.injected().to_string(), "nothing");
}

#[test]
fn a_request_that_fails_beforehand_leaves_no_trace() {
    let fail = |code, reason| Effect::FailBefore { code, reason };
    let busy = |retry_after_s| Effect::TooManyRequests { retry_after_s };
    let broken = |code| Effect::ServerError { code };
    let cases = [
        ("any failure", fail(403, "Forbidden"), 403, "Forbidden", None),
        ("someone else wrote first", Effect::Conflict, 409, "Conflict", None),
        ("busy, come back then", busy(Some(7)), 429, "TooManyRequests", Some("7")),
        ("busy, no word on when", busy(None), 429, "TooManyRequests", None),
        ("internal error", broken(500), 500, "InternalError", None),
        ("bad gateway", broken(502), 502, "", None),
        ("unavailable", broken(503), 503, "ServiceUnavailable", None),
        ("timeout at once", broken(504), 504, "Timeout", None),
    ];
    for (why, effect, code, reason, retry_after) in cases {
        let (sandbox, wire) = sandbox();
        wire.post(MAPS, &config_map("kept", "1")).ok();
        let before = contents(&sandbox);
        sandbox.server().faults.add(maps(), When::First(3), effect);
        let replies = [
            wire.post(MAPS, &config_map("new", "1")),
            wire.merge(&at("kept"), &json!({ "data": { "value": "2" } })),
            wire.delete(&at("kept"), &Value::Null),
        ];
        for reply in replies {
            assert_eq!((reply.code, reply.reason()), (code, reason), "{why}");
            assert_eq!(reply.header("retry-after"), retry_after, "{why}");
            assert_eq!(reply.body["kind"], "Status", "{why}");
            assert_eq!(reply.body["status"], "Failure", "{why}");
        }
        assert_eq!(contents(&sandbox), before, "{why}");
        assert_eq!(wire.post(MAPS, &config_map("new", "1")).code, 201, "{why}: it is over");
        assert_eq!(sandbox.server().faults.injected().total(), 3, "{why}");
    }
}

#[tokio::test]
async fn kube_tells_the_failures_apart() {
    let (sandbox, _) = sandbox();
    let api: Api<ConfigMap> = Api::default_namespaced(Client::new(sandbox.service(), "default"));
    let faults = &sandbox.server().faults;
    let fresh = |name: &str| serde_json::from_value::<ConfigMap>(config_map(name, "1")).unwrap();
    let cases = [
        (Effect::Conflict, 409),
        (Effect::TooManyRequests { retry_after_s: Some(1) }, 429),
        (Effect::ServerError { code: 503 }, 503),
        (Effect::FailBefore { code: 410, reason: "Expired" }, 410),
    ];
    for (effect, code) in cases {
        let rule = faults.add(maps(), When::Always, effect);
        let failed = api.create(&PostParams::default(), &fresh("a")).await.unwrap_err();
        let kube::Error::Api(status) = failed else { panic!("{failed}") };
        assert_eq!(status.code, code);
        faults.remove(rule);
    }
    assert!(api.get_opt("a").await.unwrap().is_none());
    api.create(&PostParams::default(), &fresh("a")).await.unwrap();
}

#[tokio::test]
async fn a_lost_answer_looks_like_a_broken_connection_and_the_write_is_there() {
    let (sandbox, wire) = sandbox();
    let client = Client::new(sandbox.service(), "default");
    let api: Api<ConfigMap> = Api::default_namespaced(client);
    sandbox.server().faults.add(maps().verbs([Verb::Patch]), When::nth([1]), Effect::LoseAnswer);
    wire.post(MAPS, &config_map("a", "1")).ok();
    let patch = Patch::Merge(json!({ "data": { "value": "2" } }));
    let lost = api.patch("a", &PatchParams::default(), &patch).await.unwrap_err();
    assert!(matches!(lost, kube::Error::Service(_)), "{lost:?}");
    let data = api.get("a").await.unwrap().data.unwrap();
    assert_eq!(data["value"], "2");
    api.patch("a", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(sandbox.server().faults.injected().of("lose-answer"), 1);
}

#[test]
fn a_lost_answer_to_a_create_is_found_by_the_second_attempt() {
    let (sandbox, wire) = sandbox();
    sandbox.server().faults.add(Matcher::writes(), When::First(1), Effect::LoseAnswer);
    let sent = wire.try_send("POST", MAPS, "application/json", &config_map("a", "1"));
    assert_eq!(sent.unwrap_err(), Broken);
    let again = wire.post(MAPS, &config_map("a", "1"));
    assert_eq!((again.code, again.reason()), (409, "AlreadyExists"));
}

#[test]
fn delays_and_timeouts_pass_on_the_virtual_clock() {
    let minute = Duration::from_mins(1);
    let cases = [
        ("late but well", Effect::Delay { by: minute }, 201, true),
        ("timed out", Effect::Timeout { after: minute }, 504, false),
    ];
    for (why, effect, code, lands) in cases {
        let (sandbox, wire) = sandbox();
        sandbox.server().faults.add(maps(), When::First(1), effect);
        let body = config_map("a", "1");
        let mut pending = wire.start("POST", MAPS, "application/json", &body);
        assert!(pending.poll().is_none(), "{why}: at once");
        assert_eq!(wire.get(&at("a")).code, 404, "{why}: applied before its time");
        sandbox.advance(Duration::from_secs(59));
        assert!(pending.poll().is_none(), "{why}: too early");
        sandbox.advance(Duration::from_secs(1));
        assert_eq!(pending.poll().unwrap().unwrap().code, code, "{why}");
        assert_eq!(wire.get(&at("a")).is_success(), lands, "{why}");
    }
}

#[test]
fn delays_add_up_and_a_failure_waits_for_them() {
    let (sandbox, wire) = sandbox();
    let faults = &sandbox.server().faults;
    for seconds in [2, 3] {
        let by = Duration::from_secs(seconds);
        faults.add(maps(), When::Always, Effect::Delay { by });
    }
    faults.add(maps(), When::Always, Effect::Conflict);
    let mut pending = wire.start("GET", &at("a"), "", &Value::Null);
    assert!(pending.poll().is_none());
    sandbox.advance(Duration::from_secs(4));
    assert!(pending.poll().is_none());
    sandbox.advance(Duration::from_secs(1));
    assert_eq!(pending.poll().unwrap().unwrap().code, 409);
}

/// The failing ones of 200 reads, for a share of failures.
fn hits(seed: u64, share: f64) -> Vec<usize> {
    let sandbox = Sandbox::new(Settings::for_tests().seed(seed));
    let wire = Wire::new(&sandbox);
    wire.post(MAPS, &config_map("a", "1")).ok();
    let faults = &sandbox.server().faults;
    faults.add(maps(), When::Share(share), Effect::ServerError { code: 500 });
    (0..200).filter(|_| !wire.get(&at("a")).is_success()).collect()
}

#[test]
fn a_share_of_requests_is_hit_the_same_ones_for_the_same_seed() {
    let few = hits(7, 0.25);
    assert!((25..=75).contains(&few.len()), "{}", few.len());
    assert_eq!(hits(7, 0.25), few);
    assert_ne!(hits(8, 0.25), few);
    assert!(hits(7, 0.0).is_empty());
    assert_eq!(hits(7, 1.0).len(), 200);
}

#[test]
fn a_rule_hits_those_it_is_about_and_no_others() {
    let (sandbox, wire) = sandbox();
    wire.post(MAPS, &config_map("a", "1")).ok();
    wire.post(MAPS, &config_map("b", "1")).ok();
    let jane = Wire::in_the_name_of(&sandbox, "jane");
    let cases = [
        ("the name", maps().name("a"), [true, false, true, false]),
        ("the user", maps().user("jane"), [false, false, true, false]),
        ("the verb", maps().verbs([Verb::List]), [false, false, false, true]),
        ("the namespace", maps().namespace("other"), [false; 4]),
        ("the subresource", maps().subresource("status"), [false; 4]),
        ("the group", Matcher::any().resource("apps", "configmaps"), [false; 4]),
        ("all", Matcher::any(), [true; 4]),
    ];
    for (reason, matcher, want) in cases {
        let faults = &sandbox.server().faults;
        let rule = faults.add(matcher, When::Always, Effect::Conflict);
        let met = [wire.get(&at("a")), wire.get(&at("b")), jane.get(&at("a")), wire.get(MAPS)];
        assert_eq!(met.map(|reply| !reply.is_success()), want, "{reason}");
        faults.remove(rule);
    }
}

#[test]
fn a_stale_read_shows_the_past_and_a_write_based_on_it_loses() {
    let (sandbox, wire) = sandbox();
    let old = wire.post(MAPS, &config_map("a", "1")).ok();
    wire.post(MAPS, &config_map("b", "1")).ok();
    wire.merge(&at("a"), &json!({ "data": { "value": "2" } })).ok();
    let resource_version = revision(&old);
    let faults = &sandbox.server().faults;
    let rule = faults.add(maps(), When::Always, Effect::StaleRead { resource_version });
    assert_eq!(wire.get(&at("a")).ok(), old);
    assert_eq!(wire.get(&at("b")).code, 404, "not yet made");
    let list = wire.get(MAPS).ok();
    assert_eq!(revision(&list), resource_version);
    let items: Vec<_> = list["items"].as_array().unwrap().iter().map(|o| &o["metadata"]).collect();
    assert_eq!(items, [&old["metadata"]]);
    let refused = wire.put(&at("a"), &old);
    assert_eq!((refused.code, refused.reason()), (409, "Conflict"));
    let written = wire.merge(&at("a"), &json!({ "data": { "value": "3" } })).ok();
    assert_eq!(written["data"]["value"], "3", "a write answers with the present");
    faults.remove(rule);
    assert_eq!(wire.get(&at("a")).ok(), written);
    assert_eq!(faults.injected().of("stale-read"), 3);
}

#[test]
fn a_stale_read_of_what_is_forgotten_is_gone() {
    let (sandbox, wire) = sandbox();
    let old = wire.post(MAPS, &config_map("a", "1")).ok();
    wire.merge(&at("a"), &json!({ "data": { "value": "2" } })).ok();
    sandbox.server().store.compact();
    let resource_version = revision(&old);
    let faults = &sandbox.server().faults;
    faults.add(maps(), When::Always, Effect::StaleRead { resource_version });
    assert_eq!(wire.get(MAPS).code, 410);
}

#[test]
fn control_loops_suffer_too_and_try_again() {
    let (sandbox, wire) = sandbox();
    let faults = &sandbox.server().faults;
    let pods = Matcher::writes().resource("", "pods").verbs([Verb::Create]);
    let errors = faults.add(pods.clone(), When::First(4), Effect::ServerError { code: 500 });
    wire.post("/apis/apps/v1/namespaces/default/deployments", &deployment("web", 3, "x:1")).ok();
    let path = "/apis/apps/v1/namespaces/default/deployments/web";
    let is_ready = |_: &Sandbox| wire.get(path).ok()["status"]["readyReplicas"] == 3;
    assert!(sandbox.advance_until(Duration::from_mins(2), is_ready));
    assert!(faults.injected().of("server-error") >= 4);
    faults.remove(errors);
    // Pods whose creation was never answered are found, not created twice.
    faults.add(pods, When::First(2), Effect::LoseAnswer);
    wire.merge(path, &json!({ "spec": { "replicas": 6 } })).ok();
    let is_grown = |_: &Sandbox| wire.get(path).ok()["status"]["readyReplicas"] == 6;
    assert!(sandbox.advance_until(Duration::from_mins(2), is_grown));
    let pods = wire.get("/api/v1/namespaces/default/pods").ok();
    assert_eq!(pods["items"].as_array().unwrap().len(), 6);
}

#[test]
fn a_fault_for_one_user_leaves_the_others_alone() {
    let (sandbox, wire) = sandbox();
    let operator = User::service_account("ops", "operator").name;
    let mine = Wire::in_the_name_of(&sandbox, &operator);
    let faults = &sandbox.server().faults;
    faults.add(Matcher::writes().user(&operator), When::Always, Effect::Conflict);
    assert_eq!(mine.post(MAPS, &config_map("a", "1")).code, 409);
    assert_eq!(wire.post(MAPS, &config_map("a", "1")).code, 201);
    assert_eq!(mine.get(&at("a")).code, 200, "only writes");
    faults.clear();
    assert_eq!(mine.post(MAPS, &config_map("b", "1")).code, 201);
    assert_eq!(faults.injected().of("conflict"), 1, "counters outlive the rules");
}
