//! Alerts: chat messages, and retries of those that are not delivered.
//!
//! ```text
//! alert ─► destinations ─► first attempt ─┬─► delivered
//!                                         ├─► may pass: outbox ─► retried, in order, with a bound
//!                                         └─► hopeless, or the bound: lost ─► event, log, metric
//! ```
//!
//! The first attempt begins with its action and ends before the status that makes the message true is written, so
//! that a crash repeats a message instead of losing it. Traffic waits for the Secrets of its receivers only, and the
//! status for a second at most; then the attempt continues in the background. Messages that wait are kept in memory
//! only.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::future::join_all;
use http::HeaderValue;
use parking_lot::{Mutex, MutexGuard};
use tidegate_api::{
    AlertProvider,
    alert_provider::AlertProviderType,
    canary::{Canary, analysis::WebhookType},
};
use tidegate_engine::{Alert, Fact, GateKind, Memory, Notice, Revision, Severity};
use tidegate_providers::{
    hook::{
        CallIdentity, IDEMPOTENCY_KEY,
        retry::{self, Failure},
    },
    notify::{self, Destination, NotifyError},
};
use tokio::sync::{Notify, oneshot};
use tracing::{debug, warn};

use super::{canary_ref::CanaryRef, observation::Observation};
use crate::{
    clock::Clock,
    cluster::{ALERT_PROVIDER, cache::Key},
    context::Context,
    http::{PERMIT_WAIT_MAX, Proxy},
    outgoing::outgoing,
    secrets::SecretData,
    telemetry::Outcome,
};

/// Messages of one canary that wait for another attempt. They go on when the canary is deleted.
pub(super) struct Outbox(Arc<Waiting>);

struct Waiting {
    cx: Arc<Context>,
    key: Key,
    letters: Mutex<VecDeque<Waited>>,
    lost: Mutex<Vec<Fact>>,
    /// No more will come.
    is_closed: AtomicBool,
    wakeup: Notify,
}

/// A letter that failed at least once, or follows one that did.
struct Waited {
    letter: Letter,
    attempts: u32,
    /// By the steady clock.
    due: Duration,
}

/// A message and where it goes.
#[derive(Clone)]
struct Letter {
    destination: Destination,
    route: Route,
    notice: notify::Notice,
    /// The same for every attempt, so that receivers of ours can tell a repetition.
    identity: String,
}

/// The author of the address that a message goes to.
#[derive(Clone)]
enum Route {
    /// From a flag: trusted, through this proxy.
    Administrators(Option<Proxy>),
    /// From an `AlertProvider`: checked.
    Users,
}

/// Why an attempt failed.
struct Undelivered {
    why: String,
    outcome: Outcome,
    /// When the next attempt may go better; `None` if none will.
    wait: Option<Duration>,
}

/// How long a rollout waits for a first attempt. A chat that is well takes a fifth of it.
const FIRST_MAX: Duration = Duration::from_secs(1);
/// Chat services get this long, as Flagger gives them.
const TIMEOUT: Duration = Duration::from_secs(5);
/// 1, 2, 4, 8, 16 and twice 30 seconds between them: a service that is away for a minute and a half
/// misses nothing.
const ATTEMPTS_MAX: u32 = 8;
/// A rollout has about five messages; what waits in greater number is a service that is gone.
const WAITING_MAX: usize = 32;

/// First attempts in progress.
#[derive(Default)]
pub(super) struct Attempts(Vec<oneshot::Receiver<()>>);

/// Starts to send a chat message to all receivers of this canary. Returns the first attempts, and messages that were
/// lost, to be recorded.
pub(super) async fn send(
    canary: &CanaryRef,
    observation: &Observation,
    outbox: &Outbox,
    alert: &Alert,
    memory: &Memory,
) -> (Attempts, Vec<Fact>) {
    let severity = match alert.severity {
        Severity::Info => notify::Severity::Info,
        Severity::Warn => notify::Severity::Warn,
        Severity::Error => notify::Severity::Error,
    };
    let shows_plan = matches!(alert.about, Notice::Initialized | Notice::NewRevision);
    let plan = shows_plan.then_some(&observation.inputs.canary.spec);
    let cluster = &canary.cx.options.cluster_name;
    let notice = notify::Notice {
        severity,
        canary: canary.key.name.to_string(),
        namespace: canary.key.namespace.to_string(),
        text: alert_text(&alert.about, &observation.inputs.canary),
        fields: notify::fields(cluster, &canary.key.namespace, plan),
    };
    let identity = identity(canary, &notice, memory, &observation.checksum());
    let (destinations, mut lost) = destinations(canary, observation, severity).await;
    let letters = destinations.into_iter().map(|(destination, route)| {
        let notice = notice.clone();
        Letter { destination, route, notice, identity: identity.clone() }
    });
    let attempts = Attempts(letters.filter_map(|letter| outbox.send(letter)).collect());
    lost.extend(outbox.take_lost());
    (attempts, lost)
}

