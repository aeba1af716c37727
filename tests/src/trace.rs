//! The history of a cluster, as a trace for the engine's invariants.
//!
//! The observer stands beside the API server: it reads the store's history, not the operator's memory. The
//! writer of a field is found in the object's managed fields. Calls to hooks and metric servers are put
//! into the same history by the revision of the cluster at which they were made.
//!
//! Of two canaries of one target the younger must write nothing. Where two operators run, their events and
//! messages are not counted: both may send them.
//!
//! ```text
//! store events --+
//!                +--> in order --> entries of each canary --> engine_check::Checker --> violations
//! network calls -+
//! ```

mod calls;
mod ownership;
mod route;
mod watched;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, LazyLock},
};

use jiff::{SignedDuration, Timestamp};
use kube_sandbox::{
    Sandbox,
    cluster::{Cluster, EVENTS, Resource},
    store::{Event, EventKind, TableKey},
};
use serde_json::Value;
use tidegate_api::canary::Canary;
use tidegate_engine::{Moment, Split};
use tidegate_engine_check::check::TraceEvent;
use tidegate_providers::canary::understand;
use tidegate_providers::{object::Kind, traffic::Mesh};

use self::watched::Watched;
use crate::{
    network::Network,
    rollout::{CANARIES, CONFIG_MAPS, DAEMON_SETS, DEPLOYMENTS, SECRETS, SERVICES},
};

/// The tables that are read: every kind of a canary's objects, with the routes of every provider.
static TABLES: LazyLock<BTreeSet<Resource>> = LazyLock::new(|| {
    let workloads = [CANARIES, DEPLOYMENTS, DAEMON_SETS, SERVICES, CONFIG_MAPS, SECRETS, EVENTS];
    workloads.into_iter().chain(routing_tables()).collect()
});

/// The tables of the routing objects of all providers.
pub fn routing_tables() -> BTreeSet<Resource> {
    let all = Mesh::ALL.into_iter().chain([Mesh::KumaHttp]);
    all.flat_map(|mesh| mesh.kinds().iter().map(table_of)).collect()
}

/// The table of a kind.
pub fn table_of(kind: &Kind) -> Resource {
    Resource { group: kind.group, plural: kind.plural }
}

/// The split of a canary's live traffic by the stored objects; `None` if no object has one.
pub fn live_split(cluster: &impl Cluster, canary: &Value, mesh_provider: &str) -> Option<Split> {
    let canary: Canary = serde_json::from_value(canary.clone()).ok()?;
    let (mesh, ..) = understand(&canary, mesh_provider)?;
    let mut objects = Objects::default();
    for table in routing_tables().into_iter().chain([SERVICES]) {
        for object in cluster.list(table, None) {
            let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
            let key = (Arc::from(text("namespace")), Arc::from(text("name")));
            objects.put(table, &key, Some(object));
        }
    }
    let namespace = canary.metadata.namespace.clone().unwrap_or_default();
    route::split(&canary, mesh, &objects, &namespace)
}

/// Watches all canaries of a cluster.
#[derive(Clone, Default)]
pub struct Observer {
    seen_to: u64,
    faults_seen: u64,
    objects: Objects,
    canaries: BTreeMap<Key, Watched>,
    /// Several operators run.
    is_shared: bool,
    /// The last start of an operator.
    started: Option<Timestamp>,
    violations: Vec<String>,
}

/// The time in which a process that starts lists what it needs; kinds that are not served take a retry.
const START: SignedDuration = SignedDuration::from_secs(5);

/// Namespace and name.
type Key = (Arc<str>, Arc<str>);

/// The objects as they were after the last event that was read.
#[derive(Clone, Default)]
struct Objects(BTreeMap<(Resource, Key), Value>);

/// Settings that do not change while a canary is watched.
#[derive(Clone, Debug)]
pub struct Habits {
    pub mesh_provider: String,
    pub config_tracking: bool,
}

/// One change of one object.
struct Change<'a> {
    table: Resource,
    key: &'a Key,
    before: Option<&'a Value>,
    now: Option<&'a Value>,
}

// === impl Observer ===

impl Observer {
    /// Reads new events and checks them. Conditions are judged only while an operator is at work: no other
    /// process corrects them.
    pub fn look(
        &mut self,
        sandbox: &Sandbox,
        network: &Network,
        habits: &Habits,
        is_at_work: bool,
    ) {
        let at = sandbox.server().clock.now();
        let mut calls = network.take_news().into_iter().peekable();
        for (table, event) in self.news(sandbox) {
            while let Some(call) = calls.next_if(|call| call.stamp < event.revision) {
                self.canaries.values_mut().for_each(|it| it.on_call(&call, at));
            }
            self.take(table, &event, at, habits);
        }
        for call in calls {
            self.canaries.values_mut().for_each(|it| it.on_call(&call, at));
        }
        let faults = sandbox.server().faults.injected();
        // A request that takes long does not fail.
        let faults = faults.total() - faults.of("delay");
        if std::mem::replace(&mut self.faults_seen, faults) != faults {
            self.tell_all(at, &TraceEvent::WriteFailed);
        }
        let has_listed = self.started.is_none_or(|start| at.duration_since(start) >= START);
        for watched in self.canaries.values_mut() {
            watched.rest(at, &self.objects, is_at_work && has_listed);
        }
        self.gather();
    }

    /// The cluster went back to a moment that `earlier` has seen, and the operator has to begin anew.
    pub fn go_back_to(&mut self, earlier: &Self, at: Timestamp) {
        let violations = std::mem::take(&mut self.violations);
        *self = Self { violations, faults_seen: self.faults_seen, ..earlier.clone() };
        self.restarted(at);
    }

