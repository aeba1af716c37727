//! Pod templates, volume claim templates and selectors.
//!
//! Templates are kept as the JSON the user stored. The identity of a revision is computed from it,
//! so a template must never pass through a typed struct that drops, adds or reorders members: an
//! upgrade of the operator would then roll every workload.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::schema::{rule, rule_at};

/// Longest value of a label.
const LABEL_VALUE_MAX: usize = 63;
/// Longest key of a label: a DNS subdomain, a slash and a name.
const LABEL_KEY_MAX: usize = 253 + 1 + 63;

// Bounds that only keep the estimated cost of the rules below the API server's budget; they are far
// above what a workload has.
const LABELS_MAX: usize = 256;
const SELECTOR_LABELS_MAX: usize = 64;
const SELECTOR_EXPRESSIONS_MAX: usize = 32;
const EXPRESSION_VALUES_MAX: usize = 64;
const CONTAINERS_MAX: usize = 256;

/// A pod template, byte for byte what the user wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PodTemplate(pub Map<String, Value>);

/// A volume claim template, byte for byte what the user wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct VolumeClaimTemplate(pub Map<String, Value>);

/// Describes the standard label selector with the bounds its rules need.
pub(crate) struct SelectorSchema;

/// Rules on the spec of a workload that relate selector, template and strategy.
pub(crate) fn workload_rules() -> Vec<Value> {
    vec![
        rule_at(
            ".selector.matchLabels",
            "!has(self.selector.matchLabels) || (has(self.template.metadata) && \
             has(self.template.metadata.labels) && self.selector.matchLabels.all(k, \
             k in self.template.metadata.labels && \
             self.template.metadata.labels[k] == self.selector.matchLabels[k]))",
            "must match template.metadata.labels",
        ),
        rule_at(
            ".selector.matchExpressions",
            r#"!has(self.selector.matchExpressions) || self.selector.matchExpressions.all(e, e.operator in ["NotIn", "DoesNotExist"] || (has(self.template.metadata) && has(self.template.metadata.labels) && e.key in self.template.metadata.labels && (e.operator == "Exists" || (has(e.values) && self.template.metadata.labels[e.key] in e.values))))"#,
            "must match template.metadata.labels",
        ),
        rule_at(
            ".selector.matchExpressions",
            r#"!has(self.selector.matchExpressions) || !has(self.template.metadata) || !has(self.template.metadata.labels) || self.selector.matchExpressions.all(e, e.operator in ["In", "Exists"] || !(e.key in self.template.metadata.labels) || (e.operator == "NotIn" && (!has(e.values) || !(self.template.metadata.labels[e.key] in e.values))))"#,
            "must not exclude template.metadata.labels",
        ),
        rule_at(
            ".template.spec.containers",
            r#"!has(self.updateStrategy) || !(self.updateStrategy.type in ["InplaceUpdate", "HotPatchUpdate"]) || self.template.spec.containers.map(c, c.name) == oldSelf.template.spec.containers.map(c, c.name)"#,
            "containers cannot be added, removed, renamed or reordered with updateStrategy.type \
             InplaceUpdate or HotPatchUpdate; change the type to RollingUpdate first",
        ),
    ]
}

// === impl PodTemplate ===

impl PodTemplate {
    /// A label of the pods.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.metadata("labels")?.get(key)?.as_str()
    }

    /// All labels of the pods, in order.
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        let labels = self.metadata("labels").into_iter().flatten();
        labels.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
    }

    /// All annotations of the pods, in order.
    pub fn annotations(&self) -> impl Iterator<Item = (&str, &str)> {
        let annotations = self.metadata("annotations").into_iter().flatten();
        annotations.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
    }

    /// The spec of the pods.
    pub fn pod_spec(&self) -> Option<&Map<String, Value>> {
        self.0.get("spec")?.as_object()
    }

    /// Name and image of each container, in order.
    pub fn containers(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        let list = self.pod_spec().and_then(|spec| spec.get("containers")?.as_array());
        list.into_iter().flatten().filter_map(|container| {
            let name = container.get("name")?.as_str()?;
            Some((name, container.get("image").and_then(Value::as_str)))
        })
    }

    fn metadata(&self, member: &str) -> Option<&Map<String, Value>> {
        self.0.get("metadata")?.get(member)?.as_object()
    }
}

impl JsonSchema for PodTemplate {
    fn schema_name() -> Cow<'static, str> {
        "PodTemplate".into()
    }

    // Only what rules and printer columns look at is declared; the rest is kept as it is and
    // validated when a pod is made from it.
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let container = json_schema!({
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": true,
            "required": ["name"],
            "properties": {
                "name": {
                    "description": "Name of the container, unique in the pod.",
                    "type": "string",
                    "maxLength": LABEL_VALUE_MAX,
                },
                "image": { "description": "Image of the container.", "type": "string" },
            },
        });
        json_schema!({
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": true,
            "required": ["spec"],
            "properties": {
                "metadata": {
                    "description": "Labels, annotations and the rest of the pods' metadata.",
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": true,
                    "properties": {
                        "labels": {
                            "description": "Labels of the pods. The selector must match them.",
                            "type": "object",
                            "maxProperties": LABELS_MAX,
                            "additionalProperties": { "type": "string", "maxLength": LABEL_VALUE_MAX },
                        },
                        "annotations": {
                            "description": "Annotations of the pods.",
                            "type": "object",
                            "additionalProperties": { "type": "string" },
                        },
                    },
                },
                "spec": {
                    "description": "The spec of the pods, as in any other workload.",
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": true,
                    "required": ["containers"],
                    "properties": {
                        "containers": {
                            "description": "Containers of the pods.",
                            "type": "array",
                            "minItems": 1,
                            "maxItems": CONTAINERS_MAX,
                            "items": container,
                        },
                    },
                },
            },
        })
    }
}

