//! Scales workloads for KEDA's `ScaledObjects`, if the cluster has its CRD ([`keda_crds`]).
//!
//! Triggers are not evaluated: every trigger counts as active and asks for the current number of
//! replicas. A workload therefore has at least `minReplicaCount` replicas, at least one, and at
//! most `maxReplicaCount`; one that was scaled to zero comes back at the next poll. Annotations
//! change this:
//!
//! - `sandbox.tidegate.dev/triggers: idle`: no trigger is active; there are `minReplicaCount`
//!   replicas, which may be zero.
//! - `autoscaling.keda.sh/paused-replicas`: exactly that many replicas.
//! - `autoscaling.keda.sh/paused: "true"`: the workload is left alone.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    cluster::{Cluster, DEPLOYMENTS, Resource, STATEFUL_SETS},
    controllers::{
        Change, Controller, Key, Next,
        object::{int, is_deleting, settle, text},
    },
    definitions,
    failure::Outcome,
};

/// `keda.sh`: `ScaledObjects` of KEDA.
pub const SCALED_OBJECTS: Resource = Resource { group: "keda.sh", plural: "scaledobjects" };

/// The label by which KEDA finds the objects of a ScaledObject.
const NAME_LABEL: &str = "scaledobject.keda.sh/name";
/// Annotation with the state of the triggers, which are not evaluated.
const TRIGGERS: &str = "sandbox.tidegate.dev/triggers";
/// KEDA's default polling interval.
const POLLING_INTERVAL_S: i64 = 30;
const MAX_REPLICAS: i64 = 100;

#[derive(Debug, Default)]
pub(crate) struct ScaledObjectController;

/// The `CustomResourceDefinition` of KEDA's `ScaledObject`, ready to be loaded.
pub fn keda_crds() -> Vec<Value> {
    definitions::of_groups(&["keda.sh"])
}

// === impl ScaledObjectController ===

impl Controller for ScaledObjectController {
    fn name(&self) -> &'static str {
        "scaledobject"
    }

    fn watches(&self) -> &'static [(&'static str, &'static str)] {
        &[("keda.sh", "scaledobjects")]
    }

    fn keys(&self, _: &dyn Cluster, change: &Change<'_>) -> Vec<Key> {
        vec![Key { namespace: change.namespace.to_owned(), name: change.name.to_owned() }]
    }

    fn reconcile(&mut self, cluster: &dyn Cluster, key: &Key) -> Next {
        let Some(object) = cluster.get(SCALED_OBJECTS, &key.namespace, &key.name) else {
            return Next::Idle;
        };
        if is_deleting(&object) {
            return Next::Idle;
        }
        let poll = int(&object, "/spec/pollingInterval").unwrap_or(POLLING_INTERVAL_S).max(1);
        let poll = Duration::from_secs(poll.unsigned_abs());
        settle(sync(cluster, key, &object).map(|()| Next::After(poll)))
    }
}

fn sync(cluster: &dyn Cluster, key: &Key, object: &Value) -> Outcome<()> {
    if object["metadata"]["labels"][NAME_LABEL] != key.name.as_str() {
        let patch = json!({ "metadata": { "labels": { NAME_LABEL: key.name } } });
        cluster.patch(SCALED_OBJECTS, &key.namespace, &key.name, "", &patch)?;
    }
    let resource = match text(object, "/spec/scaleTargetRef/kind") {
        "" | "Deployment" => DEPLOYMENTS,
        "StatefulSet" => STATEFUL_SETS,
        _ => return Ok(()),
    };
    let name = text(object, "/spec/scaleTargetRef/name");
    let Some(target) = cluster.get(resource, &key.namespace, name) else { return Ok(()) };
    let now = int(&target, "/spec/replicas").unwrap_or(1);
    let wanted = wanted(object, now);
    if wanted != now {
        let patch = json!({ "spec": { "replicas": wanted } });
        cluster.patch(resource, &key.namespace, name, "scale", &patch)?;
    }
    Ok(())
}

