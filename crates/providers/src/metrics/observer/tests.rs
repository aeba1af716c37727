//! The observer of each provider, and its queries.

use serde_json::json;
use tidegate_api::canary::{Canary, analysis::AnalysisMetric};

use super::*;

fn target(kind: TargetKind) -> TargetRef {
    TargetRef { api_version: "apps/v1".into(), kind, name: "podinfo".into() }
}

fn deployment() -> TargetRef {
    target(TargetKind::Deployment)
}

fn model(target: &str, service: &str) -> Model {
    model_of(target, service, &json!({}))
}

fn model_of(target: &str, service: &str, variables: &serde_json::Value) -> Model {
    let canary: Canary = serde_json::from_value(json!({
        "metadata": { "name": "podinfo", "namespace": "default" },
        "spec": {
            "targetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": target },
            "service": { "port": 80, "name": service },
            "ingressRef": { "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "name": "door-1" },
            "analysis": { "interval": "1m", "threshold": 5, "stepWeight": 10 },
        },
    }))
    .unwrap();
    let metric: AnalysisMetric = serde_json::from_value(
        json!({ "name": "request-duration", "templateVariables": variables }),
    )
    .unwrap();
    Model::of(&canary, &metric).unwrap()
}

/// Each dialect: the series counted, labels of the canary, labels without failures, how times are
/// kept.
#[rustfmt::skip]
const TABLE: [(&str, &str, &str, &str, &str); 13] = [
    ("istio", "istio_requests_total", r#"reporter="destination",destination_workload_namespace="default",destination_workload=~"podinfo""#, r#"response_code!~"5.*""#, "istio_request_duration_milliseconds_bucket"),
    ("appmesh", "envoy_cluster_upstream_rq", r#"kubernetes_namespace="default",kubernetes_pod_name=~"podinfo-[0-9a-zA-Z]+(-[0-9a-zA-Z]+)""#, r#"envoy_response_code!~"5.*""#, "envoy_cluster_upstream_rq_time_bucket"),
    ("linkerd", "response_total", r#"namespace="default",deployment=~"podinfo",direction="inbound""#, r#"classification!="failure""#, "response_latency_ms_bucket"),
    ("contour", "envoy_cluster_upstream_rq", r#"envoy_cluster_name=~"default_apex-canary_[0-9a-zA-Z-]+""#, r#"envoy_response_code!~"5.*""#, "envoy_cluster_upstream_rq_time_bucket"),
    ("gloo", "envoy_cluster_upstream_rq", r#"envoy_cluster_name=~"default-apex-canaryupstream-[0-9a-zA-Z-]+_[0-9a-zA-Z-]+""#, r#"envoy_response_code!~"5.*""#, "envoy_cluster_upstream_rq_time_bucket"),
    ("kuma", "envoy_cluster_upstream_rq", r#"service=~"apex-canary_default_svc_[0-9a-zA-Z-]+""#, r#"envoy_response_code!~"5.*""#, "envoy_cluster_upstream_rq_time_bucket"),
    ("knative", "envoy_cluster_upstream_rq", r#"envoy_cluster_name=~"default/podinfo""#, r#"envoy_response_code!~"5.*""#, "envoy_cluster_upstream_rq_time_bucket"),
    ("osm", "osm_request_total", r#"destination_namespace="default",destination_kind="Deployment",destination_name="podinfo""#, r#"response_code!~"5.*""#, "osm_request_duration_ms_bucket"),
    ("nginx", "nginx_ingress_controller_requests", r#"namespace="default",ingress="door-1",canary!="""#, r#"status!~"5.*""#, "nginx_ingress_controller_response_duration_seconds_bucket *1000"),
    ("skipper", "skipper_response_duration_seconds_bucket", r#"route=~"kube(ew)?_default__door_1_canary__.*__apex_canary(_[0-9]+)?"|le="+Inf""#, r#"code!~"5..""#, "skipper_serve_route_duration_seconds_bucket *1000"),
    ("traefik", "traefik_service_request_duration_seconds_bucket", r#"service=~"default-apex-canary-[0-9a-zA-Z-]+@kubernetescrd"|le="+Inf""#, r#"code!~"5..""#, "traefik_service_request_duration_seconds_bucket *1000"),
    ("apisix", "apisix_http_status", r#"route=~"default_podinfo-apex-canary_.+",node=~"none""#, r#"code!~"5..""#, r#"apisix_http_latency_bucket ,type=~"request""#),
    ("gatewayapi:v1", "http_request_duration_seconds_count", r#"kubernetes_namespace="default",kubernetes_pod_name=~"podinfo-[0-9a-zA-Z]+(-[0-9a-zA-Z]+)""#, r#"status!~"5.*""#, "http_request_duration_seconds_bucket *1000"),
];

#[test]
fn every_provider_has_a_success_rate_and_a_duration() {
    let percentile = model_of("podinfo", "apex", &json!({ "percentile": "99" }));
    for (mesh, counter, labels, good, times) in TABLE {
        let observer = Observer::select(mesh, None, &deployment());
        // Labels behind the bar select requests, and not their times.
        let (own, counted) = labels
            .split_once('|')
            .map_or((labels, String::new()), |(own, more)| (own, format!(",{more}")));
        let all = format!("sum(rate({counter}{{{own}{counted}}}[1m]))");
        let rate = format!("sum(rate({counter}{{{own}{counted},{good}}}[1m])) / {all} * 100");
        assert_eq!(observer.query(Builtin::SuccessRate, &percentile), rate, "{mesh}");
        assert_eq!(observer.total_query(&percentile), all, "{mesh}");
        let (series, rest) = times.split_once(' ').unwrap_or((times, ""));
        let (more, scale) = if rest.starts_with(',') { (rest, "") } else { ("", rest) };
        let scale = scale.strip_prefix('*').map(|by| format!(" * {by}")).unwrap_or_default();
        let duration = format!(
            "histogram_quantile(0.99, sum(rate({series}{{{own}{more}}}[1m])) by (le)){scale}"
        );
        assert_eq!(observer.query(Builtin::Duration, &percentile), duration, "{mesh}");
    }
}

#[test]
fn apisix_counts_answers_of_the_canarys_own_addresses() {
    let observer = Observer::select("apisix", None, &deployment());
    assert!(observer.needs_addresses());
    assert!(!Observer::select("istio", None, &deployment()).needs_addresses());
    let cases: [(&str, &[&str], &str); 4] = [
        ("nobody", &[], "none"),
        ("pods and a Service", &["10.1.2.3", "10.96.0.7"], "10[.]1[.]2[.]3|10[.]96[.]0[.]7"),
        ("the newer kind", &["fd00::1"], "[[]?fd00::1[]]?"),
        ("what is no address", &["10.1.2.3", "None", "x\"} or up"], "10[.]1[.]2[.]3"),
    ];
    for (reason, addresses, nodes) in cases {
        let model = model("podinfo", "apex").with_addresses(addresses.iter().copied());
        let route = format!(r#"route=~"default_podinfo-apex-canary_.+",node=~"{nodes}""#);
        let all = format!("sum(rate(apisix_http_status{{{route}}}[1m]))");
        assert_eq!(observer.total_query(&model), all, "{reason}");
        let good = format!(r#"sum(rate(apisix_http_status{{{route},code!~"5.."}}[1m]))"#);
        let rate = format!("{good} / {all} * 100");
        assert_eq!(observer.query(Builtin::SuccessRate, &model), rate, "{reason}");
        let duration = observer.query(Builtin::Duration, &model);
        assert!(duration.contains(&format!(r#"{route},type=~"request""#)), "{reason}: {duration}");
    }
    let many: Vec<String> = (0..2000).map(|n| format!("10.0.{}.{}", n / 250, n % 250)).collect();
    let model = model("podinfo", "apex").with_addresses(many.iter().map(String::as_str));
    assert_eq!(observer.total_query(&model).matches('|').count(), NODES_MAX - 1);
}

#[test]
fn two_providers_measure_the_mean_unless_told() {
    let plain = model("podinfo", "apex");
    for (mesh, sum) in [
        ("nginx", "nginx_ingress_controller_response_duration_seconds_sum"),
        ("skipper", "skipper_serve_route_duration_seconds_sum"),
    ] {
        let query = Observer::select(mesh, None, &deployment()).query(Builtin::Duration, &plain);
        assert!(query.starts_with(&format!("sum(rate({sum}{{")), "{query}");
        assert!(query.contains("_count{") && query.ends_with(" * 1000"), "{query}");
    }
}

#[test]
fn the_observer_follows_the_provider() {
    let knative =
        TargetRef { api_version: "serving.knative.dev/v1".into(), ..target(TargetKind::Service) };
    let service = target(TargetKind::Service);
    let cases = [
        ("the operator's", "istio", None, deployment(), Dialect::Istio, "istio"),
        ("the canary's", "istio", Some(Provider::Nginx), deployment(), Dialect::Nginx, "nginx"),
        ("pods count", "kubernetes", None, deployment(), Dialect::Http, "kubernetes"),
        ("a version", "gatewayapi:v1", None, deployment(), Dialect::Http, "gatewayapi:v1"),
        ("a version", "appmesh:v1beta2", None, deployment(), Dialect::AppMesh, "appmesh:v1beta2"),
        (
            "no counters of its own",
            "smi:v1alpha2",
            None,
            deployment(),
            Dialect::Istio,
            "smi:v1alpha2",
        ),
        ("no counters of its own", "crossover:x", None, deployment(), Dialect::Istio, "crossover"),
        (
            "linkerd wins",
            "linkerd",
            Some(Provider::Nginx),
            deployment(),
            Dialect::Linkerd,
            "linkerd",
        ),
        ("linkerd by another name", "smi:linkerd", None, deployment(), Dialect::Linkerd, "linkerd"),
        ("nobody knows", "", None, deployment(), Dialect::Istio, ""),
        ("a Service", "nginx", None, service.clone(), Dialect::Nginx, "nginx:service"),
        ("a Service", "kubernetes", None, service, Dialect::Http, "kubernetes:service"),
        ("a Knative service", "knative", None, knative, Dialect::Knative, "knative"),
    ];
    for (reason, mesh, provider, target, dialect, label) in cases {
        let observer = Observer::select(mesh, provider, &target);
        assert_eq!(
            (observer.dialect, observer.label.as_str()),
            (dialect, label),
            "{reason}: {mesh}"
        );
    }
}

#[test]
fn istio_is_asked_for_the_workload() {
    let observer = Observer::select("istio", None, &deployment());
    let model = model("podinfo", "apex");
    let labels = r#"reporter="destination",destination_workload_namespace="default",destination_workload=~"podinfo""#;
    assert_eq!(
        observer.query(Builtin::SuccessRate, &model),
        format!(
            r#"sum(rate(istio_requests_total{{{labels},response_code!~"5.*"}}[1m])) / sum(rate(istio_requests_total{{{labels}}}[1m])) * 100"#
        ),
    );
    assert_eq!(
        observer.query(Builtin::Duration, &model),
        format!(
            "histogram_quantile(0.99, sum(rate(istio_request_duration_milliseconds_bucket{{{labels}}}[1m])) by (le))"
        ),
    );
    assert_eq!(
        observer.total_query(&model),
        format!("sum(rate(istio_requests_total{{{labels}}}[1m]))"),
    );
}

#[test]
fn pods_are_asked_by_their_names() {
    let model = model("podinfo", "apex");
    let cases = [
        ("two segments", TargetKind::Deployment, "podinfo-[0-9a-zA-Z]+(-[0-9a-zA-Z]+)"),
        ("one, or it would be the primary", TargetKind::DaemonSet, "podinfo-[0-9a-zA-Z]+"),
        (
            "as a Deployment",
            TargetKind::Other("Thing".into()),
            "podinfo-[0-9a-zA-Z]+(-[0-9a-zA-Z]+)",
        ),
    ];
    for (reason, kind, pods) in cases {
        let observer = Observer::select("kubernetes", None, &target(kind));
        let labels = format!(r#"kubernetes_namespace="default",kubernetes_pod_name=~"{pods}""#);
        assert_eq!(
            observer.query(Builtin::SuccessRate, &model),
            format!(
                r#"sum(rate(http_request_duration_seconds_count{{{labels},status!~"5.*"}}[1m])) / sum(rate(http_request_duration_seconds_count{{{labels}}}[1m])) * 100"#
            ),
            "{reason}"
        );
        assert_eq!(
            observer.query(Builtin::Duration, &model),
            format!(
                "histogram_quantile(0.99, sum(rate(http_request_duration_seconds_bucket{{{labels}}}[1m])) by (le)) * 1000"
            ),
            "{reason}"
        );
    }
}

#[test]
fn times_are_milliseconds_in_every_dialect() {
    let model = model("podinfo", "apex");
    let cases = [
        (
            "nginx",
            r#"sum(rate(nginx_ingress_controller_response_duration_seconds_sum{namespace="default",ingress="door-1",canary!=""}[1m])) / sum(rate(nginx_ingress_controller_response_duration_seconds_count{namespace="default",ingress="door-1",canary!=""}[1m])) * 1000"#,
        ),
        (
            "traefik",
            r#"histogram_quantile(0.99, sum(rate(traefik_service_request_duration_seconds_bucket{service=~"default-apex-canary-[0-9a-zA-Z-]+@kubernetescrd"}[1m])) by (le)) * 1000"#,
        ),
        (
            "apisix",
            r#"histogram_quantile(0.99, sum(rate(apisix_http_latency_bucket{route=~"default_podinfo-apex-canary_.+",node=~"none",type=~"request"}[1m])) by (le))"#,
        ),
    ];
    for (mesh, want) in cases {
        let observer = Observer::select(mesh, None, &deployment());
        assert_eq!(observer.query(Builtin::Duration, &model), want, "{mesh}");
    }
}

#[test]
fn a_daemon_set_is_found_where_kinds_are_told_apart() {
    let model = model("podinfo", "apex");
    let all =
        |mesh| Observer::select(mesh, None, &target(TargetKind::DaemonSet)).total_query(&model);
    assert!(all("linkerd").contains(r#",daemonset=~"podinfo","#));
    assert!(all("osm").contains(r#"destination_kind="DaemonSet""#));
}

#[test]
fn names_of_skipper_and_knative() {
    let skipper: Canary = serde_json::from_value(json!({
        "metadata": { "name": "backend", "namespace": "skipper" },
        "spec": {
            "targetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "backend" },
            "service": { "port": 80 },
            "ingressRef": { "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "name": "skipper-ingress" },
            "analysis": { "interval": "1m" },
        },
    }))
    .unwrap();
    let model = Model::of(&skipper, &AnalysisMetric::default()).unwrap();
    assert_eq!(model.service(), "backend", "the target, where the service has no name");
    let query = Observer::select("skipper", None, &deployment()).total_query(&model);
    let route =
        r#"route=~"kube(ew)?_skipper__skipper_ingress_canary__.*__backend_canary(_[0-9]+)?""#;
    assert!(query.contains(route), "{query}");
    let revision = self::model("podinfo", "apex").with_route("podinfo-00001").unwrap();
    let query = Observer::select("knative", None, &deployment()).total_query(&revision);
    assert!(query.contains(r#"envoy_cluster_name=~"default/podinfo-00001""#), "{query}");
}

#[test]
fn a_dot_in_a_name_is_a_dot() {
    let observer = Observer::select("istio", None, &deployment());
    let query = observer.total_query(&model("api.v2", "apex"));
    assert!(query.contains(r#"destination_workload=~"api[.]v2""#), "{query}");
    assert!(query.contains(r#"destination_workload_namespace="default""#), "{query}");
}
