//! Labels, annotations and owners of derived objects.
//!
//! Annotations of other tools do not hold for the copy: Flux would think it its own, kubectl would compare it
//! with a manifest it never came from.

use serde_json::{Map, Value, json};

use crate::object::Owner;

/// kubectl's annotation with the manifest.
pub(super) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The number of a Deployment's rollout, written by its controller.
const ROLLOUT_NUMBER: &str = "deployment.kubernetes.io/revision";
/// Part of every key Flux uses.
const FLUX: &str = "toolkit.fluxcd.io";

/// Which labels are copied, by the beginnings of their keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelPrefixes(Vec<String>);

/// The members of a map of texts that describe the object and not one copy of it.
pub(super) fn copied(map: &Value) -> Map<String, Value> {
    let members = map.as_object().into_iter().flatten();
    members
        .filter(|(key, _)| !key.contains(FLUX) && *key != LAST_APPLIED && *key != ROLLOUT_NUMBER)
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// As [`copied`], and of these the ones the prefixes let through.
pub(super) fn included(map: &Value, prefixes: &LabelPrefixes) -> Map<String, Value> {
    copied(map).into_iter().filter(|(key, _)| prefixes.include(key)).collect()
}

/// The owners of an object of ours: this canary as its controller, and the other owners.
///
/// Another canary stays an owner, since the object serves it too, and is no longer the controller;
/// an earlier canary of our name is replaced.
pub(super) fn owners(owner: &Owner<'_>, existing: Option<&Value>) -> Value {
    let listed = existing.and_then(|object| object["metadata"]["ownerReferences"].as_array());
    let mut references = owner.references();
    for reference in listed.into_iter().flatten() {
        let is_us = reference["kind"] == "Canary" && reference["name"] == owner.name;
        if is_us || reference["uid"] == owner.uid {
            continue;
        }
        let mut reference = reference.clone();
        if let Some(controller) = reference.get_mut("controller") {
            *controller = json!(false);
        }
        references.push(reference);
    }
    Value::Array(references)
}

/// Whether this very canary, and not an earlier one of its name, is among the owners.
pub(super) fn is_owner(owner: &Owner<'_>, object: &Value) -> bool {
    let references = object["metadata"]["ownerReferences"].as_array();
    !owner.can_own || references.into_iter().flatten().any(|listed| listed["uid"] == owner.uid)
}

/// Whether every member of `wanted` is in `live` too.
pub(super) fn is_contained(wanted: &Map<String, Value>, live: &Value) -> bool {
    wanted.iter().all(|(key, value)| live.get(key) == Some(value))
}

/// The JSON merge patch from the map `live` to `wanted`; `None` where they are equal.
pub(super) fn merge_map(live: &Value, wanted: &Map<String, Value>) -> Option<Value> {
    let mut patch = Map::new();
    for key in live.as_object().into_iter().flat_map(Map::keys) {
        if !wanted.contains_key(key) {
            patch.insert(key.clone(), Value::Null);
        }
    }
    for (key, value) in wanted {
        if live.get(key) != Some(value) {
            patch.insert(key.clone(), value.clone());
        }
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// Fills in `metadata.resourceVersion` of the object that was seen.
pub(super) fn with_version(mut metadata: Value, seen: Option<&Value>) -> Value {
    let version = seen.map(|object| &object["metadata"]["resourceVersion"]);
    if let (Some(members), Some(version)) = (metadata.as_object_mut(), version)
        && !version.is_null()
    {
        members.insert("resourceVersion".to_owned(), version.clone());
    }
    metadata
}

// === impl LabelPrefixes ===

impl LabelPrefixes {
    /// From a comma-separated list, in which `*` stands for every label.
    pub fn parse(list: &str) -> Self {
        Self(list.split(',').map(|prefix| prefix.trim().to_owned()).collect())
    }

    /// Whether a label of this key is copied.
    pub fn include(&self, key: &str) -> bool {
        let matches =
            |prefix: &String| prefix == "*" || !prefix.is_empty() && key.starts_with(prefix);
        self.0.iter().any(matches)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_let_labels_through() {
        let cases = [
            ("by default nothing", "", "app", false),
            ("a star is everything", "*", "app", true),
            ("also among others", "team.io/,*", "app", true),
            ("a beginning", "team.io/, app", "app.kubernetes.io/name", true),
            ("not an end", "name", "app.kubernetes.io/name", false),
            ("an empty entry is nothing", "team.io/,", "app", false),
        ];
        for (reason, list, key, want) in cases {
            assert_eq!(LabelPrefixes::parse(list).include(key), want, "{reason}");
        }
    }

    #[test]
    fn notes_of_other_tools_are_not_copied() {
        let map = json!({
            "kustomize.toolkit.fluxcd.io/name": "apps",
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
            "deployment.kubernetes.io/revision": "7",
            "kubectl.kubernetes.io/restartedAt": "now",
            "team.io/owner": "shop",
        });
        let keys: Vec<_> = copied(&map).into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, ["kubectl.kubernetes.io/restartedAt", "team.io/owner"]);
        let keys: Vec<_> = included(&map, &LabelPrefixes::parse("team.io/"))
            .into_iter()
            .map(|(key, _)| key)
            .collect();
        assert_eq!(keys, ["team.io/owner"]);
    }

    #[test]
    fn an_object_has_one_controller_with_any_earlier_owners() {
        let owner = Owner { name: "shop", namespace: "test", uid: "new", can_own: true };
        let existing = json!({ "metadata": { "ownerReferences": [
            { "kind": "Canary", "name": "shop", "uid": "old", "controller": true },
            { "kind": "Canary", "name": "cart", "uid": "c1", "controller": true },
            { "kind": "App", "name": "shop", "uid": "a1" },
        ] } });
        let owners = owners(&owner, Some(&existing));
        let summary: Vec<_> = owners
            .as_array()
            .unwrap()
            .iter()
            .map(|owner| (owner["uid"].as_str().unwrap(), owner["controller"].as_bool()))
            .collect();
        assert_eq!(summary, [("new", Some(true)), ("c1", Some(false)), ("a1", None)]);
    }

    #[test]
    fn a_merge_patch_removes_what_is_not_wanted() {
        let live = json!({ "a": "1", "b": "2" });
        let wanted = |value: Value| value.as_object().unwrap().clone();
        let cases = [
            ("equal", json!({ "a": "1", "b": "2" }), None),
            ("one gone", json!({ "a": "1" }), Some(json!({ "b": null }))),
            ("one new", json!({ "a": "1", "b": "2", "c": "3" }), Some(json!({ "c": "3" }))),
            ("one changed", json!({ "a": "0", "b": "2" }), Some(json!({ "a": "0" }))),
        ];
        for (reason, map, want) in cases {
            assert_eq!(merge_map(&live, &wanted(map)), want, "{reason}");
        }
        assert_eq!(merge_map(&Value::Null, &Map::new()), None, "no map and an empty one");
    }
}
