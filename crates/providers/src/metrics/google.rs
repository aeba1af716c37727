//! Google: a token, for the key of a service account or for where we run.
//!
//! A key signs a statement that is exchanged for a token; without a key the metadata service of the
//! node, which is also where workload identity lives, gives one out.

use std::fmt;

use http::{HeaderValue, Method};
use jiff::Timestamp;
use ring::{
    rand::SystemRandom,
    signature::{RSA_PKCS1_SHA256, RsaKeyPair},
};
use serde_json::{Value, json};

use super::{
    QueryError,
    inquiry::{Call, Reply},
    support,
};
use crate::{base64, request::Request};

/// What the operator's surroundings say. Prints as nothing.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// The contents of the file that `GOOGLE_APPLICATION_CREDENTIALS` names.
    pub key: Option<String>,
    /// Host of the metadata service, if not the usual one.
    pub metadata_host: Option<String>,
    /// Where the monitoring API is, if not at the usual place.
    pub endpoint: Option<String>,
}

/// How a token is had: by one request.
pub(super) struct Source(Call);

/// A key that is of no use.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BadKey;

/// All that queries need.
const SCOPE: &str = "https://www.googleapis.com/auth/monitoring.read";
const TOKEN_ADDRESS: &str = "https://oauth2.googleapis.com/token";
const METADATA_HOST: &str = "metadata.google.internal";
const METADATA_PATH: &str = "/computeMetadata/v1/instance/service-accounts/default/token";
/// How long the statement is good for; the most that is allowed.
const LIFETIME_S: i64 = 3600;
/// Longest key file. One has about 2.4 KiB.
const KEY_MAX: usize = 32 * 1024;

// === impl Source ===

impl Source {
    /// With the key of a service account, as its JSON file has it.
    pub(super) fn of_key(file: &str, now: Timestamp) -> Result<Self, BadKey> {
        if file.len() > KEY_MAX {
            return Err(BadKey);
        }
        let file: Value = serde_json::from_str(file).map_err(|_| BadKey)?;
        let text = |name: &str| file[name].as_str().filter(|text| !text.is_empty());
        let account = text("client_email").ok_or(BadKey)?;
        let key = text("private_key").and_then(private_key).ok_or(BadKey)?;
        let address = text("token_uri").unwrap_or(TOKEN_ADDRESS);

        let mut head = json!({ "alg": "RS256", "typ": "JWT" });
        if let Some(id) = text("private_key_id") {
            head["kid"] = id.into();
        }
        let from = now.as_second();
        let claims = json!({
            "iss": account,
            "scope": SCOPE,
            "aud": address,
            "iat": from,
            "exp": from.saturating_add(LIFETIME_S),
        });
        let part = |value: &Value| url_safe(value.to_string().as_bytes());
        let statement = format!("{}.{}", part(&head), part(&claims));
        let signature = signed(&key, &statement).ok_or(BadKey)?;
        let form = support::form(&[
            ("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"),
            ("assertion", &format!("{statement}.{signature}")),
        ]);
        let mut request = Request::get(address).map_err(|_| BadKey)?;
        request.method = Method::POST;
        request.body = form.into_bytes();
        support::put_type(&mut request, "application/x-www-form-urlencoded");
        Ok(Self(Call::known(request)))
    }

    /// From the metadata service.
    pub(super) fn of_metadata(host: Option<&str>) -> Result<Self, BadKey> {
        let host = host.unwrap_or(METADATA_HOST);
        let mut request =
            Request::get(&format!("http://{host}{METADATA_PATH}")).map_err(|_| BadKey)?;
        request.headers.insert("metadata-flavor", HeaderValue::from_static("Google"));
        Ok(Self(Call::ambient(request)))
    }

    /// The request for a token.
    pub(super) fn call(&self) -> Call {
        self.0.clone()
    }
}

/// The token in an answer.
pub(super) fn token(reply: &Reply) -> Result<String, QueryError> {
    let (status, body) = reply.answer()?;
    if status != 200 {
        return Err(QueryError::Identity);
    }
    let answer: Value = serde_json::from_slice(body).map_err(|_| QueryError::Identity)?;
    let token = answer["access_token"].as_str().filter(|token| !token.is_empty());
    token.map(str::to_owned).ok_or(QueryError::Identity)
}

/// A key in PEM, in either of the two forms there are.
fn private_key(pem: &str) -> Option<RsaKeyPair> {
    let lines = pem.lines().map(str::trim);
    let body: String = lines.filter(|line| !line.starts_with("-----")).collect();
    let bytes = base64::decode(&body)?;
    RsaKeyPair::from_pkcs8(&bytes).or_else(|_| RsaKeyPair::from_der(&bytes)).ok()
}

/// The signature of a text. It depends on nothing but the two: what is random in making it only
/// hides the key from whoever measures time.
fn signed(key: &RsaKeyPair, text: &str) -> Option<String> {
    let mut signature = vec![0; key.public().modulus_len()];
    key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature).ok()?;
    Some(url_safe(&signature))
}

fn url_safe(bytes: &[u8]) -> String {
    base64::encode(bytes).replace('+', "-").replace('/', "_").trim_end_matches('=').to_owned()
}

impl fmt::Debug for Surroundings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests;
