//! Events from people and the world.

use tidegate_engine::{
    Revision,
    game::{
        Action, Asked, Canary, CanaryStep, Command, HookKind, IntOrPercent, KnownRevision,
        KnownTemplate, Observed, Paused, PodPhase, Ready, Scope, UpdateWay,
    },
};

use super::{HookWill, World, canary, template};

/// Something that happens.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::game) enum Event {
    /// Another image, good or bad.
    Push(bool),
    /// Something that cannot be changed in place.
    PushEnv,
    /// The template of this revision again.
    Restore(&'static str),
    /// The template of the previous revision.
    Revert,
    Scale(usize),
    Steps(Vec<CanaryStep>),
    NoCanary,
    /// `paused` is set by a person.
    Paused(bool),
    Ask(Command),
    /// A pod is gone, by position.
    Kill(usize),
    /// A pod failed.
    Fail(usize),
    /// All containers of a pod ended well.
    Finish(usize),
    /// The containers of a pod are started again with what they run.
    Restart(usize),
    /// All pods of this revision are gone at once.
    KillAll(&'static str),
    Name(usize),
    StepHooks(HookWill),
    PodHooks(HookWill),
    Retry(HookKind),
    /// All runs are ended from outside.
    Terminate,
    /// The hook template is there, or not.
    Template(bool),
    Way(UpdateWay),
    /// The plain partition.
    Keep(usize),
    /// The clock of the controller jumps, in seconds.
    Clock(i64),
    /// From now on the cluster refuses some writes.
    Refuse(Refused),
}

/// Writes a cluster may refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::game) enum Refused {
    None,
    /// A quota.
    Create,
    /// An admission rule for pods.
    Pods,
    /// An admission rule for the workload.
    Spec,
    /// One for runs of hooks.
    Runs,
}

impl Event {
    pub(super) fn happen(&self, world: &mut World) {
        world.truth.plan.generation += 1;
        match self {
            Self::Push(is_good) => {
                let kind = if *is_good { "image" } else { "bad" };
                world.push(kind, "a");
            }
            Self::PushEnv => world.push("image", &format!("b{}", world.serial)),
            Self::Restore(name) => world.set_template(&Revision::new(*name)),
            Self::Revert => world.revert(),
            Self::StepHooks(will) => world.step_hooks = *will,
            Self::PodHooks(will) => world.pod_hooks = *will,
            Self::Clock(seconds) => world.truth.now.0 += seconds * 1_000,
            Self::Refuse(refused) => world.refuses = refused.test(),
            Self::Scale(_)
            | Self::Steps(_)
            | Self::NoCanary
            | Self::Paused(_)
            | Self::Ask(_)
            | Self::Kill(_)
            | Self::Fail(_)
            | Self::Finish(_)
            | Self::Restart(_)
            | Self::KillAll(_)
            | Self::Name(_)
            | Self::Retry(_)
            | Self::Terminate
            | Self::Template(_)
            | Self::Way(_)
            | Self::Keep(_) => {
                self.edit(&mut world.truth);
                self.strike(&mut world.truth);
            }
        }
    }

    /// A person changes the workload.
    fn edit(&self, truth: &mut Observed) {
        let plan = &mut truth.plan;
        match self {
            Self::Scale(replicas) => plan.replicas = *replicas,
            Self::Steps(steps) => {
                let resume_by = plan.canary.as_ref().map(|canary| canary.resume_by);
                let resume_by = resume_by.unwrap_or_default();
                plan.canary = Some(Canary { resume_by, ..canary(steps.clone()) });
            }
            Self::NoCanary => plan.canary = None,
            Self::Way(way) => plan.way = *way,
            Self::Keep(count) => plan.partition = IntOrPercent::Count(*count),
            Self::Paused(value) if plan.paused.value != *value => {
                plan.paused = Paused { value: *value, is_ours: false };
            }
            Self::Ask(command) => plan.asked = Some(Asked { command: *command, revision: None }),
            Self::Name(at) => {
                plan.pods_to_delete.extend(truth.pods.get(*at).map(|pod| pod.name.clone()));
            }
            Self::Retry(HookKind::PreDelete) => plan.hooks.pre_delete.retry = true,
            Self::Retry(HookKind::PreInPlace) => plan.hooks.pre_in_place.retry = true,
            Self::Retry(HookKind::PostInPlace) => plan.hooks.post_in_place.retry = true,
            Self::Push(_)
            | Self::PushEnv
            | Self::Restore(_)
            | Self::Revert
            | Self::Paused(_)
            | Self::Kill(_)
            | Self::Fail(_)
            | Self::Finish(_)
            | Self::Restart(_)
            | Self::KillAll(_)
            | Self::StepHooks(_)
            | Self::PodHooks(_)
            | Self::Terminate
            | Self::Template(_)
            | Self::Clock(_)
            | Self::Refuse(_) => {}
        }
    }

