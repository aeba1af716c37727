//! A small HTTP server on a socket of this machine, for the gateway and every pod's application.
//!
//! Answers requests over HTTP/1.1 and HTTP/2 once their body is complete. Dropping the server
//! closes the socket and lets open requests finish within a limit.

use std::{
    convert::Infallible,
    future::Future,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto::Builder,
    service::TowerToHyperService,
};
use tokio::{net::TcpListener, sync::watch, task::JoinSet};

/// Maximum size of a request body.
const BODY_BYTES_MAX: usize = 1024 * 1024;
/// Time for open requests to finish after a stop.
const DRAIN: Duration = Duration::from_secs(2);
/// Pause after a failed accept: without file handles the next would fail at once, and spin.
const ACCEPT_AGAIN: Duration = Duration::from_millis(10);

/// Answers requests with a complete body.
pub(super) trait Handler: Clone + Send + Sync + 'static {
    fn handle(self, request: Request<Bytes>) -> impl Future<Output = Response<Bytes>> + Send;
}

/// A server on a socket. Dropping it stops it, letting open requests finish.
#[derive(Debug)]
pub(super) struct HttpServer {
    pub(super) address: SocketAddr,
    stop: watch::Sender<bool>,
}

/// Adapts a handler to the HTTP library.
#[derive(Clone)]
struct Adapter<H>(H);

// === impl HttpServer ===

impl HttpServer {
    /// Binds to `address` (port 0 for any) and starts to serve.
    pub(super) async fn start(address: SocketAddr, handler: impl Handler) -> std::io::Result<Self> {
        let socket = TcpListener::bind(address).await?;
        let address = socket.local_addr()?;
        let (stop, stopping) = watch::channel(false);
        tokio::spawn(accept(socket, Adapter(handler), stopping));
        Ok(Self { address, stop })
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.stop.send_replace(true);
    }
}

async fn accept<H: Handler>(
    socket: TcpListener,
    handler: Adapter<H>,
    mut stopping: watch::Receiver<bool>,
) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            _ = stopping.changed() => break,
            Some(_) = connections.join_next() => {}
            accepted = socket.accept() => {
                let Ok((stream, _)) = accepted else {
                    tokio::time::sleep(ACCEPT_AGAIN).await;
                    continue;
                };
                let _ = stream.set_nodelay(true);
                let service = TowerToHyperService::new(handler.clone());
                let mut stopping = stopping.clone();
                connections.spawn(async move {
                    let builder = Builder::new(TokioExecutor::new());
                    let connection = builder.serve_connection(TokioIo::new(stream), service);
                    let mut connection = std::pin::pin!(connection);
                    tokio::select! {
                        biased;
                        // Errors here come from clients that disconnected.
                        _ = &mut connection => return,
                        _ = stopping.changed() => connection.as_mut().graceful_shutdown(),
                    }
                    let _ = connection.await;
                });
            }
        }
    }
    drop(socket);
    let drained = async { while connections.join_next().await.is_some() {} };
    // Connections still open after that are closed with the set.
    let _ = tokio::time::timeout(DRAIN, drained).await;
}

// === impl Adapter ===

impl<H, B> tower::Service<Request<B>> for Adapter<H>
where
    H: Handler,
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let handler = self.0.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let Ok(body) = Limited::new(body, BODY_BYTES_MAX).collect().await else {
                let mut response = Response::new(Full::default());
                *response.status_mut() = StatusCode::PAYLOAD_TOO_LARGE;
                return Ok(response);
            };
            let request = Request::from_parts(parts, body.to_bytes());
            Ok(handler.handle(request).await.map(Full::new))
        })
    }
}
