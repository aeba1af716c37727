//! The built-in kinds: defaults, system-set fields, validation and warnings of the API server.
//!
//! [`strategy`] finds the [`Strategy`] of a kind. A server runs its steps in this order; each is
//! pure and works on the JSON of the kind's preferred version:
//!
//! ```text
//! create:  defaults -> (name, uid, times) -> prepare_create -> (allocate) -> validate -> warnings
//! update:  defaults -> prepare_update     -> (allocate)     -> validate_update
//! status:  defaults -> prepare_status_update                -> validate_status_update
//! ```
//!
//! Only `server` writes through a strategy. The depth is limited to what an operator, `kubectl` and
//! their tests observe; error texts are those of Kubernetes 1.36.

use serde_json::Value;

use crate::{failure::FieldError, names::NameRule};

mod address;
mod at;
mod autoscaler;
mod autoscaler_v1;
mod cluster_kinds;
mod config;
mod container_rules;
mod edit;
mod endpoints;
mod event;
mod metadata;
mod network;
mod pod;
mod pod_defaults;
mod pod_rules;
mod policy;
mod service;
mod service_rules;
mod table;
mod volume_rules;
mod warnings;
mod workload;
mod workload_rules;

pub(crate) use autoscaler_v1::{hpa_v1_to_v2, hpa_v2_to_v1};
pub(crate) use event::{event_from_core, event_to_core};
pub(crate) use metadata::{
    finalizer_warnings, keep_system_metadata, validate_metadata, validate_metadata_update,
};
pub(crate) use pod::priority as pod_priority;
pub(crate) use service::{
    NODE_PORTS, NodePortSlot, cluster_ip_taken, service_cluster_ip, service_needs_cluster_ip,
    service_node_port_slots, set_cluster_ip, set_node_port,
};

/// How objects of one kind are created, changed and deleted.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact about a kind, none excludes another"
)]
pub(crate) struct Strategy {
    pub group: &'static str,
    pub kind: &'static str,
    pub namespaced: bool,
    pub name_rule: NameRule,
    /// `metadata.generation` counts changes of the spec.
    pub has_generation: bool,
    /// `status` is written through its own subresource only.
    pub status_subresource: bool,
    /// Deletion waits for a grace period.
    pub graceful_delete: bool,
    /// A PUT of an object that does not exist creates it.
    pub allow_create_on_update: bool,
    /// A PUT without a resource version overwrites the stored object.
    pub allow_unconditional_update: bool,
    rules: Rules,
}

/// The steps that differ from kind to kind.
#[derive(Debug, Clone, Copy)]
struct Rules {
    defaults: fn(&mut Value),
    create: fn(&mut Value),
    update: fn(&mut Value, &Value),
    status_update: fn(&mut Value, &Value),
    /// Whether an update counts for `metadata.generation`.
    changed: fn(&Value, &Value) -> bool,
    validate: fn(&Value) -> Vec<FieldError>,
    validate_update: fn(&Value, &Value) -> Vec<FieldError>,
    validate_status: fn(&Value, &Value) -> Vec<FieldError>,
    warnings: fn(&Value) -> Vec<String>,
}

/// The strategy of a built-in kind; `None` for custom resources.
pub(crate) fn strategy(group: &str, kind: &str) -> Option<&'static Strategy> {
    table::STRATEGIES.iter().find(|known| known.group == group && known.kind == kind)
}

// === impl Strategy ===

impl Strategy {
    /// Fills in what was left out, and drops what says nothing. Does nothing the second time.
    pub(crate) fn defaults(&self, object: &mut Value) {
        edit::tidy(object);
        edit::object(object, "metadata");
        (self.rules.defaults)(object);
    }

    /// Fields that the server sets on a new object. `metadata` has its name and UID.
    pub(crate) fn prepare_create(&self, object: &mut Value) {
        if self.status_subresource && !self.keeps_status_on_create() {
            edit::set(object, "status", serde_json::Map::new());
        }
        // Kinds without a generation keep the number they were given.
        if let Some(meta) = edit::object(object, "metadata")
            && self.has_generation
        {
            edit::set(meta, "generation", 1);
        }
        (self.rules.create)(object);
        // Some status fields are written even when empty.
        (self.rules.defaults)(object);
    }

    /// Restores fields that a client cannot change through the object itself. `new` had its [`Strategy::defaults`].
    pub(crate) fn prepare_update(&self, new: &mut Value, old: &Value) {
        keep_system_metadata(new, old);
        if self.status_subresource {
            edit::carry(new, old, "status");
        }
        (self.rules.update)(new, old);
        self.bump_generation(new, old);
    }

    /// Counts a change of what the object asks for. Counting twice is counting once.
    pub(crate) fn bump_generation(&self, new: &mut Value, old: &Value) {
        if self.has_generation && (self.rules.changed)(new, old) {
            let generation = old.pointer("/metadata/generation").and_then(Value::as_i64);
            if let Some(meta) = edit::object(new, "metadata") {
                edit::set(meta, "generation", generation.unwrap_or_default() + 1);
            }
        }
    }

    /// Keeps everything but the status, and what of the metadata a status writer may touch.
    pub(crate) fn prepare_status_update(&self, new: &mut Value, old: &Value) {
        keep_system_metadata(new, old);
        (self.rules.status_update)(new, old);
        (self.rules.defaults)(new);
    }

    pub(crate) fn validate(&self, object: &Value) -> Vec<FieldError> {
        let meta = object.get("metadata").unwrap_or(&Value::Null);
        let mut errors = validate_metadata(meta, self.namespaced, self.name_rule, "metadata");
        // These kinds are checked by the generic rules alone.
        if !matches!(self.kind, "Event" | "Lease" | "PodDisruptionBudget") {
            errors.extend(metadata::bare_finalizers(meta));
        }
        let own = (self.rules.validate)(object);
        if self.kind == "Event" && !own.is_empty() {
            // An Event is held to the generic rules only if it passes its own.
            return own;
        }
        errors.extend(own);
        errors
    }

    pub(crate) fn validate_update(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = self.validate_both_metadata(new, old);
        errors.extend((self.rules.validate_update)(new, old));
        errors
    }

    pub(crate) fn validate_status_update(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = self.validate_both_metadata(new, old);
        errors.extend((self.rules.validate_status)(new, old));
        errors
    }

    pub(crate) fn warnings(&self, object: &Value) -> Vec<String> {
        (self.rules.warnings)(object)
    }

    /// Nodes describe themselves when they register.
    fn keeps_status_on_create(&self) -> bool {
        (self.group, self.kind) == ("", "Node")
    }

    fn validate_both_metadata(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        let (new_meta, old_meta) = (new.get("metadata"), old.get("metadata"));
        let (new_meta, old_meta) =
            (new_meta.unwrap_or(&Value::Null), old_meta.unwrap_or(&Value::Null));
        let mut errors = Vec::new();
        if !self.allow_unconditional_update && edit::text(new_meta, "resourceVersion").is_empty() {
            let path = "metadata.resourceVersion";
            errors.push(FieldError::invalid(path, &0.into(), "must be specified for an update"));
        }
        errors.extend(validate_metadata_update(new_meta, old_meta, "metadata"));
        errors
    }
}

#[cfg(test)]
mod tests;
