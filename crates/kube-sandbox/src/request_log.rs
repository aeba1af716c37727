//! The request log of the server, for tests.
//!
//! A [`RequestLog`] is a ring: it keeps the latest entries and counts dropped ones. Recording takes
//! one lock and formats nothing; repeated strings (users, resources, namespaces) are stored once. A
//! test takes a [`Mark`] before it acts and reads the entries [`since`](RequestLog::since) then.

use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    sync::Arc,
};

use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};

use crate::request::{RequestInfo, Verb};

/// At about 150 bytes an entry, 15 MB when full: hours of a busy operator.
const ENTRIES_MAX: usize = 100_000;

/// Maximum number of shared strings. Further ones are not shared.
const WORDS_MAX: usize = 10_000;

/// A shared log; cheap to clone.
#[derive(Debug, Clone)]
pub struct RequestLog(Arc<Mutex<Ring>>);

#[derive(Debug)]
struct Ring {
    entries: VecDeque<Entry>,
    entries_max: usize,
    /// Number of entries ever recorded, which is the number of the next one.
    recorded: u64,
    words: HashSet<Arc<str>>,
}

/// One answered request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The time of the answer.
    pub at: Timestamp,
    /// The verb.
    pub verb: Verb,
    /// The API group; empty for the core group.
    pub group: Arc<str>,
    /// Empty for a non-resource request.
    pub resource: Arc<str>,
    /// `status`, `scale`, ...; empty for the object itself.
    pub subresource: Arc<str>,
    /// Empty for cluster-scoped kinds and for all namespaces.
    pub namespace: Arc<str>,
    /// The object's name; for a non-resource request, the path.
    pub name: Arc<str>,
    /// The user.
    pub user: Arc<str>,
    /// The HTTP status of the answer.
    pub code: u16,
    /// Nothing was stored.
    pub dry_run: bool,
    /// Length of the answer's body; for a watch, the bytes sent until it ended.
    pub bytes: u64,
    is_write: bool,
}

/// Status code and size of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status.
    pub code: u16,
    /// The length of the body.
    pub bytes: u64,
}

/// A position in a log; later entries are [`since`](RequestLog::since) it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark(u64);

/// The number of an entry, for later additions to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Number(u64);

// === impl RequestLog ===

impl Default for RequestLog {
    fn default() -> Self {
        Self::with_capacity(ENTRIES_MAX)
    }
}

impl RequestLog {
    /// An empty log that keeps the latest 100,000 entries.
    pub fn new() -> Self {
        Self::default()
    }

    /// A log that keeps the latest `entries_max` entries.
    pub fn with_capacity(entries_max: usize) -> Self {
        let entries = VecDeque::new();
        let ring = Ring { entries, entries_max, recorded: 0, words: HashSet::new() };
        Self(Arc::new(Mutex::new(ring)))
    }

    /// Adds an entry.
    pub fn record(&self, at: Timestamp, info: &RequestInfo, answer: Answer) -> Number {
        self.ring().push(at, info, answer)
    }

    /// Adds bytes that were sent after the request was recorded.
    pub fn add_bytes(&self, number: Number, bytes: u64) {
        if let Some(entry) = self.ring().entry(number) {
            entry.bytes += bytes;
        }
    }

    /// Changes the code of an entry that was added before its answer was known.
    pub fn set_code(&self, number: Number, code: u16) {
        if let Some(entry) = self.ring().entry(number) {
            entry.code = code;
        }
    }

    /// This moment.
    pub fn mark(&self) -> Mark {
        Mark(self.ring().recorded)
    }

    /// Every entry still kept, oldest first.
    pub fn entries(&self) -> Vec<Entry> {
        self.ring().entries.iter().cloned().collect()
    }

    /// The entries recorded after `mark` that are still kept, oldest first.
    pub fn since(&self, mark: Mark) -> Vec<Entry> {
        self.matching_since(mark, |_| true)
    }

