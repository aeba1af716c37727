//! A cluster, its clients, and the expected state.

use std::{collections::BTreeMap, time::Duration};

use kube_sandbox::{Sandbox, Settings};
use serde_json::{Value, json};
use tidegate_tests::wire::{Reply, Wire, deployment, revision};

use super::{
    checks::{self, Checker},
    plan::{Kind, Policy, Step, Target, Version},
    watchers::{Pages, Watcher},
};

pub(crate) const HOLD: &str = "example.com/hold";

pub(crate) struct World {
    sandbox: Sandbox,
    wire: Wire,
    /// The last version of each object that each client saw.
    memory: BTreeMap<(u8, Target), Value>,
    /// The number of successful increments of each object, by uid.
    counted: BTreeMap<String, u64>,
    checker: Checker,
    watchers: Vec<Watcher>,
    pages: Vec<Pages>,
}

/// The preconditions of a write, and the object at its arrival.
struct Claim {
    /// The uid and version the write is based on, if it says.
    based_on: Option<(String, u64)>,
    current: Option<Value>,
}

// === impl World ===

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let sandbox = Sandbox::new(Settings::for_tests().seed(seed).shuffled());
        sandbox.load(vec![widgets()]).unwrap();
        sandbox.settle();
        let wire = Wire::new(&sandbox);
        let checker = Checker::new(&sandbox);
        let (memory, counted) = (BTreeMap::new(), BTreeMap::new());
        Self { sandbox, wire, memory, counted, checker, watchers: Vec::new(), pages: Vec::new() }
    }

    pub(crate) fn take(&mut self, step: &Step) {
        match step {
            Step::Work(pieces) => {
                for _ in 0..*pieces {
                    self.sandbox.runtime().step();
                }
            }
            Step::Pass { seconds } => self.sandbox.advance(Duration::from_secs((*seconds).into())),
            Step::Read { client, target } => {
                let read = self.wire.get(&target.path());
                self.remember(*client, *target, &read);
            }
            Step::Watch { kind, how, slow } => {
                let history = self.checker.history();
                self.watchers.push(Watcher::start(&self.wire, *kind, *how, *slow, history));
            }
            Step::Look { watcher, events } => {
                let count = self.watchers.len().max(1);
                if let Some(watcher) = self.watchers.get_mut(usize::from(*watcher) % count) {
                    watcher.look(usize::from(*events));
                }
            }
            Step::FirstPage { kind, size } => {
                self.pages.push(Pages::start(&self.wire, *kind, *size));
            }
            Step::NextPage { list } => {
                let count = self.pages.len().max(1);
                if let Some(pages) = self.pages.get_mut(usize::from(*list) % count) {
                    pages.turn(&self.wire);
                }
            }
            write => self.write(write),
        }
        self.check();
    }

    /// Comes to rest, removes all finalizers, and checks again.
    pub(crate) fn finish(mut self) {
        self.sandbox.advance(Duration::from_mins(5));
        self.check();
        checks::nothing_is_left_without_an_owner(&self.sandbox);
        for kind in Kind::ALL {
            for name in 0..3 {
                self.drop_finalizer(Target { kind, name });
            }
        }
        self.sandbox.advance(Duration::from_mins(5));
        self.check();
        checks::nothing_is_left_without_an_owner(&self.sandbox);
        checks::nothing_is_left_half_deleted(&self.sandbox);
        for pages in &mut self.pages {
            while pages.turn(&self.wire) {}
        }
        for watcher in &mut self.watchers {
            watcher.agrees(&self.wire);
        }
    }

    fn check(&mut self) {
        self.checker.look(&self.sandbox);
        for watcher in self.watchers.iter_mut().filter(|watcher| !watcher.is_slow) {
            watcher.agrees(&self.wire);
        }
    }

    fn write(&mut self, step: &Step) {
        match *step {
            Step::Create { client, target, owner, finalizer, label } => {
                self.create(client, target, owner, (finalizer, label));
            }
            Step::Count { client, target } => self.count(client, target),
            Step::Replace { client, target, version, value, dry_run } => {
                self.replace(client, target, version, value, dry_run);
            }
            Step::Merge { client, target, version, value, dry_run } => {
                self.merge(client, target, version, value, dry_run);
            }
            Step::JsonPatch { client, target, value } => {
                let place = format!("{}/value", fields_path(target.kind));
                let added = json!([{ "op": "add", "path": place, "value": text(value) }]);
                let reply = self.wire.json_patch(&by(client, &target.path(), false), &added);
                self.wrote(client, target, &reply);
            }
            Step::Apply { client, target, fields, value, force, dry_run } => {
                self.apply(client, target, (fields, value), force, dry_run);
            }
            Step::Label { client, target, on } => {
                let label = if on { json!("yes") } else { Value::Null };
                let patch = json!({ "metadata": { "labels": { "picked": label } } });
                let reply = self.wire.merge(&by(client, &target.path(), false), &patch);
                self.wrote(client, target, &reply);
            }
            Step::Status { client, target, value } if target.kind.has_status() => {
                let status = match target.kind {
                    Kind::Deployment => json!({ "collisionCount": value }),
                    _ => json!({ "value": format!("v{value}") }),
                };
                let path = by(client, &format!("{}/status", target.path()), false);
                // A write of the status ignores the rest of the object.
                let change = json!({ "status": status, "spec": { "replicas": 7 } });
                let reply = self.wire.merge(&path, &change);
                self.wrote(client, target, &reply);
            }
            Step::Scale { client, target, replicas } if target.kind.has_status() => {
                let path = by(client, &format!("{}/scale", target.path()), false);
                let reply = self.wire.merge(&path, &json!({ "spec": { "replicas": replicas } }));
                let exists = self.current(target).is_some();
                assert_eq!(reply.is_success(), exists, "{}", reply.body);
            }
            Step::Delete { client, target, policy, version, dry_run } => {
                self.delete(client, target, policy, version, dry_run);
            }
            Step::DropFinalizer(target) => self.drop_finalizer(target),
            Step::DeleteCollection { client, kind, labelled, dry_run } => {
                let label = if labelled { "&labelSelector=picked%3Dyes" } else { "" };
                let path = format!("{}{label}", by(client, kind.path(), dry_run));
                // With a body, the options in the query are ignored.
                let options = if dry_run { json!({ "dryRun": ["All"] }) } else { json!({}) };
                self.unchanged_if(dry_run, |world| world.wire.delete(&path, &options));
            }
            _ => {}
        }
    }

    fn create(
        &mut self,
        client: u8,
        target: Target,
        owner: Option<Target>,
        (finalizer, label): (bool, bool),
    ) {
        let mut object = fresh(target);
        put(&mut object, &format!("{}/counter", fields_path(target.kind)), json!("0"));
        if let Some((owner, found)) = owner.and_then(|owner| Some((owner, self.current(owner)?))) {
            object["metadata"]["ownerReferences"] = json!([{
                "apiVersion": owner.kind.api_version(), "kind": owner.kind.name(),
                "name": owner.name(), "uid": found["metadata"]["uid"],
                "blockOwnerDeletion": label,
            }]);
        }
        if finalizer {
            object["metadata"]["finalizers"] = json!([HOLD]);
        }
        if label {
            object["metadata"]["labels"] = json!({ "picked": "yes" });
        }
        let is_new = self.current(target).is_none();
        let reply = self.wire.post(&by(client, target.kind.path(), false), &object);
        assert_eq!(reply.code, if is_new { 201 } else { 409 }, "{}", reply.body);
        self.wrote(client, target, &reply);
    }

    fn count(&mut self, client: u8, target: Target) {
        let Some(mut object) = self.memory.get(&(client, target)).cloned() else { return };
        let path = format!("{}/counter", fields_path(target.kind));
        let count = counter(&object, target.kind) + 1;
        put(&mut object, &path, json!(count.to_string()));
        let claim = self.claim(target, Some(&object));
        let reply = self.wire.put(&by(client, &target.path(), false), &object);
        claim.judge(&reply);
        if reply.is_success() {
            let uid = reply.body["metadata"]["uid"].as_str().unwrap().to_owned();
            *self.counted.entry(uid).or_default() += 1;
        }
        self.wrote(client, target, &reply);
        self.check_counter(target);
    }

    /// No count is lost: the stored number is that of the successful increments.
    fn check_counter(&self, target: Target) {
        let Some(object) = self.current(target) else { return };
        let uid = object["metadata"]["uid"].as_str().unwrap();
        let told = self.counted.get(uid).copied().unwrap_or_default();
        assert_eq!(counter(&object, target.kind), told, "{object}");
    }

    fn replace(&mut self, client: u8, target: Target, version: Version, value: u8, dry_run: bool) {
        let Some(mut object) = self.base(client, target, version) else { return };
        put(&mut object, &format!("{}/value", fields_path(target.kind)), text(value));
        let claim = self.claim(target, Some(&object));
        let path = by(client, &target.path(), dry_run);
        let reply = self.unchanged_if(dry_run, |world| world.wire.put(&path, &object));
        if version == Version::None && target.kind == Kind::Widget {
            assert_eq!(reply.code, 422, "a custom resource is replaced with its version only");
            return;
        }
        claim.judge(&reply);
        if !dry_run {
            self.wrote(client, target, &reply);
        }
        self.check_counter(target);
    }

    fn merge(&mut self, client: u8, target: Target, version: Version, value: u8, dry_run: bool) {
        let Some(base) = self.base(client, target, version) else { return };
        let mut change = json!({ "metadata": {} });
        if version != Version::None {
            change["metadata"]["resourceVersion"] = base["metadata"]["resourceVersion"].clone();
            change["metadata"]["uid"] = base["metadata"]["uid"].clone();
        }
        put(&mut change, &format!("{}/value", fields_path(target.kind)), text(value));
        let claim = self.claim(target, Some(&change));
        let path = by(client, &target.path(), dry_run);
        let reply = self.unchanged_if(dry_run, |world| world.wire.merge(&path, &change));
        claim.judge(&reply);
        if !dry_run {
            self.wrote(client, target, &reply);
        }
    }

    fn apply(
        &mut self,
        client: u8,
        target: Target,
        (fields, value): (u8, u8),
        force: bool,
        dry_run: bool,
    ) {
        let mut config = fresh(target);
        if let Some(fields) = config.pointer_mut(fields_path(target.kind)) {
            *fields = json!({});
        }
        let mut applied = BTreeMap::new();
        for index in (0..3).filter(|index| fields & (1 << index) != 0) {
            let name = format!("f{index}");
            put(&mut config, &format!("{}/{name}", fields_path(target.kind)), text(value));
            applied.insert(name, format!("v{value}"));
        }
        let current = self.current(target);
        let contested = current
            .as_ref()
            .is_some_and(|current| checks::contested(current, target.kind, client, &applied));
        let path = format!("{}&force={force}", by(client, &target.path(), dry_run));
        let reply = self.unchanged_if(dry_run, |world| world.wire.apply(&path, &config));
        let want = match (&current, contested && !force) {
            (_, true) => 409,
            (None, false) => 201,
            (Some(_), false) => 200,
        };
        assert_eq!(reply.code, want, "applied {applied:?} on {current:?}: {}", reply.body);
        if reply.is_success() && !dry_run {
            self.checker.applied(&reply.body, client, applied);
            self.wrote(client, target, &reply);
        }
    }

    fn delete(
        &mut self,
        client: u8,
        target: Target,
        policy: Policy,
        version: Version,
        dry_run: bool,
    ) {
        let mut options = match policy {
            Policy::Default => json!({}),
            Policy::Background => json!({ "propagationPolicy": "Background" }),
            Policy::Foreground => json!({ "propagationPolicy": "Foreground" }),
            Policy::Orphan => json!({ "propagationPolicy": "Orphan" }),
        };
        let mut claim = self.claim(target, None);
        if version != Version::None {
            let Some(base) = self.base(client, target, version) else { return };
            options["preconditions"] = json!({
                "uid": base["metadata"]["uid"],
                "resourceVersion": base["metadata"]["resourceVersion"],
            });
            claim = self.claim(target, Some(&base));
        }
        if dry_run {
            options["dryRun"] = json!(["All"]);
        }
        let path = by(client, &target.path(), dry_run);
        let reply = self.unchanged_if(dry_run, |world| world.wire.delete(&path, &options));
        claim.judge(&reply);
    }

    fn drop_finalizer(&mut self, target: Target) {
        let Some(current) = self.current(target) else { return };
        let finalizers = current["metadata"]["finalizers"].as_array().into_iter().flatten();
        let kept: Vec<_> = finalizers.filter(|finalizer| **finalizer != HOLD).collect();
        let patch = json!({ "metadata": { "finalizers": kept } });
        self.wire.merge(&target.path(), &patch).ok();
    }

    /// Runs `action`; a dry run must change nothing.
    fn unchanged_if(&mut self, dry_run: bool, action: impl FnOnce(&mut Self) -> Reply) -> Reply {
        let before = self.sandbox.server().store.revision();
        let reply = action(self);
        let after = self.sandbox.server().store.revision();
        assert!(!dry_run || before == after, "a dry run wrote: {}", reply.body);
        reply
    }

    /// The object on which a write is based; `None` if there is none.
    fn base(&self, client: u8, target: Target, version: Version) -> Option<Value> {
        match version {
            Version::Remembered => self.memory.get(&(client, target)).cloned(),
            Version::Current => self.current(target),
            Version::None => {
                let mut object = self.current(target)?;
                let meta = object["metadata"].as_object_mut()?;
                meta.remove("resourceVersion");
                meta.remove("uid");
                Some(object)
            }
        }
    }

    fn claim(&self, target: Target, sent: Option<&Value>) -> Claim {
        let based_on = sent.and_then(|sent| {
            let uid = sent["metadata"]["uid"].as_str()?.to_owned();
            Some((uid, revision(sent)))
        });
        Claim { based_on, current: self.current(target) }
    }

    fn current(&self, target: Target) -> Option<Value> {
        let reply = self.wire.get(&target.path());
        reply.is_success().then_some(reply.body)
    }

    fn wrote(&mut self, client: u8, target: Target, reply: &Reply) {
        if reply.is_success() {
            self.checker.wrote(&reply.body, client);
        }
        self.remember(client, target, reply);
    }

    fn remember(&mut self, client: u8, target: Target, reply: &Reply) {
        if reply.is_success() && reply.body["kind"] == target.kind.name() {
            self.memory.insert((client, target), reply.body.clone());
        }
    }
}

