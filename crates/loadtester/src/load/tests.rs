//! Load against servers that behave in ways of their own.

use std::{
    io,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::{ServerConfig, crypto::ring, pki_types::PrivatePkcs8KeyDer};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Notify,
};
use tokio_rustls::TlsAcceptor;

use super::{BodyFiles, Bounds, Failure, Plan, PlanError, Report, Running, Tool};
use crate::words::{Meta, split};

/// How a server treats its callers.
#[derive(Clone, Copy)]
enum Manner {
    /// Answers with the request.
    Echo,
    /// As `Echo`, over TLS.
    Tls,
    /// Answers once, then closes without a word.
    OnceAConnection,
    /// Answers once, takes a second request and closes without a word.
    SwallowsTheSecond,
    /// Answers once and, before it closes, sends 408 without a request.
    ScoldsTheIdle,
    /// As `Echo`, and announces after each answer that it goes away.
    GoesAway,
    /// Takes the request and says nothing.
    Silent,
    /// Answers the first request after a second, then at once.
    StallsFirst,
    /// Answers with garbage.
    Garbage,
}

struct Server {
    port: u16,
    connections: Arc<AtomicU64>,
    requests: Arc<AtomicU64>,
}

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const CERT: &[u8] = include_bytes!("testdata/self-signed.cert.der");
const KEY: &[u8] = include_bytes!("testdata/self-signed.key.der");

// === impl Server ===

impl Server {
    async fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (connections, requests) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
        let server = Self { port, connections: Arc::clone(&connections), requests };
        let requests = Arc::clone(&server.requests);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                connections.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(converse(manner, stream, Arc::clone(&requests)));
            }
        });
        server
    }

    async fn load(&self, scheme: &str, arguments: &str) -> Report {
        let line = format!("{arguments} {scheme}://127.0.0.1:{}/a/b?c=d", self.port);
        Running::start(plan(&line).unwrap()).unwrap().finish().await
    }

    fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }
}

fn plan(line: &str) -> Result<Plan, PlanError> {
    let bounds = Bounds { connections_max: 100, body_files: BodyFiles::Refused };
    Plan::parse(Tool::Hey, &split(line, Meta::Refuse).unwrap(), &bounds)
}

async fn converse(manner: Manner, stream: TcpStream, requests: Arc<AtomicU64>) {
    match manner {
        Manner::Echo => echo(stream, requests).await,
        Manner::Tls => {
            let Ok(stream) = acceptor().accept(stream).await else { return };
            echo(stream, requests).await;
        }
        Manner::OnceAConnection => {
            let _gone = answer_raw(stream, 1, Duration::ZERO, OK).await;
        }
        Manner::SwallowsTheSecond => {
            let mut stream = stream;
            if answer_some(&mut stream, 1, Duration::ZERO, OK).await.is_ok() {
                let _gone = stream.read(&mut [0; 4096]).await;
            }
        }
        Manner::ScoldsTheIdle => {
            let mut stream = stream;
            if answer_some(&mut stream, 1, Duration::ZERO, OK).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(10)).await;
                let _gone =
                    stream.write_all(b"HTTP/1.1 408 Late\r\nContent-Length: 0\r\n\r\n").await;
            }
        }
        Manner::GoesAway => go_away(stream, requests).await,
        Manner::StallsFirst => {
            let stall =
                Duration::from_secs(u64::from(requests.fetch_add(1, Ordering::Relaxed) == 0));
            let _gone = answer_raw(stream, u32::MAX, stall, OK).await;
        }
        Manner::Silent => {
            let _gone = answer_raw(stream, u32::MAX, Duration::from_mins(1), "").await;
        }
        Manner::Garbage => {
            let _gone = answer_raw(stream, 1, Duration::ZERO, "220 smtp.test ESMTP\r\n").await;
        }
    }
}

