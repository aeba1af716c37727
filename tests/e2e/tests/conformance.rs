//! The sandbox's API server answers as a real one does.
//!
//! `TIDEGATE_CONFORMANCE_ONLY` keeps the stories whose name contains it; `TIDEGATE_CONFORMANCE_KUBECONFIG` names a
//! server that runs already, for those who change the corpus.

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
use tidegate_e2e::{
    ControlPlane, Options, Parts,
    conformance::{Pair, compare, corpus},
    inside,
};
use tidegate_sandbox::{Sandbox, Settings, clock::Clock};

/// Differences that are neither mended nor accepted yet, as last counted. It only ever goes down.
///
/// Most are owners of fields in free-form parts of custom resources, of an HPA's metrics and after an apply through
/// `scale`; further causes beside the one that is named; and forms of watches that nobody asks for.
const KNOWN: usize = 560;

#[test]
fn the_sandbox_answers_as_a_real_api_server() {
    if let Ok(path) = env::var("TIDEGATE_CONFORMANCE_KUBECONFIG") {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime starts");
        runtime.block_on(with_running(&path)).expect("the servers agree");
        return;
    }
    inside("the_sandbox_answers_as_a_real_api_server", async || {
        let options = Options {
            // Nobody makes the accounts that this plugin asks for.
            api_server: vec!["--disable-admission-plugins=ServiceAccount".to_owned()],
            without_controllers: true,
            ..Options::default()
        };
        let plane = ControlPlane::start_with(&Parts::find()?, &options).await?;
        compare_with(plane.client(), "c").await
    });
}

/// A server that was used before has seen other stories: this run's names must be new.
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
    compare(&pair, &[corpus::preparation()]).await;
    let only = env::var("TIDEGATE_CONFORMANCE_ONLY").unwrap_or_default();
    let mut stories = corpus::stories();
    stories.retain(|story| story.name.contains(&only));
    let report = compare(&pair, &stories).await;
    println!("{report}");
    if only.is_empty() {
        ensure!(report.idle_rows().is_empty(), "accepted but not met: {:?}", report.idle_rows());
    }
    let left = report.unexplained.len();
    ensure!(left <= KNOWN, "{left} differences, {KNOWN} of them known");
    Ok(())
}