// === impl Claim ===

impl Claim {
    /// A write based on an old version never wins; one based on the current version does.
    fn judge(&self, reply: &Reply) {
        let Some(current) = &self.current else {
            assert_eq!(reply.code, 404, "{}", reply.body);
            return;
        };
        let now = (current["metadata"]["uid"].as_str().unwrap(), revision(current));
        let is_stale =
            self.based_on.as_ref().is_some_and(|(uid, version)| (uid.as_str(), *version) != now);
        if is_stale {
            assert_eq!((reply.code, reply.reason()), (409, "Conflict"), "{}", reply.body);
            return;
        }
        assert!(reply.is_success(), "{}: {}", reply.code, reply.body["message"]);
        if reply.body["kind"] == current["kind"] {
            assert!(reply.revision() >= now.1, "versions rise");
        }
    }
}

/// A path with the client's name as field manager.
fn by(client: u8, path: &str, dry_run: bool) -> String {
    let dry_run = if dry_run { "&dryRun=All" } else { "" };
    format!("{path}?fieldManager=m{client}{dry_run}")
}

fn text(value: u8) -> Value {
    json!(format!("v{value}"))
}

/// The fields of a kind that clients write.
pub(crate) fn fields_path(kind: Kind) -> &'static str {
    match kind {
        Kind::Map => "/data",
        Kind::Deployment => "/metadata/annotations",
        Kind::Widget => "/spec/entries",
    }
}

