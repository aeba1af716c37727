//! Plain Services: the apex Service selects one side or the other.
//!
//! Only with `service.switchApex`; without it the apex selects the primary at all times. Which pods
//! are a side's is what the Services of the two sides select, so nothing of the workloads is needed
//! here. Making the three Services is not this module's business.

use serde_json::{Map, Value, json};
use tidegate_api::canary::CanarySpec;
use tidegate_engine::{Percent, Split};

use super::{Place, RouteError, Scene, draft::refuse_taken};
use crate::{
    object::{Change, Live},
    workload::SERVICE,
};

/// Whether the apex may be switched.
pub(super) fn switches(spec: &CanarySpec) -> bool {
    spec.service.as_ref().is_some_and(|service| service.switch_apex == Some(true))
}

/// Which side the apex selects.
pub(super) fn read(scene: &Scene<'_>, live: &Live) -> Result<Split, RouteError> {
    let names = &scene.names;
    let selected = selector(scene, live, &names.apex)?;
    if selected == selector(scene, live, &names.primary)? {
        return Ok(Split::PRIMARY);
    }
    if selected == selector(scene, live, &names.canary)? {
        return Ok(Split::CANARY);
    }
    let why =
        format!("it selects neither the pods of {} nor those of {}", names.primary, names.canary);
    Err(RouteError::Malformed { object: scene.place(SERVICE), why })
}

/// Makes the apex select the side that has all traffic.
pub(super) fn write(
    scene: &Scene<'_>,
    live: &Live,
    split: Split,
) -> Result<Vec<Change>, RouteError> {
    let names = &scene.names;
    let side = if split.canary == Percent::ZERO { &names.primary } else { &names.canary };
    let wanted = selector(scene, live, side)?;
    let selected = selector(scene, live, &names.apex)?;
    if selected == wanted {
        return Ok(Vec::new());
    }
    let apex = live.get(SERVICE, &names.apex);
    refuse_taken(&scene.cx.owner, SERVICE, apex)?;
    let dropped = selected.keys().map(|key| (key.clone(), Value::Null));
    let mut patch: Map<_, _> = dropped.collect();
    patch.extend(wanted.clone());
    let version = apex.map(|apex| &apex["metadata"]["resourceVersion"]);
    let patch = json!({
        "metadata": { "resourceVersion": version },
        "spec": { "selector": patch },
    });
    Ok(vec![Change::Merge { kind: SERVICE, name: names.apex.clone(), patch }])
}

/// What the Service of this name selects.
pub(super) fn selector<'l>(
    scene: &Scene<'_>,
    live: &'l Live,
    name: &str,
) -> Result<&'l Map<String, Value>, RouteError> {
    let object = || Place::new(SERVICE, scene.cx.owner.namespace, name);
    let service =
        live.get(SERVICE, name).ok_or_else(|| RouteError::Missing { object: object() })?;
    let selector = service["spec"]["selector"].as_object().filter(|selector| !selector.is_empty());
    let why = || "it selects no pods".to_owned();
    selector.ok_or_else(|| RouteError::Malformed { object: object(), why: why() })
}
