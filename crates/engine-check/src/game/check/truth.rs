//! Counts of pods as an observer beside the cluster would make them.
//!
//! None of it is shared with the decisions: an error in how they count must not be made here too.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_engine::{
    Moment, Revision,
    game::{
        Action, CanaryStep, IntOrPercent, Json, Observed, Pod, PodChange, PodPhase, ReadinessGate,
        Ready, WorkloadKind,
    },
};

/// Containers whose images were changed and that were not seen to start since, by pod and name.
#[derive(Clone, Debug, Default)]
pub(super) struct Changing {
    containers: BTreeMap<(String, String), Running>,
}

/// The image that a container still runs. No clock is read: that of its node may be another.
#[derive(Clone, Debug)]
struct Running {
    image: String,
    id: Option<String>,
    started: Option<Moment>,
}

/// The cluster, and what was seen of its past.
pub(super) struct Truth<'a> {
    pub(super) world: &'a Observed,
    pub(super) changing: &'a Changing,
}

// === impl Changing ===

impl Changing {
    /// Forgets changes that are over.
    pub(super) fn look(&mut self, world: &Observed) {
        self.containers.retain(|(uid, name), runs| {
            let pod = world.pods.iter().find(|pod| pod.uid == *uid);
            let container = pod.and_then(|pod| pod.containers.iter().find(|it| it.name == *name));
            container.is_some_and(|it| it.image_id == runs.id && it.started == runs.started)
        });
    }

    /// Takes note of a change by this action.
    pub(super) fn note(&mut self, world: &Observed, action: &Action) {
        match action {
            Action::ApplyGrace(change) => self.change(world, change),
            Action::UpdateInPlace(change) if change.grace.is_none() => self.change(world, change),
            Action::Create(_)
            | Action::Delete(..)
            | Action::ForceDelete(_)
            | Action::Mark(_)
            | Action::Unmark(_)
            | Action::SetGate(..)
            | Action::UpdateInPlace(_)
            | Action::DropGrace(_)
            | Action::HotPatch(_)
            | Action::ClearPostHook(_)
            | Action::Identify(_)
            | Action::StartHook(_)
            | Action::TerminateHook(_)
            | Action::DeleteHook(_)
            | Action::SetPaused(_)
            | Action::ResumeAndClear(_)
            | Action::ClearCommand
            | Action::RestoreTemplate { .. }
            | Action::ResetRetry(_)
            | Action::PrunePodsToDelete(_)
            | Action::Remember(_)
            | Action::DropRevisions(_)
            | Action::Announce(_) => {}
        }
    }

    fn change(&mut self, world: &Observed, change: &PodChange) {
        let Some(pod) = world.pods.iter().find(|pod| pod.uid == change.pod.uid) else { return };
        for (name, image) in &change.images {
            let Some(container) = pod.containers.iter().find(|it| it.name == *name) else {
                continue;
            };
            let key = (pod.uid.clone(), name.clone());
            let earlier = self.containers.remove(&key).map(|runs| runs.image);
            let runs = Running {
                image: earlier.unwrap_or_else(|| container.image.clone()),
                id: container.image_id.clone(),
                started: container.started,
            };
            // A change that is reverted before the node took notice has no effect.
            if runs.image != *image {
                self.containers.insert(key, runs);
            }
        }
    }

    fn is_changing(&self, pod: &Pod) -> bool {
        self.containers.keys().any(|(uid, _)| *uid == pod.uid)
    }
}

// === impl Truth ===

