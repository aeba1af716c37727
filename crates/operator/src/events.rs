//! Writes Kubernetes Events, for canaries, game workloads and hook runs.
//!
//! Best effort: a rollout is never held up by an Event that cannot be written.

use std::sync::atomic::{AtomicU16, Ordering};

use serde_json::{Value, json};
use tidegate_engine::Tone;
use tidegate_providers::object::Kind;
use tracing::{info, warn};

use crate::{
    cluster::{EVENT, write::Place},
    context::Context,
};

/// The API server allows notes of Events this length.
const MESSAGE_MAX: usize = 1024;

/// An Event to be recorded.
pub(crate) struct Report<'a> {
    /// Kind of the object it is about.
    pub(crate) kind: Kind,
    /// The object it is about.
    pub(crate) object: &'a Value,
    pub(crate) reason: &'a str,
    pub(crate) tone: Tone,
    pub(crate) message: &'a str,
}

/// Logs an Event and writes it.
pub(crate) async fn record(cx: &Context, report: &Report<'_>) {
    let Report { kind, object, reason, tone, message } = *report;
    let event_type = match tone {
        Tone::Normal => {
            info!(reason, message, "Event");
            "Normal"
        }
        Tone::Warning => {
            warn!(reason, message, "Event");
            "Warning"
        }
    };
    let metadata = &object["metadata"];
    let namespace = metadata["namespace"].as_str().unwrap_or_default();
    let name = metadata["name"].as_str().unwrap_or_default();
    let now = cx.clock.now();
    let time = jiff::Timestamp::from_second(now.as_second()).unwrap_or(now).to_string();
    let note: String = message.chars().take(MESSAGE_MAX).collect();
    let number = next_number();
    let body = json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {
            "name": format!("{name}.{:x}{number:04x}", now.as_millisecond()),
            "namespace": namespace,
        },
        "involvedObject": {
            "apiVersion": kind.api_version(), "kind": kind.kind,
            "name": name, "namespace": namespace, "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
        },
        "reason": reason, "message": note, "type": event_type,
        "source": { "component": "tidegate" },
        "reportingComponent": "tidegate", "reportingInstance": "",
        "firstTimestamp": time, "lastTimestamp": time, "count": 1,
    });
    let place = Place { kind: EVENT, namespace, name: "", subresource: "" };
    if let Err(error) = cx.cluster.create(place, &body).await {
        warn!(%error, reason, "Could not write an event");
    }
}

/// Distinguishes Events of one millisecond.
fn next_number() -> u16 {
    static NUMBER: AtomicU16 = AtomicU16::new(0);
    NUMBER.fetch_add(1, Ordering::Relaxed)
}
