//! `tidegate try`: two releases on a cluster in this process, with real traffic.
//!
//! A good version goes through, a bad one is rolled back. Everything is real but the cluster: the
//! operator, the requests, the measurements.

mod game;
mod loaded;
mod manifests;
mod view;

use std::{
    cell::Cell,
    net::SocketAddr,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::Context;
use kube_sandbox::{
    Sandbox, Settings,
    cluster::{Cluster, DEPLOYMENTS, EVENTS, Resource},
    dataplane::{Load, Traffic},
    http::listen::Listener,
    server::{User, local::Local},
};
use serde_json::Value;
use tidegate_runtime::signals::Signals;

use self::{
    manifests::HOST,
    view::{Frame, Side, View},
};
use crate::{
    kubeconfig::Kubeconfig,
    printer::{Printer, Tone},
    sandbox::load_crds,
    stack::Stack,
};

/// Watch two releases on a cluster in memory, one good and one bad; takes two minutes.
///
/// It starts a cluster, the operator, a sample application and traffic to it, all in this process.
/// Version 2 is released and goes through step by step; version 3 answers one request in five
/// with an error and is rolled back. On a terminal the cluster then stays until Ctrl-C, for kubectl.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
#[command(after_help = "Examples:
  tidegate try                     both releases, then the cluster is yours
  tidegate try --only bad --exit   the bad one, then the end
  tidegate try --speed 4 --exit    both in half a minute
  tidegate try --game              a GameDeployment in five steps, with a hook that first fails
  tidegate try --loadtester        a release without users: the load tester makes the traffic, you
                                   open the gate before the promotion; in a pipe with --wait

Exit code: 0 if both ended as they should, 1 if not, 2 if it could not run.")]
pub(crate) struct Args {
    /// Show only one of the releases.
    #[arg(long, value_enum)]
    only: Option<Release>,

    /// Show a game workload instead: updated in place, in steps, stopped by a hook.
    #[arg(long, conflicts_with = "only")]
    game: bool,

    /// Show a release without users instead: a load tester makes the traffic, and keeps a gate.
    #[arg(long, conflicts_with_all = ["only", "game"])]
    loadtester: bool,

    /// Open the gate without asking anybody. In a pipe that is the default.
    #[arg(long, requires = "loadtester")]
    yes: bool,

    /// Wait for a person to open the gate, for up to an hour. On a terminal that is the default.
    #[arg(long, requires = "loadtester", conflicts_with = "yes")]
    wait: bool,

    /// How many times faster the operator's clock runs.
    #[arg(long, value_name = "TIMES", default_value_t = 1.0, value_parser = speed)]
    speed: f64,

    /// End after the releases, with the verdict as exit code. In a pipe that is the default.
    #[arg(long, conflicts_with = "keep")]
    exit: bool,

    /// Keep the cluster running afterwards until Ctrl-C. On a terminal that is the default.
    #[arg(long)]
    keep: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Release {
    /// Version 2, which is fine.
    Good,
    /// Version 3, which fails one request in five.
    Bad,
}

/// One release and its expected end.
struct PlannedRelease {
    image: &'static str,
    title: &'static str,
    end: &'static str,
}

/// The demonstration in progress.
struct Demo<'a> {
    sandbox: &'a Sandbox,
    stack: &'a Stack,
    cluster: Local,
    printer: &'a Printer,
    load: Load,
    began: Instant,
    late: Cell<Duration>,
}

/// The end of a release.
struct Ending {
    title: &'static str,
    phase: String,
    took: Duration,
    as_expected: bool,
    why: String,
}

const CANARIES: Resource = Resource { group: "flagger.app", plural: "canaries" };
const ROUTES: Resource = Resource { group: "gateway.networking.k8s.io", plural: "httproutes" };
const GATEWAYS: Resource = Resource { group: "gateway.networking.k8s.io", plural: "gateways" };

const FIRST: &str = "harbour:1.0";
const GOOD: PlannedRelease = PlannedRelease {
    image: "harbour:2.0",
    title: "Release of harbour 2.0, a good one",
    end: "Succeeded",
};
const BAD: PlannedRelease = PlannedRelease {
    image: "harbour:3.0-errors-20",
    title: "Release of harbour 3.0, which fails one request in five",
    end: "Failed",
};
const REQUESTS_PER_SECOND: f64 = 60.0;
/// At the usual speed a release takes about a minute.
const PATIENCE: Duration = Duration::from_mins(5);
const FRAME: Duration = Duration::from_millis(250);
/// A program that wakes this much too late has no processor to run on, which may end a release otherwise: a warning
/// is shown.
const STARVED: Duration = Duration::from_millis(750);

fn speed(text: &str) -> Result<f64, String> {
    let speed: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.1..=10.0).contains(&speed) { Ok(speed) } else { Err("must be from 0.1 to 10".to_owned()) }
}

