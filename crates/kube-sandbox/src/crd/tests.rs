//! Definitions: defaults, validation errors, accepted names and served versions.

use serde_json::{Value, json};

use super::{status::Conflict, *};

const NOW: &str = "2026-01-02T03:04:05Z";

/// A valid definition, as a base for invalid ones.
fn crontabs() -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "replicas": {"type": "integer"}, "cronSpec": {"type": "string"}}},
        "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}}}}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "crontabs.stable.example.com"},
        "spec": {
            "group": "stable.example.com", "scope": "Namespaced",
            "names": {"plural": "crontabs", "kind": "CronTab", "shortNames": ["ct"],
                "categories": ["all"]},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": schema,
                "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas",
                    "statusReplicasPath": ".status.replicas"}},
                "additionalPrinterColumns": [{"name": "Spec", "type": "string",
                    "jsonPath": ".spec.cronSpec", "priority": 1}],
                "selectableFields": [{"jsonPath": ".spec.cronSpec"}]}]},
    })
}

fn stored(mut crd: Value) -> Value {
    defaults(&mut crd);
    reset_status(&mut crd, None);
    crd
}

fn errors_of(crd: &Value, old: Option<&Value>) -> Vec<String> {
    validate(crd, old).iter().map(ToString::to_string).collect()
}

