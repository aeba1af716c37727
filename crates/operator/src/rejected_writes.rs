//! Writes that the API server rejected, remembered so that the engine can decide upon them.
//!
//! A rejected write is tried again after an interval, or as soon as the object's spec changes. Until then
//! the object it was for is blocked: a rollout is judged by its deadline instead of failing in the same
//! write again and again.

use std::{collections::BTreeMap, time::Duration};

use tidegate_engine::Obstacle;

/// Rejections that no write of the same kind has followed since.
pub(crate) struct RejectedWrites<K>(BTreeMap<K, Rejection>);

struct Rejection {
    why: String,
    /// By the steady clock.
    until: Duration,
    /// Generation of the object's spec.
    generation: i64,
}

// === impl RejectedWrites ===

impl<K: Ord> RejectedWrites<K> {
    pub(crate) fn add(&mut self, write: K, why: String, until: Duration, generation: i64) {
        self.0.insert(write, Rejection { why, until, generation });
    }

    /// The write succeeded after all.
    pub(crate) fn remove(&mut self, write: &K) {
        self.0.remove(write);
    }

    /// The reason not to try this write now.
    pub(crate) fn obstacle(&self, write: &K, now: Duration, generation: i64) -> Option<Obstacle> {
        let rejection = self.0.get(write)?;
        let is_fresh = now < rejection.until && generation == rejection.generation;
        is_fresh.then(|| Obstacle(rejection.why.clone()))
    }

    /// The reason of the last rejection, however long ago.
    pub(crate) fn last(&self, write: &K) -> Option<Obstacle> {
        self.0.get(write).map(|rejection| Obstacle(rejection.why.clone()))
    }
}

impl<K> Default for RejectedWrites<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rejection_blocks_for_an_interval_or_until_the_spec_changes() {
        let mut rejected = RejectedWrites::default();
        rejected.add("route", "forbidden".to_owned(), Duration::from_secs(10), 1);
        let cases = [
            ("within the interval", "route", 9, 1, true),
            ("after the interval", "route", 10, 1, false),
            ("another generation", "route", 9, 2, false),
            ("another write", "service", 9, 1, false),
        ];
        for (reason, write, now, generation, blocks) in cases {
            let obstacle = rejected.obstacle(&write, Duration::from_secs(now), generation);
            assert_eq!(obstacle.is_some(), blocks, "{reason}");
        }
        assert_eq!(rejected.last(&"route"), Some(Obstacle("forbidden".to_owned())), "however old");
        rejected.remove(&"route");
        assert_eq!(rejected.last(&"route"), None);
    }
}
