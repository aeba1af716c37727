//! Game workloads on a real cluster and on the sandbox: the published example, command by command,
//! protection from deletion, and the permissions that the operator needs for all of it.

use std::{
    collections::BTreeSet,
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Config,
    api::EvictParams,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};
use tidegate_e2e::{
    Asked, ControlPlane, Installation, Node, NodeSettings, Options, Process, apply_folder,
    eventually, inside, program,
};
use tidegate_tests::game::STATUS_MEMBERS;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

const PATIENCE: Duration = Duration::from_mins(2);
/// The longest wait for the answer to an eviction.
const EVICTION_MAX: Duration = Duration::from_mins(1);
const GAME: &str = "test-gamedeployment";
const FIRST: &str = "test-gamedeployment-67864c6f65";
const SECOND: &str = "test-gamedeployment-9d78dd5db";
const RUN: &str = "test-gamedeployment-9d78dd5db-4-test";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The web server of the example.
async fn web_server() -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut request = [0; 4096];
                let _read = stream.read(&mut request).await;
                let body = r#"{"name":"bryan","male":"yes","age":45}"#;
                let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close";
                let answer = format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
                let _written = stream.write_all(answer.as_bytes()).await;
            });
        }
    });
    Ok(address)
}

/// A cluster, a namespace of it, and kubectl.
#[derive(Clone)]
struct Seat {
    cluster: &'static str,
    kubectl: PathBuf,
    kubeconfig: PathBuf,
    namespace: String,
    /// The folder of manifests.
    folder: PathBuf,
    hook: SocketAddr,
}

