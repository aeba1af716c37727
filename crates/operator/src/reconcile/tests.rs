use std::collections::VecDeque;

use parking_lot::Mutex;
use tidegate_providers::game::POD;
use tokio::task::JoinHandle;

use super::*;
use crate::{
    context::Options,
    game::testing::{Kit, NAMESPACE},
};

/// The end of one pass of a scripted reconciler.
#[derive(Clone, Copy)]
enum Step {
    Rest(Next),
    /// Rests for so many seconds.
    RestFor(u64),
    Unavailable,
    NotLeading,
    Stopped,
    Panic,
}

/// Times of passes in milliseconds, and whether each was fine.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<(Vec<u128>, Vec<bool>)>>);

impl Log {
    fn times(&self) -> Vec<u128> {
        self.0.lock().0.clone()
    }

    fn seconds(&self) -> Vec<u128> {
        self.times().iter().map(|time| time / 1000).collect()
    }

    fn outcomes(&self) -> Vec<bool> {
        self.0.lock().1.clone()
    }
}

/// Does as the script says, and rests when it is over.
struct Scripted {
    cx: Arc<Context>,
    steps: VecDeque<Step>,
    log: Log,
}

impl Reconciler for Scripted {
    async fn reconcile(&mut self, _: &mut Pass<'_>) -> Result<Next, WriteError> {
        let now = self.cx.clock.monotonic();
        self.log.0.lock().0.push(now.as_millis());
        let what = || "a pod".to_owned();
        match self.steps.pop_front() {
            None => Ok(Next::OnChange),
            Some(Step::Rest(next)) => Ok(next),
            Some(Step::RestFor(seconds)) => Ok(Next::At(now + Duration::from_secs(seconds))),
            Some(Step::Unavailable) => {
                Err(WriteError::Unavailable { what: what(), why: "trouble".to_owned() })
            }
            Some(Step::NotLeading) => Err(WriteError::NotLeading),
            Some(Step::Stopped) => Err(WriteError::Stopped),
            Some(Step::Panic) => panic!("as the script says"),
        }
    }

    fn span(&self) -> Span {
        Span::none()
    }

    fn observe_pass(&mut self, is_ok: bool, _: Duration) {
        self.log.0.lock().1.push(is_ok);
    }
}

/// A loop at work.
struct Loop {
    log: Log,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
    key: Key,
}

fn start(kit: &Kit, name: &str, delay_s: u64, steps: impl Into<VecDeque<Step>>) -> Loop {
    let (stop, stopped) = watch::channel(false);
    let (log, key) = (Log::default(), Key::new(NAMESPACE, name));
    let cx = Arc::clone(&kit.cx);
    let scripted = Scripted { cx: Arc::clone(&cx), steps: steps.into(), log: log.clone() };
    let delay = Duration::from_secs(delay_s);
    let task = tokio::spawn(run(cx, key.clone(), scripted, delay, stopped));
    Loop { log, stop, task, key }
}

async fn pass_seconds(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn the_pause_after_errors_doubles_up_to_a_minute_and_is_short_again_after_a_success() {
    let mut steps = vec![Step::Unavailable; 4];
    steps.extend([Step::Rest(Next::Backoff); 4]);
    steps.extend([Step::RestFor(5), Step::Unavailable, Step::Unavailable]);
    let kit = Kit::new();
    let canary = start(&kit, "a", 0, steps);
    pass_seconds(1000).await;
    let times = canary.log.seconds();
    let pauses: Vec<u128> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60, 5, 1, 2]);
    let mut outcomes = vec![false; 8];
    outcomes.extend([true, false, false, true]);
    assert_eq!(canary.log.outcomes(), outcomes);
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_caught_and_counted_and_other_loops_go_on() {
    let kit = Kit::with(Options { permits: 1, ..Options::default() });
    let bad = start(&kit, "bad", 0, vec![Step::Panic, Step::Panic]);
    let good = start(&kit, "good", 0, vec![Step::RestFor(1), Step::RestFor(1)]);
    pass_seconds(60).await;
    assert_eq!(bad.log.seconds(), [0, 1, 3]);
    assert_eq!(bad.log.outcomes(), [false, false, true]);
    assert_eq!(good.log.seconds(), [0, 1, 2]);
    let panics = kit.metrics("tidegate").into_iter().find(|line| line.contains("panic"));
    assert!(panics.as_deref().is_some_and(|line| line.ends_with(" 2")), "{panics:?}");
    assert_eq!(kit.cx.reconcile_permits.available_permits(), 1, "permits came back");
}

