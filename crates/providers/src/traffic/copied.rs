//! Objects made from one of the user's, which itself is never touched.
//!
//! What says who looks after the original is not copied: a tool that finds its own mark on the copy
//! would take it for its own, and delete or rewrite it.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    RouteError, Scene, delete,
    takeover::{KUBECTL, ORIGINAL, restore},
};
use crate::object::{Change, Kind, controller_of};

/// Marks of `kubectl`, Argo CD, Flux and Helm, by how they begin.
const MARKS: [&str; 5] = [
    KUBECTL,
    "argocd.argoproj.io/",
    "kustomize.toolkit.fluxcd.io/",
    "helm.toolkit.fluxcd.io/",
    "meta.helm.sh/",
];

/// Names the annotations that were copied, so that one that is gone from the original is missed.
const COPIED: &str = "tidegate.dev/copied-annotations";

/// Annotations of the original that fit, as the copy has them, and which those are.
///
/// An apply takes back what an earlier one had. Without their names on the copy nothing would tell
/// that there is something to take back.
pub(super) fn annotations(
    original: &Value,
    fits: impl Fn(&str) -> bool,
) -> BTreeMap<String, String> {
    let mut annotations = metadata(original, "annotations");
    annotations.retain(|key, _| fits(key));
    if !annotations.is_empty() {
        let names: Vec<_> = annotations.keys().map(String::as_str).collect();
        annotations.insert(COPIED.to_owned(), names.join(","));
    }
    annotations
}

/// Labels or annotations of the original, as the copy has them.
pub(super) fn metadata(original: &Value, member: &str) -> BTreeMap<String, String> {
    let entries = original["metadata"][member].as_object().into_iter().flatten();
    let texts = entries.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
    texts.filter(|(key, _)| !MARKS.iter().any(|mark| key.starts_with(mark))).collect()
}

/// What becomes of a copy in the end: given back if it was somebody's, deleted if nobody else does.
pub(super) fn undo(
    scene: &Scene<'_>,
    kind: Kind,
    copy: &Value,
    shaped: bool,
) -> Result<Option<Change>, RouteError> {
    let owner = &scene.cx.owner;
    let annotations = &copy["metadata"]["annotations"];
    if annotations[ORIGINAL].is_string() || annotations[KUBECTL].is_string() {
        return restore(owner, kind, copy, shaped);
    }
    let goes_with_it = controller_of(copy).is_some();
    Ok(delete(kind, copy).filter(|_| shaped && !goes_with_it))
}
