//! The provider and target that a rollout in progress was begun with.
//!
//! A spec may be edited in mid-rollout into one that cannot be carried out. The status and the route say
//! which provider and which target the rollout has, so that it can still be rolled back.

use tidegate_api::canary::{Canary, TargetKind, TargetRef, status::TargetMemory};

use super::Remembered;
use crate::{
    traffic::{self, Mesh},
    workload::WorkloadKind,
};

/// The target of the rollout in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RolloutTarget {
    /// The one that the spec names.
    AsSpecified,
    /// The Service of Knative of that name.
    KnativeService,
    /// A workload of the same kind as the primary.
    LikePrimary,
}

/// The provider of a canary's route: the one in the spec, or the remembered one where that cannot be used.
/// `None` if neither is known.
pub fn provider_of(canary: &Canary, mesh_provider: &str) -> Option<Mesh> {
    let provider = canary.spec.provider.map_or(mesh_provider, |it| it.as_str());
    let status = canary.status.clone().unwrap_or_default();
    let previous = Remembered::of(status, canary.spec.manual_step.is_some()).mesh();
    let specified = traffic::select(provider).ok().or(previous)?;
    rollout_target(&canary.spec.target_ref, specified, previous).map(|(mesh, _)| mesh)
}

/// Provider and target of a rollout. A Knative target and its provider need each other: where they do not
/// fit, one of the two was edited, and the remembered route says which. `None` if no route is remembered.
pub fn rollout_target(
    target: &TargetRef,
    specified: Mesh,
    previous: Option<Mesh>,
) -> Option<(Mesh, RolloutTarget)> {
    let is_known = WorkloadKind::of(target).is_some();
    if is_known && target.is_knative() == (specified == Mesh::Knative) {
        return Some((specified, RolloutTarget::AsSpecified));
    }
    let is_kept = is_known && !target.is_knative();
    Some(match previous? {
        Mesh::Knative => (Mesh::Knative, RolloutTarget::KnativeService),
        was => {
            let mesh = if specified == Mesh::Knative { was } else { specified };
            (mesh, if is_kept { RolloutTarget::AsSpecified } else { RolloutTarget::LikePrimary })
        }
    })
}

// === impl Remembered ===

impl Remembered {
    /// The workload that the primary was made for, if the spec names another one.
    pub fn previous_target(&self, now: &TargetRef) -> Option<TargetRef> {
        let TargetMemory { api_version, kind, name } = self.target()?.clone();
        // A kind that is unknown here cannot be compared.
        let kind = TargetKind::ALL.iter().find(|it| it.as_str() == kind)?.clone();
        let was = TargetRef { api_version, kind, name };
        let is_same = was.name == now.name && WorkloadKind::of(&was) == WorkloadKind::of(now);
        (!is_same && WorkloadKind::of(&was).is_some()).then_some(was)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn target(api: &str, kind: &str) -> TargetRef {
        serde_json::from_value(json!({ "apiVersion": api, "kind": kind, "name": "web" })).unwrap()
    }

    #[test]
    fn the_remembered_route_says_which_of_provider_and_target_was_edited() {
        use RolloutTarget::{AsSpecified, KnativeService, LikePrimary};
        let deployment = || target("apps/v1", "Deployment");
        let knative = || target("serving.knative.dev/v1", "Service");
        let unknown = || target("apps/v1", "StatefulSet");
        let (istio, linkerd, of_knative) = (Mesh::Istio, Mesh::LINKERD, Mesh::Knative);
        let cases = [
            ("neither", deployment(), istio, None, Some((istio, AsSpecified))),
            ("neither, Knative", knative(), of_knative, None, Some((of_knative, AsSpecified))),
            ("another provider", deployment(), istio, Some(linkerd), Some((istio, AsSpecified))),
            ("provider", deployment(), of_knative, Some(istio), Some((istio, AsSpecified))),
            (
                "provider, away from Knative",
                knative(),
                istio,
                Some(of_knative),
                Some((of_knative, KnativeService)),
            ),
            ("target", knative(), istio, Some(istio), Some((istio, LikePrimary))),
            (
                "target, away from Knative",
                deployment(),
                of_knative,
                Some(of_knative),
                Some((of_knative, KnativeService)),
            ),
            ("target, unknown kind", unknown(), istio, Some(istio), Some((istio, LikePrimary))),
            ("no route, unknown kind", unknown(), istio, None, None),
            ("no route, Knative", knative(), istio, None, None),
        ];
        for (edited, target, specified, previous, want) in cases {
            assert_eq!(rollout_target(&target, specified, previous), want, "{edited}");
        }
    }
}
