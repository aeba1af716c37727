//! The client itself: pools, redirects, and reading no more than was asked for.
//!
//! Connections are kept and shared. Those to addresses that were not checked (the administrator's)
//! have pools of their own, or a Canary could ride on them past the check.

use std::{
    collections::BTreeMap,
    error::Error as _,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
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
use rustls::ClientConfig;

use super::{
    Answer, HttpError, Outgoing, Redirects, SafeUrl, Transport,
    connect::{ConnectFault, Connector, Resolve, SystemResolver},
    guard::Policy,
    limits::Limits,
    proxy::{Proxy, ProxyKind},
    tls,
};

/// Sends requests over the network. One for the whole operator.
pub struct Client {
    policy: Arc<Policy>,
    resolver: Arc<dyn Resolve>,
    limits: Limits,
    environment: Option<Matcher>,
    verified: ClientConfig,
    unverified: ClientConfig,
    pools: Mutex<BTreeMap<PoolKey, Pool>>,
}

type Pool = legacy::Client<HttpsConnector<Connector>, Full<Bytes>>;

/// Requests that differ in any of these never share a connection.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct PoolKey {
    verify_tls: bool,
    authorities: Option<Vec<u8>>,
    trusted: bool,
    proxy: Option<Proxy>,
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
/// How long to wait for a turn. It does not count against the request's own timeout: a check must
/// not fail because we were busy. Three times the longest usual timeout.
const TURN_WAIT_MAX: Duration = Duration::from_secs(30);
/// Below the 60 s after which common servers close, so that a kept connection is seldom a dead one.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Of one host; a tick asks a metrics server a handful of questions at a time.
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

/// Headers that cannot be credentials. Of others one cannot know, so they stay behind when a
/// redirect leads to another server.
const HARMLESS_HEADERS: [HeaderName; 4] = [ACCEPT, CONTENT_ENCODING, CONTENT_TYPE, USER_AGENT];

// === impl Client ===

impl Client {
    /// With the machine's resolver and the machine's trusted certificates.
    pub fn new(policy: Policy) -> Self {
        Self::with_resolver(policy, Arc::new(SystemResolver))
    }

    /// With names that mean what `resolver` says. Addresses are checked all the same.
    pub fn with_resolver(policy: Policy, resolver: Arc<dyn Resolve>) -> Self {
        Self {
            limits: Limits::new(policy.in_flight_max, policy.in_flight_per_namespace_max),
            environment: policy.environment_proxies.then(Matcher::from_env),
            policy: Arc::new(policy),
            resolver,
            verified: tls::verified(),
            unverified: tls::unverified(),
            pools: Mutex::default(),
        }
    }

    async fn exchange(&self, request: Outgoing) -> Result<Answer, HttpError> {
        let host = request.url.authority().to_owned();
        let turn = tokio::time::timeout(TURN_WAIT_MAX, self.limits.enter(&request.namespace)).await;
        let Ok(Some(_turn)) = turn else { return Err(HttpError::Busy { host }) };
        let after = request.timeout;
        let answer = tokio::time::timeout(after, self.follow(request)).await;
        answer.unwrap_or(Err(HttpError::Timeout { host, after }))
    }

    /// Sends the request, and again to wherever the answers point.
    async fn follow(&self, request: Outgoing) -> Result<Answer, HttpError> {
        let Outgoing { method, url, mut headers, body, trusted, .. } = request;
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
            let trust = (request.verify_tls, request.authorities.as_deref());
            let response = self.ask(&hop, trust, request.proxy.as_ref()).await?;
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
        (verify_tls, authorities): (bool, Option<&[u8]>),
        proxy: Option<&Proxy>,
    ) -> Result<Response<Incoming>, HttpError> {
        let host = || hop.url.authority().to_owned();
        let proxy = match proxy {
            Some(proxy) => Some(proxy.clone()),
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
        let authorities = authorities.map(<[u8]>::to_vec);
        let pool = self.pool(PoolKey { verify_tls, authorities, trusted: hop.trusted, proxy });
        pool.request(request).await.map_err(|error| classify(&error, host()))
    }

    fn environment_proxy(&self, url: &SafeUrl) -> Result<Option<Proxy>, HttpError> {
        let found = self.environment.as_ref().and_then(|known| known.intercept(url.uri()));
        let Some(found) = found else { return Ok(None) };
        // One that we cannot use is not passed by: it is there for a reason.
        let proxy = Proxy::from_environment(&found);
        proxy.map(Some).ok_or_else(|| HttpError::Proxy { host: url.authority().to_owned() })
    }

    fn pool(&self, key: PoolKey) -> Pool {
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pool) = pools.get(&key) {
            return pool.clone();
        }
        if pools.len() >= POOLS_MAX {
            pools.retain(|key, _| key.proxy.is_none() && key.authorities.is_none());
        }
        let pool = self.make_pool(&key);
        pools.insert(key, pool.clone());
        pool
    }

    fn make_pool(&self, key: &PoolKey) -> Pool {
        let own = key.authorities.as_deref().map(tls::trusting_pem);
        let tls = match (&own, key.verify_tls) {
            (_, false) => &self.unverified,
            (Some(own), true) => own,
            (None, true) => &self.verified,
        };
        let guard = (!key.trusted).then(|| Arc::clone(&self.policy));
        let connector = Connector::new(Arc::clone(&self.resolver), guard, key.proxy.clone());
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls.clone())
            .https_or_http()
            .enable_all_versions()
            .wrap_connector(connector);
        legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(IDLE_PER_HOST_MAX)
            .http1_max_buf_size(HEADER_BYTES_MAX)
            .build(connector)
    }
}

impl Transport for Client {
    fn send(&self, request: Outgoing) -> BoxFuture<'_, Result<Answer, HttpError>> {
        Box::pin(self.exchange(request))
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("policy", &self.policy).finish_non_exhaustive()
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
        // What went to the host unprotected may go there protected.
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

/// Where an answer says to ask instead.
fn location(response: &Response<Incoming>) -> Option<String> {
    let is_redirect = matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308);
    let value = response.headers().get(header::LOCATION).filter(|_| is_redirect)?;
    Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
}

/// Reads at most `bytes_max` of the body. What follows is left unread, and the connection closed.
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

/// Turns what the client library says into our words.
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
    };

    use rustls::{
        RootCertStore, ServerConfig, ServerConnection, StreamOwned,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer},
    };

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

    /// Answers every connection in a thread of its own, and returns the port.
    fn serve_tls() -> u16 {
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![CertificateDer::from(CERTIFICATE)],
                PrivateKeyDer::from(PrivatePkcs8KeyDer::from(KEY)),
            );
        let config = Arc::new(config.unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
                let mut stream = StreamOwned::new(connection, stream.unwrap());
                // A client that trusts nobody breaks off here.
                if stream.read(&mut [0; 4096]).is_ok() {
                    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
                    stream.write_all(answer).unwrap();
                }
            }
        });
        port
    }

    #[tokio::test]
    async fn v8_4_a_certificate_must_be_trusted_and_for_the_host_unless_told_otherwise() {
        let port = serve_tls();
        let policy =
            Policy { allow_loopback: true, environment_proxies: false, ..Policy::default() };
        let stranger = Client::with_resolver(policy.clone(), Arc::new(Here));
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from(CERTIFICATE)).unwrap();
        let mut friend = Client::with_resolver(policy, Arc::new(Here));
        friend.verified = tls::trusting(roots);
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
}
