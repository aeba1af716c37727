//! Makes the answers of two servers comparable.
//!
//! Values that a server chooses itself are marked as symbols: uids, resource versions, generated names,
//! addresses and ports of Services. [`Pairs`] holds the pairs of symbols of both servers, so two answers
//! agree only if the servers chose anew, or kept, in the same places: a version that moved where the
//! other's did not is a difference. Times near now become `<now>`. Sentences (messages, descriptions of
//! columns, texts of warnings) are not compared, only their presence and the values they quote.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use super::run::{Answer, Content};

/// The values one server has chosen so far in one story.
#[derive(Debug)]
pub struct Normaliser {
    now: Timestamp,
    /// Generated names.
    names: BTreeSet<String>,
}

/// Pairs of symbols of the real server and ours.
#[derive(Debug, Default)]
pub struct Pairs {
    real: BTreeMap<String, String>,
    ours: BTreeMap<String, String>,
    /// Whether the answers compared now are of a dry run.
    pub is_rehearsal: bool,
}

/// No text from outside begins with this.
const MARK: char = '\u{1}';

/// A time this near was written by the server; one farther away came from the story.
const NEAR: SignedDuration = SignedDuration::from_hours(3);
/// The range of the Services' addresses on both servers.
const SERVICE_RANGE: &str = "10.96.";
const GENERATED_SUFFIX: usize = 5;

impl Normaliser {
    pub fn new(now: Timestamp) -> Self {
        Self { now, names: BTreeSet::new() }
    }

    /// An answer as a value that can be compared.
    pub fn normal(&mut self, answer: &Answer) -> Value {
        let body = match &answer.body {
            Content::Nothing => Value::Null,
            Content::Json(body) => self.object(body),
            Content::Events(events) => {
                // The place of a bookmark among the others depends on time; one that has more than a
                // resource version stays in its place.
                let (marks, others): (Vec<_>, Vec<_>) = events.iter().partition(|event| {
                    let says_more = event.pointer("/object/metadata/annotations").is_some();
                    event["type"] == "BOOKMARK" && !says_more
                });
                others.into_iter().chain(marks).map(|event| self.event(event)).collect()
            }
            // Another encoding: its contents are compared in JSON elsewhere.
            Content::Bytes(bytes) if bytes.starts_with(b"k8s\0") => json!("<protobuf>"),
            Content::Bytes(bytes) => json!({ "text": bytes.len().min(1) }),
        };
        let warnings: Vec<Vec<String>> = answer.warnings.iter().map(|text| quoted(text)).collect();
        json!({
            "code": answer.code,
            "contentType": answer.content_type,
            "warnings": warnings,
            "body": body,
        })
    }

    fn event(&mut self, event: &Value) -> Value {
        let is_bookmark = event["type"] == "BOOKMARK";
        let mut event = event.clone();
        if is_bookmark && let Some(version) = event.pointer_mut("/object/metadata/resourceVersion")
        {
            *version = json!("<list version>");
        }
        self.object(&event)
    }

    fn object(&mut self, value: &Value) -> Value {
        match value {
            Value::Object(members) => self.members(members),
            Value::Array(items) => items.iter().map(|item| self.object(item)).collect(),
            Value::String(text) => self.text(text),
            other => other.clone(),
        }
    }

    fn members(&mut self, members: &Map<String, Value>) -> Value {
        self.learn_name(members);
        let is_list = members.contains_key("items") || members.contains_key("rows");
        let is_status = members.get("kind").is_some_and(|kind| kind == "Status");
        let is_discovery = members
            .get("kind")
            .is_some_and(|kind| kind == "APIGroupList" || kind == "APIResourceList");
        let mut normal = Map::new();
        for (key, value) in members {
            let value = match (key.as_str(), value) {
                ("message", Value::String(text)) if !text.is_empty() => json!("<text>"),
                ("details", Value::Object(details)) if is_status => self.details(details),
                ("metadata", Value::Object(metadata)) if is_list => self.list_metadata(metadata),
                // By their names: a server that has fewer of them has others in the same places.
                ("groups" | "resources", Value::Array(listed)) if is_discovery => {
                    let named = listed.iter().map(|it| {
                        let name = it["name"].as_str().unwrap_or_default();
                        (name.to_owned(), self.object(it))
                    });
                    Value::Object(named.collect())
                }
                ("resourceVersion", Value::String(text)) if is_number(text) => {
                    json!(marked("version", text))
                }
                ("columnDefinitions", Value::Array(columns)) => {
                    columns.iter().map(|column| without(column, "description")).collect()
                }
                ("cells", Value::Array(cells)) => {
                    cells.iter().map(|cell| self.cell(cell)).collect()
                }
                // Ordered by times in seconds, which depend on the speed of the story.
                ("managedFields", Value::Array(entries)) => {
                    let mut entries: Vec<Value> =
                        entries.iter().map(|entry| self.object(entry)).collect();
                    entries.sort_by_key(|entry| {
                        let part = |key: &str| entry[key].to_string();
                        [
                            part("manager"),
                            part("operation"),
                            part("subresource"),
                            part("apiVersion"),
                        ]
                    });
                    entries.into()
                }
                ("nodePort" | "healthCheckNodePort", Value::Number(port)) => {
                    json!(marked("port", &port.to_string()))
                }
                (_, value) => self.object(value),
            };
            let mut key = self.known_name(key);
            // An owner of an object, by its uid: their number is compared here, and their identity in the
            // object itself.
            if key.starts_with("k:{\"uid\":") {
                let before =
                    normal.keys().filter(|key: &&String| key.starts_with("<owner")).count();
                key = format!("<owner {before}>");
            }
            normal.insert(key, value);
        }
        Value::Object(normal)
    }

