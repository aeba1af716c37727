//! Parsed request attributes: user, verb and resource.
//!
//! Authorization, fault injection and the request log all use the same [`RequestInfo`], so a rule
//! for one of them means the same for the others.

use std::fmt;

/// The verb of a request. Resource requests use the verbs of Kubernetes' authorization; requests
/// for other paths use the lower-case HTTP method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Verb {
    /// `GET` of one object.
    #[default]
    Get,
    /// `GET` of many objects.
    List,
    /// `GET` with `watch=true`.
    Watch,
    /// `POST` of an object.
    Create,
    /// `PUT` of an object.
    Update,
    /// `PATCH` of an object.
    Patch,
    /// `DELETE` of one object.
    Delete,
    /// `DELETE` of many objects.
    DeleteCollection,
    /// `HEAD` of a path that is no resource.
    Head,
    /// `OPTIONS` of a path that is no resource.
    Options,
    /// `POST` to a path that is no resource.
    Post,
    /// `PUT` to a path that is no resource.
    Put,
}

/// One request. Empty strings mean absent: the core group, no namespace, no name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RequestInfo {
    /// The verb.
    pub verb: Verb,
    /// The API group; empty for the core group.
    pub group: String,
    /// The version of the group.
    pub version: String,
    /// The plural; empty for a non-resource request.
    pub resource: String,
    /// `status`, `scale`, ...; empty for the object itself.
    pub subresource: String,
    /// Empty for cluster-scoped kinds and for all namespaces.
    pub namespace: String,
    /// The object's name; empty for many or for a new one.
    pub name: String,
    /// The user.
    pub user: String,
    /// The groups of the user.
    pub groups: Vec<String>,
    /// The URL path, without its query.
    pub path: String,
    /// The content type of a patch.
    pub patch_type: String,
    /// Nothing is stored.
    pub dry_run: bool,
}

// === impl Verb ===

impl Verb {
    /// As RBAC writes it: `deletecollection`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
            Self::Head => "head",
            Self::Options => "options",
            Self::Post => "post",
            Self::Put => "put",
        }
    }

    /// True for the verbs that can change a stored object.
    pub fn is_mutating(self) -> bool {
        matches!(
            self,
            Self::Create | Self::Update | Self::Patch | Self::Delete | Self::DeleteCollection
        )
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

// === impl RequestInfo ===

impl RequestInfo {
    /// Whether it is for a resource, and not for discovery or health.
    pub fn is_resource(&self) -> bool {
        !self.resource.is_empty()
    }

    /// True if this request, when it succeeds, changes the store.
    ///
    /// Access and token reviews are creations in form only.
    pub fn is_write(&self) -> bool {
        let is_review =
            matches!(self.group.as_str(), "authorization.k8s.io" | "authentication.k8s.io");
        self.verb.is_mutating() && self.is_resource() && !self.dry_run && !is_review
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_is_what_leaves_something_behind() {
        let pods = RequestInfo { resource: "pods".into(), ..RequestInfo::default() };
        let create = RequestInfo { verb: Verb::Create, ..pods.clone() };
        let review = RequestInfo { group: "authorization.k8s.io".into(), ..create.clone() };
        let cases = [
            ("a read changes nothing", RequestInfo { verb: Verb::List, ..pods.clone() }, false),
            ("a creation is a write", create.clone(), true),
            ("so is a patch", RequestInfo { verb: Verb::Patch, ..pods.clone() }, true),
            ("a dry run is not", RequestInfo { dry_run: true, ..create.clone() }, false),
            ("a review is a question", review, false),
            (
                "a path without a resource stores nothing",
                RequestInfo { verb: Verb::Post, path: "/login".into(), ..RequestInfo::default() },
                false,
            ),
        ];
        for (reason, info, want) in cases {
            assert_eq!(info.is_write(), want, "{reason}");
        }
    }
}
