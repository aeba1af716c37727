//! Releases that are judged by real metric servers: Prometheus, Graphite and `InfluxDB`.
//!
//! The shipped operator queries each of them through a `MetricTemplate`, for a release of its own. The
//! samples follow from the running pods: the image of the canary's pods decides between few errors, many,
//! or no samples. The primary has the opposite samples, so that a query about the wrong side gives the
//! wrong result.

#![expect(clippy::print_stdout, reason = "what was judged is read by people")]

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, api::ListParams};
use serde_json::{Value, json};
use tidegate_e2e::{
    Graphite, InfluxDb, Operator, Prometheus, eventually, inside,
    stage::{CANARY, Stage, canary},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    task::JoinHandle,
};

/// Errors in percent: a good share, a bad one, and the limit.
const FEW: f64 = 0.5;
const MANY: f64 = 62.5;
const MOST: f64 = 5.0;
/// The age of a sample that a query still finds. Checks come every ten seconds, samples every second.
const WINDOW: Duration = Duration::from_secs(15);
const PATIENCE: Duration = Duration::from_mins(2);

/// Of the provider, of the namespace, and of the metric.
const PROMETHEUS: &str = "prometheus";
const GRAPHITE: &str = "graphite";
const INFLUXDB: &str = "influxdb";

/// One server with its queries.
struct Judge {
    name: &'static str,
    template: Value,
    secret: Option<Value>,
}

