//! URLs that are checked, and that print without their secrets.
//!
//! Chat services put their token into the path, metrics servers into the query, people put passwords before
//! the host. So a [`SafeUrl`] prints its scheme and host and nothing else; the parts that are sent have
//! methods of their own ([`SafeUrl::uri`], [`SafeUrl::authorization`]).

use std::{
    fmt::{self, Write as _},
    str::FromStr,
};

use http::{HeaderValue, Uri, uri::Scheme};

use super::proxy::basic;

/// An `http` or `https` URL.
#[derive(Clone, PartialEq, Eq)]
pub struct SafeUrl {
    /// Without credentials and fragment; has a scheme, a host and a path.
    uri: Uri,
    credentials: Option<Credentials>,
}

#[derive(Clone, PartialEq, Eq)]
struct Credentials {
    user: String,
    password: String,
}

/// Why a text is not a URL we can use. Never shows the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    #[error("it is empty")]
    Empty,
    #[error("it is longer than {LENGTH_MAX} bytes")]
    TooLong,
    #[error("it does not begin with http:// or https://")]
    Scheme,
    #[error("it has no valid host")]
    Host,
    #[error("it contains characters that no URL has")]
    Characters,
}

/// Room for a query of several thousand characters, which servers take up to 8 to 64 KiB.
const LENGTH_MAX: usize = 32 * 1024;

/// The parts of a URL before anything was decoded.
pub(super) struct Parts<'a> {
    pub(super) scheme: &'a str,
    pub(super) userinfo: Option<&'a str>,
    pub(super) authority: &'a str,
    /// Begins with `/`, `?`, or is empty.
    pub(super) path_and_query: &'a str,
}

// === impl SafeUrl ===

impl SafeUrl {
    /// Reads a URL as people write them: space around it does not count, characters of path and query are escaped
    /// where they must be, a fragment is dropped.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        let parts = Parts::split(text)?;
        let scheme = match parts.scheme.to_ascii_lowercase().as_str() {
            "http" => Scheme::HTTP,
            "https" => Scheme::HTTPS,
            _ => return Err(UrlError::Scheme),
        };
        let mut path_and_query = escape(parts.path_and_query)?;
        if !path_and_query.starts_with('/') {
            path_and_query.insert(0, '/');
        }
        if !parts.userinfo.unwrap_or_default().bytes().all(is_userinfo) {
            return Err(UrlError::Characters);
        }
        let credentials = parts.userinfo.map(Credentials::parse);
        let uri = Uri::builder()
            .scheme(scheme)
            .authority(parts.authority)
            .path_and_query(path_and_query)
            .build()
            .map_err(|_| UrlError::Host)?;
        let host = uri.host().unwrap_or_default();
        let port = uri.authority().and_then(|authority| authority.as_str().strip_prefix(host));
        // `http` lets an authority end in a colon, or in a port that no machine has.
        let has_port = uri.port_u16().is_some_and(|port| port > 0);
        if host.is_empty() || !(port == Some("") || has_port) {
            return Err(UrlError::Host);
        }
        Ok(Self { uri, credentials })
    }

    /// The URL that is sent: without credentials.
    pub fn uri(&self) -> &Uri {
        &self.uri
    }

    /// A name, or an address without brackets.
    pub fn host(&self) -> &str {
        let host = self.uri.host().unwrap_or_default();
        host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
    }

    /// As written, or the scheme's default.
    pub fn port(&self) -> u16 {
        self.uri.port_u16().unwrap_or(if self.is_https() { 443 } else { 80 })
    }

    /// Host and, if it was written, port: the name of the server in errors.
    pub fn authority(&self) -> &str {
        self.uri.authority().map_or("", |authority| authority.as_str())
    }

    pub fn is_https(&self) -> bool {
        self.uri.scheme() == Some(&Scheme::HTTPS)
    }

    /// The header that the credentials before the host stand for. Marked as sensitive.
    pub fn authorization(&self) -> Option<HeaderValue> {
        self.credentials.as_ref().map(|known| basic(&known.user, &known.password))
    }

    /// The same name, ignoring case; ports and schemes may differ.
    pub(super) fn is_same_host(&self, other: &Self) -> bool {
        self.host().eq_ignore_ascii_case(other.host())
    }

    /// The same server: scheme, host and port.
    pub(super) fn is_same_origin(&self, other: &Self) -> bool {
        self.is_same_host(other)
            && self.port() == other.port()
            && self.is_https() == other.is_https()
    }

    /// Where a `Location` header points, seen from here. Credentials are not carried over.
    pub(super) fn join(&self, location: &str) -> Result<Self, UrlError> {
        let location = location.trim();
        let before_path = location.split(['/', '?', '#']).next().unwrap_or_default();
        let scheme = self.uri.scheme_str().unwrap_or_default();
        if before_path.ends_with(':') && before_path.len() > 1 {
            return Self::parse(location);
        }
        if location.starts_with("//") {
            return Self::parse(&format!("{scheme}:{location}"));
        }
        let path = self.uri.path();
        let target = if location.starts_with('/') {
            location.to_owned()
        } else if location.starts_with('?') {
            format!("{path}{location}")
        } else {
            let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
            format!("{folder}/{location}")
        };
        Self::parse(&format!("{scheme}://{}{}", self.authority(), without_dots(&target)))
    }
}

