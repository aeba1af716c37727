//! What is wrong with a spec, and the spec without it.
//!
//! A spec is judged at every look. With one that cannot be carried out nothing is begun; but a rollout that is
//! under way, and a canary that goes, must find the way back by the route that has the share. So what is wrong
//! is taken out of it, or put back to what the status and the primary say that it was. What follows is for the
//! engine to decide, which is told what was wrong.
//!
//! ```text
//! spec ──> flaws ──> what of it can be used ──> plan, routes, Services
//!                    nobody knows the route: refused
//! ```

use std::sync::Arc;

use tidegate_api::canary::{
    Canary, CanaryStatus, CrossNamespace, Provider, TargetKind, TargetRef, analysis::ObjectRef,
    status::TargetMemory,
};
use tidegate_providers::{
    object::Owner,
    traffic::{self, Mesh},
    workload::WorkloadKind,
};

use super::{manager, plan, roads, status, task::Task};
use crate::cluster::cache::{Key, TableState};

/// A canary whose spec can be worked with, as far as that goes.
pub(super) struct Mended {
    pub(super) canary: Arc<Canary>,
    pub(super) mesh: Mesh,
    /// What is wrong with the spec: nothing is begun with it.
    pub(super) flaws: Vec<String>,
    /// Why it must not be acted upon at all.
    pub(super) problems: Vec<String>,
}

/// Where a rollout finds the target that it was begun with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begun {
    /// It is the one that the spec names.
    AsAsked,
    /// It is the Service of Knative of that name.
    OfKnative,
    /// It is of the kind that the primary has.
    OfPrimary,
}

/// The provider of a canary's route: the one that the spec asks for, or where that cannot be, the one there was.
/// `None` if nobody can tell.
pub(super) fn mesh_of(canary: &Canary, mesh_provider: &str) -> Option<Mesh> {
    let provider = canary.spec.provider.map_or(mesh_provider, |it| it.as_str());
    let former = canary.status.as_ref().and_then(former_mesh);
    let asked = traffic::select(provider).ok().or(former)?;
    begun(&canary.spec.target_ref, asked, former).map(|(mesh, _)| mesh)
}

/// Judges the spec. `None` while workloads are listed that say what it was before.
pub(super) fn judge(task: &Task, canary: Arc<Canary>, status: &CanaryStatus) -> Option<Mended> {
    let provider = canary.spec.provider.map(Provider::as_str);
    let provider = provider.unwrap_or(&task.cx.options.mesh_provider);
    let selected = traffic::select(provider).map_err(|error| format!("spec.provider: {error}"));
    let former = former_mesh(status);
    let known = selected.as_ref().ok().copied().or(former);
    let asked = known.unwrap_or(Mesh::Kubernetes);
    let mut flaws: Vec<String> = selected.err().into_iter().collect();
    flaws.extend(plan::flaws(&canary, asked, task.cx.options.cross_namespace));
    let watched = task.cx.cluster.namespace.as_deref();
    let unseen = roads::out_of_sight(&canary.spec, asked, &task.key.namespace, watched);
    let is_seen = unseen.is_none();
    flaws.extend(unseen);
    let left = left_target(&canary, status);
    let moved = if left.is_some() { None } else { another_kind(task, &canary)? };
    flaws.extend(left.as_ref().map(|was| left_in_words(was, &canary.spec.target_ref)));
    flaws.extend(moved.map(|was| {
        let kind = was.kind().kind;
        format!("spec.targetRef.kind: the rollout under way is that of a {kind}; leave it so until it is over")
    }));
    if flaws.is_empty() {
        return Some(Mended { canary, mesh: asked, flaws, problems: Vec::new() });
    }
    let target = left.as_ref().unwrap_or(&canary.spec.target_ref);
    let begun = known.and_then(|asked| begun(target, asked, former));
    let begun = match begun {
        Some((mesh, Begun::AsAsked)) => Some((mesh, moved)),
        Some((mesh, Begun::OfKnative)) => Some((mesh, Some(WorkloadKind::Knative))),
        Some((mesh, Begun::OfPrimary)) => {
            kind_of_primary(task, &canary)?.map(|kind| (mesh, Some(kind)))
        }
        None => None,
    };
    let Some((mesh, kind)) = begun else {
        // Nobody can tell which route has the share: what is written might lead to nobody.
        return Some(Mended { canary, mesh: asked, flaws: Vec::new(), problems: flaws });
    };
    let mut mended = Canary::clone(&canary);
    mended.spec.target_ref = target.clone();
    if let Some(workload) = kind {
        mended.spec.target_ref.api_version = workload.kind().api_version();
        mended.spec.target_ref.kind = match workload {
            WorkloadKind::Deployment => TargetKind::Deployment,
            WorkloadKind::DaemonSet => TargetKind::DaemonSet,
            WorkloadKind::Service | WorkloadKind::Knative => TargetKind::Service,
        };
    }
    let allowed = Allowed {
        own: &task.key.namespace,
        others: task.cx.options.cross_namespace,
        upstream: is_seen,
    };
    leave_out(&mut mended, &allowed);
    Some(Mended { canary: Arc::new(mended), mesh, flaws, problems: Vec::new() })
}

