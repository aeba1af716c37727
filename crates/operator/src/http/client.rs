//! The client: connection pools, redirects, bounded reads.
//!
//! Connections are kept and shared. Those to addresses that were not checked (the administrator's)
//! have pools of their own, or a Canary could use them past the check.

use std::{
    collections::BTreeMap, error::Error as _, fmt, mem, pin::pin, sync::Arc, time::Duration,
};

use bytes::{Bytes, BytesMut};
use futures::future::BoxFuture;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode,
    header::{self, ACCEPT, CONTENT_ENCODING, CONTENT_TYPE, USER_AGENT},
};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::{legacy, proxy::matcher::Matcher},
    rt::{TokioExecutor, TokioTimer},
};
use parking_lot::Mutex;
use rustls::ClientConfig;
use tidegate_runtime::tls::CertificateError;
use tracing::warn;

use super::{
    Answer, ClientCertificate, HttpError, Outgoing, Redirects, SafeUrl, Transport,
    connect::{ConnectFault, Connector, Resolve, SystemResolver},
    guard::{Guard, Policy, is_interface},
    limits::{Limits, RequestPermit},
    proxy::{Proxy, ProxyKind},
    tls,
};
use crate::cluster::nodes::NodeAddresses;

/// Sends requests over the network. One for the whole operator.
pub struct Client {
    guard: Arc<Guard>,
    resolver: Arc<dyn Resolve>,
    limits: Limits,
    environment: Option<Matcher>,
    verified: ClientConfig,
    unverified: ClientConfig,
    pools: Mutex<Pools>,
}

type Pool = legacy::Client<HttpsConnector<Connector>, Full<Bytes>>;

/// Requests that differ in any of these never share a connection.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct PoolKey {
    trust: Trust,
    trusted: bool,
    proxy: Option<Proxy>,
}

/// Connections that are kept.
#[derive(Default)]
struct Pools {
    pools: BTreeMap<PoolKey, Pool>,
    /// [`NodeAddresses::additions`] when they were last looked at.
    checked: u64,
}

/// The servers that a request trusts, and the certificate it presents.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Trust {
    verify_tls: bool,
    authorities: Option<Vec<u8>>,
    certificate: Option<ClientCertificate>,
}

/// The route of requests: through a proxy, or directly.
struct Egress {
    proxy: Option<Proxy>,
    direct: bool,
}

/// One request of a chain of redirects.
struct Hop {
    method: Method,
    url: SafeUrl,
    headers: HeaderMap,
    body: Bytes,
    trusted: bool,
}

/// As Go's client, which Flagger uses.
const REDIRECTS_MAX: usize = 10;
/// The time after which a request counts as long. A load test or a chart's tests may take minutes: they must not
/// delay the metrics of other canaries.
const LONG_AFTER: Duration = Duration::from_secs(3);
/// How long a request without a permit waits for one. Three times the longest usual timeout.
pub(crate) const PERMIT_WAIT_MAX: Duration = Duration::from_secs(30);
/// How long a check waits for a permit. Then it fails, so that a version with traffic is not left without checks
/// while other hooks of its namespace hang.
const CHECK_PERMIT_WAIT_MAX: Duration = Duration::from_mins(2);
/// Below the 60 s after which common servers close, so that a kept connection is seldom a dead one.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Of one host; a tick sends a metrics server a handful of queries at a time.
const IDLE_PER_HOST_MAX: usize = 4;
/// Two switches give four; the rest are proxies, which a Canary can name at will.
const POOLS_MAX: usize = 32;
/// All headers of an answer together; servers commonly stop at 8 to 32 KiB.
const HEADER_BYTES_MAX: usize = 64 * 1024;

