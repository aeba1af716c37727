//! In whose name a request is made, where that takes requests of its own to find out.

use jiff::Timestamp;

use super::{
    QueryError, aws, google,
    inquiry::{Call, Reply},
};

/// How to find out in whose name to ask.
pub(super) enum Identity {
    /// There is nothing to find out: what the request needs is in it.
    None,
    /// Keys of Amazon's, for signatures of this service in this region.
    Aws {
        /// Where the keys come from.
        source: aws::Source,
        /// The region signed for.
        region: String,
        /// The service signed for.
        service: &'static str,
        /// Where keys for a role are had, if not at the usual place.
        sts: Option<String>,
    },
    /// A token of Google's.
    Google(google::Source),
}

/// How far that has got.
pub(super) enum Stage {
    /// This has to be asked first.
    Ask(Call),
    /// It is known, and took this many replies.
    Ready {
        /// What proves it.
        key: Key,
        /// How many replies that took.
        used: usize,
    },
    /// It cannot be known.
    Failed(QueryError),
}

/// What proves who asks. Has no way to be printed.
pub(super) enum Key {
    /// Nothing.
    None,
    /// Keys to sign with.
    Aws {
        /// The keys.
        keys: aws::Keys,
        /// The region signed for.
        region: String,
        /// The service signed for.
        service: &'static str,
    },
    /// A token.
    Bearer(String),
}

// === impl Identity ===

impl Identity {
    /// What is missing, or the key.
    pub(super) fn next(&self, replies: &[Reply]) -> Stage {
        match self {
            Self::None => Stage::Ready { key: Key::None, used: 0 },
            Self::Aws { source, region, service, sts } => {
                match source.next(region, sts.as_deref(), replies) {
                    Ok(aws::Progress::Ask(call)) => Stage::Ask(call),
                    Ok(aws::Progress::Have { keys, used }) => {
                        let key = Key::Aws { keys, region: region.clone(), service };
                        Stage::Ready { key, used }
                    }
                    Err(error) => Stage::Failed(error),
                }
            }
            Self::Google(source) => match replies {
                [] => Stage::Ask(source.call()),
                [reply, ..] => match google::token(reply) {
                    Ok(token) => Stage::Ready { key: Key::Bearer(token), used: 1 },
                    Err(error) => Stage::Failed(error),
                },
            },
        }
    }
}

// === impl Key ===

impl Key {
    /// The call with the proof on it; nothing if no header can carry it.
    pub(super) fn put_on(&self, call: &Call, now: Timestamp) -> Option<Call> {
        let mut call = call.clone();
        match self {
            Self::None => {}
            Self::Aws { keys, region, service } => {
                aws::sign(&mut call.request, keys, &aws::Scope { region, service, now })?;
            }
            Self::Bearer(token) => {
                if !call.request.authorize_bearer(token) {
                    return None;
                }
            }
        }
        Some(call)
    }
}
