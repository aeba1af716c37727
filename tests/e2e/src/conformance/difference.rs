//! Differences of two normalised answers.

use serde_json::Value;

use super::{normal::Pairs, request::Request};

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
    /// A short form of each answer, for people.
    pub said: [Value; 2],
}

/// A place in an answer, and each server's value there.
pub type Place = (String, Option<Value>, Option<Value>);

/// All places where `real` and `ours` differ, the deepest each.
pub fn places(real: &Value, ours: &Value, pairs: &mut Pairs) -> Vec<Place> {
    let mut walk = Walk { place: String::new(), found: Vec::new(), pairs };
    walk.at(Some(real), Some(ours));
    walk.found
}

struct Walk<'p> {
    place: String,
    found: Vec<Place>,
    pairs: &'p mut Pairs,
}

// === impl Walk ===

impl Walk<'_> {
    fn at(&mut self, real: Option<&Value>, ours: Option<&Value>) {
        match (real, ours) {
            (Some(Value::Object(a)), Some(Value::Object(b))) => {
                let only_b = b.keys().filter(|key| !a.contains_key(*key));
                for key in a.keys().chain(only_b) {
                    let key_escaped = key.replace('~', "~0").replace('/', "~1");
                    self.below(&key_escaped, a.get(key), b.get(key));
                }
            }
            (Some(Value::Array(a)), Some(Value::Array(b))) => {
                for index in 0..a.len().max(b.len()) {
                    self.below(&index.to_string(), a.get(index), b.get(index));
                }
            }
            (Some(Value::String(a)), Some(Value::String(b))) if self.pairs.agree(a, b) => {}
            (a, b) if a == b => {}
            (a, b) => self.found.push((self.place.clone(), a.cloned(), b.cloned())),
        }
    }

    fn below(&mut self, segment: &str, real: Option<&Value>, ours: Option<&Value>) {
        let length = self.place.len();
        self.place.push('/');
        self.place.push_str(segment);
        self.at(real, ours);
        self.place.truncate(length);
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
        let found = places(&real, &ours, &mut Pairs::default());
        let found: Vec<String> = found.into_iter().map(|(place, ..)| place).collect();
        assert_eq!(found, ["/a/b~1c/1", "/a/b~1c/2", "/d", "/e"]);
    }
}
