//! Sends all traffic back to the primary when the spec can no longer be written, or names another
//! route.
//!
//! A user who breaks the spec in the middle of a run must not keep a failing canary in traffic. So
//! the live rules are taken as they are and only their weights and mirrors are changed. Nothing of
//! the spec is needed but the names of the Services.

use serde_json::{Map, Value, json};
use tidegate_api::canary::ServiceNames;
use tidegate_engine::Split;

use super::{
    DESTINATION_RULE, Mesh, RouteCx, RouteError, RoutingKind, desired_object, gateway_api, plain,
};
use crate::{
    object::{Change, Kind, Live},
    workload::SERVICE,
};

/// The lists of rules, by each provider's name for them.
const LISTS: [&str; 3] = ["rules", "http", "tcp"];

/// Sends all traffic of a live route to the primary; `None` if that is so already.
pub(super) fn reset_to_primary(kind: Kind, live: &Value, names: &ServiceNames) -> Option<Change> {
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

/// Whether the name of a Service begins somewhere in a text. More text may follow: some names have
/// a port or a namespace behind them.
fn names_service(text: &str, name: &str) -> bool {
    let is_part = |before: char| before.is_ascii_alphanumeric() || before == '-';
    text.match_indices(name).any(|(at, _)| !text[..at].ends_with(is_part))
}

// === impl Mesh ===

impl Mesh {
    /// Removes the canary's share from a previous route, and changes nothing else of it: a user's route is
    /// restored. `None` where it leads no request to the canary.
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
        let case = self.lenient_case(cx);
        if kind == SERVICE {
            return match plain::read(&case, live) {
                Ok(Split::CANARY) => Ok(plain::write(&case, live, Split::PRIMARY)?.pop()),
                Err(error @ RouteError::Missing { .. }) => Err(error),
                Ok(_) | Err(_) => Ok(None),
            };
        }
        if let Some(back) = gateway_api::undo_previous(kind, &case, route) {
            return Ok(Some(back));
        }
        let router = self.router();
        let is_divided = match &router {
            Some(router) => router.seen(&case, route).is_some(),
            None => self.is_shaped(route, &case.names),
        };
        if !is_divided {
            return Ok(None);
        }
        desired_object::refuse_taken(&cx.owner, kind, Some(route))?;
        Ok(match router {
            Some(router) => router.reset_to_primary(&case, route),
            None => reset_to_primary(kind, route, &case.names),
        })
    }

    /// Whether the live route may lead requests to the canary, by all that is in it.
    pub(super) fn may_lead_to_canary(self, cx: &RouteCx<'_>, live: &Live) -> bool {
        let case = self.lenient_case(cx);
        let names = &case.names;
        // Upstreams of Gloo have the namespace in front.
        let with_namespace = format!("{}-{}", cx.owner.namespace, names.canary);
        let mentions = |route: &Value| {
            let parts = [&route["spec"], &route["metadata"]["annotations"]];
            parts.iter().map(ToString::to_string).any(|part| {
                names_service(&part, &names.canary) || names_service(&part, &with_namespace)
            })
        };
        match self.routing_kind(cx.spec) {
            // These do not name a Service.
            RoutingKind::None | RoutingKind::Apex => true,
            RoutingKind::Router(_) if self == Self::Knative => true,
            RoutingKind::Router(router) => router.found(&case, live).is_some_and(mentions),
            RoutingKind::Route(_) | RoutingKind::Reference(_) | RoutingKind::Istio => {
                let mut routes =
                    self.names(cx).into_iter().filter(|(kind, _)| *kind != DESTINATION_RULE);
                routes.any(|(kind, name)| {
                    let route = live.get(kind, &name).filter(|route| mentions(route));
                    let is_led_back = |route: &Value| {
                        self.is_shaped(route, names)
                            && reset_to_primary(kind, route, names).is_none()
                    };
                    route.is_some_and(|route| !is_led_back(route))
                })
            }
        }
    }
}
