//! The fields of Gateway API routes that the cluster's definitions have, as its API server publishes them.
//!
//! ```text
//! /openapi/v3                                         index: a fingerprint for each document
//! /openapi/v3/apis/gateway.networking.k8s.io/v1       the document: schemas of its kinds
//! ```
//!
//! A document is read once, when the first canary needs it. It is read again if a write was refused over a
//! field, and if its fingerprint has changed when a rollout starts; idle canaries cause no request. Any
//! authenticated user may read these pages. Where they cannot be read, routes have the fields that every
//! cluster knows.

use std::{collections::BTreeMap, time::Duration};

use http::{Request, header};
use http_body_util::{BodyExt, Limited};
use parking_lot::Mutex;
use serde_json::Value;
use tidegate_providers::{
    object::Kind,
    traffic::{HTTP_ROUTE_V1, RouteFields},
};
use tracing::{debug, warn};

use super::{Cluster, write::WriteError};

/// The group whose definitions differ from cluster to cluster.
const GROUP: &str = HTTP_ROUTE_V1.group;
/// The document of Gateway API has about 1 MB, most of it descriptions; the index some 20 KB.
const DOCUMENT_MAX: usize = 16 * 1024 * 1024;
/// Longest time for one page.
const PAGE_MAX: Duration = Duration::from_secs(30);
/// Attempts at the first read, a second and then twice as long apart: half a minute in all.
const ATTEMPTS: u32 = 5;

