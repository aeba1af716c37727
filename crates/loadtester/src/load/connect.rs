//! Connections: a name looked up, TCP, and TLS where the address asks for it.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use rustix::{
    io::Errno,
    net::{RecvFlags, recv},
};
use rustls::pki_types::ServerName;
use tidegate_runtime::tls::{self, Trust};
use tokio::{
    net::{TcpStream, lookup_host},
    sync::Mutex,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::{
    http1::{Answer, ExchangeError, Http1, Wire},
    http2::{Http2, Template},
    plan::{Plan, Protocol, Target},
    stats::Failure,
};

/// Opens connections for all workers of a thread.
pub(super) struct Connector {
    target: Target,
    protocol: Protocol,
    tls: Option<Tls>,
    known: Mutex<Known>,
}

struct Tls {
    connector: TlsConnector,
    name: ServerName<'static>,
}

/// The addresses of the name when it was last looked up.
#[derive(Default)]
struct Known {
    at: Option<Instant>,
    addresses: Arc<[SocketAddr]>,
}

/// The request in the forms that connections need.
pub(super) struct Request {
    wire: Wire,
    template: Template,
}

/// A connection that requests can be sent on, one after the other.
pub(super) enum Link {
    Plain(Box<Http1<TcpStream>>),
    Tls(Box<Http1<TlsStream<TcpStream>>>),
    Http2(Box<Http2>),
}

/// Pods come and go behind a name; looking it up for each connection would load the name server
/// instead of the target.
const LOOKUP_VALID: Duration = Duration::from_secs(5);

// === impl Request ===

impl Request {
    pub(super) fn of(plan: &Plan) -> Self {
        Self { wire: Wire::of(plan), template: Template::of(plan) }
    }
}

// === impl Connector ===

impl Connector {
    /// `None` if TLS does not support such a name.
    pub(super) fn new(plan: &Plan) -> Option<Self> {
        let target = plan.target.clone();
        let tls = if target.tls { Some(Tls::of(plan)?) } else { None };
        Some(Self { target, protocol: plan.protocol, tls, known: Mutex::default() })
    }

    /// A connection for the `turn`th caller; callers are spread over all addresses of the name.
    pub(super) async fn connect(&self, turn: usize) -> Result<Link, Failure> {
        let addresses = self.addresses().await?;
        let mut stream = None;
        for index in 0..addresses.len() {
            let Some(address) = addresses.get((turn + index) % addresses.len()) else { break };
            if let Ok(connected) = TcpStream::connect(address).await {
                stream = Some(connected);
                break;
            }
        }
        let Some(stream) = stream else {
            // The name may have other addresses by now.
            self.known.lock().await.at = None;
            return Err(Failure::Connect);
        };
        // Small requests must not wait for more to come; that it fails is no reason to stop.
        let _best_effort = stream.set_nodelay(true);
        let Some(Tls { connector, name }) = &self.tls else {
            return match self.protocol {
                Protocol::Http2PriorKnowledge => Ok(Link::Http2(Http2::begin(stream).await?)),
                // As hey: without TLS there is nothing to agree on HTTP/2 with.
                Protocol::Http1 | Protocol::Http2 => Ok(Link::Plain(Box::new(Http1::new(stream)))),
            };
        };
        let stream = connector.connect(name.clone(), stream).await.map_err(|_| Failure::Tls)?;
        let agreed = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        if agreed || self.protocol == Protocol::Http2PriorKnowledge {
            return Ok(Link::Http2(Http2::begin(stream).await?));
        }
        Ok(Link::Tls(Box::new(Http1::new(stream))))
    }

    /// The addresses of the name. One worker looks it up; the others wait for its result.
    async fn addresses(&self) -> Result<Arc<[SocketAddr]>, Failure> {
        let mut known = self.known.lock().await;
        if known.at.is_some_and(|at| at.elapsed() < LOOKUP_VALID) {
            return Ok(Arc::clone(&known.addresses));
        }
        let found = lookup_host((self.target.host.as_str(), self.target.port)).await;
        let addresses: Arc<[SocketAddr]> = found.map_err(|_| Failure::Lookup)?.collect();
        if addresses.is_empty() {
            return Err(Failure::Lookup);
        }
        *known = Known { at: Some(Instant::now()), addresses: Arc::clone(&addresses) };
        Ok(addresses)
    }
}

// === impl Tls ===

impl Tls {
    fn of(plan: &Plan) -> Option<Self> {
        // hey and wrk do not verify certificates.
        let trust = if plan.verify_tls { Trust::Machine } else { Trust::Any };
        let mut config = tls::client(trust);
        config.alpn_protocols = match plan.protocol {
            Protocol::Http1 => vec![b"http/1.1".to_vec()],
            Protocol::Http2 => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
            Protocol::Http2PriorKnowledge => vec![b"h2".to_vec()],
        };
        // As hey: the name that TLS asks for is the one in `Host`.
        let authority: http::uri::Authority = plan.target.authority.parse().ok()?;
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(host.to_owned()).ok()?;
        Some(Self { connector: TlsConnector::from(Arc::new(config)), name })
    }
}

// === impl Link ===

impl Link {
    /// Whether a kept connection cannot be used any more. Queries the runtime, which costs nothing; with
    /// `asks_system` also the system.
    pub(super) async fn is_gone(&mut self, asks_system: bool) -> bool {
        match self {
            Self::Plain(connection) => {
                connection.is_gone().await || asks_system && is_closed(connection.stream())
            }
            Self::Tls(connection) => {
                connection.is_gone().await
                    || asks_system && is_closed(connection.stream().get_ref().0)
            }
            // Its own task reads it, and says so when a request is handed over.
            Self::Http2(_) => false,
        }
    }

    pub(super) async fn exchange(&mut self, request: &Request) -> Result<Answer, ExchangeError> {
        match self {
            Self::Plain(connection) => connection.exchange(&request.wire).await,
            Self::Tls(connection) => connection.exchange(&request.wire).await,
            Self::Http2(connection) => connection.exchange(&request.template).await,
        }
    }
}

/// Whether the other side has closed, as far as the system knows.
fn is_closed(stream: &TcpStream) -> bool {
    match recv(stream, &mut [0_u8; 1][..], RecvFlags::PEEK | RecvFlags::DONTWAIT) {
        Ok((_, 0)) => true,
        Ok(_) | Err(Errno::AGAIN | Errno::INTR) => false,
        Err(_) => true,
    }
}
