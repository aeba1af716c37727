//! Reads: one object, or many at one moment.

use std::{collections::BTreeMap, fmt::Write as _, sync::Arc};

use bytes::Bytes;
use serde_json::{Value, json};

use super::{Answer, Call, Content, Request, Server, convert, options::ListOptions};
use crate::{
    failure::{Cause, Failure, Outcome},
    registry::ResourceDef,
    selector::{FieldSelector, LabelSelector, field_value},
    store::{Compacted, ObjectKey, Stored, to_bytes},
};

/// Which objects a list or watch wants, beyond kind and namespace.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    labels: Option<LabelSelector>,
    fields: Option<FieldSelector>,
    /// `(group, kind)`, to know which fields may be selected by.
    kind: (String, String),
}

/// Many objects at one revision.
#[derive(Debug, Clone)]
pub struct ListAnswer {
    pub def: Arc<ResourceDef>,
    pub revision: u64,
    pub items: Vec<Bytes>,
    pub continue_token: String,
    pub remaining: Option<usize>,
}

// === impl Selection ===

impl Selection {
    pub fn parse(def: &ResourceDef, options: &ListOptions, name: &str) -> Outcome<Self> {
        let labels = match options.label_selector.as_str() {
            "" => None,
            text => Some(LabelSelector::parse(text)?),
        };
        let mut fields = options.field_selector.clone();
        if !name.is_empty() {
            // `GET …/NAME?watch=1` watches that one object.
            let own = format!("metadata.name={name}");
            fields = if fields.is_empty() { own } else { format!("{fields},{own}") };
        }
        let kind = (def.group.clone(), def.kind.clone());
        let fields = match fields.as_str() {
            "" => None,
            text => Some(FieldSelector::parse(text)?),
        };
        if let Some(fields) = &fields {
            let extra = def.custom().map(|(_, version)| version.selectable_fields.as_slice());
            fields.check(&kind.0, &kind.1, extra.unwrap_or_default())?;
        }
        Ok(Self { labels, fields, kind })
    }

    pub fn is_everything(&self) -> bool {
        self.labels.is_none() && self.fields.is_none()
    }

    pub fn matches(&self, object: &Stored) -> bool {
        self.labels_match(&object.labels) && self.fields_match(object)
    }

    fn labels_match(&self, labels: &BTreeMap<String, String>) -> bool {
        self.labels.as_ref().is_none_or(|selector| selector.matches(labels))
    }

    fn fields_match(&self, object: &Stored) -> bool {
        let Some(selector) = &self.fields else { return true };
        // The commonest selections need no parsing.
        let is_other =
            |field: &str, have: &str| selector.exact(field).is_some_and(|want| want != have);
        if is_other("metadata.name", &object.key.name)
            || is_other("metadata.namespace", &object.key.namespace)
        {
            return false;
        }
        let object = object.value();
        selector.matches(|path| field_value(&self.kind.0, &self.kind.1, &object, path))
    }
}

// === impl ListAnswer ===

impl ListAnswer {
    /// The list as JSON, put together from the items' own bytes.
    pub fn to_bytes(&self) -> Bytes {
        let items: usize = self.items.iter().map(|item| item.len() + 1).sum();
        let head = to_bytes(&self.head());
        let mut out = Vec::with_capacity(head.len() + items + 16);
        out.extend_from_slice(head.strip_suffix(b"}").unwrap_or(&head));
        out.extend_from_slice(b",\"items\":[");
        for (index, item) in self.items.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            out.extend_from_slice(item);
        }
        out.extend_from_slice(b"]}");
        out.into()
    }

    pub fn to_value(&self) -> Value {
        let mut list = self.head();
        list["items"] = self.items.iter().map(|item| parse(item)).collect();
        list
    }

    fn head(&self) -> Value {
        let mut meta = json!({ "resourceVersion": self.revision.to_string() });
        if !self.continue_token.is_empty() {
            meta["continue"] = self.continue_token.as_str().into();
            if let Some(remaining) = self.remaining {
                meta["remainingItemCount"] = remaining.into();
            }
        }
        json!({
            "kind": self.def.list_kind, "apiVersion": self.def.api_version(), "metadata": meta,
        })
    }
}

fn parse(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or(Value::Null)
}

// === impl Server ===

impl Server {
    /// The object a call addresses, as it lies in the store.
    pub(super) fn stored(&self, call: &Call<'_>) -> Outcome<Arc<Stored>> {
        let key = ObjectKey::new(call.namespace(), &call.request.info.name);
        self.store.get(&call.def.table, &key).ok_or_else(|| call.not_found())
    }

    pub(super) fn get(&self, call: &Call<'_>) -> Outcome<Answer> {
        let stored = match call.request.stale_at {
            None => self.stored(call)?,
            Some(revision) => self.past(call, revision)?,
        };
        Ok(Answer::new(200, content(&call.def, &stored)))
    }

    fn past(&self, call: &Call<'_>, revision: u64) -> Outcome<Arc<Stored>> {
        let found = self.store.list_at(&call.def.table, Some(call.namespace()), revision);
        let objects = found.map_err(|_| list_too_old())?;
        let name = call.request.info.name.as_str();
        objects.into_iter().find(|object| *object.key.name == *name).ok_or_else(|| call.not_found())
    }

    pub(super) fn list(&self, call: &Call<'_>) -> Outcome<Answer> {
        let options = ListOptions::parse(&call.request.query)?;
        let list = self.list_at_options(call, &options)?;
        Ok(Answer::new(200, Content::List(Box::new(list))))
    }

