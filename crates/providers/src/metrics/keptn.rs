//! Keptn: a metric that exists, or an analysis that is made for the query.
//!
//! ```text
//! keptnmetric/NAMESPACE/NAME                        status.value of the object
//! analysis/NAMESPACE/DEFINITION[/TIMEFRAME[/ARGS]]  1 if it passes, 0 if not
//!
//! made -> read, every second, ten times -> deleted, with any result
//! ```
//!
//! Only the first word may be written in any case; Flagger makes all of the query small, also the
//! values of arguments.

use std::time::Duration;

use http::Method;
use jiff::Timestamp;
use ring::digest;
use serde_json::{Map, Value, json};

use super::{
    QueryError, Reading, Sample,
    query_machine::{ClusterCall, Plan, ProviderError, Question, Reply, Step},
    support,
};

pub(super) const NAME: &str = "keptn";

/// An analysis that is to be made, watched and deleted.
pub(super) struct Analysis {
    namespace: String,
    name: String,
    body: Vec<u8>,
}

const GROUP: &str = "/apis/metrics.keptn.sh/v1beta1";
const TIMEFRAME: &str = "1m";
/// How often an analysis is read, and how long apart.
const LOOKS_MAX: usize = 10;
const LOOK_AFTER: Duration = Duration::from_secs(1);
/// Longest name of an object, less the suffix behind that of a definition.
const NAME_MAX: usize = 253 - 7;
/// Most arguments of one analysis.
const ARGUMENTS_MAX: usize = 64;

/// The value of a query.
pub(super) fn ask(question: &Question<'_>) -> Result<Plan, ProviderError> {
    let wrong = |why| ProviderError::Query { provider: NAME, why };
    let parts: Vec<_> = question.query.trim().splitn(5, '/').collect();
    let [kind, namespace, name, ..] = parts.as_slice() else {
        return Err(wrong("it is not of the form type/namespace/name"));
    };
    if !is_name(namespace) || !is_name(name) {
        return Err(wrong("the namespace or the name is none"));
    }
    if question.confined_to.is_some_and(|only| only != *namespace) {
        let namespace = (*namespace).to_owned();
        return Err(ProviderError::Confined { provider: NAME, namespace });
    }
    match kind.to_ascii_lowercase().as_str() {
        "keptnmetric" | "keptnmetrics" => {
            let path = format!("{GROUP}/namespaces/{namespace}/keptnmetrics/{name}");
            Ok(Plan::Cluster(get(path), Box::new(metric)))
        }
        "analysis" | "analyses" => {
            let timeframe = parts.get(3).copied().filter(|text| !text.is_empty());
            let arguments = arguments(parts.get(4).copied().unwrap_or_default());
            if arguments.len() > ARGUMENTS_MAX {
                return Err(wrong("it has too many arguments"));
            }
            let name = format!("{name}-{}", suffix(question.asker, question.query, question.now));
            let body = json!({
                "apiVersion": "metrics.keptn.sh/v1beta1",
                "kind": "Analysis",
                "metadata": { "name": name, "namespace": namespace },
                "spec": {
                    "analysisDefinition": { "name": parts.get(2) },
                    "timeframe": { "recent": timeframe.unwrap_or(TIMEFRAME) },
                    "args": arguments,
                },
            });
            let body = body.to_string().into_bytes();
            let namespace = (*namespace).to_owned();
            Ok(Plan::Analysis(Analysis { namespace, name, body }))
        }
        _ => Err(wrong("the type is neither keptnmetric nor analysis")),
    }
}

/// The cluster itself answers, so there is nothing to probe.
#[expect(clippy::unnecessary_wraps, reason = "as the other providers")]
pub(super) fn probe(_: &Question<'_>) -> Result<Plan, ProviderError> {
    Ok(Plan::Known(Reading::ONLINE))
}

const fn get(path: String) -> ClusterCall {
    ClusterCall { method: Method::GET, path, body: Vec::new(), authorization: None }
}

/// The name of a Kubernetes object; it becomes part of a path.
fn is_name(text: &str) -> bool {
    let fits = |byte: u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.'
    };
    (1..=NAME_MAX).contains(&text.len())
        && text.bytes().all(fits)
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
}

