//! The `Canary` kind: the workload to roll out, the routing of its traffic, and the checks on the
//! way.
//!
//! This file has the top level of the spec; [`service`] is how traffic reaches the workload,
//! [`analysis`] is the plan of a rollout, [`status`] is the controller's memory. Defaults are
//! applied by methods and not stored: the schema writes only those Flagger's schema writes.

pub mod analysis;
mod defaults;
pub mod service;
pub mod status;
pub mod traffic_policy;
mod validate;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema::{Integer, Number, rule_at};

pub use self::{
    analysis::Analysis,
    defaults::{ServiceNames, Strategy, TOTAL_WEIGHT},
    service::Service,
    status::{CanaryPhase, CanaryStatus},
    validate::{CrossNamespace, Problem},
};

custom_resource! {
    /// A workload whose new revisions are rolled out step by step, checked on the way, and taken
    /// back when a check fails.
    Canary {
        group: "flagger.app",
        version: "v1beta1",
        plural: "canaries",
        spec: CanarySpec,
        status: CanaryStatus,
    }
}

/// The workload to roll out, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CanarySpec {
    /// Mesh, gateway or ingress that splits the traffic of this canary. Absent: the provider the
    /// controller was started with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<Provider>,
    /// URL of the Prometheus that answers the built-in metrics and inline queries of this canary.
    /// Absent: the server the controller was started with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics_server: Option<String>,
    /// Longest time in seconds a rollout may go without progress before it is rolled back. Default
    /// 600.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Number>")]
    pub progress_deadline_seconds: Option<i32>,
    /// The workload to roll out, in the namespace of the canary.
    pub target_ref: TargetRef,
    /// The scaler of the workload. It is copied for the primary and paused for the target while
    /// nothing is rolled out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub autoscaler_ref: Option<AutoscalerRef>,
    /// The Ingress that carries the traffic, for the `nginx` and `skipper` providers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ingress_ref: Option<IngressRef>,
    /// The route of yours that carries the traffic. With `apisix` an `ApisixRoute`, of which a copy
    /// divides the traffic; with `gatewayapi` an `HTTPRoute` or `GRPCRoute`, in which the backends
    /// that are the apex Service are divided and nothing else is changed, until the canary is
    /// deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route_ref: Option<RouteRef>,
    /// The Gloo upstream whose settings the generated upstreams copy, for the `gloo` provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream_ref: Option<UpstreamRef>,
    /// How the workload is reached: the generated Services and the routing rules. Left out for
    /// Knative targets only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<Service>,
    /// The plan of a rollout: steps, checks, hooks and alerts.
    pub analysis: Analysis,
    /// Promote new revisions at once, without checks and without the promotion gate. Works in the
    /// middle of an analysis too. Default false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skip_analysis: Option<bool>,
    /// Give the workload, its Services and routes back as they were when the canary is deleted.
    /// Default false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revert_on_deletion: Option<bool>,
    /// Freeze the canary: nothing is read, written or routed until this is lifted. Default false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
    /// Pause the rollout at a share of traffic until a person resumes it. The controller removes
    /// this member once the rollout was resumed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manual_step: Option<ManualStep>,
}

text_enum! {
    /// A mesh, gateway or ingress controller that can split traffic.
    closed Provider {
        /// Apache APISIX.
        Apisix = "apisix",
        /// AWS App Mesh, first version of its API.
        AppMesh = "appmesh",
        /// AWS App Mesh, `v1beta2` of its API.
        AppMeshV1Beta2 = "appmesh:v1beta2",
        /// Contour `HTTPProxy`.
        Contour = "contour",
        /// Gateway API, `v1` of its routes.
        GatewayApiV1 = "gatewayapi:v1",
        /// Gateway API, `v1beta1` of its routes.
        GatewayApiV1Beta1 = "gatewayapi:v1beta1",
        /// Gloo route tables.
        Gloo = "gloo",
        /// Istio virtual services.
        Istio = "istio",
        /// Knative serving.
        Knative = "knative",
        /// Plain Services; blue/green only.
        Kubernetes = "kubernetes",
        /// Kuma traffic routes.
        Kuma = "kuma",
        /// Linkerd.
        Linkerd = "linkerd",
        /// NGINX ingress controller.
        Nginx = "nginx",
        /// Open Service Mesh.
        Osm = "osm",
        /// Skipper ingress controller.
        Skipper = "skipper",
        /// Service Mesh Interface, `v1alpha1` traffic splits.
        SmiV1Alpha1 = "smi:v1alpha1",
        /// Service Mesh Interface, `v1alpha2` traffic splits.
        SmiV1Alpha2 = "smi:v1alpha2",
        /// Service Mesh Interface, `v1alpha3` traffic splits.
        SmiV1Alpha3 = "smi:v1alpha3",
        /// Traefik services.
        Traefik = "traefik",
    }
}