/// The current shares of errors of each namespace, by application.
#[derive(Clone, Default)]
struct Errors(Arc<Mutex<BTreeMap<&'static str, Shares>>>);

/// `web` is the canary; pods that are not there or have no samples are left out.
type Shares = Vec<(&'static str, f64)>;

/// All servers, and their source of samples.
struct Servers {
    graphite: Arc<Graphite>,
    influxdb: Arc<InfluxDb>,
    prometheus: Prometheus,
    /// The time of the last sample of a canary.
    told: Arc<Mutex<Instant>>,
    tasks: Vec<JoinHandle<()>>,
}

// === impl Errors ===

impl Errors {
    fn get(&self, namespace: &str) -> Shares {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(namespace).cloned().unwrap_or_default()
    }

    /// Reads the running images.
    async fn look(&self, client: &Client) -> Result<()> {
        for namespace in [PROMETHEUS, GRAPHITE, INFLUXDB] {
            let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
            let listed = pods.list(&ListParams::default().labels("app=web")).await?;
            let mut shares = Vec::new();
            let is_there = |pod: &&Pod| pod.metadata.deletion_timestamp.is_none();
            if let Some(pod) = listed.iter().find(is_there) {
                let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
                let mut images = containers.filter_map(|container| container.image.as_deref());
                let of_canary = images.next().and_then(share_of);
                let of_primary = if of_canary == Some(FEW) { MANY } else { FEW };
                shares.extend(of_canary.map(|share| ("web", share)));
                shares.push(("web-primary", of_primary));
            }
            self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(namespace, shares);
        }
        Ok(())
    }
}

/// The errors of a version; the last one works, and has no samples.
fn share_of(image: &str) -> Option<f64> {
    match image {
        "shop:3.0.0" => Some(MANY),
        "shop:4.0.0" => None,
        _ => Some(FEW),
    }
}

// === impl Servers ===

impl Servers {
    async fn start(stage: &Stage) -> Result<Self> {
        let (parts, folder) = (stage.plane.parts(), stage.plane.folder());
        let errors = Errors::default();
        let told = Arc::new(Mutex::new(Instant::now()));
        let (address, exporter) = exporter(errors.clone(), Arc::clone(&told)).await?;
        let own = folder.join("signals");
        std::fs::create_dir_all(&own)?;
        let prometheus = Prometheus::start(parts, &own, &[("shop", address)]).await?;
        let graphite = Arc::new(Graphite::start(parts, folder).await?);
        let influxdb = Arc::new(InfluxDb::start(parts, folder).await?);
        let feeder = tokio::spawn(feed(
            stage.client.clone(),
            Arc::clone(&graphite),
            Arc::clone(&influxdb),
            errors,
            Arc::clone(&told),
        ));
        let tasks = vec![exporter, feeder];
        Ok(Self { graphite, influxdb, prometheus, told, tasks })
    }

    /// The queries for each of them: the newest share of errors of the canary, within the window.
    fn judges(&self) -> [Judge; 3] {
        let template = |kind: &str, address: String, query: String| {
            json!({
                "apiVersion": CANARY.0, "kind": "MetricTemplate", "metadata": { "name": "errors" },
                "spec": { "provider": { "type": kind, "address": address }, "query": query },
            })
        };
        let window = format!("{}s", WINDOW.as_secs());
        let prometheus = r#"max_over_time(shop_errors_percent{namespace="{{ namespace }}",app="{{ target }}"}[WINDOW])"#;
        let graphite = "target=shop.{{ namespace }}.{{ target }}.errors&from=-WINDOW&until=now";
        let influxdb = r#"from(bucket: "BUCKET") |> range(start: -WINDOW) |> filter(fn: (r) => r._measurement == "errors" and r.namespace == "{{ namespace }}" and r.app == "{{ target }}") |> last()"#;
        let [prometheus, graphite, influxdb] = [prometheus, graphite, influxdb]
            .map(|query| query.replace("WINDOW", &window).replace("BUCKET", InfluxDb::BUCKET));
        let token = json!({
            "apiVersion": "v1", "kind": "Secret",
            // The operator runs as installed, where this label is required.
            "metadata": { "name": "influxdb", "labels": { "tidegate.dev/for-metrics": "true" } },
            "stringData": { "token": self.influxdb.token(), "org": "shop" },
        });
        let mut by_influxdb = template("influxdb", self.influxdb.url(), influxdb);
        by_influxdb["spec"]["provider"]["secretRef"] = json!({ "name": "influxdb" });
        [
            Judge {
                name: PROMETHEUS,
                template: template("prometheus", self.prometheus.url(), prometheus),
                secret: None,
            },
            Judge {
                name: GRAPHITE,
                template: template("graphite", self.graphite.url(), graphite),
                secret: None,
            },
            Judge { name: INFLUXDB, template: by_influxdb, secret: Some(token) },
        ]
    }

    /// Waits until no query finds a sample of the last canary.
    async fn forget(&self) -> Result<()> {
        eventually("no canary is told of", PATIENCE, async || {
            let told = *self.told.lock().unwrap_or_else(PoisonError::into_inner);
            Ok((told.elapsed() > WINDOW + Duration::from_secs(2)).then_some(()))
        })
        .await
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// A target for Prometheus; its host and port.
async fn exporter(errors: Errors, told: Arc<Mutex<Instant>>) -> Result<(String, JoinHandle<()>)> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = listener.local_addr()?.to_string();
    let task = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let shares = errors.get(PROMETHEUS);
            let lines = shares.iter().map(|(app, share)| {
                let labels = format!("namespace=\"{PROMETHEUS}\",app=\"{app}\"");
                format!("shop_errors_percent{{{labels}}} {share}\n")
            });
            let body = lines.collect::<Vec<_>>().concat();
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nconnection: close\r\n";
            let answer = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
            // A client that disconnects before the answer will ask again in a second.
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(answer.as_bytes()).await;
            let _ = stream.shutdown().await;
            note(&told, &shares);
        }
    });
    Ok((address, task))
}

fn note(told: &Mutex<Instant>, shares: &[(&str, f64)]) {
    if shares.iter().any(|(app, _)| *app == "web") {
        *told.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }
}

