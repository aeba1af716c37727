//! Random faults: users change their minds, pods die, the API server fails, the operator is restarted.
//!
//! Each seed is one run. After it the spec is made valid; the workload must be healthy within the hour, and
//! then nothing may change. `GAME_STORMS=500` makes that many runs.

use kube_sandbox::{
    cluster::{Cluster as _, PODS},
    faults::{Effect, Matcher, WatchFault, When},
};
use serde_json::{Value, json};
use tidegate_operator::telemetry::Format;
use tidegate_tests::rollout::{OPERATOR, World};

use crate::rig::{GAME_DEPLOYMENTS, Stage, arena, name_of, numbered};

const ACTS: u64 = 14;
/// Until everything is healthy: backoff, a hook that was blocked, hooks of pods one by one.
const MINUTES: u64 = 60;

/// Pseudo-random numbers.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn one_of<T: Clone>(&mut self, all: &[T]) -> T {
        let at = self.below(all.len() as u64);
        all[usize::try_from(at).unwrap()].clone()
    }
}

fn steps(chance: &mut Chance) -> Value {
    let hook = json!({ "hook": { "templateName": "check" } });
    let lists = [
        json!([{ "partition": 2 }, { "pause": {} }, { "partition": 1 }, hook]),
        json!([{ "partition": "50%" }, hook, { "pause": { "duration": 30 } }]),
        json!([hook, { "partition": 1 }, { "pause": { "duration": 5 } }]),
    ];
    chance.one_of(&lists)
}

fn workload(chance: &mut Chance) -> Value {
    let way = chance.one_of(&["RollingUpdate", "InplaceUpdate", "InplaceUpdate", "HotPatchUpdate"]);
    let (unavailable, surge) = (1 + chance.below(2), chance.below(2));
    let mut strategy = json!({
        "type": way, "inPlaceUpdateStrategy": { "gracePeriodSeconds": chance.below(3) * 7 },
    });
    if chance.below(3) > 0 {
        strategy["canary"] = json!({ "steps": steps(chance) });
    }
    let pace = json!({ "maxUnavailable": unavailable, "maxSurge": surge });
    let mut object = if chance.below(2) == 0 {
        for (name, value) in pace.as_object().unwrap() {
            strategy[name] = value.clone();
        }
        arena(&strategy)
    } else {
        strategy["rollingUpdate"] = pace;
        numbered(chance.one_of(&["OrderedReady", "Parallel"]), &strategy)
    };
    for member in ["preDelete", "preInplace", "postInplace"] {
        if chance.below(3) == 0 {
            let hook = json!({ "hook": { "templateName": "check" } });
            object["spec"][format!("{member}UpdateStrategy")] = hook;
        }
    }
    object
}

fn trouble(stage: &Stage, chance: &mut Chance) {
    let faults = &stage.world.sandbox.server().faults;
    let effects = [
        Effect::ServerError { code: 500 },
        Effect::LoseAnswer,
        Effect::Conflict,
        Effect::TooManyRequests { retry_after_s: Some(2) },
        Effect::FailBefore { code: 403, reason: "Forbidden" },
    ];
    for effect in effects {
        let share = [0.0, 0.03, 0.12][usize::try_from(chance.below(3)).unwrap()];
        faults.add(World::operators(), When::Share(share), effect);
    }
    let events = 3 + chance.below(9);
    let watches = Matcher::any().user(OPERATOR);
    faults.add(watches, When::Share(0.5), Effect::Watch(WatchFault::CloseAfter { events }));
}

fn act(stage: &Stage, chance: &mut Chance) {
    let pods = stage.pods();
    let strategy = |members: Value| stage.patch(json!({ "spec": { "updateStrategy": members } }));
    match chance.below(12) {
        0..=2 => stage.image(&format!("game:{}", 1 + chance.below(4))),
        3 => stage.scale(i64::try_from(chance.below(6)).unwrap()),
        4 => stage.pause(chance.below(2) == 0),
        5 if !pods.is_empty() => stage.world.delete(PODS, &name_of(&chance.one_of(&pods))),
        6 if !pods.is_empty() => {
            let failed = json!({ "status": { "phase": "Failed" } });
            let name = name_of(&chance.one_of(&pods));
            stage.world.admin.patch(PODS, "default", &name, "status", &failed).unwrap();
        }
        7 => stage.age(chance.one_of(&[20, 45])),
        8 => stage.ask(chance.one_of(&["resume", "skip-all", "abort", "retry-hook"])),
        9 => {
            let steps = steps(chance);
            strategy(json!({ "canary": { "steps": steps } }));
        }
        10 if stage.kind == GAME_DEPLOYMENTS && !pods.is_empty() => {
            let name = name_of(&chance.one_of(&pods));
            stage.patch(json!({ "spec": { "scaleStrategy": { "podsToDelete": [name] } } }));
        }
        11 => strategy(json!({ "canary": null })),
        _ => {}
    }
}

