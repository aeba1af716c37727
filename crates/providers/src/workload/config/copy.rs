//! The primary's own copies of `ConfigMap`s and Secrets.
//!
//! A copy holds the promoted content: it is written when the primary is made and when it is
//! promoted, before the workload that reads it. Two canaries may read one `ConfigMap` and so share
//! its copy.

use serde_json::{Map, Value, json};

use super::{ConfigDigest, ConfigKind, copy_name, references, secret_type};
use crate::{
    object::{Change, Owner, controller_of, exactly},
    workload::{
        LabelPrefixes, WorkloadError,
        hash::is_same,
        metadata::{included, is_contained, is_owner, owners, with_version},
        name_of, uid_of,
    },
};

/// The changes that bring one copy in sync.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Copied {
    /// In this order; none where it is in sync.
    pub changes: Vec<Change>,
    /// Other canaries whose primaries read the same copy: this promotion reaches them, too.
    pub shared_with: Vec<String>,
}

/// Subtrees of a copied `ConfigMap` that are ours alone.
const EXACT_CONFIG_MAP: &[&str] = &["/data", "/binaryData", "/metadata/ownerReferences"];
/// Subtrees of a copied Secret that are ours alone.
const EXACT_SECRET: &[&str] = &["/data", "/metadata/ownerReferences"];

/// Makes `<name>-primary` of the user's object, or brings it up to date.
///
/// An object of that name which belongs to no canary is refused. A Secret whose type changed is
/// deleted and made again, because types cannot be edited; so is a copy that was made immutable.
pub fn copy(
    owner: &Owner<'_>,
    prefixes: &LabelPrefixes,
    kind: ConfigKind,
    object: &Value,
    existing: Option<&Value>,
) -> Result<Copied, WorkloadError> {
    let name = copy_name(name_of(object));
    if let Some(existing) = existing {
        require_canary(owner, kind, existing)?;
    }
    let shared_with =
        existing.map(|existing| other_canaries(owner.name, existing)).unwrap_or_default();
    let labels = included(&object["metadata"]["labels"], prefixes);
    if existing.is_some_and(|existing| is_current(owner, kind, object, existing, &labels)) {
        return Ok(Copied { changes: Vec::new(), shared_with });
    }
    let mut changes = Vec::new();
    let mut seen = existing;
    if let Some(stale) = existing.filter(|existing| !is_editable(kind, object, existing)) {
        let uid = uid_of(stale).to_owned();
        changes.push(Change::Delete { kind: kind.kind(), name: name.clone(), uid });
        seen = None;
    }
    let metadata = json!({
        "name": name,
        "namespace": owner.namespace,
        "labels": labels,
        "ownerReferences": owners(owner, existing),
    });
    let mut body = json!({
        "apiVersion": kind.kind().api_version(),
        "kind": kind.kind().kind,
        "metadata": with_version(metadata, seen),
        "data": map_of(&object["data"]),
    });
    let exact = match kind {
        ConfigKind::ConfigMap => {
            body["binaryData"] = map_of(&object["binaryData"]);
            EXACT_CONFIG_MAP
        }
        ConfigKind::Secret => {
            body["type"] = json!(secret_type(object));
            EXACT_SECRET
        }
    };
    changes.push(Change::Apply { body, exact: exactly(exact) });
    Ok(Copied { changes, shared_with })
}

/// Deletes copies of this canary that its primary no longer reads.
///
/// `primary` is the pod spec the primary runs, `existing` are objects in the namespace. For when no
/// pod of an earlier revision runs any more. Copies with another owning canary stay.
pub fn prune<'d>(
    owner: &Owner<'_>,
    primary: &Value,
    existing: impl Iterator<Item = &'d ConfigDigest>,
) -> Vec<Change> {
    let read = references(primary);
    let is_read = |digest: &ConfigDigest| {
        read.iter().any(|read| read.kind == digest.kind && read.name == digest.name)
    };
    existing
        .filter(|digest| digest.name.ends_with("-primary") && !is_read(digest))
        .filter_map(|digest| Some((digest, digest.made_for.as_ref()?)))
        .filter(|(_, made_for)| made_for.canary == owner.name)
        .map(|(digest, made_for)| Change::Delete {
            kind: digest.kind.kind(),
            name: digest.name.clone(),
            uid: made_for.uid.clone(),
        })
        .collect()
}

