//! The life cycle of one pod on its node: order of its containers, and readiness.
//!
//! [`super::Kubelet`] owns a [`PodRun`] per pod and calls [`PodRun::advance`] in each reconcile. It
//! changes no objects: it returns events to write and the time of the next step.

use std::{collections::BTreeSet, time::Duration};

use jiff::Timestamp;
use serde_json::Value;

use super::{
    Behaviour, KubeletSettings, Notice,
    container::{Circumstances, ContainerRun, Ended, Restart, State},
    image,
};
use crate::{
    clock::later,
    controllers::{
        object::{count, items, name, namespace, text, time, uid},
        pods,
    },
};

/// State of a pod.
#[derive(Debug, Clone)]
pub(super) struct PodRun {
    pub(super) uid: String,
    pub(super) started: Timestamp,
    pub(super) address: String,
    pub(super) init: Vec<ContainerRun>,
    pub(super) main: Vec<ContainerRun>,
    /// When the deletion was first noticed.
    pub(super) stopping: Option<Timestamp>,
    /// It has been stopped and its removal requested.
    pub(super) removed: bool,
}

/// Inputs of one reconcile of a pod.
pub(super) struct Scene<'a> {
    pub(super) settings: &'a KubeletSettings,
    pub(super) pod: &'a Value,
    pub(super) node: &'a str,
    pub(super) now: Timestamp,
}

type Images = BTreeSet<(String, String)>;

// === impl Scene ===

impl Scene<'_> {
    pub(super) fn behaviour(&self, run: &ContainerRun) -> Behaviour {
        self.settings.behaviours.of(self.pod, &run.name, &run.image)
    }

    /// Whether a running container is ready, and when that changes by itself.
    pub(super) fn readiness(&self, run: &ContainerRun) -> (bool, Option<Timestamp>) {
        let Some(since) = run.running_since() else { return (false, None) };
        let usual = later(since, self.ready_delay(&run.name));
        let at = |ready_at: Timestamp| {
            if self.now >= ready_at { (true, None) } else { (false, Some(ready_at)) }
        };
        match self.behaviour(run) {
            Behaviour::NeverReady | Behaviour::CrashLoop { .. } | Behaviour::ImagePullError => {
                (false, None)
            }
            Behaviour::SlowStart { delay } => at(usual.max(later(since, delay))),
            Behaviour::Flapping { up, down } if self.now >= usual => {
                flapping(self.now, usual, up, down)
            }
            Behaviour::Normal
            | Behaviour::Flapping { .. }
            | Behaviour::ReadyThenDies { .. }
            | Behaviour::Completes { .. } => at(usual),
        }
    }

    /// Delay from running to ready: the setting, or the first probe after it.
    fn ready_delay(&self, container: &str) -> Duration {
        let plain = self.settings.ready_delay;
        let probe = spec_of(self.pod, container).and_then(|spec| spec.get("readinessProbe"));
        let Some(probe) = probe.filter(|_| self.settings.honour_probes) else { return plain };
        let seconds = |pointer: &str| {
            Duration::from_secs(u64::try_from(count(probe, pointer)).unwrap_or_default())
        };
        let mut probed = seconds("/initialDelaySeconds");
        let period = seconds("/periodSeconds").max(Duration::from_secs(1));
        while probed < plain {
            probed += period;
        }
        probed
    }

    fn restart(&self) -> Restart {
        Restart::parse(text(self.pod, "/spec/restartPolicy"))
    }

    fn circumstances<'a>(
        &'a self,
        run: &ContainerRun,
        images: &Images,
        field: &'a str,
    ) -> Circumstances<'a> {
        let policy = spec_of(self.pod, &run.name).map_or("", |spec| text(spec, "/imagePullPolicy"));
        let known = images.contains(&(self.node.to_owned(), run.image.clone()));
        Circumstances {
            behaviour: self.behaviour(run),
            restart: self.restart(),
            image_present: known && !image::is_always_pulled(policy, &run.image),
            pull_delay: self.settings.pull_delay,
            start_delay: self.settings.start_delay,
            pod: name(self.pod),
            namespace: namespace(self.pod),
            uid: uid(self.pod),
            field,
            now: self.now,
        }
    }
}

