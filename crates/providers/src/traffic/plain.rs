//! Plain Services: the apex Service selects one side or the other.
//!
//! Only with `service.switchApex`; without it the apex selects the primary at all times. The pods
//! of a side are those that its Service selects, so nothing of the workloads is needed here. The
//! three Services are made by [`crate::workload::services`].

use serde_json::{Map, Value, json};
use tidegate_api::canary::CanarySpec;
use tidegate_engine::{Percent, Split};

use super::{Place, RouteCase, RouteError, desired_object::refuse_taken};
use crate::{
    object::{Change, Live},
    workload::SERVICE,
};

/// Whether the apex may be switched.
pub(super) fn switches(spec: &CanarySpec) -> bool {
    spec.service.as_ref().is_some_and(|service| service.switch_apex == Some(true))
}

/// Which side the apex selects.
pub(super) fn read(case: &RouteCase<'_>, live: &Live) -> Result<Split, RouteError> {
    let names = &case.names;
    let selected = selector(case, live, &names.apex)?;
    if selected == selector(case, live, &names.primary)? {
        return Ok(Split::PRIMARY);
    }
    if selected == selector(case, live, &names.canary)? {
        return Ok(Split::CANARY);
    }
    let why =
        format!("it selects neither the pods of {} nor those of {}", names.primary, names.canary);
    Err(RouteError::Malformed { object: case.place(SERVICE), why })
}

/// Makes the apex select the side that has all traffic.
pub(super) fn write(
    case: &RouteCase<'_>,
    live: &Live,
    split: Split,
) -> Result<Vec<Change>, RouteError> {
    let names = &case.names;
    let side = if split.canary == Percent::ZERO { &names.primary } else { &names.canary };
    let wanted = selector(case, live, side)?;
    let selected = selector(case, live, &names.apex)?;
    if selected == wanted {
        return Ok(Vec::new());
    }
    let apex = live.get(SERVICE, &names.apex);
    refuse_taken(&case.cx.owner, SERVICE, apex)?;
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

/// The selector of the Service of this name.
pub(super) fn selector<'l>(
    case: &RouteCase<'_>,
    live: &'l Live,
    name: &str,
) -> Result<&'l Map<String, Value>, RouteError> {
    let object = || Place::new(SERVICE, case.cx.owner.namespace, name);
    let service =
        live.get(SERVICE, name).ok_or_else(|| RouteError::Missing { object: object() })?;
    let selector = service["spec"]["selector"].as_object().filter(|selector| !selector.is_empty());
    let why = || "it selects no pods".to_owned();
    selector.ok_or_else(|| RouteError::Malformed { object: object(), why: why() })
}
