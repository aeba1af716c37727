//! Validates a spec and strips the invalid parts, so that a running rollout can still be rolled back.
//!
//! A spec is validated at every look. Nothing is begun with an invalid one; but a rollout in progress must be
//! rolled back, and a deleted canary reverted, by the route that has the share. Invalid parts are therefore
//! left out, or replaced by their former values from the status and the primary. The engine decides what
//! follows.
//!
//! ```text
//! spec ──► spec errors ──► usable spec ──► plan, routes, Services
//!                          route unknown: blockers, nothing is done
//! ```

use std::sync::Arc;

use serde_json::Value;
use tidegate_api::canary::{
    Canary, CrossNamespace, Provider, TargetKind, TargetRef, analysis::ObjectRef,
};
use tidegate_providers::{
    canary::{Remembered, RolloutTarget, hook_errors, rollout_target, spec_errors},
    object::Owner,
    traffic::{self, Mesh, OtherNamespaces, VIRTUAL_SERVICE},
    workload::{SERVICE, WorkloadKind},
};

use super::env::{Env, NotYet};
use crate::{cluster::CANARY, http::url_error};

/// A canary whose spec can be worked with.
#[derive(Debug)]
pub(super) struct UsableSpec {
    pub(super) canary: Arc<Canary>,
    pub(super) mesh: Mesh,
    /// Errors in the spec: nothing is begun with it.
    pub(super) errors: Vec<String>,
    /// Reasons not to act upon it at all.
    pub(super) blockers: Vec<String>,
}

/// Validates the spec. `Listing` while workloads are listed that say what the target was before.
pub(super) fn usable_spec(
    env: &Env<'_>,
    canary: &Arc<Canary>,
    remembered: &Remembered,
) -> Result<UsableSpec, NotYet> {
    let mut spec = validate(env, canary, remembered)?;
    spec.mesh = spec.mesh.served(|kind| env.may_serve(kind));
    spec.blockers.extend(rival(env, &spec.canary));
    Ok(spec)
}

fn validate(
    env: &Env<'_>,
    canary: &Arc<Canary>,
    remembered: &Remembered,
) -> Result<UsableSpec, NotYet> {
    let provider = canary.spec.provider.map(Provider::as_str);
    let selected = traffic::select(provider.unwrap_or(&env.options.mesh_provider));
    let previous = remembered.mesh();
    let known = selected.as_ref().ok().copied().or(previous);
    let specified = known.unwrap_or(Mesh::Kubernetes);
    let mut errors: Vec<String> =
        selected.err().map(|error| format!("spec.provider: {error}")).into_iter().collect();
    errors.extend(spec_errors(canary, specified, env.options.cross_namespace));
    if !canary.status.as_ref().is_some_and(|it| it.phase.is_under_way()) {
        errors.extend(hook_errors(&canary.spec, url_error));
    }
    let invisible = invisible_upstream(env, canary, specified);
    let is_visible = invisible.is_none();
    errors.extend(invisible);
    errors.extend(refused_names(env, canary, specified));
    let kept = kept_target(canary, remembered);
    let moved = if kept.is_some() { None } else { previous_kind(env, canary)? };
    let is_under_way = |kind: &str, field: &str| {
        format!("{field}: the rollout under way is that of {kind}; leave it so until it is over")
    };
    errors.extend(kept.as_ref().map(|was| {
        if was.name == canary.spec.target_ref.name {
            return is_under_way(&format!("a {}", was.kind.as_str()), "spec.targetRef.kind");
        }
        let target = format!("the {} `{}`", was.kind.as_str(), was.name);
        is_under_way(&target, "spec.targetRef.name")
    }));
    errors.extend(
        moved.map(|was| is_under_way(&format!("a {}", was.kind().kind), "spec.targetRef.kind")),
    );
    if errors.is_empty() {
        let canary = Arc::clone(canary);
        return Ok(UsableSpec { canary, mesh: specified, errors, blockers: Vec::new() });
    }
    let target = kept.as_ref().unwrap_or(&canary.spec.target_ref);
    let begun = match known.and_then(|specified| rollout_target(target, specified, previous)) {
        Some((mesh, RolloutTarget::AsSpecified)) => Some((mesh, moved)),
        Some((mesh, RolloutTarget::KnativeService)) => Some((mesh, Some(WorkloadKind::Knative))),
        Some((mesh, RolloutTarget::LikePrimary)) => {
            kind_of_primary(env, canary)?.map(|kind| (mesh, Some(kind)))
        }
        None => None,
    };
    let Some((mesh, kind)) = begun else {
        // The route that has the share is unknown: a write might lead clients to pods that do not exist.
        let canary = Arc::clone(canary);
        return Ok(UsableSpec { canary, mesh: specified, errors: Vec::new(), blockers: errors });
    };
    let mut usable = Canary::clone(canary);
    usable.spec.target_ref = target.clone();
    if let Some(kind) = kind {
        usable.spec.target_ref.api_version = kind.kind().api_version();
        usable.spec.target_ref.kind = match kind {
            WorkloadKind::Deployment => TargetKind::Deployment,
            WorkloadKind::DaemonSet => TargetKind::DaemonSet,
            WorkloadKind::Service | WorkloadKind::Knative => TargetKind::Service,
        };
    }
    let cross_namespace = env.options.cross_namespace;
    strip(&mut usable, &env.key.namespace, cross_namespace, is_visible);
    if !refused_names(env, &usable, mesh).is_empty() {
        keep_names(env, &mut usable)?;
    }
    Ok(UsableSpec { canary: Arc::new(usable), mesh, errors, blockers: Vec::new() })
}

