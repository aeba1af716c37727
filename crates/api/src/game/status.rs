//! The parts that the status of both workloads share.
//!
//! Times are whole seconds in UTC. Readers must expect a status of another version: everything that
//! was not always written is optional.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{game::HookPhase, schema::Timestamp};

/// Reason of a pause by a `pause` step.
pub const PAUSED_BY_CANARY_PAUSE_STEP: &str = "PausedByCanaryPauseStep";
/// Reason of a pause after a failed hook step.
pub const PAUSED_BY_STEP_BASED_HOOK: &str = "PausedByStepBasedHook";
/// Reason of a pause a person asked for.
pub const PAUSED_BY_USER: &str = "PausedByUser";

/// A condition of a workload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GameCondition {
    /// Name of the condition: `Progressing`, `Available`, `Paused`, `FailedScale`, `FailedUpdate`
    /// or `HookBlocked`.
    #[serde(rename = "type")]
    pub condition_type: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Time `status` last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Timestamp>")]
    pub last_transition_time: Option<Time>,
    /// Why, in one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Why a release is paused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PauseCondition {
    /// `PausedByCanaryPauseStep`, `PausedByStepBasedHook` or `PausedByUser`.
    pub reason: String,
    /// Time the pause began.
    #[schemars(with = "Timestamp")]
    pub start_time: Time,
}

/// Where a release in steps stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GameCanaryStatus {
    /// The stable revision: the last one that went through all steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Time the current pause began.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Timestamp>")]
    pub pause_start_time: Option<Time>,
    /// Name of the `HookRun` of the current step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_step_hook_run: Option<String>,
    // Not upstream: without it a restart would begin the wait for a blocked hook anew.
    /// Time since which the hook of the current step cannot be run.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Timestamp>")]
    pub hook_blocked_since: Option<Time>,
}

/// The hook of a single pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodHookCondition {
    /// Name of the pod.
    pub pod_name: String,
    /// Time the hook began.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Timestamp>")]
    pub start_time: Option<Time>,
    /// Phase of the hook.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<HookPhase>,
}
