//! One write or one call as a line of text, or none if it is of no interest.

use std::collections::BTreeMap;

use serde_json::Value;

use super::routes;
use crate::network::{Call, Reply};

/// Fingerprints of revisions, numbered in the order they were met.
#[derive(Default)]
pub struct Revisions(Vec<String>);

/// The change a write made. `Null` is an object that is not there.
pub fn write(plural: &str, old: &Value, new: &Value, revisions: &mut Revisions) -> Option<String> {
    let some = if new.is_null() { old } else { new };
    let name = some["metadata"]["name"].as_str().unwrap_or_default();
    if plural == "events" {
        return if old.is_null() { event(new) } else { None };
    }
    let kind = some["kind"].as_str().unwrap_or_default();
    if new.is_null() {
        return Some(format!("{kind} {name} is gone"));
    }
    let changes = match plural {
        "canaries" => canary(old, new, revisions),
        "deployments" => deployment(old, new),
        "daemonsets" => daemon_set(old, new),
        "services" => changed("selects", &selector(old), &selector(new)),
        "httproutes" | "virtualservices" => changed("route", &route(old), &route(new)),
        "horizontalpodautoscalers" => changed("scales", &scales(old), &scales(new)),
        "scaledobjects" => scaled_object(old, new),
        _ => changed("has", &data(old), &data(new)),
    };
    let is_created = old.is_null() && plural != "canaries";
    if changes.is_empty() && !is_created {
        return None;
    }
    let changes = changes.join(", ");
    Some(match plural {
        _ if is_created => format!("{kind} {name} is created: {changes}"),
        "canaries" | "httproutes" | "virtualservices" => changes,
        _ => format!("{kind} {name}: {changes}"),
    })
}

/// A request of the operator and its answer.
pub fn call(call: &Call) -> String {
    let reply = match &call.reply {
        Reply::Status(200..=299, _) | Reply::Body(200..=299, _) => "yes".to_owned(),
        Reply::Status(403, _) => "no".to_owned(),
        Reply::Status(status, _) | Reply::Body(status, _) | Reply::Later(status, _) => {
            status.to_string()
        }
        Reply::Hang => "no answer".to_owned(),
        Reply::Refuse => "not there".to_owned(),
        Reply::Held(..) => "an answer that comes late".to_owned(),
        Reply::Panic => "a defect".to_owned(),
    };
    let body = &call.body;
    if let Some(attachment) = body["attachments"].get(0) {
        let text = attachment["text"].as_str().unwrap_or_default();
        let bad = if attachment["color"] == "danger" { " (error)" } else { "" };
        return format!("chat{bad}: {text}");
    }
    let hook = call.to.strip_prefix("hooks/").unwrap_or(&call.to).replacen('/', " ", 1);
    let phase = body["phase"].as_str().unwrap_or_default();
    let metadata = &body["metadata"];
    match metadata["eventMessage"].as_str() {
        Some(message) => {
            let kind = metadata["eventType"].as_str().unwrap_or_default();
            format!("hook {hook} receives ({phase}, {kind}): {message}")
        }
        None => format!("hook {hook} is asked ({phase}): {reply}"),
    }
}

/// The pods of each workload, by its name: `2 of web:1.0, 1 of web:2.0 not ready`.
pub fn pods(pods: &[Value]) -> BTreeMap<String, String> {
    let mut counts: BTreeMap<String, BTreeMap<String, usize>> = BTreeMap::new();
    for pod in pods {
        let app = pod["metadata"]["labels"]["app"].as_str().unwrap_or_default();
        let image = image(&pod["spec"]).unwrap_or_default();
        let is_ready = pod["status"]["conditions"].as_array().is_some_and(|conditions| {
            conditions.iter().any(|it| it["type"] == "Ready" && it["status"] == "True")
        });
        let kind = if is_ready { image } else { format!("{image} not ready") };
        *counts.entry(app.to_owned()).or_default().entry(kind).or_default() += 1;
    }
    let text = |counts: BTreeMap<String, usize>| {
        let each = counts.iter().map(|(kind, count)| format!("{count} of {kind}"));
        each.collect::<Vec<_>>().join(", ")
    };
    counts.into_iter().map(|(app, counts)| (app, text(counts))).collect()
}

