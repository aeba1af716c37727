//! Protobuf bodies: bytes as a client sends them, or an object as JSON.
//!
//! Law: a decoded object survives encoding and decoding.

use kube_sandbox::{
    fuzzing::normalised,
    protobuf::{decode, encode, encode_watch_event},
};
use serde_json::Value;

/// Input: a body with its magic bytes, or an object as JSON text.
pub fn run(data: &[u8]) {
    if let Ok(object) = decode(data) {
        round_trip(object);
    }
    let Ok(object) = serde_json::from_slice::<Value>(data) else { return };
    if let Some(object) = normalised(&object) {
        // The wire cannot tell an empty list from none: one trip over it comes first.
        let body = encode(&object).expect("a built-in kind can be encoded");
        round_trip(decode(&body).expect("an encoded object can be decoded"));
    }
}

fn round_trip(object: Value) {
    let body = encode(&object).expect("a decoded kind can be encoded");
    assert!(encode_watch_event("ADDED", &object).is_some(), "and sent to a watch");
    assert_eq!(decode(&body), Ok(object), "it survives the wire");
}
