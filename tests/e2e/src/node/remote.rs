//! A real API server as a cluster of the sandbox's controllers.
//!
//! Every read and write is a request: there is no cache to be stale, and a conflict is the server's answer.

use std::{cell::RefCell, time::Duration};

use anyhow::Context as _;
use http::{Method, Request, header::CONTENT_TYPE};
use jiff::Timestamp;
use kube::Client;
use kube_sandbox::{
    cluster::{Cluster, Deletion, PODS, Resource},
    failure::{Cause, Failure, Outcome},
    random::Random,
};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::applications::Applications;

/// No request to a server on this machine takes longer, unless the server is down.
const PATIENCE: Duration = Duration::from_mins(1);
/// Attempts of a read; a server that is down for longer counts as empty.
const READS_MAX: usize = 5;
const READ_AGAIN: Duration = Duration::from_millis(200);

pub(super) struct Remote {
    runtime: Runtime,
    client: Client,
    applications: Option<RefCell<Applications>>,
    random: Random,
}

// === impl Remote ===

impl Remote {
    pub(super) fn new(
        runtime: Runtime,
        client: Client,
        applications: Option<Applications>,
    ) -> Self {
        let applications = applications.map(RefCell::new);
        Self { runtime, client, applications, random: Random::seeded(1) }
    }

    pub(super) fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Forgets a deleted pod and stops its application.
    pub(super) fn forget(&self, pod: &Value) {
        if let Some(applications) = &self.applications {
            applications.borrow_mut().forget(pod);
        }
    }

    fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Outcome<Value> {
        let media_type = match method {
            Method::PATCH => "application/merge-patch+json",
            _ => "application/json",
        };
        let body = body.map(Value::to_string).unwrap_or_default();
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(CONTENT_TYPE, media_type)
            .body(body.into_bytes())
            .map_err(Failure::internal)?;
        let exchange =
            async { tokio::time::timeout(PATIENCE, self.client.request::<Value>(request)).await };
        match self.runtime.block_on(exchange) {
            Ok(answer) => answer.map_err(failure),
            Err(_) => Err(Failure::unclassified("the API server takes too long")),
        }
    }

    /// The object at a path, if there is one. A server that did not answer has not said that there is none.
    fn read(&self, path: &str) -> Option<Value> {
        for _ in 0..READS_MAX {
            match self.send(Method::GET, path, None) {
                Ok(found) => return Some(found),
                Err(failure) if (400..500).contains(&failure.code) && failure.code != 429 => {
                    return None;
                }
                Err(_) => std::thread::sleep(READ_AGAIN),
            }
        }
        None
    }

    /// Starts or stops the application of a pod before the new status is written.
    fn run_application(&self, pod: &Value) -> anyhow::Result<()> {
        let Some(applications) = &self.applications else { return Ok(()) };
        let mut applications = applications.borrow_mut();
        self.runtime.block_on(applications.follow(pod)).context("the application cannot listen")
    }
}

impl Cluster for Remote {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn get(&self, resource: Resource, namespace: &str, name: &str) -> Option<Value> {
        self.read(&path(resource, namespace, name, ""))
    }

    fn list(&self, resource: Resource, namespace: Option<&str>) -> Vec<Value> {
        let path = path(resource, namespace.unwrap_or_default(), "", "");
        let mut list = self.read(&path).unwrap_or_default();
        match list["items"].take() {
            Value::Array(items) => items,
            _ => Vec::new(),
        }
    }

    fn owned(&self, resource: Resource, namespace: &str, owner_uid: &str) -> Vec<Value> {
        let mut objects = self.list(resource, Some(namespace));
        objects.retain(|object| {
            let references = object["metadata"]["ownerReferences"].as_array();
            references
                .into_iter()
                .flatten()
                .any(|reference| reference["uid"] == owner_uid && reference["controller"] == true)
        });
        objects
    }

    fn create(&self, resource: Resource, namespace: &str, object: Value) -> Outcome<Value> {
        self.send(Method::POST, &path(resource, namespace, "", ""), Some(&object))
    }

