//! The names of providers, as in `spec.provider` and on the command line.

use tidegate_api::canary::Provider;

use super::{Mesh, SmiTarget, SmiVersion, UnknownProvider, kuma};
use crate::object::Kind;

/// The provider of this name, as in `spec.provider` or on the command line.
///
/// Behind the name of some there may be a mesh, after another colon, as on Flagger's command line:
/// `smi:v1alpha2:istio`. Unlike Flagger, which drives Istio objects for every name it does not know,
/// this refuses.
pub fn select(provider: &str) -> Result<Mesh, UnknownProvider> {
    let exact = Provider::ALL.iter().find(|known| known.as_str() == provider);
    let (known, target) = match exact {
        Some(known) => (Some(*known), ""),
        None => with_target(provider).map_or((None, ""), |(known, target)| (Some(known), target)),
    };
    let known = known.ok_or_else(|| UnknownProvider { provider: provider.to_owned() })?;
    Ok(Mesh::of(known, target))
}

/// A provider whose name may have a mesh behind it, and that mesh.
fn with_target(provider: &str) -> Option<(Provider, &str)> {
    let open = [
        Provider::AppMeshV1Beta2,
        Provider::Gloo,
        Provider::GatewayApiV1Beta1,
        Provider::GatewayApiV1,
        Provider::SmiV1Alpha1,
        Provider::SmiV1Alpha2,
        Provider::SmiV1Alpha3,
    ];
    let behind = |known: &Provider| provider.strip_prefix(known.as_str())?.strip_prefix(':');
    open.iter().find_map(|known| Some((*known, behind(known)?)))
}

// === impl Mesh ===

impl Mesh {
    /// Every provider.
    pub const ALL: [Self; 19] = [
        Self::Kubernetes,
        Self::GatewayApiV1,
        Self::GatewayApiV1Beta1,
        Self::Istio,
        Self::LINKERD,
        Self::OSM,
        Self::smi(SmiVersion::V1Alpha1),
        Self::smi(SmiVersion::V1Alpha2),
        Self::smi(SmiVersion::V1Alpha3),
        Self::AppMeshV1Beta1,
        Self::AppMeshV1Beta2,
        Self::Contour,
        Self::Nginx,
        Self::Skipper,
        Self::Gloo,
        Self::Traefik,
        Self::Kuma,
        Self::Apisix,
        Self::Knative,
    ];

    /// Linkerd, with the traffic splits its extension has always known.
    pub const LINKERD: Self =
        Self::Smi { version: SmiVersion::V1Alpha1, target: SmiTarget::Linkerd };
    /// Open Service Mesh.
    pub const OSM: Self = Self::Smi { version: SmiVersion::V1Alpha2, target: SmiTarget::Osm };

    const fn smi(version: SmiVersion) -> Self {
        Self::Smi { version, target: SmiTarget::Any }
    }

    fn of(provider: Provider, target: &str) -> Self {
        let target = if target == "istio" { SmiTarget::Istio } else { SmiTarget::Any };
        match provider {
            Provider::Kubernetes => Self::Kubernetes,
            Provider::GatewayApiV1 => Self::GatewayApiV1,
            Provider::GatewayApiV1Beta1 => Self::GatewayApiV1Beta1,
            Provider::Istio => Self::Istio,
            Provider::Linkerd => Self::LINKERD,
            Provider::Osm => Self::OSM,
            Provider::SmiV1Alpha1 => Self::Smi { version: SmiVersion::V1Alpha1, target },
            Provider::SmiV1Alpha2 => Self::Smi { version: SmiVersion::V1Alpha2, target },
            Provider::SmiV1Alpha3 => Self::Smi { version: SmiVersion::V1Alpha3, target },
            Provider::AppMesh => Self::AppMeshV1Beta1,
            Provider::AppMeshV1Beta2 => Self::AppMeshV1Beta2,
            Provider::Contour => Self::Contour,
            Provider::Nginx => Self::Nginx,
            Provider::Skipper => Self::Skipper,
            Provider::Gloo => Self::Gloo,
            Provider::Traefik => Self::Traefik,
            Provider::Kuma => Self::Kuma,
            Provider::Apisix => Self::Apisix,
            Provider::Knative => Self::Knative,
        }
    }

    /// The name of the provider.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Kubernetes => "kubernetes",
            Self::GatewayApiV1 => "gatewayapi:v1",
            Self::GatewayApiV1Beta1 => "gatewayapi:v1beta1",
            Self::Istio => "istio",
            Self::Smi { target: SmiTarget::Linkerd, .. } => "linkerd",
            Self::Smi { target: SmiTarget::Osm, .. } => "osm",
            Self::Smi { version: SmiVersion::V1Alpha1, .. } => "smi:v1alpha1",
            Self::Smi { version: SmiVersion::V1Alpha2, .. } => "smi:v1alpha2",
            Self::Smi { version: SmiVersion::V1Alpha3, .. } => "smi:v1alpha3",
            Self::AppMeshV1Beta1 => "appmesh",
            Self::AppMeshV1Beta2 => "appmesh:v1beta2",
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

    /// The same provider in a version of its API that the cluster serves.
    ///
    /// Linkerd and Open Service Mesh are names of meshes, not of versions: which one of the traffic
    /// splits they know depends on what is installed. A version the user named stays. Kuma has a newer
    /// policy for the same, which is taken where the older one is gone.
    #[must_use]
    pub fn served(self, serves: impl Fn(Kind) -> bool) -> Self {
        if self == Self::Kuma && kuma::is_without_traffic_route(&serves) {
            return Self::KumaHttp;
        }
        let Self::Smi { version, target: target @ (SmiTarget::Linkerd | SmiTarget::Osm) } = self
        else {
            return self;
        };
        let usual = [version].into_iter().chain(SmiVersion::ALL);
        let version = usual.into_iter().find(|it| serves(it.kind())).unwrap_or(version);
        Self::Smi { version, target }
    }
}
