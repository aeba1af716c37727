//! The invariants of a game workload, as a function over a trace.
//!
//! A trace is the sequence of events that an observer beside the API server sees: before each write the
//! cluster as it really is, then the write. Simulations and tests of the whole operator are judged by the
//! same rules, after every step and not at the end. The number in a [`Violation`] is that of the invariant in
//! `docs/invariants.md`.

mod pods;
mod release;
mod truth;

#[cfg(test)]
mod tests;

use crate::check::Violation;

use tidegate_engine::game::{Action, Observed};

use self::truth::{Changing, Truth};

/// Something that happened.
#[derive(Clone, Debug)]
pub enum TraceEvent {
    /// Another writer than the controller changed something.
    Changed,
    /// This is how the cluster is now.
    World(Box<Observed>),
    /// The controller did this.
    Did(Box<Action>),
    /// Nothing changes any more and everything came to rest.
    Settled,
}

/// Judges a trace as it grows.
#[derive(Clone, Debug, Default)]
pub struct Checker {
    index: usize,
    world: Option<Box<Observed>>,
    changing: Changing,
    is_settled: bool,
}

/// The violation of an entry: the number of the invariant, and a sentence.
type Verdict = Result<(), (u8, String)>;

/// Judges a whole trace.
pub fn check(trace: &[TraceEvent]) -> Vec<Violation> {
    let mut checker = Checker::default();
    trace.iter().filter_map(|event| checker.see(event)).collect()
}

// === impl Checker ===

impl Checker {
    /// Takes the next entry; returns the invariant that it breaks, if any.
    pub fn see(&mut self, event: &TraceEvent) -> Option<Violation> {
        let verdict = self.judge(event);
        match event {
            TraceEvent::Changed => self.is_settled = false,
            TraceEvent::World(world) => {
                self.changing.look(world);
                self.world = Some(world.clone());
            }
            TraceEvent::Settled => self.is_settled = true,
            TraceEvent::Did(action) => {
                if let Some(world) = &self.world {
                    self.changing.note(world, action);
                }
            }
        }
        let at = self.index;
        self.index += 1;
        let (invariant, text) = verdict.err()?;
        Some(Violation { invariant, at, text })
    }

    fn judge(&self, event: &TraceEvent) -> Verdict {
        let (TraceEvent::Did(action), Some(world)) = (event, &self.world) else { return Ok(()) };
        if self.is_settled {
            return Err((15, format!("{action:?} although nothing changed")));
        }
        let truth = Truth { world, changing: &self.changing };
        pods::judge(&truth, action)?;
        release::judge(&truth, action)
    }
}
