//! Signatures of calls, so that a hook can verify the caller, the time and the purpose.
//!
//! ```text
//! X-Tidegate-Timestamp: 1767225600
//! X-Tidegate-Signature: sha256=<hex of HMAC-SHA256(secret, "1767225600\n/gate/check\n" + body)>
//! ```
//!
//! Time and path are signed too: a body is good neither for ever nor for another purpose.

use std::fmt::Write as _;

use http::{HeaderMap, HeaderValue, header::HeaderName};
use jiff::Timestamp;
use ring::hmac;

/// When a call was signed, in seconds since 1970.
pub const TIMESTAMP: HeaderName = HeaderName::from_static("x-tidegate-timestamp");
/// The signature.
pub const SIGNATURE: HeaderName = HeaderName::from_static("x-tidegate-signature");

/// Adds a signature to the headers of a call, in place of any that is there.
pub fn sign(headers: &mut HeaderMap, secret: &str, now: Timestamp, path: &str, body: &[u8]) {
    let time = now.as_second().to_string();
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let message = [time.as_bytes(), b"\n", path.as_bytes(), b"\n", body].concat();
    let mut signature = "sha256=".to_owned();
    for byte in hmac::sign(&key, &message).as_ref() {
        // Writing into a text cannot fail.
        let _ = write!(signature, "{byte:02x}");
    }
    for (name, value) in [(TIMESTAMP, time), (SIGNATURE, signature)] {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(name, value);
        }
    }
}

/// The secret to sign with, of a text with one on each line: the first. The others are for
/// verifying signatures while a secret is replaced.
pub fn first_secret(text: &str) -> Option<&str> {
    text.lines().map(str::trim).find(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_what_openssl_would_make() {
        let mut headers = HeaderMap::new();
        headers.insert(SIGNATURE, HeaderValue::from_static("sha256=00"));
        let now = Timestamp::from_second(1_767_225_600).unwrap();
        sign(&mut headers, "secret", now, "/gate/open", b"{}");
        assert_eq!(headers[TIMESTAMP], "1767225600");
        // printf '1767225600\n/gate/open\n{}' | openssl dgst -sha256 -hmac secret
        let want = "sha256=dad5ec761d5b41708d9ba467cefcf574a29000f5cf698e5a595bd316fe09d4bf";
        assert_eq!(headers[SIGNATURE], want);
        assert_eq!(headers.get_all(SIGNATURE).iter().count(), 1, "a user's own is replaced");
    }

    #[test]
    fn the_first_secret_signs() {
        assert_eq!(first_secret("\n new \nold\n"), Some("new"));
        assert_eq!(first_secret(" \n\n"), None);
    }
}
