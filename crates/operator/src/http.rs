//! The only outgoing HTTP client: hooks, metric queries and alerts all leave through here.
//!
//! Most URLs come from the authors of Canaries, so nothing about them is trusted:
//!
//! ```text
//! Outgoing --> Limits --> redirects --> pool --> Dialer --> every address checked --> TCP --> TLS
//!              a permit   same host     kept     the one place that connects
//! ```
//!
//! - The check sits where connections are made, on addresses and not on names: no spelling of an
//!   address, no redirect and no name that resolves differently later bypasses it.
//! - One timeout covers name lookup, connection, headers and body; bodies are cut at a cap.
//! - Errors are fixed words and a host. URLs print without path and password.
//!
//! Callers hold an `Arc<dyn Transport>`; [`Client`] is the real one.

mod client;
mod connect;
mod error;
mod guard;
mod limits;
mod proxy;
#[cfg(test)]
mod tests;
mod tls;
mod url;

use std::{fmt, time::Duration};

use bytes::Bytes;
use futures::future::{BoxFuture, ready};
use http::{HeaderMap, Method, StatusCode, header};
use jiff::Timestamp;
use tidegate_providers::metrics::query_machine::ClientCertificate;

pub(crate) use self::client::PERMIT_WAIT_MAX;
pub use self::{
    client::Client,
    connect::{Resolve, SystemResolver},
    error::HttpError,
    guard::{Network, NetworkError, Policy},
    limits::RequestPermit,
    proxy::Proxy,
    url::{SafeUrl, UrlError},
};

/// The reason why a text is not a URL that can be called.
pub(crate) fn url_error(text: &str) -> Option<String> {
    SafeUrl::parse(text).err().map(|error| error.to_string())
}

/// Sends requests. The executor's view of the network, so that tests can put another in its place.
pub trait Transport: Send + Sync {
    /// Sends one request and reads the answer, within the request's own bounds.
    ///
    /// An answer of any status is `Ok`: the caller knows what a 404 means.
    fn send(&self, request: Outgoing) -> BoxFuture<'_, Result<Answer, HttpError>>;

    /// Waits for a permit, two minutes at most: for requests whose failure counts against a rollout. `None` where
    /// requests are not limited, and after that time.
    fn permit<'a>(&'a self, _namespace: &'a str) -> BoxFuture<'a, Option<RequestPermit>> {
        Box::pin(ready(None))
    }
}

/// A request, with its bounds. Prints without headers, body or the secret parts of its URL.
#[derive(Clone)]
pub struct Outgoing {
    pub method: Method,
    pub url: SafeUrl,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// For everything from the first name lookup to the last byte of the body, redirects included.
    pub timeout: Duration,
    /// The time after which the caller gives the request up. The wait for a permit counts too, unless the request
    /// brings one.
    pub patience: Option<Duration>,
    /// From [`Transport::permit`]. A request without one waits half a minute for it at most.
    pub permit: Option<RequestPermit>,
    /// Bytes of the body that are read; the rest is not.
    pub max_bytes: usize,
    /// Off only where a spec says so: the server's certificate is then not verified.
    pub verify_tls: bool,
    /// Authorities to trust instead of the machine's, as PEM.
    pub authorities: Option<Vec<u8>>,
    /// The client certificate to present.
    pub certificate: Option<ClientCertificate>,
    /// Instead of any that the environment names.
    pub proxy: Option<Proxy>,
    /// Past any proxy that the environment names: to the node we run on.
    pub direct: bool,
    pub redirects: Redirects,
    /// The address is the administrator's own, from a flag: it is not checked.
    pub trusted: bool,
    /// The namespace of the caller, of alerts with `/alerts` behind it; each has a bounded number of requests in flight.
    pub namespace: String,
}

/// Handling of redirects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Redirects {
    /// Follow up to ten, on the same host only.
    SameHost,
    /// Hand the answer back as it is.
    Keep,
}

/// The answer of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    /// At most [`Outgoing::max_bytes`].
    pub body: Bytes,
    /// There was more than `body` holds.
    pub truncated: bool,
}

/// As Flagger's hooks.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);
/// Enough for any verdict or single number, small enough for hundreds of requests in flight.
const BODY_BYTES_DEFAULT: usize = 64 * 1024;

// === impl Outgoing ===

impl Outgoing {
    /// A request with the bounds of a hook: 10 s, 64 KiB, certificates verified, address checked.
    pub fn new(method: Method, url: SafeUrl, namespace: impl Into<String>) -> Self {
        Self {
            method,
            url,
            headers: HeaderMap::new(),
            body: Bytes::new(),
            timeout: TIMEOUT_DEFAULT,
            patience: None,
            permit: None,
            max_bytes: BODY_BYTES_DEFAULT,
            verify_tls: true,
            authorities: None,
            certificate: None,
            proxy: None,
            direct: false,
            redirects: Redirects::SameHost,
            trusted: false,
            namespace: namespace.into(),
        }
    }

    /// A `GET` with the default bounds.
    pub fn get(url: SafeUrl, namespace: impl Into<String>) -> Self {
        Self::new(Method::GET, url, namespace)
    }

    /// A `POST` of a JSON document with the default bounds.
    pub fn post_json(url: SafeUrl, namespace: impl Into<String>, body: &serde_json::Value) -> Self {
        let mut request = Self::new(Method::POST, url, namespace);
        let json = header::HeaderValue::from_static("application/json");
        request.headers.insert(header::CONTENT_TYPE, json);
        request.body = Bytes::from(body.to_string());
        request
    }
}

impl fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ({} bytes)", self.method, self.url, self.body.len())
    }
}

// === impl Answer ===

impl Answer {
    /// Any 2xx. Flagger takes 200 to 202 only; its documentation promises any 2xx.
    pub fn is_success(&self) -> bool {
        self.status.is_success()
    }

    /// The `Retry-After` of the server: seconds, or the time until a date. Not capped.
    pub fn retry_after(&self, now: Timestamp) -> Option<Duration> {
        let text = self.headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
        if let Ok(seconds) = text.parse() {
            return Some(Duration::from_secs(seconds));
        }
        let date = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
        Some(Duration::try_from(date.duration_since(now)).unwrap_or_default())
    }

    /// The beginning of the body as one line of text that is fit to be shown: at most `chars_max`
    /// characters, no control characters, no invalid UTF-8.
    pub fn excerpt(&self, chars_max: usize) -> String {
        // Four bytes a character at most; the rest cannot be shown anyway.
        let head = self.body.get(..chars_max.saturating_mul(4)).unwrap_or(&self.body);
        let text = String::from_utf8_lossy(head);
        let clean = text.split(|c: char| c.is_whitespace() || is_unprintable(c));
        let line = clean.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
        let mut excerpt: String = line.chars().take(chars_max).collect();
        if excerpt.len() < line.len() || head.len() < self.body.len() || self.truncated {
            excerpt.push('…');
        }
        excerpt
    }
}

/// Control characters, and those that reorder or hide the text around them.
fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
        || c == '\u{feff}'
}
