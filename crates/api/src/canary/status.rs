//! `status` of a `Canary`: the controller's memory between two ticks.
//!
//! Written by patches only, so that members of another version survive. Phase and counters are
//! always written, zero included; everything else is left out when empty.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema::{Integer, Number, Timestamp};

/// Where a rollout stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CanaryStatus {
    /// Phase of the rollout.
    #[serde(default)]
    pub phase: CanaryPhase,
    /// Number of failed checks of the current rollout.
    #[serde(default)]
    #[schemars(with = "Number")]
    pub failed_checks: i64,
    /// Share of traffic in percent that goes to the canary.
    #[serde(default)]
    #[schemars(with = "Number")]
    pub canary_weight: i64,
    /// Number of passing checks of the current rollout, for A/B testing and blue/green.
    #[serde(default)]
    #[schemars(with = "Number")]
    pub iterations: i64,
    /// Checksums of the configuration the workload uses, by `configmap/<name>` and
    /// `secret/<name>`. Absent when configuration is not tracked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tracked_configs: Option<BTreeMap<String, String>>,
    /// Hash of the revision last started or judged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_applied_spec: Option<String>,
    /// Hash of the revision the primary runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_promoted_spec: Option<String>,
    /// Time phase, weight or iterations last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Timestamp>")]
    pub last_transition_time: Option<Time>,
    /// Cookie of users of the canary, for the current rollout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_affinity_cookie: Option<String>,
    /// Cookie of the previous rollout, which browsers are told to drop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_session_affinity_cookie: Option<String>,
    /// Cookie of users of the primary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub primary_session_affinity_cookie: Option<String>,
    /// `Promoted` for `kubectl wait`; `Ready`, `Reconciling` and `Stalled` say what is waited for and
    /// what to do about it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<CanaryCondition>,
    /// Present while the rollout is paused by `spec.manualStep`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manual_pause: Option<ManualPause>,
    /// Generation of the spec this status was written for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Integer>")]
    pub observed_generation: Option<i64>,
    /// The last decision: the observations, the limits, and the next step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_decision: Option<LastDecision>,
    /// The controller's memory in the middle of a rollout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout: Option<RolloutMemory>,
}

/// A decision of the controller, for people and tools.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LastDecision {
    /// Time of the decision.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Timestamp>")]
    pub time: Option<Time>,
    /// One word for machines, such as `WeightAdvanced`.
    #[serde(default)]
    pub reason: String,
    /// The same in a sentence.
    #[serde(default)]
    pub message: String,
    /// The measured values and their limits; at most 20.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckResult>,
    /// When the next step can be taken at the earliest.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Timestamp>")]
    pub next: Option<Time>,
}

/// A measured value against its limits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckResult {
    /// Name of the metric.
    #[serde(default)]
    pub name: String,
    /// The measured value as text, so that it is shown as it was compared.
    #[serde(default)]
    pub value: String,
    /// Least accepted value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<String>,
    /// Largest accepted value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<String>,
    /// Whether it was accepted.
    #[serde(default)]
    pub passed: bool,
}

/// The controller's memory in the middle of a rollout.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutMemory {
    /// The pre-rollout hooks of this rollout have passed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub prepared: bool,
    /// This rollout replaces a primary that never became ready; traffic stays on the canary.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rescue: bool,
    /// The end of the rollout that the post-rollout hooks have not been told of yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub untold: Option<String>,
    /// Since when something keeps the rollout from going on.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Timestamp>")]
    pub trouble_since: Option<Time>,
    /// Since when checks with `onNoData: hold` have had no data.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Timestamp>")]
    pub no_data_since: Option<Time>,
    /// Time since which the canary is below its ready threshold in this rollout, for kinds whose own
    /// status has no timestamp.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Timestamp>")]
    pub canary_lacking_since: Option<Time>,
    /// The same for the primary.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Timestamp>")]
    pub primary_lacking_since: Option<Time>,
    /// The revision of a Service of Knative that is the primary, for the day its annotation is lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub primary_revision: Option<String>,
    /// The workload that the primary was made for, and of which a rollout may be under way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<TargetMemory>,
    /// The provider whose routing objects there may be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The routing object that may have a share of traffic for the canary, while a rollout is under
    /// way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<RouteMemory>,
}

/// A workload that is rolled out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TargetMemory {
    /// Group and version of its kind.
    #[serde(default)]
    pub api_version: String,
    /// Its kind.
    #[serde(default)]
    pub kind: String,
    /// Its name.
    #[serde(default)]
    pub name: String,
}