    /// The operator was restarted.
    pub fn restarted(&mut self, at: Timestamp) {
        self.started = Some(at);
        self.tell_all(at, &TraceEvent::Restarted);
    }

    /// One more operator runs from now on.
    pub fn another_operator(&mut self) {
        self.is_shared = true;
        self.canaries.values_mut().for_each(Watched::share);
    }

    /// Violations since the last call.
    pub fn take_violations(&mut self) -> Vec<String> {
        std::mem::take(&mut self.violations)
    }

    /// The number of checked entries.
    pub fn entries(&self) -> usize {
        self.canaries.values().map(Watched::entries).sum()
    }

    fn tell_all(&mut self, at: Timestamp, what: &TraceEvent) {
        for watched in self.canaries.values_mut() {
            watched.see(at, what.clone());
        }
    }

    /// Events of all tables, oldest first.
    fn news(&mut self, sandbox: &Sandbox) -> Vec<(Resource, Arc<Event>)> {
        let store = &sandbox.server().store;
        let revision = store.revision();
        let mut news = Vec::new();
        for resource in TABLES.iter().copied() {
            let table = TableKey::new(resource.group, resource.plural);
            // Compacted events are lost; the next change shows the current state.
            let found = store.events_since(&table, self.seen_to, usize::MAX);
            let events = found.map(|(events, _)| events).unwrap_or_default();
            news.extend(events.into_iter().map(|event| (resource, event)));
        }
        news.sort_by_key(|(_, event)| event.revision);
        self.seen_to = revision;
        news
    }

    fn take(&mut self, table: Resource, event: &Event, at: Timestamp, habits: &Habits) {
        let key = (Arc::clone(&event.object.key.namespace), Arc::clone(&event.object.key.name));
        let now = (event.kind != EventKind::Deleted).then(|| event.object.value());
        let before = self.objects.put(table, &key, now.clone());
        let change = Change { table, key: &key, before: before.as_ref(), now: now.as_ref() };
        if table == CANARIES {
            self.take_canary(&change, at, habits);
            return;
        }
        if table == SERVICES {
            let canaries = self.canaries.values().map(|watched| &watched.canary);
            let found = ownership::unasked(&change, canaries, &self.objects);
            self.violations.extend(found);
        }
        for ((namespace, _), watched) in &mut self.canaries {
            // Cluster-scoped objects may belong to any canary.
            let is_near = *namespace == key.0 || key.0.is_empty();
            if is_near && !(watched.stands_back() && table != EVENTS) {
                watched.on_change(&change, at, &self.objects);
            }
        }
    }

    fn take_canary(&mut self, change: &Change<'_>, at: Timestamp, habits: &Habits) {
        let uid = |object: &Value| object["metadata"]["uid"].as_str().map(str::to_owned);
        let is_known = self.canaries.get(change.key).is_some_and(|watched| {
            change.now.is_none_or(|now| uid(now).as_deref() == Some(watched.uid()))
        });
        if !is_known {
            self.gather();
            self.canaries.remove(change.key);
            let new = change.now.and_then(|now| Watched::new(now, habits));
            if let Some(mut watched) = new {
                if self.is_shared {
                    watched.share();
                }
                watched.begin(at, &self.objects);
                self.canaries.insert(change.key.clone(), watched);
            }
            self.compare_rivals(at);
            return;
        }
        if let Some(watched) = self.canaries.get_mut(change.key) {
            watched.on_canary(change, at, &self.objects);
        }
        if change.now.is_none() {
            self.gather();
            self.canaries.remove(change.key);
        }
        self.compare_rivals(at);
    }

    /// Of the canaries of one target the oldest acts.
    fn compare_rivals(&mut self, at: Timestamp) {
        let ages: Vec<_> = self.canaries.values().map(Watched::claim).collect();
        for watched in self.canaries.values_mut() {
            let own = watched.claim();
            let is_older = |it: &watched::Claim| it.target == own.target && it.age < own.age;
            let stands_back = ages.iter().any(is_older);
            watched.stand_back(stands_back, at, &self.objects);
        }
    }

    fn gather(&mut self) {
        for watched in self.canaries.values_mut() {
            self.violations.extend(watched.take_violations());
        }
    }
}

// === impl Objects ===

impl Objects {
    fn get(&self, kind: Resource, namespace: &str, name: &str) -> Option<&Value> {
        let key = (Arc::from(namespace), Arc::from(name));
        self.0.get(&(kind, key))
    }

    /// Whether there is one of a kind.
    fn has(&self, kind: Resource) -> bool {
        let first = (kind, (Arc::from(""), Arc::from("")));
        self.0.range(first..).next().is_some_and(|((found, _), _)| *found == kind)
    }

    fn put(&mut self, table: Resource, key: &Key, object: Option<Value>) -> Option<Value> {
        if table == EVENTS {
            return None;
        }
        let place = (table, key.clone());
        match object {
            Some(object) => self.0.insert(place, object),
            None => self.0.remove(&place),
        }
    }
}

fn moment(at: Timestamp) -> Moment {
    Moment(at.as_millisecond())
}

/// Whether the operator was the last to write this field.
fn is_ours(object: &Value, path: &[&str]) -> bool {
    let entries = object["metadata"]["managedFields"].as_array();
    let has = |fields: &Value| {
        path.iter().try_fold(fields, |at, step| at.get(format!("f:{step}"))).is_some()
    };
    entries.is_some_and(|entries| {
        entries.iter().any(|entry| entry["manager"] == "tidegate" && has(&entry["fieldsV1"]))
    })
}
