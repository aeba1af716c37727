//! Facts as event hooks get them: the phase and the `type`.

use tidegate_engine::{Fact, Phase};

use super::Occasion;

/// The phase that an event hook is sent: the one the fact belongs to, as Flagger has it, also where that
/// is written a moment later or was left a moment ago.
pub fn phase_of(fact: &Fact, phase: Phase) -> Phase {
    match fact {
        Fact::NewRevision | Fact::Restarted => Phase::Progressing,
        Fact::PrimaryAdvanced(..) => Phase::Promoting,
        Fact::Failed => Phase::Failed,
        Fact::Idle
        | Fact::Suspended
        | Fact::Refused(..)
        | Fact::Obstructed(..)
        | Fact::Placed(..)
        | Fact::BackendsAvailable
        | Fact::BackendsUnavailable(..)
        | Fact::Noted(..)
        | Fact::ServiceTakenOver(..)
        | Fact::ServiceRecreated { .. }
        | Fact::AlertLost { .. }
        | Fact::PolicyDoubtful(..)
        | Fact::PrimaryNotReady(..)
        | Fact::PrimaryStuck(..)
        | Fact::Initialized
        | Fact::Adopted
        | Fact::TargetChanged { .. }
        | Fact::GatePassed(..)
        | Fact::AwaitingApproval(..)
        | Fact::AwaitingIncrease(..)
        | Fact::AwaitingPromotion(..)
        | Fact::Reverted(..)
        | Fact::ScaledUpAgain
        | Fact::CanaryNotReady(..)
        | Fact::CanaryDown(..)
        | Fact::AnalysisStarted
        | Fact::PreRolloutFailed { .. }
        | Fact::CheckFailed(..)
        | Fact::Ambiguous(..)
        | Fact::SecretNotLabelled(..)
        | Fact::NoData(..)
        | Fact::AwaitingData(..)
        | Fact::AwaitingInterval
        | Fact::Advanced(..)
        | Fact::Mirroring
        | Fact::Iterated { .. }
        | Fact::RoutedToCanary { .. }
        | Fact::PreviousRouteRetired
        | Fact::Drifted { .. }
        | Fact::Copying
        | Fact::RoutedToPrimary
        | Fact::Promoted
        | Fact::PromotedUnchecked
        | Fact::Held(..)
        | Fact::Resumed(..)
        | Fact::HoldRaised(..)
        | Fact::NothingToResume
        | Fact::ResumeVoid
        | Fact::ResumeStays(..)
        | Fact::RollbackRequested(..)
        | Fact::RolledBackByHook
        | Fact::ThresholdReached(..)
        | Fact::DeadlineExceeded(..)
        | Fact::RollbackHeld(..)
        | Fact::PromotionFailed(..)
        | Fact::PostRolloutFailed { .. }
        | Fact::IdleTargetRuns(..)
        | Fact::Terminating
        | Fact::AwaitingTarget(..)
        | Fact::Terminated
        | Fact::TargetLeftAtZero(..)
        | Fact::RevertGivenUp(..) => phase,
    }
}

/// The `type` that an event hook is sent.
pub fn occasion(fact: &Fact) -> Option<Occasion> {
    match fact {
        Fact::NewRevision | Fact::AnalysisStarted | Fact::Restarted => Some(Occasion::Rollout),
        Fact::ThresholdReached(..)
        | Fact::DeadlineExceeded(..)
        | Fact::RolledBackByHook
        | Fact::Failed
        | Fact::PromotionFailed(..) => Some(Occasion::Rollback),
        Fact::CheckFailed(..)
        | Fact::NoData(..)
        | Fact::PreRolloutFailed { .. }
        | Fact::CanaryDown(..) => Some(Occasion::Analysis),
        Fact::Idle
        | Fact::Suspended
        | Fact::Refused(..)
        | Fact::Obstructed(..)
        | Fact::Placed(..)
        | Fact::BackendsAvailable
        | Fact::BackendsUnavailable(..)
        | Fact::Noted(..)
        | Fact::ServiceTakenOver(..)
        | Fact::ServiceRecreated { .. }
        | Fact::AlertLost { .. }
        | Fact::PolicyDoubtful(..)
        | Fact::PrimaryNotReady(..)
        | Fact::PrimaryStuck(..)
        | Fact::Initialized
        | Fact::Adopted
        | Fact::TargetChanged { .. }
        | Fact::GatePassed(..)
        | Fact::AwaitingApproval(..)
        | Fact::AwaitingIncrease(..)
        | Fact::AwaitingPromotion(..)
        | Fact::Reverted(..)
        | Fact::ScaledUpAgain
        | Fact::CanaryNotReady(..)
        | Fact::Ambiguous(..)
        | Fact::SecretNotLabelled(..)
        | Fact::AwaitingData(..)
        | Fact::AwaitingInterval
        | Fact::Advanced(..)
        | Fact::Mirroring
        | Fact::Iterated { .. }
        | Fact::RoutedToCanary { .. }
        | Fact::PreviousRouteRetired
        | Fact::Drifted { .. }
        | Fact::Copying
        | Fact::PrimaryAdvanced(..)
        | Fact::RoutedToPrimary
        | Fact::Promoted
        | Fact::PromotedUnchecked
        | Fact::Held(..)
        | Fact::Resumed(..)
        | Fact::HoldRaised(..)
        | Fact::NothingToResume
        | Fact::ResumeVoid
        | Fact::ResumeStays(..)
        | Fact::RollbackRequested(..)
        | Fact::RollbackHeld(..)
        | Fact::PostRolloutFailed { .. }
        | Fact::IdleTargetRuns(..)
        | Fact::Terminating
        | Fact::AwaitingTarget(..)
        | Fact::Terminated
        | Fact::TargetLeftAtZero(..)
        | Fact::RevertGivenUp(..) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_phase_is_that_of_the_fact_where_the_fact_changes_it() {
        let cases = [
            (Fact::NewRevision, Phase::Progressing, Some(Occasion::Rollout)),
            (Fact::Failed, Phase::Failed, Some(Occasion::Rollback)),
            (Fact::CheckFailed(String::new()), Phase::Succeeded, Some(Occasion::Analysis)),
            (Fact::Idle, Phase::Succeeded, None),
        ];
        for (fact, phase, kind) in cases {
            assert_eq!(phase_of(&fact, Phase::Succeeded), phase, "{fact:?}");
            assert_eq!(occasion(&fact), kind, "{fact:?}");
        }
    }
}
