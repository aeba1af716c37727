//! `spec.service`: how the workload is reached.
//!
//! The controller makes three Services from it (apex, primary, canary) and the routing object of
//! the provider. Fields that a provider cannot express are ignored; the field texts name the
//! providers that read them.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema::{IntOrText, Integer, Number, at_most_one_of, exactly_one_of, rule};

pub use super::traffic_policy::TrafficPolicy;

/// A DNS subdomain, or nothing.
const GROUP: &str = "^$|^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
/// A DNS subdomain.
const SUBDOMAIN: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
/// A DNS label.
const LABEL: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
/// The name of a kind.
const KIND: &str = "^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$";

/// The Services and routes of a canary.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Service {
    /// Name of the Service clients use, and of the routing object. Default: the name of the target.
    /// When it is changed, new objects are made, and those of the old name that were made for the
    /// canary are deleted once it rests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Port of the generated Services.
    #[schemars(with = "Number")]
    pub port: i32,
    /// Name of that port. Default `http`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port_name: Option<String>,
    /// Application protocol of that port. `tcp` makes Istio route connections instead of requests;
    /// `grpc` makes `gatewayapi:v1` use a `GRPCRoute`, as does a `portName` that begins with `grpc`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_protocol: Option<String>,
    /// Port of the containers, by number or name. Default: `port`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<IntOrText>")]
    pub target_port: Option<IntOrString>,
    /// Add the other ports of the containers to the generated Services. Default false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port_discovery: Option<bool>,
    /// Make the generated Services headless (`clusterIP: None`). Read when they are created only.
    /// Default false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headless: Option<bool>,
    /// Preferred way to spread traffic over endpoints, copied to the generated Services. Read when
    /// they are created only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traffic_distribution: Option<TrafficDistribution>,
    /// Point the apex Service at the canary once all checks passed, and back at the primary after
    /// promotion or rollback. `kubernetes` only, where clients otherwise see the primary at all
    /// times. Default false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub switch_apex: Option<bool>,
    /// Longest time a request may take. `istio`, `gatewayapi:v1`, `contour` and `appmesh`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
    /// Longest time one attempt at a backend may take. `gatewayapi:v1` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend_timeout: Option<String>,
    /// Istio gateways the routes are attached to. Default: `mesh`, traffic inside the mesh.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gateways: Vec<String>,
    /// Gateways the generated route is attached to. `gatewayapi` only, which needs at least one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub gateway_refs: Vec<GatewayRef>,
    /// Host names of the routes. Istio adds the name of the apex Service unless it or `*` is
    /// listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// Make the Istio virtual service a delegate of another one. Excludes `hosts` and `gateways`.
    /// Default false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delegation: Option<bool>,
    /// Istio settings for connections to the workload: load balancing, pools, outliers and TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traffic_policy: Option<TrafficPolicy>,
    /// Requests the routes apply to. Default: all. `istio`, `gatewayapi`, `appmesh` and `contour`.
    #[serde(rename = "match", default, skip_serializing_if = "Vec::is_empty")]
    pub matches: Vec<HttpMatch>,
    /// Change path or host before the request is passed on. `istio` and `gatewayapi`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rewrite: Option<Rewrite>,
    /// Repeat failed requests. `istio`, `contour`, `appmesh`, and `gatewayapi:v1` where the cluster's
    /// `HTTPRoute` has retries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retries: Option<Retries>,
    /// Change headers of requests and responses. `istio` and `gatewayapi`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers: Option<Headers>,
    /// Send a copy of all requests to further backends. `gatewayapi` only, and not to be confused
    /// with `analysis.mirror`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mirror: Vec<RequestMirror>,
    /// Which other sites' scripts may call the workload. `istio` and `gatewayapi:v1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cors_policy: Option<CorsPolicy>,
    /// Name of the mesh. `appmesh` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mesh_name: Option<String>,
    /// Services the workload calls. `appmesh` only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub backends: Vec<String>,
    /// Labels and annotations of the apex Service and, with most providers, of the routing object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub apex: Option<CustomMetadata>,
    /// Labels and annotations of the primary Service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub primary: Option<CustomMetadata>,
    /// Labels and annotations of the canary Service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canary: Option<CustomMetadata>,
    /// Labels and annotations of the generated Services that belong to someone else and are kept
    /// as they are found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unmanaged_metadata: Option<UnmanagedMetadata>,
}

text_enum! {
    /// How a Service spreads traffic over its endpoints.
    closed TrafficDistribution {
        /// To endpoints that are close.
        PreferClose = "PreferClose",
        /// To endpoints in the zone of the client.
        PreferSameZone = "PreferSameZone",
        /// To endpoints on the node of the client.
        PreferSameNode = "PreferSameNode",
    }
}

