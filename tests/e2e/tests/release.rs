//! Releases under real traffic: Traefik routes by the operator's objects, Prometheus counts, the operator
//! judges by that; and every single request is checked.

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
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    task::JoinHandle,
};

const HOST: &str = "shop.test";
const NAMESPACE: &str = "shop";
const PATIENCE: Duration = Duration::from_mins(2);
/// Clients that send one request after another, and their interval: enough for [`LEAST`] in a step of ten
/// seconds. On a slower machine the step takes longer.
const CLIENTS: usize = 8;
const PAUSE: Duration = Duration::from_millis(20);
/// Requests by which a share is measured before it grows.
const LEAST: usize = 2000;
/// Requests by which the current side of all traffic is measured.
const NEWEST: usize = 100;
/// Both sides run the same version, or will in a moment: the answers do not show the share.
const BLENDED: i64 = -1;
/// Requests this near to a change of the share count for neither.
const LAG: Duration = Duration::from_secs(1);
/// Between two reads of the route.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Success of the canary's answers, as counted by Traefik.
const QUERY: &str = r#"
100 * (1 - (
  sum(rate(traefik_service_requests_total{service=~".*{{ target }}-canary.*",code=~"5.."}[{{ interval }}]))
    or vector(0)
) / sum(rate(traefik_service_requests_total{service=~".*{{ target }}-canary.*"}[{{ interval }}])))
"#;

/// The result of one request.
#[derive(Debug, Clone)]
struct Hit {
    at: Instant,
    status: u16,
    version: String,
}

/// Clients that send requests without an end.
struct Load {
    hits: Arc<Mutex<Vec<Hit>>>,
    lost: Arc<Mutex<Vec<String>>>,
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<()>>,
}

/// A share that a route gave to the canary.
#[derive(Debug, Clone, Copy)]
struct Share {
    percent: i64,
    /// The first time at which Traefik was seen with it.
    since: Option<Instant>,
    /// The last time at which the route was seen with it, once it has another one.
    until: Option<Instant>,
}

/// The canary's shares in a route, in order, until the primary gets the same version.
struct Shares {
    seen: Arc<Mutex<Vec<Share>>>,
    task: JoinHandle<()>,
}

// === impl Load ===

