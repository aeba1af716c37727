//! Discovery, health, version and schema documents of the server.
//!
//! [`super::ApiService`] calls it for paths that are no resource. Documents are built on first use
//! and cached until a CRD changes the registry.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use bytes::Bytes;
use http::{HeaderMap, Response, header};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{ResponseBody, full, render, route::Route, set, text};
use crate::{
    openapi::{self, SchemaSource, Served},
    registry::{Backing, Group, Registry, ResourceDef, Version, group_version},
    server::Server,
    store::to_bytes,
};

/// The minor version of the Kubernetes release that the sandbox reproduces.
const MINOR: &str = "36";

/// Cache of expensive documents, valid until the set of resources changes.
#[derive(Default)]
pub(super) struct Documents {
    cache: Mutex<Cache>,
}

#[derive(Default)]
struct Cache {
    /// The registry behind the cached documents, compared by its allocation.
    made_from: Option<Arc<Registry>>,
    documents: BTreeMap<String, Document>,
}

/// A document and its media type.
#[derive(Clone)]
pub(super) struct Document {
    content_type: &'static str,
    bytes: Bytes,
    etag: String,
    is_plain: bool,
}

const JSON: &str = "application/json";
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

// === impl Documents ===

impl Documents {
    /// `None` for an unknown path.
    pub(super) fn find(
        &self,
        server: &Server,
        found: &Route,
        parts: &http::request::Parts,
    ) -> Option<Document> {
        let registry = server.registry();
        let path = parts.uri.path().trim_end_matches('/');
        let accept = text(&parts.headers, header::ACCEPT.as_str());
        match found {
            Route::Discovery { group, version: None } => {
                Some(Document::json(&group_document(registry.group(group)?)))
            }
            Route::Discovery { group, version: Some(version) } => {
                let found = registry.version(group, version)?;
                Some(Document::json(&resources_document(group, found)))
            }
            Route::Other | Route::Resource(_) => match path {
                "" => Some(Document::json(&paths_document(&registry))),
                "/api" | "/apis" => Some(root_document(&registry, path, accept)),
                "/version" => Some(Document::json(&version_document())),
                "/healthz" | "/livez" | "/readyz" | "/healthz/ping" | "/livez/ping"
                | "/readyz/ping" => {
                    let verbose = parts.uri.query().is_some_and(|query| query.contains("verbose"));
                    Some(health(path, verbose).plain())
                }
                "/openapi/v2" => self.openapi_v2(&registry, accept).map(Document::plain),
                path => {
                    let rest = path.strip_prefix("/openapi/v3")?;
                    let found = self.openapi_v3(&registry, rest.trim_start_matches('/'));
                    found.map(Document::plain)
                }
            },
        }
    }

    fn openapi_v3(&self, registry: &Arc<Registry>, path: &str) -> Option<Document> {
        self.cached(registry, &format!("v3/{path}"), || {
            if path.is_empty() {
                let versions = all_versions(registry).map(|(group, version)| {
                    let served = served(registry, &group, &version);
                    (openapi::document_path(&group, &version), openapi::fingerprint(&served))
                });
                let versions: Vec<(String, String)> = versions.collect();
                let versions = versions.iter().map(|(path, hash)| (path.as_str(), hash.as_str()));
                return Some(Document::json(&openapi::index(versions)));
            }
            let (group, version) = match path.split('/').collect::<Vec<_>>().as_slice() {
                ["api", version] => (String::new(), (*version).to_owned()),
                ["apis", group, version] => ((*group).to_owned(), (*version).to_owned()),
                _ => return None,
            };
            registry.version(&group, &version)?;
            let served = served(registry, &group, &version);
            Some(Document::json(&openapi::document(&group, &version, &served)))
        })
    }

    fn openapi_v2(&self, registry: &Arc<Registry>, accept: &str) -> Option<Document> {
        let is_protobuf = accept.contains(openapi::V2_PROTOBUF_ACCEPT);
        let name = if is_protobuf { "v2.pb" } else { "v2" };
        self.cached(registry, name, || {
            let all = all_versions(registry);
            let served: Vec<Served> =
                all.flat_map(|(group, version)| served(registry, &group, &version)).collect();
            let document = openapi::swagger(&served, &server_version());
            if is_protobuf {
                return Some(Document::new(
                    openapi::V2_PROTOBUF_CONTENT_TYPE,
                    openapi::encode_v2(&document),
                ));
            }
            Some(Document::json(&document))
        })
    }

