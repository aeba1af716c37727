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
    pub group: &'static str,
    pub plural: &'static str,
}

pub const NAMESPACES: Resource = Resource { group: "", plural: "namespaces" };
pub const NODES: Resource = Resource { group: "", plural: "nodes" };
pub const PODS: Resource = Resource { group: "", plural: "pods" };
pub const SERVICES: Resource = Resource { group: "", plural: "services" };
pub const ENDPOINTS: Resource = Resource { group: "", plural: "endpoints" };
pub const CONFIG_MAPS: Resource = Resource { group: "", plural: "configmaps" };
pub const SECRETS: Resource = Resource { group: "", plural: "secrets" };
pub const EVENTS: Resource = Resource { group: "", plural: "events" };
pub const SERVICE_ACCOUNTS: Resource = Resource { group: "", plural: "serviceaccounts" };
pub const ENDPOINT_SLICES: Resource =
    Resource { group: "discovery.k8s.io", plural: "endpointslices" };
pub const DEPLOYMENTS: Resource = Resource { group: "apps", plural: "deployments" };
pub const REPLICA_SETS: Resource = Resource { group: "apps", plural: "replicasets" };
pub const STATEFUL_SETS: Resource = Resource { group: "apps", plural: "statefulsets" };
pub const DAEMON_SETS: Resource = Resource { group: "apps", plural: "daemonsets" };
pub const CONTROLLER_REVISIONS: Resource =
    Resource { group: "apps", plural: "controllerrevisions" };
pub const AUTOSCALERS: Resource =
    Resource { group: "autoscaling", plural: "horizontalpodautoscalers" };
pub const DISRUPTION_BUDGETS: Resource =
    Resource { group: "policy", plural: "poddisruptionbudgets" };

/// Options of a delete.
#[derive(Debug, Clone, Default)]
pub struct Deletion {
    /// `Background`, `Foreground` or `Orphan`; `None` is the kind's default.
    pub propagation: Option<String>,
    pub grace_period_s: Option<i64>,
    pub uid: Option<String>,
    pub resource_version: Option<String>,
}

/// Reads and writes of one in-process user of the API server.
///
/// Objects are JSON in the kind's preferred version. A read returns the currently stored object;
/// there is no cache. `Err` is the error that an HTTP client would get.
pub trait Cluster {
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
