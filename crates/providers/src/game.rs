//! The game workloads in the language of the cluster.
//!
//! ```text
//! GameDeployment, GameStatefulSet ── plan ────────► engine::game::Plan
//!                       status ◄──── memory ───────► engine::game::Memory
//! Pod ◄── pods: new ones, patches ── pod ──────────► engine::game::Pod
//! ControllerRevision ◄──────────── revision ───────► the template of its pods
//! HookRun ◄───────────────────────── run ──────────► engine::game::{HookRun, hook::Run}
//! ```
//!
//! Everything the engine remembers is read from objects and written to them here, so that no process needs
//! to remember anything. Objects are JSON as the API server sends it.

pub mod condition;
pub mod json_path;
pub mod measure;
pub mod memory;
pub mod plan;
pub mod pod;
pub mod pods;
pub mod revision;
pub mod run;

mod json;
mod selector;
mod time;

#[cfg(test)]
mod tests;

use crate::object::Kind;

pub use self::{
    json::engine_json,
    selector::{is_selected, selector_text},
};

/// Pods without identity.
pub const GAME_DEPLOYMENT: Kind = Kind {
    group: "tkex.tencent.com",
    version: "v1alpha1",
    kind: "GameDeployment",
    plural: "gamedeployments",
};
/// Numbered pods.
pub const GAME_STATEFUL_SET: Kind =
    Kind { kind: "GameStatefulSet", plural: "gamestatefulsets", ..GAME_DEPLOYMENT };
/// Measurements to take.
pub const HOOK_TEMPLATE: Kind =
    Kind { kind: "HookTemplate", plural: "hooktemplates", ..GAME_DEPLOYMENT };
/// Measurements that are taken.
pub const HOOK_RUN: Kind = Kind { kind: "HookRun", plural: "hookruns", ..GAME_DEPLOYMENT };
/// Pods.
pub const POD: Kind = Kind { group: "", version: "v1", kind: "Pod", plural: "pods" };
/// The machines pods run on.
pub const NODE: Kind = Kind { group: "", version: "v1", kind: "Node", plural: "nodes" };
/// Templates as they were.
pub const CONTROLLER_REVISION: Kind = Kind {
    group: "apps",
    version: "v1",
    kind: "ControllerRevision",
    plural: "controllerrevisions",
};
/// Disks of numbered pods.
pub const VOLUME_CLAIM: Kind = Kind {
    group: "",
    version: "v1",
    kind: "PersistentVolumeClaim",
    plural: "persistentvolumeclaims",
};

/// Names of labels, annotations and conditions. Those of `tidegate.dev` are ours; others are read by what
/// users have around their workloads.
pub mod names {
    /// Label of a pod: the name of its revision.
    pub const REVISION: &str = "controller-revision-hash";
    /// Label of a revision: the end of its name.
    pub const HASH: &str = "controller.kubernetes.io/hash";
    /// Label of a pod of a `GameDeployment`: the end of its name.
    pub const INSTANCE: &str = "tkex.bkbcs.tencent.com/gamedeployment-instance-id";
    /// Label of a pod of a `GameStatefulSet`: its name.
    pub const SET_POD: &str = "gamestatefulset.kubernetes.io/pod-name";
    /// Label of a pod of a `GameStatefulSet`: its number.
    pub const SET_ORDINAL: &str = "gamestatefulset.kubernetes.io/pod-ordinal";
    /// Annotation of a `GameDeployment`: pods are numbered.
    pub const INDEX_ON: &str = "tkex.bkbcs.tencent.com/gamedeployment-index-on";
    /// Annotation of a `GameDeployment`: from where to where.
    pub const INDEX_RANGE: &str = "tkex.bkbcs.tencent.com/gamedeployment-index-range";
    /// Annotation of a pod: its number.
    pub const INDEX: &str = "tkex.bkbcs.tencent.com/gamedeployment-index-id";
    /// Environment variable of a container: the number of its pod.
    pub const INDEX_VARIABLE: &str = "POD_INDEX";
    /// Readiness gate and condition of a pod.
    pub const GATE: &str = "InPlaceUpdateReady";
    /// Annotation of a pod: the update in place that was last begun.
    pub const UPDATE_STATE: &str = "inplace-update-state";
    /// Annotation of a pod: a change that waits.
    pub const UPDATE_GRACE: &str = "inplace-update-grace";
    /// Annotation of a pod: the update that was made while it served.
    pub const HOT_PATCH_STATE: &str = "hotpatch-update-state";
    /// Annotation of a pod that tells its node how to change images.
    pub const HOT_PATCH: &str = "io.kubernetes.hotpatch.container";
    /// Annotation of a pod: it is about to be deleted. Gateways read it.
    pub const DELETING: &str = "io.tencent.bcs.dev/game-pod-deleting";
    /// Annotation of a pod: a hook is to be run when its update is over.
    pub const OWES_POST_HOOK: &str = "tidegate.dev/owes-post-inplace-hook";
    /// Annotation of a pod: the cost of its deletion.
    pub const COST: &str = "controller.kubernetes.io/pod-deletion-cost";
    /// Annotation of a node: the cost of a deletion on it.
    pub const NODE_COST: &str = "io.tencent.bcs.dev/node-deletion-cost";
    /// Annotation of a `GameDeployment`: how costs are read.
    pub const COST_ORDER: &str = "io.tencent.bcs.dev/pod-deletion-cost-sort-method";
    /// Annotation of a pod: it may be taken from a lost node by force.
    pub const FORCE_DELETE: &str = "pod.gamestatefulset.bkbcs.tencent.com/node-lost-force-delete";
    /// Annotation of a workload: a person's command.
    pub const ASK: &str = "tidegate.dev/ask";
    /// Annotation of a workload: pods that cannot be updated in place are replaced.
    pub const FALL_BACK: &str = "tidegate.dev/in-place-if-possible";
    /// Label of a Secret: hooks may send its contents.
    pub const FOR_HOOKS: &str = "tidegate.dev/for-hooks";
    /// Label of a run: its purpose.
    pub const RUN_TYPE: &str = "hookrun-type";
    /// Label of a run: the revision.
    pub const RUN_REVISION: &str = "workload-revision";
    /// Label of a run: the step.
    pub const RUN_STEP: &str = "canary-step-index";
    /// Label of a run: the pod, by the end of its name.
    pub const RUN_INSTANCE: &str = "instance-id";
    /// Annotation of a run: the pod.
    pub const RUN_POD: &str = "tidegate.dev/pod-name";
    /// Annotation of a run: which of all pods that ever had this name.
    pub const RUN_POD_UID: &str = "tidegate.dev/pod-uid";
    /// Annotation of a run: the revision the pod is updated to.
    pub const RUN_TARGET: &str = "tidegate.dev/target-revision";
    /// The type of a run of a step.
    pub const STEP_RUN: &str = "canary-step";
}
