//! Warnings about a spec that can be carried out as written, and may not be meant so. Announced where a
//! release begins.

use super::{
    Budget, CanaryStep, Fact, HookCall, HookKind, Indexes, IntOrPercent, Observed, WorkloadKind,
    arguments::{self, Argument},
};

/// Arguments that every run for a pod is given. Those with an index depend on the pod.
const OF_EVERY_POD: [&str; 5] = ["PodName", "PodNamespace", "PodIP", "HostIP", "PodContainer[0]"];

/// A release whose steps are removed has no pauses and hooks any more: it continues at once.
pub(super) const STEPS_REMOVED: &str = "The steps were removed during a release: all pods beyond updateStrategy.partition are updated, without pauses and hooks. Set updateStrategy.paused to stop it.";

/// One sentence for each.
pub(super) fn of(seen: &Observed) -> Vec<Fact> {
    let steps = of_steps(seen).into_iter().map(Fact::StepDoubtful);
    let pods = HookKind::ALL.into_iter().filter_map(|kind| of_pods(seen, kind));
    steps.chain(pods.chain(indexes(seen)).map(Fact::SpecDoubtful)).collect()
}

fn of_steps(seen: &Observed) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut before: Option<(usize, usize)> = None;
    for (index, step) in seen.plan.steps().iter().enumerate() {
        match step {
            CanaryStep::Partition(share) => {
                partition(seen.plan.replicas, index, *share, &mut before, &mut warnings);
            }
            CanaryStep::Hook(hook) => {
                let why = hook_of(seen, &hook.call, &[]);
                warnings.extend(why.map(|why| format!("Step {index} is invalid: {why}.")));
            }
            CanaryStep::Pause(_) => {}
        }
    }
    warnings
}

/// `before` is the step that kept the fewest pods so far, and how many those were.
fn partition(
    replicas: usize,
    index: usize,
    share: IntOrPercent,
    before: &mut Option<(usize, usize)>,
    warnings: &mut Vec<String>,
) {
    if let IntOrPercent::Count(count) = share
        && count > replicas
    {
        warnings.push(format!(
            "Step {index} keeps {count} pods as they are, and there are {replicas}: it updates none."
        ));
    }
    let kept = share.as_partition(replicas);
    if let Some((earlier, least)) = *before
        && kept > least
    {
        warnings.push(format!(
            "Step {index} keeps {kept} pods as they are, step {earlier} only {least}: it updates none."
        ));
    }
    if before.is_none_or(|(_, least)| kept < least) {
        *before = Some((index, kept));
    }
}

/// Why a hook cannot be run, or will not pass.
fn hook_of(seen: &Observed, call: &HookCall, given: &[Argument]) -> Option<String> {
    let template = &call.template;
    let Some(known) = seen.templates.get(template) else {
        return Some(format!("there is no hook template {template}"));
    };
    let given: Vec<Argument> = call.arguments.iter().chain(given).cloned().collect();
    if let Err(error) = arguments::merge(&known.declared, &given) {
        return Some(error.to_string());
    }
    let problem = known.problems.first()?;
    Some(format!("of hook template {template}, {problem}"))
}

fn of_pods(seen: &Observed, kind: HookKind) -> Option<String> {
    let call = seen.plan.hooks.of(kind).call.as_ref()?;
    let given = |name: &str| Argument { name: name.to_owned(), value: String::new() };
    let why = hook_of(seen, call, &OF_EVERY_POD.map(given))?;
    Some(format!("The {} hook is invalid: {why}.", kind.prefix()))
}

/// A pod on top of the replicas that gets no number keeps none when it takes the place of another.
fn indexes(seen: &Observed) -> Option<String> {
    let plan = &seen.plan;
    let (Indexes::Range(start, end), WorkloadKind::Deployment) = (&plan.indexes, plan.kind) else {
        return None;
    };
    let numbers = usize::try_from(end.saturating_sub(*start)).unwrap_or(0);
    let surge = Budget::of_deployment(plan.max_unavailable, plan.max_surge, plan.replicas).surge;
    let pods = plan.replicas.saturating_add(surge);
    (surge > 0 && numbers < pods).then(|| {
        format!(
            "maxSurge allows {pods} pods, and there are {numbers} indexes: not every pod gets one."
        )
    })
}
