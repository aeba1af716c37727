//! The gateway: routes a request by the table and forwards it over a socket.

use std::{
    fmt::Write as _,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Request, Response, StatusCode, Uri,
    header::{CONTENT_TYPE, HOST, LOCATION},
    uri::PathAndQuery,
};
use tokio::sync::Semaphore;

use super::{
    Meter, Snapshot,
    app::Outcome,
    client,
    plane::{Published, Shared},
    route::{self, Choice, Endpoint, Forward, Refusal},
    serve::Handler,
};

/// Default timeout of a backend: longer than any sample application takes.
const BACKEND_TIMEOUT: Duration = Duration::from_secs(65);
/// Maximum number of mirrored requests in flight; more are dropped.
const MIRRORS_MAX: usize = 64;

#[derive(Clone)]
pub(super) struct GatewayHandler {
    shared: Arc<Shared>,
    mirrors: Arc<Semaphore>,
}

/// The parts of an incoming request.
struct Asked<'r> {
    parts: &'r http::request::Parts,
    host: &'r str,
    body: Bytes,
}

// === impl GatewayHandler ===

impl GatewayHandler {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, mirrors: Arc::new(Semaphore::new(MIRRORS_MAX)) }
    }

    fn meter(&self) -> &Meter {
        &self.shared.meter
    }

    async fn forward(
        &self,
        forward: &Forward<'_>,
        asked: Asked<'_>,
        published: &Published,
    ) -> Response<Bytes> {
        let started = Instant::now();
        let request = rewrite(forward, &asked);
        for (_, endpoint) in &forward.mirrors {
            if let Some(address) = published.address(endpoint) {
                self.mirror(address, request.clone());
            }
        }
        let limit = forward.timeout.unwrap_or(BACKEND_TIMEOUT).min(BACKEND_TIMEOUT);
        let answer = async {
            let address = published.address(forward.endpoint)?;
            client::send(address, request).await.ok()
        };
        let mut response = match tokio::time::timeout(limit, answer).await {
            Ok(Some(response)) => response,
            Ok(None) => plain(502, "the endpoint did not answer"),
            Err(_) => plain(504, "the endpoint did not answer in time"),
        };
        forward.edit_response(response.headers_mut());
        let pod = match forward.endpoint {
            Endpoint::Pod(name) => published.snapshot.pods.get(name),
            Endpoint::Address(_) => None,
        };
        let outcome = Outcome { status: response.status().as_u16(), latency: started.elapsed() };
        self.meter().sent(forward.backend, pod, outcome);
        response
    }

    /// Sends a mirrored request without waiting for the answer.
    fn mirror(&self, address: SocketAddr, request: Request<Bytes>) {
        let Ok(permit) = Arc::clone(&self.mirrors).try_acquire_owned() else { return };
        tokio::spawn(async move {
            // The answer to a mirrored request is dropped; the pod counts it.
            let _ = tokio::time::timeout(BACKEND_TIMEOUT, client::send(address, request)).await;
            drop(permit);
        });
    }

    fn refuse(&self, refusal: Refusal<'_>, host: &str, snapshot: &Snapshot) -> Response<Bytes> {
        let Refusal { status, reason, backend } = refusal;
        if let Some(backend) = backend {
            self.meter().sent(backend, None, Outcome { status, latency: Duration::ZERO });
        }
        let mut text = reason.to_owned();
        if backend.is_none() && status == 404 {
            let hosts: Vec<_> = snapshot.table.hosts().into_iter().collect();
            let _ = write!(text, "\nhost: {host}\nhosts with a route: {}", hosts.join(", "));
        }
        plain(status, &text)
    }
}

impl Handler for GatewayHandler {
    async fn handle(self, request: Request<Bytes>) -> Response<Bytes> {
        let published = self.shared.published();
        let (parts, body) = request.into_parts();
        let authority = parts.uri.authority().map(http::uri::Authority::as_str);
        let header = parts.headers.get(HOST).and_then(|host| host.to_str().ok());
        let host = header.or(authority).unwrap_or_default();
        let asked = route::Request {
            host,
            method: parts.method.as_str(),
            path: parts.uri.path(),
            query: parts.uri.query().unwrap_or_default(),
            headers: &parts.headers,
        };
        let choice = published.snapshot.table.choose(&asked, self.shared.random.next_u64());
        match choice {
            Choice::Forward(forward) => {
                let asked = Asked { parts: &parts, host, body };
                self.forward(&forward, asked, &published).await
            }
            Choice::Redirect { status, location } => {
                let mut response = plain(status, "");
                if let Ok(location) = HeaderValue::from_str(&location) {
                    response.headers_mut().insert(LOCATION, location);
                }
                response
            }
            Choice::Refuse(refusal) => self.refuse(refusal, host, &published.snapshot),
        }
    }
}

/// Builds the request to the backend.
fn rewrite(forward: &Forward<'_>, asked: &Asked<'_>) -> Request<Bytes> {
    let mut request = Request::new(asked.body.clone());
    *request.method_mut() = asked.parts.method.clone();
    let path = forward.path(asked.parts.uri.path());
    let target = match asked.parts.uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path.into_owned(),
    };
    *request.uri_mut() = target.parse::<PathAndQuery>().map(Uri::from).unwrap_or_default();
    let headers = request.headers_mut();
    *headers = asked.parts.headers.clone();
    client::strip_hop_by_hop(headers);
    set_host(headers, asked.host);
    forward.edit_request(headers);
    request
}

/// Sets the host header, which HTTP/2 has elsewhere.
fn set_host(headers: &mut HeaderMap, host: &str) {
    if let Some(host) = host.parse().ok().filter(|_| !headers.contains_key(HOST)) {
        headers.insert(HOST, host);
    }
}

fn plain(status: u16, text: &str) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(format!("{text}\n")));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or_default();
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
