//! The values of flags and environment, parsed and validated.

use std::{num::NonZeroU16, path::PathBuf, time::Duration};

use tidegate_providers::{
    hook::sign,
    traffic::{self, UnknownProvider},
};
use tidegate_runtime::log::{self, LogFormat, LogSettings};

use super::{Args, Secret};
use crate::http::{Policy, Proxy, SafeUrl, UrlError};

/// All settings of the operator.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the user's")]
pub struct Settings {
    pub cluster: ClusterAccess,
    /// `None` is all namespaces.
    pub namespace: Option<String>,
    /// The namespace of the lease; `None` runs without election.
    pub election_namespace: Option<String>,
    pub workers: NonZeroU16,
    pub control_loop_interval: Duration,
    pub startup_spread: Duration,
    pub query_timeout: Duration,
    pub port: u16,
    pub mesh_provider: String,
    pub metrics_server: SafeUrl,
    pub selector_labels: Vec<String>,
    pub include_label_prefix: Vec<String>,
    pub ingress_annotations_prefix: String,
    pub ingress_class: String,
    pub config_tracking: bool,
    pub game_workloads: bool,
    /// Receives the alerts of every canary.
    pub notifier: Option<Notifier>,
    /// Receives every event.
    pub event_webhook: Option<SafeUrl>,
    pub cluster_name: String,
    /// File with the secret that signs calls of hooks. It existed, and was not empty, at the start.
    pub hook_secret_file: Option<PathBuf>,
    pub no_cross_namespace_refs: bool,
    pub require_metric_secret_label: bool,
    /// Each as `namespace/name`.
    pub shared_gateways: Vec<String>,
    pub http: Policy,
    pub log: LogSettings,
    /// Invalid settings that do not keep the operator from starting. To be logged.
    pub warnings: Vec<String>,
}

/// How to reach the API server, and that of the mesh.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterAccess {
    pub kubeconfig: Option<PathBuf>,
    pub master: Option<String>,
    pub requests_per_second: u32,
    pub requests_burst: u32,
    pub mesh_kubeconfig: Option<PathBuf>,
}

/// The global receiver of alerts.
#[derive(Debug, Clone)]
pub enum Notifier {
    Slack {
        url: SafeUrl,
        token: Option<Secret>,
        proxy: Option<Proxy>,
        user: String,
        channel: String,
    },
    Teams {
        url: SafeUrl,
        proxy: Option<Proxy>,
    },
}

