//! Memoises parsed specs and template hashes by UID and generation, and keeps the timers of a canary.
//!
//! A canary is observed whenever anything around it changes, most often because pods came or went. Its spec
//! is parsed once a version; the revision and the primary's template are computed once per generation of
//! the target, which moves with the spec and not with the status. All of it can be lost without harm.

use std::sync::Arc;

use serde_json::Value;
use tidegate_api::canary::Canary;
use tidegate_engine::{IntervalTimer, Revision};
use tidegate_providers::workload::{
    Cx, WorkloadError, WorkloadKind,
    config::{self, ConfigRef, Tracked},
    primary,
};
use tracing::trace;

use super::{unready_pods::UnreadyPods, unready_since::UnreadySince};

/// Values computed from objects, and since when the canary waits.
#[derive(Default)]
pub(super) struct Memo {
    canary: Cached<Version, Arc<Canary>>,
    target: Cached<Version, Arc<TargetTemplate>>,
    template: Cached<(Version, Tracked), Arc<Value>>,
    same: Cached<(Version, Tracked, Version), bool>,
    pub(super) unready_since: UnreadySince,
    pub(super) unready_pods: UnreadyPods,
    /// The replicas with which the target is scaled up, as of the last look.
    pub(super) replicas_to_run: i64,
    pub(super) timer: IntervalTimer,
}

/// The revision of the target, and the configuration that its pods mount.
pub(super) struct TargetTemplate {
    pub(super) revision: Revision,
    pub(super) references: Vec<ConfigRef>,
}

/// An error that names the field: `spec.analysis.threshold: invalid type`.
type PathError = serde_path_to_error::Error<serde_json::Error>;

/// UID and generation of an object.
type Version = (String, String);

/// The last value, and its key.
struct Cached<K, V>(Option<(K, V)>);

// === impl Memo ===

