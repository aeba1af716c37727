//! Acting: each effect of a decision, in order, until one fails.
//!
//! Each can be carried out twice. A write says what it is based on; if that is gone, nothing happens
//! and the cluster is looked at again.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use tidegate_api::canary::status::RouteMemory;
use tidegate_engine::{
    Action, Cookie, CookieChange, Decision, Fact, ManagedObject, Memory, Note, Outcome, Phase,
    Revision, Split, State, Tone,
};
use tidegate_providers::{
    object::{Change, Live},
    traffic::{Cookies, KNATIVE_SERVICE, RouteError},
    workload::{
        SECRET, WorkloadError, WorkloadKind, clone,
        config::{self, ConfigKind, Tracked},
        primary::{self, Promotion, Snapshot},
    },
};

use super::{
    cookies,
    lacking::Clocks,
    observe::{FINALIZER, RETRY, Seen},
    refusals::Attempt,
    status::{self, Beside, Page},
    task::{PAUSE_MAX, Task, strategy},
};
use crate::{
    cluster::{
        CANARY,
        cache::TableState,
        write::{Place, WriteError},
    },
    telemetry,
};

/// What changes while a decision is carried out.
struct Progress {
    memory: Memory,
    cookies: Cookies,
    /// The route that the status remembers.
    route: Option<RouteMemory>,
    is_written: bool,
}

impl Task {
    /// Carries out a decision, and says what is remembered after it.
    pub(super) async fn act(
        &mut self,
        seen: &Seen,
        decision: &Decision,
    ) -> Result<Memory, WriteError> {
        let observed = &seen.observed;
        self.based_on = Some(Arc::clone(&seen.raw));
        let mut progress = Progress {
            memory: observed.memory.clone(),
            cookies: seen.cookies.clone(),
            route: match &seen.former {
                Some(former) => Some(former.route.clone()),
                // One that was never seen may not be the one that divides traffic.
                None if observed.routes.is_ok() => seen.present_route(),
                None => seen.remembered_route().cloned(),
            },
            is_written: false,
        };
        self.gauge(seen, observed.memory.phase);
        if let Ok(split) = &observed.routes {
            self.weigh(seen, *split);
        }
        for action in &decision.actions {
            let outcome = self.carry_out_one(seen, decision, action, &mut progress).await;
            self.note_outcome(seen, action, outcome.as_ref().err());
            outcome?;
        }
        // What is waited for is said to the last; but not of what is let go.
        let is_let_go = observed.lifecycle.deleted_at.is_some()
            && (!observed.lifecycle.has_finalizer
                || decision.actions.contains(&Action::RemoveFinalizer));
        if !progress.is_written && !is_let_go {
            let memory = progress.memory.clone();
            self.write_status(seen, decision, &memory, &mut progress).await?;
        }
        Ok(progress.memory)
    }

    /// What the server refuses is an obstacle from now on, until it is done after all.
    fn note_outcome(&mut self, seen: &Seen, action: &Action, error: Option<&WriteError>) {
        let Some(attempt) = Attempt::of(action) else { return };
        match error {
            None => self.refusals.mend(attempt),
            Some(error @ WriteError::Refused { .. }) => {
                let rest = match attempt {
                    // Nothing comes after these but the end: longer than any pause before the next look.
                    Attempt::RestoreApex | Attempt::RestoreRoute => {
                        seen.observed.plan.interval.max(PAUSE_MAX * 2)
                    }
                    Attempt::Place(_) | Attempt::Divide | Attempt::RetirePreviousRoute => {
                        seen.observed.plan.interval
                    }
                };
                let until = self.cx.clock.monotonic() + rest;
                self.refusals.note(attempt, error.to_string(), until, seen.generation());
                self.refused = self.refused.saturating_add(1);
            }
            Some(_) => {}
        }
    }

