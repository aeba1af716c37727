//! What a canary's routes need to be known, where they lead, and what is left of routes and copies it once had.
//!
//! Kinds of routing object are watched once a canary needs them, and their definitions read; until
//! both are there nothing is decided. Those of a provider that it had before are watched until nothing of
//! it is left, which the status remembers. What was made for the canary and is of no more use is found
//! while nothing is rolled out, by its owner: copies of configuration that no pod of the primary
//! reads, Services and routes of a name it had before.

use std::sync::Arc;

use serde_json::Value;
use tidegate_api::canary::{CanarySpec, CanaryStatus};
use tidegate_engine::{ManagedObject, Observed, Obstacle, Phase, Split, State, Traffic};
use tidegate_providers::{
    object::Kind,
    traffic::{self, Mesh, RouteFields},
    workload::{
        SERVICE, WorkloadKind,
        config::{self, ConfigKind},
        primary::SelectorLabel,
        scaler::Scaler,
        services::{Role, Services, Side},
    },
};

use super::{
    Context, manager,
    observe::{Seen, state_of},
    task::Task,
};
use crate::cluster::{Cluster, cache::TableState};

/// Whether everything about the routes of such a canary was listed, or turned out not to be served.
/// What is missing is asked for.
pub(super) fn are_known(cx: &Arc<Context>, mesh: Mesh, spec: &CanarySpec) -> bool {
    let cluster = &cx.cluster;
    let needed = mesh.kinds_for(spec);
    for kind in &needed {
        manager::watch_too(cx, *kind);
    }
    let is_listed = |kind: &Kind| cluster.cache.state(*kind) != TableState::Pending;
    if !needed.iter().all(|kind| is_listed(kind) && cluster.route_fields(*kind).is_some()) {
        return false;
    }
    // Others of the provider may have been written for it before. Where they are not served there are
    // none, and a watch would fail for ever.
    let others = mesh.kinds().iter().filter(|kind| !needed.contains(kind));
    let mut others = others.filter(|kind| !needed.is_empty() && cluster.serves_route(**kind));
    others.all(|kind| {
        manager::watch_too(cx, *kind);
        is_listed(kind)
    })
}

/// The provider that the status remembers.
pub(super) fn remembered(status: &CanaryStatus) -> Option<&str> {
    status.rollout.as_ref()?.provider.as_deref()
}

/// Kinds of a provider that the canary had before, and that the present one has no use for.
fn former_kinds(cluster: &Cluster, mesh: Mesh, status: &CanaryStatus) -> Vec<Kind> {
    let former = remembered(status).and_then(|provider| traffic::select(provider).ok());
    let Some(former) = former.filter(|former| former.as_str() != mesh.as_str()) else {
        return Vec::new();
    };
    let cache = &cluster.cache;
    let former = former.served(|kind| !matches!(cache.state(kind), TableState::NotServed(_)));
    let is_used = |kind: &Kind| {
        mesh.kinds().iter().any(|used| (used.group, used.kind) == (kind.group, kind.kind))
    };
    former.kinds().iter().copied().filter(|kind| !is_used(kind)).collect()
}

/// Whether everything of a former provider was listed, or turned out not to be served.
pub(super) fn is_former_known(cx: &Arc<Context>, mesh: Mesh, status: &CanaryStatus) -> bool {
    former_kinds(&cx.cluster, mesh, status).into_iter().fold(true, |is_known, kind| {
        manager::watch_too(cx, kind);
        is_known && cx.cluster.cache.state(kind) != TableState::Pending
    })
}

/// Whether the kinds of such a canary's target and scaler were listed, or turned out not to be served.
/// Those that every canary has are watched from the start; others are asked for here.
pub(super) fn are_workloads_known(cx: &Arc<Context>, spec: &CanarySpec) -> bool {
    let target = WorkloadKind::of(&spec.target_ref).map(WorkloadKind::kind);
    let scaler = spec.autoscaler_ref.as_ref().map(|scaler| Scaler::of(scaler).kind());
    target.into_iter().chain(scaler).fold(true, |are_known, kind| {
        manager::watch_too(cx, kind);
        are_known && cx.cluster.cache.state(kind) != TableState::Pending
    })
}

