//! Signature Version 4, as Amazon documents it.
//!
//! The library that Amazon has for it brings an async runtime along; what it does is four keyed
//! hashes over a text, checked here against Amazon's published examples.

use http::{HeaderName, HeaderValue, header};
use jiff::Timestamp;
use percent_encoding::{percent_decode_str, utf8_percent_encode};
use ring::{digest, hmac};

use super::Keys;
use crate::{
    metrics::support::{UNRESERVED, hex},
    request::{Request, sensitive},
};

/// What a signature is good for.
pub(in crate::metrics) struct Scope<'a> {
    pub(in crate::metrics) region: &'a str,
    pub(in crate::metrics) service: &'a str,
    pub(in crate::metrics) now: Timestamp,
}

const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// Signs a request that is complete but for this. Nothing if a key cannot be sent.
pub(in crate::metrics) fn sign(
    request: &mut Request,
    keys: &Keys,
    scope: &Scope<'_>,
) -> Option<()> {
    let time = scope.now.strftime("%Y%m%dT%H%M%SZ").to_string();
    let date = time.get(..8)?;
    request.headers.insert("x-amz-date", HeaderValue::from_str(&time).ok()?);
    if let Some(session) = &keys.session {
        request.headers.insert("x-amz-security-token", sensitive(session)?);
    }
    let (names, canonical) = canonical(request)?;
    let Scope { region, service, .. } = scope;
    let place = format!("{date}/{region}/{service}/aws4_request");
    let text = format!("{ALGORITHM}\n{time}\n{place}\n{}", hash(canonical.as_bytes()));

    let mut key = keyed(format!("AWS4{}", keys.secret).as_bytes(), date);
    for part in [region, service, "aws4_request"] {
        key = keyed(key.as_ref(), part);
    }
    let signature = hex(keyed(key.as_ref(), &text).as_ref());
    let id = &keys.id;
    let proof = format!(
        "{ALGORITHM} Credential={id}/{place}, SignedHeaders={names}, Signature={signature}"
    );
    request.headers.insert(header::AUTHORIZATION, sensitive(&proof)?);
    Some(())
}

/// The names of the signed headers, and the text that stands for the request.
fn canonical(request: &Request) -> Option<(String, String)> {
    let mut headers = vec![("host".to_owned(), request.url.authority()?.as_str().to_owned())];
    for (name, value) in &request.headers {
        if is_signed(name) {
            headers.push((name.as_str().to_owned(), value.to_str().ok()?.trim().to_owned()));
        }
    }
    headers.sort();
    let names: Vec<_> = headers.iter().map(|(name, _)| name.as_str()).collect();
    let names = names.join(";");
    let lines: Vec<_> = headers.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
    let lines = lines.concat();
    let text = format!(
        "{}\n{}\n{}\n{lines}\n{names}\n{}",
        request.method,
        path(request.url.path()),
        query(request.url.query().unwrap_or_default())?,
        hash(&request.body)
    );
    Some((names, text))
}

fn is_signed(name: &HeaderName) -> bool {
    *name == header::CONTENT_TYPE || name.as_str().starts_with("x-amz-")
}

/// Every segment once more encoded, as all services but S3 want it.
fn path(path: &str) -> String {
    let segments: Vec<_> =
        path.split('/').map(|part| utf8_percent_encode(part, UNRESERVED).to_string()).collect();
    segments.join("/")
}

fn query(query: &str) -> Option<String> {
    let mut pairs = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        pairs.push((encoded_once(name)?, encoded_once(value)?));
    }
    pairs.sort();
    let pairs: Vec<_> = pairs.iter().map(|(name, value)| format!("{name}={value}")).collect();
    Some(pairs.join("&"))
}

fn encoded_once(text: &str) -> Option<String> {
    let plain = percent_decode_str(text).decode_utf8().ok()?;
    Some(utf8_percent_encode(&plain, UNRESERVED).to_string())
}

fn keyed(key: &[u8], text: &str) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes())
}