/// Headers that steer the connection and not the request: ours to set.
const CONNECTION_HEADERS: [HeaderName; 10] = [
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::EXPECT,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

/// Headers that cannot be credentials. All others are dropped when a redirect leads to another server.
const HARMLESS_HEADERS: [HeaderName; 4] = [ACCEPT, CONTENT_ENCODING, CONTENT_TYPE, USER_AGENT];

// === impl Client ===

impl Client {
    /// With the machine's resolver and the machine's trusted certificates.
    pub fn new(policy: Policy) -> Self {
        Self::with_resolver(policy, Arc::new(SystemResolver))
    }

    /// With a resolver of its own. Addresses are checked all the same.
    pub fn with_resolver(policy: Policy, resolver: Arc<dyn Resolve>) -> Self {
        Self {
            limits: Limits::new(policy.in_flight_max, policy.in_flight_per_namespace_max),
            environment: policy.environment_proxies.then(Matcher::from_env),
            guard: Arc::new(Guard { policy, nodes: NodeAddresses::default(), is_interface }),
            resolver,
            verified: tls::verified(),
            unverified: tls::unverified(),
            pools: Mutex::default(),
        }
    }

    /// Closes the addresses of nodes too: those that are known when a connection is made.
    #[must_use]
    pub fn with_nodes(mut self, nodes: NodeAddresses) -> Self {
        let policy = self.guard.policy.clone();
        self.guard = Arc::new(Guard { policy, nodes, is_interface });
        self
    }

    /// As if the environment named this proxy for everything.
    #[cfg(test)]
    pub(super) fn set_environment(&mut self, proxy: &str) {
        self.environment = Some(Matcher::builder().all(proxy).build());
    }

    async fn exchange(&self, mut request: Outgoing) -> Result<Answer, HttpError> {
        let host = request.url.authority().to_owned();
        let start = tokio::time::Instant::now();
        let patience = request.patience.unwrap_or(Duration::MAX);
        let permit = if let Some(permit) = request.permit.take() {
            permit
        } else {
            let permit = self.limits.acquire(&request.namespace);
            let permit = tokio::time::timeout(PERMIT_WAIT_MAX.min(patience), permit).await;
            let Ok(Some(permit)) = permit else { return Err(HttpError::Busy { host }) };
            permit
        };
        let after = request.timeout.min(patience.saturating_sub(start.elapsed()));
        let mut answer = pin!(tokio::time::timeout(after, self.follow(request)));
        let answer = tokio::select! {
            biased;
            answer = &mut answer => answer,
            () = tokio::time::sleep(LONG_AFTER) => tokio::select! {
                biased;
                answer = &mut answer => answer,
                () = permit.become_long() => answer.await,
            }
        };
        answer.unwrap_or(Err(HttpError::Timeout { host, after }))
    }

    /// Sends the request, and follows redirects.
    async fn follow(&self, request: Outgoing) -> Result<Answer, HttpError> {
        let Outgoing { method, url, mut headers, body, trusted, .. } = request;
        let trust = Trust {
            verify_tls: request.verify_tls,
            authorities: request.authorities,
            certificate: request.certificate,
        };
        let egress = Egress { proxy: request.proxy, direct: request.direct };
        for name in CONNECTION_HEADERS {
            headers.remove(name);
        }
        if let Some(value) = url.authorization() {
            headers.entry(header::AUTHORIZATION).or_insert(value);
        }
        let agent = HeaderValue::from_static(concat!("tidegate/", env!("CARGO_PKG_VERSION")));
        headers.entry(USER_AGENT).or_insert(agent);
        let start = url.authority().to_owned();
        let mut hop = Hop { method, url, headers, body, trusted };
        for _ in 0..=REDIRECTS_MAX {
            let response = self.ask(&hop, &trust, &egress).await?;
            let location = location(&response).filter(|_| request.redirects == Redirects::SameHost);
            let Some(location) = location else {
                return read(response, request.max_bytes, &hop.url).await;
            };
            hop = hop.redirected(response.status(), &location)?;
        }
        Err(HttpError::TooManyRedirects { host: start })
    }

    async fn ask(
        &self,
        hop: &Hop,
        trust: &Trust,
        egress: &Egress,
    ) -> Result<Response<Incoming>, HttpError> {
        let host = || hop.url.authority().to_owned();
        let proxy = match &egress.proxy {
            Some(proxy) => Some(proxy.clone()),
            None if egress.direct => None,
            None => self.environment_proxy(&hop.url)?,
        };
        let mut request = Request::new(Full::new(hop.body.clone()));
        *request.method_mut() = hop.method.clone();
        *request.uri_mut() = hop.url.uri().clone();
        *request.headers_mut() = hop.headers.clone();
        let forwards = |proxy: &&Proxy| proxy.kind == ProxyKind::Http && !hop.url.is_https();
        if let Some(value) = proxy.as_ref().filter(forwards).and_then(Proxy::authorization) {
            request.headers_mut().insert(header::PROXY_AUTHORIZATION, value);
        }
        let key = PoolKey { trust: trust.clone(), trusted: hop.trusted, proxy };
        let pool = self.pool(key).map_err(|_| HttpError::Tls { host: host() })?;
        pool.request(request).await.map_err(|error| classify(&error, host()))
    }

    fn environment_proxy(&self, url: &SafeUrl) -> Result<Option<Proxy>, HttpError> {
        let found = self.environment.as_ref().and_then(|known| known.intercept(url.uri()));
        let Some(found) = found else { return Ok(None) };
        // A proxy that we cannot use is an error, and not ignored: it is there for a reason.
        let proxy = Proxy::from_environment(&found);
        proxy.map(Some).ok_or_else(|| HttpError::Proxy { host: url.authority().to_owned() })
    }

    fn pool(&self, key: PoolKey) -> Result<Pool, CertificateError> {
        let additions = self.guard.nodes.additions();
        let mut pools = self.pools.lock();
        let Pools { pools, checked } = &mut *pools;
        if mem::replace(checked, additions) != additions {
            // Connections are checked when they are made: a kept one may lead to a node that was added since.
            pools.clear();
        }
        if let Some(pool) = pools.get(&key) {
            return Ok(pool.clone());
        }
        if pools.len() >= POOLS_MAX {
            pools.retain(|key, _| key.proxy.is_none() && key.trust.is_usual());
        }
        let pool = self.make_pool(&key)?;
        pools.insert(key, pool.clone());
        Ok(pool)
    }

    fn make_pool(&self, key: &PoolKey) -> Result<Pool, CertificateError> {
        let Trust { verify_tls, authorities, certificate } = &key.trust;
        let tls = match (authorities, verify_tls, certificate) {
            (_, false, None) => self.unverified.clone(),
            (None, true, None) => self.verified.clone(),
            (Some(own), true, None) => tls::trusting_pem(own),
            (own, verify, Some(certificate)) => {
                tls::identified(own.as_deref().filter(|_| *verify), *verify, certificate)?
            }
        };
        let guard = (!key.trusted).then(|| Arc::clone(&self.guard));
        let (resolver, proxy) = (Arc::clone(&self.resolver), key.proxy.clone());
        let connector = Connector::new(resolver, guard, proxy, &self.verified);
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_all_versions()
            .wrap_connector(connector);
        let pool = legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(IDLE_PER_HOST_MAX)
            .http1_max_buf_size(HEADER_BYTES_MAX)
            .build(connector);
        Ok(pool)
    }
}

impl Transport for Client {
    fn send(&self, request: Outgoing) -> BoxFuture<'_, Result<Answer, HttpError>> {
        Box::pin(self.exchange(request))
    }

    fn permit<'a>(&'a self, namespace: &'a str) -> BoxFuture<'a, Option<RequestPermit>> {
        Box::pin(async move {
            let permit = self.limits.acquire(namespace);
            let permit = tokio::time::timeout(CHECK_PERMIT_WAIT_MAX, permit).await;
            permit.unwrap_or_else(|_| {
                warn!(namespace, "Too many requests in flight: a check waited for two minutes");
                None
            })
        })
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("policy", &self.guard.policy).finish_non_exhaustive()
    }
}