impl Seat {
    async fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.kubectl);
        command.arg("--kubeconfig").arg(&self.kubeconfig).args(["-n", &self.namespace]);
        command.env("HOME", &self.folder).args(arguments);
        let output = tokio::task::spawn_blocking(move || command.output()).await??;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr);
            bail!("{} kubectl {}: {said}{why}", self.cluster, arguments.join(" "));
        }
        Ok(said)
    }

    async fn object(&self, kind: &str, name: &str) -> Result<Value> {
        Ok(serde_json::from_str(&self.kubectl(&["get", kind, name, "-o", "json"]).await?)?)
    }

    async fn game(&self) -> Result<Value> {
        self.object("gamedeployment", GAME).await
    }

    /// Writes a manifest of the example with the address of our web server, and applies it.
    async fn apply(&self, name: &str) -> Result<String> {
        let text = fs::read_to_string(root().join("tests/e2e/manifests/game").join(name))?;
        let path = self.folder.join(format!("{}-{}-{name}", self.cluster, self.namespace));
        fs::write(&path, text.replace("1.1.1.1:9091", &self.hook.to_string()))?;
        self.kubectl(&["apply", "-f", &path.display().to_string()]).await
    }

    /// Waits for a row of `kubectl get`, without its age.
    async fn row(&self, when: &str, columns: [u8; 5]) -> Result<()> {
        let wanted = columns.map(|it| it.to_string()).join(" ");
        self.until(when, &wanted, async |seat| {
            let table = seat.kubectl(&["get", "gamedeployment"]).await?;
            let mut lines = table.lines().map(|it| it.split_whitespace().collect::<Vec<_>>());
            let header = lines.next().unwrap_or_default().join(" ");
            let wanted = "NAME DESIRED UPDATED UPDATED_READY READY TOTAL STEP PAUSE AGE";
            ensure!(header == wanted, "{header}");
            let row = lines.next().unwrap_or_default();
            ensure!(row.first() == Some(&GAME), "{table}");
            Ok(row.get(1..6).unwrap_or_default().join(" "))
        })
        .await
    }

    /// Waits until an object is as expected; the error has the last state.
    async fn until(
        &self,
        when: &str,
        wanted: &str,
        look: impl AsyncFn(&Self) -> Result<String>,
    ) -> Result<()> {
        let mut seen = String::new();
        let what = format!("{} {when}: {wanted}", self.cluster);
        let outcome = eventually(&what, PATIENCE, async || {
            seen = look(self).await?;
            pause_unless(seen == wanted).await
        });
        if let Err(error) = outcome.await {
            let game = self.game().await.unwrap_or_default();
            return Err(error.context(format!("{} {when}: {seen}\n{game:#}", self.cluster)));
        }
        Ok(())
    }

    async fn paused(&self, when: &str, reason: &str, step: u8) -> Result<()> {
        self.until(when, &format!("true {step} {reason}"), async |seat| {
            let game = seat.game().await?;
            let status = &game["status"];
            let reason = status["pauseConditions"][0]["reason"].as_str().unwrap_or_default();
            let paused = &game["spec"]["updateStrategy"]["paused"];
            Ok(format!("{paused} {} {reason}", status["currentStepIndex"]))
        })
        .await
    }

    async fn patch(&self, path: &str, value: &Value) -> Result<()> {
        let change = json!([{ "op": "replace", "path": path, "value": value }]);
        let change = format!("-p={change}");
        let said = self.kubectl(&["patch", "gamedeployment", GAME, "--type=json", &change]).await?;
        ensure!(said.contains(&format!("{GAME} patched")), "{said}");
        Ok(())
    }

    async fn image(&self, image: &str) -> Result<()> {
        self.patch("/spec/template/spec/containers/0/image", &json!(image)).await
    }

    async fn resume(&self) -> Result<()> {
        self.patch("/spec/updateStrategy/paused", &json!(false)).await
    }

    /// Compares the object with the example: no other member of the strategy, no other value of the status,
    /// and no members of that other than those of the example and ours.
    fn compare(&self, when: &str, game: &Value, index: u8, updated: u8) -> Result<()> {
        let strategy = json!({
            "canary": { "steps": [
                { "partition": 3 }, { "pause": {} }, { "partition": 2 },
                { "pause": { "duration": 60 } }, { "hook": { "templateName": "test" } },
            ] },
            "inPlaceUpdateStrategy": { "gracePeriodSeconds": 30 },
            "maxUnavailable": 2, "paused": true, "type": "InplaceUpdate",
        });
        let seen = &game["spec"]["updateStrategy"];
        ensure!(*seen == strategy, "{} {when}: {seen:#}", self.cluster);
        let status = &game["status"];
        let wanted = json!({
            "availableReplicas": 4, "collisionCount": 0, "currentStepIndex": index,
            "labelSelector": format!("app={GAME}"), "readyReplicas": 4, "replicas": 4,
            "updateRevision": SECOND, "updatedReadyReplicas": updated, "updatedReplicas": updated,
        });
        for (name, wanted) in wanted.as_object().into_iter().flatten() {
            let seen = &status[name];
            ensure!(seen == wanted, "{} {when}: {name} is {seen}, not {wanted}", self.cluster);
        }
        let revision = &status["canary"]["revision"];
        ensure!(*revision == FIRST, "{} {when}: canary.revision {revision}", self.cluster);
        ensure!(status["currentStepHash"].is_string(), "{} {when}: no step hash", self.cluster);
        let members = status.as_object().into_iter().flatten();
        let mut members: Vec<&str> = members.map(|(name, _)| name.as_str()).collect();
        members.sort_unstable();
        ensure!(members == STATUS_MEMBERS, "{} {when}: {members:?}", self.cluster);
        let pauses = status["pauseConditions"].as_array().map_or(0, Vec::len);
        ensure!(pauses == 1, "{} {when}: {pauses} reasons to pause", self.cluster);
        Ok(())
    }

    /// The observed generation catches up with the pass after the one that pauses.
    async fn observed(&self, when: &str) -> Result<i64> {
        self.until(when, "true", async |seat| {
            let game = seat.game().await?;
            let seen = &game["status"]["observedGeneration"];
            Ok((*seen == game["metadata"]["generation"]).to_string())
        })
        .await?;
        let game = self.game().await?;
        game["metadata"]["generation"].as_i64().context("no generation")
    }

    /// Up to the hook that fails.
    async fn begin(&self) -> Result<()> {
        let said = self.apply("hooktemplate.yaml").await?;
        ensure!(said.trim() == "hooktemplate.tkex.tencent.com/test created", "{said}");
        let said = self.apply("gamedeployment.yaml").await?;
        ensure!(said.trim() == format!("gamedeployment.tkex.tencent.com/{GAME} created"), "{said}");
        self.row("created", [4, 4, 4, 4, 4]).await?;

        self.image("python:3.5").await?;
        self.row("step 0", [4, 1, 0, 3, 4]).await?;
        self.row("step 1", [4, 1, 1, 4, 4]).await?;
        self.paused("step 1", "PausedByCanaryPauseStep", 1).await?;
        ensure!(self.observed("step 1").await? == 3, "{}: writes nobody asked for", self.cluster);
        let game = self.game().await?;
        self.compare("step 1", &game, 1, 1)?;
        let is_early = game["status"]["canary"]["currentStepHookRun"].is_null();
        ensure!(is_early, "{}: a run before its step", self.cluster);
        let hash = game["status"]["currentStepHash"].clone();
        let paused_at = game["status"]["pauseConditions"][0]["startTime"].clone();

        self.resume().await?;
        self.row("step 2", [4, 2, 2, 4, 4]).await?;
        self.paused("step 3", "PausedByCanaryPauseStep", 3).await?;
        ensure!(self.observed("step 3").await? == 5, "{}", self.cluster);
        let game = self.game().await?;
        self.compare("step 3", &game, 3, 2)?;
        let status = &game["status"];
        ensure!(status["currentStepHash"] == hash, "the same steps, another hash");
        ensure!(status["pauseConditions"][0]["startTime"] != paused_at, "an old time");

        self.paused("step 4", "PausedByStepBasedHook", 4).await?;
        ensure!(self.observed("step 4").await? == 7, "{}", self.cluster);
        let game = self.game().await?;
        self.compare("step 4", &game, 4, 2)?;
        let run = &game["status"]["canary"]["currentStepHookRun"];
        ensure!(*run == RUN, "{}: {run}", self.cluster);
        self.failed_run().await
    }

    async fn failed_run(&self) -> Result<()> {
        let table = self.kubectl(&["get", "hookrun"]).await?;
        let lines: Vec<Vec<_>> = table.lines().map(|it| it.split_whitespace().collect()).collect();
        ensure!(lines.len() == 2 && lines[0] == ["NAME", "PHASE", "AGE"], "{table}");
        ensure!(lines[1][..2] == [RUN, "Failed"], "{table}");
        let run = self.object("hookrun", RUN).await?;
        let spec = json!({ "metrics": [{
            "count": 2, "interval": "60s", "name": "webtest",
            "provider": { "web": { "jsonPath": "{$.age}", "url": format!("http://{}", self.hook) } },
            "successCondition": "asInt(result) < 30",
        }] });
        ensure!(run["spec"] == spec, "{}: {:#}", self.cluster, run["spec"]);
        let status = &run["status"];
        let result = &status["metricResults"][0];
        let measurement = &result["measurements"][0];
        let seen = json!([
            status["phase"],
            result["name"],
            result["phase"],
            result["count"],
            result["failed"],
            measurement["phase"],
            measurement["value"],
            result["measurements"][1],
        ]);
        let wanted = json!(["Failed", "webtest", "Failed", 1, 1, "Failed", "45", null]);
        ensure!(seen == wanted, "{}: {status:#}", self.cluster);
        let has_times = status["startedAt"].is_string()
            && measurement["startedAt"].is_string()
            && measurement["finishedAt"].is_string();
        ensure!(has_times, "{}: {status:#}", self.cluster);
        Ok(())
    }

    /// The ending in which the release goes on.
    async fn go_on(&self) -> Result<()> {
        self.begin().await?;
        let pods = self.pods().await?;
        self.resume().await?;
        self.row("going on", [4, 4, 2, 2, 4]).await?;
        self.row("the end", [4, 4, 4, 4, 4]).await?;
        self.until("the end", &format!("5 \"{SECOND}\""), async |seat| {
            let status = seat.game().await?["status"].take();
            Ok(format!("{} {}", status["currentStepIndex"], status["canary"]["revision"]))
        })
        .await?;
        ensure!(self.pods().await? == pods, "{}: the pods are others", self.cluster);
        // No pause is on: accepted, and without effect.
        self.resume().await?;
        self.row("resumed for nothing", [4, 4, 4, 4, 4]).await
    }

    /// The ending in which the template goes back.
    async fn go_back(&self) -> Result<()> {
        self.begin().await?;
        self.image("python:latest").await?;
        self.row("going back", [4, 4, 2, 2, 4]).await?;
        self.row("back", [4, 4, 4, 4, 4]).await?;
        self.until("back", "", async |seat| seat.kubectl(&["get", "hookrun", "-o", "name"]).await)
            .await?;
        let status = self.game().await?["status"].take();
        ensure!(status["updateRevision"] == FIRST, "{}: {status:#}", self.cluster);
        Ok(())
    }

    /// Names and uids of all pods.
    async fn pods(&self) -> Result<Vec<String>> {
        let template = "jsonpath={range .items[*]}{.metadata.name}/{.metadata.uid} {end}";
        let listed = self.kubectl(&["get", "pods", "-o", template]).await?;
        let mut pods: Vec<String> = listed.split_whitespace().map(str::to_owned).collect();
        pods.sort();
        Ok(pods)
    }
}

