//! Connections: accepted, bounded, and ended politely.

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
use tracing::warn;

/// For the head of a request, and so for a kept connection to be silent.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// Callers that wait for tasks, scrapers and probes; and room for those who do not behave.
const CONNECTIONS_MAX: usize = 1024;
/// After an accept that failed, most likely for want of file handles.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves `router` until `stop` resolves, then finishes what was begun, for `grace` at most.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    stop: impl Future<Output = ()>,
    grace: Duration,
) {
    let mut stop = pin!(stop);
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let (stopping, stopped) = watch::channel(false);
    let mut connections = JoinSet::new();
    loop {
        // Dropped unused when `stop` wins; a connection that is not accepted waits in the kernel.
        let accept = async {
            let place = Arc::clone(&places).acquire_owned().await.map_err(io::Error::other)?;
            Ok::<_, io::Error>((place, listener.accept().await?.0))
        };
        tokio::select! {
            biased;
            () = &mut stop => break,
            Some(_ended) = connections.join_next() => {}
            accepted = accept => match accepted {
                Ok((place, stream)) => {
                    let connection = converse(stream, router.clone(), stopped.clone());
                    connections.spawn(async move {
                        connection.await;
                        drop(place);
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
    if timeout(grace, all_ended).await.is_err() {
        connections.shutdown().await;
    }
}

/// One connection, until it ends or we stop. A caller who goes away takes its request along.
async fn converse(stream: TcpStream, router: Router, mut stopped: watch::Receiver<bool>) {
    // Answers are small; that it fails is no reason not to give them.
    let _best_effort = stream.set_nodelay(true);
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(READ_TIMEOUT)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut connection = pin!(connection);
    tokio::select! {
        biased;
        _ = stopped.wait_for(|stopped| *stopped) => {}
        // Whoever breaks off does so at their own loss.
        _ended = connection.as_mut() => return,
    }
    connection.as_mut().graceful_shutdown();
    let _ended = connection.await;
}
