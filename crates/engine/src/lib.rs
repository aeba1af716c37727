//! Decisions: an observation goes in, one decision comes out.
//!
//! Nothing here reads a clock, a cluster or a file; time arrives as a value. [`decide`] takes an [`Observed`]
//! and returns the next actions, or a question that must be answered first:
//!
//! ```text
//!            observe                     decide                      act
//!  cluster ----------> Observed --> Step::Ask(Question) --> hooks, metrics
//!                         ^                                        |
//!                         +------------- Answers <-----------------+
//!                      Observed --> Step::Do(Decision) --> Actions, one after the other
//! ```
//!
//! The game workloads have an observation and a decision of their own, in [`game`].
//!
//! Traffic moves before status is written, so a crash between the two repeats a step that changes
//! nothing instead of skipping one; anything that cannot be undone is written down before it is done.

#![warn(missing_docs)]
#![deny(clippy::wildcard_enum_match_arm)]

mod canary;
mod decision;
mod event_dedup;
mod fact;
pub mod game;
mod interval;
mod memory;
mod observed;
mod percent;
mod plan;
mod readiness;
mod revision;
mod time;

pub use self::{
    canary::{Side, apex_side, decide, inherited_share, is_new},
    decision::{
        Action, Again, Alert, Cookie, CookieChange, Decision, Notice, Outcome, Question, Severity,
        Step,
    },
    event_dedup::EventDedup,
    fact::{Fact, GateKind, Names, Tone},
    interval::{Clocks, IntervalTimer},
    memory::{Memory, Pause, Phase},
    observed::{
        Answers, Checks, Cookies, Form, Gate, IntervalState, Lifecycle, ManagedObject, Measurement,
        Missing, Objects, Observed, Obstacle, Primary, Refusal, State, Target, Verdict,
    },
    percent::{Percent, Split},
    plan::{Hooks, ManualStep, Note, Plan, Steps, Stickiness, Strategy, Traffic},
    readiness::{Readiness, Unready},
    revision::{Configs, Revision},
    time::Moment,
};