/// The reason that an Upstream of another namespace cannot be seen: only the watched namespace is ever
/// listed. An error that it does not exist would send the user to the wrong place.
fn invisible_upstream(env: &Env<'_>, canary: &Canary, mesh: Mesh) -> Option<String> {
    let reference = canary.spec.upstream_ref.as_ref().filter(|_| mesh == Mesh::Gloo)?;
    let namespace = reference.namespace.as_deref().filter(|it| !it.is_empty());
    let namespace = namespace.unwrap_or(&env.key.namespace);
    let watched = env.cluster.namespace.as_deref().filter(|watched| *watched != namespace)?;
    Some(format!(
        "spec.upstreamRef.namespace: this operator looks after the namespace {watched:?} alone and \
         cannot see {namespace:?}; have the Upstream in {watched:?}, or run it without --namespace"
    ))
}

/// Names of other namespaces that this canary may not use in its routes.
fn refused_names(env: &Env<'_>, canary: &Canary, mesh: Mesh) -> Vec<String> {
    let services = |namespace: &str| {
        let watched = env.cluster.namespace.as_deref();
        let is_watched = watched.is_none_or(|watched| watched == namespace);
        let name_of = |it: Arc<Value>| it["metadata"]["name"].as_str().map(str::to_owned);
        let names =
            || env.cluster.cache.list_in(SERVICE, namespace).into_iter().filter_map(name_of);
        is_watched.then(|| names().collect())
    };
    let others = OtherNamespaces {
        own: &env.key.namespace,
        refuses_hosts: env.options.cross_namespace == CrossNamespace::Forbidden,
        shared_gateways: &env.options.shared_gateways,
        domain: &env.options.cluster_domain,
        services: &services,
    };
    mesh.refused_names(&canary.spec, &others)
}

/// Replaces hosts and gateways by those of the live route: going back moves no requests of others, and takes
/// none from clients.
fn keep_names(env: &Env<'_>, canary: &mut Canary) -> Result<(), NotYet> {
    env.require(&[VIRTUAL_SERVICE])?;
    let live = env.get(VIRTUAL_SERVICE, canary.spec.apex_name());
    let listed = |field: &str| {
        let texts = live.as_ref().and_then(|live| live["spec"][field].as_array());
        let texts = texts.into_iter().flatten().filter_map(Value::as_str);
        texts.map(str::to_owned).collect::<Vec<_>>()
    };
    if let Some(service) = &mut canary.spec.service {
        service.hosts = listed("hosts");
        service.gateways = listed("gateways");
    }
    Ok(())
}