impl<'a> Truth<'a> {
    /// Pods that are neither ended nor being deleted.
    pub(super) fn alive(&self) -> impl Iterator<Item = &'a Pod> {
        self.world.pods.iter().filter(|pod| is_alive(pod))
    }

    /// The same without those a person named: others are made for them.
    pub(super) fn kept(&self) -> impl Iterator<Item = &'a Pod> {
        let named: BTreeSet<&String> = self.world.plan.pods_to_delete.iter().collect();
        self.alive().filter(move |pod| !named.contains(&pod.name))
    }

    /// A player could be sent to it, and no interruption is near.
    pub(super) fn serves(&self, pod: &Pod) -> bool {
        let is_held = matches!(pod.gate, ReadinessGate::Closed | ReadinessGate::Unset);
        let wait = i64::try_from(self.world.plan.min_ready.as_millis()).unwrap_or(i64::MAX);
        let is_ready = match pod.ready {
            Ready::No => false,
            Ready::Since(None) => wait == 0,
            Ready::Since(Some(since)) => wait == 0 || self.world.now.0 - since.0 >= wait,
        };
        is_alive(pod)
            && pod.phase == PodPhase::Running
            && is_ready
            && !is_held
            && pod.grace.is_none()
            && !self.changing.is_changing(pod)
    }

    /// Numbers from here to the replicas whose pods do not serve.
    pub(super) fn out_from(&self, first: usize) -> usize {
        let numbers = first..self.world.plan.replicas;
        let serves = |number: &usize| {
            let mut pods = self.world.pods.iter().filter(|pod| pod.ordinal == Some(*number));
            pods.any(|pod| self.serves(pod))
        };
        numbers.filter(|number| !serves(number)).count()
    }

    /// Pods of the new revision that are undoubtedly done; of a set those with numbers from here.
    pub(super) fn done_from(&self, first: usize) -> usize {
        let world = self.world;
        let is_set = matches!(world.plan.kind, WorkloadKind::StatefulSet(_));
        let numbers = first..world.plan.replicas;
        let is_in =
            |pod: &&Pod| !is_set || pod.ordinal.is_some_and(|number| numbers.contains(&number));
        let is_new = |pod: &&Pod| pod.revision.as_ref() == Some(&world.update);
        world.pods.iter().filter(is_in).filter(is_new).filter(|pod| self.serves(pod)).count()
    }

    /// Pods that stay on old revisions while this step is taken.
    pub(super) fn partition_at(&self, step: usize) -> usize {
        let plan = &self.world.plan;
        let steps: &[CanaryStep] = plan.canary.as_ref().map_or(&[], |canary| &canary.steps);
        let mut kept = Some(plan.partition);
        if !steps.is_empty() {
            kept = (step < steps.len()).then_some(IntOrPercent::Count(plan.replicas));
            for it in steps.iter().take(step + 1) {
                if let (CanaryStep::Partition(share), Some(kept)) = (it, kept.as_mut()) {
                    *kept = *share;
                }
            }
        }
        match kept {
            None => 0,
            Some(IntOrPercent::Count(count)) => count.min(plan.replicas),
            Some(IntOrPercent::Percent(percent)) if percent >= 100 => plan.replicas,
            // Rounded up, and one is left to be updated.
            Some(IntOrPercent::Percent(percent)) => {
                up(percent, plan.replicas).min(plan.replicas.saturating_sub(1))
            }
        }
    }

    /// The same for the step that was written down.
    pub(super) fn partition(&self) -> usize {
        // One past any list of steps is past the last of them.
        self.partition_at(self.world.memory.step.unwrap_or(usize::MAX - 1))
    }

    /// Pods there may be on top.
    pub(super) fn on_top(&self) -> usize {
        match self.world.plan.max_surge {
            IntOrPercent::Count(count) => count,
            IntOrPercent::Percent(percent) => up(percent, self.world.plan.replicas),
        }
    }

    /// Pods that may be out of service.
    pub(super) fn may_be_out(&self) -> usize {
        let plan = &self.world.plan;
        let is_set = matches!(plan.kind, WorkloadKind::StatefulSet(_));
        let has_more = !is_set && self.on_top() > 0;
        let count = match plan.max_unavailable {
            IntOrPercent::Count(count) => count,
            IntOrPercent::Percent(percent) if has_more => percent * plan.replicas / 100,
            IntOrPercent::Percent(percent) => up(percent, plan.replicas),
        };
        // None on top and none missing would be never.
        if is_set || has_more { count } else { count.max(1) }
    }

    /// A pod of one template becomes one of the other by changing images and metadata.
    pub(super) fn differ_in_images(&self, old: Option<&Revision>) -> bool {
        let spec = |name: Option<&Revision>| {
            let known = self.world.revisions.iter().find(|known| Some(&known.name) == name)?;
            without_images(&known.template)
        };
        let (old, new) = (spec(old), spec(Some(&self.world.update)));
        old.is_some() && old == new
    }
}

fn is_alive(pod: &Pod) -> bool {
    let is_over = pod.phase == PodPhase::Failed || pod.phase == PodPhase::Succeeded;
    !is_over && !pod.is_terminating
}

fn up(percent: usize, of: usize) -> usize {
    (percent * of).div_ceil(100)
}

fn without_images(template: &Json) -> Option<Json> {
    let mut spec = template.get("spec")?.clone();
    if let Json::Object(members) = &mut spec
        && let Some(Json::List(containers)) = members.get_mut("containers")
    {
        for container in containers {
            if let Json::Object(members) = container {
                members.remove("image");
            }
        }
    }
    Some(spec)
}
