//! The operator's requests to hooks and metric servers, and their meaning for the rollout.
//!
//! Checks are judged here independently of the operator: a number out of its limits, no number, or a hook
//! that failed fails the check of that moment.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::Value;
use tidegate_api::canary::analysis::{AnalysisMetric, WebhookType};
use tidegate_engine::GateKind;
use tidegate_engine_check::check::TraceEvent;

use super::watched::Watched;
use crate::network::{Call, PROBE, PROMETHEUS, Reply};

/// The requests so far.
#[derive(Clone, Default)]
pub(super) struct Calls {
    /// When a check last failed.
    failed_at: Option<Timestamp>,
    /// Calls to hooks by their keys: one that comes again is another attempt.
    known: BTreeSet<String>,
    /// The last request to hooks of a kind, with its time and the hooks: one that hangs delays the next.
    asked: Option<(GateKind, Timestamp, BTreeSet<String>)>,
    /// The key of the last call of a kind, and the revision it was about.
    keys: BTreeMap<(GateKind, String), (String, Option<String>)>,
}

impl Watched {
    pub(super) fn on_call(&mut self, call: &Call, at: Timestamp) {
        if call.to.starts_with(PROMETHEUS) {
            if call.query != PROBE && self.is_about_us(&call.query) {
                let passed = self.is_within_limits(call);
                self.checked(at, passed);
            }
            return;
        }
        if let Some(text) = message_of(&call.body, &self.sender())
            && !self.is_shared
        {
            // A message that did not arrive may be sent again.
            if is_taken(&call.reply) {
                self.see(at, TraceEvent::Messaged(format!("{}: {text}", call.to)));
            }
            return;
        }
        let name = self.canary.metadata.name.as_deref().unwrap_or_default();
        if call.body["name"] != name || call.body["namespace"] != self.namespace() {
            return;
        }
        let address = |url: &str| {
            let (_, rest) = url.split_once("://").unwrap_or(("", url));
            let (_, rest) = rest.split_once('@').unwrap_or(("", rest));
            rest.split('?').next().unwrap_or_default().trim_end_matches('/').to_owned()
        };
        let hooks = &self.canary.spec.analysis.webhooks;
        let key = call.headers.get("idempotency-key").and_then(|it| it.to_str().ok());
        let to = call.to.trim_end_matches('/');
        let mut kinds: BTreeSet<_> = hooks
            .iter()
            .filter(|hook| address(&hook.url) == to)
            .map(|hook| hook.hook_type().as_str())
            .collect();
        // Two kinds behind one address cannot be told apart from outside.
        let (Some(kind), true) = (kinds.pop_first(), kinds.is_empty()) else { return };
        let said_yes = is_yes(&call.reply);
        if kind == WebhookType::Rollout.as_str() {
            self.checked(at, said_yes);
        }
        let key = key.map(str::to_owned);
        let is_repeated = key.clone().is_some_and(|key| !self.calls.known.insert(key));
        let kind = match kind {
            "pre-rollout" => GateKind::PreRollout,
            "post-rollout" => GateKind::PostRollout,
            _ => return,
        };
        if self.is_shared {
            return;
        }
        if kind == GateKind::PostRollout {
            self.compare_keys(kind, to, key.as_deref());
        }
        if is_repeated {
            return;
        }
        match &mut self.calls.asked {
            Some((same, when, round)) if *same == kind && (*when == at || !round.contains(to)) => {
                *when = at;
                round.insert(to.to_owned());
            }
            asked => {
                *asked = Some((kind, at, BTreeSet::from([to.to_owned()])));
                self.see(at, TraceEvent::Asked(kind, said_yes));
            }
        }
    }

    /// Whether a query is about this canary: it has the name of its target, or of the Ingress in front.
    fn is_about_us(&self, query: &str) -> bool {
        let spec = &self.canary.spec;
        let ingress = spec.ingress_ref.as_ref().map(|ingress| &ingress.name);
        ingress.into_iter().chain([&spec.target_ref.name]).any(|name| query.contains(name))
    }

