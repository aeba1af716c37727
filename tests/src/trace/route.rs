//! The split in a routing object, first by its bare numbers, then as the operator reads it.

use kube_sandbox::cluster::Resource;
use serde_json::Value;
use tidegate_api::canary::{Canary, ServiceNames};
use tidegate_engine::Split;
use tidegate_providers::{
    object::{Kind, Live, Owner},
    traffic::{Cookies, IngressOptions, Mesh, RouteCx, RouteFields},
};

use super::{Objects, table_of};

/// The weights of primary and canary in the first list where they do not add up, for any kind of route: a
/// member with a weight leads to the Service it mentions.
pub(super) fn wrong(route: &Value, names: &ServiceNames) -> Option<(i64, i64)> {
    let settings = settings(route).and_then(Value::as_object);
    let texts = settings.into_iter().flat_map(|map| map.values()).filter_map(Value::as_str);
    let parsed = texts.filter_map(|text| serde_json::from_str::<Value>(text).ok());
    let of_settings = parsed.map(|map| (map[&names.primary].as_i64(), map[&names.canary].as_i64()));
    let of_settings = of_settings.filter_map(|(primary, canary)| primary.zip(canary));
    of_settings.chain(weights(&route["spec"], names)).find(|(primary, canary)| {
        let is_whole = primary + canary == 100 && (0..=100).contains(primary);
        !is_whole
    })
}

