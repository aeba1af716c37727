//! The game workloads (`tkex.tencent.com/v1alpha1`): `GameDeployment` and `GameStatefulSet`, pods
//! that are updated in place and released step by step, and the hooks that gate them,
//! `HookTemplate` and `HookRun`.
//!
//! ```text
//! GameDeployment ──┐   canary step or pod hook    ┌── HookTemplate
//!                  ├──────── creates ── HookRun ──┤   (copied once)
//! GameStatefulSet ─┘                              └── measures, ends in a phase
//! ```
//!
//! Upstream ships no or hardly any schema for these kinds. The rules here refuse what could only
//! fail later; every published sample is still accepted.

pub mod deployment;
pub mod hook;
pub mod stateful_set;
pub mod status;
pub mod strategy;
pub mod template;

pub use self::{
    deployment::{GameDeployment, GameDeploymentSpec, GameDeploymentStatus},
    hook::{HookPhase, HookRun, HookRunSpec, HookRunStatus, HookTemplate, HookTemplateSpec},
    stateful_set::{GameStatefulSet, GameStatefulSetSpec, GameStatefulSetStatus},
    template::PodTemplate,
};
