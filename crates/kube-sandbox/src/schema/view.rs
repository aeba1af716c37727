//! Implements [`Shape`] for schemas, for server-side apply.

use serde_json::Value;

use super::Schema;
use crate::shape::{ListKind, Shape};

/// A view of one node of a schema. Metadata is outside every schema and has a fixed shape.
#[derive(Debug, Clone, Copy)]
pub struct SchemaShape<'a> {
    node: Node<'a>,
}

#[derive(Debug, Clone, Copy)]
enum Node<'a> {
    Root(&'a Schema),
    Inner(&'a Schema),
    Metadata,
    /// Labels or annotations.
    MetadataMap,
    Finalizers,
    OwnerReferences,
    OwnerReference,
    Unknown,
}

impl<'a> SchemaShape<'a> {
    /// The view of whole objects of the schema's kind.
    pub const fn new(schema: &'a Schema) -> Self {
        Self { node: Node::Root(schema) }
    }

    const fn schema(self) -> Option<&'a Schema> {
        match self.node {
            Node::Root(schema) | Node::Inner(schema) => Some(schema),
            _ => None,
        }
    }
}

impl<'a> From<&'a Schema> for SchemaShape<'a> {
    fn from(schema: &'a Schema) -> Self {
        Self::new(schema)
    }
}

impl Shape for SchemaShape<'_> {
    fn field(&self, name: &str) -> Self {
        let is_resource = match self.node {
            Node::Root(_) => true,
            Node::Inner(schema) => schema.embedded,
            _ => false,
        };
        let node = match (self.node, name) {
            _ if is_resource && name == "metadata" => Node::Metadata,
            (Node::Root(schema) | Node::Inner(schema), _) => {
                schema.child(name).map_or(Node::Unknown, Node::Inner)
            }
            (Node::Metadata, "labels" | "annotations") => Node::MetadataMap,
            (Node::Metadata, "finalizers") => Node::Finalizers,
            (Node::Metadata, "ownerReferences") => Node::OwnerReferences,
            _ => Node::Unknown,
        };
        Self { node }
    }

    fn items(&self) -> Self {
        let node = match self.node {
            Node::OwnerReferences => Node::OwnerReference,
            _ => self
                .schema()
                .and_then(|schema| schema.items.as_deref())
                .map_or(Node::Unknown, Node::Inner),
        };
        Self { node }
    }

    fn list(&self) -> ListKind {
        match self.node {
            Node::Finalizers => ListKind::Set,
            Node::OwnerReferences => ListKind::Map(vec!["uid".to_owned()]),
            _ => {
                let kind = self.schema().and_then(|schema| schema.list.kind.clone());
                kind.unwrap_or(ListKind::Atomic)
            }
        }
    }

    fn is_atomic_object(&self) -> bool {
        match self.node {
            Node::OwnerReference => true,
            _ => self.schema().is_some_and(|schema| schema.atomic_object),
        }
    }

    fn key_default(&self, key: &str) -> Option<Value> {
        self.schema()?.items.as_deref()?.properties.get(key)?.default.clone()
    }

    fn declares(&self, name: &str) -> bool {
        let is_meta = matches!(name, "apiVersion" | "kind" | "metadata");
        match self.node {
            Node::Root(schema) => is_meta || schema.properties.contains_key(name),
            Node::Inner(schema) => {
                schema.embedded && is_meta || schema.properties.contains_key(name)
            }
            Node::Metadata => true,
            Node::MetadataMap
            | Node::Finalizers
            | Node::OwnerReferences
            | Node::OwnerReference
            | Node::Unknown => false,
        }
    }

    /// Only metadata has fixed types; for other fields the schema decides about null.
    fn drops_nulls(&self) -> bool {
        matches!(self.node, Node::Metadata | Node::MetadataMap)
    }

    /// Custom resources have no strategic merge patch.
    fn patch_merge(&self) -> Option<Option<String>> {
        None
    }
}
