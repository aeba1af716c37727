//! Gateway API: one `HTTPRoute`, or for gRPC one `GRPCRoute`, that divides traffic.
//!
//! Both versions take one path, and write what the cluster's definition of that version has a field
//! for. Calls have no timeouts, CORS and retries; their route is an `HTTPRoute` in most other ways
//! ([`grpc`]). A route of the user's that is only referred to is [`reference`]'s business.
//!
//! Of the route we own parents, host names and rules. A list of rules can only be sent whole, so
//! additions of users to the weighted rule, such as an `ExtensionRef` filter, are found there and
//! put on every rule: a filter that checks callers must not be missing for those with a cookie.

mod condition;
mod filter;
mod grpc;
mod ready;
pub(super) mod reference;
mod rule;

use serde_json::{Map, Value, json};
use tidegate_api::canary::{CanarySpec, RouteKind, ServiceNames, service::GatewayRef};
use tidegate_engine::Split;

use super::{
    Affinity, Cookies, Mesh, RouteCase, RouteError, cookie, delete,
    desired_object::{DesiredObject, flux_off, refuse_taken},
    non_empty,
    plan::{LiveRule, cookies_to_write, is_rest, plan},
    takeover,
    weights::{Weights, weight},
};
use crate::object::{Change, Kind, Live, exactly};

pub(super) use self::rule::is_duration;

/// Kind of the route, `v1`.
pub const HTTP_ROUTE_V1: Kind = Kind {
    group: "gateway.networking.k8s.io",
    version: "v1",
    kind: "HTTPRoute",
    plural: "httproutes",
};

/// Kind of the route, `v1beta1`.
pub const HTTP_ROUTE_V1BETA1: Kind = Kind { version: "v1beta1", ..HTTP_ROUTE_V1 };

/// Kind of the route of calls.
pub const GRPC_ROUTE_V1: Kind = Kind { kind: "GRPCRoute", plural: "grpcroutes", ..HTTP_ROUTE_V1 };

const V1: Version = Version { kind: HTTP_ROUTE_V1, full: true };
const V1BETA1: Version = Version { kind: HTTP_ROUTE_V1BETA1, full: true };
const GRPC_V1: Version = Version { kind: GRPC_ROUTE_V1, full: false };

const ROUTE_FIELDS: &[&str] = &["/spec/parentRefs", "/spec/hostnames", "/spec/rules"];
/// Most rules a route may have.
const RULES_MAX: usize = 16;
/// The weight of a backend that has none.
const WEIGHT_DEFAULT: i64 = 1;

/// A kind of route in a version of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Version {
    kind: Kind,
    /// Whether there can be timeouts, CORS and retries.
    full: bool,
}

/// Fields of a route that clusters may or may not have, depending on the version and channel of Gateway API
/// that is installed.
///
/// A server-side apply with an unknown field is refused whole, so these are written only where the
/// cluster's own schema has them. The default, for clusters whose schema cannot be read, has the
/// fields that work everywhere, and CORS, which users ask for knowing that their gateway has it;
/// see [`assumed`](Self::assumed) for `v1beta1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a field that may be there")]
pub struct RouteFields {
    /// `rules[].name`: cookie rules are named.
    pub rule_name: bool,
    /// `rules[].retry`: `service.retries` is written.
    pub retry: bool,
    /// `requestMirror.percent`: `analysis.mirrorWeight` is written; without it everything is
    /// mirrored.
    pub mirror_percent: bool,
    /// `rules[].timeouts`: `service.timeout` and `service.backendTimeout` are written.
    pub timeouts: bool,
    /// `filters[].cors`: `service.corsPolicy` is written; without it such a canary is refused, but for
    /// `v1beta1`, with which Flagger never wrote it.
    pub cors: bool,
}

/// The weighted rule of a live route.
struct Weighted<'a> {
    rule: &'a Value,
    primary: &'a Value,
    canary: &'a Value,
    /// Whether a rule of the primary alone comes after it: the one for the rest.
    scoped: bool,
}