async fn start_sandbox(folder: &Path) -> Result<(Process, PathBuf)> {
    let kubeconfig = folder.join("sandbox.kubeconfig");
    let file = kubeconfig.display().to_string();
    let arguments = ["sandbox", "--nodes=2", "--listen=127.0.0.1:0", "--kubeconfig", &file];
    let arguments = arguments.map(str::to_owned);
    let process = Process::start("sandbox", &program()?, &arguments, folder)?;
    eventually("the sandbox has started", PATIENCE, async || {
        Ok(fs::metadata(&kubeconfig).is_ok_and(|it| it.len() > 0).then_some(()))
    })
    .await?;
    Ok((process, kubeconfig))
}

/// A control plane with nodes whose pods get no requests.
async fn cluster(options: &Options) -> Result<(ControlPlane, Node)> {
    let settings = NodeSettings { applications: false, count: 2, ..NodeSettings::default() };
    tidegate_e2e::stage::cluster(options, settings).await
}

#[test]
fn the_published_example_goes_as_published_on_both_clusters() {
    inside("the_published_example_goes_as_published_on_both_clusters", async || {
        let (plane, _node) = cluster(&Options::default()).await?;
        let installation = Installation::apply(&plane, &["--allow-loopback-hooks"]).await?;
        let _operator = installation.start(&plane, "operator").await?;
        let (_sandbox, in_memory) = start_sandbox(plane.folder()).await?;
        let hook = web_server().await?;
        let seat = |cluster, kubeconfig: &Path, namespace: &str| -> Result<Seat> {
            Ok(Seat {
                cluster,
                kubectl: plane.parts().kubectl()?,
                kubeconfig: kubeconfig.to_owned(),
                namespace: namespace.to_owned(),
                folder: plane.folder().to_owned(),
                hook,
            })
        };
        let real = plane.kubeconfig("admin")?;
        let mut seats = Vec::new();
        for (cluster, kubeconfig) in [("real", &real), ("sandbox", &in_memory)] {
            for namespace in ["go-on", "go-back"] {
                let seat = seat(cluster, kubeconfig, namespace)?;
                seat.kubectl(&["create", "namespace", namespace]).await?;
                seats.push(seat);
            }
        }
        let [first, second, third, fourth] = seats.as_slice() else { bail!("four seats") };
        tokio::try_join!(first.go_on(), second.go_back(), third.go_on(), fourth.go_back())?;
        println!("4 rollouts, two endings on a real cluster and on the sandbox");
        Ok(())
    });
}

