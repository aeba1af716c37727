//! Status and memory: what is written down, and what it says to people.
//!
//! Written by merge patches with the version they are based on; members of other versions survive,
//! and nothing is written when nothing changed.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tidegate_api::canary::{
    CanaryPhase, CanaryStatus, TargetRef,
    status::{RouteMemory, TargetMemory},
};
use tidegate_engine::{
    Checks, Configs, Decision, Fact, Form, Memory, Moment, Names, Pause, Percent, Phase, Revision,
    Tone,
};
use tidegate_providers::traffic::Cookies;

/// Checks shown in status; more would only make the object large.
const CHECKS_MAX: usize = 20;
/// Longest text in a condition or decision.
const TEXT_MAX: usize = 1024;

/// What the engine remembers, from status.
pub(super) fn memory(status: &CanaryStatus) -> Memory {
    let rollout = status.rollout.clone().unwrap_or_default();
    let count = |number: i64| u32::try_from(number.max(0)).unwrap_or(u32::MAX);
    let revision =
        |text: &Option<String>| text.as_deref().filter(|text| !text.is_empty()).map(Revision::new);
    Memory {
        phase: phase(status.phase),
        failed_checks: count(status.failed_checks),
        weight: Percent::clamped(status.canary_weight),
        iterations: count(status.iterations),
        applied: revision(&status.last_applied_spec),
        promoted: revision(&status.last_promoted_spec),
        configs: status.tracked_configs.clone().map(Configs::from),
        pause: status.manual_pause.as_ref().map(|pause| Pause {
            weight: Percent::clamped(pause.weight),
            since: pause.since.as_ref().map_or(Moment::default(), |time| moment(time.0)),
        }),
        since: status.last_transition_time.as_ref().map(|time| moment(time.0)),
        prepared: rollout.prepared,
        replaces_broken_primary: rollout.rescue,
        untold: rollout.untold.as_deref().and_then(ended),
        blocked_since: rollout.trouble_since.as_ref().map(|time| moment(time.0)),
        no_data_since: rollout.no_data_since.as_ref().map(|time| moment(time.0)),
    }
}

fn ended(text: &str) -> Option<Phase> {
    [Phase::Succeeded, Phase::Failed].into_iter().find(|phase| phase.as_str() == text)
}

fn phase(phase: CanaryPhase) -> Phase {
    match phase {
        CanaryPhase::Unset => Phase::New,
        CanaryPhase::Initializing => Phase::Initializing,
        CanaryPhase::Initialized => Phase::Initialized,
        CanaryPhase::Waiting => Phase::Waiting,
        CanaryPhase::Progressing => Phase::Progressing,
        CanaryPhase::WaitingPromotion => Phase::WaitingPromotion,
        CanaryPhase::Promoting => Phase::Promoting,
        CanaryPhase::Finalising => Phase::Finalising,
        CanaryPhase::Succeeded => Phase::Succeeded,
        CanaryPhase::Failed => Phase::Failed,
        CanaryPhase::Terminating => Phase::Terminating,
        CanaryPhase::Terminated => Phase::Terminated,
    }
}

/// The engine's phase in the API's words.
pub(super) fn api_phase(phase: Phase) -> CanaryPhase {
    match phase {
        Phase::New => CanaryPhase::Unset,
        Phase::Initializing => CanaryPhase::Initializing,
        Phase::Initialized => CanaryPhase::Initialized,
        Phase::Waiting => CanaryPhase::Waiting,
        Phase::Progressing => CanaryPhase::Progressing,
        Phase::WaitingPromotion => CanaryPhase::WaitingPromotion,
        Phase::Promoting => CanaryPhase::Promoting,
        Phase::Finalising => CanaryPhase::Finalising,
        Phase::Succeeded => CanaryPhase::Succeeded,
        Phase::Failed => CanaryPhase::Failed,
        Phase::Terminating => CanaryPhase::Terminating,
        Phase::Terminated => CanaryPhase::Terminated,
    }
}

pub(super) fn cookies(status: &CanaryStatus) -> Cookies {
    let said = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    Cookies {
        canary: said(&status.session_affinity_cookie),
        previous: said(&status.previous_session_affinity_cookie),
        primary: said(&status.primary_session_affinity_cookie),
    }
}

