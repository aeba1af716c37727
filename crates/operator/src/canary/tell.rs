//! Telling: events, event hooks, chat messages.
//!
//! The same fact about the same place in a rollout is told once. Event hooks are called from a queue
//! of their own, in order: a slow one delays nothing but itself. Chat messages go out before the
//! status that makes them true, so that a crash repeats one instead of losing it.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use serde_json::{Value, json};
use tidegate_api::{
    AlertProvider,
    canary::{Canary, analysis::WebhookType},
};
use tidegate_engine::{Alert, Fact, GateKind, Memory, Notice, Phase, Severity, Tone};
use tidegate_providers::{
    hook::{self, CallIdentity, EventKind, Occasion, Report, Subject},
    notify::{self, Destination},
};
use tokio::sync::Notify;
use tracing::{info, warn};

use super::{Context, ask, observe::Seen, status, task::Task};
use crate::{
    cluster::{ALERT_PROVIDER, EVENT, cache::Key, write::Place},
    http::Proxy,
    telemetry::Outcome,
};

/// Events for event hooks, waiting to be sent in order.
pub(super) struct Queue(Arc<Waiting>);

struct Waiting {
    calls: Mutex<VecDeque<ask::Call>>,
    bell: Notify,
}

/// Whose address a chat message goes to.
enum Route {
    /// From a flag: trusted, through this proxy.
    Administrators(Option<Proxy>),
    /// From an `AlertProvider`: checked.
    Users,
}

/// Calls that wait at most; the oldest goes first when there are more.
const QUEUE_MAX: usize = 64;
/// Chat services get this long, as Flagger gives them.
const ALERT_TIMEOUT: Duration = Duration::from_secs(5);
/// The API cuts notes of events here.
const MESSAGE_MAX: usize = 1024;

