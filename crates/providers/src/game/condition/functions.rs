//! Functions that conditions may call.

use super::{Kind, Result, Value, fail};

/// A function of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    AsInt,
    AsFloat,
    IsNan,
    IsInf,
    IsNil,
    Default,
    Len,
}

/// A function of a list and a predicate on each element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Builtin {
    All,
    None,
    Any,
    One,
    Filter,
    Map,
    Count,
}

// === impl Function ===

impl Function {
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "asInt" => Self::AsInt,
            "asFloat" => Self::AsFloat,
            "isNaN" => Self::IsNan,
            "isInf" => Self::IsInf,
            "isNil" => Self::IsNil,
            "default" => Self::Default,
            "len" => Self::Len,
            _ => return None,
        })
    }

    pub(super) const fn arity(self) -> usize {
        match self {
            Self::Default => 2,
            Self::AsInt | Self::AsFloat | Self::IsNan | Self::IsInf | Self::IsNil | Self::Len => 1,
        }
    }

    /// The kind of the result for arguments of these kinds.
    pub(super) fn kind(self, arguments: &[Kind], at: usize) -> Result<Kind> {
        let first = arguments.first().unwrap_or(&Kind::Any);
        let (is_fine, answer) = match self {
            Self::AsInt => (is_readable(first), Kind::Int),
            Self::AsFloat => (is_readable(first), Kind::Float),
            Self::IsNan | Self::IsInf => {
                (matches!(first, Kind::Any | Kind::Int | Kind::Float), Kind::Bool)
            }
            Self::IsNil => (true, Kind::Bool),
            Self::Default => {
                let second = arguments.get(1).unwrap_or(&Kind::Any);
                (true, if first == second { first.clone() } else { Kind::Any })
            }
            Self::Len => {
                let is_fine = matches!(first, Kind::Any | Kind::Text | Kind::List(_) | Kind::Map);
                (is_fine, Kind::Int)
            }
        };
        if is_fine {
            return Ok(answer);
        }
        fail(format!("this function does not take {}", first.name()), at)
    }

    /// The result for these arguments.
    pub(super) fn call(self, arguments: &[Value], at: usize) -> Result<Value> {
        let first = arguments.first().unwrap_or(&Value::Nil);
        match self {
            Self::AsInt => as_int(first, at).map(Value::Int),
            Self::AsFloat => as_float(first, at).map(Value::Float),
            Self::IsNan => number(first, at).map(|number| Value::Bool(number.is_nan())),
            Self::IsInf => number(first, at).map(|number| Value::Bool(number.is_infinite())),
            Self::IsNil => Ok(Value::Bool(*first == Value::Nil)),
            Self::Default => {
                let other = arguments.get(1).unwrap_or(&Value::Nil);
                Ok(if *first == Value::Nil { other.clone() } else { first.clone() })
            }
            Self::Len => length(first, at),
        }
    }
}

fn is_readable(kind: &Kind) -> bool {
    matches!(kind, Kind::Any | Kind::Text | Kind::Int | Kind::Float)
}

/// The measured value is not repeated in errors: it may be anything, of any length.
fn as_int(value: &Value, at: usize) -> Result<i64> {
    match value {
        Value::Int(number) => Ok(*number),
        Value::Float(number) => {
            let is_whole = number.is_finite() && number.abs() < 9e18;
            if !is_whole {
                return fail("this number is no integer", at);
            }
            #[expect(clippy::cast_possible_truncation, reason = "it was just compared")]
            let truncated = number.trunc() as i64;
            Ok(truncated)
        }
        Value::Text(text) => match text.parse() {
            Ok(number) => Ok(number),
            Err(_) => fail("this string is no integer", at),
        },
        other => fail(format!("asInt does not take {}", other.name()), at),
    }
}

fn as_float(value: &Value, at: usize) -> Result<f64> {
    match value {
        Value::Text(text) => match text.parse() {
            Ok(number) => Ok(number),
            Err(_) => fail("this string is no number", at),
        },
        other => number(other, at),
    }
}

fn number(value: &Value, at: usize) -> Result<f64> {
    value.number().map_or_else(|| fail(format!("a number is needed, not {}", value.name()), at), Ok)
}

fn length(value: &Value, at: usize) -> Result<Value> {
    let length = match value {
        Value::Text(text) => text.chars().count(),
        Value::List(items) => items.len(),
        Value::Map(members) => members.len(),
        other => return fail(format!("len does not take {}", other.name()), at),
    };
    Ok(Value::Int(i64::try_from(length).unwrap_or(i64::MAX)))
}

// === impl Builtin ===

impl Builtin {
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "all" => Self::All,
            "none" => Self::None,
            "any" => Self::Any,
            "one" => Self::One,
            "filter" => Self::Filter,
            "map" => Self::Map,
            "count" => Self::Count,
            _ => return None,
        })
    }
}
