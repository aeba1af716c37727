//! Runs tasks: each once at a time, a bounded number of them, for a bounded time.
//!
//! ```text
//! begin: not there --> running --> done, and gone           no caller waits for a background task
//! ask:   not there --> running --> done, returned to all who wait
//!        running   --> wait for it too
//!        done and not collected --> returned, and gone
//! ```
//!
//! A waiting caller may give up; operators do after ten seconds. The task then goes on for a while, and the
//! next call finds it: a test of five minutes works with a hook of ten seconds. Without another call it is
//! ended, and an outcome that is not collected is dropped. Looking up a task and taking its place is one step
//! under one lock.

mod work;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    task::JoinSet,
    time::timeout,
};
use tracing::{error, info, warn};

pub use self::work::Outcome;
use crate::{
    client::Client,
    duration,
    metrics::Metrics,
    task::{Kind, Task, Work},
};

/// Runs tasks. Cheap to clone.
#[derive(Clone)]
pub struct Runner {
    inner: Arc<Inner>,
}

/// The bounds on tasks.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub tasks: usize,
    pub tasks_per_namespace: usize,
    /// Of all loads of the built-in generator together: each takes memory of ours.
    pub connections: u32,
    /// For one task.
    pub timeout: Duration,
    /// How long a task goes on, and an outcome is kept, without a waiting caller.
    pub patience: Duration,
}

/// The result of a request to begin a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    Started,
    /// It is running already.
    Skipped,
}

/// There is no room for another task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Busy {
    #[error("too many tasks are running; try again later")]
    Tasks,
    #[error(
        "the load needs {asked} connections, and of {most} for all loads {free} are free; \
         try again later, or see -max-total-connections"
    )]
    Connections { asked: u32, free: usize, most: u32 },
}

struct Inner {
    limits: Limits,
    metrics: Arc<Metrics>,
    client: Client,
    places: Mutex<BTreeMap<String, Place>>,
    /// For all loads.
    connections: Arc<Semaphore>,
    tasks: Mutex<JoinSet<()>>,
    stopping: watch::Sender<Stop>,
}

/// The tasks that have to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stop {
    Nothing,
    Background,
    Everything,
}

/// A task's place among those that run.
struct Place {
    namespace: String,
    outcome: OutcomeReceiver,
    waiting: WaiterCount,
}

/// Frees a task's place at its end: done, cut off or in a panic.
struct PlaceGuard<'a> {
    inner: &'a Inner,
    key: &'a str,
    place: OutcomeReceiver,
}

/// Receives the outcome, once there is one.
type OutcomeReceiver = watch::Receiver<Option<Outcome>>;
/// Number of callers that wait for an outcome.
type WaiterCount = Arc<watch::Sender<usize>>;

/// A caller that waits for an outcome. Counted while it exists.
struct Waiter(WaiterCount);

/// For tasks to end when we do: SIGTERM, SIGKILL after 5 s, 2 s for output, and some to spare.
const END_TIMEOUT: Duration = Duration::from_secs(10);

// === impl Runner ===

impl Runner {
    pub fn new(limits: Limits, metrics: Arc<Metrics>) -> Self {
        let (stopping, _) = watch::channel(Stop::Nothing);
        let inner = Inner {
            limits,
            metrics,
            client: Client::new(),
            places: Mutex::default(),
            connections: Arc::new(Semaphore::new(limits.connections as usize)),
            tasks: Mutex::default(),
            stopping,
        };
        Self { inner: Arc::new(inner) }
    }

    /// Begins a task in the background.
    pub fn begin(&self, task: Task) -> Result<Begun, Busy> {
        let mut places = self.inner.places.lock();
        if places.contains_key(&task.key) {
            let Task { canary, shown, kind, .. } = &task;
            info!(%canary, "command skipped {shown} is already running");
            self.inner.metrics.count_task(kind.as_str(), "skipped");
            return Ok(Begun::Skipped);
        }
        self.start(&mut places, task, 0)?;
        Ok(Begun::Started)
    }

    /// The outcome of a task: of the one that runs already, or of a new one.
    pub async fn ask(&self, task: Task) -> Result<Outcome, Busy> {
        loop {
            let outcome = self.join(task.clone()).await?;
            // Bounded: each round waits for a task that ends because no caller waits.
            if !outcome.abandoned {
                return Ok(outcome);
            }
        }
    }

