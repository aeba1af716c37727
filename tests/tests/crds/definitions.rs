//! The CRDs without their schemas, and rules that all the schemas keep.

use std::fs;

use serde_json::{Value, json};

use crate::corpus::{repository, schema_of};

/// Set to any value to rewrite the files instead of comparing them.
const UPDATE: &str = "UPDATE_CRDS";

#[test]
fn crd_files_are_what_the_types_say() {
    let mut names = Vec::new();
    for crd in tidegate_api::crds() {
        let name = format!("{}.yaml", crd["metadata"]["name"].as_str().unwrap());
        let path = repository("deploy/crds").join(&name);
        let written = tidegate_api::to_yaml(std::slice::from_ref(&crd));
        if std::env::var_os(UPDATE).is_some() {
            fs::write(&path, &written).unwrap();
        }
        let found = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            found == written,
            "{name} is out of date; run the tests with {UPDATE}=1 and commit"
        );
        names.push(name);
    }
    let mut files: Vec<_> = fs::read_dir(repository("deploy/crds"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    names.sort();
    assert_eq!(files, names, "no file without a kind");
}

#[test]
fn written_yaml_reads_back_as_it_was() {
    let crds = tidegate_api::crds();
    let read: Vec<Value> = serde_saphyr::from_multiple(&tidegate_api::to_yaml(&crds)).unwrap();
    assert_eq!(read, crds);
}

#[test]
fn names_and_scopes_are_those_of_the_originals() {
    let mut lines = Vec::new();
    for crd in tidegate_api::crds() {
        let (spec, version) = (&crd["spec"], &crd["spec"]["versions"][0]);
        let names = &spec["names"];
        let keep = &crd["metadata"]["annotations"]["helm.sh/resource-policy"];
        lines.push(format!(
            "{} {} {} {} {} {} {} {} keep={keep}",
            crd["metadata"]["name"].as_str().unwrap(),
            version["name"].as_str().unwrap(),
            spec["scope"].as_str().unwrap(),
            names["singular"].as_str().unwrap(),
            names["listKind"].as_str().unwrap(),
            names["shortNames"],
            names["categories"],
            version["subresources"].as_object().map_or(String::new(), |s| {
                s.keys().map(String::as_str).collect::<Vec<_>>().join("+")
            }),
        ));
    }
    let want = [
        r#"canaries.flagger.app v1beta1 Namespaced canary CanaryList null ["all"] status keep="keep""#,
        r#"metrictemplates.flagger.app v1beta1 Namespaced metrictemplate MetricTemplateList null ["all"] status keep="keep""#,
        r#"alertproviders.flagger.app v1beta1 Namespaced alertprovider AlertProviderList null ["all"] status keep="keep""#,
        r#"gamedeployments.tkex.tencent.com v1alpha1 Namespaced gamedeployment GameDeploymentList ["gd"] null scale+status keep=null"#,
        r#"gamestatefulsets.tkex.tencent.com v1alpha1 Namespaced gamestatefulset GameStatefulSetList ["gsts"] null scale+status keep=null"#,
        r#"hooktemplates.tkex.tencent.com v1alpha1 Namespaced hooktemplate HookTemplateList ["ht"] null  keep=null"#,
        r#"hookruns.tkex.tencent.com v1alpha1 Namespaced hookrun HookRunList ["hr"] null status keep=null"#,
    ];
    assert_eq!(lines, want);
}

#[test]
fn printer_columns_are_those_of_the_originals() {
    let columns = |crd: &Value| {
        let listed = crd["spec"]["versions"][0]["additionalPrinterColumns"].as_array().cloned();
        let shown = listed.unwrap_or_default().into_iter().map(|column| {
            let priority = column.get("priority").map_or(String::new(), |p| format!(" {p}"));
            let text = |key: &str| column[key].as_str().unwrap().to_owned();
            format!("{} {} {}{priority}", text("name"), text("type"), text("jsonPath"))
        });
        shown.collect::<Vec<_>>().join(", ")
    };
    let want = [
        "Status string .status.phase, Weight string .status.canaryWeight, \
         Suspended boolean .spec.suspend 1, FailedChecks string .status.failedChecks 1, \
         Interval string .spec.analysis.interval 1, Mirror boolean .spec.analysis.mirror 1, \
         StepWeight string .spec.analysis.stepWeight 1, \
         StepWeights string .spec.analysis.stepWeights 1, \
         MaxWeight string .spec.analysis.maxWeight 1, \
         LastTransitionTime string .status.lastTransitionTime",
        "Provider string .spec.provider.type",
        "Type string .spec.type",
        "DESIRED integer .spec.replicas, UPDATED integer .status.updatedReplicas, \
         UPDATED_READY integer .status.updatedReadyReplicas, READY integer .status.readyReplicas, \
         TOTAL integer .status.replicas, STEP integer .status.currentStepIndex, \
         PAUSE string .status.pauseConditions[*].reason, Age date .metadata.creationTimestamp",
        "Replicas integer .spec.replicas, ReadyReplicas integer .status.readyReplicas, \
         CurrentReplicas integer .status.currentReplicas, \
         UpdatedReplicas integer .status.updatedReplicas, \
         UpdatedReady_Replicas integer .status.updatedReadyReplicas, \
         Step integer .status.currentStepIndex, Pause string .status.pauseConditions[*].reason, \
         Age date .metadata.creationTimestamp",
        "",
        "PHASE string .status.phase, AGE date .metadata.creationTimestamp",
    ];
    assert_eq!(tidegate_api::crds().iter().map(columns).collect::<Vec<_>>(), want);
}

#[test]
fn only_these_defaults_are_stored() {
    let mut found = Vec::new();
    each_field(|path, schema| {
        if let Some(default) = schema.get("default") {
            found.push(format!("{path} = {default}"));
        }
    });
    let want = [
        "Canary.spec.analysis.sessionAffinity.maxAge = 86400",
        r#"Canary.spec.service.gatewayRefs[].group = "gateway.networking.k8s.io""#,
        r#"Canary.spec.service.gatewayRefs[].kind = "Gateway""#,
        r#"Canary.spec.service.mirror[].backendRef.group = """#,
        r#"Canary.spec.service.mirror[].backendRef.kind = "Service""#,
        "GameDeployment.spec.postInplaceUpdateStrategy.retry = false",
        "GameDeployment.spec.preDeleteUpdateStrategy.retry = false",
        "GameDeployment.spec.preInplaceUpdateStrategy.retry = false",
        "GameDeployment.spec.replicas = 1",
        "GameDeployment.spec.updateStrategy.paused = false",
        r#"GameDeployment.spec.updateStrategy.type = "RollingUpdate""#,
        r#"GameStatefulSet.spec.podManagementPolicy = "OrderedReady""#,
        "GameStatefulSet.spec.postInplaceUpdateStrategy.retry = false",
        "GameStatefulSet.spec.preDeleteUpdateStrategy.retry = false",
        "GameStatefulSet.spec.preInplaceUpdateStrategy.retry = false",
        "GameStatefulSet.spec.replicas = 1",
        "GameStatefulSet.spec.updateStrategy.paused = false",
        r#"GameStatefulSet.spec.updateStrategy.type = "RollingUpdate""#,
    ];
    assert_eq!(found, want);
}

#[test]
fn every_field_explains_itself() {
    let mut silent = Vec::new();
    each_field(|path, schema| {
        // Items of lists and values of maps are explained by the field that holds them, and the
        // metadata of an object by Kubernetes.
        let held = path.ends_with("[]") || path.ends_with("{}");
        let root_metadata = path.ends_with(".metadata") && path.matches('.').count() == 1;
        if !held && !root_metadata && schema["description"].as_str().is_none_or(str::is_empty) {
            silent.push(path.to_owned());
        }
    });
    assert_eq!(silent, Vec::<String>::new());
}

#[test]
fn every_rule_tells_people_what_to_do() {
    let mut mute = Vec::new();
    each_field(|path, schema| {
        for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
            if rule["message"].as_str().is_none_or(str::is_empty) {
                mute.push(path.to_owned());
            }
        }
    });
    assert_eq!(mute, Vec::<String>::new());
}

