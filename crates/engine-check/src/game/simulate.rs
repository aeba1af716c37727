//! A model cluster: pods that start, change images and die, hooks that answer, people that change
//! their mind, writes that get lost. Every write is judged.

mod act;
mod event;
mod kubelet;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use tidegate_engine::{Again, Moment, Revision};

use crate::game::check::{Checker, TraceEvent};
use tidegate_engine::game::{
    Action, Canary, CanaryStep, ConditionKind, CostOrder, Decision, Fact, HookCall, HookPhase,
    Indexes, IntOrPercent, Json, KnownRevision, KnownTemplate, Memory, Observed, Paused, Plan,
    PodHooks, Refusal, ResumeBy, Scope, StepHook, UpdateWay, WorkloadKind, decide, steps_hash,
};

pub(super) use self::event::{Event, Refused};

/// A round takes so long.
const ROUND: Duration = Duration::from_secs(5);
/// Rounds in which everything comes to rest: ten minutes of a blocked hook, and the rest.
const ROUNDS_TO_REST: u32 = 600;

/// How hooks that begin from now on end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HookWill {
    Pass,
    Fail,
    Hang,
}

/// The cluster. The observation is the truth.
#[derive(Clone)]
pub(super) struct World {
    pub(super) truth: Observed,
    /// Templates that were ever requested.
    serial: u32,
    pods_made: u32,
    pub(super) step_hooks: HookWill,
    pub(super) pod_hooks: HookWill,
    /// How each run will end.
    wills: BTreeMap<String, HookWill>,
    checker: Checker,
    pub(super) violation: Option<String>,
    pub(super) writes: u32,
    /// Writes that are cut, and whether they land.
    pub(super) cuts: Vec<(u32, bool)>,
    /// Writes the cluster refuses.
    pub(super) refuses: fn(&Action) -> bool,
    /// Rounds in which a node does not look at a pod, between two in which it does.
    pub(super) lag: u32,
    /// Pods come to be without the readiness gate: made by others, or it is taken off.
    pub(super) drops_gates: bool,
    round: u32,
    pub(super) told: Vec<Fact>,
    pub(super) log: Vec<Line>,
    pub(super) last: Option<Decision>,
}

/// Something that happened, for people who read failures.
#[derive(Clone, Debug)]
#[expect(dead_code, reason = "only printed")]
pub(super) enum Line {
    Happened(Event),
    Wrote(i64, Action),
}

/// Where a run ended, without names and times.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ending {
    pods: BTreeMap<String, usize>,
    ready: usize,
    step: Option<usize>,
    stable: Option<Revision>,
    pauses: Vec<tidegate_engine::game::PauseReason>,
    paused: bool,
    update: Revision,
}

pub(super) fn rev(text: &str) -> Revision {
    Revision::new(text)
}

/// A template of one container; `env` differs where it cannot be changed in place.
pub(super) fn template(image: &str, env: &str) -> Json {
    let container = Json::object([
        ("name", Json::text("main")),
        ("image", Json::text(image)),
        ("env", Json::text(env)),
    ]);
    let labels = Json::object([("app", Json::text("game")), ("image", Json::text(image))]);
    Json::object([
        ("metadata", Json::object([("labels", labels)])),
        ("spec", Json::object([("containers", Json::List(vec![container]))])),
    ])
}

pub(super) fn canary(steps: Vec<CanaryStep>) -> Canary {
    let hash = steps_hash(&Json::text(&format!("{steps:?}")));
    Canary { steps, hash, resume_by: ResumeBy::Field }
}

pub(super) fn hook_step() -> CanaryStep {
    CanaryStep::Hook(StepHook { call: call("test"), timeout: None, rolls_back: false })
}

pub(super) fn call(template: &str) -> HookCall {
    HookCall { template: template.to_owned(), arguments: Vec::new() }
}

