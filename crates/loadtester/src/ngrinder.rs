//! nGrinder: a performance test is cloned, started, and watched to its end.
//!
//! The password is in the metadata, and so in the Canary, in base64, as Flagger has it; or `passwdPath` names a
//! file with it in the folder that `-ngrinder-password-dir` allows, and it is sent to the servers that
//! `-ngrinder-servers` lists and to no others: callers name both.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs,
    future::Future,
    path::{Path, PathBuf},
    pin::pin,
    time::Duration,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Uri, header};
use serde_json::Value;
use tokio::time::{sleep, timeout};

use crate::{
    client::{Call, CallError, Client, Server},
    duration,
    files::confine,
};

/// A test to be cloned.
#[derive(Clone)]
pub struct Test {
    server: Server,
    pub clone: u64,
    authorization: HeaderValue,
    poll: Duration,
}

/// Passwords and servers that callers may use.
#[derive(Clone, Debug, Default)]
pub struct Allowed {
    pub password_dir: Option<PathBuf>,
    /// Origins that passwords of files may be sent to, as [`Server::origin`] has them.
    pub servers: BTreeSet<String>,
}

/// Why metadata names no test.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TestError {
    #[error("server, clone, username and passwd are required metadata")]
    Missing,
    #[error("the server is not one of those that -ngrinder-servers lists")]
    Server,
    #[error("passwdPath is not a file in the folder that -ngrinder-password-dir names")]
    Password,
    #[error("`{0}` in the metadata cannot be used")]
    Bad(&'static str),
}

/// Why a test did not end well.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    #[error("failed to start the test: {0}")]
    Start(CallError),
    #[error("the server did not start the test")]
    NotStarted,
    #[error("the test ended as {0}")]
    Ended(&'static str),
    #[error("the test was stopped")]
    Stopped,
}

/// Passwords are short.
const PASSWORD_BYTES_MAX: u64 = 4096;
/// As Flagger means it.
const POLL: Duration = Duration::from_secs(1);
/// A test runs for minutes: more often than this is a load test of nGrinder.
const POLL_MIN: Duration = Duration::from_millis(100);
/// For the request that stops a test whose time is over.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

// === impl Allowed ===

impl Allowed {
    fn password(&self, path: &Path) -> Option<String> {
        let file = confine(self.password_dir.as_deref()?, path).ok()??;
        let short = fs::metadata(&file).ok()?.len() <= PASSWORD_BYTES_MAX;
        fs::read_to_string(file).ok().filter(|text| short && !text.trim().is_empty())
    }
}

// === impl Test ===

impl Test {
    /// Reads the file with the password, if one is named.
    pub fn parse(
        metadata: &BTreeMap<String, String>,
        allowed: &Allowed,
    ) -> Result<Self, TestError> {
        let given = |key: &str| metadata.get(key).filter(|it| !it.is_empty());
        let of = |key: &str| given(key).ok_or(TestError::Missing);
        let (server, clone) = (of("server")?, of("clone")?);
        let username = of("username")?;
        let server = Server::parse(server).ok_or(TestError::Bad("server"))?;
        let clone = clone.parse().map_err(|_| TestError::Bad("clone"))?;
        let password = match given("passwdPath") {
            Some(path) if allowed.servers.contains(&server.origin()) => {
                allowed.password(Path::new(path)).ok_or(TestError::Password)?
            }
            Some(_) => return Err(TestError::Server),
            None => {
                let password = BASE64_STANDARD.decode(of("passwd")?.trim()).ok();
                let password = password.and_then(|it| String::from_utf8(it).ok());
                password.ok_or(TestError::Bad("passwd"))?
            }
        };
        let basic =
            BASE64_STANDARD.encode(format!("{username}:{}", password.trim_end_matches('\n')));
        let authorization = HeaderValue::from_str(&format!("Basic {basic}"));
        let mut authorization = authorization.map_err(|_| TestError::Bad("username"))?;
        authorization.set_sensitive(true);
        let poll = match metadata.get("pollInterval").filter(|it| !it.is_empty()) {
            Some(text) => duration::parse(text).map_err(|_| TestError::Bad("pollInterval"))?,
            None => POLL,
        };
        if poll.is_zero() {
            return Err(TestError::Bad("pollInterval"));
        }
        Ok(Self { server, clone, authorization, poll: poll.max(POLL_MIN) })
    }

    /// Runs the test to its end; stops it when `cancel` resolves.
    pub async fn run(
        &self,
        client: &Client,
        cancel: impl Future<Output = ()>,
    ) -> Result<(), RunError> {
        let mut cancel = pin!(cancel);
        let start = format!("perftest/api/{}/clone_and_start", self.clone);
        let start = self.call(client, Method::POST, &start);
        let started = tokio::select! {
            biased;
            () = cancel.as_mut() => return Err(RunError::Stopped),
            started = start => started.map_err(RunError::Start)?,
        };
        if started["success"] == Value::Bool(false) {
            return Err(RunError::NotStarted);
        }
        let id = started["id"].as_u64().ok_or(RunError::NotStarted)?;
        tokio::select! {
            biased;
            () = cancel.as_mut() => {
                let stop = format!("perftest/api/{id}?action=stop");
                // Nothing more can be done if the stop fails.
                let _best_effort =
                    timeout(STOP_TIMEOUT, self.call(client, Method::PUT, &stop)).await;
                Err(RunError::Stopped)
            }
            ended = self.watch(client, id) => ended,
        }
    }

