//! Contour: one `HTTPProxy` without a host, which the user's own root proxy includes.
//!
//! In A/B testing there is a route for each alternative and one for the rest. A route has one prefix
//! and any number of headers: Contour takes a route with two prefixes for invalid and answers errors.

use serde_json::{Map, Value, json};
use tidegate_api::canary::service::Retries;
use tidegate_engine::{Percent, Split};

use super::{
    RouteCase, RouteCx, RouteError,
    desired_object::DesiredObject,
    headers::{Header, How, conditions},
    non_empty,
    plan::LiveRule,
    router::{Router, of_apex, put},
    weighted_backends::{BackendSchema, Found, Part, fields, over, parts},
};
use crate::object::{Change, Kind, Live, exactly};

const HTTP_PROXY: Kind =
    Kind { group: "projectcontour.io", version: "v1", kind: "HTTPProxy", plural: "httpproxies" };

const BACKENDS: BackendSchema = BackendSchema {
    rules: "/spec/routes",
    backends: &["/services"],
    name: "/name",
    begins: false,
    absent: 0,
    conditions: &[("/conditions", "/header")],
};
const FIELDS: &[&str] = &["/spec/routes"];
const CLASS: &str = "/spec/ingressClassName";
const OWN_RULE: &[&str] = &["conditions", "services", "timeoutPolicy", "retryPolicy"];
const OWN_MEMBER: &[&str] = &["name", "port", "weight", "requestHeadersPolicy"];
/// How headers can be compared. Contour knows no beginning and no end: both become `contains`, as in
/// Flagger.
const CAN: &[How] = &[How::Exact, How::Prefix, How::Suffix];
/// Longest silence on a connection with a timeout; as Flagger.
const IDLE: &str = "5m";
/// Tells a Linkerd proxy beside Contour where a request goes.
const LINKERD_HEADER: &str = "l5d-dst-override";

/// The router of Contour.
#[derive(Debug)]
pub(super) struct Contour;

fn rule(case: &RouteCase<'_>, part: &Part<Vec<Header<'_>>>, found: Option<Found<'_>>) -> Value {
    let prefix = json!({ "prefix": case.path_prefix() });
    let headers = part.of.iter().flatten().map(|header| json!({ "header": compared(header) }));
    let conditions: Vec<_> = [prefix].into_iter().chain(headers).collect();
    let timeout = non_empty(case.service.timeout.as_ref());
    let wanted = fields([
        ("conditions", Some(Value::Array(conditions))),
        ("timeoutPolicy", timeout.map(|timeout| json!({ "response": timeout, "idle": IDLE }))),
        ("retryPolicy", case.service.retries.as_ref().map(retries)),
        ("services", Some(Value::Array(services(case, found, part.canary)))),
    ]);
    over(found.map(|found| found.rule), OWN_RULE, Value::Object(wanted))
}

fn compared(header: &Header<'_>) -> Value {
    let how = match header.how {
        How::Exact => "exact",
        How::Prefix | How::Suffix | How::Regex => "contains",
    };
    json!({ "name": header.name, how: header.value })
}

/// Retries, without empty fields: the definition knows no empty kind of failure. It does have a
/// default for the count, which is written out: a value that the server fills in would be a
/// difference.
fn retries(retries: &Retries) -> Value {
    let kinds = non_empty(retries.retry_on.as_ref()).unwrap_or_default().split(',').map(str::trim);
    let kinds: Vec<_> = kinds.filter(|kind| !kind.is_empty()).collect();
    Value::Object(fields([
        ("count", Some(json!(retries.attempts.unwrap_or(1)))),
        (
            "perTryTimeout",
            non_empty(retries.per_try_timeout.as_ref()).map(|timeout| json!(timeout)),
        ),
        ("retryOn", Some(json!(kinds)).filter(|_| !kinds.is_empty())),
    ]))
}

fn services(case: &RouteCase<'_>, found: Option<Found<'_>>, canary: Percent) -> Vec<Value> {
    let (namespace, port) = (case.cx.owner.namespace, case.service.port);
    let service = |name: &str, percent: Percent, live: Option<&Value>| {
        let to = format!("{name}.{namespace}.svc.cluster.local:{port}");
        let header = json!({ "name": LINKERD_HEADER, "value": to });
        let wanted = json!({
            "name": name,
            "port": port,
            "weight": percent.get(),
            "requestHeadersPolicy": with_header(live, header),
        });
        over(live, OWN_MEMBER, wanted)
    };
    let names = &case.names;
    vec![
        service(&names.primary, canary.rest(), found.and_then(|found| found.primary)),
        service(&names.canary, canary, found.and_then(|found| found.canary)),
    ]
}

/// The header policy of a live member, with our header in it.
fn with_header(live: Option<&Value>, header: Value) -> Value {
    let mut policy = live.map(|live| live["requestHeadersPolicy"].clone()).unwrap_or_default();
    if !policy.is_object() {
        policy = json!({});
    }
    let others = policy["set"].as_array().into_iter().flatten();
    let others = others.filter(|other| other["name"] != LINKERD_HEADER).cloned();
    policy["set"] = [header].into_iter().chain(others).collect();
    policy
}

impl Router for Contour {
    fn kinds(&self) -> &'static [Kind] {
        &[HTTP_PROXY]
    }

    fn route(&self, cx: &RouteCx<'_>) -> (Kind, String) {
        (HTTP_PROXY, cx.spec.service_names().apex)
    }

    fn check(&self, case: &RouteCase<'_>) -> Result<(), RouteError> {
        conditions(case, CAN).map(|_| ())
    }

    fn seen(&self, case: &RouteCase<'_>, route: &Value) -> Option<LiveRule> {
        BACKENDS.seen(route, &case.sides())
    }

    fn write(
        &self,
        case: &RouteCase<'_>,
        live: &Live,
        split: Split,
    ) -> Result<Option<Change>, RouteError> {
        let found = self.found(case, live).and_then(|route| BACKENDS.divided(route, &case.sides()));
        let parts = parts(case, split.canary, conditions(case, CAN)?);
        let routes: Vec<_> = parts.iter().map(|part| rule(case, part, found)).collect();
        let mut spec = json!({ "routes": routes });
        let mut exact = exactly(FIELDS);
        let class = case.cx.ingress.class;
        if !class.is_empty() {
            spec["ingressClassName"] = json!(class);
            exact.push(CLASS.into());
        }
        let (labels, annotations) = of_apex(case);
        let desired = DesiredObject {
            kind: HTTP_PROXY,
            name: case.names.apex.clone(),
            labels,
            annotations,
            spec,
            beside: Map::new(),
            exact,
            shaped: found.is_some(),
        };
        put(&case.cx.owner, live, desired)
    }

    fn reset_to_primary(&self, case: &RouteCase<'_>, route: &Value) -> Option<Change> {
        BACKENDS.reset_to_primary(HTTP_PROXY, route, &case.sides())
    }
}
