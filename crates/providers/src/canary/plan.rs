//! Translates the spec into the engine's plan, and lists the errors in it.
//!
//! A field that the provider cannot carry out becomes a note in the plan; an error blocks the canary.

use crate::{
    metrics::limits,
    traffic::{Affinity, Impossible, Mesh, RouteFields},
};
use tidegate_api::canary::{
    Canary, CanarySpec, CrossNamespace, Provider, Strategy as Asked, TargetKind,
    analysis::{ObjectRef, Webhook, WebhookType},
};
use tidegate_engine::{
    Hooks, ManualStep, Note, Percent, Plan, Steps, Stickiness, Strategy, Traffic,
};

/// Checks of a rollout that was meant to go by weight where weights are impossible; as Flagger.
const ITERATIONS_INSTEAD: u32 = 10;

/// The plan of a spec.
pub fn plan(spec: &CanarySpec, mesh: Mesh) -> Plan {
    let analysis = &spec.analysis;
    let capabilities = mesh.capabilities(spec);
    let mut notes = Vec::new();
    let (strategy, iterations) = strategy(spec, mesh, &mut notes);
    let mirror = analysis.mirror == Some(true) && capabilities.mirror;
    // Plain Services have a note of their own about conditions.
    let is_noted = |it: &&Impossible| mesh == Mesh::Kubernetes && it.field == "spec.analysis.match";
    let ignored = mesh.ignored(spec);
    let ignored = ignored.iter().filter(|it| !is_noted(it));
    notes.extend(ignored.map(|it| Note::Ignored(it.to_string())));
    notes.extend(metric_warnings(spec));
    notes.extend(unverified_hooks(spec));
    let max = Percent::clamped(analysis.max_weight());
    let traffic = if capabilities.switched { Traffic::Divisible } else { Traffic::Whole };
    let manual = spec.manual_step.as_ref().map(|step| ManualStep {
        weight: step.weight.unwrap_or(0),
        resume: step.resume.unwrap_or(false),
    });
    if let Some(step) = manual.filter(|step| !step.resume) {
        if strategy != Strategy::Weighted {
            notes.push(Note::ManualStepIgnored);
        } else if step.weight > max.into() {
            notes.push(Note::ManualStepBeyondMax { weight: step.weight, max });
        }
    }
    Plan {
        strategy,
        traffic,
        steps: steps(spec),
        max,
        // Traffic that cannot be divided returns at once.
        promotion_step: match analysis.step_weight_promotion {
            Some(step) if capabilities.weighted => step.max(0),
            Some(_) | None => 0,
        },
        iterations,
        mirror,
        threshold: count(analysis.threshold()),
        interval: analysis.interval(),
        deadline: std::time::Duration::from_secs(count(spec.progress_deadline_s().into()).into()),
        skip: spec.skips_analysis(),
        suspended: spec.is_suspended(),
        // A route that outlives the canary must not lead to Services that do not.
        revert: spec.revert_on_deletion == Some(true) || mesh.outlives(spec),
        manual,
        hooks: hooks(&analysis.webhooks),
        stickiness: stickiness(spec, capabilities.affinity),
        scaled: spec.autoscaler_ref.is_some(),
        notes,
    }
}

/// Warnings about metrics, for canaries that are analysed.
fn metric_warnings(spec: &CanarySpec) -> Vec<Note> {
    if spec.skips_analysis() {
        return Vec::new();
    }
    let metrics = spec.analysis.metrics.iter();
    let metric_warnings = metrics.flat_map(|metric| {
        let name = &metric.name;
        limits::warnings(metric).into_iter().map(move |doubt| format!("Metric {name} {doubt}."))
    });
    metric_warnings.map(Note::Doubtful).collect()
}

