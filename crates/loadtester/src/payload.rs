//! The body of a Flagger webhook, as callers send it.

use std::collections::BTreeMap;

use serde::Deserialize;

/// The canary that a call is about, and its metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Payload {
    pub name: String,
    pub namespace: String,
    pub checksum: String,
    pub metadata: BTreeMap<String, String>,
}

/// As it is written. A value that is there may still be null.
#[derive(Deserialize)]
struct Written {
    name: Option<String>,
    namespace: Option<String>,
    checksum: Option<String>,
    metadata: Option<BTreeMap<String, String>>,
}

// === impl Payload ===

impl Payload {
    /// `None` for a body that is no JSON object, or has values of other types than Flagger's.
    pub fn parse(body: &[u8]) -> Option<Self> {
        // A list would pass for an object that has its fields in order.
        if body.trim_ascii_start().first() != Some(&b'{') {
            return None;
        }
        let written: Written = serde_json::from_slice(body).ok()?;
        let Written { name, namespace, checksum, metadata } = written;
        let payload = Self {
            name: name.unwrap_or_default(),
            namespace: namespace.unwrap_or_default(),
            checksum: checksum.unwrap_or_default(),
            metadata: metadata.unwrap_or_default(),
        };
        let Self { name, namespace, checksum, .. } = &payload;
        let fit = is_name(name, 253) && is_name(namespace, 63) && is_name(checksum, 64);
        fit.then_some(payload)
    }

    /// As logs and keys name it.
    pub fn canary(&self) -> String {
        format!("{}.{}", self.name, self.namespace)
    }

    /// Whether a piece of metadata is true, as Go reads it.
    pub fn is_set(&self, key: &str) -> bool {
        let value = self.metadata.get(key).map(String::as_str);
        matches!(value, Some("1" | "t" | "T" | "true" | "TRUE" | "True"))
    }
}

/// Whether a text may be kept, logged and compared as a name. The letters that
/// Kubernetes allows are not checked: a canary without a valid name does not exist.
pub(crate) fn is_name(text: &str, bytes_max: usize) -> bool {
    text.len() <= bytes_max && !text.contains(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_flaggers() {
        let body = br#"{"name":"podinfo","namespace":"test","phase":"Progressing",
            "checksum":"abc","metadata":{"cmd":"x","returnCmdOutput":"True"},"more":[1]}"#;
        let payload = Payload::parse(body).unwrap();
        assert_eq!(payload.canary(), "podinfo.test");
        assert_eq!(payload.checksum, "abc");
        assert_eq!(payload.metadata["cmd"], "x");
        assert!(payload.is_set("returnCmdOutput") && !payload.is_set("cmd"));
        let sparse = Payload::parse(br#" {"name":null,"metadata":null}"#).unwrap();
        assert_eq!(sparse, Payload::default());
        for body in ["", "null", "[]", "\"x\"", "{", r#"{"metadata":{"cmd":1}}"#, r#"{"name":1}"#] {
            assert_eq!(Payload::parse(body.as_bytes()), None, "{body}");
        }
        for (key, length) in [("name", 253), ("namespace", 63), ("checksum", 64)] {
            let body = |length| format!("{{\"{key}\":\"{}\"}}", "a".repeat(length));
            assert!(Payload::parse(body(length).as_bytes()).is_some(), "{key}");
            assert!(Payload::parse(body(length + 1).as_bytes()).is_none(), "{key} too long");
        }
        assert_eq!(Payload::parse(br#"{"name":"a\nb"}"#), None, "two lines");
    }
}
