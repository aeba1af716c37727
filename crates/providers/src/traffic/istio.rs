//! Istio: a virtual service that divides traffic, and a destination rule for each side.
//!
//! Each side has a Service of its own, so no subsets are used. Of the virtual service we own
//! `hosts`, `gateways` and the lists of rules; `tls`, `exportTo` and fields that Istio adds later
//! stay as they are. With `appProtocol: tcp` connections are divided instead of requests: weights
//! and nothing else.

pub(super) mod other_namespaces;
mod rule;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use tidegate_api::canary::{CanarySpec, ServiceNames};
use tidegate_engine::Split;

use super::{
    Cookies, RouteCase, RouteError, cookie,
    desired_object::{DesiredObject, flux_off, refuse_taken},
    plan::{LiveRule, cookies_to_write, is_rest, plan},
    weights::{Weights, weight},
};
use crate::object::{Change, Kind, Live, exactly};

/// Kind of the virtual service.
pub const VIRTUAL_SERVICE: Kind = Kind {
    group: "networking.istio.io",
    version: "v1beta1",
    kind: "VirtualService",
    plural: "virtualservices",
};

/// Kind of the destination rules.
pub const DESTINATION_RULE: Kind = Kind {
    group: "networking.istio.io",
    version: "v1beta1",
    kind: "DestinationRule",
    plural: "destinationrules",
};

const ROUTE_FIELDS: &[&str] = &["/spec/hosts", "/spec/gateways", "/spec/http", "/spec/tcp"];
const POLICY_FIELDS: &[&str] = &["/spec/host", "/spec/trafficPolicy"];
/// The gateway that stands for traffic inside the mesh.
const INSIDE: &str = "mesh";

/// The weighted rule of a live virtual service.
struct Weighted<'a> {
    rule: &'a Value,
    primary: &'a Value,
    canary: &'a Value,
    /// Whether a rule of the primary alone comes after it: the one for the rest.
    scoped: bool,
}

/// Whether connections are routed instead of requests.
pub(super) fn routes_connections(spec: &CanarySpec) -> bool {
    let protocol = spec.service.as_ref().and_then(|service| service.app_protocol.as_deref());
    protocol.is_some_and(|protocol| protocol.eq_ignore_ascii_case("tcp"))
}

/// Refuses a spec that this provider cannot carry out.
pub(super) fn check(case: &RouteCase<'_>) -> Result<(), RouteError> {
    let (service, analysis) = (case.service, &case.cx.spec.analysis);
    if is_delegate(case) && !(service.hosts.is_empty() && service.gateways.is_empty()) {
        let why = "a delegate takes hosts and gateways from its root; leave both out";
        return Err(case.refuse("spec.service.delegation", why));
    }
    if !case.capabilities.ab {
        // Beside weights conditions have no effect.
        return Ok(());
    }
    for (index, condition) in analysis.matches.iter().enumerate() {
        rule::check_condition(case, index, condition)?;
    }
    Ok(())
}

/// Brings all three objects into shape.
pub(super) fn reconcile(case: &RouteCase<'_>, live: &Live) -> Result<Vec<Change>, RouteError> {
    let mut changes = Vec::new();
    for host in [&case.names.canary, &case.names.primary] {
        let object = live.get(DESTINATION_RULE, host);
        refuse_taken(&case.cx.owner, DESTINATION_RULE, object)?;
        changes.extend(policy(case, host).change(&case.cx.owner, object));
    }
    let object = live.get(VIRTUAL_SERVICE, &case.names.apex);
    let seen = object.and_then(|object| weighted(object, &case.names)).map(|found| seen(&found));
    let (split, cookies) = match seen {
        Some(seen) => seen.kept(case),
        None => (case.cx.inherited, case.cx.cookies.clone()),
    };
    changes.extend(route(case, live, split, &cookies)?);
    Ok(changes)
}

/// The split of the live virtual service.
pub(super) fn read(case: &RouteCase<'_>, live: &Live) -> Result<Split, RouteError> {
    let place = || case.place(VIRTUAL_SERVICE);
    let object = live.get(VIRTUAL_SERVICE, &case.names.apex);
    let object = object.ok_or_else(|| RouteError::Missing { object: place() })?;
    let malformed = |why: &str| {
        let (primary, canary) = (&case.names.primary, &case.names.canary);
        RouteError::Malformed { object: place(), why: format!("{why} {primary} and {canary}") }
    };
    let found = weighted(object, &case.names)
        .ok_or_else(|| malformed("no rule divides traffic between"))?;
    seen(&found).split().ok_or_else(|| malformed("weights do not add up to 100 for"))
}

/// The virtual service with this split.
pub(super) fn write(
    case: &RouteCase<'_>,
    live: &Live,
    split: Split,
) -> Result<Vec<Change>, RouteError> {
    let cookies = cookies_to_write(case, split)?;
    Ok(route(case, live, split, &cookies)?.into_iter().collect())
}

