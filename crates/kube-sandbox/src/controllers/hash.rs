//! Hashes for parts of object names.
//!
//! Equivalent templates must have the same hash, with or without explicit empty lists, so the input
//! is [`canonical`] JSON. Names use an alphabet without vowels, which spells no words.

use serde_json::{Map, Value};

const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// `value` without nulls and without empty lists and members.
pub(crate) fn canonical(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let kept = members.iter().map(|(key, value)| (key.clone(), canonical(value)));
            Value::Object(kept.filter(|(_, value)| !is_empty(value)).collect::<Map<_, _>>())
        }
        Value::Array(items) => Value::Array(items.iter().map(canonical).collect()),
        scalar => scalar.clone(),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(members) => members.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// The name suffix for `value`; another `collisions` gives another suffix.
pub(crate) fn name_hash(value: &Value, collisions: Option<i64>) -> String {
    let mut hashed = canonical(value).to_string();
    if let Some(collisions) = collisions {
        hashed.push_str(&collisions.to_string());
    }
    encode(&fnv32(hashed.as_bytes()).to_string())
}

/// 64 hexadecimal digits that depend on `text` alone, in the form of a digest.
pub(crate) fn digest(text: &str) -> String {
    let lanes = (0..4_u8).map(|lane| {
        let mut bytes = vec![lane];
        bytes.extend_from_slice(text.as_bytes());
        format!("{:016x}", mix(fnv64(&bytes)))
    });
    lanes.collect()
}

fn encode(text: &str) -> String {
    let letter = |byte: u8| char::from(ALPHABET[usize::from(byte) % ALPHABET.len()]);
    text.bytes().map(letter).collect()
}

fn fnv32(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

fn fnv64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Spreads the low bits of an FNV hash over all of them (the finaliser of `SplitMix64`).
fn mix(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn templates_that_mean_the_same_hash_the_same() {
        let plain = json!({ "spec": { "containers": [{"name": "web", "image": "nginx"}] } });
        let wordy = json!({
            "metadata": { "creationTimestamp": null },
            "spec": { "containers": [{"name": "web", "image": "nginx", "resources": {}}], "volumes": [] },
        });
        assert_eq!(name_hash(&plain, None), name_hash(&wordy, None));
        assert_ne!(name_hash(&plain, None), name_hash(&plain, Some(1)), "a collision is escaped");
        assert!(name_hash(&plain, None).bytes().all(|byte| ALPHABET.contains(&byte)));
    }

    #[test]
    fn the_hash_is_fnv_1a() {
        assert_eq!(fnv32(b"a"), 0xe40c_292c);
        assert_eq!(fnv64(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(digest("nginx").len(), 64);
    }
}
