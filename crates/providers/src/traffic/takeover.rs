//! Objects that were there before us: backed up when taken over, restored at the end.
//!
//! The backup is the spec as raw JSON in an annotation, Flagger's own, so that either reads the
//! other's. It is made once, in the write that takes the object over. The annotation of `kubectl
//! apply` is as good as a backup and wins over ours, as in Flagger.
//!
//! Labels and annotations are written over one by one, some of them in the middle of a run. Their
//! earlier values are added to a second annotation in the write that changes them. That annotation
//! is on every object that was taken over, and so marks them.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{
    Place, RouteError,
    desired_object::{DesiredObject, alike},
};
use crate::object::{Change, FLUX_OFF, HANDED_OVER, Kind, Owner, controller_of};

/// The annotation in which `kubectl apply` keeps the applied object.
pub(super) const KUBECTL: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Where we, and Flagger, keep the spec that was there before.
pub(super) const ORIGINAL: &str = "flagger.kubernetes.io/original-configuration";

/// Where we keep the labels and annotations that were there before, as a merge patch of metadata.
const METADATA: &str = "tidegate.dev/original-metadata";
/// How pointers to annotations begin.
const ANNOTATIONS: &str = "/metadata/annotations/";

/// Refuses an object unless it was made for the canary, taken over before, or handed over.
pub(super) fn refuse_unasked(
    owner: &Owner<'_>,
    kind: Kind,
    live: Option<&Value>,
    shaped: bool,
) -> Result<(), RouteError> {
    let Some(live) = live.filter(|live| !shaped && !owner.owns(live)) else { return Ok(()) };
    let annotations = &live["metadata"]["annotations"];
    if annotations[ORIGINAL].is_string() || annotations[HANDED_OVER] == *owner.name {
        return Ok(());
    }
    let name = live["metadata"]["name"].as_str().unwrap_or_default();
    let object = Place::new(kind, owner.namespace, name);
    Err(RouteError::Unasked { object, canary: owner.name.to_owned() })
}

/// An object that may have to be restored.
#[derive(Clone, Copy, Debug)]
pub(super) struct TakenOver<'l> {
    pub(super) kind: Kind,
    pub(super) live: &'l Value,
    /// Whether it still routes to primary and canary; without that and without an annotation of ours
    /// there is nothing to undo.
    pub(super) shaped: bool,
    /// Fields of the spec that another controller fills in: no backup has them, and they stay.
    pub(super) filled_in: &'static [&'static str],
}

/// The annotation of `kubectl apply` on an object, unless it is about another one: Flagger copies
/// the annotation with all others.
pub(super) fn applied(live: &Value) -> Option<&str> {
    let text = live["metadata"]["annotations"][KUBECTL].as_str()?;
    let applied: Value = serde_json::from_str(text).unwrap_or_default();
    let named = applied["metadata"]["name"].as_str();
    let is_own = named.is_none_or(|name| live["metadata"]["name"] == *name);
    is_own.then_some(text)
}

/// The backup annotations the live object is to have from now on, if any.
///
/// Those that are there stay. One is made if the object is not `ours` and `kubectl` left none.
pub(super) fn backup(live: &Value, desired: &DesiredObject, ours: bool) -> Vec<(String, String)> {
    let annotations = &live["metadata"]["annotations"];
    let spec = || live.get("spec").map_or_else(|| "{}".to_owned(), Value::to_string);
    let original = match annotations[ORIGINAL].as_str() {
        Some(original) => Some(original.to_owned()),
        None => (!ours && applied(live).is_none()).then(spec),
    };
    let is_taken = original.is_some() || !ours || annotations[METADATA].is_string();
    let metadata = is_taken.then(|| (METADATA.to_owned(), metadata_before(live, desired)));
    original.map(|original| (ORIGINAL.to_owned(), original)).into_iter().chain(metadata).collect()
}

/// Labels and annotations before the first write that changes them.
fn metadata_before(live: &Value, desired: &DesiredObject) -> String {
    let metadata = &live["metadata"];
    let known = metadata["annotations"][METADATA].as_str().unwrap_or_default();
    let known: Value = serde_json::from_str(known).unwrap_or_default();
    let before = |member: &str, wanted: &BTreeMap<String, String>, cleared: &[String]| {
        let mut before = known[member].as_object().cloned().unwrap_or_default();
        let keys = wanted.keys().chain(cleared).filter(|key| *key != ORIGINAL && *key != METADATA);
        for key in keys {
            let (found, wanted) = (metadata[member][key].as_str(), wanted.get(key));
            if !before.contains_key(key) && found != wanted.map(String::as_str) {
                before.insert(key.clone(), json!(found));
            }
        }
        before
    };
    let cleared: Vec<_> =
        desired.exact.iter().filter_map(|pointer| annotation_at(pointer)).collect();
    json!({
        "annotations": before("annotations", &desired.annotations, &cleared),
        "labels": before("labels", &desired.labels, &[]),
    })
    .to_string()
}

/// The annotation that a pointer is about, if it is about one.
fn annotation_at(pointer: &str) -> Option<String> {
    let key = pointer.strip_prefix(ANNOTATIONS)?;
    Some(key.replace("~1", "/").replace("~0", "~"))
}

