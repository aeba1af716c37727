//! Figures of the sandbox: start-up, writes, watches, memory. `make bench` runs it.
//!
//! A small harness instead of a benchmark framework: each figure is one number with a target beside it.
//! Nothing here fails a build; a machine under load is not a bug.

use std::{
    fmt::Display,
    net::SocketAddr,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use kube_sandbox::{
    Sandbox, Settings,
    cluster::{CONFIG_MAPS, Cluster},
    http::listen::Listener,
    server::User,
};
use serde_json::json;
use tokio::{net::TcpStream, sync::mpsc};

const OBJECTS: u32 = 10_000;
const WATCHERS: usize = 1_000;
const LOOPBACK: ([u8; 4], u16) = ([127, 0, 0, 1], 0);

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn main() -> Outcome<()> {
    // `cargo test --benches` only checks that it runs.
    if std::env::args().any(|argument| argument == "--test") {
        return Ok(());
    }
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        start_up().await?;
        process_start_up().await?;
        creates().await?;
        fan_out().await?;
        memory()
    })
}

#[expect(clippy::print_stdout, reason = "the figures are what a benchmark is for")]
fn report(what: &str, figure: impl Display, target: &str) {
    println!("{what:<58} {figure:>14}   target {target}");
}

fn sandbox() -> Outcome<Sandbox> {
    let sandbox = Sandbox::new(Settings::default());
    sandbox.load(tidegate_api::crds())?;
    Ok(sandbox)
}

async fn serve(sandbox: &Sandbox) -> Outcome<Listener> {
    Ok(sandbox.listen(SocketAddr::from(LOOPBACK)).await?)
}

/// From nothing to an answer over HTTP, inside one process.
async fn start_up() -> Outcome<()> {
    let mut best = Duration::MAX;
    for _ in 0..5 {
        let began = Instant::now();
        let sandbox = sandbox()?;
        let listener = serve(&sandbox).await?;
        let mut client = Client::connect(listener.address).await?;
        client.get("/api/v1/namespaces").await?;
        best = best.min(began.elapsed());
        listener.stop().await;
    }
    report("start-up with 7 CRDs to first answer, in process", ms(best), "100 ms");
    Ok(())
}

/// The same for the shipped binary, from exec to a list of nodes.
async fn process_start_up() -> Outcome<()> {
    let Some(binary) = binary() else {
        report("start-up of the binary to first answer", "not built", "100 ms");
        return Ok(());
    };
    let mut best = Duration::MAX;
    for _ in 0..5 {
        let folder = std::env::temp_dir().join(format!("tidegate-bench-{}", std::process::id()));
        let port = free_port()?;
        let began = Instant::now();
        let child = Command::new(&binary)
            .args(["sandbox", "--listen", &format!("127.0.0.1:{port}"), "--kubeconfig"])
            .arg(folder.join("kubeconfig"))
            .stderr(Stdio::null())
            .spawn()?;
        let _child = Reaped(child);
        let mut client = loop {
            match Client::connect(SocketAddr::from(([127, 0, 0, 1], port))).await {
                Ok(client) => break client,
                Err(_) => tokio::time::sleep(Duration::from_millis(1)).await,
            }
        };
        client.get("/api/v1/nodes").await?;
        best = best.min(began.elapsed());
    }
    report("start-up of the binary to first answer", ms(best), "100 ms");
    Ok(())
}

/// One client, one connection, one request after the other.
async fn creates() -> Outcome<()> {
    let sandbox = sandbox()?;
    sandbox.run();
    let listener = serve(&sandbox).await?;
    let mut client = Client::connect(listener.address).await?;
    let began = Instant::now();
    for index in 0..OBJECTS {
        client.create(index).await?;
    }
    let rate = f64::from(OBJECTS) / began.elapsed().as_secs_f64();
    report("ConfigMaps created over HTTP by one client", format!("{rate:.0}/s"), "3000/s");
    let began = Instant::now();
    let bytes = client.get("/api/v1/namespaces/default/configmaps").await?;
    let took = ms(began.elapsed());
    report("listing all of them", format!("{} KiB, {took}", bytes / 1024), "-");
    listener.stop().await;
    Ok(())
}