// Mistake 44 of docs/mistakes.md.
#[test]
fn a_policy_keeps_workloads_from_being_deleted_by_accident() {
    inside("a_policy_keeps_workloads_from_being_deleted_by_accident", async || {
        let (plane, _node) = cluster(&Options::default()).await?;
        let client = plane.client();
        apply_folder(&client, &root().join("deploy/crds")).await?;
        apply_folder(&client, &root().join("deploy/game/delete-protection.yaml")).await?;
        let seat = Seat {
            cluster: "real",
            kubectl: plane.parts().kubectl()?,
            kubeconfig: plane.kubeconfig("admin")?,
            namespace: "default".to_owned(),
            folder: plane.folder().to_owned(),
            hook: web_server().await?,
        };
        seat.apply("gamedeployment.yaml").await?;
        seat.apply("hooktemplate.yaml").await?;
        let delete = async |kind: &str, name: &str| {
            seat.kubectl(&["delete", kind, name, "--dry-run=server"]).await
        };
        let allow = async |kind: &str, name: &str, word: &str| {
            let label = format!("io.tencent.bcs.dev/deletion-allow={word}");
            seat.kubectl(&["label", "--overwrite", kind, name, &label]).await
        };
        // A policy is in force a moment after its creation.
        eventually("the policy is in force", PATIENCE, async || {
            Ok(delete("gamedeployment", GAME).await.err())
        })
        .await?;
        let definition = "gamedeployments.tkex.tencent.com";
        for (kind, name) in
            [("gamedeployment", GAME), ("hooktemplate", "test"), ("crd", definition)]
        {
            let why = delete(kind, name).await.err().map(|it| it.to_string()).unwrap_or_default();
            let says = "ResourceDeletionAllow: set label io.tencent.bcs.dev/deletion-allow=Always";
            ensure!(why.contains(says), "{kind}: {why}");
            allow(kind, name, "Cascading").await?;
            let why = delete(kind, name).await.err().map(|it| it.to_string()).unwrap_or_default();
            ensure!(why.contains("deletion-allow"), "{kind}: {why}");
        }
        let why = delete("gamedeployment", GAME).await.err().map(|it| it.to_string());
        ensure!(
            why.clone().unwrap_or_default().contains("at 0 replicas, and there are 4"),
            "{why:?}"
        );
        seat.kubectl(&["scale", "gamedeployment", GAME, "--replicas=0"]).await?;
        delete("gamedeployment", GAME).await?;
        for (kind, name) in [("hooktemplate", "test"), ("crd", definition)] {
            allow(kind, name, "Always").await?;
            delete(kind, name).await?;
        }
        // A namespace can be deleted with everything in it.
        seat.kubectl(&["create", "namespace", "closing"]).await?;
        let closing = Seat { namespace: "closing".to_owned(), ..seat.clone() };
        closing.apply("gamedeployment.yaml").await?;
        seat.kubectl(&["delete", "namespace", "closing", "--wait=false"]).await?;
        eventually("the namespace is gone", PATIENCE, async || {
            let listed = seat.kubectl(&["get", "namespaces", "-o", "name"]).await?;
            Ok((!listed.lines().any(|name| name == "namespace/closing")).then_some(()))
        })
        .await
    });
}

