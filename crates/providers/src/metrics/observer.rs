//! The built-in queries: one row for each mesh, gateway or ingress that counts requests.
//!
//! A row is a counter with labels that pick the canary out of it, and a histogram or a pair of sums
//! for the time to answer. From it come the success rate, the duration and the rate of all
//! requests.
//!
//! In the labels `<ns>` stands for a name as it is and `<ns~>` for a name in a regular expression,
//! where a dot has to mean a dot. Names were checked when the [`Model`] was made, so nothing needs
//! escaping.

use std::net::IpAddr;

use tidegate_api::canary::{Provider, TargetKind, TargetRef};

use super::Builtin;
use crate::template::Model;

mod rows;

use self::rows::{Row, Shape};

/// The source of a canary's request counts, and how its pods are found among others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observer {
    /// The language of its counters.
    pub dialect: Dialect,
    /// The name used in messages: the provider, with `:service` behind it for plain Services.
    pub label: String,
    workload: Workload,
}

/// Sets of metrics that requests are counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dialect {
    /// Istio's telemetry. Also for anything without counters of its own.
    Istio,
    /// AWS App Mesh.
    AppMesh,
    /// Linkerd's proxies.
    Linkerd,
    /// Contour.
    Contour,
    /// Gloo.
    Gloo,
    /// Kuma.
    Kuma,
    /// Knative.
    Knative,
    /// Open Service Mesh.
    Osm,
    /// The NGINX ingress controller.
    Nginx,
    /// Skipper.
    Skipper,
    /// Traefik.
    Traefik,
    /// Apache APISIX.
    Apisix,
    /// Counters of the pods themselves, for `kubernetes` and `gatewayapi`.
    Http,
}

/// The kind of workload that the pods of a target belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Workload {
    Deployment,
    DaemonSet,
}

/// A name in the labels of a row.
struct Placeholder<'a> {
    mark: &'static str,
    value: &'a str,
}

/// Addresses in one query. A query has to fit into a URL, and some hundred pods are judged as well as all.
const NODES_MAX: usize = 256;
/// The variable of a metric that, set to `99`, selects the percentile where the mean is the rule.
const PERCENTILE: &str = "percentile";

// === impl Observer ===

impl Observer {
    /// The observer of a canary. `mesh` is the provider the operator was started with.
    ///
    /// As Flagger, but for a plain Service as target: there the provider's own counters are used
    /// and not Istio's, with every provider.
    pub fn select(mesh: &str, provider: Option<Provider>, target: &TargetRef) -> Self {
        let started_with = if mesh.contains("crossover") { "crossover" } else { mesh };
        let chosen = if mesh.contains("linkerd") {
            "linkerd"
        } else {
            provider.map_or(started_with, |provider| provider.as_str())
        };
        let is_plain_service = target.kind == TargetKind::Service && !target.is_knative();
        let suffix = if is_plain_service { ":service" } else { "" };
        let workload = match target.kind {
            TargetKind::DaemonSet => Workload::DaemonSet,
            TargetKind::Deployment | TargetKind::Service | TargetKind::Other(_) => {
                Workload::Deployment
            }
        };
        let dialect = Dialect::of(chosen);
        Self { dialect, label: format!("{chosen}{suffix}"), workload }
    }

    /// Whether requests to the canary are known by the address that answered and by nothing else: a [`Model`]
    /// without addresses then matches no request.
    pub const fn needs_addresses(&self) -> bool {
        matches!(self.dialect, Dialect::Apisix)
    }

    /// The query of a built-in metric. Percent, or milliseconds.
    pub fn query(&self, builtin: Builtin, model: &Model) -> String {
        let row = self.dialect.row();
        match builtin {
            Builtin::SuccessRate => {
                let good = self.rate(row.counter, &[row.labels, row.counted, row.good], model);
                let all = self.rate(row.counter, &[row.labels, row.counted], model);
                format!("{good} / {all} * 100")
            }
            Builtin::Duration => self.duration(row, model),
        }
    }

    /// The rate of all requests, good or bad; see [`super::success_rate_without_value`].
    pub fn total_query(&self, model: &Model) -> String {
        let row = self.dialect.row();
        self.rate(row.counter, &[row.labels, row.counted], model)
    }

    fn duration(&self, row: &Row, model: &Model) -> String {
        let labels = [row.labels, row.timed];
        let wants_percentile = model.variable(PERCENTILE) == Some("99");
        let query = match row.shape {
            Shape::Histogram(buckets) => self.percentile(buckets, &labels, model),
            Shape::Mean { buckets, .. } if wants_percentile => {
                self.percentile(buckets, &labels, model)
            }
            Shape::Mean { sum, count, .. } => {
                let (sum, count) =
                    (self.rate(sum, &labels, model), self.rate(count, &labels, model));
                format!("{sum} / {count}")
            }
        };
        if row.in_seconds { format!("{query} * 1000") } else { query }
    }

