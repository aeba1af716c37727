//! Copies of a `HorizontalPodAutoscaler`, read and written as `autoscaling/v2`.
//!
//! The target's own needs no pause: a Deployment at 0 replicas is left alone by its autoscaler.

use serde_json::{Map, Value, json};
use tidegate_api::canary::AutoscalerRef;

use super::{Draft, bounds, primary_name};
use crate::{
    object::Change,
    workload::{Cx, HORIZONTAL_POD_AUTOSCALER, WorkloadError, metadata::copied},
};

/// The fewest replicas the autoscaler allows.
pub(super) fn min_replicas(autoscaler: &Value) -> i64 {
    autoscaler["spec"]["minReplicas"].as_i64().unwrap_or(1)
}

/// Makes the primary's autoscaler, or brings it up to date with the target's; `None` where it is.
pub(super) fn sync(
    cx: &Cx<'_>,
    autoscaler: &AutoscalerRef,
    target: &Value,
    live: Option<&Value>,
) -> Result<Option<Change>, WorkloadError> {
    let labels = json!(copied(&target["metadata"]["labels"]));
    let draft = Draft {
        kind: HORIZONTAL_POD_AUTOSCALER,
        metadata: Map::from_iter([("labels".to_owned(), labels)]),
        spec: primary_spec(cx, autoscaler, target)?,
    };
    let live_spec = live.map(|live| with_default_min(&live["spec"]));
    draft.put(cx, autoscaler, live.zip(live_spec.as_ref()))
}

fn primary_spec(
    cx: &Cx<'_>,
    autoscaler: &AutoscalerRef,
    target: &Value,
) -> Result<Value, WorkloadError> {
    let source = &target["spec"];
    let mut spec = Map::new();
    spec.insert(
        "scaleTargetRef".to_owned(),
        json!({
            "apiVersion": source["scaleTargetRef"]["apiVersion"],
            "kind": source["scaleTargetRef"]["kind"],
            "name": cx.primary_name(),
        }),
    );
    let (min, max) = bounds(autoscaler, source, ("minReplicas", "maxReplicas"));
    let (min, max) = (min.unwrap_or(1), max.unwrap_or(1));
    if min > max {
        return Err(WorkloadError::ScalerBounds {
            kind: HORIZONTAL_POD_AUTOSCALER.kind,
            name: primary_name(autoscaler),
            min,
            max,
        });
    }
    spec.insert("minReplicas".to_owned(), json!(min));
    spec.insert("maxReplicas".to_owned(), json!(max));
    for field in ["metrics", "behavior"] {
        if let Some(value) = source.get(field) {
            spec.insert(field.to_owned(), value.clone());
        }
    }
    Ok(Value::Object(spec))
}

/// The spec with the minimum it has where it names none.
fn with_default_min(spec: &Value) -> Value {
    let mut spec = spec.as_object().cloned().unwrap_or_default();
    spec.entry("minReplicas").or_insert_with(|| json!(1));
    Value::Object(spec)
}

#[cfg(test)]
mod tests {
    use tidegate_api::canary::{AutoscalerKind, ScalerReplicas};

    use super::*;
    use crate::{
        object::Owner,
        workload::{LabelPrefixes, WorkloadKind, testing::applied},
    };

    fn synced(
        replicas: Option<(Option<i32>, Option<i32>)>,
        target: &Value,
        live: Option<&Value>,
    ) -> Result<Option<Change>, WorkloadError> {
        let cx = Cx {
            owner: Owner { name: "shop", namespace: "test", uid: "u-shop", can_own: true },
            workload: WorkloadKind::Deployment,
            target: "shop",
            selector_labels: &[],
            included: &LabelPrefixes::default(),
        };
        let autoscaler = AutoscalerRef {
            api_version: "autoscaling/v2".to_owned(),
            kind: AutoscalerKind::HorizontalPodAutoscaler,
            name: "shop-scaler".to_owned(),
            primary_scaler_queries: std::collections::BTreeMap::default(),
            primary_scaler_replicas: replicas
                .map(|(min_replicas, max_replicas)| ScalerReplicas { min_replicas, max_replicas }),
        };
        sync(&cx, &autoscaler, target, live)
    }

    fn target() -> Value {
        json!({
            "metadata": {
                "name": "shop-scaler",
                "labels": { "team": "a", "kustomize.toolkit.fluxcd.io/name": "apps" },
                "annotations": { "note": "mine" },
            },
            "spec": {
                "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "shop" },
                "minReplicas": 2, "maxReplicas": 8,
                "metrics": [{ "type": "Resource", "resource": { "name": "cpu" } }],
                "behavior": { "scaleDown": { "stabilizationWindowSeconds": 300 } },
            },
        })
    }

    fn live() -> Value {
        applied(None, &synced(None, &target(), None).unwrap().unwrap()).unwrap()
    }

    #[test]
    fn the_copy_scales_the_primary() {
        let live = live();
        assert_eq!(live["metadata"]["name"], "shop-scaler-primary");
        assert_eq!(live["metadata"]["labels"], json!({ "team": "a" }));
        assert_eq!(live["metadata"].get("annotations"), None);
        let mut spec = target()["spec"].clone();
        spec["scaleTargetRef"]["name"] = json!("shop-primary");
        assert_eq!(live["spec"], spec);
    }

    #[test]
    fn the_canary_may_set_other_bounds() {
        let cases = [
            ("none", None, Some((2, 8))),
            ("a minimum", Some((Some(3), None)), Some((3, 8))),
            ("a maximum", Some((None, Some(9))), Some((2, 9))),
            ("both", Some((Some(1), Some(1))), Some((1, 1))),
            ("a minimum over the maximum", Some((Some(9), None)), None),
        ];
        for (reason, replicas, want) in cases {
            let found = synced(replicas, &target(), None).ok().flatten().map(|change| {
                let live = applied(None, &change).unwrap();
                let bound = |field: &str| live["spec"][field].as_i64().unwrap();
                (bound("minReplicas"), bound("maxReplicas"))
            });
            assert_eq!(found, want, "{reason}");
        }
    }

    #[test]
    fn a_copy_that_agrees_is_not_written() {
        assert_eq!(synced(None, &target(), Some(&live())).unwrap(), None);
        let mut annotated = live();
        annotated["metadata"]["annotations"] = json!({ "theirs": "1" });
        annotated["metadata"]["labels"] = json!({});
        assert_eq!(synced(None, &target(), Some(&annotated)).unwrap(), None, "not compared");
        let (mut minimal, mut live) = (target(), live());
        minimal["spec"].as_object_mut().unwrap().remove("minReplicas");
        live["spec"].as_object_mut().unwrap().remove("minReplicas");
        assert_eq!(synced(None, &minimal, Some(&live)).unwrap(), None, "an absent minimum is 1");
        assert_eq!(min_replicas(&minimal), 1);
    }

    #[test]
    fn fields_that_the_target_lost_go_from_the_copy() {
        let mut plain = target();
        plain["spec"].as_object_mut().unwrap().remove("behavior");
        let change = synced(None, &plain, Some(&live())).unwrap().unwrap();
        let after = applied(Some(&live()), &change).unwrap();
        assert_eq!(after["spec"].get("behavior"), None);
        assert_eq!(synced(None, &plain, Some(&after)).unwrap(), None);
    }

    #[test]
    fn a_users_autoscaler_of_the_name_is_not_overwritten() {
        let mut users = live();
        users["metadata"]["ownerReferences"] = json!([]);
        assert_eq!(synced(None, &target(), Some(&users)).unwrap_err().label(), "NotOurs");
    }
}
