//! Merging of a configuration into a live object, and removal of fields.
//!
//! Called by [`super::apply`]. Works on plain JSON with a [`Shape`] for its type.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{
    element::PathElement,
    fields::FieldSet,
    typed::{Inside, inside, item_element},
};
use crate::{
    patch::DEPTH_MAX,
    shape::{ListKind, Shape},
};

/// Merges `config` into `live`: containers are merged, leaves are replaced.
pub(super) fn merge_into<S: Shape>(live: &mut Value, config: &Value, shape: &S) {
    merge_value(live, config, shape, DEPTH_MAX);
}

/// Removes the fields of `gone` from the object `value`, with everything below them.
///
/// A field that is not in `gone`, but becomes empty, is set to null until [`sweep`] removes it: it
/// must exist while owners are computed, or they would lose it.
pub(super) fn remove<S: Shape>(value: &mut Value, gone: &FieldSet, shape: &S) {
    if !gone.is_empty() {
        leaves_something(value, gone, shape, DEPTH_MAX);
    }
}

/// Removes the nulls that [`remove`] left in `value`, where the type does not allow null.
pub(super) fn sweep<S: Shape>(value: &mut Value, gone: &FieldSet, shape: &S) {
    match value {
        Value::Object(members) => members.retain(|name, value| {
            let Some(node) = gone.field_node(name) else { return true };
            sweep(value, &node.below, &shape.field(name));
            !(value.is_null() && shape.drops_nulls())
        }),
        Value::Array(items) => {
            let (kind, item_shape) = (shape.list(), shape.items());
            for item in items {
                let element = item_element(item, shape, &kind).ok();
                if let Some(node) = element.and_then(|element| gone.node(&element)) {
                    sweep(item, &node.below, &item_shape);
                }
            }
        }
        _ => {}
    }
}

fn merge_value<S: Shape>(live: &mut Value, config: &Value, shape: &S, levels: usize) {
    match (inside(live, shape, levels).is_some(), inside(config, shape, levels)) {
        // Null names no members, so it removes none.
        (true, None) if config.is_null() => {}
        (_, Some(Inside::Members(config))) if live.is_object() => {
            if let Value::Object(live) = live {
                merge_members(live, config, shape, levels);
            }
        }
        (_, Some(Inside::Items(config, kind))) if live.is_array() => {
            if let Value::Array(live) = live {
                *live = weave(std::mem::take(live), config, shape, &kind, levels);
            }
        }
        // An empty list or object adds nothing to a non-empty one.
        (true, None) if is_empty_like(config, live) => {}
        _ => *live = config.clone(),
    }
}

fn is_empty_like(config: &Value, live: &Value) -> bool {
    match (config, live) {
        (Value::Object(config), Value::Object(_)) => config.is_empty(),
        (Value::Array(config), Value::Array(_)) => config.is_empty(),
        _ => false,
    }
}

fn merge_members<S: Shape>(
    live: &mut Map<String, Value>,
    config: &Map<String, Value>,
    shape: &S,
    levels: usize,
) {
    for (name, wanted) in config {
        if let Some(present) = live.get_mut(name) {
            merge_value(present, wanted, &shape.field(name), levels - 1);
        } else {
            live.insert(name.clone(), wanted.clone());
        }
    }
}

/// Merges lists whose items have identities. Items in both lists come in the order of `config`,
/// items only in `live` keep their place between their neighbours, and new ones follow their
/// predecessor in `config`.
fn weave<S: Shape>(
    live: Vec<Value>,
    config: &[Value],
    shape: &S,
    kind: &ListKind,
    levels: usize,
) -> Vec<Value> {
    let identify = |item| Some((item_element(item, shape, kind).ok()?, item));
    let wanted: Vec<(PathElement, &Value)> = config.iter().filter_map(identify).collect();
    let turns: BTreeMap<_, _> = wanted.iter().enumerate().map(|(at, (it, _))| (it, at)).collect();
    let elements: Vec<_> = live.iter().map(|item| item_element(item, shape, kind).ok()).collect();
    let places = unique_places(&elements);
    let mut live: Vec<_> = live.into_iter().map(Some).collect();
    let mut shared =
        wanted.iter().map(|(element, _)| element).filter(|it| places.contains_key(it)).peekable();

    let item_shape = shape.items();
    let mut woven = Vec::with_capacity(live.len().max(wanted.len()));
    let (mut left, mut right) = (0, 0);
    while left < live.len() || right < wanted.len() {
        let here = elements.get(left).and_then(Option::as_ref);
        let turn = here.and_then(|here| turns.get(here)).copied();
        // An item in both lists waits for its turn in the order of `config`.
        let is_early = turn != Some(right)
            && turn.is_some()
            && shared.peek().is_some_and(|next| Some(*next) != here);
        if is_early && right < wanted.len() {
            left += 1;
            continue;
        }
        if turn.is_none() && left < live.len() {
            woven.extend(live.get_mut(left).and_then(Option::take));
            left += 1;
            continue;
        }
        left += usize::from(turn.is_some_and(|turn| turn <= right));
        let Some((element, item)) = wanted.get(right) else { continue };
        let present = places.get(element).copied().flatten();
        let present = present.and_then(|at| live.get_mut(at)?.take());
        let mut merged = present.unwrap_or_default();
        merge_value(&mut merged, item, &item_shape, levels - 1);
        woven.push(merged);
        shared.next_if(|next| *next == element);
        right += 1;
    }
    woven
}

/// The position of each element; `None` for duplicates, which are not merged.
fn unique_places(elements: &[Option<PathElement>]) -> BTreeMap<&PathElement, Option<usize>> {
    let mut places = BTreeMap::new();
    for (at, element) in elements.iter().enumerate() {
        if let Some(element) = element {
            places.entry(element).and_modify(|place| *place = None).or_insert(Some(at));
        }
    }
    places
}

/// Removes fields, and returns whether `value` still has any content.
fn leaves_something<S: Shape>(
    value: &mut Value,
    gone: &FieldSet,
    shape: &S,
    levels: usize,
) -> bool {
    let Some(levels) = levels.checked_sub(1) else { return true };
    match value {
        Value::Object(members) => {
            if shape.is_atomic_object() {
                return false;
            }
            members.retain(|name, value| match gone.field_node(name) {
                None => true,
                Some(node) if node.owned => false,
                Some(node) => {
                    if !leaves_something(value, &node.below, &shape.field(name), levels) {
                        *value = Value::Null;
                    }
                    true
                }
            });
            !members.is_empty()
        }
        Value::Array(items) => {
            let kind = shape.list();
            if kind == ListKind::Atomic {
                return false;
            }
            let item_shape = shape.items();
            items.retain_mut(|item| {
                let element = item_element(item, shape, &kind).ok();
                match element.and_then(|element| gone.node(&element)) {
                    None => true,
                    Some(node) if node.owned => false,
                    Some(node) => {
                        // An item keeps existing when only its identity is left.
                        leaves_something(item, &node.below, &item_shape, levels);
                        true
                    }
                }
            });
            !items.is_empty()
        }
        _ => true,
    }
}
