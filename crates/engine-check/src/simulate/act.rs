//! The controller acts: each effect a write, each write possibly the last.

use crate::check::{TraceEvent, Workload as Which};
use tidegate_engine::{
    Action, Cookie, CookieChange, ManagedObject, Percent, Side, Split, apex_side,
};

use super::{
    script::Cut,
    world::{World, starts},
};

impl World {
    /// Carries out one action; returns whether the next may follow.
    pub(super) fn act(&mut self, action: Action) -> bool {
        if let Action::Announce(fact) = action {
            if self.process.told.first_time(&self.memory, &fact) {
                self.emit(TraceEvent::Announced(Box::new(fact)));
            }
            return true;
        }
        if let Action::Alert(alert) = action {
            if self.process.told.first_alert(&self.memory, &alert.about) {
                self.emit(TraceEvent::Alerted(Box::new(alert.about)));
            }
            return true;
        }
        if matches!(action, Action::Count(_)) {
            return true;
        }
        match self.next_cut() {
            None => self.write(action),
            Some(cut) => {
                self.emit(TraceEvent::WriteFailed);
                self.cut_short(cut, action);
                false
            }
        }
    }

    fn next_cut(&mut self) -> Option<Cut> {
        let index = self.writes;
        self.writes += 1;
        let at = self.cuts.iter().position(|(write, _)| *write == index)?;
        let (_, cut) = self.cuts.swap_remove(at);
        self.report.cuts += 1;
        Some(cut)
    }

    fn cut_short(&mut self, cut: Cut, action: Action) {
        match cut {
            Cut::Refused => {}
            Cut::AnswerLost => {
                self.write(action);
            }
            Cut::DiesBefore => self.crash(),
            Cut::DiesAfter => {
                self.write(action);
                self.crash();
            }
        }
        self.is_changed = true;
    }

    /// Carries out the write, unless its object changed.
    fn write(&mut self, action: Action) -> bool {
        match action {
            Action::Ensure(piece) => self.ensure(piece),
            Action::Shift(split) => {
                if self.is_blocked {
                    return false;
                }
                self.shift(split);
            }
            Action::Cookies(change) => self.set_cookies(change),
            Action::ScaleTarget(replicas) => return self.scale_target(replicas),
            Action::Park => return self.scale_target(0),
            Action::ResumeScaler => self.set_scaler(false),
            Action::PauseScaler => self.set_scaler(true),
            Action::Promote(revision) => return self.promote(&revision),
            Action::RefreshPrimaryScaler | Action::RetirePreviousRoute => {
                self.emit(TraceEvent::Placed);
            }
            Action::RestoreRoute => {
                self.route = Split::PRIMARY;
                self.emit(TraceEvent::Placed);
            }
            Action::Remember(memory) => self.remember(memory),
            Action::DropManualStep(_) => self.plan(|plan| plan.manual = None),
            Action::ResetResume => self.plan(|plan| {
                if let Some(manual) = &mut plan.manual {
                    manual.resume = false;
                }
            }),
            Action::ClearRetry => self.wants_retry = false,
            Action::AddFinalizer => {
                self.is_held = true;
                self.emit(TraceEvent::Held);
            }
            Action::RemoveFinalizer => {
                self.is_held = false;
                self.is_released = self.deleted_at.is_some();
                self.emit(TraceEvent::Released);
            }
            Action::RestoreApex => {
                self.apex = Some(Side::Canary);
                self.emit(TraceEvent::ApexSelects(Side::Canary));
            }
            Action::Prune | Action::Announce(_) | Action::Alert(_) | Action::Count(_) => {}
        }
        true
    }

    fn remember(&mut self, memory: Box<tidegate_engine::Memory>) {
        if starts(&self.memory, &memory) {
            self.report.rollouts += 1;
        }
        if self.memory.since != memory.since {
            // A deadline counts from the last change of the rollout at the earliest.
            self.target.progress_at = self.now;
            self.primary.progress_at = self.now;
        }
        self.memory.clone_from(&memory);
        self.emit(TraceEvent::Remembered(memory));
        self.tell_pods();
    }

    fn ensure(&mut self, piece: ManagedObject) {
        match piece {
            ManagedObject::CanaryService => self.pieces.canary_service = true,
            ManagedObject::PrimaryService => self.pieces.primary_service = true,
            ManagedObject::PrimaryScaler => self.pieces.primary_scaler = true,
            ManagedObject::Route => self.pieces.route = true,
            ManagedObject::Primary => return self.create_primary(),
            ManagedObject::ApexService => {
                let side = apex_side(&self.seen.plan, &self.memory);
                self.apex = Some(side);
                return self.emit(TraceEvent::ApexSelects(side));
            }
        }
        self.emit(TraceEvent::Placed);
    }

    /// The first primary is a copy of the target; one that was deleted comes back as it was.
    fn create_primary(&mut self) {
        let was_there = self.primary.replicas > 0;
        let (template, config) = if was_there {
            (self.primary.template, self.primary_config)
        } else {
            (self.target.template, self.config)
        };
        let now = self.now;
        self.primary.apply(template, now);
        self.primary.scale(self.size, now);
        self.primary_config = config;
        let given = self.names.template(template, config);
        self.emit(TraceEvent::Templated(Box::new(given), Some(self.size)));
    }

    fn shift(&mut self, split: Split) {
        let canary = i64::from(split.canary);
        self.route = split;
        let rest = i64::from(Percent::rest(split.canary));
        self.emit(TraceEvent::Routed { primary: rest, canary, mirrored: split.mirrored });
    }

    fn set_cookies(&mut self, change: CookieChange) {
        let after = |is_there: bool, cookie: Cookie| match cookie {
            Cookie::Keep => is_there,
            Cookie::Fresh => true,
            Cookie::Retire => false,
        };
        let cookies = &mut self.seen.cookies;
        cookies.canary = after(cookies.canary, change.canary);
        cookies.primary = after(cookies.primary, change.primary);
        self.emit(TraceEvent::Placed);
    }

    fn scale_target(&mut self, replicas: i64) -> bool {
        if !self.target.exists {
            return false;
        }
        self.emit(TraceEvent::Scaled(Which::Target, replicas));
        let now = self.now;
        self.target.scale(replicas, now);
        self.tell_pods();
        true
    }

    fn set_scaler(&mut self, is_paused: bool) {
        if self.is_scaler_paused == is_paused {
            return;
        }
        self.is_scaler_paused = is_paused;
        let which = Which::Target;
        self.emit(if is_paused {
            TraceEvent::ScalerPaused(which)
        } else {
            TraceEvent::ScalerResumed(which)
        });
    }

    /// The copy carries the fingerprint of what was analysed, and is refused if that is gone.
    fn promote(&mut self, revision: &tidegate_engine::Revision) -> bool {
        let template = self.template_of_target();
        let is_analysed = template.revision == *revision && template.configs == self.memory.configs;
        if !self.target.exists || !is_analysed {
            return false;
        }
        let now = self.now;
        self.primary.apply(self.target.template, now);
        if self.primary_config != self.config {
            self.primary.stale += self.primary.fresh;
            self.primary.fresh = 0;
            self.primary.progress_at = now;
        }
        self.primary_config = self.config;
        let replicas = Some(self.target.replicas).filter(|replicas| *replicas > 0);
        if let Some(replicas) = replicas {
            self.primary.scale(replicas, now);
        }
        self.emit(TraceEvent::Templated(Box::new(template), replicas));
        self.tell_pods();
        true
    }
}
