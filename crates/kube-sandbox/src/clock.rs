//! Real and virtual clocks, the only source of time in this crate.
//!
//! A virtual [`Clock`] stands still until [`Clock::advance`] moves it; sleepers wake in order of
//! their deadlines. Except for the sockets of the data plane, nothing else in this crate reads a
//! wall clock or an `Instant`, so a cluster can pass a day in a test of a second.
//!
//! Setting a clock back ([`Clock::jump_to`]) shows an earlier time, but prolongs no sleep:
//! durations are measured by elapsed time, like those of a monotonic clock.

use std::{
    collections::BTreeMap,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use jiff::Timestamp;
use parking_lot::Mutex;

/// A clock shared by everything in one sandbox; cheap to clone.
#[derive(Clone)]
pub struct Clock(Arc<Inner>);

enum Inner {
    Real,
    Virtual(Mutex<Timeline>),
}

struct Timeline {
    now: Timestamp,
    /// Elapsed time since the start; unlike `now` it never decreases.
    passed: Duration,
    /// Deadline (in elapsed time) and a serial number, so that equal deadlines wake in order of
    /// registration.
    sleepers: BTreeMap<(Duration, u64), Waker>,
    next_serial: u64,
}

/// Resolves when the clock reaches its deadline.
pub struct Sleep {
    clock: Clock,
    /// Elapsed time of the deadline, for a virtual clock.
    until: Duration,
    serial: Option<u64>,
    real: Option<Pin<Box<tokio::time::Sleep>>>,
}

// === impl Clock ===

impl Clock {
    /// The machine's clock.
    pub fn real() -> Self {
        Self(Arc::new(Inner::Real))
    }

    /// A virtual clock that stands at `start` until moved.
    pub fn virtual_from(start: Timestamp) -> Self {
        let timeline = Timeline {
            now: start,
            passed: Duration::ZERO,
            sleepers: BTreeMap::new(),
            next_serial: 0,
        };
        Self(Arc::new(Inner::Virtual(Mutex::new(timeline))))
    }

    /// Whether time stands still until it is moved.
    pub fn is_virtual(&self) -> bool {
        matches!(*self.0, Inner::Virtual(_))
    }

    /// The time in the cluster.
    pub fn now(&self) -> Timestamp {
        match &*self.0 {
            Inner::Real => Timestamp::now(),
            Inner::Virtual(timeline) => timeline.lock().now,
        }
    }

    /// Waits for a time to pass on this clock.
    pub fn sleep(&self, duration: Duration) -> Sleep {
        self.sleep_until(later(self.now(), duration))
    }

    /// Waits for a moment of this clock.
    pub fn sleep_until(&self, until: Timestamp) -> Sleep {
        let (real, until) = match &*self.0 {
            Inner::Real => {
                let wait = between(Timestamp::now(), until);
                (Some(Box::pin(tokio::time::sleep(wait))), wait)
            }
            Inner::Virtual(timeline) => {
                let timeline = timeline.lock();
                (None, timeline.passed.saturating_add(between(timeline.now, until)))
            }
        };
        Sleep { clock: self.clone(), until, serial: None, real }
    }

    /// Elapsed time of a virtual clock since its start, unaffected by jumps back. `None` for a real
    /// clock.
    pub fn passed(&self) -> Option<Duration> {
        let Inner::Virtual(timeline) = &*self.0 else { return None };
        Some(timeline.lock().passed)
    }

    /// Moves a virtual clock forward and wakes sleepers whose deadline has passed.
    ///
    /// No effect on a real clock.
    pub fn advance(&self, by: Duration) {
        let Inner::Virtual(timeline) = &*self.0 else { return };
        let woken = {
            let mut timeline = timeline.lock();
            timeline.now = later(timeline.now, by);
            timeline.passed = timeline.passed.saturating_add(by);
            let passed = (timeline.passed, u64::MAX);
            let after = timeline.sleepers.split_off(&passed);
            std::mem::replace(&mut timeline.sleepers, after)
        };
        for waker in woken.into_values() {
            waker.wake();
        }
    }

    /// Sets a virtual clock to any time, also in the past, like a correction of a machine's clock.
    ///
    /// A jump forward is elapsed time; a jump back delays no sleeper.
    pub fn jump_to(&self, to: Timestamp) {
        let Inner::Virtual(timeline) = &*self.0 else { return };
        let ahead = {
            let mut timeline = timeline.lock();
            let ahead = between(timeline.now, to);
            timeline.now = timeline.now.min(to);
            ahead
        };
        self.advance(ahead);
    }

    /// The next deadline of a sleeper, if the clock is virtual and has one.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        let Inner::Virtual(timeline) = &*self.0 else { return None };
        let timeline = timeline.lock();
        let (until, _) = timeline.sleepers.keys().next()?;
        Some(later(timeline.now, until.saturating_sub(timeline.passed)))
    }
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Clock({}, {})", if self.is_virtual() { "virtual" } else { "real" }, self.now())
    }
}

