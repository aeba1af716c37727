//! Who counts, and what is asked.

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
    Model::of(&canary, &AnalysisMetric::default()).unwrap()
}

fn all_of(mesh: &str) -> String {
    Observer::select(mesh, None, &deployment()).total_query(&model("podinfo", "apex"))
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
fn every_other_provider_is_asked_in_its_own_labels() {
    let cases = [
        (
            "appmesh",
            r#"envoy_cluster_upstream_rq{kubernetes_namespace="default",kubernetes_pod_name=~"podinfo-[0-9a-zA-Z]+(-[0-9a-zA-Z]+)"}"#,
        ),
        (
            "linkerd",
            r#"response_total{namespace="default",deployment=~"podinfo",direction="inbound"}"#,
        ),
        (
            "contour",
            r#"envoy_cluster_upstream_rq{envoy_cluster_name=~"default_apex-canary_[0-9a-zA-Z-]+"}"#,
        ),
        (
            "gloo",
            r#"envoy_cluster_upstream_rq{envoy_cluster_name=~"default-apex-canaryupstream-[0-9a-zA-Z-]+_[0-9a-zA-Z-]+"}"#,
        ),
        ("kuma", r#"envoy_cluster_upstream_rq{service=~"apex-canary_default_svc_[0-9a-zA-Z-]+"}"#),
        ("knative", r#"envoy_cluster_upstream_rq{envoy_cluster_name=~"default/podinfo"}"#),
        (
            "osm",
            r#"osm_request_total{destination_namespace="default",destination_kind="Deployment",destination_name="podinfo"}"#,
        ),
        (
            "nginx",
            r#"nginx_ingress_controller_requests{namespace="default",ingress="door-1",canary!=""}"#,
        ),
        (
            "skipper",
            r#"skipper_response_duration_seconds_bucket{route=~"kube(ew)?_default__door_1_canary__.*__apex_canary(_[0-9]+)?",le="+Inf"}"#,
        ),
        (
            "traefik",
            r#"traefik_service_request_duration_seconds_bucket{service=~"default-apex-canary-[0-9a-zA-Z-]+@kubernetescrd",le="+Inf"}"#,
        ),
        ("apisix", r#"apisix_http_status{route=~"default_podinfo-apex-canary_.+"}"#),
    ];
    for (mesh, series) in cases {
        assert_eq!(all_of(mesh), format!("sum(rate({series}[1m]))"), "{mesh}");
    }
}

#[test]
fn times_are_milliseconds_whatever_they_were_kept_in() {
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
            r#"histogram_quantile(0.99, sum(rate(apisix_http_latency_bucket{route=~"default_podinfo-apex-canary_.+",type=~"request"}[1m])) by (le))"#,
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
fn a_dot_in_a_name_is_a_dot() {
    let observer = Observer::select("istio", None, &deployment());
    let query = observer.total_query(&model("api.v2", "apex"));
    assert!(query.contains(r#"destination_workload=~"api[.]v2""#), "{query}");
    assert!(query.contains(r#"destination_workload_namespace="default""#), "{query}");
}
