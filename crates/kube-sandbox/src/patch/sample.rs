//! Test helper: a small type with every kind of list and object, and generators of its values.

use std::{collections::BTreeMap, sync::LazyLock};

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::shape::{ListKind, Shape};

/// A shape read from a literal; `Value::Null` has no known fields.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample(&'static Value);

/// A reduced Deployment with the fields that are hard to merge.
pub(crate) fn workload() -> Sample {
    static WORKLOAD: LazyLock<Value> = LazyLock::new(|| {
        json!({"fields": {
            "metadata": {"fields": {
                "finalizers": {"list": "set", "merge": ""},
                "ownerReferences": {"list": ["uid"], "merge": "uid"},
                "managedFields": {"list": "atomic"},
            }},
            "spec": {"fields": {
                "selector": {"atomic": true},
                "strategy": {"retain": true},
                "template": {"fields": {"spec": {"fields": {
                    "containers": {
                        "list": ["name"], "merge": "name",
                        "items": {"fields": {
                            "command": {"list": "atomic"},
                            "env": {"list": ["name"], "merge": "name"},
                            "ports": {
                                "list": ["containerPort", "protocol"],
                                "merge": "containerPort",
                                "defaults": {"protocol": "TCP"},
                            },
                        }},
                    },
                    "volumes": {"list": ["name"], "merge": "name", "items": {"retain": true}},
                }}}},
            }},
            "status": {"fields": {"conditions": {"list": ["type"], "merge": "type"}}},
        }})
    });
    Sample(&WORKLOAD)
}

impl Shape for Sample {
    fn field(&self, name: &str) -> Self {
        Self(&self.0["fields"][name])
    }

    fn items(&self) -> Self {
        Self(&self.0["items"])
    }

    fn list(&self) -> ListKind {
        match &self.0["list"] {
            Value::String(kind) if kind == "set" => ListKind::Set,
            Value::Array(keys) => {
                ListKind::Map(keys.iter().map(|key| key.as_str().unwrap().to_owned()).collect())
            }
            _ => ListKind::Atomic,
        }
    }

    fn is_atomic_object(&self) -> bool {
        self.0["atomic"] == true
    }

    fn key_default(&self, key: &str) -> Option<Value> {
        self.0["defaults"].get(key).cloned()
    }

    fn patch_merge(&self) -> Option<Option<String>> {
        let key = self.0["merge"].as_str()?;
        Some(Some(key.to_owned()).filter(|key| !key.is_empty()))
    }
}

/// Any JSON object, shallow and with few names, so that two of them overlap.
pub(crate) fn any_object() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3_i64..3).prop_map(Value::from),
        "[a-c]{0,2}".prop_map(Value::from),
    ];
    let nested = leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-c]", inner, 0..4).prop_map(object),
        ]
    });
    prop::collection::btree_map("[a-d]", nested, 0..4).prop_map(object)
}

/// A valid value of [`workload`]: no duplicates, no nulls, every part optional.
pub(crate) fn any_workload() -> impl Strategy<Value = Value> {
    let labels = prop::collection::btree_map("[a-c]", small_text(), 0..3);
    let finalizers = prop::sample::subsequence(vec!["x", "y", "z"], 0..=3).prop_shuffle();
    let spec = (
        prop::option::of(0_i64..3),
        prop::option::of(small_text().prop_map(|text| json!({"app": text}))),
        prop::option::of(any_containers()),
    );
    (labels, finalizers, spec).prop_map(|(labels, finalizers, (replicas, selector, containers))| {
        let mut workload = json!({
            "apiVersion": "apps/v1", "kind": "Workload",
            "metadata": {"name": "web", "namespace": "shop"},
        });
        if !labels.is_empty() {
            workload["metadata"]["labels"] = object(labels);
        }
        if !finalizers.is_empty() {
            workload["metadata"]["finalizers"] = finalizers.into();
        }
        if let Some(replicas) = replicas {
            workload["spec"]["replicas"] = replicas.into();
        }
        if let Some(selector) = selector {
            workload["spec"]["selector"] = selector;
        }
        if let Some(containers) = containers {
            workload["spec"]["template"]["spec"]["containers"] = containers;
        }
        workload
    })
}

fn any_containers() -> impl Strategy<Value = Value> {
    let ports = prop::sample::subsequence(vec![80, 443, 8080], 1..=2)
        .prop_map(|ports| ports.iter().map(|port| json!({"containerPort": port})).collect());
    let container = (prop::option::of(small_text()), prop::option::of(ports));
    let named = prop::collection::btree_map("[a-d]", container, 1..4);
    named.prop_map(|named| named.into_iter().collect::<Vec<_>>()).prop_shuffle().prop_map(|named| {
        let container = |(name, (image, ports)): (String, (Option<String>, Option<Value>))| {
            let mut container = json!({"name": name});
            if let Some(image) = image {
                container["image"] = image.into();
            }
            if let Some(ports) = ports {
                container["ports"] = ports;
            }
            container
        };
        named.into_iter().map(container).collect()
    })
}

fn small_text() -> impl Strategy<Value = String> {
    "[u-w]"
}

fn object<T: Into<Value>>(members: BTreeMap<String, T>) -> Value {
    members.into_iter().map(|(name, value)| (name, value.into())).collect()
}
