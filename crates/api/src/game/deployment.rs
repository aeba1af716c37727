//! The `GameDeployment` kind: pods without identity, updated by replacement or in place.

use k8s_openapi::apimachinery::pkg::{apis::meta::v1::LabelSelector, util::intstr::IntOrString};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    status::{GameCanaryStatus, GameCondition, PauseCondition, PodHookCondition},
    strategy::{CanaryStrategy, InPlaceUpdateStrategy, PodHookStrategy},
    template::{PodTemplate, SelectorSchema, workload_rules},
};
use crate::schema::{PodShare, rule_at};

custom_resource! {
    /// Stateless pods that are released step by step and can be updated in place.
    GameDeployment {
        group: "tkex.tencent.com",
        version: "v1alpha1",
        plural: "gamedeployments",
        spec: GameDeploymentSpec,
        status: GameDeploymentStatus,
    }
}

/// The pods to run, and how to update them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = workload_rules()))]
pub struct GameDeploymentSpec {
    /// Number of pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0), extend("storedDefault" = 1))]
    pub replicas: Option<i32>,
    /// Labels by which the pods of this workload are found. Must match the template and cannot be
    /// changed.
    #[schemars(with = "SelectorSchema")]
    pub selector: LabelSelector,
    /// The pods to run. A change starts a release.
    pub template: PodTemplate,
    /// How pods are chosen when the workload shrinks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_strategy: Option<ScaleStrategy>,
    /// How pods are updated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_strategy: Option<GameDeploymentUpdateStrategy>,
    /// A hook that must succeed before a pod is deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pre_delete_update_strategy: Option<PodHookStrategy>,
    /// A hook that must succeed before a pod is updated in place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pre_inplace_update_strategy: Option<PodHookStrategy>,
    /// A hook that is run after a pod was updated in place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub post_inplace_update_strategy: Option<PodHookStrategy>,
    /// Number of old revisions to keep for rolling back. Default 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub revision_history_limit: Option<i32>,
    /// Seconds a pod must be ready to count as available. Default 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 86400))]
    pub min_ready_seconds: Option<i32>,
    // One published sample carries this member; strict clients would refuse it otherwise.
    /// Not used. Accepted for the sake of old manifests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_name: Option<String>,
}

/// How pods are chosen when the workload shrinks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScaleStrategy {
    /// Names of pods to delete first. Names of pods that are gone are removed by the controller.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pods_to_delete: Vec<String>,
}

/// How the pods of a `GameDeployment` are updated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [rule_at(
    ".maxUnavailable",
    r#"!has(self.maxUnavailable) || (self.maxUnavailable != 0 && self.maxUnavailable != "0%") || (has(self.maxSurge) && self.maxSurge != 0 && self.maxSurge != "0%")"#,
    "must not be 0 unless maxSurge is greater, or no pod could ever be updated",
)]))]
pub struct GameDeploymentUpdateStrategy {
    /// How a single pod is updated.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("storedDefault" = "RollingUpdate"))]
    pub update_type: Option<GameDeploymentUpdateType>,
    /// Number or percentage of pods that stay on the old revision. Default 0. Ignored when
    /// `canary.steps` is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<PodShare>")]
    pub partition: Option<IntOrString>,
    /// Most pods, as a number or percentage, that may be out of service at a time. Default 20%.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<PodShare>")]
    pub max_unavailable: Option<IntOrString>,
    /// Most pods, as a number or percentage, there may be on top of `replicas`. Default 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<PodShare>")]
    pub max_surge: Option<IntOrString>,
    /// True while the release is paused. Set to false to resume it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("storedDefault" = false))]
    pub paused: Option<bool>,
    /// Release in steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canary: Option<CanaryStrategy>,
    /// Settings for updates in place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_place_update_strategy: Option<InPlaceUpdateStrategy>,
}

text_enum! {
    /// How a pod of a `GameDeployment` is updated.
    closed GameDeploymentUpdateType {
        /// It is deleted and made anew.
        RollingUpdate = "RollingUpdate",
        /// Its images are replaced; the pod stays.
        InplaceUpdate = "InplaceUpdate",
        /// Its images are replaced without a restart, where the node supports that.
        HotPatchUpdate = "HotPatchUpdate",
    }
}

/// Where a `GameDeployment` stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GameDeploymentStatus {
    /// Generation of the spec this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Number of pods.
    #[serde(default)]
    pub replicas: i32,
    /// Number of ready pods.
    #[serde(default)]
    pub ready_replicas: i32,
    /// Number of pods that were ready for `minReadySeconds`.
    #[serde(default)]
    pub available_replicas: i32,
    /// Number of pods of the update revision.
    #[serde(default)]
    pub updated_replicas: i32,
    /// Number of ready pods of the update revision.
    #[serde(default)]
    pub updated_ready_replicas: i32,
    /// Number of available pods of the update revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated_available_replicas: Option<i32>,
    /// Number of pods that should be of the update revision at this point of the release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_updated_replicas: Option<i32>,
    /// Revision the pods come from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_revision: Option<String>,
    /// Revision the pods are updated to: that of the template.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_revision: Option<String>,
    /// Number of times two templates got the same revision name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
    /// The state of the workload in one word: `Progressing`, `Paused`, `Degraded` or `Healthy`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The same for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Conditions of the workload.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        extend("x-kubernetes-list-type" = "map"),
        extend("x-kubernetes-list-map-keys" = ["type"])
    )]
    pub conditions: Vec<GameCondition>,
    /// Why the release is paused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pause_conditions: Vec<PauseCondition>,
    /// The selector as a text, for autoscalers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<String>,
    /// Index of the step being taken, from 0; the number of steps when all are done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_step_index: Option<i32>,
    /// Hash of the steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_step_hash: Option<String>,
    /// Where the release in steps stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canary: Option<GameCanaryStatus>,
    /// Hooks of pods that wait to be deleted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pre_delete_hook_condition: Vec<PodHookCondition>,
    /// Hooks of pods that wait to be updated in place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pre_inplace_hook_condition: Vec<PodHookCondition>,
    /// Hooks of pods that were updated in place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub post_inplace_hook_condition: Vec<PodHookCondition>,
}

// === impl GameDeploymentSpec ===

impl GameDeploymentSpec {
    /// Number of pods.
    pub fn replicas(&self) -> i32 {
        self.replicas.unwrap_or(1)
    }

    /// How a single pod is updated.
    pub fn update_type(&self) -> GameDeploymentUpdateType {
        let chosen = self.update_strategy.as_ref().and_then(|strategy| strategy.update_type);
        chosen.unwrap_or(GameDeploymentUpdateType::RollingUpdate)
    }
}
