//! Accessors for objects as plain JSON, for controllers and kubelet.
//!
//! Controllers change a few fields of objects whose other fields they must keep, so they work on
//! [`Value`]. A missing or mistyped field reads as its zero value: validation is the API server's
//! work, and a controller must survive every stored object.

use std::{collections::BTreeMap, time::Duration};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use crate::{
    cluster::{Cluster, Resource},
    controllers::{Key, Next, hash::canonical},
    failure::Outcome,
    selector::LabelSelector,
};

/// A moment as `metav1.Time` writes it: whole seconds.
pub(crate) use crate::types::format_time as stamp;

/// The type of an object in an owner reference or event.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) api_version: &'static str,
    pub(crate) kind: &'static str,
}

/// The controller owner reference of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner<'a> {
    pub(crate) kind: &'a str,
    pub(crate) name: &'a str,
    pub(crate) uid: &'a str,
}

/// A condition to be set; [`Condition::put`] adds the times.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Condition<'a> {
    pub(crate) kind: &'a str,
    pub(crate) status: &'a str,
    pub(crate) reason: &'a str,
    pub(crate) message: &'a str,
}

pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

pub(crate) fn int(object: &Value, pointer: &str) -> Option<i64> {
    object.pointer(pointer).and_then(Value::as_i64)
}

/// The number at `pointer`, or zero.
pub(crate) fn count(object: &Value, pointer: &str) -> i64 {
    int(object, pointer).unwrap_or_default()
}

pub(crate) fn flag(object: &Value, pointer: &str) -> bool {
    object.pointer(pointer).and_then(Value::as_bool).unwrap_or_default()
}

pub(crate) fn items<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

pub(crate) fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

pub(crate) fn namespace(object: &Value) -> &str {
    text(object, "/metadata/namespace")
}

pub(crate) fn uid(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

pub(crate) fn key(object: &Value) -> Key {
    Key { namespace: namespace(object).to_owned(), name: name(object).to_owned() }
}

pub(crate) fn is_deleting(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some_and(|at| !at.is_null())
}

pub(crate) fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.pointer("/metadata/labels")?.get(key)?.as_str()
}

pub(crate) fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.pointer("/metadata/annotations")?.get(key)?.as_str()
}

/// A JSON object of strings as a map.
pub(crate) fn strings(object: Option<&Value>) -> BTreeMap<&str, &str> {
    let members = object.and_then(Value::as_object).into_iter().flatten();
    members.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?))).collect()
}

/// The selector of a workload. An empty or malformed one selects nothing, not everything.
pub(crate) fn selector(workload: &Value) -> LabelSelector {
    match LabelSelector::from_json(workload.pointer("/spec/selector")) {
        Ok(selector) if !selector.is_everything() => selector,
        _ => LabelSelector::nothing(),
    }
}

/// The moment written at `pointer`.
pub(crate) fn time(object: &Value, pointer: &str) -> Option<Timestamp> {
    text(object, pointer).parse().ok()
}

/// Time until `at`; zero if it has passed.
pub(crate) fn until(now: Timestamp, at: Timestamp) -> Duration {
    Duration::try_from(at.duration_since(now)).unwrap_or_default()
}

/// `at` plus whole seconds, clamped to representable time.
pub(crate) fn plus_seconds(at: Timestamp, seconds: i64) -> Timestamp {
    at.saturating_add(SignedDuration::from_secs(seconds)).unwrap_or(at)
}

/// Sets a member, replacing values on the path that are not objects.
pub(crate) fn set_at(object: &mut Value, path: &[&str], value: impl Into<Value>) {
    let mut place = object;
    for step in path {
        place = member(place, step);
    }
    *place = value.into();
}

/// Removes a member if it is there.
pub(crate) fn unset(object: &mut Value, pointer: &str, key: &str) {
    if let Some(Value::Object(members)) = object.pointer_mut(pointer) {
        members.remove(key);
    }
}

fn member<'a>(place: &'a mut Value, key: &str) -> &'a mut Value {
    if !place.is_object() {
        *place = Value::Object(Map::new());
    }
    let members = place.as_object_mut().expect("made an object above");
    members.entry(key).or_insert(Value::Null)
}

/// The controller of `object`, if it has one.
pub(crate) fn controller_of(object: &Value) -> Option<Owner<'_>> {
    let references = items(object, "/metadata/ownerReferences");
    let reference = references.iter().find(|reference| flag(reference, "/controller"))?;
    Some(Owner {
        kind: text(reference, "/kind"),
        name: text(reference, "/name"),
        uid: text(reference, "/uid"),
    })
}

/// A controller owner reference to `owner`.
pub(crate) fn owner_reference(kind: Kind, owner: &Value) -> Value {
    json!({
        "apiVersion": kind.api_version, "kind": kind.kind, "name": name(owner), "uid": uid(owner),
        "controller": true, "blockOwnerDeletion": true,
    })
}

/// The condition of a type in `status.conditions`.
pub(crate) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    items(object, "/status/conditions").iter().find(|condition| text(condition, "/type") == kind)
}

