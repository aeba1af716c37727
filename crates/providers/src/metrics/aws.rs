//! Amazon: the keys that are used, and the requests that are signed with them.
//!
//! ```text
//! keys in the Secret or the environment  -> used as they are
//! a token for a role (IRSA)              -> STS -> keys
//! a profile in the files of `aws`        -> keys, or a token for a role
//! an address for containers (ECS, EKS)   -> keys
//! the metadata of the instance           -> session -> name of the role -> keys
//! ```
//!
//! The order and the names of the variables are those of Amazon's own libraries. Signatures are
//! made by Amazon's own signer, in the operator, because of its dependencies: a call only says what
//! it is to be signed for, and with which keys.

mod profile;

use std::fmt;

use http::Method;
use jiff::Timestamp;
use serde_json::Value;
use zeroize::{Zeroize, ZeroizeOnDrop};

use super::{
    QueryError,
    query_machine::{Call, Reply},
    support::{self, Fingerprint},
};
use crate::request::{Request, sensitive};

/// The service and region that a call is to be signed for, by Amazon's Signature Version 4.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signing {
    /// The keys to sign with.
    pub keys: Keys,
    /// For which region.
    pub region: String,
    /// For which service.
    pub service: &'static str,
}

/// Keys to sign with. Prints as nothing, and leaves nothing in memory.
#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub struct Keys {
    /// Which key it is.
    pub id: String,
    /// The key.
    pub secret: String,
    /// The token of keys that expire.
    pub session: Option<String>,
}

/// Where keys come from. Prints as the kind of place.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Source {
    /// Nowhere.
    #[default]
    None,
    /// They are here.
    Keys(Keys),
    /// A role, for a token that names us.
    WebIdentity {
        /// The role.
        role: String,
        /// The token.
        token: String,
        /// Our name in it.
        session: String,
    },
    /// A server for containers.
    Container {
        /// Its address.
        address: String,
        /// The authorization that it expects.
        authorization: Option<String>,
    },
    /// The metadata of the instance we run on.
    Instance,
}

/// The state of obtaining keys.
pub(super) enum Progress {
    Ask(Box<Call>),
    Have { keys: Keys, used: usize, until: Option<Timestamp> },
}

/// Our name where a role needs one.
const SESSION_NAME: &str = "tidegate";

/// The metadata of an instance. Not a name: it cannot be pointed at another address.
const INSTANCE: &str = "http://169.254.169.254/latest";
/// The base of a container's relative address.
const CONTAINERS: &str = "http://169.254.170.2";
/// Longest name of a role.
const ROLE_MAX: usize = 128;

/// Whether a region is one: it becomes part of a host name.
pub(super) fn is_region(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=32).contains(&text.len()) && text.bytes().all(fits)
}

/// The address of a service in a region.
pub(super) fn endpoint(service: &str, region: &str) -> String {
    let suffix = if region.starts_with("cn-") { ".cn" } else { "" };
    format!("https://{service}.{region}.amazonaws.com{suffix}/")
}

// === impl Source ===

