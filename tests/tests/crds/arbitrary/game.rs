//! Strategies for the game workloads and their hooks.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use tidegate_api::{
    GameDeployment, GameStatefulSet, HookRun, HookTemplate,
    game::{
        GameDeploymentSpec, GameDeploymentStatus, GameStatefulSetSpec, GameStatefulSetStatus,
        HookPhase, HookRunSpec, HookRunStatus, HookTemplateSpec, PodTemplate,
        deployment::{GameDeploymentUpdateStrategy, GameDeploymentUpdateType, ScaleStrategy},
        hook::{
            HookArgument, HookMetric, HookPolicy, HookProvider, HookSecretRef, KubernetesField,
            KubernetesFunction, KubernetesProvider, Measurement, MetricResult, PrometheusProvider,
            WebHeader, WebMethod, WebProvider,
        },
        stateful_set::{
            GameStatefulSetUpdateStrategy, GameStatefulSetUpdateType, PodManagementPolicy,
            RollingUpdate,
        },
        status::{GameCanaryStatus, GameCondition, PauseCondition, PodHookCondition},
        strategy::{
            CanaryHook, CanaryPause, CanaryStep, CanaryStrategy, HookFailureAction, HookStep,
            HookStepArgument, InPlaceUpdateStrategy, PodHookStrategy, ResumeBy,
        },
        template::VolumeClaimTemplate,
    },
};

use super::{
    duration, label, list, maybe, metadata, one_of, pair_names, pairs, pods, some_pods, strategy,
    text, time,
};

strategy! { game_deployment: GameDeployment {
    metadata: metadata(),
    spec: game_deployment_spec(),
    status: maybe(game_deployment_status()),
} }

/// A selector that fits the template.
fn game_deployment_spec() -> BoxedStrategy<GameDeploymentSpec> {
    (selected_template(), any_game_deployment_spec())
        .prop_map(|((selector, template), spec)| GameDeploymentSpec { selector, template, ..spec })
        .boxed()
}

strategy! { any_game_deployment_spec: GameDeploymentSpec {
    replicas: maybe(0..=i32::MAX),
    selector: Just(LabelSelector::default()),
    template: Just(PodTemplate::default()),
    scale_strategy: maybe(scale_strategy()),
    update_strategy: maybe(game_deployment_update_strategy()),
    pre_delete_update_strategy: maybe(pod_hook_strategy()),
    pre_inplace_update_strategy: maybe(pod_hook_strategy()),
    post_inplace_update_strategy: maybe(pod_hook_strategy()),
    revision_history_limit: maybe(0..=i32::MAX),
    min_ready_seconds: maybe(0..=86400_i32),
    service_name: maybe(text()),
} }

strategy! { scale_strategy: ScaleStrategy {
    pods_to_delete: list(text()),
} }

strategy! { game_deployment_update_strategy: GameDeploymentUpdateStrategy {
    update_type: maybe(one_of(GameDeploymentUpdateType::ALL)),
    partition: maybe(pods()),
    max_unavailable: maybe(some_pods()),
    max_surge: maybe(pods()),
    paused: any::<Option<bool>>(),
    canary: maybe(canary_strategy()),
    in_place_update_strategy: maybe(in_place_update_strategy()),
} }

strategy! { canary_strategy: CanaryStrategy {
    steps: list(canary_step()),
    resume_by: maybe(one_of(ResumeBy::ALL)),
} }

fn canary_step() -> BoxedStrategy<CanaryStep> {
    let none = CanaryStep { partition: None, pause: None, hook: None };
    let (base, other, third) = (none.clone(), none.clone(), none);
    prop_oneof![
        pods().prop_map(move |p| CanaryStep { partition: Some(p), ..base.clone() }),
        canary_pause().prop_map(move |p| CanaryStep { pause: Some(p), ..other.clone() }),
        canary_hook().prop_map(move |h| CanaryStep { hook: Some(h), ..third.clone() }),
    ]
    .boxed()
}

strategy! { canary_pause: CanaryPause {
    duration: maybe(0..=i32::MAX),
} }

strategy! { canary_hook: CanaryHook {
    template_name: label(),
    args: list(hook_step_argument()),
    timeout_seconds: maybe(1..=i32::MAX),
    on_failure: maybe(one_of(HookFailureAction::ALL)),
} }

