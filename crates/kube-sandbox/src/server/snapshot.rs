//! The state of a cluster at one moment, to be restored later: into the same server, or into another one.
//!
//! From outside a restored server is one that was started again over an older backup of etcd: connections are
//! closed with the requests on them, and revisions go back. A watch that resumes at a revision of the future
//! is accepted and hears nothing, neither events nor bookmarks, until the store has got there; a list or read
//! from there is answered with 504. A watch from before the restored revision gets 410.

use std::sync::{Arc, atomic::Ordering};

use super::{Definitions, Server, addresses::Addresses};
use crate::{
    faults::{Interruption, Matcher},
    rbac::Authorizer,
    registry::Registry,
    store::Store,
};

/// All objects of a cluster at one moment.
pub struct Snapshot {
    store: Store,
    registry: Arc<Registry>,
    authorizer: Arc<Authorizer>,
    addresses: Addresses,
    definitions: Definitions,
}

// === impl Server ===

impl Server {
    pub(crate) fn take_snapshot(&self) -> Snapshot {
        Snapshot {
            store: self.store.fork(self.settings.history_max),
            registry: self.registry(),
            authorizer: Arc::clone(&self.authorizer.read()),
            addresses: self.addresses.lock().clone(),
            definitions: self.definitions.lock().clone(),
        }
    }

    /// How often the server went back: a request that came before is lost with its connection.
    pub(crate) fn restores(&self) -> u64 {
        self.restores.load(Ordering::Relaxed)
    }

    /// Names and UIDs go on: the same request gets another UID than it had in the time that is undone.
    pub(crate) fn go_back_to(&self, snapshot: &Snapshot) {
        self.restores.fetch_add(1, Ordering::Relaxed);
        self.store.restore(&snapshot.store);
        *self.registry.write() = Arc::clone(&snapshot.registry);
        *self.authorizer.write() = Arc::clone(&snapshot.authorizer);
        *self.addresses.lock() = snapshot.addresses.clone();
        *self.definitions.lock() = snapshot.definitions.clone();
        self.faults.interrupt_watches(Matcher::any(), Interruption::Close);
    }
}
