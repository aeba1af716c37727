//! The corpus told to a real API server and to the sandbox.
//!
//! `TIDEGATE_CONFORMANCE_KUBECONFIG` names a server that already runs; `TIDEGATE_CONFORMANCE_ONLY` keeps the stories whose
//! name contains it.

#![expect(clippy::print_stdout, reason = "a comparison is read by people")]

use std::env;

use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use tidegate_e2e::conformance::{Pair, compare, corpus};
use tidegate_sandbox::{Sandbox, Settings, clock::Clock};

async fn real() -> Client {
    let path = env::var("TIDEGATE_CONFORMANCE_KUBECONFIG").unwrap_or_default();
    let kubeconfig = Kubeconfig::read_from(path).expect("a kubeconfig");
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.expect("a cluster in it");
    Client::try_from(config).expect("a client of it")
}

fn ours() -> (Sandbox, Client) {
    let sandbox = Sandbox::new(Settings { clock: Clock::real(), nodes: 0, ..Settings::default() });
    let client = Client::new(sandbox.service(), "default");
    (sandbox, client)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sandbox_answers_as_a_real_api_server() {
    let (_sandbox, ours) = ours();
    let real = if env::var("TIDEGATE_CONFORMANCE_KUBECONFIG").is_ok() { real().await } else { ours.clone() };
    let run = env::var("TIDEGATE_CONFORMANCE_RUN").unwrap_or_else(|_| "c".to_owned());
    let pair = Pair { real, ours, run };
    compare(&pair, &[corpus::preparation()]).await;
    let only = env::var("TIDEGATE_CONFORMANCE_ONLY").unwrap_or_default();
    let mut stories = corpus::stories();
    stories.retain(|story| story.name.contains(&only));
    let report = compare(&pair, &stories).await;
    println!("{report}");
    assert!(report.unexplained.is_empty());
}
