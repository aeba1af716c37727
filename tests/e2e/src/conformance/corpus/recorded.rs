//! The operator's requests during its work, recorded on a sandbox and sent again to both servers.
//!
//! A request with a resource version carries the version that the object has at that moment of the replay,
//! read by a request of its own. Owner references keep their owners, by the uids they have here. No
//! controller and no kubelet writes in a replay.

use std::collections::BTreeMap;

use http::Request as HttpRequest;
use kube::Client;
use kube_sandbox::{cluster::Resource, server::User};
use serde_json::{Value, json};
use tidegate_tests::{
    rollout::{CANARIES, World, canary, deployment},
    tape::{Recorded, Tape},
};

use crate::conformance::request::{JSON, MERGE, Request, StepRef, Story};

const GAMES: Resource = Resource { group: "tkex.tencent.com", plural: "gamedeployments" };
const CORE: &str = "/api/v1/namespaces/default";
const APPS: &str = "/apis/apps/v1/namespaces/default";
const SCALERS: &str = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
const FLAGGER: &str = "/apis/flagger.app/v1beta1/namespaces/default/canaries";
const TKEX: &str = "/apis/tkex.tencent.com/v1alpha1/namespaces/default/gamedeployments";
/// The longest wait, in virtual time.
const PATIENCE_S: u64 = 3600;

pub(super) fn stories() -> Vec<Story> {
    // Virtual time needs a runtime of its own.
    let recorder = std::thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().start_paused(true).build();
        runtime.expect("a runtime starts").block_on(async {
            vec![
                story("recorded: a rollout", &rollout().await),
                story("recorded: a game workload", &game().await),
            ]
        })
    });
    recorder.join().expect("what is recorded on a sandbox does not fail")
}

/// A user of the same cluster, recorded too.
struct Person {
    client: Client,
    tape: Tape,
}

// === impl Person ===

impl Person {
    /// The requests of the operator of that world are on the same tape.
    fn beside(world: &mut World) -> Self {
        let tape = Tape::default();
        world.tape = Some(tape.clone());
        let service = tape.over(world.sandbox.service_as(User::admin()));
        Self { client: Client::new(service, "default"), tape }
    }

    async fn post(&self, path: &str, body: &Value) {
        self.send("POST", path, JSON, body).await;
    }

    async fn merge(&self, path: &str, body: &Value) {
        self.send("PATCH", path, MERGE, body).await;
    }

    async fn send(&self, method: &str, path: &str, media: &str, body: &Value) {
        let request = HttpRequest::builder().method(method).uri(path).header("Content-Type", media);
        let request = request.body(body.to_string().into_bytes()).expect("a request");
        let answer = self.client.request::<Value>(request).await;
        answer.expect("the sandbox takes what a person asks");
    }
}

// === Recordings ===

