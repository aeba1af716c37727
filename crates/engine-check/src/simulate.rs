//! A world of counters to run decisions against: pods that become ready, hooks that refuse, users
//! that change their mind, writes that get lost.
//!
//! No threads, no clock, no cluster: a [`Script`] says what happens when, [`run`] plays it, and the
//! checker of [`crate::check`] looks at every single write. The same script gives the same run, so a
//! failure is a seed, and a list of events that shrinks.
//!
//! ```text
//! Script --> World (workloads, routes, status) --look--> decide --> Operator acts, or is cut short
//!              ^                                                          |
//!              +------------------- writes, judged one by one <-----------+
//! ```
//!
//! After the last event faults stop, gates open and pods recover as far as they can. From there every
//! run must come to rest, and then write nothing more.

mod act;
mod look;
mod random;
mod script;
mod user;
mod workload;
mod world;

pub use self::{
    random::Random,
    script::{Cut, Script, Timed},
    user::{Event, Health},
};

use crate::check::{Ending, TraceEvent, Violation};
use tidegate_engine::{Moment, Phase};

use self::world::World;

/// Rounds in which a run must come to rest once faults stopped. The slowest way there is a
/// promotion in steps of 1, which takes 100 intervals of two rounds, after as many steps upwards;
/// three of those follow each other at most.
const ROUNDS_TO_REST: u32 = 1_500;

/// Rounds without a write after which a run counts as resting: longer than a deadline.
const ROUNDS_OF_SILENCE: u32 = 24;

/// The outcome of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The invariant that was broken, if one was; the run ends there.
    pub violation: Option<Violation>,
    /// Where it came to rest.
    pub ending: Ending,
    /// Rollouts that were started.
    pub rollouts: u64,
    /// Decisions that were taken.
    pub decisions: u64,
    /// Writes that were judged.
    pub writes: u32,
    /// Writes that were cut short.
    pub cuts: u32,
    /// Events in order, if they were asked for.
    pub log: Vec<(Moment, TraceEvent)>,
}

/// Plays a script.
pub fn run(script: &Script) -> Report {
    play(script, false)
}

/// Plays a script and keeps what happened, for people.
pub fn explain(script: &Script) -> Report {
    play(script, true)
}

fn play(script: &Script, keeps_log: bool) -> Report {
    let mut world = World::new(script, keeps_log);
    for timed in &script.events {
        for _ in 0..timed.after {
            world.round();
        }
        world.happen(&timed.event);
        if world.violation.is_some() {
            return world.report();
        }
    }
    come_to_rest(&mut world);
    world.report()
}

fn come_to_rest(world: &mut World) {
    world.calm_down();
    let mut silent = 0;
    for _ in 0..ROUNDS_TO_REST {
        let before = world.writes;
        world.round();
        if world.violation.is_some() {
            return;
        }
        let is_still = world.writes == before && world.memory.phase != Phase::Terminating;
        silent = if is_still { silent + 1 } else { 0 };
        if silent >= ROUNDS_OF_SILENCE || world.memory.phase == Phase::Terminated {
            break;
        }
    }
    world.must_rest();
    for _ in 0..ROUNDS_OF_SILENCE {
        world.round();
    }
}
