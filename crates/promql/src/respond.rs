//! The HTTP API without a socket: maps a request to an answer.
//!
//! Supports the paths that Flagger, Grafana and curl users need: queries, series and labels, the
//! two probes and the version. Parameters come in the query string or as a form.

use std::collections::BTreeSet;

use http::Method;
use jiff::Timestamp;
use serde::Serialize;

use super::{
    database::{Database, Found},
    json::{self, QueryData},
    labels::Labels,
    parameters::{Parameters, decode, invalid},
    plan::find,
    query::{LOOKBACK_MS, Query, QueryError, Steps, Value},
};

/// Status and body of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The value of `Content-Type`.
    pub content_type: &'static str,
    /// JSON, or plain text of probes and unknown paths.
    pub body: String,
}

/// Build information: clients choose features by the version.
#[derive(Serialize)]
struct BuildInformation {
    version: &'static str,
    revision: &'static str,
    branch: &'static str,
    #[serde(rename = "buildUser")]
    build_user: &'static str,
    #[serde(rename = "buildDate")]
    build_date: &'static str,
    #[serde(rename = "goVersion")]
    go_version: &'static str,
}

/// A parsed request.
struct Request<'r> {
    database: &'r Database,
    now_ms: i64,
    parameters: Parameters,
}

const JSON: &str = "application/json";
const PLAIN: &str = "text/plain; charset=utf-8";

const TRUNCATED: &[&str] = &["results truncated due to limit"];

const BUILD: BuildInformation = BuildInformation {
    version: "3.10.0",
    revision: "sandbox",
    branch: "",
    build_user: "",
    build_date: "",
    go_version: "",
};

/// Answers a request. The body is parsed as a form, regardless of its type.
pub fn respond(
    database: &Database,
    now: Timestamp,
    method: &Method,
    path_and_query: &str,
    body: &[u8],
) -> Answer {
    let (path, query) = path_and_query.split_once('?').unwrap_or((path_and_query, ""));
    let form = if method == Method::POST { body } else { &[] };
    let parameters = Parameters::parse(query, form);
    let request = Request { database, now_ms: now.as_millisecond(), parameters };
    let label = path.strip_prefix("/api/v1/label/").and_then(|rest| rest.strip_suffix("/values"));
    let is_read = matches!(*method, Method::GET | Method::HEAD);
    let is_allowed = match path {
        "/api/v1/query" | "/api/v1/query_range" | "/api/v1/series" | "/api/v1/labels" => {
            is_read || method == Method::POST
        }
        _ => is_read,
    };
    if !is_allowed {
        return plain(405, "Method Not Allowed\n");
    }
    let answer = match path {
        "/-/ready" | "/-/healthy" => Ok(plain(200, "Ready.\n")),
        "/api/v1/query" => request.query(),
        "/api/v1/query_range" => request.query_range(),
        "/api/v1/series" => request.series(),
        "/api/v1/labels" => request.label_names(),
        "/api/v1/status/buildinfo" => Ok(success(&BUILD, &[])),
        _ => match label {
            Some(name) => request.label_values(&decode(name)),
            None => return plain(404, "404 page not found\n"),
        },
    };
    answer.unwrap_or_else(|error| failure(&error))
}

// === impl Request ===