    async fn carry_out_one(
        &mut self,
        seen: &Seen,
        decision: &Decision,
        action: &Action,
        progress: &mut Progress,
    ) -> Result<(), WriteError> {
        match action {
            Action::Ensure(ManagedObject::Primary) => {
                self.make_primary(seen, &progress.memory).await
            }
            Action::Ensure(piece) => {
                if *piece == ManagedObject::Route {
                    self.note_route(seen, progress).await?;
                }
                let changes = seen.changes.get(piece).map(Vec::as_slice).unwrap_or_default();
                self.write(changes).await?;
                if let Some(note) = seen.notes.get(piece) {
                    self.announce(seen, note, &progress.memory).await;
                }
                Ok(())
            }
            Action::Cookies(change) => self.change_cookies(seen, *change, progress).await,
            Action::Shift(split) => self.shift(seen, *split, progress).await,
            Action::RetirePreviousRoute => self.leave_route(seen).await,
            Action::ScaleTarget(replicas) => self.scale(seen, *replicas).await,
            Action::Park => self.scale(seen, 0).await,
            Action::ResumeScaler => self.write(seen.pause_scaler(self, false).as_slice()).await,
            Action::PauseScaler => self.write(seen.pause_scaler(self, true).as_slice()).await,
            Action::Promote(revision) => self.promote(seen, revision, &progress.memory).await,
            Action::RefreshPrimaryScaler => {
                let changes = seen.refreshed_scaler(self).map_err(refused)?;
                self.write(&changes).await
            }
            Action::Remember(memory) => self.write_status(seen, decision, memory, progress).await,
            Action::Announce(fact) => {
                self.announce(seen, fact, &progress.memory).await;
                Ok(())
            }
            Action::Alert(alert) => {
                self.alert(seen, alert, &progress.memory).await;
                Ok(())
            }
            Action::DropManualStep(fact) => {
                self.drop_manual_step(seen, fact.as_ref(), &progress.memory).await;
                Ok(())
            }
            Action::TakeResumeBack => self.take_resume_back(seen).await,
            Action::ClearRetry => self.clear_retry(seen).await,
            Action::Count(outcome) => {
                self.count(seen, *outcome);
                Ok(())
            }
            Action::AddFinalizer => self.set_finalizer(seen, true).await,
            Action::RemoveFinalizer => self.set_finalizer(seen, false).await,
            Action::RestoreApex => self.write(&seen.apex_back).await,
            Action::RestoreRoute => self.write(&seen.route_back).await,
            Action::Prune => self.write(&seen.leftovers).await,
        }
    }

    async fn write(&self, changes: &[Change]) -> Result<(), WriteError> {
        for change in changes {
            self.cx.cluster.carry_out(&self.key.namespace, change).await?;
        }
        Ok(())
    }

    // === Traffic ===

    /// Fresh cookies are stored before a route has them; what is retired goes with the memory.
    async fn change_cookies(
        &mut self,
        seen: &Seen,
        change: CookieChange,
        progress: &mut Progress,
    ) -> Result<(), WriteError> {
        progress.cookies = cookies::after(seen, &self.uid, change, &progress.cookies);
        if change.canary == Cookie::Fresh || change.primary == Cookie::Fresh {
            self.patch_status(seen, cookies::fields(&progress.cookies)).await?;
        }
        Ok(())
    }

    async fn shift(
        &mut self,
        seen: &Seen,
        split: Split,
        progress: &mut Progress,
    ) -> Result<(), WriteError> {
        self.note_route(seen, progress).await?;
        let cx = seen.route_cx_with(&progress.cookies);
        // Who does not know which route had a share cannot know that none has.
        let is_known = seen.remembered_route().is_some();
        let changes = match &seen.unlisted {
            // Where there is no such kind nobody has to be led back.
            Some(TableState::NotServed(_)) if split == Split::PRIMARY && is_known => Ok(Vec::new()),
            _ if is_known => seen.mesh.write(&cx, &seen.live, split),
            _ => seen.mesh.divide(&cx, &seen.live, split),
        };
        if let (Some(TableState::Failed(why)), Ok([])) = (&seen.unlisted, changes.as_deref()) {
            // That there is nothing to do is more than anybody knows.
            let (what, why) = ("the route".to_owned(), why.clone());
            return Err(WriteError::Refused { what, why });
        }
        self.write_route(changes).await?;
        self.weigh(seen, split);
        Ok(())
    }

