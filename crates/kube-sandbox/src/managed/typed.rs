//! Values with their types: the fields of a value, and the differences between two values.
//!
//! A field is a leaf if it is a scalar, null, empty, or an object or list with an atomic type.
//! Other values are sets of their parts. List items are identified by key or value, never by
//! position; an item without identity (a list-map item without keys) has no owner.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{
    element::{PathElement, same},
    fields::{FieldSet, Node},
};
use crate::{
    patch::DEPTH_MAX,
    shape::{ListKind, Shape},
};

/// Fields of a new value that were added, modified or removed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Comparison {
    pub added: FieldSet,
    pub modified: FieldSet,
    pub removed: FieldSet,
}

/// The parts of `value`; absent for leaves.
pub(super) enum Inside<'a> {
    Members(&'a Map<String, Value>),
    Items(&'a [Value], ListKind),
}

/// All items of a list with the same identity: one, unless the list is malformed.
struct Twins<'a> {
    first: &'a Value,
    more: Vec<&'a Value>,
}

/// The nodes of one level of a [`Comparison`] under construction.
#[derive(Default)]
struct Nodes {
    added: Vec<Node>,
    modified: Vec<Node>,
    removed: Vec<Node>,
}

/// The fields someone who applies `value` owns: its leaves, and the items of its lists.
pub(crate) fn fields_of<S: Shape>(value: &Value, shape: &S) -> FieldSet {
    applied_parts(value, shape, DEPTH_MAX).unwrap_or_default()
}

/// The differences from `old` to `new`. Without `old` everything was added, down from the root.
pub(crate) fn compare<S: Shape>(old: Option<&Value>, new: &Value, shape: &S) -> Comparison {
    let Some(old) = old else {
        let added = parts(new, shape, DEPTH_MAX).unwrap_or_default();
        return Comparison { added, ..Comparison::default() };
    };
    let mut comparison = Comparison::default();
    differ(old, new, shape, DEPTH_MAX, &mut comparison);
    comparison
}

/// The identity of `item` in a list with this shape and kind.
pub(super) fn item_element<S: Shape>(
    item: &Value,
    list: &S,
    kind: &ListKind,
) -> Result<PathElement, String> {
    let refuse = |why: &str| Err(why.to_owned());
    match (kind, item) {
        (ListKind::Atomic, _) => refuse("invalid indexing of non-associative list"),
        (ListKind::Set, Value::Object(_)) => {
            refuse("associative list without keys has an element that's a map type")
        }
        (ListKind::Set, Value::Array(_)) => {
            refuse("not supported: associative list with lists as elements")
        }
        (ListKind::Set, Value::Null) => {
            refuse("associative list without keys has an element that's an explicit null")
        }
        (ListKind::Set, scalar) => Ok(PathElement::Value(Box::new(scalar.clone()))),
        (ListKind::Map(keys), Value::Object(members)) => keyed_element(members, list, keys),
        (ListKind::Map(_), Value::Null) => {
            refuse("associative list with keys may not have a null element")
        }
        (ListKind::Map(_), _) => refuse("associative list with keys may not have non-map elements"),
    }
}

fn keyed_element<S: Shape>(
    members: &Map<String, Value>,
    list: &S,
    keys: &[String],
) -> Result<PathElement, String> {
    let mut values = Vec::with_capacity(keys.len());
    for key in keys {
        let value = members.get(key).cloned().or_else(|| list.key_default(key));
        values.extend(value.map(|value| (Box::from(key.as_str()), value)));
    }
    if values.is_empty() && !keys.is_empty() {
        let quoted: Vec<_> = keys.iter().map(|key| format!("{key:?}")).collect();
        return Err(format!(
            "associative list with keys has an element that omits all key fields [{}] (and \
             doesn't have default values for any key fields)",
            quoted.join(" ")
        ));
    }
    Ok(PathElement::key(values))
}

