//! Field ownership and server-side apply, as a client of Kubernetes sees them.

#![expect(clippy::needless_pass_by_value, reason = "literals are passed, and read better so")]

use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{failure::Outcome, patch::sample, shape::Unknown};

static NOTHING_RESET: FieldSet = FieldSet::EMPTY;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn by(manager: &str) -> Write<'_> {
    Write {
        manager,
        api_version: "apps/v1",
        kind: "Workload",
        subresource: "",
        now: at(0),
        reset: &NOTHING_RESET,
        empty: None,
    }
}

/// A workload with these labels and this spec.
fn web(labels: Value, spec: Value) -> Value {
    let mut object = json!({
        "apiVersion": "apps/v1", "kind": "Workload",
        "metadata": {"name": "web", "namespace": "shop"},
    });
    if !labels.is_null() {
        object["metadata"]["labels"] = labels;
    }
    if !spec.is_null() {
        object["spec"] = spec;
    }
    object
}

fn containers(containers: Value) -> Value {
    web(Value::Null, json!({"template": {"spec": {"containers": containers}}}))
}

fn updated(live: Option<&Value>, mut new: Value, write: &Write<'_>) -> Value {
    new["metadata"]["uid"] = "u".into();
    on_update(live, &mut new, &sample::workload(), write);
    new
}

fn created(object: Value, manager: &str) -> Value {
    let mut object = object;
    on_update(None, &mut object, &sample::workload(), &by(manager));
    object["metadata"]["uid"] = "u".into();
    object
}

fn applied(live: Option<&Value>, config: &Value, manager: &str) -> Outcome<Option<Value>> {
    apply(live, config, &sample::workload(), &by(manager), false)
}

/// The object after an apply that must succeed.
fn after_apply(live: Option<&Value>, config: &Value, write: &Write<'_>, force: bool) -> Value {
    let object = apply(live, config, &sample::workload(), write, force).unwrap();
    let mut object = object.unwrap_or_else(|| live.unwrap().clone());
    object["metadata"]["uid"] = "u".into();
    object
}

fn first_apply(config: &Value, manager: &str) -> Value {
    after_apply(None, config, &by(manager), false)
}

/// `fieldsV1` of this manager's entry, or null.
fn owned(object: &Value, manager: &str) -> Value {
    let list = object.pointer("/metadata/managedFields").and_then(Value::as_array);
    let entry = list.into_iter().flatten().find(|entry| entry["manager"] == manager);
    entry.map_or(Value::Null, |entry| entry["fieldsV1"].clone())
}

fn pod_spec(object: &Value) -> &Value {
    &object["spec"]["template"]["spec"]["containers"]
}

#[test]
fn a_creator_owns_all_it_wrote_but_what_identifies_the_object() {
    let object = created(web(json!({"app": "web"}), json!({"replicas": 2})), "kubectl");
    let want = json!([{
        "manager": "kubectl", "operation": "Update", "apiVersion": "apps/v1",
        "time": "1970-01-01T00:00:00Z", "fieldsType": "FieldsV1",
        "fieldsV1": {
            "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
            "f:spec": {".": {}, "f:replicas": {}},
        },
    }]);
    assert_eq!(object["metadata"]["managedFields"], want);
}

#[test]
fn parts_an_object_always_has_are_nobodys() {
    let mut object = web(Value::Null, json!({"replicas": 2}));
    on_update(Some(&json!({"spec": {}, "status": {}})), &mut object, &sample::workload(), &by("m"));
    assert_eq!(owned(&object, "m"), json!({"f:spec": {"f:replicas": {}}}));
}

#[test]
fn lists_are_owned_by_item_and_atomic_parts_whole() {
    let object = json!({
        "metadata": {"name": "web", "finalizers": ["x"]},
        "spec": {
            "selector": {"app": "web"},
            "template": {"spec": {"containers": [{
                "name": "app", "image": "nginx", "command": ["run", "it"], "env": [],
                "ports": [{"containerPort": 80}],
            }]}},
        },
    });
    let container = json!({
        ".": {}, "f:command": {}, "f:env": {}, "f:image": {}, "f:name": {},
        "f:ports": {
            ".": {},
            "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}},
        },
    });
    let want = json!({
        "f:metadata": {"f:finalizers": {".": {}, "v:\"x\"": {}}},
        "f:spec": {
            ".": {},
            "f:selector": {},
            "f:template": {".": {}, "f:spec": {".": {}, "f:containers": {
                ".": {}, "k:{\"name\":\"app\"}": container,
            }}},
        },
    });
    assert_eq!(owned(&created(object, "m"), "m"), want);
}

