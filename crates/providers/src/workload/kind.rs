//! The kinds of target that a canary can have, and how they differ.
//!
//! | | `Deployment` | `DaemonSet` | `Service` | `Service` of Knative |
//! |---|---|---|---|---|
//! | how many pods | `spec.replicas` | one for each node it fits | others' | Knative's |
//! | parked | 0 replicas | a node selector that no node has | never | by Knative |
//! | how it updates | `spec.strategy` | `spec.updateStrategy` | at once | a revision for each template |
//! | since when too few are available | says so itself | does not say | always ready | does not say |
//! | primary | [`super::primary`] | the same | [`super::clone`] | an older revision of the same |
//!
//! A `DaemonSet` has no number to count with. Where one is needed it is 1 while the set runs, and 0
//! while it is parked. Being parked is no part of its template: neither of its revision nor of the
//! primary.

use std::borrow::Cow;

use serde_json::{Value, json};
use tidegate_api::canary::{TargetKind, TargetRef};
use tidegate_engine::Form;

use super::{
    DAEMON_SET, DEPLOYMENT, SERVICE, WorkloadError, clone, hash, metadata::with_version, name_of,
};
use crate::{
    object::{Change, Kind},
    traffic::{KNATIVE_SERVICE, knative_primary},
};

/// The kind of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkloadKind {
    /// As many pods as it asks for.
    Deployment,
    /// A pod on each node.
    DaemonSet,
    /// A Service of the core, in front of pods that others manage.
    Service,
    /// A Service of Knative, which has revisions of its own: the target and the primary in one.
    Knative,
}

/// The node selector of a parked `DaemonSet`; Flagger's.
pub const SCALE_TO_ZERO: &str = "flagger.app/scale-to-zero";

// === impl WorkloadKind ===

impl WorkloadKind {
    /// The kind of such a target; `None` for an unknown one.
    pub fn of(target: &TargetRef) -> Option<Self> {
        match target.kind {
            TargetKind::Deployment => Some(Self::Deployment),
            TargetKind::DaemonSet => Some(Self::DaemonSet),
            TargetKind::Service if target.is_knative() => Some(Self::Knative),
            TargetKind::Service => Some(Self::Service),
            TargetKind::Other(_) => None,
        }
    }

    /// The kind of object.
    pub const fn kind(self) -> Kind {
        match self {
            Self::Deployment => DEPLOYMENT,
            Self::DaemonSet => DAEMON_SET,
            Self::Service => SERVICE,
            Self::Knative => KNATIVE_SERVICE,
        }
    }

    /// How its pods are counted.
    pub const fn form(self) -> Form {
        match self {
            Self::Deployment => Form::Replicas,
            Self::DaemonSet => Form::PerNode,
            Self::Service | Self::Knative => Form::Elsewhere,
        }
    }

