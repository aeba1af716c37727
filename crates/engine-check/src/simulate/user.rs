//! Events from people and machines around a canary.

use crate::check::{Template, TraceEvent, Workload as Which};
use tidegate_engine::{GateKind, ManualStep, Percent, Side, Split};

use super::world::World;

/// Something that happens to a canary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A new template is applied to the target.
    Push(Health),
    /// The target is reverted to the previous template.
    Revert,
    /// The previous template is applied once more.
    Reapply,
    /// Its configuration changes.
    Configure,
    /// `skipAnalysis` is switched.
    Skip,
    /// `suspend` is switched.
    Suspend,
    /// `manualStep` is set to this weight.
    Hold(i64),
    /// `manualStep.resume` is set.
    Resume,
    /// `manualStep` is removed.
    Unhold,
    /// Steps, maximum and iterations change.
    Replan(i64),
    /// Hooks of this kind begin to refuse, or cease to.
    Gate(GateKind),
    /// Metrics fail, or cease to.
    Metrics,
    /// The gates are to be retried at once.
    Retry,
    /// The target is scaled.
    ScaleTarget(i64),
    /// The route is edited.
    Route(i64),
    /// The Service of clients is edited.
    Apex,
    /// The primary is deleted.
    DeletePrimary,
    /// The target is deleted, or comes back.
    Target,
    /// The target's nodes fail, or come back.
    CanaryNodes,
    /// The primary's nodes fail, or come back.
    PrimaryNodes,
    /// The route cannot be written, or can again.
    Obstacle,
    /// The status is lost.
    LoseStatus,
    /// The canary is deleted.
    Delete,
    /// The controller's clock jumps by so many seconds.
    Clock(i64),
    /// The controller crashes between two looks.
    Crash,
}

/// How pods of a template behave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// They become ready and pass.
    Good,
    /// They never become ready.
    NeverReady,
    /// They become ready and fail their checks.
    FailsChecks,
    /// They run as the canary and not as the primary.
    NotAsPrimary,
}

impl World {
    pub(super) fn happen(&mut self, event: &Event) {
        if !self.is_alive() {
            return;
        }
        // No watch reports a change of hooks, metrics or permissions: they must be polled.
        let is_silent =
            matches!(event, Event::Gate(_) | Event::Metrics | Event::Obstacle | Event::Clock(_));
        self.is_changed |= !is_silent;
        match *event {
            Event::Push(health) => {
                self.healths.push(health);
                self.push(self.healths.len() - 1);
            }
            Event::Revert => self.push(self.target.template.saturating_sub(1)),
            Event::Reapply => {
                let next = (self.target.template + 1).min(self.healths.len() - 1);
                self.push(next);
            }
            Event::Configure => {
                self.config = (self.config + 1) % self.names.configs.len().max(1);
                if self.target.exists {
                    self.tell_target();
                }
            }
            Event::Skip => self.plan(|plan| plan.skip = !plan.skip),
            Event::Suspend => self.plan(|plan| plan.suspended = !plan.suspended),
            Event::Hold(weight) => {
                self.plan(|plan| plan.manual = Some(ManualStep { weight, resume: false }));
            }
            Event::Resume => self.plan(|plan| {
                let weight = plan.manual.map_or(0, |manual| manual.weight);
                plan.manual = Some(ManualStep { weight, resume: true });
            }),
            Event::Unhold => self.plan(|plan| plan.manual = None),
            Event::Replan(step) => self.replan(step),
            Event::Gate(kind) => self.switch_gate(kind),
            Event::Metrics => self.metrics_fail = !self.metrics_fail,
            Event::Retry => {
                self.wants_retry = true;
                self.emit(TraceEvent::Retried);
            }
            Event::ScaleTarget(_)
            | Event::Route(_)
            | Event::Apex
            | Event::DeletePrimary
            | Event::Target
            | Event::CanaryNodes
            | Event::PrimaryNodes
            | Event::Obstacle => self.meddle(event),
            Event::LoseStatus => {
                self.memory = tidegate_engine::Memory::default();
                self.emit(TraceEvent::StatusLost);
            }
            Event::Delete => {
                self.deleted_at = Some(self.now);
                self.emit(TraceEvent::Deleted);
            }
            Event::Clock(seconds) => {
                self.skew += seconds * 1_000;
                self.emit(TraceEvent::ClockMoved);
            }
            Event::Crash => self.crash(),
        }
        self.tell_pods();
    }

