//! The series themselves: their names, labels and kinds. A name here is an interface.

use std::sync::atomic::{AtomicI64, AtomicU64};

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};
use tidegate_api::alert_provider::AlertProviderType;

pub(super) type IntGauge = Gauge<i64, AtomicI64>;
pub(super) type FloatGauge = Gauge<f64, AtomicU64>;

pub(super) struct FlaggerSeries {
    pub(super) total: Family<NamespaceLabels, IntGauge>,
    pub(super) status: Family<TargetLabels, IntGauge>,
    pub(super) weight: Family<WorkloadLabels, IntGauge>,
    pub(super) duration: Family<TargetLabels, Histogram>,
    pub(super) analysis: Family<MetricLabels, FloatGauge>,
    pub(super) successes: Family<RunLabels, Counter>,
    pub(super) failures: Family<RunLabels, Counter>,
}

pub(super) struct OwnSeries {
    pub(super) phase: Family<PhaseLabels, IntGauge>,
    pub(super) reconciles: Family<OutcomeLabels, Counter>,
    pub(super) reconcile_duration: Histogram,
    pub(super) decisions: Family<DecisionLabels, Counter>,
    pub(super) hooks: Family<HookLabels, Counter>,
    pub(super) queries: Family<ProviderLabels, Counter>,
    pub(super) query_duration: Family<ProviderNameLabels, Histogram>,
    pub(super) alerts: Family<ProviderLabels, Counter>,
    pub(super) alerts_lost: Family<ProviderNameLabels, Counter>,
    pub(super) alert_retries: Family<ProviderNameLabels, Counter>,
    pub(super) checks: Family<VerdictLabels, Counter>,
    pub(super) panics: Counter,
    pub(super) queue: IntGauge,
    pub(super) leader: IntGauge,
    pub(super) watch_silent: Family<WatchLabels, IntGauge>,
    pub(super) rewinds: Counter,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct WatchLabels {
    pub(super) group: &'static str,
    pub(super) kind: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct NamespaceLabels {
    pub(super) namespace: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct TargetLabels {
    pub(super) name: String,
    pub(super) namespace: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct WorkloadLabels {
    pub(super) workload: String,
    pub(super) namespace: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct MetricLabels {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) metric: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct RunLabels {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) deployment_strategy: &'static str,
    pub(super) analysis_status: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct PhaseLabels {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) phase: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct VerdictLabels {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) verdict: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct OutcomeLabels {
    pub(super) outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct DecisionLabels {
    pub(super) decision: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct HookLabels {
    pub(super) r#type: &'static str,
    pub(super) outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct ProviderLabels {
    pub(super) provider: &'static str,
    pub(super) outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct ProviderNameLabels {
    pub(super) provider: &'static str,
}

/// Prometheus' default buckets, which Flagger's histogram has.
const DURATION_BUCKETS_S: [f64; 11] =
    [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

// === impl FlaggerSeries ===

impl FlaggerSeries {
    /// Counters are registered without the `_total` that the encoder appends.
    pub(super) fn register(registry: &mut Registry) -> Self {
        let series = Self {
            total: Family::default(),
            status: Family::default(),
            weight: Family::default(),
            duration: Family::new_with_constructor(durations),
            analysis: Family::default(),
            successes: Family::default(),
            failures: Family::default(),
        };
        let (name, help) = ("flagger_canary_total", "Canaries in the namespace");
        registry.register(name, help, series.total.clone());
        let (name, help) = ("flagger_canary_status", "0 progressing, 2 failed, 1 anything else");
        registry.register(name, help, series.status.clone());
        let (name, help) = ("flagger_canary_weight", "Share of traffic of a workload in percent");
        registry.register(name, help, series.weight.clone());
        let (name, help) = ("flagger_canary_duration_seconds", "Time that a tick with checks took");
        registry.register(name, help, series.duration.clone());
        let (name, help) = ("flagger_canary_metric_analysis", "Last value of a metric");
        registry.register(name, help, series.analysis.clone());
        let (name, help) = ("flagger_canary_successes", "Runs that ended with a promotion");
        registry.register(name, help, series.successes.clone());
        let (name, help) = ("flagger_canary_failures", "Runs that ended without one");
        registry.register(name, help, series.failures.clone());
        series
    }
}

/// A function and not a closure, so that the families have a type one can write down.
fn durations() -> Histogram {
    Histogram::new(DURATION_BUCKETS_S)
}

// === impl OwnSeries ===

impl OwnSeries {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let own = Self {
            phase: Family::default(),
            reconciles: Family::default(),
            reconcile_duration: durations(),
            decisions: Family::default(),
            hooks: Family::default(),
            queries: Family::default(),
            query_duration: Family::new_with_constructor(durations),
            alerts: Family::default(),
            alerts_lost: Family::default(),
            alert_retries: Family::default(),
            checks: Family::default(),
            panics: Counter::default(),
            queue: IntGauge::default(),
            leader: IntGauge::default(),
            watch_silent: Family::default(),
            rewinds: Counter::default(),
        };
        let registry = registry.sub_registry_with_prefix("tidegate");
        registry.register(
            "canary_phase",
            "1 for the phase that a rollout is in",
            own.phase.clone(),
        );
        let help = "Checks of a rollout: passed, failed, no_data or held";
        registry.register("canary_checks", help, own.checks.clone());
        registry.register("reconciles", "Reconciles by outcome", own.reconciles.clone());
        let name = "reconcile_duration_seconds";
        registry.register(name, "Time that a reconcile took", own.reconcile_duration.clone());
        registry.register("decisions", "Decisions of the engine", own.decisions.clone());
        registry.register("hooks", "Hooks asked, by type and outcome", own.hooks.clone());
        let help = "Questions to metrics providers, by outcome";
        registry.register("metric_queries", help, own.queries.clone());
        let name = "metric_query_duration_seconds";
        let help = "Time that metrics providers took to answer";
        registry.register(name, help, own.query_duration.clone());
        let help = "Alerts delivered or given up, by receiver and outcome";
        registry.register("alerts", help, own.alerts.clone());
        let help = "Alerts given up, by receiver";
        registry.register("alerts_lost", help, own.alerts_lost.clone());
        // From the start, so that the first one that is lost is an increase.
        let receivers = AlertProviderType::ALL.iter().map(|receiver| receiver.as_str());
        for provider in receivers.chain(["none"]) {
            drop(own.alerts_lost.get_or_create(&ProviderNameLabels { provider }));
        }
        let help = "Attempts to deliver an alert after the first";
        registry.register("alert_retries", help, own.alert_retries.clone());
        registry.register("panics", "Reconciles that panicked and were caught", own.panics.clone());
        registry.register("queue_depth", "Objects that wait for their turn", own.queue.clone());
        registry.register("leader", "1 if this process leads", own.leader.clone());
        let help = "1 while a watch hears nothing although the API server answers";
        registry.register("watch_silent", help, own.watch_silent.clone());
        let help = "Times that the API server went back to an earlier state";
        registry.register("watch_rewinds", help, own.rewinds.clone());
        own
    }
}