    fn percentile(&self, buckets: &str, labels: &[&str], model: &Model) -> String {
        format!("histogram_quantile(0.99, {} by (le))", self.rate(buckets, labels, model))
    }

    fn rate(&self, series: &str, labels: &[&str], model: &Model) -> String {
        let labels: Vec<_> = labels.iter().copied().filter(|text| !text.is_empty()).collect();
        let labels = self.fill(&labels.join(","), model);
        format!("sum(rate({series}{{{labels}}}[{}]))", model.interval())
    }

    fn fill(&self, labels: &str, model: &Model) -> String {
        let (pods, kind, kind_label) = match self.workload {
            // A Deployment's pod has two more segments in its name, of the ReplicaSet and its own.
            // That also leaves out the primary's pods, which have three.
            Workload::Deployment => ("[0-9a-zA-Z]+(-[0-9a-zA-Z]+)", "Deployment", "deployment"),
            // A DaemonSet's pod has one; two would be the primary's.
            Workload::DaemonSet => ("[0-9a-zA-Z]+", "DaemonSet", "daemonset"),
        };
        let names = [
            Placeholder { mark: "ns", value: model.namespace() },
            Placeholder { mark: "target", value: model.target() },
            Placeholder { mark: "service", value: model.service() },
            Placeholder { mark: "ingress", value: model.ingress() },
            Placeholder { mark: "route", value: model.route() },
        ];
        let mut filled = labels
            .replace("<nodes>", &nodes(model))
            .replace("<pods>", pods)
            .replace("<kind>", kind)
            .replace("<kind label>", kind_label);
        for Placeholder { mark, value } in names {
            filled = filled
                .replace(&format!("<{mark}>"), value)
                .replace(&format!("<{mark}~>"), &value.replace('.', "[.]"))
                .replace(&format!("<{mark}_>"), &words(value));
        }
        filled
    }
}

/// A pattern for the addresses of the canary. Those of version 6 may stand in brackets.
fn nodes(model: &Model) -> String {
    let pattern = |address: &IpAddr| match address {
        IpAddr::V4(address) => address.to_string().replace('.', "[.]"),
        IpAddr::V6(address) => format!("[[]?{address}[]]?"),
    };
    let patterns: Vec<_> = model.addresses().iter().take(NODES_MAX).map(pattern).collect();
    // An empty pattern would match requests that no node answered.
    if patterns.is_empty() { "none".to_owned() } else { patterns.join("|") }
}

/// Skipper's names of routes: any character but a letter or digit becomes an underscore.
fn words(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

// === impl Dialect ===

impl Dialect {
    /// The one that a provider's requests are counted in.
    pub fn of(provider: &str) -> Self {
        let versioned =
            [("appmesh", Self::AppMesh), ("gloo", Self::Gloo), ("gatewayapi", Self::Http)];
        for (prefix, dialect) in versioned {
            if provider.starts_with(prefix) {
                return dialect;
            }
        }
        match provider {
            "kubernetes" => Self::Http,
            "linkerd" => Self::Linkerd,
            "contour" => Self::Contour,
            "nginx" => Self::Nginx,
            "skipper" => Self::Skipper,
            "traefik" => Self::Traefik,
            "osm" => Self::Osm,
            "kuma" => Self::Kuma,
            "apisix" => Self::Apisix,
            "knative" => Self::Knative,
            // As Flagger: also for SMI and anything unknown.
            _ => Self::Istio,
        }
    }

    /// The component that counts, in words.
    pub const fn counted_by(self) -> &'static str {
        match self {
            Self::Istio => "Istio",
            Self::AppMesh => "App Mesh",
            Self::Linkerd => "Linkerd",
            Self::Contour => "Contour",
            Self::Gloo => "Gloo",
            Self::Kuma => "Kuma",
            Self::Knative => "Knative",
            Self::Osm => "Open Service Mesh",
            Self::Nginx => "NGINX",
            Self::Skipper => "Skipper",
            Self::Traefik => "Traefik",
            Self::Apisix => "APISIX",
            Self::Http => "the application",
        }
    }

    /// Whether the time to answer is the mean of all, unless a metric asks for the percentile.
    pub fn is_mean(self) -> bool {
        matches!(self.row().shape, Shape::Mean { .. })
    }
}

#[cfg(test)]
mod tests;
