//! `tidegate try --loadtester`: a release without users, with a load tester beside the operator.
//!
//! ```text
//! operator ── rollout hook ──► load tester ── its generator ──► gateway ──► primary, canary
//!          ── confirm-promotion hook ──► /gate/check: closed until it is opened
//! ```
//!
//! Without the load tester there is no traffic here, and so nothing to measure. The gate is opened by a person on the
//! terminal; without a terminal or `--wait` it is opened after a moment, over HTTP as by a person.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use kube_sandbox::{
    Sandbox, Settings,
    cluster::{Cluster as _, DEPLOYMENTS, EVENTS},
    server::{User, local::Local},
};
use serde_json::{Value, json};
use tidegate_loadtester::{
    auth::Auth,
    concord,
    gates::Gates,
    load::{BodyFiles, Bounds},
    metrics::Metrics,
    ngrinder,
    runner::{Limits, Runner},
    server::{self, App},
    task::{Kind, Policy},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::JoinHandle,
};

use super::{
    Args, CANARIES, FIRST, FRAME, GATEWAYS, GOOD, PATIENCE, keep_for_kubectl,
    manifests::{self, HOST},
};
use crate::{
    printer::{Printer, Tone},
    sandbox::load_crds,
    stack::Stack,
};

/// The load tester of this process. Ends when dropped.
struct Tester {
    address: SocketAddr,
    runner: Runner,
    server: JoinHandle<()>,
    _stop: oneshot::Sender<()>,
}

/// The demonstration in progress.
struct Demo<'a> {
    cluster: Local,
    printer: &'a Printer,
    tester: &'a Tester,
    began: Instant,
    printed: usize,
    /// When the gate opens by itself; never where a person does it.
    opens_alone: bool,
}

/// Where hooks find the load tester.
const SERVICE: &str = "loadtester";
const HOOKS: &str = "http://loadtester.default";
/// A person needs a moment to look.
const PERSON: Duration = Duration::from_secs(3);
/// For one answer of the load tester.
const ANSWER: Duration = Duration::from_secs(5);

/// True if it ended as it should.
pub(super) async fn demonstrate(args: &Args, printer: &Printer) -> anyhow::Result<bool> {
    let began = Instant::now();
    let sandbox = Sandbox::new(Settings::default().nodes(2).routing());
    load_crds(&sandbox)?;
    sandbox.run();
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let listener = sandbox.listen_as(any, User::admin()).await.context("failed to listen")?;
    let stack = Stack::start(&sandbox, any, Some(args.speed)).await?;
    let tester = Tester::start().await?;
    stack.plane.attach("default", SERVICE, tester.address);
    let title = "Tidegate: a release without users, with a load tester\n";
    printer.line(&printer.paint(Tone::Strong, title));
    printer.line(&format!("  the load tester listens on http://{}/", tester.address));
    let opens_alone = args.yes || !(printer.is_terminal() || args.wait);
    let cluster = sandbox.local(User::admin());
    let mut demo = Demo { cluster, printer, tester: &tester, began, printed: 0, opens_alone };
    demo.first_version(stack.plane.address()).await?;
    let is_well = demo.release().await?;
    let stays = args.keep || (printer.is_terminal() && !args.exit && !args.yes);
    if stays {
        let open = open_command(tester.address);
        let gates = format!("curl http://{}/gates", tester.address);
        let hints = [
            "kubectl describe canary harbour",
            "kubectl set image deployment/harbour app=harbour:4.0          another release",
            &open,
            &gates,
        ];
        keep_for_kubectl(&sandbox, printer, &listener, &hints).await?;
    }
    drop(demo);
    tester.stop().await;
    stack.stop().await;
    listener.stop().await;
    Ok(is_well)
}

fn payload() -> Value {
    json!({ "name": "harbour", "namespace": "default" })
}

/// The command that opens the gate.
fn open_command(tester: SocketAddr) -> String {
    format!("curl -d '{}' http://{tester}/gate/open", payload())
}