/// `k=v;k=v`; parts that are no pair are left out, as in Flagger.
fn arguments(text: &str) -> Map<String, Value> {
    let pairs = text.split(';').filter_map(|pair| pair.split_once('='));
    pairs
        .map(|(name, value)| (name.trim(), value.trim()))
        .filter(|(name, value)| !name.is_empty() && !value.contains('='))
        .map(|(name, value)| (name.to_owned(), Value::from(value)))
        .collect()
}

/// Six digits that differ between canaries, queries and times; nothing here is random.
fn suffix(asker: &str, query: &str, now: Timestamp) -> String {
    let text = format!("{asker}\n{}\n{query}", now.as_nanosecond());
    let hash = digest::digest(&digest::SHA256, text.as_bytes());
    support::hex(hash.as_ref().get(..3).unwrap_or_default())
}

fn metric(status: u16, body: &[u8]) -> Result<Reading, QueryError> {
    let object = support::json(status, body)?;
    let text = object["status"]["value"].as_str().ok_or(QueryError::Malformed)?;
    let value: f64 = text.trim().parse().map_err(|_| QueryError::Malformed)?;
    support::only(Sample::new(value))
}

// === impl Analysis ===

impl Analysis {
    pub(super) fn next(&self, replies: &[Reply]) -> Step {
        let Some((made, after)) = replies.split_first() else { return self.make() };
        match made.answer() {
            // An object of this name is not ours to read or delete.
            Ok((status @ (400..500), _)) => {
                return Step::done(Err(QueryError::Refused { status, reason: None }));
            }
            Ok((200..300, _)) => {}
            // It may exist all the same.
            Ok((status, _)) => {
                let error = QueryError::Refused { status, reason: None };
                return self.removed(Err(error), after);
            }
            Err(error) => return self.removed(Err(error), after),
        }
        let mut looks = after;
        for _ in 0..LOOKS_MAX {
            let (waited, seen) = match looks {
                [] => return Step::Wait(LOOK_AFTER),
                [waited] => (waited, None),
                [waited, seen, ..] => (waited, Some(seen)),
            };
            if *waited == Reply::Lost {
                let rest = looks.get(1..).unwrap_or_default();
                return self.removed(Err(QueryError::Unreachable), rest);
            }
            let Some(seen) = seen else { return Step::Cluster(get(self.path())) };
            looks = looks.get(2..).unwrap_or_default();
            if let Some(verdict) = verdict(seen) {
                return self.removed(verdict, looks);
            }
        }
        self.removed(Err(QueryError::NotInTime), looks)
    }

    /// The outcome, once the object is gone. A failed deletion does not change it.
    fn removed(&self, verdict: Result<Reading, QueryError>, replies: &[Reply]) -> Step {
        if replies.is_empty() {
            return Step::Cluster(self.removal());
        }
        Step::done(verdict)
    }

    pub(super) fn removal(&self) -> ClusterCall {
        ClusterCall { method: Method::DELETE, ..get(self.path()) }
    }

    fn make(&self) -> Step {
        let path = format!("{GROUP}/namespaces/{}/analyses", self.namespace);
        let body = self.body.clone();
        Step::Cluster(ClusterCall { method: Method::POST, path, body, authorization: None })
    }

    fn path(&self) -> String {
        format!("{GROUP}/namespaces/{}/analyses/{}", self.namespace, self.name)
    }
}

/// The result of an analysis; nothing while it runs.
fn verdict(seen: &Reply) -> Option<Result<Reading, QueryError>> {
    let object = match seen.answer().and_then(|(status, body)| support::json(status, body)) {
        Ok(object) => object,
        Err(error) => return Some(Err(error)),
    };
    let status = &object["status"];
    if status["state"] != "Completed" {
        return None;
    }
    let value = match status["pass"].as_bool() {
        Some(true) => 1.0,
        Some(false) => 0.0,
        None => return Some(Err(QueryError::Malformed)),
    };
    Some(support::only(Sample::new(value)))
}

#[cfg(test)]
mod tests;
