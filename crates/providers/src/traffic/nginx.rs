//! The NGINX ingress controller: a copy of the user's Ingress that annotations make a canary of it.
//!
//! ```text
//!   at rest       canary: "true"   canary-weight: "0"
//!   by weight     canary: "true"   canary-weight: "<c>"   and who fits analysis.match, if anybody
//!   A/B testing   canary: "true"   canary-weight: "0"     and who fits analysis.match
//! ```
//!
//! The controller looks at a header first, then at a cookie, then at the weight: the weight is about
//! those who fit neither. So conditions beside a growing weight let the named users in from the first
//! step on, and in A/B testing the weight is 0 for everybody else.

use std::{borrow::Cow, collections::BTreeMap};

use serde_json::{Map, Value, json};
use tidegate_api::canary::Strategy;
use tidegate_engine::{Percent, Split};

use super::{
    Cookies, RouteError, Scene,
    copied::{self, Copy, Copying, From},
    draft::{escaped, flux_off},
    headers::{How, conditions},
    ingress,
    plan::Seen,
    weights::Weights,
};
use crate::object::Change;

/// What the keys of the controller end in, after the prefix.
const CANARY: &str = "canary";
const WEIGHT: &str = "canary-weight";
const WEIGHT_TOTAL: &str = "canary-weight-total";
const HEADER: &str = "canary-by-header";
const HEADER_VALUE: &str = "canary-by-header-value";
const HEADER_PATTERN: &str = "canary-by-header-pattern";
const COOKIE: &str = "canary-by-cookie";
/// Those that say who fits.
const WHO: [&str; 4] = [HEADER, HEADER_VALUE, HEADER_PATTERN, COOKIE];
const CAN: &[How] = &[How::Exact, How::Regex];

/// The router of the NGINX ingress controller.
#[derive(Debug)]
pub(super) struct Nginx;

/// Whether only who fits is sent to the canary.
fn is_ab(scene: &Scene<'_>) -> bool {
    scene.cx.spec.analysis.strategy() == Strategy::AbTesting
}

fn key(scene: &Scene<'_>, suffix: &str) -> String {
    format!("{}/{suffix}", scene.cx.ingress.annotation_prefix)
}

fn annotation<'v>(scene: &Scene<'_>, object: &'v Value, suffix: &str) -> Option<&'v str> {
    object["metadata"]["annotations"][key(scene, suffix)].as_str()
}

/// Who is sent to the canary by name: one header and one cookie at most.
///
/// As Flagger: they may be in one item or in two. The controller takes them for alternatives in any
/// case.
fn who(scene: &Scene<'_>) -> Result<BTreeMap<String, String>, RouteError> {
    let mut who = BTreeMap::new();
    let items = conditions(scene, CAN)?.into_iter().enumerate();
    for (index, header) in
        items.flat_map(|(index, item)| item.into_iter().map(move |it| (index, it)))
    {
        let field = format!("spec.analysis.match[{index}].headers.{}", header.name);
        let (suffix, entries) = match (header.name.eq_ignore_ascii_case("cookie"), header.how) {
            (true, How::Exact) => (COOKIE, vec![(COOKIE, header.value)]),
            (true, _) => {
                let why = "the NGINX ingress controller looks for a cookie by its name; put that \
                           into exact";
                return Err(scene.refuse(field, why));
            }
            (false, How::Exact) => {
                (HEADER, vec![(HEADER, header.name), (HEADER_VALUE, header.value)])
            }
            (false, _) => (HEADER, vec![(HEADER, header.name), (HEADER_PATTERN, header.value)]),
        };
        if who.contains_key(&key(scene, suffix)) {
            let why = "the NGINX ingress controller can look for one header and one cookie";
            return Err(scene.refuse(field, why));
        }
        who.extend(
            entries.into_iter().map(|(suffix, value)| (key(scene, suffix), value.to_owned())),
        );
    }
    Ok(who)
}

