//! Time: the one place of the operator that may read the machine's clock.
//!
//! All code that waits or measures takes a [`Clock`], so that a test can simulate a day in a second
//! on the sandbox's virtual clock. Two readings, for two purposes:
//!
//! - [`Clock::now`] is the time of day. It may jump either way, and goes only into
//!   timestamps for people and other programs: in objects, logs and payloads.
//! - [`Clock::monotonic`] never decreases. Deadlines, intervals and leadership are measured by it.

use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};

/// A source of time.
pub trait Clock: Send + Sync + 'static {
    /// The time of day. May jump.
    fn now(&self) -> Timestamp;

    /// Time passed since some fixed moment. Never decreases.
    fn monotonic(&self) -> Duration;

    /// Resolves when this much monotonic time has passed.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;
}

/// The machine's clocks.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock {
    start: Instant,
}

/// A clock that runs so many times faster than the machine's: for showing, and for tests over real sockets.
#[derive(Debug, Clone, Copy)]
pub struct FastClock {
    start: Instant,
    epoch: Timestamp,
    speed: f64,
}

// === impl SystemClock ===

impl SystemClock {
    /// Monotonic time counts from here.
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}

// === impl FastClock ===

impl FastClock {
    /// Starts at the present time and runs `speed` times as fast.
    pub fn new(speed: f64) -> Self {
        Self { start: Instant::now(), epoch: Timestamp::now(), speed }
    }
}

impl Clock for FastClock {
    fn now(&self) -> Timestamp {
        let passed = SignedDuration::try_from(self.monotonic()).unwrap_or_default();
        self.epoch.checked_add(passed).unwrap_or(self.epoch)
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed().mul_f64(self.speed)
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration.div_f64(self.speed)))
    }
}

/// The sandbox's clock as ours, for tests of this crate.
#[cfg(test)]
pub(crate) mod testing {
    use super::{BoxFuture, Clock, Duration, Timestamp};

    /// A clock that a test moves. `skew_s` sets the time of day apart from the cluster's.
    #[derive(Clone)]
    pub(crate) struct VirtualClock {
        pub(crate) cluster: kube_sandbox::clock::Clock,
        pub(crate) skew_s: i64,
    }

    impl VirtualClock {
        pub(crate) fn of(cluster: &kube_sandbox::clock::Clock) -> Self {
            Self { cluster: cluster.clone(), skew_s: 0 }
        }
    }

    impl Clock for VirtualClock {
        fn now(&self) -> Timestamp {
            self.cluster.now() + jiff::SignedDuration::from_secs(self.skew_s)
        }

        fn monotonic(&self) -> Duration {
            self.cluster.passed().expect("tests use a virtual clock")
        }

        fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
            Box::pin(self.cluster.sleep(duration))
        }
    }
}

#[cfg(test)]
mod tests {
    use kube_sandbox::Settings;

    use super::{testing::VirtualClock, *};

    #[tokio::test]
    async fn the_machines_monotonic_time_passes_while_one_sleeps() {
        let clock = SystemClock::new();
        let before = clock.monotonic();
        clock.sleep(Duration::from_millis(5)).await;
        assert!(clock.monotonic() >= before + Duration::from_millis(5));
    }

    #[test]
    fn a_time_of_day_put_back_does_not_turn_monotonic_time_back() {
        let clock = VirtualClock::of(&Settings::for_tests().clock);
        clock.cluster.advance(Duration::from_mins(1));
        clock.cluster.jump_to(Timestamp::UNIX_EPOCH);
        assert_eq!(clock.now(), Timestamp::UNIX_EPOCH);
        assert_eq!(clock.monotonic(), Duration::from_mins(1));
    }
}
