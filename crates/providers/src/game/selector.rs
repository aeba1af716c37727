//! Label selectors as JSON: whether they select an object, and their text for `status.labelSelector`.
//!
//! Kept by hand beside `kube::core::Selector`, which cannot give the same answers: it refuses a selector
//! with an unknown operator or without values, where this one selects nothing by it and still prints it;
//! it takes an empty selector for all objects; and it drops repeated values from the text, which Kubernetes
//! keeps. It also needs a copy of the labels for each question, and each pod is compared with each workload
//! of its namespace. A test compares both wherever they must agree.

use serde_json::Value;

/// Whether an object with these labels is selected. An empty selector selects nothing.
pub fn is_selected(selector: &Value, labels: &Value) -> bool {
    let requirements = requirements(selector);
    !requirements.is_empty() && requirements.iter().all(|it| it.is_met(labels))
}

/// The selector as autoscalers and `kubectl` take it: all of it, sorted by key.
pub fn selector_text(selector: &Value) -> String {
    let mut requirements = requirements(selector);
    requirements.sort_by(|one, other| one.key.cmp(other.key));
    requirements.iter().map(Requirement::text).collect::<Vec<_>>().join(",")
}

struct Requirement<'a> {
    key: &'a str,
    operator: Operator,
    /// Sorted.
    values: Vec<&'a str>,
}

enum Operator {
    Equals,
    In,
    NotIn,
    Exists,
    DoesNotExist,
    /// Never met.
    Unknown,
}

fn requirements(selector: &Value) -> Vec<Requirement<'_>> {
    let labels = selector["matchLabels"].as_object().into_iter().flatten();
    let equal = labels.map(|(key, value)| Requirement {
        key,
        operator: Operator::Equals,
        values: vec![value.as_str().unwrap_or_default()],
    });
    let expressions = selector["matchExpressions"].as_array().into_iter().flatten();
    let others = expressions.map(|expression| {
        let values = expression["values"].as_array().into_iter().flatten();
        let mut values: Vec<&str> = values.filter_map(Value::as_str).collect();
        values.sort_unstable();
        Requirement {
            key: expression["key"].as_str().unwrap_or_default(),
            operator: match expression["operator"].as_str() {
                Some("In") => Operator::In,
                Some("NotIn") => Operator::NotIn,
                Some("Exists") => Operator::Exists,
                Some("DoesNotExist") => Operator::DoesNotExist,
                _ => Operator::Unknown,
            },
            values,
        }
    });
    equal.chain(others).collect()
}

// === impl Requirement ===

impl Requirement<'_> {
    fn is_met(&self, labels: &Value) -> bool {
        let value = labels[self.key].as_str();
        let is_listed = value.is_some_and(|value| self.values.contains(&value));
        match self.operator {
            Operator::Equals | Operator::In => is_listed,
            Operator::NotIn => !is_listed,
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::Unknown => false,
        }
    }

    fn text(&self) -> String {
        let (key, values) = (self.key, self.values.join(","));
        match self.operator {
            Operator::Equals => format!("{key}={values}"),
            Operator::In | Operator::Unknown => format!("{key} in ({values})"),
            Operator::NotIn => format!("{key} notin ({values})"),
            Operator::Exists => key.to_owned(),
            Operator::DoesNotExist => format!("!{key}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
    use kube::core::{Selector, SelectorExt as _};
    use serde_json::json;

    use super::*;

    /// Labels that every selector of the tables is tried on.
    fn labels() -> [Value; 4] {
        [
            json!({}),
            json!({ "app": "arena" }),
            json!({ "app": "arena", "tier": "a" }),
            json!({ "app": "lobby", "tier": "b", "canary": "" }),
        ]
    }

    fn expression(operator: &str, values: &Value) -> Value {
        json!({ "matchExpressions": [{ "key": "tier", "operator": operator, "values": values }] })
    }

    fn answers(selector: &Value) -> [bool; 4] {
        labels().map(|labels| is_selected(selector, &labels))
    }

    #[test]
    fn valid_selectors_are_answered_and_printed_as_by_the_library() {
        let both = json!({
            "matchLabels": { "app": "arena" },
            "matchExpressions": [{ "key": "tier", "operator": "Exists" }],
        });
        let cases = [
            ("a label", json!({ "matchLabels": { "app": "arena" } }), "app=arena"),
            (
                "two labels",
                json!({ "matchLabels": { "tier": "a", "app": "arena" } }),
                "app=arena,tier=a",
            ),
            ("an empty value", json!({ "matchLabels": { "canary": "" } }), "canary="),
            ("one of", expression("In", &json!(["b", "a"])), "tier in (a,b)"),
            ("none of", expression("NotIn", &json!(["a"])), "tier notin (a)"),
            ("there", expression("Exists", &Value::Null), "tier"),
            ("not there", expression("DoesNotExist", &Value::Null), "!tier"),
            ("both", both, "app=arena,tier"),
        ];
        for (reason, selector, text) in cases {
            assert_eq!(selector_text(&selector), text, "{reason}");
            let parsed: LabelSelector = serde_json::from_value(selector.clone()).unwrap();
            let library = Selector::try_from(parsed).unwrap();
            assert_eq!(library.to_string(), text, "{reason}");
            let wanted = labels().map(|labels| {
                let labels: BTreeMap<String, String> = serde_json::from_value(labels).unwrap();
                library.matches(&labels)
            });
            assert_eq!(answers(&selector), wanted, "{reason}");
        }
    }

    #[test]
    fn selectors_that_the_library_refuses_or_changes_have_answers_too() {
        let (none, all) = ([false; 4], [true; 4]);
        let with_a = [false, false, true, false];
        let cases = [
            ("empty", json!({}), "", none),
            ("not there", Value::Null, "", none),
            ("an unknown operator", expression("Near", &json!(["a"])), "tier in (a)", none),
            ("one of none", expression("In", &Value::Null), "tier in ()", none),
            ("none of none", expression("NotIn", &json!([])), "tier notin ()", all),
            ("a value twice", expression("In", &json!(["a", "a"])), "tier in (a,a)", with_a),
            ("a label that is no text", json!({ "matchLabels": { "app": 1 } }), "app=", none),
        ];
        for (reason, selector, text, wanted) in cases {
            assert_eq!(selector_text(&selector), text, "{reason}");
            assert_eq!(answers(&selector), wanted, "{reason}");
        }
    }

    #[test]
    fn requirements_are_printed_in_the_order_of_their_keys() {
        let selector = json!({
            "matchLabels": { "z": "1" },
            "matchExpressions": [{ "key": "a", "operator": "Exists" }],
        });
        assert_eq!(selector_text(&selector), "a,z=1");
    }
}
