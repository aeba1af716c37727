//! Metrics of a canary: its phase, weights, checks and ended rollouts.

use tidegate_api::canary::Strategy as Asked;
use tidegate_engine::{Checks, Outcome, Phase, Split, Verdict};
use tidegate_providers::canary::api_phase;

use super::observation::Observation;
use crate::telemetry::{self, Strategy, Telemetry};

/// The phase, and gauges that follow the phase and the spec.
pub(super) fn set_phase(telemetry: &Telemetry, observation: &Observation, phase: Phase) {
    let analysis = &observation.inputs.canary.spec.analysis;
    telemetry.set_status(&observation.labels, api_phase(phase));
    telemetry.expect(&observation.labels, strategy(analysis.strategy()));
    let is_asked = |name: &str| analysis.metrics.iter().any(|metric| metric.name == name);
    telemetry.keep_metrics(&observation.labels, is_asked);
}

pub(super) fn set_weight(telemetry: &Telemetry, observation: &Observation, split: Split) {
    let (primary, canary) = (split.canary.rest().get(), split.canary.get());
    telemetry.set_weight(&observation.labels, primary, canary);
}

pub(super) fn count_check(telemetry: &Telemetry, observation: &Observation, checks: &Checks) {
    let verdict = match checks.verdict {
        Verdict::Passed => telemetry::Verdict::Passed,
        Verdict::Failed(_) => telemetry::Verdict::Failed,
        Verdict::NoData(_) => telemetry::Verdict::NoData,
        Verdict::Held(_) => telemetry::Verdict::Held,
    };
    telemetry.count_check(&observation.labels, verdict);
}

/// Counts a rollout that has ended.
pub(super) fn count_rollout(telemetry: &Telemetry, observation: &Observation, outcome: Outcome) {
    let strategy = strategy(observation.inputs.canary.spec.analysis.strategy());
    let (completed, skipped) = (telemetry::Analysis::Completed, telemetry::Analysis::Skipped);
    let labels = &observation.labels;
    match outcome {
        Outcome::Completed => telemetry.count_success(labels, strategy, completed),
        Outcome::Skipped => telemetry.count_success(labels, strategy, skipped),
        Outcome::Failed => telemetry.count_failure(labels, strategy, completed),
    }
}

fn strategy(asked: Asked) -> Strategy {
    match asked {
        Asked::Canary => Strategy::Canary,
        Asked::AbTesting => Strategy::AbTesting,
        Asked::BlueGreen => Strategy::BlueGreen,
    }
}

#[cfg(test)]
mod tests;
