//! Skipper: a copy of the user's Ingress with both sides in it, divided by an annotation.
//!
//! A predicate makes the copy win over the original. After a run it is turned off by another one, and
//! the original serves the primary, as before the first run.

use serde_json::{Value, json};
use tidegate_engine::{Percent, Split};

use super::{
    Cookies, RouteCase, RouteError,
    cloned_object::{self, CloneSource, CloneSpec, ClonedRoute},
    desired_object::flux_off,
    ingress,
    plan::LiveRule,
    weights::Weights,
};
use crate::object::Change;

const WEIGHTS: &str = "zalando.org/backend-weights";
const PREDICATE: &str = "zalando.org/skipper-predicate";
/// Wins over the original, which has no weight.
const ON: &str = "Weight(100)";
/// Fits no request.
const OFF: &str = "False()";

/// The router of Skipper.
#[derive(Debug)]
pub(super) struct Skipper;

/// The user's predicates with ours before them. Ours are taken out first, so that there is one.
fn predicate(users: &str, ours: &str) -> String {
    let users = users.split("&&").map(str::trim);
    let users = users.filter(|it| !it.is_empty() && *it != ON && *it != OFF);
    [ours].into_iter().chain(users).collect::<Vec<_>>().join(" && ")
}

fn annotation<'v>(object: &'v Value, key: &str) -> &'v str {
    object["metadata"]["annotations"][key].as_str().unwrap_or_default()
}

fn weights(case: &RouteCase<'_>, canary: Percent) -> String {
    let names = &case.names;
    json!({ &names.canary: canary.get(), &names.primary: canary.rest().get() }).to_string()
}

/// Whether the copy is to be in effect. With all traffic at the primary it stays as it is: on before
/// the first run, off after any.
fn ours(case: &RouteCase<'_>, route: Option<&Value>, canary: Percent) -> &'static str {
    if canary > Percent::ZERO {
        return ON;
    }
    let has_share = |route: &Value| {
        let seen = Skipper.seen(case, route).and_then(|seen| seen.split());
        seen.is_none_or(|split| split.canary > Percent::ZERO)
    };
    let is_off = |route: &Value| annotation(route, PREDICATE).contains(OFF);
    if route.is_some_and(|route| is_off(route) || has_share(route)) { OFF } else { ON }
}

impl ClonedRoute for Skipper {
    fn check(&self, case: &RouteCase<'_>) -> Result<(), RouteError> {
        ingress::check(case)
    }

    fn seen(&self, case: &RouteCase<'_>, route: &Value) -> Option<LiveRule> {
        let found: Value = serde_json::from_str(annotation(route, WEIGHTS)).ok()?;
        let of = |name: &str| found.get(name);
        let (primary, canary) = (of(&case.names.primary)?, of(&case.names.canary)?);
        let weights = primary.as_i64().zip(canary.as_i64());
        Some(LiveRule {
            weights: weights.map(|(primary, canary)| Weights { primary, canary }),
            mirrored: false,
            scoped: false,
            cookies: Cookies::default(),
        })
    }

    fn copy(
        &self,
        case: &RouteCase<'_>,
        from: &CloneSource<'_>,
        split: Split,
    ) -> Result<CloneSpec, RouteError> {
        let CloneSource { original, copy } = *from;
        let names = &case.names;
        let spec = ingress::copy(case, original, |paths| {
            let to = |service| paths.iter().map(move |path| ingress::leading_to(path, service));
            to(&names.primary).chain(to(&names.canary)).collect()
        })?;
        let is_users = |key: &str| key != WEIGHTS && key != PREDICATE;
        let mut annotations = cloned_object::annotations(original, is_users);
        flux_off(&mut annotations);
        let ours = ours(case, copy, split.canary);
        annotations.insert(WEIGHTS.to_owned(), weights(case, split.canary));
        let users = annotation(original, PREDICATE);
        annotations.insert(PREDICATE.to_owned(), predicate(users, ours));
        Ok(CloneSpec { annotations, exact: ingress::exact(&spec), spec })
    }

    fn reset_to_primary(&self, case: &RouteCase<'_>, route: &Value) -> Option<Change> {
        let off = ours(case, Some(route), Percent::ZERO);
        let wanted = [
            (WEIGHTS, weights(case, Percent::ZERO)),
            (PREDICATE, predicate(annotation(route, PREDICATE), off)),
        ];
        let changed = wanted.into_iter().filter(|(key, text)| annotation(route, key) != text);
        let annotations = changed.map(|(key, text)| (key.to_owned(), json!(text))).collect();
        ingress::annotated(route, &annotations)
    }

    /// As Flagger: the copy does not wait for its owner to be gone.
    fn is_deleted_at_once(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_predicate_comes_first_and_there_is_one() {
        let cases = [
            ("none", "", "Weight(100)"),
            (
                "a plain list",
                "Host(/a/) && Path(\"/b\")",
                "Weight(100) && Host(/a/) && Path(\"/b\")",
            ),
            ("a duplicate", "Weight(100) && Host(/a/)", "Weight(100) && Host(/a/)"),
            ("the opposite", "False() && Host(/a/)", "Weight(100) && Host(/a/)"),
            (
                "spacing",
                "  Host(/a/)&&Path(\"/b\") && ",
                "Weight(100) && Host(/a/) && Path(\"/b\")",
            ),
        ];
        for (reason, users, want) in cases {
            assert_eq!(predicate(users, ON), want, "{reason}");
        }
        assert_eq!(predicate("Weight(100) && Host(/a/)", OFF), "False() && Host(/a/)");
    }
}
