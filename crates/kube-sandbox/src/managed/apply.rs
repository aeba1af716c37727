//! Server-side apply: merges a manager's full configuration into an object.
//!
//! ```text
//! live + config -> merged -> without what the manager no longer applies -> compared with live
//!                                 (unless others own it)                   (conflicts, owners)
//! ```

use serde_json::{Map, Value};

use super::{
    Comparison, Entry, FieldSet, ManagedFields, Operation, UNOWNED, Write, changes, check,
    conflict::Conflicts, element, fields_of, last_applied, merge, set_managed, track,
};
use crate::{
    failure::{Failure, Outcome},
    shape::Shape,
};

/// Manager of the fields of an object without owners, when the first apply happens.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// Inputs of one apply.
struct Application<'a, S> {
    live: &'a Value,
    config: &'a Value,
    shape: &'a S,
    write: &'a Write<'a>,
    managed: &'a ManagedFields,
}

/// The object after applying `config` to `live` (`None`: it does not exist yet).
///
/// `None` when there is nothing to write, not even a change of owners.
pub(crate) fn apply<S: Shape>(
    live: Option<&Value>,
    config: &Value,
    shape: &S,
    write: &Write<'_>,
    force: bool,
) -> Outcome<Option<Value>> {
    check_config(config, shape, write)?;
    let listed = live.and_then(|live| live.pointer("/metadata/managedFields"));
    let mut managed = ManagedFields::decode(listed)
        .map_err(|why| Failure::internal(format!("failed to decode managed fields: {why}")))?;
    let mut bare = live.cloned().unwrap_or_else(|| Value::Object(Map::new()));
    if let Some(Value::Object(metadata)) = bare.get_mut("metadata") {
        metadata.remove("managedFields");
    }
    if managed.is_empty() && live.is_some() {
        let before = Write { manager: BEFORE_FIRST_APPLY, ..*write };
        track(&mut managed, write.empty, &bare, shape, &before);
    }
    let application = Application { live: &bare, config, shape, write, managed: &managed };
    let (mut object, mut owners) = match application.attempt(force) {
        Ok(applied) => applied,
        Err(mut conflicts) => {
            if let Some(own) = last_applied::left_behind(&bare, shape, write.manager) {
                conflicts.excuse(&own);
            }
            if !conflicts.is_empty() {
                return Err(conflicts.into_failure());
            }
            application.attempt(true).map_err(Conflicts::into_failure)?
        }
    };
    let applier = write.owner(Operation::Apply);
    if !element::same(&object, &bare)
        && let Some(entry) = owners.0.iter_mut().find(|entry| entry.owner == applier)
    {
        entry.time = Some(write.now);
    }
    last_applied::refresh(&mut object, config, write.manager);
    let list = owners.encode();
    if live.is_some() && list.as_ref() == listed && element::same(&object, &bare) {
        return Ok(None);
    }
    set_managed(&mut object, list);
    Ok(Some(object))
}

fn check_config<S: Shape>(config: &Value, shape: &S, write: &Write<'_>) -> Outcome<()> {
    let text = |pointer: &str| config.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("/apiVersion"), text("/kind"));
    // The core group has no name, so its version has no slash.
    let slash = if api_version.contains('/') { "" } else { "/" };
    let kind_text = format!("{slash}{api_version}, Kind={kind}");
    if (api_version, kind) != (write.api_version, write.kind) {
        return Err(Failure::bad_request(format!("invalid object type: {kind_text}")));
    }
    if config.pointer("/metadata/managedFields").is_some_and(|list| !list.is_null()) {
        return Err(Failure::bad_request("metadata.managedFields must be nil"));
    }
    let listed = match check::complaints(config, shape).as_slice() {
        [] => return Ok(()),
        [only] => only.clone(),
        many => format!("errors:\n  {}", many.join("\n  ")),
    };
    let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
    let message =
        format!("failed to create typed patch object ({namespace}/{name}; {kind_text}): {listed}");
    // An error of the merge machinery, which has no reason field.
    Err(Failure::unclassified(message))
}

// === impl Application ===

impl<S: Shape> Application<'_, S> {
    /// The resulting object and its owners, or the conflicts.
    fn attempt(&self, force: bool) -> Result<(Value, ManagedFields), Conflicts> {
        let Self { live, config, shape, write, managed } = *self;
        let applier = write.owner(Operation::Apply);
        let mut merged = live.clone();
        merge::merge_into(&mut merged, config, shape);

        let mut fields = fields_of(config, shape);
        fields.subtract_deep(write.reset);
        let mut owners = managed.clone();
        let last = owners.take(&applier);
        let time = last.as_ref().and_then(|last| last.time);
        let (mut object, gone) = match last {
            Some(last) => prune(merged, shape, &owners, &fields, last.fields),
            None => (merged, FieldSet::default()),
        };

        let Comparison { added, modified, removed } = changes(Some(live), &object, shape, write);
        let changed = added.union(modified);
        if !force {
            let mut conflicts = Conflicts::default();
            for entry in &owners.0 {
                conflicts.add(&entry.owner, entry.fields.intersection(&changed));
            }
            if !conflicts.is_empty() {
                return Err(conflicts);
            }
        }
        owners.disown(&changed);
        owners.disown(&removed);
        merge::sweep(&mut object, &gone, shape);
        fields.subtract(&UNOWNED);
        if !fields.is_empty() {
            let api_version = write.api_version.to_owned();
            owners.put(Entry { owner: applier, api_version, time, fields });
        }
        Ok((object, owners))
    }
}

/// Removes the fields from `merged` that the applier had applied `last` and now does not, unless
/// they or parts of them have other owners. Returns the rest, and the removed fields.
fn prune<S: Shape>(
    mut merged: Value,
    shape: &S,
    others: &ManagedFields,
    fields: &FieldSet,
    last: FieldSet,
) -> (Value, FieldSet) {
    let last = last.with_fields_above(shape);
    let all = fields_of(&merged, shape).with_fields_above(shape);
    let left_without = |gone: &FieldSet| {
        let mut rest = merged.clone();
        merge::remove(&mut rest, gone, shape);
        fields_of(&rest, shape).with_fields_above(shape)
    };

    let mut unowned = all.clone();
    unowned.subtract(&left_without(&last));
    unowned.subtract(&fields.clone().with_fields_above(shape));
    for entry in &others.0 {
        unowned.subtract(&entry.fields.clone().with_fields_above(shape));
    }
    // Fields that never had an owner are removed only with the fields around them.
    let mut gone = all;
    gone.subtract(&left_without(&unowned));
    let gone = gone.intersection(&last);
    merge::remove(&mut merged, &gone, shape);
    (merged, gone)
}
