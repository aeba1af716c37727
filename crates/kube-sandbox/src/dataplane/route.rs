//! The routing table of a cluster, and the choice of a target for one request.
//!
//! A [`Table`] holds the rules of all `HTTPRoute`, `VirtualService`, `Ingress` and `IngressRoute`
//! objects in the order in which they are tried, and the Services they lead to. [`Table::choose`]
//! is a function of the table, the request and one random number: no clock, no socket, no state.
//! [`View`](super::View) builds tables; gateway and simulation use them.
//!
//! Order: the most specific host first (exact before wildcard, longer before shorter). Within a
//! host, `HTTPRoute` matches by the precedence of Gateway API (exact path, regular expression,
//! longest prefix; then a method, most headers, most query parameters), and `VirtualService` rules
//! match as written, the first one winning; `ingress` and `traefik` describe theirs. Ties go to
//! the older object, then by name. A host in no route is looked up among the Services before
//! wildcards, so that a catch-all route does not take requests for a Service of the cluster.
//!
//! Ignored: host names and ports of listeners (one gateway serves all), retries, CORS, and
//! `DestinationRule` subsets.

use std::{
    borrow::Cow,
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};

use http::{HeaderMap, HeaderValue};
use serde_json::Value;

use self::{
    edit::{Edit, PathEdit, Redirect},
    host::{HostPattern, NameParts},
    matching::{Condition, Precedence},
};
use crate::{
    controllers::object::{int, items, name, namespace, text},
    dataplane::snapshot::PodName,
    random::Random,
};

pub(super) mod edit;
pub(super) mod gateway_api;
pub(super) mod grants;
pub(super) mod host;
mod ingress;
mod istio;
mod matching;
#[cfg(test)]
mod tests;
mod traefik;

/// The parts of a request that routing reads.
#[derive(Debug, Clone, Copy)]
pub struct Request<'r> {
    /// With or without a port.
    pub host: &'r str,
    pub method: &'r str,
    pub path: &'r str,
    /// Without the question mark.
    pub query: &'r str,
    pub headers: &'r HeaderMap,
}

/// A Service that requests are sent to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Backend {
    pub namespace: String,
    pub service: String,
    /// `None` for the Service's first port.
    pub port: Option<u16>,
}

/// A destination behind a Service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    Pod(PodName),
    /// An address in this process, attached in place of a Service.
    Address(SocketAddr),
}

/// The object a rule comes from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Source {
    /// `HTTPRoute`, `VirtualService`, `Ingress`, `IngressRoute` or `Service`.
    pub kind: &'static str,
    pub namespace: String,
    pub name: String,
}

/// The result for a request.
#[derive(Debug)]
pub enum Choice<'t> {
    Forward(Forward<'t>),
    Redirect { status: u16, location: String },
    Refuse(Refusal<'t>),
}

/// Why a request has no target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal<'t> {
    pub status: u16,
    pub reason: &'static str,
    /// The intended Service, if a rule was found.
    pub backend: Option<&'t Backend>,
}

/// A request to be forwarded, with all edits on the way.
#[derive(Debug)]
pub struct Forward<'t> {
    pub source: &'t Source,
    pub backend: &'t Backend,
    pub endpoint: &'t Endpoint,
    /// Copies are sent here; their answers are ignored.
    pub mirrors: Vec<(&'t Backend, &'t Endpoint)>,
    pub timeout: Option<Duration>,
    rule: &'t Rule,
    target: &'t Target,
    prefix: Option<&'t str>,
}

/// The rule that matches a request, before random choices.
#[derive(Debug, Clone, Copy)]
pub struct Found<'t> {
    table: &'t Table,
    rule: &'t Rule,
    prefix: Option<&'t str>,
}

/// A Service in the table.
#[derive(Debug)]
pub(super) struct Service {
    pub(super) ports: BTreeSet<u16>,
    endpoints: Vec<Endpoint>,
    /// The rule for requests to the Service itself.
    plain: Arc<Rule>,
}

/// Every rule of a cluster, in the order in which they are tried.
#[derive(Debug, Default)]
pub struct Table {
    entries: Vec<Entry>,
    /// By namespace and name.
    services: BTreeMap<String, BTreeMap<String, Service>>,
    /// Number of routing objects.
    routes: usize,
}

/// The objects that a table is built from.
#[derive(Debug, Default)]
pub struct Sources<'s> {
    pub http_routes: &'s [Value],
    pub grpc_routes: &'s [Value],
    pub virtual_services: &'s [Value],
    pub reference_grants: &'s [Value],
    pub ingresses: &'s [Value],
    pub ingress_routes: &'s [Value],
    pub traefik_services: &'s [Value],
    pub services: &'s [Value],
    /// Current endpoints by namespace and name of the Service.
    pub endpoints: BTreeMap<(String, String), Vec<Endpoint>>,
}

