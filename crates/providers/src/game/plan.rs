//! Reads a game workload's spec as a plan.
//!
//! The definitions refuse what a schema can refuse. Other problems are found here, and named by
//! field: a workload with such a problem is not acted upon.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::Value;
use tidegate_api::game::{
    GameDeploymentSpec, GameStatefulSetSpec,
    deployment::GameDeploymentUpdateType,
    stateful_set::{GameStatefulSetUpdateType, PodManagementPolicy},
    strategy::{
        CanaryHook, CanaryStep as ApiStep, CanaryStrategy, HookFailureAction, HookStepArgument,
        InPlaceUpdateStrategy, PodHookStrategy, ResumeBy as ApiResumeBy,
    },
};
use tidegate_engine::{
    Revision,
    game::{
        Asked, Canary, CanaryStep, Command, CostOrder, HookCall, Indexes, IntOrPercent, Management,
        Paused, Plan, PodHook, PodHooks, ResumeBy, StepHook, UpdateWay, WorkloadKind,
        arguments::Argument, steps_hash,
    },
};

use super::{GAME_DEPLOYMENT, engine_json, names, selector::is_selected};
use crate::object::Kind;

/// A plan, and why it must not be acted upon; nothing if it may.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// The plan of the spec.
    pub plan: Plan,
    /// Its problems, for people.
    pub problems: Vec<String>,
}

/// Member of a cached workload: whether we were the last to set `updateStrategy.paused`.
pub const PAUSED_BY_US: &str = "pausedByUs";
/// Revisions that are kept by default.
const HISTORY_LIMIT: usize = 10;
/// So much of an unknown command is shown: enough to recognise it.
const WORD_MAX: usize = 40;
/// A label has 63 characters; the name of a revision, which becomes one, ends in up to eleven.
const NAME_BYTES_MAX: usize = 63 - 11;

/// Reads a workload. `Err` is an object that cannot be understood at all.
pub fn read(kind: Kind, object: &Value) -> Result<Reading, String> {
    let unreadable = |error: serde_json::Error| format!("the spec cannot be read: {error}");
    let mut parts = if kind == GAME_DEPLOYMENT {
        let spec: GameDeploymentSpec =
            serde_json::from_value(object["spec"].clone()).map_err(unreadable)?;
        Parts::of_deployment(spec)
    } else {
        let spec: GameStatefulSetSpec =
            serde_json::from_value(object["spec"].clone()).map_err(unreadable)?;
        Parts::of_set(spec)
    };
    let annotations = &object["metadata"]["annotations"];
    let mut problems = Vec::new();
    problems.extend(identity_problem(object));
    let (asked, misspelt) = asked(annotations);
    let canary = parts.canary.take().map(|asked| canary(&asked, &mut problems));
    let plan = Plan {
        kind: parts.kind,
        namespace: object["metadata"]["namespace"].as_str().unwrap_or_default().to_owned(),
        generation: object["metadata"]["generation"].as_i64().unwrap_or_default(),
        replicas: usize::try_from(parts.replicas.max(0)).unwrap_or_default(),
        way: parts.way,
        falls_back: annotations[names::FALL_BACK] == "true",
        partition: share(parts.partition.as_ref(), IntOrPercent::NONE),
        max_unavailable: share(parts.max_unavailable.as_ref(), parts.default_unavailable),
        max_surge: share(parts.max_surge.as_ref(), IntOrPercent::NONE),
        min_ready: seconds(parts.min_ready),
        grace: seconds(parts.in_place.as_ref().and_then(|it| it.grace_period_seconds)),
        canary,
        hooks: PodHooks {
            pre_delete: pod_hook(parts.hooks[0].as_ref()),
            pre_in_place: pod_hook(parts.hooks[1].as_ref()),
            post_in_place: pod_hook(parts.hooks[2].as_ref()),
        },
        pods_to_delete: parts.pods_to_delete,
        costs: match annotations[names::COST_ORDER].as_str() {
            Some("descend") => CostOrder::Descend,
            _ => CostOrder::Ascend,
        },
        indexes: indexes(annotations),
        history_limit: parts
            .history_limit
            .map_or(HISTORY_LIMIT, |limit| usize::try_from(limit.max(0)).unwrap_or_default()),
        paused: Paused {
            value: parts.paused.unwrap_or(false),
            is_ours: object[PAUSED_BY_US] == true,
        },
        asked,
        misspelt,
    };
    Ok(Reading { plan, problems })
}