/// Why the operator cannot start with these flags.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    #[error("--{flag}: invalid URL: {source}")]
    Url { flag: &'static str, source: UrlError },
    #[error("--{flag}: must be more than zero")]
    NotPositive { flag: &'static str },
    #[error("--{flag}: {source}")]
    Provider { flag: &'static str, source: UnknownProvider },
    #[error("--{flag}: `{}` holds no secret, or cannot be read", path.display())]
    NoSecret { flag: &'static str, path: PathBuf },
    #[error("--{flag}: `{text}` is not namespace/name")]
    Gateway { flag: &'static str, text: String },
}

/// The texts from which the notifier is made, the environment applied.
struct Alerts {
    slack_url: Option<Secret>,
    slack_token: Option<Secret>,
    slack_proxy: Option<Secret>,
    slack_user: String,
    slack_channel: String,
    teams_url: Option<Secret>,
    teams_proxy: Option<Secret>,
}

// === impl Settings ===

impl TryFrom<Args> for Settings {
    type Error = SettingsError;

    /// Reads the environment of this process.
    fn try_from(args: Args) -> Result<Self, SettingsError> {
        Self::new(args, |name| std::env::var(name).ok())
    }
}

impl Settings {
    /// `environment` looks a variable up. One that is not empty overrides its flag, as in Flagger.
    pub fn new(
        args: Args,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, SettingsError> {
        let mut warnings = Vec::new();
        let overriding = |name: &str, flag: Option<Secret>| {
            let from_environment = environment(name).map(Secret::new);
            [from_environment, flag].into_iter().flatten().find(|secret| !secret.is_empty())
        };
        let alerts = Alerts {
            slack_url: overriding("SLACK_URL", args.slack_url),
            slack_token: overriding("SLACK_TOKEN", args.slack_token),
            slack_proxy: overriding("SLACK_PROXY_URL", args.slack_proxy_url),
            slack_user: args.slack_user,
            slack_channel: args.slack_channel,
            teams_url: overriding("MSTEAMS_URL", args.msteams_url),
            teams_proxy: overriding("MSTEAMS_PROXY_URL", args.msteams_proxy_url),
        };
        let event_webhook = overriding("EVENT_WEBHOOK_URL", args.event_webhook);
        let event_webhook = event_webhook.as_ref().map(|url| url_of("event-webhook", url));
        let namespace = some(args.namespace);
        let election_namespace = namespace.clone().unwrap_or(args.leader_election_namespace);
        let interval = args.control_loop_interval.to_std().filter(|time| !time.is_zero());
        let query_timeout = args.query_timeout.to_std().filter(|time| !time.is_zero());
        let not_positive = |flag| SettingsError::NotPositive { flag };
        Ok(Self {
            cluster: ClusterAccess {
                kubeconfig: args.kubeconfig.filter(|path| !path.as_os_str().is_empty()),
                master: args.master.and_then(some),
                requests_per_second: args.kubeconfig_qps,
                requests_burst: args.kubeconfig_burst,
                mesh_kubeconfig: args
                    .kubeconfig_service_mesh
                    .filter(|path| !path.as_os_str().is_empty()),
            },
            namespace,
            election_namespace: args.enable_leader_election.then_some(election_namespace),
            workers: NonZeroU16::new(args.threadiness).ok_or(not_positive("threadiness"))?,
            startup_spread: args.startup_spread.to_std().ok_or(not_positive("startup-spread"))?,
            query_timeout: query_timeout.ok_or(not_positive("query-timeout"))?,
            control_loop_interval: interval.ok_or(not_positive("control-loop-interval"))?,
            port: args.port,
            mesh_provider: provider_of("mesh-provider", args.mesh_provider)?,
            metrics_server: url_of("metrics-server", &args.metrics_server)?,
            selector_labels: list(&args.selector_labels),
            include_label_prefix: list(&args.include_label_prefix),
            ingress_annotations_prefix: args.ingress_annotations_prefix,
            ingress_class: args.ingress_class,
            config_tracking: args.enable_config_tracking,
            game_workloads: args.enable_game_workloads,
            notifier: alerts.notifier(&mut warnings),
            event_webhook: event_webhook.transpose()?,
            cluster_name: args.cluster_name,
            hook_secret_file: args.hook_secret_file.map(holds_secret).transpose()?,
            no_cross_namespace_refs: args.no_cross_namespace_refs,
            require_metric_secret_label: args.require_metric_secret_label,
            shared_gateways: gateways("shared-gateways", &args.shared_gateways)?,
            http: Policy {
                allow_loopback: args.allow_loopback_hooks,
                allow: args.allow_addresses,
                deny: args.deny_addresses,
                environment_proxies: true,
                proxy_resolves: args.proxy_resolves_names,
                in_flight_max: args.requests_in_flight.into(),
                in_flight_per_namespace_max: args.requests_in_flight_per_namespace.into(),
            },
            log: log_settings(&args.log_level, args.log_format, &args.zap_encoding),
            warnings,
        })
    }
}

// === impl Alerts ===

impl Alerts {
    /// As Flagger: Teams replaces Slack, and a notifier that cannot be used is a warning.
    fn notifier(self, warnings: &mut Vec<String>) -> Option<Notifier> {
        let notifier = match (&self.teams_url, &self.slack_url) {
            (Some(url), _) => Self::teams(url, self.teams_proxy.as_ref()),
            (None, Some(url)) => self.slack(url),
            (None, None) => return None,
        };
        notifier.map_err(|problem| warnings.push(format!("No alerts will be sent: {problem}"))).ok()
    }

    fn teams(url: &Secret, proxy: Option<&Secret>) -> Result<Notifier, String> {
        let url = url_of("msteams-url", url).map_err(|error| error.to_string())?;
        Ok(Notifier::Teams { url, proxy: proxy_of("msteams-proxy-url", proxy)? })
    }

    fn slack(&self, url: &Secret) -> Result<Notifier, String> {
        if self.slack_channel.is_empty() {
            return Err("--slack-channel is empty".to_owned());
        }
        if self.slack_user.is_empty() {
            return Err("--slack-user is empty".to_owned());
        }
        Ok(Notifier::Slack {
            url: url_of("slack-url", url).map_err(|error| error.to_string())?,
            token: self.slack_token.clone(),
            proxy: proxy_of("slack-proxy-url", self.slack_proxy.as_ref())?,
            user: self.slack_user.clone(),
            channel: self.slack_channel.clone(),
        })
    }
}

fn log_settings(level: &str, format: Option<LogFormat>, zap_encoding: &str) -> LogSettings {
    let by_zap = if zap_encoding == "console" { LogFormat::Text } else { LogFormat::Json };
    LogSettings {
        level: log::level(level),
        format: format.unwrap_or(by_zap),
        obeys_rust_log: true,
        is_sampled: false,
    }
}

fn url_of(flag: &'static str, text: &Secret) -> Result<SafeUrl, SettingsError> {
    SafeUrl::parse(text.expose()).map_err(|source| SettingsError::Url { flag, source })
}

/// Flagger would write objects of Istio for a name it does not know.
fn provider_of(flag: &'static str, name: String) -> Result<String, SettingsError> {
    match traffic::select(&name) {
        Ok(_) => Ok(name),
        Err(source) => Err(SettingsError::Provider { flag, source }),
    }
}

fn gateways(flag: &'static str, text: &str) -> Result<Vec<String>, SettingsError> {
    let is_named = |text: &String| {
        let parts: Vec<_> = text.split('/').collect();
        matches!(parts[..], [namespace, name] if !namespace.is_empty() && !name.is_empty())
    };
    let listed = list(text);
    match listed.iter().find(|it| !is_named(it)) {
        Some(text) => Err(SettingsError::Gateway { flag, text: text.clone() }),
        None => Ok(listed),
    }
}

/// A file without a secret is an error at the start.
fn holds_secret(path: PathBuf) -> Result<PathBuf, SettingsError> {
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    match sign::first_secret(&text) {
        Some(_) => Ok(path),
        None => Err(SettingsError::NoSecret { flag: "hook-secret-file", path }),
    }
}

/// A proxy of the administrator may have any address.
fn proxy_of(flag: &'static str, text: Option<&Secret>) -> Result<Option<Proxy>, String> {
    let Some(text) = text else { return Ok(None) };
    let proxy = Proxy::parse(text.expose());
    proxy.map(|proxy| Some(proxy.trusted())).map_err(|error| format!("--{flag}: {error}"))
}

fn some(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

/// Texts between commas; space around them does not count, nor do empty ones.
fn list(text: &str) -> Vec<String> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts.map(str::to_owned).collect()
}
