//! The table of built-in queries.

use super::Dialect;

/// How requests are counted and timed.
pub(super) struct Row {
    /// The counter of requests.
    pub(super) counter: &'static str,
    /// Labels that select the canary, of the counter and of the times.
    pub(super) labels: &'static str,
    /// More labels that select the counter.
    pub(super) counted: &'static str,
    /// Labels that leave out the requests that failed.
    pub(super) good: &'static str,
    /// More labels that select the times.
    pub(super) timed: &'static str,
    /// How times are kept.
    pub(super) shape: Shape,
    /// Whether times are in seconds and not in milliseconds.
    pub(super) in_seconds: bool,
}

/// How times are kept.
pub(super) enum Shape {
    /// A histogram, for the 99th percentile.
    Histogram(&'static str),
    /// A sum and a count, for the mean; as Flagger. The 99th percentile is there too, on request.
    Mean { sum: &'static str, count: &'static str, buckets: &'static str },
}

const ENVOY: Row = Row {
    counter: "envoy_cluster_upstream_rq",
    labels: "",
    counted: "",
    good: r#"envoy_response_code!~"5.*""#,
    timed: "",
    shape: Shape::Histogram("envoy_cluster_upstream_rq_time_bucket"),
    in_seconds: false,
};

const PODS: &str = r#"kubernetes_namespace="<ns>",kubernetes_pod_name=~"<target~>-<pods>""#;

static ISTIO: Row = Row {
    counter: "istio_requests_total",
    labels: r#"reporter="destination",destination_workload_namespace="<ns>",destination_workload=~"<target~>""#,
    counted: "",
    good: r#"response_code!~"5.*""#,
    timed: "",
    shape: Shape::Histogram("istio_request_duration_milliseconds_bucket"),
    in_seconds: false,
};

static APP_MESH: Row = Row { labels: PODS, ..ENVOY };

static LINKERD: Row = Row {
    counter: "response_total",
    labels: r#"namespace="<ns>",<kind label>=~"<target~>",direction="inbound""#,
    counted: "",
    good: r#"classification!="failure""#,
    timed: "",
    shape: Shape::Histogram("response_latency_ms_bucket"),
    in_seconds: false,
};

static CONTOUR: Row =
    Row { labels: r#"envoy_cluster_name=~"<ns~>_<service~>-canary_[0-9a-zA-Z-]+""#, ..ENVOY };

// Gloo, Kuma, Traefik and APISIX name what they route to after the Service. Flagger looks for the
// name of the target, and finds nothing where the two differ.
static GLOO: Row = Row {
    labels: r#"envoy_cluster_name=~"<ns~>-<service~>-canaryupstream-[0-9a-zA-Z-]+_[0-9a-zA-Z-]+""#,
    ..ENVOY
};

static KUMA: Row =
    Row { labels: r#"service=~"<service~>-canary_<ns~>_svc_[0-9a-zA-Z-]+""#, ..ENVOY };

static KNATIVE: Row = Row { labels: r#"envoy_cluster_name=~"<ns~>/<route~>""#, ..ENVOY };

static OSM: Row = Row {
    counter: "osm_request_total",
    labels: r#"destination_namespace="<ns>",destination_kind="<kind>",destination_name="<target>""#,
    counted: "",
    good: r#"response_code!~"5.*""#,
    timed: "",
    shape: Shape::Histogram("osm_request_duration_ms_bucket"),
    in_seconds: false,
};

static NGINX: Row = Row {
    counter: "nginx_ingress_controller_requests",
    labels: r#"namespace="<ns>",ingress="<ingress>",canary!="""#,
    counted: "",
    good: r#"status!~"5.*""#,
    timed: "",
    shape: Shape::Mean {
        sum: "nginx_ingress_controller_response_duration_seconds_sum",
        count: "nginx_ingress_controller_response_duration_seconds_count",
        buckets: "nginx_ingress_controller_response_duration_seconds_bucket",
    },
    in_seconds: true,
};

static SKIPPER: Row = Row {
    counter: "skipper_response_duration_seconds_bucket",
    labels: r#"route=~"kube(ew)?_<ns_>__<ingress_>_canary__.*__<service_>_canary(_[0-9]+)?""#,
    counted: r#"le="+Inf""#,
    good: r#"code!~"5..""#,
    timed: "",
    shape: Shape::Mean {
        sum: "skipper_serve_route_duration_seconds_sum",
        count: "skipper_serve_route_duration_seconds_count",
        buckets: "skipper_serve_route_duration_seconds_bucket",
    },
    in_seconds: true,
};

static TRAEFIK: Row = Row {
    counter: "traefik_service_request_duration_seconds_bucket",
    labels: r#"service=~"<ns~>-<service~>-canary-[0-9a-zA-Z-]+@kubernetescrd""#,
    counted: r#"le="+Inf""#,
    good: r#"code!~"5..""#,
    timed: "",
    shape: Shape::Histogram("traefik_service_request_duration_seconds_bucket"),
    in_seconds: true,
};

// The route of the copy leads to both sides: only the node that answered tells them apart.
static APISIX: Row = Row {
    counter: "apisix_http_status",
    labels: r#"route=~"<ns~>_<route~>-<service~>-canary_.+",node=~"<nodes>""#,
    counted: "",
    good: r#"code!~"5..""#,
    timed: r#"type=~"request""#,
    shape: Shape::Histogram("apisix_http_latency_bucket"),
    in_seconds: false,
};

static HTTP: Row = Row {
    counter: "http_request_duration_seconds_count",
    labels: PODS,
    counted: "",
    good: r#"status!~"5.*""#,
    timed: "",
    shape: Shape::Histogram("http_request_duration_seconds_bucket"),
    in_seconds: true,
};

impl Dialect {
    /// The row of this dialect.
    pub(super) fn row(self) -> &'static Row {
        match self {
            Self::Istio => &ISTIO,
            Self::AppMesh => &APP_MESH,
            Self::Linkerd => &LINKERD,
            Self::Contour => &CONTOUR,
            Self::Gloo => &GLOO,
            Self::Kuma => &KUMA,
            Self::Knative => &KNATIVE,
            Self::Osm => &OSM,
            Self::Nginx => &NGINX,
            Self::Skipper => &SKIPPER,
            Self::Traefik => &TRAEFIK,
            Self::Apisix => &APISIX,
            Self::Http => &HTTP,
        }
    }
}