impl FromStr for SafeUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        Self::parse(text)
    }
}

impl fmt::Display for SafeUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = self.uri.scheme_str().unwrap_or_default();
        let bare = self.uri.path_and_query().is_none_or(|path| path.as_str() == "/");
        write!(f, "{scheme}://{}{}", self.authority(), if bare { "" } else { "/***" })
    }
}

impl fmt::Debug for SafeUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

// === impl Parts ===

impl<'a> Parts<'a> {
    /// Splits at the places RFC 3986 names, without checking the parts.
    pub(super) fn split(text: &'a str) -> Result<Self, UrlError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(UrlError::Empty);
        }
        if text.len() > LENGTH_MAX {
            return Err(UrlError::TooLong);
        }
        let (scheme, rest) = text.split_once("://").ok_or(UrlError::Scheme)?;
        let rest = rest.split('#').next().unwrap_or_default();
        let (authority, path_and_query) =
            rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        // The last `@`: a password may contain one, a host may not.
        let (userinfo, authority) = match authority.rsplit_once('@') {
            Some((userinfo, authority)) => (Some(userinfo), authority),
            None => (None, authority),
        };
        Ok(Self { scheme, userinfo, authority, path_and_query })
    }

    /// User and password, decoded.
    pub(super) fn credentials(&self) -> Option<(String, String)> {
        let Credentials { user, password } = Credentials::parse(self.userinfo?);
        Some((user, password))
    }
}

// === impl Credentials ===

impl Credentials {
    fn parse(userinfo: &str) -> Self {
        let (user, password) = userinfo.split_once(':').unwrap_or((userinfo, ""));
        Self { user: unescape(user), password: unescape(password) }
    }
}

/// Characters that may stand before the host, as in Go. After a backslash, for one, programs disagree about which
/// part is the host.
fn is_userinfo(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte)
}

/// Escapes characters that may not stand in path or query. Escapes stay as they are.
fn escape(text: &str) -> Result<String, UrlError> {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            byte if byte.is_ascii_control() => return Err(UrlError::Characters),
            b' ' | b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}' | 0x80.. => {
                write!(escaped, "%{byte:02X}").map_err(|_| UrlError::Characters)?;
            }
            byte => escaped.push(char::from(byte)),
        }
    }
    Ok(escaped)
}

