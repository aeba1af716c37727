//! A network that records calls, and answers from a table.

use std::{
    collections::VecDeque,
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use super::api::is_permit_taken;
use crate::{
    context::Context,
    http::{Answer, HttpError, Outgoing, RequestPermit, Transport},
};

/// A network on which every call succeeds, unless a table says otherwise.
#[derive(Default)]
pub(in crate::canary) struct Net {
    calls: Mutex<Vec<Called>>,
    rules: Mutex<Vec<(String, VecDeque<Reply>)>>,
    permit_waits: Mutex<VecDeque<Duration>>,
    context: OnceLock<Weak<Context>>,
}

/// A call that was made.
#[derive(Clone)]
pub(in crate::canary) struct Called {
    pub(in crate::canary) url: String,
    pub(in crate::canary) sent: Outgoing,
    pub(in crate::canary) has_permit: bool,
    pub(in crate::canary) at: Instant,
}

/// An answer of a table.
#[derive(Clone)]
pub(in crate::canary) enum Reply {
    Status(u16, String),
    /// 503, with this `Retry-After`.
    Busy(&'static str),
    Cut(String),
    Unreachable,
    Untrusted,
    After(Duration),
    /// This status, after a while.
    Late(Duration, u16),
}

// === impl Net ===

impl Net {
    /// The answers to calls of URLs that contain this, in order; the last one repeats.
    pub(in crate::canary) fn answer(&self, part: &str, replies: &[Reply]) {
        let replies = replies.iter().cloned().collect();
        self.rules.lock().insert(0, (part.to_owned(), replies));
    }

    /// How long the next permits take.
    pub(in crate::canary) fn delay_permits(&self, waits: &[Duration]) {
        self.permit_waits.lock().extend(waits);
    }

    pub(in crate::canary) fn calls(&self) -> Vec<Called> {
        self.calls.lock().clone()
    }

    /// Host and path of all calls.
    pub(in crate::canary) fn urls(&self) -> Vec<String> {
        self.calls().into_iter().map(|it| it.url).collect()
    }

    pub(super) fn watch_permits(&self, cx: &Arc<Context>) {
        let _ = self.context.set(Arc::downgrade(cx));
    }
}

impl Transport for Net {
    fn send(&self, sent: Outgoing) -> BoxFuture<'_, Result<Answer, HttpError>> {
        let url = sent.url.uri().to_string();
        let has_permit = is_permit_taken(&self.context);
        self.calls.lock().push(Called { url: url.clone(), sent, has_permit, at: Instant::now() });
        let reply = self.rules.lock().iter_mut().find(|(part, _)| url.contains(part)).map(
            |(_, replies)| {
                let next = if replies.len() > 1 { replies.pop_front() } else { None };
                next.or_else(|| replies.front().cloned()).expect("an answer")
            },
        );
        let reply = reply.unwrap_or(Reply::Status(200, String::new()));
        Box::pin(async move {
            let host = "host".to_owned();
            let mut answer = Answer {
                status: StatusCode::OK,
                headers: HeaderMap::new(),
                body: Bytes::new(),
                truncated: false,
            };
            match reply {
                Reply::Status(status, body) => {
                    answer.status = StatusCode::from_u16(status).unwrap();
                    answer.body = Bytes::from(body);
                }
                Reply::Busy(after) => {
                    answer.status = StatusCode::SERVICE_UNAVAILABLE;
                    let after = after.parse().unwrap();
                    answer.headers.insert(http::header::RETRY_AFTER, after);
                }
                Reply::Cut(body) => {
                    answer.body = Bytes::from(body);
                    answer.truncated = true;
                }
                Reply::Unreachable => return Err(HttpError::Connect { host }),
                Reply::Untrusted => return Err(HttpError::Tls { host }),
                Reply::After(time) => tokio::time::sleep(time).await,
                Reply::Late(time, status) => {
                    tokio::time::sleep(time).await;
                    answer.status = StatusCode::from_u16(status).unwrap();
                }
            }
            Ok(answer)
        })
    }

    fn permit<'a>(&'a self, _namespace: &'a str) -> BoxFuture<'a, Option<RequestPermit>> {
        let wait = self.permit_waits.lock().pop_front().unwrap_or_default();
        Box::pin(async move {
            tokio::time::sleep(wait).await;
            None
        })
    }
}

// === impl Called ===

impl Called {
    pub(in crate::canary) fn json(&self) -> Value {
        serde_json::from_slice(&self.sent.body).unwrap_or_default()
    }

    pub(in crate::canary) fn header(&self, name: &str) -> Option<&str> {
        self.sent.headers.get(name)?.to_str().ok()
    }
}

// === impl Reply ===

impl Reply {
    pub(in crate::canary) fn status(status: u16) -> Self {
        Self::Status(status, String::new())
    }

    /// Prometheus answers with this number.
    pub(in crate::canary) fn value(value: &str) -> Self {
        Self::series(&[value])
    }

    /// Prometheus answers with a series for each number.
    pub(in crate::canary) fn series(values: &[&str]) -> Self {
        let result: Vec<Value> =
            values.iter().map(|it| serde_json::json!({ "metric": {}, "value": [1, it] })).collect();
        let body = serde_json::json!({
            "status": "success", "data": { "resultType": "vector", "result": result },
        });
        Self::Status(200, body.to_string())
    }
}
