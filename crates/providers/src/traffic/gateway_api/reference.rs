//! A route of the user's that the canary refers to: only its backends are divided.
//!
//! ```text
//!   - name: shop      becomes    - name: shop-primary   weight: 80
//!                                - name: shop-canary    weight: 20      and in the end  - name: shop
//! ```
//!
//! Conditions, filters, hosts and gateways stay the user's, who may edit them at any time: nothing is backed
//! up, since the restore is the same change in reverse. An annotation lists the canaries it is divided for,
//! so that it is restored when one of them refers to another route, and is never taken for a route of our
//! own. A rule that divides traffic between the apex and others is refused: the canary's share of the apex's
//! share would differ from its weight.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use tidegate_engine::Split;

use super::{Version, WEIGHT_DEFAULT, ready};
use crate::{
    object::{Change, FLUX_OFF, Kind, Live},
    traffic::{
        Place, RouteCase, RouteError,
        desired_object::{alike, refuse_taken},
        takeover::{applied_annotations, ours_on},
        weights::{Weights, weight},
    },
};

/// Names the canaries for which backends of a route are divided.
const DIVIDED_FOR: &str = "tidegate.dev/divided-for";

/// One rule, by the kind of its backends.
enum Found<'r> {
    /// None of ours.
    Other,
    /// The apex alone, as the user wrote it.
    Apex(&'r Value),
    /// Both sides, as we wrote it.
    Sides { primary: &'r Value, canary: &'r Value },
    /// Ours among others.
    Mixed,
}

/// Divides backends that are not divided yet, with traffic as it is in those that are.
pub(in crate::traffic) fn reconcile(
    version: Version,
    case: &RouteCase<'_>,
    live: &Live,
) -> Result<Vec<Change>, RouteError> {
    let route = route(version, case, live)?;
    let seen = sides(case, route).next().and_then(|(primary, canary)| of(primary, canary));
    let canary = seen.and_then(Weights::nearest).unwrap_or(case.cx.inherited.canary);
    divide(version, case, route, Split::canary(canary))
}

/// The split, if all divided rules agree on it, once the parents of the route accepted it.
pub(in crate::traffic) fn read(
    version: Version,
    case: &RouteCase<'_>,
    live: &Live,
) -> Result<Split, RouteError> {
    let route = route(version, case, live)?;
    let object = place(version, case);
    if let Some((parent, why)) = ready::obstacle(route, case.cx.owner.namespace) {
        return Err(RouteError::NotReady { object, parent, why });
    }
    let splits: Vec<_> = sides(case, route).map(|(primary, canary)| of(primary, canary)).collect();
    let malformed = |why: &str| {
        let (primary, canary) = (&case.names.primary, &case.names.canary);
        RouteError::Malformed {
            object: object.clone(),
            why: format!("{why} {primary} and {canary}"),
        }
    };
    let first = splits.first().ok_or_else(|| malformed("no rule divides traffic between"))?;
    if splits.iter().any(|split| split != first) {
        return Err(malformed("its rules do not agree on the weights of"));
    }
    let exact = first.and_then(Weights::exact).map(Split::canary);
    exact.ok_or_else(|| malformed("weights do not add up to 100 for"))
}

/// Divides the backends like this.
pub(in crate::traffic) fn write(
    version: Version,
    case: &RouteCase<'_>,
    live: &Live,
    split: Split,
) -> Result<Vec<Change>, RouteError> {
    divide(version, case, route(version, case, live)?, split)
}

/// Makes the apex the backend again, and removes the fields that were written beside it. A route
/// that is gone needs nothing.
pub(in crate::traffic) fn finalize(
    version: Version,
    case: &RouteCase<'_>,
    live: &Live,
) -> Vec<Change> {
    let Ok(route) = route(version, case, live) else { return Vec::new() };
    undo(version.kind, case, route).into_iter().collect()
}

/// Whether backends of a route are divided for any canary.
pub(in crate::traffic) fn is_divided(route: &Value) -> bool {
    divided_for(route).next().is_some()
}

