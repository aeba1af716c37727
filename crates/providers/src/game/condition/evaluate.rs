//! Evaluates a condition on a measured value.

use std::cmp::Ordering;

use super::{
    Matcher, PATTERN_WORK, Result, SIZE_MAX, TEXT_BYTES_A_STEP, Value, WORK_MAX, fail,
    functions::Builtin,
    parse::{Binary, Expr, Node, Unary},
};

/// The value, and whether every number it was made of is finite.
pub(super) fn evaluate(
    expr: &Expr,
    result: &Value,
    matcher: &dyn Matcher,
) -> Result<(Value, bool)> {
    let is_finite = result.is_finite();
    let mut evaluator = Evaluator { result, matcher, elements: Vec::new(), work: 0, is_finite };
    let value = evaluator.value(expr)?;
    Ok((value, evaluator.is_finite))
}

struct Evaluator<'a> {
    result: &'a Value,
    matcher: &'a dyn Matcher,
    /// The values of `#`, innermost last.
    elements: Vec<Value>,
    work: usize,
    /// No measured number turned out to be NaN or infinite.
    is_finite: bool,
}

impl Evaluator<'_> {
    fn value(&mut self, expr: &Expr) -> Result<Value> {
        let at = expr.at;
        self.spend(1, at)?;
        let value = match &expr.node {
            Node::Nil => Value::Nil,
            Node::Bool(value) => Value::Bool(*value),
            Node::Int(number) => Value::Int(*number),
            Node::Float(number) => Value::Float(*number),
            Node::Text(text) => Value::Text(text.clone()),
            Node::List(items) => {
                Value::List(items.iter().map(|item| self.value(item)).collect::<Result<_>>()?)
            }
            Node::Map(members) => {
                let members =
                    members.iter().map(|(name, member)| Ok((name.clone(), self.value(member)?)));
                Value::Map(members.collect::<Result<_>>()?)
            }
            Node::Result => {
                self.spend(weight(self.result), at)?;
                return Ok(self.result.clone());
            }
            Node::Element => self.elements.last().cloned().unwrap_or(Value::Nil),
            Node::Unary(unary, inner) => {
                let inner = self.value(inner)?;
                unary_of(*unary, &inner, at)?
            }
            Node::Binary(binary, left, right) => self.binary(*binary, left, right, at)?,
            Node::Choice(condition, then, other) => {
                let chosen = if self.truth(condition)? { then } else { other };
                self.value(chosen)?
            }
            Node::Either(one, other) => match self.value(one)? {
                Value::Nil | Value::Bool(false) => self.value(other)?,
                value => value,
            },
            Node::Member(of, name) => match self.value(of)? {
                Value::Map(members) => member(&members, name, at)?,
                other => return fail(format!("{} has no members", other.name()), at),
            },
            Node::Index(of, index) => {
                let (of, index) = (self.value(of)?, self.value(index)?);
                element(&of, &index, at)?
            }
            Node::Slice(of, start, end) => {
                let bounds = (self.bound(start.as_deref())?, self.bound(end.as_deref())?);
                slice(self.value(of)?, bounds, at)?
            }
            Node::Call(function, arguments) => {
                let values = arguments.iter().map(|argument| self.value(argument));
                let value = function.call(&values.collect::<Result<Vec<_>>>()?, at)?;
                self.is_finite &= value.is_finite();
                value
            }
            Node::Over(builtin, list, predicate) => self.over(*builtin, list, predicate)?,
        };
        self.spend(weight(&value), at)?;
        Ok(value)
    }

    /// Everything that is made or read through costs work, by its weight.
    fn spend(&mut self, work: usize, at: usize) -> Result<()> {
        self.work = self.work.saturating_add(work);
        if self.work > WORK_MAX { fail("this takes too many steps", at) } else { Ok(()) }
    }

    fn truth(&mut self, expr: &Expr) -> Result<bool> {
        match self.value(expr)? {
            Value::Bool(value) => Ok(value),
            other => fail(format!("a boolean is needed, not {}", other.name()), expr.at),
        }
    }

    fn bound(&mut self, expr: Option<&Expr>) -> Result<Option<i64>> {
        let Some(expr) = expr else { return Ok(None) };
        match self.value(expr)? {
            Value::Int(number) => Ok(Some(number)),
            other => fail(format!("an integer is needed, not {}", other.name()), expr.at),
        }
    }

    fn over(&mut self, builtin: Builtin, list: &Expr, predicate: &Expr) -> Result<Value> {
        let items = match self.value(list)? {
            Value::List(items) => items,
            other => return fail(format!("a list is needed, not {}", other.name()), list.at),
        };
        let mut mapped = Vec::new();
        let mut kept = Vec::new();
        let count = items.len();
        for item in items {
            self.elements.push(item.clone());
            let answer = if builtin == Builtin::Map {
                self.value(predicate).map(|value| {
                    mapped.push(value);
                    false
                })
            } else {
                self.truth(predicate)
            };
            self.elements.pop();
            if answer? {
                kept.push(item);
            }
        }
        Ok(match builtin {
            Builtin::All => Value::Bool(kept.len() == count),
            Builtin::None => Value::Bool(kept.is_empty()),
            Builtin::Any => Value::Bool(!kept.is_empty()),
            Builtin::One => Value::Bool(kept.len() == 1),
            Builtin::Count => Value::Int(i64::try_from(kept.len()).unwrap_or(i64::MAX)),
            Builtin::Filter => Value::List(kept),
            Builtin::Map => Value::List(mapped),
        })
    }

    fn binary(&mut self, binary: Binary, left: &Expr, right: &Expr, at: usize) -> Result<Value> {
        match binary {
            Binary::Or => return Ok(Value::Bool(self.truth(left)? || self.truth(right)?)),
            Binary::And => return Ok(Value::Bool(self.truth(left)? && self.truth(right)?)),
            _ => {}
        }
        let (left, right) = (self.value(left)?, self.value(right)?);
        match binary {
            Binary::Equal => equal(&left, &right, at).map(Value::Bool),
            Binary::NotEqual => equal(&left, &right, at).map(|same| Value::Bool(!same)),
            Binary::Less => order(&left, &right, at)
                .map(|found| found.is_some_and(Ordering::is_lt))
                .map(Value::Bool),
            Binary::LessOrEqual => order(&left, &right, at)
                .map(|found| found.is_some_and(Ordering::is_le))
                .map(Value::Bool),
            Binary::Greater => order(&left, &right, at)
                .map(|found| found.is_some_and(Ordering::is_gt))
                .map(Value::Bool),
            Binary::GreaterOrEqual => order(&left, &right, at)
                .map(|found| found.is_some_and(Ordering::is_ge))
                .map(Value::Bool),
            Binary::In => contains(&right, &left, at).map(Value::Bool),
            Binary::NotIn => contains(&right, &left, at).map(|is_in| Value::Bool(!is_in)),
            Binary::Matches | Binary::Contains | Binary::StartsWith | Binary::EndsWith => {
                self.text_test(binary, &left, &right, at)
            }
            Binary::Range => range(&left, &right, at),
            Binary::Add
            | Binary::Subtract
            | Binary::Multiply
            | Binary::Divide
            | Binary::Remainder
            | Binary::Power
            | Binary::Or
            | Binary::And => arithmetic(binary, &left, &right, at),
        }
    }

    fn text_test(
        &mut self,
        binary: Binary,
        left: &Value,
        right: &Value,
        at: usize,
    ) -> Result<Value> {
        let (Value::Text(text), Value::Text(other)) = (left, right) else {
            return mismatch(left, right, at);
        };
        let pattern = if binary == Binary::Matches { PATTERN_WORK } else { 0 };
        self.spend(weight(left).saturating_add(pattern), at)?;
        let answer = match binary {
            Binary::Contains => text.contains(other.as_str()),
            Binary::StartsWith => text.starts_with(other.as_str()),
            Binary::EndsWith => text.ends_with(other.as_str()),
            _ => match self.matcher.is_match(other, text) {
                Ok(answer) => answer,
                Err(why) => return fail(format!("the pattern cannot be used: {why}"), at),
            },
        };
        Ok(Value::Bool(answer))
    }
}

