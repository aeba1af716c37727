//! Queries taken apart, quantities read, tokens sent to their own server only.

use super::{
    super::testing::{Asked, answered, asked, done, of_several, to_cluster, value},
    *,
};
use crate::metrics::Outcome;

fn external(query: &str) -> Asked {
    asked("externalmetrics").query(query)
}

#[test]
fn external_queries_are_a_namespace_a_metric_and_a_selector() {
    let wanted = |namespace: &str, metric: &str, selector: &str| {
        let (namespace, metric) = (namespace.to_owned(), metric.to_owned());
        Ok(Wanted { namespace, metric, selector: selector.to_owned() })
    };
    let cases = [
        (
            "default/myMetric?labelSelector=label1%3Dvalue1",
            wanted("default", "myMetric", "label1=value1"),
        ),
        ("myMetric", wanted("default", "myMetric", "")),
        ("/metric_only", wanted("default", "metric_only", "")),
        ("a/b?x=y&labelSelector=k%20in%20(v1,v2)", wanted("a", "b", "k in (v1,v2)")),
        ("a/b\n", wanted("a", "b", "")),
    ];
    for (query, want) in cases {
        assert_eq!(Wanted::of(query), want, "{query:?}");
    }
    let broken = [
        "namespaceonly/",
        "/",
        "",
        "a/b/c",
        "a\nb",
        "A_b/c",
        "a/..",
        "a/%ff",
        "a/b?labelSelector=%0a",
        "a/b?labelSelector=x%26timeout%3D9h",
    ];
    for query in broken {
        let refusal = external(query).refusal().to_string();
        assert!(refusal.starts_with("error parsing metric query: "), "{query:?}: {refusal}");
    }
}

#[test]
fn without_an_address_the_cluster_is_asked() {
    let machine = external("default/m?labelSelector=a%3Db").machine().unwrap();
    let call = to_cluster(&machine, &[]);
    assert_eq!(
        call.path,
        "/apis/external.metrics.k8s.io/v1beta1/namespaces/default/m?labelSelector=a%3Db&timeout=5s"
    );
    assert_eq!(call.authorization, None);
    let datadog = external("shop/datadogmetric@shop:errors rate").machine().unwrap();
    assert_eq!(
        to_cluster(&datadog, &[]).path,
        "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/datadogmetric@shop:errors%20rate?timeout=5s"
    );
    let own = external("m").secret(&[("token", "t")]).machine().unwrap();
    let token = to_cluster(&own, &[]).authorization.unwrap();
    assert_eq!(token, "Bearer t");
    assert!(token.is_sensitive());
}

#[test]
fn the_operators_token_stays_in_the_cluster() {
    let evil = external("m").at("http://evil:80").refusal();
    assert_eq!(evil, ProviderError::NotSecure("externalmetrics"));
    let call = external("m").at("https://metrics.example/base/").call();
    assert_eq!(
        call.request.url,
        "https://metrics.example/base/apis/external.metrics.k8s.io/v1beta1/namespaces/default/m?timeout=5s"
    );
    assert!(!call.request.headers.contains_key("authorization"));
    let own = external("m").at("https://metrics.example").secret(&[("token", "t")]).call();
    assert_eq!(own.request.headers["authorization"], "Bearer t");
}

#[test]
fn another_address_has_authorities_of_its_own() {
    let mut asked = external("m")
        .at("https://metrics.example")
        .secret(&[("token", "t"), ("ca.crt", "-----BEGIN CERTIFICATE-----")]);
    let call = asked.call();
    assert!(call.verify_tls);
    assert_eq!(call.ca_pem.as_deref(), Some(b"-----BEGIN CERTIFICATE-----".as_slice()));
    asked.provider.insecure_skip_verify = Some(true);
    assert!(!asked.call().verify_tls);
}

#[test]
fn it_looks_into_its_own_namespace_where_it_is_confined() {
    let mut asked = external("m");
    asked.confined_to = Some("test".into());
    let want = ProviderError::Confined { provider: "externalmetrics", namespace: "default".into() };
    assert_eq!(asked.refusal(), want);
    assert!(asked.query("test/m").machine().is_ok());
}

#[test]
fn external_metrics_are_quantities() {
    let malformed = Outcome::Failure(QueryError::Malformed);
    let items = |items: &str| format!(r#"{{"kind":"ExternalMetricValueList","items":[{items}]}}"#);
    let two = r#"{"value":"1"},{"value":"2"}"#;
    let cases = [
        ("a quantity", 200, items(r#"{"metricName":"m","value":"1111100u"}"#), value(1.1111)),
        ("of two the first, and it is told", 200, items(two), of_several(1.0, 2)),
        ("none", 200, items(""), Outcome::NoData),
        ("none, in Go", 200, r#"{"items":null}"#.to_owned(), Outcome::NoData),
        ("no quantity", 200, items(r#"{"value":"much"}"#), malformed),
        ("not a text", 200, items(r#"{"value":1}"#), malformed),
        ("NaN is none", 200, items(r#"{"value":"NaN"}"#), malformed),
        ("no value", 200, items("{}"), malformed),
        ("no list", 200, "{}".to_owned(), malformed),
        ("cut", 200, items("")[..20].to_owned(), malformed),
        (
            "no such metric",
            404,
            r#"{"kind":"Status"}"#.to_owned(),
            Outcome::Failure(QueryError::Refused { status: 404, reason: None }),
        ),
    ];
    let machine = external("m").machine().unwrap();
    for (reason, status, body, want) in cases {
        assert_eq!(done(&machine, &[answered(status, &body)]), want, "{reason}");
    }
}

#[test]
fn a_metric_that_is_not_there_is_an_answer() {
    let probe = external("").probe().unwrap();
    let call = to_cluster(&probe, &[]);
    assert!(call.path.contains("/namespaces/kube-system/dummy-metric?"), "{}", call.path);
    for (status, want) in [(200, true), (404, true), (401, false), (403, false), (503, false)] {
        let outcome = done(&probe, &[answered(status, "")]);
        assert_eq!(matches!(outcome, Outcome::Value(_)), want, "{status}");
    }
}