/// Undoes this canary's changes to a route that it no longer refers to.
pub(in crate::traffic) fn undo_previous(
    kind: Kind,
    case: &RouteCase<'_>,
    route: &Value,
) -> Option<Change> {
    let is_ours = divided_for(route).any(|canary| canary == case.cx.owner.name);
    let is_taken = refuse_taken(&case.cx.owner, kind, Some(route)).is_err();
    if is_ours && !is_taken { undo(kind, case, route) } else { None }
}

fn undo(kind: Kind, case: &RouteCase<'_>, route: &Value) -> Option<Change> {
    let rules = rewritten(case, route, |found| match found {
        Found::Sides { primary, .. } => {
            Some(vec![backend(primary, &case.names.apex, WEIGHT_DEFAULT)])
        }
        Found::Apex(_) | Found::Other | Found::Mixed => None,
    });
    let others = divided_for(route).filter(|canary| *canary != case.cx.owner.name);
    let others = others.collect::<Vec<_>>().join(",");
    let mut annotations = Map::new();
    if others.is_empty() {
        annotations = ours_on(route, &applied_annotations(route));
        let mark = route["metadata"]["annotations"].get(DIVIDED_FOR);
        annotations.extend(mark.map(|_| (DIVIDED_FOR.to_owned(), Value::Null)));
    } else {
        // Backends of another canary are still divided, and Flux must not undo that.
        annotations.insert(DIVIDED_FOR.to_owned(), json!(others));
    }
    // Its owner may have restored the rules already: Flux must not be disabled for ever.
    let is_marked = divided_for(route).any(|canary| canary == case.cx.owner.name);
    let is_whole = alike(&json!(rules), &route["spec"]["rules"]);
    if !is_whole {
        return change(kind, route, rules, annotations);
    }
    let metadata = json!({
        "resourceVersion": route["metadata"]["resourceVersion"], "annotations": annotations,
    });
    let name = route["metadata"]["name"].as_str().filter(|_| is_marked)?.to_owned();
    Some(Change::Merge { kind, name, patch: json!({ "metadata": metadata }) })
}

fn divided_for(route: &Value) -> impl Iterator<Item = &str> {
    let names = route["metadata"]["annotations"][DIVIDED_FOR].as_str().unwrap_or_default();
    names.split(',').filter(|name| !name.is_empty())
}

fn place(version: Version, case: &RouteCase<'_>) -> Place {
    let named = case.cx.spec.route_ref.as_ref().map_or("", |route| route.name.as_str());
    Place::new(version.kind, case.cx.owner.namespace, named)
}

fn route<'l>(
    version: Version,
    case: &RouteCase<'_>,
    live: &'l Live,
) -> Result<&'l Value, RouteError> {
    let object = place(version, case);
    let route = live.get(version.kind, &object.name);
    refuse_taken(&case.cx.owner, version.kind, route)?;
    route.ok_or(RouteError::Missing { object })
}

