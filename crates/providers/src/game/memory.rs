//! Status and memory of a game workload.

use serde_json::{Map, Value, json};
use tidegate_api::game::{
    GameDeploymentStatus, GameStatefulSetStatus, HookPhase as ApiPhase,
    status::{GameCanaryStatus, GameCondition, PauseCondition, PodHookCondition},
};
use tidegate_engine::{
    Revision,
    game::{
        Condition, ConditionKind, Counts, HookKind, HookPhase, Memory, Pause, PauseReason,
        PodHookState, WorkloadPhase,
    },
};

use super::{GAME_DEPLOYMENT, run, selector::selector_text, time};
use crate::object::Kind;

/// The memory in the status. A status that cannot be read is none.
pub fn read(kind: Kind, object: &Value) -> Memory {
    let status = &object["status"];
    if kind == GAME_DEPLOYMENT {
        let status: GameDeploymentStatus =
            serde_json::from_value(status.clone()).unwrap_or_default();
        of_deployment(&status)
    } else {
        let status: GameStatefulSetStatus =
            serde_json::from_value(status.clone()).unwrap_or_default();
        of_set(&status)
    }
}

/// The merge patch of the status that stores the memory, based on the object that was seen.
///
/// Members that are not written any more are removed; those of others stay.
pub fn patch(kind: Kind, object: &Value, memory: &Memory) -> Value {
    let selector = selector_text(&object["spec"]["selector"]);
    let (wanted, ours) = if kind == GAME_DEPLOYMENT {
        let status = deployment(memory, selector);
        (serde_json::to_value(status), serde_json::to_value(full_deployment()))
    } else {
        let status = set(memory, selector);
        (serde_json::to_value(status), serde_json::to_value(full_set()))
    };
    let wanted = wanted.ok().and_then(|it| it.as_object().cloned()).unwrap_or_default();
    let ours = ours.ok().and_then(|it| it.as_object().cloned()).unwrap_or_default();
    let known = object["status"].as_object().cloned().unwrap_or_default();
    let mut status = Map::new();
    for name in ours.keys() {
        match (wanted.get(name), known.get(name)) {
            (Some(value), known) if known != Some(value) => {
                status.insert(name.clone(), with_nulls(known, value));
            }
            (None, Some(_)) => {
                status.insert(name.clone(), Value::Null);
            }
            _ => {}
        }
    }
    json!({
        "metadata": { "resourceVersion": object["metadata"]["resourceVersion"] },
        "status": status,
    })
}

