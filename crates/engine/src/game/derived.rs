//! Values derived from an observation alone, looked up again and again in one decision.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Again, Moment, Revision};

use super::{
    Action, Counts, Json, Observed, PauseReason, Pod, ResumeBy, UpdateWay, WorkloadKind, in_place,
    pod_hooks,
};

/// An observation with the values derived from it.
pub(super) struct Derived<'a> {
    pub(super) seen: &'a Observed,
    /// Pods that count as replicas.
    pub(super) pods: Vec<&'a Pod>,
    /// The step being taken.
    pub(super) step: usize,
    /// Pods that stay on old revisions.
    pub(super) partition: usize,
    /// The revision that old pods are made of.
    pub(super) base: Revision,
    /// Pods with a run of a hook before an operation, by uid.
    asked: BTreeSet<&'a str>,
    /// Images by revision.
    images: BTreeMap<Revision, BTreeMap<String, String>>,
    /// Pods of the new revision that count for the step, ready for long enough.
    pub(super) in_step: usize,
    /// Pods of the new revision among the replicas, ready for long enough.
    pub(super) done: usize,
    pub(super) counts: Counts,
    /// The release is about to stop or to roll back: no further pods are chosen.
    pub(super) is_halted: bool,
}

impl<'a> Derived<'a> {
    pub(super) fn of(seen: &'a Observed) -> Self {
        let is_set = matches!(seen.plan.kind, WorkloadKind::StatefulSet(_));
        let pods: Vec<&Pod> = seen.pods.iter().filter(|pod| is_set || pod.is_active()).collect();
        let step = step_of(seen);
        let partition = seen.plan.partition_at(step);
        let revisions = seen.revisions.iter();
        let images = revisions.map(|known| (known.name.clone(), in_place::images(&known.template)));
        let mut derived = Self {
            seen,
            pods,
            step,
            partition,
            base: seen.update.clone(),
            asked: pod_hooks::asked(seen),
            images: images.collect(),
            in_step: 0,
            done: 0,
            counts: Counts::default(),
            is_halted: false,
        };
        (derived.in_step, derived.done) = derived.progress(is_set);
        derived.base = derived.base();
        derived.counts = derived.count();
        derived
    }

    /// Pods that are deleted in this look do not count for the step any more.
    pub(super) fn leave(&mut self, actions: &[Action]) {
        let leaves = |pod: &Pod| {
            actions.iter().any(
                |action| matches!(action, Action::Delete(leaving, _) if leaving.uid == pod.uid),
            )
        };
        let pods = self.pods.clone();
        self.pods.retain(|pod| !leaves(pod));
        let is_set = matches!(self.seen.plan.kind, WorkloadKind::StatefulSet(_));
        (self.in_step, self.done) = self.progress(is_set);
        self.pods = pods;
    }