/// The weights of both in every list that has them.
fn weights(part: &Value, names: &ServiceNames) -> Vec<(i64, i64)> {
    let inner = |values: &mut dyn Iterator<Item = &Value>| {
        values.flat_map(|value| weights(value, names)).collect::<Vec<_>>()
    };
    match part {
        Value::Object(map) => inner(&mut map.values()),
        Value::Array(members) => {
            let of = |name: &str| {
                let mut found = members.iter().filter(|member| mentions(member, name));
                found.find_map(|member| number(&member["weight"]))
            };
            let here = of(&names.primary).zip(of(&names.canary));
            here.into_iter().chain(inner(&mut members.iter())).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}

/// A weight, which some kinds have as a text.
fn number(weight: &Value) -> Option<i64> {
    weight.as_i64().or_else(|| weight.as_str()?.parse().ok())
}

fn mentions(part: &Value, name: &str) -> bool {
    match part {
        Value::Object(map) => map.values().any(|value| mentions(value, name)),
        Value::Array(members) => members.iter().any(|value| mentions(value, name)),
        Value::String(text) => text.contains(name),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// The annotations of an Ingress, which divide its traffic.
pub(super) fn settings(route: &Value) -> Option<&Value> {
    (route["kind"] == "Ingress").then(|| &route["metadata"]["annotations"])
}

/// The field that divides traffic; its last writer divided it.
pub(super) fn divided(table: Resource, route: &Value) -> &'static [&'static str] {
    match (table.group, table.plural) {
        ("networking.istio.io", _) if route["spec"]["tcp"].is_array() => &["spec", "tcp"],
        ("networking.istio.io" | "apisix.apache.org", _) => &["spec", "http"],
        ("networking.k8s.io", _) => &["metadata", "annotations"],
        ("split.smi-spec.io", _) => &["spec", "backends"],
        ("traefik.io", _) => &["spec", "weighted"],
        ("serving.knative.dev", _) => &["spec", "traffic"],
        ("kuma.io", "trafficroutes") => &["spec", "conf"],
        ("kuma.io", _) => &["spec", "to"],
        ("gateway.networking.k8s.io", _) => &["spec", "rules"],
        _ => &["spec", "routes"],
    }
}

/// The objects of a canary's route: table, namespace and name.
pub(super) fn places(
    canary: &Canary,
    mesh: Mesh,
    objects: &Objects,
    namespace: &str,
) -> Vec<(Resource, String, String)> {
    let names = in_case_of(canary, namespace, |cx| served(mesh, objects).names(cx));
    let place = |(kind, name): (Kind, String)| (table_of(&kind), home(kind, namespace), name);
    names.into_iter().map(place).collect()
}

/// The split of live traffic.
pub(super) fn split(
    canary: &Canary,
    mesh: Mesh,
    objects: &Objects,
    namespace: &str,
) -> Option<Split> {
    let mesh = served(mesh, objects);
    in_case_of(canary, namespace, |cx| {
        let mut live = Live::default();
        for (kind, name) in mesh.names(cx) {
            let found = objects.get(table_of(&kind), &home(kind, namespace), &name);
            if let Some(mut object) = found.cloned() {
                // A route counts as written before the gateway has accepted it.
                if let Some(object) = object.as_object_mut() {
                    object.remove("status");
                }
                live.insert(kind, object);
            }
        }
        mesh.read(cx, &live).ok()
    })
}

/// The form of the provider that the cluster serves, as far as objects tell.
fn served(mesh: Mesh, objects: &Objects) -> Mesh {
    mesh.served(|kind| objects.has(table_of(&kind)))
}

fn home(kind: Kind, namespace: &str) -> String {
    if kind.is_namespaced() { namespace.to_owned() } else { String::new() }
}

/// With the context of a router.
fn in_case_of<T>(canary: &Canary, namespace: &str, f: impl FnOnce(&RouteCx<'_>) -> T) -> T {
    let status = canary.status.clone().unwrap_or_default();
    let cookies = Cookies {
        canary: status.session_affinity_cookie.filter(|text| !text.is_empty()),
        previous: status.previous_session_affinity_cookie.filter(|text| !text.is_empty()),
        primary: status.primary_session_affinity_cookie.filter(|text| !text.is_empty()),
    };
    let annotations = canary.metadata.annotations.clone().unwrap_or_default();
    f(&RouteCx {
        owner: Owner {
            name: canary.metadata.name.as_deref().unwrap_or_default(),
            namespace,
            uid: canary.metadata.uid.as_deref().unwrap_or_default(),
            can_own: true,
        },
        spec: &canary.spec,
        cookies: &cookies,
        primary: None,
        iterating: status.iterations > 0,
        inherited: Split::PRIMARY,
        fields: RouteFields::default(),
        annotations: &annotations,
        ingress: IngressOptions::default(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn weights_that_make_no_whole_are_found_in_routes_of_any_kind() {
        let names = ServiceNames {
            apex: "web".to_owned(),
            primary: "web-primary".to_owned(),
            canary: "web-canary".to_owned(),
        };
        let list = |members: Value| json!({ "spec": { "routes": [{ "services": members }] } });
        let annotated = |weights: &str| json!({ "kind": "Ingress", "metadata": { "annotations": { "w": weights } } });
        let cases = [
            (
                "a whole",
                list(
                    json!([{ "name": "web-primary", "weight": 60 }, { "name": "web-canary", "weight": 40 }]),
                ),
                None,
            ),
            (
                "too much",
                list(
                    json!([{ "name": "web-primary", "weight": 60 }, { "name": "web-canary", "weight": 60 }]),
                ),
                Some((60, 60)),
            ),
            (
                "as texts, and deeper",
                list(json!([
                    { "to": { "kuma.io/service": "web-primary_default_svc_80" }, "weight": "0" },
                    { "to": { "kuma.io/service": "web-canary_default_svc_80" }, "weight": "0" },
                ])),
                Some((0, 0)),
            ),
            ("one of them alone", list(json!([{ "name": "web-primary", "weight": 7 }])), None),
            (
                "others",
                list(json!([{ "name": "a", "weight": 7 }, { "name": "b", "weight": 9 }])),
                None,
            ),
            (
                "in an annotation",
                annotated(r#"{"web-primary": 10, "web-canary": 10}"#),
                Some((10, 10)),
            ),
            (
                "a whole in an annotation",
                annotated(r#"{"web-primary": 90, "web-canary": 10}"#),
                None,
            ),
        ];
        for (reason, route, want) in cases {
            assert_eq!(wrong(&route, &names), want, "{reason}");
        }
    }
}
