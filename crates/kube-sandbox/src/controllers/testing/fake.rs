//! The minimal API server that controller tests need.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
};

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    cluster::{Cluster, Deletion, EVENTS, PODS, Resource},
    controllers::{
        Change,
        object::{
            controller_of, count, int, items, name, namespace, plus_seconds, set_at, stamp, text,
            uid,
        },
    },
    failure::{Failure, Outcome},
};

/// Group, plural, namespace and name.
type Place = (&'static str, &'static str, String, String);

pub(crate) struct FakeCluster {
    objects: RefCell<BTreeMap<Place, Value>>,
    changes: RefCell<Vec<Changed>>,
    now: Cell<Timestamp>,
    version: Cell<u64>,
    random: Cell<u64>,
    writes: Cell<usize>,
    /// Creation of pods fails while this is set.
    pub(crate) refuses_pods: Cell<bool>,
    /// Percentage of versioned writes that meet an artificial conflict.
    pub(crate) conflict_percent: Cell<u64>,
}

pub(crate) struct Changed {
    place: Place,
    old: Option<Value>,
    new: Option<Value>,
}

impl Changed {
    pub(crate) fn as_change(&self) -> Change<'_> {
        let (group, plural, namespace, name) = &self.place;
        Change { group, plural, namespace, name, old: self.old.as_ref(), new: self.new.as_ref() }
    }
}

// === impl FakeCluster ===

impl FakeCluster {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            objects: RefCell::default(),
            changes: RefCell::default(),
            now: Cell::new("2026-01-01T00:00:00Z".parse().unwrap()),
            version: Cell::new(0),
            random: Cell::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            writes: Cell::new(0),
            refuses_pods: Cell::new(false),
            conflict_percent: Cell::new(0),
        }
    }

    pub(crate) fn set_now(&self, now: Timestamp) {
        self.now.set(now);
    }

    pub(crate) fn writes(&self) -> usize {
        self.writes.get()
    }

    pub(crate) fn take_changes(&self) -> Vec<Changed> {
        self.changes.take()
    }

    pub(crate) fn events(&self, reason: &str) -> Vec<String> {
        let mut events = self.list(EVENTS, None);
        events.retain(|event| text(event, "/reason") == reason);
        events.sort_by_key(|event| count(event, "/metadata/sequence"));
        events.iter().map(|event| text(event, "/message").to_owned()).collect()
    }

    fn place(resource: Resource, namespace: &str, name: &str) -> Place {
        (resource.group, resource.plural, namespace.to_owned(), name.to_owned())
    }

    fn next_version(&self) -> u64 {
        self.version.set(self.version.get() + 1);
        self.version.get()
    }

    /// Stores an object with a new version and reports it, unless it is unchanged.
    fn store(&self, place: Place, mut object: Value) -> Value {
        let old = self.objects.borrow().get(&place).cloned();
        if old.as_ref() == Some(&object) {
            return object;
        }
        if let Some(old) = &old
            && old.get("spec") != object.get("spec")
        {
            let generation = count(old, "/metadata/generation") + 1;
            set_at(&mut object, &["metadata", "generation"], generation);
        }
        let version = self.next_version().to_string();
        set_at(&mut object, &["metadata", "resourceVersion"], version);
        self.writes.set(self.writes.get() + 1);
        self.objects.borrow_mut().insert(place.clone(), object.clone());
        self.changes.borrow_mut().push(Changed { place, old, new: Some(object.clone()) });
        object
    }

    /// Removes an object and its dependents.
    fn remove(&self, place: &Place) {
        let Some(old) = self.objects.borrow_mut().remove(place) else { return };
        self.writes.set(self.writes.get() + 1);
        let owner = uid(&old).to_owned();
        self.changes.borrow_mut().push(Changed { place: place.clone(), old: Some(old), new: None });
        let dependents: Vec<_> = self
            .objects
            .borrow()
            .iter()
            .filter(|(_, object)| {
                let references = items(object, "/metadata/ownerReferences");
                references.iter().any(|reference| text(reference, "/uid") == owner)
            })
            .map(|(place, _)| place.clone())
            .collect();
        for (group, plural, namespace, name) in dependents {
            let resource = Resource { group, plural };
            self.delete(resource, &namespace, &name, &Deletion::default()).unwrap();
        }
    }

    fn current(&self, resource: Resource, object: &Value) -> Outcome<Value> {
        let missing = || Failure::not_found(resource.group, resource.plural, name(object));
        let current = self.get(resource, namespace(object), name(object)).ok_or_else(missing)?;
        let version = text(object, "/metadata/resourceVersion");
        let unlucky = self.random() % 100 < self.conflict_percent.get();
        let stale = version != text(&current, "/metadata/resourceVersion") || unlucky;
        if !version.is_empty() && stale {
            return Err(Failure::stale(resource.group, resource.plural, name(object)));
        }
        Ok(current)
    }

    fn bind(&self, binding: &Value) -> Outcome<Value> {
        let mut pod = self.current(PODS, binding)?;
        assert_eq!(text(&pod, "/spec/nodeName"), "", "a pod is bound once");
        set_at(&mut pod, &["spec", "nodeName"], text(binding, "/target/name"));
        let scheduled = json!([{ "type": "PodScheduled", "status": "True",
            "lastTransitionTime": stamp(self.now()) }]);
        set_at(&mut pod, &["status", "conditions"], scheduled);
        Ok(self.store(Self::place(PODS, namespace(binding), name(binding)), pod))
    }
}

