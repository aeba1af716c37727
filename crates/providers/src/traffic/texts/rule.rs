//! Rules on one text, as the definitions of routes and the API server have them.

use tidegate_api::duration::GoDuration;

use crate::traffic::gateway_api;

/// A rule on a text. A refusal is the rest of a sentence about the field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// One line: no control character but a tab.
    Line,
    /// A line that is not empty.
    Name,
    /// A line without spaces that is not empty.
    Word,
    /// A line without a semicolon, which would begin another attribute of a cookie.
    Attribute,
    /// A token of HTTP, as names of headers are; at most 256 bytes.
    Token,
    /// A line of at most this many characters.
    LineOf(usize),
    /// The same, not empty.
    ValueOf(usize),
    /// A host of Gateway API; with or without `*.` before it.
    Host { wildcard: bool },
    /// A path of Gateway API that is compared literally.
    Path,
    /// A method of Gateway API.
    Method,
    /// The same, or `*`.
    MethodOrAny,
    /// An origin: `*`, or a scheme and a host.
    Origin,
    /// A package and service of gRPC.
    GrpcService,
    /// A method of gRPC.
    GrpcMethod,
    /// A duration of at least a millisecond.
    Duration,
    /// A duration of Gateway API: up to four whole numbers with units.
    GatewayDuration,
    /// A duration of Contour, which may be infinite.
    ContourDuration,
    /// A kind of failure that Contour retries.
    ContourRetry,
    /// A label of DNS.
    Label,
    /// The name of a port: up to 15 letters, digits and hyphens.
    PortName,
    /// The key of a label.
    LabelKey,
    /// The key of an annotation, which may have upper case before the slash.
    AnnotationKey,
    /// The value of a label.
    LabelValue,
}

const TOKEN_MAX: usize = 256;
const HOST_MAX: usize = 253;
const PATH_MAX: usize = 1024;
const LABEL_MAX: usize = 63;
const PORT_NAME_MAX: usize = 15;
const METHODS: [&str; 9] =
    ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"];
const CONTOUR_RETRIES: [&str; 16] = [
    "5xx",
    "gateway-error",
    "reset",
    "reset-before-request",
    "connect-failure",
    "envoy-ratelimited",
    "retriable-4xx",
    "refused-stream",
    "retriable-status-codes",
    "retriable-headers",
    "http3-post-connect-failure",
    "cancelled",
    "deadline-exceeded",
    "internal",
    "resource-exhausted",
    "unavailable",
];
const CONTROL: &str = "a line end or another control character is not allowed";
const EMPTY: &str = "must not be empty";
const NOT_A_TOKEN: &str = "needs letters, digits and !#$%&'*+-.^_`|~ only";
const NOT_WHOLE: &str = "Gateway API takes whole numbers of h, m, s and ms, such as 1m30s";
const NOT_A_KEY: &str = "is no key: it needs a name, or a DNS subdomain, a slash and a name";
const NOT_A_VALUE: &str = "needs letters, digits, -, _ and . with a letter or digit at both ends";

// === impl Rule ===

