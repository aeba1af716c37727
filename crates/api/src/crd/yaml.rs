//! Writes JSON values as YAML for people: block style, keys in order, long texts folded.
//!
//! The output reads the same to YAML 1.1 and 1.2 parsers. A text is written plainly only when no
//! version could take it for anything else (`on`, `1m`, `0x1f`, `2024-01-01` and the like are
//! quoted), so that Go, Python and Rust readers get the value that went in.

use serde_json::{Map, Value};

/// Texts longer than this are folded, at this column if possible.
const WIDTH: usize = 100;

/// Words that YAML 1.1 or 1.2 read as a boolean, a number or nothing, in lower case.
const RESERVED: [&str; 11] =
    ["true", "false", "yes", "no", "on", "off", "y", "n", "null", ".inf", ".nan"];

/// All documents in one stream, each begun by `---`.
pub fn to_yaml(documents: &[Value]) -> String {
    let mut out = String::new();
    for document in documents {
        out.push_str("---\n");
        match document {
            Value::Object(members) if !members.is_empty() => object(&mut out, members, 0),
            Value::Array(items) if !items.is_empty() => array(&mut out, items, 0),
            scalar => {
                out.push_str(&inline(scalar));
                out.push('\n');
            }
        }
    }
    out
}

fn object(out: &mut String, members: &Map<String, Value>, indent: usize) {
    for (index, (key, value)) in members.iter().enumerate() {
        // The first member of a list item stands behind the dash.
        if index > 0 || !out.ends_with("- ") {
            pad(out, indent);
        }
        let key = text(key);
        out.push_str(&key);
        out.push(':');
        member(out, value, indent, key.len());
    }
}

fn array(out: &mut String, items: &[Value], indent: usize) {
    for item in items {
        pad(out, indent);
        out.push_str("- ");
        match item {
            Value::Object(members) if !members.is_empty() => object(out, members, indent + 2),
            Value::Array(inner) if !inner.is_empty() => {
                out.truncate(out.len() - 1);
                out.push('\n');
                array(out, inner, indent + 2);
            }
            scalar => {
                out.push_str(&inline(scalar));
                out.push('\n');
            }
        }
    }
}

/// The text behind `key:`, a key of `key_len` characters.
fn member(out: &mut String, value: &Value, indent: usize, key_len: usize) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            out.push('\n');
            object(out, members, indent + 2);
        }
        Value::Array(items) if !items.is_empty() => {
            out.push('\n');
            array(out, items, indent);
        }
        Value::String(long) if indent + key_len + long.len() > WIDTH && can_fold(long) => {
            out.push_str(" >-\n");
            folded(out, long, indent + 2);
        }
        scalar => {
            out.push(' ');
            out.push_str(&inline(scalar));
            out.push('\n');
        }
    }
}

fn inline(value: &Value) -> String {
    match value {
        Value::String(string) => text(string),
        // Empty lists and objects, numbers, booleans and null are the same in JSON.
        other => other.to_string(),
    }
}

fn text(string: &str) -> String {
    if is_plain(string) {
        string.to_owned()
    } else if string.chars().any(char::is_control) {
        // JSON strings are YAML strings, escapes included.
        Value::from(string).to_string()
    } else {
        format!("'{}'", string.replace('\'', "''"))
    }
}

/// Whether a text cannot be mistaken for anything but itself.
fn is_plain(string: &str) -> bool {
    let begins_as_word = match string.as_bytes() {
        [b'.' | b'/', second, ..] => second.is_ascii_alphabetic(),
        [first, ..] => first.is_ascii_alphabetic(),
        [] => false,
    };
    let harmless = |c: char| c.is_ascii_alphanumeric() || " -_./()<>=%+,;`'".contains(c);
    let is_reserved = RESERVED.contains(&string.to_ascii_lowercase().as_str());
    begins_as_word && string.chars().all(harmless) && !is_reserved && !string.ends_with(' ')
}

/// Folding keeps a text only if it has no lines that YAML would treat in a special way.
fn can_fold(string: &str) -> bool {
    let special = ["  ", " \n", "\n ", "\n\n\n"];
    let printable = string.chars().all(|c| c == '\n' || !c.is_control());
    let regular = !special.iter().any(|s| string.contains(s)) && string.trim() == string;
    string.contains(' ') && printable && regular
}

fn folded(out: &mut String, string: &str, indent: usize) {
    for (index, line) in string.split('\n').enumerate() {
        if index > 0 {
            // A line break that is meant needs an empty line.
            out.push('\n');
        }
        let mut column = 0;
        for word in line.split(' ').filter(|word| !word.is_empty()) {
            if column > 0 && column + 1 + word.len() <= WIDTH {
                out.push(' ');
                column += 1;
            } else {
                if column > 0 {
                    out.push('\n');
                }
                pad(out, indent);
                column = indent;
            }
            out.push_str(word);
            column += word.len();
        }
        if column > 0 {
            out.push('\n');
        }
    }
}

fn pad(out: &mut String, indent: usize) {
    out.extend(std::iter::repeat_n(' ', indent));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_are_quoted_where_a_parser_could_err() {
        let cases = [
            ("a word", "Canary", "Canary"),
            ("a path", ".status.phase", ".status.phase"),
            ("a sentence", "Least severity, if any.", "Least severity, if any."),
            ("nothing", "", "''"),
            ("a boolean of YAML 1.1", "on", "'on'"),
            ("in any case", "Yes", "'Yes'"),
            ("nothing, as a word", "null", "'null'"),
            ("a number", "1", "'1'"),
            ("a number with a unit", "1m", "'1m'"),
            ("a sexagesimal number", "1:30", "'1:30'"),
            ("a date", "2024-01-01", "'2024-01-01'"),
            ("a fraction", ".5", "'.5'"),
            ("a number in letters", ".inf", "'.inf'"),
            ("a mapping", "a: b", "'a: b'"),
            ("a comment", "a #b", "'a #b'"),
            ("an apostrophe in front", "'tis", "'\'\'tis'"),
            ("a list", "- a", "'- a'"),
            ("a blank behind", "a ", "'a '"),
            ("lines", "a\nb", r#""a\nb""#),
            ("a tab", "a\tb", r#""a\tb""#),
        ];
        for (reason, string, want) in cases {
            assert_eq!(text(string), want, "{reason}");
        }
    }

    #[test]
    fn documents_are_written_in_block_style() {
        let long = "word ".repeat(30).trim().to_owned();
        let value = json!({
            "empty": { "list": [], "map": {} },
            "list": ["a", { "b": 1, "c": [true, null] }, ["d"]],
            "long": long,
        });
        let want = "---\nempty:\n  list: []\n  map: {}\nlist:\n- a\n- b: 1\n  c:\n  - true\n  - null\n\
                    -\n  - d\nlong: >-\n  word word word word word word word word word word word word \
                    word word word word word word word\n  word word word word word word word word word \
                    word word\n";
        assert_eq!(to_yaml(&[value]), want);
    }

    #[test]
    fn paragraphs_survive_folding() {
        let mut out = String::new();
        folded(&mut out, "first\n\nsecond", 2);
        assert_eq!(out, "  first\n\n\n  second\n");
    }
}
