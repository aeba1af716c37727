//! The task of one game workload.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use serde_json::{Value, json};
use tidegate_engine::{
    Again, Moment, Tone,
    game::{Action, ConditionKind, Decision, Refusal, RevisionChoice, decide, refused},
};
use tidegate_providers::{
    game::{
        CONTROLLER_REVISION, GAME_DEPLOYMENT, HOOK_RUN, POD, memory, pod::ordinal, revision,
        selector_text,
    },
    object::Kind,
};
use tokio::sync::watch;
use tracing::{debug, warn};

use super::{
    life::{Next, Subject},
    observe::{self, Look, Revise, Seen},
    tell::tell,
};
use crate::{
    canary::Context,
    cluster::{
        cache::Key,
        write::{Place, WriteError},
    },
    telemetry::{GameKind, GameWorkload, Replicas},
};

/// Decisions of one wake-up. A release takes about three a step; more in one moment is a circle.
const ROUNDS_MAX: usize = 60;
/// Until everything was listed.
const LISTING: Duration = Duration::from_secs(1);
/// Times in a row that somebody else may be faster.
const CONFLICTS_MAX: u32 = 8;

/// What a task keeps in memory. All of it can be lost without harm.
pub(super) struct Workload {
    pub(super) cx: Arc<Context>,
    pub(super) kind: Kind,
    pub(super) key: Key,
    pub(super) uid: String,
    /// What the cluster refused when it was last tried.
    pub(super) refusals: Vec<Refusal>,
    /// Refusals that were told, and when each was met last.
    pub(super) told: BTreeMap<String, Moment>,
    /// Names of revisions that others had, found out when they were made.
    pub(super) collisions: u32,
    /// A write was not answered, so the cache may be behind what we did ourselves.
    pub(super) is_in_doubt: bool,
    /// What was said of an object that cannot be read.
    complaint: Option<String>,
}

// === impl Workload ===

impl Workload {
    pub(super) fn new(cx: Arc<Context>, kind: Kind, key: Key, uid: String) -> Self {
        Self {
            cx,
            kind,
            key,
            uid,
            refusals: Vec::new(),
            told: BTreeMap::new(),
            collisions: 0,
            is_in_doubt: false,
            complaint: None,
        }
    }

    /// Whether a pod of that name can be one of this workload's.
    pub(super) fn is_own_name(&self, pod: &str) -> bool {
        self.kind == GAME_DEPLOYMENT
            || pod.rsplit_once('-').is_some_and(|(set, _)| *set == *self.key.name)
                && ordinal(pod).is_some()
    }

    pub(super) fn place<'a>(&'a self, kind: Kind, name: &'a str) -> Place<'a> {
        Place { kind, namespace: &self.key.namespace, name, subresource: "" }
    }

    pub(super) async fn announce(&self, object: &Value, reason: &str, tone: Tone, text: &str) {
        tell(&self.cx, self.kind, object, (reason, tone), text).await;
    }

    /// One that cannot be read: somebody should know, and nothing is done.
    async fn complain(&mut self, object: &Value, why: &str) -> Result<(), WriteError> {
        let known = observe::memory_of(self.kind, object);
        let next = refused(&known, why, self.now());
        if next != known {
            let patch = memory::patch(self.kind, object, &next);
            let place = Place { subresource: "status", ..self.place(self.kind, &self.key.name) };
            self.cx.cluster.merge(place, &patch).await?;
        }
        if self.complaint.as_deref() != Some(why) {
            self.complaint = Some(why.to_owned());
            self.announce(object, "Refused", Tone::Warning, why).await;
        }
        Ok(())
    }

    /// Makes the revision of the template, or brings it to the front.
    async fn revise(&mut self, revise: &Revise) -> Result<(), WriteError> {
        let Revise { workload, choice, data } = revise;
        match choice {
            RevisionChoice::Use(_) => Ok(()),
            RevisionChoice::Renumber(name, number) => {
                let key = Key::new(&self.key.namespace, name.as_str());
                let known = self.cx.cluster.cache.get(CONTROLLER_REVISION, &key);
                let version = known.map(|it| it["metadata"]["resourceVersion"].clone());
                let patch = json!({
                    "metadata": { "resourceVersion": version }, "revision": number,
                });
                let place = self.place(CONTROLLER_REVISION, name.as_str());
                self.cx.cluster.merge(place, &patch).await.map(|_| ())
            }
            RevisionChoice::Create { name, number, collisions } => {
                let body = revision::new(self.kind, workload, name, *number, data);
                let place = self.place(CONTROLLER_REVISION, name.as_str());
                match self.cx.cluster.create_named(place, &body).await {
                    Err(WriteError::Conflict { .. }) => {
                        self.clash(name.as_str(), *collisions).await
                    }
                    made => made.map(|_| ()),
                }
            }
        }
    }

