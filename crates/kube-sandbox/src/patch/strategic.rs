//! Strategic merge patch: merge patch with typed lists.
//!
//! A list with patch strategy `merge` is merged item by item: by its merge key, or as a set if its
//! items are scalars. Directives in the patch express everything else:
//!
//! ```text
//! $patch: replace | delete            this object, this item, or (as an item) the whole list
//! $deleteFromPrimitiveList/<field>    scalars to remove from a set
//! $setElementOrder/<field>            the order of the items that the client knows
//! $retainKeys                         the only members that the object keeps
//! ```

mod list;
#[cfg(test)]
mod tests;

use std::collections::HashSet;

use serde_json::{Map, Value};

use self::list::{ItemKind, check_order, item_kind, merge_list, order_on_server, sort_items};
use super::wording::{go_kind, go_map, go_text};
use crate::{
    failure::{Failure, Outcome},
    shape::Shape,
};

type Object = Map<String, Value>;

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";
const SET_ORDER: &str = "$setElementOrder";

/// `doc` with `patch` merged in by the rules of its type.
pub(crate) fn strategic<S: Shape>(doc: &Value, patch: &Value, shape: &S) -> Outcome<Value> {
    let Value::Object(patch) = patch else {
        return Err(Failure::bad_request("invalid JSON document"));
    };
    let mut merged = match doc {
        Value::Object(doc) => doc.clone(),
        _ => Object::new(),
    };
    merge_object(&mut merged, patch, shape)?;
    Ok(Value::Object(merged))
}

fn merge_object<S: Shape>(doc: &mut Object, patch: &Object, shape: &S) -> Outcome<()> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        *doc = match directive.as_str() {
            Some("replace") => plain_members(patch),
            Some("delete") => Object::new(),
            _ => return Err(unknown_directive(directive, patch)),
        };
        return Ok(());
    }
    retain_keys(doc, patch)?;
    let ordered = merge_ordered_lists(doc, patch, shape)?;
    for (name, wanted) in patch {
        let is_order = name.starts_with(SET_ORDER);
        if name == RETAIN_KEYS || is_order || ordered.contains(name.as_str()) {
            continue;
        }
        if name.starts_with(DELETE_FROM_LIST) {
            let field = directive_field(name, DELETE_FROM_LIST)
                .ok_or_else(|| malformed("invalid patch format of primitive list"))?;
            delete_scalars(doc, field, wanted)?;
        } else {
            merge_member(doc, name, wanted, shape)?;
        }
    }
    Ok(())
}

fn merge_member<S: Shape>(doc: &mut Object, name: &str, wanted: &Value, shape: &S) -> Outcome<()> {
    if wanted.is_null() {
        doc.remove(name);
        return Ok(());
    }
    match (doc.get_mut(name), wanted) {
        (Some(Value::Object(present)), Value::Object(wanted)) => {
            merge_object(present, wanted, &shape.field(name))
        }
        (Some(Value::Array(present)), Value::Array(wanted)) => {
            let merged = merge_list(std::mem::take(present), wanted, &shape.field(name))?;
            *present = merged;
            Ok(())
        }
        _ => {
            match plain(wanted) {
                Some(value) => doc.insert(name.to_owned(), value),
                None => doc.remove(name),
            };
            Ok(())
        }
    }
}

/// Removes the scalars of a `$deleteFromPrimitiveList` from the list it names.
fn delete_scalars(doc: &mut Object, field: &str, gone: &Value) -> Outcome<()> {
    match (doc.get_mut(field), gone) {
        (Some(_), Value::Null) => {
            doc.remove(field);
        }
        (Some(Value::Array(present)), Value::Array(gone)) => {
            if item_kind(present.iter().chain(gone))?.is_some_and(|kind| kind == ItemKind::Object) {
                return Err(unprocessable("expected a list of scalars, but received objects"));
            }
            let gone: HashSet<_> = gone.iter().collect();
            present.retain(|item| !gone.contains(item));
        }
        _ => {}
    }
    Ok(())
}