impl Rule {
    /// Why the text breaks the rule, if it does.
    pub(super) fn refusal(self, text: &str) -> Option<String> {
        if text.chars().any(|character| character.is_control() && character != '\t') {
            return Some(CONTROL.to_owned());
        }
        let too_long = |max: usize| {
            let length = text.chars().count();
            (length > max).then(|| format!("has {length} characters; at most {max} are possible"))
        };
        let unless = |is_right: bool, why: &str| (!is_right).then(|| why.to_owned());
        let filled = || unless(!text.is_empty(), EMPTY);
        match self {
            Self::Line => None,
            Self::Name => filled(),
            Self::Word => {
                filled().or_else(|| unless(!text.contains([' ', '\t']), "must not contain a space"))
            }
            Self::Attribute => {
                unless(!text.contains(';'), "a semicolon would begin another attribute")
            }
            Self::Token => too_long(TOKEN_MAX)
                .or_else(|| unless(!text.is_empty() && text.bytes().all(is_token), NOT_A_TOKEN)),
            Self::LineOf(max) => too_long(max),
            Self::ValueOf(max) => filled().or_else(|| too_long(max)),
            Self::Host { wildcard } => too_long(HOST_MAX).or_else(|| {
                let rest = text.strip_prefix("*.").filter(|_| wildcard).unwrap_or(text);
                unless(is_subdomain(rest), "needs a host name in lower case, such as a.example.com")
            }),
            Self::Path => too_long(PATH_MAX).or_else(|| path(text)),
            Self::Method => unless(METHODS.contains(&text), "needs a method of HTTP, such as GET"),
            Self::MethodOrAny => {
                let why = "needs a method of HTTP, such as GET, or *";
                unless(text == "*" || METHODS.contains(&text), why)
            }
            Self::Origin => too_long(HOST_MAX).or_else(|| {
                unless(is_origin(text), "needs * or an origin, such as https://a.example.com")
            }),
            Self::GrpcService => {
                unless(is_grpc_service(text), "needs /package.Service/ or /package.Service/Method")
            }
            Self::GrpcMethod => {
                unless(is_identifier(text), "needs a method of letters, digits and _")
            }
            Self::Duration => {
                let duration = text.parse::<GoDuration>().ok();
                let is_long = duration.is_some_and(|it| it.as_nanos() >= 1_000_000);
                unless(is_long, "needs a duration of at least 1ms, such as 15s")
            }
            Self::GatewayDuration => unless(gateway_api::is_duration(text), NOT_WHOLE),
            Self::ContourDuration => {
                unless(is_contour_duration(text), "needs a duration, such as 15s, or infinity")
            }
            Self::ContourRetry => {
                unless(CONTOUR_RETRIES.contains(&text), "Contour knows no such failure to retry")
            }
            Self::Label => too_long(LABEL_MAX).or_else(|| {
                unless(is_label(text), "needs lower case letters, digits and hyphens only")
            }),
            Self::PortName => too_long(PORT_NAME_MAX).or_else(|| {
                let has_letter = text.bytes().any(|byte| byte.is_ascii_lowercase());
                let is_right = is_label(text) && has_letter && !text.contains("--");
                unless(is_right, "needs lower case letters, digits and single hyphens")
            }),
            Self::LabelKey => unless(is_qualified(text), NOT_A_KEY),
            Self::AnnotationKey => unless(is_qualified(&text.to_lowercase()), NOT_A_KEY),
            Self::LabelValue => too_long(LABEL_MAX)
                .or_else(|| unless(text.is_empty() || is_name_part(text), NOT_A_VALUE)),
        }
    }
}

