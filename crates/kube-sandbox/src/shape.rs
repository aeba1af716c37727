//! What merging needs to know about a type: which objects and lists are whole, which have parts.
//!
//! Strategic merge patch and server-side apply are written against [`Shape`]; built-in kinds answer
//! from the type table, custom resources from their structural schema, and unknown territory as
//! [`Shape::field`] of nothing: maps by key, lists whole.

use serde_json::Value;

/// How a list's items are told apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ListKind {
    /// Replaced as a whole.
    Atomic,
    /// Scalars, each its own.
    Set,
    /// Objects identified by these keys (`x-kubernetes-list-map-keys`).
    Map(Vec<String>),
}

/// A view on the type of one value. Cheap to copy; `field` and `items` never fail.
pub(crate) trait Shape: Clone {
    /// The type of member `name`, of a struct or of a map.
    #[must_use]
    fn field(&self, name: &str) -> Self;
    /// The type of a list's items.
    #[must_use]
    fn items(&self) -> Self;
    /// How server-side apply treats this list.
    fn list(&self) -> ListKind;
    /// True when server-side apply replaces this object whole (`x-kubernetes-map-type: atomic`).
    fn is_atomic_object(&self) -> bool;
    /// The default of list-map key `key` of this list's items: a missing key counts as this value.
    fn key_default(&self, key: &str) -> Option<Value>;
    /// True when `name` is a field of this type, and false when it is a key of a map or unknown to the
    /// type. Who applies something inside of a field does not own the field; a key is owned as well.
    fn declares(&self, _name: &str) -> bool {
        true
    }
    /// True when values of this type cannot say null: where nothing is left, nothing is written.
    fn drops_nulls(&self) -> bool {
        true
    }
    /// Strategic merge: `patchStrategy` contains `merge`, and its key (`None` for sets of scalars).
    #[expect(clippy::option_option, reason = "no merge, a merge without a key, a merge by a key")]
    fn patch_merge(&self) -> Option<Option<String>>;
}

/// A shape without any knowledge: objects merge by key, lists are atomic.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unknown;

impl Shape for Unknown {
    fn field(&self, _: &str) -> Self {
        Self
    }
    fn items(&self) -> Self {
        Self
    }
    fn list(&self) -> ListKind {
        ListKind::Atomic
    }
    fn is_atomic_object(&self) -> bool {
        false
    }
    fn key_default(&self, _: &str) -> Option<Value> {
        None
    }
    fn patch_merge(&self) -> Option<Option<String>> {
        None
    }
}
