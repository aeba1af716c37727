//! Writes the actions of one decision: pods, hook runs, revisions, status and the few fields of the spec that are
//! ours to change.

use std::{collections::BTreeSet, time::Duration};

use serde_json::{Map, Value, json};
use tidegate_engine::{
    Revision, Tone,
    game::{Action, Departure, HookKind, HookStart, NewPod, PodChange, PodRef, Purpose},
};
use tidegate_providers::game::{
    CONTROLLER_REVISION, GAME_DEPLOYMENT, HOOK_RUN, POD, memory, names, pods, revision, run,
};

use super::new_pod;
use crate::{
    cluster::{
        cache::Key,
        write::{Place, WriteError},
    },
    game::{observe::Observation, workload_ref::WorkloadRef},
    telemetry::PodWork,
};

/// The writes of one decision.
pub(super) struct Writer<'a> {
    workload: &'a WorkloadRef,
    observation: &'a Observation,
    /// The workload after our own writes.
    pub(super) object: Value,
    /// Names of pods created by this decision.
    created: BTreeSet<String>,
}

// === impl Writer ===

impl<'a> Writer<'a> {
    pub(super) fn new(workload: &'a WorkloadRef, observation: &'a Observation) -> Self {
        let object = Value::clone(&observation.workload);
        Self { workload, observation, object, created: BTreeSet::new() }
    }
}

impl Writer<'_> {
    /// Records how long a write of a pod or a run took.
    pub(super) fn measure(&self, action: &Action, is_ok: bool, took: Duration) {
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
            | Action::ResumeAndClear(_)
            | Action::ClearCommand
            | Action::RestoreTemplate { .. }
            | Action::ResetRetry(_)
            | Action::PrunePodsToDelete(_)
            | Action::Remember(_)
            | Action::DropRevisions(_)
            | Action::Announce(_) => return,
        };
        series.observe_pod(labels, work, hook.is_some(), is_ok, took);
    }

    pub(super) async fn run_action(&mut self, action: &Action) -> Result<(), WriteError> {
        let now = self.observation.observed.now;
        match action {
            Action::Create(pod) => {
                let (workload, observation) = (self.workload, self.observation);
                let name = new_pod::create(workload, observation, pod, &self.created).await?;
                let text = format!("Pod {name} is created.");
                self.created.insert(name);
                workload.record(&self.object, "SuccessfulCreate", Tone::Normal, &text).await;
                Ok(())
            }
            Action::Delete(pod, why) => self.delete(pod, *why).await,
            Action::ForceDelete(pod) => self.force_delete(pod).await,
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
            Action::TerminateHook(name) => self.terminate_hook(name).await,
            Action::DeleteHook(name) => self.delete_hook(name).await,
            Action::DropRevisions(names) => self.drop_revisions(names).await,
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
            | Action::ResumeAndClear(_)
            | Action::ClearCommand
            | Action::RestoreTemplate { .. }
            | Action::ResetRetry(_)
            | Action::PrunePodsToDelete(_) => self.write_spec(action).await,
        }
    }

    /// Changes the few fields of the spec that are ours to change.
    async fn write_spec(&mut self, action: &Action) -> Result<(), WriteError> {
        let paused = |paused: bool| json!({ "updateStrategy": { "paused": paused } });
        let asked = json!({ "annotations": { names::ASK: Value::Null } });
        let (spec, metadata) = match action {
            Action::SetPaused(value) => (paused(*value), json!({})),
            Action::ResumeAndClear(_) => (paused(false), asked),
            Action::ClearCommand => (Value::Null, asked),
            Action::RestoreTemplate { to, .. } => {
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

    /// Deletes a pod of a lost node, without waiting for its end.
    async fn force_delete(&self, pod: &PodRef) -> Result<(), WriteError> {
        let place = self.workload.place(POD, &pod.name);
        self.workload.cx.cluster.delete(place, &pod.uid, Some(0)).await?;
        let text = format!("Pod {} is force-deleted, as its node is lost.", pod.name);
        self.workload.record(&self.object, "SuccessfulForceDelete", Tone::Normal, &text).await;
        Ok(())
    }

    async fn terminate_hook(&self, name: &str) -> Result<(), WriteError> {
        let Some(run) = self.observation.runs.get(name) else { return Ok(()) };
        let version = &run["metadata"]["resourceVersion"];
        let patch = json!({
            "metadata": { "resourceVersion": version }, "spec": { "terminate": true },
        });
        let place = self.workload.place(HOOK_RUN, name);
        self.workload.cx.cluster.merge(place, &patch).await.map(|_| ())
    }

    async fn delete_hook(&self, name: &str) -> Result<(), WriteError> {
        let Some(run) = self.observation.runs.get(name) else { return Ok(()) };
        let uid = run["metadata"]["uid"].as_str().unwrap_or_default();
        self.workload.cx.cluster.delete(self.workload.place(HOOK_RUN, name), uid, None).await
    }

    async fn drop_revisions(&self, names: &[Revision]) -> Result<(), WriteError> {
        for name in names {
            let Some(known) = self.observation.revisions.get(name.as_str()) else { continue };
            let uid = known["metadata"]["uid"].as_str().unwrap_or_default();
            let place = self.workload.place(CONTROLLER_REVISION, name.as_str());
            self.workload.cx.cluster.delete(place, uid, None).await?;
        }
        Ok(())
    }

    async fn delete(&self, pod: &PodRef, why: Departure) -> Result<(), WriteError> {
        self.workload
            .cx
            .cluster
            .delete(self.workload.place(POD, &pod.name), &pod.uid, None)
            .await?;
        let name = &pod.name;
        let (reason, text) = match why {
            Departure::Surplus => (
                "SuccessfulDelete",
                format!("Pod {name} is deleted: there is one more than spec.replicas."),
            ),
            Departure::Named => {
                ("SuccessfulDelete", format!("Pod {name} is deleted: podsToDelete names it."))
            }
            Departure::Failed => ("SuccessfulDelete", format!("Pod {name} is deleted: it ended.")),
            Departure::Replaced if self.workload.kind == GAME_DEPLOYMENT => (
                "SuccessfulUpdatePodReCreate",
                format!("Pod {name} is deleted: one of the new revision replaces it."),
            ),
            Departure::Replaced => (
                "SuccessfulDelete",
                format!("Pod {name} is deleted: one of the new revision replaces it."),
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

    /// Creates a hook run unless the API server has it: a run that is created twice runs twice.
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

    /// Reads the object of an action from the API server.
    pub(super) async fn read_again(&self, action: &Action) -> Result<(), WriteError> {
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
            | Action::ResumeAndClear(_)
            | Action::ClearCommand
            | Action::RestoreTemplate { .. }
            | Action::ResetRetry(_)
            | Action::PrunePodsToDelete(_)
            | Action::Remember(_)
            | Action::Announce(_) => (self.workload.kind, self.workload.key.name.to_string()),
        };
        cluster.refresh(self.workload.place(kind, &name)).await
    }
}

/// The merge patch that makes one value the other.
pub(super) fn difference(old: &Value, new: &Value) -> Value {
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
