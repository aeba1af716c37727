//! Names of other namespaces in a canary for Istio, and whether it may use them.
//!
//! A virtual service routes requests of the whole mesh to its hosts, whichever namespace it is in. The author of
//! a Canary may not be allowed to write one, so the administrator can bound the names. Public names are not
//! bounded: their owners are not known here.

use std::collections::BTreeSet;

use tidegate_api::canary::{CanarySpec, service::Service};

use super::INSIDE;
use crate::traffic::{Mesh, SmiTarget};

/// Domains of Services besides the cluster's own: Istio's default, and that of Services of several clusters.
const DOMAINS: [&str; 2] = ["cluster.local", "clusterset.local"];

/// The bounds that the administrator sets, and the facts to judge names by.
#[derive(Clone, Copy)]
pub struct OtherNamespaces<'a> {
    /// The canary's own namespace.
    pub own: &'a str,
    /// Whether hosts of other namespaces are refused.
    pub refuses_hosts: bool,
    /// The gateways of other namespaces that may be used, as `namespace/name`; if empty, any.
    pub shared_gateways: &'a [String],
    /// The domain of the cluster's names.
    pub domain: &'a str,
    /// The names of all Services of a namespace; `None` if they are not watched.
    pub services: &'a dyn Fn(&str) -> Option<BTreeSet<String>>,
}

/// A host that is refused.
#[derive(Debug, PartialEq, Eq)]
enum Foreign<'h> {
    /// Names a Service of this namespace.
    Named(&'h str),
    /// May name one of this namespace, which is not watched.
    Hidden(&'h str),
    /// A wildcard that covers Services of other namespaces.
    Covers,
}

/// Why hosts of a virtual service are refused.
fn foreign_hosts(service: &Service, others: &OtherNamespaces<'_>) -> Vec<String> {
    if !others.refuses_hosts {
        return Vec::new();
    }
    let is_inside =
        service.gateways.is_empty() || service.gateways.iter().any(|gateway| gateway == INSIDE);
    let hosts = service.hosts.iter().enumerate();
    let refused = hosts.filter_map(|(index, host)| {
        let name = host.trim_end_matches('.').to_ascii_lowercase();
        let foreign = others.judge(&name, is_inside)?;
        Some(format!("spec.service.hosts[{index}]: {}", foreign.refusal(host)))
    });
    refused.collect()
}

/// Why gateways are refused.
fn foreign_gateways(service: &Service, others: &OtherNamespaces<'_>) -> Vec<String> {
    let shared = others.shared_gateways;
    let is_refused = |gateway: &String| {
        let (namespace, name) = gateway_of(gateway, others.own);
        let is_own = gateway == INSIDE || namespace == others.own;
        let is_shared = shared.iter().any(|it| it.split_once('/') == Some((namespace, name)));
        !(shared.is_empty() || is_own || is_shared)
    };
    let listed = service.gateways.iter().enumerate();
    let refused = listed.filter(|(_, gateway)| is_refused(gateway)).map(|(index, gateway)| {
        let shared = shared.join(", ");
        format!(
            "spec.service.gateways[{index}]: {gateway:?} is of another namespace; this operator shares {shared}, \
             as --shared-gateways says"
        )
    });
    refused.collect()
}

/// Namespace and name of the Service that a host of two labels may be: `name.namespace`.
fn short_service(host: &str) -> Option<(&str, &str)> {
    let (name, namespace) = host.trim_end_matches('.').split_once('.')?;
    let is_short = !namespace.contains('.') && !name.contains('*');
    is_short.then_some((namespace, name))
}

/// Namespace and name of a gateway: `namespace/name`, `name`, or one of the older `name.namespace` and
/// `name.namespace.svc.cluster.local`.
fn gateway_of<'a>(gateway: &'a str, own: &'a str) -> (&'a str, &'a str) {
    match (gateway.split_once('/'), gateway.split_once('.')) {
        (Some((".", name)), _) => (own, name),
        (Some(found), _) => found,
        (None, Some((name, rest))) => (rest.split('.').next().unwrap_or_default(), name),
        (None, None) => (own, gateway),
    }
}

// === impl Mesh ===

impl Mesh {
    /// Names of other namespaces that the spec may not have, each with its field and the reason.
    pub fn refused_names(self, spec: &CanarySpec, others: &OtherNamespaces<'_>) -> Vec<String> {
        let Some(service) = &spec.service else { return Vec::new() };
        match self {
            Self::Istio => {
                [foreign_hosts(service, others), foreign_gateways(service, others)].concat()
            }
            // Its adapter makes a virtual service for these gateways.
            Self::Smi { target: SmiTarget::Istio, .. } => foreign_gateways(service, others),
            _ => Vec::new(),
        }
    }