    /// Which route may have a share is written down before it has one, and after the one before has none.
    async fn note_route(&mut self, seen: &Seen, progress: &mut Progress) -> Result<(), WriteError> {
        let is_left = seen.observed.objects.previous_route == State::InSync;
        let present = seen.present_route();
        if seen.former.is_none() || !is_left || progress.route == present {
            return Ok(());
        }
        // As it was last written: a decision may have remembered something before this.
        let live = self.base(seen);
        let known = json!(seen.status.rollout);
        let written = &live["status"]["rollout"];
        let rollout = if written.is_null() { &known } else { written };
        self.patch_status(seen, status::rerouted(rollout, present.as_ref())).await?;
        progress.route = present;
        Ok(())
    }

    async fn leave_route(&self, seen: &Seen) -> Result<(), WriteError> {
        let Some(former) = &seen.former else { return Ok(()) };
        self.write(&former.changes).await?;
        self.weigh(seen, Split::PRIMARY);
        Ok(())
    }

    /// What a router came to.
    async fn write_route(
        &self,
        changes: Result<Vec<Change>, RouteError>,
    ) -> Result<(), WriteError> {
        let changes = changes.map_err(|error| WriteError::Refused {
            what: "the route".to_owned(),
            why: error.to_string(),
        })?;
        self.write(&changes).await
    }

    fn weigh(&self, seen: &Seen, split: Split) {
        let (primary, canary) = (split.canary.rest().get(), split.canary.get());
        self.cx.telemetry.set_weight(&seen.gauge, primary, canary);
    }

    // === Workloads ===

    async fn scale(&self, seen: &Seen, replicas: i64) -> Result<(), WriteError> {
        let Some(target) = &seen.target else { return Ok(()) };
        let change = seen.workload.scale(target, replicas);
        self.write(change.as_slice()).await
    }

    /// The target as the server has it now: what is copied must be what was decided upon.
    async fn target_now(&self, seen: &Seen) -> Result<Value, WriteError> {
        let name = &seen.canary.spec.target_ref.name;
        let kind = seen.workload.kind();
        let target = self.cx.cluster.read(self.place(kind, name)).await?;
        let what = || format!("{} `{name}`", kind.kind);
        let target = target.ok_or_else(|| WriteError::Missing { what: what() })?;
        self.cx.cluster.cache.cache_insert(kind, target.clone());
        Ok(target)
    }

    async fn make_primary(&mut self, seen: &Seen, memory: &Memory) -> Result<(), WriteError> {
        let is_first = matches!(seen.observed.memory.phase, Phase::New | Phase::Initializing);
        let target = self.target_now(seen).await?;
        if seen.workload == WorkloadKind::Knative {
            let (mesh, live) = (seen.mesh, of_knative(target));
            return self.write_route(mesh.reconcile(&seen.route_cx(""), &live)).await;
        }
        if seen.workload == WorkloadKind::Service {
            // Only ever of a target that is at what was promoted: see what was observed.
            let change = clone::create_primary(&seen.cx(self), &target, seen.distribution());
            return self.write(change.map_err(refused)?.as_slice()).await;
        }
        if is_first {
            self.copy_configs(seen, &seen.tracked, memory).await?;
        }
        let cx = seen.cx(self);
        if is_first {
            let promotion = Promotion {
                revision: &seen.workload.revision(&target),
                tracked: &seen.tracked,
                has_scaler: seen.observed.plan.scaled,
            };
            let replicas = seen.workload.replicas(&target);
            self.keep_snapshot(seen, &target, &promotion, replicas).await?;
            let change = primary::create_primary(&cx, &target, &seen.tracked);
            return self.write(&[change.map_err(refused)?]).await;
        }
        let name = Snapshot::name(&seen.canary.spec.target_ref.name);
        let secret = self.cx.cluster.read(self.place(SECRET, &name)).await?;
        let snapshot = match &secret {
            Some(secret) => Some(Snapshot::read(&cx.owner, secret).map_err(refused)?),
            None => None,
        };
        let promoted = seen.observed.memory.promoted.as_ref().map_or("", Revision::as_str);
        let change = primary::recreate(&cx, &target, &seen.tracked, promoted, snapshot.as_ref());
        self.write(&[change.map_err(refused)?]).await
    }

