//! Plays a scenario with one operator in a namespace of its own, and records what happened.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use kube::{
    Api,
    api::{DeleteParams, DynamicObject, Patch, PatchParams},
    core::TypeMeta,
};
use serde_json::{Value, json};
use tidegate_tests::network::{Metric, Network, Reply};

use super::{
    Ground, Side,
    record::Record,
    scenario::{Scenario, Step},
    witness::version_of,
};
use crate::{api_of, apply, scenario::Server, stage::CANARY, stage::Kind};

/// The longest step is a rollout of a few intervals, or a deadline.
const PATIENCE: Duration = Duration::from_secs(150);
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// The last writes and calls follow the last phase well within this.
const REST: Duration = Duration::from_secs(4);

struct Actor<'g> {
    ground: &'g Ground,
    namespace: String,
    network: Network,
    server: Server,
    /// A state that is waited for has this version or a later one.
    from: u64,
}

/// Plays it. A state that was not reached ends it, and is in the record.
pub(super) async fn play(
    ground: &Ground,
    scenario: &Scenario,
    side: Side,
    namespace: &str,
) -> Result<Record> {
    let network = Network::new();
    network.otherwise(Reply::yes());
    // Good rates, and durations of 100 ms: queries that say milliseconds multiply.
    for (part, value) in [
        ("", 100.0),
        ("http_request_duration_seconds_bucket", 0.1),
        ("*100", 100.0),
        ("* 100", 100.0),
    ] {
        network.metric(part, Metric::Value(value));
    }
    for (path, reply) in &scenario.hooks {
        network.hook(&format!("hooks/{path}"), reply.clone());
    }
    let server = Server::start(network.clone()).await?;
    let mut actor = Actor { ground, namespace: namespace.to_owned(), network, server, from: 0 };
    let object =
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } });
    apply(&ground.client, &object).await?;
    for object in &scenario.objects {
        actor.create(object).await?;
    }
    let mut flags = scenario.flags.clone();
    flags.push(format!("--namespace={namespace}"));
    flags.push(format!("--metrics-server={}", actor.server.metrics()));
    let flags: Vec<String> = flags.iter().map(|flag| actor.outward(flag)).collect();
    let operator = ground.start(side, namespace, &flags).await?;
    actor.create(&scenario.canary).await?;
    let mut record = Record::default();
    for step in &scenario.steps {
        if let Some(missed) = actor.carry_out(step).await? {
            record.missed = Some(missed);
            break;
        }
    }
    tokio::time::sleep(REST).await;
    let page = operator.metrics().await?;
    drop(operator);
    let plain = |text: &str| actor.inward(text);
    record.add_objects(&ground.witness.seen(namespace), plain);
    record.add_calls(&actor.network.calls(), plain);
    record.add_metrics(&page, plain);
    Ok(record)
}

// === impl Actor ===

impl Actor<'_> {
    /// Takes a step; the state that did not come is returned.
    async fn carry_out(&mut self, step: &Step) -> Result<Option<String>> {
        match step {
            Step::Until(what, is_so) => {
                return Ok(self.wait(what, (CANARY.1, "web"), |it| is_so(&it["status"])).await);
            }
            Step::Gone(kind, name) => {
                let what = format!("{} {name} is gone", kind.1);
                return Ok(self.wait(&what, (kind.1, name), Value::is_null).await);
            }
            Step::Patch(kind, name, patch) => {
                let patch = Patch::Merge(self.outward_of(patch)?);
                let api = self.api(*kind).await?;
                let made = api.patch(name, &PatchParams::default(), &patch).await;
                self.wrote(&made.with_context(|| format!("{} {name}", kind.1))?)?;
            }
            Step::Delete(kind, name) => {
                let api = self.api(*kind).await?;
                let deleted = api.delete(name, &DeleteParams::default()).await;
                deleted.with_context(|| format!("{} {name}", kind.1))?;
            }
            Step::Metric(part, value) => self.network.metric(part, value.clone()),
            Step::Hook(path, reply) => self.network.hook(&format!("hooks/{path}"), reply.clone()),
            Step::Rest(seconds) => tokio::time::sleep(Duration::from_secs(*seconds)).await,
        }
        Ok(None)
    }

    /// Waits for a state of an object since the last one, or the last write.
    async fn wait(
        &mut self,
        what: &str,
        object: (&str, &str),
        is_so: impl Fn(&Value) -> bool,
    ) -> Option<String> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let found = self.ground.witness.find(&self.namespace, object, self.from, &is_so);
            if let Some(version) = found {
                self.from = version;
                return None;
            }
            if Instant::now() > deadline {
                let last = self.ground.witness.last(&self.namespace, CANARY.1, "web");
                let status = &last["status"];
                return Some(format!(
                    "{what}: it stayed {} at {} after {} failed checks",
                    status["phase"], status["canaryWeight"], status["failedChecks"]
                ));
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    async fn create(&mut self, object: &Value) -> Result<()> {
        let mut object = self.outward_of(object)?;
        object["metadata"]["namespace"] = self.namespace.clone().into();
        let made = apply(&self.ground.client, &object).await?;
        self.wrote(&made)
    }

    /// States from before this write are not waited for.
    fn wrote(&mut self, made: &DynamicObject) -> Result<()> {
        self.from = version_of(&serde_json::to_value(made)?) + 1;
        Ok(())
    }

    async fn api(&self, kind: Kind) -> Result<Api<DynamicObject>> {
        let types = TypeMeta { api_version: kind.0.to_owned(), kind: kind.1.to_owned() };
        api_of(&self.ground.client, &types, Some(&self.namespace)).await
    }

    /// With the addresses and the namespace of this place.
    fn outward(&self, text: &str) -> String {
        self.server.outward(&text.replace("NAMESPACE", &self.namespace))
    }

    fn outward_of(&self, value: &Value) -> Result<Value> {
        Ok(serde_json::from_str(&self.outward(&value.to_string()))?)
    }

    fn inward(&self, text: &str) -> String {
        self.server.inward(&text.replace(&self.namespace, "NAMESPACE"))
    }
}
