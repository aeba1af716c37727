//! Requests to gates, and their answers.

use std::sync::Arc;

use axum::{
    extract::{Path, Request, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use tokio::task::spawn_blocking;
use tracing::{error, info, warn};

use super::{App, ReadRequest, Shared, check, now, read};
use crate::{
    duration,
    gates::{GateCall, GateError, Key, Kind, Opening},
    payload::{Payload, is_name},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Check,
    Open,
    Close,
}

/// The answer of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Approved,
    Forbidden,
    Done,
}

/// A month of steps at one a minute; more is a gate that is open for good.
const STEPS_MAX: u32 = 43_200;

/// Calls are told apart by a hash, or a text as long as one.
const CALL_BYTES_MAX: usize = 128;

pub(super) async fn gate(state: Shared, Path(action): Path<String>, request: Request) -> Response {
    answer(state, Kind::Advance, &action, request).await
}

pub(super) async fn rollback(
    state: Shared,
    Path(action): Path<String>,
    request: Request,
) -> Response {
    answer(state, Kind::Rollback, &action, request).await
}

/// Gates that are open, for callers that may see all of them.
pub(super) async fn list(State(app): Shared, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let path = parts.uri.path().to_owned();
    if let Err(response) = check(&app, parts.headers, path, Vec::new(), None).await {
        return response;
    }
    // Gates are a file, or with the API server.
    match spawn_blocking(move || app.gates.list(now())).await {
        Ok(Ok(gates)) => {
            let gates = serde_json::json!(gates).to_string();
            ([(header::CONTENT_TYPE, "application/json")], gates).into_response()
        }
        Ok(Err(error)) => {
            error!(error = &error as &dyn std::error::Error, "Gates cannot be listed");
            (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response()
        }
        Err(_panicked) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

async fn answer(State(app): Shared, kind: Kind, action: &str, request: Request) -> Response {
    let Some(action) = Action::parse(action) else { return StatusCode::NOT_FOUND.into_response() };
    let asked = match read(&app, request).await {
        Ok(asked) => asked,
        Err(response) => return response,
    };
    let canary = asked.payload.canary();
    if !asked.payload.metadata.get("gate").is_none_or(|gate| is_name(gate, 63)) {
        return (StatusCode::BAD_REQUEST, "gate is no name").into_response();
    }
    // Other actions ignore the fields that only opening needs.
    let opening = match opening(&asked.payload, now()) {
        Ok(opening) => opening,
        Err(text) if action == Action::Open => {
            return (StatusCode::BAD_REQUEST, text).into_response();
        }
        Err(_) => Opening::default(),
    };
    let acting = Arc::clone(&app);
    // Gates are a file, or with the API server.
    let acted = spawn_blocking(move || act(&acting, kind, action, &asked, &opening)).await;
    let (name, about) = (action.as_str(), kind.as_str());
    match acted {
        Ok(Ok(answer)) => {
            let word = answer.as_str();
            info!(%canary, "{about} gate {name}: {word}");
            app.metrics.count_gate(name, word);
            answer.into_response()
        }
        Ok(Err(error @ (GateError::Outdated(_) | GateError::BeforeStart))) => {
            app.metrics.count_gate(name, "outdated");
            warn!(%canary, %error, "{about} gate {name}: refused");
            (StatusCode::CONFLICT, error.to_string()).into_response()
        }
        Ok(Err(error)) => {
            app.metrics.count_gate(name, "error");
            error!(%canary, error = &error as &dyn std::error::Error, "{about} gate {name} failed");
            let status = match error {
                GateError::TooMany(_) => StatusCode::INSUFFICIENT_STORAGE,
                GateError::Outdated(_)
                | GateError::BeforeStart
                | GateError::Write { .. }
                | GateError::ConfigMap(_) => StatusCode::INTERNAL_SERVER_ERROR,
            };
            (status, error.to_string()).into_response()
        }
        Err(_panicked) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

fn act(
    app: &App,
    kind: Kind,
    action: Action,
    asked: &ReadRequest,
    opening: &Opening,
) -> Result<Answer, GateError> {
    let Payload { name, namespace, checksum, metadata } = &asked.payload;
    let key = Key {
        namespace: namespace.clone(),
        canary: name.clone(),
        kind,
        gate: metadata.get("gate").cloned().unwrap_or_default(),
    };
    match action {
        Action::Check => {
            let call = asked.headers.get("idempotency-key").and_then(|it| it.to_str().ok());
            let call = call.filter(|call| is_name(call, CALL_BYTES_MAX));
            let is_approved = app.gates.check(&key, GateCall { checksum, call }, now())?;
            Ok(if is_approved { Answer::Approved } else { Answer::Forbidden })
        }
        Action::Open => {
            let opened = app.gates.open(&key, opening, asked.signature.as_ref(), now());
            opened.map(|()| Answer::Done)
        }
        Action::Close => {
            let closed = app.gates.close(&key, asked.signature.as_ref(), now());
            closed.map(|()| Answer::Done)
        }
    }
}

/// The bounds of an opening.
fn opening(payload: &Payload, now: i64) -> Result<Opening, String> {
    let of = |key: &str| payload.metadata.get(key).filter(|value| !value.is_empty());
    let until = match of("ttl") {
        None => None,
        Some(text) => {
            let time = duration::parse(text).map_err(|error| error.to_string())?;
            // Time is counted in whole seconds; the one that has begun is on top, so that it is never
            // less than was asked for.
            let seconds = i64::try_from(time.as_secs().saturating_add(1)).unwrap_or(i64::MAX);
            Some(now.saturating_add(seconds))
        }
    };
    let steps = match of("steps") {
        None => None,
        Some(text) => {
            let steps: Option<u32> = text.parse().ok();
            let steps = steps.filter(|steps| (1..=STEPS_MAX).contains(steps));
            Some(steps.ok_or_else(|| format!("steps must be between 1 and {STEPS_MAX}"))?)
        }
    };
    let checksum = of("checksum").cloned();
    if checksum.as_deref().is_some_and(|checksum| !is_name(checksum, 64)) {
        return Err("checksum is none".to_owned());
    }
    Ok(Opening { opened_at: now, until, steps, checksum, ..Opening::default() })
}

// === impl Action ===

impl Action {
    fn parse(name: &str) -> Option<Self> {
        [Self::Check, Self::Open, Self::Close].into_iter().find(|action| action.as_str() == name)
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Check => "check",
            Self::Open => "open",
            Self::Close => "close",
        }
    }
}

// === impl Answer ===

impl Answer {
    fn as_str(self) -> &'static str {
        match self {
            Self::Approved => "approved",
            Self::Forbidden => "forbidden",
            Self::Done => "done",
        }
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        match self {
            Self::Approved => "Approved".into_response(),
            Self::Forbidden => (StatusCode::FORBIDDEN, "Forbidden").into_response(),
            Self::Done => StatusCode::ACCEPTED.into_response(),
        }
    }
}

// === impl Kind ===

impl Kind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Advance => "rollout",
            Self::Rollback => "rollback",
        }
    }
}
