//! The controllers of the sandbox reach the same state as those of Kubernetes: the same manifests in, the
//! same objects out, stage by stage.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use kube::{
    Client,
    api::{DeleteParams, ListParams, PropagationPolicy},
    core::TypeMeta,
};
use kube_sandbox::{
    Sandbox, Settings,
    cluster::{
        Cluster as _, DAEMON_SETS, DEPLOYMENTS, Deletion, ENDPOINT_SLICES, PODS, REPLICA_SETS,
        Resource, STATEFUL_SETS,
    },
    kubelet::KubeletSettings,
    server::User,
};
use serde_json::{Value, json};
use tidegate_e2e::{
    ControlPlane, Node, NodeSettings, Parts, api_of, apply, inside,
    settled::{canonical, differences},
};

const NAMESPACE: &str = "shop";
/// Equal objects that have not changed for this long stay so.
const QUIET: Duration = Duration::from_secs(2);
/// Objects that differ after this time always will.
const PATIENCE: Duration = Duration::from_mins(3);
/// Stages that lost their objects compare nothing.
const OBJECTS_MIN: usize = 180;

/// The compared kinds: their table in the sandbox, and their name.
const KINDS: [(Resource, &str, &str); 6] = [
    (DEPLOYMENTS, "apps/v1", "Deployment"),
    (REPLICA_SETS, "apps/v1", "ReplicaSet"),
    (STATEFUL_SETS, "apps/v1", "StatefulSet"),
    (DAEMON_SETS, "apps/v1", "DaemonSet"),
    (PODS, "v1", "Pod"),
    (ENDPOINT_SLICES, "discovery.k8s.io/v1", "EndpointSlice"),
];

/// A workload of `kind` whose pods run `image`.
fn workload(kind: &str, name: &str, image: &str, spec: Value) -> Value {
    let mut object = json!({
        "apiVersion": "apps/v1", "kind": kind,
        "metadata": { "name": name, "namespace": NAMESPACE },
        "spec": {
            "selector": { "matchLabels": { "app": name } },
            "template": {
                "metadata": { "labels": { "app": name } },
                "spec": {
                    "terminationGracePeriodSeconds": 1,
                    "containers": [{
                        "name": "app", "image": image, "ports": [{ "containerPort": 9898 }],
                    }],
                },
            },
        },
    });
    if let (Value::Object(into), Value::Object(more)) = (&mut object["spec"], spec) {
        into.extend(more);
    }
    object
}

fn service(name: &str, spec: Value) -> Value {
    let mut object = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": name, "namespace": NAMESPACE },
        "spec": { "selector": { "app": name }, "ports": [{ "name": "http", "port": 80, "targetPort": 9898 }] },
    });
    if let (Value::Object(into), Value::Object(more)) = (&mut object["spec"], spec) {
        into.extend(more);
    }
    object
}

/// Changes that are made at once, on top of the existing objects.
struct Stage {
    name: &'static str,
    applied: Vec<Value>,
    deleted: Vec<Deleted>,
}

/// A deleted object, and the policy for its dependents.
struct Deleted {
    kind: &'static str,
    name: &'static str,
    propagation: PropagationPolicy,
}

fn stages() -> Vec<Stage> {
    let web = |image: &str, replicas: u32| {
        workload("Deployment", "web", image, json!({ "replicas": replicas }))
    };
    let plain = |image: &str| {
        let spec = json!({ "replicas": 2, "strategy": { "type": "Recreate" } });
        workload("Deployment", "plain", image, spec)
    };
    let lone =
        |replicas: u32| workload("ReplicaSet", "lone", "lone:1", json!({ "replicas": replicas }));
    let db = |image: &str, replicas: u32, partition: u32| {
        let strategy =
            json!({ "type": "RollingUpdate", "rollingUpdate": { "partition": partition } });
        let spec = json!({ "serviceName": "db", "replicas": replicas, "updateStrategy": strategy });
        workload("StatefulSet", "db", image, spec)
    };
    let crowd = |replicas: u32| {
        let spec = json!({
            "serviceName": "crowd", "replicas": replicas, "podManagementPolicy": "Parallel",
        });
        workload("StatefulSet", "crowd", "crowd:1", spec)
    };
    // With fields that admission adds as well.
    let agent = |image: &str| {
        let mut agent = workload("DaemonSet", "agent", image, json!({}));
        let pod = &mut agent["spec"]["template"]["spec"];
        pod["tolerations"] = json!([{ "key": "slow", "operator": "Exists" }]);
        pod["volumes"] = json!([{ "name": "scratch", "emptyDir": {} }]);
        pod["containers"][0]["volumeMounts"] = json!([{ "name": "scratch", "mountPath": "/tmp" }]);
        agent
    };
    let applied = |name, applied| Stage { name, applied, deleted: Vec::new() };
    let services = [
        service("web", json!({})),
        service("db", json!({ "clusterIP": "None" })),
        service("nobody", json!({})),
    ];
    let workloads =
        [web("web:1", 3), plain("plain:1"), lone(2), db("db:1", 3, 0), crowd(2), agent("agent:1")];
    vec![
        applied("created", services.into_iter().chain(workloads).collect()),
        applied(
            "updated",
            vec![web("web:2", 3), plain("plain:2"), db("db:2", 3, 0), agent("agent:2")],
        ),
        applied(
            "scaled",
            vec![web("web:2", 5), plain("plain:2"), lone(4), db("db:2", 1, 0), crowd(4)],
        ),
        applied(
            "half a partition, and back to an image of before",
            vec![web("web:1", 5), db("db:3", 3, 2)],
        ),
        applied("to nothing", vec![web("web:1", 0), db("db:3", 0, 0), crowd(0)]),
        applied(
            "a version that is never ready",
            vec![web("web:3-never-ready", 2), plain("plain:3-never-ready")],
        ),
        Stage { name: "deleted", applied: Vec::new(), deleted: deleted() },
        applied("pods that were left behind find an owner", vec![lone(3)]),
    ]
}