// Mistake 29 of docs/mistakes.md.
#[test]
fn a_policy_and_a_budget_keep_pods_from_going_past_their_hook() {
    inside("a_policy_and_a_budget_keep_pods_from_going_past_their_hook", async || {
        let (plane, _node) = cluster(&Options::default()).await?;
        let client = plane.client();
        let policy = root().join("deploy/game/pod-protection.yaml");
        apply_folder(&client, &policy).await?;
        let seat = Seat {
            cluster: "real",
            kubectl: plane.parts().kubectl()?,
            kubeconfig: plane.kubeconfig("admin")?,
            namespace: "default".to_owned(),
            folder: plane.folder().to_owned(),
            hook: web_server().await?,
        };
        deploy(&seat, &client, "guarded", json!({ "tidegate.dev/guard": "pre-delete" })).await?;
        deploy(&seat, &client, "plain", json!({})).await?;
        let delete = async |app: &str| {
            seat.kubectl(&["delete", "pod", "-l", &format!("app={app}"), "--dry-run=server"]).await
        };
        eventually("the policy is in force", PATIENCE, async || Ok(delete("guarded").await.err()))
            .await?;
        let why = delete("guarded").await.err().map(|it| it.to_string()).unwrap_or_default();
        ensure!(why.contains("would not ask the pre-delete hook"), "{why}");
        delete("plain").await?;
        let operator = "--as=system:serviceaccount:tidegate:tidegate";
        let role = ["create", "clusterrolebinding", "operator", "--clusterrole=cluster-admin"];
        let account = "--serviceaccount=tidegate:tidegate";
        seat.kubectl(&[&role[..], &[account]].concat()).await?;
        let pods = ["delete", "pod", "-l", "app=guarded", "--dry-run=server", operator];
        seat.kubectl(&pods).await?;

        // The budget on the page, as it is printed there.
        let text = std::fs::read_to_string(&policy)?;
        let lines = text.lines().filter_map(|line| line.strip_prefix("#   "));
        let budget: Vec<&str> =
            lines.skip_while(|line| !line.starts_with("apiVersion: policy")).collect();
        let mut budget: Value = serde_saphyr::from_str(&budget.join("\n"))?;
        budget["metadata"]["namespace"] = "default".into();
        tidegate_e2e::apply(&client, &budget).await?;
        holds(&seat, "poddisruptionbudget", "pre-delete", |it| {
            it["status"]["currentHealthy"] == 1 && it["status"]["disruptionsAllowed"] == 0
        })
        .await?;
        ensure!(!evict(&seat, "guarded").await?, "an eviction is put off");
        ensure!(evict(&seat, "plain").await?, "others are not");
        // The cluster deletes the dependents of an object that a user deleted.
        seat.kubectl(&["delete", "deployment", "guarded", "--wait=false"]).await?;
        eventually("its pods go with it", PATIENCE, async || {
            let left = seat.kubectl(&["get", "pods", "-l", "app=guarded", "-o", "name"]).await?;
            Ok(left.trim().is_empty().then_some(()))
        })
        .await
    });
}

