//! Answers as bytes.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, header};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{ResponseBody, full, negotiate::Format, set, text};
use crate::{
    failure::Failure,
    protobuf,
    registry::ResourceDef,
    server::{Answer, Content, options::Query},
    store::to_bytes,
    table::{self, Layout},
};

const JSON: &str = "application/json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// A person at the other end reads better with line breaks.
pub(super) fn wants_pretty(headers: &HeaderMap, query: &str) -> bool {
    let query = Query::parse(query);
    if query.has("pretty") {
        return query.flag("pretty");
    }
    let agent = text(headers, header::USER_AGENT.as_str());
    ["curl", "Wget", "Mozilla/5.0"].iter().any(|person| agent.starts_with(person))
}

pub(super) fn answer(
    answer: Answer,
    def: Option<&ResourceDef>,
    format: Format,
    pretty: bool,
    now: Timestamp,
) -> Response<ResponseBody> {
    let Answer { code, content, warnings } = answer;
    let mut response = match (content, format) {
        (Content::Text(text), _) => full(code, "text/plain", text),
        (Content::Stored(stored), Format::Json) if !pretty => full(code, JSON, stored.json.clone()),
        (Content::List(list), Format::Json) if !pretty => full(code, JSON, list.to_bytes()),
        (content, format) => {
            let answer = Answer { code, content, warnings: Vec::new() };
            object(code, &answer.into_value(), def, format, pretty, now)
        }
    };
    for warning in &warnings {
        let value = format!("299 - {}", quoted(warning));
        if let Ok(value) = HeaderValue::from_str(&value) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
    response
}

pub(super) fn failure(failure: &Failure, format: Format, pretty: bool) -> Response<ResponseBody> {
    // A Status is never a table.
    let plain = match format {
        Format::Table(_) | Format::Metadata => Format::Json,
        other => other,
    };
    let status = failure.to_status();
    let mut response = object(failure.code, &status, None, plain, pretty, Timestamp::UNIX_EPOCH);
    if let Some(seconds) = failure.retry_after_s {
        set(response.headers_mut(), header::RETRY_AFTER.as_str(), &seconds.to_string());
    }
    response
}

fn object(
    code: u16,
    object: &Value,
    def: Option<&ResourceDef>,
    format: Format,
    pretty: bool,
    now: Timestamp,
) -> Response<ResponseBody> {
    let is_status = object["kind"] == "Status" && object["apiVersion"] == "v1";
    match (format, def) {
        (Format::Table(include), Some(def)) if !is_status => {
            let table = table::to_table(&layout(def, object), object, include, true, now);
            full(code, JSON, json_bytes(&table, pretty))
        }
        (Format::Metadata, _) if !is_status => {
            full(code, JSON, json_bytes(&metadata_only(object), pretty))
        }
        (Format::Yaml, _) => full(code, "application/yaml", yaml(object)),
        (Format::Protobuf, _) => match protobuf::encode(object) {
            Some(bytes) => full(code, PROTOBUF, bytes),
            None => full(code, JSON, json_bytes(object, pretty)),
        },
        (Format::Json | Format::Table(_) | Format::Metadata, _) => {
            full(code, JSON, json_bytes(object, pretty))
        }
    }
}

fn json_bytes(value: &Value, pretty: bool) -> Bytes {
    if !pretty {
        return to_bytes(value);
    }
    let mut bytes = serde_json::to_vec_pretty(value).unwrap_or_default();
    bytes.push(b'\n');
    bytes.into()
}

fn yaml(value: &Value) -> String {
    serde_saphyr::to_string(value).unwrap_or_default()
}

/// The columns of a resource. Answers of another kind (a Scale) get the generic ones.
pub(super) fn layout(def: &ResourceDef, object: &Value) -> Layout {
    let kind = object["kind"].as_str().unwrap_or_default();
    let kind = kind.strip_suffix("List").unwrap_or(kind);
    match def.custom() {
        Some((_, version)) if kind == def.kind => Layout::custom(version.printer_columns.clone()),
        _ => Layout::built_in(&def.group, kind),
    }
}

/// An object or list reduced to its metadata.
pub(super) fn metadata_only(object: &Value) -> Value {
    let of = |object: &Value| {
        json!({
            "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
            "metadata": object["metadata"],
        })
    };
    match object["items"].as_array() {
        Some(items) => json!({
            "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
            "metadata": object["metadata"], "items": items.iter().map(of).collect::<Vec<_>>(),
        }),
        None => of(object),
    }
}

/// A quoted string as header values have it: quotes and backslashes escaped, control characters out.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' | '\r' | '\t' => out.push(' '),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// JSON text with line breaks.
pub(super) fn prettier(bytes: &[u8]) -> Bytes {
    let value: Value = serde_json::from_slice(bytes).unwrap_or(Value::Null);
    json_bytes(&value, true)
}
