//! Where two normalised answers disagree, and which disagreements are known.

use serde_json::Value;

use super::request::Request;

/// One place where the answers differ.
#[derive(Debug, Clone)]
pub struct Difference {
    pub story: String,
    /// The number of the request in its story.
    pub step: usize,
    pub request: Request,
    /// A JSON pointer into the normalised answer.
    pub place: String,
    pub real: Option<Value>,
    pub ours: Option<Value>,
}

/// All places where `real` and `ours` differ, the deepest each.
pub fn places(real: &Value, ours: &Value) -> Vec<(String, Option<Value>, Option<Value>)> {
    let mut found = Vec::new();
    walk(Some(real), Some(ours), &mut String::new(), &mut found);
    found
}

fn walk(
    real: Option<&Value>,
    ours: Option<&Value>,
    place: &mut String,
    found: &mut Vec<(String, Option<Value>, Option<Value>)>,
) {
    let length = place.len();
    match (real, ours) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            let only_b = b.keys().filter(|key| !a.contains_key(*key));
            for key in a.keys().chain(only_b) {
                place.push('/');
                place.push_str(&key.replace('~', "~0").replace('/', "~1"));
                walk(a.get(key), b.get(key), place, found);
                place.truncate(length);
            }
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) => {
            for index in 0..a.len().max(b.len()) {
                place.push('/');
                place.push_str(&index.to_string());
                walk(a.get(index), b.get(index), place, found);
                place.truncate(length);
            }
        }
        (a, b) if a == b => {}
        (a, b) => found.push((place.clone(), a.cloned(), b.cloned())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_deepest_place_is_named() {
        let real = json!({ "a": { "b/c": [1, 2] }, "d": 1 });
        let ours = json!({ "a": { "b/c": [1, 3, 4] }, "e": 1 });
        let found: Vec<String> = places(&real, &ours).into_iter().map(|(place, ..)| place).collect();
        assert_eq!(found, ["/a/b~1c/1", "/a/b~1c/2", "/d", "/e"]);
    }
}
