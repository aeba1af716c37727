//! Migration from client-side to server-side apply, for `kubectl` alone.
//!
//! `kubectl apply` without `--server-side` stores its configuration in an annotation, and owns the
//! fields as an updater. When `kubectl` returns as an applier, fields that still match the
//! annotation are its own and no conflict; the annotation is kept up to date, so that client-side
//! apply still works afterwards.

use serde_json::Value;

use super::{
    fields::FieldSet,
    typed::{compare, fields_of},
};
use crate::shape::Shape;

const MANAGER: &str = "kubectl";

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Maximum total size of an object's annotations.
const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;

/// The fields that `manager` may take without force: those unchanged since its last apply.
pub(super) fn left_behind<S: Shape>(live: &Value, shape: &S, manager: &str) -> Option<FieldSet> {
    if manager != MANAGER {
        return None;
    }
    let last: Value = serde_json::from_str(annotation(live)?).ok()?;
    if last.get("apiVersion") != live.get("apiVersion") {
        return None;
    }
    let changed = compare(Some(&last), live, shape);
    let mut fields = fields_of(&last, shape);
    for differing in [changed.modified, changed.added, changed.removed] {
        fields.subtract(&differing);
    }
    Some(fields)
}

/// Stores `config` in the annotation of `object`, if it has one and `manager` is kubectl.
pub(super) fn refresh(object: &mut Value, config: &Value, manager: &str) {
    if manager != MANAGER || annotation(object).is_none_or(str::is_empty) {
        return;
    }
    let mut config = config.clone();
    if let Some(Value::Object(annotations)) = config.pointer_mut("/metadata/annotations") {
        annotations.remove(ANNOTATION);
    }
    let Some(Value::Object(annotations)) = object.pointer_mut("/metadata/annotations") else {
        return;
    };
    annotations.insert(ANNOTATION.to_owned(), go_json(&config).into());
    let size = |(name, value): (&String, &Value)| name.len() + value.as_str().map_or(0, str::len);
    if annotations.iter().map(size).sum::<usize>() > ANNOTATIONS_BYTES_MAX {
        annotations.remove(ANNOTATION);
    }
}

fn annotation(object: &Value) -> Option<&str> {
    object.pointer("/metadata/annotations")?.get(ANNOTATION)?.as_str()
}

/// JSON in the form of Go's encoder: HTML-safe, with a trailing newline.
fn go_json(value: &Value) -> String {
    let mut text = value.to_string();
    for (plain, escaped) in [
        ("<", "\\u003c"),
        (">", "\\u003e"),
        ("&", "\\u0026"),
        ("\u{2028}", "\\u2028"),
        ("\u{2029}", "\\u2029"),
    ] {
        if text.contains(plain) {
            text = text.replace(plain, escaped);
        }
    }
    text.push('\n');
    text
}
