//! Errors with a hint for the user.

use std::fmt;

/// An error whose cause the user can remove: printed with a `hint:` line.
#[derive(Debug)]
pub(crate) struct Hinted {
    message: String,
    pub(crate) hint: String,
}

/// An error with a hint, ready to be returned.
pub(crate) fn hinted(message: impl Into<String>, hint: impl Into<String>) -> anyhow::Error {
    Hinted { message: message.into(), hint: hint.into() }.into()
}

// === impl Hinted ===

impl fmt::Display for Hinted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Hinted {}
