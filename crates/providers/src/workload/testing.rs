//! A stand-in for the API server: applies a [`Change`], as far as the tests here need it.
//!
//! An apply merges maps, replaces lists but those with keys, and makes the exact subtrees exact.

use serde_json::{Value, json};

use crate::object::Change;

/// The object after the change; `None` when it is gone.
///
/// # Panics
/// If the change could not be carried out: it was derived from another version of the object, or it
/// wants a subtree exact that it does not have.
pub(super) fn applied(live: Option<&Value>, change: &Change) -> Option<Value> {
    let mut object = live.cloned().unwrap_or_else(|| json!({ "metadata": {} }));
    match change {
        Change::Apply { body, exact } => {
            require_version(live, body);
            merge(&mut object, body, true, "");
            for pointer in exact {
                let wanted = body.pointer(pointer).expect("what is exact is in the body");
                *object.pointer_mut(pointer).unwrap() = wanted.clone();
            }
        }
        Change::Merge { name, patch, .. } => {
            assert_eq!(live.expect("only what exists is patched")["metadata"]["name"], **name);
            assert!(patch["metadata"]["resourceVersion"].is_string(), "{patch}");
            require_version(live, patch);
            merge(&mut object, patch, false, "");
        }
        Change::Delete { uid, .. } => {
            assert_eq!(live.expect("only what exists is deleted")["metadata"]["uid"], **uid);
            return None;
        }
    }
    let version = object["metadata"]["resourceVersion"].as_str().unwrap_or("0");
    let version: u64 = version.parse().unwrap();
    object["metadata"]["resourceVersion"] = json!((version + 1).to_string());
    if object["metadata"]["uid"].is_null() {
        object["metadata"]["uid"] = json!("u-1");
    }
    Some(object)
}

/// The object after all the changes, in order.
pub(super) fn applied_all(live: Option<&Value>, changes: &[Change]) -> Option<Value> {
    changes.iter().fold(live.cloned(), |live, change| applied(live.as_ref(), change))
}

fn require_version(live: Option<&Value>, change: &Value) {
    if let Some(version) = change["metadata"].get("resourceVersion") {
        assert_eq!(live.map(|live| &live["metadata"]["resourceVersion"]), Some(version));
    }
}

fn merge(into: &mut Value, from: &Value, keyed_lists: bool, path: &str) {
    if let (Value::Object(into), Value::Object(from)) = (&mut *into, from) {
        for (key, value) in from {
            if value.is_null() && !keyed_lists {
                into.remove(key);
                continue;
            }
            let path = format!("{path}/{key}");
            let blank = if value.is_object() { json!({}) } else { Value::Null };
            let member = into.entry(key.clone()).or_insert(blank);
            merge(member, value, keyed_lists, &path);
        }
        return;
    }
    let keys: &[&str] = match path {
        "/spec/ports" => &["port", "protocol"],
        "/metadata/ownerReferences" => &["uid"],
        _ => &[],
    };
    if let (true, false, Value::Array(into), Value::Array(from)) =
        (keyed_lists, keys.is_empty(), &mut *into, from)
    {
        for item in from {
            let same = |other: &&mut Value| keys.iter().all(|key| other[*key] == item[*key]);
            match into.iter_mut().find(same) {
                Some(other) => merge(other, item, keyed_lists, "/item"),
                None => into.push(item.clone()),
            }
        }
        return;
    }
    *into = from.clone();
}