impl Memo {
    /// The object as a canary.
    pub(super) fn canary(&mut self, raw: &Value) -> Result<Arc<Canary>, PathError> {
        let uid = raw["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        let version = raw["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
        let read = || serde_path_to_error::deserialize(raw).map(Arc::new);
        self.canary.get((uid, version), read)
    }

    /// The canary as it was last observed.
    pub(super) fn last_canary(&self) -> Option<&Canary> {
        self.canary.0.as_ref().map(|(_, canary)| &**canary)
    }

    /// The target's revision and the configuration that its pods mount.
    pub(super) fn target(&mut self, workload: WorkloadKind, target: &Value) -> Arc<TargetTemplate> {
        if workload == WorkloadKind::Knative {
            // The revision is in its status, and Knative restarts pods for their configuration itself.
            let revision = Revision::new(workload.revision(target));
            return Arc::new(TargetTemplate { revision, references: Vec::new() });
        }
        let made = self.target.get(version(target), || {
            trace!("Fingerprinting the target");
            let revision = Revision::new(workload.revision(target));
            let template = &target["spec"]["template"];
            let references = config::references(&template["spec"]);
            Ok::<_, std::convert::Infallible>(Arc::new(TargetTemplate { revision, references }))
        });
        match made {
            Ok(made) => made,
            Err(never) => match never {},
        }
    }

    /// Whether the primary runs the template that a promotion would give it.
    pub(super) fn is_same(
        &mut self,
        cx: &Cx<'_>,
        target: &Value,
        tracked: &Tracked,
        live: Option<&Value>,
    ) -> Result<bool, WorkloadError> {
        if cx.workload == WorkloadKind::Service {
            let revision = |service: &Value| cx.workload.revision(service);
            return Ok(live.is_some_and(|live| revision(live) == revision(target)));
        }
        if cx.workload == WorkloadKind::Knative {
            let of_primary = live.and_then(|live| cx.workload.revision_of_primary(live));
            return Ok(of_primary.is_some_and(|it| it == cx.workload.revision(target)));
        }
        let of_target = (version(target), tracked.clone());
        let template = self.template.get(of_target.clone(), || {
            trace!("Deriving the primary's template");
            primary::primary_template(cx, target, tracked).map(Arc::new)
        })?;
        let Some(live) = live else { return Ok(false) };
        let (target, tracked) = of_target;
        self.same.get((target, tracked, version(live)), || Ok(primary::runs_same(live, &template)))
    }
}

/// Values are computed from specs only, and every change of a spec has a generation of its own.
fn version(object: &Value) -> Version {
    let metadata = &object["metadata"];
    let uid = metadata["uid"].as_str().unwrap_or_default().to_owned();
    let generation = match metadata["generation"].as_i64() {
        Some(generation) => generation.to_string(),
        None => metadata["resourceVersion"].to_string(),
    };
    (uid, generation)
}

// === impl Cached ===

impl<K: PartialEq, V: Clone> Cached<K, V> {
    /// The last value if the key is the same. A failure is not kept.
    fn get<E>(&mut self, key: K, make: impl FnOnce() -> Result<V, E>) -> Result<V, E> {
        if let Some((known, value)) = &self.0
            && *known == key
        {
            return Ok(value.clone());
        }
        let value = make()?;
        self.0 = Some((key, value.clone()));
        Ok(value)
    }
}

impl<K, V> Default for Cached<K, V> {
    fn default() -> Self {
        Self(None)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tidegate_providers::{object::Owner, workload::LabelPrefixes};

    use super::*;

    fn workload(uid: &str, generation: i64, image: &str) -> Value {
        let labels = json!({ "app": uid });
        json!({
            "metadata": { "uid": uid, "generation": generation, "resourceVersion": "1" },
            "spec": {
                "selector": { "matchLabels": labels },
                "template": {
                    "metadata": { "labels": labels },
                    "spec": { "containers": [{ "name": "app", "image": image }] },
                },
            },
        })
    }

    #[test]
    fn a_value_is_computed_once_for_the_same_key() {
        let mut memo: Cached<u8, u8> = Cached::default();
        let mut made = 0;
        let mut ask = |key: u8| {
            memo.get(key, || {
                made += 1;
                Ok::<_, ()>(key)
            })
        };
        assert_eq!((ask(1), ask(1), ask(2), ask(2), ask(1)), (Ok(1), Ok(1), Ok(2), Ok(2), Ok(1)));
        assert_eq!(made, 3, "one answer is kept");
        let failed: Result<u8, &str> = memo.get(7, || Err("no"));
        assert_eq!((failed, memo.get(7, || Ok::<_, &str>(7))), (Err("no"), Ok(7)));
    }

    #[test]
    fn every_input_that_changes_is_seen() {
        let owner = Owner { name: "web", namespace: "default", uid: "u", can_own: true };
        let (labels, included) = (vec!["app".to_owned()], LabelPrefixes::parse(""));
        let cx = Cx {
            owner,
            workload: WorkloadKind::Deployment,
            target: "web",
            selector_labels: &labels,
            included: &included,
        };
        let mut memo = Memo::default();
        let none = Tracked::new();
        let target = workload("web", 1, "web:1");
        let first = memo.target(WorkloadKind::Deployment, &target).revision.clone();
        let mut primary = workload("web-primary", 1, "web:1");
        primary["spec"]["template"]["metadata"]["labels"]["app"] = json!("web-primary");
        let mut same = |target: &Value, tracked: &Tracked, primary: Option<&Value>| {
            memo.is_same(&cx, target, tracked, primary).ok()
        };
        assert_eq!(same(&target, &none, None), Some(false), "there is none");
        assert_eq!(same(&target, &none, Some(&primary)), Some(true));
        let next = workload("web", 2, "web:2");
        assert_eq!(same(&next, &none, Some(&primary)), Some(false), "the target changed");
        assert_eq!(same(&target, &none, Some(&primary)), Some(true), "and changed back");
        let mut other = primary.clone();
        other["metadata"]["generation"] = json!(2);
        other["spec"]["template"]["spec"]["containers"][0]["image"] = json!("web:0");
        assert_eq!(same(&target, &none, Some(&other)), Some(false), "the primary changed");
        assert_ne!(memo.target(WorkloadKind::Deployment, &next).revision, first);
        assert_eq!(
            memo.target(WorkloadKind::Deployment, &workload("other", 2, "web:1"))
                .revision
                .as_str()
                .len(),
            19
        );
    }
}
