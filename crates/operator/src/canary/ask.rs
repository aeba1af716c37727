//! Asking: hooks. Metrics are asked in [`super::measure`].
//!
//! Everything is bounded: a call by its timeout and the body it may send, a hook by its retries. What
//! cannot be had is a failed check, never a pass.

use std::{path::Path, time::Duration};

use tidegate_api::{
    canary::analysis::{Webhook, WebhookType},
    duration::GoDuration,
};
use tidegate_engine::{Answers, Checks, Gate, GateKind, Question, Refusal, Verdict};
use tidegate_providers::{
    hook::{self, CallIdentity, Subject, retry, sign},
    request::Request,
};
use tracing::{debug, warn};

use super::{Context, observe::Seen, task::Task};
use crate::{
    cluster::cache::Key,
    http::{Outgoing, SafeUrl, UrlError},
    telemetry::Outcome,
};

/// More attempts than this nobody means.
const RETRIES_MAX: i64 = 10;

/// What came back for a question.
pub(super) enum Answer {
    Gate(Gate),
    Rollback(Option<String>),
    Checks(Checks),
    Backends(Result<(), String>),
}

/// A hook call, ready to be made.
pub(super) struct Call {
    pub(super) name: String,
    kind: WebhookType,
    outgoing: Outgoing,
    retries: u32,
    /// By the steady clock, when nobody waits for it any more.
    until: Option<Duration>,
}

/// Puts an answer where the engine looks for it.
pub(super) fn note(answers: &mut Answers, question: Question, answer: Answer) {
    match (question, answer) {
        (Question::Gate(kind), Answer::Gate(gate)) => {
            let place = match kind {
                GateKind::ConfirmRollout => &mut answers.confirm_rollout,
                GateKind::PreRollout => &mut answers.pre_rollout,
                GateKind::ConfirmTrafficIncrease => &mut answers.confirm_traffic_increase,
                GateKind::ConfirmPromotion => &mut answers.confirm_promotion,
                GateKind::PostRollout | GateKind::Rollback => &mut answers.post_rollout,
            };
            *place = Some(gate);
        }
        (_, Answer::Rollback(hook)) => answers.rollback = Some(hook),
        (_, Answer::Checks(checks)) => answers.checks = Some(checks),
        (_, Answer::Backends(outcome)) => answers.backends = Some(outcome),
        (Question::Backends | Question::Checks, Answer::Gate(_)) => {}
    }
}

/// Finds the answer to a question.
pub(super) async fn answer(task: &Task, seen: &Seen, question: Question) -> Answer {
    match question {
        Question::Backends => Answer::Backends(task.backends(seen).await),
        Question::Checks => Answer::Checks(task.analyse(seen).await),
        Question::Gate(GateKind::Rollback) => Answer::Rollback(task.rollback(seen).await),
        Question::Gate(kind) => Answer::Gate(task.gate(seen, kind).await),
    }
}

impl Task {
    /// Hooks of a kind in order, until one says no. After the end all of them are told.
    async fn gate(&self, seen: &Seen, kind: GateKind) -> Gate {
        let mut gate = Gate::default();
        let tells_all = kind == GateKind::PostRollout;
        let until = self.patience(seen, webhook_type(kind));
        for hook in hooks(seen, webhook_type(kind)) {
            match self.ask_hook(seen, hook, until).await {
                Ok(()) => gate.passed.push(hook.name.clone()),
                Err(why) => {
                    let muted = hook.mute_alert == Some(true);
                    let refusal = Refusal { hook: hook.name.clone(), why, muted };
                    gate.refused.push(refusal);
                    if !tells_all {
                        break;
                    }
                }
            }
        }
        gate
    }

    /// The first hook that calls the rollout back.
    async fn rollback(&self, seen: &Seen) -> Option<String> {
        let until = self.patience(seen, WebhookType::Rollback);
        for hook in hooks(seen, WebhookType::Rollback) {
            match self.ask_hook(seen, hook, until).await {
                Ok(()) => return Some(hook.name.clone()),
                Err(why) => debug!(hook = hook.name, why, "Not called back"),
            }
        }
        None
    }

    /// When hooks of a kind must have answered: after an interval, or after all their timeouts if those
    /// take longer. Retries do not hold a rollout beyond that, whatever a server asks for.
    fn patience(&self, seen: &Seen, kind: WebhookType) -> Duration {
        let timeout = |hook: &Webhook| hook.timeout().ok().and_then(GoDuration::to_std);
        let timeouts: Duration = hooks(seen, kind).filter_map(timeout).sum();
        self.cx.clock.monotonic() + seen.observed.plan.interval.max(timeouts)
    }

    async fn ask_hook(&self, seen: &Seen, hook: &Webhook, until: Duration) -> Result<(), String> {
        let checksum = seen.checksum();
        let subject = Subject {
            name: &self.key.name,
            namespace: &self.key.namespace,
            phase: hook::phase_sent(hook.hook_type(), seen.phase()),
            checksum: &checksum,
        };
        let body = hook::payload(&subject, &hook.metadata);
        let step = seen.step();
        let identity = self.identity(seen, hook, &step);
        let timeout = hook.timeout().map_err(|error| error.to_string())?;
        let mut call =
            Call::of(hook, body, &identity, &self.key).ok_or("its address cannot be used")?;
        call.outgoing.timeout = timeout.to_std().unwrap_or_default();
        call.until = Some(until);
        self::call(&self.cx, &call).await
    }

