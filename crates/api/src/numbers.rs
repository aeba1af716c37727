//! Fractions that may be whole.
//!
//! A limit of 99 is stored as `99`. Rust would write the same `f64` as `99.0`, which the API server
//! takes for a change, so whole values are written without a point.

use serde::{Serialize as _, Serializer};

/// Largest magnitude below which every whole `f64` is exact: 2^53.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// For `#[serde(serialize_with)]` on an optional fraction.
#[expect(clippy::ref_option, reason = "serde hands over a reference to the field")]
pub(crate) fn shortest<S: Serializer>(value: &Option<f64>, to: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) if value.fract() == 0.0 && value.abs() <= EXACT_MAX => {
            #[expect(clippy::cast_possible_truncation, reason = "whole and within 2^53")]
            let whole = *value as i64;
            whole.serialize(to)
        }
        other => other.serialize(to),
    }
}

/// For `#[serde(skip_serializing_if)]` on counters that are left out while zero.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference to the field")]
pub(crate) fn is_zero(count: &i32) -> bool {
    *count == 0
}