/// One pod of a Deployment, with these labels besides its own.
async fn deploy(seat: &Seat, client: &kube::Client, name: &str, mut labels: Value) -> Result<()> {
    labels["app"] = name.into();
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": name, "namespace": seat.namespace },
        "spec": {
            "replicas": 1, "selector": { "matchLabels": { "app": name } },
            "template": {
                "metadata": { "labels": labels },
                "spec": { "containers": [{ "name": "game", "image": "game:1" }] },
            },
        },
    });
    tidegate_e2e::apply(client, &deployment).await?;
    holds(seat, "deployment", name, |it| it["status"]["readyReplicas"] == 1).await
}

/// Evicts the pod of a Deployment; whether that is allowed.
async fn evict(seat: &Seat, app: &str) -> Result<bool> {
    let label = format!("app={app}");
    let name = seat.kubectl(&["get", "pods", "-l", &label, "-o", "name"]).await?;
    let name = name.trim().trim_start_matches("pod/");
    // 429 is an answer; a client would retry for minutes, and print nothing meanwhile.
    let options = KubeConfigOptions::default();
    let mut config =
        Config::from_custom_kubeconfig(Kubeconfig::read_from(&seat.kubeconfig)?, &options).await?;
    (config.default_retry, config.proxy_url) = (false, None);
    let pods: Api<Pod> = Api::namespaced(kube::Client::try_from(config)?, &seat.namespace);
    let how = EvictParams::default();
    match tokio::time::timeout(EVICTION_MAX, pods.evict(name, &how)).await {
        Ok(Err(kube::Error::Api(status))) => ensure!(status.code == 429, "{status:?}"),
        Ok(answer) => drop(answer?),
        Err(_) => bail!("waited {} s in vain: an eviction is answered", EVICTION_MAX.as_secs()),
    }
    let pod = pods.get_opt(name).await?;
    Ok(pod.is_none_or(|pod| pod.metadata.deletion_timestamp.is_some()))
}

/// An attempt starts a program, which is the larger part of the load; nothing here is over so soon.
async fn pause_unless(is_so: bool) -> Result<Option<()>> {
    if !is_so {
        tokio::time::sleep(Duration::from_millis(800)).await;
    }
    Ok(is_so.then_some(()))
}

/// Waits until an object is as expected; the error has the last state.
async fn holds(seat: &Seat, kind: &str, name: &str, is_so: impl Fn(&Value) -> bool) -> Result<()> {
    let mut last = Value::Null;
    let what = format!("{kind} {name} comes to it");
    let waited = eventually(&what, PATIENCE, async || {
        last = seat.object(kind, name).await?;
        pause_unless(is_so(&last)).await
    });
    let waited = waited.await;
    waited.with_context(|| format!("{kind} {name} is this instead:\n{last:#}"))
}