/// One write, a thousand watchers: until the last of them has received it.
async fn fan_out() -> Outcome<()> {
    let sandbox = sandbox()?;
    let listener = serve(&sandbox).await?;
    let (seen, mut arrivals) = mpsc::unbounded_channel();
    for _ in 0..2 {
        let stream = TcpStream::connect(listener.address).await?;
        let (sender, connection) =
            http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        for _ in 0..WATCHERS / 2 {
            let mut sender = sender.clone();
            let seen = seen.clone();
            let path = "http://sandbox/api/v1/namespaces/default/configmaps?watch=1";
            let request = Request::get(path).body(Full::<Bytes>::default())?;
            tokio::spawn(async move {
                let Ok(response) = sender.send_request(request).await else { return };
                let mut body = response.into_body();
                let _ = seen.send(());
                while let Some(Ok(_)) = body.frame().await {
                    let _ = seen.send(());
                }
            });
        }
    }
    let all = async |arrivals: &mut mpsc::UnboundedReceiver<()>| {
        for _ in 0..WATCHERS {
            arrivals.recv().await;
        }
    };
    all(&mut arrivals).await;
    let mut client = Client::connect(listener.address).await?;
    let mut best = Duration::MAX;
    for index in 0..5 {
        let began = Instant::now();
        client.create(index).await?;
        all(&mut arrivals).await;
        best = best.min(began.elapsed());
    }
    report("one write reaches 1,000 watchers over HTTP/2", ms(best), "all of them");
    listener.stop().await;
    Ok(())
}

/// Resident memory per object beyond its JSON.
fn memory() -> Outcome<()> {
    let sandbox = sandbox()?;
    let user = sandbox.local(User::admin());
    let before = resident_bytes()?;
    for index in 0..5 * OBJECTS {
        user.create(CONFIG_MAPS, "default", config_map(index))?;
        if index % 1_000 == 0 {
            sandbox.settle();
        }
    }
    let after = resident_bytes()?;
    let table = kube_sandbox::store::TableKey::new("", "configmaps");
    let (_, stored) = sandbox.server().store.list(&table, None);
    let json: usize = stored.iter().map(|object| object.json.len()).sum();
    let over = after.saturating_sub(before).saturating_sub(json) / stored.len().max(1);
    report("memory per small object over its JSON", format!("{over} bytes"), "4096 bytes");
    report("its JSON", format!("{} bytes", json / stored.len().max(1)), "-");
    Ok(())
}

fn config_map(index: u32) -> serde_json::Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": format!("settings-{index}"), "labels": { "app": "bench" } },
        "data": { "colour": "blue", "index": index.to_string() },
    })
}

fn resident_bytes() -> Outcome<usize> {
    let statm = std::fs::read_to_string("/proc/self/statm")?;
    let pages = statm.split_whitespace().nth(1).ok_or("no resident size")?;
    Ok(pages.parse::<usize>()? * 4096)
}

fn ms(duration: Duration) -> String {
    format!("{:.1} ms", duration.as_secs_f64() * 1_000.0)
}

fn binary() -> Option<PathBuf> {
    let bench = std::env::current_exe().ok()?;
    let release = bench.parent()?.parent()?;
    Some(release.join("tidegate")).filter(|path| path.exists())
}

fn free_port() -> Outcome<u16> {
    Ok(std::net::TcpListener::bind(SocketAddr::from(LOOPBACK))?.local_addr()?.port())
}

/// A child that does not outlive the benchmark.
struct Reaped(Child);

impl Drop for Reaped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A keep-alive HTTP/1.1 connection.
struct Client(http1::SendRequest<Full<Bytes>>);

impl Client {
    async fn connect(address: SocketAddr) -> Outcome<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Self(sender))
    }

    async fn send(&mut self, request: Request<Full<Bytes>>) -> Outcome<usize> {
        self.0.ready().await?;
        let response = self.0.send_request(request).await?;
        let is_success = response.status().is_success();
        let body = response.into_body().collect().await?.to_bytes();
        if is_success { Ok(body.len()) } else { Err(String::from_utf8_lossy(&body).into()) }
    }

    async fn get(&mut self, path: &str) -> Outcome<usize> {
        self.send(Request::get(path).header("host", "sandbox").body(Full::default())?).await
    }

    async fn create(&mut self, index: u32) -> Outcome<usize> {
        let request = Request::post("/api/v1/namespaces/default/configmaps")
            .header("host", "sandbox")
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(config_map(index).to_string())))?;
        self.send(request).await
    }
}
