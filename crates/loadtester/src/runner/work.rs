//! Carries out work of every kind, and returns its outcome.

use std::time::Duration;

use tokio::sync::watch;

use crate::{
    client::Client,
    load::{Output, Running, Stats},
    metrics::Metrics,
    process,
    task::{Task, Work},
};

/// The outcome of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    pub output: String,
    /// One line of it, for the log.
    pub summary: String,
    /// Why it failed; none if it did not.
    pub reason: Option<String>,
    /// It was ended because no caller waited for it. A caller that came too late to prevent that starts it anew.
    pub(super) abandoned: bool,
}

/// How often counts of running load are made public. As often as Prometheus scrapes, or nearly.
const COUNT_EVERY: Duration = Duration::from_secs(5);

/// Does the work of a task, until it is done or `cancelled` turns true.
pub(super) async fn run(
    task: &Task,
    client: &Client,
    metrics: &Metrics,
    mut cancelled: watch::Receiver<bool>,
) -> Outcome {
    let cancel = async {
        // The sender outlives the work; were it gone, the work would have to end as well.
        drop(cancelled.wait_for(|cancelled| *cancelled).await);
    };
    match &task.work {
        Work::Load(plan) => {
            let mut running = match Running::start((**plan).clone()) {
                Ok(running) => running,
                Err(error) => return Outcome::failed(error.to_string()),
            };
            load(&mut running, plan.output, metrics, cancel).await
        }
        Work::Program { program, arguments } => {
            match process::run(program, arguments, cancel).await {
                Ok(ended) => {
                    let reason = (!ended.status.success()).then(|| process::reason(ended.status));
                    let output = ended.output.text();
                    Outcome { output, reason, ..Outcome::default() }
                }
                Err(error) => Outcome::failed(format!("{program} cannot be started: {error}")),
            }
        }
        Work::NGrinder(test) => Outcome::of(&test.run(client, cancel).await),
        Work::Concord(process) => Outcome::of(&process.run(client, cancel).await),
    }
}

async fn load(
    running: &mut Running,
    output: Output,
    metrics: &Metrics,
    cancel: impl Future<Output = ()>,
) -> Outcome {
    let mut counted = Stats::default();
    let mut cancel = std::pin::pin!(cancel);
    let mut is_cancelled = false;
    let report = loop {
        tokio::select! {
            biased;
            () = cancel.as_mut(), if !is_cancelled => {
                is_cancelled = true;
                running.halt();
            }
            report = running.finish() => break report,
            () = tokio::time::sleep(COUNT_EVERY) => {
                let stats = running.stats();
                metrics.count_load(&counted, &stats);
                counted = stats;
            }
        }
    };
    metrics.count_load(&counted, &report.stats);
    let reason = (!report.is_answered()).then(|| "no request was answered".to_owned());
    let text = match output {
        Output::Text => report.text(),
        Output::Json => format!("{}\n", report.json()),
    };
    Outcome { output: text, summary: report.line(), reason, ..Outcome::default() }
}

// === impl Outcome ===

impl Outcome {
    pub(super) fn failed(reason: impl Into<String>) -> Self {
        Self { reason: Some(reason.into()), ..Self::default() }
    }

    fn of<E: std::error::Error>(ended: &Result<(), E>) -> Self {
        let reason = ended.as_ref().err().map(ToString::to_string);
        Self { reason, ..Self::default() }
    }

    pub fn is_ok(&self) -> bool {
        self.reason.is_none()
    }
}
