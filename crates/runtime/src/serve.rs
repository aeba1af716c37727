//! Serves a router over HTTP/1.1 to callers that are not trusted, until it is stopped.
//!
//! Connections are bounded in number and time. On stop no connection is accepted any more, and requests in
//! progress are finished, for [`Bounds::grace`] at most. A caller who disconnects cancels its request.

use std::{future::Future, io, pin::pin, sync::Arc, time::Duration};

use axum::Router;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
    task::JoinSet,
    time::timeout,
};
use tracing::{debug, warn};

/// The bounds of a server.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Further connections wait in the kernel.
    pub connections_max: usize,
    /// For the head of a request, and so for the silence of a kept connection.
    pub head_timeout: Duration,
    /// A connection that is older is closed after its current answer, which may take as long again.
    pub connection_age_max: Option<Duration>,
    /// For requests in progress on stop.
    pub grace: Duration,
}

/// After an accept that failed, most likely because no file handle is free.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves `router` until `stop` resolves, then finishes what was begun.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    stop: impl Future<Output = ()>,
    bounds: Bounds,
) {
    let mut stop = pin!(stop);
    let permits = Arc::new(Semaphore::new(bounds.connections_max));
    let (stopping, stopped) = watch::channel(false);
    let mut connections = JoinSet::new();
    loop {
        // Dropped unused when `stop` wins; a connection that is not accepted waits in the kernel.
        let accept = async {
            let permit = Arc::clone(&permits).acquire_owned().await.map_err(io::Error::other)?;
            Ok::<_, io::Error>((permit, listener.accept().await?.0))
        };
        tokio::select! {
            biased;
            () = &mut stop => break,
            Some(_ended) = connections.join_next() => {}
            accepted = accept => match accepted {
                Ok((permit, stream)) => {
                    let connection = converse(stream, router.clone(), stopped.clone(), bounds);
                    connections.spawn(async move {
                        connection.await;
                        drop(permit);
                    });
                }
                Err(error) => {
                    warn!(%error, "A connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    drop(listener);
    stopping.send_replace(true);
    let all_ended = async { while connections.join_next().await.is_some() {} };
    if timeout(bounds.grace, all_ended).await.is_err() {
        connections.shutdown().await;
    }
}

/// One connection, until it ends, gets too old or the server stops.
async fn converse(
    stream: TcpStream,
    router: Router,
    mut stopped: watch::Receiver<bool>,
    bounds: Bounds,
) {
    // Answers are small; they are given without this, too.
    let _best_effort = stream.set_nodelay(true);
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(bounds.head_timeout)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut connection = pin!(connection);
    let age_max = bounds.connection_age_max.unwrap_or(Duration::MAX);
    tokio::select! {
        biased;
        _ = stopped.wait_for(|stopped| *stopped) => {}
        // A caller that breaks off needs no answer.
        _ended = connection.as_mut() => return,
        () = tokio::time::sleep(age_max) => {}
    }
    connection.as_mut().graceful_shutdown();
    if timeout(age_max, connection).await.is_err() {
        debug!("A connection was cut off: its answer took too long to be read");
    }
}
