//! JSON paths of hooks, in Kubernetes' dialect: `{$.age}`, `{.items[*].name}`.
//!
//! Called by `measure` with the answer of a web server. Text outside braces is literal. Inside are paths,
//! quoted texts, and `{range …}{end}`. A path that finds nothing is an error, never an empty answer: a missing
//! value must not pass for a result.

mod parse;

#[cfg(test)]
mod tests;

use std::cmp::Ordering;

use serde_json::{Number, Value};

use super::json::printed;

/// A path that was read and can be used.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath {
    nodes: Vec<Node>,
}

/// Why a path cannot be read or finds nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// It is not a path.
    #[error("{what} at character {at}")]
    Malformed {
        /// The mistake.
        what: &'static str,
        /// Where.
        at: usize,
    },
    /// There is no such member.
    #[error("{0} is not found")]
    NotFound(String),
    /// A list is shorter than that.
    #[error("index {0} is out of bounds")]
    OutOfBounds(i64),
    /// It compares what cannot be compared.
    #[error("a filter compares values of different kinds")]
    Incomparable,
    /// It finds too much.
    #[error("the path finds more than {0} values")]
    TooMany(usize),
}

/// Longest path that is read.
const PATH_BYTES_MAX: usize = 4 * 1024;
/// Most values at any point of a path. A body has at most a megabyte, and a `..` may visit each
/// value of it once per level.
const VALUES_MAX: usize = 100_000;
/// How deep ranges nest.
const DEPTH_MAX: usize = 16;

#[derive(Clone, Debug, PartialEq)]
enum Node {
    Text(String),
    Path(Path),
    Range(Path, Vec<Node>),
}

#[derive(Clone, Debug, PartialEq)]
struct Path {
    /// It begins at the root and not at the element of the range around it.
    is_absolute: bool,
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    All,
    Descend,
    Index(i64),
    Slice(Option<i64>, Option<i64>, i64),
    Union(Vec<Step>),
    Filter(Filter),
}

#[derive(Clone, Debug, PartialEq)]
struct Filter {
    steps: Vec<Step>,
    test: Option<(Comparison, Value)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

// === impl JsonPath ===

impl JsonPath {
    /// Reads a path. A text without braces is taken for what stands between them.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        if text.len() > PATH_BYTES_MAX {
            return Err(PathError::Malformed { what: "the path is too long", at: PATH_BYTES_MAX });
        }
        parse::parse(text).map(|nodes| Self { nodes })
    }

    /// The values that it finds, as a text. Several values of one path are separated by a blank.
    pub fn read(&self, root: &Value) -> Result<String, PathError> {
        let mut out = String::new();
        print(&self.nodes, root, root, &mut out)?;
        Ok(out)
    }
}

fn print(nodes: &[Node], root: &Value, here: &Value, out: &mut String) -> Result<(), PathError> {
    for node in nodes {
        match node {
            Node::Text(text) => out.push_str(text),
            Node::Path(path) => {
                let found = path.find(root, here)?;
                let texts: Vec<String> = found.iter().map(|value| printed(value)).collect();
                out.push_str(&texts.join(" "));
            }
            Node::Range(path, body) => {
                for element in path.find(root, here)? {
                    print(body, root, element, out)?;
                }
            }
        }
        if out.len() > 1024 * 1024 {
            return Err(PathError::TooMany(VALUES_MAX));
        }
    }
    Ok(())
}

// === impl Path ===

impl Path {
    fn find<'a>(&self, root: &'a Value, here: &'a Value) -> Result<Vec<&'a Value>, PathError> {
        walk(&self.steps, if self.is_absolute { root } else { here })
    }
}

fn walk<'a>(steps: &[Step], from: &'a Value) -> Result<Vec<&'a Value>, PathError> {
    let mut found = vec![from];
    let mut is_deep = false;
    for step in steps {
        found = step.apply(&found, is_deep)?;
        is_deep = *step == Step::Descend;
        if found.len() > VALUES_MAX {
            return Err(PathError::TooMany(VALUES_MAX));
        }
    }
    Ok(found)
}

// === impl Step ===

