//! Addresses and certificates of requests: those of a spec are checked, those of a flag are the
//! administrator's.

use kube_sandbox::cluster::Resource;
use promql::{Database, Labels, Query, Value as Answer};
use serde_json::{Value, json};
use tidegate_api::{
    canary::{Canary, analysis::AnalysisMetric},
    metric_template::MetricProvider,
};
use tidegate_providers::{
    metrics::query_language,
    template::{Model, render, render_confined},
};
use tidegate_tests::{
    network::{Metric, Reply, Way},
    rollout::{SECRETS, World},
};

use crate::{
    stage::{
        GATEWAY_API, at_share, by_weight, canary_of, edit, hooked, measured, reach, release,
        with_canary,
    },
    telling::{ALERT_PROVIDERS, secret},
};

const METRIC_TEMPLATES: Resource = Resource { group: "flagger.app", plural: "metrictemplates" };
/// Checked, and trusted only with a certificate that the machine trusts.
const USUAL: Way = Way {
    trusted: false,
    verify_tls: true,
    own_authorities: false,
    certificate: false,
    proxy: false,
};

/// The options of the last request to this address.
fn way_to(world: &World, to: &str) -> Way {
    let calls = world.network.calls_to(to);
    assert!(!calls.is_empty(), "nobody asked {to}");
    calls.last().map(|call| call.way.clone()).unwrap_or_default()
}

fn template(name: &str, host: &str, provider: Value) -> Value {
    let mut spec = json!({ "type": "prometheus", "address": format!("https://{host}") });
    if let (Some(spec), Value::Object(more)) = (spec.as_object_mut(), provider) {
        spec.extend(more);
    }
    json!({ "apiVersion": "flagger.app/v1beta1", "kind": "MetricTemplate",
            "metadata": { "name": name }, "spec": { "provider": spec, "query": "errors" } })
}

