//! The samples of both servers: counters that reset, gauges, gaps, histograms, and the metrics of each mesh
//! and ingress.

use std::fmt::Write as _;

use kube_sandbox::random::Random;
use promql::{Database, Labels};

/// One series.
#[derive(Debug, Clone)]
pub struct Row {
    pub name: String,
    pub labels: Vec<(String, String)>,
    pub points: Vec<(i64, f64)>,
}

/// The time of the first sample. A whole second: samples are half a second after it.
pub(super) const START_S: i64 = 1_767_225_600;
/// The time of the last one.
pub(super) const END_S: i64 = START_S + 1_200;
const EVERY_MS: i64 = 5_000;
const BOUNDS: [(&str, f64); 6] =
    [("0.1", 0.2), ("0.5", 0.5), ("1", 0.7), ("2.5", 0.85), ("10", 0.95), ("+Inf", 1.0)];

/// Counters with their labels, of the canary and of another workload: `series|labels of both|of one`.
const COUNTED: &[(&str, &str, &str)] = &[
    (
        "istio_requests_total",
        r#"reporter="destination",destination_workload_namespace="test",destination_workload="podinfo""#,
        "response_code",
    ),
    (
        "response_total",
        r#"namespace="test",deployment="podinfo",direction="inbound""#,
        "classification",
    ),
    (
        "envoy_cluster_upstream_rq",
        r#"kubernetes_namespace="test",kubernetes_pod_name="podinfo-7d4b9-x2x4z""#,
        "envoy_response_code",
    ),
    (
        "envoy_cluster_upstream_rq",
        r#"envoy_cluster_name="test_podinfo-canary_9898""#,
        "envoy_response_code",
    ),
    (
        "envoy_cluster_upstream_rq",
        r#"envoy_cluster_name="test-podinfo-canaryupstream-9898_gloo-system""#,
        "envoy_response_code",
    ),
    (
        "envoy_cluster_upstream_rq",
        r#"service="podinfo-canary_test_svc_9898""#,
        "envoy_response_code",
    ),
    (
        "envoy_cluster_upstream_rq",
        r#"envoy_cluster_name="test/podinfo-00002""#,
        "envoy_response_code",
    ),
    (
        "osm_request_total",
        r#"destination_namespace="test",destination_kind="Deployment",destination_name="podinfo""#,
        "response_code",
    ),
    (
        "nginx_ingress_controller_requests",
        r#"namespace="test",ingress="podinfo",canary="podinfo-canary""#,
        "status",
    ),
    ("apisix_http_status", r#"route="test_podinfo-podinfo-canary_1",node="10.244.0.9""#, "code"),
    (
        "http_request_duration_seconds_count",
        r#"kubernetes_namespace="test",kubernetes_pod_name="podinfo-7d4b9-x2x4z""#,
        "status",
    ),
    (
        "nginx_ingress_controller_response_duration_seconds_sum",
        r#"namespace="test",ingress="podinfo",canary="podinfo-canary""#,
        "status",
    ),
    (
        "nginx_ingress_controller_response_duration_seconds_count",
        r#"namespace="test",ingress="podinfo",canary="podinfo-canary""#,
        "status",
    ),
    (
        "skipper_serve_route_duration_seconds_sum",
        r#"route="kube_test__podinfo_canary__a____podinfo_canary_0""#,
        "code",
    ),
    (
        "skipper_serve_route_duration_seconds_count",
        r#"route="kube_test__podinfo_canary__a____podinfo_canary_0""#,
        "code",
    ),
];

/// Histograms, with the labels of the canary and the one with the result of a request.
const TIMED: &[(&str, &str, &str)] = &[
    (
        "istio_request_duration_milliseconds_bucket",
        r#"reporter="destination",destination_workload_namespace="test",destination_workload="podinfo""#,
        "",
    ),
    (
        "response_latency_ms_bucket",
        r#"namespace="test",deployment="podinfo",direction="inbound""#,
        "",
    ),
    (
        "envoy_cluster_upstream_rq_time_bucket",
        r#"kubernetes_namespace="test",kubernetes_pod_name="podinfo-7d4b9-x2x4z""#,
        "",
    ),
    (
        "envoy_cluster_upstream_rq_time_bucket",
        r#"envoy_cluster_name="test_podinfo-canary_9898""#,
        "",
    ),
    (
        "skipper_response_duration_seconds_bucket",
        r#"route="kube_test__podinfo_canary__a____podinfo_canary_0""#,
        "code",
    ),
    (
        "traefik_service_request_duration_seconds_bucket",
        r#"service="test-podinfo-canary-9898@kubernetescrd""#,
        "code",
    ),
    (
        "apisix_http_latency_bucket",
        r#"route="test_podinfo-podinfo-canary_1",node="10.244.0.9",type="request""#,
        "",
    ),
    (
        "http_request_duration_seconds_bucket",
        r#"kubernetes_namespace="test",kubernetes_pod_name="podinfo-7d4b9-x2x4z""#,
        "",
    ),
    (
        "osm_request_duration_ms_bucket",
        r#"destination_namespace="test",destination_kind="Deployment",destination_name="podinfo""#,
        "",
    ),
];

/// The same, drawn last: the others keep the numbers they had, with which the versions of Prometheus agree.
const TIMED_TOO: &[(&str, &str, &str)] = &[
    ("envoy_cluster_upstream_rq_time_bucket", r#"envoy_cluster_name="test/podinfo-00002""#, ""),
    (
        "envoy_cluster_upstream_rq_time_bucket",
        r#"envoy_cluster_name="test-podinfo-canaryupstream-9898_gloo-system""#,
        "",
    ),
    ("envoy_cluster_upstream_rq_time_bucket", r#"service="podinfo-canary_test_svc_9898""#, ""),
];

/// The counters of pods of a `DaemonSet`, drawn after everything else for the same reason.
const COUNTED_LAST: &[(&str, &str, &str)] = &[
    (
        "envoy_cluster_upstream_rq",
        r#"kubernetes_namespace="test",kubernetes_pod_name="podinfo-x2x4z""#,
        "envoy_response_code",
    ),
    (
        "response_total",
        r#"namespace="test",daemonset="podinfo",direction="inbound""#,
        "classification",
    ),
    (
        "osm_request_total",
        r#"destination_namespace="test",destination_kind="DaemonSet",destination_name="podinfo""#,
        "response_code",
    ),
    (
        "http_request_duration_seconds_count",
        r#"kubernetes_namespace="test",kubernetes_pod_name="podinfo-x2x4z""#,
        "status",
    ),
];

/// Their times, and those of ingresses for the percentile.
const TIMED_LAST: &[(&str, &str, &str)] = &[
    (
        "nginx_ingress_controller_response_duration_seconds_bucket",
        r#"namespace="test",ingress="podinfo",canary="podinfo-canary""#,
        "status",
    ),
    (
        "skipper_serve_route_duration_seconds_bucket",
        r#"route="kube_test__podinfo_canary__a____podinfo_canary_0""#,
        "code",
    ),
    (
        "envoy_cluster_upstream_rq_time_bucket",
        r#"kubernetes_namespace="test",kubernetes_pod_name="podinfo-x2x4z""#,
        "",
    ),
    (
        "response_latency_ms_bucket",
        r#"namespace="test",daemonset="podinfo",direction="inbound""#,
        "",
    ),
    (
        "osm_request_duration_ms_bucket",
        r#"destination_namespace="test",destination_kind="DaemonSet",destination_name="podinfo""#,
        "",
    ),
    (
        "http_request_duration_seconds_bucket",
        r#"kubernetes_namespace="test",kubernetes_pod_name="podinfo-x2x4z""#,
        "",
    ),
];

/// The first values of counters. Near zero the versions of Prometheus do not agree on how far to
/// extrapolate.
const AWAY_FROM_ZERO: f64 = 2_000.0;

/// All series, the same each time.
pub fn rows() -> Vec<Row> {
    let random = Random::seeded(7);
    let counted = |(name, labels, ending): &(&str, &str, &str)| {
        let codes = ["200", "404", "503", "failure", "success"];
        codes.map(|code| Row::new(name, labels, &[(*ending, code)], counter(&random)))
    };
    let mut rows: Vec<Row> = COUNTED.iter().flat_map(counted).collect();
    let timed = |(name, labels, ending): &(&str, &str, &str)| {
        let codes: &[&str] = if ending.is_empty() { &[""] } else { &["200", "500"] };
        let of = |code: &&str| histogram(&random, name, labels, (*ending, *code));
        codes.iter().flat_map(of).collect::<Vec<_>>()
    };
    rows.extend(TIMED.iter().flat_map(timed));
    for x in ["1", "2", "3"] {
        for y in ["a", "b"] {
            rows.push(Row::new("a", "", &[("x", x), ("y", y)], counter(&random)));
            rows.push(Row::new("b", "", &[("x", x), ("y", y)], gauge(&random)));
        }
        rows.extend(histogram(&random, "h_bucket", "", ("x", x)));
        rows.push(Row::new("one", "", &[("x", x)], gauge(&random)));
    }
    rows.push(Row::new("special", "", &[("k", "nan")], constant(f64::NAN)));
    rows.push(Row::new("special", "", &[("k", "inf")], constant(f64::INFINITY)));
    rows.push(Row::new("special", "", &[("k", "zero")], constant(0.0)));
    rows.push(Row::new("special", "", &[("k", "negative")], constant(-2.5)));
    rows.extend(TIMED_TOO.iter().flat_map(timed));
    rows.extend(COUNTED_LAST.iter().flat_map(counted));
    rows.extend(TIMED_LAST.iter().flat_map(timed));
    for (residue, i) in ["0", "1", "2", "3", "4", "5", "6", "7"].into_iter().enumerate() {
        let group = if residue % 3 == 0 { "a" } else { "b" };
        rows.push(Row::new("rank", "", &[("g", group), ("i", i)], ranked(&random, residue)));
    }
    rows
}

/// The rows in the text form of `OpenMetrics`, with their times.
pub fn exposition(rows: &[Row]) -> String {
    let mut text = String::new();
    let mut sorted: Vec<&Row> = rows.iter().collect();
    sorted.sort_by(|a, b| a.name.cmp(&b.name));
    for row in sorted {
        let labels: Vec<String> =
            row.labels.iter().map(|(name, value)| format!("{name}=\"{value}\"")).collect();
        for (at_ms, value) in &row.points {
            let (seconds, rest) = (at_ms / 1_000, at_ms % 1_000);
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "{}{{{}}} {} {seconds}.{rest:03}",
                row.name,
                labels.join(","),
                shown(*value)
            );
        }
    }
    text.push_str("# EOF\n");
    text
}

/// The rows in a database of the sandbox.
pub fn database(rows: &[Row]) -> Database {
    let database = Database::new();
    for row in rows {
        let pairs: Vec<(&str, &str)> =
            row.labels.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let labels = Labels::of(&row.name, &pairs);
        for (at_ms, value) in &row.points {
            database.append(&labels, *at_ms, *value).expect("samples come in order");
        }
    }
    database
}

fn shown(value: f64) -> String {
    if value.is_nan() {
        "NaN".to_owned()
    } else if value.is_infinite() {
        if value > 0.0 { "+Inf".to_owned() } else { "-Inf".to_owned() }
    } else {
        value.to_string()
    }
}

fn times() -> impl Iterator<Item = i64> {
    let first = START_S * 1_000 + 500;
    (0..).map(move |count| first + count * EVERY_MS).take_while(|at| *at < END_S * 1_000)
}

/// Grows, and now and then resets; some samples are missing.
fn counter(random: &Random) -> Vec<(i64, f64)> {
    let mut value = AWAY_FROM_ZERO;
    let mut points = Vec::new();
    for at in times() {
        value = if random.chance(0.01) { AWAY_FROM_ZERO } else { value + small(random) };
        if !random.chance(0.03) {
            points.push((at, value));
        }
    }
    points
}

fn gauge(random: &Random) -> Vec<(i64, f64)> {
    times().filter(|_| !random.chance(0.05)).map(|at| (at, small(random) * 1.5 - 9.0)).collect()
}

/// A gauge with values that none of the other seven has.
fn ranked(random: &Random, residue: usize) -> Vec<(i64, f64)> {
    let residue = f64::from(u32::try_from(residue).unwrap_or_default());
    times().map(|at| (at, small(random) * 8.0 + residue)).collect()
}

fn constant(value: f64) -> Vec<(i64, f64)> {
    times().map(|at| (at, value)).collect()
}

fn small(random: &Random) -> f64 {
    f64::from(u32::try_from(random.below(17)).unwrap_or_default())
}

fn histogram(random: &Random, name: &str, labels: &str, more: (&str, &str)) -> Vec<Row> {
    let mut counts = BOUNDS.map(|(_, share)| (AWAY_FROM_ZERO * share).floor());
    let mut points = vec![Vec::new(); BOUNDS.len()];
    for at in times() {
        let requests = small(random);
        for (index, (_, share)) in BOUNDS.iter().enumerate() {
            counts[index] += (requests * share).floor();
            points[index].push((at, counts[index]));
        }
    }
    let rows = BOUNDS.iter().zip(points);
    rows.map(|((bound, _), points)| Row::new(name, labels, &[more, ("le", bound)], points))
        .collect()
}

// === impl Row ===

impl Row {
    fn new(name: &str, labels: &str, more: &[(&str, &str)], points: Vec<(i64, f64)>) -> Self {
        let written = labels.split("\",").filter_map(|pair| pair.split_once("=\""));
        let written = written.map(|(name, value)| (name, value.trim_end_matches('"')));
        let more = more.iter().copied().filter(|(name, _)| !name.is_empty());
        let mut labels: Vec<(String, String)> =
            written.chain(more).map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        labels.sort();
        Self { name: name.to_owned(), labels, points }
    }
}
