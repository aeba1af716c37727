//! Deletion: immediate, graceful, or when the last finalizer is removed.
//!
//! Used by DELETE requests, evictions, the garbage collector and the reaper. An object is removed
//! only when it has neither finalizers nor a grace period left.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{
    Answer, Call, Content, Server, convert, crd_table, decode,
    options::{DeleteOptions, ListOptions, Propagation},
    read::{ListAnswer, Selection},
    rules, timestamp_text,
};
use crate::{
    failure::{Failure, Outcome},
    registry::ResourceDef,
    store::{ObjectKey, Stored, Transaction},
};

pub(crate) const FOREGROUND: &str = "foregroundDeletion";
pub(crate) const ORPHAN: &str = "orphan";

/// Result of a deletion.
pub(crate) enum Deleted {
    /// It is removed; this is its last state.
    Gone(Value),
    /// It has a deletion timestamp and waits for finalizers or its grace period.
    Waiting(Value),
}

// === impl Server ===

impl Server {
    pub(super) fn delete(&self, call: &Call<'_>) -> Outcome<Answer> {
        let body = decode::optional(&call.request.body)?;
        let options = DeleteOptions::parse(&call.request.query, &body)?;
        let info = &call.request.info;
        let tx = self.store.begin();
        let key = ObjectKey::new(call.namespace(), &info.name);
        let old = tx.get(&call.def.table, &key).ok_or_else(|| call.not_found())?;
        let def = convert::working_def(&call.registry, &call.def);
        let deleted = self.delete_stored(&tx, &def, &old, &options)?;
        let (object, is_gone) = match deleted {
            Deleted::Gone(object) => (object, true),
            Deleted::Waiting(object) => (object, false),
        };
        let code = if !is_gone && options.cascades { 202 } else { 200 };
        if is_gone && !rules::returns_deleted(&def) {
            let mut details = json!({ "name": info.name, "kind": info.resource });
            details["uid"] = object["metadata"]["uid"].clone();
            if !info.group.is_empty() {
                details["group"] = info.group.as_str().into();
            }
            return Ok(Answer::success(200, &details));
        }
        Ok(Answer::object(code, convert::to_version(&call.def, object)))
    }

    pub(super) fn delete_collection(&self, call: &Call<'_>) -> Outcome<Answer> {
        let body = decode::optional(&call.request.body)?;
        let options = DeleteOptions::parse(&call.request.query, &body)?;
        let listing = ListOptions::parse(&call.request.query)?;
        let selection = Selection::parse(&call.def, &listing, "")?;
        let namespace = call.namespace();
        let namespace = (!namespace.is_empty()).then_some(namespace);
        let def = convert::working_def(&call.registry, &call.def);
        let tx = self.store.begin();
        let mut items = Vec::new();
        let limit = if listing.limit == 0 { usize::MAX } else { listing.limit };
        for object in tx.list(&call.def.table, namespace) {
            if !selection.matches(&object) {
                continue;
            }
            if items.len() == limit {
                break;
            }
            // An earlier deletion may have removed this one too.
            let Some(object) = tx.get(&call.def.table, &object.key) else { continue };
            self.delete_stored(&tx, &def, &object, &options)?;
            items.push(convert::bytes(&call.def, &object));
        }
        let list = ListAnswer {
            def: Arc::clone(&call.def),
            revision: self.store.revision(),
            items,
            continue_token: String::new(),
            remaining: None,
        };
        Ok(Answer::new(200, Content::List(Box::new(list))))
    }

