//! Writes, each with a precondition, and none without leadership.
//!
//! Fields we own are applied by the server under one field manager. Where a subtree must be exactly ours and another
//! manager owns fields in it, which an apply leaves alone, it is replaced after the apply. The answer of the server
//! goes into the cache at once, unless it shows that the server went back ([`super::rewind`]).

use std::{borrow::Cow, time::Duration};

use http::{Method, Request, header};
use serde_json::{Value, json};
use tidegate_providers::object::{Change, Kind};
use tracing::{debug, trace, warn};

use super::{Cluster, cache::Key, rewind::is_older, schema};

/// The one name under which we write.
pub use tidegate_providers::object::FIELD_MANAGER;

/// Longest time for one request.
const REQUEST_MAX: Duration = Duration::from_secs(30);
const APPLY: &str = "application/apply-patch+yaml";
/// The message of the admission plugin `OwnerReferencesPermissionEnforcement` when a client that may not delete an
/// object changes its owners.
const NOT_TO_OWN: &str = "cannot set an ownerRef on a resource you can't delete";
/// The API server's message when an operation of a JSON patch fails, for example a `test`. It has no more detail.
const NOT_APPLICABLE: &str = "the server rejected our request due to an error in our request";

/// Why a write did not happen, or may not have.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// Another client wrote first: observe and decide again.
    #[error("{what} was changed by another client")]
    Conflict { what: String },
    /// Another operator leads now.
    #[error("not the leader any more")]
    NotLeading,
    /// The loop of the object is to stop: the operator ends, or begins anew.
    #[error("the operator is stopping")]
    Stopped,
    /// The object does not exist.
    #[error("{what} does not exist")]
    Missing { what: String },
    /// The server rejects the write; a retry would not help.
    #[error("{what} was refused: {why}")]
    Refused { what: String, why: String },
    /// The server did not answer, or not now. The write may have happened.
    #[error("{what} could not be written: {why}")]
    Unavailable { what: String, why: String },
}

impl Cluster {
    /// Carries out one change in a namespace.
    pub async fn write_change(&self, namespace: &str, change: &Change) -> Result<(), WriteError> {
        match change {
            Change::Apply { body, exact } => self.apply(namespace, body, exact).await,
            Change::Merge { kind, name, patch } => {
                let place = Place { kind: *kind, namespace, name, subresource: "" };
                self.merge(place, patch).await.map(|_| ())
            }
            Change::Delete { kind, name, uid } => {
                let place = Place { kind: *kind, namespace, name, subresource: "" };
                self.delete_and_forget(place, uid).await
            }
        }
    }

