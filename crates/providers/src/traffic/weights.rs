//! Two weights and the share they mean.

use serde_json::Value;
use tidegate_engine::Percent;

/// The weights of the two sides, as found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Weights {
    pub(super) primary: i64,
    pub(super) canary: i64,
}

/// The weight a destination has; `absent` is what the API takes a missing one for.
pub(super) fn weight(destination: &Value, absent: i64) -> Option<i64> {
    match &destination["weight"] {
        Value::Null => Some(absent),
        found => found.as_i64(),
    }
}

// === impl Weights ===

impl Weights {
    /// The canary's share, if the two are what we write: whole, none below 0, 100 together.
    pub(super) fn exact(self) -> Option<Percent> {
        let canary = Percent::new(self.canary)?;
        (i64::from(canary.rest()) == self.primary).then_some(canary)
    }

    /// The share of traffic the canary really has: weights are relative. `None` if there is no
    /// traffic to have.
    pub(super) fn nearest(self) -> Option<Percent> {
        let (primary, canary) = (i128::from(self.primary.max(0)), i128::from(self.canary.max(0)));
        let total = primary + canary;
        let percent = (canary * 100 + total / 2).checked_div(total)?;
        i64::try_from(percent).ok().and_then(Percent::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_adds_up_to_a_hundred_is_exact() {
        let cases = [
            ("a plain division", 60, 40, Some(40), Some(40)),
            ("relative weights mean a share all the same", 1, 1, None, Some(50)),
            ("no traffic at all is never a share", 0, 0, None, None),
            ("below zero is nothing", -5, 10, None, Some(100)),
            ("more than everything", 0, 101, None, Some(100)),
            ("sums that would overflow", i64::MAX, i64::MAX, None, Some(50)),
        ];
        for (reason, primary, canary, exact, nearest) in cases {
            let weights = Weights { primary, canary };
            assert_eq!(weights.exact().map(i64::from), exact, "{reason}");
            assert_eq!(weights.nearest().map(i64::from), nearest, "{reason}");
        }
    }
}
