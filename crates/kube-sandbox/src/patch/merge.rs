//! JSON merge patch, RFC 7386.

use serde_json::{Map, Value};

/// Merges `patch` into `doc`: null removes, objects merge, anything else replaces.
///
/// A `patch` that is not an object replaces `doc`, as the RFC has it; the API server refuses such
/// a body before it comes here.
pub(crate) fn merge_patch(doc: &Value, patch: &Value) -> Value {
    let mut merged = doc.clone();
    merge_into(&mut merged, patch);
    merged
}

fn merge_into(doc: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *doc = without_nulls(patch);
        return;
    };
    if !doc.is_object() {
        *doc = Value::Object(Map::new());
    }
    let Value::Object(doc) = doc else { return };
    for (name, wanted) in patch {
        if wanted.is_null() {
            doc.remove(name);
        } else if let Some(present) = doc.get_mut(name) {
            merge_into(present, wanted);
        } else {
            doc.insert(name.clone(), without_nulls(wanted));
        }
    }
}

/// A copy of `value` in which no object has a null member.
///
/// The RFC leaves lists alone; Kubernetes also applies this to the objects inside of them.
pub(super) fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let kept = members.iter().filter(|(_, value)| !value.is_null());
            kept.map(|(name, value)| (name.clone(), without_nulls(value))).collect()
        }
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        scalar => scalar.clone(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::{super::sample, *};

    #[test]
    fn merge_patch_follows_the_rfc() {
        // The rows of RFC 7386, appendix A, with an object as patch, and a few others.
        let cases = [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
            (
                json!({"a": {"b": "c"}}),
                json!({"a": {"b": "d", "c": null}}),
                json!({"a": {"b": "d"}}),
            ),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
            (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
            (json!([1, 2]), json!({"a": "b", "c": null}), json!({"a": "b"})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
            (json!(["a"]), json!(["c"]), json!(["c"])),
        ];
        for (doc, patch, want) in cases {
            assert_eq!(merge_patch(&doc, &patch), want, "{doc} with {patch}");
        }
    }

    #[test]
    fn nulls_inside_new_lists_are_dropped_as_kubernetes_does() {
        let patch = json!({"a": [{"b": null, "c": 1}, null]});
        assert_eq!(merge_patch(&json!({}), &patch), json!({"a": [{"c": 1}, null]}));
    }

    proptest! {
        #[test]
        fn merging_twice_is_merging_once(doc in sample::any_object(), patch in sample::any_object()) {
            let once = merge_patch(&doc, &patch);
            prop_assert_eq!(merge_patch(&once, &patch), once);
        }

        #[test]
        fn what_is_merged_is_there(doc in sample::any_object(), patch in sample::any_object()) {
            let merged = merge_patch(&doc, &patch);
            for (name, wanted) in patch.as_object().unwrap() {
                match wanted {
                    Value::Null => prop_assert!(merged.get(name).is_none()),
                    Value::Object(_) => prop_assert!(merged[name].is_object()),
                    other => prop_assert_eq!(&merged[name], &without_nulls(other)),
                }
            }
        }
    }
}
