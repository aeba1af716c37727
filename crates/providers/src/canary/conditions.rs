//! Conditions and `lastDecision`: the decision in words that people and tools read.
//!
//! Exactly one of `Ready`, `Reconciling` and `Stalled` is true. A condition that says the same as before
//! keeps its times, so nothing is written when nothing changed.

use serde_json::{Map, Value, json};
use tidegate_api::canary::{CanaryStatus, status::CanaryCondition};
use tidegate_engine::{
    Again, Checks, Decision, Fact, Form, Memory, Moment, Names, Pause, Percent, Phase, Tone,
};

use super::{memory::time, policy::Finding};
use crate::traffic::Cookies;

/// Checks shown in status; more would only make the object large.
const CHECKS_MAX: usize = 20;
/// Longest text in a condition or decision.
const TEXT_MAX: usize = 1024;
/// Findings in a condition; the others appear when these are gone.
const FINDINGS_MAX: usize = 5;
/// The condition on doubtful parts of the policy.
const POLICY_SOUND: &str = "PolicySound";
/// Reason of `Promoted` after a rollout that ended with the revision that was promoted before.
const REVERTED: &str = "RevisionReverted";
/// Message while the target holds a revision whose rollout did not start yet.
const NOT_STARTED: &str = "A new revision arrived; its rollout did not start yet.";

/// The look that a decision was made upon, as far as its conditions show it.
#[derive(Clone, Copy, Debug)]
pub struct StatusView<'a> {
    /// The time of the look.
    pub now: Moment,
    /// Generation of the canary's spec.
    pub generation: i64,
    /// Kind of the target.
    pub kind: &'a str,
    /// Names for sentences.
    pub names: &'a Names,
    /// Session cookies after the decision.
    pub cookies: &'a Cookies,
    /// Results of the last checks, if they are new.
    pub checks: Option<&'a Checks>,
    /// When the next step can be taken.
    pub next: Option<Moment>,
    /// The target holds a revision that was not released yet, whatever the phase says of the last one.
    pub is_new_revision: bool,
}

/// The fields of status that explain a decision: cookies, conditions and `lastDecision`.
pub fn conditions_and_decision(
    memory: &Memory,
    decision: &Decision,
    live: &CanaryStatus,
    view: &StatusView<'_>,
) -> Map<String, Value> {
    let mut fields = Map::new();
    fields.insert("sessionAffinityCookie".into(), json!(view.cookies.canary));
    fields.insert("previousSessionAffinityCookie".into(), json!(view.cookies.previous));
    fields.insert("primarySessionAffinityCookie".into(), json!(view.cookies.primary));
    fields.insert("observedGeneration".into(), json!(view.generation));
    let is_quiet = match decision.why {
        // How the last rollout ended says more than that there is no next one.
        Fact::AwaitingInterval | Fact::Placed(_) | Fact::Idle => true,
        // Pods come up one by one: worth a write only if it takes an interval.
        Fact::PrimaryNotReady(_) | Fact::CanaryNotReady(_) => !decision.announces(&decision.why),
        _ => false,
    };
    let is_quiet = is_quiet && is_true(live, state_of(memory, decision, view).as_str());
    // Waiting for the next interval says nothing new: what was said last still holds.
    if is_quiet && live.last_decision.is_some() && !live.conditions.is_empty() {
        let promoted = promoted(memory, decision, live, view);
        fields.insert("conditions".into(), merge_conditions(live, &[promoted], view.now));
        return fields;
    }
    let message = cut(&decision.why.text(view.names));
    let before = live.last_decision.clone().unwrap_or_default();
    let mut measured: Vec<Value> = view.checks.map(shown).unwrap_or_default();
    if measured.is_empty() && matches!(decision.why, Fact::ThresholdReached(_)) {
        // The rollback shows the checks that caused it.
        measured = before.checks.iter().map(|check| json!(check)).collect();
    }
    let same = before.reason == decision.why.reason()
        && before.message == message
        && (measured.is_empty() || json!(before.checks) == json!(measured));
    if !same {
        let mut last = json!({
            "time": time(view.now),
            "reason": decision.why.reason(),
            "message": message,
        });
        if !measured.is_empty() {
            last["checks"] = json!(measured);
        }
        if let Some(next) = view.next {
            last["next"] = time(next);
        }
        fields.insert("lastDecision".into(), last);
    }
    let conditions = conditions(memory, decision, &message, live, view);
    fields.insert("conditions".into(), merge_conditions(live, &conditions, view.now));
    fields
}