/// A merge patch keeps members that it does not name.
fn with_nulls(known: Option<&Value>, wanted: &Value) -> Value {
    let (Some(Value::Object(known)), Value::Object(wanted)) = (known, wanted) else {
        return wanted.clone();
    };
    let mut patch = wanted.clone();
    for name in known.keys().filter(|name| !wanted.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    Value::Object(patch)
}

/// One with all members, to know their names.
fn full_deployment() -> GameDeploymentStatus {
    let (text, condition) = (Some(String::new()), GameCondition::default());
    GameDeploymentStatus {
        observed_generation: Some(0),
        updated_available_replicas: Some(0),
        expected_updated_replicas: Some(0),
        current_revision: text.clone(),
        update_revision: text.clone(),
        collision_count: Some(0),
        phase: text.clone(),
        message: text.clone(),
        conditions: vec![condition],
        pause_conditions: vec![pause_condition(&any_pause())],
        label_selector: text.clone(),
        current_step_index: Some(0),
        current_step_hash: text,
        canary: Some(GameCanaryStatus::default()),
        pre_delete_hook_condition: vec![PodHookCondition::default()],
        pre_inplace_hook_condition: vec![PodHookCondition::default()],
        post_inplace_hook_condition: vec![PodHookCondition::default()],
        ..GameDeploymentStatus::default()
    }
}

fn full_set() -> GameStatefulSetStatus {
    let (text, condition) = (Some(String::new()), GameCondition::default());
    GameStatefulSetStatus {
        observed_generation: Some(0),
        ready_replicas: 1,
        current_replicas: 1,
        updated_replicas: 1,
        available_replicas: Some(0),
        updated_available_replicas: Some(0),
        expected_updated_replicas: Some(0),
        current_revision: text.clone(),
        update_revision: text.clone(),
        collision_count: Some(0),
        phase: text.clone(),
        message: text.clone(),
        conditions: vec![condition],
        label_selector: text.clone(),
        pause_conditions: vec![pause_condition(&any_pause())],
        current_step_index: Some(0),
        current_step_hash: text,
        canary: Some(GameCanaryStatus::default()),
        pre_delete_hook_condition: vec![PodHookCondition::default()],
        pre_inplace_hook_condition: vec![PodHookCondition::default()],
        post_inplace_hook_condition: vec![PodHookCondition::default()],
        ..GameStatefulSetStatus::default()
    }
}

fn any_pause() -> Pause {
    Pause { reason: PauseReason::Step, since: tidegate_engine::Moment(0) }
}

// === Reading ===

/// The members that both kinds have.
struct Common<'a> {
    update_revision: Option<&'a String>,
    current_revision: Option<&'a String>,
    collisions: Option<i32>,
    step: Option<i32>,
    steps_hash: Option<&'a String>,
    canary: Option<&'a GameCanaryStatus>,
    pauses: &'a [PauseCondition],
    hooks: [&'a [PodHookCondition]; 3],
    conditions: &'a [GameCondition],
    phase: Option<&'a String>,
    message: Option<&'a String>,
    generation: Option<i64>,
}

fn of_deployment(status: &GameDeploymentStatus) -> Memory {
    let common = Common {
        update_revision: status.update_revision.as_ref(),
        current_revision: status.current_revision.as_ref(),
        collisions: status.collision_count,
        step: status.current_step_index,
        steps_hash: status.current_step_hash.as_ref(),
        canary: status.canary.as_ref(),
        pauses: &status.pause_conditions,
        hooks: [
            &status.pre_delete_hook_condition,
            &status.pre_inplace_hook_condition,
            &status.post_inplace_hook_condition,
        ],
        conditions: &status.conditions,
        phase: status.phase.as_ref(),
        message: status.message.as_ref(),
        generation: status.observed_generation,
    };
    let counts = Counts {
        replicas: count(status.replicas),
        ready: count(status.ready_replicas),
        available: count(status.available_replicas),
        current: 0,
        updated: count(status.updated_replicas),
        updated_ready: count(status.updated_ready_replicas),
        updated_available: count(status.updated_available_replicas.unwrap_or(0)),
        expected_updated: count(status.expected_updated_replicas.unwrap_or(0)),
    };
    common.memory(counts)
}

fn of_set(status: &GameStatefulSetStatus) -> Memory {
    let common = Common {
        update_revision: status.update_revision.as_ref(),
        current_revision: status.current_revision.as_ref(),
        collisions: status.collision_count,
        step: status.current_step_index,
        steps_hash: status.current_step_hash.as_ref(),
        canary: status.canary.as_ref(),
        pauses: &status.pause_conditions,
        hooks: [
            &status.pre_delete_hook_condition,
            &status.pre_inplace_hook_condition,
            &status.post_inplace_hook_condition,
        ],
        conditions: &status.conditions,
        phase: status.phase.as_ref(),
        message: status.message.as_ref(),
        generation: status.observed_generation,
    };
    let counts = Counts {
        replicas: count(status.replicas),
        ready: count(status.ready_replicas),
        available: count(status.available_replicas.unwrap_or(0)),
        current: count(status.current_replicas),
        updated: count(status.updated_replicas),
        updated_ready: count(status.updated_ready_replicas),
        updated_available: count(status.updated_available_replicas.unwrap_or(0)),
        expected_updated: count(status.expected_updated_replicas.unwrap_or(0)),
    };
    common.memory(counts)
}

// === impl Common ===

impl Common<'_> {
    fn memory(&self, counts: Counts) -> Memory {
        let revision = |text: Option<&String>| {
            text.filter(|text| !text.is_empty()).map(|text| Revision::new(text.as_str()))
        };
        let canary = self.canary;
        let pod_hooks = HookKind::ALL.into_iter().zip(self.hooks);
        Memory {
            generation: self.generation.unwrap_or_default(),
            counts,
            current: revision(self.current_revision),
            update: revision(self.update_revision),
            collisions: u32::try_from(self.collisions.unwrap_or(0)).unwrap_or_default(),
            step: self.step.and_then(|step| usize::try_from(step).ok()),
            steps_hash: self.steps_hash.cloned(),
            stable: revision(canary.and_then(|canary| canary.revision.as_ref())),
            hook_run: canary.and_then(|canary| canary.current_step_hook_run.clone()),
            pauses: self.pauses.iter().filter_map(pause).collect(),
            blocked_since: canary
                .and_then(|canary| canary.hook_blocked_since.as_ref())
                .map(time::moment),
            pod_hooks: pod_hooks
                .flat_map(|(kind, states)| states.iter().map(move |it| hook_state(kind, it)))
                .collect(),
            conditions: self.conditions.iter().filter_map(condition).collect(),
            phase: self.phase.and_then(|word| WorkloadPhase::parse(word)),
            message: self.message.cloned().unwrap_or_default(),
        }
    }
}

fn count(number: i32) -> usize {
    usize::try_from(number).unwrap_or_default()
}

fn pause(condition: &PauseCondition) -> Option<Pause> {
    let reason = PauseReason::parse(&condition.reason)?;
    Some(Pause { reason, since: time::moment(&condition.start_time) })
}

fn hook_state(kind: HookKind, condition: &PodHookCondition) -> PodHookState {
    PodHookState {
        kind,
        pod: condition.pod_name.clone(),
        since: condition.start_time.as_ref().map(time::moment).unwrap_or_default(),
        phase: condition.phase.map_or(HookPhase::Pending, run::engine_phase),
    }
}

