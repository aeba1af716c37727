//! The operations of a resource, by path and HTTP method.
//!
//! [`add`] writes the paths of one resource into a document, including those of its subresources,
//! and registers the schemas that they refer to.

use serde_json::{Map, Value, json};

use super::{
    Dialect, SchemaSource, Served, custom, document_path, group_version_kind,
    schema::{META, Schemas},
};
use crate::types;

const READ_TYPES: [&str; 3] =
    ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];
const CUSTOM_READ_TYPES: [&str; 2] = ["application/json", "application/yaml"];
const PATCH_TYPES: [&str; 4] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];
const CUSTOM_PATCH_TYPES: [&str; 3] =
    ["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"];

type Parameter = (&'static str, &'static str);

const LIST: [Parameter; 10] = [
    ("allowWatchBookmarks", "boolean"),
    ("continue", "string"),
    ("fieldSelector", "string"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("timeoutSeconds", "integer"),
    ("watch", "boolean"),
];
const WRITE: [Parameter; 3] =
    [("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string")];
const PATCH: [Parameter; 4] = [
    ("dryRun", "string"),
    ("fieldManager", "string"),
    ("fieldValidation", "string"),
    ("force", "boolean"),
];
const DELETE: [Parameter; 4] = [
    ("dryRun", "string"),
    ("gracePeriodSeconds", "integer"),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
];

/// Type of an operation's answer.
enum Answer {
    Nothing,
    Text,
    Object(Value),
}

/// One HTTP method on one path.
struct Operation {
    method: &'static str,
    /// `x-kubernetes-action`
    action: &'static str,
    id: String,
    parameters: &'static [Parameter],
    body: Option<(Value, &'static [&'static str])>,
    answer: Answer,
    creates: bool,
}

/// Writes the operations of one resource, with their shared parameters.
struct Writer<'a> {
    resource: &'a Served,
    dialect: Dialect,
    /// Group, version and kind of the request and answer objects; subresources may have their own.
    kind: Value,
    read_types: &'static [&'static str],
}

/// Adds every path of a resource.
pub(super) fn add(paths: &mut Map<String, Value>, resource: &Served, schemas: &mut Schemas) {
    let base = format!("/{}", document_path(&resource.group, &resource.version));
    let plural = &resource.plural;
    let scope = if resource.namespaced { "/namespaces/{namespace}" } else { "" };
    let collection = format!("{base}{scope}/{plural}");
    let (object, list) = references(resource, schemas);
    let kind = group_version_kind(&resource.group, &resource.version, &resource.kind);
    let writer = Writer::new(resource, schemas.dialect, kind);

    let on_collection = collection_operations(resource, &object, &list, schemas);
    writer.add_path(paths, &collection, on_collection);
    if resource.namespaced && resource.offers("list") {
        let id = operation_id(resource, "list", "ForAllNamespaces", false);
        let mut everywhere = Operation::read("list", id, Answer::Object(list));
        everywhere.parameters = &LIST;
        writer.add_path(paths, &format!("{base}/{plural}"), vec![everywhere]);
    }
    let item = format!("{collection}/{{name}}");
    writer.add_path(paths, &item, item_operations(resource, &object, "", schemas));
    for subresource in &resource.subresources {
        add_subresource(paths, &item, resource, subresource, &object, schemas);
    }
}

/// Adds the discovery path of a group and version.
pub(super) fn add_discovery(
    paths: &mut Map<String, Value>,
    group: &str,
    version: &str,
    schemas: &mut Schemas,
) {
    let list = schemas.reference(&format!("{META}.APIResourceList"));
    let content: Map<_, _> =
        READ_TYPES.iter().map(|kind| ((*kind).into(), json!({ "schema": list }))).collect();
    let id = format!("get{}APIResources", group_version_words(group, version));
    let get = json!({
        "operationId": id,
        "tags": [tag(group, version)],
        "responses": { "200": { "description": "OK", "content": content } },
    });
    paths.insert(format!("/{}/", document_path(group, version)), json!({ "get": get }));
}

/// References to the schemas of a resource's objects and lists.
fn references(resource: &Served, schemas: &mut Schemas) -> (Value, Value) {
    match &resource.schema {
        SchemaSource::Custom(schema) => {
            let object = custom::add(resource, schema, schemas);
            (object, schemas.dialect.reference(&custom::list_name(resource)))
        }
        SchemaSource::Builtin => {
            let Served { group, version, kind, .. } = resource;
            let mut of = |kind: &str| {
                let known = types::kind(group, version, kind);
                known.map_or_else(|| json!({ "type": "object" }), |it| schemas.reference(it.name))
            };
            let object = of(kind);
            // Kinds without `list` have no list type.
            let list = if resource.offers("list") { of(&format!("{kind}List")) } else { json!({}) };
            (object, list)
        }
    }
}

