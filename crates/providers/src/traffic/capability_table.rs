//! The documentation's table of each provider's capabilities, written from [`matrix`].

use std::fmt::Write as _;

use super::{Affinity, Mesh, SmiTarget, Support, matrix};
use crate::metrics::Dialect;

const INTRO: &str = "\
# Providers

The capabilities of each `spec.provider`. A canary that needs a missing one is refused before
anything is made: A/B testing where requests cannot be told apart, `analysis.mirror` where requests
cannot be copied, `analysis.sessionAffinity` where users cannot be kept. The condition `Stalled`
then has the reason `Refused` and names the capabilities of the provider. A rollout that is under
way is not stopped by it.

With `kubernetes`, as with Flagger, every strategy becomes blue/green beside users; conditions
beside `stepWeight` are left out where requests cannot be told apart. The event `NotSupported` says
so, when the canary is set up and with every rollout.

";

const NOTES: &str = "
*Blue/green*: where users are not moved, the canary is tested beside them and they meet the new
revision when the primary is updated. With `kubernetes` the field `service.switchApex` moves them.

*Built-in metrics*: the component that counts the requests of `request-success-rate` and
`request-duration`, and whether the duration is the 99th percentile or the mean.

*TCP* is `istio` with `appProtocol: tcp`: connections are divided, and their requests are not known.
A built-in metric never has a value there, and the event `NotSupported` says so: use a query or a
template of your own. With `gatewayapi:v1` and gRPC there is no session affinity; a
[route of your own](../guide/routes.md#a-route-of-your-own) is divided by weight only. With `nginx`
a test has no weights: requests that fit go to the canary, all others to the primary.

`kuma` writes a TrafficRoute, or a MeshHTTPRoute where the cluster serves no TrafficRoute.

A [Service of the core](../concepts/rollout.md#services) as target is refused with `kubernetes`,
which divides nothing, and with `nginx` and `skipper`, where your Ingress would lead to the target
itself.

## Fields of `service`

`name`, `port`, `portName`, `targetPort`, `portDiscovery`, `appProtocol`, `headless`,
`trafficDistribution` and the metadata of the three Services count with every provider. These shape
the route:

";

/// `docs/reference/providers.md`, but for the line that says how it was written.
pub fn capability_table() -> String {
    let mut text = INTRO.to_owned();
    table(
        &mut text,
        [
            "Provider",
            "Objects",
            "By weight",
            "A/B testing by",
            "Blue/green",
            "Mirroring",
            "Session affinity",
            "Built-in metrics",
        ],
        matrix().iter().map(row),
    );
    text.push_str(NOTES);
    table(&mut text, ["Provider", "Fields"], matrix().iter().map(fields));
    text
}

fn row(support: &Support) -> [String; 8] {
    let Support { mesh, form: _, weighted, ab, switched, mirror, affinity, metrics, fields: _ } =
        *support;
    let form = in_brackets(support);
    let yes = |can: bool| if can { "yes" } else { "–" }.to_owned();
    [
        format!("[`{}`](../guide/providers/{}.md){form}", mesh.as_str(), mesh.guide()),
        objects(mesh),
        yes(weighted),
        ab.unwrap_or("–").to_owned(),
        if switched { "yes" } else { "tested beside users" }.to_owned(),
        yes(mirror),
        match affinity {
            Affinity::None => "–",
            Affinity::Both => "users of both",
        }
        .to_owned(),
        metrics.map_or_else(|| "–".to_owned(), counted),
    ]
}

fn counted(metrics: Dialect) -> String {
    let duration = if metrics.is_mean() { "mean" } else { "p99" };
    format!("{}, {duration}", metrics.counted_by())
}

fn fields(support: &Support) -> [String; 2] {
    let names: Vec<_> = support.fields.iter().map(|name| format!("`{name}`")).collect();
    let names = if names.is_empty() { "–".to_owned() } else { names.join(", ") };
    [format!("`{}`{}", support.mesh.as_str(), in_brackets(support)), names]
}

/// Which form of the provider, behind its name.
fn in_brackets(support: &Support) -> String {
    if support.form.is_empty() { String::new() } else { format!(" ({})", support.form) }
}

fn objects(mesh: Mesh) -> String {
    let names: Vec<_> = mesh.kinds().iter().map(|kind| kind.kind).collect();
    if names.is_empty() { "Services".to_owned() } else { names.join(", ") }
}

fn table<const N: usize>(
    text: &mut String,
    head: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
) {
    // Writing to a text cannot fail.
    let _ = writeln!(text, "| {} |\n|{}", head.join(" | "), " --- |".repeat(N));
    for row in rows {
        let _ = writeln!(text, "| {} |", row.join(" | "));
    }
}

// === impl Mesh ===

impl Mesh {
    /// The name of its page below `docs/guide/providers`.
    pub const fn guide(self) -> &'static str {
        match self {
            Self::Kubernetes => "kubernetes",
            Self::GatewayApiV1 | Self::GatewayApiV1Beta1 => "gateway-api",
            Self::Istio => "istio",
            Self::Smi { target: SmiTarget::Linkerd, .. } => "linkerd",
            Self::Smi { target: SmiTarget::Osm, .. } => "osm",
            Self::Smi { target: SmiTarget::Any | SmiTarget::Istio, .. } => "smi",
            Self::AppMeshV1Beta1 | Self::AppMeshV1Beta2 => "appmesh",
            Self::Contour => "contour",
            Self::Nginx => "nginx",
            Self::Skipper => "skipper",
            Self::Gloo => "gloo",
            Self::Traefik => "traefik",
            Self::Kuma | Self::KumaHttp => "kuma",
            Self::Apisix => "apisix",
            Self::Knative => "knative",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_provider_has_a_line_in_both_tables() {
        let page = capability_table();
        for support in matrix() {
            let (name, form) = (format!("`{}`", support.mesh.as_str()), in_brackets(&support));
            let is_about = |line: &&str| {
                let first = line.split(" | ").next().unwrap_or_default();
                first.contains(&name)
                    && first.ends_with(&form)
                    && first.contains("(TCP)") != form.is_empty()
            };
            let lines: Vec<_> =
                page.lines().filter(|line| line.starts_with('|')).filter(is_about).collect();
            let [line, _] = lines.as_slice() else { panic!("{name}{form}: {lines:?}") };
            assert_eq!(line.matches(" | ").count(), 7, "{line}");
            assert!(line.contains(support.ab.unwrap_or("| – |")), "{line}");
        }
    }
}
