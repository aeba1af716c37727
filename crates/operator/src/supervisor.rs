//! Starts a reconcile loop for every canary, game workload and hook run, and ends it with its object.
//!
//! ```text
//! watches ─► changed (kind, name) ─► Supervisor ─┬─► start or wake a loop  (crate::reconcile)
//!                                                └─► stop it, wait for its end, compare again
//! ```
//!
//! A loop belongs to one identity (UID): an object that was deleted and created again under its name is
//! another one, and its loop starts after the old one has ended. Ending a loop never blocks the others.
//! If the API server went back to an earlier state, all of them end and start anew.
//! The differences between kinds are in their [`Controller`]s.

use std::{collections::BTreeMap, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::{FutureExt as _, future::BoxFuture};
use serde_json::Value;
use tidegate_providers::object::Kind;
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
};
use tracing::{error, warn};

use crate::{
    canary,
    cluster::{cache::Key, watch::Listener},
    context::Context,
    game,
};

/// An object with a loop.
pub(crate) type Id = (Kind, Key);

/// The rules of some kinds: when their loops may start, which changes wake them, and what ends with them.
pub(crate) trait Controller: Send {
    fn kinds(&self) -> &'static [Kind];

    /// Starts watches that come first, and resolves when loops may start.
    fn prepare(&self, watches: &mut Watches) -> BoxFuture<'static, ()>;

    /// Called when the caches are complete: starts watches that need them.
    fn begin(&mut self, watches: &mut Watches);

    /// The part of an object whose change wakes its loop: not its status, which is our own writing.
    fn wake_fields(&self, object: &Value) -> Value;

    /// The name under which the cache wakes the object's loop.
    fn follower(&self, id: &Id) -> Key;

    /// How long a loop waits before its first pass. `is_initial`: the object was there at start.
    fn delay(&self, object: &Value, is_initial: bool) -> Duration;

    /// The loop of an object, ready to be spawned.
    fn start(
        &mut self,
        id: &Id,
        object: &Value,
        loop_start: LoopStart,
        watches: &mut Watches,
    ) -> BoxFuture<'static, ()>;

    /// Fields that wake the loop changed.
    fn changed(&mut self, id: &Id, object: &Value);

    /// The loop has ended.
    fn ended(&mut self, id: &Id);
}

/// The arguments of a loop.
pub(crate) struct LoopStart {
    pub(crate) delay: Duration,
    pub(crate) stop: watch::Receiver<bool>,
}

/// Watches that last as long as the supervisor.
pub(crate) struct Watches {
    cx: Arc<Context>,
    tasks: JoinSet<()>,
    changes: mpsc::UnboundedSender<Change>,
}

/// Starts and ends loops. Dropping it stops everything at once; [`Supervisor::drain`] does so in order.
pub struct Supervisor {
    cx: Arc<Context>,
    controllers: Vec<Box<dyn Controller>>,
    /// Controllers whose loops may start, by their index.
    has_begun: Vec<bool>,
    running: BTreeMap<Id, Running>,
    loops: JoinSet<Id>,
    watches: Watches,
    changes: mpsc::UnboundedReceiver<Change>,
}

struct Running {
    uid: String,
    wake_fields: Value,
    stop: watch::Sender<bool>,
}

enum Change {
    /// The controller at this index may begin.
    Ready(usize),
    /// An object of a kind with loops changed.
    Object(Id),
}

/// Reports names of changed objects to the supervisor.
struct Forward(Kind, mpsc::UnboundedSender<Change>);

impl Listener for Forward {
    fn changed(&mut self, key: &Key) {
        // The receiver is gone when the operator stops.
        let _ = self.1.send(Change::Object((self.0, key.clone())));
    }
}

// === impl Watches ===

impl Watches {
    /// Watches a kind whose objects have loops.
    pub(crate) fn supervised(&mut self, kind: Kind) {
        let forward = Forward(kind, self.changes.clone());
        self.add(kind, forward);
    }

    /// Watches a kind for the cache, and for a listener.
    pub(crate) fn add(&mut self, kind: Kind, listener: impl Listener + 'static) {
        self.tasks.spawn(self.cx.watch_of(kind, listener).feed());
    }
}

// === impl Supervisor ===

impl Supervisor {
    /// Begins to watch. Loops start once everything they need was listed.
    pub fn start(cx: Arc<Context>) -> Self {
        let (controllers, watches, changes) = prepare(&cx);
        let has_begun = vec![false; controllers.len()];
        let (running, loops) = (BTreeMap::new(), JoinSet::new());
        Self { cx, controllers, has_begun, running, loops, watches, changes }
    }

    /// Ends everything where it stands and begins as after a restart: what is remembered is of a state that the API
    /// server no longer has.
    async fn begin_anew(&mut self) {
        self.loops.shutdown().await;
        self.watches.tasks.shutdown().await;
        self.cx.end_background().await;
        for id in std::mem::take(&mut self.running).into_keys() {
            if let Some(controller) = self.controller_of(id.0) {
                controller.ended(&id);
            }
        }
        for kind in std::mem::take(&mut *self.cx.cluster.silent.lock()) {
            self.cx.telemetry.set_watch_silent(kind, false);
        }
        self.cx.cluster.forget();
        self.cx.telemetry.count_rewind();
        (self.controllers, self.watches, self.changes) = prepare(&self.cx);
        self.has_begun = vec![false; self.controllers.len()];
    }

