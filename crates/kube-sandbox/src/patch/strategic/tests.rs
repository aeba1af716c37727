//! Strategic merge patch, compared with the results of Kubernetes.

#![expect(clippy::needless_pass_by_value, reason = "literals are passed, and read better so")]

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{patch::sample, shape::Unknown};

fn with_containers(containers: Value) -> Value {
    json!({"spec": {"template": {"spec": {"containers": containers}}}})
}

fn patched(doc: &Value, patch: &Value) -> Outcome<Value> {
    strategic(doc, patch, &sample::workload())
}

/// The containers after a patch of the pod spec.
fn patched_containers(containers: Value, pod_spec: Value) -> Value {
    let patch = json!({"spec": {"template": {"spec": pod_spec}}});
    let patched = patched(&with_containers(containers), &patch).unwrap();
    patched["spec"]["template"]["spec"]["containers"].clone()
}

#[test]
fn keyed_lists_merge_by_key() {
    let live = json!([{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]);
    let cases = [
        (
            "a known item is merged where it stands",
            json!({"containers": [{"name": "b", "image": "2", "tty": true}]}),
            json!([{"name": "a", "image": "1"}, {"name": "b", "image": "2", "tty": true}]),
        ),
        (
            "a new item comes first, as nothing says where else",
            json!({"containers": [{"name": "c", "command": ["x"], "env": null}]}),
            json!([
                {"name": "c", "command": ["x"]},
                {"name": "a", "image": "1"},
                {"name": "b", "image": "1"},
            ]),
        ),
        (
            "an item is deleted by key",
            json!({"containers": [{"name": "a", "$patch": "delete"}]}),
            json!([{"name": "b", "image": "1"}]),
        ),
        (
            "an item replaces the list",
            json!({"containers": [{"$patch": "replace"}, {"name": "z"}]}),
            json!([{"name": "z"}]),
        ),
        (
            "an item is replaced whole only with a directive of its own kind",
            json!({"containers": [{"name": "a", "image": null}]}),
            json!([{"name": "a"}, {"name": "b", "image": "1"}]),
        ),
        (
            "lists in items merge too",
            json!({"containers": [{"name": "a", "env": [{"name": "E", "value": "1"}]}]}),
            json!([
                {"name": "a", "image": "1", "env": [{"name": "E", "value": "1"}]},
                {"name": "b", "image": "1"},
            ]),
        ),
    ];
    for (reason, patch, want) in cases {
        assert_eq!(patched_containers(live.clone(), patch), want, "{reason}");
    }
}

#[test]
fn the_order_a_patch_sets_is_kept() {
    let named = |names: &str| -> Value {
        names.chars().map(|name| json!({"name": name.to_string()})).collect()
    };
    // Live items, order, patched items, deleted items, result: the order that Kubernetes gives.
    let cases = [
        ("abc", "cba", "", "", "cba"),
        ("abc", "cxa", "x", "", "bcxa"),
        ("abc", "ca", "", "", "bca"),
        ("bd", "c", "c", "d", "bc"),
        ("", "ba", "ba", "", "ba"),
        ("ab", "", "", "", "ab"),
    ];
    for (live, order, added, deleted, want) in cases {
        let mut items = named(added).as_array().unwrap().clone();
        items.extend(
            deleted.chars().map(|name| json!({"name": name.to_string(), "$patch": "delete"})),
        );
        let mut patch = json!({"$setElementOrder/containers": named(order)});
        if !items.is_empty() {
            patch["containers"] = items.into();
        }
        let got = patched_containers(named(live), patch);
        assert_eq!(got, named(want), "{order} for {live}");
    }
}

#[test]
fn scalar_lists_are_sets() {
    let doc = json!({"metadata": {"finalizers": ["a", "b"]}});
    let cases = [
        (json!({"finalizers": ["c", "a"]}), json!(["c", "a", "b"])),
        (json!({"$deleteFromPrimitiveList/finalizers": ["a", "z"]}), json!(["b"])),
        (json!({"$setElementOrder/finalizers": ["b", "a"]}), json!(["b", "a"])),
        (
            json!({
                "$deleteFromPrimitiveList/finalizers": ["a"],
                "$setElementOrder/finalizers": ["c", "b"],
                "finalizers": ["c"],
            }),
            json!(["c", "b"]),
        ),
        (json!({"finalizers": null}), Value::Null),
    ];
    for (metadata, want) in cases {
        let patched = patched(&doc, &json!({"metadata": metadata})).unwrap();
        let got = patched.pointer("/metadata/finalizers").cloned().unwrap_or_default();
        assert_eq!(got, want, "{metadata}");
    }
}

#[test]
fn objects_merge_are_replaced_and_keep_what_they_retain() {
    let doc = json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"max": 1}}}});
    let cases = [
        (json!({"type": "Recreate"}), json!({"type": "Recreate", "rollingUpdate": {"max": 1}})),
        (json!({"$retainKeys": ["type"], "type": "Recreate"}), json!({"type": "Recreate"})),
        (json!({"$patch": "replace", "a": 1, "b": null}), json!({"a": 1})),
        (json!({"$patch": "delete"}), json!({})),
        (json!({"rollingUpdate": null}), json!({"type": "RollingUpdate"})),
        (
            json!({"new": {"a": null, "b": {"$patch": "delete"}, "c": 1}}),
            json!({"type": "RollingUpdate", "rollingUpdate": {"max": 1}, "new": {"c": 1}}),
        ),
        (json!("text"), json!("text")),
    ];
    for (strategy, want) in cases {
        let patched = patched(&doc, &json!({"spec": {"strategy": strategy}})).unwrap();
        assert_eq!(patched["spec"]["strategy"], want, "{strategy}");
    }
}

