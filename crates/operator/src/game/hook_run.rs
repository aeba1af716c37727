//! Reconciles one hook run: measures the metrics that are due, and writes the result.
//!
//! Metrics are measured without a permit: a server that does not answer must not hold up others. A
//! measurement whose result could not be written is kept, since a hook may act each time it is called.

use std::{sync::Arc, time::Duration};

use futures::future::join_all;
use regex::RegexBuilder;
use serde_json::Value;
use tidegate_engine::{
    Moment, Tone,
    game::{
        HookPhase,
        hook::{Assessment, Measurement, MetricResult, Next as Due, Task},
    },
};
use tidegate_providers::{
    consent::Consent,
    game::{
        HOOK_RUN,
        condition::Matcher,
        measure::{self, Question, ServerQuestion, Verdict},
        names,
        run::{self, Reading},
    },
    object::controller_of,
};
use tracing::{Span, debug, info_span};

use super::{object_probe, workload_ref::follower};
use crate::{
    cluster::{
        cache::Key,
        write::{Place, WriteError},
    },
    context::Context,
    events,
    once::Once,
    outgoing::{outgoing, sign_call},
    reconcile::{Next, Pass, Reconciler},
    secrets::{self, SecretData},
    telemetry::HookRun,
};

/// No answer that is judged is longer.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;
/// Memory that a regular expression of a condition may take.
const PATTERN_BYTES_MAX: usize = 1024 * 1024;
/// Annotation of a run: seconds after its end at which it is deleted.
const TTL: &str = "tidegate.dev/ttl-seconds-after-finished";
/// How long the API server may take to read or patch an object, discovery of its kind included.
const PROBE_MAX: Duration = Duration::from_secs(10);
/// Measurements of one wake-up; a run wakes up for each.
const ROUNDS_MAX: usize = 8;

/// The state of one hook run between passes. It can be lost, at the price of measuring once more.
pub(super) struct HookRunReconciler {
    cx: Arc<Context>,
    key: Key,
    uid: String,
    /// Name of the workload that it belongs to.
    owner: String,
    /// Measurements that are not written yet, with the results before them.
    unwritten: Option<(Vec<MetricResult>, Vec<Taken>)>,
    /// Rejected writes that were recorded.
    rejections: Once,
}

/// A measurement of a metric.
#[derive(Clone)]
struct Taken {
    metric: String,
    measurement: Measurement,
}

/// Regular expressions whose time grows with the text alone.
struct Regexes;

impl Matcher for Regexes {
    fn is_match(&self, pattern: &str, text: &str) -> Result<bool, String> {
        let built = RegexBuilder::new(pattern).size_limit(PATTERN_BYTES_MAX).build();
        built.map(|regex| regex.is_match(text)).map_err(|_| "no regular expression".to_owned())
    }
}

// === impl HookRunReconciler ===

