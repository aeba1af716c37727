//! Telling: events and event hooks. Chat messages are in [`super::alert`].
//!
//! The same fact about the same place in a rollout is told once. Event hooks are called from a queue
//! of their own, in order: a slow one delays nothing but itself.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use serde_json::{Value, json};
use tidegate_api::canary::analysis::WebhookType;
use tidegate_engine::{Fact, Memory, Phase, Tone};
use tidegate_providers::hook::{self, CallIdentity, EventKind, Occasion, Report, Subject};
use tokio::sync::Notify;
use tracing::{info, warn};

use super::{Context, ask, observe::Seen, status, task::Task};
use crate::{
    cluster::{EVENT, cache::Key, write::Place},
    telemetry::Outcome,
};

/// Events for event hooks, waiting to be sent in order. They go on when the canary is deleted: that it was is
/// the last of them.
pub(super) struct Queue(Arc<Waiting>);

struct Waiting {
    cx: Arc<Context>,
    key: Key,
    calls: Mutex<VecDeque<ask::Call>>,
    /// No more will come.
    is_closed: AtomicBool,
    bell: Notify,
}

/// Calls that wait at most; the oldest goes first when there are more.
const QUEUE_MAX: usize = 64;
/// The API cuts notes of events here.
const MESSAGE_MAX: usize = 1024;

impl Task {
    /// Tells a fact to everybody who listens, unless they heard it here before.
    pub(super) async fn announce(&mut self, seen: &Seen, fact: &Fact, memory: &Memory) {
        if !self.told.first_time(memory, fact) {
            return;
        }
        let (reason, text) = (fact.reason(), fact.text(&seen.names));
        match fact.tone() {
            Tone::Normal => info!(reason, message = text, "Event"),
            Tone::Warning => warn!(reason, message = text, "Event"),
        }
        self.write_event(&seen.raw, reason, fact.tone(), &text).await;
        self.queue_event_hooks(seen, fact, &text, reported(fact, memory.phase));
    }

    /// Best effort: an event that cannot be written is not worth holding a rollout.
    pub(super) async fn write_event(&self, canary: &Value, reason: &str, tone: Tone, text: &str) {
        let (namespace, name) = (&*self.key.namespace, &*self.key.name);
        let now = self.cx.clock.now();
        let kind = match tone {
            Tone::Normal => "Normal",
            Tone::Warning => "Warning",
        };
        let message: String = text.chars().take(MESSAGE_MAX).collect();
        let time = jiff::Timestamp::from_second(now.as_second()).unwrap_or(now).to_string();
        let number = event_number();
        let body = json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {
                "name": format!("{name}.{:x}{number:04x}", now.as_millisecond()),
                "namespace": namespace,
            },
            "involvedObject": {
                "apiVersion": "flagger.app/v1beta1", "kind": "Canary",
                "name": name, "namespace": namespace, "uid": self.uid,
                "resourceVersion": canary["metadata"]["resourceVersion"],
            },
            "reason": reason, "message": message, "type": kind,
            "source": { "component": "tidegate" },
            "reportingComponent": "tidegate", "reportingInstance": "",
            "firstTimestamp": time, "lastTimestamp": time, "count": 1,
        });
        let place = Place { kind: EVENT, namespace, name: "", subresource: "" };
        if let Err(error) = self.cx.cluster.create(place, &body).await {
            warn!(%error, reason, "Could not write an event");
        }
    }

    fn queue_event_hooks(&self, seen: &Seen, fact: &Fact, text: &str, phase: Phase) {
        let own: Vec<_> = seen
            .canary
            .spec
            .analysis
            .webhooks
            .iter()
            .filter(|hook| hook.hook_type() == WebhookType::Event)
            .collect();
        let report = Report {
            message: text,
            kind: match fact.tone() {
                Tone::Normal => EventKind::Normal,
                Tone::Warning => EventKind::Warning,
            },
            at: self.cx.clock.now(),
            occasion: occasion(fact),
        };
        let checksum = seen.checksum();
        let subject = Subject {
            name: &self.key.name,
            namespace: &self.key.namespace,
            phase: status::api_phase(phase),
            checksum: &checksum,
        };
        for hook in &own {
            let body = hook::event_payload(&subject, &hook.metadata, &report);
            let step = format!("{}-{}", report.at.as_millisecond(), fact.reason());
            if let Some(call) =
                ask::Call::of(hook, body, &self.identity(seen, hook, &step), &self.key)
            {
                self.events.push(call);
            }
        }
        if own.is_empty()
            && let Some(address) = &self.cx.options.event_webhook
        {
            let body = hook::event_payload(&subject, &std::collections::BTreeMap::new(), &report);
            if let Some(call) = ask::Call::global(address, body, &self.key) {
                self.events.push(call);
            }
        }
    }

    pub(super) fn identity<'a>(
        &'a self,
        seen: &'a Seen,
        hook: &'a tidegate_api::canary::analysis::Webhook,
        step: &'a str,
    ) -> CallIdentity<'a> {
        let revision = seen.canary.status.as_ref().and_then(|it| it.last_applied_spec.as_deref());
        CallIdentity {
            uid: &self.uid,
            revision: revision.unwrap_or_default(),
            hook: &hook.name,
            hook_type: hook.hook_type(),
            step,
        }
    }
}

