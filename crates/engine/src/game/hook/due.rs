//! Metrics to measure now, and the time of the next look.

use crate::Moment;

use super::{HookPhase, Invalid, Metric, MetricResult, Policy, Run};

/// A task for a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// The run is over.
    Over,
    /// The run is invalid: it ends in an error.
    Refuse(Invalid),
    /// Measure these, all at the same time; then record and assess. Assess also if there are none.
    Measure(Vec<Task>),
}

/// One measurement to take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task {
    /// Of this metric, by index.
    Begin(usize),
    /// The one in progress.
    Resume(usize),
    /// The one in progress is to end.
    Stop(usize),
}

/// The state of one metric.
enum Due {
    Now(Task),
    At(Moment),
    Never,
}

impl Run {
    /// The next task. A run without a status counts as started now.
    pub fn next(&self, now: Moment) -> Next {
        if self.phase.is_some_and(HookPhase::is_final) {
            return Next::Over;
        }
        if let Err(invalid) = self.validate() {
            return Next::Refuse(invalid);
        }
        // Nothing is measured after the deadline: the run only ends.
        let tasks =
            self.each_due(now).filter(|_| !self.is_overdue(now)).filter_map(|due| match due {
                Due::Now(task) => Some(task),
                Due::At(_) | Due::Never => None,
            });
        Next::Measure(tasks.collect())
    }

    /// When to look again if nothing changes; `None` if a change must come first.
    pub fn wake(&self, now: Moment) -> Option<Moment> {
        if self.phase.is_some_and(HookPhase::is_final) {
            return None;
        }
        // The first moment at which it took longer.
        let end = |limit| Moment(self.started.unwrap_or(now).after(limit).0.saturating_add(1));
        let deadline = self.deadline.map(end);
        let due = self.each_due(now).filter_map(|due| match due {
            Due::Now(_) => Some(now),
            Due::At(at) => Some(at),
            Due::Never => None,
        });
        due.chain(deadline).min()
    }

    fn each_due(&self, now: Moment) -> impl Iterator<Item = Due> {
        let is_open = |index: usize| {
            let before = self.metrics.iter().take(index);
            self.policy == Policy::Parallel
                || before
                    .into_iter()
                    .all(|metric| self.result(metric).is_some_and(MetricResult::is_final))
        };
        self.metrics.iter().enumerate().map(move |(index, metric)| {
            if is_open(index) { self.due(index, metric, now) } else { Due::Never }
        })
    }

    fn due(&self, index: usize, metric: &Metric, now: Moment) -> Due {
        let result = self.result(metric);
        if result.is_some_and(MetricResult::is_final) {
            return Due::Never;
        }
        let last = result.and_then(|result| result.measurements.last());
        if let Some(last) = last.filter(|last| last.finished.is_none()) {
            return match last.resume {
                _ if self.is_terminating() => Due::Now(Task::Stop(index)),
                Some(at) if at > now => Due::At(at),
                Some(_) | None => Due::Now(Task::Resume(index)),
            };
        }
        if self.is_terminating() {
            return Due::Never;
        }
        let Some((result, finished)) =
            result.and_then(|result| Some((result, last.and_then(|last| last.finished)?)))
        else {
            let start = self.started.unwrap_or(now);
            let first = start.after(metric.initial_delay.unwrap_or_default());
            return if first > now { Due::At(first) } else { Due::Now(Task::Begin(index)) };
        };
        if metric.effective_count().is_some_and(|count| result.count >= count) {
            return Due::Never;
        }
        let at = finished.after(metric.gap());
        // Strictly later, and times have whole milliseconds.
        if now > at {
            Due::Now(Task::Begin(index))
        } else {
            Due::At(Moment(at.0.saturating_add(1)))
        }
    }
}