// === impl Attempts ===

impl Attempts {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn extend(&mut self, more: Self) {
        self.0.extend(more.0);
    }

    /// Waits until all of them have ended, a second at most.
    pub(super) async fn wait(self, clock: &dyn Clock) {
        tokio::select! {
            biased;
            _ = join_all(self.0) => {}
            () = clock.sleep(FIRST_MAX) => {}
        }
    }
}

fn identity(
    canary: &CanaryRef,
    notice: &notify::Notice,
    memory: &Memory,
    checksum: &str,
) -> String {
    let Memory { phase, weight, iterations, applied, .. } = memory;
    let step = format!("{phase} {weight} {iterations} {checksum} {}", notice.text);
    let revision = applied.as_ref().map(Revision::as_str);
    CallIdentity {
        uid: &canary.uid,
        revision: revision.unwrap_or_default(),
        hook: "alert",
        hook_type: WebhookType::Event,
        step: &step,
    }
    .key()
}

/// The receivers of a message of this severity, and the alerts that have none. Two alerts with the same
/// receiver are one message.
async fn destinations(
    canary: &CanaryRef,
    observation: &Observation,
    severity: notify::Severity,
) -> (Vec<(Destination, Route)>, Vec<Fact>) {
    let alerts = &observation.inputs.canary.spec.analysis.alerts;
    if alerts.is_empty() {
        let global = canary.cx.options.notifier.clone().into_iter();
        let global = global.map(|(to, proxy)| (to, Route::Administrators(proxy)));
        return (global.collect(), Vec::new());
    }
    let (mut destinations, mut lost) = (Vec::new(), Vec::new());
    for alert in alerts.iter().filter(|it| notify::should_send(it.severity(), severity)) {
        let namespace = alert.provider_ref.namespace.as_deref().filter(|it| !it.is_empty());
        let key = Key::new(namespace.unwrap_or(&canary.key.namespace), &alert.provider_ref.name);
        match destination(&canary.cx, &key).await {
            Ok(Some(destination)) if destinations.iter().any(|(it, _)| *it == destination) => {}
            Ok(Some(destination)) => destinations.push((destination, Route::Users)),
            Ok(None) => {}
            Err(why) => {
                warn!(alert = alert.name, provider = %key, why, "Alert not sent");
                canary.cx.telemetry.count_alert("none", Outcome::Error("not_configured"));
                let to = format!("alert {}", alert.name);
                lost.push(Fact::AlertLost { to, why });
            }
        }
    }
    (destinations, lost)
}

async fn destination(cx: &Context, key: &Key) -> Result<Option<Destination>, String> {
    let provider = cx.cluster.cache.get(ALERT_PROVIDER, key);
    let provider = provider.ok_or_else(|| format!("AlertProvider {key} does not exist"))?;
    let provider: AlertProvider = serde_json::from_value((*provider).clone())
        .map_err(|_| format!("AlertProvider {key} cannot be read"))?;
    let secret = match &provider.spec.secret_ref {
        Some(secret) => Some(SecretData::read(&cx.cluster, &key.namespace, &secret.name).await?),
        None => None,
    };
    Destination::of(&provider.spec, secret.as_deref()).map_err(|error| error.to_string())
}

// === impl Outbox ===

impl Outbox {
    /// Starts the sender; it ends when the outbox is dropped and empty.
    pub(super) fn start(cx: &Arc<Context>, key: &Key) -> Self {
        let waiting = Arc::new(Waiting {
            cx: Arc::clone(cx),
            key: key.clone(),
            letters: Mutex::default(),
            lost: Mutex::default(),
            is_closed: AtomicBool::new(false),
            wakeup: Notify::new(),
        });
        cx.spawn_background(Arc::clone(&waiting).work());
        Self(waiting)
    }

