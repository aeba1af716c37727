//! The type table: lookups, strict decoding, normalisation and merge rules.

use serde_json::{Value, json};

use super::*;
use crate::shape::{ListKind, Shape};

fn deployment() -> &'static TypeDef {
    kind("apps", "v1", "Deployment").unwrap()
}

#[test]
fn every_kind_of_the_table_is_found_by_group_version_and_kind() {
    assert_eq!(kind("", "v1", "Pod").unwrap().name, "io.k8s.api.core.v1.Pod");
    assert_eq!(kind("apps", "v1", "DeploymentList").unwrap().short_name(), "DeploymentList");
    let options = by_api_version("batch/v1", "DeleteOptions").unwrap();
    assert_eq!(options.go_name(), "v1.DeleteOptions", "options travel in any group");
    assert!(kind("apps", "v2", "Deployment").is_none());
    assert!(table().types().len() > 300);
    for definition in table().types() {
        assert!(definition.fields.is_sorted_by_key(|field| field.name), "{}", definition.name);
    }
}

#[test]
fn unknown_fields_are_listed_with_their_paths() {
    let object = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "color": 1},
        "spec": {"foo": 1, "template": {"metadata": {"labels": {"any": "key"}}, "spec": {
            "containers": [{"name": "a"}, {"name": "b", "imagee": "x"}],
            "volumes": [{"name": "v", "emptyDir": {}, "emptydir": {}}]}}},
    });
    let unknown = check(deployment(), &object).unwrap();
    let want = [
        "metadata.color",
        "spec.foo",
        "spec.template.spec.containers[1].imagee",
        "spec.template.spec.volumes[0].emptydir",
    ];
    assert_eq!(unknown, want);
}

#[test]
fn a_value_of_the_wrong_type_is_refused_in_the_words_of_go() {
    let pod = kind("", "v1", "Pod").unwrap();
    let container = |member: Value| json!({"spec": {"containers": [member]}});
    let cases = [
        (
            deployment(),
            json!({"spec": {"replicas": "3"}}),
            "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of \
             type int32",
        ),
        (
            deployment(),
            json!({"spec": {"replicas": 1.5}}),
            "json: cannot unmarshal number 1.5 into Go struct field DeploymentSpec.spec.replicas \
             of type int32",
        ),
        (
            deployment(),
            json!({"spec": []}),
            "json: cannot unmarshal array into Go struct field Deployment.spec of type \
             v1.DeploymentSpec",
        ),
        (
            pod,
            json!({"metadata": {"labels": {"a": 1}}}),
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of \
             type string",
        ),
        (
            pod,
            container(json!({"env": [{"name": "A", "value": 1}]})),
            "json: cannot unmarshal number into Go struct field EnvVar.spec.containers.env.value \
             of type string",
        ),
        (
            pod,
            container(json!({"livenessProbe": {"httpGet": {"port": true}}})),
            "json: cannot unmarshal bool into Go struct field \
             HTTPGetAction.spec.containers.livenessProbe.httpGet.port of type int32",
        ),
        (
            pod,
            container(json!({"resources": {"limits": {"cpu": "lots"}}})),
            "quantities must match the regular expression \
             '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        (pod, json!(1), "json: cannot unmarshal number into Go value of type v1.Pod"),
    ];
    for (definition, object, want) in cases {
        assert_eq!(check(definition, &object), Err(want.to_owned()), "{object}");
    }
}

#[test]
fn normalising_does_what_a_round_trip_through_go_does() {
    let mut object = json!({
        "kind": "Deployment", "apiVersion": "apps/v1",
        "metadata": {"name": "web", "labels": {}, "annotations": null, "creationTimestamp": null},
        "spec": {
            "paused": false, "replicas": 0, "minReadySeconds": 0, "unheardOf": true,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"spec": {
                "containers": [{
                    "name": "web", "env": [], "stdin": false,
                    "resources": {"limits": {"cpu": 2, "memory": "1024Mi"}},
                    "livenessProbe": {"httpGet": {"port": "http"}, "periodSeconds": 0},
                }],
                "volumes": [{"name": "tmp", "emptyDir": {}}, {"name": "no", "secret": null}],
            }},
        },
        "status": {"conditions": [{"type": "Available", "status": "True",
            "lastUpdateTime": "2024-05-01T14:00:00.5+02:00"}]},
    });
    normalise(deployment(), &mut object);
    let want = json!({
        "kind": "Deployment", "apiVersion": "apps/v1",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 0, "strategy": {},
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {}, "spec": {
                "containers": [{
                    "name": "web",
                    "resources": {"limits": {"cpu": "2", "memory": "1Gi"}},
                    "livenessProbe": {"httpGet": {"port": "http"}},
                }],
                "volumes": [{"name": "tmp", "emptyDir": {}}, {"name": "no"}],
            }},
        },
        "status": {"conditions": [{"type": "Available", "status": "True",
            "lastTransitionTime": null, "lastUpdateTime": "2024-05-01T12:00:00Z"}]},
    });
    assert_eq!(object, want);
    let again = object.clone();
    normalise(deployment(), &mut object);
    assert_eq!(object, again, "once is enough");
}

#[test]
fn lists_and_maps_merge_as_the_api_declares() {
    let pod = BuiltinShape::of_kind("", "v1", "Pod").unwrap().field("spec");
    let containers = pod.field("containers");
    assert_eq!(containers.list(), ListKind::Map(vec!["name".into()]));
    assert_eq!(containers.patch_merge(), Some(Some("name".into())));
    assert_eq!(containers.key_default("name"), Some(json!("")));

    let ports = containers.items().field("ports");
    assert_eq!(ports.list(), ListKind::Map(vec!["containerPort".into(), "protocol".into()]));
    assert_eq!(ports.key_default("protocol"), Some(json!("TCP")));
    assert_eq!(ports.patch_merge(), Some(Some("containerPort".into())));

    assert_eq!(pod.field("volumes").patch_merge(), Some(Some("name".into())));
    assert!(pod.field("nodeSelector").is_atomic_object());
    assert_eq!(pod.field("tolerations").list(), ListKind::Atomic);
    assert_eq!(pod.field("nowhere").field("at").items().list(), ListKind::Atomic);

    let meta = BuiltinShape::of_kind("apps", "v1", "Deployment").unwrap().field("metadata");
    assert_eq!(meta.field("finalizers").list(), ListKind::Set);
    assert_eq!(meta.field("finalizers").patch_merge(), Some(None));
    assert!(!meta.field("labels").is_atomic_object());
    let selector = BuiltinShape::of_kind("apps", "v1", "Deployment").unwrap();
    assert!(selector.field("spec").field("selector").is_atomic_object());
    let revision = BuiltinShape::of_kind("apps", "v1", "ControllerRevision").unwrap();
    assert!(revision.field("data").is_atomic_object());
}
