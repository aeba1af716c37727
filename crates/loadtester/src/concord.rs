//! Concord: a process is started with arguments and watched to its end.
//!
//! The key for it is a file. Callers name the file and the server it is sent to, so both are bounded:
//! the file to one folder, the server to a list.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    fmt::Write as _,
    future::Future,
    path::{Path, PathBuf},
    pin::pin,
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, header};
use serde_json::Value;
use tokio::time::{sleep, timeout};

use crate::{
    client::{Call, CallError, Client, Server},
    files::confine,
};

/// A process to be started.
#[derive(Clone)]
pub struct Process {
    server: Server,
    key: HeaderValue,
    /// In the order in which they are sent.
    fields: Vec<(String, String)>,
    poll: Duration,
    /// From the start of the process; none is as long as the task may take.
    limit: Option<Duration>,
}

/// Keys and servers that callers may use.
#[derive(Clone, Debug, Default)]
pub struct Allowed {
    pub key_dir: Option<PathBuf>,
    /// Origins, as [`Server::origin`] has them.
    pub servers: BTreeSet<String>,
}

/// Why metadata names no process.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProcessError {
    #[error("`{0}` is required with type concord")]
    Missing(&'static str),
    #[error("`{0}` in the metadata cannot be used")]
    Bad(&'static str),
    #[error("`arguments.endpoint` is set by `endpoint`")]
    Endpoint,
    #[error("the server is not one of those that -concord-servers lists")]
    Server,
    #[error("the key is not a file in the folder that -concord-key-dir names")]
    Key,
}

/// Why a process did not end well.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    #[error("failed to start the process: {0}")]
    Start(CallError),
    #[error("the server did not say which process it started")]
    NotStarted,
    #[error("concord instanceID: {0} failed")]
    Failed(String),
    #[error("concord instanceID: {id} ended as {state}")]
    Ended { id: String, state: &'static str },
    #[error("concord process timed out, after {0} seconds")]
    TimedOut(u64),
    #[error("context timedout")]
    Cancelled,
}

/// As Flagger.
const POLL: Duration = Duration::from_secs(5);
/// Keys are short.
const KEY_BYTES_MAX: u64 = 4096;
/// Nothing that is sent contains this: it is checked.
const BOUNDARY: &str = "tidegate-8f14e45fceea167a5a36dedd4bea2543";
/// A day. More is a mistake.
const SECONDS_MAX: u64 = 24 * 3600;

// === impl Process ===

impl Process {
    /// Reads the key file.
    pub fn parse(
        metadata: &BTreeMap<String, String>,
        allowed: &Allowed,
    ) -> Result<Self, ProcessError> {
        let of = |key: &'static str| {
            let value = metadata.get(key).filter(|value| !value.is_empty());
            value.ok_or(ProcessError::Missing(key))
        };
        let mut fields = Vec::new();
        let server = of("server")?;
        for (key, field) in [("org", "org"), ("project", "project"), ("repo", "repo")] {
            fields.push((field.to_owned(), of(key)?.clone()));
        }
        fields.push(("entryPoint".to_owned(), of("entrypoint")?.clone()));
        let key_path = of("apiKeyPath")?;
        fields.push(("arguments.endpoint".to_owned(), of("endpoint")?.clone()));
        for (name, value) in metadata.iter().filter(|(name, _)| name.starts_with("arguments.")) {
            if name == "arguments.endpoint" {
                return Err(ProcessError::Endpoint);
            }
            if name.contains(['"', '\r', '\n']) {
                return Err(ProcessError::Bad("arguments"));
            }
            fields.push((name.clone(), value.clone()));
        }
        if fields.iter().any(|(name, value)| [name, value].iter().any(|it| it.contains(BOUNDARY))) {
            return Err(ProcessError::Bad("arguments"));
        }
        let poll = seconds(metadata, "pollInterval")?.unwrap_or(POLL);
        let limit = seconds(metadata, "pollTimeout")?;
        let server = Server::parse(server).ok_or(ProcessError::Bad("server"))?;
        if !allowed.servers.contains(&server.origin()) {
            return Err(ProcessError::Server);
        }
        let key = read_key(Path::new(key_path), allowed).ok_or(ProcessError::Key)?;
        Ok(Self { server, key, fields, poll, limit })
    }

    /// Runs the process to its end.
    pub async fn run(
        &self,
        client: &Client,
        cancel: impl Future<Output = ()>,
    ) -> Result<(), RunError> {
        let mut cancel = pin!(cancel);
        let limit = self.limit.unwrap_or(Duration::MAX);
        tokio::select! {
            biased;
            () = cancel.as_mut() => Err(RunError::Cancelled),
            ended = timeout(limit, self.poll_until_ended(client)) => {
                ended.unwrap_or(Err(RunError::TimedOut(limit.as_secs())))
            }
        }
    }

    async fn poll_until_ended(&self, client: &Client) -> Result<(), RunError> {
        let body = self.form();
        let started = self.call(client, Method::POST, "/api/v1/process", body).await;
        let started = started.map_err(RunError::Start)?;
        let id = started["instanceId"].as_str().filter(|id| is_id(id));
        let id = id.ok_or(RunError::NotStarted)?;
        loop {
            sleep(self.poll).await;
            let path = format!("/api/v1/process/{id}");
            // A poll that failed is repeated.
            let answer = self.call(client, Method::GET, &path, Bytes::new()).await;
            let Ok(answer) = answer else { continue };
            let ended = |state| Err(RunError::Ended { id: id.to_owned(), state });
            match answer["status"].as_str() {
                Some("FINISHED") => return Ok(()),
                Some("FAILED") => return Err(RunError::Failed(id.to_owned())),
                Some("CANCELLED") => return ended("CANCELLED"),
                Some("TIMED_OUT") => return ended("TIMED_OUT"),
                _ => {}
            }
        }
    }

    async fn call(
        &self,
        client: &Client,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Value, CallError> {
        let uri = self.server.at(path)?;
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, self.key.clone());
        if !body.is_empty() {
            let form = format!("multipart/form-data; boundary={BOUNDARY}");
            let form = HeaderValue::from_str(&form).map_err(|_| CallError::Address)?;
            headers.insert(header::CONTENT_TYPE, form);
        }
        client.call(Call { method, uri, headers, body }).await
    }

    fn form(&self) -> Bytes {
        let mut form = String::new();
        for (name, value) in &self.fields {
            // Writing to a string does not fail.
            let _infallible = write!(
                form,
                "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n"
            );
        }
        form.push_str("--");
        form.push_str(BOUNDARY);
        form.push_str("--\r\n");
        Bytes::from(form)
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Concord process of {}", self.server.origin())
    }
}

