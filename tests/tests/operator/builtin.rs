//! The built-in checks of every provider, over samples as its proxies expose them: from the operator's
//! queries, through the sandbox's Prometheus, to the measured number.
//!
//! Of every hundred requests to the canary ten fail, and ten take longer than a tenth of a second but not
//! half a second. The primary fails always and is slow: a query that mixes them up gets another number.

use std::collections::BTreeMap;

use jiff::Timestamp;
use promql::{Database, Labels, respond};
use serde_json::json;
use tidegate_api::canary::{Canary, analysis::AnalysisMetric};
use tidegate_providers::{
    metrics::{
        Builtin, Observer,
        prometheus::{self, Credentials},
    },
    template::Model,
};

/// The exposed metrics of one provider.
struct Recorded {
    provider: &'static str,
    /// Lines of `series{labels} growth`, where `growth` is the increase between two scrapes.
    page: String,
    duration_ms: f64,
}

/// A percentile between the two bounds of the histograms here.
const PERCENTILE_MS: f64 = 460.0;
const MEAN_MS: f64 = 250.0;
const NOW_S: i64 = 1_767_225_600;
const SCRAPES: i64 = 30;
const EVERY_S: i64 = 10;

/// Labels of the canary, and of one that is not it.
type Sides = (&'static str, &'static str);

/// A counter with a label for the result of a request.
fn counted(series: &str, (canary, stranger): Sides, [served, failed]: [&str; 2]) -> String {
    format!(
        "{series}{{{canary},{served}}} 90\n{series}{{{canary},{failed}}} 10\n\
         {series}{{{stranger},{failed}}} 900\n"
    )
}

/// A histogram with these two bounds.
fn timed(series: &str, (canary, stranger): Sides, [fast, slow]: [&str; 2]) -> String {
    format!(
        "{series}{{{canary},le=\"{fast}\"}} 90\n{series}{{{canary},le=\"{slow}\"}} 100\n\
         {series}{{{canary},le=\"+Inf\"}} 100\n\
         {series}{{{stranger},le=\"{fast}\"}} 0\n{series}{{{stranger},le=\"{slow}\"}} 0\n\
         {series}{{{stranger},le=\"+Inf\"}} 900\n"
    )
}

/// A sum and a count, of a quarter of a second each.
fn summed(series: &str, (canary, stranger): Sides) -> String {
    format!(
        "{series}_sum{{{canary}}} 25\n{series}_count{{{canary}}} 100\n\
         {series}_sum{{{stranger}}} 9000\n{series}_count{{{stranger}}} 900\n"
    )
}

