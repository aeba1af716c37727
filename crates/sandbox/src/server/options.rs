//! What clients add to a request: query parameters and delete options, checked once.

use std::time::Duration;

use percent_encoding::percent_decode_str;
use serde_json::Value;

use crate::failure::{Failure, FieldError, Outcome};

/// A query string, decoded. The first of several equal keys counts.
#[derive(Debug, Clone, Default)]
pub struct Query(Vec<(String, String)>);

/// Options of a write.
#[derive(Debug, Clone, Default)]
pub struct WriteOptions {
    pub field_manager: String,
    pub field_validation: FieldValidation,
    pub dry_run: bool,
    /// Server-side apply only.
    pub force: bool,
}

/// What to do about fields that are unknown or given twice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FieldValidation {
    Ignore,
    #[default]
    Warn,
    Strict,
}

/// Options of a list or of the list a watch starts with.
#[derive(Debug, Clone, Default)]
pub struct ListOptions {
    pub label_selector: String,
    pub field_selector: String,
    pub limit: usize,
    pub continue_token: String,
    pub resource_version: String,
    pub resource_version_match: String,
    /// Whether a watch starts with what exists; `None` leaves it to the resource version.
    pub send_initial_events: Option<bool>,
    pub bookmarks: bool,
    pub timeout: Option<Duration>,
}

/// How to delete, from the body or the query.
#[derive(Debug, Clone, Default)]
pub struct DeleteOptions {
    pub propagation: Option<Propagation>,
    pub grace_period_s: Option<i64>,
    pub uid: Option<String>,
    pub resource_version: Option<String>,
    pub dry_run: bool,
}

/// What becomes of dependents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    Background,
    Foreground,
    Orphan,
}

// === impl Query ===

impl Query {
    pub fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(key), decode(value))
        });
        Self(pairs.collect())
    }

    pub fn get(&self, key: &str) -> &str {
        let found = self.0.iter().find(|(name, _)| name == key);
        found.map_or("", |(_, value)| value.as_str())
    }

    pub fn flag(&self, key: &str) -> bool {
        matches!(self.get(key), "true" | "1" | "True" | "TRUE" | "t" | "T")
    }

    pub fn has(&self, key: &str) -> bool {
        self.0.iter().any(|(name, _)| name == key)
    }
}

fn decode(text: &str) -> String {
    percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned()
}

// === impl WriteOptions ===

impl WriteOptions {
    /// `agent` names the field manager when the request does not.
    pub fn parse(query: &Query, kind: &str, agent: &str) -> Outcome<Self> {
        let field_validation = match query.get("fieldValidation") {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                let supported = ["Ignore", "Strict", "Warn"];
                return Err(bad_option(kind, "fieldValidation", other, &supported));
            }
        };
        let manager = query.get("fieldManager");
        if manager.len() > 128 {
            let error = FieldError::too_long("fieldManager", 128);
            return Err(Failure::invalid("meta.k8s.io", kind, "", &[error]));
        }
        let field_manager = if manager.is_empty() { manager_of(agent) } else { manager.to_owned() };
        let dry_run = dry_run(query.get("dryRun"), query.has("dryRun"), kind)?;
        Ok(Self { field_manager, field_validation, dry_run, force: query.flag("force") })
    }
}

/// The manager's name when none was given: the program's name in the user agent.
fn manager_of(agent: &str) -> String {
    let name = agent.split('/').next().unwrap_or_default();
    let name: String = name.chars().filter(|c| !c.is_control()).take(128).collect();
    if name.is_empty() { "unknown".to_owned() } else { name }
}

fn dry_run(value: &str, given: bool, kind: &str) -> Outcome<bool> {
    match (given, value) {
        (false, _) => Ok(false),
        (true, "All") => Ok(true),
        (true, other) => Err(bad_option(kind, "dryRun", other, &["All"])),
    }
}

fn bad_option(kind: &str, field: &str, value: &str, supported: &[&str]) -> Failure {
    let error = FieldError::not_supported(field, &Value::from(value), supported);
    Failure::invalid("meta.k8s.io", kind, "", &[error])
}

// === impl ListOptions ===

impl ListOptions {
    pub fn parse(query: &Query) -> Outcome<Self> {
        let number = |key: &str| -> Outcome<Option<u64>> {
            let text = query.get(key);
            let bad =
                |_| Failure::bad_request(format!("invalid value {text:?} for {key}: not a number"));
            if text.is_empty() { Ok(None) } else { text.parse().map(Some).map_err(bad) }
        };
        let limit = number("limit")?.unwrap_or_default();
        let options = Self {
            label_selector: query.get("labelSelector").to_owned(),
            field_selector: query.get("fieldSelector").to_owned(),
            limit: usize::try_from(limit).unwrap_or(usize::MAX),
            continue_token: query.get("continue").to_owned(),
            resource_version: query.get("resourceVersion").to_owned(),
            resource_version_match: query.get("resourceVersionMatch").to_owned(),
            send_initial_events: query
                .has("sendInitialEvents")
                .then(|| query.flag("sendInitialEvents")),
            bookmarks: query.flag("allowWatchBookmarks"),
            timeout: number("timeoutSeconds")?.map(Duration::from_secs),
        };
        options.check(query)?;
        Ok(options)
    }

