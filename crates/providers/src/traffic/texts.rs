//! Texts of a canary that its route cannot hold. They are refused before anything is written.
//!
//! The rules are those of the real definitions, so that the API server would refuse the write with Flagger too; and
//! line ends, which a proxy takes for the end of a header or refuses together with the routes of others. Texts that
//! the provider does not write are not looked at.

mod rule;

use std::{borrow::Cow, collections::BTreeMap};

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::Value;
use tidegate_api::{
    canary::{
        CanarySpec,
        analysis::{HeaderMatch, SessionAffinity},
        service::{CorsPolicy, CustomMetadata, HeaderOperations, Service, StringMatch},
    },
    duration::GoDuration,
};

use self::rule::Rule;
use super::{
    Affinity, Impossible, Mesh, RouteFields, RoutingKind, cookie, gateway_api, istio, non_empty,
};

/// Most characters of a value in a route of Gateway API.
const HEADER_VALUE_MAX: usize = 4096;
const QUERY_VALUE_MAX: usize = 1024;
const PATH_MAX: usize = 1024;
/// Most items of a list in a route of Gateway API.
const HOSTS_MAX: usize = 16;
const HEADERS_MAX: usize = 16;
const CORS_MAX: usize = 64;
/// The longest ending of a name that is made from the name of the apex: `-primary`.
const ENDING: usize = 8;
const SERVICE_NAME_MAX: usize = 63;
/// Most bytes of all annotations of an object.
const ANNOTATIONS_MAX: usize = 256 * 1024;
/// The value of a session cookie.
const COOKIE_VALUE: &str = "AbCdEfGhIj";
/// Fields of Istio's traffic policy that are durations.
const DURATIONS: [&str; 4] = ["idleTimeout", "interval", "baseEjectionTime", "warmupDurationSecs"];

/// The refused texts that were found so far.
#[derive(Default)]
struct Found(Vec<Impossible>);

// === impl Mesh ===

impl Mesh {
    /// Texts of the spec that the objects of this provider cannot hold, in clusters whose routes have these fields.
    pub fn unusable_texts(self, spec: &CanarySpec, fields: RouteFields) -> Vec<Impossible> {
        let mut found = Found::default();
        let Some(service) = spec.service.as_ref().filter(|_| self != Self::Knative) else {
            return found.0;
        };
        found.services(spec, service);
        let analysis = &spec.analysis;
        match self.routing_kind(spec) {
            // Only backends are written.
            RoutingKind::None | RoutingKind::Apex | RoutingKind::Reference(_) => return found.0,
            RoutingKind::Route(version) => found.gateway_api(version, spec, service, fields),
            RoutingKind::Istio => found.istio(spec, service),
            RoutingKind::Router(_) => found.others(self, service),
        }
        let capabilities = self.capabilities(spec);
        if capabilities.ab && !matches!(self.routing_kind(spec), RoutingKind::Route(_)) {
            for (index, condition) in analysis.matches.iter().enumerate() {
                found.lines(&format!("spec.analysis.match[{index}]"), &json(condition));
            }
        }
        if let Some(affinity) =
            analysis.session_affinity.as_ref().filter(|_| capabilities.affinity != Affinity::None)
        {
            let is_bounded = matches!(self.routing_kind(spec), RoutingKind::Route(_));
            found.cookies(affinity, is_bounded);
        }
        found.0
    }
}

// === impl Found ===

impl Found {
    fn refuse(&mut self, field: impl Into<Cow<'static, str>>, why: impl Into<String>) {
        self.0.push(Impossible { field: field.into(), why: why.into() });
    }

    fn check(&mut self, rule: Rule, field: impl Into<Cow<'static, str>>, text: &str) {
        if let Some(why) = rule.refusal(text) {
            self.refuse(field, why);
        }
    }

    fn check_all(&mut self, rule: Rule, field: &str, texts: &[String]) {
        for (index, text) in texts.iter().enumerate() {
            self.check(rule, format!("{field}[{index}]"), text);
        }
    }

