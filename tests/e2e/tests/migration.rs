//! Between a real Flagger and Tidegate, both ways.
//!
//! Canaries are brought into their phases by one operator, and the other one takes over. To Tidegate nothing needs to
//! be done: no object changes. Back to Flagger the commands of the page *Going back to Flagger* are played, taken from
//! the page, with the names of the test's objects. No route may give weight to a revision that failed, no rollout
//! may start by itself, and the next release must work. The last test is the page's table of canaries that are left as
//! they are: it shows that the one before could fail.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use kube::{
    Client,
    api::{DynamicObject, ListParams, Patch, PatchParams},
    core::TypeMeta,
};
use serde_json::{Value, json};
use tidegate_e2e::{
    ControlPlane, Installation, Node, NodeSettings, Options, api_of, apply, apply_folder,
    eventually, inside, program,
    stage::{CANARY, DEPLOYMENT, HTTP_ROUTE, Kind, SERVICE, cluster, deployment},
};
use tokio::{sync::oneshot, task::JoinHandle};

const PAGE: &str = "../../docs/guide/back-to-flagger.md";
const SPACE: &str = "shop";
const DESTINATION_RULE: Kind = ("networking.istio.io/v1beta1", "DestinationRule");
const VIRTUAL_SERVICE: Kind = ("networking.istio.io/v1beta1", "VirtualService");
/// Flagger looks at each canary three times.
const THREE_INTERVALS: Duration = Duration::from_secs(35);
const PATIENCE: Duration = Duration::from_mins(3);
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// A closed port: the hook fails.
const CLOSED: &str = "http://127.0.0.1:9/";

/// A canary, and the state that Tidegate leaves it in.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    phase: &'static str,
    /// The type of its hook, and the failed checks that end its rollout.
    hook: Option<(&'static str, u32)>,
    provider: &'static str,
}

const SUCCEEDED: Case =
    Case { name: "succeeded", phase: "Succeeded", hook: None, provider: "istio" };
const FAILED: Case =
    Case { name: "failed", phase: "Failed", hook: Some(("rollout", 1)), ..SUCCEEDED };
/// Not set back by its owner.
const KEPT: Case = Case { name: "kept", ..FAILED };
const PROGRESSING: Case =
    Case { name: "progressing", phase: "Progressing", hook: Some(("rollout", 1000)), ..SUCCEEDED };
const WAITING: Case = Case {
    name: "waiting",
    phase: "WaitingPromotion",
    hook: Some(("confirm-promotion", 1000)),
    ..SUCCEEDED
};
const GATEWAY: Case = Case { name: "gateway", provider: "gatewayapi:v1", ..SUCCEEDED };
/// Its Service is the user's.
const PLAIN: Case = Case { name: "plain", provider: "kubernetes", ..SUCCEEDED };

/// A cluster with both operators' programs.
struct Ground {
    client: Client,
    kubeconfig: PathBuf,
    tidegate: Installation,
    flagger: Installation,
    page: String,
    _node: Node,
    plane: ControlPlane,
}

/// A watch over routes.
struct Guard {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<()>>,
}

