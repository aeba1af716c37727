//! notify.
