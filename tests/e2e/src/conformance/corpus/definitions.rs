//! Definitions of custom resources: valid ones, and each possible error.

use serde_json::{Value, json};

use crate::conformance::request::{MERGE, Request, Story};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

pub(super) fn stories() -> Vec<Story> {
    vec![broken_schemas(), broken_definitions(), life()]
}

fn definition(schema: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "things.${ns}.example.com" },
        "spec": {
            "group": "${ns}.example.com", "scope": "Namespaced",
            "names": { "plural": "things", "kind": "Thing" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } }],
        },
    })
}

#[expect(clippy::too_many_lines, reason = "a table")]
fn broken_schemas() -> Story {
    let mut story = Story::new("schemas of definitions");
    let spec = |schema: Value| json!({ "type": "object", "properties": { "spec": schema } });
    let rule = |rule: &str| json!({ "type": "object", "properties": { "a": { "type": "integer" }, "b": { "type": "string" } }, "x-kubernetes-validations": [{ "rule": rule }] });
    let schemas = [
        json!({}),
        json!({ "type": "string" }),
        json!({ "type": "object" }),
        json!({ "type": "array" }),
        spec(json!({})),
        spec(json!({ "type": "thing" })),
        spec(json!({ "type": "array" })),
        spec(json!({ "type": "array", "items": [] })),
        spec(
            json!({ "type": "object", "properties": { "a": { "type": "string" } }, "additionalProperties": { "type": "string" } }),
        ),
        spec(json!({ "type": "object", "additionalProperties": false })),
        spec(json!({ "type": "object", "additionalProperties": true })),
        spec(json!({ "$ref": "#/a" })),
        spec(json!({ "type": "string", "default": 7 })),
        spec(json!({ "type": "string", "default": "x", "enum": ["y"] })),
        spec(json!({ "type": "string", "pattern": "(" })),
        spec(json!({ "type": "integer", "minimum": 5, "maximum": 1 })),
        spec(json!({ "type": "string", "nullable": true, "default": null })),
        spec(json!({ "type": "string", "default": null })),
        spec(
            json!({ "type": "array", "items": { "type": "string" }, "x-kubernetes-list-type": "map" }),
        ),
        spec(
            json!({ "type": "array", "items": { "type": "object", "properties": { "a": { "type": "string" } } }, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"] }),
        ),
        spec(
            json!({ "type": "array", "items": { "type": "object" }, "x-kubernetes-list-type": "set" }),
        ),
        spec(
            json!({ "type": "array", "items": { "type": "string" }, "x-kubernetes-list-type": "heap" }),
        ),
        spec(json!({ "type": "object", "x-kubernetes-list-type": "set" })),
        spec(json!({ "type": "string", "x-kubernetes-map-type": "atomic" })),
        spec(json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": false })),
        spec(json!({ "x-kubernetes-preserve-unknown-fields": true })),
        spec(json!({ "x-kubernetes-int-or-string": true })),
        spec(json!({ "type": "string", "x-kubernetes-int-or-string": true })),
        spec(
            json!({ "x-kubernetes-int-or-string": true, "anyOf": [{ "type": "integer" }, { "type": "string" }] }),
        ),
        spec(
            json!({ "type": "object", "anyOf": [{ "required": ["a"] }], "properties": { "a": { "type": "string" } } }),
        ),
        spec(
            json!({ "type": "object", "anyOf": [{ "properties": { "b": { "type": "string" } } }] }),
        ),
        spec(json!({ "type": "object", "x-kubernetes-embedded-resource": true })),
        spec(
            json!({ "type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true }),
        ),
        spec(json!({ "type": "string", "uniqueItems": true })),
        spec(json!({ "type": "array", "items": { "type": "string" }, "uniqueItems": true })),
        spec(json!({ "type": "string", "format": "nonsense" })),
        spec(json!({ "type": "string", "unknownKeyword": 1 })),
        spec(json!({ "type": "object", "required": ["nope"] })),
        spec(json!({ "type": "object", "definitions": {} })),
        spec(json!({ "type": "object", "nullable": true })),
        spec(rule("self.a > 1")),
        spec(rule("self.a > 'x'")),
        spec(rule("self.c > 1")),
        spec(rule("")),
        spec(rule("self.a")),
        spec(rule("self.a >")),
        spec(rule("has(self.b) && self.b.matches('^x')")),
        spec(rule("oldSelf.a == self.a")),
        spec(rule("self.b.startsWith('a') || size(self.b) > 2")),
        spec(rule("nonsense(self)")),
        spec(
            json!({ "type": "object", "x-kubernetes-validations": [{ "rule": "true", "messageExpression": "1" }] }),
        ),
        spec(
            json!({ "type": "object", "x-kubernetes-validations": [{ "rule": "true", "fieldPath": ".nope" }] }),
        ),
        spec(
            json!({ "type": "object", "x-kubernetes-validations": [{ "rule": "true", "reason": "Because" }] }),
        ),
        spec(
            json!({ "type": "array", "items": { "type": "string", "x-kubernetes-validations": [{ "rule": "self != oldSelf" }] } }),
        ),
        json!({ "type": "object", "properties": { "metadata": { "type": "object", "properties": { "name": { "type": "string", "maxLength": 3 } } } } }),
        json!({ "type": "object", "properties": { "metadata": { "type": "object", "properties": { "labels": { "type": "object" } } } } }),
        json!({ "type": "object", "properties": { "metadata": { "type": "string" } } }),
        json!({ "type": "object", "properties": { "apiVersion": { "type": "integer" } } }),
        json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true, "nullable": true }),
    ];
    for schema in &schemas {
        let note = schema.to_string();
        story.post(&note, format!("{CRDS}?dryRun=All&fieldValidation=Strict"), &definition(schema));
    }
    story
}

#[expect(clippy::too_many_lines, reason = "a table")]
fn broken_definitions() -> Story {
    let mut story = Story::new("definitions");
    let good = definition(
        &json!({ "type": "object", "properties": { "spec": { "type": "object", "properties": { "replicas": { "type": "integer" } } } } }),
    );
    let version = |change: Value| json!({ "spec": { "versions": [super::merged(&good["spec"]["versions"][0], &change)] } });
    let second = |change: Value| {
        let other = super::merged(
            &json!({ "name": "v2", "served": true, "storage": false, "schema": { "openAPIV3Schema": { "type": "object" } } }),
            &change,
        );
        json!({ "spec": { "versions": [good["spec"]["versions"][0], other] } })
    };
    let patches = [
        json!({}),
        json!({ "metadata": { "name": "wrong" } }),
        json!({ "spec": { "group": "" } }),
        json!({ "spec": { "group": "Bad_Group" } }),
        json!({ "spec": { "group": "nodots" } }),
        json!({ "spec": { "scope": "Everywhere" } }),
        json!({ "spec": { "scope": null } }),
        json!({ "spec": { "names": { "kind": "" } } }),
        json!({ "spec": { "names": { "kind": "bad kind" } } }),
        json!({ "spec": { "names": { "plural": "Things" } } }),
        json!({ "spec": { "names": { "shortNames": ["B A D"] } } }),
        json!({ "spec": { "names": { "categories": ["All"] } } }),
        json!({ "spec": { "names": { "listKind": "Thing" } } }),
        json!({ "spec": { "names": { "singular": "Thing" } } }),
        json!({ "spec": { "names": { "kind": "Thing", "listKind": "ThingCollection" } } }),
        json!({ "spec": { "versions": [] } }),
        json!({ "spec": { "versions": null } }),
        version(json!({ "schema": null })),
        version(json!({ "name": "1" })),
        version(json!({ "name": "" })),
        version(json!({ "storage": false })),
        version(json!({ "served": false })),
        version(json!({ "served": null })),
        version(json!({ "deprecated": true })),
        version(json!({ "deprecated": true, "deprecationWarning": "use v2" })),
        version(json!({ "deprecationWarning": "alone" })),
        version(json!({ "subresources": { "status": {} } })),
        version(json!({ "subresources": { "scale": {} } })),
        version(
            json!({ "subresources": { "scale": { "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas" } } }),
        ),
        version(
            json!({ "subresources": { "scale": { "specReplicasPath": "spec.replicas", "statusReplicasPath": ".spec.x" } } }),
        ),
        version(
            json!({ "additionalPrinterColumns": [{ "name": "A", "type": "string", "jsonPath": ".spec.a" }] }),
        ),
        version(
            json!({ "additionalPrinterColumns": [{ "name": "A", "type": "thing", "jsonPath": ".spec.a" }] }),
        ),
        version(
            json!({ "additionalPrinterColumns": [{ "name": "", "type": "string", "jsonPath": "" }] }),
        ),
        version(
            json!({ "additionalPrinterColumns": [{ "name": "A", "type": "string", "jsonPath": ".spec[", "format": "nope" }] }),
        ),
        version(json!({ "selectableFields": [{ "jsonPath": ".spec.replicas" }] })),
        version(json!({ "selectableFields": [{ "jsonPath": ".spec.nope" }] })),
        version(
            json!({ "selectableFields": [{ "jsonPath": ".spec.replicas" }, { "jsonPath": ".spec.replicas" }] }),
        ),
        version(json!({ "selectableFields": [{ "jsonPath": ".metadata.name" }] })),
        second(json!({})),
        second(json!({ "storage": true })),
        second(json!({ "name": "v1" })),
        second(json!({ "schema": null })),
        json!({ "spec": { "conversion": { "strategy": "None" } } }),
        json!({ "spec": { "conversion": { "strategy": "Webhook" } } }),
        json!({ "spec": { "conversion": { "strategy": "Magic" } } }),
        json!({ "spec": { "preserveUnknownFields": true } }),
        json!({ "spec": { "preserveUnknownFields": false } }),
        json!({ "spec": { "unknown": 1 } }),
        json!({ "spec": null }),
        json!({ "metadata": { "name": "things.k8s.io" }, "spec": { "group": "k8s.io" } }),
        json!({ "metadata": { "name": "things.x.k8s.io" }, "spec": { "group": "x.k8s.io" } }),
        json!({ "metadata": { "name": "things.x.k8s.io", "annotations": { "api-approved.kubernetes.io": "https://example.com/pull/1" } }, "spec": { "group": "x.k8s.io" } }),
        json!({ "status": { "storedVersions": ["v7"] } }),
    ];
    for patch in &patches {
        story.post(&patch.to_string(), format!("{CRDS}?dryRun=All"), &super::merged(&good, patch));
    }
    story
}

fn life() -> Story {
    let mut story = Story::new("the life of a definition");
    let schema = json!({ "type": "object", "properties": { "spec": { "type": "object", "properties": { "a": { "type": "string" } } } } });
    let crd = format!("{CRDS}/things.${{ns}}.example.com");
    story.post("made", CRDS, &definition(&schema));
    let all = "/apis/${ns}.example.com/v1/namespaces/${ns}/things";
    story.ask(Request::new("GET", all).note("served").patiently());
    story.post("made again", CRDS, &definition(&schema));
    let thing = json!({ "apiVersion": "${ns}.example.com/v1", "kind": "Thing", "metadata": { "name": "t" }, "spec": { "a": "x", "b": "y" } });
    story.post("a thing", all, &thing);
    story.get("the thing", format!("{all}/t"));
    story.get("no status", format!("{all}/t/status"));
    story.get("no scale", format!("{all}/t/scale"));
    story.patch(
        "another group",
        crd.clone(),
        MERGE,
        &json!({ "spec": { "group": "other.example.com" } }),
    );
    story.patch("another scope", crd.clone(), MERGE, &json!({ "spec": { "scope": "Cluster" } }));
    story.patch(
        "another plural",
        crd.clone(),
        MERGE,
        &json!({ "spec": { "names": { "plural": "stuff" } } }),
    );
    story.patch("a label", crd.clone(), MERGE, &json!({ "metadata": { "labels": { "a": "b" } } }));
    story.patch("no versions", crd.clone(), MERGE, &json!({ "spec": { "versions": [] } }));
    story.patch(
        "its status",
        format!("{crd}/status"),
        MERGE,
        &json!({ "status": { "storedVersions": [] } }),
    );
    story.delete("a rehearsal", format!("{crd}?dryRun=All"));
    story
}
