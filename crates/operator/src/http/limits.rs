//! Turns: how many requests may be under way, in all and for each namespace.
//!
//! A request waits for its namespace's turn first, so one namespace never has more than its share
//! in the queue for the common turns, and those are given in the order of asking.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub(super) struct Limits {
    total: Arc<Semaphore>,
    per_namespace_max: usize,
    namespaces: Namespaces,
}

type Namespaces = Arc<Mutex<BTreeMap<String, Lane>>>;

/// One namespace's turns. Kept while someone has one or waits for one.
struct Lane {
    turns: Arc<Semaphore>,
    users: usize,
}

/// The right to have one request under way; given back when dropped.
pub(super) struct Turn {
    total: Option<OwnedSemaphorePermit>,
    _of_namespace: OwnedSemaphorePermit,
    _place: Place,
}

/// Keeps a lane from being forgotten.
struct Place {
    namespaces: Namespaces,
    namespace: String,
}

// === impl Limits ===

impl Limits {
    pub(super) fn new(total_max: usize, per_namespace_max: usize) -> Self {
        Self {
            total: Arc::new(Semaphore::new(total_max.max(1))),
            per_namespace_max: per_namespace_max.max(1),
            namespaces: Arc::default(),
        }
    }

    /// Waits for a turn. `None` cannot happen while `self` lives: nobody closes the semaphores.
    pub(super) async fn enter(&self, namespace: &str) -> Option<Turn> {
        let (place, turns) = self.take_place(namespace);
        let of_namespace = turns.acquire_owned().await.ok()?;
        let total = Arc::clone(&self.total).acquire_owned().await.ok()?;
        Some(Turn { total: Some(total), _of_namespace: of_namespace, _place: place })
    }

    fn take_place(&self, namespace: &str) -> (Place, Arc<Semaphore>) {
        let mut lanes = lock(&self.namespaces);
        let lane = lanes.entry(namespace.to_owned()).or_insert_with(|| Lane {
            turns: Arc::new(Semaphore::new(self.per_namespace_max)),
            users: 0,
        });
        lane.users += 1;
        let namespaces = Arc::clone(&self.namespaces);
        (Place { namespaces, namespace: namespace.to_owned() }, Arc::clone(&lane.turns))
    }
}

impl Turn {
    /// A request that takes long holds up its own namespace, and nobody else.
    pub(super) fn let_others_pass(&mut self) {
        self.total = None;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut lanes = lock(&self.namespaces);
        if let Some(lane) = lanes.get_mut(&self.namespace) {
            lane.users -= 1;
            if lane.users == 0 {
                lanes.remove(&self.namespace);
            }
        }
    }
}

fn lock(namespaces: &Namespaces) -> MutexGuard<'_, BTreeMap<String, Lane>> {
    namespaces.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn one_namespace_cannot_take_anothers_turns() {
        let limits = Limits::new(3, 2);
        let first = limits.enter("greedy").await;
        let second = limits.enter("greedy").await;
        assert!(limits.enter("greedy").now_or_never().is_none(), "its share is used up");
        let other = limits.enter("modest").now_or_never();
        assert!(other.is_some(), "there is still a turn for others");
        assert!(limits.enter("third").now_or_never().is_none(), "all turns are used up");
        drop(first);
        assert!(limits.enter("third").now_or_never().is_some());
        drop((second, other));
    }

    #[tokio::test]
    async fn who_takes_long_has_a_turn_of_its_namespace_only() {
        let limits = Limits::new(1, 1);
        let mut long = limits.enter("slow").await.unwrap();
        assert!(limits.enter("quick").now_or_never().is_none());
        long.let_others_pass();
        assert!(limits.enter("quick").now_or_never().is_some());
        assert!(limits.enter("slow").now_or_never().is_none());
        drop(long);
        assert!(limits.enter("slow").now_or_never().is_some());
    }

    #[tokio::test]
    async fn a_namespace_is_forgotten_with_its_last_request() {
        let limits = Limits::new(1, 1);
        let held = limits.enter("a").await;
        let waiting = limits.enter("b");
        drop(waiting);
        assert!(limits.enter("b").now_or_never().is_none());
        assert_eq!(lock(&limits.namespaces).len(), 1, "who gave up waiting is forgotten");
        drop(held);
        assert!(lock(&limits.namespaces).is_empty());
    }
}
