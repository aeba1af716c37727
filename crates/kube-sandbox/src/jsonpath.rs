//! Kubernetes' dialect of `JSONPath`, for printer columns, scale paths and `kubectl wait`.
//!
//! ```text
//! .spec.replicas   .items[0]   .items[-1]   .items[1:3]   .items[*].name   ..name
//! .status.conditions[?(@.type=="Ready")].status   .metadata.labels['app\.kubernetes\.io/name']
//! ```
//!
//! Differences from other dialects are those of Kubernetes: a dot inside `['...']` separates fields
//! unless escaped, and a comparison of different types or an index out of bounds fails the whole
//! path. A failed path finds nothing. A path is one action, with or without its braces; templates
//! (`{range}`, text between braces) are left to clients.

mod parse;

use std::cmp::Ordering;

use serde_json::Value;

/// A parsed path.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Path {
    steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Field(String),
    /// `.*`: every member of a map, every item of a list.
    Wildcard,
    /// `..`: the value and all objects and lists below it.
    Recursive,
    Slice(Slice),
    Union(Vec<Vec<Step>>),
    Filter {
        left: Operand,
        /// The comparison and its right side; without one the left side must exist.
        compared: Option<(Comparison, Operand)>,
    },
}

/// `[start:end:step]`; `[3]` has no end and selects one item.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Slice {
    start: Option<i64>,
    end: End,
    step: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    /// A single index.
    AfterStart,
    At(i64),
    Last,
}

#[derive(Debug, Clone, PartialEq)]
enum Operand {
    Path(Vec<Step>),
    Literal(Value),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// The path does not fit the value: index out of bounds, filter on another type, different types.
struct Misfit;

type Found<'v> = Result<Vec<&'v Value>, Misfit>;

// === impl Path ===

impl Path {
    /// Reads a path such as `.spec.replicas` or `{.spec.replicas}`. The error says what is wrong.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        parse::path(text)
    }

    /// Everything the path finds, in document order.
    pub(crate) fn all<'v>(&self, root: &'v Value) -> Vec<&'v Value> {
        walk(vec![root], &self.steps).unwrap_or_default()
    }

    /// The first thing the path finds. A present `null` is found.
    pub(crate) fn first<'v>(&self, root: &'v Value) -> Option<&'v Value> {
        self.all(root).into_iter().next()
    }
}

fn walk<'v>(mut values: Vec<&'v Value>, steps: &[Step]) -> Found<'v> {
    for step in steps {
        values = take(&values, step)?;
    }
    Ok(values)
}

fn take<'v>(values: &[&'v Value], step: &Step) -> Found<'v> {
    let mut found = Vec::new();
    match step {
        Step::Field(name) => found.extend(values.iter().filter_map(|value| value.get(name))),
        Step::Wildcard => found.extend(values.iter().flat_map(|value| children(value))),
        Step::Recursive => values.iter().for_each(|value| descend(value, &mut found)),
        Step::Slice(slice) => {
            for value in values.iter().filter(|value| !value.is_null()) {
                found.extend(slice.of(value.as_array().ok_or(Misfit)?)?);
            }
        }
        Step::Union(branches) => {
            for steps in branches {
                found.extend(walk(values.to_vec(), steps)?);
            }
        }
        Step::Filter { left, compared } => {
            for value in values {
                for item in value.as_array().ok_or(Misfit)? {
                    if passes(item, left, compared.as_ref())? {
                        found.push(item);
                    }
                }
            }
        }
    }
    Ok(found)
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(items) => items.iter().collect(),
        Value::Object(members) => members.values().collect(),
        _ => Vec::new(),
    }
}

fn descend<'v>(value: &'v Value, found: &mut Vec<&'v Value>) {
    let below = children(value);
    if !below.is_empty() {
        found.push(value);
        for child in below {
            descend(child, found);
        }
    }
}

fn passes(
    item: &Value,
    left: &Operand,
    compared: Option<&(Comparison, Operand)>,
) -> Result<bool, Misfit> {
    let Some((comparison, right)) = compared else {
        return Ok(!left.values(item).unwrap_or_default().is_empty());
    };
    let (Some(left), Some(right)) = (left.single(item)?, right.single(item)?) else {
        return Ok(false);
    };
    comparison.holds(left, right)
}

// === impl Slice ===

impl Slice {
    fn of<'v>(&self, items: &'v [Value]) -> Result<impl Iterator<Item = &'v Value>, Misfit> {
        let length = i64::try_from(items.len()).map_err(|_| Misfit)?;
        let from_end = |index: i64| if index < 0 { index.saturating_add(length) } else { index };
        let given = self.start.unwrap_or(0);
        let start = from_end(given);
        let end = match self.end {
            End::Last => length,
            End::At(end) => from_end(end),
            // `[-1]` ends at the list's end, which is the 0 after -1.
            End::AfterStart if given == -1 => length,
            End::AfterStart => from_end(given.saturating_add(1)),
        };
        let step = self.step.unwrap_or(1);
        let fits = start >= 0 && start < length && end <= length && start < end && step > 0;
        if start != end && !fits {
            return Err(Misfit);
        }
        let range = if start == end { None } else { Some((start, end)) };
        let bounds = |(from, to)| Some(usize::try_from(from).ok()?..usize::try_from(to).ok()?);
        let taken = range.and_then(bounds).and_then(|range| items.get(range)).unwrap_or_default();
        Ok(taken.iter().step_by(usize::try_from(step.max(1)).unwrap_or(usize::MAX)))
    }
}

// === impl Operand ===

impl Operand {
    fn values<'a>(&'a self, item: &'a Value) -> Found<'a> {
        match self {
            Self::Path(steps) => walk(vec![item], steps),
            Self::Literal(value) => Ok(vec![value]),
        }
    }

    fn single<'a>(&'a self, item: &'a Value) -> Result<Option<&'a Value>, Misfit> {
        match self.values(item)?.as_slice() {
            [] => Ok(None),
            [only] => Ok(Some(only)),
            _ => Err(Misfit),
        }
    }
}

// === impl Comparison ===

impl Comparison {
    fn holds(self, left: &Value, right: &Value) -> Result<bool, Misfit> {
        let is_ordered = !matches!(self, Self::Equal | Self::NotEqual);
        if is_ordered && left.is_boolean() {
            return Err(Misfit);
        }
        let order = compare(left, right)?;
        Ok(match self {
            Self::Equal => order == Some(Ordering::Equal),
            Self::NotEqual => order != Some(Ordering::Equal),
            Self::Less => order == Some(Ordering::Less),
            Self::LessOrEqual => matches!(order, Some(Ordering::Less | Ordering::Equal)),
            Self::Greater => order == Some(Ordering::Greater),
            Self::GreaterOrEqual => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
        })
    }
}

/// Compares two values of one type. As in Kubernetes, integers and floats are different types.
fn compare(left: &Value, right: &Value) -> Result<Option<Ordering>, Misfit> {
    match (left, right) {
        (Value::Bool(left), Value::Bool(right)) => Ok(Some(left.cmp(right))),
        (Value::String(left), Value::String(right)) => Ok(Some(left.cmp(right))),
        (Value::Number(left), Value::Number(right)) => match (left.as_i128(), right.as_i128()) {
            (Some(left), Some(right)) => Ok(Some(left.cmp(&right))),
            (None, None) => Ok(left.as_f64().partial_cmp(&right.as_f64())),
            _ => Err(Misfit),
        },
        _ => Err(Misfit),
    }
}

#[cfg(test)]
mod tests;
