//! Generated logs of containers: few lines, and reproducible. The `log` subresource serves them.
//!
//! A function of the pod's status and the clock, so repeated requests agree.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use crate::{
    clock::later,
    controllers::object::{count, items, text, time},
};

/// The log of a container that is or was running, without timestamps.
pub fn log_lines(pod: &Value, container: &str, now: Timestamp) -> Vec<String> {
    log_entries(pod, container, false, now).into_iter().map(|(_, line)| line).collect()
}

/// The log of a container, or of its previous instance (`previous`), with timestamps. Empty if
/// there is none: the container has not started yet, or was never restarted.
pub fn log_entries(
    pod: &Value,
    container: &str,
    previous: bool,
    now: Timestamp,
) -> Vec<(Timestamp, String)> {
    let lists = ["/status/containerStatuses", "/status/initContainerStatuses"];
    let mut statuses = lists.iter().flat_map(|list| items(pod, list));
    let Some(status) = statuses.find(|status| text(status, "/name") == container) else {
        return Vec::new();
    };
    let shown = if previous { &["lastState"][..] } else { &["state", "lastState"][..] };
    let state = shown.iter().map(|key| &status[*key]).find(|state| started(state).is_some());
    let Some((state, at)) = state.and_then(|state| Some((state, started(state)?))) else {
        return Vec::new();
    };
    let mut lines = vec![
        (at, format!("container {container} started")),
        (moment(at, 1), format!("image {}", text(status, "/image"))),
        (moment(at, 2), format!("restarts {}", count(status, "/restartCount"))),
    ];
    let ready = status.get("ready").and_then(Value::as_bool) == Some(true) && !previous;
    if ready && state.get("running").is_some() {
        lines.push((moment(at, 3), "ready to serve".to_owned()));
    }
    if let Some(terminated) = state.get("terminated") {
        let end = time(terminated, "/finishedAt").unwrap_or(now);
        lines.push((end, format!("exited with code {}", count(terminated, "/exitCode"))));
    }
    lines
}

fn started(state: &Value) -> Option<Timestamp> {
    time(state, "/running/startedAt").or_else(|| time(state, "/terminated/startedAt"))
}

/// Lines of the same time are a millisecond apart, so that they sort.
fn moment(at: Timestamp, milliseconds: u64) -> Timestamp {
    later(at, Duration::from_millis(milliseconds))
}