strategy! { hook_step: HookStep {
    template_name: label(),
    args: list(hook_step_argument()),
} }

strategy! { hook_step_argument: HookStepArgument {
    name: text(),
    value: text(),
} }

// A stateful set requires the hook, a deployment does not; one strategy serves both.
strategy! { pod_hook_strategy: PodHookStrategy {
    hook: hook_step().prop_map(Some),
    retry: any::<Option<bool>>(),
} }

strategy! { in_place_update_strategy: InPlaceUpdateStrategy {
    grace_period_seconds: maybe(0..=i32::MAX),
} }

strategy! { game_deployment_status: GameDeploymentStatus {
    observed_generation: any::<Option<i64>>(),
    replicas: any::<i32>(),
    ready_replicas: any::<i32>(),
    available_replicas: any::<i32>(),
    updated_replicas: any::<i32>(),
    updated_ready_replicas: any::<i32>(),
    updated_available_replicas: any::<Option<i32>>(),
    expected_updated_replicas: any::<Option<i32>>(),
    current_revision: maybe(text()),
    update_revision: maybe(text()),
    collision_count: any::<Option<i32>>(),
    phase: maybe(text()),
    message: maybe(text()),
    conditions: conditions(),
    pause_conditions: list(pause_condition()),
    label_selector: maybe(text()),
    current_step_index: any::<Option<i32>>(),
    current_step_hash: maybe(text()),
    canary: maybe(game_canary_status()),
    pre_delete_hook_condition: list(pod_hook_condition()),
    pre_inplace_hook_condition: list(pod_hook_condition()),
    post_inplace_hook_condition: list(pod_hook_condition()),
} }

strategy! { game_condition: GameCondition {
    condition_type: text(),
    status: text(),
    last_transition_time: maybe(time()),
    reason: maybe(text()),
    message: maybe(text()),
} }

/// No two of one type.
fn conditions() -> BoxedStrategy<Vec<GameCondition>> {
    list(game_condition())
        .prop_map(|conditions| {
            let by_type = conditions.into_iter().map(|c| (c.condition_type.clone(), c));
            by_type.collect::<BTreeMap<_, _>>().into_values().collect()
        })
        .boxed()
}

strategy! { pause_condition: PauseCondition {
    reason: text(),
    start_time: time(),
} }

strategy! { game_canary_status: GameCanaryStatus {
    revision: maybe(text()),
    pause_start_time: maybe(time()),
    current_step_hook_run: maybe(text()),
    hook_blocked_since: maybe(time()),
} }

strategy! { pod_hook_condition: PodHookCondition {
    pod_name: text(),
    start_time: maybe(time()),
    phase: maybe(one_of(HookPhase::ALL)),
} }

strategy! { game_stateful_set: GameStatefulSet {
    metadata: metadata(),
    spec: game_stateful_set_spec(),
    status: maybe(game_stateful_set_status()),
} }

/// A selector that fits the template.
fn game_stateful_set_spec() -> BoxedStrategy<GameStatefulSetSpec> {
    (selected_template(), any_game_stateful_set_spec())
        .prop_map(|((selector, template), spec)| GameStatefulSetSpec { selector, template, ..spec })
        .boxed()
}

strategy! { any_game_stateful_set_spec: GameStatefulSetSpec {
    replicas: maybe(0..=i32::MAX),
    selector: Just(LabelSelector::default()),
    template: Just(PodTemplate::default()),
    service_name: text(),
    volume_claim_templates: list(volume_claim_template()),
    pod_management_policy: maybe(one_of(PodManagementPolicy::ALL)),
    update_strategy: maybe(game_stateful_set_update_strategy()),
    pre_delete_update_strategy: maybe(pod_hook_strategy()),
    pre_inplace_update_strategy: maybe(pod_hook_strategy()),
    post_inplace_update_strategy: maybe(pod_hook_strategy()),
    revision_history_limit: maybe(0..=i32::MAX),
    min_ready_seconds: maybe(0..=86400_i32),
} }

strategy! { game_stateful_set_update_strategy: GameStatefulSetUpdateStrategy {
    update_type: maybe(one_of(GameStatefulSetUpdateType::ALL)),
    rolling_update: maybe(rolling_update()),
    paused: any::<Option<bool>>(),
    canary: maybe(canary_strategy()),
    in_place_update_strategy: maybe(in_place_update_strategy()),
} }