/// True if every release ended as it should.
pub(crate) fn run(args: &Args, printer: &Printer) -> anyhow::Result<bool> {
    let runtime = tokio::runtime::Runtime::new().context("failed to start the runtime")?;
    runtime.block_on(async {
        match (args.game, args.loadtester) {
            (true, _) => game::demonstrate(args, printer).await,
            (false, true) => loaded::demonstrate(args, printer).await,
            (false, false) => demonstrate(args, printer).await,
        }
    })
}

async fn demonstrate(args: &Args, printer: &Printer) -> anyhow::Result<bool> {
    let began = Instant::now();
    let sandbox = Sandbox::new(Settings::default().nodes(2).routing());
    load_crds(&sandbox)?;
    sandbox.run();
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let listener = sandbox.listen_as(any, User::admin()).await.context("failed to listen")?;
    let stack = Stack::start(&sandbox, any, Some(args.speed)).await?;
    let took = began.elapsed().as_millis();
    printer.line(&printer.paint(Tone::Strong, "Tidegate: two releases on a cluster in memory\n"));
    printer.line(&format!("  cluster, operator, gateway and metrics are up ({took} ms)"));
    let load = Traffic::new(HOST, REQUESTS_PER_SECOND).start(stack.plane.address());
    let cluster = sandbox.local(User::admin());
    let demo = Demo {
        sandbox: &sandbox,
        stack: &stack,
        cluster,
        printer,
        load,
        began,
        late: Cell::default(),
    };
    demo.first_version().await?;
    let releases: &[PlannedRelease] = match args.only {
        None => &[GOOD, BAD],
        Some(Release::Good) => &[GOOD],
        Some(Release::Bad) => &[BAD],
    };
    let mut endings = Vec::new();
    let mut view = View::new(printer);
    for release in releases {
        endings.push(demo.play(release, &mut view).await?);
    }
    let is_well = endings.iter().all(|ending| ending.as_expected);
    demo.sum_up(&endings);
    let stays = args.keep || (printer.is_terminal() && !args.exit);
    if stays {
        keep(&demo, &listener).await?;
    } else {
        hints(printer);
    }
    drop(demo);
    stack.stop().await;
    listener.stop().await;
    Ok(is_well)
}

fn hints(printer: &Printer) {
    printer.line("");
    printer.line("Next: `tidegate try --keep` leaves this cluster running for kubectl,");
    printer.line("      `tidegate sandbox` starts an empty one with the operator in it.");
}

async fn keep(demo: &Demo<'_>, listener: &Listener) -> anyhow::Result<()> {
    let (gateway, prometheus) = (demo.stack.plane.address(), demo.stack.prometheus);
    let request = format!("curl -H 'Host: {HOST}' http://{gateway}/");
    let query = format!(
        "curl 'http://{prometheus}/api/v1/query?query=http_request_duration_seconds_count'"
    );
    let hints = [
        "kubectl get canary harbour -w",
        "kubectl describe canary harbour",
        "kubectl set image deployment/harbour app=harbour:4.0          a release of your own",
        "kubectl patch canary harbour --type merge -p '{\"spec\":{\"manualStep\":{\"weight\":40}}}'",
        "                                                              hold the next one at 40 %",
        "kubectl patch canary harbour --type merge -p '{\"spec\":{\"manualStep\":{\"weight\":40,\"resume\":true}}}'",
        &request,
        &query,
    ];
    keep_for_kubectl(demo.sandbox, demo.printer, listener, &hints).await
}

