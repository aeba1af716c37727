//! Releases under real traffic: Traefik carries out what the operator writes, Prometheus counts, the
//! operator judges by that; and every single request is looked at.

#![expect(clippy::print_stdout, reason = "what was measured is read by people")]

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tidegate_e2e::{
    Web, eventually, inside,
    stage::{HTTP_ROUTE, Stage, canary, metric},
};
use tokio::task::JoinHandle;

const HOST: &str = "shop.test";
const NAMESPACE: &str = "shop";
const PATIENCE: Duration = Duration::from_mins(2);
/// Clients that ask one after another, each so often: enough for [`LEAST`] in a step of ten seconds.
const CLIENTS: usize = 8;
const PAUSE: Duration = Duration::from_millis(20);
/// Requests that a share is measured by.
const LEAST: usize = 2000;
/// Both sides run the same version, or will in a moment: who answered says nothing about the share.
const BLENDED: i64 = -1;
/// How long Traefik may take to do what a route says; half a second is usual, on a busy machine it is longer.
const LAG: Duration = Duration::from_secs(2);

/// Success of the canary's answers, as Traefik counts them.
const QUERY: &str = r#"
100 * (1 - (
  sum(rate(traefik_service_requests_total{service=~".*{{ target }}-canary.*",code=~"5.."}[{{ interval }}]))
    or vector(0)
) / sum(rate(traefik_service_requests_total{service=~".*{{ target }}-canary.*"}[{{ interval }}])))
"#;

/// What became of one request.
#[derive(Debug, Clone)]
struct Hit {
    at: Instant,
    status: u16,
    version: String,
}

/// Clients that never stop asking.
struct Load {
    hits: Arc<Mutex<Vec<Hit>>>,
    lost: Arc<Mutex<Vec<String>>>,
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<()>>,
}

/// The shares a route gave to the canary, and since when, until the primary gets the same version.
struct Shares {
    seen: Arc<Mutex<Vec<(Instant, i64)>>>,
    task: JoinHandle<()>,
}

// === impl Load ===

impl Load {
    fn start(url: &str) -> Self {
        let (hits, lost) = (Arc::default(), Arc::default());
        let stop = Arc::new(AtomicBool::new(false));
        let mut load = Self { hits, lost, stop, clients: Vec::new() };
        for _ in 0..CLIENTS {
            load.clients.push(tokio::spawn(client(
                url.to_owned(),
                Arc::clone(&load.hits),
                Arc::clone(&load.lost),
                Arc::clone(&load.stop),
            )));
        }
        load
    }