/// All actions that need a permission, on one workload of each kind.
struct Life {
    seat: Seat,
    client: kube::Client,
}

impl Life {
    async fn apply(&self, mut object: Value) -> Result<()> {
        object["metadata"]["namespace"] = self.seat.namespace.as_str().into();
        tidegate_e2e::apply(&self.client, &object).await?;
        Ok(())
    }

    fn workload(kind: &str, name: &str, more: &Value) -> Value {
        let container = json!({ "name": "game", "image": "game:1.0" });
        let mut object = json!({
            "apiVersion": "tkex.tencent.com/v1alpha1", "kind": kind, "metadata": { "name": name },
            "spec": {
                "replicas": 2, "revisionHistoryLimit": 0,
                "selector": { "matchLabels": { "app": name } },
                "template": {
                    "metadata": { "labels": { "app": name } }, "spec": { "containers": [container] },
                },
                "updateStrategy": {
                    "type": "InplaceUpdate", "canary": { "steps": [
                        { "partition": 1 }, { "pause": {} }, { "hook": { "templateName": "slow" } },
                    ] },
                },
            },
        });
        for (member, value) in more.as_object().into_iter().flatten() {
            object["spec"][member] = value.clone();
        }
        object
    }

    /// A pod without an owner that the selector matches.
    async fn orphan(&self, name: &str, app: &str) -> Result<()> {
        self.apply(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": name, "labels": { "app": app } },
            "spec": { "containers": [{ "name": "game", "image": "game:1.0" }] },
        }))
        .await
    }

    /// A hook that queries a pod, without an end.
    async fn template(&self, pod: &str) -> Result<()> {
        let field = json!({ "path": "metadata.annotations.matches", "value": "none" });
        self.apply(json!({
            "apiVersion": "tkex.tencent.com/v1alpha1", "kind": "HookTemplate",
            "metadata": { "name": "slow" },
            "spec": {
                "args": [
                    { "name": "PodName", "value": pod },
                    { "name": "PodNamespace", "value": self.seat.namespace },
                ],
                "metrics": [{
                    "name": "matches", "interval": "30s", "failureLimit": 50, "successfulLimit": 1,
                    "provider": { "kubernetes": { "function": "get", "fields": [field] } },
                }],
            },
        }))
        .await
    }

    async fn image(&self, kind: &str, name: &str, image: &str) -> Result<()> {
        let containers = json!([{ "name": "game", "image": image }]);
        let patch = json!({ "spec": { "template": { "spec": { "containers": containers } } } });
        self.merge(kind, name, &patch).await
    }

    async fn merge(&self, kind: &str, name: &str, patch: &Value) -> Result<()> {
        self.seat.kubectl(&["patch", kind, name, "--type=merge", "-p", &patch.to_string()]).await?;
        Ok(())
    }

    /// Up to a running hook, and back while it runs.
    async fn release(&self, kind: &str, name: &str) -> Result<()> {
        let seat = &self.seat;
        let rests = |object: &Value| {
            let status = &object["status"];
            status["updatedReadyReplicas"] == object["spec"]["replicas"]
                && status["phase"] == "Healthy"
                && status["observedGeneration"] == object["metadata"]["generation"]
        };
        holds(seat, kind, name, rests).await?;
        self.image(kind, name, "game:2.0").await?;
        let is_paused = |it: &Value| it["spec"]["updateStrategy"]["paused"] == true;
        holds(seat, kind, name, is_paused).await?;
        self.merge(kind, name, &json!({ "spec": { "updateStrategy": { "paused": false } } }))
            .await?;
        let runs = |it: &Value| it["status"]["canary"]["currentStepHookRun"].is_string();
        holds(seat, kind, name, runs).await?;
        let run = seat.object(kind, name).await?["status"]["canary"]["currentStepHookRun"].take();
        let run = run.as_str().unwrap_or_default().to_owned();
        holds(seat, "hookrun", &run, |it| it["status"]["metricResults"][0]["count"] != Value::Null)
            .await?;
        self.image(kind, name, "game:1.0").await?;
        holds(seat, kind, name, rests).await
    }

    async fn live(&self) -> Result<()> {
        let seat = &self.seat;
        self.orphan("lobby-found", "lobby").await?;
        self.orphan("rooms-0", "rooms").await?;
        self.template("rooms-0").await?;
        self.apply(Self::workload("GameDeployment", "lobby", &json!({}))).await?;
        let claim = json!([{
            "metadata": { "name": "maps" },
            "spec": {
                "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } },
            },
        }]);
        let more = json!({ "serviceName": "rooms", "volumeClaimTemplates": claim });
        self.apply(Self::workload("GameStatefulSet", "rooms", &more)).await?;
        for pod in ["lobby-found", "rooms-0"] {
            holds(seat, "pod", pod, |it| it["metadata"]["ownerReferences"][0].is_object()).await?;
            // It has no revision, so it cannot be updated in place: another pod replaces it.
            seat.kubectl(&["delete", "pod", pod, "--wait=false"]).await?;
        }
        tokio::try_join!(
            self.release("gamedeployment", "lobby"),
            self.release("gamestatefulset", "rooms")
        )?;
        // A lost pod gets its former claim.
        let lost = seat.object("pod", "rooms-1").await?["metadata"]["uid"].take();
        seat.kubectl(&["delete", "pod", "rooms-1", "--wait=false"]).await?;
        let is_back =
            |it: &Value| it["metadata"]["uid"].is_string() && it["metadata"]["uid"] != lost;
        holds(seat, "pod", "rooms-1", is_back).await?;
        seat.kubectl(&["scale", "gamedeployment", "lobby", "--replicas=1"]).await?;
        holds(seat, "gamedeployment", "lobby", |it| it["status"]["replicas"] == 1).await?;
        // A revision whose name is taken.
        self.apply(json!({
            "apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": { "name": FIRST },
            "revision": 7, "data": {},
        }))
        .await?;
        seat.apply("gamedeployment.yaml").await?;
        holds(seat, "gamedeployment", GAME, |it| it["status"]["collisionCount"] == 1).await
    }
}

