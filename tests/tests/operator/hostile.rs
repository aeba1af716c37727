//! Invalid and malicious input: one condition each, and no other canary is disturbed.

use kube_sandbox::cluster::Cluster as _;
use serde_json::{Value, json};
use tidegate_tests::{
    network::{Metric, Reply},
    rollout::{CANARIES, DEPLOYMENTS, VIRTUAL_SERVICES, World, deployment},
};

use crate::stage::{
    GATEWAY_API, ISTIO, KUBERNETES, at_share, blue_green, by_weight, canary_of, canary_share,
    condition, hooked, image, initialized, mark, measured, reach, release, release_of, replicas,
    requests_since, told, with_canary, writes_since,
};

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_no_number_is_a_failed_check() {
    let vector = |value: &str| {
        format!(r#"{{"status":"success","data":{{"resultType":"vector","result":[{value}]}}}}"#)
    };
    let megabytes = vector(&"{\"value\":[0,\"1\"]},".repeat(200_000));
    let cases = [
        ("a page", "<html><body>504 Gateway Time-out</body></html>".to_owned()),
        ("a series without a value", r#"{"data":{"result":[{}]}}"#.to_owned()),
        (
            "a matrix",
            r#"{"status":"success","data":{"resultType":"matrix","result":[{"values":[[0,"100"]]}]}}"#
                .to_owned(),
        ),
        ("not a number", vector(r#"{"metric":{},"value":[0,"NaN"]}"#)),
        ("infinity", vector(r#"{"metric":{},"value":[0,"1e999"]}"#)),
        ("megabytes, cut off", megabytes),
        ("an error", r#"{"status":"error","error":"query timed out"}"#.to_owned()),
        ("nothing at all", String::new()),
    ];
    let world = at_share(GATEWAY_API, measured(by_weight()), 20).await;
    crate::stage::edit_analysis(&world, json!({ "threshold": 100 }));
    for (index, (what, body)) in cases.into_iter().enumerate() {
        world.network.metric("", Metric::Reply(Reply::Status(200, body)));
        world.advance_s(10).await;
        assert_eq!(world.status("web")["failedChecks"], index + 1, "{what}");
        assert_eq!(canary_share(&world), 20, "{what}");
        let message = condition(&world, "web", "Reconciling").2;
        assert!(message.len() < 1100, "{what}: a condition is not a dump of {}", message.len());
    }
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_misbehaves_is_a_no() {
    let cases = [
        ("hangs", Reply::Hang),
        ("is not there", Reply::Refuse),
        ("fails", Reply::Status(500, "oops".to_owned())),
        ("sends megabytes", Reply::Body(403, vec![b'x'; 5_000_000])),
        ("sends control characters", Reply::Body(403, b"\x1b[31m\x00\xff".to_vec())),
        ("leads elsewhere", Reply::Status(302, String::new())),
    ];
    for (what, reply) in cases {
        let world = initialized(GATEWAY_API, hooked(by_weight(), "pre-rollout")).await;
        world.network.hook("hooks/pre-rollout", reply);
        release(&world, "web:2.0");
        let failed = world.until(120, |world| world.phase("web") == "Failed").await;
        assert!(failed, "{what}: {:#}", world.status("web"));
        assert_eq!(canary_share(&world), 0, "{what}");
        for (reason, message) in world.events() {
            assert!(message.len() <= 1024, "{what}: {reason} has {} bytes", message.len());
            assert!(!message.chars().any(char::is_control), "{what}: {message:?}");
        }
    }
}

/// Another healthy application, to see that it stays so.
fn neighbour(world: &World) {
    world.create(DEPLOYMENTS, deployment("shop", "shop:1.0", 1));
    world.create(CANARIES, tidegate_tests::rollout::canary("shop", KUBERNETES, blue_green()));
}

/// The neighbour can be set up and released.
async fn assert_undisturbed(world: &World, what: &str) {
    let settled = world.until(60, |world| world.phase("shop") == "Initialized").await;
    assert!(settled, "{what}: {:#}", world.status("shop"));
    release_of(world, "shop", "shop:2.0");
    let released = world.until(120, |world| world.phase("shop") == "Succeeded").await;
    assert!(released, "{what}: {:#}", world.status("shop"));
}

#[tokio::test(start_paused = true)]
async fn a_canary_that_cannot_be_used_gets_one_condition_and_disturbs_nobody() {
    let sound = || canary_of("web", GATEWAY_API, by_weight());
    let with = |path: &str, value: Value| {
        let mut canary = sound();
        let (parent, name) = path.rsplit_once('/').expect("a path has a last part");
        canary.pointer_mut(parent).expect("its parent is there")[name] = value;
        canary
    };
    let no_spec = json!({ "apiVersion": "flagger.app/v1beta1", "kind": "Canary",
                          "metadata": { "name": "web" } });
    let long = "w".repeat(60);
    let cases = [
        ("half a percent", with("/spec/analysis/maxWeight", json!(50.5)), "50.5"),
        ("no spec", no_spec, "spec"),
        ("a target that is not there", with("/spec/targetRef/name", json!("nobody")), "target"),
        ("a name too long", with("/spec/service/name", json!(long)), "63"),
        ("a provider of other targets", with("/spec/provider", json!("knative")), "knative"),
        ("a Service that is not there", with("/spec/targetRef/kind", json!("Service")), "target"),
        ("no gateway", with("/spec/service/gatewayRefs", json!(null)), "gatewayRefs"),
    ];
    for (what, canary, word) in cases {
        let mut world = World::new();
        world.create(DEPLOYMENTS, deployment("web", "web:1.0", 2));
        world.create(CANARIES, canary);
        neighbour(&world);
        world.start().await;
        assert_undisturbed(&world, what).await;
        let (stalled, _, message) = condition(&world, "web", "Stalled");
        assert_eq!(stalled, "True", "{what}: {:#}", world.status("web"));
        assert!(message.contains(word), "{what}: {message}");
        assert_eq!(replicas(&world, "web"), 2, "{what}: the workload is left alone");
        let before = mark(&world);
        world.advance_s(600).await;
        let mut asked = requests_since(&world, before);
        // The missing kind may be installed later: that is checked every five minutes.
        let lists = asked.iter().filter(|line| line.starts_with("list ")).count();
        assert!(lists <= 3, "{what}: {asked:?}");
        asked.retain(|line| !line.starts_with("list "));
        assert_eq!(asked, Vec::<String>::new(), "{what}: said once");
    }
}

#[tokio::test(start_paused = true)]
async fn a_provider_nobody_knows_is_refused_once_and_no_other_is_driven_instead() {
    let mut canary = canary_of("web", ISTIO, by_weight());
    canary["spec"].as_object_mut().expect("a spec is a map").remove("provider");
    let mut world = with_canary(canary);
    world.options.mesh_provider = "istoi".to_owned();
    world.start().await;
    world.advance_s(30).await;
    let (stalled, _, message) = condition(&world, "web", "Stalled");
    assert_eq!(stalled, "True", "{:#}", world.status("web"));
    for word in ["istoi", "istio", "kubernetes"] {
        assert!(message.contains(word), "what is wrong, and what there is: {message}");
    }
    assert_eq!(world.get(VIRTUAL_SERVICES, "web"), None);
    assert_eq!(world.get(DEPLOYMENTS, "web-primary"), None);
    assert_eq!(replicas(&world, "web"), 2);
    let before = mark(&world);
    world.advance_s(600).await;
    assert_eq!(writes_since(&world, before), Vec::<String>::new(), "said once");
}

#[tokio::test(start_paused = true)]
async fn a_canary_that_is_mended_goes_on() {
    let mut canary = canary_of("web", GATEWAY_API, by_weight());
    canary["spec"]["analysis"]["maxWeight"] = json!(50.5);
    let mut world = with_canary(canary);
    world.start().await;
    world.advance_s(30).await;
    assert_eq!(condition(&world, "web", "Stalled").0, "True");
    crate::stage::edit_analysis(&world, json!({ "maxWeight": 50 }));
    reach(&world, "Initialized").await;
    assert_eq!(condition(&world, "web", "Stalled").0, "False");
    assert_eq!(condition(&world, "web", "Ready").0, "True");
}

#[tokio::test(start_paused = true)]
async fn of_two_canaries_of_one_target_the_older_one_acts() {
    let mut world = with_canary(canary_of("web", GATEWAY_API, by_weight()));
    world.advance_s(5).await;
    let mut second = canary_of("web", GATEWAY_API, by_weight());
    second["metadata"]["name"] = json!("also-web");
    world.create(CANARIES, second);
    world.start().await;
    reach(&world, "Initialized").await;
    let (stalled, reason, message) = condition(&world, "also-web", "Stalled");
    assert_eq!((&*stalled, &*reason), ("True", "Refused"), "{message}");
    assert!(message.contains("`web`"), "{message}");
    release(&world, "web:2.0");
    reach(&world, "Succeeded").await;
    assert_eq!(world.phase("also-web"), "Initializing", "it was never acted upon");
    world.delete(CANARIES, "web");
    let taken = world.until(60, |world| world.phase("also-web") == "Initialized").await;
    assert!(taken, "the other takes over: {:#}", world.status("also-web"));
}

// Mistake 28 of docs/mistakes.md.
#[tokio::test(start_paused = true)]
async fn targets_of_one_name_and_two_kinds_do_not_share_series() {
    let mut world = with_canary(canary_of("web", GATEWAY_API, by_weight()));
    world.advance_s(5).await;
    let mut second = canary_of("web", KUBERNETES, blue_green());
    second["metadata"]["name"] = json!("also-web");
    second["spec"]["targetRef"]["kind"] = json!("DaemonSet");
    world.create(CANARIES, second);
    world.start().await;
    reach(&world, "Initialized").await;
    let (stalled, reason, message) = condition(&world, "also-web", "Stalled");
    assert_eq!((&*stalled, &*reason), ("True", "Refused"), "{message}");
    assert!(message.contains("`web`"), "series have the name of the target alone: {message}");
}

#[tokio::test(start_paused = true)]
async fn a_template_of_a_megabyte_is_rolled_out_or_refused_but_not_choked_on() {
    let mut world = with_canary(canary_of("web", GATEWAY_API, by_weight()));
    neighbour(&world);
    let variables: Vec<Value> = (0..1000)
        .map(|index| json!({ "name": format!("V{index}"), "value": "x".repeat(1000) }))
        .collect();
    let containers = json!([{ "name": "app", "image": "web:1.0", "env": variables }]);
    let template = json!({ "spec": { "containers": containers } });
    let patch = json!({ "spec": { "template": template } });
    let stored = world.admin.patch(DEPLOYMENTS, "default", "web", "", &patch);
    assert!(stored.is_ok(), "a megabyte is within what the API stores");
    world.start().await;
    assert_undisturbed(&world, "a megabyte").await;
    assert!(replicas(&world, "web") + replicas(&world, "web-primary").max(0) >= 2);
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_one_canary_stops_no_other() {
    let mut world = with_canary(canary_of("web", GATEWAY_API, hooked(by_weight(), "pre-rollout")));
    neighbour(&world);
    world.start().await;
    reach(&world, "Initialized").await;
    world.network.hook("hooks/pre-rollout", Reply::Panic);
    release(&world, "web:2.0");
    assert_undisturbed(&world, "beside a panic").await;
    assert_eq!((world.phase("web").as_str(), canary_share(&world)), ("Progressing", 0));
    world.network.hook("hooks/pre-rollout", Reply::yes());
    let recovered = world.until(300, |world| world.phase("web") == "Succeeded").await;
    assert!(recovered, "it is tried again: {:#}", world.status("web"));
    assert_eq!(image(&world, "web-primary"), "web:2.0");
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_never_answers_delays_its_own_canary_only() {
    let mut world = with_canary(canary_of("web", GATEWAY_API, hooked(by_weight(), "rollout")));
    neighbour(&world);
    world.start().await;
    reach(&world, "Initialized").await;
    let (slow, _hold) = Reply::yes().held();
    world.network.hook("hooks/rollout", slow);
    release(&world, "web:2.0");
    assert_undisturbed(&world, "beside a hook that hangs").await;
    assert_eq!(told(&world, "Failed"), 0);
}
