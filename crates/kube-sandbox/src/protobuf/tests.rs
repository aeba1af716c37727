//! Comparison with Kubernetes: `testdata/objects.jsonl` holds objects of every built-in kind with
//! the JSON and the body that its Go types and marshallers produced.

mod generate;

use proptest::prelude::*;
use serde_json::{Value, json};

use self::generate::Random;
use super::*;
use crate::types::{check, decode_base64, table};

/// `given`: a client's input. `json`, `protobuf`: Go's output after reading it.
fn recorded() -> impl Iterator<Item = (Value, Value, Vec<u8>)> {
    include_str!("testdata/objects.jsonl").lines().map(|line| {
        let mut record: Value = serde_json::from_str(line).unwrap();
        let body = decode_base64(record["protobuf"].as_str().unwrap()).unwrap();
        (record["given"].take(), record["json"].take(), body)
    })
}

fn kind_of(object: &Value) -> String {
    format!("{} {}", object["apiVersion"], object["kind"])
}

fn in_envelope(api_version: &str, kind: &str, message: &[u8]) -> Vec<u8> {
    let mut type_meta = Vec::new();
    wire::put_bytes(&mut type_meta, 1, api_version.as_bytes());
    wire::put_bytes(&mut type_meta, 2, kind.as_bytes());
    let mut body = MAGIC.to_vec();
    wire::put_bytes(&mut body, 1, &type_meta);
    wire::put_bytes(&mut body, 2, message);
    body
}

#[test]
fn normalising_gives_what_go_gives() {
    for (given, want, _) in recorded() {
        let kind = kind_of(&given);
        let definition =
            by_api_version(given["apiVersion"].as_str().unwrap(), given["kind"].as_str().unwrap())
                .unwrap();
        assert_eq!(check(definition, &given), Ok(vec![]), "{kind}");
        let mut object = given;
        normalise(definition, &mut object);
        assert_eq!(object, want, "{kind}");
    }
}

#[test]
fn bodies_are_those_of_go_byte_for_byte() {
    for (_, object, want) in recorded() {
        let body = encode(&object).unwrap();
        assert!(body == want, "{}", kind_of(&object));
    }
}

#[test]
fn bodies_of_go_read_as_the_objects_they_came_from() {
    for (_, mut want, body) in recorded() {
        // Empty and absent lists have the same encoding.
        drop_what_protobuf_drops(&mut want, true);
        let mut met = decode(&body).unwrap();
        drop_what_protobuf_drops(&mut met, true);
        assert_eq!(met, want);
    }
}

/// Protobuf has neither empty lists nor the kind of a nested object.
fn drop_what_protobuf_drops(value: &mut Value, outermost: bool) {
    match value {
        Value::Array(items) if items.is_empty() => *value = Value::Null,
        Value::Array(items) => {
            for each in items {
                drop_what_protobuf_drops(each, false);
            }
        }
        Value::Object(members) => {
            if !outermost && members.contains_key("spec") {
                members.remove("kind");
                members.remove("apiVersion");
            }
            members.values_mut().for_each(|each| drop_what_protobuf_drops(each, false));
        }
        _ => {}
    }
}

/// A message of length-delimited fields.
fn message_of(fields: &[(u32, &[u8])]) -> Vec<u8> {
    let mut message = Vec::new();
    for (number, bytes) in fields {
        wire::put_bytes(&mut message, *number, bytes);
    }
    message
}