fn deleted() -> Vec<Deleted> {
    let deleted = |kind, name, propagation| Deleted { kind, name, propagation };
    vec![
        deleted("Deployment", "plain", PropagationPolicy::Background),
        deleted("StatefulSet", "db", PropagationPolicy::Background),
        deleted("DaemonSet", "agent", PropagationPolicy::Foreground),
        deleted("ReplicaSet", "lone", PropagationPolicy::Orphan),
    ]
}

/// All objects of the real cluster.
async fn real_objects(client: &Client) -> Result<Vec<Value>> {
    let mut objects = Vec::new();
    for (_, version, kind) in KINDS {
        let types = TypeMeta { api_version: version.to_owned(), kind: kind.to_owned() };
        let api = api_of(client, &types, Some(NAMESPACE)).await?;
        for object in api.list(&ListParams::default()).await? {
            let mut object = serde_json::to_value(object)?;
            object["apiVersion"] = version.into();
            object["kind"] = kind.into();
            objects.push(object);
        }
    }
    Ok(objects)
}

/// Waits until the real cluster has come to rest in the sandbox's state; the number of objects, and the
/// differences in the end.
async fn settled(client: &Client, ours: &BTreeMap<String, usize>) -> Result<(usize, Vec<String>)> {
    let deadline = Instant::now() + PATIENCE;
    let (mut known, mut since) = (Vec::new(), Instant::now());
    loop {
        let objects = real_objects(client).await?;
        if objects != known {
            (known, since) = (objects, Instant::now());
        }
        let real = canonical(&known);
        let found = differences(&real, ours);
        let is_over = found.is_empty() && since.elapsed() >= QUIET;
        if is_over || Instant::now() > deadline {
            return Ok((real.values().sum(), found));
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}

fn sandbox_objects(sandbox: &Sandbox) -> Vec<Value> {
    let admin = sandbox.local(User::admin());
    let mut objects = Vec::new();
    for (resource, version, kind) in KINDS {
        for mut object in admin.list(resource, Some(NAMESPACE)) {
            object["apiVersion"] = version.into();
            object["kind"] = kind.into();
            objects.push(object);
        }
    }
    objects
}

async fn delete_from_both(client: &Client, sandbox: &Sandbox, it: &Deleted) -> Result<()> {
    let Deleted { kind, name, propagation } = it;
    let kinds = KINDS.iter().find(|(_, _, known)| known == kind);
    let (resource, version, _) = kinds.context("what is deleted is compared")?;
    let types = TypeMeta { api_version: (*version).to_owned(), kind: (*kind).to_owned() };
    let api = api_of(client, &types, Some(NAMESPACE)).await?;
    let parameters =
        DeleteParams { propagation_policy: Some(propagation.clone()), ..DeleteParams::default() };
    api.delete(name, &parameters).await?;
    let deletion =
        Deletion { propagation: Some(format!("{propagation:?}")), ..Deletion::default() };
    let done = sandbox.local(User::admin()).delete(*resource, NAMESPACE, name, &deletion);
    done.map_err(|failure| {
        anyhow::anyhow!("the sandbox does not delete {kind} {name}: {failure:?}")
    })
}

#[test]
fn the_sandboxs_loops_settle_where_those_of_kubernetes_do() {
    inside("the_sandboxs_loops_settle_where_those_of_kubernetes_do", async || {
        let plane = ControlPlane::start(&Parts::find()?).await?;
        let settings = NodeSettings { count: 2, ..NodeSettings::default() };
        let _node = Node::start(&plane, settings).await?;
        let client = plane.client();
        let mut settings = Settings::for_tests().nodes(2);
        settings.controllers.kubelet = KubeletSettings::default();
        let sandbox = Sandbox::new(settings);
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE },
        });
        apply(&client, &namespace).await?;
        let refused = |failure| anyhow::anyhow!("the sandbox refuses: {failure:?}");
        sandbox.load(vec![namespace]).map_err(refused)?;
        let mut compared = 0;
        for Stage { name: stage, applied, deleted } in stages() {
            for object in &applied {
                apply(&client, object).await.with_context(|| stage.to_owned())?;
            }
            sandbox.load(applied).map_err(refused)?;
            for it in &deleted {
                delete_from_both(&client, &sandbox, it).await.with_context(|| stage.to_owned())?;
            }
            sandbox.advance(Duration::from_mins(1));
            let ours = canonical(&sandbox_objects(&sandbox));
            let (count, found) = settled(&client, &ours).await?;
            compared += count;
            ensure!(
                found.is_empty(),
                "{stage}: {} differences:\n{}",
                found.len(),
                found.join("\n")
            );
        }
        println!("{compared} objects compared in {} stages", stages().len());
        ensure!(compared >= OBJECTS_MIN, "only {compared} objects");
        Ok(())
    });
}
