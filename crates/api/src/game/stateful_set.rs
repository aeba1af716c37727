//! The `GameStatefulSet` kind: numbered pods with claims of their own, updated by replacement or in
//! place.

use k8s_openapi::apimachinery::pkg::{apis::meta::v1::LabelSelector, util::intstr::IntOrString};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    status::{GameCanaryStatus, GameCondition, PauseCondition, PodHookCondition},
    strategy::{CanaryStrategy, InPlaceUpdateStrategy, PodHookStrategy},
    template::{PodTemplate, SelectorSchema, VolumeClaimTemplate, workload_rules},
};
use crate::{
    numbers::is_zero,
    schema::{PodShare, rule, rule_at},
};

custom_resource! {
    /// Numbered pods that are released step by step and can be updated in place.
    GameStatefulSet {
        group: "tkex.tencent.com",
        version: "v1alpha1",
        plural: "gamestatefulsets",
        spec: GameStatefulSetSpec,
        status: GameStatefulSetStatus,
    }
}

/// The pods to run, and how to update them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = spec_rules()))]
pub struct GameStatefulSetSpec {
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
    /// Name of the Service that gives each pod its DNS name. Cannot be changed.
    #[schemars(extend("x-kubernetes-validations" = [unchangeable()]))]
    pub service_name: String,
    /// Claims each pod gets for itself. They stay when pods are deleted. Cannot be changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volume_claim_templates: Vec<VolumeClaimTemplate>,
    /// Whether pods are started, stopped and updated one after the other or all at once. Cannot be
    /// changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(
        extend("storedDefault" = "OrderedReady"),
        extend("x-kubernetes-validations" = [unchangeable()])
    )]
    pub pod_management_policy: Option<PodManagementPolicy>,
    /// How pods are updated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_strategy: Option<GameStatefulSetUpdateStrategy>,
    /// A hook that must succeed before a pod is deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("required" = ["hook"]))]
    pub pre_delete_update_strategy: Option<PodHookStrategy>,
    /// A hook that must succeed before a pod is updated in place.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("required" = ["hook"]))]
    pub pre_inplace_update_strategy: Option<PodHookStrategy>,
    /// A hook that is run after a pod was updated in place.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("required" = ["hook"]))]
    pub post_inplace_update_strategy: Option<PodHookStrategy>,
    /// Number of old revisions to keep for rolling back. Default 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub revision_history_limit: Option<i32>,
    /// Seconds a pod must be ready to count as available. Default 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 86400))]
    pub min_ready_seconds: Option<i32>,
}

text_enum! {
    /// Whether pods are handled one after the other.
    closed PodManagementPolicy {
        /// One after the other, each ready before the next.
        OrderedReady = "OrderedReady",
        /// All at once, and as many updates at a time as `maxUnavailable` allows.
        Parallel = "Parallel",
    }
}

/// How the pods of a `GameStatefulSet` are updated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GameStatefulSetUpdateStrategy {
    /// How a single pod is updated.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("storedDefault" = "RollingUpdate"))]
    pub update_type: Option<GameStatefulSetUpdateType>,
    /// Pace of updates, for every type but `OnDelete`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rolling_update: Option<RollingUpdate>,
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
    /// How a pod of a `GameStatefulSet` is updated.
    closed GameStatefulSetUpdateType {
        /// It is deleted and made anew.
        RollingUpdate = "RollingUpdate",
        /// Nothing is done; a pod that is deleted is replaced by a new one.
        OnDelete = "OnDelete",
        /// Its images are replaced; the pod stays.
        InplaceUpdate = "InplaceUpdate",
        /// Its images are replaced without a restart, where the node supports that.
        HotPatchUpdate = "HotPatchUpdate",
    }
}

/// Pace of updates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RollingUpdate {
    /// Pods with an ordinal below this number, or this percentage of the pods, stay on the old
    /// revision. Default 0. Ignored when `canary.steps` is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<PodShare>")]
    pub partition: Option<IntOrString>,
    /// Most pods, as a number or percentage, that may be out of service at a time. Default 25%. Sets
    /// the pace with `Parallel` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<UnavailableShare>")]
    pub max_unavailable: Option<IntOrString>,
    /// Most pods, as a number or percentage, there may be on top of `replicas`, with `Parallel`
    /// only. Default 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<PodShare>")]
    pub max_surge: Option<IntOrString>,
}

/// A share of pods that is at least one.
struct UnavailableShare;

/// Where a `GameStatefulSet` stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GameStatefulSetStatus {
    /// Generation of the spec this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Number of pods.
    #[serde(default)]
    pub replicas: i32,
    /// Number of ready pods.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub ready_replicas: i32,
    /// Number of pods of the current revision.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub current_replicas: i32,
    /// Number of pods of the update revision.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub updated_replicas: i32,
    /// Number of ready pods of the update revision.
    #[serde(default)]
    pub updated_ready_replicas: i32,
    /// Number of pods that were ready for `minReadySeconds`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available_replicas: Option<i32>,
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
    /// The selector as a text, for autoscalers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<String>,
    /// Why the release is paused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pause_conditions: Vec<PauseCondition>,
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

fn unchangeable() -> Value {
    rule("self == oldSelf", "cannot be changed; create a new workload instead")
}

fn spec_rules() -> Vec<Value> {
    let mut rules = workload_rules();
    // On the spec and not on the list, because a rule on the list is not asked when the list comes
    // or goes as a whole.
    rules.push(rule_at(
        ".volumeClaimTemplates",
        "(has(self.volumeClaimTemplates) ? self.volumeClaimTemplates : []) == \
         (has(oldSelf.volumeClaimTemplates) ? oldSelf.volumeClaimTemplates : [])",
        "cannot be changed; create a new workload instead",
    ));
    rules
}

// === impl UnavailableShare ===

impl JsonSchema for UnavailableShare {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "UnavailableShare".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let mut schema = PodShare::json_schema(generator);
        if let Some(Value::Array(rules)) = schema.get_mut("x-kubernetes-validations") {
            rules.push(rule(
                r#"self != 0 && self != "0%""#,
                "must not be 0, or no pod could ever be updated",
            ));
        }
        schema
    }
}

// === impl GameStatefulSetSpec ===

impl GameStatefulSetSpec {
    /// Number of pods.
    pub fn replicas(&self) -> i32 {
        self.replicas.unwrap_or(1)
    }

    /// How a single pod is updated. Upstream's code falls back to `OnDelete`, its documentation and
    /// we to `RollingUpdate`.
    pub fn update_type(&self) -> GameStatefulSetUpdateType {
        let chosen = self.update_strategy.as_ref().and_then(|strategy| strategy.update_type);
        chosen.unwrap_or(GameStatefulSetUpdateType::RollingUpdate)
    }

    /// Whether pods are handled one after the other.
    pub fn pod_management_policy(&self) -> PodManagementPolicy {
        self.pod_management_policy.unwrap_or(PodManagementPolicy::OrderedReady)
    }
}
