//! What each provider can do, as data: for decisions, for refusals, and for the documentation.

use tidegate_api::canary::{CanarySpec, Strategy};

use super::{Affinity, Capabilities, Mesh, Road, istio};

/// What a provider can do at its best; a spec may leave it less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Support {
    /// The provider.
    pub mesh: Mesh,
    /// Whether live traffic can be divided by weight.
    pub weighted: bool,
    /// What A/B testing can tell requests apart by; `None` where it cannot.
    pub ab: Option<&'static str>,
    /// Whether blue/green moves live traffic; otherwise the canary is only tested beside it.
    pub switched: bool,
    /// Whether requests can be copied to the canary.
    pub mirror: bool,
    /// Which users can be kept on their version.
    pub affinity: Affinity,
    /// The members of `spec.service` that shape the route, beside its name and port.
    pub fields: &'static [&'static str],
}

/// Something a spec asks for that its provider cannot do: a refusal, or a note.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {why}")]
pub struct Impossible {
    /// Path of the field.
    pub field: &'static str,
    /// What the provider cannot do, and what it can.
    pub why: String,
}

/// What every provider can do.
pub fn matrix() -> Vec<Support> {
    Mesh::ALL.iter().map(|mesh| mesh.support()).collect()
}

// === impl Support ===

impl Support {
    /// In words, for a refusal.
    fn can(&self) -> String {
        let mut can = Vec::new();
        if self.weighted {
            can.push("rollouts by weight".to_owned());
        }
        if let Some(by) = self.ab {
            can.push(format!("A/B testing by {by}"));
        }
        can.push("blue/green".to_owned());
        if self.mirror {
            can.push("mirroring".to_owned());
        }
        if self.affinity != Affinity::None {
            can.push("session affinity".to_owned());
        }
        let last = can.pop().unwrap_or_default();
        if can.is_empty() { last } else { format!("{} and {last}", can.join(", ")) }
    }

    /// What is left of it for a spec.
    fn for_spec(&self, spec: &CanarySpec) -> Capabilities {
        let strategy = spec.analysis.strategy();
        // A header takes all of who fits and a weight all others: a test has no weights here.
        let is_whole = self.mesh == Mesh::Nginx && strategy == Strategy::AbTesting;
        Capabilities {
            weighted: self.weighted && !is_whole,
            switched: self.switched,
            ab: self.ab.is_some(),
            mirror: self.mirror,
            affinity: Affinity::None,
        }
    }
}

// === impl Mesh ===

impl Mesh {
    /// What this provider can do.
    pub fn support(self) -> Support {
        let weights = Support {
            mesh: self,
            weighted: true,
            ab: None,
            switched: true,
            mirror: false,
            affinity: Affinity::None,
            fields: self.fields(),
        };
        let gateway = Some("headers and query parameters (exact, regex)");
        let mirroring = Support { mirror: true, affinity: Affinity::Both, ..weights };
        match self {
            Self::Kubernetes => Support { weighted: false, switched: false, ..weights },
            Self::GatewayApiV1 => Support { ab: gateway, ..mirroring },
            Self::GatewayApiV1Beta1 => {
                Support { ab: gateway, affinity: Affinity::Canary, ..mirroring }
            }
            Self::Istio => Support {
                ab: Some("headers, query parameters and labels of the caller"),
                ..mirroring
            },
            Self::AppMeshV1Beta1 | Self::AppMeshV1Beta2 | Self::Gloo => {
                Support { ab: Some("headers (exact, prefix, suffix, regex)"), ..weights }
            }
            Self::Contour => {
                Support { ab: Some("headers (exact; prefix and suffix as contains)"), ..weights }
            }
            Self::Nginx => {
                Support { ab: Some("one header (exact, regex) and one cookie"), ..weights }
            }
            Self::Smi { .. }
            | Self::Skipper
            | Self::Traefik
            | Self::Kuma
            | Self::KumaHttp
            | Self::Apisix
            | Self::Knative => weights,
        }
    }

