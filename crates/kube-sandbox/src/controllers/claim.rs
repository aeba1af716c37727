//! Adopts and releases an owner's objects, for every workload controller.
//!
//! An owner's objects carry its controller reference and match its selector. An object that matches
//! but has no controller is adopted; one that carries the reference but no longer matches is
//! released. Owned objects come from an index; the others are scanned only after a change suggested
//! that they contain an orphan.

use std::{cell::RefCell, collections::BTreeSet};

use serde_json::{Value, json};

use crate::{
    cluster::{Cluster, Resource},
    controllers::{
        Change, Key,
        object::{
            Kind, controller_of, count, is_deleting, items, key, name, namespace, owner_reference,
            selector, text, uid,
        },
    },
    failure::{Failure, Outcome},
};

/// The claims of one kind of owner on one kind of object.
#[derive(Debug)]
pub(crate) struct Claims {
    owner_kind: Kind,
    owner_resource: Resource,
    resource: Resource,
    /// Owners that may have an orphan to adopt.
    rescan: RefCell<BTreeSet<Key>>,
}

// === impl Claims ===

impl Claims {
    pub(crate) fn new(owner_kind: Kind, owner_resource: Resource, resource: Resource) -> Self {
        Self { owner_kind, owner_resource, resource, rescan: RefCell::default() }
    }

    /// The owners to reconcile because one of their possible objects changed.
    pub(crate) fn owners(&self, cluster: &dyn Cluster, change: &Change<'_>) -> Vec<Key> {
        let mut keys = BTreeSet::new();
        for object in [change.old, change.new].into_iter().flatten() {
            let owner = controller_of(object).filter(|owner| owner.kind == self.owner_kind.kind);
            if let Some(owner) = owner {
                let (namespace, name) = (change.namespace.to_owned(), owner.name.to_owned());
                keys.insert(Key { namespace, name });
            }
        }
        if change.new.is_some_and(|new| controller_of(new).is_none() && !is_deleting(new)) {
            let orphan = change.new.expect("checked on the line above");
            for owner in cluster.list(self.owner_resource, Some(change.namespace)) {
                if selector(&owner).selects(orphan) {
                    self.rescan.borrow_mut().insert(key(&owner));
                    keys.insert(key(&owner));
                }
            }
        }
        keys.into_iter().collect()
    }

    /// The objects of `owner`, after adoption and release.
    pub(crate) fn members(&self, cluster: &dyn Cluster, owner: &Value) -> Outcome<Vec<Value>> {
        let selector = selector(owner);
        let mut members = Vec::new();
        for object in cluster.owned(self.resource, namespace(owner), uid(owner)) {
            if selector.selects(&object) {
                members.push(object);
            } else if !is_deleting(owner) {
                self.release(cluster, owner, &object)?;
            }
        }
        if self.may_have_orphans(owner) {
            for object in cluster.select(self.resource, namespace(owner), &selector) {
                if controller_of(&object).is_none() && !is_deleting(&object) {
                    members.push(self.adopt(cluster, owner, &object)?);
                }
            }
            self.rescan.borrow_mut().remove(&key(owner));
            members.sort_by(|one, other| name(one).cmp(name(other)));
        }
        Ok(members)
    }

    fn may_have_orphans(&self, owner: &Value) -> bool {
        // A new owner, or one whose selector may have changed, needs a scan.
        let changed =
            count(owner, "/metadata/generation") != count(owner, "/status/observedGeneration");
        !is_deleting(owner) && (changed || self.rescan.borrow().contains(&key(owner)))
    }

    fn adopt(&self, cluster: &dyn Cluster, owner: &Value, object: &Value) -> Outcome<Value> {
        let mut references = items(object, "/metadata/ownerReferences").to_vec();
        references.push(owner_reference(self.owner_kind, owner));
        self.patch_owners(cluster, object, &references)
    }

    fn release(&self, cluster: &dyn Cluster, owner: &Value, object: &Value) -> Outcome<()> {
        let references = items(object, "/metadata/ownerReferences").iter();
        let kept: Vec<_> = references.filter(|r| text(r, "/uid") != uid(owner)).cloned().collect();
        match self.patch_owners(cluster, object, &kept) {
            Err(failure) if !failure.is_not_found() => Err(failure),
            _ => Ok(()),
        }
    }

    fn patch_owners(
        &self,
        cluster: &dyn Cluster,
        object: &Value,
        references: &[Value],
    ) -> Result<Value, Failure> {
        let patch = json!({ "metadata": {
            "uid": uid(object), "resourceVersion": text(object, "/metadata/resourceVersion"),
            "ownerReferences": references,
        } });
        cluster.patch(self.resource, namespace(object), name(object), "", &patch)
    }
}
