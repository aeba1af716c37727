//! Parses and validates query parameters and delete options.
//!
//! Every verb of the server parses its options here. Invalid values fail with the error of
//! Kubernetes; unknown parameters are ignored.

use std::time::Duration;

use percent_encoding::percent_decode_str;
use serde_json::Value;

use crate::failure::{Failure, FieldError, Outcome};

/// Maximum length of a field manager's name, as in Kubernetes.
const MANAGER_BYTES_MAX: usize = 128;

/// A decoded query string. The first of several equal keys counts.
#[derive(Debug, Clone, Default)]
pub struct Query(Vec<(String, String)>);

/// Options of a write.
#[derive(Debug, Clone, Default)]
pub(crate) struct WriteOptions {
    pub field_manager: String,
    pub field_validation: FieldValidation,
    pub dry_run: bool,
    /// For server-side apply only; other writes must not set it at all.
    pub force: Option<bool>,
}

/// Handling of unknown and duplicate fields.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Ignore,
    #[default]
    Warn,
    Strict,
}

/// Options of a list or of the list a watch starts with.
#[derive(Debug, Clone, Default)]
pub(crate) struct ListOptions {
    pub label_selector: String,
    pub field_selector: String,
    pub limit: usize,
    pub continue_token: String,
    pub resource_version: String,
    pub resource_version_match: String,
    /// Whether a watch starts with existing objects; `None` leaves it to the resource version.
    pub send_initial_events: Option<bool>,
    pub bookmarks: bool,
    pub timeout: Option<Duration>,
}

/// Delete options, from the body or the query.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeleteOptions {
    pub propagation: Option<Propagation>,
    pub grace_period_s: Option<i64>,
    pub uid: Option<String>,
    pub resource_version: Option<String>,
    pub dry_run: bool,
    /// `orphanDependents: false`, the old form of a cascading delete, which is answered with 202.
    pub cascades: bool,
}

/// Effect on dependents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Propagation {
    Background,
    Foreground,
    Orphan,
}

// === impl Query ===

impl Query {
    /// Takes a query string apart.
    pub fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(key), decode(value))
        });
        Self(pairs.collect())
    }

    /// The value of a key; empty if it is not there.
    pub fn get(&self, key: &str) -> &str {
        let found = self.0.iter().find(|(name, _)| name == key);
        found.map_or("", |(_, value)| value.as_str())
    }

    /// Whether a key says true, in any spelling Go reads.
    pub fn flag(&self, key: &str) -> bool {
        matches!(self.get(key), "true" | "1" | "True" | "TRUE" | "t" | "T")
    }

    /// All values of a repeatable key.
    pub fn all(&self, key: &str) -> Vec<&str> {
        let found = self.0.iter().filter(|(name, _)| name == key);
        found.map(|(_, value)| value.as_str()).collect()
    }

    /// Whether a key is there.
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
    pub(crate) fn parse(query: &Query, kind: &str, agent: &str) -> Outcome<Self> {
        let mut errors = Vec::new();
        let manager = query.get("fieldManager");
        if manager.len() > MANAGER_BYTES_MAX {
            errors.push(FieldError::too_long("fieldManager", MANAGER_BYTES_MAX));
        }
        for (at, c) in manager.char_indices().filter(|(_, c)| c.is_control()) {
            let why = format!("invalid character U+{:04X} (at position {at})", u32::from(c));
            errors.push(FieldError::invalid("fieldManager", &manager.into(), why));
        }
        let dry_run = dry_run(&query.all("dryRun"), &mut errors);
        let field_validation = match query.get("fieldValidation") {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                let supported = ["", "Ignore", "Strict", "Warn"];
                let shown = Value::from(other);
                errors.push(FieldError::not_supported("fieldValidation", &shown, &supported));
                FieldValidation::Strict
            }
        };
        if !errors.is_empty() {
            return Err(Failure::invalid("meta.k8s.io", kind, "", &errors));
        }
        let field_manager = if manager.is_empty() { manager_of(agent) } else { manager.to_owned() };
        let force = query.has("force").then(|| query.flag("force"));
        Ok(Self { field_manager, field_validation, dry_run, force })
    }
}

/// The default manager: the program's name in the user agent.
fn manager_of(agent: &str) -> String {
    let name = agent.split('/').next().unwrap_or_default();
    let name: String = name.chars().filter(|c| !c.is_control()).take(MANAGER_BYTES_MAX).collect();
    if name.is_empty() { "unknown".to_owned() } else { name }
}

fn dry_run(given: &[&str], errors: &mut Vec<FieldError>) -> bool {
    if given.iter().any(|value| *value != "All") {
        errors.push(FieldError::not_supported("dryRun", &given.into(), &["All"]));
    }
    !given.is_empty()
}

// === impl ListOptions ===

impl ListOptions {
    pub(crate) fn parse(query: &Query) -> Outcome<Self> {
        let number = |key: &str| -> Outcome<Option<u64>> {
            let text = query.get(key);
            let bad = |_| {
                let why = format!("strconv.ParseInt: parsing {text:?}: invalid syntax");
                Failure::bad_request(why)
            };
            if text.is_empty() { Ok(None) } else { text.parse().map(Some).map_err(bad) }
        };
        // A negative limit means no limit.
        let limit = if query.get("limit").starts_with('-') { None } else { number("limit")? };
        let limit = limit.unwrap_or_default();
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
        let is_watch = query.flag("watch");
        let errors = if is_watch { options.check_watch() } else { options.check_list() };
        if errors.is_empty() {
            return Ok(options);
        }
        Err(Failure::invalid("meta.k8s.io", "ListOptions", "", &errors))
    }