fn collection_operations(
    resource: &Served,
    object: &Value,
    list: &Value,
    schemas: &mut Schemas,
) -> Vec<Operation> {
    let mut operations = Vec::new();
    if resource.offers("list") {
        let id = operation_id(resource, "list", "", true);
        let mut read = Operation::read("list", id, Answer::Object(list.clone()));
        read.parameters = &LIST;
        operations.push(read);
    }
    if resource.offers("create") {
        let id = operation_id(resource, "create", "", true);
        operations.push(Operation::create(id, object.clone()));
    }
    if resource.offers("deletecollection") {
        let id = operation_id(resource, "deleteCollection", "", true);
        operations.push(Operation::delete("deletecollection", id, schemas));
    }
    operations
}

/// Operations on one object, or on a subresource with the same verbs.
fn item_operations(
    resource: &Served,
    object: &Value,
    suffix: &str,
    schemas: &mut Schemas,
) -> Vec<Operation> {
    let id = |verb: &str| operation_id(resource, verb, suffix, true);
    let mut operations = Vec::new();
    if resource.offers("get") {
        operations.push(Operation::read("get", id("read"), Answer::Object(object.clone())));
    }
    if resource.offers("update") {
        operations.push(Operation {
            method: "put",
            action: "put",
            ..Operation::create(id("replace"), object.clone())
        });
    }
    if resource.offers("patch") {
        let patch_types: &[_] = match resource.schema {
            SchemaSource::Builtin => &PATCH_TYPES,
            SchemaSource::Custom(_) => &CUSTOM_PATCH_TYPES,
        };
        operations.push(Operation {
            method: "patch",
            action: "patch",
            parameters: &PATCH,
            body: Some((schemas.reference(&format!("{META}.Patch")), patch_types)),
            ..Operation::create(id("patch"), object.clone())
        });
    }
    if resource.offers("delete") && suffix.is_empty() {
        operations.push(Operation::delete("delete", id("delete"), schemas));
    }
    operations
}

fn add_subresource(
    paths: &mut Map<String, Value>,
    item: &str,
    resource: &Served,
    subresource: &str,
    object: &Value,
    schemas: &mut Schemas,
) {
    let suffix = title(subresource);
    let own = (resource.group.as_str(), resource.version.as_str(), resource.kind.as_str());
    let (group, version, kind) = match subresource {
        "scale" => ("autoscaling", "v1", "Scale"),
        "eviction" => ("policy", "v1", "Eviction"),
        "binding" => ("", "v1", "Binding"),
        "token" => ("authentication.k8s.io", "v1", "TokenRequest"),
        "exec" => ("", "v1", "PodExecOptions"),
        "attach" => ("", "v1", "PodAttachOptions"),
        "portforward" => ("", "v1", "PodPortForwardOptions"),
        _ => own,
    };
    let writer = Writer::new(resource, schemas.dialect, group_version_kind(group, version, kind));
    let other = types::kind(group, version, kind).filter(|_| (group, version, kind) != own);
    let object = match other {
        Some(definition) => schemas.reference(definition.name),
        None => object.clone(),
    };
    let operations = match subresource {
        "eviction" | "binding" | "token" => {
            vec![Operation::create(operation_id(resource, "create", &suffix, true), object)]
        }
        "log" => {
            let id = operation_id(resource, "read", &suffix, true);
            vec![Operation::read("get", id, Answer::Text)]
        }
        "exec" | "attach" | "portforward" | "proxy" => {
            let id = operation_id(resource, "connect", &suffix, true);
            vec![Operation::read("connect", id, Answer::Text)]
        }
        _ => {
            let mut operations = item_operations(resource, &object, &suffix, schemas);
            if subresource == "finalize" {
                operations.retain(|operation| operation.method == "put");
            }
            operations
        }
    };
    writer.add_path(paths, &format!("{item}/{subresource}"), operations);
}

/// `createAppsV1NamespacedDeployment`
fn operation_id(resource: &Served, verb: &str, suffix: &str, in_namespace: bool) -> String {
    let words = group_version_words(&resource.group, &resource.version);
    let scope = if resource.namespaced && in_namespace { "Namespaced" } else { "" };
    let (verb, collection) = match verb {
        "deleteCollection" => ("delete", "Collection"),
        "connect" => ("connect", "Get"),
        other => (other, ""),
    };
    format!("{verb}{words}{collection}{scope}{}{suffix}", resource.kind)
}

fn group_version_words(group: &str, version: &str) -> String {
    let group = if group.is_empty() { "core" } else { group.trim_end_matches(".k8s.io") };
    let words: String = group.split(['.', '-']).map(title).collect();
    words + &title(version)
}

