//! Calls the hooks of a canary: gates, rollout and rollback hooks.
//!
//! Everything is bounded: a call by its timeout and the size of its body, a hook by its retries. A missing
//! answer is a failed check, never a pass. No permit is held while a hook is called.

use std::time::Duration;

use tidegate_api::{
    canary::analysis::{Webhook, WebhookType},
    duration::GoDuration,
};
use tidegate_engine::{Gate, GateKind, Refusal};
use tidegate_providers::{
    hook::{self, CallIdentity, Subject, retry},
    request::Request,
};
use tracing::debug;

use super::{canary_ref::CanaryRef, observation::Observation};
use crate::{
    cluster::cache::Key,
    context::Context,
    http::Outgoing,
    outgoing::{outgoing, sign_call},
    telemetry::Outcome,
};

/// The most attempts that make sense.
const RETRIES_MAX: i64 = 10;

/// A hook call, ready to be made.
pub(super) struct Call {
    pub(super) name: String,
    kind: WebhookType,
    outgoing: Outgoing,
    retries: u32,
}

/// Calls the hooks of a kind in order, until one fails. After the end of a rollout all of them are called.
pub(super) async fn gate(canary: &CanaryRef, observation: &Observation, kind: GateKind) -> Gate {
    let mut gate = Gate::default();
    let calls_all = kind == GateKind::PostRollout;
    let mut until = until(canary, observation, webhook_type(kind));
    for hook in hooks(observation, webhook_type(kind)) {
        match ask(canary, observation, hook, &mut until).await {
            Ok(()) => gate.passed.push(hook.name.clone()),
            Err(why) => {
                let muted = hook.mute_alert == Some(true);
                let refusal = Refusal { hook: hook.name.clone(), why, muted };
                gate.refused.push(refusal);
                if !calls_all {
                    break;
                }
            }
        }
    }
    gate
}

/// The first hook that rolls the rollout back.
pub(super) async fn rollback(canary: &CanaryRef, observation: &Observation) -> Option<String> {
    let mut until = until(canary, observation, WebhookType::Rollback);
    for hook in hooks(observation, WebhookType::Rollback) {
        match ask(canary, observation, hook, &mut until).await {
            Ok(()) => return Some(hook.name.clone()),
            Err(why) => debug!(hook = hook.name, why, "Not called back"),
        }
    }
    None
}

/// Calls the rollout hooks; the first failure ends it, with the reason.
pub(super) async fn rollout(canary: &CanaryRef, observation: &Observation) -> Result<(), String> {
    let mut until = until(canary, observation, WebhookType::Rollout);
    for hook in hooks(observation, WebhookType::Rollout) {
        if let Err(why) = ask(canary, observation, hook, &mut until).await {
            return Err(format!("external check {} failed, {why}", hook.name));
        }
    }
    Ok(())
}

/// The identity of a call, by which receivers recognise a repeated one.
pub(super) fn identity<'a>(
    canary: &'a CanaryRef,
    observation: &'a Observation,
    hook: &'a Webhook,
    step: &'a str,
) -> CallIdentity<'a> {
    let status = observation.inputs.canary.status.as_ref();
    let revision = status.and_then(|it| it.last_applied_spec.as_deref());
    CallIdentity {
        uid: &canary.uid,
        revision: revision.unwrap_or_default(),
        hook: &hook.name,
        hook_type: hook.hook_type(),
        step,
    }
}

/// When hooks of a kind must have answered: after an interval, or after all their timeouts if those take
/// longer. Retries do not hold a rollout up beyond that, with any `Retry-After`.
fn until(canary: &CanaryRef, observation: &Observation, kind: WebhookType) -> Duration {
    let timeout = |hook: &Webhook| hook.timeout().ok().and_then(GoDuration::to_std);
    let timeouts: Duration = hooks(observation, kind).filter_map(timeout).sum();
    canary.cx.clock.monotonic() + observation.observed.plan.interval.max(timeouts)
}

async fn ask(
    canary: &CanaryRef,
    observation: &Observation,
    hook: &Webhook,
    until: &mut Duration,
) -> Result<(), String> {
    let checksum = observation.checksum();
    let subject = Subject {
        name: &canary.key.name,
        namespace: &canary.key.namespace,
        phase: hook::phase_sent(hook.hook_type(), observation.phase()),
        checksum: &checksum,
    };
    let body = hook::payload(&subject, &hook.metadata);
    let step = observation.step();
    let identity = identity(canary, observation, hook, &step);
    let timeout = hook.timeout().map_err(|error| error.to_string())?;
    let mut call =
        Call::of(hook, body, &identity, &canary.key).ok_or("its address cannot be used")?;
    call.outgoing.timeout = timeout.to_std().unwrap_or_default();
    self::call(&canary.cx, &call, Some(until)).await
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
        Some(Self { name, kind, outgoing, retries })
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
        })
    }
}

/// Makes a call, with retries where they may help, until a time of the steady clock. The wait for a permit moves that
/// time: it does not count against the hook. Any 2xx passes.
pub(super) async fn call(
    cx: &Context,
    call: &Call,
    mut until: Option<&mut Duration>,
) -> Result<(), String> {
    let kind = call.kind.as_str();
    let mut attempt = 0;
    loop {
        let mut outgoing = call.outgoing.clone();
        let asked = cx.clock.monotonic();
        outgoing.permit = cx.http.permit(&outgoing.namespace).await;
        if let Some(until) = &mut until {
            **until += cx.clock.monotonic().saturating_sub(asked);
            outgoing.patience = Some(until.saturating_sub(cx.clock.monotonic()));
        }
        if let Some(file) = &cx.options.hook_secret_file {
            // For each attempt: a signature is valid for some minutes only.
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
        let is_in_time = |wait: &Duration| {
            until.as_deref().is_none_or(|end| cx.clock.monotonic() + *wait < *end)
        };
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

fn hooks(observation: &Observation, kind: WebhookType) -> impl Iterator<Item = &Webhook> {
    let webhooks = &observation.inputs.canary.spec.analysis.webhooks;
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

#[cfg(test)]
mod tests;