fn rules(route: &Value) -> &[Value] {
    route["spec"]["rules"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The divided rules: primary and canary of each.
fn sides<'r>(
    case: &RouteCase<'_>,
    route: &'r Value,
) -> impl Iterator<Item = (&'r Value, &'r Value)> {
    rules(route).iter().filter_map(|rule| match found(case, rule) {
        Found::Sides { primary, canary } => Some((primary, canary)),
        Found::Other | Found::Apex(_) | Found::Mixed => None,
    })
}

fn found<'r>(case: &RouteCase<'_>, rule: &'r Value) -> Found<'r> {
    let backends = rule["backendRefs"].as_array().map(Vec::as_slice).unwrap_or_default();
    let names = &case.names;
    let is = |backend: &Value, name: &str| {
        let own = case.cx.owner.namespace;
        backend["name"] == *name
            && backend["kind"].as_str().is_none_or(|kind| kind == "Service")
            && backend["group"].as_str().is_none_or(str::is_empty)
            && backend["namespace"].as_str().is_none_or(|namespace| namespace == own)
    };
    match backends {
        [apex] if is(apex, &names.apex) => Found::Apex(apex),
        [primary, canary] | [canary, primary]
            if is(primary, &names.primary) && is(canary, &names.canary) =>
        {
            Found::Sides { primary, canary }
        }
        others => {
            let ours = [&names.apex, &names.primary, &names.canary];
            let is_ours = |backend: &Value| ours.iter().any(|name| is(backend, name));
            if others.iter().any(is_ours) { Found::Mixed } else { Found::Other }
        }
    }
}

fn of(primary: &Value, canary: &Value) -> Option<Weights> {
    let weights = weight(primary, WEIGHT_DEFAULT).zip(weight(canary, WEIGHT_DEFAULT));
    weights.map(|(primary, canary)| Weights { primary, canary })
}

fn divide(
    version: Version,
    case: &RouteCase<'_>,
    route: &Value,
    split: Split,
) -> Result<Vec<Change>, RouteError> {
    let malformed = |why: String| RouteError::Malformed { object: place(version, case), why };
    let apex = &case.names.apex;
    let all: Vec<_> = rules(route).iter().map(|rule| found(case, rule)).collect();
    if let Some(index) = all.iter().position(|rule| matches!(rule, Found::Mixed)) {
        let why = format!("rule {index} divides traffic between Service {apex} and others already");
        return Err(malformed(why));
    }
    if all.iter().all(|rule| matches!(rule, Found::Other)) {
        return Err(malformed(format!("no rule of it leads to Service {apex}")));
    }
    let (primary, canary) = (split.canary.rest(), split.canary);
    let rules = rewritten(case, route, |found| match found {
        Found::Apex(like) | Found::Sides { primary: like, .. } => Some(vec![
            backend(like, &case.names.primary, primary.into()),
            backend(like, &case.names.canary, canary.into()),
        ]),
        Found::Other | Found::Mixed => None,
    });
    let canaries: BTreeSet<_> = divided_for(route).chain([case.cx.owner.name]).collect();
    let canaries = canaries.into_iter().collect::<Vec<_>>().join(",");
    let annotations = FLUX_OFF.map(|(key, value)| (key.to_owned(), json!(value))).into_iter();
    let annotations = annotations.chain([(DIVIDED_FOR.to_owned(), json!(canaries))]);
    Ok(change(version.kind, route, rules, annotations.collect()).into_iter().collect())
}

/// The rules, with other backends where `to` has some.
fn rewritten(
    case: &RouteCase<'_>,
    route: &Value,
    to: impl Fn(Found<'_>) -> Option<Vec<Value>>,
) -> Vec<Value> {
    let rewrite = |rule: &Value| {
        let mut rewritten = rule.clone();
        if let Some(backends) = to(found(case, rule)) {
            rewritten["backendRefs"] = Value::Array(backends);
        }
        rewritten
    };
    rules(route).iter().map(rewrite).collect()
}

/// A backend like another, of another name and weight.
fn backend(like: &Value, name: &str, weight: i64) -> Value {
    let mut backend = like.clone();
    backend["name"] = json!(name);
    backend["weight"] = json!(weight);
    backend
}

/// The patch of rules, and of annotations with them. None where the rules are as they should be:
/// annotations alone are no reason to write a user's object.
fn change(
    kind: Kind,
    route: &Value,
    rules: Vec<Value>,
    annotations: Map<String, Value>,
) -> Option<Change> {
    let rules = Value::Array(rules);
    if alike(&rules, &route["spec"]["rules"]) {
        return None;
    }
    let mut metadata = json!({ "resourceVersion": route["metadata"]["resourceVersion"] });
    if !annotations.is_empty() {
        metadata["annotations"] = Value::Object(annotations);
    }
    let patch = json!({ "metadata": metadata, "spec": { "rules": rules } });
    Some(Change::Merge { kind, name: route["metadata"]["name"].as_str()?.to_owned(), patch })
}