strategy! { rolling_update: RollingUpdate {
    partition: maybe(pods()),
    max_unavailable: maybe(some_pods()),
    max_surge: maybe(pods()),
} }

strategy! { game_stateful_set_status: GameStatefulSetStatus {
    observed_generation: any::<Option<i64>>(),
    replicas: any::<i32>(),
    ready_replicas: any::<i32>(),
    current_replicas: any::<i32>(),
    updated_replicas: any::<i32>(),
    updated_ready_replicas: any::<i32>(),
    available_replicas: any::<Option<i32>>(),
    updated_available_replicas: any::<Option<i32>>(),
    expected_updated_replicas: any::<Option<i32>>(),
    phase: maybe(text()),
    message: maybe(text()),
    current_revision: maybe(text()),
    update_revision: maybe(text()),
    collision_count: any::<Option<i32>>(),
    conditions: conditions(),
    label_selector: maybe(text()),
    pause_conditions: list(pause_condition()),
    current_step_index: any::<Option<i32>>(),
    current_step_hash: maybe(text()),
    canary: maybe(game_canary_status()),
    pre_delete_hook_condition: list(pod_hook_condition()),
    pre_inplace_hook_condition: list(pod_hook_condition()),
    post_inplace_hook_condition: list(pod_hook_condition()),
} }

/// A pod template with undeclared members, and a selector that fits it in one of several ways.
fn selected_template() -> BoxedStrategy<(LabelSelector, PodTemplate)> {
    let requirement = |operator: &str, key: &str, values: Option<Vec<String>>| {
        LabelSelectorRequirement { key: key.to_owned(), operator: operator.to_owned(), values }
    };
    let extra = prop_oneof![
        Just(Value::Null),
        any::<i64>().prop_map(Value::from),
        text().prop_map(Value::from),
        list(text()).prop_map(Value::from),
    ];
    (0..4, label(), any::<bool>(), extra)
        .prop_map(move |(which, app, annotated, extra)| {
            let mut template = json!({
                "metadata": { "labels": { "app": app }, "creationTimestamp": null },
                "spec": { "containers": [{ "name": "a", "image": "b", "undeclared": extra }] },
                "undeclared": extra,
            });
            if annotated {
                template["metadata"]["annotations"] = json!({ "a": app });
            }
            let Value::Object(template) = template else { unreachable!("built as an object") };
            let labels = BTreeMap::from([("app".to_owned(), app.clone())]);
            let expression = match which {
                0 => None,
                1 => Some(requirement("In", "app", Some(vec![app]))),
                2 => Some(requirement("NotIn", "app", Some(vec!["-".to_owned()]))),
                _ => Some(requirement("DoesNotExist", "other", None)),
            };
            let selector = LabelSelector {
                match_labels: Some(labels),
                match_expressions: expression.map(|expression| vec![expression]),
            };
            (selector, PodTemplate(template))
        })
        .boxed()
}

fn volume_claim_template() -> BoxedStrategy<VolumeClaimTemplate> {
    let build = |(name, size)| {
        let mut claim = Map::new();
        claim.insert("metadata".to_owned(), json!({ "name": name, "undeclared": size }));
        claim
            .insert("spec".to_owned(), json!({ "resources": { "requests": { "storage": size } } }));
        VolumeClaimTemplate(claim)
    };
    (label(), text()).prop_map(build).boxed()
}

strategy! { hook_template: HookTemplate {
    metadata: metadata(),
    spec: hook_template_spec(),
} }

strategy! { hook_template_spec: HookTemplateSpec {
    metrics: hook_metrics(),
    args: list(hook_argument()),
    policy: maybe(one_of(HookPolicy::ALL)),
    deadline_seconds: maybe(1..=i32::MAX),
} }

strategy! { hook_run: HookRun {
    metadata: metadata(),
    spec: hook_run_spec(),
    status: maybe(hook_run_status()),
} }

strategy! { hook_run_spec: HookRunSpec {
    metrics: hook_metrics(),
    args: list(hook_argument()),
    terminate: any::<Option<bool>>(),
    policy: maybe(one_of(HookPolicy::ALL)),
    deadline_seconds: maybe(1..=i32::MAX),
} }

strategy! { hook_argument: HookArgument {
    name: text(),
    value: maybe(text()),
} }