/// A target of Knative and its provider need each other: where they do not fit, one of the two was edited, and
/// the route that there is says which.
fn begun(target: &TargetRef, asked: Mesh, former: Option<Mesh>) -> Option<(Mesh, Begun)> {
    let is_known = WorkloadKind::of(target).is_some();
    if is_known && target.is_knative() == (asked == Mesh::Knative) {
        return Some((asked, Begun::AsAsked));
    }
    let is_kept = is_known && !target.is_knative();
    Some(match former? {
        Mesh::Knative => (Mesh::Knative, Begun::OfKnative),
        was => {
            let mesh = if asked == Mesh::Knative { was } else { asked };
            (mesh, if is_kept { Begun::AsAsked } else { Begun::OfPrimary })
        }
    })
}

/// The provider of the route that divides traffic, or of the last one that there was.
fn former_mesh(status: &CanaryStatus) -> Option<Mesh> {
    let rollout = status.rollout.as_ref()?;
    let of_route = rollout.route.as_ref().map(|route| route.provider.as_str());
    let provider = of_route.or(rollout.provider.as_deref())?;
    traffic::select(provider).ok()
}

/// The workload that the primary was made for, if the spec names another one.
fn remembered_target(canary: &Canary, status: &CanaryStatus) -> Option<TargetRef> {
    let TargetMemory { api_version, kind, name } = status.rollout.as_ref()?.target.clone()?;
    // One that nobody can read says nothing.
    let kind = TargetKind::ALL.iter().find(|it| it.as_str() == kind)?.clone();
    let was = TargetRef { api_version, kind, name };
    let now = &canary.spec.target_ref;
    let is_same = was.name == now.name && WorkloadKind::of(&was) == WorkloadKind::of(now);
    (!is_same && WorkloadKind::of(&was).is_some()).then_some(was)
}

/// The workload that is left before its rollout is over, or while clients are on its pods, or that is to be given
/// back with the canary: until then it is the target.
fn left_target(canary: &Canary, status: &CanaryStatus) -> Option<TargetRef> {
    let was = remembered_target(canary, status)?;
    let memory = status::memory(status);
    let is_needed = memory.serves_from_canary()
        || (memory.phase.is_under_way() && !memory.is_gated())
        || canary.metadata.deletion_timestamp.is_some();
    is_needed.then_some(was)
}

/// What is wrong with naming another target now.
fn left_in_words(was: &TargetRef, now: &TargetRef) -> String {
    let (kind, name) = (was.kind.as_str(), &was.name);
    if was.name == now.name {
        return format!(
            "spec.targetRef.kind: the rollout under way is that of a {kind}; leave it so until it is over"
        );
    }
    format!(
        "spec.targetRef.name: the rollout under way is that of the {kind} `{name}`; leave it so until it is over"
    )
}

/// The workload that the primary was made for, in words, if another one is the target.
pub(super) fn previous_target(canary: &Canary, status: &CanaryStatus) -> Option<String> {
    let was = remembered_target(canary, status)?;
    Some(format!("the {} `{}`", was.kind.as_str(), was.name))
}

/// What the target of a rollout under way was, if its kind is another one since.
#[expect(clippy::option_option, reason = "as below")]
fn another_kind(task: &Task, canary: &Canary) -> Option<Option<WorkloadKind>> {
    let is_under_way = canary.status.as_ref().is_some_and(|it| it.phase.is_under_way());
    let copied = match WorkloadKind::of(&canary.spec.target_ref).filter(|_| is_under_way) {
        Some(kind @ (WorkloadKind::Deployment | WorkloadKind::DaemonSet)) => kind,
        Some(WorkloadKind::Service | WorkloadKind::Knative) | None => return Some(None),
    };
    let key = Key::new(&task.key.namespace, &canary.spec.primary_name());
    if task.cx.cluster.cache.get(copied.kind(), &key).is_some() {
        return Some(None);
    }
    Some(kind_of_primary(task, canary)?.filter(|was| *was != copied))
}

/// What the canary's primary is; `None` while kinds are listed that it may be of.
#[expect(clippy::option_option, reason = "one that is not listed yet is not one that is not there")]
fn kind_of_primary(task: &Task, canary: &Canary) -> Option<Option<WorkloadKind>> {
    let cache = &task.cx.cluster.cache;
    let Key { namespace, name } = &task.key;
    let owner = Owner { name, namespace, uid: &task.uid, can_own: true };
    let key = Key::new(namespace, &canary.spec.primary_name());
    // A Service of that name is there in any case.
    let kinds = [WorkloadKind::Deployment, WorkloadKind::DaemonSet];
    for kind in kinds.map(WorkloadKind::kind) {
        manager::watch_too(&task.cx, kind);
        if cache.state(kind) == TableState::Pending {
            return None;
        }
    }
    let is_its =
        |it: &WorkloadKind| cache.get(it.kind(), &key).is_some_and(|object| owner.owns(&object));
    Some(kinds.into_iter().find(is_its))
}

