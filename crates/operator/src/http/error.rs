//! Why a request got no answer.

use std::time::Duration;

use super::url::UrlError;

/// Why a request got no answer. Names the failure and the host; never a path, body or credential, so it may go
/// into events and alerts as it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HttpError {
    #[error("invalid URL: {0}")]
    Url(#[from] UrlError),
    /// The address is one that a Canary may not make the operator connect to.
    #[error("`{host}` is refused: {reason}")]
    Forbidden { host: String, reason: &'static str },
    #[error("`{host}` has no address")]
    NoSuchHost { host: String },
    #[error("cannot connect to `{host}`")]
    Connect { host: String },
    /// The proxy could not be reached, or would not connect us.
    #[error("the proxy does not connect to `{host}`")]
    Proxy { host: String },
    #[error("no trusted TLS connection to `{host}`")]
    Tls { host: String },
    #[error("`{host}` did not answer within {}s", seconds(*after))]
    Timeout { host: String, after: Duration },
    /// Cut off half-way, or not HTTP.
    #[error("`{host}` closed the connection")]
    Broken { host: String },
    #[error("`{host}` redirects too often")]
    TooManyRedirects { host: String },
    #[error("`{host}` redirects elsewhere, which is not followed")]
    RedirectRefused { host: String },
    /// The namespace has too many requests in flight already.
    #[error("too many requests in flight, `{host}` was not asked")]
    Busy { host: String },
}

// === impl HttpError ===

impl HttpError {
    /// The exchange broke off, so a retry may help. Not so for a certificate that is not
    /// trusted, an address that is refused or a redirect that is not followed.
    pub fn is_connection(&self) -> bool {
        match self {
            Self::NoSuchHost { .. }
            | Self::Connect { .. }
            | Self::Proxy { .. }
            | Self::Timeout { .. }
            | Self::Broken { .. }
            | Self::Busy { .. } => true,
            Self::Url(_)
            | Self::Forbidden { .. }
            | Self::Tls { .. }
            | Self::TooManyRedirects { .. }
            | Self::RedirectRefused { .. } => false,
        }
    }

    /// A fixed word, fit for a metric's label.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Url(_) => "url",
            Self::Forbidden { .. } => "forbidden",
            Self::NoSuchHost { .. } => "no_such_host",
            Self::Connect { .. } => "connect",
            Self::Proxy { .. } => "proxy",
            Self::Tls { .. } => "tls",
            Self::Timeout { .. } => "timeout",
            Self::Broken { .. } => "broken",
            Self::TooManyRedirects { .. } | Self::RedirectRefused { .. } => "redirect",
            Self::Busy { .. } => "busy",
        }
    }
}

/// Rounded: the rest of a time limit when a call begins differs by microseconds each time, and a text that differs
/// would be reported as a new failure.
fn seconds(after: Duration) -> f64 {
    (after.as_secs_f64() * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_time_limit_reads_the_same_each_time() {
        let text = |after| HttpError::Timeout { host: "hooks".to_owned(), after }.to_string();
        assert_eq!(text(Duration::from_nanos(9_999_970_605)), text(Duration::from_secs(10)));
        assert_eq!(text(Duration::from_millis(1_500)), "`hooks` did not answer within 1.5s");
    }
}