    /// Requests to change objects, including refused ones, without dry runs and reviews.
    pub fn writes(&self) -> Vec<Entry> {
        self.matching_since(Mark(0), Entry::is_write)
    }

    /// As [`RequestLog::writes`], after `mark`.
    pub fn writes_since(&self, mark: Mark) -> Vec<Entry> {
        self.matching_since(mark, Entry::is_write)
    }

    /// Entries that are wanted, oldest first.
    pub fn matching(&self, wanted: impl Fn(&Entry) -> bool) -> Vec<Entry> {
        self.matching_since(Mark(0), wanted)
    }

    /// As [`RequestLog::matching`], after `mark`.
    pub fn matching_since(&self, mark: Mark, wanted: impl Fn(&Entry) -> bool) -> Vec<Entry> {
        let ring = self.ring();
        ring.since(mark).filter(|entry| wanted(entry)).cloned().collect()
    }

    /// Number of requests by verb and resource (`pods`, `deployments.apps`, `pods/eviction`).
    pub fn counts_since(&self, mark: Mark) -> BTreeMap<(Verb, String), u64> {
        let ring = self.ring();
        let mut counts = BTreeMap::new();
        for entry in ring.since(mark) {
            *counts.entry((entry.verb, entry.target())).or_default() += 1;
        }
        counts
    }

    /// Number of recorded entries, including dropped ones.
    pub fn recorded(&self) -> u64 {
        self.ring().recorded
    }

    /// Number of dropped entries.
    pub fn dropped(&self) -> u64 {
        self.ring().first()
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.0.lock()
    }
}

// === impl Ring ===

impl Ring {
    fn push(&mut self, at: Timestamp, info: &RequestInfo, answer: Answer) -> Number {
        let number = Number(self.recorded);
        self.recorded += 1;
        if self.entries_max == 0 {
            return number;
        }
        if self.entries.len() == self.entries_max {
            self.entries.pop_front();
        }
        // Names are many and rarely repeat, so they are not shared.
        let name = if info.is_resource() { &info.name } else { &info.path };
        let entry = Entry {
            at,
            verb: info.verb,
            group: self.share(&info.group),
            resource: self.share(&info.resource),
            subresource: self.share(&info.subresource),
            namespace: self.share(&info.namespace),
            name: Arc::from(name.as_str()),
            user: self.share(&info.user),
            code: answer.code,
            dry_run: info.dry_run,
            bytes: answer.bytes,
            is_write: info.is_write(),
        };
        self.entries.push_back(entry);
        number
    }

    fn entry(&mut self, number: Number) -> Option<&mut Entry> {
        let index = number.0.checked_sub(self.first())?;
        self.entries.get_mut(usize::try_from(index).ok()?)
    }

    fn share(&mut self, word: &str) -> Arc<str> {
        if let Some(known) = self.words.get(word) {
            return Arc::clone(known);
        }
        let fresh: Arc<str> = Arc::from(word);
        if self.words.len() < WORDS_MAX {
            self.words.insert(Arc::clone(&fresh));
        }
        fresh
    }

    /// The number of the oldest entry kept.
    fn first(&self) -> u64 {
        self.recorded - self.entries.len() as u64
    }

    fn since(&self, mark: Mark) -> impl Iterator<Item = &Entry> {
        let passed = mark.0.saturating_sub(self.first());
        self.entries.iter().skip(usize::try_from(passed).unwrap_or(usize::MAX))
    }
}

// === impl Entry ===

impl Entry {
    /// Whether it was an attempt to change something, not counting dry runs and reviews.
    pub fn is_write(&self) -> bool {
        self.is_write
    }

    /// Whether its code is below 400.
    pub fn succeeded(&self) -> bool {
        self.code < 400
    }

    /// True for `group` and `resource`, with any subresource.
    pub fn concerns(&self, group: &str, resource: &str) -> bool {
        &*self.group == group && &*self.resource == resource
    }

