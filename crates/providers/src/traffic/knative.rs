//! Knative: the target Service itself has revisions, and says how traffic is divided between them.
//!
//! No object is made. An annotation and the canary's status remember which revision is the primary;
//! the canary is the latest revision. After a promotion both are one revision, so the two entries
//! are told apart by whether they name it or follow the latest.

use serde_json::{Map, Value, json};
use tidegate_engine::{Percent, Split};

use super::{
    Cookies, Place, RouteCase, RouteCx, RouteError, desired_object::alike, plan::LiveRule,
    router::Router, weighted_backends::over, weights::Weights,
};
use crate::object::{Change, Kind, Live};

/// Kind of a Service of Knative.
pub const KNATIVE_SERVICE: Kind =
    Kind { group: "serving.knative.dev", version: "v1", kind: "Service", plural: "services" };

/// Names the revision that is the primary.
const PRIMARY: &str = "flagger.app/primary-revision";
const OWN: &[&str] = &["latestRevision", "revisionName", "configurationName", "percent"];

/// The router of Knative.
#[derive(Debug)]
pub(super) struct Knative;

fn place(case: &RouteCase<'_>) -> Place {
    Place::new(KNATIVE_SERVICE, case.cx.owner.namespace, &case.cx.spec.target_ref.name)
}

fn traffic(part: &Value) -> &[Value] {
    part["traffic"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The revision of a Service of Knative that is the primary, if one was chosen.
pub fn primary_revision(service: &Value) -> Option<&str> {
    let name = service["metadata"]["annotations"][PRIMARY].as_str()?;
    Some(name).filter(|name| !name.is_empty())
}

fn follows_latest(entry: &Value) -> bool {
    entry["latestRevision"] == true
}

fn names(entry: &Value, revision: &str) -> bool {
    !follows_latest(entry) && entry["revisionName"] == *revision
}

fn canary(entries: &[Value]) -> Option<&Value> {
    entries
        .iter()
        .find(|entry| follows_latest(entry) && entry["tag"].is_null())
        .or_else(|| entries.iter().find(|entry| follows_latest(entry)))
}

fn primary<'e>(entries: &'e [Value], revision: &str) -> Option<&'e Value> {
    entries.iter().find(|entry| names(entry, revision))
}

/// The entries for a split, and after them previews of the user's: entries with a tag. Those are reached
/// by their own address, and get nothing of what is divided here.
fn divided(service: &Value, revision: &str, percent: Percent) -> Value {
    let live = traffic(&service["spec"]);
    let (old_canary, old_primary) = (canary(live), primary(live, revision));
    let latest = json!({ "latestRevision": true, "percent": percent.get() });
    let named = json!({
        "latestRevision": false, "revisionName": revision, "percent": percent.rest().get(),
    });
    let is_old = |entry: &Value| Some(entry) == old_canary || Some(entry) == old_primary;
    let previews = live.iter().filter(|entry| !is_old(entry) && entry["tag"].is_string());
    let others = previews.cloned().map(|mut preview| {
        if preview["percent"].as_i64() != Some(0) && !preview["percent"].is_null() {
            preview["percent"] = json!(0);
        }
        preview
    });
    [over(old_canary, OWN, latest), over(old_primary, OWN, named)]
        .into_iter()
        .chain(others)
        .collect()
}

/// Sets traffic and annotation; none where they are so already.
fn change(service: &Value, revision: Option<&str>, traffic: Option<Value>) -> Option<Change> {
    let mut patch = Map::new();
    let mut metadata = json!({ "resourceVersion": service["metadata"]["resourceVersion"] });
    let is_annotated = primary_revision(service) == revision;
    if !is_annotated {
        metadata["annotations"] = json!({ PRIMARY: revision });
    }
    let traffic = traffic.filter(|traffic| !alike(traffic, &service["spec"]["traffic"]));
    if is_annotated && traffic.is_none() {
        return None;
    }
    patch.insert("metadata".to_owned(), metadata);
    patch.extend(traffic.map(|traffic| ("spec".to_owned(), json!({ "traffic": traffic }))));
    let name = service["metadata"]["name"].as_str()?.to_owned();
    Some(Change::Merge { kind: KNATIVE_SERVICE, name, patch: Value::Object(patch) })
}

/// The revision that has traffic by its name, or would have it beside one that follows the latest: the
/// primary, where only the annotation is gone.
fn pinned(service: &Value) -> Option<&str> {
    let entries = traffic(&service["spec"]);
    let named = |entry: &&Value| !follows_latest(entry) && entry["tag"].is_null();
    let has_share = |entry: &&Value| entry["percent"].as_i64().unwrap_or(0) > 0;
    let mut pinned = entries.iter().filter(named).filter(|it| it["revisionName"].is_string());
    let serving = pinned.clone().find(has_share);
    let beside = || pinned.next().filter(|_| canary(entries).is_some());
    serving.or_else(beside)?["revisionName"].as_str()
}

/// The revision that is to be the primary from now on: the one that has traffic by its name, the one that
/// is remembered, or before the first run the one that has all traffic already.
fn first_primary(case: &RouteCase<'_>, service: &Value) -> Result<String, RouteError> {
    match pinned(service).or(case.cx.primary) {
        Some(known) => Ok(known.to_owned()),
        None => latest(case, service).map(str::to_owned),
    }
}