// === impl Queue ===

impl Queue {
    /// Starts the sender; it ends when the queue is dropped and empty.
    pub(super) fn start(cx: &Arc<Context>, key: &Key) -> Self {
        let waiting = Arc::new(Waiting {
            cx: Arc::clone(cx),
            key: key.clone(),
            calls: Mutex::default(),
            is_closed: AtomicBool::new(false),
            bell: Notify::new(),
        });
        cx.spawn_beside(Arc::clone(&waiting).work());
        Self(waiting)
    }

    fn push(&self, call: ask::Call) {
        let mut calls = self.0.calls();
        let is_full = calls.len() >= QUEUE_MAX;
        let oldest = if is_full { calls.pop_front() } else { None };
        calls.push_back(call);
        drop(calls);
        self.0.bell.notify_one();
        if oldest.is_some() {
            self.0.cx.telemetry.count_hook(WebhookType::Event.as_str(), Outcome::Error("full"));
            warn!(canary = %self.0.key, "An event hook is too slow; the oldest event was dropped");
        }
    }
}

// === impl Waiting ===

impl Waiting {
    async fn work(self: Arc<Self>) {
        loop {
            let rung = self.bell.notified();
            let next = self.calls().pop_front();
            match next {
                // Somebody else speaks for this canary now.
                Some(_) if !self.cx.cluster.leads() => {}
                Some(call) => {
                    if let Err(why) = ask::call(&self.cx, &call).await {
                        warn!(canary = %self.key, hook = call.name, why, "Event hook failed");
                    }
                }
                None if self.is_closed.load(Ordering::Acquire) => return,
                None => rung.await,
            }
        }
    }

    fn calls(&self) -> MutexGuard<'_, VecDeque<ask::Call>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells events of one millisecond apart.
pub(crate) fn event_number() -> u16 {
    static NUMBER: std::sync::atomic::AtomicU16 = std::sync::atomic::AtomicU16::new(0);
    NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.0.is_closed.store(true, Ordering::Release);
        self.0.bell.notify_one();
    }
}

/// The phase an event hook is told: the one the fact belongs to, as Flagger has it, also where that
/// is written a moment later or was left a moment ago.
fn reported(fact: &Fact, phase: Phase) -> Phase {
    match fact {
        Fact::NewRevision | Fact::Restarted => Phase::Progressing,
        Fact::PrimaryAdvanced(_) => Phase::Promoting,
        Fact::Failed => Phase::Failed,
        _ => phase,
    }
}

/// The `type` an event hook is told.
fn occasion(fact: &Fact) -> Option<Occasion> {
    match fact {
        Fact::NewRevision | Fact::AnalysisStarted | Fact::Restarted => Some(Occasion::Rollout),
        Fact::ThresholdReached(_)
        | Fact::DeadlineExceeded(_)
        | Fact::RolledBackByHook
        | Fact::Failed
        | Fact::PromotionFailed(_) => Some(Occasion::Rollback),
        Fact::CheckFailed(_)
        | Fact::NoData(_)
        | Fact::PreRolloutFailed { .. }
        | Fact::CanaryDown(_) => Some(Occasion::Analysis),
        _ => None,
    }
}
