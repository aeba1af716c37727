//! APISIX: a copy of one rule of the user's `ApisixRoute`, which wins over the original.
//!
//! The copy follows its original at every look; only the weights are its own.

use serde_json::{Value, json};
use tidegate_api::canary::RouteKind;
use tidegate_engine::{Percent, Split};

use super::{
    Place, RouteCase, RouteCx, RouteError,
    cloned_object::{self, CloneSource, CloneSpec, ClonedRoute},
    desired_object::escaped,
    plan::LiveRule,
    weighted_backends::BackendSchema,
};
use crate::object::{Change, Kind, exactly};

const APISIX_ROUTE: Kind =
    Kind { group: "apisix.apache.org", version: "v2", kind: "ApisixRoute", plural: "apisixroutes" };

const BACKENDS: BackendSchema = BackendSchema {
    rules: "/spec/http",
    backends: &["/backends"],
    name: "/serviceName",
    begins: false,
    absent: 0,
    conditions: &[],
};
/// Wins over rules without a priority; as Flagger.
const PRIORITY: i64 = 10_000;

/// The router of APISIX.
#[derive(Debug)]
pub(super) struct Apisix;

fn original_name<'a>(cx: &RouteCx<'a>) -> Option<&'a str> {
    let reference = cx.spec.route_ref.as_ref()?;
    let is_it = reference.kind == RouteKind::ApisixRoute && !reference.name.is_empty();
    is_it.then_some(reference.name.as_str())
}

/// The rule of the user's route that leads to the apex, and its one backend.
fn rule_of<'l>(
    case: &RouteCase<'_>,
    route: &'l Value,
) -> Result<(&'l Value, &'l Value), RouteError> {
    let malformed = |why: String| {
        let name = original_name(case.cx).unwrap_or_default();
        let object = Place::new(APISIX_ROUTE, case.cx.owner.namespace, name);
        RouteError::Malformed { object, why }
    };
    let apex = &case.names.apex;
    let rules = route["spec"]["http"].as_array().map(Vec::as_slice).unwrap_or_default();
    if rules.is_empty() {
        return Err(malformed("it has no rules for HTTP".to_owned()));
    }
    let backends = |rule: &'l Value| rule["backends"].as_array().map(Vec::as_slice);
    let leads = |rule: &&'l Value| {
        backends(rule).into_iter().flatten().any(|backend| backend["serviceName"] == **apex)
    };
    let rule = rules.iter().find(leads);
    let rule = rule.ok_or_else(|| malformed(format!("no rule of it leads to Service {apex}")))?;
    match backends(rule) {
        Some([backend]) => Ok((rule, backend)),
        _ => Err(malformed(format!("the rule to Service {apex} has more backends than that"))),
    }
}

/// Above every rule of the original.
fn priority(route: &Value) -> i64 {
    let rules = route["spec"]["http"].as_array().into_iter().flatten();
    let highest = rules.filter_map(|rule| rule["priority"].as_i64()).max();
    highest.map_or(PRIORITY, |highest| highest.saturating_add(1).max(PRIORITY))
}

impl ClonedRoute for Apisix {
    fn kind(&self) -> &'static Kind {
        &APISIX_ROUTE
    }

    fn original_name<'a>(&self, cx: &RouteCx<'a>) -> Option<&'a str> {
        original_name(cx)
    }

    fn copy_name(&self, cx: &RouteCx<'_>) -> String {
        // Of any kind: a reference that is edited into a wrong one is still reset by this copy.
        let named = cx.spec.route_ref.as_ref().map_or("", |route| route.name.as_str());
        format!("{named}-{}-canary", cx.spec.apex_name())
    }

    fn check(&self, case: &RouteCase<'_>) -> Result<(), RouteError> {
        if original_name(case.cx).is_none() {
            let why = "the provider \"apisix\" needs the ApisixRoute that leads to the apex";
            return Err(case.refuse("spec.routeRef", why));
        }
        Ok(())
    }

    fn seen(&self, case: &RouteCase<'_>, route: &Value) -> Option<LiveRule> {
        BACKENDS.seen(route, &case.sides())
    }

    fn copy(
        &self,
        case: &RouteCase<'_>,
        from: &CloneSource<'_>,
        split: Split,
    ) -> Result<CloneSpec, RouteError> {
        let original = from.original;
        let (rule, backend) = rule_of(case, original)?;
        let side = |name: &str, percent: Percent| {
            let mut side = backend.clone();
            side["serviceName"] = json!(name);
            side["weight"] = json!(percent.get());
            side
        };
        let (names, canary) = (&case.names, split.canary);
        let mut rule = rule.clone();
        rule["priority"] = json!(priority(original));
        rule["backends"] =
            json!([side(&names.primary, canary.rest()), side(&names.canary, canary)]);
        let mut spec = original["spec"].clone();
        spec["http"] = json!([rule]);
        if let Some(fields) = spec.as_object_mut() {
            // Connections would have two routes: they are not divided.
            fields.remove("stream");
        }
        let mut exact = exactly(&["/spec/stream"]);
        let fields = spec.as_object().into_iter().flatten();
        exact.extend(fields.map(|(key, _)| format!("/spec/{}", escaped(key)).into()));
        Ok(CloneSpec { annotations: cloned_object::annotations(original, |_| true), spec, exact })
    }

    fn reset_to_primary(&self, case: &RouteCase<'_>, route: &Value) -> Option<Change> {
        BACKENDS.reset_to_primary(APISIX_ROUTE, route, &case.sides())
    }
}