/// Reads the running images and pushes samples to the servers that take them, each second.
async fn feed(
    client: Client,
    graphite: Arc<Graphite>,
    influxdb: Arc<InfluxDb>,
    errors: Errors,
    told: Arc<Mutex<Instant>>,
) {
    loop {
        if let Err(error) = errors.look(&client).await {
            println!("the pods cannot be seen: {error:#}");
        }
        let mut taken = Ok(());
        for (app, share) in errors.get(GRAPHITE) {
            let series = format!("shop.{GRAPHITE}.{app}.errors");
            taken = taken.and(graphite.push(&series, share).await);
        }
        for (app, share) in errors.get(INFLUXDB) {
            let series = format!("errors,namespace={INFLUXDB},app={app}");
            taken = taken.and(influxdb.push(&series, "percent", share).await);
        }
        if let Err(error) = taken {
            println!("a sample was not taken: {error:#}");
        }
        note(&told, &[errors.get(GRAPHITE), errors.get(INFLUXDB)].concat());
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// A canary with the template of its namespace as its only metric.
fn judged_canary(metric: &str) -> Value {
    let analysis = json!({
        "interval": "10s", "threshold": 2, "iterations": 2,
        "metrics": [{
            "name": metric, "templateRef": { "name": "errors" }, "interval": "10s",
            "thresholdRange": { "max": MOST },
        }],
    });
    canary("kubernetes", "", &analysis)
}

async fn furnished(stage: &Stage, judge: &Judge) -> Result<()> {
    stage.furnish(judge.name, "shop:1.0.0").await?;
    if let Some(secret) = &judge.secret {
        stage.apply(judge.name, secret.clone()).await?;
    }
    stage.apply(judge.name, judge.template.clone()).await?;
    stage.apply(judge.name, judged_canary(judge.name)).await?;
    stage.reach(judge.name, "Initialized").await?;
    Ok(())
}

/// A release to all namespaces at once: its end, and the images of the primaries then.
async fn release(
    stage: &Stage,
    judges: &[Judge],
    version: &str,
    phase: &str,
    primary: &str,
) -> Result<()> {
    for judge in judges {
        stage.release(judge.name, &format!("shop:{version}")).await?;
    }
    for judge in judges {
        let by = format!("{version} judged by {}", judge.name);
        // The phase may still be that of the last rollout.
        let revision = stage.revision(judge.name).await?;
        let ended = |status: &Value| {
            status["lastAppliedSpec"] == revision
                && matches!(status["phase"].as_str(), Some("Succeeded" | "Failed"))
        };
        let status = stage.until(judge.name, &format!("{by} ends"), ended).await?;
        let decided = &status["lastDecision"];
        ensure!(
            status["phase"] == phase,
            "{by}: {} instead of {phase}: {decided:#}",
            status["phase"]
        );
        let image = stage.runs(judge.name, "web-primary").await?.0;
        ensure!(image == format!("shop:{primary}"), "{by}: the primary runs {image}");
    }
    println!("{version}: {phase} for all of {}", judges.len());
    Ok(())
}

/// The operator's last measured value.
async fn measured(operator: &Operator, metric: &str) -> Result<Option<f64>> {
    let page = operator.metrics().await?;
    let label = format!("metric=\"{metric}\"");
    let is_it =
        |line: &&str| line.starts_with("flagger_canary_metric_analysis{") && line.contains(&label);
    let Some(line) = page.lines().find(is_it) else { return Ok(None) };
    let value = line.rsplit(' ').next().context("a series without a value")?;
    Ok(Some(value.parse()?))
}

/// Whether an event of the canary has this reason and these words.
async fn was_told(stage: &Stage, namespace: &str, reason: &str, words: &str) -> Result<()> {
    let events = stage.events(namespace).await?;
    let is_it = |event: &Value| {
        event["reason"] == reason
            && event["message"].as_str().is_some_and(|message| message.contains(words))
    };
    let said: Vec<_> = events.iter().map(|event| &event["message"]).collect();
    ensure!(events.iter().any(is_it), "{namespace}: no {reason} with {words:?} in {said:#?}");
    Ok(())
}

#[test]
fn every_server_promotes_the_good_and_takes_back_the_bad() {
    inside("every_server_promotes_the_good_and_takes_back_the_bad", async || {
        let stage = Stage::start().await?;
        let servers = Servers::start(&stage).await?;
        let operator = stage.installation.start(&stage.plane, "operator").await?;
        let judges = servers.judges();
        for judge in &judges {
            furnished(&stage, judge).await?;
        }

        release(&stage, &judges, "2.0.0", "Succeeded", "2.0.0").await?;
        for judge in &judges {
            let value = measured(&operator, judge.name).await?;
            ensure!(value == Some(FEW), "{} measured {value:?}", judge.name);
        }

        servers.forget().await?;
        release(&stage, &judges, "3.0.0", "Failed", "2.0.0").await?;
        for judge in &judges {
            let value = measured(&operator, judge.name).await?;
            ensure!(value == Some(MANY), "{} measured {value:?}", judge.name);
            was_told(&stage, judge.name, "CheckFailed", "62.50 > 5").await?;
        }

        // A working server without samples of the canary passes no check either, also with samples of the
        // primary.
        servers.forget().await?;
        release(&stage, &judges, "4.0.0", "Failed", "2.0.0").await?;
        for judge in &judges {
            was_told(&stage, judge.name, "NotEnoughData", "no values found").await?;
        }
        println!("{} rollouts, judged by {} servers", 3 * judges.len(), judges.len());
        stage.nothing_was_denied()
    });
}
