//! Internal writes: garbage collection, namespace deletion, start-up.
//!
//! They skip authorization and validation, but not the store's rules: each is a transaction, and an
//! object without finalizers is removed as by any other write.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::watch;

use super::{Server, delete::Deleted, options::DeleteOptions, rules};
use crate::{
    failure::{Failure, Outcome},
    registry::ResourceDef,
    store::Place,
};

// === impl Server ===

impl Server {
    /// Changes an object in place, if it still exists and the change has an effect.
    pub(crate) fn amend(&self, place: &Place, change: impl FnOnce(&mut Value)) {
        let Some(def) = self.def_of(place) else { return };
        let tx = self.store.begin();
        let Some(stored) = tx.get(&place.table, &place.key) else { return };
        let before = stored.value();
        let mut object = before.clone();
        change(&mut object);
        if object == before {
            return;
        }
        if rules::is_done_deleting(&object) {
            self.remove(&tx, &def, object, false);
        } else {
            tx.put(&place.table, object);
            self.after_write(&place.table);
        }
    }

    /// Deletes the object at `place`.
    pub(crate) fn delete_place(&self, place: &Place, options: &DeleteOptions) -> Outcome<Deleted> {
        let (group, plural) = (&place.table.group, &place.table.plural);
        let missing = || Failure::not_found(group, plural, &place.key.name);
        let def = self.def_of(place).ok_or_else(missing)?;
        let tx = self.store.begin();
        let stored = tx.get(&place.table, &place.key).ok_or_else(missing)?;
        self.delete_stored(&tx, &def, &stored, options)
    }

    fn def_of(&self, place: &Place) -> Option<Arc<ResourceDef>> {
        self.registry().preferred(&place.table.group, &place.table.plural)
    }

    pub(crate) fn random_below(&self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    /// Signals open watches to check whether they may continue; closed when the server is dropped.
    pub(crate) fn interruptions(&self) -> watch::Receiver<u64> {
        self.interrupts.subscribe()
    }
}
