//! Creates revisions for Services of Knative, if the cluster has its CRDs ([`knative_crds`]).
//!
//! Every template becomes a Revision, and every Revision a Deployment of one replica, which is not
//! scaled by traffic. A revision becomes ready when its Deployment has an available pod, and stays
//! ready. The Service's status has the latest created revision, the latest ready one, and the
//! traffic split; an entry for the latest revision points to the latest ready one.

use serde_json::{Value, json};

use crate::{
    cluster::{Cluster, DEPLOYMENTS, Resource},
    controllers::{
        Change, Controller, Key, Next,
        hash::canonical,
        object::{
            Kind, count, is_deleting, items, label, name, namespace, owner_reference, set_at,
            settle, text, uid, write_status,
        },
    },
    definitions,
    failure::Outcome,
    manifests,
};

/// `serving.knative.dev`: Services of Knative.
pub const KNATIVE_SERVICES: Resource =
    Resource { group: "serving.knative.dev", plural: "services" };
/// `serving.knative.dev`: Revisions of Knative.
pub const KNATIVE_REVISIONS: Resource =
    Resource { group: "serving.knative.dev", plural: "revisions" };

/// Of no router: revisions follow their Service.
const REVISION_CRD: &str = include_str!("../../data/crds/knative-revision.yaml");
const SERVICE: Kind = Kind { api_version: "serving.knative.dev/v1", kind: "Service" };
const REVISION: Kind = Kind { api_version: "serving.knative.dev/v1", kind: "Revision" };
/// Labels of objects created for a Service.
const SERVICE_LABEL: &str = "serving.knative.dev/service";
const REVISION_LABEL: &str = "serving.knative.dev/revision";
/// The number of revisions, including this one.
const NUMBER_LABEL: &str = "serving.knative.dev/configurationGeneration";

/// The annotation with the template of a revision.
const TEMPLATE: &str = "sandbox.tidegate.dev/template";

#[derive(Debug, Default)]
pub(crate) struct KnativeController;

/// The `CustomResourceDefinition`s of Knative's Service and Revision, ready to be loaded.
pub fn knative_crds() -> Vec<Value> {
    let revision = manifests::parse(REVISION_CRD).expect("our own definition is YAML");
    [definitions::of_groups(&["serving.knative.dev"]), revision].concat()
}

// === impl KnativeController ===

impl Controller for KnativeController {
    fn name(&self) -> &'static str {
        "knative"
    }

    fn watches(&self) -> &'static [(&'static str, &'static str)] {
        &[("serving.knative.dev", "services"), ("apps", "deployments")]
    }

    fn keys(&self, _: &dyn Cluster, change: &Change<'_>) -> Vec<Key> {
        let name = match change.plural {
            "deployments" => change.new.or(change.old).and_then(|it| label(it, SERVICE_LABEL)),
            _ => Some(change.name),
        };
        let key =
            |name: &str| Key { namespace: change.namespace.to_owned(), name: name.to_owned() };
        name.map(key).into_iter().collect()
    }

    fn reconcile(&mut self, cluster: &dyn Cluster, key: &Key) -> Next {
        let Some(service) = cluster.get(KNATIVE_SERVICES, &key.namespace, &key.name) else {
            return Next::Idle;
        };
        if is_deleting(&service) {
            return Next::Idle;
        }
        settle(sync(cluster, &service).map(|()| Next::Idle))
    }
}

fn sync(cluster: &dyn Cluster, service: &Value) -> Outcome<()> {
    let mut revisions = cluster.owned(KNATIVE_REVISIONS, namespace(service), uid(service));
    revisions.sort_by_key(number);
    let template = service.pointer("/spec/template").cloned().unwrap_or_default();
    let is_made = |revision: &Value| canonical(&made_of(revision)) == canonical(&template);
    if !revisions.last().is_some_and(is_made) {
        let number = revisions.last().map_or(0, number) + 1;
        revisions.push(create_revision(cluster, service, &template, number)?);
    }
    let mut reported = Vec::new();
    for revision in revisions {
        reported.push(report(cluster, service, revision)?);
    }
    let status = status(service, &reported);
    write_status(cluster, KNATIVE_SERVICES, service, status)?;
    Ok(())
}

