//! Prometheus, and servers with its HTTP API: one instant query, one number.
//!
//! Of several series the last one counts, as in Flagger; [`Answer::series`] says how many there
//! were, for a warning. A scalar is as good as a series.
//!
//! Amazon's managed Prometheus is known by its address and gets its requests signed.
//!
//! | key of the Secret | |
//! |---|---|
//! | `token` | sent as bearer |
//! | `username`, `password` | needed without a token |
//! | `aws_access_key_id`, `aws_secret_access_key`, `aws_session_token` | for Amazon's, instead of the operator's own |
//! | `ca.crt`, `tls.crt`, `tls.key` | authorities to trust, and the client certificate; of every provider with an address |

use std::{collections::BTreeMap, fmt};

use http::{
    HeaderName, HeaderValue, Method,
    header::{AUTHORIZATION, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, TRANSFER_ENCODING},
};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use zeroize::{Zeroize, ZeroizeOnDrop};

pub use super::Reading as Answer;
use super::{
    QueryError, Reading, Sample, aws,
    cloud_identity::CloudIdentity,
    cloudwatch,
    query_machine::{Call, Plan, ProviderError, Question},
    support,
};
use crate::request::{AddressError, Request, secret_text, sensitive};

/// The login. Prints as nothing, and leaves nothing in memory.
#[derive(Clone, Default, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub enum Credentials {
    /// Not at all.
    #[default]
    None,
    /// With a token.
    Bearer(String),
    /// With a name and a password.
    Basic {
        /// The name.
        username: String,
        /// The password.
        password: String,
    },
}

/// Why a query cannot be sent. Quotes no value, since any of them may be secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The address of the server cannot be used.
    #[error("the metrics server cannot be reached")]
    Address(#[from] AddressError),
    /// A header that HTTP does not allow.
    #[error("header {0:?} is not allowed by HTTP")]
    Header(String),
    /// The Secret has no token and not both of name and password.
    #[error("the Secret has no {0:?}")]
    MissingKey(&'static str),
    /// A token, name or password that no header can carry.
    #[error("the credentials are not allowed by HTTP")]
    Credentials,
}

pub(super) const NAME: &str = "prometheus";

/// A query every server answers with 1.
pub const PROBE: &str = "vector(1)";
/// Longest query that is sent in the URL. Servers and proxies take 8 KiB of request line, of which
/// the address has its share; a longer one goes as a form, which Prometheus takes as well.
const URL_QUERY_MAX: usize = 6 * 1024;
/// The words of Prometheus and its kin for errors.
const REASONS: [&str; 9] = [
    "bad_data",
    "timeout",
    "canceled",
    "execution",
    "internal",
    "unavailable",
    "not_found",
    "not_acceptable",
    "too_many_requests",
];

/// The value of a query.
pub(super) fn ask(question: &Question<'_>) -> Result<Plan, ProviderError> {
    plan(question, question.query, parse)
}

/// Whether it answers.
pub(super) fn probe(question: &Question<'_>) -> Result<Plan, ProviderError> {
    plan(question, PROBE, read_probe)
}

fn plan(
    question: &Question<'_>,
    query: &str,
    read: fn(u16, &[u8]) -> Result<Reading, QueryError>,
) -> Result<Plan, ProviderError> {
    let address = support::address(question, "");
    let region = amazon_region(address);
    let credentials = match (question.secret, &region) {
        (Some(secret), None) => Credentials::from_secret(secret).map_err(ProviderError::from)?,
        _ => Credentials::None,
    };
    let request = request(address, query, &question.provider.headers, &credentials)?;
    let Some(region) = region else {
        return Ok(Plan::once(question, Call::of(question, request), Box::new(read)));
    };
    let identity = CloudIdentity::Aws {
        source: cloudwatch::source(question),
        region,
        service: "aps",
        sts: question.environment.aws_sts_endpoint.clone(),
    };
    Ok(Plan::named(question, identity, Call::known(request), Box::new(read)))
}

/// The region of an address of Amazon's managed Prometheus.
fn amazon_region(address: &str) -> Option<String> {
    let request = Request::get(address).ok().filter(|it| it.url.scheme_str() == Some("https"))?;
    let region = request.url.host()?.strip_prefix("aps-workspaces.")?;
    let region = region.strip_suffix(".cn").unwrap_or(region).strip_suffix(".amazonaws.com")?;
    aws::is_region(region).then(|| region.to_owned())
}

/// The request for a query.
///
/// Blanks and line ends are folded into single blanks first, as Flagger does. Headers are those of
/// the template; headers that HTTP itself decides, such as the host, cannot be set by them.
pub fn request(
    address: &str,
    query: &str,
    headers: &BTreeMap<String, Vec<String>>,
    credentials: &Credentials,
) -> Result<Request, RequestError> {
    let query = query.split_whitespace().collect::<Vec<_>>().join(" ");
    let query = utf8_percent_encode(&query, NON_ALPHANUMERIC).to_string();
    let request = Request::get(address)?;
    let path = format!("{}/api/v1/query", request.url.path().trim_end_matches('/'));
    let mut request = if query.len() <= URL_QUERY_MAX {
        request.with_path(&format!("{path}?query={query}"))?
    } else {
        let mut posted = request.with_path(&path)?;
        posted.method = Method::POST;
        posted.body = format!("query={query}").into_bytes();
        posted
    };
    add_headers(&mut request, headers)?;
    if request.method == Method::POST {
        let form = HeaderValue::from_static("application/x-www-form-urlencoded");
        request.headers.insert(CONTENT_TYPE, form);
    }
    let carried = match credentials {
        Credentials::None => true,
        Credentials::Bearer(token) => request.authorize_bearer(token),
        Credentials::Basic { username, password } => request.authorize_basic(username, password),
    };
    if carried { Ok(request) } else { Err(RequestError::Credentials) }
}

/// The number in an answer.
pub fn parse(status: u16, body: &[u8]) -> Result<Answer, QueryError> {
    let answer: Option<Value> = serde_json::from_slice(body).ok();
    let reason = || answer.as_ref().and_then(known_reason);
    if !(200..300).contains(&status) {
        return Err(QueryError::Refused { status, reason: reason() });
    }
    let answer = answer.as_ref().ok_or(QueryError::Malformed)?;
    if answer["status"] == "error" {
        return Err(QueryError::Refused { status, reason: reason() });
    }
    let data = &answer["data"];
    let result = data["result"].as_array().ok_or(QueryError::Malformed)?;
    match data["resultType"].as_str() {
        Some("scalar") => Ok(Answer { sample: point(result)?, series: 1 }),
        Some("vector" | "matrix") | None => last_of(result),
        Some(_) => Err(QueryError::Malformed),
    }
}

/// Reads an answer to [`PROBE`].
pub(super) fn read_probe(status: u16, body: &[u8]) -> Result<Reading, QueryError> {
    let answer = parse(status, body);
    if is_online(&answer) { answer } else { answer.and(Err(QueryError::Malformed)) }
}

/// Whether a server that was sent [`PROBE`] works.
pub fn is_online(answer: &Result<Answer, QueryError>) -> bool {
    answer.is_ok_and(|answer| (answer.sample.get() - 1.0).abs() < f64::EPSILON)
}

fn last_of(series: &[Value]) -> Result<Answer, QueryError> {
    let last = series.last().ok_or(QueryError::NoValue)?;
    if last.get("values").is_some() {
        return Err(QueryError::ManyValues);
    }
    let point_of_last = last["value"].as_array().ok_or(QueryError::Malformed)?;
    Ok(Answer { sample: point(point_of_last)?, series: series.len() })
}

/// A time and a value; the value is a number in a text.
fn point(pair: &[Value]) -> Result<Sample, QueryError> {
    let [_time, Value::String(text)] = pair else { return Err(QueryError::Malformed) };
    let value: f64 = text.parse().map_err(|_| QueryError::Malformed)?;
    Sample::new(value).ok_or(QueryError::NoValue)
}

fn known_reason(answer: &Value) -> Option<&'static str> {
    let word = answer["errorType"].as_str()?;
    REASONS.into_iter().find(|reason| *reason == word)
}

