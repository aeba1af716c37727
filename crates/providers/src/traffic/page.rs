//! The page of the documentation that says what each provider can do, written from [`matrix`].

use std::fmt::Write as _;

use super::{Affinity, Mesh, SmiTarget, Support, matrix};

const INTRO: &str = "\
# Providers

What can be done with each `spec.provider`. What a provider cannot do is never passed over in silence: A/B testing is refused where requests cannot be told
apart, since all of them would go to the canary; conditions beside `stepWeight`, mirroring and session affinity are left out, and the event
`NotSupported` says so.

";

const NOTES: &str = "
*Blue/green*: where users are not moved, the canary is tested beside them and they meet the new revision when the primary is updated. With `kubernetes` the field
`service.switchApex` moves them.

With `istio` and `appProtocol: tcp` connections are divided, by weight only. With `gatewayapi:v1` and gRPC there is no session affinity; a
[route of your own](../guide/routes.md#a-route-of-your-own) is divided by weight only. With `nginx` a test has no weights: who fits goes to the canary, all others to the primary.

`kuma` writes a TrafficRoute, or a MeshHTTPRoute where the cluster serves no TrafficRoute.

## Fields of `service`

`name`, `port`, `portName`, `targetPort`, `portDiscovery`, `appProtocol`, `headless`, `trafficDistribution` and the metadata of the three Services count with every provider. These shape
the route:

";

/// `docs/reference/providers.md`, but for the line that says how it was written.
pub fn page() -> String {
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
        ],
        matrix().iter().map(row),
    );
    text.push_str(NOTES);
    table(&mut text, ["Provider", "Fields"], matrix().iter().map(fields));
    text
}

fn row(support: &Support) -> [String; 7] {
    let Support { mesh, weighted, ab, switched, mirror, affinity, fields: _ } = *support;
    let yes = |can: bool| if can { "yes" } else { "–" }.to_owned();
    [
        format!("[`{}`](../guide/providers/{}.md)", mesh.as_str(), mesh.guide()),
        objects(mesh),
        yes(weighted),
        ab.unwrap_or("–").to_owned(),
        if switched { "yes" } else { "tested beside users" }.to_owned(),
        yes(mirror),
        match affinity {
            Affinity::None => "–",
            Affinity::Canary => "users of the canary",
            Affinity::Both => "users of both",
        }
        .to_owned(),
    ]
}

fn fields(support: &Support) -> [String; 2] {
    let names: Vec<_> = support.fields.iter().map(|name| format!("`{name}`")).collect();
    let names = if names.is_empty() { "–".to_owned() } else { names.join(", ") };
    [format!("`{}`", support.mesh.as_str()), names]
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
        let page = page();
        for support in matrix() {
            let name = format!("`{}`", support.mesh.as_str());
            let lines: Vec<_> = page.lines().filter(|line| line.starts_with('|')).collect();
            assert_eq!(lines.iter().filter(|line| line.contains(&name)).count(), 2, "{name}");
            let line = lines.iter().find(|line| line.contains(&name)).unwrap();
            assert_eq!(line.matches(" | ").count(), 6, "{line}");
            assert!(line.contains(support.ab.unwrap_or("| – |")), "{line}");
        }
    }
}
