//! Takes over a Service that existed before the canary, and restores it.
//!
//! ```text
//! taken over:  original in an annotation, Flux disabled
//! restored:    as last applied with kubectl, else as in the annotation, else onto the target
//! ```

use serde_json::{Map, Value, json};
use tidegate_api::canary::{Service, ServiceNames};

use super::{Role, SelectorLabel, Services, Side, patch, ports, ports_of};
use crate::{
    object::{Change, FLUX_OFF, HANDED_OVER, Owner, controller_of},
    workload::{
        SERVICE, WorkloadError,
        hash::canonical,
        metadata::{LAST_APPLIED, merge_map},
        name_of,
    },
};

/// Where the original of a routing object is kept, as Flagger does for others.
const ORIGINAL: &str = "flagger.kubernetes.io/original-configuration";

/// Whether the owner of a Service handed it over to the canary, and so wants it back.
pub fn is_handed_over(owner: &Owner<'_>, live: &Value) -> bool {
    controller_of(live).is_none() && live["metadata"]["annotations"][HANDED_OVER] == *owner.name
}

/// Restores the apex where the target is gone: by the recorded original, and by nothing else.
pub fn give_back(
    owner: Owner<'_>,
    service: &Service,
    names: ServiceNames,
    live: Option<&Value>,
) -> Result<Option<Change>, WorkloadError> {
    let is_taken = |live: &&Value| live["metadata"]["annotations"][ORIGINAL].is_string();
    // Nothing selects by it: the pods are not known any more.
    let selector = SelectorLabel { key: String::new(), value: String::new() };
    let services = Services::new(owner, service, names, selector, &Value::Null);
    services.finalize(live.filter(is_taken))
}

/// The original of the fields that we change on a user's Service.
struct Original {
    selector: Map<String, Value>,
    ports: Vec<Value>,
    annotations: Map<String, Value>,
}

// === impl Services ===

impl Services<'_> {
    /// Restores the apex when the canary is deleted; `None` where nothing is to be done.
    ///
    /// Call it when the target is ready: it ends with the selector on the target's pods, or with
    /// the selector of the user's manifest. A Service of a canary is left to garbage collection.
    pub fn finalize(&self, live: Option<&Value>) -> Result<Option<Change>, WorkloadError> {
        let Some(live) = live else { return Ok(None) };
        if let Some(("Canary", _)) = controller_of(live) {
            return Ok(None);
        }
        let original = original_of(live)?;
        let selector = original
            .as_ref()
            .map(|original| &original.selector)
            .filter(|selector| !selector.is_empty() && !self.selects_primary(Some(selector)))
            .cloned();
        // Without an original, a Service that selects other pods was restored before.
        let is_taken = self.selects_primary(live["spec"]["selector"].as_object());
        let onto_target = || is_taken.then(|| self.selector(Role::Apex(Side::Canary)));
        let mut spec = Map::new();
        if let Some(selector) = selector.or_else(onto_target)
            && let Some(selector) = merge_map(&live["spec"]["selector"], &selector)
        {
            spec.insert("selector".to_owned(), selector);
        }
        if let Some(ports) =
            original.as_ref().and_then(|original| self.restored_ports(original, live))
        {
            spec.insert("ports".to_owned(), Value::Array(ports));
        }
        let mut metadata = Map::new();
        let annotations = restored_annotations(original.as_ref(), live);
        if let Some(annotations) = merge_map(&live["metadata"]["annotations"], &annotations) {
            metadata.insert("annotations".to_owned(), annotations);
        }
        Ok(patch(live, metadata, spec))
    }

    /// Refuses a Service of others that serves something else: its clients would get the primary's pods.
    ///
    /// Its selector must match the target's pod template, or lead to the primary already, as Flagger leaves it.
    /// One that this canary took over before is its own, and so is one that was handed over.
    pub(super) fn refuse_unasked(&self, live: &Value) -> Result<(), WorkloadError> {
        let canary = self.owner.name;
        let refused = |why: String| {
            Err(WorkloadError::ServiceRefused { name: name_of(live).to_owned(), why })
        };
        if live["spec"]["type"] == "ExternalName" {
            let way_out = "choose another spec.service.name";
            return refused(format!("is an ExternalName and selects no pods; {way_out}"));
        }
        let selector = live["spec"]["selector"].as_object().filter(|it| !it.is_empty());
        let Some(selector) = selector else {
            let way_out =
                "add one that selects the target's pods, or choose another spec.service.name";
            return refused(format!("has no selector; {way_out}"));
        };
        let is_of_target =
            selector.iter().all(|(key, value)| self.pod_labels.get(key) == Some(value));
        let kept = live["metadata"]["annotations"][ORIGINAL].as_str().and_then(parse);
        let was_taken = kept.is_some_and(|kept| kept["canary"] == canary);
        if is_of_target
            || was_taken
            || self.selects_primary(Some(selector))
            || is_handed_over(&self.owner, live)
        {
            return Ok(());
        }
        refused(format!(
            "selects other pods than the target's; choose another spec.service.name, or hand it over \
             with the annotation {HANDED_OVER}: {canary}"
        ))
    }

    /// The annotations a Service gets when it is taken over, and whether it is just now.
    ///
    /// The original is written once. A Service that selects the primary already was taken over by
    /// Flagger, and how it looked before is not known.
    pub(super) fn takeover_annotations(&self, live: &Value) -> (Map<String, Value>, bool) {
        let present = &live["metadata"]["annotations"];
        let mut annotations: Map<_, _> =
            FLUX_OFF.into_iter().map(|(key, value)| (key.to_owned(), json!(value))).collect();
        let is_taken = self.selects_primary(live["spec"]["selector"].as_object());
        let original = match present.get(ORIGINAL) {
            Some(original) => Some(original.clone()),
            None if is_taken => None,
            None => {
                let flux = FLUX_OFF.map(|(key, _)| (key, present.get(key)));
                let flux = flux.into_iter().filter_map(|(key, value)| Some((key, value?)));
                let original = json!({
                    "canary": self.owner.name,
                    "selector": live["spec"]["selector"],
                    "ports": live["spec"]["ports"],
                    "annotations": flux.collect::<std::collections::BTreeMap<_, _>>(),
                });
                Some(json!(canonical(&original)))
            }
        };
        annotations.extend(original.map(|original| (ORIGINAL.to_owned(), original)));
        (annotations, present.get(ORIGINAL).is_none() && !is_taken)
    }

    fn selects_primary(&self, selector: Option<&Map<String, Value>>) -> bool {
        let value = selector.and_then(|selector| selector.get(&self.selector.key));
        value.is_some_and(|value| *value == self.selector.primary_value())
    }

    /// The original ports and those others added since; `None` where they are there already.
    fn restored_ports(&self, original: &Original, live: &Value) -> Option<Vec<Value>> {
        if original.ports.is_empty() {
            return None;
        }
        let live_ports = ports_of(live);
        let is_like = |one: &Value, other: &Value| {
            ports::key(one) == ports::key(other)
                || !ports::name(one).is_empty() && ports::name(one) == ports::name(other)
        };
        let mut restored = ports::with_node_ports(&original.ports, live_ports);
        let added = live_ports.iter().filter(|live| {
            let is_original = original.ports.iter().any(|port| is_like(port, live));
            let is_ours = self.ports.iter().any(|port| is_like(port, live));
            !is_original && !is_ours
        });
        restored.extend(added.cloned());
        (!ports::are_same(&restored, live_ports)).then_some(restored)
    }
}

