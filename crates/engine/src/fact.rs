//! Facts: the one vocabulary of events, conditions and explanations.
//!
//! A fact has a fixed reason (a word for machines), a tone (is something wrong?) and a sentence
//! for people. Sentences are made when they are read, not when the decision is taken.

mod text;

use crate::{Form, ManagedObject, Note, Percent, Phase, Unready};

/// A fact worth announcing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// Nothing to do.
    Idle,
    /// The user suspended this canary.
    Suspended,
    /// This canary must not be acted upon.
    Refused(Vec<String>),
    /// An object around the workloads cannot be put in place.
    Obstructed(String),
    /// An object was put in place.
    Placed(ManagedObject),
    /// Metric backends answer.
    BackendsAvailable,
    /// A metric backend does not answer.
    BackendsUnavailable(String),
    /// Part of the plan cannot be carried out as written.
    Noted(Note),
    /// A Service of that name, which existed before, was pointed at other pods.
    ServiceTakenOver(String),
    /// A Service was deleted and made again: it cannot be edited into a headless one, or back.
    ServiceRecreated {
        /// Its name.
        service: String,
        /// Whether it has no address of its own from now on.
        headless: bool,
    },
    /// Parts of the policy that are probably not meant so, in sentences. Recorded by the operator when they change.
    PolicyDoubtful(String),
    /// A chat message could not be delivered, and is given up.
    AlertLost {
        /// The receiver.
        to: String,
        /// The obstacle.
        why: String,
    },
    /// The primary is not ready yet.
    PrimaryNotReady(Unready),
    /// The primary does not become ready.
    PrimaryStuck(String),
    /// Everything is set up.
    Initialized,
    /// A canary of another controller was taken over.
    Adopted,
    /// The spec names another workload than the primary was made for.
    TargetChanged {
        /// The previous one.
        former: String,
    },
    /// A gate passed.
    GatePassed(GateKind, String),
    /// The gate before a rollout is closed.
    AwaitingApproval(String),
    /// The gate before an increase is closed.
    AwaitingIncrease(String),
    /// The gate before promotion is closed.
    AwaitingPromotion(String),
    /// A rollout starts.
    NewRevision,
    /// The target or its configuration changed in mid-flight.
    Restarted,
    /// The target was reverted to the revision of the primary.
    Reverted(Phase),
    /// The canary was scaled to nothing in mid-flight.
    ScaledUpAgain,
    /// The canary is not ready yet.
    CanaryNotReady(Unready),
    /// The canary has a share of traffic and no pod that can serve it.
    CanaryDown(String),
    /// The analysis begins.
    AnalysisStarted,
    /// The gate before any traffic failed.
    PreRolloutFailed {
        /// Name of the hook.
        hook: String,
        /// The answer of the hook.
        why: String,
    },
    /// A check failed; the sentence says which and how.
    CheckFailed(String),
    /// The query of this metric has several results, and which one counts is chance.
    Ambiguous(String),
    /// A Secret is sent to a metric server without a label of consent: a sentence with the Secret and the server.
    SecretNotLabelled(String),
    /// There was nothing to measure, which is a failed check.
    NoData(String),
    /// There was nothing to measure, and the user would rather wait than count it.
    AwaitingData(String),
    /// Waiting for the next interval.
    AwaitingInterval,
    /// The canary has a larger share.
    Advanced(Percent),
    /// The canary gets copies of requests.
    Mirroring,
    /// Another check passed.
    Iterated {
        /// Checks passed.
        at: u32,
        /// Checks needed.
        of: u32,
    },
    /// All live traffic goes to the canary.
    RoutedToCanary {
        /// Copies ended with it.
        was_mirrored: bool,
    },
    /// The previous route gives the canary no traffic any more.
    PreviousRouteRetired,
    /// The routing object had other weights than we wrote.
    Drifted {
        /// The canary's share in the route.
        seen: Percent,
        /// The canary's share from now on.
        now: Percent,
    },
    /// The primary is given the new template.
    Copying,
    /// The primary has a larger share.
    PrimaryAdvanced(Percent),
    /// All live traffic goes to the primary.
    RoutedToPrimary,
    /// The revision was promoted.
    Promoted,
    /// The rollout is over, without analysis.
    PromotedUnchecked,
    /// Held by hand.
    Held(Percent),
    /// A person lets it go on.
    Resumed(Percent),
    /// The share to hold at was raised.
    HoldRaised(Percent),
    /// There was nothing to resume.
    NothingToResume,
    /// The resume was meant for a revision that is gone.
    ResumeVoid,
    /// The rollout goes on, but the field that requested it is still there.
    ResumeStays(String),
    /// A hook requests a rollback.
    RollbackRequested(String),
    /// The rollout was rolled back by a hook.
    RolledBackByHook,
    /// Too many checks failed.
    ThresholdReached(u32),
    /// The canary did not become ready in time.
    DeadlineExceeded(String),
    /// The rollout was rolled back.
    Failed,
    /// The rollout should be rolled back, but the primary cannot serve.
    RollbackHeld(String),
    /// The primary does not become ready with the new revision.
    PromotionFailed(String),
    /// A post-rollout hook failed, which changes nothing.
    PostRolloutFailed {
        /// Name of the hook.
        hook: String,
        /// The answer of the hook.
        why: String,
    },
    /// The workload runs although nothing is rolled out, with so many replicas if they are counted.
    IdleTargetRuns(Option<i64>),
    /// Everything is being restored.
    Terminating,
    /// The target is scaled up again.
    AwaitingTarget(String),
    /// Everything was restored.
    Terminated,
    /// The canary was deleted and its target runs no pods; the command that scales it up.
    TargetLeftAtZero(String),
    /// Not everything could be restored in time.
    RevertGivenUp(String),
}

