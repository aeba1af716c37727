//! A plain HTTP client of the sandbox's API, for tests that look at what goes over the wire.
//!
//! [`Api`] calls the service in the process, without a socket. Requests are built as for curl; a [`Reply`]
//! keeps code, headers and bytes. A [`Watch`] reads events one by one and can tell that there is none right
//! now, which takes no time: clocks are virtual.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, header};
use http_body_util::{BodyExt, Full};
use kube_sandbox::{
    Sandbox,
    http::{ApiService, ResponseBody},
    server::User,
};
use serde_json::{Value, json};
use tower::ServiceExt;

pub const JSON_PATCH: &str = "application/json-patch+json";
pub const MERGE_PATCH: &str = "application/merge-patch+json";
pub const STRATEGIC_PATCH: &str = "application/strategic-merge-patch+json";
pub const APPLY_PATCH: &str = "application/apply-patch+yaml";
pub const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// The API in the name of one user.
#[derive(Clone)]
pub struct Api(ApiService);

/// A request about to be sent.
pub struct Ask {
    service: ApiService,
    method: Method,
    path: String,
    headers: HeaderMap,
    body: Bytes,
}

/// An answer, read to its end.
#[derive(Debug, Clone)]
pub struct Reply {
    pub code: u16,
    pub headers: HeaderMap,
    pub bytes: Bytes,
}

/// A streamed answer.
pub struct Watch {
    pub code: u16,
    pub headers: HeaderMap,
    body: ResponseBody,
    buffer: Vec<u8>,
}

// === impl Api ===

impl Api {
    /// As an administrator.
    pub fn of(sandbox: &Sandbox) -> Self {
        Self(sandbox.service())
    }

    pub fn acting_as(sandbox: &Sandbox, user: User) -> Self {
        Self(sandbox.service_as(user))
    }

    pub fn ask(&self, method: Method, path: &str) -> Ask {
        Ask {
            service: self.0.clone(),
            method,
            path: path.to_owned(),
            headers: HeaderMap::new(),
            body: Bytes::new(),
        }
    }

    pub async fn get(&self, path: &str) -> Reply {
        self.ask(Method::GET, path).send().await
    }

    pub async fn post(&self, path: &str, body: Value) -> Reply {
        self.ask(Method::POST, path).json(&body).send().await
    }

    pub async fn put(&self, path: &str, body: Value) -> Reply {
        self.ask(Method::PUT, path).json(&body).send().await
    }

    pub async fn patch(&self, path: &str, media: &str, body: Value) -> Reply {
        self.ask(Method::PATCH, path).body(media, body.to_string()).send().await
    }

    /// Server-side apply by `manager`.
    pub async fn apply(&self, path: &str, manager: &str, body: Value) -> Reply {
        let sep = if path.contains('?') { '&' } else { '?' };
        let path = format!("{path}{sep}fieldManager={manager}");
        self.patch(&path, APPLY_PATCH, body).await
    }

    pub async fn delete(&self, path: &str) -> Reply {
        self.ask(Method::DELETE, path).send().await
    }

    pub async fn delete_with(&self, path: &str, options: Value) -> Reply {
        self.ask(Method::DELETE, path).json(&options).send().await
    }

    pub async fn watch(&self, path: &str) -> Watch {
        self.ask(Method::GET, path).watch().await
    }
}

// === impl Ask ===

impl Ask {
    #[must_use]
    pub fn header(mut self, name: &'static str, value: &str) -> Self {
        let value = HeaderValue::from_str(value).expect("a test's header is one");
        self.headers.append(name, value);
        self
    }

    #[must_use]
    pub fn accept(self, media: &str) -> Self {
        self.header("accept", media)
    }

    #[must_use]
    pub fn body(self, media: &str, body: impl Into<Bytes>) -> Self {
        let mut ask = self.header("content-type", media);
        ask.body = body.into();
        ask
    }

    #[must_use]
    pub fn json(self, body: &Value) -> Self {
        self.body("application/json", body.to_string())
    }

    pub async fn send(self) -> Reply {
        let Watch { code, headers, body, .. } = self.watch().await;
        let bytes = body.collect().await.expect("the answer has an end").to_bytes();
        Reply { code, headers, bytes }
    }

    pub async fn watch(self) -> Watch {
        let mut request = Request::builder().method(self.method).uri(self.path);
        if let Some(headers) = request.headers_mut() {
            *headers = self.headers;
        }
        let request = request.body(Full::new(self.body)).expect("a test's request is one");
        let response = self.service.oneshot(request).await.expect("the server answers");
        let (parts, body) = response.into_parts();
        Watch { code: parts.status.as_u16(), headers: parts.headers, body, buffer: Vec::new() }
    }
}

// === impl Reply ===

impl Reply {
    /// The body as JSON; null if it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or(Value::Null)
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    pub fn message(&self) -> String {
        self.json()["message"].as_str().unwrap_or_default().to_owned()
    }

    pub fn content_type(&self) -> &str {
        text(&self.headers, header::CONTENT_TYPE.as_str())
    }

    /// The texts of all warnings, without code and agent.
    pub fn warnings(&self) -> Vec<String> {
        let values = self.headers.get_all(header::WARNING).iter();
        let texts = values.filter_map(|value| value.to_str().ok());
        texts.map(|text| text.strip_prefix("299 - ").unwrap_or(text).to_owned()).collect()
    }

    /// The JSON, after the code was found to be `code`.
    #[track_caller]
    pub fn expect(self, code: u16) -> Value {
        assert_eq!(self.code, code, "{}", self.text());
        self.json()
    }

    /// The message, after code and reason were found to be these.
    #[track_caller]
    pub fn refused(self, code: u16, reason: &str) -> String {
        let status = self.json();
        let text = self.text();
        assert_eq!(self.code, code, "{text}");
        assert_eq!(status["reason"].as_str().unwrap_or_default(), reason, "{text}");
        assert_eq!(status["code"], code, "{text}");
        assert_eq!((&status["kind"], &status["status"]), (&json!("Status"), &json!("Failure")));
        self.message()
    }
}

// === impl Watch ===

impl Watch {
    /// The next event as JSON, waiting for it; `None` at the end.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(event) = self.buffered() {
                return Some(event);
            }
            let frame = self.body.frame().await?.ok()?;
            self.buffer.extend_from_slice(&frame.into_data().ok()?);
        }
    }

    /// The next event if there is one already.
    pub async fn ready(&mut self) -> Option<Value> {
        tokio::select! {
            biased;
            event = self.next() => event,
            () = std::future::ready(()) => None,
        }
    }

    /// The next frame, whether or not it is an event.
    pub async fn frame(&mut self) -> Option<Bytes> {
        self.body.frame().await?.ok()?.into_data().ok()
    }

    /// `ADDED a`, `MODIFIED a`, ... of all events that are ready now.
    pub async fn told(&mut self) -> Vec<String> {
        let mut told = Vec::new();
        while let Some(event) = self.ready().await {
            let name = event["object"]["metadata"]["name"].as_str().unwrap_or_default();
            let kind = event["type"].as_str().unwrap_or_default();
            told.push(format!("{kind} {name}").trim().to_owned());
        }
        told
    }

    fn buffered(&mut self) -> Option<Value> {
        let end = self.buffer.iter().position(|byte| *byte == b'\n')?;
        let line: Vec<u8> = self.buffer.drain(..=end).collect();
        serde_json::from_slice(&line).ok()
    }
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> &'h str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}
