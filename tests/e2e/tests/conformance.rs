//! The sandbox's API server answers as a real one does.
//!
//! `TIDEGATE_CONFORMANCE_ROWS` lists the differences that each accepted row explains;
//! `TIDEGATE_CONFORMANCE_ONLY` keeps the stories whose name contains it; `TIDEGATE_CONFORMANCE_KUBECONFIG`
//! names a running server, for changes to the corpus.

#![expect(clippy::print_stdout, reason = "a comparison is read by people")]

use std::{
    env,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Result, ensure};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use kube_sandbox::{Sandbox, Settings, clock::Clock};
use tidegate_e2e::{
    ControlPlane, Options, Parts,
    conformance::{Pair, compare, contest, corpus},
    inside,
};

/// The rounds of each contest on either server.
const ROUNDS: usize = 5;

#[test]
fn the_sandbox_answers_as_a_real_api_server() {
    if let Ok(path) = env::var("TIDEGATE_CONFORMANCE_KUBECONFIG") {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime starts");
        runtime.block_on(with_running(&path)).expect("the servers agree");
        return;
    }
    inside("the_sandbox_answers_as_a_real_api_server", async || {
        let options = Options {
            // Without a controller there are no service accounts, which this plugin requires.
            api_server: vec!["--disable-admission-plugins=ServiceAccount".to_owned()],
            without_controllers: true,
            ..Options::default()
        };
        let plane = ControlPlane::start_with(&Parts::find()?, &options).await?;
        compare_with(plane.client(), "c").await
    });
}

/// A server that was used before has other stories: this run's names must be new.
async fn with_running(kubeconfig: &str) -> Result<()> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() % 1_000_000;
    compare_with(Client::try_from(config)?, &format!("c{seconds}")).await
}

async fn compare_with(real: Client, run: &str) -> Result<()> {
    let settings = Settings { clock: Clock::real(), nodes: 0, ..Settings::default() };
    let sandbox = Sandbox::new(settings);
    let ours = Client::new(sandbox.service(), "default");
    let pair = Pair { real, ours, run: run.to_owned() };
    let prepared = compare(&pair, &[corpus::preparation()]).await;
    ensure!(prepared.unanswered.is_empty(), "{:?}", prepared.unanswered);
    ensure!(prepared.unexplained.is_empty(), "{prepared}");
    let only = env::var("TIDEGATE_CONFORMANCE_ONLY").unwrap_or_default();
    let mut stories = corpus::stories();
    stories.retain(|story| story.name.contains(&only));
    let report = compare(&pair, &stories).await;
    if env::var_os("TIDEGATE_CONFORMANCE_ROWS").is_some() {
        println!("{report:#}");
    } else {
        println!("{report}");
    }
    let contests = contest::hold(&pair.real, &pair.ours, run, ROUNDS).await?;
    println!("{contests:>8} contests of clients that write at the same moment");
    ensure!(report.unanswered.is_empty(), "no answer to {:?}", report.unanswered);
    if only.is_empty() {
        ensure!(report.idle_rows().is_empty(), "accepted but not met: {:?}", report.idle_rows());
        ensure!(report.swollen_rows().is_empty(), "{:#?}", report.swollen_rows());
    }
    let left = report.unexplained.len();
    ensure!(left == 0, "{left} differences that no row of `accepted.rs` explains");
    Ok(())
}
