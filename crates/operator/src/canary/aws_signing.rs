//! Signatures for Amazon, by Amazon's own signer.

use aws_credential_types::Credentials;
use aws_sigv4::{
    http_request::{SignableBody, SignableRequest, SigningSettings, sign as signed},
    sign::v4,
};
use http::{HeaderName, HeaderValue, header};
use jiff::Timestamp;
use tidegate_providers::{metrics::aws::Signing, request::Request};
use tracing::dispatcher::{Dispatch, with_default};

/// Signs a request that is otherwise complete. `None` if it cannot be signed.
pub(super) fn sign(request: &mut Request, signing: &Signing, now: Timestamp) -> Option<()> {
    let Signing { keys, region, service } = signing;
    let identity =
        Credentials::new(&*keys.id, &*keys.secret, keys.session.clone(), None, "tidegate");
    let identity = identity.into();
    let params = v4::SigningParams::builder()
        .identity(&identity)
        .region(region)
        .name(service)
        .time(now.into())
        .settings(SigningSettings::default())
        .build()
        .ok()?;
    let params = params.into();
    let mut headers = Vec::new();
    for (name, value) in &request.headers {
        if is_signed(name) {
            headers.push((name.as_str(), value.to_str().ok()?));
        }
    }
    let (method, url) = (request.method.as_str(), request.url.to_string());
    let body = SignableBody::Bytes(&request.body);
    let signable = SignableRequest::new(method, url, headers.into_iter(), body).ok()?;
    // The signer logs the request and the identity: its traces are dropped.
    let made = with_default(&Dispatch::none(), || signed(signable, &params));
    let (instructions, _) = made.ok()?.into_parts();
    for made in instructions.into_parts().0 {
        let mut value = HeaderValue::from_str(made.value()).ok()?;
        value.set_sensitive(true);
        request.headers.insert(HeaderName::from_static(made.name()), value);
    }
    Some(())
}

/// Headers that proxies leave alone. Others may be added, changed or dropped on the way.
fn is_signed(name: &HeaderName) -> bool {
    *name == header::CONTENT_TYPE || name.as_str().starts_with("x-amz-")
}

#[cfg(test)]
mod tests {
    use http::Method;
    use tidegate_providers::metrics::aws::Keys;

    use super::*;

    fn keys() -> Keys {
        Keys {
            id: "AKIDEXAMPLE".into(),
            secret: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".into(),
            session: None,
        }
    }

    fn sign_with(request: &mut Request, keys: Keys, service: &'static str) -> Option<()> {
        let now = "2015-08-30T12:36:00Z".parse().unwrap();
        sign(request, &Signing { keys, region: "us-east-1".into(), service }, now)
    }

    fn signature(request: &mut Request, service: &'static str) -> String {
        sign_with(request, keys(), service).unwrap();
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
        // A header that is not signed changes nothing.
        list.headers.insert("x-scope-orgid", HeaderValue::from_static("tenant"));
        let want = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/iam/aws4_request, SignedHeaders=content-type;host;x-amz-date, Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7";
        assert_eq!(signature(&mut list, "iam"), want);
        assert!(list.headers[header::AUTHORIZATION].is_sensitive());
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
        let mut keys = keys();
        keys.session = Some("hidden".into());
        sign_with(&mut request, keys, "service").unwrap();
        assert!(request.headers["x-amz-security-token"].is_sensitive());
        let proof = request.headers[header::AUTHORIZATION].to_str().unwrap();
        assert!(proof.contains("host;x-amz-date;x-amz-security-token"), "{proof}");
    }
}
