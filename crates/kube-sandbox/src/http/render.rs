//! Renders answers as bytes in the negotiated format.
//!
//! Used for the answers of all verbs and for parts of watch frames.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, header};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{ResponseBody, full, negotiate::Format, set, text};
use crate::{
    failure::{Failure, Outcome},
    protobuf,
    registry::ResourceDef,
    server::{Answer, Content, options::Query},
    store::to_bytes,
    table::{self, Layout},
};

const JSON: &str = "application/json";
/// Maximum characters of all warnings of an answer; beyond it each is cut to [`WARNING_CUT`].
const WARNINGS_MAX: usize = 4 * 1024;
const WARNING_CUT: usize = 256;
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// Whether to indent the answer, as for a person reading it.
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
) -> Outcome<Response<ResponseBody>> {
    let Answer { code, content, warnings } = answer;
    let mut response = match (content, format) {
        (Content::Text(text), _) => full(code, "text/plain", text),
        (Content::Stored(stored), Format::Json) if !pretty => full(code, JSON, stored.json.clone()),
        (Content::List(list), Format::Json) if !pretty => full(code, JSON, list.to_bytes()),
        (Content::List(list), Format::Json | Format::Yaml | Format::Protobuf) => {
            let list = serde_json::from_slice(&list.to_bytes()).unwrap_or(Value::Null);
            object(code, &list, def, format, pretty, now)
        }
        (content, format) => {
            let answer = Answer { code, content, warnings: Vec::new() };
            let answer = answer.into_value();
            check_conversion(&answer, def, format)?;
            object(code, &answer, def, format, pretty, now)
        }
    };
    warn(&mut response, &warnings);
    Ok(response)
}

pub(super) fn warn(response: &mut Response<ResponseBody>, warnings: &[String]) {
    for value in warning_headers(warnings) {
        response.headers_mut().append(header::WARNING, value);
    }
}

/// An object cannot be converted to list metadata, nor a list to object metadata.
fn check_conversion(answer: &Value, def: Option<&ResourceDef>, format: Format) -> Outcome<()> {
    if is_status(answer) {
        return Ok(());
    }
    let is_list = answer["items"].is_array();
    let kind = answer["kind"].as_str().unwrap_or_default();
    let type_name = match def {
        Some(def) if def.is_custom() && is_list => "unstructured.UnstructuredList".to_owned(),
        Some(def) if def.is_custom() => "unstructured.Unstructured".to_owned(),
        Some(def) if def.group.is_empty() => format!("core.{kind}"),
        Some(def) => format!("{}.{kind}", def.group.split('.').next().unwrap_or_default()),
        None => kind.to_owned(),
    };
    match format {
        Format::Metadata if is_list => Err(Failure::not_acceptable(format!(
            "you requested PartialObjectMetadata, but the requested object is a list \
             (*{type_name})"
        ))),
        Format::MetadataList if !is_list => Err(Failure::not_acceptable(format!(
            "you requested PartialObjectMetadataList, but the requested object is not a list \
             (*{type_name})"
        ))),
        _ => Ok(()),
    }
}

fn is_status(object: &Value) -> bool {
    object["kind"] == "Status" && object["apiVersion"] == "v1"
}

/// Deduplicated warnings. Past 4096 characters in all, long ones are cut, as in the real server.
fn warning_headers(warnings: &[String]) -> Vec<HeaderValue> {
    let mut texts: Vec<&String> = Vec::new();
    for warning in warnings {
        // Warnings with characters that a header cannot have are dropped.
        if !texts.contains(&warning) && !warning.chars().any(char::is_control) {
            texts.push(warning);
        }
    }
    let length: usize = texts.iter().map(|text| text.chars().count()).sum();
    let cut_at = if length > WARNINGS_MAX { WARNING_CUT } else { usize::MAX };
    let mut left = WARNINGS_MAX;
    let mut headers = Vec::new();
    for text in texts {
        let text: String = text.chars().take(cut_at).collect();
        if left == 0 {
            break;
        }
        left = left.saturating_sub(text.chars().count());
        headers.extend(HeaderValue::from_str(&format!("299 - {}", quoted(&text))).ok());
    }
    headers
}

pub(super) fn failure(failure: &Failure, format: Format, pretty: bool) -> Response<ResponseBody> {
    let status = failure.to_status();
    let mut response = object(failure.code, &status, None, format, pretty, Timestamp::UNIX_EPOCH);
    if let Some(seconds) = failure.retry_after_s {
        set(response.headers_mut(), header::RETRY_AFTER.as_str(), &seconds.to_string());
    }
    warn(&mut response, &failure.warnings);
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
    let is_status = is_status(object);
    match (format, def) {
        (Format::Table(include), Some(def)) if !is_status => {
            let table = table::to_table(&layout(def, object), object, include, true, now);
            full(code, JSON, json_bytes(&table, pretty))
        }
        (Format::Metadata | Format::MetadataList, _) if !is_status => {
            full(code, JSON, json_bytes(&metadata_only(object), pretty))
        }
        (Format::Yaml, _) => full(code, "application/yaml", yaml(object)),
        (Format::Protobuf, _) => match protobuf::encode(object) {
            Some(bytes) => full(code, PROTOBUF, bytes),
            None => full(code, JSON, json_bytes(object, pretty)),
        },
        (Format::Json | Format::Table(_) | Format::Metadata | Format::MetadataList, _) => {
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

/// The columns of a resource. Objects of another kind (a Scale) get the generic ones.
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
    match object["items"].as_array() {
        Some(items) => json!({
            "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
            "metadata": object["metadata"],
            "items": items.iter().map(table::partial).collect::<Vec<_>>(),
        }),
        None => table::partial(object),
    }
}

/// A quoted string for a header value: quotes and backslashes are escaped.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Indented JSON text.
pub(super) fn prettier(bytes: &[u8]) -> Bytes {
    let value: Value = serde_json::from_slice(bytes).unwrap_or(Value::Null);
    json_bytes(&value, true)
}
