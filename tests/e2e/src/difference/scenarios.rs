//! All scenarios, by subject.

use serde_json::{Value, json};

use super::Scenario;

mod deletion;
mod hooks;
mod objects;
mod outcomes;
mod providers;
mod services;
mod strategies;

/// Every scenario. CI plays every fifth, so neighbours are of one kind.
pub fn all() -> Vec<Scenario> {
    let by_subject = [
        strategies::all(),
        providers::all(),
        hooks::all(),
        outcomes::all(),
        objects::all(),
        services::all(),
        deletion::all(),
    ];
    by_subject.into_iter().flatten().collect()
}

/// One step of 50 %, and a check there.
fn by_weight() -> Value {
    json!({ "stepWeight": 50, "maxWeight": 50 })
}

/// The same, with these settings.
fn by_weight_with(settings: Value) -> Value {
    let mut analysis = by_weight();
    super::scenario::merge(&mut analysis, settings);
    analysis
}

/// Both metrics that each provider has queries for.
fn builtin_metrics() -> Value {
    json!([
        { "name": "request-success-rate", "thresholdRange": { "min": 99 }, "interval": "1m" },
        { "name": "request-duration", "thresholdRange": { "max": 500 }, "interval": "30s" },
    ])
}

/// A hook of this type, whose path is its name.
fn hook(kind: &str) -> Value {
    json!({ "name": kind, "type": kind, "url": format!("http://hooks/{kind}") })
}