/// The documented example: four pods, in place, two at a time, thirty seconds of grace, five steps.
pub(super) fn seed_plan() -> Plan {
    Plan {
        kind: WorkloadKind::Deployment,
        namespace: "game".to_owned(),
        generation: 1,
        replicas: 4,
        way: UpdateWay::InPlace,
        falls_back: false,
        partition: IntOrPercent::NONE,
        max_unavailable: IntOrPercent::Count(2),
        max_surge: IntOrPercent::NONE,
        min_ready: Duration::ZERO,
        grace: Duration::from_secs(30),
        canary: Some(canary(vec![
            CanaryStep::Partition(IntOrPercent::Count(3)),
            CanaryStep::Pause(None),
            CanaryStep::Partition(IntOrPercent::Count(2)),
            CanaryStep::Pause(Some(Duration::from_mins(1))),
            hook_step(),
        ])),
        hooks: PodHooks::default(),
        pods_to_delete: Vec::new(),
        costs: CostOrder::Ascend,
        indexes: Indexes::Off,
        history_limit: 10,
        paused: Paused::default(),
        asked: None,
        misspelt: None,
    }
}

impl World {
    /// A workload that was just made, with the template `r1`.
    pub(super) fn new(plan: Plan) -> Self {
        let known =
            KnownRevision { name: rev("r1"), number: 1, template: template("image:r1", "a") };
        let truth = Observed {
            now: Moment(1_000_000),
            plan,
            memory: Memory::default(),
            problems: Vec::new(),
            refusals: Vec::new(),
            is_deleted: false,
            update: rev("r1"),
            collisions: 0,
            revisions: vec![known],
            pods: Vec::new(),
            runs: Vec::new(),
            taken: BTreeSet::new(),
            templates: BTreeMap::from([("test".to_owned(), KnownTemplate::default())]),
        };
        Self {
            truth,
            serial: 1,
            pods_made: 0,
            step_hooks: HookWill::Pass,
            pod_hooks: HookWill::Pass,
            wills: BTreeMap::new(),
            checker: Checker::default(),
            violation: None,
            writes: 0,
            cuts: Vec::new(),
            refuses: |_| false,
            lag: 0,
            drops_gates: false,
            round: 0,
            told: Vec::new(),
            log: Vec::new(),
            last: None,
        }
    }

    /// The same, running and idle.
    pub(super) fn running(plan: Plan) -> Self {
        let mut world = Self::new(plan);
        world.rest();
        world
    }

    pub(super) fn see(&mut self, event: &TraceEvent) {
        if self.violation.is_none()
            && let Some(violation) = self.checker.see(event)
        {
            self.violation = Some(format!("{violation:?}"));
        }
    }

    /// One look of the controller.
    pub(super) fn pass(&mut self) -> Decision {
        let decision = decide(&self.truth);
        self.last = Some(decision.clone());
        self.truth.refusals.clear();
        let mut left_out: BTreeSet<String> = BTreeSet::new();
        let (mut leaves_out_pods, mut leaves_out_hooks) = (false, false);
        let mut is_done = true;
        for action in decision.actions.clone() {
            if let Action::Announce(fact) = action {
                if is_done {
                    self.told.push(fact);
                }
                continue;
            }
            is_done = false;
            match action.scope() {
                Scope::Pod(uid) if left_out.contains(uid) => {}
                Scope::Pods if leaves_out_pods => {}
                Scope::Hooks if leaves_out_hooks => {}
                Scope::Pod(uid) if (self.refuses)(&action) => {
                    left_out.insert(uid.to_owned());
                    self.refused(ConditionKind::FailedUpdate);
                }
                Scope::Pods if (self.refuses)(&action) => {
                    leaves_out_pods = true;
                    self.refused(ConditionKind::FailedScale);
                }
                Scope::Hooks if (self.refuses)(&action) => leaves_out_hooks = true,
                Scope::Release if (self.refuses)(&action) => break,
                Scope::Pod(_) | Scope::Pods | Scope::Hooks | Scope::Release => {
                    if !self.perform(action) {
                        break;
                    }
                    is_done = true;
                }
            }
        }
        decision
    }