    /// Something has the name of a revision that was to be made: ours after all, or somebody else's.
    async fn clash(&mut self, name: &str, collisions: u32) -> Result<(), WriteError> {
        let place = self.place(CONTROLLER_REVISION, name);
        self.cx.cluster.refresh(place).await?;
        let key = Key::new(&self.key.namespace, name);
        let found = self.cx.cluster.cache.get(CONTROLLER_REVISION, &key);
        let owners = found.as_deref().map(|it| it["metadata"]["ownerReferences"].clone());
        let owners = owners.as_ref().and_then(Value::as_array);
        let is_ours =
            owners.is_some_and(|list| list.iter().any(|it| it["uid"] == self.uid.as_str()));
        if found.is_some() && !is_ours {
            self.collisions = collisions.saturating_add(1);
        }
        Ok(())
    }

    /// Takes in what belongs to nobody and is selected. Past the cache it is made sure that this workload is
    /// still there: one that is being deleted must not collect anything.
    async fn adopt(&mut self, kind: Kind, object: &Value) -> Result<(), WriteError> {
        let own = self.cx.cluster.read(self.place(self.kind, &self.key.name)).await?;
        let is_there = own.as_ref().is_some_and(|own| {
            own["metadata"]["uid"] == self.uid.as_str()
                && own["metadata"]["deletionTimestamp"].is_null()
        });
        let Some(own) = own.filter(|_| is_there) else {
            return Err(WriteError::Missing { what: self.key.to_string() });
        };
        let mut owners =
            object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
        owners.push(revision::owner(self.kind, &own));
        let patch = json!({ "metadata": {
            "uid": object["metadata"]["uid"],
            "resourceVersion": object["metadata"]["resourceVersion"], "ownerReferences": owners,
        } });
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        self.cx.cluster.merge(self.place(kind, name), &patch).await.map(|_| ())
    }

    /// Lets a pod go that is not selected any more.
    async fn release(&mut self, pod: &Value) -> Result<(), WriteError> {
        let metadata = &pod["metadata"];
        let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
        let others: Vec<&Value> = owners.filter(|it| it["uid"] != self.uid.as_str()).collect();
        let patch = json!({ "metadata": {
            "uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"],
            "ownerReferences": others,
        } });
        let name = metadata["name"].as_str().unwrap_or_default();
        self.cx.cluster.merge(self.place(POD, name), &patch).await.map(|_| ())
    }

    /// Reads everything of this workload again, past the cache.
    pub(super) async fn refresh(&mut self) -> Result<(), WriteError> {
        let cluster = self.cx.cluster.clone();
        cluster.refresh(self.place(self.kind, &self.key.name)).await?;
        let Some(object) = cluster.cache.get(self.kind, &self.key) else { return Ok(()) };
        let selector = selector_text(&object["spec"]["selector"]);
        let namespace = Arc::clone(&self.key.namespace);
        let of_runs = tidegate_providers::game::names::RUN_TYPE;
        for (kind, selector) in
            [(POD, selector.as_str()), (CONTROLLER_REVISION, &selector), (HOOK_RUN, of_runs)]
        {
            let found = cluster.read_all(kind, &namespace, selector).await?;
            let names: BTreeSet<Key> = found.iter().map(Key::of).collect();
            for object in found {
                cluster.cache.cache_insert(kind, object);
            }
            for known in cluster.cache.list_in(kind, &namespace) {
                let owners = known["metadata"]["ownerReferences"].as_array().into_iter().flatten();
                let is_ours = owners.into_iter().any(|it| it["uid"] == self.uid.as_str());
                if is_ours && !names.contains(&Key::of(&known)) {
                    cluster.cache.cache_remove(kind, &Key::of(&known));
                }
            }
        }
        Ok(())
    }

    pub(super) fn in_telemetry(&self) -> GameWorkload<'_> {
        in_telemetry(self.kind, &self.key.namespace, &self.key.name)
    }

    /// As the status has them, or is about to.
    fn replicas(&self, seen: &Seen, decision: &Decision) -> Replicas {
        let written = decision.actions.iter().find_map(|action| match action {
            Action::Remember(next) => Some(next.counts),
            _ => None,
        });
        let counts = written.unwrap_or(seen.observed.memory.counts);
        let is_deployment = self.kind == GAME_DEPLOYMENT;
        Replicas {
            all: counts.replicas,
            ready: counts.ready,
            available_or_current: if is_deployment { counts.available } else { counts.current },
            updated: counts.updated,
            updated_ready: counts.updated_ready,
        }
    }

    fn now(&self) -> Moment {
        Moment(self.cx.clock.now().as_millisecond())
    }
}

