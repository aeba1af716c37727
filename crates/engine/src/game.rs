//! The game workloads: pods that are released step by step, updated in place and gated by hooks.
//!
//! ```text
//!            observe                 decide                     act
//!  cluster ----------> Observed --> Decision { why, actions, again } --> one write after the other
//!  hook runs --------> hook::Run -> next, assess ----------------------> measure, write the status
//! ```
//!
//! [`decide`] is a function of what was observed. Its memory is in the cluster: in the status, on the pods
//! and on the runs of hooks; [`Memory`] lists the fields. It can be called at any time, by any process, after
//! any of its actions, and goes on from there.
//!
//! # How a controller of workloads uses this
//!
//! 1. **The workload**, read from the server and not from a cache if anything is to be written. Its
//!    status becomes [`Memory`], its spec a [`Plan`] with all defaults filled in.
//! 2. **The revision** of its template: [`revision_data`] of the template as it is stored, then
//!    [`choose_revision`] among all revisions it owns or can adopt. Renumber or make what that says,
//!    and begin anew if it changed anything. A name that is taken by other data when it is made counts
//!    as one more collision.
//! 3. **Pods and runs** it owns, all of them, also those that ended or are being deleted; the hook
//!    templates its plan names; names of runs that others own ([`Observed::taken`]). They must be no
//!    older than the last write of this controller: after each write wait until the cache shows it,
//!    or read from the server. A pod that is not seen is made twice, a run that is not seen runs twice.
//! 4. **[`decide`]**, and its actions one after the other, in order. Each may be carried out twice.
//! 5. **Again**: as [`Decision::again`] says, and whenever one of the above changes. With
//!    [`Again::Now`](crate::Again::Now) and after any failure, read all of it again.
//!
//! ## Preconditions
//!
//! | action | holds only if |
//! |---|---|
//! | on a pod: delete, mark, gate, update, patch, identify | the pod still has that uid; changes of labels, annotations and images also that its resource version is the one that was read |
//! | [`Action::Create`] of a numbered pod | nothing has that name: one that exists is read, not replaced |
//! | [`Action::StartHook`] | nothing has that name: one that exists with this owner and purpose is the one, any other is among the taken names of the next look |
//! | [`Action::SetPaused`], [`Action::ResumeAndClear`], [`Action::ClearCommand`], [`Action::RestoreTemplate`], [`Action::ResetRetry`], [`Action::PrunePodsToDelete`] | the spec and the annotations are those that were read, by resource version; `paused` and `retry` are written as false, never taken away; fields under a manager of our own name |
//! | [`Action::RestoreTemplate`] | also: the template still is that of `from` |
//! | [`Action::Remember`] | the status is the one that was read, by resource version. A write of the spec earlier in the same look gives the version to use, if nothing else changed; otherwise read again |
//! | [`Action::DropRevisions`] | the revisions still have those uids |
//!
//! A precondition that fails ends the look without an event: read again, decide again, never replay.
//!
//! ## When a write fails
//!
//! [`Action::scope`] says which actions must not follow one that failed; the rest does. So a quota or an
//! admission rule that refuses one pod stops neither the others, nor a pause, nor the status. The refusal
//! goes into [`Observed::refusals`] of the next look, which makes conditions and an event of it, and out of
//! it when the write is no longer wanted or succeeds. An event is about the action before it and is left out
//! with that. A crash at any point is as if the rest had failed.
//!
//! ## Contents of each write
//!
//! * [`Action::UpdateInPlace`] is one update of the pod: the label, `inplace-update-state`, the note
//!   of a hook that is owed, and either images and metadata or `inplace-update-grace`. The gate was
//!   closed before, by a write of its own to the status of the pod.
//! * [`Action::ApplyGrace`] is one update: images, metadata, a new `inplace-update-state` with the ids
//!   and the time it is given, and no `inplace-update-grace`.
//! * [`Action::HotPatch`] is one update: images, metadata, label, `hotpatch-update-state` and
//!   `io.kubernetes.hotpatch.container`; `inplace-update-state` and `inplace-update-grace` go.
//! * [`Action::SetPaused`] comes before the [`Action::Remember`] that says why, which comes before the
//!   [`Action::StartHook`] it names.
//!
//! # How a controller of hook runs uses this
//!
//! Read the run from the server, ask [`hook::Run::next`] what to measure, fill arguments into it with
//! [`arguments::substitute`], measure all of it at the same time and each with a deadline, judge each
//! answer with `condition::judge` of the providers, record it with [`hook::MetricResult::record`], and write
//! down what [`hook::Run::assess`] says, if the run is still the one that was read. If it is not, read again
//! and do not measure again what is recorded. Look again at [`hook::Run::wake`], and never at a run that
//! ended. A run that was terminated on request did not pass, whatever its phase says.

pub mod arguments;
pub mod hook;

mod canonical_template;
mod commands;
mod decide;
mod decision;
mod deployment;
mod derived;
mod fact;
mod in_place;
mod int_or_percent;
mod json;
mod memory;
mod names;
mod observed;
mod order;
mod plan;
mod pod;
mod pod_actions;
mod pod_hooks;
mod run_names;
mod scale;
mod selector_conflict;
mod spec_warnings;
mod stateful;
mod steps;

pub use self::{
    canonical_template::canonical_template,
    decide::{decide, refused},
    decision::{Action, Decision, Departure, HookStart, NewPod, PodChange, PodRef, Scope},
    fact::Fact,
    hook::HookPhase,
    in_place::{images, qualify},
    int_or_percent::{Budget, IntOrPercent},
    json::Json,
    memory::{
        Condition, ConditionKind, Counts, Memory, Pause, PauseReason, PodHookState, WorkloadPhase,
    },
    names::{
        RevisionChoice, StoredRevision, choose_revision, revision_data, revision_name, steps_hash,
    },
    observed::{HookRun, KnownRevision, KnownTemplate, Observed, Purpose, Refusal},
    order::{CostOrder, by_use, sort_for_deletion},
    plan::{
        Asked, Canary, CanaryStep, Command, HookCall, HookKind, Indexes, Management, Paused, Plan,
        PodHook, PodHooks, ResumeBy, StepHook, UpdateWay, WorkloadKind,
    },
    pod::{
        Container, Grace, InPlaceState, Metadata, NodeState, Pod, PodPhase, ReadinessGate, Ready,
    },
    scale::{Hold, Scaling, Standing},
    selector_conflict::SelectorClaim,
};
