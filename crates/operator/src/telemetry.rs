//! The metrics of the operator.
//!
//! The `flagger_*` names, labels and codes are Flagger's and are an interface: dashboards and alerts
//! are built on them. In them `name` is the **target's** name. The `tidegate_*` series are ours.
//!
//! Methods are typed so that a label is a fixed word or the name of an object, never the text of an error.
//! Series of a canary end with [`Telemetry::forget`]; without it they would stay for ever.

mod game;
mod process;
mod series;
mod text;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::Timestamp;
use parking_lot::Mutex;
use prometheus_client::{metrics::family::Family, registry::Registry};
use tidegate_api::canary::status::CanaryPhase;
use tidegate_providers::object::Kind;

use self::series::{
    DecisionLabels, FlaggerSeries, HookLabels, IntGauge, MetricLabels, NamespaceLabels,
    OutcomeLabels, OwnSeries, PhaseLabels, ProviderLabels, ProviderNameLabels, RunLabels,
    TargetLabels, VerdictLabels, WatchLabels, WorkloadLabels,
};
pub use self::{
    game::{GameKind, GameSeries, GameWorkload, HookRun, PodWork, Replicas},
    text::Format,
};

/// All series, and the way to change them. One for the whole operator; share it in an `Arc`.
pub struct Telemetry {
    registry: Registry,
    flagger: FlaggerSeries,
    own: OwnSeries,
    /// Of game workloads.
    pub game: GameSeries,
    /// Which metrics were reported for a canary, so that they can be forgotten.
    analysed: Mutex<BTreeMap<Target, BTreeSet<String>>>,
    /// Namespaces that have a total, so that it can be set to zero.
    namespaces: Mutex<BTreeSet<String>>,
    /// Namespaces whose total is zero, until it was scraped.
    emptied: Mutex<BTreeSet<String>>,
}

/// A canary's target. Flagger's series know no other name of a canary.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
    pub namespace: String,
    /// Of `spec.targetRef`.
    pub name: String,
}

/// How a finished run moved traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Strategy {
    Canary,
    BlueGreen,
    AbTesting,
}

/// Whether a finished run was analysed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Analysis {
    Completed,
    Skipped,
}

/// The result of a check of a rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    Passed,
    /// A value out of its limits, or a query that failed.
    Failed,
    /// Nothing was measured, which counts as a failed check.
    NoData,
    /// Nothing was measured, which counts for nothing.
    Held,
}

/// The outcome of a request to another system. An error brings its own fixed word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Success,
    /// The server answered with a refusal.
    Refused,
    Error(&'static str),
}

// === impl Telemetry ===