/// The steps, and their problems.
fn canary(asked: &CanaryStrategy, problems: &mut Vec<String>) -> Canary {
    let mut steps = Vec::new();
    for (index, asked) in asked.steps.iter().enumerate() {
        match step(asked) {
            Some(step) => steps.push(step),
            None => problems.push(format!(
                "updateStrategy.canary.steps[{index}] must have one of partition, pause and hook"
            )),
        }
    }
    Canary {
        hash: steps_hash(&engine_json(&plain(&asked.steps))),
        resume_by: match asked.resume_by {
            Some(ApiResumeBy::Annotation) => ResumeBy::Annotation,
            Some(ApiResumeBy::Field) | None => ResumeBy::Field,
        },
        steps,
    }
}

/// The steps without fields that have no effect. A list without arguments, or a default that is written out,
/// must not begin a release again.
fn plain(steps: &[ApiStep]) -> Value {
    let mut steps = steps.to_vec();
    for hook in steps.iter_mut().filter_map(|step| step.hook.as_mut()) {
        hook.on_failure = hook.on_failure.filter(|action| *action != HookFailureAction::Pause);
    }
    serde_json::to_value(steps).unwrap_or_default()
}

/// Whether we were the last to set `updateStrategy.paused`, by the managers of the object's fields.
/// A pause that another manager holds as well, by applying it on top of ours, is that manager's.
pub fn is_paused_by(manager: &str, object: &Value) -> bool {
    let managers = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    let setters = managers.filter(|entry| {
        let fields = &entry["fieldsV1"]["f:spec"]["f:updateStrategy"]["f:paused"];
        !fields.is_null()
    });
    let names: Vec<&str> = setters.filter_map(|entry| entry["manager"].as_str()).collect();
    let is_paused = object["spec"]["updateStrategy"]["paused"] == true;
    names.contains(&manager) && (!is_paused || names.iter().all(|name| *name == manager))
}

/// The parts that differ between the two kinds.
struct Parts {
    kind: WorkloadKind,
    replicas: i32,
    way: UpdateWay,
    partition: Option<IntOrString>,
    max_unavailable: Option<IntOrString>,
    default_unavailable: IntOrPercent,
    max_surge: Option<IntOrString>,
    min_ready: Option<i32>,
    in_place: Option<InPlaceUpdateStrategy>,
    canary: Option<CanaryStrategy>,
    paused: Option<bool>,
    /// Before deletion, before and after an update in place.
    hooks: [Option<PodHookStrategy>; 3],
    pods_to_delete: Vec<String>,
    history_limit: Option<i32>,
}

// === impl Parts ===

impl Parts {
    fn of_deployment(spec: GameDeploymentSpec) -> Self {
        let way = match spec.update_type() {
            GameDeploymentUpdateType::RollingUpdate => UpdateWay::Recreate,
            GameDeploymentUpdateType::InplaceUpdate => UpdateWay::InPlace,
            GameDeploymentUpdateType::HotPatchUpdate => UpdateWay::HotPatch,
        };
        let strategy = spec.update_strategy.clone().unwrap_or_default();
        Self {
            kind: WorkloadKind::Deployment,
            replicas: spec.replicas(),
            way,
            partition: strategy.partition,
            max_unavailable: strategy.max_unavailable,
            default_unavailable: IntOrPercent::Percent(20),
            max_surge: strategy.max_surge,
            min_ready: spec.min_ready_seconds,
            in_place: strategy.in_place_update_strategy,
            canary: strategy.canary,
            paused: strategy.paused,
            hooks: [
                spec.pre_delete_update_strategy,
                spec.pre_inplace_update_strategy,
                spec.post_inplace_update_strategy,
            ],
            pods_to_delete: spec.scale_strategy.map(|it| it.pods_to_delete).unwrap_or_default(),
            history_limit: spec.revision_history_limit,
        }
    }

    fn of_set(spec: GameStatefulSetSpec) -> Self {
        let strategy = spec.update_strategy.unwrap_or_default();
        let way = match strategy.update_type {
            Some(GameStatefulSetUpdateType::OnDelete) => UpdateWay::OnDelete,
            Some(GameStatefulSetUpdateType::InplaceUpdate) => UpdateWay::InPlace,
            Some(GameStatefulSetUpdateType::HotPatchUpdate) => UpdateWay::HotPatch,
            Some(GameStatefulSetUpdateType::RollingUpdate) | None => UpdateWay::Recreate,
        };
        let management = match spec.pod_management_policy {
            Some(PodManagementPolicy::Parallel) => Management::Parallel,
            Some(PodManagementPolicy::OrderedReady) | None => Management::OrderedReady,
        };
        let pace = strategy.rolling_update.unwrap_or_default();
        Self {
            kind: WorkloadKind::StatefulSet(management),
            replicas: spec.replicas.unwrap_or(1),
            way,
            partition: pace.partition,
            max_unavailable: pace.max_unavailable,
            default_unavailable: IntOrPercent::Percent(25),
            max_surge: pace.max_surge,
            min_ready: spec.min_ready_seconds,
            in_place: strategy.in_place_update_strategy,
            canary: strategy.canary,
            paused: strategy.paused,
            hooks: [
                spec.pre_delete_update_strategy,
                spec.pre_inplace_update_strategy,
                spec.post_inplace_update_strategy,
            ],
            pods_to_delete: Vec::new(),
            history_limit: spec.revision_history_limit,
        }
    }
}

