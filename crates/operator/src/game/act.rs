//! Carries decisions about a game workload out, one write after the other.
//!
//! What follows from a write that failed is left out, as the engine says; everything else goes on. A
//! conflict is no failure of anybody's: the world is looked at again.

use std::{collections::BTreeSet, time::Duration};

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use tidegate_engine::{
    Moment, Tone,
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

use super::{observe::Seen, workload::Workload};
use crate::{
    cluster::{
        cache::Key,
        write::{Place, WriteError},
    },
    telemetry::PodWork,
};

/// Letters and digits that make no words.
const ID_LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const ID_LENGTH: usize = 5;
/// Refusals that are told while the cluster goes on refusing: a pod each, of a workload that is not small.
const TOLD_MAX: usize = 100;
/// A refusal that was not met for so long is another one when it is. What is refused is tried again within
/// a minute, but not while something else comes first.
const FORGOTTEN_AFTER: Duration = Duration::from_mins(10);

/// What came of a decision.
#[derive(Default)]
pub(super) struct Done {
    /// Somebody else was faster somewhere: look again.
    pub(super) is_stale: bool,
    /// What the cluster refused.
    pub(super) refusals: Vec<Refusal>,
}

/// What must not follow any more.
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

impl Workload {
    /// Carries out what can be.
    pub(super) async fn act(
        &mut self,
        seen: &Seen,
        decision: &Decision,
    ) -> Result<Done, WriteError> {
        let mut done = Done::default();
        let mut left_out = LeftOut::default();
        // As it is after our own writes.
        let mut workload = Value::clone(&seen.workload);
        let mut made = BTreeSet::new();
        for action in &decision.actions {
            if left_out.has(action) {
                continue;
            }
            let begun = self.cx.clock.monotonic();
            let outcome = self.carry_out(seen, action, &mut workload, &mut made).await;
            self.measured(
                seen,
                action,
                outcome.is_ok(),
                self.cx.clock.monotonic().saturating_sub(begun),
            );
            let Err(error) = outcome else { continue };
            debug!(%error, "An effect did not happen");
            left_out.add(action);
            match error {
                WriteError::Conflict { .. } | WriteError::Missing { .. } => {
                    self.read_again(seen, action).await?;
                    done.is_stale = true;
                }
                WriteError::Refused { ref what, ref why } => {
                    let message = format!("{what} was refused: {why}");
                    if self.is_news(&message, seen.observed.now) {
                        let reason = failed_reason(action);
                        self.announce(&workload, reason, Tone::Warning, &message).await;
                    }
                    let kind = refusal_kind(action);
                    if !done.refusals.iter().any(|known| known.kind == kind) {
                        done.refusals.push(Refusal { kind, message });
                    }
                }
                WriteError::Unavailable { .. } => {
                    // Nothing more is done on top of what may or may not have happened.
                    self.is_in_doubt = true;
                    return Err(error);
                }
                WriteError::NotLeading => return Err(error),
            }
        }
        Ok(done)
    }

    /// How long a write of a pod or a run took.
    fn measured(&self, seen: &Seen, action: &Action, is_ok: bool, took: Duration) {
        let (who, series) = (self.in_telemetry(), &self.cx.telemetry.game);
        let hooks = &seen.observed.plan.hooks;
        let (work, hook) = match action {
            Action::Create(_) => (PodWork::Create, None),
            Action::Delete(..) | Action::ForceDelete(_) => {
                (PodWork::Delete, hooks.pre_delete.call.as_ref())
            }
            Action::UpdateInPlace(_) => (PodWork::UpdateInPlace, hooks.pre_in_place.call.as_ref()),
            Action::HotPatch(_) => (PodWork::HotPatch, hooks.pre_in_place.call.as_ref()),
            Action::StartHook(start) => {
                series.observe_run_made(who, run::type_of(&start.purpose), is_ok, took);
                return;
            }
            _ => return,
        };
        series.observe_pod(who, work, hook.is_some(), is_ok, took);
    }

    /// Whether a refusal is to be told. Once is enough while it is met again and again.
    fn is_news(&mut self, message: &str, now: Moment) -> bool {
        self.told.retain(|_, last| now.since(*last) < FORGOTTEN_AFTER);
        let is_news = !self.told.contains_key(message) && self.told.len() < TOLD_MAX;
        if is_news || self.told.contains_key(message) {
            self.told.insert(message.to_owned(), now);
        }
        is_news
    }

    async fn carry_out(
        &self,
        seen: &Seen,
        action: &Action,
        workload: &mut Value,
        made: &mut BTreeSet<String>,
    ) -> Result<(), WriteError> {
        let now = seen.observed.now;
        match action {
            Action::Create(pod) => self.create(seen, pod, made).await,
            Action::Delete(pod, why) => self.delete(seen, pod, *why).await,
            Action::ForceDelete(pod) => {
                self.cx.cluster.delete(self.place(POD, &pod.name), &pod.uid, Some(0)).await?;
                let text = format!("Pod {} is taken from its lost node.", pod.name);
                self.announce(workload, "SuccessfulForceDelete", Tone::Normal, &text).await;
                Ok(())
            }
            Action::Mark(pod) => self.change(pod, "", |live| pods::mark(live, true)).await,
            Action::Unmark(pod) => self.change(pod, "", |live| pods::mark(live, false)).await,
            Action::SetGate(pod, is_open) => {
                self.change(pod, "status", |live| pods::set_gate(live, *is_open, now)).await
            }
            Action::UpdateInPlace(change) => {
                self.change(&change.pod, "", |live| pods::update_in_place(live, change)).await?;
                self.told_of_update(workload, change, "SuccessfulUpdatePodInPlace").await;
                Ok(())
            }
            Action::ApplyGrace(change) => {
                self.change(&change.pod, "", |live| pods::apply_grace(live, change)).await
            }
            Action::DropGrace(pod) => self.change(pod, "", pods::drop_grace).await,
            Action::HotPatch(change) => {
                self.change(&change.pod, "", |live| pods::hot_patch(live, change)).await?;
                self.told_of_update(workload, change, "SuccessfulUpdatePodHotPatch").await;
                Ok(())
            }
            Action::ClearPostHook(pod) => self.change(pod, "", pods::clear_post_hook).await,
            Action::Identify(pod) => self.change(pod, "", pods::identify).await,
            Action::StartHook(start) => self.start_hook(seen, start).await,
            Action::TerminateHook(name) => {
                let Some(run) = seen.runs.get(name) else { return Ok(()) };
                let version = &run["metadata"]["resourceVersion"];
                let patch = json!({
                    "metadata": { "resourceVersion": version }, "spec": { "terminate": true },
                });
                self.cx.cluster.merge(self.place(HOOK_RUN, name), &patch).await.map(|_| ())
            }
            Action::DeleteHook(name) => {
                let Some(run) = seen.runs.get(name) else { return Ok(()) };
                let uid = run["metadata"]["uid"].as_str().unwrap_or_default();
                self.cx.cluster.delete(self.place(HOOK_RUN, name), uid, None).await
            }
            Action::DropRevisions(names) => {
                for name in names {
                    let Some(known) = seen.revisions.get(name.as_str()) else { continue };
                    let uid = known["metadata"]["uid"].as_str().unwrap_or_default();
                    let place = self.place(CONTROLLER_REVISION, name.as_str());
                    self.cx.cluster.delete(place, uid, None).await?;
                }
                Ok(())
            }
            Action::Remember(next) => {
                let patch = memory::patch(self.kind, workload, next);
                let place =
                    Place { subresource: "status", ..self.place(self.kind, &self.key.name) };
                *workload = self.cx.cluster.merge(place, &patch).await?;
                Ok(())
            }
            Action::Announce(fact) => {
                self.announce(workload, fact.reason(), fact.tone(), &fact.text()).await;
                Ok(())
            }
            other => self.write_spec(seen, other, workload).await,
        }
    }

    /// Changes what the user wrote, as far as that is ours to change.
    async fn write_spec(
        &self,
        seen: &Seen,
        action: &Action,
        workload: &mut Value,
    ) -> Result<(), WriteError> {
        let paused = |paused: bool| json!({ "updateStrategy": { "paused": paused } });
        let asked = json!({ "annotations": { names::ASK: Value::Null } });
        let (spec, metadata) = match action {
            Action::SetPaused(value) => (paused(*value), json!({})),
            Action::Lift(_) => (paused(false), asked),
            Action::ClearVerb => (Value::Null, asked),
            Action::GoBack { to, .. } => {
                let Some(known) = seen.revisions.get(to.as_str()) else { return Ok(()) };
                let template = revision::template(known);
                let change = difference(&workload["spec"]["template"], &template);
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
                let listed = workload["spec"]["scaleStrategy"]["podsToDelete"].as_array();
                let is_gone = |name: &&Value| gone.iter().any(|gone| **name == gone.as_str());
                let left: Vec<Value> =
                    listed.into_iter().flatten().filter(|name| !is_gone(name)).cloned().collect();
                (json!({ "scaleStrategy": { "podsToDelete": left } }), json!({}))
            }
            _ => return Ok(()),
        };
        let mut patch = json!({ "metadata": metadata });
        patch["metadata"]["resourceVersion"] = workload["metadata"]["resourceVersion"].clone();
        if !spec.is_null() {
            patch["spec"] = spec;
        }
        *workload = self.cx.cluster.merge(self.place(self.kind, &self.key.name), &patch).await?;
        Ok(())
    }

    async fn create(
        &self,
        seen: &Seen,
        pod: &NewPod,
        made: &mut BTreeSet<String>,
    ) -> Result<(), WriteError> {
        let Some(known) = seen.revisions.get(pod.revision.as_str()) else {
            return Err(WriteError::Missing { what: format!("revision {}", pod.revision) });
        };
        let name = match pod.ordinal {
            Some(ordinal) => format!("{}-{ordinal}", self.key.name),
            None => self.free_name(seen, made),
        };
        if let Some(ordinal) = pod.ordinal {
            for claim in pods::new_claims(&seen.workload, ordinal) {
                let name = claim["metadata"]["name"].as_str().unwrap_or_default();
                match self.cx.cluster.create(self.place(VOLUME_CLAIM, name), &claim).await {
                    Ok(_) => {}
                    Err(WriteError::Conflict { .. }) => self.stays(name).await?,
                    Err(error) => return Err(error),
                }
            }
        }
        let template = revision::template(known);
        let body = pods::new(self.kind, &seen.workload, &template, pod, &name);
        match (self.cx.cluster.create_named(self.place(POD, &name), &body).await, pod.ordinal) {
            (Ok(_), _) => {}
            (Err(error), None) => return Err(nameless(error, &name, &self.key.name)),
            (Err(error @ WriteError::Conflict { .. }), Some(_)) => {
                self.is_free(seen, &name).await?;
                return Err(error);
            }
            (Err(error), Some(_)) => return Err(error),
        }
        made.insert(name.clone());
        let text = format!("Pod {name} is made.");
        self.announce(&seen.workload, "SuccessfulCreate", Tone::Normal, &text).await;
        Ok(())
    }

    /// A name no pod has, and that none had a moment ago.
    fn free_name(&self, seen: &Seen, made: &BTreeSet<String>) -> String {
        let mut number = 0_u32;
        loop {
            let text = format!("{}/{}/{number}", self.uid, seen.observed.now.0);
            let digest = Sha256::digest(text.as_bytes());
            let letters = digest
                .iter()
                .take(ID_LENGTH)
                .filter_map(|byte| ID_LETTERS.get(usize::from(*byte) % ID_LETTERS.len()));
            let id: String = letters.map(|letter| char::from(*letter)).collect();
            let name = format!("{}-{id}", self.key.name);
            let key = Key::new(&self.key.namespace, &name);
            let is_known = self.cx.cluster.cache.get(POD, &key).is_some();
            let was_seen = seen.observed.pods.iter().any(|pod| pod.name == name);
            if !is_known && !was_seen && !made.contains(&name) {
                return name;
            }
            number += 1;
        }
    }

    async fn delete(&self, seen: &Seen, pod: &PodRef, why: Departure) -> Result<(), WriteError> {
        self.cx.cluster.delete(self.place(POD, &pod.name), &pod.uid, None).await?;
        let name = &pod.name;
        let (reason, text) = match why {
            Departure::Surplus => {
                ("SuccessfulDelete", format!("Pod {name} is deleted: one too many."))
            }
            Departure::Named => {
                ("SuccessfulDelete", format!("Pod {name} is deleted: podsToDelete names it."))
            }
            Departure::Failed => ("SuccessfulDelete", format!("Pod {name} is deleted: it ended.")),
            Departure::Replaced if self.kind == GAME_DEPLOYMENT => (
                "SuccessfulUpdatePodReCreate",
                format!("Pod {name} is deleted: one of the new revision takes its place."),
            ),
            Departure::Replaced => (
                "SuccessfulDelete",
                format!("Pod {name} is deleted: one of the new revision takes its place."),
            ),
        };
        self.announce(&seen.workload, reason, Tone::Normal, &text).await;
        Ok(())
    }

    async fn change(
        &self,
        pod: &PodRef,
        subresource: &str,
        patch: impl FnOnce(&Value) -> Value,
    ) -> Result<(), WriteError> {
        // As it is after our own writes of this look.
        let key = Key::new(&self.key.namespace, &pod.name);
        let live = self.cx.cluster.cache.get(POD, &key);
        let live = live.filter(|live| live["metadata"]["uid"] == pod.uid.as_str());
        let Some(live) = live else {
            return Err(WriteError::Missing { what: format!("Pod {key}") });
        };
        let place = Place { subresource, ..self.place(POD, &pod.name) };
        self.cx.cluster.strategic(place, &patch(&live)).await.map(|_| ())
    }

    async fn told_of_update(&self, workload: &Value, change: &PodChange, reason: &str) {
        let text = format!("Pod {} becomes {}.", change.pod.name, change.revision);
        self.announce(workload, reason, Tone::Normal, &text).await;
    }

    /// Makes a run unless it exists. What is cached may be behind: a run that is made twice runs twice.
    async fn start_hook(&self, seen: &Seen, start: &HookStart) -> Result<(), WriteError> {
        let place = self.place(HOOK_RUN, &start.name);
        if let Some(found) = self.cx.cluster.read(place).await? {
            let is_new = !seen.runs.contains_key(&start.name);
            self.cx.cluster.cache.cache_insert(HOOK_RUN, found);
            return if is_new {
                Err(WriteError::Conflict { what: place.to_string() })
            } else {
                Ok(())
            };
        }
        let Some(template) = seen.templates.get(&start.template) else {
            return Err(WriteError::Missing { what: format!("HookTemplate {}", start.template) });
        };
        let pod = match &start.purpose {
            Purpose::Pod { uid, .. } => seen.observed.pods.iter().find(|pod| pod.uid == *uid),
            Purpose::Step { .. } => None,
        };
        let body = run::new(self.kind, &seen.workload, template, start, pod);
        self.cx.cluster.create_named(place, &body).await.map(|_| ())
    }

    /// A claim stays when its pod goes: that is what it is for. One that is being deleted waits for its
    /// pod to go, and a pod that is made in the meantime would be left without.
    async fn stays(&self, name: &str) -> Result<(), WriteError> {
        let claim = self.cx.cluster.read(self.place(VOLUME_CLAIM, name)).await?;
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
    async fn is_free(&self, seen: &Seen, name: &str) -> Result<(), WriteError> {
        let Some(pod) = self.cx.cluster.read(self.place(POD, name)).await? else { return Ok(()) };
        let owner = match controller_of(&pod) {
            Some((kind, of)) if (kind, of) != (self.kind.kind, &*self.key.name) => {
                format!("belongs to {kind} {of}")
            }
            None if !is_selected(
                &seen.workload["spec"]["selector"],
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
    async fn read_again(&self, seen: &Seen, action: &Action) -> Result<(), WriteError> {
        let cluster = &self.cx.cluster;
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
                pod(&format!("{}-{ordinal}", self.key.name))
            }
            Action::StartHook(start) => (HOOK_RUN, start.name.clone()),
            Action::TerminateHook(name) | Action::DeleteHook(name) => (HOOK_RUN, name.clone()),
            Action::DropRevisions(names) => {
                for name in names {
                    cluster.refresh(self.place(CONTROLLER_REVISION, name.as_str())).await?;
                }
                return Ok(());
            }
            Action::Create(_) => return Ok(()),
            _ => (
                self.kind,
                seen.workload["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
            ),
        };
        cluster.refresh(self.place(kind, &name)).await
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
        _ => ConditionKind::FailedUpdate,
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
        _ => "FailedUpdate",
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
