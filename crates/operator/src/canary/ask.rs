//! Asking: hooks and metrics.
//!
//! Everything is bounded: a call by its timeout and the body it may send, a hook by its retries, all
//! queries of a check by running side by side. What cannot be had is a failed check, never a pass.

use std::{collections::BTreeMap, time::Duration};

use futures::{StreamExt, stream};
use serde_json::Value;
use tidegate_api::{
    MetricTemplate,
    canary::{
        CrossNamespace,
        analysis::{AnalysisMetric, ObjectRef, Webhook, WebhookType},
    },
    duration::GoDuration,
    metric_template::MetricTemplateSpec,
};
use tidegate_engine::{Answers, Checks, Gate, GateKind, Measurement, Question, Refusal};
use tidegate_providers::{
    hook::{self, CallIdentity, Subject, retry},
    metrics::{
        Builtin, Check, Inquiry, Observer, QueryError, Question as MetricQuestion, Sample, Source,
        limits::judge,
        prometheus::{self, Credentials, PROBE},
        sources, success_rate_without_value,
    },
    request::Request,
    template::{self, Model},
    workload::SECRET,
};
use tracing::{debug, trace};

use super::{
    Context,
    inquire::{SecretData, ambient},
    observe::Seen,
    task::Task,
};
use crate::{
    cluster::{
        METRIC_TEMPLATE,
        cache::Key,
        write::{Place, WriteError},
    },
    http::{HttpError, Outgoing, SafeUrl, UrlError},
    telemetry::Outcome,
};

/// One deadline for everything a query does.
const QUERY_TIMEOUT: Duration = Duration::from_secs(10);
/// Answers of metric servers; one number needs a few hundred bytes.
const QUERY_BYTES_MAX: usize = 1024 * 1024;
/// Queries of one check at the same time.
const QUERIES_AT_ONCE: usize = 4;
/// More attempts than this nobody means.
const RETRIES_MAX: i64 = 10;

/// What came back for a question.
pub(super) enum Answer {
    Gate(Gate),
    Rollback(Option<String>),
    Checks(Checks),
    Backends(Result<(), String>),
}

/// A hook call, ready to be made.
pub(super) struct Call {
    pub(super) name: String,
    kind: WebhookType,
    outgoing: Outgoing,
    retries: u32,
    /// By the steady clock, when nobody waits for it any more.
    until: Option<Duration>,
}

/// Puts an answer where the engine looks for it.
pub(super) fn note(answers: &mut Answers, question: Question, answer: Answer) {
    match (question, answer) {
        (Question::Gate(kind), Answer::Gate(gate)) => {
            let place = match kind {
                GateKind::ConfirmRollout => &mut answers.confirm_rollout,
                GateKind::PreRollout => &mut answers.pre_rollout,
                GateKind::ConfirmTrafficIncrease => &mut answers.confirm_traffic_increase,
                GateKind::ConfirmPromotion => &mut answers.confirm_promotion,
                GateKind::PostRollout | GateKind::Rollback => &mut answers.post_rollout,
            };
            *place = Some(gate);
        }
        (_, Answer::Rollback(hook)) => answers.rollback = Some(hook),
        (_, Answer::Checks(checks)) => answers.checks = Some(checks),
        (_, Answer::Backends(outcome)) => answers.backends = Some(outcome),
        (Question::Backends | Question::Checks, Answer::Gate(_)) => {}
    }
}

/// Finds the answer to a question.
pub(super) async fn answer(task: &Task, seen: &Seen, question: Question) -> Answer {
    match question {
        Question::Backends => Answer::Backends(task.backends(seen).await),
        Question::Checks => Answer::Checks(task.analyse(seen).await),
        Question::Gate(GateKind::Rollback) => Answer::Rollback(task.rollback(seen).await),
        Question::Gate(kind) => Answer::Gate(task.gate(seen, kind).await),
    }
}

