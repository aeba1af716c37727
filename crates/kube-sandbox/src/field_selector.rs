//! Field selectors: `metadata.name=web,status.phase!=Running`.
//!
//! Each kind has its own short list of selectable fields; for other fields the API server answers
//! with 400. Custom resources add the `selectableFields` of their definition.

use serde_json::Value;

use crate::{
    builtin,
    failure::{Failure, Outcome},
};

/// A conjunction of terms.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FieldSelector {
    terms: Vec<Term>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Term {
    field: String,
    equals: bool,
    value: String,
}

/// Selectable fields of every namespaced kind.
const META: &[&str] = &["metadata.name", "metadata.namespace"];

const POD: &[&str] = &[
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.podIPs",
    "status.nominatedNodeName",
];

const REFERENCE: &[&str] =
    &["kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath"];

/// The text of a selectable field of an object; empty when the object does not have it. `None` when
/// objects of this kind cannot be selected by `path`. Of a kind that is not built in, any field is
/// read: which ones may be is for [`FieldSelector::check`] to say.
pub(crate) fn field_value(group: &str, kind: &str, object: &Value, path: &str) -> Option<String> {
    let path = match canonical(group, kind, path) {
        None if builtin::strategy(group, kind).is_some() => return None,
        known => known.unwrap_or(path),
    };
    let value = match (kind, path) {
        ("Pod", "status.podIP" | "status.podIPs") => {
            object.pointer("/status/podIPs/0/ip").or_else(|| object.pointer("/status/podIP"))
        }
        ("Event", "source") => {
            let component = ["/source/component", "/deprecatedSource/component"]
                .into_iter()
                .find_map(|pointer| object.pointer(pointer));
            component.filter(|text| text.as_str() != Some("")).or_else(|| reporter(object))
        }
        ("Event", "reportingComponent") => reporter(object),
        ("Event", _) if path.starts_with("involvedObject.") => {
            let member = path.rsplit('.').next().unwrap_or_default();
            let reference = object.get("involvedObject").or_else(|| object.get("regarding"));
            reference.and_then(|reference| reference.get(member))
        }
        _ => object.pointer(&format!("/{}", path.replace('.', "/"))),
    };
    Some(match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None => unset(path).to_owned(),
        Some(other) => other.to_string(),
    })
}

/// The reporter of an event, under either name of the field.
fn reporter(object: &Value) -> Option<&Value> {
    object.get("reportingComponent").or_else(|| object.get("reportingController"))
}

/// The value of an absent field.
fn unset(path: &str) -> &'static str {
    match path {
        "spec.hostNetwork" | "spec.unschedulable" => "false",
        _ => "",
    }
}

/// The canonical name of the field at `path`, if it is selectable for this kind.
fn canonical<'p>(group: &str, kind: &str, path: &'p str) -> Option<&'p str> {
    let is_meta = META.contains(&path);
    let known = match (group, kind) {
        ("", "Pod") if path == "spec.host" => return Some("spec.nodeName"),
        ("", "Pod") => is_meta || POD.contains(&path),
        ("", "Node") => matches!(path, "metadata.name" | "spec.unschedulable"),
        ("", "Namespace") => matches!(path, "metadata.name" | "status.phase"),
        ("", "Secret") => is_meta || path == "type",
        ("", "Service") => is_meta || matches!(path, "spec.clusterIP" | "spec.type"),
        ("", "Event") => {
            let reference = path.strip_prefix("involvedObject.");
            is_meta
                || matches!(path, "reason" | "reportingComponent" | "source" | "type")
                || reference.is_some_and(|member| REFERENCE.contains(&member))
        }
        ("events.k8s.io", "Event") => return canonical_of_new_event(path),
        _ => is_meta,
    };
    known.then_some(path)
}

/// Core names of the fields of `events.k8s.io`.
fn canonical_of_new_event(path: &str) -> Option<&str> {
    Some(match path {
        "regarding.kind" => "involvedObject.kind",
        "regarding.namespace" => "involvedObject.namespace",
        "regarding.name" => "involvedObject.name",
        "regarding.uid" => "involvedObject.uid",
        "regarding.apiVersion" => "involvedObject.apiVersion",
        "regarding.resourceVersion" => "involvedObject.resourceVersion",
        "regarding.fieldPath" => "involvedObject.fieldPath",
        "reportingController" => "reportingComponent",
        "reason" | "type" | "metadata.name" | "metadata.namespace" => path,
        _ => return None,
    })
}

