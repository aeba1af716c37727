//! Values in Go's formatting, as in the error messages of Kubernetes.

use serde_json::{Map, Value};

/// `value` formatted like Go's `%v`: `map[image:nginx ports:[80 443]]`.
pub(crate) fn go_text(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".into(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Array(items) => go_list(items),
        Value::Object(members) => go_map(members),
    }
}

/// The name of the Go type for `value`.
pub(crate) fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "%!s(<nil>)",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

pub(crate) fn go_list(items: &[Value]) -> String {
    let texts: Vec<_> = items.iter().map(go_text).collect();
    format!("[{}]", texts.join(" "))
}

pub(crate) fn go_map(members: &Map<String, Value>) -> String {
    let texts: Vec<_> =
        members.iter().map(|(name, value)| format!("{name}:{}", go_text(value))).collect();
    format!("map[{}]", texts.join(" "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parts_of_a_patch_are_shown_as_go_prints_them() {
        let shown = go_text(&json!({"ports": [80, 443], "name": "a", "gone": null, "ok": true}));
        assert_eq!(shown, "map[gone:<nil> name:a ok:true ports:[80 443]]");
    }
}