/// The image of the first container.
pub(super) fn image(pod: &Value) -> Option<String> {
    pod["containers"][0]["image"].as_str().map(str::to_owned)
}

fn event(event: &Value) -> Option<String> {
    if event["source"]["component"] != "tidegate" {
        return None;
    }
    let mark = if event["type"] == "Warning" { '!' } else { '*' };
    let text = |field: &str| event[field].as_str().unwrap_or_default();
    Some(format!("{mark} {}: {}", text("reason"), text("message")))
}

fn canary(old: &Value, new: &Value, revisions: &mut Revisions) -> Vec<String> {
    let (before, now) = (&old["status"], &new["status"]);
    let mut changes = Vec::new();
    let word = |status: &Value| {
        status["phase"].as_str().filter(|it| !it.is_empty()).unwrap_or("none").to_owned()
    };
    changes.extend(changed("phase", &word(before), &word(now)));
    let numbers = [
        ("weight", "canaryWeight"),
        ("iterations", "iterations"),
        ("failedChecks", "failedChecks"),
    ];
    for (name, field) in numbers {
        let number = |status: &Value| status[field].as_i64().unwrap_or(0).to_string();
        changes.extend(changed(name, &number(before), &number(now)));
    }
    for (name, field) in [("analysed", "lastAppliedSpec"), ("promoted", "lastPromotedSpec")] {
        let (before, now) = (revisions.name(&before[field]), revisions.name(&now[field]));
        changes.extend(changed(name, &before, &now));
    }
    let pause = |status: &Value| match status["manualPause"]["weight"].as_i64() {
        Some(weight) => format!("at {weight}"),
        None => "no".to_owned(),
    };
    changes.extend(changed("paused", &pause(before), &pause(now)));
    let rescue = |status: &Value| status["rollout"]["rescue"] == true;
    changes.extend(changed("rescue", &rescue(before).to_string(), &rescue(now).to_string()));
    let configs = |status: &Value| status["trackedConfigs"].clone();
    if !old.is_null() && !configs(before).is_null() && configs(before) != configs(now) {
        changes.push("configuration noted".to_owned());
    }
    changes.extend(cookies(before, now));
    let step = |canary: &Value| match &canary["spec"]["manualStep"] {
        Value::Null => "none".to_owned(),
        step => step.to_string().replace('"', ""),
    };
    changes.extend(changed("manualStep", &step(old), &step(new)));
    let finalizer =
        |canary: &Value| canary["metadata"]["finalizers"].as_array().map_or(0, Vec::len);
    match (finalizer(old), finalizer(new)) {
        (0, 1..) => changes.push("finalizer added".to_owned()),
        (1.., 0) => changes.push("finalizer removed".to_owned()),
        _ => {}
    }
    let retry = |canary: &Value| {
        canary["metadata"]["annotations"]["flagger.app/webhook-restart"].as_str().map(str::to_owned)
    };
    if retry(old).is_some() && retry(new).is_none() {
        changes.push("webhook-restart removed".to_owned());
    }
    changes
}

/// Session cookies are random: only that they come and go is recorded.
fn cookies(before: &Value, now: &Value) -> Vec<String> {
    let cookies = [
        ("cookie", "sessionAffinityCookie"),
        ("primary cookie", "primarySessionAffinityCookie"),
        ("previous cookie", "previousSessionAffinityCookie"),
    ];
    let mut changes = Vec::new();
    for (name, field) in cookies {
        let cookie = |status: &Value| status[field].as_str().unwrap_or_default().to_owned();
        let (before, now) = (cookie(before), cookie(now));
        if before == now {
            continue;
        }
        let what = match (before.is_empty(), now.is_empty()) {
            (true, false) => "is set",
            (false, true) => "is dropped",
            _ => "is another",
        };
        changes.push(format!("{name} {what}"));
    }
    changes
}

fn daemon_set(old: &Value, new: &Value) -> Vec<String> {
    let mark = |it: &Value| {
        it["spec"]["template"]["spec"]["nodeSelector"].get("flagger.app/scale-to-zero").is_some()
    };
    let mut changes = match (mark(old), mark(new)) {
        (false, true) => vec!["kept from every node".to_owned()],
        (true, false) => vec!["let onto the nodes".to_owned()],
        _ => Vec::new(),
    };
    changes.extend(deployment(old, new));
    changes
}

