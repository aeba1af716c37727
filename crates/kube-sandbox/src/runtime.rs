//! Runs the control loops: queues, backoff and time, one key at a time.
//!
//! Store changes become keys in a queue ordered by due time; [`Runtime::step`] reconciles one key.
//! With a real clock a task steps whenever a key is due. With a virtual clock a test steps, in
//! order or, with a seed, in any order that is possible in a real cluster.

use std::{
    collections::{BTreeMap, BTreeSet},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use serde_json::Value;

use self::{collector::Collector, reaper::Reaper};
use crate::{
    clock::{between, later},
    controllers::{Change, Controller, Key, Next},
    random::Random,
    server::{Server, User, local::Local},
    store::{Event, EventKind, TableKey},
};

mod collector;
mod reaper;

/// First wait after a failed look; doubles up to [`RETRY_MAX`].
const RETRY_FIRST: Duration = Duration::from_millis(5);
const RETRY_MAX: Duration = Duration::from_secs(30);

/// Order of due work.
#[derive(Debug, Default)]
pub enum Order {
    /// First come, first served.
    #[default]
    Fair,
    /// A random due key, drawn from this source.
    Shuffled(Random),
}

/// Every control loop of a cluster, and their queue.
pub struct Runtime {
    server: Arc<Server>,
    loops: Vec<Loop>,
    collector: Collector,
    reaper: Reaper,
    queue: Queue,
    order: Order,
    paused: BTreeSet<String>,
    /// The time of the last step; a step at an earlier time means that the clock was set back.
    seen_at: Timestamp,
}

struct Loop {
    controller: Box<dyn Controller>,
    cluster: Local,
    failures: BTreeMap<Key, u32>,
}

/// Keys in order of due time.
#[derive(Default)]
struct Queue {
    due: BTreeMap<Slot, (usize, Key)>,
    index: BTreeMap<(usize, Key), Slot>,
    serial: u64,
}

/// Due time of a key, and a serial number as tie-breaker.
type Slot = (Timestamp, u64);

/// One unit of work: item n of the collector or the reaper, or a key of a control loop.
enum Piece {
    Collect(usize),
    Reap(usize),
    Look(Slot),
}

// === impl Runtime ===

impl Runtime {
    pub fn new(server: Arc<Server>, controllers: Vec<Box<dyn Controller>>, order: Order) -> Self {
        server.store.track_unseen();
        let loops = controllers.into_iter().map(|controller| {
            let name = format!("system:sandbox:{}", controller.name());
            let cluster = Local::new(Arc::clone(&server), User::new(&name, &["system:masters"]));
            Loop { controller, cluster, failures: BTreeMap::new() }
        });
        Self {
            collector: Collector::new(Arc::clone(&server)),
            reaper: Reaper::new(Arc::clone(&server)),
            loops: loops.collect(),
            queue: Queue::default(),
            order,
            paused: BTreeSet::new(),
            seen_at: server.clock.now(),
            server,
        }
    }

    /// Pauses a loop (`deployment`, `kubelet`, `garbage-collector`, ...) as if its process hung.
    pub fn pause(&mut self, name: &str) {
        self.paused.insert(name.to_owned());
    }

    /// Resumes a paused loop with all changes that happened meanwhile.
    pub fn resume(&mut self, name: &str) {
        self.paused.remove(name);
    }

    /// Reconciles every key of a loop again, after a change of its settings.
    pub fn requeue(&mut self, name: &str) {
        let now = self.server.clock.now();
        for index in 0..self.loops.len() {
            let Some(each) = self.loops.get(index).filter(|each| each.controller.name() == name)
            else {
                continue;
            };
            let mut keys = Vec::new();
            for (group, plural) in each.controller.watches() {
                let (_, objects) = self.server.store.list(&TableKey::new(group, plural), None);
                for object in objects {
                    let new = object.value();
                    let change = Change {
                        group,
                        plural,
                        namespace: &object.key.namespace,
                        name: &object.key.name,
                        old: Some(&new),
                        new: Some(&new),
                    };
                    keys.extend(each.controller.keys(&each.cluster, &change));
                }
            }
            for key in keys {
                self.queue.push(index, key, now);
            }
        }
    }

    pub fn names(&self) -> Vec<&'static str> {
        let own = self.loops.iter().map(|each| each.controller.name());
        own.chain([collector::NAME, reaper::NAME]).collect()
    }

    /// Does one unit of due work. False if nothing is due.
    pub fn step(&mut self) -> bool {
        self.observe();
        let Some(piece) = self.choose() else { return false };
        match piece {
            Piece::Collect(nth) => self.collector.step(nth),
            Piece::Reap(nth) => self.reaper.step(nth),
            Piece::Look(slot) => {
                if let Some((index, key)) = self.queue.take(slot) {
                    self.work(index, &key);
                }
            }
        }
        true
    }

    /// The next unit of work: collector and reaper first or, shuffled, anything that is due.
    fn choose(&self) -> Option<Piece> {
        let (collect, reap) = (self.to_collect(), self.to_reap());
        let mut ready = self.ready();
        let Order::Shuffled(random) = &self.order else {
            return match (collect, reap) {
                (0, 0) => ready.next().map(Piece::Look),
                (0, _) => Some(Piece::Reap(0)),
                (_, _) => Some(Piece::Collect(0)),
            };
        };
        let slots: Vec<_> = ready.collect();
        let chosen = random.below((collect + reap + slots.len()) as u64);
        let chosen = usize::try_from(chosen).unwrap_or_default();
        if chosen < collect {
            return Some(Piece::Collect(chosen));
        }
        let chosen = chosen - collect;
        if chosen < reap {
            return Some(Piece::Reap(chosen));
        }
        slots.get(chosen - reap).copied().map(Piece::Look)
    }

    /// Steps until nothing is due or `steps_max` is reached. True if nothing is due.
    pub fn settle(&mut self, steps_max: usize) -> bool {
        (0..steps_max).any(|_| !self.step())
    }

    /// When the next unit of work is due: now, later, or (`None`) only after a change.
    pub fn next_due(&mut self) -> Option<Timestamp> {
        self.observe();
        if self.to_collect() + self.to_reap() > 0 {
            return Some(self.server.clock.now());
        }
        let mut due = self.queue.due.iter();
        due.find(|(_, (index, _))| !self.is_paused(*index)).map(|((at, _), _)| *at)
    }

    fn is_paused(&self, index: usize) -> bool {
        let name = self.loops.get(index).map(|each| each.controller.name());
        name.is_some_and(|name| self.paused.contains(name))
    }

    fn to_collect(&self) -> usize {
        if self.paused.contains(collector::NAME) { 0 } else { self.collector.waiting() }
    }

    fn to_reap(&self) -> usize {
        if self.paused.contains(reaper::NAME) { 0 } else { self.reaper.waiting() }
    }

    fn observe(&mut self) {
        let now = self.server.clock.now();
        if now < self.seen_at {
            // The clock was set back. Delays stay the same.
            self.queue.bring_forward(between(now, self.seen_at));
        }
        self.seen_at = now;
        for (table, event) in self.server.store.take_unseen() {
            self.collector.observe(&table, &event);
            self.reaper.observe(&table, &event);
            self.enqueue(&table, &event, now);
        }
    }

    fn enqueue(&mut self, table: &TableKey, event: &Event, now: Timestamp) {
        let watched = (&*table.group, &*table.plural);
        let mut parsed: Option<(Option<Value>, Option<Value>)> = None;
        for (index, each) in self.loops.iter().enumerate() {
            if !each.controller.watches().contains(&watched) {
                continue;
            }
            let (old, new) = parsed.get_or_insert_with(|| {
                let old = event.previous.as_ref().map(|object| object.value());
                let is_gone = event.kind == EventKind::Deleted;
                (old, (!is_gone).then(|| event.object.value()))
            });
            let change = Change {
                group: watched.0,
                plural: watched.1,
                namespace: &event.object.key.namespace,
                name: &event.object.key.name,
                old: old.as_ref(),
                new: new.as_ref(),
            };
            for key in each.controller.keys(&each.cluster, &change) {
                self.queue.push(index, key, now);
            }
        }
    }

    /// Keys that are due and whose loop is not paused, in order.
    fn ready(&self) -> impl Iterator<Item = Slot> {
        let ready = self.queue.due.range(..=(self.seen_at, u64::MAX));
        ready.filter(|(_, (index, _))| !self.is_paused(*index)).map(|(slot, _)| *slot)
    }

    fn work(&mut self, index: usize, key: &Key) {
        let Some(each) = self.loops.get_mut(index) else { return };
        // An object on which a loop panics must not stop the loop for all others.
        let look = AssertUnwindSafe(|| each.controller.reconcile(&each.cluster, key));
        let next = catch_unwind(look).unwrap_or(Next::Retry);
        let now = self.server.clock.now();
        match next {
            Next::Idle => {
                each.failures.remove(key);
            }
            Next::After(wait) => {
                each.failures.remove(key);
                self.queue.push(index, key.clone(), later(now, wait));
            }
            Next::Retry => {
                let failures = each.failures.entry(key.clone()).or_default();
                let wait = RETRY_FIRST * 2_u32.saturating_pow((*failures).min(16));
                *failures += 1;
                self.queue.push(index, key.clone(), later(now, wait.min(RETRY_MAX)));
            }
        }
    }
}