    /// The version of a list is that of the whole store, which other stories write to as well.
    fn list_metadata(&mut self, metadata: &Map<String, Value>) -> Value {
        let mut metadata = metadata.clone();
        for (key, symbol) in [("resourceVersion", "<list version>"), ("continue", "<continue>")] {
            if let Some(value) = metadata.get_mut(key).filter(|value| **value != "") {
                *value = json!(symbol);
            }
        }
        self.members(&metadata)
    }

    /// The details of a failure: causes as a set of fields and reasons.
    fn details(&mut self, details: &Map<String, Value>) -> Value {
        let mut details = details.clone();
        if let Some(causes) = details.get_mut("causes").and_then(Value::as_array_mut) {
            let mut facts: Vec<Value> =
                causes.iter().map(|cause| without(cause, "message")).collect();
            facts.sort_by_key(ToString::to_string);
            facts.dedup();
            *causes = facts;
        }
        self.members(&details)
    }

    fn cell(&mut self, cell: &Value) -> Value {
        let Value::String(text) = cell else { return self.object(cell) };
        let age = text.strip_suffix('s').unwrap_or("-");
        if age.parse::<u32>().is_ok() { json!("<age>") } else { self.text(text) }
    }

    fn text(&mut self, text: &str) -> Value {
        if is_uuid(text) {
            return json!(marked("uid", text));
        }
        if text.starts_with(SERVICE_RANGE) {
            return json!(marked("address", text));
        }
        if let Some(moment) = self.moment(text) {
            return json!(moment);
        }
        json!(self.known_name(text))
    }

    /// `<now>` with its precision, if the text is a time near now.
    fn moment(&self, text: &str) -> Option<&'static str> {
        let is_shaped = text.len() >= 20 && text.as_bytes().get(10) == Some(&b'T');
        let moment: Timestamp = is_shaped.then(|| text.parse().ok()).flatten()?;
        let is_near = moment.duration_since(self.now).abs() <= NEAR;
        is_near.then_some(if text.contains('.') { "<now, fine>" } else { "<now>" })
    }

    /// Remembers the generated name of an object.
    fn learn_name(&mut self, metadata: &Map<String, Value>) {
        let part = |key: &str| metadata.get(key).and_then(Value::as_str);
        let (Some(prefix), Some(name)) = (part("generateName"), part("name")) else { return };
        if name.starts_with(prefix) && name.len() == prefix.len() + GENERATED_SUFFIX {
            self.names.insert(name.to_owned());
        }
    }

    fn known_name(&self, text: &str) -> String {
        if self.names.contains(text) { marked("name", text) } else { text.to_owned() }
    }
}

// === impl Pairs ===

impl Pairs {
    /// Addresses of deleted Services may be drawn again, and be paired with others then.
    pub fn forget_addresses(&mut self) {
        self.real.retain(|symbol, _| class(symbol) != Some("address"));
    }

    /// Whether two texts mean the same: symbols of one class that were not paired otherwise.
    pub fn agree(&mut self, real: &str, ours: &str) -> bool {
        if !real.starts_with(MARK) || !ours.starts_with(MARK) || class(real) != class(ours) {
            return real == ours;
        }
        match class(real) {
            // Drawn from few: a released port comes again.
            Some("port") => return true,
            // One server draws at random, the other takes the next free address, so one of ours may be many
            // of the real server's: those released by a dry run or a deleted Service. The address of a live
            // Service stays.
            Some("address") if self.is_rehearsal => return true,
            Some("address") => {
                let known = self.real.entry(real.to_owned()).or_insert_with(|| ours.to_owned());
                return known.as_str() == ours;
            }
            _ => {}
        }
        match (self.real.get(real), self.ours.get(ours)) {
            (None, None) => {
                self.real.insert(real.to_owned(), ours.to_owned());
                self.ours.insert(ours.to_owned(), real.to_owned());
                true
            }
            (known, _) => known.is_some_and(|known| known == ours),
        }
    }
}