#[test]
fn an_applier_owns_leaves_and_items_but_not_what_is_around_them() {
    let mut config = containers(json!([{
        "name": "app", "env": [], "command": [], "ports": [{"containerPort": 80}],
    }]));
    config["metadata"]["labels"] = json!({"app": "web"});
    config["metadata"]["annotations"] = json!({});
    let want = json!({
        "f:metadata": {"f:annotations": {}, "f:labels": {"f:app": {}}},
        "f:spec": {"f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"app\"}": {
            ".": {}, "f:command": {}, "f:name": {},
            "f:ports": {
                "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}},
            },
        }}}}},
    });
    assert_eq!(owned(&first_apply(&config, "m"), "m"), want);
}

#[test]
fn whoever_changes_a_field_owns_it_and_nobody_else() {
    let live = created(web(json!({"a": "1", "b": "1"}), json!({"replicas": 1})), "first");
    let changed = web(json!({"a": "2"}), json!({"replicas": 1, "paused": true}));
    let object = updated(Some(&live), changed, &Write { now: at(9), ..by("second") });
    assert_eq!(
        owned(&object, "first"),
        json!({"f:metadata": {"f:labels": {}}, "f:spec": {".": {}, "f:replicas": {}}})
    );
    assert_eq!(
        owned(&object, "second"),
        json!({"f:metadata": {"f:labels": {"f:a": {}}}, "f:spec": {"f:paused": {}}})
    );
    let list = object["metadata"]["managedFields"].as_array().unwrap();
    let times: Vec<_> = list.iter().map(|entry| entry["time"].as_str().unwrap()).collect();
    assert_eq!(times, ["1970-01-01T00:00:00Z", "1970-01-01T00:00:09Z"]);
}

#[test]
fn an_update_that_changes_nothing_leaves_owners_and_times() {
    let live = created(web(json!({"a": "1"}), Value::Null), "first");
    let mut same = web(json!({"a": "1"}), Value::Null);
    same["metadata"]["resourceVersion"] = "7".into();
    let object = updated(Some(&live), same, &Write { now: at(9), ..by("second") });
    assert_eq!(object["metadata"]["managedFields"], live["metadata"]["managedFields"]);
}

#[test]
fn status_belongs_to_those_who_write_status() {
    let status = FieldSet::of_fields(&["status"]);
    let all_else = FieldSet::of_fields(&["spec", "metadata.labels"]);
    let main = Write { reset: &status, ..by("user") };
    let sub = Write { reset: &all_else, subresource: "status", ..by("controller") };

    let mut object = web(json!({"a": "1"}), json!({"replicas": 1}));
    object["status"] = json!({"ready": 0});
    on_update(None, &mut object, &sample::workload(), &main);
    assert_eq!(owned(&object, "user")["f:status"], Value::Null);

    let mut next = object.clone();
    next["metadata"]["uid"] = "u".into();
    next["status"] = json!({"ready": 1});
    next["spec"]["replicas"] = 5.into();
    on_update(Some(&object), &mut next, &sample::workload(), &sub);
    assert_eq!(owned(&next, "controller"), json!({"f:status": {"f:ready": {}}}));
    assert!(owned(&next, "user")["f:spec"]["f:replicas"].is_object());
    let entry = &next["metadata"]["managedFields"][0];
    assert_eq!(
        (&entry["manager"], &entry["subresource"]),
        (&json!("controller"), &json!("status"))
    );
}

