use serde_json::json;
use tidegate_api::canary::Canary;
use tidegate_providers::workload::SECRET;

use super::*;
use crate::{
    canary::testing::{Kit, Reply, in_analysis, knative},
    cluster::CANARY,
};

fn model() -> Model {
    let canary: Canary = serde_json::from_value(json!({
        "metadata": { "name": "podinfo", "namespace": "test" },
        "spec": {
            "targetRef": {
                "apiVersion": "serving.knative.dev/v1", "kind": "Service", "name": "podinfo",
            },
            "analysis": { "interval": "1m", "threshold": 5, "stepWeight": 10 },
        },
    }))
    .unwrap();
    Model::of(&canary, &AnalysisMetric::default()).unwrap()
}

#[test]
fn a_service_of_knative_without_a_revision_is_no_answer_and_not_silence() {
    let service = |name: Value| json!({ "status": { "latestCreatedRevisionName": name } });
    let created = service(json!("podinfo-00002"));
    assert!(matches!(created_revision(&model(), Some(&created)), Ok("podinfo-00002")));
    for target in [None, Some(json!({})), Some(service(json!("")))] {
        let found = created_revision(&model(), target.as_ref());
        let Err(NoValue::QueryFailed(why)) = found else { panic!("there is none") };
        assert!(why.contains("test/podinfo"), "{why}");
    }
}

#[test]
fn only_the_built_in_duration_is_exported_in_seconds() {
    let metric = AnalysisMetric { name: "request-duration".into(), ..AnalysisMetric::default() };
    let cases =
        [(Measure::Duration, 0.25), (Measure::Custom, 250.0), (Measure::SuccessRate, 250.0)];
    for (measure, want) in cases {
        let sample = tidegate_providers::metrics::Sample::new(250.0).unwrap();
        let value = exported(measure, &judge(&metric, measure, sample));
        assert!((value - want).abs() < f64::EPSILON, "{measure:?}: {value}");
    }
}

/// A canary with these metrics.
fn kit(metrics: &Value) -> Kit {
    Kit::in_analysis(&json!({ "analysis": { "metrics": metrics } }), &json!({}))
}

/// A metric with a query of its own, at most 5.
fn inline(name: &str) -> Value {
    json!({ "name": name, "query": name, "thresholdRange": { "max": 5 } })
}

async fn check(kit: &Kit) -> Checks {
    let observation = kit.observe();
    Analysis::new(&kit.canary(), &observation, &Warned::default()).check().await
}

async fn verdict(kit: &Kit) -> Verdict {
    check(kit).await.verdict
}

/// The queries that Prometheus got, as they are in URLs.
fn queries(kit: &Kit) -> Vec<String> {
    let query = |url: String| url.split_once("query=").map_or(url.clone(), |(_, it)| it.to_owned());
    kit.net.urls().into_iter().map(query).collect()
}

fn none() -> Reply {
    Reply::series(&[])
}

