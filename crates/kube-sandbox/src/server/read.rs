//! GET and LIST requests: one object, or many at one revision.
//!
//! The server calls it for both verbs; watches use [`Selection`] too. A list is consistent at one
//! revision, and its pages stay at that revision until it is compacted.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use serde_json::{Value, json};

use super::{Answer, Call, Content, Request, Server, convert, options::ListOptions, slim};
use crate::{
    failure::{Cause, Failure, FieldError, Outcome},
    field_selector::{FieldSelector, field_value},
    registry::ResourceDef,
    selector::LabelSelector,
    store::{Compacted, ObjectKey, Stored, to_bytes},
    types::base64,
};

/// Label and field selector of a list or watch.
#[derive(Debug, Clone, Default)]
pub(crate) struct Selection {
    labels: Option<LabelSelector>,
    fields: Option<FieldSelector>,
    /// `(group, kind)`, which determines the selectable fields.
    kind: (String, String),
}

/// A list of objects at one revision.
#[derive(Debug, Clone)]
pub struct ListAnswer {
    pub def: Arc<ResourceDef>,
    pub revision: u64,
    pub items: Vec<Bytes>,
    pub continue_token: String,
    pub remaining: Option<usize>,
}

/// The position after a page.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Continue {
    /// The revision of all pages; `None` to continue with the current objects.
    revision: Option<u64>,
    after: ObjectKey,
}

// === impl Selection ===

impl Selection {
    pub(crate) fn parse(def: &ResourceDef, options: &ListOptions, name: &str) -> Outcome<Self> {
        let labels = match options.label_selector.as_str() {
            "" => None,
            text => Some(LabelSelector::parse(text)?),
        };
        let mut fields = options.field_selector.clone();
        if !name.is_empty() {
            // A path or request for a single object.
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

    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_none() && self.fields.is_none()
    }

    pub(crate) fn matches(&self, object: &Stored) -> bool {
        self.labels_match(&object.labels) && self.fields_match(object)
    }

    fn labels_match(&self, labels: &BTreeMap<String, String>) -> bool {
        self.labels.as_ref().is_none_or(|selector| selector.matches(labels))
    }

    fn fields_match(&self, object: &Stored) -> bool {
        let Some(selector) = &self.fields else { return true };
        // The most common selectors need no parsing.
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
    /// The list as JSON, assembled from the items' own bytes.
    ///
    /// As in real servers, items of a built-in kind have no `kind` and `apiVersion`, because the
    /// list has them. Items of a custom kind have both.
    pub fn to_bytes(&self) -> Bytes {
        let items: usize = self.items.iter().map(|item| item.len() + 1).sum();
        let mut head = self.head();
        if self.def.is_custom() && self.continue_token.is_empty() {
            // Lists of custom resources have an empty token even on the last page.
            head["metadata"]["continue"] = "".into();
        }
        let head = to_bytes(&head);
        let mut out = Vec::with_capacity(head.len() + items + 16);
        out.extend_from_slice(head.strip_suffix(b"}").unwrap_or(&head));
        out.extend_from_slice(b",\"items\":[");
        for (index, item) in self.items.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            if self.def.is_custom() {
                out.extend_from_slice(item);
            } else {
                slim::without_type(item, &mut out);
            }
        }
        out.extend_from_slice(b"]}");
        out.into()
    }

    /// The list with complete items, from which tables and metadata are made.
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
    /// The stored object that a call addresses.
    pub(super) fn stored(&self, call: &Call<'_>) -> Outcome<Arc<Stored>> {
        let key = ObjectKey::new(call.namespace(), &call.request.info.name);
        self.store.get(&call.def.table, &key).ok_or_else(|| call.not_found())
    }

    pub(super) fn get(&self, call: &Call<'_>) -> Outcome<Answer> {
        let text = call.request.query.get("resourceVersion");
        let least =
            parse_revision(text).map_err(|error| Failure::unclassified(error.to_string()))?;
        self.check_not_future(least, Some(1))?;
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
        // A list at "0" comes from the watch cache, which does not page.
        let is_unpaged = options.resource_version == "0";
        let limit = if options.limit == 0 || is_unpaged { usize::MAX } else { options.limit };
        let page: Vec<_> = wanted.by_ref().take(limit).collect();
        let remaining = wanted.count();
        let continue_token = match page.last() {
            Some(last) if remaining > 0 => {
                Continue { revision: Some(revision), after: last.key.clone() }.encode()
            }
            _ => String::new(),
        };
        // With a selector the server does not count the remaining objects.
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
            self.store.list_at(&def.table, namespace, revision).map_err(|_| list_too_old())
        };
        if !options.continue_token.is_empty() {
            let place = Continue::parse(&options.continue_token)?;
            if !matches!(options.resource_version.as_str(), "" | "0") {
                let why = "specifying resource version is not allowed when using continue";
                return Err(Failure::bad_request(why));
            }
            let Some(revision) = place.revision else {
                let (revision, objects) = self.store.list(&def.table, namespace);
                return Ok((revision, Some(place.after), objects));
            };
            let objects = self.store.list_at(&def.table, namespace, revision);
            let objects = objects.map_err(|_| place.too_old())?;
            return Ok((revision, Some(place.after), objects));
        }
        if let Some(frozen) = request.stale_at {
            return Ok((frozen, None, at(frozen)?));
        }
        let asked = parse_revision(&options.resource_version)
            .map_err(|error| Failure::bad_request(format!("invalid resource version: {error}")))?;
        // A page at a version, without a match rule, is a page at exactly that version.
        let is_exact = match options.resource_version_match.as_str() {
            "Exact" => true,
            "" => options.limit > 0 && asked > 0,
            _ => false,
        };
        self.check_not_future(asked, (!is_exact).then_some(1))?;
        if is_exact {
            return Ok((asked, None, at(asked)?));
        }
        let (revision, objects) = self.store.list(&def.table, namespace);
        Ok((revision, None, objects))
    }