#[test]
fn the_list_of_owners_can_be_cleared_edited_and_not_lost() {
    let live = created(web(json!({"a": "1"}), Value::Null), "first");
    let send = |list: Value, write: &Write<'_>| {
        let mut new = web(json!({"a": "1"}), Value::Null);
        new["metadata"]["managedFields"] = list;
        updated(Some(&live), new, write)["metadata"]["managedFields"].clone()
    };
    let kept = &live["metadata"]["managedFields"];
    let mut edited = kept.clone();
    edited[0]["manager"] = "renamed".into();
    let status = Write { subresource: "status", ..by("m") };
    let cases = [
        ("an empty list clears", json!([]), by("m"), Value::Null),
        ("so does one empty entry", json!([{}]), by("m"), Value::Null),
        ("an edited list is taken", edited.clone(), by("m"), edited.clone()),
        ("but not by way of a subresource", edited, status, kept.clone()),
        ("nonsense is ignored", json!([{"manager": 1}]), by("m"), kept.clone()),
        ("null is no list", Value::Null, by("m"), kept.clone()),
    ];
    for (reason, list, write, want) in cases {
        assert_eq!(send(list, &write), want, "{reason}");
    }

    let mut cleared = live.clone();
    cleared["metadata"].as_object_mut().unwrap().remove("managedFields");
    let object = updated(Some(&cleared), web(json!({"a": "2"}), Value::Null), &by("m"));
    assert!(object["metadata"].get("managedFields").is_none(), "and it stays cleared");
}

#[test]
fn only_ten_updaters_are_remembered_by_name() {
    let mut live = created(web(json!({"l": "0"}), Value::Null), "m0");
    for n in 1..=12 {
        let mut labels = live["metadata"]["labels"].clone();
        labels[format!("l{n}")] = "1".into();
        let name = format!("m{n}");
        live = updated(Some(&live), web(labels, Value::Null), &Write { now: at(n), ..by(&name) });
    }
    let list = live["metadata"]["managedFields"].as_array().unwrap();
    let managers: Vec<_> = list.iter().map(|entry| entry["manager"].as_str().unwrap()).collect();
    let want = ["ancient-changes", "m4", "m5", "m6", "m7", "m8", "m9", "m10", "m11", "m12"];
    assert_eq!(managers, want);
    assert_eq!(
        owned(&live, "ancient-changes"),
        json!({"f:metadata": {"f:labels": {
            ".": {}, "f:l": {}, "f:l1": {}, "f:l2": {}, "f:l3": {},
        }}})
    );
    assert_eq!(list[0]["time"], "1970-01-01T00:00:03Z");
}

#[test]
fn a_field_no_longer_applied_goes_unless_another_owns_it() {
    let live = first_apply(&web(json!({"mine": "1", "ours": "1"}), Value::Null), "a");
    let live = after_apply(Some(&live), &web(json!({"ours": "1"}), Value::Null), &by("b"), false);
    let object = after_apply(Some(&live), &web(Value::Null, Value::Null), &by("a"), false);
    assert_eq!(object["metadata"]["labels"], json!({"ours": "1"}));
    assert_eq!(owned(&object, "a"), Value::Null);
    assert_eq!(owned(&object, "b"), json!({"f:metadata": {"f:labels": {"f:ours": {}}}}));
}

#[test]
fn a_container_no_longer_applied_goes_with_all_that_was_in_it() {
    let config = containers(json!([{"name": "app", "image": "1"}, {"name": "old", "image": "1"}]));
    let live = first_apply(&config, "a");
    let object = applied(Some(&live), &containers(json!([{"name": "app", "image": "2"}])), "a");
    let object = object.unwrap().unwrap();
    assert_eq!(pod_spec(&object), &json!([{"name": "app", "image": "2"}]));
}

#[test]
fn a_container_stays_while_another_owns_something_in_it() {
    let live = first_apply(&containers(json!([{"name": "app", "image": "1"}])), "a");
    let theirs = containers(json!([{"name": "app", "tty": true}]));
    let live = after_apply(Some(&live), &theirs, &by("b"), false);
    let object = after_apply(Some(&live), &web(Value::Null, Value::Null), &by("a"), false);
    assert_eq!(pod_spec(&object), &json!([{"name": "app", "tty": true}]));
}

