//! The controller acts: each effect a write, each write possibly the last.

use std::collections::BTreeMap;

use crate::game::check::TraceEvent;
use tidegate_engine::{
    Moment,
    game::{
        Action, Container, Grace, HookRun, HookStart, InPlaceState, Metadata, NewPod, NodeState,
        Paused, Pod, PodChange, PodPhase, PodRef, Purpose, ReadinessGate, Ready, WorkloadKind,
        images,
    },
};

use super::{Line, World};

impl World {
    /// Carries out one action; returns whether the next may follow.
    pub(super) fn perform(&mut self, action: Action) -> bool {
        let index = self.writes;
        self.writes += 1;
        let cut = self.cuts.iter().find(|(at, _)| *at == index).copied();
        if matches!(cut, Some((_, false))) {
            return false;
        }
        self.log.push(Line::Wrote(self.truth.now.0 / 1_000, action.clone()));
        let world = Box::new(self.truth.clone());
        self.see(&TraceEvent::World(world));
        self.see(&TraceEvent::Did(Box::new(action.clone())));
        self.write(action);
        cut.is_none()
    }

    fn pod(&mut self, pod: &PodRef) -> Option<&mut Pod> {
        self.truth.pods.iter_mut().find(|found| found.uid == pod.uid)
    }

    fn with(&mut self, pod: &PodRef, change: impl FnOnce(&mut Pod)) {
        if let Some(pod) = self.pod(pod) {
            change(pod);
        }
    }

    fn write(&mut self, action: Action) {
        match action {
            Action::Create(new) => self.create(&new),
            Action::Delete(pod, _) => self.with(&pod, |pod| pod.is_terminating = true),
            Action::ForceDelete(pod) => self.truth.pods.retain(|found| found.uid != pod.uid),
            Action::Mark(pod) => self.with(&pod, |pod| pod.is_marked = true),
            Action::Unmark(pod) => self.with(&pod, |pod| pod.is_marked = false),
            Action::SetGate(pod, is_open) => self.with(&pod, |pod| {
                pod.gate = if is_open { ReadinessGate::Open } else { ReadinessGate::Closed };
            }),
            Action::UpdateInPlace(change) => self.update(&change),
            Action::HotPatch(change) => self.hot_patch(&change),
            Action::ApplyGrace(change) => self.apply(&change),
            Action::DropGrace(pod) => self.with(&pod, |pod| pod.grace = None),
            Action::ClearPostHook(pod) => self.with(&pod, |pod| pod.owes_post_hook = false),
            Action::Identify(pod) => self.with(&pod, |pod| pod.is_identified = true),
            Action::StartHook(start) => self.start(&start),
            Action::TerminateHook(name) => {
                for run in self.truth.runs.iter_mut().filter(|run| run.name == name) {
                    run.is_terminated = true;
                }
            }
            Action::DeleteHook(name) => self.truth.runs.retain(|run| run.name != name),
            Action::SetPaused(value) => self.set_paused(value),
            Action::ResumeAndClear(_) => {
                self.forget_wish();
                self.set_paused(false);
            }
            Action::ClearCommand => self.forget_wish(),
            Action::RestoreTemplate { to, from } => {
                if self.truth.update == from {
                    self.forget_wish();
                    self.set_template(&to);
                }
            }
            Action::ResetRetry(kind) => {
                let hooks = &mut self.truth.plan.hooks;
                let hook = match kind {
                    tidegate_engine::game::HookKind::PreDelete => &mut hooks.pre_delete,
                    tidegate_engine::game::HookKind::PreInPlace => &mut hooks.pre_in_place,
                    tidegate_engine::game::HookKind::PostInPlace => &mut hooks.post_in_place,
                };
                hook.retry = false;
                self.truth.plan.generation += 1;
            }
            Action::PrunePodsToDelete(names) => {
                self.truth.plan.pods_to_delete.retain(|name| !names.contains(name));
                self.truth.plan.generation += 1;
            }
            Action::Remember(memory) => self.truth.memory = *memory,
            Action::DropRevisions(names) => {
                self.truth.revisions.retain(|known| !names.contains(&known.name));
            }
            Action::Announce(_) => {}
        }
    }

