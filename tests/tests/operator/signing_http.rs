//! Signed calls over real connections: the operator with its own client, and the load tester's server.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use jiff::Timestamp;
use kube_sandbox::{Sandbox, Settings, cluster::Cluster as _, server::User};
use serde_json::{Value, json};
use tidegate_loadtester::{
    auth::Auth,
    concord,
    gates::{Gates, Key, Kind, Opening},
    load::{BodyFiles, Bounds},
    metrics::Metrics,
    ngrinder,
    runner::{Limits, Runner},
    server::{self, App},
    task::Policy,
};
use tidegate_operator::{
    Context, Options, Supervisor,
    clock::FastClock,
    cluster::Cluster as Seat,
    http::{self, Client},
    telemetry::Telemetry,
};
use tidegate_tests::rollout::{CANARIES, DEPLOYMENTS, deployment};
use tokio::net::TcpListener;

use crate::{
    signing::SecretFile,
    stage::{KUBERNETES, blue_green, canary_of},
};

/// A load tester with this secret and the gate of `web` open.
async fn tester(secret: &SecretFile) -> SocketAddr {
    let metrics = Arc::new(Metrics::default());
    let minute = Duration::from_mins(1);
    let limits = Limits {
        tasks: 1,
        tasks_per_namespace: 1,
        timeout: minute,
        patience: minute,
        connections: 16,
    };
    let gates = Gates::in_memory(0);
    let (namespace, canary) = ("default".to_owned(), "web".to_owned());
    let key = Key { namespace, canary, kind: Kind::Advance, gate: String::new() };
    let now = Timestamp::now().as_second();
    gates
        .open(&key, &Opening { opened_at: now, ..Opening::default() }, None, now)
        .expect("it opens");
    let app = App {
        auth: Auth { secret_file: Some(secret.0.clone()), ..Auth::default() },
        policy: Policy {
            kinds: [].into(),
            tools: [].into(),
            shell: false,
            load: Bounds { connections_max: 1, body_files: BodyFiles::Refused },
            concord: concord::Allowed::default(),
            ngrinder: ngrinder::Allowed::default(),
        },
        gates,
        runner: Runner::new(limits, Arc::clone(&metrics)),
        metrics,
    };
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let address = listener.local_addr().expect("bound");
    let routes = server::routes(Arc::new(app));
    tokio::spawn(server::serve(listener, routes, std::future::pending(), minute));
    address
}

/// Servers are on this machine.
pub(crate) fn local() -> http::Policy {
    http::Policy { allow_loopback: true, environment_proxies: false, ..http::Policy::default() }
}

/// An operator over real sockets, whose clock runs fast, that signs with this secret; ends with its task.
pub(crate) fn operator(
    sandbox: &Sandbox,
    secret: Option<&SecretFile>,
) -> tokio::task::JoinHandle<()> {
    operator_with(sandbox, secret, local())
}

/// The same, which may talk to these addresses.
pub(crate) fn operator_with(
    sandbox: &Sandbox,
    secret: Option<&SecretFile>,
    policy: http::Policy,
) -> tokio::task::JoinHandle<()> {
    let user = User::new("operator", &["system:masters"]);
    let client = kube::Client::new(sandbox.service_as(user), "default");
    let options = Options {
        mesh_provider: KUBERNETES.to_owned(),
        hook_secret_file: secret.map(|secret| secret.0.clone()),
        spread: Duration::ZERO,
        game: false,
        ..Options::default()
    };
    let telemetry = Telemetry::new("test", KUBERNETES, Timestamp::now());
    let seat = Seat::new(client, None, Arc::new(|| true));
    let clock = Arc::new(FastClock::new(10.0));
    let http = Arc::new(Client::new(policy).with_nodes(seat.nodes.clone()));
    let cx = Context::new(seat, options, clock, http, Arc::new(telemetry));
    tokio::spawn(async move { Supervisor::start(cx).run().await })
}

/// The result of a release behind the gate: whether it began, and the last message.
async fn released(secret: Option<&SecretFile>, tester: SocketAddr) -> (bool, String) {
    let sandbox = Sandbox::new(Settings::default().nodes(1));
    sandbox.load(tidegate_api::crds()).expect("our definitions");
    sandbox.run();
    let mut analysis = blue_green();
    analysis["interval"] = json!("1s");
    let url = format!("http://{tester}/gate/check");
    analysis["webhooks"] = json!([{ "name": "gate", "type": "confirm-rollout", "url": url }]);
    let admin = sandbox.local(User::admin());
    let create = |resource, object: Value| {
        admin.create(resource, "default", object).expect("it is accepted");
    };
    create(DEPLOYMENTS, deployment("web", "web:1.0", 1));
    create(CANARIES, canary_of("web", KUBERNETES, analysis));
    let operator = operator(&sandbox, secret);
    let status = || admin.get(CANARIES, "default", "web").unwrap_or_default()["status"].clone();
    let phase_in = async |phases: &[&str]| {
        let reached = async {
            while !status()["phase"].as_str().is_some_and(|phase| phases.contains(&phase)) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let reached = tokio::time::timeout(Duration::from_mins(1), reached).await;
        assert!(reached.is_ok(), "never {phases:?}: {:#}", status());
    };
    phase_in(&["Initialized"]).await;
    let template = deployment("web", "web:2.0", 1)["spec"]["template"].clone();
    let patch = json!({ "spec": { "template": template } });
    admin.patch(DEPLOYMENTS, "default", "web", "", &patch).expect("a new image");
    phase_in(&["Waiting", "Progressing"]).await;
    let status = status();
    operator.abort();
    let said = status["lastDecision"]["message"].as_str().unwrap_or_default().to_owned();
    (status["phase"] == "Progressing", said)
}

#[tokio::test]
async fn over_http_only_who_has_the_secret_is_let_in() {
    // A secret that is being rotated: the load tester accepts both.
    let both = SecretFile::new("http-both", "new\nold\n");
    let old = SecretFile::new("http-old", "old");
    let guessed = SecretFile::new("http-guessed", "guessed");
    let tester = tester(&both).await;
    let (new, old, guessed, none) = tokio::join!(
        released(Some(&both), tester),
        released(Some(&old), tester),
        released(Some(&guessed), tester),
        released(None, tester),
    );
    assert!(new.0, "{}", new.1);
    assert!(old.0, "{}", old.1);
    assert!(
        !guessed.0 && guessed.1.contains("answered 401: the signature is wrong"),
        "{guessed:?}"
    );
    assert!(!none.0 && none.1.contains("answered 401: the request is not signed"), "{none:?}");
}