    /// The members of `spec.service` that shape the route.
    const fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Kubernetes => &["switchApex"],
            Self::GatewayApiV1 => &[
                "gatewayRefs",
                "hosts",
                "match",
                "timeout",
                "backendTimeout",
                "retries",
                "rewrite",
                "headers",
                "mirror",
                "corsPolicy",
            ],
            Self::GatewayApiV1Beta1 => {
                &["gatewayRefs", "hosts", "match", "rewrite", "headers", "mirror"]
            }
            Self::Istio => &[
                "hosts",
                "gateways",
                "delegation",
                "match",
                "timeout",
                "retries",
                "rewrite",
                "headers",
                "corsPolicy",
                "trafficPolicy",
            ],
            Self::Smi { .. } => &["hosts"],
            Self::AppMeshV1Beta1 => {
                &["meshName", "backends", "hosts", "match", "timeout", "retries"]
            }
            Self::AppMeshV1Beta2 => &["backends", "hosts", "match", "timeout", "retries"],
            Self::Contour => &["match", "timeout", "retries"],
            Self::Gloo => &["timeout", "retries"],
            Self::Nginx
            | Self::Skipper
            | Self::Traefik
            | Self::Kuma
            | Self::KumaHttp
            | Self::Apisix
            | Self::Knative => &[],
        }
    }

    /// What can be done for a canary with this spec.
    ///
    /// Affinity is [`Affinity::None`] wherever it has no meaning for the spec: for blue/green,
    /// which has no users on two versions, for conditions, which already say who goes where, and
    /// for calls, whose callers keep no cookies.
    pub fn capabilities(self, spec: &CanarySpec) -> Capabilities {
        let affinity = |widest: Affinity| match spec.analysis.strategy() {
            Strategy::Canary if spec.analysis.matches.is_empty() => widest,
            Strategy::Canary | Strategy::AbTesting | Strategy::BlueGreen => Affinity::None,
        };
        let none = Capabilities {
            weighted: false,
            switched: false,
            ab: false,
            mirror: false,
            affinity: Affinity::None,
        };
        let weights = Capabilities { weighted: true, switched: true, ..none };
        let requests = |widest: Affinity| Capabilities {
            ab: true,
            mirror: true,
            affinity: affinity(widest),
            ..weights
        };
        match self.road(spec) {
            Road::None => none,
            Road::Apex => Capabilities { switched: true, ..none },
            Road::Reference(_) => weights,
            Road::Route(version) => requests(version.affinity()),
            Road::Istio if istio::routes_connections(spec) => weights,
            Road::Istio => requests(self.support().affinity),
            Road::By(_) => self.support().for_spec(spec),
        }
    }

    /// What the spec asks for and cannot be had from this provider, so that nothing is begun.
    ///
    /// That is A/B testing where requests cannot be told apart: all of them would go to the canary. A
    /// route that is only referred to keeps its conditions, so that it has no use for ours in any case.
    pub fn impossible(self, spec: &CanarySpec) -> Vec<Impossible> {
        if spec.analysis.matches.is_empty() || self.capabilities(spec).ab {
            return Vec::new();
        }
        let is_test = spec.analysis.strategy() == Strategy::AbTesting;
        let why = match self.road(spec) {
            Road::Reference(_) => "a route that is only referred to keeps its own conditions; \
                                   remove match or routeRef"
                .to_owned(),
            Road::Istio if is_test => {
                "requests cannot be told apart on plain TCP; remove match or appProtocol".to_owned()
            }
            Road::By(_) if is_test => self.cannot("tell requests apart", "remove match"),
            Road::None | Road::Apex | Road::Route(_) | Road::Istio | Road::By(_) => {
                return Vec::new();
            }
        };
        vec![Impossible { field: "spec.analysis.match", why }]
    }

    /// What the spec asks for in vain. The rollout goes on without, and the user is told.
    ///
    /// As Flagger, which leaves these out and does not tell: conditions beside weights where requests
    /// cannot be told apart, copies where none can be made, affinity where nobody can be kept.
    pub fn ignored(self, spec: &CanarySpec) -> Vec<Impossible> {
        let (analysis, capabilities) = (&spec.analysis, self.capabilities(spec));
        let mut found = Vec::new();
        let mut note = |field, why| found.push(Impossible { field, why });
        let has_conditions = !analysis.matches.is_empty() && !capabilities.ab;
        if has_conditions && self.impossible(spec).is_empty() {
            let why = self.cannot("tell requests apart", "match has no effect");
            note("spec.analysis.match", why);
        }
        if analysis.mirror == Some(true) && !capabilities.mirror {
            let why = self.cannot("copy requests", "mirror has no effect");
            note("spec.analysis.mirror", why);
        }
        if analysis.session_affinity.is_some() && capabilities.affinity == Affinity::None {
            let why = if self.support().affinity == Affinity::None {
                self.cannot("keep users on a version", "sessionAffinity has no effect")
            } else {
                "users are kept on a version in rollouts by weight over HTTP; sessionAffinity has no \
                 effect"
                    .to_owned()
            };
            note("spec.analysis.sessionAffinity", why);
        }
        found
    }

    fn cannot(self, what: &str, so: &str) -> String {
        let (provider, can) = (self.as_str(), self.support().can());
        format!("the provider \"{provider}\" cannot {what}; it supports {can}; {so}")
    }
}