fn counter(object: &Value, kind: Kind) -> u64 {
    let found = object.pointer(&format!("{}/counter", fields_path(kind)));
    found.and_then(Value::as_str).map(|text| text.parse().unwrap()).unwrap_or_default()
}

/// Sets a value, making the objects on the way.
fn put(object: &mut Value, path: &str, value: Value) {
    let mut place = object;
    for key in path.split('/').skip(1) {
        place = &mut place[key];
    }
    *place = value;
}

fn fresh(target: Target) -> Value {
    let name = target.name();
    let mut object = match target.kind {
        Kind::Map => json!({ "data": {} }),
        Kind::Deployment => {
            let mut web = deployment(&name, 1, "x:1");
            web["spec"].as_object_mut().unwrap().remove("replicas");
            web["metadata"]["annotations"] = json!({});
            web
        }
        Kind::Widget => json!({ "spec": { "entries": {} } }),
    };
    object["apiVersion"] = target.kind.api_version().into();
    object["kind"] = target.kind.name().into();
    object["metadata"]["name"] = name.into();
    object
}

fn widgets() -> Value {
    let entries = json!({ "type": "object", "additionalProperties": { "type": "string" } });
    let schema = json!({ "type": "object", "properties": {
        "spec": { "type": "object", "properties": {
            "replicas": { "type": "integer" }, "entries": entries } },
        "status": { "type": "object", "properties": {
            "replicas": { "type": "integer" }, "value": { "type": "string" } } },
    } });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "widgets.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": { "plural": "widgets", "singular": "widget", "kind": "Widget" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": schema },
                "subresources": { "status": {}, "scale": {
                    "specReplicasPath": ".spec.replicas",
                    "statusReplicasPath": ".status.replicas" } },
            }],
        },
    })
}
