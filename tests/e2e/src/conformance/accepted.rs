//! The differences that are meant, each with its reason.
//!
//! A difference that no row here explains fails the suite. A row that explains nothing any more fails it
//! too, so that the list stays as short as the truth.

use super::difference::Difference;

/// A kind of difference that is fine.
pub struct Accepted {
    /// Why the sandbox does not do as Kubernetes here.
    pub why: &'static str,
    pub explains: fn(&Difference) -> bool,
}

pub const ACCEPTED: &[Accepted] = &[];

// === impl Difference ===

impl Difference {
    /// The row that explains it.
    pub fn explanation(&self) -> Option<usize> {
        ACCEPTED.iter().position(|accepted| (accepted.explains)(self))
    }
}
