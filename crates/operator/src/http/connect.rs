//! Makes connections: the one place where this crate opens a socket to an address that a user named.
//!
//! A name is looked up once, every address it has is checked, and the connection goes to one of
//! exactly those addresses. A name with one closed address among open ones is closed.

use std::{
    fmt, io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::future::BoxFuture;
use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::{
    client::legacy::connect::{
        Connected, Connection,
        proxy::{SocksV5, Tunnel},
    },
    rt::TokioIo,
};
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::{Instant, timeout_at},
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tower::Service;

use super::{
    guard::{Guard, literal},
    proxy::{Proxy, ProxyCredentials, ProxyKind},
};

/// Looks up the addresses of a host. Replaced for names of another network, such as the services of a cluster
/// in this process.
pub trait Resolve: Send + Sync {
    /// All addresses of `host`, which is never an address itself.
    fn resolve(&self, host: &str, port: u16) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>>;
}

/// The machine's resolver.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

/// Why there is no connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ConnectFault {
    Forbidden(&'static str),
    NoSuchHost,
    Unreachable,
    Proxy,
}

/// Opens TCP connections to checked addresses.
#[derive(Clone)]
struct Dialer {
    resolver: Arc<dyn Resolve>,
    /// `None`: the administrator's address, not checked.
    guard: Option<Arc<Guard>>,
    /// For a proxy that speaks TLS. TLS to servers is added elsewhere.
    tls: Option<Arc<ClientConfig>>,
}

/// Opens connections directly or through a proxy.
#[derive(Clone)]
pub(super) struct Connector {
    dialer: Dialer,
    /// For servers behind a proxy.
    guard: Option<Arc<Guard>>,
    proxy: Option<Proxy>,
}

/// A connection to a server, or to a proxy that may want TLS of its own.
enum Stream {
    Plain(TcpStream),
    Secure(Box<TlsStream<TcpStream>>),
}

/// A TCP connection that knows whether a proxy forwards the requests on it.
pub(super) struct Wire {
    io: TokioIo<Stream>,
    is_forwarded: bool,
}

/// All addresses of a name together. The caller's timeout usually ends first; this one is for the
/// attempts that the pool keeps going after their request has gone.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// More addresses than a name sensibly has.
const ADDRESSES_MAX: usize = 16;

// === impl SystemResolver ===

impl Resolve for SystemResolver {
    fn resolve(&self, host: &str, port: u16) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> {
        let host = host.to_owned();
        Box::pin(async move { Ok(tokio::net::lookup_host((host, port)).await?.collect()) })
    }
}

// === impl ConnectFault ===

impl fmt::Display for ConnectFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Forbidden(reason) => reason,
            Self::NoSuchHost => "the host has no address",
            Self::Unreachable => "the host cannot be reached",
            Self::Proxy => "the proxy does not connect",
        })
    }
}

impl std::error::Error for ConnectFault {}

// === impl Dialer ===

impl Dialer {
    async fn addresses(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, ConnectFault> {
        let mut addresses = if let Some(address) = literal(host) {
            vec![SocketAddr::new(address, port)]
        } else {
            let found = self.resolver.resolve(host, port).await;
            found.map_err(|_| ConnectFault::NoSuchHost)?
        };
        // Checked before any are left out, so that a long list hides nothing.
        if let Some(guard) = &self.guard
            && let Some(reason) = addresses.iter().find_map(|found| guard.refusal(found.ip()))
        {
            return Err(ConnectFault::Forbidden(reason));
        }
        addresses.truncate(ADDRESSES_MAX);
        if addresses.is_empty() { Err(ConnectFault::NoSuchHost) } else { Ok(addresses) }
    }

    async fn dial(&self, uri: &Uri) -> Result<Stream, ConnectFault> {
        let deadline = Instant::now() + CONNECT_TIMEOUT;
        let host = uri.host().ok_or(ConnectFault::NoSuchHost)?;
        let is_https = uri.scheme() == Some(&http::uri::Scheme::HTTPS);
        let port = uri.port_u16().unwrap_or(if is_https { 443 } else { 80 });
        let lookup = timeout_at(deadline, self.addresses(host, port)).await;
        let addresses = lookup.map_err(|_| ConnectFault::NoSuchHost)??;
        for (index, address) in addresses.iter().enumerate() {
            // The remaining addresses share the remaining time.
            let left = u32::try_from(addresses.len() - index).unwrap_or(1);
            let turn = deadline.saturating_duration_since(Instant::now()) / left;
            let attempt = timeout_at(Instant::now() + turn, TcpStream::connect(address)).await;
            if let Ok(Ok(stream)) = attempt {
                // Requests are one small write: waiting for more would only delay them.
                let _best_effort = stream.set_nodelay(true);
                return self.wrapped(stream, host, deadline).await;
            }
        }
        Err(ConnectFault::Unreachable)
    }

    async fn wrapped(
        &self,
        stream: TcpStream,
        host: &str,
        deadline: Instant,
    ) -> Result<Stream, ConnectFault> {
        let Some(tls) = &self.tls else { return Ok(Stream::Plain(stream)) };
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let name = ServerName::try_from(bare.to_owned()).map_err(|_| ConnectFault::Proxy)?;
        let greeting = TlsConnector::from(Arc::clone(tls)).connect(name, stream);
        match timeout_at(deadline, greeting).await {
            Ok(Ok(stream)) => Ok(Stream::Secure(Box::new(stream))),
            Ok(Err(_)) | Err(_) => Err(ConnectFault::Proxy),
        }
    }
}

impl Service<Uri> for Dialer {
    type Response = TokioIo<Stream>;
    type Error = ConnectFault;
    type Future = BoxFuture<'static, Result<Self::Response, ConnectFault>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), ConnectFault>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let dialer = self.clone();
        Box::pin(async move { dialer.dial(&uri).await.map(TokioIo::new) })
    }
}

