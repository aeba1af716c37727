//! The operator's own HTTP server: metrics for Prometheus, health for the kubelet.
//!
//! | path       | answer                                                                   |
//! |------------|--------------------------------------------------------------------------|
//! | `/metrics` | the series of [`Telemetry`]                                              |
//! | `/healthz` | 200 `OK`; 500 and a line for each loop that has stalled                  |
//! | `/readyz`  | 200 `OK`; 503 and a line for each thing that is still missing            |
//!
//! It runs on followers too. Strangers can reach the port, so connections are bounded in number and
//! time, and nothing here can change anything.

mod health;

use std::{future::Future, io, pin::pin, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
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

pub use self::health::{Health, Heartbeat, Readiness};
use crate::telemetry::{Format, Telemetry};

#[derive(Clone)]
struct Shared {
    telemetry: Arc<Telemetry>,
    health: Arc<Health>,
}

/// For the headers of a request. As Flagger.
const READ_TIMEOUT: Duration = Duration::from_secs(5);
/// For one answer, as Flagger, and for a connection before it must be opened anew.
const CONNECTION_TIMEOUT: Duration = Duration::from_mins(1);
/// For answers under way when we stop. As Flagger.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(3);
/// A scraper or two, a few probes, a person; and room for those who do not behave.
const CONNECTIONS_MAX: usize = 64;
/// After an accept that failed, most likely for want of file handles.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

const INDEX: &str = "Tidegate operator\n\n\
    /metrics  series for Prometheus\n\
    /healthz  whether its loops turn\n\
    /readyz   whether its caches are filled\n";

/// The pages. Others can be merged into them.
pub fn routes(telemetry: Arc<Telemetry>, health: Arc<Health>) -> Router {
    Router::new()
        .route("/", get(async || INDEX))
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .with_state(Shared { telemetry, health })
}

/// Serves `router` until `stop` resolves, then finishes what was begun, for 3 s at most.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
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
    if timeout(SHUTDOWN_GRACE, all_ended).await.is_err() {
        connections.shutdown().await;
    }
    Ok(())
}

/// One connection, until it ends, gets old or we stop.
async fn converse(stream: TcpStream, router: Router, mut stopped: watch::Receiver<bool>) {
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
        () = tokio::time::sleep(CONNECTION_TIMEOUT) => {}
    }
    connection.as_mut().graceful_shutdown();
    if timeout(CONNECTION_TIMEOUT, connection).await.is_err() {
        debug!("A connection was cut off: its answer took too long to be read");
    }
}

async fn metrics(State(shared): State<Shared>, headers: HeaderMap) -> Response {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let format = Format::accepted(accept);
    let page = shared.telemetry.render(format);
    ([(header::CONTENT_TYPE, format.content_type())], page).into_response()
}

async fn healthz(State(shared): State<Shared>) -> Response {
    answer(&shared.health.stalled(), StatusCode::INTERNAL_SERVER_ERROR)
}

async fn readyz(State(shared): State<Shared>) -> Response {
    answer(&shared.health.missing(), StatusCode::SERVICE_UNAVAILABLE)
}

/// `OK`, as Flagger, or what is wrong.
fn answer(problems: &[String], status: StatusCode) -> Response {
    if problems.is_empty() {
        return "OK".into_response();
    }
    (status, problems.join("\n") + "\n").into_response()
}

#[cfg(test)]
mod tests;
