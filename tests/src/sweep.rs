//! The crash sweep: a scenario cut at every write the operator makes, in every way it can be cut.
//!
//! A scenario begins where its canary is set up, which is a scenario of its own. It runs once undisturbed,
//! which counts its writes. Then it runs once per write and [`Cut`]: before the request arrives, after it
//! was applied, with its answer lost, refused as a conflict, refused as too many requests. An operator that
//! the cut kills is restarted at once. Every run must keep every invariant, end with the same objects as the
//! undisturbed one, and leave nothing to do: a new operator that starts there writes nothing.

mod report;
mod scenario;
mod travel;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use jiff::Timestamp;
use kube_sandbox::{
    cluster::Cluster,
    faults::Cut,
    request_log::{Entry, Mark},
};
use serde_json::Value;

pub use self::{
    report::Report,
    scenario::{Scenario, Step, essential, others, sample, scenarios},
    travel::{Travel, time_travel, travellers},
};
use crate::rollout::{
    AUTOSCALERS, CANARIES, CONFIG_MAPS, DAEMON_SETS, DEPLOYMENTS, SCALED_OBJECTS, SECRETS,
    SERVICES, World,
};
use crate::trace::routing_tables;

/// The interval at which a long sweep reports progress.
const TOLD_EVERY: Duration = Duration::from_secs(20);

/// The place of a cut in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The number of the write, the first being 0.
    pub at: u64,
    pub cut: Cut,
}

/// The end of a run.
#[derive(Debug)]
pub struct Outcome {
    /// Writes of the operator until the end.
    pub writes: u64,
    /// The writes, in order, with the time since the beginning.
    pub written: Vec<String>,
    /// The objects at the end, without the fields that differ between any two runs.
    pub objects: Vec<Value>,
    /// Invariants that did not hold.
    pub violations: Vec<String>,
    /// Injected faults that took effect.
    pub injected: u64,
    /// Writes of a new operator that found everything done.
    pub restless: Vec<String>,
    /// The step that was never reached.
    pub stuck: Option<String>,
}

/// How many of the cuts are tried: all, or every n-th.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    All,
    /// Every n-th; the first one differs from scenario to scenario.
    Every(usize),
}

/// Sweeps all scenarios on all cores.
pub fn sweep(scenarios: &[Scenario], extent: Extent) -> Report {
    let start = Instant::now();
    let clean = parallel(scenarios.len(), |at| scenarios.get(at).map(|it| guarded(it, None)));
    let mut report = Report::default();
    let mut jobs = Vec::new();
    for (at, (scenario, outcome)) in scenarios.iter().zip(&clean).enumerate() {
        let Some(outcome) = outcome else { continue };
        report.add_clean(scenario, outcome);
        let cuts = (0..outcome.writes)
            .flat_map(|write| Cut::ALL.map(|cut| Fault { at: write, cut }))
            .enumerate();
        let chosen = cuts.filter(|(number, _)| extent.has(number + at));
        jobs.extend(chosen.map(|(_, fault)| (at, fault)));
    }
    let progress = Mutex::new((report, Instant::now()));
    parallel(jobs.len(), |job| {
        let (at, fault) = *jobs.get(job)?;
        let scenario = scenarios.get(at)?;
        let outcome = guarded(scenario, Some(fault));
        let clean = clean.get(at)?.as_ref()?;
        let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
        let (report, told) = &mut *progress;
        report.add_cut(scenario, fault, clean, &outcome);
        if told.elapsed() >= TOLD_EVERY {
            *told = Instant::now();
            tell(report, jobs.len(), start.elapsed());
        }
        Some(())
    });
    let (mut report, _) = progress.into_inner().unwrap_or_else(PoisonError::into_inner);
    report.findings.sort();
    report.seconds = start.elapsed().as_secs_f64();
    report
}

/// Reports the progress of a long sweep.
#[expect(clippy::print_stderr, reason = "for the person who waits")]
fn tell(report: &Report, runs: usize, passed: Duration) {
    let (done, found) = (report.runs, report.findings.len());
    let seconds = passed.as_secs();
    eprintln!("sweep: {done} of {runs} runs, {found} findings, {seconds} s");
    if let Some(first) = report.findings.first() {
        eprintln!("  the first: {}", first.lines().next().unwrap_or_default());
    }
}

/// Runs a scenario, cut or not.
pub fn run(scenario: &Scenario, fault: Option<Fault>) -> Outcome {
    block_on(live_through(scenario, fault))
}

/// Runs a story to its end, in virtual time.
fn block_on(story: impl Future<Output = Outcome>) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without sockets can be made");
    runtime.block_on(story)
}

async fn live_through(scenario: &Scenario, fault: Option<Fault>) -> Outcome {
    let mut world = scenario.prepared().await;
    world.restarts = true;
    world.collects_violations = true;
    let faults = world.sandbox.server().faults.clone();
    faults.count_only(World::operators());
    if let Some(Fault { at, cut }) = fault {
        faults.crash_at(at, cut);
    }
    let beginning = Beginning::of(&world);
    world.start().await;
    let mut stuck = None;
    for step in &scenario.steps {
        if !step.take(&world).await {
            stuck = Some(never(step, &world));
            break;
        }
    }
    world.advance(scenario.rest).await;
    let injected = faults.injected().total();
    end(&mut world, scenario, &beginning, stuck, injected).await
}

