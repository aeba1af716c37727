//! Signed calls that opened or closed a gate, so that a captured call does not change it again.
//!
//! A gate refuses calls that were signed before its last change, and calls that it carried out before. They are
//! kept with the gate, so that this holds after a restart and for all replicas, until their signatures expire.

use serde::{Deserialize, Serialize};

use crate::auth::{AGE_MAX_S, CallSignature};

/// The signed changes that a gate remembers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignedChanges {
    /// Calls that were signed before are refused. Seconds since 1970.
    since: i64,
    /// Calls that were carried out and signed later, or in that second; the last one at the end.
    calls: Vec<CallSignature>,
}

/// With clocks that agree, only calls of one second must be told apart.
const CALLS_MAX: usize = 8;

// === impl SignedChanges ===

impl SignedChanges {
    /// Whether this call made the last change.
    pub(super) fn is_last(&self, call: &CallSignature) -> bool {
        self.calls.last() == Some(call)
    }

    /// Remembers a call that is carried out now. False if it must not be.
    pub(super) fn add(&mut self, call: &CallSignature, now: i64) -> bool {
        if call.at < self.since || self.calls.contains(call) {
            return false;
        }
        // A caller whose clock is ahead must not refuse all others until then.
        self.since = self.since.max(call.at.min(now));
        self.calls.push(call.clone());
        if self.calls.len() > CALLS_MAX {
            let oldest = self.calls.iter().map(|call| call.at).min();
            self.since = self.since.max(oldest.map_or(self.since, |at| at.saturating_add(1)));
        }
        self.calls.retain(|call| call.at >= self.since);
        true
    }

    /// Whether a call that it would refuse is not too old yet.
    pub(super) fn is_needed(&self, now: i64) -> bool {
        let last = self.calls.iter().map(|call| call.at).max().unwrap_or(self.since);
        last.saturating_add_unsigned(AGE_MAX_S) >= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_767_225_600;

    fn call(at: i64, mark: &str) -> CallSignature {
        CallSignature { at, mark: mark.to_owned() }
    }

    #[test]
    fn a_call_is_carried_out_once_and_none_after_a_later_one() {
        let (early, first, second) = (call(NOW - 1, "0"), call(NOW, "a"), call(NOW, "b"));
        let mut changes = SignedChanges::default();
        assert!(changes.add(&first, NOW));
        assert!(changes.is_last(&first));
        assert!(!changes.add(&early, NOW), "it was held back on its way");
        assert!(changes.add(&second, NOW), "another call in the same second");
        assert!(!changes.is_last(&first) && !changes.add(&first, NOW), "sent again");
        assert!(changes.add(&call(NOW + 1, "c"), NOW + 1));
        assert_eq!(changes.calls.len(), 1, "older ones are refused by their time");
        for old in [early, first, second] {
            assert!(!changes.add(&old, NOW + 1), "{old:?}");
        }
    }

    #[test]
    fn a_clock_that_is_ahead_refuses_nobody_else_and_its_calls_count_once() {
        let ahead = call(NOW + 200, "ahead");
        let mut changes = SignedChanges::default();
        assert!(changes.add(&ahead, NOW));
        assert!(changes.add(&call(NOW + 1, "close"), NOW + 1), "by a clock that is right");
        assert!(!changes.add(&ahead, NOW + 2), "sent again");
        assert!(changes.add(&call(NOW + 201, "later"), NOW + 201));
        assert!(!changes.add(&ahead, NOW + 202));
    }

    #[test]
    fn calls_that_are_not_kept_are_refused() {
        let calls: Vec<_> = (0..20).map(|it| call(NOW + 100 + it, &it.to_string())).collect();
        let mut changes = SignedChanges::default();
        for call in &calls {
            assert!(changes.add(call, NOW));
            assert!(changes.calls.len() <= CALLS_MAX);
        }
        for call in &calls {
            assert!(!changes.add(call, NOW), "{call:?}");
        }
        let mut changes = SignedChanges::default();
        let mut crowd = (0..20).map(|it| changes.add(&call(NOW, &it.to_string()), NOW));
        assert!(crowd.by_ref().take(CALLS_MAX + 1).all(|carried_out| carried_out));
        assert!(!crowd.any(|carried_out| carried_out), "the next second is soon");
    }

    #[test]
    fn they_are_remembered_for_as_long_as_signatures_are_valid() {
        let mut changes = SignedChanges::default();
        assert!(changes.add(&call(NOW, "a"), NOW));
        assert!(changes.is_needed(NOW + 300) && !changes.is_needed(NOW + 301));
        assert!(changes.add(&call(NOW + 200, "ahead"), NOW));
        assert!(changes.is_needed(NOW + 500) && !changes.is_needed(NOW + 501));
    }
}