/// Leaves the cluster to a person until Ctrl-C, with something to begin with.
async fn keep_for_kubectl(
    sandbox: &Sandbox,
    printer: &Printer,
    listener: &Listener,
    hints: &[&str],
) -> anyhow::Result<()> {
    let mut signals = Signals::listen().context("failed to wait for signals")?;
    let token = "sandbox-admin-try";
    sandbox.server().add_token(token, User::admin());
    let path = Path::new(".tidegate/kubeconfig");
    let kubeconfig = Kubeconfig::write(path, listener.address, token)?;
    let shown = std::path::absolute(kubeconfig.path()).unwrap_or_else(|_| path.to_owned());
    printer.line("");
    printer.line("The cluster is yours until Ctrl-C. In another terminal:\n");
    printer.line(&format!("  export KUBECONFIG={}", shown.display()));
    for hint in hints {
        printer.line(&format!("  {hint}"));
    }
    signals.next().await;
    Ok(())
}

/// Reason, message and whether something is wrong of the operator's events, oldest first.
fn events(all: &[Value]) -> Vec<(String, String, bool)> {
    let mut ours: Vec<&Value> =
        all.iter().filter(|event| event["source"]["component"] == "tidegate").collect();
    ours.sort_by_key(|event| {
        let version = event["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        version.parse::<u64>().unwrap_or_default()
    });
    let text = |event: &Value, field: &str| event[field].as_str().unwrap_or_default().to_owned();
    let ours = ours.into_iter();
    ours.map(|it| (text(it, "reason"), text(it, "message"), it["type"] == "Warning")).collect()
}

// === impl Demo ===

impl Demo<'_> {
    async fn first_version(&self) -> anyhow::Result<()> {
        self.create(GATEWAYS, manifests::gateway())?;
        self.create(DEPLOYMENTS, manifests::deployment(FIRST))?;
        self.create(CANARIES, manifests::canary())?;
        self.printer.line("  applied a Gateway, a Deployment of harbour:1.0 and a Canary for it");
        let deadline = Instant::now() + PATIENCE;
        while self.status()["phase"] != "Initialized" {
            anyhow::ensure!(Instant::now() < deadline, "initialisation is stuck: {}", self.why());
            self.sleep().await;
        }
        let at = self.began.elapsed().as_secs_f64();
        self.printer.line(&format!(
            "  initialized: harbour-primary serves, {REQUESTS_PER_SECOND} requests a second flow ({at:.1} s)\n"
        ));
        Ok(())
    }

    async fn play(&self, release: &PlannedRelease, view: &mut View<'_>) -> anyhow::Result<Ending> {
        let began = Instant::now();
        let deadline = began + PATIENCE;
        if !self.printer.is_terminal() {
            self.printer.line(&format!("\n{}", release.title));
        }
        let before = self.events().len();
        view.begin(before);
        let patch = manifests::image(release.image);
        self.cluster
            .patch(DEPLOYMENTS, "default", "harbour", "", &patch)
            .context("failed to set the image")?;
        let mut has_started = false;
        let phase = loop {
            let frame = self.frame(release, began);
            let phase = frame.status["phase"].as_str().unwrap_or_default().to_owned();
            view.show(&frame);
            has_started |= phase == "Progressing";
            if has_started && (phase == "Succeeded" || phase == "Failed") {
                break phase;
            }
            anyhow::ensure!(Instant::now() < deadline, "the release is stuck: {}", self.why());
            self.sleep().await;
        };
        tokio::time::sleep(FRAME * 2).await;
        view.show(&self.frame(release, began));
        let events = self.events();
        view.finish();
        let telling = events.iter().skip(before).rev();
        let wanted = if phase == "Failed" { "CheckFailed" } else { "Promoted" };
        let why = telling.clone().find(|(reason, ..)| reason == wanted).or(telling.clone().next());
        Ok(Ending {
            title: release.title,
            as_expected: phase == release.end,
            phase,
            took: began.elapsed(),
            why: why.map(|(_, message, _)| message.clone()).unwrap_or_default(),
        })
    }

    /// Until the next frame, which may be late.
    async fn sleep(&self) {
        let before = Instant::now();
        tokio::time::sleep(FRAME).await;
        self.late.set(self.late.get().max(before.elapsed().saturating_sub(FRAME)));
    }

    fn frame(&self, release: &PlannedRelease, began: Instant) -> Frame {
        let status = self.status();
        let deployment = |name: &str| {
            let object = self.cluster.get(DEPLOYMENTS, "default", name).unwrap_or_default();
            let image = object["spec"]["template"]["spec"]["containers"][0]["image"].as_str();
            let version = image.and_then(|image| image.split(':').nth(1)).unwrap_or_default();
            Side {
                version: version.split('-').next().unwrap_or_default().to_owned(),
                ready: object["status"]["readyReplicas"].as_u64().unwrap_or_default(),
                wanted: object["spec"]["replicas"].as_u64().unwrap_or_default(),
            }
        };
        let now = self.stack.now();
        Frame {
            title: release.title.to_owned(),
            elapsed: began.elapsed(),
            next: view::until(&status, now).filter(|_| status["phase"] == "Progressing"),
            primary: deployment("harbour-primary"),
            canary: deployment("harbour"),
            weight: self.weight(),
            answers: self.load.answers(),
            events: self.events(),
            status,
        }
    }

    /// The canary's share, as the route says.
    fn weight(&self) -> u8 {
        let route = self.cluster.get(ROUTES, "default", "harbour").unwrap_or_default();
        let backends = route["spec"]["rules"][0]["backendRefs"].as_array().cloned();
        let canary = backends.into_iter().flatten().find(|it| it["name"] == "harbour-canary");
        let weight = canary.and_then(|backend| backend["weight"].as_u64()).unwrap_or_default();
        u8::try_from(weight.min(100)).unwrap_or_default()
    }

    fn status(&self) -> Value {
        let canary = self.cluster.get(CANARIES, "default", "harbour").unwrap_or_default();
        canary["status"].clone()
    }

    fn why(&self) -> String {
        self.status()["lastDecision"]["message"].as_str().unwrap_or("no message").to_owned()
    }

    /// Reason, message and whether something is wrong, oldest first.
    fn events(&self) -> Vec<(String, String, bool)> {
        events(&self.cluster.list(EVENTS, Some("default")))
    }

    fn sum_up(&self, endings: &[Ending]) {
        let printer = self.printer;
        printer.line(&printer.paint(Tone::Strong, "What happened"));
        for ending in endings {
            let (mark, tone) =
                if ending.as_expected { ("✓", Tone::Good) } else { ("✗", Tone::Bad) };
            let took = ending.took.as_secs();
            let verdict = printer.paint(tone, &format!("{mark} {}", ending.phase));
            printer.line(&format!("  {verdict} after {took} s  {}", ending.title));
            printer.line(&format!("      {}", ending.why));
        }
        let answers = self.load.answers();
        let count = |ok: bool| -> u64 {
            let is_ok = |status: &u16| *status < 500;
            answers.by_status.iter().filter(|(status, _)| is_ok(status) == ok).map(|(_, n)| n).sum()
        };
        let versions: Vec<String> =
            answers.by_version.iter().map(|(version, n)| format!("{n} by {version}")).collect();
        printer.line(&format!(
            "  {} requests: {}; {} of them answered with an error, {} without an answer",
            answers.total(),
            versions.join(", "),
            count(false),
            answers.failed,
        ));
        if self.late.get() > STARVED {
            let late = self.late.get().as_secs_f64();
            printer.line(&format!(
                "  This machine is busy: at worst this program waited {late:.1} s for its turn. What is measured here\n  is measured by its clock, so try again when it is quieter if something looks odd."
            ));
        }
    }

    fn create(&self, resource: Resource, object: Value) -> anyhow::Result<()> {
        let created = self.cluster.create(resource, "default", object);
        created.map(|_| ()).map_err(|failure| anyhow::anyhow!("{failure}"))
    }
}
