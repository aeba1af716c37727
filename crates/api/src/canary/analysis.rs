//! `spec.analysis`: the plan of a rollout.
//!
//! Exactly one of `iterations`, `stepWeight` and `stepWeights` is set, and with it the strategy:
//! a fixed number of checks (A/B testing, blue/green) or traffic shifted by weight.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    canary::service::StringMatch,
    numbers,
    schema::{Number, exactly_one_of, one_set_of},
};

/// Texts the interval fields accept: a whole number of minutes or seconds, then anything. Not
/// anchored at the end, as in Flagger, so `1m30s` passes; `1h` and `1.5m` do not.
const INTERVAL: &str = "^[0-9]+(m|s)";

/// Steps, checks, hooks and alerts of a rollout.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(
    // Implied by `oneOf`, and said once more so that the refusal names the missing field.
    extend("required" = ["interval", "threshold"]),
    extend("oneOf" = one_set_of(&[
        &["interval", "threshold", "iterations"],
        &["interval", "threshold", "stepWeight"],
        &["interval", "threshold", "stepWeights"],
    ]))
)]
pub struct Analysis {
    /// Time between two checks, such as `30s` or `1m`. Less than `10s` counts as `10s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = INTERVAL))]
    pub interval: Option<String>,
    /// Number of failed checks that takes the rollout back. 0 or less counts as 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Number>")]
    pub threshold: Option<i64>,
    /// Number of passing checks before promotion, for A/B testing (together with `match`) and
    /// blue/green. Excludes `stepWeight` and `stepWeights`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Number>")]
    pub iterations: Option<i64>,
    /// Share of traffic in percent at which promotion starts. Default 100. Ignored when
    /// `stepWeights` is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Number>")]
    pub max_weight: Option<i64>,
    /// Share of traffic in percent added after each passing check. Excludes `iterations` and
    /// `stepWeights`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Number>")]
    pub step_weight: Option<i64>,
    /// Shares of traffic in percent, one after the other; promotion starts after the last one.
    /// Excludes `iterations` and `stepWeight`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<Number>>")]
    pub step_weights: Option<Vec<i64>>,
    /// Share of traffic in percent moved to the new primary after each interval while promoting.
    /// Default 0: all at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Number>")]
    pub step_weight_promotion: Option<i64>,
    /// Send a copy of the traffic to the canary: for one check before the first weight, or during
    /// all iterations of blue/green. `istio` and `gatewayapi` only. Default false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mirror: Option<bool>,
    /// Share of traffic in percent that is mirrored. `istio` only. Default 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Number>")]
    pub mirror_weight: Option<i64>,
    /// Percentage of pods that must be available for the primary to count as ready. Default 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Number>")]
    pub primary_ready_threshold: Option<i64>,
    /// Percentage of pods that must be available for the canary to count as ready. Default 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Number>")]
    pub canary_ready_threshold: Option<i64>,
    /// Requests that go to the canary in A/B testing. A request that fits any of the conditions
    /// does.
    #[serde(rename = "match", default, skip_serializing_if = "Vec::is_empty")]
    pub matches: Vec<AnalysisMatch>,
    /// Measurements that must stay within limits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<AnalysisMetric>,
    /// Where to report to. A list that is not empty replaces the controller's own notifier.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alerts: Vec<Alert>,
    /// HTTP hooks that gate, test or follow the rollout.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub webhooks: Vec<Webhook>,
    /// Keep a user on the version they were sent to first, by a cookie. Weighted canaries with
    /// `istio` or `gatewayapi` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_affinity: Option<SessionAffinity>,
}

/// Conditions on a request, all of which must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AnalysisMatch {
    /// Conditions on headers, by header name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, HeaderMatch>,
    /// Conditions on query parameters, by parameter name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub query_params: BTreeMap<String, StringMatch>,
    /// Labels of the calling workload. Needs the `mesh` gateway in `service.gateways`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub source_labels: BTreeMap<String, String>,
}

/// A condition on a header: exactly one of the members.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("oneOf" = exactly_one_of(&["exact", "prefix", "suffix", "regex"])))]
pub struct HeaderMatch {
    /// The value is this text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exact: Option<String>,
    /// The value begins with this text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// The value ends with this text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suffix: Option<String>,
    /// The value fits this regular expression (RE2).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub regex: Option<String>,
}

/// A measurement that is taken at every check and compared with limits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AnalysisMetric {
    /// Name of the metric. `request-success-rate` and `request-duration` are built in; any other
    /// name needs `templateRef` or `query`.
    pub name: String,
    /// Time span the query looks back over, such as `1m`, the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = INTERVAL))]
    pub interval: Option<String>,
    /// Deprecated, use `thresholdRange`. Least accepted value for `request-success-rate`, largest
    /// accepted value for every other metric.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "numbers::shortest")]
    #[schemars(with = "Option<Number>")]
    pub threshold: Option<f64>,
    /// Accepted values. Percent for `request-success-rate`, milliseconds for `request-duration`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold_range: Option<ThresholdRange>,
    /// Deprecated, use `templateRef`. A query for the Prometheus of the canary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// The `MetricTemplate` that has the query.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template_ref: Option<ObjectRef>,
    /// Values for `{{ variables.<key> }}` in the query of the template.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub template_variables: BTreeMap<String, String>,
    /// The action when the query works and finds nothing to measure. Default `fail`: a failed
    /// check. With `hold` it becomes one after `progressDeadlineSeconds` without data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_no_data: Option<OnNoData>,
}

