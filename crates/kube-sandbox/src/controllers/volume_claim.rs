//! Binds every claim at once, like a default `StorageClass` with immediate binding.
//!
//! No volumes exist: the cluster stores no data. A claim with an empty class (`storageClassName:
//! ""`) waits for a volume made by hand.

use serde_json::{Value, json};

use crate::{
    cluster::{Cluster, Resource},
    controllers::{
        Change, Controller, Key, Next,
        object::{is_deleting, settle, text, uid},
    },
    failure::Outcome,
};

pub(super) const CLAIMS: Resource = Resource { group: "", plural: "persistentvolumeclaims" };

#[derive(Debug)]
pub(crate) struct VolumeClaimController;

impl Controller for VolumeClaimController {
    fn name(&self) -> &'static str {
        "persistentvolume-binder"
    }

    fn watches(&self) -> &'static [(&'static str, &'static str)] {
        &[("", "persistentvolumeclaims")]
    }

    fn keys(&self, _: &dyn Cluster, change: &Change<'_>) -> Vec<Key> {
        let (namespace, name) = (change.namespace.to_owned(), change.name.to_owned());
        change.new.map(|_| Key { namespace, name }).into_iter().collect()
    }

    fn reconcile(&mut self, cluster: &dyn Cluster, key: &Key) -> Next {
        let Some(claim) = cluster.get(CLAIMS, &key.namespace, &key.name) else {
            return Next::Idle;
        };
        let is_bound = text(&claim, "/status/phase") == "Bound";
        let is_by_hand = claim["spec"]["storageClassName"] == "";
        if is_bound || is_by_hand || is_deleting(&claim) {
            return Next::Idle;
        }
        settle(bind(cluster, key, &claim).map(|()| Next::Idle))
    }
}

fn bind(cluster: &dyn Cluster, key: &Key, claim: &Value) -> Outcome<()> {
    let Key { namespace, name } = key;
    if text(claim, "/spec/volumeName").is_empty() {
        let patch = json!({ "spec": { "volumeName": format!("pvc-{}", uid(claim)) } });
        cluster.patch(CLAIMS, namespace, name, "", &patch)?;
    }
    let spec = &claim["spec"];
    let patch = json!({ "status": {
        "phase": "Bound",
        "accessModes": spec["accessModes"],
        "capacity": { "storage": spec["resources"]["requests"]["storage"] },
    } });
    cluster.patch(CLAIMS, namespace, name, "status", &patch).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::testing::Simulation;

    fn claim(name: &str, class: &Value) -> Value {
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": name },
            "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": class,
                "resources": { "requests": { "storage": "1Gi" } },
            },
        })
    }

    #[test]
    fn a_claim_is_bound_to_a_volume_of_its_own_unless_somebody_makes_that_by_hand() {
        let mut simulation = Simulation::new();
        simulation.create(CLAIMS, claim("world", &Value::Null));
        simulation.create(CLAIMS, claim("by-hand", &json!("")));
        simulation.settle();
        let world = simulation.get(CLAIMS, "world");
        assert_eq!(world["status"]["phase"], "Bound", "{world:#}");
        assert_eq!(world["status"]["capacity"], json!({ "storage": "1Gi" }));
        assert_eq!(world["status"]["accessModes"], json!(["ReadWriteOnce"]));
        let volume = world["spec"]["volumeName"].as_str().unwrap_or_default().to_owned();
        assert!(volume.starts_with("pvc-"), "{volume}");
        assert_ne!(simulation.get(CLAIMS, "by-hand")["status"]["phase"], "Bound");
        simulation.settle();
        assert_eq!(simulation.get(CLAIMS, "world"), world, "nothing follows");
    }
}
