//! Conversion between the stored version of a kind and the requested one.
//!
//! Custom resources are converted like those of CRDs without a webhook: only `apiVersion` changes.
//! Two built-in kinds have a second form: `autoscaling/v1` and `events.k8s.io`. They are converted
//! to the stored form before any other step, and back at the very end.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use crate::{
    builtin,
    registry::{Backing, Registry, ResourceDef, group_version},
    store::{Stored, to_bytes},
};

/// True if stored bytes can be sent unchanged.
pub(super) fn is_stored_form(def: &ResourceDef) -> bool {
    match &def.backing {
        Backing::Custom(version) => version.storage && !def.defaults_on_read,
        Backing::Builtin | Backing::Review => hub(def).is_none(),
    }
}

/// The group and version in which objects of `def` are processed, if not their own.
fn hub(def: &ResourceDef) -> Option<(&'static str, &'static str)> {
    match (def.group.as_str(), def.version.as_str(), def.plural.as_str()) {
        ("autoscaling", "v1", "horizontalpodautoscalers") => Some(("autoscaling", "v2")),
        ("events.k8s.io", _, "events") => Some(("", "v1")),
        _ => None,
    }
}

/// The definition under which a write is executed.
pub(super) fn working_def(registry: &Registry, def: &Arc<ResourceDef>) -> Arc<ResourceDef> {
    let other = hub(def).and_then(|(group, version)| registry.find(group, version, &def.plural));
    other.unwrap_or_else(|| Arc::clone(def))
}

/// Converts from the client's version to the one in which writes are processed.
pub(super) fn from_version(def: &ResourceDef, object: Value) -> Value {
    match hub(def) {
        None => object,
        Some(("autoscaling", _)) => builtin::hpa_v1_to_v2(&object),
        Some(_) => builtin::event_to_core(&object),
    }
}

/// Converts from the stored form to the client's version.
pub(crate) fn to_version(def: &ResourceDef, mut object: Value) -> Value {
    match (&def.backing, hub(def)) {
        (Backing::Custom(version), _) => {
            object["apiVersion"] = def.api_version().into();
            if def.defaults_on_read {
                // A default added to the schema later also applies to objects written before.
                version.schema.default(&mut object);
            }
            object
        }
        (_, None) => object,
        (_, Some(("autoscaling", _))) => builtin::hpa_v2_to_v1(&object),
        (_, Some(_)) => builtin::event_from_core(&object),
    }
}

/// Converts from the version in which a write was processed to the stored form.
pub(super) fn to_storage(def: &ResourceDef, object: &mut Value) {
    if let Backing::Custom(version) = &def.backing
        && let Some(storage) = version.crd.storage_version()
    {
        object["apiVersion"] = group_version(&def.group, &storage.name).into();
    }
}

/// The bytes of a stored object at the version of `def`.
pub(crate) fn bytes(def: &ResourceDef, stored: &Stored) -> Bytes {
    if is_stored_form(def) {
        stored.json.clone()
    } else {
        to_bytes(&to_version(def, stored.value()))
    }
}