/// Hooks whose certificates are not verified.
fn unverified_hooks(spec: &CanarySpec) -> Vec<Note> {
    let hooks = spec.analysis.webhooks.iter().filter(|hook| hook.disable_tls == Some(true));
    let said = hooks.map(|hook| {
        let name = &hook.name;
        format!(
            "Webhook {name} has disableTLS: its certificate is not verified, so an impostor can answer it and read its requests."
        )
    });
    said.map(Note::Unverified).collect()
}

/// Templates, by the metric that refers to them, whose servers' certificates are not verified.
pub fn unverified_templates(
    spec: &CanarySpec,
    is_unverified: impl Fn(&ObjectRef) -> bool,
) -> Vec<Note> {
    let metrics = spec.analysis.metrics.iter().filter(|metric| {
        !spec.skips_analysis() && metric.template_ref.as_ref().is_some_and(&is_unverified)
    });
    let said = metrics.map(|metric| {
        let name = &metric.name;
        format!(
            "The template of metric {name} has insecureSkipVerify: an impostor of its server can answer it and read its credentials."
        )
    });
    said.map(Note::Unverified).collect()
}

fn strategy(spec: &CanarySpec, mesh: Mesh, notes: &mut Vec<Note>) -> (Strategy, u32) {
    let iterations = count(spec.analysis.iterations.unwrap_or(0));
    let asked = spec.analysis.strategy();
    if mesh != Mesh::Kubernetes {
        let strategy = match asked {
            Asked::Canary => Strategy::Weighted,
            Asked::AbTesting => Strategy::AbTesting,
            Asked::BlueGreen => Strategy::BlueGreen,
        };
        return (strategy, iterations);
    }
    if !spec.analysis.matches.is_empty() {
        notes.push(Note::MatchIgnored);
    }
    if iterations > 0 {
        return (Strategy::BlueGreen, iterations);
    }
    notes.push(Note::WeightsIgnored { iterations: ITERATIONS_INSTEAD });
    (Strategy::BlueGreen, ITERATIONS_INSTEAD)
}

/// Whether clients are kept on their side: if the provider can, and the user wants that.
fn stickiness(spec: &CanarySpec, ability: Affinity) -> Stickiness {
    let Some(asked) = &spec.analysis.session_affinity else { return Stickiness::None };
    let asks_both = asked.primary_cookie_name.as_deref().is_some_and(|name| !name.is_empty());
    match ability {
        Affinity::None => Stickiness::None,
        Affinity::Both if asks_both => Stickiness::Both,
        Affinity::Both => Stickiness::Canary,
    }
}

fn steps(spec: &CanarySpec) -> Steps {
    match (&spec.analysis.step_weight, &spec.analysis.step_weights) {
        (None | Some(..=0), Some(list)) if !list.is_empty() => Steps::List(list.clone()),
        (step, _) => Steps::By(step.unwrap_or(0)),
    }
}

fn hooks(webhooks: &[Webhook]) -> Hooks {
    let has = |kind: WebhookType| webhooks.iter().any(|hook| hook.hook_type() == kind);
    Hooks {
        confirm_rollout: has(WebhookType::ConfirmRollout),
        pre_rollout: has(WebhookType::PreRollout),
        confirm_traffic_increase: has(WebhookType::ConfirmTrafficIncrease),
        confirm_promotion: has(WebhookType::ConfirmPromotion),
        post_rollout: has(WebhookType::PostRollout),
        rollback: has(WebhookType::Rollback),
    }
}

