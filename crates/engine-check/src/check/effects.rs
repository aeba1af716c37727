//! The right to write, events and alerts without repetition, and deadlines: invariants 13, 15, 16 and
//! 19 to 23.

use tidegate_engine::{Fact, GateKind, Memory, Notice, Percent, Phase, Revision, Side};

use super::{Checker, Entry, Template, TraceEvent, Verdict, Workload};

/// Effects on the outside so far.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a yes or no of its own")]
pub(super) struct Effects {
    is_refused: bool,
    is_follower: bool,
    is_settled: bool,
    is_deleted: bool,
    is_released: bool,
    is_scaler_paused: bool,
    gave_up: bool,
    was_retried: bool,
    place: Option<Place>,
    alerts: Vec<Notice>,
    messages: Vec<String>,
    facts: Vec<Fact>,
    /// The end that post-rollout hooks were called for.
    told: Option<(Option<Revision>, Phase)>,
    /// The revision the pre-rollout gate let pass.
    prepared: Option<Revision>,
}

/// The position of a rollout; each event is announced once at each.
type Place = (Phase, Percent, u32, Option<Revision>);

impl Checker {
    pub(super) fn judge_effects(&self, entry: &Entry) -> Verdict {
        let effects = &self.effects;
        if is_write(&entry.event) {
            self.judge_writer(&entry.event)?;
        }
        match &entry.event {
            TraceEvent::ScalerPaused(Workload::Primary) => {
                Err((13, "the primary's scaler was paused".to_owned()))
            }
            TraceEvent::Released => self.judge_release(),
            TraceEvent::Waits(reason) => self.judge_wait(reason),
            TraceEvent::Alerted(notice) => {
                let repeated = effects.alerts.iter().any(|sent| sent.repeats(notice));
                let text = || format!("{notice:?} was sent twice");
                if repeated && effects.is_at(self) { Err((22, text())) } else { Ok(()) }
            }
            TraceEvent::Messaged(text) => {
                let repeated = effects.is_at(self) && effects.messages.contains(text);
                if repeated { Err((22, format!("`{text}` was sent twice"))) } else { Ok(()) }
            }
            TraceEvent::Announced(fact) => self.judge_event(fact),
            TraceEvent::Asked(kind, _) => self.judge_hook(*kind),
            TraceEvent::Planned(_)
            | TraceEvent::TargetIs(_)
            | TraceEvent::PrimaryIs(_)
            | TraceEvent::TargetGone
            | TraceEvent::PrimaryGone
            | TraceEvent::Pods(..)
            | TraceEvent::ScaledByOthers(..)
            | TraceEvent::RouteEdited(_)
            | TraceEvent::ApexEdited(_)
            | TraceEvent::StatusLost
            | TraceEvent::Refused(_)
            | TraceEvent::Deleted
            | TraceEvent::Retried
            | TraceEvent::ClockMoved
            | TraceEvent::Restarted
            | TraceEvent::Leads(_)
            | TraceEvent::Looked
            | TraceEvent::Says(_)
            | TraceEvent::Checked(_)
            | TraceEvent::WriteFailed
            | TraceEvent::Routed { .. }
            | TraceEvent::Scaled(..)
            | TraceEvent::Templated(..)
            | TraceEvent::Remembered(_)
            | TraceEvent::ApexSelects(_)
            | TraceEvent::ScalerPaused(_)
            | TraceEvent::ScalerResumed(_)
            | TraceEvent::Placed
            | TraceEvent::Held
            | TraceEvent::Settled => Ok(()),
        }
    }

    fn judge_writer(&self, event: &TraceEvent) -> Verdict {
        let effects = &self.effects;
        let is_talk = matches!(
            event,
            TraceEvent::Announced(_) | TraceEvent::Alerted(_) | TraceEvent::Messaged(_)
        );
        if effects.is_follower {
            return Err((21, format!("{} after leadership was lost", name(event))));
        }
        if effects.is_refused && !is_talk && !self.is_first_phase(event) {
            return Err((20, format!("{} for a canary that is refused", name(event))));
        }
        if effects.is_settled {
            return Err((15, format!("{} although nothing changed", name(event))));
        }
        if effects.is_released && !is_talk {
            return Err((19, format!("{} after the finalizer was gone", name(event))));
        }
        Ok(())
    }

    /// The status of a new canary gets a phase, and nothing else is remembered.
    fn is_first_phase(&self, event: &TraceEvent) -> bool {
        let TraceEvent::Remembered(next) = event else { return false };
        let first = Memory { phase: Phase::Initializing, since: next.since, ..self.memory.clone() };
        self.memory.phase == Phase::New && **next == first
    }