impl Task {
    /// Hooks of a kind in order, until one says no. After the end all of them are told.
    async fn gate(&self, seen: &Seen, kind: GateKind) -> Gate {
        let mut gate = Gate::default();
        let tells_all = kind == GateKind::PostRollout;
        let until = self.patience(seen, webhook_type(kind));
        for hook in hooks(seen, webhook_type(kind)) {
            match self.ask_hook(seen, hook, until).await {
                Ok(()) => gate.passed.push(hook.name.clone()),
                Err(why) => {
                    let muted = hook.mute_alert == Some(true);
                    let refusal = Refusal { hook: hook.name.clone(), why, muted };
                    gate.refused.push(refusal);
                    if !tells_all {
                        break;
                    }
                }
            }
        }
        gate
    }

    /// The first hook that calls the rollout back.
    async fn rollback(&self, seen: &Seen) -> Option<String> {
        let until = self.patience(seen, WebhookType::Rollback);
        for hook in hooks(seen, WebhookType::Rollback) {
            match self.ask_hook(seen, hook, until).await {
                Ok(()) => return Some(hook.name.clone()),
                Err(why) => debug!(hook = hook.name, why, "Not called back"),
            }
        }
        None
    }

    /// When hooks of a kind must have answered: after an interval, or after all their timeouts if those
    /// take longer. Retries do not hold a rollout beyond that, whatever a server asks for.
    fn patience(&self, seen: &Seen, kind: WebhookType) -> Duration {
        let timeout = |hook: &Webhook| hook.timeout().ok().and_then(GoDuration::to_std);
        let timeouts: Duration = hooks(seen, kind).filter_map(timeout).sum();
        self.cx.clock.monotonic() + seen.observed.plan.interval.max(timeouts)
    }

    async fn ask_hook(&self, seen: &Seen, hook: &Webhook, until: Duration) -> Result<(), String> {
        let checksum = seen.checksum();
        let subject = Subject {
            name: &self.key.name,
            namespace: &self.key.namespace,
            phase: hook::phase_sent(hook.hook_type(), seen.phase()),
            checksum: &checksum,
        };
        let body = hook::payload(&subject, &hook.metadata);
        let step = seen.step();
        let identity = self.identity(seen, hook, &step);
        let timeout = hook.timeout().map_err(|error| error.to_string())?;
        let mut call =
            Call::of(hook, body, &identity, &self.key).ok_or("its address cannot be used")?;
        call.outgoing.timeout = timeout.to_std().unwrap_or_default();
        call.until = Some(until);
        self::call(&self.cx, &call).await
    }

    /// Rollout hooks, then metrics; the first failure ends it.
    async fn analyse(&self, seen: &Seen) -> Checks {
        let until = self.patience(seen, WebhookType::Rollout);
        for hook in hooks(seen, WebhookType::Rollout) {
            if let Err(why) = self.ask_hook(seen, hook, until).await {
                let failure = Some(format!("external check {} failed, {why}", hook.name));
                return Checks { measured: Vec::new(), failure };
            }
        }
        let metrics = &seen.canary.spec.analysis.metrics;
        // As Flagger: built-in and inline queries of all metrics come before templates.
        let is_template = |source: &Source<'_>| matches!(source, Source::Template(_));
        let pass = |templates: bool| {
            metrics.iter().flat_map(move |metric| {
                sources(metric)
                    .into_iter()
                    .filter(move |source| is_template(source) == templates)
                    .map(move |source| (metric, source))
            })
        };
        let queries: Vec<_> = pass(false).chain(pass(true)).collect();
        if let Some(metric) = metrics.iter().find(|metric| sources(metric).is_empty()) {
            let name = &metric.name;
            let why = format!(
                "metric {name} has no query: it is not built in, and neither templateRef nor query is set"
            );
            return Checks { measured: Vec::new(), failure: Some(why) };
        }
        let mut asked = Vec::new();
        for (metric, source) in queries {
            asked.push(self.judged(seen, metric, source));
        }
        let answers: Vec<_> = stream::iter(asked).buffered(QUERIES_AT_ONCE).collect().await;
        self.verdict(seen, answers)
    }

