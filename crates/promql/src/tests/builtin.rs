//! Flagger's built-in queries, against series as the meshes and ingresses expose them.
//!
//! Each observer sees a canary that fails one request in ten and a primary that always fails, so
//! mixing them up gives another number.

use super::*;

/// An observer's series and labels.
struct Observer {
    name: &'static str,
    series: &'static str,
    /// The matchers of the query, with names filled in.
    matchers: &'static str,
    /// The matcher that excludes failures.
    good: &'static str,
    /// Labels of the canary's series and of another series.
    canary: &'static str,
    stranger: &'static str,
    /// Labels of a failed answer and of a successful one.
    failed: &'static str,
    served: &'static str,
}

const ENVOY: Observer = Observer {
    name: "",
    series: "envoy_cluster_upstream_rq",
    matchers: "",
    good: r#"envoy_response_code!~"5.*""#,
    canary: "",
    stranger: "",
    failed: r#"envoy_response_code="503""#,
    served: r#"envoy_response_code="200""#,
};

const OBSERVERS: &[Observer] = &[
    Observer {
        name: "istio",
        series: "istio_requests_total",
        matchers: r#"reporter="destination",destination_workload_namespace="test",destination_workload=~"podinfo""#,
        good: r#"response_code!~"5.*""#,
        canary: r#"reporter="destination",destination_workload_namespace="test",destination_workload="podinfo""#,
        stranger: r#"reporter="destination",destination_workload_namespace="test",destination_workload="podinfo-primary""#,
        failed: r#"response_code="500""#,
        served: r#"response_code="200""#,
    },
    Observer {
        name: "appmesh",
        matchers: r#"kubernetes_namespace="test",kubernetes_pod_name=~"podinfo-[0-9a-zA-Z]+(-[0-9a-zA-Z]+)""#,
        canary: r#"kubernetes_namespace="test",kubernetes_pod_name="podinfo-7d4b9-x2x4z""#,
        stranger: r#"kubernetes_namespace="test",kubernetes_pod_name="podinfo-primary-7d4b9-x2x4z""#,
        ..ENVOY
    },
    Observer {
        name: "linkerd",
        series: "response_total",
        matchers: r#"namespace="test",deployment=~"podinfo",direction="inbound""#,
        good: r#"classification!="failure""#,
        canary: r#"namespace="test",deployment="podinfo",direction="inbound""#,
        stranger: r#"namespace="test",deployment="podinfo",direction="outbound""#,
        failed: r#"classification="failure""#,
        served: r#"classification="success""#,
    },
    Observer {
        name: "contour",
        matchers: r#"envoy_cluster_name=~"test_podinfo-canary_[0-9a-zA-Z-]+""#,
        canary: r#"envoy_cluster_name="test_podinfo-canary_9898""#,
        stranger: r#"envoy_cluster_name="test_podinfo-primary_9898""#,
        ..ENVOY
    },
    Observer {
        name: "gloo",
        matchers: r#"envoy_cluster_name=~"test-podinfo-canaryupstream-[0-9a-zA-Z-]+_[0-9a-zA-Z-]+""#,
        canary: r#"envoy_cluster_name="test-podinfo-canaryupstream-9898_gloo-system""#,
        stranger: r#"envoy_cluster_name="test-podinfo-primaryupstream-9898_gloo-system""#,
        ..ENVOY
    },
    Observer {
        name: "kuma",
        matchers: r#"service=~"podinfo-canary_test_svc_[0-9a-zA-Z-]+""#,
        canary: r#"service="podinfo-canary_test_svc_9898""#,
        stranger: r#"service="podinfo-primary_test_svc_9898""#,
        ..ENVOY
    },
    Observer {
        name: "knative",
        matchers: r#"envoy_cluster_name=~"test/podinfo-00002""#,
        canary: r#"envoy_cluster_name="test/podinfo-00002""#,
        stranger: r#"envoy_cluster_name="test/podinfo-00001""#,
        ..ENVOY
    },
    Observer {
        name: "osm",
        series: "osm_request_total",
        matchers: r#"destination_namespace="test",destination_kind="Deployment",destination_name="podinfo""#,
        good: r#"response_code!~"5.*""#,
        canary: r#"destination_namespace="test",destination_kind="Deployment",destination_name="podinfo""#,
        stranger: r#"destination_namespace="test",destination_kind="Deployment",destination_name="podinfo-primary""#,
        failed: r#"response_code="502""#,
        served: r#"response_code="404""#,
    },
    Observer {
        name: "nginx",
        series: "nginx_ingress_controller_requests",
        matchers: r#"namespace="test",ingress="podinfo",canary!="""#,
        good: r#"status!~"5.*""#,
        canary: r#"namespace="test",ingress="podinfo",canary="podinfo-canary""#,
        stranger: r#"namespace="test",ingress="podinfo",canary="""#,
        failed: r#"status="500""#,
        served: r#"status="200""#,
    },
    Observer {
        name: "skipper",
        series: "skipper_response_duration_seconds_bucket",
        matchers: r#"route=~"kube(ew)?_test__podinfo_canary__.*__podinfo_canary(_[0-9]+)?",le="+Inf""#,
        good: r#"code!~"5..""#,
        canary: r#"route="kube_test__podinfo_canary__app_example_com____podinfo_canary_0",le="+Inf""#,
        stranger: r#"route="kube_test__podinfo_canary__app_example_com____podinfo_canary_0",le="0.1""#,
        failed: r#"code="500""#,
        served: r#"code="200""#,
    },
    Observer {
        name: "traefik",
        series: "traefik_service_request_duration_seconds_bucket",
        matchers: r#"service=~"test-podinfo-canary-[0-9a-zA-Z-]+@kubernetescrd",le="+Inf""#,
        good: r#"code!~"5..""#,
        canary: r#"service="test-podinfo-canary-80@kubernetescrd",le="+Inf""#,
        stranger: r#"service="test-podinfo-primary-80@kubernetescrd",le="+Inf""#,
        failed: r#"code="500""#,
        served: r#"code="200""#,
    },
    Observer {
        name: "apisix",
        series: "apisix_http_status",
        matchers: r#"route=~"test_podinfo-podinfo-canary_.+""#,
        good: r#"code!~"5..""#,
        canary: r#"route="test_podinfo-podinfo-canary_rule1""#,
        stranger: r#"route="test_podinfo-podinfo_rule1""#,
        failed: r#"code="500""#,
        served: r#"code="200""#,
    },
    Observer {
        name: "http",
        series: "http_request_duration_seconds_count",
        matchers: r#"kubernetes_namespace="test",kubernetes_pod_name=~"podinfo-[0-9a-zA-Z]+(-[0-9a-zA-Z]+)""#,
        good: r#"status!~"5.*""#,
        canary: r#"kubernetes_namespace="test",kubernetes_pod_name="podinfo-7d4b9-x2x4z""#,
        stranger: r#"kubernetes_namespace="test",kubernetes_pod_name="podinfo-primary-7d4b9-x2x4z""#,
        failed: r#"status="500""#,
        served: r#"status="200""#,
    },
];