/// The kinds of gates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GateKind {
    /// Before a rollout.
    ConfirmRollout,
    /// Before any traffic.
    PreRollout,
    /// Before an increase.
    ConfirmTrafficIncrease,
    /// Before promotion.
    ConfirmPromotion,
    /// After the end.
    PostRollout,
    /// At any time, to roll back.
    Rollback,
}

/// Whether something is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// Nothing is wrong.
    Normal,
    /// People may want to know.
    Warning,
}

/// Names of the workloads in sentences.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// `name.namespace` of the canary.
    pub canary: String,
    /// `name.namespace` of the target.
    pub target: String,
    /// `name.namespace` of the primary.
    pub primary: String,
    /// The form of the target: pods that are not ours are neither started nor stopped.
    pub form: Form,
}

// === impl Names ===

impl Names {
    /// Of a canary and its target, in one namespace.
    pub fn of(namespace: &str, canary: &str, target: &str, form: Form) -> Self {
        Self {
            canary: format!("{canary}.{namespace}"),
            target: format!("{target}.{namespace}"),
            primary: format!("{target}-primary.{namespace}"),
            form,
        }
    }
}

// === impl GateKind ===

impl GateKind {
    /// The word in specs and events.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ConfirmRollout => "confirm-rollout",
            Self::PreRollout => "pre-rollout",
            Self::ConfirmTrafficIncrease => "confirm-traffic-increase",
            Self::ConfirmPromotion => "confirm-promotion",
            Self::PostRollout => "post-rollout",
            Self::Rollback => "rollback",
        }
    }

    const fn passed(self) -> &'static str {
        match self {
            Self::ConfirmRollout => "RolloutApproved",
            Self::PreRollout => "PreRolloutPassed",
            Self::ConfirmTrafficIncrease => "TrafficIncreaseApproved",
            Self::ConfirmPromotion => "PromotionApproved",
            Self::PostRollout => "PostRolloutPassed",
            Self::Rollback => "RollbackRequested",
        }
    }
}

