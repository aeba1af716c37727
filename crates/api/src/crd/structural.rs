//! Turns a schema of schemars into a structural schema.
//!
//! Kubernetes wants every field declared in place (no references), knows no `null` type, and stores
//! each `default` it finds. schemars writes JSON Schema for validators in general, so: references
//! are inlined, "or null" is dropped from optional fields, defaults that only serde knows about go
//! away and the stored ones take their place, and formats Kubernetes has no use for are removed.

use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Map, Value};

use crate::schema::STORED_DEFAULT;

/// Formats that are kept: they bound integers, check times, or document a text.
const FORMATS: [&str; 4] = ["int32", "int64", "date-time", "url"];

/// The structural schema of `T`, described by `description`.
pub(super) fn of<T: JsonSchema>(description: &str) -> Value {
    let settings = SchemaSettings::openapi3().with(|settings| {
        settings.inline_subschemas = true;
        settings.transforms.clear();
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    clean(&mut schema);
    schema["description"] = Value::from(description);
    schema
}

fn clean(schema: &mut Value) {
    unwrap_optional(schema);
    let Value::Object(members) = schema else { return };
    clean_keywords(members);
    for keyword in ["items", "additionalProperties"] {
        if let Some(inner) = members.get_mut(keyword) {
            clean(inner);
        }
    }
    // Branches of `oneOf` and `not` are ours and hold no types, so they are left alone.
    if let Some(Value::Object(properties)) = members.get_mut("properties") {
        properties.values_mut().for_each(clean);
    }
}

/// `anyOf: [T, null]` becomes `T`, with the texts beside it.
fn unwrap_optional(schema: &mut Value) {
    let is_null = |branch: &Value| branch["type"] == "null";
    let Value::Object(members) = schema else { return };
    let Some(Value::Array(branches)) = members.get("anyOf") else { return };
    let [inner, null] = branches.as_slice() else { return };
    if !is_null(null) {
        return;
    }
    let inner = inner.clone();
    members.remove("anyOf");
    if let Value::Object(inner) = inner {
        for (keyword, value) in inner {
            members.entry(keyword).or_insert(value);
        }
    }
}

fn clean_keywords(members: &mut Map<String, Value>) {
    for keyword in ["title", "$schema", "default"] {
        members.remove(keyword);
    }
    if let Some(default) = members.remove(STORED_DEFAULT) {
        members.insert("default".to_owned(), default);
    }
    let known = |format: &Value| format.as_str().is_some_and(|f| FORMATS.contains(&f));
    if !members.get("format").is_some_and(known) {
        members.remove("format");
    }
    if let Some(Value::Array(types)) = members.get("type") {
        let named = types.iter().find(|name| *name != "null").cloned();
        members.insert("type".to_owned(), named.unwrap_or_default());
    }
    if let Some(Value::Array(values)) = members.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if let Some(Value::String(text)) = members.get_mut("description") {
        *text = reflow(text);
    }
}

/// Joins the lines of a doc comment; an empty line still ends a paragraph.
fn reflow(text: &str) -> String {
    let paragraphs = text.split("\n\n");
    let joined = paragraphs.map(|p| p.split_whitespace().collect::<Vec<_>>().join(" "));
    joined.collect::<Vec<_>>().join("\n\n")
}
