//! The load to make: the meaning of a command line of `hey` or `wrk`.
//!
//! ```text
//! hey -z 1m -q 10 -c 2 http://app/     -->  hey.rs  -->
//!                                                          Plan
//! wrk -t2 -c10 -d30s http://app/       -->  wrk.rs  -->
//! ```
//!
//! A [`Plan`] is checked: its address has a host, its headers are headers, its numbers have bounds.

use std::{
    net::Ipv6Addr,
    num::NonZeroU32,
    path::{Path, PathBuf},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header};

use super::{hey, wrk};

/// Load, ready to be made.
#[derive(Clone, Debug)]
pub struct Plan {
    pub target: Target,
    pub method: Method,
    /// `Host` is not among them; see [`Target::authority`].
    pub headers: HeaderMap,
    pub body: Bytes,
    pub connections: NonZeroU32,
    pub end: End,
    /// Requests a second on each connection; as fast as answers come if there is none.
    pub rate: Option<Rate>,
    /// For one request, its connection included; none waits for ever.
    pub timeout: Option<Duration>,
    pub keep_alive: bool,
    pub protocol: Protocol,
    /// Threads to make the load with; one for each core if not given.
    pub threads: Option<NonZeroU32>,
    /// As in hey and wrk no certificate is verified by default.
    pub verify_tls: bool,
    pub output: Output,
}

/// Where requests go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub tls: bool,
    /// The host to look up and connect to.
    pub host: String,
    pub port: u16,
    /// The `Host` header, and the name that TLS asks for.
    pub authority: String,
    pub path: String,
}

/// When load ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Requests(u64),
    After(Duration),
}

/// Requests a second. Always positive and finite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate(f64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Http1,
    /// HTTP/2 where TLS can agree on it, as `hey -h2`.
    Http2,
    /// HTTP/2 without TLS, which the server must expect.
    Http2PriorKnowledge,
}

/// How the report is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    Text,
    Json,
}

/// The bounds of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub connections_max: u32,
    pub body_files: BodyFiles,
}

/// Which files a body may be read from. Those of a server are not its callers'.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BodyFiles {
    Refused,
    Under(PathBuf),
    Any,
}

/// Why a command line is no plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    #[error("{0} is not a flag of {1} that is understood")]
    UnknownFlag(String, &'static str),
    #[error("{0} needs a value")]
    NoValue(String),
    #[error("`{value}` is no value for {flag}")]
    BadValue { flag: &'static str, value: String },
    #[error("an address to send requests to is missing")]
    NoAddress,
    /// Its position, counted from 1. Not its text: it may be half of a secret that was not quoted.
    #[error("argument {0} is one too many; is a value with blanks not quoted?")]
    ExtraWord(usize),
    #[error("`{0}` is no http or https address")]
    BadAddress(String),
    #[error("{0}")]
    Unsupported(&'static str),
    #[error("{asked} connections are asked for, and {max} are allowed")]
    TooManyConnections { asked: u32, max: u32 },
    #[error("failed to read the body from a file")]
    BodyFile(#[source] std::io::Error),
}

/// The program whose command line is read, and whose way of making load is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    Hey,
    Wrk,
}

// === impl Tool ===

impl Tool {
    /// The tool that a command line begins with, by its name or its path.
    pub fn of(program: &str) -> Option<Self> {
        match Path::new(program).file_name()?.to_str()? {
            "hey" => Some(Self::Hey),
            "wrk" | "wrk2" => Some(Self::Wrk),
            _ => None,
        }
    }
}

// === impl Plan ===

impl Plan {
    /// Reads a command line without the name of the tool.
    pub fn parse(tool: Tool, words: &[String], bounds: &Bounds) -> Result<Self, PlanError> {
        let plan = match tool {
            Tool::Hey => hey::parse(words, bounds)?,
            Tool::Wrk => wrk::parse(words)?,
        };
        let (asked, max) = (plan.connections.get(), bounds.connections_max);
        if asked > max {
            return Err(PlanError::TooManyConnections { asked, max });
        }
        Ok(plan)
    }

    /// The whole load for each of its connections.
    pub fn requests_of(&self, connection: u32) -> Option<u64> {
        let End::Requests(all) = self.end else { return None };
        let connections = u64::from(self.connections.get());
        let extra = u64::from(u64::from(connection) < all % connections);
        Some(all / connections + extra)
    }

    /// The address as people write it.
    pub fn address(&self) -> String {
        let Target { tls, host, port, path, .. } = &self.target;
        let (scheme, usual) = if *tls { ("https", 443) } else { ("http", 80) };
        let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        // A query may carry a token.
        let path = path.split('?').next().unwrap_or_default();
        if *port == usual {
            format!("{scheme}://{host}{path}")
        } else {
            format!("{scheme}://{host}:{port}{path}")
        }
    }
}

// === impl Target ===

impl Target {
    pub(super) fn parse(text: &str) -> Result<Self, PlanError> {
        let wrong = || PlanError::BadAddress(without_secrets(text));
        let uri: Uri = text.parse().map_err(|_| wrong())?;
        let tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(wrong()),
        };
        let host = uri.host().and_then(bare_host).ok_or_else(wrong)?;
        let port = match uri.port() {
            Some(port) => port.as_str().parse().map_err(|_| wrong())?,
            None if tls => 443,
            None => 80,
        };
        let authority = uri.authority().ok_or_else(wrong)?.as_str();
        if authority.contains('@') {
            return Err(wrong());
        }
        let path = uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Ok(Self { tls, host: host.to_owned(), port, authority: authority.to_owned(), path })
    }
}

/// A host as it is looked up: without the brackets that an IPv6 address, and nothing else, stands in.
fn bare_host(host: &str) -> Option<&str> {
    match host.strip_prefix('[') {
        Some(rest) => {
            let inside = rest.strip_suffix(']')?;
            inside.parse::<Ipv6Addr>().is_ok().then_some(inside)
        }
        None => (!host.is_empty() && !host.contains(['[', ']'])).then_some(host),
    }
}

/// The part of an address that may be logged.
fn without_secrets(text: &str) -> String {
    let text = text.split(['?', '#']).next().unwrap_or_default();
    let shown = match (text.split_once("://"), text.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, after))) => format!("{scheme}://***@{after}"),
        (Some(_), None) => text.to_owned(),
        // No address at all, but perhaps half of a secret that was not quoted.
        (None, _) => "***".to_owned(),
    };
    shown.chars().take(200).collect()
}

