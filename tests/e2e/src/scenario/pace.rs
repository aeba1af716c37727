//! A script's time on a clock that cannot be moved.
//!
//! Scripts have times to the second. Here events happen when the operator gets to them: its next step
//! counts from its last one, and a script that only counted seconds would drift away from it. So the
//! script's time is set anew by each of its events, once that has happened, and seconds are counted only
//! between those moments.

use std::time::{Duration, Instant};

use super::compare::counts;

/// All canaries of scripts take a step this often, or less often.
const INTERVAL: Duration = Duration::from_secs(10);

pub(super) struct Pace {
    /// A moment on both clocks: the real one, and the script's.
    known: (Instant, Duration),
    /// The script's time.
    now: Duration,
    /// The time of the last event under the current command that can be awaited.
    last: Option<Duration>,
    /// Whether another line comes after it.
    has_more: bool,
}

// === impl Pace ===

impl Pace {
    pub(super) fn new(now: Instant) -> Self {
        Self { known: (now, Duration::ZERO), now: Duration::ZERO, last: None, has_more: false }
    }

    /// An operator reconciled for the first time: its steps count from now.
    pub(super) fn restart(&mut self, at: Instant) {
        self.known = (at, self.now);
    }

    pub(super) fn expect(&mut self, outcome: &[String]) {
        let mut now = None;
        self.last = None;
        for line in outcome {
            now = time_of(line).or(now);
            if counts(line) {
                self.last = now;
            }
        }
        self.has_more = now > self.last;
    }

    /// Whether there is any event under this command.
    pub(super) fn expects(&self) -> bool {
        self.last.is_some()
    }

    /// All events under this command have happened.
    pub(super) fn reached(&mut self, at: Instant) {
        if let Some(last) = self.last.take() {
            self.known = (at, last);
        }
    }

    /// The script waited for a state and not for a time.
    pub(super) fn arrive(&mut self, at: Instant) {
        self.now = self.last.unwrap_or(self.now);
        self.known = (at, self.now);
    }

    pub(super) fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    /// The real time at which the script's time is reached.
    pub(super) fn end(&self) -> Instant {
        self.known.0 + self.now.saturating_sub(self.known.1)
    }

    /// Whether the next command may be run early: an event just happened, and in the script no more do
    /// before the next step.
    pub(super) fn may_hurry(&self) -> bool {
        !self.has_more && self.now.saturating_sub(self.known.1) < INTERVAL
    }
}

/// Whether these lines are events with a time.
pub(super) fn is_timed(outcome: &[String]) -> bool {
    outcome.first().is_some_and(|line| time_of(line).is_some())
}

/// ` 0:35  Service web is created`; lines of the same moment leave it out.
fn time_of(line: &str) -> Option<Duration> {
    let (minutes, seconds) = line.get(..5)?.trim().split_once(':')?;
    let minutes: u64 = minutes.trim().parse().ok()?;
    Some(Duration::from_secs(minutes * 60 + seconds.parse::<u64>().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn what_happens_sets_the_time() {
        let begun = Instant::now();
        let mut pace = Pace::new(begun);
        pace.expect(&[" 0:10  a".to_owned(), "       b".to_owned()]);
        pace.pass(14 * SECOND);
        assert!(pace.expects());
        assert_eq!(pace.end(), begun + 14 * SECOND);
        let happened = begun + 12 * SECOND;
        pace.reached(happened);
        assert_eq!(pace.end(), happened + 4 * SECOND, "four seconds after what happened");
        assert!(pace.may_hurry());
        pace.expect(&[]);
        pace.pass(30 * SECOND);
        assert_eq!(pace.end(), happened + 34 * SECOND);
        assert!(!pace.may_hurry());
    }

    #[test]
    fn what_nobody_can_wait_for_takes_its_time() {
        let mut pace = Pace::new(Instant::now());
        let late = " 0:10  ! CanaryNotReady: web is not ready".to_owned();
        pace.expect(std::slice::from_ref(&late));
        assert!(!pace.expects() && !pace.may_hurry());
        pace.expect(&[" 0:05  weight 0 -> 20".to_owned(), late]);
        assert!(pace.expects() && !pace.may_hurry());
    }

    #[test]
    fn times_are_read() {
        let cases =
            [(" 1:05  x", Some(65)), ("10:00  x", Some(600)), ("       x", None), ("", None)];
        for (line, seconds) in cases {
            assert_eq!(time_of(line).map(|time| time.as_secs()), seconds, "{line}");
        }
    }
}