    /// The template of a revision.
    pub(super) fn template(&self, revision: &Revision) -> Option<&'a Json> {
        let known = self.seen.revisions.iter().find(|known| known.name == *revision)?;
        Some(&known.template)
    }

    /// A hook before an operation on this pod was begun.
    pub(super) fn is_asked(&self, pod: &Pod) -> bool {
        self.asked.contains(pod.uid.as_str())
    }

    /// The last update of the pod is over.
    pub(super) fn is_complete(&self, pod: &Pod) -> bool {
        let none = BTreeMap::new();
        let images = pod.revision.as_ref().and_then(|revision| self.images.get(revision));
        pod.is_update_complete(images.unwrap_or(&none))
    }

    fn is_settled(&self, pod: &Pod) -> bool {
        let none = BTreeMap::new();
        let images = pod.revision.as_ref().and_then(|revision| self.images.get(revision));
        pod.is_settled(images.unwrap_or(&none))
    }

    /// It serves, within the meaning of the budget of an update.
    pub(super) fn is_serving(&self, pod: &Pod) -> bool {
        let Observed { now, plan, .. } = self.seen;
        let none = BTreeMap::new();
        let images = pod.revision.as_ref().and_then(|revision| self.images.get(revision));
        pod.is_update_ready(*now, plan.min_ready, images.unwrap_or(&none))
    }

    /// Of the new revision, with nothing in progress, and ready for long enough.
    fn is_done(&self, pod: &Pod) -> bool {
        let Observed { now, plan, update, .. } = self.seen;
        pod.is_of(update)
            && pod.is_active()
            && self.is_settled(pod)
            && pod.is_available(*now, plan.min_ready)
    }

    fn progress(&self, is_set: bool) -> (usize, usize) {
        let replicas = self.seen.plan.replicas;
        let done = |from: usize| {
            let counts = |pod: &&&Pod| {
                let is_in = |ordinal: usize| (from..replicas).contains(&ordinal);
                (!is_set || pod.ordinal.is_some_and(is_in)) && self.is_done(pod)
            };
            self.pods.iter().filter(counts).count()
        };
        (done(self.partition), done(0))
    }

    fn count(&self) -> Counts {
        let Observed { now, plan, update, .. } = self.seen;
        let count = |test: &dyn Fn(&Pod) -> bool| self.pods.iter().filter(|pod| test(pod)).count();
        let is_set = plan.kind != WorkloadKind::Deployment;
        Counts {
            replicas: self.pods.len(),
            ready: count(&|pod| pod.is_ready()),
            available: count(&|pod| pod.is_available(*now, plan.min_ready)),
            current: count(&|pod| is_set && pod.is_active() && pod.is_of(&self.base)),
            updated: count(&|pod| pod.is_active() && pod.is_of(update)),
            updated_ready: count(&|pod| {
                pod.is_active() && pod.is_of(update) && pod.is_ready() && self.is_settled(pod)
            }),
            updated_available: count(&|pod| self.is_done(pod)),
            expected_updated: plan.replicas - self.partition.min(plan.replicas),
        }
    }

    /// As many pods as this step asks for are updated and available.
    pub(super) fn is_target_reached(&self) -> bool {
        self.in_step >= self.counts.expected_updated
    }

    /// All replicas are updated and available. Pods without numbers may be more than the replicas: the
    /// release is not over while an old pod that a surplus one replaces waits for its hook. One that is being
    /// deleted is not waited for.
    pub(super) fn is_complete_release(&self) -> bool {
        let Observed { plan, update, .. } = self.seen;
        let is_left = || self.pods.iter().any(|pod| pod.is_active() && !pod.is_of(update));
        self.done >= plan.replicas && (plan.kind != WorkloadKind::Deployment || !is_left())
    }

    /// Pods of older revisions that only a person replaces, if nothing else is waited for.
    pub(super) fn kept_by_hand(&self) -> usize {
        let Observed { plan, update, .. } = self.seen;
        let active = || self.pods.iter().filter(|pod| pod.is_active());
        let old = active().filter(|pod| !pod.is_of(update)).count();
        let is_busy = active().count() < plan.replicas
            || active().any(|pod| pod.is_of(update) && !self.is_done(pod));
        if plan.way == UpdateWay::OnDelete && !is_busy { old } else { 0 }
    }

    /// The revision old pods are made of: the stable one, or the one this release began with, until
    /// all pods are updated. Pods may all be lost; their revision must not be.
    fn base(&self) -> Revision {
        let Observed { memory, update, .. } = self.seen;
        let is_known = |revision: &&Revision| self.template(revision).is_some();
        if let Some(stable) = memory.stable.as_ref().filter(is_known) {
            return stable.clone();
        }
        let before = memory.current.as_ref().filter(is_known);
        // A template that was reverted before its release was over: the released revision is not kept.
        if before == Some(update) {
            return update.clone();
        }
        if let Some(before) = before
            && !self.is_complete_release()
        {
            return before.clone();
        }
        // A template that changed since the last look comes from the previous one.
        if let Some(before) = memory.update.as_ref().filter(is_known)
            && before != update
        {
            return before.clone();
        }
        let mut carried =
            self.seen.revisions.iter().filter(|known| {
                self.pods.iter().any(|pod| pod.is_active() && pod.is_of(&known.name))
            });
        let lowest = carried.by_ref().min_by_key(|known| known.number);
        lowest.map_or_else(|| update.clone(), |known| known.name.clone())
    }

    /// There is another revision to come from.
    pub(super) fn differs(&self) -> bool {
        self.base != self.seen.update
    }

    /// No further pods are chosen.
    pub(super) fn is_paused(&self) -> bool {
        self.is_halted || self.is_held()
    }

    /// The release is held, as far as that is written down.
    pub(super) fn is_held(&self) -> bool {
        self.seen.plan.paused.value || !self.seen.memory.pauses.is_empty()
    }

    /// Pods that stay on old revisions, for those that are made in this look. A step that is not written
    /// down yet makes no pod new that was not before.
    pub(super) fn partition_of_new_pods(&self) -> usize {
        if !self.is_halted || !self.differs() {
            return self.partition;
        }
        let Observed { plan, memory, .. } = self.seen;
        let written = memory.step.unwrap_or_else(|| plan.steps().len());
        self.partition.max(plan.partition_at(written))
    }

    /// A person holds the release: `paused` was set by another writer, or we set it on request.
    ///
    /// With [`ResumeBy::Annotation`] it ends only when we clear `paused`, which we do when asked to:
    /// a tool that applies `paused: false` again and again ends nothing.
    pub(super) fn is_held_by_user(&self) -> bool {
        let Observed { plan, memory, .. } = self.seen;
        let was_held = memory.pause(PauseReason::User).is_some();
        match (plan.paused.value, plan.paused.is_ours) {
            (true, false) => true,
            (true, true) => was_held,
            (false, true) => false,
            (false, false) => was_held && plan.resume_by() == ResumeBy::Annotation,
        }
    }

    /// A pod that is neither of the stable nor of the new revision.
    pub(super) fn is_abandoned(&self, pod: &Pod) -> bool {
        !pod.is_of(&self.base) && !pod.is_of(&self.seen.update)
    }
}

fn step_of(seen: &Observed) -> usize {
    let all = seen.plan.steps().len();
    let hash = seen.plan.canary.as_ref().map(|canary| &canary.hash);
    let is_current = seen.memory.update.as_ref() == Some(&seen.update)
        && seen.memory.steps_hash.as_ref() == hash;
    match seen.memory.step {
        Some(step) if is_current => step.min(all),
        // The step is 0 once that is written down: nothing further is updated until it is.
        Some(_) | None if all > 0 && seen.memory.stable.as_ref() != Some(&seen.update) => 0,
        Some(_) | None => all,
    }
}

/// The earlier of both.
pub(super) fn sooner(again: Again, at: Moment) -> Again {
    match again {
        Again::Now => Again::Now,
        Again::At(other) => Again::At(other.min(at)),
        Again::OnChange => Again::At(at),
    }
}