fn number(revision: &Value) -> i64 {
    label(revision, NUMBER_LABEL).and_then(|number| number.parse().ok()).unwrap_or_default()
}

/// The template of a revision.
fn made_of(revision: &Value) -> Value {
    revision
        .pointer("/metadata/annotations")
        .and_then(|it| it[TEMPLATE].as_str())
        .map_or(Value::Null, |text| serde_json::from_str(text).unwrap_or_default())
}

fn create_revision(
    cluster: &dyn Cluster,
    service: &Value,
    template: &Value,
    number: i64,
) -> Outcome<Value> {
    let usual = format!("{}-{number:05}", name(service));
    let chosen = text(template, "/metadata/name");
    let name = if chosen.is_empty() { usual.as_str() } else { chosen };
    let mut spec = template["spec"].clone();
    if let Some(containers) = spec.get_mut("containers").and_then(Value::as_array_mut) {
        for (index, container) in containers.iter_mut().enumerate() {
            if text(container, "/name").is_empty() {
                set_at(container, &["name"], format!("user-container-{index}"));
            }
        }
    }
    let labels = json!({
        SERVICE_LABEL: text(service, "/metadata/name"), NUMBER_LABEL: number.to_string(),
    });
    let revision = json!({
        "apiVersion": REVISION.api_version, "kind": REVISION.kind,
        "metadata": {
            "name": name, "labels": labels,
            "annotations": { TEMPLATE: template.to_string() },
            "ownerReferences": [owner_reference(SERVICE, service)],
        },
        "spec": spec,
    });
    cluster.create(KNATIVE_REVISIONS, namespace(service), revision)
}

/// Updates a revision from its Deployment, including its readiness.
fn report(cluster: &dyn Cluster, service: &Value, revision: Value) -> Outcome<Value> {
    if is_ready(&revision) {
        return Ok(revision);
    }
    let own = name(&revision);
    let deployment = format!("{own}-deployment");
    let live = match cluster.get(DEPLOYMENTS, namespace(service), &deployment) {
        Some(live) => live,
        None => create_deployment(cluster, service, &revision, &deployment)?,
    };
    let is_up = count(&live, "/status/availableReplicas") > 0;
    let ready = if is_up { "True" } else { "Unknown" };
    let conditions = json!([{ "type": "Ready", "status": ready }]);
    write_status(cluster, KNATIVE_REVISIONS, &revision, json!({ "conditions": conditions }))
}

fn is_ready(revision: &Value) -> bool {
    items(revision, "/status/conditions")
        .iter()
        .any(|it| text(it, "/type") == "Ready" && text(it, "/status") == "True")
}

fn create_deployment(
    cluster: &dyn Cluster,
    service: &Value,
    revision: &Value,
    called: &str,
) -> Outcome<Value> {
    let labels = json!({ SERVICE_LABEL: name(service), REVISION_LABEL: name(revision) });
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": called, "labels": labels,
            "ownerReferences": [owner_reference(REVISION, revision)],
        },
        "spec": {
            "replicas": 1,
            "selector": { "matchLabels": { REVISION_LABEL: name(revision) } },
            "template": { "metadata": { "labels": labels }, "spec": revision["spec"] },
        },
    });
    cluster.create(DEPLOYMENTS, namespace(service), deployment)
}

