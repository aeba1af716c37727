//! hook.
