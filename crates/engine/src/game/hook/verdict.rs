//! The verdict on the measurements of a run.

use crate::Moment;

use super::{HookPhase, Metric, MetricResult, Run};

/// The status of a run after a look, to be written down as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assessment {
    /// Where the run stands.
    pub phase: HookPhase,
    /// The reason of the phase.
    pub message: Option<String>,
    /// When it was first looked at.
    pub started: Moment,
    /// When it ended.
    pub completed: Option<Moment>,
    /// The results of each metric.
    pub results: Vec<MetricResult>,
    /// Metrics that ended just now, to be announced.
    pub ended: Vec<MetricEnd>,
}

/// A metric that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricEnd {
    /// Its name.
    pub metric: String,
    /// How.
    pub phase: HookPhase,
}

/// A phase and the rule that led to it.
type Verdict = (HookPhase, Option<String>);

impl Run {
    /// The verdict on all metrics. A run that ended stays as it is.
    pub fn assess(&self, now: Moment) -> Assessment {
        let mut run = self.clone();
        let mut ended = Vec::new();
        // A failure of one metric ends the others, so those before it are looked at again.
        loop {
            let before = run.results.clone();
            for metric in &self.metrics {
                run.assess_metric(metric, &mut ended);
            }
            if run.results == before {
                break;
            }
        }
        let (phase, message) = run.verdict(now);
        let is_over = phase.is_final();
        Assessment {
            phase,
            message,
            started: run.started.unwrap_or(now),
            completed: is_over.then_some(now),
            results: run.results,
            ended,
        }
    }

    /// The verdict on an invalid run.
    pub fn refused(&self, invalid: &super::Invalid, now: Moment) -> Assessment {
        Assessment {
            phase: HookPhase::Error,
            message: Some(invalid.to_string()),
            started: self.started.unwrap_or(now),
            completed: Some(now),
            results: self.results.clone(),
            ended: Vec::new(),
        }
    }

    fn assess_metric(&mut self, metric: &Metric, ended: &mut Vec<MetricEnd>) {
        let is_terminating = self.is_terminating();
        let Some(result) = self.results.iter_mut().find(|result| result.name == metric.name) else {
            return;
        };
        if result.is_final() {
            return;
        }
        let (phase, rule) = judge(metric, result, is_terminating);
        if result.phase == Some(phase) {
            return;
        }
        let said = result.measurements.last().and_then(|last| last.message.clone());
        result.phase = Some(phase);
        result.message = said.or(rule);
        if phase.is_final() {
            ended.push(MetricEnd { metric: metric.name.clone(), phase });
        }
    }

    fn verdict(&self, now: Moment) -> Verdict {
        if let Some(phase) = self.phase.filter(|phase| phase.is_final()) {
            return (phase, None);
        }
        let is_in_flight = self
            .results
            .iter()
            .any(|result| result.measurements.last().is_some_and(|last| last.finished.is_none()));
        if self.is_overdue(now) {
            return (HookPhase::Error, Some("the run exceeded its deadline".to_owned()));
        }
        let is_complete = self
            .metrics
            .iter()
            .all(|metric| self.result(metric).is_some_and(MetricResult::is_final));
        if is_in_flight || !(is_complete || self.is_terminating()) {
            return (HookPhase::Running, None);
        }
        let ran = self.results.iter().filter_map(|result| Some((result.phase?, result)));
        let worst = ran.max_by_key(|(phase, _)| phase.badness());
        let (phase, deciding) = worst.map_or((HookPhase::Successful, None), |(phase, result)| {
            (if phase.is_final() { phase } else { HookPhase::Successful }, Some(result))
        });
        let message = deciding.filter(|_| phase.is_bad()).map(|result| {
            let why = result.message.as_deref().unwrap_or("no reason was given");
            format!("metric '{}' ended {}: {why}", result.name, phase.as_str())
        });
        match message {
            None if self.terminate => (phase, Some("Run Terminated".to_owned())),
            message => (phase, message),
        }
    }
}

/// The first rule that applies.
fn judge(metric: &Metric, result: &MetricResult, is_terminating: bool) -> Verdict {
    let Some(last) = result.measurements.last() else {
        let phase = if is_terminating { HookPhase::Successful } else { HookPhase::Pending };
        return (phase, None);
    };
    if last.finished.is_none() {
        return (HookPhase::Running, None);
    }
    let more = |count: i64, what: &str, limit: &str, most: i64| {
        Some(format!("{count} {what}, more than {limit} {most} allows"))
    };
    if let Some(limit) = metric.failure_limit().filter(|limit| result.failed > *limit) {
        return (HookPhase::Failed, more(result.failed, "failed", "failureLimit", limit));
    }
    if metric.successful_limit > 0 && result.successful >= metric.successful_limit {
        return (HookPhase::Successful, None);
    }
    let limit = metric.inconclusive_limit;
    if result.inconclusive > limit {
        let rule = more(result.inconclusive, "inconclusive", "inconclusiveLimit", limit);
        return (HookPhase::Inconclusive, rule);
    }
    if let Some(limit) = metric.error_limit().filter(|limit| result.consecutive_error > *limit) {
        let rule =
            more(result.consecutive_error, "errors in a row", "consecutiveErrorLimit", limit);
        return (HookPhase::Error, rule);
    }
    let in_a_row = metric.consecutive_successful_limit;
    if in_a_row.is_some_and(|limit| result.consecutive_successful >= limit) {
        return (HookPhase::Successful, None);
    }
    if metric.effective_count().is_some_and(|count| result.count >= count) {
        // It waited for successes that did not come.
        if metric.waits() {
            let rule = format!("{} measurements, and not enough good ones", result.count);
            return (HookPhase::Inconclusive, Some(rule));
        }
        return (HookPhase::Successful, None);
    }
    (if is_terminating { HookPhase::Successful } else { HookPhase::Running }, None)
}