/// Conditions for the time in which hooks are asked, if they claim more than holds: the target has a new
/// revision, and `Ready` or `Promoted` is true of the last one.
pub fn conditions_of_new_revision(
    memory: &Memory,
    live: &CanaryStatus,
    view: &StatusView<'_>,
) -> Option<Map<String, Value>> {
    let is_claimed = [Health::Ready.as_str(), "Promoted"].iter().any(|kind| is_true(live, kind));
    let is_over = matches!(memory.phase, Phase::Initialized | Phase::Succeeded);
    if !is_over || !view.is_new_revision || !is_claimed {
        return None;
    }
    let rest = Decision {
        why: Fact::Idle,
        actions: Vec::new(),
        again: Again::OnChange,
        starts_interval: false,
    };
    let conditions = conditions(memory, &rest, "", live, view);
    Some(Map::from_iter([("conditions".into(), merge_conditions(live, &conditions, view.now))]))
}

/// The condition on doubtful parts of the policy, if it differs from the live one.
///
/// It is absent until there is a finding, and `True` once the findings are gone. It changes neither `Ready` nor
/// `Stalled`.
pub fn policy_condition(
    findings: &[Finding],
    live: &CanaryStatus,
    now: Moment,
) -> Option<(String, Map<String, Value>)> {
    let before = live.conditions.iter().find(|it| it.condition_type == POLICY_SOUND);
    let texts: Vec<String> =
        findings.iter().take(FINDINGS_MAX).map(|it| format!("{}: {}", it.id, it.text)).collect();
    let (status, reason, message) = match findings.first() {
        Some(first) => ("False", first.id, cut(&texts.join(". "))),
        None if before.is_some() => {
            ("True", "NoFindings", "The policy has no findings.".to_owned())
        }
        None => return None,
    };
    let is_same = |it: &&CanaryCondition| {
        it.status == status && it.reason == reason && it.message.as_ref() == Some(&message)
    };
    if before.is_some_and(|it| is_same(&it)) {
        return None;
    }
    let reason = reason.to_owned();
    let condition = Condition { kind: POLICY_SOUND, status, reason, message: message.clone() };
    let conditions = merge_conditions(live, &[condition], now);
    Some((message, Map::from_iter([("conditions".into(), conditions)])))
}

struct Condition {
    kind: &'static str,
    status: &'static str,
    reason: String,
    message: String,
}

fn conditions(
    memory: &Memory,
    decision: &Decision,
    message: &str,
    live: &CanaryStatus,
    view: &StatusView<'_>,
) -> Vec<Condition> {
    let state = state_of(memory, decision, view);
    let mut message = message.to_owned();
    let mut reason = decision.why.reason();
    let explains = decision.why.tone() == Tone::Warning || decision.why == Fact::Suspended;
    if view.is_new_revision && state == Health::Reconciling && !explains {
        // The end of the last rollout is no longer the state of the canary.
        (reason, message) = (Fact::NewRevision.reason(), NOT_STARTED.to_owned());
    }
    if memory.phase == Phase::Failed && decision.why.tone() == Tone::Normal {
        // Good news from the primary is not why a person is needed.
        message.push_str(" The last revision failed and is not retried: release another.");
    }
    let mut conditions = vec![promoted(memory, decision, live, view)];
    for health in [Health::Ready, Health::Reconciling, Health::Stalled] {
        let kind = health.as_str();
        conditions.push(if health == state {
            let (reason, message) = (reason.to_owned(), message.clone());
            Condition { kind, status: "True", reason, message }
        } else {
            // The reason names the one that holds, and says what there is to say.
            let (reason, message) = (state.as_str().to_owned(), absent(health, state, memory));
            Condition { kind, status: "False", reason, message: message.to_owned() }
        });
    }
    conditions
}