// === impl VolumeClaimTemplate ===

impl VolumeClaimTemplate {
    /// Name of the claim; the pod's claim is called `<name>-<set>-<ordinal>`.
    pub fn name(&self) -> Option<&str> {
        self.0.get("metadata")?.get("name")?.as_str()
    }
}

impl JsonSchema for VolumeClaimTemplate {
    fn schema_name() -> Cow<'static, str> {
        "VolumeClaimTemplate".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": true,
            "required": ["metadata", "spec"],
            "properties": {
                "metadata": {
                    "description": "Name, labels and annotations of the claim.",
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": true,
                    "required": ["name"],
                    "properties": {
                        "name": {
                            "description": "Name of the claim. A volume of this name in the pod \
                                            template is replaced.",
                            "type": "string",
                            "minLength": 1,
                        },
                    },
                },
                "spec": claim_spec(),
            },
        })
    }
}

/// The members of a claim that people set; any other is kept as it is.
fn claim_spec() -> Value {
    let amounts = json!({
        "type": "object",
        "description": "Amounts by resource, such as `storage: 10Gi`.",
        "additionalProperties": { "x-kubernetes-int-or-string": true },
    });
    json!({
        "description": "The storage to ask for, as in any PersistentVolumeClaim.",
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
        "properties": {
            "accessModes": {
                "description": "How the volume can be mounted, such as `ReadWriteOnce`.",
                "type": "array",
                "items": { "type": "string" },
            },
            "resources": {
                "description": "Size of the volume.",
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": true,
                "properties": { "requests": amounts, "limits": amounts },
            },
            "storageClassName": {
                "description": "Storage class of the volume. Default: that of the cluster.",
                "type": "string",
            },
            "volumeMode": {
                "description": "`Filesystem` or `Block`. Default `Filesystem`.",
                "type": "string",
            },
        },
    })
}

// === impl SelectorSchema ===

impl JsonSchema for SelectorSchema {
    fn schema_name() -> Cow<'static, str> {
        "SelectorSchema".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let expression = json_schema!({
            "type": "object",
            "required": ["key", "operator"],
            "properties": {
                "key": {
                    "description": "Name of the label.",
                    "type": "string",
                    "maxLength": LABEL_KEY_MAX,
                },
                "operator": {
                    "description": "How the label is compared.",
                    "type": "string",
                    "enum": ["In", "NotIn", "Exists", "DoesNotExist"],
                },
                "values": {
                    "description": "Values for `In` and `NotIn`.",
                    "type": "array",
                    "maxItems": EXPRESSION_VALUES_MAX,
                    "items": { "type": "string", "maxLength": LABEL_VALUE_MAX },
                },
            },
        });
        json_schema!({
            "type": "object",
            "x-kubernetes-map-type": "atomic",
            "x-kubernetes-validations": [
                rule(
                    "(has(self.matchLabels) && size(self.matchLabels) > 0) || \
                     (has(self.matchExpressions) && size(self.matchExpressions) > 0)",
                    "must not be empty: an empty selector matches nothing",
                ),
                rule("self == oldSelf", "cannot be changed; create a new workload instead"),
            ],
            "properties": {
                "matchLabels": {
                    "description": "Labels a pod must have, with their values.",
                    "type": "object",
                    "maxProperties": SELECTOR_LABELS_MAX,
                    "additionalProperties": { "type": "string", "maxLength": LABEL_VALUE_MAX },
                },
                "matchExpressions": {
                    "description": "Conditions on the labels of a pod, all of which must hold.",
                    "type": "array",
                    "maxItems": SELECTOR_EXPRESSIONS_MAX,
                    "items": expression,
                },
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_answers_for_its_parts() {
        let template: PodTemplate = serde_json::from_value(json!({
            "metadata": { "labels": { "app": "a", "tier": "b" }, "annotations": { "note": "c" } },
            "spec": { "containers": [{ "name": "one", "image": "x:1" }, { "name": "two" }] },
        }))
        .unwrap();
        assert_eq!(template.label("tier"), Some("b"));
        assert_eq!(template.labels().collect::<Vec<_>>(), [("app", "a"), ("tier", "b")]);
        assert_eq!(template.annotations().collect::<Vec<_>>(), [("note", "c")]);
        assert_eq!(
            template.containers().collect::<Vec<_>>(),
            [("one", Some("x:1")), ("two", None)]
        );
    }

    #[test]
    fn a_template_without_parts_has_none() {
        let template = PodTemplate::default();
        assert_eq!(template.labels().count() + template.containers().count(), 0);
        assert_eq!((template.label("app"), template.pod_spec()), (None, None));
    }
}
