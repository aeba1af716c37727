//! The place where a script runs: a cluster, the operator on it, and its clock.
//!
//! [`Sandboxed`] is the usual one, in memory and in virtual time. The suites on real parts have their own.

use std::time::Duration;

use jiff::Timestamp;
use kube_sandbox::{
    clock::{between, later},
    cluster::{Cluster as _, Deletion, Resource},
    controllers::keda_crds,
    dataplane::routing_crds,
    faults::{Effect, When},
    kubelet::Behaviour,
};
use serde_json::Value;
use tidegate_operator::telemetry::Format;

use super::{chronicle::Chronicle, examine};
use crate::{
    network::Network,
    rollout::{CANARIES, World},
};

/// The result of a step; `Err` says why it is impossible here.
pub type Done<T = ()> = Result<T, String>;

/// One namespace of a cluster, and everything a script needs around it.
///
/// The script's own writes are not recorded: they are in the script. The ground records everything else, in
/// the words of [`super::tell`].
#[expect(async_fn_in_trait, reason = "scripts are played on one thread")]
pub trait Ground {
    async fn get(&self, resource: Resource, name: &str) -> Done<Option<Value>>;
    async fn list(&self, resource: Resource) -> Done<Vec<Value>>;
    async fn create(&self, resource: Resource, object: Value) -> Done;
    async fn update(&self, resource: Resource, object: Value) -> Done;
    /// A merge patch; `sub` is empty or `status`.
    async fn patch(&self, resource: Resource, name: &str, sub: &str, patch: &Value) -> Done;
    async fn delete(&self, resource: Resource, name: &str, grace_s: Option<i64>) -> Done;

    /// The answers of hooks and metrics, and the requests for them.
    fn network(&self) -> &Network;
    /// Installs the definitions of gateways, meshes and KEDA.
    async fn know_routes(&self) -> Done;
    async fn start_operator(&mut self) -> Done;
    async fn kill_operator(&mut self) -> Done;
    /// The page that Prometheus reads from the operator.
    async fn metrics(&self) -> Done<String>;
    /// Lets pods reach the state the script last gave them, for commands that act on pods. Without effect
    /// where time is real.
    async fn settle_pods(&mut self) -> Done {
        Ok(())
    }
    /// Pods of this image behave otherwise from now on.
    fn change_pods(&self, image: &str, behaviour: Behaviour) -> Done;
    /// Whether the operator may write anything of a canary but its status.
    fn permit(&self, may: bool) -> Done;

    /// The recorded outcome of the next command. Where time is real, this is how to know that it has come;
    /// it must not change the recording.
    fn expect(&mut self, _outcome: &[String]) {}
    /// Lets all controllers finish their work at this moment.
    async fn settle(&mut self) -> Done;
    /// Lets time pass; with `until`, no longer than until the canary is in that phase, which it must reach.
    async fn wait(&mut self, time: Duration, until: Option<&str>) -> Done;
    /// Leaves out the writes until now, which are the script's own.
    fn skip(&mut self);
    /// Drops all changes until now from the recording.
    fn forget(&mut self);
    /// Changes since the last call, where the ground records them one by one.
    fn take_news(&mut self) -> Vec<String>;
    /// Checks the invariants.
    async fn examine(&self) -> Done;
}

/// The sandbox.
pub(super) struct Sandboxed {
    world: World,
    chronicle: Chronicle,
}

// === impl Sandboxed ===

impl Sandboxed {
    pub(super) async fn new() -> Self {
        let world = World::new();
        world.settle().await;
        let chronicle = Chronicle::new(&world);
        Self { world, chronicle }
    }
}

impl Ground for Sandboxed {
    async fn get(&self, resource: Resource, name: &str) -> Done<Option<Value>> {
        Ok(self.world.get(resource, name))
    }

    async fn list(&self, resource: Resource) -> Done<Vec<Value>> {
        Ok(self.world.admin.list(resource, Some("default")))
    }

    async fn create(&self, resource: Resource, object: Value) -> Done {
        done(self.world.admin.create(resource, "default", object))
    }

    async fn update(&self, resource: Resource, object: Value) -> Done {
        done(self.world.admin.update(resource, "", object))
    }

    async fn patch(&self, resource: Resource, name: &str, sub: &str, patch: &Value) -> Done {
        done(self.world.admin.patch(resource, "default", name, sub, patch))
    }

    async fn delete(&self, resource: Resource, name: &str, grace_s: Option<i64>) -> Done {
        let deletion = Deletion { grace_period_s: grace_s, ..Deletion::default() };
        done(self.world.admin.delete(resource, "default", name, &deletion))
    }

    fn network(&self) -> &Network {
        &self.world.network
    }

    async fn know_routes(&self) -> Done {
        let loaded = self.world.sandbox.load([routing_crds(), keda_crds()].concat());
        loaded.map(|_| ()).map_err(|error| format!("{error:?}"))
    }

    async fn start_operator(&mut self) -> Done {
        self.world.start().await;
        Ok(())
    }

    async fn kill_operator(&mut self) -> Done {
        self.world.kill();
        Ok(())
    }

    async fn metrics(&self) -> Done<String> {
        let telemetry = self.world.telemetry.borrow();
        Ok(telemetry.as_ref().map(|it| it.render(Format::Prometheus)).unwrap_or_default())
    }

    fn change_pods(&self, image: &str, behaviour: Behaviour) -> Done {
        self.world.sandbox.controllers().kubelet.behaviours.set(image, behaviour);
        Ok(())
    }

    /// As a Role without `patch` would.
    fn permit(&self, may: bool) -> Done {
        let faults = &self.world.sandbox.server().faults;
        faults.clear();
        if !may {
            let edits =
                World::operators().resource(CANARIES.group, CANARIES.plural).subresource("");
            faults.add(edits, When::Always, Effect::FailBefore { code: 403, reason: "Forbidden" });
        }
        Ok(())
    }

    async fn settle(&mut self) -> Done {
        self.world.settle().await;
        self.chronicle.note(&self.world);
        Ok(())
    }

    /// Records at every moment something is due.
    async fn wait(&mut self, time: Duration, until: Option<&str>) -> Done {
        let clock = self.world.sandbox.server().clock.clone();
        let end = later(clock.now(), time);
        loop {
            self.settle().await?;
            let now = clock.now();
            let phase = self.world.phase(super::stage::NAME);
            if until.is_some_and(|wanted| phase == wanted) {
                return Ok(());
            }
            if now >= end {
                return match until {
                    Some(wanted) => Err(format!("never {wanted}, but {phase}")),
                    None => Ok(()),
                };
            }
            let due = [self.world.sandbox.runtime().next_due(), clock.next_deadline()];
            let next: Option<Timestamp> = due.into_iter().flatten().filter(|at| *at > now).min();
            clock.advance(between(now, next.filter(|at| *at < end).unwrap_or(end)));
        }
    }

    fn skip(&mut self) {
        self.chronicle.skip(&self.world);
    }

    fn forget(&mut self) {
        self.chronicle.take();
    }

    fn take_news(&mut self) -> Vec<String> {
        self.chronicle.take()
    }

    async fn examine(&self) -> Done {
        examine::examine(&self.world)
    }
}

fn done<T>(outcome: Result<T, kube_sandbox::failure::Failure>) -> Done {
    outcome.map(|_| ()).map_err(|error| format!("{error:?}"))
}
