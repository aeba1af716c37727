//! Watching clients: their cache equals the state of the server.

use std::collections::BTreeMap;

use serde_json::Value;
use tidegate_tests::wire::{Event, Watch, Wire, revision};

use super::plan::{How, Kind};

/// A client with a cache, fed by a watch.
pub(crate) struct Watcher {
    watch: Watch,
    list_path: String,
    known: BTreeMap<String, Value>,
    /// The version of the last event; initial events come in any order.
    latest: u64,
    pub(crate) is_slow: bool,
}

/// A list read page by page, and its expected contents.
pub(crate) struct Pages {
    path: String,
    next: String,
    revision: u64,
    read: Vec<Value>,
    expected: Vec<Value>,
}

const PICKED: &str = "&labelSelector=picked%3Dyes";

// === impl Watcher ===

impl Watcher {
    pub(crate) fn start(wire: &Wire, kind: Kind, how: How, slow: bool, history: &[u64]) -> Self {
        let path = kind.path();
        let selector = if matches!(how, How::Labelled) { PICKED } else { "" };
        let list_path = format!("{path}?{selector}");
        let list = match how {
            How::Listed | How::Labelled => Some(wire.get(&list_path).ok()),
            How::Earlier(place) => {
                let at = history[usize::from(place) % history.len()];
                let exact = format!("&resourceVersion={at}&resourceVersionMatch=Exact");
                Some(wire.get(&format!("{list_path}{exact}")).ok())
            }
            How::State | How::Streamed => None,
        };
        let latest = list.as_ref().map(revision).unwrap_or_default();
        let start = match how {
            How::State => String::new(),
            How::Streamed => "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
                              &allowWatchBookmarks=true"
                .to_owned(),
            _ => format!("&resourceVersion={latest}"),
        };
        let opened = wire.watch(&format!("{list_path}&watch=true{start}"));
        let watch = opened.unwrap_or_else(|reply| panic!("{}", reply.body));
        let known = list.map(|list| by_name(&list)).unwrap_or_default();
        Self { watch, list_path, known, latest, is_slow: slow }
    }

    /// Reads at most so many events.
    pub(crate) fn look(&mut self, events: usize) {
        for _ in 0..events {
            let Some(event) = self.watch.poll() else { break };
            self.apply(event);
        }
    }

    /// Reads all events, and compares with a fresh list.
    pub(crate) fn agrees(&mut self, wire: &Wire) {
        self.look(usize::MAX);
        assert!(!self.watch.is_over, "{} ended", self.list_path);
        let list = wire.get(&self.list_path).ok();
        let fresh = by_name(&list);
        assert_eq!(self.known, fresh, "{}", self.list_path);
    }

    fn apply(&mut self, event: Event) {
        let name = event.name().to_owned();
        let (kind, revision) = (event.kind.as_str(), event.revision());
        let is_state = kind == "ADDED" && self.latest == 0;
        match kind {
            "BOOKMARK" => {
                let is_end = !event.object["metadata"]["annotations"].is_null();
                assert_eq!(is_end, self.latest == 0, "the first marks the end of the list");
                assert!(revision >= self.latest, "{event:?}");
                self.latest = revision;
                return;
            }
            "ADDED" => {
                let before = self.known.insert(name, untyped(event.object));
                assert!(before.is_none(), "added twice: {before:?}");
            }
            "MODIFIED" => {
                let before = self.known.insert(name, untyped(event.object));
                assert!(before.is_some_and(|before| self::revision(&before) < revision));
            }
            "DELETED" => assert!(self.known.remove(&name).is_some(), "{name} was not known"),
            other => panic!("{other}: {}", event.object),
        }
        if !is_state {
            assert!(revision > self.latest, "events come in order");
            self.latest = revision;
        }
    }
}

fn by_name(list: &Value) -> BTreeMap<String, Value> {
    let items = list["items"].as_array().unwrap().iter();
    items
        .map(|item| (item["metadata"]["name"].as_str().unwrap().to_owned(), untyped(item.clone())))
        .collect()
}

/// Without the type, which events carry and the items of a typed list do not.
fn untyped(mut object: Value) -> Value {
    if let Some(fields) = object.as_object_mut() {
        fields.remove("apiVersion");
        fields.remove("kind");
    }
    object
}

// === impl Pages ===

impl Pages {
    pub(crate) fn start(wire: &Wire, kind: Kind, size: u8) -> Self {
        let path = format!("{}?limit={size}", kind.path());
        let expected = wire.get(kind.path()).ok()["items"].as_array().unwrap().clone();
        let mut pages = Self { path, next: String::new(), revision: 0, read: Vec::new(), expected };
        let first = wire.get(&pages.path).ok();
        pages.revision = revision(&first);
        pages.take(&first);
        pages
    }

    /// Reads the next page; false if there is none.
    pub(crate) fn turn(&mut self, wire: &Wire) -> bool {
        if self.next.is_empty() {
            return false;
        }
        let page = wire.get(&format!("{}&continue={}", self.path, self.next)).ok();
        assert_eq!(revision(&page), self.revision, "all pages are of one moment");
        self.take(&page);
        true
    }

    fn take(&mut self, page: &Value) {
        self.read.extend(page["items"].as_array().unwrap().iter().cloned());
        page["metadata"]["continue"].as_str().unwrap_or_default().clone_into(&mut self.next);
        let left = page["metadata"]["remainingItemCount"].as_u64().unwrap_or_default();
        assert_eq!(self.read.len() as u64 + left, self.expected.len() as u64);
        if self.next.is_empty() {
            assert_eq!(self.read, self.expected);
        }
    }
}
