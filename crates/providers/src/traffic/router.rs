//! [`Router`]: one provider's route, and the behaviour that all providers with one route share.
//!
//! A router says what its route looks like and what a live one means. The functions here add, for all of them
//! alike: a reconcile keeps the split it finds, a read is exact or an error, a write is one change of one
//! object, and a finalize restores objects that were there before.

use std::{collections::BTreeMap, fmt::Debug};

use serde_json::Value;
use tidegate_engine::{Percent, Split};

use super::{
    Place, RouteCase, RouteCx, RouteError,
    desired_object::{DesiredObject, flux_off, refuse_taken},
    plan::LiveRule,
    takeover::{TakenOver, restore},
};
use crate::object::{Change, Kind, Live, Owner};

/// One provider's route.
pub(super) trait Router: Debug {
    /// The kinds of object it writes.
    fn kinds(&self) -> &'static [Kind];

    /// The kinds that must be served.
    fn needs(&self) -> &'static [Kind] {
        self.kinds()
    }

    /// The object that says where traffic goes.
    fn route(&self, cx: &RouteCx<'_>) -> (Kind, String);

    /// Other objects that are read or written, in the order of writing.
    fn others(&self, cx: &RouteCx<'_>) -> Vec<(Kind, String)> {
        let _ = cx;
        Vec::new()
    }

    /// Objects of other namespaces that are read: kind, namespace and name.
    fn elsewhere(&self, cx: &RouteCx<'_>) -> Vec<(Kind, String, String)> {
        let _ = cx;
        Vec::new()
    }

    /// Whether the route can be made for this spec.
    fn check(&self, case: &RouteCase<'_>) -> Result<(), RouteError> {
        let _ = case;
        Ok(())
    }

    /// The meaning of a live route; `None` where it is not as we make it.
    fn seen(&self, case: &RouteCase<'_>, route: &Value) -> Option<LiveRule>;

    /// The live route: the object of that name, or one that is used instead.
    fn found<'l>(&self, case: &RouteCase<'_>, live: &'l Live) -> Option<&'l Value> {
        let (kind, name) = self.route(case.cx);
        live.get(kind, &name)
    }

    /// Why a route that is written is not in effect.
    fn obstacle(&self, case: &RouteCase<'_>, route: &Value) -> Option<RouteError> {
        let _ = (case, route);
        None
    }

    /// Changes that must be made before pods start.
    fn prepare(&self, case: &RouteCase<'_>, live: &Live) -> Result<Vec<Change>, RouteError> {
        let _ = (case, live);
        Ok(Vec::new())
    }

    /// Changes that must be made before the route.
    fn before(&self, case: &RouteCase<'_>, live: &Live) -> Result<Vec<Change>, RouteError> {
        let _ = (case, live);
        Ok(Vec::new())
    }

    /// The route with this split.
    fn write(
        &self,
        case: &RouteCase<'_>,
        live: &Live,
        split: Split,
    ) -> Result<Option<Change>, RouteError>;

    /// The route as it should be with the split it has.
    fn keep(
        &self,
        case: &RouteCase<'_>,
        live: &Live,
        split: Split,
    ) -> Result<Option<Change>, RouteError> {
        self.write(case, live, split)
    }

    /// Removes objects that conflict with the route once it is in place.
    fn after(&self, case: &RouteCase<'_>, live: &Live) -> Result<Vec<Change>, RouteError> {
        let _ = (case, live);
        Ok(Vec::new())
    }

    /// The live route with everything sent to the primary and nothing else changed.
    fn reset_to_primary(&self, case: &RouteCase<'_>, route: &Value) -> Option<Change>;

    /// Fields of specs that the provider's own controller fills in.
    fn filled_in(&self) -> &'static [&'static str] {
        &[]
    }

    /// Restores everything.
    fn finalize(&self, case: &RouteCase<'_>, live: &Live) -> Result<Vec<Change>, RouteError> {
        let (route, route_name) = self.route(case.cx);
        let mut changes = Vec::new();
        for (kind, name) in self.names(case.cx) {
            let Some(object) = live.get(kind, &name).filter(|_| self.kinds().contains(&kind))
            else {
                continue;
            };
            // Other objects have no shape to know them by: annotations show whether they were taken over.
            let is_route = kind == route && name == route_name;
            let shaped = is_route && self.seen(case, object).is_some();
            let back = TakenOver { kind, live: object, shaped, filled_in: self.filled_in() };
            changes.extend(restore(&case.cx.owner, back)?);
        }
        Ok(changes)
    }

    /// All objects that are read; the last is the route.
    fn names(&self, cx: &RouteCx<'_>) -> Vec<(Kind, String)> {
        let mut names = self.others(cx);
        names.push(self.route(cx));
        names
    }
}

/// Brings everything into shape, with traffic as it is.
pub(super) fn reconcile(
    router: &dyn Router,
    case: &RouteCase<'_>,
    live: &Live,
) -> Result<Vec<Change>, RouteError> {
    refuse_taken_route(router, case, live)?;
    let mut changes = router.before(case, live)?;
    let seen = router.found(case, live).and_then(|route| router.seen(case, route));
    let split = seen.map_or(case.cx.inherited, |seen| seen.kept(case).0);
    // Where traffic is whole, a part of it cannot be kept.
    let is_kept = case.capabilities.weighted || is_whole(split);
    let split = if is_kept { split } else { Split::PRIMARY };
    changes.extend(router.keep(case, live, split)?);
    changes.extend(router.after(case, live)?);
    Ok(changes)
}

/// The split of the live route.
pub(super) fn read(
    router: &dyn Router,
    case: &RouteCase<'_>,
    live: &Live,
) -> Result<Split, RouteError> {
    let object = place(router, case);
    let route = router.found(case, live);
    let route = route.ok_or_else(|| RouteError::Missing { object: object.clone() })?;
    let malformed = |why: &str| {
        let (primary, canary) = (&case.names.primary, &case.names.canary);
        let why = format!("{why} {primary} and {canary}");
        RouteError::Malformed { object: object.clone(), why }
    };
    let seen =
        router.seen(case, route).ok_or_else(|| malformed("it does not divide traffic between"))?;
    let split = seen.split().ok_or_else(|| malformed("weights do not add up to 100 for"))?;
    match router.obstacle(case, route) {
        Some(error) => Err(error),
        None => Ok(split),
    }
}

/// The route with this split.
pub(super) fn write(
    router: &dyn Router,
    case: &RouteCase<'_>,
    live: &Live,
    split: Split,
) -> Result<Vec<Change>, RouteError> {
    refuse_taken_route(router, case, live)?;
    match router.write(case, live, split) {
        Ok(change) => Ok(change.into_iter().collect()),
        // The source of the route may be gone; a reset to the primary needs no source.
        Err(refusal) if split == Split::PRIMARY => reset_to_primary(router, case, live, refusal),
        Err(refusal) => Err(refusal),
    }
}

/// Sends all traffic of the live route to the primary when the spec was refused.
pub(super) fn reset_to_primary(
    router: &dyn Router,
    case: &RouteCase<'_>,
    live: &Live,
    refusal: RouteError,
) -> Result<Vec<Change>, RouteError> {
    refuse_taken_route(router, case, live)?;
    let route = router.found(case, live);
    match route.filter(|route| router.seen(case, route).is_some()) {
        Some(route) => Ok(router.reset_to_primary(case, route).into_iter().collect()),
        None => Err(refusal),
    }
}

/// Whether one side has everything.
pub(super) fn is_whole(split: Split) -> bool {
    split.canary == Percent::ZERO || split.canary == Percent::ALL
}

/// The change that makes the live object as desired; an error if it has another controller.
pub(super) fn put(
    owner: &Owner<'_>,
    live: &Live,
    desired: DesiredObject,
) -> Result<Option<Change>, RouteError> {
    let object = live.get(desired.kind, &desired.name);
    refuse_taken(owner, desired.kind, object)?;
    Ok(desired.change(owner, object))
}

/// The same for several, in their order.
pub(super) fn put_all(
    owner: &Owner<'_>,
    live: &Live,
    desired: Vec<DesiredObject>,
) -> Result<Vec<Change>, RouteError> {
    let changes = desired.into_iter().map(|desired| put(owner, live, desired));
    Ok(changes.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

/// Labels and annotations of the apex, for the object that routes to it.
pub(super) fn of_apex(
    case: &RouteCase<'_>,
) -> (BTreeMap<String, String>, BTreeMap<String, String>) {
    let apex = case.service.apex.clone().unwrap_or_default();
    let mut annotations = apex.annotations;
    flux_off(&mut annotations);
    (apex.labels, annotations)
}

fn refuse_taken_route(
    router: &dyn Router,
    case: &RouteCase<'_>,
    live: &Live,
) -> Result<(), RouteError> {
    let (kind, name) = router.route(case.cx);
    refuse_taken(&case.cx.owner, kind, live.get(kind, &name))
}

fn place(router: &dyn Router, case: &RouteCase<'_>) -> Place {
    let (kind, name) = router.route(case.cx);
    Place::new(kind, case.cx.owner.namespace, &name)
}