    /// A text that counts for nothing where it is empty.
    fn check_some(&mut self, rule: Rule, field: &'static str, text: Option<&String>) {
        if let Some(text) = non_empty(text) {
            self.check(rule, field, text);
        }
    }

    fn at_most(&mut self, max: usize, field: impl Into<Cow<'static, str>>, count: usize) {
        if count > max {
            self.refuse(field, format!("has {count} entries; a route has at most {max}"));
        }
    }

    /// Every key and text of a value is a line.
    fn lines(&mut self, field: &str, value: &Value) {
        match value {
            Value::String(text) => self.check(Rule::Line, field.to_owned(), text),
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.lines(&format!("{field}[{index}]"), item);
                }
            }
            Value::Object(members) => {
                for (key, member) in members {
                    let field = below(field, key);
                    self.check(Rule::Name, field.clone(), key);
                    self.lines(&field, member);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// The Services, which every provider has.
    fn services(&mut self, spec: &CanarySpec, service: &Service) {
        let field =
            if service.name.is_some() { "spec.service.name" } else { "spec.targetRef.name" };
        let apex = spec.apex_name();
        match Rule::Label.refusal(apex) {
            Some(why) => self.refuse(field, format!("{why}, as the name of a Service")),
            None if apex.len() + ENDING > SERVICE_NAME_MAX => {
                let length = apex.len();
                let why = format!(
                    "has {length} characters; with -primary it is longer than the \
                     {SERVICE_NAME_MAX} of a Service"
                );
                self.refuse(field, why);
            }
            None => {}
        }
        self.check_some(Rule::Label, "spec.service.portName", service.port_name.as_ref());
        self.check_some(Rule::LabelKey, "spec.service.appProtocol", service.app_protocol.as_ref());
        if let Some(IntOrString::String(name)) = &service.target_port {
            self.check(Rule::PortName, "spec.service.targetPort", name);
        }
        let sides =
            [("apex", &service.apex), ("primary", &service.primary), ("canary", &service.canary)];
        for (side, metadata) in sides {
            if let Some(CustomMetadata { labels, annotations }) = metadata {
                let field = |member: &str| format!("spec.service.{side}.{member}");
                for (key, value) in labels {
                    let field = below(&field("labels"), key);
                    self.check(Rule::LabelKey, field.clone(), key);
                    self.check(Rule::LabelValue, field, value);
                }
                for key in annotations.keys() {
                    self.check(Rule::AnnotationKey, below(&field("annotations"), key), key);
                }
                let size: usize =
                    annotations.iter().map(|(key, value)| key.len() + value.len()).sum();
                if size > ANNOTATIONS_MAX {
                    let why = format!("has {size} bytes; an object has at most {ANNOTATIONS_MAX}");
                    self.refuse(field("annotations"), why);
                }
            }
        }
    }

    fn gateway_api(
        &mut self,
        version: gateway_api::Version,
        spec: &CanarySpec,
        service: &Service,
        fields: RouteFields,
    ) {
        self.at_most(HOSTS_MAX, "spec.service.hosts", service.hosts.len());
        self.check_all(Rule::Host { wildcard: true }, "spec.service.hosts", &service.hosts);
        for (index, condition) in service.matches.iter().enumerate() {
            let field = format!("spec.service.match[{index}]");
            if let Some(uri) = &condition.uri {
                self.path(version, &format!("{field}.uri"), uri);
            }
            let method = condition.method.as_ref().and_then(|it| non_empty(it.exact.as_ref()));
            if let Some(method) = method {
                self.check(Rule::Method, format!("{field}.method.exact"), method);
            }
            self.comparisons(&format!("{field}.headers"), HEADER_VALUE_MAX, &condition.headers);
            self.comparisons(
                &format!("{field}.queryParams"),
                QUERY_VALUE_MAX,
                &condition.query_params,
            );
        }
        for (index, condition) in spec.analysis.matches.iter().enumerate() {
            let field = format!("spec.analysis.match[{index}]");
            let compared = |(name, header): (&String, &HeaderMatch)| {
                let (exact, regex) = (header.exact.clone(), header.regex.clone());
                (name.clone(), StringMatch { exact, prefix: None, regex })
            };
            let headers = condition.headers.iter().map(compared).collect();
            self.comparisons(&format!("{field}.headers"), HEADER_VALUE_MAX, &headers);
            self.comparisons(
                &format!("{field}.queryParams"),
                QUERY_VALUE_MAX,
                &condition.query_params,
            );
        }
        self.header_operations(service, Rule::Token, Rule::ValueOf(HEADER_VALUE_MAX));
        if let Some(rewrite) = &service.rewrite {
            let host = Rule::Host { wildcard: false };
            self.check_some(host, "spec.service.rewrite.authority", rewrite.authority.as_ref());
            let path = Rule::LineOf(PATH_MAX);
            self.check_some(path, "spec.service.rewrite.uri", rewrite.uri.as_ref());
        }
        if fields.timeouts && !version.is_grpc() {
            let (request, backend) = (&service.timeout, &service.backend_timeout);
            self.check_some(Rule::GatewayDuration, "spec.service.timeout", request.as_ref());
            self.check_some(Rule::GatewayDuration, "spec.service.backendTimeout", backend.as_ref());
            let [request, backend] = [request, backend].map(|it| nanoseconds(it.as_deref()));
            if request > 0 && backend > request {
                self.refuse("spec.service.backendTimeout", "must not be longer than timeout");
            }
        }
        if let Some(policy) = service.cors_policy.as_ref().filter(|_| fields.cors) {
            self.cors(policy);
        }
    }

    fn path(&mut self, version: gateway_api::Version, field: &str, uri: &StringMatch) {
        let [regex, exact, prefix] =
            [&uri.regex, &uri.exact, &uri.prefix].map(|text| non_empty(text.as_ref()));
        match (regex, exact.map(|it| ("exact", it)).or(prefix.map(|it| ("prefix", it)))) {
            (Some(regex), _) => {
                self.check(Rule::LineOf(PATH_MAX), format!("{field}.regex"), regex);
            }
            (None, Some((kind, path))) if version.is_grpc() => {
                let field = format!("{field}.{kind}");
                // Paths of another form are refused as a whole.
                match *path.trim_matches('/').split('/').collect::<Vec<_>>() {
                    [call] if kind == "prefix" && !call.is_empty() => {
                        self.check(Rule::GrpcService, field, call);
                    }
                    [call, method] if kind == "exact" => {
                        self.check(Rule::GrpcService, field.clone(), call);
                        self.check(Rule::GrpcMethod, field, method);
                    }
                    _ => self.check(Rule::Line, field, path),
                }
            }
            (None, Some((kind, path))) => self.check(Rule::Path, format!("{field}.{kind}"), path),
            (None, None) => {}
        }
    }

    /// Headers or query parameters of a condition, as Gateway API compares them.
    fn comparisons(&mut self, field: &str, max: usize, texts: &BTreeMap<String, StringMatch>) {
        self.at_most(HEADERS_MAX, field.to_owned(), texts.len());
        for (name, text) in texts {
            let field = below(field, name);
            self.check(Rule::Token, field.clone(), name);
            let value = non_empty(text.exact.as_ref()).or(non_empty(text.regex.as_ref()));
            self.check(Rule::LineOf(max), field, value.unwrap_or_default());
        }
    }

    fn header_operations(&mut self, service: &Service, names: Rule, values: Rule) {
        let Some(headers) = &service.headers else { return };
        for (way, operations) in [("request", &headers.request), ("response", &headers.response)] {
            let Some(HeaderOperations { add, set, remove }) = operations else { continue };
            let field = |member: &str| format!("spec.service.headers.{way}.{member}");
            for (member, entries) in [("add", add), ("set", set)] {
                for (name, value) in entries {
                    let field = below(&field(member), name);
                    self.check(names, field.clone(), name);
                    self.check(values, field, value);
                }
            }
            self.check_all(Rule::Name, &field("remove"), remove);
            if names == Rule::Token {
                self.at_most(HEADERS_MAX, field("add"), add.len());
                self.at_most(HEADERS_MAX, field("set"), set.len());
                self.at_most(HEADERS_MAX, field("remove"), remove.len());
                self.once(&field("remove"), remove);
            }
        }
    }

    fn once(&mut self, field: &str, texts: &[String]) {
        let again = texts
            .iter()
            .enumerate()
            .find(|(index, text)| texts.iter().take(*index).any(|it| it == *text));
        if let Some((index, _)) = again {
            self.refuse(format!("{field}[{index}]"), "is listed twice");
        }
    }

    fn cors(&mut self, policy: &CorsPolicy) {
        let field = |member: &str| format!("spec.service.corsPolicy.{member}");
        let exact = policy.allow_origins.iter().filter_map(|origin| origin.exact.clone());
        let origins: Vec<_> = policy.allow_origin.iter().cloned().chain(exact).collect();
        let origins_at =
            if policy.allow_origin.is_empty() { "allowOrigins" } else { "allowOrigin" };
        let lists = [
            (origins_at, Rule::Origin, &origins),
            ("allowMethods", Rule::MethodOrAny, &policy.allow_methods),
            ("allowHeaders", Rule::Token, &policy.allow_headers),
            ("exposeHeaders", Rule::Token, &policy.expose_headers),
        ];
        for (member, rule, texts) in lists {
            let field = field(member);
            self.at_most(CORS_MAX, field.clone(), texts.len());
            self.check_all(rule, &field, texts);
            self.once(&field, texts);
            let has_all = texts.len() > 1 && texts.iter().any(|text| text == "*");
            if has_all && member != "exposeHeaders" {
                self.refuse(field, "* cannot stand beside others");
            }
        }
    }

    fn istio(&mut self, spec: &CanarySpec, service: &Service) {
        self.check_all(Rule::Word, "spec.service.hosts", &service.hosts);
        self.check_all(Rule::Word, "spec.service.gateways", &service.gateways);
        if let Some(policy) = &service.traffic_policy {
            let policy = json(policy);
            self.lines("spec.service.trafficPolicy", &policy);
            self.durations("spec.service.trafficPolicy", &policy);
        }
        if istio::routes_connections(spec) {
            return;
        }
        for (index, condition) in service.matches.iter().enumerate() {
            self.lines(&format!("spec.service.match[{index}]"), &json(condition));
        }
        self.header_operations(service, Rule::Name, Rule::Line);
        if let Some(rewrite) = &service.rewrite {
            self.check_some(Rule::Line, "spec.service.rewrite.uri", rewrite.uri.as_ref());
            self.check_some(
                Rule::Line,
                "spec.service.rewrite.authority",
                rewrite.authority.as_ref(),
            );
        }
        self.check_some(Rule::Duration, "spec.service.timeout", service.timeout.as_ref());
        if let Some(retries) = &service.retries {
            let field = "spec.service.retries.perTryTimeout";
            self.check_some(Rule::Duration, field, retries.per_try_timeout.as_ref());
            self.check_some(Rule::Line, "spec.service.retries.retryOn", retries.retry_on.as_ref());
        }
        if let Some(policy) = &service.cors_policy {
            self.lines("spec.service.corsPolicy", &json(policy));
            let max_age = policy.max_age.as_ref();
            self.check_some(Rule::Duration, "spec.service.corsPolicy.maxAge", max_age);
        }
    }

    fn durations(&mut self, field: &str, value: &Value) {
        for (key, member) in value.as_object().into_iter().flatten() {
            let field = below(field, key);
            match member.as_str().filter(|text| !text.is_empty()) {
                Some(text) if DURATIONS.contains(&key.as_str()) => {
                    self.check(Rule::Duration, field, text);
                }
                Some(_) => {}
                None => self.durations(&field, member),
            }
        }
    }

    /// Providers whose routes have a few texts, by the fields that they write.
    fn others(&mut self, mesh: Mesh, service: &Service) {
        let written = mesh.support().fields;
        let is_written = |member: &str| written.contains(&member);
        if is_written("hosts") {
            self.check_all(Rule::Line, "spec.service.hosts", &service.hosts);
        }
        if is_written("meshName") {
            self.check_some(Rule::Line, "spec.service.meshName", service.mesh_name.as_ref());
        }
        if is_written("backends") {
            self.check_all(Rule::Line, "spec.service.backends", &service.backends);
        }
        let first = service.matches.first().filter(|_| is_written("match"));
        let prefix = first.and_then(|it| it.uri.as_ref()?.prefix.as_ref());
        self.check_some(Rule::Line, "spec.service.match[0].uri.prefix", prefix);
        let is_contour = mesh == Mesh::Contour;
        let duration = if is_contour { Rule::ContourDuration } else { Rule::Line };
        if is_written("timeout") {
            self.check_some(duration, "spec.service.timeout", service.timeout.as_ref());
        }
        let Some(retries) = service.retries.as_ref().filter(|_| is_written("retries")) else {
            return;
        };
        let per_try = retries.per_try_timeout.as_ref();
        self.check_some(duration, "spec.service.retries.perTryTimeout", per_try);
        let kinds = retries.retry_on.as_deref().unwrap_or_default().split(',').map(str::trim);
        for kind in kinds.filter(|kind| !kind.is_empty()) {
            let rule = if is_contour { Rule::ContourRetry } else { Rule::Line };
            self.check(rule, "spec.service.retries.retryOn", kind);
        }
    }

    /// Cookies become values of headers, and patterns of conditions; Gateway API bounds the length of both.
    fn cookies(&mut self, affinity: &SessionAffinity, is_bounded: bool) {
        let path = |member: &str| format!("spec.analysis.sessionAffinity.{member}");
        let attributes = [("domain", &affinity.domain), ("path", &affinity.path)];
        let attributes = attributes.map(|(member, text)| (member, non_empty(text.as_ref())));
        let names = [
            ("cookieName", Some(affinity.cookie_name.as_str())),
            ("primaryCookieName", non_empty(affinity.primary_cookie_name.as_ref())),
        ];
        if affinity.cookie_name.is_empty() {
            self.check(Rule::Name, path("cookieName"), "");
        }
        for (member, text) in names.into_iter().chain(attributes) {
            self.check(Rule::Attribute, path(member), text.unwrap_or_default());
        }
        for named in names.into_iter().filter(|_| is_bounded) {
            let Some(name) = named.1 else { continue };
            let cookie = format!("{name}={COOKIE_VALUE}");
            let length = cookie::set(&cookie, affinity, i64::MAX).chars().count();
            let length = length.max(cookie::pattern(&cookie).chars().count());
            let texts = [named].into_iter().chain(attributes);
            let longest = texts.max_by_key(|(_, text)| text.map_or(0, str::len));
            if let Some((member, _)) = longest.filter(|_| length > HEADER_VALUE_MAX) {
                let why = format!(
                    "makes a header of {length} characters; a route takes at most {HEADER_VALUE_MAX}"
                );
                self.refuse(path(member), why);
            }
        }
    }
}

/// The path of a member. A key that is no name is shown escaped and cut: the path goes into logs and conditions.
fn below(field: &str, key: &str) -> String {
    const SHOWN: usize = 40;
    let shown: String = key.chars().take(SHOWN).flat_map(char::escape_debug).collect();
    let rest = if key.chars().count() > SHOWN { "…" } else { "" };
    format!("{field}.{shown}{rest}")
}

/// The length of a duration; 0 for none.
fn nanoseconds(text: Option<&str>) -> i64 {
    let duration = text.and_then(|text| text.parse::<GoDuration>().ok());
    duration.map_or(0, GoDuration::as_nanos)
}

fn json(value: &impl serde::Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}
