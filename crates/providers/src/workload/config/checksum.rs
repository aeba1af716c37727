//! Fingerprints of configuration, the same as Flagger's to the byte.
//!
//! Flagger hashes `data` as Go's JSON encoder writes it. A canary taken over from Flagger has such
//! values in its status, and must not be rolled out again because an ampersand is escaped
//! differently.

use std::fmt::Write as _;

use serde_json::Value;

use super::ConfigKind;
use crate::workload::hash::{hex, sha256};

/// The first 8 bytes, in hexadecimal, of SHA-256 over the JSON of the contents.
///
/// Flagger does not see `binaryData`. Ours counts where there is any, so that other objects keep
/// their fingerprint.
pub fn checksum(kind: ConfigKind, object: &Value) -> String {
    let mut text = String::new();
    write_map(&object["data"], &mut text);
    let binary = &object["binaryData"];
    if kind == ConfigKind::ConfigMap && binary.as_object().is_some_and(|map| !map.is_empty()) {
        write_map(binary, &mut text);
    }
    hex(&sha256(text.as_bytes()), 8)
}

/// A map of texts as Go writes it. The API server leaves out an empty map, which Go then reads as
/// none at all.
fn write_map(map: &Value, text: &mut String) {
    let Some(members) = map.as_object().filter(|members| !members.is_empty()) else {
        text.push_str("null");
        return;
    };
    text.push('{');
    for (at, (key, value)) in members.iter().enumerate() {
        if at > 0 {
            text.push(',');
        }
        write_text(key, text);
        text.push(':');
        // Values of a Secret arrive in the base64 that Go would write.
        write_text(value.as_str().unwrap_or_default(), text);
    }
    text.push('}');
}

/// A text as Go writes it, which also escapes characters that HTML or JavaScript could stumble
/// over.
fn write_text(value: &str, text: &mut String) {
    text.push('"');
    for character in value.chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\u{8}' => text.push_str("\\b"),
            '\u{c}' => text.push_str("\\f"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => {
                let _infallible = write!(text, "\\u{:04x}", u32::from(character));
            }
            _ => text.push(character),
        }
    }
    text.push('"');
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn encoded(map: &Value) -> String {
        let mut text = String::new();
        write_map(map, &mut text);
        text
    }

    #[test]
    fn texts_are_escaped_as_go_does() {
        let cases = [
            ("plain", "abc", r#""abc""#),
            ("markup", "<a href=\"x\">&</a>", r#""\u003ca href=\"x\"\u003e\u0026\u003c/a\u003e""#),
            ("line separators of JavaScript", "\u{2028}\u{2029}", r#""\u2028\u2029""#),
            ("short escapes", "\"\\\u{8}\u{c}\n\r\t", r#""\"\\\b\f\n\r\t""#),
            ("other control characters", "\0\u{b}\u{1f}", r#""\u0000\u000b\u001f""#),
            ("the last control character is one to us only", "\u{7f}", "\"\u{7f}\""),
            ("other scripts", "Straße 漢字 🎉", "\"Straße 漢字 🎉\""),
            ("a slash", "a/b", r#""a/b""#),
        ];
        for (reason, value, want) in cases {
            let mut text = String::new();
            write_text(value, &mut text);
            assert_eq!(text, want, "{reason}");
        }
    }

    #[test]
    fn maps_are_sorted_by_bytes_and_empty_ones_are_null() {
        assert_eq!(
            encoded(&json!({ "b": "2", "a": "1", "B": "3" })),
            r#"{"B":"3","a":"1","b":"2"}"#
        );
        assert_eq!(encoded(&json!({})), "null");
        assert_eq!(encoded(&Value::Null), "null");
    }

    #[test]
    fn checksums_are_flaggers() {
        use ConfigKind::{ConfigMap, Secret};
        // Each is the beginning of `printf '%s' '<the JSON>' | sha256sum`.
        let cases = [
            ("null", ConfigMap, json!({}), "74234e98afe7498f"),
            (
                r#"{"color":"red"}"#,
                ConfigMap,
                json!({ "data": { "color": "red" } }),
                "241889ca0604e333",
            ),
            (
                r#"{"page":"\u003cb\u003e1 \u0026 2\u003c/b\u003e\n"}"#,
                ConfigMap,
                json!({ "data": { "page": "<b>1 & 2</b>\n" } }),
                "268462baf5a54781",
            ),
            (
                r#"{"empty":"","key":"c2VjcmV0"}"#,
                Secret,
                json!({ "data": { "key": "c2VjcmV0", "empty": null } }),
                "38710073f885caa7",
            ),
            (
                r#"{"color":"red"}{"logo":"AAEC"}"#,
                ConfigMap,
                json!({ "data": { "color": "red" }, "binaryData": { "logo": "AAEC" } }),
                "188d3e94881a6e49",
            ),
            (
                r#"null{"logo":"AAEC"}"#,
                ConfigMap,
                json!({ "binaryData": { "logo": "AAEC" } }),
                "920c6e14ac508ccb",
            ),
        ];
        for (hashed, kind, object, want) in cases {
            assert_eq!(checksum(kind, &object), want, "{hashed}");
        }
    }

    #[test]
    fn only_contents_count() {
        let plain = json!({ "data": { "a": "1" } });
        let dressed = json!({
            "metadata": { "name": "c", "labels": { "x": "y" }, "resourceVersion": "9" },
            "data": { "a": "1" }, "binaryData": {}, "immutable": true, "type": "Opaque",
        });
        for kind in [ConfigKind::ConfigMap, ConfigKind::Secret] {
            assert_eq!(checksum(kind, &plain), checksum(kind, &dressed));
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_json_of_the_same_texts(
            map in prop::collection::btree_map(".{0,8}", ".{0,16}", 1..4)
        ) {
            let map = json!(map);
            prop_assert_eq!(serde_json::from_str::<Value>(&encoded(&map)).unwrap(), map);
        }
    }
}
