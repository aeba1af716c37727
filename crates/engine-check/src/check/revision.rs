//! The promoted revision, the memory of it, and the order of both: invariants 6 to 9 and 11.

use tidegate_engine::{Memory, Moment, Percent, Phase, Strategy, Traffic};

use super::{Checker, Claims, Template, Verdict, Workload};

impl Checker {
    pub(super) fn judge_template(&self, template: &Template, replicas: Option<i64>) -> Verdict {
        if let Some(replicas) = replicas.filter(|replicas| *replicas < 1) {
            return Err((11, format!("the primary was given {replicas} replicas")));
        }
        // It was deleted and is restored as it was.
        let is_restored = self.replicas_of(Workload::Primary).is_none()
            && self.primary.as_ref() == Some(template);
        if is_restored {
            return Ok(());
        }
        if self.failed.as_ref() == Some(template) {
            return Err((7, format!("{} was taken back and is promoted", template.revision)));
        }
        let Memory { phase, .. } = &self.memory;
        if matches!(phase, Phase::New | Phase::Initializing) {
            // The first primary runs what the target runs.
            let is_target = self.target.as_ref() == Some(template);
            let text = || format!("the first primary runs {}, not the target's", template.revision);
            return if is_target || self.primary.is_some() { Ok(()) } else { Err((6, text())) };
        }
        let is_analysed = *phase == Phase::Promoting
            && Template::applied(&self.memory).as_ref() == Some(template);
        if is_analysed {
            return Ok(());
        }
        Err((6, format!("{} was promoted in phase {phase:?}", template.revision)))
    }

    pub(super) fn judge_memory(&self, next: &Memory) -> Verdict {
        self.judge_start(next)?;
        self.judge_knowledge(next)?;
        self.judge_promotion(next)?;
        self.judge_end(next)
    }

    /// `Ready` and `Promoted` hold only while the primary runs what the target asks for, and `Promoted` only
    /// if the last rollout was not called off.
    pub(super) fn judge_claims(&self, claims: Claims) -> Verdict {
        if claims.promoted && self.is_reverted {
            return Err((8, "the last rollout was reverted, and Promoted is true".to_owned()));
        }
        let claimed = if claims.promoted { "Promoted" } else { "Ready" };
        let (Some(target), Some(primary)) = (&self.target, &self.primary) else { return Ok(()) };
        let is_promoted = self.memory.promoted.as_ref() == Some(&target.revision)
            && (target.configs.is_none() || target.configs == self.memory.configs);
        if !(claims.ready || claims.promoted) || is_promoted || target == primary {
            return Ok(());
        }
        let (target, primary) = (&target.revision, &primary.revision);
        Err((
            8,
            format!("{claimed} is true; the target asks for {target}, the primary runs {primary}"),
        ))
    }

    /// A rollout begins: from zero, and not with a revision that was rolled back.
    fn judge_start(&self, next: &Memory) -> Verdict {
        let before = &self.memory;
        let is_other = Template::applied(next) != Template::applied(before);
        let begins = next.phase == Phase::Progressing
            && (before.phase.is_idle() || before.is_gated() || is_other);
        if !begins || is_foreign(before) {
            return Ok(());
        }
        if self.failed.is_some() && self.failed == Template::applied(next) {
            return Err((7, format!("{:?} was taken back and starts again", next.applied)));
        }
        if (next.failed_checks, next.iterations) != (0, 0) {
            return Err((9, "a rollout starts with the counters of the last one".to_owned()));
        }
        let share = self.share();
        let can_go_back = self.plan.traffic == Traffic::Divisible
            && !next.replaces_broken_primary
            && self.looked.is_route_ours
            && self.can_serve(Workload::Primary);
        if can_go_back && share > Percent::ZERO {
            return Err((9, format!("a rollout starts with {share}% on the canary")));
        }
        Ok(())
    }