    fn check_list(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let matching = self.resource_version_match.as_str();
        let mut forbid =
            |why: &str| errors.push(FieldError::forbidden("resourceVersionMatch", why));
        if !matching.is_empty() {
            if self.resource_version.is_empty() {
                forbid("resourceVersionMatch is forbidden unless resourceVersion is provided");
            }
            if !self.continue_token.is_empty() {
                forbid("resourceVersionMatch is forbidden when continue is provided");
            }
            if matching == "Exact" && self.resource_version == "0" {
                forbid("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
            }
            self.check_match(&["Exact", "NotOlderThan", ""], &mut errors);
        }
        if self.send_initial_events.is_some() {
            let why = "sendInitialEvents is forbidden for list";
            errors.push(FieldError::forbidden("sendInitialEvents", why));
        }
        errors
    }

    fn check_watch(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let matching = self.resource_version_match.as_str();
        let mut forbid =
            |why: &str| errors.push(FieldError::forbidden("resourceVersionMatch", why));
        match (self.send_initial_events, matching) {
            (Some(_), "NotOlderThan") | (None, "") => {}
            (Some(_), _) => {
                forbid("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
            }
            (None, _) => forbid(
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            ),
        }
        if !self.continue_token.is_empty() {
            let why = "resourceVersionMatch is forbidden when continue is provided";
            errors.push(FieldError::forbidden("resourceVersionMatch", why));
        }
        if !matching.is_empty() {
            self.check_match(&["NotOlderThan"], &mut errors);
        }
        errors
    }

    fn check_match(&self, supported: &[&str], errors: &mut Vec<FieldError>) {
        let matching = self.resource_version_match.as_str();
        if !supported.contains(&matching) {
            let field = "resourceVersionMatch";
            errors.push(FieldError::not_supported(field, &matching.into(), supported));
        }
    }
}

// === impl DeleteOptions ===

impl DeleteOptions {
    /// From the body if there is one, else from the query; never from both.
    pub(crate) fn parse(query: &Query, body: &Value) -> Outcome<Self> {
        let from_query;
        let body = if body.is_null() {
            from_query = Self::of_query(query)?;
            &from_query
        } else {
            body
        };
        let mut errors = Vec::new();
        let policy = body["propagationPolicy"].as_str();
        let orphan = body["orphanDependents"].as_bool();
        let propagation = match (policy, orphan) {
            (None, None) => None,
            (None, Some(false)) | (Some("Background"), None) => Some(Propagation::Background),
            (Some("Foreground"), None) => Some(Propagation::Foreground),
            (Some("Orphan"), None) | (None, Some(true)) => Some(Propagation::Orphan),
            (Some(text), orphan) => {
                let field = "propagationPolicy";
                if orphan.is_some() {
                    let why = "orphanDependents and deletionPropagation cannot be both set";
                    errors.push(FieldError::invalid(field, &text.into(), why));
                }
                if !matches!(text, "Background" | "Foreground" | "Orphan") {
                    let supported = ["Foreground", "Background", "Orphan", "nil"];
                    errors.push(FieldError::not_supported(field, &text.into(), &supported));
                }
                None
            }
        };
        let dry_runs = body["dryRun"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let dry_run = dry_run(&dry_runs.collect::<Vec<_>>(), &mut errors);
        if !errors.is_empty() {
            return Err(Failure::invalid("meta.k8s.io", "DeleteOptions", "", &errors));
        }
        let precondition = |key: &str| body["preconditions"][key].as_str().map(str::to_owned);
        Ok(Self {
            propagation,
            grace_period_s: body["gracePeriodSeconds"].as_i64(),
            uid: precondition("uid"),
            resource_version: precondition("resourceVersion"),
            dry_run,
            cascades: orphan == Some(false),
        })
    }

    fn of_query(query: &Query) -> Outcome<Value> {
        let mut body = serde_json::json!({});
        if query.has("dryRun") {
            body["dryRun"] = query.all("dryRun").into();
        }
        if query.has("propagationPolicy") {
            body["propagationPolicy"] = query.get("propagationPolicy").into();
        }
        if query.has("orphanDependents") {
            body["orphanDependents"] = query.flag("orphanDependents").into();
        }
        let text = query.get("gracePeriodSeconds");
        if !text.is_empty() {
            let seconds: i64 = text.parse().map_err(|_| {
                let why = format!("strconv.ParseInt: parsing {text:?}: invalid syntax");
                Failure::bad_request(why)
            })?;
            body["gracePeriodSeconds"] = seconds.into();
        }
        Ok(body)
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
                "\"exact\" is forbidden for resourceVersion \"0\"",
            ),
            ("resourceVersionMatch=Newest&resourceVersion=5", "Unsupported value"),
            ("sendInitialEvents=true", "forbidden for list"),
            ("sendInitialEvents=true&watch=true", "NotOlderThan"),
            ("limit=many", "parsing \"many\": invalid syntax"),
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