    async fn judged<'a>(
        &self,
        seen: &Seen,
        metric: &'a AnalysisMetric,
        source: Source<'a>,
    ) -> (&'a AnalysisMetric, Result<Check, String>) {
        let measure = source.measure();
        let sample = self.sample(seen, metric, source).await;
        (metric, sample.map(|sample| judge(metric, measure, sample)))
    }

    fn verdict(
        &self,
        seen: &Seen,
        answers: Vec<(&AnalysisMetric, Result<Check, String>)>,
    ) -> Checks {
        let mut checks = Checks::default();
        for (metric, answer) in answers {
            match answer {
                Ok(check) => {
                    self.cx.telemetry.set_metric(
                        &seen.gauge,
                        &metric.name,
                        exported(metric, &check),
                    );
                    let Check { name, value, min, max, breach } = check;
                    let passed = breach.is_none();
                    checks.measured.push(Measurement { name, value, min, max, passed });
                    if let Some(breach) = breach {
                        checks.failure.get_or_insert(breach.to_string());
                    }
                }
                Err(why) => {
                    self.cx.telemetry.clear_metric(&seen.gauge, &metric.name);
                    checks.failure.get_or_insert(why);
                }
            }
        }
        checks
    }

    /// The value of one metric, or why there is none.
    async fn sample(
        &self,
        seen: &Seen,
        metric: &AnalysisMetric,
        source: Source<'_>,
    ) -> Result<Sample, String> {
        let model = Model::of(&seen.canary, metric).map_err(|error| error.to_string())?;
        match source {
            Source::Builtin(builtin) => self.builtin(seen, metric, builtin, &model).await,
            Source::Inline(text) => {
                let query = template::render(&metric.name, text, &model)
                    .map_err(|error| error.to_string())?;
                let server = self.server(seen);
                let answer = self.query(&server, &query).await;
                answer.map_err(|error| error.about(&metric.name, seen))
            }
            Source::Template(reference) => self.templated(seen, metric, reference, &model).await,
        }
    }

    async fn builtin(
        &self,
        seen: &Seen,
        metric: &AnalysisMetric,
        builtin: Builtin,
        model: &Model,
    ) -> Result<Sample, String> {
        let mesh = &self.cx.options.mesh_provider;
        let spec = &seen.canary.spec;
        let observer = Observer::select(mesh, spec.provider, &spec.target_ref);
        let server = self.server(seen);
        let answer = self.query(&server, &observer.query(builtin, model)).await;
        let answer = match (answer, builtin) {
            (Err(QueryFailure::Answer(QueryError::NoValue)), Builtin::SuccessRate) => {
                // Nothing but errors has no good requests to count: is there traffic at all?
                let all = self.query(&server, &observer.total_query(model)).await;
                match all {
                    Ok(sample) => {
                        success_rate_without_value(Ok(sample)).map_err(QueryFailure::Answer)
                    }
                    Err(QueryFailure::Answer(error)) => {
                        success_rate_without_value(Err(error)).map_err(QueryFailure::Answer)
                    }
                    Err(error) => Err(error),
                }
            }
            (answer, _) => answer,
        };
        answer.map_err(|error| match error {
            QueryFailure::Answer(QueryError::NoValue) => format!(
                "no values found for {} metric {}, probably {} is not receiving traffic",
                observer.label, metric.name, seen.names.target
            ),
            error => error.about(&metric.name, seen),
        })
    }

    async fn templated(
        &self,
        seen: &Seen,
        metric: &AnalysisMetric,
        reference: &ObjectRef,
        model: &Model,
    ) -> Result<Sample, String> {
        let (key, spec, secret) = self.template(reference).await?;
        let query = template::render(&key.to_string(), &spec.query, model)
            .map_err(|error| error.to_string())?;
        trace!(query, provider = spec.provider.provider_type.as_str(), "Query");
        let about = format!("{}/{}", self.key, metric.name);
        let inquiry = self.inquiry((&key, &spec), secret.as_ref(), &query, metric, &about)?;
        let answer = self.inquire(&inquiry).await;
        answer.map_err(|error| error.about(&metric.name, seen))
    }

    /// How a template is asked.
    fn inquiry(
        &self,
        (key, spec): (&Key, &MetricTemplateSpec),
        secret: Option<&SecretData>,
        query: &str,
        metric: &AnalysisMetric,
        asker: &str,
    ) -> Result<Inquiry, String> {
        let is_confined = self.cx.options.cross_namespace == CrossNamespace::Forbidden;
        let ambient = ambient();
        let question = MetricQuestion {
            provider: &spec.provider,
            secret,
            query,
            interval: metric.interval(),
            now: self.cx.clock.now(),
            asker,
            confined_to: is_confined.then_some(&*self.key.namespace),
            ambient: &ambient,
        };
        let inquiry =
            if query.is_empty() { Inquiry::probe(&question) } else { Inquiry::of(&question) };
        inquiry.map_err(|error| format!("metric template {key}: {error}"))
    }

    /// A template with what it needs to be asked.
    async fn template(
        &self,
        reference: &ObjectRef,
    ) -> Result<(Key, MetricTemplateSpec, Option<SecretData>), String> {
        let namespace = reference.namespace.as_deref().filter(|it| !it.is_empty());
        let key = Key::new(namespace.unwrap_or(&self.key.namespace), &reference.name);
        let template = self.cx.cluster.cache.get(METRIC_TEMPLATE, &key);
        let template = template.ok_or_else(|| format!("metric template {key} does not exist"))?;
        let template: MetricTemplate = serde_json::from_value((*template).clone())
            .map_err(|_| format!("metric template {key} cannot be read"))?;
        let secret = match &template.spec.provider.secret_ref {
            Some(secret) => Some(self.secret(&key.namespace, &secret.name).await?),
            None => None,
        };
        Ok((key, template.spec, secret))
    }

    /// The Prometheus of built-in and inline queries.
    fn server(&self, seen: &Seen) -> Server {
        let own = seen.canary.spec.metrics_server.as_ref().filter(|it| !it.is_empty());
        Server {
            address: own.unwrap_or(&self.cx.options.metrics_server).clone(),
            headers: BTreeMap::new(),
            credentials: Credentials::None,
            verify_tls: true,
            trusted: own.is_none(),
        }
    }

    async fn query(&self, server: &Server, query: &str) -> Result<Sample, QueryFailure> {
        let request =
            prometheus::request(&server.address, query, &server.headers, &server.credentials)
                .map_err(|error| QueryFailure::Request(error.to_string()))?;
        let mut outgoing = outgoing(request, &self.key)
            .map_err(|error| QueryFailure::Request(error.to_string()))?;
        outgoing.timeout = QUERY_TIMEOUT;
        outgoing.max_bytes = QUERY_BYTES_MAX;
        outgoing.verify_tls = server.verify_tls;
        outgoing.trusted = server.trusted;
        trace!(query, "Query");
        let start = self.cx.clock.monotonic();
        let answer = self.cx.http.send(outgoing).await;
        let took = self.cx.clock.monotonic().saturating_sub(start);
        let sample = match answer {
            Ok(answer) if answer.truncated => Err(QueryFailure::Answer(QueryError::Malformed)),
            Ok(answer) => prometheus::parse(answer.status.as_u16(), &answer.body)
                .map(|answer| answer.sample)
                .map_err(QueryFailure::Answer),
            Err(error) => Err(QueryFailure::Unreachable(error)),
        };
        let outcome = match &sample {
            Ok(_) => Outcome::Success,
            Err(error) => Outcome::Error(error.label()),
        };
        self.cx.telemetry.count_query("prometheus", outcome, took);
        sample
    }

    /// Whether every metric backend of this canary answers.
    async fn backends(&self, seen: &Seen) -> Result<(), String> {
        for metric in &seen.canary.spec.analysis.metrics {
            let (name, answer) = match (Builtin::named(&metric.name), &metric.template_ref) {
                (Some(_), _) => ("prometheus", self.query(&self.server(seen), PROBE).await),
                (None, Some(reference)) => {
                    let (key, spec, secret) = self.template(reference).await?;
                    let about = format!("{}/{}", self.key, metric.name);
                    let inquiry =
                        self.inquiry((&key, &spec), secret.as_ref(), "", metric, &about)?;
                    (inquiry.provider(), self.inquire(&inquiry).await)
                }
                (None, None) => continue,
            };
            match answer {
                Ok(sample) if name != "prometheus" || (sample.get() - 1.0).abs() < f64::EPSILON => {
                }
                Ok(_) => return Err(format!("{name} gives no sensible answer")),
                Err(error) => return Err(format!("{name} is not available: {}", error.text())),
            }
        }
        Ok(())
    }

    /// The contents of a Secret, read when needed and not kept.
    pub(super) async fn secret(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<BTreeMap<String, Vec<u8>>, String> {
        let place = Place { kind: SECRET, namespace, name, subresource: "" };
        let secret = match self.cx.cluster.read(place).await {
            Ok(Some(secret)) => secret,
            Ok(None) => return Err(format!("Secret {namespace}/{name} does not exist")),
            Err(WriteError::Refused { .. }) => {
                return Err(format!("Secret {namespace}/{name} may not be read"));
            }
            Err(_) => return Err(format!("Secret {namespace}/{name} cannot be read now")),
        };
        Ok(decode(&secret["data"]))
    }
}

