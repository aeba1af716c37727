//! Matches routes to the listeners of a gateway.
//!
//! Called by the route and gateway controllers of [`super`], so that conditions and route counts
//! agree.

use serde_json::Value;

use crate::{
    cluster::{Cluster, NAMESPACES},
    controllers::object::{int, items, name, namespace, text},
    dataplane::route::host::HostPattern,
    selector::LabelSelector,
};

/// Why no listener takes a route; the reasons are those of Gateway API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// No listener has the name or port that the route asks for.
    NoMatchingParent,
    /// No listener takes routes of this kind or from this namespace.
    NotAllowedByListeners,
    /// No listener serves a host of the route.
    NoMatchingListenerHostname,
}

/// The names of the listeners of `gateway` that take `route` because of `parent`.
pub(super) fn listeners<'g>(
    cluster: &dyn Cluster,
    gateway: &'g Value,
    route: &Value,
    parent: &Value,
) -> Result<Vec<&'g str>, Refused> {
    let (section, port) = (text(parent, "/sectionName"), int(parent, "/port"));
    let mut listeners: Vec<_> = items(gateway, "/spec/listeners").iter().collect();
    let keep = |listeners: &mut Vec<&Value>, refused: Refused, is_so: &dyn Fn(&Value) -> bool| {
        listeners.retain(|listener| is_so(listener));
        if listeners.is_empty() { Err(refused) } else { Ok(()) }
    };
    keep(&mut listeners, Refused::NoMatchingParent, &|listener| {
        (section.is_empty() || text(listener, "/name") == section)
            && (port.is_none() || int(listener, "/port") == port)
    })?;
    keep(&mut listeners, Refused::NotAllowedByListeners, &|listener| {
        matches!(text(listener, "/protocol"), "HTTP" | "HTTPS")
            && takes_kind(listener, text(route, "/kind"))
            && takes_namespace(cluster, listener, gateway, route)
    })?;
    keep(&mut listeners, Refused::NoMatchingListenerHostname, &|listener| {
        shares_host(text(listener, "/hostname"), items(route, "/spec/hostnames"))
    })?;
    Ok(listeners.iter().map(|listener| text(listener, "/name")).collect())
}

/// The parents of a route that are gateways, with the namespace and name of each.
pub(super) fn gateway_parents(route: &Value) -> impl Iterator<Item = (&Value, (String, String))> {
    let parents = items(route, "/spec/parentRefs").iter();
    parents.filter(|parent| text(parent, "/kind") == "Gateway").map(|parent| {
        let place = match text(parent, "/namespace") {
            "" => namespace(route),
            place => place,
        };
        (parent, (place.to_owned(), text(parent, "/name").to_owned()))
    })
}

fn takes_kind(listener: &Value, route: &str) -> bool {
    let kinds = items(listener, "/allowedRoutes/kinds");
    kinds.is_empty() || kinds.iter().any(|kind| text(kind, "/kind") == route)
}

fn takes_namespace(
    cluster: &dyn Cluster,
    listener: &Value,
    gateway: &Value,
    route: &Value,
) -> bool {
    match text(listener, "/allowedRoutes/namespaces/from") {
        "All" => true,
        "Selector" => {
            let selector = listener.pointer("/allowedRoutes/namespaces/selector");
            let home = cluster.get(NAMESPACES, "", namespace(route));
            let selector = LabelSelector::from_json(selector);
            home.is_some_and(|home| selector.is_ok_and(|selector| selector.selects(&home)))
        }
        _ => namespace(gateway) == namespace(route),
    }
}

/// True if a listener and a route share a host. One without a host accepts all.
fn shares_host(listener: &str, route: &[Value]) -> bool {
    if listener.is_empty() || route.is_empty() {
        return true;
    }
    let listener = HostPattern::parse(listener);
    route.iter().filter_map(Value::as_str).any(|host| {
        let host = HostPattern::parse(host);
        match (&listener, &host) {
            (_, HostPattern::Exact(name)) => listener.covers(name),
            (HostPattern::Exact(name), _) => host.covers(name),
            (HostPattern::Suffix(one), HostPattern::Suffix(other)) => {
                one.ends_with(other.as_str()) || other.ends_with(one.as_str())
            }
            (HostPattern::Any, _) | (_, HostPattern::Any) => true,
        }
    })
}

/// True if a parent of `route` refers to `gateway`.
pub(super) fn refers_to(route: &Value, gateway: &Value) -> bool {
    let key = (namespace(gateway).to_owned(), name(gateway).to_owned());
    gateway_parents(route).any(|(_, parent)| parent == key)
}

// === impl Refused ===

impl Refused {
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::NoMatchingParent => "NoMatchingParent",
            Self::NotAllowedByListeners => "NotAllowedByListeners",
            Self::NoMatchingListenerHostname => "NoMatchingListenerHostname",
        }
    }

    pub(super) fn message(self) -> &'static str {
        match self {
            Self::NoMatchingParent => "The gateway has no listener of this name and port",
            Self::NotAllowedByListeners => "No listener allows routes of this kind and namespace",
            Self::NoMatchingListenerHostname => "No listener serves any host of this route",
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn hosts_are_shared_when_one_name_fits_both() {
        let cases = [
            ("", json!(["a.com"]), true),
            ("a.com", json!([]), true),
            ("a.com", json!(["a.com"]), true),
            ("a.com", json!(["b.com"]), false),
            ("*.a.com", json!(["x.a.com"]), true),
            ("*.a.com", json!(["a.com"]), false),
            ("x.a.com", json!(["*.a.com"]), true),
            ("*.x.a.com", json!(["*.a.com"]), true),
            ("*.a.com", json!(["*.b.com"]), false),
            ("*.a.com", json!(["b.com", "x.a.com"]), true),
        ];
        for (listener, route, want) in cases {
            let hosts = route.as_array().unwrap();
            assert_eq!(shares_host(listener, hosts), want, "{listener} {route}");
        }
    }
}