/// The latest revision, once it can serve.
fn latest<'s>(case: &RouteCase<'_>, service: &'s Value) -> Result<&'s str, RouteError> {
    let status = &service["status"];
    let created = status["latestCreatedRevisionName"].as_str().filter(|name| !name.is_empty());
    let waiting = |why: &str| RouteError::NotReady {
        object: place(case),
        parent: "Knative".to_owned(),
        why: why.to_owned(),
    };
    let created = created.ok_or_else(|| waiting("it has no revision yet"))?;
    if status["latestReadyRevisionName"] != *created {
        return Err(waiting("its latest revision is not ready"));
    }
    Ok(created)
}

/// Makes the latest revision the primary, with the canary's share as it is.
///
/// Both entries lead to that revision then, and the previous one gets no more traffic.
pub(super) fn promote(case: &RouteCase<'_>, live: &Live) -> Result<Option<Change>, RouteError> {
    let split = super::router::read(&Knative, case, &live.without_status())?;
    let Some(service) = Knative.found(case, live) else { return Ok(None) };
    let latest = latest(case, service)?;
    Ok(change(service, Some(latest), Some(divided(service, latest, split.canary))))
}

impl Router for Knative {
    fn kinds(&self) -> &'static [Kind] {
        &[KNATIVE_SERVICE]
    }

    fn route(&self, cx: &RouteCx<'_>) -> (Kind, String) {
        (KNATIVE_SERVICE, cx.spec.target_ref.name.clone())
    }

    fn check(&self, case: &RouteCase<'_>) -> Result<(), RouteError> {
        if case.cx.spec.target_ref.is_knative() {
            return Ok(());
        }
        let why = "the provider \"knative\" needs a Service of serving.knative.dev/v1";
        Err(case.refuse("spec.targetRef", why))
    }

    fn seen(&self, _: &RouteCase<'_>, route: &Value) -> Option<LiveRule> {
        let entries = traffic(&route["spec"]);
        let primary = primary(entries, primary_revision(route)?)?;
        let (primary, canary) = (&primary["percent"], &canary(entries)?["percent"]);
        let weights = primary.as_i64().zip(canary.as_i64());
        Some(LiveRule {
            weights: weights.map(|(primary, canary)| Weights { primary, canary }),
            mirrored: false,
            scoped: false,
            cookies: Cookies::default(),
        })
    }

    /// Traffic is as its status shows, once Knative has applied it.
    fn obstacle(&self, case: &RouteCase<'_>, route: &Value) -> Option<RouteError> {
        let effective = traffic(&route["status"]);
        if !route["status"].is_object() {
            return None;
        }
        let revision = primary_revision(route)?;
        let entries = traffic(&route["spec"]);
        let percent =
            |entry: Option<&Value>| entry.and_then(|entry| entry["percent"].as_i64()).unwrap_or(0);
        let of = |list| (percent(primary(list, revision)), percent(canary(list)));
        let why = "traffic is not divided like this yet".to_owned();
        let parent = "Knative".to_owned();
        let error = RouteError::NotReady { object: place(case), parent, why };
        (of(entries) != of(effective)).then_some(error)
    }

    fn write(
        &self,
        case: &RouteCase<'_>,
        live: &Live,
        split: Split,
    ) -> Result<Option<Change>, RouteError> {
        let object = place(case);
        let Some(service) = self.found(case, live) else {
            return Err(RouteError::Missing { object });
        };
        let Some(revision) = primary_revision(service) else {
            let why = format!("annotation {PRIMARY} is missing");
            return Err(RouteError::Malformed { object, why });
        };
        Ok(change(service, Some(revision), Some(divided(service, revision, split.canary))))
    }

    /// Before the first run the revision that serves is written down, and traffic is pinned to it.
    fn keep(
        &self,
        case: &RouteCase<'_>,
        live: &Live,
        split: Split,
    ) -> Result<Option<Change>, RouteError> {
        let Some(service) = self.found(case, live) else {
            return Err(RouteError::Missing { object: place(case) });
        };
        let is_shaped = self.seen(case, service).is_some();
        let revision = match primary_revision(service) {
            Some(_) if is_shaped => return self.write(case, live, split),
            Some(revision) => revision.to_owned(),
            None => first_primary(case, service)?,
        };
        // With the annotation alone gone, traffic is already right.
        let is_divided = primary(traffic(&service["spec"]), &revision).is_some()
            && canary(traffic(&service["spec"])).is_some();
        let traffic = divided(service, &revision, Percent::ZERO);
        Ok(change(service, Some(&revision), Some(traffic).filter(|_| !is_divided)))
    }

    fn reset_to_primary(&self, _: &RouteCase<'_>, route: &Value) -> Option<Change> {
        let revision = primary_revision(route)?;
        change(route, Some(revision), Some(divided(route, revision, Percent::ZERO)))
    }

    /// New revisions get traffic again, as without a canary.
    fn finalize(&self, case: &RouteCase<'_>, live: &Live) -> Result<Vec<Change>, RouteError> {
        let Some(service) = self.found(case, live) else { return Ok(Vec::new()) };
        let Some(revision) = primary_revision(service) else { return Ok(Vec::new()) };
        let mut entries = divided(service, revision, Percent::ALL);
        if let Some(entries) = entries.as_array_mut() {
            entries.retain(|entry| !names(entry, revision) || !entry["tag"].is_null());
        }
        Ok(change(service, None, Some(entries)).into_iter().collect())
    }
}