impl Cluster for FakeCluster {
    fn now(&self) -> Timestamp {
        self.now.get()
    }

    fn get(&self, resource: Resource, namespace: &str, name: &str) -> Option<Value> {
        self.objects.borrow().get(&Self::place(resource, namespace, name)).cloned()
    }

    fn list(&self, resource: Resource, namespace: Option<&str>) -> Vec<Value> {
        let objects = self.objects.borrow();
        let matching = objects.iter().filter(|((group, plural, place, _), _)| {
            (*group, *plural) == (resource.group, resource.plural)
                && namespace.is_none_or(|namespace| namespace == place)
        });
        matching.map(|(_, object)| object.clone()).collect()
    }

    fn owned(&self, resource: Resource, namespace: &str, owner_uid: &str) -> Vec<Value> {
        let mut objects = self.list(resource, Some(namespace));
        objects.retain(|object| controller_of(object).is_some_and(|owner| owner.uid == owner_uid));
        objects
    }

    fn create(&self, resource: Resource, namespace: &str, mut object: Value) -> Outcome<Value> {
        if resource == PODS && self.refuses_pods.get() {
            return Err(Failure::forbidden("", "pods", "", "exceeded quota"));
        }
        let prefix = text(&object, "/metadata/generateName").to_owned();
        if name(&object).is_empty() {
            let letters = (0..5).map(|_| char::from(b'a' + (self.random() % 26) as u8));
            let name = format!("{prefix}{}", letters.collect::<String>());
            set_at(&mut object, &["metadata", "name"], name);
        }
        let place = Self::place(resource, namespace, name(&object));
        if self.objects.borrow().contains_key(&place) {
            let name = name(&object);
            return Err(Failure::already_exists(resource.group, resource.plural, name));
        }
        if !namespace.is_empty() {
            set_at(&mut object, &["metadata", "namespace"], namespace);
        }
        let number = self.next_version();
        set_at(&mut object, &["metadata", "uid"], format!("uid-{number:06}"));
        set_at(&mut object, &["metadata", "sequence"], number);
        set_at(&mut object, &["metadata", "creationTimestamp"], stamp(self.now()));
        if object.get("spec").is_some() {
            set_at(&mut object, &["metadata", "generation"], 1);
        }
        if resource == PODS {
            set_at(&mut object, &["status", "phase"], "Pending");
        }
        Ok(self.store(place, object))
    }

    fn update(&self, resource: Resource, subresource: &str, object: Value) -> Outcome<Value> {
        if subresource == "binding" {
            return self.bind(&object);
        }
        let current = self.current(resource, &object)?;
        let mut stored = if subresource == "status" { current.clone() } else { object.clone() };
        let status = if subresource == "status" { &object } else { &current };
        match status.get("status") {
            Some(status) => set_at(&mut stored, &["status"], status.clone()),
            None => crate::controllers::object::unset(&mut stored, "", "status"),
        }
        let version = current["metadata"]["resourceVersion"].clone();
        set_at(&mut stored, &["metadata", "resourceVersion"], version);
        Ok(self.store(Self::place(resource, namespace(&object), name(&object)), stored))
    }

    fn patch(
        &self,
        resource: Resource,
        namespace: &str,
        name: &str,
        subresource: &str,
        patch: &Value,
    ) -> Outcome<Value> {
        assert!(matches!(subresource, "" | "scale" | "status"), "unknown {subresource}");
        let missing = || Failure::not_found(resource.group, resource.plural, name);
        let mut object = self.get(resource, namespace, name).ok_or_else(missing)?;
        let before = object["metadata"]["resourceVersion"].clone();
        merge(&mut object, patch);
        if object["metadata"]["resourceVersion"] != before {
            return Err(Failure::stale(resource.group, resource.plural, name));
        }
        Ok(self.store(Self::place(resource, namespace, name), object))
    }

    fn delete(
        &self,
        resource: Resource,
        namespace: &str,
        name: &str,
        deletion: &Deletion,
    ) -> Outcome<()> {
        let place = Self::place(resource, namespace, name);
        let missing = || Failure::not_found(resource.group, resource.plural, name);
        let mut object = self.get(resource, namespace, name).ok_or_else(missing)?;
        if deletion.uid.as_deref().is_some_and(|wanted| wanted != uid(&object)) {
            return Err(Failure::conflict(resource.group, resource.plural, name, "another uid"));
        }
        let usual = int(&object, "/spec/terminationGracePeriodSeconds").unwrap_or(30);
        let grace = deletion.grace_period_s.unwrap_or(usual);
        let bound = resource == PODS && !text(&object, "/spec/nodeName").is_empty();
        let held = !items(&object, "/metadata/finalizers").is_empty();
        if (bound && grace > 0) || held {
            let at = stamp(plus_seconds(self.now(), grace));
            set_at(&mut object, &["metadata", "deletionTimestamp"], at);
            set_at(&mut object, &["metadata", "deletionGracePeriodSeconds"], grace);
            self.store(place, object);
        } else {
            self.remove(&place);
        }
        Ok(())
    }

    fn random(&self) -> u64 {
        // Xorshift: sufficient for tests, and the same on every machine.
        let mut next = self.random.get();
        next ^= next << 13;
        next ^= next >> 7;
        next ^= next << 17;
        self.random.set(next);
        next
    }
}

fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(members) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let target = target.as_object_mut().unwrap();
    for (key, value) in members {
        if value.is_null() {
            target.remove(key);
        } else {
            merge(target.entry(key).or_insert(Value::Null), value);
        }
    }
}
