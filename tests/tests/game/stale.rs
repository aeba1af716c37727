//! Stale caches: each kind late by itself, and all of them at random.
//!
//! A story runs with every kind late by zero to five looks. It must end in the same state as without delay,
//! with as many pods created, as many hooks run and as many pods in service on the way.
//!
//! `cargo test` takes a sample; `GAME_STALE=1` takes all.

use std::time::Duration;

use kube_sandbox::{
    faults::{Effect, Matcher, WatchFault, When},
    request::Verb,
};
use serde_json::{Value, json};
use tidegate_tests::rollout::OPERATOR;

use crate::rig::{Stage, arena, numbered};

const KINDS: [(&str, &str); 7] = [
    ("tkex.tencent.com", "gamedeployments"),
    ("tkex.tencent.com", "gamestatefulsets"),
    ("tkex.tencent.com", "hookruns"),
    ("tkex.tencent.com", "hooktemplates"),
    ("apps", "controllerrevisions"),
    ("", "pods"),
    ("", "nodes"),
];
/// Between two looks of a task in which something goes on: a pod starts, a hook answers.
const LOOK_S: u64 = 2;
/// The first event is late, and then every third: some in each part of the story.
const LATE_EVERY: u64 = 3;
/// Delays of all kinds add up.
const PATIENCE_S: u64 = 7_200;

/// How many looks each kind is late.
type Delays = [u64; KINDS.len()];

fn deployment() -> Value {
    with_hooks(arena(&json!({
        "type": "InplaceUpdate", "maxUnavailable": 1,
        "inPlaceUpdateStrategy": { "gracePeriodSeconds": 3 },
        "canary": { "steps": [
            { "partition": 2 }, { "pause": {} }, { "hook": { "templateName": "check" } },
        ] },
    })))
}

fn set(policy: &str) -> Value {
    with_hooks(numbered(
        policy,
        &json!({
            "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": 1 },
            "canary": { "steps": [
                { "partition": 2 }, { "pause": {} }, { "hook": { "templateName": "check" } },
            ] },
        }),
    ))
}

fn with_hooks(mut object: Value) -> Value {
    for member in ["preDeleteUpdateStrategy", "preInplaceUpdateStrategy"] {
        object["spec"][member] = json!({ "hook": { "templateName": "check" } });
    }
    object
}

/// The totals at the end: pods created, hooks run, revisions created.
type Tally = (usize, usize, usize);

/// Runs the story, and returns its totals and the violations.
async fn tell(object: Value, delays: &Delays) -> Result<Tally, String> {
    let mut stage = Stage::set(object);
    for ((group, resource), looks) in KINDS.iter().zip(delays).filter(|(_, looks)| **looks > 0) {
        let by = Duration::from_secs(looks * LOOK_S);
        let fault = Effect::Watch(WatchFault::Late { every: LATE_EVERY, by });
        let matcher = Matcher::any().user(OPERATOR).resource(group, resource);
        stage.world.sandbox.server().faults.add(matcher, When::Always, fault);
    }
    stage.world.start().await;
    let mut least: Option<usize> = None;
    let mut wait = async |what: &str, is_up: bool, is_so: &dyn Fn(&Stage) -> bool| {
        let is_reached = stage.world.until_seen(PATIENCE_S, |_| {
            let ready = stage.pods().iter().filter(|pod| is_ready(pod)).count();
            if is_up && least.is_none_or(|least| ready < least) {
                least = Some(ready);
            }
            is_so(&stage)
        });
        let is_reached = is_reached.await;
        if is_reached { Ok(()) } else { Err(format!("never {what}: {:#}", stage.get())) }
    };
    wait("up", false, &Stage::is_settled).await?;
    stage.image("game:2");
    let is_paused = |stage: &Stage| {
        stage.status()["currentStepIndex"] == 1
            && stage.get()["spec"]["updateStrategy"]["paused"] == true
            && !stage.status()["pauseConditions"][0].is_null()
    };
    wait("paused", true, &is_paused).await?;
    stage.pause(false);
    let is_done = |stage: &Stage| stage.is_settled() && stage.with_image("game:2") == 3;
    wait("updated", true, &is_done).await?;
    stage.scale(2);
    wait("two", false, &Stage::is_settled).await?;
    stage.world.advance_s(300).await;
    let is_late = delays[5] > 0 || delays[2] > 0;
    if is_late && stage.world.sandbox.server().faults.injected().total() == 0 {
        return Err("pods and runs were not late".to_owned());
    }
    if least.is_some_and(|least| least < 2) {
        return Err(format!("{least:?} pods were ready"));
    }
    let made = |group: &'static str, resource: &'static str| {
        let is_made = |it: &kube_sandbox::request_log::Entry| {
            it.verb == Verb::Create && it.concerns(group, resource) && it.code == 201
        };
        stage.world.sandbox.server().log.matching(is_made).len()
    };
    Ok((made("", "pods"), stage.asked(), made("apps", "controllerrevisions")))
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|it| it["type"] == "Ready" && it["status"] == "True")
}

/// Each kind alone by each number of looks, and mixtures.
fn delays() -> Vec<Delays> {
    let is_all = std::env::var("GAME_STALE").is_ok();
    let alone = (0..KINDS.len()).flat_map(|kind| (1..=5).map(move |looks| (kind, looks)));
    let mut all = Vec::new();
    for (kind, looks) in alone.filter(|(kind, looks)| is_all || looks % 5 == (*kind as u64) % 5) {
        let mut one = Delays::default();
        one[kind] = looks;
        all.push(one);
    }
    for seed in 1..=if is_all { 25_u64 } else { 3 } {
        let mut state = seed;
        all.push(std::array::from_fn(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % 6
        }));
    }
    all
}

fn play(object: &Value, delays: &Delays) -> Result<Tally, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without sockets can be made");
    runtime.block_on(tell(object.clone(), delays))
}

fn sweep(object: &Value) {
    let clean = play(object, &Delays::default());
    let clean = clean.unwrap_or_else(|why| panic!("in time: {why}"));
    let all = delays();
    let next = std::sync::atomic::AtomicUsize::new(0);
    let found = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    let Some(delays) = all.get(at) else { return };
                    let late = play(object, delays);
                    if late.as_ref() != Ok(&clean) {
                        found.lock().unwrap().push(format!("{delays:?}: {late:?}, not {clean:?}"));
                    }
                }
            });
        }
    });
    let found = found.into_inner().unwrap();
    assert!(found.is_empty(), "{} of {}: {}", found.len(), all.len(), found.join("\n"));
}

#[test]
fn a_deployment_takes_no_harm_from_caches_that_are_behind() {
    sweep(&deployment());
}

#[test]
fn a_set_takes_no_harm_from_caches_that_are_behind() {
    for policy in ["OrderedReady", "Parallel"] {
        sweep(&set(policy));
    }
}