/// Where a query goes.
struct Server {
    address: String,
    headers: BTreeMap<String, Vec<String>>,
    credentials: Credentials,
    verify_tls: bool,
    /// The administrator's own address.
    trusted: bool,
}

/// Why a query has no value.
pub(super) enum QueryFailure {
    Request(String),
    Unreachable(HttpError),
    Answer(QueryError),
    /// The server works and has no number.
    NoData,
}

// === impl QueryFailure ===

impl QueryFailure {
    fn text(&self) -> String {
        match self {
            Self::Request(why) => why.clone(),
            Self::Unreachable(error) => error.to_string(),
            Self::Answer(error) => error.to_string(),
            Self::NoData => QueryError::NoValue.to_string(),
        }
    }

    fn about(&self, metric: &str, seen: &Seen) -> String {
        match self {
            Self::Answer(QueryError::NoValue) | Self::NoData => format!(
                "no values found for metric {metric}, probably {} is not receiving traffic",
                seen.names.target
            ),
            other => format!("the query of metric {metric} failed: {}", other.text()),
        }
    }

    fn label(&self) -> &'static str {
        match self {
            Self::Request(_) => "request",
            Self::Unreachable(error) => error.label(),
            Self::Answer(error) => error.label(),
            Self::NoData => QueryError::NoValue.label(),
        }
    }
}