/// Refuses a spec that this provider cannot carry out.
pub(super) fn check(version: Version, case: &RouteCase<'_>) -> Result<(), RouteError> {
    let service = case.service;
    if service.gateway_refs.is_empty() {
        return Err(case.refuse("spec.service.gatewayRefs", "a route needs at least one gateway"));
    }
    if version.is_grpc() {
        grpc::check(case)?;
    }
    if version == V1 && service.cors_policy.is_some() && !case.cx.fields.cors {
        let why = "the HTTPRoute of this cluster has no CORS filter; it comes with a later \
                   version, or the experimental channel, of Gateway API";
        return Err(case.refuse("spec.service.corsPolicy", why));
    }
    // The longest list of rules there can be: the one with cookies.
    let cookie = || Some("name=value".to_owned());
    let cookies = Cookies { canary: cookie(), primary: cookie(), previous: cookie() };
    let rules = rules(version, case, Split::CANARY, &cookies, &rule::Foreign::default())?;
    if rules.len() > RULES_MAX {
        let why = format!("makes {} rules, a route has at most {RULES_MAX}", rules.len());
        return Err(case.refuse("spec.service.match", why));
    }
    Ok(())
}

/// Brings the route into shape.
///
/// A route of ours for the other protocol, left when the service changed it, passes its split on, unless that
/// was done before, and is deleted: of two routes for one host a gateway takes the older.
pub(super) fn reconcile(
    version: Version,
    case: &RouteCase<'_>,
    live: &Live,
) -> Result<Vec<Change>, RouteError> {
    let other = version.sibling().and_then(|kind| Some((kind, live.get(kind, &case.names.apex)?)));
    let other = other.filter(|(_, object)| case.cx.owner.owns(object));
    let object = live.get(version.kind, &case.names.apex);
    let inherited = case.cx.inherited;
    let before = other.map(|(_, object)| object).filter(|_| inherited == Split::PRIMARY);
    let found = object.or(before).and_then(|object| weighted(object, &case.names));
    let (split, cookies) = match found.map(|found| seen(case, &found)) {
        Some(seen) => seen.kept(case),
        None => (inherited, case.cx.cookies.clone()),
    };
    let route = route(version, case, live, split, &cookies)?;
    let pruned = other.and_then(|(kind, object)| delete(kind, object));
    Ok(route.into_iter().chain(pruned).collect())
}

/// The split of the live route, once its parents accepted it.
pub(super) fn read(
    version: Version,
    case: &RouteCase<'_>,
    live: &Live,
) -> Result<Split, RouteError> {
    let place = || case.place(version.kind);
    let object = live.get(version.kind, &case.names.apex);
    let object = object.ok_or_else(|| RouteError::Missing { object: place() })?;
    if let Some((parent, why)) = ready::obstacle(object, case.cx.owner.namespace) {
        return Err(RouteError::NotReady { object: place(), parent, why });
    }
    let malformed = |why: &str| {
        let (primary, canary) = (&case.names.primary, &case.names.canary);
        RouteError::Malformed { object: place(), why: format!("{why} {primary} and {canary}") }
    };
    let found = weighted(object, &case.names)
        .ok_or_else(|| malformed("no rule divides traffic between"))?;
    seen(case, &found).split().ok_or_else(|| malformed("weights do not add up to 100 for"))
}

/// The route with this split.
pub(super) fn write(
    version: Version,
    case: &RouteCase<'_>,
    live: &Live,
    split: Split,
) -> Result<Vec<Change>, RouteError> {
    let cookies = cookies_to_write(case, split)?;
    Ok(route(version, case, live, split, &cookies)?.into_iter().collect())
}

/// Whether an object is as we make it. One of the user's of which only backends are divided is not.
pub(super) fn is_shaped(object: &Value, names: &ServiceNames) -> bool {
    weighted(object, names).is_some() && !reference::is_divided(object)
}

/// Restores a route that the canary no longer refers to.
pub(super) fn undo_previous(kind: Kind, case: &RouteCase<'_>, route: &Value) -> Option<Change> {
    let is_route = (kind.group, kind.version) == (HTTP_ROUTE_V1.group, HTTP_ROUTE_V1.version)
        || kind == HTTP_ROUTE_V1BETA1;
    is_route.then(|| reference::undo_previous(kind, case, route)).flatten()
}

