//! The log of recent writes of one kind, in order.
//!
//! Bounded: the oldest events are dropped first. Readers that need a dropped event get
//! [`Compacted`], which the API reports as 410.

use std::{collections::VecDeque, sync::Arc};

use super::stored::Stored;

/// Type of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// The object was created.
    Added,
    /// The object was changed.
    Modified,
    /// The object was removed.
    Deleted,
}

/// One write.
#[derive(Debug)]
pub struct Event {
    /// The revision of the change.
    pub revision: u64,
    /// The kind of change.
    pub kind: EventKind,
    /// The new state; for a deletion the last one, with the deletion's revision.
    pub object: Arc<Stored>,
    /// The object before the change.
    pub previous: Option<Arc<Stored>>,
}

/// The requested revision is no longer in the log; `oldest` is the first available one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compacted {
    /// The oldest revision that is remembered.
    pub oldest: u64,
}

#[derive(Clone)]
pub(super) struct Log {
    events: VecDeque<Arc<Event>>,
    /// The oldest revision at which a reader may start.
    complete_from: u64,
    /// The revision of the last dropped event; all later events are in `events`.
    gone_to: u64,
    last: u64,
    max: usize,
}

// === impl Event ===

impl Event {
    pub(super) fn added(object: Arc<Stored>) -> Self {
        Self { revision: object.revision, kind: EventKind::Added, object, previous: None }
    }
}

// === impl Log ===

impl Log {
    pub(super) fn new(max: usize) -> Self {
        Self { events: VecDeque::new(), complete_from: 0, gone_to: 0, last: 0, max }
    }

    pub(super) fn last_revision(&self) -> u64 {
        self.last
    }

    pub(super) fn with_max(mut self, max: usize) -> Self {
        self.max = max;
        self.trim();
        self
    }

    pub(super) fn push(&mut self, event: Arc<Event>) {
        assert!(event.revision > self.last, "revisions only rise");
        self.last = event.revision;
        self.events.push_back(event);
        self.trim();
    }

    fn trim(&mut self) {
        while self.events.len() > self.max
            && let Some(dropped) = self.events.pop_front()
        {
            self.complete_from = self.complete_from.max(dropped.revision);
            self.gone_to = dropped.revision;
        }
    }

    pub(super) fn check_remembered(&self, revision: u64) -> Result<(), Compacted> {
        if revision < self.complete_from {
            return Err(Compacted { oldest: self.complete_from });
        }
        Ok(())
    }

    pub(super) fn since(&self, revision: u64) -> Result<Vec<Arc<Event>>, Compacted> {
        if revision < self.gone_to {
            return Err(Compacted { oldest: self.complete_from });
        }
        let start = self.events.partition_point(|event| event.revision <= revision);
        Ok(self.events.range(start..).cloned().collect())
    }

    pub(super) fn compact(&mut self, revision: u64) {
        let gone = self.events.partition_point(|event| event.revision <= revision);
        if let Some(last) = self.events.drain(..gone).next_back() {
            self.gone_to = last.revision;
        }
        self.complete_from = self.complete_from.max(revision);
    }
}
