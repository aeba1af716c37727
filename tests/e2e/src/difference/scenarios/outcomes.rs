//! Checks that fail, pods that do not come up, revisions that come in between, and edits.

use serde_json::{Value, json};
use tidegate_tests::network::{Metric, Reply};

use super::{Scenario, builtin_metrics, by_weight, by_weight_with};
use crate::stage::{DEPLOYMENT, SERVICE};

const VIRTUAL_SERVICE: (&str, &str) = ("networking.istio.io/v1", "VirtualService");

fn measured() -> Value {
    by_weight_with(json!({ "metrics": builtin_metrics() }))
}

fn with_metrics(metrics: &Value) -> Value {
    by_weight_with(json!({ "metrics": metrics }))
}

pub(super) fn all() -> Vec<Scenario> {
    let mut all = checks();
    all.extend(pods());
    all.extend(revisions());
    all.extend(edits());
    all
}

fn checks() -> Vec<Scenario> {
    let failing = |name, metric| {
        Scenario::new(name, "istio", measured())
            .phase("Initialized")
            .measure("", metric)
            .release("web:2.0")
            .phase("Failed")
    };
    let template = json!({
        "apiVersion": "flagger.app/v1beta1", "kind": "MetricTemplate",
        "metadata": { "name": "errors" },
        "spec": {
            "provider": { "type": "prometheus", "address": "http://prometheus:9090" },
            "query": "sum(rate(errors{ns=\"{{ namespace }}\",app=\"{{ target }}\",svc=\"{{ service }}\",\
                      ing=\"{{ ingress }}\",name=\"{{ name }}\",path=\"{{ variables.path }}\"}[{{ interval }}]))",
        },
    });
    let by_template = json!([{
        "name": "errors", "templateRef": { "name": "errors" }, "thresholdRange": { "max": 200 },
        "interval": "2m", "templateVariables": { "path": "/api/.*" },
    }]);
    let by_query = json!([{
        "name": "own", "query": "rate(own{namespace=\"{{ namespace }}\"}[{{ interval }}])",
        "threshold": 150, "interval": "1m",
    }]);
    vec![
        failing("checks: a bad rate", Metric::Value(50.0)),
        failing("checks: no values", Metric::Nothing),
        failing("checks: the server fails", Metric::Reply(Reply::Status(500, "oops".to_owned()))),
        Scenario::new("checks: one fails", "istio", measured())
            .phase("Initialized")
            .measure("", Metric::Value(50.0))
            .release("web:2.0")
            .failed_checks(1)
            .measure("", Metric::Value(100.0))
            .phase("Succeeded"),
        Scenario::new("checks: a template", "istio", with_metrics(&by_template))
            .with(template)
            .released(),
        Scenario::new("checks: a query", "istio", with_metrics(&by_query)).released(),
        Scenario::new(
            "checks: the old form of a threshold",
            "istio",
            with_metrics(&json!([
                { "name": "request-success-rate", "threshold": 99, "interval": "1m" },
                { "name": "request-duration", "threshold": 500, "interval": "1m" },
            ])),
        )
        .released(),
        Scenario::new("checks: another server", "istio", measured())
            .spec(json!({ "metricsServer": "http://prometheus:9090/other" }))
            .released(),
        Scenario::new(
            "checks: blue/green fails",
            "kubernetes",
            json!({
                "iterations": 2, "metrics": builtin_metrics(),
            }),
        )
        .phase("Initialized")
        .measure("", Metric::Value(50.0))
        .release("web:2.0")
        .phase("Failed"),
    ]
}

fn pods() -> Vec<Scenario> {
    let quick = || json!({ "progressDeadlineSeconds": 15 });
    vec![
        Scenario::new("pods: never ready", "istio", by_weight())
            .spec(quick())
            .phase("Initialized")
            .release("web:2.0-never-ready")
            .phase("Failed"),
        Scenario::new("pods: never ready, no analysis", "istio", by_weight())
            .spec(quick())
            .spec(json!({ "skipAnalysis": true }))
            .phase("Initialized")
            .release("web:2.0-never-ready")
            .phase("Failed"),
        Scenario::new("pods: slow", "istio", by_weight())
            .phase("Initialized")
            .release("web:2.0-slow-start-15s")
            .phase("Progressing")
            .phase("Succeeded"),
        Scenario::new("pods: failed, then fixed", "istio", by_weight())
            .spec(quick())
            .phase("Initialized")
            .release("web:2.0-never-ready")
            .phase("Failed")
            .release("web:3.0")
            .phase("Progressing")
            .phase("Succeeded"),
    ]
}

fn revisions() -> Vec<Scenario> {
    vec![
        Scenario::new("revisions: another one during the rollout", "istio", by_weight())
            .phase("Initialized")
            .release("web:2.0")
            .weight(50)
            .release("web:3.0")
            .weight(0)
            .weight(50)
            .phase("Succeeded"),
        Scenario::new("revisions: set back during the rollout", "istio", by_weight())
            .phase("Initialized")
            .release("web:2.0")
            .weight(50)
            .release("web:1.0")
            .phase("Succeeded"),
        Scenario::new("revisions: set back after a failure", "istio", measured())
            .phase("Initialized")
            .measure("", Metric::Value(50.0))
            .release("web:2.0")
            .phase("Failed")
            .measure("", Metric::Value(100.0))
            .release("web:1.0")
            .rest(25),
        Scenario::new("revisions: the replicas are no revision", "istio", by_weight())
            .phase("Initialized")
            .patch(DEPLOYMENT, "web", json!({ "metadata": { "labels": { "team": "a" } } }))
            .rest(25),
    ]
}

fn edits() -> Vec<Scenario> {
    vec![
        Scenario::new("edits: suspended", "istio", by_weight())
            .phase("Initialized")
            .release("web:2.0")
            .weight(50)
            .edit(&json!({ "suspend": true }))
            .rest(25)
            .edit(&json!({ "suspend": false }))
            .phase("Succeeded"),
        Scenario::new("edits: a smaller step", "istio", by_weight())
            .phase("Initialized")
            .edit(&json!({ "analysis": { "stepWeight": 20, "maxWeight": 30 } }))
            .rest(12)
            .release("web:2.0")
            .phase("Progressing")
            .phase("Succeeded"),
        Scenario::new("edits: routes of an idle canary", "istio", by_weight())
            .phase("Initialized")
            .edit(&json!({ "service": { "timeout": "9s", "hosts": ["a.test"], "port": 81 } }))
            .rest(25),
        Scenario::new("repair: the primary", "istio", by_weight())
            .released()
            .delete(DEPLOYMENT, "web-primary")
            .rest(25),
        Scenario::new("repair: Services", "istio", by_weight())
            .phase("Initialized")
            .delete(SERVICE, "web")
            .delete(SERVICE, "web-canary")
            .rest(25),
        Scenario::new("repair: the route", "istio", by_weight())
            .phase("Initialized")
            .delete(VIRTUAL_SERVICE, "web")
            .rest(25),
    ]
}
