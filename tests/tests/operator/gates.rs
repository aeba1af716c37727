//! Gates of load testers in a `ConfigMap` of the cluster, under the shipped role.

use std::{fs, sync::Arc};

use k8s_openapi::api::core::v1::ConfigMap;
use kube_sandbox::{
    Sandbox, Settings,
    faults::{Effect, Matcher, When},
    server::User,
};
use serde_json::{Value, json};
use tidegate_loadtester::gates::{
    GateCall, GateError, Gates, Key, Kind, Opening,
    config_map::{ConfigMapStore, StoreError},
};
use tokio::task::spawn_blocking;

const NAMESPACE: &str = "default";
const USER: &str = "system:serviceaccount:default:tidegate-loadtester";

fn cluster() -> Sandbox {
    let sandbox = Sandbox::new(Settings::for_tests().rbac());
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/loadtester-shared/role.yaml");
    let text = fs::read_to_string(path).expect("the role is there");
    let mut objects: Vec<Value> = serde_saphyr::from_multiple(&text).expect("YAML");
    for object in &mut objects {
        // As kustomize does.
        object["metadata"]["namespace"] = json!(NAMESPACE);
        if object["kind"] == "RoleBinding" {
            object["subjects"][0]["namespace"] = json!(NAMESPACE);
        }
    }
    sandbox.load(objects).expect("everything is accepted");
    sandbox.settle();
    sandbox
}

/// One load tester.
fn replica(sandbox: &Sandbox) -> Arc<Gates> {
    let user = User::new(USER, &["system:serviceaccounts", "system:authenticated"]);
    let client = kube::Client::new(sandbox.service_as(user), NAMESPACE);
    Arc::new(Gates::in_config_map(ConfigMapStore::new(client, "tidegate-gates")))
}

fn key() -> Key {
    let (namespace, canary) = (NAMESPACE.to_owned(), "web".to_owned());
    Key { namespace, canary, kind: Kind::Advance, gate: String::new() }
}

/// As the server of a load tester does it: outside of the runtime's threads.
async fn with<T: Send + 'static>(
    gates: &Arc<Gates>,
    act: impl FnOnce(&Gates) -> Result<T, GateError> + Send + 'static,
) -> Result<T, GateError> {
    let gates = Arc::clone(gates);
    spawn_blocking(move || act(&gates)).await.expect("it does not panic")
}

async fn open(gates: &Arc<Gates>, opening: Opening) -> Result<(), GateError> {
    with(gates, move |gates| gates.open(&key(), &opening, None, 0)).await
}

async fn says_yes(gates: &Arc<Gates>, call: String) -> Result<bool, GateError> {
    with(gates, move |gates| {
        gates.check(&key(), GateCall { checksum: "abc", call: Some(&call) }, 0)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn gates_in_a_config_map_are_the_same_for_every_replica() {
    let sandbox = cluster();
    let (one, other) = (replica(&sandbox), replica(&sandbox));
    assert!(!says_yes(&one, "1".into()).await.unwrap(), "closed while there is none");
    open(&one, Opening::default()).await.unwrap();
    assert!(says_yes(&other, "2".into()).await.unwrap(), "opened by one, open for all");
    let third = replica(&sandbox);
    assert!(says_yes(&third, "3".into()).await.unwrap(), "and for one that starts later");
    let listed = with(&third, |gates| gates.list(0)).await.unwrap();
    assert_eq!((listed.len(), listed[0].key.canary.as_str()), (1, "web"));
    with(&other, |gates| gates.close(&key(), None, 0)).await.unwrap();
    assert!(!says_yes(&one, "4".into()).await.unwrap(), "closed by one, closed for all");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_is_granted_once_whoever_is_asked() {
    let sandbox = cluster();
    let replicas = [replica(&sandbox), replica(&sandbox), replica(&sandbox)];
    open(&replicas[0], Opening { steps: Some(4), ..Opening::default() }).await.unwrap();
    let calls = (0..12).map(|call| says_yes(&replicas[call % 3], format!("call-{call}")));
    let answers = futures::future::join_all(calls).await;
    let granted = answers.iter().filter(|answer| matches!(answer, Ok(true))).count();
    assert_eq!(granted, 4, "{answers:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_keep_in_the_config_map_stays() {
    let sandbox = cluster();
    let metadata = json!({
        "name": "tidegate-gates", "namespace": NAMESPACE, "labels": { "team": "shop" },
    });
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": metadata, "data": { "note": "ask Ann" } });
    sandbox.load(vec![map]).unwrap();
    let gates = replica(&sandbox);
    open(&gates, Opening::default()).await.unwrap();
    let maps: kube::Api<ConfigMap> =
        kube::Api::default_namespaced(kube::Client::new(sandbox.service(), NAMESPACE));
    let map = maps.get("tidegate-gates").await.unwrap();
    assert_eq!(map.metadata.labels.unwrap()["team"], "shop");
    let data = map.data.unwrap();
    assert_eq!(data["note"], "ask Ann");
    let kept: Value = serde_json::from_str(&data["gates.json"]).unwrap();
    assert_eq!(kept[0]["canary"], "web");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_away_opens_no_gate() {
    let sandbox = cluster();
    let gates = replica(&sandbox);
    open(&gates, Opening::default()).await.unwrap();
    assert!(says_yes(&gates, "1".into()).await.unwrap());
    let matcher = Matcher::any().user(USER);
    sandbox.server().faults.add(matcher, When::Always, Effect::ServerError { code: 503 });
    let answer = says_yes(&gates, "2".into()).await;
    assert!(matches!(answer, Err(GateError::ConfigMap(StoreError::Server(_)))), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_config_map_that_holds_no_gates_is_not_taken_for_none() {
    let sandbox = cluster();
    sandbox
        .load(vec![json!({ "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": "tidegate-gates", "namespace": NAMESPACE },
            "data": { "gates.json": "[{\"names" } })])
        .unwrap();
    let gates = replica(&sandbox);
    let answer = open(&gates, Opening::default()).await;
    assert!(matches!(answer, Err(GateError::ConfigMap(StoreError::Malformed(_)))), "{answer:?}");
}
