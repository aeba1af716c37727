//! Patches of lists and maps: strategic, merge and JSON, on kinds whose lists have keys.

use serde_json::{Value, json};

use super::kinds::{Sample, samples};
use crate::conformance::request::{JSON_PATCH, MERGE, STRATEGIC, Story};

pub(super) fn stories() -> Vec<Story> {
    let samples = samples();
    let find = |kind: &str, name: &str| {
        let mut found = samples.iter().filter(|it| it.kind.kind == kind && it.name() == name);
        found.next().expect("what is patched is among the samples")
    };
    let told = [
        ("Deployment", "full", deployment as fn() -> Vec<(&'static str, Value)>),
        ("Pod", "full", pod),
        ("Service", "full", service),
        ("Service", "small", service),
        ("ServiceAccount", "full", account),
        ("Widget", "full", widget),
        ("ConfigMap", "small", map),
        ("Secret", "small", secret),
        ("HorizontalPodAutoscaler", "full", autoscaler),
        ("StatefulSet", "full", stateful),
        ("EndpointSlice", "full", slice),
        ("Ingress", "full", ingress),
    ];
    let mut stories = Vec::new();
    for (kind, name, patches) in told {
        let sample = find(kind, name);
        for media in [STRATEGIC, MERGE] {
            stories.push(changes(sample, media, &patches()));
        }
        stories.push(pointed(sample));
    }
    stories
}

/// Each patch on the object as the last left it, and before that as a dry run by another manager.
fn changes(sample: &Sample, media: &str, patches: &[(&str, Value)]) -> Story {
    let mut story = Story::new(sample.title(media));
    story.post("made", format!("{}?fieldManager=maker", sample.collection()), &sample.object);
    for (note, patch) in patches {
        let one = sample.path();
        story.patch(note, format!("{one}?dryRun=All&fieldManager=other"), media, patch);
        story.patch(note, format!("{one}?fieldManager=patcher"), media, patch);
    }
    story.get("in the end", sample.path());
    story
}

/// Every leaf replaced by itself, removed, and tested.
fn pointed(sample: &Sample) -> Story {
    let mut story = Story::new(sample.title("pointed"));
    story.post("made", sample.collection(), &sample.object);
    let mut leaves = Vec::new();
    gather(&sample.object, "", &mut leaves);
    let path = format!("{}?dryRun=All&fieldManager=pointer", sample.path());
    for (pointer, value) in leaves {
        let test = json!([{ "op": "test", "path": pointer, "value": value }]);
        story.patch("tested", path.clone(), JSON_PATCH, &test);
        story.patch(
            "removed",
            path.clone(),
            JSON_PATCH,
            &json!([{ "op": "remove", "path": pointer }]),
        );
        let null = json!([{ "op": "replace", "path": pointer, "value": null }]);
        story.patch("nulled", path.clone(), JSON_PATCH, &null);
    }
    story
}

fn gather(value: &Value, pointer: &str, leaves: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                let key = key.replace('~', "~0").replace('/', "~1");
                gather(value, &format!("{pointer}/{key}"), leaves);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                gather(value, &format!("{pointer}/{index}"), leaves);
            }
        }
        leaf if !pointer.starts_with("/metadata/name") => {
            leaves.push((pointer.to_owned(), leaf.clone()));
        }
        _ => {}
    }
}

fn containers(list: impl Into<Value>) -> Value {
    let list = list.into();
    json!({ "spec": { "template": { "spec": { "containers": list } } } })
}