/// Answers `times` requests, the first after `stall`, and closes.
async fn answer_raw(
    mut stream: TcpStream,
    times: u32,
    stall: Duration,
    answer: &str,
) -> io::Result<()> {
    answer_some(&mut stream, times, stall, answer).await
}

async fn answer_some(
    stream: &mut TcpStream,
    times: u32,
    stall: Duration,
    answer: &str,
) -> io::Result<()> {
    let mut buffer = [0; 4096];
    for turn in 0..times {
        if stream.read(&mut buffer).await? == 0 {
            break;
        }
        if turn == 0 {
            tokio::time::sleep(stall).await;
        }
        stream.write_all(answer.as_bytes()).await?;
    }
    Ok(())
}

/// 200 and the body of a POST; 404 for all but `/a/b?c=d`; 500 without the right host.
async fn echo<S>(stream: S, requests: Arc<AtomicU64>)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request: Request<Incoming>| {
        requests.fetch_add(1, Ordering::Relaxed);
        async move {
            let host = request.headers().get("host").map(|it| it.to_str().unwrap().to_owned());
            let host = host.or_else(|| request.uri().authority().map(ToString::to_string)).unwrap();
            let status = match (host.as_str(), request.uri().path_and_query().unwrap().as_str()) {
                ("wrong.test", _) => 500,
                (_, "/a/b?c=d") => 200,
                _ => 404,
            };
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let response = Response::builder().status(status).body(Full::new(body)).unwrap();
            Ok::<_, std::convert::Infallible>(response)
        }
    });
    let server = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
    let _gone = server.serve_connection(TokioIo::new(stream), service).await;
}

/// HTTP/2 whose every answer is followed by a GOAWAY.
async fn go_away(stream: TcpStream, requests: Arc<AtomicU64>) {
    let answered = Arc::new(Notify::new());
    let answering = Arc::clone(&answered);
    let service = service_fn(move |_: Request<Incoming>| {
        requests.fetch_add(1, Ordering::Relaxed);
        answering.notify_one();
        async { Ok::<_, std::convert::Infallible>(Response::new(Full::<Bytes>::default())) }
    });
    let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    let mut connection = pin!(server.serve_connection(TokioIo::new(stream), service));
    loop {
        tokio::select! {
            biased;
            () = answered.notified() => connection.as_mut().graceful_shutdown(),
            _ = connection.as_mut() => return,
        }
    }
}

fn acceptor() -> TlsAcceptor {
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![CERT.to_vec().into()], PrivatePkcs8KeyDer::from(KEY.to_vec()).into())
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    TlsAcceptor::from(Arc::new(config))
}

fn failures(report: &Report) -> Vec<(Failure, u64)> {
    report.stats.failures().collect()
}

#[tokio::test]
async fn every_request_is_answered_on_kept_connections() {
    let server = Server::start(Manner::Echo).await;
    let report = server.load("http", "-n 103 -c 4 -m POST -d 'hello you'").await;
    assert_eq!(report.stats.statuses().collect::<Vec<_>>(), [(200, 103)]);
    assert_eq!(failures(&report), []);
    assert_eq!(report.stats.bytes, 103 * 9);
    assert_eq!((report.stats.connections, server.connections()), (4, 4));
    assert_eq!(report.stats.latency.count(), 103);
    assert!(report.text().contains("HTTP/1.1"), "{}", report.text());
}

#[tokio::test]
async fn connections_are_not_kept_when_asked_not_to() {
    let server = Server::start(Manner::Echo).await;
    let report = server.load("http", "-n 20 -c 2 -disable-keepalive").await;
    assert_eq!(report.stats.good(), 20);
    assert_eq!(server.connections(), 20);
}

