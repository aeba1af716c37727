//! Writes the canary itself: its status, `spec.manualStep`, annotations and finalizer.
//!
//! A write names the version that the decision was made upon, or that of our own last write: a newer change
//! makes the write fail instead of being overwritten. Nothing is written when nothing changed.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use tidegate_api::canary::{CanaryPhase, CanaryStatus, status::RouteMemory};
use tidegate_engine::{Again, Checks, Decision, Memory, Phase, Tone, is_new};
use tidegate_providers::{
    canary::{
        StatusExtras, StatusView, adds_names_only, conditions_and_decision,
        conditions_of_new_revision, fields, findings, patch, policy_condition, rerouted,
    },
    traffic::Cookies,
};

use super::{
    canary_ref::CanaryRef,
    events::record,
    inputs::RETRY,
    observation::{FINALIZER, Observation},
    unready_since::{Clocks, UnreadySince},
};
use crate::{
    cluster::{
        CANARY,
        write::{Place, WriteError},
    },
    http::url_error,
};

/// Versions of one canary between its writes.
#[derive(Default)]
pub(super) struct StatusWriter {
    /// The canary as the decision that is carried out knows it.
    based_on: Option<Arc<Value>>,
    /// The status as it was meant to be written, if the cluster's definition drops some of its fields.
    pub(super) unpruned_status: Option<CanaryStatus>,
}

/// The parts of a status that change while a decision is carried out.
pub(super) struct StatusParts<'a> {
    pub(super) memory: &'a Memory,
    pub(super) cookies: &'a Cookies,
    /// The route to remember.
    pub(super) route: Option<&'a RouteMemory>,
    /// Results of the last checks, if they are new.
    pub(super) checks: Option<&'a Checks>,
}

// === impl StatusWriter ===

impl StatusWriter {
    /// A decision upon this observation begins.
    pub(super) fn begin(&mut self, observation: &Observation) {
        self.based_on = Some(Arc::clone(observation.raw()));
    }

    /// One write for everything: memory, conditions, the decision.
    pub(super) async fn write(
        &mut self,
        canary: &CanaryRef,
        observation: &Observation,
        decision: &Decision,
        next: &StatusParts<'_>,
        unready_since: &UnreadySince,
    ) -> Result<(), WriteError> {
        let inputs = &observation.inputs;
        let rollout = inputs.remembered.status.rollout.as_ref();
        let next_step = match decision.again {
            Again::At(at) => Some(at),
            Again::Now | Again::OnChange => None,
        };
        let view = StatusView { next: next_step, ..view(observation, next) };
        let extras = StatusExtras {
            primary: inputs.primary_revision(),
            target: &inputs.canary.spec.target_ref,
            known_target: inputs.remembered.target(),
            provider: &observation.provider,
            route: next.route,
            is_previous_route_retired: observation.is_previous_route_retired(),
            unready_since: unready_since.to_remember(rollout, Clocks::now(&*canary.cx.clock)),
        };
        let mut status = fields(next.memory, &extras);
        let before = &inputs.remembered.status;
        status.extend(conditions_and_decision(next.memory, decision, before, &view));
        self.patch(canary, observation, status).await
    }

    /// Takes back `Ready` and `Promoted` of the last revision while hooks are asked about the next one.
    pub(super) async fn write_new_revision(
        &mut self,
        canary: &CanaryRef,
        observation: &Observation,
    ) -> Result<(), WriteError> {
        let remembered = &observation.inputs.remembered;
        let (memory, cookies) = (&remembered.memory, &remembered.cookies);
        let view = view(observation, &StatusParts { memory, cookies, route: None, checks: None });
        match conditions_of_new_revision(memory, &remembered.status, &view) {
            Some(conditions) => {
                self.begin(observation);
                self.patch(canary, observation, conditions).await
            }
            None => Ok(()),
        }
    }

