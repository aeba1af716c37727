//! Which objects a request or a controller means: label selectors.
//!
//! A label selector comes as text in a query (`app=web,tier in (a,b),!canary`) or as an object in a
//! spec (`matchLabels`, `matchExpressions`); both become a [`LabelSelector`]. Field selectors are in
//! [`crate::field_selector`]. Parse failures carry the words of the API server: a 400.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde_json::Value;

use crate::{
    failure::{Failure, Outcome},
    names,
};

mod parse;

/// All requirements must hold. None at all selects everything, [`LabelSelector::nothing`] nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelSelector {
    /// `None` selects nothing.
    requirements: Option<Vec<Requirement>>,
}

/// A requirement on one label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    pub key: String,
    pub operator: Operator,
    /// Sorted.
    pub values: BTreeSet<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    Equals,
    /// `==`, which is the same as `=` but is printed as it was written.
    DoubleEquals,
    NotEquals,
    In,
    NotIn,
    Exists,
    DoesNotExist,
    GreaterThan,
    LessThan,
}

// === impl LabelSelector ===

impl LabelSelector {
    pub fn everything() -> Self {
        Self { requirements: Some(Vec::new()) }
    }

    pub fn nothing() -> Self {
        Self { requirements: None }
    }

    fn new(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Self { requirements: Some(requirements) }
    }

    /// Parses the `labelSelector` of a query.
    pub fn parse(text: &str) -> Outcome<Self> {
        parse::requirements(text).map(Self::new).map_err(Failure::bad_request)
    }

    /// Parses a `LabelSelector` object. As in Kubernetes, a missing one selects nothing and an
    /// empty one everything.
    pub fn from_json(selector: Option<&Value>) -> Result<Self, String> {
        let Some(selector) = selector.filter(|selector| !selector.is_null()) else {
            return Ok(Self::nothing());
        };
        let labels = selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten();
        let mut requirements = labels
            .map(|(key, value)| Requirement::new(key, Operator::Equals, [text(value)]))
            .collect::<Result<Vec<_>, _>>()?;
        let expressions = selector.get("matchExpressions").and_then(Value::as_array);
        for expression in expressions.into_iter().flatten() {
            requirements.push(Requirement::from_json(expression)?);
        }
        Ok(Self::new(requirements))
    }

    /// The selector of a Service, a plain map. An empty one selects everything.
    pub fn from_map(labels: Option<&Value>) -> Self {
        let labels = labels.and_then(Value::as_object).into_iter().flatten();
        let requirement = |(key, value): (&String, &Value)| Requirement {
            key: key.clone(),
            operator: Operator::Equals,
            values: BTreeSet::from([text(value).to_owned()]),
        };
        Self::new(labels.map(requirement).collect())
    }

    /// True when it selects every object.
    pub fn is_everything(&self) -> bool {
        self.requirements.as_ref().is_some_and(Vec::is_empty)
    }

    pub fn requirements(&self) -> &[Requirement] {
        self.requirements.as_deref().unwrap_or_default()
    }

    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.holds(|key| labels.get(key).map(String::as_str))
    }

    /// Like [`LabelSelector::matches`], for optional labels in JSON.
    pub fn matches_json(&self, labels: Option<&Value>) -> bool {
        self.holds(|key| labels?.get(key)?.as_str())
    }

    /// Like [`LabelSelector::matches`], for a whole object.
    pub fn selects(&self, object: &Value) -> bool {
        self.matches_json(object.pointer("/metadata/labels"))
    }

    fn holds<'l>(&self, label: impl Fn(&str) -> Option<&'l str>) -> bool {
        self.requirements.as_ref().is_some_and(|requirements| {
            requirements.iter().all(|requirement| requirement.matches(label(&requirement.key)))
        })
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements().iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{requirement}")?;
        }
        Ok(())
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

// === impl Requirement ===

