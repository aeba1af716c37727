//! Authorisation of callers: signatures by a shared secret, and namespaces.
//!
//! A signed request has two headers. The signature covers the time and the path too, so that a body
//! can be replayed neither later nor elsewhere:
//!
//! ```text
//! X-Tidegate-Timestamp: 1767225600
//! X-Tidegate-Signature: sha256=<hex of HMAC-SHA256(secret, "1767225600\n/gate/open\n" + body)>
//! ```
//!
//! A change of a gate is carried out once: [`crate::gates`] remembers signatures.
//!
//! Secrets are files with one secret a line; any of them is valid, so they can be rotated without a
//! gap. They are read for each request: a file that a Secret is mounted as changes under us.

use std::{
    fmt::Write as _,
    io,
    path::{Path, PathBuf},
};

use http::HeaderMap;
use regex::Regex;
use ring::hmac;
use serde::{Deserialize, Serialize};

/// The checks that a caller has to pass.
#[derive(Debug, Default)]
pub struct Auth {
    /// For callers that may name any namespace.
    pub secret_file: Option<PathBuf>,
    /// A folder with a file for each namespace, named as it is.
    pub secret_dir: Option<PathBuf>,
    /// The whole name of a namespace must match this.
    pub namespaces: Option<Regex>,
}

/// Why a caller is refused. The texts reveal no more than a caller must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    #[error("the request is not signed")]
    Unsigned,
    #[error("the signature is too old, or from the future")]
    Stale,
    #[error("the signature is wrong")]
    Wrong,
    #[error("there is no secret to check the signature with")]
    NoSecret,
    #[error("Forbidden")]
    Namespace,
}

/// A request as it is signed.
#[derive(Clone, Copy, Debug)]
pub struct Signed<'a> {
    pub path: &'a str,
    pub body: &'a [u8],
}

/// The identity of a signed call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallSignature {
    /// When it was signed, by the caller's clock. Seconds since 1970.
    pub at: i64,
    /// The beginning of the signature, in hex.
    pub mark: String,
}

pub const TIMESTAMP: &str = "x-tidegate-timestamp";
pub const SIGNATURE: &str = "x-tidegate-signature";
/// Clocks of one cluster are closer than this, and a call takes less.
pub(crate) const AGE_MAX_S: u64 = 300;
/// No two calls have the same 128 bits.
const MARK_BYTES: usize = 16;
/// Secrets are short; a file that is not is some other file.
const SECRET_BYTES_MAX: u64 = 4096;

// === impl Auth ===

impl Auth {
    pub fn needs_signature(&self) -> bool {
        self.secret_file.is_some() || self.secret_dir.is_some()
    }

    /// Checks the signature and the namespace that is claimed. Without a namespace (the list of all gates)
    /// only the secret for all namespaces is accepted. Returns the signature where one is needed. Reads files.
    pub fn check(
        &self,
        headers: &HeaderMap,
        request: Signed<'_>,
        namespace: Option<&str>,
        now: i64,
    ) -> Result<Option<CallSignature>, AuthError> {
        let needed = self.needs_signature();
        let signature =
            needed.then(|| self.check_signature(headers, request, namespace, now)).transpose()?;
        let is_allowed =
            |namespace| self.namespaces.as_ref().is_none_or(|it| it.is_match(namespace));
        if namespace.is_none_or(is_allowed) { Ok(signature) } else { Err(AuthError::Namespace) }
    }

