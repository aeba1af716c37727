//! Conditions of hooks on measurements: `asInt(result) < 30`.
//!
//! ```text
//! text --lex--> tokens --parse--> Expr --check--> its type --evaluate(result)--> true or false
//! ```
//!
//! Called by `measure`. A condition is checked before it is used: one that compares a text with a number is
//! refused with the place of the mistake, before anything is measured. There are no loops but over lists, and
//! everything has a bound. Regular expressions are the caller's, see [`Matcher`].

mod check;
mod evaluate;
mod functions;
mod lex;
mod parse;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use tidegate_engine::game::HookPhase;

use self::parse::Expr;

/// A condition that was read and can be used.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    expr: Expr,
}

/// A measured value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Nothing.
    Nil,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Any other number.
    Float(f64),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Value>),
    /// Values by name.
    Map(BTreeMap<String, Value>),
}

/// The kind of value that a provider measures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Not known before it is measured.
    Any,
    /// Nothing.
    Nil,
    /// `true` or `false`.
    Bool,
    /// A whole number.
    Int,
    /// Any number.
    Float,
    /// A text.
    Text,
    /// A list of these.
    List(Box<Kind>),
    /// Values by name.
    Map,
}

/// Why a condition cannot be used. Places are counted in characters from 0.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} at character {at}")]
pub struct ConditionError {
    /// The mistake.
    pub what: String,
    /// Where.
    pub at: usize,
}

/// Regular expressions, which must take time in proportion to the text at most.
pub trait Matcher {
    /// Whether the pattern is found in the text; the error says why the pattern cannot be used.
    fn is_match(&self, pattern: &str, text: &str) -> std::result::Result<bool, String>;
}

/// Longest condition that is read.
const TEXT_BYTES_MAX: usize = 4 * 1024;
/// How deep expressions nest. Each level takes some ten frames while it is read.
const DEPTH_MAX: usize = 48;
/// Operators, members and values of one condition.
const OPERATORS_MAX: usize = 256;
/// How much may be evaluated: a list of a thousand values, each looked at with a hundred operators.
const WORK_MAX: usize = 100_000;
/// Bytes of a text that are worth one step: an answer of a megabyte can be looked at some twenty times.
const TEXT_BYTES_A_STEP: usize = 256;
/// The cost of a regular expression besides the text it is tried on: it is compiled each time.
const PATTERN_WORK: usize = 500;
/// Longest list or text that is made.
const SIZE_MAX: usize = 10_000;

/// The message for a number that is infinite or not a number.
const NOT_FINITE: &str = "the result is not a finite number";

type Result<T> = std::result::Result<T, ConditionError>;

/// The verdict of a measurement.
///
/// With both conditions the failure is evaluated first, and neither is inconclusive. An error in a condition
/// is an error of the measurement, with the reason for people. A number that is NaN or infinite may fail a
/// measurement, and never lets it pass.
pub fn judge(
    success: Option<&Condition>,
    failure: Option<&Condition>,
    result: &Value,
    matcher: &dyn Matcher,
) -> (HookPhase, Option<String>) {
    let ask = |condition: Option<&Condition>| {
        condition.map(|condition| condition.ask(result, matcher)).transpose()
    };
    let (failed, passed) = match ask(failure).and_then(|failed| Ok((failed, ask(success)?))) {
        Ok(answers) => answers,
        Err(error) => return (HookPhase::Error, Some(error.to_string())),
    };
    let is_finite =
        result.is_finite() && [failed, passed].into_iter().flatten().all(|(_, finite)| finite);
    match (failed.map(|(met, _)| met), passed.map(|(met, _)| met)) {
        (Some(true), _) | (None, Some(false)) => (HookPhase::Failed, None),
        (None | Some(false), None | Some(true)) if !is_finite => {
            (HookPhase::Inconclusive, Some(NOT_FINITE.to_owned()))
        }
        (None | Some(false), None | Some(true)) => (HookPhase::Successful, None),
        (Some(false), Some(false)) => (HookPhase::Inconclusive, None),
    }
}

// === impl Condition ===

impl Condition {
    /// Reads a condition on a result of this kind.
    pub fn compile(text: &str, result: &Kind) -> Result<Self> {
        if text.len() > TEXT_BYTES_MAX {
            return fail("the condition is too long", TEXT_BYTES_MAX);
        }
        let expr = parse::parse(&lex::lex(text)?)?;
        match check::check(&expr, result)? {
            Kind::Bool | Kind::Any => Ok(Self { expr }),
            other => {
                fail(format!("a condition must be true or false, this is {}", other.name()), 0)
            }
        }
    }

    /// Whether it holds.
    pub fn is_met(&self, result: &Value, matcher: &dyn Matcher) -> Result<bool> {
        self.ask(result, matcher).map(|(is_met, _)| is_met)
    }

    /// Whether it holds, and whether all numbers that it was evaluated on are finite.
    fn ask(&self, result: &Value, matcher: &dyn Matcher) -> Result<(bool, bool)> {
        let (value, is_finite) = evaluate::evaluate(&self.expr, result, matcher)?;
        match value {
            Value::Bool(answer) => Ok((answer, is_finite)),
            other => {
                fail(format!("a condition must be true or false, this is {}", other.name()), 0)
            }
        }
    }
}

// === impl Kind ===

impl Kind {
    fn name(&self) -> &'static str {
        match self {
            Self::Any => "anything",
            Self::Nil => "nil",
            Self::Bool => "a boolean",
            Self::Int => "an integer",
            Self::Float => "a number",
            Self::Text => "a string",
            Self::List(_) => "a list",
            Self::Map => "a map",
        }
    }
}

// === impl Value ===

impl Value {
    fn name(&self) -> &'static str {
        match self {
            Self::Nil => "nil",
            Self::Bool(_) => "a boolean",
            Self::Int(_) => "an integer",
            Self::Float(_) => "a number",
            Self::Text(_) => "a string",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
        }
    }

    /// Whether every number in it is finite.
    fn is_finite(&self) -> bool {
        match self {
            Self::Nil | Self::Bool(_) | Self::Int(_) | Self::Text(_) => true,
            Self::Float(number) => number.is_finite(),
            Self::List(items) => items.iter().all(Self::is_finite),
            Self::Map(members) => members.values().all(Self::is_finite),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "as every language does that mixes the two")]
    fn number(&self) -> Option<f64> {
        match self {
            Self::Int(number) => Some(*number as f64),
            Self::Float(number) => Some(*number),
            _ => None,
        }
    }
}

fn fail<T>(what: impl Into<String>, at: usize) -> Result<T> {
    Err(ConditionError { what: what.into(), at })
}
