//! The outcome of a scenario as histories: for each field of each object the values it had, one after the
//! other.
//!
//! Two writes of one operator may be one write of the other, and a write may be repeated: neither changes
//! the history of a field. Names that the cluster or an operator makes up are replaced by the order in which
//! they came.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::{Map, Value, json};
use tidegate_tests::network::{Call, PROBE, PROMETHEUS};

use super::witness::Seen;

/// A value that is not there.
pub(super) const NONE: &str = "-";

/// Fields that differ between any two objects.
const VOLATILE: [&str; 13] = [
    "clusterIP",
    "clusterIPs",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    // By the controller of Deployments.
    "deployment.kubernetes.io/revision",
    "generation",
    "lastTransitionTime",
    "lastUpdateTime",
    "managedFields",
    "nodePort",
    "resourceVersion",
    "uid",
];
/// Fields of a canary's status whose values are hashes of the operator's own.
const REVISIONS: [&str; 2] = ["lastAppliedSpec", "lastPromotedSpec"];
/// An annotation of pods whose value is random, or a hash.
const POD_ID: &str = "flagger-id";
const POD_ANNOTATIONS: &str = "/spec/template/metadata/annotations";
/// Series that depend on the time, or on the operator's build.
const UNSTEADY: [&str; 2] = ["flagger_canary_duration_seconds", "flagger_info"];

/// Histories by subject and path: `Canary web`, `/spec/weight`.
#[derive(Debug, Default)]
pub(super) struct Record {
    pub(super) subjects: BTreeMap<String, BTreeMap<String, Vec<String>>>,
    /// The state that was not reached, and the last one.
    pub(super) missed: Option<String>,
}

/// Names by the order in which they came.
#[derive(Debug, Default)]
struct Names(BTreeMap<String, String>);

// === impl Record ===

impl Record {
    /// A scenario that could not be played.
    pub(super) fn failed(error: &anyhow::Error) -> Self {
        Self { missed: Some(format!("{error:#}")), ..Self::default() }
    }

    /// Adds the states of all objects. `plain` replaces addresses and names of the place.
    pub(super) fn add_objects(&mut self, seen: &[Seen], plain: impl Fn(&str) -> String) {
        let mut cookies = Names::default();
        let mut revisions = Names::default();
        let mut configurations = Names::default();
        let mut pods: BTreeMap<&str, Names> = BTreeMap::new();
        for seen in seen {
            let subject = format!("{} {}", seen.kind, plain(&seen.name));
            if seen.object.is_null() {
                self.note(&subject, "exists", "no");
                continue;
            }
            let text = cookies.in_cookies(&plain(&seen.object.to_string()));
            let mut object: Value = serde_json::from_str(&text).unwrap_or_default();
            simplify(&mut object);
            if let Some(id) = object.pointer_mut(POD_ANNOTATIONS).and_then(|it| it.get_mut(POD_ID))
            {
                let name = pods.entry(&seen.name).or_default().of(id.as_str().unwrap_or_default());
                *id = name.into();
            }
            if seen.kind == "Canary" {
                reduce_canary(&mut object, &mut revisions, &mut configurations);
            } else if let Some(members) = object.as_object_mut() {
                // Controllers write it, in their own time.
                members.remove("status");
            }
            self.add(&subject, &object);
        }
    }

    /// Adds calls of hooks and chats, and queries.
    pub(super) fn add_calls(&mut self, calls: &[Call], plain: impl Fn(&str) -> String) {
        let mut checksums = Names::default();
        for call in calls {
            if call.to.starts_with(PROMETHEUS) {
                if call.query != PROBE {
                    self.note("query", &plain(&plain_query(&call.query)), "asked");
                }
                continue;
            }
            let mut body: Value =
                serde_json::from_str(&plain(&call.body.to_string())).unwrap_or_default();
            if let Some(checksum) = body["checksum"].as_str() {
                body["checksum"] = checksums.of(checksum).into();
            }
            if let Some(metadata) = body["metadata"].as_object_mut() {
                // The words of events differ, which the page says.
                for field in ["eventMessage", "timestamp"] {
                    if metadata.contains_key(field) {
                        metadata.insert(field.to_owned(), json!("<any>"));
                    }
                }
            }
            let kind = call.headers.get("content-type").and_then(|it| it.to_str().ok());
            body["content-type"] = kind.unwrap_or(NONE).into();
            self.add(&format!("call {}", call.to), &body);
            self.note("calls", "order", &call.to);
        }
    }

    /// Adds the operator's own metrics.
    pub(super) fn add_metrics(&mut self, page: &str, plain: impl Fn(&str) -> String) {
        for line in page.lines().filter(|line| line.starts_with("flagger_")) {
            let Some((series, value)) = line.rsplit_once(' ') else { continue };
            let value = value.parse::<f64>().unwrap_or(f64::NAN).to_string();
            let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
            if UNSTEADY.iter().any(|it| name.starts_with(it)) {
                continue;
            }
            let mut labels: Vec<_> = labels.trim_end_matches('}').split(',').collect();
            labels.sort_unstable();
            self.note("metric", &plain(&format!("{name} {}", labels.join(" "))), &value);
        }
    }