    fn check_signature(
        &self,
        headers: &HeaderMap,
        request: Signed<'_>,
        namespace: Option<&str>,
        now: i64,
    ) -> Result<CallSignature, AuthError> {
        let text = |name: &str| headers.get(name)?.to_str().ok();
        let (time, signature) = text(TIMESTAMP).zip(text(SIGNATURE)).ok_or(AuthError::Unsigned)?;
        let at: i64 = time.parse().map_err(|_| AuthError::Unsigned)?;
        if at.abs_diff(now) > AGE_MAX_S {
            return Err(AuthError::Stale);
        }
        let signature = signature.strip_prefix("sha256=").and_then(unhex);
        let signature = signature.ok_or(AuthError::Wrong)?;
        let message = message(time, request);
        let secrets = self.secrets(namespace);
        if secrets.is_empty() {
            return Err(AuthError::NoSecret);
        }
        let is_good = |secret: &String| {
            let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
            hmac::verify(&key, &message, &signature).is_ok()
        };
        if !secrets.iter().any(is_good) {
            return Err(AuthError::Wrong);
        }
        // Of the value: the same signature can be written in several ways.
        Ok(CallSignature { at, mark: hex(signature.iter().take(MARK_BYTES)) })
    }

    /// The valid secrets of a namespace.
    fn secrets(&self, namespace: Option<&str>) -> Vec<String> {
        let of_namespace = self.secret_dir.as_ref().zip(namespace.filter(|it| is_namespace(it)));
        let of_namespace = of_namespace.map(|(folder, namespace)| folder.join(namespace));
        let files = self.secret_file.iter().cloned().chain(of_namespace);
        files.flat_map(|file| read_secrets(&file).unwrap_or_default()).collect()
    }
}

/// The signature for a request, as the header has it.
pub fn sign(secret: &str, time: &str, request: Signed<'_>) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let tag = hmac::sign(&key, &message(time, request));
    format!("sha256={}", hex(tag.as_ref()))
}

/// The secrets of a file, one a line.
pub fn read_secrets(file: &Path) -> io::Result<Vec<String>> {
    if std::fs::metadata(file)?.len() > SECRET_BYTES_MAX {
        return Err(io::Error::other("the file is too long for secrets"));
    }
    let text = std::fs::read_to_string(file)?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    Ok(lines.map(str::to_owned).collect())
}

/// A pattern for whole names: `test` is not `not-test-2`.
pub fn whole(pattern: &str) -> Result<Regex, regex::Error> {
    regex::RegexBuilder::new(&format!("^(?:{pattern})$")).size_limit(1 << 20).build()
}

fn message(time: &str, Signed { path, body }: Signed<'_>) -> Vec<u8> {
    [time.as_bytes(), b"\n", path.as_bytes(), b"\n", body].concat()
}

/// A name that Kubernetes gives to namespaces, and so no path to somewhere else.
fn is_namespace(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&name.len()) && name.bytes().all(is_letter)
}

