//! Analysis: the rollout hooks and metrics of a canary, judged together.
//!
//! ```text
//! metric ─► sources ─► query, deduplicated ─► sample ─► limits::judge ─► Verdict
//! ```
//!
//! A check has one of four outcomes. A value out of its limits, and a query without a usable answer, fail it.
//! If everything else passed and there was nothing to measure, it has no data, which is a failed check too,
//! unless all metrics without data have `onNoData: hold`.

use std::collections::BTreeSet;

use futures::{StreamExt, stream};
use parking_lot::Mutex;
use serde_json::Value;
use tidegate_api::{
    MetricTemplate,
    canary::{
        CrossNamespace,
        analysis::{AnalysisMetric, ObjectRef, OnNoData},
    },
    metric_template::MetricTemplateSpec,
};
use tidegate_engine::{Checks, Fact, Measurement, Verdict};
use tidegate_providers::{
    consent::Consent,
    metrics::{
        Builtin, Check, Measure, Observer, QueryError, QueryMachine, Question as MetricQuestion,
        Reading, Source, limits::judge, prometheus::PROBE, query_language, sources,
        success_rate_without_value,
    },
    template::{self, Model},
    workload::{SERVICE, WorkloadKind},
};
use tracing::debug;

use super::{
    canary_ref::CanaryRef,
    events, hooks,
    inputs::reference_key,
    metric_query::{QueryFailure, Server, Shared, cloud_environment, query, run},
    observation::Observation,
};
use crate::{
    cluster::{ENDPOINT_SLICE, METRIC_TEMPLATE, cache::Key, write::WriteError},
    secrets::{self, SecretData},
};

/// Queries of one check at the same time.
const QUERIES_AT_ONCE: usize = 4;

/// The outcome of each metric, in the order of the queries.
type Judged<'a> = Vec<(&'a AnalysisMetric, Result<Judgement, NoValue>)>;

/// One check of a canary.
pub(super) struct Analysis<'a> {
    canary: &'a CanaryRef,
    observation: &'a Observation,
    warned: &'a Warned,
    shared: Shared,
}

/// Warnings about Secrets without a label of consent, and the generation of the canary they were recorded at.
#[derive(Default)]
pub(super) struct Warned(Mutex<(Option<i64>, BTreeSet<String>)>);

/// A template and the Secret that it names.
struct Template {
    key: Key,
    spec: MetricTemplateSpec,
    secret: Option<(Consent, SecretData)>,
}

// === impl Analysis ===

impl<'a> Analysis<'a> {
    pub(super) fn new(
        canary: &'a CanaryRef,
        observation: &'a Observation,
        warned: &'a Warned,
    ) -> Self {
        Self { canary, observation, warned, shared: Shared::default() }
    }
}

