//! Inputs of several parts: documents divided by lines of three dashes, so that a corpus can be
//! written and read as text.

use serde_json::Value;

const DIVIDER: &[u8] = b"\n---\n";

/// The parts of an input; the last one has the rest.
pub fn parts<const N: usize>(data: &[u8]) -> Option<[&[u8]; N]> {
    let mut rest = data;
    let mut parts = [&[][..]; N];
    let (last, first) = parts.split_last_mut()?;
    for part in first {
        let at = rest.windows(DIVIDER.len()).position(|window| window == DIVIDER)?;
        (*part, rest) = (&rest[..at], &rest[at + DIVIDER.len()..]);
    }
    *last = rest;
    Some(parts)
}

/// The JSON documents of an input, if it has that many and each can be read.
pub fn documents<const N: usize>(data: &[u8]) -> Option<[Value; N]> {
    let mut documents = [const { Value::Null }; N];
    for (document, part) in documents.iter_mut().zip(parts::<N>(data)?) {
        *document = serde_json::from_slice(part).ok()?;
    }
    Some(documents)
}

/// Containers inside one another.
pub fn depth(value: &Value) -> usize {
    match value {
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// True when any object in `value` has a member whose name `is_wanted`.
pub fn has_name(value: &Value, is_wanted: &impl Fn(&str) -> bool) -> bool {
    match value {
        Value::Object(members) => {
            members.iter().any(|(name, value)| is_wanted(name) || has_name(value, is_wanted))
        }
        Value::Array(items) => items.iter().any(|item| has_name(item, is_wanted)),
        _ => false,
    }
}

/// True when `value` has a number with a fraction: its text may be read as the number next to it.
pub fn has_fraction(value: &Value) -> bool {
    match value {
        Value::Object(members) => members.values().any(has_fraction),
        Value::Array(items) => items.iter().any(has_fraction),
        Value::Number(number) => number.is_f64(),
        _ => false,
    }
}