fn envoy(provider: &'static str, sides: Sides) -> Recorded {
    let codes = [r#"envoy_response_code="200""#, r#"envoy_response_code="503""#];
    let page = counted("envoy_cluster_upstream_rq", sides, codes)
        + &timed("envoy_cluster_upstream_rq_time_bucket", sides, ["100", "500"]);
    Recorded { provider, page, duration_ms: PERCENTILE_MS }
}

fn by_proxies() -> Vec<Recorded> {
    let istio = (
        r#"reporter="destination",destination_workload_namespace="test",destination_workload="podinfo""#,
        r#"reporter="destination",destination_workload_namespace="test",destination_workload="podinfo-primary""#,
    );
    let linkerd = (
        r#"namespace="test",deployment="podinfo",direction="inbound""#,
        r#"namespace="test",deployment="podinfo-primary",direction="inbound""#,
    );
    let osm = (
        r#"destination_namespace="test",destination_kind="Deployment",destination_name="podinfo""#,
        r#"destination_namespace="test",destination_kind="Deployment",destination_name="podinfo-primary""#,
    );
    let codes = [r#"response_code="200""#, r#"response_code="500""#];
    let classes = [r#"classification="success""#, r#"classification="failure""#];
    let ms = ["100", "500"];
    let duration_ms = PERCENTILE_MS;
    let row = |provider, page| Recorded { provider, page, duration_ms };
    vec![
        row(
            "istio",
            counted("istio_requests_total", istio, codes)
                + &timed("istio_request_duration_milliseconds_bucket", istio, ms),
        ),
        row(
            "linkerd",
            counted("response_total", linkerd, classes)
                + &timed("response_latency_ms_bucket", linkerd, ms),
        ),
        row(
            "osm",
            counted("osm_request_total", osm, codes)
                + &timed("osm_request_duration_ms_bucket", osm, ms),
        ),
        envoy(
            "appmesh",
            (
                r#"kubernetes_namespace="test",kubernetes_pod_name="podinfo-7d4b9-x2x4z""#,
                r#"kubernetes_namespace="test",kubernetes_pod_name="podinfo-primary-7d4b9-x2x4z""#,
            ),
        ),
        envoy(
            "contour",
            (
                r#"envoy_cluster_name="test_podinfo-canary_9898""#,
                r#"envoy_cluster_name="test_podinfo-primary_9898""#,
            ),
        ),
        envoy(
            "gloo",
            (
                r#"envoy_cluster_name="test-podinfo-canaryupstream-9898_gloo-system""#,
                r#"envoy_cluster_name="test-podinfo-primaryupstream-9898_gloo-system""#,
            ),
        ),
        envoy(
            "kuma",
            (
                r#"service="podinfo-canary_test_svc_9898""#,
                r#"service="podinfo-primary_test_svc_9898""#,
            ),
        ),
        envoy(
            "knative",
            (
                r#"envoy_cluster_name="test/podinfo-00002""#,
                r#"envoy_cluster_name="test/podinfo-00001""#,
            ),
        ),
    ]
}

fn by_gateways() -> Vec<Recorded> {
    let nginx = (
        r#"namespace="test",ingress="podinfo",canary="podinfo-canary""#,
        r#"namespace="test",ingress="podinfo",canary="""#,
    );
    let skipper = (
        r#"route="kube_test__podinfo_canary__app_example_com____podinfo_canary_0""#,
        r#"route="kube_test__podinfo__app_example_com____podinfo_primary_0""#,
    );
    let traefik = (
        r#"service="test-podinfo-canary-80@kubernetescrd",code="200""#,
        r#"service="test-podinfo-primary-80@kubernetescrd",code="500""#,
    );
    // One route leads to both sides: the label of the node tells them apart.
    let apisix = (
        r#"route="test_podinfo-podinfo-canary_rule1",node="10.244.0.9""#,
        r#"route="test_podinfo-podinfo-canary_rule1",node="10.244.0.7""#,
    );
    let apisix_timed = (
        r#"route="test_podinfo-podinfo-canary_rule1",node="10.244.0.9",type="request""#,
        r#"route="test_podinfo-podinfo-canary_rule1",node="10.244.0.7",type="request""#,
    );
    let pods = (
        r#"kubernetes_namespace="test",kubernetes_pod_name="podinfo-7d4b9-x2x4z""#,
        r#"kubernetes_namespace="test",kubernetes_pod_name="podinfo-primary-7d4b9-x2x4z""#,
    );
    let (statuses, codes) =
        ([r#"status="200""#, r#"status="500""#], [r#"code="200""#, r#"code="500""#]);
    // The buckets of Skipper and Traefik count requests too, by the one without a bound.
    let whole = [r#"code="200",le="+Inf""#, r#"code="500",le="+Inf""#];
    let failed = r#"traefik_service_request_duration_seconds_bucket{service="test-podinfo-canary-80@kubernetescrd",code="500",le="#;
    let traefik_page =
        timed("traefik_service_request_duration_seconds_bucket", traefik, ["0.1", "0.5"])
            .replace("} 90\n", "} 81\n")
            .replace("} 100\n", "} 90\n")
            + &format!("{failed}\"0.1\"}} 9\n{failed}\"0.5\"}} 10\n{failed}\"+Inf\"}} 10\n");
    let row = |provider, page, duration_ms| Recorded { provider, page, duration_ms };
    vec![
        row(
            "nginx",
            counted("nginx_ingress_controller_requests", nginx, statuses)
                + &summed("nginx_ingress_controller_response_duration_seconds", nginx),
            MEAN_MS,
        ),
        row(
            "skipper",
            counted("skipper_response_duration_seconds_bucket", skipper, whole)
                + &summed("skipper_serve_route_duration_seconds", skipper),
            MEAN_MS,
        ),
        row("traefik", traefik_page, PERCENTILE_MS),
        row(
            "apisix",
            counted("apisix_http_status", apisix, codes)
                + &timed("apisix_http_latency_bucket", apisix_timed, ["100", "500"]),
            PERCENTILE_MS,
        ),
        row(
            "kubernetes",
            counted("http_request_duration_seconds_count", pods, statuses)
                + &timed("http_request_duration_seconds_bucket", pods, ["0.1", "0.5"]),
            PERCENTILE_MS,
        ),
    ]
}

/// A Prometheus that has scraped such a page for some minutes.
fn scraped(page: &str) -> Database {
    let database = Database::new();
    for scrape in 0..SCRAPES {
        let at_ms = (NOW_S - (SCRAPES - 1 - scrape) * EVERY_S) * 1000;
        for line in page.lines() {
            let (series, growth) = line.rsplit_once(' ').expect("a series and a number");
            let growth: f64 = growth.parse().expect("a number");
            let (name, inside) = series.split_once('{').expect("it has labels");
            let pairs = inside.trim_end_matches('}').split("\",");
            let pairs: Vec<_> = pairs.filter_map(|pair| pair.split_once("=\"")).collect();
            let pairs: Vec<_> =
                pairs.iter().map(|(name, value)| (*name, value.trim_end_matches('"'))).collect();
            let value = growth * f64::from(u32::try_from(scrape).expect("small"));
            database.append(&Labels::of(name, &pairs), at_ms, value).expect("in order");
        }
    }
    database
}

/// The number that the operator reads from the answer to a query.
fn asked(database: &Database, query: &str) -> f64 {
    let none = BTreeMap::new();
    let request = prometheus::request("http://prometheus:9090", query, &none, &Credentials::None);
    let request = request.expect("a query can be sent");
    let path = request.url.path_and_query().expect("it has a path").as_str();
    let path = format!("{path}&time={NOW_S}");
    let now = Timestamp::from_second(NOW_S).expect("a time");
    let answer = respond(database, now, &request.method, &path, &request.body);
    let read = prometheus::parse(answer.status, answer.body.as_bytes());
    assert_eq!(read.map(|read| read.series), Ok(1), "{query}");
    read.map_or(f64::NAN, |read| read.sample.get())
}

fn model(provider: &str) -> (Model, Observer) {
    let canary: Canary = serde_json::from_value(json!({
        "metadata": { "name": "podinfo", "namespace": "test" },
        "spec": {
            "targetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "podinfo" },
            "service": { "port": 80 },
            "analysis": { "interval": "1m", "threshold": 5, "stepWeight": 10 },
        },
    }))
    .expect("a canary");
    let plain = Model::of(&canary, &AnalysisMetric::default()).expect("names");
    let model = match provider {
        "knative" => plain.with_route("podinfo-00002").expect("a name"),
        "apisix" => plain.with_addresses(["10.244.0.9"]),
        _ => plain,
    };
    (model, Observer::select(provider, None, &canary.spec.target_ref))
}

#[test]
fn every_providers_built_in_checks_read_the_canarys_own_numbers() {
    let all: Vec<_> = by_proxies().into_iter().chain(by_gateways()).collect();
    assert_eq!(all.len(), 13, "each kind of observer");
    for Recorded { provider, page, duration_ms } in all {
        let database = scraped(&page);
        let (model, observer) = model(provider);
        let close = |query: &str, want: f64| {
            let found = asked(&database, query);
            assert!((found - want).abs() < 0.01, "{provider}: {found} and not {want}: {query}");
        };
        close(&observer.query(Builtin::SuccessRate, &model), 90.0);
        close(&observer.query(Builtin::Duration, &model), duration_ms);
        // A hundred between two scrapes.
        close(&observer.total_query(&model), 10.0);
    }
}
