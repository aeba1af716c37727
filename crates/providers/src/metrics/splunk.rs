//! Splunk Observability: a `SignalFlow` program over the last ten intervals.
//!
//! The program is sent over plain HTTP, and its results come back as one list of events that ends
//! when the program does. Flagger does the same over a `WebSocket`, which has the same programs and
//! results, and needs a client of its own.
//!
//! | key of the Secret | |
//! |---|---|
//! | `sf_token_key` | needed |

use std::collections::BTreeSet;

use http::Method;
use serde_json::Value;

use super::{
    QueryError, Reading, Sample,
    query_machine::{Call, Plan, ProviderError, Question},
    support,
};

pub(super) const NAME: &str = "splunk";

const TOKEN: &str = "sf_token_key";

/// Which of its two hosts is meant.
#[derive(Clone, Copy)]
enum Host {
    Api,
    Stream,
}

/// The value of a program.
pub(super) fn ask(question: &Question<'_>) -> Result<Plan, ProviderError> {
    let (from, to) = support::window_ms(question)?;
    let pairs = [
        ("start", from.to_string()),
        ("stop", to.to_string()),
        ("maxDelay", "0".to_owned()),
        ("immediate", "true".to_owned()),
    ];
    let pairs: Vec<_> = pairs.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let mut call = call(question, Host::Stream, "/v2/signalflow/execute", &pairs)?;
    call.request.method = Method::POST;
    call.request.body = question.query.as_bytes().to_vec();
    support::put_type(&mut call.request, "text/plain");
    Ok(Plan::once(question, call, Box::new(parse)))
}

/// Whether the token is good.
pub(super) fn probe(question: &Question<'_>) -> Result<Plan, ProviderError> {
    let call = call(question, Host::Api, "/v2/metric", &[("limit", "1")])?;
    Ok(Plan::greeting(question, call))
}

fn call(
    question: &Question<'_>,
    host: Host,
    path: &str,
    pairs: &[(&str, &str)],
) -> Result<Call, ProviderError> {
    let address = host.of(support::address(question, ""));
    let mut request = support::below(question, NAME, &address, path, pairs)?;
    let token = support::needed(question, NAME, TOKEN)?;
    support::put_secret(&mut request, NAME, ("x-sf-token", TOKEN), token)?;
    Ok(Call::of(question, request))
}

// === impl Host ===

impl Host {
    /// The address of this host, given that of either. Flagger exchanges the first such letters
    /// anywhere in the text; it is the scheme and the first word of the host that are meant.
    fn of(self, address: &str) -> String {
        let (scheme, rest) = match address.split_once("://") {
            Some(("ws", rest)) => ("http", rest),
            Some(("wss", rest)) => ("https", rest),
            Some((scheme, rest)) => (scheme, rest),
            None => return address.to_owned(),
        };
        let (from, to) = match self {
            Self::Api => ("stream", "api"),
            Self::Stream => ("api", "stream"),
        };
        let rest = match rest.strip_prefix(from) {
            Some(behind) if behind.starts_with(['.', '-']) => format!("{to}{behind}"),
            _ => rest.to_owned(),
        };
        format!("{scheme}://{rest}")
    }
}

/// The last value, if all values are of one series.
fn parse(status: u16, body: &[u8]) -> Result<Reading, QueryError> {
    if status != 200 {
        return Err(QueryError::Refused { status, reason: None });
    }
    let text = std::str::from_utf8(body).map_err(|_| QueryError::Malformed)?;
    let mut series = BTreeSet::new();
    let mut last = None;
    let mut has_ended = false;
    for (event, data) in events(text) {
        let data = || serde_json::from_str::<Value>(&data).map_err(|_| QueryError::Malformed);
        match event {
            "error" => return Err(QueryError::Refused { status, reason: None }),
            "control-message" => match data()?["event"].as_str() {
                Some("END_OF_CHANNEL") => has_ended = true,
                Some("CHANNEL_ABORT") => return Err(QueryError::Refused { status, reason: None }),
                _ => {}
            },
            "data" => {
                for (id, sample) in values(&data()?)? {
                    series.insert(id);
                    last = Some(sample);
                }
            }
            _ => {}
        }
    }
    if !has_ended {
        // The part that came may be incomplete.
        return Err(QueryError::Malformed);
    }
    if series.len() > 1 {
        return Err(QueryError::ManyValues);
    }
    support::only(last)
}

fn values(message: &Value) -> Result<Vec<(String, Sample)>, QueryError> {
    let data = message["data"].as_array().ok_or(QueryError::Malformed)?;
    let mut found = Vec::new();
    for one in data {
        let id = one["tsId"].as_str().ok_or(QueryError::Malformed)?;
        if let Some(sample) = support::optional_number(&one["value"])? {
            found.push((id.to_owned(), sample));
        }
    }
    Ok(found)
}

/// The events of a stream that have come to their end, each with its name and data.
fn events(text: &str) -> Vec<(&str, String)> {
    let mut events = Vec::new();
    let (mut name, mut data) = ("message", Vec::new());
    for line in text.split_inclusive('\n') {
        let Some(line) = line.strip_suffix('\n') else { break };
        let line = line.strip_suffix('\r').unwrap_or(line);
        if line.is_empty() {
            if !data.is_empty() {
                events.push((name, data.join("\n")));
            }
            (name, data) = ("message", Vec::new());
            continue;
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => name = value,
            "data" => data.push(value),
            _ => {}
        }
    }
    events
}

#[cfg(test)]
mod tests;