#[test]
fn a_sound_definition_is_completed_accepted_and_served() {
    let mut crd = stored(crontabs());
    assert_eq!(errors_of(&crd, None), [""; 0]);
    assert_eq!(crd["spec"]["names"]["singular"], "crontab");
    assert_eq!(crd["spec"]["names"]["listKind"], "CronTabList");
    assert_eq!(crd["spec"]["conversion"], json!({"strategy": "None"}));
    assert_eq!(crd["status"]["storedVersions"], json!(["v1"]));

    crd["status"] = accepted_status(&crd, NOW, &[]);
    assert_eq!(crd["status"]["acceptedNames"], crd["spec"]["names"]);
    assert_eq!(
        crd["status"]["conditions"],
        json!([
        {"type": "NamesAccepted", "status": "True", "reason": "NoConflicts",
            "message": "no conflicts found", "lastTransitionTime": NOW},
        {"type": "Established", "status": "True", "reason": "InitialNamesAccepted",
            "message": "the initial names have been accepted", "lastTransitionTime": NOW}])
    );
    let later = accepted_status(&crd, "2027-01-01T00:00:00Z", &[]);
    assert_eq!(later, crd["status"], "nothing changed, so no times change");

    let parsed = parse(&crd).expect("it is sound");
    assert_eq!(parsed.group, "stable.example.com");
    assert_eq!(parsed.names.short_names, ["ct"]);
    assert!(parsed.is_namespaced());
    let version = parsed.storage_version().expect("one is stored");
    assert!(version.status_subresource && version.served && !version.deprecated);
    assert_eq!(
        version.scale.as_ref().map(|scale| scale.spec_replicas.as_str()),
        Some(".spec.replicas")
    );
    assert_eq!(version.printer_columns.first().map(|column| column.priority), Some(1));
    assert_eq!(version.selectable_fields, [".spec.cronSpec"]);
    assert!(version.schema.validate(&json!({"spec": {"replicas": 1}}), None).is_empty());
    assert_eq!(version.raw_schema["type"], "object");
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn unsound_definitions_are_refused_as_kubernetes_refuses_them() {
    let version = "/spec/versions/0";
    let cases: [(&str, String, Value, &str); 25] = [
        (
            "name",
            "/metadata/name".into(),
            json!("x.y"),
            "metadata.name: Invalid value: \"x.y\": must be spec.names.plural+\".\"+spec.group",
        ),
        (
            "scope",
            "/spec/scope".into(),
            json!("World"),
            "spec.scope: Unsupported value: \"World\": supported values: \"Cluster\", \"Namespaced\"",
        ),
        ("no scope", "/spec/scope".into(), json!(""), "spec.scope: Required value"),
        (
            "group",
            "/spec/group".into(),
            json!("example"),
            "spec.group: Invalid value: \"example\": should be a domain with at least one dot",
        ),
        (
            "no storage",
            format!("{version}/storage"),
            json!(false),
            "must have exactly one version marked as storage version",
        ),
        (
            "no schema",
            format!("{version}/schema"),
            Value::Null,
            "spec.versions[0].schema.openAPIV3Schema: Required value",
        ),
        (
            "version name",
            format!("{version}/name"),
            json!("V1"),
            "spec.versions[0].name: Invalid value: \"V1\": a DNS-1035 label must consist of",
        ),
        (
            "schema",
            format!("{version}/schema/openAPIV3Schema/properties/spec"),
            json!({}),
            "spec.validation.openAPIV3Schema.properties[spec].type: Required value: must not be empty for specified object fields",
        ),
        (
            "rule",
            format!("{version}/schema/openAPIV3Schema/properties/spec/x-kubernetes-validations"),
            json!([{"rule": "self.x"}]),
            "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule: Invalid value:",
        ),
        (
            "root keyword",
            format!("{version}/schema/openAPIV3Schema/allOf"),
            json!([]),
            "only [Description Type Format",
        ),
        (
            "scale",
            format!("{version}/subresources/scale/specReplicasPath"),
            json!(".status.x"),
            "spec.subresources.scale.specReplicasPath: Invalid value: \".status.x\": should be a json path under .spec",
        ),
        (
            "scale path",
            format!("{version}/subresources/scale/statusReplicasPath"),
            json!("status"),
            "spec.subresources.scale.statusReplicasPath: Invalid value: \"status\": must be a simple json path starting with .",
        ),
        (
            "column type",
            format!("{version}/additionalPrinterColumns/0/type"),
            json!("time"),
            "spec.additionalPrinterColumns[0].type: Invalid value: \"time\": must be one of boolean,date,integer,number,string",
        ),
        (
            "column path",
            format!("{version}/additionalPrinterColumns/0/jsonPath"),
            json!(""),
            "spec.additionalPrinterColumns[0].JSONPath: Required value",
        ),
        (
            "column name",
            format!("{version}/additionalPrinterColumns/0/name"),
            json!(""),
            "spec.additionalPrinterColumns[0].name: Required value",
        ),
        (
            "selectable",
            format!("{version}/selectableFields/0/jsonPath"),
            json!(".spec.nope"),
            "spec.selectableFields[0].jsonPath: Invalid value: \".spec.nope\": is an invalid path: does not refer to a valid field",
        ),
        (
            "selectable object",
            format!("{version}/selectableFields/0/jsonPath"),
            json!(".spec"),
            "must point to a field of type string, boolean or integer",
        ),
        (
            "warning",
            format!("{version}/deprecationWarning"),
            json!("old"),
            "spec.versions[0].deprecationWarning: Invalid value: \"old\": can only be set for deprecated versions",
        ),
        (
            "plural",
            "/spec/names/plural".into(),
            json!("Crontabs"),
            "spec.names.plural: Invalid value: \"Crontabs\": a DNS-1035 label",
        ),
        (
            "kind",
            "/spec/names/kind".into(),
            json!("Cron_Tab"),
            "spec.names.kind: Invalid value: \"Cron_Tab\": may have mixed case, but should otherwise match:",
        ),
        (
            "list kind",
            "/spec/names/listKind".into(),
            json!("CronTab"),
            "spec.names.listKind: Invalid value: \"CronTab\": kind and listKind may not be the same",
        ),
        (
            "short name",
            "/spec/names/shortNames/0".into(),
            json!("-"),
            "spec.names.shortNames[0]: Invalid value: \"-\":",
        ),
        (
            "conversion",
            "/spec/conversion".into(),
            json!({"strategy": "Webhook"}),
            "spec.conversion.strategy: Forbidden: the sandbox calls no conversion webhooks",
        ),
        (
            "preserving",
            "/spec/preserveUnknownFields".into(),
            json!(true),
            "spec.preserveUnknownFields: Invalid value: true: cannot set to true",
        ),
        (
            "stored",
            "/status/storedVersions".into(),
            json!(["v1", "v0"]),
            "status.storedVersions[1]: Invalid value: \"v0\": missing from spec.versions; v0 was previously a storage version",
        ),
    ];
    for (reason, pointer, value, want) in cases {
        let mut crd = stored(crontabs());
        let (parent, name) = pointer.rsplit_once('/').expect("a pointer");
        let parent = crd.pointer_mut(parent).expect("the parent exists");
        match name.parse::<usize>() {
            Ok(index) => parent[index] = value,
            Err(_) => parent[name] = value,
        }
        let errors = errors_of(&crd, None);
        assert!(errors.iter().any(|error| error.contains(want)), "{reason}: {errors:#?}");
    }
}

#[test]
fn versions_that_differ_are_blamed_one_by_one() {
    let mut crd = crontabs();
    let mut second = crd["spec"]["versions"][0].clone();
    second["name"] = "v2".into();
    second["storage"] = false.into();
    second["schema"]["openAPIV3Schema"]["properties"]["spec"] = json!({});
    crd["spec"]["versions"].as_array_mut().expect("versions").push(second.clone());
    let want = "spec.versions[1].schema.openAPIV3Schema.properties[spec].type: Required value";
    assert!(errors_of(&stored(crd.clone()), None).iter().any(|error| error.starts_with(want)));
    second["name"] = "v1".into();
    crd["spec"]["versions"][1] = second;
    let errors = errors_of(&stored(crd), None);
    assert!(errors.iter().any(|error| error.contains("must contain unique version names")));
}

#[test]
fn what_places_objects_cannot_change() {
    let mut old = stored(crontabs());
    let mut new = old.clone();
    new["spec"]["scope"] = "Cluster".into();
    new["spec"]["names"]["kind"] = "Other".into();
    assert_eq!(errors_of(&new, Some(&old)), [""; 0], "nothing is served yet");
    old["status"] = accepted_status(&old, NOW, &[]);
    new["status"] = old["status"].clone();
    assert_eq!(
        errors_of(&new, Some(&old)),
        [
            "spec.scope: Invalid value: \"Cluster\": field is immutable",
            "spec.names.kind: Invalid value: \"Other\": field is immutable",
        ]
    );
}

#[test]
fn a_changed_storage_version_is_remembered() {
    let old = stored(crontabs());
    let mut new = old.clone();
    let mut second = new["spec"]["versions"][0].clone();
    second["name"] = "v2".into();
    new["spec"]["versions"][0]["storage"] = false.into();
    new["spec"]["versions"].as_array_mut().expect("versions").push(second);
    new["status"] = json!({"storedVersions": ["forged"]});
    reset_status(&mut new, Some(&old));
    assert_eq!(new["status"]["storedVersions"], json!(["v1", "v2"]));
    assert_eq!(errors_of(&new, Some(&old)), [""; 0]);
}

#[test]
fn community_groups_need_approval() {
    let crd = |annotation: Option<&str>| {
        let mut crd = crontabs();
        crd["metadata"]["name"] = "crontabs.batch.k8s.io".into();
        crd["spec"]["group"] = "batch.k8s.io".into();
        if let Some(text) = annotation {
            crd["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": text});
        }
        stored(crd)
    };
    let missing = errors_of(&crd(None), None);
    assert_eq!(
        missing,
        ["metadata.annotations[api-approved.kubernetes.io]: Required value: \
        protected groups must have approval annotation \"api-approved.kubernetes.io\", see \
        https://github.com/kubernetes/enhancements/pull/1111"]
    );
    assert_eq!(errors_of(&crd(None), Some(&crd(None))), [""; 0], "it was missing before");
    assert!(!errors_of(&crd(Some("yes")), None).is_empty());
    assert_eq!(errors_of(&crd(Some("https://github.com/x/y/pull/1")), None), [""; 0]);
    assert_eq!(errors_of(&crd(Some("unapproved, experimental")), None), [""; 0]);
}

