//! Caches cloud credentials that metric queries obtained: keys and tokens.
//!
//! The answers that brought them are kept. They are used again until shortly before they expire, or until a
//! server rejects them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use parking_lot::Mutex;
use tidegate_providers::metrics::{Fingerprint, Reply};
use zeroize::Zeroize as _;

/// Tokens of all canaries. Queries with the same credentials share one.
#[derive(Default)]
pub(crate) struct CloudTokens(Mutex<BTreeMap<Fingerprint, Token>>);

struct Token {
    replies: Vec<Reply>,
    until: Timestamp,
}

/// More than a cluster has accounts. Tokens beyond it are obtained for each query.
const TOKENS_MAX: usize = 256;

// === impl CloudTokens ===

impl CloudTokens {
    /// The answers that brought the token; none if it has to be obtained first.
    pub(super) fn get(&self, of: &Fingerprint, now: Timestamp) -> Vec<Reply> {
        let tokens = self.0.lock();
        let found = tokens.get(of).filter(|token| now < token.until);
        found.map(|token| token.replies.clone()).unwrap_or_default()
    }

    pub(super) fn keep(
        &self,
        of: Fingerprint,
        replies: &[Reply],
        until: Timestamp,
        now: Timestamp,
    ) {
        let mut tokens = self.0.lock();
        tokens.retain(|_, token| now < token.until);
        if now < until && (tokens.len() < TOKENS_MAX || tokens.contains_key(&of)) {
            tokens.insert(of, Token { replies: replies.to_vec(), until });
        }
    }

    pub(super) fn forget(&self, of: &Fingerprint) {
        self.0.lock().remove(of);
    }
}

// === impl Token ===

impl Drop for Token {
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
    fn a_token_is_kept_until_it_expires_or_is_rejected() {
        let at = |minute: i64| Timestamp::from_second(minute * 60).unwrap();
        let (one, other) = ([1; 32], [2; 32]);
        let known = CloudTokens::default();
        assert_eq!(known.get(&one, at(0)), []);
        known.keep(one, &replies("one"), at(10), at(0));
        assert_eq!(known.get(&one, at(9)), replies("one"));
        assert_eq!(known.get(&one, at(10)), [], "expired");
        assert_eq!(known.get(&other, at(0)), [], "of other credentials");
        known.keep(other, &replies("other"), at(20), at(11));
        assert_eq!(known.0.lock().len(), 1, "expired tokens are not kept");
        known.forget(&other);
        assert_eq!(known.get(&other, at(12)), []);
        known.keep(other, &replies("other"), at(12), at(13));
        assert!(known.0.lock().is_empty(), "expired before it was kept");
    }

    #[test]
    fn there_is_a_bound_on_them() {
        let known = CloudTokens::default();
        let (now, until) = (Timestamp::UNIX_EPOCH, Timestamp::from_second(60).unwrap());
        for number in 0..2 * TOKENS_MAX {
            let mut of = [0; 32];
            of[..8].copy_from_slice(&number.to_be_bytes());
            known.keep(of, &replies("t"), until, now);
        }
        assert_eq!(known.0.lock().len(), TOKENS_MAX);
    }
}
