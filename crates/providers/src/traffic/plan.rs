//! The rules of a route, independent of the provider.
//!
//! ```text
//!   plain       [ weighted ]
//!   conditions  [ weighted, for requests that fit analysis.match ] [ rest: primary ]
//!   affinity    [ sticky canary ] ([ sticky primary ]) [ weighted, sets the cookies ]
//! idle        ([ drops the cookie of the run before ]) [ weighted ]
//! ```
//!
//! The weighted rule is always the last one with both sides in it: that is how it is found again.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use tidegate_engine::{Percent, Split};

use super::{Affinity, Cookies, RouteCase, RouteError, cookie, weights::Weights};

/// One rule: which requests, and where they go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    /// The requests it is about.
    pub(super) requests: Requests,
    /// Where they go.
    pub(super) to: To,
    /// Whether the canary gets copies.
    pub(super) mirrored: bool,
    /// `Set-Cookie` on answers of the canary.
    pub(super) canary_cookie: Option<String>,
    /// `Set-Cookie` on answers of the primary.
    pub(super) primary_cookie: Option<String>,
    /// `Set-Cookie` on all answers.
    pub(super) any_cookie: Option<String>,
    /// A name for the rule, where we give it one.
    pub(super) name: Option<&'static str>,
}

/// The requests a rule is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Requests {
    /// All of the service.
    All,
    /// Those that fit `analysis.match`.
    Matched,
    /// Those with a `Cookie` header that fits this pattern.
    WithCookie(String),
}

/// The weighted rule of a live route, independent of the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LiveRule {
    /// The two weights; `None` where they are no whole numbers.
    pub(super) weights: Option<Weights>,
    /// Whether the canary gets copies.
    pub(super) mirrored: bool,
    /// Whether a rule for the rest follows, so that the weights are about some requests only.
    pub(super) scoped: bool,
    /// The cookies it sets.
    pub(super) cookies: Cookies,
}

/// Where requests go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum To {
    /// To both sides; the canary's share.
    Both(Percent),
    /// To the primary, with no mention of the canary.
    Primary,
}

/// The rules for this split, in the order of the route.
pub(super) fn plan(case: &RouteCase<'_>, split: Split, cookies: &Cookies) -> Vec<Rule> {
    let weighted = Rule {
        requests: Requests::All,
        to: To::Both(split.canary),
        mirrored: split.mirrored && case.capabilities.mirror,
        canary_cookie: None,
        primary_cookie: None,
        any_cookie: None,
        name: None,
    };
    if case.is_scoped() {
        let rest = Rule { to: To::Primary, mirrored: false, ..weighted.clone() };
        return vec![Rule { requests: Requests::Matched, ..weighted }, rest];
    }
    with_affinity(case, split, cookies, weighted)
}

fn with_affinity(
    case: &RouteCase<'_>,
    split: Split,
    cookies: &Cookies,
    weighted: Rule,
) -> Vec<Rule> {
    let analysis = &case.cx.spec.analysis;
    let affinity = match (&analysis.session_affinity, case.capabilities.affinity) {
        (Some(affinity), Affinity::Both) => affinity,
        (None, _) | (_, Affinity::None) => return vec![weighted],
    };
    let carrying = |found: &str, name| Rule {
        requests: Requests::WithCookie(cookie::pattern(found)),
        mirrored: false,
        name: Some(name),
        ..weighted.clone()
    };
    if split.canary == Percent::ZERO {
        let Some(previous) = cookie::usable(cookies.previous.as_ref()) else {
            return vec![weighted];
        };
        let any_cookie = Some(cookie::expire(previous, affinity));
        return vec![Rule { any_cookie, ..carrying(previous, "expired-cookie") }, weighted];
    }
    let Some(canary) = cookie::usable(cookies.canary.as_ref()) else {
        return vec![weighted];
    };
    let mut rules = vec![Rule { to: To::Both(Percent::ALL), ..carrying(canary, "canary-cookie") }];
    let mut weighted = Rule {
        canary_cookie: Some(cookie::set(canary, affinity, affinity.max_age_s())),
        ..weighted.clone()
    };
    if let Some(primary) = cookie::usable(cookies.primary.as_ref())
        && wants_primary_cookie(case)
    {
        let stay = To::Both(Percent::ZERO);
        rules.push(Rule { to: stay, ..carrying(primary, "primary-cookie") });
        // Users of the primary are assigned again with every step, not before.
        let step_s = i64::try_from(analysis.interval().as_secs()).unwrap_or(i64::MAX);
        weighted.primary_cookie = Some(cookie::set(primary, affinity, step_s));
    }
    rules.push(weighted);
    rules
}