/// The previous target, where it stays the target: until its rollout is over, while it serves clients, and
/// until a deleted canary has restored it.
fn kept_target(canary: &Canary, remembered: &Remembered) -> Option<TargetRef> {
    let was = remembered.previous_target(&canary.spec.target_ref)?;
    let memory = &remembered.memory;
    let is_needed = memory.serves_from_canary()
        || (memory.phase.is_under_way() && !memory.is_gated())
        || canary.metadata.deletion_timestamp.is_some();
    is_needed.then_some(was)
}

/// The kind that the target of a rollout in progress had, if the spec names another one since.
fn previous_kind(env: &Env<'_>, canary: &Canary) -> Result<Option<WorkloadKind>, NotYet> {
    let is_under_way = canary.status.as_ref().is_some_and(|it| it.phase.is_under_way());
    let copied = match WorkloadKind::of(&canary.spec.target_ref).filter(|_| is_under_way) {
        Some(kind @ (WorkloadKind::Deployment | WorkloadKind::DaemonSet)) => kind,
        Some(WorkloadKind::Service | WorkloadKind::Knative) | None => return Ok(None),
    };
    if env.get(copied.kind(), &canary.spec.primary_name()).is_some() {
        return Ok(None);
    }
    Ok(kind_of_primary(env, canary)?.filter(|was| *was != copied))
}

/// The kind of the primary that this canary owns.
fn kind_of_primary(env: &Env<'_>, canary: &Canary) -> Result<Option<WorkloadKind>, NotYet> {
    // A Service of that name is there in any case.
    let kinds = [WorkloadKind::Deployment, WorkloadKind::DaemonSet];
    env.require(&kinds.map(WorkloadKind::kind))?;
    let (name, namespace) = (&*env.key.name, &*env.key.namespace);
    let owner = Owner { name, namespace, uid: env.uid, can_own: true };
    let is_owned = |kind: &WorkloadKind| {
        let primary = env.get(kind.kind(), &canary.spec.primary_name());
        primary.is_some_and(|primary| owner.owns(&primary))
    };
    Ok(kinds.into_iter().find(is_owned))
}

/// Of two canaries of one target the older acts. The same holds for targets of two kinds with one name:
/// their primaries would have the same name.
fn rival(env: &Env<'_>, canary: &Canary) -> Option<String> {
    let age = |object: &Value| {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        (text("creationTimestamp"), text("uid"))
    };
    let target = canary.spec.target_ref.name.as_str();
    let others = env.cluster.cache.list_in(CANARY, &env.key.namespace);
    let older = others.iter().find(|other| {
        other["metadata"]["uid"] != env.uid
            && other["spec"]["targetRef"]["name"] == target
            && age(other) < age(env.raw)
    })?;
    let name = older["metadata"]["name"].as_str().unwrap_or_default();
    let kind = older["spec"]["targetRef"]["kind"].as_str().unwrap_or_default();
    Some(if kind == canary.spec.target_ref.kind.as_str() {
        format!("spec.targetRef: `{target}` is the target of the older canary `{name}` already")
    } else {
        format!(
            "spec.targetRef.name: the older canary `{name}` has the {kind} `{target}` as its target, and what is \
             made for the two would have the same names; name one of them otherwise"
        )
    })
}

/// Leaves out what is impossible, or must not be read.
fn strip(canary: &mut Canary, own: &str, others: CrossNamespace, is_upstream_visible: bool) {
    let is_allowed = |namespace: Option<&str>| {
        let other = namespace.filter(|it| !it.is_empty() && *it != own);
        others == CrossNamespace::Allowed || other.is_none()
    };
    let spec = &mut canary.spec;
    spec.upstream_ref.take_if(|it| !is_upstream_visible || !is_allowed(it.namespace.as_deref()));
    let analysis = &mut spec.analysis;
    let is_own = |reference: &ObjectRef| is_allowed(reference.namespace.as_deref());
    analysis.metrics.retain(|metric| metric.template_ref.as_ref().is_none_or(is_own));
    analysis.alerts.retain(|alert| is_own(&alert.provider_ref));
    if let Some(affinity) = &mut analysis.session_affinity {
        let cookie = &affinity.cookie_name;
        affinity.primary_cookie_name.take_if(|name| name == cookie);
    }
    if spec.target_ref.kind == TargetKind::Service {
        spec.autoscaler_ref = None;
    }
}

#[cfg(test)]
mod tests;
