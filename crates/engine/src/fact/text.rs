//! The sentences of facts: messages of conditions and events.

use super::{Fact, Names};
use crate::{Form, Note};

impl Fact {
    /// The sentence for people.
    #[expect(
        clippy::too_many_lines,
        reason = "a table: a fact without a sentence does not compile"
    )]
    pub fn text(&self, names: &Names) -> String {
        let Names { canary, target, primary, form } = names;
        match self {
            Self::Idle => format!("Nothing to roll out: {primary} runs the current revision."),
            Self::Suspended => {
                format!("{canary} is suspended: set spec.suspend to false to continue.")
            }
            Self::Refused(blockers) => blockers.join("; "),
            Self::Obstructed(why) => format!("{canary} cannot continue: {why}"),
            Self::Placed(piece) => format!("Updated the {}.", piece.as_str()),
            Self::BackendsAvailable => "Every metrics provider answers.".to_owned(),
            Self::BackendsUnavailable(why) => {
                format!(
                    "Checks of {canary} would fail, as a metrics provider does not answer: {why}"
                )
            }
            Self::Noted(note) => note.text(),
            Self::ServiceTakenOver(service) => format!(
                "Service {service} existed before the canary: it selects other pods now, and keeps its other ports."
            ),
            Self::ServiceRecreated { service, headless: true } => {
                format!("Service {service} was recreated as a headless Service.")
            }
            Self::ServiceRecreated { service, headless: false } => {
                format!("Service {service} was recreated with a cluster IP.")
            }
            Self::PolicyDoubtful(findings) => findings.clone(),
            Self::AlertLost { to, why } => {
                format!("An alert about {canary} did not reach {to}: {why}")
            }
            Self::PrimaryNotReady(why) => format!("{primary} is not ready: {why}"),
            Self::PrimaryStuck(why) => {
                format!(
                    "{primary} does not become ready; setup waits for it, and nothing else was changed: {why}"
                )
            }
            Self::Initialized => format!("{canary} is initialized: {primary} serves its traffic."),
            Self::Adopted => {
                format!("Adopted {canary} in its present state, without a new rollout.")
            }
            Self::TargetChanged { former } => {
                format!(
                    "{canary} now has the target {target} and is initialized again; until then the objects of {former} serve. Its primary stays."
                )
            }
            Self::IdleTargetRuns(None) => {
                format!(
                    "{target} runs pods although no rollout is in progress: the tool that applies it must keep the node selector flagger.app/scale-to-zero."
                )
            }
            Self::IdleTargetRuns(Some(replicas)) => {
                format!(
                    "{target} runs {replicas} replicas although no rollout is in progress: scale it to 0, or omit replicas from its manifest."
                )
            }
            Self::GatePassed(kind, hook) => format!("The {} hook {hook} passed.", kind.as_str()),
            Self::AwaitingApproval(gate) => {
                format!("{canary} is waiting for approval to start: {gate}.")
            }
            Self::AwaitingIncrease(gate) => {
                format!("{canary} is waiting for approval of more traffic: {gate}.")
            }
            Self::AwaitingPromotion(gate) => {
                format!("{canary} is waiting for approval of the promotion: {gate}.")
            }
            Self::PreRolloutFailed { hook, why } => {
                format!("The pre-rollout hook {hook} of {canary} failed: {why}")
            }
            Self::RollbackRequested(hook) => {
                format!("The rollback hook {hook} asks to roll back {canary}.")
            }
            Self::RolledBackByHook => {
                format!("{canary} rolls back, as a rollback hook asks.")
            }
            Self::PostRolloutFailed { hook, why } => {
                format!("The post-rollout hook {hook} failed: {why}")
            }
            Self::Held(weight) => {
                format!("{canary} is held at {weight}% until manualStep is resumed or removed.")
            }
            Self::Resumed(weight) => format!("{canary} continues from {weight}%."),
            Self::HoldRaised(weight) => {
                format!("{canary} is now held at {weight}%, as manualStep.weight was raised.")
            }
            Self::NothingToResume => {
                format!("{canary} has nothing to resume; spec.manualStep is removed.")
            }
            Self::ResumeStays(why) => {
                format!("spec.manualStep could not be removed yet: {why}")
            }
            Self::ResumeVoid => format!(
                "The resume of {canary} was for a revision that was replaced since; the new one is held again."
            ),
            Self::NewRevision if *form == Form::Elsewhere => {
                format!("{target} has a new revision.")
            }
            Self::NewRevision => format!("{target} has a new revision and is scaled up."),
            Self::Restarted => {
                format!("{target} changed during the rollout; the analysis starts again.")
            }
            Self::Reverted(_) => {
                format!(
                    "{target} was reverted to the revision that {primary} runs; the rollout ends."
                )
            }
            Self::ScaledUpAgain => {
                format!("{target} was scaled to zero during the rollout and is scaled up again.")
            }
            Self::CanaryNotReady(why) => format!("{target} is not ready: {why}"),
            Self::CanaryDown(why) => {
                format!(
                    "{target} receives traffic and has no available pod, which counts as a failed check: {why}"
                )
            }
            Self::AnalysisStarted => format!("The analysis of {target} begins."),
            Self::CheckFailed(why) => format!("A check of {canary} failed: {why}"),
            Self::Ambiguous(metric) => {
                format!(
                    "The query of metric {metric} has several results, of which one is used. \
                     Sum or average them in the query."
                )
            }
            Self::SecretNotLabelled(text) => text.clone(),
            Self::NoData(why) => {
                format!("A metric of {canary} has no value, which counts as a failed check: {why}")
            }
            Self::AwaitingData(why) => {
                format!(
                    "A metric of {canary} has no value, and the rollout waits until it has one: {why}"
                )
            }
            Self::AwaitingInterval => format!("{canary} waits for the next check."),
            Self::Advanced(weight) => {
                format!("{weight}% of the traffic of {canary} goes to the canary.")
            }
            Self::Mirroring => {
                format!(
                    "Requests to {canary} are mirrored to the canary, and its responses are discarded."
                )
            }
            Self::Iterated { at, of } => {
                format!("{canary} is at iteration {at} of {of}.")
            }
            Self::RoutedToCanary { was_mirrored: false } => {
                "All live traffic goes to the canary.".to_owned()
            }
            Self::RoutedToCanary { was_mirrored: true } => {
                "Mirroring ends; all live traffic goes to the canary.".to_owned()
            }
            Self::PreviousRouteRetired => {
                format!(
                    "{canary} has another route now; the previous one sends all traffic to the primary."
                )
            }
            Self::Drifted { seen, now } => {
                format!("The route of {canary} gave the canary {seen}%; it was set back to {now}%.")
            }
            Self::Copying => format!("{primary} is updated to the revision of {target}."),
            Self::PrimaryAdvanced(weight) => {
                format!("{weight}% of the traffic of {canary} goes to the primary again.")
            }
            Self::RoutedToPrimary => "All live traffic goes to the primary.".to_owned(),
            Self::Promoted if *form == Form::Elsewhere => format!("{target} is promoted."),
            Self::Promoted => format!("{target} is promoted and scaled to zero."),
            Self::PromotedUnchecked if *form == Form::Elsewhere => {
                format!("{target} is promoted without analysis.")
            }
            Self::PromotedUnchecked => {
                format!("{target} is promoted without analysis and scaled to zero.")
            }
            Self::ThresholdReached(count) => {
                format!("{canary} rolls back: {} failed, which is its threshold.", checks(*count))
            }
            Self::DeadlineExceeded(why) => {
                format!("{canary} rolls back, as it made no progress within its deadline: {why}")
            }
            Self::Failed if *form == Form::Elsewhere => {
                format!("This revision of {target} failed.")
            }
            Self::Failed => format!("This revision of {target} failed and is scaled to zero."),
            Self::RollbackHeld(why) => {
                format!(
                    "{canary} should roll back, but {primary} cannot serve, so its traffic does not move: {why}"
                )
            }
            Self::PromotionFailed(why) => {
                format!(
                    "{primary} does not become ready with this revision; the workload that can serve keeps the traffic: {why}"
                )
            }
            Self::Terminating => {
                format!("The canary is being deleted; {target} takes over from {primary}.")
            }
            Self::AwaitingTarget(why) => {
                format!("Waiting for {target} to be ready before {primary} is deleted: {why}")
            }
            Self::Terminated => format!("The canary is deleted; {target} serves without it."),
            Self::TargetLeftAtZero(command) => {
                format!(
                    "Canary {canary} was deleted, and its target runs no pods; start them: {command}"
                )
            }
            Self::RevertGivenUp(why) => format!("Gave up restoring {target}: {why}"),
        }
    }
}

fn checks(count: u32) -> String {
    if count == 1 { "1 check".to_owned() } else { format!("{count} checks") }
}

// === impl Note ===

impl Note {
    fn text(&self) -> String {
        match self {
            Self::MatchIgnored => {
                "Plain Services support blue/green only: match is ignored.".to_owned()
            }
            Self::WeightsIgnored { iterations } => format!(
                "Plain Services support blue/green only: the rollout runs with iterations: {iterations}."
            ),
            Self::ManualStepIgnored => {
                "manualStep has no effect: only a rollout by weight can be held.".to_owned()
            }
            Self::ManualStepBeyondMax { weight, max } => {
                format!(
                    "manualStep.weight {weight} is beyond the maximum weight; holding at {max} instead."
                )
            }
            Self::Ignored(text)
            | Self::Doubtful(text)
            | Self::Unverified(text)
            | Self::Other(text) => text.clone(),
        }
    }
}
