//! Finds duplicate members of JSON objects.
//!
//! A parsed value no longer has them, so the bytes are read again. Strict validation reports each
//! as `duplicate field "spec.replicas"`.

use std::{
    collections::HashSet,
    fmt::{self, Write as _},
};

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

/// Maximum number of reported fields, as in Kubernetes.
const DUPLICATES_MAX: usize = 100;

/// The paths of repeated members in a JSON text, in order of appearance. Text that is not JSON is
/// searched up to where it goes wrong.
pub(crate) fn duplicate_fields(json: &[u8]) -> Vec<String> {
    let mut found = Found { paths: Vec::new(), path: String::new() };
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    // Syntax errors are reported by the parser.
    let _ = Walk(&mut found).deserialize(&mut deserializer);
    found.paths
}

struct Found {
    paths: Vec<String>,
    path: String,
}

struct Walk<'a>(&'a mut Found);

// === impl Walk ===

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let before = self.0.path.len();
        let mut seen = HashSet::new();
        while let Some(key) = members.next_key::<String>()? {
            if before > 0 {
                self.0.path.push('.');
            }
            self.0.path.push_str(&key);
            if !seen.insert(key) && self.0.paths.len() < DUPLICATES_MAX {
                let path = self.0.path.clone();
                if !self.0.paths.contains(&path) {
                    self.0.paths.push(path);
                }
            }
            members.next_value_seed(Walk(self.0))?;
            self.0.path.truncate(before);
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let before = self.0.path.len();
        for index in 0_usize.. {
            let _ = write!(self.0.path, "[{index}]");
            let more = items.next_element_seed(Walk(self.0))?.is_some();
            self.0.path.truncate(before);
            if !more {
                break;
            }
        }
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_member_is_named_once_with_its_path() {
        let json = br#"{"spec": {"replicas": 1, "replicas": 2, "replicas": 3,
            "ports": [{"a": 1}, {"b": {"c": 1, "c": null}}]}, "kind": "x", "spec": {}}"#;
        assert_eq!(duplicate_fields(json), ["spec.replicas", "spec.ports[1].b.c", "spec"]);
        assert!(duplicate_fields(br#"{"a": {"b": 1}, "b": 1}"#).is_empty());
        assert_eq!(duplicate_fields(br#"{"a": 1, "a": 2, "#), ["a"], "broken text");
    }
}