/// All errors in the spec.
///
/// Nothing is begun with an invalid spec. But a rollout whose spec is edited into an invalid one, or that was
/// begun by a controller that ignored the error, must not stand still with its share: of such a rollout only
/// errors are listed that it cannot continue with. A blocked route and a missing step are found by the engine.
pub fn spec_errors(canary: &Canary, mesh: Mesh, cross_namespace: CrossNamespace) -> Vec<String> {
    let spec = &canary.spec;
    let usual = (mesh == Mesh::Knative).then_some(Provider::Knative);
    let found = canary.problems(usual, cross_namespace);
    let mut errors: Vec<String> = found.iter().map(ToString::to_string).collect();
    match &spec.target_ref.kind {
        TargetKind::Deployment | TargetKind::DaemonSet | TargetKind::Service => {}
        kind @ TargetKind::Other(_) => errors.push(format!(
            "spec.targetRef.kind: {} cannot be released; use a Deployment, a DaemonSet or a Service",
            kind.as_str()
        )),
    }
    // The requirements of Knative are checked above.
    let is_service = spec.target_ref.kind == TargetKind::Service && !spec.target_ref.is_knative();
    if is_service && spec.autoscaler_ref.is_some() {
        let why = "spec.autoscalerRef: not possible for a Service, which has no replicas";
        errors.push(why.to_owned());
    }
    errors.extend(unreachable(spec, mesh).into_iter().map(str::to_owned));
    let is_under_way = canary.status.as_ref().is_some_and(|it| it.phase.is_under_way());
    if !is_under_way {
        errors.extend(mesh.impossible(spec).iter().map(ToString::to_string));
        let route = mesh.kinds_for(spec).into_iter().next();
        let fields = route.map(RouteFields::assumed).unwrap_or_default();
        errors.extend(mesh.unusable_texts(spec, fields).iter().map(ToString::to_string));
        if leads_nowhere(spec, mesh) {
            errors.push(match spec.analysis.iterations {
                Some(count) if spec.analysis.step_weight.is_none() => format!(
                    "spec.analysis.iterations: {count} is no rollout; set 1 or more, or a stepWeight"
                ),
                Some(_) | None => "spec.analysis.stepWeight: must be greater than 0".to_owned(),
            });
        }
        errors.extend(unreachable_thresholds(spec));
    }
    errors
}

/// Shares of ready pods that no workload reaches.
fn unreachable_thresholds(spec: &CanarySpec) -> Vec<String> {
    let analysis = &spec.analysis;
    let thresholds = [
        ("primaryReadyThreshold", "primary", analysis.primary_ready_threshold()),
        ("canaryReadyThreshold", "canary", analysis.canary_ready_threshold()),
    ];
    let beyond = thresholds.into_iter().filter(|(_, _, percent)| *percent > 100);
    let errors = beyond.map(|(field, side, percent)| {
        format!("spec.analysis.{field}: {percent} is above 100, so the {side} would never be ready")
    });
    errors.collect()
}

/// Whether a rollout by weight has no step to take.
fn leads_nowhere(spec: &CanarySpec, mesh: Mesh) -> bool {
    let is_by_weight = spec.analysis.strategy() == Asked::Canary && mesh != Mesh::Kubernetes;
    match steps(spec) {
        Steps::By(0) => is_by_weight,
        Steps::By(step) => step < 0,
        Steps::List(_) => false,
    }
}

/// Why the workload cannot be reached. A Service as target is the apex; its pods are unknown.
fn unreachable(spec: &CanarySpec, mesh: Mesh) -> Vec<&'static str> {
    let mut errors = Vec::new();
    if spec.target_ref.is_knative() {
        return errors;
    }
    if spec.service.is_none() {
        errors.push("spec.service: needed to reach the workload; set at least its port");
    }
    if spec.target_ref.kind != TargetKind::Service {
        return errors;
    }
    if spec.apex_name() != spec.target_ref.name {
        errors.push("spec.service.name: a Service as target is what clients use; leave it out");
    }
    match mesh {
        Mesh::Kubernetes => errors.push(
            "spec.provider: a Service as target needs one that divides traffic between its copies",
        ),
        // Requests that are not the canary's follow the user's Ingress to the apex.
        Mesh::Nginx | Mesh::Skipper => errors.push(
            "spec.provider: with this one the primary is reached through your Ingress, which leads \
             to the target itself; a Service as target needs one that divides traffic between its \
             copies",
        ),
        _ => {}
    }
    errors
}

fn count(number: i64) -> u32 {
    u32::try_from(number.max(0)).unwrap_or(u32::MAX)
}