    /// Starts and ends loops as objects come and go. Ends only if a watch does, which none should.
    pub async fn run(&mut self) {
        loop {
            tokio::select! {
                biased;
                () = self.cx.cluster.until_behind() => self.begin_anew().await,
                Some(ended) = self.watches.tasks.join_next() => {
                    error!(?ended, "A watch ended");
                    return;
                }
                Some(ended) = self.loops.join_next() => {
                    if let Ok(id) = ended {
                        self.ended(&id);
                    }
                }
                Some(change) = self.changes.recv() => match change {
                    Change::Ready(index) => self.begin(index),
                    Change::Object(id) => self.sync_loop(&id, false),
                },
            }
        }
    }

    /// Lets every loop finish the decision it carries out, at most for `timeout`.
    pub async fn drain(&mut self, timeout: Duration) {
        let deadline = self.cx.clock.sleep(timeout);
        for running in self.running.values() {
            let _ = running.stop.send(true);
        }
        let all = async {
            while self.loops.join_next().await.is_some() {}
            self.cx.cleaned_up().await;
        };
        tokio::select! {
            biased;
            () = all => {}
            () = deadline => warn!("Some reconciles did not end in time"),
        }
    }

    fn begin(&mut self, index: usize) {
        let Some(controller) = self.controllers.get_mut(index) else { return };
        controller.begin(&mut self.watches);
        let kinds = controller.kinds();
        if let Some(has_begun) = self.has_begun.get_mut(index) {
            *has_begun = true;
        }
        for kind in kinds {
            for object in self.cx.cluster.cache.list(*kind) {
                self.sync_loop(&(*kind, Key::of(&object)), true);
            }
        }
    }

    /// Compares an object with its loop: starts, wakes or stops it.
    fn sync_loop(&mut self, id: &Id, is_initial: bool) {
        let index = self.controllers.iter().position(|it| it.kinds().contains(&id.0));
        let Some(index) = index.filter(|index| self.has_begun.get(*index) == Some(&true)) else {
            return;
        };
        let Some(controller) = self.controllers.get_mut(index) else { return };
        let object = self.cx.cluster.cache.get(id.0, &id.1);
        let uid = object.as_ref().and_then(|it| it["metadata"]["uid"].as_str());
        match (self.running.get_mut(id), object.as_ref()) {
            (Some(running), Some(object)) if uid == Some(running.uid.as_str()) => {
                let fields = controller.wake_fields(object);
                if running.wake_fields != fields {
                    running.wake_fields = fields;
                    controller.changed(id, object);
                    self.cx.cluster.cache.notify(&controller.follower(id));
                }
            }
            // Deleted, or created again with another UID: `ended` starts a loop for the new object.
            (Some(running), _) => {
                let _ = running.stop.send(true);
            }
            (None, Some(object)) => {
                let (stop, stopped) = watch::channel(false);
                let delay = controller.delay(object, is_initial);
                let start = LoopStart { delay, stop: stopped };
                let work = controller.start(id, object, start, &mut self.watches);
                let uid = uid.unwrap_or_default().to_owned();
                let wake_fields = controller.wake_fields(object);
                self.running.insert(id.clone(), Running { uid, wake_fields, stop });
                let id = id.clone();
                self.loops.spawn(async move {
                    if AssertUnwindSafe(work).catch_unwind().await.is_err() {
                        error!(object = %id.1, "A reconcile loop panicked; it is restarted");
                    }
                    id
                });
            }
            (None, None) => {}
        }
    }

    /// A loop has ended: its object is gone, or another one has its name.
    fn ended(&mut self, id: &Id) {
        self.running.remove(id);
        if let Some(controller) = self.controller_of(id.0) {
            controller.ended(id);
        }
        self.sync_loop(id, false);
    }

    fn controller_of(&mut self, kind: Kind) -> Option<&mut Box<dyn Controller>> {
        self.controllers.iter_mut().find(|it| it.kinds().contains(&kind))
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.cx.abort_background();
    }
}

type Prepared = (Vec<Box<dyn Controller>>, Watches, mpsc::UnboundedReceiver<Change>);

/// The controllers, with the watches that come first. Each says when its loops may start.
fn prepare(cx: &Arc<Context>) -> Prepared {
    let mut controllers: Vec<Box<dyn Controller>> =
        vec![Box::new(canary::Canaries::new(Arc::clone(cx)))];
    if cx.options.game {
        controllers.push(Box::new(game::GameWorkloads::new(Arc::clone(cx))));
    }
    let (sender, changes) = mpsc::unbounded_channel();
    let mut watches = Watches { cx: Arc::clone(cx), tasks: JoinSet::new(), changes: sender };
    for (index, controller) in controllers.iter().enumerate() {
        let (ready, sender) = (controller.prepare(&mut watches), watches.changes.clone());
        cx.spawn_background(async move {
            ready.await;
            let _ = sender.send(Change::Ready(index));
        });
    }
    (controllers, watches, changes)
}

#[cfg(test)]
mod tests;
