//! Reads and writes the objects of the cluster that hook metrics name.

use kube::{
    Api,
    api::{DynamicObject, Patch, PatchParams},
    core::GroupVersionKind,
    discovery::{Scope, pinned_kind},
};
use serde_json::Value;
use tidegate_providers::game::{
    POD,
    measure::{ObjectQuestion, setting},
};

use crate::{
    cluster::{
        Cluster,
        write::{FIELD_MANAGER, Place},
    },
    install,
};

/// Reads the object, or sets the fields and reads what it is then. `None` if it is not there.
pub(super) async fn ask(
    cluster: &Cluster,
    question: &ObjectQuestion,
) -> Result<Option<Value>, String> {
    let ObjectQuestion { group, version, kind, namespace, name, sets, .. } = question;
    if (group.as_str(), version.as_str(), kind.as_str()) == ("", "v1", POD.kind) {
        let place = Place { kind: POD, namespace, name, subresource: "" };
        let outcome = if *sets {
            cluster.merge(place, &setting(question)).await.map(Some)
        } else {
            cluster.read(place).await
        };
        return outcome.map_err(|error| error.to_string());
    }
    if !cluster.leads() {
        return Err("not the leader any more".to_owned());
    }
    let wanted =
        GroupVersionKind { group: group.clone(), version: version.clone(), kind: kind.clone() };
    let found = pinned_kind(&cluster.client, &wanted).await;
    let (resource, capabilities) =
        found.map_err(|_| format!("this cluster does not know {kind} of {group}/{version}"))?;
    if capabilities.scope != Scope::Namespaced {
        return Err(format!("{kind} is not in a namespace"));
    }
    if *sets && is_ours(group, &resource.plural) {
        return Err(format!(
            "{kind} is the operator's own work: a hook may not set anything of it"
        ));
    }
    let api: Api<DynamicObject> =
        Api::namespaced_with(cluster.client.clone(), namespace, &resource);
    let outcome = if *sets {
        let parameters =
            PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        api.patch(name, &parameters, &Patch::Merge(setting(question))).await.map(Some)
    } else {
        api.get_opt(name).await
    };
    match outcome {
        Ok(object) => Ok(object.and_then(|object| serde_json::to_value(object).ok())),
        Err(kube::Error::Api(status)) if status.code == 403 => {
            Err(format!("the operator's role does not let it at {kind} {namespace}/{name}"))
        }
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(_) => Err(format!("{kind} {namespace}/{name} cannot be read now")),
    }
}

/// Whether the operator has rights to a kind for its own work. A user who may create a hook run must not get
/// them by that: an annotation of an Ingress configures the gateway. Rights to other kinds were granted to the
/// operator for hooks.
fn is_ours(group: &str, plural: &str) -> bool {
    let rules = install::rules(install::Scope::default()).into_iter().chain(install::game_rules());
    rules.into_iter().any(|rule| rule.group == group && rule.resource == plural)
}

#[cfg(test)]
mod tests;
