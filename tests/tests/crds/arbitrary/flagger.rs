//! Strategies for `Canary`, `MetricTemplate` and `AlertProvider`.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use proptest::prelude::*;
use tidegate_api::{
    AlertProvider, Canary, MetricTemplate,
    alert_provider::{AlertProviderSpec, AlertProviderType},
    canary::{
        Analysis, AutoscalerKind, AutoscalerRef, CanaryPhase, CanarySpec, CanaryStatus,
        IngressKind, IngressRef, ManualStep, Provider, RouteKind, RouteRef, ScalerReplicas,
        Service, TargetKind, TargetRef, UpstreamKind, UpstreamRef,
        analysis::{
            Alert, AlertSeverity, AnalysisMatch, AnalysisMetric, HeaderMatch, ObjectRef, OnNoData,
            SameSite, SessionAffinity, ThresholdRange, Webhook, WebhookType,
        },
        service::{
            BackendRef, CorsPolicy, CustomMetadata, GatewayRef, HeaderOperations, Headers,
            HttpMatch, OriginMatch, RequestMirror, Retries, Rewrite, StringMatch,
            TrafficDistribution, UnmanagedMetadata,
        },
        status::{
            CanaryCondition, CheckResult, LastDecision, ManualPause, RolloutMemory, RouteMemory,
            TargetMemory,
        },
        traffic_policy::{
            ConnectionPool, ConsistentHash, H2UpgradePolicy, HashCookie, HttpPool, LoadBalancer,
            LocalityDistribution, LocalityFailover, LocalitySetting, OutlierDetection,
            SimpleBalancer, Tls, TlsMode, TrafficPolicy,
        },
    },
    metric_template::{MetricProvider, MetricProviderType, MetricTemplateSpec, SecretRef},
};

use super::{
    fraction, interval, label, list, map, maybe, metadata, one_of, pair_names, pairs, strategy,
    text, texts, time,
};

strategy! { canary: Canary {
    metadata: metadata(),
    spec: canary_spec(),
    status: maybe(canary_status()),
} }

strategy! { canary_spec: CanarySpec {
    provider: maybe(one_of(Provider::ALL)),
    metrics_server: maybe(text()),
    progress_deadline_seconds: maybe(any::<i32>()),
    target_ref: target_ref(),
    autoscaler_ref: maybe(autoscaler_ref()),
    ingress_ref: maybe(ingress_ref()),
    route_ref: maybe(route_ref()),
    upstream_ref: maybe(upstream_ref()),
    service: maybe(service()),
    analysis: analysis(),
    skip_analysis: any::<Option<bool>>(),
    revert_on_deletion: any::<Option<bool>>(),
    suspend: any::<Option<bool>>(),
    manual_step: maybe(manual_step()),
} }

strategy! { target_ref: TargetRef {
    api_version: text(),
    kind: one_of(TargetKind::ALL),
    name: text(),
} }

strategy! { autoscaler_ref: AutoscalerRef {
    api_version: text(),
    kind: one_of(AutoscalerKind::ALL),
    name: text(),
    primary_scaler_queries: texts(),
    primary_scaler_replicas: maybe(scaler_replicas()),
} }

strategy! { scaler_replicas: ScalerReplicas {
    min_replicas: maybe(1..=i32::MAX),
    max_replicas: maybe(1..=i32::MAX),
} }

strategy! { ingress_ref: IngressRef {
    api_version: text(),
    kind: one_of(IngressKind::ALL),
    name: text(),
} }

strategy! { route_ref: RouteRef {
    // The schema wants this group for some kinds, and any for the others.
    api_version: text().prop_map(|version| format!("gateway.networking.k8s.io/{version}")),
    kind: one_of(RouteKind::ALL),
    name: text(),
} }

strategy! { upstream_ref: UpstreamRef {
    api_version: text(),
    kind: one_of(UpstreamKind::ALL),
    name: text(),
    namespace: maybe(text()),
} }

strategy! { manual_step: ManualStep {
    weight: maybe(0..=100_i64),
    resume: any::<Option<bool>>(),
} }

strategy! { service: Service {
    name: maybe(text()),
    port: any::<i32>(),
    port_name: maybe(text()),
    app_protocol: maybe(text()),
    target_port: maybe(prop_oneof![
        any::<i32>().prop_map(IntOrString::Int),
        text().prop_map(IntOrString::String),
    ]),
    port_discovery: any::<Option<bool>>(),
    headless: any::<Option<bool>>(),
    switch_apex: any::<Option<bool>>(),
    traffic_distribution: maybe(one_of(TrafficDistribution::ALL)),
    timeout: maybe(text()),
    backend_timeout: maybe(text()),
    gateways: list(text()),
    gateway_refs: list(gateway_ref()),
    hosts: list(text()),
    delegation: any::<Option<bool>>(),
    traffic_policy: maybe(traffic_policy()),
    matches: list(http_match()),
    rewrite: maybe(rewrite()),
    retries: maybe(retries()),
    headers: maybe(headers()),
    mirror: list(backend_ref().prop_map(|backend_ref| RequestMirror { backend_ref })),
    cors_policy: maybe(cors_policy()),
    mesh_name: maybe(text()),
    backends: list(text()),
    apex: maybe(custom_metadata()),
    primary: maybe(custom_metadata()),
    canary: maybe(custom_metadata()),
    unmanaged_metadata: maybe(unmanaged_metadata()),
} }