/// Why a condition does not hold, given the one that does.
fn absent(health: Health, state: Health, memory: &Memory) -> &'static str {
    match (health, state) {
        (Health::Ready, Health::Stalled) => {
            "The canary is stalled; the condition Stalled says why."
        }
        (Health::Ready, _) => match memory.phase {
            Phase::New | Phase::Initializing => "The primary is being initialized.",
            Phase::Terminating | Phase::Terminated => "The canary is being deleted.",
            Phase::Initialized | Phase::Succeeded => "A new revision is not released yet.",
            _ => "A rollout is in progress.",
        },
        (Health::Reconciling, Health::Stalled) => {
            "No progress until the cause in the condition Stalled is resolved."
        }
        (Health::Reconciling, _) => "No rollout is in progress.",
        (Health::Stalled, _) => "Nothing blocks the canary.",
    }
}

fn is_true(live: &CanaryStatus, kind: &str) -> bool {
    live.conditions.iter().any(|it| it.condition_type == kind && it.status == "True")
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Health {
    Ready,
    Reconciling,
    Stalled,
}

impl Health {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "Ready",
            Self::Reconciling => "Reconciling",
            Self::Stalled => "Stalled",
        }
    }
}

/// Exactly one of the three: well, on its way, or broken until somebody mends it.
///
/// Tools that follow these conditions call a stalled object failed. A canary that waits for approval has
/// not failed: it reconciles, and its message names the hook or the person it waits for.
fn state_of(memory: &Memory, decision: &Decision, view: &StatusView<'_>) -> Health {
    match &decision.why {
        Fact::Refused(_)
        | Fact::Obstructed(_)
        | Fact::PrimaryStuck(_)
        | Fact::RollbackHeld(_)
        | Fact::RevertGivenUp(_) => Health::Stalled,
        _ if memory.phase == Phase::Failed => Health::Stalled,
        _ if matches!(memory.phase, Phase::Initialized | Phase::Succeeded) => {
            match decision.why.tone() {
                _ if view.is_new_revision => Health::Reconciling,
                Tone::Normal => Health::Ready,
                Tone::Warning if matches!(decision.why, Fact::IdleTargetRuns(_)) => Health::Ready,
                Tone::Warning => Health::Reconciling,
            }
        }
        _ => Health::Reconciling,
    }
}

/// Whether the last rollout ended because the target went back to the promoted revision. The condition itself
/// remembers it until the next rollout.
fn was_reverted(memory: &Memory, decision: &Decision, live: &CanaryStatus) -> bool {
    let is_said = |it: &CanaryCondition| it.condition_type == "Promoted" && it.reason == REVERTED;
    let is_over = matches!(memory.phase, Phase::Initialized | Phase::Succeeded);
    is_over && (matches!(decision.why, Fact::Reverted(_)) || live.conditions.iter().any(is_said))
}