    fn list_at_options(&self, call: &Call<'_>, options: &ListOptions) -> Outcome<ListAnswer> {
        let selection = Selection::parse(&call.def, options, "")?;
        let (revision, start, objects) = self.snapshot(call.request, &call.def, options)?;
        let mut wanted = objects.into_iter().filter(|object| {
            start.as_ref().is_none_or(|start| object.key > *start) && selection.matches(object)
        });
        let limit = if options.limit == 0 { usize::MAX } else { options.limit };
        let page: Vec<_> = wanted.by_ref().take(limit).collect();
        let remaining = wanted.count();
        let continue_token = match page.last() {
            Some(last) if remaining > 0 => continue_token(revision, &last.key),
            _ => String::new(),
        };
        // With a selector the server does not count what it would have to look at.
        let remaining = selection.is_everything().then_some(remaining);
        let items = page.iter().map(|object| convert::bytes(&call.def, object)).collect();
        Ok(ListAnswer { def: Arc::clone(&call.def), revision, items, continue_token, remaining })
    }

    fn snapshot(
        &self,
        request: &Request,
        def: &ResourceDef,
        options: &ListOptions,
    ) -> Outcome<(u64, Option<ObjectKey>, Vec<Arc<Stored>>)> {
        let namespace = request.info.namespace.as_str();
        let namespace = (!namespace.is_empty()).then_some(namespace);
        let at = |revision: u64| {
            let found = self.store.list_at(&def.table, namespace, revision);
            found.map_err(|_| list_too_old())
        };
        if !options.continue_token.is_empty() {
            let bad =
                || Failure::bad_request("continue key is not valid: encoded by another server");
            let (revision, start) = parse_continue(&options.continue_token).ok_or_else(bad)?;
            let objects = self.store.list_at(&def.table, namespace, revision);
            return Ok((revision, Some(start), objects.map_err(|_| continue_too_old())?));
        }
        if let Some(frozen) = request.stale_at {
            return Ok((frozen, None, at(frozen)?));
        }
        let asked = parse_revision(&options.resource_version)?;
        self.check_reached(asked)?;
        if options.resource_version_match == "Exact" {
            return Ok((asked, None, at(asked)?));
        }
        let (revision, objects) = self.store.list(&def.table, namespace);
        Ok((revision, None, objects))
    }

    /// Refuses a revision from the future, as Kubernetes does after it has waited for it in vain.
    pub(crate) fn check_reached(&self, asked: u64) -> Outcome<()> {
        let current = self.store.revision();
        if asked <= current {
            return Ok(());
        }
        let message = format!("Too large resource version: {asked}, current: {current}");
        let mut failure = Failure::new(504, "Timeout", format!("Timeout: {message}"));
        failure.causes.push(Cause {
            reason: "ResourceVersionTooLarge".into(),
            message: "Too large resource version".into(),
            field: String::new(),
        });
        failure.retry_after_s = Some(1);
        Err(failure)
    }
}

/// A revision a client names; 0 if it names none.
pub(crate) fn parse_revision(text: &str) -> Outcome<u64> {
    if text.is_empty() {
        return Ok(0);
    }
    let bad = |_| {
        let error = crate::failure::FieldError::invalid(
            "resourceVersion",
            &Value::from(text),
            "strconv.ParseUint: parsing \"".to_owned() + text + "\": invalid syntax",
        );
        Failure::invalid("meta.k8s.io", "ListOptions", "", &[error])
    };
    text.parse().map_err(bad)
}

/// An object's bytes as they are if they are what was asked for, else converted.
pub(super) fn content(def: &ResourceDef, stored: &Arc<Stored>) -> Content {
    if convert::is_stored_form(def) {
        Content::Stored(Arc::clone(stored))
    } else {
        Content::Object(convert::to_version(def, stored.value()))
    }
}

/// The end of a watch that asks for, or has fallen behind into, what is no longer remembered.
pub(crate) fn too_old(asked: u64, compacted: Compacted) -> Failure {
    Failure::expired(format!("too old resource version: {asked} ({})", compacted.oldest))
}

fn list_too_old() -> Failure {
    Failure::expired("The resourceVersion for the provided list is too old.")
}

fn continue_too_old() -> Failure {
    Failure::expired(
        "The provided continue parameter is too old to display a consistent list result. Start a \
         new list without the continue parameter.",
    )
}

fn continue_token(revision: u64, last: &ObjectKey) -> String {
    let text = format!("{}/{}", last.namespace, last.name);
    let mut hex = String::with_capacity(2 * text.len());
    for byte in text.bytes() {
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
    }
    format!("{revision}.{hex}")
}

fn parse_continue(token: &str) -> Option<(u64, ObjectKey)> {
    let (revision, hex) = token.split_once('.')?;
    let bytes: Option<Vec<u8>> = (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok())
        .collect();
    let text = String::from_utf8(bytes?).ok()?;
    let (namespace, name) = text.split_once('/')?;
    Some((revision.parse().ok()?, ObjectKey::new(namespace, name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_continue_token_leads_back_to_where_it_was_made() {
        let key = ObjectKey::new("a", "web-1");
        assert_eq!(parse_continue(&continue_token(7, &key)), Some((7, key)));
        for bad in ["", "7", "7.zz", "x.00", "7.6", "é.é"] {
            assert_eq!(parse_continue(bad), None, "{bad}");
        }
    }
}