// === impl Observer ===

impl Observer {
    /// 100 × successful requests / all requests, formatted like a template.
    fn success_rate(&self) -> String {
        let Self { series, matchers, good, .. } = self;
        format!(
            "sum(\n  rate({series}{{{matchers},{good}}}[1m])\n)\n/\n\
             sum(\n  rate({series}{{{matchers}}}[1m])\n)\n* 100"
        )
    }

    fn load(&self, served: &str, failed: &str) -> Database {
        let Self { series, canary, stranger, .. } = self;
        let row = |whose, what| format!("{series}{{{whose},{what}}}");
        let rows = [
            (row(canary, self.served), served),
            (row(canary, self.failed), failed),
            (row(stranger, self.failed), "0 100 200 300 400 500 600"),
        ];
        load(10, &rows.each_ref().map(|(labels, values)| (labels.as_str(), *values)))
    }
}

#[test]
fn every_observer_sees_the_canarys_success_rate() {
    for observer in OBSERVERS {
        let name = observer.name;
        let query = observer.success_rate();
        let database = observer.load("0 9 18 27 36 45 54", "0 1 2 3 4 5 6");
        assert_eq!(ask(&database, &query, 60), "{} 90", "{name}");
        let collapsed = query.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(ask(&database, &collapsed, 60), "{} 90", "{name}, on one line");
        let idle = observer.load("5 5 5 5 5 5 5", "1 1 1 1 1 1 1");
        assert_eq!(ask(&idle, &query, 60), "{} NaN", "{name}: no traffic is no number");
        let broken = observer.load("_", "0 1 2 3 4 5 6");
        assert_eq!(ask(&broken, &query, 60), "", "{name}: nothing good was ever seen");
        assert_eq!(ask(&Database::new(), &query, 60), "", "{name}: nothing was ever seen");
    }
}