#[test]
fn lists_without_a_strategy_are_replaced() {
    let doc = json!({"list": [{"name": "a"}], "spec": {"x": [1]}});
    let patch = json!({"list": [{"name": "b", "gone": null}], "spec": {"x": []}});
    let want = json!({"list": [{"name": "b"}], "spec": {"x": []}});
    assert_eq!(strategic(&doc, &patch, &Unknown), Ok(want));
}

#[test]
fn malformed_patches_are_refused_in_the_words_of_kubernetes() {
    let doc = json!({
        "metadata": {"finalizers": ["a"]},
        "spec": {"template": {"spec": {"containers": [{"name": "a"}]}}},
    });
    let metadata = |metadata: Value| json!({"metadata": metadata});
    let cases = [
        (json!([]), 400, "invalid JSON document"),
        (metadata(json!({"$retainKeys": 1})), 400, "invalid patch format of retainKeys"),
        (metadata(json!({"$retainKeys": [], "a": 1})), 400, "invalid patch format of retainKeys"),
        (
            metadata(json!({"$deleteFromPrimitiveList": ["a"]})),
            400,
            "invalid patch format of primitive list",
        ),
        (
            metadata(json!({"$setElementOrder": ["a"]})),
            400,
            "invalid patch format of setElementOrder list",
        ),
        (
            metadata(json!({"$setElementOrder/finalizers": "a"})),
            500,
            "expected a []interface {}, but received a string",
        ),
        (
            metadata(json!({"$setElementOrder/finalizers": ["a"], "finalizers": ["b"]})),
            500,
            "The order in patch list:\n[b]\n doesn't match $setElementOrder list:\n[a]\n",
        ),
        (
            metadata(json!({"$patch": "explode", "x": 1})),
            500,
            "unknown patch type: explode in map: map[$patch:explode x:1]",
        ),
        (
            with_containers(json!([{"image": "x"}])),
            500,
            "map: map[image:x] does not contain declared merge key: name",
        ),
        (
            with_containers(json!([{"$patch": "delete"}])),
            500,
            "map: map[$patch:delete] does not contain declared merge key: name",
        ),
        (
            with_containers(json!([{"$patch": "merge", "name": "a"}])),
            500,
            "merging lists cannot yet be specified in the patch",
        ),
        (
            with_containers(json!(["a"])),
            500,
            "list element types are not identical: [map[name:a] a]",
        ),
        (
            metadata(json!({"finalizers": [["a"]]})),
            500,
            "list element types are not identical: [a [a]]",
        ),
    ];
    for (patch, code, message) in cases {
        let failure = patched(&doc, &patch).unwrap_err();
        assert_eq!((failure.code, failure.message.as_str()), (code, message), "{patch}");
    }
}

proptest! {
    #[test]
    fn patching_an_object_with_itself_changes_nothing(doc in sample::any_workload()) {
        prop_assert_eq!(patched(&doc, &doc), Ok(doc));
    }

    #[test]
    fn patching_twice_is_patching_once(
        doc in sample::any_workload(),
        patch in sample::any_workload(),
    ) {
        let once = patched(&doc, &patch).unwrap();
        prop_assert_eq!(patched(&once, &patch), Ok(once));
    }

    #[test]
    fn without_a_type_it_is_a_merge_patch(doc in sample::any_object(), patch in sample::any_object()) {
        prop_assert_eq!(
            strategic(&doc, &patch, &Unknown),
            Ok(crate::patch::merge_patch(&doc, &patch))
        );
    }

    #[test]
    fn no_patch_panics(
        doc in sample::any_object(),
        patch in sample::any_object(),
        directive in "\\$(patch|retainKeys|setElementOrder/[a-d]|deleteFromPrimitiveList/[a-d])",
    ) {
        let mut patch = json!({"metadata": patch, "finalizers": ["x"]});
        let value = patch["metadata"]["a"].clone();
        patch["metadata"][directive] = value;
        let _ = patched(&json!({"metadata": doc}), &patch);
    }
}