    /// Writes the condition on doubtful parts of the policy if it changed, and returns its message.
    pub(super) async fn write_policy(
        &mut self,
        canary: &CanaryRef,
        observation: &Observation,
    ) -> Result<Option<String>, WriteError> {
        let (inputs, observed) = (&observation.inputs, &observation.observed);
        let is_idle = observed.plan.suspended || observed.lifecycle.deleted_at.is_some();
        let is_refused = !inputs.spec_errors.is_empty() || !inputs.blockers.is_empty();
        // A write that keeps `Promoted` would claim more than holds; the rollout's first one comes before.
        let is_unsaid = has_new_revision(observation, &observed.memory);
        if is_idle || is_refused || is_unsaid || observed.memory.phase == Phase::New {
            return Ok(None);
        }
        let found = findings(&inputs.canary.spec, inputs.mesh, url_error);
        let live = &inputs.remembered.status;
        let Some((message, conditions)) = policy_condition(&found, live, observed.now) else {
            return Ok(None);
        };
        self.begin(observation);
        self.patch(canary, observation, conditions).await?;
        Ok((!found.is_empty()).then_some(message))
    }

    /// Remembers another route, and changes nothing else.
    pub(super) async fn write_route(
        &mut self,
        canary: &CanaryRef,
        observation: &Observation,
        route: Option<&RouteMemory>,
    ) -> Result<(), WriteError> {
        // As it was last written: a decision may have remembered something before this.
        let live = self.base(observation);
        let known = json!(observation.inputs.remembered.status.rollout);
        let written = &live["status"]["rollout"];
        let rollout = if written.is_null() { &known } else { written };
        self.patch(canary, observation, rerouted(rollout, route)).await
    }

    /// Writes fields of the status that differ.
    pub(super) async fn patch(
        &mut self,
        canary: &CanaryRef,
        observation: &Observation,
        fields: Map<String, Value>,
    ) -> Result<(), WriteError> {
        let live = self.base(observation);
        let mut known = json!(observation.inputs.remembered.status);
        if live["metadata"]["resourceVersion"] != observation.raw()["metadata"]["resourceVersion"] {
            known = live["status"].clone();
        }
        // A zero that is not there yet is written: tools show these fields in a column.
        if let Some(known) = known.as_object_mut() {
            known.retain(|name, value| *value != 0 || !live["status"][name].is_null());
        }
        let changed = patch(&known, fields).filter(|changed| !adds_names_only(&known, changed));
        let Some(changed) = changed else { return Ok(()) };
        let patch = json!({
            "metadata": { "resourceVersion": live["metadata"]["resourceVersion"] },
            "status": changed,
        });
        let place = Place { subresource: "status", ..canary.place(CANARY, &canary.key.name) };
        let written = canary.cx.cluster.merge(place, &patch).await?;
        self.keep_unpruned(&known, &patch["status"], &written);
        self.based_on = Some(Arc::new(written));
        Ok(())
    }

    /// Removes `spec.manualStep`, if it still is the one that was observed.
    pub(super) async fn drop_manual_step(
        &mut self,
        canary: &CanaryRef,
        step: &Value,
    ) -> Result<(), WriteError> {
        let patch = json!([
            { "op": "test", "path": "/spec/manualStep", "value": step },
            { "op": "remove", "path": "/spec/manualStep" },
        ]);
        self.edit(canary, &patch).await
    }

    /// Sets `spec.manualStep.resume` back to false, if the step still is the one that was observed.
    pub(super) async fn reset_resume(
        &mut self,
        canary: &CanaryRef,
        step: &Value,
    ) -> Result<(), WriteError> {
        let patch = json!([
            { "op": "test", "path": "/spec/manualStep", "value": step },
            { "op": "replace", "path": "/spec/manualStep/resume", "value": false },
        ]);
        self.edit(canary, &patch).await
    }

    /// Removes the annotation that requests a retry of the gates.
    pub(super) async fn clear_retry(
        &mut self,
        canary: &CanaryRef,
        observation: &Observation,
    ) -> Result<(), WriteError> {
        let value = &observation.raw()["metadata"]["annotations"][RETRY];
        if value.is_null() {
            return Ok(());
        }
        let place = format!("/metadata/annotations/{}", RETRY.replace('/', "~1"));
        let patch = json!([
            { "op": "test", "path": place, "value": value },
            { "op": "remove", "path": place },
        ]);
        self.edit(canary, &patch).await
    }