    async fn join(&self, task: Task) -> Result<Outcome, Busy> {
        let (kind, key) = (task.kind, task.key.clone());
        let (mut outcome, _waiter) = {
            let mut places = self.inner.places.lock();
            if let Some(place) = places.get(&key) {
                let found = place.outcome.borrow().clone();
                if let Some(outcome) = found {
                    // The task need not keep the outcome any longer.
                    place.waiting.send_modify(|count| *count += 1);
                    places.remove(&key);
                    self.inner.metrics.count_task(kind.as_str(), "collected");
                    return Ok(outcome);
                }
                self.inner.metrics.count_task(kind.as_str(), "joined");
                (place.outcome.clone(), Waiter::of(&place.waiting))
            } else {
                // Counted before the task starts: it must not look abandoned.
                let (outcome, waiting) = self.start(&mut places, task, 1)?;
                (outcome, Waiter(waiting))
            }
        };
        let told = outcome.wait_for(Option::is_some).await.map(|outcome| outcome.clone());
        // The sender is dropped without an outcome only when the task was cut off, or panicked.
        Ok(told.ok().flatten().unwrap_or_else(|| Outcome::failed("the task was killed")))
    }

    pub fn running(&self) -> usize {
        self.inner.places.lock().values().filter(|place| place.outcome.borrow().is_none()).count()
    }

    /// Ends background tasks and begins no more.
    pub fn stop_background(&self) {
        self.inner.stopping.send_replace(Stop::Background);
    }

    /// Ends everything and waits for it, for a bounded time.
    pub async fn stop(&self) {
        self.inner.stopping.send_replace(Stop::Everything);
        let mut tasks = std::mem::take(&mut *self.inner.tasks.lock());
        let all_ended = async { while tasks.join_next().await.is_some() {} };
        if timeout(END_TIMEOUT, all_ended).await.is_err() {
            warn!("Tasks did not end in time and were killed");
            tasks.shutdown().await;
        }
    }

    /// Takes a place and starts a task in it.
    fn start(
        &self,
        places: &mut BTreeMap<String, Place>,
        task: Task,
        waiting: usize,
    ) -> Result<(OutcomeReceiver, WaiterCount), Busy> {
        let Limits { tasks, tasks_per_namespace, .. } = self.inner.limits;
        let of_namespace = places.values().filter(|it| it.namespace == task.namespace).count();
        let is_stopping = *self.inner.stopping.borrow() > Stop::Nothing;
        if places.len() >= tasks || of_namespace >= tasks_per_namespace || is_stopping {
            self.inner.metrics.count_task(task.kind.as_str(), "busy");
            return Err(Busy::Tasks);
        }
        let connections = self.connections(&task).inspect_err(|_| {
            self.inner.metrics.count_task(task.kind.as_str(), "busy");
        })?;
        let (sender, outcome) = watch::channel(None);
        let waiting = Arc::new(watch::Sender::new(waiting));
        let place = Place {
            namespace: task.namespace.clone(),
            outcome: outcome.clone(),
            waiting: Arc::clone(&waiting),
        };
        places.insert(task.key.clone(), place);
        let inner = Arc::clone(&self.inner);
        let mut running = self.inner.tasks.lock();
        while running.try_join_next().is_some() {}
        running.spawn(inner.run_task(task, connections, sender, Arc::clone(&waiting)));
        Ok((outcome, waiting))
    }

    /// The connections of a load, all of them or none: with a part of them it would be another load.
    fn connections(&self, task: &Task) -> Result<Option<OwnedSemaphorePermit>, Busy> {
        let Work::Load(plan) = &task.work else { return Ok(None) };
        let (asked, all) = (plan.connections.get(), &self.inner.connections);
        let taken = Arc::clone(all).try_acquire_many_owned(asked);
        taken.map(Some).map_err(|_| {
            let (free, most) = (all.available_permits(), self.inner.limits.connections);
            Busy::Connections { asked, free, most }
        })
    }
}

// === impl Inner ===