#[derive(Debug)]
struct Entry {
    host: HostPattern,
    conditions: Vec<Condition>,
    /// The matched path prefix, for rewrites that replace it.
    prefix: Option<String>,
    rule: Arc<Rule>,
}

#[derive(Debug)]
struct Rule {
    source: Source,
    targets: Vec<Target>,
    mirrors: Vec<Mirror>,
    request: Vec<Edit>,
    response: Vec<Edit>,
    rewrite_host: Option<HeaderValue>,
    rewrite_path: Option<PathEdit>,
    redirect: Option<Redirect>,
    timeout: Option<Duration>,
    /// Status of the answer when every weight is zero or there is no target.
    without_target: u16,
    /// Status of the answer when the target Service does not exist.
    without_service: u16,
}

#[derive(Debug)]
struct Target {
    backend: Backend,
    weight: u32,
    /// The Service is in another namespace without a grant.
    is_forbidden: bool,
    request: Vec<Edit>,
    response: Vec<Edit>,
}

#[derive(Debug)]
struct Mirror {
    backend: Backend,
    /// 0 to 1.
    share: f64,
    is_forbidden: bool,
}

/// One match of one rule, with its sort key.
struct Draft {
    precedence: Precedence,
    created: String,
    rule_index: usize,
    match_index: usize,
    hosts: Vec<HostPattern>,
    conditions: Vec<Condition>,
    prefix: Option<String>,
    rule: Arc<Rule>,
}

// === impl Table ===

impl Table {
    pub fn new(sources: Sources<'_>) -> Self {
        let mut drafts = Vec::new();
        gateway_api::read(&sources, &mut drafts);
        istio::read(sources.virtual_services, &mut drafts);
        ingress::read(sources.ingresses, &mut drafts);
        traefik::read(sources.ingress_routes, sources.traefik_services, &mut drafts);
        let routes: BTreeSet<&Source> = drafts.iter().map(|draft| &draft.rule.source).collect();
        let routes = routes.len();
        let mut ordered: Vec<_> = drafts.into_iter().flat_map(Draft::into_entries).collect();
        // Stable: full ties stay as written.
        ordered.sort_by(|(one, _), (other, _)| one.cmp(other));
        let entries = ordered.into_iter().map(|(_, entry)| entry).collect();
        Self { entries, services: services(sources.services, sources.endpoints), routes }
    }

    /// The target of a request. The same number gives the same choice.
    pub fn choose(&self, request: &Request<'_>, random: u64) -> Choice<'_> {
        match self.find(request) {
            Ok(found) => found.draw(request, random),
            Err(refusal) => Choice::Refuse(refusal),
        }
    }

    /// The rule that matches a request.
    pub fn find(&self, request: &Request<'_>) -> Result<Found<'_>, Refusal<'_>> {
        let host = host::normalise(request.host);
        let exact_end =
            self.entries.partition_point(|entry| matches!(entry.host, HostPattern::Exact(_)));
        let (exact, wild) = self.entries.split_at(exact_end);
        let claims = |entries: &[Entry]| entries.iter().any(|entry| entry.host.covers(&host));
        let first = |entries: &'_ [Entry]| {
            entries.iter().position(|entry| entry.host.covers(&host) && entry.matches(request))
        };
        if let Some(entry) = first(exact).and_then(|index| exact.get(index)) {
            return Ok(self.found(entry));
        }
        let is_claimed = claims(exact);
        // The name of a Service is an exact host and comes before wildcards.
        if let Some(key) = self.service_of(&host).filter(|_| !is_claimed) {
            let rule = self.service(&key.0, &key.1).map(|service| &*service.plain);
            let found = rule.map(|rule| Found { table: self, rule, prefix: None });
            return found.ok_or(Refusal::lost("no such Service"));
        }
        if let Some(entry) = first(wild).and_then(|index| wild.get(index)) {
            return Ok(self.found(entry));
        }
        if is_claimed || claims(wild) {
            return Err(Refusal::lost("no rule of this host matches"));
        }
        if self.routes == 1 && host::is_nameless(&host) {
            let entry = self.entries.iter().find(|entry| entry.matches(request));
            return entry
                .map(|entry| self.found(entry))
                .ok_or(Refusal::lost("no rule of the only route matches"));
        }
        Err(Refusal::lost("no route and no Service has this host"))
    }

    /// The hosts of all routes, as written.
    pub fn hosts(&self) -> BTreeSet<String> {
        self.entries.iter().map(|entry| entry.host.to_string()).collect()
    }