    /// Rollout hooks, then metrics; the first failure ends it.
    async fn analyse(&self, seen: &Seen) -> Checks {
        let until = self.patience(seen, WebhookType::Rollout);
        for hook in hooks(seen, WebhookType::Rollout) {
            if let Err(why) = self.ask_hook(seen, hook, until).await {
                let why = format!("external check {} failed, {why}", hook.name);
                return Checks { verdict: Verdict::Failed(why), ..Checks::default() };
            }
        }
        self.measure(seen).await
    }
}

// === impl Call ===

impl Call {
    /// A call of a user's hook.
    pub(super) fn of(
        hook: &Webhook,
        body: Vec<u8>,
        identity: &CallIdentity<'_>,
        key: &Key,
    ) -> Option<Self> {
        let request = hook::request(&hook.url, body, identity).ok()?;
        let mut outgoing = outgoing(request, key).ok()?;
        outgoing.verify_tls = hook.disable_tls != Some(true);
        if let Ok(timeout) = hook.timeout() {
            outgoing.timeout = timeout.to_std().unwrap_or_default();
        }
        let retries = u32::try_from(hook.retries.unwrap_or(0).clamp(0, RETRIES_MAX)).ok()?;
        let (name, kind) = (hook.name.clone(), hook.hook_type());
        Some(Self { name, kind, outgoing, retries, until: None })
    }

    /// A call of the administrator's event hook.
    pub(super) fn global(address: &str, body: Vec<u8>, key: &Key) -> Option<Self> {
        let request = Request::post_json(address, body).ok()?;
        let mut outgoing = outgoing(request, key).ok()?;
        outgoing.trusted = true;
        Some(Self {
            name: "the operator's event webhook".to_owned(),
            kind: WebhookType::Event,
            outgoing,
            retries: 0,
            until: None,
        })
    }
}

/// Makes a call, again where that may help. Any 2xx is a yes.
pub(super) async fn call(cx: &Context, call: &Call) -> Result<(), String> {
    let kind = call.kind.as_str();
    let mut attempt = 0;
    loop {
        let mut outgoing = call.outgoing.clone();
        outgoing.patience = call.until.map(|until| until.saturating_sub(cx.clock.monotonic()));
        if let Some(file) = &cx.options.hook_secret_file {
            // Each attempt anew: a signature is good for some minutes only.
            sign_call(&mut outgoing, file, cx.clock.now());
        }
        let answer = cx.http.send(outgoing).await;
        let now = cx.clock.now();
        let (why, wait) = match &answer {
            Ok(answer) if answer.is_success() => {
                cx.telemetry.count_hook(kind, Outcome::Success);
                return Ok(());
            }
            Ok(answer) => {
                let status = answer.status.as_u16();
                let header = answer.headers.get(http::header::RETRY_AFTER);
                let retry_after = header.and_then(|value| value.to_str().ok());
                let failure = retry::Failure::Answered { status, retry_after };
                (hook::refusal(status, &answer.body), retry::wait(attempt, failure, now))
            }
            Err(error) => {
                let failure = if error.is_connection() {
                    retry::Failure::Unreachable
                } else {
                    retry::Failure::Hopeless
                };
                (error.to_string(), retry::wait(attempt, failure, now))
            }
        };
        let is_in_time =
            |wait: &Duration| call.until.is_none_or(|until| cx.clock.monotonic() + *wait < until);
        let wait = wait.filter(|_| attempt < call.retries).filter(is_in_time);
        let Some(wait) = wait else {
            let outcome = match &answer {
                Ok(_) => Outcome::Refused,
                Err(error) => Outcome::Error(error.label()),
            };
            cx.telemetry.count_hook(kind, outcome);
            return Err(why);
        };
        cx.clock.sleep(wait).await;
        attempt += 1;
    }
}

/// Signs a call with the first secret of a file, which is read each time: the Secret it is mounted from
/// may change. Without a secret the call goes unsigned, and whoever wants a signature says so.
pub(crate) fn sign_call(outgoing: &mut Outgoing, file: &Path, now: jiff::Timestamp) {
    let secrets = std::fs::read_to_string(file);
    let Some(secret) = secrets.as_deref().ok().and_then(sign::first_secret) else {
        warn!("The secret for hooks cannot be read; the call is not signed");
        return;
    };
    let path = outgoing.url.uri().path().to_owned();
    sign::sign(&mut outgoing.headers, secret, now, &path, &outgoing.body);
}

/// A translated request, as the client takes it.
pub(crate) fn outgoing(request: Request, key: &Key) -> Result<Outgoing, UrlError> {
    let url = SafeUrl::parse(&request.url.to_string())?;
    let mut outgoing = Outgoing::new(request.method, url, key.namespace.to_string());
    outgoing.headers = request.headers;
    outgoing.body = request.body.into();
    Ok(outgoing)
}

fn hooks(seen: &Seen, kind: WebhookType) -> impl Iterator<Item = &Webhook> {
    let webhooks = &seen.canary.spec.analysis.webhooks;
    webhooks.iter().filter(move |hook| hook.hook_type() == kind)
}

fn webhook_type(kind: GateKind) -> WebhookType {
    match kind {
        GateKind::ConfirmRollout => WebhookType::ConfirmRollout,
        GateKind::PreRollout => WebhookType::PreRollout,
        GateKind::ConfirmTrafficIncrease => WebhookType::ConfirmTrafficIncrease,
        GateKind::ConfirmPromotion => WebhookType::ConfirmPromotion,
        GateKind::PostRollout => WebhookType::PostRollout,
        GateKind::Rollback => WebhookType::Rollback,
    }
}