#[tokio::test]
async fn http2_and_tls_are_spoken_where_asked_for() {
    let tls = Server::start(Manner::Tls).await;
    let plain = Server::start(Manner::Echo).await;
    let cases = [
        ("TLS with HTTP/1.1", &tls, "https", "", 0, "HTTP/1.1"),
        ("TLS with HTTP/2", &tls, "https", "-h2", 40, "HTTP/2,"),
        ("HTTP/2 without TLS", &plain, "http", "-h2c", 40, "HTTP/2 without TLS"),
        ("as hey, HTTP/1.1 without TLS", &plain, "http", "-h2", 0, "note: -h2 needs https"),
    ];
    for (reason, server, scheme, flags, http2, shown) in cases {
        let arguments = format!("-n 40 -c 3 -m POST -d hello {flags}");
        let report = server.load(scheme, &arguments).await;
        assert_eq!(failures(&report), [], "{reason}");
        assert_eq!((report.stats.good(), report.stats.http2), (40, http2), "{reason}");
        assert_eq!(report.stats.bytes, 200, "{reason}");
        assert!(report.text().contains(shown), "{reason}: {}", report.text());
    }
    assert_eq!(tls.connections(), 6);
}

#[tokio::test]
async fn a_certificate_is_verified_when_asked_for() {
    let server = Server::start(Manner::Tls).await;
    let report = server.load("https", "-n 2 -c 1 -verify -host localhost").await;
    assert_eq!(failures(&report), [(Failure::Tls, 2)]);
}

#[tokio::test]
async fn the_host_is_the_one_asked_for() {
    let server = Server::start(Manner::Echo).await;
    let report = server.load("http", "-n 1 -c 1 -host wrong.test").await;
    assert_eq!(report.stats.statuses().collect::<Vec<_>>(), [(500, 1)]);
    assert_eq!(report.stats.good(), 0);
    let report = server.load("http", "-n 1 -c 1 -h2c -host wrong.test").await;
    assert_eq!(report.stats.statuses().collect::<Vec<_>>(), [(500, 1)]);
}

#[tokio::test]
async fn a_kept_connection_that_was_closed_is_no_error() {
    let server = Server::start(Manner::OnceAConnection).await;
    let report = server.load("http", "-n 10 -c 1").await;
    assert_eq!(failures(&report), []);
    assert_eq!(server.connections(), 10);
}

/// A server that closes idle connections does not fail: nothing was sent yet.
#[tokio::test]
async fn a_post_is_not_sent_into_a_connection_that_was_closed_while_it_idled() {
    for (manner, flags) in [
        (Manner::OnceAConnection, "-m POST -d x"),
        (Manner::OnceAConnection, "-m PATCH -d x"),
        (Manner::GoesAway, "-m POST -d x -h2c"),
    ] {
        let server = Server::start(manner).await;
        let report = server.load("http", &format!("-n 6 -c 1 -q 10 {flags}")).await;
        assert_eq!(failures(&report), [], "{flags}");
        assert_eq!((report.stats.good(), server.connections()), (6, 6), "{flags}");
    }
}

#[tokio::test]
async fn a_request_that_may_have_been_served_is_not_repeated() {
    let server = Server::start(Manner::SwallowsTheSecond).await;
    let report = server.load("http", "-n 6 -c 1 -m POST -d x").await;
    assert_eq!(failures(&report), [(Failure::Broken, 3)]);
    assert_eq!((report.stats.good(), server.connections()), (3, 3));
    let report = server.load("http", "-n 6 -c 1").await;
    assert_eq!(failures(&report), [], "reading twice does no harm");
}

#[tokio::test]
async fn a_farewell_to_an_idle_connection_is_no_answer() {
    let server = Server::start(Manner::ScoldsTheIdle).await;
    let report = server.load("http", "-n 4 -c 1 -q 10").await;
    assert_eq!(report.stats.statuses().collect::<Vec<_>>(), [(200, 4)]);
    assert_eq!((failures(&report), server.connections()), (vec![], 4));
}

