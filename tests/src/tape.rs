//! Records the requests of clients to a sandbox byte by byte, so that they can be sent to another server.

use std::{
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{HeaderMap, Request, Response, header};
use http_body_util::{BodyExt as _, Full};
use kube::client::Body;
use kube_sandbox::http::{ApiService, ResponseBody};
use serde_json::Value;
use tower::{BoxError, Service};

/// All requests so far. Clones are the same tape.
#[derive(Debug, Clone, Default)]
pub struct Tape(Arc<Mutex<Vec<Recorded>>>);

/// One request and its answer. Watches are not recorded.
#[derive(Debug, Clone)]
pub struct Recorded {
    pub method: String,
    /// With its query.
    pub path: String,
    pub content_type: String,
    pub accept: String,
    pub body: String,
    /// `Null` where it is no JSON.
    pub answer: Value,
}

/// A sandbox's API that records requests.
#[derive(Clone)]
pub struct Taped {
    service: ApiService,
    tape: Tape,
}

// === impl Tape ===

impl Tape {
    /// The API, recorded.
    pub fn over(&self, service: ApiService) -> Taped {
        Taped { service, tape: self.clone() }
    }

    pub fn recorded(&self) -> Vec<Recorded> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn record(&self, recorded: Recorded) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(recorded);
    }
}

// === impl Taped ===

impl Service<Request<Body>> for Taped {
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Service::<Request<Body>>::poll_ready(&mut self.service, cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (mut service, tape) = (self.service.clone(), self.tape.clone());
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body = whole(body).await;
            let path = parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
            let mut recorded = Recorded {
                method: parts.method.to_string(),
                content_type: text(&parts.headers, &header::CONTENT_TYPE),
                accept: text(&parts.headers, &header::ACCEPT),
                body: String::from_utf8_lossy(&body).into_owned(),
                answer: Value::Null,
                path,
            };
            let response = service.call(Request::from_parts(parts, Body::from(body))).await?;
            if recorded.path.contains("watch=true") {
                return Ok(response);
            }
            let (parts, body) = response.into_parts();
            let body = whole(body).await;
            recorded.answer = serde_json::from_slice(&body).unwrap_or_default();
            tape.record(recorded);
            let body = Full::new(body).map_err(|never| match never {});
            Ok(Response::from_parts(parts, body.boxed_unsync()))
        })
    }
}

/// A body that breaks off is recorded as empty.
async fn whole(body: impl http_body::Body<Data = Bytes>) -> Bytes {
    body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default()
}

fn text(headers: &HeaderMap, name: &header::HeaderName) -> String {
    let value = headers.get(name).and_then(|value| value.to_str().ok());
    value.unwrap_or_default().to_owned()
}
