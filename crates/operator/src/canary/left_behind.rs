//! Warns, after the deletion of a canary, of a target that is left without pods.
//!
//! Without `revertOnDeletion` there is no finalizer and so no last write: the primary is deleted with the canary,
//! and its target stays at zero, as with Flagger. The event is about the target, which is still there.

use tidegate_api::canary::{Canary, CanaryPhase};
use tidegate_engine::{Fact, Names};
use tidegate_providers::workload::{WorkloadKind, scaler::Scaler};

use super::{canary_ref::CanaryRef, memo::Memo};
use crate::{
    cluster::{CANARY, cache::Key},
    events,
};

/// The loop of a canary has ended.
pub(super) async fn warn(canary: &CanaryRef, memo: &Memo) {
    let CanaryRef { cx, key, .. } = canary;
    let cache = &cx.cluster.cache;
    let Some(last) = memo.last_canary() else { return };
    if !cx.cluster.leads() || cache.get(CANARY, key).is_some() || !was_set_up(last) {
        return;
    }
    let target_ref = &last.spec.target_ref;
    let is_rival =
        |other: &serde_json::Value| other["spec"]["targetRef"]["name"] == *target_ref.name;
    if cache.list_in(CANARY, &key.namespace).iter().any(|other| is_rival(other)) {
        return;
    }
    let Some(workload) = WorkloadKind::of(target_ref) else { return };
    let of_namespace = |name: &str| Key::new(&key.namespace, name);
    let Some(target) = cache.get(workload.kind(), &of_namespace(&target_ref.name)) else { return };
    if workload.replicas(&target) > 0 || target["metadata"]["deletionTimestamp"].is_string() {
        return;
    }
    let scaler_command = last.spec.autoscaler_ref.as_ref().and_then(|reference| {
        let scaler = Scaler::of(reference);
        let object = cache.get(scaler.kind(), &of_namespace(&reference.name))?;
        scaler.wake_command(&object)
    });
    let command = workload.wake_command(&target, memo.replicas_to_run);
    let commands: Vec<String> = scaler_command.into_iter().chain([command]).collect();
    let fact = Fact::TargetLeftAtZero(commands.join(" && "));
    let names = Names::of(&key.namespace, &key.name, &target_ref.name, workload.form());
    let report = events::Report {
        kind: workload.kind(),
        object: &target,
        reason: fact.reason(),
        tone: fact.tone(),
        message: &fact.text(&names),
    };
    events::record(cx, &report).await;
}

/// Before that its target was not scaled to zero by us.
fn was_set_up(canary: &Canary) -> bool {
    let phase = canary.status.as_ref().map(|status| status.phase).unwrap_or_default();
    !matches!(phase, CanaryPhase::Unset | CanaryPhase::Initializing)
}
