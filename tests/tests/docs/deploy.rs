//! Manifests that are not generated, compared with the generated ones.

use std::fs;

use clap::{Args as _, Command, FromArgMatches as _};
use serde_json::Value;
use tidegate_operator::{
    args::Args,
    install::{Install, NAMESPACE, Scope},
};

use crate::markdown::repository;

/// Labels of the pods of an installation with the defaults of `tidegate install`.
fn operator_pods() -> Value {
    let install = Install {
        namespace: NAMESPACE.to_owned(),
        create_namespace: false,
        image: "a".to_owned(),
        arguments: Vec::new(),
        scope: Scope::default(),
    };
    let manifests = install.manifests();
    let deployment = manifests.iter().find(|it| it["kind"] == "Deployment").unwrap();
    assert_eq!(deployment["metadata"]["namespace"], NAMESPACE);
    deployment["spec"]["template"]["metadata"]["labels"].clone()
}

#[test]
fn the_load_tester_lets_the_operator_in_where_install_puts_it() {
    let text = fs::read_to_string(repository("deploy/loadtester/network-policy.yaml")).unwrap();
    let policy: Value = serde_saphyr::from_str(&text).unwrap();
    let (labels, rules) = (operator_pods(), policy["spec"]["ingress"].as_array().unwrap());
    let has = |wanted: &Value| wanted.as_object().unwrap().iter().all(|(k, v)| labels[k] == *v);
    let lets_in = |from: &Value| {
        let namespaces = &from["namespaceSelector"]["matchLabels"];
        namespaces["kubernetes.io/metadata.name"] == NAMESPACE
            && has(&from["podSelector"]["matchLabels"])
    };
    let mut sources = rules.iter().flat_map(|rule| rule["from"].as_array().unwrap());
    assert!(sources.any(lets_in), "{rules:#?}");
}

#[test]
fn new_installations_confine_references_and_the_user_has_the_last_word() {
    let arguments = |own: &[&str]| {
        let arguments = own.iter().map(|it| (*it).to_owned()).collect();
        let install = Install {
            namespace: "a".to_owned(),
            create_namespace: false,
            image: "a".to_owned(),
            arguments,
            scope: Scope::default(),
        };
        let manifests = install.manifests();
        let deployment = manifests.iter().find(|it| it["kind"] == "Deployment").unwrap();
        let given = &deployment["spec"]["template"]["spec"]["containers"][0]["args"];
        // The first is the name of the command.
        let given: Vec<String> = serde_json::from_value(given.clone()).unwrap();
        let command = Args::augment_args(Command::new("operator"));
        Args::from_arg_matches(&command.try_get_matches_from(given).unwrap()).unwrap()
    };
    assert!(arguments(&[]).no_cross_namespace_refs);
    assert!(!arguments(&["--no-cross-namespace-refs=false"]).no_cross_namespace_refs);
}
