//! What providers with one route have in common.
//!
//! A [`Router`] says what its route looks like and what a live one means. From that follow here, for
//! all of them alike: a reconcile keeps the split it finds, a read is exact or an error, a write is
//! one change of one object, and the end gives back what was somebody else's.

use std::{collections::BTreeMap, fmt::Debug};

use serde_json::Value;
use tidegate_engine::{Percent, Split};

use super::{
    Place, RouteCx, RouteError, Scene,
    draft::{Draft, flux_off, refuse_taken},
    plan::Seen,
    takeover::{Back, restore},
};
use crate::object::{Change, Kind, Live, Owner};

/// One provider's route.
pub(super) trait Router: Debug {
    /// The kinds of object it writes.
    fn kinds(&self) -> &'static [Kind];

    /// Those without which nothing can be done.
    fn needs(&self) -> &'static [Kind] {
        self.kinds()
    }

    /// The object that says where traffic goes.
    fn route(&self, cx: &RouteCx<'_>) -> (Kind, String);

    /// What else is looked at or written, in the order of writing.
    fn others(&self, cx: &RouteCx<'_>) -> Vec<(Kind, String)> {
        let _ = cx;
        Vec::new()
    }

    /// Objects of other namespaces that are looked at: kind, namespace and name.
    fn elsewhere(&self, cx: &RouteCx<'_>) -> Vec<(Kind, String, String)> {
        let _ = cx;
        Vec::new()
    }

    /// Whether the route can be made for this spec.
    fn check(&self, scene: &Scene<'_>) -> Result<(), RouteError> {
        let _ = scene;
        Ok(())
    }

    /// What a live route means; `None` where it is not as we make it.
    fn seen(&self, scene: &Scene<'_>, route: &Value) -> Option<Seen>;

    /// The live route: the object of that name, or one that stands in for it.
    fn found<'l>(&self, scene: &Scene<'_>, live: &'l Live) -> Option<&'l Value> {
        let (kind, name) = self.route(scene.cx);
        live.get(kind, &name)
    }

    /// Why a route that is written is not in effect.
    fn obstacle(&self, scene: &Scene<'_>, route: &Value) -> Option<RouteError> {
        let _ = (scene, route);
        None
    }

    /// What has to be in place before pods start.
    fn prepare(&self, scene: &Scene<'_>, live: &Live) -> Result<Vec<Change>, RouteError> {
        let _ = (scene, live);
        Ok(Vec::new())
    }

    /// What has to be in place before the route.
    fn before(&self, scene: &Scene<'_>, live: &Live) -> Result<Vec<Change>, RouteError> {
        let _ = (scene, live);
        Ok(Vec::new())
    }

    /// The route with this split.
    fn write(
        &self,
        scene: &Scene<'_>,
        live: &Live,
        split: Split,
    ) -> Result<Option<Change>, RouteError>;

    /// The route as it should be with the split it has.
    fn keep(
        &self,
        scene: &Scene<'_>,
        live: &Live,
        split: Split,
    ) -> Result<Option<Change>, RouteError> {
        self.write(scene, live, split)
    }

    /// What is in the way once the route is in place.
    fn after(&self, scene: &Scene<'_>, live: &Live) -> Result<Vec<Change>, RouteError> {
        let _ = (scene, live);
        Ok(Vec::new())
    }

    /// The live route with everything sent to the primary and nothing else changed.
    fn retreat(&self, scene: &Scene<'_>, route: &Value) -> Option<Change>;

    /// Fields of specs that the provider's own controller fills in.
    fn filled_in(&self) -> &'static [&'static str] {
        &[]
    }

    /// What gives everything back.
    fn finalize(&self, scene: &Scene<'_>, live: &Live) -> Result<Vec<Change>, RouteError> {
        let (route, route_name) = self.route(scene.cx);
        let mut changes = Vec::new();
        for (kind, name) in self.names(scene.cx) {
            let Some(object) = live.get(kind, &name).filter(|_| self.kinds().contains(&kind))
            else {
                continue;
            };
            // What is no route has no shape to know it by: annotations tell whether it was taken over.
            let is_route = kind == route && name == route_name;
            let shaped = is_route && self.seen(scene, object).is_some();
            let back = Back { kind, live: object, shaped, filled_in: self.filled_in() };
            changes.extend(restore(&scene.cx.owner, back)?);
        }
        Ok(changes)
    }

    /// All objects that are looked at; the last is the route.
    fn names(&self, cx: &RouteCx<'_>) -> Vec<(Kind, String)> {
        let mut names = self.others(cx);
        names.push(self.route(cx));
        names
    }
}

/// Brings everything into shape, with traffic as it is.
pub(super) fn reconcile(
    router: &dyn Router,
    scene: &Scene<'_>,
    live: &Live,
) -> Result<Vec<Change>, RouteError> {
    refuse_taken_route(router, scene, live)?;
    let mut changes = router.before(scene, live)?;
    let seen = router.found(scene, live).and_then(|route| router.seen(scene, route));
    let split = seen.map_or(scene.cx.inherited, |seen| seen.kept(scene).0);
    // Where traffic is whole, a part of it cannot be kept.
    let is_kept = scene.capabilities.weighted || is_whole(split);
    let split = if is_kept { split } else { Split::PRIMARY };
    changes.extend(router.keep(scene, live, split)?);
    changes.extend(router.after(scene, live)?);
    Ok(changes)
}

/// The split of the live route.
pub(super) fn read(
    router: &dyn Router,
    scene: &Scene<'_>,
    live: &Live,
) -> Result<Split, RouteError> {
    let object = place(router, scene);
    let route = router.found(scene, live);
    let route = route.ok_or_else(|| RouteError::Missing { object: object.clone() })?;
    let malformed = |why: &str| {
        let (primary, canary) = (&scene.names.primary, &scene.names.canary);
        let why = format!("{why} {primary} and {canary}");
        RouteError::Malformed { object: object.clone(), why }
    };
    let seen =
        router.seen(scene, route).ok_or_else(|| malformed("it does not divide traffic between"))?;
    let split = seen.split().ok_or_else(|| malformed("weights do not add up to 100 for"))?;
    match router.obstacle(scene, route) {
        Some(error) => Err(error),
        None => Ok(split),
    }
}

/// The route with this split.
pub(super) fn write(
    router: &dyn Router,
    scene: &Scene<'_>,
    live: &Live,
    split: Split,
) -> Result<Vec<Change>, RouteError> {
    refuse_taken_route(router, scene, live)?;
    match router.write(scene, live, split) {
        Ok(change) => Ok(change.into_iter().collect()),
        // What the route is made from may be gone. The way back must not be.
        Err(refusal) if split == Split::PRIMARY => retreat(router, scene, live, refusal),
        Err(refusal) => Err(refusal),
    }
}

/// What is left to write when the spec was refused: everything to the primary, in the live route.
pub(super) fn retreat(
    router: &dyn Router,
    scene: &Scene<'_>,
    live: &Live,
    refusal: RouteError,
) -> Result<Vec<Change>, RouteError> {
    refuse_taken_route(router, scene, live)?;
    let route = router.found(scene, live);
    match route.filter(|route| router.seen(scene, route).is_some()) {
        Some(route) => Ok(router.retreat(scene, route).into_iter().collect()),
        None => Err(refusal),
    }
}

/// Whether one side has everything.
pub(super) fn is_whole(split: Split) -> bool {
    split.canary == Percent::ZERO || split.canary == Percent::ALL
}

/// What makes the live object as the draft has it; an error if it is somebody else's.
pub(super) fn put(
    owner: &Owner<'_>,
    live: &Live,
    draft: Draft,
) -> Result<Option<Change>, RouteError> {
    let object = live.get(draft.kind, &draft.name);
    refuse_taken(owner, draft.kind, object)?;
    Ok(draft.change(owner, object))
}

/// The same for several, in their order.
pub(super) fn put_all(
    owner: &Owner<'_>,
    live: &Live,
    drafts: Vec<Draft>,
) -> Result<Vec<Change>, RouteError> {
    let changes = drafts.into_iter().map(|draft| put(owner, live, draft));
    Ok(changes.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

/// Labels and annotations of the apex, for the object that routes to it.
pub(super) fn of_apex(scene: &Scene<'_>) -> (BTreeMap<String, String>, BTreeMap<String, String>) {
    let apex = scene.service.apex.clone().unwrap_or_default();
    let mut annotations = apex.annotations;
    flux_off(&mut annotations);
    (apex.labels, annotations)
}

fn refuse_taken_route(
    router: &dyn Router,
    scene: &Scene<'_>,
    live: &Live,
) -> Result<(), RouteError> {
    let (kind, name) = router.route(scene.cx);
    refuse_taken(&scene.cx.owner, kind, live.get(kind, &name))
}

fn place(router: &dyn Router, scene: &Scene<'_>) -> Place {
    let (kind, name) = router.route(scene.cx);
    Place::new(kind, scene.cx.owner.namespace, &name)
}
