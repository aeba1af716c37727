//! Paths with their results, compared with Kubernetes.

use serde_json::json;

use super::*;

fn object() -> Value {
    json!({
        "metadata": {"name": "web", "labels": {"app.kubernetes.io/name": "shop", "tier": "front"}},
        "spec": {"replicas": 3, "paused": false, "ratio": 0.5, "hosts": ["a", "b", "c", "d"]},
        "status": {
            "conditions": [
                {"type": "Available", "status": "True", "age": 10},
                {"type": "Ready", "status": "False", "age": 20, "reason": "It broke (twice)"},
            ],
            "nothing": null,
        },
    })
}

fn found(path: &str) -> Value {
    let object = object();
    let path = Path::parse(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    path.all(&object).into_iter().cloned().collect()
}

#[test]
fn paths_find_what_kubernetes_finds() {
    let cases = [
        (".spec.replicas", json!([3]), "plain fields"),
        ("{.spec.replicas}", json!([3]), "braces are optional"),
        ("spec.replicas", json!([3]), "kubectl's relaxed form"),
        ("$.spec.replicas", json!([3]), "the root may be named"),
        ("{ .spec.replicas }", json!([3]), "blanks do not matter"),
        (".spec['replicas']", json!([3]), "a quoted key"),
        (".metadata['labels.tier']", json!(["front"]), "a dot in a quoted key separates"),
        (r".metadata.labels['app\.kubernetes\.io/name']", json!(["shop"]), "unless escaped"),
        (r".metadata.labels.app\.kubernetes\.io/name", json!(["shop"]), "also without quotes"),
        (".spec.missing", json!([]), "an absent key"),
        (".spec.missing.deeper", json!([]), "below an absent key"),
        (".spec.replicas.deeper", json!([]), "below a scalar"),
        (".status.nothing", json!([null]), "a present null is found"),
        (".spec.hosts[0]", json!(["a"]), "an index"),
        (".spec.hosts[-1]", json!(["d"]), "from the end"),
        (".spec.hosts[-2]", json!(["c"]), "further from the end"),
        (".spec.hosts[9]", json!([]), "out of bounds fails the path"),
        (".spec.hosts[-9]", json!([]), "also at the front"),
        (".spec.hosts[*]", json!(["a", "b", "c", "d"]), "all items"),
        (".spec.hosts.*", json!(["a", "b", "c", "d"]), "all items, as members"),
        (".spec.hosts[1:3]", json!(["b", "c"]), "a range ends before its end"),
        (".spec.hosts[2:]", json!(["c", "d"]), "an open end"),
        (".spec.hosts[:2]", json!(["a", "b"]), "an open start"),
        (".spec.hosts[:-1]", json!(["a", "b", "c"]), "an end from the end"),
        (".spec.hosts[::2]", json!(["a", "c"]), "every other"),
        (".spec.hosts[1:1]", json!([]), "an empty range"),
        (".spec.hosts[3:1]", json!([]), "a range backwards"),
        (".spec.hosts[0:9]", json!([]), "a range past the end fails the path"),
        (".spec.hosts[0,3]", json!(["a", "d"]), "a union of indexes"),
        (".spec['replicas','paused']", json!([3, false]), "a union of keys"),
        (".spec.replicas[0]", json!([]), "an index into a scalar"),
        ("..type", json!(["Available", "Ready"]), "everywhere"),
        (".status..reason", json!(["It broke (twice)"]), "everywhere below"),
        (".metadata.labels.*", json!(["shop", "front"]), "all members, by key"),
    ];
    for (path, want, reason) in cases {
        assert_eq!(found(path), want, "{path}: {reason}");
    }
}

#[test]
fn filters_choose_items() {
    let cases = [
        (r#".status.conditions[?(@.type=="Ready")].status"#, json!(["False"]), "equality"),
        (r".status.conditions[?(@.type=='Ready')].status", json!(["False"]), "other quotes"),
        (r#".status.conditions[?(@.type == "Ready")].status"#, json!(["False"]), "blanks"),
        (r#".status.conditions[?(@.type!="Ready")].age"#, json!([10]), "inequality"),
        (".status.conditions[?(@.age>10)].type", json!(["Ready"]), "greater"),
        (".status.conditions[?(@.age>=10)].age", json!([10, 20]), "greater or equal"),
        (".status.conditions[?(@.age<20)].age", json!([10]), "less"),
        (".status.conditions[?(@.age<=20)].age", json!([10, 20]), "less or equal"),
        (".status.conditions[?(@.reason)].type", json!(["Ready"]), "existence"),
        (
            r#".status.conditions[?(@.reason=="It broke (twice)")].age"#,
            json!([20]),
            "a parenthesis in quotes closes nothing",
        ),
        (r#".status.conditions[?(@.type=="Ready")].nope"#, json!([]), "nothing below the match"),
        (r#".status.conditions[?(@.type=="Gone")].status"#, json!([]), "no item matches"),
        (r#".status.missing[?(@.type=="Ready")].status"#, json!([]), "no list at all"),
        (r#".spec[?(@.type=="Ready")].status"#, json!([]), "a map cannot be filtered"),
        (r#".status.conditions[?(@.age=="10")].type"#, json!([]), "unlike types fail the path"),
        (".status.conditions[?(@.age>9.5)].type", json!([]), "so do whole and broken numbers"),
    ];
    for (path, want, reason) in cases {
        assert_eq!(found(path), want, "{path}: {reason}");
    }
}

#[test]
fn the_first_find_counts() {
    let object = object();
    let first = |path| Path::parse(path).unwrap().first(&object);
    assert_eq!(first(".spec.hosts[*]"), Some(&json!("a")));
    assert_eq!(first(".status.nothing"), Some(&Value::Null));
    assert_eq!(first(".nothing"), None);
}

#[test]
fn broken_paths_are_refused() {
    let cases = [
        ("{.spec", "unclosed braces"),
        (".spec[0", "an unclosed bracket"),
        (".spec[x]", "an index that is no number"),
        (".spec[1:2:3:4]", "too many colons"),
        (".spec[?(@.a==1]", "an unclosed filter"),
        (".spec[?(@.a=1)]", "one equals sign"),
        (".spec[?(@.a==)]", "one side only"),
        (".spec[?(@.a==\"x)]", "an unclosed quote"),
        ("......x", "dots upon dots"),
        ("#", "no such character"),
    ];
    for (path, reason) in cases {
        assert!(Path::parse(path).is_err(), "{path}: {reason}");
    }
    assert!(Path::parse(&".a".repeat(4096)).is_err(), "a path without end");
}
