//! Addresses of nodes are refused in a spec, unless a flag allows them.

use std::{net::SocketAddr, time::Duration};

use kube_sandbox::{
    Sandbox, Settings,
    cluster::{Cluster as _, Deletion, EVENTS, NODES, Resource},
    faults::{Effect, Matcher, When},
    kubelet::node_object,
    request::Verb,
    server::{User, local::Local},
};
use serde_json::{Value, json};
use tidegate_operator::http::Policy;
use tidegate_tests::rollout::{CANARIES, DEPLOYMENTS, OPERATOR, World, deployment};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    task::JoinHandle,
};

use crate::{
    secrets::Log,
    signing_http::{local, operator_with},
    stage::{
        GATEWAY_API, KUBERNETES, by_weight, canary_of, initialized, mark, reach, requests_since,
        with_canary,
    },
};

const METRIC_TEMPLATES: Resource = Resource { group: "flagger.app", plural: "metrictemplates" };
/// The message about a refused address.
const REFUSED: &str = "is refused: its address is that of a node; --allow-addresses opens it";

/// `web` with a gate and a metric at a server of this machine, and an operator over real sockets.
struct Scene {
    sandbox: Sandbox,
    admin: Local,
    operator: JoinHandle<()>,
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.operator.abort();
    }
}

/// Answers every request with 403.
async fn server() -> SocketAddr {
    const NO: &[u8] =
        b"HTTP/1.1 403 Forbidden\r\nConnection: close\r\nContent-Length: 7\r\n\r\nnot yet";
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut buffer = vec![0; 64 * 1024];
                let Ok(1..) = stream.read(&mut buffer).await else { return };
                if stream.write_all(NO).await.is_ok() {
                    // The client closes the connection.
                    while let Ok(1..) = stream.read(&mut buffer).await {}
                }
            });
        }
    });
    address
}

/// Gives a node this machine's address, beside its own.
fn place_here(admin: &Local, node: &str) {
    let mut addresses =
        admin.get(NODES, "", node).unwrap_or_default()["status"]["addresses"].take();
    let here = json!({ "type": "ExternalIP", "address": "127.0.0.1" });
    addresses.as_array_mut().expect("it has addresses").push(here);
    let patch = json!({ "status": { "addresses": addresses } });
    admin.patch(NODES, "", node, "status", &patch).expect("it moves");
}

impl Scene {
    /// The first node has this machine's address from the start, or all have others.
    fn set(server: SocketAddr, is_node: bool, policy: Policy) -> Self {
        let sandbox = Sandbox::new(Settings::default().nodes(1));
        sandbox.load(tidegate_api::crds()).expect("our definitions");
        sandbox.run();
        let admin = sandbox.local(User::admin());
        if is_node {
            place_here(&admin, "sandbox-0");
        }
        let mut analysis = json!({ "interval": "1s", "threshold": 3, "iterations": 1 });
        let url = format!("http://{server}/gate");
        analysis["webhooks"] = json!([{ "name": "gate", "type": "confirm-rollout", "url": url }]);
        let reference = json!({ "name": "own" });
        analysis["metrics"] = json!([
            { "name": "own", "templateRef": reference, "thresholdRange": { "min": 1 } },
        ]);
        let template = json!({
            "apiVersion": "flagger.app/v1beta1", "kind": "MetricTemplate",
            "metadata": { "name": "own" },
            "spec": { "query": "own", "provider": {
                "type": "prometheus", "address": format!("http://{server}"),
            } },
        });
        for (resource, object) in [
            (METRIC_TEMPLATES, template),
            (DEPLOYMENTS, deployment("web", "web:1.0", 1)),
            (CANARIES, canary_of("web", KUBERNETES, analysis)),
        ] {
            admin.create(resource, "default", object).expect("it is accepted");
        }
        let operator = operator_with(&sandbox, None, policy);
        Self { sandbox, admin, operator }
    }

    fn status(&self) -> Value {
        self.admin.get(CANARIES, "default", "web").unwrap_or_default()["status"].take()
    }

