//! The NGINX ingress controller: a copy of the user's Ingress that annotations make a canary of it.
//!
//! ```text
//! idle          canary: "true"   canary-weight: "0"
//!   by weight     canary: "true"   canary-weight: "<c>"   and users that fit analysis.match, if any
//!   A/B testing   canary: "true"   canary-weight: "0"     and users that fit analysis.match
//! ```
//!
//! The controller looks at a header first, then at a cookie, then at the weight, which is about
//! requests that fit neither. So conditions beside a growing weight let the named users in from the
//! first step on, and in A/B testing the weight is 0 for all others.

use std::{borrow::Cow, collections::BTreeMap};

use serde_json::{Map, Value, json};
use tidegate_api::canary::Strategy;
use tidegate_engine::{Percent, Split};

use super::{
    Cookies, RouteCase, RouteError,
    cloned_object::{self, CloneSource, CloneSpec, ClonedRoute},
    desired_object::{escaped, flux_off},
    headers::{How, conditions},
    ingress,
    plan::LiveRule,
    weights::Weights,
};
use crate::object::Change;

/// The endings of the controller's keys, after the prefix.
const CANARY: &str = "canary";
const WEIGHT: &str = "canary-weight";
const WEIGHT_TOTAL: &str = "canary-weight-total";
const HEADER: &str = "canary-by-header";
const HEADER_VALUE: &str = "canary-by-header-value";
const HEADER_PATTERN: &str = "canary-by-header-pattern";
const COOKIE: &str = "canary-by-cookie";
/// The keys that select users.
const WHO: [&str; 4] = [HEADER, HEADER_VALUE, HEADER_PATTERN, COOKIE];
const CAN: &[How] = &[How::Exact, How::Regex];

/// The router of the NGINX ingress controller.
#[derive(Debug)]
pub(super) struct Nginx;

/// Whether only the selected users are sent to the canary.
fn is_ab(case: &RouteCase<'_>) -> bool {
    case.cx.spec.analysis.strategy() == Strategy::AbTesting
}

fn key(case: &RouteCase<'_>, suffix: &str) -> String {
    format!("{}/{suffix}", case.cx.ingress.annotation_prefix)
}

fn annotation<'v>(case: &RouteCase<'_>, object: &'v Value, suffix: &str) -> Option<&'v str> {
    object["metadata"]["annotations"][key(case, suffix)].as_str()
}

/// The users that are sent to the canary by name: one header and one cookie at most.
///
/// As Flagger: they may be in one item or in two. The controller takes them for alternatives in any
/// case.
fn who(case: &RouteCase<'_>) -> Result<BTreeMap<String, String>, RouteError> {
    let mut who = BTreeMap::new();
    let items = conditions(case, CAN)?.into_iter().enumerate();
    for (index, header) in
        items.flat_map(|(index, item)| item.into_iter().map(move |it| (index, it)))
    {
        let field = format!("spec.analysis.match[{index}].headers.{}", header.name);
        let (suffix, entries) = match (header.name.eq_ignore_ascii_case("cookie"), header.how) {
            (true, How::Exact) => (COOKIE, vec![(COOKIE, header.value)]),
            (true, _) => {
                let why = "the NGINX ingress controller looks for a cookie by its name; put that \
                           into exact";
                return Err(case.refuse(field, why));
            }
            (false, How::Exact) => {
                (HEADER, vec![(HEADER, header.name), (HEADER_VALUE, header.value)])
            }
            (false, _) => (HEADER, vec![(HEADER, header.name), (HEADER_PATTERN, header.value)]),
        };
        if who.contains_key(&key(case, suffix)) {
            let why = "the NGINX ingress controller can look for one header and one cookie";
            return Err(case.refuse(field, why));
        }
        who.extend(
            entries.into_iter().map(|(suffix, value)| (key(case, suffix), value.to_owned())),
        );
    }
    Ok(who)
}