fn route(
    version: Version,
    case: &RouteCase<'_>,
    live: &Live,
    split: Split,
    cookies: &Cookies,
) -> Result<Option<Change>, RouteError> {
    let owner = &case.cx.owner;
    let object = live.get(version.kind, &case.names.apex);
    refuse_taken(owner, version.kind, object)?;
    let shaped = object.is_some_and(|object| is_shaped(object, &case.names));
    takeover::refuse_unasked(owner, version.kind, object, shaped)?;
    let foreign = object.map(|object| rule::Foreign::of(version, case, object)).unwrap_or_default();
    let apex = case.service.apex.clone().unwrap_or_default();
    let mut annotations = apex.annotations;
    flux_off(&mut annotations);

    let mut spec = Map::new();
    spec.insert("parentRefs".to_owned(), Value::Array(parents(case)));
    if !case.service.hosts.is_empty() {
        spec.insert("hostnames".to_owned(), json!(case.service.hosts));
    }
    let rules = rules(version, case, split, cookies, &foreign)?;
    spec.insert("rules".to_owned(), Value::Array(rules));
    let desired = DesiredObject {
        kind: version.kind,
        name: case.names.apex.clone(),
        labels: apex.labels,
        annotations,
        spec: Value::Object(spec),
        beside: Map::new(),
        exact: exactly(ROUTE_FIELDS),
        shaped,
    };
    Ok(desired.change(owner, object))
}

fn rules(
    version: Version,
    case: &RouteCase<'_>,
    split: Split,
    cookies: &Cookies,
    foreign: &rule::Foreign,
) -> Result<Vec<Value>, RouteError> {
    let mut rules = Vec::new();
    for planned in plan(case, split, cookies) {
        rules.extend(rule::render(version, case, &planned, foreign)?);
    }
    Ok(rules)
}

/// The parents, with the defaults the API server would fill in.
fn parents(case: &RouteCase<'_>) -> Vec<Value> {
    let parent = |reference: &GatewayRef| {
        let mut parent = json!(reference);
        parent["group"] = json!(reference.group.as_deref().unwrap_or(HTTP_ROUTE_V1.group));
        parent["kind"] = json!(reference.kind.as_deref().unwrap_or("Gateway"));
        parent
    };
    case.service.gateway_refs.iter().map(parent).collect()
}

/// The last rule with both sides in it.
fn weighted<'a>(object: &'a Value, names: &ServiceNames) -> Option<Weighted<'a>> {
    let rules = object["spec"]["rules"].as_array()?;
    let mut from_last = rules.iter().enumerate().rev();
    from_last.find_map(|(index, rule)| {
        let primary = backend(rule, &names.primary)?;
        let canary = backend(rule, &names.canary)?;
        let mut later = rules.iter().skip(index + 1);
        let scoped = later.any(|later| {
            let is_primarys = backend(later, &names.primary).is_some();
            is_primarys && is_rest(&rule["matches"], &later["matches"])
        });
        Some(Weighted { rule, primary, canary, scoped })
    })
}

fn backend<'a>(rule: &'a Value, name: &str) -> Option<&'a Value> {
    rule["backendRefs"].as_array()?.iter().find(|backend| backend["name"] == *name)
}

fn seen(case: &RouteCase<'_>, found: &Weighted<'_>) -> LiveRule {
    let weights = weight(found.primary, WEIGHT_DEFAULT).zip(weight(found.canary, WEIGHT_DEFAULT));
    LiveRule {
        weights: weights.map(|(primary, canary)| Weights { primary, canary }),
        mirrored: is_mirrored(case, found.rule),
        scoped: found.scoped,
        cookies: Cookies {
            canary: cookie_of(found.canary),
            primary: cookie_of(found.primary),
            previous: None,
        },
    }
}

/// Whether the canary gets copies beyond those that `service.mirror` asks for.
fn is_mirrored(case: &RouteCase<'_>, rule: &Value) -> bool {
    let canary = &case.names.canary;
    let mirrors = rule["filters"].as_array().into_iter().flatten();
    let found =
        mirrors.filter(|filter| filter["requestMirror"]["backendRef"]["name"] == **canary).count();
    let asked = case.service.mirror.iter().filter(|mirror| mirror.backend_ref.name == *canary);
    found > asked.count()
}

