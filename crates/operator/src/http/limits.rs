//! Permits: bounds on the requests in flight, in all and for each namespace.
//!
//! A request waits for a permit of its namespace first, so one namespace never has more than its share in the
//! queue for the shared permits, and those are given in the order of requests.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub(super) struct Limits {
    total: Arc<Semaphore>,
    per_namespace_max: usize,
    namespaces: Namespaces,
}

type Namespaces = Arc<Mutex<BTreeMap<String, Lane>>>;

/// The permits of one namespace. Kept while it has users.
struct Lane {
    permits: Arc<Semaphore>,
    users: usize,
}

/// For one request in progress; released when dropped.
pub(super) struct Permit {
    total: Option<OwnedSemaphorePermit>,
    _of_namespace: OwnedSemaphorePermit,
    _user: User,
}

/// A request that has or waits for a permit of its namespace.
struct User {
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

    /// Waits for a permit. `None` cannot happen while `self` lives: the semaphores are never closed.
    pub(super) async fn acquire(&self, namespace: &str) -> Option<Permit> {
        let (user, permits) = self.join_lane(namespace);
        let of_namespace = permits.acquire_owned().await.ok()?;
        let total = Arc::clone(&self.total).acquire_owned().await.ok()?;
        Some(Permit { total: Some(total), _of_namespace: of_namespace, _user: user })
    }

    fn join_lane(&self, namespace: &str) -> (User, Arc<Semaphore>) {
        let mut lanes = self.namespaces.lock();
        let lane = lanes.entry(namespace.to_owned()).or_insert_with(|| Lane {
            permits: Arc::new(Semaphore::new(self.per_namespace_max)),
            users: 0,
        });
        lane.users += 1;
        let namespaces = Arc::clone(&self.namespaces);
        (User { namespaces, namespace: namespace.to_owned() }, Arc::clone(&lane.permits))
    }
}

impl Permit {
    /// Releases the shared permit: a long request holds up its own namespace only.
    pub(super) fn release_shared(&mut self) {
        self.total = None;
    }
}

impl Drop for User {
    fn drop(&mut self) {
        let mut lanes = self.namespaces.lock();
        if let Some(lane) = lanes.get_mut(&self.namespace) {
            lane.users -= 1;
            if lane.users == 0 {
                lanes.remove(&self.namespace);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn one_namespace_cannot_take_anothers_turns() {
        let limits = Limits::new(3, 2);
        let first = limits.acquire("greedy").await;
        let second = limits.acquire("greedy").await;
        assert!(limits.acquire("greedy").now_or_never().is_none(), "its share is used up");
        let other = limits.acquire("modest").now_or_never();
        assert!(other.is_some(), "there is still a permit for others");
        assert!(limits.acquire("third").now_or_never().is_none(), "all permits are used up");
        drop(first);
        assert!(limits.acquire("third").now_or_never().is_some());
        drop((second, other));
    }

    #[tokio::test]
    async fn a_long_request_keeps_only_the_permit_of_its_namespace() {
        let limits = Limits::new(1, 1);
        let mut long = limits.acquire("slow").await.unwrap();
        assert!(limits.acquire("quick").now_or_never().is_none());
        long.release_shared();
        assert!(limits.acquire("quick").now_or_never().is_some());
        assert!(limits.acquire("slow").now_or_never().is_none());
        drop(long);
        assert!(limits.acquire("slow").now_or_never().is_some());
    }

    #[tokio::test]
    async fn a_namespace_is_forgotten_with_its_last_request() {
        let limits = Limits::new(1, 1);
        let held = limits.acquire("a").await;
        let waiting = limits.acquire("b");
        drop(waiting);
        assert!(limits.acquire("b").now_or_never().is_none());
        assert_eq!(limits.namespaces.lock().len(), 1, "a caller that gave up is forgotten");
        drop(held);
        assert!(limits.namespaces.lock().is_empty());
    }
}