impl Task {
    /// Tells a fact to everybody who listens, unless they heard it here before.
    pub(super) async fn announce(&mut self, seen: &Seen, fact: &Fact, memory: &Memory) {
        if !self.told.is_news(memory, fact) {
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

    /// Sends a chat message wherever this canary reports to.
    pub(super) async fn alert(&mut self, seen: &Seen, alert: &Alert, memory: &Memory) {
        if !self.told.is_new_alert(memory, &alert.about) {
            return;
        }
        let text = alert_text(&alert.about, &seen.canary);
        let severity = match alert.severity {
            Severity::Info => notify::Severity::Info,
            Severity::Warn => notify::Severity::Warn,
            Severity::Error => notify::Severity::Error,
        };
        let shows_plan = matches!(alert.about, Notice::Initialized | Notice::NewRevision);
        let plan = shows_plan.then_some(&seen.canary.spec);
        let cluster = &self.cx.options.cluster_name;
        let notice = notify::Notice {
            severity,
            canary: self.key.name.to_string(),
            namespace: self.key.namespace.to_string(),
            text,
            fields: notify::fields(cluster, &self.key.namespace, plan),
        };
        for (destination, route) in self.destinations(seen, severity).await {
            self.deliver(&destination, &notice, &route).await;
        }
    }

    async fn destinations(
        &self,
        seen: &Seen,
        severity: notify::Severity,
    ) -> Vec<(Destination, Route)> {
        let alerts = &seen.canary.spec.analysis.alerts;
        if alerts.is_empty() {
            let global = self.cx.options.notifier.clone().into_iter();
            return global.map(|(to, proxy)| (to, Route::Administrators(proxy))).collect();
        }
        let mut destinations = Vec::new();
        for alert in alerts.iter().filter(|it| notify::should_send(it.severity(), severity)) {
            let namespace = alert.provider_ref.namespace.as_deref().filter(|it| !it.is_empty());
            let key = Key::new(namespace.unwrap_or(&self.key.namespace), &alert.provider_ref.name);
            match self.destination(&key).await {
                Ok(Some(destination)) => destinations.push((destination, Route::Users)),
                Ok(None) => {}
                Err(why) => warn!(alert = alert.name, provider = %key, why, "Alert not sent"),
            }
        }
        destinations
    }

    async fn destination(&self, key: &Key) -> Result<Option<Destination>, String> {
        let provider = self.cx.cluster.cache.get(ALERT_PROVIDER, key);
        let provider = provider.ok_or_else(|| format!("AlertProvider {key} does not exist"))?;
        let provider: AlertProvider = serde_json::from_value((*provider).clone())
            .map_err(|_| format!("AlertProvider {key} cannot be read"))?;
        let secret = match &provider.spec.secret_ref {
            Some(reference) => Some(self.secret(&key.namespace, &reference.name).await?),
            None => None,
        };
        Destination::of(&provider.spec, secret.as_ref()).map_err(|error| error.to_string())
    }

    async fn deliver(&self, destination: &Destination, notice: &notify::Notice, route: &Route) {
        let service = destination.service.as_str();
        let outcome = self.try_deliver(destination, notice, route).await;
        match outcome {
            Ok(()) => self.cx.telemetry.count_alert(service, Outcome::Success),
            Err(why) => {
                self.cx.telemetry.count_alert(service, Outcome::Refused);
                warn!(service, why, "Alert not delivered");
            }
        }
    }

    async fn try_deliver(
        &self,
        destination: &Destination,
        notice: &notify::Notice,
        route: &Route,
    ) -> Result<(), String> {
        let request =
            destination.request(notice, self.cx.clock.now()).map_err(|error| error.to_string())?;
        let mut outgoing = ask::outgoing(request, &self.key).map_err(|error| error.to_string())?;
        outgoing.timeout = ALERT_TIMEOUT;
        match route {
            Route::Administrators(proxy) => {
                outgoing.trusted = true;
                outgoing.proxy.clone_from(proxy);
            }
            Route::Users => {
                let proxy = destination.proxy.as_deref().map(Proxy::parse).transpose();
                outgoing.proxy = proxy.map_err(|error| error.to_string())?;
            }
        }
        let answer = self.cx.http.send(outgoing).await.map_err(|error| error.to_string())?;
        destination
            .delivered(answer.status.as_u16(), &answer.body)
            .map_err(|error| error.to_string())
    }
}

// === impl Queue ===

impl Queue {
    /// Starts the sender; it ends with the queue.
    pub(super) fn start(cx: &Arc<Context>, key: &Key) -> Self {
        let waiting = Arc::new(Waiting { calls: Mutex::default(), bell: Notify::new() });
        let theirs = Arc::downgrade(&waiting);
        let key = key.clone();
        let sender = Arc::clone(cx);
        cx.spawn_beside(async move {
            loop {
                let Some(waiting) = theirs.upgrade() else { return };
                let next = waiting.calls.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                match next {
                    Some(call) => {
                        drop(waiting);
                        if let Err(why) = ask::call(&sender, &call).await {
                            warn!(canary = %key, hook = call.name, why, "Event hook failed");
                        }
                    }
                    None => waiting.bell.notified().await,
                }
            }
        });
        Self(waiting)
    }

    fn push(&self, call: ask::Call) {
        let mut calls = self.0.calls.lock().unwrap_or_else(PoisonError::into_inner);
        if calls.len() >= QUEUE_MAX {
            calls.pop_front();
            warn!("An event hook is too slow; the oldest event was dropped");
        }
        calls.push_back(call);
        self.0.bell.notify_one();
    }
}

/// Tells events of one millisecond apart.
pub(crate) fn event_number() -> u16 {
    static NUMBER: std::sync::atomic::AtomicU16 = std::sync::atomic::AtomicU16::new(0);
    NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}

impl Drop for Queue {
    fn drop(&mut self) {
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
        Fact::CheckFailed(_) | Fact::PreRolloutFailed { .. } | Fact::CanaryDown(_) => {
            Some(Occasion::Analysis)
        }
        _ => None,
    }
}

/// The sentence of a chat message: what happened, why, and what a person can do where one must.
fn alert_text(about: &Notice, canary: &Canary) -> String {
    let kind = canary.spec.target_ref.kind.as_str();
    match about {
        Notice::Initialized => format!("The primary of this {kind} is set up and serves."),
        Notice::NewRevision => "A new revision is on its way.".to_owned(),
        Notice::Awaiting(gate) => {
            let what = match gate {
                GateKind::ConfirmTrafficIncrease => "More traffic for the canary",
                GateKind::ConfirmPromotion => "Promotion",
                _ => "A new revision",
            };
            format!("{what} needs approval: it waits until every {} hook says yes.", gate.as_str())
        }
        Notice::Held(weight) => format!(
            "Held at {weight}% by hand. To go on, set spec.manualStep.resume or remove spec.manualStep."
        ),
        Notice::RolledBackByHook => {
            "A rollback hook calls this revision back; traffic returns to the primary.".to_owned()
        }
        Notice::ThresholdReached(count) => {
            let checks = if *count == 1 { "check" } else { "checks" };
            format!(
                "{count} {checks} failed, no more are allowed: traffic returns to the primary. Release another revision to try again."
            )
        }
        Notice::DeadlineExceeded(why) => {
            format!("No progress within the deadline, traffic returns to the primary: {why}")
        }
        Notice::PromotionFailed(why) => format!(
            "The primary does not become ready with the new revision, so whoever can serve keeps the traffic. Release a fix or go back to the revision before: {why}"
        ),
        Notice::Promoted => "Promoted: the primary runs the new revision.".to_owned(),
        Notice::PromotedUnchecked => {
            "Promoted without analysis, as the spec asks: the primary runs the new revision."
                .to_owned()
        }
        Notice::PrimaryStuck(why) => format!(
            "The primary does not become ready; until it does, the {kind} serves as before: {why}"
        ),
        Notice::RollbackHeld(why) => format!(
            "This revision should go back, but the primary cannot serve; traffic stays where it is until it can: {why}"
        ),
        Notice::RevertGivenUp(why) => format!(
            "The canary is gone without everything being as before; look at the {kind} and its Service: {why}"
        ),
    }
}