pub(super) fn moment(time: Timestamp) -> Moment {
    Moment(time.as_millisecond())
}

pub(super) fn timestamp(moment: Moment) -> Timestamp {
    Timestamp::from_millisecond(moment.0).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// As status has it: whole seconds, as Kubernetes writes times.
fn time(moment: Moment) -> Value {
    let seconds = timestamp(moment).as_second();
    json!(Timestamp::from_second(seconds).unwrap_or(Timestamp::UNIX_EPOCH).to_string())
}

/// What goes into status, besides what the engine remembers.
pub(super) struct Page<'a> {
    pub(super) now: Moment,
    pub(super) generation: i64,
    pub(super) kind: &'a str,
    pub(super) names: &'a Names,
    pub(super) cookies: &'a Cookies,
    pub(super) checks: Option<&'a Checks>,
    /// When the next step can be taken.
    pub(super) next: Option<Moment>,
}

/// What the status remembers and the engine has no word for.
pub(super) struct Beside<'a> {
    /// The revision of Knative that the primary is.
    pub(super) primary: Option<&'a str>,
    /// The target, as the spec has it.
    pub(super) target: &'a TargetRef,
    /// The one that the primary was made for, as the status has it.
    pub(super) known_target: Option<&'a TargetMemory>,
    /// Whose routing objects there may be.
    pub(super) provider: &'a str,
    /// The routing object that may have a share.
    pub(super) route: Option<&'a RouteMemory>,
    /// Whether nobody is led to the canary by a former one.
    pub(super) is_left: bool,
    /// Since when target and primary have lacked pods, where the cluster does not say.
    pub(super) lacking: [Option<Timestamp>; 2],
}