#[test]
fn a_conflict_names_manager_and_field() {
    let live = created(web(Value::Null, json!({"replicas": 1})), "kubectl-client-side-apply");
    let failure = applied(Some(&live), &web(Value::Null, json!({"replicas": 2})), "operator");
    let failure = failure.unwrap_err();
    assert_eq!((failure.code, failure.reason), (409, "Conflict"));
    assert_eq!(
        failure.message,
        "Apply failed with 1 conflict: conflict with \"kubectl-client-side-apply\" using apps/v1: \
         .spec.replicas"
    );
    let [cause] = failure.causes.as_slice() else { panic!("one cause") };
    assert_eq!(cause.reason, "FieldManagerConflict");
    assert_eq!(cause.message, "conflict with \"kubectl-client-side-apply\" using apps/v1");
    assert_eq!(cause.field, ".spec.replicas");
}

#[test]
fn many_conflicts_are_grouped_by_manager() {
    let config =
        containers(json!([{"name": "app", "image": "1", "ports": [{"containerPort": 80}]}]));
    let live = first_apply(&config, "b");
    let mut scaled = live.clone();
    scaled["spec"]["replicas"] = 3.into();
    let live = updated(Some(&live), scaled, &Write { subresource: "scale", ..by("a") });
    let wanted = json!([{
        "name": "app", "image": "2", "ports": [{"containerPort": 80, "protocol": "TCP"}],
    }]);
    let mut wanted = containers(wanted);
    wanted["spec"]["replicas"] = 1.into();
    wanted["spec"]["template"]["spec"]["containers"][0]["image"] = "3".into();
    let failure = applied(Some(&live), &wanted, "c").unwrap_err();
    assert_eq!(
        failure.message,
        "Apply failed with 2 conflicts: conflicts with \"a\" with subresource \"scale\" using \
         apps/v1:\n- .spec.replicas\nconflicts with \"b\":\n\
         - .spec.template.spec.containers[name=\"app\"].image"
    );
    assert_eq!(failure.causes.len(), 2);
}

#[test]
fn force_takes_fields_and_their_owners_lose_them() {
    let live = created(web(Value::Null, json!({"replicas": 1, "paused": true})), "user");
    let config = web(Value::Null, json!({"replicas": 2}));
    let object = after_apply(Some(&live), &config, &by("operator"), true);
    assert_eq!(object["spec"], json!({"replicas": 2, "paused": true}));
    assert_eq!(owned(&object, "user"), json!({"f:spec": {".": {}, "f:paused": {}}}));
    assert_eq!(owned(&object, "operator"), json!({"f:spec": {"f:replicas": {}}}));
}

#[test]
fn equal_values_are_shared_without_conflict() {
    let config = web(Value::Null, json!({"replicas": 1}));
    let live = first_apply(&config, "a");
    let object = applied(Some(&live), &config, "b").unwrap().unwrap();
    let mine = json!({"f:spec": {"f:replicas": {}}});
    assert_eq!((owned(&object, "a"), owned(&object, "b")), (mine.clone(), mine));
}

#[test]
fn applying_again_is_nothing_to_write() {
    let config = containers(json!([{"name": "app", "ports": [{"containerPort": 80}]}]));
    let live = first_apply(&config, "a");
    let later = Write { now: at(60), ..by("a") };
    assert_eq!(apply(Some(&live), &config, &sample::workload(), &later, false), Ok(None));
}

#[test]
fn what_was_there_before_the_first_apply_has_an_owner() {
    let mut live = web(Value::Null, json!({"replicas": 1}));
    live["metadata"]["uid"] = "u".into();
    let failure = applied(Some(&live), &web(Value::Null, json!({"replicas": 2})), "a").unwrap_err();
    let want = "conflict with \"before-first-apply\" using apps/v1";
    assert_eq!(failure.causes.first().map(|cause| cause.message.as_str()), Some(want));
}

