//! The parts that the spec of both workloads share: canary steps, in-place updates and pod hooks.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema::{PodShare, rule};

/// A release in steps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CanaryStrategy {
    /// Steps of a release, taken one after the other after each change of the template. When all
    /// are done the remaining pods are updated.
    #[schemars(length(max = 100))]
    pub steps: Vec<CanaryStep>,
    /// How a paused release is resumed. Default `Field`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume_by: Option<ResumeBy>,
}

text_enum! {
    /// How a paused release is resumed.
    closed ResumeBy {
        /// By setting `updateStrategy.paused` to false, or by an annotation.
        Field = "Field",
        /// By an annotation only; a tool that re-applies `paused: false` does not resume it.
        Annotation = "Annotation",
    }
}

/// One step of a release: exactly one of `partition`, `pause` and `hook`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [rule(
    "[has(self.partition), has(self.pause), has(self.hook)].filter(x, x).size() == 1",
    "a step must have exactly one of partition, pause and hook",
)]))]
pub struct CanaryStep {
    /// Number or percentage of pods that stay on the old revision. Done when the others are updated
    /// and ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<PodShare>")]
    pub partition: Option<IntOrString>,
    /// Wait: for a person if empty, or for a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause: Option<CanaryPause>,
    /// Run a hook. Done when it is successful; otherwise the release pauses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hook: Option<CanaryHook>,
}

/// A pause of a release. Without a duration it lasts until a person resumes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CanaryPause {
    /// Length of the pause in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub duration: Option<i32>,
}

/// A hook as a step of a release.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CanaryHook {
    /// Name of the `HookTemplate` to run, in the namespace of the workload.
    #[schemars(length(min = 1))]
    pub template_name: String,
    /// Arguments for the template. Those it does not declare are dropped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<HookStepArgument>,
    /// Longest time in seconds the hook may take before the step counts as failed. Absent: no
    /// limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub timeout_seconds: Option<i32>,
    /// The action when the hook fails. Default `pause`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<HookFailureAction>,
}

text_enum! {
    /// The action when the hook of a step fails.
    closed HookFailureAction {
        /// The release pauses for a person.
        Pause = "pause",
        /// The template goes back to the stable revision.
        Rollback = "rollback",
    }
}

/// A hook that is run for a single pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HookStep {
    /// Name of the `HookTemplate` to run, in the namespace of the workload.
    #[schemars(length(min = 1))]
    pub template_name: String,
    /// Arguments for the template, next to those that describe the pod. Those it does not declare
    /// are dropped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<HookStepArgument>,
}

/// An argument for a hook.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HookStepArgument {
    /// Name of the argument, as in `{{ args.<name> }}`.
    pub name: String,
    /// Value of the argument.
    pub value: String,
}

/// A hook around an operation on a single pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodHookStrategy {
    /// The hook to run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hook: Option<HookStep>,
    /// Set to true to run failed hooks again; the controller sets it back to false.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("storedDefault" = false))]
    pub retry: Option<bool>,
}

/// How a pod is updated in place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InPlaceUpdateStrategy {
    /// Seconds between taking a pod out of service and changing its images. Default 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub grace_period_seconds: Option<i32>,
}

// === impl CanaryHook ===

impl CanaryHook {
    /// The action when the hook fails.
    pub fn on_failure(&self) -> HookFailureAction {
        self.on_failure.unwrap_or(HookFailureAction::Pause)
    }
}