/// A copy belongs to a canary, ours or one that shares it.
fn require_canary(
    owner: &Owner<'_>,
    kind: ConfigKind,
    existing: &Value,
) -> Result<(), WorkloadError> {
    match controller_of(existing) {
        Some(("Canary", _)) => Ok(()),
        _ => Err(WorkloadError::NotOurs {
            kind: kind.kind().kind,
            name: name_of(existing).to_owned(),
            canary: owner.name.to_owned(),
        }),
    }
}

/// Names of other canaries that own the object.
pub(super) fn other_canaries(canary: &str, object: &Value) -> Vec<String> {
    let references = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    references
        .filter(|reference| reference["kind"] == "Canary" && reference["name"] != *canary)
        .filter_map(|reference| reference["name"].as_str().map(str::to_owned))
        .collect()
}

/// Whether an edit can turn `existing` into a copy of `object`.
fn is_editable(kind: ConfigKind, object: &Value, existing: &Value) -> bool {
    let type_is_kept =
        kind == ConfigKind::ConfigMap || secret_type(object) == secret_type(existing);
    type_is_kept && existing["immutable"] != true
}

/// Whether `existing` is a copy of `object` as it should be.
///
/// Which of two canaries is the controller does not matter: writing for that alone, they would take it from
/// one another for ever.
fn is_current(
    owner: &Owner<'_>,
    kind: ConfigKind,
    object: &Value,
    existing: &Value,
    labels: &Map<String, Value>,
) -> bool {
    let contents = match kind {
        ConfigKind::ConfigMap => is_same(&object["binaryData"], &existing["binaryData"]),
        ConfigKind::Secret => secret_type(object) == secret_type(existing),
    };
    contents
        && map_of(&object["data"]) == map_of(&existing["data"])
        && is_owner(owner, existing)
        && is_contained(labels, &existing["metadata"]["labels"])
}