#[test]
fn the_game_role_is_enough_and_grants_nothing_in_vain() {
    inside("the_game_role_is_enough_and_grants_nothing_in_vain", async || {
        let audited = Some(Installation::USER.to_owned());
        let (plane, _node) = cluster(&Options { audited, ..Options::default() }).await?;
        let installation = Installation::apply(&plane, &["--allow-loopback-hooks"]).await?;
        let _operator = installation.start(&plane, "operator").await?;
        let seat = Seat {
            cluster: "real",
            kubectl: plane.parts().kubectl()?,
            kubeconfig: plane.kubeconfig("admin")?,
            namespace: "rights".to_owned(),
            folder: plane.folder().to_owned(),
            hook: web_server().await?,
        };
        seat.kubectl(&["create", "namespace", "rights"]).await?;
        let life = Life { seat, client: plane.client() };
        life.live().await?;
        let asked = plane.asked()?;
        let denied: BTreeSet<_> =
            asked.iter().filter(|it| it.code == 403).map(Asked::line).collect();
        ensure!(denied.is_empty(), "denied: {denied:?}");
        let used: BTreeSet<_> = asked.iter().map(Asked::line).collect();
        let role = life.seat.object("clusterrole", "tidegate-game").await?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut granted = BTreeSet::new();
        for rule in role["rules"].as_array().into_iter().flatten() {
            for verb in rule["verbs"].as_array().into_iter().flatten() {
                let (group, resource) = (text(&rule["apiGroups"][0]), text(&rule["resources"][0]));
                // Permissions on owners are checked by an admission plugin, and used by no request.
                if !resource.ends_with("/finalizers") {
                    granted.insert(format!("{group}/{resource} {}", text(verb)));
                }
            }
        }
        let vain: Vec<_> = granted.difference(&used).collect();
        ensure!(!granted.is_empty() && vain.is_empty(), "granted, and never used: {vain:#?}");
        println!("{} requests, {} rights granted and used", asked.len(), granted.len());
        Ok(())
    });
}
