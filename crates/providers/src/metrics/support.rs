//! Helpers for several providers: addresses, Secrets, spans of time, numbers.

use http::{HeaderName, HeaderValue};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tidegate_api::duration::GoDuration;

use super::{
    QueryError, Reading, Sample,
    prometheus::{self, RequestError},
    query_machine::{ProviderError, Question},
};
use crate::request::{AddressError, Request, secret_text, sensitive};

/// Distinguishes identities, without being a proof of one.
pub type Fingerprint = [u8; 32];

/// Everything but the characters that RFC 3986 calls unreserved.
pub(super) const UNRESERVED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A query looks back over this many intervals: a server that lags, or that keeps points further apart than
/// the interval, still has a value.
const WINDOW_INTERVALS: i64 = 10;

/// A GET below an address, with these parameters and the template's headers.
pub(super) fn below(
    question: &Question<'_>,
    provider: &'static str,
    address: &str,
    path: &str,
    pairs: &[(&str, &str)],
) -> Result<Request, ProviderError> {
    let wrong = |why| ProviderError::Address { provider, why };
    let request = Request::get(address).map_err(wrong)?;
    let base = request.url.path().trim_end_matches('/').to_owned();
    let query = form(pairs);
    let mark = if query.is_empty() { "" } else { "?" };
    let mut request = request.with_path(&format!("{base}{path}{mark}{query}")).map_err(wrong)?;
    prometheus::add_headers(&mut request, &question.provider.headers).map_err(
        |error| match error {
            RequestError::Header(name) => ProviderError::Header(name),
            _ => wrong(AddressError::Invalid),
        },
    )?;
    Ok(request)
}

/// The address of a template, or else this one.
pub(super) fn address<'a>(question: &Question<'a>, default: &'a str) -> &'a str {
    let given = question.provider.address.as_deref().map(str::trim);
    given.filter(|address| !address.is_empty()).unwrap_or(default)
}

/// Names and values as in the query of a URL.
pub(super) fn form(pairs: &[(&str, &str)]) -> String {
    let encode = |text: &str| utf8_percent_encode(text, UNRESERVED).to_string();
    let pairs: Vec<_> =
        pairs.iter().map(|(name, value)| format!("{}={}", encode(name), encode(value))).collect();
    pairs.join("&")
}

/// The text of a Secret's key.
pub(super) fn secret<'a>(question: &Question<'a>, key: &str) -> Option<&'a str> {
    question.secret.and_then(|secret| secret.get(key)).and_then(|value| secret_text(value))
}

/// The same where it must be there.
pub(super) fn needed<'a>(
    question: &Question<'a>,
    provider: &'static str,
    key: &'static str,
) -> Result<&'a str, ProviderError> {
    secret(question, key).ok_or(ProviderError::MissingKey { provider, key })
}

/// Sends a secret along in a header of its own.
pub(super) fn put_secret(
    request: &mut Request,
    provider: &'static str,
    (name, key): (&'static str, &'static str),
    text: &str,
) -> Result<(), ProviderError> {
    let value = sensitive(text).ok_or(ProviderError::BadKey { provider, key })?;
    request.headers.insert(HeaderName::from_static(name), value);
    Ok(())
}

/// Sets the content type.
pub(super) fn put_type(request: &mut Request, media: &'static str) {
    request.headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static(media));
}

/// The fingerprint of some texts, in this order.
pub(super) fn fingerprint(parts: &[&str]) -> Fingerprint {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.len().to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

/// Bytes as two digits each.
pub(super) fn hex(bytes: &[u8]) -> String {
    let digits: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    digits.concat()
}

/// The interval of the metric, in whole milliseconds.
pub(super) fn interval_ms(question: &Question<'_>) -> Result<i64, ProviderError> {
    let wrong = || ProviderError::Interval(crate::hook::excerpt(question.interval.as_bytes()));
    let interval: GoDuration = question.interval.parse().map_err(|_| wrong())?;
    let milliseconds = interval.as_nanos() / 1_000_000;
    if milliseconds > 0 { Ok(milliseconds) } else { Err(wrong()) }
}

/// Now and where the window before it starts, in whole seconds of milliseconds since the epoch.
pub(super) fn window_ms(question: &Question<'_>) -> Result<(i64, i64), ProviderError> {
    let interval_ms = interval_ms(question)?;
    let to = question.now.as_second().saturating_mul(1000);
    let from = to.saturating_sub(interval_ms.saturating_mul(WINDOW_INTERVALS));
    Ok((from.max(0), to))
}

/// The JSON of an answer with status 200.
pub(super) fn json(status: u16, body: &[u8]) -> Result<Value, QueryError> {
    if status != 200 {
        return Err(QueryError::Refused { status, reason: None });
    }
    serde_json::from_slice(body).map_err(|_| QueryError::Malformed)
}

/// A number, also one in a text. Not NaN, which is no value.
pub(super) fn number(value: &Value) -> Option<Sample> {
    let number = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    number.and_then(Sample::new)
}

/// A value that may be absent: nothing for `null` and NaN, an error for anything but a number.
pub(super) fn optional_number(value: &Value) -> Result<Option<Sample>, QueryError> {
    match value {
        Value::Null => Ok(None),
        Value::Number(number) => Ok(number.as_f64().and_then(Sample::new)),
        Value::String(text) => {
            let number: f64 = text.trim().parse().map_err(|_| QueryError::Malformed)?;
            Ok(Sample::new(number))
        }
        Value::Bool(_) | Value::Array(_) | Value::Object(_) => Err(QueryError::Malformed),
    }
}

/// A value that is the only one.
pub(super) fn only(sample: Option<Sample>) -> Result<Reading, QueryError> {
    sample.map(|sample| Reading { sample, series: 1 }).ok_or(QueryError::NoValue)
}

/// The reading of a probe, from an answer that passes.
pub(super) fn online(is_online: bool, status: u16) -> Result<Reading, QueryError> {
    if is_online { Ok(Reading::ONLINE) } else { Err(QueryError::Refused { status, reason: None }) }
}
