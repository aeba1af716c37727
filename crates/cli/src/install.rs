//! `tidegate install`: everything a cluster needs, as manifests.

use tidegate_operator::install::{
    Install, NAMESPACE, Scope, with_alert_secret, with_hook_secret, with_metrics_from,
};

use crate::printer::Printer;

/// Print what a cluster needs to run the operator.
///
/// Definitions, a namespace, an account that may do what rollouts take and no more, and two replicas
/// of which one acts.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The container image: this program as its entry point.
    #[arg(long, value_name = "IMAGE")]
    image: String,
    /// Where the operator lives. Canaries may be anywhere, but for `--namespaced`.
    #[arg(long, short, value_name = "NAME", default_value = NAMESPACE, value_parser = namespace_name)]
    namespace: String,
    /// Print the Namespace too. That of the default name is always printed; any other one must exist.
    #[arg(long)]
    create_namespace: bool,
    /// Sign calls of hooks with the key `secret` of this Secret in the operator's namespace.
    #[arg(long, value_name = "NAME")]
    hook_secret: Option<String>,
    /// Take addresses and tokens of chats from this Secret in the operator's namespace: keys `SLACK_URL`,
    /// `SLACK_TOKEN`, `SLACK_PROXY_URL`, `MSTEAMS_URL`, `MSTEAMS_PROXY_URL`, `EVENT_WEBHOOK_URL`.
    #[arg(long, value_name = "NAME")]
    alert_secret: Option<String>,
    /// Let pods of this namespace only scrape the operator's metrics; several may be given. Without it, those of
    /// every namespace may.
    #[arg(long, value_name = "NAMESPACE", value_parser = namespace_name)]
    metrics_from: Vec<String>,
    /// Leave the custom resource definitions out.
    #[arg(long)]
    without_crds: bool,
    /// Leave game workloads out: their definitions, and the role that may create pods.
    #[arg(long)]
    without_game: bool,
    /// Leave changes of configuration out: they start no rollout, and the role may not list any.
    #[arg(long)]
    without_config_tracking: bool,
    /// Watch the namespace of `--namespace` only: a Role there, and a cluster role that reads nodes.
    #[arg(long, requires = "namespace")]
    namespaced: bool,
    /// Flags of `tidegate operator`, after `--`. New installations confine references to a canary's own
    /// namespace; `--no-cross-namespace-refs=false` allows others, as Flagger does. They require a label on
    /// Secrets of metric templates; `--require-metric-secret-label=false` does not.
    #[arg(last = true, value_name = "FLAGS", value_parser = operator_flag)]
    flags: Vec<String>,
}

/// The API group of game workloads.
const GAME_GROUP: &str = "tkex.tencent.com";

const EXAMPLES: &str = "\
Examples:
  Look at it first:
    tidegate install --image registry.example.com/tidegate:0.1.0 | less

  For Gateway API:
    tidegate install --image registry.example.com/tidegate:0.1.0 -- \\
      --mesh-provider=gatewayapi:v1 --metrics-server=http://prometheus.monitoring:9090 \\
      | kubectl apply --server-side -f -

  With as few permissions as possible, for the canaries of one namespace:
    tidegate install --image registry.example.com/tidegate:0.1.0 --namespaced --namespace shop \
      --without-game --without-config-tracking";

/// A name that the API server accepts for a namespace.
fn namespace_name(text: &str) -> Result<String, String> {
    let is_end = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_valid = text.len() <= 63
        && text.chars().all(|c| is_end(c) || c == '-')
        && text.starts_with(is_end)
        && text.ends_with(is_end);
    if is_valid {
        return Ok(text.to_owned());
    }
    Err("a namespace is named with up to 63 of a-z, 0-9 and '-', not at either end".to_owned())
}

/// The namespace that is watched decides where the roles are, so it cannot be left to a flag of the operator.
fn operator_flag(text: &str) -> Result<String, String> {
    let name = text.split('=').next().unwrap_or_default();
    if name.trim_start_matches('-') == "namespace" && name.starts_with('-') {
        let way_out = "say `--namespaced --namespace NAME` before `--`";
        return Err(format!("roles and lease are where the operator watches: {way_out}"));
    }
    Ok(text.to_owned())
}

pub(crate) fn run(args: Args, printer: &Printer) -> anyhow::Result<()> {
    let Args {
        image,
        namespace,
        create_namespace,
        hook_secret,
        alert_secret,
        metrics_from,
        without_crds,
        without_game,
        without_config_tracking,
        namespaced,
        flags,
    } = args;
    let scope =
        Scope { game: !without_game, config_tracking: !without_config_tracking, namespaced };
    let mut objects = if without_crds { Vec::new() } else { tidegate_api::crds() };
    objects.retain(|crd| scope.game || crd["spec"]["group"] != GAME_GROUP);
    let install = Install { namespace, create_namespace, image, arguments: flags, scope };
    let mut manifests = install.manifests();
    if let Some(secret) = hook_secret {
        manifests = with_hook_secret(manifests, &secret);
    }
    if let Some(secret) = alert_secret {
        manifests = with_alert_secret(manifests, &secret);
    }
    if !metrics_from.is_empty() {
        manifests = with_metrics_from(manifests, &metrics_from);
    }
    objects.extend(manifests);
    printer.data(&tidegate_api::to_yaml(&objects))?;
    Ok(())
}
