//! Clones of a user's object, which itself is never changed: how the routes of NGINX, Skipper and
//! APISIX are made.
//!
//! Marks of tools that manage the original are not copied: a tool that finds its own mark on the
//! clone would take it for its own, and delete or rewrite it.

use std::{borrow::Cow, collections::BTreeMap, fmt::Debug};

use serde_json::{Map, Value};
use tidegate_engine::Split;

use super::{
    INGRESS, Place, RouteCase, RouteCx, RouteError, delete,
    desired_object::{DesiredObject, escaped},
    ingress,
    plan::LiveRule,
    router::{Router, put},
    takeover::{KUBECTL, TakenOver, applied, is_backed_up, restore},
};
use crate::object::{Change, Kind, Live, controller_of};

/// Marks of `kubectl`, Argo CD, Flux and Helm, by how they begin.
const MARKS: [&str; 5] = [
    KUBECTL,
    "argocd.argoproj.io/",
    "kustomize.toolkit.fluxcd.io/",
    "helm.toolkit.fluxcd.io/",
    "meta.helm.sh/",
];

/// Names the annotations that were copied, so that the removal of one from the original is noticed.
const COPIED: &str = "tidegate.dev/copied-annotations";

/// A provider whose route is cloned from one of the user's: an Ingress, unless it says otherwise.
pub(super) trait ClonedRoute: Debug {
    /// The kind of both.
    fn kind(&self) -> &'static Kind {
        &INGRESS
    }

    /// The name of the original, if the spec has one.
    fn original_name<'a>(&self, cx: &RouteCx<'a>) -> Option<&'a str> {
        ingress::original_name(cx)
    }

    /// The name of the copy.
    fn copy_name(&self, cx: &RouteCx<'_>) -> String {
        ingress::copy_name(cx)
    }

    /// Whether a copy can be made for this spec.
    fn check(&self, case: &RouteCase<'_>) -> Result<(), RouteError>;

    /// The meaning of a live copy; `None` where it is not as we make it.
    fn seen(&self, case: &RouteCase<'_>, copy: &Value) -> Option<LiveRule>;

    /// The content of the copy.
    fn copy(
        &self,
        case: &RouteCase<'_>,
        from: &CloneSource<'_>,
        split: Split,
    ) -> Result<CloneSpec, RouteError>;

    /// The live copy with everything sent to the primary and nothing else changed.
    fn reset_to_primary(&self, case: &RouteCase<'_>, copy: &Value) -> Option<Change>;

    /// Whether a copy that its owner would delete is deleted all the same.
    fn is_deleted_at_once(&self) -> bool {
        false
    }
}

/// The objects a copy is made from.
#[derive(Clone, Copy, Debug)]
pub(super) struct CloneSource<'l> {
    /// The user's own.
    pub(super) original: &'l Value,
    /// The copy there is.
    pub(super) copy: Option<&'l Value>,
}

/// The content of a copy.
#[derive(Debug)]
pub(super) struct CloneSpec {
    pub(super) annotations: BTreeMap<String, String>,
    pub(super) spec: Value,
    pub(super) exact: Vec<Cow<'static, str>>,
}

/// The router of such a provider.
#[derive(Debug)]
pub(super) struct ClonedObject<C>(pub(super) C);

/// Annotations of the original that fit, as the copy has them, and their names.
///
/// An apply removes the fields of an earlier one. Without their names on the copy nothing would show that
/// there is something to remove.
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

// === impl ClonedObject ===

impl<C: ClonedRoute> Router for ClonedObject<C> {
    fn kinds(&self) -> &'static [Kind] {
        std::slice::from_ref(self.0.kind())
    }

    fn route(&self, cx: &RouteCx<'_>) -> (Kind, String) {
        (*self.0.kind(), self.0.copy_name(cx))
    }

    fn others(&self, cx: &RouteCx<'_>) -> Vec<(Kind, String)> {
        vec![(*self.0.kind(), self.0.original_name(cx).unwrap_or_default().to_owned())]
    }

    fn check(&self, case: &RouteCase<'_>) -> Result<(), RouteError> {
        self.0.check(case)
    }

    fn seen(&self, case: &RouteCase<'_>, route: &Value) -> Option<LiveRule> {
        self.0.seen(case, route)
    }

    fn write(
        &self,
        case: &RouteCase<'_>,
        live: &Live,
        split: Split,
    ) -> Result<Option<Change>, RouteError> {
        let (kind, name) = (*self.0.kind(), self.0.original_name(case.cx).unwrap_or_default());
        let missing = || Place::new(kind, case.cx.owner.namespace, name);
        let original = live.get(kind, name);
        let original = original.ok_or_else(|| RouteError::Missing { object: missing() })?;
        let from = CloneSource { original, copy: self.found(case, live) };
        let CloneSpec { annotations, spec, mut exact } = self.0.copy(case, &from, split)?;
        // Flagger copies all annotations, kubectl's of the original among them.
        if from.copy.is_some_and(|copy| applied(copy).is_none()) {
            exact.push(format!("/metadata/annotations/{}", escaped(KUBECTL)).into());
        }
        let desired = DesiredObject {
            kind,
            name: self.0.copy_name(case.cx),
            labels: metadata(original, "labels"),
            annotations,
            spec,
            beside: Map::new(),
            exact,
            shaped: from.copy.is_some_and(|copy| self.seen(case, copy).is_some()),
        };
        put(&case.cx.owner, live, desired)
    }

    fn reset_to_primary(&self, case: &RouteCase<'_>, route: &Value) -> Option<Change> {
        self.0.reset_to_primary(case, route)
    }

    /// A copy that was a user's own is restored; one without another owner is deleted.
    fn finalize(&self, case: &RouteCase<'_>, live: &Live) -> Result<Vec<Change>, RouteError> {
        let Some(copy) = self.found(case, live) else { return Ok(Vec::new()) };
        let (kind, owner) = (*self.0.kind(), &case.cx.owner);
        let shaped = self.seen(case, copy).is_some();
        let is_ours = match controller_of(copy) {
            Some(_) => owner.owns(copy) && self.0.is_deleted_at_once(),
            None if is_backed_up(copy) => {
                let back = TakenOver { kind, live: copy, shaped, filled_in: &[] };
                return Ok(restore(owner, back)?.into_iter().collect());
            }
            None => shaped,
        };
        Ok(delete(kind, copy).filter(|_| is_ours).into_iter().collect())
    }
}