text_enum! {
    /// The meaning of a metric without data.
    closed OnNoData {
        /// A failed check.
        Fail = "fail",
        /// No check at all: the rollout stays where it is until there is data, for
        /// `progressDeadlineSeconds` at most.
        Hold = "hold",
    }
}

/// Limits of a measurement; a value on the limit is accepted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThresholdRange {
    /// Least accepted value.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "numbers::shortest")]
    #[schemars(with = "Option<Number>")]
    pub min: Option<f64>,
    /// Largest accepted value.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "numbers::shortest")]
    #[schemars(with = "Option<Number>")]
    pub max: Option<f64>,
}

/// An object of a kind that the context tells.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectRef {
    /// Name of the object.
    pub name: String,
    /// Namespace of the object. Default: that of the canary. Another one may be forbidden by the
    /// controller's settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// A place to report to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Alert {
    /// A name for this alert; free text.
    pub name: String,
    /// Least severity that is reported. Default `info`: everything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub severity: Option<AlertSeverity>,
    /// The `AlertProvider` to report through.
    pub provider_ref: ObjectRef,
}

text_enum! {
    /// How bad something must be to be reported.
    closed AlertSeverity {
        /// Not chosen; the same as `info`.
        Unset = "",
        /// Everything.
        Info = "info",
        /// Warnings and errors.
        Warn = "warn",
        /// Errors only.
        Error = "error",
    }
}

/// An HTTP hook. It is sent a POST with the canary's name, namespace, phase and the metadata given
/// here; any 2xx answer is a yes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Webhook {
    /// Name of the hook, shown in events.
    pub name: String,
    /// When the hook is called and what its answer decides. Default `rollout`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub hook_type: Option<WebhookType>,
    /// Address of the hook.
    #[schemars(extend("format" = "url"))]
    pub url: String,
    /// Do not send chat alerts for this hook. Only the three confirm hooks send any. Default
    /// false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mute_alert: Option<bool>,
    /// Longest time one call may take, such as `30s`. Default `10s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = INTERVAL))]
    pub timeout: Option<String>,
    /// How often a failed call is repeated at once. Default 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Number>")]
    pub retries: Option<i64>,
    /// Accept any certificate of the server. The connection is still encrypted. Default false.
    #[serde(rename = "disableTLS", skip_serializing_if = "Option::is_none")]
    pub disable_tls: Option<bool>,
    /// Values sent along in the body of the call.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
}

text_enum! {
    /// When a hook is called.
    closed WebhookType {
        /// Not chosen; the same as `rollout`.
        Unset = "",
        /// Before a rollout starts; it waits until the answer is yes.
        ConfirmRollout = "confirm-rollout",
        /// Before any traffic is shifted; a no is a failed check.
        PreRollout = "pre-rollout",
        /// At every check; a no is a failed check.
        Rollout = "rollout",
        /// Before promotion; it waits until the answer is yes.
        ConfirmPromotion = "confirm-promotion",
        /// After the rollout, with any result; the answer decides nothing.
        PostRollout = "post-rollout",
        /// With every event; the answer decides nothing.
        Event = "event",
        /// At every check; a yes takes the rollout back.
        Rollback = "rollback",
        /// Before each increase of traffic; it waits until the answer is yes.
        ConfirmTrafficIncrease = "confirm-traffic-increase",
    }
}

/// The cookie that keeps a user on one version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionAffinity {
    /// Name of the cookie of users sent to the canary.
    pub cookie_name: String,
    /// Name of the cookie of users sent to the primary; must differ from `cookieName`. Absent:
    /// users of the primary may change over with each step. `istio` and `gatewayapi:v1` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub primary_cookie_name: Option<String>,
    /// Lifetime of the canary cookie in seconds. 0 counts as 86400.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Number>", extend("storedDefault" = 86400))]
    pub max_age: Option<i64>,
    /// `Domain` attribute of the cookie.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// `Path` attribute of the cookie.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// `HttpOnly` attribute of the cookie: scripts cannot read it. Default false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_only: Option<bool>,
    /// `Partitioned` attribute of the cookie: kept apart for each embedding site. Default false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partitioned: Option<bool>,
    /// `Secure` attribute of the cookie: sent over HTTPS only. Default false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secure: Option<bool>,
    /// `SameSite` attribute of the cookie: whether it is sent with requests from other sites.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub same_site: Option<SameSite>,
}

text_enum! {
    /// When a browser sends a cookie along with requests from other sites.
    closed SameSite {
        /// Never.
        Strict = "Strict",
        /// When following a link.
        Lax = "Lax",
        /// Always.
        None = "None",
    }
}
