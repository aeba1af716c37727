//! The pages over real sockets.

use std::net::SocketAddr;

use jiff::Timestamp;
use kube_sandbox::Settings;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::{Notify, oneshot},
    task::JoinHandle,
    time::timeout,
};

use super::*;
use crate::clock::testing::VirtualClock;

struct Served {
    address: SocketAddr,
    clock: VirtualClock,
    health: Arc<Health>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
    /// Notified when a request for `/slow` arrives.
    begun: Arc<Notify>,
    /// Lets `/slow` answer.
    told: Arc<Notify>,
}

async fn served() -> Served {
    let clock = VirtualClock::of(&Settings::for_tests().clock);
    let health = Health::new(Arc::new(clock.clone()));
    let telemetry = Arc::new(Telemetry::new("1.2.3", "istio", Timestamp::UNIX_EPOCH));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let (begun, told) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (tell, wait) = (Arc::clone(&begun), Arc::clone(&told));
    let slow = get(async move || {
        tell.notify_one();
        wait.notified().await;
        "slow"
    });
    let router = routes(telemetry, Arc::clone(&health)).route("/slow", slow);
    let task = tokio::spawn(serve(listener, router, async { drop(stopped.await) }));
    Served { address, clock, health, stop, task, begun, told }
}

/// Sends `head` and reads until the server closes.
async fn exchange(address: SocketAddr, head: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    let _closed_or_reset = stream.read_to_string(&mut answer).await;
    answer
}

async fn fetch(served: &Served, path: &str) -> String {
    let head = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    exchange(served.address, &head).await
}

#[tokio::test]
async fn the_pages_are_where_flaggers_are() {
    let served = served().await;
    let metrics = fetch(&served, "/metrics").await;
    assert!(metrics.contains("content-type: text/plain; version=0.0.4; charset=utf-8"));
    assert!(metrics.contains("flagger_info{version=\"1.2.3\",mesh_provider=\"istio\"} 1"));
    let health = fetch(&served, "/healthz").await;
    assert!(health.starts_with("HTTP/1.1 200 OK") && health.ends_with("\r\n\r\nOK"), "{health}");
    assert!(fetch(&served, "/").await.contains("/readyz"));
    assert!(fetch(&served, "/nowhere").await.starts_with("HTTP/1.1 404"));
}

#[tokio::test]
async fn health_tells_of_a_loop_that_has_stalled_and_not_of_one_that_ended() {
    let served = served().await;
    let slow = served.health.expect_beats("schedule", Duration::from_mins(1));
    let fast = served.health.expect_beats("workers", Duration::from_secs(30));
    served.clock.cluster.advance(Duration::from_secs(40));
    slow.beat();
    served.clock.cluster.advance(Duration::from_secs(5));
    let health = fetch(&served, "/healthz").await;
    assert!(health.starts_with("HTTP/1.1 500"), "{health}");
    assert!(health.ends_with("\r\n\r\nworkers has not turned for 45 s\n"), "{health}");
    fast.beat();
    assert!(fetch(&served, "/healthz").await.ends_with("OK"));
    served.clock.cluster.advance(Duration::from_secs(50));
    drop(fast);
    assert!(fetch(&served, "/healthz").await.ends_with("OK"));
}

#[tokio::test]
async fn readiness_waits_for_everything_that_was_announced() {
    let served = served().await;
    let canaries = served.health.expect_ready("cache of canaries");
    let ready = fetch(&served, "/readyz").await;
    assert!(ready.starts_with("HTTP/1.1 503"), "{ready}");
    assert!(ready.ends_with("cache of canaries is not ready\n"), "{ready}");
    canaries.set(true);
    assert!(fetch(&served, "/readyz").await.ends_with("OK"));
    canaries.set(false);
    assert!(fetch(&served, "/readyz").await.starts_with("HTTP/1.1 503"));
    canaries.tell(Some("no news of Canary".to_owned()));
    assert!(fetch(&served, "/readyz").await.ends_with("\r\n\r\nno news of Canary\n"));
    canaries.tell(None);
    assert!(fetch(&served, "/readyz").await.ends_with("OK"));
}

#[tokio::test]
async fn an_answer_under_way_is_finished_on_stop() {
    let served = served().await;
    let address = served.address;
    let head = "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n";
    let asked = tokio::spawn(exchange(address, head));
    served.begun.notified().await;
    served.stop.send(()).unwrap();
    while TcpStream::connect(address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    served.told.notify_one();
    assert!(asked.await.unwrap().ends_with("slow"), "the connection is not kept open");
    served.task.await.unwrap();
}

#[tokio::test]
async fn silent_connections_do_not_delay_the_stop() {
    let served = served().await;
    let mut silent = Vec::new();
    for _ in 0..BOUNDS.connections_max + 8 {
        silent.push(TcpStream::connect(served.address).await.unwrap());
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    served.stop.send(()).unwrap();
    timeout(Duration::from_secs(5), served.task).await.unwrap().unwrap();
}

#[tokio::test]
async fn probes_are_answered_while_others_hold_all_connections() {
    let served = served().await;
    let half = "GET /metrics HTTP/1.1\r\nHost: x\r\n";
    let unread = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n".repeat(50);
    for text in ["", half, &unread] {
        let mut held = Vec::new();
        for _ in 0..BOUNDS.connections_max * 4 {
            let mut stream = TcpStream::connect(served.address).await.unwrap();
            stream.write_all(text.as_bytes()).await.unwrap();
            held.push(stream);
        }
        for path in ["/healthz", "/readyz"] {
            let answer = timeout(Duration::from_secs(4), fetch(&served, path)).await;
            let answer = answer.expect("before connections without a head end by themselves");
            assert!(answer.starts_with("HTTP/1.1 200 OK"), "{path} {text:?}: {answer}");
        }
    }
}

#[tokio::test]
async fn nonsense_is_answered_or_cut_off() {
    let served = served().await;
    let answer = exchange(served.address, "\u{1}\u{2}\u{3} nonsense\r\n\r\n").await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400"), "{answer}");
    let posted =
        "POST /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    assert!(exchange(served.address, posted).await.starts_with("HTTP/1.1 405"));
}
