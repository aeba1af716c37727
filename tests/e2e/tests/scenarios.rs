//! The scripts of `tests/scenarios` on a real cluster: the same writes in the same order.

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "all of this file is tests")]

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Result, anyhow, ensure};
use futures::StreamExt as _;
use k8s_openapi::{
    api::core::v1::Namespace,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{Api, Client, ResourceExt, api::ListParams};
use tidegate_e2e::{
    ControlPlane, Node, NodeSettings, Parts, inside, inside_for,
    scenario::{self, Theatre},
};
use tokio::signal::unix::{SignalKind, signal};

/// Scripts at a time, or `E2E_AT_ONCE`: each has an operator, and most of their time they wait for the next
/// step.
const AT_ONCE: usize = 14;
/// The longest scripts, or `E2E_LONGEST_S`: those that wait for deadlines of ten minutes run in virtual
/// time only.
const LONGEST_S: usize = 330;
/// All of them take some ten minutes, and more with the longest.
const PATIENCE: Duration = Duration::from_mins(50);
/// A step of the operator that comes late on a busy machine changes the outcome; by itself it is in time.
const AT_ONCE_AGAIN: usize = 2;
/// With more late scripts than two, or one in so many, the machine is too slow, or there is a defect.
const REPLAYED_OF: usize = 25;

/// A script that differs.
struct Differing {
    name: String,
    path: PathBuf,
    /// Whether it may only have been too slow.
    is_late: bool,
}

/// Run on a cluster that existed before: one with a release, and one that takes over a Service.
const LENT: [&str; 2] = ["blue_green/kubernetes", "setup/existing_service"];

/// All scripts by name, or those whose names contain `E2E_SCRIPT`; with `E2E_EVERY=5` every fifth of them,
/// from the first on or that of `E2E_FROM`.
fn scripts() -> Result<BTreeMap<String, PathBuf>> {
    scripts_of(&std::env::var("E2E_SCRIPT").unwrap_or_default())
}

fn scripts_of(wanted: &str) -> Result<BTreeMap<String, PathBuf>> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../scenarios");
    let mut found = BTreeMap::new();
    for folder in std::fs::read_dir(root)?.flatten().filter(|it| it.path().is_dir()) {
        for script in std::fs::read_dir(folder.path())?.flatten() {
            let path = script.path();
            let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let name = format!("{}/{stem}", folder.file_name().to_string_lossy());
            if name.contains(wanted) {
                found.insert(name, path);
            }
        }
    }
    Ok(found)
}

/// Runs scripts, and returns those that differ.
async fn play(
    theatre: &Theatre,
    round: usize,
    at_once: usize,
    scripts: &[(String, PathBuf)],
) -> Vec<Differing> {
    let one = async |(index, (name, path)): (usize, &(String, PathBuf))| {
        let namespace = format!("script-{round}-{index}");
        let outcome = scenario::play(theatre, &namespace, path).await;
        let error = outcome.err()?;
        println!("{name} differs: {error:#}");
        let is_late = scenario::is_late(&error);
        Some(Differing { name: name.clone(), path: path.clone(), is_late })
    };
    let played = futures::stream::iter(scripts.iter().enumerate()).map(one);
    let counted = played.buffer_unordered(at_once).enumerate().inspect(|(before, _)| {
        println!("so far: {} of {} scripts", before + 1, scripts.len());
    });
    counted.filter_map(async |(_, differing)| differing).collect().await
}

/// Runs all scripts that the cluster supports.
async fn play_all(theatre: &Theatre) -> Result<()> {
    let (mut suited, mut left) = (Vec::new(), BTreeMap::<&str, usize>::new());
    let number = |name| std::env::var(name).ok().and_then(|it| it.parse().ok());
    let longest = number("E2E_LONGEST_S").unwrap_or(LONGEST_S);
    for (name, path) in scripts()? {
        let text = std::fs::read_to_string(&path)?;
        let length_s = scenario::length_s(&text);
        let why = scenario::unsuited(theatre, &text)?;
        let is_long = usize::try_from(length_s).is_ok_and(|length_s| length_s > longest);
        match why.or(is_long.then_some("they are long")) {
            None => suited.push((length_s, (name, path))),
            Some(why) => *left.entry(why).or_default() += 1,
        }
    }
    let every = number("E2E_EVERY").unwrap_or(1);
    let from = number("E2E_FROM").unwrap_or(0);
    let mut suited: Vec<_> = suited.into_iter().skip(from).step_by(every).collect();
    // The longest first: the last one does not run alone.
    suited.sort_by_key(|(length_s, _)| Reverse(*length_s));
    let suited: Vec<_> = suited.into_iter().map(|(_, script)| script).collect();
    ensure!(!suited.is_empty(), "nothing could be played");
    let begun = Instant::now();
    let at_once = number("E2E_AT_ONCE").unwrap_or(AT_ONCE);
    let again = play_twice(theatre, at_once, &suited).await?;
    println!("played in {} s", begun.elapsed().as_secs());
    for (why, count) in &left {
        println!("not played: {count} scripts, as {why}");
    }
    println!("{} scripts, {again} of them played twice", suited.len());
    let denied = theatre.denied()?;
    ensure!(denied.is_empty(), "denied: {denied:?}");
    Ok(())
}