/// The fields of the route of such a canary.
pub(super) fn fields(cluster: &Cluster, mesh: Mesh, spec: &CanarySpec) -> RouteFields {
    let kind = mesh.kinds_for(spec).into_iter().next();
    kind.and_then(|kind| cluster.route_fields(kind)).unwrap_or_default()
}

/// A rollout starts: definitions may have changed since the last one.
pub(super) fn check_schemas(cx: &Arc<Context>, seen: &Seen) {
    for kind in seen.mesh.kinds_for(&seen.canary.spec) {
        cx.spawn_beside(cx.cluster.clone().check_schema(kind));
    }
}

/// Why an object of another namespace cannot be looked at, if one is to be: only the `watched` one is
/// ever listed. To say that it does not exist would send the user to the wrong place.
pub(super) fn out_of_sight(
    spec: &CanarySpec,
    mesh: Mesh,
    own: &str,
    watched: Option<&str>,
) -> Option<String> {
    let reference = spec.upstream_ref.as_ref().filter(|_| mesh == Mesh::Gloo)?;
    let namespace = reference.namespace.as_deref().filter(|it| !it.is_empty()).unwrap_or(own);
    let watched = watched.filter(|watched| *watched != namespace)?;
    Some(format!(
        "spec.upstreamRef.namespace: this operator looks after the namespace {watched:?} alone and \
         cannot see {namespace:?}; have the Upstream in {watched:?}, or run it without --namespace"
    ))
}

// === impl Seen ===

impl Seen {
    /// Whether the apex Service of a canary that may switch it selects the canary's pods. While
    /// setting up it does not count: then it selects what it did before there was a canary.
    pub(super) fn apex_is_switched(&self, task: &Task) -> bool {
        let capabilities = self.mesh.capabilities(&self.canary.spec);
        let is_set_up = !matches!(self.observed.memory.phase, Phase::New | Phase::Initializing);
        // Elsewhere a test without weights is no switch: there the Service is put right.
        let can_switch = self.mesh == Mesh::Kubernetes && capabilities.switched;
        if !can_switch || capabilities.weighted || !is_set_up {
            return false;
        }
        let names = self.canary.spec.service_names();
        let selector = |name: &str| {
            let service = Self::service(task, name)?;
            Some(service["spec"]["selector"].clone()).filter(Value::is_object)
        };
        let apex = selector(&names.apex);
        apex.is_some() && apex == selector(&names.canary)
    }

    /// Whether the next decision may be a step, which wants the one before it to be in effect.
    fn needs_effect(&self) -> bool {
        let Observed { memory, interval_state, .. } = &self.observed;
        !memory.phase.is_idle()
            && !memory.is_gated()
            && (interval_state.due || interval_state.retry)
    }

    /// Reads where traffic goes, and finds what would put the routes in place or give them back.
    pub(super) fn look_at_routes(&mut self, task: &Task) {
        self.look_at_present_route(task);
        self.give_former_back();
    }

    fn look_at_present_route(&mut self, task: &Task) {
        for kind in self.mesh.kinds_for(&self.canary.spec) {
            let state = task.cx.cluster.cache.state(kind);
            let Some(why) = state.failure() else { continue };
            let obstacle = Obstacle(why.to_owned());
            self.observed.routes = Err(obstacle.clone());
            self.observed.objects.route = State::Blocked(obstacle.clone());
            self.observed.objects.route_restored = match state {
                // Where there is no such kind there is nothing to give back.
                TableState::NotServed(_) => State::InSync,
                _ => State::Blocked(obstacle),
            };
            self.unlisted = Some(state);
            return;
        }
        let cx = self.route_cx(&task.key.namespace);
        let reconcile = self.mesh.reconcile(&cx, &self.live);
        let read = match self.mesh.read(&cx, &self.live) {
            // Not in effect yet: that matters for the next step, and for nothing before it.
            Err(error) if error.is_waiting() && !self.needs_effect() => {
                self.mesh.read(&cx, &self.live.without_status())
            }
            read => read,
        };
        let is_deleted = self.observed.lifecycle.deleted_at.is_some();
        let back = is_deleted.then(|| state_of(self.mesh.finalize(&cx, &self.live)));
        let (state, changes) = state_of(reconcile);
        self.observed.routes = match self.observed.plan.traffic {
            Traffic::Divisible => read.map_err(|error| Obstacle(error.to_string())),
            Traffic::Whole => Ok(Split::PRIMARY),
        };
        self.observed.objects.route = state;
        self.changes.insert(ManagedObject::Route, changes);
        if let Some((state, changes)) = back {
            self.observed.objects.route_restored = state;
            self.route_back = changes;
        }
    }

