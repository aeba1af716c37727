//! `tidegate try`: a rollout, start to finish, on a cluster in this process.

use std::{
    collections::BTreeSet,
    net::SocketAddr,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::Context;
use serde_json::{Value, json};
use tidegate_sandbox::{
    Sandbox, Settings,
    cluster::{Cluster, DEPLOYMENTS, PODS, Resource, SERVICES},
    server::{User, local::Local},
    store::{EventKind, Stored, TableKey},
};

use crate::{
    kubeconfig::Kubeconfig,
    printer::{Printer, Tone},
    sandbox::{load_crds, wait_for_stop},
    table,
};

/// Watch a rollout on a cluster in memory; takes seconds and needs nothing.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  tidegate try --keep      and leave the cluster running for kubectl"
)]
pub(crate) struct Args {
    /// Keep the cluster running afterwards, with a kubeconfig for kubectl, until Ctrl-C.
    #[arg(long)]
    keep: bool,
}

const REPLICAS: u64 = 4;
const OLD: &str = "harbour:1.0";
const NEW: &str = "harbour:2.0";
/// A rollout here takes about three seconds; one that takes ten times that is stuck.
const PATIENCE: Duration = Duration::from_secs(30);

/// The story being told: where, since when, to whom.
struct Story<'a> {
    sandbox: &'a Sandbox,
    cluster: Local,
    printer: &'a Printer,
    began: Instant,
}

pub(crate) fn run(args: &Args, printer: &Printer) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Runtime::new().context("failed to start the runtime")?;
    runtime.block_on(tell(args, printer))
}

async fn tell(args: &Args, printer: &Printer) -> anyhow::Result<()> {
    let began = Instant::now();
    let sandbox = Sandbox::new(Settings::default().nodes(2));
    load_crds(&sandbox)?;
    sandbox.run();
    let cluster = sandbox.local(User::named("you"));
    let story = Story { sandbox: &sandbox, cluster, printer, began };
    printer.line(&printer.paint(Tone::Strong, "Tidegate: a rollout on a cluster in memory\n"));
    story.say(&format!(
        "cluster up: API server, controllers, 2 nodes, 7 custom kinds ({} ms)",
        began.elapsed().as_millis()
    ));
    story.first_version().await?;
    story.second_version().await?;
    story.show().await?;
    if args.keep {
        return keep(&sandbox, printer).await;
    }
    printer.line("");
    printer.line("Next: `tidegate sandbox` keeps such a cluster running for kubectl,");
    printer.line("      `tidegate try --keep` this one. `tidegate --help` lists the rest.");
    Ok(())
}

async fn keep(sandbox: &Sandbox, printer: &Printer) -> anyhow::Result<()> {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let listener = sandbox.listen(any).await.context("failed to listen on 127.0.0.1")?;
    let token = "sandbox-admin-try";
    sandbox.server().add_token(token, User::admin());
    let path = Path::new(".tidegate/kubeconfig");
    let kubeconfig = Kubeconfig::write(path, listener.address, token)?;
    let shown = std::path::absolute(kubeconfig.path()).unwrap_or_else(|_| path.to_owned());
    printer.line("");
    printer.line("The cluster stays until Ctrl-C. In another terminal:\n");
    printer.line(&format!("  export KUBECONFIG={}", shown.display()));
    printer.line("  kubectl get pods");
    printer.line("  kubectl set image deployment/harbour app=harbour:never-ready");
    printer.line("  kubectl rollout undo deployment harbour");
    wait_for_stop().await?;
    listener.stop().await;
    Ok(())
}

// === impl Story ===

