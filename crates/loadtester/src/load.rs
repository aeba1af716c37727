//! A load generator that understands the command lines of `hey` and `wrk`.
//!
//! ```text
//! words --> Plan --> Running --> Report
//!                    threads, each with its own runtime and its share of the connections
//! ```
//!
//! Threads share nothing while load is made. Dropping a [`Running`] ends it.

mod connect;
mod hey;
mod histogram;
mod http1;
mod http2;
mod plan;
mod report;
mod stats;
#[cfg(test)]
mod tests;
mod worker;
mod wrk;

use std::{
    io,
    num::{NonZeroU32, NonZeroUsize},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use http::Method;
use parking_lot::Mutex;
use tokio::{
    runtime,
    sync::{oneshot, watch},
    task::JoinSet,
};

use self::{
    connect::{Connector, Request},
    worker::{Job, Worker},
};
pub use self::{
    histogram::Histogram,
    plan::{BodyFiles, Bounds, End, Output, Plan, PlanError, Protocol, Target, Tool},
    report::Report,
    stats::{Failure, Stats},
};

/// Load that is being made.
pub struct Running {
    plan: Plan,
    start: Instant,
    halt: watch::Sender<bool>,
    threads: Vec<Thread>,
}

struct Thread {
    job: Arc<Job>,
    /// None once it has.
    ended: Option<oneshot::Receiver<()>>,
}

/// Why load could not be made at all.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("failed to start a thread")]
    Thread(#[source] io::Error),
    #[error("`{0}` is no name that TLS can ask for")]
    ServerName(String),
}

/// A load of a hundred connections is made well by this many, and a hundred loads at once must not be
/// thousands of threads.
const THREADS_MAX: u32 = 16;
/// Requests a second that a thread sends with time to spare; a third of its limit.
const RATE_OF_A_THREAD: f64 = 10_000.0;

// === impl Running ===

impl Running {
    pub fn start(plan: Plan) -> Result<Self, LoadError> {
        let (halt, halted) = watch::channel(false);
        let start = Instant::now();
        let connections = plan.connections.get();
        let threads_max = threads(&plan);
        let mut threads = Vec::new();
        for thread in 0..threads_max {
            let job = Arc::new(job(&plan, start)?);
            let workers = (thread..connections).step_by(threads_max as usize).map(|index| Worker {
                job: Arc::clone(&job),
                index,
                requests: plan.requests_of(index),
            });
            let workers: Vec<Worker> = workers.collect();
            let (ending, ended) = oneshot::channel();
            let halted = halted.clone();
            let runtime = runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .map_err(LoadError::Thread)?;
            let body = move || {
                runtime.block_on(work(workers, halted));
                // A name that is still being looked up is not waited for.
                runtime.shutdown_background();
                let _nobody_may_be_waiting = ending.send(());
            };
            let named = thread::Builder::new().name(format!("load-{thread}"));
            // Those already started end with `halt`, which is dropped here.
            named.spawn(body).map_err(LoadError::Thread)?;
            threads.push(Thread { job, ended: Some(ended) });
        }
        Ok(Self { plan, start, halt, threads })
    }

    /// Ends load before its time. Requests without an answer by then are not counted.
    pub fn halt(&self) {
        self.halt.send_replace(true);
    }

    /// Waits for the end. May be given up and called again.
    pub async fn finish(&mut self) -> Report {
        for thread in &mut self.threads {
            if let Some(ended) = &mut thread.ended {
                // A thread that panicked has ended too; its counts stay.
                let _ended = ended.await;
                thread.ended = None;
            }
        }
        self.report(*self.halt.borrow())
    }

    /// The counts so far.
    pub fn stats(&self) -> Stats {
        let mut all = Stats::default();
        for thread in &self.threads {
            all.merge(&thread.job.stats.lock());
        }
        all
    }

    fn report(&self, halted: bool) -> Report {
        let mut elapsed = self.start.elapsed();
        if elapsed.is_zero() {
            elapsed = Duration::from_nanos(1);
        }
        Report { plan: self.plan.clone(), stats: self.stats(), elapsed, halted }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.halt();
    }
}

/// How many threads load is made with. More than there are cores would only get in each other's way,
/// and a rate needs no more than it takes to keep it.
fn threads(plan: &Plan) -> u32 {
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let cores = u32::try_from(cores).unwrap_or(THREADS_MAX).min(THREADS_MAX);
    let connections = plan.connections.get();
    let enough = match plan.rate {
        Some(rate) => {
            let threads = rate.per_second() * f64::from(connections) / RATE_OF_A_THREAD;
            (1..=cores).find(|count| f64::from(*count) >= threads).unwrap_or(cores)
        }
        None => cores,
    };
    plan.threads.map_or(enough, NonZeroU32::get).min(cores).min(connections)
}

fn job(plan: &Plan, start: Instant) -> Result<Job, LoadError> {
    let no_name = || LoadError::ServerName(plan.target.authority.clone());
    Ok(Job {
        request: Request::of(plan),
        connector: Connector::new(plan).ok_or_else(no_name)?,
        stats: Mutex::default(),
        start,
        end: match plan.end {
            End::Requests(_) => None,
            End::After(duration) => Some(start + duration),
        },
        rate: plan.rate,
        timeout: plan.timeout,
        keep_alive: plan.keep_alive,
        repeatable: plan.method != Method::POST && plan.method != Method::PATCH,
        connections: plan.connections.get(),
    })
}

/// Runs workers until they are done or load is halted.
async fn work(workers: Vec<Worker>, mut halted: watch::Receiver<bool>) {
    let mut tasks = JoinSet::new();
    for worker in workers {
        tasks.spawn(worker.run());
    }
    tokio::select! {
        biased;
        // An error means that the caller is gone.
        _ = halted.wait_for(|halted| *halted) => {}
        () = async { while tasks.join_next().await.is_some() {} } => {}
    }
}
