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
        Builtin, Check, Measure, Observer, QueryError, QueryMachine, Question as MetricQuestion,
        Reading, Source,
        limits::judge,
        prometheus::{self, Credentials, PROBE},
        sources, success_rate_without_value,
    },
    template::{self, Model},
    workload::{SECRET, SERVICE, WorkloadKind},
};
use tokio::sync::OnceCell;
use tracing::debug;

use super::{
    ask::outgoing,
    inquire::{SecretData, ambient},
    observe::{Seen, reference_key},
    task::Task,
};
use crate::{
    cluster::{
        Cluster, ENDPOINT_SLICE, METRIC_TEMPLATE,
        cache::Key,
        write::{Place, WriteError},
    },
    http::{HttpError, Transport},
    telemetry::Outcome,
};

/// Answers of metric servers; one number needs a few hundred bytes.
const QUERY_BYTES_MAX: usize = 1024 * 1024;
/// Queries of one check at the same time.
const QUERIES_AT_ONCE: usize = 4;

/// What became of each metric, in the order they are asked.
type Judged<'a> = Vec<(&'a AnalysisMetric, Result<Judgement, Lack>)>;

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
            return Checks { verdict: Verdict::Failed(why), ..Checks::default() };
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
    ) -> (&'a AnalysisMetric, Result<Judgement, Lack>) {
        let measure = source.measure();
        let reading = self.read(seen, metric, source, shared).await;
        let judged = |reading: Reading| Judgement {
            check: judge(metric, measure, reading.sample),
            measure,
            is_ambiguous: reading.series > 1,
        };
        (metric, reading.map(judged))
    }

    fn verdict(&self, seen: &Seen, answers: Judged<'_>) -> Checks {
        let (mut measured, mut ambiguous) = (Vec::new(), Vec::new());
        let (mut failed, mut without_data, mut held) = (None, None, None);
        for (metric, answer) in answers {
            match answer {
                Ok(Judgement { check, measure, is_ambiguous }) => {
                    if is_ambiguous {
                        ambiguous.push(metric.name.clone());
                    }
                    let value = exported(measure, &check);
                    self.cx.telemetry.set_metric(&seen.gauge, &metric.name, value);
                    let Check { name, value, min, max, breach } = check;
                    let passed = breach.is_none();
                    debug!(canary = %self.key, metric = name, value, min, max, passed, "Measured");
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
        Checks { measured, verdict, ambiguous }
    }

    /// The value of one metric, or why there is none.
    async fn read(
        &self,
        seen: &Seen,
        metric: &AnalysisMetric,
        source: Source<'_>,
        shared: &Shared,
    ) -> Result<Reading, Lack> {
        let mut model = Model::of(&seen.canary, metric).map_err(Lack::error)?;
        if seen.workload == WorkloadKind::Knative {
            let revision = created_revision(&model, seen.target.as_deref())?;
            model = model.with_route(revision).map_err(Lack::error)?;
        }
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
    ) -> Result<Reading, Lack> {
        let mesh = &self.cx.options.mesh_provider;
        let spec = &seen.canary.spec;
        let observer = Observer::select(mesh, spec.provider, &spec.target_ref);
        let located;
        let model = if observer.needs_addresses() {
            located = self.located(model).await.map_err(Lack::Answer)?;
            &located
        } else {
            model
        };
        let server = self.server(seen);
        let answer = self.query_shared(&server, &observer.query(builtin, model), shared).await;
        let answer = match (answer, builtin) {
            (Err(QueryFailure::Answer(QueryError::NoValue)), Builtin::SuccessRate) => {
                // Nothing but errors has no good requests to count: is there traffic at all?
                let all = self.query_shared(&server, &observer.total_query(model), shared).await;
                let all = match all {
                    Ok(all) => Ok(all.sample),
                    Err(QueryFailure::Answer(error)) => Err(error),
                    Err(error) => return Err(error.about(&metric.name, seen)),
                };
                let rate = success_rate_without_value(all).map_err(QueryFailure::Answer);
                rate.map(|sample| Reading { sample, series: 1 })
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

    /// The model with the addresses of the canary: of its pods, and of its Service, for gateways that
    /// leave it to the Service to find a pod.
    async fn located(&self, model: &Model) -> Result<Model, String> {
        let service = format!("{}-canary", model.service());
        let key = Key::new(&self.key.namespace, &service);
        let selector = format!("kubernetes.io/service-name={service}");
        let slices = self.cx.cluster.read_all(ENDPOINT_SLICE, &key.namespace, &selector).await;
        let slices = slices.map_err(|error| match error {
            WriteError::Refused { .. } => format!("the addresses of Service {key} may not be read"),
            _ => format!("the addresses of Service {key} cannot be read now"),
        })?;
        let found = self.cx.cluster.cache.get(SERVICE, &key);
        let own = found.as_ref().and_then(|it| it["spec"]["clusterIPs"].as_array());
        let endpoints =
            slices.iter().flat_map(|it| it["endpoints"].as_array().into_iter().flatten());
        let of_pods = endpoints.flat_map(|it| it["addresses"].as_array().into_iter().flatten());
        let addresses = own.into_iter().flatten().chain(of_pods).filter_map(Value::as_str);
        Ok(model.clone().with_addresses(addresses))
    }

    async fn templated(
        &self,
        seen: &Seen,
        metric: &AnalysisMetric,
        reference: &ObjectRef,
        model: &Model,
        shared: &Shared,
    ) -> Result<Reading, Lack> {
        let (key, spec, secret) = self.template(reference).await.map_err(Lack::Answer)?;
        let strangers;
        let model = if key.namespace == self.key.namespace {
            model
        } else {
            strangers = model
                .clone()
                .for_stranger(spec.provider.provider_type.as_str())
                .map_err(Lack::error)?;
            &strangers
        };
        let query = template::render(&key.to_string(), &spec.query, model).map_err(Lack::error)?;
        debug!(canary = %self.key, metric = metric.name, query, provider = spec.provider.provider_type.as_str(), "Query");
        let about = format!("{}/{}", self.key, metric.name);
        let inquiry = self.inquiry((&key, &spec), secret.as_ref(), &query, metric, &about);
        let inquiry = inquiry.map_err(Lack::Answer)?;
        let question = format!("{key}\n{}\n{query}", metric.interval());
        let answer = shared.once(question, self.inquire(&inquiry)).await;
        answer.map_err(|error| match error.about(&metric.name, seen) {
            // Whose server it is that does not answer, its owner should know.
            Lack::Answer(_) => Lack::Answer(format!(
                "the query of metric {} failed: {} of metric template {key}: {}",
                metric.name,
                spec.provider.provider_type.as_str(),
                error.text()
            )),
            lack @ Lack::Data(_) => lack,
        })
    }

    /// How a template is asked.
    fn inquiry(
        &self,
        (key, spec): (&Key, &MetricTemplateSpec),
        secret: Option<&SecretData>,
        query: &str,
        metric: &AnalysisMetric,
        asker: &str,
    ) -> Result<QueryMachine, String> {
        let is_confined = self.cx.options.cross_namespace == CrossNamespace::Forbidden;
        let ambient = ambient();
        let question = MetricQuestion {
            provider: &spec.provider,
            secret: secret.map(|secret| &**secret),
            query,
            interval: metric.interval(),
            now: self.cx.clock.now(),
            asker,
            confined_to: is_confined.then_some(&*self.key.namespace),
            environment: &ambient,
        };
        let inquiry = if query.is_empty() {
            QueryMachine::probe(&question)
        } else {
            QueryMachine::of(&question)
        };
        inquiry.map_err(|error| format!("metric template {key}: {error}"))
    }

    /// A template with what it needs to be asked.
    async fn template(
        &self,
        reference: &ObjectRef,
    ) -> Result<(Key, MetricTemplateSpec, Option<SecretData>), String> {
        let key = reference_key(&self.key.namespace, reference);
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
    ) -> Result<Reading, QueryFailure> {
        // All of them go to the one server of the canary.
        shared.once(query.to_owned(), self.query(server, query)).await
    }

    async fn query(&self, server: &Server, query: &str) -> Result<Reading, QueryFailure> {
        let request =
            prometheus::request(&server.address, query, &server.headers, &server.credentials)
                .map_err(|error| QueryFailure::Request(error.to_string()))?;
        let mut outgoing = outgoing(request, &self.key)
            .map_err(|error| QueryFailure::Request(error.to_string()))?;
        outgoing.timeout = self.cx.options.query_timeout;
        outgoing.max_bytes = QUERY_BYTES_MAX;
        outgoing.verify_tls = server.verify_tls;
        outgoing.trusted = server.trusted;
        debug!(canary = %self.key, query, "Query");
        let start = self.cx.clock.monotonic();
        let answer = self.cx.http.send(outgoing).await;
        let took = self.cx.clock.monotonic().saturating_sub(start);
        let reading = match answer {
            Ok(answer) if answer.truncated => Err(QueryFailure::Answer(QueryError::Malformed)),
            Ok(answer) => prometheus::parse(answer.status.as_u16(), &answer.body)
                .map_err(QueryFailure::Answer),
            Err(error) => Err(QueryFailure::Unreachable(error)),
        };
        let outcome = match &reading {
            Ok(_) => Outcome::Success,
            Err(error) => Outcome::Error(error.label()),
        };
        self.cx.telemetry.count_query("prometheus", outcome, took);
        reading
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
                Ok(_) if name != "prometheus" => {}
                Ok(reading) if (reading.sample.get() - 1.0).abs() < f64::EPSILON => {}
                Ok(_) => return Err(format!("{name} gives no sensible answer")),
                Err(error) => return Err(format!("{name} is not available: {}", error.text())),
            }
        }
        Ok(())
    }

    /// The contents of a Secret, read when needed and not kept.
    pub(super) async fn secret(&self, namespace: &str, name: &str) -> Result<SecretData, String> {
        let secret = read_secret(&self.cx.cluster, namespace, name).await?;
        Ok(SecretData(decode(&secret["data"])))
    }
}

/// A Secret, past the cache, which does not keep what they hold.
pub(crate) async fn read_secret(
    cluster: &Cluster,
    namespace: &str,
    name: &str,
) -> Result<Value, String> {
    let place = Place { kind: SECRET, namespace, name, subresource: "" };
    match cluster.read(place).await {
        Ok(Some(secret)) => Ok(secret),
        Ok(None) => Err(format!("Secret {namespace}/{name} does not exist")),
        Err(WriteError::Refused { .. }) => {
            Err(format!("Secret {namespace}/{name} may not be read"))
        }
        Err(_) => Err(format!("Secret {namespace}/{name} cannot be read now")),
    }
}

/// Whether the Prometheus of a flag answers.
pub async fn probe_server(
    http: &dyn Transport,
    address: &str,
    timeout: Duration,
) -> Result<(), String> {
    let request = prometheus::request(address, PROBE, &BTreeMap::new(), &Credentials::None)
        .map_err(|error| error.to_string())?;
    let mut sent = outgoing(request, &Key::new("", "")).map_err(|error| error.to_string())?;
    sent.timeout = timeout;
    sent.max_bytes = QUERY_BYTES_MAX;
    sent.trusted = true;
    let answer = http.send(sent).await.map_err(|error| error.to_string())?;
    let read = prometheus::parse(answer.status.as_u16(), &answer.body);
    match read {
        _ if prometheus::is_online(&read) => Ok(()),
        Ok(_) => Err("it gives no sensible answer".to_owned()),
        Err(error) => Err(error.to_string()),
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
type Pending = OnceCell<Result<Reading, QueryFailure>>;

/// A value against its limits.
struct Judgement {
    check: Check,
    measure: Measure,
    /// There were others to choose from.
    is_ambiguous: bool,
}

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
        ask: impl Future<Output = Result<Reading, QueryFailure>>,
    ) -> Result<Reading, QueryFailure> {
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

/// Flagger exports the built-in duration in seconds, and everything else as it is: what a query of the
/// user's measures, by whatever name, is in the user's unit.
fn exported(measure: Measure, check: &Check) -> f64 {
    match measure {
        Measure::Duration => check.value / 1000.0,
        Measure::SuccessRate | Measure::Custom => check.value,
    }
}

/// The revision that requests to the canary go to: of a Service of Knative, the one created last.
fn created_revision<'a>(model: &Model, target: Option<&'a Value>) -> Result<&'a str, Lack> {
    let created = target.and_then(|it| it["status"]["latestCreatedRevisionName"].as_str());
    created.filter(|name| !name.is_empty()).ok_or_else(|| {
        let (namespace, name) = (model.namespace(), model.target());
        Lack::Answer(format!(
            "the Knative Service {namespace}/{name} does not name its newest revision"
        ))
    })
}

/// The contents of a Secret; what cannot be decoded is left out.
pub(crate) fn decode(data: &Value) -> BTreeMap<String, Vec<u8>> {
    let entries = data.as_object().into_iter().flatten();
    entries
        .filter_map(|(name, value)| {
            let bytes: k8s_openapi::ByteString = serde_json::from_value(value.clone()).ok()?;
            Some((name.clone(), bytes.0))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tidegate_api::canary::Canary;

    use super::*;

    fn model() -> Model {
        let canary: Canary = serde_json::from_value(json!({
            "metadata": { "name": "podinfo", "namespace": "test" },
            "spec": {
                "targetRef": {
                    "apiVersion": "serving.knative.dev/v1", "kind": "Service", "name": "podinfo",
                },
                "analysis": { "interval": "1m", "threshold": 5, "stepWeight": 10 },
            },
        }))
        .unwrap();
        Model::of(&canary, &AnalysisMetric::default()).unwrap()
    }

    #[test]
    fn met_15_a_service_of_knative_without_a_revision_is_no_answer_and_not_silence() {
        let service = |name: Value| json!({ "status": { "latestCreatedRevisionName": name } });
        let created = service(json!("podinfo-00002"));
        assert!(matches!(created_revision(&model(), Some(&created)), Ok("podinfo-00002")));
        for target in [None, Some(json!({})), Some(service(json!("")))] {
            let found = created_revision(&model(), target.as_ref());
            let Err(Lack::Answer(why)) = found else { panic!("there is none") };
            assert!(why.contains("test/podinfo"), "{why}");
        }
    }

    #[test]
    fn met_25_only_the_built_in_duration_is_exported_in_seconds() {
        let metric =
            AnalysisMetric { name: "request-duration".into(), ..AnalysisMetric::default() };
        let cases =
            [(Measure::Duration, 0.25), (Measure::Custom, 250.0), (Measure::SuccessRate, 250.0)];
        for (measure, want) in cases {
            let sample = tidegate_providers::metrics::Sample::new(250.0).unwrap();
            let value = exported(measure, &judge(&metric, measure, sample));
            assert!((value - want).abs() < f64::EPSILON, "{measure:?}: {value}");
        }
    }
}
