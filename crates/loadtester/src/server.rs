//! The HTTP server: Flagger's endpoints, and a list of gates.
//!
//! | path                                          | answer                                        |
//! |-----------------------------------------------|-----------------------------------------------|
//! | `POST /`                                      | a task: 202 or 200; 400, 403, 429 or 500      |
//! | `POST /gate/check`, `/rollback/check`         | 200 `Approved` or 403 `Forbidden`             |
//! | `POST /gate/open`, `close`, `/rollback/…`     | 202; 409 for a signed call that is outdated   |
//! | `/gate/approve`, `/gate/halt`                 | 200 `OK`, 403 `Forbidden`, always             |
//! | `GET /gates`                                  | gates that are open, as JSON                  |
//! | `GET /metrics`, `GET /healthz`                | series for Prometheus; 200 `OK`               |
//!
//! The port is open to callers that are not trusted: connections are bounded in number and give way to new ones,
//! heads and bodies are bounded in time and size.

mod gate;

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    body::to_bytes,
    extract::{Request, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{any, get, post},
};
use jiff::Timestamp;
use tidegate_runtime::serve::{self, Bounds};
use tokio::{net::TcpListener, task::spawn_blocking, time::timeout};
use tracing::{info, warn};

use crate::{
    auth::{Auth, AuthError, CallSignature, Signed},
    gates::Gates,
    metrics::{Gauges, Metrics},
    payload::Payload,
    runner::{Begun, Busy, Runner},
    task::{Policy, Task, Work},
};

/// All that requests are answered with.
pub struct App {
    pub auth: Auth,
    pub policy: Policy,
    pub gates: Gates,
    pub runner: Runner,
    pub metrics: Arc<Metrics>,
}

type Shared = State<Arc<App>>;

/// A request that was read, checked and understood.
struct ReadRequest {
    payload: Payload,
    headers: HeaderMap,
    signature: Option<CallSignature>,
}

/// Callers that wait for tasks, scrapers and probes; and room for those that do not behave.
const CONNECTIONS_MAX: usize = 1024;
/// A payload is a name, a namespace and a command; this is the longest command line Linux takes in
/// one word, halved.
const BODY_BYTES_MAX: usize = 64 * 1024;
/// For a body to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// When to try again when there is no room: a tick later.
const RETRY_AFTER_S: &str = "10";

/// The pages.
pub fn routes(app: Arc<App>) -> Router {
    Router::new()
        .route("/", post(task))
        .route("/healthz", any(async || "OK"))
        .route("/metrics", get(metrics))
        .route("/gates", get(gate::list))
        .route("/gate/approve", any(async || "OK"))
        .route("/gate/halt", any(async || (StatusCode::FORBIDDEN, "Forbidden")))
        .route("/gate/{action}", post(gate::gate))
        .route("/rollback/{action}", post(gate::rollback))
        .with_state(app)
}

/// Serves `router` until `stop` resolves, then finishes requests in progress, for `grace` at most.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    stop: impl Future<Output = ()>,
    grace: Duration,
) {
    let bounds = Bounds { connections_max: CONNECTIONS_MAX, grace };
    serve::serve(listener, router, stop, bounds).await;
}

async fn metrics(State(app): Shared) -> Response {
    let counting = Arc::clone(&app);
    let gates = spawn_blocking(move || counting.gates.list(now())).await;
    // A page without gates is better than none.
    let gates_open = gates.ok().and_then(Result::ok).map_or(0, |gates| gates.len());
    let page = app.metrics.page(Gauges { running: app.runner.running(), gates_open });
    let format = "text/plain; version=0.0.4; charset=utf-8";
    ([(header::CONTENT_TYPE, format)], page).into_response()
}