// === impl Tester ===

impl Tester {
    /// With nothing enabled but load: no shell, no other program.
    async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.context("failed to listen")?;
        let address = listener.local_addr()?;
        let metrics = Arc::new(Metrics::default());
        let limits = Limits {
            tasks: 4,
            tasks_per_namespace: 4,
            connections: 64,
            timeout: Duration::from_mins(10),
            patience: Duration::from_mins(1),
        };
        let runner = Runner::new(limits, Arc::clone(&metrics));
        let app = App {
            auth: Auth::default(),
            policy: Policy {
                kinds: [Kind::Cmd].into(),
                tools: [].into(),
                shell: false,
                load: Bounds { connections_max: 64, body_files: BodyFiles::Refused },
                concord: concord::Allowed::default(),
                ngrinder: ngrinder::Allowed::default(),
            },
            gates: Gates::in_memory(0),
            runner: runner.clone(),
            metrics,
        };
        let (stop, stopped) = oneshot::channel::<()>();
        let stopped = async move {
            let _ = stopped.await;
        };
        let routes = server::routes(Arc::new(app));
        let server = tokio::spawn(server::serve(listener, routes, stopped, Duration::from_secs(1)));
        Ok(Self { address, runner, server, _stop: stop })
    }

    /// The answer to a request, with its head.
    async fn ask(&self, method: &str, path: &str, body: &str) -> anyhow::Result<String> {
        let exchange = async {
            let mut stream = TcpStream::connect(self.address).await?;
            let request = format!(
                "{method} {path} HTTP/1.1\r\nhost: {SERVICE}\r\nconnection: close\r\n\
                 content-length: {}\r\n\r\n{body}",
                body.len()
            );
            stream.write_all(request.as_bytes()).await?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await?;
            Ok::<_, std::io::Error>(answer)
        };
        let answer = tokio::time::timeout(ANSWER, exchange).await;
        answer
            .context("the load tester does not answer")?
            .context("the load tester closed the connection")
    }

    async fn open_gate(&self) -> anyhow::Result<()> {
        let answer = self.ask("POST", "/gate/open", &payload().to_string()).await?;
        let line = answer.lines().next().unwrap_or_default();
        anyhow::ensure!(line.contains(" 202"), "the gate did not open: {line}");
        Ok(())
    }

    /// Requests of its generator that were answered well.
    async fn sent(&self) -> anyhow::Result<u64> {
        let page = self.ask("GET", "/metrics", "").await?;
        let series = "tidegate_loadtester_load_requests_total{outcome=\"2xx\"} ";
        let count = page.lines().find_map(|line| line.strip_prefix(series)?.parse().ok());
        Ok(count.unwrap_or_default())
    }

    async fn stop(self) {
        self.runner.stop().await;
        self.server.abort();
    }
}

// === impl Demo ===