    fn cached(
        &self,
        registry: &Arc<Registry>,
        name: &str,
        make: impl FnOnce() -> Option<Document>,
    ) -> Option<Document> {
        let mut cache = self.cache.lock();
        let is_current = cache.made_from.as_ref().is_some_and(|made| Arc::ptr_eq(made, registry));
        if !is_current {
            cache.documents.clear();
            cache.made_from = Some(Arc::clone(registry));
        }
        if let Some(document) = cache.documents.get(name) {
            return Some(document.clone());
        }
        let document = make()?;
        cache.documents.insert(name.to_owned(), document.clone());
        Some(document)
    }
}

// === impl Document ===

impl Document {
    fn new(content_type: &'static str, bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        let mut hasher = DefaultHasher::new();
        bytes.hash(&mut hasher);
        let etag = format!("\"{:016X}\"", hasher.finish());
        Self { content_type, etag, bytes, is_plain: false }
    }

    fn json(value: &Value) -> Self {
        Self::new(JSON, to_bytes(value))
    }

    fn plain(self) -> Self {
        Self { is_plain: true, ..self }
    }

    /// Health and schemas answer a `HEAD`; documents of the API router do not.
    pub(super) fn is_plain(&self) -> bool {
        self.is_plain
    }

    pub(super) fn without_body(self) -> Response<ResponseBody> {
        full(200, self.content_type, Bytes::new())
    }

    pub(super) fn into_response(self, headers: &HeaderMap, pretty: bool) -> Response<ResponseBody> {
        let is_known = text(headers, header::IF_NONE_MATCH.as_str()) == self.etag;
        let mut response = if is_known {
            full(304, self.content_type, Bytes::new())
        } else if pretty && self.content_type == JSON {
            full(200, JSON, render::prettier(&self.bytes))
        } else {
            full(200, self.content_type, self.bytes)
        };
        set(response.headers_mut(), header::ETAG.as_str(), &self.etag);
        set(response.headers_mut(), header::VARY.as_str(), "Accept");
        response
    }
}

fn all_versions(registry: &Registry) -> impl Iterator<Item = (String, String)> {
    registry.groups().iter().flat_map(|group| {
        group.versions.iter().map(|version| (group.name.clone(), version.name.clone()))
    })
}

fn served(registry: &Registry, group: &str, version: &str) -> Vec<Served> {
    let resources = registry.version(group, version).map(|found| found.resources.as_slice());
    let resources = resources.unwrap_or_default().iter();
    resources
        .map(|def| Served {
            group: def.group.clone(),
            version: def.version.clone(),
            kind: def.kind.clone(),
            plural: def.plural.clone(),
            singular: def.singular.clone(),
            namespaced: def.namespaced,
            verbs: def.verbs().iter().map(|&verb| verb.to_owned()).collect(),
            subresources: def.subresources.clone(),
            schema: match &def.backing {
                Backing::Custom(version) => {
                    SchemaSource::Custom(Arc::new(version.raw_schema.clone()))
                }
                Backing::Builtin | Backing::Review => SchemaSource::Builtin,
            },
        })
        .collect()
}

/// `/api` and `/apis`: by group, or everything for clients that accept the aggregated form.
fn root_document(registry: &Registry, path: &str, accept: &str) -> Document {
    let is_core = path == "/api";
    let mut groups = registry.groups().iter().filter(|group| group.name.is_empty() == is_core);
    let wants_all = accept.split(',').any(|wish| {
        wish.contains("as=APIGroupDiscoveryList") && wish.contains("v=v2") && !wish.contains("beta")
    });
    if wants_all {
        let items: Vec<Value> = groups.map(aggregated_group).collect();
        let list = json!({
            "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2",
            "metadata": {}, "items": items,
        });
        return Document::new(AGGREGATED, to_bytes(&list));
    }
    if is_core {
        let versions = groups.next().map(|group| &group.versions);
        let names: Vec<&str> =
            versions.into_iter().flatten().map(|version| version.name.as_str()).collect();
        return Document::json(&json!({
            "kind": "APIVersions", "versions": names,
            "serverAddressByClientCIDRs": [{ "clientCIDR": "0.0.0.0/0", "serverAddress": "" }],
        }));
    }
    let groups: Vec<Value> = groups.map(group_body).collect();
    Document::json(&json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups }))
}