#[test]
fn latencies_are_quantiles_of_summed_buckets() {
    let buckets = [
        ("100", "0 90 180 270 360 450 540"),
        ("200", "0 98 196 294 392 490 588"),
        ("500", "0 100 200 300 400 500 600"),
        ("+Inf", "0 100 200 300 400 500 600"),
    ];
    let pods = ["podinfo-7d4b9-x2x4z", "podinfo-7d4b9-k8s2s"];
    let rows: Vec<_> = pods
        .iter()
        .flat_map(|pod| {
            buckets.iter().map(move |(bound, values)| {
                let labels = format!("kubernetes_pod_name=\"{pod}\", le=\"{bound}\"");
                (format!("envoy_cluster_upstream_rq_time_bucket{{{labels}}}"), *values)
            })
        })
        .collect();
    let rows: Vec<_> = rows.iter().map(|(labels, values)| (labels.as_str(), *values)).collect();
    let database = load(10, &rows);
    let query = r#"histogram_quantile(0.99, sum(rate(envoy_cluster_upstream_rq_time_bucket{kubernetes_pod_name=~"podinfo-[0-9a-zA-Z]+(-[0-9a-zA-Z]+)"}[1m])) by (le))"#;
    // Of 100 requests the 99th is half-way through the two between 200 and 500 ms.
    assert_eq!(ask(&database, query, 60), "{} 350");
    let in_ms = format!("{query} * 1000");
    assert_eq!(ask(&database, &in_ms, 60), "{} 350000");
}

#[test]
fn latencies_without_buckets_are_means() {
    let database = load(
        10,
        &[
            (
                "nginx_ingress_controller_response_duration_seconds_sum{canary=\"a\"}",
                "0 2 4 6 8 10 12",
            ),
            (
                "nginx_ingress_controller_response_duration_seconds_count{canary=\"a\"}",
                "0 8 16 24 32 40 48",
            ),
        ],
    );
    let query = r#"
        sum(rate(nginx_ingress_controller_response_duration_seconds_sum{canary!=""}[1m]))
        / sum(rate(nginx_ingress_controller_response_duration_seconds_count{canary!=""}[1m])) * 1000"#;
    assert_eq!(ask(&database, query, 60), "{} 250");
}

#[test]
fn the_online_check_is_one() {
    assert_eq!(ask(&Database::new(), "vector(1)", 0), "{} 1");
}

#[test]
fn queries_people_write_in_templates() {
    let database = load(
        10,
        &[
            ("grpc_server_handled_total{grpc_code=\"OK\", app=\"a\"}", "0 18 36 54 72 90 108"),
            ("grpc_server_handled_total{grpc_code=\"Internal\", app=\"a\"}", "0 2 4 6 8 10 12"),
            ("queue_depth{app=\"a\"}", "3 4 9 4 3 2 1"),
        ],
    );
    check(
        &database,
        60,
        &[
            (
                "errors by all, in percent, zero if there are none",
                "100 - sum(rate(grpc_server_handled_total{grpc_code!=\"OK\"}[1m])) / sum(rate(grpc_server_handled_total[1m])) * 100",
                "{} 90",
            ),
            (
                "a default for what is not there",
                "sum(rate(nowhere_total[1m])) or on() vector(0)",
                "{} 0",
            ),
            ("a peak", "max_over_time(sum(queue_depth)[1m:10s])", "{} 9"),
            (
                "a share that is safe from zero",
                "sum(queue_depth) / clamp_min(sum(nowhere or vector(0)), 1)",
                "{} 1",
            ),
            ("requests in all", "round(sum(increase(grpc_server_handled_total[1m])))", "{} 120"),
        ],
    );
}