// === impl Queue ===

impl Queue {
    /// Adds a key, or moves it forward if it is due later.
    fn push(&mut self, index: usize, key: Key, at: Timestamp) {
        let known = self.index.get(&(index, key.clone())).copied();
        if let Some(slot) = known {
            if slot.0 <= at {
                return;
            }
            self.due.remove(&slot);
        }
        let slot = (at, self.serial);
        self.serial += 1;
        self.due.insert(slot, (index, key.clone()));
        self.index.insert((index, key), slot);
    }

    /// Moves everything forward, in the same order.
    fn bring_forward(&mut self, by: Duration) {
        let earlier = |(at, serial): Slot| (at.checked_sub(by).unwrap_or(Timestamp::MIN), serial);
        let due = std::mem::take(&mut self.due);
        self.due = due.into_iter().map(|(slot, work)| (earlier(slot), work)).collect();
        for slot in self.index.values_mut() {
            *slot = earlier(*slot);
        }
    }

    fn take(&mut self, slot: Slot) -> Option<(usize, Key)> {
        let work = self.due.remove(&slot)?;
        self.index.remove(&work);
        Some(work)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use serde_json::json;

    use super::*;
    use crate::{
        clock::Clock,
        cluster::{Cluster, NAMESPACES},
        server::ServerSettings,
    };

    /// Panics at one namespace, counts its reconciles of the others.
    struct Touchy(Arc<AtomicU32>);

    impl Controller for Touchy {
        fn name(&self) -> &'static str {
            "touchy"
        }

        fn watches(&self) -> &'static [(&'static str, &'static str)] {
            &[("", "namespaces")]
        }