/// Flagger's one condition, which `kubectl wait --for=condition=promoted` relies on.
fn promoted(
    memory: &Memory,
    decision: &Decision,
    live: &CanaryStatus,
    view: &StatusView<'_>,
) -> Condition {
    let kind = view.kind;
    if was_reverted(memory, decision, live) {
        let message = format!(
            "The last revision was not promoted: the {kind} was reverted to the previous one."
        );
        return Condition {
            kind: "Promoted",
            status: "False",
            reason: REVERTED.to_owned(),
            message,
        };
    }
    let (status, message) = match memory.phase {
        Phase::New => ("Unknown", format!("The primary of this {kind} does not exist yet.")),
        Phase::Initializing => {
            ("Unknown", format!("The primary of this {kind} is being initialized."))
        }
        Phase::Initialized | Phase::Succeeded if view.is_new_revision => {
            ("Unknown", NOT_STARTED.to_owned())
        }
        Phase::Initialized | Phase::Succeeded => {
            ("True", format!("The primary runs the current revision of the {kind}."))
        }
        Phase::Waiting => match memory.pause {
            Some(Pause { weight, .. }) => {
                let text = "until manualStep is resumed or removed";
                ("Unknown", format!("A new revision is held at {weight}% {text}."))
            }
            None => ("Unknown", "A new revision needs approval to start.".to_owned()),
        },
        Phase::Progressing => ("Unknown", "A new revision is being analysed.".to_owned()),
        Phase::WaitingPromotion => {
            ("Unknown", "A new revision passed its checks; approval promotes it.".to_owned())
        }
        Phase::Promoting => {
            ("Unknown", "The analysis passed, and the primary is being updated.".to_owned())
        }
        Phase::Finalising => {
            ("Unknown", "The primary is up to date and has all live traffic.".to_owned())
        }
        Phase::Failed if memory.weight > Percent::ZERO => (
            "False",
            format!("The primary is not ready with the last revision; the {kind} has the traffic."),
        ),
        Phase::Failed if view.names.form == Form::Elsewhere => {
            ("False", "The last revision was rolled back.".to_owned())
        }
        Phase::Failed => {
            ("False", format!("The last revision was rolled back; the {kind} is scaled to zero."))
        }
        Phase::Terminating | Phase::Terminated => {
            ("Unknown", format!("The canary is being deleted, and the {kind} takes over."))
        }
    };
    // Every condition has a reason, also before there is a phase.
    let phase = if memory.phase == Phase::New { Phase::Initializing } else { memory.phase };
    Condition { kind: "Promoted", status, reason: phase.as_str().to_owned(), message }
}

/// Ours replaced, others kept; one that says the same as before keeps its times.
fn merge_conditions(live: &CanaryStatus, ours: &[Condition], now: Moment) -> Value {
    let mut list: Vec<Value> = Vec::new();
    for condition in ours {
        let before = live.conditions.iter().find(|old| old.condition_type == condition.kind);
        let said = |old: &&CanaryCondition| {
            old.status == condition.status
                && old.reason == condition.reason
                && old.message.as_deref() == Some(&condition.message)
        };
        if let Some(old) = before.filter(said) {
            list.push(json!(old));
            continue;
        }
        let turned = before.is_none_or(|old| old.status != condition.status);
        let since = match before.and_then(|old| old.last_transition_time.as_ref()) {
            Some(since) if !turned => json!(since),
            _ => time(now),
        };
        list.push(json!({
            "type": condition.kind,
            "status": condition.status,
            "reason": condition.reason,
            "message": condition.message,
            "lastUpdateTime": time(now),
            "lastTransitionTime": since,
        }));
    }
    let is_ours = |kind: &str| ours.iter().any(|condition| condition.kind == kind);
    let others = live.conditions.iter().filter(|old| !is_ours(&old.condition_type));
    list.extend(others.map(|old| json!(old)));
    Value::Array(list)
}

fn shown(checks: &Checks) -> Vec<Value> {
    let number = |value: f64| format!("{}", (value * 1000.0).round() / 1000.0);
    let measured = checks.measured.iter().take(CHECKS_MAX);
    measured
        .map(|it| {
            let mut shown =
                json!({ "name": it.name, "value": number(it.value), "passed": it.passed });
            if let Some(min) = it.min {
                shown["min"] = json!(number(min));
            }
            if let Some(max) = it.max {
                shown["max"] = json!(number(max));
            }
            shown
        })
        .collect()
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(TEXT_MAX) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}