impl Load {
    fn start(url: &str, hits: Arc<Mutex<Vec<Hit>>>) -> Self {
        let lost = Arc::default();
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

    /// The number of hits so far.
    fn len(&self) -> usize {
        self.hits.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// The number of matching ones among the last `number` hits.
    fn count(&self, number: usize, is_so: impl Fn(&Hit) -> bool) -> usize {
        let hits = self.hits.lock().unwrap_or_else(PoisonError::into_inner);
        hits.iter().rev().take(number).filter(|hit| is_so(hit)).count()
    }

    /// Ends it, and lists the lost requests: not answered, or answered by the gateway itself because it had
    /// no backend for them.
    async fn end(self) -> (Vec<Hit>, Vec<String>) {
        self.stop.store(true, Ordering::Relaxed);
        let mut lost = Vec::new();
        for client in self.clients {
            // A client that ended early sent less than it should have.
            lost.extend(client.await.err().map(|error| format!("a client ended: {error}")));
        }
        let hits = std::mem::take(&mut *self.hits.lock().unwrap_or_else(PoisonError::into_inner));
        lost.append(&mut self.lost.lock().unwrap_or_else(PoisonError::into_inner));
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

// === impl Share ===

impl Share {
    /// Whether a request was made during this share.
    fn covers(&self, at: Instant) -> bool {
        self.since.is_some_and(|since| at >= since + LAG)
            && self.until.is_none_or(|until| at + LAG < until)
    }
}

// === impl Shares ===

impl Shares {
    fn follow(stage: &Arc<Stage>, seen: Arc<Mutex<Vec<Share>>>) -> Self {
        let (stage, list) = (Arc::clone(stage), Arc::clone(&seen));
        let task = tokio::spawn(async move {
            let mut last_look = Instant::now();
            loop {
                let look = Instant::now();
                if let Ok((percent, carried)) = shares_now(&stage, &list).await {
                    note(&list, percent, carried == Some(percent), last_look);
                    last_look = look;
                }
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        });
        Self { seen, task }
    }

    /// The last one.
    fn last(&self) -> Option<Share> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).last().copied()
    }

    async fn end(self) -> Vec<Share> {
        self.task.abort();
        let _ = self.task.await;
        std::mem::take(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The share in the route, and the one of Traefik.
async fn shares_now(stage: &Stage, list: &Mutex<Vec<Share>>) -> Result<(i64, Option<i64>)> {
    let status = stage.status(NAMESPACE).await?;
    let route = stage.get(HTTP_ROUTE, NAMESPACE, "web").await?;
    let carried = stage.traefik.weight("web-canary").await?;
    let percent = match status["phase"].as_str() {
        Some("Promoting" | "Finalising" | "Succeeded") if !is_empty(list) => BLENDED,
        _ => route.as_ref().map_or(BLENDED, share_in),
    };
    Ok((percent, carried))
}

fn note(list: &Mutex<Vec<Share>>, percent: i64, is_carried: bool, last_look: Instant) {
    let mut list = list.lock().unwrap_or_else(PoisonError::into_inner);
    if list.last().is_none_or(|last| last.percent != percent) {
        if let Some(last) = list.last_mut() {
            last.until = Some(last_look);
        }
        list.push(Share { percent, since: None, until: None });
    }
    if let Some(last) = list.last_mut().filter(|last| is_carried && last.since.is_none()) {
        last.since = Some(Instant::now());
    }
}

/// Whether nothing but the time before a release was seen.
fn is_empty(list: &Mutex<Vec<Share>>) -> bool {
    list.lock().unwrap_or_else(PoisonError::into_inner).len() < 2
}

/// A hook that lets the share grow once it was measured; its address.
async fn gate(shares: Arc<Mutex<Vec<Share>>>, hits: Arc<Mutex<Vec<Hit>>>) -> Result<String> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = format!("http://{}", listener.local_addr()?);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let last = shares.lock().unwrap_or_else(PoisonError::into_inner).last().copied();
            let is_measured = last.is_some_and(|share| {
                let hits = hits.lock().unwrap_or_else(PoisonError::into_inner);
                let now = Some(Instant::now());
                let within = |hit: &&Hit| Share { until: now, ..share }.covers(hit.at);
                // The end of a share is noticed a read late, and some requests fewer count then.
                share.percent == 0 || hits.iter().filter(within).count() >= LEAST + LEAST / 4
            });
            let status = if is_measured { "200 OK" } else { "403 Forbidden" };
            let answer = format!(
                "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{{}}"
            );
            // The operator asks again if it gets no answer.
            let _ = stream.read(&mut [0; 8192]).await;
            let _ = stream.write_all(answer.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    Ok(address)
}

fn share_in(route: &Value) -> i64 {
    let backends = route["spec"]["rules"][0]["backendRefs"].as_array().into_iter().flatten();
    let canary = backends.into_iter().find(|backend| backend["name"] == "web-canary");
    canary.and_then(|backend| backend["weight"].as_i64()).unwrap_or(0)
}

/// Whether `hits` of `requests` can come from a share. Five standard deviations: one good run in a million
/// is called bad. Requests in flight during a change of the share may have taken the other one.
fn is_plausible(hits: usize, requests: usize, share: i64) -> bool {
    #[expect(clippy::cast_precision_loss, reason = "thousands")]
    let [hits, requests, on_their_way] = [hits, requests, CLIENTS].map(|it| it as f64);
    #[expect(clippy::cast_precision_loss, reason = "a hundred at most")]
    let share = share as f64 / 100.0;
    let deviation = (requests * share * (1.0 - share)).sqrt();
    (hits - requests * share).abs() <= 5.0 * deviation + on_their_way
}

/// Compares each step with the clients' answers during it. Returns the shares, in order.
fn compare(shares: &[Share], hits: &[Hit], canary: &str) -> Result<Vec<i64>> {
    let mut compared = Vec::new();
    for share in shares.iter().filter(|share| share.percent != BLENDED) {
        let percent = share.percent;
        ensure!(share.since.is_some(), "Traefik never gave {percent}%: {shares:?}");
        let within: Vec<_> = hits.iter().filter(|hit| share.covers(hit.at)).collect();
        let new = within.iter().filter(|hit| hit.version == canary).count();
        println!("share {percent}%: {new} of {} requests", within.len());
        if (1..100).contains(&percent) {
            ensure!(within.len() >= LEAST, "share {percent}%: {} requests only", within.len());
        }
        ensure!(
            is_plausible(new, within.len(), percent),
            "{new} of {} at {percent}%",
            within.len()
        );
        compared.push(percent);
    }
    Ok(compared)
}

#[test]
fn no_request_is_lost_and_every_share_is_seen_in_the_split() {
    inside("no_request_is_lost_and_every_share_is_seen_in_the_split", async || {
        let stage = Arc::new(Stage::start().await?);
        let _operator = stage.installation.start(&stage.plane, "operator").await?;
        let (hits, seen) = (Arc::default(), Arc::default());
        let gate = gate(Arc::clone(&seen), Arc::clone(&hits)).await?;
        stage.furnish(NAMESPACE, "shop:1.0.0").await?;
        stage.apply(NAMESPACE, metric(&stage, QUERY)).await?;
        let analysis = json!({
            // A bad version has its share for as long: no gate holds it until it was measured.
            "interval": "10s", "threshold": 4, "stepWeight": 20, "maxWeight": 60,
            "metrics": [{
                "name": "success", "templateRef": { "name": "success" }, "interval": "20s",
                "thresholdRange": { "min": 99 },
            }],
            "webhooks": [{ "name": "measured", "type": "confirm-traffic-increase", "url": gate }],
        });
        stage.apply(NAMESPACE, canary("gatewayapi:v1", HOST, &analysis)).await?;
        stage.reach(NAMESPACE, "Initialized").await?;
        stage.traefik.routes(HOST).await?;

        let load = Load::start(&stage.traefik.url(), hits);
        let shares = Shares::follow(&stage, Arc::clone(&seen));
        stage.release(NAMESPACE, "shop:2.0.0").await?;
        stage.reach(NAMESPACE, "Succeeded").await?;
        eventually("all clients have the new version", PATIENCE, async || {
            Ok((load.count(200, |hit| hit.version == "2.0.0") == 200).then_some(()))
        })
        .await?;
        let promoted = load.len();
        let steps = shares.end().await;

        let shares = Shares::follow(&stage, seen);
        stage.release(NAMESPACE, "shop:3.0.0-errors-50").await?;
        let failed = stage.reach(NAMESPACE, "Failed").await?;
        ensure!(failed["canaryWeight"] == 0, "{failed:#}");
        eventually("all clients are back on the good version", PATIENCE, async || {
            let last = shares.last().filter(|last| last.percent == 0);
            let is_so = |hit: &Hit| last.is_some_and(|last| last.covers(hit.at));
            Ok((load.count(NEWEST, is_so) == NEWEST).then_some(()))
        })
        .await?;
        let (hits, lost) = load.end().await;
        let (promotion, rollback) = hits.split_at(promoted);

        println!("promotion:");
        ensure!(compare(&steps, promotion, "2.0.0")? == [0, 20, 40, 60], "{steps:?}");
        println!("rollback:");
        let back = shares.end().await;
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
        let newest = hits.iter().rev().take(NEWEST);
        let good = newest.filter(|hit| hit.version == "2.0.0").count();
        ensure!(good == NEWEST, "everybody is back on the good version: {good}");
        stage.nothing_was_denied()
    });
}
