//! Copies of KEDA's `ScaledObject`.
//!
//! The spec is copied as it is, unknown fields included; only names of the target are replaced by
//! the primary's. The target's own is paused while the target is parked: KEDA would bring pods back
//! as soon as a trigger says so. Neither the pause nor KEDA's notes about the object are copied.

use serde_json::{Map, Value, json};
use tidegate_api::canary::AutoscalerRef;

use super::{Draft, bounds, primary_name};
use crate::{
    object::Change,
    workload::{
        Cx, SCALED_OBJECT, WorkloadError,
        metadata::{copied, with_version},
        name_of,
    },
};

/// Keeps KEDA from acting, and the target at so many replicas.
pub(super) const PAUSED_REPLICAS: &str = "autoscaling.keda.sh/paused-replicas";
/// The prefix of the annotations that keep KEDA from acting.
const PAUSED: &str = "autoscaling.keda.sh/paused";
/// The object's own name, which KEDA notes on it.
const OWN_NAME: &str = "scaledobject.keda.sh/name";
/// KEDA's default.
const MAX_REPLICAS: i64 = 100;

/// The fewest replicas KEDA allows; nothing is rolled out with none.
pub(super) fn min_replicas(scaled: &Value) -> i64 {
    scaled["spec"]["minReplicaCount"].as_i64().unwrap_or(0).max(1)
}

/// Whether KEDA keeps the target at zero.
pub(super) fn is_paused(scaled: &Value) -> bool {
    scaled["metadata"]["annotations"][PAUSED_REPLICAS] == "0"
}

/// Pauses the target's, or lets it act again; `None` where it is so already.
pub(super) fn pause(scaled: &Value, is_wanted: bool) -> Option<Change> {
    let marked = scaled["metadata"]["annotations"].get(PAUSED_REPLICAS).is_some();
    let is_so = if is_wanted { is_paused(scaled) } else { !marked };
    if is_so {
        return None;
    }
    let mark = if is_wanted { json!("0") } else { Value::Null };
    let metadata = json!({ "annotations": { PAUSED_REPLICAS: mark } });
    let patch = json!({ "metadata": with_version(metadata, Some(scaled)) });
    Some(Change::Merge { kind: SCALED_OBJECT, name: name_of(scaled).to_owned(), patch })
}

/// Makes the primary's, or brings it up to date with the target's; `None` where it is.
pub(super) fn sync(
    cx: &Cx<'_>,
    autoscaler: &AutoscalerRef,
    target: &Value,
    live: Option<&Value>,
) -> Result<Option<Change>, WorkloadError> {
    let is_copied = |key: &String| !key.starts_with(PAUSED) && key != OWN_NAME;
    let all = |field: &str| -> (String, Value) {
        let members = copied(&target["metadata"][field]).into_iter();
        let members: Map<_, _> = members.filter(|(key, _)| is_copied(key)).collect();
        (field.to_owned(), Value::Object(members))
    };
    let draft = Draft {
        kind: SCALED_OBJECT,
        metadata: ["labels", "annotations"].map(all).into_iter().collect(),
        spec: primary_spec(cx, autoscaler, target)?,
    };
    draft.put(cx, autoscaler, live.map(|live| (live, &live["spec"])))
}

fn primary_spec(
    cx: &Cx<'_>,
    autoscaler: &AutoscalerRef,
    target: &Value,
) -> Result<Value, WorkloadError> {
    let mut spec = target["spec"].as_object().cloned().unwrap_or_default();
    let mut reference = spec.get("scaleTargetRef").cloned().unwrap_or_default();
    if !reference.is_object() {
        reference = json!({});
    }
    reference["name"] = json!(cx.primary_name());
    spec.insert("scaleTargetRef".to_owned(), reference);
    let (min, max) = bounds(autoscaler, &target["spec"], ("minReplicaCount", "maxReplicaCount"));
    let (least, most) = (min.unwrap_or(0), max.unwrap_or(MAX_REPLICAS));
    if least > most {
        return Err(WorkloadError::ScalerBounds {
            kind: SCALED_OBJECT.kind,
            name: primary_name(autoscaler),
            min: least,
            max: most,
        });
    }
    for (field, bound) in [("minReplicaCount", min), ("maxReplicaCount", max)] {
        if let Some(bound) = bound {
            spec.insert(field.to_owned(), json!(bound));
        }
    }
    let mut spec = Value::Object(spec);
    // Two autoscalers of one name would overwrite each other.
    if let Some(name) = spec.pointer_mut("/advanced/horizontalPodAutoscalerConfig/name")
        && let Some(text) = name.as_str().filter(|text| !text.is_empty())
    {
        *name = json!(format!("{text}-primary"));
    }
    let triggers = spec.get_mut("triggers").and_then(Value::as_array_mut);
    for trigger in triggers.into_iter().flatten() {
        let own = trigger["name"].as_str().and_then(|it| autoscaler.primary_scaler_queries.get(it));
        let own = own.cloned();
        let Some(query) = trigger.pointer_mut("/metadata/query") else { continue };
        if let Some(own) = own {
            *query = json!(own);
        } else if autoscaler.primary_scaler_queries.is_empty()
            && let Some(text) = query.as_str()
        {
            *query = json!(of_primary(text, cx.target));
        }
    }
    Ok(spec)
}

