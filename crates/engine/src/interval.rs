//! The interval between two steps, measured without trusting a clock that people can move.
//!
//! A process measures with a steady clock from when it saw the last step: its own, once that was carried out
//! in full, or one that it finds in the status. The wall clock is read once, after a start, for the age of
//! the step in the status; if the status lies in the future, the interval begins anew. So a clock that jumps,
//! either way, neither brings a step forward nor keeps it from coming; a step that failed is repeated soon;
//! and a write that succeeded although its answer was lost is not repeated.

use std::time::Duration;

use crate::{IntervalState, Memory, Moment, Percent, Phase};

/// The status has whole seconds: up to one of them is cut off.
const KNOWN_TO: Duration = Duration::from_secs(1);

/// The time of the last step, as this process knows it. One for each canary.
#[derive(Clone, Debug, Default)]
pub struct IntervalTimer {
    /// The mark of the last step or check in the status.
    mark: Option<Mark>,
    /// The time at which that was found, or made, by the steady clock.
    last: Option<Moment>,
}

/// The time by two clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clocks {
    /// The time of day, which may jump.
    pub wall: Moment,
    /// Time since any fixed moment, which may not.
    pub steady: Moment,
}

/// The part of the memory that changes with a step or a check that counted. Its time alone would not do: a
/// second is long enough for one rollout to end and the next to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    seconds: Option<i64>,
    phase: Phase,
    weight: Percent,
    iterations: u32,
    failed_checks: u32,
}

// === impl IntervalTimer ===

impl IntervalTimer {
    /// Whether an interval passed since the last step in the status.
    pub fn state(
        &mut self,
        memory: &Memory,
        now: Clocks,
        interval: Duration,
        retry: bool,
    ) -> IntervalState {
        self.notice(memory, now);
        let passed = self.last.map(|last| now.steady.since(last));
        let left = passed.map_or(Duration::ZERO, |passed| interval.saturating_sub(passed));
        IntervalState { due: left.is_zero(), next: now.wall.after(left), retry }
    }

    /// Takes note that a decision was carried out in full. If it was a step, a check or a question, the next
    /// one is an interval away.
    ///
    /// To be called after the last effect and not before: an effect that failed takes no time, and one that was
    /// done by half is found in the status.
    pub fn done(&mut self, is_beat: bool, memory: &Memory, steady: Moment) {
        self.mark = mark(memory);
        if is_beat {
            self.last = Some(steady);
        }
    }

    /// Takes note of a step by another writer, or by an earlier process.
    fn notice(&mut self, memory: &Memory, now: Clocks) {
        let found = mark(memory);
        if found == self.mark {
            return;
        }
        let is_first = self.mark.is_none() && self.last.is_none();
        let age = memory.since.filter(|since| is_first && *since <= now.wall);
        let age = age.map_or(Duration::ZERO, |since| now.wall.since(since));
        let age = i64::try_from(age.saturating_sub(KNOWN_TO).as_millis()).unwrap_or(i64::MAX);
        self.last = Some(Moment(now.steady.0.saturating_sub(age)));
        self.mark = found;
    }
}

