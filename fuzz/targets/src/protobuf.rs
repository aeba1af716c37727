//! Protobuf bodies: bytes as a client sends them, or an object as JSON.
//!
//! Law: a decoded object survives encoding and decoding.

use kube_sandbox::{
    protobuf::{decode, encode, encode_watch_event},
    types::{by_api_version, check, normalise},
};
use serde_json::Value;

/// Input: a body with its magic bytes, or an object as JSON text.
pub fn run(data: &[u8]) {
    if let Ok(object) = decode(data) {
        round_trip(object);
    }
    let Ok(mut object) = serde_json::from_slice::<Value>(data) else { return };
    let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let Some(definition) = by_api_version(&api_version, &kind) else {
        assert_eq!(encode(&object), None, "only built-in kinds have such a form");
        return;
    };
    if check(definition, &object).is_ok_and(|unknown| unknown.is_empty()) {
        normalise(definition, &mut object);
        object["apiVersion"] = api_version.into();
        object["kind"] = kind.into();
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
