//! The world of one canary: its workloads, routes and status, and the checker.

use std::{collections::BTreeMap, sync::Arc};

use crate::check::{Checker, Entry, Pods, Template, TraceEvent, Violation, Workload as Which};
use tidegate_engine::{
    Answers, Configs, Cookies, EventDedup, GateKind, IntervalState, IntervalTimer, Lifecycle,
    Memory, Missing, Moment, Objects, Observed, Phase, Plan, Primary, Readiness, Revision, Side,
    Split, Unready,
};

use super::{Report, Script, script::Cut, user::Health, workload::Workload};

/// Everything there is.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a yes or no of its own")]
pub(super) struct World {
    /// The observation of the controller; made anew at every look.
    pub(super) seen: Observed,
    pub(super) names: Names,
    pub(super) target: Workload,
    pub(super) primary: Workload,
    /// How pods of each template behave.
    pub(super) healths: Vec<Health>,
    /// Which configuration the target uses, and which the primary was given.
    pub(super) config: usize,
    pub(super) primary_config: usize,
    /// The replicas that the primary was given last, to bring it back if it is deleted.
    pub(super) size: i64,
    pub(super) pieces: Pieces,
    pub(super) route: Split,
    pub(super) apex: Option<Side>,
    pub(super) is_scaler_paused: bool,
    pub(super) is_held: bool,
    pub(super) is_released: bool,
    pub(super) deleted_at: Option<i64>,
    pub(super) is_blocked: bool,
    pub(super) wants_retry: bool,
    pub(super) refuses: Vec<GateKind>,
    pub(super) metrics_fail: bool,
    /// The status.
    pub(super) memory: Memory,
    /// The true time, and how far the controller's clock is off, in milliseconds.
    pub(super) now: i64,
    pub(super) skew: i64,
    pub(super) process: Process,
    /// Something changed since the last look.
    pub(super) is_changed: bool,
    pub(super) cuts: Vec<(u32, Cut)>,
    pub(super) writes: u32,
    pub(super) report: Counters,
    pub(super) violation: Option<Violation>,
    checker: Checker,
    told_pods: [Pods; 2],
    log: Option<Vec<(Moment, TraceEvent)>>,
}

/// The memory of the process, which is lost in a crash.
#[derive(Clone, Debug, Default)]
pub(super) struct Process {
    pub(super) told: EventDedup,
    pub(super) pace: IntervalTimer,
    pub(super) wakes_at: Option<i64>,
}

/// Which objects exist.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "one object each")]
pub(super) struct Pieces {
    pub(super) canary_service: bool,
    pub(super) primary_service: bool,
    pub(super) primary_scaler: bool,
    pub(super) route: bool,
}

/// Counters.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counters {
    pub(super) rollouts: u64,
    pub(super) decisions: u64,
    pub(super) cuts: u32,
}

/// Fingerprints, made once.
#[derive(Clone, Debug)]
pub(super) struct Names {
    pub(super) revisions: Vec<Revision>,
    pub(super) configs: Vec<Configs>,
}

// === impl World ===

impl World {
    pub(super) fn new(script: &Script, keeps_log: bool) -> Self {
        let plan = script.plan.clone();
        let mut world = Self {
            seen: blank(plan.clone()),
            names: Names::new(),
            target: Workload {
                exists: true,
                replicas: script.replicas,
                fresh: script.replicas,
                ..Workload::default()
            },
            primary: Workload::default(),
            healths: vec![Health::Good],
            config: 0,
            primary_config: 0,
            size: script.replicas,
            pieces: Pieces::default(),
            route: Split::PRIMARY,
            apex: None,
            is_scaler_paused: false,
            is_held: false,
            is_released: false,
            deleted_at: None,
            is_blocked: false,
            wants_retry: false,
            refuses: Vec::new(),
            metrics_fail: false,
            memory: Memory::default(),
            now: 1_000_000,
            skew: 0,
            process: Process::default(),
            is_changed: true,
            cuts: script.cuts.clone(),
            writes: 0,
            report: Counters::default(),
            violation: None,
            checker: Checker::new(plan),
            told_pods: [Pods::default(); 2],
            log: keeps_log.then(Vec::new),
        };
        world.emit(TraceEvent::ScaledByOthers(Which::Target, script.replicas));
        world.tell_target();
        world.tell_pods();
        world
    }

    /// Half an interval passes.
    pub(super) fn round(&mut self) {
        if self.violation.is_some() || !self.is_alive() {
            return;
        }
        let half = self.interval_ms() / 2;
        self.now += half;
        self.move_pods();
        self.tell_pods();
        let is_awake = self.process.wakes_at.is_some_and(|at| at <= self.now);
        if self.is_changed || is_awake {
            self.is_changed = false;
            self.look();
        }
    }

    /// The canary still exists for the API server.
    pub(super) fn is_alive(&self) -> bool {
        self.deleted_at.is_none() || (self.is_held && !self.is_released)
    }

