//! Serves an HTTP service on a socket, until its handle is dropped.
//!
//! Errors of one connection do not affect the others.

use std::{future::Future, net::SocketAddr, time::Duration};

use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto::Builder,
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};

use super::ApiService;
use crate::clock::Clock;

/// A server on a socket. Dropping it stops it; [`Listener::stop`] waits until it has.
pub struct Listener {
    /// Where it listens: with the port that was chosen for port 0.
    pub address: SocketAddr,
    stop: watch::Sender<bool>,
    task: tokio::task::JoinHandle<()>,
}

/// Time for open requests to finish; watches are closed at once when their server ends.
const DRAIN: Duration = Duration::from_millis(300);

/// Pause after a failed accept: without file handles the next would fail at once, and spin.
const ACCEPT_AGAIN: Duration = Duration::from_millis(10);

// === impl Listener ===

impl Listener {
    /// Binds to `address` (port 0 for any) and starts to serve.
    pub async fn start(address: SocketAddr, service: ApiService) -> std::io::Result<Self> {
        Self::serve(address, move |stream| connection(stream, service.clone())).await
    }

    /// Like [`Listener::start`], with another service behind the socket.
    pub(crate) async fn serve<F>(
        address: SocketAddr,
        serve: impl Fn(TcpStream) -> F + Send + 'static,
    ) -> std::io::Result<Self>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let socket = TcpListener::bind(address).await?;
        let address = socket.local_addr()?;
        let (stop, stopping) = watch::channel(false);
        let task = tokio::spawn(accept(socket, serve, stopping));
        Ok(Self { address, stop, task })
    }

    /// Closes the socket and the connections on it.
    pub async fn stop(self) {
        self.stop.send_replace(true);
        // The task ends by itself after the drain; a panic in it needs no handling.
        let _ = self.task.await;
    }
}

async fn connection(stream: TcpStream, service: ApiService) {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().keep_alive(true);
    // An informer holds one stream per kind on one connection.
    builder.http2().max_concurrent_streams(1_000);
    let service = TowerToHyperService::new(service);
    // Errors here come from clients that disconnected.
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
}

async fn accept<F>(
    socket: TcpListener,
    serve: impl Fn(TcpStream) -> F,
    mut stopping: watch::Receiver<bool>,
) where
    F: Future<Output = ()> + Send + 'static,
{
    // Sockets use real time, also when the cluster has a virtual clock.
    let real = Clock::real();
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            _ = stopping.changed() => break,
            Some(_) = connections.join_next() => {}
            accepted = socket.accept() => {
                // A failed accept (client disconnected, no file handles) affects that client alone.
                let Ok((stream, _)) = accepted else {
                    real.sleep(ACCEPT_AGAIN).await;
                    continue;
                };
                let _ = stream.set_nodelay(true);
                connections.spawn(serve(stream));
            }
        }
    }
    drop(socket);
    let drained = async { while connections.join_next().await.is_some() {} };
    tokio::select! {
        biased;
        () = drained => {}
        () = real.sleep(DRAIN) => {}
    }
    connections.abort_all();
}