fn failed(verdict: &Verdict) -> &str {
    match verdict {
        Verdict::Failed(why) => why,
        other => panic!("it did not fail: {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_bad_value_comes_before_no_data_and_that_before_a_hold() {
    let value = |text: &str| Reply::value(text);
    let cases = [
        ("all is well", value("1"), value("5"), "Passed"),
        ("one is bad", value("1"), value("5.1"), "Failed"),
        ("both are bad", value("6"), value("7"), "Failed"),
        ("nothing to measure", none(), value("1"), "NoData"),
        ("nothing to measure, which may wait", value("1"), none(), "Held"),
        ("neither has data", none(), none(), "NoData"),
        ("bad, and nothing to measure", none(), value("9"), "Failed"),
        ("bad, and nothing to measure, which may wait", value("9"), none(), "Failed"),
        ("no sensible answer", Reply::status(500), none(), "Failed"),
        ("not reached, though it may wait", value("1"), Reply::Unreachable, "Failed"),
    ];
    for (reason, alpha, beta, want) in cases {
        let mut second = inline("beta");
        second["onNoData"] = json!("hold");
        let kit = kit(&json!([inline("alpha"), second]));
        kit.net.answer("query=alpha", &[alpha]);
        kit.net.answer("query=beta", &[beta]);
        let found = verdict(&kit).await;
        assert!(format!("{found:?}").starts_with(want), "{reason}: {found:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_of_several_reasons_is_told() {
    let kit = kit(&json!([inline("alpha"), inline("beta")]));
    kit.net.answer("query=alpha", &[Reply::value("7")]);
    kit.net.answer("query=beta", &[Reply::value("8")]);
    let first = verdict(&kit).await;
    assert!(failed(&first).contains("alpha"), "{first:?}");
    kit.net.answer("query", &[none()]);
    let Verdict::NoData(why) = verdict(&kit).await else { panic!("no data") };
    assert_eq!(why, "no values found for metric alpha, probably web.shop is not receiving traffic",);
}

#[tokio::test(start_paused = true)]
async fn measurements_are_kept_and_exported() {
    let kit = kit(&json!([inline("alpha"), inline("beta")]));
    kit.net.answer("query=alpha", &[Reply::value("2")]);
    kit.net.answer("query=beta", &[Reply::series(&["1", "7"])]);
    let checks = check(&kit).await;
    let of = |at: usize| {
        let Measurement { name, value, min, max, passed } = &checks.measured[at];
        (name.clone(), *value, *min, *max, *passed)
    };
    assert_eq!(checks.measured.len(), 2);
    assert_eq!(of(0), ("alpha".to_owned(), 2.0, None, Some(5.0), true));
    assert_eq!(of(1), ("beta".to_owned(), 7.0, None, Some(5.0), false), "the last series");
    assert_eq!(checks.ambiguous, ["beta"]);
    let gauge = r#"flagger_canary_metric_analysis{name="web",namespace="shop",metric="#;
    assert!(kit.has_metric(&format!(r#"{gauge}"alpha"}} 2"#)));
    kit.net.answer("query=alpha", &[none()]);
    check(&kit).await;
    assert!(!kit.has_metric(&format!(r#"{gauge}"alpha"}}"#)), "a value of before is none");
    assert!(kit.has_metric(&format!(r#"{gauge}"beta"}} 7"#)));
    assert!(
        kit.has_metric(
            r#"tidegate_metric_queries_total{provider="prometheus",outcome="success"} 3"#
        )
    );
}

#[tokio::test(start_paused = true)]
async fn the_same_query_is_sent_once_and_judged_by_each_metric() {
    let strict = json!({ "name": "strict", "query": "alpha", "thresholdRange": { "max": 1 } });
    let kit = kit(&json!([inline("alpha"), strict, inline("beta")]));
    kit.net.answer("query", &[Reply::value("3")]);
    let checks = check(&kit).await;
    assert_eq!(queries(&kit), ["alpha", "beta"]);
    let passed: Vec<bool> = checks.measured.iter().map(|it| it.passed).collect();
    assert_eq!(passed, [true, false, true]);
    assert!(kit.net.calls().iter().all(|it| !it.has_permit));
}

#[tokio::test(start_paused = true)]
async fn rollout_hooks_are_called_first_and_end_the_check() {
    let spec = json!({ "analysis": {
        "metrics": [inline("alpha")],
        "webhooks": [{ "name": "load", "type": "rollout", "url": "http://load.example/" }],
    } });
    let kit = Kit::in_analysis(&spec, &json!({}));
    kit.net.answer("query", &[Reply::value("3")]);
    assert_eq!(verdict(&kit).await, Verdict::Passed);
    assert!(kit.net.urls()[0].contains("load.example"), "{:?}", kit.net.urls());
    assert_eq!(kit.net.calls().len(), 2);
    kit.net.answer("load", &[Reply::status(400)]);
    let no = verdict(&kit).await;
    assert_eq!(failed(&no), "external check load failed, answered 400");
    assert_eq!(kit.net.calls().len(), 3, "nothing was measured");
}

#[tokio::test(start_paused = true)]
async fn a_metric_without_a_query_fails_before_anything_is_asked() {
    let kit = kit(&json!([inline("alpha"), { "name": "unknown", "thresholdRange": { "max": 1 } }]));
    let no = verdict(&kit).await;
    assert!(failed(&no).starts_with("metric unknown has no query"), "{no:?}");
    assert_eq!(kit.net.calls().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn queries_of_the_spec_come_before_templates() {
    let both = json!({ "name": "one", "query": "alpha", "templateRef": { "name": "t" },
        "thresholdRange": { "max": 5 } });
    let kit = kit(&json!([both, inline("beta")]));
    kit.put(METRIC_TEMPLATE, template("gamma"));
    kit.net.answer("query", &[Reply::value("3")]);
    assert_eq!(verdict(&kit).await, Verdict::Passed);
    assert_eq!(queries(&kit), ["alpha", "beta", "gamma"]);
}

#[tokio::test(start_paused = true)]
async fn built_in_metrics_know_silence_from_errors() {
    let rate = json!([{ "name": "request-success-rate", "thresholdRange": { "min": 99 } }]);
    let silence = "no values found for istio metric request-success-rate, \
                   probably web.shop is not receiving traffic";
    let cases = [
        ("a value", vec![Reply::value("99.5")], "Passed", "", 1),
        ("nothing but errors", vec![none(), Reply::value("3")], "Failed", "", 2),
        ("no requests at all", vec![none(), Reply::value("0")], "NoData", silence, 2),
        ("no series at all", vec![none(), none()], "NoData", silence, 2),
        ("the second query fails", vec![none(), Reply::Unreachable], "Failed", "cannot connect", 2),
        ("the second is refused", vec![none(), Reply::status(403)], "Failed", "failed", 2),
        ("the first query fails", vec![Reply::status(500)], "Failed", "the query of metric", 1),
    ];
    for (reason, replies, want, text, calls) in cases {
        let kit = kit(&rate);
        kit.net.answer("query", &replies);
        let found = format!("{:?}", verdict(&kit).await);
        assert!(found.starts_with(want) && found.contains(text), "{reason}: {found}");
        assert_eq!(kit.net.calls().len(), calls, "{reason}");
    }
    let duration = kit(&json!([{ "name": "request-duration", "thresholdRange": { "max": 500 } }]));
    duration.net.answer("query", &[none()]);
    assert!(matches!(verdict(&duration).await, Verdict::NoData(_)));
    assert_eq!(duration.net.calls().len(), 1, "there is no second question about time");
}

#[tokio::test(start_paused = true)]
async fn the_server_of_the_canary_is_not_trusted_and_that_of_the_flag_is() {
    let own = |address: &str| {
        let spec =
            json!({ "metricsServer": address, "analysis": { "metrics": [inline("alpha")] } });
        Kit::in_analysis(&spec, &json!({}))
    };
    for (address, host, is_trusted) in [
        ("http://mine.example:9090", "http://mine.example:9090/", false),
        ("", "http://prometheus:9090/", true),
    ] {
        let kit = own(address);
        kit.net.answer("query", &[Reply::value("1")]);
        assert_eq!(verdict(&kit).await, Verdict::Passed, "{host}");
        let call = &kit.net.calls()[0];
        assert!(call.url.starts_with(host), "{}", call.url);
        assert_eq!(call.sent.trusted, is_trusted, "{host}");
        assert_eq!(call.sent.timeout, kit.cx.options.query_timeout, "{host}");
    }
}

fn template(query: &str) -> Value {
    json!({
        "metadata": { "name": "t" },
        "spec": {
            "provider": { "type": "prometheus", "address": "http://metrics.example" },
            "query": query,
        },
    })
}

fn templated(reference: &Value) -> Kit {
    let metric = json!({ "name": "lag", "templateRef": reference, "thresholdRange": { "max": 5 } });
    kit(&json!([metric]))
}

#[tokio::test(start_paused = true)]
async fn a_template_is_asked_with_its_secret() {
    let kit = templated(&json!({ "name": "t" }));
    let mut object = template("lag {{ target }}");
    object["spec"]["provider"]["secretRef"] = json!({ "name": "login" });
    kit.put(METRIC_TEMPLATE, object);
    let no = verdict(&kit).await;
    assert_eq!(failed(&no), "Secret shop/login does not exist");
    kit.api
        .put(SECRET, json!({ "metadata": { "name": "login" }, "data": { "token": "c2VzYW1l" } }));
    kit.net.answer("query", &[Reply::value("1")]);
    assert_eq!(verdict(&kit).await, Verdict::Passed);
    let call = &kit.net.calls()[0];
    assert!(call.url.starts_with("http://metrics.example/") && call.url.ends_with("lag%20web"));
    assert_eq!(call.header("authorization"), Some("Bearer sesame"));
    assert!(!call.sent.trusted);
    kit.api.fail("GET secrets/login", 403, 1);
    let no = verdict(&kit).await;
    assert_eq!(failed(&no), "Secret shop/login may not be read");
    kit.api.fail("GET secrets/login", 503, 1);
    let no = verdict(&kit).await;
    assert_eq!(failed(&no), "Secret shop/login cannot be read now");
}

#[tokio::test(start_paused = true)]
async fn a_template_that_cannot_be_asked_fails_the_check() {
    let with = |change: fn(&mut Value)| {
        let kit = templated(&json!({ "name": "t" }));
        let mut object = template("lag");
        change(&mut object);
        kit.put(METRIC_TEMPLATE, object);
        kit.net.answer("query", &[Reply::Status(500, "down".to_owned())]);
        kit
    };
    let cases = [
        ("missing", templated(&json!({ "name": "t" })), "metric template shop/t does not exist"),
        (
            "of another namespace",
            templated(&json!({ "name": "t", "namespace": "ops" })),
            "metric template ops/t does not exist",
        ),
        (
            "unreadable",
            with(|it| it["spec"]["query"] = json!(7)),
            "metric template shop/t cannot be read",
        ),
        (
            "of an unknown provider",
            with(|it| it["spec"]["provider"]["type"] = json!("crystal")),
            "metric template shop/t: ",
        ),
        ("the server fails", with(|_| {}), "the query of metric lag failed: prometheus of metric"),
        (
            "a query that cannot be filled in",
            with(|it| it["spec"]["query"] = json!("{{ nothing }}")),
            "",
        ),
    ];
    for (reason, kit, want) in cases {
        let no = verdict(&kit).await;
        assert!(failed(&no).starts_with(want), "{reason}: {no:?}");
    }
    let silent = with(|_| {});
    silent.net.answer("query", &[none()]);
    let Verdict::NoData(why) = verdict(&silent).await else { panic!("no data") };
    assert!(why.contains("metric lag"), "{why}");
}

#[tokio::test(start_paused = true)]
async fn templates_with_the_same_query_share_the_answer() {
    let metric = |name: &str, interval: &str| {
        json!({ "name": name, "interval": interval, "templateRef": { "name": "t" },
            "thresholdRange": { "max": 5 } })
    };
    let kit = kit(&json!([metric("a", "1m"), metric("b", "1m"), metric("c", "2m")]));
    kit.put(METRIC_TEMPLATE, template("lag"));
    kit.net.answer("query", &[Reply::value("1")]);
    assert_eq!(check(&kit).await.measured.len(), 3);
    assert_eq!(kit.net.calls().len(), 2, "another interval is another question");
}

#[tokio::test(start_paused = true)]
async fn a_template_of_another_namespace_takes_tame_variables_only() {
    let of = |namespace: Option<&str>, value: &str| {
        let mut reference = json!({ "name": "t" });
        if let Some(namespace) = namespace {
            reference["namespace"] = json!(namespace);
        }
        let metric = json!({ "name": "lag", "templateRef": reference,
            "templateVariables": { "shop": value }, "thresholdRange": { "max": 5 } });
        let kit = kit(&json!([metric]));
        let mut object = template("lag {{ variables.shop }}");
        kit.put(METRIC_TEMPLATE, object.clone());
        object["metadata"] = json!({
            "name": "t", "namespace": "ops", "resourceVersion": "5", "uid": "t-ops",
        });
        kit.cx.cluster.cache.cache_insert(METRIC_TEMPLATE, object);
        kit.net.answer("query", &[Reply::value("1")]);
        kit
    };
    for (reason, namespace, value, passes) in [
        ("tame", Some("ops"), "web", true),
        ("it ends the value", Some("ops"), "web\"} or secret", false),
        ("in its own namespace", None, "web\"} or secret", true),
    ] {
        let found = verdict(&of(namespace, value)).await;
        assert_eq!(found == Verdict::Passed, passes, "{reason}: {found:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_login_of_another_namespace_is_used_for_values_in_its_query_only() {
    let outside = "lag > {{ variables.shop }}";
    let within = r#"lag{shop="{{ variables.shop }}"}"#;
    let code = "1) or vector(0) #";
    for (reason, namespace, has_login, query, value, passes) in [
        ("code, with its login", "ops", true, outside, code, false),
        ("a number", "ops", true, outside, "1", true),
        ("text in a string", "ops", true, within, code, true),
        ("code, without a login", "ops", false, outside, code, true),
        ("code, in its own namespace", "shop", true, outside, code, true),
    ] {
        let reference = json!({ "name": "t", "namespace": namespace });
        let metric = json!({ "name": "lag", "templateRef": reference,
            "templateVariables": { "shop": value }, "thresholdRange": { "max": 5 } });
        let kit = kit(&json!([metric]));
        let mut object = template(query);
        if has_login {
            object["spec"]["provider"]["secretRef"] = json!({ "name": "login" });
        }
        object["metadata"] = json!({
            "name": "t", "namespace": namespace, "resourceVersion": "5", "uid": "t",
        });
        kit.cx.cluster.cache.cache_insert(METRIC_TEMPLATE, object);
        let path = format!("/api/v1/namespaces/{namespace}/secrets/login");
        kit.api.put_at(&path, login(json!({})));
        kit.net.answer("query", &[Reply::value("1")]);
        let found = verdict(&kit).await;
        assert_eq!(found == Verdict::Passed, passes, "{reason}: {found:?}");
        if !passes {
            assert!(failed(&found).contains("line 1: a variable has ')'"), "{found:?}");
            assert!(kit.net.calls().is_empty(), "{reason}");
        }
    }
}

fn login(mut metadata: Value) -> Value {
    metadata["name"] = json!("login");
    json!({ "metadata": metadata, "data": { "token": "c2VzYW1l" } })
}

/// A canary whose template sends this Secret to `metrics.example`.
fn sending(secret: Value, is_label_required: bool) -> Kit {
    let metric = json!({ "name": "lag", "templateRef": { "name": "t" },
        "thresholdRange": { "max": 5 } });
    let mut bench = in_analysis("istio").spec(&json!({ "analysis": { "metrics": [metric] } }));
    bench.options.require_metric_secret_label = is_label_required;
    let kit = Kit::of(bench);
    let mut object = template("lag");
    object["spec"]["provider"]["secretRef"] = json!({ "name": "login" });
    kit.put(METRIC_TEMPLATE, object);
    kit.api.put(SECRET, secret);
    kit.net.answer("query", &[Reply::value("1")]);
    kit
}

#[tokio::test(start_paused = true)]
async fn a_secret_is_sent_with_its_owners_consent() {
    let label = || json!({ "tidegate.dev/for-metrics": "true" });
    let hosts = |hosts: &str| json!({ "tidegate.dev/for-hosts": hosts });
    let unlabelled = "metric template shop/t: Secret shop/login is not for metrics: it lacks the label \
                      tidegate.dev/for-metrics: \"true\"; add it: \
                      kubectl label secret login --namespace shop tidegate.dev/for-metrics=true";
    let elsewhere =
        "metric template shop/t: Secret shop/login is not for metrics.example: its annotation";
    let cases = [
        ("no label is needed", json!({}), false, None),
        ("the label is needed", json!({}), true, Some(unlabelled)),
        ("and there", json!({ "labels": label() }), true, None),
        ("for this host", json!({ "annotations": hosts("metrics.example") }), false, None),
        ("for another host", json!({ "annotations": hosts("a.example") }), false, Some(elsewhere)),
        (
            "labelled, for another host",
            json!({ "labels": label(), "annotations": hosts("a.example") }),
            true,
            Some(elsewhere),
        ),
        (
            "for this host, and not labelled",
            json!({ "annotations": hosts("metrics.example") }),
            true,
            Some(unlabelled),
        ),
    ];
    for (reason, metadata, is_required, refusal) in cases {
        let kit = sending(login(metadata), is_required);
        let found = verdict(&kit).await;
        let observation = kit.observe();
        let warned = Warned::default();
        let backends = Analysis::new(&kit.canary(), &observation, &warned).backends().await;
        match refusal {
            None => {
                assert_eq!((&found, &backends), (&Verdict::Passed, &Ok(())), "{reason}");
                let call = &kit.net.calls()[0];
                assert_eq!(call.header("authorization"), Some("Bearer sesame"), "{reason}");
            }
            Some(want) => {
                assert!(failed(&found).starts_with(want), "{reason}: {found:?}");
                assert!(backends.unwrap_err().starts_with(want), "{reason}");
                assert!(kit.net.calls().is_empty(), "{reason}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_unlabelled_secret_is_warned_of_once_for_each_generation() {
    let kit = sending(login(json!({})), false);
    let warned = Warned::default();
    for (generation, want) in [(1, 1), (1, 1), (2, 2), (2, 2)] {
        kit.edit(CANARY, "web", |canary| canary["metadata"]["generation"] = json!(generation));
        let observation = kit.observe();
        let canary = kit.canary();
        let analysis = Analysis::new(&canary, &observation, &warned);
        assert_eq!(analysis.check().await.verdict, Verdict::Passed);
        assert_eq!(analysis.backends().await, Ok(()));
        assert_eq!(kit.events().len(), want, "generation {generation}");
    }
    let (reason, message) = kit.events().remove(0);
    assert_eq!(reason, "SecretNotLabelled");
    let want = "Secret shop/login is sent to metrics.example (prometheus) without the label";
    assert!(message.starts_with(want), "{message}");
    let labelled =
        sending(login(json!({ "labels": { "tidegate.dev/for-metrics": "true" } })), false);
    assert_eq!(verdict(&labelled).await, Verdict::Passed);
    assert_eq!(labelled.events(), []);
}

#[tokio::test(start_paused = true)]
async fn objects_of_other_namespaces_are_asked_only_if_references_may_cross() {
    for (crosses, namespace, is_asked) in [
        (CrossNamespace::Allowed, "ops", true),
        (CrossNamespace::Forbidden, "ops", false),
        (CrossNamespace::Forbidden, "shop", true),
    ] {
        let metric = json!({ "name": "lag", "templateRef": { "name": "t" },
            "thresholdRange": { "max": 5 } });
        let mut bench = in_analysis("istio").spec(&json!({ "analysis": { "metrics": [metric] } }));
        bench.options.cross_namespace = crosses;
        let kit = Kit::of(bench);
        let mut object = template(&format!("keptnmetric/{namespace}/lag"));
        object["spec"]["provider"] = json!({ "type": "keptn" });
        kit.put(METRIC_TEMPLATE, object);
        let path =
            format!("/apis/metrics.keptn.sh/v1beta1/namespaces/{namespace}/keptnmetrics/lag");
        kit.api.put_at(&path, json!({ "status": { "value": "3" } }));
        let found = verdict(&kit).await;
        assert_eq!(found == Verdict::Passed, is_asked, "{namespace}: {found:?}");
        if !is_asked {
            assert!(failed(&found).contains("namespace ops is another one"), "{found:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn gateways_that_know_addresses_are_asked_for_those_of_the_canary() {
    let of_apisix = || {
        let spec = json!({
            "provider": "apisix",
            "routeRef": { "apiVersion": "apisix.apache.org/v2", "kind": "ApisixRoute", "name": "web" },
            "analysis": { "metrics": [
                { "name": "request-success-rate", "thresholdRange": { "min": 99 } },
            ] },
        });
        let kit = Kit::of(crate::canary::observe::testing::Bench::new("apisix").spec(&spec));
        kit.put(
            SERVICE,
            json!({ "metadata": { "name": "web-canary" },
                "spec": { "clusterIPs": ["10.0.0.1"] } }),
        );
        kit.api.put_at(
            "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices/a",
            json!({ "endpoints": [{ "addresses": ["10.1.0.1"] }, { "addresses": ["10.1.0.2"] }] }),
        );
        kit.net.answer("query", &[Reply::value("100")]);
        kit
    };
    let kit = of_apisix();
    assert_eq!(verdict(&kit).await, Verdict::Passed);
    let query = &queries(&kit)[0];
    let query = query.replace("%5B%2E%5D", ".");
    for address in ["10.0.0.1", "10.1.0.1", "10.1.0.2"] {
        assert!(query.contains(address), "{address}: {query}");
    }
    let read = kit.api.requests().into_iter().find(|it| it.path.contains("endpointslices"));
    assert!(read.unwrap().path.contains("web%2Dcanary"), "those of the canary's Service");
    for (code, want) in [(403, "may not be read"), (500, "cannot be read now")] {
        let kit = of_apisix();
        kit.api.fail("GET endpointslices", code, 1);
        let no = verdict(&kit).await;
        let why = format!("the addresses of Service shop/web-canary {want}");
        assert_eq!(failed(&no), why, "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn backends_are_there_if_each_answers_sensibly() {
    let builtin = json!([{ "name": "request-duration", "thresholdRange": { "max": 1 } }]);
    let by_template = json!([{ "name": "lag", "templateRef": { "name": "t" } }]);
    let keptn = |kit: &Kit| {
        let mut object = template("keptnmetric/shop/lag");
        object["spec"]["provider"] = json!({ "type": "keptn" });
        kit.put(METRIC_TEMPLATE, object);
    };
    let prometheus = |kit: &Kit| kit.put(METRIC_TEMPLATE, template("lag"));
    let nothing = |_: &Kit| {};
    let put: [&dyn Fn(&Kit); 3] = [&nothing, &keptn, &prometheus];
    let cases = [
        ("one", &builtin, put[0], Reply::value("1"), Ok(())),
        (
            "two",
            &builtin,
            put[0],
            Reply::value("2"),
            Err("prometheus gives an answer that cannot be read"),
        ),
        ("gone", &builtin, put[0], Reply::Unreachable, Err("prometheus is not available: cannot")),
        ("the API server itself", &by_template, put[1], Reply::Unreachable, Ok(())),
        ("a template", &by_template, put[2], Reply::value("1"), Ok(())),
        ("a template, and two", &by_template, put[2], Reply::value("2"), Err("prometheus")),
        ("no template", &by_template, put[0], Reply::value("1"), Err("metric template shop/t")),
        ("an inline query", &json!([inline("alpha")]), put[0], Reply::Unreachable, Ok(())),
    ];
    for (reason, metrics, prepare, reply, want) in cases {
        let kit = kit(metrics);
        prepare(&kit);
        kit.net.answer("query", &[reply]);
        let observation = kit.observe();
        let warned = Warned::default();
        let found = Analysis::new(&kit.canary(), &observation, &warned).backends().await;
        match (found, want) {
            (Ok(()), Ok(())) => {}
            (Err(why), Err(text)) => assert!(why.starts_with(text), "{reason}: {why}"),
            (found, want) => panic!("{reason}: {found:?}, not {want:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn queries_of_knative_name_the_newest_revision() {
    let metric = json!({ "name": "request-success-rate", "thresholdRange": { "min": 99 } });
    let bench = knative(Some("web-00001"), &json!([]));
    let kit = Kit::of(bench.spec(&json!({ "analysis": { "metrics": [metric] } })));
    kit.net.answer("query", &[Reply::value("100")]);
    assert_eq!(verdict(&kit).await, Verdict::Passed);
    assert!(queries(&kit)[0].contains("web%2D00002"), "{:?}", queries(&kit));
}
