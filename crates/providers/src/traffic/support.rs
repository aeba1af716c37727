//! The capabilities of each provider, as data: for decisions, for refusals, and for the
//! documentation.

use std::borrow::Cow;

use tidegate_api::canary::{CanarySpec, RouteKind, Strategy, analysis::AnalysisMetric};

use super::{Affinity, Capabilities, Mesh, RoutingKind, istio};
use crate::metrics::{Builtin, Dialect};

/// The most that a provider can do; a strategy may have no use for some of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Support {
    /// The provider.
    pub mesh: Mesh,
    /// Which of its forms this is about, where it has several that differ: `TCP`. Empty for the usual one.
    pub form: &'static str,
    /// Whether live traffic can be divided by weight.
    pub weighted: bool,
    /// The conditions A/B testing can tell requests apart by; `None` where it cannot.
    pub ab: Option<&'static str>,
    /// Whether blue/green moves live traffic; otherwise the canary is only tested beside it.
    pub switched: bool,
    /// Whether requests can be copied to the canary.
    pub mirror: bool,
    /// Which users can be kept on their version.
    pub affinity: Affinity,
    /// The query language of its built-in metrics; `None` where requests are not counted.
    pub metrics: Option<Dialect>,
    /// The members of `spec.service` that shape the route, beside its name and port.
    pub fields: &'static [&'static str],
}

/// A field of a spec that its provider cannot carry out: a refusal, or a note.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {why}")]
pub struct Impossible {
    /// Path of the field.
    pub field: Cow<'static, str>,
    /// The reason, such as the capability that the provider lacks.
    pub why: String,
}

/// A field that a provider may not be able to carry out.
#[derive(Clone, Copy)]
struct Requirement {
    field: &'static str,
    /// Its last word, as users know it.
    member: &'static str,
    /// The needed capability.
    what: &'static str,
}

const MATCH: Requirement =
    Requirement { field: "spec.analysis.match", member: "match", what: "tell requests apart" };
const MIRROR: Requirement =
    Requirement { field: "spec.analysis.mirror", member: "mirror", what: "copy requests" };
const AFFINITY: Requirement = Requirement {
    field: "spec.analysis.sessionAffinity",
    member: "sessionAffinity",
    what: "keep users on a version",
};

/// The capabilities of every provider, in each form that it has.
pub fn matrix() -> Vec<Support> {
    let forms = |mesh: &Mesh| {
        let usual = mesh.support();
        let other = (*mesh == Mesh::Istio).then(|| usual.of_connections());
        [Some(usual), other].into_iter().flatten()
    };
    Mesh::ALL.iter().flat_map(forms).collect()
}

// === impl Support ===

impl Support {
    /// The provider, and which form of it.
    pub fn name(&self) -> String {
        match self.form {
            "" => self.mesh.as_str().to_owned(),
            form => format!("{} ({form})", self.mesh.as_str()),
        }
    }

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

    /// The capabilities that are left where only weights can be written.
    const fn by_weight_alone(self) -> Self {
        Self { ab: None, mirror: false, affinity: Affinity::None, ..self }
    }

    /// The capabilities that are left for connections, whose requests are not known.
    const fn of_connections(self) -> Self {
        let fields = &["hosts", "gateways", "delegation", "match", "trafficPolicy"];
        Self { form: "TCP", metrics: None, fields, ..self.by_weight_alone() }
    }
}

// === impl Mesh ===

