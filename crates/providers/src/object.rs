//! Objects as the translations see them: owners, live objects, and changes.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use serde_json::{Value, json};

/// The canary that objects are made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner<'a> {
    /// Name of the canary.
    pub name: &'a str,
    /// Namespace of the canary and of everything it owns.
    pub namespace: &'a str,
    /// Identity of the canary.
    pub uid: &'a str,
    /// False where the canary lives in another cluster: such objects cannot be owned.
    pub can_own: bool,
}

/// The identity of a kind of object in the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind {
    /// API group, empty for the core.
    pub group: &'static str,
    /// Version of the group.
    pub version: &'static str,
    /// Kind, as in manifests.
    pub kind: &'static str,
    /// Plural, as in paths.
    pub plural: &'static str,
}

/// One change to one object in the canary's namespace.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Create the object, or apply these fields to it (server-side, under our field manager).
    ///
    /// The body has `apiVersion`, `kind` and `metadata.name`; if the object was seen, also its
    /// `metadata.resourceVersion`, so that a change based on an old read is refused.
    Apply {
        /// The applied object: our fields and no others.
        body: Value,
        /// JSON pointers of subtrees that must be exactly as in `body` afterwards, even where other
        /// field managers own fields in them.
        exact: Vec<Cow<'static, str>>,
    },
    /// A JSON merge patch; for changes that an apply cannot make, such as removing fields of
    /// others.
    Merge {
        /// Kind of the object.
        kind: Kind,
        /// Name of the object.
        name: String,
        /// The patch, with `metadata.resourceVersion` of the object that was seen.
        patch: Value,
    },
    /// Delete the object if it is still the one that was seen.
    Delete {
        /// Kind of the object.
        kind: Kind,
        /// Name of the object.
        name: String,
        /// Identity of the object that was seen.
        uid: String,
    },
}

/// Objects as they are in the cluster, by kind and name, all in one namespace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Live(BTreeMap<(&'static str, String), Arc<Value>>);

/// Kinds that belong to the whole cluster and to no namespace, by group and kind.
const CLUSTER_WIDE: [(&str, &str); 2] = [("kuma.io", "TrafficRoute"), ("", "Node")];

/// The name under which the operator applies objects: by it the server knows which fields are ours.
pub const FIELD_MANAGER: &str = "tidegate";

/// The annotation by which its owner hands a route or a Service over to a canary, by the canary's name.
///
/// Flagger takes over any object of the right name. For Istio so do we, since that is how its users move in;
/// other objects that serve something else are rewritten only with the consent of their owner.
pub const HANDED_OVER: &str = "tidegate.dev/canary";

/// The annotations that keep Flux from undoing a controller's writes.
pub const FLUX_OFF: [(&str, &str); 2] = [
    ("kustomize.toolkit.fluxcd.io/reconcile", "disabled"),
    ("helm.toolkit.fluxcd.io/driftDetection", "disabled"),
];

// === impl Owner ===

impl Owner<'_> {
    /// The `ownerReferences` of an object made for this canary; none where it cannot be owned.
    pub fn references(&self) -> Vec<Value> {
        if !self.can_own {
            return Vec::new();
        }
        vec![json!({
            "apiVersion": "flagger.app/v1beta1",
            "kind": "Canary",
            "name": self.name,
            "uid": self.uid,
            "controller": true,
            "blockOwnerDeletion": true,
        })]
    }

    /// Whether the object's controller is a Canary of this name.
    ///
    /// As Flagger: kind and name decide, with any API version; a canary that was deleted and made again owns
    /// its objects again.
    pub fn owns(&self, object: &Value) -> bool {
        controller_of(object) == Some(("Canary", self.name))
    }
}

/// The `exact` of a [`Change::Apply`], where it is the same every time.
pub fn exactly(pointers: &[&'static str]) -> Vec<Cow<'static, str>> {
    pointers.iter().map(|pointer| Cow::Borrowed(*pointer)).collect()
}

/// Kind and name of the object's controller, if it has one.
pub fn controller_of(object: &Value) -> Option<(&str, &str)> {
    let references = object["metadata"]["ownerReferences"].as_array()?;
    let controller = references.iter().find(|reference| reference["controller"] == true)?;
    Some((controller["kind"].as_str()?, controller["name"].as_str()?))
}

// === impl Kind ===

impl Kind {
    /// `group/version`, or the version alone for the core.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Whether objects of this kind are in namespaces.
    pub fn is_namespaced(&self) -> bool {
        !CLUSTER_WIDE.contains(&(self.group, self.kind))
    }
}

// === impl Live ===

impl Live {
    /// Adds an object that was read.
    pub fn insert(&mut self, kind: Kind, object: impl Into<Arc<Value>>) {
        let object = object.into();
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        self.0.insert((kind.kind, name), object);
    }

    /// Adds an object that was read from another namespace; see [`elsewhere`](Self::elsewhere).
    pub fn insert_from(&mut self, kind: Kind, namespace: &str, object: impl Into<Arc<Value>>) {
        let object = object.into();
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        self.0.insert((kind.kind, format!("{namespace}/{name}")), object);
    }

    /// The object of another namespace, if there is one.
    pub fn elsewhere(&self, kind: Kind, namespace: &str, name: &str) -> Option<&Value> {
        self.get(kind, &format!("{namespace}/{name}"))
    }

    /// Removes an object that was deleted.
    pub fn remove(&mut self, kind: Kind, name: &str) -> Option<Arc<Value>> {
        self.0.remove(&(kind.kind, name.to_owned()))
    }

    /// The object, if there is one.
    pub fn get(&self, kind: Kind, name: &str) -> Option<&Value> {
        self.0.get(&(kind.kind, name.to_owned())).map(Arc::as_ref)
    }

    /// The same without any object's `status`: the requested state, whether or not it is in effect.
    #[must_use]
    pub fn without_status(&self) -> Self {
        let bare = |object: &Arc<Value>| {
            let mut bare = Value::clone(object);
            if let Some(fields) = bare.as_object_mut() {
                fields.remove("status");
            }
            Arc::new(bare)
        };
        Self(self.0.iter().map(|(key, object)| (key.clone(), bare(object))).collect())
    }
}
