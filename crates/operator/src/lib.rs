//! Side effects.