/// Bounds, pause and the query of the first trigger.
fn scaled_object(old: &Value, new: &Value) -> Vec<String> {
    let scales = |it: &Value| {
        let spec = &it["spec"];
        let target = spec["scaleTargetRef"]["name"].as_str().unwrap_or_default();
        let text = format!("{target} {} to {}", spec["minReplicaCount"], spec["maxReplicaCount"]);
        if it.is_null() { String::new() } else { text }
    };
    let query = |it: &Value| {
        it["spec"]["triggers"][0]["metadata"]["query"].as_str().unwrap_or_default().to_owned()
    };
    let paused = |it: &Value| {
        it["metadata"]["annotations"]["autoscaling.keda.sh/paused-replicas"]
            .as_str()
            .unwrap_or("none")
            .to_owned()
    };
    let mut changes = changed("scales", &scales(old), &scales(new));
    changes.extend(changed("by", &query(old), &query(new)));
    changes.extend(changed("paused at", &paused(old), &paused(new)));
    changes
}

fn deployment(old: &Value, new: &Value) -> Vec<String> {
    let replicas = |it: &Value| it["spec"]["replicas"].as_i64().map(|it| it.to_string());
    let replicas = |it: &Value| replicas(it).unwrap_or_default();
    let image = |it: &Value| image(&it["spec"]["template"]["spec"]).unwrap_or_default();
    let configs = |it: &Value| configs(&it["spec"]["template"]["spec"]);
    let mut changes = changed("replicas", &replicas(old), &replicas(new));
    changes.extend(changed("image", &image(old), &image(new)));
    changes.extend(changed("reads", &configs(old), &configs(new)));
    changes
}

/// Names of the configuration a pod reads.
fn configs(pod: &Value) -> String {
    let sources = pod["containers"][0]["envFrom"].as_array().into_iter().flatten();
    let name = |source: &Value| {
        let reference = source["configMapRef"]["name"].as_str();
        reference.or(source["secretRef"]["name"].as_str()).map(str::to_owned)
    };
    sources.filter_map(name).collect::<Vec<_>>().join("+")
}

fn selector(service: &Value) -> String {
    let pairs = service["spec"]["selector"].as_object().into_iter().flatten();
    let pair = |(key, value): (&String, &Value)| format!("{key}={}", value.as_str().unwrap_or("?"));
    pairs.map(pair).collect::<Vec<_>>().join(",")
}

fn route(route: &Value) -> String {
    if route.is_null() { String::new() } else { routes::text(route) }
}

fn scales(scaler: &Value) -> String {
    if scaler.is_null() {
        return String::new();
    }
    let spec = &scaler["spec"];
    let target = spec["scaleTargetRef"]["name"].as_str().unwrap_or_default();
    format!("{target} {} to {}", spec["minReplicas"], spec["maxReplicas"])
}

/// The entries of a ConfigMap; of a Secret the keys only, and of long texts nothing.
fn data(object: &Value) -> String {
    let pairs = object["data"].as_object().into_iter().flatten();
    let pair = |(key, value): (&String, &Value)| match value.as_str() {
        Some(text) if text.len() <= 40 => format!("{key}={text}"),
        _ => key.clone(),
    };
    pairs.map(pair).collect::<Vec<_>>().join(",")
}

fn changed(name: &str, before: &str, now: &str) -> Vec<String> {
    if before == now {
        return Vec::new();
    }
    let text = if before.is_empty() || before == "none" && name != "phase" {
        format!("{name} {now}")
    } else {
        format!("{name} {before} -> {now}")
    };
    vec![text]
}

// === impl Revisions ===

impl Revisions {
    /// `r1` for the first that was met; words stay as they are.
    fn name(&mut self, hash: &Value) -> String {
        let Some(hash) = hash.as_str().filter(|hash| !hash.is_empty()) else {
            return "none".to_owned();
        };
        if hash == "unknown" {
            return hash.to_owned();
        }
        let known = self.0.iter().position(|known| known == hash);
        let index = known.unwrap_or_else(|| {
            self.0.push(hash.to_owned());
            self.0.len() - 1
        });
        format!("r{}", index + 1)
    }
}
