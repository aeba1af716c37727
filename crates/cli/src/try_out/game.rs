//! `tidegate try --game`: a game workload is updated in place, in five steps.
//!
//! ```text
//! partition 3 ── pause ── partition 2 ── pause for 10 s ── hook: fails, is fixed, passes ── the rest
//! ```
//!
//! The steps of a person are done here after a moment, and printed: the pause is lifted, the hook is run
//! again. The hook queries a small web server in this process.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::Context as _;
use kube_sandbox::{
    Sandbox, Settings,
    cluster::{Cluster as _, EVENTS, PODS, Resource},
    server::{User, local::Local},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use super::{Args, FRAME, PATIENCE, keep_for_kubectl};
use crate::{
    printer::{Printer, Tone},
    sandbox::load_crds,
    stack::Stack,
};

const GAME_DEPLOYMENTS: Resource =
    Resource { group: "tkex.tencent.com", plural: "gamedeployments" };
const HOOK_TEMPLATES: Resource = Resource { group: "tkex.tencent.com", plural: "hooktemplates" };
const NAME: &str = "arena";
const STEPS: [&str; 5] = ["1 pod", "pause", "2 pods", "10 s", "hook"];
/// A person needs a moment to look.
const PERSON: Duration = Duration::from_secs(3);
const EVENTS_SHOWN: usize = 7;

/// The demonstration in progress.
struct Demo<'a> {
    cluster: Local,
    printer: &'a Printer,
    began: Instant,
    drawn: usize,
    printed: usize,
    /// The answer of the web server; the hook passes below 30.
    age: Arc<AtomicI64>,
}

/// True if it ended as it should.
pub(super) async fn demonstrate(args: &Args, printer: &Printer) -> anyhow::Result<bool> {
    let began = Instant::now();
    let sandbox = Sandbox::new(Settings::default().nodes(2).routing());
    load_crds(&sandbox)?;
    sandbox.run();
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let listener = sandbox.listen_as(any, User::admin()).await.context("failed to listen")?;
    let stack = Stack::start(&sandbox, any, Some(args.speed)).await?;
    let age = Arc::new(AtomicI64::new(45));
    let web = serve(Arc::clone(&age)).await?;
    printer.line(
        &printer.paint(Tone::Strong, "Tidegate: a game workload, updated in place in five steps\n"),
    );
    let cluster = sandbox.local(User::admin());
    let mut demo = Demo { cluster, printer, began, drawn: 0, printed: 0, age };
    demo.first_version(web).await?;
    let is_well = demo.release().await?;
    let stays = args.keep || (printer.is_terminal() && !args.exit);
    if stays {
        let hints = [
            "kubectl get gamedeployment,hookrun",
            "kubectl get gamedeployment arena -o yaml",
            "kubectl annotate gamedeployment arena tidegate.dev/ask=abort",
        ];
        keep_for_kubectl(&sandbox, printer, &listener, &hints).await?;
    }
    drop(demo);
    stack.stop().await;
    listener.stop().await;
    Ok(is_well)
}

/// A web server that answers with an age, until this process ends.
async fn serve(age: Arc<AtomicI64>) -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.context("failed to listen")?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let body = json!({ "name": "bryan", "age": age.load(Ordering::Relaxed) }).to_string();
            tokio::spawn(async move {
                let mut request = [0_u8; 4096];
                // One read holds the whole of a small GET.
                let _ = stream.read(&mut request).await;
                let head = format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
                     connection: close\r\n\r\n{body}",
                    body.len()
                );
                let _ = stream.write_all(head.as_bytes()).await;
            });
        }
    });
    Ok(address)
}

// === impl Demo ===

