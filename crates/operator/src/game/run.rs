//! The task of one run of a hook: it measures what is due, and writes down what that comes to.

use std::{sync::Arc, time::Duration};

use futures::future::join_all;
use regex::RegexBuilder;
use serde_json::Value;
use tidegate_engine::{
    Moment, Tone,
    game::{
        HookPhase,
        condition::Matcher,
        hook::{Assessment, Measurement, MetricResult, Next as Due, Task},
    },
};
use tidegate_providers::{
    game::{
        HOOK_RUN,
        measure::{self, Question, Verdict},
        run::{self, Reading},
    },
    object::controller_of,
};
use tokio::sync::watch;
use tracing::debug;

use super::{
    life::{Next, Subject},
    tell::tell,
};
use crate::{
    canary::{Context, outgoing},
    cluster::{
        cache::Key,
        write::{Place, WriteError},
    },
    telemetry::HookRun,
};

/// A Prometheus gets this long.
const QUERY_TIMEOUT: Duration = Duration::from_secs(30);
/// No answer that is judged is longer.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;
/// Memory that a regular expression of a condition may take.
const PATTERN_BYTES_MAX: usize = 1024 * 1024;
/// Annotation of a run: seconds after its end at which it is deleted.
const TTL: &str = "tidegate.dev/ttl-seconds-after-finished";
/// Measurements of one wake-up; a run wakes up for each.
const ROUNDS_MAX: usize = 8;

/// What a task keeps in memory: nothing but who it is.
pub(super) struct Run {
    cx: Arc<Context>,
    key: Key,
    uid: String,
    /// Whom it is for.
    owner: String,
}

/// Regular expressions whose time grows with the text alone.
struct Regexes;

impl Matcher for Regexes {
    fn is_match(&self, pattern: &str, text: &str) -> Result<bool, String> {
        let built = RegexBuilder::new(pattern).size_limit(PATTERN_BYTES_MAX).build();
        built.map(|regex| regex.is_match(text)).map_err(|_| "no regular expression".to_owned())
    }
}

// === impl Run ===

impl Run {
    pub(super) fn new(cx: Arc<Context>, key: Key, object: &Value) -> Self {
        let owner = controller_of(object).map_or("", |(_, name)| name).to_owned();
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        Self { cx, key, uid, owner }
    }

    fn in_telemetry(&self) -> HookRun<'_> {
        let Key { namespace, name } = &self.key;
        HookRun { namespace, owner: &self.owner, name, uid: &self.uid }
    }

    fn now(&self) -> Moment {
        Moment(self.cx.clock.now().as_millisecond())
    }

    fn place(&self, subresource: &'static str) -> Place<'_> {
        let Key { namespace, name } = &self.key;
        Place { kind: HOOK_RUN, namespace, name, subresource }
    }

    /// One pass over a run that is not over.
    async fn measure(&self, reading: Reading, tasks: &[Task]) -> Assessment {
        let Reading { mut run, metrics, arguments } = reading;
        let begun = run::now_in_seconds(self.now());
        let (series, clock) = (&self.cx.telemetry.game, &self.cx.clock);
        let start = clock.monotonic();
        let taken = tasks.iter().filter_map(|task| match task {
            Task::Begin(index) | Task::Resume(index) | Task::Stop(index) => {
                Some((*index, metrics.get(*index)?))
            }
        });
        let verdicts = join_all(taken.map(async |(index, metric)| {
            let verdict = match measure::question(metric, &arguments) {
                Ok(question) => self.ask(metric, question).await,
                Err(why) => Verdict::error(why),
            };
            let (phase, took) = (verdict.phase.as_str(), clock.monotonic().saturating_sub(start));
            series.observe_measurement(self.in_telemetry(), &metric.name, phase, took);
            (index, verdict)
        }))
        .await;
        if !verdicts.is_empty() {
            let is_ok = verdicts.iter().all(|(_, verdict)| verdict.phase != HookPhase::Error);
            series.observe_run(self.in_telemetry(), is_ok, clock.monotonic().saturating_sub(start));
        }
        let finished = run::now_in_seconds(self.now());
        for (index, verdict) in verdicts {
            let Some(metric) = run.metrics.get(index) else { continue };
            let name = metric.name.clone();
            let measurement = Measurement {
                phase: verdict.phase,
                message: verdict.message,
                started: begun,
                finished: Some(finished),
                resume: None,
                value: verdict.value,
            };
            let known = run.results.iter().position(|result| result.name == name);
            let at = known.unwrap_or_else(|| {
                run.results.push(MetricResult::new(&name));
                run.results.len() - 1
            });
            if let Some(result) = run.results.get_mut(at) {
                result.record(measurement);
            }
        }
        debug!(run = %self.key, tasks = tasks.len(), "Measured");
        run.started.get_or_insert(begun);
        run.assess(finished)
    }

    async fn ask(
        &self,
        metric: &tidegate_api::game::hook::HookMetric,
        question: Question,
    ) -> Verdict {
        let (request, timeout, is_web) = match question {
            Question::Web { request, timeout } => (request, timeout, true),
            Question::Prometheus { request } => (request, QUERY_TIMEOUT, false),
            Question::Object(question) => return self.ask_cluster(&question).await,
        };
        let mut sent = match outgoing(request, &self.key) {
            Ok(sent) => sent,
            Err(error) => return Verdict::error(error.to_string()),
        };
        sent.timeout = timeout;
        sent.max_bytes = ANSWER_BYTES_MAX;
        match self.cx.http.send(sent).await {
            Err(error) => Verdict::error(error.to_string()),
            Ok(answer) if answer.truncated => Verdict::error("the answer is too long"),
            Ok(answer) => {
                let (status, body) = (answer.status.as_u16(), &answer.body);
                if is_web {
                    measure::judge_web(metric, status, body, &Regexes)
                } else {
                    measure::judge_prometheus(metric, status, body, &Regexes)
                }
            }
        }
    }

    async fn ask_cluster(&self, question: &measure::ObjectQuestion) -> Verdict {
        // A run may look at its own namespace only: whoever may make one may not see more by it.
        if question.namespace != *self.key.namespace {
            return Verdict::error("argument PodNamespace must be the namespace of the run");
        }
        match super::kubernetes::ask(&self.cx.cluster, question).await {
            Ok(Some(object)) if question.sets => {
                let verdict = measure::judge_object(question, Some(&object));
                Verdict { phase: HookPhase::Successful, message: None, ..verdict }
            }
            Ok(object) => measure::judge_object(question, object.as_ref()),
            Err(why) => Verdict::error(why),
        }
    }

    async fn write(&self, object: &Value, assessment: &Assessment) -> Result<Value, WriteError> {
        let patch = run::patch(object, assessment);
        let written = self.cx.cluster.merge(self.place("status"), &patch).await?;
        let age = self.now().since(assessment.started);
        self.cx.telemetry.game.set_survived(self.in_telemetry(), assessment.phase.as_str(), age);
        for end in &assessment.ended {
            let what = format!("metric '{}'", end.metric);
            self.tell(object, end.phase, &what).await;
        }
        if assessment.completed.is_some() {
            self.tell(object, assessment.phase, "hook").await;
        }
        Ok(written)
    }

    async fn tell(&self, object: &Value, phase: HookPhase, what: &str) {
        let (reason, is_bad, text) = run::told(phase, what);
        let tone = if is_bad { Tone::Warning } else { Tone::Normal };
        tell(&self.cx, HOOK_RUN, object, (reason, tone), &text).await;
    }

    /// A run of nobody's that is over goes when it says so itself.
    async fn expire(&self, object: &Value) -> Result<Next, WriteError> {
        let metadata = &object["metadata"];
        let owners = metadata["ownerReferences"].as_array().map_or(0, Vec::len);
        let ttl = metadata["annotations"][TTL].as_str().and_then(|text| text.parse().ok());
        let completed = object["status"]["completedAt"].as_str();
        let completed = completed.and_then(|text| text.parse::<jiff::Timestamp>().ok());
        let (0, Some(ttl), Some(completed)) = (owners, ttl, completed) else {
            return Ok(Next::OnChange);
        };
        let end = Moment(completed.as_millisecond()).after(Duration::from_secs(ttl));
        if self.now() < end {
            return Ok(Next::At(end));
        }
        self.cx.cluster.end(self.place(""), &self.uid, None).await?;
        Ok(Next::Gone)
    }
}

