//! HTTP requests as values, built here and sent by the operator.
//!
//! The operator's client turns a [`Request`] into bytes and returns a status and a body. A URL has been
//! checked by the time it is in here: absolute, `http` or `https`, with a host, and without user information,
//! which has moved into a header.
//!
//! Addresses of chats carry their secret in the path, addresses of hooks often in the query, so a
//! request prints as its method and host and nothing else.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use http::{
    HeaderMap, HeaderValue, Method, Uri,
    header::{AUTHORIZATION, CONTENT_TYPE},
    uri::{Authority, PathAndQuery, Scheme},
};
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

/// Something to send.
#[derive(Clone, PartialEq)]
pub struct Request {
    /// GET or POST.
    pub method: Method,
    /// Where to; checked, and without user information.
    pub url: Uri,
    /// Headers to send. Values that may be secret are marked as sensitive.
    pub headers: HeaderMap,
    /// The body; empty for a GET.
    pub body: Vec<u8>,
}

/// Why an address cannot be used. Never quotes the address: it may hold a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Nothing there.
    #[error("the address is empty")]
    Empty,
    /// Not an absolute URL with a host.
    #[error("the address is not a valid URL")]
    Invalid,
    /// A scheme other than `http` and `https`.
    #[error("the address is neither http nor https")]
    Scheme,
}

/// Characters that users write into URLs although they have to be encoded. `%` stays: it is taken
/// for an encoding that was made already.
const SLOPPY: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'<').add(b'>').add(b'`');

// === impl Request ===

impl Request {
    /// A GET of an address.
    pub fn get(address: &str) -> Result<Self, AddressError> {
        let (url, headers) = split_address(address)?;
        Ok(Self { method: Method::GET, url, headers, body: Vec::new() })
    }

    /// A POST of JSON to an address.
    pub fn post_json(address: &str, body: Vec<u8>) -> Result<Self, AddressError> {
        let (url, mut headers) = split_address(address)?;
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Ok(Self { method: Method::POST, url, headers, body })
    }

    /// Replaces path and query.
    pub(crate) fn with_path(mut self, path_and_query: &str) -> Result<Self, AddressError> {
        let path = PathAndQuery::try_from(path_and_query).map_err(|_| AddressError::Invalid)?;
        let mut parts = self.url.into_parts();
        parts.path_and_query = Some(path);
        self.url = Uri::from_parts(parts).map_err(|_| AddressError::Invalid)?;
        Ok(self)
    }

    /// Sends this token along. False, and nothing sent, if no header can hold it.
    #[must_use]
    pub(crate) fn authorize_bearer(&mut self, token: &str) -> bool {
        let Some(value) = sensitive(&format!("Bearer {token}")) else { return false };
        self.headers.insert(AUTHORIZATION, value);
        true
    }

    /// Sends this name and password along. False if no header can hold them.
    #[must_use]
    pub(crate) fn authorize_basic(&mut self, username: &str, password: &str) -> bool {
        let Some(value) = basic(username, password) else { return false };
        self.headers.insert(AUTHORIZATION, value);
        true
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Request {
    /// Method, scheme and host: enough to know the receiver, and nothing that could be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = self.url.scheme_str().unwrap_or_default();
        let host = self.url.authority().map_or("", Authority::as_str);
        write!(f, "{} {scheme}://{host}", self.method)
    }
}

/// A header value that is not printed; `None` if the text cannot be one.
pub(crate) fn sensitive(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// The text of a key of a Secret, without the blanks and line ends that files and `echo` leave.
pub(crate) fn secret_text(value: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(value).ok()?.trim();
    Some(text).filter(|text| !text.is_empty())
}

/// Takes user information out of an address and into a header.
fn split_address(address: &str) -> Result<(Uri, HeaderMap), AddressError> {
    let address = address.trim();
    if address.is_empty() {
        return Err(AddressError::Empty);
    }
    let encoded = utf8_percent_encode(address, SLOPPY).to_string();
    let url: Uri = encoded.parse().map_err(|_| AddressError::Invalid)?;
    let mut parts = url.into_parts();
    match parts.scheme.as_ref() {
        None => return Err(AddressError::Invalid),
        Some(scheme) if *scheme == Scheme::HTTP || *scheme == Scheme::HTTPS => {}
        Some(_) => return Err(AddressError::Scheme),
    }
    let authority = parts.authority.ok_or(AddressError::Invalid)?;
    let mut headers = HeaderMap::new();
    let bare = match authority.as_str().rsplit_once('@') {
        None => authority.clone(),
        Some((user_information, host)) => {
            let value = basic_of(user_information).ok_or(AddressError::Invalid)?;
            headers.insert(AUTHORIZATION, value);
            host.parse().map_err(|_| AddressError::Invalid)?
        }
    };
    if bare.host().is_empty() {
        return Err(AddressError::Invalid);
    }
    parts.authority = Some(bare);
    let url = Uri::from_parts(parts).map_err(|_| AddressError::Invalid)?;
    Ok((url, headers))
}

fn basic_of(user_information: &str) -> Option<HeaderValue> {
    let (username, password) = user_information.split_once(':').unwrap_or((user_information, ""));
    let decode = |text| percent_decode_str(text).decode_utf8().ok();
    basic(&decode(username)?, &decode(password)?)
}

fn basic(username: &str, password: &str) -> Option<HeaderValue> {
    sensitive(&format!("Basic {}", BASE64.encode(format!("{username}:{password}"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_checked_before_it_is_used() {
        let cases = [
            ("nothing", " \n", AddressError::Empty),
            ("no scheme", "prometheus:9090", AddressError::Invalid),
            ("only a path", "/api", AddressError::Invalid),
            ("no host", "http://", AddressError::Invalid),
            ("no host but a port", "http://:9090/", AddressError::Invalid),
            ("a scheme of files", "file:///etc/passwd", AddressError::Invalid),
            ("another scheme", "ftp://host/x", AddressError::Scheme),
            ("garbage", "::::", AddressError::Invalid),
            ("user information alone", "http://user:pass@", AddressError::Invalid),
        ];
        for (reason, address, want) in cases {
            assert_eq!(Request::get(address), Err(want), "{reason}");
        }
    }

    #[test]
    fn an_address_is_taken_as_people_write_it() {
        let cases = [
            ("plain", "http://prometheus:9090", "http://prometheus:9090/"),
            ("line end of a Secret", "https://chat/x?y=1\n", "https://chat/x?y=1"),
            ("a blank", "http://hooks/a b", "http://hooks/a%20b"),
            ("a letter beyond ASCII", "http://hooks/é", "http://hooks/%C3%A9"),
            ("IPv6", "http://[::1]:80/a", "http://[::1]:80/a"),
        ];
        for (reason, address, want) in cases {
            assert_eq!(Request::get(address).unwrap().url.to_string(), want, "{reason}");
        }
    }

    #[test]
    fn a_password_moves_from_the_url_into_a_header_that_is_not_printed() {
        let request = Request::get("https://me:p%40ss@host:8080/secret?token=hidden").unwrap();
        assert_eq!(request.url, "https://host:8080/secret?token=hidden");
        assert_eq!(request.headers[AUTHORIZATION], "Basic bWU6cEBzcw==");
        assert!(request.headers[AUTHORIZATION].is_sensitive());
        assert_eq!(format!("{request:?}"), "GET https://host:8080");
        assert_eq!(format!("{request}"), "GET https://host:8080");
    }
}
