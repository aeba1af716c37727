//! One stored version of one object.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use serde_json::Value;

use super::to_bytes;

/// Namespace (`""` for cluster-scoped objects) and name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// Empty for cluster-scoped kinds.
    pub namespace: Arc<str>,
    /// The name.
    pub name: Arc<str>,
}

/// The parts of an owner reference that garbage collection needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The uid of the owner.
    pub uid: Arc<str>,
    /// Whether it is the managing owner.
    pub controller: bool,
}

/// An immutable version of an object: its JSON, and fields for lookups without parsing.
#[derive(Debug)]
pub struct Stored {
    /// Namespace and name.
    pub key: ObjectKey,
    /// `metadata.uid`
    pub uid: Arc<str>,
    /// `metadata.resourceVersion`
    pub revision: u64,
    /// `metadata.labels`
    pub labels: BTreeMap<String, String>,
    /// `metadata.ownerReferences`
    pub owners: Vec<Owner>,
    /// It has a deletion timestamp.
    pub deleting: bool,
    /// The whole object.
    pub json: Bytes,
}

// === impl ObjectKey ===

impl ObjectKey {
    /// Namespace and name.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// The key that an object names itself by.
    pub fn of(object: &Value) -> Self {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
        Self::new(text("namespace"), text("name"))
    }
}

// === impl Stored ===

impl Stored {
    pub(crate) fn new(object: &Value, revision: u64) -> Self {
        let meta = &object["metadata"];
        let labels = meta["labels"].as_object().map(|labels| {
            let texts =
                labels.iter().map(|(k, v)| (k.clone(), v.as_str().unwrap_or_default().into()));
            texts.collect()
        });
        let owners = meta["ownerReferences"].as_array().map(|owners| {
            let owner = |reference: &Value| Owner {
                uid: reference["uid"].as_str().unwrap_or_default().into(),
                controller: reference["controller"].as_bool().unwrap_or_default(),
            };
            owners.iter().map(owner).collect()
        });
        Self {
            key: ObjectKey::of(object),
            uid: meta["uid"].as_str().unwrap_or_default().into(),
            revision,
            labels: labels.unwrap_or_default(),
            owners: owners.unwrap_or_default(),
            deleting: !meta["deletionTimestamp"].is_null(),
            json: to_bytes(object),
        }
    }

    /// The parsed object. The stored text was serialised here, so it parses.
    pub fn value(&self) -> Value {
        serde_json::from_slice(&self.json).unwrap_or(Value::Null)
    }

    /// The uid of the managing owner.
    pub fn controller_uid(&self) -> Option<&str> {
        self.owners.iter().find(|owner| owner.controller).map(|owner| &*owner.uid)
    }
}
