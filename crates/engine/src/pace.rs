//! Whether it is time for the next step, without trusting a clock that people can move.
//!
//! A process measures with a steady clock from when it saw the last step: its own, or one that it
//! finds in the status. The wall clock is asked once, after a start, how long ago the step in the
//! status was; if the status lies in the future, the interval begins anew. So a clock that jumps,
//! either way, neither brings a step forward nor keeps it from coming.

use std::time::Duration;

use crate::{Memory, Moment, Tempo};

/// When the last step was, as this process knows it. One for each canary.
#[derive(Clone, Debug, Default)]
pub struct Pace {
    /// The time of the last step that was found in the status.
    since: Option<Moment>,
    /// When that was found, or made, by the steady clock.
    last: Option<Moment>,
}

/// What two clocks say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clocks {
    /// The time of day, which may jump.
    pub wall: Moment,
    /// Time since any fixed moment, which may not.
    pub steady: Moment,
}

// === impl Pace ===

impl Pace {
    /// Whether it is time, given what is remembered.
    pub fn tempo(
        &mut self,
        memory: &Memory,
        now: Clocks,
        interval: Duration,
        retry: bool,
    ) -> Tempo {
        self.notice(memory, now);
        let passed = self.last.map(|last| now.steady.since(last));
        let left = passed.map_or(Duration::ZERO, |passed| interval.saturating_sub(passed));
        Tempo { due: left.is_zero(), next: now.wall.after(left), retry }
    }

    /// A step, a check or a question is over, and this is remembered of it: the next one is an
    /// interval away.
    pub fn beat(&mut self, memory: &Memory, steady: Moment) {
        self.since = memory.since;
        self.last = Some(steady);
    }

    fn notice(&mut self, memory: &Memory, now: Clocks) {
        if memory.since == self.since {
            return;
        }
        let is_first = self.since.is_none() && self.last.is_none();
        let age = memory.since.filter(|since| is_first && *since <= now.wall);
        let age = age.map_or(Duration::ZERO, |since| now.wall.since(since));
        let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
        self.last = Some(Moment(now.steady.0.saturating_sub(age)));
        self.since = memory.since;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_mins(1);

    fn at(wall: i64, steady: i64) -> Clocks {
        Clocks { wall: Moment(wall * 1_000), steady: Moment(steady * 1_000) }
    }

    fn stepped_at(wall: i64) -> Memory {
        Memory { since: Some(Moment(wall * 1_000)), ..Memory::default() }
    }

    #[test]
    fn a_new_process_goes_on_from_the_step_in_the_status() {
        let cases = [
            ("nothing was done yet", Memory::default(), true, 1_000),
            ("the last step was long ago", stepped_at(500), true, 1_000),
            ("half an interval is left", stepped_at(970), false, 1_030),
            ("a step in the future takes a whole interval", stepped_at(9_999), false, 1_060),
        ];
        for (reason, memory, due, next) in cases {
            let tempo = Pace::default().tempo(&memory, at(1_000, 7), INTERVAL, false);
            let want = Tempo { due, next: Moment(next * 1_000), retry: false };
            assert_eq!(tempo, want, "{reason}");
        }
    }

    #[test]
    fn a_clock_that_jumps_neither_hastens_nor_holds_a_step() {
        for jump in [-3_600, 3_600] {
            let mut pace = Pace::default();
            let memory = stepped_at(1_000);
            assert!(!pace.tempo(&memory, at(1_000, 0), INTERVAL, false).due);
            assert!(!pace.tempo(&memory, at(1_030 + jump, 30), INTERVAL, false).due, "{jump}");
            assert!(pace.tempo(&memory, at(1_060 + jump, 60), INTERVAL, false).due, "{jump}");
        }
    }

    #[test]
    fn an_interval_begins_with_the_step_and_not_with_the_next_look() {
        let mut pace = Pace::default();
        pace.beat(&stepped_at(1_000), Moment(0));
        assert!(!pace.tempo(&stepped_at(1_000), at(1_059, 59), INTERVAL, false).due);
        assert!(pace.tempo(&stepped_at(1_000), at(1_060, 60), INTERVAL, false).due);
    }

    #[test]
    fn a_step_that_landed_without_an_answer_still_takes_its_interval() {
        let mut pace = Pace::default();
        assert!(pace.tempo(&stepped_at(100), at(1_000, 0), INTERVAL, false).due);
        assert!(!pace.tempo(&stepped_at(1_000), at(1_001, 1), INTERVAL, false).due);
    }
}