#[test]
fn clients_that_leave_zero_values_out_are_understood() {
    // Go writes all fields; generated clients of other languages write only fields that are set.
    let metadata = message_of(&[(1, b"cfg")]);
    let (text, bytes) =
        (message_of(&[(1, b"a"), (2, b"1")]), message_of(&[(1, b"b"), (2, &[0, 255])]));
    let empty = message_of(&[(1, b"e")]);
    let map = message_of(&[(1, &metadata), (2, &text), (2, &empty), (3, &bytes)]);
    let want = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cfg"},
        "data": {"a": "1", "e": ""}, "binaryData": {"b": "AP8="},
    });
    assert_eq!(decode(&in_envelope("v1", "ConfigMap", &map)).unwrap(), want);

    let mut options = Vec::new();
    wire::put_number(&mut options, 1, 0);
    let want = json!({"apiVersion": "apps/v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0});
    let read = decode(&in_envelope("apps/v1", "DeleteOptions", &options)).unwrap();
    assert_eq!(read, want, "a pointer to zero is not nothing");

    let packed = message_of(&[(4, &[1, 0xac, 2])]);
    let pod = message_of(&[(2, &message_of(&[(14, &packed)]))]);
    let read = decode(&in_envelope("v1", "Pod", &pod)).unwrap();
    assert_eq!(read["spec"]["securityContext"]["supplementalGroups"], json!([1, 300]));

    let halves = message_of(&[(1, &message_of(&[(1, b"p")])), (1, &message_of(&[(3, b"ns")]))]);
    let read = decode(&in_envelope("v1", "Pod", &halves)).unwrap();
    assert_eq!(read["metadata"], json!({"name": "p", "namespace": "ns"}), "messages merge");
}

#[test]
fn a_watch_frame_holds_an_event_whose_object_is_a_whole_body() {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}});
    let frame = encode_watch_event("ADDED", &pod).unwrap();
    let (length, message) = frame.split_first_chunk::<4>().unwrap();
    assert_eq!(u32::from_be_bytes(*length) as usize, message.len());
    let body = encode(&pod).unwrap();
    assert_eq!(message, message_of(&[(1, b"ADDED"), (2, &message_of(&[(1, &body)]))]));
}

#[test]
fn kinds_that_are_not_built_in_have_no_body() {
    for object in [
        json!({"apiVersion": "example.org/v1", "kind": "Widget"}),
        json!({"apiVersion": "meta.k8s.io/v1", "kind": "Table", "rows": []}),
        json!({"metadata": {}}),
    ] {
        assert_eq!(encode(&object), None, "{object}");
        assert_eq!(encode_watch_event("ADDED", &object), None);
    }
}

#[test]
fn broken_bodies_are_refused() {
    let cases: [(&str, Vec<u8>); 7] = [
        ("no magic", b"{}".to_vec()),
        ("nothing behind the magic", MAGIC.to_vec()),
        ("a length past the end", b"k8s\0\x0a\x7f".to_vec()),
        ("a varint without end", b"k8s\0\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff".to_vec()),
        ("an unknown kind", in_envelope("v1", "Nothing", b"")),
        ("a wrong wire type", in_envelope("v1", "Pod", b"\x08\x01")),
        ("embedded text that is not JSON", {
            let mut raw = Vec::new();
            wire::put_bytes(&mut raw, 1, b"{");
            let mut message = Vec::new();
            wire::put_bytes(&mut message, 2, &raw);
            in_envelope("apps/v1", "ControllerRevision", &message)
        }),
    ];
    for (reason, body) in cases {
        assert_eq!(decode(&body).unwrap_err().code, 400, "{reason}");
    }

    // Schemas nested far deeper than any stack.
    let deep = (0..2000).fold(Vec::new(), |inner, _| {
        let mut not = Vec::new();
        wire::put_bytes(&mut not, 28, &inner);
        not
    });
    let schema = by_api_version("apiextensions.k8s.io/v1", "CustomResourceDefinition").unwrap();
    let path = [2, 7, 4, 1];
    let message = path.into_iter().rev().fold(deep, |inner, number| {
        let mut outer = Vec::new();
        wire::put_bytes(&mut outer, number, &inner);
        outer
    });
    let refused = decode::message(schema, &message, decode::DEPTH_MAX).unwrap_err();
    assert!(refused.contains("maximum recursion depth"), "{refused}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_object_survives_the_wire(seed in 1_u64..) {
        let mut random = Random(seed);
        let kinds: Vec<_> = table().types().iter().filter(|it| !it.kinds.is_empty()).collect();
        let definition = kinds[usize::try_from(random.below(kinds.len() as u64)).unwrap()];
        let (api_version, kind) = definition.kinds[0];
        let mut want = random.object(definition, 0);
        prop_assert_eq!(check(definition, &want), Ok(vec![]));
        normalise(definition, &mut want);
        want["apiVersion"] = json!(api_version.replace('*', "v1"));
        want["kind"] = json!(kind);
        prop_assert_eq!(decode(&encode(&want).unwrap()).unwrap(), want);
    }

    #[test]
    fn no_bytes_make_the_decoder_panic(
        seed in 1_u64..,
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let bodies: Vec<_> = recorded().map(|(_, _, body)| body).collect();
        let mut body = bodies[usize::try_from(seed % bodies.len() as u64).unwrap()].clone();
        for (at, byte) in flips {
            let at = at.index(body.len());
            body[at] = byte;
        }
        let _ = decode(&body);
    }
}
