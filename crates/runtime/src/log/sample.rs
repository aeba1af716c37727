//! Sampling as zap does it: the first hundred of a message in a second are logged, then every hundredth.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
};

use tracing::Level;

/// Counts each message within the current second.
#[derive(Debug, Default)]
pub(super) struct Sampler {
    second: i64,
    counts: HashMap<u64, u32>,
}

const SAMPLE: u32 = 100;
/// Different messages in one second that are counted; beyond this nothing is left out.
const MESSAGES_MAX: usize = 4096;

// === impl Sampler ===

impl Sampler {
    pub(super) fn keeps(&mut self, level: Level, message: &str, second: i64) -> bool {
        if self.second != second {
            self.second = second;
            self.counts.clear();
        }
        let mut hasher = DefaultHasher::new();
        (level.as_str(), message).hash(&mut hasher);
        let is_full = self.counts.len() >= MESSAGES_MAX;
        let hash = hasher.finish();
        if is_full && !self.counts.contains_key(&hash) {
            return true;
        }
        let count = self.counts.entry(hash).or_default();
        *count = count.saturating_add(1);
        *count <= SAMPLE || count.is_multiple_of(SAMPLE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_thinned_out() {
        let mut sampler = Sampler::default();
        let mut kept = |message: &str, second, times: u32| {
            (0..times).filter(|_| sampler.keeps(Level::INFO, message, second)).count()
        };
        assert_eq!(kept("a", 1, 350), 102, "a hundred, then the 200th and 300th");
        assert_eq!(kept("b", 1, 50), 50);
        assert_eq!(kept("a", 2, 50), 50, "the next second is another");
    }
}