    pub(super) fn interval_ms(&self) -> i64 {
        i64::try_from(self.seen.plan.interval.as_millis()).unwrap_or(i64::MAX)
    }

    pub(super) fn deadline_ms(&self) -> i64 {
        i64::try_from(self.seen.plan.deadline.as_millis()).unwrap_or(i64::MAX)
    }

    /// The time by the controller's clock.
    pub(super) fn clock(&self) -> Moment {
        Moment(self.now + self.skew)
    }

    fn move_pods(&mut self) {
        let before = (self.target.fresh, self.target.stale, self.primary.fresh, self.primary.stale);
        let health = |template: usize| self.healths.get(template).copied().unwrap_or(Health::Good);
        let canary = health(self.target.template) != Health::NeverReady;
        let primary =
            !matches!(health(self.primary.template), Health::NeverReady | Health::NotAsPrimary);
        self.target.round(canary, self.now);
        self.primary.round(primary, self.now);
        let after = (self.target.fresh, self.target.stale, self.primary.fresh, self.primary.stale);
        self.is_changed |= before != after;
    }

    /// The state of the pods as an observer sees it, if it changed.
    pub(super) fn tell_pods(&mut self) {
        let deadline = self.deadline_ms();
        let now = self.now;
        for (which, index) in [(Which::Target, 0), (Which::Primary, 1)] {
            let workload = if index == 0 { &self.target } else { &self.primary };
            let pods = Pods {
                serving: workload.serves(),
                ready: workload.is_ready(),
                stuck: workload.is_stuck(now, deadline),
            };
            if self.told_pods.get(index) != Some(&pods) {
                if let Some(slot) = self.told_pods.get_mut(index) {
                    *slot = pods;
                }
                self.is_changed = true;
                self.emit(TraceEvent::Pods(which, pods));
            }
        }
    }

    pub(super) fn plan(&mut self, change: impl FnOnce(&mut Plan)) {
        change(&mut self.seen.plan);
        self.is_changed = true;
        self.emit(TraceEvent::Planned(Box::new(self.seen.plan.clone())));
    }

    pub(super) fn crash(&mut self) {
        self.emit(TraceEvent::Restarted);
        self.process = Process::default();
        self.is_changed = true;
    }

    /// Shows something to the checker.
    pub(super) fn emit(&mut self, event: TraceEvent) {
        let entry = Entry { at: Moment(self.now), event };
        if let Some(violation) = self.checker.see(&entry) {
            self.violation.get_or_insert(violation);
        }
        if let Some(log) = &mut self.log {
            log.push((entry.at, entry.event));
        }
    }

    /// Nothing may move from here on.
    pub(super) fn must_rest(&mut self) {
        if self.violation.is_some() {
            return;
        }
        if self.is_alive() {
            self.violation = self.checker.at_rest();
        }
        if !self.is_alive() || self.memory.phase.is_idle() {
            self.emit(TraceEvent::Settled);
        }
    }

    pub(super) fn report(self) -> Report {
        Report {
            ending: self.checker.ending(),
            violation: self.violation,
            rollouts: self.report.rollouts,
            decisions: self.report.decisions,
            writes: self.writes,
            cuts: self.report.cuts,
            log: self.log.unwrap_or_default(),
        }
    }
}

fn blank(plan: Plan) -> Observed {
    let unready = Unready::new("", false);
    Observed {
        now: Moment::default(),
        plan,
        memory: Memory::default(),
        blockers: Vec::new(),
        target: Err(Missing::Gone(String::new())),
        primary: Primary {
            exists: false,
            readiness: Readiness::Waiting(unready),
            is_updated: false,
            replicas: 0,
        },
        objects: Objects::default(),
        routes: Ok(Split::PRIMARY),
        cookies: Cookies::default(),
        interval_state: IntervalState { due: true, next: Moment::default(), retry: false },
        lifecycle: Lifecycle::default(),
        answers: Answers::default(),
    }
}

// === impl Names ===

impl Names {
    fn new() -> Self {
        let revisions = (0..16).map(|index| Revision::new(format!("v1-{index:04x}"))).collect();
        let config = |index: u8| {
            let checksum = format!("{index:016x}");
            Arc::new(BTreeMap::from([("configmap/settings".to_owned(), checksum)]))
        };
        Self { revisions, configs: (0..3).map(config).collect() }
    }

    pub(super) fn revision(&self, template: usize) -> Revision {
        self.revisions
            .get(template)
            .cloned()
            .unwrap_or_else(|| Revision::new(format!("v1-{template:04x}")))
    }

    pub(super) fn template(&self, template: usize, config: usize) -> Template {
        Template { revision: self.revision(template), configs: self.configs.get(config).cloned() }
    }
}

// === impl Memory ===

/// Whether writing `next` over `before` starts a rollout.
pub(super) fn starts(before: &Memory, next: &Memory) -> bool {
    let was_idle = before.phase.is_idle() || before.is_gated();
    next.phase == Phase::Progressing && (was_idle || next.applied != before.applied)
}