    /// Adds a state of an object.
    fn add(&mut self, subject: &str, object: &Value) {
        let is_new = !self.subjects.contains_key(subject);
        let mut leaves = BTreeMap::from([("exists".to_owned(), "yes".to_owned())]);
        flatten(object, "", &mut leaves);
        let fields = self.subjects.entry(subject.to_owned()).or_default();
        for path in fields.keys() {
            leaves.entry(path.clone()).or_insert_with(|| NONE.to_owned());
        }
        for (path, value) in leaves {
            let first = if is_new { Vec::new() } else { vec![NONE.to_owned()] };
            let history = fields.entry(path).or_insert(first);
            if history.last() != Some(&value) {
                history.push(value);
            }
        }
    }

    /// Adds a value to one history.
    fn note(&mut self, subject: &str, path: &str, value: &str) {
        let fields = self.subjects.entry(subject.to_owned()).or_default();
        let history = fields.entry(path.to_owned()).or_default();
        if history.last().map(String::as_str) != Some(value) {
            history.push(value.to_owned());
        }
    }
}

// === impl Names ===

impl Names {
    fn of(&mut self, value: &str) -> String {
        if value.is_empty() {
            return String::new();
        }
        let next = format!("#{}", self.0.len() + 1);
        self.0.entry(value.to_owned()).or_insert(next).clone()
    }

    /// Replaces the random values of cookies, wherever they are.
    fn in_cookies(&mut self, text: &str) -> String {
        let set = Regex::new("-cookie=([A-Za-z0-9]{8,})").expect("it is a regular expression");
        for found in set.captures_iter(text) {
            self.of(&found[1]);
        }
        let replace = |text: String, (value, name): (&String, &String)| text.replace(value, name);
        self.0.iter().fold(text.to_owned(), replace)
    }
}

/// A query without layout, and with the matchers of each selector in their order.
fn plain_query(query: &str) -> String {
    let selector = Regex::new(r"\{([^{}]*)\}").expect("it is a regular expression");
    let matcher = Regex::new(r#"[a-z_]+(=~|!~|!=|=)"[^"]*""#).expect("it is a regular expression");
    // A space is a plus to one of them, and the plus of a number is one to both.
    let text: String = query.chars().filter(|it| !it.is_whitespace() && *it != '+').collect();
    let sorted = |found: &regex::Captures<'_>| {
        let mut matchers: Vec<_> = matcher.find_iter(&found[1]).map(|it| it.as_str()).collect();
        matchers.sort_unstable();
        format!("{{{}}}", matchers.join(","))
    };
    selector.replace_all(&text, sorted).into_owned()
}

/// Removes what differs between any two objects.
fn simplify(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|key, _| !VOLATILE.contains(&key.as_str()));
            members.values_mut().for_each(simplify);
            members.retain(|key, it| key != "annotations" || *it != json!({}));
        }
        Value::Array(items) => items.iter_mut().for_each(simplify),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The status: its progress as one value, conditions by type, hashes by their order.
fn reduce_canary(canary: &mut Value, revisions: &mut Names, configurations: &mut Names) {
    let Some(status) = canary["status"].as_object_mut() else { return };
    for field in REVISIONS {
        if let Some(revision) = status.get(field).and_then(Value::as_str) {
            let name = revisions.of(revision);
            status.insert(field.to_owned(), name.into());
        }
    }
    if let Some(tracked) = status.get_mut("trackedConfigs").and_then(Value::as_object_mut) {
        for hash in tracked.values_mut() {
            *hash = configurations.of(hash.as_str().unwrap_or_default()).into();
        }
    }
    let number = |field: &str| status.get(field).and_then(Value::as_i64).unwrap_or(0);
    let phase = status.get("phase").and_then(Value::as_str).unwrap_or(NONE);
    let progress = format!(
        "{phase} {}% {}× {}✗",
        number("canaryWeight"),
        number("iterations"),
        number("failedChecks"),
    );
    let mut by_type = Map::new();
    for condition in status.get("conditions").and_then(Value::as_array).into_iter().flatten() {
        let text = |field: &str| condition[field].as_str().unwrap_or(NONE);
        let said = format!("{} {}", text("status"), text("reason"));
        by_type.insert(text("type").to_owned(), said.into());
    }
    status.insert("progress".to_owned(), progress.into());
    status.insert("conditions".to_owned(), by_type.into());
    for field in ["phase", "canaryWeight", "iterations", "failedChecks"] {
        status.remove(field);
    }
}

/// Scalars by their path; empty lists and objects count as scalars.
fn flatten(value: &Value, path: &str, into: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (name, member) in members {
                flatten(member, &format!("{path}/{name}"), into);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                flatten(item, &format!("{path}/{index}"), into);
            }
        }
        Value::String(text) => drop(into.insert(path.to_owned(), text.clone())),
        Value::Null => {}
        other => drop(into.insert(path.to_owned(), other.to_string())),
    }
}