/// The number of replicas that the target should have.
fn wanted(object: &Value, now: i64) -> i64 {
    let annotations = &object["metadata"]["annotations"];
    let paused = annotations["autoscaling.keda.sh/paused-replicas"].as_str();
    if let Some(replicas) = paused.and_then(|replicas| replicas.parse().ok()) {
        return replicas;
    }
    if annotations["autoscaling.keda.sh/paused"] == "true" {
        return now;
    }
    let min = int(object, "/spec/minReplicaCount").unwrap_or(0).max(0);
    if annotations[TRIGGERS] == "idle" {
        return min;
    }
    let min = min.max(1);
    let max = int(object, "/spec/maxReplicaCount").unwrap_or(MAX_REPLICAS).max(min);
    now.clamp(min, max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Sandbox, Settings, server::User};

    fn scaled() -> (Sandbox, impl Fn(&Sandbox) -> i64) {
        let sandbox = Sandbox::new(Settings::for_tests());
        sandbox.load(keda_crds()).unwrap();
        let admin = sandbox.local(User::admin());
        let labels = json!({ "app": "web" });
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" },
            "spec": { "replicas": 1, "selector": { "matchLabels": labels }, "template": {
                "metadata": { "labels": labels },
                "spec": { "containers": [{ "name": "app", "image": "web:1" }] },
            } },
        });
        admin.create(DEPLOYMENTS, "default", deployment).unwrap();
        let object = json!({
            "apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": { "name": "web" },
            "spec": {
                "scaleTargetRef": { "name": "web" }, "minReplicaCount": 2, "maxReplicaCount": 4,
                "triggers": [{ "type": "cron", "metadata": { "start": "0 8 * * *" } }],
            },
        });
        admin.create(SCALED_OBJECTS, "default", object).unwrap();
        sandbox.settle();
        let replicas = |sandbox: &Sandbox| {
            let admin = sandbox.local(User::admin());
            int(&admin.get(DEPLOYMENTS, "default", "web").unwrap(), "/spec/replicas").unwrap()
        };
        (sandbox, replicas)
    }

    #[test]
    fn a_workload_is_kept_within_its_bounds() {
        let (sandbox, replicas) = scaled();
        let admin = sandbox.local(User::admin());
        assert_eq!(replicas(&sandbox), 2, "the minimum");
        for (asked, want) in [(3, 3), (9, 4), (0, 2)] {
            let patch = json!({ "spec": { "replicas": asked } });
            admin.patch(DEPLOYMENTS, "default", "web", "", &patch).unwrap();
            sandbox.advance(Duration::from_secs(31));
            assert_eq!(replicas(&sandbox), want, "{asked} were asked for");
        }
        let object = admin.get(SCALED_OBJECTS, "default", "web").unwrap();
        assert_eq!(object["metadata"]["labels"][NAME_LABEL], "web");
    }

    #[test]
    fn without_an_active_trigger_a_workload_has_the_fewest_replicas_which_may_be_none() {
        let (sandbox, replicas) = scaled();
        let admin = sandbox.local(User::admin());
        let annotate = |value: Value, least: i64| {
            let metadata = json!({ "annotations": { TRIGGERS: value } });
            let patch = json!({ "metadata": metadata, "spec": { "minReplicaCount": least } });
            admin.patch(SCALED_OBJECTS, "default", "web", "", &patch).unwrap();
            sandbox.settle();
        };
        annotate(json!("idle"), 0);
        assert_eq!(replicas(&sandbox), 0);
        annotate(json!("idle"), 1);
        assert_eq!(replicas(&sandbox), 1);
        annotate(Value::Null, 0);
        assert_eq!(replicas(&sandbox), 1, "an active trigger has at least one");
    }

    #[test]
    fn a_pause_holds_a_workload_where_it_says() {
        let (sandbox, replicas) = scaled();
        let admin = sandbox.local(User::admin());
        let pause = |value: Value| {
            let annotations = json!({ "autoscaling.keda.sh/paused-replicas": value });
            let patch = json!({ "metadata": { "annotations": annotations } });
            admin.patch(SCALED_OBJECTS, "default", "web", "", &patch).unwrap();
            sandbox.settle();
        };
        pause(json!("0"));
        assert_eq!(replicas(&sandbox), 0, "at once");
        sandbox.advance(Duration::from_mins(2));
        assert_eq!(replicas(&sandbox), 0, "and for as long as it is there");
        pause(Value::Null);
        assert_eq!(replicas(&sandbox), 2, "and not longer");
    }
}