    /// Makes the first attempt, beside whoever waits for its end; or none, if something waits for the same
    /// place already.
    fn send(&self, letter: Letter) -> Option<oneshot::Receiver<()>> {
        let Waiting { cx, key, .. } = &*self.0;
        let now = cx.clock.monotonic();
        if self.0.letters().iter().any(|it| it.letter.destination == letter.destination) {
            self.0.keep(Waited { letter, attempts: 0, due: now });
            return None;
        }
        // It has its place, so that others keep behind it, and is not due before this attempt is over.
        let due = now + PERMIT_WAIT_MAX + 2 * TIMEOUT;
        self.0.keep(Waited { letter: letter.clone(), attempts: 0, due });
        let (done, first) = oneshot::channel();
        let (waiting, key) = (Arc::clone(&self.0), key.clone());
        cx.spawn_background(async move {
            let outcome = letter.attempt(&waiting.cx, &key, 0).await;
            waiting.settle(&letter, 0, outcome);
            let _ = done.send(());
        });
        Some(first)
    }
}

impl Outbox {
    /// Messages that were given up since this was last called.
    pub(super) fn take_lost(&self) -> Vec<Fact> {
        std::mem::take(&mut *self.0.lost.lock())
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        self.0.is_closed.store(true, Ordering::Release);
        self.0.wakeup.notify_one();
    }
}

// === impl Waiting ===

impl Waiting {
    async fn work(self: Arc<Self>) {
        loop {
            let notified = self.wakeup.notified();
            let due = self.due();
            match due {
                None if self.is_closed.load(Ordering::Acquire) => return,
                None => notified.await,
                Some(due) => {
                    let wait = due.saturating_sub(self.cx.clock.monotonic());
                    if !wait.is_zero() {
                        // A new letter may be due earlier.
                        tokio::select! {
                            biased;
                            () = notified => continue,
                            () = self.cx.clock.sleep(wait) => {}
                        }
                    }
                    if self.cx.cluster.leads() {
                        self.try_again(due).await;
                    } else {
                        // Another operator leads, and sends the alerts of this canary.
                        self.letters().clear();
                    }
                }
            }
        }
    }

    /// When the next letter is due.
    fn due(&self) -> Option<Duration> {
        let letters = self.letters();
        heads(&letters).map(|(_, waited)| waited.due).min()
    }

    /// Sends the letter that is due. It stays where it is meanwhile, so that others keep behind it.
    async fn try_again(&self, due: Duration) {
        let next = {
            let letters = self.letters();
            let mut heads = heads(&letters);
            let next = heads.find(|(_, waited)| waited.due == due);
            next.map(|(_, waited)| (waited.letter.clone(), waited.attempts))
        };
        let Some((letter, attempts)) = next else { return };
        if attempts > 0 {
            self.cx.telemetry.count_alert_retry(letter.service());
        }
        let outcome = letter.attempt(&self.cx, &self.key, attempts).await;
        self.settle(&letter, attempts, outcome);
    }

    /// Keeps, removes or gives up a letter after an attempt, with so many before it.
    fn settle(&self, letter: &Letter, attempts: u32, outcome: Result<(), Undelivered>) {
        let mut letters = self.letters();
        let is_it = |it: &Waited| {
            it.letter.identity == letter.identity && it.letter.destination == letter.destination
        };
        // Gone if others needed the room.
        let Some(place) = letters.iter().position(is_it) else { return };
        match outcome {
            Err(Undelivered { why, wait: Some(wait), .. }) if attempts + 1 < ATTEMPTS_MAX => {
                debug!(service = letter.service(), why, "Alert not delivered yet");
                if let Some(waited) = letters.get_mut(place) {
                    waited.attempts = attempts + 1;
                    waited.due = self.cx.clock.monotonic() + wait;
                }
                drop(letters);
            }
            Ok(()) => {
                letters.remove(place);
                drop(letters);
            }
            Err(Undelivered { why, outcome, .. }) => {
                letters.remove(place);
                drop(letters);
                self.lose(letter, why, outcome);
            }
        }
        self.wakeup.notify_one();
    }

    /// The oldest makes room, and is lost.
    fn keep(&self, waited: Waited) {
        let mut letters = self.letters();
        let full = letters.len() >= WAITING_MAX;
        let oldest = if full { letters.pop_front() } else { None };
        letters.push_back(waited);
        drop(letters);
        self.wakeup.notify_one();
        if let Some(oldest) = oldest {
            let why = "too many messages wait for it".to_owned();
            self.lose(&oldest.letter, why, Outcome::Error("full"));
        }
    }

    /// Counts, logs and tells of a message that nobody will get.
    fn lose(&self, letter: &Letter, why: String, outcome: Outcome) {
        let service = letter.service();
        self.cx.telemetry.count_alert(service, outcome);
        warn!(service, why, canary = letter.notice.sender(), "Alert not delivered");
        let fact = Fact::AlertLost { to: service.to_owned(), why };
        self.lost.lock().push(fact);
        self.cx.cluster.cache.notify(&self.key);
    }

