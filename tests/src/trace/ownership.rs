//! The Services of others: the operator moves clients only where a Service leads to the target, or was lent.

use serde_json::Value;
use tidegate_api::canary::Canary;
use tidegate_providers::object::{HANDED_OVER, controller_of};

use super::{Change, Objects, is_ours};
use crate::rollout::{DAEMON_SETS, DEPLOYMENTS};

const ORIGINAL: &str = "flagger.kubernetes.io/original-configuration";

/// The violation, if the operator gave a Service of others other pods without a reason.
pub(super) fn unasked<'a>(
    change: &Change<'_>,
    mut canaries: impl Iterator<Item = &'a Canary>,
    objects: &Objects,
) -> Option<String> {
    let (before, now) = (change.before?, change.now?);
    let is_moved = before["spec"]["selector"] != now["spec"]["selector"];
    if !is_moved || !is_ours(now, &["spec", "selector"]) || controller_of(before).is_some() {
        return None;
    }
    let annotations = &before["metadata"]["annotations"];
    let has_reason = annotations[HANDED_OVER].is_string()
        || annotations[ORIGINAL].is_string()
        || canaries.any(|canary| leads_to_target(canary, before, objects));
    let (namespace, name) = change.key;
    (!has_reason).then(|| format!("Service {namespace}/{name} of others was taken unasked"))
}

/// Whether the Service selects the pods of the canary's target or of its primary.
fn leads_to_target(canary: &Canary, service: &Value, objects: &Objects) -> bool {
    let selector = service["spec"]["selector"].as_object().filter(|it| !it.is_empty());
    let Some(selector) = selector else { return false };
    let spec = &canary.spec;
    let namespace = canary.metadata.namespace.as_deref().unwrap_or_default();
    let workloads = [spec.target_ref.name.clone(), spec.primary_name()];
    workloads.iter().flat_map(|name| [(DEPLOYMENTS, name), (DAEMON_SETS, name)]).any(
        |(kind, name)| {
            let labels = objects
                .get(kind, namespace, name)
                .map(|workload| &workload["spec"]["template"]["metadata"]["labels"]);
            labels.is_some_and(|labels| {
                selector.iter().all(|(key, value)| labels.get(key) == Some(value))
            })
        },
    )
}
