//! One object in the cache, trimmed to the fields that are read. Configuration is kept as fingerprints.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use tidegate_providers::{
    game::{self, GAME_DEPLOYMENT, GAME_STATEFUL_SET, NODE, POD},
    object::Kind,
    workload::{
        CONFIG_MAP, DAEMON_SET, DEPLOYMENT, SECRET, WorkloadKind,
        config::{ConfigDigest, ConfigKind},
    },
};

use crate::cluster::{rewind::is_older, write::FIELD_MANAGER};

#[derive(Clone)]
pub(super) enum Row {
    Object(Arc<Value>),
    /// Of a `ConfigMap` or Secret.
    Digest(Arc<ConfigDigest>),
}

// === impl Row ===

impl Row {
    /// Keeps the fields that are read, drops the rest.
    pub(super) fn of(kind: Kind, mut object: Value) -> Self {
        if kind == CONFIG_MAP {
            return Self::Digest(Arc::new(ConfigDigest::of(ConfigKind::ConfigMap, &object)));
        }
        if kind == SECRET {
            return Self::Digest(Arc::new(ConfigDigest::of(ConfigKind::Secret, &object)));
        }
        if kind == DEPLOYMENT {
            return Self::Object(Arc::new(WorkloadKind::Deployment.trim(object)));
        }
        if kind == DAEMON_SET {
            return Self::Object(Arc::new(WorkloadKind::DaemonSet.trim(object)));
        }
        if kind == POD {
            return Self::Object(Arc::new(game::pod::trim(object)));
        }
        if kind == NODE {
            return Self::Object(Arc::new(game::pod::trim_node(&object)));
        }
        if kind == GAME_DEPLOYMENT || kind == GAME_STATEFUL_SET {
            let is_ours = game::plan::is_paused_by(FIELD_MANAGER, &object);
            object[game::plan::PAUSED_BY_US] = is_ours.into();
        }
        let ours = applied_keys(&object["metadata"]["managedFields"]);
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("managedFields");
            metadata.extend(ours.map(|ours| ("managedFields".to_owned(), ours)));
        }
        Self::Object(Arc::new(object))
    }

    /// Empty where only a fingerprint is kept.
    pub(super) fn uid(&self) -> &str {
        match self {
            Self::Object(object) => object["metadata"]["uid"].as_str().unwrap_or_default(),
            Self::Digest(_) => "",
        }
    }

    /// The UID of its controller; empty if it has none.
    pub(super) fn controller(&self) -> &str {
        let Self::Object(object) = self else { return "" };
        let owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
        let controller = owners.into_iter().find(|owner| owner["controller"] == true);
        controller.and_then(|owner| owner["uid"].as_str()).unwrap_or_default()
    }

    /// Whether UID, annotations and status are equal: the fields that are read of a node.
    pub(super) fn is_equivalent(&self, other: &Self) -> bool {
        let (Self::Object(one), Self::Object(other)) = (self, other) else { return false };
        let mut metadata = ["uid", "annotations"].into_iter();
        metadata.all(|field| one["metadata"][field] == other["metadata"][field])
            && one["status"] == other["status"]
    }

    pub(super) fn version(&self) -> &str {
        match self {
            Self::Object(object) => {
                object["metadata"]["resourceVersion"].as_str().unwrap_or_default()
            }
            Self::Digest(digest) => &digest.resource_version,
        }
    }

    /// Whether this was made before `known`. Versions are numbers; where they are not, the newcomer wins.
    pub(super) fn is_older_than(&self, known: Option<&Self>) -> bool {
        known.is_some_and(|known| is_older(self.version(), known.version()))
    }
}

/// The entry of `managedFields` with the labels and annotations that we applied; the rest is not read.
fn applied_keys(managers: &Value) -> Option<Value> {
    let managers = managers.as_array()?.iter();
    let mut ours =
        managers.filter(|it| it["manager"] == FIELD_MANAGER && it["operation"] == "Apply");
    let metadata = ours.find_map(|it| it["fieldsV1"]["f:metadata"].as_object())?;
    let keys = ["f:labels", "f:annotations"].into_iter();
    let keys: Map<_, _> =
        keys.filter_map(|key| Some((key.to_owned(), metadata.get(key)?.clone()))).collect();
    if keys.is_empty() {
        return None;
    }
    let fields = json!({ "f:metadata": keys });
    Some(json!([{ "manager": FIELD_MANAGER, "operation": "Apply", "fieldsV1": fields }]))
}
