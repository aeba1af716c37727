//! Gloo: a `RouteTable` that the user's own virtual service delegates to, and an `Upstream` for each
//! side.
//!
//! The path comes from the parent. In A/B testing the matched route is followed by one for the
//! rest: without it Gloo would answer all others with 404.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use tidegate_api::{canary::service::Retries, duration::GoDuration};
use tidegate_engine::{Percent, Split};

use super::{
    Place, RouteCase, RouteCx, RouteError, cookie,
    desired_object::{DesiredObject, escaped},
    headers::{Header, How, conditions},
    non_empty, plain,
    plan::LiveRule,
    router::{Router, of_apex, put},
    weighted_backends::{BackendSchema, Found, Part, Sides, fields, over, parts},
};
use crate::{
    object::{Change, Kind, Live, exactly},
    workload::SERVICE,
};

const ROUTE_TABLE: Kind =
    Kind { group: "gateway.solo.io", version: "v1", kind: "RouteTable", plural: "routetables" };
const UPSTREAM: Kind =
    Kind { group: "gloo.solo.io", version: "v1", kind: "Upstream", plural: "upstreams" };

const BACKENDS: BackendSchema = BackendSchema {
    rules: "/spec/routes",
    backends: &["/routeAction/multi/destinations"],
    name: "/destination/upstream/name",
    begins: true,
    absent: 0,
    conditions: &[("/matchers", "/headers")],
};
const FIELDS: &[&str] = &["/spec/routes"];
const OWN_RULE: &[&str] = &["matchers", "inheritablePathMatchers", "routeAction", "options"];
const OWN_MEMBER: &[&str] = &["destination", "weight"];
const CAN: &[How] = &[How::Exact, How::Prefix, How::Suffix, How::Regex];
/// Where an upstream leads; ours in any case.
const UPSTREAM_FIELDS: &[&str] = &[
    "/spec/kube/serviceName",
    "/spec/kube/serviceNamespace",
    "/spec/kube/servicePort",
    "/spec/kube/selector",
];
/// Fields that are taken from the upstream that `upstreamRef` names, all of it at any time.
const SETTINGS: [&str; 9] = [
    "labels",
    "sslConfig",
    "circuitBreakers",
    "connectionConfig",
    "loadBalancerConfig",
    "useHttp2",
    "initialStreamWindowSize",
    "initialConnectionWindowSize",
    "httpProxyHostName",
];
/// Names the upstream that settings were taken from: without it nothing would show, once `upstreamRef` is
/// gone, which of them are the user's own.
const SETTINGS_OF: &str = "tidegate.dev/settings-of";
/// Failures that are retried where the spec names none: Gloo retries nothing by default.
const RETRIED: &str = "5xx";

/// The router of Gloo.
#[derive(Debug)]
pub(super) struct Gloo;

/// The beginnings of the upstreams' names, up to the port.
fn sides(cx: &RouteCx<'_>) -> Sides {
    let (namespace, apex) = (cx.owner.namespace, cx.spec.apex_name());
    let of = |side: &str| format!("{namespace}-{apex}-{side}upstream-");
    Sides { primary: of("primary"), canary: of("canary") }
}

fn upstreams(cx: &RouteCx<'_>) -> Sides {
    let port = cx.spec.service.as_ref().map_or(0, |service| service.port);
    let Sides { primary, canary } = sides(cx);
    Sides { primary: format!("{primary}{port}"), canary: format!("{canary}{port}") }
}

/// Where the upstream with settings is, if there is to be one. As everywhere else, no namespace means
/// the canary's own.
fn reference(cx: &RouteCx<'_>) -> Option<(String, String)> {
    let reference = cx.spec.upstream_ref.as_ref()?;
    let namespace = non_empty(reference.namespace.as_ref()).unwrap_or(cx.owner.namespace);
    Some((namespace.to_owned(), reference.name.clone()))
}

fn settings<'l>(case: &RouteCase<'_>, live: &'l Live) -> Result<Option<&'l Value>, RouteError> {
    let Some((namespace, name)) = reference(case.cx) else { return Ok(None) };
    let object = Place::new(UPSTREAM, &namespace, &name);
    let found = live.elsewhere(UPSTREAM, &namespace, &name);
    found.map(Some).ok_or(RouteError::Missing { object })
}

