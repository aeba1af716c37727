//! Edits of JSON objects, for defaulting and for preparing writes.
//!
//! Every function leaves a value of an unexpected type alone. [`tidy`] drops values that a typed
//! server would not have kept: explicit `null`s, empty lists, and zero values of fields with
//! `omitempty`. Without it, `paused: false` in a manifest would be a change of spec.

use serde_json::{Map, Value};

use crate::quantity::Quantity;

/// Maps that are not written when empty. An empty struct (`emptyDir: {}`) is written.
const MAPS_DROPPED_EMPTY: &[&str] = &[
    "annotations",
    "binaryData",
    "labels",
    "limits",
    "matchLabels",
    "nodeSelector",
    "overhead",
    "requests",
    "stringData",
];

/// Members with arbitrary keys: nothing below them is a field.
const FREE_FORM: &[&str] = &[
    "annotations",
    "binaryData",
    "data",
    "fieldsV1",
    "labels",
    "matchLabels",
    "nodeSelector",
    "stringData",
];

/// Fields whose zero (`0`, `false`, `""`) is the same as their absence.
const ZERO_IS_ABSENT: &[&str] = &[
    "clusterIP",
    "externalName",
    "externalTrafficPolicy",
    "generateName",
    "healthCheckNodePort",
    "hostIP",
    "hostIPC",
    "hostNetwork",
    "hostPID",
    "hostPort",
    "hostname",
    "initialDelaySeconds",
    "loadBalancerIP",
    "minReadySeconds",
    "nodeName",
    "nodePort",
    "paused",
    "priorityClassName",
    "publishNotReadyAddresses",
    "serviceAccount",
    "serviceAccountName",
    "stdin",
    "stdinOnce",
    "subPath",
    "subPathExpr",
    "subdomain",
    "tty",
    "workingDir",
];

/// Fields that are written even when empty: a pointer and a time without `omitempty`.
const WRITTEN_NULL: &[&str] = &["apiGroup", "lastProbeTime"];

/// The object at `key`, created if missing. `None` if `parent` or the value at `key` is no object.
pub(crate) fn object<'v>(parent: &'v mut Value, key: &str) -> Option<&'v mut Value> {
    let members = parent.as_object_mut()?;
    let slot = members.entry(key).or_insert(Value::Null);
    if slot.is_null() {
        *slot = Value::Object(Map::new());
    }
    slot.is_object().then_some(slot)
}

/// Like [`object`], along a path.
pub(crate) fn object_at<'v>(root: &'v mut Value, path: &[&str]) -> Option<&'v mut Value> {
    path.iter().try_fold(root, |value, key| object(value, key))
}

/// Sets `key` if it is missing.
pub(crate) fn default_to(parent: &mut Value, key: &str, value: impl Into<Value>) {
    default_if(parent, key, value, Value::is_null);
}

/// Sets `key` if it is missing, empty or zero.
pub(crate) fn default_zero(parent: &mut Value, key: &str, value: impl Into<Value>) {
    default_if(parent, key, value, is_zero);
}

fn default_if(parent: &mut Value, key: &str, value: impl Into<Value>, unset: fn(&Value) -> bool) {
    if let Some(members) = parent.as_object_mut()
        && members.get(key).is_none_or(unset)
    {
        members.insert(key.to_owned(), value.into());
    }
}

pub(crate) fn set(parent: &mut Value, key: &str, value: impl Into<Value>) {
    if let Some(members) = parent.as_object_mut() {
        members.insert(key.to_owned(), value.into());
    }
}

pub(crate) fn remove(parent: &mut Value, key: &str) -> Option<Value> {
    parent.as_object_mut()?.remove(key)
}

/// Copies `key` from `old` to `new`, including its absence.
pub(crate) fn carry(new: &mut Value, old: &Value, key: &str) {
    match old.get(key) {
        Some(value) => set(new, key, value.clone()),
        None => {
            remove(new, key);
        }
    }
}

pub(crate) fn each(parent: &mut Value, key: &str, edit: impl FnMut(&mut Value)) {
    if let Some(items) = parent.get_mut(key).and_then(Value::as_array_mut) {
        items.iter_mut().for_each(edit);
    }
}

/// Runs `edit` on the object at `key`, if there is one.
pub(crate) fn within(parent: &mut Value, key: &str, edit: impl FnOnce(&mut Value)) {
    if let Some(inner) = parent.get_mut(key).filter(|inner| inner.is_object()) {
        edit(inner);
    }
}

pub(crate) fn text<'v>(parent: &'v Value, key: &str) -> &'v str {
    parent.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Rewrites every quantity of a map in its canonical form, rounded up to thousandths.
pub(crate) fn canonical_quantities(parent: &mut Value, key: &str) {
    let Some(amounts) = parent.get_mut(key).and_then(Value::as_object_mut) else { return };
    for amount in amounts.values_mut() {
        if let Some(quantity) = Quantity::from_json(amount) {
            *amount = quantity.rounded_to_milli().to_string().into();
        }
    }
}

pub(crate) fn canonical_quantity(parent: &mut Value, key: &str) {
    let quantity = parent.get(key).and_then(Quantity::from_json);
    if let Some(quantity) = quantity {
        set(parent, key, quantity.to_string());
    }
}

/// Removes the zero values among `keys`.
pub(crate) fn drop_zeroes(parent: &mut Value, keys: &[&str]) {
    if let Some(members) = parent.as_object_mut() {
        members.retain(|key, value| !(keys.contains(&key.as_str()) && is_zero(value)));
    }
}

/// Drops values that a typed server does not keep, at every depth.
pub(crate) fn tidy(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(tidy),
        Value::Object(members) => {
            for (key, value) in members.iter_mut() {
                if !FREE_FORM.contains(&key.as_str()) {
                    tidy(value);
                }
            }
            members.retain(|key, value| !is_dropped(key, value));
        }
        _ => {}
    }
}

fn is_dropped(key: &str, value: &Value) -> bool {
    match value {
        Value::Null => !WRITTEN_NULL.contains(&key),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty() && MAPS_DROPPED_EMPTY.contains(&key),
        _ => is_zero(value) && ZERO_IS_ABSENT.contains(&key),
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_tidy_object_has_only_what_says_something() {
        let mut deployment = json!({
            "metadata": {"labels": {}, "annotations": {"paused": ""}, "name": "web"},
            "spec": {
                "paused": false, "replicas": 0, "minReadySeconds": 0,
                "template": {"spec": {
                    "containers": [{"name": "a", "env": [{"name": "A", "value": "0"}], "args": []}],
                    "volumes": [{"name": "v", "emptyDir": {}}],
                }},
            },
        });
        tidy(&mut deployment);
        let want = json!({
            "metadata": {"annotations": {"paused": ""}, "name": "web"},
            "spec": {
                "replicas": 0,
                "template": {"spec": {
                    "containers": [{"name": "a", "env": [{"name": "A", "value": "0"}]}],
                    "volumes": [{"name": "v", "emptyDir": {}}],
                }},
            },
        });
        assert_eq!(deployment, want);
    }

    #[test]
    fn edits_leave_values_of_another_type_alone() {
        let mut odd = json!({"spec": "text"});
        assert!(object(&mut odd, "spec").is_none());
        default_to(&mut odd, "spec", "other");
        each(&mut odd, "spec", |_| unreachable!("there are no items"));
        assert_eq!(odd, json!({"spec": "text"}));
    }
}
