//! An object as we want it, compared with the live object.
//!
//! A [`DesiredObject`] has our fields and no others. It becomes a [`Change`] only where the live
//! object differs in one of them; labels, annotations and fields of others count for nothing. Under
//! our field manager an apply removes the fields that an earlier apply had and this one has not, so
//! fields that must stay are sent again each time: the owner reference and the backup.

use std::{borrow::Cow, collections::BTreeMap};

use serde_json::{Map, Value, json};

use super::{Place, RouteError, takeover};
use crate::object::{Change, FIELD_MANAGER, FLUX_OFF, Kind, Owner, controller_of};

/// An object as we want it.
pub(super) struct DesiredObject {
    pub(super) kind: Kind,
    pub(super) name: String,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) annotations: BTreeMap<String, String>,
    /// Our fields of the spec; each of them below one of `exact`.
    pub(super) spec: Value,
    /// Fields beside the spec.
    pub(super) beside: Map<String, Value>,
    /// The subtrees that are ours alone.
    pub(super) exact: Vec<Cow<'static, str>>,
    /// Whether the live object has the shape we give it, so that it needs no backup.
    pub(super) shaped: bool,
}

/// Refuses an object with another controller.
pub(super) fn refuse_taken(
    owner: &Owner<'_>,
    kind: Kind,
    live: Option<&Value>,
) -> Result<(), RouteError> {
    let Some(live) = live else { return Ok(()) };
    match controller_of(live) {
        Some((controller, name)) if !owner.owns(live) => Err(RouteError::Taken {
            object: Place::new(
                kind,
                owner.namespace,
                live["metadata"]["name"].as_str().unwrap_or(""),
            ),
            controller: format!("{controller} {name}"),
        }),
        Some(_) | None => Ok(()),
    }
}

/// Adds the annotations that keep Flux from undoing what we write.
pub(super) fn flux_off(annotations: &mut BTreeMap<String, String>) {
    for (key, value) in FLUX_OFF {
        annotations.insert(key.to_owned(), value.to_owned());
    }
}

/// A key as a part of a JSON pointer.
pub(super) fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// Whether two subtrees mean the same: a null or an empty list is as good as nothing, and 10.0 is
/// 10.
pub(super) fn alike(one: &Value, other: &Value) -> bool {
    canonical(one) == canonical(other)
}

fn canonical(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let entries = map.iter().map(|(key, value)| (key.clone(), canonical(value)));
            Value::Object(entries.filter(|(_, value)| !value.is_null()).collect())
        }
        Value::Array(items) if items.is_empty() => Value::Null,
        Value::Array(items) => Value::Array(items.iter().map(canonical).collect()),
        Value::Number(number) => number.as_f64().map_or(Value::Null, |number| json!(number)),
        Value::Null | Value::Bool(_) | Value::String(_) => value.clone(),
    }
}

// === impl DesiredObject ===

impl DesiredObject {
    /// The change that makes the live object as desired; none if it is so already.
    pub(super) fn change(mut self, owner: &Owner<'_>, live: Option<&Value>) -> Option<Change> {
        let made_for_it = live.is_none_or(|live| owner.owns(live));
        if let Some(live) = live {
            // An object that `kubectl` applied is a user's, in any shape.
            let is_users = takeover::applied(live).is_some();
            let ours = made_for_it || self.shaped && !is_users;
            let backup = takeover::backup(live, &self, ours);
            self.annotations.extend(backup);
        }
        let mut metadata = Map::new();
        metadata.insert("name".to_owned(), json!(self.name));
        if !self.labels.is_empty() {
            metadata.insert("labels".to_owned(), json!(self.labels));
        }
        if !self.annotations.is_empty() {
            metadata.insert("annotations".to_owned(), json!(self.annotations));
        }
        // An owner is set at creation and never added later: an object that was there before is not
        // ours to delete.
        let references = owner.references();
        if made_for_it && !references.is_empty() {
            metadata.insert("ownerReferences".to_owned(), json!(references));
        }
        if let Some(version) = live.and_then(|live| live["metadata"]["resourceVersion"].as_str()) {
            metadata.insert("resourceVersion".to_owned(), json!(version));
        }
        let mut body = json!({
            "apiVersion": self.kind.api_version(),
            "kind": self.kind.kind,
            "metadata": metadata,
            "spec": self.spec,
        });
        for (key, value) in self.beside {
            body[key] = value;
        }
        if live.is_some_and(|live| is_converged(&body, live, &self.exact)) {
            return None;
        }
        Some(Change::Apply { body, exact: self.exact })
    }
}

