//! The external metrics API of Kubernetes: of this cluster, or of another address.
//!
//! ```text
//! [NAMESPACE/]METRIC[?labelSelector=SELECTOR]
//! ```
//!
//! Without an address the API server of the cluster is queried. The operator's own token is sent there and
//! nowhere else: another address gets the token of the Secret or none, and has to be `https`.
//!
//! | key of the Secret | |
//! |---|---|
//! | `token` | instead of the operator's own |
//! | `ca.crt` | the authorities trusted at another address |

mod quantity;

use percent_encoding::{AsciiSet, percent_decode_str, utf8_percent_encode};

use super::{
    QueryError, Reading, Sample,
    query_machine::{Call, ClusterCall, Plan, ProviderError, Question, Read},
    support::{self, UNRESERVED},
};
use crate::request::sensitive;

pub(super) const NAME: &str = "externalmetrics";

const GROUP: &str = "/apis/external.metrics.k8s.io/v1beta1";
/// The server stops looking when we stop waiting.
const TIMEOUT: (&str, &str) = ("timeout", "5s");
/// Marks that names of metrics have and that paths may have: `datadogmetric@ns:name`.
const IN_PATH: &AsciiSet = &UNRESERVED.remove(b'@').remove(b':');
/// Longest selector. Labels have at most 63 characters, names of them 317.
const SELECTOR_MAX: usize = 4096;

/// A query taken apart.
#[derive(Debug, PartialEq, Eq)]
struct Wanted {
    namespace: String,
    metric: String,
    selector: String,
}

/// The value of a query.
pub(super) fn ask(question: &Question<'_>) -> Result<Plan, ProviderError> {
    let wanted =
        Wanted::of(question.query).map_err(|why| ProviderError::Query { provider: NAME, why })?;
    if question.confined_to.is_some_and(|only| only != wanted.namespace) {
        return Err(ProviderError::Confined { provider: NAME, namespace: wanted.namespace });
    }
    plan(question, &wanted, Box::new(parse))
}

/// Whether it answers. An error about an unknown metric is an answer.
pub(super) fn probe(question: &Question<'_>) -> Result<Plan, ProviderError> {
    let wanted = Wanted {
        namespace: "kube-system".into(),
        metric: "dummy-metric".into(),
        selector: String::new(),
    };
    let read =
        Box::new(|status, _: &[u8]| support::online(!matches!(status, 401 | 403 | 500..), status));
    plan(question, &wanted, read)
}

fn plan(question: &Question<'_>, wanted: &Wanted, read: Read) -> Result<Plan, ProviderError> {
    let Wanted { namespace, metric, selector } = wanted;
    let metric = utf8_percent_encode(metric, IN_PATH);
    let path = format!("{GROUP}/namespaces/{namespace}/{metric}");
    let selector = [("labelSelector", selector.as_str()), TIMEOUT];
    let pairs = if wanted.selector.is_empty() { &selector[1..] } else { &selector[..] };
    let authorization = match support::secret(question, "token") {
        Some(token) => {
            let bad = ProviderError::BadKey { provider: NAME, key: "token" };
            Some(sensitive(&format!("Bearer {token}")).ok_or(bad)?)
        }
        None => None,
    };
    let address = support::address(question, "");
    if address.is_empty() {
        let path = format!("{path}?{}", support::form(pairs));
        let (method, body) = (http::Method::GET, Vec::new());
        return Ok(Plan::Cluster(ClusterCall { method, path, body, authorization }, read));
    }
    let mut request = support::below(question, NAME, address, &path, pairs)?;
    if request.url.scheme_str() != Some("https") {
        return Err(ProviderError::NotSecure(NAME));
    }
    if let Some(value) = authorization {
        request.headers.insert(http::header::AUTHORIZATION, value);
    }
    Ok(Plan::once(question, Call::of(question, request), read))
}

// === impl Wanted ===

impl Wanted {
    fn of(query: &str) -> Result<Self, &'static str> {
        // A block of YAML ends with a line end.
        let query = query.trim();
        if query.chars().any(char::is_control) {
            return Err("it has more than one line");
        }
        let (path, parameters) = query.split_once('?').unwrap_or((query, ""));
        let (namespace, metric) = path.split_once('/').unwrap_or(("", path));
        let namespace = if namespace.is_empty() { "default" } else { namespace };
        if metric.is_empty() || metric.contains('/') {
            return Err("it is not of the form namespace/metric");
        }
        let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if !namespace.bytes().all(fits) || namespace.len() > 63 {
            return Err("the namespace is none");
        }
        let metric = percent_decode_str(metric).decode_utf8().map_err(|_| "the metric is none")?;
        if matches!(&*metric, "." | "..") {
            return Err("the metric is none");
        }
        let (namespace, metric) = (namespace.to_owned(), metric.into_owned());
        Ok(Self { namespace, metric, selector: selector(parameters)? })
    }
}

/// The selector among the parameters of a query; others are ignored.
fn selector(parameters: &str) -> Result<String, &'static str> {
    for pair in parameters.split('&') {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        if name != "labelSelector" {
            continue;
        }
        let value = value.replace('+', " ");
        let value = percent_decode_str(&value).decode_utf8();
        let value = value.map_err(|_| "the label selector is none")?;
        let fits = |c: char| c.is_ascii_alphanumeric() || "-._/=!<>,() ".contains(c);
        if value.len() > SELECTOR_MAX || !value.chars().all(fits) {
            return Err("the label selector is none");
        }
        return Ok(value.into_owned());
    }
    Ok(String::new())
}

fn parse(status: u16, body: &[u8]) -> Result<Reading, QueryError> {
    let answer = support::json(status, body)?;
    let items = answer.get("items").ok_or(QueryError::Malformed)?;
    if items.is_null() {
        // A list that was never filled, as Go writes it.
        return Err(QueryError::NoValue);
    }
    let items = items.as_array().ok_or(QueryError::Malformed)?;
    let first = items.first().ok_or(QueryError::NoValue)?;
    let text = first["value"].as_str().ok_or(QueryError::Malformed)?;
    let value = quantity::parse(text).and_then(Sample::new).ok_or(QueryError::Malformed)?;
    Ok(Reading { sample: value, series: items.len() })
}

#[cfg(test)]
mod tests;