    pub(super) async fn set_finalizer(
        &mut self,
        canary: &CanaryRef,
        observation: &Observation,
        is_wanted: bool,
    ) -> Result<(), WriteError> {
        let live = self.base(observation);
        let finalizers = live["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        let mut wanted: Vec<Value> =
            finalizers.iter().filter(|it| **it != FINALIZER).cloned().collect();
        if is_wanted {
            wanted.push(json!(FINALIZER));
        }
        if wanted == finalizers {
            return Ok(());
        }
        let patch = json!({ "metadata": {
            "resourceVersion": live["metadata"]["resourceVersion"],
            "finalizers": wanted,
        } });
        let place = canary.place(CANARY, &canary.key.name);
        match canary.cx.cluster.merge(place, &patch).await {
            // A canary that is gone has no finalizer, as was wanted.
            Err(WriteError::Missing { .. }) if !is_wanted => Ok(()),
            outcome => {
                self.based_on = Some(Arc::new(outcome?));
                Ok(())
            }
        }
    }

    /// The canary as this decision knows it, our own writes included.
    fn base(&self, observation: &Observation) -> Arc<Value> {
        Arc::clone(self.based_on.as_ref().unwrap_or(observation.raw()))
    }

    async fn edit(&mut self, canary: &CanaryRef, patch: &Value) -> Result<(), WriteError> {
        let place = canary.place(CANARY, &canary.key.name);
        let written = canary.cx.cluster.json_patch(place, patch).await?;
        self.based_on = Some(Arc::new(written));
        Ok(())
    }

    fn keep_unpruned(&mut self, known: &Value, changed: &Value, written: &Value) {
        if !written["status"]["observedGeneration"].is_null() {
            self.unpruned_status = None;
            return;
        }
        let mut meant = known.clone();
        if let (Some(meant), Some(changed)) = (meant.as_object_mut(), changed.as_object()) {
            for (name, value) in changed {
                meant.insert(name.clone(), without_nulls(value));
            }
        }
        self.unpruned_status = serde_json::from_value(meant).ok();
    }
}

fn view<'a>(observation: &'a Observation, next: &StatusParts<'a>) -> StatusView<'a> {
    StatusView {
        now: observation.observed.now,
        generation: observation.generation(),
        kind: observation.inputs.canary.spec.target_ref.kind.as_str(),
        names: &observation.names,
        cookies: next.cookies,
        checks: next.checks,
        next: None,
        is_new_revision: has_new_revision(observation, next.memory),
    }
}

/// The target holds a revision that was not released yet.
fn has_new_revision(observation: &Observation, memory: &Memory) -> bool {
    let target = observation.observed.target.as_ref();
    memory.phase.is_idle() && target.is_ok_and(|target| is_new(memory, target))
}

/// An object that cannot be read as a canary gets one condition and one Event, and nothing else happens.
pub(super) async fn write_unreadable(
    canary: &CanaryRef,
    live: &Value,
    why: &str,
) -> Result<(), WriteError> {
    let message: String =
        format!("This object cannot be read as a canary: {why}").chars().take(1024).collect();
    let mut known = live["status"]["conditions"].as_array().into_iter().flatten();
    let is_same = |it: &Value| it["type"] == "Stalled" && it["message"] == message.as_str();
    if known.any(is_same) {
        return Ok(());
    }
    record(canary, live, "Refused", Tone::Warning, &message).await;
    let now = canary.cx.clock.now();
    let time = jiff::Timestamp::from_second(now.as_second()).unwrap_or(now).to_string();
    let mut patch = json!({
        "metadata": { "resourceVersion": live["metadata"]["resourceVersion"] },
        "status": { "conditions": [{
            "type": "Stalled", "status": "True", "reason": "Refused", "message": message,
            "lastUpdateTime": time, "lastTransitionTime": time,
        }] },
    });
    if live["status"]["phase"].as_str().is_none_or(str::is_empty) {
        patch["status"]["phase"] = json!(CanaryPhase::Initializing);
    }
    let place = Place { subresource: "status", ..canary.place(CANARY, &canary.key.name) };
    canary.cx.cluster.merge(place, &patch).await.map(|_| ())
}

fn without_nulls(value: &Value) -> Value {
    let Value::Object(map) = value else { return value.clone() };
    let kept = map.iter().filter(|(_, value)| !value.is_null());
    kept.map(|(key, value)| (key.clone(), without_nulls(value))).collect::<Map<_, _>>().into()
}

#[cfg(test)]
mod tests;