    async fn watch(&self, client: &Client, id: u64) -> Result<(), RunError> {
        loop {
            sleep(self.poll).await;
            let path = format!("perftest/api/{id}/status");
            // As Flagger: a poll that failed is repeated.
            let Ok(answer) = self.call(client, Method::GET, &path).await else { continue };
            match answer["status"][0]["status_id"].as_str() {
                Some("FINISHED") => return Ok(()),
                Some("STOP_BY_ERROR") => return Err(RunError::Ended("STOP_BY_ERROR")),
                Some("CANCELED") => return Err(RunError::Ended("CANCELED")),
                Some("UNKNOWN") => return Err(RunError::Ended("UNKNOWN")),
                _ => {}
            }
        }
    }

    async fn call(&self, client: &Client, method: Method, path: &str) -> Result<Value, CallError> {
        let uri: Uri = self.server.beside(path)?;
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, self.authorization.clone());
        client.call(Call { method, uri, headers, body: Bytes::new() }).await
    }
}

impl fmt::Debug for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "nGrinder test {} of {}", self.clone, self.server.origin())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let usual = [
            ("server", "http://ngrinder:8080"),
            ("clone", "960"),
            ("username", "admin"),
            ("passwd", "YWRtaW4="),
        ];
        let all = usual.iter().chain(pairs).map(|(key, value)| ((*key).into(), (*value).into()));
        all.collect()
    }

    fn parse(pairs: &[(&str, &str)]) -> Result<Test, TestError> {
        Test::parse(&metadata(pairs), &Allowed::default())
    }

    #[test]
    fn a_password_may_be_a_file_in_the_folder_for_them() {
        let root = std::env::temp_dir().join(format!("ngrinder-{}", std::process::id()));
        let folder = root.join("passwords");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("admin"), "hidden\n").unwrap();
        fs::write(folder.join("empty"), "\n").unwrap();
        fs::write(root.join("token"), "of another user").unwrap();
        let servers = BTreeSet::from(["http://ngrinder:8080".to_owned()]);
        let allowed = Allowed { password_dir: Some(folder), servers };
        let parse = |pairs: &[(&str, &str)], allowed: &Allowed| {
            let pairs = [&[("passwd", "")], pairs].concat();
            Test::parse(&metadata(&pairs), allowed)
        };
        let test = parse(&[("passwdPath", "admin")], &allowed).unwrap();
        assert_eq!(test.authorization, "Basic YWRtaW46aGlkZGVu");
        assert!(test.authorization.is_sensitive());
        for path in ["../token", "empty", "none", "/etc/passwd"] {
            let refused = parse(&[("passwdPath", path)], &allowed).err();
            assert_eq!(refused, Some(TestError::Password), "{path}");
        }
        let elsewhere = [("passwdPath", "admin"), ("server", "http://evil")];
        assert_eq!(parse(&elsewhere, &allowed).err(), Some(TestError::Server));
        let off = parse(&[("passwdPath", "admin")], &Allowed::default()).err();
        assert_eq!(off, Some(TestError::Server), "off unless it is allowed");
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn metadata_is_checked() {
        let test = parse(&[]).unwrap();
        assert_eq!((test.clone, test.poll), (960, POLL));
        assert_eq!(test.authorization, "Basic YWRtaW46YWRtaW4=");
        let shown = format!("{test:?}");
        assert_eq!(shown, "nGrinder test 960 of http://ngrinder:8080");
        for key in ["server", "clone", "username", "passwd"] {
            let refused = parse(&[(key, "")]);
            assert_eq!(refused.err(), Some(TestError::Missing), "{key}");
        }
        for (key, value) in [("server", "x"), ("clone", "x"), ("clone", "-1"), ("passwd", "%")] {
            assert!(matches!(parse(&[(key, value)]), Err(TestError::Bad(_))));
        }
    }

    #[test]
    fn a_poll_interval_is_obeyed() {
        for (text, want) in [("5s", 5_000), ("10s", 10_000), ("1m", 60_000), ("1ns", 100)] {
            let test = parse(&[("pollInterval", text)]).unwrap();
            assert_eq!(test.poll, Duration::from_millis(want), "{text}");
        }
        for text in ["0s", "-5s", "5", "soon"] {
            let refused = parse(&[("pollInterval", text)]);
            assert_eq!(refused.err(), Some(TestError::Bad("pollInterval")), "{text}");
        }
    }
}