/// Ready for `up`, unready for `down`, alternating since `start`.
fn flapping(
    now: Timestamp,
    start: Timestamp,
    up: Duration,
    down: Duration,
) -> (bool, Option<Timestamp>) {
    let period = (up + down).max(Duration::from_millis(1)).as_nanos();
    let elapsed = now.duration_since(start).unsigned_abs().as_nanos() % period;
    let ready = elapsed < up.as_nanos();
    let end = if ready { up.as_nanos() } else { period };
    let rest = Duration::from_nanos(u64::try_from(end - elapsed).unwrap_or(u64::MAX));
    (ready, Some(later(now, rest)))
}

/// The container with that name in a pod's spec, of any type.
pub(super) fn spec_of<'a>(pod: &'a Value, container: &str) -> Option<&'a Value> {
    let mut specs = items(pod, "/spec/containers").iter().chain(items(pod, "/spec/initContainers"));
    specs.find(|spec| text(spec, "/name") == container)
}

/// True for an init container that keeps running beside the others.
pub(super) fn is_sidecar(pod: &Value, container: &str) -> bool {
    spec_of(pod, container).is_some_and(|spec| text(spec, "/restartPolicy") == "Always")
}

// === impl PodRun ===

impl PodRun {
    /// The state of a pod from its status: new, or left running by a kubelet that restarted.
    pub(super) fn new(pod: &Value, now: Timestamp) -> Self {
        let runs = |specs: &str, statuses: &str| {
            let specs = items(pod, specs).iter();
            let runs = specs.map(|spec| {
                let fresh = ContainerRun::new(text(spec, "/name"), text(spec, "/image"));
                let mut statuses = items(pod, statuses).iter();
                let status = statuses.find(|status| text(status, "/name") == fresh.name);
                status.map_or(fresh.clone(), |status| recovered(fresh, status))
            });
            runs.collect()
        };
        Self {
            uid: uid(pod).to_owned(),
            started: time(pod, "/status/startTime").unwrap_or(now),
            address: text(pod, "/status/podIP").to_owned(),
            init: runs("/spec/initContainers", "/status/initContainerStatuses"),
            main: runs("/spec/containers", "/status/containerStatuses"),
            stopping: None,
            removed: false,
        }
    }

    pub(super) fn containers(&self) -> impl Iterator<Item = &ContainerRun> {
        self.init.iter().chain(&self.main)
    }

    /// Carries out due steps. Returns events to write, and the time of the next step.
    pub(super) fn advance(
        &mut self,
        scene: &Scene<'_>,
        images: &mut Images,
    ) -> (Vec<Notice>, Option<Timestamp>) {
        let mut notices = Vec::new();
        let mut next = Vec::new();
        if pods::is_terminal(scene.pod) {
            return (notices, None);
        }
        self.change_images(scene, images, &mut notices);
        let turn = self.advance_init(scene, images, &mut notices, &mut next);
        if let Some(turn) = turn {
            for run in &mut self.main {
                let field = format!("spec.containers{{{}}}", run.name);
                let facts = scene.circumstances(run, images, &field);
                notices.extend(run.unblock(turn, &facts));
                next.extend(run.advance(&facts, &mut notices));
                next.extend(scene.readiness(run).1);
            }
        }
        for run in self.containers().filter(|run| run.has_started()) {
            images.insert((scene.node.to_owned(), run.image.clone()));
        }
        (notices, next.into_iter().min())
    }