/// Setting up has no step to wait for: its first question does not wait.
fn mark(memory: &Memory) -> Option<Mark> {
    let is_set_up = !matches!(memory.phase, Phase::New | Phase::Initializing);
    is_set_up.then(|| Mark {
        seconds: memory.since.map(|since| since.0.div_euclid(1_000)),
        phase: memory.phase,
        weight: memory.weight,
        iterations: memory.iterations,
        failed_checks: memory.failed_checks,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_mins(1);

    fn at(wall: i64, steady: i64) -> Clocks {
        Clocks { wall: Moment(wall * 1_000), steady: Moment(steady * 1_000) }
    }

    fn stepped_at(wall: i64) -> Memory {
        let since = Some(Moment(wall * 1_000));
        Memory { phase: Phase::Progressing, since, ..Memory::default() }
    }

    #[test]
    fn a_new_process_goes_on_from_the_step_in_the_status() {
        let cases = [
            ("nothing was done yet", Memory::default(), true, 1_000),
            ("the last step was long ago", stepped_at(500), true, 1_000),
            (
                "half an interval is left, and a second for good measure",
                stepped_at(970),
                false,
                1_031,
            ),
            ("a step in the future takes a whole interval", stepped_at(9_999), false, 1_060),
            (
                "setting up waits for nothing",
                Memory { phase: Phase::Initializing, ..stepped_at(999) },
                true,
                1_000,
            ),
        ];
        for (reason, memory, due, next) in cases {
            let interval_state =
                IntervalTimer::default().state(&memory, at(1_000, 7), INTERVAL, false);
            let want = IntervalState { due, next: Moment(next * 1_000), retry: false };
            assert_eq!(interval_state, want, "{reason}");
        }
    }

    #[test]
    fn a_clock_that_jumps_neither_hastens_nor_holds_a_step() {
        for jump in [-3_600, 3_600] {
            let mut pace = IntervalTimer::default();
            let memory = stepped_at(1_000);
            assert!(!pace.state(&memory, at(1_000, 0), INTERVAL, false).due);
            assert!(!pace.state(&memory, at(1_030 + jump, 30), INTERVAL, false).due, "{jump}");
            assert!(pace.state(&memory, at(1_060 + jump, 60), INTERVAL, false).due, "{jump}");
        }
    }

    #[test]
    fn an_interval_begins_with_the_step_and_not_with_the_next_look() {
        let mut pace = IntervalTimer::default();
        pace.done(true, &stepped_at(1_000), Moment(0));
        assert!(!pace.state(&stepped_at(1_000), at(1_059, 59), INTERVAL, false).due);
        assert!(pace.state(&stepped_at(1_000), at(1_060, 60), INTERVAL, false).due);
    }

    #[test]
    fn effects_between_two_steps_move_neither() {
        let mut pace = IntervalTimer::default();
        pace.done(true, &stepped_at(1_000), Moment(0));
        let over = Memory { phase: Phase::Succeeded, ..stepped_at(1_050) };
        pace.done(false, &over, Moment(50_000));
        assert!(pace.state(&over, at(1_060, 60), INTERVAL, false).due);
    }

    #[test]
    fn a_step_that_landed_without_an_answer_still_takes_its_interval() {
        let cases = [
            ("a share", stepped_at(1_000)),
            ("a failed check", Memory { failed_checks: 1, ..stepped_at(100) }),
            (
                "a start in the second of another's end",
                Memory { phase: Phase::Waiting, ..stepped_at(100) },
            ),
        ];
        for (reason, landed) in cases {
            let mut pace = IntervalTimer::default();
            assert!(pace.state(&stepped_at(100), at(1_000, 0), INTERVAL, false).due);
            assert!(!pace.state(&landed, at(1_001, 1), INTERVAL, false).due, "{reason}");
            assert!(pace.state(&landed, at(1_061, 61), INTERVAL, false).due, "{reason}");
        }
    }

    #[test]
    fn a_step_that_failed_is_due_at_once() {
        let mut pace = IntervalTimer::default();
        pace.done(true, &stepped_at(1_000), Moment(0));
        for seconds in [60, 61, 62] {
            // Asked, decided, refused: the status does not change.
            let clocks = at(1_000 + seconds, seconds);
            assert!(pace.state(&stepped_at(1_000), clocks, INTERVAL, false).due);
        }
    }

    #[test]
    fn times_are_compared_as_the_status_has_them() {
        let mut pace = IntervalTimer::default();
        let written = Memory { since: Some(Moment(1_000_987)), ..stepped_at(0) };
        pace.done(true, &written, Moment(0));
        let read = stepped_at(1_000);
        assert!(pace.state(&read, at(1_060, 60), INTERVAL, false).due, "it is the same step");
    }
}
