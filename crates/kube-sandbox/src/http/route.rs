//! Parses method and path into the verb and resource of a request.
//!
//! The first step of every HTTP request. Pure: the resource need not exist.

use http::Method;
use percent_encoding::percent_decode_str;

use crate::{
    field_selector::FieldSelector,
    names,
    request::{RequestInfo, Verb},
    server::options::Query,
};

/// A parsed path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Route {
    /// `/api`, `/apis`, `/version`, `/healthz`, ...
    Other,
    /// `/api/v1`, `/apis/apps`, `/apis/apps/v1`
    Discovery {
        group: String,
        version: Option<String>,
    },
    Resource(Box<RequestInfo>),
}

/// Parses method and path. `None` for an impossible path.
///
/// A `HEAD` is routed like a `GET`, because it needs the same permission.
pub(super) fn route(method: &Method, path: &str, query: &Query) -> Option<Route> {
    let segments: Vec<String> = path
        .split('/')
        .filter(|segment| !segment.is_empty())
        .map(|segment| percent_decode_str(segment).decode_utf8_lossy().into_owned())
        .collect();
    let parts: Vec<&str> = segments.iter().map(String::as_str).collect();
    let (group, version, rest) = match parts.as_slice() {
        ["api", version, rest @ ..] => ("", *version, rest),
        ["apis", group] => {
            return Some(Route::Discovery { group: (*group).to_owned(), version: None });
        }
        ["apis", group, version, rest @ ..] => (*group, *version, rest),
        _ => return Some(Route::Other),
    };
    if rest.is_empty() {
        let version = Some(version.to_owned());
        return Some(Route::Discovery { group: group.to_owned(), version });
    }
    // The deprecated form of a watch: `/api/v1/watch/namespaces/a/pods`.
    let (rest, is_watch) = match rest {
        ["watch", rest @ ..] if !rest.is_empty() => (rest, true),
        rest => (rest, false),
    };
    let mut target = address(rest)?;
    group.clone_into(&mut target.group);
    version.clone_into(&mut target.version);
    target.verb = if is_watch { Verb::Watch } else { verb(method, &target, query) };
    if target.name.is_empty() && matches!(target.verb, Verb::List | Verb::Watch) {
        // A user who may read only that one object may list it, too.
        target.name = selected_name(query).unwrap_or_default();
    }
    path.clone_into(&mut target.path);
    Some(Route::Resource(Box::new(target)))
}

fn address(rest: &[&str]) -> Option<RequestInfo> {
    let of = |namespace: &str, resource: &str, name: &str, subresource: &str| {
        Some(RequestInfo {
            namespace: namespace.to_owned(),
            resource: resource.to_owned(),
            name: name.to_owned(),
            subresource: subresource.to_owned(),
            ..RequestInfo::default()
        })
    };
    match rest {
        // A namespace is addressed like a cluster-scoped object; its own name is its namespace.
        ["namespaces"] => of("", "namespaces", "", ""),
        ["namespaces", name] => of(name, "namespaces", name, ""),
        ["namespaces", name, sub @ ("status" | "finalize")] => of(name, "namespaces", name, sub),
        ["namespaces", namespace, resource] => of(namespace, resource, "", ""),
        ["namespaces", namespace, resource, name] => of(namespace, resource, name, ""),
        ["namespaces", namespace, resource, name, sub] => of(namespace, resource, name, sub),
        [resource] => of("", resource, "", ""),
        [resource, name] => of("", resource, name, ""),
        [resource, name, sub] => of("", resource, name, sub),
        _ => None,
    }
}

fn verb(method: &Method, target: &RequestInfo, query: &Query) -> Verb {
    let named = !target.name.is_empty();
    match *method {
        Method::POST => Verb::Create,
        Method::PUT => Verb::Update,
        Method::PATCH => Verb::Patch,
        Method::DELETE if named => Verb::Delete,
        Method::DELETE => Verb::DeleteCollection,
        // `GET` and `HEAD`; other methods are refused after authentication.
        _ if named => Verb::Get,
        _ if query.flag("watch") => Verb::Watch,
        _ => Verb::List,
    }
}

/// The name that a field selector requires.
fn selected_name(query: &Query) -> Option<String> {
    let selector = FieldSelector::parse(query.get("fieldSelector")).ok()?;
    let name = selector.exact("metadata.name")?;
    names::path_segment_name(name).is_empty().then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(method: &Method, path: &str, query: &str) -> RequestInfo {
        match route(method, path, &Query::parse(query)) {
            Some(Route::Resource(target)) => *target,
            other => panic!("{path} is no resource: {other:?}"),
        }
    }

    #[test]
    fn paths_name_verb_resource_and_object() {
        let cases = [
            (Method::GET, "/api/v1/pods", "", "list||v1|pods|||"),
            (Method::GET, "/api/v1/pods", "watch=1", "watch||v1|pods|||"),
            (Method::GET, "/api/v1/pods", "fieldSelector=metadata.name%3Db", "list||v1|pods|||b"),
            (Method::GET, "/api/v1/namespaces/a/pods/b", "watch=1", "get||v1|pods||a|b"),
            (Method::GET, "/api/v1/watch/namespaces/a/pods/b", "", "watch||v1|pods||a|b"),
            (Method::GET, "/api/v1/namespaces/a", "", "get||v1|namespaces||a|a"),
            (
                Method::PUT,
                "/api/v1/namespaces/a/finalize",
                "",
                "update||v1|namespaces|finalize|a|a",
            ),
            (Method::DELETE, "/api/v1/namespaces/a/pods", "", "deletecollection||v1|pods||a|"),
            (
                Method::PATCH,
                "/apis/apps/v1/namespaces/a/deployments/b/scale",
                "",
                "patch|apps|v1|deployments|scale|a|b",
            ),
            (
                Method::GET,
                "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode",
                "",
                "get|rbac.authorization.k8s.io|v1|clusterroles|||system:node",
            ),
        ];
        for (method, path, query, want) in cases {
            let t = ask(&method, path, query);
            let parts = [
                t.verb.as_str(),
                &t.group,
                &t.version,
                &t.resource,
                &t.subresource,
                &t.namespace,
                &t.name,
            ];
            assert_eq!(parts.join("|"), want, "{path}");
        }
    }

    #[test]
    fn a_path_too_long_is_not_found() {
        assert_eq!(
            route(&Method::GET, "/api/v1/namespaces/a/pods/b/log/x", &Query::parse("")),
            None
        );
        assert_eq!(
            route(&Method::GET, "/apis/apps", &Query::parse("")),
            Some(Route::Discovery { group: "apps".into(), version: None })
        );
    }
}
