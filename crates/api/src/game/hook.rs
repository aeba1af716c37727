//! The `HookTemplate` and `HookRun` kinds: measurements that decide whether a release goes on.
//!
//! A run holds a full copy of its template's metrics, so that later edits of the template never
//! change a run under way. A member set to its zero value and an absent one differ for
//! `failureLimit` and `consecutiveErrorLimit`, hence the `Option`s.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    numbers::is_zero,
    schema::{DurationText, Timestamp, rule, rule_at},
};

custom_resource! {
    /// Measurements to take before a release or a pod may continue.
    HookTemplate {
        group: "tkex.tencent.com",
        version: "v1alpha1",
        plural: "hooktemplates",
        spec: HookTemplateSpec,
    }
}

custom_resource! {
    /// One execution of a hook, with what was measured.
    HookRun {
        group: "tkex.tencent.com",
        version: "v1alpha1",
        plural: "hookruns",
        spec: HookRunSpec,
        status: HookRunStatus,
    }
}

/// Measurements and their arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HookTemplateSpec {
    /// The metrics to measure.
    #[schemars(
        length(min = 1, max = 100),
        extend("x-kubernetes-list-type" = "map"),
        extend("x-kubernetes-list-map-keys" = ["name"])
    )]
    pub metrics: Vec<HookMetric>,
    /// Arguments the metrics may use. One without a value must be given by the user of the
    /// template.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<HookArgument>,
    /// Order of the metrics. Default `Parallel`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<HookPolicy>,
    /// Longest time in seconds a run may take; one that takes longer ends in an error. Absent: no
    /// limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub deadline_seconds: Option<i32>,
}

/// The metrics of one execution.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = run_rules()))]
pub struct HookRunSpec {
    /// The metrics to measure; a copy of the template's metrics.
    #[schemars(
        length(min = 1, max = 100),
        extend("x-kubernetes-list-type" = "map"),
        extend("x-kubernetes-list-map-keys" = ["name"])
    )]
    pub metrics: Vec<HookMetric>,
    /// Values of the arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000))]
    pub args: Vec<HookArgument>,
    /// Set to true to end the run early; cannot be undone. Default false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminate: Option<bool>,
    /// Order of the metrics. Default `Parallel`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<HookPolicy>,
    /// Longest time in seconds the run may take; if it takes longer it ends in an error. Absent: no
    /// limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub deadline_seconds: Option<i32>,
}

/// An argument of a hook.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HookArgument {
    /// Name of the argument, as in `{{ args.<name> }}`.
    pub name: String,
    /// Value of the argument.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

text_enum! {
    /// In which order the metrics of a hook are measured.
    closed HookPolicy {
        /// All at the same time.
        Parallel = "Parallel",
        /// One after the other.
        Ordered = "Ordered",
    }
}

/// One thing to measure, how often, and what results are good.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = metric_rules()))]
pub struct HookMetric {
    /// Name of the metric, unique in the list.
    pub name: String,
    /// Time between two measurements, such as `60s`. Needed when `count` is above 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DurationText>")]
    pub interval: Option<String>,
    /// Time to wait before the first measurement, such as `30s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DurationText>")]
    pub initial_delay: Option<String>,
    /// Number of measurements. 0 or absent: one without `interval`, no limit with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<i32>,
    /// Expression over `result` that is true for a good measurement, such as
    /// `asInt(result) < 30`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub success_condition: Option<String>,
    /// Expression over `result` that is true for a bad measurement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_condition: Option<String>,
    /// Number of bad measurements that are tolerated. Absent: none, or any number if a success
    /// limit is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub failure_limit: Option<i32>,
    /// Number of good measurements that end the metric. 0 or absent: off.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub successful_limit: Option<i32>,
    /// Number of measurements neither good nor bad that are tolerated. Default 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub inconclusive_limit: Option<i32>,
    /// Number of errors in a row that are tolerated. Absent: 4, or any number if a success limit is
    /// set.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub consecutive_error_limit: Option<i32>,
    /// Number of good measurements in a row that end the metric. Absent: off.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub consecutive_successful_limit: Option<i32>,
    /// Where the measurement comes from.
    pub provider: HookProvider,
}