    /// Deletes an object or sets its deletion timestamp. Used by requests, garbage collection and
    /// the reaper of namespaces.
    pub(crate) fn delete_stored(
        &self,
        tx: &Transaction<'_>,
        def: &ResourceDef,
        old: &Stored,
        options: &DeleteOptions,
    ) -> Outcome<Deleted> {
        let mut object = convert::to_version(def, old.value());
        check_preconditions(def, old, options)?;
        refuse_protected(def, &old.key.name)?;
        let dry_run = options.dry_run;
        let before = object.clone();
        if rules::is_collected(def) {
            set_deletion_finalizers(&mut object, options.propagation);
        }
        if def.table.plural.as_ref() == "namespaces" {
            object["status"]["phase"] = "Terminating".into();
        }
        let is_free = object["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty);
        let is_namespace = def.table.plural.as_ref() == "namespaces";
        if is_free && !is_namespace && !rules::is_graceful(def) {
            // Without finalizers and grace period it is removed at once, without a deletion
            // timestamp.
            return Ok(Deleted::Gone(self.remove(tx, def, object, dry_run)));
        }
        if let Some(grace) = self.grace(def, &object, options) {
            self.mark(&mut object, grace);
        }
        let is_definition = def.table == crd_table();
        if is_namespace || is_definition {
            // Both wait until they are empty; they have no grace period.
            rules::metadata(&mut object).remove("deletionGracePeriodSeconds");
        }
        if is_definition {
            object["metadata"]["generation"] = before["metadata"]["generation"].clone();
        }
        if rules::is_done_deleting(&object) {
            if !dry_run && rules::is_graceful(def) && object != before {
                // Even without grace left, a pod gets a deletion timestamp before it is removed.
                let mut marked = object.clone();
                convert::to_storage(def, &mut marked);
                tx.put(&def.table, marked);
                self.after_write(&def.table);
            }
            return Ok(Deleted::Gone(self.remove(tx, def, object, dry_run)));
        }
        if object == before || dry_run {
            return Ok(Deleted::Waiting(object));
        }
        let mut stored = object;
        convert::to_storage(def, &mut stored);
        let stored = tx.put(&def.table, stored);
        self.after_write(&def.table);
        Ok(Deleted::Waiting(convert::to_version(def, stored.value())))
    }

    /// The grace period in seconds. It is zero except for pods that run on a node. `None` if an
    /// earlier deletion is in progress and this one does not shorten it.
    fn grace(&self, def: &ResourceDef, object: &Value, options: &DeleteOptions) -> Option<i64> {
        let _ = self;
        if !rules::is_graceful(def) {
            return Some(0);
        }
        // A negative period means the shortest possible one, a second.
        let asked = options.grace_period_s.map(|asked| if asked < 0 { 1 } else { asked });
        if let Some(earlier) = object["metadata"]["deletionGracePeriodSeconds"].as_i64()
            && earlier > 0
        {
            return asked.filter(|asked| *asked < earlier);
        }
        let is_over = matches!(object["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
        let is_bound = object["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty());
        if is_over || !is_bound {
            return Some(0);
        }
        let own = object["spec"]["terminationGracePeriodSeconds"].as_i64().unwrap_or(30);
        Some(asked.unwrap_or(own))
    }

    /// Sets the deletion timestamp; a shorter grace period moves an earlier one forward.
    fn mark(&self, object: &mut Value, grace_s: i64) {
        let now = self.clock.now();
        let after = |from: Timestamp, seconds: i64| {
            from.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(from)
        };
        let meta = rules::metadata(object);
        let earlier_s = meta.get("deletionGracePeriodSeconds").and_then(Value::as_i64);
        let earlier = meta.get("deletionTimestamp").and_then(Value::as_str);
        let earlier = earlier.and_then(|text| text.parse::<Timestamp>().ok());
        let (at, grace_s) = match (earlier, earlier_s) {
            (None, _) => (after(now, grace_s), grace_s),
            (Some(at), None | Some(0)) => (at.min(now), 0),
            (Some(at), Some(earlier_s)) => {
                let moved = after(at, grace_s - earlier_s);
                // Never in the past; a graceful deletion still gets a second.
                if moved < now { (now, grace_s.min(1)) } else { (moved, grace_s) }
            }
        };
        if earlier.is_none()
            && let Some(generation) = meta.get("generation").and_then(Value::as_i64)
        {
            meta.insert("generation".into(), (generation + 1).into());
        }
        meta.insert("deletionTimestamp".into(), timestamp_text(at).into());
        meta.insert("deletionGracePeriodSeconds".into(), grace_s.into());
    }
}

fn check_preconditions(def: &ResourceDef, old: &Stored, options: &DeleteOptions) -> Outcome<()> {
    let is_namespace = def.table.plural.as_ref() == "namespaces";
    let name = &old.key.name;
    let fail = |what: &str, want: &str, have: &str, fate: &str| {
        if is_namespace {
            let why = format!(
                "Precondition failed: {what} in precondition: {want}, {what} in object meta: {have}"
            );
            return Err(Failure::conflict(&def.group, &def.plural, name, &why));
        }
        let why = format!(
            "the {what} in the precondition ({want}) does not match the {what} in record ({have}). \
             The object might have been {fate}"
        );
        // As in Kubernetes: the error has the kind in the place of the resource.
        Err(Failure::conflict(&def.group, &def.kind, name, &why))
    };
    if let Some(uid) = options.uid.as_deref().filter(|uid| **uid != *old.uid) {
        return fail("UID", uid, &old.uid, "deleted and then recreated");
    }
    let revision = old.revision.to_string();
    match options.resource_version.as_deref() {
        Some(asked) if asked != revision => fail("ResourceVersion", asked, &revision, "modified"),
        _ => Ok(()),
    }
}

fn refuse_protected(def: &ResourceDef, name: &str) -> Outcome<()> {
    let is_protected = matches!(name, "default" | "kube-system" | "kube-public");
    if def.table.plural.as_ref() == "namespaces" && is_protected {
        let why = "this namespace may not be deleted";
        return Err(Failure::forbidden("", "namespaces", name, why));
    }
    Ok(())
}

/// Foreground and orphan deletion are finalizers that the garbage collector removes.
fn set_deletion_finalizers(object: &mut Value, propagation: Option<Propagation>) {
    let Some(propagation) = propagation else { return };
    let meta = rules::metadata(object);
    let mut finalizers: Vec<Value> =
        meta.get("finalizers").and_then(Value::as_array).cloned().unwrap_or_default();
    finalizers.retain(|name| name != FOREGROUND && name != ORPHAN);
    match propagation {
        Propagation::Background => {}
        Propagation::Foreground => finalizers.push(FOREGROUND.into()),
        Propagation::Orphan => finalizers.push(ORPHAN.into()),
    }
    if finalizers.is_empty() {
        meta.remove("finalizers");
    } else {
        meta.insert("finalizers".into(), finalizers.into());
    }
}
