//! The API server as an HTTP service: on a socket, or called directly by a client in the process.
//!
//! [`ApiService`] is a `tower` service. `kube::Client` can be built on it without a socket;
//! [`listen`] serves it on one, with HTTP/1.1 and HTTP/2. An HTTP request is parsed into a
//! [`Request`] for [`Server`], and the result is rendered in the media type that the client
//! accepts.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request as HttpRequest, Response, StatusCode, header};
use http_body::Body as _;
use http_body_util::{BodyExt, Full, Limited, combinators::UnsyncBoxBody};

use self::{
    negotiate::Format,
    route::{Route, route},
};
use crate::{
    failure::{Failure, Outcome, qualified},
    faults::Course,
    registry::ResourceDef,
    request::{RequestInfo, Verb},
    request_log,
    server::{Body, LogEntry, Logged, Request, Server, User, deprecation, options::Query},
};

mod authenticate;
mod discovery;
pub mod listen;
mod negotiate;
pub mod prometheus;
mod render;
mod route;
mod watch;

/// Any error of a body or a connection.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
/// The body of an answer; that of a watch goes on.
pub type ResponseBody = UnsyncBoxBody<Bytes, BoxError>;

/// As the real server: exactly 3 MiB.
const BODY_BYTES_MAX: usize = 3 * 1024 * 1024;

const PLAIN: &str = "text/plain; charset=utf-8";

/// A handle on the server for HTTP requests. Cheap to clone.
#[derive(Clone)]
pub struct ApiService {
    server: Arc<Server>,
    /// User of requests without credentials.
    user: User,
    documents: Arc<discovery::Documents>,
}

/// A request with a complete body.
struct Incoming<'r> {
    parts: &'r http::request::Parts,
    query: Query,
    body: Outcome<Bytes>,
    pretty: bool,
}

/// The fault that is injected into a request.
#[derive(Clone, Copy)]
struct Fate {
    is_lost: bool,
    stale_at: Option<u64>,
}

/// The connection breaks: what a client sees when its request or the answer to it is lost.
#[derive(Debug, thiserror::Error)]
#[error("the connection was broken")]
pub struct Broken;

// === impl ApiService ===

impl ApiService {
    /// The API of `server`; requests without credentials are those of `user`.
    pub fn new(server: Arc<Server>, user: User) -> Self {
        Self { server, user, documents: Arc::default() }
    }

    /// The same service for another server. Documents are shared as long as both serve the same
    /// kinds.
    #[must_use]
    pub(crate) fn over(&self, server: Arc<Server>) -> Self {
        Self { server, ..self.clone() }
    }

