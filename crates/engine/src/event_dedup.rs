//! Deduplicates events and alerts per position in the rollout.
//!
//! A decision that is taken again announces the same again: after a conflict, at every interval of waiting,
//! whenever a change elsewhere wakes the canary. [`EventDedup`] lives as long as the process does and lets
//! the first one through, until the rollout moves. After a restart it lets one more through, which is the
//! price of never losing one.

use crate::{Fact, Memory, Notice, Percent, Phase, Revision};

/// Different facts that are remembered at one position. A rollout announces about ten; more come only from
/// a sentence with a number that changes all the time, and there the oldest are forgotten.
const FACTS_MAX: usize = 64;

/// Facts and alerts since the rollout last moved.
#[derive(Clone, Debug, Default)]
pub struct EventDedup {
    position: Option<Position>,
    facts: Vec<Fact>,
    notices: Vec<Notice>,
}

type Position = (Phase, Percent, u32, Option<Revision>);

// === impl EventDedup ===

impl EventDedup {
    /// Whether this event is new at this position.
    pub fn first_time(&mut self, memory: &Memory, fact: &Fact) -> bool {
        self.arrive(memory);
        if self.facts.iter().any(|earlier| fact.repeats(earlier)) {
            return false;
        }
        if self.facts.len() >= FACTS_MAX {
            self.facts.remove(0);
        }
        self.facts.push(fact.clone());
        true
    }

    /// Whether this chat message is new at this position: none of its kind was sent.
    pub fn first_alert(&mut self, memory: &Memory, notice: &Notice) -> bool {
        self.arrive(memory);
        if self.notices.iter().any(|sent| sent.repeats(notice)) {
            return false;
        }
        self.notices.push(notice.clone());
        true
    }

    fn arrive(&mut self, memory: &Memory) {
        let is_here = self.position.as_ref().is_some_and(|(phase, weight, iterations, applied)| {
            let counters = (*phase, *weight, *iterations);
            counters == (memory.phase, memory.weight, memory.iterations)
                && *applied == memory.applied
        });
        if !is_here {
            let is_same_rollout =
                self.position.as_ref().is_some_and(|(.., applied)| *applied == memory.applied);
            self.position =
                Some((memory.phase, memory.weight, memory.iterations, memory.applied.clone()));
            self.facts.retain(|fact| is_same_rollout && fact.is_lasting());
            self.notices.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GateKind, Unready};

    #[test]
    fn the_same_event_is_told_once_until_the_rollout_moves() {
        let (mut dedup, mut memory) = (EventDedup::default(), Memory::default());
        let failed = |why: &str| Fact::CheckFailed(why.to_owned());
        assert!(dedup.first_time(&memory, &failed("98% < 99%")));
        assert!(!dedup.first_time(&memory, &failed("98% < 99%")));
        assert!(dedup.first_time(&memory, &failed("97% < 99%")), "another number is news");
        assert!(!dedup.first_time(&memory, &failed("98% < 99%")), "and the first is not forgotten");
        memory.weight = Percent::clamped(10);
        assert!(dedup.first_time(&memory, &failed("98% < 99%")), "it moved");
    }

    #[test]
    fn a_lasting_fact_is_announced_once_a_rollout() {
        let (mut dedup, mut memory) = (EventDedup::default(), Memory::default());
        let ambiguous = Fact::Ambiguous("errors".to_owned());
        assert!(dedup.first_time(&memory, &ambiguous));
        memory.weight = Percent::clamped(10);
        assert!(!dedup.first_time(&memory, &ambiguous), "it moved, and the metric is what it was");
        memory.applied = Some(Revision::new("v1-b"));
        assert!(dedup.first_time(&memory, &ambiguous), "another rollout");
    }

    #[test]
    fn pods_on_their_way_are_told_of_once() {
        let (mut dedup, memory) = (EventDedup::default(), Memory::default());
        let (canary, primary) = (Fact::CanaryNotReady, Fact::PrimaryNotReady);
        let unready = |why: &str, cause: Option<&str>| {
            let (why, cause) = (why.to_owned(), cause.map(str::to_owned));
            Unready { why, cause, serving: false }
        };
        let crash = Some("container app exits with code 1");
        assert!(dedup.first_time(&memory, &canary(unready("0 of 2", None))));
        assert!(!dedup.first_time(&memory, &canary(unready("1 of 2", None))), "so they come");
        assert!(dedup.first_time(&memory, &primary(unready("0 of 2", None))), "those are others");
        assert!(dedup.first_time(&memory, &canary(unready("0 of 2", crash))), "it does not pass");
        assert!(!dedup.first_time(&memory, &canary(unready("1 of 2", crash))), "the same cause");
    }

    #[test]
    fn a_sentence_that_never_rests_does_not_fill_the_memory() {
        let (mut dedup, memory) = (EventDedup::default(), Memory::default());
        for number in 0..10_000 {
            assert!(dedup.first_time(&memory, &Fact::Obstructed(format!("version {number}"))));
        }
        assert_eq!(dedup.facts.len(), FACTS_MAX);
    }

    #[test]
    fn an_alert_is_sent_once_until_the_rollout_moves() {
        let (mut dedup, mut memory) = (EventDedup::default(), Memory::default());
        let stuck = |why: &str| Notice::PrimaryStuck(why.to_owned());
        assert!(dedup.first_alert(&memory, &stuck("0 of 2")));
        assert!(!dedup.first_alert(&memory, &stuck("1 of 2")), "the kind counts, not the words");
        memory.phase = Phase::Progressing;
        assert!(dedup.first_alert(&memory, &stuck("0 of 2")));
    }

    #[test]
    fn two_gates_that_wait_at_one_place_are_two_alerts() {
        let (mut dedup, memory) = (EventDedup::default(), Memory::default());
        for gate in [GateKind::ConfirmTrafficIncrease, GateKind::ConfirmPromotion] {
            assert!(dedup.first_alert(&memory, &Notice::Awaiting(gate)), "{gate:?}");
            assert!(!dedup.first_alert(&memory, &Notice::Awaiting(gate)), "{gate:?}");
        }
    }
}