/// The user's own annotations, and those that divide.
fn annotations(
    scene: &Scene<'_>,
    original: &Value,
    canary: Percent,
) -> Result<BTreeMap<String, String>, RouteError> {
    let (reserved, named) = (key(scene, CANARY), WHO.map(|suffix| key(scene, suffix)));
    let is_scoped = !scene.cx.spec.analysis.matches.is_empty();
    // Who fits may be said on the original too, unless the analysis says it. Without a share there may be no
    // pods, and nobody is let in.
    let lets_in = !is_scoped && canary > Percent::ZERO;
    let is_named = |key: &str| lets_in && named.iter().any(|named| named == key);
    let mut annotations =
        copied::annotations(original, |key| !key.contains(&reserved) || is_named(key));
    annotations.insert(reserved, "true".to_owned());
    let weight = if is_ab(scene) { Percent::ZERO } else { canary };
    annotations.insert(key(scene, WEIGHT), weight.to_string());
    if canary > Percent::ZERO {
        annotations.extend(who(scene)?);
    }
    flux_off(&mut annotations);
    Ok(annotations)
}

/// Every key of the controller: one that is not wanted must not stay, whoever put it there.
fn exact(scene: &Scene<'_>, spec: &Value) -> Vec<Cow<'static, str>> {
    let mut exact = ingress::exact(spec);
    let keys = [CANARY, WEIGHT, WEIGHT_TOTAL].into_iter().chain(WHO);
    let pointer = |suffix| format!("/metadata/annotations/{}", escaped(&key(scene, suffix)));
    exact.extend(keys.map(|suffix| pointer(suffix).into()));
    exact
}

impl Copying for Nginx {
    fn check(&self, scene: &Scene<'_>) -> Result<(), RouteError> {
        ingress::check(scene)?;
        who(scene).map(|_| ())
    }

    fn seen(&self, scene: &Scene<'_>, route: &Value) -> Option<Seen> {
        annotation(scene, route, CANARY).filter(|text| *text == "true")?;
        // The user may have one of that name that leads elsewhere, with weights of its own.
        let is_ours = scene.cx.owner.owns(route) || ingress::leads_to(route, &scene.names.canary);
        if !is_ours {
            return None;
        }
        let weight = annotation(scene, route, WEIGHT).map_or(Some(0), |text| text.parse().ok());
        let named = WHO.iter().any(|suffix| annotation(scene, route, suffix).is_some());
        // Named users and nobody else: in a test they have all of the canary. Beside steps they have nothing
        // yet, and must not be mistaken for everybody.
        let is_test = is_ab(scene) && named && weight == Some(0);
        let canary = if is_test { Some(Percent::ALL.into()) } else { weight };
        Some(Seen {
            weights: canary
                .map(|canary| Weights { primary: 100_i64.saturating_sub(canary), canary }),
            mirrored: false,
            scoped: is_test,
            cookies: Cookies::default(),
        })
    }

    fn copy(&self, scene: &Scene<'_>, from: &From<'_>, split: Split) -> Result<Copy, RouteError> {
        let canary = &scene.names.canary;
        let spec = ingress::copy(scene, from.original, |paths| {
            paths.iter().map(|path| ingress::leading_to(path, canary)).collect()
        })?;
        let annotations = annotations(scene, from.original, split.canary)?;
        Ok(Copy { annotations, exact: exact(scene, &spec), spec })
    }

    fn retreat(&self, scene: &Scene<'_>, route: &Value) -> Option<Change> {
        let mut annotations = Map::new();
        let weight = annotation(scene, route, WEIGHT);
        if weight.is_some_and(|weight| weight != "0") {
            annotations.insert(key(scene, WEIGHT), json!("0"));
        }
        let named = WHO.into_iter().filter(|suffix| annotation(scene, route, suffix).is_some());
        annotations.extend(named.map(|suffix| (key(scene, suffix), Value::Null)));
        ingress::annotated(route, &annotations)
    }
}