/// `apps_v1`
fn tag(group: &str, version: &str) -> String {
    let first = group.split('.').next().filter(|part| !part.is_empty());
    format!("{}_{version}", first.unwrap_or("core"))
}

fn title(word: &str) -> String {
    let mut letters = word.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

// === impl Served ===

impl Served {
    fn offers(&self, verb: &str) -> bool {
        self.verbs.iter().any(|it| it == verb)
    }
}

// === impl Operation ===

impl Operation {
    fn read(action: &'static str, id: String, answer: Answer) -> Self {
        let (parameters, body) = (&[][..], None);
        Self { method: "get", action, id, parameters, body, answer, creates: false }
    }

    fn create(id: String, object: Value) -> Self {
        Self {
            method: "post",
            action: "post",
            id,
            parameters: &WRITE,
            body: Some((object.clone(), &["*/*"])),
            answer: Answer::Object(object),
            creates: true,
        }
    }

    fn delete(action: &'static str, id: String, schemas: &mut Schemas) -> Self {
        Self {
            method: "delete",
            action,
            id,
            parameters: &DELETE,
            body: Some((schemas.reference(&format!("{META}.DeleteOptions")), &["*/*"])),
            answer: Answer::Object(schemas.reference(&format!("{META}.Status"))),
            creates: false,
        }
    }
}

// === impl Writer ===

impl<'a> Writer<'a> {
    fn new(resource: &'a Served, dialect: Dialect, kind: Value) -> Self {
        let read_types: &[_] = match resource.schema {
            SchemaSource::Builtin => &READ_TYPES,
            SchemaSource::Custom(_) => &CUSTOM_READ_TYPES,
        };
        Self { resource, dialect, kind, read_types }
    }

    fn add_path(&self, paths: &mut Map<String, Value>, path: &str, operations: Vec<Operation>) {
        if operations.is_empty() {
            return;
        }
        let mut entry = Map::new();
        let mut parameters = Vec::new();
        for name in ["name", "namespace"] {
            if path.contains(&format!("{{{name}}}")) {
                parameters.push(self.parameter(name, "path", "string"));
            }
        }
        parameters.push(self.parameter("pretty", "query", "string"));
        entry.insert("parameters".into(), parameters.into());
        for operation in operations {
            entry.insert(operation.method.into(), self.operation(operation));
        }
        paths.insert(path.to_owned(), entry.into());
    }

    fn parameter(&self, name: &str, location: &str, kind: &str) -> Value {
        let mut parameter = json!({ "name": name, "in": location });
        match self.dialect {
            Dialect::V2 => {
                parameter["type"] = kind.into();
                parameter["uniqueItems"] = true.into();
            }
            Dialect::V3 => {
                parameter["schema"] = json!({ "type": kind, "uniqueItems": true });
            }
        }
        if location == "path" {
            parameter["required"] = true.into();
        }
        parameter
    }

    fn operation(&self, operation: Operation) -> Value {
        let Operation { method: _, action, id, parameters, body, answer, creates } = operation;
        let mut parameters: Vec<_> =
            parameters.iter().map(|(name, kind)| self.parameter(name, "query", kind)).collect();
        let mut written = json!({
            "operationId": id,
            "tags": [tag(&self.resource.group, &self.resource.version)],
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": self.kind,
        });
        if let Some((schema, content_types)) = body {
            // Deletion options are optional.
            let required = creates;
            match self.dialect {
                Dialect::V2 => {
                    written["consumes"] = json!(content_types);
                    parameters.push(json!({
                        "in": "body", "name": "body", "required": required, "schema": schema,
                    }));
                }
                Dialect::V3 => {
                    let content = content(&schema, content_types);
                    written["requestBody"] = json!({ "content": content, "required": required });
                }
            }
        }
        if !parameters.is_empty() {
            written["parameters"] = parameters.into();
        }
        if self.dialect == Dialect::V2 {
            written["produces"] = json!(self.read_types);
        }
        let mut responses = json!({
            "200": self.response("OK", &answer),
            "401": self.response("Unauthorized", &Answer::Nothing),
        });
        if creates {
            responses["201"] = self.response("Created", &answer);
        }
        written["responses"] = responses;
        written
    }

    fn response(&self, description: &str, answer: &Answer) -> Value {
        let mut response = json!({ "description": description });
        let schema = match answer {
            Answer::Nothing => return response,
            Answer::Text => json!({ "type": "string" }),
            Answer::Object(schema) => schema.clone(),
        };
        match self.dialect {
            Dialect::V2 => response["schema"] = schema,
            Dialect::V3 => response["content"] = content(&schema, self.read_types),
        }
        response
    }
}

fn content(schema: &Value, content_types: &[&str]) -> Value {
    let each = |kind: &&str| ((*kind).to_owned(), json!({ "schema": schema }));
    Value::Object(content_types.iter().map(each).collect())
}