#[test]
fn applied_lists_are_woven_into_live_ones() {
    // Live order, applied order, merged order: as structured-merge-diff merges them.
    let cases = [
        ("abc", "abc", "abc"),
        ("abc", "d", "abcd"),
        ("ab", "ba", "ba"),
        ("abc", "cda", "bcda"),
        ("abcd", "xb", "axbcd"),
        ("abcde", "eca", "bdeca"),
        ("", "ba", "ba"),
    ];
    let with_items = |names: &str| -> Value {
        containers(names.chars().map(|it| json!({"name": it.to_string()})).collect())
    };
    for (live, config, want) in cases {
        let live_object = created(with_items(live), "a");
        let object = after_apply(Some(&live_object), &with_items(config), &by("b"), false);
        let names = pod_spec(&object).as_array().unwrap().iter();
        let names: String = names.map(|item| item["name"].as_str().unwrap()).collect();
        assert_eq!(names, want, "{config} applied to {live}");
    }
}

#[test]
fn configurations_that_cannot_be_applied_are_refused_with_the_reason() {
    let prefix = "failed to create typed patch object (shop/web; apps/v1, Kind=Workload): ";
    let at = ".spec.template.spec.containers";
    let cases = [
        (
            containers(json!([{"name": "a"}, {"name": "a"}])),
            format!("{at}: duplicate entries for key [name=\"a\"]"),
        ),
        (
            containers(json!([{"image": "a"}])),
            format!(
                "{at}: element 0: associative list with keys has an element that omits all key \
                 fields [\"name\"] (and doesn't have default values for any key fields)"
            ),
        ),
        (
            containers(json!([null])),
            format!("{at}: element 0: associative list with keys may not have a null element"),
        ),
        (
            containers(json!(["a"])),
            format!("{at}: element 0: associative list with keys may not have non-map elements"),
        ),
        (containers(json!("a")), format!("{at}: expected list, got &{{a}}")),
        (
            containers(json!([{"name": "a", "ports": [
                {"containerPort": 80}, {"containerPort": 80, "protocol": "TCP"},
            ]}])),
            format!(
                "{at}[name=\"a\"].ports: duplicate entries for key \
                 [containerPort=80,protocol=\"TCP\"]"
            ),
        ),
    ];
    for (config, why) in cases {
        let failure = applied(None, &config, "a").unwrap_err();
        assert_eq!(failure.message, format!("{prefix}{why}"));
        assert_eq!(failure.code, 500);
    }

    let mut listed = web(Value::Null, Value::Null);
    listed["metadata"]["managedFields"] = json!([]);
    let mut other = web(Value::Null, Value::Null);
    other["apiVersion"] = "v1".into();
    let cases = [
        (listed, "metadata.managedFields must be nil"),
        (other, "invalid object type: /v1, Kind=Workload"),
    ];
    for (config, message) in cases {
        let failure = applied(None, &config, "a").unwrap_err();
        assert_eq!((failure.code, failure.message.as_str()), (400, message));
    }
}

#[test]
fn kubectl_takes_over_what_it_applied_from_the_client() {
    let annotation = "kubectl.kubernetes.io/last-applied-configuration";
    let before = web(Value::Null, json!({"replicas": 1, "paused": true}));
    let mut live = before.clone();
    live["metadata"]["annotations"] = json!({annotation: before.to_string()});
    let live = created(live, "kubectl-client-side-apply");
    let config = web(Value::Null, json!({"replicas": 2}));

    assert!(applied(Some(&live), &config, "another").is_err());
    let object = applied(Some(&live), &config, "kubectl").unwrap().unwrap();
    assert_eq!(object["spec"]["replicas"], 2);
    assert_eq!(object["metadata"]["annotations"][annotation], format!("{config}\n"));

    let mut scaled = live.clone();
    scaled["spec"]["replicas"] = 5.into();
    let live = updated(Some(&live), scaled, &by("autoscaler"));
    let failure = applied(Some(&live), &config, "kubectl").unwrap_err();
    assert_eq!(
        failure.message,
        "Apply failed with 1 conflict: conflict with \"autoscaler\" using apps/v1: .spec.replicas"
    );
}