impl Requirement {
    fn new<'a>(
        key: &str,
        operator: Operator,
        values: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, String> {
        let values: BTreeSet<String> = values.into_iter().map(str::to_owned).collect();
        let mut complaints = Vec::new();
        let wrong = names::qualified_name(key);
        if !wrong.is_empty() {
            complaints.push(format!("key: Invalid value: {key:?}: {}", wrong.join("; ")));
        }
        if let Some(complaint) = operator.count_complaint(&values) {
            let shown = values.iter().map(String::as_str).collect::<Value>();
            complaints.push(format!("values: Invalid value: {shown}: {complaint}"));
        }
        for (index, value) in values.iter().enumerate() {
            if operator.is_numeric() && value.parse::<i64>().is_err() {
                complaints.push(format!(
                    "values[{index}]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the \
                     value must be an integer"
                ));
            }
        }
        for (index, value) in values.iter().enumerate() {
            let wrong = names::label_value(value);
            if !wrong.is_empty() {
                complaints.push(format!(
                    "values[{index}][{key}]: Invalid value: {value:?}: {}",
                    wrong.join("; ")
                ));
            }
        }
        match complaints.as_slice() {
            [] => Ok(Self { key: key.to_owned(), operator, values }),
            [only] => Err(only.clone()),
            many => Err(format!("[{}]", many.join(", "))),
        }
    }

    fn from_json(expression: &Value) -> Result<Self, String> {
        let member = |key| expression.get(key).map(text).unwrap_or_default();
        let operator = match member("operator") {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            other => return Err(format!("{other:?} is not a valid label selector operator")),
        };
        let values = expression.get("values").and_then(Value::as_array).into_iter().flatten();
        Self::new(member("key"), operator, values.map(text))
    }

    /// `value` is the label's value, if the object has the label.
    pub fn matches(&self, value: Option<&str>) -> bool {
        match self.operator {
            Operator::Equals | Operator::DoubleEquals | Operator::In => {
                value.is_some_and(|value| self.values.contains(value))
            }
            Operator::NotEquals | Operator::NotIn => {
                value.is_none_or(|value| !self.values.contains(value))
            }
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan => self.compares(value, |label, bound| label > bound),
            Operator::LessThan => self.compares(value, |label, bound| label < bound),
        }
    }

    fn compares(&self, value: Option<&str>, holds: fn(i64, i64) -> bool) -> bool {
        let number = |text: &str| text.parse::<i64>().ok();
        let bound = self.values.first().and_then(|text| number(text));
        value.and_then(number).zip(bound).is_some_and(|(label, bound)| holds(label, bound))
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        let values = self.values.iter().map(String::as_str).collect::<Vec<_>>().join(",");
        match self.operator {
            Operator::Equals => write!(f, "{key}={values}"),
            Operator::DoubleEquals => write!(f, "{key}=={values}"),
            Operator::NotEquals => write!(f, "{key}!={values}"),
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
            Operator::Exists => write!(f, "{key}"),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::GreaterThan => write!(f, "{key}>{values}"),
            Operator::LessThan => write!(f, "{key}<{values}"),
        }
    }
}

// === impl Operator ===

impl Operator {
    fn is_numeric(self) -> bool {
        matches!(self, Self::GreaterThan | Self::LessThan)
    }

    fn count_complaint(self, values: &BTreeSet<String>) -> Option<&'static str> {
        match self {
            Self::In | Self::NotIn if values.is_empty() => {
                Some("for 'in', 'notin' operators, values set can't be empty")
            }
            Self::Equals | Self::DoubleEquals | Self::NotEquals if values.len() != 1 => {
                Some("exact-match compatibility requires one single value")
            }
            Self::Exists | Self::DoesNotExist if !values.is_empty() => {
                Some("values set must be empty for exists and does not exist")
            }
            Self::GreaterThan | Self::LessThan if values.len() != 1 => {
                Some("for 'Gt', 'Lt' operators, exactly one value is required")
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