/// The parts of `value`, unless it is a leaf or `levels` are used up.
pub(super) fn inside<'a, S: Shape>(
    value: &'a Value,
    shape: &S,
    levels: usize,
) -> Option<Inside<'a>> {
    match value {
        Value::Object(members) if !members.is_empty() && levels > 0 => {
            (!shape.is_atomic_object()).then_some(Inside::Members(members))
        }
        Value::Array(items) if !items.is_empty() && levels > 0 => match shape.list() {
            ListKind::Atomic => None,
            kind => Some(Inside::Items(items, kind)),
        },
        _ => None,
    }
}

/// Items by identity. Items without one are left out.
fn by_identity<'a, S: Shape>(
    items: &'a [Value],
    list: &S,
    kind: &ListKind,
) -> BTreeMap<PathElement, Twins<'a>> {
    let mut found: BTreeMap<PathElement, Twins<'a>> = BTreeMap::new();
    for item in items {
        let Ok(element) = item_element(item, list, kind) else { continue };
        found
            .entry(element)
            .and_modify(|twins| twins.more.push(item))
            .or_insert(Twins { first: item, more: Vec::new() });
    }
    found
}

/// All paths below `value`, including those of inner nodes.
fn parts<S: Shape>(value: &Value, shape: &S, levels: usize) -> Option<FieldSet> {
    let nodes = match inside(value, shape, levels)? {
        Inside::Members(members) => {
            let node = |(name, value): (&String, &Value)| {
                let below = parts(value, &shape.field(name), levels - 1).unwrap_or_default();
                Node { element: PathElement::field(name), owned: true, below }
            };
            members.iter().map(node).collect()
        }
        Inside::Items(items, kind) => {
            let item_shape = shape.items();
            let found = by_identity(items, shape, &kind);
            found
                .into_iter()
                .map(|(element, twins)| twins.whole(element, &item_shape, levels - 1))
                .collect()
        }
    };
    Some(FieldSet::of_nodes(nodes))
}

/// The paths below `value` that its applier owns; `None` if `value` itself is the leaf.
fn applied_parts<S: Shape>(value: &Value, shape: &S, levels: usize) -> Option<FieldSet> {
    let nodes = match inside(value, shape, levels)? {
        Inside::Members(members) => {
            let node = |(name, value): (&String, &Value)| {
                let field = shape.field(name);
                let below = applied_parts(value, &field, levels - 1);
                let is_leaf = below.is_none() && !is_empty_list_of_parts(value, &field);
                let owned = is_leaf || !shape.declares(name);
                let below = below.unwrap_or_default();
                Node { element: PathElement::field(name), owned, below }
            };
            members.iter().map(node).collect()
        }
        Inside::Items(items, kind) => {
            let item_shape = shape.items();
            let node = |(element, twins): (PathElement, Twins<'_>)| {
                let below =
                    twins.only().and_then(|item| applied_parts(item, &item_shape, levels - 1));
                Node { element, owned: true, below: below.unwrap_or_default() }
            };
            by_identity(items, shape, &kind).into_iter().map(node).collect()
        }
    };
    Some(FieldSet::of_nodes(nodes))
}

/// Applying `finalizers: []` applies no finalizer; it does not own the list.
fn is_empty_list_of_parts<S: Shape>(value: &Value, shape: &S) -> bool {
    value.as_array().is_some_and(Vec::is_empty) && shape.list() != ListKind::Atomic
}

/// Records the differences below the value, and returns whether the value itself differs as a leaf.
fn differ<S: Shape>(
    old: &Value,
    new: &Value,
    shape: &S,
    levels: usize,
    found: &mut Comparison,
) -> bool {
    let (old_inside, new_inside) = (inside(old, shape, levels), inside(new, shape, levels));
    match (&old_inside, &new_inside) {
        (None, None) => return !same(old, new),
        (Some(Inside::Members(old)), Some(Inside::Members(new))) => {
            *found = differ_members(old, new, shape, levels);
            return false;
        }
        (Some(Inside::Items(old, kind)), Some(Inside::Items(new, _))) => {
            *found = differ_items(old, new, shape, kind, levels);
            return false;
        }
        _ => {}
    }
    // Only one side has parts, or their types differ: all parts were added or removed.
    found.removed = parts(old, shape, levels).unwrap_or_default();
    found.added = parts(new, shape, levels).unwrap_or_default();
    !(may_stand_for(old, new) || may_stand_for(new, old))
}