/// The status of a Service with these revisions, the oldest first.
fn status(service: &Value, revisions: &[Value]) -> Value {
    let created = revisions.last().map(name).unwrap_or_default();
    let ready = revisions.iter().rfind(|revision| is_ready(revision)).map(name);
    let is_known = |name: &str| revisions.iter().any(|revision| self::name(revision) == name);
    let entries = items(service, "/spec/traffic");
    let usual = [json!({ "latestRevision": true, "percent": 100 })];
    let entries = if entries.is_empty() { &usual[..] } else { entries };
    let follows = |entry: &Value| text(entry, "/revisionName").is_empty();
    let can_be = entries.iter().all(|entry| {
        if follows(entry) { ready.is_some() } else { is_known(text(entry, "/revisionName")) }
    });
    // A traffic split that cannot be carried out leaves the previous one in place.
    let traffic = if can_be {
        let carried_out = entries.iter().map(|entry| {
            let is_latest = follows(entry);
            let mut entry = entry.clone();
            set_at(&mut entry, &["latestRevision"], is_latest);
            if is_latest {
                set_at(&mut entry, &["revisionName"], ready.unwrap_or_default());
            }
            entry
        });
        carried_out.collect()
    } else {
        items(service, "/status/traffic").to_vec()
    };
    let is_current = can_be && ready == Some(created);
    let condition = |kind: &str, is_so: bool| json!({ "type": kind, "status": if is_so { "True" } else { "Unknown" } });
    let mut status = json!({
        "observedGeneration": count(service, "/metadata/generation"),
        "latestCreatedRevisionName": created,
        "traffic": traffic,
        "url": format!("http://{}.{}.example.com", name(service), namespace(service)),
        "conditions": [
            condition("ConfigurationsReady", ready == Some(created)),
            condition("RoutesReady", can_be), condition("Ready", is_current),
        ],
    });
    if let Some(ready) = ready {
        set_at(&mut status, &["latestReadyRevisionName"], ready);
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Sandbox, Settings, server::User, server::local::Local};

    fn cluster() -> (Sandbox, Local) {
        let sandbox = Sandbox::new(Settings::for_tests());
        sandbox.load(knative_crds()).unwrap();
        let admin = sandbox.local(User::admin());
        let service = json!({
            "apiVersion": "serving.knative.dev/v1", "kind": "Service",
            "metadata": { "name": "web" }, "spec": { "template": template("web:1") },
        });
        admin.create(KNATIVE_SERVICES, "default", service).unwrap();
        sandbox.settle();
        (sandbox, admin)
    }

    fn template(image: &str) -> Value {
        json!({ "spec": { "containers": [{ "image": image }] } })
    }

    fn change(sandbox: &Sandbox, admin: &Local, spec: &Value) -> Value {
        let patch = json!({ "spec": spec });
        admin.patch(KNATIVE_SERVICES, "default", "web", "", &patch).unwrap();
        sandbox.settle();
        admin.get(KNATIVE_SERVICES, "default", "web").unwrap()["status"].clone()
    }

    #[test]
    fn every_template_is_a_revision_and_traffic_follows_the_latest_that_can_serve() {
        let (sandbox, admin) = cluster();
        let status = change(&sandbox, &admin, &json!({}));
        assert_eq!(status["latestReadyRevisionName"], "web-00001");
        assert_eq!(status["traffic"][0]["revisionName"], "web-00001");
        let broken = json!({ "template": template("web:2-never-ready") });
        let status = change(&sandbox, &admin, &broken);
        assert_eq!(status["latestCreatedRevisionName"], "web-00002");
        assert_eq!(status["latestReadyRevisionName"], "web-00001", "it cannot serve");
        assert_eq!(status["traffic"][0]["revisionName"], "web-00001");
        let status = change(&sandbox, &admin, &json!({ "template": template("web:3") }));
        assert_eq!(status["latestReadyRevisionName"], "web-00003");
        assert_eq!(status["traffic"][0]["revisionName"], "web-00003");
    }

    #[test]
    fn traffic_is_divided_as_asked_and_makes_no_revision() {
        let (sandbox, admin) = cluster();
        change(&sandbox, &admin, &json!({ "template": template("web:2") }));
        let entries = json!([
            { "latestRevision": true, "percent": 20 },
            { "latestRevision": false, "revisionName": "web-00001", "percent": 80 },
        ]);
        let status = change(&sandbox, &admin, &json!({ "traffic": entries }));
        assert_eq!(status["latestCreatedRevisionName"], "web-00002");
        let of =
            |at: usize| (&status["traffic"][at]["revisionName"], &status["traffic"][at]["percent"]);
        assert_eq!(of(0), (&json!("web-00002"), &json!(20)));
        assert_eq!(of(1), (&json!("web-00001"), &json!(80)));
        let nowhere = json!([{ "revisionName": "web-00009", "percent": 100 }]);
        let after = change(&sandbox, &admin, &json!({ "traffic": nowhere }));
        assert_eq!(after["traffic"], status["traffic"], "what cannot be leaves what was");
    }
}
