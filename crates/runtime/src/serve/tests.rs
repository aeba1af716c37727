//! Callers that hold connections, over real sockets.

use std::net::{Ipv4Addr, SocketAddr};

use axum::routing::{any, get, post};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpSocket,
    sync::Semaphore,
};

use super::*;

const MAX: usize = 16;
const BIG: usize = 8 * 1024 * 1024;
/// How long anything may take on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(30);
/// Where probes come from, and where all others do.
const KUBELET: Ipv4Addr = Ipv4Addr::LOCALHOST;
const POD: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

const PROBE: &str = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";
const HALF_HEAD: &str = "GET /healthz HTTP/1.1\r\nHost: x\r\nAccept: ";
const HALF_BODY: &str = "POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf";
const SLOW: &str = "GET /slow HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
const UNREAD: &str = "GET /big HTTP/1.1\r\nHost: x\r\n\r\n";

struct Served {
    address: SocketAddr,
    /// Requests of `/slow` that have begun; each waits for a permit of the next.
    begun: Arc<Semaphore>,
    released: Arc<Semaphore>,
}

async fn served() -> Served {
    let listener = TcpListener::bind((KUBELET, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let begun = Arc::new(Semaphore::new(0));
    let released = Arc::new(Semaphore::new(0));
    let (begins, waits) = (Arc::clone(&begun), Arc::clone(&released));
    let router = Router::new()
        .route("/healthz", any(async || "OK"))
        .route("/big", get(async || vec![b'x'; BIG]))
        .route("/body", post(async |body: String| body))
        .route(
            "/slow",
            get(async move || {
                begins.add_permits(1);
                drop(waits.acquire().await);
                "slow"
            }),
        );
    let bounds = Bounds { connections_max: MAX, grace: Duration::ZERO };
    tokio::spawn(serve(listener, router, std::future::pending(), bounds));
    Served { address, begun, released }
}

async fn connect(address: SocketAddr, from: Ipv4Addr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((from, 0).into()).unwrap();
    socket.connect(address).await.unwrap()
}

async fn send(address: SocketAddr, from: Ipv4Addr, text: &str) -> TcpStream {
    let mut stream = connect(address, from).await;
    stream.write_all(text.as_bytes()).await.unwrap();
    stream
}

/// The rest of what a connection says, until it is closed or reset.
async fn rest(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    let reading = stream.read_to_end(&mut answer);
    let _reset = timeout(PATIENCE, reading).await.expect("it is closed in the end");
    String::from_utf8(answer).unwrap()
}

async fn is_closing(connection: &Connection) -> bool {
    timeout(Duration::ZERO, connection.asked_to_close()).await.is_ok()
}

/// One answer of a connection that stays open.
async fn probe(stream: &mut TcpStream) -> String {
    stream.write_all(PROBE.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"OK") {
        let read = timeout(PATIENCE, stream.read_buf(&mut answer)).await.expect("an answer");
        assert_ne!(read.unwrap(), 0, "closed after {:?}", String::from_utf8_lossy(&answer));
    }
    String::from_utf8(answer).unwrap()
}

#[tokio::test]
async fn probes_are_answered_whatever_holds_connections() {
    let kinds = ["", HALF_HEAD, HALF_BODY, PROBE, UNREAD, SLOW];
    for from in [POD, KUBELET] {
        for text in kinds {
            let served = served().await;
            let mut held = Vec::new();
            for _ in 0..MAX * 3 {
                held.push(send(served.address, from, text).await);
            }
            for _ in 0..3 {
                let mut stream = connect(served.address, KUBELET).await;
                let answer = probe(&mut stream).await;
                assert!(answer.starts_with("HTTP/1.1 200"), "{from} {text:?}: {answer}");
            }
        }
    }
}

#[tokio::test]
async fn the_oldest_connection_gives_way_and_no_more_than_are_needed() {
    let served = served().await;
    let mut held = Vec::new();
    for _ in 0..MAX + 4 {
        held.push(send(served.address, POD, HALF_HEAD).await);
        // Accepted in this order.
        probe(&mut connect(served.address, KUBELET).await).await;
    }
    let (first, last) = held.split_at_mut(4);
    for stream in first {
        assert_eq!(rest(stream).await, "");
    }
    for stream in last.iter_mut().rev().take(MAX / 2) {
        stream.write_all(b"*/*\r\n\r\n").await.unwrap();
        let mut byte = [0];
        assert_eq!(stream.read(&mut byte).await.unwrap(), 1, "it was not closed");
    }
}

#[tokio::test]
async fn a_flood_ends_its_own_connections_and_not_those_of_others() {
    let served = served().await;
    let mut scraper = connect(served.address, KUBELET).await;
    probe(&mut scraper).await;
    let mut held = Vec::new();
    for _ in 0..MAX * 3 {
        held.push(send(served.address, POD, HALF_HEAD).await);
    }
    assert!(probe(&mut scraper).await.starts_with("HTTP/1.1 200"), "it is the oldest, and stays");
}

#[tokio::test]
async fn a_request_that_is_worked_on_is_not_closed_and_a_share_is_left_for_probes() {
    let served = served().await;
    let mut slow = Vec::new();
    for _ in 0..MAX / 4 * 3 {
        slow.push(send(served.address, KUBELET, SLOW).await);
    }
    drop(served.begun.acquire_many(u32::try_from(slow.len()).unwrap()).await.unwrap());
    let answer = rest(&mut send(served.address, POD, SLOW).await).await;
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert!(answer.contains("retry-after: 10\r\n"), "{answer}");
    let mut held = Vec::new();
    for _ in 0..MAX * 3 {
        held.push(send(served.address, POD, HALF_HEAD).await);
    }
    probe(&mut connect(served.address, POD).await).await;
    served.released.add_permits(slow.len());
    for mut stream in slow {
        assert!(rest(&mut stream).await.ends_with("slow"), "answered");
    }
}

#[tokio::test]
async fn half_bodies_give_way_to_other_requests() {
    let served = served().await;
    let mut held = Vec::new();
    for _ in 0..MAX * 3 {
        held.push(send(served.address, POD, HALF_BODY).await);
    }
    served.released.add_permits(1);
    let answer = rest(&mut send(served.address, POD, SLOW).await).await;
    assert!(answer.ends_with("slow"), "{answer}");
    let whole =
        "POST /body HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 4\r\n\r\nbody";
    let answer = rest(&mut send(served.address, POD, whole).await).await;
    assert!(answer.ends_with("\r\n\r\nbody"), "{answer}");
}

#[tokio::test]
async fn connections_without_a_head_end() {
    let served = served().await;
    let mut half = send(served.address, POD, HALF_HEAD).await;
    let mut idle = connect(served.address, POD).await;
    probe(&mut idle).await;
    assert_eq!(rest(&mut half).await, "");
    assert_eq!(rest(&mut idle).await, "");
}

#[tokio::test]
async fn old_connections_close_unless_a_request_is_worked_on() {
    let connections = Connections::new(MAX);
    let add = || connections.add(POD.into());
    let (waiting, reading, working, answered, probed) = (add(), add(), add(), add(), add());
    reading.asked(true).unwrap();
    working.asked(false).unwrap();
    answered.asked(false).unwrap();
    answered.answered();
    connections.close_older_than(ANSWER_TIMEOUT);
    for connection in [&waiting, &reading, &working, &answered, &probed] {
        assert!(!is_closing(connection).await, "all are young");
    }
    connections.close_older_than(Duration::ZERO);
    for connection in [&waiting, &reading, &answered] {
        assert!(is_closing(connection).await);
    }
    assert!(!is_closing(&working).await);
    // Its request arrived before it noticed.
    probed.probed();
    assert!(!is_closing(&probed).await);
}

#[tokio::test]
async fn a_head_without_end_is_refused() {
    let served = served().await;
    let mut stream = send(served.address, POD, HALF_HEAD).await;
    let line = "x".repeat(BUFFER_BYTES_MAX);
    let _refused_early = stream.write_all(line.as_bytes()).await;
    let answer = rest(&mut stream).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
}
