//! Carries out decisions about a game workload, one write after the other.
//!
//! Actions that must not follow a failed write are left out, as the engine says; all others go on. A conflict is
//! no failure: the object is read again, and the workload observed again.

use std::{collections::BTreeSet, time::Duration};

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use tidegate_engine::{
    Tone,
    game::{
        Action, ConditionKind, Decision, Departure, HookKind, HookStart, NewPod, PodChange, PodRef,
        Purpose, Refusal, Scope,
    },
};
use tidegate_providers::{
    game::{
        CONTROLLER_REVISION, GAME_DEPLOYMENT, HOOK_RUN, POD, VOLUME_CLAIM, is_selected, memory,
        names, pods, revision, run,
    },
    object::controller_of,
};
use tracing::debug;

use super::{observe::Observation, workload_ref::WorkloadRef};
use crate::{
    cluster::{
        cache::Key,
        write::{Place, WriteError},
    },
    once::Once,
    telemetry::PodWork,
};

/// Letters and digits that make no words.
const ID_LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const ID_LENGTH: usize = 5;

/// Everything that acting keeps between decisions. It can be lost without harm.
#[derive(Default)]
pub(super) struct Actor {
    /// Rejected writes that were recorded.
    rejections: Once,
}

/// The outcome of a decision.
#[derive(Default)]
pub(super) struct Acted {
    /// A write met a conflict.
    pub(super) is_stale: bool,
    /// Writes that the API server rejected.
    pub(super) refusals: Vec<Refusal>,
}

/// Actions that must not follow, because one before them failed.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a yes or no of its own")]
struct LeftOut {
    pods: BTreeSet<String>,
    new_pods: bool,
    hooks: bool,
    release: bool,
    /// An announcement is about the action before it.
    next_announcement: bool,
}

// === impl LeftOut ===

impl LeftOut {
    fn has(&mut self, action: &Action) -> bool {
        if let Action::Announce(_) = action {
            return self.release || std::mem::take(&mut self.next_announcement);
        }
        let is_left_out = self.release
            || match action.scope() {
                Scope::Pod(uid) => self.pods.contains(uid),
                Scope::Pods => self.new_pods,
                Scope::Hooks => self.hooks,
                Scope::Release => false,
            };
        self.next_announcement = is_left_out;
        is_left_out
    }

    fn add(&mut self, action: &Action) {
        self.next_announcement = true;
        match action.scope() {
            Scope::Pod(uid) => drop(self.pods.insert(uid.to_owned())),
            Scope::Pods => self.new_pods = true,
            Scope::Hooks => self.hooks = true,
            Scope::Release => self.release = true,
        }
    }
}

// === impl Actor ===

impl Actor {
    /// Carries out every action that no failure forbids.
    pub(super) async fn act(
        &mut self,
        workload: &WorkloadRef,
        observation: &Observation,
        decision: &Decision,
    ) -> Result<Acted, WriteError> {
        let mut acted = Acted::default();
        let mut left_out = LeftOut::default();
        let mut writer = Writer {
            workload,
            observation,
            object: Value::clone(&observation.workload),
            created: BTreeSet::new(),
        };
        for action in &decision.actions {
            if left_out.has(action) {
                continue;
            }
            let begun = workload.cx.clock.monotonic();
            let outcome = writer.carry_out(action).await;
            let took = workload.cx.clock.monotonic().saturating_sub(begun);
            writer.measure(action, outcome.is_ok(), took);
            let Err(error) = outcome else { continue };
            debug!(%error, "An effect did not happen");
            left_out.add(action);
            match error {
                WriteError::Conflict { .. } | WriteError::Missing { .. } => {
                    writer.read_again(action).await?;
                    acted.is_stale = true;
                }
                WriteError::Refused { ref what, ref why } => {
                    let message = format!("{what} was refused: {why}");
                    if self.rejections.first_time(&message, observation.observed.now) {
                        let reason = failed_reason(action);
                        workload.record(&writer.object, reason, Tone::Warning, &message).await;
                    }
                    let kind = refusal_kind(action);
                    if !acted.refusals.iter().any(|known| known.kind == kind) {
                        acted.refusals.push(Refusal { kind, message });
                    }
                }
                WriteError::Unavailable { .. } | WriteError::NotLeading | WriteError::Stopped => {
                    return Err(error);
                }
            }
        }
        Ok(acted)
    }
}

