//! The cloud identity that a request is made with, where obtaining it takes requests of its own.

use jiff::Timestamp;

use super::{
    QueryError, aws,
    google::{self, Token},
    query_machine::{Call, Reply},
    support::Fingerprint,
};
use crate::request::sensitive;

/// How to obtain the identity.
pub(super) enum CloudIdentity {
    /// The request has all it needs.
    None,
    /// Keys of Amazon's, for signatures of this service in this region.
    Aws {
        /// Where the keys come from.
        source: aws::Source,
        /// The region signed for.
        region: String,
        /// The service signed for.
        service: &'static str,
        /// Where keys for a role are obtained, if not at the usual place.
        sts: Option<String>,
    },
    /// A token of Google's.
    Google(Box<google::Source>),
}

/// The state of obtaining it.
pub(super) enum Stage {
    /// This request comes first.
    Ask(Box<Call>),
    /// It is known, and took this many replies.
    Ready {
        /// The proof of it.
        key: Key,
        /// How many replies that took.
        used: usize,
        /// Until when it is good, if it ends and that is known.
        until: Option<Timestamp>,
    },
    /// It cannot be obtained.
    Failed(QueryError),
}

/// The proof of an identity. Has no way to be printed.
pub(super) enum Key {
    /// Nothing.
    None,
    /// Keys to sign with, and the service and region to sign for.
    Aws(aws::Signing),
    /// A token.
    Bearer {
        /// The token.
        token: String,
        /// The project that pays, where that has to be said.
        quota_project: Option<String>,
    },
}

// === impl Identity ===

impl CloudIdentity {
    /// Distinguishes it from others; nothing if it takes no request to obtain.
    pub(super) fn fingerprint(&self) -> Option<Fingerprint> {
        match self {
            Self::None => None,
            Self::Aws { source, region, sts, .. } => source.identity(region, sts.as_deref()),
            Self::Google(source) => Some(source.identity),
        }
    }

    /// The next request, or the key.
    pub(super) fn next(&self, replies: &[Reply], now: Timestamp) -> Stage {
        match self {
            Self::None => Stage::Ready { key: Key::None, used: 0, until: None },
            Self::Aws { source, region, service, sts } => {
                match source.next(region, sts.as_deref(), replies) {
                    Ok(aws::Progress::Ask(call)) => Stage::Ask(call),
                    Ok(aws::Progress::Have { keys, used, until }) => {
                        let region = region.clone();
                        let key = Key::Aws(aws::Signing { keys, region, service });
                        Stage::Ready { key, used, until }
                    }
                    Err(error) => Stage::Failed(error),
                }
            }
            Self::Google(source) => match replies {
                [] => Stage::Ask(Box::new(source.call())),
                [reply, ..] => match google::token(reply, now) {
                    Ok(Token { text: token, until }) => {
                        let quota_project = source.quota_project.clone();
                        Stage::Ready { key: Key::Bearer { token, quota_project }, used: 1, until }
                    }
                    Err(error) => Stage::Failed(error),
                },
            },
        }
    }
}

// === impl Key ===

impl Key {
    /// The call with the proof on it, or with the instructions to sign it; nothing if no header can
    /// carry it.
    pub(super) fn put_on(&self, call: &Call) -> Option<Call> {
        let mut call = call.clone();
        match self {
            Self::None => {}
            Self::Aws(signing) => {
                if !signing.keys.can_be_sent() {
                    return None;
                }
                call.signing = Some(signing.clone());
            }
            Self::Bearer { token, quota_project } => {
                if !call.request.authorize_bearer(token) {
                    return None;
                }
                if let Some(project) = quota_project {
                    call.request.headers.insert("x-goog-user-project", sensitive(project)?);
                }
            }
        }
        Some(call)
    }
}