/// A query about the primary instead of the target or its canary Service.
///
/// As Flagger, every occurrence of the name is meant. Names of the primary are left as they are.
fn of_primary(query: &str, target: &str) -> String {
    if target.is_empty() {
        return query.to_owned();
    }
    let mut parts = query.split(target);
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push_str(target);
        if !part.starts_with("-primary") {
            text.push_str("-primary");
        }
        text.push_str(part.strip_prefix("-canary").unwrap_or(part));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use tidegate_api::canary::{AutoscalerKind, ScalerReplicas};

    use super::*;
    use crate::{
        object::Owner,
        workload::{LabelPrefixes, WorkloadKind, testing::applied},
    };

    fn reference() -> AutoscalerRef {
        AutoscalerRef {
            api_version: "keda.sh/v1alpha1".to_owned(),
            kind: AutoscalerKind::ScaledObject,
            name: "shop-so".to_owned(),
            primary_scaler_queries: BTreeMap::default(),
            primary_scaler_replicas: None,
        }
    }

    fn synced(
        autoscaler: &AutoscalerRef,
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
        sync(&cx, autoscaler, target, live)
    }

    fn made(autoscaler: &AutoscalerRef, target: &Value) -> Value {
        applied(None, &synced(autoscaler, target, None).unwrap().unwrap()).unwrap()
    }

    fn target() -> Value {
        json!({
            "metadata": {
                "name": "shop-so", "resourceVersion": "4", "uid": "u-so",
                "labels": { "team": "a", "scaledobject.keda.sh/name": "shop-so",
                    "kustomize.toolkit.fluxcd.io/name": "apps" },
                "annotations": { "scaledobject.keda.sh/transfer-hpa-ownership": "true",
                    "autoscaling.keda.sh/paused-replicas": "0" },
            },
            "spec": {
                "scaleTargetRef": { "name": "shop", "envSourceContainerName": "app" },
                "pollingInterval": 10, "cooldownPeriod": 20,
                "minReplicaCount": 2, "maxReplicaCount": 8,
                "advanced": { "horizontalPodAutoscalerConfig": { "name": "shop" } },
                "fromTheFuture": { "field": [1, 2] },
                "triggers": [
                    { "type": "prometheus", "name": "load", "metadata": {
                        "query": "rate(total{app=\"shop\"}[1m])", "threshold": "5" } },
                    { "type": "cron", "metadata": { "start": "0 8 * * *" } },
                ],
            },
        })
    }

    #[test]
    fn the_copy_scales_the_primary_by_what_the_primary_does() {
        let copy = made(&reference(), &target());
        assert_eq!(copy["metadata"]["name"], "shop-so-primary");
        assert_eq!(copy["metadata"]["labels"], json!({ "team": "a" }));
        let mut want = target()["spec"].clone();
        want["scaleTargetRef"]["name"] = json!("shop-primary");
        want["advanced"]["horizontalPodAutoscalerConfig"]["name"] = json!("shop-primary");
        want["triggers"][0]["metadata"]["query"] = json!("rate(total{app=\"shop-primary\"}[1m])");
        assert_eq!(copy["spec"], want, "also what nobody here has heard of");
    }

    #[test]
    fn a_copy_is_never_paused() {
        let mut target = target();
        target["metadata"]["annotations"]["autoscaling.keda.sh/paused"] = json!("true");
        let want = json!({ "scaledobject.keda.sh/transfer-hpa-ownership": "true" });
        assert_eq!(made(&reference(), &target)["metadata"]["annotations"], want);
    }

    #[test]
    fn a_copy_left_at_zero_is_woken_and_one_paused_by_a_user_is_not() {
        let scaler = crate::workload::scaler::Scaler::ScaledObject;
        let mut copy = made(&reference(), &target());
        assert_eq!(scaler.wake(&copy), None);
        copy["metadata"]["annotations"][PAUSED_REPLICAS] = json!("3");
        assert_eq!(scaler.wake(&copy), None, "somebody wants three");
        copy["metadata"]["annotations"][PAUSED_REPLICAS] = json!("0");
        let woken = applied(Some(&copy), &scaler.wake(&copy).unwrap()).unwrap();
        assert_eq!(woken["metadata"]["annotations"].get(PAUSED_REPLICAS), None);
        assert_eq!(woken["spec"], copy["spec"]);
    }

    #[test]
    fn queries_speak_of_the_primary() {
        let cases = [
            ("the name", "a{app=\"shop\"}", "a{app=\"shop-primary\"}"),
            ("the canary Service", "a{svc=\"shop-canary\"}", "a{svc=\"shop-primary\"}"),
            ("the primary already", "a{app=\"shop-primary\"}", "a{app=\"shop-primary\"}"),
            ("both", "shop / shop-primary", "shop-primary / shop-primary"),
            ("twice", "shop shop-canary", "shop-primary shop-primary"),
            ("something else", "a{app=\"cart\"}", "a{app=\"cart\"}"),
            ("nothing", "", ""),
        ];
        for (reason, query, want) in cases {
            assert_eq!(of_primary(query, "shop"), want, "{reason}");
        }
    }

    #[test]
    fn queries_of_the_canarys_own_replace_those_of_their_triggers_alone() {
        let mut autoscaler = reference();
        autoscaler.primary_scaler_queries.insert("load".to_owned(), "own".to_owned());
        let mut target = target();
        let other =
            json!({ "type": "prometheus", "name": "other", "metadata": { "query": "shop" } });
        target["spec"]["triggers"].as_array_mut().unwrap().push(other);
        let copy = made(&autoscaler, &target);
        assert_eq!(copy["spec"]["triggers"][0]["metadata"]["query"], "own");
        assert_eq!(copy["spec"]["triggers"][2]["metadata"]["query"], "shop", "as Flagger");
    }

    #[test]
    fn the_canary_may_set_other_bounds() {
        let cases = [
            ("none", None, Some((2, 8))),
            ("a minimum", Some((Some(3), None)), Some((3, 8))),
            ("a maximum", Some((None, Some(9))), Some((2, 9))),
            ("a minimum over the maximum", Some((Some(9), None)), None),
        ];
        for (reason, replicas, want) in cases {
            let mut autoscaler = reference();
            autoscaler.primary_scaler_replicas = replicas
                .map(|(min_replicas, max_replicas)| ScalerReplicas { min_replicas, max_replicas });
            let found = synced(&autoscaler, &target(), None).ok().flatten().map(|change| {
                let copy = applied(None, &change).unwrap();
                let bound = |field: &str| copy["spec"][field].as_i64().unwrap();
                (bound("minReplicaCount"), bound("maxReplicaCount"))
            });
            assert_eq!(found, want, "{reason}");
        }
    }

    #[test]
    fn a_copy_that_agrees_is_not_written_and_keeps_what_others_wrote_on_it() {
        let mut live = made(&reference(), &target());
        live["metadata"]["labels"] = json!({ "scaledobject.keda.sh/name": "shop-so-primary" });
        live["metadata"]["annotations"] = json!({ "theirs": "1" });
        assert_eq!(synced(&reference(), &target(), Some(&live)).unwrap(), None);
        let mut newer = target();
        newer["spec"]["maxReplicaCount"] = json!(9);
        let change = synced(&reference(), &newer, Some(&live)).unwrap().unwrap();
        let after = applied(Some(&live), &change).unwrap();
        assert_eq!(after["spec"]["maxReplicaCount"], 9);
        assert_eq!(after["metadata"]["annotations"]["theirs"], "1");
        assert_eq!(after["metadata"]["labels"]["scaledobject.keda.sh/name"], "shop-so-primary");
        assert_eq!(synced(&reference(), &newer, Some(&after)).unwrap(), None);
    }

    #[test]
    fn a_users_object_of_the_name_is_not_overwritten() {
        let mut users = made(&reference(), &target());
        users["metadata"]["ownerReferences"] = json!([]);
        let refused = synced(&reference(), &target(), Some(&users)).unwrap_err();
        assert_eq!(refused.label(), "NotOurs");
    }

    #[test]
    fn a_pause_is_written_once_and_taken_back_whole() {
        let paused = target();
        assert!(is_paused(&paused));
        assert_eq!(pause(&paused, true), None, "paused already");
        let running = applied(Some(&paused), &pause(&paused, false).unwrap()).unwrap();
        assert!(!is_paused(&running));
        assert_eq!(pause(&running, false), None, "runs already");
        let again = applied(Some(&running), &pause(&running, true).unwrap()).unwrap();
        assert_eq!(again["metadata"]["annotations"], target()["metadata"]["annotations"]);
        let mut held = target();
        held["metadata"]["annotations"]["autoscaling.keda.sh/paused-replicas"] = json!("3");
        assert!(!is_paused(&held), "at three");
        assert!(pause(&held, true).is_some() && pause(&held, false).is_some());
    }

    #[test]
    fn a_rollout_starts_with_at_least_one() {
        for (min, want) in [(Value::Null, 1), (json!(0), 1), (json!(3), 3)] {
            assert_eq!(min_replicas(&json!({ "spec": { "minReplicaCount": min } })), want);
        }
    }

    proptest! {
        #[test]
        fn a_query_of_the_primary_stays_as_it_is(query in "[shop\\-canryim ]{0,24}") {
            let once = of_primary(&query, "shop");
            prop_assert_eq!(of_primary(&once, "shop"), once);
        }

        #[test]
        fn no_object_is_too_strange(text in "[a-z]{0,3}", at in 0_usize..5) {
            let mut target = target();
            let places = ["/spec", "/spec/triggers", "/spec/scaleTargetRef", "/metadata", "/spec/advanced"];
            *target.pointer_mut(places[at]).unwrap() = json!(text);
            let _ = (synced(&reference(), &target, None), pause(&target, true), is_paused(&target));
        }
    }
}