fn path(text: &str) -> Option<String> {
    if !text.starts_with('/') {
        return Some("needs a slash at the beginning".to_owned());
    }
    let inside = ["//", "/./", "/../", "%2f", "%2F", "#"];
    let found = inside.into_iter().find(|part| text.contains(part));
    let found = found.or_else(|| ["/..", "/."].into_iter().find(|end| text.ends_with(end)));
    if let Some(found) = found {
        return Some(format!("Gateway API compares no path with {found}"));
    }
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let is_right = match byte {
            b'%' => [rest.next(), rest.next()]
                .into_iter()
                .all(|it| it.is_some_and(|it| it.is_ascii_hexdigit())),
            _ => byte.is_ascii_alphanumeric() || b"-/._~!$&'()*+,;=:@".contains(&byte),
        };
        if !is_right {
            return Some(
                "has characters that a path needs to have escaped, such as %20".to_owned(),
            );
        }
    }
    None
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Whether a text is a label of DNS, of any length.
fn is_label(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && text.bytes().all(is_inner) && !text.starts_with('-') && !text.ends_with('-')
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

/// Whether a text can be the key of a label.
fn is_qualified(key: &str) -> bool {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    let is_prefix = |prefix: &str| prefix.len() <= HOST_MAX && is_subdomain(prefix);
    prefix.is_none_or(is_prefix) && name.len() <= LABEL_MAX && is_name_part(name)
}

fn is_name_part(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let ends = [text.bytes().next(), text.bytes().last()];
    let is_end = |end: Option<u8>| end.is_some_and(|byte| byte.is_ascii_alphanumeric());
    text.bytes().all(is_inner) && ends.into_iter().all(is_end)
}

/// Earlier versions of Gateway API take any scheme, later ones http and https.
fn is_origin(text: &str) -> bool {
    let is_scheme = |scheme: &str| {
        scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme.chars().all(|it| it.is_ascii_alphanumeric() || "+-.".contains(it))
    };
    let is_host = |host: &str| {
        !host.is_empty() && host.chars().all(|it| it.is_ascii_alphanumeric() || "*-.:".contains(it))
    };
    text == "*"
        || text.split_once("://").is_some_and(|(scheme, host)| is_scheme(scheme) && is_host(host))
}

fn is_identifier(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn is_grpc_service(text: &str) -> bool {
    text.strip_prefix('.').unwrap_or(text).split('.').all(is_identifier)
}

/// The pattern of Contour: any number of numbers with a unit each, where a number may be empty.
fn is_contour_duration(text: &str) -> bool {
    if text == "infinity" || text == "infinite" {
        return true;
    }
    let mut rest = text;
    while !rest.is_empty() {
        let number = rest.trim_start_matches(|it: char| it.is_ascii_digit());
        let number = match number.strip_prefix('.') {
            Some(fraction) => fraction.trim_start_matches(|it: char| it.is_ascii_digit()),
            None => number,
        };
        // The longer unit first, lest the `m` of `ms` be taken for minutes.
        let units = ["ms", "us", "\u{b5}s", "ns", "h", "m", "s"];
        let Some(next) = units.into_iter().find_map(|unit| number.strip_prefix(unit)) else {
            return false;
        };
        rest = next;
    }
    !text.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_takes_these_and_refuses_those() {
        let long = "a".repeat(300);
        let cases: [(Rule, &[&str], &[&str]); 18] = [
            (Rule::Line, &["", "a b", "a\tb", "ä"], &["a\r\nb", "a\0", "\u{7f}", "\u{85}"]),
            (Rule::Name, &[":authority", "@request.auth.claims[a b]"], &["", "a\nb"]),
            (Rule::Word, &["*", "ns/gw", "*.example.com"], &["", "a b"]),
            (Rule::Attribute, &["/shop", "a b"], &["/; Domain=b", "/\n"]),
            (Rule::Token, &["x-a", "X_b!"], &["", "a b", "a:b", "ä", &long]),
            (Rule::ValueOf(3), &["äöü"], &["", "abcd"]),
            (
                Rule::Host { wildcard: true },
                &["*.a.b", "a"],
                &["", "*", "A.b", "a..b", "a_b", "-a", &long],
            ),
            (Rule::Host { wildcard: false }, &["a.b"], &["*.a.b", "a:80"]),
            (
                Rule::Path,
                &["/", "/a%20b", "/a;b=c"],
                &["", "a", "/a b", "/a//b", "/../a", "/a/.", "/%2Fa", "/%zz", "/a#", "/a?b"],
            ),
            (Rule::MethodOrAny, &["GET", "*"], &["get", ""]),
            (
                Rule::Origin,
                &["*", "https://*.a.b:80", "app://a"],
                &["a.b", "https://", "https://a/b", "https://a b"],
            ),
            (Rule::GrpcService, &["a.B", ".a.b"], &["a-b", "", "a..b"]),
            (Rule::Duration, &["1ms", "1m30s"], &["", "1", "0s", "999us", "-1s", "soon"]),
            (Rule::ContourDuration, &["15s", "1.5m2s", "infinity"], &["", "15", "soon", "1m-"]),
            (Rule::Label, &["a-1", "1a"], &["", "A", "-a", "a.b", &long]),
            (Rule::PortName, &["http", "grpc-web"], &["", "80", "a--b", "longer-than-fifteen"]),
            (Rule::AnnotationKey, &["a", "A.b/C_d"], &["", "/a", "a/", "a/b/c", "a b", "a/b\n"]),
            (Rule::LabelValue, &["", "a_b.C"], &["a b", "-a", &long]),
        ];
        for (rule, right, wrong) in cases {
            for text in right {
                assert_eq!(rule.refusal(text), None, "{rule:?} {text:?}");
            }
            for text in wrong {
                assert!(rule.refusal(text).is_some(), "{rule:?} {text:?}");
            }
        }
    }
}