/// The document of each version of the group, once read.
#[derive(Default)]
pub struct Schemas(Mutex<BTreeMap<&'static str, Document>>);

/// One version of the group, as it was read.
#[derive(Clone, Debug, Default, PartialEq)]
struct Document {
    /// The address it has in the index, with the fingerprint.
    address: String,
    /// Its kinds.
    kinds: BTreeMap<String, RouteFields>,
}

/// Why a page was not read.
enum Unread {
    /// Another attempt may help.
    Unavailable(String),
    /// No attempt will help.
    Unusable(String),
}

/// Whether the server refused a write because of a field it does not know.
pub(super) fn is_about_fields(error: &WriteError) -> bool {
    let (WriteError::Refused { why, .. } | WriteError::Unavailable { why, .. }) = error else {
        return false;
    };
    why.contains("field not declared in schema") || why.contains("unknown field")
}

// === impl Schemas ===

impl Schemas {
    /// Stores a document; true if it changed.
    fn put(&self, version: &'static str, document: Document) -> bool {
        let kinds = document.kinds.clone();
        let before = self.0.lock().insert(version, document);
        before.is_none_or(|before| before.kinds != kinds)
    }

    /// Forgets all documents; each is read again with the watch of its kind.
    pub(super) fn clear(&self) {
        self.0.lock().clear();
    }
}

// === impl Cluster ===

impl Cluster {
    /// The fields a kind of route has here; `None` until its document was read.
    pub(crate) fn route_fields(&self, kind: Kind) -> Option<RouteFields> {
        if kind.group != GROUP {
            return Some(RouteFields::default());
        }
        let schemas = self.schemas.0.lock();
        let document = schemas.get(kind.version)?;
        let fields = document.kinds.get(kind.kind).copied();
        Some(fields.unwrap_or_else(|| RouteFields::assumed(kind)))
    }

    /// Whether this kind of route is known to be served.
    pub(crate) fn serves_route(&self, kind: Kind) -> bool {
        let schemas = self.schemas.0.lock();
        schemas.get(kind.version).is_some_and(|it| it.kinds.contains_key(kind.kind))
    }

    /// Reads the document of a kind, unless it was read before.
    pub(crate) async fn load_schema(self, kind: Kind) {
        if kind.group != GROUP || self.route_fields(kind).is_some() {
            return;
        }
        let mut document = Document::default();
        for attempt in 0..ATTEMPTS {
            match self.read_document(kind, "").await {
                Ok(read) => {
                    document = read.unwrap_or_default();
                    break;
                }
                Err(Unread::Unusable(why)) => {
                    warn!(%why, "The schemas of {GROUP} cannot be read; newer fields are left out");
                    break;
                }
                Err(Unread::Unavailable(why)) => {
                    debug!(%why, "The schemas of {GROUP} cannot be read yet");
                    tokio::time::sleep(Duration::from_secs(1 << attempt)).await;
                }
            }
        }
        self.schemas.put(kind.version, document);
        self.cache.notify_all();
    }

    /// Reads the document again if its fingerprint has changed.
    pub(crate) async fn check_schema(self, kind: Kind) {
        let known = self.schemas.0.lock().get(kind.version).map(|it| it.address.clone());
        let Some(known) = known.filter(|_| kind.group == GROUP) else { return };
        if let Ok(Some(document)) = self.read_document(kind, &known).await
            && self.schemas.put(kind.version, document)
        {
            self.cache.notify_all();
        }
    }

    /// Reads the document again after a rejected write; true if it changed.
    pub(super) async fn reload_schema(&self, kind: Kind) -> bool {
        if kind.group != GROUP {
            return false;
        }
        match self.read_document(kind, "").await {
            Ok(document) => self.schemas.put(kind.version, document.unwrap_or_default()),
            Err(_) => false,
        }
    }

    /// The document of a kind; `None` if it still has this address.
    async fn read_document(&self, kind: Kind, known: &str) -> Result<Option<Document>, Unread> {
        let index = self.page(kind, "/openapi/v3").await?;
        let path = format!("apis/{}/{}", kind.group, kind.version);
        let Some(address) = index["paths"][&path]["serverRelativeURL"].as_str() else {
            return Ok(Some(Document::default()));
        };
        if address == known {
            return Ok(None);
        }
        let page = self.page(kind, address).await?;
        Ok(Some(Document { address: address.to_owned(), kinds: routes_in(&page, kind) }))
    }

    async fn page(&self, kind: Kind, address: &str) -> Result<Value, Unread> {
        let request = Request::get(address)
            .header(header::ACCEPT, "application/json")
            .body(kube::client::Body::empty())
            .map_err(|error| Unread::Unusable(error.to_string()))?;
        let client = self.client_for(kind);
        let read = async {
            let unavailable = |error: kube::Error| Unread::Unavailable(error.to_string());
            let answer = client.send(request).await.map_err(unavailable)?;
            let status = answer.status();
            if status.is_server_error() || status.as_u16() == 429 {
                return Err(Unread::Unavailable(format!("{address}: {status}")));
            }
            if !status.is_success() {
                return Err(Unread::Unusable(format!("{address}: {status}")));
            }
            let body = Limited::new(answer.into_body(), DOCUMENT_MAX).collect().await;
            let body = body.map_err(|error| Unread::Unusable(format!("{address}: {error}")))?;
            serde_json::from_slice(&body.to_bytes())
                .map_err(|error| Unread::Unusable(format!("{address}: {error}")))
        };
        let late = |_| Unread::Unavailable(format!("{address}: no answer in time"));
        tokio::time::timeout(PAGE_MAX, read).await.map_err(late)?
    }
}

/// The kinds of this group and version, with the fields that matter.
fn routes_in(document: &Value, of: Kind) -> BTreeMap<String, RouteFields> {
    let schemas = document["components"]["schemas"].as_object().into_iter().flatten();
    let named = schemas.filter_map(|(_, schema)| {
        let kinds = schema["x-kubernetes-group-version-kind"].as_array()?;
        let is_it = |kind: &&Value| kind["group"] == of.group && kind["version"] == of.version;
        let kind = kinds.iter().find(is_it)?["kind"].as_str()?;
        Some((kind.to_owned(), RouteFields::in_schema(schema)))
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn kinds_are_found_by_group_version_kind_and_not_by_their_name_in_the_document() {
        let kind = |kind: &str, version: &str| json!([{ "group": GROUP, "version": version, "kind": kind }]);
        let rules = json!({ "items": { "properties": { "name": { "type": "string" } } } });
        let spec = json!({ "spec": { "properties": { "rules": rules } } });
        let document = json!({ "components": { "schemas": {
            "a": { "x-kubernetes-group-version-kind": kind("HTTPRoute", "v1"), "properties": spec },
            "b": { "x-kubernetes-group-version-kind": kind("HTTPRoute", "v2") },
            "HTTPRoute": { "type": "object" },
            "c": 7,
        } } });
        let found = routes_in(&document, HTTP_ROUTE_V1);
        assert_eq!(found.keys().collect::<Vec<_>>(), ["HTTPRoute"]);
        assert!(found["HTTPRoute"].rule_name && !found["HTTPRoute"].retry);
        for odd in [json!(null), json!([]), json!({ "components": { "schemas": "none" } })] {
            assert_eq!(routes_in(&odd, HTTP_ROUTE_V1), BTreeMap::new(), "{odd}");
        }
    }

    #[test]
    fn a_refusal_over_a_field_is_told_from_others() {
        let refused =
            |why: &str| WriteError::Refused { what: "it".to_owned(), why: why.to_owned() };
        let unavailable =
            |why: &str| WriteError::Unavailable { what: "it".to_owned(), why: why.to_owned() };
        let typed = "failed to create typed patch object: .spec.rules[0].name: field not declared in schema";
        assert!(is_about_fields(&refused(typed)));
        assert!(is_about_fields(&unavailable(typed)), "some servers call it their own error");
        assert!(is_about_fields(&refused("unknown field \"spec.rules[0].retry\"")));
        assert!(!is_about_fields(&refused("spec.rules: too many items")));
        assert!(!is_about_fields(&WriteError::NotLeading));
    }
}