fn upstream(
    case: &RouteCase<'_>,
    live: &Live,
    name: &str,
    service: &str,
) -> Result<Option<Change>, RouteError> {
    let namespace = case.cx.owner.namespace;
    let kube = json!({
        "serviceName": service,
        "serviceNamespace": namespace,
        "servicePort": case.service.port,
        "selector": plain::selector(case, live, service)?,
    });
    let mut spec = Map::from_iter([("kube".to_owned(), kube)]);
    let mut annotations = BTreeMap::new();
    let settings = settings(case, live)?;
    for key in SETTINGS {
        let value = settings.map(|settings| settings["spec"][key].clone());
        spec.extend(value.filter(|value| !value.is_null()).map(|value| (key.to_owned(), value)));
    }
    if let Some((namespace, name)) = reference(case.cx) {
        annotations.insert(SETTINGS_OF.to_owned(), format!("{namespace}/{name}"));
    }
    let mut exact = exactly(UPSTREAM_FIELDS);
    let before = live.get(UPSTREAM, name).map(|found| &found["metadata"]["annotations"]);
    let had_settings = before.is_some_and(|annotations| annotations[SETTINGS_OF].is_string());
    if settings.is_some() || had_settings {
        exact.extend(SETTINGS.map(|key| format!("/spec/{key}").into()));
        exact.push(format!("/metadata/annotations/{}", escaped(SETTINGS_OF)).into());
    }
    let desired = DesiredObject {
        kind: UPSTREAM,
        name: name.to_owned(),
        labels: BTreeMap::new(),
        annotations,
        spec: Value::Object(spec),
        beside: Map::new(),
        exact,
        // The name is specific enough that no other upstream is likely to have it.
        shaped: !case.cx.owner.can_own,
    };
    put(&case.cx.owner, live, desired)
}

fn rule(case: &RouteCase<'_>, part: &Part<Vec<Value>>, found: Option<Found<'_>>) -> Value {
    let destinations = destinations(case, found, part.canary);
    let wanted = fields([
        ("matchers", part.of.as_ref().map(|matchers| json!(matchers))),
        ("inheritablePathMatchers", Some(json!(true))),
        ("routeAction", Some(json!({ "multi": { "destinations": destinations } }))),
        ("options", options(case, found)),
    ]);
    over(found.map(|found| found.rule), OWN_RULE, Value::Object(wanted))
}

/// Timeout and retries of the service, beside the options that users gave the live route.
fn options(case: &RouteCase<'_>, found: Option<Found<'_>>) -> Option<Value> {
    let service = case.service;
    let timeout = non_empty(service.timeout.as_ref()).and_then(seconds);
    let ours = fields([
        ("timeout", timeout.map(|timeout| json!(timeout))),
        ("retries", service.retries.as_ref().map(retries)),
    ]);
    let live = found.map(|found| &found.rule["options"]);
    let all = over(live, &["timeout", "retries"], Value::Object(ours));
    Some(all).filter(|all| *all != json!({}))
}

fn retries(retries: &Retries) -> Value {
    let timeout = non_empty(retries.per_try_timeout.as_ref()).and_then(seconds);
    Value::Object(fields([
        ("retryOn", Some(json!(non_empty(retries.retry_on.as_ref()).unwrap_or(RETRIED)))),
        ("numRetries", retries.attempts.map(|attempts| json!(attempts.max(0)))),
        ("perTryTimeout", timeout.map(|timeout| json!(timeout))),
    ]))
}

/// A duration as protocol buffers spell it: seconds, with a fraction if need be.
fn seconds(text: &str) -> Option<String> {
    let duration = text.parse::<GoDuration>().ok()?.to_std()?;
    let (whole, nanoseconds) = (duration.as_secs(), duration.subsec_nanos());
    if nanoseconds == 0 {
        return Some(format!("{whole}s"));
    }
    Some(format!("{whole}.{nanoseconds:09}s"))
}

