//! The way back when the spec can no longer be written.
//!
//! A user who breaks the spec in the middle of a run must not keep a failing canary in traffic. Then
//! the live rules are taken as they are and only their weights and mirrors are changed: everything
//! to the primary. Nothing of the spec is needed but the names of the Services.

use serde_json::{Map, Value, json};
use tidegate_api::canary::ServiceNames;

use crate::object::{Change, Kind};

/// The lists of rules, in the words of each provider.
const LISTS: [&str; 3] = ["rules", "http", "tcp"];

/// What sends all traffic of a live route to the primary; `None` if that is so already.
pub(super) fn retreat(kind: Kind, live: &Value, names: &ServiceNames) -> Option<Change> {
    let mut spec = Map::new();
    for list in LISTS {
        let Some(found) = live["spec"][list].as_array() else { continue };
        let mut rules = found.clone();
        for rule in &mut rules {
            lead_to_primary(rule, names);
        }
        if rules != *found {
            spec.insert(list.to_owned(), Value::Array(rules));
        }
    }
    if spec.is_empty() {
        return None;
    }
    let metadata = &live["metadata"];
    Some(Change::Merge {
        kind,
        name: metadata["name"].as_str()?.to_owned(),
        patch: json!({
            "metadata": { "resourceVersion": metadata["resourceVersion"] },
            "spec": spec,
        }),
    })
}

fn lead_to_primary(rule: &mut Value, names: &ServiceNames) {
    let Some(fields) = rule.as_object_mut() else { return };
    for list in ["backendRefs", "route"] {
        let Some(sides) = fields.get_mut(list).and_then(Value::as_array_mut) else { continue };
        let is = |side: &Value, name: &str| {
            side["name"] == *name || side["destination"]["host"] == *name
        };
        let both = [&names.primary, &names.canary];
        // A rule without the primary is none of ours: with no weight left it would answer errors.
        if !both.iter().all(|name| sides.iter().any(|side| is(side, name))) {
            continue;
        }
        for side in sides.iter_mut().filter(|side| side.is_object()) {
            if is(side, &names.primary) {
                side["weight"] = json!(100);
            } else if is(side, &names.canary) {
                side["weight"] = json!(0);
            }
        }
    }
    if fields.get("mirror").is_some_and(|mirror| mirror["host"] == *names.canary) {
        fields.remove("mirror");
        fields.remove("mirrorPercentage");
    }
    if let Some(filters) = fields.get_mut("filters").and_then(Value::as_array_mut) {
        filters.retain(|filter| filter["requestMirror"]["backendRef"]["name"] != *names.canary);
    }
}