impl HookRunReconciler {
    pub(super) fn new(cx: Arc<Context>, key: Key, object: &Value) -> Self {
        let owner = controller_of(object).map_or("", |(_, name)| name).to_owned();
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        Self { cx, key, uid, owner, unwritten: None, rejections: Once::default() }
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

    /// Measures what is due, all at the same time.
    async fn take(&self, reading: &Reading, tasks: &[Task]) -> Vec<Taken> {
        let Reading { metrics, arguments, .. } = reading;
        let started = run::now_in_seconds(self.now());
        let (series, clock) = (&self.cx.telemetry.game, &self.cx.clock);
        let start = clock.monotonic();
        let taken = tasks.iter().filter_map(|task| match task {
            Task::Begin(index) | Task::Resume(index) | Task::Stop(index) => metrics.get(*index),
        });
        let verdicts = join_all(taken.map(async |metric| {
            let verdict = match measure::question(metric, arguments) {
                Ok(question) => self.ask(metric, question).await,
                Err(why) => Verdict::error(why),
            };
            let (phase, took) = (verdict.phase.as_str(), clock.monotonic().saturating_sub(start));
            series.observe_measurement(self.in_telemetry(), &metric.name, phase, took);
            (metric.name.clone(), verdict)
        }))
        .await;
        if !verdicts.is_empty() {
            let is_ok = verdicts.iter().all(|(_, verdict)| verdict.phase != HookPhase::Error);
            series.observe_run(self.in_telemetry(), is_ok, clock.monotonic().saturating_sub(start));
        }
        let finished = run::now_in_seconds(self.now());
        debug!(run = %self.key, tasks = tasks.len(), "Measured");
        let measurement = |(metric, verdict): (String, Verdict)| Taken {
            metric,
            measurement: Measurement {
                phase: verdict.phase,
                message: verdict.message,
                started,
                finished: Some(finished),
                resume: None,
                value: verdict.value,
            },
        };
        verdicts.into_iter().map(measurement).collect()
    }

    async fn ask(
        &self,
        metric: &tidegate_api::game::hook::HookMetric,
        question: Question,
    ) -> Verdict {
        let mut question = match question {
            Question::Server(question) => question,
            Question::Object(question) => return self.ask_cluster(&question).await,
        };
        let authorities = match self.authorize(&mut question).await {
            Ok(authorities) => authorities,
            Err(why) => return Verdict::error(why),
        };
        let ServerQuestion { request, timeout, verify_tls, is_web, secret: _ } = *question;
        let mut sent = match outgoing(request, &self.key) {
            Ok(sent) => sent,
            Err(error) => return Verdict::error(error.to_string()),
        };
        sent.timeout = timeout;
        sent.max_bytes = ANSWER_BYTES_MAX;
        sent.verify_tls = verify_tls;
        sent.authorities = authorities;
        sent.permit = self.cx.http.permit(&self.key.namespace).await;
        if is_web && let Some(file) = &self.cx.options.hook_secret_file {
            sign_call(&mut sent, file, self.cx.clock.now());
        }
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

    /// Adds the credentials of the metric's Secret, and returns the authorities that it names. A user who may
    /// create a run can have the operator send it anywhere, so the Secret must be labelled for hooks.
    async fn authorize(&self, question: &mut ServerQuestion) -> Result<Option<Vec<u8>>, String> {
        let Some(name) = question.secret.clone() else { return Ok(None) };
        let namespace = &self.key.namespace;
        let secret = secrets::read(&self.cx.cluster, namespace, &name).await?;
        if secret["metadata"]["labels"][names::FOR_HOOKS] != "true" {
            return Err(format!(
                "Secret {namespace}/{name} is not for hooks: it has no label {}: \"true\"",
                names::FOR_HOOKS
            ));
        }
        let host = question.request.url.host().unwrap_or_default();
        let consent = Consent::of(namespace, &name, &secret);
        consent.check_host(host).map_err(|error| error.to_string())?;
        question.authorize(&SecretData::of(&secret))
    }

    async fn ask_cluster(&self, question: &measure::ObjectQuestion) -> Verdict {
        // A run must not let its author see more than its own namespace.
        if question.namespace != *self.key.namespace {
            return Verdict::error("argument PodNamespace must be the namespace of the run");
        }
        // As for any other server: API servers that hang are asked by a bounded number of runs.
        let _permit = self.cx.http.permit(&self.key.namespace).await;
        let probe = object_probe::ask(&self.cx.cluster, question);
        let answer = tokio::select! {
            biased;
            answer = probe => answer,
            () = self.cx.clock.sleep(PROBE_MAX) => {
                Err(format!("the API server did not answer within {}s", PROBE_MAX.as_secs()))
            }
        };
        match answer {
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
        if object["status"]["startedAt"].is_null() && assessment.completed.is_none() {
            self.warn_endless(object).await;
        }
        for end in &assessment.ended {
            let what = format!("metric '{}'", end.metric);
            self.record_end(object, end.phase, &what).await;
        }
        if assessment.completed.is_some() {
            self.record_end(object, assessment.phase, "hook").await;
        }
        Ok(written)
    }

    /// Warns of metrics that never end, when a run begins.
    async fn warn_endless(&self, object: &Value) {
        let Ok(reading) = run::measured(object) else { return };
        for metric in reading.run.endless() {
            let text = format!(
                "Metric '{metric}' has an interval but neither count nor successfulLimit: it is measured until it fails or the run is terminated."
            );
            self.record(object, "MetricDoubtful", Tone::Warning, &text).await;
        }
    }

    async fn record_end(&self, object: &Value, phase: HookPhase, what: &str) {
        let (reason, is_bad, text) = run::completion_event(phase, what);
        let tone = if is_bad { Tone::Warning } else { Tone::Normal };
        self.record(object, reason, tone, &text).await;
    }

    async fn record(&self, object: &Value, reason: &str, tone: Tone, message: &str) {
        let report = events::Report { kind: HOOK_RUN, object, reason, tone, message };
        events::record(&self.cx, &report).await;
    }

    /// Deletes a run without an owner that is over, after the time that its annotation says.
    async fn expire(&self, object: &Value, pass: &mut Pass<'_>) -> Result<Next, WriteError> {
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
            return Ok(Next::at(&*self.cx.clock, end));
        }
        pass.take_permit().await?;
        self.cx.cluster.delete(self.place(""), &self.uid, None).await?;
        Ok(Next::Gone)
    }
}

impl HookRunReconciler {
    /// The assessment of a run in progress; `None` if the status has it already.
    async fn assess(&mut self, reading: Reading, tasks: &[Task]) -> Option<Assessment> {
        let before = reading.run.clone();
        let known = self.unwritten.take().filter(|(after, _)| *after == before.results);
        let taken = match known {
            Some((_, taken)) => taken,
            None => self.take(&reading, tasks).await,
        };
        let now = run::now_in_seconds(self.now());
        let finished = taken.iter().filter_map(|taken| taken.measurement.finished).max();
        let started = taken.iter().map(|taken| taken.measurement.started).min();
        let mut next = reading.run;
        for Taken { metric, measurement } in &taken {
            let known = next.results.iter().position(|result| result.name == *metric);
            let at = known.unwrap_or_else(|| {
                next.results.push(MetricResult::new(metric));
                next.results.len() - 1
            });
            if let Some(result) = next.results.get_mut(at) {
                result.record(measurement.clone());
            }
        }
        let is_first = before.started.is_none();
        next.started.get_or_insert(started.unwrap_or(now));
        let assessment = next.assess(finished.unwrap_or(now));
        // Nothing was due and nothing changed: nothing is written.
        if taken.is_empty() && !is_first && !differs(&before, &assessment) {
            return None;
        }
        if !taken.is_empty() {
            self.unwritten = Some((before.results, taken));
        }
        Some(assessment)
    }

    /// Records once that the result of a measurement cannot be written.
    async fn report_rejection(&mut self, object: &Value, error: &WriteError) {
        let why = error.to_string();
        if matches!(error, WriteError::Refused { .. })
            && self.rejections.first_time(&why, self.now())
        {
            self.record(object, "FailedUpdate", Tone::Warning, &why).await;
        }
    }
}

/// A run as it is now, and what is to be done about it.
enum Work {
    Write(Assessment),
    Rest(Next),
    Expire,
    Stopped,
}

impl HookRunReconciler {
    /// Measures what is due.
    async fn work(&mut self, object: &Value, pass: &mut Pass<'_>) -> Work {
        if run::is_over(object) {
            return Work::Expire;
        }
        let now = self.now();
        let reading = match run::measured(object) {
            Ok(reading) => reading,
            Err(why) => return Work::Write(unreadable(why, now)),
        };
        match reading.run.next(now) {
            Due::Over => Work::Expire,
            Due::Refuse(invalid) => Work::Write(reading.run.refused(&invalid, now)),
            Due::Measure(tasks) => {
                // A problem does not stop a run that has started.
                let problem = reading.problem().filter(|_| reading.run.started.is_none());
                if let Some(why) = problem {
                    return Work::Write(unreadable(why, now));
                }
                let wake = reading.run.wake(now);
                // A run that is deleted is not measured to the end.
                match pass.unless_stopped(self.assess(reading, &tasks)).await {
                    None => Work::Stopped,
                    Some(Some(assessment)) => Work::Write(assessment),
                    Some(None) => Work::Rest(match wake {
                        Some(at) => Next::at(&*self.cx.clock, at),
                        None => Next::OnChange,
                    }),
                }
            }
        }
    }
}

impl Reconciler for HookRunReconciler {
    async fn reconcile(&mut self, pass: &mut Pass<'_>) -> Result<Next, WriteError> {
        for _ in 0..ROUNDS_MAX {
            if pass.is_stopped() || !self.cx.cluster.leads() {
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
            let assessment = match self.work(&object, pass).await {
                Work::Write(assessment) => assessment,
                Work::Rest(next) => return Ok(next),
                Work::Expire => return self.expire(&object, pass).await,
                Work::Stopped => return Ok(Next::OnChange),
            };
            pass.take_permit().await?;
            match self.write(&object, &assessment).await {
                Ok(_) => {
                    self.unwritten = None;
                    self.rejections.clear();
                }
                Err(error) if error.is_stale() => {
                    self.cx.cluster.refresh(self.place("")).await?;
                }
                Err(error) => {
                    self.report_rejection(&object, &error).await;
                    self.cx.cluster.refresh(self.place("")).await?;
                    return Err(error);
                }
            }
        }
        // The next measurement is due at once, but other objects come first.
        Ok(Next::at(&*self.cx.clock, self.now()))
    }

    fn span(&self) -> Span {
        info_span!("reconcile", workload = %follower(HOOK_RUN, &self.key))
    }

    fn observe_pass(&mut self, is_ok: bool, took: Duration) {
        self.cx.telemetry.game.observe_run_look(self.in_telemetry(), is_ok, took);
    }
}

/// Whether an assessment differs from the status.
fn differs(run: &tidegate_engine::game::hook::Run, assessment: &Assessment) -> bool {
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

#[cfg(test)]
mod tests;
