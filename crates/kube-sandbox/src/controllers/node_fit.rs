//! Checks whether a pod may run on a node: name, labels, affinity, taints.
//!
//! Shared by the scheduler and the DaemonSet controller, so that a daemon is created only where it
//! can be scheduled.

use serde_json::Value;

use crate::controllers::object::{flag, items, label, name, strings, text};

/// The reason why a node does not fit, in the scheduler's words.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Misfit {
    NodeName,
    Affinity,
    Unschedulable,
    Taint,
}

/// Taint effects to check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effects {
    /// `NoSchedule` and `NoExecute`: keep new pods away.
    Scheduling,
    /// `NoExecute` alone: evicts running pods too.
    Execution,
}

/// The first reason why a pod with `spec` does not fit on `node`, if any.
pub(crate) fn misfit(spec: &Value, node: &Value) -> Option<Misfit> {
    let wanted = text(spec, "/nodeName");
    if !wanted.is_empty() && wanted != name(node) {
        return Some(Misfit::NodeName);
    }
    if flag(node, "/spec/unschedulable") && !tolerates_cordon(spec) {
        return Some(Misfit::Unschedulable);
    }
    if untolerated(spec, node, Effects::Scheduling).is_some() {
        return Some(Misfit::Taint);
    }
    (!matches_labels(spec, node)).then_some(Misfit::Affinity)
}

/// True when `nodeSelector` and required node affinity both accept the node.
pub(crate) fn matches_labels(spec: &Value, node: &Value) -> bool {
    let selector = strings(spec.get("nodeSelector"));
    if !selector.iter().all(|(key, value)| label(node, key) == Some(value)) {
        return false;
    }
    let required =
        "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    // Terms are alternatives; an absent list is no requirement.
    spec.pointer(required)
        .and_then(Value::as_array)
        .is_none_or(|terms| terms.iter().any(|term| matches_term(term, node)))
}

fn matches_term(term: &Value, node: &Value) -> bool {
    let (expressions, fields) = (items(term, "/matchExpressions"), items(term, "/matchFields"));
    if expressions.is_empty() && fields.is_empty() {
        return false;
    }
    expressions.iter().all(|e| matches_expression(e, label(node, text(e, "/key"))))
        && fields.iter().all(|field| {
            let known = text(field, "/key") == "metadata.name";
            known && matches_expression(field, Some(name(node)))
        })
}

fn matches_expression(expression: &Value, value: Option<&str>) -> bool {
    let listed = |value: &str| {
        items(expression, "/values").iter().any(|listed| listed.as_str() == Some(value))
    };
    let compare = |test: fn(i64, i64) -> bool| {
        let bound = items(expression, "/values").first().and_then(Value::as_str);
        let bound = bound.and_then(|bound| bound.parse().ok());
        let value = value.and_then(|value| value.parse().ok());
        value.zip(bound).is_some_and(|(value, bound)| test(value, bound))
    };
    match text(expression, "/operator") {
        "In" => value.is_some_and(listed),
        "NotIn" => value.is_none_or(|value| !listed(value)),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compare(|value, bound| value > bound),
        "Lt" => compare(|value, bound| value < bound),
        _ => false,
    }
}

/// The first taint of `node` with one of `effects` that the pod does not tolerate.
pub(crate) fn untolerated<'a>(
    spec: &Value,
    node: &'a Value,
    effects: Effects,
) -> Option<&'a Value> {
    let matters = |taint: &&Value| match text(taint, "/effect") {
        "NoExecute" => true,
        "NoSchedule" => effects == Effects::Scheduling,
        _ => false,
    };
    let tolerations = items(spec, "/tolerations");
    let mut taints = items(node, "/spec/taints").iter().filter(matters);
    taints.find(|taint| !tolerations.iter().any(|toleration| tolerates(toleration, taint)))
}

fn tolerates(toleration: &Value, taint: &Value) -> bool {
    let (effect, key) = (text(toleration, "/effect"), text(toleration, "/key"));
    if !effect.is_empty() && effect != text(taint, "/effect") {
        return false;
    }
    if !key.is_empty() && key != text(taint, "/key") {
        return false;
    }
    match text(toleration, "/operator") {
        "Exists" => true,
        "" | "Equal" => !key.is_empty() && text(toleration, "/value") == text(taint, "/value"),
        _ => false,
    }
}

fn tolerates_cordon(spec: &Value) -> bool {
    let cordon = serde_json::json!({
        "key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule",
    });
    items(spec, "/tolerations").iter().any(|toleration| tolerates(toleration, &cordon))
}

// === impl Misfit ===

impl std::fmt::Display for Misfit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NodeName => f.write_str("node(s) didn't match the requested node name"),
            Self::Affinity => f.write_str("node(s) didn't match Pod's node affinity/selector"),
            Self::Unschedulable => f.write_str("node(s) were unschedulable"),
            Self::Taint => f.write_str("node(s) had untolerated taint(s)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_fits_where_labels_and_taints_let_it() {
        let plain = json!({
            "metadata": { "name": "n1", "labels": {"disk": "ssd", "cores": "8"} }, "spec": {},
        });
        let with = |key: &str, value: Value| {
            let mut node = plain.clone();
            node["spec"][key] = value;
            node
        };
        let tainted = with("taints", json!([{"key": "gpu", "value": "a", "effect": "NoSchedule"}]));
        let cordoned = with("unschedulable", json!(true));
        let affinity = |term: Value| {
            json!({ "affinity": { "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [term] },
            } } })
        };
        let field = |value: &str| {
            affinity(json!({ "matchFields": [
                {"key": "metadata.name", "operator": "In", "values": [value]},
            ] }))
        };
        let tolerant = json!({ "tolerations": [{"key": "gpu", "operator": "Exists"}] });
        let more_cores = affinity(json!({ "matchExpressions": [
            {"key": "cores", "operator": "Gt", "values": ["4"]},
        ] }));
        let cases = [
            ("no wishes", json!({}), &plain, None),
            ("label there", json!({"nodeSelector": {"disk": "ssd"}}), &plain, None),
            (
                "label wrong",
                json!({"nodeSelector": {"disk": "hdd"}}),
                &plain,
                Some(Misfit::Affinity),
            ),
            ("its own name", field("n1"), &plain, None),
            ("another name", field("n2"), &plain, Some(Misfit::Affinity)),
            ("number above", more_cores, &plain, None),
            ("cordoned", json!({}), &cordoned, Some(Misfit::Unschedulable)),
            ("tainted", json!({}), &tainted, Some(Misfit::Taint)),
            ("taint tolerated", tolerant, &tainted, None),
        ];
        for (reason, spec, node, want) in cases {
            assert_eq!(misfit(&spec, node), want, "{reason}");
        }
    }
}