    /// The member of its spec that says how pods are replaced.
    pub(super) const fn strategy(self) -> &'static str {
        match self {
            Self::Deployment | Self::Service | Self::Knative => "strategy",
            Self::DaemonSet => "updateStrategy",
        }
    }

    /// Members of its spec that the primary has as they are, besides strategy and template.
    pub(super) const fn copied(self) -> &'static [&'static str] {
        match self {
            Self::Deployment => &["progressDeadlineSeconds", "revisionHistoryLimit"],
            Self::DaemonSet => &["revisionHistoryLimit"],
            Self::Service | Self::Knative => &[],
        }
    }

    /// The part that makes its revision: the pod template as the user wrote it, without the fields
    /// that park it; of a Service the part that a copy has; of one of Knative the name of its
    /// latest revision.
    pub fn template(self, workload: &Value) -> Cow<'_, Value> {
        let template = &workload["spec"]["template"];
        match self {
            Self::DaemonSet if is_parked(workload) => {
                let mut template = template.clone();
                if let Some(spec) = template["spec"].as_object_mut()
                    && let Some(Value::Object(nodes)) = spec.get_mut("nodeSelector")
                {
                    nodes.remove(SCALE_TO_ZERO);
                    if nodes.is_empty() {
                        spec.remove("nodeSelector");
                    }
                }
                Cow::Owned(template)
            }
            Self::Deployment | Self::DaemonSet => Cow::Borrowed(template),
            Self::Service => clone::spec_of(workload),
            Self::Knative => Cow::Borrowed(&workload["status"]["latestCreatedRevisionName"]),
        }
    }

    /// The name of its revision.
    pub fn revision(self, workload: &Value) -> String {
        hash::revision(&self.template(workload))
    }

    /// The name of the revision the primary has, of a target that is both; `None` before it has one.
    pub fn revision_of_primary(self, target: &Value) -> Option<String> {
        let primary = (self == Self::Knative).then(|| knative_primary(target)).flatten()?;
        Some(hash::revision(&json!(primary)))
    }

    /// How many replicas it asks for; see the top of this file.
    pub fn replicas(self, workload: &Value) -> i64 {
        match self {
            Self::Deployment => workload["spec"]["replicas"].as_i64().unwrap_or(1),
            Self::DaemonSet => i64::from(!is_parked(workload)),
            Self::Service | Self::Knative => 1,
        }
    }

    /// Gives it a number of replicas; `None` where it has it already.
    pub fn scale(self, workload: &Value, replicas: i64) -> Option<Change> {
        let spec = match self {
            Self::Service | Self::Knative => return None,
            Self::Deployment if self.replicas(workload) == replicas => return None,
            Self::Deployment => json!({ "replicas": replicas }),
            Self::DaemonSet => {
                let is_wanted = replicas > 0;
                if is_wanted != is_parked(workload) {
                    return None;
                }
                let mark = if is_wanted { Value::Null } else { json!("true") };
                json!({ "template": { "spec": { "nodeSelector": { SCALE_TO_ZERO: mark } } } })
            }
        };
        let metadata = with_version(json!({}), Some(workload));
        let patch = json!({ "metadata": metadata, "spec": spec });
        Some(Change::Merge { kind: self.kind(), name: name_of(workload).to_owned(), patch })
    }

    /// The `kubectl` command that scales a parked one up.
    pub fn wake_command(self, workload: &Value, replicas: i64) -> String {
        let namespace = workload["metadata"]["namespace"].as_str().unwrap_or_default();
        let place = format!("{} -n {namespace}", name_of(workload));
        match self {
            Self::Deployment => format!("kubectl scale deployment {place} --replicas={replicas}"),
            Self::DaemonSet => {
                let pointer = SCALE_TO_ZERO.replace('/', "~1");
                format!(
                    "kubectl patch daemonset {place} --type=json -p='[{{\"op\":\"remove\",\
                     \"path\":\"/spec/template/spec/nodeSelector/{pointer}\"}}]'"
                )
            }
            Self::Service | Self::Knative => String::new(),
        }
    }

    /// The replicas with which a parked target is scaled up again.
    ///
    /// `scaler_min` is the fewest its scaler allows, `None` where it has no scaler.
    pub fn scale_from_zero(
        self,
        target: &Value,
        primary: Option<&Value>,
        scaler_min: Option<i64>,
    ) -> i64 {
        let wanted = self.replicas(target);
        if wanted > 0 || self != Self::Deployment {
            return wanted.max(1);
        }
        let of_primary = || primary.map_or(1, |primary| self.replicas(primary));
        scaler_min.unwrap_or_else(of_primary).max(1)
    }

    /// Refuses a target that does not replace its pods by itself: nothing would ever be rolled out. One
    /// of Knative has to have a revision first.
    pub fn require_rolling(self, target: &Value) -> Result<(), WorkloadError> {
        if self == Self::Knative && !self.template(target).is_string() {
            return Err(WorkloadError::NoRevision { name: name_of(target).to_owned() });
        }
        let strategy = target["spec"]["updateStrategy"]["type"].as_str().unwrap_or_default();
        if self != Self::DaemonSet || matches!(strategy, "" | "RollingUpdate") {
            return Ok(());
        }
        Err(WorkloadError::UpdateStrategy {
            kind: self.kind().kind,
            name: name_of(target).to_owned(),
            strategy: strategy.to_owned(),
        })
    }
}