    fn check(&self, query: &Query) -> Outcome<()> {
        let refuse = |error| Err(Failure::invalid("meta.k8s.io", "ListOptions", "", &[error]));
        let matching = self.resource_version_match.as_str();
        let field = "resourceVersionMatch";
        if query.has("sendInitialEvents") {
            if !query.flag("watch") {
                let why = "sendInitialEvents is forbidden for list";
                return refuse(FieldError::forbidden("sendInitialEvents", why));
            }
            if matching != "NotOlderThan" {
                let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
                return refuse(FieldError::forbidden(field, why));
            }
            return Ok(());
        }
        if matching.is_empty() {
            return Ok(());
        }
        if query.flag("watch") {
            let why =
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            return refuse(FieldError::forbidden(field, why));
        }
        if self.resource_version.is_empty() {
            let why = "resourceVersionMatch is forbidden unless resourceVersion is provided";
            return refuse(FieldError::forbidden(field, why));
        }
        if !self.continue_token.is_empty() {
            let why = "resourceVersionMatch is forbidden when continue is provided";
            return refuse(FieldError::forbidden(field, why));
        }
        match matching {
            "Exact" if self.resource_version == "0" => {
                let why = "resourceVersionMatch \"Exact\" is forbidden for resourceVersion \"0\"";
                refuse(FieldError::forbidden(field, why))
            }
            "Exact" | "NotOlderThan" => Ok(()),
            other => {
                let supported = ["Exact", "NotOlderThan", ""];
                refuse(FieldError::not_supported(field, &Value::from(other), &supported))
            }
        }
    }
}

// === impl DeleteOptions ===

impl DeleteOptions {
    /// From the body if there is one, else from the query.
    pub fn parse(query: &Query, body: &Value) -> Outcome<Self> {
        let text = |key: &str| {
            let here = body[key].as_str().unwrap_or_default();
            if here.is_empty() { query.get(key).to_owned() } else { here.to_owned() }
        };
        let orphan = body["orphanDependents"].as_bool();
        let orphan = orphan.or_else(|| match query.get("orphanDependents") {
            "" => None,
            text => Some(text == "true"),
        });
        let propagation = match (text("propagationPolicy").as_str(), orphan) {
            ("", None) => None,
            ("", Some(false)) | ("Background", None) => Some(Propagation::Background),
            ("Foreground", None) => Some(Propagation::Foreground),
            ("Orphan", None) | ("", Some(true)) => Some(Propagation::Orphan),
            ("Background" | "Foreground" | "Orphan", Some(_)) => {
                let why = "orphanDependents and deletionPropagation cannot be both set";
                let error =
                    FieldError::invalid("propagationPolicy", &body["propagationPolicy"], why);
                return Err(Failure::invalid("meta.k8s.io", "DeleteOptions", "", &[error]));
            }
            (other, _) => {
                let supported = ["Background", "Foreground", "Orphan", "nil"];
                return Err(bad_option("DeleteOptions", "propagationPolicy", other, &supported));
            }
        };
        let grace = body["gracePeriodSeconds"].as_i64();
        let grace_period_s = grace.or_else(|| query.get("gracePeriodSeconds").parse().ok());
        let dry = match body["dryRun"].as_array() {
            Some(list) => list.first().and_then(Value::as_str).unwrap_or_default().to_owned(),
            None => query.get("dryRun").to_owned(),
        };
        let precondition = |key: &str| body["preconditions"][key].as_str().map(str::to_owned);
        Ok(Self {
            propagation,
            grace_period_s,
            uid: precondition("uid"),
            resource_version: precondition("resourceVersion"),
            dry_run: dry_run(&dry, !dry.is_empty(), "DeleteOptions")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn queries_are_decoded() {
        let query = Query::parse("labelSelector=app%3Dx%2Ctier+in+(a)&watch=true&limit=500");
        assert_eq!(query.get("labelSelector"), "app=x,tier in (a)");
        assert!(query.flag("watch"));
        assert_eq!(ListOptions::parse(&query).unwrap().limit, 500);
    }

    #[test]
    fn options_that_make_no_sense_are_refused_by_name() {
        let cases = [
            ("resourceVersionMatch=Exact", "unless resourceVersion is provided"),
            (
                "resourceVersionMatch=Exact&resourceVersion=0",
                "is forbidden for resourceVersion \"0\"",
            ),
            ("resourceVersionMatch=Newest&resourceVersion=5", "Unsupported value"),
            ("sendInitialEvents=true", "forbidden for list"),
            ("sendInitialEvents=true&watch=true", "NotOlderThan"),
            ("limit=many", "limit"),
        ];
        for (query, want) in cases {
            let failure = ListOptions::parse(&Query::parse(query)).unwrap_err();
            assert!(failure.message.contains(want), "{query}: {}", failure.message);
        }
        let failure =
            WriteOptions::parse(&Query::parse("dryRun=Some"), "PatchOptions", "").unwrap_err();
        assert!(failure.message.contains("dryRun"), "{}", failure.message);
    }

    #[test]
    fn delete_options_come_from_body_or_query() {
        let body = json!({"propagationPolicy": "Foreground", "preconditions": {"uid": "u"}});
        let options = DeleteOptions::parse(&Query::default(), &body).unwrap();
        assert_eq!(options.propagation, Some(Propagation::Foreground));
        assert_eq!(options.uid.as_deref(), Some("u"));
        let query = Query::parse("gracePeriodSeconds=0&orphanDependents=true&dryRun=All");
        let options = DeleteOptions::parse(&query, &Value::Null).unwrap();
        assert_eq!(options.grace_period_s, Some(0));
        assert_eq!(options.propagation, Some(Propagation::Orphan));
        assert!(options.dry_run);
    }
}