strategy! { gateway_ref: GatewayRef {
    group: maybe(prop_oneof![Just(String::new()), label()]),
    kind: maybe("[A-Z][a-z]{0,8}"),
    name: "[ -~]{1,12}",
    namespace: maybe(label()),
    section_name: maybe(label()),
    port: maybe(1..=65535_i32),
} }

// A Service needs a port, so there always is one.
strategy! { backend_ref: BackendRef {
    group: maybe(prop_oneof![Just(String::new()), label()]),
    kind: maybe("[A-Z][a-z]{0,8}"),
    name: "[ -~]{1,12}",
    namespace: maybe(label()),
    port: (1..=65535_i32).prop_map(Some),
} }

strategy! { http_match: HttpMatch {
    name: maybe(text()),
    uri: maybe(string_match()),
    ignore_uri_case: any::<Option<bool>>(),
    scheme: maybe(string_match()),
    method: maybe(string_match()),
    authority: maybe(string_match()),
    headers: map(string_match()),
    without_headers: map(string_match()),
    query_params: map(string_match()),
    port: any::<Option<u32>>(),
    source_labels: texts(),
    source_namespace: maybe(text()),
    gateways: list(text()),
} }

fn string_match() -> BoxedStrategy<StringMatch> {
    let none = StringMatch { exact: None, prefix: None, regex: None };
    let base = none.clone();
    let one = (0..3, text()).prop_map(move |(which, text)| match which {
        0 => StringMatch { exact: Some(text), ..base.clone() },
        1 => StringMatch { prefix: Some(text), ..base.clone() },
        _ => StringMatch { regex: Some(text), ..base.clone() },
    });
    prop_oneof![1 => Just(none), 3 => one].boxed()
}

fn header_match() -> BoxedStrategy<HeaderMatch> {
    let none = HeaderMatch { exact: None, prefix: None, suffix: None, regex: None };
    let one = (0..4, text()).prop_map(move |(which, text)| match which {
        0 => HeaderMatch { exact: Some(text), ..none.clone() },
        1 => HeaderMatch { prefix: Some(text), ..none.clone() },
        2 => HeaderMatch { suffix: Some(text), ..none.clone() },
        _ => HeaderMatch { regex: Some(text), ..none.clone() },
    });
    one.boxed()
}

fn origin_match() -> BoxedStrategy<OriginMatch> {
    let none = OriginMatch { exact: None, prefix: None, regex: None };
    let one = (0..3, text()).prop_map(move |(which, text)| match which {
        0 => OriginMatch { exact: Some(text), ..none.clone() },
        1 => OriginMatch { prefix: Some(text), ..none.clone() },
        _ => OriginMatch { regex: Some(text), ..none.clone() },
    });
    one.boxed()
}

strategy! { rewrite: Rewrite {
    uri: maybe(text()),
    authority: maybe(text()),
    rewrite_type: maybe(text()),
} }

strategy! { retries: Retries {
    attempts: any::<Option<i32>>(),
    per_try_timeout: maybe(text()),
    retry_on: maybe(text()),
} }

strategy! { headers: Headers {
    request: maybe(header_operations()),
    response: maybe(header_operations()),
} }

strategy! { header_operations: HeaderOperations {
    add: texts(),
    set: texts(),
    remove: list(text()),
} }

strategy! { cors_policy: CorsPolicy {
    allow_credentials: any::<Option<bool>>(),
    allow_headers: list(text()),
    allow_methods: list(text()),
    allow_origin: list(text()),
    allow_origins: list(origin_match()),
    expose_headers: list(text()),
    max_age: maybe(text()),
} }

strategy! { custom_metadata: CustomMetadata {
    labels: texts(),
    annotations: texts(),
} }

strategy! { unmanaged_metadata: UnmanagedMetadata {
    labels: list(text()),
    annotations: list(text()),
} }

strategy! { traffic_policy: TrafficPolicy {
    connection_pool: maybe(connection_pool()),
    load_balancer: maybe(load_balancer()),
    outlier_detection: maybe(outlier_detection()),
    tls: maybe(tls()),
} }

strategy! { connection_pool: ConnectionPool {
    http: maybe(http_pool()),
} }

