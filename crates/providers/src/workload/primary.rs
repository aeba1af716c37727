//! The primary: the copy of the user's workload that runs in production.
//!
//! The copy differs from the target in one label that tells the pods apart, in the configuration it
//! reads and in an identifier of the promotion. Everything is a function of the target, so that a
//! promotion cut short is finished by doing it again, and restarts no pod twice.
//!
//! ```text
//! target ── promote ──> primary ── deleted? ── recreate <── Snapshot (the last promotion)
//! ```

mod affinity;
mod readiness;
mod snapshot;
mod trim;

use std::{borrow::Cow, fmt::Write as _};

use serde_json::{Map, Value, json};
use tidegate_engine::Form;

pub use self::{
    readiness::Deadline,
    snapshot::{Snapshot, recreate},
    trim::template_writers_after,
};
use super::{
    Cx, WorkloadError, WorkloadKind,
    config::{Tracked, rewrite},
    hash::{hex, is_same, sha256},
    metadata::{copied, included, is_contained, is_owner, owners, with_version},
    name_of, require_owned,
};
use crate::object::{Change, exactly};

/// The label that tells the pods of target and primary apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectorLabel {
    /// Its key.
    pub key: String,
    /// Its value on the target's pods.
    pub value: String,
}

/// The promotion to make.
#[derive(Clone, Copy, Debug)]
pub struct Promotion<'a> {
    /// The revision that was analysed. Any other is refused.
    pub revision: &'a str,
    /// The configuration it was analysed with.
    pub tracked: &'a Tracked,
    /// Whether a scaler, not the target, says how many replicas the primary has.
    pub has_scaler: bool,
}

/// Annotation of the primary's pods that changes with every promotion.
const FLAGGER_ID: &str = "flagger-id";
/// Longest name of a Service, and longest value of a label.
const LABEL_LENGTH_MAX: usize = 63;
/// Longest name of an object, less the dash and ten characters of the names of its `ReplicaSet`s or
/// `ControllerRevision`s.
const WORKLOAD_LENGTH_MAX: usize = 253 - 11;

/// The primary's pod template, but for its `flagger-id`.
pub fn primary_template(
    cx: &Cx<'_>,
    target: &Value,
    tracked: &Tracked,
) -> Result<Value, WorkloadError> {
    let selector = SelectorLabel::of(cx, target)?;
    let template = cx.workload.template(target);
    let mut labels = copied(&template["metadata"]["labels"]);
    labels.insert(selector.key.clone(), json!(selector.primary_value()));
    let mut annotations = copied(&template["metadata"]["annotations"]);
    annotations.remove(FLAGGER_ID);

    let mut metadata = template["metadata"].as_object().cloned().unwrap_or_default();
    metadata.remove("creationTimestamp");
    metadata.insert("labels".to_owned(), Value::Object(labels));
    metadata.insert("annotations".to_owned(), Value::Object(annotations));
    let mut spec = template["spec"].clone();
    rewrite(&mut spec, tracked);
    // As Flagger: daemons are on all nodes, with their like or without.
    if cx.workload == WorkloadKind::Deployment {
        affinity::rewrite(&mut spec, cx, &selector);
    }
    Ok(json!({ "metadata": metadata, "spec": spec }))
}

/// The identifier of a promotion: in the form of a UUID, the same for the same revision and
/// configuration.
pub fn flagger_id(revision: &str, tracked: &Tracked) -> String {
    let mut text = revision.to_owned();
    for (key, checksum) in tracked {
        let _infallible = write!(text, "\n{key}={checksum}");
    }
    let mut bytes = sha256(text.as_bytes());
    // Version 8 is for identifiers made in one's own way, variant 1 for those of RFC 9562.
    let [_, _, _, _, _, _, version, _, variant, ..] = &mut bytes;
    *version = *version & 0x0f | 0x80;
    *variant = *variant & 0x3f | 0x80;
    let digits = hex(&bytes, 16);
    let part = |from: usize, to: usize| digits.get(from..to).unwrap_or_default();
    [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)].join("-")
}

/// Makes the primary of the target as it is.
pub fn create_primary(
    cx: &Cx<'_>,
    target: &Value,
    tracked: &Tracked,
) -> Result<Change, WorkloadError> {
    let replicas = cx.workload.replicas(target).max(1);
    let labels = included(&target["metadata"]["labels"], cx.included);
    let annotations = copied(&target["metadata"]["annotations"]);
    let object = primary_object(cx, target, tracked, labels, &annotations)?;
    Ok(make(cx, object, replicas))
}

