use serde_json::json;
use tidegate_providers::game::POD;

use super::*;

fn pod(name: &str, version: u32, controller: Option<&str>) -> Value {
    let owners: Vec<Value> =
        controller.map(|uid| json!({ "uid": uid, "controller": true })).into_iter().collect();
    json!({ "metadata": {
        "namespace": "default", "name": name, "uid": format!("uid-{name}"),
        "resourceVersion": version.to_string(), "ownerReferences": owners,
    } })
}

fn controlled(cache: &Cache, uid: &str) -> Vec<String> {
    let found = cache.list_controlled(POD, "default", uid);
    let mut names: Vec<String> = found.iter().map(|it| Key::of(it).name.to_string()).collect();
    names.sort();
    names
}

#[test]
fn list_controlled_is_right_after_every_kind_of_change() {
    let cache = Cache::default();
    cache.list_begins(POD);
    for object in [pod("a", 1, Some("x")), pod("b", 1, Some("y")), pod("c", 1, None)] {
        cache.list_has(POD, object);
    }
    cache.list_ends(POD);
    assert_eq!(controlled(&cache, "x"), ["a", "c"], "its own, and orphans");
    cache.insert_watched(POD, pod("c", 2, Some("x")));
    assert_eq!(controlled(&cache, "x"), ["a", "c"], "taken in");
    assert_eq!(controlled(&cache, "y"), ["b"]);
    cache.cache_insert(POD, pod("a", 3, Some("y")));
    assert_eq!(controlled(&cache, "y"), ["a", "b"], "handed over");
    cache.tombstone(POD, &Key::new("default", "a"), "uid-a");
    cache.remove_watched(POD, &pod("b", 4, Some("y")));
    assert_eq!(controlled(&cache, "y"), Vec::<String>::new());
    cache.list_begins(POD);
    cache.list_ends(POD);
    assert_eq!(controlled(&cache, "x"), Vec::<String>::new(), "what a list does not have");
}

#[test]
fn a_heartbeat_of_a_node_is_no_change_and_its_addresses_and_conditions_are() {
    let node = |version: u32, beat: &str, address: &str, ready: &str| {
        json!({
            "metadata": { "name": "a", "uid": "a", "resourceVersion": version.to_string() },
            "status": {
                "addresses": [{ "type": "InternalIP", "address": address }],
                "conditions": [{ "type": "Ready", "status": ready, "lastHeartbeatTime": beat }],
            },
        })
    };
    let cache = Cache::default();
    assert!(cache.insert_watched(NODE, node(1, "1", "10.0.0.1", "True")));
    assert!(!cache.insert_watched(NODE, node(2, "2", "10.0.0.1", "True")), "a heartbeat");
    let known = cache.get(NODE, &Key::new("", "a")).unwrap();
    assert_eq!(known["metadata"]["resourceVersion"], "2", "it is taken all the same");
    assert!(cache.insert_watched(NODE, node(3, "3", "10.0.0.2", "True")), "another address");
    assert!(cache.insert_watched(NODE, node(4, "4", "10.0.0.2", "False")), "not ready");
}

#[test]
fn a_list_with_an_older_object_or_another_uid_is_from_the_past() {
    let object = |uid: &str, version: u32| {
        let mut pod = pod("a", version, None);
        pod["metadata"]["uid"] = json!(uid);
        pod
    };
    let cases = [
        ("one", 20, false, "as it is known"),
        ("one", 25, false, "changed since"),
        ("one", 19, true, "older than it is known"),
        ("two", 31, false, "made again, and the watch did not get there"),
        ("two", 25, true, "made again, and the watch would have reported it"),
        ("two", 19, true, "another one before"),
    ];
    for (uid, version, want, reason) in cases {
        let cache = Cache::default();
        cache.insert_watched(POD, object("one", 20));
        cache.list_begins(POD);
        cache.list_has(POD, object(uid, version));
        assert_eq!(cache.list_is_from_the_past(POD, "30"), want, "{reason}");
    }
    let cache = Cache::default();
    cache.insert_watched(POD, object("one", 20));
    cache.list_begins(POD);
    cache.cache_insert(POD, object("one", 40));
    cache.list_has(POD, object("one", 20));
    assert!(!cache.list_is_from_the_past(POD, "30"), "the list was made before our write");
}

#[test]
fn an_object_is_known_in_its_version_or_in_one_of_our_own_writing() {
    let cache = Cache::default();
    assert!(!cache.knows(POD, pod("a", 20, None), "30"), "it is not there");
    cache.insert_watched(POD, pod("a", 20, None));
    assert!(cache.knows(POD, pod("a", 20, None), "30"));
    assert!(!cache.knows(POD, pod("a", 25, None), "30"), "the watch missed a change");
    cache.cache_insert(POD, pod("a", 40, None));
    assert!(cache.knows(POD, pod("a", 20, None), "30"), "we wrote it since");
}