    /// Gives the primary exactly the revision that was analysed, with its configuration.
    ///
    /// The copies of configuration come first, then a copy of the template for the day somebody
    /// deletes the primary, and the template last: whoever finds it in place finds all of it.
    async fn promote(
        &mut self,
        seen: &Seen,
        revision: &Revision,
        memory: &Memory,
    ) -> Result<(), WriteError> {
        let target = self.target_now(seen).await?;
        let moved = || WriteError::Conflict { what: "the target".to_owned() };
        if seen.workload.revision(&target) != revision.as_str() {
            return Err(moved());
        }
        if seen.workload == WorkloadKind::Knative {
            let (mesh, live) = (seen.mesh, of_knative(target));
            return self.write_route(mesh.promote(&seen.route_cx(""), &live)).await;
        }
        let none = Tracked::new();
        let tracked = seen.observed.memory.configs.as_deref().unwrap_or(&none);
        if self.cx.options.config_tracking && *tracked != seen.tracked {
            return Err(moved());
        }
        self.copy_configs(seen, tracked, memory).await?;
        let name = seen.canary.spec.primary_name();
        let live = self.cx.cluster.read(self.place(seen.workload.kind(), &name)).await?;
        let live = live.ok_or_else(|| WriteError::Missing { what: name.clone() })?;
        let cx = seen.cx(self);
        if seen.workload == WorkloadKind::Service {
            let way = seen.distribution();
            let change = clone::promote(&cx, &target, &live, way, revision.as_str());
            return self.write(change.map_err(refused)?.as_slice()).await;
        }
        let promotion = Promotion {
            revision: revision.as_str(),
            tracked,
            has_scaler: seen.observed.plan.scaled,
        };
        let change = primary::promote(&cx, &target, &live, &promotion).map_err(refused)?;
        let replicas = primary::promoted_replicas(&cx, &target, &live, promotion.has_scaler);
        self.keep_snapshot(seen, &target, &promotion, replicas).await?;
        self.write(change.as_slice()).await
    }

    async fn keep_snapshot(
        &self,
        seen: &Seen,
        target: &Value,
        promotion: &Promotion<'_>,
        replicas: i64,
    ) -> Result<(), WriteError> {
        let cx = seen.cx(self);
        let snapshot = Snapshot::of(&cx, target, promotion, replicas).map_err(refused)?;
        let name = Snapshot::name(&seen.canary.spec.target_ref.name);
        let existing = self.cx.cluster.read(self.place(SECRET, &name)).await?;
        let change = snapshot.save(&cx, existing.as_ref()).map_err(refused)?;
        self.write(change.as_slice()).await
    }

    async fn copy_configs(
        &mut self,
        seen: &Seen,
        tracked: &Tracked,
        memory: &Memory,
    ) -> Result<(), WriteError> {
        for (key, checksum) in tracked {
            let Some((kind, name)) = key.split_once('/') else { continue };
            let kind = match kind {
                "secret" => ConfigKind::Secret,
                _ => ConfigKind::ConfigMap,
            };
            let object = self.cx.cluster.read(self.place(kind.kind(), name)).await?;
            let object = object.ok_or_else(|| WriteError::Missing { what: key.clone() })?;
            if config::checksum(kind, &object) != *checksum {
                self.cx.cluster.cache.cache_insert(kind.kind(), object);
                return Err(WriteError::Conflict { what: key.clone() });
            }
            let copy = config::copy_name(name);
            let existing = self.cx.cluster.read(self.place(kind.kind(), &copy)).await?;
            let prefixes = &self.cx.options.included;
            let copied = config::copy(&seen.owner(), prefixes, kind, &object, existing.as_ref());
            let copied = copied.map_err(refused)?;
            if !copied.shared_with.is_empty() {
                let others = copied.shared_with.join(", ");
                let note = format!(
                    "{} {copy} is shared with the primary of {others}, which reads what is promoted \
                     here. Give each workload a configuration of its own to keep them apart.",
                    kind.kind().kind,
                );
                self.announce(seen, &Fact::Noted(Note::Other(note)), memory).await;
            }
            self.write(&copied.changes).await?;
        }
        Ok(())
    }

    fn place<'a>(&'a self, kind: tidegate_providers::object::Kind, name: &'a str) -> Place<'a> {
        Place { kind, namespace: &self.key.namespace, name, subresource: "" }
    }

    // === The canary itself ===

