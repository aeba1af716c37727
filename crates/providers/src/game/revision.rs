//! Revisions: templates as they were, each in a `ControllerRevision`.

use serde_json::{Value, json};
use tidegate_engine::{
    Revision,
    game::{
        KnownRevision, RevisionChoice, StoredRevision, canonical_template, choose_revision,
        revision_data,
    },
};

use super::{CONTROLLER_REVISION, engine_json, names};
use crate::object::Kind;

/// The template's data, as its revision holds it.
pub fn data(template: &Value) -> String {
    revision_data(&engine_json(template))
}

/// Which revision a template is: that with the same data, or else the newest equivalent one. Some were stored
/// by others in another form, and a workload that is taken over must not be rolled for that.
pub fn choose(
    workload: &str,
    template: &Value,
    revisions: &[&Value],
    collisions: u32,
) -> RevisionChoice {
    let known: Vec<StoredRevision> = revisions.iter().map(|object| stored(object)).collect();
    let choice = choose_revision(workload, &data(template), &known, collisions);
    if !matches!(choice, RevisionChoice::Create { .. }) {
        return choice;
    }
    let wanted = canonical_template(&engine_json(template));
    let number = |object: &Value| object["revision"].as_i64().unwrap_or_default();
    let means_it =
        |object: &&&Value| canonical_template(&engine_json(&self::template(object))) == wanted;
    let same = revisions.iter().filter(means_it).max_by_key(|object| number(object));
    let Some(same) = same else { return choice };
    match choice {
        RevisionChoice::Create { number: next, .. } if number(same) + 1 < next => {
            RevisionChoice::Renumber(name(same), next)
        }
        _ => RevisionChoice::Use(name(same)),
    }
}

/// A stored revision by its data, to be compared.
fn stored(object: &Value) -> StoredRevision {
    StoredRevision {
        name: name(object),
        number: object["revision"].as_i64().unwrap_or_default(),
        data: engine_json(&object["data"]).compact(),
    }
}

/// A stored revision by its template, for the engine.
pub fn known(object: &Value) -> KnownRevision {
    KnownRevision {
        name: name(object),
        number: object["revision"].as_i64().unwrap_or_default(),
        template: engine_json(&template(object)),
    }
}

/// The template a revision holds, without the fields that only revisions have.
pub fn template(object: &Value) -> Value {
    let mut template = object["data"]["spec"]["template"].clone();
    if let Some(members) = template.as_object_mut() {
        members.remove("$patch");
        let metadata = members.get_mut("metadata").and_then(Value::as_object_mut);
        if let Some(metadata) = metadata
            && metadata.get("creationTimestamp").is_some_and(Value::is_null)
        {
            metadata.remove("creationTimestamp");
        }
    }
    template
}

/// A revision to make.
pub fn new(kind: Kind, workload: &Value, name: &Revision, number: i64, data: &str) -> Value {
    let metadata = &workload["metadata"];
    let data: Value = serde_json::from_str(data).unwrap_or_default();
    let mut labels = data["spec"]["template"]["metadata"]["labels"].clone();
    if !labels.is_object() {
        labels = json!({});
    }
    let hash = name.as_str().rsplit('-').next().unwrap_or_default();
    labels[names::HASH] = hash.into();
    let mut made = json!({
        "apiVersion": CONTROLLER_REVISION.api_version(), "kind": CONTROLLER_REVISION.kind,
        "metadata": {
            "name": name.as_str(), "namespace": metadata["namespace"], "labels": labels,
            "ownerReferences": [owner(kind, workload)],
        },
        "data": data, "revision": number,
    });
    let annotations = metadata["annotations"].as_object().into_iter().flatten();
    // kubectl's annotation of the workload is no property of a template, and large.
    let kept = annotations
        .filter(|(name, _)| !name.starts_with("kubectl.kubernetes.io/") && *name != names::ASK);
    for (name, value) in kept {
        made["metadata"]["annotations"][name] = value.clone();
    }
    made
}

/// The owner reference of an object to its workload.
pub fn owner(kind: Kind, workload: &Value) -> Value {
    json!({
        "apiVersion": kind.api_version(), "kind": kind.kind,
        "name": workload["metadata"]["name"], "uid": workload["metadata"]["uid"],
        "controller": true, "blockOwnerDeletion": true,
    })
}

fn name(object: &Value) -> Revision {
    Revision::new(object["metadata"]["name"].as_str().unwrap_or_default())
}