#[tokio::test]
async fn failures_are_told_apart() {
    let garbage = Server::start(Manner::Garbage).await.load("http", "-n 3 -c 1").await;
    assert_eq!(failures(&garbage), [(Failure::Protocol, 3)]);
    let no_tls = Server::start(Manner::Garbage).await.load("https", "-n 2 -c 1").await;
    assert_eq!(failures(&no_tls), [(Failure::Tls, 2)]);

    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let nobody = plan(&format!("-n 3 -c 1 http://{free}/")).unwrap();
    let report = Running::start(nobody).unwrap().finish().await;
    assert_eq!(failures(&report), [(Failure::Connect, 3)]);
    assert!(!report.is_answered());

    let nowhere = plan("-n 1 -c 1 http://no-such-host.invalid/").unwrap();
    let report = Running::start(nowhere).unwrap().finish().await;
    assert_eq!(failures(&report), [(Failure::Lookup, 1)]);
}

#[tokio::test]
async fn a_request_is_given_up_when_its_time_is_over() {
    let server = Server::start(Manner::Silent).await;
    let started = Instant::now();
    let report = server.load("http", "-n 2 -c 2 -t 1").await;
    assert_eq!(failures(&report), [(Failure::Timeout, 2)]);
    let waited = started.elapsed();
    assert!((Duration::from_secs(1)..Duration::from_secs(10)).contains(&waited), "{waited:?}");
    assert!(report.stats.latency.max() >= Duration::from_secs(1), "a timeout is a latency too");
}

/// One stall of a second at 50 requests a second: fifty requests were due meanwhile. Counted from when
/// they were sent, 98 of 100 would look fast.
#[tokio::test]
async fn a_stall_is_felt_by_all_requests_that_were_due_in_it() {
    let server = Server::start(Manner::StallsFirst).await;
    let report = server.load("http", "-n 100 -c 1 -q 50").await;
    assert_eq!(report.stats.good(), 100);
    let half = report.stats.latency.percentile(70.0);
    assert!(half > Duration::from_millis(200), "from when it was due: {half:?}");
    let half = report.stats.service.percentile(70.0);
    assert!(half < Duration::from_millis(200), "from when it was sent: {half:?}");
    assert!(report.text().contains("from when each request was due"), "{}", report.text());
}

#[tokio::test]
async fn a_rate_is_kept_and_time_ends_it() {
    let server = Server::start(Manner::Echo).await;
    let started = Instant::now();
    let report = server.load("http", "-z 1s -c 4 -q 25").await;
    assert!(started.elapsed() >= Duration::from_secs(1));
    // Four connections with 25 turns each; fewer only where the machine had no time for us.
    let sent = report.stats.requests();
    assert_eq!(sent + report.stats.missed, 100);
    assert!(sent >= 50, "{sent}");
}

#[tokio::test]
async fn requests_missed_because_of_a_slow_server_are_reported() {
    let server = Server::start(Manner::StallsFirst).await;
    let report = server.load("http", "-z 500ms -c 1 -q 100").await;
    let (sent, missed) = (report.stats.requests(), report.stats.missed);
    assert!(sent <= 1 && sent + missed == 50, "{sent} sent, {missed} missed");
    let said = format!("{missed} requests were due and not sent");
    assert!(report.text().contains(&said), "{}", report.text());
}

#[tokio::test]
async fn load_can_be_halted_and_ends_when_dropped() {
    let server = Server::start(Manner::Echo).await;
    let line = format!("-z 1h -c 2 http://127.0.0.1:{}/a/b?c=d", server.port);
    let mut running = Running::start(plan(&line).unwrap()).unwrap();
    while running.stats().good() == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    running.halt();
    let report = tokio::time::timeout(Duration::from_secs(30), running.finish()).await.unwrap();
    assert!(report.halted && report.text().contains("halted; 1h0m0s planned"), "{}", report.text());

    let running = Running::start(plan(&line).unwrap()).unwrap();
    drop(running);
    let mut before = server.requests.load(Ordering::Relaxed);
    for _ in 0..200 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let now = server.requests.load(Ordering::Relaxed);
        if now == before {
            return;
        }
        before = now;
    }
    panic!("load goes on after its end");
}