/// Set up, promoted twice, failed, deleted: with an autoscaler and configuration.
async fn rollout() -> Vec<Recorded> {
    let mut world = World::new();
    let person = Person::beside(&mut world);
    let named = |mut object: Value, name: &str| {
        object["metadata"] = json!({ "name": name });
        object
    };
    let settings = named(json!({ "data": { "colour": "green" } }), "settings");
    person.post(&format!("{CORE}/configmaps"), &settings).await;
    let secret = named(json!({ "stringData": { "key": "one" } }), "settings");
    person.post(&format!("{CORE}/secrets"), &secret).await;
    let mut target = deployment("web", "web:1.0", 2);
    let settings = json!([{ "configMapRef": { "name": "settings" } }, { "secretRef": { "name": "settings" } }]);
    target["spec"]["template"]["spec"]["containers"][0]["envFrom"] = settings;
    person.post(&format!("{APPS}/deployments"), &target).await;
    let scaled = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" });
    let spec = json!({ "scaleTargetRef": scaled, "minReplicas": 2, "maxReplicas": 4 });
    person.post(SCALERS, &named(json!({ "spec": spec }), "web")).await;
    let analysis = json!({ "interval": "10s", "threshold": 1, "iterations": 2 });
    let mut object = canary("web", "kubernetes", analysis);
    object["spec"]["revertOnDeletion"] = json!(true);
    object["spec"]["progressDeadlineSeconds"] = json!(60);
    object["spec"]["autoscalerRef"] =
        json!({ "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "name": "web" });
    person.post(FLAGGER, &object).await;
    world.start().await;
    reach(&world, "Initialized").await;
    let release = async |image: &str, end: &str| {
        let mut containers = target["spec"]["template"]["spec"]["containers"].clone();
        containers[0]["image"] = json!(image);
        let template = json!({ "spec": { "template": { "spec": { "containers": containers } } } });
        person.merge(&format!("{APPS}/deployments/web"), &template).await;
        reach(&world, "Progressing").await;
        reach(&world, end).await;
    };
    release("web:2.0", "Succeeded").await;
    let blue = json!({ "data": { "colour": "blue" } });
    person.merge(&format!("{CORE}/configmaps/settings"), &blue).await;
    reach(&world, "Progressing").await;
    reach(&world, "Succeeded").await;
    release("web:3.0-never-ready", "Failed").await;
    person.send("DELETE", &format!("{FLAGGER}/web"), JSON, &json!({})).await;
    assert!(world.until(PATIENCE_S, |world| world.get(CANARIES, "web").is_none()).await, "it goes");
    person.tape.recorded()
}

async fn reach(world: &World, phase: &str) {
    let is_so = |world: &World| world.phase("web") == phase;
    assert!(world.until(PATIENCE_S, is_so).await, "never {phase}, but {}", world.phase("web"));
}

/// Scaled up, updated in place, scaled in.
async fn game() -> Vec<Recorded> {
    let mut world = World::of_games();
    let person = Person::beside(&mut world);
    let of = |image: &str| json!([{ "name": "game", "image": image }]);
    let labels = json!({ "app": "game" });
    let spec = json!({
        "replicas": 3, "selector": { "matchLabels": labels },
        "template": { "metadata": { "labels": labels }, "spec": { "containers": of("game:1") } },
        "updateStrategy": { "type": "InplaceUpdate", "maxUnavailable": 1 },
    });
    let object = json!({
        "apiVersion": "tkex.tencent.com/v1alpha1", "kind": "GameDeployment",
        "metadata": { "name": "game" }, "spec": spec,
    });
    person.post(TKEX, &object).await;
    world.start().await;
    let settled = async |replicas: u64, generation: u64| {
        let is_so = |world: &World| {
            let status = world.get(GAMES, "game").unwrap_or_default()["status"].take();
            status["updatedReadyReplicas"] == replicas && status["observedGeneration"] == generation
        };
        assert!(world.until(PATIENCE_S, is_so).await, "{replicas} of generation {generation}");
    };
    settled(3, 1).await;
    let one = format!("{TKEX}/game");
    let template = json!({ "spec": { "template": { "spec": { "containers": of("game:2") } } } });
    person.merge(&one, &template).await;
    settled(3, 2).await;
    person.merge(&one, &json!({ "spec": { "replicas": 1 } })).await;
    settled(1, 3).await;
    person.tape.recorded()
}

// === As a story ===

/// The requests about objects of the one namespace. Lists of all namespaces depend on other stories.
fn story(name: &str, recorded: &[Recorded]) -> Story {
    let mut story = Story::new(name);
    let mut uids: BTreeMap<String, String> = BTreeMap::new();
    for it in recorded.iter().filter(|it| it.path.contains("/namespaces/default/")) {
        let mut body = it.body.clone();
        if let Some(version) = version_in(&body) {
            let now = story.get("as it is", in_story(object_path(&it.path)));
            body = body.replace(&format!("\"{version}\""), &format!("\"{}\"", now.version()));
        }
        for (uid, reference) in &uids {
            body = body.replace(uid, reference);
        }
        let body = body.replace("\"namespace\":\"default\"", "\"namespace\":\"${ns}\"");
        let method = METHODS.into_iter().find(|method| *method == it.method).unwrap_or("GET");
        let mut request =
            Request::new(method, in_story(&it.path)).note(&it.path).accept(&it.accept);
        if !body.is_empty() {
            request = request.body(&it.content_type, body);
        }
        let asked = story.ask(request);
        if let Some(uid) = it.answer["metadata"]["uid"].as_str() {
            uids.entry(uid.to_owned()).or_insert_with(|| StepRef::at(asked, "/metadata/uid"));
        }
    }
    story
}

const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];

fn in_story(path: &str) -> String {
    path.replace("/namespaces/default/", "/namespaces/${ns}/")
}

/// The resource version in a request.
fn version_in(body: &str) -> Option<String> {
    let body: Value = serde_json::from_str(body).ok()?;
    let places = ["/metadata/resourceVersion", "/preconditions/resourceVersion"];
    let version = places.iter().find_map(|place| body.pointer(place)?.as_str());
    version.filter(|it| !it.is_empty()).map(str::to_owned)
}

/// The object itself, without query and subresource.
fn object_path(path: &str) -> &str {
    let path = path.split('?').next().unwrap_or_default();
    path.strip_suffix("/status").or_else(|| path.strip_suffix("/scale")).unwrap_or(path)
}
