//! The sentences of facts: messages of conditions and events.

use super::{Fact, Names};
use crate::{Form, Note};

impl Fact {
    /// The sentence for people.
    pub fn text(&self, names: &Names) -> String {
        self.text_of_setup(names)
            .or_else(|| self.text_of_gate(names))
            .or_else(|| self.text_of_progress(names))
            .unwrap_or_else(|| self.text_of_end(names))
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "sentences of one part of a rollout")]
    fn text_of_setup(&self, names: &Names) -> Option<String> {
        let Names { canary, target, primary, .. } = names;
        Some(match self {
            Self::Idle => format!("Nothing to roll out: {primary} runs the current revision."),
            Self::Suspended => {
                format!("{canary} is suspended: nothing is done until that is lifted.")
            }
            Self::Refused(blockers) => blockers.join("; "),
            Self::Obstructed(why) => format!("{canary} cannot go on: {why}"),
            Self::Placed(piece) => format!("Put the {} in place.", piece.as_str()),
            Self::BackendsAvailable => "Every metric backend answers.".to_owned(),
            Self::BackendsUnavailable(why) => {
                format!("Checks of {canary} would fail, a metric backend does not answer: {why}")
            }
            Self::Noted(note) => note.text(),
            Self::ServiceTakenOver(service) => format!(
                "Service {service} existed before; it leads to other pods from now on, and its other ports stay."
            ),
            Self::ServiceRecreated { service, headless: true } => format!(
                "Service {service} was deleted and made again without an address of its own (headless)."
            ),
            Self::ServiceRecreated { service, headless: false } => {
                format!("Service {service} was deleted and made again with an address of its own.")
            }
            Self::AlertLost { to, why } => {
                format!("A message about {canary} did not reach {to}: {why}")
            }
            Self::PrimaryNotReady(why) => format!("{primary} is not ready: {why}"),
            Self::PrimaryStuck(why) => {
                format!(
                    "{primary} does not become ready and is left to retry, nothing else was touched: {why}"
                )
            }
            Self::Initialized => format!("{canary} is set up: {primary} serves its traffic."),
            Self::Adopted => format!("Took over {canary} as it was left, without a new rollout."),
            Self::TargetChanged { former } => {
                format!(
                    "{canary} has the target {target} now and is set up anew; what was made for {former} serves until then, and its primary stays."
                )
            }
            Self::IdleTargetRuns(None) => {
                format!(
                    "{} runs its pods although nothing is rolled out; have what re-applies it keep the node selector flagger.app/scale-to-zero.",
                    names.target
                )
            }
            Self::IdleTargetRuns(Some(replicas)) => {
                format!(
                    "{} runs {replicas} replicas although nothing is rolled out; scale it to 0, or leave replicas out of its manifest.",
                    names.target
                )
            }
            _ => return None,
        })
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "sentences of one part of a rollout")]
    fn text_of_gate(&self, names: &Names) -> Option<String> {
        let Names { canary, .. } = names;
        Some(match self {
            Self::GatePassed(kind, hook) => format!("The {} hook {hook} said yes.", kind.as_str()),
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
                format!("{canary} is held, the pre-rollout check {hook} failed: {why}")
            }
            Self::RollbackAsked(hook) => format!("The rollback hook {hook} calls {canary} back."),
            Self::RolledBackByHook => {
                format!("{canary} goes back to its primary, as a hook asks.")
            }
            Self::PostRolloutFailed { hook, why } => {
                format!("The post-rollout hook {hook} did not take it: {why}")
            }
            Self::Held(weight) => {
                format!("{canary} is held at {weight}% until manualStep is resumed or removed.")
            }
            Self::Resumed(weight) => format!("{canary} goes on from {weight}%."),
            Self::HoldRaised(weight) => {
                format!("The manual pause of {canary} moved up to {weight}%.")
            }
            Self::NothingToResume => {
                format!("{canary} has nothing to resume; removing manualStep.")
            }
            Self::ResumeStays(why) => {
                format!("spec.manualStep stays for now, it could not be removed: {why}")
            }
            Self::ResumeVoid => format!(
                "The resume of {canary} was meant for a revision that was replaced; the new one pauses again."
            ),
            _ => return None,
        })
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "sentences of one part of a rollout")]
    fn text_of_progress(&self, names: &Names) -> Option<String> {
        let Names { canary, target, primary, form } = names;
        Some(match self {
            Self::NewRevision if *form == Form::Elsewhere => {
                format!("{target} has a new revision.")
            }
            Self::NewRevision => format!("{target} has a new revision; its pods are started."),
            Self::Restarted => {
                format!("{target} changed in mid-rollout; the analysis starts from the beginning.")
            }
            Self::WentBack(_) => {
                format!("{target} is back at the revision {primary} runs; the rollout ends here.")
            }
            Self::ScaledUpAgain => {
                format!("{target} was scaled to zero in mid-rollout; scaling it up again.")
            }
            Self::CanaryNotReady(why) => format!("{target} is not ready: {why}"),
            Self::CanaryDown(why) => {
                format!(
                    "{target} has a share of traffic and no pod to serve it, a failed check: {why}"
                )
            }
            Self::AnalysisStarted => format!("The analysis of {target} begins."),
            Self::CheckFailed(why) => format!("{canary} is held: {why}"),
            Self::Ambiguous(metric) => {
                format!(
                    "The query of metric {metric} has several results, and only one of them counts. \
                     Sum or average them in the query."
                )
            }
            Self::NoData(why) => {
                format!("{canary} cannot be judged, which counts as a failed check: {why}")
            }
            Self::AwaitingData(why) => {
                format!("{canary} cannot be judged and stays where it is until it can: {why}")
            }
            Self::AwaitingInterval => format!("{canary} waits for the next check."),
            Self::Advanced(weight) => {
                format!("{weight}% of the traffic of {canary} goes to the canary.")
            }
            Self::Mirroring => {
                format!(
                    "The canary gets copies of the requests to {canary}; its answers go nowhere."
                )
            }
            Self::Iterated { at, of } => {
                format!("{canary} is at iteration {at} of {of}.")
            }
            Self::RoutedToCanary { was_mirrored: false } => {
                "All live traffic goes to the canary.".to_owned()
            }
            Self::RoutedToCanary { was_mirrored: true } => {
                "Copies end; all live traffic goes to the canary.".to_owned()
            }
            Self::RouteLeft => {
                format!(
                    "{canary} has another route now; the one before leads everybody to the primary."
                )
            }
            Self::Drifted { seen, now } => {
                format!("The route of {canary} gave the canary {seen}%; it is back at {now}%.")
            }
            Self::Copying => format!("{primary} is given what {target} runs."),
            Self::PrimaryAdvanced(weight) => {
                format!("{weight}% of the traffic of {canary} is on the primary again.")
            }
            Self::RoutedToPrimary => "All live traffic goes to the primary.".to_owned(),
            _ => return None,
        })
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "sentences of one part of a rollout")]
    fn text_of_end(&self, names: &Names) -> String {
        let Names { canary, target, primary, form } = names;
        match self {
            Self::Promoted if *form == Form::Elsewhere => format!("{target} is promoted."),
            Self::Promoted => format!("{target} is promoted, and its own pods are stopped."),
            Self::PromotedUnchecked if *form == Form::Elsewhere => {
                format!("{target} is promoted without analysis.")
            }
            Self::PromotedUnchecked => {
                format!("{target} is promoted without analysis, and its own pods are stopped.")
            }
            Self::ThresholdReached(count) => {
                format!("{canary} goes back: {} failed, which is its threshold.", checks(*count))
            }
            Self::DeadlineExceeded(why) => {
                format!("{canary} goes back, as nothing moved within its deadline: {why}")
            }
            Self::Failed if *form == Form::Elsewhere => {
                format!("This revision of {target} failed.")
            }
            Self::Failed => format!("This revision of {target} failed; its pods are stopped."),
            Self::RollbackHeld(why) => {
                format!(
                    "{canary} should go back, but {primary} cannot serve; traffic stays where it is: {why}"
                )
            }
            Self::PromotionFailed(why) => {
                format!(
                    "{primary} does not become ready with this revision; whoever can serve keeps the traffic: {why}"
                )
            }
            Self::Terminating => {
                format!("The canary is being deleted; {target} takes over from {primary}.")
            }
            Self::AwaitingTarget(why) => {
                format!("Waiting for {target} to serve before {primary} goes: {why}")
            }
            Self::Terminated => format!("The canary is gone; {target} serves without it."),
            Self::RevertGivenUp(why) => format!("Gave up restoring {target}: {why}"),
            _ => String::new(),
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
                "Plain Services cannot tell requests apart; they support blue/green, and match is ignored."
                    .to_owned()
            }
            Self::WeightsIgnored { iterations } => format!(
                "Plain Services cannot divide traffic; they support blue/green, and it runs as that with iterations: {iterations}."
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
