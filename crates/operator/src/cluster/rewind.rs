//! Notices that the API server went back to an earlier state.
//!
//! That happens when etcd is restored from a backup, and when another cluster answers at the same address.
//! Connections are closed, and a watch that resumes at a version of the future is accepted: it hears nothing
//! until the server has got there, and never what happened in between. The signs:
//!
//! | sign | seen |
//! |---|---|
//! | a list, an event or a bookmark is older than what the watch of its kind has heard | when a connection is lost or silent, see [`super::watch`] |
//! | a list has an object in an older version than the cache, or one of another UID that the watch would have reported | with each list |
//! | the answer to a read or a write is older than the cached object was before the request | at once, see [`super::write`] |
//!
//! A lost connection is followed by a page of a list, an outage of a minute by a whole one, so a server that
//! got past the known version meanwhile does no harm: a backup is older than a connection takes to come back.
//! Reads are consistent, so none of these signs occurs otherwise. Versions are compared as numbers and within one
//! kind, which Kubernetes guarantees since 1.35 and all earlier releases do. Versions that are not numbers are
//! never older; lists are then taken as they are.
//!
//! After the first sign nothing is written any more. The supervisor ends every loop and watch, drops what is
//! remembered and begins as after a restart, which is safe at every moment. Leadership stays: the lease has
//! requests and rules of its own.

use tokio::sync::watch;
use tracing::warn;

use super::Cluster;

/// Whether a sign was seen since everything was listed.
pub(crate) struct Rewind(watch::Sender<bool>);

/// Whether a resource version is older than one that is known.
pub(crate) fn is_older(version: &str, known: &str) -> bool {
    match (version.parse::<u64>(), known.parse::<u64>()) {
        (Ok(version), Ok(known)) => version < known,
        (Err(_), _) | (_, Err(_)) => false,
    }
}

impl Default for Rewind {
    fn default() -> Self {
        Self(watch::Sender::new(false))
    }
}

// === impl Cluster ===

impl Cluster {
    /// Records a sign, which is logged once.
    pub(crate) fn went_back(&self, sign: &str) {
        if !self.rewind.0.send_replace(true) {
            warn!(sign, "The API server went back to an earlier state; everything is listed again");
        }
    }

    /// Whether a sign was seen: nothing may be written until everything was listed again.
    pub(crate) fn is_behind(&self) -> bool {
        *self.rewind.0.borrow()
    }

    /// Waits for a sign.
    pub(crate) async fn until_behind(&self) {
        // The sender lives as long as this handle.
        let _ = self.rewind.0.subscribe().wait_for(|is_behind| *is_behind).await;
    }

    /// Drops what is remembered of the cluster. Called while no loop and no watch runs.
    pub(crate) fn forget(&self) {
        self.cache.clear();
        self.nodes.clear();
        self.schemas.clear();
        self.claimed.lock().clear();
        self.rewind.0.send_replace(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_older_as_numbers_and_never_otherwise() {
        let cases = [
            ("9", "10", true, "as numbers, not as texts"),
            ("10", "9", false, "newer"),
            ("10", "10", false, "the same"),
            ("", "10", false, "no version"),
            ("10", "", false, "nothing known"),
            ("a", "b", false, "not numbers"),
            ("18446744073709551616", "1", false, "beyond 64 bits"),
        ];
        for (version, known, want, reason) in cases {
            assert_eq!(is_older(version, known), want, "{reason}");
        }
    }
}
