//! Google: a token, from credentials in a file or from the node that we run on.
//!
//! | file | |
//! |---|---|
//! | `service_account` | its key signs a statement that is exchanged for a token |
//! | `authorized_user` | what `gcloud auth application-default login` leaves: exchanged as it is |
//! | others | refused by name |
//!
//! Without a file the metadata service of the node, which is also where workload identity lives, gives
//! a token out.

mod statement;

use std::fmt;

use http::{HeaderValue, Method};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::{
    QueryError,
    query_machine::{Call, Reply},
    support::{self, Fingerprint},
};
use crate::request::Request;

/// The operator's own Google credentials. Prints as nothing.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Environment {
    /// The contents of the file that `GOOGLE_APPLICATION_CREDENTIALS` names, or of the one that gcloud
    /// keeps.
    pub key: Option<String>,
    /// Host of the metadata service, if not the usual one.
    pub metadata_host: Option<String>,
    /// Where the monitoring API is, if not at the usual place.
    pub endpoint: Option<String>,
}

/// How a token is obtained: by one request.
pub(super) struct Source {
    call: Call,
    /// The identity of the token.
    pub(super) identity: Fingerprint,
    /// The project that pays for a person's requests.
    pub(super) quota_project: Option<String>,
}

/// Why credentials cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BadKey {
    /// They cannot be read.
    Unreadable,
    /// They are of an unknown type.
    Type(String),
}

/// A token, and until when it is good if that is known.
#[derive(PartialEq, Eq)]
pub(super) struct Token {
    pub(super) text: String,
    pub(super) until: Option<Timestamp>,
}

/// All that queries need.
const SCOPE: &str = "https://www.googleapis.com/auth/monitoring.read";
const TOKEN_ADDRESS: &str = "https://oauth2.googleapis.com/token";
const METADATA_HOST: &str = "metadata.google.internal";
const METADATA_PATH: &str = "/computeMetadata/v1/instance/service-accounts/default/token";
/// Longest key file. One has about 2.4 KiB.
const KEY_MAX: usize = 32 * 1024;
/// Longest lifetime of a token.
const LIFETIME_MAX_S: i64 = 24 * 3600;

// === impl Environment ===

impl Environment {
    /// Reads the environment, in the order of Google's own libraries.
    pub(super) fn from_environment(
        variable: impl Fn(&str) -> Option<String>,
        file: impl Fn(&str) -> Option<String>,
    ) -> Self {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let folder = set("CLOUDSDK_CONFIG")
            .or_else(|| set("HOME").map(|home| format!("{home}/.config/gcloud")));
        let usual =
            || folder.and_then(|it| file(&format!("{it}/application_default_credentials.json")));
        // A file that is named and missing is a mistake, and no reason to use another identity.
        let named = set("GOOGLE_APPLICATION_CREDENTIALS");
        let named = named.map(|path| file(&path).unwrap_or_default());
        Self {
            key: named.or_else(usual),
            metadata_host: set("GCE_METADATA_HOST"),
            endpoint: set("GOOGLE_CLOUD_MONITORING_ENDPOINT"),
        }
    }
}

// === impl Source ===

impl Source {
    /// With credentials, as their JSON file has them.
    pub(super) fn of_key(text: &str, now: Timestamp) -> Result<Self, BadKey> {
        if text.len() > KEY_MAX {
            return Err(BadKey::Unreadable);
        }
        let file: Value = serde_json::from_str(text).map_err(|_| BadKey::Unreadable)?;
        let member = |name: &str| file[name].as_str().filter(|text| !text.is_empty());
        let needed = |name: &str| member(name).ok_or(BadKey::Unreadable);
        let address = member("token_uri").unwrap_or(TOKEN_ADDRESS);
        // Keys without a type are older than the types.
        let (form, quota_project) = match member("type").unwrap_or("service_account") {
            "service_account" => {
                let signed = statement::Statement {
                    account: needed("client_email")?,
                    key_pem: needed("private_key")?,
                    key_id: member("private_key_id"),
                    scope: SCOPE,
                    audience: address,
                };
                let statement = signed.signed(now).ok_or(BadKey::Unreadable)?;
                let form = support::form(&[
                    ("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"),
                    ("assertion", &statement),
                ]);
                (form, None)
            }
            "authorized_user" => {
                let form = support::form(&[
                    ("grant_type", "refresh_token"),
                    ("client_id", needed("client_id")?),
                    ("client_secret", needed("client_secret")?),
                    ("refresh_token", needed("refresh_token")?),
                ]);
                (form, member("quota_project_id").map(str::to_owned))
            }
            other => return Err(BadKey::Type(crate::hook::excerpt(other.as_bytes()))),
        };
        let mut request = Request::get(address).map_err(|_| BadKey::Unreadable)?;
        request.method = Method::POST;
        request.body = form.into_bytes();
        support::put_type(&mut request, "application/x-www-form-urlencoded");
        let identity = support::fingerprint(&["google", text]);
        Ok(Self { call: Call::known(request), identity, quota_project })
    }

    /// From the metadata service.
    pub(super) fn of_metadata(host: Option<&str>) -> Result<Self, BadKey> {
        let host = host.unwrap_or(METADATA_HOST);
        let request = Request::get(&format!("http://{host}{METADATA_PATH}"));
        let mut request = request.map_err(|_| BadKey::Unreadable)?;
        request.headers.insert("metadata-flavor", HeaderValue::from_static("Google"));
        let identity = support::fingerprint(&["google metadata", host]);
        Ok(Self { call: Call::of_node(request), identity, quota_project: None })
    }

    /// The request for a token.
    pub(super) fn call(&self) -> Call {
        self.call.clone()
    }
}

/// The token in an answer.
pub(super) fn token(reply: &Reply, now: Timestamp) -> Result<Token, QueryError> {
    let (status, body) = reply.answer()?;
    if status != 200 {
        return Err(QueryError::Identity);
    }
    let answer: Value = serde_json::from_slice(body).map_err(|_| QueryError::Identity)?;
    let token = answer["access_token"].as_str().filter(|token| !token.is_empty());
    let text = token.map(str::to_owned).ok_or(QueryError::Identity)?;
    let lifetime = answer["expires_in"].as_i64().filter(|it| (1..=LIFETIME_MAX_S).contains(it));
    let until = lifetime.and_then(|it| now.checked_add(SignedDuration::from_secs(it)).ok());
    Ok(Token { text, until })
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests;