impl Telemetry {
    /// All series, registered. `mesh_provider` is the operator's default; `start` is when the
    /// process began.
    pub fn new(version: &str, mesh_provider: &str, start: Timestamp) -> Self {
        let mut registry = Registry::default();
        // A gauge that is always 1, and not an OpenMetrics info: that would be called `_info_info`.
        let info = Family::<Vec<(String, String)>, IntGauge>::default();
        let labels = [("version", version), ("mesh_provider", mesh_provider)];
        let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned()));
        info.get_or_create(&labels.to_vec()).set(1);
        registry.register(
            "flagger_info",
            "Version and default mesh provider of the operator",
            info,
        );
        let flagger = FlaggerSeries::register(&mut registry);
        let own = OwnSeries::register(&mut registry);
        let game = GameSeries::register(&mut registry, version);
        registry.register_collector(Box::new(process::Process::started(start)));
        Self {
            registry,
            flagger,
            own,
            game,
            analysed: Mutex::default(),
            namespaces: Mutex::default(),
            emptied: Mutex::default(),
        }
    }

    /// The page for Prometheus. A namespace without canaries is zero on one page, and omitted from then on.
    pub fn render(&self, format: Format) -> String {
        let page = text::render(&self.registry, format);
        let emptied = std::mem::take(&mut *self.emptied.lock());
        for namespace in emptied {
            self.flagger.total.remove(&NamespaceLabels { namespace });
        }
        page
    }

    /// How many canaries a namespace has.
    pub fn set_total(&self, namespace: &str, canaries: usize) {
        if canaries > 0 {
            self.namespaces.lock().insert(namespace.to_owned());
            self.emptied.lock().remove(namespace);
        } else if self.namespaces.lock().remove(namespace) {
            self.emptied.lock().insert(namespace.to_owned());
        } else {
            return;
        }
        let labels = NamespaceLabels { namespace: namespace.to_owned() };
        self.flagger.total.get_or_create(&labels).set(count(canaries));
    }

    /// How many canaries each namespace has. Namespaces that are not mentioned have none any more.
    pub fn set_totals(&self, totals: &BTreeMap<String, usize>) {
        let known = self.namespaces.lock().clone();
        for namespace in known.iter().filter(|known| !totals.contains_key(*known)) {
            self.set_total(namespace, 0);
        }
        for (namespace, canaries) in totals {
            self.set_total(namespace, *canaries);
        }
    }

    /// The phase of a rollout: Flagger's three codes, and a series of our own that names it.
    pub fn set_status(&self, target: &Target, phase: CanaryPhase) {
        let code = match phase {
            CanaryPhase::Progressing => 0,
            CanaryPhase::Failed => 2,
            // As Flagger: also while waiting and promoting.
            CanaryPhase::Initializing
            | CanaryPhase::Initialized
            | CanaryPhase::Waiting
            | CanaryPhase::WaitingPromotion
            | CanaryPhase::Promoting
            | CanaryPhase::Finalising
            | CanaryPhase::Succeeded
            | CanaryPhase::Terminating
            | CanaryPhase::Terminated
            | CanaryPhase::Unset => 1,
        };
        self.flagger.status.get_or_create(&target.labels()).set(code);
        for other in CanaryPhase::ALL.iter().filter(|other| **other != phase) {
            self.own.phase.remove(&target.phase_labels(*other));
        }
        self.own.phase.get_or_create(&target.phase_labels(phase)).set(1);
    }

    /// The shares of traffic of primary and canary, in percent.
    pub fn set_weight(&self, target: &Target, primary: u8, canary: u8) {
        let [of_primary, of_canary] = target.workloads();
        self.flagger.weight.get_or_create(&of_primary).set(primary.into());
        self.flagger.weight.get_or_create(&of_canary).set(canary.into());
    }

    /// How long a tick took that got as far as checks.
    pub fn observe_duration(&self, target: &Target, duration: Duration) {
        self.flagger.duration.get_or_create(&target.labels()).observe(duration.as_secs_f64());
    }

    /// The last value of a metric of the analysis; seconds for `request-duration`.
    pub fn set_metric(&self, target: &Target, metric: &str, value: f64) {
        self.analysed.lock().entry(target.clone()).or_default().insert(metric.to_owned());
        self.flagger.analysis.get_or_create(&target.metric_labels(metric)).set(value);
    }

    /// A metric has no value any more: an old one would be taken for a new one.
    pub fn clear_metric(&self, target: &Target, metric: &str) {
        if let Some(metrics) = self.analysed.lock().get_mut(target) {
            metrics.remove(metric);
        }
        self.flagger.analysis.remove(&target.metric_labels(metric));
    }

    /// Drops the series of metrics that a canary no longer has.
    pub fn keep_metrics(&self, target: &Target, is_asked: impl Fn(&str) -> bool) {
        let mut analysed = self.analysed.lock();
        let Some(metrics) = analysed.get_mut(target) else { return };
        for metric in metrics.extract_if(.., |metric| !is_asked(metric)) {
            self.flagger.analysis.remove(&target.metric_labels(&metric));
        }
    }

    /// Starts the counters of a canary at zero: the growth of a series that begins at one cannot be seen.
    pub fn expect(&self, target: &Target, strategy: Strategy) {
        let labels = target.run_labels(strategy, Analysis::Completed);
        drop(self.flagger.successes.get_or_create(&labels));
        drop(self.flagger.failures.get_or_create(&labels));
        for verdict in Verdict::ALL {
            drop(self.own.checks.get_or_create(&target.verdict_labels(verdict)));
        }
    }

    /// Counts a check by its verdict.
    pub fn count_check(&self, target: &Target, verdict: Verdict) {
        self.own.checks.get_or_create(&target.verdict_labels(verdict)).inc();
    }

    /// A run ended with the new revision in place.
    pub fn count_success(&self, target: &Target, strategy: Strategy, analysis: Analysis) {
        self.flagger.successes.get_or_create(&target.run_labels(strategy, analysis)).inc();
    }

    /// A run was rolled back, or its promotion failed.
    pub fn count_failure(&self, target: &Target, strategy: Strategy, analysis: Analysis) {
        self.flagger.failures.get_or_create(&target.run_labels(strategy, analysis)).inc();
    }

    /// A canary is gone: so are its series.
    pub fn forget(&self, target: &Target) {
        let flagger = &self.flagger;
        flagger.status.remove(&target.labels());
        flagger.duration.remove(&target.labels());
        for labels in target.workloads() {
            flagger.weight.remove(&labels);
        }
        for metric in self.analysed.lock().remove(target).unwrap_or_default() {
            flagger.analysis.remove(&target.metric_labels(&metric));
        }
        for strategy in Strategy::ALL {
            for analysis in [Analysis::Completed, Analysis::Skipped] {
                let labels = target.run_labels(strategy, analysis);
                flagger.successes.remove(&labels);
                flagger.failures.remove(&labels);
            }
        }
        for phase in CanaryPhase::ALL {
            self.own.phase.remove(&target.phase_labels(*phase));
        }
        for verdict in Verdict::ALL {
            self.own.checks.remove(&target.verdict_labels(verdict));
        }
    }

    /// A reconcile ended; `outcome` is `ok` or the fixed word of its error.
    pub fn count_reconcile(&self, outcome: &'static str, duration: Duration) {
        self.own.reconciles.get_or_create(&OutcomeLabels { outcome }).inc();
        self.own.reconcile_duration.observe(duration.as_secs_f64());
    }

    /// The engine decided; `decision` is the name of the decision.
    pub fn count_decision(&self, decision: &'static str) {
        self.own.decisions.get_or_create(&DecisionLabels { decision }).inc();
    }

    /// A hook was called; `kind` is its type.
    pub fn count_hook(&self, kind: &'static str, outcome: Outcome) {
        let outcome = outcome.as_str();
        self.own.hooks.get_or_create(&HookLabels { r#type: kind, outcome }).inc();
    }

    /// A metrics provider was queried; `provider` is its type.
    pub fn count_query(&self, provider: &'static str, outcome: Outcome, duration: Duration) {
        let labels = ProviderLabels { provider, outcome: outcome.as_str() };
        self.own.queries.get_or_create(&labels).inc();
        let of_provider = ProviderNameLabels { provider };
        self.own.query_duration.get_or_create(&of_provider).observe(duration.as_secs_f64());
    }

    /// An alert was delivered or given up; `provider` is the type of its receiver.
    pub fn count_alert(&self, provider: &'static str, outcome: Outcome) {
        let labels = ProviderLabels { provider, outcome: outcome.as_str() };
        self.own.alerts.get_or_create(&labels).inc();
        if outcome != Outcome::Success {
            self.own.alerts_lost.get_or_create(&ProviderNameLabels { provider }).inc();
        }
    }

    /// An alert that was not delivered is tried again.
    pub fn count_alert_retry(&self, provider: &'static str) {
        self.own.alert_retries.get_or_create(&ProviderNameLabels { provider }).inc();
    }

    /// A reconcile panicked and was caught.
    pub fn count_panic(&self) {
        self.own.panics.inc();
    }

    /// How many objects wait for their turn.
    pub fn set_queue(&self, waiting: usize) {
        self.own.queue.set(count(waiting));
    }

    /// Whether the watch of a kind hears nothing although the server answers.
    pub fn set_watch_silent(&self, kind: Kind, is_silent: bool) {
        let labels = WatchLabels { group: kind.group, kind: kind.kind };
        self.own.watch_silent.get_or_create(&labels).set(is_silent.into());
    }

    /// The API server went back to an earlier state, and everything is listed again.
    pub fn count_rewind(&self) {
        self.own.rewinds.inc();
    }

    pub fn set_leader(&self, leads: bool) {
        self.own.leader.set(leads.into());
    }
}

impl std::fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Telemetry").finish_non_exhaustive()
    }
}

