//! Who we are in the clouds, as far as it was found out and is still true.
//!
//! What is kept are the answers that said so: keys and tokens. They are used again until shortly before
//! they end, or until somebody does not like them.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use jiff::Timestamp;
use tidegate_providers::metrics::{Fingerprint, Reply};
use zeroize::Zeroize as _;

/// Identities of all canaries. Those with the same credentials share one.
#[derive(Default)]
pub(crate) struct Identities(Mutex<BTreeMap<Fingerprint, Lent>>);

struct Lent {
    replies: Vec<Reply>,
    until: Timestamp,
}

/// More than a cluster has accounts; what is beyond is found out again.
const IDENTITIES_MAX: usize = 256;

// === impl Identities ===

impl Identities {
    /// The answers that say who we are; none if they have to be had first.
    pub(super) fn get(&self, of: &Fingerprint, now: Timestamp) -> Vec<Reply> {
        let lent = self.lent();
        let found = lent.get(of).filter(|lent| now < lent.until);
        found.map(|lent| lent.replies.clone()).unwrap_or_default()
    }

    pub(super) fn keep(
        &self,
        of: Fingerprint,
        replies: &[Reply],
        until: Timestamp,
        now: Timestamp,
    ) {
        let mut lent = self.lent();
        lent.retain(|_, lent| now < lent.until);
        if now < until && (lent.len() < IDENTITIES_MAX || lent.contains_key(&of)) {
            lent.insert(of, Lent { replies: replies.to_vec(), until });
        }
    }

    pub(super) fn forget(&self, of: &Fingerprint) {
        self.lent().remove(of);
    }

    fn lent(&self) -> MutexGuard<'_, BTreeMap<Fingerprint, Lent>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Lent ===

impl Drop for Lent {
    fn drop(&mut self) {
        for reply in &mut self.replies {
            if let Reply::Answered { body, .. } = reply {
                body.zeroize();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replies(text: &str) -> Vec<Reply> {
        vec![Reply::Answered { status: 200, body: text.into(), truncated: false }]
    }

    #[test]
    fn bet_28_an_identity_is_kept_until_it_ends_or_is_refused() {
        let at = |minute: i64| Timestamp::from_second(minute * 60).unwrap();
        let (one, other) = ([1; 32], [2; 32]);
        let known = Identities::default();
        assert_eq!(known.get(&one, at(0)), []);
        known.keep(one, &replies("one"), at(10), at(0));
        assert_eq!(known.get(&one, at(9)), replies("one"));
        assert_eq!(known.get(&one, at(10)), [], "over");
        assert_eq!(known.get(&other, at(0)), [], "somebody else's");
        known.keep(other, &replies("other"), at(20), at(11));
        assert_eq!(known.lent().len(), 1, "what is over is not kept");
        known.forget(&other);
        assert_eq!(known.get(&other, at(12)), []);
        known.keep(other, &replies("other"), at(12), at(13));
        assert!(known.lent().is_empty(), "over before it was kept");
    }

    #[test]
    fn there_is_a_bound_on_them() {
        let known = Identities::default();
        let (now, until) = (Timestamp::UNIX_EPOCH, Timestamp::from_second(60).unwrap());
        for number in 0..2 * IDENTITIES_MAX {
            let mut of = [0; 32];
            of[..8].copy_from_slice(&number.to_be_bytes());
            known.keep(of, &replies("t"), until, now);
        }
        assert_eq!(known.lent().len(), IDENTITIES_MAX);
    }
}