/// Whether a `DaemonSet` is kept from every node.
fn is_parked(set: &Value) -> bool {
    set["spec"]["template"]["spec"]["nodeSelector"].get(SCALE_TO_ZERO).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::testing::applied;

    const DAEMONS: WorkloadKind = WorkloadKind::DaemonSet;

    fn set(node_selector: Option<Value>) -> Value {
        let mut spec = json!({ "containers": [{ "name": "app", "image": "agent:1" }] });
        if let Some(node_selector) = node_selector {
            spec["nodeSelector"] = node_selector;
        }
        json!({
            "metadata": { "name": "agent", "resourceVersion": "7", "uid": "u" },
            "spec": { "template": { "spec": spec } },
        })
    }

    #[test]
    fn a_parked_daemon_set_is_the_same_revision() {
        let cases =
            [("without a selector", None), ("with one of its own", Some(json!({ "disk": "ssd" })))];
        for (reason, selector) in cases {
            let running = set(selector);
            let parked = applied(Some(&running), &DAEMONS.scale(&running, 0).unwrap()).unwrap();
            assert_eq!((DAEMONS.replicas(&running), DAEMONS.replicas(&parked)), (1, 0), "{reason}");
            assert_eq!(DAEMONS.revision(&running), DAEMONS.revision(&parked), "{reason}");
            assert_eq!(DAEMONS.scale(&parked, 0), None, "{reason}: parked already");
            assert_eq!(DAEMONS.scale(&running, 5), None, "{reason}: runs already");
            let again = applied(Some(&parked), &DAEMONS.scale(&parked, 1).unwrap()).unwrap();
            assert_eq!(*DAEMONS.template(&parked), *DAEMONS.template(&running), "{reason}");
            assert!(hash::is_same(&again["spec"], &running["spec"]), "{reason}");
            assert_eq!(DAEMONS.replicas(&again), 1, "{reason}");
        }
    }

    #[test]
    fn a_selector_of_the_users_own_is_part_of_the_revision() {
        let (one, other) = (set(Some(json!({ "disk": "ssd" }))), set(None));
        assert_ne!(DAEMONS.revision(&one), DAEMONS.revision(&other));
    }

    #[test]
    fn a_service_of_knative_is_as_new_as_its_latest_revision_with_any_traffic() {
        let kind = WorkloadKind::Knative;
        let service = |created: Value, percent: i64| {
            json!({
                "metadata": { "name": "web", "annotations": {
                    "flagger.app/primary-revision": "web-00001",
                } },
                "spec": { "traffic": [{ "latestRevision": true, "percent": percent }] },
                "status": { "latestCreatedRevisionName": created },
            })
        };
        let (first, second) = (service(json!("web-00001"), 0), service(json!("web-00002"), 0));
        assert_ne!(kind.revision(&first), kind.revision(&second));
        assert_eq!(kind.revision(&second), kind.revision(&service(json!("web-00002"), 40)));
        assert_eq!(kind.revision_of_primary(&second), Some(kind.revision(&first)));
        assert_eq!(kind.scale(&second, 0), None, "Knative scales it");
        assert!(kind.require_rolling(&second).is_ok());
        assert!(kind.require_rolling(&service(Value::Null, 0)).is_err(), "nothing to roll out");
        assert_eq!(WorkloadKind::Deployment.revision_of_primary(&second), None);
    }

    #[test]
    fn the_mark_means_nothing_on_a_deployment() {
        let deployment = set(Some(json!({ SCALE_TO_ZERO: "true" })));
        let template = WorkloadKind::Deployment.template(&deployment);
        assert_eq!(*template, deployment["spec"]["template"]);
        assert_eq!(WorkloadKind::Deployment.replicas(&deployment), 1);
    }

    #[test]
    fn a_daemon_set_that_waits_for_its_pods_to_be_deleted_is_refused() {
        let cases = [
            ("by default", Value::Null, true),
            ("rolling", json!({ "type": "RollingUpdate" }), true),
            ("by hand", json!({ "type": "OnDelete" }), false),
        ];
        for (reason, strategy, want) in cases {
            let mut set = set(None);
            set["spec"]["updateStrategy"] = strategy;
            assert_eq!(DAEMONS.require_rolling(&set).is_ok(), want, "{reason}");
        }
    }

    #[test]
    fn a_parked_daemon_set_starts_beside_any_others() {
        let parked = set(Some(json!({ SCALE_TO_ZERO: "true" })));
        assert_eq!(DAEMONS.scale_from_zero(&parked, None, Some(7)), 1);
        assert_eq!(DAEMONS.scale_from_zero(&parked, Some(&parked), None), 1);
    }
}