fn condition(condition: &GameCondition) -> Option<Condition> {
    let kind = ConditionKind::parse(&condition.condition_type)?;
    Some(Condition {
        kind,
        holds: condition.status == "True",
        reason: condition.reason.clone().unwrap_or_default(),
        message: condition.message.clone().unwrap_or_default(),
        since: condition.last_transition_time.as_ref().map(time::moment).unwrap_or_default(),
    })
}

// === Writing ===

fn deployment(memory: &Memory, selector: String) -> GameDeploymentStatus {
    let Counts {
        replicas,
        ready,
        available,
        // Only sets have it.
        current: _,
        updated,
        updated_ready,
        updated_available,
        expected_updated,
    } = memory.counts;
    GameDeploymentStatus {
        observed_generation: Some(memory.generation),
        replicas: whole(replicas),
        ready_replicas: whole(ready),
        available_replicas: whole(available),
        updated_replicas: whole(updated),
        updated_ready_replicas: whole(updated_ready),
        updated_available_replicas: Some(whole(updated_available)),
        expected_updated_replicas: Some(whole(expected_updated)),
        current_revision: text(memory.current.as_ref()),
        update_revision: text(memory.update.as_ref()),
        collision_count: Some(i32::try_from(memory.collisions).unwrap_or(i32::MAX)),
        phase: memory.phase.map(|phase| phase.as_str().to_owned()),
        message: said(&memory.message),
        conditions: memory.conditions.iter().map(game_condition).collect(),
        pause_conditions: memory.pauses.iter().map(pause_condition).collect(),
        label_selector: Some(selector),
        current_step_index: memory.step.map(whole),
        current_step_hash: memory.steps_hash.clone(),
        canary: canary(memory),
        pre_delete_hook_condition: states(memory, HookKind::PreDelete),
        pre_inplace_hook_condition: states(memory, HookKind::PreInPlace),
        post_inplace_hook_condition: states(memory, HookKind::PostInPlace),
    }
}

fn set(memory: &Memory, selector: String) -> GameStatefulSetStatus {
    let Counts {
        replicas,
        ready,
        available,
        current,
        updated,
        updated_ready,
        updated_available,
        expected_updated,
    } = memory.counts;
    GameStatefulSetStatus {
        observed_generation: Some(memory.generation),
        replicas: whole(replicas),
        ready_replicas: whole(ready),
        current_replicas: whole(current),
        updated_replicas: whole(updated),
        updated_ready_replicas: whole(updated_ready),
        available_replicas: Some(whole(available)),
        updated_available_replicas: Some(whole(updated_available)),
        expected_updated_replicas: Some(whole(expected_updated)),
        current_revision: text(memory.current.as_ref()),
        update_revision: text(memory.update.as_ref()),
        collision_count: Some(i32::try_from(memory.collisions).unwrap_or(i32::MAX)),
        phase: memory.phase.map(|phase| phase.as_str().to_owned()),
        message: said(&memory.message),
        conditions: memory.conditions.iter().map(game_condition).collect(),
        label_selector: Some(selector),
        pause_conditions: memory.pauses.iter().map(pause_condition).collect(),
        current_step_index: memory.step.map(whole),
        current_step_hash: memory.steps_hash.clone(),
        canary: canary(memory),
        pre_delete_hook_condition: states(memory, HookKind::PreDelete),
        pre_inplace_hook_condition: states(memory, HookKind::PreInPlace),
        post_inplace_hook_condition: states(memory, HookKind::PostInPlace),
    }
}

fn whole(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

fn text(revision: Option<&Revision>) -> Option<String> {
    revision.map(|revision| revision.as_str().to_owned())
}

fn said(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// Absent where there is nothing in it.
fn canary(memory: &Memory) -> Option<GameCanaryStatus> {
    let canary = GameCanaryStatus {
        revision: text(memory.stable.as_ref()),
        pause_start_time: memory.paused_since().map(time::time),
        current_step_hook_run: memory.hook_run.clone(),
        hook_blocked_since: memory.blocked_since.map(time::time),
    };
    (canary != GameCanaryStatus::default()).then_some(canary)
}

fn states(memory: &Memory, kind: HookKind) -> Vec<PodHookCondition> {
    let states = memory.pod_hooks.iter().filter(|state| state.kind == kind);
    states
        .map(|state| PodHookCondition {
            pod_name: state.pod.clone(),
            start_time: Some(time::time(state.since)),
            phase: Some(api_phase(state.phase)),
        })
        .collect()
}

fn pause_condition(pause: &Pause) -> PauseCondition {
    PauseCondition { reason: pause.reason.as_str().to_owned(), start_time: time::time(pause.since) }
}

fn game_condition(condition: &Condition) -> GameCondition {
    GameCondition {
        condition_type: condition.kind.as_str().to_owned(),
        status: if condition.holds { "True" } else { "False" }.to_owned(),
        last_transition_time: Some(time::time(condition.since)),
        reason: said(&condition.reason),
        message: said(&condition.message),
    }
}

fn api_phase(phase: HookPhase) -> ApiPhase {
    run::api_phase(phase)
}
