//! The operator's own HTTP server: metrics for Prometheus, health for the kubelet.
//!
//! | path       | answer                                                                   |
//! |------------|--------------------------------------------------------------------------|
//! | `/metrics` | the series of [`Telemetry`]                                              |
//! | `/healthz` | 200 `OK`; 500 and a line for each loop that has stalled                  |
//! | `/readyz`  | 200 `OK`; 503 and a line for each thing that is still missing            |
//!
//! It runs on followers too. The port needs no login: connections are bounded in number and time and give way to new
//! ones, so that probes are always answered. No page changes anything.

mod health;

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use tidegate_runtime::serve::{self, Bounds};
use tokio::net::TcpListener;

pub use self::health::{Health, Heartbeat, Readiness};
use crate::telemetry::{Format, Telemetry};

#[derive(Clone)]
struct Shared {
    telemetry: Arc<Telemetry>,
    health: Arc<Health>,
}

const BOUNDS: Bounds = Bounds {
    // A scraper or two, a few probes, a person; and room for those that do not behave.
    connections_max: 64,
    grace: Duration::from_secs(3),
};

const INDEX: &str = "Tidegate operator\n\n\
    /metrics  series for Prometheus\n\
    /healthz  whether its loops turn\n\
    /readyz   whether its caches are filled and its watches hear\n";

/// The pages. Others can be merged into them.
pub fn routes(telemetry: Arc<Telemetry>, health: Arc<Health>) -> Router {
    Router::new()
        .route("/", get(async || INDEX))
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .with_state(Shared { telemetry, health })
}

/// Serves `router` until `stop` resolves, then finishes requests in progress, for 3 s at most.
pub async fn serve(listener: TcpListener, router: Router, stop: impl Future<Output = ()>) {
    serve::serve(listener, router, stop, BOUNDS).await;
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

/// `OK`, as Flagger, or the problems.
fn answer(problems: &[String], status: StatusCode) -> Response {
    if problems.is_empty() {
        return "OK".into_response();
    }
    (status, problems.join("\n") + "\n").into_response()
}

#[cfg(test)]
mod tests;