impl Demo<'_> {
    async fn first_version(&self, stats: SocketAddr) -> anyhow::Result<()> {
        let create = |resource, object| {
            let created = self.cluster.create(resource, "default", object);
            created.map(|_| ()).map_err(|failure| anyhow::anyhow!("{failure}"))
        };
        create(HOOK_TEMPLATES, hook_template(stats))?;
        create(GAME_DEPLOYMENTS, game_deployment())?;
        self.printer.line("  applied a HookTemplate and a GameDeployment of arena:1.0, four pods");
        let deadline = Instant::now() + PATIENCE;
        while self.get()["status"]["updatedReadyReplicas"] != 4 {
            anyhow::ensure!(Instant::now() < deadline, "the pods do not come up: {}", self.why());
            tokio::time::sleep(FRAME).await;
        }
        let at = self.began.elapsed().as_secs_f64();
        self.printer.line(&format!("  four pods are ready ({at:.1} s)\n"));
        Ok(())
    }

    /// The release, with the steps of a person on the way.
    async fn release(&mut self) -> anyhow::Result<bool> {
        let uids = self.uids();
        self.patch(&json!({ "spec": { "template": { "spec": { "containers": [container("arena:2.0")] } } } }))?;
        self.printed = self.events().len();
        self.until("paused at step 1", |demo| demo.is_paused_at(1)).await?;
        self.say("a person looks, and lifts the pause: paused := false").await;
        self.resume()?;
        self.until("paused at step 3", |demo| demo.is_paused_at(3)).await?;
        self.until("paused by the hook", |demo| demo.is_paused_at(4)).await?;
        let failed = self.has_event("HookFailed");
        self.say(
            "the hook did not pass; its cause is fixed, and it is retried: tidegate.dev/ask=retry-hook",
        )
        .await;
        self.age.store(20, Ordering::Relaxed);
        self.patch(
            &json!({ "metadata": { "annotations": { "tidegate.dev/ask": "retry-hook" } } }),
        )?;
        self.until("all pods updated", |demo| {
            let object = demo.get();
            object["status"]["updatedReadyReplicas"] == 4 && object["status"]["phase"] == "Healthy"
        })
        .await?;
        let kept = uids == self.uids();
        self.sum_up(failed, kept);
        Ok(failed && kept)
    }

    fn sum_up(&self, failed: bool, kept: bool) {
        let printer = self.printer;
        printer.line("");
        printer.line(&printer.paint(Tone::Strong, "What happened"));
        let mark = |is_so: bool, text: &str| {
            let (mark, tone) = if is_so { ("✓", Tone::Good) } else { ("✗", Tone::Bad) };
            printer.line(&format!("  {} {text}", printer.paint(tone, mark)));
        };
        let took = self.began.elapsed().as_secs();
        mark(true, &format!("all four pods run arena:2.0 after {took} s"));
        mark(kept, "they are the same pods as before: only their images changed");
        mark(failed, "the hook stopped the release until it passed");
    }

    async fn until(
        &mut self,
        what: &str,
        mut is_so: impl FnMut(&Self) -> bool,
    ) -> anyhow::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.show();
            if is_so(self) {
                return Ok(());
            }
            anyhow::ensure!(Instant::now() < deadline, "never {what}: {}", self.why());
            tokio::time::sleep(FRAME).await;
        }
    }

    async fn say(&mut self, text: &str) {
        tokio::time::sleep(PERSON).await;
        self.show();
        self.drawn = 0;
        self.printer.line(&format!("  {}", self.printer.paint(Tone::New, &format!("» {text}"))));
    }

    fn show(&mut self) {
        if self.printer.is_terminal() {
            let lines = self.picture();
            self.printer.redraw(self.drawn, &lines);
            self.drawn = lines.len();
            return;
        }
        let events = self.events();
        for (reason, message, is_warning) in events.iter().skip(self.printed) {
            let mark = if *is_warning { "!" } else { " " };
            let at = self.began.elapsed().as_secs_f64();
            self.printer.line(&format!("{at:6.1}s {mark} {reason:<28} {message}"));
        }
        self.printed = self.printed.max(events.len());
    }

    fn picture(&self) -> Vec<String> {
        let paint = |tone, text: &str| self.printer.paint(tone, text);
        let object = self.get();
        let status = &object["status"];
        let step = status["currentStepIndex"].as_i64().unwrap_or(0);
        let number = |index: usize| i64::try_from(index).unwrap_or(i64::MAX);
        let steps = STEPS.iter().enumerate().map(|(index, name)| {
            let (mark, tone) = match number(index).cmp(&step) {
                std::cmp::Ordering::Less => ("✓", Tone::Good),
                std::cmp::Ordering::Equal => ("▶", Tone::New),
                std::cmp::Ordering::Greater => ("·", Tone::Faint),
            };
            paint(tone, &format!("{mark} {name}"))
        });
        let phase = status["phase"].as_str().unwrap_or_default();
        let message = status["message"].as_str().unwrap_or_default();
        let mut lines = vec![
            format!("  steps    {}", steps.collect::<Vec<_>>().join("   ")),
            format!("  phase    {} {}", paint(Tone::Strong, phase), paint(Tone::Faint, message)),
        ];
        lines.extend(self.pods().iter().map(|pod| self.pod_line(pod)));
        lines.push(String::new());
        let events = self.events();
        for (reason, message, is_warning) in events.iter().rev().take(EVENTS_SHOWN).rev() {
            let tone = if *is_warning { Tone::Bad } else { Tone::Faint };
            lines.push(format!("  {} {message}", paint(tone, &format!("{reason:<28}"))));
        }
        lines
    }

    fn pod_line(&self, pod: &Value) -> String {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let image = pod["spec"]["containers"][0]["image"].as_str().unwrap_or_default();
        let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        let is_ready =
            conditions.into_iter().any(|it| it["type"] == "Ready" && it["status"] == "True");
        let waits = !pod["metadata"]["annotations"]["inplace-update-grace"].is_null();
        let (word, tone) = match (is_ready, waits) {
            (true, _) => ("serves", Tone::Good),
            (false, true) => ("finishes its matches", Tone::New),
            (false, false) => ("restarts", Tone::New),
        };
        format!("  {name:<12} {image:<10} {}", self.printer.paint(tone, word))
    }

    fn get(&self) -> Value {
        self.cluster.get(GAME_DEPLOYMENTS, "default", NAME).unwrap_or_default()
    }

    fn patch(&self, patch: &Value) -> anyhow::Result<()> {
        let patched = self.cluster.patch(GAME_DEPLOYMENTS, "default", NAME, "", patch);
        patched.map(|_| ()).map_err(|failure| anyhow::anyhow!("{failure}"))
    }

    fn resume(&self) -> anyhow::Result<()> {
        self.patch(&json!({ "spec": { "updateStrategy": { "paused": false } } }))
    }

    fn is_paused_at(&self, step: i64) -> bool {
        let object = self.get();
        object["status"]["currentStepIndex"] == step
            && object["spec"]["updateStrategy"]["paused"] == true
            && !object["status"]["pauseConditions"][0].is_null()
    }

    fn why(&self) -> String {
        self.get()["status"]["message"].as_str().unwrap_or("no message").to_owned()
    }

    fn pods(&self) -> Vec<Value> {
        self.cluster.list(PODS, Some("default"))
    }

    fn uids(&self) -> Vec<Value> {
        self.pods().iter().map(|pod| pod["metadata"]["uid"].clone()).collect()
    }

    fn has_event(&self, reason: &str) -> bool {
        self.events().iter().any(|(known, ..)| known == reason)
    }

    /// Reason, message and whether something is wrong, oldest first.
    fn events(&self) -> Vec<(String, String, bool)> {
        super::events(&self.cluster.list(EVENTS, Some("default")))
    }
}