impl Source {
    /// Reads the environment, in the order of Amazon's own libraries. `variable` looks up a
    /// variable, `file` reads a file.
    pub fn from_environment(
        variable: impl Fn(&str) -> Option<String>,
        file: impl Fn(&str) -> Option<String>,
    ) -> Self {
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        let read = |name: &str| variable(name).and_then(|path| file(&path));
        if let (Some(id), Some(secret)) =
            (variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY"))
        {
            return Self::Keys(Keys { id, secret, session: variable("AWS_SESSION_TOKEN") });
        }
        if let (Some(role), Some(token)) =
            (variable("AWS_ROLE_ARN"), read("AWS_WEB_IDENTITY_TOKEN_FILE"))
        {
            let session = variable("AWS_ROLE_SESSION_NAME").unwrap_or_else(|| SESSION_NAME.into());
            return Self::WebIdentity { role, token: token.trim().to_owned(), session };
        }
        if let Some(source) = profile::source(variable, &file) {
            return source;
        }
        let relative = variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
        let address = relative
            .map(|path| format!("{CONTAINERS}{path}"))
            .or_else(|| variable("AWS_CONTAINER_CREDENTIALS_FULL_URI"));
        if let Some(address) = address {
            let authorization = read("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")
                .or_else(|| variable("AWS_CONTAINER_AUTHORIZATION_TOKEN"))
                .map(|token| token.trim().to_owned());
            return Self::Container { address, authorization };
        }
        let is_off = variable("AWS_EC2_METADATA_DISABLED").is_some_and(|v| v == "true");
        if is_off { Self::None } else { Self::Instance }
    }

    /// The keys, or the next request for them.
    pub(super) fn next(
        &self,
        region: &str,
        sts: Option<&str>,
        replies: &[Reply],
    ) -> Result<Progress, QueryError> {
        match (self, replies) {
            (Self::None, _) => Err(QueryError::Identity),
            (Self::Keys(keys), _) => {
                Ok(Progress::Have { keys: keys.clone(), used: 0, until: None })
            }
            (Self::WebIdentity { .. }, []) => {
                let call = self.assume_role(region, sts)?;
                Ok(Progress::Ask(Box::new(call)))
            }
            (Self::Container { address, authorization }, []) => {
                let mut request = Request::get(address).map_err(|_| QueryError::Identity)?;
                if let Some(token) = authorization {
                    let token = sensitive(token).ok_or(QueryError::Identity)?;
                    request.headers.insert(http::header::AUTHORIZATION, token);
                }
                Ok(Progress::Ask(Box::new(Call::of_node(request))))
            }
            (Self::Instance, replies) => instance(replies),
            (Self::WebIdentity { .. } | Self::Container { .. }, [reply, ..]) => have(reply, 1),
        }
    }

    /// Distinguishes it from others; nothing if no request is needed.
    pub(super) fn identity(&self, region: &str, sts: Option<&str>) -> Option<Fingerprint> {
        let sts = sts.unwrap_or_default();
        match self {
            Self::None | Self::Keys(_) => None,
            Self::WebIdentity { role, token, session } => {
                Some(support::fingerprint(&["aws role", role, token, session, region, sts]))
            }
            Self::Container { address, authorization } => {
                let authorization = authorization.as_deref().unwrap_or_default();
                Some(support::fingerprint(&["aws container", address, authorization]))
            }
            Self::Instance => Some(support::fingerprint(&["aws instance"])),
        }
    }

    fn assume_role(&self, region: &str, sts: Option<&str>) -> Result<Call, QueryError> {
        let Self::WebIdentity { role, token, session } = self else {
            return Err(QueryError::Identity);
        };
        let form = support::form(&[
            ("Action", "AssumeRoleWithWebIdentity"),
            ("Version", "2011-06-15"),
            ("RoleArn", role),
            ("RoleSessionName", session),
            ("WebIdentityToken", token),
        ]);
        let address = sts.map_or_else(|| endpoint("sts", region), str::to_owned);
        let mut request = Request::get(&address).map_err(|_| QueryError::Identity)?;
        request.method = Method::POST;
        request.body = form.into_bytes();
        support::put_type(&mut request, "application/x-www-form-urlencoded");
        let json = http::HeaderValue::from_static("application/json");
        request.headers.insert(http::header::ACCEPT, json);
        Ok(if sts.is_some() { Call::of_environment(request) } else { Call::known(request) })
    }
}

/// A session first: an instance may be set not to answer without one.
fn instance(replies: &[Reply]) -> Result<Progress, QueryError> {
    let ask = |path: &str, token: Option<&str>| {
        let mut request =
            Request::get(&format!("{INSTANCE}{path}")).map_err(|_| QueryError::Identity)?;
        if let Some(token) = token {
            let token = sensitive(token).ok_or(QueryError::Identity)?;
            request.headers.insert("x-aws-ec2-metadata-token", token);
        } else {
            request.method = Method::PUT;
            let seconds = http::HeaderValue::from_static("60");
            request.headers.insert("x-aws-ec2-metadata-token-ttl-seconds", seconds);
        }
        Ok(Progress::Ask(Box::new(Call::of_node(request))))
    };
    let roles = "/meta-data/iam/security-credentials/";
    match replies {
        [] => ask("/api/token", None),
        [session] => ask(roles, Some(text(session)?)),
        [session, role] => {
            let role = text(role)?.lines().next().unwrap_or_default();
            let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"+=,.@_-".contains(&byte);
            if !(1..=ROLE_MAX).contains(&role.len()) || !role.bytes().all(fits) {
                return Err(QueryError::Identity);
            }
            ask(&format!("{roles}{role}"), Some(text(session)?))
        }
        [_, _, keys, ..] => have(keys, 3),
    }
}

fn text(reply: &Reply) -> Result<&str, QueryError> {
    match reply.answer()? {
        (200, body) => std::str::from_utf8(body).map(str::trim).map_err(|_| QueryError::Identity),
        _ => Err(QueryError::Identity),
    }
}

/// The keys in an answer: of STS, nested and in JSON or XML; of the others, flat JSON.
fn have(reply: &Reply, used: usize) -> Result<Progress, QueryError> {
    let text = text(reply)?;
    let (keys, until) = if let Ok(answer) = serde_json::from_str::<Value>(text) {
        let nested = answer.pointer(
            "/AssumeRoleWithWebIdentityResponse/AssumeRoleWithWebIdentityResult/Credentials",
        );
        let found = nested.unwrap_or(&answer);
        (Keys::found(|name| found[name].as_str()), moment(&found["Expiration"]))
    } else {
        let until = element(text, "Expiration").map(Value::from).unwrap_or_default();
        (Keys::found(|name| element(text, name)), moment(&until))
    };
    keys.map(|keys| Progress::Have { keys, used, until }).ok_or(QueryError::Identity)
}

/// A date, or seconds since 1970: as the one or the other answers.
fn moment(value: &Value) -> Option<Timestamp> {
    match value {
        Value::String(text) => text.parse().ok(),
        #[expect(clippy::cast_possible_truncation, reason = "whole seconds are enough")]
        Value::Number(seconds) => Timestamp::from_second(seconds.as_f64()? as i64).ok(),
        _ => None,
    }
}

/// The text of an element that has no others in it.
fn element<'a>(xml: &'a str, name: &str) -> Option<&'a str> {
    let (_, inside) = xml.split_once(&format!("<{name}>"))?;
    inside.split_once(&format!("</{name}>")).map(|(text, _)| text.trim())
}

// === impl Keys ===

impl Keys {
    /// Whether headers can carry the parts of them that are sent.
    pub(super) fn can_be_sent(&self) -> bool {
        sensitive(&self.id).is_some()
            && self.session.as_deref().is_none_or(|session| sensitive(session).is_some())
    }

    fn found<'a>(get: impl Fn(&str) -> Option<&'a str>) -> Option<Self> {
        let owned = |name: &str| get(name).filter(|text| !text.is_empty()).map(str::to_owned);
        let session = owned("SessionToken").or_else(|| owned("Token"));
        Some(Self { id: owned("AccessKeyId")?, secret: owned("SecretAccessKey")?, session })
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Keys(_) => "Keys",
            Self::WebIdentity { .. } => "WebIdentity",
            Self::Container { .. } => "Container",
            Self::Instance => "Instance",
        })
    }
}

#[cfg(test)]
mod tests;