/// Runs scripts, late ones once more, and returns the number of those.
async fn play_twice(
    theatre: &Theatre,
    at_once: usize,
    scripts: &[(String, PathBuf)],
) -> Result<usize> {
    let differing = play(theatre, 0, at_once, scripts).await;
    let wrong: Vec<_> = differing.iter().filter(|it| !it.is_late).map(|it| &it.name).collect();
    ensure!(wrong.is_empty(), "{} scripts differ: {wrong:?}", wrong.len());
    let late_max = (scripts.len() / REPLAYED_OF).max(2);
    ensure!(differing.len() <= late_max, "{} scripts came late", differing.len());
    let again: Vec<_> = differing.into_iter().map(|it| (it.name, it.path)).collect();
    let differing = play(theatre, 1, AT_ONCE_AGAIN, &again).await;
    ensure!(differing.is_empty(), "{} scripts differ", differing.len());
    Ok(again.len())
}

#[test]
fn scripts_are_true_of_a_real_cluster() {
    if std::env::var("E2E_CLUSTER").is_ok_and(|it| it == "existing") {
        on_a_borrowed_cluster();
        return;
    }
    let play = async || play_all(&Theatre::open().await?).await;
    inside_for(PATIENCE, "scripts_are_true_of_a_real_cluster", play);
}

/// A cluster that others use has none of our objects afterwards, whether scripts ended well or were cut off
/// with canaries that have a finalizer.
#[test]
fn a_cluster_that_is_there_is_left_as_it_was() {
    inside("a_cluster_that_is_there_is_left_as_it_was", async || {
        let settings = NodeSettings { applications: false, count: 1, ..NodeSettings::default() };
        // A cluster without gateways and meshes, as many are.
        let plane = ControlPlane::start(&Parts::find()?).await?;
        let _node = Node::start(&plane, settings).await?;
        let before = inhabitants(&plane.client()).await?;
        let theatre = Theatre::borrow(&plane.kubeconfig("admin")?).await?;
        let mut lent: Vec<_> = scripts_of("")?.into_iter().collect();
        lent.retain(|(name, _)| LENT.contains(&name.as_str()));
        ensure!(lent.len() == LENT.len(), "{lent:?}");
        let played = play_twice(&theatre, LENT.len(), &lent).await;
        // A script is cut off in the middle.
        let cut_off =
            tokio::time::timeout(Duration::from_secs(15), play_twice(&theatre, LENT.len(), &lent));
        let cut_off = cut_off.await;
        theatre.close().await?;
        played?;
        ensure!(cut_off.is_err(), "it was over before it was cut off");
        let after = inhabitants(&plane.client()).await?;
        ensure!(after == before, "{after:?} instead of {before:?}");
        println!("{} scripts, on a cluster that was there", lent.len());
        Ok(())
    });
}

/// Namespaces and definitions of a cluster.
async fn inhabitants(client: &Client) -> Result<BTreeSet<String>> {
    let namespaces = Api::<Namespace>::all(client.clone()).list(&ListParams::default()).await?;
    let kinds = Api::<CustomResourceDefinition>::all(client.clone());
    let kinds = kinds.list(&ListParams::default()).await?;
    let names = namespaces.iter().map(ResourceExt::name_any);
    Ok(names.chain(kinds.iter().map(ResourceExt::name_any)).collect())
}

/// On the cluster of `KUBECONFIG`, in this machine's own network.
fn on_a_borrowed_cluster() {
    let kubeconfig = std::env::var("KUBECONFIG").expect("E2E_CLUSTER=existing needs KUBECONFIG");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime starts");
    let outcome: Result<()> = runtime.block_on(async {
        let [mut asked, mut told] =
            [signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?];
        let theatre = Theatre::borrow(Path::new(&kubeconfig)).await?;
        let outcome = tokio::select! {
            biased;
            _ = asked.recv() => Err(anyhow!("interrupted")),
            _ = told.recv() => Err(anyhow!("interrupted")),
            outcome = play_all(&theatre) => outcome,
        };
        println!("taking out what was put into the cluster");
        // The first error is worth more than the one of the cleanup.
        let closed = theatre.close().await;
        outcome.and(closed)
    });
    outcome.unwrap();
}
