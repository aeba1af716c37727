//! The three Services of a canary.
//!
//! ```text
//! clients ─> <svc>           apex ──┐
//!            <svc>-primary   ───────┴─> pods of the primary
//!            <svc>-canary    ─────────> pods of the target
//! ```
//!
//! The apex may have existed before, with clients, node ports and a load balancer. Of such a
//! Service only the selector and the canary's own ports are written, its original is kept in an
//! annotation, and [`Services::finalize`] restores it. Services that we made are kept exactly as
//! they should be.
//!
//! The apex can be pointed at the target as well ([`Side::Canary`]): without a mesh that is the
//! only way to keep clients off a primary that is broken.

mod ports;
mod restore;

use serde_json::{Map, Value, json};
use tidegate_api::canary::{Service, ServiceNames, service::CustomMetadata};

use self::ports::{key, name, name_by_number, with_node_ports};
pub use self::restore::{give_back, is_handed_over};
use super::{
    SERVICE, WorkloadError,
    metadata::{is_owner, merge_map, owners, with_version},
    name_of,
    primary::SelectorLabel,
    uid_of,
};
use crate::object::{Change, FLUX_OFF, Owner, controller_of, exactly};

/// The pods a Service selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The primary's.
    Primary,
    /// The target's.
    Canary,
}

/// Which of the three Services is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// In front of the target.
    Canary,
    /// In front of the primary.
    Primary,
    /// The one clients use, in front of either.
    Apex(Side),
}

/// The Services of one canary, as they should be.
#[derive(Clone, Debug)]
pub struct Services<'a> {
    owner: Owner<'a>,
    service: &'a Service,
    names: ServiceNames,
    selector: SelectorLabel,
    ports: Vec<Value>,
    /// The labels of the target's pods.
    pod_labels: &'a Value,
}

/// The changes that bring one Service in sync.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sync {
    /// In this order; none where it is in sync.
    pub changes: Vec<Change>,
    /// A fact for users, as an event.
    pub note: Option<Note>,
}

/// Something about a Service that a user should see in an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// A Service that was there before is pointed at other pods.
    TakenOver {
        /// Its name.
        name: String,
    },
    /// A Service is deleted and made again, since it cannot be edited into a headless one or back.
    Recreated {
        /// Its name.
        name: String,
        /// Whether it is headless from now on.
        headless: bool,
    },
}

/// The selector of a Service is one value: keys of others must not stay in it.
const EXACT: &[&str] = &["/spec/selector"];
/// A Service that is made has no other opinions in it.
const EXACT_MADE: &[&str] = &[];

// === impl Services ===

impl<'a> Services<'a> {
    /// For a canary and the selector label and containers of its target.
    pub fn new(
        owner: Owner<'a>,
        service: &'a Service,
        names: ServiceNames,
        selector: SelectorLabel,
        target: &'a Value,
    ) -> Self {
        let template = &target["spec"]["template"];
        let ports = ports::wanted(service, &template["spec"]);
        let pod_labels = &template["metadata"]["labels"];
        Self { owner, service, names, selector, ports, pod_labels }
    }

    /// Name of a Service.
    pub fn name(&self, role: Role) -> &str {
        match role {
            Role::Canary => &self.names.canary,
            Role::Primary => &self.names.primary,
            Role::Apex(_) => &self.names.apex,
        }
    }

    /// Makes a Service, or corrects the one that is there.
    ///
    /// One that belongs to another canary is refused: the two would take it from one another for
    /// ever. So is one that does not select the target's pods, unless it was handed over.
    pub fn sync(&self, role: Role, live: Option<&Value>) -> Result<Sync, WorkloadError> {
        let Some(live) = live else {
            return Ok(Sync { changes: vec![self.make(role)], note: None });
        };
        match controller_of(live) {
            Some(("Canary", other)) if other == self.owner.name => Ok(self.sync_own(role, live)),
            Some(("Canary", other)) => Err(WorkloadError::OfAnotherCanary {
                kind: SERVICE.kind,
                name: name_of(live).to_owned(),
                canary: self.owner.name.to_owned(),
                other: other.to_owned(),
            }),
            _ => {
                self.refuse_unasked(live)?;
                Ok(self.sync_foreign(role, live))
            }
        }
    }

    /// Whether a Service selects other pods than it should: to correct it moves its clients.
    pub fn leads_elsewhere(&self, role: Role, live: Option<&Value>) -> bool {
        let selector = live.and_then(|live| live["spec"]["selector"].as_object());
        selector.is_some_and(|selector| !selector.is_empty() && *selector != self.selector(role))
    }