// === impl Call ===

impl Call {
    /// A call of a user's hook.
    pub(super) fn of(
        hook: &Webhook,
        body: Vec<u8>,
        identity: &CallIdentity<'_>,
        key: &Key,
    ) -> Option<Self> {
        let request = hook::request(&hook.url, body, identity).ok()?;
        let mut outgoing = outgoing(request, key).ok()?;
        outgoing.verify_tls = hook.disable_tls != Some(true);
        if let Ok(timeout) = hook.timeout() {
            outgoing.timeout = timeout.to_std().unwrap_or_default();
        }
        let retries = u32::try_from(hook.retries.unwrap_or(0).clamp(0, RETRIES_MAX)).ok()?;
        let (name, kind) = (hook.name.clone(), hook.hook_type());
        Some(Self { name, kind, outgoing, retries, until: None })
    }

    /// A call of the administrator's event hook.
    pub(super) fn global(address: &str, body: Vec<u8>, key: &Key) -> Option<Self> {
        let request = Request::post_json(address, body).ok()?;
        let mut outgoing = outgoing(request, key).ok()?;
        outgoing.trusted = true;
        Some(Self {
            name: "the operator's event webhook".to_owned(),
            kind: WebhookType::Event,
            outgoing,
            retries: 0,
            until: None,
        })
    }
}