    fn update(&self, resource: Resource, subresource: &str, object: Value) -> Outcome<Value> {
        let metadata = |key: &str| object["metadata"][key].as_str().unwrap_or_default();
        let path = path(resource, metadata("namespace"), metadata("name"), subresource);
        if subresource == "binding" {
            return self.send(Method::POST, &path, Some(&object));
        }
        if resource == PODS && subresource == "status" {
            self.run_application(&object)
                .map_err(|error| Failure::internal(format!("{error:#}")))?;
        }
        self.send(Method::PUT, &path, Some(&object))
    }

    fn patch(
        &self,
        resource: Resource,
        namespace: &str,
        name: &str,
        subresource: &str,
        patch: &Value,
    ) -> Outcome<Value> {
        self.send(Method::PATCH, &path(resource, namespace, name, subresource), Some(patch))
    }

    fn delete(
        &self,
        resource: Resource,
        namespace: &str,
        name: &str,
        deletion: &Deletion,
    ) -> Outcome<()> {
        let Deletion { propagation, grace_period_s, uid, resource_version } = deletion;
        let mut options = json!({ "apiVersion": "v1", "kind": "DeleteOptions" });
        if let Some(propagation) = propagation {
            options["propagationPolicy"] = propagation.as_str().into();
        }
        if let Some(seconds) = grace_period_s {
            options["gracePeriodSeconds"] = (*seconds).into();
        }
        for (key, value) in [("uid", uid), ("resourceVersion", resource_version)] {
            if let Some(value) = value {
                options["preconditions"][key] = value.as_str().into();
            }
        }
        let path = path(resource, namespace, name, "");
        self.send(Method::DELETE, &path, Some(&options)).map(|_| ())
    }

    fn random(&self) -> u64 {
        self.random.next_u64()
    }
}

/// `/api/v1/namespaces/test/pods/shop-1/status`; empty parts are left out.
fn path(resource: Resource, namespace: &str, name: &str, subresource: &str) -> String {
    let version = match resource.group {
        "autoscaling" => "v2",
        _ => "v1",
    };
    let root = match resource.group {
        "" => format!("/api/{version}"),
        group => format!("/apis/{group}/{version}"),
    };
    let scope = if namespace.is_empty() { "" } else { "namespaces" };
    let parts = [root.as_str(), scope, namespace, resource.plural, name, subresource];
    let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join("/")
}

/// The API server's refusal, as the controllers know it.
fn failure(error: kube::Error) -> Failure {
    const REASONS: [&str; 6] =
        ["NotFound", "AlreadyExists", "Conflict", "Forbidden", "Invalid", "Gone"];
    let kube::Error::Api(status) = error else { return Failure::unclassified(error.to_string()) };
    let reason = REASONS.into_iter().find(|known| *known == status.reason).unwrap_or_default();
    let mut failure = Failure::new(status.code, reason, status.message.clone());
    let causes = status.details.map(|details| details.causes).unwrap_or_default();
    let causes = causes.into_iter().map(|cause| Cause {
        reason: cause.reason,
        message: cause.message,
        field: cause.field,
    });
    failure.causes = causes.collect();
    failure
}

#[cfg(test)]
mod tests {
    use kube_sandbox::cluster::{DEPLOYMENTS, NODES};

    use super::*;

    #[test]
    fn paths_are_those_of_the_api() {
        let cases = [
            (path(PODS, "test", "shop-1", "status"), "/api/v1/namespaces/test/pods/shop-1/status"),
            (path(PODS, "test", "", ""), "/api/v1/namespaces/test/pods"),
            (path(PODS, "", "", ""), "/api/v1/pods"),
            (path(NODES, "", "node-0", ""), "/api/v1/nodes/node-0"),
            (
                path(DEPLOYMENTS, "test", "shop", ""),
                "/apis/apps/v1/namespaces/test/deployments/shop",
            ),
        ];
        for (got, want) in cases {
            assert_eq!(got, want);
        }
    }
}
