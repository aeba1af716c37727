//! All objects of one kind, with an index by controller.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use tidegate_providers::{
    game::{CONTROLLER_REVISION, POD},
    object::Kind,
};

use super::{Key, TableState, row::Row};

/// Kinds of which a workload owns a few among many; indexed by controller.
const INDEXED: [Kind; 2] = [POD, CONTROLLER_REVISION];

/// All objects of one kind.
#[derive(Default)]
pub(super) struct Table {
    pub(super) state: TableState,
    pub(super) rows: BTreeMap<Key, Row>,
    /// Keys of rows by namespace and UID of their controller, empty for rows without one. For [`INDEXED`] kinds only.
    pub(super) controlled: BTreeMap<(Arc<str>, String), BTreeSet<Key>>,
    /// Rows of a list that is in progress.
    pub(super) incoming: Option<BTreeMap<Key, Row>>,
    /// Our writes since that list began: it may not have them yet.
    pub(super) fresh: BTreeSet<Key>,
    /// UIDs of objects that we deleted, until the watch reports the deletion: earlier events of them are old.
    pub(super) tombstones: BTreeMap<Key, String>,
}

// === impl Table ===

impl Table {
    pub(super) fn put(&mut self, kind: Kind, key: Key, row: Row) {
        self.remove(&key);
        if INDEXED.contains(&kind) {
            let controller = (Arc::clone(&key.namespace), row.controller().to_owned());
            self.controlled.entry(controller).or_default().insert(key.clone());
        }
        self.rows.insert(key, row);
    }

    /// True if there was one.
    pub(super) fn remove(&mut self, key: &Key) -> bool {
        let Some(row) = self.rows.remove(key) else { return false };
        let controller = (Arc::clone(&key.namespace), row.controller().to_owned());
        if let Some(keys) = self.controlled.get_mut(&controller) {
            keys.remove(key);
            if keys.is_empty() {
                self.controlled.remove(&controller);
            }
        }
        true
    }

    pub(super) fn has_tombstone(&self, key: &Key, row: &Row) -> bool {
        self.tombstones.get(key).is_some_and(|uid| uid == row.uid())
    }
}
