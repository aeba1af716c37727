//! Properties for any requests of clients and any order of the controllers' work.
//!
//! `plan` makes random sequences of requests from several clients, interleaved with steps of the
//! controllers; `world` carries them out and keeps a model of the expected state; `checks` holds every
//! version of every object against the rules (generation, uid, finalizers, ownership of fields); `watchers`
//! watch in all the ways clients do. `race` has real threads and a real socket. A failure prints the seed
//! of the controllers and the shortest sequence that shows it.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a broken rig is a failed test")]

mod checks;
mod plan;
mod race;
mod watchers;
mod world;

use proptest::prelude::*;

use self::{plan::plan, world::World};

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 40,
        failure_persistence: None,
        max_shrink_iters: 400,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_mix_of_clients_and_loops_keeps_the_promises_of_the_api(
        seed in any::<u64>(),
        steps in plan(60),
    ) {
        let mut world = World::new(seed);
        for step in &steps {
            world.take(step);
        }
        world.finish();
    }
}