#[test]
fn names_of_others_are_not_accepted() {
    let mut first = stored(crontabs());
    first["status"] = accepted_status(&first, NOW, &[]);
    let mut second = crontabs();
    second["metadata"]["name"] = "cronjobs.stable.example.com".into();
    second["spec"]["names"] =
        json!({"plural": "cronjobs", "kind": "CronTab", "shortNames": ["ct", "cj"]});
    let second = stored(second);
    let found = conflicts(&second, [&first, &second]);
    assert_eq!(
        found,
        [
            Conflict::Singular("crontab".into()),
            Conflict::ShortNames(vec!["ct".into()]),
            Conflict::Kind("CronTab".into()),
            Conflict::ListKind("CronTabList".into()),
        ]
    );
    let status = accepted_status(&second, NOW, &found);
    assert_eq!(status["acceptedNames"], json!({"plural": "cronjobs", "kind": ""}));
    assert_eq!(status["conditions"][0]["reason"], "ListKindConflict");
    assert_eq!(status["conditions"][0]["message"], "\"CronTabList\" is already in use");
    assert_eq!(status["conditions"][1]["reason"], "NotAccepted");
    assert_eq!(conflicts(&first, [&first, &second]), [], "what one holds is one's own");
}

#[test]
fn served_versions_are_sorted_by_preference() {
    let mut crd = crontabs();
    let template = crd["spec"]["versions"][0].clone();
    let versions = ["v1alpha1", "v1", "v2beta1", "v2"].map(|name| {
        let mut version = template.clone();
        version["name"] = name.into();
        version["served"] = (name != "v1").into();
        version
    });
    crd["spec"]["versions"] = json!(versions);
    let parsed = parse(&crd).expect("schemas compile");
    let served: Vec<_> = parsed.served_versions().iter().map(|v| v.name.as_str()).collect();
    assert_eq!(served, ["v2", "v2beta1", "v1alpha1"]);
}

#[test]
fn parsing_what_is_no_definition_fails() {
    for crd in [json!(null), json!({}), json!({"spec": {"scope": "Cluster", "versions": [{}]}})] {
        assert!(parse(&crd).is_err(), "{crd}");
        assert!(!validate(&crd, None).is_empty(), "{crd}");
    }
}
