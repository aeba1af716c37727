//! Sends a story to one server and collects the answers.
//!
//! Watches are read in the background until the server ends them, so a story goes on during a watch; they
//! must carry `timeoutSeconds`. Those of [`LIVE`] are closed once the story is sent and no more events
//! come: the duration of its writes depends on the machine. All other requests are sent in order. [`tell`]
//! returns when all are sent, and [`Told::answers`] when all answers have come.

use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use http::{HeaderMap, Request as HttpRequest, header};
use http_body_util::BodyExt as _;
use kube::{Client, client::Body};
use serde_json::{Value, json};
use tokio::{sync::watch, task::JoinHandle};

use super::request::{Request, Story};

/// The answer to one request.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    pub code: u16,
    pub content_type: String,
    pub warnings: Vec<String>,
    pub body: Content,
}

/// The body of an answer.
#[derive(Debug, Clone, Default)]
pub enum Content {
    #[default]
    Nothing,
    Json(Value),
    /// The lines of a watch.
    Events(Vec<Value>),
    /// Anything else.
    Bytes(Bytes),
}

/// A story that was sent, some of whose answers may still be arriving.
pub struct Told {
    pending: Vec<Pending>,
    /// References to parts that an answer does not have, each with the number of its request.
    pub unanswered: Vec<(usize, String)>,
}

/// An answer, or the rest of one that is still arriving.
enum Pending {
    Done(Answer),
    Watching(Answer, JoinHandle<Bytes>),
}

/// A server that does not answer within this has failed the request.
const PATIENCE: Duration = Duration::from_mins(2);
/// The timeout of a watch that reads a story live: it is never reached.
pub const LIVE: &str = "timeoutSeconds=600";
/// All events of the writes have come when none came for so long: a stall of a busy machine is shorter.
const QUIET: Duration = Duration::from_secs(8);
/// Between two attempts of a patient request.
const PAUSE: Duration = Duration::from_millis(100);

/// Sends `story` in `namespace`, request by request.
pub async fn tell(client: &Client, story: &Story, namespace: &str) -> Told {
    let mut pending: Vec<Pending> = Vec::new();
    let mut unanswered = Vec::new();
    let (told, is_told) = watch::channel(false);
    for (step, request) in story.requests.iter().enumerate() {
        let mut filled = |text: &str| {
            fill(text, |name| {
                let part = referred(name, namespace, &pending);
                part.unwrap_or_else(|| {
                    unanswered.push((step, name.to_owned()));
                    String::new()
                })
            })
        };
        let request =
            Request { path: filled(&request.path), body: filled(&request.body), ..request.clone() };
        pending.push(ask(client, &request, &is_told).await);
    }
    told.send_replace(true);
    Told { pending, unanswered }
}

/// Replaces each `${...}` by its value.
fn fill(text: &str, mut referred: impl FnMut(&str) -> String) -> String {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        filled.push_str(before);
        let (name, after) = after.split_once('}').unwrap_or((after, ""));
        filled.push_str(&referred(name));
        rest = after;
    }
    filled.push_str(rest);
    filled
}

/// The value of a reference, if it exists.
fn referred(name: &str, namespace: &str, answers: &[Pending]) -> Option<String> {
    if name == "ns" {
        return Some(namespace.to_owned());
    }
    let (index, pointer) = name.split_at(name.find('/').unwrap_or(name.len()));
    let answer = index.parse().ok().and_then(|index: usize| answers.get(index));
    let Some(Pending::Done(Answer { body: Content::Json(body), .. })) = answer else {
        return None;
    };
    match body.pointer(pointer)? {
        Value::String(text) => Some(text.clone()),
        value => Some(value.to_string()),
    }
}

