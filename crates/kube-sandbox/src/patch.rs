//! The three kinds of patch a client may send to an existing object.
//!
//! Each takes the object as it is and what the client sent, and gives the object as it shall be, or
//! the refusal Kubernetes would answer with. None of them looks at the clock or the store, and none
//! owns anything: who owns which field is decided afterwards, by [`crate::managed`].
//!
//! ```text
//! application/json-patch+json             json_patch    a list of operations (RFC 6902)
//! application/merge-patch+json            merge_patch   the wanted members, null removes (RFC 7386)
//! application/strategic-merge-patch+json  strategic     the same, and lists merge by key
//! ```

mod json;
mod merge;
mod strategic;
pub(crate) mod wording;

#[cfg(test)]
pub(crate) mod sample;

use serde_json::Value;

pub(crate) use self::{json::json_patch, merge::merge_patch, strategic::strategic};

/// How deep an object may nest. Our own parser, and that of our clients, reads 128 levels; a list
/// of objects and a watch event take some of them for their envelopes.
pub(crate) const DEPTH_MAX: usize = 120;

/// True when `value` has no more than `levels` containers inside one another.
pub(crate) fn fits_depth(value: &Value, levels: usize) -> bool {
    let below = |inner: &Value| levels > 0 && fits_depth(inner, levels - 1);
    match value {
        Value::Object(members) => levels > 0 && members.values().all(below),
        Value::Array(items) => levels > 0 && items.iter().all(below),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn depth_counts_containers() {
        assert!(fits_depth(&json!(1), 0));
        assert!(!fits_depth(&json!([]), 0));
        assert!(fits_depth(&json!({"a": [1]}), 2));
        assert!(!fits_depth(&json!({"a": [[1]]}), 2));
    }
}
