//! Metrics of the cluster's own APIs: with the operator's account under the shipped roles, or with a
//! separate token.

use std::{
    fs,
    sync::{Arc, Mutex},
};

use http::{Response, header::AUTHORIZATION};
use kube::client::Body;
use kube_sandbox::cluster::{Cluster as _, Resource};
use serde_json::{Value, json};
use tidegate_tests::rollout::{CANARIES, OPERATOR, SECRETS, World};

use crate::stage::{
    GATEWAY_API, by_weight, canary_of, condition, edit_analysis, initialized, reach, release, told,
    with_canary,
};

const METRIC_TEMPLATES: Resource = Resource { group: "flagger.app", plural: "metrictemplates" };
const KEPTN: &str = "metrics.keptn.sh";
const EXTERNAL: &str = "external.metrics.k8s.io";

/// A kind that accepts anything.
fn definition(group: &str, version: &str, kind: &str, plural: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{plural}.{group}"),
            "annotations": { "api-approved.kubernetes.io": "unapproved, for a test" },
        },
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {
                "kind": kind, "plural": plural, "singular": kind.to_lowercase(),
                "listKind": format!("{kind}List"),
            },
            "versions": [{ "name": version, "served": true, "storage": true, "schema": {
                "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
            } }],
        },
    })
}

/// APIs of metrics with a value of 3 in each; the second is a metrics server that looks like a kind.
fn furnish(world: &World) {
    let objects = vec![
        definition(KEPTN, "v1beta1", "KeptnMetric", "keptnmetrics"),
        definition(EXTERNAL, "v1beta1", "ExternalMetricValue", "queue"),
    ];
    world.sandbox.load(objects).expect("definitions are accepted");
    let keptn = Resource { group: KEPTN, plural: "keptnmetrics" };
    world.create(
        keptn,
        json!({ "apiVersion": "metrics.keptn.sh/v1beta1", "kind": "KeptnMetric",
                "metadata": { "name": "errors" }, "status": { "value": "3.0" } }),
    );
    let queue = Resource { group: EXTERNAL, plural: "queue" };
    world.create(
        queue,
        json!({ "apiVersion": "external.metrics.k8s.io/v1beta1", "kind": "ExternalMetricValue",
                "metadata": { "name": "now" }, "value": "3" }),
    );
}

fn template(kind: &str, query: &str) -> Value {
    json!({ "apiVersion": "flagger.app/v1beta1", "kind": "MetricTemplate",
        "metadata": { "name": kind },
        "spec": { "provider": { "type": kind }, "query": query } })
}

fn judged_by(kind: &str) -> Value {
    json!({ "metrics": [{
        "name": "errors", "templateRef": { "name": kind }, "interval": "1m",
        "thresholdRange": { "max": 5 },
    }] })
}

/// Applies a shipped file, for the operator's account in tests.
fn grant(world: &World, file: &str) {
    let path = format!("{}/../deploy/metrics/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(path).expect("it is shipped");
    let mut objects: Vec<Value> = serde_saphyr::from_multiple(&text).expect("YAML");
    for object in &mut objects {
        if object["kind"] == "ClusterRoleBinding" {
            let account: Vec<_> = OPERATOR.rsplitn(3, ':').collect();
            assert_eq!(object["subjects"][0]["name"], account[0]);
            object["subjects"][0]["namespace"] = json!(account[1]);
        }
    }
    world.sandbox.load(objects).expect("roles are accepted");
}

#[tokio::test(start_paused = true)]
async fn metrics_of_the_cluster_are_read_once_the_shipped_role_allows_it() {
    let cases = [
        ("keptn", "keptnmetric/default/errors", "keptn.yaml"),
        ("externalmetrics", "default/queue", "external-metrics.yaml"),
    ];
    for (kind, query, file) in cases {
        let mut world = initialized(GATEWAY_API, by_weight()).await;
        // The observer of these tests knows only the metrics of the network.
        world.collects_violations = true;
        furnish(&world);
        world.create(METRIC_TEMPLATES, template(kind, query));
        edit_analysis(&world, judged_by(kind));
        release(&world, "web:2.0");
        reach(&world, "Failed").await;
        assert_eq!(told(&world, "CheckFailed"), 1, "{kind}: what is denied is no pass");
        grant(&world, file);
        release(&world, "web:3.0");
        reach(&world, "Succeeded").await;
    }
}

#[tokio::test(start_paused = true)]
async fn external_metrics_with_a_token_are_asked_for_by_whoever_has_it() {
    let seen: Arc<Mutex<Vec<(String, String)>>> = Arc::default();
    let asked = Arc::clone(&seen);
    let server = tower::service_fn(move |request: http::Request<Body>| {
        let header = request.headers().get_all(AUTHORIZATION).iter();
        let logins: Vec<_> = header.map(|it| it.to_str().unwrap_or_default().to_owned()).collect();
        let call = (request.uri().path().to_owned(), logins.join(" and "));
        asked.lock().expect("no panic before").push(call);
        let list = json!({ "kind": "ExternalMetricValueList", "items": [{ "value": "3" }] });
        let answer = Response::new(Body::from(list.to_string().into_bytes()));
        std::future::ready(Ok::<_, std::convert::Infallible>(answer))
    });
    let mut world = with_canary(canary_of("web", GATEWAY_API, by_weight()));
    world.collects_violations = true;
    world.anonymous = Some(kube::Client::new(server, "default"));
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "reader" },
        "stringData": { "token": "of-the-team" } });
    world.create(SECRETS, secret);
    let mut own = template("externalmetrics", "default/queue");
    own["spec"]["provider"]["secretRef"] = json!({ "name": "reader" });
    world.create(METRIC_TEMPLATES, own);
    world.start().await;
    reach(&world, "Initialized").await;
    edit_analysis(&world, judged_by("externalmetrics"));
    release(&world, "web:2.0");
    reach(&world, "Succeeded").await;
    let (_, _, message) = condition(&world, "web", "Promoted");
    let seen = seen.lock().expect("no panic before").clone();
    assert!(!seen.is_empty(), "{message}");
    let path = "/apis/external.metrics.k8s.io/v1beta1/namespaces/default/queue";
    for (asked, login) in seen.iter().filter(|(asked, _)| !asked.contains("kube-system")) {
        assert_eq!((asked.as_str(), login.as_str()), (path, "Bearer of-the-team"));
    }
    let ours = world.sandbox.server().log.matching(|entry| &*entry.group == EXTERNAL);
    assert!(ours.is_empty(), "the operator's own account is not used: {ours:?}");
}

#[tokio::test(start_paused = true)]
async fn an_analysis_of_keptn_is_removed_when_its_check_is_given_up() {
    let mut world = initialized(GATEWAY_API, by_weight()).await;
    world.collects_violations = true;
    let analyses = Resource { group: KEPTN, plural: "analyses" };
    let kinds = vec![definition(KEPTN, "v1beta1", "Analysis", "analyses")];
    world.sandbox.load(kinds).expect("definitions are accepted");
    grant(&world, "keptn.yaml");
    world.create(METRIC_TEMPLATES, template("keptn", "analysis/default/errors"));
    edit_analysis(&world, judged_by("keptn"));
    release(&world, "web:2.0");
    let made = || world.admin.list(analyses, Some("default")).len();
    assert!(world.until(60, |_| made() == 1).await, "nobody completes it");
    world.delete(CANARIES, "web");
    world.settle().await;
    assert_eq!(made(), 0, "nobody looks at it any more");
}