    /// Runs init containers one after another; `Some` is the time since when the others may start.
    fn advance_init(
        &mut self,
        scene: &Scene<'_>,
        images: &Images,
        notices: &mut Vec<Notice>,
        next: &mut Vec<Timestamp>,
    ) -> Option<Timestamp> {
        let mut turn = self.started;
        for run in &mut self.init {
            let field = format!("spec.initContainers{{{}}}", run.name);
            let sidecar = is_sidecar(scene.pod, &run.name);
            let mut facts = scene.circumstances(run, images, &field);
            if sidecar {
                facts.restart = Restart::Always;
            } else {
                facts.behaviour = init_behaviour(facts.behaviour, scene.settings.start_delay);
                // An init container restarts until it succeeds, and not after that.
                facts.restart = match facts.restart {
                    Restart::Always => Restart::OnFailure,
                    other => other,
                };
            }
            notices.extend(run.unblock(turn, &facts));
            next.extend(run.advance(&facts, notices));
            turn = if sidecar {
                next.extend(scene.readiness(run).1);
                run.running_since()?
            } else {
                run.ended().filter(|ended| ended.exit_code == 0)?.finished
            };
        }
        Some(turn)
    }

    fn change_images(&mut self, scene: &Scene<'_>, images: &Images, notices: &mut Vec<Notice>) {
        let sorts = [("initContainers", &mut self.init), ("containers", &mut self.main)];
        for (sort, runs) in sorts {
            for run in runs {
                let image = spec_of(scene.pod, &run.name).map_or("", |spec| text(spec, "/image"));
                // A completed init container does not run again for a new image.
                let done = sort == "initContainers" && run.ended().is_some();
                if image.is_empty() || image == run.image || done {
                    continue;
                }
                let field = format!("spec.{sort}{{{}}}", run.name);
                let mut wanted = run.clone();
                image.clone_into(&mut wanted.image);
                let facts = scene.circumstances(&wanted, images, &field);
                notices.extend(run.change_image(image, &facts));
            }
        }
    }

    /// Records that the pod is being deleted; returns the events of stopped containers the first
    /// time.
    pub(super) fn begin_to_stop(&mut self, now: Timestamp) -> Vec<Notice> {
        if self.stopping.is_some() {
            return Vec::new();
        }
        self.stopping = Some(now);
        let running = self.main.iter().filter(|run| run.running_since().is_some());
        let notice = |run: &ContainerRun| Notice {
            severity: "Normal",
            reason: "Killing",
            message: format!("Stopping container {}", run.name),
            field: format!("spec.containers{{{}}}", run.name),
        };
        running.map(notice).collect()
    }

    /// Terminates all containers.
    pub(super) fn end(&mut self, at: Timestamp) {
        for run in self.init.iter_mut().chain(&mut self.main) {
            run.stop(at);
        }
    }
}

/// The behaviour of an init container: it does its work and exits, unless it is set to fail.
fn init_behaviour(behaviour: Behaviour, work: Duration) -> Behaviour {
    let after = match behaviour {
        Behaviour::SlowStart { delay } => delay,
        Behaviour::Normal | Behaviour::Flapping { .. } => work,
        Behaviour::NeverReady
        | Behaviour::CrashLoop { .. }
        | Behaviour::ImagePullError
        | Behaviour::ReadyThenDies { .. }
        | Behaviour::Completes { .. } => return behaviour,
    };
    Behaviour::Completes { exit_code: 0, after }
}

/// Recovers a running container from its status; any other one starts over.
fn recovered(fresh: ContainerRun, status: &Value) -> ContainerRun {
    let mut run = fresh;
    run.restarts = count(status, "/restartCount");
    run.last = ended(&status["lastState"]["terminated"], run.restarts - 1);
    if let Some(since) = time(status, "/state/running/startedAt") {
        run.shown_image.clone_from(&run.image);
        run.state = State::Running { since };
    } else if let Some(end) = ended(&status["state"]["terminated"], run.restarts) {
        run.shown_image.clone_from(&run.image);
        run.state = State::Ended(end);
    }
    run
}

fn ended(terminated: &Value, incarnation: i64) -> Option<Ended> {
    Some(Ended {
        started: time(terminated, "/startedAt")?,
        finished: time(terminated, "/finishedAt")?,
        exit_code: count(terminated, "/exitCode"),
        incarnation,
    })
}
