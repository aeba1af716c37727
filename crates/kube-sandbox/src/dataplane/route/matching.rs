//! Conditions on a request, and the precedence of matches.
//!
//! Compiled from all routing kinds when a table is built. A match cannot fail: an invalid pattern
//! becomes a condition that is never true.

use std::borrow::Cow;

use http::HeaderName;
use percent_encoding::percent_decode_str;
use regex::{Regex, RegexBuilder};

use super::Request;

/// Size limit of a compiled expression; the longest in a CRD (1024 characters) take a tenth.
const REGEX_BYTES_MAX: usize = 1024 * 1024;

/// One condition. A match is a list of them.
#[derive(Debug, Clone)]
pub(super) enum Condition {
    Path(Path),
    Method(Text),
    Authority(Text),
    Scheme(Text),
    Header(HeaderName, Text),
    WithoutHeader(HeaderName, Text),
    Query(String, Text),
    /// Never matches: an invalid pattern, or a property that a gateway cannot see.
    Never,
}

#[derive(Debug, Clone)]
pub(super) enum Path {
    /// Whole segments: `/shop` covers `/shop/cart` and not `/shopping`.
    Segments(String),
    Text(Text),
    TextIgnoringCase(Text),
}

#[derive(Debug, Clone)]
pub(super) enum Text {
    Exact(String),
    Prefix(String),
    /// Matches the whole text, as in Envoy.
    Regex(Regex),
    Present,
}

/// The criteria by which Gateway API orders matches, most important first; greater wins. The first
/// is the type of path match: exact, regular expression, prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Precedence {
    pub(super) path_kind: u8,
    pub(super) path_length: usize,
    pub(super) has_method: bool,
    pub(super) headers: usize,
    pub(super) query_parameters: usize,
}

// === impl Condition ===

impl Condition {
    pub(super) fn holds(&self, request: &Request<'_>) -> bool {
        match self {
            Self::Path(path) => path.holds(request.path),
            Self::Method(text) => text.holds(request.method),
            Self::Authority(text) => text.holds(request.host),
            Self::Scheme(text) => text.holds("http"),
            Self::Header(name, text) => {
                header(request, name).is_some_and(|value| text.holds(&value))
            }
            Self::WithoutHeader(name, text) => {
                !header(request, name).is_some_and(|value| text.holds(&value))
            }
            Self::Query(name, text) => {
                query(request.query, name).is_some_and(|value| text.holds(&value))
            }
            Self::Never => false,
        }
    }

    /// A condition on a header; an invalid header name is never present.
    pub(super) fn header(name: &str, text: Option<Text>) -> Self {
        match (name.parse(), text) {
            (Ok(name), Some(text)) => Self::Header(name, text),
            _ => Self::Never,
        }
    }
}

/// All values of a header joined, as a proxy sees them.
fn header<'r>(request: &Request<'r>, name: &HeaderName) -> Option<Cow<'r, str>> {
    let mut values = request.headers.get_all(name).iter().map(|value| value.to_str());
    let first = values.next()?.unwrap_or_default();
    let rest: Vec<&str> = values.map(Result::unwrap_or_default).collect();
    if rest.is_empty() {
        return Some(Cow::Borrowed(first));
    }
    let separator = if name == http::header::COOKIE { "; " } else { "," };
    Some(Cow::Owned(format!("{first}{separator}{}", rest.join(separator))))
}

/// The first value of a query parameter.
fn query(query: &str, name: &str) -> Option<String> {
    let decode = |text: &str| {
        let text = text.replace('+', " ");
        percent_decode_str(&text).decode_utf8_lossy().into_owned()
    };
    query.split('&').find_map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (!pair.is_empty() && decode(key) == name).then(|| decode(value))
    })
}

// === impl Path ===

impl Path {
    fn holds(&self, path: &str) -> bool {
        match self {
            Self::Segments(prefix) => {
                let prefix = prefix.trim_end_matches('/');
                let rest = path.strip_prefix(prefix);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            }
            Self::Text(text) => text.holds(path),
            Self::TextIgnoringCase(text) => text.holds(&path.to_lowercase()),
        }
    }
}

// === impl Text ===

impl Text {
    pub(super) fn regex(pattern: &str) -> Option<Self> {
        let whole = format!("^(?:{pattern})$");
        RegexBuilder::new(&whole).size_limit(REGEX_BYTES_MAX).build().ok().map(Self::Regex)
    }

    fn holds(&self, text: &str) -> bool {
        match self {
            Self::Exact(want) => text == want,
            Self::Prefix(want) => text.starts_with(want.as_str()),
            Self::Regex(regex) => regex.is_match(text),
            Self::Present => true,
        }
    }

    /// For comparison with texts in lower case. A regular expression gets its own flag.
    pub(super) fn to_lowercase(&self) -> Self {
        match self {
            Self::Exact(text) => Self::Exact(text.to_lowercase()),
            Self::Prefix(text) => Self::Prefix(text.to_lowercase()),
            Self::Regex(_) | Self::Present => self.clone(),
        }
    }
}
