//! Releases that are judged by real metric servers: Prometheus, Graphite and `InfluxDB`.
//!
//! The shipped operator asks each of them through a `MetricTemplate`, for a release of its own. What
//! they answer is what the test put into them: few errors, then many, then nothing more.

#![expect(clippy::print_stdout, reason = "what was judged is read by people")]

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
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

/// Errors in percent that are fine, that are not, and the most that may be.
const FEW: f64 = 0.5;
const MANY: f64 = 62.5;
const MOST: f64 = 5.0;
/// How old a sample may be that a query still finds. Checks come every ten seconds.
const WINDOW: Duration = Duration::from_secs(15);
const PATIENCE: Duration = Duration::from_mins(1);

/// One server with what is asked of it.
struct Judge {
    /// Of the provider, of the namespace, and of the metric.
    name: &'static str,
    template: Value,
    secret: Option<Value>,
}

/// The share of errors that every server is told of, each second; none means that nobody tells them anything.
#[derive(Clone, Default)]
struct Errors(Arc<Mutex<Option<f64>>>);

/// All servers, and what feeds them.
struct Servers {
    graphite: Arc<Graphite>,
    influxdb: Arc<InfluxDb>,
    prometheus: Prometheus,
    errors: Errors,
    pushed: Arc<AtomicU64>,
    tasks: Vec<JoinHandle<()>>,
}

// === impl Errors ===

impl Errors {
    fn set(&self, share: Option<f64>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = share;
    }

    fn get(&self) -> Option<f64> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Servers ===

impl Servers {
    async fn start(stage: &Stage) -> Result<Self> {
        let (parts, folder) = (stage.plane.parts(), stage.plane.folder());
        let errors = Errors::default();
        errors.set(Some(FEW));
        let (address, exporter) = exporter(errors.clone()).await?;
        let own = folder.join("signals");
        std::fs::create_dir_all(&own)?;
        let prometheus = Prometheus::start(parts, &own, &[("shop", address)]).await?;
        let graphite = Arc::new(Graphite::start(parts, folder).await?);
        let influxdb = Arc::new(InfluxDb::start(parts, folder).await?);
        let pushed = Arc::default();
        let feeder = tokio::spawn(feed(
            Arc::clone(&graphite),
            Arc::clone(&influxdb),
            errors.clone(),
            Arc::clone(&pushed),
        ));
        let tasks = vec![exporter, feeder];
        Ok(Self { graphite, influxdb, prometheus, errors, pushed, tasks })
    }

    /// How each of them is asked: the newest share of errors of the canary, within the window.
    fn judges(&self) -> [Judge; 3] {
        let template = |kind: &str, address: String, query: String| {
            json!({
                "apiVersion": CANARY.0, "kind": "MetricTemplate", "metadata": { "name": "errors" },
                "spec": { "provider": { "type": kind, "address": address }, "query": query },
            })
        };
        let prometheus = r#"max_over_time(shop_errors_percent{app="{{ target }}"}[5s])"#;
        let graphite =
            format!("target=shop.{{{{ target }}}}.errors&from=-{}s&until=now", WINDOW.as_secs());
        let influxdb = format!(
            r#"from(bucket: "{}") |> range(start: -{}s) |> filter(fn: (r) => r._measurement == "errors" and r.app == "{{{{ target }}}}") |> last()"#,
            InfluxDb::BUCKET,
            WINDOW.as_secs(),
        );
        let token = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "influxdb" },
            "stringData": { "token": self.influxdb.token(), "org": "shop" },
        });
        let mut by_influxdb = template("influxdb", self.influxdb.url(), influxdb);
        by_influxdb["spec"]["provider"]["secretRef"] = json!({ "name": "influxdb" });
        [
            Judge {
                name: "prometheus",
                template: template("prometheus", self.prometheus.url(), prometheus.to_owned()),
                secret: None,
            },
            Judge {
                name: "graphite",
                template: template("graphite", self.graphite.url(), graphite),
                secret: None,
            },
            Judge { name: "influxdb", template: by_influxdb, secret: Some(token) },
        ]
    }

    /// Changes what the servers are told, and waits until they answer by that alone.
    async fn tell(&self, share: Option<f64>) -> Result<()> {
        self.errors.set(share);
        tokio::time::sleep(WINDOW).await;
        let before = self.pushed.load(Ordering::Relaxed);
        if share.is_some() {
            eventually("samples are pushed", PATIENCE, async || {
                Ok((self.pushed.load(Ordering::Relaxed) > before + 2).then_some(()))
            })
            .await?;
        }
        eventually("Prometheus has scraped the same", PATIENCE, async || {
            let seen = self.prometheus.number("max_over_time(shop_errors_percent[5s])").await?;
            Ok((seen == share).then_some(()))
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

/// What Prometheus scrapes; its host and port.
async fn exporter(errors: Errors) -> Result<(String, JoinHandle<()>)> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = listener.local_addr()?.to_string();
    let task = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let line =
                errors.get().map(|share| format!("shop_errors_percent{{app=\"web\"}} {share}\n"));
            let body = line.unwrap_or_default();
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nconnection: close\r\n";
            let answer = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
            // One that goes away before it is answered will ask again in a second.
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(answer.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    Ok((address, task))
}

/// Tells the servers that take samples, each second.
async fn feed(
    graphite: Arc<Graphite>,
    influxdb: Arc<InfluxDb>,
    errors: Errors,
    pushed: Arc<AtomicU64>,
) {
    loop {
        if let Some(share) = errors.get() {
            let taken = graphite.push("shop.web.errors", share).await;
            let taken = taken.and(influxdb.push("errors,app=web", "percent", share).await);
            match taken {
                Ok(()) => _ = pushed.fetch_add(1, Ordering::Relaxed),
                Err(error) => println!("a sample was not taken: {error:#}"),
            }
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// A canary that is judged by the template of its namespace and by nothing else.
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

/// A release to all namespaces at once: how it ends, and what the primaries run then.
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
        // It may still stand where the last one ended.
        let moving = |status: &Value| status["phase"] == "Progressing";
        stage.until(judge.name, &format!("{by} starts"), moving).await?;
    }
    for judge in judges {
        let by = format!("{version} judged by {}", judge.name);
        let ended =
            |status: &Value| matches!(status["phase"].as_str(), Some("Succeeded" | "Failed"));
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

/// The value that the operator says it measured last.
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

        servers.tell(Some(FEW)).await?;
        release(&stage, &judges, "2.0.0", "Succeeded", "2.0.0").await?;
        for judge in &judges {
            let value = measured(&operator, judge.name).await?;
            ensure!(value == Some(FEW), "{} measured {value:?}", judge.name);
        }

        servers.tell(Some(MANY)).await?;
        release(&stage, &judges, "3.0.0", "Failed", "2.0.0").await?;
        for judge in &judges {
            let value = measured(&operator, judge.name).await?;
            ensure!(value == Some(MANY), "{} measured {value:?}", judge.name);
            was_told(&stage, judge.name, "CheckFailed", "62.50 > 5").await?;
        }

        // A server that works and has nothing to say passes nobody either.
        servers.tell(None).await?;
        release(&stage, &judges, "4.0.0", "Failed", "2.0.0").await?;
        for judge in &judges {
            was_told(&stage, judge.name, "NotEnoughData", "no values found").await?;
        }
        println!("{} rollouts, judged by {} servers", 3 * judges.len(), judges.len());
        stage.nothing_was_denied()
    });
}
