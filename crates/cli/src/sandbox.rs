//! `tidegate sandbox`: a cluster in this process, for kubectl and everything else.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::Context;
use kube_sandbox::{Sandbox, Settings, http::listen::Listener, server::User};
use tidegate_runtime::signals::Signals;

use crate::{
    error::hinted,
    kubeconfig::Kubeconfig,
    manifests,
    printer::{Printer, Tone},
    stack::Stack,
};

/// Run a Kubernetes cluster in memory that kubectl can use.
///
/// It has an API server, the usual workload controllers and nodes whose pods pretend to run. It knows
/// Tidegate's custom kinds. Everything is gone when it stops.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tidegate sandbox                                  a cluster, until Ctrl-C
  tidegate sandbox --nodes 3 --load manifests/      three nodes, with your manifests applied
  tidegate sandbox --kubeconfig ./kc --listen 127.0.0.1:0
                                                    any free port, kubeconfig in ./kc

Pods behave as the tag of their image says: `app:crash-loop`, `app:never-ready`,
`app:slow-start-30s`, `app:image-pull-error`. Any other image starts and becomes ready.")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct Args {
    /// Address to serve on; port 0 takes any free one. [default: 127.0.0.1:6550, or a free port]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,

    /// Serve on an address that other machines can reach. Anyone who can may do anything here.
    #[arg(long)]
    allow_remote: bool,

    /// Where to write the kubeconfig; removed again on the way out.
    #[arg(long, value_name = "FILE", default_value = ".tidegate/kubeconfig")]
    kubeconfig: PathBuf,

    /// Number of nodes.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=250))]
    nodes: u8,

    /// Manifests to apply at the start: a file, or a folder of .yaml, .yml and .json files.
    #[arg(long, value_name = "DIR_OR_FILE", num_args = 1..)]
    load: Vec<PathBuf>,

    /// Check permissions: Roles and Bindings count. You may do everything; `kubectl --as` is others.
    #[arg(long)]
    rbac: bool,

    /// Start without Tidegate's custom resource definitions, and without its operator.
    #[arg(long)]
    no_crds: bool,

    /// Leave the operator out: canaries are stored and nothing else happens to them.
    #[arg(long)]
    no_operator: bool,

    /// Address of the gateway that traffic enters by; port 0 takes any free one.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    gateway: SocketAddr,

    /// Seed of names, uids and addresses: the same seed gives the same cluster.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
}

pub(crate) fn run(args: &Args, printer: &Printer) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Runtime::new().context("failed to start the runtime")?;
    runtime.block_on(serve(args, printer))
}

async fn serve(args: &Args, printer: &Printer) -> anyhow::Result<()> {
    let began = Instant::now();
    let mut signals = Signals::listen().context("failed to wait for signals")?;
    check_address(args)?;
    let mut settings = Settings::default().nodes(args.nodes).seed(args.seed);
    if !args.no_crds {
        settings = settings.routing();
    }
    if args.rbac {
        settings = settings.rbac();
    }
    let sandbox = Sandbox::new(settings);
    let loaded = fill(&sandbox, args)?;
    let listener = listen(&sandbox, args.listen).await?;
    let token = format!("sandbox-admin-{:016x}", args.seed);
    sandbox.server().add_token(&token, User::admin());
    let kubeconfig = Kubeconfig::write(&args.kubeconfig, listener.address, &token)?;
    sandbox.run();
    let speed = (!args.no_crds && !args.no_operator).then_some(1.0);
    let stack = Stack::start(&sandbox, args.gateway, speed).await?;
    let took = began.elapsed().as_millis();
    let place = Place { listener: &listener, kubeconfig: kubeconfig.path(), stack: &stack };
    greet(printer, &place, args, loaded, took);
    signals.next().await;
    printer.line("\nStopping.");
    stack.stop().await;
    drop(sandbox);
    listener.stop().await;
    Ok(())
}