/// By what series know a workload.
pub(super) fn in_telemetry<'a>(kind: Kind, namespace: &'a str, name: &'a str) -> GameWorkload<'a> {
    let is_deployment = kind == GAME_DEPLOYMENT;
    let kind = if is_deployment { GameKind::Deployment } else { GameKind::StatefulSet };
    GameWorkload { kind, namespace, name }
}

/// What cannot be done.
fn kinds(refusals: &[Refusal]) -> BTreeSet<ConditionKind> {
    refusals.iter().map(|refusal| refusal.kind).collect()
}

/// What one look came to.
enum After {
    /// Something was done: look again.
    Again,
    /// Somebody else was faster: look again, but not for ever.
    Stale,
    Rest(Next),
}

impl Workload {
    /// One look, one decision.
    async fn look_once(&mut self) -> Result<After, WriteError> {
        match observe::look(self) {
            Look::Gone => Ok(After::Rest(Next::Gone)),
            // Rung when lists are complete.
            Look::Listing => Ok(After::Rest(Next::At(self.now().after(LISTING)))),
            Look::Unreadable(object, why) => {
                self.complain(&object, &why).await?;
                Ok(After::Rest(Next::OnChange))
            }
            Look::Adopt(kind, object) => {
                let outcome = self.adopt(kind, &object).await;
                self.unless_refused(outcome).await
            }
            Look::Release(pod) => {
                let outcome = self.release(&pod).await;
                self.unless_refused(outcome).await
            }
            Look::Revise(revise) => {
                let outcome = self.revise(&revise).await;
                self.unless_refused(outcome).await
            }
            Look::Seen(seen) => self.decide_upon(&seen).await,
        }
    }

    /// What comes before any decision was refused: somebody should know, and it is tried again.
    async fn unless_refused(
        &mut self,
        outcome: Result<(), WriteError>,
    ) -> Result<After, WriteError> {
        let Err(error @ WriteError::Refused { .. }) = outcome else {
            return outcome.map(|()| After::Again);
        };
        if let Some(object) = self.cx.cluster.cache.get(self.kind, &self.key) {
            self.complain(&object, &error.to_string()).await?;
        }
        Ok(After::Rest(Next::Later))
    }

    async fn decide_upon(&mut self, seen: &Seen) -> Result<After, WriteError> {
        self.complaint = None;
        let decision = decide(&seen.observed);
        debug!(reason = decision.why.reason(), actions = decision.actions.len(), "Decided");
        self.cx.telemetry.count_decision(decision.why.reason());
        self.cx.telemetry.game.set_replicas(self.in_telemetry(), self.replicas(seen, &decision));
        let done = self.act(seen, &decision).await?;
        if done.is_stale {
            return Ok(After::Stale);
        }
        // To be said at once, and then to be tried again later. What is refused in other words is no
        // news: a count or an address in them may be another each time.
        let is_news = kinds(&self.refusals) != kinds(&done.refusals);
        self.refusals = done.refusals;
        if is_news {
            return Ok(After::Again);
        }
        if !self.refusals.is_empty() {
            return Ok(After::Rest(Next::Later));
        }
        if !decision.actions.is_empty() {
            // Every write of ours may have made something due.
            return Ok(After::Again);
        }
        Ok(match decision.again {
            Again::Now => After::Again,
            Again::OnChange => After::Rest(Next::OnChange),
            Again::At(at) => After::Rest(Next::At(at)),
        })
    }
}

impl Subject for Workload {
    const IS_ONE_TURN: bool = true;

    async fn look(&mut self, stop: &watch::Receiver<bool>) -> Result<Next, WriteError> {
        let mut conflicts = 0_u32;
        for _ in 0..ROUNDS_MAX {
            if *stop.borrow() || !self.cx.cluster.leads() {
                return Ok(Next::OnChange);
            }
            if self.is_in_doubt {
                self.refresh().await?;
                self.is_in_doubt = false;
            }
            match self.look_once().await {
                Ok(After::Again) => {}
                Ok(After::Rest(next)) => return Ok(next),
                Ok(After::Stale) => conflicts += 1,
                Err(error) if error.is_stale() => {
                    debug!(%error, "Looking again");
                    self.refresh().await?;
                    conflicts += 1;
                }
                Err(error) => {
                    self.is_in_doubt = matches!(error, WriteError::Unavailable { .. });
                    return Err(error);
                }
            }
            if conflicts > CONFLICTS_MAX {
                return Ok(Next::Later);
            }
        }
        warn!(workload = %self.key, "Too many decisions in a row; pausing");
        Ok(Next::Later)
    }

    fn looked(&self, is_ok: bool, took: Duration) {
        self.cx.telemetry.game.observe_look(self.in_telemetry(), is_ok, took);
    }
}