    fn letters(&self) -> MutexGuard<'_, VecDeque<Waited>> {
        self.letters.lock()
    }
}

/// The first letter for each place: those behind it wait for it.
fn heads(letters: &VecDeque<Waited>) -> impl Iterator<Item = (usize, &Waited)> {
    letters.iter().enumerate().filter(|(place, waited)| {
        let mut before = letters.iter().take(*place);
        !before.any(|it| it.letter.destination == waited.letter.destination)
    })
}

// === impl Letter ===

impl Letter {
    fn service(&self) -> &'static str {
        self.destination.service.as_str()
    }

    async fn attempt(&self, cx: &Context, key: &Key, attempts: u32) -> Result<(), Undelivered> {
        let Self { destination, route, notice, identity } = self;
        let now = cx.clock.now();
        let mut request = destination.request(notice, now).map_err(Undelivered::of)?;
        if destination.service == AlertProviderType::Webhook
            && let Ok(identity) = HeaderValue::from_str(identity)
        {
            request.headers.insert(IDEMPOTENCY_KEY, identity);
        }
        let mut sent = outgoing(request, key).map_err(Undelivered::of)?;
        sent.timeout = TIMEOUT;
        // Permits of their own: hooks of the namespace that hang delay no message.
        sent.namespace.push_str("/alerts");
        match route {
            Route::Administrators(proxy) => {
                sent.trusted = true;
                sent.proxy.clone_from(proxy);
            }
            Route::Users => {
                let proxy = destination.proxy.as_deref().map(Proxy::parse).transpose();
                sent.proxy = proxy.map_err(Undelivered::of)?;
            }
        }
        let answer = cx.http.send(sent).await.map_err(|error| {
            let is_passing = error.is_connection();
            let failure = if is_passing { Failure::Unreachable } else { Failure::Hopeless };
            let (why, outcome) = (error.to_string(), Outcome::Error(error.label()));
            Undelivered { why, outcome, wait: retry::wait(attempts, failure, cx.clock.now()) }
        })?;
        let status = answer.status.as_u16();
        destination.delivered(status, &answer.body).map_err(|error: NotifyError| {
            let header = answer.headers.get(http::header::RETRY_AFTER);
            let retry_after = header.and_then(|value| value.to_str().ok());
            // Slack says no with 200.
            let failure = if matches!(error, NotifyError::Refused { .. }) {
                Failure::Answered { status, retry_after }
            } else {
                Failure::Unreachable
            };
            let wait = retry::wait(attempts, failure, cx.clock.now());
            let wait = wait.filter(|_| error.may_pass());
            Undelivered { why: error.to_string(), outcome: Outcome::Refused, wait }
        })?;
        cx.telemetry.count_alert(self.service(), Outcome::Success);
        Ok(())
    }
}

// === impl Undelivered ===

impl Undelivered {
    /// An error that no further attempt will change.
    #[expect(clippy::needless_pass_by_value, reason = "for map_err")]
    fn of(error: impl ToString) -> Self {
        let outcome = Outcome::Error("not_configured");
        Self { why: error.to_string(), outcome, wait: None }
    }
}

/// The sentence of a chat message: what happened, why, and what a person can do where one must.
fn alert_text(about: &Notice, canary: &Canary) -> String {
    let kind = canary.spec.target_ref.kind.as_str();
    match about {
        Notice::Initialized => format!("The primary of this {kind} is initialized and serves."),
        Notice::NewRevision => "A new revision was detected; its rollout begins.".to_owned(),
        Notice::Awaiting(gate) => {
            let what = match gate {
                GateKind::ConfirmTrafficIncrease => "More traffic for the canary",
                GateKind::ConfirmPromotion => "Promotion",
                GateKind::ConfirmRollout
                | GateKind::PreRollout
                | GateKind::PostRollout
                | GateKind::Rollback => "A new revision",
            };
            format!("{what} needs approval: it waits until every {} hook passes.", gate.as_str())
        }
        Notice::Held(weight) => format!(
            "Held at {weight}% by hand. To continue, set spec.manualStep.resume or remove spec.manualStep."
        ),
        Notice::RolledBackByHook => {
            "A rollback hook asked to roll back; traffic returns to the primary.".to_owned()
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
            "The primary does not become ready with the new revision; the workload that can serve keeps the traffic. Release a fix or revert to the previous revision: {why}"
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
            "This revision should roll back, but the primary cannot serve, so its traffic does not move until it can: {why}"
        ),
        Notice::RevertGivenUp(why) => format!(
            "The canary is deleted, but not everything was restored; check the {kind} and its Service: {why}"
        ),
    }
}

#[cfg(test)]
mod tests;