    /// The same server as another user.
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
        let text = parts.uri.query().unwrap_or_default();
        let pretty = render::wants_pretty(&parts.headers, text);
        let collected = Limited::new(body, BODY_BYTES_MAX).collect().await;
        let body = collected.map(http_body_util::Collected::to_bytes).map_err(|_| {
            Failure::too_large(format!("Request entity too large: limit is {BODY_BYTES_MAX}"))
        });
        let incoming = Incoming { query: Query::parse(text), body, pretty, parts: &parts };
        match self.answer(incoming).await {
            Ok(response) => Ok(response),
            Err(Refusal::Answer(failure)) => {
                Ok(render::failure(&failure, Format::of_failure(&parts.headers), pretty))
            }
            Err(Refusal::NoSuchPage) => Ok(full(404, PLAIN, "404 page not found\n")),
            Err(Refusal::Break { .. }) => Err(Box::new(Broken)),
        }
    }

    /// Checks in the order of the real server: authentication, authorization, path, and then the
    /// rest.
    async fn answer(&self, incoming: Incoming<'_>) -> Result<Response<ResponseBody>, Refusal> {
        let Incoming { parts, query, .. } = &incoming;
        let path = parts.uri.path();
        let found = route(&parts.method, path, query);
        let mut info = match &found {
            Some(Route::Resource(info)) => (**info).clone(),
            Some(Route::Other | Route::Discovery { .. }) | None => RequestInfo {
                verb: plain_verb(&parts.method),
                path: path.to_owned(),
                ..RequestInfo::default()
            },
        };
        info.dry_run = incoming.is_dry_run(info.verb);
        if info.verb == Verb::Patch {
            incoming.content_type().clone_into(&mut info.patch_type);
        }
        let user = self.user_of(&parts.headers).inspect_err(|failure| {
            self.server.refuse(&info, failure);
        })?;
        info.user = user.name;
        info.groups = user.groups;
        match found {
            None => self
                .server
                .admit(&info, |_| Err(self.refusal(Failure::no_such_path(), &beyond(path)))),
            Some(Route::Resource(_)) => self.resource(info, incoming).await,
            Some(found) => self.server.admit(&info, |_| self.other(&found, &incoming)),
        }
    }

    /// Handles a request for a resource: faults first, then a watch or an answer.
    async fn resource(
        &self,
        info: RequestInfo,
        incoming: Incoming<'_>,
    ) -> Result<Response<ResponseBody>, Refusal> {
        let verdict = self.server.faults.on_request(&info);
        if let Some(delay) = verdict.delay {
            let restores = self.server.restores();
            self.server.clock.sleep(delay).await;
            if self.server.restores() != restores {
                return Err(Refusal::Break { code: None });
            }
        }
        let is_lost = match verdict.course {
            Course::Proceed => false,
            Course::LoseAnswer => true,
            Course::Drop => return Err(Refusal::Break { code: None }),
            Course::Fail(failure) => {
                self.server.refuse(&info, &failure);
                return Err(failure.into());
            }
        };
        let fate = Fate { is_lost, stale_at: verdict.stale_at };
        self.server.admit(&info, |entry| self.permitted(info.clone(), incoming, fate, entry))
    }

    /// A permitted request for a resource, with what a fault makes of its answer.
    fn permitted(
        &self,
        info: RequestInfo,
        incoming: Incoming<'_>,
        Fate { is_lost, stale_at }: Fate,
        entry: &LogEntry<'_>,
    ) -> Result<Response<ResponseBody>, Refusal> {
        let Incoming { parts, query, body, pretty } = incoming;
        let def = self.server.resolve(&info);
        let format = format_of(parts, &query, &info, def.as_deref());
        let (format, bytes) = format
            .and_then(|format| Ok((format, body?)))
            .map_err(|failure| self.refusal(failure, &info))?;
        let body = if bytes.is_empty() && info.verb != Verb::Patch {
            Body::Empty
        } else {
            let content_type = text(&parts.headers, header::CONTENT_TYPE.as_str()).to_owned();
            Body::Raw { content_type, bytes }
        };
        let agent = text(&parts.headers, header::USER_AGENT.as_str()).to_owned();
        let request = Request { info, query, body, agent, stale_at };
        let is_watch = request.info.verb == Verb::Watch;
        if is_lost && is_watch {
            return Err(Refusal::Break { code: None });
        }
        if is_watch {
            return self.watch(&request, format, entry);
        }
        let answer = self.server.perform(&request);
        if is_lost {
            // The request is done, but the client gets no answer.
            let code = answer.map_or_else(|failure| failure.code, |answer| answer.code);
            return Err(Refusal::Break { code: Some(code) });
        }
        let now = self.server.clock.now();
        answer
            .and_then(|answer| render::answer(answer, def.as_deref().ok(), format, pretty, now))
            .map_err(|failure| self.refusal(failure, &request.info))
    }

    fn watch(
        &self,
        request: &Request,
        format: Format,
        entry: &LogEntry<'_>,
    ) -> Result<Response<ResponseBody>, Refusal> {
        let started = watch::start(&self.server, request, format, entry.open());
        let (content_type, body) =
            started.map_err(|failure| self.refusal(failure, &request.info))?;
        let mut response = Response::new(body);
        let def = self.server.resolve(&request.info).ok();
        let warnings: Vec<String> = def.and_then(|def| deprecation(&def)).into_iter().collect();
        render::warn(&mut response, &warnings);
        set(response.headers_mut(), header::CONTENT_TYPE.as_str(), &content_type);
        set(response.headers_mut(), header::CACHE_CONTROL.as_str(), "no-cache, private");
        Ok(response)
    }

    /// Handles discovery, health, version and schemas.
    fn other(
        &self,
        found: &Route,
        incoming: &Incoming<'_>,
    ) -> Result<Response<ResponseBody>, Refusal> {
        let document = self.documents.find(&self.server, found, incoming.parts);
        let Some(document) = document else {
            return Err(match found {
                Route::Discovery { group, version: Some(_) } if self.is_builtin(group) => {
                    Failure::no_such_path().into()
                }
                _ => Refusal::NoSuchPage,
            });
        };
        match incoming.parts.method {
            Method::GET => Ok(document.into_response(&incoming.parts.headers, incoming.pretty)),
            Method::HEAD if document.is_plain() => Ok(document.without_body()),
            _ => Err(Failure::method_not_allowed().into()),
        }
    }

    /// Adjusts an error to its group: custom groups answer unknown paths with a plain 404, and
    /// router errors carry no deprecation warning.
    fn refusal(&self, failure: Failure, info: &RequestInfo) -> Refusal {
        if failure.is_no_such_path() && !self.is_builtin(&info.group) {
            return Refusal::NoSuchPage;
        }
        if failure.shows_empty_details && matches!(failure.code, 404..=406 | 415) {
            return Refusal::Answer(failure);
        }
        let deprecated = self.server.resolve(info).ok().and_then(|def| deprecation(&def));
        Refusal::Answer(failure.warning_of(deprecated.as_slice()))
    }

    /// Whether a group has a built-in kind.
    fn is_builtin(&self, group: &str) -> bool {
        let registry = self.server.registry();
        let versions = registry.group(group).map(|found| found.versions.as_slice());
        let resources = versions.into_iter().flatten().flat_map(|version| &version.resources);
        resources.into_iter().any(|def| !def.is_custom())
    }
}