#[tokio::test(start_paused = true)]
async fn a_lost_lease_and_a_stop_are_no_errors() {
    let kit = Kit::new();
    let canary = start(&kit, "a", 0, vec![Step::NotLeading, Step::Stopped, Step::Unavailable]);
    pass_seconds(100).await;
    assert_eq!(canary.log.seconds(), [0], "it waits for a change");
    kit.cluster().cache.notify(&canary.key);
    pass_seconds(100).await;
    assert_eq!(canary.log.seconds(), [0, 100]);
    assert_eq!(canary.log.outcomes(), [true, true]);
    let lines = kit.metrics("tidegate_reconciles");
    assert!(lines.iter().all(|line| !line.contains("error")), "{lines:?}");
    kit.cluster().cache.notify(&canary.key);
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(canary.log.outcomes().last(), Some(&false));
}

#[tokio::test(start_paused = true)]
async fn a_wakeup_begins_a_pass_but_not_before_the_first_delay_is_over() {
    let kit = Kit::new();
    let canary = start(&kit, "a", 5, vec![Step::Rest(Next::OnChange), Step::RestFor(100)]);
    pass_seconds(1).await;
    kit.cluster().cache.notify(&canary.key);
    pass_seconds(3).await;
    assert!(canary.log.times().is_empty(), "the delay is not over");
    pass_seconds(4).await;
    assert_eq!(canary.log.seconds(), [5, 5], "the wakeup was not lost");
    kit.cluster().cache.notify(&canary.key);
    pass_seconds(1).await;
    assert_eq!(canary.log.seconds(), [5, 5, 8], "a wakeup comes before the due time");
}