// === impl Trust ===

impl Trust {
    /// Whether all requests share it: no Canary has settings of its own in it.
    fn is_usual(&self) -> bool {
        self.authorities.is_none() && self.certificate.is_none()
    }
}

// === impl Hop ===

impl Hop {
    /// The request that a redirect asks for, if it stays on the host.
    fn redirected(self, status: StatusCode, location: &str) -> Result<Self, HttpError> {
        let refused = || HttpError::RedirectRefused { host: self.url.authority().to_owned() };
        let url = self.url.join(location).map_err(|_| refused())?;
        let is_downgrade = self.url.is_https() && !url.is_https();
        if !url.is_same_host(&self.url) || is_downgrade {
            return Err(refused());
        }
        let is_same = url.is_same_origin(&self.url);
        let Self { mut method, url: from, mut headers, mut body, trusted } = self;
        // A request that went to the host without TLS may go there with it.
        let is_upgrade = from.port() == 80 && url.is_https() && url.port() == 443;
        if !is_same && !is_upgrade {
            let names: Vec<HeaderName> = headers.keys().cloned().collect();
            for name in names.into_iter().filter(|name| !HARMLESS_HEADERS.contains(name)) {
                headers.remove(name);
            }
        }
        let turns_into_get = match status {
            StatusCode::SEE_OTHER => method != Method::HEAD,
            StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => method == Method::POST,
            _ => false,
        };
        if turns_into_get {
            method = Method::GET;
            body = Bytes::new();
            headers.remove(CONTENT_TYPE);
            headers.remove(CONTENT_ENCODING);
        }
        Ok(Self { method, url, headers, body, trusted: trusted && (is_same || is_upgrade) })
    }
}

