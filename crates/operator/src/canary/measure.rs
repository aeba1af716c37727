//! Measuring: the metrics of a canary, asked side by side, judged and weighed together.
//!
//! ```text
//! metric -> sources -> query, once for all who ask it -> sample -> limits::judge -> Verdict
//! ```
//!
//! What comes of a check is one of four things. A value out of its limits, and a question that gets no
//! sensible answer, fail it. Where everything else passed and there was nothing to measure it has no
//! data, which is a failed check too; unless all metrics without data say `onNoData: hold`.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::{StreamExt, stream};
use serde_json::Value;
use tidegate_api::{
    MetricTemplate,
    canary::{
        CrossNamespace,
        analysis::{AnalysisMetric, ObjectRef, OnNoData},
    },
    metric_template::MetricTemplateSpec,
};
use tidegate_engine::{Checks, Measurement, Verdict};
use tidegate_providers::{
    metrics::{
        Builtin, Check, Inquiry, Observer, QueryError, Question as MetricQuestion, Sample, Source,
        limits::judge,
        prometheus::{self, Credentials, PROBE},
        sources, success_rate_without_value,
    },
    template::{self, Model},
    workload::SECRET,
};
use tokio::sync::OnceCell;
use tracing::trace;

use super::{
    ask::outgoing,
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
    http::HttpError,
    telemetry::Outcome,
};

/// One deadline for everything a query does.
const QUERY_TIMEOUT: Duration = Duration::from_secs(10);
/// Answers of metric servers; one number needs a few hundred bytes.
const QUERY_BYTES_MAX: usize = 1024 * 1024;
/// Queries of one check at the same time.
const QUERIES_AT_ONCE: usize = 4;

/// What became of each metric, in the order they are asked.
type Judged<'a> = Vec<(&'a AnalysisMetric, Result<Check, Lack>)>;