    /// Deletes Services of this canary under names it no longer has.
    pub fn orphans(&self, existing: &[&Value]) -> Vec<Change> {
        let ServiceNames { apex, primary, canary } = &self.names;
        existing
            .iter()
            .filter(|object| self.owner.owns(object))
            .filter(|object| ![apex, primary, canary].iter().any(|kept| *kept == name_of(object)))
            .map(|object| delete(object))
            .collect()
    }

    /// The labels by which the Service selects pods.
    fn selector(&self, role: Role) -> Map<String, Value> {
        let value = match role {
            Role::Primary | Role::Apex(Side::Primary) => self.selector.primary_value(),
            Role::Canary | Role::Apex(Side::Canary) => self.selector.value.clone(),
        };
        Map::from_iter([(self.selector.key.clone(), json!(value))])
    }

    fn make(&self, role: Role) -> Change {
        let mut spec = json!({
            "type": "ClusterIP",
            "selector": self.selector(role),
            "ports": self.ports,
        });
        if self.is_headless() {
            spec["clusterIP"] = json!("None");
        }
        if let Some(distribution) = self.service.traffic_distribution {
            spec["trafficDistribution"] = json!(distribution.as_str());
        }
        let body = json!({
            "apiVersion": SERVICE.api_version(),
            "kind": SERVICE.kind,
            "metadata": {
                "name": self.name(role),
                "namespace": self.owner.namespace,
                "labels": self.labels(role, &Value::Null),
                "annotations": self.annotations(role, &Value::Null),
                "ownerReferences": owners(&self.owner, None),
            },
            "spec": spec,
        });
        Change::Apply { body, exact: exactly(EXACT_MADE) }
    }

    /// A Service we made: its metadata, selector and ports are exactly as they should be; type and
    /// addresses stay as they are.
    fn sync_own(&self, role: Role, live: &Value) -> Sync {
        if self.is_headless() != (live["spec"]["clusterIP"] == "None") {
            return self.make_again(role, live);
        }
        let mut metadata = Map::new();
        let mut set = |field: &str, patch: Option<Value>| {
            if let Some(patch) = patch {
                metadata.insert(field.to_owned(), patch);
            }
        };
        let (labels, annotations) = (self.labels(role, live), self.annotations(role, live));
        set("labels", merge_map(&live["metadata"]["labels"], &labels));
        set("annotations", merge_map(&live["metadata"]["annotations"], &annotations));
        let is_adopted = is_owner(&self.owner, live);
        set("ownerReferences", (!is_adopted).then(|| owners(&self.owner, Some(live))));

        let mut spec = Map::new();
        if let Some(selector) = merge_map(&live["spec"]["selector"], &self.selector(role)) {
            spec.insert("selector".to_owned(), selector);
        }
        let live_ports = ports_of(live);
        if !ports::are_same(&self.ports, live_ports) {
            let ports = with_node_ports(&self.ports, live_ports);
            spec.insert("ports".to_owned(), Value::Array(ports));
        }
        let distribution = self.service.traffic_distribution.map(|value| json!(value.as_str()));
        let distribution = distribution.unwrap_or_default();
        if live["spec"]["trafficDistribution"] != distribution {
            spec.insert("trafficDistribution".to_owned(), distribution);
        }
        Sync { changes: patch(live, metadata, spec).into_iter().collect(), note: None }
    }

    /// Headless or not is decided when a Service gets its address, once.
    fn make_again(&self, role: Role, live: &Value) -> Sync {
        if !live["metadata"]["deletionTimestamp"].is_null() {
            return Sync::default();
        }
        let note =
            Note::Recreated { name: self.name(role).to_owned(), headless: self.is_headless() };
        Sync { changes: vec![delete(live), self.make(role)], note: Some(note) }
    }

    /// A Service that a user made: it selects our pods and has our ports; the rest is the user's.
    ///
    /// Flagger replaces all of its ports. Ports of others stay, unless they have the name of one of
    /// ours: then they are taken to be the same, and pass on their node port.
    fn sync_foreign(&self, role: Role, live: &Value) -> Sync {
        let selector = self.selector(role);
        let live_ports = ports_of(live);
        let is_there = |port: &Value| {
            let same = live_ports.iter().find(|live| key(live) == key(port));
            same.is_some_and(|live| ports::is_covered(port, live))
        };
        let selector_patch = merge_map(&live["spec"]["selector"], &selector);
        if selector_patch.is_none() && self.ports.iter().all(is_there) {
            return Sync::default();
        }
        let (annotations, is_first) = self.takeover_annotations(live);
        let name = name_of(live);
        let note = is_first.then(|| Note::TakenOver { name: name.to_owned() });
        let others: Vec<_> = live_ports
            .iter()
            .filter(|live| !self.ports.iter().any(|port| key(live) == key(port)))
            .collect();
        let needs_room = others.iter().any(|other| self.is_in_the_way(other));
        if needs_room {
            // An apply cannot remove or rename ports of others.
            let mut ports = with_node_ports(&self.ports, live_ports);
            ports.extend(others.into_iter().filter_map(|other| self.beside_ours(other)));
            let mut spec = Map::from_iter([("ports".to_owned(), Value::Array(ports))]);
            spec.extend(selector_patch.map(|patch| ("selector".to_owned(), patch)));
            let metadata = Map::from_iter([("annotations".to_owned(), Value::Object(annotations))]);
            return Sync { changes: patch(live, metadata, spec).into_iter().collect(), note };
        }
        let metadata = json!({
            "name": name,
            "namespace": self.owner.namespace,
            "annotations": annotations,
        });
        let body = json!({
            "apiVersion": SERVICE.api_version(),
            "kind": SERVICE.kind,
            "metadata": with_version(metadata, Some(live)),
            "spec": { "selector": selector, "ports": self.ports },
        });
        Sync { changes: vec![Change::Apply { body, exact: exactly(EXACT) }], note }
    }

