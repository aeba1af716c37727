//! Numbers of pods, given as a count or as a part of the replicas.

/// A number of pods, as the user wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntOrPercent {
    /// So many.
    Count(usize),
    /// So many in a hundred of the replicas.
    Percent(usize),
}

/// How many pods may be missing and how many may be too many while pods are updated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Pods that may be out of service.
    pub unavailable: usize,
    /// Pods there may be on top of the replicas.
    pub surge: usize,
}

// === impl Share ===

impl IntOrPercent {
    /// None at all.
    pub const NONE: Self = Self::Count(0);

    /// The number, a broken one rounded up.
    pub fn rounded_up(self, replicas: usize) -> usize {
        match self {
            Self::Count(count) => count,
            Self::Percent(percent) => percent.saturating_mul(replicas).div_ceil(100),
        }
    }

    /// The number, a broken one rounded down.
    pub fn rounded_down(self, replicas: usize) -> usize {
        match self {
            Self::Count(count) => count,
            Self::Percent(percent) => percent.saturating_mul(replicas) / 100,
        }
    }

    /// As a partition: the pods that stay on old revisions, never more than there are.
    ///
    /// A percentage rounds up, but below 100 % at least one pod is updated: a step that was meant to
    /// try something would otherwise try nothing.
    pub fn as_partition(self, replicas: usize) -> usize {
        let kept = self.rounded_up(replicas).min(replicas);
        match self {
            Self::Percent(percent) if percent < 100 && kept == replicas => kept.saturating_sub(1),
            Self::Percent(_) | Self::Count(_) => kept,
        }
    }
}

// === impl Budget ===

impl Budget {
    /// Of pods without numbers. Nothing missing and nothing extra could never progress: one may be
    /// missing then.
    pub fn of_deployment(unavailable: IntOrPercent, surge: IntOrPercent, replicas: usize) -> Self {
        let surge = surge.rounded_up(replicas);
        if surge > 0 {
            return Self { unavailable: unavailable.rounded_down(replicas), surge };
        }
        Self { unavailable: unavailable.rounded_up(replicas).max(1), surge }
    }

    /// Of numbered pods: nothing missing means that nothing is updated.
    pub fn of_set(unavailable: IntOrPercent, surge: IntOrPercent, replicas: usize) -> Self {
        Self { unavailable: unavailable.rounded_up(replicas), surge: surge.rounded_up(replicas) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use IntOrPercent::{Count, Percent};

    #[test]
    fn a_partition_never_exceeds_the_replicas_and_below_all_leaves_one_to_update() {
        let cases = [
            ("a count is taken as it is", Count(3), 4, 3),
            ("more than there are is all of them", Count(9), 4, 4),
            ("a percentage rounds up", Percent(50), 5, 3),
            ("but leaves one to update", Percent(99), 4, 3),
            ("100 % keeps all", Percent(100), 4, 4),
            ("0 % keeps none", Percent(0), 4, 0),
            ("of nothing there is nothing", Percent(50), 0, 0),
            ("a single pod is updated below 100 %", Percent(1), 1, 0),
        ];
        for (reason, share, replicas, want) in cases {
            assert_eq!(share.as_partition(replicas), want, "{reason}");
        }
    }

    #[test]
    fn a_budget_of_nothing_at_all_lets_one_pod_go() {
        let budget = |unavailable, surge| Budget::of_deployment(unavailable, surge, 4);
        assert_eq!(budget(Count(0), Count(0)), Budget { unavailable: 1, surge: 0 });
        assert_eq!(budget(Count(0), Count(1)), Budget { unavailable: 0, surge: 1 });
    }

    #[test]
    fn unavailable_rounds_up_and_with_surge_down() {
        let budget = |surge| Budget::of_deployment(Percent(30), surge, 5).unavailable;
        assert_eq!(budget(Count(0)), 2);
        assert_eq!(budget(Percent(1)), 1);
    }

    #[test]
    fn a_set_that_may_miss_nothing_updates_nothing() {
        assert_eq!(Budget::of_set(Percent(0), Count(2), 5).unavailable, 0);
        assert_eq!(Budget::of_set(Percent(25), Count(0), 3).unavailable, 1);
    }
}
