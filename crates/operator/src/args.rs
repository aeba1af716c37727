//! The operator's flags: Flagger's, with Flagger's defaults, and a few of our own.
//!
//! Go writes flags with one dash or two and has its own idea of booleans. [`preprocess`] turns them
//! into flags of clap, so a Flagger Deployment's arguments work unchanged:
//!
//! ```text
//! -log-level=info -enable-leader-election -v 3   -->   --log-level=info --enable-leader-election
//! ```
//!
//! [`Args`] are the flags as written; [`Settings`] are their values, with the environment applied and
//! every text parsed. [`Args`] can be a subcommand: `Operator(args::Args)`.

mod go;
mod secret;
mod settings;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use tidegate_api::duration::GoDuration;
use tidegate_runtime::{flags::boolean, log::LogFormat};

pub use self::{
    go::preprocess,
    secret::Secret,
    settings::{ClusterAccess, Notifier, Settings, SettingsError},
};
use crate::http::Network;

/// Run the operator: watch canaries and roll out what changes.
///
/// Takes Flagger's flags, with one dash or two.
#[derive(Debug, Clone, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
#[expect(clippy::doc_markdown, reason = "these are the help texts")]
#[command(
    version,
    args_override_self = true,
    max_term_width = 100,
    after_long_help = EXAMPLES,
)]
pub struct Args {
    /// Kubeconfig file; without one, the service account of the pod.
    #[arg(long, value_name = "FILE", help_heading = CLUSTER)]
    pub kubeconfig: Option<PathBuf>,
    /// Address of the API server; overrides the one in the kubeconfig.
    #[arg(long, value_name = "URL", help_heading = CLUSTER)]
    pub master: Option<String>,
    /// Requests a second to the API server; 0 is no limit.
    #[arg(long, value_name = "N", default_value_t = 100, help_heading = CLUSTER)]
    pub kubeconfig_qps: u32,
    /// Requests to the API server that may be made in one go.
    #[arg(long, value_name = "N", default_value_t = 250, help_heading = CLUSTER)]
    pub kubeconfig_burst: u32,
    /// Kubeconfig file of the cluster that has the routing objects, if it is another one.
    #[arg(long, value_name = "FILE", help_heading = CLUSTER)]
    pub kubeconfig_service_mesh: Option<PathBuf>,
    /// Namespace to watch; all of them if empty.
    #[arg(long, value_name = "NAME", default_value = "", help_heading = CLUSTER)]
    pub namespace: String,