/// Makes every spec valid, and resumes everything that waits for a user.
async fn calm_down(stage: &Stage) -> bool {
    stage.world.sandbox.server().faults.clear();
    stage.age(20);
    stage.scale(3);
    stage.image("game:9");
    for _ in 0..MINUTES {
        stage.world.advance_s(60).await;
        if stage.is_settled() && stage.with_image("game:9") == 3 {
            return true;
        }
        if stage.get()["spec"]["updateStrategy"]["paused"] == true {
            stage.pause(false);
        } else if stage.condition("HookBlocked").is_some() {
            stage.ask("retry-hook");
        }
    }
    false
}

/// The defects that are left after the end.
async fn left_over(stage: &Stage) -> Option<String> {
    stage.world.advance_s(120).await;
    let log = stage.world.sandbox.server().log.clone();
    let mark = log.mark();
    stage.world.advance_s(600).await;
    let ours = log.writes_since(mark).into_iter().filter(|it| &*it.user == OPERATOR);
    let writes: Vec<String> =
        ours.map(|it| format!("{:?} {} {}", it.verb, it.target(), it.name)).collect();
    if !writes.is_empty() {
        return Some(format!("at rest it writes {writes:?}"));
    }
    if !stage.marked().is_empty() {
        return Some(format!("{:?} are still marked", stage.marked()));
    }
    let is_of_pod = |run: &&Value| run["metadata"]["labels"]["hookrun-type"] != "canary-step";
    let runs: Vec<String> = stage.runs().iter().filter(is_of_pod).map(name_of).collect();
    // A pod that failed after its update stays for inspection and blocks nothing.
    let is_left = |name: &&String| !name.starts_with("postinplace");
    if runs.iter().any(|name| is_left(&name)) {
        return Some(format!("runs are left: {runs:?}"));
    }
    for condition in ["FailedScale", "FailedUpdate", "HookBlocked", "Paused"] {
        if let Some(message) = stage.condition(condition) {
            return Some(format!("{condition} still holds: {message}"));
        }
    }
    let telemetry = stage.world.telemetry.borrow().clone().unwrap();
    let page = telemetry.render(Format::Prometheus);
    (!page.contains("tidegate_panics_total 0")).then(|| "it panicked".to_owned())
}

async fn weather(seed: u64) -> Option<String> {
    let mut chance = Chance(seed);
    let mut stage = Stage::up(workload(&mut chance)).await;
    trouble(&stage, &mut chance);
    for _ in 0..ACTS {
        act(&stage, &mut chance);
        stage.world.advance_s(1 + chance.below(40)).await;
        if chance.below(6) == 0 {
            stage.world.start().await;
        }
    }
    let injected = stage.world.sandbox.server().faults.injected().total();
    if injected == 0 && seed == 0 {
        return Some("it was a fine day".to_owned());
    }
    if !calm_down(&stage).await {
        return Some(format!("it does not get well: {:#}\n{:#?}", stage.get(), stage.runs()));
    }
    left_over(&stage).await
}

#[test]
fn after_any_storm_everything_is_well() {
    let days = std::env::var("GAME_STORMS").ok().and_then(|it| it.parse().ok()).unwrap_or(8_u64);
    let next = std::sync::atomic::AtomicU64::new(0);
    let found = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    if seed >= days {
                        return;
                    }
                    let runtime = tokio::runtime::Builder::new_current_thread()
                        .enable_time()
                        .start_paused(true)
                        .build()
                        .unwrap();
                    if let Some(why) = runtime.block_on(weather(seed)) {
                        found.lock().unwrap().push(format!("seed {seed}: {why}"));
                    }
                }
            });
        }
    });
    let found = found.into_inner().unwrap();
    assert!(found.is_empty(), "{} of {days} days: {}", found.len(), found.join("\n"));
}