    /// One write for everything: memory, conditions, the decision.
    async fn write_status(
        &mut self,
        seen: &Seen,
        decision: &Decision,
        memory: &Memory,
        progress: &mut Progress,
    ) -> Result<(), WriteError> {
        let next = match decision.again {
            tidegate_engine::Again::At(at) => Some(at),
            _ => None,
        };
        // Taken whatever comes of the write: a later decision did not measure this.
        let checks = self.checks.take();
        let page = Page {
            now: seen.observed.now,
            generation: seen.generation(),
            kind: seen.canary.spec.target_ref.kind.as_str(),
            names: &seen.names,
            cookies: &progress.cookies,
            checks: checks.as_ref(),
            next,
        };
        let beside = Beside {
            primary: seen.primary_revision(),
            target: &seen.canary.spec.target_ref,
            known_target: seen.status.rollout.as_ref().and_then(|it| it.target.as_ref()),
            provider: &seen.provider,
            route: progress.route.as_ref(),
            is_left: seen.former.is_none() || seen.observed.objects.previous_route == State::InSync,
            lacking: {
                let clocks = Clocks::now(&*self.cx.clock);
                self.lacking.to_remember(seen.status.rollout.as_ref(), clocks)
            },
        };
        let mut fields = status::fields(memory, &beside);
        fields.extend(status::told(memory, decision, &seen.status, &page));
        self.patch_status(seen, fields).await?;
        progress.is_written = true;
        progress.memory = memory.clone();
        self.gauge(seen, memory.phase);
        Ok(())
    }

    async fn patch_status(
        &mut self,
        seen: &Seen,
        fields: Map<String, Value>,
    ) -> Result<(), WriteError> {
        // Based on what was decided upon, and on our own writes since. Whatever else the cache learnt in
        // the meantime, a lost answer of ours perhaps, must make this write fail.
        let live = self.base(seen);
        let mut known = json!(seen.status);
        if live["metadata"]["resourceVersion"] != seen.raw["metadata"]["resourceVersion"] {
            known = live["status"].clone();
        }
        // A zero that is not there yet is written: tools show these in a column.
        if let Some(known) = known.as_object_mut() {
            known.retain(|name, value| *value != 0 || !live["status"][name].is_null());
        }
        let changed = status::patch(&known, fields);
        let changed = changed.filter(|changed| !status::is_first_said(&known, changed));
        let Some(changed) = changed else { return Ok(()) };
        let patch = json!({
            "metadata": { "resourceVersion": live["metadata"]["resourceVersion"] },
            "status": changed,
        });
        let place = Place { subresource: "status", ..self.place(CANARY, &self.key.name) };
        let written = self.cx.cluster.merge(place, &patch).await?;
        self.remember_shadow(&known, &patch["status"], &written);
        self.based_on = Some(Arc::new(written));
        Ok(())
    }

    /// The canary as this decision knows it.
    fn base(&self, seen: &Seen) -> Arc<Value> {
        Arc::clone(self.based_on.as_ref().unwrap_or(&seen.raw))
    }

    /// Edits the canary itself.
    async fn edit(&mut self, patch: &Value) -> Result<(), WriteError> {
        let place = self.place(CANARY, &self.key.name);
        let written = self.cx.cluster.json_patch(place, patch).await?;
        self.based_on = Some(Arc::new(written));
        Ok(())
    }

    /// What we meant to write, where the cluster's definitions drop some of it.
    fn remember_shadow(&mut self, known: &Value, changed: &Value, written: &Value) {
        if !written["status"]["observedGeneration"].is_null() {
            self.shadow = None;
            return;
        }
        let mut meant = known.clone();
        if let (Some(meant), Some(changed)) = (meant.as_object_mut(), changed.as_object()) {
            for (name, value) in changed {
                meant.insert(name.clone(), without_nulls(value));
            }
        }
        self.shadow = serde_json::from_value(meant).ok();
    }

    async fn drop_manual_step(&mut self, seen: &Seen, fact: Option<&Fact>, memory: &Memory) {
        let step = &seen.raw["spec"]["manualStep"];
        if step.is_null() {
            return;
        }
        let patch = json!([
            { "op": "test", "path": "/spec/manualStep", "value": step },
            { "op": "remove", "path": "/spec/manualStep" },
        ]);
        match self.edit(&patch).await {
            Ok(()) => {
                if let Some(fact) = fact {
                    self.announce(seen, fact, memory).await;
                }
            }
            // The rollout goes on; the step is tried again at the next look.
            Err(error) => {
                let fact = Fact::ResumeStays(error.to_string());
                self.announce(seen, &fact, memory).await;
            }
        }
    }