    /// `pods`, `deployments.apps`, `deployments.apps/status`; for other requests, the path.
    pub fn target(&self) -> String {
        if self.resource.is_empty() {
            return self.name.to_string();
        }
        let mut target = crate::failure::qualified(&self.group, &self.resource);
        if !self.subresource.is_empty() {
            target.push('/');
            target.push_str(&self.subresource);
        }
        target
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(verb: Verb, group: &str, resource: &str, name: &str) -> RequestInfo {
        RequestInfo {
            verb,
            group: group.into(),
            resource: resource.into(),
            name: name.into(),
            user: "jane".into(),
            ..RequestInfo::default()
        }
    }

    fn record(log: &RequestLog, info: &RequestInfo, code: u16) {
        log.record(Timestamp::UNIX_EPOCH, info, Answer { code, bytes: 10 });
    }

    fn names(entries: &[Entry]) -> Vec<&str> {
        entries.iter().map(|entry| &*entry.name).collect()
    }

    #[test]
    fn a_full_log_forgets_the_oldest_and_says_how_many() {
        let log = RequestLog::with_capacity(3);
        let mark = log.mark();
        for name in ["a", "b", "c", "d", "e"] {
            record(&log, &request(Verb::Get, "", "pods", name), 200);
        }
        assert_eq!(names(&log.entries()), ["c", "d", "e"]);
        assert_eq!((log.recorded(), log.dropped()), (5, 2));
        assert_eq!(names(&log.since(mark)), ["c", "d", "e"], "what is gone cannot be shown");
    }

    #[test]
    fn since_shows_what_came_after_the_mark() {
        let log = RequestLog::with_capacity(10);
        record(&log, &request(Verb::Get, "", "pods", "a"), 200);
        let mark = log.mark();
        assert!(log.since(mark).is_empty());
        record(&log, &request(Verb::Get, "", "pods", "b"), 200);
        assert_eq!(names(&log.since(mark)), ["b"]);
    }

    #[test]
    fn writes_include_refused_ones_but_no_dry_runs() {
        let log = RequestLog::new();
        record(&log, &request(Verb::Get, "", "pods", "read"), 200);
        record(&log, &request(Verb::Create, "", "pods", "made"), 201);
        record(&log, &request(Verb::Update, "", "pods", "refused"), 409);
        let tried = RequestInfo { dry_run: true, ..request(Verb::Create, "", "pods", "tried") };
        record(&log, &tried, 201);
        assert_eq!(names(&log.writes()), ["made", "refused"]);
        let failed = log.matching(|entry| entry.is_write() && !entry.succeeded());
        assert_eq!(names(&failed), ["refused"]);
    }

    #[test]
    fn counts_tell_subresources_and_groups_apart() {
        let log = RequestLog::new();
        let mut status = request(Verb::Patch, "apps", "deployments", "web");
        record(&log, &status, 200);
        status.subresource = "status".into();
        record(&log, &status, 200);
        record(&log, &status, 200);
        let version = RequestInfo { path: "/version".into(), ..RequestInfo::default() };
        record(&log, &version, 200);
        let counts: Vec<_> = log.counts_since(Mark(0)).into_iter().collect();
        let want = [
            ((Verb::Get, "/version".to_owned()), 1),
            ((Verb::Patch, "deployments.apps".to_owned()), 1),
            ((Verb::Patch, "deployments.apps/status".to_owned()), 2),
        ];
        assert_eq!(counts, want);
    }

    #[test]
    fn repeated_words_are_stored_once() {
        let log = RequestLog::new();
        record(&log, &request(Verb::Get, "apps", "deployments", "a"), 200);
        record(&log, &request(Verb::Get, "apps", "deployments", "b"), 200);
        let entries = log.entries();
        let (one, two) = (&entries[0], &entries[1]);
        assert!(Arc::ptr_eq(&one.user, &two.user) && Arc::ptr_eq(&one.group, &two.group));
    }
}