fn class(symbol: &str) -> Option<&str> {
    symbol.split(MARK).nth(1)
}

fn marked(class: &str, text: &str) -> String {
    format!("{MARK}{class}{MARK}{text}")
}

fn without(value: &Value, key: &str) -> Value {
    let mut value = value.clone();
    if let Some(members) = value.as_object_mut() {
        members.remove(key);
    }
    value
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_uuid(text: &str) -> bool {
    let dashes = [8, 13, 18, 23];
    text.len() == 36
        && text.bytes().enumerate().all(|(place, byte)| {
            if dashes.contains(&place) { byte == b'-' } else { byte.is_ascii_hexdigit() }
        })
}

/// The fields and values that a warning quotes.
fn quoted(warning: &str) -> Vec<String> {
    let text = warning.strip_prefix("299 - \"").and_then(|text| text.strip_suffix('"'));
    let text = text.unwrap_or(warning).replace("\\\"", "\"");
    text.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::{super::difference::places, *};

    fn normal(body: &Value) -> Value {
        let mut normaliser = Normaliser::new("2026-01-01T00:00:00Z".parse().unwrap());
        let answer = Answer { body: Content::Json(body.clone()), ..Answer::default() };
        normaliser.normal(&answer)["body"].clone()
    }

    /// Whether two servers agree on these answers, one after the other.
    fn agree(real: &[Value], ours: &[Value]) -> bool {
        let mut pairs = Pairs::default();
        let answers = real.iter().zip(ours);
        answers.fold(true, |agreed, (real, ours)| {
            places(&normal(real), &normal(ours), &mut pairs).is_empty() && agreed
        })
    }

    #[test]
    fn a_version_that_moved_differs_from_one_that_stayed() {
        let object = |version: &str| json!({ "metadata": { "resourceVersion": version } });
        let moved = [object("7"), object("9")];
        assert!(agree(&moved, &[object("100"), object("204")]));
        assert!(!agree(&moved, &[object("7"), object("7")]));
        assert!(!agree(&[object("7"), object("7")], &moved));
    }

    #[test]
    fn an_address_stays_unless_it_is_rehearsed() {
        let service = |address: &str| json!({ "spec": { "clusterIP": address } });
        let kept = [service("10.96.7.1"), service("10.96.7.1")];
        let moved = [service("10.96.0.3"), service("10.96.0.4")];
        assert!(agree(&kept, &[service("10.96.0.3"), service("10.96.0.3")]));
        assert!(!agree(&kept, &moved));
        assert!(agree(&moved, &kept), "one that was given back is taken again");
        let mut pairs = Pairs { is_rehearsal: true, ..Pairs::default() };
        let mut found = kept
            .iter()
            .zip(&moved)
            .map(|(real, ours)| places(&normal(real), &normal(ours), &mut pairs));
        assert!(found.all(|places| places.is_empty()), "a rehearsal keeps nothing");
    }

    #[test]
    fn only_moments_near_now_are_symbols() {
        let told = json!({ "a": "2025-12-31T23:59:58Z", "b": "2026-01-01T00:00:01.000002Z", "c": "1999-01-01T00:00:00Z" });
        let want = json!({ "a": "<now>", "b": "<now, fine>", "c": "1999-01-01T00:00:00Z" });
        assert_eq!(normal(&told), want);
    }

    #[test]
    fn causes_are_a_set_of_facts() {
        let status = |causes: Value| json!({ "kind": "Status", "details": { "causes": causes } });
        let one = json!({ "field": "spec.a", "reason": "FieldValueInvalid", "message": "no" });
        let other =
            json!({ "field": "spec.b", "reason": "FieldValueInvalid", "message": "nor this" });
        let both = normal(&status(json!([one, other])));
        assert_eq!(both, normal(&status(json!([other, one]))));
        assert_ne!(both, normal(&status(json!([one]))));
    }

    #[test]
    fn a_warning_counts_by_what_it_quotes() {
        let quotes = quoted("299 - \"unknown field \\\"spec.colour\\\"\"");
        assert_eq!(quotes, ["spec.colour"]);
    }

    #[test]
    fn generated_names_need_not_be_equal_but_stay_what_they_are() {
        let named = |name: &str| json!({ "metadata": { "generateName": "web-", "name": name } });
        assert!(agree(&[named("web-abcde")], &[named("web-zzzzz")]));
        assert!(!agree(&[named("web-abcde")], &[named("other")]));
    }
}