fn count(things: usize) -> i64 {
    i64::try_from(things).unwrap_or(i64::MAX)
}

// === impl Target ===

impl Target {
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    fn labels(&self) -> TargetLabels {
        TargetLabels { name: self.name.clone(), namespace: self.namespace.clone() }
    }

    /// Primary first.
    fn workloads(&self) -> [WorkloadLabels; 2] {
        [format!("{}-primary", self.name), self.name.clone()]
            .map(|workload| WorkloadLabels { workload, namespace: self.namespace.clone() })
    }

    fn metric_labels(&self, metric: &str) -> MetricLabels {
        let TargetLabels { name, namespace } = self.labels();
        MetricLabels { name, namespace, metric: metric.to_owned() }
    }

    fn run_labels(&self, strategy: Strategy, analysis: Analysis) -> RunLabels {
        let TargetLabels { name, namespace } = self.labels();
        let (deployment_strategy, analysis_status) = (strategy.as_str(), analysis.as_str());
        RunLabels { name, namespace, deployment_strategy, analysis_status }
    }

    fn verdict_labels(&self, verdict: Verdict) -> VerdictLabels {
        let TargetLabels { name, namespace } = self.labels();
        VerdictLabels { name, namespace, verdict: verdict.as_str() }
    }

    fn phase_labels(&self, phase: CanaryPhase) -> PhaseLabels {
        let TargetLabels { name, namespace } = self.labels();
        PhaseLabels { name, namespace, phase: phase.as_str() }
    }
}

// === impl Strategy ===

impl Strategy {
    const ALL: [Self; 3] = [Self::Canary, Self::BlueGreen, Self::AbTesting];

    fn as_str(self) -> &'static str {
        match self {
            Self::Canary => "canary",
            Self::BlueGreen => "blue-green",
            Self::AbTesting => "ab-testing",
        }
    }
}

// === impl Analysis ===

impl Analysis {
    fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Skipped => "skipped",
        }
    }
}

// === impl Verdict ===

impl Verdict {
    const ALL: [Self; 4] = [Self::Passed, Self::Failed, Self::NoData, Self::Held];

    fn as_str(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::NoData => "no_data",
            Self::Held => "held",
        }
    }
}

// === impl Outcome ===

impl Outcome {
    fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Refused => "refused",
            Self::Error(word) => word,
        }
    }
}

#[cfg(test)]
mod tests;