/// At least one, no two of one name.
fn hook_metrics() -> BoxedStrategy<Vec<HookMetric>> {
    proptest::collection::vec(hook_metric(), 1..4)
        .prop_map(|mut metrics| {
            for (index, metric) in metrics.iter_mut().enumerate() {
                metric.name.push_str(&index.to_string());
            }
            metrics
        })
        .boxed()
}

/// Limits that fit the count, and an interval where one is needed.
fn hook_metric() -> BoxedStrategy<HookMetric> {
    (any_hook_metric(), duration())
        .prop_map(|(mut metric, interval)| {
            if let Some(count) = metric.count.filter(|count| *count > 0) {
                let within = |limit: Option<i32>| limit.map(|limit| limit.min(count));
                metric.failure_limit = within(metric.failure_limit);
                metric.successful_limit = within(metric.successful_limit);
                metric.inconclusive_limit = within(metric.inconclusive_limit);
                metric.interval =
                    Some(if interval.is_empty() { "1s".to_owned() } else { interval });
            }
            metric
        })
        .boxed()
}

strategy! { any_hook_metric: HookMetric {
    name: text(),
    interval: maybe(duration()),
    initial_delay: maybe(duration()),
    count: any::<Option<i32>>(),
    success_condition: maybe(text()),
    failure_condition: maybe(text()),
    failure_limit: maybe(0..=i32::MAX),
    successful_limit: maybe(0..=i32::MAX),
    inconclusive_limit: maybe(0..=i32::MAX),
    consecutive_error_limit: maybe(0..=i32::MAX),
    consecutive_successful_limit: maybe(1..=i32::MAX),
    provider: hook_provider(),
} }

fn hook_provider() -> BoxedStrategy<HookProvider> {
    let none = HookProvider { web: None, prometheus: None, kubernetes: None };
    let (base, other, third) = (none.clone(), none.clone(), none);
    prop_oneof![
        web().prop_map(move |w| HookProvider { web: Some(w), ..base.clone() }),
        prometheus().prop_map(move |p| HookProvider { prometheus: Some(p), ..other.clone() }),
        kubernetes().prop_map(move |k| HookProvider { kubernetes: Some(k), ..third.clone() }),
    ]
    .boxed()
}

strategy! { web: WebProvider {
    url: text(),
    json_path: text(),
    headers: list(web_header()),
    timeout_seconds: any::<Option<i32>>(),
    method: Just(Some(WebMethod::Post)),
    body: maybe(text()),
    insecure_skip_verify: any::<Option<bool>>(),
    secret_ref: maybe(hook_secret()),
} }

strategy! { hook_secret: HookSecretRef {
    name: label(),
} }

strategy! { web_header: WebHeader {
    key: text(),
    value: text(),
} }

strategy! { prometheus: PrometheusProvider {
    address: text(),
    query: text(),
    headers: list(web_header()),
    timeout_seconds: any::<Option<i32>>(),
    insecure_skip_verify: any::<Option<bool>>(),
    secret_ref: maybe(hook_secret()),
} }

strategy! { kubernetes: KubernetesProvider {
    function: one_of(KubernetesFunction::ALL),
    fields: proptest::collection::vec(kubernetes_field(), 1..3),
} }

strategy! { kubernetes_field: KubernetesField {
    path: label(),
    value: text(),
} }

strategy! { hook_run_status: HookRunStatus {
    phase: maybe(one_of(HookPhase::ALL)),
    message: maybe(text()),
    started_at: maybe(time()),
    completed_at: maybe(time()),
    metric_results: list(metric_result()),
} }

strategy! { metric_result: MetricResult {
    name: text(),
    phase: maybe(one_of(HookPhase::ALL)),
    message: maybe(text()),
    measurements: list(measurement()),
    count: any::<i32>(),
    successful: any::<i32>(),
    failed: any::<i32>(),
    inconclusive: any::<i32>(),
    error: any::<i32>(),
    consecutive_error: any::<i32>(),
    consecutive_successful: any::<i32>(),
} }

strategy! { measurement: Measurement {
    phase: maybe(one_of(HookPhase::ALL)),
    message: maybe(text()),
    started_at: maybe(time()),
    finished_at: maybe(time()),
    resume_at: maybe(time()),
    value: maybe(text()),
} }
