//! Lists in a strategic merge patch: merged by key or as sets, and sorted.
//!
//! Called by [`super`] for lists with a patch strategy of `merge`. Results have the item order of
//! Kubernetes.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::{
    DIRECTIVE, Object, SET_ORDER, merge_object, no_merge_key, plain, plain_object,
    unknown_directive, unprocessable,
};
use crate::{
    failure::Outcome,
    patch::wording::{go_kind, go_list, go_text},
    shape::Shape,
};

/// Type of a list's items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ItemKind {
    Object,
    Text,
    Number,
    Bool,
}

/// Checks that the patch's items are in the order of its own `$setElementOrder`.
pub(super) fn check_order(wanted: &[Value], order: &[Value], key: Option<&str>) -> Outcome<()> {
    if wanted.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut left = order.iter();
    for item in wanted.iter().filter(|item| item.get(DIRECTIVE).is_none()) {
        let identity = identity(item, key)?;
        let mut found = false;
        for place in left.by_ref() {
            if self::identity(place, key)? == identity {
                found = true;
                break;
            }
        }
        if !found {
            let (wanted, order) = (go_list(wanted), go_list(order));
            return Err(unprocessable(format!(
                "The order in patch list:\n{wanted}\n doesn't match {SET_ORDER} list:\n{order}\n"
            )));
        }
    }
    Ok(())
}

pub(super) fn merge_list<S: Shape>(
    doc: Vec<Value>,
    patch: &[Value],
    list: &S,
) -> Outcome<Vec<Value>> {
    let Some(key) = list.patch_merge() else {
        return Ok(patch.iter().filter_map(plain).collect());
    };
    let is_map = match item_kind(doc.iter().chain(patch))? {
        None => return Ok(doc),
        Some(kind) => kind == ItemKind::Object,
    };
    match key {
        Some(key) if is_map => merge_keyed(doc, patch, &key, &list.items()),
        None if is_map => Err(unprocessable("cannot merge lists without merge key for struct")),
        _ => {
            let mut seen = HashSet::new();
            let all = doc.iter().chain(patch).filter(|item| seen.insert(*item)).cloned();
            sort_items(all.collect(), patch, &doc, None)
        }
    }
}

fn merge_keyed<S: Shape>(
    mut doc: Vec<Value>,
    patch: &[Value],
    key: &str,
    item_shape: &S,
) -> Outcome<Vec<Value>> {
    let (patch, replaces) = obey_item_directives(&mut doc, patch, key)?;
    if replaces {
        return Ok(patch.into_iter().filter_map(plain_object).collect());
    }
    let server_order = doc.iter().map(|item| only_key(item, key)).collect::<Vec<_>>();
    let mut positions: HashMap<Value, usize> = HashMap::new();
    for (at, item) in doc.iter().enumerate() {
        positions.entry(identity(item, Some(key))?.clone()).or_insert(at);
    }
    let mut wanted_order = Vec::with_capacity(patch.len());
    for wanted in patch {
        let key_value = wanted.get(key).ok_or_else(|| no_merge_key(wanted, key))?;
        wanted_order.push(Value::Object(Object::from_iter([(key.to_owned(), key_value.clone())])));
        let present = positions.get(key_value).and_then(|at| doc.get_mut(*at));
        if let Some(Value::Object(present)) = present {
            merge_object(present, wanted, item_shape)?;
        } else {
            positions.insert(key_value.clone(), doc.len());
            doc.extend(plain_object(wanted));
        }
    }
    sort_items(doc, &wanted_order, &server_order, Some(key))
}

/// Applies the `$patch` items of a list patch; returns the other items, and whether they replace
/// the list.
fn obey_item_directives<'a>(
    doc: &mut Vec<Value>,
    patch: &'a [Value],
    key: &str,
) -> Outcome<(Vec<&'a Object>, bool)> {
    let mut plain_items = Vec::with_capacity(patch.len());
    let mut gone = HashSet::new();
    let mut replaces = false;
    for item in patch.iter().filter_map(Value::as_object) {
        match item.get(DIRECTIVE).map(|directive| (directive, directive.as_str())) {
            None => plain_items.push(item),
            Some((_, Some("replace"))) => replaces = true,
            Some((_, Some("delete"))) => {
                gone.insert(item.get(key).ok_or_else(|| no_merge_key(item, key))?);
            }
            Some((_, Some("merge"))) => {
                let message = "merging lists cannot yet be specified in the patch";
                return Err(unprocessable(message));
            }
            Some((directive, _)) => return Err(unknown_directive(directive, item)),
        }
    }
    doc.retain(|item| item.get(key).is_none_or(|value| !gone.contains(value)));
    Ok((plain_items, replaces))
}