    fn refused(&mut self, kind: ConditionKind) {
        self.truth.refusals.push(Refusal { kind, message: "The quota is exceeded.".to_owned() });
    }

    /// A look, and then five seconds of everything else. Whether anything happened at all.
    pub(super) fn round(&mut self) -> bool {
        let decision = self.pass();
        self.round += 1;
        let moved = self.kubelet();
        self.truth.now = self.truth.now.after(ROUND);
        let is_quiet = decision.actions.is_empty() && !moved && decision.again == Again::OnChange;
        !is_quiet
    }

    pub(super) fn rounds(&mut self, count: u32) {
        for _ in 0..count {
            self.round();
        }
    }

    /// Until nothing happens any more; then nothing may.
    pub(super) fn rest(&mut self) {
        let mut quiet = 0;
        for _ in 0..ROUNDS_TO_REST {
            quiet = if self.round() { 0 } else { quiet + 1 };
            if quiet > 3 + self.lag || self.violation.is_some() {
                break;
            }
        }
        if quiet <= 3 + self.lag && self.violation.is_none() {
            self.violation = Some(format!("14: it does not come to rest: {:?}", self.last));
        }
        self.see(&TraceEvent::Settled);
        self.rounds(3);
    }

    pub(super) fn happen(&mut self, event: &Event) {
        self.see(&TraceEvent::Changed);
        self.log.push(Line::Happened(event.clone()));
        event.happen(self);
    }

    /// Happens, and everything comes to rest.
    pub(super) fn then(mut self, event: &Event) -> Self {
        self.happen(event);
        self.rest();
        self
    }

    pub(super) fn ending(&self) -> Ending {
        let truth = &self.truth;
        let mut pods = BTreeMap::new();
        for pod in truth.pods.iter().filter(|pod| pod.is_active()) {
            let revision = pod.revision.as_ref().map_or("", Revision::as_str);
            *pods.entry(revision.to_owned()).or_default() += 1;
        }
        Ending {
            pods,
            ready: truth.pods.iter().filter(|pod| pod.is_ready()).count(),
            step: truth.memory.step,
            stable: truth.memory.stable.clone(),
            pauses: truth.memory.pauses.iter().map(|pause| pause.reason).collect(),
            paused: truth.plan.paused.value,
            update: truth.update.clone(),
        }
    }

    /// `step · updated/updated ready/ready · pauses`, the columns people look at.
    pub(super) fn line(&self) -> String {
        let Memory { counts, step, pauses, .. } = &self.truth.memory;
        let reasons: Vec<&str> = pauses.iter().map(|pause| pause.reason.as_str()).collect();
        let step = step.map_or_else(|| "-".to_owned(), |step| step.to_string());
        let mark = if self.truth.plan.paused.value { " paused" } else { "" };
        format!(
            "{step} {}/{}/{} {}{mark}",
            counts.updated,
            counts.updated_ready,
            counts.ready,
            reasons.join(",")
        )
        .trim_end()
        .to_owned()
    }

    /// Hooks that hang come to an end.
    pub(super) fn let_pass(&mut self) {
        self.wills.retain(|_, will| *will != HookWill::Hang);
    }

    pub(super) fn will_of(&self, run: &str) -> HookPhase {
        match self.wills.get(run) {
            Some(HookWill::Pass) | None => HookPhase::Successful,
            Some(HookWill::Fail) => HookPhase::Failed,
            Some(HookWill::Hang) => HookPhase::Running,
        }
    }

    /// Whether a write with this text was made.
    pub(super) fn wrote(&self, text: &str) -> bool {
        self.log.iter().any(|line| format!("{line:?}").contains(text))
    }

    #[track_caller]
    pub(super) fn is_sound(&self) {
        assert_eq!(self.violation, None, "{:#?}", self.log);
    }
}
