//! Label selectors.
//!
//! [`Selector::parse`] reads `metav1.LabelSelector`; [`matches_all`] the plain map of a Service. An
//! empty or malformed selector of a workload selects nothing, not everything.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::controllers::object::{items, labels, strings, text};

/// A parsed `metav1.LabelSelector`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Selector {
    requirements: Vec<Requirement>,
}

#[derive(Debug, Clone)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Debug, Clone)]
enum Test {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    DoesNotExist,
    /// An operator we do not know matches nothing.
    Never,
}

/// True when `object` carries every label of the map `wanted`.
pub(crate) fn matches_all(wanted: &Value, object: &Value) -> bool {
    let has = labels(object);
    strings(Some(wanted)).iter().all(|(key, value)| has.get(key) == Some(value))
}

// === impl Selector ===

impl Selector {
    pub(crate) fn parse(selector: Option<&Value>) -> Self {
        let Some(selector) = selector else { return Self::default() };
        let exact = strings(selector.get("matchLabels")).into_iter().map(|(key, value)| {
            Requirement { key: key.to_owned(), test: Test::In(vec![value.to_owned()]) }
        });
        let expressions = items(selector, "/matchExpressions").iter().map(|expression| {
            let values = || {
                let values = items(expression, "/values").iter().filter_map(Value::as_str);
                values.map(str::to_owned).collect()
            };
            let test = match text(expression, "/operator") {
                "In" => Test::In(values()),
                "NotIn" => Test::NotIn(values()),
                "Exists" => Test::Exists,
                "DoesNotExist" => Test::DoesNotExist,
                _ => Test::Never,
            };
            Requirement { key: text(expression, "/key").to_owned(), test }
        });
        Self { requirements: exact.chain(expressions).collect() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// True when `object` carries the labels asked for; an empty selector asks for nothing.
    pub(crate) fn matches(&self, object: &Value) -> bool {
        let labels = labels(object);
        self.requirements.iter().all(|requirement| requirement.holds(&labels))
    }

    /// As [`Self::matches`], but an empty selector matches nothing.
    pub(crate) fn selects(&self, object: &Value) -> bool {
        !self.is_empty() && self.matches(object)
    }
}

// === impl Requirement ===

impl Requirement {
    fn holds(&self, labels: &BTreeMap<&str, &str>) -> bool {
        let value = labels.get(self.key.as_str());
        match &self.test {
            Test::In(values) => value.is_some_and(|value| values.iter().any(|v| v == value)),
            // A missing key is not in any list.
            Test::NotIn(values) => value.is_none_or(|value| values.iter().all(|v| v != value)),
            Test::Exists => value.is_some(),
            Test::DoesNotExist => value.is_none(),
            Test::Never => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_selector_selects_what_kubernetes_would() {
        let expression = |operator: &str| json!({ "matchExpressions": [{"key": "tier", "operator": operator, "values": ["a", "b"]}] });
        let cases = [
            ("all labels present", json!({ "matchLabels": {"app": "web"} }), true),
            ("one label differs", json!({ "matchLabels": {"app": "web", "tier": "b"} }), false),
            ("value listed", expression("In"), true),
            ("value listed as unwanted", expression("NotIn"), false),
            ("key present", expression("Exists"), true),
            ("key present but unwanted", expression("DoesNotExist"), false),
            ("unknown operator", expression("Like"), false),
            ("an empty selector selects nothing", json!({}), false),
        ];
        let object = json!({ "metadata": { "labels": {"app": "web", "tier": "a"} } });
        for (reason, selector, want) in cases {
            assert_eq!(Selector::parse(Some(&selector)).selects(&object), want, "{reason}");
        }
    }
}