fn is_converged(body: &Value, live: &Value, exact: &[Cow<'static, str>]) -> bool {
    let has_all = |member: &str| {
        let (want, found) = (&body["metadata"][member], &live["metadata"][member]);
        want.as_object().is_none_or(|want| want.iter().all(|(key, value)| found[key] == *value))
    };
    let references = |object: &Value| -> Vec<String> {
        let list = object["metadata"]["ownerReferences"].as_array();
        let uids = list.into_iter().flatten().filter_map(|reference| reference["uid"].as_str());
        uids.map(str::to_owned).collect()
    };
    let owners = references(live);
    let at = |object: &Value, pointer: &str| object.pointer(pointer).cloned().unwrap_or_default();
    has_all("labels")
        && has_all("annotations")
        && !has_dropped(body, live, "labels")
        && !has_dropped(body, live, "annotations")
        && references(body).iter().all(|uid| owners.contains(uid))
        && exact.iter().all(|pointer| alike(&at(body, pointer), &at(live, pointer)))
}

/// Whether the live object has a key that we applied before and do not want any more. Keys of other
/// field managers do not count.
fn has_dropped(body: &Value, live: &Value, member: &str) -> bool {
    let wanted = &body["metadata"][member];
    let managers = live["metadata"]["managedFields"].as_array().into_iter().flatten();
    let ours = managers.filter(|it| it["manager"] == FIELD_MANAGER && it["operation"] == "Apply");
    let fields = ours
        .filter_map(|it| it["fieldsV1"]["f:metadata"][format!("f:{member}").as_str()].as_object());
    let mut keys = fields.flat_map(Map::keys).filter_map(|key| key.strip_prefix("f:"));
    keys.any(|key| wanted.get(key).is_none() && live["metadata"][member].get(key).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_we_applied_and_want_no_more_is_a_difference_and_one_of_others_is_not() {
        let entry = |manager: &str, operation: &str, key: &str| {
            let labels = json!({ format!("f:{key}"): {} });
            json!({ "manager": manager, "operation": operation,
                "fieldsV1": { "f:metadata": { "f:labels": labels } } })
        };
        let cases = [
            ("ours, wanted", entry("tidegate", "Apply", "kept"), false),
            ("ours, not wanted", entry("tidegate", "Apply", "old"), true),
            ("ours, gone already", entry("tidegate", "Apply", "gone"), false),
            ("somebody else's", entry("helm", "Apply", "old"), false),
            ("not applied", entry("tidegate", "Update", "old"), false),
        ];
        for (reason, entry, is_dropped) in cases {
            let body = json!({ "metadata": { "labels": { "kept": "1" } } });
            let live = json!({ "metadata": {
                "labels": { "kept": "1", "old": "2" }, "managedFields": [entry],
            } });
            assert_eq!(has_dropped(&body, &live, "labels"), is_dropped, "{reason}");
            assert_eq!(is_converged(&body, &live, &[]), !is_dropped, "{reason}");
        }
    }

    #[test]
    fn equivalent_values_are_no_difference() {
        let cases = [
            ("an empty list is none", json!({ "a": [] }), json!({}), true),
            ("a null is none", json!({ "a": null }), json!({}), true),
            ("a whole number has no point", json!(10), json!(10.0), true),
            ("an empty map may be a condition", json!({ "a": {} }), json!({}), false),
            ("an empty item is an item", json!([{}]), json!([]), false),
            ("order of a list counts", json!([1, 2]), json!([2, 1]), false),
        ];
        for (reason, one, other, same) in cases {
            assert_eq!(alike(&one, &other), same, "{reason}");
        }
    }
}
