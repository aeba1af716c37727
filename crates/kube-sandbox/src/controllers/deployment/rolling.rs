//! Rolling update of a Deployment, within `maxSurge` and `maxUnavailable`.

use serde_json::Value;

use super::Rollout;
use crate::{
    controllers::{Next, object::count},
    failure::Outcome,
};

impl Rollout<'_> {
    /// Takes one step: scale up if there is room, else down if enough is available, else report.
    pub(super) fn roll(&mut self) -> Outcome<Next> {
        self.ensure_new()?;
        if self.grow_new()? || self.shrink_old()? {
            return self.report_progress();
        }
        if self.is_complete() {
            self.clean_up()?;
        }
        self.report_progress()
    }

    /// The next size of a new set of size `current`, in the room that the surge leaves.
    pub(super) fn new_size(&self, current: i64) -> i64 {
        if !self.is_rolling() {
            return self.replicas();
        }
        let (total, most) = (self.total("/spec/replicas"), self.replicas() + self.max_surge());
        if total >= most {
            return current;
        }
        current + (most - total).min(self.replicas() - current)
    }

    fn grow_new(&mut self) -> Outcome<bool> {
        let current = self.new_count("/spec/replicas");
        let size = if current > self.replicas() { self.replicas() } else { self.new_size(current) };
        if current == self.replicas() {
            return Ok(false);
        }
        self.scale_new(size)
    }

    /// Scales old sets down as far as availability allows, broken pods first.
    fn shrink_old(&mut self) -> Outcome<bool> {
        if self.old.iter().all(|set| size(set) == 0) {
            return Ok(false);
        }
        let least = self.replicas() - self.max_unavailable();
        // New pods that are not available yet do not replace old ones.
        let new_missing = self.new.as_ref().map_or(0, |new| size(new) - available(new));
        let room = self.total("/spec/replicas") - least - new_missing;
        if room <= 0 {
            return Ok(false);
        }
        let unhealthy = self.drop_unhealthy(room)?;
        let healthy = self.drop_healthy(least)?;
        Ok(unhealthy || healthy)
    }

    fn drop_unhealthy(&mut self, room: i64) -> Outcome<bool> {
        let mut dropped = 0;
        for index in 0..self.old.len() {
            let Some(set) = self.old.get(index) else { break };
            let surplus = (room - dropped).min(size(set) - available(set));
            if size(set) == 0 || surplus <= 0 {
                continue;
            }
            let smaller = size(set) - surplus;
            self.scale_old(index, smaller)?;
            dropped += surplus;
        }
        Ok(dropped > 0)
    }

    fn drop_healthy(&mut self, least: i64) -> Outcome<bool> {
        let mut surplus = self.sets().map(available).sum::<i64>() - least;
        let mut scaled = false;
        for index in 0..self.old.len() {
            let Some(set) = self.old.get(index) else { break };
            let step = size(set).min(surplus);
            if step <= 0 {
                continue;
            }
            let smaller = size(set) - step;
            scaled |= self.scale_old(index, smaller)?;
            surplus -= step;
        }
        Ok(scaled)
    }
}

fn size(set: &Value) -> i64 {
    count(set, "/spec/replicas")
}

/// Available pods of a set, without those about to be deleted: a set that was just scaled down
/// still reports them, and counting them would reduce availability.
fn available(set: &Value) -> i64 {
    count(set, "/status/availableReplicas").min(size(set))
}
