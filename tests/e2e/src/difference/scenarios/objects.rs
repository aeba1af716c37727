//! Targets and what belongs to them: configuration, autoscalers, other kinds.

use serde_json::{Value, json};
use tidegate_tests::rollout;

use super::{Scenario, by_weight};
use crate::stage::{AUTOSCALER, CONFIG_MAP};

const DAEMON_SET: (&str, &str) = ("apps/v1", "DaemonSet");
const SECRET: (&str, &str) = ("v1", "Secret");

pub(super) fn all() -> Vec<Scenario> {
    let mut all = configuration();
    all.extend(scalers());
    all.extend(targets());
    all
}

fn map(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": name, "labels": { "app": "web" } }, "data": { "color": "blue" },
    })
}

fn secret(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name },
        "stringData": { "token": "a" },
    })
}

/// A target that reads configuration in every way there is.
fn reader(name: &'static str) -> Scenario {
    let optional = json!({ "name": "absent", "optional": true });
    let container = json!({
        "name": "app", "image": "web:1.0", "ports": [{ "containerPort": 8080 }],
        "env": [
            { "name": "COLOR", "valueFrom": { "configMapKeyRef": { "name": "env", "key": "color" } } },
            { "name": "TOKEN", "valueFrom": { "secretKeyRef": { "name": "env", "key": "token" } } },
        ],
        "envFrom": [
            { "configMapRef": { "name": "all" } }, { "secretRef": { "name": "all" } },
            { "configMapRef": optional },
        ],
        "volumeMounts": [{ "name": "files", "mountPath": "/files" }],
    });
    let volumes = json!([
        { "name": "files", "configMap": { "name": "files" } },
        { "name": "keys", "secret": { "secretName": "files" } },
        { "name": "both", "projected": { "sources": [
            { "configMap": { "name": "projected" } }, { "secret": { "name": "projected" } },
        ] } },
    ]);
    let template = json!({ "spec": { "containers": [container], "volumes": volumes } });
    ["env", "all", "files", "projected"].into_iter().fold(
        Scenario::new(name, "istio", by_weight())
            .target(json!({ "spec": { "template": template } })),
        |scenario, name| scenario.with(map(name)).with(secret(name)),
    )
}

fn configuration() -> Vec<Scenario> {
    let green = || json!({ "data": { "color": "green" } });
    let untracked = |mut object: Value| {
        object["metadata"]["annotations"] = json!({ "flagger.app/config-tracking": "disabled" });
        object
    };
    vec![
        reader("configuration: a ConfigMap changes")
            .phase("Initialized")
            .patch(CONFIG_MAP, "env", green())
            .phase("Progressing")
            .phase("Succeeded"),
        reader("configuration: a Secret changes")
            .phase("Initialized")
            .patch(SECRET, "files", json!({ "stringData": { "token": "b" } }))
            .phase("Progressing")
            .phase("Succeeded"),
        reader("configuration: not tracked")
            .with(untracked(map("env")))
            .phase("Initialized")
            .patch(CONFIG_MAP, "env", green())
            .rest(25),
        reader("configuration: tracking is off")
            .flag("--enable-config-tracking=false")
            .phase("Initialized")
            .patch(CONFIG_MAP, "env", green())
            .rest(25),
        reader("configuration: changes during a rollout")
            .phase("Initialized")
            .patch(CONFIG_MAP, "env", green())
            .weight(50)
            .patch(CONFIG_MAP, "all", green())
            .weight(0)
            .weight(50)
            .phase("Succeeded"),
    ]
}

