//! Says everything once.
//!
//! A decision that is taken again tells the same again: after a conflict, at every interval that
//! something is waited for, whenever a change elsewhere wakes the canary. [`Told`] lives as long as
//! the process does and lets the first one through. After a restart it lets one more through, which
//! is the price of never losing one.

use std::{mem, time::Duration};

use crate::{Fact, Memory, Moment, Notice, Percent, Phase, Revision};

/// How many intervals must pass before the same event is told again.
pub(crate) const HUSH: u32 = 10;

/// What was told since the rollout last moved.
#[derive(Clone, Debug, Default)]
pub struct Told {
    place: Option<Place>,
    facts: Vec<(Fact, Moment)>,
    notices: Vec<mem::Discriminant<Notice>>,
}

type Place = (Phase, Percent, u32, Option<Revision>);

// === impl Told ===

impl Told {
    /// Whether this event is news: it was not told here, or not for ten intervals.
    pub fn is_news(
        &mut self,
        memory: &Memory,
        fact: &Fact,
        now: Moment,
        interval: Duration,
    ) -> bool {
        self.arrive(memory);
        let silence = interval.saturating_mul(HUSH);
        let lately = |when: Moment| when <= now && now.since(when) < silence;
        if self.facts.iter().any(|(told, when)| told == fact && lately(*when)) {
            return false;
        }
        self.facts.retain(|(told, _)| told != fact);
        self.facts.push((fact.clone(), now));
        true
    }

    /// Whether this chat message is news: none of its kind was sent here.
    pub fn is_new_alert(&mut self, memory: &Memory, notice: &Notice) -> bool {
        self.arrive(memory);
        let kind = mem::discriminant(notice);
        if self.notices.contains(&kind) {
            return false;
        }
        self.notices.push(kind);
        true
    }

    fn arrive(&mut self, memory: &Memory) {
        let is_here = self.place.as_ref().is_some_and(|(phase, weight, iterations, applied)| {
            let counters = (*phase, *weight, *iterations);
            counters == (memory.phase, memory.weight, memory.iterations)
                && *applied == memory.applied
        });
        if !is_here {
            self.place =
                Some((memory.phase, memory.weight, memory.iterations, memory.applied.clone()));
            self.facts.clear();
            self.notices.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(10);

    #[test]
    fn the_same_event_is_told_once_in_ten_intervals() {
        let (mut told, memory) = (Told::default(), Memory::default());
        let mut news = |fact: Fact, at: i64| told.is_news(&memory, &fact, Moment(at), INTERVAL);
        assert!(news(Fact::CanaryNotReady("0 of 2".to_owned()), 0));
        assert!(!news(Fact::CanaryNotReady("0 of 2".to_owned()), 10_000));
        assert!(news(Fact::CanaryNotReady("1 of 2".to_owned()), 20_000), "another number is news");
        assert!(!news(Fact::CanaryNotReady("0 of 2".to_owned()), 99_999));
        assert!(news(Fact::CanaryNotReady("0 of 2".to_owned()), 100_000));
        assert!(news(Fact::CanaryNotReady("0 of 2".to_owned()), 5), "the clock was put back");
    }

    #[test]
    fn an_alert_is_sent_once_until_the_rollout_moves() {
        let (mut told, mut memory) = (Told::default(), Memory::default());
        let stuck = |why: &str| Notice::PrimaryStuck(why.to_owned());
        assert!(told.is_new_alert(&memory, &stuck("0 of 2")));
        assert!(!told.is_new_alert(&memory, &stuck("1 of 2")), "the kind counts, not the words");
        memory.phase = Phase::Progressing;
        assert!(told.is_new_alert(&memory, &stuck("0 of 2")));
    }
}
