//! JSON values and their canonical text, for templates: names of revisions are hashes of that text. There is
//! no parser here: the caller converts.

use std::{collections::BTreeMap, fmt::Write as _};

/// A JSON value. Members are in the order of their names.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number without a point.
    Int(i128),
    /// Any other number.
    Float(f64),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Json>),
    /// An object.
    Object(BTreeMap<String, Json>),
}

// === impl Json ===

impl Json {
    /// An object of these members.
    pub fn object<const N: usize>(members: [(&str, Self); N]) -> Self {
        Self::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    /// A text.
    pub fn text(text: &str) -> Self {
        Self::Text(text.to_owned())
    }

    /// The member of that name.
    pub fn get(&self, name: &str) -> Option<&Self> {
        if let Self::Object(members) = self { members.get(name) } else { None }
    }

    /// The member of a member, and so on.
    pub fn at(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |value, name| value.get(name))
    }

    /// The text, if it is one.
    pub fn as_text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    /// JSON without blanks, names in order. `<`, `>` and `&` are escaped, as the library does that
    /// wrote the revisions there are: their names are hashes of these bytes.
    pub fn compact(&self) -> String {
        let mut text = String::new();
        self.write(&mut text);
        text
    }

    fn write(&self, out: &mut String) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Self::Int(number) => {
                let _ = write!(out, "{number}");
            }
            Self::Float(number) => {
                let _ = write!(out, "{number}");
            }
            Self::Text(text) => write_text(text, out),
            Self::List(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    item.write(out);
                }
                out.push(']');
            }
            Self::Object(members) => {
                out.push('{');
                for (index, (name, value)) in members.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    write_text(name, out);
                    out.push(':');
                    value.write(out);
                }
                out.push('}');
            }
        }
    }
}

fn write_text(text: &str, out: &mut String) {
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{0}'..='\u{1f}' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(letter));
            }
            _ => out.push(letter),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_have_neither_a_point_nor_an_exponent() {
        assert_eq!(Json::Int(1_000_000).compact(), "1000000");
        assert_eq!(Json::Float(1e6).compact(), "1000000");
        assert_eq!(Json::Float(0.25).compact(), "0.25");
        assert_eq!(Json::Float(1e21).compact(), "1000000000000000000000");
    }

    #[test]
    fn texts_are_quoted_and_escaped() {
        let list = Json::List(vec![Json::text("a\n\"<"), Json::Null, Json::Bool(true)]);
        assert_eq!(list.compact(), r#"["a\n\"\u003c",null,true]"#);
    }

    #[test]
    fn members_are_in_order() {
        let object = Json::object([("b", Json::Int(1)), ("a", Json::object([]))]);
        assert_eq!(object.compact(), r#"{"a":{},"b":1}"#);
    }
}