fn deployment() -> Vec<(&'static str, Value)> {
    let app =
        |change: Value| containers(json!([super::merged(&json!({ "name": "app" }), &change)]));
    vec![
        ("an image", app(json!({ "image": "web:2" }))),
        ("a variable", app(json!({ "env": [{ "name": "A", "value": "9" }] }))),
        ("a new variable", app(json!({ "env": [{ "name": "C", "value": "3" }] }))),
        (
            "a variable gone",
            containers(json!([{ "name": "app", "env": [{ "name": "A", "$patch": "delete" }] }])),
        ),
        (
            "order",
            containers(
                json!([{ "name": "app", "$setElementOrder/env": [{ "name": "C" }, { "name": "B" }], "env": [{ "name": "B", "value": "0" }] }]),
            ),
        ),
        ("a container more", containers(json!([{ "name": "third", "image": "t:1" }]))),
        ("a container gone", containers(json!([{ "name": "third", "$patch": "delete" }]))),
        (
            "all replaced",
            containers(json!([{ "$patch": "replace" }, { "name": "only", "image": "o:1" }])),
        ),
        ("no name", containers(json!([{ "image": "n:1" }]))),
        ("none left", containers(json!([]))),
        ("containers null", containers(json!(null))),
        (
            "ports by number",
            app(json!({ "image": "web", "ports": [{ "containerPort": 80, "name": "http" }] })),
        ),
        (
            "the same port, udp",
            app(json!({ "image": "web", "ports": [{ "containerPort": 80, "protocol": "UDP" }] })),
        ),
        (
            "recreate",
            json!({ "spec": { "strategy": { "type": "Recreate", "rollingUpdate": null } } }),
        ),
        (
            "recreate keys",
            json!({ "spec": { "strategy": { "$retainKeys": ["type"], "type": "Recreate" } } }),
        ),
        ("rolling", json!({ "spec": { "strategy": { "type": "RollingUpdate" } } })),
        ("replicas", json!({ "spec": { "replicas": 1 } })),
        ("replicas null", json!({ "spec": { "replicas": null } })),
        ("the selector", json!({ "spec": { "selector": { "matchLabels": { "app": "other" } } } })),
        (
            "labels replaced",
            json!({ "metadata": { "labels": { "$patch": "replace", "only": "this" } } }),
        ),
        ("a finalizer", json!({ "metadata": { "finalizers": ["example.com/a"] } })),
        ("another finalizer", json!({ "metadata": { "finalizers": ["example.com/b"] } })),
        (
            "a finalizer gone",
            json!({ "metadata": { "$deleteFromPrimitiveList/finalizers": ["example.com/a"] } }),
        ),
        ("an unknown directive", json!({ "spec": { "$patch": "paint" } })),
        ("a limit", app(json!({ "resources": { "limits": { "memory": "1Gi" } } }))),
        ("a limit as a number", app(json!({ "resources": { "limits": { "cpu": 2 } } }))),
        ("paused", json!({ "spec": { "paused": false } })),
        ("spec null", json!({ "spec": null })),
        ("spec replaced", json!({ "spec": { "$patch": "replace" } })),
        ("status", json!({ "status": { "replicas": 5 } })),
    ]
}

fn pod() -> Vec<(&'static str, Value)> {
    let app = |change: Value| json!({ "spec": { "containers": [super::merged(&json!({ "name": "app" }), &change)] } });
    vec![
        ("an image", app(json!({ "image": "web:2" }))),
        ("a command", app(json!({ "command": ["other"] }))),
        ("a variable", app(json!({ "env": [{ "name": "PLAIN", "value": "9" }] }))),
        (
            "a toleration more",
            json!({ "spec": { "tolerations": [{ "key": "more", "operator": "Exists" }] } }),
        ),
        ("a node", json!({ "spec": { "nodeName": "node-1" } })),
        ("a deadline earlier", json!({ "spec": { "activeDeadlineSeconds": 300 } })),
        ("a deadline later", json!({ "spec": { "activeDeadlineSeconds": 900 } })),
        ("grace", json!({ "spec": { "terminationGracePeriodSeconds": 1 } })),
        (
            "a condition",
            json!({ "status": { "conditions": [{ "type": "Ready", "status": "True" }] } }),
        ),
        ("a mount", app(json!({ "volumeMounts": [{ "mountPath": "/etc/web", "name": "empty" }] }))),
        (
            "a volume gone",
            json!({ "spec": { "volumes": [{ "name": "claim", "$patch": "delete" }] } }),
        ),
        ("a secret to pull", json!({ "spec": { "imagePullSecrets": [{ "name": "more" }] } })),
        ("a label", json!({ "metadata": { "labels": { "new": "one" } } })),
    ]
}