/// Applies `$retainKeys`: unlisted members are removed, and the patch may not add any.
fn retain_keys(doc: &mut Object, patch: &Object) -> Outcome<()> {
    let Some(retained) = patch.get(RETAIN_KEYS) else { return Ok(()) };
    let malformed = || malformed("invalid patch format of retainKeys");
    let retained = retained.as_array().ok_or_else(malformed)?;
    let retained: HashSet<_> = retained.iter().filter_map(Value::as_str).collect();
    let strays = patch.iter().any(|(name, value)| {
        let is_directive = name == RETAIN_KEYS
            || name.starts_with(DELETE_FROM_LIST)
            || name.starts_with(SET_ORDER);
        !value.is_null() && !is_directive && !retained.contains(name.as_str())
    });
    if strays {
        return Err(malformed());
    }
    doc.retain(|name, _| retained.contains(name.as_str()));
    Ok(())
}

/// Merges the lists with a `$setElementOrder`, and returns their names.
fn merge_ordered_lists<'a, S: Shape>(
    doc: &mut Object,
    patch: &'a Object,
    shape: &S,
) -> Outcome<HashSet<&'a str>> {
    let mut done = HashSet::new();
    for (name, order) in patch.iter().filter(|(name, _)| name.starts_with(SET_ORDER)) {
        let field = directive_field(name, SET_ORDER).ok_or_else(bad_order)?;
        let order = as_list(order)?;
        let present = doc.get(field).map(as_list).transpose()?;
        let wanted = patch.get(field).map(as_list).transpose()?;
        let list = shape.field(field);
        let key = list.patch_merge().flatten();
        check_order(wanted.map_or(&[], Vec::as_slice), order, key.as_deref())?;

        let merged = match (present, wanted) {
            (None, None) => continue,
            (Some(present), None) => present.clone(),
            (None, Some(wanted)) => wanted.iter().filter_map(plain).collect(),
            (Some(present), Some(wanted)) => merge_list(present.clone(), wanted, &list)?,
        };
        let server_order = order_on_server(present, wanted, key.as_deref());
        let sorted = sort_items(merged, order, &server_order, key.as_deref())?;
        doc.insert(field.to_owned(), sorted.into());
        done.insert(field);
    }
    Ok(done)
}

/// `value` without directives and nulls; `None` if it has a `$patch`.
fn plain(value: &Value) -> Option<Value> {
    match value {
        Value::Object(members) => plain_object(members),
        Value::Array(items) => Some(items.iter().filter_map(plain).collect()),
        scalar => Some(scalar.clone()),
    }
}

fn plain_object(members: &Object) -> Option<Value> {
    (!members.contains_key(DIRECTIVE)).then(|| Value::Object(plain_members(members)))
}

fn plain_members(members: &Object) -> Object {
    let kept = members.iter().filter(|(name, value)| !value.is_null() && !is_directive(name));
    kept.filter_map(|(name, value)| Some((name.clone(), plain(value)?))).collect()
}

fn is_directive(name: &str) -> bool {
    name == DIRECTIVE
        || name == RETAIN_KEYS
        || name.starts_with(DELETE_FROM_LIST)
        || name.starts_with(SET_ORDER)
}

/// The field of a directive like `$setElementOrder/containers`.
fn directive_field<'a>(name: &'a str, prefix: &str) -> Option<&'a str> {
    name.strip_prefix(prefix)?.strip_prefix('/')
}

fn as_list(value: &Value) -> Outcome<&Vec<Value>> {
    value.as_array().ok_or_else(|| {
        let kind = go_kind(value);
        unprocessable(format!("expected a []interface {{}}, but received a {kind}"))
    })
}

fn no_merge_key(members: &Object, key: &str) -> Failure {
    let shown = go_map(members);
    unprocessable(format!("map: {shown} does not contain declared merge key: {key}"))
}

fn unknown_directive(directive: &Value, members: &Object) -> Failure {
    let (directive, shown) = (go_text(directive), go_map(members));
    unprocessable(format!("unknown patch type: {directive} in map: {shown}"))
}

fn bad_order() -> Failure {
    malformed("invalid patch format of setElementOrder list")
}

fn malformed(message: &str) -> Failure {
    Failure::bad_request(message)
}

fn unprocessable(message: impl Into<String>) -> Failure {
    // The API machinery has no reason for these errors.
    Failure::unclassified(message)
}
