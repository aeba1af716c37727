//! Hooks of single pods: starts them, waits for them, and cleans up after them.
//!
//! The run is the memory: it names its pod and the operation on it. A process that crashes forgets nothing,
//! and operations that are no longer wanted are cancelled.

use std::collections::BTreeSet;

use crate::Revision;

use super::{
    Action, Fact, HookKind, HookPhase, HookRun, HookStart, Observed, Pod, PodHookState, PodPhase,
    PodRef, Purpose, UpdateWay,
    arguments::{self, Argument},
    derived::Derived,
    in_place, run_names,
};

/// Whether an operation may go on.
pub(super) enum Passage {
    /// It may.
    Open,
    /// The hook begins with this.
    Begins(Vec<Action>),
    /// The hook runs; this is left to do.
    Waits(Vec<Action>),
    /// The hook did not pass.
    Stuck(HookPhase),
    /// The hook cannot be run.
    Blocked(String),
}

/// Operations that pods are chosen for, by uid.
#[derive(Default)]
pub(super) struct Wanted<'a> {
    /// They are to be deleted: too many, named, or replaced by the new revision.
    pub(super) deleted: BTreeSet<&'a str>,
    /// They are to be updated in place sooner or later.
    pub(super) updated: BTreeSet<&'a str>,
    /// Those of them that may be updated now.
    pub(super) next: BTreeSet<&'a str>,
}

/// An operation on a pod.
#[derive(Clone, Copy)]
pub(super) enum Operation<'a> {
    /// It is deleted.
    Delete,
    /// It is updated in place to this revision.
    InPlace(&'a Revision),
}

/// The hook that must pass before the operation, if there is one.
pub(super) fn kind_of(seen: &Observed, operation: Operation<'_>) -> HookKind {
    match operation {
        Operation::InPlace(_) if seen.plan.hooks.pre_in_place.call.is_some() => {
            HookKind::PreInPlace
        }
        Operation::InPlace(_) | Operation::Delete => HookKind::PreDelete,
    }
}

/// Runs the hook before an operation. A pod that does not run has no hook.
pub(super) fn ask(derived: &Derived<'_>, pod: &Pod, operation: Operation<'_>) -> Passage {
    let kind = kind_of(derived.seen, operation);
    if pod.phase != PodPhase::Running || derived.seen.plan.hooks.of(kind).call.is_none() {
        return Passage::Open;
    }
    let target = match operation {
        Operation::Delete => None,
        Operation::InPlace(revision) => Some(revision),
    };
    let mark = || (!pod.is_marked).then(|| Action::Mark(PodRef::of(pod)));
    match find(derived.seen, kind, pod, target) {
        None => match start(derived, pod, kind, target) {
            Ok(mut actions) => {
                actions.extend(mark());
                Passage::Begins(actions)
            }
            Err(why) => Passage::Blocked(why),
        },
        Some(run) if run.has_passed() => Passage::Open,
        Some(run) => match run.phase {
            Some(phase) if phase.is_final() => Passage::Stuck(phase),
            Some(_) | None => Passage::Waits(mark().into_iter().collect()),
        },
    }
}

/// The run for this pod and operation.
pub(super) fn find<'a>(
    seen: &'a Observed,
    wanted: HookKind,
    pod: &Pod,
    wanted_target: Option<&Revision>,
) -> Option<&'a HookRun> {
    seen.runs.iter().find(|run| match &run.purpose {
        Purpose::Pod { kind, uid, target, .. } => {
            *kind == wanted && *uid == pod.uid && target.as_ref() == wanted_target
        }
        Purpose::Step { .. } => false,
    })
}

/// Pods with a run of a hook before an operation, by uid.
pub(super) fn asked(seen: &Observed) -> BTreeSet<&str> {
    let runs = seen.runs.iter().filter_map(|run| match &run.purpose {
        Purpose::Pod { kind, uid, .. } if *kind != HookKind::PostInPlace => Some(uid.as_str()),
        Purpose::Pod { .. } | Purpose::Step { .. } => None,
    });
    runs.collect()
}