impl Demo<'_> {
    async fn first_version(&mut self, gateway: SocketAddr) -> anyhow::Result<()> {
        let create = |resource, object| {
            let created = self.cluster.create(resource, "default", object);
            created.map(|_| ()).map_err(|failure| anyhow::anyhow!("{failure}"))
        };
        create(GATEWAYS, manifests::gateway())?;
        create(DEPLOYMENTS, manifests::deployment(FIRST))?;
        create(CANARIES, canary(gateway))?;
        self.printer
            .line("  applied a Gateway, a Deployment of harbour:1.0 and a Canary with two hooks:");
        self.printer.line(&format!("    rollout            {}", load(gateway)));
        self.printer.line(&format!("    confirm-promotion  {HOOKS}/gate/check\n"));
        self.until("Initialized", PATIENCE).await?;
        Ok(())
    }

    async fn release(&mut self) -> anyhow::Result<bool> {
        self.printer.line(&format!("\n{}, and no user traffic", GOOD.title));
        let patch = manifests::image(GOOD.image);
        self.cluster
            .patch(DEPLOYMENTS, "default", "harbour", "", &patch)
            .context("failed to set the image")?;
        self.until("WaitingPromotion", PATIENCE).await?;
        self.say("The gate is closed. Open it in another terminal:");
        self.printer.line(&format!("\n  {}\n", open_command(self.tester.address)));
        if self.opens_alone {
            tokio::time::sleep(PERSON).await;
            self.tester.open_gate().await?;
            self.say("No terminal is attached, so it was opened just now.");
        }
        // A person may take their time.
        let patience = if self.opens_alone { PATIENCE } else { Duration::from_hours(1) };
        self.until("Succeeded", patience).await?;
        let sent = self.tester.sent().await?;
        let image = self.image("harbour-primary");
        let is_well = sent > 0 && image == GOOD.image;
        let (mark, tone) = if is_well { ("✓", Tone::Good) } else { ("✗", Tone::Bad) };
        let took = self.began.elapsed().as_secs();
        let verdict = self.printer.paint(tone, &format!("{mark} Succeeded"));
        self.printer.line(&format!("\n  {verdict} after {took} s: harbour-primary runs {image}"));
        self.printer.line(&format!("  {sent} requests, all of them by the load tester"));
        Ok(is_well)
    }

    /// Prints the events until the canary is in this phase.
    async fn until(&mut self, phase: &str, patience: Duration) -> anyhow::Result<()> {
        let deadline = Instant::now() + patience;
        loop {
            self.tell_events();
            let status = self.status();
            let now = status["phase"].as_str().unwrap_or_default();
            if now == phase {
                return Ok(());
            }
            let why = status["lastDecision"]["message"].as_str().unwrap_or("no message");
            anyhow::ensure!(now != "Failed", "the release failed: {why}");
            anyhow::ensure!(Instant::now() < deadline, "never {phase}: {why}");
            tokio::time::sleep(FRAME).await;
        }
    }

    fn tell_events(&mut self) {
        let events = super::events(&self.cluster.list(EVENTS, Some("default")));
        for (reason, message, is_warning) in events.iter().skip(self.printed) {
            let tone = if *is_warning { Tone::New } else { Tone::Faint };
            self.say(&format!("{} {message}", self.printer.paint(tone, &format!("{reason:<27}"))));
        }
        self.printed = events.len();
    }

    fn say(&self, text: &str) {
        let at = self.began.elapsed().as_secs_f64();
        self.printer.line(&format!("  {at:>5.1} s  {text}"));
    }

    fn status(&self) -> Value {
        let canary = self.cluster.get(CANARIES, "default", "harbour").unwrap_or_default();
        canary["status"].clone()
    }

    fn image(&self, name: &str) -> String {
        let object = self.cluster.get(DEPLOYMENTS, "default", name).unwrap_or_default();
        let image = &object["spec"]["template"]["spec"]["containers"][0]["image"];
        image.as_str().unwrap_or_default().to_owned()
    }
}

/// The load, as the hook asks for it: through the gateway, as users would come.
fn load(gateway: SocketAddr) -> String {
    format!("hey -z 15s -q 15 -c 4 -host {HOST} http://{gateway}/")
}

/// The canary of `tidegate try` with two hooks. At the first check the load has only begun: it waits for data.
fn canary(gateway: SocketAddr) -> Value {
    let mut canary = manifests::canary();
    let analysis = &mut canary["spec"]["analysis"];
    for metric in analysis["metrics"].as_array_mut().into_iter().flatten() {
        metric["onNoData"] = json!("hold");
    }
    analysis["webhooks"] = json!([
        { "name": "load", "type": "rollout", "url": format!("{HOOKS}/"),
          "metadata": { "type": "cmd", "cmd": load(gateway) } },
        { "name": "go-ahead", "type": "confirm-promotion",
          "url": format!("{HOOKS}/gate/check") },
    ]);
    canary
}