impl Inner {
    /// Runs a task to its end, with log lines at both.
    async fn run_task(
        self: Arc<Self>,
        task: Task,
        connections: Option<OwnedSemaphorePermit>,
        sender: watch::Sender<Option<Outcome>>,
        waiting: WaiterCount,
    ) {
        let (canary, shown) = (task.canary.as_str(), task.shown.as_str());
        info!(%canary, "task starting {shown}");
        let guard = PlaceGuard { inner: &self, key: &task.key, place: sender.subscribe() };
        let (cancel, cancelled) = watch::channel(false);
        let work = work::run(&task, &self.client, &self.metrics, cancelled);
        let mut work = std::pin::pin!(work);
        let (outcome, label) = tokio::select! {
            biased;
            outcome = work.as_mut() => {
                let label = if outcome.is_ok() { "succeeded" } else { "failed" };
                (outcome, label)
            }
            (reason, label) = self.end_of(&task, waiting.subscribe()) => {
                cancel.send_replace(true);
                // Bounded by how programs are ended; see `process`.
                let outcome = work.await;
                let abandoned = label == "abandoned";
                (Outcome { reason: Some(reason), abandoned, ..outcome }, label)
            }
        };
        drop(connections);
        self.metrics.count_task(task.kind.as_str(), label);
        log(&task, &outcome);
        let is_awaited = {
            // Under the lock: a caller finds either the task or its outcome.
            let _places = self.places.lock();
            sender.send_replace(Some(outcome));
            *waiting.borrow() > 0
        };
        if task.blocking && !is_awaited && label != "abandoned" {
            self.keep_until_collected(waiting.subscribe()).await;
        }
        drop(guard);
    }

    /// Why a task has to end before it is done.
    async fn end_of(
        &self,
        task: &Task,
        mut waiting: watch::Receiver<usize>,
    ) -> (String, &'static str) {
        let limit = self.limits.timeout;
        let mut stopping = self.stopping.subscribe();
        let stops_at = if task.blocking { Stop::Everything } else { Stop::Background };
        let abandoned = async {
            if !task.blocking {
                std::future::pending::<()>().await;
            }
            loop {
                // Errors cannot come up: the sender is kept by the task's place.
                drop(waiting.wait_for(|count| *count == 0).await);
                let back = waiting.wait_for(|count| *count > 0);
                if timeout(self.limits.patience, back).await.is_err() {
                    return;
                }
            }
        };
        tokio::select! {
            biased;
            _ = stopping.wait_for(|stop| *stop >= stops_at) => {
                ("the load tester is stopping".to_owned(), "stopped")
            }
            () = tokio::time::sleep(limit) => {
                (format!("timed out after {}", duration::show(limit)), "timed_out")
            }
            () = abandoned => ("the caller has disconnected".to_owned(), "abandoned"),
        }
    }

    /// Waits for as long as a caller may still collect the outcome.
    async fn keep_until_collected(&self, mut waiting: watch::Receiver<usize>) {
        let mut stopping = self.stopping.subscribe();
        tokio::select! {
            biased;
            _ = stopping.wait_for(|stop| *stop == Stop::Everything) => {}
            _ = waiting.wait_for(|count| *count > 0) => {}
            () = tokio::time::sleep(self.limits.patience) => {}
        }
    }
}

// === impl PlaceGuard ===

impl Drop for PlaceGuard<'_> {
    fn drop(&mut self) {
        let mut places = self.inner.places.lock();
        // Collected meanwhile, and taken by a new task: then it is not ours.
        if places.get(self.key).is_some_and(|place| place.outcome.same_channel(&self.place)) {
            places.remove(self.key);
        }
    }
}

// === impl Waiter ===

impl Waiter {
    fn of(waiting: &WaiterCount) -> Self {
        waiting.send_modify(|count| *count += 1);
        Self(Arc::clone(waiting))
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count = count.saturating_sub(1));
    }
}

fn log(task: &Task, outcome: &Outcome) {
    let Task { canary, shown, kind, .. } = task;
    match &outcome.reason {
        None => {
            // As Flagger: the output of a test is always logged, that of load if asked for.
            let logs_output = task.logs_output || (task.blocking && *kind != Kind::Concord);
            let output = if logs_output { outcome.output.trim_end() } else { "" };
            info!(%canary, %output, summary = %outcome.summary, "command finished {shown}");
        }
        Some(reason) => {
            let output = outcome.output.trim_end();
            error!(%canary, %reason, %output, "command failed {shown}");
        }
    }
}

#[cfg(test)]
mod tests;