fn start(
    derived: &Derived<'_>,
    pod: &Pod,
    kind: HookKind,
    target: Option<&Revision>,
) -> Result<Vec<Action>, String> {
    let seen = derived.seen;
    let Some(call) = &seen.plan.hooks.of(kind).call else { return Ok(Vec::new()) };
    let Some(known) = seen.templates.get(&call.template) else {
        return Err(format!("there is no hook template {}", call.template));
    };
    let mut given = call.arguments.clone();
    given.extend(about(derived, pod, kind, target));
    let merged = arguments::merge(&known.declared, &given).map_err(|error| error.to_string())?;
    let is_taken = |name: &str| seen.is_taken(name);
    let name = run_names::of_pod(kind.prefix(), pod, &call.template, is_taken);
    let purpose =
        Purpose::Pod { kind, pod: pod.name.clone(), uid: pod.uid.clone(), target: target.cloned() };
    let start =
        HookStart { name, purpose, template: call.template.clone(), arguments: merged.arguments };
    let mut actions = vec![Action::StartHook(Box::new(start))];
    if !merged.dropped.is_empty() {
        actions.push(Action::Announce(Fact::ArgumentsDropped(merged.dropped)));
    }
    Ok(actions)
}

/// Arguments that describe the pod.
fn about(
    derived: &Derived<'_>,
    pod: &Pod,
    kind: HookKind,
    target: Option<&Revision>,
) -> Vec<Argument> {
    let fixed = [
        ("PodName", &pod.name),
        ("PodNamespace", &derived.seen.plan.namespace),
        ("PodIP", &pod.ip),
        ("HostIP", &pod.host_ip),
    ];
    let argument = |name: String, value: &str| Argument { name, value: value.to_owned() };
    let mut all: Vec<Argument> =
        fixed.map(|(name, value)| argument(name.to_owned(), value)).to_vec();
    for (index, container) in pod.containers.iter().enumerate() {
        all.push(argument(format!("PodContainer[{index}]"), &container.name));
    }
    if let (HookKind::PreInPlace, Some(template)) =
        (kind, target.and_then(|target| derived.template(target)))
    {
        let images = in_place::images(template);
        let modified = pod.containers.iter().filter(|container| {
            images.get(&container.name).is_some_and(|image| *image != container.image)
        });
        for (index, container) in modified.enumerate() {
            all.push(argument(format!("ModifiedContainer[{index}]"), &container.name));
        }
    }
    all
}

/// The hook after an update in place: once the pod is ready again, and until it passed.
pub(super) fn follow_up(derived: &Derived<'_>, pod: &Pod) -> Result<Vec<Action>, String> {
    let clear = || vec![Action::ClearPostHook(PodRef::of(pod))];
    if !pod.owes_post_hook || pod.grace.is_some() {
        return Ok(Vec::new());
    }
    if derived.seen.plan.hooks.post_in_place.call.is_none() {
        return Ok(clear());
    }
    match find(derived.seen, HookKind::PostInPlace, pod, pod.revision.as_ref()) {
        Some(run) if run.has_passed() => Ok(clear()),
        None if pod.is_ready() && derived.is_complete(pod) => {
            start(derived, pod, HookKind::PostInPlace, pod.revision.as_ref())
        }
        Some(_) | None => Ok(Vec::new()),
    }
}