    /// Refuses a read at a future revision, which the store may never reach.
    pub(crate) fn check_not_future(&self, asked: u64, retry_after_s: Option<u32>) -> Outcome<()> {
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
        failure.retry_after_s = retry_after_s;
        Err(failure)
    }
}

/// Parses a client's revision; an empty one is 0.
pub(crate) fn parse_revision(text: &str) -> Result<u64, FieldError> {
    if text.is_empty() {
        return Ok(0);
    }
    text.parse().map_err(|_| {
        let why = format!("strconv.ParseUint: parsing {text:?}: invalid syntax");
        FieldError::invalid("resourceVersion", &text.into(), why)
    })
}

/// The stored bytes of an object if they have the requested version, else the converted object.
pub(super) fn content(def: &ResourceDef, stored: &Arc<Stored>) -> Content {
    if convert::is_stored_form(def) {
        Content::Stored(Arc::clone(stored))
    } else {
        Content::Object(convert::to_version(def, stored.value()))
    }
}

/// The error of a watch from `asked`, which is no longer in the log.
pub(crate) fn too_old(asked: u64, compacted: Compacted) -> Failure {
    Failure::expired(format!("too old resource version: {asked} ({})", compacted.oldest))
}

fn list_too_old() -> Failure {
    Failure::expired("The resourceVersion for the provided list is too old.")
}

// === impl Continue ===

impl Continue {
    fn encode(&self) -> String {
        // The key after the last one, as in etcd.
        let start = match &*self.after.namespace {
            "" => format!("{}\0", self.after.name),
            namespace => format!("{namespace}/{}\0", self.after.name),
        };
        let revision = self.revision.and_then(|revision| i64::try_from(revision).ok());
        let token = json!({ "v": "meta.k8s.io/v1", "rv": revision.unwrap_or(-1), "start": start });
        let padded = base64::encode(&to_bytes(&token));
        padded.trim_end_matches('=').replace('+', "-").replace('/', "_")
    }

    fn parse(token: &str) -> Outcome<Self> {
        let bad = |why: &str| {
            Failure::bad_request(format!(
                "invalid continue token: continue key is not valid: {why}"
            ))
        };
        let mut padded = token.replace('-', "+").replace('_', "/");
        while !padded.len().is_multiple_of(4) {
            padded.push('=');
        }
        let bytes = base64::decode(&padded)
            .map_err(|at| bad(&format!("illegal base64 data at input byte {at}")))?;
        let token: Value = serde_json::from_slice(&bytes).map_err(|why| bad(&why.to_string()))?;
        if token["v"] != "meta.k8s.io/v1" {
            return Err(bad("server does not recognize this encoded version"));
        }
        let revision = token["rv"].as_i64().filter(|revision| *revision != 0);
        let encoded = |what: &str| bad(&format!("{what} (version meta.k8s.io/v1)"));
        let revision =
            revision.ok_or_else(|| encoded("incorrect encoded start resourceVersion"))?;
        let start = token["start"].as_str().unwrap_or_default().trim_end_matches('\0');
        if start.is_empty() {
            return Err(encoded("encoded start key empty"));
        }
        let (namespace, name) = start.split_once('/').unwrap_or(("", start));
        let after = ObjectKey::new(namespace, name);
        Ok(Self { revision: u64::try_from(revision).ok(), after })
    }

    /// The revision of the list is compacted, but the position in it is still valid.
    fn too_old(&self) -> Failure {
        let mut failure = Failure::expired(
            "The provided continue parameter is too old to display a consistent list result. You \
             can start a new list without the continue parameter, or use the continue token in \
             this response to retrieve the remainder of the results. Continuing with the provided \
             token results in an inconsistent list - objects that were created, modified, or \
             deleted between the time the first chunk was returned and now may show up in the \
             list.",
        );
        failure.continue_token = Self { revision: None, after: self.after.clone() }.encode();
        failure
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_continue_token_leads_back_to_where_it_was_made() {
        for (namespace, revision) in [("a", Some(7)), ("", Some(9)), ("a", None)] {
            let place = Continue { revision, after: ObjectKey::new(namespace, "web-1") };
            assert_eq!(Continue::parse(&place.encode()).unwrap(), place);
        }
        let cases = [
            ("7.zz", "illegal base64 data", "not base64"),
            ("YWJj", "is not valid", "not JSON"),
            ("eyJ2IjoieCJ9", "does not recognize this encoded version", "of another server"),
            ("eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MH0", "start resourceVersion", "no version"),
            ("eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NH0", "start key empty", "no place"),
        ];
        for (token, want, reason) in cases {
            let failure = Continue::parse(token).unwrap_err();
            assert_eq!(failure.code, 400, "{reason}");
            assert!(failure.message.contains(want), "{reason}: {}", failure.message);
        }
    }
}