/// Brings the primary to the revision that was analysed; `None` where it is there already.
///
/// Replicas are the target's unless a scaler decides, and never 0: the target may be parked, and
/// the primary is what serves.
pub fn promote(
    cx: &Cx<'_>,
    target: &Value,
    live: &Value,
    promotion: &Promotion<'_>,
) -> Result<Option<Change>, WorkloadError> {
    require_owned(&cx.owner, cx.workload.kind(), live)?;
    require_revision(cx, target, promotion.revision)?;
    let (labels, annotations) = promoted_metadata(cx, target);
    let mut body = primary_object(cx, target, promotion.tracked, labels, &annotations)?;
    require_selected(cx, live, &body)?;
    set_replicas(cx, &mut body, promoted_replicas(cx, target, live, promotion.has_scaler));
    // A selector cannot be changed; Flagger's may have other labels than ours would.
    body["spec"]["selector"] = live["spec"]["selector"].clone();
    if is_promoted(cx, live, &body) {
        return Ok(None);
    }
    body["metadata"]["ownerReferences"] = owners(&cx.owner, Some(live));
    body["metadata"] = with_version(body["metadata"].take(), Some(live));
    Ok(Some(Change::Apply { body, exact: exact(cx.workload) }))
}

/// The replicas of a primary after a promotion: the target's, or the live primary's own where the
/// target is at 0 or an autoscaler decides.
pub fn promoted_replicas(cx: &Cx<'_>, target: &Value, live: &Value, has_scaler: bool) -> i64 {
    let asked = cx.workload.replicas(target);
    if has_scaler || asked == 0 { cx.workload.replicas(live) } else { asked }
}

/// Whether the primary runs this template, whenever it was promoted.
pub fn runs_same(live: &Value, template: &Value) -> bool {
    is_same(&without_id(&live["spec"]["template"]), &without_id(template))
}

/// Refuses names from which no objects can be named; the API server would, at every tick anew.
pub fn check_names(cx: &Cx<'_>, selector: &SelectorLabel, apex: &str) -> Result<(), WorkloadError> {
    let names = [
        ("Service", format!("{apex}-primary"), LABEL_LENGTH_MAX),
        ("Service", format!("{apex}-canary"), LABEL_LENGTH_MAX),
        ("the label of the primary's pods", selector.primary_value(), LABEL_LENGTH_MAX),
        (cx.workload.kind().kind, cx.primary_name(), WORKLOAD_LENGTH_MAX),
    ];
    for (what, name, most) in names {
        let length = name.len();
        if length > most {
            return Err(WorkloadError::NameTooLong { what, name, length, most });
        }
    }
    Ok(())
}

/// The primary as we would write it, without replicas and owners.
fn primary_object(
    cx: &Cx<'_>,
    target: &Value,
    tracked: &Tracked,
    mut labels: Map<String, Value>,
    annotations: &Map<String, Value>,
) -> Result<Value, WorkloadError> {
    let selector = SelectorLabel::of(cx, target)?;
    let primary_value = selector.primary_value();
    labels.insert(selector.key.clone(), json!(primary_value));
    let id = flagger_id(&cx.workload.revision(target), tracked);
    let mut match_labels = Map::new();
    match_labels.insert(selector.key, json!(primary_value));

    let mut spec = Map::new();
    for field in cx.workload.copied() {
        if let Some(value) = target["spec"].get(field) {
            spec.insert((*field).to_owned(), value.clone());
        }
    }
    // The API server leaves out a 0, and a field that is left out here would stay as it was.
    let min_ready = target["spec"]["minReadySeconds"].as_i64().unwrap_or(0);
    spec.insert("minReadySeconds".to_owned(), json!(min_ready));
    let field = cx.workload.strategy();
    let strategy = target["spec"][field].as_object().cloned().unwrap_or_default();
    spec.insert(field.to_owned(), Value::Object(strategy));
    spec.insert("selector".to_owned(), json!({ "matchLabels": match_labels }));
    spec.insert("template".to_owned(), with_id(primary_template(cx, target, tracked)?, &id));
    Ok(json!({
        "apiVersion": cx.workload.kind().api_version(),
        "kind": cx.workload.kind().kind,
        "metadata": {
            "name": cx.primary_name(),
            "namespace": cx.owner.namespace,
            "labels": labels,
            "annotations": annotations,
        },
        "spec": spec,
    }))
}