async fn ask(client: &Client, request: &Request, is_told: &watch::Receiver<bool>) -> Pending {
    let mut attempts_left = if request.is_patient { 600 } else { 1 };
    loop {
        attempts_left -= 1;
        let pending = tokio::time::timeout(PATIENCE, once(client, request, is_told)).await;
        let pending = pending.unwrap_or_else(|_| Pending::Done(Answer::default()));
        let is_good = matches!(&pending, Pending::Done(answer) if answer.code < 300);
        if is_good || attempts_left == 0 {
            return pending;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn once(client: &Client, request: &Request, is_told: &watch::Receiver<bool>) -> Pending {
    let mut builder = HttpRequest::builder().method(request.method).uri(&request.path);
    let headers =
        [(header::CONTENT_TYPE, &request.content_type), (header::ACCEPT, &request.accept)];
    for (name, value) in headers {
        if !value.is_empty() {
            builder = builder.header(name, value);
        }
    }
    // Managers of fields are named after the agent where a request names none.
    builder = builder.header(header::USER_AGENT, "conformance/1.0");
    let Ok(sent) = builder.body(Body::from(request.body.clone().into_bytes())) else {
        return Pending::Done(Answer::default());
    };
    let Ok(response) = client.send(sent).await else {
        return Pending::Done(Answer::default());
    };
    let (parts, body) = response.into_parts();
    let answer = Answer {
        code: parts.status.as_u16(),
        content_type: text(&parts.headers, &header::CONTENT_TYPE),
        warnings: warnings(&parts.headers),
        body: Content::Nothing,
    };
    if request.path.contains(LIVE) && parts.status.is_success() {
        return Pending::Watching(answer, tokio::spawn(live(body, is_told.clone())));
    }
    let whole =
        async { body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default() };
    if request.is_watch() && parts.status.is_success() {
        let read = async { tokio::time::timeout(PATIENCE, whole).await.unwrap_or_default() };
        return Pending::Watching(answer, tokio::spawn(read));
    }
    let body = content(whole.await);
    Pending::Done(Answer { body, ..answer })
}

/// The events of a watch until the story is sent, and after that until no more come.
async fn live(body: Body, mut is_told: watch::Receiver<bool>) -> Bytes {
    let (mut bytes, mut body) = (Vec::new(), std::pin::pin!(body));
    loop {
        let is_over = *is_told.borrow();
        let patience = if is_over { QUIET } else { PATIENCE };
        tokio::select! {
            biased;
            frame = body.frame() => match frame {
                Some(Ok(frame)) => bytes.extend(frame.into_data().unwrap_or_default()),
                _ => break,
            },
            Ok(()) = is_told.changed(), if !is_over => {}
            () = tokio::time::sleep(patience) => break,
        }
    }
    bytes.into()
}

fn content(bytes: Bytes) -> Content {
    if bytes.is_empty() {
        return Content::Nothing;
    }
    serde_json::from_slice(&bytes).map_or(Content::Bytes(bytes), Content::Json)
}

fn text(headers: &HeaderMap, name: &header::HeaderName) -> String {
    let value = headers.get(name).and_then(|value| value.to_str().ok());
    value.unwrap_or_default().to_owned()
}

fn warnings(headers: &HeaderMap) -> Vec<String> {
    let values = headers.get_all(header::WARNING).iter();
    values.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect()
}

// === impl Told ===

impl Told {
    /// All answers, once they have come.
    pub async fn answers(self) -> Vec<Answer> {
        join_all(self.pending.into_iter().map(Pending::finish)).await
    }
}

// === impl Pending ===

impl Pending {
    async fn finish(self) -> Answer {
        match self {
            Self::Done(answer) => answer,
            Self::Watching(answer, body) => {
                let bytes = body.await.unwrap_or_default();
                let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
                let events = lines.map(|line| {
                    serde_json::from_slice(line)
                        .unwrap_or_else(|_| String::from_utf8_lossy(line).into_owned().into())
                });
                Answer { body: Content::Events(events.collect()), ..answer }
            }
        }
    }
}

// === impl Answer ===

impl Answer {
    /// The code, and the message of a failure.
    pub fn summary(&self) -> Value {
        let Content::Json(body) = &self.body else { return json!({ "code": self.code }) };
        let part = |key: &str| body.get(key).filter(|_| body["kind"] == "Status").cloned();
        json!({ "code": self.code, "reason": part("reason"), "message": part("message") })
    }
}
