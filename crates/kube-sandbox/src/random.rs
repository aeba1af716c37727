//! Reproducible random numbers.
//!
//! One [`Random`] per purpose, all derived from the sandbox's seed: the same seed and order of
//! calls give the same numbers. The generator is `SplitMix64`, whose state is one counter, so it
//! needs no lock and a fork costs one number. Not for secrets.

use std::sync::atomic::{AtomicU64, Ordering};

/// The odd number closest to 2^64 divided by the golden ratio: steps that visit every state.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A seeded source of numbers. Shared by reference; every call advances it.
#[derive(Debug)]
pub struct Random {
    state: AtomicU64,
}

// === impl Random ===

impl Random {
    /// The same seed gives the same numbers.
    pub fn seeded(seed: u64) -> Self {
        Self { state: AtomicU64::new(seed) }
    }

    /// An independent source, unaffected by later calls on this one.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self::seeded(self.next_u64())
    }

    /// An independent source that depends on the current state without advancing it: the same
    /// `seed` in the same state gives the same numbers, and none that this source has given.
    #[must_use]
    pub fn branch(&self, seed: u64) -> Self {
        Self::seeded(mix(self.state.load(Ordering::Relaxed) ^ mix(seed)))
    }

    /// The next number.
    pub fn next_u64(&self) -> u64 {
        mix(self.state.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP))
    }

    /// A number in `0..bound`; 0 if `bound` is 0.
    ///
    /// The high half of a 128-bit product. Its bias is at most `bound / 2^64`, which no test sees.
    pub fn below(&self, bound: u64) -> u64 {
        let product = u128::from(self.next_u64()) * u128::from(bound);
        u64::try_from(product >> 64).expect("the high half of a product of two u64 is a u64")
    }

    /// True in this fraction of calls: never at 0.0 or less, always at 1.0 or more.
    pub fn chance(&self, share: f64) -> bool {
        self.unit() < share
    }

    /// A number in `0.0..1.0` with 32 bits: fine enough for fractions, and exact as an `f64`.
    pub fn unit(&self) -> f64 {
        let bits = u32::try_from(self.next_u64() >> 32).expect("a u64 has two u32 in it");
        f64::from(bits) / (f64::from(u32::MAX) + 1.0)
    }
}

/// The output function of `SplitMix64`.
fn mix(state: u64) -> u64 {
    let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(random: &Random, count: usize) -> Vec<u64> {
        std::iter::repeat_with(|| random.next_u64()).take(count).collect()
    }

    #[test]
    fn the_numbers_are_those_of_splitmix64() {
        // The published reference sequence for seed 1234567.
        let want =
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(draw(&Random::seeded(1_234_567), 3), want);
    }

    #[test]
    fn a_seed_replays_and_another_seed_does_not() {
        assert_eq!(draw(&Random::seeded(7), 50), draw(&Random::seeded(7), 50));
        assert_ne!(draw(&Random::seeded(7), 50), draw(&Random::seeded(8), 50));
    }

    #[test]
    fn a_fork_is_unmoved_by_later_use_of_its_parent() {
        let (quiet, busy) = (Random::seeded(7), Random::seeded(7));
        let (one, two) = (quiet.fork(), busy.fork());
        draw(&busy, 10);
        assert_eq!(draw(&one, 20), draw(&two, 20));
    }

    #[test]
    fn a_branch_goes_on_elsewhere_and_leaves_its_parent_where_it_is() {
        let parent = Random::seeded(7);
        draw(&parent, 3);
        assert_eq!(draw(&parent.branch(1), 20), draw(&parent.branch(1), 20));
        assert_ne!(draw(&parent.branch(1), 20), draw(&parent.branch(2), 20));
        let child = parent.branch(1);
        draw(&child, 3);
        assert_ne!(
            draw(&child.branch(1), 20),
            draw(&parent.branch(1), 20),
            "nor does a grandchild"
        );
    }

    #[test]
    fn below_stays_below_and_reaches_every_number() {
        let random = Random::seeded(3);
        let mut met = [false; 5];
        for _ in 0..200 {
            met[usize::try_from(random.below(5)).unwrap()] = true;
        }
        assert_eq!(met, [true; 5]);
        assert_eq!(random.below(0), 0);
        assert_eq!(random.below(1), 0);
    }

    #[test]
    fn chance_is_about_its_share() {
        let random = Random::seeded(11);
        for (share, least, most) in [(0.0, 0, 0), (0.25, 2_200, 2_800), (1.0, 10_000, 10_000)] {
            let hits = (0..10_000).filter(|_| random.chance(share)).count();
            assert!((least..=most).contains(&hits), "{share}: {hits}");
        }
    }
}
