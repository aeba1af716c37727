//! Names for revisions: equal templates have equal names, independent of author and notation.
//!
//! Flagger hashes a dump of Go structures, which changes with its own version. Ours is made of the
//! JSON the API server sends, in one canonical form, and has a prefix no value of Flagger's has.

use std::fmt::Write as _;

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

/// The prefix of our hashes; the number is that of the canonical form.
const PREFIX: &str = "v1-";

/// The JSON text of `value` with sorted keys, without members that are null or empty.
///
/// Empty items of a list stay: their place means something.
pub fn canonical(value: &Value) -> String {
    pruned(value).to_string()
}

/// The revision of a pod template: `v1-` and 16 hexadecimal digits.
pub fn revision(template: &Value) -> String {
    // 64 bits: among a thousand revisions of one workload, two agree by chance once in 10^13 times.
    format!("{PREFIX}{}", hex(&sha256(canonical(template).as_bytes()), 8))
}

/// Whether a stored revision was written by Flagger, so that it cannot be compared with ours.
pub fn is_foreign(revision: &str) -> bool {
    !revision.is_empty() && !revision.starts_with(PREFIX)
}

/// `value` without members that are null or empty, at any depth.
pub(crate) fn pruned(value: &Value) -> Value {
    match value {
        Value::Object(members) => Value::Object(
            members
                .iter()
                .map(|(key, member)| (key, pruned(member)))
                .filter(|(_, member)| !is_empty(member))
                .map(|(key, member)| (key.clone(), member))
                .collect::<Map<_, _>>(),
        ),
        Value::Array(items) => {
            Value::Array(items.iter().filter(|item| !item.is_null()).map(pruned).collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// Whether two values are the same but for null and empty members.
pub(crate) fn is_same(one: &Value, other: &Value) -> bool {
    one == other || pruned(one) == pruned(other)
}

/// The digest of `bytes`.
pub(crate) fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// The first `count` bytes in lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8], count: usize) -> String {
    let mut text = String::with_capacity(2 * count);
    for byte in bytes.iter().take(count) {
        let _infallible = write!(text, "{byte:02x}");
    }
    text
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(members) => members.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn nothing_is_said_in_one_way_only() {
        let cases = [
            ("keys are sorted", json!({ "b": 1, "a": 2 }), r#"{"a":2,"b":1}"#),
            ("null is nothing", json!({ "a": null, "b": 1 }), r#"{"b":1}"#),
            ("empty is nothing", json!({ "a": {}, "b": [], "c": 1 }), r#"{"c":1}"#),
            ("so is what becomes empty", json!({ "a": { "b": { "c": [] } } }), "{}"),
            ("an empty text is a text", json!({ "a": "" }), r#"{"a":""}"#),
            ("zero and false are values", json!({ "a": 0, "b": false }), r#"{"a":0,"b":false}"#),
            ("a place in a list is kept", json!([{}, { "a": 1 }]), r#"[{},{"a":1}]"#),
            ("null in a list is nothing", json!([null, 1]), "[1]"),
        ];
        for (reason, value, want) in cases {
            assert_eq!(canonical(&value), want, "{reason}");
        }
    }

    #[test]
    fn a_revision_is_a_prefix_and_sixteen_digits_and_never_changes() {
        // printf '{"a":1}' | sha256sum
        assert_eq!(revision(&json!({ "a": 1, "b": null })), "v1-015abd7f5cc57a2d");
        assert_eq!(revision(&json!({})), "v1-44136fa355b3678a");
    }

    #[test]
    fn only_hashes_of_others_are_foreign() {
        let cases = [
            ("none yet", "", false),
            ("ours", "v1-44136fa355b3678a", false),
            ("Flagger's", "5c6d7f8b9d", true),
            ("an old Flagger's", "3748391027", true),
        ];
        for (reason, hash, want) in cases {
            assert_eq!(is_foreign(hash), want, "{reason}");
        }
    }

    fn json_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "[a-c<&]{0,3}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-d]", inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn pruning_twice_is_pruning_once(value in json_value()) {
            let once = pruned(&value);
            prop_assert_eq!(pruned(&once), once);
        }

        #[test]
        fn adding_an_empty_member_changes_no_revision(value in json_value()) {
            let plain = json!({ "kept": value.clone() });
            let padded = json!({ "kept": value, "extra": null, "more": { "less": [] } });
            prop_assert_eq!(revision(&plain), revision(&padded));
        }
    }
}
