//! Effects of schemas on objects, in tables.
#![expect(clippy::needless_pass_by_value, reason = "specs are written where they are passed")]

use serde_json::{Value, json};

use super::{Schema, SchemaShape, admit};
use crate::{
    failure::FieldError,
    shape::{ListKind, Shape},
};

mod hostile;
mod rules;
mod structure;
mod values;

/// A schema whose `spec` has the given schema.
fn of_spec(spec: Value) -> Schema {
    let root = json!({"type": "object", "properties": {"spec": spec}});
    compiled(&root)
}

fn compiled(root: &Value) -> Schema {
    match Schema::compile(root) {
        Ok(schema) => schema,
        Err(errors) => panic!("{}", texts(&errors).join("\n")),
    }
}

fn texts(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

fn object(spec: Value) -> Value {
    let metadata = json!({"name": "web", "resourceVersion": "7"});
    json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": metadata, "spec": spec})
}

/// The errors of creating an object with this spec.
fn create(schema: &Schema, spec: Value) -> Vec<String> {
    texts(&schema.validate(&object(spec), None))
}

/// The errors of changing the spec from `old` to `new`.
fn update(schema: &Schema, old: Value, new: Value) -> Vec<String> {
    texts(&schema.validate(&object(new), Some(&object(old))))
}