/// `at + by`, clamped to representable time.
pub fn later(at: Timestamp, by: Duration) -> Timestamp {
    at.checked_add(by).unwrap_or(Timestamp::MAX)
}

/// The duration from `from` to `to`; zero if `to` is earlier.
pub fn between(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}

// === impl Sleep ===

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(real) = self.real.as_mut() {
            return real.as_mut().poll(cx);
        }
        let Inner::Virtual(timeline) = &*self.clock.0 else { return Poll::Ready(()) };
        let (until, old) = (self.until, self.serial);
        let serial = {
            let mut timeline = timeline.lock();
            if timeline.passed >= until {
                return Poll::Ready(());
            }
            let serial = old.unwrap_or(timeline.next_serial);
            if old.is_none() {
                timeline.next_serial += 1;
            }
            timeline.sleepers.insert((until, serial), cx.waker().clone());
            serial
        };
        self.serial = Some(serial);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let (Inner::Virtual(timeline), Some(serial)) = (&*self.clock.0, self.serial) {
            timeline.lock().sleepers.remove(&(self.until, serial));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_virtual_sleeper_wakes_when_the_clock_is_moved_and_not_before() {
        let clock = Clock::virtual_from(Timestamp::UNIX_EPOCH);
        let sleeper = tokio::spawn(clock.sleep(Duration::from_hours(1)));
        tokio::task::yield_now().await;
        clock.advance(Duration::from_secs(3599));
        tokio::task::yield_now().await;
        assert!(!sleeper.is_finished());
        assert_eq!(
            clock.next_deadline(),
            Some(later(Timestamp::UNIX_EPOCH, Duration::from_hours(1)))
        );
        clock.advance(Duration::from_secs(1));
        sleeper.await.unwrap();
        assert_eq!(clock.next_deadline(), None);
    }

    #[test]
    fn a_clock_put_back_delays_nobody() {
        let clock = Clock::virtual_from(Timestamp::UNIX_EPOCH);
        clock.advance(Duration::from_hours(2));
        let mut sleeper = Box::pin(clock.sleep(Duration::from_mins(1)));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(sleeper.as_mut().poll(&mut cx).is_pending());
        clock.jump_to(Timestamp::UNIX_EPOCH);
        assert_eq!(clock.now(), Timestamp::UNIX_EPOCH);
        let due = later(Timestamp::UNIX_EPOCH, Duration::from_mins(1));
        assert_eq!(clock.next_deadline(), Some(due));
        clock.advance(Duration::from_secs(59));
        assert!(sleeper.as_mut().poll(&mut cx).is_pending());
        clock.jump_to(due);
        assert!(sleeper.as_mut().poll(&mut cx).is_ready());
        assert_eq!(clock.passed(), Some(Duration::from_mins(121)));
    }
}