strategy! { http_pool: HttpPool {
    h2_upgrade_policy: maybe(one_of(H2UpgradePolicy::ALL)),
    http1_max_pending_requests: any::<Option<i32>>(),
    http2_max_requests: any::<Option<i32>>(),
    idle_timeout: maybe(text()),
    max_requests_per_connection: any::<Option<i32>>(),
    max_retries: any::<Option<i32>>(),
} }

fn load_balancer() -> BoxedStrategy<LoadBalancer> {
    let simple = one_of(SimpleBalancer::ALL).prop_map(|simple| (Some(simple), None));
    let hash = consistent_hash().prop_map(|hash| (None, Some(hash)));
    let rest = (maybe(locality_setting()), maybe(text()));
    let build = |((simple, consistent_hash), (locality_lb_setting, warmup_duration_secs))| {
        LoadBalancer { simple, consistent_hash, locality_lb_setting, warmup_duration_secs }
    };
    (prop_oneof![simple, hash], rest).prop_map(build).boxed()
}

fn consistent_hash() -> BoxedStrategy<ConsistentHash> {
    // The ring size travels as a signed number of 64 bits.
    let ring = maybe(0..=i64::MAX.unsigned_abs());
    let fields = (0..4, text(), hash_cookie(), any::<bool>(), ring);
    let build = |(which, text, cookie, source, minimum_ring_size)| ConsistentHash {
        http_header_name: (which == 0).then(|| String::clone(&text)),
        http_cookie: (which == 1).then_some(cookie),
        use_source_ip: (which == 2).then_some(source),
        http_query_parameter_name: (which == 3).then_some(text),
        minimum_ring_size,
    };
    fields.prop_map(build).boxed()
}

strategy! { hash_cookie: HashCookie {
    name: maybe(text()),
    path: maybe(text()),
    ttl: maybe(text()),
} }

strategy! { locality_setting: LocalitySetting {
    enabled: any::<Option<bool>>(),
    distribute: list(locality_distribution()),
    failover: list(locality_failover()),
} }

strategy! { locality_distribution: LocalityDistribution {
    from: maybe(text()),
    to: map(any::<u32>()),
} }

strategy! { locality_failover: LocalityFailover {
    from: maybe(text()),
    to: maybe(text()),
} }

strategy! { outlier_detection: OutlierDetection {
    base_ejection_time: maybe(text()),
    consecutive_5xx_errors: any::<Option<u32>>(),
    consecutive_errors: any::<Option<i32>>(),
    consecutive_gateway_errors: any::<Option<i32>>(),
    consecutive_local_origin_failures: any::<Option<i32>>(),
    interval: maybe(text()),
    max_ejection_percent: any::<Option<i32>>(),
    min_health_percent: any::<Option<i32>>(),
    split_external_local_origin_errors: any::<Option<bool>>(),
} }

strategy! { tls: Tls {
    mode: maybe(one_of(TlsMode::ALL)),
    ca_certificates: maybe(text()),
    client_certificate: maybe(text()),
    private_key: maybe(text()),
    sni: maybe(text()),
    subject_alt_names: list(text()),
} }

/// Exactly one of `iterations`, `stepWeight` and `stepWeights`.
fn analysis() -> BoxedStrategy<Analysis> {
    let choice = (0..3, any::<i64>(), proptest::collection::vec(any::<i64>(), 0..5));
    (choice, any_analysis())
        .prop_map(|((which, number, weights), analysis)| Analysis {
            iterations: (which == 0).then_some(number),
            step_weight: (which == 1).then_some(number),
            step_weights: (which == 2).then_some(weights),
            ..analysis
        })
        .boxed()
}

strategy! { any_analysis: Analysis {
    interval: interval().prop_map(Some),
    threshold: any::<i64>().prop_map(Some),
    iterations: Just(None),
    max_weight: any::<Option<i64>>(),
    step_weight: Just(None),
    step_weights: Just(None),
    step_weight_promotion: any::<Option<i64>>(),
    mirror: any::<Option<bool>>(),
    mirror_weight: any::<Option<i64>>(),
    primary_ready_threshold: any::<Option<i64>>(),
    canary_ready_threshold: any::<Option<i64>>(),
    matches: list(analysis_match()),
    metrics: list(analysis_metric()),
    alerts: list(alert()),
    webhooks: list(webhook()),
    session_affinity: maybe(session_affinity()),
} }

strategy! { analysis_match: AnalysisMatch {
    headers: map(header_match()),
    query_params: map(string_match()),
    source_labels: texts(),
} }

strategy! { analysis_metric: AnalysisMetric {
    name: text(),
    interval: maybe(interval()),
    threshold: maybe(fraction()),
    threshold_range: maybe(threshold_range()),
    query: maybe(text()),
    template_ref: maybe(object_ref()),
    template_variables: texts(),
    on_no_data: maybe(one_of(OnNoData::ALL)),
} }

