//! The examples of the pages, applied to a cluster with an operator in it.
//!
//! The YAML blocks of a page are applied in order, each to the result of the ones before, then its `kubectl
//! patch` commands. The API server must accept everything as it is written, and the operator must be able
//! to act on it. A workload that a page leaves out is created first.

use std::collections::{BTreeMap, BTreeSet};

use kube_sandbox::{
    cluster::{Cluster, Resource},
    controllers::knative_crds,
    dataplane::GATEWAY_CLASS,
};
use serde_json::{Value, json};
use tidegate_providers::traffic::Mesh;
use tidegate_tests::{
    network::Metric,
    rollout::{CANARIES, DEPLOYMENTS, World, deployment},
};

use crate::{
    commands::commands,
    markdown::{Page, pages},
};

/// A cluster for one page.
struct Sitting {
    world: World,
}

/// How long a canary may take to be set up, and a rollout to end.
const PATIENCE_S: u64 = 600;

/// Tested in a world of its own.
const GAME: &str = "docs/guide/game-workloads.md";

#[tokio::test(start_paused = true)]
async fn examples_are_accepted_and_acted_upon() {
    let mut examples = 0;
    for page in pages() {
        let blocks: Vec<_> = page.blocks().into_iter().filter(|it| it.language == "yaml").collect();
        if blocks.is_empty() || page.path == GAME {
            continue;
        }
        let sitting = Sitting::begin().await;
        if page.path.starts_with("docs/guide/providers/") {
            sitting.install_what_it_is_about(&page);
        }
        for block in blocks {
            let place = format!("{}:{}", page.path, block.line);
            sitting.apply(&place, &block.text);
            sitting.expect_action(&place).await;
            examples += 1;
        }
        sitting.patch(&page);
        sitting.expect_action(&page.path).await;
    }
    assert!(examples >= 28, "only {examples} examples were found");
}

#[tokio::test(start_paused = true)]
async fn a_game_workload_is_released_as_its_guide_says() {
    const KIND: Resource = Resource { group: "tkex.tencent.com", plural: "gamedeployments" };
    const CLAIMS: Resource = Resource { group: "", plural: "persistentvolumeclaims" };
    let page = pages().into_iter().find(|page| page.path == GAME).unwrap();
    let mut sitting = Sitting { world: World::of_games() };
    sitting.world.start().await;
    for block in page.blocks().into_iter().filter(|it| it.language == "yaml") {
        sitting.apply(&page.path, &block.text);
    }
    let world = &sitting.world;
    let get = || world.get(KIND, "arena").unwrap();
    let counts = |updated: i64, ready: i64| {
        let status = get()["status"].clone();
        status["updatedReadyReplicas"] == updated && status["readyReplicas"] == ready
    };
    assert!(world.until_seen(60, |_| counts(4, 4)).await, "four pods: {:#}", get());
    for claim in ["world-realm-0", "world-realm-1", "world-realm-2"] {
        assert!(world.get(CLAIMS, claim).is_some(), "{claim}");
    }
    let is_patch =
        |words: &&Vec<String>| words.starts_with(&["kubectl", "patch"].map(str::to_owned));
    let patches: Vec<Value> = commands(&page)
        .iter()
        .filter(is_patch)
        .filter_map(|words| serde_json::from_str(words.last()?).ok())
        .collect();
    let [release, resume, back] = patches.as_slice() else { panic!("three patches: {patches:?}") };
    let carry_out = |patch: &Value| {
        let mut object = get();
        for operation in patch.as_array().unwrap() {
            assert_eq!(operation["op"], "replace");
            let path = operation["path"].as_str().unwrap();
            *object.pointer_mut(path).unwrap() = operation["value"].clone();
        }
        world.admin.update(KIND, "", object).unwrap();
    };
    let is_paused_at = |step: i64| {
        let object = get();
        object["spec"]["updateStrategy"]["paused"] == true
            && object["status"]["currentStepIndex"] == step
    };
    carry_out(release);
    assert!(world.until_seen(120, |_| is_paused_at(1)).await, "{:#}", get()["status"]);
    assert!(counts(1, 4), "one pod of four");
    carry_out(resume);
    assert!(world.until_seen(120, |_| is_paused_at(3)).await, "{:#}", get()["status"]);
    carry_out(back);
    let is_back = world.until_seen(120, |_| counts(4, 4) && !is_paused_at(3)).await;
    assert!(is_back, "{:#}", get()["status"]);
}