/// The place in the log at which a run begins.
struct Beginning {
    mark: Mark,
    start: Timestamp,
}

// === impl Beginning ===

impl Beginning {
    fn of(world: &World) -> Self {
        let server = world.sandbox.server();
        Self { mark: server.log.mark(), start: server.clock.now() }
    }
}

/// Tells of a step that was not reached.
fn never(step: &Step, world: &World) -> String {
    let (status, events) = (world.status("web"), world.events());
    format!("{step:?} was never reached: {status:#} {events:#?}")
}

/// The outcome of a run that has come to rest.
async fn end(
    world: &mut World,
    scenario: &Scenario,
    Beginning { mark, start }: &Beginning,
    stuck: Option<String>,
    injected: u64,
) -> Outcome {
    let server = Arc::clone(world.sandbox.server());
    let writes = server.faults.writes();
    let objects = snapshot(world);
    let ours = server.log.writes_since(*mark).into_iter();
    let ours = ours.filter(|it| &*it.user == crate::rollout::OPERATOR);
    let written = ours.map(|it| line(&it, *start)).collect();
    let restless = writes_of_another(world, scenario.rest).await;
    let violations = world.take_violations();
    Outcome { writes, written, objects, violations, injected, restless, stuck }
}

fn line(entry: &Entry, start: Timestamp) -> String {
    let after = entry.at.duration_since(start).as_secs();
    format!("{after:>4} s  {:?} {} {}: {}", entry.verb, entry.target(), entry.name, entry.code)
}

/// The writes of a new operator that is started after the end.
async fn writes_of_another(world: &mut World, rest: Duration) -> Vec<String> {
    let log = world.sandbox.server().log.clone();
    let mark = log.mark();
    world.sandbox.server().faults.clear();
    world.start().await;
    world.advance(rest).await;
    let writes = log.writes_since(mark).into_iter();
    let ours = writes.filter(|entry| &*entry.user == crate::rollout::OPERATOR);
    ours.map(|entry| format!("{:?} {} {}", entry.verb, entry.target(), entry.name)).collect()
}

/// Runs a scenario; its panic becomes a finding and does not end the sweep.
fn guarded(scenario: &Scenario, fault: Option<Fault>) -> Outcome {
    or_panic(|| run(scenario, fault))
}

fn or_panic(run: impl FnOnce() -> Outcome) -> Outcome {
    let outcome = catch_unwind(AssertUnwindSafe(run));
    outcome.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("panicked");
        Outcome {
            writes: 0,
            written: Vec::new(),
            objects: Vec::new(),
            violations: vec![format!("panic: {text}")],
            injected: 0,
            restless: Vec::new(),
            stuck: None,
        }
    })
}

/// Does jobs `0..count` on all cores; results in the order of the jobs.
fn parallel<T: Send>(count: usize, job: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores.min(count) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= count {
                        return;
                    }
                    let result = job(at);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((at, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

/// All objects that a user would look at, without times, versions and identities.
fn snapshot(world: &World) -> Vec<Value> {
    let kinds = [
        CANARIES,
        DEPLOYMENTS,
        DAEMON_SETS,
        SCALED_OBJECTS,
        SERVICES,
        AUTOSCALERS,
        CONFIG_MAPS,
        SECRETS,
    ];
    let ours = kinds.into_iter().map(|kind| (kind, Some("default")));
    // Some routes are in no namespace.
    let routes = routing_tables().into_iter().map(|kind| (kind, None));
    let mut objects = Vec::new();
    for (kind, namespace) in ours.chain(routes) {
        for mut object in world.admin.list(kind, namespace) {
            if kind == AUTOSCALERS {
                // The time of the autoscaler's last measurement differs between runs.
                object["status"].take();
            }
            if kind == CANARIES
                && let Some(status) = object["status"].as_object_mut()
            {
                // A counter at 0 and one that is not there say the same.
                status.retain(|_, value| *value != 0);
            }
            if let Some(conditions) = object["status"]["conditions"].as_array_mut() {
                conditions.sort_by_key(|it| it["type"].to_string());
            }
            strip(&mut object);
            objects.push(object);
        }
    }
    objects
}

/// Removes the fields that differ between two equal runs.
fn strip(value: &mut Value) {
    const VOLATILE: [&str; 16] = [
        "uid",
        "resourceVersion",
        "generation",
        "observedGeneration",
        "creationTimestamp",
        "managedFields",
        "lastTransitionTime",
        "lastUpdateTime",
        "time",
        "next",
        "since",
        "clusterIP",
        "clusterIPs",
        "nodePort",
        // The number of templates before: a revision that is replaced early may never be promoted.
        "deployment.kubernetes.io/revision",
        "deprecated.daemonset.template.generation",
    ];
    match value {
        Value::Object(map) => {
            map.retain(|key, _| !VOLATILE.contains(&key.as_str()));
            map.values_mut().for_each(strip);
        }
        Value::Array(list) => list.iter_mut().for_each(strip),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

// === impl Extent ===

impl Extent {
    fn has(self, number: usize) -> bool {
        match self {
            Self::All => true,
            Self::Every(nth) => number.is_multiple_of(nth.max(1)),
        }
    }
}
