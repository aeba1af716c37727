//! Events about game workloads and runs of hooks.

use serde_json::{Value, json};
use tidegate_engine::Tone;
use tidegate_providers::object::Kind;
use tracing::{info, warn};

use crate::{
    canary::Context,
    cluster::{EVENT, write::Place},
};

/// The API cuts notes of events here.
const MESSAGE_MAX: usize = 1024;

/// Best effort: an event that cannot be written is not worth holding anything up.
pub(super) async fn tell(
    cx: &Context,
    kind: Kind,
    object: &Value,
    (reason, tone): (&str, Tone),
    text: &str,
) {
    let metadata = &object["metadata"];
    let namespace = metadata["namespace"].as_str().unwrap_or_default();
    let name = metadata["name"].as_str().unwrap_or_default();
    let word = match tone {
        Tone::Normal => {
            info!(reason, message = text, "Event");
            "Normal"
        }
        Tone::Warning => {
            warn!(reason, message = text, "Event");
            "Warning"
        }
    };
    let now = cx.clock.now();
    let time = jiff::Timestamp::from_second(now.as_second()).unwrap_or(now).to_string();
    let message: String = text.chars().take(MESSAGE_MAX).collect();
    let number = crate::canary::event_number();
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
        "reason": reason, "message": message, "type": word,
        "source": { "component": "tidegate" },
        "reportingComponent": "tidegate", "reportingInstance": "",
        "firstTimestamp": time, "lastTimestamp": time, "count": 1,
    });
    let place = Place { kind: EVENT, namespace, name: "", subresource: "" };
    if let Err(error) = cx.cluster.create(place, &body).await {
        warn!(%error, reason, "Could not write an event");
    }
}