/// The address that a redirect names.
fn location(response: &Response<Incoming>) -> Option<String> {
    let is_redirect = matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308);
    let value = response.headers().get(header::LOCATION).filter(|_| is_redirect)?;
    Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
}

/// Reads at most `bytes_max` of the body. The rest is left unread, and the connection closed.
async fn read(
    response: Response<Incoming>,
    bytes_max: usize,
    url: &SafeUrl,
) -> Result<Answer, HttpError> {
    let (parts, mut incoming) = response.into_parts();
    let mut body = BytesMut::new();
    let mut truncated = false;
    while let Some(frame) = incoming.frame().await {
        let frame = frame.map_err(|_| HttpError::Broken { host: url.authority().to_owned() })?;
        let Ok(data) = frame.into_data() else { continue };
        let room = bytes_max - body.len();
        if data.len() > room {
            body.extend_from_slice(data.get(..room).unwrap_or_default());
            truncated = true;
            break;
        }
        body.extend_from_slice(&data);
    }
    Ok(Answer { status: parts.status, headers: parts.headers, body: body.freeze(), truncated })
}

/// Translates an error of the client library.
fn classify(error: &legacy::Error, host: String) -> HttpError {
    let mut cause = error.source();
    while let Some(current) = cause {
        if let Some(fault) = current.downcast_ref::<ConnectFault>() {
            return match fault {
                ConnectFault::Forbidden(reason) => HttpError::Forbidden { host, reason },
                ConnectFault::NoSuchHost => HttpError::NoSuchHost { host },
                ConnectFault::Unreachable => HttpError::Connect { host },
                ConnectFault::Proxy => HttpError::Proxy { host },
            };
        }
        if current.is::<rustls::Error>() {
            return HttpError::Tls { host };
        }
        // An I/O error hides the error inside it from `source`.
        let inside = current.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        cause = match inside {
            Some(inside) => Some(inside as &(dyn std::error::Error + 'static)),
            None => current.source(),
        };
    }
    if error.is_connect() { HttpError::Connect { host } } else { HttpError::Broken { host } }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{self, Read as _, Write as _},
        net::{SocketAddr, TcpListener},
        sync::mpsc,
    };

    use base64::{Engine as _, prelude::BASE64_STANDARD};
    use rustls::{
        RootCertStore, ServerConfig, ServerConnection, StreamOwned,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer},
        server::WebPkiClientVerifier,
    };
    use tidegate_runtime::tls::{self as runtime_tls, Trust};

    use super::*;

    // For `tls.test`; issued by itself, good for a hundred years.
    const CERTIFICATE: &[u8] = include_bytes!("testdata/self-signed.cert.der");
    const KEY: &[u8] = include_bytes!("testdata/self-signed.key.der");

    /// Any name is this machine.
    struct Here;

    impl Resolve for Here {
        fn resolve(&self, _: &str, port: u16) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> {
            Box::pin(async move { Ok(vec![SocketAddr::from(([127, 0, 0, 1], port))]) })
        }
    }

    fn roots() -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from(CERTIFICATE)).unwrap();
        roots
    }

    fn local() -> Policy {
        Policy { allow_loopback: true, environment_proxies: false, ..Policy::default() }
    }

    /// Trusts the one test certificate.
    fn friend() -> Client {
        let mut friend = Client::with_resolver(local(), Arc::new(Here));
        friend.verified = runtime_tls::client(Trust::Authorities(roots()));
        friend
    }

    fn pem(label: &str, der: &[u8]) -> Vec<u8> {
        let body = BASE64_STANDARD.encode(der);
        format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\n").into_bytes()
    }

    /// Answers every connection in a thread of its own, and returns the port and the requests.
    fn serve_tls(wants_certificate: bool) -> (u16, mpsc::Receiver<String>) {
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap();
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots()), provider).build();
        let builder = if wants_certificate {
            builder.with_client_cert_verifier(verifier.unwrap())
        } else {
            builder.with_no_client_auth()
        };
        let config = builder.with_single_cert(
            vec![CertificateDer::from(CERTIFICATE)],
            PrivateKeyDer::from(PrivatePkcs8KeyDer::from(KEY)),
        );
        let config = Arc::new(config.unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (asked, received) = mpsc::channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
                let mut stream = StreamOwned::new(connection, stream.unwrap());
                let mut buffer = [0; 4096];
                // A client that does not trust the server, or is not trusted, breaks off here.
                if let Ok(read) = stream.read(&mut buffer) {
                    let _nobody_may_listen =
                        asked.send(String::from_utf8_lossy(&buffer[..read]).into_owned());
                    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
                    let _client_may_be_gone = stream.write_all(answer);
                }
            }
        });
        (port, received)
    }

    #[tokio::test]
    async fn a_certificate_must_be_trusted_and_for_the_host_unless_told_otherwise() {
        let (port, _asked) = serve_tls(false);
        let stranger = Client::with_resolver(local(), Arc::new(Here));
        let friend = friend();
        let cases = [
            ("not trusted", &stranger, "tls.test", true, false),
            ("not trusted, and told not to mind", &stranger, "tls.test", false, true),
            ("trusted", &friend, "tls.test", true, true),
            ("trusted, but for another host", &friend, "other.test", true, false),
            ("for another host, and told not to mind", &friend, "other.test", false, true),
        ];
        for (reason, client, host, verify_tls, is_answered) in cases {
            let url = SafeUrl::parse(&format!("https://{host}:{port}/")).unwrap();
            let host = url.authority().to_owned();
            let outcome = client.send(Outgoing { verify_tls, ..Outgoing::get(url, "test") }).await;
            let outcome = outcome.map(|answer| answer.body);
            let want = if is_answered { Ok("ok".into()) } else { Err(HttpError::Tls { host }) };
            assert_eq!(outcome, want, "{reason}");
        }
    }

    #[tokio::test]
    async fn a_client_certificate_is_presented_to_servers_that_ask() {
        let (port, _asked) = serve_tls(true);
        let certificate = || ClientCertificate {
            chain_pem: pem("CERTIFICATE", CERTIFICATE),
            key_pem: pem("PRIVATE KEY", KEY),
        };
        let broken = ClientCertificate { key_pem: b"no key".to_vec(), ..certificate() };
        let authorities = || Some(pem("CERTIFICATE", CERTIFICATE));
        let cases = [
            ("none", None, None, true, false),
            ("the one that is wanted", Some(certificate()), authorities(), true, true),
            ("to any server", Some(certificate()), None, false, true),
            ("but not to strangers", Some(certificate()), None, true, false),
            ("one that is broken", Some(broken), authorities(), true, false),
        ];
        let client = Client::with_resolver(local(), Arc::new(Here));
        for (reason, certificate, authorities, verify_tls, is_answered) in cases {
            let url = SafeUrl::parse(&format!("https://tls.test:{port}/")).unwrap();
            let request =
                Outgoing { verify_tls, authorities, certificate, ..Outgoing::get(url, "test") };
            assert_eq!(client.send(request).await.is_ok(), is_answered, "{reason}");
        }
    }

    #[tokio::test]
    async fn a_proxy_may_be_spoken_to_over_tls() {
        let (port, asked) = serve_tls(false);
        let via = |host: &str| Proxy::parse(&format!("https://user:pass@{host}:{port}")).unwrap();
        let url = SafeUrl::parse("http://metrics.example/q").unwrap();
        let request = |proxy| Outgoing { proxy: Some(proxy), ..Outgoing::get(url.clone(), "test") };
        let friend = friend();
        let answer = friend.send(request(via("tls.test"))).await.unwrap();
        assert_eq!(answer.body, "ok");
        let head = asked.recv().unwrap();
        assert!(head.starts_with("GET http://metrics.example/q HTTP/1.1\r\n"), "{head}");
        assert!(head.contains("proxy-authorization: Basic dXNlcjpwYXNz"), "{head}");

        // `disableTLS` of a hook is about its own server and not about the proxy.
        for (reason, host, client) in [
            ("for another host", "other.test", &friend),
            ("not trusted", "tls.test", &Client::with_resolver(local(), Arc::new(Here))),
        ] {
            let request = Outgoing { verify_tls: false, ..request(via(host)) };
            let error = client.send(request).await.unwrap_err();
            assert!(matches!(error, HttpError::Proxy { .. }), "{reason}: {error}");
        }

        let secret = SafeUrl::parse("https://hooks.example/TOKEN").unwrap();
        let request = Outgoing { url: secret, ..request(via("tls.test")) };
        let _no_tunnel = friend.send(request).await;
        let head = asked.recv().unwrap();
        assert!(head.starts_with("CONNECT hooks.example:443 HTTP/1.1\r\n"), "{head}");
    }
}