    fn judge_release(&self) -> Verdict {
        let effects = &self.effects;
        if !self.plan.revert || effects.gave_up || self.target.is_none() {
            return Ok(());
        }
        if effects.is_scaler_paused {
            return Err((13, "the target's scaler is left paused".to_owned()));
        }
        if self.replicas_of(Workload::Target).is_some_and(|replicas| replicas < 1) {
            return Err((19, "the target is left at zero".to_owned()));
        }
        if self.apex == Some(Side::Primary) && self.can_serve(Workload::Target) {
            return Err((19, "clients are left on the primary, which goes away".to_owned()));
        }
        Ok(())
    }

    /// Whether the canary is deleted and its target stays missing: the primary, which clients may use, is
    /// deleted with it.
    pub(super) fn is_abandoned(&self) -> bool {
        let effects = &self.effects;
        effects.is_deleted && self.plan.revert && (effects.gave_up || self.target.is_none())
    }

    fn judge_wait(&self, reason: &str) -> Verdict {
        if reason.is_empty() {
            return Err((16, "the reason for waiting is missing".to_owned()));
        }
        let is_overdue = self.is_stuck(Workload::Target) && self.looked.is_current;
        let can_go_back = self.can_serve(Workload::Primary) && !self.memory.replaces_broken_primary;
        let is_known = self.looked.pods == self.pods;
        if self.is_analysing() && is_overdue && can_go_back && is_known && !self.is_idle() {
            return Err((16, format!("the deadline passed, and it waits for {reason}")));
        }
        Ok(())
    }

    /// Refused, without leadership, or suspended.
    fn is_idle(&self) -> bool {
        self.effects.is_refused || self.effects.is_follower || self.plan.suspended
    }

    fn judge_event(&self, fact: &Fact) -> Verdict {
        if self.effects.is_at(self) && self.effects.facts.contains(fact) {
            return Err((23, format!("{} was told twice", fact.reason())));
        }
        Ok(())
    }

    fn judge_hook(&self, kind: GateKind) -> Verdict {
        let effects = &self.effects;
        let repeated = match kind {
            GateKind::PostRollout => {
                let end = (self.memory.applied.clone(), self.memory.phase);
                effects.told.as_ref() == Some(&end)
            }
            GateKind::PreRollout => {
                effects.prepared.is_some() && effects.prepared == self.memory.applied
            }
            GateKind::ConfirmRollout
            | GateKind::ConfirmTrafficIncrease
            | GateKind::ConfirmPromotion
            | GateKind::Rollback => false,
        };
        if repeated && !effects.was_retried {
            return Err((22, format!("{} hooks were asked twice", kind.as_str())));
        }
        Ok(())
    }

    pub(super) fn learn_effects(&mut self, entry: &Entry) {
        let place = place(self);
        let Self { effects, memory, .. } = self;
        if is_change(&entry.event) {
            effects.is_settled = false;
        }
        match &entry.event {
            TraceEvent::Refused(is_refused) => effects.is_refused = *is_refused,
            TraceEvent::Leads(leads) => effects.is_follower = !leads,
            TraceEvent::Settled => effects.is_settled = true,
            TraceEvent::Held => effects.is_released = false,
            TraceEvent::Deleted => effects.is_deleted = true,
            // Without a deletion nothing ends by it.
            TraceEvent::Released => effects.is_released = effects.is_deleted,
            TraceEvent::ScalerPaused(Workload::Target) => effects.is_scaler_paused = true,
            TraceEvent::ScalerResumed(Workload::Target) => effects.is_scaler_paused = false,
            TraceEvent::Retried => effects.was_retried = true,
            TraceEvent::Restarted => effects.forget(),
            TraceEvent::WriteFailed => (effects.told, effects.prepared) = (None, None),
            TraceEvent::Alerted(notice) => {
                effects.gave_up |= matches!(**notice, Notice::RevertGivenUp(_));
                effects.arrive(place);
                effects.alerts.push((**notice).clone());
            }
            TraceEvent::Messaged(text) => {
                effects.arrive(place);
                effects.messages.push(text.clone());
            }
            TraceEvent::Announced(fact) => {
                effects.arrive(place);
                effects.facts.push((**fact).clone());
            }
            TraceEvent::Asked(GateKind::PostRollout, _) => {
                effects.told = Some((memory.applied.clone(), memory.phase));
            }
            TraceEvent::Asked(GateKind::PreRollout, true) => {
                effects.prepared.clone_from(&memory.applied);
            }
            TraceEvent::Remembered(next)
                if Template::applied(next) != Template::applied(memory) =>
            {
                effects.prepared = None;
            }
            TraceEvent::Remembered(next) if memory.phase.is_idle() != next.phase.is_idle() => {
                effects.told = None;
                effects.prepared = None;
            }
            TraceEvent::Planned(_)
            | TraceEvent::TargetIs(_)
            | TraceEvent::PrimaryIs(_)
            | TraceEvent::TargetGone
            | TraceEvent::PrimaryGone
            | TraceEvent::Pods(..)
            | TraceEvent::ScaledByOthers(..)
            | TraceEvent::RouteEdited(_)
            | TraceEvent::ApexEdited(_)
            | TraceEvent::StatusLost
            | TraceEvent::ClockMoved
            | TraceEvent::Looked
            | TraceEvent::Asked(..)
            | TraceEvent::Checked(_)
            | TraceEvent::Waits(_)
            | TraceEvent::Says(_)
            | TraceEvent::Routed { .. }
            | TraceEvent::Scaled(..)
            | TraceEvent::Templated(..)
            | TraceEvent::Remembered(_)
            | TraceEvent::ApexSelects(_)
            | TraceEvent::ScalerPaused(_)
            | TraceEvent::ScalerResumed(_)
            | TraceEvent::Placed => {}
        }
    }
}

