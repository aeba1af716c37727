//! The Canary object and the engine's values, both ways.
//!
//! ```text
//! spec   ──► plan        what the engine decides by; spec_errors: what cannot be done;
//!                        findings: what is probably not meant
//! status ──► memory      what the last decision remembered (Remembered)
//! memory ──► fields      the status as it should be
//! decision ► conditions  conditions and lastDecision: what people and tools read
//! ```
//!
//! The operator calls these between two looks; `tidegate` calls them to show a canary.

mod conditions;
mod memory;
mod patch;
mod plan;
mod policy;
mod provider;

use tidegate_api::canary::Canary;
use tidegate_engine::{Memory, Plan};

use crate::traffic::Mesh;

pub use self::{
    conditions::{
        StatusView, conditions_and_decision, conditions_of_new_revision, policy_condition,
    },
    memory::{
        Remembered, StatusExtras, api_phase, cookies, fields, memory, moment, rerouted, timestamp,
    },
    patch::{adds_names_only, patch},
    plan::{plan, spec_errors, unverified_templates},
    policy::{Finding, UrlError, findings, hook_errors},
    provider::{RolloutTarget, provider_of, rollout_target},
};

/// The plan and memory of a canary as the operator reads them, for programs that show it.
///
/// `None` if its provider is unknown or does not fit its target, and its status names no other.
pub fn understand(canary: &Canary, mesh_provider: &str) -> Option<(Mesh, Plan, Memory)> {
    let mesh = provider_of(canary, mesh_provider)?;
    let memory = memory(&canary.status.clone().unwrap_or_default());
    Some((mesh, plan(&canary.spec, mesh), memory))
}
