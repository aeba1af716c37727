//! The life of a task: it waits for a bell or its time, and takes its turn.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::FutureExt as _;
use tidegate_engine::Moment;
use tokio::sync::watch;
use tracing::{Instrument as _, error, info_span, warn};

use crate::{
    canary::Context,
    cluster::{cache::Key, write::WriteError},
};

/// Pauses after trouble with the API server, doubled each time.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_mins(1);

/// What a task does when it wakes up.
pub(super) trait Subject: Send {
    /// Whether a look is one turn from beginning to end. One that waits for servers of others takes turns
    /// for its own requests to the cluster alone: whoever does not answer must not keep everybody waiting.
    const IS_ONE_TURN: bool;

    fn look(
        &mut self,
        stop: &watch::Receiver<bool>,
    ) -> impl Future<Output = Result<Next, WriteError>> + Send;

    /// A turn is over.
    fn looked(&self, is_ok: bool, took: Duration);
}

/// What to do after a turn.
#[derive(Debug)]
pub(super) enum Next {
    At(Moment),
    OnChange,
    /// Something went wrong that may pass.
    Later,
    Gone,
}

/// Who is rung for: a kind and a name cannot be that of a canary.
pub(super) fn follower(plural: &str, key: &Key) -> Key {
    Key::new(&key.namespace, &format!("{plural}/{}", key.name))
}

/// What it comes to; nothing if the task is to stop before.
pub(super) async fn unless_stopped<T>(
    stop: &watch::Receiver<bool>,
    work: impl Future<Output = T>,
) -> Option<T> {
    let mut stop = stop.clone();
    tokio::select! {
        biased;
        _ = stop.wait_for(|stop| *stop) => None,
        done = work => Some(done),
    }
}

/// Runs until the subject is gone or `stop` says so.
pub(super) async fn live<S: Subject>(
    cx: Arc<Context>,
    follower: Key,
    mut subject: S,
    delay: Duration,
    mut stop: watch::Receiver<bool>,
) {
    let bell = cx.cluster.cache.wakeup(&follower);
    let mut due = Some(cx.clock.monotonic() + delay);
    let mut troubles = 0_u32;
    loop {
        let clock = Arc::clone(&cx.clock);
        let time = async {
            match due {
                Some(due) => clock.sleep(due.saturating_sub(clock.monotonic())).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => break,
            () = bell.notified() => {}
            () = time => {}
        }
        let mut turn = None;
        if S::IS_ONE_TURN {
            let Some(Ok(taken)) = unless_stopped(&stop, cx.turns.acquire()).await else { break };
            turn = Some(taken);
        }
        let span = info_span!("look", workload = %follower);
        let start = cx.clock.monotonic();
        let outcome = AssertUnwindSafe(subject.look(&stop)).catch_unwind().instrument(span).await;
        drop(turn);
        let took = cx.clock.monotonic().saturating_sub(start);
        let mut pause = || {
            let pause = PAUSE_MIN.saturating_mul(1 << troubles.min(6)).min(PAUSE_MAX);
            troubles = troubles.saturating_add(1);
            Some(cx.clock.monotonic() + pause)
        };
        let (word, next) = match outcome {
            Ok(Ok(Next::Gone)) => break,
            Ok(Ok(Next::Later)) => ("error", pause()),
            Ok(Ok(Next::OnChange)) => {
                troubles = 0;
                ("ok", None)
            }
            Ok(Ok(Next::At(at))) => {
                troubles = 0;
                ("ok", Some(time_of(&cx, at)))
            }
            Ok(Err(WriteError::NotLeading)) => ("ok", None),
            Ok(Err(trouble)) => {
                warn!(workload = %follower, error = %trouble, "Could not finish, trying again");
                ("error", pause())
            }
            Err(_) => {
                error!(workload = %follower, "Panicked; this one is paused, others go on");
                cx.telemetry.count_panic();
                ("panic", pause())
            }
        };
        cx.telemetry.count_reconcile(word, took);
        subject.looked(word == "ok", took);
        due = next;
    }
    cx.cluster.cache.leave(&follower);
}

fn time_of(cx: &Context, at: Moment) -> Duration {
    let now = Moment(cx.clock.now().as_millisecond());
    // At least a moment, so that a clock that stands still does not spin.
    cx.clock.monotonic() + at.since(now).max(Duration::from_millis(10))
}