    /// True if a route has the host, literally or by a wildcard.
    pub fn claims(&self, host: &str) -> bool {
        let host = host::normalise(host);
        let mut named = self.entries.iter().filter(|entry| entry.host != HostPattern::Any);
        named.any(|entry| entry.host.covers(&host))
    }

    /// The Service that a host names: `shop`, `shop.test`, `shop.test.svc` or in full. A bare name
    /// means the one in `default`, or the only one with that name.
    pub fn service_of(&self, host: &str) -> Option<(String, String)> {
        let host = host::normalise(host);
        let NameParts { service, namespace } = host::service_parts(&host)?;
        if let Some(namespace) = namespace {
            let key = (namespace.to_owned(), service.to_owned());
            return self.service(namespace, service).map(|_| key);
        }
        let homes = self.services.iter().filter(|(_, services)| services.contains_key(service));
        let homes: Vec<_> = homes.map(|(namespace, _)| namespace.as_str()).collect();
        let home = match homes[..] {
            [only] => only,
            _ => *homes.iter().find(|home| **home == "default")?,
        };
        Some((home.to_owned(), service.to_owned()))
    }

    pub(super) fn service(&self, namespace: &str, name: &str) -> Option<&Service> {
        self.services.get(namespace)?.get(name)
    }

    /// The current endpoints of a Service.
    pub fn endpoints(&self, namespace: &str, service: &str) -> &[Endpoint] {
        self.service(namespace, service).map_or(&[], |service| &service.endpoints)
    }

    fn found<'t>(&'t self, entry: &'t Entry) -> Found<'t> {
        Found { table: self, rule: &entry.rule, prefix: entry.prefix.as_deref() }
    }

    /// A random endpoint of a backend, uniformly.
    fn endpoint(&self, backend: &Backend, random: &Random) -> Result<&Endpoint, Missing> {
        let service = self.service(&backend.namespace, &backend.service).ok_or(Missing::Service)?;
        if backend.port.is_some_and(|port| !service.ports.contains(&port)) {
            return Err(Missing::Service);
        }
        let index = random.below(service.endpoints.len() as u64);
        let index = usize::try_from(index).unwrap_or_default();
        service.endpoints.get(index).ok_or(Missing::Endpoints)
    }
}

enum Missing {
    Service,
    Endpoints,
}

fn services(
    objects: &[Value],
    mut endpoints: BTreeMap<(String, String), Vec<Endpoint>>,
) -> BTreeMap<String, BTreeMap<String, Service>> {
    let mut services: BTreeMap<String, BTreeMap<_, _>> = BTreeMap::new();
    let mut put = |key: (String, String), ports, endpoints| {
        let plain = Arc::new(plain_rule(&key));
        services.entry(key.0).or_default().insert(key.1, Service { ports, endpoints, plain });
    };
    for object in objects {
        let key = (namespace(object).to_owned(), name(object).to_owned());
        let ports = items(object, "/spec/ports").iter().filter_map(|port| int(port, "/port"));
        let ports = ports.filter_map(|port| u16::try_from(port).ok()).collect();
        let endpoints = endpoints.remove(&key).unwrap_or_default();
        put(key, ports, endpoints);
    }
    // An attached Service needs no object.
    for (key, endpoints) in endpoints {
        put(key, BTreeSet::new(), endpoints);
    }
    services
}

fn plain_rule((namespace, service): &(String, String)) -> Rule {
    let backend = Backend { namespace: namespace.clone(), service: service.clone(), port: None };
    let source = Source { kind: "Service", namespace: namespace.clone(), name: service.clone() };
    Rule { targets: vec![Target::plain(backend)], ..Rule::empty(source) }
}

// === impl Found ===

