//! The controller looks, asks and decides.

use crate::check::{TraceEvent, Violation};
use tidegate_engine::{
    Again, Answers, Checks, Clocks, Configs, Decision, Form, Gate, GateKind, Missing, Moment,
    Obstacle, Primary, Question, Refusal, Side, State, Step, Target, Traffic, Verdict, apex_side,
    decide,
};

use super::{user::Health, world::World};

/// Decisions one look may take before it counts as running in circles. Setting up takes the most:
/// one for each object, and a few questions.
const DECISIONS_MAX: u32 = 24;

/// How soon a failed write is tried again.
const RETRY_MS: i64 = 1_000;

impl World {
    /// Looks and decides until there is nothing to do at once.
    pub(super) fn look(&mut self) {
        self.process.wakes_at = None;
        self.observe();
        for _ in 0..DECISIONS_MAX {
            if self.violation.is_some() || !self.is_alive() {
                return;
            }
            self.report.decisions += 1;
            let decision = match decide(&self.seen) {
                Step::Ask(question) => {
                    self.ask(question);
                    continue;
                }
                Step::Do(decision) => decision,
            };
            if !self.carry_out(decision) {
                return;
            }
            self.observe();
        }
        let text = format!("it runs in circles in phase {:?}", self.memory.phase);
        self.violation.get_or_insert(Violation { invariant: 15, at: 0, text });
    }

    /// Carries a decision out; returns whether to look again at once.
    fn carry_out(&mut self, decision: Decision) -> bool {
        let Decision { why, actions, again, starts_interval } = decision;
        for action in actions {
            if !self.act(action) {
                self.process.wakes_at = Some(self.now + RETRY_MS);
                return false;
            }
            if self.violation.is_some() || !self.is_alive() {
                return false;
            }
        }
        self.process.pace.done(starts_interval, &self.memory, Moment(self.now));
        match again {
            Again::Now => return true,
            Again::At(when) => self.process.wakes_at = Some(when.0 - self.skew),
            Again::OnChange => {}
        }
        self.emit(TraceEvent::Waits(why.reason()));
        false
    }

    fn observe(&mut self) {
        self.emit(TraceEvent::Looked);
        let (now, deadline) = (self.now, self.deadline_ms());
        self.seen.now = self.clock();
        self.seen.memory.clone_from(&self.memory);
        self.seen.answers = Answers::default();
        self.seen.target = self.observed_target(now, deadline);
        let was_given = self.names.template(self.primary.template, self.primary_config);
        let is_updated = self.primary.exists
            && self.memory.applied.as_ref() == Some(&was_given.revision)
            && is_same(self.memory.configs.as_ref(), was_given.configs.as_ref());
        self.seen.primary = Primary {
            exists: self.primary.exists,
            readiness: self.primary.readiness(now, deadline),
            is_updated,
            replicas: self.primary.replicas,
        };
        self.observe_setup();
        let clocks = Clocks { wall: self.clock(), steady: Moment(now) };
        let interval = self.seen.plan.interval;
        self.seen.interval_state =
            self.process.pace.state(&self.memory, clocks, interval, self.wants_retry);
        self.seen.lifecycle.has_finalizer = self.is_held;
        self.seen.lifecycle.deleted_at = self.deleted_at.map(|at| Moment(at + self.skew));
    }

    fn observed_target(&self, now: i64, deadline: i64) -> Result<Target, Missing> {
        if !self.target.exists {
            return Err(Missing::Gone("Deployment web".to_owned()));
        }
        let template = self.template_of_target();
        let is_same = self.primary.exists
            && self.primary.template == self.target.template
            && self.primary_config == self.config;
        Ok(Target {
            revision: template.revision,
            configs: template.configs,
            replicas: self.target.replicas,
            form: Form::Replicas,
            scaler_paused: self.is_scaler_paused,
            readiness: self.target.readiness(now, deadline),
            same_as_primary: is_same,
            edited_since: false,
            replicas_to_run: self.size,
        })
    }

    fn observe_setup(&mut self) {
        let fits = |is_there: bool| if is_there { State::InSync } else { State::OutOfSync };
        let pieces = self.pieces;
        let side = apex_side(&self.seen.plan, &self.memory);
        let objects = &mut self.seen.objects;
        objects.canary_service = fits(pieces.canary_service);
        objects.primary_service = fits(pieces.primary_service);
        objects.primary = fits(self.primary.exists);
        objects.primary_scaler = fits(pieces.primary_scaler || !self.seen.plan.scaled);
        objects.apex_service = fits(self.apex == Some(side));
        objects.route = fits(pieces.route);
        objects.apex_restored = fits(self.apex != Some(Side::Primary));
        objects.route_restored =
            fits(self.route.canary == tidegate_engine::Percent::ZERO || !pieces.route);
        let blocked = || Obstacle("the route cannot be written".to_owned());
        if self.is_blocked {
            objects.route = State::Blocked(blocked());
        }
        let is_divisible = self.seen.plan.traffic == Traffic::Divisible;
        self.seen.routes = match (self.is_blocked && is_divisible, is_divisible) {
            (true, _) => Err(blocked()),
            (false, true) => Ok(self.route),
            (false, false) => Ok(tidegate_engine::Split::PRIMARY),
        };
    }

    fn ask(&mut self, question: Question) {
        match question {
            Question::Backends => self.seen.answers.backends = Some(Ok(())),
            Question::Checks => {
                let health = self.healths.get(self.target.template).copied();
                let fails = self.metrics_fail || health == Some(Health::FailsChecks);
                self.emit(TraceEvent::Checked(!fails));
                let failed = || Verdict::Failed("success rate below 99".to_owned());
                let verdict = if fails { failed() } else { Verdict::Passed };
                self.seen.answers.checks = Some(Checks { verdict, ..Checks::default() });
            }
            Question::Gate(kind) => self.ask_gate(kind),
        }
    }

    fn ask_gate(&mut self, kind: GateKind) {
        let refuses = self.refuses.contains(&kind);
        self.emit(TraceEvent::Asked(kind, !refuses));
        let refusal =
            || Refusal { hook: "gate".to_owned(), why: "closed".to_owned(), muted: false };
        let gate =
            Gate { passed: Vec::new(), refused: refuses.then(refusal).into_iter().collect() };
        let answers = &mut self.seen.answers;
        match kind {
            GateKind::ConfirmRollout => answers.confirm_rollout = Some(gate),
            GateKind::PreRollout => answers.pre_rollout = Some(gate),
            GateKind::ConfirmTrafficIncrease => answers.confirm_traffic_increase = Some(gate),
            GateKind::ConfirmPromotion => answers.confirm_promotion = Some(gate),
            GateKind::PostRollout => answers.post_rollout = Some(gate),
            // This one is a call, not a permission: it signals while it "refuses".
            GateKind::Rollback => answers.rollback = Some(refuses.then(|| "gate".to_owned())),
        }
    }
}

fn is_same(before: Option<&Configs>, now: Option<&Configs>) -> bool {
    before == now
}
