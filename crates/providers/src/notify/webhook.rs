//! Plain JSON, for services without a format of their own here.
//!
//! ```json
//! {
//!   "severity": "error",
//!   "canary": "podinfo",
//!   "namespace": "test",
//!   "text": "5 checks failed, no more are allowed",
//!   "fields": { "Cluster": "eu-1" },
//!   "time": "2026-03-01T12:00:00Z"
//! }
//! ```
//!
//! `severity` is `info`, `warn` or `error`. `fields` is there even if empty; its names are those of
//! [`super::fields`]. `time` is in UTC. Members may be added, none will go. Texts are not escaped
//! for any markup: that is up to the reader.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Notice, markup::plain};

/// The message.
pub(super) fn body(notice: &Notice, now: Timestamp) -> Value {
    let fields: BTreeMap<_, _> =
        notice.fields.iter().map(|field| (plain(&field.name), plain(&field.value))).collect();
    json!({
        "severity": notice.severity.as_str(),
        "canary": notice.canary,
        "namespace": notice.namespace,
        "text": plain(&notice.text),
        "fields": fields,
        "time": now.to_string(),
    })
}