    /// Whether a port of others cannot stay as it is next to ours: names are unique, and every port
    /// needs one where there are several.
    fn is_in_the_way(&self, other: &Value) -> bool {
        name(other).is_empty() || self.is_same_name(other)
    }

    fn is_same_name(&self, other: &Value) -> bool {
        !name(other).is_empty() && self.ports.iter().any(|port| name(port) == name(other))
    }

    /// The port of others as it can stand next to ours.
    fn beside_ours(&self, other: &Value) -> Option<Value> {
        if self.is_same_name(other) {
            return None;
        }
        let mut other = other.clone();
        if name(&other).is_empty() {
            other["name"] = json!(name_by_number(&other));
        }
        Some(other)
    }

    fn is_headless(&self) -> bool {
        self.service.headless == Some(true)
    }

    fn custom(&self, role: Role) -> Option<&CustomMetadata> {
        let metadata = match role {
            Role::Canary => &self.service.canary,
            Role::Primary => &self.service.primary,
            Role::Apex(_) => &self.service.apex,
        };
        metadata.as_ref()
    }

    /// The labels of a Service of ours; keys the user manages stay as they are in `live`.
    fn labels(&self, role: Role, live: &Value) -> Map<String, Value> {
        let custom = self.custom(role).into_iter().flat_map(|custom| &custom.labels);
        let mut labels: Map<_, _> =
            custom.map(|(key, value)| (key.clone(), json!(value))).collect();
        labels.insert(self.selector.key.clone(), json!(self.name(role)));
        let unmanaged = self.service.unmanaged_metadata.as_ref();
        let keys = unmanaged.into_iter().flat_map(|unmanaged| &unmanaged.labels);
        keep(&mut labels, keys, &live["metadata"]["labels"]);
        labels
    }

    /// As [`Self::labels`], for annotations.
    fn annotations(&self, role: Role, live: &Value) -> Map<String, Value> {
        let custom = self.custom(role).into_iter().flat_map(|custom| &custom.annotations);
        let mut annotations: Map<_, _> =
            custom.map(|(key, value)| (key.clone(), json!(value))).collect();
        annotations.extend(FLUX_OFF.map(|(key, value)| (key.to_owned(), json!(value))));
        let unmanaged = self.service.unmanaged_metadata.as_ref();
        let keys = unmanaged.into_iter().flat_map(|unmanaged| &unmanaged.annotations);
        keep(&mut annotations, keys, &live["metadata"]["annotations"]);
        annotations
    }
}

/// Takes over the live values of some keys.
fn keep<'k>(map: &mut Map<String, Value>, keys: impl Iterator<Item = &'k String>, live: &Value) {
    for key in keys {
        if let Some(value) = live.get(key) {
            map.insert(key.clone(), value.clone());
        }
    }
}

fn ports_of(service: &Value) -> &[Value] {
    service["spec"]["ports"].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn delete(service: &Value) -> Change {
    Change::Delete {
        kind: SERVICE,
        name: name_of(service).to_owned(),
        uid: uid_of(service).to_owned(),
    }
}

/// A merge patch of the live Service; `None` where there is nothing to change.
fn patch(live: &Value, metadata: Map<String, Value>, spec: Map<String, Value>) -> Option<Change> {
    if metadata.is_empty() && spec.is_empty() {
        return None;
    }
    let metadata = with_version(Value::Object(metadata), Some(live));
    let mut patch = json!({ "metadata": metadata });
    if !spec.is_empty() {
        patch["spec"] = Value::Object(spec);
    }
    Some(Change::Merge { kind: SERVICE, name: name_of(live).to_owned(), patch })
}

#[cfg(test)]
mod tests;