fn identity_problem(object: &Value) -> Option<String> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    if name.len() > NAME_BYTES_MAX {
        return Some(format!(
            "metadata.name has {} characters; names of revisions are labels of pods, so it may have \
             {NAME_BYTES_MAX}",
            name.len()
        ));
    }
    let labels = &object["spec"]["template"]["metadata"]["labels"];
    (!is_selected(&object["spec"]["selector"], labels))
        .then(|| "selector must not be empty and must match template.metadata.labels".to_owned())
}

/// `"10%"`, `2`.
fn share(value: Option<&IntOrString>, default: IntOrPercent) -> IntOrPercent {
    match value {
        None => default,
        Some(IntOrString::Int(count)) => {
            IntOrPercent::Count(usize::try_from(*count).unwrap_or_default())
        }
        Some(IntOrString::String(text)) => match text.strip_suffix('%') {
            Some(percent) => percent.parse().map_or(default, IntOrPercent::Percent),
            None => text.parse().map_or(default, IntOrPercent::Count),
        },
    }
}

fn seconds(seconds: Option<i32>) -> Duration {
    Duration::from_secs(u64::try_from(seconds.unwrap_or(0)).unwrap_or_default())
}

fn step(step: &ApiStep) -> Option<CanaryStep> {
    Some(match (&step.partition, &step.pause, &step.hook) {
        (Some(partition), None, None) => {
            CanaryStep::Partition(share(Some(partition), IntOrPercent::NONE))
        }
        (None, Some(pause), None) => {
            CanaryStep::Pause(pause.duration.map(|duration| seconds(Some(duration))))
        }
        (None, None, Some(hook)) => CanaryStep::Hook(step_hook(hook)),
        _ => return None,
    })
}

fn step_hook(hook: &CanaryHook) -> StepHook {
    StepHook {
        call: call(&hook.template_name, &hook.args),
        timeout: hook.timeout_seconds.map(|timeout| seconds(Some(timeout))),
        rolls_back: hook.on_failure() == HookFailureAction::Rollback,
    }
}

fn pod_hook(strategy: Option<&PodHookStrategy>) -> PodHook {
    let Some(strategy) = strategy else { return PodHook::default() };
    PodHook {
        call: strategy.hook.as_ref().map(|hook| call(&hook.template_name, &hook.args)),
        retry: strategy.retry == Some(true),
    }
}

fn call(template: &str, arguments: &[HookStepArgument]) -> HookCall {
    let argument =
        |it: &HookStepArgument| Argument { name: it.name.clone(), value: it.value.clone() };
    HookCall { template: template.to_owned(), arguments: arguments.iter().map(argument).collect() }
}

fn indexes(annotations: &Value) -> Indexes {
    if annotations[names::INDEX_ON] != "true" {
        return Indexes::Off;
    }
    let range = annotations[names::INDEX_RANGE].as_str().unwrap_or_default();
    let read: Option<Value> = serde_json::from_str(range).ok();
    let member = |name: &str| read.as_ref().and_then(|range| range[name].as_i64());
    match (member("podStartIndex"), member("podEndIndex")) {
        (Some(start), Some(end)) if 0 <= start && start < end => Indexes::Range(start, end),
        _ => Indexes::Unreadable(format!(
            "annotation {} must be like {{\"podStartIndex\":0,\"podEndIndex\":100}}",
            names::INDEX_RANGE
        )),
    }
}

/// `resume`, or `resume@<revision>` for that release only; or an unknown word.
fn asked(annotations: &Value) -> (Option<Asked>, Option<String>) {
    let Some(text) = annotations[names::ASK].as_str() else { return (None, None) };
    let (word, revision) = match text.split_once('@') {
        Some((word, revision)) => (word, Some(Revision::new(revision))),
        None => (text, None),
    };
    match Command::parse(word.trim()) {
        Some(command) => (Some(Asked { command, revision }), None),
        None => (None, Some(text.chars().take(WORD_MAX).collect())),
    }
}
