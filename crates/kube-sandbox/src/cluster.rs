//! The cluster interface for controllers.
//!
//! Controllers and the simulated kubelet are synchronous code over [`Cluster`]: they read, decide
//! and write through the same path as HTTP clients, with the same versions, validation and watches.
//! Because they are synchronous, a seeded scheduler can step them one at a time.

use jiff::Timestamp;
use serde_json::Value;

use crate::{failure::Outcome, selector::LabelSelector};

/// A built-in resource, by the group and plural of its table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resource {
    /// The API group; empty for the core group.
    pub group: &'static str,
    /// The plural, as in paths.
    pub plural: &'static str,
}

/// `v1`, cluster-scoped.
pub const NAMESPACES: Resource = Resource { group: "", plural: "namespaces" };
/// `v1`, cluster-scoped.
pub const NODES: Resource = Resource { group: "", plural: "nodes" };
/// `v1`
pub const PODS: Resource = Resource { group: "", plural: "pods" };
/// `v1`
pub const SERVICES: Resource = Resource { group: "", plural: "services" };
/// `v1`
pub const ENDPOINTS: Resource = Resource { group: "", plural: "endpoints" };
/// `v1`
pub const CONFIG_MAPS: Resource = Resource { group: "", plural: "configmaps" };
/// `v1`
pub const SECRETS: Resource = Resource { group: "", plural: "secrets" };
/// `v1`
pub const EVENTS: Resource = Resource { group: "", plural: "events" };
/// `v1`
pub const SERVICE_ACCOUNTS: Resource = Resource { group: "", plural: "serviceaccounts" };
/// `discovery.k8s.io/v1`
pub const ENDPOINT_SLICES: Resource =
    Resource { group: "discovery.k8s.io", plural: "endpointslices" };
/// `apps/v1`
pub const DEPLOYMENTS: Resource = Resource { group: "apps", plural: "deployments" };
/// `apps/v1`
pub const REPLICA_SETS: Resource = Resource { group: "apps", plural: "replicasets" };
/// `apps/v1`
pub const STATEFUL_SETS: Resource = Resource { group: "apps", plural: "statefulsets" };
/// `apps/v1`
pub const DAEMON_SETS: Resource = Resource { group: "apps", plural: "daemonsets" };
/// `apps/v1`
pub const CONTROLLER_REVISIONS: Resource =
    Resource { group: "apps", plural: "controllerrevisions" };
/// `autoscaling/v2`
pub const AUTOSCALERS: Resource =
    Resource { group: "autoscaling", plural: "horizontalpodautoscalers" };
/// `policy/v1`
pub const DISRUPTION_BUDGETS: Resource =
    Resource { group: "policy", plural: "poddisruptionbudgets" };

/// Options of a delete.
#[derive(Debug, Clone, Default)]
pub struct Deletion {
    /// `Background`, `Foreground` or `Orphan`; `None` is the kind's default.
    pub propagation: Option<String>,
    /// Seconds for a pod to end; `None` leaves it to the pod.
    pub grace_period_s: Option<i64>,
    /// Deletes only the object with this uid.
    pub uid: Option<String>,
    /// Deletes only the object at this version.
    pub resource_version: Option<String>,
}

/// Reads and writes of one in-process user of the API server.
///
/// Objects are JSON in the kind's preferred version. A read returns the currently stored object;
/// there is no cache. `Err` is the error that an HTTP client would get.
pub trait Cluster {
    /// The time in the cluster.
    fn now(&self) -> Timestamp;

    /// `None` if the object does not exist. `namespace` is `""` for cluster-scoped kinds.
    fn get(&self, resource: Resource, namespace: &str, name: &str) -> Option<Value>;

    /// All objects of a kind in one namespace or (`None`) in all, ordered by namespace and name.
    fn list(&self, resource: Resource, namespace: Option<&str>) -> Vec<Value>;

    /// Objects whose controller owner reference has `owner_uid`, ordered by name.
    fn owned(&self, resource: Resource, namespace: &str, owner_uid: &str) -> Vec<Value>;

    /// Objects of one namespace that `selector` matches, ordered by name.
    fn select(&self, resource: Resource, namespace: &str, selector: &LabelSelector) -> Vec<Value> {
        let mut objects = self.list(resource, Some(namespace));
        objects.retain(|object| selector.selects(object));
        objects
    }

    /// Creates an object; its name may be generated.
    fn create(&self, resource: Resource, namespace: &str, object: Value) -> Outcome<Value>;

    /// Replaces an object, or its `subresource` (`status`, `binding`, `scale`) if given. Fails with
    /// 409 if `object` has a `metadata.resourceVersion` that is not current.
    fn update(&self, resource: Resource, subresource: &str, object: Value) -> Outcome<Value>;

    /// JSON merge patch of the object (`subresource` `""`) or of a subresource.
    fn patch(
        &self,
        resource: Resource,
        namespace: &str,
        name: &str,
        subresource: &str,
        patch: &Value,
    ) -> Outcome<Value>;

    /// Deletes an object, or marks it for deletion where finalizers or grace hold it.
    fn delete(
        &self,
        resource: Resource,
        namespace: &str,
        name: &str,
        deletion: &Deletion,
    ) -> Outcome<()>;

    /// A random number from the sandbox's seeded source.
    fn random(&self) -> u64;
}