/// Where a measurement comes from: exactly one of the members.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [rule(
    "[has(self.web), has(self.prometheus), has(self.kubernetes)].filter(x, x).size() == 1",
    "a provider must have exactly one of web, prometheus and kubernetes",
)]))]
pub struct HookProvider {
    /// The answer of a web server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub web: Option<WebProvider>,
    /// The answer of a Prometheus.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prometheus: Option<PrometheusProvider>,
    /// Fields of an object in the cluster, by default of the pod the hook is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<KubernetesProvider>,
}

/// A request whose answer is JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [rule_at(
    ".body",
    "!has(self.body) || (has(self.method) && self.method != 'GET')",
    "is sent with POST and PUT only",
)]))]
pub struct WebProvider {
    /// Address to ask. `{{ args.<name> }}` is filled in.
    pub url: String,
    /// `JSONPath` of the result in the answer, such as `{$.age}`.
    pub json_path: String,
    /// Headers to send along.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<WebHeader>,
    /// Longest time in seconds a request may take. Default 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<i32>,
    /// How to ask. Default `GET`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<WebMethod>,
    /// The body of POST and PUT; JSON unless a header says otherwise. `{{ args.<name> }}` is filled
    /// in.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16_384))]
    pub body: Option<String>,
    /// Take any certificate of the server. Default false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub insecure_skip_verify: Option<bool>,
    /// Secret with what the server asks for: `token`, or `username` and `password`; and `ca.crt`. It needs
    /// the label `tidegate.dev/for-hooks: "true"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<HookSecretRef>,
}

text_enum! {
    /// How a web server is asked.
    closed WebMethod {
        /// Read.
        Get = "GET",
        /// Send.
        Post = "POST",
        /// Send, to be there afterwards.
        Put = "PUT",
    }
}

/// A Secret in the namespace of the run. It must have the label `tidegate.dev/for-hooks: "true"`, so
/// that a hook sends nothing that is not meant for it. Its keys: `token`, which is sent as bearer, or
/// `username` and `password`; and `ca.crt`, authorities to trust instead of those of the operator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HookSecretRef {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// A header to send along.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebHeader {
    /// Name of the header.
    pub key: String,
    /// Value of the header. `{{ args.<name> }}` is filled in.
    pub value: String,
}

/// An instant query.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PrometheusProvider {
    /// Address of the Prometheus. `{{ args.<name> }}` is filled in.
    pub address: String,
    /// The query. `{{ args.<name> }}` is filled in.
    pub query: String,
    /// Headers to send along.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<WebHeader>,
    /// Longest time in seconds a query may take. Default 30.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<i32>,
    /// Take any certificate of the server. Default false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub insecure_skip_verify: Option<bool>,
    /// Secret with what the server asks for: `token`, or `username` and `password`; and `ca.crt`. It needs
    /// the label `tidegate.dev/for-hooks: "true"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<HookSecretRef>,
}

/// Reads or writes fields of an object. The arguments decide which one: `Group`, `Version`,
/// `Kind`, `PodName` and `PodNamespace`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KubernetesProvider {
    /// `get` compares the fields, `patch` sets them.
    pub function: KubernetesFunction,
    /// The fields.
    #[schemars(length(min = 1))]
    pub fields: Vec<KubernetesField>,
}

text_enum! {
    /// The action on the fields of an object.
    closed KubernetesFunction {
        /// They are compared.
        Get = "get",
        /// They are set.
        Patch = "patch",
    }
}

/// A field of an object and its value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KubernetesField {
    /// Path of the field, such as `metadata.annotations.example.com/drained`.
    #[schemars(length(min = 1))]
    pub path: String,
    /// Value to compare with or to set. `{{ args.<name> }}` is filled in.
    pub value: String,
}