impl Analysis<'_> {
    /// Rollout hooks, then metrics; the first hook that fails ends it.
    pub(super) async fn check(&self) -> Checks {
        match hooks::rollout(self.canary, self.observation).await {
            Ok(()) => self.measure().await,
            Err(why) => Checks { verdict: Verdict::Failed(why), ..Checks::default() },
        }
    }

    /// All metrics of the canary.
    async fn measure(&self) -> Checks {
        let metrics = &self.observation.inputs.canary.spec.analysis.metrics;
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
        let mut asked = Vec::new();
        for (metric, source) in queries {
            asked.push(self.judged(metric, source));
        }
        let answers: Vec<_> = stream::iter(asked).buffered(QUERIES_AT_ONCE).collect().await;
        self.verdict(answers)
    }

    async fn judged<'a>(
        &self,
        metric: &'a AnalysisMetric,
        source: Source<'a>,
    ) -> (&'a AnalysisMetric, Result<Judgement, NoValue>) {
        let measure = source.measure();
        let reading = self.read(metric, source).await;
        let judged = |reading: Reading| Judgement {
            check: judge(metric, measure, reading.sample),
            measure,
            is_ambiguous: reading.series > 1,
        };
        (metric, reading.map(judged))
    }

    fn verdict(&self, answers: Judged<'_>) -> Checks {
        let (mut measured, mut ambiguous) = (Vec::new(), Vec::new());
        let (mut failed, mut without_data, mut held) = (None, None, None);
        for (metric, answer) in answers {
            match answer {
                Ok(Judgement { check, measure, is_ambiguous }) => {
                    if is_ambiguous {
                        ambiguous.push(metric.name.clone());
                    }
                    let value = exported(measure, &check);
                    self.canary.cx.telemetry.set_metric(
                        &self.observation.labels,
                        &metric.name,
                        value,
                    );
                    let Check { name, value, min, max, breach } = check;
                    let passed = breach.is_none();
                    debug!(canary = %self.canary.key, metric = name, value, min, max, passed, "Measured");
                    measured.push(Measurement { name, value, min, max, passed });
                    if let Some(breach) = breach {
                        failed.get_or_insert(breach.to_string());
                    }
                }
                Err(no_value) => {
                    self.canary.cx.telemetry.clear_metric(&self.observation.labels, &metric.name);
                    match (no_value, metric.on_no_data) {
                        (NoValue::QueryFailed(why), _) => failed.get_or_insert(why),
                        (NoValue::NoData(why), Some(OnNoData::Hold)) => held.get_or_insert(why),
                        (NoValue::NoData(why), None | Some(OnNoData::Fail)) => {
                            without_data.get_or_insert(why)
                        }
                    };
                }
            }
        }
        let verdict = match (failed, without_data, held) {
            // A bad value fails the check, even if others are unknown.
            (Some(why), ..) => Verdict::Failed(why),
            (None, Some(why), _) => Verdict::NoData(why),
            (None, None, Some(why)) => Verdict::Held(why),
            (None, None, None) => Verdict::Passed,
        };
        Checks { measured, verdict, ambiguous }
    }

    /// The value of one metric, or why there is none.
    async fn read(&self, metric: &AnalysisMetric, source: Source<'_>) -> Result<Reading, NoValue> {
        let mut model =
            Model::of(&self.observation.inputs.canary, metric).map_err(NoValue::error)?;
        if self.observation.inputs.workload == WorkloadKind::Knative {
            let revision = created_revision(&model, self.observation.inputs.target.as_deref())?;
            model = model.with_route(revision).map_err(NoValue::error)?;
        }
        match source {
            Source::Builtin(builtin) => self.builtin(metric, builtin, &model).await,
            Source::Inline(text) => {
                let query = template::render(&metric.name, text, &model).map_err(NoValue::error)?;
                let answer = self.query_shared(&query).await;
                answer.map_err(|error| NoValue::of(&error, &metric.name, self.observation))
            }
            Source::Template(reference) => self.templated(metric, reference, &model).await,
        }
    }

    async fn builtin(
        &self,
        metric: &AnalysisMetric,
        builtin: Builtin,
        model: &Model,
    ) -> Result<Reading, NoValue> {
        let mesh = &self.canary.cx.options.mesh_provider;
        let spec = &self.observation.inputs.canary.spec;
        let observer = Observer::select(mesh, spec.provider, &spec.target_ref);
        let located;
        let model = if observer.needs_addresses() {
            located = self.located(model).await.map_err(NoValue::QueryFailed)?;
            &located
        } else {
            model
        };
        let answer = self.query_shared(&observer.query(builtin, model)).await;
        let has_no_value = matches!(answer, Err(QueryFailure::Answer(QueryError::NoValue)));
        let answer = if has_no_value && builtin == Builtin::SuccessRate {
            // With errors only, good requests have no value: query all requests.
            let all = match self.query_shared(&observer.total_query(model)).await {
                Ok(all) => Ok(all.sample),
                Err(QueryFailure::Answer(error)) => Err(error),
                Err(error) => return Err(NoValue::of(&error, &metric.name, self.observation)),
            };
            let rate = success_rate_without_value(all).map_err(QueryFailure::Answer);
            rate.map(|sample| Reading { sample, series: 1 })
        } else {
            answer
        };
        answer.map_err(|error| {
            if !matches!(error, QueryFailure::Answer(QueryError::NoValue)) {
                return NoValue::of(&error, &metric.name, self.observation);
            }
            NoValue::NoData(format!(
                "no values found for {} metric {}, probably {} is not receiving traffic",
                observer.label, metric.name, self.observation.names.target
            ))
        })
    }

    /// The model with the addresses of the canary: of its pods, and of its Service, for gateways that
    /// leave it to the Service to find a pod.
    async fn located(&self, model: &Model) -> Result<Model, String> {
        let service = format!("{}-canary", model.service());
        let key = Key::new(&self.canary.key.namespace, &service);
        let selector = format!("kubernetes.io/service-name={service}");
        let slices =
            self.canary.cx.cluster.read_all(ENDPOINT_SLICE, &key.namespace, &selector).await;
        let slices = slices.map_err(|error| {
            let is_refused = matches!(error, WriteError::Refused { .. });
            let may = if is_refused { "may not be read" } else { "cannot be read now" };
            format!("the addresses of Service {key} {may}")
        })?;
        let found = self.canary.cx.cluster.cache.get(SERVICE, &key);
        let own = found.as_ref().and_then(|it| it["spec"]["clusterIPs"].as_array());
        let endpoints =
            slices.iter().flat_map(|it| it["endpoints"].as_array().into_iter().flatten());
        let of_pods = endpoints.flat_map(|it| it["addresses"].as_array().into_iter().flatten());
        let addresses = own.into_iter().flatten().chain(of_pods).filter_map(Value::as_str);
        Ok(model.clone().with_addresses(addresses))
    }

    async fn templated(
        &self,
        metric: &AnalysisMetric,
        reference: &ObjectRef,
        model: &Model,
    ) -> Result<Reading, NoValue> {
        let template = self.template(reference).await.map_err(NoValue::QueryFailed)?;
        let Template { key, spec, .. } = &template;
        let query = self.query(&template, model)?;
        debug!(canary = %self.canary.key, metric = metric.name, query, provider = spec.provider.provider_type.as_str(), "Query");
        let about = format!("{}/{}", self.canary.key, metric.name);
        let machine = self.machine(&template, &query, metric, &about).await;
        let machine = machine.map_err(NoValue::QueryFailed)?;
        let question = format!("{key}\n{}\n{query}", metric.interval());
        let answer = self.shared.once(question, run(self.canary, &machine)).await;
        answer.map_err(|error| match NoValue::of(&error, &metric.name, self.observation) {
            // The owner of the template needs to know that its server does not answer.
            NoValue::QueryFailed(_) => NoValue::QueryFailed(format!(
                "the query of metric {} failed: {} of metric template {key}: {}",
                metric.name,
                spec.provider.provider_type.as_str(),
                error.text()
            )),
            lack @ NoValue::NoData(_) => lack,
        })
    }

    /// The query of a template. One of another namespace is queried with a login that is not the canary's.
    fn query(&self, template: &Template, model: &Model) -> Result<String, NoValue> {
        let Template { key, spec, .. } = template;
        let (name, provider) = (key.to_string(), &spec.provider);
        if key.namespace == self.canary.key.namespace {
            return template::render(&name, &spec.query, model).map_err(NoValue::error);
        }
        let model = model.clone().for_foreign_template(provider.provider_type.as_str());
        let model = model.map_err(NoValue::error)?;
        let query = if provider.secret_ref.is_some() {
            template::render_confined(&name, &spec.query, &model, query_language(provider))
        } else {
            template::render(&name, &spec.query, &model)
        };
        query.map_err(NoValue::error)
    }

    /// The query machine of a template whose Secret may be sent.
    async fn machine(
        &self,
        Template { key, spec, secret }: &Template,
        query: &str,
        metric: &AnalysisMetric,
        asker: &str,
    ) -> Result<QueryMachine, String> {
        let is_confined = self.canary.cx.options.cross_namespace == CrossNamespace::Forbidden;
        let environment = cloud_environment();
        let question = MetricQuestion {
            provider: &spec.provider,
            secret: secret.as_ref().map(|(_, data)| &**data),
            query,
            interval: metric.interval(),
            now: self.canary.cx.clock.now(),
            asker,
            confined_to: is_confined.then_some(&*self.canary.key.namespace),
            environment: &environment,
        };
        let machine = if query.is_empty() {
            QueryMachine::probe(&question)
        } else {
            QueryMachine::of(&question)
        };
        let machine = machine.map_err(|error| format!("metric template {key}: {error}"))?;
        if let Some((consent, _)) = secret
            && let Some(host) = machine.receiver()
        {
            let checked = consent.check_host(host).and_then(|()| {
                let is_required = self.canary.cx.options.require_metric_secret_label;
                if is_required { consent.check_label() } else { Ok(()) }
            });
            checked.map_err(|error| format!("metric template {key}: {error}"))?;
            if let Some(warning) = consent.warning(machine.provider(), host) {
                self.warn(warning).await;
            }
        }
        Ok(machine)
    }

    /// Records a warning about a Secret, once for each generation of the canary.
    async fn warn(&self, warning: String) {
        let raw = self.observation.raw();
        if !self.warned.is_first(raw["metadata"]["generation"].as_i64(), &warning) {
            return;
        }
        let fact = Fact::SecretNotLabelled(warning);
        let text = fact.text(&self.observation.names);
        events::record(self.canary, raw, fact.reason(), fact.tone(), &text).await;
    }

    async fn template(&self, reference: &ObjectRef) -> Result<Template, String> {
        let key = reference_key(&self.canary.key.namespace, reference);
        let template = self.canary.cx.cluster.cache.get(METRIC_TEMPLATE, &key);
        let template = template.ok_or_else(|| format!("metric template {key} does not exist"))?;
        let template: MetricTemplate = serde_json::from_value((*template).clone())
            .map_err(|_| format!("metric template {key} cannot be read"))?;
        let secret = match &template.spec.provider.secret_ref {
            Some(secret) => {
                let (cluster, name) = (&self.canary.cx.cluster, &secret.name);
                let secret = secrets::read(cluster, &key.namespace, name).await?;
                Some((Consent::of(&key.namespace, name, &secret), SecretData::of(&secret)))
            }
            None => None,
        };
        Ok(Template { key, spec: template.spec, secret })
    }

    /// The Prometheus of built-in and inline queries.
    fn server(&self) -> Server {
        let own =
            self.observation.inputs.canary.spec.metrics_server.as_ref().filter(|it| !it.is_empty());
        Server {
            address: own.unwrap_or(&self.canary.cx.options.metrics_server).clone(),
            trusted: own.is_none(),
        }
    }

    /// Sends a query to the canary's server, once a check.
    async fn query_shared(&self, text: &str) -> Result<Reading, QueryFailure> {
        let server = self.server();
        self.shared.once(text.to_owned(), query(self.canary, &server, text)).await
    }

    /// Whether every metric backend of this canary answers.
    pub(super) async fn backends(&self) -> Result<(), String> {
        for metric in &self.observation.inputs.canary.spec.analysis.metrics {
            let (name, answer) = match (Builtin::named(&metric.name), &metric.template_ref) {
                (Some(_), _) => ("prometheus", query(self.canary, &self.server(), PROBE).await),
                (None, Some(reference)) => {
                    let template = self.template(reference).await?;
                    let about = format!("{}/{}", self.canary.key, metric.name);
                    let machine = self.machine(&template, "", metric, &about).await?;
                    (machine.provider(), run(self.canary, &machine).await)
                }
                (None, None) => continue,
            };
            match answer {
                Ok(_) if name != "prometheus" => {}
                Ok(reading) if (reading.sample.get() - 1.0).abs() < f64::EPSILON => {}
                Ok(_) => return Err(format!("{name} gives an answer that cannot be read")),
                Err(error) => return Err(format!("{name} is not available: {}", error.text())),
            }
        }
        Ok(())
    }
}