fn group_body(group: &Group) -> Value {
    let version = |version: &Version| {
        json!({
            "groupVersion": group_version(&group.name, &version.name), "version": version.name,
        })
    };
    let versions: Vec<Value> = group.versions.iter().map(version).collect();
    json!({ "name": group.name, "preferredVersion": versions.first(), "versions": versions })
}

fn group_document(group: &Group) -> Value {
    let mut body = group_body(group);
    body["kind"] = "APIGroup".into();
    body["apiVersion"] = "v1".into();
    body
}

fn resources_document(group: &str, version: &Version) -> Value {
    let mut resources = Vec::new();
    for def in &version.resources {
        let mut entry = json!({
            "name": def.plural, "singularName": def.singular, "namespaced": def.namespaced,
            "kind": def.kind, "verbs": def.verbs(),
        });
        add_names(&mut entry, def);
        resources.push(entry);
        for subresource in &def.subresources {
            resources.push(subresource_entry(def, subresource));
        }
    }
    json!({
        "kind": "APIResourceList", "apiVersion": "v1",
        "groupVersion": group_version(group, &version.name), "resources": resources,
    })
}

fn subresource_entry(def: &ResourceDef, subresource: &str) -> Value {
    let (group, version, kind) = def.subresource_kind(subresource);
    let mut entry = json!({
        "name": format!("{}/{subresource}", def.plural), "singularName": "",
        "namespaced": def.namespaced, "kind": kind, "verbs": ResourceDef::subresource_verbs(subresource),
    });
    if (group, version) != (def.group.as_str(), def.version.as_str()) {
        entry["group"] = group.into();
        entry["version"] = version.into();
    }
    entry
}

fn aggregated_group(group: &Group) -> Value {
    let versions = group.versions.iter().map(|version| {
        let resources: Vec<Value> =
            version.resources.iter().map(|def| aggregated_resource(def)).collect();
        json!({ "version": version.name, "resources": resources, "freshness": "Current" })
    });
    let versions: Vec<Value> = versions.collect();
    let mut item = json!({ "metadata": { "creationTimestamp": null }, "versions": versions });
    if !group.name.is_empty() {
        item["metadata"]["name"] = group.name.as_str().into();
    }
    item
}

fn aggregated_resource(def: &ResourceDef) -> Value {
    let mut entry = json!({
        "resource": def.plural,
        "responseKind": { "group": def.group, "version": def.version, "kind": def.kind },
        "scope": if def.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": def.singular, "verbs": def.verbs(),
    });
    add_names(&mut entry, def);
    let subresources = def.subresources.iter().map(|subresource| {
        let (group, version, kind) = def.subresource_kind(subresource);
        json!({
            "subresource": subresource,
            "responseKind": { "group": group, "version": version, "kind": kind },
            "verbs": ResourceDef::subresource_verbs(subresource),
        })
    });
    let subresources: Vec<Value> = subresources.collect();
    if !subresources.is_empty() {
        entry["subresources"] = subresources.into();
    }
    entry
}

fn add_names(entry: &mut Value, def: &ResourceDef) {
    if !def.short_names.is_empty() {
        entry["shortNames"] = def.short_names.clone().into();
    }
    if !def.categories.is_empty() {
        entry["categories"] = def.categories.clone().into();
    }
}

fn paths_document(registry: &Registry) -> Value {
    let fixed = ["/api", "/api/v1", "/apis", "/healthz", "/livez", "/openapi/v2", "/openapi/v3"];
    let mut paths: Vec<String> = fixed.iter().map(|&path| path.to_owned()).collect();
    paths.extend(["/readyz".to_owned(), "/version".to_owned()]);
    for (group, version) in all_versions(registry).filter(|(group, _)| !group.is_empty()) {
        paths.push(format!("/apis/{group}"));
        paths.push(format!("/apis/{group}/{version}"));
    }
    paths.sort();
    paths.dedup();
    json!({ "paths": paths })
}

fn version_document() -> Value {
    json!({
        "major": "1", "minor": MINOR, "gitVersion": server_version(),
        "gitCommit": "", "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none", "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
}

fn server_version() -> String {
    format!("v1.{MINOR}.0+tidegate")
}

fn health(path: &str, verbose: bool) -> Document {
    let name = path.trim_start_matches('/').split('/').next().unwrap_or_default();
    let text = if verbose {
        format!("[+]ping ok\n[+]log ok\n[+]store ok\n{name} check passed\n")
    } else {
        "ok".to_owned()
    };
    Document::new("text/plain; charset=utf-8", text)
}
