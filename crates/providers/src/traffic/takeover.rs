//! Objects that were there before us: backed up when taken over, given back at the end.
//!
//! The backup is the spec as raw JSON in an annotation, Flagger's own, so that either reads what
//! the other wrote. It is made once, in the write that takes the object over. What `kubectl apply`
//! left on the object is as good as a backup and wins over ours, as in Flagger.

use serde_json::{Map, Value, json};

use super::{Place, RouteError, draft::alike};
use crate::object::{Change, FLUX_OFF, Kind, Owner, controller_of};

/// Where `kubectl apply` keeps what it applied.
pub(super) const KUBECTL: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Where we, and Flagger, keep the spec that was there before.
pub(super) const ORIGINAL: &str = "flagger.kubernetes.io/original-configuration";

/// Where the owner of a route hands it over to a canary, by the canary's name.
///
/// Flagger takes over whatever has the right name. For Istio so do we, since that is how its users
/// move in; a route of Gateway API is rewritten only with the consent of whoever made it.
pub const HANDED_OVER: &str = "tidegate.dev/canary";

/// Refuses an object that nobody made for the canary, took over before, or hands over.
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

/// The backup annotation the live object is to have from now on, if any.
///
/// One that is there stays. One is made if the object is not `ours` and `kubectl` left none.
pub(super) fn backup(live: &Value, ours: bool) -> Option<(String, String)> {
    let annotations = &live["metadata"]["annotations"];
    if let Some(original) = annotations[ORIGINAL].as_str() {
        return Some((ORIGINAL.to_owned(), original.to_owned()));
    }
    if ours || annotations[KUBECTL].is_string() {
        return None;
    }
    let spec = live.get("spec").map_or_else(|| "{}".to_owned(), Value::to_string);
    Some((ORIGINAL.to_owned(), spec))
}

/// What gives the object back as it was, if it was somebody's and we know how it was.
///
/// `shaped` says that the object still routes to primary and canary; without that and without an
/// annotation of ours there is nothing to undo.
pub(super) fn restore(
    owner: &Owner<'_>,
    kind: Kind,
    live: &Value,
    shaped: bool,
) -> Result<Option<Change>, RouteError> {
    // What was made for the canary goes with it; what somebody else controls was never ours.
    if controller_of(live).is_some() {
        return Ok(None);
    }
    let name = live["metadata"]["name"].as_str().unwrap_or_default();
    let Some((spec, kept)) = original(owner, kind, name, live)? else { return Ok(None) };
    let annotations = ours_on(live, &kept);
    let difference =
        merge_patch(&live["spec"], &spec).filter(|_| shaped || !annotations.is_empty());
    if annotations.is_empty() && difference.is_none() {
        return Ok(None);
    }
    let mut patch = json!({ "metadata": {} });
    if !annotations.is_empty() {
        patch["metadata"]["annotations"] = Value::Object(annotations);
    }
    if let Some(difference) = difference {
        patch["spec"] = difference;
    }
    if let Some(version) = live["metadata"]["resourceVersion"].as_str() {
        patch["metadata"]["resourceVersion"] = json!(version);
    }
    Ok(Some(Change::Merge { kind, name: name.to_owned(), patch }))
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
    if let Some(text) = annotations[KUBECTL].as_str() {
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

/// The annotations the user applied, as far as `kubectl` left word of them.
pub(super) fn applied_annotations(live: &Value) -> Value {
    let text = live["metadata"]["annotations"][KUBECTL].as_str().unwrap_or_default();
    let applied: Value = serde_json::from_str(text).unwrap_or_default();
    applied["metadata"]["annotations"].clone()
}

/// A merge patch that removes our annotations, but those the user had too.
pub(super) fn ours_on(live: &Value, kept: &Value) -> Map<String, Value> {
    let annotations = &live["metadata"]["annotations"];
    let ours = FLUX_OFF.iter().filter(|(key, value)| annotations[*key] == **value);
    let keys = ours.map(|(key, _)| *key).chain([ORIGINAL]);
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