#[test]
fn objects_that_differ_in_times_only_are_the_same() {
    let live = created(web(json!({"a": "1"}), Value::Null), "m");
    let mut later = live.clone();
    later["metadata"]["managedFields"][0]["time"] = "1980-01-01T00:00:00Z".into();
    assert!(is_same_but_for_times(&live, &later));
    later["metadata"]["managedFields"][0]["manager"] = "n".into();
    assert!(!is_same_but_for_times(&live, &later));
    assert!(!is_same_but_for_times(&live, &web(json!({"a": "2"}), Value::Null)));
}

#[test]
fn hostile_depth_is_cut_off_and_not_followed() {
    let mut deep = json!({});
    for _ in 0..400 {
        deep = json!({"a": deep});
    }
    let mut object = json!({"metadata": {"name": "deep"}, "spec": deep});
    on_update(None, &mut object, &Unknown, &by("m"));
    assert!(owned(&object, "m").is_object());
    let config = json!({"apiVersion": "apps/v1", "kind": "Workload", "spec": object["spec"]});
    assert!(apply(Some(&object), &config, &Unknown, &by("m"), true).is_ok());
}

proptest! {
    #[test]
    fn applying_twice_is_applying_once(
        live in sample::any_workload(),
        config in sample::any_workload(),
    ) {
        let live = created(live, "a");
        let once = after_apply(Some(&live), &config, &by("b"), true);
        let again = apply(Some(&once), &config, &sample::workload(), &by("b"), false);
        prop_assert_eq!(again, Ok(None));
    }

    #[test]
    fn force_always_gets_what_it_wants(
        first in sample::any_workload(),
        second in sample::any_workload(),
        config in sample::any_workload(),
    ) {
        let shape = sample::workload();
        let live = created(first, "a");
        let live = after_apply(Some(&live), &second, &by("b"), true);
        let object = after_apply(Some(&live), &config, &by("c"), true);
        // The object has every field of the configuration, with the same value.
        let mut wanted = fields_of(&config, &shape);
        let difference = compare(Some(&config), &object, &shape);
        prop_assert!(difference.modified.intersection(&wanted).is_empty());
        prop_assert!(difference.removed.is_empty());
        // The applier owns every field of the configuration.
        wanted.subtract(&UNOWNED);
        prop_assert_eq!(owned_set(&object, "c"), wanted);
    }

    #[test]
    fn owners_own_only_what_is_there(
        first in sample::any_workload(),
        second in sample::any_workload(),
        third in sample::any_workload(),
    ) {
        let shape = sample::workload();
        let live = created(first, "a");
        let live = after_apply(Some(&live), &second, &by("b"), true);
        let object = updated(Some(&live), third, &by("c"));
        let there = compare(None, &object, &shape).added;
        for manager in ["a", "b", "c"] {
            let stray = owned_set(&object, manager).difference(&there);
            prop_assert!(stray.is_empty(), "{manager} owns {:?}", stray.paths());
        }
    }

    #[test]
    fn after_force_no_loser_owns_what_changed(
        live in sample::any_workload(),
        config in sample::any_workload(),
    ) {
        let shape = sample::workload();
        let live = created(live, "a");
        let object = after_apply(Some(&live), &config, &by("b"), true);
        let Comparison { added, modified, removed } = compare(Some(&live), &object, &shape);
        let changed = added.union(modified).union(removed);
        prop_assert!(owned_set(&object, "a").intersection(&changed).is_empty());
    }

    #[test]
    fn any_json_can_be_written_and_applied(
        live in sample::any_object(),
        new in sample::any_object(),
    ) {
        let (mut live, mut new) = (json!({"spec": live, "metadata": {}}), json!({"spec": new}));
        on_update(None, &mut live, &sample::workload(), &by("a"));
        new["apiVersion"] = "apps/v1".into();
        new["kind"] = "Workload".into();
        let object = apply(Some(&live), &new, &Unknown, &by("b"), true).unwrap().unwrap();
        let again = apply(Some(&object), &new, &Unknown, &by("b"), true);
        prop_assert_eq!(again, Ok(None));
    }
}

fn owned_set(object: &Value, manager: &str) -> FieldSet {
    match owned(object, manager) {
        Value::Null => FieldSet::default(),
        fields => FieldSet::from_json(&fields).unwrap(),
    }
}