#[tokio::test(start_paused = true)]
async fn a_loop_that_waits_for_a_permit_a_time_or_a_change_ends_when_it_is_told_to() {
    let kit = Kit::with(Options { permits: 1, ..Options::default() });
    let permit = kit.cx.reconcile_permits.acquire().await.unwrap();
    let queued = start(&kit, "queued", 0, vec![]);
    let delayed = start(&kit, "delayed", 500, vec![]);
    pass_seconds(1).await;
    assert!(queued.log.times().is_empty(), "there is no permit");
    for waiting in [queued, delayed] {
        waiting.stop.send(true).unwrap();
        waiting.task.await.unwrap();
        assert!(waiting.log.times().is_empty());
    }
    drop(permit);
    let resting = start(&kit, "resting", 0, vec![]);
    pass_seconds(1).await;
    resting.stop.send(true).unwrap();
    resting.task.await.unwrap();
    assert_eq!(resting.log.seconds().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_loop_whose_object_is_gone_ends_and_follows_nothing() {
    let kit = Kit::new();
    let cache = &kit.cluster().cache;
    let gone = start(&kit, "gone", 1, vec![Step::Rest(Next::Gone)]);
    cache.follow(&gone.key, std::iter::once((POD, Key::new(NAMESPACE, "a"))).collect());
    assert_eq!(cache.followed(&gone.key).len(), 1);
    gone.task.await.unwrap();
    assert_eq!(gone.log.seconds(), [1]);
    assert!(cache.followed(&gone.key).is_empty());
}

#[tokio::test(start_paused = true)]
async fn passes_are_counted_by_their_outcome() {
    let kit = Kit::new();
    let steps = vec![Step::Unavailable, Step::Panic, Step::RestFor(1), Step::Rest(Next::Gone)];
    start(&kit, "a", 0, steps).task.await.unwrap();
    let lines = kit.metrics("tidegate_").join("\n");
    for (outcome, count) in [("error", 1), ("panic", 1), ("ok", 2)] {
        let line = format!("outcome=\"{outcome}\"}} {count}");
        assert!(lines.contains(&line), "{line} in {lines}");
    }
}

#[test]
fn the_pause_is_bounded_after_any_number_of_failures() {
    for (failures, seconds) in [(0, 1), (1, 2), (5, 32), (6, 60), (7, 60), (u32::MAX, 60)] {
        assert_eq!(backoff(failures), Duration::from_secs(seconds), "{failures}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_time_that_is_due_or_past_is_waited_for_ten_milliseconds() {
    let kit = Kit::new();
    pass_seconds(3).await;
    let (clock, now) = (&*kit.cx.clock, kit.now());
    let cases = [(-60_000, 10), (0, 10), (5, 10), (10, 10), (11, 11), (90_000, 90_000)];
    for (offset, want) in cases {
        let next = Next::at(clock, Moment(now.0 + offset));
        let want = Duration::from_secs(3) + Duration::from_millis(want);
        assert_eq!(next, Next::At(want), "in {offset} ms");
    }
}

// === Pass ===

/// The parts of a pass.
struct Parts {
    permits: Semaphore,
    stop: watch::Sender<bool>,
    wakeup: Arc<Notify>,
}

impl Parts {
    fn new() -> Self {
        let (stop, _) = watch::channel(false);
        Self { permits: Semaphore::new(1), stop, wakeup: Arc::default() }
    }

    fn pass(&self) -> Pass<'_> {
        Pass::new(&self.permits, self.stop.subscribe(), &self.wakeup)
    }
}

#[tokio::test(start_paused = true)]
async fn a_permit_is_taken_once_and_put_down_while_work_is_waited_for() {
    let parts = Parts::new();
    let mut pass = parts.pass();
    pass.take_permit().await.unwrap();
    pass.take_permit().await.unwrap();
    assert_eq!(parts.permits.available_permits(), 0);
    let work = async { parts.permits.available_permits() };
    assert_eq!(pass.wait_for(work, || true).await, Waited::Done(1));
    pass.take_permit().await.unwrap();
    let wait = async { parts.permits.available_permits() };
    assert_eq!(pass.without_permit(wait).await.unwrap(), 1);
    assert_eq!(parts.permits.available_permits(), 0);
    assert_eq!(pass.unless_stopped(async { parts.permits.available_permits() }).await, Some(1));
    drop(pass);
    assert_eq!(parts.permits.available_permits(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_permit_is_not_waited_for_when_the_loop_is_to_stop() {
    let parts = Parts::new();
    let held = parts.permits.acquire().await.unwrap();
    let mut pass = parts.pass();
    assert!(!pass.is_stopped());
    let (outcome, ()) = tokio::join!(pass.take_permit(), async {
        pass_seconds(1).await;
        parts.stop.send_replace(true);
    });
    assert!(matches!(outcome, Err(WriteError::Stopped)));
    assert!(pass.is_stopped());
    drop(held);
    parts.permits.close();
    assert!(matches!(parts.pass().take_permit().await, Err(WriteError::Stopped)));
}

#[tokio::test(start_paused = true)]
async fn a_decision_that_was_begun_gets_its_permit_back_although_the_loop_is_to_stop() {
    let parts = Parts::new();
    let mut pass = parts.pass();
    pass.take_permit().await.unwrap();
    parts.stop.send_replace(true);
    // Another object takes the permit meanwhile, for two seconds.
    let (waited, ()) = tokio::join!(pass.without_permit(pass_seconds(1)), async {
        let _held = parts.permits.acquire().await.unwrap();
        pass_seconds(2).await;
    });
    waited.unwrap();
    assert_eq!(parts.permits.available_permits(), 0);
}

#[tokio::test(start_paused = true)]
async fn waiting_for_work_is_interrupted_only_by_a_wakeup_whose_predicate_holds() {
    let parts = Parts::new();
    let mut pass = parts.pass();
    let matters = std::sync::atomic::AtomicBool::new(false);
    let is_interrupted = || matters.load(std::sync::atomic::Ordering::Relaxed);
    let (waited, ended_after) =
        tokio::join!(pass.wait_for(pass_seconds(100), is_interrupted), async {
            pass_seconds(1).await;
            parts.wakeup.notify_one();
            pass_seconds(1).await;
            matters.store(true, std::sync::atomic::Ordering::Relaxed);
            pass_seconds(1).await;
            parts.wakeup.notify_one();
            tokio::time::Instant::now()
        });
    assert_eq!(waited, Waited::Interrupted);
    assert_eq!(tokio::time::Instant::now(), ended_after, "at the wakeup, not at the predicate");
    assert_eq!(pass.wait_for(pass_seconds(1), || false).await, Waited::Done(()));
}

#[tokio::test(start_paused = true)]
async fn a_wakeup_that_interrupts_nothing_is_no_end_of_the_wait() {
    let parts = Parts::new();
    let mut pass = parts.pass();
    parts.wakeup.notify_one();
    assert_eq!(pass.unless_stopped(pass_seconds(5)).await, Some(()));
}

#[tokio::test(start_paused = true)]
async fn waiting_for_work_ends_with_the_loop() {
    let parts = Parts::new();
    let mut pass = parts.pass();
    let work = std::future::pending::<()>;
    let stop = async {
        pass_seconds(1).await;
        parts.stop.send_replace(true);
    };
    let (waited, ()) = tokio::join!(pass.wait_for(work(), || false), stop);
    assert_eq!(waited, Waited::Stopped);
    assert_eq!(pass.unless_stopped(work()).await, None);
    assert_eq!(pass.wait_for(async {}, || false).await, Waited::Stopped, "stop comes first");
}