    /// A hook that is called for one end of one rollout twice, as after a crash, must get the same key.
    fn compare_keys(&mut self, kind: GateKind, to: &str, key: Option<&str>) {
        let status = self.canary.status.clone().unwrap_or_default();
        let applied = status.last_applied_spec.clone().unwrap_or_default();
        let end = format!("{applied}/{}", status.phase.as_str());
        let told =
            self.calls.keys.insert((kind, to.to_owned()), (end.clone(), key.map(str::to_owned)));
        if told.is_some_and(|(before, last)| before == end && last.as_deref() != key) {
            let kind = kind.as_str();
            self.report(&format!("invariant 22: {kind} hooks were told of {end} under two keys"));
        }
    }

    /// The author of this canary's messages.
    fn sender(&self) -> (String, String) {
        let name = self.canary.metadata.name.clone().unwrap_or_default();
        (name, self.namespace().to_owned())
    }

    /// Without anything to check, every check passes.
    pub(super) fn pass_without_checks(&mut self, at: Timestamp) {
        let analysis = &self.canary.spec.analysis;
        let is_checked = !analysis.metrics.is_empty()
            || analysis.webhooks.iter().any(|it| it.hook_type() == WebhookType::Rollout);
        if !is_checked {
            self.see(at, TraceEvent::Checked(true));
        }
    }

    fn checked(&mut self, at: Timestamp, passed: bool) {
        if !passed {
            self.calls.failed_at = Some(at);
        }
        let is_failed = self.calls.failed_at == Some(at);
        self.see(at, TraceEvent::Checked(!is_failed));
    }

    /// An unknown query passes: only a value that is surely wrong fails.
    fn is_within_limits(&self, call: &Call) -> bool {
        let Reply::Status(200, body) = &call.reply else { return false };
        let metric = self.metric_of(&call.query);
        let Some(metric) = metric else { return true };
        let Ok(body) = serde_json::from_str::<Value>(body) else { return false };
        let value = body.pointer("/data/result/0/value/1").and_then(Value::as_str);
        let Some(value) = value.and_then(|value| value.parse::<f64>().ok()) else {
            // A query without a value is repeated once before it fails.
            return true;
        };
        let range = metric.threshold_range.as_ref();
        let min = range.and_then(|range| range.min);
        let max = range.and_then(|range| range.max);
        !value.is_nan() && min.is_none_or(|min| value >= min) && max.is_none_or(|max| value <= max)
    }

    fn metric_of(&self, query: &str) -> Option<&AnalysisMetric> {
        let name = if query.contains("histogram_quantile") {
            "request-duration"
        } else {
            "request-success-rate"
        };
        let metrics = &self.canary.spec.analysis.metrics;
        let is_alone = metrics.len() == metrics.iter().filter(|it| is_builtin(it)).count();
        metrics.iter().find(|metric| is_alone && metric.name == name)
    }
}

/// Whether a chat service accepted a message. Slack also refuses with a 200.
fn is_taken(reply: &Reply) -> bool {
    match reply {
        Reply::Status(200..300, text) => !text.contains("\"ok\": false"),
        Reply::Body(status, _) => (200..300).contains(status),
        Reply::Held(_, inner) => is_taken(inner),
        Reply::Status(..) | Reply::Hang | Reply::Refuse | Reply::Later(..) | Reply::Panic => false,
    }
}

/// A late answer counts like any other.
fn is_yes(reply: &Reply) -> bool {
    match reply {
        Reply::Status(200..=299, _) | Reply::Body(200..=299, _) => true,
        Reply::Held(_, inner) => is_yes(inner),
        _ => false,
    }
}

/// The text of a chat message of this canary, in any of its formats.
fn message_of(body: &Value, (name, namespace): &(String, String)) -> Option<String> {
    let sender = format!("{name}.{namespace}");
    let attachment = &body["attachments"][0];
    let section = &body["sections"][0];
    let text = if attachment["author_name"] == *sender {
        &attachment["text"]
    } else if section["activitySubtitle"] == *sender {
        &section["activityTitle"]
    } else if body["canary"] == **name && body["namespace"] == **namespace {
        &body["text"]
    } else {
        return None;
    };
    Some(text.as_str().unwrap_or_default().to_owned())
}

fn is_builtin(metric: &AnalysisMetric) -> bool {
    let is_named = ["request-success-rate", "request-duration"].contains(&metric.name.as_str());
    is_named && metric.template_ref.is_none() && metric.query.as_deref().unwrap_or("").is_empty()
}
