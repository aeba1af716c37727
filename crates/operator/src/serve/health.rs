//! Whether the operator is alive and ready.
//!
//! A loop that must not stall holds a [`Heartbeat`] and beats it in each iteration. A precondition, such as a
//! filled cache, is a [`Readiness`] that its owner sets. Both show their names only, so the pages need no
//! login.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use parking_lot::Mutex;

use crate::clock::Clock;

/// The state of all loops and caches.
pub struct Health {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    beats: BTreeMap<&'static str, Beat>,
    /// Why each is not ready, if it is not.
    missing: BTreeMap<&'static str, Option<String>>,
}

struct Beat {
    last: Duration,
    silence_max: Duration,
}

/// Held by a loop. When it is dropped the loop has ended on purpose and is no longer missed.
pub struct Heartbeat {
    health: Arc<Health>,
    name: &'static str,
}

/// Held by the task that fills a cache.
pub struct Readiness {
    health: Arc<Health>,
    name: &'static str,
}

// === impl Health ===

impl Health {
    pub fn new(clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self { clock, state: Mutex::default() })
    }

    /// Expects a loop called `name` to beat at least every `silence_max`, from now on.
    ///
    /// Several times its interval is a good choice: a stall is a loop that hangs, not a slow iteration.
    pub fn expect_beats(self: &Arc<Self>, name: &'static str, silence_max: Duration) -> Heartbeat {
        let beat = Beat { last: self.clock.monotonic(), silence_max };
        self.state.lock().beats.insert(name, beat);
        Heartbeat { health: Arc::clone(self), name }
    }

    /// Counts `name` as missing until it is settled.
    pub fn expect_ready(self: &Arc<Self>, name: &'static str) -> Readiness {
        let why = Some(format!("{name} is not ready"));
        self.state.lock().missing.insert(name, why);
        Readiness { health: Arc::clone(self), name }
    }

    /// A line for each loop that has been silent for too long.
    pub fn stalled(&self) -> Vec<String> {
        let now = self.clock.monotonic();
        let state = self.state.lock();
        let silent =
            state.beats.iter().map(|(name, beat)| (name, now.saturating_sub(beat.last), beat));
        let stalled = silent.filter(|(_, silence, beat)| *silence > beat.silence_max);
        stalled
            .map(|(name, silence, _)| format!("{name} has not turned for {} s", silence.as_secs()))
            .collect()
    }

    /// A line for each thing that is not there yet.
    pub fn missing(&self) -> Vec<String> {
        let state = self.state.lock();
        state.missing.values().flatten().cloned().collect()
    }
}

impl fmt::Debug for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Health")
            .field("stalled", &self.stalled())
            .field("missing", &self.missing())
            .finish_non_exhaustive()
    }
}

// === impl Heartbeat ===

impl Heartbeat {
    /// Records an iteration of the loop.
    pub fn beat(&self) {
        let now = self.health.clock.monotonic();
        if let Some(beat) = self.health.state.lock().beats.get_mut(self.name) {
            beat.last = now;
        }
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.health.state.lock().beats.remove(self.name);
    }
}

// === impl Readiness ===

impl Readiness {
    pub fn set(&self, is_ready: bool) {
        self.tell((!is_ready).then(|| format!("{} is not ready", self.name)));
    }

    /// Not ready, for this reason; or ready.
    pub fn tell(&self, why: Option<String>) {
        self.health.state.lock().missing.insert(self.name, why);
    }
}
