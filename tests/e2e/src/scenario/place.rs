//! A namespace of a real cluster as the ground of a script.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::Result;
use kube::{
    Api, Client,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use kube_sandbox::{
    cluster::{PODS, Resource},
    kubelet::Behaviour,
};
use serde_json::Value;
use tidegate_tests::{
    network::{Call, Metric, Network, PROBE, PROMETHEUS},
    rollout::CANARIES,
    scenario::{Done, Ground, tell_call, tell_pods},
};

use super::{
    Theatre,
    clerk::{Clerk, KINDS, resource},
    compare::{Told, pods_of},
    pace::{Pace, is_timed},
    server::Server,
};
use crate::Operator;

/// The operator reacts to events well within this; a rollout's next step is ten seconds away.
const SETTLES_IN: Duration = Duration::from_millis(800);
/// Events without delay in a script take up to this: the garbage collector has to learn of new kinds first.
const COMES_IN: Duration = Duration::from_secs(40);
/// A new operator lists all objects before its first reconcile.
const FIRST_LOOK_MAX: Duration = Duration::from_mins(1);
/// The longest wait for a moment without writes.
const QUIET_MAX: Duration = Duration::from_secs(25);
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// Pods have settled well within this, and the operator has not taken its next step.
const PODS_COME_IN: Duration = Duration::from_secs(8);
/// The least patience of a script.
const PATIENCE_MIN: Duration = Duration::from_mins(3);

/// Kinds that scripts write or read and that are not watched.
const OTHERS: [(&str, &str, &str, &str); 3] = [
    ("", "v1", "Pod", "pods"),
    ("flagger.app", "v1beta1", "MetricTemplate", "metrictemplates"),
    ("flagger.app", "v1beta1", "AlertProvider", "alertproviders"),
];

pub(super) struct Place<'s> {
    theatre: &'s Theatre,
    client: Client,
    namespace: String,
    network: Network,
    server: Server,
    clerk: Clerk,
    operator: Option<Operator>,
    operators: u32,
    /// Longer than the script takes.
    patience: Duration,
    pace: Pace,
    /// The script's outcome at the end of the current command.
    expected: Told,
    /// The script's pods before and at the end of that command, by the workload's name.
    pods: [BTreeMap<String, String>; 2],
    forgotten_calls: usize,
    /// Objects as the script read them last, by plural and name.
    read_last: RefCell<BTreeMap<(&'static str, String), Value>>,
}

// === impl Place ===

impl<'s> Place<'s> {
    /// A ground for a script of this length.
    pub(super) async fn new(theatre: &'s Theatre, namespace: &str, length_s: u64) -> Result<Self> {
        let client = theatre.client.clone();
        let network = Network::new();
        network.metric("histogram_quantile", Metric::Value(0.05));
        network.metric("response_code!~", Metric::Value(100.0));
        network.metric("status!~", Metric::Value(100.0));
        Ok(Self {
            theatre,
            namespace: namespace.to_owned(),
            server: Server::start(network.clone()).await?,
            network,
            clerk: Clerk::start(theatre, namespace).await?,
            client,
            operator: None,
            operators: 0,
            patience: PATIENCE_MIN.max(Duration::from_secs(length_s + length_s / 2)),
            pace: Pace::new(Instant::now()),
            expected: Told::default(),
            pods: Default::default(),
            forgotten_calls: 0,
            read_last: RefCell::default(),
        })
    }

    /// The whole outcome, in the words of scripts.
    pub(super) async fn tell(&self) -> Result<Told> {
        // The garbage collector runs with a delay.
        self.quiet(Duration::from_secs(4)).await;
        Ok(self.told())
    }

    /// The outcome so far.
    pub(super) fn told(&self) -> Told {
        let writes = self.clerk.tell().iter().map(|line| self.inward(line)).collect();
        let calls = self.network.calls();
        let calls = calls.get(self.forgotten_calls..).unwrap_or_default();
        let is_query = |call: &Call| call.to.starts_with(PROMETHEUS);
        let calls = calls.iter().filter(|call| !is_query(call) && call.query != PROBE);
        let calls = calls.map(|call| self.inward(&tell_call(call))).collect();
        Told { writes, calls }
    }

    /// Waits until the outcome has as many lines as the script's, or should have long ago. The lines
    /// themselves are compared at the end.
    async fn reach(&mut self, deadline: Instant) -> bool {
        let (mut known, mut is_there) = ((usize::MAX, 0), false);
        while !is_there && Instant::now() < deadline {
            let seen = (self.clerk.seen(), self.network.calls().len());
            if seen != known {
                is_there = self.told().reaches(&self.expected);
                known = seen;
            }
            if !is_there {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        }
        if is_there {
            self.pace.reached(Instant::now());
        }
        is_there
    }

    /// Waits until there were no writes for a while.
    async fn quiet(&self, for_so_long: Duration) {
        let (mut known, mut since) = (0, Instant::now());
        let deadline = since + QUIET_MAX;
        while since.elapsed() < for_so_long && Instant::now() < deadline {
            let seen = self.clerk.seen();
            if seen != known {
                (known, since) = (seen, Instant::now());
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    fn api(&self, wanted: Resource) -> Done<Api<DynamicObject>> {
        let found = KINDS.iter().chain(&OTHERS);
        let mut found = found.filter(|kind| kind.0 == wanted.group && kind.3 == wanted.plural);
        let (group, version, kind, plural) = found.next().ok_or("a kind nobody knows here")?;
        let resource = resource(group, version, kind, plural);
        Ok(Api::namespaced_with(self.client.clone(), &self.namespace, &resource))
    }

    /// Addresses and names of this place.
    fn outward(&self, object: &Value) -> Value {
        let text = self.theatre.outward(&self.namespace, object.to_string());
        let text = self.server.outward(&text);
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// Addresses and names as scripts write them.
    fn inward(&self, text: &str) -> String {
        let text = self.theatre.inward(&self.namespace, text.to_owned());
        let text = self.server.inward(&text);
        text.replace(&format!(".{}", self.namespace), ".default")
            // In commands for people.
            .replace(&format!(" -n {} ", self.namespace), " -n default ")
            .replace(&format!("\"{}\"", self.namespace), "\"default\"")
            .replace(&format!("{}/", self.namespace), "default/")
    }

    fn read(&self, object: &DynamicObject) -> Done<Value> {
        let stored = serde_json::to_string(object).map_err(text)?;
        serde_json::from_str(&self.inward(&stored)).map_err(text)
    }

    async fn phase(&self) -> Done<String> {
        let canary = self.get(CANARIES, "web").await?.unwrap_or_default();
        Ok(canary["status"]["phase"].as_str().unwrap_or_default().to_owned())
    }

    /// Whether the operator has written the status of the canary: a phase, or a condition.
    async fn was_looked_at(&self) -> Done<bool> {
        let canary = self.get(CANARIES, "web").await?.unwrap_or_default();
        let (phase, conditions) = (&canary["status"]["phase"], &canary["status"]["conditions"]);
        let is_told = conditions.as_array().is_some_and(|it| !it.is_empty());
        Ok(is_told || phase.as_str().is_some_and(|it| !it.is_empty()))
    }
}

impl Ground for Place<'_> {
    async fn get(&self, resource: Resource, name: &str) -> Done<Option<Value>> {
        let found = self.api(resource)?.get_opt(name).await.map_err(text)?;
        let Some(found) = found else { return Ok(None) };
        let found = self.read(&found)?;
        let key = (resource.plural, name.to_owned());
        self.read_last.borrow_mut().insert(key, found.clone());
        Ok(Some(found))
    }

    async fn list(&self, resource: Resource) -> Done<Vec<Value>> {
        let mut kinds = KINDS.iter().filter(|kind| kind.0 == resource.group);
        if !kinds.all(|(group, version, ..)| self.theatre.knows(group, version)) {
            // Objects of this kind cannot exist.
            return Ok(Vec::new());
        }
        let found = self.api(resource)?.list(&ListParams::default()).await.map_err(text)?;
        let kind = KINDS.iter().find(|kind| kind.0 == resource.group && kind.3 == resource.plural);
        let kind = kind.map_or("", |kind| kind.2);
        let mut objects = Vec::new();
        for object in &found.items {
            let mut object = self.read(object)?;
            // Items of a list do not carry their kind.
            object["kind"] = kind.into();
            objects.push(object);
        }
        Ok(objects)
    }

    async fn create(&self, resource: Resource, object: Value) -> Done {
        let object = serde_json::from_value(self.outward(&object)).map_err(text)?;
        let made = self.api(resource)?.create(&PostParams::default(), &object).await;
        self.clerk.is_own(&serde_json::to_value(made.map_err(text)?).map_err(text)?);
        Ok(())
    }

    /// The script's changes since it read the object. Controllers write to it all the time, and a user with
    /// `kubectl edit` would try again.
    async fn update(&self, resource: Resource, object: Value) -> Done {
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let old = self.read_last.borrow().get(&(resource.plural, name.clone())).cloned();
        let change = difference(&old.unwrap_or_default(), &object);
        self.patch(resource, &name, "", &change).await
    }

    async fn patch(&self, resource: Resource, name: &str, sub: &str, patch: &Value) -> Done {
        let (api, parameters) = (self.api(resource)?, PatchParams::default());
        let patch = Patch::Merge(self.outward(patch));
        let made = match sub {
            "" => api.patch(name, &parameters, &patch).await,
            _ => api.patch_status(name, &parameters, &patch).await,
        };
        self.clerk.is_own(&serde_json::to_value(made.map_err(text)?).map_err(text)?);
        Ok(())
    }

    async fn delete(&self, resource: Resource, name: &str, grace_s: Option<i64>) -> Done {
        let grace_period_seconds = grace_s.map(|seconds| seconds.try_into().unwrap_or(0));
        let parameters = DeleteParams { grace_period_seconds, ..DeleteParams::default() };
        let api = self.api(resource)?;
        // An object that still exists is returned: it has finalizers.
        let is_removed = api.delete(name, &parameters).await.map_err(text)?.is_right();
        let kind = KINDS.iter().find(|kind| kind.0 == resource.group && kind.3 == resource.plural);
        if let Some(kind) = kind.filter(|_| is_removed) {
            self.clerk.is_removed(kind.3, name);
        }
        Ok(())
    }

    fn network(&self) -> &Network {
        &self.network
    }

    /// The cluster has them.
    async fn know_routes(&self) -> Done {
        Ok(())
    }

    async fn start_operator(&mut self) -> Done {
        self.operators += 1;
        let name = format!("{}-operator-{}", self.namespace, self.operators);
        let flags = [
            format!("--namespace={}", self.namespace),
            format!("--metrics-server={}", self.server.metrics()),
            "--mesh-provider=kubernetes".to_owned(),
            "--startup-spread=0s".to_owned(),
        ];
        let started = self.theatre.start_operator(&name, &flags).await;
        self.operator = Some(started.map_err(|error| format!("{error:#}"))?);
        let deadline = Instant::now() + FIRST_LOOK_MAX;
        let is_new = self.get(CANARIES, "web").await?.is_some() && self.phase().await?.is_empty();
        while is_new && !self.was_looked_at().await? {
            if Instant::now() > deadline {
                return Err(in_vain(FIRST_LOOK_MAX, "the operator looks for the first time"));
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        // Time counts from its first reconcile.
        self.pace.restart(Instant::now());
        if is_new {
            // The setup of a first reconcile takes no time in a script.
            self.quiet(Duration::from_millis(2500)).await;
        }
        Ok(())
    }

    async fn kill_operator(&mut self) -> Done {
        self.operator = None;
        Ok(())
    }

    async fn metrics(&self) -> Done<String> {
        let operator = self.operator.as_ref().ok_or("no operator runs")?;
        let page = operator.metrics().await.map_err(|error| format!("{error:#}"))?;
        Ok(self.inward(&page))
    }

    /// Or as long as that may take: a DaemonSet has as many pods as there are nodes.
    async fn settle_pods(&mut self) -> Done {
        let deadline = Instant::now() + PODS_COME_IN;
        loop {
            let there = tell_pods(&self.list(PODS).await?);
            let is_so = |(app, pods): (&String, &String)| {
                there.get(app).map_or("none", String::as_str) == pods
            };
            if self.pods[0].iter().all(is_so) || Instant::now() > deadline {
                return Ok(());
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    fn change_pods(&self, image: &str, behaviour: Behaviour) -> Done {
        self.theatre.change_pods(&self.namespace, image, behaviour)
    }

    fn permit(&self, _may: bool) -> Done {
        Err("a script cannot change roles of a real cluster".to_owned())
    }

    fn expect(&mut self, outcome: &[String]) {
        self.pace.expect(outcome);
        let [before, after] = &mut self.pods;
        before.append(after);
        after.extend(pods_of(outcome));
        // Shown lines are no events.
        if is_timed(outcome) {
            self.expected.add(outcome);
        }
    }

    async fn settle(&mut self) -> Done {
        let begun = Instant::now();
        if self.pace.expects() {
            self.reach(begun + COMES_IN).await;
        }
        tokio::time::sleep_until((begun + SETTLES_IN).into()).await;
        Ok(())
    }

    async fn wait(&mut self, time: Duration, until: Option<&str>) -> Done {
        let Some(wanted) = until else {
            self.pace.pass(time);
            let is_there = self.pace.expects() && self.reach(self.pace.end() + COMES_IN).await;
            if !(is_there && self.pace.may_hurry()) {
                tokio::time::sleep_until(self.pace.end().into()).await;
            }
            return Ok(());
        };
        let deadline = Instant::now() + self.patience;
        let mut is_under_way = false;
        loop {
            let phase = self.phase().await?;
            // The end of the former rollout is no end of this one.
            let is_end = matches!(&*phase, "Succeeded" | "Failed");
            is_under_way |= !is_end;
            if phase == wanted {
                self.pace.arrive(Instant::now());
                // Its immediate consequences belong to it.
                tokio::time::sleep(SETTLES_IN).await;
                return Ok(());
            }
            if is_end && is_under_way {
                return Err(format!("it ended as {phase} and not as {wanted}"));
            }
            if Instant::now() > deadline {
                return Err(in_vain(self.patience, &format!("{wanted}, not {phase}")));
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// It knows its own writes by their versions.
    fn skip(&mut self) {}

    fn forget(&mut self) {
        self.clerk.forget();
        self.forgotten_calls = self.network.calls().len();
    }

    fn take_news(&mut self) -> Vec<String> {
        Vec::new()
    }

    async fn examine(&self) -> Done {
        Ok(())
    }
}

/// The merge patch that makes one object the other.
fn difference(old: &Value, new: &Value) -> Value {
    let (Value::Object(old), Value::Object(new)) = (old, new) else { return new.clone() };
    let mut patch = serde_json::Map::new();
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    for (name, value) in new {
        match old.get(name) {
            Some(known) if known == value => {}
            Some(known) => {
                patch.insert(name.clone(), difference(known, value));
            }
            None => {
                patch.insert(name.clone(), value.clone());
            }
        }
    }
    Value::Object(patch)
}

/// In the words of [`crate::eventually`].
fn in_vain(patience: Duration, what: &str) -> String {
    format!("waited {} s in vain: {what}", patience.as_secs())
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