/// A routing object that divides traffic.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RouteMemory {
    /// The provider that it is of.
    #[serde(default)]
    pub provider: String,
    /// Kind of the object.
    #[serde(default)]
    pub kind: String,
    /// Name of the object.
    #[serde(default)]
    pub name: String,
    /// Name of the apex Service whose traffic it divides.
    #[serde(default)]
    pub service: String,
}

/// The phases of a rollout.
///
/// A text that is none of them decodes as [`CanaryPhase::Unset`]: a status of another version is
/// no reason to ignore the whole object.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum CanaryPhase {
    /// The primary is being set up.
    Initializing,
    /// The primary runs; nothing was rolled out yet.
    Initialized,
    /// Waiting for approval to start, or paused by `spec.manualStep`.
    Waiting,
    /// A new revision is being analysed.
    Progressing,
    /// Waiting for approval to promote.
    WaitingPromotion,
    /// The primary is being updated.
    Promoting,
    /// All traffic is going back to the primary.
    Finalising,
    /// The last rollout was promoted.
    Succeeded,
    /// The last rollout was rolled back.
    Failed,
    /// The canary is being deleted, and its objects are restored.
    Terminating,
    /// The canary was deleted, and its objects are restored.
    Terminated,
    /// No phase yet, or one of another version.
    #[default]
    #[serde(rename = "", other)]
    Unset,
}

/// A condition of a canary.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CanaryCondition {
    /// Name of the condition.
    #[serde(rename = "type")]
    pub condition_type: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Why, in a word; of `Promoted` the phase, or `RevisionReverted`.
    pub reason: String,
    /// The same for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Time the condition was last written.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Timestamp>")]
    pub last_update_time: Option<Time>,
    /// Time `status` last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Timestamp>")]
    pub last_transition_time: Option<Time>,
}

/// A pause asked for by `spec.manualStep`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManualPause {
    /// Share of traffic in percent that is held.
    #[serde(default)]
    #[schemars(with = "Integer")]
    pub weight: i64,
    /// Time the pause began.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Timestamp>")]
    pub since: Option<Time>,
}

// === impl CanaryPhase ===

impl CanaryPhase {
    /// Every phase, in the order of the schema.
    pub const ALL: &'static [Self] = &[
        Self::Unset,
        Self::Initializing,
        Self::Initialized,
        Self::Waiting,
        Self::Progressing,
        Self::WaitingPromotion,
        Self::Promoting,
        Self::Finalising,
        Self::Succeeded,
        Self::Failed,
        Self::Terminating,
        Self::Terminated,
    ];

    /// The text this phase is written as.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unset => "",
            Self::Initializing => "Initializing",
            Self::Initialized => "Initialized",
            Self::Waiting => "Waiting",
            Self::Progressing => "Progressing",
            Self::WaitingPromotion => "WaitingPromotion",
            Self::Promoting => "Promoting",
            Self::Finalising => "Finalising",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
            Self::Terminating => "Terminating",
            Self::Terminated => "Terminated",
        }
    }

    /// Whether a rollout was asked for and is not over yet.
    pub const fn is_under_way(self) -> bool {
        match self {
            Self::Waiting
            | Self::Progressing
            | Self::WaitingPromotion
            | Self::Promoting
            | Self::Finalising => true,
            Self::Unset
            | Self::Initializing
            | Self::Initialized
            | Self::Succeeded
            | Self::Failed
            | Self::Terminating
            | Self::Terminated => false,
        }
    }
}

impl std::fmt::Display for CanaryPhase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl JsonSchema for CanaryPhase {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "CanaryPhase".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let texts: Vec<_> = Self::ALL.iter().map(|phase| phase.as_str()).collect();
        schemars::json_schema!({ "type": "string", "enum": texts })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn phase_and_counters_are_always_written() {
        let written = serde_json::to_value(CanaryStatus::default()).unwrap();
        let want = json!({ "phase": "", "failedChecks": 0, "canaryWeight": 0, "iterations": 0 });
        assert_eq!(written, want);
    }

    #[test]
    fn a_phase_of_another_version_is_no_reason_to_fail() {
        let status = json!({ "phase": "Rewinding", "fieldOfTomorrow": 1 });
        let status: CanaryStatus = serde_json::from_value(status).unwrap();
        assert_eq!(status, CanaryStatus::default());
    }

    #[test]
    fn every_phase_is_written_as_it_is_called() {
        for phase in CanaryPhase::ALL {
            assert_eq!(serde_json::to_value(phase).unwrap(), phase.as_str());
        }
    }
}