// === impl Rate ===

impl Rate {
    /// None for zero, which means no limit; an error for text that is no rate.
    pub(super) fn parse(flag: &'static str, text: &str) -> Result<Option<Self>, PlanError> {
        let rate: Option<f64> = text.parse().ok();
        match rate.filter(|rate| rate.is_finite() && *rate >= 0.0) {
            Some(rate) if rate > 0.0 => Ok(Some(Self(rate))),
            Some(_) => Ok(None),
            None => Err(bad(flag, text)),
        }
    }

    /// An equal part of a rate for each connection.
    pub(super) fn shared_by(self, connections: NonZeroU32) -> Self {
        Self(self.0 / f64::from(connections.get()))
    }

    pub fn per_second(self) -> f64 {
        self.0
    }
}

pub(super) fn bad(flag: &'static str, value: &str) -> PlanError {
    PlanError::BadValue { flag, value: value.chars().take(80).collect() }
}

/// Adds `Name: value`; a host is the target's.
pub(super) fn add_header(
    flag: &'static str,
    text: &str,
    headers: &mut HeaderMap,
    target_host: &mut Option<String>,
) -> Result<(), PlanError> {
    // The value may be a password: an error names only the header.
    let (name, value) = text.split_once(':').ok_or_else(|| bad(flag, "a header without `:`"))?;
    let wrong = || bad(flag, name);
    if name.trim().eq_ignore_ascii_case("host") {
        *target_host = Some(host(flag, value)?);
        return Ok(());
    }
    let name = HeaderName::from_bytes(name.trim().as_bytes()).map_err(|_| wrong())?;
    // The body says how long it is; a second word on that would break every request.
    if name == header::CONTENT_LENGTH || name == header::TRANSFER_ENCODING {
        return Err(PlanError::Unsupported("the length of the body is set by the body itself"));
    }
    let mut value = HeaderValue::from_str(value.trim()).map_err(|_| wrong())?;
    let is_secret = [header::AUTHORIZATION, header::COOKIE, header::PROXY_AUTHORIZATION];
    value.set_sensitive(is_secret.contains(&name));
    headers.append(name, value);
    Ok(())
}

/// A value for `Host` that cannot become two headers.
pub(super) fn host(flag: &'static str, text: &str) -> Result<String, PlanError> {
    let text = text.trim();
    let authority: http::uri::Authority = text.parse().map_err(|_| bad(flag, text))?;
    Ok(authority.as_str().to_owned())
}