    /// A revision that is written down as seen was started, judged, or runs already.
    fn judge_knowledge(&self, next: &Memory) -> Verdict {
        let before = &self.memory;
        if next.applied == before.applied || is_foreign(before) {
            return Ok(());
        }
        let runs = self.primary.as_ref().map(|template| &template.revision);
        let is_known = next.applied.is_none()
            || matches!(next.phase, Phase::Progressing | Phase::Initialized)
            || (before.is_gated() && next.phase == Phase::Failed)
            || next.applied.as_ref() == runs;
        if is_known {
            return Ok(());
        }
        let phase = next.phase;
        Err((8, format!("{:?} is written down as seen in phase {phase:?}", next.applied)))
    }

    /// The intent to promote needs an analysis that passed.
    fn judge_promotion(&self, next: &Memory) -> Verdict {
        let before = &self.memory;
        if next.phase != Phase::Promoting || before.phase == Phase::Promoting || self.plan.skip {
            return Ok(());
        }
        let is_goal = match self.plan.strategy {
            Strategy::Weighted => self.share() >= self.plan.max,
            Strategy::AbTesting | Strategy::BlueGreen => {
                before.iterations >= self.plan.iterations || before.phase != Phase::Progressing
            }
        };
        if !is_goal {
            return Err((6, format!("promotion begins at {}%", self.share())));
        }
        if !self.pace.has_passed {
            return Err((6, "promotion begins without checks that passed".to_owned()));
        }
        Ok(())
    }

    /// A rollout that is over leaves no share behind that was not written down.
    fn judge_end(&self, next: &Memory) -> Verdict {
        let was_running = !self.memory.is_gated() && self.memory.phase != next.phase;
        let is_over = next.phase.is_idle() && was_running;
        let is_known = self.plan.traffic == Traffic::Whole || !self.looked.is_route_ours;
        let share = self.share();
        if is_over && !is_known && share != next.weight {
            let phase = next.phase;
            return Err((
                4,
                format!("{phase:?} with {share}% on the canary, not {}%", next.weight),
            ));
        }
        let is_promoted = next.phase == Phase::Succeeded && next.promoted != self.memory.promoted;
        let runs = self.primary.as_ref().map(|template| &template.revision);
        let is_ours = next.promoted.as_ref().is_some_and(|revision| !revision.is_foreign());
        if is_promoted && is_ours && runs.is_some() && next.promoted.as_ref() != runs {
            return Err((6, format!("{:?} counts as promoted and does not run", next.promoted)));
        }
        Ok(())
    }

    pub(super) fn learn_memory(&mut self, at: Moment, next: &Memory) {
        let is_new = Template::applied(next) != Template::applied(&self.memory);
        // Another controller's run that goes on under our fingerprints.
        let is_adopted = is_foreign(&self.memory) && next.since == self.memory.since;
        let starts = next.phase == Phase::Progressing
            && !is_adopted
            && (is_new || self.memory.phase.is_idle() || self.memory.is_gated());
        if starts {
            self.pace.last_step = Some(at);
            self.pace.has_passed = false;
        }
        if next.phase == Phase::Failed && self.memory.phase != Phase::Failed {
            self.failed = Template::applied(next);
        }
        let was_unpromoted = matches!(
            self.memory.phase,
            Phase::Waiting | Phase::Progressing | Phase::WaitingPromotion
        );
        if next.phase != self.memory.phase {
            let is_over = matches!(next.phase, Phase::Initialized | Phase::Succeeded);
            self.is_reverted = is_over && was_unpromoted;
        }
        if next.phase == Phase::Promoting && self.memory.phase != Phase::Promoting {
            self.pace.last_step = Some(at);
        }
        self.memory = next.clone();
    }
}

/// Another controller's fingerprints cannot be compared with ours.
fn is_foreign(memory: &Memory) -> bool {
    memory.applied.as_ref().is_none_or(tidegate_engine::Revision::is_foreign)
}