    /// All hits so far.
    fn hits(&self) -> Vec<Hit> {
        self.hits.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends it, and says which requests were lost on the way: not answered, or answered by the gateway
    /// itself because it had nobody to send them to.
    async fn end(self) -> (Vec<Hit>, Vec<String>) {
        self.stop.store(true, Ordering::Relaxed);
        for client in self.clients {
            let _ = client.await;
        }
        let hits = std::mem::take(&mut *self.hits.lock().unwrap_or_else(PoisonError::into_inner));
        let lost = std::mem::take(&mut *self.lost.lock().unwrap_or_else(PoisonError::into_inner));
        (hits, lost)
    }
}

async fn client(
    url: String,
    hits: Arc<Mutex<Vec<Hit>>>,
    lost: Arc<Mutex<Vec<String>>>,
    stop: Arc<AtomicBool>,
) {
    let web = Web::default();
    while !stop.load(Ordering::Relaxed) {
        let at = Instant::now();
        match web.get_as(&url, HOST).await {
            Ok(answer) => {
                let version = answer.json().map(|it| it["version"].clone()).unwrap_or_default();
                let version = version.as_str().unwrap_or_default().to_owned();
                if version.is_empty() {
                    let text = String::from_utf8_lossy(&answer.body).into_owned();
                    let now = jiff::Timestamp::now();
                    let text = format!("{now} {}: {text}", answer.status);
                    lost.lock().unwrap_or_else(PoisonError::into_inner).push(text);
                }
                let hit = Hit { at, status: answer.status, version };
                hits.lock().unwrap_or_else(PoisonError::into_inner).push(hit);
            }
            Err(error) => {
                let text = format!("{} {error:#}", jiff::Timestamp::now());
                lost.lock().unwrap_or_else(PoisonError::into_inner).push(text);
            }
        }
        tokio::time::sleep(PAUSE.saturating_sub(at.elapsed())).await;
    }
}

// === impl Shares ===

impl Shares {
    fn follow(stage: &Arc<Stage>) -> Self {
        let seen: Arc<Mutex<Vec<(Instant, i64)>>> = Arc::default();
        let (stage, list) = (Arc::clone(stage), Arc::clone(&seen));
        let task = tokio::spawn(async move {
            loop {
                let status = stage.status(NAMESPACE).await.unwrap_or_default();
                let route = stage.get(HTTP_ROUTE, NAMESPACE, "web").await.ok().flatten();
                let share = match status["phase"].as_str() {
                    Some("Promoting" | "Finalising" | "Succeeded") if !is_empty(&list) => BLENDED,
                    _ => route.as_ref().map_or(BLENDED, share_in),
                };
                note(&list, share);
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
        Self { seen, task }
    }

    fn end(self) -> Vec<(Instant, i64)> {
        self.task.abort();
        std::mem::take(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn note(list: &Mutex<Vec<(Instant, i64)>>, share: i64) {
    let mut list = list.lock().unwrap_or_else(PoisonError::into_inner);
    if list.last().is_none_or(|(_, last)| *last != share) {
        list.push((Instant::now(), share));
    }
}

/// Whether nothing but the rest before a release was seen.
fn is_empty(list: &Mutex<Vec<(Instant, i64)>>) -> bool {
    list.lock().unwrap_or_else(PoisonError::into_inner).len() < 2
}

fn share_in(route: &Value) -> i64 {
    let backends = route["spec"]["rules"][0]["backendRefs"].as_array().into_iter().flatten();
    let canary = backends.into_iter().find(|backend| backend["name"] == "web-canary");
    canary.and_then(|backend| backend["weight"].as_i64()).unwrap_or(0)
}

/// Whether `hits` of `requests` can come of a share. Five standard deviations: one good run in a million
/// is called bad.
fn is_plausible(hits: usize, requests: usize, share: i64) -> bool {
    #[expect(clippy::cast_precision_loss, reason = "thousands")]
    let (hits, requests, share) = (hits as f64, requests as f64, share as f64 / 100.0);
    let deviation = (requests * share * (1.0 - share)).sqrt();
    (hits - requests * share).abs() <= 5.0 * deviation + 1.0
}

/// Compares each step with what clients saw during it. Returns the shares, in order.
fn compare(shares: &[(Instant, i64)], hits: &[Hit], canary: &str) -> Result<Vec<i64>> {
    let mut compared = Vec::new();
    for (index, (since, share)) in shares.iter().enumerate() {
        if *share == BLENDED {
            continue;
        }
        let until = shares.get(index + 1).map(|(until, _)| *until);
        let during =
            |hit: &&Hit| hit.at >= *since + LAG && until.is_none_or(|until| hit.at < until);
        let within: Vec<_> = hits.iter().filter(during).collect();
        let new = within.iter().filter(|hit| hit.version == canary).count();
        println!("share {share}%: {new} of {} requests", within.len());
        if (1..100).contains(share) {
            ensure!(within.len() >= LEAST, "share {share}%: {} requests only", within.len());
        }
        ensure!(is_plausible(new, within.len(), *share), "{new} of {} at {share}%", within.len());
        compared.push(*share);
    }
    Ok(compared)
}

#[test]
fn no_request_is_lost_and_every_share_is_seen_in_the_split() {
    inside("no_request_is_lost_and_every_share_is_seen_in_the_split", async || {
        let stage = Arc::new(Stage::start().await?);
        let _operator = stage.installation.start(&stage.plane, "operator").await?;
        stage.furnish(NAMESPACE, "shop:1.0.0").await?;
        stage.apply(NAMESPACE, metric(&stage, QUERY)).await?;
        let analysis = json!({
            "interval": "10s", "threshold": 2, "stepWeight": 20, "maxWeight": 60,
            "metrics": [{
                "name": "success", "templateRef": { "name": "success" }, "interval": "10s",
                "thresholdRange": { "min": 99 },
            }],
        });
        stage.apply(NAMESPACE, canary("gatewayapi:v1", HOST, &analysis)).await?;
        stage.reach(NAMESPACE, "Initialized").await?;
        stage.traefik.routes(HOST).await?;

        let load = Load::start(&stage.traefik.url());
        let shares = Shares::follow(&stage);
        stage.release(NAMESPACE, "shop:2.0.0").await?;
        stage.reach(NAMESPACE, "Succeeded").await?;
        eventually("all clients have the new version", PATIENCE, async || {
            let hits = load.hits();
            let last = hits.iter().rev().take(200);
            let new = last.filter(|hit| hit.version == "2.0.0").count();
            Ok((new == 200).then_some(()))
        })
        .await?;
        let promoted = load.hits().len();
        let steps = shares.end();

        let shares = Shares::follow(&stage);
        stage.release(NAMESPACE, "shop:3.0.0-errors-50").await?;
        let failed = stage.reach(NAMESPACE, "Failed").await?;
        ensure!(failed["canaryWeight"] == 0, "{failed:#}");
        tokio::time::sleep(LAG + Duration::from_secs(3)).await;
        let (hits, lost) = load.end().await;
        let (promotion, rollback) = hits.split_at(promoted);

        println!("promotion:");
        ensure!(compare(&steps, promotion, "2.0.0")? == [0, 20, 40, 60], "{steps:?}");
        println!("rollback:");
        let back = shares.end();
        let taken = compare(&back, rollback, "3.0.0")?;
        ensure!(taken.first() == Some(&0) && taken.last() == Some(&0), "{taken:?}");
        ensure!(taken.contains(&20), "the bad version had its share: {taken:?}");

        let mut statuses: BTreeMap<(u16, String), usize> = BTreeMap::new();
        for hit in &hits {
            *statuses.entry((hit.status, hit.version.clone())).or_default() += 1;
        }
        println!("{} requests, {} lost: {statuses:?}", hits.len(), lost.len());
        ensure!(lost.is_empty(), "{} lost: {lost:#?}", lost.len());
        let is_bad = |hit: &&Hit| hit.status != 200 && hit.version != "3.0.0";
        ensure!(hits.iter().find(is_bad).is_none(), "only the bad version fails: {statuses:?}");
        let good = hits.iter().rev().take(200).filter(|hit| hit.version == "2.0.0").count();
        ensure!(good == 200, "everybody is back on the good version: {good} of 200");
        stage.nothing_was_denied()
    });
}
