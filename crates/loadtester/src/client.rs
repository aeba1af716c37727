//! Calls to test systems: nGrinder and Concord. Answers are JSON, and bounded in time and size.

use std::{fmt, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client as Legacy, connect::HttpConnector},
    rt::TokioExecutor,
};
use serde_json::Value;
use tidegate_runtime::tls::{self, Trust};
use tokio::time::timeout;

/// Sends requests. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    inner: Legacy<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

/// A request that is about to be sent.
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// The address of a test system: http or https, with a host, without credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server(Uri);

/// Why a call failed. Fixed words: addresses and bodies may hold secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    #[error("the server cannot be reached")]
    Unreachable,
    #[error("the server did not answer in time")]
    Timeout,
    #[error("the server answered {0}")]
    Status(u16),
    #[error("the answer is no JSON of at most 1 MiB")]
    Body,
    #[error("the address does not lead anywhere")]
    Address,
}

/// As Flagger has it for Concord.
const TIMEOUT: Duration = Duration::from_mins(1);
/// A status is a few hundred bytes.
const BODY_BYTES_MAX: usize = 1024 * 1024;

// === impl Client ===

impl Client {
    pub fn new() -> Self {
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls::client(Trust::Machine))
            .https_or_http()
            .enable_http1()
            .build();
        Self { inner: Legacy::builder(TokioExecutor::new()).build(connector) }
    }

    /// The answer to a call, if it is a 2xx with JSON in it.
    pub(crate) async fn call(&self, call: Call) -> Result<Value, CallError> {
        let Call { method, uri, headers, body } = call;
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        timeout(TIMEOUT, self.send(request)).await.map_err(|_| CallError::Timeout)?
    }

    async fn send(&self, request: Request<Full<Bytes>>) -> Result<Value, CallError> {
        let answer = self.inner.request(request).await.map_err(|_| CallError::Unreachable)?;
        let status: StatusCode = answer.status();
        if !status.is_success() {
            return Err(CallError::Status(status.as_u16()));
        }
        let body = Limited::new(answer.into_body(), BODY_BYTES_MAX).collect().await;
        let body = body.map_err(|_| CallError::Body)?.to_bytes();
        if body.trim_ascii().is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&body).map_err(|_| CallError::Body)
    }
}

impl Default for Client {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

// === impl Server ===

impl Server {
    pub fn parse(text: &str) -> Option<Self> {
        let uri: Uri = text.trim().parse().ok()?;
        let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
        let authority = uri.authority()?;
        let is_plain = !authority.as_str().contains('@') && !authority.host().is_empty();
        (is_http && is_plain).then_some(Self(uri))
    }

    /// Scheme, host and port, by which a server is allowed.
    pub fn origin(&self) -> String {
        let host = self.0.host().unwrap_or_default().to_ascii_lowercase();
        let scheme = self.0.scheme_str().unwrap_or_default();
        let usual = if scheme == "https" { 443 } else { 80 };
        format!("{scheme}://{host}:{}", self.0.port_u16().unwrap_or(usual))
    }

    /// A path from the root of the server; the path of its own address is ignored.
    pub(crate) fn at(&self, path: &str) -> Result<Uri, CallError> {
        let mut parts = self.0.clone().into_parts();
        parts.path_and_query = Some(path.parse().map_err(|_| CallError::Address)?);
        Uri::from_parts(parts).map_err(|_| CallError::Address)
    }

    /// A path beside the last segment of the address, as RFC 3986 resolves it.
    pub(crate) fn beside(&self, path: &str) -> Result<Uri, CallError> {
        let base = self.0.path();
        let folder = base.rsplit_once('/').map_or("", |(folder, _)| folder);
        self.at(&format!("{folder}/{path}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_resolved_as_flagger_resolves_them() {
        let cases = [
            ("http://a:8080", "http://a:8080/x/y", "http://a:8080/x/y"),
            ("http://a/base/", "http://a/base/x/y", "http://a/x/y"),
            ("http://a/base", "http://a/x/y", "http://a/x/y"),
            ("https://a/b/c?d", "https://a/b/x/y", "https://a/x/y"),
        ];
        for (server, beside, at) in cases {
            let server = Server::parse(server).unwrap();
            assert_eq!(server.beside("x/y").unwrap(), beside);
            assert_eq!(server.at("/x/y").unwrap(), at);
        }
        assert_eq!(Server::parse("HTTPS://A.test/x").unwrap().origin(), "https://a.test:443");
        for text in ["", "a", "/x", "ftp://a", "http://u:p@a", "http://"] {
            assert_eq!(Server::parse(text), None, "{text}");
        }
    }
}