/// Whether an object was a user's and has a backup.
pub(super) fn is_backed_up(live: &Value) -> bool {
    live["metadata"]["annotations"][ORIGINAL].is_string() || applied(live).is_some()
}

/// Restores the object as it was, if it was a user's and has a backup.
pub(super) fn restore(
    owner: &Owner<'_>,
    back: TakenOver<'_>,
) -> Result<Option<Change>, RouteError> {
    let TakenOver { kind, live, shaped, filled_in } = back;
    // An object that was made for the canary is deleted with it; one with another controller was never ours.
    if controller_of(live).is_some() {
        return Ok(None);
    }
    let name = live["metadata"]["name"].as_str().unwrap_or_default();
    let Some((mut spec, kept)) = original(owner, kind, name, live)? else { return Ok(None) };
    for field in filled_in {
        if let Some(value) = live["spec"].get(field) {
            spec[*field] = value.clone();
        }
    }
    let mut metadata = metadata_back(live, &kept);
    let difference = merge_patch(&live["spec"], &spec).filter(|_| shaped || !metadata.is_empty());
    if metadata.is_empty() && difference.is_none() {
        return Ok(None);
    }
    if let Some(version) = live["metadata"]["resourceVersion"].as_str() {
        metadata.insert("resourceVersion".to_owned(), json!(version));
    }
    let mut patch = json!({ "metadata": metadata });
    if let Some(difference) = difference {
        patch["spec"] = difference;
    }
    Ok(Some(Change::Merge { kind, name: name.to_owned(), patch }))
}

/// A merge patch that restores labels and annotations, as far as they are known.
fn metadata_back(live: &Value, kept: &Value) -> Map<String, Value> {
    let metadata = &live["metadata"];
    let before = metadata["annotations"][METADATA].as_str().unwrap_or_default();
    let before: Value = serde_json::from_str(before).unwrap_or_default();
    let mut back = Map::new();
    for (member, mut patch) in [("labels", Map::new()), ("annotations", ours_on(live, kept))] {
        let entries = before[member].as_object().into_iter().flatten();
        // A value that was missing then may have been applied all the same, if only later.
        let is_applied = |key: &str| member == "annotations" && kept[key].is_string();
        let differs = |(key, value): &(&String, &Value)| {
            let is_known = value.is_string() || value.is_null() && !is_applied(key);
            is_known && metadata[member][*key] != **value
        };
        let entries = entries.filter(differs).map(|(key, value)| (key.clone(), value.clone()));
        patch.extend(entries);
        if !patch.is_empty() {
            back.insert(member.to_owned(), Value::Object(patch));
        }
    }
    back
}

/// The spec to restore, and the annotations the user had on the object as far as we know.
fn original(
    owner: &Owner<'_>,
    kind: Kind,
    name: &str,
    live: &Value,
) -> Result<Option<(Value, Value)>, RouteError> {
    let annotations = &live["metadata"]["annotations"];
    let unusable = |annotation, why: &str| RouteError::Backup {
        object: Place::new(kind, owner.namespace, name),
        annotation,
        why: why.to_owned(),
    };
    let parse = |annotation: &'static str, text: &str| {
        let parsed = serde_json::from_str::<Value>(text).ok().filter(Value::is_object);
        parsed.ok_or_else(|| unusable(annotation, "it is not a JSON object"))
    };
    if let Some(text) = applied(live) {
        let mut applied = parse(KUBECTL, text)?;
        let spec = applied["spec"].take();
        if !spec.is_object() {
            return Err(unusable(KUBECTL, "it has no spec"));
        }
        return Ok(Some((spec, applied["metadata"]["annotations"].take())));
    }
    match annotations[ORIGINAL].as_str() {
        Some(text) => Ok(Some((parse(ORIGINAL, text)?, Value::Null))),
        None => Ok(None),
    }
}

/// The annotations the user applied, as far as `kubectl` recorded them.
pub(super) fn applied_annotations(live: &Value) -> Value {
    let applied: Value =
        serde_json::from_str(applied(live).unwrap_or_default()).unwrap_or_default();
    applied["metadata"]["annotations"].clone()
}

/// A merge patch that removes our annotations, but those the user had too.
pub(super) fn ours_on(live: &Value, kept: &Value) -> Map<String, Value> {
    let annotations = &live["metadata"]["annotations"];
    let ours = FLUX_OFF.iter().filter(|(key, value)| annotations[*key] == **value);
    let keys = ours.map(|(key, _)| *key).chain([ORIGINAL, METADATA]);
    keys.filter(|key| annotations[*key].is_string() && kept[*key].is_null())
        .map(|key| (key.to_owned(), Value::Null))
        .collect()
}

/// The JSON merge patch that makes `from` into `to`; `None` if nothing differs.
pub(super) fn merge_patch(from: &Value, to: &Value) -> Option<Value> {
    let (Some(from_map), Some(to_map)) = (from.as_object(), to.as_object()) else {
        return (!alike(from, to)).then(|| to.clone());
    };
    let removed = from_map.keys().filter(|key| !to_map.contains_key(*key));
    let mut patch: Map<_, _> = removed.map(|key| (key.clone(), Value::Null)).collect();
    for (key, value) in to_map {
        let difference = match from_map.get(key) {
            Some(old) => merge_patch(old, value),
            None => Some(value.clone()),
        };
        patch.extend(difference.map(|value| (key.clone(), value)));
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}
