//! Rules by which pods keep away from their like, which are other pods for the primary.
//!
//! A target that spreads its own pods over nodes must not, in the copy, spread the primary's pods away from
//! the target's. Pod affinity and node affinity are about other pods and stay unchanged.

use serde_json::{Value, json};

use super::SelectorLabel;
use crate::workload::Cx;

/// Points the rules that mean the target's own pods to the primary's.
pub(super) fn rewrite(pod_spec: &mut Value, cx: &Cx<'_>, selector: &SelectorLabel) {
    let spread = pod_spec.pointer_mut("/topologySpreadConstraints");
    for constraint in spread.and_then(Value::as_array_mut).into_iter().flatten() {
        rewrite_selector(constraint.get_mut("labelSelector"), cx, selector);
    }
    let terms = [
        ("/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution", ""),
        (
            "/affinity/podAntiAffinity/preferredDuringSchedulingIgnoredDuringExecution",
            "/podAffinityTerm",
        ),
    ];
    for (list, term) in terms {
        for item in pod_spec.pointer_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            rewrite_selector(item.pointer_mut(&format!("{term}/labelSelector")), cx, selector);
        }
    }
}

/// As Flagger: only of the labels that may tell pods apart, and of each expression only the first
/// value that matches. Flagger compares with the target's name alone, and misses targets whose
/// label has another value.
fn rewrite_selector(label_selector: Option<&mut Value>, cx: &Cx<'_>, selector: &SelectorLabel) {
    let Some(label_selector) = label_selector else { return };
    let is_key = |key: &str| cx.selector_labels.iter().any(|known| known == key);
    let is_own = |value: &Value| *value == cx.target || *value == selector.value;
    if let Some(labels) = label_selector.get_mut("matchLabels").and_then(Value::as_object_mut) {
        for (key, value) in labels {
            if is_key(key) && is_own(value) {
                append_primary(value);
            }
        }
    }
    let expressions = label_selector.get_mut("matchExpressions").and_then(Value::as_array_mut);
    for expression in expressions.into_iter().flatten() {
        if !expression["key"].as_str().is_some_and(is_key) {
            continue;
        }
        let values = expression.get_mut("values").and_then(Value::as_array_mut);
        if let Some(value) = values.into_iter().flatten().find(|value| is_own(value)) {
            append_primary(value);
        }
    }
}

fn append_primary(value: &mut Value) {
    if let Some(text) = value.as_str() {
        *value = json!(format!("{text}-primary"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        object::Owner,
        workload::{LabelPrefixes, WorkloadKind},
    };

    fn rewritten(pod_spec: Value) -> Value {
        let keys = ["app".to_owned(), "name".to_owned()];
        let cx = Cx {
            owner: Owner { name: "shop", namespace: "test", uid: "1", can_own: true },
            workload: WorkloadKind::Deployment,
            target: "shop",
            selector_labels: &keys,
            included: &LabelPrefixes::default(),
        };
        let selector = SelectorLabel { key: "app".to_owned(), value: "web".to_owned() };
        let mut pod_spec = pod_spec;
        rewrite(&mut pod_spec, &cx, &selector);
        pod_spec
    }

    /// A selector in each of the three places, and in one that is not ours to change.
    fn places(selector: &Value) -> Value {
        let term = json!({ "labelSelector": selector });
        json!({
            "topologySpreadConstraints": [{ "maxSkew": 1, "labelSelector": selector }],
            "affinity": {
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [term],
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        { "weight": 1, "podAffinityTerm": term },
                    ],
                },
            },
        })
    }

    #[test]
    fn selectors_of_the_targets_own_pods_become_the_primarys() {
        let expression = |key: &str, values: &[&str]| {
            let expression = json!({ "key": key, "operator": "In", "values": values });
            json!({ "matchExpressions": [expression] })
        };
        let cases = [
            (
                "by name",
                json!({ "matchLabels": { "app": "shop", "tier": "shop" } }),
                json!({ "matchLabels": { "app": "shop-primary", "tier": "shop" } }),
            ),
            (
                "by the value of the label",
                json!({ "matchLabels": { "app": "web" } }),
                json!({ "matchLabels": { "app": "web-primary" } }),
            ),
            (
                "other pods",
                json!({ "matchLabels": { "app": "cart" } }),
                json!({ "matchLabels": { "app": "cart" } }),
            ),
            (
                "the first value of an expression",
                expression("name", &["cart", "shop", "shop"]),
                expression("name", &["cart", "shop-primary", "shop"]),
            ),
            (
                "an expression over another label",
                expression("tier", &["shop"]),
                expression("tier", &["shop"]),
            ),
            (
                "an expression without values",
                json!({ "matchExpressions": [{ "key": "app", "operator": "Exists" }] }),
                json!({ "matchExpressions": [{ "key": "app", "operator": "Exists" }] }),
            ),
        ];
        for (reason, selector, want) in cases {
            assert_eq!(rewritten(places(&selector)), places(&want), "{reason}");
        }
    }

    #[test]
    fn rules_about_other_things_stay() {
        let selector = json!({ "matchLabels": { "app": "shop" } });
        let pod_spec = json!({ "affinity": {
            "podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [{ "labelSelector": selector }],
            },
            "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{ "matchExpressions": [
                    { "key": "app", "operator": "In", "values": ["shop"] },
                ] }],
            } },
        } });
        assert_eq!(rewritten(pod_spec.clone()), pod_spec);
    }
}