    async fn until(&self, what: &str, is_so: impl Fn(&Value) -> bool) {
        let reached = async {
            while !is_so(&self.status()) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let reached = tokio::time::timeout(Duration::from_mins(1), reached).await;
        assert!(reached.is_ok(), "never {what}: {:#}", self.status());
    }

    /// A release up to the gate.
    async fn release(&self) {
        self.until("initialized", |status| status["phase"] == "Initialized").await;
        let template = deployment("web", "web:2.0", 1)["spec"]["template"].take();
        let patch = json!({ "spec": { "template": template } });
        self.admin.patch(DEPLOYMENTS, "default", "web", "", &patch).expect("a new image");
        self.until("at the gate", |status| status["phase"] == "Waiting").await;
    }

    /// The message about the gate contains these words.
    async fn waits_with(&self, words: &str) {
        self.until(words, |status| {
            let said = status["lastDecision"]["message"].as_str().unwrap_or_default();
            status["phase"] == "Waiting" && said.contains(words)
        })
        .await;
    }

    /// The messages about the metric server.
    fn told_of_metrics(&self) -> Vec<String> {
        let mut events = self.admin.list(EVENTS, Some("default"));
        events.retain(|event| event["reason"] == "MetricsUnavailable");
        events.iter().map(|it| it["message"].as_str().unwrap_or_default().to_owned()).collect()
    }
}

#[tokio::test]
async fn hooks_and_metrics_at_the_address_of_a_node_are_refused_unless_a_flag_opens_it() {
    let server = server().await;
    let closed = async {
        let scene = Scene::set(server, true, local());
        scene.release().await;
        scene.waits_with(REFUSED).await;
        let conditions = scene.status()["conditions"].to_string();
        assert!(conditions.contains(REFUSED), "{conditions}");
        let told = scene.told_of_metrics();
        assert!(told.iter().any(|text| text.contains(REFUSED)), "{told:?}");
    };
    let opened = async {
        let allow = vec!["127.0.0.0/8".parse().expect("a range")];
        let scene = Scene::set(server, true, Policy { allow, ..local() });
        scene.release().await;
        scene.waits_with("answered 403: not yet").await;
        let told = scene.told_of_metrics();
        assert!(!told.iter().any(|text| text.contains(REFUSED)), "{told:?}");
    };
    tokio::join!(closed, opened);
}

#[tokio::test]
async fn a_node_that_comes_later_is_closed_too_and_one_that_goes_is_open_again() {
    let scene = Scene::set(server().await, false, local());
    scene.release().await;
    scene.waits_with("answered 403: not yet").await;
    let node = node_object("late", 7, scene.sandbox.server().clock.now());
    let status = json!({ "status": node["status"] });
    scene.admin.create(NODES, "", node).expect("a node is taken");
    scene.admin.patch(NODES, "", "late", "status", &status).expect("and its status");
    place_here(&scene.admin, "late");
    scene.waits_with(REFUSED).await;
    scene.admin.delete(NODES, "", "late", &Deletion::default()).expect("it goes");
    scene.waits_with("answered 403: not yet").await;
}

fn lists_of_nodes() -> Matcher {
    Matcher::any().user(OPERATOR).resource("", "nodes").verbs([Verb::List])
}

#[tokio::test(start_paused = true)]
async fn nodes_that_may_not_be_seen_hold_nothing_up_and_that_is_said_once() {
    let (log, _listening) = Log::listen();
    let mut world = with_canary(canary_of("web", GATEWAY_API, by_weight()));
    let forbidden = Effect::FailBefore { code: 403, reason: "Forbidden" };
    world.sandbox.server().faults.add(lists_of_nodes(), When::Always, forbidden);
    world.start().await;
    reach(&world, "Initialized").await;
    world.advance_s(600).await;
    let before = mark(&world);
    world.advance_s(3600).await;
    let asked = requests_since(&world, before);
    assert!(asked.len() <= 13, "somebody may allow it: every five minutes. {asked:?}");
    assert!(asked.iter().all(|line| line == "list nodes"), "{asked:?}");
    let text = log.text();
    let is_about = |line: &&str| line.contains("The addresses of nodes are not known");
    let told: Vec<_> = text.lines().filter(is_about).collect();
    assert_eq!(told.len(), 1, "{told:#?}");
    for words in ["WARN", "--deny-addresses", "not allowed to watch Node", "operator's role"] {
        assert!(told[0].contains(words), "{words}: {}", told[0]);
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_begun_before_nodes_were_listed() {
    let mut world = with_canary(canary_of("web", GATEWAY_API, by_weight()));
    let trouble = Effect::ServerError { code: 503 };
    let rule = world.sandbox.server().faults.add(lists_of_nodes(), When::Always, trouble);
    world.start().await;
    world.advance_s(120).await;
    assert_eq!(world.phase("web"), "", "trouble that passes opens nothing");
    world.sandbox.server().faults.remove(rule);
    reach(&world, "Initialized").await;
}

#[tokio::test(start_paused = true)]
async fn heartbeats_of_nodes_wake_nobody() {
    let (log, _listening) = Log::listen();
    let world = initialized(GATEWAY_API, by_weight()).await;
    world.settle().await;
    let looks = || log.text().matches("Decided").count();
    let (before, looked) = (mark(&world), looks());
    assert!(looked > 0, "the log tells of looks");
    for number in 0..20 {
        beat(&world, number);
        world.settle().await;
    }
    assert_eq!(looks(), looked);
    assert_eq!(requests_since(&world, before), Vec::<String>::new());
}

/// The node reports as ready.
fn beat(world: &World, number: u32) {
    let mut node = world.admin.get(NODES, "", "sandbox-0").unwrap_or_default();
    for condition in node["status"]["conditions"].as_array_mut().into_iter().flatten() {
        condition["lastHeartbeatTime"] = json!(format!("2030-01-01T00:00:{number:02}Z"));
    }
    world.admin.update(NODES, "status", node).expect("it is taken");
}