fn seconds(
    metadata: &BTreeMap<String, String>,
    key: &'static str,
) -> Result<Option<Duration>, ProcessError> {
    let Some(text) = metadata.get(key).filter(|text| !text.is_empty()) else { return Ok(None) };
    let seconds: Option<u64> = text.trim().parse().ok();
    let seconds = seconds.filter(|seconds| (1..=SECONDS_MAX).contains(seconds));
    seconds.map(|it| Some(Duration::from_secs(it))).ok_or(ProcessError::Bad(key))
}

/// The key, if the file may be read and holds one.
fn read_key(path: &Path, allowed: &Allowed) -> Option<HeaderValue> {
    let file = confine(allowed.key_dir.as_deref()?, path).ok()??;
    if std::fs::metadata(&file).ok()?.len() > KEY_BYTES_MAX {
        return None;
    }
    let key = std::fs::read_to_string(file).ok()?;
    let mut key = HeaderValue::from_str(key.trim()).ok().filter(|key| !key.is_empty())?;
    key.set_sensitive(true);
    Some(key)
}

/// True for text that cannot lead elsewhere in a path.
fn is_id(id: &str) -> bool {
    !id.is_empty()
        && id.len() <= 64
        && id.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'-')
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn metadata(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let usual = [
            ("server", "https://concord.test/ignored"),
            ("org", "o"),
            ("project", "p"),
            ("repo", "r"),
            ("entrypoint", "e"),
            ("apiKeyPath", "key"),
            ("endpoint", "http://app"),
        ];
        let all = usual.iter().chain(pairs).map(|(key, value)| ((*key).into(), (*value).into()));
        all.collect()
    }

    fn allowed(name: &str) -> Allowed {
        let folder = std::env::temp_dir().join(format!("concord-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("key"), "the-key\n").unwrap();
        let servers = ["https://concord.test:443".to_owned()].into();
        Allowed { key_dir: Some(folder), servers }
    }

    #[test]
    fn metadata_is_checked() {
        let allowed = allowed("checked");
        let process = Process::parse(&metadata(&[("arguments.x", "1")]), &allowed).unwrap();
        assert_eq!(process.key, "the-key", "without the end of the line");
        let names: Vec<_> = process.fields.iter().map(|(name, _)| name.as_str()).collect();
        let want = ["org", "project", "repo", "entryPoint", "arguments.endpoint", "arguments.x"];
        assert_eq!(names, want);
        assert_eq!((process.poll, process.limit), (POLL, None));
        for key in ["server", "org", "project", "repo", "entrypoint", "apiKeyPath", "endpoint"] {
            let refused = Process::parse(&metadata(&[(key, "")]), &allowed).unwrap_err();
            assert_eq!(refused.to_string(), format!("`{key}` is required with type concord"));
        }
        let taken = Process::parse(&metadata(&[("arguments.endpoint", "x")]), &allowed);
        assert_eq!(taken.unwrap_err(), ProcessError::Endpoint);
        let split = Process::parse(&metadata(&[("arguments.a\"\r\nb", "x")]), &allowed);
        assert_eq!(split.unwrap_err(), ProcessError::Bad("arguments"));
        let ended = Process::parse(&metadata(&[("org", BOUNDARY)]), &allowed);
        assert_eq!(ended.unwrap_err(), ProcessError::Bad("arguments"));
        fs::remove_dir_all(allowed.key_dir.unwrap()).unwrap();
    }

    #[test]
    fn numbers_are_checked() {
        let allowed = allowed("numbers");
        for key in ["pollInterval", "pollTimeout"] {
            for value in ["0", "-1", "x", "999999999999"] {
                let refused = Process::parse(&metadata(&[(key, value)]), &allowed);
                assert_eq!(refused.unwrap_err(), ProcessError::Bad(key), "{key}: {value}");
            }
        }
        let process = Process::parse(&metadata(&[("pollTimeout", "30")]), &allowed).unwrap();
        assert_eq!(process.limit, Some(Duration::from_secs(30)));
        fs::remove_dir_all(allowed.key_dir.unwrap()).unwrap();
    }

    #[test]
    fn keys_and_servers_are_confined() {
        let allowed = allowed("confined");
        for path in ["/etc/passwd", "../../etc/passwd", "/proc/self/environ", "none"] {
            let refused = Process::parse(&metadata(&[("apiKeyPath", path)]), &allowed);
            assert_eq!(refused.unwrap_err(), ProcessError::Key, "{path}");
        }
        for server in ["https://evil.test", "http://concord.test", "https://concord.test:444"] {
            let refused = Process::parse(&metadata(&[("server", server)]), &allowed);
            assert_eq!(refused.unwrap_err(), ProcessError::Server, "{server}");
        }
        let nothing = Allowed::default();
        assert_eq!(Process::parse(&metadata(&[]), &nothing).unwrap_err(), ProcessError::Server);
        fs::remove_dir_all(allowed.key_dir.unwrap()).unwrap();
    }
}