    /// Namespace and name of each Service whose existence decides whether a host is refused.
    pub fn services_by_host<'h>(
        self,
        hosts: impl Iterator<Item = &'h str>,
    ) -> impl Iterator<Item = (&'h str, &'h str)> {
        hosts.filter(move |_| self == Self::Istio).filter_map(short_service)
    }
}

// === impl OtherNamespaces ===

impl OtherNamespaces<'_> {
    /// `is_inside`: the host is for requests inside the mesh too.
    fn judge<'h>(&self, host: &'h str, is_inside: bool) -> Option<Foreign<'h>> {
        let (suffix, is_wildcard) = match host.strip_prefix('*') {
            Some(suffix) => (suffix, true),
            None => (host, false),
        };
        if let Some(qualified) = self.qualified(suffix) {
            return match qualified.rsplit_once('.') {
                Some((_, namespace)) if namespace == self.own => None,
                Some((_, namespace)) => Some(Foreign::Named(namespace)),
                None => (is_wildcard && is_inside).then_some(Foreign::Covers),
            };
        }
        if is_wildcard {
            return if is_inside { self.judge_wildcard(suffix) } else { None };
        }
        let (namespace, name) = short_service(host).filter(|(it, _)| *it != self.own)?;
        match (self.services)(namespace) {
            Some(names) => names.contains(name).then_some(Foreign::Named(namespace)),
            None => is_inside.then_some(Foreign::Hidden(namespace)),
        }
    }

    /// A wildcard that names no namespace in full, for requests inside the mesh.
    fn judge_wildcard<'h>(&self, suffix: &'h str) -> Option<Foreign<'h>> {
        if self.domains().any(|domain| domain.ends_with(suffix)) {
            return Some(Foreign::Covers);
        }
        // Hosts of the form `name.namespace` that end in it.
        let Some((ending, namespace)) = suffix.split_once('.') else {
            return Some(Foreign::Covers);
        };
        if namespace.contains('.') || namespace == self.own {
            return None;
        }
        match (self.services)(namespace) {
            Some(names) => {
                let is_covered = names.iter().any(|name| name.ends_with(ending));
                is_covered.then_some(Foreign::Named(namespace))
            }
            None => Some(Foreign::Hidden(namespace)),
        }
    }

    /// The part before the domain of Services, if the host has one: `name.namespace`.
    fn qualified<'h>(&self, host: &'h str) -> Option<&'h str> {
        self.domains().find_map(|domain| host.strip_suffix(&*domain))
    }

    /// The ends of full names of Services.
    fn domains(&self) -> impl Iterator<Item = String> {
        let domains = DOMAINS.into_iter().chain([self.domain]);
        let full = domains.map(|domain| format!(".svc.{domain}"));
        full.chain([".svc".to_owned()])
    }
}

// === impl Foreign ===