/// The cookies to write with this split; an error if one is needed and was not made.
pub(super) fn cookies_to_write(case: &RouteCase<'_>, split: Split) -> Result<Cookies, RouteError> {
    let cookies = case.cx.cookies;
    let sticky = case.cx.spec.analysis.session_affinity.is_some()
        && case.capabilities.affinity != Affinity::None
        && split.canary > Percent::ZERO;
    let missing = |field| Err(RouteError::NoCookie { canary: case.canary(), field });
    if sticky && cookie::usable(cookies.canary.as_ref()).is_none() {
        return missing("status.sessionAffinityCookie");
    }
    if sticky && wants_primary_cookie(case) && cookie::usable(cookies.primary.as_ref()).is_none() {
        return missing("status.primarySessionAffinityCookie");
    }
    Ok(cookies.clone())
}

fn wants_primary_cookie(case: &RouteCase<'_>) -> bool {
    let affinity = case.cx.spec.analysis.session_affinity.as_ref();
    let name = affinity.and_then(|affinity| affinity.primary_cookie_name.as_ref());
    case.capabilities.affinity == Affinity::Both && super::non_empty(name).is_some()
}

/// Conditions on the address of a request and not on its user, in the fields of either API.
const PLACES: [&str; 3] = ["path", "uri", "method"];

/// Whether a later rule is the one for requests that the conditions of the weighted rule leave out,
/// and not one that a user added: it is about the same addresses, with fewer conditions on users.
pub(super) fn is_rest(weighted: &Value, later: &Value) -> bool {
    let nobody = [json!({})];
    let conditions = |rule: &Value| -> Vec<Map<String, Value>> {
        let list = rule.as_array().filter(|list| !list.is_empty());
        let list = list.map_or(&nobody[..], Vec::as_slice);
        list.iter().filter_map(Value::as_object).cloned().collect()
    };
    let (ours, theirs) = (conditions(weighted), conditions(later));
    let places = |list: &[Map<String, Value>]| -> BTreeSet<String> {
        let of = |it: &Map<String, Value>| PLACES.map(|place| it.get(place).cloned());
        list.iter().map(|it| json!(of(it)).to_string()).collect()
    };
    let says_more = |one: &Map<String, Value>| {
        let mut who = one.iter().filter(|(key, _)| !PLACES.contains(&key.as_str()));
        who.any(|(key, value)| theirs.iter().all(|other| other.get(key) != Some(value)))
    };
    places(&ours) == places(&theirs) && ours.iter().all(says_more)
}

// === impl LiveRule ===

impl LiveRule {
    /// The split, if the weights are such as we write.
    pub(super) fn split(&self) -> Option<Split> {
        let canary = self.weights.and_then(Weights::exact)?;
        Some(Split { canary, mirrored: self.mirrored })
    }

    /// The split and cookies a reconcile has to keep.
    ///
    /// Weights that a user edited are kept as the share they mean. Cookies of the live route take precedence
    /// over those of status, which may be a step ahead.
    ///
    /// Nothing is kept where it would be about more requests than before: in A/B testing the canary
    /// has all of a few requests, and when the conditions are dropped from the spec the same weight
    /// would be all of all requests.
    pub(super) fn kept(self, case: &RouteCase<'_>) -> (Split, Cookies) {
        let canary = self.weights.and_then(Weights::nearest).unwrap_or(Percent::ZERO);
        let split = if self.scoped && !case.is_scoped() {
            Split::PRIMARY
        } else {
            Split { canary, mirrored: self.mirrored && case.capabilities.mirror }
        };
        let status = case.cx.cookies.clone();
        let cookies = Cookies {
            canary: self.cookies.canary.or(status.canary),
            primary: self.cookies.primary.or(status.primary),
            previous: status.previous,
        };
        (split, cookies)
    }
}
