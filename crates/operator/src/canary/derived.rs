//! What follows from objects alone, kept for as long as those stay what they are.
//!
//! A canary is looked at whenever anything around it changes, most often because pods came or went.
//! Its spec is parsed once a version; the fingerprint and the primary's template are made once per
//! generation of the target, which moves with the spec and not with the status.

use std::sync::Arc;

use serde_json::Value;
use tidegate_api::canary::Canary;
use tidegate_engine::Revision;
use tidegate_providers::workload::{
    Cx, WorkloadError, WorkloadKind,
    config::{self, ConfigRef, Tracked},
    primary,
};
use tracing::trace;

/// What was made last, of each kind.
#[derive(Default)]
pub(super) struct Derived {
    canary: Memo<Version, Arc<Canary>>,
    target: Memo<Version, Arc<OfTarget>>,
    template: Memo<(Version, Tracked), Arc<Value>>,
    same: Memo<(Version, Tracked, Version), bool>,
}

/// What the target's own template says.
pub(super) struct OfTarget {
    pub(super) revision: Revision,
    pub(super) references: Vec<ConfigRef>,
}

/// Which object, and which of its specs.
type Version = (String, String);

/// The last answer, and what it was the answer to.
struct Memo<K, V>(Option<(K, V)>);

// === impl Derived ===

impl Derived {
    /// The object as a canary.
    pub(super) fn canary(&mut self, raw: &Value) -> Result<Arc<Canary>, serde_json::Error> {
        let uid = raw["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        let version = raw["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
        self.canary.get((uid, version), || serde_json::from_value(raw.clone()).map(Arc::new))
    }

    /// The target's fingerprint and what its pods mount.
    pub(super) fn of_target(&mut self, workload: WorkloadKind, target: &Value) -> Arc<OfTarget> {
        if workload == WorkloadKind::Knative {
            // Its status says which revision there is, and Knative looks after what pods mount.
            let revision = Revision::new(workload.revision(target));
            return Arc::new(OfTarget { revision, references: Vec::new() });
        }
        let made = self.target.get(version(target), || {
            trace!("Fingerprinting the target");
            let revision = Revision::new(workload.revision(target));
            let template = &target["spec"]["template"];
            let references = config::references(&template["spec"]);
            Ok::<_, std::convert::Infallible>(Arc::new(OfTarget { revision, references }))
        });
        match made {
            Ok(made) => made,
            Err(never) => match never {},
        }
    }

    /// Whether the primary runs what it would be given.
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

/// Only a spec goes into what is made here, and every change of a spec has a generation of its own.
fn version(object: &Value) -> Version {
    let metadata = &object["metadata"];
    let uid = metadata["uid"].as_str().unwrap_or_default().to_owned();
    let generation = match metadata["generation"].as_i64() {
        Some(generation) => generation.to_string(),
        None => metadata["resourceVersion"].to_string(),
    };
    (uid, generation)
}

// === impl Memo ===

impl<K: PartialEq, V: Clone> Memo<K, V> {
    /// The last answer if the question is the same. What fails is not kept.
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

impl<K, V> Default for Memo<K, V> {
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
    fn what_is_asked_again_is_not_made_again() {
        let mut memo: Memo<u8, u8> = Memo::default();
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
        let mut derived = Derived::default();
        let none = Tracked::new();
        let target = workload("web", 1, "web:1");
        let first = derived.of_target(WorkloadKind::Deployment, &target).revision.clone();
        let mut primary = workload("web-primary", 1, "web:1");
        primary["spec"]["template"]["metadata"]["labels"]["app"] = json!("web-primary");
        let mut same = |target: &Value, tracked: &Tracked, primary: Option<&Value>| {
            derived.is_same(&cx, target, tracked, primary).ok()
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
        assert_ne!(derived.of_target(WorkloadKind::Deployment, &next).revision, first);
        assert_eq!(
            derived
                .of_target(WorkloadKind::Deployment, &workload("other", 2, "web:1"))
                .revision
                .as_str()
                .len(),
            19
        );
    }
}