/// Headers of a template; headers that HTTP itself decides, such as the host, cannot be set by
/// them.
pub(super) fn add_headers(
    request: &mut Request,
    headers: &BTreeMap<String, Vec<String>>,
) -> Result<(), RequestError> {
    for (name, values) in headers {
        let refused = || RequestError::Header(crate::hook::excerpt(name.as_bytes()));
        let header: HeaderName = name.parse().map_err(|_| refused())?;
        if [HOST, CONTENT_LENGTH, TRANSFER_ENCODING, CONNECTION].contains(&header) {
            continue;
        }
        if header == AUTHORIZATION {
            // The login in the address gives way; two such values are invalid.
            request.headers.remove(AUTHORIZATION);
        }
        for value in values {
            request.headers.append(&header, sensitive(value).ok_or_else(refused)?);
        }
    }
    Ok(())
}

impl From<RequestError> for ProviderError {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Address(why) => Self::Address { provider: NAME, why },
            RequestError::Header(name) => Self::Header(name),
            RequestError::MissingKey(key) => Self::MissingKey { provider: NAME, key },
            RequestError::Credentials => Self::BadKey { provider: NAME, key: "token" },
        }
    }
}

// === impl Credentials ===

impl Credentials {
    /// The login in a Secret: `token`, or else `username` and `password`.
    pub fn from_secret(data: &BTreeMap<String, Vec<u8>>) -> Result<Self, RequestError> {
        let text = |key: &'static str| {
            let text = data.get(key).and_then(|value| secret_text(value)).map(str::to_owned);
            text.ok_or(RequestError::MissingKey(key))
        };
        if let Ok(token) = text("token") {
            return Ok(Self::Bearer(token));
        }
        let is_given = |key: &&str| data.contains_key(*key);
        let says_who = ["username", "password"].iter().any(is_given);
        if !says_who && ["ca.crt", "tls.crt"].iter().any(is_given) {
            // The Secret is about certificates.
            return Ok(Self::None);
        }
        Ok(Self::Basic { username: text("username")?, password: text("password")? })
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests;