impl Request<'_> {
    fn query(&self) -> Result<Answer, QueryError> {
        let limit = self.parameters.limit()?;
        let at_ms = self.parameters.time_ms("time")?.unwrap_or(self.now_ms);
        let mut value = self.text()?.instant(self.database, at_ms).map_err(in_query)?;
        let is_cut = match &mut value {
            Value::Vector(samples) => cut(samples, limit),
            Value::Matrix(series) => cut(series, limit),
            Value::Scalar(_) | Value::Text(_) => false,
        };
        Ok(success(&QueryData { value: &value, at_ms }, warnings(is_cut)))
    }

    fn query_range(&self) -> Result<Answer, QueryError> {
        let limit = self.parameters.limit()?;
        let needed = |name, value: Option<i64>| {
            value.ok_or_else(|| invalid(name, &"the parameter is required"))
        };
        let start_ms = needed("start", self.parameters.time_ms("start")?)?;
        let end_ms = needed("end", self.parameters.time_ms("end")?)?;
        if end_ms < start_ms {
            return Err(invalid("end", &"the end is before the start"));
        }
        let step_ms = needed("step", self.parameters.duration_ms("step")?)?;
        if step_ms < 1 {
            return Err(invalid("step", &"a step is at least a millisecond"));
        }
        let steps = Steps { start_ms, end_ms, step_ms };
        let mut series = self.text()?.range(self.database, steps).map_err(in_query)?;
        let is_cut = cut(&mut series, limit);
        let value = Value::Matrix(series);
        Ok(success(&QueryData { value: &value, at_ms: end_ms }, warnings(is_cut)))
    }

    /// The query. Its timeout is validated, but only the work limit applies.
    fn text(&self) -> Result<Query<'_>, QueryError> {
        self.parameters.duration_ms("timeout")?;
        let lookback_ms = self.parameters.duration_ms("lookback_delta")?.filter(|ms| *ms > 0);
        let query = Query::new(self.parameters.get("query"));
        Ok(query.lookback_ms(lookback_ms.unwrap_or(LOOKBACK_MS)))
    }

    fn series(&self) -> Result<Answer, QueryError> {
        if self.parameters.selectors()?.is_empty() {
            return Err(QueryError::bad_data("no match[] parameter provided"));
        }
        let found = self.found()?;
        self.list(found.into_iter().map(|(labels, _)| labels).collect::<BTreeSet<Labels>>())
    }

    fn label_names(&self) -> Result<Answer, QueryError> {
        let found = self.found()?;
        let names = found.iter().flat_map(|(labels, _)| labels.iter().map(|(name, _)| name));
        self.list(names.collect::<BTreeSet<_>>())
    }

    fn label_values(&self, name: &str) -> Result<Answer, QueryError> {
        let found = self.found()?;
        let values = found.iter().map(|(labels, _)| labels.get(name));
        self.list(values.filter(|value| !value.is_empty()).collect::<BTreeSet<_>>())
    }

    /// The series that any selector matches (all without selectors), with samples in the given
    /// time.
    fn found(&self) -> Result<Vec<Found>, QueryError> {
        let start_ms = self.parameters.time_ms("start")?.unwrap_or(i64::MIN);
        let end_ms = self.parameters.time_ms("end")?.unwrap_or(i64::MAX);
        let selectors = self.parameters.selectors()?;
        let mut found = Vec::new();
        if selectors.is_empty() {
            found = self.database.select(|_| true);
        }
        for selector in &selectors {
            found.extend(find(self.database, selector)?);
        }
        found.retain(|(_, points)| {
            points.iter().any(|point| (start_ms..=end_ms).contains(&point.at_ms))
        });
        Ok(found)
    }

    fn list<T: Serialize>(&self, items: BTreeSet<T>) -> Result<Answer, QueryError> {
        let mut items: Vec<_> = items.into_iter().collect();
        let is_cut = cut(&mut items, self.parameters.limit()?);
        Ok(success(&items, warnings(is_cut)))
    }
}

fn success(data: &impl Serialize, warnings: &[&'static str]) -> Answer {
    Answer { status: 200, content_type: JSON, body: json::success(data, warnings) }
}

fn failure(error: &QueryError) -> Answer {
    Answer { status: error.status(), content_type: JSON, body: json::failure(error) }
}

fn plain(status: u16, text: &str) -> Answer {
    Answer { status, content_type: PLAIN, body: text.to_owned() }
}

/// Reports invalid queries as an invalid parameter.
fn in_query(error: QueryError) -> QueryError {
    match error {
        QueryError::BadData(problem) => invalid("query", &problem),
        QueryError::Execution(_) => error,
    }
}

fn cut<T>(items: &mut Vec<T>, limit: usize) -> bool {
    let is_cut = items.len() > limit;
    items.truncate(limit);
    is_cut
}

fn warnings(is_cut: bool) -> &'static [&'static str] {
    if is_cut { TRUNCATED } else { &[] }
}