/// Replaces `object.status` through its subresource if it changed, and returns the stored object.
pub(crate) fn write_status(
    cluster: &dyn Cluster,
    resource: Resource,
    object: &Value,
    status: Value,
) -> Outcome<Value> {
    // The store may have dropped empty fields, which is not a change.
    if object
        .get("status")
        .is_some_and(|old| *old == status || canonical(old) == canonical(&status))
    {
        return Ok(object.clone());
    }
    let mut changed = object.clone();
    set_at(&mut changed, &["status"], status);
    cluster.update(resource, "status", changed)
}

/// Sets a counter, or leaves it out when it is zero, as `omitempty` does.
pub(crate) fn set_count(status: &mut Value, key: &str, value: i64) {
    if value == 0 {
        unset(status, "", key);
    } else {
        set_at(status, &[key], value);
    }
}

/// The next step after a reconcile: retry on failure, except where a retry cannot help.
pub(crate) fn settle(outcome: Outcome<Next>) -> Next {
    match outcome {
        Ok(next) => next,
        // A namespace that is being deleted accepts no new objects and does not come back.
        Err(failure) if failure.causes.iter().any(|c| c.reason == "NamespaceTerminating") => {
            Next::Idle
        }
        Err(_) => Next::Retry,
    }
}

/// The earlier of two; a retry comes first.
pub(crate) fn sooner(one: Next, other: Next) -> Next {
    match (one, other) {
        (Next::Retry, _) | (_, Next::Retry) => Next::Retry,
        (Next::After(one), Next::After(other)) => Next::After(one.min(other)),
        (Next::After(wait), Next::Idle) | (Next::Idle, Next::After(wait)) => Next::After(wait),
        (Next::Idle, Next::Idle) => Next::Idle,
    }
}

// === impl Condition ===

impl Condition<'_> {
    /// Puts the condition into a list. Its transition time changes only with its status, and an
    /// unchanged condition is left alone.
    pub(crate) fn put(&self, conditions: &mut Vec<Value>, now: Timestamp) {
        let mut fresh = json!({
            "type": self.kind, "status": self.status, "lastTransitionTime": stamp(now),
            "reason": self.reason, "message": self.message,
        });
        let Some(old) = conditions.iter_mut().find(|old| text(old, "/type") == self.kind) else {
            conditions.push(fresh);
            return;
        };
        if text(old, "/status") == self.status {
            set_at(&mut fresh, &["lastTransitionTime"], old["lastTransitionTime"].clone());
        }
        // Conditions of pods have this field, even when null.
        if let Some(probed) = old.get("lastProbeTime") {
            set_at(&mut fresh, &["lastProbeTime"], probed.clone());
        }
        *old = fresh;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_keeps_its_transition_time_while_its_status_stays() {
        let ready = Condition { kind: "Ready", status: "True", reason: "A", message: "" };
        let mut conditions = Vec::new();
        ready.put(&mut conditions, Timestamp::UNIX_EPOCH);
        let later = plus_seconds(Timestamp::UNIX_EPOCH, 60);
        Condition { reason: "B", ..ready }.put(&mut conditions, later);
        assert_eq!(conditions[0]["lastTransitionTime"], "1970-01-01T00:00:00Z");
        assert_eq!(conditions[0]["reason"], "B");
        Condition { status: "False", ..ready }.put(&mut conditions, later);
        assert_eq!(conditions[0]["lastTransitionTime"], "1970-01-01T00:01:00Z");
        assert_eq!(conditions.len(), 1);
    }

    #[test]
    fn a_workload_selects_what_kubernetes_would() {
        let expression = |operator: &str| {
            let values = if operator.contains("Exist") { json!([]) } else { json!(["a", "b"]) };
            json!({ "matchExpressions": [{ "key": "tier", "operator": operator, "values": values }] })
        };
        let cases = [
            ("all labels present", json!({ "matchLabels": {"app": "web"} }), true),
            ("one label differs", json!({ "matchLabels": {"app": "web", "tier": "b"} }), false),
            ("value listed", expression("In"), true),
            ("value listed as unwanted", expression("NotIn"), false),
            ("key present", expression("Exists"), true),
            ("key present but unwanted", expression("DoesNotExist"), false),
            ("unknown operator", expression("Like"), false),
            ("an empty selector selects nothing", json!({}), false),
            ("nor does a missing one", Value::Null, false),
        ];
        let pod = json!({ "metadata": { "labels": {"app": "web", "tier": "a"} } });
        for (reason, wanted, want) in cases {
            let workload = json!({ "spec": { "selector": wanted } });
            assert_eq!(selector(&workload).selects(&pod), want, "{reason}");
        }
    }

    #[test]
    fn setting_makes_the_objects_on_the_way() {
        let mut object = json!({ "spec": null });
        set_at(&mut object, &["spec", "template", "replicas"], 3);
        assert_eq!(object, json!({ "spec": { "template": { "replicas": 3 } } }));
    }
}
