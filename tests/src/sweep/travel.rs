//! Time travel: the API server goes back to an earlier state, and the operator runs on without being told.
//!
//! A scenario runs once undisturbed. Then it runs once per pair of writes: the cluster is saved when the
//! operator has made the first, and put back when it has made the second. Writes take a tenth of a second
//! each, so both may happen between any two of a decision; events are no such writes. The user takes the steps again that are undone.
//! Every run must keep every invariant, end with the same objects as the undisturbed one, and leave nothing
//! to do. A single creation that is undone is found by a list, without beginning anew.

use std::time::{Duration, Instant};

use kube_sandbox::{
    faults::{Effect, When},
    request_log::{Entry, Mark},
};

use super::{
    Beginning, Extent, Outcome, Report, Scenario, Step, block_on, end, guarded, never, or_panic,
    parallel, scenario::PATIENCE_S, scenarios,
};
use crate::{
    network::Metric,
    rollout::{Moment, OPERATOR, World},
};

/// How long a write of the operator takes.
const WRITE: Duration = Duration::from_millis(100);

/// The time after which the user takes undone steps again. A revision that arrives while a write is on its way is
/// no matter of time travel.
const NOTICED_AFTER: Duration = Duration::from_secs(2);

/// The writes at which the cluster is saved, and put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Travel {
    pub saved_at: usize,
    pub restored_at: usize,
}

/// A run in which the cluster is put back once.
struct Journey<'s> {
    scenario: &'s Scenario,
    travel: Travel,
    beginning: &'s Beginning,
    /// The cluster, with the step of that time.
    saved: Option<(usize, Moment)>,
    is_over: bool,
}

/// A few scenarios that differ in what a return undoes.
pub fn travellers() -> Vec<Scenario> {
    const NAMES: [&str; 6] = [
        "gatewayapi:v1: init",
        "gatewayapi:v1: promote",
        "istio: fail half-way, then mend",
        "gatewayapi:v1: new revision half-way",
        "gatewayapi:v1: promote, scaled",
        "kubernetes: promote",
    ];
    let mut all = scenarios();
    all.retain(|scenario| NAMES.contains(&scenario.name.as_str()));
    all
}

/// Runs every scenario with every journey of the extent, on all cores.
pub fn time_travel(scenarios: &[Scenario], extent: Extent) -> Report {
    let start = Instant::now();
    let clean = parallel(scenarios.len(), |at| scenarios.get(at).map(|it| guarded(it, None)));
    let mut report = Report::default();
    let mut jobs = Vec::new();
    for (at, (scenario, outcome)) in scenarios.iter().zip(&clean).enumerate() {
        let Some(outcome) = outcome else { continue };
        report.add_clean(scenario, outcome);
        let writes = outcome.written.iter().filter(|line| !line.contains(" events ")).count();
        let journeys = journeys(writes).into_iter().enumerate();
        let chosen = journeys.filter(|(number, _)| extent.has(number + at));
        jobs.extend(chosen.map(|(_, travel)| (at, travel)));
    }
    let outcomes = parallel(jobs.len(), |job| {
        let (at, travel) = *jobs.get(job)?;
        let scenario = scenarios.get(at)?;
        Some((at, travel, or_panic(|| block_on(live_through(scenario, travel)))))
    });
    for (at, travel, outcome) in outcomes.into_iter().flatten() {
        let (Some(scenario), Some(Some(clean))) = (scenarios.get(at), clean.get(at)) else {
            continue;
        };
        let Travel { saved_at, restored_at } = travel;
        let place = format!("{}, back from write {restored_at} to {saved_at}", scenario.name);
        report.add_run(&place, clean, &outcome);
    }
    report.findings.sort();
    report.seconds = start.elapsed().as_secs_f64();
    report
}

/// From each write: one write on, half of the run on, and to its end.
fn journeys(writes: usize) -> Vec<Travel> {
    let mut journeys = Vec::new();
    for saved_at in 0..writes {
        let mut ends = vec![saved_at + 1, saved_at + writes / 2, writes];
        ends.retain(|end| *end > saved_at && *end <= writes);
        ends.dedup();
        journeys.extend(ends.into_iter().map(|restored_at| Travel { saved_at, restored_at }));
    }
    journeys
}

async fn live_through(scenario: &Scenario, travel: Travel) -> Outcome {
    let mut world = scenario.prepared().await;
    world.collects_violations = true;
    let faults = world.sandbox.server().faults.clone();
    faults.count_only(World::operators());
    faults.add(World::operators(), When::Always, Effect::Delay { by: WRITE });
    world.has_slow_writes = true;
    let beginning = Beginning::of(&world);
    world.start().await;
    let mut journey =
        Journey { scenario, travel, beginning: &beginning, saved: None, is_over: false };
    let stuck = journey.walk(&world).await;
    world.has_slow_writes = false;
    world.settle().await;
    let restored = u64::from(journey.is_over);
    end(&mut world, scenario, &beginning, stuck, restored).await
}

/// The operator's writes that were answered. Events are not counted: nothing is based on them.
fn writes_since(world: &World, mark: Mark) -> usize {
    let is_ours =
        |entry: &Entry| &*entry.user == OPERATOR && entry.is_write() && entry.target() != "events";
    world.sandbox.server().log.matching_since(mark, is_ours).len()
}

// === impl Journey ===

impl Journey<'_> {
    /// Takes all steps, some of them twice. Tells of one that was never reached.
    async fn walk(&mut self, world: &World) -> Option<String> {
        let (steps, mut at) = (&self.scenario.steps, 0);
        loop {
            let Some(step) = steps.get(at) else {
                let rest = self.scenario.rest.as_secs();
                at = self.wait(world, at, rest, |_| false).await?;
                world.advance(NOTICED_AFTER).await;
                continue;
            };
            let mut is_reached = step.act(world);
            if !is_reached {
                let (seconds, is_pass) = match step {
                    Step::Pass(seconds) => (*seconds, true),
                    _ => (PATIENCE_S, false),
                };
                let is_over = |world: &World| !is_pass && step.is_reached(world);
                if let Some(earlier) = self.wait(world, at, seconds, is_over).await {
                    at = earlier;
                    world.advance(NOTICED_AFTER).await;
                    continue;
                }
                is_reached = step.is_reached(world);
            }
            if !is_reached {
                return Some(never(step, world));
            }
            at += 1;
        }
    }

    /// Waits. The step to go on from, if the cluster was put back.
    async fn wait(
        &mut self,
        world: &World,
        at: usize,
        seconds: u64,
        is_over: impl Fn(&World) -> bool,
    ) -> Option<usize> {
        let mut earlier = None;
        let mut look = |world: &World| {
            earlier = self.look(world, at);
            earlier.is_some() || is_over(world)
        };
        world.until_seen(seconds, &mut look).await;
        earlier
    }

    /// Saves the cluster, or puts it back, when it is time. The step of the time that it is put back to.
    fn look(&mut self, world: &World, at: usize) -> Option<usize> {
        let writes = writes_since(world, self.beginning.mark);
        if self.saved.is_none() && writes >= self.travel.saved_at {
            self.saved = Some((at, world.snapshot()));
        }
        let (earlier, moment) = self.saved.as_ref()?;
        if self.is_over || writes < self.travel.restored_at {
            return None;
        }
        self.is_over = true;
        world.restore(moment);
        let before = self.scenario.steps.iter().take(*earlier).rev();
        let mut percents = before.filter_map(|step| match step {
            Step::Success(percent) => Some(*percent),
            _ => None,
        });
        world.network.metric("", Metric::Value(percents.next().unwrap_or(100.0)));
        Some(*earlier)
    }
}