/// What a canary may refer to.
struct Allowed<'a> {
    /// The canary's namespace.
    own: &'a str,
    others: CrossNamespace,
    /// Its Upstream is where it can be seen.
    upstream: bool,
}

/// Leaves out what cannot be, or must not be looked at.
fn leave_out(canary: &mut Canary, allowed: &Allowed<'_>) {
    let is_allowed = |namespace: Option<&str>| {
        let other = namespace.filter(|it| !it.is_empty() && *it != allowed.own);
        allowed.others == CrossNamespace::Allowed || other.is_none()
    };
    let spec = &mut canary.spec;
    spec.upstream_ref.take_if(|it| !allowed.upstream || !is_allowed(it.namespace.as_deref()));
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
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn target(api: &str, kind: &str) -> TargetRef {
        serde_json::from_value(json!({ "apiVersion": api, "kind": kind, "name": "web" })).unwrap()
    }

    #[test]
    fn the_route_that_there_is_says_what_was_edited() {
        let deployment = || target("apps/v1", "Deployment");
        let knative = || target("serving.knative.dev/v1", "Service");
        let odd = || target("apps/v1", "StatefulSet");
        let (istio, linkerd, of_knative) = (Mesh::Istio, Mesh::LINKERD, Mesh::Knative);
        let cases = [
            ("nothing was", deployment(), istio, None, Some((istio, Begun::AsAsked))),
            ("nor here", knative(), of_knative, None, Some((of_knative, Begun::AsAsked))),
            ("another road", deployment(), istio, Some(linkerd), Some((istio, Begun::AsAsked))),
            ("the provider", deployment(), of_knative, Some(istio), Some((istio, Begun::AsAsked))),
            (
                "the provider, away from Knative",
                knative(),
                istio,
                Some(of_knative),
                Some((of_knative, Begun::OfKnative)),
            ),
            ("the target", knative(), istio, Some(istio), Some((istio, Begun::OfPrimary))),
            (
                "the target, away from Knative",
                deployment(),
                of_knative,
                Some(of_knative),
                Some((of_knative, Begun::OfKnative)),
            ),
            ("to what nobody knows", odd(), istio, Some(istio), Some((istio, Begun::OfPrimary))),
            ("there was no route", odd(), istio, None, None),
            ("nor here", knative(), istio, None, None),
        ];
        for (reason, target, asked, former, want) in cases {
            assert_eq!(begun(&target, asked, former), want, "{reason}");
        }
    }

    #[test]
    fn what_must_not_be_looked_at_is_left_out() {
        let elsewhere = json!({ "name": "a", "namespace": "other" });
        let spec = json!({
            "targetRef": { "apiVersion": "v1", "kind": "Service", "name": "web" },
            "autoscalerRef": { "apiVersion": "v1", "kind": "ScaledObject", "name": "web" },
            "upstreamRef": { "apiVersion": "v1", "kind": "Upstream", "name": "a", "namespace": "gloo" },
            "analysis": {
                "interval": "1m", "threshold": 1, "stepWeight": 10,
                "sessionAffinity": { "cookieName": "a", "primaryCookieName": "a" },
                "metrics": [
                    { "name": "theirs", "templateRef": elsewhere },
                    { "name": "own", "templateRef": { "name": "a", "namespace": "shop" } },
                    { "name": "request-success-rate" },
                ],
                "alerts": [{ "name": "theirs", "providerRef": elsewhere }],
            },
        });
        let left = |others: CrossNamespace, upstream: bool| {
            let canary = json!({ "metadata": { "name": "web" }, "spec": spec });
            let mut canary: Canary = serde_json::from_value(canary).unwrap();
            leave_out(&mut canary, &Allowed { own: "shop", others, upstream });
            json!(canary.spec)
        };
        let few = left(CrossNamespace::Forbidden, true);
        let names = |list: &Value| -> Vec<Value> {
            list.as_array().into_iter().flatten().map(|it| it["name"].clone()).collect()
        };
        assert_eq!(names(&few["analysis"]["metrics"]), ["own", "request-success-rate"]);
        assert_eq!(names(&few["analysis"]["alerts"]), Vec::<Value>::new());
        for gone in ["upstreamRef", "autoscalerRef"] {
            assert_eq!(few.get(gone), None, "{gone}");
        }
        let cookies = &few["analysis"]["sessionAffinity"];
        assert_eq!(
            (cookies["cookieName"].as_str(), cookies.get("primaryCookieName")),
            (Some("a"), None)
        );

        let many = left(CrossNamespace::Allowed, true);
        assert_eq!(names(&many["analysis"]["metrics"]).len(), 3);
        assert_eq!(many["upstreamRef"]["namespace"], "gloo");
        assert_eq!(left(CrossNamespace::Allowed, false).get("upstreamRef"), None, "out of sight");
    }
}