#[tokio::test(start_paused = true)]
async fn the_first_release_goes_as_its_guide_says() {
    let page = pages().into_iter().find(|page| page.path == "docs/guide/first-release.md").unwrap();
    let sitting = Sitting::begin().await;
    for block in page.blocks().into_iter().filter(|it| it.language == "yaml") {
        sitting.apply(&page.path, &block.text);
    }
    sitting.expect_action(&page.path).await;
    let commands = commands(&page);
    let images: Vec<&str> = commands
        .iter()
        .filter(|words| words.starts_with(&["kubectl", "set", "image"].map(str::to_owned)))
        .filter_map(|words| words.last()?.strip_prefix("web="))
        .collect();
    let [good, bad] = images.as_slice() else { panic!("two releases in {images:?}") };

    sitting.release(good);
    let weights = sitting.weights_until("Succeeded").await;
    assert_eq!(weights, [0, 20, 40, 60, 0], "as the guide says");

    sitting.world.network.metric("status!~", Metric::Value(80.0));
    sitting.release(bad);
    let weights = sitting.weights_until("Failed").await;
    assert_eq!(weights, [0, 20, 0], "no further than the first share");
    let primary = sitting.world.get(DEPLOYMENTS, "web-primary").unwrap();
    let image = &primary["spec"]["template"]["spec"]["containers"][0]["image"];
    assert_eq!(image, good, "the primary never stopped running the good one");
}

#[tokio::test(start_paused = true)]
async fn a_rollout_is_held_and_resumed_as_its_guide_says() {
    let page = pages().into_iter().find(|page| page.path == "docs/guide/manual-step.md").unwrap();
    let sitting = Sitting::begin().await;
    for block in page.blocks().into_iter().filter(|it| it.language == "yaml") {
        sitting.apply(&page.path, &block.text);
    }
    sitting.expect_action(&page.path).await;
    let patches = Sitting::patches(&page);
    let [raise, resume] = patches.as_slice() else { panic!("two patches in {patches:?}") };
    let world = &sitting.world;
    let held_at = |world: &World, weight: u32| {
        world.phase("web") == "Waiting" && world.status("web")["manualPause"]["weight"] == weight
    };

    sitting.release("web:2.0");
    assert!(world.until(300, |world| held_at(world, 10)).await, "{:#}", world.status("web"));
    world.advance_s(600).await;
    assert!(held_at(world, 10), "for as long as nobody says otherwise");
    world.patch(CANARIES, "web", raise);
    assert!(world.until(300, |world| held_at(world, 30)).await, "{:#}", world.status("web"));
    world.patch(CANARIES, "web", resume);
    let weights = sitting.weights_until("Succeeded").await;
    assert_eq!(weights, [30, 50, 0], "as the guide says");
    let canary = world.get(CANARIES, "web").unwrap();
    assert_eq!(canary["spec"]["manualStep"], Value::Null, "the next rollout does not hold");
}

// === impl Sitting ===

impl Sitting {
    async fn begin() -> Self {
        let mut world = World::new();
        world.sandbox.load(vec![gateway()]).unwrap();
        world.start().await;
        Self { world }
    }

    /// Installs the definitions of the kinds that a provider's page names and of those that the operator
    /// writes. Those that the sandbox does not know accept anything.
    fn install_what_it_is_about(&self, page: &Page) {
        let written = Mesh::ALL.iter().flat_map(|mesh| mesh.kinds());
        let mut kinds: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for kind in written {
            let is_namespaced = kind.is_namespaced();
            let versions = kinds.entry((kind.group, kind.kind, kind.plural, is_namespaced));
            versions.or_default().insert(kind.version.to_owned());
        }
        let blocks = page.blocks().into_iter().filter(|it| it.language == "yaml");
        let objects: Vec<Value> = blocks
            .flat_map(|block| serde_saphyr::from_multiple::<Value>(&block.text).unwrap_or_default())
            .collect();
        let mut definitions = Vec::new();
        for object in &objects {
            let named = object["apiVersion"].as_str().and_then(|text| text.split_once('/'));
            let (Some((group, version)), Some(kind)) = (named, object["kind"].as_str()) else {
                continue;
            };
            let is_written = kinds.keys().any(|it| (it.0, it.1) == (group, kind));
            if !is_written {
                let plural = format!("{}s", kind.to_lowercase());
                let versions = BTreeSet::from([version.to_owned()]);
                definitions.push(definition((group, kind, &plural, true), &versions));
            }
        }
        definitions.extend(kinds.iter().map(|(kind, versions)| definition(*kind, versions)));
        // Groups with definitions of their own, which are stricter than these.
        let known = [
            "networking.istio.io",
            "gateway.networking.k8s.io",
            "serving.knative.dev",
            "flagger.app",
            "apps",
        ];
        let is_new = |it: &Value| {
            let group = it["spec"]["group"].as_str().unwrap_or_default();
            !known.contains(&group) && group != "networking.k8s.io"
        };
        definitions.retain(is_new);
        definitions.extend(knative_crds());
        let loaded = self.world.sandbox.load(definitions);
        assert!(loaded.is_ok(), "{}: {loaded:?}", page.path);
        self.world.sandbox.settle();
    }