fn service() -> Vec<(&'static str, Value)> {
    let ports = |list: Value| json!({ "spec": { "ports": list } });
    vec![
        ("a port changed", ports(json!([{ "port": 80, "targetPort": 8081, "name": "http" }]))),
        (
            "a port more",
            ports(json!([{ "port": 81, "name": "more" }, { "port": 80, "name": "http" }])),
        ),
        ("a port gone", ports(json!([{ "port": 81, "$patch": "delete" }]))),
        (
            "two of one name",
            ports(json!([{ "port": 90, "name": "same" }, { "port": 91, "name": "same" }])),
        ),
        ("no names", ports(json!([{ "port": 90 }, { "port": 91 }]))),
        ("another type", json!({ "spec": { "type": "NodePort" } })),
        ("back", json!({ "spec": { "type": "ClusterIP" } })),
        ("headless", json!({ "spec": { "clusterIP": "None" } })),
        ("another address", json!({ "spec": { "clusterIP": "10.96.7.7" } })),
        (
            "a name elsewhere",
            json!({ "spec": { "type": "ExternalName", "externalName": "a.example.com" } }),
        ),
        ("home again", json!({ "spec": { "type": "ClusterIP", "externalName": null } })),
        ("the selector", json!({ "spec": { "selector": { "app": "other", "role": "x" } } })),
        ("no selector", json!({ "spec": { "selector": null } })),
        ("affinity", json!({ "spec": { "sessionAffinity": "None" } })),
        ("affinity on", json!({ "spec": { "sessionAffinity": "ClientIP" } })),
        ("two families", json!({ "spec": { "ipFamilyPolicy": "PreferDualStack" } })),
        ("six", json!({ "spec": { "ipFamilies": ["IPv6"] } })),
        ("local", json!({ "spec": { "internalTrafficPolicy": "Local" } })),
        ("distribution", json!({ "spec": { "trafficDistribution": "PreferClose" } })),
    ]
}

fn account() -> Vec<(&'static str, Value)> {
    vec![
        ("a secret more", json!({ "secrets": [{ "name": "new" }] })),
        ("a secret gone", json!({ "secrets": [{ "name": "old", "$patch": "delete" }] })),
        ("pull", json!({ "imagePullSecrets": [{ "name": "more" }] })),
        ("mount", json!({ "automountServiceAccountToken": null })),
    ]
}

fn widget() -> Vec<(&'static str, Value)> {
    let spec = |change: Value| json!({ "spec": change });
    vec![
        ("bigger", spec(json!({ "size": 9 }))),
        ("smaller", spec(json!({ "size": 2 }))),
        ("too big", spec(json!({ "size": 900 }))),
        ("colour null", spec(json!({ "colour": null }))),
        ("another colour", spec(json!({ "colour": "green" }))),
        ("no colour we know", spec(json!({ "colour": "pink" }))),
        ("tags twice", spec(json!({ "tags": ["a", "a"] }))),
        ("five tags", spec(json!({ "tags": ["a", "b", "c", "d", "e"] }))),
        ("parts twice", spec(json!({ "parts": [{ "name": "x" }, { "name": "x" }] }))),
        ("a part without a name", spec(json!({ "parts": [{ "count": 1 }] }))),
        ("other parts", spec(json!({ "parts": [{ "name": "x" }, { "name": "y", "count": 2 }] }))),
        ("limits wrong", spec(json!({ "limits": { "low": 5, "high": 1 } }))),
        ("a limit", spec(json!({ "limits": { "low": 0 } }))),
        ("note null", spec(json!({ "note": null }))),
        ("note", spec(json!({ "note": "hello" }))),
        ("unknown", spec(json!({ "unknown": { "a": 1 } }))),
        ("free", spec(json!({ "free": { "more": { "b": [1, 2] } } }))),
        ("ratio", spec(json!({ "ratio": 0.3 }))),
        ("whole ratio", spec(json!({ "ratio": 2 }))),
        ("port by name", spec(json!({ "port": "http" }))),
        ("port as a fraction", spec(json!({ "port": 1.5 }))),
        ("when", spec(json!({ "when": "yesterday" }))),
        ("labels", spec(json!({ "labels": { "a": "", "b": "c" } }))),
        ("name", spec(json!({ "name": "TooLong" }))),
        ("spec null", json!({ "spec": null })),
        ("status", json!({ "status": { "phase": "Old" } })),
    ]
}

