//! Two writers with different versions of an object, in every order.

use serde_json::{Value, json};

use crate::conformance::request::{APPLY, JSON_PATCH, MERGE, Story};

pub(super) fn stories() -> Vec<Story> {
    let kinds = [
        (
            "/api/v1/namespaces/${ns}/configmaps",
            json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "o" }, "data": { "n": "0" } }),
            "/data/n",
        ),
        (
            "/apis/example.com/v1/namespaces/${ns}/widgets",
            json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "o" }, "spec": { "size": 1, "free": { "n": "0" } } }),
            "/spec/free/n",
        ),
        (
            "/api/v1/namespaces/${ns}/services",
            json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "o" }, "spec": { "ports": [{ "port": 80 }], "selector": { "n": "0" } } }),
            "/spec/selector/n",
        ),
        (
            "/apis/coordination.k8s.io/v1/namespaces/${ns}/leases",
            json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": { "name": "o" }, "spec": { "holderIdentity": "0" } }),
            "/spec/holderIdentity",
        ),
    ];
    let mut stories = Vec::new();
    for (all, object, leaf) in &kinds {
        for first in WRITES {
            stories.push(race(all, object, leaf, first));
        }
    }
    stories
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Write {
    Put,
    StalePut,
    Merge,
    StaleMerge,
    Json,
    GuardedJson,
    Apply,
    Force,
    Delete,
}

const WRITES: [Write; 9] = [
    Write::Put,
    Write::StalePut,
    Write::Merge,
    Write::StaleMerge,
    Write::Json,
    Write::GuardedJson,
    Write::Apply,
    Write::Force,
    Write::Delete,
];

/// After `first`, each of the others by a client that read before it.
fn race(all: &str, object: &Value, leaf: &str, first: Write) -> Story {
    let kind = object["kind"].as_str().unwrap_or_default();
    let mut story = Story::new(format!("races: {kind}, {first:?} first"));
    let one = format!("{all}/o");
    for second in WRITES {
        let made = story.post("made", all, object);
        let version = made.version();
        write(&mut story, &one, (object, leaf), (first, "first", "1"), &version);
        write(&mut story, &one, (object, leaf), (second, "second", "2"), &version);
        story.get("what is left", one.clone());
        story.delete("cleared", one.clone());
    }
    story
}

fn write(
    story: &mut Story,
    one: &str,
    (object, leaf): (&Value, &str),
    (write, manager, value): (Write, &str, &str),
    version: &str,
) {
    let mut changed = object.clone();
    if let Some(place) = changed.pointer_mut(leaf) {
        *place = json!(value);
    }
    let mut change = changed.clone();
    for key in ["apiVersion", "kind", "metadata"] {
        change.as_object_mut().and_then(|members| members.remove(key));
    }
    let guarded = |object: &Value| {
        super::merged(object, &json!({ "metadata": { "resourceVersion": version } }))
    };
    let note = format!("{write:?} by the {manager}");
    let path = format!("{one}?fieldManager={manager}");
    let replace = json!({ "op": "replace", "path": leaf, "value": value });
    match write {
        Write::Put => story.put(&note, path, &changed),
        Write::StalePut => story.put(&note, path, &guarded(&changed)),
        Write::Merge => story.patch(&note, path, MERGE, &change),
        Write::StaleMerge => story.patch(&note, path, MERGE, &guarded(&change)),
        Write::Json => story.patch(&note, path, JSON_PATCH, &json!([replace])),
        Write::GuardedJson => {
            let test =
                json!({ "op": "test", "path": "/metadata/resourceVersion", "value": version });
            story.patch(&note, path, JSON_PATCH, &json!([test, replace]))
        }
        Write::Apply => story.patch(&note, path, APPLY, &changed),
        Write::Force => story.patch(&note, format!("{path}&force=true"), APPLY, &changed),
        Write::Delete => {
            let options = json!({ "preconditions": { "resourceVersion": version } });
            story.delete_with(&note, one, &options)
        }
    };
}