// === impl Effects ===

impl Effects {
    fn is_at(&self, checker: &Checker) -> bool {
        self.place.as_ref() == Some(&place(checker))
    }

    fn arrive(&mut self, place: Place) {
        if self.place.as_ref() != Some(&place) {
            self.place = Some(place);
            self.alerts.clear();
            self.messages.clear();
            self.facts.clear();
        }
    }

    /// A crashed process may repeat every announcement once.
    fn forget(&mut self) {
        self.place = None;
        self.alerts.clear();
        self.messages.clear();
        self.facts.clear();
        self.told = None;
        self.prepared = None;
    }
}

fn place(checker: &Checker) -> Place {
    let memory = &checker.memory;
    (memory.phase, memory.weight, memory.iterations, memory.applied.clone())
}

/// Whether the controller writes to the API server, or to a chat.
fn is_write(event: &TraceEvent) -> bool {
    matches!(
        event,
        TraceEvent::Routed { .. }
            | TraceEvent::Scaled(..)
            | TraceEvent::Templated(..)
            | TraceEvent::Remembered(_)
            | TraceEvent::ApexSelects(_)
            | TraceEvent::ScalerPaused(_)
            | TraceEvent::ScalerResumed(_)
            | TraceEvent::Placed
            | TraceEvent::Held
            | TraceEvent::Released
            | TraceEvent::Alerted(_)
            | TraceEvent::Messaged(_)
            | TraceEvent::Announced(_)
    )
}

/// Whether the world changed in a way that needs a reaction.
fn is_change(event: &TraceEvent) -> bool {
    matches!(
        event,
        TraceEvent::Planned(_)
            | TraceEvent::TargetIs(_)
            | TraceEvent::PrimaryIs(_)
            | TraceEvent::TargetGone
            | TraceEvent::PrimaryGone
            | TraceEvent::Pods(..)
            | TraceEvent::ScaledByOthers(..)
            | TraceEvent::RouteEdited(_)
            | TraceEvent::ApexEdited(_)
            | TraceEvent::StatusLost
            | TraceEvent::Refused(_)
            | TraceEvent::Deleted
            | TraceEvent::Retried
            | TraceEvent::Restarted
    )
}

fn name(event: &TraceEvent) -> &'static str {
    match event {
        TraceEvent::Routed { .. } => "weights were written",
        TraceEvent::Scaled(..) => "a workload was scaled",
        TraceEvent::Templated(..) => "the primary was written",
        TraceEvent::Remembered(_) => "the status was written",
        TraceEvent::ApexSelects(_) => "the apex Service was written",
        TraceEvent::ScalerPaused(_) | TraceEvent::ScalerResumed(_) => "a scaler was written",
        TraceEvent::Held | TraceEvent::Released => "the finalizer was written",
        TraceEvent::Alerted(_) | TraceEvent::Messaged(_) => "an alert was sent",
        TraceEvent::Announced(_) => "an event was written",
        TraceEvent::Planned(_)
        | TraceEvent::TargetIs(_)
        | TraceEvent::PrimaryIs(_)
        | TraceEvent::TargetGone
        | TraceEvent::PrimaryGone
        | TraceEvent::Pods(..)
        | TraceEvent::ScaledByOthers(..)
        | TraceEvent::RouteEdited(_)
        | TraceEvent::ApexEdited(_)
        | TraceEvent::StatusLost
        | TraceEvent::Refused(_)
        | TraceEvent::Deleted
        | TraceEvent::Retried
        | TraceEvent::ClockMoved
        | TraceEvent::Restarted
        | TraceEvent::Leads(_)
        | TraceEvent::Looked
        | TraceEvent::Asked(..)
        | TraceEvent::Checked(_)
        | TraceEvent::WriteFailed
        | TraceEvent::Waits(_)
        | TraceEvent::Says(_)
        | TraceEvent::Placed
        | TraceEvent::Settled => "an object was written",
    }
}
