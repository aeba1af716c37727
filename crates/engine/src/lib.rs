//! Decisions: what was observed goes in, one decision comes out.
//!
//! Nothing here reads a clock, a cluster or a file; time arrives as a value. See [`Percent`] and
//! [`Split`] for how traffic is spoken of.

#![warn(missing_docs)]

mod percent;
mod readiness;

pub use self::{
    percent::{Percent, Split},
    readiness::{Readiness, Unready},
};