/// Whether an object is as we make it. Destination rules have no shape of their own: annotations show which
/// were taken over.
pub(super) fn is_shaped(object: &Value, names: &ServiceNames) -> bool {
    weighted(object, names).is_some()
}

fn policy(case: &RouteCase<'_>, host: &str) -> DesiredObject {
    let mut spec = Map::new();
    spec.insert("host".to_owned(), json!(host));
    if let Some(policy) = &case.service.traffic_policy {
        spec.insert("trafficPolicy".to_owned(), rule::without_empty(json!(policy)));
    }
    DesiredObject {
        kind: DESTINATION_RULE,
        name: host.to_owned(),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        spec: Value::Object(spec),
        beside: Map::new(),
        exact: exactly(POLICY_FIELDS),
        // Without owners nothing tells ours from the user's, and a backup of our own is worse than none.
        shaped: !case.cx.owner.can_own,
    }
}

fn route(
    case: &RouteCase<'_>,
    live: &Live,
    split: Split,
    cookies: &Cookies,
) -> Result<Option<Change>, RouteError> {
    let owner = &case.cx.owner;
    let object = live.get(VIRTUAL_SERVICE, &case.names.apex);
    refuse_taken(owner, VIRTUAL_SERVICE, object)?;
    let found = object.and_then(|object| weighted(object, &case.names));
    let apex = case.service.apex.clone().unwrap_or_default();
    let mut annotations = apex.annotations;
    flux_off(&mut annotations);

    let mut spec = Map::new();
    spec.insert("hosts".to_owned(), json!(hosts(case)));
    if !is_delegate(case) {
        spec.insert("gateways".to_owned(), json!(gateways(case)));
    }
    let rules = plan(case, split, cookies);
    if routes_connections(case.cx.spec) {
        let rules: Vec<_> = rules.iter().map(|planned| rule::tcp(case, planned)).collect();
        spec.insert("tcp".to_owned(), json!(rules));
    } else {
        let foreign = found.as_ref().map(|found| rule::foreign(found.rule)).unwrap_or_default();
        let rules: Vec<_> =
            rules.iter().map(|planned| rule::http(case, planned, foreign.clone())).collect();
        spec.insert("http".to_owned(), json!(rules));
    }
    let desired = DesiredObject {
        kind: VIRTUAL_SERVICE,
        name: case.names.apex.clone(),
        labels: apex.labels,
        annotations,
        spec: Value::Object(spec),
        beside: Map::new(),
        exact: exactly(ROUTE_FIELDS),
        shaped: found.is_some(),
    };
    Ok(desired.change(owner, object))
}

fn is_delegate(case: &RouteCase<'_>) -> bool {
    case.service.delegation == Some(true)
}

fn hosts<'a>(case: &'a RouteCase<'_>) -> Vec<&'a str> {
    if is_delegate(case) {
        return Vec::new();
    }
    let apex = case.names.apex.as_str();
    let mut hosts: Vec<_> = case.service.hosts.iter().map(String::as_str).collect();
    if !hosts.iter().any(|host| *host == apex || *host == "*") {
        hosts.push(apex);
    }
    hosts
}

fn gateways<'a>(case: &RouteCase<'a>) -> Vec<&'a str> {
    match case.service.gateways.as_slice() {
        // As Flagger: the mesh is not added to a list that the user wrote.
        [] => vec![INSIDE],
        listed => listed.iter().map(String::as_str).collect(),
    }
}

/// The last rule with both sides in it.
fn weighted<'a>(object: &'a Value, names: &ServiceNames) -> Option<Weighted<'a>> {
    let to = |rule: &'a Value, host: &str| {
        let mut destinations = rule["route"].as_array().into_iter().flatten();
        destinations.find(|destination| destination["destination"]["host"] == *host)
    };
    ["http", "tcp"].into_iter().find_map(|list| {
        let rules = object["spec"][list].as_array()?;
        let mut from_last = rules.iter().enumerate().rev();
        from_last.find_map(|(index, rule)| {
            let (primary, canary) = (to(rule, &names.primary)?, to(rule, &names.canary)?);
            let scoped = rules.iter().skip(index + 1).any(|later| {
                let is_primarys = to(later, &names.primary).is_some();
                is_primarys && is_rest(&rule["match"], &later["match"])
            });
            Some(Weighted { rule, primary, canary, scoped })
        })
    })
}

fn seen(found: &Weighted<'_>) -> LiveRule {
    let weights = weight(found.primary, 0).zip(weight(found.canary, 0));
    let cookie = |destination: &Value| {
        let header = &destination["headers"]["response"]["add"][cookie::SET_COOKIE];
        header.as_str().and_then(cookie::in_header)
    };
    let host = &found.canary["destination"]["host"];
    LiveRule {
        weights: weights.map(|(primary, canary)| Weights { primary, canary }),
        mirrored: found.rule["mirror"]["host"] == *host,
        scoped: found.scoped,
        cookies: Cookies {
            canary: cookie(found.canary),
            primary: cookie(found.primary),
            previous: None,
        },
    }
}
