//! The inputs of an observation: the canary, its plan and memory, and the objects that they name.
//!
//! Stages of [`super::observe`] borrow them, and acting reuses them. Scalers are found again before they are
//! written, and the target is read from the API server before it is copied.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::Value;
use tidegate_api::canary::{Canary, CanarySpec, analysis::ObjectRef, status::RouteMemory};
use tidegate_engine::{IntervalState, Plan, Split};
use tidegate_providers::{
    canary::{Remembered, plan, unverified_templates},
    object::{Change, Live, Owner},
    traffic::{Cookies, IngressOptions, Mesh, RouteCx, RouteFields, knative_primary},
    workload::{
        Cx, WorkloadError, WorkloadKind,
        scaler::{self, Scaler},
    },
};

use super::{env::Env, memo::Memo, unready_since::Clocks, usable_spec::UsableSpec};
use crate::{
    cluster::{
        METRIC_TEMPLATE,
        cache::{Cache, Key},
    },
    context::Options,
};

/// Requests that gates are retried at once.
pub(super) const RETRY: &str = "flagger.app/webhook-restart";

/// The canary, its plan and memory, and the objects that they name, as the cache had them.
pub(super) struct Inputs {
    pub(super) raw: Arc<Value>,
    /// With a spec that can be used.
    pub(super) canary: Arc<Canary>,
    pub(super) mesh: Mesh,
    /// Errors in the spec as it is.
    pub(super) spec_errors: Vec<String>,
    pub(super) blockers: Vec<String>,
    pub(super) plan: Plan,
    pub(super) remembered: Remembered,
    pub(super) interval_state: IntervalState,
    pub(super) workload: WorkloadKind,
    pub(super) target: Option<Arc<Value>>,
    pub(super) primary: Option<Arc<Value>>,
    pub(super) scalers: Scalers,
    /// Routing objects, those of other namespaces too.
    pub(super) live: Live,
    /// Fields of the route in the cluster's definition.
    fields: RouteFields,
    /// Whether the canary can be the owner of its routes.
    owns_routes: bool,
    annotations: BTreeMap<String, String>,
    options: Arc<Options>,
}

/// The scaler of the target and its copy for the primary.
#[derive(Default)]
pub(super) struct Scalers {
    pub(super) target: Option<Arc<Value>>,
    pub(super) primary: Option<Arc<Value>>,
}

// === impl Inputs ===

impl Inputs {
    /// Takes them out of the cache.
    pub(super) fn gather(
        env: &Env<'_>,
        spec: UsableSpec,
        remembered: Remembered,
        memo: &mut Memo,
    ) -> Self {
        let UsableSpec { canary, mesh, errors, blockers } = spec;
        let plan = planned(env, &canary, mesh);
        // A target of another kind is refused, and nothing is done about it.
        let workload =
            WorkloadKind::of(&canary.spec.target_ref).unwrap_or(WorkloadKind::Deployment);
        let target = env.get(workload.kind(), &canary.spec.target_ref.name);
        let primary = match workload {
            // A revision of the target itself, once it is chosen.
            WorkloadKind::Knative => target.clone().filter(|it| knative_primary(it).is_some()),
            WorkloadKind::Deployment | WorkloadKind::DaemonSet | WorkloadKind::Service => {
                env.get(workload.kind(), &canary.spec.primary_name())
            }
        };
        let rollout = remembered.status.rollout.as_ref();
        let both = [target.as_deref(), primary.as_deref()];
        memo.unready_since.update(&canary.spec, workload, both, rollout, env.clocks);
        let retry = env.raw["metadata"]["annotations"][RETRY].as_str().unwrap_or_default();
        let clocks = env.clocks.for_engine();
        let interval_state =
            memo.timer.state(&remembered.memory, clocks, plan.interval, !retry.is_empty());
        let route_kind = mesh.kinds_for(&canary.spec).into_iter().next();
        let fields = route_kind.and_then(|kind| env.cluster.route_fields(kind));
        let mut inputs = Self {
            raw: Arc::clone(env.raw),
            mesh,
            spec_errors: errors,
            blockers,
            plan,
            remembered,
            interval_state,
            workload,
            target,
            primary,
            scalers: Scalers::find(&canary.spec, &env.cluster.cache, &env.key.namespace),
            live: Live::default(),
            fields: fields.unwrap_or_default(),
            owns_routes: env.cluster.owns_routes(),
            annotations: canary.metadata.annotations.clone().unwrap_or_default(),
            options: Arc::clone(env.options),
            canary,
        };
        inputs.live = inputs.routing_objects(env);
        inputs
    }

    fn routing_objects(&self, env: &Env<'_>) -> Live {
        let cx = self.route_cx(Split::PRIMARY);
        let mut live = Live::default();
        for (kind, name) in self.mesh.names(&cx) {
            if let Some(object) = env.get(kind, &name) {
                live.insert(kind, object);
            }
        }
        for (kind, namespace, name) in self.mesh.elsewhere(&cx) {
            if let Some(object) = env.cluster.cache.get(kind, &Key::new(&namespace, &name)) {
                live.insert_from(kind, &namespace, object);
            }
        }
        live
    }

