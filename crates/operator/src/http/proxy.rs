//! Proxies: `http` and `https`, which connect or forward, and `socks5`.
//!
//! A proxy looks names up itself. The address of a proxy that a user names is checked, and so is a server
//! behind it that is given as an address. The administrator's own proxy may reach more than others, so
//! names are looked up and checked before it gets them; see [`super::Policy::proxy_resolves`].

use std::{
    fmt::{self, Write as _},
    str::FromStr,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use http::{HeaderValue, Uri};
use hyper_util::client::proxy::matcher::Intercept;

use super::url::{Parts, UrlError};

/// A proxy to go through. Prints without credentials.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Proxy {
    pub(super) kind: ProxyKind,
    /// Reached over TLS.
    pub(super) secure: bool,
    /// Host and port.
    pub(super) authority: String,
    pub(super) credentials: ProxyCredentials,
    /// From the operator's own environment, so not checked.
    pub(super) trusted: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ProxyKind {
    Http,
    Socks5,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ProxyCredentials {
    None,
    /// The value of a `Proxy-Authorization` header.
    Basic(String),
    Pair(String, String),
}

/// The value of an `Authorization` header for a user with a password. Marked as sensitive.
pub(super) fn basic(user: &str, password: &str) -> HeaderValue {
    let text = format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}")));
    // Base64 is plain ASCII.
    let mut value = HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static(""));
    value.set_sensitive(true);
    value
}

// === impl Proxy ===

impl Proxy {
    /// Reads `http://host:3128`, `https://host` or `socks5://user:password@host:1080`.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        let parts = Parts::split(text)?;
        let (kind, secure, port) = match parts.scheme.to_ascii_lowercase().as_str() {
            "http" => (ProxyKind::Http, false, 80),
            "https" => (ProxyKind::Http, true, 443),
            "socks5" | "socks5h" => (ProxyKind::Socks5, false, 1080),
            _ => return Err(UrlError::Scheme),
        };
        let authority: http::uri::Authority =
            parts.authority.parse().map_err(|_| UrlError::Host)?;
        if authority.host().is_empty() {
            return Err(UrlError::Host);
        }
        let mut with_port = authority.host().to_owned();
        let port = authority.port_u16().unwrap_or(port);
        write!(with_port, ":{port}").map_err(|_| UrlError::Host)?;
        let credentials = match (kind, parts.credentials()) {
            (_, None) => ProxyCredentials::None,
            (ProxyKind::Http, Some((user, password))) => {
                let value = basic(&user, &password);
                ProxyCredentials::Basic(value.to_str().unwrap_or_default().to_owned())
            }
            (ProxyKind::Socks5, Some((user, password))) => ProxyCredentials::Pair(user, password),
        };
        Ok(Self { kind, secure, authority: with_port, credentials, trusted: false })
    }

    /// The same proxy as the administrator's own: its address is not checked.
    #[must_use]
    pub fn trusted(self) -> Self {
        Self { trusted: true, ..self }
    }

    /// The proxy that the environment names. `None` if it is of a kind we cannot use.
    pub(super) fn from_environment(found: &Intercept) -> Option<Self> {
        let mut proxy = Self::parse(&found.uri().to_string()).ok()?.trusted();
        if let Some((user, password)) = found.raw_auth() {
            proxy.credentials = ProxyCredentials::Pair(user.to_owned(), password.to_owned());
        } else if let Some(value) = found.basic_auth() {
            proxy.credentials = ProxyCredentials::Basic(value.to_str().ok()?.to_owned());
        }
        Some(proxy)
    }

    /// Its address. The scheme is always the same: [`Self::secure`] has the protocol.
    pub(super) fn uri(&self) -> Option<Uri> {
        Uri::builder()
            .scheme("http")
            .authority(self.authority.as_str())
            .path_and_query("/")
            .build()
            .ok()
    }

    /// The header with credentials that a proxy needs on each plain request that it forwards.
    pub(super) fn authorization(&self) -> Option<HeaderValue> {
        let ProxyCredentials::Basic(text) = &self.credentials else { return None };
        let mut value = HeaderValue::try_from(text).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

impl FromStr for Proxy {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        Self::parse(text)
    }
}

impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.kind {
            ProxyKind::Http if self.secure => "https",
            ProxyKind::Http => "http",
            ProxyKind::Socks5 => "socks5",
        };
        write!(f, "{scheme}://{}", self.authority)
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_read_and_keeps_its_password_to_itself() {
        let cases = [
            ("http://proxy", "http://proxy:80"),
            ("http://user:PASSWORD@proxy:3128/", "http://proxy:3128"),
            ("socks5://user:PASSWORD@proxy", "socks5://proxy:1080"),
            ("socks5h://[fd00::1]:9", "socks5://[fd00::1]:9"),
            ("https://user:PASSWORD@proxy", "https://proxy:443"),
        ];
        for (text, want) in cases {
            let proxy = Proxy::parse(text).unwrap();
            assert_eq!(format!("{proxy} {proxy:?}"), format!("{want} {want}"));
        }
        let proxy = Proxy::parse("http://user:PASSWORD@proxy").unwrap();
        assert_eq!(proxy.authorization().unwrap(), "Basic dXNlcjpQQVNTV09SRA==");
        for text in ["", "proxy:3128", "ftp://proxy", "http://"] {
            assert!(Proxy::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_proxy_from_the_environment_keeps_its_credentials() {
        let matcher = hyper_util::client::proxy::matcher::Matcher::builder()
            .http("http://u:p@proxy:3128")
            .https("socks5://u:p@proxy:1080")
            .build();
        let find = |uri| matcher.intercept(&Uri::from_static(uri)).unwrap();
        let http = Proxy::from_environment(&find("http://e.com/")).unwrap();
        assert_eq!(http, Proxy::parse("http://u:p@proxy:3128").unwrap().trusted());
        let socks = Proxy::from_environment(&find("https://e.com/")).unwrap();
        assert_eq!(socks, Proxy::parse("socks5://u:p@proxy:1080").unwrap().trusted());
    }
}
