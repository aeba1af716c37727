//! JSON patch: an object and a list of operations.
//!
//! Law: the difference between the object and the patched one, written as operations, makes the one
//! of the other.

use kube_sandbox::fuzzing::json_patch;
use serde_json::{Value, json};

use crate::input::{depth, has_fraction, parts};

/// Names and lists deeper than this are left to the bound on depth, which a difference may meet at
/// another place than the patch did.
const DEPTH_MAX: usize = 60;
/// As many operations as a patch may have.
const OPERATIONS_MAX: usize = 10_000;

/// Input: the object, a divider, the body of the patch.
pub fn run(data: &[u8]) {
    let Some([document, patch]) = parts::<2>(data) else { return };
    let Ok(document) = serde_json::from_slice::<Value>(document) else { return };
    let Ok(patched) = json_patch(&document, patch) else { return };
    let text = patched.to_string();
    assert!(serde_json::from_str::<Value>(&text).is_ok(), "a patched object can be read: {text}");

    if depth(&document).max(depth(&patched)) > DEPTH_MAX || has_fraction(&patched) {
        return;
    }
    let mut operations = Vec::new();
    difference(&document, &patched, "", &mut operations);
    if operations.len() <= OPERATIONS_MAX {
        let again = json_patch(&document, Value::Array(operations).to_string().as_bytes());
        assert_eq!(again, Ok(patched), "the difference makes the one of the other");
    }
}

/// The operations that make `to` of `from`, which is at `path`.
fn difference(from: &Value, to: &Value, path: &str, operations: &mut Vec<Value>) {
    let below = |name: &str| format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
    match (from, to) {
        (Value::Object(old), Value::Object(new)) => {
            for name in old.keys().filter(|name| !new.contains_key(*name)) {
                operations.push(json!({"op": "remove", "path": below(name)}));
            }
            for (name, wanted) in new {
                if let Some(value) = old.get(name) {
                    difference(value, wanted, &below(name), operations);
                } else {
                    operations.push(json!({"op": "add", "path": below(name), "value": wanted}));
                }
            }
        }
        (Value::Array(old), Value::Array(new)) => {
            for (at, (value, wanted)) in old.iter().zip(new).enumerate() {
                difference(value, wanted, &below(&at.to_string()), operations);
            }
            for _ in new.len()..old.len() {
                operations.push(json!({"op": "remove", "path": below("-1")}));
            }
            for wanted in new.iter().skip(old.len()) {
                operations.push(json!({"op": "add", "path": below("-"), "value": wanted}));
            }
        }
        _ if from == to => {}
        _ => operations.push(json!({"op": "replace", "path": path, "value": to})),
    }
}