    async fn apply(
        &self,
        namespace: &str,
        body: &Value,
        exact: &[Cow<'static, str>],
    ) -> Result<(), WriteError> {
        let kind = self.kind_of(body)?;
        let name = body["metadata"]["name"].as_str().unwrap_or_default();
        let place = Place { kind, namespace, name, subresource: "" };
        let mut body = Cow::Borrowed(body);
        let written = match self.patch(place, APPLY, &body).await {
            Err(WriteError::Refused { why, .. }) if why.contains(NOT_TO_OWN) => {
                body = Cow::Owned(self.with_present_owners(place, &body).await?);
                self.patch(place, APPLY, &body).await?
            }
            Err(error) if schema::is_about_fields(&error) && self.reload_schema(kind).await => {
                // The definition changed: the same decision is another write now.
                return Err(WriteError::Conflict {
                    what: format!("the definition of {}", kind.kind),
                });
            }
            written => written?,
        };
        let foreign: Vec<&str> = exact
            .iter()
            .map(Cow::as_ref)
            .filter(|path| !is_same(written.pointer(path), body.pointer(path)))
            .collect();
        if foreign.is_empty() {
            return Ok(());
        }
        debug!(object = %place, paths = ?foreign, "Another manager owns fields of this object; they are replaced");
        let mut operations = vec![json!({ "op": "test", "path": "/metadata/resourceVersion",
                         "value": written["metadata"]["resourceVersion"] })];
        for path in foreign {
            operations.push(match body.pointer(path).filter(|value| !is_empty(value)) {
                Some(value) => json!({ "op": "add", "path": path, "value": value }),
                None => json!({ "op": "remove", "path": path }),
            });
        }
        self.json_patch(place, &Value::Array(operations)).await.map(|_| ())
    }

    /// The body with the owners that the object has. Our role may not delete workloads, and some clusters ask for that
    /// before owners are changed: an object with other owners than ours is kept up to date all the same.
    async fn with_present_owners(
        &self,
        place: Place<'_>,
        body: &Value,
    ) -> Result<Value, WriteError> {
        warn!(object = %place, "The owner references are kept: changing them needs the right to delete the object");
        let live = self.read(place).await?;
        let mut live = live.ok_or_else(|| WriteError::Missing { what: place.to_string() })?;
        let mut body = body.clone();
        if let Some(metadata) = body["metadata"].as_object_mut() {
            // Repeated and not left out: a field that is left out of an apply is removed.
            let owners = live["metadata"]["ownerReferences"].take();
            if owners.is_null() {
                metadata.remove("ownerReferences");
            } else {
                metadata.insert("ownerReferences".to_owned(), owners);
            }
        }
        Ok(body)
    }

    /// A JSON merge patch.
    pub async fn merge(&self, place: Place<'_>, patch: &Value) -> Result<Value, WriteError> {
        self.patch(place, "application/merge-patch+json", patch).await
    }

    /// A JSON patch. A `test` that fails is a conflict: the object is not what the patch is based on.
    pub async fn json_patch(&self, place: Place<'_>, patch: &Value) -> Result<Value, WriteError> {
        match self.patch(place, "application/json-patch+json", patch).await {
            Err(WriteError::Refused { what, why }) if why == NOT_APPLICABLE => {
                Err(WriteError::Conflict { what })
            }
            outcome => outcome,
        }
    }

    /// A strategic merge patch, for kinds that are built into the API server.
    pub async fn strategic(&self, place: Place<'_>, patch: &Value) -> Result<Value, WriteError> {
        self.patch(place, "application/strategic-merge-patch+json", patch).await
    }

    async fn patch(
        &self,
        place: Place<'_>,
        media: &'static str,
        body: &Value,
    ) -> Result<Value, WriteError> {
        let force = if media.starts_with("application/apply") { "&force=true" } else { "" };
        let path = format!("{}?fieldManager={FIELD_MANAGER}{force}", place.path());
        let request = Request::builder()
            .method(Method::PATCH)
            .uri(path)
            .header(header::CONTENT_TYPE, media)
            .body(body.to_string().into_bytes());
        let known = self.known_version(place);
        let written = self.send(place, request).await?;
        self.check_version(place, known.as_deref(), &written)?;
        if is_gone(&written) {
            // The watch may have reported the deletion already: inserted, it would stay for ever.
            let uid = written["metadata"]["uid"].as_str().unwrap_or_default();
            self.cache.tombstone(place.kind, &place.key(), uid);
        } else {
            self.cache.cache_insert(place.kind, written.clone());
        }
        Ok(written)
    }

    /// Creates an object under a name that the server generates. The cache does not get it.
    pub async fn create(&self, place: Place<'_>, body: &Value) -> Result<Value, WriteError> {
        let path = format!("{}?fieldManager={FIELD_MANAGER}", place.collection());
        let request = Request::builder()
            .method(Method::POST)
            .uri(path)
            .header(header::CONTENT_TYPE, "application/json")
            .body(body.to_string().into_bytes());
        self.send(place, request).await
    }

    /// Creates an object under a name of ours, and puts the answer into the cache.
    pub async fn create_named(&self, place: Place<'_>, body: &Value) -> Result<Value, WriteError> {
        let created = self.create(place, body).await?;
        self.cache.cache_insert(place.kind, created.clone());
        Ok(created)
    }

    /// Deletes the object with this UID. It stays in the cache while a finalizer or its grace period keeps it.
    pub async fn delete(
        &self,
        place: Place<'_>,
        uid: &str,
        grace_s: Option<u32>,
    ) -> Result<(), WriteError> {
        match self.send(place, deletion(place, uid, grace_s)).await {
            Ok(left) if is_leaving(&left) => self.cache.cache_insert(place.kind, left),
            Ok(_) | Err(WriteError::Missing { .. }) => {
                self.cache.tombstone(place.kind, &place.key(), uid);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Reads all objects of a kind with these labels from the server, past the cache.
    pub async fn read_all(
        &self,
        kind: Kind,
        namespace: &str,
        selector: &str,
    ) -> Result<Vec<Value>, WriteError> {
        self.read_labelled(kind, namespace, selector, "").await
    }

    /// The first of them by name, `most` at most.
    pub async fn read_first(
        &self,
        kind: Kind,
        namespace: &str,
        selector: &str,
        most: u32,
    ) -> Result<Vec<Value>, WriteError> {
        self.read_labelled(kind, namespace, selector, &format!("&limit={most}")).await
    }

    async fn read_labelled(
        &self,
        kind: Kind,
        namespace: &str,
        selector: &str,
        more: &str,
    ) -> Result<Vec<Value>, WriteError> {
        let place = Place { kind, namespace, name: "", subresource: "" };
        let selector =
            percent_encoding::utf8_percent_encode(selector, percent_encoding::NON_ALPHANUMERIC);
        let path = format!("{}?labelSelector={selector}{more}", place.collection());
        let request = Request::builder().method(Method::GET).uri(path).body(Vec::new());
        let mut list = self.request(place, request).await?;
        let items = list["items"].as_array_mut().map(std::mem::take).unwrap_or_default();
        Ok(items)
    }

    /// As [`Self::delete`], but the cache drops the object at once, even if a finalizer keeps it for a while.
    async fn delete_and_forget(&self, place: Place<'_>, uid: &str) -> Result<(), WriteError> {
        match self.send(place, deletion(place, uid, None)).await {
            Ok(_) | Err(WriteError::Missing { .. }) => {
                self.cache.cache_remove(place.kind, &place.key());
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Reads an object from the server, past the cache.
    pub async fn read(&self, place: Place<'_>) -> Result<Option<Value>, WriteError> {
        let request = Request::builder().method(Method::GET).uri(place.path()).body(Vec::new());
        let known = self.known_version(place);
        match self.request(place, request).await {
            Ok(object) => {
                self.check_version(place, known.as_deref(), &object)?;
                Ok(Some(object))
            }
            Err(WriteError::Missing { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads the object once more after a conflict, so that the next decision sees its present state.
    pub async fn refresh(&self, place: Place<'_>) -> Result<(), WriteError> {
        match self.read(place).await? {
            Some(object) => self.cache.cache_insert(place.kind, object),
            None => self.cache.cache_remove(place.kind, &place.key()),
        }
        Ok(())
    }

    fn known_version(&self, place: Place<'_>) -> Option<String> {
        self.cache.version(place.kind, &place.key())
    }

    /// An answer that is older than the object was before the request is of a server that went back.
    fn check_version(
        &self,
        place: Place<'_>,
        known: Option<&str>,
        answer: &Value,
    ) -> Result<(), WriteError> {
        let version = answer["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        if known.is_some_and(|known| is_older(version, known)) {
            self.went_back(&format!("{place} is older than it was"));
            return Err(WriteError::Stopped);
        }
        Ok(())
    }

    async fn send(
        &self,
        place: Place<'_>,
        request: http::Result<Request<Vec<u8>>>,
    ) -> Result<Value, WriteError> {
        if !self.leads() {
            return Err(WriteError::NotLeading);
        }
        if self.is_behind() {
            return Err(WriteError::Stopped);
        }
        self.request(place, request).await
    }

    async fn request(
        &self,
        place: Place<'_>,
        request: http::Result<Request<Vec<u8>>>,
    ) -> Result<Value, WriteError> {
        let what = place.to_string();
        let request = request
            .map_err(|error| WriteError::Refused { what: what.clone(), why: error.to_string() })?;
        trace!(object = %what, method = %request.method(), "Request");
        let client = self.client_for(place.kind);
        let answer = tokio::time::timeout(REQUEST_MAX, client.request::<Value>(request)).await;
        match answer {
            Ok(Ok(object)) => Ok(object),
            Ok(Err(error)) => Err(write_error(what, error)),
            Err(_) => Err(WriteError::Unavailable { what, why: "no answer in time".to_owned() }),
        }
    }

    fn kind_of(&self, body: &Value) -> Result<Kind, WriteError> {
        let api_version = body["apiVersion"].as_str().unwrap_or_default();
        let kind = body["kind"].as_str().unwrap_or_default();
        let known = self.kinds.iter().copied();
        known
            .into_iter()
            .find(|known| known.kind == kind && known.api_version() == api_version)
            .ok_or_else(|| WriteError::Refused {
                what: format!("{kind} of {api_version}"),
                why: "this kind is not known here".to_owned(),
            })
    }
}

fn deletion(place: Place<'_>, uid: &str, grace_s: Option<u32>) -> http::Result<Request<Vec<u8>>> {
    let mut options = json!({
        "apiVersion": "v1", "kind": "DeleteOptions",
        "propagationPolicy": "Background", "preconditions": { "uid": uid },
    });
    if let Some(grace) = grace_s {
        options["gracePeriodSeconds"] = grace.into();
    }
    Request::builder()
        .method(Method::DELETE)
        .uri(place.path())
        .header(header::CONTENT_TYPE, "application/json")
        .body(options.to_string().into_bytes())
}

/// Whether the answer to a deletion is an object that is still there for a while.
/// Whether the write removed the last finalizer of a deleted object: it is in no list any more.
fn is_gone(answer: &Value) -> bool {
    answer["metadata"]["deletionTimestamp"].is_string() && !is_leaving(answer)
}

fn is_leaving(answer: &Value) -> bool {
    let metadata = &answer["metadata"];
    let has_finalizers = metadata["finalizers"].as_array().is_some_and(|list| !list.is_empty());
    let has_grace = metadata["deletionGracePeriodSeconds"].as_i64().is_some_and(|grace| grace > 0);
    metadata["deletionTimestamp"].is_string() && (has_finalizers || has_grace)
}

/// Where an object is.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    pub kind: Kind,
    pub namespace: &'a str,
    pub name: &'a str,
    /// `status`, or nothing.
    pub subresource: &'a str,
}

// === impl Place ===

impl Place<'_> {
    fn collection(&self) -> String {
        let Kind { group, version, plural, .. } = self.kind;
        let root = if group.is_empty() {
            format!("/api/{version}")
        } else {
            format!("/apis/{group}/{version}")
        };
        if self.kind.is_namespaced() {
            format!("{root}/namespaces/{}/{plural}", self.namespace)
        } else {
            format!("{root}/{plural}")
        }
    }

    fn key(&self) -> Key {
        Key::of_kind(self.kind, self.namespace, self.name)
    }

    fn path(&self) -> String {
        let slash = if self.subresource.is_empty() { "" } else { "/" };
        format!("{}/{}{slash}{}", self.collection(), self.name, self.subresource)
    }
}

impl std::fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}/{}", self.kind.kind, self.namespace, self.name)
    }
}

// === impl WriteError ===

impl WriteError {
    /// Observing again at once may help: the decision was made for an older state.
    pub fn is_stale(&self) -> bool {
        matches!(self, Self::Conflict { .. } | Self::Missing { .. })
    }
}

fn write_error(what: String, error: kube::Error) -> WriteError {
    let kube::Error::Api(status) = error else {
        return WriteError::Unavailable { what, why: "no answer from the API server".to_owned() };
    };
    let why = shorten(&status.message);
    match status.code {
        404 => WriteError::Missing { what },
        409 => WriteError::Conflict { what },
        // Admission comes before anything is stored: nothing was written, and nothing will be until the webhook
        // works again.
        500 if status.message.contains("failed calling webhook") => {
            WriteError::Refused { what, why }
        }
        429 | 500..=599 => WriteError::Unavailable { what, why },
        _ => WriteError::Refused { what, why },
    }
}

/// Cuts a message of the API server, which may repeat a whole object.
fn shorten(text: &str) -> String {
    const CHARACTERS_MAX: usize = 400;
    match text.char_indices().nth(CHARACTERS_MAX) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// Equal, ignoring empty values: the server drops and adds empty maps at will.
fn is_same(left: Option<&Value>, right: Option<&Value>) -> bool {
    match (left, right) {
        (None, None) => true,
        (None, Some(value)) | (Some(value), None) => is_empty(value),
        (Some(Value::Object(left)), Some(Value::Object(right))) => {
            let keys = left.keys().chain(right.keys());
            keys.into_iter().all(|key| is_same(left.get(key), right.get(key)))
        }
        (Some(Value::Array(left)), Some(Value::Array(right))) => {
            left.len() == right.len()
                && left.iter().zip(right).all(|(left, right)| is_same(Some(left), Some(right)))
        }
        (Some(left), Some(right)) => left == right || (is_empty(left) && is_empty(right)),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.values().all(is_empty),
        Value::Array(list) => list.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_webhook_that_is_down_refuses_and_a_server_in_trouble_does_not() {
        let sorted = |code: u16, message: &str| {
            let status = serde_json::from_value(json!({ "code": code, "message": message }));
            write_error("a pod".to_owned(), kube::Error::Api(Box::new(status.unwrap())))
        };
        let down = "Internal error occurred: failed calling webhook \"pods.example.com\": failed to \
                    call webhook: Post \"https://pods.example.svc:443/\": connection refused";
        assert!(matches!(sorted(500, down), WriteError::Refused { .. }));
        let other = "Internal error occurred: etcdserver: leader changed";
        assert!(matches!(sorted(500, other), WriteError::Unavailable { .. }));
        assert!(
            matches!(sorted(503, down), WriteError::Unavailable { .. }),
            "no server sends that"
        );
    }

    #[test]
    fn empty_values_make_no_difference() {
        let same = |left: Value, right: Value| is_same(Some(&left), Some(&right));
        assert!(same(json!({ "a": {}, "b": 1 }), json!({ "b": 1, "c": null })));
        assert!(same(json!([{ "a": [] }]), json!([{}])));
        assert!(!same(json!({ "b": 1 }), json!({ "b": 1, "c": 0 })), "zero is something");
        assert!(!same(json!([1]), json!([1, 2])));
    }

    #[test]
    fn a_deleted_object_is_gone_with_its_last_finalizer() {
        let deleted = "2026-01-01T00:00:00Z";
        let cases = [
            ("it is not deleted", json!({}), false),
            (
                "a finalizer keeps it",
                json!({ "deletionTimestamp": deleted, "finalizers": ["a"] }),
                false,
            ),
            (
                "its grace period keeps it",
                json!({ "deletionTimestamp": deleted, "deletionGracePeriodSeconds": 30 }),
                false,
            ),
            (
                "nothing keeps it",
                json!({ "deletionTimestamp": deleted, "deletionGracePeriodSeconds": 0 }),
                true,
            ),
            (
                "an empty list keeps nothing",
                json!({ "deletionTimestamp": deleted, "finalizers": [] }),
                true,
            ),
        ];
        for (reason, metadata, want) in cases {
            assert_eq!(is_gone(&json!({ "metadata": metadata })), want, "{reason}");
        }
    }
}
