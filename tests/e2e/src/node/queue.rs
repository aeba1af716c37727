//! Keys that controllers have to reconcile, and their times.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use kube_sandbox::{
    clock::{between, later},
    controllers::{Key, Next},
};

/// First wait after a failed reconcile; doubles up to [`RETRY_MAX`].
const RETRY_FIRST: Duration = Duration::from_millis(5);
const RETRY_MAX: Duration = Duration::from_secs(5);
/// The wait without any key.
const LONG: Duration = Duration::from_hours(1);

/// The keys, by their time, the controller's number and the key.
#[derive(Debug, Default)]
pub(super) struct Queue {
    due: BTreeMap<(usize, Key), Timestamp>,
    failures: BTreeMap<(usize, Key), u32>,
}

// === impl Queue ===

impl Queue {
    /// Adds a key, or brings it forward if it is due later.
    pub(super) fn push(&mut self, index: usize, key: Key, at: Timestamp) {
        let due = self.due.entry((index, key)).or_insert(at);
        *due = at.min(*due);
    }

    /// Puts a key back as its reconcile requested.
    pub(super) fn put_back(&mut self, index: usize, key: Key, next: Next, now: Timestamp) {
        let place = (index, key);
        let wait = match next {
            Next::Idle | Next::After(_) => {
                self.failures.remove(&place);
                let Next::After(wait) = next else { return };
                wait
            }
            Next::Retry => {
                let failures = self.failures.entry(place.clone()).or_default();
                let wait = RETRY_FIRST * 2_u32.saturating_pow((*failures).min(16));
                *failures += 1;
                wait.min(RETRY_MAX)
            }
        };
        self.push(place.0, place.1, later(now, wait));
    }

    /// Takes the key that has been due longest.
    pub(super) fn take_due(&mut self, now: Timestamp) -> Option<(usize, Key)> {
        let (place, _) =
            self.due.iter().filter(|(_, at)| **at <= now).min_by_key(|(_, at)| **at)?;
        let place = place.clone();
        self.due.remove(&place);
        Some(place)
    }

    /// The time until the next key is due.
    pub(super) fn pause(&self, now: Timestamp) -> Duration {
        self.due.values().min().map_or(LONG, |at| between(now, *at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key { namespace: "test".to_owned(), name: name.to_owned() }
    }

    #[test]
    fn a_key_is_taken_when_due_and_waits_longer_after_each_failure() {
        let start = Timestamp::UNIX_EPOCH;
        let mut queue = Queue::default();
        queue.push(0, key("late"), later(start, Duration::from_secs(2)));
        queue.push(0, key("late"), later(start, Duration::from_secs(1)));
        queue.push(1, key("now"), start);
        assert_eq!(queue.take_due(start), Some((1, key("now"))));
        assert_eq!(queue.take_due(start), None);
        assert_eq!(queue.pause(start), Duration::from_secs(1), "brought forward");

        let mut queue = Queue::default();
        let mut waits = Vec::new();
        for _ in 0..12 {
            queue.put_back(0, key("a"), Next::Retry, start);
            waits.push(queue.pause(start).as_millis());
            queue.due.clear();
        }
        assert_eq!(waits, [5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5000, 5000]);
        queue.put_back(0, key("a"), Next::Idle, start);
        queue.put_back(0, key("a"), Next::Retry, start);
        assert_eq!(queue.pause(start).as_millis(), 5, "a look that went well is a new start");
    }
}