fn hex<'a>(bytes: impl IntoIterator<Item = &'a u8>) -> String {
    let mut text = String::new();
    for byte in bytes {
        // Writing to a string does not fail.
        let _infallible = write!(text, "{byte:02x}");
    }
    text
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let pairs = digits.chunks(2).map(|pair| std::str::from_utf8(pair).ok());
    pairs.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const NOW: i64 = 1_767_225_600;
    const REQUEST: Signed<'static> = Signed { path: "/gate/open", body: b"{}" };

    fn signed(secret: &str, time: i64, request: Signed<'_>) -> HeaderMap {
        let time = time.to_string();
        let mut headers = HeaderMap::new();
        headers.insert(TIMESTAMP, time.parse().unwrap());
        headers.insert(SIGNATURE, sign(secret, &time, request).parse().unwrap());
        headers
    }

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("auth-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn only_requests_that_are_signed_pass() {
        let folder = folder("signed");
        let file = folder.join("secret");
        fs::write(&file, "new\n\nold\n").unwrap();
        let auth = Auth { secret_file: Some(file.clone()), ..Auth::default() };
        let check = |headers, request| auth.check(&headers, request, Some("test"), NOW).map(|_| ());
        assert_eq!(check(signed("new", NOW, REQUEST), REQUEST), Ok(()));
        assert_eq!(check(signed("old", NOW - 299, REQUEST), REQUEST), Ok(()), "both secrets");
        assert_eq!(check(HeaderMap::new(), REQUEST), Err(AuthError::Unsigned));
        assert_eq!(check(signed("guess", NOW, REQUEST), REQUEST), Err(AuthError::Wrong));
        for time in [NOW - 301, NOW + 301, i64::MIN] {
            assert_eq!(check(signed("new", time, REQUEST), REQUEST), Err(AuthError::Stale));
        }
        let elsewhere = Signed { path: "/gate/check", ..REQUEST };
        let other_body = Signed { body: b"{ }", ..REQUEST };
        for request in [elsewhere, other_body] {
            assert_eq!(check(signed("new", NOW, request), REQUEST), Err(AuthError::Wrong));
        }
        for signature in ["", "sha256=", "sha256=0g", "sha256=é", "md5=00"] {
            let mut headers = signed("new", NOW, REQUEST);
            headers.insert(SIGNATURE, http::HeaderValue::from_bytes(signature.as_bytes()).unwrap());
            assert!(check(headers, REQUEST).is_err(), "{signature}");
        }
        fs::write(&file, "").unwrap();
        assert_eq!(check(signed("", NOW, REQUEST), REQUEST), Err(AuthError::NoSecret));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_namespace_is_claimed_with_its_own_secret() {
        let folder = folder("namespaces");
        fs::write(folder.join("red"), "r").unwrap();
        fs::write(folder.join("blue"), "b").unwrap();
        fs::write(folder.join("..data"), "d").unwrap();
        let auth = Auth { secret_dir: Some(folder.clone()), ..Auth::default() };
        let check = |secret, namespace| {
            auth.check(&signed(secret, NOW, REQUEST), REQUEST, namespace, NOW).map(|_| ())
        };
        assert_eq!(check("r", Some("red")), Ok(()));
        assert_eq!(check("r", Some("blue")), Err(AuthError::Wrong));
        assert_eq!(
            check("r", None),
            Err(AuthError::NoSecret),
            "a list of all belongs to no namespace"
        );
        for namespace in ["..data", "../red", "green", ""] {
            assert_eq!(check("d", Some(namespace)), Err(AuthError::NoSecret), "{namespace}");
        }
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn the_pattern_is_for_the_whole_name() {
        let auth = Auth { namespaces: Some(whole("test|dev-.*").unwrap()), ..Auth::default() };
        let check = |namespace| auth.check(&HeaderMap::new(), REQUEST, Some(namespace), NOW);
        for namespace in ["test", "dev-1"] {
            assert_eq!(check(namespace), Ok(None), "{namespace}");
        }
        for namespace in ["not-test-2", "test2", "", "a-dev-1", "test\nx"] {
            assert_eq!(check(namespace), Err(AuthError::Namespace), "{namespace:?}");
        }
        assert!(whole("(").is_err() && whole("a{99999}{9999}").is_err());
    }

    #[test]
    fn a_signature_is_the_same_however_it_is_written() {
        let folder = folder("written");
        let file = folder.join("secret");
        fs::write(&file, "new").unwrap();
        let auth = Auth { secret_file: Some(file), ..Auth::default() };
        let mut headers = signed("new", NOW, REQUEST);
        let first = auth.check(&headers, REQUEST, Some("test"), NOW).unwrap().unwrap();
        let shouted = headers[SIGNATURE].to_str().unwrap().to_uppercase();
        let shouted = shouted.replace("SHA256", "sha256");
        headers.insert(SIGNATURE, shouted.parse().unwrap());
        assert_eq!(auth.check(&headers, REQUEST, Some("test"), NOW).unwrap(), Some(first.clone()));
        assert_eq!((first.at, first.mark.len()), (NOW, 32));
        let later = signed("new", NOW + 1, REQUEST);
        let later = auth.check(&later, REQUEST, Some("test"), NOW).unwrap().unwrap();
        assert_ne!(first.mark, later.mark);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn the_signature_is_that_of_openssl() {
        // printf '1767225600\n/gate/open\n{}' | openssl dgst -sha256 -hmac secret
        let want = "sha256=dad5ec761d5b41708d9ba467cefcf574a29000f5cf698e5a595bd316fe09d4bf";
        assert_eq!(sign("secret", "1767225600", REQUEST), want);
    }
}
