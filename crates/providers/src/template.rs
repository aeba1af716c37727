//! template.
