//! `tidegate install`: everything a cluster needs, as manifests.

use tidegate_operator::install::{Install, with_hook_secret};

use crate::printer::Printer;

/// Print what a cluster needs to run the operator.
///
/// Definitions, a namespace, an account that may do what rollouts take and no more, and two replicas
/// of which one acts.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The container image: this program as its entry point.
    #[arg(long, value_name = "IMAGE")]
    image: String,
    /// Where the operator lives. Canaries may be anywhere.
    #[arg(long, short, value_name = "NAME", default_value = "tidegate-system")]
    namespace: String,
    /// Sign calls of hooks with the key `secret` of this Secret in the operator's namespace.
    #[arg(long, value_name = "NAME")]
    hook_secret: Option<String>,
    /// Leave the custom resource definitions out.
    #[arg(long)]
    without_crds: bool,
    /// Flags of `tidegate operator`, after `--`.
    #[arg(last = true, value_name = "FLAGS")]
    flags: Vec<String>,
}

const EXAMPLES: &str = "\
Examples:
  Look at it first:
    tidegate install --image registry.example.com/tidegate:0.1.0 | less

  For Gateway API:
    tidegate install --image registry.example.com/tidegate:0.1.0 -- \\
      --mesh-provider=gatewayapi:v1 --metrics-server=http://prometheus.monitoring:9090 \\
      | kubectl apply --server-side -f -";

pub(crate) fn run(args: Args, printer: &Printer) -> anyhow::Result<()> {
    let Args { image, namespace, hook_secret, without_crds, flags } = args;
    let mut objects = if without_crds { Vec::new() } else { tidegate_api::crds() };
    let manifests = Install { namespace, image, arguments: flags }.manifests();
    objects.extend(match hook_secret {
        Some(secret) => with_hook_secret(manifests, &secret),
        None => manifests,
    });
    printer.data(&tidegate_api::to_yaml(&objects))?;
    Ok(())
}
