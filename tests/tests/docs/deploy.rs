//! Manifests that are not generated, compared with the generated ones.

use std::fs;

use clap::{Args as _, Command, FromArgMatches as _};
use serde_json::{Value, json};
use tidegate_operator::{
    args::Args,
    install::{Install, NAMESPACE, Scope, with_metrics_from},
};

use crate::markdown::repository;

/// The manifests of an installation with the defaults of `tidegate install`.
fn installed() -> Vec<Value> {
    let install = Install {
        namespace: NAMESPACE.to_owned(),
        create_namespace: false,
        image: "a".to_owned(),
        arguments: Vec::new(),
        scope: Scope::default(),
    };
    install.manifests()
}

fn of_kind<'a>(manifests: &'a [Value], kind: &str) -> &'a Value {
    manifests.iter().find(|it| it["kind"] == kind).unwrap()
}

/// Labels of the pods of an installation.
fn operator_pods() -> Value {
    let manifests = installed();
    let deployment = of_kind(&manifests, "Deployment");
    assert_eq!(deployment["metadata"]["namespace"], NAMESPACE);
    deployment["spec"]["template"]["metadata"]["labels"].clone()
}

#[test]
fn metrics_are_open_to_every_namespace_unless_some_are_named() {
    let manifests = installed();
    let policy = of_kind(&manifests, "NetworkPolicy");
    assert_eq!(policy["metadata"]["namespace"], NAMESPACE);
    let spec = &policy["spec"];
    let selected = spec["podSelector"]["matchLabels"].as_object().unwrap();
    let pods = operator_pods();
    assert!(!selected.is_empty() && selected.iter().all(|(key, value)| pods[key] == *value));
    assert_eq!(spec["policyTypes"], json!(["Ingress"]), "hooks and metric servers are anywhere");
    let deployment = of_kind(&manifests, "Deployment");
    let ports = &deployment["spec"]["template"]["spec"]["containers"][0]["ports"];
    // No source is named: every one may.
    let rule = json!([{ "ports": [{ "protocol": "TCP", "port": ports[0]["name"] }] }]);
    assert_eq!(spec["ingress"], rule);

    let named = with_metrics_from(manifests, &["monitoring".to_owned(), "ops".to_owned()]);
    let rule = &of_kind(&named, "NetworkPolicy")["spec"]["ingress"][0];
    assert_eq!(rule["ports"][0]["port"], "http");
    let from = |name: &str| json!({ "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": name } } });
    assert_eq!(rule["from"], json!([from("monitoring"), from("ops")]));
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
fn new_installations_confine_references_and_secrets_and_the_user_has_the_last_word() {
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
    assert!(arguments(&[]).require_metric_secret_label);
    let own = ["--require-metric-secret-label=false"];
    assert!(!arguments(&own).require_metric_secret_label);
}