impl Mesh {
    /// The capabilities of this provider.
    pub fn support(self) -> Support {
        let weights = Support {
            mesh: self,
            form: "",
            weighted: true,
            ab: None,
            switched: true,
            mirror: false,
            affinity: Affinity::None,
            metrics: Some(Dialect::of(self.as_str())),
            fields: self.fields(),
        };
        let gateway = Some("headers and query parameters (exact, regex)");
        let mirroring = Support { mirror: true, affinity: Affinity::Both, ..weights };
        match self {
            Self::Kubernetes => Support { weighted: false, switched: false, ..weights },
            Self::GatewayApiV1 | Self::GatewayApiV1Beta1 => Support { ab: gateway, ..mirroring },
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

    /// The same for the route of a spec, with any strategy.
    fn support_for(self, spec: &CanarySpec) -> Support {
        let best = self.support();
        match self.routing_kind(spec) {
            RoutingKind::Istio if istio::routes_connections(spec) => best.of_connections(),
            RoutingKind::None | RoutingKind::Router(_) | RoutingKind::Istio => best,
            RoutingKind::Apex => Support { switched: true, ..best },
            RoutingKind::Reference(_) => best.by_weight_alone(),
            RoutingKind::Route(version) => Support { affinity: version.affinity(), ..best },
        }
    }

    /// The members of `spec.service` that shape the route.
    const fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Kubernetes => &["switchApex"],
            Self::GatewayApiV1 | Self::GatewayApiV1Beta1 => &[
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

    /// The capabilities of this provider for a canary with this spec.
    ///
    /// Affinity is [`Affinity::None`] wherever it has no meaning for the spec: for blue/green,
    /// which has no users on two versions, for conditions, which already select users, and for
    /// calls, whose callers keep no cookies.
    pub fn capabilities(self, spec: &CanarySpec) -> Capabilities {
        let can = self.support_for(spec);
        let strategy = spec.analysis.strategy();
        // A header takes all requests that fit and a weight all others: a test has no weights here.
        let is_whole = self == Self::Nginx && strategy == Strategy::AbTesting;
        Capabilities {
            weighted: can.weighted && !is_whole,
            switched: can.switched,
            ab: can.ab.is_some(),
            mirror: can.mirror,
            affinity: match strategy {
                Strategy::Canary if spec.analysis.matches.is_empty() => can.affinity,
                Strategy::Canary | Strategy::AbTesting | Strategy::BlueGreen => Affinity::None,
            },
        }
    }

    /// Requests of the spec that this provider cannot fulfil, so that no rollout begins.
    ///
    /// These are A/B testing where requests cannot be told apart, which would send all of them to the canary;
    /// copies where none can be made; affinity where no user can be kept; an unusable route. With plain
    /// Services a version is always tested beside users, as with Flagger, and a note says so.
    pub fn impossible(self, spec: &CanarySpec) -> Vec<Impossible> {
        let mut found: Vec<_> = self.unusable_reference(spec).into_iter().collect();
        if self == Self::Kubernetes {
            return found;
        }
        let can = self.support_for(spec);
        let (analysis, can_keep) = (&spec.analysis, can.affinity != Affinity::None);
        found.extend(self.unsupported_conditions(spec));
        if analysis.mirror == Some(true) && !can.mirror {
            found.push(self.refusal(spec, MIRROR));
        }
        if analysis.session_affinity.is_some() && !can_keep {
            found.push(self.refusal(spec, AFFINITY));
        }
        found
    }

    /// Conditions that are not supported. A route that is only referred to keeps its own, so that it ignores
    /// ours in any case; elsewhere conditions beside weights are left out.
    pub(super) fn unsupported_conditions(self, spec: &CanarySpec) -> Option<Impossible> {
        let is_asked = !spec.analysis.matches.is_empty() && self != Self::Kubernetes;
        if !is_asked || self.support_for(spec).ab.is_some() {
            return None;
        }
        let is_test = spec.analysis.strategy() == Strategy::AbTesting;
        (is_test || self.refers(spec)).then(|| self.refusal(spec, MATCH))
    }

    /// A route that is referred to and that this provider cannot use. As Flagger, others than APISIX ignore
    /// an APISIX route.
    pub(super) fn unusable_reference(self, spec: &CanarySpec) -> Option<Impossible> {
        let reference = spec.route_ref.as_ref()?;
        if reference.kind == RouteKind::ApisixRoute || self.refers(spec) {
            return None;
        }
        let (kind, provider) = (reference.kind.as_str(), self.as_str());
        let why = format!("the provider \"{provider}\" has no use for a {kind}");
        Some(Impossible { field: "spec.routeRef.kind".into(), why })
    }

    /// Fields of the spec without effect. The rollout goes on without them, and a note says so.
    ///
    /// As Flagger, which leaves these out without a note: conditions beside weights where requests cannot be
    /// told apart, affinity where there are not two versions to be kept on. Fields that are
    /// [`impossible`](Self::impossible) are left out of a rollout in progress. A metric that is not counted
    /// is not left out: its checks fail, and a note gives the reason before.
    pub fn ignored(self, spec: &CanarySpec) -> Vec<Impossible> {
        let (analysis, capabilities) = (&spec.analysis, self.capabilities(spec));
        let mut found = Vec::new();
        let has_conditions = !analysis.matches.is_empty() && !capabilities.ab;
        if has_conditions && self.unsupported_conditions(spec).is_none() {
            found.push(self.note(spec, MATCH));
        }
        if analysis.mirror == Some(true) && !capabilities.mirror {
            found.push(self.note(spec, MIRROR));
        }
        if analysis.session_affinity.is_some() && capabilities.affinity == Affinity::None {
            found.push(if self.support_for(spec).affinity == Affinity::None {
                self.note(spec, AFFINITY)
            } else {
                let why = "users are kept on a version in rollouts by weight over HTTP; \
                           sessionAffinity has no effect";
                Impossible { field: AFFINITY.field.into(), why: why.to_owned() }
            });
        }
        found.extend(self.uncounted(spec));
        found
    }

    /// Built-in metrics where requests are not counted.
    fn uncounted(self, spec: &CanarySpec) -> Vec<Impossible> {
        if self.support_for(spec).metrics.is_some() || spec.skips_analysis() {
            return Vec::new();
        }
        let is_built_in = |metric: &&AnalysisMetric| Builtin::named(&metric.name).is_some();
        let metrics = spec.analysis.metrics.iter().filter(is_built_in);
        let notes = metrics.map(|AnalysisMetric { name, .. }| {
            let why = format!(
                "requests are not counted over plain TCP, so {name} never has a value and its \
                 checks fail; use a metric of another name, with a query or a template"
            );
            Impossible { field: "spec.analysis.metrics".into(), why }
        });
        notes.collect()
    }

    fn note(self, spec: &CanarySpec, wish: Requirement) -> Impossible {
        self.cannot(spec, wish, &format!("{} has no effect", wish.member))
    }

    fn refusal(self, spec: &CanarySpec, wish: Requirement) -> Impossible {
        let or = match self.routing_kind(spec) {
            RoutingKind::Reference(_) => " or routeRef",
            // Over HTTP these can do everything.
            RoutingKind::Istio | RoutingKind::Route(_) => " or appProtocol",
            RoutingKind::None | RoutingKind::Apex | RoutingKind::Router(_) => "",
        };
        self.cannot(spec, wish, &format!("remove {}{or}", wish.member))
    }

    fn cannot(self, spec: &CanarySpec, wish: Requirement, so: &str) -> Impossible {
        let (provider, Requirement { field, what, .. }) = (self.as_str(), wish);
        let way = match self.routing_kind(spec) {
            RoutingKind::Reference(_) => " over a route that is only referred to",
            RoutingKind::Istio => " over plain TCP",
            RoutingKind::Route(_) => " over gRPC",
            RoutingKind::None | RoutingKind::Apex | RoutingKind::Router(_) => "",
        };
        let there = if way.is_empty() { "it supports" } else { "there it supports" };
        let can = self.support_for(spec).can();
        let why = format!("the provider \"{provider}\" cannot {what}{way}; {there} {can}; {so}");
        Impossible { field: field.into(), why }
    }
}