fn destinations(case: &RouteCase<'_>, found: Option<Found<'_>>, canary: Percent) -> Vec<Value> {
    let names = upstreams(case.cx);
    let destination = |name: &str, percent: Percent, live: Option<&Value>| {
        let upstream = json!({ "name": name, "namespace": case.cx.owner.namespace });
        let wanted = json!({ "destination": { "upstream": upstream }, "weight": percent.get() });
        over(live, OWN_MEMBER, wanted)
    };
    vec![
        destination(&names.primary, canary.rest(), found.and_then(|found| found.primary)),
        destination(&names.canary, canary, found.and_then(|found| found.canary)),
    ]
}

/// Alternatives of the analysis: Gloo takes a request that fits any of them.
fn matchers(items: &[Vec<Header<'_>>]) -> Vec<Value> {
    let matcher = |item: &Vec<Header<'_>>| {
        let headers: Vec<_> = item.iter().map(compared).collect();
        json!({ "headers": headers })
    };
    items.iter().map(matcher).collect()
}

fn compared(header: &Header<'_>) -> Value {
    let pattern = match header.how {
        How::Exact => return json!({ "name": header.name, "value": header.value }),
        How::Regex => header.value.to_owned(),
        How::Prefix => format!("{}.*", cookie::escape(header.value)),
        How::Suffix => format!(".*{}", cookie::escape(header.value)),
    };
    json!({ "name": header.name, "value": pattern, "regex": true })
}

impl Router for Gloo {
    fn kinds(&self) -> &'static [Kind] {
        &[UPSTREAM, ROUTE_TABLE]
    }

    fn route(&self, cx: &RouteCx<'_>) -> (Kind, String) {
        (ROUTE_TABLE, cx.spec.service_names().apex)
    }

    fn others(&self, cx: &RouteCx<'_>) -> Vec<(Kind, String)> {
        let names = cx.spec.service_names();
        let Sides { primary, canary } = upstreams(cx);
        vec![
            (SERVICE, names.primary),
            (SERVICE, names.canary),
            (UPSTREAM, canary),
            (UPSTREAM, primary),
        ]
    }

    fn elsewhere(&self, cx: &RouteCx<'_>) -> Vec<(Kind, String, String)> {
        let reference = reference(cx).map(|(namespace, name)| (UPSTREAM, namespace, name));
        reference.into_iter().collect()
    }

    fn check(&self, case: &RouteCase<'_>) -> Result<(), RouteError> {
        conditions(case, CAN).map(|_| ())
    }

    fn seen(&self, case: &RouteCase<'_>, route: &Value) -> Option<LiveRule> {
        BACKENDS.seen(route, &sides(case.cx))
    }

    fn before(&self, case: &RouteCase<'_>, live: &Live) -> Result<Vec<Change>, RouteError> {
        let (names, services) = (upstreams(case.cx), &case.names);
        let canary = upstream(case, live, &names.canary, &services.canary)?;
        let primary = upstream(case, live, &names.primary, &services.primary)?;
        Ok(canary.into_iter().chain(primary).collect())
    }

    fn write(
        &self,
        case: &RouteCase<'_>,
        live: &Live,
        split: Split,
    ) -> Result<Option<Change>, RouteError> {
        let route = self.found(case, live);
        let found = route.and_then(|route| BACKENDS.divided(route, &sides(case.cx)));
        let matchers = matchers(&conditions(case, CAN)?);
        let parts = parts(case, split.canary, vec![matchers]);
        let routes: Vec<_> = parts.iter().map(|part| rule(case, part, found)).collect();
        let (labels, annotations) = of_apex(case);
        let desired = DesiredObject {
            kind: ROUTE_TABLE,
            name: case.names.apex.clone(),
            labels,
            annotations,
            spec: json!({ "routes": routes }),
            beside: Map::new(),
            exact: exactly(FIELDS),
            shaped: found.is_some(),
        };
        put(&case.cx.owner, live, desired)
    }

    fn reset_to_primary(&self, case: &RouteCase<'_>, route: &Value) -> Option<Change> {
        BACKENDS.reset_to_primary(ROUTE_TABLE, route, &sides(case.cx))
    }
}
