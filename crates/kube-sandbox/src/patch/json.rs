//! JSON patch, RFC 6902, with the leniencies of the library that Kubernetes uses.
//!
//! These are: `replace` of a missing member adds it, negative indexes count from the end, and
//! `test` of a missing member against null succeeds. Operations work on a copy, which the first
//! failure discards. Bodies are untrusted, hence the limits on operations, on the size of copies
//! and on depth.

use std::io;

use serde_json::{Map, Value};

use super::{DEPTH_MAX, fits_depth};
use crate::failure::{Failure, Outcome};

const OPERATIONS_MAX: usize = 10_000;

/// Maximum bytes added by all `copy` operations of a patch: the limit of a request's body, 3 MiB.
const COPIED_BYTES_MAX: usize = 3 * 1024 * 1024;

/// A failed operation. Kubernetes tells the client neither which one nor why.
struct Inapplicable;

type Step<T> = Result<T, Inapplicable>;

/// The target of an operation: its container, and its key or index there.
enum Place<'a> {
    Member(&'a mut Map<String, Value>, String),
    Item(&'a mut Vec<Value>, String),
}

/// `doc` after all operations of `patch`, the request's body.
pub(crate) fn json_patch(doc: &Value, patch: &[u8]) -> Outcome<Value> {
    let undecodable = |error| Failure::bad_request(format!("error decoding patch: {error}"));
    let operations: Vec<Map<String, Value>> = serde_json::from_slice(patch).map_err(undecodable)?;
    if operations.len() > OPERATIONS_MAX {
        let count = operations.len();
        return Err(Failure::too_large(format!(
            "The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {count}"
        )));
    }
    let mut patched = doc.clone();
    let mut copied_bytes = 0;
    for operation in operations {
        carry_out(operation, &mut patched, &mut copied_bytes).map_err(|Inapplicable| {
            let message = "the server rejected our request due to an error in our request";
            Failure::new(422, "Invalid", message).without_details()
        })?;
    }
    Ok(patched)
}

fn carry_out(
    mut operation: Map<String, Value>,
    doc: &mut Value,
    copied_bytes: &mut usize,
) -> Step<()> {
    let value = operation.remove("value").unwrap_or_default();
    let text = |name: &str| operation.get(name).and_then(Value::as_str);
    let path = text("path").ok_or(Inapplicable)?;
    match text("op").ok_or(Inapplicable)? {
        "add" => add(doc, path, value),
        "remove" => find(doc, path)?.take().map(drop),
        "replace" => replace(doc, path, value),
        "move" => {
            let from = text("from").ok_or(Inapplicable)?;
            let moved = find(doc, from)?.take()?;
            add(doc, path, moved)
        }
        "copy" => {
            let from = text("from").ok_or(Inapplicable)?;
            let copied = find(doc, from)?.get()?.map_or(Value::Null, |value| value.clone());
            *copied_bytes = copied_bytes.saturating_add(written_size(&copied));
            if *copied_bytes > COPIED_BYTES_MAX {
                return Err(Inapplicable);
            }
            add(doc, path, copied)
        }
        "test" => test(doc, path, &value),
        _ => Err(Inapplicable),
    }
}

fn add(doc: &mut Value, path: &str, value: Value) -> Step<()> {
    check_depth(path, &value)?;
    match find(doc, path)? {
        Place::Member(members, name) => {
            members.insert(name, value);
        }
        Place::Item(items, name) if name == "-" => items.push(value),
        Place::Item(items, name) => {
            let at = index(&name, items.len() + 1)?;
            items.insert(at, value);
        }
    }
    Ok(())
}

fn replace(doc: &mut Value, path: &str, value: Value) -> Step<()> {
    check_depth(path, &value)?;
    if path.is_empty() {
        if !value.is_object() {
            return Err(Inapplicable);
        }
        *doc = value;
        return Ok(());
    }
    match find(doc, path)? {
        Place::Member(members, name) => {
            members.insert(name, value);
        }
        Place::Item(items, name) => {
            let at = index(&name, items.len())?;
            *items.get_mut(at).ok_or(Inapplicable)? = value;
        }
    }
    Ok(())
}

fn test(doc: &mut Value, path: &str, wanted: &Value) -> Step<()> {
    let holds = if path.is_empty() {
        *doc == *wanted
    } else {
        find(doc, path)?.get()?.map_or(wanted.is_null(), |value| *value == *wanted)
    };
    if holds { Ok(()) } else { Err(Inapplicable) }
}

/// Copying an object into itself doubles its depth each time; the limit is far below the stack's.
fn check_depth(path: &str, value: &Value) -> Step<()> {
    let above = path.matches('/').count();
    let fits = DEPTH_MAX.checked_sub(above).is_some_and(|levels| fits_depth(value, levels));
    if fits { Ok(()) } else { Err(Inapplicable) }
}

/// The target at `path`. Its container must exist, the value itself need not.
fn find<'a>(doc: &'a mut Value, path: &str) -> Step<Place<'a>> {
    let (above, name) = path.rsplit_once('/').ok_or(Inapplicable)?;
    let mut container = doc;
    // Text before the first slash is not part of a pointer, and ignored as in the library.
    for token in above.split('/').skip(1) {
        container = match container {
            Value::Object(members) => members.get_mut(&unescape(token)),
            Value::Array(items) => {
                let at = index(token, items.len())?;
                items.get_mut(at)
            }
            _ => None,
        }
        .ok_or(Inapplicable)?;
    }
    match container {
        Value::Object(members) => Ok(Place::Member(members, unescape(name))),
        Value::Array(items) => Ok(Place::Item(items, unescape(name))),
        _ => Err(Inapplicable),
    }
}