    fn meddle(&mut self, event: &Event) {
        let now = self.now;
        match *event {
            Event::ScaleTarget(replicas) if self.target.exists => {
                self.target.scale(replicas, now);
                self.emit(TraceEvent::ScaledByOthers(Which::Target, replicas));
            }
            Event::Route(share) if self.has_route() => {
                self.route = Split::canary(Percent::clamped(share));
                self.emit(TraceEvent::RouteEdited(self.route));
            }
            Event::Apex if self.apex.is_some() => {
                self.apex = Some(Side::Canary);
                self.emit(TraceEvent::ApexEdited(Side::Canary));
            }
            Event::DeletePrimary if self.primary.exists => {
                self.primary.delete();
                self.emit(TraceEvent::PrimaryGone);
            }
            Event::Target if self.target.exists => {
                self.target.delete();
                self.emit(TraceEvent::TargetGone);
            }
            Event::Target => {
                self.target.exists = true;
                self.target.scale(self.size, now);
                self.target.progress_at = now;
                self.emit(TraceEvent::ScaledByOthers(Which::Target, self.size));
                self.tell_target();
            }
            Event::CanaryNodes => {
                self.target.is_down = !self.target.is_down;
                self.target.round(false, now);
                self.target.progress_at = now;
            }
            Event::PrimaryNodes => {
                self.primary.is_down = !self.primary.is_down;
                self.primary.round(false, now);
                self.primary.progress_at = now;
            }
            Event::Obstacle => self.is_blocked = !self.is_blocked,
            Event::Push(_)
            | Event::Revert
            | Event::Reapply
            | Event::Configure
            | Event::Skip
            | Event::Suspend
            | Event::Hold(_)
            | Event::Resume
            | Event::Unhold
            | Event::Replan(_)
            | Event::Gate(_)
            | Event::Metrics
            | Event::Retry
            | Event::ScaleTarget(_)
            | Event::Route(_)
            | Event::Apex
            | Event::DeletePrimary
            | Event::LoseStatus
            | Event::Delete
            | Event::Clock(_)
            | Event::Crash => {}
        }
    }

    fn has_route(&self) -> bool {
        self.pieces.route && self.seen.plan.traffic == tidegate_engine::Traffic::Divisible
    }

    fn push(&mut self, template: usize) {
        if !self.target.exists {
            return;
        }
        let now = self.now;
        self.target.apply(template, now);
        self.tell_target();
    }

    fn replan(&mut self, step: i64) {
        self.plan(|plan| {
            plan.max = Percent::clamped(step * 3);
            plan.iterations = u32::try_from(step / 10).unwrap_or_default().max(1);
            plan.steps = tidegate_engine::Steps::By(step.max(1));
        });
    }

    fn switch_gate(&mut self, kind: GateKind) {
        let refuses = &mut self.refuses;
        match refuses.iter().position(|refusing| *refusing == kind) {
            Some(index) => {
                refuses.swap_remove(index);
            }
            None => refuses.push(kind),
        }
    }

    pub(super) fn tell_target(&mut self) {
        let template = self.template_of_target();
        self.emit(TraceEvent::TargetIs(Box::new(template)));
    }

    pub(super) fn template_of_target(&self) -> Template {
        self.names.template(self.target.template, self.config)
    }

    /// Faults stop, but for writes that are still to be cut short: everything is as well as it can be, and
    /// nothing is refused.
    pub(super) fn calm_down(&mut self) {
        if !self.is_alive() {
            return;
        }
        self.refuses.clear();
        self.metrics_fail = false;
        self.is_blocked = false;
        self.target.is_down = false;
        self.primary.is_down = false;
        let now = self.now;
        (self.target.progress_at, self.primary.progress_at) = (now, now);
        if !self.target.exists {
            self.meddle(&Event::Target);
        }
        if self.seen.plan.suspended || self.seen.plan.manual.is_some() {
            self.plan(|plan| {
                plan.suspended = false;
                plan.manual = None;
            });
        }
        self.tell_pods();
    }
}