    /// Applies a block; nothing of it may be dropped.
    fn apply(&self, place: &str, text: &str) {
        let objects: Vec<Value> = serde_saphyr::from_multiple(text)
            .unwrap_or_else(|error| panic!("{place} is no YAML: {error}"));
        let is_given = |kind: &str, name: &str| {
            objects.iter().any(|it| it["kind"] == kind && it["metadata"]["name"] == name)
        };
        for canary in objects.iter().filter(|object| object["kind"] == "Canary") {
            let target = canary["spec"]["targetRef"]["name"].as_str().unwrap();
            let is_there = self.world.get(DEPLOYMENTS, target).is_some();
            if !is_there && !is_given("Deployment", target) {
                self.world.create(DEPLOYMENTS, deployment(target, "example:1.0", 2));
            }
        }
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

    /// Applies the patches of a page; nothing of them may be dropped.
    fn patch(&self, page: &Page) {
        for patch in Self::patches(page) {
            let patched = self.world.patch(CANARIES, "web", &patch);
            assert_kept(&page.path, &patch, &patched);
        }
    }

    /// The patches of `kubectl patch canary web` on a page, in order.
    fn patches(page: &Page) -> Vec<Value> {
        let commands = commands(page);
        let ours = commands
            .iter()
            .filter(|words| words.starts_with(&["kubectl", "patch"].map(str::to_owned)));
        ours.map(|words| {
            let place = format!("{}: {}", page.path, words.join(" "));
            assert_eq!(words[2..4], ["canary", "web"], "{place}: the canary of examples");
            let text = words.iter().skip_while(|word| *word != "-p").nth(1);
            let text = text.unwrap_or_else(|| panic!("{place}: no patch"));
            serde_json::from_str(text).unwrap_or_else(|error| panic!("{place}: {error}"))
        })
        .collect()
    }

    /// Waits until every canary is set up; none may be refused.
    async fn expect_action(&self, place: &str) {
        let is_set_up = |canary: &Value| {
            !matches!(canary["status"]["phase"].as_str(), None | Some("" | "Initializing"))
        };
        for _ in 0..PATIENCE_S {
            self.world.advance_s(1).await;
            if self.canaries().iter().all(is_set_up) {
                break;
            }
        }
        for canary in self.canaries() {
            let status = &canary["status"];
            let name = &canary["metadata"]["name"];
            assert!(!is_refused(status), "{place}: {name} is refused: {status:#}");
            assert!(is_set_up(&canary), "{place}: {name} is not set up: {status:#}");
        }
    }

    /// `kubectl set image deployment/web web=IMAGE`.
    fn release(&self, image: &str) {
        let mut object = self.world.get(DEPLOYMENTS, "web").unwrap();
        let containers = object["spec"]["template"]["spec"]["containers"].take();
        let mut container = containers[0].clone();
        container["image"] = json!(image);
        let pods = json!({ "spec": { "containers": [container] } });
        self.world.patch(DEPLOYMENTS, "web", &json!({ "spec": { "template": pods } }));
    }

    /// The weights of the canary, one after the other, until it is in this phase.
    async fn weights_until(&self, phase: &str) -> Vec<i64> {
        let mut weights = Vec::new();
        for _ in 0..PATIENCE_S {
            self.world.advance_s(1).await;
            let status = self.world.status("web");
            weights.push(status["canaryWeight"].as_i64().unwrap_or_default());
            if status["phase"] == phase {
                weights.dedup();
                return weights;
            }
        }
        panic!("not {phase} in time: {:#}", self.world.status("web"));
    }

    fn canaries(&self) -> Vec<Value> {
        self.world.admin.list(CANARIES, Some("default"))
    }
}

/// A definition of a kind: group, kind, plural, and whether it is in namespaces.
fn definition(
    (group, kind, plural, is_namespaced): (&str, &str, &str, bool),
    versions: &BTreeSet<String>,
) -> Value {
    let anything = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let versions = versions.iter().enumerate().map(|(index, version)| {
        json!({
            "name": version, "served": true, "storage": index == 0,
            "schema": { "openAPIV3Schema": anything },
        })
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.{group}") },
        "spec": {
            "group": group, "scope": if is_namespaced { "Namespaced" } else { "Cluster" },
            "names": {
                "kind": kind, "plural": plural, "singular": kind.to_lowercase(),
                "listKind": format!("{kind}List"),
            },
            "versions": versions.collect::<Vec<_>>(),
        },
    })
}

fn is_refused(status: &Value) -> bool {
    let conditions = status["conditions"].as_array();
    conditions.into_iter().flatten().any(|condition| {
        condition["type"] == "Stalled"
            && condition["status"] == "True"
            && condition["reason"] == "Refused"
    })
}

/// The stored object must contain the applied one; a server may add to it.
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
