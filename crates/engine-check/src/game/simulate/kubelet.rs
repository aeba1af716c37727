//! Everything but the controller: nodes start pods and change images, hooks are run.

use tidegate_engine::{
    Moment,
    game::{HookPhase, NodeState, Pod, PodPhase, ReadinessGate, Ready},
};

use super::World;

impl World {
    /// Whether anything moved.
    pub(super) fn kubelet(&mut self) -> bool {
        let before = (self.truth.pods.clone(), self.truth.runs.clone());
        let now = self.truth.now;
        // Nodes do not look at all pods at the same time.
        let (round, lag) = (self.round, self.lag);
        let looks = |pod: &Pod| {
            let place = pod.uid.bytes().fold(round, |sum, byte| sum.wrapping_add(byte.into()));
            place.is_multiple_of(lag + 1)
        };
        let stays = |pod: &Pod| !pod.is_terminating || pod.node == NodeState::Lost || !looks(pod);
        self.truth.pods.retain(stays);
        for pod in self.truth.pods.iter_mut().filter(|pod| looks(pod)) {
            run(pod, now);
        }
        self.run_hooks();
        let moved = before != (self.truth.pods.clone(), self.truth.runs.clone());
        if moved {
            self.see(&crate::game::check::TraceEvent::Changed);
        }
        moved
    }

    fn run_hooks(&mut self) {
        let wills: Vec<HookPhase> =
            self.truth.runs.iter().map(|run| self.will_of(&run.name)).collect();
        for (run, will) in self.truth.runs.iter_mut().zip(wills) {
            run.phase = match run.phase {
                Some(phase) if phase.is_final() => Some(phase),
                _ if run.is_terminated => Some(HookPhase::Successful),
                None => Some(HookPhase::Running),
                Some(_) => Some(will),
            };
        }
    }
}

fn run(pod: &mut Pod, now: Moment) {
    if matches!(pod.phase, PodPhase::Failed | PodPhase::Succeeded) || pod.is_terminating {
        return;
    }
    if pod.phase == PodPhase::Pending && !pod.is_assigned {
        pod.is_assigned = true;
        return;
    }
    pod.phase = PodPhase::Running;
    let mut is_changing = false;
    for container in &mut pod.containers {
        let id = format!("id:{}", container.image);
        if container.image_id.as_ref() != Some(&id) {
            container.image_id = Some(id);
            container.restarts += u32::from(container.started.is_some());
            container.started = Some(now);
            is_changing = true;
        }
    }
    let is_good = pod.containers.iter().all(|container| !container.image.contains("bad"));
    let is_open = matches!(pod.gate, ReadinessGate::Absent | ReadinessGate::Open);
    let is_ready = is_good && is_open && !is_changing;
    match (pod.ready, is_ready) {
        (Ready::No, true) => pod.ready = Ready::Since(Some(now)),
        (Ready::Since(_), false) => pod.ready = Ready::No,
        (Ready::No, false) | (Ready::Since(_), true) => {}
    }
}