// === impl FieldSelector ===

impl FieldSelector {
    /// Reads the `fieldSelector` of a query.
    pub(crate) fn parse(text: &str) -> Outcome<Self> {
        Self::read(text).map_err(Failure::bad_request)
    }

    fn read(text: &str) -> Result<Self, String> {
        let mut parts = split_terms(text);
        parts.sort_unstable();
        let mut terms = Vec::new();
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            let Some((field, equals, value)) = split_term(part) else {
                return Err(format!("invalid selector: '{text}'; can't understand '{part}'"));
            };
            terms.push(Term { field: field.to_owned(), equals, value: unescape(value)? });
        }
        Ok(Self { terms })
    }

    /// Refuses fields that objects of this kind cannot be selected by. `extra` are the paths a
    /// custom resource adds, with or without a dot in front.
    pub(crate) fn check<P: AsRef<str>>(&self, group: &str, kind: &str, extra: &[P]) -> Outcome<()> {
        let listed = |field: &str| {
            let is = |path: &P| path.as_ref().trim_start_matches('.') == field;
            extra.iter().any(is) || canonical(group, kind, field).is_some()
        };
        let Some(unknown) = self.terms.iter().find(|term| !listed(&term.field)) else {
            return Ok(());
        };
        Err(Failure::bad_request(refusal(group, kind, &unknown.field)))
    }

    /// The value a field is required to have, if there is just one.
    pub(crate) fn exact(&self, field: &str) -> Option<&str> {
        let wanted = self.terms.iter().find(|term| term.equals && term.field == field);
        wanted.map(|term| term.value.as_str())
    }

    /// `value` tells an object's fields, as [`field_value`] does. A field it does not know matches
    /// nothing.
    pub(crate) fn matches(&self, mut value: impl FnMut(&str) -> Option<String>) -> bool {
        self.terms.iter().all(|term| {
            value(&term.field).is_some_and(|value| (value == term.value) == term.equals)
        })
    }
}

/// The error text, which differs between kinds with their own fields, custom resources and other
/// kinds.
fn refusal(group: &str, kind: &str, field: &str) -> String {
    let own_words = matches!(
        (group, kind),
        ("", "Pod" | "Node" | "Namespace" | "Secret" | "Service" | "Event")
            | ("events.k8s.io", "Event")
    );
    if own_words || builtin::strategy(group, kind).is_none() {
        format!("field label not supported: {field}")
    } else {
        format!(
            "{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        )
    }
}

/// Splits at unescaped commas.
fn split_terms(text: &str) -> Vec<&str> {
    let mut escaped = false;
    text.split(|c: char| {
        let ends = !escaped && c == ',';
        escaped = !escaped && c == '\\';
        ends
    })
    .collect()
}

/// Field, whether it must be equal, and the escaped value.
fn split_term(term: &str) -> Option<(&str, bool, &str)> {
    let at = term.char_indices().map(|(index, _)| index).find(|index| {
        term.get(*index..).is_some_and(|rest| rest.starts_with("!=") || rest.starts_with('='))
    })?;
    let (field, rest) = term.split_at(at);
    match rest.strip_prefix("!=") {
        Some(value) => Some((field, false, value)),
        None => Some((field, true, rest.strip_prefix("==").or(rest.strip_prefix('='))?)),
    }
}

fn unescape(value: &str) -> Result<String, String> {
    let mut plain = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(next @ ('\\' | ',' | '=')) => plain.push(next),
                other => {
                    let sequence: String = std::iter::once('\\').chain(other).collect();
                    return Err(format!(
                        "invalid field selector: invalid escape sequence: {sequence}"
                    ));
                }
            },
            ',' | '=' => {
                let code = u32::from(c);
                return Err(format!(
                    "invalid field selector: unescaped character in value: {code}"
                ));
            }
            _ => plain.push(c),
        }
    }
    Ok(plain)
}

#[cfg(test)]
mod tests;