/// Merges the items in `order`, in that order, with the items only on the server, in theirs.
///
/// Two neighbours that are both on the server keep their order there; otherwise the item in the
/// patch comes first.
pub(super) fn sort_items(
    items: Vec<Value>,
    order: &[Value],
    server_order: &[Value],
    key: Option<&str>,
) -> Outcome<Vec<Value>> {
    let wanted_places = places(order, key)?;
    let server_places = places(server_order, key)?;
    let mut known = Vec::new();
    let mut server_only = Vec::new();
    for item in items {
        let identity = identity(&item, key)?;
        let on_server = server_places.get(identity).copied();
        match wanted_places.get(identity) {
            Some(wanted) => known.push((*wanted, on_server, item)),
            None => server_only.push((on_server, item)),
        }
    }
    known.sort_by_key(|(wanted, ..)| *wanted);
    server_only.sort_by_key(|(on_server, _)| on_server.unwrap_or(usize::MAX));

    let mut woven = Vec::with_capacity(known.len() + server_only.len());
    let mut server_only = server_only.into_iter().peekable();
    for (_, on_server, item) in known {
        let before = |(left, _): &(Option<usize>, Value)| {
            left.zip(on_server).is_some_and(|(left, right)| left < right)
        };
        while let Some((_, earlier)) = server_only.next_if(before) {
            woven.push(earlier);
        }
        woven.push(item);
    }
    woven.extend(server_only.map(|(_, item)| item));
    Ok(woven)
}

/// The order of items on the server, with the added items of the patch in the places of the deleted
/// ones. Contains identities only.
pub(super) fn order_on_server(
    present: Option<&Vec<Value>>,
    wanted: Option<&Vec<Value>>,
    key: Option<&str>,
) -> Vec<Value> {
    let Some(present) = present else { return Vec::new() };
    let (Some(wanted), Some(key)) = (wanted, key) else { return present.clone() };
    let (directives, additions): (Vec<_>, Vec<_>) =
        wanted.iter().partition(|item| item.get(DIRECTIVE).is_some());
    let deleted = directives.into_iter().filter(|item| item[DIRECTIVE] == "delete");
    let deleted: HashSet<_> = deleted.filter_map(|item| item.get(key)).collect();
    let is_kept = |item: &&Value| item.get(key).is_none_or(|value| !deleted.contains(value));
    let known: HashSet<_> =
        present.iter().filter(is_kept).filter_map(|item| item.get(key)).collect();
    let is_new = |item: &&Value| item.get(key).is_some_and(|value| !known.contains(value));
    let order = present.iter().filter(is_kept).chain(additions.into_iter().filter(is_new));
    order.take(present.len()).map(|item| only_key(item, key)).collect()
}

/// The first position of each item in `list`.
fn places<'a>(list: &'a [Value], key: Option<&str>) -> Outcome<HashMap<&'a Value, usize>> {
    let mut places = HashMap::with_capacity(list.len());
    for (at, item) in list.iter().enumerate() {
        if item.get(DIRECTIVE).is_none() {
            places.entry(identity(item, key)?).or_insert(at);
        }
    }
    Ok(places)
}

/// The identity of `item` in its list: the value of the merge key, or the item itself.
fn identity<'a>(item: &'a Value, key: Option<&str>) -> Outcome<&'a Value> {
    let Some(key) = key else { return Ok(item) };
    let Value::Object(members) = item else {
        let kind = go_kind(item);
        return Err(unprocessable(format!(
            "expected a map[string]interface {{}}, but received a {kind}"
        )));
    };
    members.get(key).ok_or_else(|| no_merge_key(members, key))
}

/// A copy of `item` with its merge key only.
fn only_key(item: &Value, key: &str) -> Value {
    item.get(key).map(|value| (key.to_owned(), value.clone())).into_iter().collect()
}

/// The common type of all items, if there are any.
pub(super) fn item_kind<'a>(
    items: impl Iterator<Item = &'a Value> + Clone,
) -> Outcome<Option<ItemKind>> {
    let mut common = None;
    for item in items.clone() {
        let kind = match item {
            Value::Object(_) => Some(ItemKind::Object),
            Value::String(_) => Some(ItemKind::Text),
            Value::Number(_) => Some(ItemKind::Number),
            Value::Bool(_) => Some(ItemKind::Bool),
            Value::Array(_) if common.is_none() => {
                let message = "the server rejected our request due to an error in our request";
                return Err(unprocessable(message));
            }
            Value::Array(_) | Value::Null => None,
        };
        if kind.is_none() || common.is_some_and(|common| Some(common) != kind) {
            let texts: Vec<_> = items.map(go_text).collect();
            let message = format!("list element types are not identical: [{}]", texts.join(" "));
            return Err(unprocessable(message));
        }
        common = kind;
    }
    Ok(common)
}