fn hash(bytes: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, bytes).as_ref())
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    fn keys() -> Keys {
        Keys {
            id: "AKIDEXAMPLE".into(),
            secret: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".into(),
            session: None,
        }
    }

    fn signature(request: &mut Request, service: &str) -> String {
        let now = "2015-08-30T12:36:00Z".parse().unwrap();
        sign(request, &keys(), &Scope { region: "us-east-1", service, now }).unwrap();
        request.headers[header::AUTHORIZATION].to_str().unwrap().to_owned()
    }

    /// From Amazon's test suite for signatures, and the example of its guide.
    #[test]
    fn signatures_are_those_that_amazon_publishes() {
        let get = |url: &str| Request::get(url).unwrap();
        let mut post = get("https://example.amazonaws.com/");
        post.method = Method::POST;
        let cases = [
            (
                "get-vanilla",
                get("https://example.amazonaws.com/"),
                "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
            ),
            (
                "post-vanilla",
                post,
                "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
            ),
            (
                "get-vanilla-query-order-key-case",
                get("https://example.amazonaws.com/?Param2=value2&Param1=value1"),
                "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
            ),
            (
                "get-vanilla-empty-query-key",
                get("https://example.amazonaws.com/?Param1=value1"),
                "a67d582fa61cc504c4bae71f336f98b97f1ea3c7a6bfe1b6e45aec72011b9aeb",
            ),
        ];
        for (name, mut request, want) in cases {
            let proof = signature(&mut request, "service");
            assert!(proof.ends_with(&format!("Signature={want}")), "{name}: {proof}");
            assert!(proof.contains("SignedHeaders=host;x-amz-date,"), "{name}: {proof}");
        }
        let mut list = get("https://iam.amazonaws.com/?Action=ListUsers&Version=2010-05-08");
        let form = HeaderValue::from_static("application/x-www-form-urlencoded; charset=utf-8");
        list.headers.insert(header::CONTENT_TYPE, form);
        let want = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/iam/aws4_request, SignedHeaders=content-type;host;x-amz-date, Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7";
        assert_eq!(signature(&mut list, "iam"), want);
        assert!(list.headers[header::AUTHORIZATION].is_sensitive());
    }

    /// The example of Amazon's guide: as it goes over the wire, and once more.
    #[test]
    fn a_path_is_encoded_twice() {
        assert_eq!(path("/documents%20and%20settings/"), "/documents%2520and%2520settings/");
        let request = Request::get("https://a/documents and settings/").unwrap();
        let (_, text) = canonical(&request).unwrap();
        assert_eq!(text.lines().nth(1), Some("/documents%2520and%2520settings/"));
    }

    #[test]
    fn however_a_query_was_encoded_it_is_signed_alike() {
        let sign = |url: &str| signature(&mut Request::get(url).unwrap(), "aps");
        assert_eq!(sign("https://a/?query=a%2Db%20c"), sign("https://a/?query=a-b%20c"));
        assert_ne!(sign("https://a/?query=a-b%20c"), sign("https://a/?query=a-b%2Bc"));
    }

    #[test]
    fn a_session_is_signed_and_not_printed() {
        let mut request = Request::get("https://example.amazonaws.com/").unwrap();
        let keys = Keys { session: Some("hidden".into()), ..keys() };
        let now = "2015-08-30T12:36:00Z".parse().unwrap();
        sign(&mut request, &keys, &Scope { region: "us-east-1", service: "service", now }).unwrap();
        assert!(request.headers["x-amz-security-token"].is_sensitive());
        let proof = request.headers[header::AUTHORIZATION].to_str().unwrap();
        assert!(proof.contains("host;x-amz-date;x-amz-security-token"), "{proof}");
        let split = Keys { session: Some("a\r\nb".into()), ..keys };
        let scope = Scope { region: "us-east-1", service: "service", now };
        assert_eq!(sign(&mut request, &split, &scope), None, "no header can carry it");
    }
}
