//! Event recorder for the controllers and the kubelet.
//!
//! The first occurrence creates an Event; a repetition updates its count and last time. Failures to
//! write an event are dropped, as in `client-go`: a lost event must not stop a controller.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{
    cluster::{Cluster, EVENTS},
    controllers::object::{Kind, name, namespace, stamp, text, uid},
};

/// Capacity of the deduplication cache, as in `client-go`; when full it is cleared.
const REMEMBERED: usize = 4096;

/// Number of names to try before an event is dropped.
const TRIES: usize = 16;

/// Writes the events of one component.
#[derive(Debug)]
pub(crate) struct Recorder {
    component: &'static str,
    host: String,
    written: BTreeMap<Memory, (String, i64)>,
    serial: u32,
}

/// Deduplication key of events.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Memory {
    uid: String,
    field: String,
    reason: String,
    message: String,
}

/// Content of an event.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Happening<'a> {
    /// `Normal` or `Warning`.
    pub(crate) severity: &'static str,
    pub(crate) reason: &'a str,
    pub(crate) message: &'a str,
    /// `involvedObject.fieldPath`; empty for the whole object.
    pub(crate) field: &'a str,
}

/// An expected event.
pub(crate) fn normal<'a>(reason: &'a str, message: &'a str) -> Happening<'a> {
    Happening { severity: "Normal", reason, message, field: "" }
}

/// An event that may need attention.
pub(crate) fn warning<'a>(reason: &'a str, message: &'a str) -> Happening<'a> {
    Happening { severity: "Warning", reason, message, field: "" }
}

// === impl Recorder ===

impl Recorder {
    pub(crate) fn new(component: &'static str) -> Self {
        Self { component, host: String::new(), written: BTreeMap::new(), serial: 0 }
    }

    /// The same recorder, reporting for a node.
    pub(crate) fn on_host(&mut self, host: &str) -> &mut Self {
        host.clone_into(&mut self.host);
        self
    }

    pub(crate) fn record(
        &mut self,
        cluster: &dyn Cluster,
        kind: Kind,
        about: &Value,
        what: Happening<'_>,
    ) {
        let memory = Memory {
            uid: uid(about).to_owned(),
            field: what.field.to_owned(),
            reason: what.reason.to_owned(),
            message: what.message.to_owned(),
        };
        let place = event_namespace(about);
        if let Some((event, count)) = self.written.get_mut(&memory) {
            let repeat = json!({ "count": *count + 1, "lastTimestamp": stamp(cluster.now()) });
            if cluster.patch(EVENTS, place, event, "", &repeat).is_ok() {
                *count += 1;
                return;
            }
        }
        for _ in 0..TRIES {
            let event = self.event(cluster, kind, about, what);
            match cluster.create(EVENTS, place, event) {
                Ok(created) => {
                    if self.written.len() >= REMEMBERED {
                        self.written.clear();
                    }
                    self.written.insert(memory, (name(&created).to_owned(), 1));
                    return;
                }
                // Another component wrote an event about the object at the same time.
                Err(failure) if failure.is_already_exists() => {}
                Err(_) => return,
            }
        }
    }

    fn event(
        &mut self,
        cluster: &dyn Cluster,
        kind: Kind,
        about: &Value,
        what: Happening<'_>,
    ) -> Value {
        // Serial number, because names contain the time and a virtual clock may stand still.
        self.serial = self.serial.wrapping_add(1);
        let moment = cluster.now().as_nanosecond() + i128::from(self.serial);
        let at = stamp(cluster.now());
        let mut event = json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {
                "name": format!("{}.{moment:x}", name(about)), "namespace": event_namespace(about),
            },
            "involvedObject": {
                "apiVersion": kind.api_version, "kind": kind.kind, "name": name(about),
                "uid": uid(about), "resourceVersion": text(about, "/metadata/resourceVersion"),
            },
            "reason": what.reason, "message": what.message, "type": what.severity,
            "source": { "component": self.component },
            "firstTimestamp": at, "lastTimestamp": at, "count": 1,
            "reportingComponent": self.component, "reportingInstance": self.host,
        });
        if !namespace(about).is_empty() {
            event["involvedObject"]["namespace"] = namespace(about).into();
        }
        if !what.field.is_empty() {
            event["involvedObject"]["fieldPath"] = what.field.into();
        }
        if !self.host.is_empty() {
            event["source"]["host"] = self.host.as_str().into();
        }
        event
    }
}

/// Events about cluster-scoped objects are stored in `default`.
fn event_namespace(about: &Value) -> &str {
    let own = namespace(about);
    if own.is_empty() { "default" } else { own }
}