/// The writes of one decision.
struct Writer<'a> {
    workload: &'a WorkloadRef,
    observation: &'a Observation,
    /// The workload after our own writes.
    object: Value,
    /// Names of pods created by this decision.
    created: BTreeSet<String>,
}

// === impl Writer ===

impl Writer<'_> {
    /// Records how long a write of a pod or a run took.
    fn measure(&self, action: &Action, is_ok: bool, took: Duration) {
        let (labels, series) = (self.workload.labels(), &self.workload.cx.telemetry.game);
        let hooks = &self.observation.observed.plan.hooks;
        let (work, hook) = match action {
            Action::Create(_) => (PodWork::Create, None),
            Action::Delete(..) | Action::ForceDelete(_) => {
                (PodWork::Delete, hooks.pre_delete.call.as_ref())
            }
            Action::UpdateInPlace(_) => (PodWork::UpdateInPlace, hooks.pre_in_place.call.as_ref()),
            Action::HotPatch(_) => (PodWork::HotPatch, hooks.pre_in_place.call.as_ref()),
            Action::StartHook(start) => {
                series.observe_run_made(labels, run::type_of(&start.purpose), is_ok, took);
                return;
            }
            Action::Mark(_)
            | Action::Unmark(_)
            | Action::SetGate(..)
            | Action::ApplyGrace(_)
            | Action::DropGrace(_)
            | Action::ClearPostHook(_)
            | Action::Identify(_)
            | Action::TerminateHook(_)
            | Action::DeleteHook(_)
            | Action::SetPaused(_)
            | Action::Lift(_)
            | Action::ClearCommand
            | Action::GoBack { .. }
            | Action::ResetRetry(_)
            | Action::PrunePodsToDelete(_)
            | Action::Remember(_)
            | Action::DropRevisions(_)
            | Action::Announce(_) => return,
        };
        series.observe_pod(labels, work, hook.is_some(), is_ok, took);
    }

    async fn carry_out(&mut self, action: &Action) -> Result<(), WriteError> {
        let now = self.observation.observed.now;
        match action {
            Action::Create(pod) => self.create(pod).await,
            Action::Delete(pod, why) => self.delete(pod, *why).await,
            Action::ForceDelete(pod) => {
                self.workload
                    .cx
                    .cluster
                    .delete(self.workload.place(POD, &pod.name), &pod.uid, Some(0))
                    .await?;
                let text = format!("Pod {} is taken from its lost node.", pod.name);
                self.workload
                    .record(&self.object, "SuccessfulForceDelete", Tone::Normal, &text)
                    .await;
                Ok(())
            }
            Action::Mark(pod) => self.change(pod, "", |live| pods::mark(live, true)).await,
            Action::Unmark(pod) => self.change(pod, "", |live| pods::mark(live, false)).await,
            Action::SetGate(pod, is_open) => {
                self.change(pod, "status", |live| pods::set_gate(live, *is_open, now)).await
            }
            Action::UpdateInPlace(change) => {
                self.change(&change.pod, "", |live| pods::update_in_place(live, change)).await?;
                self.record_update(change, "SuccessfulUpdatePodInPlace").await;
                Ok(())
            }
            Action::ApplyGrace(change) => {
                self.change(&change.pod, "", |live| pods::apply_grace(live, change)).await
            }
            Action::DropGrace(pod) => self.change(pod, "", pods::drop_grace).await,
            Action::HotPatch(change) => {
                self.change(&change.pod, "", |live| pods::hot_patch(live, change)).await?;
                self.record_update(change, "SuccessfulUpdatePodHotPatch").await;
                Ok(())
            }
            Action::ClearPostHook(pod) => self.change(pod, "", pods::clear_post_hook).await,
            Action::Identify(pod) => self.change(pod, "", pods::identify).await,
            Action::StartHook(start) => self.start_hook(start).await,
            Action::TerminateHook(name) => {
                let Some(run) = self.observation.runs.get(name) else { return Ok(()) };
                let version = &run["metadata"]["resourceVersion"];
                let patch = json!({
                    "metadata": { "resourceVersion": version }, "spec": { "terminate": true },
                });
                self.workload
                    .cx
                    .cluster
                    .merge(self.workload.place(HOOK_RUN, name), &patch)
                    .await
                    .map(|_| ())
            }
            Action::DeleteHook(name) => {
                let Some(run) = self.observation.runs.get(name) else { return Ok(()) };
                let uid = run["metadata"]["uid"].as_str().unwrap_or_default();
                self.workload
                    .cx
                    .cluster
                    .delete(self.workload.place(HOOK_RUN, name), uid, None)
                    .await
            }
            Action::DropRevisions(names) => {
                for name in names {
                    let Some(known) = self.observation.revisions.get(name.as_str()) else {
                        continue;
                    };
                    let uid = known["metadata"]["uid"].as_str().unwrap_or_default();
                    let place = self.workload.place(CONTROLLER_REVISION, name.as_str());
                    self.workload.cx.cluster.delete(place, uid, None).await?;
                }
                Ok(())
            }
            Action::Remember(next) => {
                let patch = memory::patch(self.workload.kind, &self.object, next);
                let place = self.workload.own_place("status");
                self.object = self.workload.cx.cluster.merge(place, &patch).await?;
                Ok(())
            }
            Action::Announce(fact) => {
                self.workload.record(&self.object, fact.reason(), fact.tone(), &fact.text()).await;
                Ok(())
            }
            Action::SetPaused(_)
            | Action::Lift(_)
            | Action::ClearCommand
            | Action::GoBack { .. }
            | Action::ResetRetry(_)
            | Action::PrunePodsToDelete(_) => self.write_spec(action).await,
        }
    }

    /// Changes what the user wrote, as far as that is ours to change.
    async fn write_spec(&mut self, action: &Action) -> Result<(), WriteError> {
        let paused = |paused: bool| json!({ "updateStrategy": { "paused": paused } });
        let asked = json!({ "annotations": { names::ASK: Value::Null } });
        let (spec, metadata) = match action {
            Action::SetPaused(value) => (paused(*value), json!({})),
            Action::Lift(_) => (paused(false), asked),
            Action::ClearCommand => (Value::Null, asked),
            Action::GoBack { to, .. } => {
                let Some(known) = self.observation.revisions.get(to.as_str()) else {
                    return Ok(());
                };
                let template = revision::template(known);
                let change = difference(&self.object["spec"]["template"], &template);
                (json!({ "template": change }), asked)
            }
            Action::ResetRetry(kind) => {
                let member = match kind {
                    HookKind::PreDelete => "preDeleteUpdateStrategy",
                    HookKind::PreInPlace => "preInplaceUpdateStrategy",
                    HookKind::PostInPlace => "postInplaceUpdateStrategy",
                };
                (json!({ member: { "retry": false } }), json!({}))
            }
            Action::PrunePodsToDelete(gone) => {
                let listed = self.object["spec"]["scaleStrategy"]["podsToDelete"].as_array();
                let is_gone = |name: &&Value| gone.iter().any(|gone| **name == gone.as_str());
                let left: Vec<Value> =
                    listed.into_iter().flatten().filter(|name| !is_gone(name)).cloned().collect();
                (json!({ "scaleStrategy": { "podsToDelete": left } }), json!({}))
            }
            Action::Create(_)
            | Action::Delete(..)
            | Action::ForceDelete(_)
            | Action::Mark(_)
            | Action::Unmark(_)
            | Action::SetGate(..)
            | Action::UpdateInPlace(_)
            | Action::ApplyGrace(_)
            | Action::DropGrace(_)
            | Action::HotPatch(_)
            | Action::ClearPostHook(_)
            | Action::Identify(_)
            | Action::StartHook(_)
            | Action::TerminateHook(_)
            | Action::DeleteHook(_)
            | Action::Remember(_)
            | Action::DropRevisions(_)
            | Action::Announce(_) => return Ok(()),
        };
        let mut patch = json!({ "metadata": metadata });
        patch["metadata"]["resourceVersion"] = self.object["metadata"]["resourceVersion"].clone();
        if !spec.is_null() {
            patch["spec"] = spec;
        }
        self.object = self.workload.cx.cluster.merge(self.workload.own_place(""), &patch).await?;
        Ok(())
    }

    async fn create(&mut self, pod: &NewPod) -> Result<(), WriteError> {
        let Some(known) = self.observation.revisions.get(pod.revision.as_str()) else {
            return Err(WriteError::Missing { what: format!("revision {}", pod.revision) });
        };
        let name = match pod.ordinal {
            Some(ordinal) => format!("{}-{ordinal}", self.workload.key.name),
            None => self.free_name(),
        };
        if let Some(ordinal) = pod.ordinal {
            for claim in pods::new_claims(&self.observation.workload, ordinal) {
                let name = claim["metadata"]["name"].as_str().unwrap_or_default();
                match self
                    .workload
                    .cx
                    .cluster
                    .create(self.workload.place(VOLUME_CLAIM, name), &claim)
                    .await
                {
                    Ok(_) => {}
                    Err(WriteError::Conflict { .. }) => self.stays(name).await?,
                    Err(error) => return Err(error),
                }
            }
        }
        let template = revision::template(known);
        let body = pods::new(self.workload.kind, &self.observation.workload, &template, pod, &name);
        match (
            self.workload.cx.cluster.create_named(self.workload.place(POD, &name), &body).await,
            pod.ordinal,
        ) {
            (Ok(_), _) => {}
            (Err(error), None) => return Err(nameless(error, &name, &self.workload.key.name)),
            (Err(error @ WriteError::Conflict { .. }), Some(_)) => {
                self.is_free(&name).await?;
                return Err(error);
            }
            (Err(error), Some(_)) => return Err(error),
        }
        self.created.insert(name.clone());
        let text = format!("Pod {name} is made.");
        self.workload.record(&self.object, "SuccessfulCreate", Tone::Normal, &text).await;
        Ok(())
    }

    /// A name no pod has, and that none had a moment ago.
    fn free_name(&self) -> String {
        let mut number = 0_u32;
        loop {
            let text =
                format!("{}/{}/{number}", self.workload.uid, self.observation.observed.now.0);
            let digest = Sha256::digest(text.as_bytes());
            let letters = digest
                .iter()
                .take(ID_LENGTH)
                .filter_map(|byte| ID_LETTERS.get(usize::from(*byte) % ID_LETTERS.len()));
            let id: String = letters.map(|letter| char::from(*letter)).collect();
            let name = format!("{}-{id}", self.workload.key.name);
            let key = Key::new(&self.workload.key.namespace, &name);
            let is_known = self.workload.cx.cluster.cache.get(POD, &key).is_some();
            let was_seen = self.observation.observed.pods.iter().any(|pod| pod.name == name);
            if !is_known && !was_seen && !self.created.contains(&name) {
                return name;
            }
            number += 1;
        }
    }

    async fn delete(&self, pod: &PodRef, why: Departure) -> Result<(), WriteError> {
        self.workload
            .cx
            .cluster
            .delete(self.workload.place(POD, &pod.name), &pod.uid, None)
            .await?;
        let name = &pod.name;
        let (reason, text) = match why {
            Departure::Surplus => {
                ("SuccessfulDelete", format!("Pod {name} is deleted: one too many."))
            }
            Departure::Named => {
                ("SuccessfulDelete", format!("Pod {name} is deleted: podsToDelete names it."))
            }
            Departure::Failed => ("SuccessfulDelete", format!("Pod {name} is deleted: it ended.")),
            Departure::Replaced if self.workload.kind == GAME_DEPLOYMENT => (
                "SuccessfulUpdatePodReCreate",
                format!("Pod {name} is deleted: one of the new revision takes its place."),
            ),
            Departure::Replaced => (
                "SuccessfulDelete",
                format!("Pod {name} is deleted: one of the new revision takes its place."),
            ),
        };
        self.workload.record(&self.object, reason, Tone::Normal, &text).await;
        Ok(())
    }

    async fn change(
        &self,
        pod: &PodRef,
        subresource: &str,
        patch: impl FnOnce(&Value) -> Value,
    ) -> Result<(), WriteError> {
        // As it is after our own writes of this look.
        let key = Key::new(&self.workload.key.namespace, &pod.name);
        let live = self.workload.cx.cluster.cache.get(POD, &key);
        let live = live.filter(|live| live["metadata"]["uid"] == pod.uid.as_str());
        let Some(live) = live else {
            return Err(WriteError::Missing { what: format!("Pod {key}") });
        };
        let place = Place { subresource, ..self.workload.place(POD, &pod.name) };
        self.workload.cx.cluster.strategic(place, &patch(&live)).await.map(|_| ())
    }

    async fn record_update(&self, change: &PodChange, reason: &str) {
        let text = format!("Pod {} becomes {}.", change.pod.name, change.revision);
        self.workload.record(&self.object, reason, Tone::Normal, &text).await;
    }

    /// Makes a run unless it exists. What is cached may be behind: a run that is made twice runs twice.
    async fn start_hook(&self, start: &HookStart) -> Result<(), WriteError> {
        let place = self.workload.place(HOOK_RUN, &start.name);
        if let Some(found) = self.workload.cx.cluster.read(place).await? {
            let is_new = !self.observation.runs.contains_key(&start.name);
            self.workload.cx.cluster.cache.cache_insert(HOOK_RUN, found);
            return if is_new {
                Err(WriteError::Conflict { what: place.to_string() })
            } else {
                Ok(())
            };
        }
        let Some(template) = self.observation.templates.get(&start.template) else {
            return Err(WriteError::Missing { what: format!("HookTemplate {}", start.template) });
        };
        let pod = match &start.purpose {
            Purpose::Pod { uid, .. } => {
                self.observation.observed.pods.iter().find(|pod| pod.uid == *uid)
            }
            Purpose::Step { .. } => None,
        };
        let body = run::new(self.workload.kind, &self.observation.workload, template, start, pod);
        self.workload.cx.cluster.create_named(place, &body).await.map(|_| ())
    }

    /// A claim stays when its pod goes: that is what it is for. One that is being deleted waits for its
    /// pod to go, and a pod that is made in the meantime would be left without.
    async fn stays(&self, name: &str) -> Result<(), WriteError> {
        let claim = self.workload.cx.cluster.read(self.workload.place(VOLUME_CLAIM, name)).await?;
        match claim {
            Some(claim) if claim["metadata"]["deletionTimestamp"].is_null() => Ok(()),
            Some(_) => Err(WriteError::Refused {
                what: "the pod of a claim".to_owned(),
                why: format!("PersistentVolumeClaim {name} is being deleted"),
            }),
            None => Err(WriteError::Conflict { what: format!("PersistentVolumeClaim {name}") }),
        }
    }

    /// A pod of this name that is none of ours, and never will be, is in the way until somebody takes
    /// it away.
    async fn is_free(&self, name: &str) -> Result<(), WriteError> {
        let Some(pod) = self.workload.cx.cluster.read(self.workload.place(POD, name)).await? else {
            return Ok(());
        };
        let owner = match controller_of(&pod) {
            Some((kind, of))
                if (kind, of) != (self.workload.kind.kind, &*self.workload.key.name) =>
            {
                format!("belongs to {kind} {of}")
            }
            None if !is_selected(
                &self.observation.workload["spec"]["selector"],
                &pod["metadata"]["labels"],
            ) =>
            {
                "belongs to nobody, and has other labels than the selector".to_owned()
            }
            Some(_) | None => return Ok(()),
        };
        Err(WriteError::Refused {
            what: format!("Pod {name}"),
            why: format!("there is a pod of that name, which {owner}"),
        })
    }

    /// What an action was about, read past the cache.
    async fn read_again(&self, action: &Action) -> Result<(), WriteError> {
        let cluster = &self.workload.cx.cluster;
        let pod = |name: &str| (POD, name.to_owned());
        let (kind, name) = match action {
            Action::Delete(it, _)
            | Action::ForceDelete(it)
            | Action::Mark(it)
            | Action::Unmark(it)
            | Action::SetGate(it, _)
            | Action::DropGrace(it)
            | Action::ClearPostHook(it)
            | Action::Identify(it) => pod(&it.name),
            Action::UpdateInPlace(it) | Action::ApplyGrace(it) | Action::HotPatch(it) => {
                pod(&it.pod.name)
            }
            Action::Create(NewPod { ordinal: Some(ordinal), .. }) => {
                pod(&format!("{}-{ordinal}", self.workload.key.name))
            }
            Action::StartHook(start) => (HOOK_RUN, start.name.clone()),
            Action::TerminateHook(name) | Action::DeleteHook(name) => (HOOK_RUN, name.clone()),
            Action::DropRevisions(names) => {
                for name in names {
                    cluster
                        .refresh(self.workload.place(CONTROLLER_REVISION, name.as_str()))
                        .await?;
                }
                return Ok(());
            }
            Action::Create(_) => return Ok(()),
            Action::SetPaused(_)
            | Action::Lift(_)
            | Action::ClearCommand
            | Action::GoBack { .. }
            | Action::ResetRetry(_)
            | Action::PrunePodsToDelete(_)
            | Action::Remember(_)
            | Action::Announce(_) => (self.workload.kind, self.workload.key.name.to_string()),
        };
        cluster.refresh(self.workload.place(kind, &name)).await
    }
}