    /// Something happens to pods and hooks.
    fn strike(&self, truth: &mut Observed) {
        match self {
            Self::Kill(at) if *at < truth.pods.len() => {
                truth.pods.remove(*at);
            }
            Self::Fail(at) => {
                if let Some(pod) = truth.pods.get_mut(*at) {
                    pod.phase = PodPhase::Failed;
                    pod.ready = Ready::No;
                }
            }
            Self::Finish(at) => {
                if let Some(pod) = truth.pods.get_mut(*at) {
                    pod.phase = PodPhase::Succeeded;
                    pod.ready = Ready::No;
                }
            }
            Self::Restart(at) => {
                let now = truth.now;
                for container in
                    truth.pods.get_mut(*at).iter_mut().flat_map(|pod| &mut pod.containers)
                {
                    container.restarts += u32::from(container.started.is_some());
                    container.started = container.started.map(|_| now);
                }
            }
            Self::KillAll(name) => {
                let revision = Revision::new(*name);
                truth.pods.retain(|pod| !pod.is_of(&revision));
            }
            Self::Terminate => {
                for run in &mut truth.runs {
                    run.is_terminated = true;
                }
            }
            Self::Template(true) => {
                truth.templates.insert("test".to_owned(), KnownTemplate::default());
            }
            Self::Template(false) => truth.templates.clear(),
            Self::Push(_)
            | Self::PushEnv
            | Self::Restore(_)
            | Self::Revert
            | Self::Scale(_)
            | Self::Steps(_)
            | Self::NoCanary
            | Self::Paused(_)
            | Self::Ask(_)
            | Self::Kill(_)
            | Self::Name(_)
            | Self::StepHooks(_)
            | Self::PodHooks(_)
            | Self::Retry(_)
            | Self::Way(_)
            | Self::Keep(_)
            | Self::Clock(_)
            | Self::Refuse(_) => {}
        }
    }
}

impl Refused {
    fn test(self) -> fn(&Action) -> bool {
        match self {
            Self::None => |_| false,
            Self::Create => |action| matches!(action, Action::Create(_)),
            Self::Pods => |action| matches!(action.scope(), Scope::Pod(_)),
            Self::Spec => |action| {
                matches!(
                    action,
                    Action::SetPaused(_)
                        | Action::RestoreTemplate { .. }
                        | Action::ResumeAndClear(_)
                        | Action::ClearCommand
                        | Action::ResetRetry(_)
                        | Action::PrunePodsToDelete(_)
                )
            },
            Self::Runs => |action| {
                matches!(
                    action,
                    Action::StartHook(_) | Action::TerminateHook(_) | Action::DeleteHook(_)
                )
            },
        }
    }
}

impl World {
    fn push(&mut self, kind: &str, env: &str) {
        self.serial += 1;
        let name = Revision::new(format!("r{}", self.serial));
        let template = template(&format!("{kind}:{name}"), env);
        let known = KnownRevision { name: name.clone(), number: 0, template };
        self.truth.revisions.push(known);
        self.set_template(&name);
    }

    fn revert(&mut self) {
        let revisions = self.truth.revisions.iter();
        let mut names: Vec<_> = revisions.map(|known| (known.number, known.name.clone())).collect();
        names.sort_by_key(|(number, _)| *number);
        if let Some((_, name)) = names.iter().rev().nth(1) {
            self.set_template(name);
        }
    }

    /// The revision of the template is always the newest.
    pub(super) fn set_template(&mut self, name: &Revision) {
        let newest = self.truth.revisions.iter().map(|known| known.number).max().unwrap_or(0);
        if let Some(known) = self.truth.revisions.iter_mut().find(|known| known.name == *name) {
            if known.number < newest || known.number == 0 {
                known.number = newest + 1;
            }
            self.truth.update = name.clone();
        }
    }
}