strategy! { threshold_range: ThresholdRange {
    min: maybe(fraction()),
    max: maybe(fraction()),
} }

strategy! { object_ref: ObjectRef {
    name: text(),
    namespace: maybe(text()),
} }

strategy! { alert: Alert {
    name: text(),
    severity: maybe(one_of(AlertSeverity::ALL)),
    provider_ref: object_ref(),
} }

strategy! { webhook: Webhook {
    name: text(),
    hook_type: maybe(one_of(WebhookType::ALL)),
    url: text(),
    mute_alert: any::<Option<bool>>(),
    timeout: maybe(interval()),
    retries: any::<Option<i64>>(),
    disable_tls: any::<Option<bool>>(),
    metadata: texts(),
} }

strategy! { session_affinity: SessionAffinity {
    cookie_name: text(),
    primary_cookie_name: maybe(text()),
    max_age: any::<Option<i64>>(),
    domain: maybe(text()),
    path: maybe(text()),
    http_only: any::<Option<bool>>(),
    partitioned: any::<Option<bool>>(),
    secure: any::<Option<bool>>(),
    same_site: maybe(one_of(SameSite::ALL)),
} }

strategy! { canary_status: CanaryStatus {
    phase: one_of(CanaryPhase::ALL),
    failed_checks: any::<i64>(),
    canary_weight: any::<i64>(),
    iterations: any::<i64>(),
    tracked_configs: maybe(texts()),
    last_applied_spec: maybe(text()),
    last_promoted_spec: maybe(text()),
    last_transition_time: maybe(time()),
    session_affinity_cookie: maybe(text()),
    previous_session_affinity_cookie: maybe(text()),
    primary_session_affinity_cookie: maybe(text()),
    conditions: list(canary_condition()),
    manual_pause: maybe(manual_pause()),
    observed_generation: maybe(any::<i64>()),
    last_decision: maybe(last_decision()),
    rollout: maybe(rollout_memory()),
} }

strategy! { last_decision: LastDecision {
    time: maybe(time()),
    reason: text(),
    message: text(),
    checks: list(check_result()),
    next: maybe(time()),
} }

strategy! { check_result: CheckResult {
    name: text(),
    value: text(),
    min: maybe(text()),
    max: maybe(text()),
    passed: any::<bool>(),
} }

strategy! { rollout_memory: RolloutMemory {
    prepared: any::<bool>(),
    rescue: any::<bool>(),
    untold: maybe(text()),
    trouble_since: maybe(time()),
    no_data_since: maybe(time()),
    canary_lacking_since: maybe(time()),
    primary_lacking_since: maybe(time()),
    primary_revision: maybe(text()),
    target: maybe(target_memory()),
    provider: maybe(text()),
    route: maybe(route_memory()),
} }

strategy! { target_memory: TargetMemory {
    api_version: text(),
    kind: text(),
    name: text(),
} }

strategy! { route_memory: RouteMemory {
    provider: text(),
    kind: text(),
    name: text(),
    service: text(),
} }

strategy! { canary_condition: CanaryCondition {
    condition_type: text(),
    status: text(),
    reason: text(),
    message: maybe(text()),
    last_update_time: maybe(time()),
    last_transition_time: maybe(time()),
} }

strategy! { manual_pause: ManualPause {
    weight: any::<i64>(),
    since: maybe(time()),
} }

strategy! { metric_template: MetricTemplate {
    metadata: metadata(),
    spec: metric_template_spec(),
} }

strategy! { metric_template_spec: MetricTemplateSpec {
    provider: metric_provider(),
    query: text(),
} }

strategy! { metric_provider: MetricProvider {
    provider_type: one_of(MetricProviderType::ALL),
    address: maybe(text()),
    headers: map(list(text())),
    secret_ref: maybe(secret_ref()),
    region: maybe(text()),
    insecure_skip_verify: any::<Option<bool>>(),
} }

strategy! { secret_ref: SecretRef {
    name: text(),
} }

strategy! { alert_provider: AlertProvider {
    metadata: metadata(),
    spec: alert_provider_spec(),
} }

/// Either an address or a Secret.
fn alert_provider_spec() -> BoxedStrategy<AlertProviderSpec> {
    (any::<bool>(), any_alert_provider_spec())
        .prop_map(|(secret, spec)| {
            if secret {
                AlertProviderSpec { address: None, ..spec }
            } else {
                AlertProviderSpec { secret_ref: None, ..spec }
            }
        })
        .boxed()
}

strategy! { any_alert_provider_spec: AlertProviderSpec {
    provider_type: one_of(AlertProviderType::ALL),
    channel: maybe(text()),
    username: maybe(text()),
    address: text().prop_map(Some),
    proxy: maybe(text()),
    secret_ref: secret_ref().prop_map(Some),
} }
