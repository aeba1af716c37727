//! Who may write at all, how often something is told, and what must be over by now: invariants 13,
//! 15, 16 and 19 to 23.

use std::mem;

use crate::{Fact, GateKind, Notice, Percent, Phase, Revision, Side, event_dedup};

use super::{Checker, Entry, Template, Verdict, What, Workload};

/// What was done to the outside.
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
    alerts: Vec<(mem::Discriminant<Notice>, Option<GateKind>)>,
    messages: Vec<String>,
    facts: Vec<Fact>,
    /// The end that post-rollout hooks were told of.
    told: Option<(Option<Revision>, Phase)>,
    /// The revision the pre-rollout gate let pass.
    prepared: Option<Revision>,
}

/// Where a rollout stands; what is told is told once here.
type Place = (Phase, Percent, u32, Option<Revision>);

impl Checker {
    pub(super) fn judge_effects(&self, entry: &Entry) -> Verdict {
        let effects = &self.effects;
        if is_write(&entry.what) {
            self.judge_writer(&entry.what)?;
        }
        match &entry.what {
            What::ScalerPaused(Workload::Primary) => {
                Err((13, "the primary's scaler was paused".to_owned()))
            }
            What::Released => self.judge_release(),
            What::Waits(reason) => self.judge_wait(reason),
            What::Alerted(notice) => {
                let repeated = effects.alerts.contains(&event_dedup::kind(notice));
                let text = || format!("{notice:?} was sent twice");
                if repeated && effects.is_at(self) { Err((22, text())) } else { Ok(()) }
            }
            What::Messaged(text) => {
                let repeated = effects.is_at(self) && effects.messages.contains(text);
                if repeated { Err((22, format!("`{text}` was sent twice"))) } else { Ok(()) }
            }
            What::Announced(fact) => self.judge_event(fact),
            What::Asked(kind, _) => self.judge_hook(*kind),
            _ => Ok(()),
        }
    }

    fn judge_writer(&self, what: &What) -> Verdict {
        let effects = &self.effects;
        let is_talk = matches!(what, What::Announced(_) | What::Alerted(_) | What::Messaged(_));
        if effects.is_follower {
            return Err((21, format!("{} after leadership was lost", name(what))));
        }
        if effects.is_refused && !is_talk {
            return Err((20, format!("{} for a canary that is refused", name(what))));
        }
        if effects.is_settled {
            return Err((15, format!("{} although nothing changed", name(what))));
        }
        if effects.is_released && !is_talk {
            return Err((19, format!("{} after the finalizer was gone", name(what))));
        }
        Ok(())
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

    /// Whether the canary goes, and no target will come back in time: whatever clients are sent to, the
    /// primary goes with it.
    pub(super) fn is_let_go(&self) -> bool {
        let effects = &self.effects;
        effects.is_deleted && self.plan.revert && (effects.gave_up || self.target.is_none())
    }

    fn judge_wait(&self, reason: &str) -> Verdict {
        if reason.is_empty() {
            return Err((16, "nobody says what is waited for".to_owned()));
        }
        let is_overdue = self.is_stuck(Workload::Target) && self.looked.is_current;
        let can_go_back = self.can_serve(Workload::Primary) && !self.memory.replaces_broken_primary;
        let is_known = self.looked.pods == self.pods;
        if self.is_analysing() && is_overdue && can_go_back && is_known && !self.is_idle() {
            return Err((16, format!("the deadline passed, and it waits for {reason}")));
        }
        Ok(())
    }

    /// Not to be acted upon, or told to do nothing.
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
        if is_change(&entry.what) {
            effects.is_settled = false;
        }
        match &entry.what {
            What::Refused(is_refused) => effects.is_refused = *is_refused,
            What::Leads(leads) => effects.is_follower = !leads,
            What::Settled => effects.is_settled = true,
            What::Held => effects.is_released = false,
            What::Deleted => effects.is_deleted = true,
            // Without a deletion nothing ends by it.
            What::Released => effects.is_released = effects.is_deleted,
            What::ScalerPaused(Workload::Target) => effects.is_scaler_paused = true,
            What::ScalerResumed(Workload::Target) => effects.is_scaler_paused = false,
            What::Retried => effects.was_retried = true,
            What::Restarted => effects.forget(),
            What::WriteFailed => (effects.told, effects.prepared) = (None, None),
            What::Alerted(notice) => {
                effects.gave_up |= matches!(**notice, Notice::RevertGivenUp(_));
                effects.arrive(place);
                effects.alerts.push(event_dedup::kind(notice));
            }
            What::Messaged(text) => {
                effects.arrive(place);
                effects.messages.push(text.clone());
            }
            What::Announced(fact) => {
                effects.arrive(place);
                effects.facts.push((**fact).clone());
            }
            What::Asked(GateKind::PostRollout, _) => {
                effects.told = Some((memory.applied.clone(), memory.phase));
            }
            What::Asked(GateKind::PreRollout, true) => effects.prepared.clone_from(&memory.applied),
            What::Remembered(next) if Template::applied(next) != Template::applied(memory) => {
                effects.prepared = None;
            }
            What::Remembered(next) if memory.phase.is_idle() != next.phase.is_idle() => {
                effects.told = None;
                effects.prepared = None;
            }
            _ => {}
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

    /// A process that died may say everything once more.
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
fn is_write(what: &What) -> bool {
    matches!(
        what,
        What::Routed { .. }
            | What::Scaled(..)
            | What::Templated(..)
            | What::Remembered(_)
            | What::ApexSelects(_)
            | What::ScalerPaused(_)
            | What::ScalerResumed(_)
            | What::Placed
            | What::Held
            | What::Released
            | What::Alerted(_)
            | What::Messaged(_)
            | What::Announced(_)
    )
}

/// Whether the world changed in a way that calls for an answer.
fn is_change(what: &What) -> bool {
    matches!(
        what,
        What::Planned(_)
            | What::TargetIs(_)
            | What::PrimaryIs(_)
            | What::TargetGone
            | What::PrimaryGone
            | What::Pods(..)
            | What::ScaledByOthers(..)
            | What::RouteEdited(_)
            | What::ApexEdited(_)
            | What::StatusLost
            | What::Refused(_)
            | What::Deleted
            | What::Retried
            | What::Restarted
    )
}

fn name(what: &What) -> &'static str {
    match what {
        What::Routed { .. } => "weights were written",
        What::Scaled(..) => "a workload was scaled",
        What::Templated(..) => "the primary was written",
        What::Remembered(_) => "the status was written",
        What::ApexSelects(_) => "the apex Service was written",
        What::ScalerPaused(_) | What::ScalerResumed(_) => "a scaler was written",
        What::Held | What::Released => "the finalizer was written",
        What::Alerted(_) | What::Messaged(_) => "an alert was sent",
        What::Announced(_) => "an event was written",
        _ => "an object was written",
    }
}
