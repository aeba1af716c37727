//! Shared by Endpoints and `EndpointSlices`: the pods behind a Service, and their ports.
//!
//! Pure functions, except for the cache in [`Selections`].

use std::{cell::RefCell, collections::BTreeMap};

use serde_json::{Value, json};

use crate::{
    controllers::{
        Change, Key,
        object::{int, is_deleting, items, name, namespace, text, uid, unset},
        pods,
    },
    selector::LabelSelector,
};

/// Selectors of the Services of each namespace, cached from their changes: pods change much more
/// often than Services, and each change needs the matching Services.
#[derive(Debug, Default)]
pub(crate) struct Selections(RefCell<BTreeMap<String, BTreeMap<String, LabelSelector>>>);

/// A Service port as resolved on one pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Port {
    name: String,
    protocol: String,
    number: i64,
    app_protocol: Option<String>,
}

/// The selector of a Service that has one.
pub(crate) fn selector(service: &Value) -> LabelSelector {
    LabelSelector::from_map(service.pointer("/spec/selector"))
}

/// True for a Service whose endpoints these controllers publish.
pub(crate) fn is_published(service: &Value) -> bool {
    let selector = service.pointer("/spec/selector").and_then(Value::as_object);
    selector.is_some_and(|selector| !selector.is_empty())
        && text(service, "/spec/type") != "ExternalName"
        && !is_deleting(service)
}

pub(crate) fn is_headless(service: &Value) -> bool {
    matches!(text(service, "/spec/clusterIP"), "None" | "")
}

/// True for a pod that has an address and may receive requests, now or later.
pub(crate) fn belongs(pod: &Value, include_terminating: bool) -> bool {
    let stopping = is_deleting(pod) && !include_terminating;
    !pods::is_terminal(pod) && !text(pod, "/status/podIP").is_empty() && !stopping
}

/// The ports of `service` on `pod`, in order. A named port that the pod lacks is left out.
pub(crate) fn resolve_ports(service: &Value, pod: &Value) -> Vec<Port> {
    let ports = items(service, "/spec/ports").iter().filter_map(|port| {
        let app_protocol = text(port, "/appProtocol");
        Some(Port {
            name: text(port, "/name").to_owned(),
            protocol: protocol(port).to_owned(),
            number: pod_port(port, pod)?,
            app_protocol: (!app_protocol.is_empty()).then(|| app_protocol.to_owned()),
        })
    });
    let mut ports: Vec<_> = ports.collect();
    ports.sort();
    ports
}

fn protocol(port: &Value) -> &str {
    match text(port, "/protocol") {
        "" => "TCP",
        protocol => protocol,
    }
}

fn pod_port(port: &Value, pod: &Value) -> Option<i64> {
    let target = port.get("targetPort").filter(|target| !target.is_null());
    let Some(target) = target else { return int(port, "/port") };
    if let Some(number) = target.as_i64() {
        // A typed client writes an unset target port as zero.
        return if number == 0 { int(port, "/port") } else { Some(number) };
    }
    let containers = items(pod, "/spec/containers").iter();
    let sidecars = items(pod, "/spec/initContainers").iter();
    let sidecars = sidecars.filter(|container| text(container, "/restartPolicy") == "Always");
    let mut offered = containers.chain(sidecars).flat_map(|c| items(c, "/ports"));
    let wanted = target.as_str()?;
    let named =
        offered.find(|offer| text(offer, "/name") == wanted && protocol(offer) == protocol(port));
    named.and_then(|offer| int(offer, "/containerPort"))
}

/// The reference from an address to its pod.
pub(crate) fn target(pod: &Value) -> Value {
    json!({ "kind": "Pod", "namespace": namespace(pod), "name": name(pod), "uid": uid(pod) })
}

/// The host name of a pod within `service`: given to pods whose subdomain is the Service.
pub(crate) fn hostname<'a>(service: &Value, pod: &'a Value) -> Option<&'a str> {
    let hostname = text(pod, "/spec/hostname");
    let ours = text(pod, "/spec/subdomain") == name(service);
    (ours && !hostname.is_empty()).then_some(hostname)
}

// === impl Selections ===

impl Selections {
    /// Records the current selector of a Service.
    pub(crate) fn note(&self, change: &Change<'_>) {
        if (change.group, change.plural) != ("", "services") {
            return;
        }
        let mut known = self.0.borrow_mut();
        let place = known.entry(change.namespace.to_owned()).or_default();
        match change.new.filter(|service| is_published(service)) {
            Some(service) => place.insert(change.name.to_owned(), selector(service)),
            None => place.remove(change.name),
        };
        if place.is_empty() {
            known.remove(change.namespace);
        }
    }

    /// The Services to reconcile because a pod changed.
    pub(crate) fn of_pod(&self, change: &Change<'_>) -> Vec<Key> {
        let known = self.0.borrow();
        let services = known.get(change.namespace).into_iter().flatten();
        let selecting = services.filter(|(_, selector)| {
            [change.old, change.new].into_iter().flatten().any(|pod| selector.selects(pod))
        });
        let key =
            |name: &String| Key { namespace: change.namespace.to_owned(), name: name.clone() };
        selecting.map(|(name, _)| key(name)).collect()
    }
}

// === impl Port ===

impl Port {
    /// The form in an Endpoints object: without a name if the Service's port has none.
    pub(crate) fn for_endpoints(&self) -> Value {
        let mut port = self.for_slice();
        if self.name.is_empty() {
            unset(&mut port, "", "name");
        }
        port
    }

    pub(crate) fn for_slice(&self) -> Value {
        let mut port = json!({
            "name": self.name, "protocol": self.protocol, "port": self.number,
        });
        if let Some(app_protocol) = &self.app_protocol {
            port["appProtocol"] = app_protocol.as_str().into();
        }
        port
    }
}
