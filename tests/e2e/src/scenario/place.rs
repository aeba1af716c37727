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
use serde_json::Value;
use tidegate_sandbox::{cluster::Resource, kubelet::Behaviour};
use tidegate_tests::{
    network::{Call, Metric, Network, PROBE, PROMETHEUS},
    rollout::CANARIES,
    scenario::{Done, Ground, tell_call},
};

use super::{
    Theatre,
    clerk::{Clerk, KINDS, resource},
    compare::Told,
    pace::{Pace, is_timed},
    server::Server,
};
use crate::Operator;

/// The operator answers what happened well within this; a rollout's next step is ten seconds away.
const SETTLES_IN: Duration = Duration::from_millis(800);
/// What comes at once in a script takes up to this: the garbage collector has to hear of new kinds first.
const COMES_IN: Duration = Duration::from_secs(40);
/// A new operator lists what there is before it looks at anything.
const FIRST_LOOK_MAX: Duration = Duration::from_mins(1);
/// Nobody waits longer for a moment without writes.
const QUIET_MAX: Duration = Duration::from_secs(25);
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// Longer than the longest rollout of the scripts that are played here.
const PATIENCE: Duration = Duration::from_mins(3);

/// Kinds that scripts write or look at and that nobody follows.
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
    pace: Pace,
    /// What the script says has happened by the end of the command that is carried out.
    expected: Told,
    forgotten_calls: usize,
    /// Objects as the script read them last, by plural and name.
    read_last: RefCell<BTreeMap<(&'static str, String), Value>>,
}

// === impl Place ===

impl<'s> Place<'s> {
    pub(super) async fn new(theatre: &'s Theatre, namespace: &str) -> Result<Self> {
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
            clerk: Clerk::start(&client, namespace).await?,
            client,
            operator: None,
            operators: 0,
            pace: Pace::new(Instant::now()),
            expected: Told::default(),
            forgotten_calls: 0,
            read_last: RefCell::default(),
        })
    }

    /// Everything that happened, in the words of scripts.
    pub(super) async fn tell(&self) -> Result<Told> {
        // Garbage is collected when the collector gets round to it.
        self.quiet(Duration::from_secs(4)).await;
        Ok(self.told())
    }

    fn told(&self) -> Told {
        let writes = self.clerk.tell().iter().map(|line| self.inward(line)).collect();
        let calls = self.network.calls();
        let calls = calls.get(self.forgotten_calls..).unwrap_or_default();
        let is_query = |call: &Call| call.to.starts_with(PROMETHEUS);
        let calls = calls.iter().filter(|call| !is_query(call) && call.query != PROBE);
        let calls = calls.map(|call| self.inward(&tell_call(call))).collect();
        Told { writes, calls }
    }

    /// Waits until as much happened as the script says, or should have long ago. Whether it is the same is
    /// seen at the end.
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

    /// Waits until nothing was written for a while.
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
        let text = self.server.outward(&self.theatre.outward(object.to_string()));
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// Addresses and names as scripts write them.
    fn inward(&self, text: &str) -> String {
        let text = self.server.inward(&self.theatre.inward(text.to_owned()));
        text.replace(&format!(".{}", self.namespace), ".default")
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

    /// Whether the operator has said anything of the canary: a phase, or why there is none.
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
        let found = self.api(resource)?.list(&ListParams::default()).await.map_err(text)?;
        let kind = KINDS.iter().find(|kind| kind.0 == resource.group && kind.3 == resource.plural);
        let kind = kind.map_or("", |kind| kind.2);
        let mut objects = Vec::new();
        for object in &found.items {
            let mut object = self.read(object)?;
            // Items of a list do not say what they are.
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

    /// What the script changed since it read the object. Controllers write to it all the time, and a person
    /// with `kubectl edit` would try again.
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
        // An object that is still there comes back: it has finalizers.
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

    /// The stage has them.
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
        // Time counts from its first look.
        self.pace.restart(Instant::now());
        if is_new {
            // What a first look sets up takes no time in a script.
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

    fn change_pods(&self, _image: &str, _behaviour: Behaviour) -> Done {
        Err("pods cannot change on a real cluster".to_owned())
    }

    fn permit(&self, _may: bool) -> Done {
        Err("a script cannot change roles of a real cluster".to_owned())
    }

    fn expect(&mut self, outcome: &[String]) {
        self.pace.expect(outcome);
        // What is shown was not done.
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
        let deadline = Instant::now() + PATIENCE;
        loop {
            let phase = self.phase().await?;
            if phase == wanted {
                self.pace.arrive(Instant::now());
                // What follows from it at once belongs to it.
                tokio::time::sleep(SETTLES_IN).await;
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(in_vain(PATIENCE, &format!("{wanted}, not {phase}")));
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
