//! The primary's scaler: a copy of the target's that scales the primary.
//!
//! It is made whenever it is missing and follows the target's only on promotion: bounds and metrics
//! are part of what is rolled out. Each kind of scaler has a file; so far there is [`hpa`].

pub mod hpa;

use serde_json::Value;
use tidegate_api::canary::AutoscalerRef;

/// Name of the primary's scaler.
pub fn primary_name(autoscaler: &AutoscalerRef) -> String {
    format!("{}-primary", autoscaler.name)
}

/// Replica bounds of the primary's scaler: those the canary sets, else the target's.
///
/// `min` and `max` name the members of the scaler's spec. An absent minimum is `None`.
fn bounds(
    autoscaler: &AutoscalerRef,
    spec: &Value,
    (min, max): (&str, &str),
) -> (Option<i64>, Option<i64>) {
    let set = autoscaler.primary_scaler_replicas.as_ref();
    let set_min = set.and_then(|set| set.min_replicas).map(i64::from);
    let set_max = set.and_then(|set| set.max_replicas).map(i64::from);
    (set_min.or_else(|| spec[min].as_i64()), set_max.or_else(|| spec[max].as_i64()))
}