/// The workload a canary rolls out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TargetRef {
    /// API group and version of the workload. `serving.knative.dev/v1` together with kind Service
    /// makes it a Knative service.
    pub api_version: String,
    /// Kind of the workload.
    pub kind: TargetKind,
    /// Name of the workload. The primary copy is called `<name>-primary`.
    pub name: String,
}

text_enum! {
    /// The kinds of workload a canary can roll out.
    open TargetKind (
        /// Anything else. Not allowed by the schema; as in Flagger it is treated as a Deployment.
        Other
    ) {
        /// A DaemonSet.
        DaemonSet = "DaemonSet",
        /// A Deployment.
        Deployment = "Deployment",
        /// A Service, of Kubernetes or of Knative.
        Service = "Service",
    }
}

/// The scaler of a canary's workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AutoscalerRef {
    /// API group and version of the scaler.
    pub api_version: String,
    /// Kind of the scaler.
    pub kind: AutoscalerKind,
    /// Name of the scaler. The primary copy is called `<name>-primary`.
    pub name: String,
    /// Queries of the primary's scaler by trigger name, for `ScaledObject` only: the copy must
    /// measure the primary, not the target.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub primary_scaler_queries: BTreeMap<String, String>,
    /// Replica bounds of the primary's scaler, where they differ from the target's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub primary_scaler_replicas: Option<ScalerReplicas>,
}

text_enum! {
    /// The kinds of scaler a canary can handle.
    closed AutoscalerKind {
        /// A `HorizontalPodAutoscaler`, read as `autoscaling/v2`.
        HorizontalPodAutoscaler = "HorizontalPodAutoscaler",
        /// A KEDA `ScaledObject`.
        ScaledObject = "ScaledObject",
    }
}

/// Replica bounds of a scaler.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScalerReplicas {
    /// Fewest replicas of the primary. Absent: as for the target.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Integer>", range(min = 1))]
    pub min_replicas: Option<i32>,
    /// Most replicas of the primary. Absent: as for the target.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Integer>", range(min = 1))]
    pub max_replicas: Option<i32>,
}

/// The Ingress of a canary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IngressRef {
    /// API group and version of the Ingress.
    pub api_version: String,
    /// Always Ingress.
    pub kind: IngressKind,
    /// Name of the Ingress.
    pub name: String,
}

text_enum! {
    /// The one kind an `ingressRef` may name.
    closed IngressKind {
        /// An Ingress.
        Ingress = "Ingress",
    }
}

/// A user's route that carries the traffic of a canary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [rule_at(
    ".apiVersion",
    "self.kind == 'ApisixRoute' || self.apiVersion.startsWith('gateway.networking.k8s.io/')",
    "an HTTPRoute or GRPCRoute is of gateway.networking.k8s.io, such as \
     gateway.networking.k8s.io/v1",
)]))]
pub struct RouteRef {
    /// API group and version of the route.
    pub api_version: String,
    /// Kind of the route.
    pub kind: RouteKind,
    /// Name of the route.
    pub name: String,
}

text_enum! {
    /// The kinds a `routeRef` may name.
    closed RouteKind {
        /// An APISIX route.
        ApisixRoute = "ApisixRoute",
        /// A route of Gateway API for HTTP requests.
        HttpRoute = "HTTPRoute",
        /// A route of Gateway API for gRPC calls.
        GrpcRoute = "GRPCRoute",
    }
}

/// The Gloo upstream of a canary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpstreamRef {
    /// API group and version of the upstream.
    pub api_version: String,
    /// Always Upstream.
    pub kind: UpstreamKind,
    /// Name of the upstream.
    pub name: String,
    /// Namespace of the upstream. Default: that of the canary. Another one may be forbidden by the
    /// controller's settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

text_enum! {
    /// The one kind an `upstreamRef` may name.
    closed UpstreamKind {
        /// A Gloo upstream.
        Upstream = "Upstream",
    }
}

/// Where a rollout stops for a person.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManualStep {
    /// Share of traffic in percent to pause at. 0, the default, pauses before any traffic is
    /// shifted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Integer>", range(min = 0, max = 100))]
    pub weight: Option<i64>,
    /// Set to true to go on from the pause. Default false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume: Option<bool>,
}
