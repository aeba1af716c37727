//! OpenAPI documents of the server: v3, one per group and version, and v2.
//!
//! [`http::discovery`](crate::http) serves them. Structure comes from the type table, descriptions
//! from `k8s-openapi`, and custom resources from the schemas of their definitions. A document is a
//! function of its [`Served`] resources only, so [`fingerprint`] identifies it before it is built:
//!
//! ```text
//! /openapi/v3                    index: every document with ?hash=<fingerprint>
//! /openapi/v3/apis/apps/v1       document: paths, components.schemas
//! /openapi/v2                    swagger: paths, definitions, of all groups
//! ```

mod custom;
mod describe;
mod gnostic;
mod paths;
mod schema;
#[cfg(test)]
mod tests;

use std::{fmt::Write as _, sync::Arc};

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha512};

pub(crate) use self::gnostic::encode as encode_v2;
use self::schema::Schemas;

/// The media type that kubectl accepts from `/openapi/v2`. Not a valid media type, so it is not answered as such.
pub(crate) const V2_PROTOBUF_ACCEPT: &str =
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
/// The `Content-Type` of [`encode_v2`]'s bytes.
pub(crate) const V2_PROTOBUF_CONTENT_TYPE: &str =
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// One resource of the server, at one version.
#[derive(Debug, Clone)]
pub(crate) struct Served {
    /// `""` for the core group.
    pub group: String,
    pub version: String,
    pub kind: String,
    pub plural: String,
    pub singular: String,
    pub namespaced: bool,
    /// As in discovery: `create`, `delete`, `deletecollection`, `get`, `list`, ...
    pub verbs: Vec<String>,
    /// `status`, `scale`, `log`, ...
    pub subresources: Vec<String>,
    pub schema: SchemaSource,
}

/// Source of a resource's schema.
#[derive(Debug, Clone)]
pub(crate) enum SchemaSource {
    /// In the type table.
    Builtin,
    /// `openAPIV3Schema` of a custom resource definition's version.
    Custom(Arc<Value>),
}

/// The two OpenAPI versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dialect {
    V2,
    V3,
}

/// `/openapi/v3`: the path of each group and version's document, with its fingerprint.
///
/// `documents` holds pairs of [`document_path`] and [`fingerprint`].
pub(crate) fn index<'a>(documents: impl IntoIterator<Item = (&'a str, &'a str)>) -> Value {
    let paths: Map<_, _> = documents
        .into_iter()
        .map(|(path, hash)| {
            let url = format!("/openapi/v3/{path}?hash={hash}");
            (path.to_owned(), json!({ "serverRelativeURL": url }))
        })
        .collect();
    json!({ "paths": paths })
}

/// `api/v1`, `apis/apps/v1`
pub(crate) fn document_path(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

/// The v3 document of one group and version. `served` must all be of it.
pub(crate) fn document(group: &str, version: &str, served: &[Served]) -> Value {
    let mut schemas = Schemas::new(Dialect::V3, group, version);
    let mut paths = Map::new();
    for resource in served {
        paths::add(&mut paths, resource, &mut schemas);
    }
    paths::add_discovery(&mut paths, group, version, &mut schemas);
    json!({
        "openapi": "3.0.0",
        "info": { "title": "Kubernetes", "version": "unversioned" },
        "paths": paths,
        "components": { "schemas": schemas.finish() },
    })
}

/// The v2 document of the whole server.
pub(crate) fn swagger(served: &[Served], server_version: &str) -> Value {
    let (mut definitions, mut paths) = (Map::new(), Map::new());
    for group in served.chunk_by(|a, b| (&a.group, &a.version) == (&b.group, &b.version)) {
        let Some(first) = group.first() else { continue };
        let mut schemas = Schemas::new(Dialect::V2, &first.group, &first.version);
        for resource in group {
            paths::add(&mut paths, resource, &mut schemas);
        }
        definitions.extend(schemas.finish());
    }
    json!({
        "swagger": "2.0",
        "info": { "title": "Kubernetes", "version": server_version },
        "paths": paths,
        "definitions": definitions,
    })
}

/// A name for the document of these resources: equal resources, equal name. Serves as the `hash`
/// in the index and as the document's `ETag`.
pub(crate) fn fingerprint(served: &[Served]) -> String {
    let mut digest = Sha512::new();
    // Another build may describe the same resources differently.
    digest.update(env!("CARGO_PKG_VERSION"));
    for resource in served {
        let Served {
            group,
            version,
            kind,
            plural,
            singular,
            namespaced,
            verbs,
            subresources,
            schema,
        } = resource;
        let facts = (group, version, kind, plural, singular, namespaced, verbs, subresources);
        digest.update(format!("{facts:?}"));
        if let SchemaSource::Custom(schema) = schema {
            digest.update(schema.to_string());
        }
    }
    digest.finalize().iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02X}");
        hex
    })
}

// === impl Dialect ===

impl Dialect {
    fn reference(self, name: &str) -> Value {
        match self {
            Self::V2 => json!({ "$ref": format!("#/definitions/{name}") }),
            Self::V3 => json!({ "$ref": format!("#/components/schemas/{name}") }),
        }
    }
}

fn group_version_kind(group: &str, version: &str, kind: &str) -> Value {
    json!({ "group": group, "kind": kind, "version": version })
}
