//! The user's spec, as the engine's plan; and everything in it that cannot be done.

use tidegate_api::canary::{
    Canary, CanaryPhase, CanarySpec, CrossNamespace, Provider, Strategy as Asked, TargetKind,
    analysis::{Webhook, WebhookType},
};
use tidegate_engine::{
    Hooks, ManualStep, Note, Percent, Plan, Steps, Stickiness, Strategy, Traffic,
};
use tidegate_providers::{
    metrics::limits,
    traffic::{Affinity, Mesh},
};

/// Checks of a rollout that was meant to go by weight where weights are impossible; as Flagger.
const ITERATIONS_INSTEAD: u32 = 10;

/// What the engine needs of a spec.
pub(super) fn plan(spec: &CanarySpec, mesh: Mesh) -> Plan {
    let analysis = &spec.analysis;
    let capabilities = mesh.capabilities(spec);
    let mut notes = Vec::new();
    let (strategy, iterations) = strategy(spec, mesh, &mut notes);
    let mut mirror = analysis.mirror == Some(true);
    if mirror && !capabilities.mirror {
        notes.push(Note::MirrorIgnored);
        mirror = false;
    }
    if analysis.session_affinity.is_some() && capabilities.affinity == Affinity::None {
        let why = "sessionAffinity has no effect here: it needs a rollout by weight over HTTP.";
        notes.push(Note::Other(why.to_owned()));
    }
    // Plain Services have a note of their own.
    let ignored = mesh.ignored(spec).into_iter().filter(|it| it.field == "spec.analysis.match");
    notes
        .extend(ignored.filter(|_| mesh != Mesh::Kubernetes).map(|it| Note::Other(it.to_string())));
    notes.extend(doubts(spec));
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
        // What cannot be divided goes back at once.
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
        // What outlives the canary must not lead to Services that do not.
        revert: spec.revert_on_deletion == Some(true) || mesh.outlives(spec),
        manual,
        hooks: hooks(&analysis.webhooks),
        stickiness: stickiness(spec, capabilities.affinity),
        scaled: spec.autoscaler_ref.is_some(),
        notes,
    }
}

/// What the authors of metrics should know about them. Where nothing is analysed nobody is bothered.
fn doubts(spec: &CanarySpec) -> Vec<Note> {
    if spec.skips_analysis() {
        return Vec::new();
    }
    let metrics = spec.analysis.metrics.iter();
    let doubts = metrics.flat_map(|metric| {
        let name = &metric.name;
        limits::warnings(metric).into_iter().map(move |doubt| format!("Metric {name} {doubt}."))
    });
    doubts.map(Note::Doubtful).collect()
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

/// Where the provider can keep clients on their side, and the user wants that.
fn stickiness(spec: &CanarySpec, ability: Affinity) -> Stickiness {
    let Some(asked) = &spec.analysis.session_affinity else { return Stickiness::None };
    let asks_both = asked.primary_cookie_name.as_deref().is_some_and(|name| !name.is_empty());
    match ability {
        Affinity::None => Stickiness::None,
        Affinity::Both if asks_both => Stickiness::Both,
        Affinity::Canary | Affinity::Both => Stickiness::Canary,
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

/// Everything in the spec that keeps the canary from being acted upon.
pub(super) fn problems(
    canary: &Canary,
    mesh: Mesh,
    cross_namespace: CrossNamespace,
) -> Vec<String> {
    let spec = &canary.spec;
    let usual = (mesh == Mesh::Knative).then_some(Provider::Knative);
    let found = canary.problems(usual, cross_namespace);
    let mut problems: Vec<String> = found.iter().map(ToString::to_string).collect();
    match &spec.target_ref.kind {
        TargetKind::Deployment | TargetKind::DaemonSet => {}
        TargetKind::Service if spec.target_ref.is_knative() => {
            problems.push("spec.targetRef: a Service of Knative is not supported yet".into());
        }
        TargetKind::Service => problems.extend(problems_of_service(spec, mesh)),
        kind @ TargetKind::Other(_) => problems.push(format!(
            "spec.targetRef.kind: {} cannot be released; use a Deployment, a DaemonSet or a Service",
            kind.as_str()
        )),
    }
    if spec.service.is_none() {
        problems.push("spec.service: needed to reach the workload; set at least its port".into());
    }
    let asked = spec.analysis.strategy();
    let divisible = mesh != Mesh::Kubernetes;
    if !is_under_way(canary) {
        problems.extend(mesh.impossible(spec).iter().map(ToString::to_string));
    }
    problems.extend(super::roads::wrong_reference(spec, mesh));
    if asked == Asked::Canary && divisible && steps(spec) == Steps::By(0)
        || matches!(steps(spec), Steps::By(step) if step < 0)
    {
        problems.push("spec.analysis.stepWeight: must be greater than 0".into());
    }
    problems
}

/// What cannot be done with a Service as target: it is the apex, and nobody here knows its pods.
fn problems_of_service(spec: &CanarySpec, mesh: Mesh) -> Vec<String> {
    let mut problems = Vec::new();
    if spec.apex_name() != spec.target_ref.name {
        problems.push("spec.service.name: a Service as target is what clients use; leave it out");
    }
    if spec.autoscaler_ref.is_some() {
        problems.push("spec.autoscalerRef: not possible for a Service, which has no replicas");
    }
    if mesh == Mesh::Kubernetes {
        problems.push(
            "spec.provider: a Service as target needs one that divides traffic between its copies",
        );
    }
    problems.into_iter().map(str::to_owned).collect()
}

/// Whether a rollout runs. What the provider cannot do is not begun; but a rollout that is edited into it, or
/// was begun by a controller that ignored it, must not stand still with its share: its route is blocked
/// then, and it goes back when its deadline has passed.
fn is_under_way(canary: &Canary) -> bool {
    canary.status.as_ref().is_some_and(|status| {
        matches!(
            status.phase,
            CanaryPhase::Progressing
                | CanaryPhase::Waiting
                | CanaryPhase::WaitingPromotion
                | CanaryPhase::Promoting
                | CanaryPhase::Finalising
        )
    })
}

fn count(number: i64) -> u32 {
    u32::try_from(number.max(0)).unwrap_or(u32::MAX)
}