/// Where a run stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HookRunStatus {
    /// Phase of the run. Absent: not looked at yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<HookPhase>,
    /// The reason for the phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Time the run was first looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Timestamp>")]
    pub started_at: Option<Time>,
    /// Time the run ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Timestamp>")]
    pub completed_at: Option<Time>,
    /// The measurements.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metric_results: Vec<MetricResult>,
}

text_enum! {
    /// The phases of a run, a metric and a measurement. The last four are final.
    closed HookPhase {
        /// Not begun.
        Pending = "Pending",
        /// Under way.
        Running = "Running",
        /// Good.
        Successful = "Successful",
        /// Bad.
        Failed = "Failed",
        /// Could not be measured.
        Error = "Error",
        /// Neither good nor bad.
        Inconclusive = "Inconclusive",
    }
}

/// The result of a metric.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MetricResult {
    /// Name of the metric.
    pub name: String,
    /// Phase of the metric.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<HookPhase>,
    /// The reason for the phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The newest measurements, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub measurements: Vec<Measurement>,
    /// Number of measurements, errors not counted.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub count: i32,
    /// Number of good measurements.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub successful: i32,
    /// Number of bad measurements.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failed: i32,
    /// Number of measurements neither good nor bad.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub inconclusive: i32,
    /// Number of errors.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub error: i32,
    /// Number of errors in a row.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub consecutive_error: i32,
    /// Number of good measurements in a row.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub consecutive_successful: i32,
}

/// One measurement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Measurement {
    /// Phase of the measurement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<HookPhase>,
    /// The error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Time it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Timestamp>")]
    pub started_at: Option<Time>,
    /// Time it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Timestamp>")]
    pub finished_at: Option<Time>,
    /// Time to look at it again.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Timestamp>")]
    pub resume_at: Option<Time>,
    /// The measured value, as a text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

fn metric_rules() -> Vec<Value> {
    let within_count = |limit: &str| {
        rule_at(
            &format!(".{limit}"),
            &format!(
                "!has(self.count) || self.count <= 0 || !has(self.{limit}) || \
                 self.{limit} <= self.count"
            ),
            "must not be greater than count, or it could never be reached",
        )
    };
    vec![
        rule_at(
            ".interval",
            "!has(self.count) || self.count <= 1 || (has(self.interval) && size(self.interval) > 0)",
            "is needed when count is greater than 1",
        ),
        within_count("failureLimit"),
        within_count("successfulLimit"),
        within_count("inconclusiveLimit"),
    ]
}

fn run_rules() -> Vec<Value> {
    const FIXED: &str = "cannot be changed; create a new run instead";
    let same = |member: &str| {
        rule_at(
            &format!(".{member}"),
            &format!(
                "has(self.{member}) == has(oldSelf.{member}) && \
                 (!has(self.{member}) || self.{member} == oldSelf.{member})"
            ),
            FIXED,
        )
    };
    vec![
        // A list with keys is compared without regard to order, but the order counts.
        rule_at(
            ".metrics",
            "self.metrics == oldSelf.metrics && \
             self.metrics.map(m, m.name) == oldSelf.metrics.map(m, m.name)",
            FIXED,
        ),
        same("args"),
        same("policy"),
        same("deadlineSeconds"),
        rule_at(
            ".terminate",
            "!has(oldSelf.terminate) || !oldSelf.terminate || \
             (has(self.terminate) && self.terminate)",
            "cannot be undone; create a new run instead",
        ),
    ]
}

// === impl HookPhase ===

impl HookPhase {
    /// Whether nothing will change any more.
    pub const fn is_final(self) -> bool {
        match self {
            Self::Pending | Self::Running => false,
            Self::Successful | Self::Failed | Self::Error | Self::Inconclusive => true,
        }
    }
}
