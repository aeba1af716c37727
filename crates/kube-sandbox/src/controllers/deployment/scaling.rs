//! Scaling: of one ReplicaSet, and of all sets when the Deployment itself was resized.
//!
//! Also runs while the rollout is paused. The size of the Deployment is recorded on its sets, so
//! that a later resize is detected.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{DESIRED_REPLICAS, MAX_REPLICAS, Rollout, created};
use crate::{
    cluster::REPLICA_SETS,
    controllers::object::{annotation, count, name, set_at},
    failure::Outcome,
};

impl Rollout<'_> {
    /// True if the Deployment's size differs from the size recorded on an active set.
    pub(super) fn was_scaled(&self) -> bool {
        let active = self.sets().filter(|set| count(set, "/spec/replicas") > 0);
        active
            .filter_map(|set| remembered(set, DESIRED_REPLICAS))
            .any(|desired| desired != self.replicas())
    }

    pub(super) fn scale_new(&mut self, size: i64) -> Outcome<bool> {
        let Some(set) = self.new.clone() else { return Ok(false) };
        let (set, scaled) = self.resize(set, size, false)?;
        self.new = Some(set);
        Ok(scaled)
    }

    pub(super) fn scale_old(&mut self, index: usize, size: i64) -> Outcome<bool> {
        let Some(set) = self.old.get(index).cloned() else { return Ok(false) };
        let (set, scaled) = self.resize(set, size, false)?;
        if let Some(place) = self.old.get_mut(index) {
            *place = set;
        }
        Ok(scaled)
    }

    /// Scales a set; `always` also refreshes the recorded size of the Deployment.
    fn resize(&mut self, set: Value, size: i64, always: bool) -> Outcome<(Value, bool)> {
        let old_size = count(&set, "/spec/replicas");
        if old_size == size && !always {
            return Ok((set, false));
        }
        let mut changed = set;
        let refreshed = self.annotate_sizes(&mut changed);
        if old_size == size && !refreshed {
            return Ok((changed, false));
        }
        set_at(&mut changed, &["spec", "replicas"], size);
        let stored = self.cluster.update(REPLICA_SETS, "", changed)?;
        if old_size != size {
            let direction = if old_size < size { "up" } else { "down" };
            let set_name = name(&stored).to_owned();
            let message =
                format!("Scaled {direction} replica set {set_name} from {old_size} to {size}");
            self.record("ScalingReplicaSet", &message);
        }
        Ok((stored, old_size != size))
    }

    /// Distributes a change of the Deployment's size over its sets.
    pub(super) fn scale(&mut self) -> Outcome<()> {
        let active = self.sets().filter(|set| count(set, "/spec/replicas") > 0).count();
        if active <= 1 {
            return self.scale_only_set();
        }
        if self.new_is_saturated() {
            for index in 0..self.old.len() {
                self.scale_old(index, 0)?;
            }
            return Ok(());
        }
        if self.is_rolling() { self.scale_in_proportion() } else { Ok(()) }
    }

    fn scale_only_set(&mut self) -> Outcome<()> {
        let replicas = self.replicas();
        let active = |set: &Value| count(set, "/spec/replicas") > 0;
        if let Some(index) = self.old.iter().position(active) {
            self.scale_old(index, replicas)?;
        } else if self.new.is_some() {
            self.scale_new(replicas)?;
        } else if !self.old.is_empty() {
            self.scale_old(self.old.len() - 1, replicas)?;
        }
        Ok(())
    }

    /// True if the new set has all its pods, and they are available.
    fn new_is_saturated(&self) -> bool {
        let Some(new) = &self.new else { return false };
        let replicas = self.replicas();
        count(new, "/spec/replicas") == replicas
            && remembered(new, DESIRED_REPLICAS) == Some(replicas)
            && count(new, "/status/availableReplicas") == replicas
    }

    /// Keeps the ratio between the sets, so that scaling does not speed up the rollout.
    fn scale_in_proportion(&mut self) -> Outcome<()> {
        let size = |set: &Value| count(set, "/spec/replicas");
        let mut active: Vec<Value> = self.sets().filter(|set| size(set) > 0).cloned().collect();
        let allowed = if self.replicas() > 0 { self.replicas() + self.max_surge() } else { 0 };
        let to_add = allowed - active.iter().map(size).sum::<i64>();
        active.sort_by(|one, other| {
            let by_age = created(one).cmp(&created(other));
            // Among sets of equal size the newer grows first and the older shrinks first.
            let by_age = if to_add > 0 { by_age.reverse() } else { by_age };
            size(other).cmp(&size(one)).then(by_age)
        });
        let mut added = 0;
        let mut sizes = BTreeMap::new();
        for set in &active {
            let share = self.share(set, to_add, added);
            sizes.insert(name(set).to_owned(), size(set) + share);
            added += share;
        }
        // The rounding remainder goes to the largest set.
        if let Some(largest) = active.first().and_then(|set| sizes.get_mut(name(set))) {
            *largest = (*largest + to_add - added).max(0);
        }
        for set in active {
            let size = sizes.get(name(&set)).copied().unwrap_or_default();
            let (stored, _) = self.resize(set, size, true)?;
            self.put_back(&stored);
        }
        Ok(())
    }

    /// The part of `to_add` for `set`, with `added` already distributed.
    fn share(&self, set: &Value, to_add: i64, added: i64) -> i64 {
        let left = to_add - added;
        if left == 0 {
            return 0;
        }
        let share = self.fraction(set);
        if to_add > 0 { share.min(left) } else { share.max(left) }
    }

    fn fraction(&self, set: &Value) -> i64 {
        let size = count(set, "/spec/replicas");
        if self.replicas() == 0 {
            return -size;
        }
        let before = remembered(set, MAX_REPLICAS).filter(|max| *max > 0);
        let before = before.unwrap_or_else(|| count(&self.deployment, "/status/replicas"));
        if before == 0 {
            return 0;
        }
        // Rounded half up; all numbers here are positive.
        let after = self.replicas() + self.max_surge();
        (2 * size * after + before) / (2 * before) - size
    }

    fn put_back(&mut self, set: &Value) {
        let place = self.old.iter_mut().chain(&mut self.new);
        for old in place.filter(|old| name(old) == name(set)) {
            old.clone_from(set);
        }
    }
}

/// A number recorded on a set when it was last resized.
fn remembered(set: &Value, key: &str) -> Option<i64> {
    annotation(set, key)?.parse::<u32>().ok().map(i64::from)
}