/// True if `empty` is `full` without its parts, so that only parts changed.
fn may_stand_for(empty: &Value, full: &Value) -> bool {
    match empty {
        Value::Null => full.is_object() || full.is_array(),
        Value::Object(members) => members.is_empty() && full.is_object(),
        Value::Array(items) => items.is_empty() && full.is_array(),
        _ => false,
    }
}

fn differ_members<S: Shape>(
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    shape: &S,
    levels: usize,
) -> Comparison {
    let mut nodes = Nodes::default();
    for (name, old) in old {
        let field = shape.field(name);
        if let Some(new) = new.get(name) {
            nodes.note(|| PathElement::field(name), old, new, &field, levels - 1);
        } else {
            let below = parts(old, &field, levels - 1).unwrap_or_default();
            nodes.removed.push(Node { element: PathElement::field(name), owned: true, below });
        }
    }
    for (name, new) in new.iter().filter(|(name, _)| !old.contains_key(*name)) {
        let below = parts(new, &shape.field(name), levels - 1).unwrap_or_default();
        nodes.added.push(Node { element: PathElement::field(name), owned: true, below });
    }
    nodes.into_comparison()
}

fn differ_items<S: Shape>(
    old: &[Value],
    new: &[Value],
    shape: &S,
    kind: &ListKind,
    levels: usize,
) -> Comparison {
    let item_shape = shape.items();
    let mut nodes = Nodes::default();
    let mut remaining = by_identity(new, shape, kind);
    for (element, old) in by_identity(old, shape, kind) {
        let Some(new) = remaining.remove(&element) else {
            nodes.removed.push(old.whole(element, &item_shape, levels - 1));
            continue;
        };
        match (old.only(), new.only()) {
            (Some(old), Some(new)) => {
                nodes.note(|| element.clone(), old, new, &item_shape, levels - 1);
            }
            // Duplicate items cannot be told apart; together they are one leaf.
            (None, None) if old.same_as(&new) => {}
            (None, None) => nodes.modified.push(new.whole(element, &item_shape, levels - 1)),
            _ => {
                nodes.removed.push(old.whole(element.clone(), &item_shape, levels - 1));
                nodes.added.push(new.whole(element, &item_shape, levels - 1));
            }
        }
    }
    for (element, new) in remaining {
        nodes.added.push(new.whole(element, &item_shape, levels - 1));
    }
    nodes.into_comparison()
}

// === impl Twins ===

impl<'a> Twins<'a> {
    fn only(&self) -> Option<&'a Value> {
        self.more.is_empty().then_some(self.first)
    }

    /// The node of the item with everything in it; duplicates are a leaf.
    fn whole<S: Shape>(&self, element: PathElement, shape: &S, levels: usize) -> Node {
        let below = self.only().and_then(|item| parts(item, shape, levels)).unwrap_or_default();
        Node { element, owned: true, below }
    }

    fn same_as(&self, other: &Self) -> bool {
        same(self.first, other.first)
            && self.more.len() == other.more.len()
            && self.more.iter().zip(&other.more).all(|(left, right)| same(left, right))
    }
}

// === impl Nodes ===

impl Nodes {
    /// Compares two values at the same path.
    fn note<S: Shape>(
        &mut self,
        element: impl Fn() -> PathElement,
        old: &Value,
        new: &Value,
        shape: &S,
        levels: usize,
    ) {
        let mut found = Comparison::default();
        let modified = differ(old, new, shape, levels, &mut found);
        let Comparison { added, modified: below, removed } = found;
        if modified || !below.is_empty() {
            self.modified.push(Node { element: element(), owned: modified, below });
        }
        for (below, nodes) in [(added, &mut self.added), (removed, &mut self.removed)] {
            if !below.is_empty() {
                nodes.push(Node { element: element(), owned: false, below });
            }
        }
    }

    fn into_comparison(self) -> Comparison {
        Comparison {
            added: FieldSet::of_nodes(self.added),
            modified: FieldSet::of_nodes(self.modified),
            removed: FieldSet::of_nodes(self.removed),
        }
    }
}
