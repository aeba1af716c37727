//! Strategic merge patch: an object and a patch, merged by the type that the object names.
//!
//! Laws: an empty patch changes nothing; without a type and without directives the result is that
//! of a merge patch.

use kube_sandbox::fuzzing::{merge_patch, strategic_merge};
use serde_json::json;

use crate::input::{documents, has_name};

/// Input: the object, a divider, the patch.
pub fn run(data: &[u8]) {
    let Some([object, patch]) = documents::<2>(data) else { return };
    if let Ok(merged) = strategic_merge(&object, &patch, true) {
        let again = strategic_merge(&merged, &json!({}), true);
        assert_eq!(again, Ok(merged), "an empty patch changes nothing");
    }
    let untyped = strategic_merge(&object, &patch, false);
    let has_directive = has_name(&patch, &|name| name.starts_with('$'));
    if object.is_object() && patch.is_object() && !has_directive {
        assert_eq!(untyped, Ok(merge_patch(&object, &patch)), "without a type it is a merge patch");
    }
}