impl Foreign<'_> {
    fn refusal(&self, host: &str) -> String {
        match self {
            Self::Named(namespace) => format!(
                "{host:?} is of the namespace {namespace:?}, and references to others are off; \
                 --no-cross-namespace-refs=false allows them"
            ),
            Self::Hidden(namespace) => format!(
                "{host:?} may be a Service of the namespace {namespace:?}, which --namespace hides; leave it or \
                 the gateway \"mesh\" out"
            ),
            Self::Covers => format!(
                "{host:?} covers Services of other namespaces; leave it or the gateway \"mesh\" out, or set \
                 --no-cross-namespace-refs=false"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Why `team-a` may not have this host.
    fn refusal(host: &str, gateways: &[&str], is_watched: bool) -> Option<String> {
        let service = json!({ "port": 80, "hosts": [host], "gateways": gateways });
        let service: Service = serde_json::from_value(service).unwrap();
        let services = |namespace: &str| {
            let names = match namespace {
                "team-a" | "team-b" => vec!["web".to_owned(), "shop-api".to_owned()],
                _ => Vec::new(),
            };
            is_watched.then(|| names.into_iter().collect())
        };
        let others = OtherNamespaces {
            own: "team-a",
            refuses_hosts: true,
            shared_gateways: &[],
            domain: "corp.internal",
            services: &services,
        };
        let found = foreign_hosts(&service, &others);
        let off = OtherNamespaces { refuses_hosts: false, ..others };
        assert_eq!(foreign_hosts(&service, &off), Vec::<String>::new(), "without the flag");
        assert!(found.iter().all(|it| it.starts_with("spec.service.hosts[0]: ")), "{found:?}");
        found.into_iter().next()
    }

    const NOWHERE: &[&str] = &[];
    const MESH: &[&str] = &["mesh"];
    const BOTH: &[&str] = &["istio-system/public-gateway", "mesh"];
    const GATEWAY: &[&str] = &["istio-system/public-gateway"];

    #[test]
    fn names_of_other_namespaces_are_refused_everywhere() {
        let hosts = [
            "web.team-b.svc.cluster.local",
            "web.team-b.svc.cluster.local.",
            "WEB.Team-B.svc.Cluster.local",
            "web.team-b.svc.corp.internal",
            "web.team-b.svc.clusterset.local",
            "web.team-b.svc",
            "web-0.web.team-b.svc.cluster.local",
            "*.team-b.svc.cluster.local",
            "*.web.team-b.svc",
            "*-api.team-b.svc",
            "web.team-b",
            "not-there.team-b.svc",
        ];
        for host in hosts {
            for gateways in [NOWHERE, MESH, BOTH, GATEWAY] {
                let why = refusal(host, gateways, true).unwrap_or_default();
                assert!(why.contains("the namespace \"team-b\""), "{host} at {gateways:?}: {why}");
                assert!(why.split_whitespace().count() < 25, "{why}");
            }
        }
    }

    #[test]
    fn wildcards_are_refused_inside_the_mesh_if_they_cover_services_of_others() {
        let hosts = [
            "*",
            "*.svc.cluster.local",
            "*.svc",
            "*.cluster.local",
            "*.local",
            "*ocal",
            "*.internal",
            "*b.svc.cluster.local",
            "*.team-b",
            "*-api.team-b",
            "*m-b",
        ];
        for host in hosts {
            for gateways in [NOWHERE, MESH, BOTH] {
                let why = refusal(host, gateways, true).unwrap_or_default();
                assert!(why.contains("namespace"), "{host} at {gateways:?}: {why}");
                assert!(why.split_whitespace().count() < 25, "{why}");
            }
            assert_eq!(refusal(host, GATEWAY, true), None, "{host} at a gateway");
        }
    }

    #[test]
    fn own_and_public_names_stay() {
        let hosts = [
            "web",
            "web.team-a",
            "web.team-a.svc",
            "web.team-a.svc.cluster.local",
            "*.team-a.svc.cluster.local",
            "*.team-a",
            "app.example.com",
            "example.com",
            "nothing.team-b",
            "*.example.com",
            "*.com",
            "*-nothing.team-b",
            "api.team-b.svc.example.com",
            "svc",
            "svc.cluster.local",
            "team-b.svc.cluster.local",
            "",
        ];
        for host in hosts {
            for gateways in [NOWHERE, MESH, BOTH, GATEWAY] {
                assert_eq!(refusal(host, gateways, true), None, "{host} at {gateways:?}");
            }
        }
    }

    #[test]
    fn short_names_of_namespaces_that_are_not_watched_are_refused_inside_the_mesh_alone() {
        for host in ["web.team-b", "example.com", "*.team-b"] {
            let why = refusal(host, BOTH, false).unwrap_or_default();
            assert!(why.contains("which --namespace hides"), "{host}: {why}");
            assert!(why.split_whitespace().count() < 25, "{why}");
            assert_eq!(refusal(host, GATEWAY, false), None, "{host}");
        }
        for host in ["web", "web.team-a", "app.example.com"] {
            assert_eq!(refusal(host, BOTH, false), None, "{host}");
        }
        assert!(refusal("web.team-b.svc", GATEWAY, false).is_some());
    }

    #[test]
    fn gateways_of_other_namespaces_are_those_that_are_shared_or_any() {
        let refused = |gateway: &str, shared: &[&str]| {
            let service: Service =
                serde_json::from_value(json!({ "port": 80, "gateways": ["mesh", gateway] }))
                    .unwrap();
            let shared: Vec<_> = shared.iter().map(|&it| it.to_owned()).collect();
            let others = OtherNamespaces {
                own: "team-a",
                refuses_hosts: true,
                shared_gateways: &shared,
                domain: "cluster.local",
                services: &|_| None,
            };
            let found = foreign_gateways(&service, &others);
            assert!(
                found.iter().all(|it| it.starts_with("spec.service.gateways[1]: ")),
                "{found:?}"
            );
            assert!(found.iter().all(|it| it.split_whitespace().count() < 25), "{found:?}");
            !found.is_empty()
        };
        let shared = ["istio-system/public-gateway", "edge/inner"];
        let good = [
            "mesh",
            "own",
            "./own",
            "team-a/own",
            "own.team-a.svc.cluster.local",
            "istio-system/public-gateway",
            "public-gateway.istio-system",
            "public-gateway.istio-system.svc.cluster.local",
            "edge/inner",
        ];
        for gateway in good {
            assert!(!refused(gateway, &shared), "{gateway}");
        }
        for gateway in ["istio-system/other", "inner.istio-system", "team-b/own", "own.team-b.svc"]
        {
            assert!(refused(gateway, &shared), "{gateway}");
            assert!(!refused(gateway, &[]), "{gateway}: any may be used");
        }
    }
}