// === impl Connector ===

impl Connector {
    /// `guard` is `None` for the administrator's own addresses; `tls` is for proxies.
    pub(super) fn new(
        resolver: Arc<dyn Resolve>,
        guard: Option<Arc<Guard>>,
        proxy: Option<Proxy>,
        tls: &ClientConfig,
    ) -> Self {
        let is_open = proxy.as_ref().is_some_and(|proxy| proxy.trusted);
        let tls = proxy.as_ref().filter(|proxy| proxy.secure).map(|_| Arc::new(tls.clone()));
        let dialer = Dialer { resolver, guard: if is_open { None } else { guard.clone() }, tls };
        Self { dialer, guard, proxy }
    }

    /// Whether a server behind a proxy may be reached.
    ///
    /// A proxy that a user names looks names up in its own network. The administrator's is in the
    /// operator's, and may reach more than pods do: names are looked up here first, and a name
    /// that is not found here is not handed on.
    async fn check(&self, uri: &Uri, proxy: &Proxy) -> Result<(), ConnectFault> {
        let Some(guard) = &self.guard else { return Ok(()) };
        let host = uri.host().ok_or(ConnectFault::NoSuchHost)?;
        match literal(host) {
            Some(address) => match guard.refusal(address) {
                Some(reason) => Err(ConnectFault::Forbidden(reason)),
                None => Ok(()),
            },
            None if proxy.trusted && !guard.policy.proxy_resolves => {
                let resolver = Arc::clone(&self.dialer.resolver);
                let ours = Dialer { resolver, guard: self.guard.clone(), tls: None };
                let deadline = Instant::now() + CONNECT_TIMEOUT;
                let port = uri.port_u16().unwrap_or(80);
                let lookup = timeout_at(deadline, ours.addresses(host, port)).await;
                lookup.map_err(|_| ConnectFault::NoSuchHost)?.map(|_| ())
            }
            None => Ok(()),
        }
    }

    async fn connect(self, uri: Uri) -> Result<Wire, ConnectFault> {
        let Some(proxy) = &self.proxy else {
            let stream = self.dialer.dial(&uri).await?;
            return Ok(Wire { io: TokioIo::new(stream), is_forwarded: false });
        };
        self.check(&uri, proxy).await?;
        let is_https = uri.scheme() == Some(&http::uri::Scheme::HTTPS);
        let at = proxy.uri().ok_or(ConnectFault::Proxy)?;
        let io = match proxy.kind {
            ProxyKind::Http if !is_https => TokioIo::new(self.dialer.dial(&at).await?),
            ProxyKind::Http => {
                let mut tunnel = Tunnel::new(at, self.dialer.clone());
                if let Some(value) = proxy.authorization() {
                    tunnel = tunnel.with_auth(value);
                }
                tunnel.call(uri).await.map_err(|error| proxy_fault(&error))?
            }
            ProxyKind::Socks5 => {
                let mut socks = SocksV5::new(at, self.dialer.clone());
                if let ProxyCredentials::Pair(user, password) = &proxy.credentials {
                    socks = socks.with_auth(user.clone(), password.clone());
                }
                socks.call(uri).await.map_err(|error| proxy_fault(&error))?
            }
        };
        Ok(Wire { io, is_forwarded: proxy.kind == ProxyKind::Http && !is_https })
    }
}

impl Service<Uri> for Connector {
    type Response = Wire;
    type Error = ConnectFault;
    type Future = BoxFuture<'static, Result<Wire, ConnectFault>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), ConnectFault>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        Box::pin(self.clone().connect(uri))
    }
}

/// A refusal to dial keeps its reason; every other fault is the proxy's.
fn proxy_fault(error: &(dyn std::error::Error + 'static)) -> ConnectFault {
    let mut causes = std::iter::successors(Some(error), |error| error.source());
    let refusal = causes.find_map(|cause| cause.downcast_ref::<ConnectFault>());
    match refusal {
        Some(ConnectFault::Forbidden(reason)) => ConnectFault::Forbidden(reason),
        _ => ConnectFault::Proxy,
    }
}

// === impl Stream ===

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Secure(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Secure(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Secure(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Secure(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Secure(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, buffers),
            Self::Secure(stream) => Pin::new(stream).poll_write_vectored(cx, buffers),
        }
    }
}

// === impl Wire ===

impl Connection for Wire {
    fn connected(&self) -> Connected {
        Connected::new().proxy(self.is_forwarded)
    }
}

impl Read for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buffer)
    }
}

impl Write for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, buffers)
    }
}