/// Each attempt makes up another name, and the refusal is still the same one.
fn nameless(error: WriteError, name: &str, workload: &str) -> WriteError {
    let any = format!("{workload}-*");
    match error {
        WriteError::Refused { what, why } => {
            WriteError::Refused { what: what.replace(name, &any), why: why.replace(name, &any) }
        }
        other => other,
    }
}

/// The condition that a refused write shows up in.
fn refusal_kind(action: &Action) -> ConditionKind {
    match action {
        Action::Create(_) | Action::Delete(..) | Action::ForceDelete(_) => {
            ConditionKind::FailedScale
        }
        Action::Mark(_)
        | Action::Unmark(_)
        | Action::SetGate(..)
        | Action::UpdateInPlace(_)
        | Action::ApplyGrace(_)
        | Action::DropGrace(_)
        | Action::HotPatch(_)
        | Action::ClearPostHook(_)
        | Action::Identify(_)
        | Action::StartHook(_)
        | Action::TerminateHook(_)
        | Action::DeleteHook(_)
        | Action::SetPaused(_)
        | Action::Lift(_)
        | Action::ClearCommand
        | Action::GoBack { .. }
        | Action::ResetRetry(_)
        | Action::PrunePodsToDelete(_)
        | Action::Remember(_)
        | Action::DropRevisions(_)
        | Action::Announce(_) => ConditionKind::FailedUpdate,
    }
}

