//! The way back when the spec can no longer be written, or names another route.
//!
//! A user who breaks the spec in the middle of a run must not keep a failing canary in traffic. Then
//! the live rules are taken as they are and only their weights and mirrors are changed: everything
//! to the primary. Nothing of the spec is needed but the names of the Services.

use serde_json::{Map, Value, json};
use tidegate_api::canary::ServiceNames;
use tidegate_engine::Split;

use super::{DESTINATION_RULE, Mesh, Road, RouteCx, RouteError, draft, gateway_api, plain};
use crate::{
    object::{Change, Kind, Live},
    workload::SERVICE,
};

/// The lists of rules, in the words of each provider.
const LISTS: [&str; 3] = ["rules", "http", "tcp"];

/// What sends all traffic of a live route to the primary; `None` if that is so already.
pub(super) fn retreat(kind: Kind, live: &Value, names: &ServiceNames) -> Option<Change> {
    let mut spec = Map::new();
    for list in LISTS {
        let Some(found) = live["spec"][list].as_array() else { continue };
        let mut rules = found.clone();
        for rule in &mut rules {
            lead_to_primary(rule, names);
        }
        if rules != *found {
            spec.insert(list.to_owned(), Value::Array(rules));
        }
    }
    if spec.is_empty() {
        return None;
    }
    let metadata = &live["metadata"];
    Some(Change::Merge {
        kind,
        name: metadata["name"].as_str()?.to_owned(),
        patch: json!({
            "metadata": { "resourceVersion": metadata["resourceVersion"] },
            "spec": spec,
        }),
    })
}

fn lead_to_primary(rule: &mut Value, names: &ServiceNames) {
    let Some(fields) = rule.as_object_mut() else { return };
    for list in ["backendRefs", "route"] {
        let Some(sides) = fields.get_mut(list).and_then(Value::as_array_mut) else { continue };
        let is = |side: &Value, name: &str| {
            side["name"] == *name || side["destination"]["host"] == *name
        };
        let both = [&names.primary, &names.canary];
        // A rule without the primary is none of ours: with no weight left it would answer errors.
        if !both.iter().all(|name| sides.iter().any(|side| is(side, name))) {
            continue;
        }
        for side in sides.iter_mut().filter(|side| side.is_object()) {
            if is(side, &names.primary) {
                side["weight"] = json!(100);
            } else if is(side, &names.canary) {
                side["weight"] = json!(0);
            }
        }
    }
    if fields.get("mirror").is_some_and(|mirror| mirror["host"] == *names.canary) {
        fields.remove("mirror");
        fields.remove("mirrorPercentage");
    }
    if let Some(filters) = fields.get_mut("filters").and_then(Value::as_array_mut) {
        filters.retain(|filter| filter["requestMirror"]["backendRef"]["name"] != *names.canary);
    }
}

/// Whether the name of a Service begins somewhere in a text. What follows may belong to it: some names have a
/// port or a namespace behind them.
fn names_service(text: &str, name: &str) -> bool {
    let is_part = |before: char| before.is_ascii_alphanumeric() || before == '-';
    text.match_indices(name).any(|(at, _)| !text[..at].ends_with(is_part))
}

// === impl Mesh ===

impl Mesh {
    /// What takes the canary's share out of a route that it had before, and changes nothing else of it: one
    /// of the user's is given back. `None` where nobody is led to the canary by it.
    ///
    /// The spec in `cx` has the name of the apex that it divides. Where that is a Service that was switched,
    /// `live` has the three Services of that name.
    pub fn leave(
        self,
        cx: &RouteCx<'_>,
        kind: Kind,
        route: &Value,
        live: &Live,
    ) -> Result<Option<Change>, RouteError> {
        let scene = self.lenient_scene(cx);
        if kind == SERVICE {
            return match plain::read(&scene, live) {
                Ok(Split::CANARY) => Ok(plain::write(&scene, live, Split::PRIMARY)?.pop()),
                Err(error @ RouteError::Missing { .. }) => Err(error),
                Ok(_) | Err(_) => Ok(None),
            };
        }
        if let Some(back) = gateway_api::undo_former(kind, &scene, route) {
            return Ok(Some(back));
        }
        let router = self.router();
        let is_divided = match &router {
            Some(router) => router.seen(&scene, route).is_some(),
            None => self.is_shaped(route, &scene.names),
        };
        if !is_divided {
            return Ok(None);
        }
        draft::refuse_taken(&cx.owner, kind, Some(route))?;
        Ok(match router {
            Some(router) => router.retreat(&scene, route),
            None => retreat(kind, route, &scene.names),
        })
    }

    /// Whether the live route may lead somebody to the canary, by all that is in it.
    pub(super) fn may_lead_to_canary(self, cx: &RouteCx<'_>, live: &Live) -> bool {
        let scene = self.lenient_scene(cx);
        let names = &scene.names;
        // Upstreams of Gloo have the namespace in front.
        let with_namespace = format!("{}-{}", cx.owner.namespace, names.canary);
        let mentions = |route: &Value| {
            let parts = [&route["spec"], &route["metadata"]["annotations"]];
            parts.iter().map(ToString::to_string).any(|part| {
                names_service(&part, &names.canary) || names_service(&part, &with_namespace)
            })
        };
        match self.road(cx.spec) {
            // These say it in other words than the name of a Service.
            Road::None | Road::Apex => true,
            Road::By(_) if self == Self::Knative => true,
            Road::By(router) => router.found(&scene, live).is_some_and(mentions),
            Road::Route(_) | Road::Reference(_) | Road::Istio => {
                let mut routes =
                    self.names(cx).into_iter().filter(|(kind, _)| *kind != DESTINATION_RULE);
                routes.any(|(kind, name)| {
                    let route = live.get(kind, &name).filter(|route| mentions(route));
                    let is_led_back = |route: &Value| {
                        self.is_shaped(route, names) && retreat(kind, route, names).is_none()
                    };
                    route.is_some_and(|route| !is_led_back(route))
                })
            }
        }
    }
}
