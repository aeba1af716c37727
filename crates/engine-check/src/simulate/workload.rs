//! Pods, as numbers: on the wanted template, and on the previous one.

use tidegate_engine::{Readiness, Unready};

/// A workload with a rolling update that takes one pod a round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Workload {
    pub(super) exists: bool,
    /// The template of its spec.
    pub(super) template: usize,
    /// The replicas of its spec.
    pub(super) replicas: i64,
    /// Available pods of that template.
    pub(super) fresh: i64,
    /// Available pods of an earlier one.
    pub(super) stale: i64,
    /// When it last came closer to its spec.
    pub(super) progress_at: i64,
    /// No pod of it runs, with any number of replicas: its nodes are gone.
    pub(super) is_down: bool,
}

// === impl Workload ===

impl Workload {
    pub(super) fn apply(&mut self, template: usize, now: i64) {
        if self.template != template || !self.exists {
            self.stale += self.fresh;
            self.fresh = 0;
            self.template = template;
            self.progress_at = now;
        }
        self.exists = true;
    }

    pub(super) fn scale(&mut self, replicas: i64, now: i64) {
        if self.replicas < replicas {
            self.progress_at = now;
        }
        self.replicas = replicas;
        self.fresh = self.fresh.min(replicas);
        self.stale = self.stale.min(replicas - self.fresh);
    }

    pub(super) fn delete(&mut self) {
        *self = Self { template: self.template, replicas: self.replicas, ..Self::default() };
    }

    /// One round of its controller and of the kubelet.
    pub(super) fn round(&mut self, starts: bool, now: i64) {
        if !self.exists || self.is_down {
            (self.fresh, self.stale) = (0, 0);
            return;
        }
        if self.fresh < self.replicas {
            if starts {
                self.fresh += 1;
                self.progress_at = now;
            }
        } else if self.fresh > self.replicas {
            self.fresh = self.replicas;
        }
        // Old pods leave as new ones come; with none left to come, at once.
        self.stale = self.stale.min(self.replicas - self.fresh);
    }

    pub(super) fn is_ready(&self) -> bool {
        self.exists && self.replicas > 0 && self.fresh >= self.replicas && self.stale == 0
    }

    pub(super) fn serves(&self) -> bool {
        self.exists && self.fresh + self.stale > 0
    }

    pub(super) fn is_stuck(&self, now: i64, deadline_ms: i64) -> bool {
        let is_late = now - self.progress_at >= deadline_ms;
        self.exists && self.replicas > 0 && !self.is_ready() && is_late
    }

    pub(super) fn readiness(&self, now: i64, deadline_ms: i64) -> Readiness {
        if self.is_ready() {
            return Readiness::Ready;
        }
        let why = if self.fresh == 0 { "no pod is updated" } else { "some pods are not updated" };
        let unready = Unready::new(why, self.serves());
        if self.is_stuck(now, deadline_ms) {
            Readiness::Stuck(unready)
        } else {
            Readiness::Waiting(unready)
        }
    }
}
