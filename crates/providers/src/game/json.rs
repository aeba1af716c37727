//! JSON as the engine knows it, from JSON as the API server sends it.

use serde_json::Value;
use tidegate_engine::game::Json;

/// For the engine.
pub fn engine_json(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(value) => Json::Bool(*value),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => Json::Int(number.into()),
            (None, Some(number)) => Json::Int(number.into()),
            (None, None) => Json::Float(number.as_f64().unwrap_or_default()),
        },
        Value::String(text) => Json::Text(text.clone()),
        Value::Array(items) => Json::List(items.iter().map(engine_json).collect()),
        Value::Object(members) => Json::Object(
            members.iter().map(|(name, value)| (name.clone(), engine_json(value))).collect(),
        ),
    }
}

/// A value as people expect to read it: texts without quotes, numbers in plain decimals, lists and
/// objects as JSON.
pub(super) fn printed(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            engine_json(value).compact()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn printed_texts_are_raw_alone_and_quoted_inside() {
        assert_eq!(printed(&json!("a \"b\"")), "a \"b\"");
        let list = json!(["a\n\"<", null, true]);
        assert_eq!(printed(&list), r#"["a\n\"\u003c",null,true]"#);
    }
}
