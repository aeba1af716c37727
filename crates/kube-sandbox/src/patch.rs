//! JSON patch, merge patch and strategic merge patch.
//!
//! Each takes the stored object and the request's body, and returns the patched object or the error
//! of Kubernetes. All are pure: no clock, no store. Field ownership is computed afterwards, by
//! [`crate::managed`].
//!
//! ```text
//! application/json-patch+json             json_patch    a list of operations (RFC 6902)
//! application/merge-patch+json            merge_patch   changed members, null removes (RFC 7386)
//! application/strategic-merge-patch+json  strategic     the same, with lists merged by key
//! ```

mod json;
mod merge;
mod strategic;
pub(crate) mod wording;

#[cfg(test)]
pub(crate) mod sample;

use serde_json::Value;

pub(crate) use self::{json::json_patch, merge::merge_patch, strategic::strategic};

/// Maximum depth of an object. `serde_json`, here and in clients, reads 128 levels; the envelopes
/// of lists and watch events take some of them.
pub(crate) const DEPTH_MAX: usize = 120;

/// True if `value` nests at most `levels` containers.
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
