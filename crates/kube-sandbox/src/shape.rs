//! [`Shape`]: the merge rules of a type, such as which objects and lists are atomic.
//!
//! Strategic merge patch and server-side apply are written against [`Shape`]. Built-in kinds
//! implement it by the type table, custom resources by their structural schema; for unknown types
//! maps merge by key and lists are atomic.

use serde_json::Value;

/// How a list's items are identified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ListKind {
    /// Replaced as a whole.
    Atomic,
    /// Scalars, each identified by its value.
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
    /// The list type for server-side apply.
    fn list(&self) -> ListKind;
    /// True if server-side apply replaces this object as a whole (`x-kubernetes-map-type: atomic`).
    fn is_atomic_object(&self) -> bool;
    /// The default of list-map key `key` of this list's items: the value of a missing key.
    fn key_default(&self, key: &str) -> Option<Value>;
    /// True if `name` is a field of this type, and false if it is a key of a map or unknown to the
    /// type. Applying something below a field gives no ownership of the field itself; a map key is
    /// owned as well.
    fn declares(&self, _name: &str) -> bool {
        true
    }
    /// True if values of this type cannot be null: an emptied value is not written.
    fn drops_nulls(&self) -> bool {
        true
    }
    /// Strategic merge: `patchStrategy` contains `merge`, and its key (`None` for sets of scalars).
    #[expect(clippy::option_option, reason = "no merge, a merge without a key, a merge by a key")]
    fn patch_merge(&self) -> Option<Option<String>>;
}

/// The shape of an unknown type: objects merge by key, lists are atomic.
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