// === impl Fact ===

impl Fact {
    /// The word for machines: stable, one per kind of fact.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Idle => "Idle",
            Self::Suspended => "Suspended",
            Self::Refused(_) => "Refused",
            Self::Obstructed(_) => "Obstructed",
            Self::Placed(_) => "ObjectWritten",
            Self::BackendsAvailable => "MetricsAvailable",
            Self::BackendsUnavailable(_) => "MetricsUnavailable",
            Self::Noted(Note::Doubtful(_)) => "MetricDoubtful",
            Self::Noted(Note::Unverified(_)) => "CertificateNotVerified",
            Self::Noted(_) => "NotSupported",
            Self::ServiceTakenOver(_) => "ServiceTakenOver",
            Self::ServiceRecreated { .. } => "ServiceRecreated",
            Self::PolicyDoubtful(_) => "PolicyDoubtful",
            Self::AlertLost { .. } => "AlertNotDelivered",
            Self::PrimaryNotReady(_) => "PrimaryNotReady",
            Self::PrimaryStuck(_) => "PrimaryStuck",
            Self::Initialized => "Initialized",
            Self::Adopted => "Adopted",
            Self::TargetChanged { .. } => "TargetChanged",
            Self::GatePassed(kind, _) => kind.passed(),
            Self::AwaitingApproval(_) => "WaitingForApproval",
            Self::AwaitingIncrease(_) => "WaitingForTrafficApproval",
            Self::AwaitingPromotion(_) => "WaitingForPromotionApproval",
            Self::NewRevision => "NewRevision",
            Self::Restarted => "AnalysisRestarted",
            Self::Reverted(_) => "RevisionReverted",
            Self::ScaledUpAgain => "CanaryScaledUp",
            Self::CanaryNotReady(_) => "CanaryNotReady",
            Self::CanaryDown(_) => "CanaryDown",
            Self::AnalysisStarted => "AnalysisStarted",
            Self::PreRolloutFailed { .. } => "PreRolloutFailed",
            Self::CheckFailed(_) => "CheckFailed",
            Self::Ambiguous(_) => "MetricAmbiguous",
            Self::SecretNotLabelled(_) => "SecretNotLabelled",
            Self::NoData(_) => "NotEnoughData",
            Self::AwaitingData(_) => "WaitingForData",
            Self::AwaitingInterval => "WaitingForInterval",
            Self::Advanced(_) => "WeightAdvanced",
            Self::Mirroring => "Mirroring",
            Self::Iterated { .. } => "IterationPassed",
            Self::RoutedToCanary { .. } => "RoutedToCanary",
            Self::PreviousRouteRetired => "RouteLeft",
            Self::Drifted { .. } => "RouteCorrected",
            Self::Copying => "PromotionStarted",
            Self::PrimaryAdvanced(_) => "PrimaryWeightAdvanced",
            Self::RoutedToPrimary => "RoutedToPrimary",
            Self::Promoted => "Promoted",
            Self::PromotedUnchecked => "PromotedWithoutAnalysis",
            Self::Held(_) => "Paused",
            Self::Resumed(_) => "Resumed",
            Self::HoldRaised(_) => "PauseMoved",
            Self::NothingToResume => "NothingToResume",
            Self::ResumeVoid => "ResumeIgnored",
            Self::ResumeStays(_) => "ManualStepNotRemoved",
            Self::RollbackRequested(_) => "RollbackRequested",
            Self::RolledBackByHook => "RolledBackByHook",
            Self::ThresholdReached(_) => "ThresholdReached",
            Self::DeadlineExceeded(_) => "ProgressDeadlineExceeded",
            Self::Failed => "Failed",
            Self::RollbackHeld(_) => "RollbackHeld",
            Self::PromotionFailed(_) => "PromotionFailed",
            Self::PostRolloutFailed { .. } => "PostRolloutFailed",
            Self::IdleTargetRuns(_) => "IdleTargetRuns",
            Self::Terminating => "Terminating",
            Self::AwaitingTarget(_) => "TargetNotReady",
            Self::Terminated => "Terminated",
            Self::TargetLeftAtZero(_) => "TargetLeftAtZero",
            Self::RevertGivenUp(_) => "RevertGivenUp",
        }
    }

    /// True at every check of a rollout, and announced once.
    pub(crate) const fn is_lasting(&self) -> bool {
        matches!(self, Self::Ambiguous(_))
    }

    /// Whether an earlier fact said the same: pods come up one by one, and only another cause is news.
    pub(crate) fn repeats(&self, earlier: &Self) -> bool {
        match (self, earlier) {
            (Self::PrimaryNotReady(now), Self::PrimaryNotReady(then))
            | (Self::CanaryNotReady(now), Self::CanaryNotReady(then)) => {
                now.cause.is_none() || now.cause == then.cause
            }
            _ => self == earlier,
        }
    }

    /// Whether something is wrong.
    pub const fn tone(&self) -> Tone {
        match self {
            Self::Idle
            | Self::Suspended
            | Self::Placed(_)
            | Self::BackendsAvailable
            | Self::ServiceTakenOver(_)
            | Self::Initialized
            | Self::Adopted
            | Self::TargetChanged { .. }
            | Self::GatePassed(..)
            | Self::NewRevision
            | Self::Restarted
            | Self::Reverted(_)
            | Self::AnalysisStarted
            | Self::AwaitingInterval
            | Self::Advanced(_)
            | Self::Mirroring
            | Self::Iterated { .. }
            | Self::RoutedToCanary { .. }
            | Self::PreviousRouteRetired
            | Self::Copying
            | Self::PrimaryAdvanced(_)
            | Self::RoutedToPrimary
            | Self::Promoted
            | Self::PromotedUnchecked
            | Self::Held(_)
            | Self::Resumed(_)
            | Self::HoldRaised(_)
            | Self::NothingToResume
            | Self::Terminating
            | Self::AwaitingTarget(_)
            | Self::Terminated => Tone::Normal,
            Self::Refused(_)
            | Self::Obstructed(_)
            | Self::BackendsUnavailable(_)
            | Self::Noted(_)
            | Self::ServiceRecreated { .. }
            | Self::PolicyDoubtful(_)
            | Self::AlertLost { .. }
            | Self::PrimaryNotReady(_)
            | Self::PrimaryStuck(_)
            | Self::AwaitingApproval(_)
            | Self::AwaitingIncrease(_)
            | Self::AwaitingPromotion(_)
            | Self::ScaledUpAgain
            | Self::CanaryNotReady(_)
            | Self::CanaryDown(_)
            | Self::PreRolloutFailed { .. }
            | Self::CheckFailed(_)
            | Self::Ambiguous(_)
            | Self::SecretNotLabelled(_)
            | Self::NoData(_)
            | Self::AwaitingData(_)
            | Self::Drifted { .. }
            | Self::ResumeVoid
            | Self::ResumeStays(_)
            | Self::RollbackRequested(_)
            | Self::RolledBackByHook
            | Self::ThresholdReached(_)
            | Self::DeadlineExceeded(_)
            | Self::Failed
            | Self::RollbackHeld(_)
            | Self::PromotionFailed(_)
            | Self::PostRolloutFailed { .. }
            | Self::IdleTargetRuns(_)
            | Self::TargetLeftAtZero(_)
            | Self::RevertGivenUp(_) => Tone::Warning,
        }
    }
}

// === impl ManagedObject ===

impl ManagedObject {
    /// Its name in sentences.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CanaryService => "canary Service",
            Self::PrimaryService => "primary Service",
            Self::Primary => "primary workload",
            Self::PrimaryScaler => "primary scaler",
            Self::ApexService => "apex Service",
            Self::Route => "routing objects",
        }
    }
}
