//! Virtual nodes: how the pods of a side are found, and the services they may call.

use serde_json::{Map, Value, json};

use super::{
    NODE_V1BETA1, NODE_V1BETA2, Version, protocol,
    rule::{in_ms, milliseconds},
};
use crate::{
    object::{Live, exactly},
    traffic::{
        RouteCase, RouteError, desired_object::DesiredObject, non_empty, plain, router::of_apex,
        weighted_backends::fields,
    },
};

/// The annotation of a canary that asks for an access log of its nodes.
const ACCESS_LOG: &str = "appmesh.flagger.app/accesslog";
const FIELDS_V1BETA1: &[&str] = &[
    "/spec/meshName",
    "/spec/listeners",
    "/spec/serviceDiscovery",
    "/spec/backends",
    "/spec/logging",
];
const FIELDS_V1BETA2: &[&str] = &[
    "/spec/podSelector",
    "/spec/listeners",
    "/spec/serviceDiscovery",
    "/spec/backends",
    "/spec/logging",
];

/// The nodes of a canary.
pub(super) fn nodes(
    version: Version,
    case: &RouteCase<'_>,
    live: &Live,
) -> Result<Vec<DesiredObject>, RouteError> {
    let names = &case.names;
    let old = |name: &str, service: &str| desired(version, case, name, first(case, service));
    let new = |service: &str| Ok(desired(version, case, service, second(case, service, live)?));
    match version {
        Version::V1Beta1 => Ok(vec![
            old(&names.apex, &names.primary),
            old(&names.primary, &names.primary),
            old(&names.canary, &names.canary),
        ]),
        Version::V1Beta2 => Ok(vec![new(&names.primary)?, new(&names.canary)?]),
    }
}

/// The port of the pods, if it is a number; as Flagger.
pub(super) fn port(case: &RouteCase<'_>) -> i64 {
    let number = json!(case.service.target_port).as_i64().filter(|port| *port > 0);
    number.unwrap_or(case.service.port.into())
}

fn desired(
    version: Version,
    case: &RouteCase<'_>,
    name: &str,
    spec: Map<String, Value>,
) -> DesiredObject {
    let (labels, annotations) = of_apex(case);
    let (kind, exact) = match version {
        Version::V1Beta1 => (NODE_V1BETA1, FIELDS_V1BETA1),
        Version::V1Beta2 => (NODE_V1BETA2, FIELDS_V1BETA2),
    };
    DesiredObject {
        kind,
        name: name.to_owned(),
        labels,
        annotations,
        spec: Value::Object(spec),
        beside: Map::new(),
        exact: exactly(exact),
        shaped: !case.cx.owner.can_own,
    }
}

fn first(case: &RouteCase<'_>, service: &str) -> Map<String, Value> {
    let host = format!("{service}.{}", case.cx.owner.namespace);
    let port = json!({ "port": case.service.port, "protocol": protocol(case) });
    let called = |backend: &String| json!({ "virtualServiceName": backend });
    fields([
        ("meshName", case.service.mesh_name.as_ref().map(|mesh| json!(mesh))),
        ("listeners", Some(json!([{ "portMapping": port }]))),
        ("serviceDiscovery", Some(json!({ "dns": { "hostName": host } }))),
        ("backends", backends(case, called)),
        ("logging", logging(case)),
    ])
}

fn second(
    case: &RouteCase<'_>,
    service: &str,
    live: &Live,
) -> Result<Map<String, Value>, RouteError> {
    let host = format!("{service}.{}.svc.cluster.local.", case.cx.owner.namespace);
    let timeout = non_empty(case.service.timeout.as_ref()).and_then(milliseconds);
    let timeout =
        timeout.map(|timeout| json!({ protocol(case): { "perRequest": in_ms(timeout) } }));
    let mapping = json!({ "port": port(case), "protocol": protocol(case) });
    let listener = fields([("portMapping", Some(mapping)), ("timeout", timeout)]);
    // The pods that the Service of the side selects, by any label.
    let selector = plain::selector(case, live, service)?;
    let called = |backend: &String| {
        if backend.starts_with("arn:aws") {
            json!({ "virtualServiceARN": backend })
        } else {
            json!({ "virtualServiceRef": { "name": backend } })
        }
    };
    Ok(fields([
        ("podSelector", Some(json!({ "matchLabels": selector }))),
        ("listeners", Some(json!([listener]))),
        ("serviceDiscovery", Some(json!({ "dns": { "hostname": host } }))),
        ("backends", backends(case, called)),
        ("logging", logging(case)),
    ]))
}

fn backends(case: &RouteCase<'_>, called: impl Fn(&String) -> Value) -> Option<Value> {
    let backends = case.service.backends.iter();
    let backends: Vec<_> =
        backends.map(|backend| json!({ "virtualService": called(backend) })).collect();
    Some(Value::Array(backends)).filter(|_| !case.service.backends.is_empty())
}

fn logging(case: &RouteCase<'_>) -> Option<Value> {
    let is_asked = case.cx.annotations.get(ACCESS_LOG).is_some_and(|text| text == "enabled");
    is_asked.then(|| json!({ "accessLog": { "file": { "path": "/dev/stdout" } } }))
}