fn check_address(args: &Args) -> anyhow::Result<()> {
    match args.listen {
        Some(address) if !address.ip().is_loopback() && !args.allow_remote => Err(hinted(
            format!(
                "{address} can be reached from other machines, and the sandbox trusts everyone"
            ),
            "listen on 127.0.0.1, or add --allow-remote to trust the network",
        )),
        _ => Ok(()),
    }
}

/// CRDs and manifests into the cluster; how many objects were loaded.
fn fill(sandbox: &Sandbox, args: &Args) -> anyhow::Result<usize> {
    if !args.no_crds {
        load_crds(sandbox)?;
    }
    let mut loaded = 0;
    for path in &args.load {
        let objects = manifests::read(path)?;
        loaded += objects.len();
        sandbox
            .load(objects)
            .map_err(|failure| anyhow::anyhow!("{failure}"))
            .with_context(|| format!("failed to load `{}`", path.display()))?;
    }
    Ok(loaded)
}

/// Makes Tidegate's own kinds known.
pub(crate) fn load_crds(sandbox: &Sandbox) -> anyhow::Result<()> {
    let crds = tidegate_api::crds();
    sandbox
        .load(crds)
        .map_err(|failure| anyhow::anyhow!("{failure}"))
        .context("failed to load the custom resource definitions")?;
    Ok(())
}

/// The address asked for, or the usual one, or if that is taken any other.
///
/// A request without a token is the administrator's, with RBAC too: kubectl sends no token over plain HTTP, and its
/// user is the one who started the sandbox.
async fn listen(sandbox: &Sandbox, asked: Option<SocketAddr>) -> anyhow::Result<Listener> {
    let usual = SocketAddr::from(([127, 0, 0, 1], 6550));
    if let Some(address) = asked {
        return sandbox.listen_as(address, User::admin()).await.map_err(|error| {
            hinted(
                format!("failed to listen on {address}: {error}"),
                "is another sandbox running there? `--listen 127.0.0.1:0` takes any free port",
            )
        });
    }
    if let Ok(listener) = sandbox.listen_as(usual, User::admin()).await {
        return Ok(listener);
    }
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    sandbox.listen_as(any, User::admin()).await.context("failed to listen on 127.0.0.1")
}

/// The addresses and files of a running sandbox.
struct Place<'a> {
    listener: &'a Listener,
    kubeconfig: &'a Path,
    stack: &'a Stack,
}

fn greet(printer: &Printer, place: &Place<'_>, args: &Args, loaded: usize, took_ms: u128) {
    let Place { listener, kubeconfig, stack } = place;
    let strong = |text: &str| printer.paint(Tone::Strong, text);
    let path = std::path::absolute(kubeconfig).unwrap_or_else(|_| kubeconfig.to_path_buf());
    let mut parts = vec![format!("{} node{}", args.nodes, if args.nodes == 1 { "" } else { "s" })];
    if !args.no_crds {
        parts.push("Tidegate's 7 custom kinds, Gateway API and Istio".into());
        if !args.no_operator {
            parts.push("the operator".into());
        }
    }
    if args.rbac {
        parts.push("RBAC on".into());
    }
    if loaded > 0 {
        parts.push(format!("{loaded} objects loaded"));
    }
    printer.line(&format!(
        "A Kubernetes cluster in memory is ready at {} ({took_ms} ms).",
        strong(&format!("http://{}", listener.address))
    ));
    printer.line(&format!("It has {}. Nothing outlives it.", parts.join(", ")));
    printer.line(&format!(
        "Traffic enters at http://{} and is counted at http://{}.\n",
        stack.plane.address(),
        stack.prometheus
    ));
    printer.line("In another terminal:\n");
    printer.line(&format!("  export KUBECONFIG={}", path.display()));
    printer.line("  kubectl get nodes");
    printer.line("  kubectl create deployment web --image=web:1.0 --replicas=3");
    printer.line("  kubectl rollout status deployment web");
    if !args.no_crds {
        printer.line("  kubectl explain canary.spec");
    }
    printer.line("\nCtrl-C stops it.");
}