    /// Elect a leader; needed to run more than one replica.
    #[arg(long, value_name = "BOOL", help_heading = AVAILABILITY,
        num_args = 0..=1, require_equals = true, default_value = "false",
        default_missing_value = "true", value_parser = boolean)]
    pub enable_leader_election: bool,
    /// Namespace of the lease, unless --namespace is set.
    #[arg(long, value_name = "NAME", default_value = "kube-system", help_heading = AVAILABILITY)]
    pub leader_election_namespace: String,
    /// Canaries that are worked on at the same time.
    #[arg(long, value_name = "N", default_value_t = 2, help_heading = AVAILABILITY)]
    pub threadiness: u16,
    /// Time between two looks at which canaries there are.
    #[arg(long, value_name = "DURATION", default_value = "10s", help_heading = AVAILABILITY)]
    pub control_loop_interval: GoDuration,
    /// Canaries that are there at the start are looked at over this long, not all at once.
    #[arg(long, value_name = "DURATION", default_value = "10s", help_heading = AVAILABILITY)]
    pub startup_spread: GoDuration,
    /// Port of /metrics, /healthz and /readyz.
    #[arg(long, value_name = "PORT", default_value_t = 8080, help_heading = AVAILABILITY)]
    pub port: u16,

    /// Mesh, gateway or ingress of canaries that name none.
    #[arg(long, value_name = "NAME", default_value = "istio", help_heading = ROLLOUTS)]
    pub mesh_provider: String,
    /// Prometheus of the builtin metrics.
    #[arg(long, value_name = "URL", default_value = "http://prometheus:9090",
        hide_default_value = false, help_heading = ROLLOUTS)]
    pub metrics_server: Secret,
    /// How long a query of a metric may take, with everything it does.
    #[arg(long, value_name = "DURATION", default_value = "10s", help_heading = ROLLOUTS)]
    pub query_timeout: GoDuration,
    /// Labels that may select a target's pods; the first that is there counts.
    #[arg(long, value_name = "LABELS", default_value = "app,name,app.kubernetes.io/name",
        help_heading = ROLLOUTS)]
    pub selector_labels: String,
    /// Prefixes of labels that are copied to what is created for a canary.
    #[arg(long, value_name = "PREFIXES", default_value = "", help_heading = ROLLOUTS)]
    pub include_label_prefix: String,
    /// Prefix of the annotations that the ingress controller reads.
    #[arg(long, value_name = "PREFIX", default_value = "nginx.ingress.kubernetes.io",
        help_heading = ROLLOUTS)]
    pub ingress_annotations_prefix: String,
    /// Class of the ingresses that are created.
    #[arg(long, value_name = "NAME", default_value = "", help_heading = ROLLOUTS)]
    pub ingress_class: String,
    /// Roll out changes of ConfigMaps and Secrets too.
    #[arg(long, value_name = "BOOL", help_heading = ROLLOUTS,
        num_args = 0..=1, require_equals = true, default_value = "true",
        default_missing_value = "true", value_parser = boolean)]
    pub enable_config_tracking: bool,
    /// Roll out GameDeployments and GameStatefulSets too, where the cluster serves them.
    #[arg(long, value_name = "BOOL", help_heading = ROLLOUTS,
        num_args = 0..=1, require_equals = true, default_value = "true",
        default_missing_value = "true", value_parser = boolean)]
    pub enable_game_workloads: bool,

    /// Slack webhook or API address for alerts of all canaries [env: SLACK_URL].
    #[arg(long, value_name = "URL", help_heading = ALERTS)]
    pub slack_url: Option<Secret>,
    /// Token of a Slack app [env: SLACK_TOKEN]. Better kept in the environment.
    #[arg(long, value_name = "TOKEN", help_heading = ALERTS)]
    pub slack_token: Option<Secret>,
    /// Proxy on the way to Slack [env: SLACK_PROXY_URL].
    #[arg(long, alias = "slack-proxy", value_name = "URL", help_heading = ALERTS)]
    pub slack_proxy_url: Option<Secret>,
    /// Channel that alerts go to.
    #[arg(long, value_name = "NAME", default_value = "", help_heading = ALERTS)]
    pub slack_channel: String,
    /// Name that alerts come from.
    #[arg(long, value_name = "NAME", default_value = "flagger", help_heading = ALERTS)]
    pub slack_user: String,
    /// Microsoft Teams webhook for alerts of all canaries; replaces Slack [env: MSTEAMS_URL].
    #[arg(long, value_name = "URL", help_heading = ALERTS)]
    pub msteams_url: Option<Secret>,
    /// Proxy on the way to Teams [env: MSTEAMS_PROXY_URL].
    #[arg(long, alias = "msteams-proxy", value_name = "URL", help_heading = ALERTS)]
    pub msteams_proxy_url: Option<Secret>,
    /// Receiver of all events [env: EVENT_WEBHOOK_URL].
    #[arg(long, value_name = "URL", help_heading = ALERTS)]
    pub event_webhook: Option<Secret>,
    /// Name of this cluster, shown in alerts.
    #[arg(long, value_name = "NAME", default_value = "", help_heading = ALERTS)]
    pub cluster_name: String,

    /// Refuse templates, alert providers, upstreams and hosts of other namespaces.
    #[arg(long, value_name = "BOOL", help_heading = SAFETY,
        num_args = 0..=1, require_equals = true, default_value = "false",
        default_missing_value = "true", value_parser = boolean)]
    pub no_cross_namespace_refs: bool,
    /// Send a Secret to a metric server only if its label tidegate.dev/for-metrics is "true".
    #[arg(long, value_name = "BOOL", help_heading = SAFETY,
        num_args = 0..=1, require_equals = true, default_value = "false",
        default_missing_value = "true", value_parser = boolean)]
    pub require_metric_secret_label: bool,
    /// Istio gateways of other namespaces that canaries may use, as namespace/name; any if empty.
    #[arg(long, value_name = "GATEWAYS", default_value = "", help_heading = SAFETY)]
    pub shared_gateways: String,
    /// File with a secret; calls of hooks are signed with its first line, as the load tester checks it.
    #[arg(long, value_name = "FILE", help_heading = SAFETY)]
    pub hook_secret_file: Option<PathBuf>,
    /// Let hooks, metrics and alerts reach this machine's own addresses.
    #[arg(long, value_name = "BOOL", help_heading = SAFETY,
        num_args = 0..=1, require_equals = true, default_value = "false",
        default_missing_value = "true", value_parser = boolean)]
    pub allow_loopback_hooks: bool,
    /// Address ranges that hooks, metrics and alerts may reach whatever else is refused: servers on the nodes'
    /// own network, for instance.
    #[arg(long, value_name = "RANGES", value_delimiter = ',', help_heading = SAFETY)]
    pub allow_addresses: Vec<Network>,
    /// Address ranges that they may not reach, besides this machine's own addresses, link-local ones, metadata
    /// servers and the nodes of the cluster.
    #[arg(long, value_name = "RANGES", value_delimiter = ',', help_heading = SAFETY)]
    pub deny_addresses: Vec<Network>,
    /// Leave it to the proxy of the environment to look up names in hooks, metrics and alerts: where the
    /// operator cannot. Addresses behind names are then not checked.
    #[arg(long, value_name = "BOOL", help_heading = SAFETY,
        num_args = 0..=1, require_equals = true, default_value = "false",
        default_missing_value = "true", value_parser = boolean)]
    pub proxy_resolves_names: bool,
    /// Requests to hooks, metrics and alerts in flight. One of more than three seconds is not counted.
    #[arg(long, value_name = "N", default_value_t = 64, help_heading = SAFETY)]
    pub requests_in_flight: u16,
    /// The same, for each namespace; besides, eight times as many long ones.
    #[arg(long, value_name = "N", default_value_t = 8, help_heading = SAFETY)]
    pub requests_in_flight_per_namespace: u16,

    /// Log level: debug, info, warn or error.
    #[arg(long, value_name = "LEVEL", default_value = "debug", help_heading = LOGS)]
    pub log_level: String,
    /// Form of the log: json or text; overrides --zap-encoding.
    #[arg(long, value_name = "FORMAT", value_enum, help_heading = LOGS)]
    pub log_format: Option<LogFormat>,
    /// Form of the log, by Flagger's names: json or console.
    #[arg(long, value_name = "FORMAT", default_value = "json", help_heading = LOGS)]
    pub zap_encoding: String,
    /// Accepted for Flagger's sake; changes nothing.
    #[arg(long, value_name = "BOOL", hide = true,
        num_args = 0..=1, require_equals = true, default_value = "false",
        default_missing_value = "true", value_parser = boolean)]
    pub zap_replace_globals: bool,
}

const CLUSTER: &str = "Cluster";
const AVAILABILITY: &str = "Running";
const ROLLOUTS: &str = "Rollouts";
const ALERTS: &str = "Alerts";
const SAFETY: &str = "Safety";
const LOGS: &str = "Logs";

const EXAMPLES: &str = "\
Examples:
  Two replicas for Istio, one of which acts:
    tidegate operator --mesh-provider=istio --metrics-server=http://prometheus:9090 \\
      --enable-leader-election --leader-election-namespace=istio-system

  One namespace, from outside the cluster, with a readable log:
    tidegate operator --kubeconfig ~/.kube/config --namespace test \\
      --log-level info --log-format text

  Let hooks reach a server on the network of its node, and keep them from the control plane:
    tidegate operator --allow-addresses 10.0.3.7 --deny-addresses 192.168.5.0/24

Environment:
  SLACK_URL, SLACK_TOKEN, SLACK_PROXY_URL, MSTEAMS_URL, MSTEAMS_PROXY_URL and EVENT_WEBHOOK_URL
  override the flags when they are not empty. HTTP_PROXY, HTTPS_PROXY and NO_PROXY are obeyed.
  RUST_LOG overrides --log-level.";
