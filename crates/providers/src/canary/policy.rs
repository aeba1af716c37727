//! Findings in a policy that runs as with Flagger, and probably not as its author means.
//!
//! A finding blocks nothing: the canary has the condition `PolicySound` with status `False`, and an event. Each
//! has the id of its rule, which is never used for another one.

use tidegate_api::{
    canary::{
        CanarySpec, Strategy as Asked,
        analysis::{Webhook, WebhookType},
    },
    duration::GoDuration,
};
use tidegate_engine::Percent;

use crate::traffic::Mesh;

/// A doubtful part of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The rule: `TG013`.
    pub id: &'static str,
    /// The field, and how it counts.
    pub text: String,
}

/// The reason why a text is not the address of a server; `None` if it is one.
pub type UrlError = fn(&str) -> Option<String>;

/// A scheme that is no address and is not refused: the hook is answered by a person.
const APPROVAL: &str = "approval:";

/// The doubtful parts of a policy, in the order of the fields.
pub fn findings(spec: &CanarySpec, mesh: Mesh, url_error: UrlError) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut find = |id, text| found.push(Finding { id, text });
    if let Some(seconds @ ..=0) = spec.progress_deadline_seconds {
        let effect = "leaves no time: pods have to be ready at the next look";
        find("TG041", format!("spec.progressDeadlineSeconds: {seconds} {effect}"));
    }
    if spec.skips_analysis() {
        return found;
    }
    let analysis = &spec.analysis;
    if let Some(text) = analysis.interval.as_deref().and_then(interval) {
        find("TG016", text);
    }
    if let (Some(count @ ..=0), Mesh::Kubernetes) = (analysis.iterations, mesh) {
        let effect = "counts as 10 with the provider `kubernetes`";
        find("TG017", format!("spec.analysis.iterations: {count} {effect}"));
    }
    if analysis.strategy() == Asked::Canary && mesh != Mesh::Kubernetes {
        for text in weights(spec) {
            find("TG013", text);
        }
    }
    if analysis.metrics.is_empty() && !analysis.webhooks.iter().any(can_stop) {
        let text =
            "spec.analysis: no metric and no webhook checks the canary; time alone promotes it";
        find("TG008", text.to_owned());
    }
    let events = analysis.webhooks.iter().enumerate().filter(|(_, hook)| is_event(hook));
    for (index, hook) in events {
        if let Some(why) = url_error(&hook.url) {
            let effect = "the hook is never called";
            find("TG021", format!("spec.analysis.webhooks[{index}].url: {why}, so {effect}"));
        }
    }
    found
}

/// Webhooks that cannot be called, so that a rollout with them fails, or cannot be approved.
pub fn hook_errors(spec: &CanarySpec, url_error: UrlError) -> Vec<String> {
    let hooks = spec.analysis.webhooks.iter().enumerate();
    let called = hooks.filter(|(_, hook)| !is_event(hook) && !hook.url.starts_with(APPROVAL));
    let wrong = called.filter_map(|(index, hook)| Some((index, hook, url_error(&hook.url)?)));
    let told = wrong.map(|(index, hook, why)| {
        let name = &hook.name;
        format!("spec.analysis.webhooks[{index}].url: {why}; `{name}` could never be called")
    });
    told.collect()
}

fn is_event(hook: &Webhook) -> bool {
    hook.hook_type() == WebhookType::Event
}

/// Whether the answer of a hook can keep a revision from being promoted.
fn can_stop(hook: &Webhook) -> bool {
    !matches!(hook.hook_type(), WebhookType::Event | WebhookType::PostRollout)
}

fn interval(text: &str) -> Option<String> {
    let Ok(asked) = text.parse::<GoDuration>() else {
        return Some(format!(
            "spec.analysis.interval: {text:?} is not a duration, so 60s is used; write one such as \"30s\""
        ));
    };
    let seconds = asked.to_std().unwrap_or_default().as_secs_f64();
    (seconds < 10.0).then(|| format!("spec.analysis.interval: {text:?} is raised to 10s"))
}

fn weights(spec: &CanarySpec) -> Vec<String> {
    let (analysis, all) = (&spec.analysis, i64::from(Percent::ALL));
    let mut found = Vec::new();
    match (analysis.step_weight, analysis.step_weights.as_deref()) {
        (Some(step), _) if step > all => {
            let effect = "is one step of 100";
            found.push(format!("spec.analysis.stepWeight: {step} {effect}"));
        }
        (None | Some(..=0), Some(list)) => found.extend(listed(list)),
        (_, _) => {}
    }
    if analysis.step_weights.as_ref().is_some_and(|list| !list.is_empty()) {
        return found;
    }
    if let Some(max) = analysis.max_weight.filter(|max| *max <= 0 || *max > all) {
        found.push(format!("spec.analysis.maxWeight: {max} counts as 100"));
    }
    found
}

/// Entries that are never a step, and those beyond everything.
fn listed(list: &[i64]) -> Option<String> {
    let mut steps: Vec<Percent> = Vec::new();
    for step in list.iter().copied().filter(|step| *step > 0).map(Percent::clamped) {
        if steps.last().is_none_or(|last| *last < step) {
            steps.push(step);
        }
    }
    let as_written: Vec<i64> = steps.iter().copied().map(i64::from).collect();
    (as_written != list).then(|| {
        let steps: Vec<String> = as_written.iter().map(ToString::to_string).collect();
        let steps = steps.join(", ");
        format!(
            "spec.analysis.stepWeights: the steps are {steps}, then promotion; {list:?} has others"
        )
    })
}

#[cfg(test)]
mod tests;
