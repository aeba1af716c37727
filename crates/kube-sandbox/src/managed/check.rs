//! Validates a configuration to be applied: list items must be distinguishable.
//!
//! Live objects are accepted with such errors; an applier's configuration is not.

use std::collections::BTreeSet;

use serde_json::Value;

use super::typed::{Inside, inside, item_element};
use crate::{
    patch::{DEPTH_MAX, wording::go_text},
    shape::{ListKind, Shape},
};

/// Errors of `value` as a configuration to apply: duplicate list items, or items without identity.
/// Each error names the path.
pub(super) fn complaints<S: Shape>(value: &Value, shape: &S) -> Vec<String> {
    let mut found = Vec::new();
    complain(value, shape, "", DEPTH_MAX, &mut found);
    found
}

fn complain<S: Shape>(value: &Value, shape: &S, at: &str, levels: usize, found: &mut Vec<String>) {
    let located =
        |what: &str| if at.is_empty() { what.to_owned() } else { format!("{at}: {what}") };
    if shape.list() != ListKind::Atomic && !value.is_array() && !value.is_null() {
        found.push(located(&format!("expected list, got &{{{}}}", go_text(value))));
        return;
    }
    match inside(value, shape, levels) {
        None => {}
        Some(Inside::Members(members)) => {
            for (name, value) in members {
                let at = format!("{at}.{name}");
                complain(value, &shape.field(name), &at, levels - 1, found);
            }
        }
        Some(Inside::Items(items, kind)) => {
            let item_shape = shape.items();
            let mut seen = BTreeSet::new();
            for (place, item) in items.iter().enumerate() {
                let element = match item_element(item, shape, &kind) {
                    Ok(element) => element,
                    Err(why) => {
                        found.push(located(&format!("element {place}: {why}")));
                        return;
                    }
                };
                let below = format!("{at}{element}");
                if !seen.insert(element.clone()) {
                    found.push(located(&format!("duplicate entries for key {element}")));
                }
                complain(item, &item_shape, &below, levels - 1, found);
            }
        }
    }
}

/// Whether a keyed list in `value` has an item without any key.
pub(super) fn has_nameless_item<S: Shape>(value: &Value, shape: &S) -> bool {
    is_nameless(value, shape, DEPTH_MAX)
}

fn is_nameless<S: Shape>(value: &Value, shape: &S, levels: usize) -> bool {
    match inside(value, shape, levels) {
        None => false,
        Some(Inside::Members(members)) => {
            members.iter().any(|(name, value)| is_nameless(value, &shape.field(name), levels - 1))
        }
        Some(Inside::Items(items, kind)) => {
            let item_shape = shape.items();
            items.iter().any(|item| {
                item_element(item, shape, &kind).is_err()
                    || is_nameless(item, &item_shape, levels - 1)
            })
        }
    }
}