// === impl Incoming ===

impl Incoming<'_> {
    fn content_type(&self) -> &str {
        text(&self.parts.headers, header::CONTENT_TYPE.as_str())
    }

    /// Most requests say so in the query; deletions with options in their body say so there.
    fn is_dry_run(&self, verb: Verb) -> bool {
        let body = match (&self.body, verb) {
            (Ok(body), Verb::Delete | Verb::DeleteCollection) if !body.is_empty() => body,
            _ => return self.query.has("dryRun"),
        };
        let options = serde_json::from_slice::<serde_json::Value>(body).unwrap_or_default();
        options["dryRun"].as_array().is_some_and(|list| !list.is_empty())
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

/// Reasons for the lack of an ordinary answer.
enum Refusal {
    Answer(Failure),
    /// 404 in plain text, for unknown paths.
    NoSuchPage,
    /// None at all: the connection breaks. The code is that of the answer that was lost, if one was.
    Break {
        code: Option<u16>,
    },
}

impl Logged for Refusal {
    fn logged(&self) -> Option<request_log::Answer> {
        let code = match self {
            Self::Answer(failure) => failure.code,
            Self::NoSuchPage => 404,
            Self::Break { code } => (*code)?,
        };
        Some(request_log::Answer { code, bytes: 0 })
    }
}

impl Logged for Response<ResponseBody> {
    fn logged(&self) -> Option<request_log::Answer> {
        let bytes = self.body().size_hint().exact().unwrap_or_default();
        Some(request_log::Answer { code: self.status().as_u16(), bytes })
    }
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self::Answer(failure)
    }
}

/// The format of the answer, if method, path and `Accept` header allow one.
fn format_of(
    parts: &http::request::Parts,
    query: &Query,
    info: &RequestInfo,
    def: Result<&ResourceDef, &Failure>,
) -> Outcome<Format> {
    let def = def.map_err(Failure::clone)?;
    let is_served = [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE]
        .contains(&parts.method);
    if !is_served && def.is_custom() {
        let message = format!(
            " is not supported on resources of kind {:?}",
            qualified(&def.group, &def.plural)
        );
        let failure = Failure::new(405, "MethodNotAllowed", message);
        return Err(failure.about(&def.group, &def.plural, ""));
    }
    if !is_served {
        return Err(Failure::method_not_allowed());
    }
    let format = Format::of(&parts.headers, query, def.is_custom()).map_err(|failure| {
        // For built-in kinds the router refuses the request before it reads anything.
        let is_unheard_of = !def.is_custom() && Format::is_unheard_of(&parts.headers);
        if is_unheard_of { failure.without_details() } else { failure }
    })?;
    if info.verb == Verb::Watch && format == Format::Yaml {
        return Err(Failure::not_acceptable(
            "only the following media types are accepted: application/json;stream=watch, \
             application/vnd.kubernetes.protobuf;stream=watch",
        ));
    }
    Ok(format)
}

/// Group and version of a path without a resource.
fn beyond(path: &str) -> RequestInfo {
    let mut segments = path.split('/').filter(|segment| !segment.is_empty());
    let group = match segments.next() {
        Some("apis") => segments.next().unwrap_or_default(),
        _ => "",
    };
    let version = segments.next().unwrap_or_default().to_owned();
    RequestInfo { group: group.to_owned(), version, ..RequestInfo::default() }
}

fn plain_verb(method: &Method) -> Verb {
    match *method {
        Method::HEAD => Verb::Head,
        Method::OPTIONS => Verb::Options,
        Method::POST => Verb::Post,
        Method::PUT => Verb::Put,
        Method::PATCH => Verb::Patch,
        Method::DELETE => Verb::Delete,
        _ => Verb::Get,
    }
}

/// A header as text; empty if it is missing or not text.
fn text<'h>(headers: &'h HeaderMap, name: &str) -> &'h str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// Sets a header; a value that is invalid in a header is dropped.
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