/// A Gateway a route is attached to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GatewayRef {
    /// API group of the parent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = 253),
        regex(pattern = GROUP),
        extend("storedDefault" = "gateway.networking.k8s.io")
    )]
    pub group: Option<String>,
    /// Kind of the parent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = KIND), extend("storedDefault" = "Gateway"))]
    pub kind: Option<String>,
    /// Name of the parent.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Namespace of the parent. Default: that of the canary.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = LABEL))]
    pub namespace: Option<String>,
    /// Name of the listener of the parent. Default: all listeners that allow it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = SUBDOMAIN))]
    pub section_name: Option<String>,
    /// Port of the listener of the parent. Default: all listeners that allow it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<i32>,
}

/// Conditions on a request, all of which must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HttpMatch {
    /// A name for this condition, used in access logs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Condition on the path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uri: Option<StringMatch>,
    /// Compare the path without regard to case. Default false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignore_uri_case: Option<bool>,
    /// Condition on the scheme.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheme: Option<StringMatch>,
    /// Condition on the method.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<StringMatch>,
    /// Condition on the host the client asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authority: Option<StringMatch>,
    /// Conditions on headers, by header name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, StringMatch>,
    /// Conditions on headers that must not hold, by header name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub without_headers: BTreeMap<String, StringMatch>,
    /// Conditions on query parameters, by parameter name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub query_params: BTreeMap<String, StringMatch>,
    /// Port the client called.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Integer>")]
    pub port: Option<u32>,
    /// Labels of the calling workload.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub source_labels: BTreeMap<String, String>,
    /// Namespace of the calling workload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_namespace: Option<String>,
    /// Gateways this condition applies to. Default: all of the service.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gateways: Vec<String>,
}

/// A condition on a text: none or one of the members.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("oneOf" = at_most_one_of(&["exact", "prefix", "regex"])))]
pub struct StringMatch {
    /// The value is this text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exact: Option<String>,
    /// The value begins with this text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// The value fits this regular expression (RE2).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub regex: Option<String>,
}

/// Changes of path and host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rewrite {
    /// The new path, or the new beginning of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uri: Option<String>,
    /// The new host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authority: Option<String>,
    /// `ReplacePrefixMatch` replaces the matched beginning of the path, anything else the whole
    /// path. `gatewayapi` only.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub rewrite_type: Option<String>,
}

/// How failed requests are repeated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Retries {
    /// How often a request is repeated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<i32>,
    /// Longest time one attempt may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_try_timeout: Option<String>,
    /// Kinds of failure that are repeated, as a list separated by commas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_on: Option<String>,
}

/// Changes to headers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Headers {
    /// Changes before a request is passed on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<HeaderOperations>,
    /// Changes before a response is passed back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response: Option<HeaderOperations>,
}

/// Changes to headers in one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HeaderOperations {
    /// Values to append, by header name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub add: BTreeMap<String, String>,
    /// Values to replace, by header name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<String, String>,
    /// Names of headers to drop.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remove: Vec<String>,
}

/// A further destination of all requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RequestMirror {
    // Flagger's schema means to require this too, but has the keyword one level too high.
    /// The backend that gets the copies.
    pub backend_ref: BackendRef,
}

/// A backend of a route.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [rule(
    r#"(size(self.group) == 0 && self.kind == "Service") ? has(self.port) : true"#,
    "Must have port for Service reference",
)]))]
pub struct BackendRef {
    /// API group of the backend. Empty for a Service.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253), regex(pattern = GROUP), extend("storedDefault" = ""))]
    pub group: Option<String>,
    /// Kind of the backend.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = KIND), extend("storedDefault" = "Service"))]
    pub kind: Option<String>,
    /// Name of the backend.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Namespace of the backend. Default: that of the canary.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = LABEL))]
    pub namespace: Option<String>,
    /// Port of the backend. A Service needs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<i32>,
}

/// Which other sites' scripts may call the workload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CorsPolicy {
    /// Whether cookies and credentials may be sent along. Default false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_credentials: Option<bool>,
    /// Headers a script may send.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow_headers: Vec<String>,
    /// Methods a script may use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow_methods: Vec<String>,
    /// Origins that may call, as plain texts. Use `allowOrigins`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow_origin: Vec<String>,
    /// Origins that may call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow_origins: Vec<OriginMatch>,
    /// Headers of the answer a script may read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expose_headers: Vec<String>,
    /// How long a browser may remember the answer to its question, such as `24h`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_age: Option<String>,
}

/// A condition on an origin: exactly one of the members.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("oneOf" = exactly_one_of(&["exact", "prefix", "regex"])))]
pub struct OriginMatch {
    /// The origin is this text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exact: Option<String>,
    /// The origin begins with this text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// The origin fits this regular expression (RE2).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub regex: Option<String>,
}

/// Labels and annotations for a generated object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CustomMetadata {
    /// Labels to set.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations to set.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// Keys the controller keeps its hands off.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnmanagedMetadata {
    /// Names of labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// Names of annotations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub annotations: Vec<String>,
}
