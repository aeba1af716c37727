//! Live traffic, and pods that serve it: invariants 1 to 4, 11 and 12.

use tidegate_engine::{Moment, Percent, Phase, Plan, Side, Split, Strategy, Traffic};

use super::{Checker, Verdict, Workload};

impl Checker {
    pub(super) fn judge_route(
        &self,
        at: Moment,
        primary: i64,
        canary: i64,
        mirrored: bool,
    ) -> Verdict {
        let in_bounds = (0..=100).contains(&primary) && (0..=100).contains(&canary);
        if !in_bounds || primary + canary != 100 {
            return Err((1, format!("weights {primary} and {canary} do not make 100")));
        }
        let next = Percent::clamped(canary);
        let now = self.share();
        if next > now && !self.can_serve(Workload::Target) {
            return Err((2, format!("{next}% to a canary without a pod that serves")));
        }
        if next < now && !self.can_serve(Workload::Primary) {
            let rest = next.rest();
            return Err((2, format!("{rest}% to a primary without a pod that serves")));
        }
        if mirrored && next > Percent::ZERO {
            return Err((4, format!("copies together with {next}% of live traffic")));
        }
        self.judge_share(at, now, next)
    }

    /// Whether this phase may lead from one share to the other, and now.
    fn judge_share(&self, at: Moment, now: Percent, next: Percent) -> Verdict {
        if next == Percent::ZERO {
            return Ok(());
        }
        match self.memory.phase {
            Phase::Progressing | Phase::WaitingPromotion => self.judge_analysis(at, now, next),
            Phase::Waiting if self.memory.is_paused() => self.judge_analysis(at, now, next),
            Phase::Promoting | Phase::Finalising => self.judge_return(at, now, next),
            Phase::New
            | Phase::Initializing
            | Phase::Initialized
            | Phase::Waiting
            | Phase::Succeeded
            | Phase::Failed
            | Phase::Terminating
            | Phase::Terminated => {
                let phase = self.memory.phase;
                Err((4, format!("{next}% to the canary in phase {phase:?}")))
            }
        }
    }

    fn judge_analysis(&self, at: Moment, now: Percent, next: Percent) -> Verdict {
        if next <= now {
            let is_known = self.plan.hold_at() == Some(next) || self.memory.weight == next;
            let text = || format!("the share went from {now}% to {next}% for no reason");
            return if is_known || next == now { Ok(()) } else { Err((4, text())) };
        }
        if self.looked.target.is_some()
            && self.looked.target != super::Template::applied(&self.memory)
        {
            return Err((9, format!("{next}% to a revision that was not started")));
        }
        let step = step_after(&self.plan, now);
        if next != step {
            return Err((4, format!("the share went from {now}% to {next}%, a step is {step}%")));
        }
        if now > Percent::ZERO && !self.pace.has_passed {
            return Err((4, format!("{next}% without checks that passed")));
        }
        self.judge_pace(at)
    }

    fn judge_return(&self, at: Moment, now: Percent, next: Percent) -> Verdict {
        if next == Percent::ALL && self.is_stuck(Workload::Primary) {
            return Ok(());
        }
        let step = now.minus(self.plan.promotion_step);
        if self.plan.promotion_step < 1 || next != step {
            let text = format!("the share went from {now}% to {next}% in promotion");
            return Err((4, text));
        }
        self.judge_pace(at)
    }

    fn judge_pace(&self, at: Moment) -> Verdict {
        let Some(last) = self.pace.last_step.filter(|_| !self.pace.is_excused) else {
            return Ok(());
        };
        let passed = at.since(last);
        if passed < self.plan.interval {
            return Err((4, format!("a step {passed:?} after the last one")));
        }
        Ok(())
    }

    pub(super) fn learn_route(&mut self, at: Moment, canary: i64, mirrored: bool) {
        let next = Split { canary: Percent::clamped(canary), mirrored };
        let before = self.split.unwrap_or_default();
        self.split = Some(next);
        self.looked.is_route_ours = true;
        let is_step = next.canary > before.canary
            || (next.mirrored && !before.mirrored)
            || (self.memory.phase == Phase::Promoting && next != before);
        if is_step {
            self.pace.last_step = Some(at);
            self.pace.is_excused = false;
            self.pace.has_passed = false;
        }
    }

    pub(super) fn judge_scale(&self, workload: Workload, replicas: i64) -> Verdict {
        if workload == Workload::Primary {
            let text = || format!("the primary was scaled to {replicas}");
            return if replicas < 1 { Err((11, text())) } else { Ok(()) };
        }
        if replicas > 0 {
            return Ok(());
        }
        let share = self.share();
        if share > Percent::ZERO && self.plan.traffic == Traffic::Divisible {
            return Err((12, format!("the canary was parked with {share}% of live traffic")));
        }
        if self.apex != Some(Side::Primary) {
            return Err((3, "the target was parked while clients use it".to_owned()));
        }
        Ok(())
    }

    pub(super) fn judge_apex(&self, side: Side) -> Verdict {
        let workload = match side {
            Side::Primary => Workload::Primary,
            Side::Canary => Workload::Target,
        };
        if self.can_serve(workload) || self.is_abandoned() {
            return Ok(());
        }
        Err((3, format!("clients were sent to {side:?} pods, none of which serves")))
    }
}

/// The share a passing check leads to.
fn step_after(plan: &Plan, now: Percent) -> Percent {
    match plan.strategy {
        Strategy::Weighted => plan.next_share(now),
        Strategy::AbTesting | Strategy::BlueGreen => Percent::ALL,
    }
}
