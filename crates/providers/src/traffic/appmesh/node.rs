//! Virtual nodes: where the pods of a side are found, and what they may call.

use serde_json::{Map, Value, json};

use super::{
    NODE_V1BETA1, NODE_V1BETA2, Version, protocol,
    rule::{in_ms, milliseconds},
};
use crate::{
    object::{Live, exactly},
    traffic::{RouteError, Scene, draft::Draft, members::fields, plain, router::of_apex, said},
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
    scene: &Scene<'_>,
    live: &Live,
) -> Result<Vec<Draft>, RouteError> {
    let names = &scene.names;
    let old = |name: &str, service: &str| draft(version, scene, name, first(scene, service));
    let new = |service: &str| Ok(draft(version, scene, service, second(scene, service, live)?));
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
pub(super) fn port(scene: &Scene<'_>) -> i64 {
    let number = json!(scene.service.target_port).as_i64().filter(|port| *port > 0);
    number.unwrap_or(scene.service.port.into())
}

fn draft(version: Version, scene: &Scene<'_>, name: &str, spec: Map<String, Value>) -> Draft {
    let (labels, annotations) = of_apex(scene);
    let (kind, exact) = match version {
        Version::V1Beta1 => (NODE_V1BETA1, FIELDS_V1BETA1),
        Version::V1Beta2 => (NODE_V1BETA2, FIELDS_V1BETA2),
    };
    Draft {
        kind,
        name: name.to_owned(),
        labels,
        annotations,
        spec: Value::Object(spec),
        beside: Map::new(),
        exact: exactly(exact),
        shaped: !scene.cx.owner.can_own,
    }
}

fn first(scene: &Scene<'_>, service: &str) -> Map<String, Value> {
    let host = format!("{service}.{}", scene.cx.owner.namespace);
    let port = json!({ "port": scene.service.port, "protocol": protocol(scene) });
    let called = |backend: &String| json!({ "virtualServiceName": backend });
    fields([
        ("meshName", scene.service.mesh_name.as_ref().map(|mesh| json!(mesh))),
        ("listeners", Some(json!([{ "portMapping": port }]))),
        ("serviceDiscovery", Some(json!({ "dns": { "hostName": host } }))),
        ("backends", backends(scene, called)),
        ("logging", logging(scene)),
    ])
}

fn second(scene: &Scene<'_>, service: &str, live: &Live) -> Result<Map<String, Value>, RouteError> {
    let host = format!("{service}.{}.svc.cluster.local.", scene.cx.owner.namespace);
    let timeout = said(scene.service.timeout.as_ref()).and_then(milliseconds);
    let timeout =
        timeout.map(|timeout| json!({ protocol(scene): { "perRequest": in_ms(timeout) } }));
    let mapping = json!({ "port": port(scene), "protocol": protocol(scene) });
    let listener = fields([("portMapping", Some(mapping)), ("timeout", timeout)]);
    // The pods that the Service of the side selects, whatever label that goes by.
    let selector = plain::selector(scene, live, service)?;
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
        ("backends", backends(scene, called)),
        ("logging", logging(scene)),
    ]))
}

fn backends(scene: &Scene<'_>, called: impl Fn(&String) -> Value) -> Option<Value> {
    let backends = scene.service.backends.iter();
    let backends: Vec<_> =
        backends.map(|backend| json!({ "virtualService": called(backend) })).collect();
    Some(Value::Array(backends)).filter(|_| !scene.service.backends.is_empty())
}

fn logging(scene: &Scene<'_>) -> Option<Value> {
    let is_asked = scene.cx.annotations.get(ACCESS_LOG).is_some_and(|text| text == "enabled");
    is_asked.then(|| json!({ "accessLog": { "file": { "path": "/dev/stdout" } } }))
}
