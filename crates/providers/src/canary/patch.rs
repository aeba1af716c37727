//! Merge patches of the status: only what differs is written.

use serde_json::{Map, Value};

/// The patch that makes `live` have `fields`, if it does not already.
pub fn patch(live: &Value, fields: Map<String, Value>) -> Option<Map<String, Value>> {
    let mut changed = Map::new();
    for (name, value) in fields {
        let now = live.get(&name).unwrap_or(&Value::Null);
        if *now == value {
            continue;
        }
        // A merge patch merges: absent members must be set to null.
        let value = match (now, value) {
            (Value::Object(now), Value::Object(mut new)) => {
                for key in now.keys() {
                    new.entry(key.clone()).or_insert(Value::Null);
                }
                Value::Object(new)
            }
            (_, value) => value,
        };
        changed.insert(name, value);
    }
    (!changed.is_empty()).then_some(changed)
}

/// Whether a patch only adds the names of provider and target. That is no reason to write: they are
/// written with the next change.
pub fn adds_names_only(live: &Value, changed: &Map<String, Value>) -> bool {
    let before = live["rollout"].as_object().cloned().unwrap_or_default();
    let after = changed.get("rollout").and_then(Value::as_object);
    let Some(mut after) = after.filter(|_| changed.len() == 1).cloned() else { return false };
    let known = after.len();
    after.retain(|field, _| {
        before.contains_key(field) || !matches!(&**field, "provider" | "target")
    });
    after.len() < known && after == before
}
