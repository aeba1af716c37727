//! Server-side tables (`meta.k8s.io/v1` `Table`), as requested by `kubectl get`.
//!
//! A [`Layout`] defines the columns of a kind and the cells of an object; [`to_table`] converts an
//! object or list. Built-in kinds have the columns of kube-apiserver, including wide ones (the
//! client hides those by priority); custom resources have their printer columns; other kinds have
//! name and creation time.
//!
//! ```text
//! core, workloads, network, policy  --\
//! pods (status derivation)          ---> Printer: columns + fn(object, now) -> cells
//! custom (printer columns)          --/
//! ```

mod core;
mod custom;
mod duration;
mod network;
mod pods;
mod policy;
mod read;
mod workloads;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

pub(crate) use self::{
    custom::{CustomColumns, PrinterColumn},
    duration::human_duration,
};

/// One entry of `columnDefinitions`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Column {
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub type_: String,
    /// `name` marks the column with the object's name.
    pub format: String,
    pub description: String,
    /// 0 is always shown, higher ones only in wide output.
    pub priority: i32,
}

/// The part of the object in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum IncludeObject {
    None,
    #[default]
    Metadata,
    Object,
}

/// Columns and cells of one kind.
#[derive(Debug, Clone)]
pub(crate) enum Layout {
    BuiltIn(&'static Printer),
    Custom(CustomColumns),
}

/// The layout of a built-in kind.
#[derive(Debug)]
pub(crate) struct Printer {
    columns: &'static [Definition],
    cells: fn(&Value, Timestamp) -> Vec<Value>,
}

/// A built-in column: name, type, priority, description.
#[derive(Debug, Clone, Copy)]
struct Definition(&'static str, &'static str, i32, &'static str);

const NAME: Definition = Definition("Name", "string", 0, "The object's name.");
const AGE: Definition = Definition("Age", "string", 0, "Time since the object was created.");

/// The layout of kinds without one of their own.
static GENERIC: Printer = Printer {
    columns: &[NAME, Definition("Created At", "date", 0, "When the object was created.")],
    cells: |object, _| {
        let created = object["metadata"]["creationTimestamp"].as_str();
        vec![read::name(object), created.unwrap_or("0001-01-01T00:00:00Z").into()]
    },
};

#[cfg(test)]
/// The columns of a built-in kind, or the generic ones.
pub(crate) fn columns(group: &str, kind: &str) -> Vec<Column> {
    Layout::built_in(group, kind).columns()
}

#[cfg(test)]
/// The cells of one object of a built-in kind, one per column.
pub(crate) fn row(group: &str, kind: &str, object: &Value, now: Timestamp) -> Vec<Value> {
    Layout::built_in(group, kind).cells(object, now)
}

/// A `Table` of an object, or of the items of a list.
///
/// Without `headers` there are no column definitions: later events of a watch leave them out.
pub(crate) fn to_table(
    layout: &Layout,
    object_or_list: &Value,
    include: IncludeObject,
    headers: bool,
    now: Timestamp,
) -> Value {
    let items = list_items(object_or_list);
    let objects = items.unwrap_or_else(|| std::slice::from_ref(object_or_list));
    let rows: Vec<_> = objects.iter().map(|object| layout.row(object, include, now)).collect();
    let mut metadata = Map::new();
    let copied: &[&str] = match items {
        Some(_) => &["resourceVersion", "continue", "remainingItemCount"],
        None => &["resourceVersion"],
    };
    for key in copied {
        let value = &object_or_list["metadata"][key];
        if !value.is_null() && value != "" {
            metadata.insert((*key).to_owned(), value.clone());
        }
    }
    // Kinds without a layout of their own have null rows instead of an empty list.
    let rows = if rows.is_empty() && layout.is_generic() { Value::Null } else { rows.into() };
    let definitions =
        headers.then(|| layout.columns().iter().map(Column::to_json).collect::<Value>());
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
        "columnDefinitions": definitions, "rows": rows,
    })
}

/// An object reduced to its metadata.
pub(crate) fn partial(object: &Value) -> Value {
    let mut metadata = object["metadata"].clone();
    // A former field of DaemonSets that became an annotation: it is added to whole objects only.
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut)
        && annotations.remove("deprecated.daemonset.template.generation").is_some()
        && annotations.is_empty()
        && let Some(members) = metadata.as_object_mut()
    {
        members.remove("annotations");
    }
    json!({
        "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
    })
}

/// The items of a list object; `None` for a single object, even one with a field `items`.
fn list_items(object: &Value) -> Option<&[Value]> {
    let is_list = object["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
    let named = object["metadata"]["name"].is_string();
    object["items"].as_array().filter(|_| is_list && !named).map(Vec::as_slice)
}

fn printer(group: &str, kind: &str) -> Option<&'static Printer> {
    let families = [core::printer, workloads::printer, network::printer, policy::printer];
    families.iter().find_map(|family| family(group, kind))
}

// === impl IncludeObject ===

impl IncludeObject {
    /// Reads the query parameter `includeObject`; `None` if it has no such value.
    pub(crate) fn from_query(text: &str) -> Option<Self> {
        match text {
            "None" => Some(Self::None),
            "" | "Metadata" => Some(Self::Metadata),
            "Object" => Some(Self::Object),
            _ => None,
        }
    }

    fn of(self, object: &Value) -> Value {
        match self {
            Self::None => Value::Null,
            Self::Metadata => partial(object),
            Self::Object => object.clone(),
        }
    }
}

// === impl Layout ===

impl Layout {
    /// The layout of a kind of the server's own; name and creation time if it has none.
    pub(crate) fn built_in(group: &str, kind: &str) -> Self {
        Self::BuiltIn(printer(group, kind).unwrap_or(&GENERIC))
    }

    /// The layout of a custom resource.
    pub(crate) fn custom(columns: Vec<PrinterColumn>) -> Self {
        Self::Custom(CustomColumns::new(columns))
    }

    pub(crate) fn columns(&self) -> Vec<Column> {
        match self {
            Self::BuiltIn(printer) => {
                printer.columns.iter().copied().map(Definition::to_column).collect()
            }
            Self::Custom(columns) => columns.columns(),
        }
    }

    pub(crate) fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        match self {
            Self::BuiltIn(printer) => (printer.cells)(object, now),
            Self::Custom(columns) => columns.cells(object, now),
        }
    }

    fn is_generic(&self) -> bool {
        matches!(self, Self::BuiltIn(printer) if std::ptr::eq(*printer, &raw const GENERIC))
    }

    fn row(&self, object: &Value, include: IncludeObject, now: Timestamp) -> Value {
        let mut row = json!({ "cells": self.cells(object, now), "object": include.of(object) });
        if let Self::BuiltIn(printer) = self
            && std::ptr::eq(*printer, &raw const pods::POD)
            && let Some(condition) = pods::completion(object)
        {
            row["conditions"] = json!([condition]);
        }
        row
    }
}

// === impl Definition ===

impl Definition {
    fn to_column(self) -> Column {
        let Self(name, type_, priority, description) = self;
        let format = if name == "Name" { "name" } else { "" };
        Column {
            name: name.to_owned(),
            type_: type_.to_owned(),
            format: format.to_owned(),
            description: description.to_owned(),
            priority,
        }
    }
}

// === impl Column ===

impl Column {
    fn to_json(&self) -> Value {
        json!({
            "name": self.name, "type": self.type_, "format": self.format,
            "description": self.description, "priority": self.priority,
        })
    }
}

#[cfg(test)]
mod tests;