    fn forget_wish(&mut self) {
        self.truth.plan.asked = None;
        self.truth.plan.misspelt = None;
    }

    /// A write that changes nothing does not change its last writer.
    fn set_paused(&mut self, value: bool) {
        if self.truth.plan.paused.value != value {
            self.truth.plan.paused = Paused { value, is_ours: true };
        }
        self.truth.plan.generation += 1;
    }

    fn create(&mut self, new: &NewPod) {
        self.pods_made += 1;
        let known = self.truth.revisions.iter().find(|known| known.name == new.revision);
        let images: BTreeMap<String, String> =
            known.map_or_else(BTreeMap::new, |known| images(&known.template));
        let containers = images.into_iter().map(|(name, image)| Container {
            name,
            image,
            image_id: None,
            started: None,
            restarts: 0,
        });
        let id = match (self.truth.plan.kind, new.ordinal) {
            (WorkloadKind::StatefulSet(_), Some(number)) => number.to_string(),
            _ => format!("p{}", self.pods_made),
        };
        self.truth.pods.push(Pod {
            name: format!("game-{id}"),
            uid: format!("uid-{}", self.pods_made),
            id,
            ordinal: new.ordinal,
            revision: Some(new.revision.clone()),
            phase: PodPhase::Pending,
            is_assigned: false,
            ready: Ready::No,
            restarts: 0,
            created: Some(self.truth.now),
            is_terminating: false,
            cost: None,
            node_cost: None,
            is_marked: false,
            gate: if self.drops_gates { ReadinessGate::Absent } else { ReadinessGate::Unset },
            update: None,
            grace: None,
            owes_post_hook: false,
            containers: containers.collect(),
            ip: "10.0.0.1".to_owned(),
            host_ip: "10.1.0.1".to_owned(),
            index: new.index,
            node: NodeState::Kept,
            is_identified: true,
        });
    }

    fn update(&mut self, change: &PodChange) {
        let period = change.grace;
        self.with(&change.pod, |pod| {
            pod.revision = Some(change.revision.clone());
            pod.update = Some(InPlaceState {
                revision: change.revision.clone(),
                since: change.at,
                image_ids: change.image_ids.clone(),
                images: change.images_before.clone(),
                restarts: change.restarts_before.clone(),
            });
            pod.owes_post_hook = change.owes_post_hook;
            pod.grace = period.map(|period| Grace {
                revision: change.revision.clone(),
                from: change.from.clone(),
                metadata: Metadata {
                    labels: change.labels.clone(),
                    annotations: change.annotations.clone(),
                },
                period,
            });
        });
        if period.is_none() {
            self.apply(change);
        }
    }

    fn hot_patch(&mut self, change: &PodChange) {
        self.with(&change.pod, |pod| pod.revision = Some(change.revision.clone()));
        self.apply(change);
        self.with(&change.pod, |pod| pod.update = None);
    }

    fn apply(&mut self, change: &PodChange) {
        self.with(&change.pod, |pod| {
            pod.grace = None;
            pod.update = Some(InPlaceState {
                revision: change.revision.clone(),
                since: change.at,
                image_ids: change.image_ids.clone(),
                images: change.images_before.clone(),
                restarts: change.restarts_before.clone(),
            });
            for container in &mut pod.containers {
                if let Some(image) = change.images.get(&container.name) {
                    container.image.clone_from(image);
                }
            }
        });
    }

    fn start(&mut self, start: &HookStart) {
        if self.truth.runs.iter().any(|run| run.name == start.name) {
            return;
        }
        let will = match start.purpose {
            Purpose::Step { .. } => self.step_hooks,
            Purpose::Pod { .. } => self.pod_hooks,
        };
        self.wills.insert(start.name.clone(), will);
        self.truth.runs.push(HookRun {
            name: start.name.clone(),
            purpose: start.purpose.clone(),
            phase: None,
            is_terminated: false,
            created: Moment(self.truth.now.0 / 1_000 * 1_000),
        });
    }
}
