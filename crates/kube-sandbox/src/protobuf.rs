//! Kubernetes' protobuf encoding of objects and watch events, driven by the type table.
//!
//! A body is four magic bytes and an envelope (`runtime.Unknown`) with the kind and the object's
//! own message. A watch frame holds an event without envelope, whose object has one:
//!
//! ```text
//! body:   "k8s\0" Unknown{ typeMeta{apiVersion, kind}, raw = message of the kind }
//! frame:  length (4 bytes, big endian) WatchEvent{ type, object{ raw = a body as above } }
//! ```
//!
//! Decoding accepts untrusted bytes: every length is checked, nesting is limited, and nothing
//! panics. Encoding is byte for byte that of Kubernetes' own marshallers, including zero values.

mod decode;
mod encode;
#[cfg(test)]
mod tests;
pub(crate) mod wire;

use serde_json::Value;

use crate::{
    failure::{Failure, Outcome},
    types::{by_api_version, normalise},
};

/// The media type of an object or a list.
pub const CONTENT_TYPE: &str = "application/vnd.kubernetes.protobuf";
/// The media type of a watch.
pub const WATCH_CONTENT_TYPE: &str = "application/vnd.kubernetes.protobuf;stream=watch";

const MAGIC: &[u8] = b"k8s\0";

/// Decodes a protobuf body into the JSON form of the object.
pub fn decode(bytes: &[u8]) -> Outcome<Value> {
    decode_nested(bytes, decode::DEPTH_MAX).map_err(Failure::bad_request)
}

/// Encodes an object, list or status as a protobuf body. `None` for kinds without a protobuf form:
/// custom resources and tables.
pub fn encode(object: &Value) -> Option<Vec<u8>> {
    let api_version = object.get("apiVersion")?.as_str()?;
    let kind = object.get("kind")?.as_str()?;
    let message = encode::message(by_api_version(api_version, kind)?, object);

    let mut type_meta = Vec::new();
    wire::put_bytes(&mut type_meta, 1, api_version.as_bytes());
    wire::put_bytes(&mut type_meta, 2, kind.as_bytes());
    let mut body = MAGIC.to_vec();
    wire::put_bytes(&mut body, 1, &type_meta);
    wire::put_bytes(&mut body, 2, &message);
    // Content encoding and content type, both empty.
    wire::put_bytes(&mut body, 3, b"");
    wire::put_bytes(&mut body, 4, b"");
    Some(body)
}

/// One frame of a watch stream; `None` as for [`encode`].
pub fn encode_watch_event(event: &str, object: &Value) -> Option<Vec<u8>> {
    let body = encode(object)?;
    let mut raw = Vec::with_capacity(body.len() + 8);
    wire::put_bytes(&mut raw, 1, &body);
    let mut message = Vec::with_capacity(raw.len() + 16);
    wire::put_bytes(&mut message, 1, event.as_bytes());
    wire::put_bytes(&mut message, 2, &raw);
    let mut frame = u32::try_from(message.len()).ok()?.to_be_bytes().to_vec();
    frame.append(&mut message);
    Some(frame)
}

/// True if `bytes` begin like a protobuf body.
pub fn is_body(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

fn decode_nested(bytes: &[u8], depth: usize) -> Result<Value, String> {
    let envelope = bytes.strip_prefix(MAGIC).ok_or_else(|| {
        let prefix = "[107 56 115 0]";
        format!("provided data does not appear to be a protobuf message, expected prefix {prefix}")
    })?;
    let (api_version, kind, raw) = open(envelope)?;
    let definition = by_api_version(&api_version, &kind).ok_or_else(|| {
        format!("no kind {kind:?} is registered for version {api_version:?} in scheme")
    })?;
    let mut object = Value::Object(decode::message(definition, raw, depth)?);
    normalise(definition, &mut object);
    if let Some(members) = object.as_object_mut() {
        members.insert("apiVersion".into(), api_version.into());
        members.insert("kind".into(), kind.into());
    }
    Ok(object)
}

/// Parses `runtime.Unknown` into API version, kind and the object's message.
fn open(envelope: &[u8]) -> Result<(String, String, &[u8]), String> {
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    let mut fields = wire::Reader::new(envelope);
    while let Some((number, payload)) = fields.next()? {
        match number {
            1 => {
                let mut names = wire::Reader::new(payload.bytes()?);
                while let Some((number, payload)) = names.next()? {
                    match number {
                        1 => api_version = payload.text()?,
                        2 => kind = payload.text()?,
                        _ => {}
                    }
                }
            }
            2 => raw = payload.bytes()?,
            _ => {}
        }
    }
    Ok((api_version, kind, raw))
}