    /// Finds what is of no more use, where it can be deleted.
    pub(super) fn look_at_leftovers(&mut self, task: &Task) {
        let is_quiet = self.observed.memory.phase.is_idle()
            && self.observed.lifecycle.deleted_at.is_none()
            && self.observed.primary.readiness.is_ready();
        if !is_quiet {
            return;
        }
        let (cache, namespace) = (&task.cx.cluster.cache, &*task.key.namespace);
        let mut leftovers = Vec::new();
        if let Some(primary) = &self.primary {
            let mut digests = cache.digests_in(ConfigKind::ConfigMap, namespace);
            digests.extend(cache.digests_in(ConfigKind::Secret, namespace));
            let pod = &primary["spec"]["template"]["spec"];
            leftovers.extend(config::prune(&self.owner(), pod, digests.iter().map(Arc::as_ref)));
        }
        if let (Some(service), Some(target)) = (&self.canary.spec.service, &self.target)
            && let Ok(selector) = SelectorLabel::of(&self.cx(task), target)
        {
            let names = self.canary.spec.service_names();
            let services = Services::new(self.owner(), service, names, selector, target);
            let apex = services.name(Role::Apex(Side::Primary)).to_owned();
            let existing = cache.list_in(SERVICE, namespace);
            let existing: Vec<&Value> = existing.iter().map(Arc::as_ref).collect();
            // Not before the new ones are there: until then clients have only these.
            if existing.iter().any(|service| service["metadata"]["name"] == *apex) {
                leftovers.extend(services.orphans(&existing));
            }
        }
        if self.observed.routes.is_ok() {
            let cx = self.route_cx(namespace);
            for kind in task.cx.cluster.routing_kinds() {
                let place = if kind.is_namespaced() { namespace } else { "" };
                let existing = cache.list_in(kind, place);
                let existing: Vec<&Value> = existing.iter().map(Arc::as_ref).collect();
                leftovers.extend(self.mesh.leftovers(&cx, kind, &existing));
            }
        }
        self.observed.objects.orphans = !leftovers.is_empty();
        self.leftovers = leftovers;
        if self.is_moved(&task.cx.cluster) {
            self.mesh.as_str().clone_into(&mut self.provider);
        }
    }

    /// Whether nothing of a former provider is left.
    fn is_moved(&self, cluster: &Cluster) -> bool {
        let was_listed = |kind: Kind| match cluster.cache.state(kind) {
            TableState::Synced | TableState::NotServed(_) => true,
            TableState::Pending | TableState::Failed(_) => false,
        };
        let Observed { blockers, routes, objects, .. } = &self.observed;
        blockers.is_empty()
            && objects.spec_error.is_none()
            && routes.is_ok()
            && self.leftovers.is_empty()
            && former_kinds(cluster, self.mesh, &self.status).into_iter().all(was_listed)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_upstream_that_nobody_watches_is_not_said_to_be_missing() {
        let spec = |namespace: Option<&str>| -> CanarySpec {
            let upstream = json!({ "apiVersion": "gloo.solo.io/v1", "kind": "Upstream",
                "name": "settings", "namespace": namespace });
            serde_json::from_value(json!({
                "targetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
                "upstreamRef": upstream,
                "analysis": { "interval": "1m", "threshold": 1, "stepWeight": 10 },
            }))
            .unwrap()
        };
        let cases = [
            ("in its own namespace", None, Mesh::Gloo, Some("web"), false),
            ("in the one that is watched", Some("web"), Mesh::Gloo, Some("web"), false),
            ("all are watched", Some("infra"), Mesh::Gloo, None, false),
            ("of no use to others", Some("infra"), Mesh::Istio, Some("web"), false),
            ("out of sight", Some("infra"), Mesh::Gloo, Some("web"), true),
        ];
        for (reason, namespace, mesh, watched, is_refused) in cases {
            let found = out_of_sight(&spec(namespace), mesh, "web", watched);
            assert_eq!(found.is_some(), is_refused, "{reason}: {found:?}");
        }
    }
}