/// Decodes `%41`. Other text stays, bytes that are not UTF-8 are replaced.
fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let digits = tail.first_chunk::<2>().and_then(|pair| std::str::from_utf8(pair).ok());
        let is_hex = |digits: &&str| digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        let code = digits.filter(is_hex).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        if let (b'%', Some(code)) = (first, code) {
            bytes.push(code);
            rest = tail.get(2..).unwrap_or_default();
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Resolves `.` and `..` in a path that begins with `/`; a query stays as it is.
fn without_dots(target: &str) -> String {
    let (path, query) = target.split_at(target.find(['?', '#']).unwrap_or(target.len()));
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split('/').skip(1) {
        match segment {
            "." => {}
            ".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    if path.ends_with("/.") || path.ends_with("/..") {
        segments.push("");
    }
    format!("/{}{query}", segments.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_taken_as_people_write_it() {
        let cases = [
            ("plain", "http://podinfo.test:9898/gate", "http://podinfo.test:9898/gate"),
            ("no path", "https://example.com", "https://example.com/"),
            ("query without path", "http://example.com?a=b", "http://example.com/?a=b"),
            ("space around, as in a Secret", " http://example.com/a\n", "http://example.com/a"),
            (
                "what must be escaped",
                "http://e.com/a b?q={\"x\"}",
                "http://e.com/a%20b?q=%7B%22x%22%7D",
            ),
            ("escaped already", "http://e.com/%7B?q=%20", "http://e.com/%7B?q=%20"),
            ("not ASCII", "http://e.com/é", "http://e.com/%C3%A9"),
            ("a fragment is not sent", "http://e.com/a#b", "http://e.com/a"),
            ("scheme in capitals", "HTTP://e.com/", "http://e.com/"),
            ("address in brackets", "http://[::1]:8080/a", "http://[::1]:8080/a"),
            ("credentials are not part of it", "http://u:p@e.com/", "http://e.com/"),
            ("a password with an at sign", "http://u:p@q@e.com/", "http://e.com/"),
        ];
        for (reason, text, want) in cases {
            assert_eq!(SafeUrl::parse(text).unwrap().uri().to_string(), want, "{reason}");
        }
    }

    #[test]
    fn invalid_urls_are_refused() {
        let long = format!("http://e.com/{}", "a".repeat(LENGTH_MAX));
        let cases = [
            ("", UrlError::Empty),
            (" \n", UrlError::Empty),
            (&long, UrlError::TooLong),
            ("example.com", UrlError::Scheme),
            ("file:///etc/passwd", UrlError::Scheme),
            ("gopher://e.com/", UrlError::Scheme),
            ("http://", UrlError::Host),
            ("http:///path", UrlError::Host),
            ("http://e.com:/", UrlError::Host),
            ("http://e.com:0/", UrlError::Host),
            ("http://e.com:99999/", UrlError::Host),
            ("http://e com/", UrlError::Host),
            ("http://é.com/", UrlError::Host),
            ("http://e.com\\@evil/", UrlError::Characters),
            ("http://e.com/a\r\nHost: evil", UrlError::Characters),
            ("http://[::1/", UrlError::Host),
        ];
        for (text, want) in cases {
            assert_eq!(SafeUrl::parse(text).err(), Some(want), "{text:?}");
        }
    }

    #[test]
    fn a_url_shows_neither_password_nor_path_nor_query() {
        let cases = [
            ("https://hooks.slack.com/services/T0/B0/TOKEN", "https://hooks.slack.com/***"),
            ("http://user:PASSWORD@prometheus:9090", "http://prometheus:9090"),
            ("http://e.com/?api_key=TOKEN", "http://e.com/***"),
        ];
        for (text, want) in cases {
            let url = SafeUrl::parse(text).unwrap();
            assert_eq!(url.to_string(), want);
            assert_eq!(format!("{url:?}"), want);
        }
    }

    #[test]
    fn credentials_become_a_header() {
        let header = |text: &str| SafeUrl::parse(text).unwrap().authorization();
        assert_eq!(header("http://e.com/"), None);
        let cases = [
            ("http://Aladdin:open%20sesame@e.com/", "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="),
            ("http://user@e.com/", "Basic dXNlcjo="),
            ("http://u:100%@e.com/", "Basic dToxMDAl"),
        ];
        for (text, want) in cases {
            let header = header(text).unwrap();
            assert_eq!(header, want, "{text}");
            assert!(header.is_sensitive());
        }
    }

    #[test]
    fn a_location_is_seen_from_where_it_was_found() {
        let cases = [
            ("http://other/x", "http://other/x"),
            ("//other/x", "http://other/x"),
            ("/x?y", "http://e.com:81/x?y"),
            ("x", "http://e.com:81/a/x"),
            ("../x", "http://e.com:81/x"),
            ("../../../x", "http://e.com:81/x"),
            ("./", "http://e.com:81/a/"),
            ("..", "http://e.com:81/"),
            ("?y", "http://e.com:81/a/b?y"),
            ("", "http://e.com:81/a/"),
            ("a:b/c", "http://e.com:81/a/a:b/c"),
        ];
        let from = SafeUrl::parse("http://user:pass@e.com:81/a/b?c").unwrap();
        for (location, want) in cases {
            let url = from.join(location).unwrap();
            assert_eq!(url.uri().to_string(), want, "{location:?}");
            assert_eq!(url.authorization(), None, "{location:?}");
        }
        assert_eq!(from.join("file:///etc/passwd").err(), Some(UrlError::Scheme));
        assert_eq!(from.join("javascript:alert(1)").unwrap().host(), "e.com");
    }
}
