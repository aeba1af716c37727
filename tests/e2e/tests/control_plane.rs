//! A real control plane with our nodes: it accepts our definitions, workloads roll out on it, and it leaves
//! nothing behind.

use std::{
    collections::BTreeMap,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        core::v1::{Namespace, Pod, ServiceAccount},
        discovery::v1::EndpointSlice,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use tidegate_e2e::{
    ControlPlane, Node, NodeSettings, Options, Parts, Process, Web, apply, apply_folder,
    eventually, inside,
};

const PATIENCE: Duration = Duration::from_mins(2);
/// The variable by which the victim of the last test is known.
const VICTIM: &str = "TIDEGATE_E2E_VICTIM";

fn deployment(image: &str, replicas: u32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": "shop", "namespace": "shop" },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": { "app": "shop" } },
            "template": {
                "metadata": { "labels": { "app": "shop" } },
                "spec": { "containers": [{
                    "name": "shop", "image": image, "ports": [{ "containerPort": 9898 }],
                }] },
            },
        },
    })
}

async fn namespace(client: &Client, name: &str) -> Result<()> {
    let object = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
    apply(client, &object).await?;
    Ok(())
}

/// Waits until as many pods as the spec has, all of the latest template, are available.
async fn rolled_out(client: &Client) -> Result<()> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), "shop");
    eventually("the Deployment rolled out", PATIENCE, async || {
        let shop = deployments.get("shop").await?;
        let wanted = shop.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or_default();
        let status = shop.status.clone().unwrap_or_default();
        let counts = [status.replicas, status.updated_replicas, status.available_replicas];
        let is_seen = status.observed_generation == shop.metadata.generation;
        Ok((is_seen && counts.map(Option::unwrap_or_default) == [wanted; 3]).then_some(()))
    })
    .await
}

/// The addresses behind a Service.
async fn endpoints(client: &Client) -> Result<Vec<String>> {
    let slices: Api<EndpointSlice> = Api::namespaced(client.clone(), "shop");
    let chosen = ListParams::default().labels("kubernetes.io/service-name=shop");
    let mut addresses = Vec::new();
    for slice in slices.list(&chosen).await? {
        for endpoint in slice.endpoints.unwrap_or_default() {
            if endpoint.conditions.and_then(|conditions| conditions.ready) == Some(true) {
                addresses.extend(endpoint.addresses);
            }
        }
    }
    Ok(addresses)
}

async fn endpoints_are(client: &Client, count: usize) -> Result<Vec<String>> {
    let what = format!("the Service has {count} endpoints");
    eventually(&what, PATIENCE, async || {
        let addresses = endpoints(client).await?;
        Ok((addresses.len() == count).then_some(addresses))
    })
    .await
}

/// The versions in the answers of the pods at these addresses, and their numbers.
async fn versions(addresses: &[String]) -> Result<BTreeMap<String, usize>> {
    let mut versions = BTreeMap::new();
    for address in addresses {
        let answer = Web::default().get(&format!("http://{address}:9898/version")).await?;
        let version = answer.json()?["version"].as_str().unwrap_or_default().to_owned();
        *versions.entry(version).or_default() += 1;
    }
    Ok(versions)
}

#[test]
fn our_definitions_are_taken_and_work() {
    inside("our_definitions_are_taken_and_work", async || {
        let plane = ControlPlane::start(&Parts::find()?).await?;
        let client = plane.client();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        apply_folder(&client, &root.join("deploy/crds")).await?;
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        let listed = definitions.list(&ListParams::default()).await?;
        ensure!(listed.items.len() == 7, "all are there: {}", listed.items.len());
        for definition in listed {
            let status = definition.status.clone().unwrap_or_default();
            let bad = status.conditions.unwrap_or_default().into_iter().find(|condition| {
                condition.type_ == "NonStructuralSchema" || condition.type_ == "Terminating"
            });
            ensure!(bad.is_none(), "{}: {bad:?}", definition.name_any());
        }

        for part in ["gateway-api", "istio"] {
            apply_folder(&client, plane.parts().folder(part)?).await?;
        }

        namespace(&client, "shop").await?;
        let canary = json!({
            "apiVersion": "flagger.app/v1beta1", "kind": "Canary",
            "metadata": { "name": "shop", "namespace": "shop" },
            "spec": {
                "targetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "shop" },
                "service": { "port": 80 },
                "analysis": { "interval": "1m", "threshold": 5, "maxWeight": 50, "stepWeight": 10 },
            },
        });
        apply(&client, &canary).await?;
        let mut broken = canary.clone();
        broken["metadata"]["name"] = "broken".into();
        broken["spec"]["analysis"]["threshold"] = "many".into();
        let refused = apply(&client, &broken).await;
        let refused = refused.err().context("a threshold that is no number was taken")?;
        ensure!(format!("{refused:#}").contains("threshold"), "{refused:#}");
        Ok(())
    });
}

