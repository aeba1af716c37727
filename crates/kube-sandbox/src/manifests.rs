//! Manifests as text: YAML or JSON taken apart into objects. [`crate::Sandbox::load`] applies them.

use serde_json::Value;

/// The objects in YAML or JSON text: one or many documents, lists taken apart, comments skipped.
pub fn parse(text: &str) -> Result<Vec<Value>, String> {
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(text).map_err(|error| error.to_string())?;
    let mut objects = Vec::new();
    for document in documents {
        match document {
            Value::Null => {}
            Value::Object(mut fields) if fields.get("kind").is_some_and(is_list) => {
                match fields.remove("items") {
                    Some(Value::Array(items)) => objects.extend(items),
                    _ => return Err("a List has no `items`".into()),
                }
            }
            object @ Value::Object(_) => objects.push(object),
            other => return Err(format!("expected an object, found `{other}`")),
        }
    }
    Ok(objects)
}

fn is_list(kind: &Value) -> bool {
    kind == "List"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_and_lists_become_objects() {
        let text = "# first\nkind: A\n---\n---\nkind: List\nitems:\n- kind: B\n- kind: C\n";
        let kinds: Vec<_> = parse(text).unwrap().iter().map(|o| o["kind"].to_string()).collect();
        assert_eq!(kinds, ["\"A\"", "\"B\"", "\"C\""]);
        assert!(parse("- just\n- a list\n").is_err());
        assert!(parse("kind: [unclosed").is_err());
    }
}