fn container(image: &str) -> Value {
    json!({ "name": "game", "image": image, "ports": [{ "containerPort": 8080 }] })
}

fn game_deployment() -> Value {
    json!({
        "apiVersion": "tkex.tencent.com/v1alpha1", "kind": "GameDeployment",
        "metadata": { "name": NAME, "namespace": "default" },
        "spec": {
            "replicas": 4,
            "selector": { "matchLabels": { "app": NAME } },
            "template": {
                "metadata": { "labels": { "app": NAME } },
                "spec": { "containers": [container("arena:1.0")] },
            },
            "updateStrategy": {
                "type": "InplaceUpdate", "maxUnavailable": 2,
                "inPlaceUpdateStrategy": { "gracePeriodSeconds": 5 },
                "canary": { "steps": [
                    { "partition": 3 }, { "pause": {} }, { "partition": 2 },
                    { "pause": { "duration": 10 } }, { "hook": { "templateName": "age" } },
                ] },
            },
        },
    })
}

fn hook_template(stats: SocketAddr) -> Value {
    json!({
        "apiVersion": "tkex.tencent.com/v1alpha1", "kind": "HookTemplate",
        "metadata": { "name": "age", "namespace": "default" },
        "spec": { "metrics": [{
            "name": "age", "count": 2, "interval": "3s", "failureLimit": 0,
            "successCondition": "asInt(result) < 30",
            "provider": { "web": { "url": format!("http://{stats}/"), "jsonPath": "{$.age}" } },
        }] },
    })
}