#[test]
fn a_deployment_rolls_out_scales_and_goes_with_its_namespace() {
    inside("a_deployment_rolls_out_scales_and_goes_with_its_namespace", async || {
        let plane = ControlPlane::start(&Parts::find()?).await?;
        let _node = Node::start(&plane, NodeSettings::default()).await?;
        let client = plane.client();
        namespace(&client, "shop").await?;
        apply(&client, &deployment("shop:1.0.0", 2)).await?;
        let service = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": { "name": "shop", "namespace": "shop" },
            "spec": { "selector": { "app": "shop" }, "ports": [{ "port": 9898 }] },
        });
        apply(&client, &service).await?;
        rolled_out(&client).await?;
        let addresses = endpoints_are(&client, 2).await?;
        let want = BTreeMap::from([("1.0.0".to_owned(), 2)]);
        ensure!(versions(&addresses).await? == want, "both pods answer");

        apply(&client, &deployment("shop:2.0.0", 2)).await?;
        rolled_out(&client).await?;
        let addresses = endpoints_are(&client, 2).await?;
        let want = BTreeMap::from([("2.0.0".to_owned(), 2)]);
        ensure!(versions(&addresses).await? == want, "both pods were replaced");

        let deployments: Api<Deployment> = Api::namespaced(client.clone(), "shop");
        let three = json!({ "spec": { "replicas": 3 } });
        deployments.patch_scale("shop", &PatchParams::default(), &Patch::Merge(&three)).await?;
        rolled_out(&client).await?;
        endpoints_are(&client, 3).await?;

        let namespaces: Api<Namespace> = Api::all(client.clone());
        namespaces.delete("shop", &DeleteParams::default()).await?;
        eventually("the namespace is gone", PATIENCE, async || {
            Ok(namespaces.get_opt("shop").await?.is_none().then_some(()))
        })
        .await?;
        ensure!(versions(&addresses).await.is_err(), "its pods have stopped");
        Ok(())
    });
}

#[test]
fn a_tag_says_how_a_pod_behaves() {
    inside("a_tag_says_how_a_pod_behaves", async || {
        let plane = ControlPlane::start(&Parts::find()?).await?;
        let settings = NodeSettings { count: 2, ..NodeSettings::default() };
        let _node = Node::start(&plane, settings).await?;
        let client = plane.client();
        namespace(&client, "shop").await?;
        let started = Instant::now();
        apply(&client, &deployment("shop:1-slow-start-2s", 1)).await?;
        rolled_out(&client).await?;
        ensure!(started.elapsed() >= Duration::from_secs(2), "ready in its own time");

        apply(&client, &deployment("shop:1-crash-loop", 1)).await?;
        let pods: Api<Pod> = Api::namespaced(client.clone(), "shop");
        let crashed =
            eventually("a container crashed and was started again", PATIENCE, async || {
                let restarts = |pod: &Pod| {
                    let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
                    statuses.iter().map(|status| status.restart_count).max()
                };
                let pods = pods.list(&ListParams::default()).await?;
                Ok(pods.items.into_iter().find(|pod| restarts(pod) > Some(0)))
            })
            .await?;
        let conditions = crashed.status.unwrap_or_default().conditions.unwrap_or_default();
        let ready = conditions.iter().find(|condition| condition.type_ == "Ready");
        ensure!(ready.is_some_and(|ready| ready.status == "False"), "{ready:?}");
        Ok(())
    });
}