impl Task {
    /// All metrics of the canary.
    pub(super) async fn measure(&self, seen: &Seen) -> Checks {
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
            return Checks { measured: Vec::new(), verdict: Verdict::Failed(why) };
        }
        let shared = Shared::default();
        let mut asked = Vec::new();
        for (metric, source) in queries {
            asked.push(self.judged(seen, metric, source, &shared));
        }
        let answers: Vec<_> = stream::iter(asked).buffered(QUERIES_AT_ONCE).collect().await;
        self.verdict(seen, answers)
    }

    async fn judged<'a>(
        &self,
        seen: &Seen,
        metric: &'a AnalysisMetric,
        source: Source<'a>,
        shared: &Shared,
    ) -> (&'a AnalysisMetric, Result<Check, Lack>) {
        let measure = source.measure();
        let sample = self.sample(seen, metric, source, shared).await;
        (metric, sample.map(|sample| judge(metric, measure, sample)))
    }

    fn verdict(&self, seen: &Seen, answers: Judged<'_>) -> Checks {
        let mut measured = Vec::new();
        let (mut failed, mut without_data, mut held) = (None, None, None);
        for (metric, answer) in answers {
            match answer {
                Ok(check) => {
                    let value = exported(metric, &check);
                    self.cx.telemetry.set_metric(&seen.gauge, &metric.name, value);
                    let Check { name, value, min, max, breach } = check;
                    let passed = breach.is_none();
                    measured.push(Measurement { name, value, min, max, passed });
                    if let Some(breach) = breach {
                        failed.get_or_insert(breach.to_string());
                    }
                }
                Err(lack) => {
                    self.cx.telemetry.clear_metric(&seen.gauge, &metric.name);
                    match (lack, metric.on_no_data) {
                        (Lack::Answer(why), _) => failed.get_or_insert(why),
                        (Lack::Data(why), Some(OnNoData::Hold)) => held.get_or_insert(why),
                        (Lack::Data(why), None | Some(OnNoData::Fail)) => {
                            without_data.get_or_insert(why)
                        }
                    };
                }
            }
        }
        let verdict = match (failed, without_data, held) {
            // What is bad is bad, whatever else there is no telling of.
            (Some(why), ..) => Verdict::Failed(why),
            (None, Some(why), _) => Verdict::NoData(why),
            (None, None, Some(why)) => Verdict::Held(why),
            (None, None, None) => Verdict::Passed,
        };
        Checks { measured, verdict }
    }

    /// The value of one metric, or why there is none.
    async fn sample(
        &self,
        seen: &Seen,
        metric: &AnalysisMetric,
        source: Source<'_>,
        shared: &Shared,
    ) -> Result<Sample, Lack> {
        let model = Model::of(&seen.canary, metric).map_err(Lack::error)?;
        match source {
            Source::Builtin(builtin) => self.builtin(seen, metric, builtin, &model, shared).await,
            Source::Inline(text) => {
                let query = template::render(&metric.name, text, &model).map_err(Lack::error)?;
                let server = self.server(seen);
                let answer = self.query_shared(&server, &query, shared).await;
                answer.map_err(|error| error.about(&metric.name, seen))
            }
            Source::Template(reference) => {
                self.templated(seen, metric, reference, &model, shared).await
            }
        }
    }

    async fn builtin(
        &self,
        seen: &Seen,
        metric: &AnalysisMetric,
        builtin: Builtin,
        model: &Model,
        shared: &Shared,
    ) -> Result<Sample, Lack> {
        let mesh = &self.cx.options.mesh_provider;
        let spec = &seen.canary.spec;
        let observer = Observer::select(mesh, spec.provider, &spec.target_ref);
        let server = self.server(seen);
        let answer = self.query_shared(&server, &observer.query(builtin, model), shared).await;
        let answer = match (answer, builtin) {
            (Err(QueryFailure::Answer(QueryError::NoValue)), Builtin::SuccessRate) => {
                // Nothing but errors has no good requests to count: is there traffic at all?
                let all = self.query_shared(&server, &observer.total_query(model), shared).await;
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
            QueryFailure::Answer(QueryError::NoValue) => Lack::Data(format!(
                "no values found for {} metric {}, probably {} is not receiving traffic",
                observer.label, metric.name, seen.names.target
            )),
            error => error.about(&metric.name, seen),
        })
    }

    async fn templated(
        &self,
        seen: &Seen,
        metric: &AnalysisMetric,
        reference: &ObjectRef,
        model: &Model,
        shared: &Shared,
    ) -> Result<Sample, Lack> {
        let (key, spec, secret) = self.template(reference).await.map_err(Lack::Answer)?;
        let query = template::render(&key.to_string(), &spec.query, model).map_err(Lack::error)?;
        trace!(query, provider = spec.provider.provider_type.as_str(), "Query");
        let about = format!("{}/{}", self.key, metric.name);
        let inquiry = self.inquiry((&key, &spec), secret.as_ref(), &query, metric, &about);
        let inquiry = inquiry.map_err(Lack::Answer)?;
        let question = format!("{key}\n{}\n{query}", metric.interval());
        let answer = shared.once(question, self.inquire(&inquiry)).await;
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

    async fn query_shared(
        &self,
        server: &Server,
        query: &str,
        shared: &Shared,
    ) -> Result<Sample, QueryFailure> {
        // All of them go to the one server of the canary.
        shared.once(query.to_owned(), self.query(server, query)).await
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
    pub(super) async fn backends(&self, seen: &Seen) -> Result<(), String> {
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

/// Answers of one check: the same question is asked once, whoever asks it, and all of them judge the
/// same number.
#[derive(Default)]
struct Shared(Mutex<BTreeMap<String, Arc<Pending>>>);

/// An answer that is there, or on its way.
type Pending = OnceCell<Result<Sample, QueryFailure>>;

/// Why a metric has no value, in words.
enum Lack {
    /// There is nothing to measure.
    Data(String),
    /// There is no telling.
    Answer(String),
}

/// Why a query has no value.
#[derive(Clone)]
pub(super) enum QueryFailure {
    Request(String),
    Unreachable(HttpError),
    Answer(QueryError),
    /// The server works and has no number.
    NoData,
}

// === impl Shared ===

impl Shared {
    /// The answer to a question: whoever asks first asks, the others wait for what comes back.
    async fn once(
        &self,
        question: String,
        ask: impl Future<Output = Result<Sample, QueryFailure>>,
    ) -> Result<Sample, QueryFailure> {
        let cell = {
            let mut cells = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(cells.entry(question).or_default())
        };
        cell.get_or_init(|| ask).await.clone()
    }
}

// === impl Lack ===

impl Lack {
    #[expect(clippy::needless_pass_by_value, reason = "for map_err")]
    fn error(error: impl ToString) -> Self {
        Self::Answer(error.to_string())
    }
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

    fn about(&self, metric: &str, seen: &Seen) -> Lack {
        match self {
            Self::Answer(QueryError::NoValue) | Self::NoData => Lack::Data(format!(
                "no values found for metric {metric}, probably {} is not receiving traffic",
                seen.names.target
            )),
            other => Lack::Answer(format!("the query of metric {metric} failed: {}", other.text())),
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