        fn keys(&self, _: &dyn Cluster, change: &Change<'_>) -> Vec<Key> {
            vec![Key { namespace: String::new(), name: change.name.to_owned() }]
        }

        fn reconcile(&mut self, _: &dyn Cluster, key: &Key) -> Next {
            assert_ne!(key.name, "hostile");
            self.0.fetch_add(1, Ordering::Relaxed);
            Next::Idle
        }
    }

    #[test]
    fn an_object_that_trips_a_loop_does_not_stop_it_for_others() {
        let clock = Clock::virtual_from(Timestamp::UNIX_EPOCH);
        let server = Arc::new(Server::new(clock, ServerSettings::default()));
        let looks = Arc::new(AtomicU32::new(0));
        let touchy: Vec<Box<dyn Controller>> = vec![Box::new(Touchy(Arc::clone(&looks)))];
        let mut runtime = Runtime::new(Arc::clone(&server), touchy, Order::Fair);
        let admin = Local::new(server, User::admin());
        for name in ["hostile", "peaceful"] {
            let namespace = json!({"metadata": {"name": name}});
            admin.create(NAMESPACES, "", namespace).unwrap();
        }
        assert!(runtime.settle(100));
        assert_eq!(looks.load(Ordering::Relaxed), 1);
        assert!(runtime.next_due().is_some(), "the other one is tried again later");
    }
}