#[test]
fn users_and_service_accounts_may_do_what_rbac_says() {
    inside("users_and_service_accounts_may_do_what_rbac_says", async || {
        let plane = ControlPlane::start(&Parts::find()?).await?;
        let client = plane.client();
        namespace(&client, "shop").await?;
        let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "shop");
        let operator = json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": { "name": "operator", "namespace": "shop" },
        });
        accounts.create(&PostParams::default(), &serde_json::from_value(operator)?).await?;
        let logins = [
            plane.kubeconfig("jane")?,
            plane.service_account_kubeconfig("shop", "operator").await?,
        ];
        for login in &logins {
            let pods: Api<Pod> = Api::namespaced(plane.client_of(login).await?, "shop");
            let refused = pods.list(&ListParams::default()).await.err();
            ensure!(
                matches!(&refused, Some(kube::Error::Api(status)) if status.is_forbidden()),
                "nobody allowed it: {refused:?}"
            );
        }
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": { "name": "viewers", "namespace": "shop" },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view" },
            "subjects": [
                { "kind": "User", "name": "jane" },
                { "kind": "ServiceAccount", "name": "operator", "namespace": "shop" },
            ],
        });
        apply(&client, &binding).await?;
        for login in &logins {
            let pods: Api<Pod> = Api::namespaced(plane.client_of(login).await?, "shop");
            // The authorizer learns of the binding by a watch.
            eventually("pods can be listed", PATIENCE, async || {
                Ok(Some(pods.list(&ListParams::default()).await?))
            })
            .await?;
        }
        Ok(())
    });
}

/// A test process of its own, and the processes that it printed.
async fn start_a_victim(name: &str, folder: &Path) -> Result<(Process, Vec<u32>)> {
    let binary = std::env::current_exe()?.display().to_string();
    let test = ["nothing_outlives_a_killed_harness", "--exact", "--nocapture", "--test-threads=1"];
    let arguments = [format!("{VICTIM}=1"), binary].into_iter().chain(test.map(str::to_owned));
    let arguments: Vec<String> = arguments.collect();
    let victim = Process::start(name, Path::new("/usr/bin/env"), &arguments, folder)?;
    let mut ids = Vec::new();
    let prints = async || {
        let said = std::fs::read_to_string(victim.log())?;
        // The test harness has begun the line with the test's name.
        let line = said.lines().find_map(|line| line.split_once("victims:")?.1.strip_suffix('.'));
        ids = line
            .unwrap_or_default()
            .split_whitespace()
            .map(str::parse)
            .collect::<Result<_, _>>()?;
        Ok(line.is_some())
    };
    victim.ready(PATIENCE, prints).await?;
    Ok((victim, ids))
}

/// Whether a process still runs: one that ended stays in the table until its parent reads its status.
fn is_running(id: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    // After the name, which is in brackets and may be anything.
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

#[test]
fn nothing_outlives_a_killed_harness() {
    inside("nothing_outlives_a_killed_harness", async || {
        if std::env::var_os(VICTIM).is_some() {
            let plane = ControlPlane::start(&Parts::find()?).await?;
            let ids = plane.processes();
            let ids: Vec<String> = ids.iter().map(|process| process.id().to_string()).collect();
            println!("victims:{}.", ids.join(" "));
            tokio::time::sleep(Duration::from_mins(10)).await;
            return Ok(());
        }
        // Removed at once by the first, with a chance for cleanup by the second.
        let folder =
            std::env::temp_dir().join(format!("tidegate-e2e-{}-victims", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let mut victims = Vec::new();
        for signal in ["KILL", "TERM"] {
            let name = format!("victim-of-{signal}");
            victims.push((signal, start_a_victim(&name, &folder).await?));
        }
        for (signal, (victim, ids)) in victims {
            ensure!(ids.len() == 3 && ids.iter().copied().all(is_running), "{ids:?} run");
            victim.signal(signal)?;
            eventually("all programs are gone", PATIENCE, async || {
                Ok((!ids.iter().copied().any(is_running)).then_some(()))
            })
            .await
            .with_context(|| format!("after SIG{signal}"))?;
        }
        std::fs::remove_dir_all(folder)?;
        Ok(())
    });
}

#[test]
fn a_start_that_fails_says_why() {
    inside("a_start_that_fails_says_why", async || {
        let options = Options { api_server: vec!["--no-such-flag".into()], ..Options::default() };
        let refused = ControlPlane::start_with(&Parts::find()?, &options).await.err();
        let refused = refused.context("it started")?;
        let text = format!("{refused:#}");
        ensure!(text.contains("unknown flag: --no-such-flag"), "{text}");
        Ok(())
    });
}