/// The annotations without ours, and with those of ours that were there before.
fn restored_annotations(original: Option<&Original>, live: &Value) -> Map<String, Value> {
    let mut annotations = live["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
    annotations.remove(ORIGINAL);
    for (key, value) in FLUX_OFF {
        if annotations.get(key).and_then(Value::as_str) != Some(value) {
            continue;
        }
        match original.and_then(|original| original.annotations.get(key)) {
            Some(before) => annotations.insert(key.to_owned(), before.clone()),
            None => annotations.remove(key),
        };
    }
    annotations
}

/// The original of the Service, as far as it was recorded.
///
/// The user's last apply is newer than our record, and takes precedence.
fn original_of(live: &Value) -> Result<Option<Original>, WorkloadError> {
    let annotation = |key: &str| live["metadata"]["annotations"][key].as_str();
    let kept =
        annotation(ORIGINAL).and_then(parse).map(|kept| Original::new(&kept, &kept["annotations"]));
    let Some(manifest) = annotation(LAST_APPLIED) else { return Ok(kept) };
    let Some(manifest) = parse(manifest) else {
        let unreadable = || WorkloadError::OriginalUnreadable {
            kind: SERVICE.kind,
            name: name_of(live).to_owned(),
            annotation: LAST_APPLIED,
        };
        return kept.map(Some).ok_or_else(unreadable);
    };
    let applied = Original::new(&manifest["spec"], &manifest["metadata"]["annotations"]);
    let says_something = !applied.selector.is_empty();
    Ok(if says_something { Some(applied) } else { kept })
}

fn parse(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok().filter(Value::is_object)
}

// === impl Original ===

impl Original {
    fn new(spec: &Value, annotations: &Value) -> Self {
        Self {
            selector: spec["selector"].as_object().cloned().unwrap_or_default(),
            ports: spec["ports"].as_array().cloned().unwrap_or_default(),
            annotations: annotations.as_object().cloned().unwrap_or_default(),
        }
    }
}