impl<'t> Found<'t> {
    /// Makes the random choices of target, endpoint and mirrors.
    pub fn draw(&self, request: &Request<'_>, random: u64) -> Choice<'t> {
        if let Some(redirect) = &self.rule.redirect {
            let location = redirect.location(request, self.prefix);
            return Choice::Redirect { status: redirect.status, location };
        }
        self.draw_forward(random).map_or_else(Choice::Refuse, Choice::Forward)
    }

    fn draw_forward(&self, random: u64) -> Result<Forward<'t>, Refusal<'t>> {
        let rule = self.rule;
        let random = Random::seeded(random);
        let Some(target) = rule.target(&random) else {
            let reason = "the rule has no target with a weight";
            return Err(Refusal { status: rule.without_target, reason, backend: None });
        };
        let refuse =
            |status, reason| Err(Refusal { status, reason, backend: Some(&target.backend) });
        if target.is_forbidden {
            return refuse(rule.without_service, "no ReferenceGrant allows this backend");
        }
        let endpoint = match self.table.endpoint(&target.backend, &random) {
            Ok(endpoint) => endpoint,
            Err(Missing::Service) => {
                return refuse(rule.without_service, "the backend is not a Service there is");
            }
            Err(Missing::Endpoints) => {
                return refuse(503, "the Service has no ready endpoint");
            }
        };
        let mirrors = rule.mirrors.iter().filter_map(|mirror| {
            let is_drawn = !mirror.is_forbidden && random.chance(mirror.share);
            let endpoint = is_drawn.then(|| self.table.endpoint(&mirror.backend, &random).ok());
            Some((&mirror.backend, endpoint.flatten()?))
        });
        Ok(Forward {
            source: &rule.source,
            backend: &target.backend,
            endpoint,
            mirrors: mirrors.collect(),
            timeout: rule.timeout,
            rule,
            target,
            prefix: self.prefix,
        })
    }
}

// === impl Forward ===

impl<'t> Forward<'t> {
    /// The path of the request to the backend.
    pub fn path<'p>(&self, path: &'p str) -> Cow<'p, str> {
        match &self.rule.rewrite_path {
            Some(edit) => Cow::Owned(edit.apply(path, self.prefix)),
            None => Cow::Borrowed(path),
        }
    }

    pub fn edit_request(&self, headers: &mut HeaderMap) {
        if let Some(host) = &self.rule.rewrite_host {
            headers.insert(http::header::HOST, host.clone());
        }
        edit::apply(self.rule.request.iter().chain(&self.target.request), headers);
    }

    pub fn edit_response(&self, headers: &mut HeaderMap) {
        edit::apply(self.rule.response.iter().chain(&self.target.response), headers);
    }

    /// The cookies that [`Forward::edit_response`] would set.
    pub fn cookies(&self) -> impl Iterator<Item = &'t HeaderValue> + use<'t> {
        let edits = self.rule.response.iter().chain(&self.target.response);
        edits.filter_map(|edit| match edit {
            Edit::Add(name, value) | Edit::Set(name, value) => {
                (name == http::header::SET_COOKIE).then_some(value)
            }
            Edit::Remove(_) => None,
        })
    }
}

// === impl Refusal ===

impl Refusal<'_> {
    fn lost(reason: &'static str) -> Self {
        Self { status: 404, reason, backend: None }
    }
}

// === impl Entry ===

impl Entry {
    fn matches(&self, request: &Request<'_>) -> bool {
        self.conditions.iter().all(|condition| condition.holds(request))
    }
}

// === impl Rule ===

impl Rule {
    fn empty(source: Source) -> Self {
        Self {
            source,
            targets: Vec::new(),
            mirrors: Vec::new(),
            request: Vec::new(),
            response: Vec::new(),
            rewrite_host: None,
            rewrite_path: None,
            redirect: None,
            timeout: None,
            without_target: 500,
            without_service: 500,
        }
    }

    /// A random target, in proportion to the weights.
    fn target(&self, random: &Random) -> Option<&Target> {
        let total: u64 = self.targets.iter().map(|target| u64::from(target.weight)).sum();
        let mut drawn = random.below(total);
        self.targets.iter().filter(|target| target.weight > 0).find(|target| {
            let weight = u64::from(target.weight);
            let is_it = drawn < weight;
            drawn = drawn.saturating_sub(weight);
            is_it
        })
    }
}

// === impl Target ===

impl Target {
    fn plain(backend: Backend) -> Self {
        Self { backend, weight: 1, is_forbidden: false, request: Vec::new(), response: Vec::new() }
    }
}

// === impl Draft ===

/// Sort key of a match; smaller is tried first.
type Place =
    (Reverse<(u8, usize)>, &'static str, Reverse<Precedence>, String, Source, usize, usize);

impl Draft {
    fn into_entries(self) -> Vec<(Place, Entry)> {
        let Self { precedence, created, rule_index, match_index, hosts, conditions, prefix, rule } =
            self;
        let entry = |host: HostPattern| {
            let place = (
                Reverse(host.specificity()),
                rule.source.kind,
                Reverse(precedence),
                created.clone(),
                rule.source.clone(),
                rule_index,
                match_index,
            );
            let (conditions, prefix) = (conditions.clone(), prefix.clone());
            (place, Entry { host, conditions, prefix, rule: Arc::clone(&rule) })
        };
        hosts.into_iter().map(entry).collect()
    }
}

/// Creation time in RFC 3339, which sorts like the time itself.
fn created(object: &Value) -> String {
    text(object, "/metadata/creationTimestamp").to_owned()
}
