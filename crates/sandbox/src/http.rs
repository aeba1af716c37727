//! The API server as an HTTP service: over a socket, or called directly by a client in the process.
//!
//! [`ApiService`] is a `tower` service. `kube::Client` can be built on it without a socket;
//! [`listen`] serves it on one, HTTP/1.1 and HTTP/2 alike. What arrives is turned into a
//! [`Request`], what comes back is rendered in the media type the client asked for.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request as HttpRequest, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited, combinators::UnsyncBoxBody};

use self::{
    negotiate::Format,
    route::{Route, route},
};
use crate::{
    failure::{Failure, Outcome},
    faults::Course,
    request::{RequestInfo, Verb},
    request_log,
    server::{Body, Request, Server, User, options::Query},
};

mod authenticate;
mod discovery;
pub mod listen;
mod negotiate;
mod render;
mod route;
mod watch;

pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
pub type ResponseBody = UnsyncBoxBody<Bytes, BoxError>;

/// As the real server: 3 MiB and not a byte more.
const BODY_BYTES_MAX: usize = 3 * 1024 * 1024;

/// A handle on the server that speaks HTTP. Cheap to clone.
#[derive(Clone)]
pub struct ApiService {
    server: Arc<Server>,
    /// Whoever calls through this handle without saying who they are.
    user: User,
    documents: Arc<discovery::Documents>,
}

/// The connection breaks: what a client sees when its request or the answer to it is lost.
#[derive(Debug, thiserror::Error)]
#[error("the connection was broken")]
pub struct Broken;

// === impl ApiService ===

impl ApiService {
    pub fn new(server: Arc<Server>, user: User) -> Self {
        Self { server, user, documents: Arc::default() }
    }

    /// The same server in the name of another user.
    #[must_use]
    pub fn acting_as(&self, user: User) -> Self {
        Self { user, ..self.clone() }
    }

    async fn serve<B>(self, request: HttpRequest<B>) -> Result<Response<ResponseBody>, BoxError>
    where
        B: http_body::Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<BoxError>,
    {
        let (parts, body) = request.into_parts();
        let format = Format::of(&parts.headers, parts.uri.query().unwrap_or_default());
        let pretty = render::wants_pretty(&parts.headers, parts.uri.query().unwrap_or_default());
        let collected = Limited::new(body, BODY_BYTES_MAX).collect().await;
        let outcome = match collected {
            Ok(body) => self.answer(&parts, body.to_bytes(), format, pretty).await,
            Err(_) => Err(Refusal::Answer(Failure::too_large(format!(
                "Request entity too large: limit is {BODY_BYTES_MAX}"
            )))),
        };
        match outcome {
            Ok(response) => Ok(response),
            Err(Refusal::Answer(failure)) => Ok(render::failure(&failure, format, pretty)),
            Err(Refusal::Break) => Err(Box::new(Broken)),
        }
    }

    async fn answer(
        &self,
        parts: &http::request::Parts,
        body: Bytes,
        format: Format,
        pretty: bool,
    ) -> Result<Response<ResponseBody>, Refusal> {
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        let path = parts.uri.path();
        let found = route(&parts.method, path, &query).ok_or_else(not_found)?;
        let user = self.user_of(&parts.headers)?;
        let mut info = match &found {
            Route::Resource(info) => (**info).clone(),
            Route::Other | Route::Discovery { .. } => RequestInfo {
                verb: plain_verb(&parts.method),
                path: path.to_owned(),
                ..RequestInfo::default()
            },
        };
        info.user = user.name;
        info.groups = user.groups;
        info.dry_run = query.has("dryRun");
        let content_type = text(&parts.headers, header::CONTENT_TYPE.as_str());
        if info.verb == Verb::Patch {
            content_type.clone_into(&mut info.patch_type);
        }
        if !info.is_resource() {
            return self.other(&info, &found, parts, pretty);
        }
        let body = if body.is_empty() {
            Body::Empty
        } else {
            Body::Raw { content_type: content_type.to_owned(), bytes: body }
        };
        let agent = text(&parts.headers, header::USER_AGENT.as_str()).to_owned();
        let request = Request { info, query, body, agent, stale_at: None };
        self.resource(request, format, pretty).await
    }