#[test]
fn no_root_requires_anything() {
    for crd in tidegate_api::crds() {
        let root = schema_of(&crd);
        assert_eq!(root.get("required"), None, "{}", crd["metadata"]["name"]);
        assert_eq!(root["properties"]["metadata"], json!({"type": "object"}));
    }
}

#[test]
fn crds_fit_the_annotation_of_kubectl_apply() {
    for crd in tidegate_api::crds() {
        let size = crd.to_string().len();
        assert!(size < 256 * 1024, "{} has {size} bytes", crd["metadata"]["name"]);
    }
}

/// Calls `visit` with path and schema of every field of every kind, in order.
fn each_field(mut visit: impl FnMut(&str, &Value)) {
    fn walk(schema: &Value, path: &str, visit: &mut dyn FnMut(&str, &Value)) {
        visit(path, schema);
        for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
            walk(inner, &format!("{path}.{name}"), visit);
        }
        for (keyword, mark) in [("items", "[]"), ("additionalProperties", "{}")] {
            if let Some(inner) = schema.get(keyword) {
                walk(inner, &format!("{path}{mark}"), visit);
            }
        }
    }
    for crd in tidegate_api::crds() {
        let kind = crd["spec"]["names"]["kind"].as_str().unwrap();
        walk(schema_of(&crd), kind, &mut visit);
    }
}
