//! Edits of a request or an answer by a route: headers, paths, redirects.
//!
//! Rules of all routing kinds use the same edits; [`super::Forward`] applies them.

use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

use super::{Request, host};
use crate::controllers::object::{int, items, strings, text};

/// One change of a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Edit {
    Set(HeaderName, HeaderValue),
    Add(HeaderName, HeaderValue),
    Remove(HeaderName),
}

/// A change of the path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PathEdit {
    Full(String),
    /// By whole segments: slashes at the boundary are neither lost nor doubled.
    Segments(String),
    /// By characters, as in Istio.
    Letters(String),
}

/// A redirect. Parts that are `None` stay as in the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Redirect {
    pub(crate) status: u16,
    pub(crate) scheme: Option<String>,
    pub(crate) host: Option<String>,
    pub(crate) port: Option<u16>,
    pub(crate) path: Option<PathEdit>,
}

pub(crate) fn apply<'e>(edits: impl Iterator<Item = &'e Edit>, headers: &mut HeaderMap) {
    for edit in edits {
        match edit {
            Edit::Set(name, value) => {
                headers.insert(name, value.clone());
            }
            Edit::Add(name, value) => {
                headers.append(name, value.clone());
            }
            Edit::Remove(name) => {
                headers.remove(name);
            }
        }
    }
}

/// The edits of a Gateway API header modifier: lists of `name` and `value`.
pub(crate) fn from_lists(modifier: &Value) -> Vec<Edit> {
    let pairs = |pointer: &str| {
        let pairs = items(modifier, pointer).iter();
        let pairs: Vec<_> = pairs.map(|pair| (text(pair, "/name"), text(pair, "/value"))).collect();
        pairs
    };
    collect(&pairs("/set"), &pairs("/add"), items(modifier, "/remove"))
}

/// The edits of an Istio header operation: maps from name to value.
pub(crate) fn from_maps(operations: Option<&Value>) -> Vec<Edit> {
    let Some(operations) = operations else { return Vec::new() };
    let pairs = |key: &str| strings(operations.get(key)).into_iter().collect::<Vec<_>>();
    collect(&pairs("set"), &pairs("add"), items(operations, "/remove"))
}

/// Invalid header names and values are skipped.
fn collect(set: &[(&str, &str)], add: &[(&str, &str)], remove: &[Value]) -> Vec<Edit> {
    let parse = |(name, value): &(&str, &str)| Some((name.parse().ok()?, value.parse().ok()?));
    let set = set.iter().filter_map(parse).map(|(name, value)| Edit::Set(name, value));
    let add = add.iter().filter_map(parse).map(|(name, value)| Edit::Add(name, value));
    let remove = remove.iter().filter_map(Value::as_str).filter_map(|name| name.parse().ok());
    set.chain(add).chain(remove.map(Edit::Remove)).collect()
}

// === impl PathEdit ===

impl PathEdit {
    /// The `path` of a Gateway API rewrite or redirect.
    pub(crate) fn from_gateway_api(path: Option<&Value>) -> Option<Self> {
        let path = path?;
        match text(path, "/type") {
            "ReplaceFullPath" => Some(Self::Full(text(path, "/replaceFullPath").to_owned())),
            "ReplacePrefixMatch" => {
                Some(Self::Segments(text(path, "/replacePrefixMatch").to_owned()))
            }
            _ => None,
        }
    }

    pub(crate) fn apply(&self, path: &str, prefix: Option<&str>) -> String {
        let edited = match (self, prefix) {
            (Self::Full(new), _) | (Self::Letters(new), None) => new.clone(),
            (Self::Segments(_), None) => path.to_owned(),
            (Self::Letters(new), Some(prefix)) => {
                format!("{new}{}", path.strip_prefix(prefix).unwrap_or_default())
            }
            (Self::Segments(new), Some(prefix)) => {
                let rest = path.strip_prefix(prefix.trim_end_matches('/')).unwrap_or_default();
                let (new, rest) = (new.trim_end_matches('/'), rest.trim_start_matches('/'));
                if rest.is_empty() { new.to_owned() } else { format!("{new}/{rest}") }
            }
        };
        if edited.starts_with('/') { edited } else { format!("/{edited}") }
    }
}

// === impl Redirect ===

impl Redirect {
    pub(crate) fn from_gateway_api(redirect: &Value) -> Self {
        let some =
            |pointer: &str| Some(text(redirect, pointer).to_owned()).filter(|t| !t.is_empty());
        Self {
            status: number(redirect, "/statusCode").unwrap_or(302),
            scheme: some("/scheme"),
            host: some("/hostname"),
            port: number(redirect, "/port"),
            path: PathEdit::from_gateway_api(redirect.get("path")),
        }
    }

    pub(crate) fn from_istio(redirect: &Value) -> Self {
        let some =
            |pointer: &str| Some(text(redirect, pointer).to_owned()).filter(|t| !t.is_empty());
        Self {
            status: number(redirect, "/redirectCode").unwrap_or(301),
            scheme: some("/scheme"),
            host: some("/authority"),
            port: number(redirect, "/port"),
            path: some("/uri").map(PathEdit::Full),
        }
    }

    /// The `Location` header for a request.
    pub(crate) fn location(&self, request: &Request<'_>, prefix: Option<&str>) -> String {
        let scheme = self.scheme.as_deref().unwrap_or("http");
        let asked = host::normalise(request.host);
        let name = self.host.as_deref().unwrap_or(&asked);
        let port = match (self.port, scheme) {
            (None, _) | (Some(80), "http") | (Some(443), "https") => String::new(),
            (Some(port), _) => format!(":{port}"),
        };
        let path = match &self.path {
            Some(edit) => edit.apply(request.path, prefix),
            None => request.path.to_owned(),
        };
        let query = if request.query.is_empty() { "" } else { "?" };
        format!("{scheme}://{name}{port}{path}{query}{}", request.query)
    }
}

fn number(object: &Value, pointer: &str) -> Option<u16> {
    int(object, pointer).and_then(|number| u16::try_from(number).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_replaced_by_whole_segments() {
        let cases = [
            ("/foo/bar", "/foo", "/xyz", "/xyz/bar"),
            ("/foo/bar", "/foo", "/xyz/", "/xyz/bar"),
            ("/foo/bar", "/foo/", "/xyz", "/xyz/bar"),
            ("/foo", "/foo", "/xyz", "/xyz"),
            ("/foo", "/foo", "/", "/"),
            ("/foo/bar", "/foo", "", "/bar"),
            ("/foo/bar", "/", "/api", "/api/foo/bar"),
        ];
        for (path, prefix, new, want) in cases {
            let edit = PathEdit::Segments(new.to_owned());
            assert_eq!(edit.apply(path, Some(prefix)), want, "{path} {prefix} {new}");
        }
    }

    #[test]
    fn istio_replaces_letters_and_without_a_prefix_everything() {
        let edit = PathEdit::Letters("/new".to_owned());
        assert_eq!(edit.apply("/old-thing", Some("/old")), "/new-thing");
        assert_eq!(edit.apply("/old-thing", None), "/new");
    }
}
