//! Template history of a StatefulSet or DaemonSet, stored as `ControllerRevisions`.
//!
//! A revision holds a patch that restores its template (`{"spec": {"template": {..., "$patch":
//! "replace"}}}`); `kubectl rollout undo` applies it. A template seen before gets its old revision
//! with a new number.

use serde_json::{Value, json};

use crate::{
    cluster::{CONTROLLER_REVISIONS, Cluster, Deletion, Resource},
    controllers::{
        hash::{canonical, name_hash},
        object::{
            Kind, annotation, controller_of, count, int, name, namespace, owner_reference, set_at,
            text, uid, unset,
        },
    },
    failure::Outcome,
};

/// How a kind of workload stores its history.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Style {
    pub(crate) owner: Kind,
    pub(crate) resource: Resource,
    /// The label with the revision's hash.
    pub(crate) hash_label: &'static str,
}

/// A workload's revisions, oldest first, and the current one.
#[derive(Debug)]
pub(crate) struct History {
    pub(crate) current: Value,
    /// All revisions, `current` included.
    pub(crate) all: Vec<Value>,
}

/// The revisions of `owner`, with one for its current template, created or renumbered if needed.
pub(crate) fn history(cluster: &dyn Cluster, style: Style, owner: &Value) -> Outcome<History> {
    let mut all = cluster.owned(CONTROLLER_REVISIONS, namespace(owner), uid(owner));
    all.sort_by_key(|one| (number(one), name(one).to_owned()));
    let data = data(owner);
    let same = |revision: &Value| canonical(&revision["data"]) == canonical(&data);
    let next = all.last().map_or(0, number) + 1;
    let Some(found) = all.iter().rposition(same) else {
        let current = create(cluster, style, owner, &data, next)?;
        all.push(current.clone());
        return Ok(History { current, all });
    };
    if found + 1 != all.len() {
        let mut renumbered = all.remove(found);
        set_at(&mut renumbered, &["revision"], next);
        all.push(cluster.update(CONTROLLER_REVISIONS, "", renumbered)?);
    }
    let current = all.last().cloned().expect("the revision was found among them");
    Ok(History { current, all })
}

/// Deletes the oldest revisions beyond the owner's limit, except those in use by `is_live`.
pub(crate) fn truncate(
    cluster: &dyn Cluster,
    owner: &Value,
    revisions: &[Value],
    is_live: impl Fn(&Value) -> bool,
) -> Outcome<()> {
    let limit = int(owner, "/spec/revisionHistoryLimit").unwrap_or(10);
    let dead: Vec<_> = revisions.iter().filter(|revision| !is_live(revision)).collect();
    let surplus = dead.len().saturating_sub(usize::try_from(limit).unwrap_or(usize::MAX));
    for revision in dead.into_iter().take(surplus) {
        let place = namespace(revision);
        match cluster.delete(CONTROLLER_REVISIONS, place, name(revision), &Deletion::default()) {
            Err(failure) if !failure.is_not_found() => return Err(failure),
            _ => {}
        }
    }
    Ok(())
}

/// The template stored in a revision.
pub(crate) fn template(revision: &Value) -> Value {
    let mut template = revision.pointer("/data/spec/template").cloned().unwrap_or_default();
    unset(&mut template, "", "$patch");
    template
}

pub(crate) fn number(revision: &Value) -> i64 {
    count(revision, "/revision")
}

fn data(owner: &Value) -> Value {
    let mut template = owner.pointer("/spec/template").cloned().unwrap_or_default();
    set_at(&mut template, &["$patch"], "replace");
    json!({ "spec": { "template": template } })
}

fn create(
    cluster: &dyn Cluster,
    style: Style,
    owner: &Value,
    data: &Value,
    number: i64,
) -> Outcome<Value> {
    let hash = name_hash(data, int(owner, "/status/collisionCount"));
    let prefix: String = name(owner).chars().take(223).collect();
    let revision_name = format!("{prefix}-{hash}");
    let template_labels = owner.pointer("/spec/template/metadata/labels").cloned();
    let mut revision = json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision",
        "metadata": {
            "name": revision_name, "namespace": namespace(owner),
            "labels": template_labels.unwrap_or_else(|| json!({})),
            "ownerReferences": [owner_reference(style.owner, owner)],
        },
        "data": data, "revision": number,
    });
    set_at(&mut revision, &["metadata", "labels", style.hash_label], hash);
    if let Some(annotations) = owner.pointer("/metadata/annotations") {
        set_at(&mut revision, &["metadata", "annotations"], annotations.clone());
    }
    match cluster.create(CONTROLLER_REVISIONS, namespace(owner), revision) {
        Err(failure) if failure.is_already_exists() => {
            let existing = cluster.get(CONTROLLER_REVISIONS, namespace(owner), &revision_name);
            if let Some(existing) = existing.filter(|existing| is_of(existing, owner)) {
                return Ok(existing);
            }
            // Another template has this hash: the next attempt hashes with another count.
            let mut bumped = owner.clone();
            let collisions = count(owner, "/status/collisionCount") + 1;
            set_at(&mut bumped, &["status", "collisionCount"], collisions);
            cluster.update(style.resource, "status", bumped)?;
            Err(failure)
        }
        outcome => outcome,
    }
}

fn is_of(revision: &Value, owner: &Value) -> bool {
    let ours = controller_of(revision).is_some_and(|controller| controller.uid == uid(owner));
    ours && canonical(&revision["data"]) == canonical(&data(owner))
}

/// The template generation in a DaemonSet's annotation.
pub(crate) fn template_generation(owner: &Value) -> Option<i64> {
    annotation(owner, "deprecated.daemonset.template.generation")?.parse().ok()
}

/// The hash label of a revision.
pub(crate) fn hash(revision: &Value, style: Style) -> &str {
    let labels = revision.pointer("/metadata/labels");
    labels
        .and_then(|labels| labels.get(style.hash_label))
        .and_then(Value::as_str)
        .unwrap_or_else(|| text(revision, "/metadata/name"))
}