    /// A request for a resource: faults first, then a watch or an answer.
    async fn resource(
        &self,
        mut request: Request,
        format: Format,
        pretty: bool,
    ) -> Result<Response<ResponseBody>, Refusal> {
        let verdict = self.server.faults.on_request(&request.info);
        if let Some(delay) = verdict.delay {
            self.server.clock.sleep(delay).await;
        }
        request.stale_at = verdict.stale_at;
        let is_lost = match verdict.course {
            Course::Proceed => false,
            Course::LoseAnswer => true,
            Course::Drop => return Err(Refusal::Break),
            Course::Fail(failure) => {
                self.log(&request.info, failure.code);
                return Err(failure.into());
            }
        };
        if is_lost {
            if request.info.verb != Verb::Watch {
                // Whatever comes of it, the client will not know.
                let _ = self.server.execute(&request);
            }
            return Err(Refusal::Break);
        }
        if request.info.verb == Verb::Watch {
            return self.watch(&request, format).map_err(Refusal::Answer);
        }
        let answer = self.server.execute(&request);
        let def = self.server.resolve(&request.info).ok();
        let now = self.server.clock.now();
        Ok(render::answer(answer?, def.as_deref(), format, pretty, now))
    }

    fn watch(&self, request: &Request, format: Format) -> Outcome<Response<ResponseBody>> {
        let started = self
            .server
            .authorize(&request.info)
            .and_then(|()| watch::start(&self.server, request, format));
        self.log(&request.info, started.as_ref().map_or_else(|failure| failure.code, |_| 200));
        let (content_type, body) = started?;
        let mut response = Response::new(body);
        set(response.headers_mut(), header::CONTENT_TYPE.as_str(), &content_type);
        set(response.headers_mut(), header::CACHE_CONTROL.as_str(), "no-cache, private");
        Ok(response)
    }

    /// Discovery, health, version, schemas.
    fn other(
        &self,
        info: &RequestInfo,
        found: &Route,
        parts: &http::request::Parts,
        pretty: bool,
    ) -> Result<Response<ResponseBody>, Refusal> {
        if let Err(failure) = self.server.authorize(info) {
            self.log(info, failure.code);
            return Err(failure.into());
        }
        let document = self.documents.find(&self.server, found, parts);
        self.log(info, document.as_ref().map_or(404, |_| 200));
        let document = document.ok_or_else(not_found)?;
        Ok(document.into_response(&parts.headers, pretty))
    }

    fn log(&self, info: &RequestInfo, code: u16) {
        let answer = request_log::Answer { code, bytes: 0 };
        self.server.log.record(self.server.clock.now(), info, answer);
    }
}

impl<B> tower::Service<HttpRequest<B>> for ApiService
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: HttpRequest<B>) -> Self::Future {
        Box::pin(self.clone().serve(request))
    }
}

/// Why there is no ordinary answer.
enum Refusal {
    Answer(Failure),
    /// None at all: the connection breaks.
    Break,
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self::Answer(failure)
    }
}

fn not_found() -> Refusal {
    let message = "the server could not find the requested resource";
    Refusal::Answer(Failure::new(404, "NotFound", message))
}

fn plain_verb(method: &Method) -> Verb {
    match *method {
        Method::HEAD => Verb::Head,
        Method::OPTIONS => Verb::Options,
        Method::POST => Verb::Post,
        Method::PUT => Verb::Put,
        _ => Verb::Get,
    }
}

/// A header as text; empty if it is missing or not text.
fn text<'h>(headers: &'h HeaderMap, name: &str) -> &'h str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// Sets a header whose value may come from outside: what cannot stand in one is left out.
fn set(headers: &mut HeaderMap, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

fn full(code: u16, content_type: &str, bytes: impl Into<Bytes>) -> Response<ResponseBody> {
    let body = Full::new(bytes.into()).map_err(|never: Infallible| match never {});
    let mut response = Response::new(ResponseBody::new(body));
    *response.status_mut() =
        StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    set(response.headers_mut(), header::CONTENT_TYPE.as_str(), content_type);
    set(response.headers_mut(), header::CACHE_CONTROL.as_str(), "no-cache, private");
    response
}