/// Labels and annotations of a promoted primary.
fn promoted_metadata(cx: &Cx<'_>, target: &Value) -> (Map<String, Value>, Map<String, Value>) {
    let metadata = &target["metadata"];
    (included(&metadata["labels"], cx.included), included(&metadata["annotations"], cx.included))
}

/// The change that makes an object that is not there.
fn make(cx: &Cx<'_>, mut object: Value, replicas: i64) -> Change {
    set_replicas(cx, &mut object, replicas);
    object["metadata"]["ownerReferences"] = owners(&cx.owner, None);
    Change::Apply { body: object, exact: exact(cx.workload) }
}

/// Applied every time: a field we applied once and then leave out would be removed, and a Deployment
/// without replicas has one.
fn set_replicas(cx: &Cx<'_>, object: &mut Value, replicas: i64) {
    if cx.workload.form() == Form::Replicas {
        object["spec"]["replicas"] = json!(replicas);
    }
}

/// Subtrees of the primary that are ours alone: a field that others added to the template would run
/// in production without having been analysed. A strategy merged with another is not valid.
fn exact(workload: WorkloadKind) -> Vec<Cow<'static, str>> {
    let strategy = match workload {
        WorkloadKind::DaemonSet => "/spec/updateStrategy",
        WorkloadKind::Deployment | WorkloadKind::Service | WorkloadKind::Knative => {
            "/spec/strategy"
        }
    };
    exactly(&["/spec/template", strategy, "/metadata/ownerReferences"])
}

/// Refuses a target at any other revision.
pub(super) fn require_revision(
    cx: &Cx<'_>,
    target: &Value,
    analysed: &str,
) -> Result<(), WorkloadError> {
    let found = cx.workload.revision(target);
    if found == analysed {
        return Ok(());
    }
    Err(WorkloadError::TargetMoved {
        kind: cx.workload.kind().kind,
        name: cx.target.to_owned(),
        analysed: analysed.to_owned(),
        found,
    })
}

/// Refuses a template whose pods the live primary would not select.
fn require_selected(cx: &Cx<'_>, live: &Value, body: &Value) -> Result<(), WorkloadError> {
    let match_labels = live["spec"]["selector"]["matchLabels"].as_object();
    let labels = &body["spec"]["template"]["metadata"]["labels"];
    if match_labels.is_none_or(|match_labels| is_contained(match_labels, labels)) {
        return Ok(());
    }
    let (kind, name) = (cx.workload.kind().kind, name_of(live).to_owned());
    Err(WorkloadError::SelectorChanged { kind, name })
}

/// Whether the live primary has all fields of `body`.
fn is_promoted(cx: &Cx<'_>, live: &Value, body: &Value) -> bool {
    let spec = body["spec"].as_object().into_iter().flatten();
    let is_same_spec = spec.into_iter().all(|(field, wanted)| {
        let live = &live["spec"][field];
        is_same(live, wanted) || live.is_null() && *wanted == 0
    });
    let contains = |field: &str| {
        let wanted = body["metadata"][field].as_object();
        wanted.is_none_or(|wanted| is_contained(wanted, &live["metadata"][field]))
    };
    is_same_spec && contains("labels") && contains("annotations") && is_owner(&cx.owner, live)
}

fn with_id(mut template: Value, id: &str) -> Value {
    if let Some(annotations) =
        template.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut)
    {
        annotations.insert(FLAGGER_ID.to_owned(), json!(id));
    }
    template
}

fn without_id(template: &Value) -> Value {
    let mut template = template.clone();
    if let Some(annotations) =
        template.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut)
    {
        annotations.remove(FLAGGER_ID);
    }
    template
}

// === impl SelectorLabel ===

impl SelectorLabel {
    /// The first of the known labels by which the target selects its pods.
    pub fn of(cx: &Cx<'_>, target: &Value) -> Result<Self, WorkloadError> {
        let labels = &target["spec"]["selector"]["matchLabels"];
        let found = cx.selector_labels.iter().find_map(|key| {
            let value = labels[key.as_str()].as_str()?;
            Some(Self { key: key.clone(), value: value.to_owned() })
        });
        found.ok_or_else(|| WorkloadError::NoSelectorLabel {
            kind: cx.workload.kind().kind,
            name: cx.target.to_owned(),
            labels: cx.selector_labels.join(", "),
        })
    }

    /// Its value on the primary's pods.
    pub fn primary_value(&self) -> String {
        format!("{}-primary", self.value)
    }
}

#[cfg(test)]
mod tests;
