//! Strategic merge patch: an object and a patch, merged by the type that the object names.
//!
//! Laws: an empty patch changes nothing; without a type and without directives the result is that
//! of a merge patch.

use kube_sandbox::{
    patch::{merge_patch, strategic},
    shape::Unknown,
    types::{BuiltinShape, by_api_version},
};
use serde_json::{Value, json};

use crate::input::{documents, has_name};

/// Input: the object, a divider, the patch.
pub fn run(data: &[u8]) {
    let Some([document, patch]) = documents::<2>(data) else { return };
    let text = |name: &str| document.get(name).and_then(Value::as_str).unwrap_or_default();
    if let Some(definition) = by_api_version(text("apiVersion"), text("kind")) {
        let shape = BuiltinShape::new(definition);
        if let Ok(merged) = strategic(&document, &patch, &shape) {
            assert_eq!(
                strategic(&merged, &json!({}), &shape),
                Ok(merged),
                "nothing changes nothing"
            );
        }
    }
    let untyped = strategic(&document, &patch, &Unknown);
    if document.is_object() && patch.is_object() && !has_name(&patch, &|name| name.starts_with('$'))
    {
        assert_eq!(
            untyped,
            Ok(merge_patch(&document, &patch)),
            "without a type it is a merge patch"
        );
    }
}
