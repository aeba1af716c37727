//! Records facts: as Kubernetes Events, in the log and to event hooks. Chat messages are in [`super::alerts`].
//!
//! A fact is recorded once for each position in the rollout. Event hooks are called from a queue of their
//! own, in order: a slow one delays nothing but itself.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use tidegate_api::canary::analysis::{Webhook, WebhookType};
use tidegate_engine::{EventDedup, Fact, Memory, Phase, Tone};
use tidegate_providers::{
    canary::api_phase,
    hook::{self, EventKind, Report, Subject},
};
use tokio::sync::Notify;
use tracing::warn;

use super::{
    canary_ref::CanaryRef,
    hooks::{self, Call},
    observation::Observation,
};
use crate::{
    cluster::{CANARY, cache::Key},
    context::Context,
    events,
    telemetry::Outcome,
};

/// Records the facts of one canary.
pub(super) struct Recorder {
    pub(super) dedup: EventDedup,
    queue: Queue,
}

/// Calls of event hooks that wait to be made, in order. They outlive the canary: its deletion is the last of
/// them.
struct Queue(Arc<Waiting>);

struct Waiting {
    cx: Arc<Context>,
    key: Key,
    calls: Mutex<VecDeque<Call>>,
    /// The canary is gone: no call follows.
    is_closed: AtomicBool,
    wakeup: Notify,
}

/// The most calls that wait; beyond that the oldest is dropped.
const QUEUE_MAX: usize = 64;

// === impl Recorder ===

impl Recorder {
    pub(super) fn new(cx: &Arc<Context>, key: &Key) -> Self {
        Self { dedup: EventDedup::default(), queue: Queue::start(cx, key) }
    }

    /// Records a fact, unless it was recorded at this position.
    pub(super) async fn announce(
        &mut self,
        canary: &CanaryRef,
        observation: &Observation,
        fact: &Fact,
        memory: &Memory,
    ) {
        if !self.dedup.first_time(memory, fact) {
            return;
        }
        let text = fact.text(&observation.names);
        record(canary, observation.raw(), fact.reason(), fact.tone(), &text).await;
        let phase = hook::phase_of(fact, memory.phase);
        self.call_event_hooks(canary, observation, fact, &text, phase);
    }

    fn call_event_hooks(
        &self,
        canary: &CanaryRef,
        observation: &Observation,
        fact: &Fact,
        text: &str,
        phase: Phase,
    ) {
        let webhooks = observation.inputs.canary.spec.analysis.webhooks.iter();
        let own: Vec<&Webhook> =
            webhooks.filter(|hook| hook.hook_type() == WebhookType::Event).collect();
        let report = Report {
            message: text,
            kind: match fact.tone() {
                Tone::Normal => EventKind::Normal,
                Tone::Warning => EventKind::Warning,
            },
            at: canary.cx.clock.now(),
            occasion: hook::occasion(fact),
        };
        let checksum = observation.checksum();
        let subject = Subject {
            name: &canary.key.name,
            namespace: &canary.key.namespace,
            phase: api_phase(phase),
            checksum: &checksum,
        };
        for hook in &own {
            let body = hook::event_payload(&subject, &hook.metadata, &report);
            let step = format!("{}-{}", report.at.as_millisecond(), fact.reason());
            let identity = hooks::identity(canary, observation, hook, &step);
            if let Some(call) = Call::of(hook, body, &identity, &canary.key) {
                self.queue.push(call);
            }
        }
        if own.is_empty()
            && let Some(address) = &canary.cx.options.event_webhook
        {
            let body = hook::event_payload(&subject, &std::collections::BTreeMap::new(), &report);
            if let Some(call) = Call::global(address, body, &canary.key) {
                self.queue.push(call);
            }
        }
    }
}

/// Writes an Event about a canary.
pub(super) async fn record(
    canary: &CanaryRef,
    object: &Value,
    reason: &str,
    tone: Tone,
    message: &str,
) {
    let report = events::Report { kind: CANARY, object, reason, tone, message };
    events::record(&canary.cx, &report).await;
}

// === impl Queue ===

impl Queue {
    /// Starts the sender; it ends when the queue is dropped and empty.
    fn start(cx: &Arc<Context>, key: &Key) -> Self {
        let waiting = Arc::new(Waiting {
            cx: Arc::clone(cx),
            key: key.clone(),
            calls: Mutex::default(),
            is_closed: AtomicBool::new(false),
            wakeup: Notify::new(),
        });
        cx.spawn_background(Arc::clone(&waiting).work());
        Self(waiting)
    }

    fn push(&self, call: Call) {
        let mut calls = self.0.calls();
        let is_full = calls.len() >= QUEUE_MAX;
        let oldest = if is_full { calls.pop_front() } else { None };
        calls.push_back(call);
        drop(calls);
        self.0.wakeup.notify_one();
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
            let notified = self.wakeup.notified();
            let next = self.calls().pop_front();
            match next {
                // Another operator leads, and calls the hooks of this canary.
                Some(_) if !self.cx.cluster.leads() => {}
                Some(call) => {
                    if let Err(why) = hooks::call(&self.cx, &call, None).await {
                        warn!(canary = %self.key, hook = call.name, why, "Event hook failed");
                    }
                }
                None if self.is_closed.load(Ordering::Acquire) => return,
                None => notified.await,
            }
        }
    }

    fn calls(&self) -> MutexGuard<'_, VecDeque<Call>> {
        self.calls.lock()
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.0.is_closed.store(true, Ordering::Release);
        self.0.wakeup.notify_one();
    }
}

#[cfg(test)]
mod tests;
