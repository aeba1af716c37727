//! One pod of a StatefulSet: number, name and volumes.

use serde_json::{Map, Value, json};

use super::{REVISION_LABEL, STATEFUL_SET};
use crate::{
    cluster::Cluster,
    controllers::{
        object::{items, name, namespace, set_at, strings, text, unset},
        pods, revisions,
        volume_claim::CLAIMS,
    },
    failure::Outcome,
};

/// The number of a pod in its set; `None` for a pod with another name.
pub(super) fn ordinal(set: &Value, pod: &Value) -> Option<i64> {
    let number = name(pod).strip_prefix(name(set))?.strip_prefix('-')?;
    number.parse().ok().filter(|number| *number >= 0)
}

/// Builds the pod `ordinal` from `revision`.
pub(super) fn build(set: &Value, revision: &Value, ordinal: i64) -> Value {
    let mut pod = pods::from_template(&revisions::template(revision), set, STATEFUL_SET);
    let pod_name = format!("{}-{ordinal}", name(set));
    unset(&mut pod, "/metadata", "generateName");
    set_at(&mut pod, &["metadata", "name"], pod_name.as_str());
    let labels = [
        ("statefulset.kubernetes.io/pod-name", pod_name.clone()),
        ("apps.kubernetes.io/pod-index", ordinal.to_string()),
        (REVISION_LABEL, name(revision).to_owned()),
    ];
    for (key, value) in labels {
        set_at(&mut pod, &["metadata", "labels", key], value);
    }
    set_at(&mut pod, &["spec", "hostname"], pod_name);
    if !text(set, "/spec/serviceName").is_empty() {
        set_at(&mut pod, &["spec", "subdomain"], text(set, "/spec/serviceName"));
    }
    mount_claims(set, ordinal, &mut pod);
    pod
}

/// A claim's volume replaces a template volume of the same name.
fn mount_claims(set: &Value, ordinal: i64, pod: &mut Value) {
    let templates = items(set, "/spec/volumeClaimTemplates");
    if templates.is_empty() {
        return;
    }
    let mut volumes: Vec<Value> = templates
        .iter()
        .map(|claim| {
            let claim_name = claim_name(set, claim, ordinal);
            json!({ "name": name(claim), "persistentVolumeClaim": { "claimName": claim_name } })
        })
        .collect();
    let own = items(pod, "/spec/volumes").iter();
    let own = own.filter(|volume| templates.iter().all(|c| name(c) != text(volume, "/name")));
    volumes.extend(own.cloned());
    set_at(pod, &["spec", "volumes"], volumes);
}

fn claim_name(set: &Value, claim: &Value, ordinal: i64) -> String {
    format!("{}-{}-{ordinal}", name(claim), name(set))
}

/// Creates the volume claims of one pod, if the cluster serves claims.
pub(super) fn create_claims(cluster: &dyn Cluster, set: &Value, ordinal: i64) -> Outcome<()> {
    for template in items(set, "/spec/volumeClaimTemplates") {
        let claim_name = claim_name(set, template, ordinal);
        if cluster.get(CLAIMS, namespace(set), &claim_name).is_some() {
            continue;
        }
        let mut labels: Map<String, Value> = Map::new();
        let own = strings(template.pointer("/metadata/labels"));
        for (key, value) in
            own.into_iter().chain(strings(set.pointer("/spec/selector/matchLabels")))
        {
            labels.insert(key.to_owned(), value.into());
        }
        let mut claim = template.clone();
        unset(&mut claim, "", "status");
        set_at(&mut claim, &["apiVersion"], "v1");
        set_at(&mut claim, &["kind"], "PersistentVolumeClaim");
        set_at(&mut claim, &["metadata", "name"], claim_name);
        set_at(&mut claim, &["metadata", "namespace"], namespace(set));
        set_at(&mut claim, &["metadata", "labels"], labels);
        match cluster.create(CLAIMS, namespace(set), claim) {
            // A cluster without claims does not check volumes of pods either.
            Err(failure) if failure.is_not_found() => return Ok(()),
            Err(failure) if !failure.is_already_exists() => return Err(failure),
            _ => {}
        }
    }
    Ok(())
}
