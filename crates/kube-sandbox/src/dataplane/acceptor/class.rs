//! Accepts `GatewayClass` objects that name the sandbox's controller.

use serde_json::{Value, json};

use super::{CONTROLLER_NAME, Verdict, generation, judged};
use crate::{
    cluster::Cluster,
    controllers::{
        Change, Controller, Key, Next,
        object::{settle, text, write_status},
    },
    dataplane::crds::GATEWAY_CLASSES,
};

pub(super) struct ClassController;

impl Controller for ClassController {
    fn name(&self) -> &'static str {
        "gatewayclass"
    }

    fn watches(&self) -> &'static [(&'static str, &'static str)] {
        &[("gateway.networking.k8s.io", "gatewayclasses")]
    }

    fn keys(&self, _: &dyn Cluster, change: &Change<'_>) -> Vec<Key> {
        vec![Key { namespace: String::new(), name: change.name.to_owned() }]
    }

    fn reconcile(&mut self, cluster: &dyn Cluster, key: &Key) -> Next {
        let class = cluster.get(GATEWAY_CLASSES, "", &key.name);
        let is_ours = |class: &Value| text(class, "/spec/controllerName") == CONTROLLER_NAME;
        let Some(class) = class.filter(is_ours) else { return Next::Idle };
        let accepted = Verdict {
            kind: "Accepted",
            holds: true,
            reason: "Accepted",
            message: "The sandbox runs gateways of this class",
        };
        let old = class.get("status").cloned().unwrap_or_default();
        let conditions = judged(&old, generation(&class), &[accepted], cluster.now());
        let status = json!({ "conditions": conditions });
        settle(write_status(cluster, GATEWAY_CLASSES, &class, status).map(|_| Next::Idle))
    }
}