fn scalers() -> Vec<Scenario> {
    // Its least is the number of replicas from the beginning: it acts in its own time.
    let scaler = || {
        json!({
            "apiVersion": AUTOSCALER.0, "kind": AUTOSCALER.1,
            "metadata": { "name": "web", "labels": { "app": "web" } },
            "spec": {
                "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
                "minReplicas": 2, "maxReplicas": 4,
                "metrics": [{ "type": "Resource", "resource": {
                    "name": "cpu", "target": { "type": "Utilization", "averageUtilization": 90 },
                } }],
                "behavior": { "scaleDown": { "stabilizationWindowSeconds": 60 } },
            },
        })
    };
    let reference = || json!({ "apiVersion": AUTOSCALER.0, "kind": AUTOSCALER.1, "name": "web" });
    let keda =
        || json!({ "apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "name": "web" });
    let bounds = json!({ "primaryScalerReplicas": { "minReplicas": 3, "maxReplicas": 6 } });
    let mut bounded = reference();
    super::super::scenario::merge(&mut bounded, bounds);
    let mut query = keda();
    query["primaryScalerQueries"] = json!({ "load": "sum(rate(mine[1m]))" });
    vec![
        Scenario::new("scaler: HPA", "istio", by_weight())
            .target(json!({ "spec": { "replicas": 2 } }))
            .with(scaler())
            .spec(json!({ "autoscalerRef": reference() }))
            .released(),
        Scenario::new("scaler: HPA, bounds of the primary", "istio", by_weight())
            .target(json!({ "spec": { "replicas": 2 } }))
            .with(scaler())
            .spec(json!({ "autoscalerRef": bounded }))
            .released(),
        Scenario::new("scaler: HPA is edited", "istio", by_weight())
            .target(json!({ "spec": { "replicas": 2 } }))
            .with(scaler())
            .spec(json!({ "autoscalerRef": reference() }))
            .phase("Initialized")
            .patch(AUTOSCALER, "web", json!({ "spec": { "maxReplicas": 5 } }))
            .rest(25),
        Scenario::new("scaler: KEDA", "istio", by_weight())
            .with(rollout::scaled_object("web", 1, 4))
            .spec(json!({ "autoscalerRef": keda() }))
            .released(),
        Scenario::new("scaler: KEDA, a query of the primary's", "istio", by_weight())
            .with(rollout::scaled_object("web", 1, 4))
            .spec(json!({ "autoscalerRef": query }))
            .released(),
    ]
}

fn targets() -> Vec<Scenario> {
    let daemon_set = |name, provider, analysis| {
        let mut scenario = Scenario::new(name, provider, analysis)
            .spec(json!({ "targetRef": { "kind": "DaemonSet" } }));
        scenario.objects[0] = rollout::daemon_set("web", "web:1.0");
        scenario
    };
    let service = |name: &str, version: &str| {
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": { "name": name },
            "spec": { "selector": { "app": "web", "v": version }, "ports": [{ "name": "http", "port": 80 }] },
        })
    };
    let template = json!({
        "metadata": { "labels": { "app": "web", "team": "a", "tier": "x" }, "annotations": { "a": "b" } },
        "spec": {
            "affinity": { "podAntiAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [{
                "weight": 100, "podAffinityTerm": {
                    "labelSelector": { "matchLabels": { "app": "web" } },
                    "topologyKey": "kubernetes.io/hostname",
                },
            }] } },
            "topologySpreadConstraints": [{
                "maxSkew": 1, "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": { "matchLabels": { "app": "web" } },
            }],
        },
    });
    vec![
        daemon_set("target: DaemonSet", "istio", by_weight())
            .phase("Initialized")
            .release_of(DAEMON_SET, "web:2.0")
            .phase("Progressing")
            .phase("Succeeded"),
        daemon_set("target: DaemonSet, blue/green", "kubernetes", json!({ "iterations": 1 }))
            .phase("Initialized")
            .release_of(DAEMON_SET, "web:2.0")
            .phase("Progressing")
            .phase("Succeeded"),
        Scenario::new("target: Service", "istio", by_weight())
            .spec(json!({ "targetRef": { "apiVersion": "v1", "kind": "Service" } }))
            .with(service("web", "1"))
            .rest(25),
        Scenario::new("target: labels, affinity, spread", "istio", by_weight())
            .target(json!({
                "metadata": { "labels": { "app": "web", "team": "a" }, "annotations": { "a": "b" } },
                "spec": { "replicas": 2, "revisionHistoryLimit": 3, "template": template },
            }))
            .released(),
        Scenario::new("target: labels that are copied", "istio", by_weight())
            .target(json!({ "metadata": { "labels": { "app": "web", "team": "a", "my/x": "y" } } }))
            .flag("--include-label-prefix=team,my/")
            .released(),
        Scenario::new("target: another selector label", "istio", by_weight())
            .target(json!({ "spec": {
                "selector": { "matchLabels": { "app": null, "part": "web" } },
                "template": { "metadata": { "labels": { "app": null, "part": "web" } } },
            } }))
            .flag("--selector-labels=part")
            .released(),
    ]
}