/// Deletes runs of pods that are gone and of operations that are over or cancelled, and marks without a run.
/// A pod whose run is to be made again keeps its mark in between: a gateway that reads it would send players
/// to a pod that is about to be deleted.
pub(super) fn clean_up(derived: &Derived<'_>, wanted: &Wanted<'_>) -> Vec<Action> {
    let seen = derived.seen;
    let mut actions = Vec::new();
    let mut kept: BTreeSet<&str> = BTreeSet::new();
    for run in &seen.runs {
        let Purpose::Pod { kind, uid, target, .. } = &run.purpose else { continue };
        let pod = seen.pods.iter().find(|pod| pod.uid == *uid);
        if pod.is_some_and(|pod| is_needed(derived, pod, (*kind, target.as_ref()), run, wanted)) {
            kept.insert(uid);
            continue;
        }
        if !run.is_over() && !run.is_terminated {
            actions.push(Action::TerminateHook(run.name.clone()));
        }
        actions.push(Action::DeleteHook(run.name.clone()));
    }
    for pod in seen.pods.iter().filter(|pod| pod.is_marked && !pod.is_terminating) {
        let is_in = |uids: &BTreeSet<&str>| uids.contains(pod.uid.as_str());
        if !is_in(&kept) && !is_in(&wanted.deleted) && !is_in(&wanted.next) {
            actions.push(Action::Unmark(PodRef::of(pod)));
        }
    }
    actions
}

fn is_needed(
    derived: &Derived<'_>,
    pod: &Pod,
    (kind, target): (HookKind, Option<&Revision>),
    run: &HookRun,
    wanted: &Wanted<'_>,
) -> bool {
    let seen = derived.seen;
    if pod.is_terminating {
        return true;
    }
    match (kind, target) {
        (HookKind::PostInPlace, target) => {
            let is_current = target.is_some_and(|target| pod.is_of(target));
            is_current && (pod.owes_post_hook || !run.has_passed())
        }
        (_, None) => wanted.deleted.contains(pod.uid.as_str()),
        (_, Some(target)) => {
            let operation = Operation::InPlace(target);
            seen.plan.way == UpdateWay::InPlace
                && *target == seen.update
                && wanted.updated.contains(pod.uid.as_str())
                && kind_of(seen, operation) == kind
                && seen.plan.hooks.of(kind).call.is_some()
        }
    }
}

/// Runs that did not pass are made again if that is requested.
pub(super) fn retry(seen: &Observed) -> Vec<Action> {
    let mut actions = Vec::new();
    for kind in HookKind::ALL.into_iter().filter(|kind| seen.plan.hooks.of(*kind).retry) {
        let failed = seen.runs.iter().filter(|run| {
            let is_of_kind = matches!(&run.purpose, Purpose::Pod { kind: of, .. } if *of == kind);
            is_of_kind && run.is_over() && !run.has_passed()
        });
        actions.extend(failed.map(|run| Action::DeleteHook(run.name.clone())));
        actions.push(Action::ResetRetry(kind));
        actions.push(Action::Announce(Fact::HooksRetried(kind)));
    }
    actions
}

/// Hooks of pods that did not pass yet, for the status. `begun` are those of this look.
pub(super) fn states(seen: &Observed, begun: &[Action]) -> Vec<PodHookState> {
    let deleted: BTreeSet<&String> = begun
        .iter()
        .filter_map(|action| if let Action::DeleteHook(name) = action { Some(name) } else { None })
        .collect();
    let running = seen.runs.iter().filter(|run| !run.has_passed() && !deleted.contains(&run.name));
    let running = running.filter_map(|run| match &run.purpose {
        Purpose::Pod { kind, pod, uid, .. } if seen.pods.iter().any(|pod| pod.uid == *uid) => {
            let phase = run.phase.unwrap_or(HookPhase::Pending);
            Some(PodHookState { kind: *kind, pod: pod.clone(), since: run.created, phase })
        }
        Purpose::Pod { .. } | Purpose::Step { .. } => None,
    });
    let now = crate::game::steps::whole_seconds(seen.now);
    let starting = begun.iter().filter_map(|action| {
        let Action::StartHook(start) = action else { return None };
        match &start.purpose {
            Purpose::Pod { kind, pod, .. } => Some(PodHookState {
                kind: *kind,
                pod: pod.clone(),
                since: now,
                phase: HookPhase::Pending,
            }),
            Purpose::Step { .. } => None,
        }
    });
    let mut all: Vec<PodHookState> = running.chain(starting).collect();
    all.sort_by(|one, other| (one.kind, &one.pod).cmp(&(other.kind, &other.pod)));
    all
}