// === impl Warned ===

impl Warned {
    /// Whether a warning is new at this generation.
    fn is_first(&self, generation: Option<i64>, warning: &str) -> bool {
        let mut warned = self.0.lock();
        if warned.0 != generation {
            *warned = (generation, BTreeSet::new());
        }
        warned.1.insert(warning.to_owned())
    }
}

/// A value against its limits.
struct Judgement {
    check: Check,
    measure: Measure,
    /// The query returned several series.
    is_ambiguous: bool,
}

/// Why a metric has no value, as a message.
enum NoValue {
    /// There is nothing to measure.
    NoData(String),
    /// The query failed.
    QueryFailed(String),
}

// === impl NoValue ===

impl NoValue {
    /// The reason, from a failed query of a metric.
    fn of(error: &QueryFailure, metric: &str, observation: &Observation) -> Self {
        match error {
            QueryFailure::Answer(QueryError::NoValue) | QueryFailure::NoData => {
                Self::NoData(format!(
                    "no values found for metric {metric}, probably {} is not receiving traffic",
                    observation.names.target
                ))
            }
            QueryFailure::Request(_) | QueryFailure::Unreachable(_) | QueryFailure::Answer(_) => {
                let why = error.text();
                Self::QueryFailed(format!("the query of metric {metric} failed: {why}"))
            }
        }
    }

    #[expect(clippy::needless_pass_by_value, reason = "for map_err")]
    fn error(error: impl ToString) -> Self {
        Self::QueryFailed(error.to_string())
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
fn created_revision<'a>(model: &Model, target: Option<&'a Value>) -> Result<&'a str, NoValue> {
    let created = target.and_then(|it| it["status"]["latestCreatedRevisionName"].as_str());
    created.filter(|name| !name.is_empty()).ok_or_else(|| {
        let (namespace, name) = (model.namespace(), model.target());
        NoValue::QueryFailed(format!(
            "the Knative Service {namespace}/{name} does not name its newest revision"
        ))
    })
}

#[cfg(test)]
mod tests;
