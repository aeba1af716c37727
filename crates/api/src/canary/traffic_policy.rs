//! `spec.service.trafficPolicy`: the part of Istio's traffic policy that a canary passes on.
//!
//! It is copied to the destination rules of primary and canary. Other fields (connection pools of
//! TCP, settings by port, failover priorities) are dropped by the API server, as with Flagger's
//! schema.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::schema::{Integer, exactly_one_of};

/// Istio settings for connections to the workload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrafficPolicy {
    /// Limits on connections and requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection_pool: Option<ConnectionPool>,
    /// How requests are spread over the pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_balancer: Option<LoadBalancer>,
    /// When a failing pod is left out for a while.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outlier_detection: Option<OutlierDetection>,
    /// Encryption of connections to the workload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
}

/// Limits on connections and requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConnectionPool {
    /// Limits for HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpPool>,
}

/// Limits for HTTP connections and requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HttpPool {
    /// Whether connections are upgraded from HTTP/1.1 to HTTP/2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub h2_upgrade_policy: Option<H2UpgradePolicy>,
    /// Most requests that wait for a connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http1_max_pending_requests: Option<i32>,
    /// Most requests to a pod at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http2_max_requests: Option<i32>,
    /// How long a connection may be idle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_timeout: Option<String>,
    /// Most requests over one connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_requests_per_connection: Option<i32>,
    /// Most repeated requests at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<i32>,
}

text_enum! {
    /// Whether connections are upgraded to HTTP/2.
    closed H2UpgradePolicy {
        /// As the mesh is set up.
        Default = "DEFAULT",
        /// Never.
        DoNotUpgrade = "DO_NOT_UPGRADE",
        /// Always.
        Upgrade = "UPGRADE",
    }
}

/// How requests are spread over the pods: either `simple` or `consistentHash`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("oneOf" = simple_or_hash()))]
pub struct LoadBalancer {
    /// A standard algorithm.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub simple: Option<SimpleBalancer>,
    /// Always the same pod for the same key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consistent_hash: Option<ConsistentHash>,
    /// Preference by region and zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locality_lb_setting: Option<LocalitySetting>,
    /// Time over which a new pod gets its full share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warmup_duration_secs: Option<String>,
}

text_enum! {
    /// Standard algorithms of load balancing.
    closed SimpleBalancer {
        /// One after the other.
        RoundRobin = "ROUND_ROBIN",
        /// The pod with the fewest connections; the old name of `LEAST_REQUEST`.
        LeastConn = "LEAST_CONN",
        /// Any.
        Random = "RANDOM",
        /// The address the client asked for.
        Passthrough = "PASSTHROUGH",
        /// The pod with the fewest requests.
        LeastRequest = "LEAST_REQUEST",
    }
}

/// The key for the choice of a pod: exactly one of header, cookie, source address and query
/// parameter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConsistentHash {
    /// The value of this header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_header_name: Option<String>,
    /// The value of a cookie, which is made when missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_cookie: Option<HashCookie>,
    /// The address of the caller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub use_source_ip: Option<bool>,
    /// The value of this query parameter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_query_parameter_name: Option<String>,
    /// Fewest virtual nodes of the hash ring; more spread the load more evenly.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Integer>")]
    pub minimum_ring_size: Option<u64>,
}

/// A cookie that decides on the pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HashCookie {
    /// Name of the cookie.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Path of the cookie.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Lifetime of the cookie, such as `1h`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl: Option<String>,
}

/// Preference by region and zone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalitySetting {
    /// Whether locality counts at all; overrides the setting of the mesh.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Shares by locality. Excludes `failover`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub distribute: Vec<LocalityDistribution>,
    /// Where traffic goes when a region fails. Excludes `distribute`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failover: Vec<LocalityFailover>,
}

/// Shares of the traffic from one locality.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalityDistribution {
    /// Where the traffic comes from: region, zone and sub-zone, separated by `/`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Where it goes, in percent by locality; the sum is 100.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, Integer>")]
    pub to: BTreeMap<String, u32>,
}

/// The stand-in of a region.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalityFailover {
    /// The region that fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The region that takes over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}

/// When a failing pod is left out for a while.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OutlierDetection {
    /// Shortest time a pod is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_ejection_time: Option<String>,
    /// Errors with a 5xx code in a row before a pod is left out.
    #[serde(rename = "consecutive5xxErrors", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Integer>")]
    pub consecutive_5xx_errors: Option<u32>,
    /// Old form of `consecutive5xxErrors`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consecutive_errors: Option<i32>,
    /// Gateway errors in a row before a pod is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consecutive_gateway_errors: Option<i32>,
    /// Failures on the client's side in a row before a pod is left out; needs
    /// `splitExternalLocalOriginErrors`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consecutive_local_origin_failures: Option<i32>,
    /// Time between two looks at the counters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<String>,
    /// Largest percentage of pods that may be left out at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_ejection_percent: Option<i32>,
    /// Percentage of healthy pods below which no pod is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_health_percent: Option<i32>,
    /// Count failures on the client's side apart. Default false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split_external_local_origin_errors: Option<bool>,
}

/// Encryption of connections to the workload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Tls {
    /// Whether and how connections are encrypted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<TlsMode>,
    /// File with the authorities that vouch for the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_certificates: Option<String>,
    /// File with the client's certificate; needed for `MUTUAL`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_certificate: Option<String>,
    /// File with the client's private key; needed for `MUTUAL`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub private_key: Option<String>,
    /// Server name to ask for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sni: Option<String>,
    /// Names of which the server's certificate must have one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subject_alt_names: Vec<String>,
}

text_enum! {
    /// Whether and how connections are encrypted.
    closed TlsMode {
        /// Not at all.
        Disable = "DISABLE",
        /// With a certificate of the server.
        Simple = "SIMPLE",
        /// With certificates of both sides.
        Mutual = "MUTUAL",
        /// With the certificates of the mesh.
        IstioMutual = "ISTIO_MUTUAL",
    }
}

/// One of the two must be there; locality or warm-up alone is refused.
fn simple_or_hash() -> Value {
    let keys = ["httpHeaderName", "httpCookie", "useSourceIp", "httpQueryParameterName"];
    let hash = json!({ "consistentHash": { "oneOf": exactly_one_of(&keys) } });
    json!([
        { "required": ["simple"] },
        { "properties": hash, "required": ["consistentHash"] },
    ])
}