impl Step {
    /// Takes this step from each value. After `..` most values have no such member: one is enough.
    fn apply<'a>(&self, from: &[&'a Value], is_deep: bool) -> Result<Vec<&'a Value>, PathError> {
        let mut found = Vec::new();
        match self {
            Self::Field(name) => {
                found.extend(from.iter().filter_map(|value| value.get(name)));
                // An empty list, as a filter may leave, has nothing to miss.
                if found.is_empty() && !from.is_empty() {
                    return Err(PathError::NotFound(name.clone()));
                }
            }
            Self::All => found.extend(from.iter().flat_map(|value| children(value))),
            Self::Descend => {
                for value in from {
                    descend(value, &mut found)?;
                }
            }
            Self::Index(index) => {
                for value in from {
                    match item(value, *index) {
                        Some(item) => found.push(item),
                        None if is_deep => {}
                        None => return Err(PathError::OutOfBounds(*index)),
                    }
                }
            }
            Self::Slice(start, end, step) => {
                for value in from {
                    slice(value, *start, *end, *step, &mut found);
                }
            }
            Self::Union(steps) => {
                for step in steps {
                    found.extend(step.apply(from, is_deep)?);
                }
            }
            Self::Filter(filter) => {
                for child in from.iter().flat_map(|value| children(value)) {
                    if filter.holds(child)? {
                        found.push(child);
                    }
                }
            }
        }
        Ok(found)
    }
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(items) => items.iter().collect(),
        Value::Object(members) => members.values().collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}

fn descend<'a>(value: &'a Value, found: &mut Vec<&'a Value>) -> Result<(), PathError> {
    // A queue of its own instead of recursion: the depth of an answer is not ours to bound.
    let mut waiting = vec![value];
    while let Some(value) = waiting.pop() {
        found.push(value);
        waiting.extend(children(value).into_iter().rev());
        if found.len() > VALUES_MAX {
            return Err(PathError::TooMany(VALUES_MAX));
        }
    }
    Ok(())
}

fn items(value: &Value) -> &[Value] {
    match value {
        Value::Array(items) => items,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            &[]
        }
    }
}

fn item(value: &Value, index: i64) -> Option<&Value> {
    let items = items(value);
    let count = i64::try_from(items.len()).ok()?;
    let index = if index < 0 { count.checked_add(index)? } else { index };
    items.get(usize::try_from(index).ok()?)
}

fn slice<'a>(
    value: &'a Value,
    start: Option<i64>,
    end: Option<i64>,
    step: i64,
    found: &mut Vec<&'a Value>,
) {
    let items = items(value);
    let count = i64::try_from(items.len()).unwrap_or(i64::MAX);
    let place = |index: i64| {
        let index = if index < 0 { count.saturating_add(index) } else { index };
        usize::try_from(index.clamp(0, count)).unwrap_or_default()
    };
    let (start, end) = (place(start.unwrap_or(0)), place(end.unwrap_or(count)));
    let step = usize::try_from(step).unwrap_or(1).max(1);
    found.extend(items.iter().take(end).skip(start).step_by(step));
}

// === impl Filter ===

impl Filter {
    fn holds(&self, value: &Value) -> Result<bool, PathError> {
        let found = match walk(&self.steps, value) {
            Ok(found) => found,
            Err(PathError::NotFound(_) | PathError::OutOfBounds(_)) => return Ok(false),
            Err(error) => return Err(error),
        };
        let Some(left) = found.first() else { return Ok(false) };
        match &self.test {
            None => Ok(true),
            Some((comparison, right)) => comparison.holds(left, right),
        }
    }
}

// === impl Comparison ===

impl Comparison {
    fn holds(self, left: &Value, right: &Value) -> Result<bool, PathError> {
        if let (Value::Bool(left), Value::Bool(right)) = (left, right) {
            return match self {
                Self::Equal => Ok(left == right),
                Self::NotEqual => Ok(left != right),
                Self::Less | Self::LessOrEqual | Self::Greater | Self::GreaterOrEqual => {
                    Err(PathError::Incomparable)
                }
            };
        }
        let order = match (left, right) {
            (Value::String(left), Value::String(right)) => left.cmp(right),
            (Value::Number(left), Value::Number(right)) => compare(left, right)?,
            _ => return Err(PathError::Incomparable),
        };
        Ok(match self {
            Self::Equal => order == Ordering::Equal,
            Self::NotEqual => order != Ordering::Equal,
            Self::Less => order == Ordering::Less,
            Self::LessOrEqual => order != Ordering::Greater,
            Self::Greater => order == Ordering::Greater,
            Self::GreaterOrEqual => order != Ordering::Less,
        })
    }
}

/// Whole numbers exactly, all others as floating point.
fn compare(left: &Number, right: &Number) -> Result<Ordering, PathError> {
    if let (Some(left), Some(right)) = (whole(left), whole(right)) {
        return Ok(left.cmp(&right));
    }
    let order = left.as_f64().zip(right.as_f64()).and_then(|(one, other)| one.partial_cmp(&other));
    order.ok_or(PathError::Incomparable)
}

fn whole(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}
