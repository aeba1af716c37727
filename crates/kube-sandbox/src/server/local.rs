//! In-process client of the server, by which control loops reach it.
//!
//! Requests pass authorization, fault injection and the request log like those over HTTP; only
//! reads of the [`Cluster`] trait go straight to the store.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Body, Query, Request, Server, User};
use crate::{
    cluster::{Cluster, Deletion, Resource},
    failure::{Failure, Outcome},
    faults::Course,
    request::{RequestInfo, Verb},
    selector::LabelSelector,
    store::{ObjectKey, Stored, TableKey},
};

/// The server as one user.
#[derive(Clone)]
pub struct Local {
    server: Arc<Server>,
    user: User,
}

// === impl Local ===

impl Local {
    /// The server in the name of `user`.
    pub fn new(server: Arc<Server>, user: User) -> Self {
        Self { server, user }
    }

    /// The server.
    pub fn server(&self) -> &Arc<Server> {
        &self.server
    }

    fn info(&self, verb: Verb, resource: Resource, namespace: &str, name: &str) -> RequestInfo {
        let def = self.server.registry().preferred(resource.group, resource.plural);
        RequestInfo {
            verb,
            group: resource.group.to_owned(),
            version: def.map(|def| def.version.clone()).unwrap_or_default(),
            resource: resource.plural.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            user: self.user.name.clone(),
            groups: self.user.groups.clone(),
            ..RequestInfo::default()
        }
    }

    /// Applies injected faults as over HTTP, except for delays.
    fn execute(&self, info: RequestInfo, body: Body) -> Outcome<Value> {
        let lost = || Err(Failure::new(504, "Timeout", "the connection was broken"));
        let is_lost = match self.server.faults.on_request(&info).course {
            Course::Fail(failure) => {
                self.server.refuse(&info, &failure);
                return Err(failure);
            }
            Course::Drop => return lost(),
            Course::LoseAnswer => true,
            Course::Proceed => false,
        };
        let agent = "kube-controller-manager".to_owned();
        let request = Request { info, query: Query::default(), body, agent, stale_at: None };
        let answer = self.server.execute(&request);
        if is_lost {
            return lost();
        }
        answer.map(super::Answer::into_value)
    }
}

impl Cluster for Local {
    fn now(&self) -> Timestamp {
        self.server.clock.now()
    }

    fn get(&self, resource: Resource, namespace: &str, name: &str) -> Option<Value> {
        let key = ObjectKey::new(namespace, name);
        Some(self.server.store.get(&table(resource), &key)?.value())
    }

    fn list(&self, resource: Resource, namespace: Option<&str>) -> Vec<Value> {
        let (_, objects) = self.server.store.list(&table(resource), namespace);
        objects.iter().map(|object| object.value()).collect()
    }

    /// Labels are stored beside objects, so only selected objects are parsed.
    fn select(&self, resource: Resource, namespace: &str, selector: &LabelSelector) -> Vec<Value> {
        let (_, objects) = self.server.store.list(&table(resource), Some(namespace));
        let selected = objects.iter().filter(|object| selector.matches(&object.labels));
        selected.map(|object| object.value()).collect()
    }

    fn owned(&self, resource: Resource, namespace: &str, owner_uid: &str) -> Vec<Value> {
        let table = table(resource);
        let is_controlled = |object: &Arc<Stored>| object.controller_uid() == Some(owner_uid);
        let places = self.server.store.dependents(owner_uid).into_iter();
        places
            .filter(|place| place.table == table && &*place.key.namespace == namespace)
            .filter_map(|place| self.server.store.get(&place.table, &place.key))
            .filter(is_controlled)
            .map(|object| object.value())
            .collect()
    }

    fn create(&self, resource: Resource, namespace: &str, object: Value) -> Outcome<Value> {
        self.execute(self.info(Verb::Create, resource, namespace, ""), Body::Object(object))
    }

    fn update(&self, resource: Resource, subresource: &str, object: Value) -> Outcome<Value> {
        let key = ObjectKey::of(&object);
        let verb = if subresource == "binding" { Verb::Create } else { Verb::Update };
        let mut info = self.info(verb, resource, &key.namespace, &key.name);
        subresource.clone_into(&mut info.subresource);
        self.execute(info, Body::Object(object))
    }

    fn patch(
        &self,
        resource: Resource,
        namespace: &str,
        name: &str,
        subresource: &str,
        patch: &Value,
    ) -> Outcome<Value> {
        let mut info = self.info(Verb::Patch, resource, namespace, name);
        subresource.clone_into(&mut info.subresource);
        self.execute(info, Body::Object(patch.clone()))
    }

    fn delete(
        &self,
        resource: Resource,
        namespace: &str,
        name: &str,
        deletion: &Deletion,
    ) -> Outcome<()> {
        let mut body = json!({});
        if let Some(propagation) = &deletion.propagation {
            body["propagationPolicy"] = propagation.as_str().into();
        }
        if let Some(seconds) = deletion.grace_period_s {
            body["gracePeriodSeconds"] = seconds.into();
        }
        let preconditions =
            [("uid", &deletion.uid), ("resourceVersion", &deletion.resource_version)];
        for (key, value) in preconditions {
            if let Some(value) = value {
                body["preconditions"][key] = value.as_str().into();
            }
        }
        let info = self.info(Verb::Delete, resource, namespace, name);
        self.execute(info, Body::Object(body)).map(|_| ())
    }

    fn random(&self) -> u64 {
        self.server.random.next_u64()
    }
}

fn table(resource: Resource) -> TableKey {
    TableKey::new(resource.group, resource.plural)
}