#[test]
fn canaries_come_from_flagger_and_nothing_changes() {
    inside("canaries_come_from_flagger_and_nothing_changes", async || {
        let cases = [SUCCEEDED, FAILED, PROGRESSING, WAITING, GATEWAY, PLAIN];
        let ground = Ground::open().await?;
        let flagger = ground.flagger.start_with(&ground.kubeconfig, "flagger").await?;
        ground.bring_about(&cases).await?;
        drop(flagger);
        let before = ground.objects().await?;
        ensure!(before.len() > 30, "only {} objects: {:?}", before.len(), before.keys());
        let _tidegate = ground.tidegate.start_with(&ground.kubeconfig, "tidegate").await?;
        let end = Instant::now() + THREE_INTERVALS;
        while Instant::now() < end {
            for case in cases {
                let status = ground.read(CANARY, SPACE, case.name).await?["status"].take();
                ensure!(status["phase"] == case.phase, "{}: {status:#}", case.name);
            }
            let now = ground.objects().await?;
            for (name, spec) in &before {
                ensure!(now.get(name) == Some(spec), "{name}: {spec:#}\n{:#?}", now.get(name));
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        for case in cases {
            let status = ground.read(CANARY, SPACE, case.name).await?["status"].take();
            let applied = status["lastAppliedSpec"].as_str().unwrap_or_default();
            ensure!(applied.starts_with("v1-"), "{} was not adopted: {status:#}", case.name);
            let decision = &status["lastDecision"];
            ensure!(decision["reason"] != "Refused", "{}: {decision:#}", case.name);
        }
        Ok(())
    });
}

#[test]
fn canaries_go_back_to_flagger_without_a_rollout() {
    inside("canaries_go_back_to_flagger_without_a_rollout", async || {
        let cases = [SUCCEEDED, FAILED, KEPT, PROGRESSING, WAITING];
        let ground = Ground::open().await?;
        let tidegate = ground.tidegate.start_with(&ground.kubeconfig, "tidegate").await?;
        ground.bring_about(&cases).await?;
        let guard = ground.guard(&[FAILED, KEPT]);

        for case in [FAILED, PROGRESSING, WAITING] {
            ground.play("kubectl rollout undo", case.name)?;
        }
        ground.all(&[PROGRESSING, WAITING], "Succeeded", 0).await?;
        for case in [FAILED, PROGRESSING, WAITING] {
            ground.image(case.name, "app:1.0").await?;
        }
        let listed = ground.play("SUSPENDED", "")?;
        ensure!(listed.contains("Failed") && !listed.contains("Progressing"), "{listed}");

        ground.play("deployment/tidegate", "")?;
        ground.scaled("tidegate-system", "tidegate", 0).await?;
        drop(tidegate);
        let patched = ground.play("--subresource status", "")?;
        ensure!(patched.lines().count() == cases.len(), "not all were reset: {patched}");
        ground.play("deployment/flagger", "")?;
        ground.scaled("istio-system", "flagger", 1).await?;
        let _flagger = ground.flagger.start_with(&ground.kubeconfig, "flagger").await?;

        ground.all(&cases, "Initialized", 0).await?;
        ground.rests(&cases).await?;
        guard.end().await?;
        for case in cases {
            let hooks = json!({ "spec": { "analysis": { "webhooks": [] } } });
            ground.patch(CANARY, case.name, &hooks).await?;
            ground.release(case.name, "app:3.0").await?;
        }
        ground.all(&cases, "Progressing", 50).await?;
        ground.all(&cases, "Succeeded", 0).await?;
        for case in cases {
            ground.image(&format!("{}-primary", case.name), "app:3.0").await?;
        }
        Ok(())
    });
}

#[test]
fn canaries_that_are_left_as_they_are_roll_out_again() {
    inside("canaries_that_are_left_as_they_are_roll_out_again", async || {
        let cases = [SUCCEEDED, FAILED, PROGRESSING, WAITING];
        let ground = Ground::open().await?;
        let tidegate = ground.tidegate.start_with(&ground.kubeconfig, "tidegate").await?;
        ground.bring_about(&cases).await?;
        drop(tidegate);
        let _flagger = ground.flagger.start_with(&ground.kubeconfig, "flagger").await?;
        // From the beginning, after a moment at 0; then with weight, the failed revision too.
        ground.all(&[SUCCEEDED, PROGRESSING, WAITING], "Progressing", 0).await?;
        ground.all(&[FAILED], "Progressing", 50).await?;
        ground.image(FAILED.name, "app:2.0").await?;
        ground.image("failed-primary", "app:1.0").await?;
        ground.all(&[FAILED], "Failed", 0).await?;
        ground.all(&[SUCCEEDED], "Succeeded", 0).await
    });
}

// === impl Ground ===

impl Ground {
    async fn open() -> Result<Self> {
        let settings = NodeSettings { applications: false, ..NodeSettings::default() };
        let (plane, node) = cluster(&Options::default(), settings).await?;
        let client = plane.client();
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        apply_folder(&client, &root.join("../../deploy/crds")).await?;
        for (space, name, replicas) in
            [(SPACE, "", 0), ("tidegate-system", "tidegate", 1), ("istio-system", "flagger", 0)]
        {
            let named = json!({ "name": space });
            apply(&client, &json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": named }))
                .await?;
            if !name.is_empty() {
                // The operators run beside the cluster; these are what the commands scale.
                let mut stand_in = deployment(name, "app:1.0");
                stand_in["metadata"]["namespace"] = json!(space);
                stand_in["spec"]["replicas"] = json!(replicas);
                apply(&client, &stand_in).await?;
            }
        }
        let flags = ["--mesh-provider=istio", "--control-loop-interval=1s", "--log-level=info"];
        let folder = plane.folder();
        let theirs = plane.parts().program("flagger", "flagger")?;
        let flagger = Installation::of_program(theirs, folder, &flags);
        let ours = [&["operator", "--allow-loopback-hooks", "--startup-spread=0s"], &flags[..]];
        let tidegate = Installation::of_program(program()?, folder, &ours.concat());
        let kubeconfig = plane.kubeconfig("admin")?;
        let page = fs::read_to_string(root.join(PAGE))?;
        Ok(Self { client, kubeconfig, tidegate, flagger, page, _node: node, plane })
    }

    /// Creates the canaries, and lets the operator bring each into its phase with the revision 2.0.
    async fn bring_about(&self, cases: &[Case]) -> Result<()> {
        for case in cases {
            let mut target = deployment(case.name, "app:1.0");
            target["metadata"]["namespace"] = json!(SPACE);
            apply(&self.client, &target).await?;
            if case.name == PLAIN.name {
                apply(&self.client, &service(case.name)).await?;
            }
            apply(&self.client, &canary(case)).await?;
        }
        self.all(cases, "Initialized", 0).await?;
        for case in cases {
            self.release(case.name, "app:2.0").await?;
        }
        for case in cases {
            let weight = if matches!(case.phase, "Succeeded" | "Failed") { 0 } else { 50 };
            self.all(&[*case], case.phase, weight).await?;
        }
        Ok(())
    }

    /// The specs of all objects that an operator writes, by kind and name.
    async fn objects(&self) -> Result<BTreeMap<String, Value>> {
        let mut found = BTreeMap::new();
        for (version, kind) in [DEPLOYMENT, SERVICE, VIRTUAL_SERVICE, DESTINATION_RULE, HTTP_ROUTE]
        {
            let types = TypeMeta { api_version: version.to_owned(), kind: kind.to_owned() };
            let api = api_of(&self.client, &types, Some(SPACE)).await?;
            for object in api.list(&ListParams::default()).await?.items {
                let name = object.metadata.name.unwrap_or_default();
                found.insert(format!("{kind} {name}"), object.data["spec"].clone());
            }
        }
        Ok(found)
    }

    /// Runs the block of the page with this text in it, for this canary.
    fn play(&self, with: &str, name: &str) -> Result<String> {
        let blocks = self.page.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
        let found: Vec<_> = blocks.filter(|block| block.contains(with)).collect();
        let [block] = found.as_slice() else { bail!("{} blocks with `{with}`", found.len()) };
        let block = block.replace("deployment/web ", &format!("deployment/{name} "));
        let kubectl = self.plane.parts().kubectl()?;
        let folder = kubectl.parent().context("kubectl is in a folder")?.display().to_string();
        let path = std::env::var("PATH").unwrap_or_default();
        let output = Command::new("bash")
            .args(["-euo", "pipefail", "-c", &block])
            .env("PATH", format!("{folder}:{path}"))
            .env("KUBECONFIG", &self.kubeconfig)
            .output()?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let complaint = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{block}\n{said}\n{complaint}");
        Ok(said)
    }

    async fn read(&self, kind: Kind, space: &str, name: &str) -> Result<Value> {
        let types = TypeMeta { api_version: kind.0.to_owned(), kind: kind.1.to_owned() };
        let api = api_of(&self.client, &types, Some(space)).await?;
        Ok(serde_json::to_value(api.get(name).await?)?)
    }

    async fn patch(&self, kind: Kind, name: &str, patch: &Value) -> Result<()> {
        let types = TypeMeta { api_version: kind.0.to_owned(), kind: kind.1.to_owned() };
        let api = api_of(&self.client, &types, Some(SPACE)).await?;
        api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(())
    }

    async fn release(&self, name: &str, image: &str) -> Result<()> {
        let containers = deployment(name, image)["spec"]["template"]["spec"]["containers"].clone();
        let template = json!({ "spec": { "containers": containers } });
        self.patch(DEPLOYMENT, name, &json!({ "spec": { "template": template } })).await
    }

    async fn image(&self, name: &str, image: &str) -> Result<()> {
        let found = self.read(DEPLOYMENT, SPACE, name).await?;
        let runs = &found["spec"]["template"]["spec"]["containers"][0]["image"];
        ensure!(runs == image, "{name} has {runs} and not {image}");
        Ok(())
    }

    async fn scaled(&self, space: &str, name: &str, replicas: i64) -> Result<()> {
        let found = self.read(DEPLOYMENT, space, name).await?;
        ensure!(found["spec"]["replicas"] == replicas, "{name}: {}", found["spec"]["replicas"]);
        Ok(())
    }

    /// Watches routes until [`Guard::end`]: from now on none of these canaries may have weight.
    fn guard(&self, cases: &[Case]) -> Guard {
        let names: Vec<_> = cases.iter().map(|case| case.name).collect();
        let (client, (stop, stopped)) = (self.client.clone(), oneshot::channel());
        let task = tokio::spawn(async move {
            let mut stopped = std::pin::pin!(stopped);
            loop {
                let weights = weights(&client).await?;
                let found = weights
                    .iter()
                    .find(|(name, weight)| *weight > 0 && names.contains(&name.as_str()));
                ensure!(found.is_none(), "a failed revision has weight: {weights:?}");
                tokio::select! {
                    _ = &mut stopped => return Ok(()),
                    () = tokio::time::sleep(LOOK_AGAIN) => {}
                }
            }
        });
        Guard { stop, task }
    }

    /// Waits until each has been in this phase with this weight in its route, at the same time or not.
    async fn all(&self, cases: &[Case], phase: &str, weight: i64) -> Result<()> {
        let mut missing: Vec<_> = cases.iter().map(|case| case.name).collect();
        let awaited = format!("{missing:?} are {phase} with weight {weight}");
        eventually(&awaited, PATIENCE, async || {
            let weights = weights(&self.client).await?;
            let mut others = Vec::new();
            for name in missing.drain(..) {
                let found = self.read(CANARY, SPACE, name).await?["status"]["phase"].take();
                let route =
                    weights.iter().find(|(route, _)| route == name).map(|(_, found)| *found);
                // Cases without a virtual service are idle: they have no weight.
                if found != phase || route.unwrap_or(0) != weight {
                    others.push(name);
                }
            }
            missing = others;
            Ok(missing.is_empty().then_some(()))
        })
        .await
    }

    /// For three intervals no canary has weight or pods, and none is in another phase.
    async fn rests(&self, cases: &[Case]) -> Result<()> {
        let end = Instant::now() + THREE_INTERVALS;
        while Instant::now() < end {
            let weights = weights(&self.client).await?;
            ensure!(weights.len() == cases.len(), "routes are missing: {weights:?}");
            ensure!(weights.iter().all(|(_, weight)| *weight == 0), "{weights:?}");
            for case in cases {
                let canary = self.read(CANARY, SPACE, case.name).await?;
                let phase = &canary["status"]["phase"];
                ensure!(phase == "Initialized", "{}: {phase}", case.name);
                self.scaled(SPACE, case.name, 0).await?;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        Ok(())
    }
}

// === impl Guard ===

impl Guard {
    async fn end(self) -> Result<()> {
        // It has ended by itself if a weight was found.
        let _ = self.stop.send(());
        self.task.await?
    }
}

/// The canary's weight in each route.
async fn weights(client: &Client) -> Result<Vec<(String, i64)>> {
    let types =
        TypeMeta { api_version: VIRTUAL_SERVICE.0.to_owned(), kind: VIRTUAL_SERVICE.1.to_owned() };
    let routes = api_of(client, &types, Some(SPACE)).await?.list(&ListParams::default()).await?;
    let weight = |route: DynamicObject| {
        let name = route.metadata.name.unwrap_or_default();
        let to = format!("{name}-canary");
        let mut sides = route.data["spec"]["http"][0]["route"].as_array()?.iter();
        let side = sides.find(|it| it["destination"]["host"] == *to)?;
        // Flagger leaves out a 0.
        Some((name, side["weight"].as_i64().unwrap_or(0)))
    };
    Ok(routes.items.into_iter().filter_map(weight).collect())
}

/// A Service as a user has it before there is a canary.
fn service(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": name, "namespace": SPACE },
        "spec": {
            "selector": { "app": name },
            "ports": [{ "name": "http", "port": 80, "targetPort": 9898 }],
        },
    })
}

fn canary(case: &Case) -> Value {
    let (hook, threshold) = case.hook.unwrap_or(("event", 1));
    let hooks = json!([{ "name": "hook", "type": hook, "url": CLOSED, "timeout": "1s" }]);
    let hooks = if case.hook.is_some() { hooks } else { json!([]) };
    let mut canary = json!({
        "apiVersion": CANARY.0, "kind": CANARY.1,
        "metadata": { "name": case.name, "namespace": SPACE },
        "spec": {
            "provider": case.provider,
            "targetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": case.name },
            "service": { "port": 80, "targetPort": 9898 },
            "progressDeadlineSeconds": 180,
            "analysis": {
                "interval": "10s", "threshold": threshold, "stepWeight": 50, "maxWeight": 50,
                "webhooks": hooks,
            },
        },
    });
    let analysis = &mut canary["spec"]["analysis"];
    match case.provider {
        "kubernetes" => {
            *analysis = json!({ "interval": "10s", "threshold": threshold, "iterations": 1 });
        }
        "gatewayapi:v1" => {
            canary["spec"]["service"]["gatewayRefs"] = json!([{ "name": "public" }]);
        }
        _ => {}
    }
    canary
}
