//! The `MetricTemplate` kind: a query and the service that answers it.
//!
//! Flagger's Go type has a status that its CRD does not declare and no program writes; there is
//! none here.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

custom_resource! {
    /// A query for a metric, shared by canaries.
    MetricTemplate {
        group: "flagger.app",
        version: "v1beta1",
        plural: "metrictemplates",
        spec: MetricTemplateSpec,
    }
}

/// A query and the provider that answers it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MetricTemplateSpec {
    /// The service that answers the query.
    pub provider: MetricProvider,
    /// The query. `{{ name }}`, `{{ namespace }}`, `{{ target }}`, `{{ service }}`, `{{ ingress }}`,
    /// `{{ route }}`, `{{ interval }}` and `{{ variables.<key> }}` are filled in.
    pub query: String,
}

/// A service that answers queries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MetricProvider {
    /// The kind of service.
    #[serde(rename = "type")]
    pub provider_type: MetricProviderType,
    /// Address of its API. Some kinds have a well-known one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Headers to send along, each with its values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, Vec<String>>,
    /// Secret with the credentials, in the namespace of the template.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretRef>,
    /// Region of the service, for `cloudwatch`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// Accept any certificate of the service. Default false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub insecure_skip_verify: Option<bool>,
}

text_enum! {
    /// The kinds of metrics service.
    open MetricProviderType (
        /// Anything else. Not allowed by the schema, and refused: Flagger takes it for Prometheus, which
        /// does not understand its query.
        Other
    ) {
        /// Prometheus, or anything with its HTTP API.
        Prometheus = "prometheus",
        /// `InfluxDB` with Flux.
        InfluxDb = "influxdb",
        /// Datadog.
        Datadog = "datadog",
        /// The external metrics API of the cluster.
        ExternalMetrics = "externalmetrics",
        /// Google Cloud Monitoring.
        Stackdriver = "stackdriver",
        /// Amazon `CloudWatch`.
        CloudWatch = "cloudwatch",
        /// New Relic.
        NewRelic = "newrelic",
        /// Graphite.
        Graphite = "graphite",
        /// Dynatrace.
        Dynatrace = "dynatrace",
        /// Keptn.
        Keptn = "keptn",
        /// Splunk Observability.
        Splunk = "splunk",
    }
}

/// A Secret in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretRef {
    /// Name of the Secret.
    pub name: String,
}
