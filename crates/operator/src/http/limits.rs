//! Permits: bounds on the requests in flight, in all and for each namespace.
//!
//! A request waits for a permit of its namespace first, so one namespace never has more than its share in the queue
//! for the shared permits, and those are given in the order of requests. A long request, for example a load test
//! or a hook that hangs, releases its shared permit after three seconds. Its namespace has further permits for long
//! requests: as soon as one is free, the request exchanges the other one for it.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub(super) struct Limits {
    total: Arc<Semaphore>,
    per_namespace_max: usize,
    namespaces: Namespaces,
}

type Namespaces = Arc<Mutex<BTreeMap<String, NamespaceLimit>>>;

/// The permits of one namespace. Kept while it has requests.
struct NamespaceLimit {
    permits: Arc<Semaphore>,
    long: Arc<Semaphore>,
    requests: usize,
}

/// The right to one request. Clones share it; it is released when the last clone is dropped.
#[derive(Clone)]
pub struct RequestPermit(Arc<Mutex<Held>>);

struct Held {
    total: Option<OwnedSemaphorePermit>,
    of_namespace: OwnedSemaphorePermit,
    long: Arc<Semaphore>,
    _request: PendingRequest,
}

/// A request that has or waits for a permit of its namespace.
struct PendingRequest {
    namespaces: Namespaces,
    namespace: String,
}

/// Permits for long requests, for each permit of a namespace.
const LONG_PER_PERMIT: usize = 8;

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
    pub(super) async fn acquire(&self, namespace: &str) -> Option<RequestPermit> {
        let (request, permits, long) = self.register(namespace);
        let of_namespace = permits.acquire_owned().await.ok()?;
        let total = Some(Arc::clone(&self.total).acquire_owned().await.ok()?);
        let held = Held { total, of_namespace, long, _request: request };
        Some(RequestPermit(Arc::new(Mutex::new(held))))
    }

    fn register(&self, namespace: &str) -> (PendingRequest, Arc<Semaphore>, Arc<Semaphore>) {
        let max = self.per_namespace_max;
        let mut namespaces = self.namespaces.lock();
        let limit = namespaces.entry(namespace.to_owned()).or_insert_with(|| NamespaceLimit {
            permits: Arc::new(Semaphore::new(max)),
            long: Arc::new(Semaphore::new(max * LONG_PER_PERMIT)),
            requests: 0,
        });
        limit.requests += 1;
        let namespaces = Arc::clone(&self.namespaces);
        let request = PendingRequest { namespaces, namespace: namespace.to_owned() };
        (request, Arc::clone(&limit.permits), Arc::clone(&limit.long))
    }
}

// === impl RequestPermit ===

impl RequestPermit {
    /// Releases the shared permit, waits for one of the permits for long requests, and then releases the other one of
    /// the namespace.
    pub(super) async fn become_long(&self) {
        let long = {
            let mut held = self.0.lock();
            held.total = None;
            Arc::clone(&held.long)
        };
        if let Ok(long) = long.acquire_owned().await {
            self.0.lock().of_namespace = long;
        }
    }
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        let mut namespaces = self.namespaces.lock();
        if let Some(limit) = namespaces.get_mut(&self.namespace) {
            limit.requests -= 1;
            if limit.requests == 0 {
                namespaces.remove(&self.namespace);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn one_namespace_cannot_take_anothers_permits() {
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
    async fn a_long_request_delays_neither_other_namespaces_nor_its_own() {
        let limits = Limits::new(1, 1);
        let mut long = Vec::new();
        for _ in 0..LONG_PER_PERMIT {
            let permit = limits.acquire("slow").now_or_never().flatten().unwrap();
            assert!(limits.acquire("quick").now_or_never().is_none());
            permit.become_long().await;
            long.push(permit);
            assert!(limits.acquire("quick").now_or_never().is_some());
        }
        let last = limits.acquire("slow").now_or_never().flatten().unwrap();
        let mut change = Box::pin(last.become_long());
        assert!(change.as_mut().now_or_never().is_none(), "long requests are bounded too");
        assert!(limits.acquire("slow").now_or_never().is_none());
        assert!(limits.acquire("quick").now_or_never().is_some(), "for their own namespace only");
        long.pop();
        assert!(change.as_mut().now_or_never().is_some(), "one of them has ended");
        assert!(limits.acquire("slow").now_or_never().is_some());
    }

    #[tokio::test]
    async fn a_permit_is_given_back_with_its_last_clone() {
        let limits = Limits::new(1, 1);
        let permit = limits.acquire("a").await.unwrap();
        let clone = permit.clone();
        drop(permit);
        assert!(limits.acquire("a").now_or_never().is_none());
        drop(clone);
        assert!(limits.acquire("a").now_or_never().is_some());
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
