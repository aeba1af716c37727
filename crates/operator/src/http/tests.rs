//! The client against servers on real sockets, most of them ill-behaved.

use std::{
    collections::BTreeMap,
    io,
    net::{IpAddr, SocketAddr, UdpSocket},
    sync::Arc,
    time::Instant,
};

use parking_lot::Mutex;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use super::*;
use crate::cluster::nodes::NodeAddresses;

/// A server that answers each connection with a script, and records the requests.
struct Server {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

#[derive(Clone)]
enum Script {
    /// Read one request, answer this, close.
    Answer(String),
    /// Answer by path; others are a 404.
    Paths(BTreeMap<&'static str, String>),
    /// Read, send this, and then nothing more.
    Hang(&'static str),
    /// Send this without reading.
    Blurt(&'static str),
    /// Send this, then the second text for ever.
    Endless(&'static str, &'static str),
    /// Send this a byte at a time, slowly.
    Trickle(&'static str),
}

/// Names with addresses of our choice. The port is always the one asked for.
struct Names(BTreeMap<&'static str, Vec<&'static str>>);

impl Resolve for Names {
    fn resolve(&self, host: &str, port: u16) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> {
        let found = self.0.get(host).map(|addresses| {
            addresses.iter().map(|one| SocketAddr::new(one.parse().unwrap(), port)).collect()
        });
        Box::pin(async move { found.ok_or_else(|| io::Error::other("no such name")) })
    }
}

impl Server {
    async fn start(script: Script) -> Self {
        Self::start_at([127, 0, 0, 1].into(), script).await
    }

    async fn start_at(address: IpAddr, script: Script) -> Self {
        let listener = TcpListener::bind((address, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let log = Arc::clone(&asked);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(script.clone().play(stream, Arc::clone(&log)));
            }
        });
        Self { address, asked }
    }

    async fn answering(status: &str, headers: &str, body: &str) -> Self {
        Self::start(Script::Answer(answer(status, headers, body))).await
    }

    fn url(&self, path: &str) -> SafeUrl {
        SafeUrl::parse(&format!("http://{}{path}", self.address)).unwrap()
    }

    /// By name, for which `Names` must have an address.
    fn named(&self, name: &str, path: &str) -> SafeUrl {
        SafeUrl::parse(&format!("http://{name}:{}{path}", self.address.port())).unwrap()
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().clone()
    }
}

impl Script {
    async fn play(self, mut stream: TcpStream, log: Arc<Mutex<Vec<String>>>) {
        let reads = !matches!(self, Self::Blurt(_));
        let request = if reads { read_request(&mut stream).await } else { String::new() };
        log.lock().push(request.clone());
        let _client_may_be_gone = match self {
            Self::Answer(text) => stream.write_all(text.as_bytes()).await,
            Self::Paths(paths) => {
                let path = request.split(' ').nth(1).unwrap_or_default();
                let nowhere = answer("404 Not Found", "", "");
                let text = paths.get(path).unwrap_or(&nowhere);
                stream.write_all(text.as_bytes()).await
            }
            Self::Hang(text) => {
                let _client_may_be_gone = stream.write_all(text.as_bytes()).await;
                std::future::pending().await
            }
            Self::Blurt(text) => stream.write_all(text.as_bytes()).await,
            Self::Endless(head, piece) => {
                let mut outcome = stream.write_all(head.as_bytes()).await;
                while outcome.is_ok() {
                    outcome = stream.write_all(piece.as_bytes()).await;
                }
                outcome
            }
            Self::Trickle(text) => {
                for byte in text.as_bytes() {
                    if stream.write_all(&[*byte]).await.is_err() {
                        break;
                    }
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                Ok(())
            }
        };
    }
}

/// Head and body of one request; `content-length` gives the length of the body.
async fn read_request(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    let mut buffer = [0; 4096];
    loop {
        let length = text.split("\r\n").find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.and_then(|length| length.parse().ok()).unwrap_or(0);
        if let Some((_, body)) = text.split_once("\r\n\r\n")
            && body.len() >= length
        {
            return text;
        }
        match stream.read(&mut buffer).await {
            Ok(read) if read > 0 => text.push_str(&String::from_utf8_lossy(&buffer[..read])),
            _ => return text,
        }
    }
}

fn answer(status: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
    )
}

fn local() -> Policy {
    Policy { allow_loopback: true, environment_proxies: false, ..Policy::default() }
}

fn strict() -> Policy {
    Policy { environment_proxies: false, ..Policy::default() }
}

fn get(url: SafeUrl) -> Outgoing {
    Outgoing { timeout: Duration::from_secs(2), ..Outgoing::get(url, "test") }
}

async fn ask(url: SafeUrl) -> Result<Answer, HttpError> {
    Client::new(local()).send(get(url)).await
}

#[tokio::test]
async fn an_answer_of_any_status_is_an_answer() {
    for (status, body, is_success) in [
        ("200 OK", "yes", true),
        ("204 No Content", "", true),
        ("404 Not Found", "no", false),
        ("500 Internal Server Error", "oh", false),
    ] {
        let server = Server::answering(status, "", body).await;
        let answer = ask(server.url("/")).await.unwrap();
        assert_eq!(answer.status.to_string(), status);
        assert_eq!((answer.body.as_ref(), answer.truncated), (body.as_bytes(), false));
        assert_eq!(answer.is_success(), is_success, "{status}");
    }
}

#[tokio::test]
async fn a_request_arrives_as_it_was_meant() {
    let server = Server::answering("200 OK", "", "").await;
    let url = server.url("/gate?a=b").uri().to_string().replace("http://", "http://user:pass@");
    let url = SafeUrl::parse(&url).unwrap();
    let mut request = Outgoing::post_json(url, "test", &json!({ "name": "podinfo" }));
    for (name, value) in [("x-token", "t"), ("connection", "upgrade"), ("content-length", "3")] {
        request.headers.insert(name, value.parse().unwrap());
    }
    Client::new(local()).send(request).await.unwrap();
    let [asked] = server.asked().try_into().unwrap();
    assert!(asked.starts_with("POST /gate?a=b HTTP/1.1\r\n"), "{asked}");
    assert!(asked.ends_with("\r\n\r\n{\"name\":\"podinfo\"}"), "{asked}");
    for header in [
        "content-type: application/json",
        "authorization: Basic dXNlcjpwYXNz",
        "x-token: t",
        "content-length: 18",
        &format!("host: {}", server.address),
        concat!("user-agent: tidegate/", env!("CARGO_PKG_VERSION")),
    ] {
        assert!(asked.contains(&format!("\r\n{header}\r\n")), "no {header} in {asked}");
    }
    assert!(!asked.contains("upgrade"), "{asked}");
}

#[tokio::test]
async fn one_timeout_covers_everything() {
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n";
    let cases = [
        ("no answer", Script::Hang("")),
        ("headers that trickle", Script::Trickle("HTTP/1.1 200 OK\r\nX-Long: aaaaaaaaaaaaaaaaaaa")),
        ("a body that trickles", Script::Trickle("HTTP/1.1 200 OK\r\n\r\naaaaaaaaaaaaaaaaaaaaaaa")),
        ("a body that never comes", Script::Hang(head)),
    ];
    for (reason, script) in cases {
        let server = Server::start(script).await;
        let timeout = Duration::from_millis(300);
        let start = Instant::now();
        let request = Outgoing { timeout, ..get(server.url("/")) };
        let error = Client::new(local()).send(request).await.unwrap_err();
        let host = server.address.to_string();
        assert_eq!(error, HttpError::Timeout { host, after: timeout }, "{reason}");
        assert!(error.is_connection());
        assert!(start.elapsed() < Duration::from_secs(2), "{reason}");
    }
}

#[tokio::test]
async fn a_request_without_patience_does_not_wait_for_a_permit_either() {
    let server = Server::start(Script::Hang("")).await;
    let client = Arc::new(Client::new(Policy { in_flight_per_namespace_max: 1, ..local() }));
    let slow = Outgoing { timeout: Duration::from_secs(20), ..get(server.url("/")) };
    let busy = Arc::clone(&client);
    let hanging = tokio::spawn(async move { busy.send(slow).await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    let start = Instant::now();
    let patience = Some(Duration::from_millis(300));
    let error = client.send(Outgoing { patience, ..get(server.url("/")) }).await.unwrap_err();
    assert_eq!(error, HttpError::Busy { host: server.address.to_string() });
    assert!(start.elapsed() < Duration::from_secs(5));
    hanging.abort();
}

#[tokio::test]
async fn many_checks_of_one_namespace_wait_for_their_permits_and_none_of_them_fails() {
    let server = Server::start(Script::Answer(answer("200 OK", "", "1"))).await;
    let policy = Policy { in_flight_max: 2, in_flight_per_namespace_max: 1, ..local() };
    let client = Arc::new(Client::new(policy));
    let held = client.permit("test").await;
    let checks: Vec<_> = (0..40)
        .map(|_| {
            let (client, url) = (Arc::clone(&client), server.url("/"));
            tokio::spawn(async move {
                let permit = client.permit("test").await;
                // Shorter than the wait for the permit.
                let patience = Some(Duration::from_millis(250));
                client.send(Outgoing { patience, permit, ..get(url) }).await
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(400)).await;
    drop(held);
    for check in checks {
        assert_eq!(check.await.unwrap().unwrap().status, StatusCode::OK);
    }
}

#[tokio::test]
async fn a_body_is_cut_at_the_cap() {
    let piece = "0123456789abcdef";
    let cases = [
        ("without end", Script::Endless("HTTP/1.1 200 OK\r\n\r\n", piece)),
        (
            "chunked",
            Script::Endless(
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
                "10\r\n0123456789abcdef\r\n",
            ),
        ),
        ("longer than the cap", Script::Answer(answer("200 OK", "", &piece.repeat(10)))),
    ];
    for (reason, script) in cases {
        let server = Server::start(script).await;
        let request = Outgoing { max_bytes: 100, ..get(server.url("/")) };
        let answer = Client::new(local()).send(request).await.unwrap();
        assert_eq!(answer.body, piece.repeat(7).as_bytes()[..100], "{reason}");
        assert!(answer.truncated, "{reason}");
    }
    let server = Server::answering("200 OK", "", &"a".repeat(100)).await;
    let request = Outgoing { max_bytes: 100, ..get(server.url("/")) };
    let answer = Client::new(local()).send(request).await.unwrap();
    assert!(!answer.truncated, "exactly the cap is whole");
}

#[tokio::test]
async fn an_exchange_that_breaks_off_is_no_answer() {
    let cases = [
        ("nothing at all", Script::Answer(String::new())),
        ("not HTTP", Script::Answer("SSH-2.0-OpenSSH_9.9\r\n".to_owned())),
        (
            "half a body",
            Script::Answer("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf".to_owned()),
        ),
        ("headers without end", Script::Endless("HTTP/1.1 200 OK\r\n", "X-More: more\r\n")),
    ];
    for (reason, script) in cases {
        let server = Server::start(script).await;
        let error = ask(server.url("/")).await.unwrap_err();
        assert_eq!(error, HttpError::Broken { host: server.address.to_string() }, "{reason}");
    }
}

#[tokio::test]
async fn a_missing_server_is_a_connection_error() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let error = ask(SafeUrl::parse(&format!("http://{address}/")).unwrap()).await.unwrap_err();
    assert_eq!(error, HttpError::Connect { host: address.to_string() });
    let client = Client::with_resolver(local(), Arc::new(Names(BTreeMap::new())));
    let error = client.send(get(SafeUrl::parse("http://nowhere/").unwrap())).await.unwrap_err();
    assert_eq!(error, HttpError::NoSuchHost { host: "nowhere".to_owned() });
}

#[tokio::test]
async fn a_server_that_speaks_no_tls_is_not_trusted() {
    let server = Server::start(Script::Blurt("HTTP/1.1 400 Bad Request\r\n\r\n")).await;
    let url = SafeUrl::parse(&format!("https://{}/", server.address)).unwrap();
    for verify_tls in [true, false] {
        let request = Outgoing { verify_tls, ..get(url.clone()) };
        let error = Client::new(local()).send(request).await.unwrap_err();
        assert_eq!(error, HttpError::Tls { host: server.address.to_string() });
        assert!(!error.is_connection(), "asking again does not help");
    }
}

#[tokio::test]
async fn closed_addresses_are_not_even_connected_to() {
    let server = Server::answering("200 OK", "", "secret").await;
    let port = server.address.port();
    let names = Names(BTreeMap::from([
        ("direct.test", vec!["127.0.0.1"]),
        ("mixed.test", vec!["10.0.0.1", "127.0.0.1"]),
        ("mapped.test", vec!["::ffff:127.0.0.1"]),
        ("metadata.test", vec!["169.254.169.254"]),
    ]));
    let client = Client::with_resolver(strict(), Arc::new(names));
    for host in [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "0.0.0.0",
        "169.254.169.254",
        "direct.test",
        "mixed.test",
        "mapped.test",
        "metadata.test",
    ] {
        let url = SafeUrl::parse(&format!("http://{host}:{port}/")).unwrap();
        let error = client.send(get(url)).await.unwrap_err();
        assert!(matches!(error, HttpError::Forbidden { .. }), "{host}: {error}");
        assert!(!error.is_connection(), "asking again does not help");
    }
    assert_eq!(server.asked().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_check_waits_for_a_permit_for_two_minutes_at_most() {
    let client = Client::new(Policy { in_flight_per_namespace_max: 1, ..local() });
    let _held = client.permit("test").await.expect("it is free");
    let start = tokio::time::Instant::now();
    assert!(client.permit("test").await.is_none());
    assert_eq!(start.elapsed(), Duration::from_mins(2));
    assert!(client.permit("other").await.is_some());
}

#[tokio::test]
async fn a_request_that_hangs_gives_up_its_permits_after_three_seconds() {
    let hanging = Server::start(Script::Hang("")).await;
    let healthy = Server::answering("200 OK", "", "1").await;
    let policy = Policy { in_flight_max: 1, in_flight_per_namespace_max: 1, ..local() };
    let client = Arc::new(Client::new(policy));
    let (hangs, url) = (Arc::clone(&client), hanging.url("/"));
    let timeout = Duration::from_secs(20);
    let hangs = tokio::spawn(async move { hangs.send(Outgoing { timeout, ..get(url) }).await });
    while hanging.asked.lock().is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let patience = Some(Duration::from_secs(8));
    let answer = client.send(Outgoing { patience, ..get(healthy.url("/")) }).await;
    assert_eq!(answer.unwrap().status, StatusCode::OK);
    assert!(!hangs.is_finished());
    hangs.abort();
}

/// An address of this machine that is not loopback: the source of a packet to a documentation address, which is
/// not sent. A machine without a network has none.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    let routed = socket.connect("203.0.113.1:9").and_then(|()| socket.local_addr());
    routed.ok().map(|source| source.ip())
}

#[tokio::test]
async fn an_address_of_an_interface_is_the_operators_own() {
    let Some(own) = own_address() else { return };
    let server = Server::start_at(own, Script::Answer(answer("200 OK", "", "secret"))).await;
    let error = Client::new(strict()).send(get(server.url("/"))).await.unwrap_err();
    assert!(error.to_string().contains("the operator's own"), "{error}");
    assert_eq!(server.asked.lock().len(), 0, "not even connected to");
    let opened = Policy { allow: vec![own.to_string().parse().unwrap()], ..strict() };
    for policy in [opened, local()] {
        assert!(Client::new(policy).send(get(server.url("/"))).await.is_ok());
    }
}

#[tokio::test]
async fn a_node_is_closed_from_when_it_is_known_until_it_is_gone() {
    let server = Server::answering("200 OK", "", "by node").await;
    let nodes = NodeAddresses::default();
    let names = || Arc::new(Names(BTreeMap::from([("node.test", vec!["127.0.0.1"])])));
    let client = Client::with_resolver(local(), names()).with_nodes(nodes.clone());
    let by_name = || get(server.named("node.test", "/"));
    assert!(client.send(by_name()).await.is_ok(), "it is not known as a node");
    nodes.set("a", vec![server.address.ip()]);
    for request in [by_name(), get(server.url("/"))] {
        let host = request.url.authority().to_owned();
        let reason = "its address is that of a node; --allow-addresses opens it";
        let error = client.send(request).await.unwrap_err();
        assert_eq!(error, HttpError::Forbidden { host, reason });
    }
    let trusted = Outgoing { trusted: true, ..get(server.url("/")) };
    assert!(client.send(trusted).await.is_ok(), "an address from a flag is not checked");
    let allow = vec!["127.0.0.1".parse().unwrap()];
    let opened = Client::with_resolver(Policy { allow, ..local() }, names());
    assert!(opened.with_nodes(nodes.clone()).send(by_name()).await.is_ok());
    nodes.set("a", Vec::new());
    assert!(client.send(by_name()).await.is_ok(), "the node is gone");
}

#[tokio::test]
async fn a_server_behind_a_proxy_is_no_node_either() {
    let proxy = Server::answering("200 OK", "", "by proxy").await;
    let nodes = NodeAddresses::default();
    nodes.set("a", vec!["10.0.0.5".parse().unwrap()]);
    let client = Client::new(local()).with_nodes(nodes.clone());
    let through = |url: &str| Outgoing {
        proxy: Some(Proxy::parse(&format!("http://{}", proxy.address)).unwrap()),
        ..get(SafeUrl::parse(url).unwrap())
    };
    let error = client.send(through("http://10.0.0.5:10250/")).await.unwrap_err();
    assert!(matches!(error, HttpError::Forbidden { .. }), "{error}");
    assert_eq!(client.send(through("http://10.0.0.6/")).await.unwrap().body, "by proxy");
    nodes.set("b", vec![proxy.address.ip()]);
    let error = client.send(through("http://10.0.0.6/")).await.unwrap_err();
    assert!(matches!(error, HttpError::Forbidden { .. }), "the proxy is at a node: {error}");
    assert_eq!(proxy.asked().len(), 1);
}

#[tokio::test]
async fn the_system_resolver_is_checked_too() {
    let server = Server::answering("200 OK", "", "").await;
    let error = Client::new(strict()).send(get(server.named("localhost", "/"))).await.unwrap_err();
    assert!(matches!(error, HttpError::Forbidden { .. }), "{error}");
    assert!(ask(server.named("localhost", "/")).await.is_ok());
}

#[tokio::test]
async fn a_canary_cannot_ride_on_the_administrators_connection() {
    let kept = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_owned();
    let server = Server::start(Script::Answer(kept)).await;
    let client = Client::new(strict());
    let trusted = Outgoing { trusted: true, ..get(server.url("/")) };
    assert!(client.send(trusted).await.is_ok(), "an address from a flag is not checked");
    let error = client.send(get(server.url("/"))).await.unwrap_err();
    assert!(matches!(error, HttpError::Forbidden { .. }), "{error}");
}

#[tokio::test]
async fn a_name_that_changes_its_mind_is_caught() {
    /// Harmless in the first lookup, ours from then on.
    struct Rebinding(Mutex<u32>);
    impl Resolve for Rebinding {
        fn resolve(&self, _: &str, port: u16) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> {
            let mut asked = self.0.lock();
            *asked += 1;
            // 192.0.2.0/24 is for documentation: no server answers there.
            let address = if *asked == 1 { [192, 0, 2, 1] } else { [127, 0, 0, 1] };
            Box::pin(async move { Ok(vec![SocketAddr::from((address, port))]) })
        }
    }
    let server = Server::answering("200 OK", "", "secret").await;
    let client = Client::with_resolver(strict(), Arc::new(Rebinding(Mutex::new(0))));
    let request =
        || Outgoing { timeout: Duration::from_millis(200), ..get(server.named("x", "/")) };
    assert!(client.send(request()).await.unwrap_err().is_connection());
    let error = client.send(request()).await.unwrap_err();
    assert!(matches!(error, HttpError::Forbidden { .. }), "{error}");
    assert_eq!(server.asked().len(), 0);
}

#[tokio::test]
async fn redirects_on_the_same_host_are_followed() {
    let moved = |status, to: &str| answer(status, &format!("Location: {to}\r\n"), "");
    let paths = BTreeMap::from([
        ("/301", moved("301 Moved Permanently", "/end")),
        ("/302", moved("302 Found", "end")),
        ("/303", moved("303 See Other", "?q")),
        ("/303?q", moved("303 See Other", "/end")),
        ("/307", moved("307 Temporary Redirect", "/end")),
        ("/308", moved("308 Permanent Redirect", "/end")),
        ("/end", answer("200 OK", "", "done")),
    ]);
    for (path, method) in
        [("/301", "GET"), ("/302", "GET"), ("/303", "GET"), ("/307", "POST"), ("/308", "POST")]
    {
        let server = Server::start(Script::Paths(paths.clone())).await;
        let mut request = Outgoing::post_json(server.url(path), "test", &json!({}));
        request.headers.insert("x-api-key", "k".parse().unwrap());
        let answer = Client::new(local()).send(request).await.unwrap();
        assert_eq!(answer.body, "done", "{path}");
        let last = server.asked().pop().unwrap();
        assert!(last.starts_with(&format!("{method} /end")), "{path}: {last}");
        assert_eq!(last.ends_with("{}"), method == "POST", "{path}: {last}");
        assert_eq!(last.contains("content-type"), method == "POST", "{path}: {last}");
        assert!(last.contains("x-api-key: k"), "the same server may see it again: {last}");
    }
}

#[tokio::test]
async fn redirects_elsewhere_are_refused() {
    let other = Server::answering("200 OK", "", "secret").await;
    for to in [
        "http://169.254.169.254/latest/meta-data/",
        "http://localhost/",
        "//other.example/",
        "file:///etc/passwd",
        "http://user:pass@other.example/",
        &other.named("elsewhere.test", "/").uri().to_string(),
    ] {
        let server = Server::answering("302 Found", &format!("Location: {to}\r\n"), "").await;
        let error = ask(server.url("/")).await.unwrap_err();
        assert_eq!(error, HttpError::RedirectRefused { host: server.address.to_string() }, "{to}");
    }
    assert_eq!(other.asked().len(), 0);
}

#[tokio::test]
async fn another_port_of_the_host_is_asked_without_credentials_and_checked() {
    let other = Server::answering("200 OK", "", "other").await;
    let to = format!("Location: {}\r\n", other.url("/").uri());
    let server = Server::answering("307 Temporary Redirect", &to, "").await;
    let mut request = get(server.url("/"));
    for (name, value) in [("authorization", "Bearer t"), ("x-api-key", "k"), ("accept", "a/b")] {
        request.headers.insert(name, value.parse().unwrap());
    }
    let trusted = Outgoing { trusted: true, ..request.clone() };
    assert_eq!(Client::new(local()).send(request).await.unwrap().body, "other");
    let asked = other.asked().pop().unwrap();
    assert!(!asked.contains("Bearer") && !asked.contains("x-api-key"), "{asked}");
    assert!(asked.contains("accept: a/b"), "{asked}");
    let error = Client::new(strict()).send(trusted).await.unwrap_err();
    assert!(matches!(error, HttpError::Forbidden { .. }), "trust ends at the port: {error}");
}

#[tokio::test]
async fn redirects_end_somewhere() {
    let server = Server::answering("302 Found", "Location: /again\r\n", "").await;
    let error = ask(server.url("/")).await.unwrap_err();
    assert_eq!(error, HttpError::TooManyRedirects { host: server.address.to_string() });
    assert_eq!(server.asked().len(), 11, "the request and ten redirects");
    let request = Outgoing { redirects: Redirects::Keep, ..get(server.url("/")) };
    let answer = Client::new(local()).send(request).await.unwrap();
    assert_eq!(answer.status, StatusCode::FOUND);
}

#[tokio::test]
async fn a_proxy_forwards_plain_requests() {
    let proxy = Server::answering("200 OK", "", "by proxy").await;
    let via = Proxy::parse(&format!("http://user:pass@{}", proxy.address)).unwrap();
    let url = SafeUrl::parse("http://metrics.example/q?x=1").unwrap();
    let request = Outgoing { proxy: Some(via.clone()), ..get(url) };
    assert_eq!(Client::new(local()).send(request.clone()).await.unwrap().body, "by proxy");
    let asked = proxy.asked().pop().unwrap();
    assert!(asked.starts_with("GET http://metrics.example/q?x=1 HTTP/1.1\r\n"), "{asked}");
    assert!(asked.contains("proxy-authorization: Basic dXNlcjpwYXNz"), "{asked}");

    let error = Client::new(strict()).send(request.clone()).await.unwrap_err();
    assert!(matches!(error, HttpError::Forbidden { .. }), "a proxy is checked too: {error}");
    let trusted = Outgoing { proxy: Some(via.trusted()), ..request };
    let metadata = SafeUrl::parse("http://0xa9fea9fe/").unwrap();
    let error =
        Client::new(strict()).send(Outgoing { url: metadata, ..trusted }).await.unwrap_err();
    assert!(matches!(error, HttpError::Forbidden { .. }), "not by proxy either: {error}");
}

#[tokio::test]
async fn names_are_checked_before_the_administrators_proxy_gets_them() {
    let proxy = Server::answering("200 OK", "", "by proxy").await;
    let via = Proxy::parse(&format!("http://{}", proxy.address)).unwrap().trusted();
    let names = || {
        Arc::new(Names(BTreeMap::from([
            ("open.test", vec!["192.0.2.1"]),
            ("metadata.test", vec!["169.254.169.254"]),
            ("mixed.test", vec!["192.0.2.1", "127.0.0.1"]),
        ])))
    };
    let checking = Client::with_resolver(strict(), names());
    let leaving = Client::with_resolver(Policy { proxy_resolves: true, ..strict() }, names());
    let cases = [
        ("http://open.test/", true, true),
        ("http://metadata.test/", false, true),
        ("http://mixed.test/", false, true),
        ("http://only-the-proxy-knows.test/", false, true),
        ("http://169.254.169.254/", false, false),
    ];
    for (url, checked, left) in cases {
        let request = || {
            let url = SafeUrl::parse(url).unwrap();
            Outgoing { proxy: Some(via.clone()), ..get(url) }
        };
        assert_eq!(checking.send(request()).await.is_ok(), checked, "{url}");
        assert_eq!(leaving.send(request()).await.is_ok(), left, "left to the proxy: {url}");
        // The administrator's own addresses are not checked.
        let own = Outgoing { trusted: true, ..request() };
        assert!(checking.send(own).await.is_ok(), "{url}");
    }
}

#[tokio::test]
async fn requests_to_the_own_node_bypass_the_proxy_of_the_environment() {
    let proxy = Server::answering("200 OK", "", "by proxy").await;
    let node = Server::answering("200 OK", "", "by node").await;
    let mut client = Client::new(local());
    let everything = format!("http://{}", proxy.address);
    client.set_environment(&everything);
    let request = |direct| Outgoing { direct, trusted: true, ..get(node.url("/token")) };
    assert_eq!(client.send(request(false)).await.unwrap().body, "by proxy");
    assert_eq!(client.send(request(true)).await.unwrap().body, "by node");
}

#[tokio::test]
async fn a_proxy_is_asked_to_connect_for_https() {
    let proxy = Server::answering("403 Forbidden", "", "").await;
    let via = Proxy::parse(&format!("http://user:pass@{}", proxy.address)).unwrap();
    let url = SafeUrl::parse("https://hooks.example/TOKEN").unwrap();
    let request = Outgoing { proxy: Some(via), ..get(url) };
    let error = Client::new(local()).send(request).await.unwrap_err();
    assert_eq!(error, HttpError::Proxy { host: "hooks.example".to_owned() });
    let asked = proxy.asked().pop().unwrap();
    assert!(asked.starts_with("CONNECT hooks.example:443 HTTP/1.1\r\n"), "{asked}");
    assert!(asked.contains("Proxy-Authorization: Basic dXNlcjpwYXNz"), "{asked}");
    assert!(!asked.contains("TOKEN"), "{asked}");
}

#[tokio::test]
async fn a_stuck_namespace_does_not_hold_up_others() {
    let (hanging, server) =
        (Server::start(Script::Hang("")).await, Server::answering("200 OK", "", "ok").await);
    let policy = Policy { in_flight_max: 4, in_flight_per_namespace_max: 2, ..local() };
    let client = Arc::new(Client::new(policy));
    for _ in 0..10 {
        let (client, url) = (Arc::clone(&client), hanging.url("/"));
        tokio::spawn(async move { client.send(Outgoing::get(url, "greedy")).await });
    }
    while hanging.asked().len() < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(client.send(get(server.url("/"))).await.is_ok());
    assert_eq!(hanging.asked().len(), 2, "the others still wait for a permit");
}

#[tokio::test]
async fn a_connection_is_used_again() {
    let kept = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = SafeUrl::parse(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        for _ in 0..3 {
            assert!(read_request(&mut stream).await.starts_with("GET /"));
            stream.write_all(kept.as_bytes()).await.unwrap();
        }
    });
    let client = Client::new(local());
    for _ in 0..3 {
        assert_eq!(client.send(get(url.clone())).await.unwrap().body, "ok");
    }
    server.await.unwrap();
}

#[tokio::test]
async fn a_connection_that_is_kept_is_given_up_when_its_end_becomes_a_node() {
    let kept = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let url = SafeUrl::parse(&format!("http://{address}/")).unwrap();
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        while read_request(&mut stream).await.starts_with("GET /") {
            stream.write_all(kept.as_bytes()).await.unwrap();
        }
    });
    let nodes = NodeAddresses::default();
    let client = Client::new(local()).with_nodes(nodes.clone());
    for _ in 0..2 {
        assert!(client.send(get(url.clone())).await.is_ok());
    }
    nodes.set("late", vec![address.ip()]);
    let error = client.send(get(url)).await.unwrap_err();
    assert!(matches!(error, HttpError::Forbidden { .. }), "{error}");
    server.abort();
}

#[tokio::test]
async fn nothing_secret_is_in_errors_or_debug_output() {
    let server = Server::answering("302 Found", "Location: http://evil/MARKER\r\n", "MARKER").await;
    let text = format!("http://u:MARKER@{}/MARKER?q=MARKER", server.address);
    let mut request = Outgoing::post_json(SafeUrl::parse(&text).unwrap(), "test", &json!("MARKER"));
    request.headers.insert("x-key", "MARKER".parse().unwrap());
    let shown = format!("{request:?}");
    let error = Client::new(local()).send(request).await.unwrap_err();
    let shown = format!("{shown} {error} {error:?} {:?}", SafeUrl::parse("x://MARKER"));
    assert!(!shown.contains("MARKER"), "{shown}");
}

#[test]
fn retry_after_is_seconds_or_a_date() {
    let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let cases = [
        ("120", Some(120)),
        (" 5 ", Some(5)),
        ("Thu, 01 Jan 2026 00:01:00 GMT", Some(60)),
        ("Wed, 31 Dec 2025 23:59:00 GMT", Some(0)),
        ("soon", None),
        ("-1", None),
    ];
    for (text, want) in cases {
        let mut headers = HeaderMap::new();
        headers.insert(header::RETRY_AFTER, text.parse().unwrap());
        let answer = Answer {
            status: StatusCode::SERVICE_UNAVAILABLE,
            headers,
            body: Bytes::new(),
            truncated: false,
        };
        assert_eq!(answer.retry_after(now), want.map(Duration::from_secs), "{text}");
    }
}

#[test]
fn an_excerpt_is_one_clean_line() {
    let excerpt = |body: &[u8], truncated| {
        let (status, headers) = (StatusCode::OK, HeaderMap::new());
        Answer { status, headers, body: Bytes::copy_from_slice(body), truncated }.excerpt(10)
    };
    let cases: [(&str, &[u8], bool, &str); 7] = [
        ("short", b"not ready", false, "not ready"),
        ("lines", b"a\r\n\tb\n", false, "a b"),
        ("long", b"0123456789abc", false, "0123456789\u{2026}"),
        ("cut by the cap", b"abc", true, "abc\u{2026}"),
        ("terminal codes", b"\x1b[31mred", false, "[31mred"),
        ("not UTF-8", b"a\xffb", false, "a\u{fffd}b"),
        ("text that runs backwards", "a\u{202e}b".as_bytes(), false, "a b"),
    ];
    for (reason, body, truncated, want) in cases {
        assert_eq!(excerpt(body, truncated), want, "{reason}");
    }
}
