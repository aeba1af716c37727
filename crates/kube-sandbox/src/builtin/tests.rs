//! Built-in kinds as a client sees them: stored results, refused writes and their error texts.

use serde_json::{Value, json};

use super::{Strategy, strategy};

mod golden;
mod lifecycle;
mod network;
mod objects;
mod pods;
mod workloads;

/// The strategy of a built-in kind.
fn of(group: &str, kind: &str) -> &'static Strategy {
    strategy(group, kind).expect("a built-in kind")
}

/// Creates `object` like the server, up to storing it; error texts if it is refused.
fn create(group: &str, kind: &str, mut object: Value) -> Result<Value, Vec<String>> {
    let strategy = of(group, kind);
    strategy.defaults(&mut object);
    strategy.prepare_create(&mut object);
    let errors = strategy.validate(&object);
    if errors.is_empty() { Ok(object) } else { Err(texts(&errors)) }
}

/// Updates `old` to `new` like the server.
fn update(group: &str, kind: &str, old: &Value, mut new: Value) -> Result<Value, Vec<String>> {
    let strategy = of(group, kind);
    strategy.defaults(&mut new);
    strategy.prepare_update(&mut new, old);
    let errors = strategy.validate_update(&new, old);
    if errors.is_empty() { Ok(new) } else { Err(texts(&errors)) }
}

fn texts(errors: &[crate::failure::FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

/// `base` with the value at each JSON pointer replaced; `null` removes it.
fn with(base: &Value, changes: &[(&str, Value)]) -> Value {
    let mut object = base.clone();
    for (pointer, value) in changes {
        let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
        let parent = object.pointer_mut(parent).expect("the parent is there");
        match (parent, key.parse::<usize>()) {
            (Value::Array(items), Ok(index)) if index < items.len() => items[index] = value.clone(),
            (Value::Array(items), _) => items.push(value.clone()),
            (parent, _) if value.is_null() => {
                parent.as_object_mut().expect("an object").remove(key);
            }
            (parent, _) => parent[key] = value.clone(),
        }
    }
    object
}

/// Runs a table of changes to a valid object: each has exactly the given errors, or none.
fn refusals(group: &str, kind: &str, base: &Value, cases: &[(&str, &str, Value, &[&str])]) {
    create(group, kind, base.clone()).expect("the base is valid");
    for (reason, pointer, value, want) in cases {
        let got = create(group, kind, with(base, &[(pointer, value.clone())]));
        assert_eq!(got.err().unwrap_or_default(), *want, "{reason}");
    }
}

fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web"}},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "web:1"}]},
            },
        },
    })
}

fn pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web-1", "namespace": "shop"},
        "spec": {"containers": [{"name": "web", "image": "web:1"}]},
    })
}

fn service() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "name": "http"}]},
    })
}