/// The fields of status as they should be; a `null` is one that should not be there.
pub(super) fn fields(memory: &Memory, beside: &Beside<'_>) -> Map<String, Value> {
    let Beside { primary, target, known_target, provider, route, is_left, lacking } = *beside;
    let Memory {
        phase,
        failed_checks,
        weight,
        iterations,
        applied,
        promoted,
        configs,
        pause,
        since,
        prepared,
        replaces_broken_primary: rescue,
        untold,
        blocked_since: trouble_since,
        no_data_since,
    } = memory;
    let mut rollout = Map::new();
    if *prepared {
        rollout.insert("prepared".into(), json!(true));
    }
    if *rescue {
        rollout.insert("rescue".into(), json!(true));
    }
    if let Some(phase) = untold {
        rollout.insert("untold".into(), json!(phase.as_str()));
    }
    if let Some(since) = trouble_since {
        rollout.insert("troubleSince".into(), time(*since));
    }
    if let Some(since) = no_data_since {
        rollout.insert("noDataSince".into(), time(*since));
    }
    // At rest nothing hangs on it, and a pod that is missing for a moment is no reason to write.
    let lacking = lacking.map(|since| since.filter(|_| phase.is_under_way()).map(moment));
    for (field, since) in ["canaryLackingSince", "primaryLackingSince"].into_iter().zip(lacking) {
        if let Some(since) = since {
            rollout.insert(field.into(), time(since));
        }
    }
    if let Some(primary) = primary {
        rollout.insert("primaryRevision".into(), json!(primary));
    }
    rollout.insert("target".into(), json!(made_for(*phase, target, known_target)));
    rollout.insert("provider".into(), json!(provider));
    if let Some(route) = route.filter(|_| may_have_share(memory) || !is_left) {
        rollout.insert("route".into(), json!(route));
    }
    let pause = pause
        .map(|Pause { weight, since }| json!({ "weight": weight.get(), "since": time(since) }));
    let fields = json!({
        "phase": phase.as_str(),
        "failedChecks": failed_checks,
        "canaryWeight": weight.get(),
        "iterations": iterations,
        "lastAppliedSpec": applied.as_ref().map(Revision::as_str),
        "lastPromotedSpec": promoted.as_ref().map(Revision::as_str),
        "trackedConfigs": configs.as_ref().map(Arc::as_ref),
        "manualPause": pause,
        "lastTransitionTime": since.map(time),
        "rollout": rollout,
    });
    match fields {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// The workload that the primary is made for: while it is set up, the target; from then on it stays the same,
/// whatever the spec says, until it is set up anew.
fn made_for(phase: Phase, target: &TargetRef, known: Option<&TargetMemory>) -> TargetMemory {
    let is_made = !matches!(phase, Phase::New | Phase::Initializing);
    match known.filter(|_| is_made) {
        Some(known) => known.clone(),
        None => TargetMemory {
            api_version: target.api_version.clone(),
            kind: target.kind.as_str().to_owned(),
            name: target.name.clone(),
        },
    }
}

/// Whether the canary may have a share: before and after a rollout it has none, but for one that was left on it.
fn may_have_share(memory: &Memory) -> bool {
    match memory.phase {
        Phase::New | Phase::Initializing => false,
        Phase::Initialized | Phase::Succeeded | Phase::Failed => memory.serves_from_canary(),
        Phase::Waiting
        | Phase::Progressing
        | Phase::WaitingPromotion
        | Phase::Promoting
        | Phase::Finalising
        | Phase::Terminating
        | Phase::Terminated => true,
    }
}

/// The fields of a status that remembers another route and is the same otherwise.
pub(super) fn rerouted(rollout: &Value, route: Option<&RouteMemory>) -> Map<String, Value> {
    let mut rollout = rollout.as_object().cloned().unwrap_or_default();
    rollout.insert("route".to_owned(), json!(route));
    Map::from_iter([("rollout".to_owned(), Value::Object(rollout))])
}

/// What people and tools read: cookies, conditions, the decision.
pub(super) fn told(
    memory: &Memory,
    decision: &Decision,
    live: &CanaryStatus,
    page: &Page<'_>,
) -> Map<String, Value> {
    let mut fields = Map::new();
    fields.insert("sessionAffinityCookie".into(), json!(page.cookies.canary));
    fields.insert("previousSessionAffinityCookie".into(), json!(page.cookies.previous));
    fields.insert("primarySessionAffinityCookie".into(), json!(page.cookies.primary));
    fields.insert("observedGeneration".into(), json!(page.generation));
    let is_quiet = match decision.why {
        Fact::AwaitingInterval | Fact::Placed(_) => true,
        // Pods come up one by one: worth a write only if it takes an interval.
        Fact::PrimaryNotReady(_) | Fact::CanaryNotReady(_) => !decision.tells(&decision.why),
        // How the last rollout ended says more than that there is no next one.
        Fact::Idle => is_told(live, state_of(memory, decision)),
        _ => false,
    };
    // Waiting for the next interval says nothing new: what was said last still holds.
    if is_quiet && live.last_decision.is_some() && !live.conditions.is_empty() {
        let promoted = promoted(memory, page);
        fields.insert("conditions".into(), merge_conditions(live, &[promoted], page.now));
        return fields;
    }
    let message = cut(&decision.why.text(page.names));
    let before = live.last_decision.clone().unwrap_or_default();
    let mut measured: Vec<Value> = page.checks.map(shown).unwrap_or_default();
    if measured.is_empty() && matches!(decision.why, Fact::ThresholdReached(_)) {
        // What takes a rollout back is what was measured just before.
        measured = before.checks.iter().map(|check| json!(check)).collect();
    }
    let same = before.reason == decision.why.reason()
        && before.message == message
        && (measured.is_empty() || json!(before.checks) == json!(measured));
    if !same {
        let mut last = json!({
            "time": time(page.now),
            "reason": decision.why.reason(),
            "message": message,
        });
        if !measured.is_empty() {
            last["checks"] = json!(measured);
        }
        if let Some(next) = page.next {
            last["next"] = time(next);
        }
        fields.insert("lastDecision".into(), last);
    }
    let conditions = conditions(memory, decision, &message, page);
    fields.insert("conditions".into(), merge_conditions(live, &conditions, page.now));
    fields
}

/// The patch that makes `live` have `fields`, if it does not already.
pub(super) fn patch(live: &Value, fields: Map<String, Value>) -> Option<Map<String, Value>> {
    let mut changed = Map::new();
    for (name, value) in fields {
        let now = live.get(&name).unwrap_or(&Value::Null);
        if *now == value {
            continue;
        }
        // A merge patch merges: what is no longer there must be said to be gone.
        let value = match (now, value) {
            (Value::Object(now), Value::Object(mut new)) => {
                for key in now.keys() {
                    new.entry(key.clone()).or_insert(Value::Null);
                }
                Value::Object(new)
            }
            (_, value) => value,
        };
        changed.insert(name, value);
    }
    (!changed.is_empty()).then_some(changed)
}

/// Whether a patch says which provider and target there are for the first time, and nothing else. That is no
/// reason to write: it comes along with the next one.
pub(super) fn is_first_said(live: &Value, changed: &Map<String, Value>) -> bool {
    let before = live["rollout"].as_object().cloned().unwrap_or_default();
    let after = changed.get("rollout").and_then(Value::as_object);
    let Some(mut after) = after.filter(|_| changed.len() == 1).cloned() else { return false };
    let known = after.len();
    after.retain(|field, _| {
        before.contains_key(field) || !matches!(&**field, "provider" | "target")
    });
    after.len() < known && after == before
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
    page: &Page<'_>,
) -> Vec<Condition> {
    let state = state_of(memory, decision);
    let mut message = message.to_owned();
    if memory.phase == Phase::Failed && decision.why.tone() == Tone::Normal {
        // Good news from the primary is not why a person is needed.
        message.push_str(" The last revision failed and is not tried again: release another.");
    }
    let mut conditions = vec![promoted(memory, page)];
    for health in [Health::Ready, Health::Reconciling, Health::Stalled] {
        let kind = health.as_str();
        conditions.push(if health == state {
            let (reason, message) = (decision.why.reason().to_owned(), message.clone());
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
        (Health::Ready, Health::Stalled) => "Not until what Stalled says is settled.",
        (Health::Ready, _) => match memory.phase {
            Phase::New | Phase::Initializing => "The primary is being set up.",
            Phase::Terminating | Phase::Terminated => "The canary is being deleted.",
            _ => "A rollout is under way.",
        },
        (Health::Reconciling, Health::Stalled) => {
            "Nothing goes on until what Stalled says is settled."
        }
        (Health::Reconciling, _) => "Nothing is under way.",
        (Health::Stalled, _) => "Nothing is in the way.",
    }
}

/// Whether the conditions say this already.
fn is_told(live: &CanaryStatus, health: Health) -> bool {
    let kind = health.as_str();
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
/// Tools that follow these conditions call a stalled object failed. What waits for a yes has not
/// failed: it is on its way, and its message says for whom it waits.
fn state_of(memory: &Memory, decision: &Decision) -> Health {
    match &decision.why {
        Fact::Refused(_)
        | Fact::Obstructed(_)
        | Fact::PrimaryStuck(_)
        | Fact::RollbackHeld(_)
        | Fact::RevertGivenUp(_) => Health::Stalled,
        _ if memory.phase == Phase::Failed => Health::Stalled,
        _ if matches!(memory.phase, Phase::Initialized | Phase::Succeeded) => {
            match decision.why.tone() {
                Tone::Normal => Health::Ready,
                Tone::Warning if matches!(decision.why, Fact::IdleTargetRuns(_)) => Health::Ready,
                Tone::Warning => Health::Reconciling,
            }
        }
        _ => Health::Reconciling,
    }
}

/// Flagger's one condition, which `kubectl wait --for=condition=promoted` relies on.
fn promoted(memory: &Memory, page: &Page<'_>) -> Condition {
    let kind = page.kind;
    let (status, message) = match memory.phase {
        Phase::New => ("Unknown", format!("Nothing is set up for this {kind} yet.")),
        Phase::Initializing => ("Unknown", format!("The primary of this {kind} is being set up.")),
        Phase::Initialized | Phase::Succeeded => {
            ("True", format!("The primary runs what the {kind} asks for."))
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
            ("Unknown", "A new revision needs approval to be promoted.".to_owned())
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
        Phase::Failed if page.names.form == Form::Elsewhere => {
            ("False", "The last revision was taken back.".to_owned())
        }
        Phase::Failed => {
            ("False", format!("The last revision was taken back; the {kind} is scaled to zero."))
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
        let said = |old: &&tidegate_api::canary::status::CanaryCondition| {
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
