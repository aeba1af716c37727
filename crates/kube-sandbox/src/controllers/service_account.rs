//! Creates the `default` `ServiceAccount` and the root certificate's ConfigMap in every namespace.

use serde_json::{Value, json};

use crate::{
    cluster::{CONFIG_MAPS, Cluster, NAMESPACES, Resource, SERVICE_ACCOUNTS},
    controllers::{
        Change, Controller, Key, Next,
        object::{is_deleting, settle, text},
    },
    failure::Outcome,
};

const CERTIFICATE_MAP: &str = "kube-root-ca.crt";

#[derive(Debug)]
pub(crate) struct ServiceAccountController {
    /// PEM text of the certificate that the API server's own is signed by.
    pub(crate) root_certificate: String,
}

impl Controller for ServiceAccountController {
    fn name(&self) -> &'static str {
        "serviceaccount"
    }

    fn watches(&self) -> &'static [(&'static str, &'static str)] {
        &[("", "namespaces"), ("", "serviceaccounts"), ("", "configmaps")]
    }

    fn keys(&self, _: &dyn Cluster, change: &Change<'_>) -> Vec<Key> {
        let namespace = match (change.plural, change.name) {
            ("namespaces", name) => name,
            ("serviceaccounts", "default") | ("configmaps", CERTIFICATE_MAP) => change.namespace,
            _ => return Vec::new(),
        };
        vec![Key { namespace: String::new(), name: namespace.to_owned() }]
    }

    fn reconcile(&mut self, cluster: &dyn Cluster, key: &Key) -> Next {
        let Some(namespace) = cluster.get(NAMESPACES, "", &key.name) else { return Next::Idle };
        if is_deleting(&namespace) || text(&namespace, "/status/phase") == "Terminating" {
            return Next::Idle;
        }
        settle(self.sync(cluster, &key.name).map(|()| Next::Idle))
    }
}

impl ServiceAccountController {
    fn sync(&self, cluster: &dyn Cluster, namespace: &str) -> Outcome<()> {
        let account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": { "name": "default", "namespace": namespace },
        });
        ensure(cluster, SERVICE_ACCOUNTS, namespace, "default", account)?;
        let data = json!({ "ca.crt": self.root_certificate });
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": CERTIFICATE_MAP, "namespace": namespace,
                "annotations": { "kubernetes.io/description":
                    "Contains the certificate authority that signed this API server's certificate." },
            },
            "data": data,
        });
        let stored = ensure(cluster, CONFIG_MAPS, namespace, CERTIFICATE_MAP, map)?;
        if stored.get("data") != Some(&data) {
            let patch = json!({ "data": data });
            cluster.patch(CONFIG_MAPS, namespace, CERTIFICATE_MAP, "", &patch)?;
        }
        Ok(())
    }
}

/// The object with that name, created if missing.
fn ensure(
    cluster: &dyn Cluster,
    resource: Resource,
    namespace: &str,
    name: &str,
    object: Value,
) -> Outcome<Value> {
    if let Some(existing) = cluster.get(resource, namespace, name) {
        return Ok(existing);
    }
    match cluster.create(resource, namespace, object.clone()) {
        Err(failure) if failure.is_already_exists() => Ok(object),
        outcome => outcome,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::testing::Simulation;

    #[test]
    fn a_namespace_gets_its_account_and_certificate_back_when_they_are_deleted() {
        let mut simulation = Simulation::new();
        simulation.settle();
        let account = simulation.get(SERVICE_ACCOUNTS, "default");
        assert_eq!(account["metadata"]["namespace"], "default");
        simulation.delete(SERVICE_ACCOUNTS, "default");
        simulation.delete(CONFIG_MAPS, CERTIFICATE_MAP);
        simulation.settle();
        assert!(simulation.find(SERVICE_ACCOUNTS, "default").is_some());
        let map = simulation.get(CONFIG_MAPS, CERTIFICATE_MAP);
        assert_eq!(map["data"]["ca.crt"], "test certificate");
    }
}
