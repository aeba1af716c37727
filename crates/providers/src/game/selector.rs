//! Label selectors: who is selected, and the selector as a text.

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
    /// One nobody knows: it is never met.
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
