//! Examples are given to a cluster with an operator in it, as a reader would.
//!
//! A page is one sitting: its YAML blocks are applied in order, each to what the ones before left,
//! then its `kubectl patch` commands. The API server must take everything as it is written, and the
//! operator must be able to act on it.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use tidegate_sandbox::{
    cluster::Cluster,
    dataplane::{self, GATEWAY_CLASS},
    runtime::{Order, Runtime},
};
use tidegate_tests::rollout::{CANARIES, DEPLOYMENTS, World};

use crate::{
    commands::commands,
    markdown::{Page, pages},
};

/// A cluster for one page.
struct Sitting {
    world: World,
    gateways: Runtime,
}

/// How long a canary may take to be set up.
const PATIENCE_S: u64 = 120;
/// More steps than gateways ever need at a moment.
const STEPS_MAX: usize = 10_000;

#[tokio::test(start_paused = true)]
async fn examples_are_accepted_and_acted_upon() {
    let mut examples = 0;
    for page in pages() {
        let blocks: Vec<_> = page.blocks().into_iter().filter(|it| it.language == "yaml").collect();
        if blocks.is_empty() {
            continue;
        }
        let mut sitting = Sitting::begin().await;
        for block in blocks {
            let place = format!("{}:{}", page.path, block.line);
            sitting.apply(&place, &block.text);
            sitting.expect_action(&place).await;
            examples += 1;
        }
        sitting.patch(&page);
        sitting.expect_action(&page.path).await;
    }
    assert!(examples >= 15, "only {examples} examples were found");
}

// === impl Sitting ===

impl Sitting {
    async fn begin() -> Self {
        let mut world = World::new();
        let mut objects = dataplane::routing_crds();
        objects.push(dataplane::gateway_class());
        objects.push(gateway());
        world.sandbox.load(objects).unwrap();
        let server = Arc::clone(world.sandbox.server());
        let gateways = Runtime::new(server, dataplane::controllers(), Order::Fair);
        world.start().await;
        Self { world, gateways }
    }

    /// Applies what a block has; nothing of it may be dropped.
    fn apply(&self, place: &str, text: &str) {
        let objects: Vec<Value> = serde_saphyr::from_multiple(text)
            .unwrap_or_else(|error| panic!("{place} is no YAML: {error}"));
        let stored = self.world.sandbox.load(objects.clone());
        let stored = stored.unwrap_or_else(|error| panic!("{place} is refused: {error:?}"));
        for object in &objects {
            let same = |it: &&Value| {
                it["kind"] == object["kind"] && it["metadata"]["name"] == object["metadata"]["name"]
            };
            let stored = stored.iter().find(same).unwrap_or(&Value::Null);
            assert_kept(place, object, stored);
        }
    }

    /// The patches of a page.
    fn patch(&self, page: &Page) {
        for command in commands(page) {
            let words: Vec<&str> = command.iter().map(String::as_str).collect();
            let ["kubectl", "patch", "canary", name, rest @ ..] = words.as_slice() else {
                continue;
            };
            let place = format!("{}: {}", page.path, words.join(" "));
            let text = rest.iter().skip_while(|word| **word != "-p").nth(1);
            let patch: Value = serde_json::from_str(text.unwrap_or_else(|| panic!("{place}")))
                .unwrap_or_else(|error| panic!("{place}: {error}"));
            let patched = self.world.patch(CANARIES, name, &patch);
            assert_kept(&place, &patch, &patched);
        }
    }

    /// Waits until every canary with a target is set up, and none is refused.
    async fn expect_action(&mut self, place: &str) {
        for _ in 0..PATIENCE_S {
            self.world.advance(Duration::from_secs(1)).await;
            self.gateways.settle(STEPS_MAX);
            if self.canaries().iter().all(|canary| self.is_set_up(canary)) {
                break;
            }
        }
        for canary in self.canaries() {
            let status = &canary["status"];
            let name = &canary["metadata"]["name"];
            assert!(!is_refused(status), "{place}: {name} is refused: {status:#}");
            assert!(self.is_set_up(&canary), "{place}: {name} is not set up: {status:#}");
        }
    }

    fn canaries(&self) -> Vec<Value> {
        self.world.admin.list(CANARIES, Some("default"))
    }

    /// An example may leave its workload out; then there is nothing to set up.
    fn is_set_up(&self, canary: &Value) -> bool {
        let target = canary["spec"]["targetRef"]["name"].as_str().unwrap_or_default();
        let phase = canary["status"]["phase"].as_str().unwrap_or_default();
        let is_known = canary["status"]["conditions"].is_array();
        match self.world.get(DEPLOYMENTS, target) {
            Some(_) => !matches!(phase, "" | "Initializing"),
            None => is_known,
        }
    }
}

fn is_refused(status: &Value) -> bool {
    let conditions = status["conditions"].as_array();
    conditions.into_iter().flatten().any(|condition| {
        condition["type"] == "Stalled"
            && condition["status"] == "True"
            && condition["reason"] == "Refused"
    })
}

/// What was asked for must be what is stored; a server may add to it.
fn assert_kept(place: &str, asked: &Value, stored: &Value) {
    match (asked, stored) {
        (Value::Object(asked), Value::Object(stored)) => {
            for (key, value) in asked.iter().filter(|(key, _)| *key != "stringData") {
                let found = stored.get(key).unwrap_or(&Value::Null);
                assert_kept(&format!("{place}, {key}"), value, found);
            }
        }
        (Value::Array(asked), Value::Array(stored)) if asked.len() == stored.len() => {
            for (asked, stored) in asked.iter().zip(stored) {
                assert_kept(place, asked, stored);
            }
        }
        (asked, stored) => assert_eq!(asked, stored, "{place} is not kept"),
    }
}

/// The gateway that examples attach their routes to.
fn gateway() -> Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
        "metadata": { "name": "public" },
        "spec": {
            "gatewayClassName": GATEWAY_CLASS,
            "listeners": [{ "name": "http", "protocol": "HTTP", "port": 80 }],
        },
    })
}