/// The cost of copying or looking through a value, besides the one step it is: long lists and long texts
/// are not for nothing.
fn weight(value: &Value) -> usize {
    match value {
        Value::Nil | Value::Bool(_) | Value::Int(_) | Value::Float(_) => 0,
        Value::Text(text) => text.len() / TEXT_BYTES_A_STEP,
        Value::List(items) => items.iter().map(|item| 1 + weight(item)).sum(),
        Value::Map(members) => members.values().map(|member| 1 + weight(member)).sum(),
    }
}

fn mismatch<T>(left: &Value, right: &Value, at: usize) -> Result<T> {
    fail(format!("{} and {} do not go together", left.name(), right.name()), at)
}

fn unary_of(unary: Unary, inner: &Value, at: usize) -> Result<Value> {
    match (unary, inner) {
        (Unary::Not, Value::Bool(value)) => Ok(Value::Bool(!value)),
        (Unary::Minus, Value::Int(number)) => match number.checked_neg() {
            Some(number) => Ok(Value::Int(number)),
            None => fail("this number is too large", at),
        },
        (Unary::Minus, Value::Float(number)) => Ok(Value::Float(-number)),
        (Unary::Plus, Value::Int(_) | Value::Float(_)) => Ok(inner.clone()),
        (Unary::Not | Unary::Minus | Unary::Plus, other) => {
            fail(format!("this operator does not take {}", other.name()), at)
        }
    }
}