/// Makes a call, again where that may help. Any 2xx is a yes.
pub(super) async fn call(cx: &Context, call: &Call) -> Result<(), String> {
    let kind = call.kind.as_str();
    let mut attempt = 0;
    loop {
        let mut outgoing = call.outgoing.clone();
        let left = call.until.map(|until| until.saturating_sub(cx.clock.monotonic()));
        outgoing.timeout = left.map_or(outgoing.timeout, |left| outgoing.timeout.min(left));
        let answer = cx.http.send(outgoing).await;
        let now = cx.clock.now();
        let (why, wait) = match &answer {
            Ok(answer) if answer.is_success() => {
                cx.telemetry.count_hook(kind, Outcome::Success);
                return Ok(());
            }
            Ok(answer) => {
                let status = answer.status.as_u16();
                let header = answer.headers.get(http::header::RETRY_AFTER);
                let retry_after = header.and_then(|value| value.to_str().ok());
                let failure = retry::Failure::Answered { status, retry_after };
                (hook::refusal(status, &answer.body), retry::wait(attempt, failure, now))
            }
            Err(error) => {
                let failure = if error.is_connection() {
                    retry::Failure::Unreachable
                } else {
                    retry::Failure::Hopeless
                };
                (error.to_string(), retry::wait(attempt, failure, now))
            }
        };
        let is_in_time =
            |wait: &Duration| call.until.is_none_or(|until| cx.clock.monotonic() + *wait < until);
        let wait = wait.filter(|_| attempt < call.retries).filter(is_in_time);
        let Some(wait) = wait else {
            let outcome = match &answer {
                Ok(_) => Outcome::Refused,
                Err(error) => Outcome::Error(error.label()),
            };
            cx.telemetry.count_hook(kind, outcome);
            return Err(why);
        };
        cx.clock.sleep(wait).await;
        attempt += 1;
    }
}

/// A translated request, as the client takes it.
pub(crate) fn outgoing(request: Request, key: &Key) -> Result<Outgoing, UrlError> {
    let url = SafeUrl::parse(&request.url.to_string())?;
    let mut outgoing = Outgoing::new(request.method, url, key.namespace.to_string());
    outgoing.headers = request.headers;
    outgoing.body = request.body.into();
    Ok(outgoing)
}

fn hooks(seen: &Seen, kind: WebhookType) -> impl Iterator<Item = &Webhook> {
    let webhooks = &seen.canary.spec.analysis.webhooks;
    webhooks.iter().filter(move |hook| hook.hook_type() == kind)
}

fn webhook_type(kind: GateKind) -> WebhookType {
    match kind {
        GateKind::ConfirmRollout => WebhookType::ConfirmRollout,
        GateKind::PreRollout => WebhookType::PreRollout,
        GateKind::ConfirmTrafficIncrease => WebhookType::ConfirmTrafficIncrease,
        GateKind::ConfirmPromotion => WebhookType::ConfirmPromotion,
        GateKind::PostRollout => WebhookType::PostRollout,
        GateKind::Rollback => WebhookType::Rollback,
    }
}

/// Flagger exports durations in seconds.
fn exported(metric: &AnalysisMetric, check: &Check) -> f64 {
    match Builtin::named(&metric.name) {
        Some(Builtin::Duration) => check.value / 1000.0,
        Some(Builtin::SuccessRate) | None => check.value,
    }
}

/// The contents of a Secret; what cannot be decoded is left out.
fn decode(data: &Value) -> BTreeMap<String, Vec<u8>> {
    let entries = data.as_object().into_iter().flatten();
    entries
        .filter_map(|(name, value)| {
            let bytes: k8s_openapi::ByteString = serde_json::from_value(value.clone()).ok()?;
            Some((name.clone(), bytes.0))
        })
        .collect()
}