#[tokio::test(start_paused = true)]
async fn what_a_spec_names_is_checked_and_what_a_flag_names_is_not() {
    let mut analysis = hooked(measured(by_weight()), "rollout");
    let careless = json!({ "name": "load", "type": "rollout", "url": "https://careless/",
                           "disableTLS": true });
    analysis["webhooks"].as_array_mut().expect("it has one").push(careless);
    analysis["alerts"] = json!([{ "name": "ops", "severity": "info",
                                  "providerRef": { "name": "chat" } }]);
    let metrics = analysis["metrics"].as_array_mut().expect("it has one");
    for name in ["plain", "careless", "own"] {
        let reference = json!({ "name": name });
        metrics.push(
            json!({ "name": name, "templateRef": reference, "thresholdRange": { "max": 500 } }),
        );
    }
    let mut world = with_canary(canary_of("web", GATEWAY_API, analysis));
    world.collects_violations = true;
    let pem = json!({ "ca.crt": "roots", "tls.crt": "chain", "tls.key": "key" });
    world.create(SECRETS, secret("tls", pem));
    world.create(METRIC_TEMPLATES, template("plain", "plain", json!({})));
    let skip = json!({ "insecureSkipVerify": true });
    world.create(METRIC_TEMPLATES, template("careless", "skipping", skip));
    let own = json!({ "secretRef": { "name": "tls" } });
    world.create(METRIC_TEMPLATES, template("own", "own", own));
    world.create(
        ALERT_PROVIDERS,
        json!({ "apiVersion": "flagger.app/v1beta1", "kind": "AlertProvider",
                "metadata": { "name": "chat" },
                "spec": { "type": "slack", "channel": "ops", "username": "web",
                          "address": "https://chat/hook", "proxy": "http://proxy:3128" } }),
    );
    world.network.hook("careless/", Reply::yes());
    world.network.hook("chat/hook", Reply::yes());
    let number = json!({ "status": "success", "data": { "resultType": "vector", "result": [
        { "metric": {}, "value": [1, "100"] } ] } });
    for host in ["plain", "skipping", "own"] {
        let answer = Reply::Status(200, number.to_string());
        world.network.hook(&format!("{host}/api/v1/query"), answer);
    }
    world.start().await;
    reach(&world, "Initialized").await;
    release(&world, "web:2.0");
    reach(&world, "Succeeded").await;
    let cases = [
        ("hooks/rollout", USUAL),
        ("careless/", Way { verify_tls: false, ..USUAL }),
        ("prometheus/", Way { trusted: true, ..USUAL }),
        ("plain/", USUAL),
        ("skipping/", Way { verify_tls: false, ..USUAL }),
        ("own/", Way { own_authorities: true, certificate: true, ..USUAL }),
        ("chat/", Way { proxy: true, ..USUAL }),
    ];
    for (to, want) in cases {
        assert_eq!(way_to(&world, to), want, "{to}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_metrics_server_of_a_canary_is_not_the_administrators() {
    let world = at_share(GATEWAY_API, measured(by_weight()), 20).await;
    assert_eq!(way_to(&world, "prometheus/"), Way { trusted: true, ..USUAL });
    edit(&world, json!({ "metricsServer": "http://169.254.169.254" }));
    world.network.forget_calls();
    world.advance_s(25).await;
    assert_eq!(way_to(&world, "169.254.169.254/"), USUAL);
}

#[tokio::test(start_paused = true)]
async fn the_administrators_chat_is_trusted() {
    use tidegate_providers::notify::Destination;
    let mut world = with_canary(canary_of("web", GATEWAY_API, by_weight()));
    let spec = json!({ "type": "slack", "channel": "ops", "username": "web",
                       "address": "http://10.0.0.1/hook" });
    let spec = serde_json::from_value(spec).expect("it is one");
    let destination = Destination::of(&spec, None).expect("it can be used").expect("it is one");
    world.options.notifier = Some((destination, None));
    world.network.hook("10.0.0.1/hook", Reply::yes());
    world.start().await;
    reach(&world, "Initialized").await;
    assert_eq!(way_to(&world, "10.0.0.1/"), Way { trusted: true, ..USUAL });
}

#[tokio::test(start_paused = true)]
async fn a_metric_without_a_source_fails_the_check() {
    let mut analysis = by_weight();
    analysis["metrics"] = json!([{ "name": "mine", "threshold": 5 }]);
    let mut world = with_canary(canary_of("web", GATEWAY_API, analysis));
    world.collects_violations = true;
    world.start().await;
    reach(&world, "Initialized").await;
    release(&world, "web:2.0");
    reach(&world, "Failed").await;
    let texts = format!("{:?}", world.events());
    assert!(texts.contains("metric mine has no query"), "{texts}");
}

#[tokio::test(start_paused = true)]
async fn nothing_but_errors_is_a_bad_rate_and_no_silence() {
    let mut world = with_canary(canary_of("web", GATEWAY_API, measured(by_weight())));
    world.collects_violations = true;
    // The good requests are selected by a status that is no error.
    world.network.metric("", Metric::Value(10.0));
    world.network.metric("!~", Metric::Nothing);
    world.start().await;
    reach(&world, "Initialized").await;
    release(&world, "web:2.0");
    reach(&world, "Failed").await;
    let texts = format!("{:?}", world.events());
    assert!(
        texts.contains("success rate 0.00% < 99%") || texts.contains("success rate 0% < 99%"),
        "{texts}"
    );
    assert!(!texts.contains("NotEnoughData"), "{texts}");
}

/// Whether a query reads the series of others, as an evaluator of `PromQL` understands it.
fn reads_secret(query: &str) -> bool {
    let database = Database::new();
    for (labels, value) in
        [(Labels::of("up", &[("shop", "eu")]), 1.0), (Labels::of("secret", &[]), 1e9)]
    {
        database.append(&labels, 60_000, value).expect("it has room");
    }
    match Query::new(query).instant(&database, 60_000) {
        Ok(Answer::Vector(samples)) => {
            samples.iter().any(|it| it.value.is_finite() && it.value >= 1e9)
        }
        _ => false,
    }
}

#[test]
fn a_variable_for_the_template_of_another_namespace_reads_no_series_of_its_own_choice() {
    let mut canary = canary_of("web", GATEWAY_API, by_weight());
    canary["metadata"]["namespace"] = json!("default");
    let canary: Canary = serde_json::from_value(canary).expect("a canary");
    let provider = json!({ "type": "prometheus", "secretRef": { "name": "login" } });
    let provider: MetricProvider = serde_json::from_value(provider).expect("a provider");
    let templates = [
        r#"sum(up{shop="X"})"#,
        "sum(up{shop=~'X'}) or vector(0)",
        "sum(up) > bool X",
        "sum(sum_over_time(up[X]))",
        "topk(X, up)",
        "quantile_over_time(X, up[5m])",
        "sum(up) # at X",
    ];
    let ends = ["", "1", "1, up)", "1m]))", "eu\"})", "eu'})", "`", "a\n"];
    let reads = [" or secret", " + on() group_right() secret", ") or secret", " or (secret"];
    let rests = ["", " #", ")", " or up{shop=\"", " or up{shop='"];
    let (mut leaks, mut taken) = (0, 0);
    for template in templates {
        let source = template.replace('X', "{{ variables.x }}");
        let values =
            ends.iter().flat_map(|end| reads.iter().map(move |read| format!("{end}{read}")));
        let values =
            values.flat_map(|value| rests.iter().map(move |rest| format!("{value}{rest}")));
        for value in values.chain(["eu".to_owned(), "1".to_owned(), "1m".to_owned()]) {
            let metric = json!({ "name": "m", "templateVariables": { "x": value } });
            let metric: AnalysisMetric = serde_json::from_value(metric).expect("a metric");
            let model = Model::of(&canary, &metric).expect("values");
            let Ok(model) = model.for_foreign_template("prometheus") else { continue };
            leaks += usize::from(render("t", &source, &model).is_ok_and(|it| reads_secret(&it)));
            let language = query_language(&provider);
            let Ok(query) = render_confined("t", &source, &model, language) else { continue };
            assert!(!reads_secret(&query), "{query}");
            taken += 1;
        }
    }
    assert!(leaks > 0, "no value reads it where positions do not count");
    assert!(taken > 20, "{taken} values were taken");
}
