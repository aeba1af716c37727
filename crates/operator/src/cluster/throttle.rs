//! A limit on requests to the API server: a rate and a burst.
//!
//! Requests beyond it wait for their turn; none is refused. A watch is one request, however long it
//! lasts. The lease has a client of its own without a limit: work must not be able to starve it.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use futures::future::BoxFuture;
use parking_lot::Mutex;
use tower::{Layer, Service};

use crate::clock::Clock;

/// The limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Requests a second; 0 is no limit.
    pub per_second: u32,
    /// Requests at once, after a long enough pause.
    pub burst: u32,
}

/// Puts the limit in front of a client. All clients made by one of these share one budget.
#[derive(Clone)]
pub struct Throttle {
    bucket: Arc<Mutex<Bucket>>,
    clock: Arc<dyn Clock>,
}

/// A client with a limit in front of it.
pub struct Throttled<S> {
    inner: S,
    throttle: Throttle,
    /// The wait for the turn that was taken.
    turn: Option<BoxFuture<'static, ()>>,
    has_turn: bool,
}

/// A token bucket: turns at an even pace, some of which may be taken in advance.
///
/// Kept as one moment: when the turns taken so far would be used up at that pace.
#[derive(Debug)]
struct Bucket {
    /// Between two turns.
    pace: Duration,
    /// How far ahead of the pace it may get.
    ahead: Duration,
    used_until: Duration,
}

// === impl Throttle ===

impl Throttle {
    /// `None` where there is no limit.
    pub fn new(rate: Rate, clock: Arc<dyn Clock>) -> Option<Self> {
        let bucket = Bucket::new(rate)?;
        Some(Self { bucket: Arc::new(Mutex::new(bucket)), clock })
    }

    /// Takes a turn, and says how long it is until then.
    fn take_turn(&self) -> Duration {
        let mut bucket = self.bucket.lock();
        bucket.take_turn(self.clock.monotonic())
    }
}

impl<S> Layer<S> for Throttle {
    type Service = Throttled<S>;

    fn layer(&self, inner: S) -> Throttled<S> {
        Throttled { inner, throttle: self.clone(), turn: None, has_turn: false }
    }
}

// === impl Throttled ===

impl<S: Service<R>, R> Service<R> for Throttled<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        while !self.has_turn {
            if let Some(turn) = &mut self.turn {
                ready!(Pin::as_mut(turn).poll(cx));
                self.turn = None;
                self.has_turn = true;
                break;
            }
            let wait = self.throttle.take_turn();
            self.has_turn = wait.is_zero();
            self.turn = (!wait.is_zero()).then(|| self.throttle.clock.sleep(wait));
        }
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: R) -> S::Future {
        self.has_turn = false;
        self.inner.call(request)
    }
}

// === impl Bucket ===

impl Bucket {
    fn new(rate: Rate) -> Option<Self> {
        let pace = Duration::from_secs(1).checked_div(rate.per_second)?;
        // The first of a burst is on time: only the others are ahead.
        let ahead = pace.saturating_mul(rate.burst.max(1) - 1);
        Some(Self { pace, ahead, used_until: Duration::ZERO })
    }

    fn take_turn(&mut self, now: Duration) -> Duration {
        let turn = self.used_until.max(now);
        self.used_until = turn.saturating_add(self.pace);
        turn.saturating_sub(now.saturating_add(self.ahead))
    }
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, future::Ready};

    use kube_sandbox::Settings;
    use tower::ServiceExt;

    use super::*;
    use crate::clock::testing::VirtualClock;

    const RATE: Rate = Rate { per_second: 10, burst: 3 };

    /// Turns that are asked for at this moment, in milliseconds from now.
    fn turns(bucket: &mut Bucket, at_ms: u64, count: usize) -> Vec<u128> {
        let now = Duration::from_millis(at_ms);
        (0..count).map(|_| bucket.take_turn(now).as_millis()).collect()
    }

    #[test]
    fn a_burst_passes_and_the_rest_comes_at_an_even_pace() {
        let mut bucket = Bucket::new(RATE).unwrap();
        assert_eq!(turns(&mut bucket, 0, 6), [0, 0, 0, 100, 200, 300]);
        assert_eq!(turns(&mut bucket, 350, 1), [50], "what was taken stays taken");
        assert_eq!(turns(&mut bucket, 5_000, 4), [0, 0, 0, 100], "a pause gives the burst back");
    }

    #[test]
    fn a_long_pause_gives_no_more_than_one_burst() {
        let mut bucket = Bucket::new(RATE).unwrap();
        assert_eq!(turns(&mut bucket, 3_600_000, 5), [0, 0, 0, 100, 200]);
    }

    #[test]
    fn extreme_rates_neither_panic_nor_block() {
        assert!(Bucket::new(Rate { per_second: 0, burst: 5 }).is_none(), "no limit");
        let one_by_one = Rate { per_second: 1, burst: 0 };
        assert_eq!(turns(&mut Bucket::new(one_by_one).unwrap(), 0, 2), [0, 1_000]);
        let fast = Rate { per_second: u32::MAX, burst: u32::MAX };
        assert_eq!(turns(&mut Bucket::new(fast).unwrap(), 0, 2), [0, 0]);
        let mut bucket = Bucket::new(RATE).unwrap();
        bucket.used_until = Duration::MAX;
        assert!(bucket.take_turn(Duration::ZERO) > Duration::ZERO);
    }

    /// Answers at once.
    #[derive(Clone)]
    struct Prompt;

    impl Service<()> for Prompt {
        type Response = ();
        type Error = Infallible;
        type Future = Ready<Result<(), Infallible>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, (): ()) -> Self::Future {
            std::future::ready(Ok(()))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn requests_wait_for_their_turn_and_share_one_budget() {
        let cluster = Settings::for_tests().clock;
        let clock: Arc<dyn Clock> = Arc::new(VirtualClock::of(&cluster));
        let throttle = Throttle::new(RATE, clock).unwrap();
        let (mut one, mut other) = (throttle.layer(Prompt), throttle.layer(Prompt));
        for _ in 0..2 {
            one.ready().await.unwrap().call(()).await.unwrap();
        }
        other.ready().await.unwrap().call(()).await.unwrap();
        let mut late = tokio::spawn(async move { one.ready().await.unwrap().call(()).await });
        let early = tokio::time::timeout(Duration::from_secs(5), &mut late).await;
        assert!(early.is_err(), "the burst is used up, and no time passed in the cluster");
        cluster.advance(Duration::from_millis(100));
        late.await.unwrap().unwrap();
    }
}