    async fn take_resume_back(&mut self, seen: &Seen) -> Result<(), WriteError> {
        let step = &seen.raw["spec"]["manualStep"];
        let patch = json!([
            { "op": "test", "path": "/spec/manualStep", "value": step },
            { "op": "replace", "path": "/spec/manualStep/resume", "value": false },
        ]);
        self.edit(&patch).await
    }

    async fn clear_retry(&mut self, seen: &Seen) -> Result<(), WriteError> {
        let value = &seen.raw["metadata"]["annotations"][RETRY];
        if value.is_null() {
            return Ok(());
        }
        let place = format!("/metadata/annotations/{}", RETRY.replace('/', "~1"));
        let patch = json!([
            { "op": "test", "path": place, "value": value },
            { "op": "remove", "path": place },
        ]);
        self.edit(&patch).await
    }

    async fn set_finalizer(&mut self, seen: &Seen, held: bool) -> Result<(), WriteError> {
        let live = self.base(seen);
        let finalizers = live["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        let mut wanted: Vec<Value> =
            finalizers.iter().filter(|it| **it != FINALIZER).cloned().collect();
        if held {
            wanted.push(json!(FINALIZER));
        }
        if wanted == finalizers {
            return Ok(());
        }
        let patch = json!({ "metadata": {
            "resourceVersion": live["metadata"]["resourceVersion"],
            "finalizers": wanted,
        } });
        match self.cx.cluster.merge(self.place(CANARY, &self.key.name), &patch).await {
            // Gone is what was wanted.
            Err(WriteError::Missing { .. }) if !held => Ok(()),
            outcome => {
                self.based_on = Some(Arc::new(outcome?));
                Ok(())
            }
        }
    }

    /// An object that is no canary: one condition, one event, nothing else.
    pub(super) async fn refuse(&mut self, why: &str) -> Result<(), WriteError> {
        let Some(live) = self.cx.cluster.cache.get(CANARY, &self.key) else { return Ok(()) };
        let message: String =
            format!("This object cannot be read as a canary: {why}").chars().take(1024).collect();
        let said = live["status"]["conditions"].as_array().into_iter().flatten();
        let mut said = said.filter(|condition| condition["type"] == "Stalled");
        if said.any(|condition| condition["message"] == message.as_str()) {
            return Ok(());
        }
        self.write_event(&live, "Refused", Tone::Warning, &message).await;
        let now = self.cx.clock.now();
        let time = jiff::Timestamp::from_second(now.as_second()).unwrap_or(now).to_string();
        let patch = json!({
            "metadata": { "resourceVersion": live["metadata"]["resourceVersion"] },
            "status": { "conditions": [{
                "type": "Stalled", "status": "True", "reason": "Refused", "message": message,
                "lastUpdateTime": time, "lastTransitionTime": time,
            }] },
        });
        let place = Place { subresource: "status", ..self.place(CANARY, &self.key.name) };
        self.cx.cluster.merge(place, &patch).await.map(|_| ())
    }

    fn count(&self, seen: &Seen, outcome: Outcome) {
        let telemetry = &self.cx.telemetry;
        let strategy = strategy(seen.canary.spec.analysis.strategy());
        let (completed, skipped) = (telemetry::Analysis::Completed, telemetry::Analysis::Skipped);
        match outcome {
            Outcome::Completed => telemetry.count_success(&seen.gauge, strategy, completed),
            Outcome::Skipped => telemetry.count_success(&seen.gauge, strategy, skipped),
            Outcome::Failed => telemetry.count_failure(&seen.gauge, strategy, completed),
        }
    }
}

/// A Service of Knative as the router sees it.
fn of_knative(service: Value) -> Live {
    let mut live = Live::default();
    live.insert(KNATIVE_SERVICE, service);
    live
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key.clone(), without_nulls(value)))
            .collect::<Map<_, _>>()
            .into(),
        other => other.clone(),
    }
}

fn refused(error: WorkloadError) -> WriteError {
    match error {
        WorkloadError::TargetMoved { .. } => WriteError::Conflict { what: "the target".to_owned() },
        error => WriteError::Refused { what: "a workload".to_owned(), why: error.to_string() },
    }
}