impl Subject for Run {
    async fn look(&mut self, stop: &watch::Receiver<bool>) -> Result<Next, WriteError> {
        for _ in 0..ROUNDS_MAX {
            if *stop.borrow() || !self.cx.cluster.leads() {
                return Ok(Next::OnChange);
            }
            let Some(object) = self.cx.cluster.cache.get(HOOK_RUN, &self.key) else {
                return Ok(Next::Gone);
            };
            if object["metadata"]["uid"] != self.uid.as_str() {
                return Ok(Next::Gone);
            }
            if object["metadata"]["deletionTimestamp"].is_string() {
                return Ok(Next::OnChange);
            }
            let now = self.now();
            let assessment = match run::measured(&object) {
                Err(_) if object["status"]["phase"] == HookPhase::Error.as_str() => {
                    return Ok(Next::OnChange);
                }
                Err(why) => unreadable(why, now),
                Ok(reading) => match reading.run.next(now) {
                    Due::Over => return self.expire(&object).await,
                    Due::Refuse(invalid) => reading.run.refused(&invalid, now),
                    Due::Measure(tasks) => {
                        let run = reading.run.clone();
                        let assessment = self.measure(reading, &tasks).await;
                        let is_first = run.started.is_none();
                        // Nothing was due and nothing follows from that: nothing is written.
                        if tasks.is_empty() && !is_first && !is_news(&run, &assessment) {
                            return Ok(run.wake(now).map_or(Next::OnChange, Next::At));
                        }
                        assessment
                    }
                },
            };
            match self.write(&object, &assessment).await {
                Ok(_) => {}
                Err(error) if error.is_stale() => {
                    // Measured for nothing, unless the run is as it was: what is recorded is not repeated.
                    self.cx.cluster.refresh(self.place("")).await?;
                }
                Err(error) => {
                    self.cx.cluster.refresh(self.place("")).await?;
                    return Err(error);
                }
            }
        }
        // Whatever is due is due at once again: it takes its place behind others.
        Ok(Next::At(self.now()))
    }

    fn looked(&self, is_ok: bool, took: Duration) {
        self.cx.telemetry.game.observe_run_look(self.in_telemetry(), is_ok, took);
    }
}

/// Whether an assessment says something that is not written down.
fn is_news(run: &tidegate_engine::game::hook::Run, assessment: &Assessment) -> bool {
    run.phase != Some(assessment.phase) || run.results != assessment.results
}

fn unreadable(why: String, now: Moment) -> Assessment {
    Assessment {
        phase: HookPhase::Error,
        message: Some(why),
        started: now,
        completed: Some(now),
        results: Vec::new(),
        ended: Vec::new(),
    }
}