fn cookie_of(backend: &Value) -> Option<String> {
    let filters = backend["filters"].as_array()?;
    let added =
        filters.iter().filter_map(|filter| filter["responseHeaderModifier"]["add"].as_array());
    let header = added.flatten().find(|header| header["name"] == cookie::SET_COOKIE)?;
    cookie::in_header(header["value"].as_str()?)
}

// === impl Version ===

impl Version {
    /// The route that a spec asks for.
    ///
    /// gRPC is selected by the protocol's name or, where that decides nothing, by the name of the port.
    /// `kubernetes.io/h2c` is a transport and not a protocol; `grpc-web` is HTTP.
    pub(super) fn of(mesh: Mesh, spec: &CanarySpec) -> Self {
        if mesh == Mesh::GatewayApiV1Beta1 {
            return V1BETA1;
        }
        let service = spec.service.as_ref();
        let protocol = service.and_then(|service| non_empty(service.app_protocol.as_ref()));
        let port =
            service.and_then(|service| non_empty(service.port_name.as_ref())).unwrap_or_default();
        let is_grpc = match protocol {
            Some("kubernetes.io/h2c") | None => {
                port == "grpc" || port.starts_with("grpc-") && !port.starts_with("grpc-web")
            }
            Some(protocol) => protocol.eq_ignore_ascii_case("grpc"),
        };
        if is_grpc { GRPC_V1 } else { V1 }
    }

    /// The route that a spec refers to, if it does.
    pub(super) fn referred(mesh: Mesh, spec: &CanarySpec) -> Option<Self> {
        match (mesh, spec.route_ref.as_ref()?.kind) {
            (Mesh::GatewayApiV1, RouteKind::HttpRoute) => Some(V1),
            (Mesh::GatewayApiV1, RouteKind::GrpcRoute) => Some(GRPC_V1),
            (Mesh::GatewayApiV1Beta1, RouteKind::HttpRoute) => Some(V1BETA1),
            (_, _) => None,
        }
    }

    pub(super) fn kind(self) -> Kind {
        self.kind
    }

    /// The kind that a canary's route had, or will have, when its service changes its protocol.
    pub(super) fn sibling(self) -> Option<Kind> {
        match self {
            V1 => Some(GRPC_ROUTE_V1),
            GRPC_V1 => Some(HTTP_ROUTE_V1),
            _ => None,
        }
    }

    /// The widest affinity there can be: callers of gRPC keep no cookies.
    pub(super) fn affinity(self) -> Affinity {
        if self.is_grpc() { Affinity::None } else { Affinity::Both }
    }

    pub(super) fn is_grpc(self) -> bool {
        self == GRPC_V1
    }
}

// === impl RouteFields ===

impl Default for RouteFields {
    fn default() -> Self {
        Self { rule_name: false, retry: false, mirror_percent: false, timeouts: true, cors: true }
    }
}

impl RouteFields {
    /// The fields of a route in clusters whose schema cannot be read.
    ///
    /// Of `v1beta1` nothing is assumed: canaries that ask for more ran without it under Flagger.
    pub fn assumed(kind: Kind) -> Self {
        match kind {
            HTTP_ROUTE_V1BETA1 => Self::in_schema(&Value::Null),
            _ => Self::default(),
        }
    }

    /// The fields in a schema of a route: the `openAPIV3Schema` of its definition, or the component
    /// of that name in the document the API server has at `/openapi/v3`.
    pub fn in_schema(schema: &Value) -> Self {
        let rule = &schema["properties"]["spec"]["properties"]["rules"]["items"]["properties"];
        let filter = &rule["filters"]["items"]["properties"];
        Self {
            rule_name: rule["name"].is_object(),
            retry: rule["retry"].is_object(),
            mirror_percent: filter["requestMirror"]["properties"]["percent"].is_object(),
            timeouts: rule["timeouts"].is_object(),
            cors: filter["cors"].is_object(),
        }
    }
}
