//! Requests, and the stories they form.
//!
//! A [`Story`] is a list of requests, sent one after the other in a namespace of its own. A request may use
//! an earlier answer: `${3/metadata/uid}` is that part of the answer to the request number 3, and `${ns}`
//! is the story's namespace. [`StepRef`] writes such references, so that a table of requests need not
//! count.

use std::fmt::Display;

use serde_json::Value;

pub const JSON: &str = "application/json";
pub const MERGE: &str = "application/merge-patch+json";
pub const JSON_PATCH: &str = "application/json-patch+json";
pub const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub const APPLY: &str = "application/apply-patch+yaml";
pub const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
pub const PARTIAL: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
pub const PARTIAL_LIST: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
pub const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// One request, before its references are filled in.
#[derive(Debug, Clone)]
pub struct Request {
    /// Its subject, for the report.
    pub note: String,
    pub method: &'static str,
    /// With its query.
    pub path: String,
    pub content_type: String,
    pub accept: String,
    pub body: String,
    /// Repeat it until it succeeds: for requests that a server needs a moment to serve.
    pub is_patient: bool,
}

/// Requests in order, on objects of this story alone.
#[derive(Debug, Clone)]
pub struct Story {
    pub name: String,
    pub requests: Vec<Request>,
}

/// An earlier request of the same story.
#[derive(Debug, Clone, Copy)]
pub struct StepRef(usize);

// === impl Request ===

impl Request {
    pub fn new(method: &'static str, path: impl Into<String>) -> Self {
        Self {
            note: String::new(),
            method,
            path: path.into(),
            content_type: String::new(),
            accept: String::new(),
            body: String::new(),
            is_patient: false,
        }
    }

    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    #[must_use]
    pub fn json(self, body: &Value) -> Self {
        self.body(JSON, body.to_string())
    }

    #[must_use]
    pub fn body(mut self, content_type: &str, body: impl Into<String>) -> Self {
        content_type.clone_into(&mut self.content_type);
        self.body = body.into();
        self
    }

    #[must_use]
    pub fn accept(mut self, accept: &str) -> Self {
        accept.clone_into(&mut self.accept);
        self
    }

    #[must_use]
    pub fn patiently(mut self) -> Self {
        self.is_patient = true;
        self
    }

    /// Whether it is a dry run.
    pub fn is_rehearsal(&self) -> bool {
        self.path.contains("dryRun=") || self.body.contains("\"dryRun\"")
    }

    pub fn is_watch(&self) -> bool {
        self.path.contains("watch=true") || self.path.contains("watch=1")
    }
}

// === impl Story ===

impl Story {
    /// A story without a namespace.
    pub fn bare(name: impl Into<String>) -> Self {
        Self { name: name.into(), requests: Vec::new() }
    }

    /// A story whose first request creates its namespace.
    pub fn new(name: impl Into<String>) -> Self {
        let mut story = Self::bare(name);
        let namespace = serde_json::json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "${ns}" },
        });
        story.post("the namespace", "/api/v1/namespaces", &namespace);
        story
    }

    pub fn ask(&mut self, request: Request) -> StepRef {
        self.requests.push(request);
        StepRef(self.requests.len() - 1)
    }

    pub fn get(&mut self, note: &str, path: impl Into<String>) -> StepRef {
        self.ask(Request::new("GET", path).note(note))
    }

    pub fn post(&mut self, note: &str, path: impl Into<String>, body: &Value) -> StepRef {
        self.ask(Request::new("POST", path).note(note).json(body))
    }

    pub fn put(&mut self, note: &str, path: impl Into<String>, body: &Value) -> StepRef {
        self.ask(Request::new("PUT", path).note(note).json(body))
    }

    pub fn patch(
        &mut self,
        note: &str,
        path: impl Into<String>,
        media: &str,
        body: &Value,
    ) -> StepRef {
        self.ask(Request::new("PATCH", path).note(note).body(media, body.to_string()))
    }

    pub fn delete(&mut self, note: &str, path: impl Into<String>) -> StepRef {
        self.ask(Request::new("DELETE", path).note(note))
    }

    pub fn delete_with(&mut self, note: &str, path: impl Into<String>, options: &Value) -> StepRef {
        self.ask(Request::new("DELETE", path).note(note).json(options))
    }
}

// === impl StepRef ===

impl StepRef {
    /// A part of the answer, by JSON pointer.
    pub fn at(self, pointer: impl Display) -> String {
        format!("${{{}{pointer}}}", self.0)
    }

    pub fn version(self) -> String {
        self.at("/metadata/resourceVersion")
    }

    pub fn uid(self) -> String {
        self.at("/metadata/uid")
    }

    pub fn name(self) -> String {
        self.at("/metadata/name")
    }
}