/// The map, or an empty one: a subtree that is to be exact has to be there.
fn map_of(value: &Value) -> Value {
    if value.is_object() { value.clone() } else { json!({}) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::testing::{applied, applied_all};

    const OWNER: Owner<'static> =
        Owner { name: "shop", namespace: "test", uid: "u-shop", can_own: true };
    const OTHER: Owner<'static> =
        Owner { name: "cart", namespace: "test", uid: "u-cart", can_own: true };

    fn config() -> Value {
        json!({
            "metadata": { "name": "settings", "labels": { "team.io/a": "1", "app": "shop" },
                "annotations": { "note": "mine" } },
            "data": { "color": "red" }, "binaryData": { "logo": "AAEC" }, "immutable": true,
        })
    }

    fn secret(secret_type: &str) -> Value {
        json!({ "metadata": { "name": "key" }, "type": secret_type, "data": { "k": "dg==" } })
    }

    fn copy_of(
        owner: &Owner<'_>,
        kind: ConfigKind,
        object: &Value,
        live: Option<&Value>,
    ) -> Copied {
        copy(owner, &LabelPrefixes::parse("team.io/"), kind, object, live).unwrap()
    }

    #[test]
    fn a_copy_holds_contents_and_included_labels_only() {
        let made = copy_of(&OWNER, ConfigKind::ConfigMap, &config(), None);
        let [Change::Apply { body, .. }] = made.changes.as_slice() else {
            panic!("one apply, not {:?}", made.changes);
        };
        let want = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": "settings-primary", "namespace": "test", "labels": { "team.io/a": "1" },
                "ownerReferences": OWNER.references(),
            },
            "data": { "color": "red" }, "binaryData": { "logo": "AAEC" },
        });
        assert_eq!(*body, want);
    }

    #[test]
    fn a_copy_that_is_right_is_left_alone() {
        for (kind, object) in [
            (ConfigKind::ConfigMap, config()),
            (ConfigKind::Secret, secret("Opaque")),
            (ConfigKind::Secret, json!({ "metadata": { "name": "empty" } })),
        ] {
            let live = applied_all(None, &copy_of(&OWNER, kind, &object, None).changes).unwrap();
            assert_eq!(copy_of(&OWNER, kind, &object, Some(&live)), Copied::default(), "{object}");
        }
    }

    #[test]
    fn keys_that_the_original_lost_go_from_the_copy() {
        let live =
            applied_all(None, &copy_of(&OWNER, ConfigKind::ConfigMap, &config(), None).changes);
        let smaller = json!({ "metadata": { "name": "settings" }, "data": { "size": "1" } });
        let made = copy_of(&OWNER, ConfigKind::ConfigMap, &smaller, live.as_ref());
        let live = applied_all(live.as_ref(), &made.changes).unwrap();
        assert_eq!(live["data"], json!({ "size": "1" }));
        assert_eq!(live["binaryData"], json!({}));
    }

    #[test]
    fn a_users_object_of_the_name_is_not_overwritten() {
        let cases = [
            ("nobody's", json!(null)),
            (
                "somebody's",
                json!([{ "kind": "App", "name": "shop", "uid": "1", "controller": true }]),
            ),
            (
                "a canary's, but not under its control",
                json!([{ "kind": "Canary", "name": "shop", "uid": "1" }]),
            ),
        ];
        for (reason, owners) in cases {
            let live =
                json!({ "metadata": { "name": "settings-primary", "ownerReferences": owners } });
            let refused = copy(
                &OWNER,
                &LabelPrefixes::default(),
                ConfigKind::ConfigMap,
                &config(),
                Some(&live),
            );
            assert_eq!(refused.unwrap_err().label(), "NotOurs", "{reason}");
        }
    }

    #[test]
    fn two_canaries_share_a_copy_with_one_controller() {
        let first = copy_of(&OTHER, ConfigKind::ConfigMap, &config(), None);
        let live = applied_all(None, &first.changes).unwrap();
        let second = copy_of(&OWNER, ConfigKind::ConfigMap, &config(), Some(&live));
        assert_eq!(second.shared_with, ["cart"]);
        let live = applied_all(Some(&live), &second.changes).unwrap();
        let controllers: Vec<_> = live["metadata"]["ownerReferences"]
            .as_array()
            .unwrap()
            .iter()
            .map(|owner| (owner["name"].as_str().unwrap(), owner["controller"] == true))
            .collect();
        assert_eq!(controllers, [("shop", true), ("cart", false)]);
        for owner in [OWNER, OTHER] {
            let again = copy_of(&owner, ConfigKind::ConfigMap, &config(), Some(&live));
            assert_eq!(again.changes, [], "nobody fights for control");
        }
    }

    #[test]
    fn a_secret_of_another_type_is_made_again() {
        let made = copy_of(&OWNER, ConfigKind::Secret, &secret("Opaque"), None);
        let live = applied_all(None, &made.changes).unwrap();
        let changed =
            copy_of(&OWNER, ConfigKind::Secret, &secret("kubernetes.io/tls"), Some(&live));
        let [delete @ Change::Delete { name, uid, .. }, Change::Apply { body, .. }] =
            changed.changes.as_slice()
        else {
            panic!("deleted and made again, not {:?}", changed.changes);
        };
        assert_eq!((name.as_str(), uid.as_str()), ("key-primary", uid_of(&live)));
        assert_eq!(body["metadata"].get("resourceVersion"), None, "the old one is gone by then");
        assert_eq!(applied(Some(&live), delete), None);
        assert_eq!(
            applied_all(Some(&live), &changed.changes).unwrap()["type"],
            "kubernetes.io/tls"
        );
    }

    #[test]
    fn an_immutable_copy_is_made_again() {
        let made = copy_of(&OWNER, ConfigKind::ConfigMap, &config(), None);
        let mut live = applied_all(None, &made.changes).unwrap();
        live["immutable"] = json!(true);
        assert_eq!(copy_of(&OWNER, ConfigKind::ConfigMap, &config(), Some(&live)).changes, []);
        let mut newer = config();
        newer["data"]["color"] = json!("blue");
        assert_eq!(copy_of(&OWNER, ConfigKind::ConfigMap, &newer, Some(&live)).changes.len(), 2);
    }

    #[test]
    fn only_own_copies_without_readers_are_pruned() {
        let object = |name: &str, owners: &[Owner<'_>]| {
            let mut references: Vec<Value> = owners.iter().flat_map(Owner::references).collect();
            references.iter_mut().skip(1).for_each(|other| other["controller"] = json!(false));
            json!({ "metadata": { "name": name, "uid": name, "ownerReferences": references } })
        };
        let existing = [
            object("read-primary", &[OWNER]),
            object("unread-primary", &[OWNER]),
            object("shared-primary", &[OWNER, OTHER]),
            object("theirs-primary", &[OTHER]),
            object("users-primary", &[]),
            object("shop-primary-promoted", &[OWNER]),
        ];
        let primary = json!({ "volumes": [{ "configMap": { "name": "read-primary" } }] });
        let digests: Vec<_> =
            existing.iter().map(|object| ConfigDigest::of(ConfigKind::ConfigMap, object)).collect();
        let pruned = prune(&OWNER, &primary, digests.iter());
        let want = Change::Delete {
            kind: ConfigKind::ConfigMap.kind(),
            name: "unread-primary".to_owned(),
            uid: "unread-primary".to_owned(),
        };
        assert_eq!(pruned, [want]);
    }
}