async fn task(State(app): Shared, request: Request) -> Response {
    let asked = match read(&app, request).await {
        Ok(asked) => asked,
        Err(response) => return response,
    };
    let parsed = {
        let app = Arc::clone(&app);
        // Concord's key and a body of load are files.
        spawn_blocking(move || Task::parse(&asked.payload, &app.policy)).await
    };
    let task = match parsed {
        Ok(Ok(task)) => task,
        Ok(Err(refusal)) => {
            app.metrics.count_refused("task");
            info!(status = refusal.status.as_u16(), reason = %refusal.text, "Refused a task");
            return (refusal.status, refusal.text).into_response();
        }
        Err(_panicked) => return StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    };
    if task.blocking {
        return ask(&app, task).await;
    }
    match app.runner.begin(task) {
        Ok(Begun::Started | Begun::Skipped) => StatusCode::ACCEPTED.into_response(),
        Err(busy) => too_busy(busy),
    }
}

/// Runs a task for a waiting caller. Dropped when the caller disconnects.
async fn ask(app: &App, task: Task) -> Response {
    let (returns_output, text) = (task.returns_output, task.text.clone());
    let is_command = !matches!(task.work, Work::Concord(_));
    let outcome = match app.runner.ask(task).await {
        Ok(outcome) => outcome,
        Err(busy) => return too_busy(busy),
    };
    match outcome.reason {
        None if returns_output => outcome.output.into_response(),
        None => StatusCode::OK.into_response(),
        Some(reason) => {
            let text = if is_command {
                format!("command {text} failed: {}: {reason}", outcome.output)
            } else {
                reason
            };
            (StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
        }
    }
}

fn too_busy(busy: Busy) -> Response {
    let headers = [(header::RETRY_AFTER, RETRY_AFTER_S)];
    (StatusCode::TOO_MANY_REQUESTS, headers, busy.to_string()).into_response()
}

/// Reads a payload and authorises its caller.
async fn read(app: &Arc<App>, request: Request) -> Result<ReadRequest, Response> {
    let (parts, body) = request.into_parts();
    let refused = |reason, status: StatusCode| {
        app.metrics.count_refused(reason);
        status.into_response()
    };
    let body = timeout(BODY_TIMEOUT, to_bytes(body, BODY_BYTES_MAX)).await;
    let body = body.map_err(|_| refused("slow", StatusCode::REQUEST_TIMEOUT))?;
    let body = body.map_err(|_| refused("size", StatusCode::PAYLOAD_TOO_LARGE))?;
    // As Flagger: an empty body.
    let payload = Payload::parse(&body);
    let payload = payload.ok_or_else(|| refused("payload", StatusCode::BAD_REQUEST))?;
    let path = parts.uri.path().to_owned();
    let namespace = payload.namespace.clone();
    let signature = check(app, parts.headers.clone(), path, body.to_vec(), Some(namespace)).await?;
    Ok(ReadRequest { payload, headers: parts.headers, signature })
}

/// Checks the signature and the namespace, off the threads that answer: secrets are files.
async fn check(
    app: &Arc<App>,
    headers: HeaderMap,
    path: String,
    body: Vec<u8>,
    namespace: Option<String>,
) -> Result<Option<CallSignature>, Response> {
    let checking = Arc::clone(app);
    let checked = spawn_blocking(move || {
        let signed = Signed { path: &path, body: &body };
        checking.auth.check(&headers, signed, namespace.as_deref(), now())
    });
    let error = match checked.await.unwrap_or(Err(AuthError::NoSecret)) {
        Ok(signature) => return Ok(signature),
        Err(error) => error,
    };
    let (status, reason) = match error {
        AuthError::Namespace => (StatusCode::FORBIDDEN, "namespace"),
        AuthError::Unsigned | AuthError::Stale | AuthError::Wrong | AuthError::NoSecret => {
            (StatusCode::UNAUTHORIZED, "signature")
        }
    };
    app.metrics.count_refused(reason);
    warn!(%error, "Turned a request away");
    Err((status, error.to_string()).into_response())
}

/// Seconds since 1970.
fn now() -> i64 {
    Timestamp::now().as_second()
}