fn map() -> Vec<(&'static str, Value)> {
    vec![
        ("a key", json!({ "data": { "b": "2" } })),
        ("a key gone", json!({ "data": { "a": null } })),
        ("a number", json!({ "data": { "c": 3 } })),
        ("bytes", json!({ "binaryData": { "d": "AAEC" } })),
        ("bad bytes", json!({ "binaryData": { "e": "%%" } })),
        ("both", json!({ "binaryData": { "b": "AAEC" } })),
        ("a bad key", json!({ "data": { "a/b": "1" } })),
        ("fixed", json!({ "immutable": true })),
        ("too late", json!({ "data": { "b": "3" } })),
        ("not unfixed", json!({ "immutable": false })),
        ("a label is fine", json!({ "metadata": { "labels": { "a": "b" } } })),
    ]
}

fn secret() -> Vec<(&'static str, Value)> {
    vec![
        ("text", json!({ "stringData": { "b": "two" } })),
        ("text over bytes", json!({ "stringData": { "a": "two" }, "data": { "a": "MQ==" } })),
        ("another type", json!({ "type": "kubernetes.io/tls" })),
        ("bad bytes", json!({ "data": { "a": "%" } })),
        ("fixed", json!({ "immutable": true })),
        ("too late", json!({ "stringData": { "b": "three" } })),
    ]
}

fn autoscaler() -> Vec<(&'static str, Value)> {
    vec![
        ("fewer", json!({ "spec": { "minReplicas": 1, "maxReplicas": 3 } })),
        ("crossed", json!({ "spec": { "minReplicas": 9, "maxReplicas": 3 } })),
        ("no metrics", json!({ "spec": { "metrics": null } })),
        ("empty metrics", json!({ "spec": { "metrics": [] } })),
        ("no behaviour", json!({ "spec": { "behavior": null } })),
        ("another target", json!({ "spec": { "scaleTargetRef": { "name": "web-primary" } } })),
        ("zero", json!({ "spec": { "minReplicas": 0 } })),
    ]
}

fn stateful() -> Vec<(&'static str, Value)> {
    vec![
        ("replicas", json!({ "spec": { "replicas": 4 } })),
        ("the service", json!({ "spec": { "serviceName": "other" } })),
        ("the policy", json!({ "spec": { "podManagementPolicy": "OrderedReady" } })),
        ("the claims", json!({ "spec": { "volumeClaimTemplates": [] } })),
        (
            "partition",
            json!({ "spec": { "updateStrategy": { "rollingUpdate": { "partition": 0 } } } }),
        ),
        (
            "on delete",
            json!({ "spec": { "updateStrategy": { "type": "OnDelete", "rollingUpdate": null } } }),
        ),
        ("ordinals", json!({ "spec": { "ordinals": null } })),
        (
            "retention",
            json!({ "spec": { "persistentVolumeClaimRetentionPolicy": { "whenDeleted": "Retain" } } }),
        ),
        ("history", json!({ "spec": { "revisionHistoryLimit": 9 } })),
        ("an image", containers(json!([{ "name": "app", "image": "web:2" }]))),
    ]
}

fn slice() -> Vec<(&'static str, Value)> {
    vec![
        ("another kind of address", json!({ "addressType": "IPv6" })),
        ("other endpoints", json!({ "endpoints": [{ "addresses": ["10.9.9.9"] }] })),
        ("no endpoints", json!({ "endpoints": null })),
        ("no ports", json!({ "ports": null })),
        ("a bad address", json!({ "endpoints": [{ "addresses": ["nowhere"] }] })),
        ("loopback", json!({ "endpoints": [{ "addresses": ["127.0.0.1"] }] })),
        (
            "another Service",
            json!({ "metadata": { "labels": { "kubernetes.io/service-name": "other" } } }),
        ),
    ]
}

fn ingress() -> Vec<(&'static str, Value)> {
    vec![
        (
            "weight",
            json!({ "metadata": { "annotations": { "nginx.ingress.kubernetes.io/canary-weight": "10" } } }),
        ),
        ("another class", json!({ "spec": { "ingressClassName": "other" } })),
        ("no rules", json!({ "spec": { "rules": null } })),
        ("nothing", json!({ "spec": { "rules": null, "defaultBackend": null } })),
        (
            "a relative path",
            json!({ "spec": { "rules": [{ "http": { "paths": [{ "path": "a", "pathType": "Prefix", "backend": { "service": { "name": "a", "port": { "number": 1 } } } }] } }] } }),
        ),
    ]
}