/// The event that a refused write is told by.
fn failed_reason(action: &Action) -> &'static str {
    match action {
        Action::Create(_) => "FailedCreate",
        Action::Delete(_, Departure::Replaced) => "FailedUpdatePodReCreate",
        Action::Delete(..) | Action::ForceDelete(_) => "FailedDelete",
        Action::UpdateInPlace(_) | Action::ApplyGrace(_) | Action::SetGate(..) => {
            "FailedUpdatePodInPlace"
        }
        Action::HotPatch(_) => "FailedUpdatePodHotPatch",
        Action::Mark(_)
        | Action::Unmark(_)
        | Action::DropGrace(_)
        | Action::ClearPostHook(_)
        | Action::Identify(_)
        | Action::StartHook(_)
        | Action::TerminateHook(_)
        | Action::DeleteHook(_)
        | Action::SetPaused(_)
        | Action::Lift(_)
        | Action::ClearCommand
        | Action::GoBack { .. }
        | Action::ResetRetry(_)
        | Action::PrunePodsToDelete(_)
        | Action::Remember(_)
        | Action::DropRevisions(_)
        | Action::Announce(_) => "FailedUpdate",
    }
}

/// The merge patch that makes one value the other.
fn difference(old: &Value, new: &Value) -> Value {
    let (Value::Object(old), Value::Object(new)) = (old, new) else { return new.clone() };
    let mut patch = Map::new();
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    for (name, value) in new {
        match old.get(name) {
            Some(known) if known == value => {}
            Some(known) => drop(patch.insert(name.clone(), difference(known, value))),
            None => drop(patch.insert(name.clone(), value.clone())),
        }
    }
    Value::Object(patch)
}

#[cfg(test)]
mod tests;