/// The user's own annotations, and those that divide.
fn annotations(
    case: &RouteCase<'_>,
    original: &Value,
    canary: Percent,
) -> Result<BTreeMap<String, String>, RouteError> {
    let (reserved, named) = (key(case, CANARY), WHO.map(|suffix| key(case, suffix)));
    let is_scoped = !case.cx.spec.analysis.matches.is_empty();
    // Users may be selected on the original too, unless the analysis selects them. Without a share there may
    // be no pods, and no user is selected.
    let lets_in = !is_scoped && canary > Percent::ZERO;
    let is_named = |key: &str| lets_in && named.iter().any(|named| named == key);
    let mut annotations =
        cloned_object::annotations(original, |key| !key.contains(&reserved) || is_named(key));
    annotations.insert(reserved, "true".to_owned());
    let weight = if is_ab(case) { Percent::ZERO } else { canary };
    annotations.insert(key(case, WEIGHT), weight.to_string());
    if canary > Percent::ZERO {
        annotations.extend(who(case)?);
    }
    flux_off(&mut annotations);
    Ok(annotations)
}

/// Every key of the controller: an unwanted one must not stay, not even a user's.
fn exact(case: &RouteCase<'_>, spec: &Value) -> Vec<Cow<'static, str>> {
    let mut exact = ingress::exact(spec);
    let keys = [CANARY, WEIGHT, WEIGHT_TOTAL].into_iter().chain(WHO);
    let pointer = |suffix| format!("/metadata/annotations/{}", escaped(&key(case, suffix)));
    exact.extend(keys.map(|suffix| pointer(suffix).into()));
    exact
}

impl ClonedRoute for Nginx {
    fn check(&self, case: &RouteCase<'_>) -> Result<(), RouteError> {
        ingress::check(case)?;
        who(case).map(|_| ())
    }

    fn seen(&self, case: &RouteCase<'_>, route: &Value) -> Option<LiveRule> {
        annotation(case, route, CANARY).filter(|text| *text == "true")?;
        // The user may have one of that name that leads elsewhere, with weights of its own.
        let is_ours = case.cx.owner.owns(route) || ingress::leads_to(route, &case.names.canary);
        if !is_ours {
            return None;
        }
        let weight = annotation(case, route, WEIGHT).map_or(Some(0), |text| text.parse().ok());
        let named = WHO.iter().any(|suffix| annotation(case, route, suffix).is_some());
        // Named users only: in a test they have all of the canary. Beside steps they have nothing
        // yet, and must not be mistaken for all users.
        let is_test = is_ab(case) && named && weight == Some(0);
        let canary = if is_test { Some(Percent::ALL.into()) } else { weight };
        Some(LiveRule {
            weights: canary
                .map(|canary| Weights { primary: 100_i64.saturating_sub(canary), canary }),
            mirrored: false,
            scoped: is_test,
            cookies: Cookies::default(),
        })
    }

    fn copy(
        &self,
        case: &RouteCase<'_>,
        from: &CloneSource<'_>,
        split: Split,
    ) -> Result<CloneSpec, RouteError> {
        let canary = &case.names.canary;
        let spec = ingress::copy(case, from.original, |paths| {
            paths.iter().map(|path| ingress::leading_to(path, canary)).collect()
        })?;
        let annotations = annotations(case, from.original, split.canary)?;
        Ok(CloneSpec { annotations, exact: exact(case, &spec), spec })
    }

    fn reset_to_primary(&self, case: &RouteCase<'_>, route: &Value) -> Option<Change> {
        let mut annotations = Map::new();
        let weight = annotation(case, route, WEIGHT);
        if weight.is_some_and(|weight| weight != "0") {
            annotations.insert(key(case, WEIGHT), json!("0"));
        }
        let named = WHO.into_iter().filter(|suffix| annotation(case, route, suffix).is_some());
        annotations.extend(named.map(|suffix| (key(case, suffix), Value::Null)));
        ingress::annotated(route, &annotations)
    }
}