/// The index `token` in a list of `len` items; a negative one counts from the end.
fn index(token: &str, len: usize) -> Step<usize> {
    let at: i64 = token.parse().map_err(|_| Inapplicable)?;
    let len = i64::try_from(len).map_err(|_| Inapplicable)?;
    let from_start = if at < 0 { at + len } else { at };
    let in_range = (0..len).contains(&from_start);
    usize::try_from(from_start).ok().filter(|_| in_range).ok_or(Inapplicable)
}

fn unescape(token: &str) -> String {
    token.replace("~1", "/").replace("~0", "~")
}

/// Size of `value` as JSON text, without storing the text.
fn written_size(value: &Value) -> usize {
    struct Counter(usize);
    impl io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    // The counter never fails, and all keys are text.
    let written = serde_json::to_writer(&mut counter, value);
    written.map_or(usize::MAX, |()| counter.0)
}

// === impl Place ===

impl<'a> Place<'a> {
    fn get(self) -> Step<Option<&'a mut Value>> {
        match self {
            Self::Member(members, name) => Ok(members.get_mut(&name)),
            Self::Item(items, name) => {
                let at = index(&name, items.len())?;
                Ok(items.get_mut(at))
            }
        }
    }

    fn take(self) -> Step<Value> {
        match self {
            Self::Member(members, name) => members.remove(&name).ok_or(Inapplicable),
            Self::Item(items, name) => {
                let at = index(&name, items.len())?;
                Ok(items.remove(at))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::{super::sample, *};

    fn patched(doc: &Value, operations: &Value) -> Outcome<Value> {
        json_patch(doc, operations.to_string().as_bytes())
    }

    #[test]
    fn operations_do_what_the_rfc_says() {
        let doc = json!({"a": {"b": [1, 2]}, "c/d": {"~": 1}});
        let cases = [
            (
                "add a member",
                json!([{"op": "add", "path": "/a/x", "value": 3}]),
                json!({"a": {"b": [1, 2], "x": 3}, "c/d": {"~": 1}}),
            ),
            (
                "add in the middle, at the end and by dash",
                json!([
                    {"op": "add", "path": "/a/b/1", "value": 9},
                    {"op": "add", "path": "/a/b/3", "value": 8},
                    {"op": "add", "path": "/a/b/-", "value": 7},
                ]),
                json!({"a": {"b": [1, 9, 2, 8, 7]}, "c/d": {"~": 1}}),
            ),
            (
                "escaped names",
                json!([{"op": "replace", "path": "/c~1d/~0", "value": 2}]),
                json!({"a": {"b": [1, 2]}, "c/d": {"~": 2}}),
            ),
            (
                "remove, from the end as well",
                json!([{"op": "remove", "path": "/a/b/-1"}, {"op": "remove", "path": "/c~1d"}]),
                json!({"a": {"b": [1]}}),
            ),
            (
                "move and copy",
                json!([
                    {"op": "move", "from": "/a/b", "path": "/e"},
                    {"op": "copy", "from": "/e/0", "path": "/a/first"},
                ]),
                json!({"a": {"first": 1}, "e": [1, 2], "c/d": {"~": 1}}),
            ),
            (
                "replace adds a missing member, as Kubernetes does",
                json!([{"op": "replace", "path": "/a/z", "value": 1}]),
                json!({"a": {"b": [1, 2], "z": 1}, "c/d": {"~": 1}}),
            ),
            (
                "tests that hold change nothing",
                json!([
                    {"op": "test", "path": "/a/b", "value": [1, 2]},
                    {"op": "test", "path": "/a/nothing", "value": null},
                ]),
                doc.clone(),
            ),
        ];
        for (reason, operations, want) in cases {
            assert_eq!(patched(&doc, &operations), Ok(want), "{reason}");
        }
    }

    #[test]
    fn an_operation_that_does_not_apply_refuses_the_whole_patch() {
        let doc = json!({"a": [1], "s": "text"});
        let cases = [
            ("a failed test", json!({"op": "test", "path": "/a/0", "value": 2})),
            ("a missing container", json!({"op": "add", "path": "/x/y", "value": 1})),
            ("a scalar as container", json!({"op": "add", "path": "/s/y", "value": 1})),
            ("a missing member", json!({"op": "remove", "path": "/x"})),
            ("a move of nothing", json!({"op": "move", "from": "/x", "path": "/y"})),
            ("beyond the end", json!({"op": "add", "path": "/a/2", "value": 1})),
            ("before the start", json!({"op": "remove", "path": "/a/-2"})),
            ("a replace beyond the end", json!({"op": "replace", "path": "/a/1", "value": 1})),
            ("not an index", json!({"op": "add", "path": "/a/x", "value": 1})),
            ("an unknown operation", json!({"op": "swap", "path": "/a"})),
            ("no path", json!({"op": "remove"})),
            ("no slash", json!({"op": "remove", "path": "a"})),
            ("a document that is no object", json!({"op": "replace", "path": "", "value": []})),
        ];
        for (reason, operation) in cases {
            let failure = patched(&doc, &json!([operation])).unwrap_err();
            assert_eq!((failure.code, failure.reason), (422, "Invalid"), "{reason}");
            let message = "the server rejected our request due to an error in our request";
            assert_eq!(failure.message, message, "{reason}");
        }
    }

    #[test]
    fn a_body_that_is_no_list_of_operations_is_a_bad_request() {
        for body in ["", "{}", "[1]", "[", "null"] {
            let failure = json_patch(&json!({}), body.as_bytes()).unwrap_err();
            assert_eq!((failure.code, failure.reason), (400, "BadRequest"), "{body}");
        }
    }

    #[test]
    fn patches_are_bounded() {
        let many = vec![json!({"op": "test", "path": "/x"}); OPERATIONS_MAX + 1];
        assert_eq!(patched(&json!({}), &json!(many)).unwrap_err().code, 413);

        let doubling = vec![json!({"op": "copy", "from": "/a", "path": "/a/-"}); 40];
        assert_eq!(patched(&json!({"a": [1]}), &json!(doubling)).unwrap_err().code, 422);

        let nesting = json!([
            {"op": "add", "path": "/a/a", "value": {}},
            {"op": "copy", "from": "/a", "path": "/b"},
            {"op": "move", "from": "/b", "path": "/a/a/a"},
        ]);
        let rounds: Vec<_> = (0..100).flat_map(|_| nesting.as_array().unwrap().clone()).collect();
        assert!(patched(&json!({"a": {}}), &json!(rounds)).is_ok());
        let deep = "/a".repeat(DEPTH_MAX + 1);
        let chain: Vec<_> = (1..=DEPTH_MAX + 1)
            .map(|levels| json!({"op": "add", "path": &deep[..2 * levels], "value": {}}))
            .collect();
        assert_eq!(patched(&json!({}), &json!(chain)).unwrap_err().code, 422);
    }

    proptest! {
        #[test]
        fn an_added_member_can_be_tested_and_removed(
            doc in sample::any_object(),
            value in sample::any_object(),
        ) {
            let operations = json!([
                {"op": "add", "path": "/new~1member", "value": value},
                {"op": "test", "path": "/new~1member", "value": value},
                {"op": "remove", "path": "/new~1member"},
            ]);
            prop_assert_eq!(patched(&doc, &operations), Ok(doc));
        }

        #[test]
        fn no_patch_panics(
            doc in sample::any_object(),
            op in "(add|remove|replace|move|copy|test)",
            from in "(/[a-c0-2-]){0,3}",
            path in "(/[a-c0-2-]){0,3}",
        ) {
            let _ = patched(&doc, &json!([{"op": op, "from": from, "path": path, "value": {}}]));
        }
    }
}