    pub(super) fn owner(&self) -> Owner<'_> {
        let metadata = &self.canary.metadata;
        Owner {
            name: metadata.name.as_deref().unwrap_or_default(),
            namespace: metadata.namespace.as_deref().unwrap_or_default(),
            uid: metadata.uid.as_deref().unwrap_or_default(),
            can_own: true,
        }
    }

    /// The context of everything that concerns workloads and Services.
    pub(super) fn workload_cx(&self) -> Cx<'_> {
        Cx {
            owner: self.owner(),
            workload: self.workload,
            target: &self.canary.spec.target_ref.name,
            selector_labels: &self.options.selector_labels,
            included: &self.options.included,
        }
    }

    /// The context of the router. A route that takes over from another one begins with `inherited`.
    pub(super) fn route_cx(&self, inherited: Split) -> RouteCx<'_> {
        self.route_cx_with(inherited, &self.remembered.cookies)
    }

    pub(super) fn route_cx_with<'a>(
        &'a self,
        inherited: Split,
        cookies: &'a Cookies,
    ) -> RouteCx<'a> {
        RouteCx {
            owner: Owner { can_own: self.owns_routes, ..self.owner() },
            spec: &self.canary.spec,
            cookies,
            primary: self.primary_revision().filter(|_| self.remembered.is_set_up()),
            iterating: self.remembered.memory.iterations > 0,
            inherited,
            fields: self.fields,
            annotations: &self.annotations,
            ingress: IngressOptions {
                annotation_prefix: &self.options.ingress_annotations_prefix,
                class: &self.options.ingress_class,
            },
        }
    }

    /// The revision of Knative that is the primary now, or by the status.
    pub(super) fn primary_revision(&self) -> Option<&str> {
        if self.workload != WorkloadKind::Knative {
            return None;
        }
        let pinned = self.target.as_deref().and_then(knative_primary);
        pinned.or_else(|| self.remembered.primary_revision())
    }

    /// The route that the spec names.
    pub(super) fn present_route(&self) -> Option<RouteMemory> {
        let (kind, name) = self.mesh.route(&self.route_cx(Split::PRIMARY))?;
        Some(RouteMemory {
            provider: self.mesh.as_str().to_owned(),
            kind: kind.kind.to_owned(),
            name,
            service: self.canary.spec.apex_name().to_owned(),
        })
    }

    /// The traffic distribution that the canary asks for in Services made for it.
    pub(super) fn distribution(&self) -> Option<&'static str> {
        let service = self.canary.spec.service.as_ref()?;
        Some(service.traffic_distribution?.as_str())
    }

    /// The changes that bring the primary's scaler to the target's settings.
    pub(super) fn refreshed_scaler(&self, scalers: &Scalers) -> Result<Vec<Change>, WorkloadError> {
        let Some(scaler) = &self.canary.spec.autoscaler_ref else { return Ok(Vec::new()) };
        let kind = Scaler::of(scaler);
        let Some(target) = &scalers.target else {
            if scalers.primary.is_some() {
                // Deleted since: the primary keeps the settings it has. A promotion that waits for new ones
                // would leave traffic divided until there is a scaler again.
                return Ok(Vec::new());
            }
            let (kind, name) = (kind.kind().kind, scaler.name.clone());
            return Err(WorkloadError::ScalerMissing { kind, name });
        };
        let primary = scalers.primary.as_deref();
        let change = kind.sync(&self.workload_cx(), scaler, target, primary)?;
        Ok(change.into_iter().collect())
    }

    /// The change that lets the target's scaler act again, or keeps it from acting.
    pub(super) fn pause_scaler(&self, scalers: &Scalers, is_paused: bool) -> Option<Change> {
        let scaler = self.canary.spec.autoscaler_ref.as_ref()?;
        Scaler::of(scaler).pause(scalers.target.as_deref()?, is_paused)
    }

    pub(super) fn is_deleted(&self) -> bool {
        self.canary.metadata.deletion_timestamp.is_some()
    }
}

// === impl Scalers ===

impl Scalers {
    /// As the cache has them now, our own last writes included.
    pub(super) fn find(spec: &CanarySpec, cache: &Cache, namespace: &str) -> Self {
        let Some(scaler) = &spec.autoscaler_ref else { return Self::default() };
        let find = |name: &str| cache.get(Scaler::of(scaler).kind(), &Key::new(namespace, name));
        Self { target: find(&scaler.name), primary: find(&scaler::primary_name(scaler)) }
    }
}

// === impl Clocks ===

impl Clocks {
    fn for_engine(self) -> tidegate_engine::Clocks {
        let steady = i64::try_from(self.steady.as_millis()).unwrap_or(i64::MAX);
        tidegate_engine::Clocks {
            wall: tidegate_providers::canary::moment(self.wall),
            steady: tidegate_engine::Moment(steady),
        }
    }
}

/// The plan, with notes about the templates it uses.
fn planned(env: &Env<'_>, canary: &Canary, mesh: Mesh) -> Plan {
    let mut plan = plan(&canary.spec, mesh);
    plan.notes.extend(unverified_templates(&canary.spec, |reference| {
        let key = reference_key(&env.key.namespace, reference);
        let template = env.cluster.cache.get(METRIC_TEMPLATE, &key);
        template.is_some_and(|it| it["spec"]["provider"]["insecureSkipVerify"] == true)
    }));
    plan
}

/// The object that a reference of a canary in this namespace names.
pub(super) fn reference_key(own: &str, reference: &ObjectRef) -> Key {
    let namespace = reference.namespace.as_deref().filter(|it| !it.is_empty());
    Key::new(namespace.unwrap_or(own), &reference.name)
}

#[cfg(test)]
mod tests;