impl Story<'_> {
    async fn first_version(&self) -> anyhow::Result<()> {
        self.create(DEPLOYMENTS, deployment())?;
        self.create(SERVICES, service())?;
        self.say(&format!("applied Deployment harbour: {REPLICAS} replicas of {OLD}"));
        self.follow(|pods| pods.ready_of(OLD) == REPLICAS).await?;
        self.good(&format!("{OLD} serves with {REPLICAS} ready pods"));
        Ok(())
    }

    async fn second_version(&self) -> anyhow::Result<()> {
        let template = json!({ "spec": { "template": { "spec": { "containers": [
            { "name": "app", "image": NEW, "ports": [{ "containerPort": 8080 }] }
        ] } } } });
        let start = self.sandbox.server().store.revision();
        self.cluster
            .patch(DEPLOYMENTS, "default", "harbour", "", &template)
            .context("failed to set the image")?;
        self.say(&format!("image set to {NEW}: one pod more, none fewer, at a time"));
        let is_done =
            |pods: &Pods| pods.0.len() as u64 == REPLICAS && pods.ready_of(NEW) == REPLICAS;
        self.follow(is_done).await?;
        let fewest = self.fewest_ready_since(start)?;
        self.good(&format!("{NEW} serves; never fewer than {fewest} pods were ready on the way"));
        Ok(())
    }

    fn create(&self, resource: Resource, object: Value) -> anyhow::Result<()> {
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        self.cluster
            .create(resource, "default", object)
            .map(|_| ())
            .with_context(|| format!("failed to create the {kind}"))
    }

    /// Replays every write to pods since `start`: what a picture now and then could miss.
    fn fewest_ready_since(&self, start: u64) -> anyhow::Result<u64> {
        let store = &self.sandbox.server().store;
        let pods = TableKey::new(PODS.group, PODS.plural);
        let forgotten = |_| anyhow::anyhow!("the rollout outlasted the history of its pods");
        let then = store.list_at(&pods, None, start).map_err(forgotten)?;
        let (events, _) = store.events_since(&pods, start, usize::MAX).map_err(forgotten)?;
        let ready = |object: &Stored| is_serving(&object.value());
        let mut serving: BTreeSet<String> =
            then.iter().filter(|pod| ready(pod)).map(|pod| pod.key.name.to_string()).collect();
        let mut fewest = serving.len();
        for event in events {
            let name = event.object.key.name.to_string();
            if event.kind != EventKind::Deleted && ready(&event.object) {
                serving.insert(name);
            } else {
                serving.remove(&name);
            }
            fewest = fewest.min(serving.len());
        }
        Ok(fewest as u64)
    }

    /// Draws the pods whenever they change, until `is_done`.
    async fn follow(&self, is_done: impl Fn(&Pods) -> bool) -> anyhow::Result<()> {
        let mut activity = self.sandbox.server().store.activity();
        let deadline = tokio::time::Instant::now() + PATIENCE;
        let mut drawn = String::new();
        loop {
            activity.borrow_and_update();
            let pods = Pods(self.cluster.list(PODS, Some("default")));
            let picture = self.picture(&pods);
            if picture != drawn {
                self.say(&picture);
                drawn = picture;
            }
            if is_done(&pods) {
                return Ok(());
            }
            let changed = tokio::time::timeout_at(deadline, activity.changed()).await;
            changed.context("the rollout is stuck")?.context("the cluster is gone")?;
        }
    }

    fn picture(&self, pods: &Pods) -> String {
        let bar = |image: &str, tone: Tone| {
            let (ready, all) = (pods.ready_of(image), pods.all_of(image));
            if all == 0 {
                return String::new();
            }
            let count = |n: u64| usize::try_from(n).unwrap_or_default();
            let blocks = "█".repeat(count(ready)) + &"░".repeat(count(all - ready));
            format!(
                "{image} {} {ready}/{all} ready",
                self.printer.paint(tone, &format!("{blocks:<5}"))
            )
        };
        let bars = [bar(OLD, Tone::Good), bar(NEW, Tone::New)];
        let bars: Vec<_> = bars.into_iter().filter(|text| !text.is_empty()).collect();
        if bars.is_empty() { "no pods yet".to_owned() } else { bars.join("   ") }
    }

    async fn show(&self) -> anyhow::Result<()> {
        self.printer.line("");
        let paths = [
            ("kubectl get deployments", "/apis/apps/v1/namespaces/default/deployments"),
            ("kubectl get pods", "/api/v1/namespaces/default/pods"),
        ];
        for (command, path) in paths {
            self.printer.line(&self.printer.paint(Tone::Faint, &format!("$ {command}")));
            self.printer.data(&table::fetch(self.sandbox, path).await?)?;
        }
        Ok(())
    }

    fn say(&self, text: &str) {
        let at = format!("{:5.1}s", self.began.elapsed().as_secs_f64());
        self.printer.line(&format!("{}  {text}", self.printer.paint(Tone::Faint, &at)));
    }

    fn good(&self, text: &str) {
        self.say(&self.printer.paint(Tone::Good, &format!("✓ {text}")));
    }
}

/// The pods of the story, as they are now.
struct Pods(Vec<Value>);

impl Pods {
    fn of<'a>(&'a self, image: &'a str) -> impl Iterator<Item = &'a Value> {
        self.0.iter().filter(move |pod| {
            pod["spec"]["containers"][0]["image"] == image
                && pod["metadata"]["deletionTimestamp"].is_null()
        })
    }

    fn all_of(&self, image: &str) -> u64 {
        self.of(image).count() as u64
    }

    fn ready_of(&self, image: &str) -> u64 {
        self.of(image).filter(|pod| is_serving(pod)).count() as u64
    }
}

/// Ready, and not on its way out.
fn is_serving(pod: &Value) -> bool {
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    pod["metadata"]["deletionTimestamp"].is_null()
        && conditions.any(|c| c["type"] == "Ready" && c["status"] == "True")
}

fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "harbour" },
        "spec": {
            "replicas": REPLICAS,
            "selector": { "matchLabels": { "app": "harbour" } },
            "strategy": { "rollingUpdate": { "maxSurge": 1, "maxUnavailable": 0 } },
            "template": {
                "metadata": { "labels": { "app": "harbour" } },
                "spec": { "containers": [
                    { "name": "app", "image": OLD, "ports": [{ "containerPort": 8080 }] }
                ] },
            },
        },
    })
}

fn service() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": "harbour" },
        "spec": { "selector": { "app": "harbour" }, "ports": [{ "port": 80, "targetPort": 8080 }] },
    })
}