fn equal(left: &Value, right: &Value, at: usize) -> Result<bool> {
    match (left, right) {
        (Value::Nil, _)
        | (_, Value::Nil)
        | (Value::Bool(_), Value::Bool(_))
        | (Value::Text(_), Value::Text(_))
        | (Value::List(_), Value::List(_))
        | (Value::Int(_), Value::Int(_))
        | (Value::Map(_), Value::Map(_)) => Ok(left == right),
        _ => order(left, right, at).map(|found| found.is_some_and(Ordering::is_eq)),
    }
}

/// A value that is NaN has no order.
fn order(left: &Value, right: &Value, at: usize) -> Result<Option<Ordering>> {
    match (left, right) {
        (Value::Text(left), Value::Text(right)) => Ok(Some(left.cmp(right))),
        (Value::Int(left), Value::Int(right)) => Ok(Some(left.cmp(right))),
        _ => match (left.number(), right.number()) {
            (Some(left), Some(right)) => Ok(left.partial_cmp(&right)),
            _ => mismatch(left, right, at),
        },
    }
}

fn contains(list: &Value, item: &Value, at: usize) -> Result<bool> {
    match (list, item) {
        (Value::List(items), _) => {
            Ok(items.iter().any(|other| equal(other, item, at).unwrap_or(false)))
        }
        (Value::Map(members), Value::Text(name)) => Ok(members.contains_key(name)),
        _ => mismatch(item, list, at),
    }
}

fn range(left: &Value, right: &Value, at: usize) -> Result<Value> {
    let (Value::Int(start), Value::Int(end)) = (left, right) else {
        return mismatch(left, right, at);
    };
    let length = end.saturating_sub(*start);
    if usize::try_from(length.max(0)).unwrap_or(usize::MAX) >= SIZE_MAX {
        return fail(format!("a range has at most {SIZE_MAX} numbers"), at);
    }
    Ok(Value::List((*start..=*end).map(Value::Int).collect()))
}

fn arithmetic(binary: Binary, left: &Value, right: &Value, at: usize) -> Result<Value> {
    if let (Value::Text(one), Value::Text(other), Binary::Add) = (left, right, binary) {
        if one.len() + other.len() > SIZE_MAX {
            return fail(format!("a string has at most {SIZE_MAX} bytes"), at);
        }
        return Ok(Value::Text(format!("{one}{other}")));
    }
    if let (Value::Int(one), Value::Int(other)) = (left, right)
        && binary != Binary::Power
    {
        let answer = match binary {
            Binary::Add => one.checked_add(*other),
            Binary::Subtract => one.checked_sub(*other),
            Binary::Multiply => one.checked_mul(*other),
            Binary::Divide | Binary::Remainder if *other == 0 => {
                return fail("this divides by zero", at);
            }
            Binary::Divide => one.checked_div(*other),
            _ => one.checked_rem(*other),
        };
        return answer.map_or_else(|| fail("this number is too large", at), |n| Ok(Value::Int(n)));
    }
    let (Some(one), Some(other)) = (left.number(), right.number()) else {
        return mismatch(left, right, at);
    };
    Ok(Value::Float(match binary {
        Binary::Add => one + other,
        Binary::Subtract => one - other,
        Binary::Multiply => one * other,
        Binary::Divide => one / other,
        Binary::Power => one.powf(other),
        _ => return fail("an integer is needed", at),
    }))
}

fn member(
    members: &std::collections::BTreeMap<String, Value>,
    name: &str,
    at: usize,
) -> Result<Value> {
    members.get(name).cloned().map_or_else(|| fail(format!("there is no member `{name}`"), at), Ok)
}

fn element(of: &Value, index: &Value, at: usize) -> Result<Value> {
    match (of, index) {
        (Value::Map(members), Value::Text(name)) => member(members, name, at),
        (Value::List(items), Value::Int(index)) => {
            let place = place(*index, items.len());
            let found = place.and_then(|place| items.get(place)).cloned();
            found.map_or_else(|| fail("there is no such element", at), Ok)
        }
        _ => mismatch(of, index, at),
    }
}

/// Numbers below zero count from the end.
fn place(index: i64, length: usize) -> Option<usize> {
    let length = i64::try_from(length).ok()?;
    let index = if index < 0 { length.checked_add(index)? } else { index };
    usize::try_from(index).ok()
}

fn slice(of: Value, (start, end): (Option<i64>, Option<i64>), at: usize) -> Result<Value> {
    let part = |length: usize| {
        let clamp = |index: i64| place(index, length).unwrap_or(0).min(length);
        (start.map_or(0, clamp), end.map_or(length, clamp))
    };
    match of {
        Value::List(items) => {
            let (start, end) = part(items.len());
            Ok(Value::List(items.into_iter().take(end).skip(start).collect()))
        }
        Value::Text(text) => {
            let (start, end) = part(text.chars().count());
            Ok(Value::Text(text.chars().take(end).skip(start).collect()))
        }
        other => fail(format!("{} cannot be sliced", other.name()), at),
    }
}
