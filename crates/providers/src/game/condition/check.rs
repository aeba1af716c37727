//! Checks the types of a condition, before anything is measured.

use super::{
    Kind, Result, fail,
    functions::Builtin,
    parse::{Binary, Expr, Node, Unary},
};

/// The kind of the expression, if it makes sense at all.
pub(super) fn check(expr: &Expr, result: &Kind) -> Result<Kind> {
    Checker { result, elements: Vec::new() }.kind(expr)
}

struct Checker<'a> {
    result: &'a Kind,
    /// The types of `#`, innermost last.
    elements: Vec<Kind>,
}

impl Checker<'_> {
    fn kind(&mut self, expr: &Expr) -> Result<Kind> {
        let at = expr.at;
        Ok(match &expr.node {
            Node::Nil => Kind::Nil,
            Node::Bool(_) => Kind::Bool,
            Node::Int(_) => Kind::Int,
            Node::Float(_) => Kind::Float,
            Node::Text(_) => Kind::Text,
            Node::List(items) => self.list(items)?,
            Node::Map(members) => {
                for (_, member) in members {
                    self.kind(member)?;
                }
                Kind::Map
            }
            Node::Result => self.result.clone(),
            Node::Element => self.elements.last().cloned().unwrap_or(Kind::Any),
            Node::Unary(unary, inner) => {
                let inner = self.kind(inner)?;
                of_unary(*unary, inner, at)?
            }
            Node::Binary(binary, left, right) => {
                let (left, right) = (self.kind(left)?, self.kind(right)?);
                of_binary(*binary, &left, &right, at)?
            }
            Node::Choice(condition, then, other) => {
                needs(&self.kind(condition)?, &Kind::Bool, at)?;
                same_or_any(self.kind(then)?, &self.kind(other)?)
            }
            Node::Either(one, other) => same_or_any(self.kind(one)?, &self.kind(other)?),
            Node::Member(of, _) => match self.kind(of)? {
                Kind::Any | Kind::Map => Kind::Any,
                other => return fail(format!("{} has no members", other.name()), at),
            },
            Node::Index(of, index) => self.index(of, index, at)?,
            Node::Slice(of, start, end) => self.slice(of, [start, end], at)?,
            Node::Call(function, arguments) => {
                let kinds = arguments.iter().map(|argument| self.kind(argument));
                let kinds: Vec<Kind> = kinds.collect::<Result<_>>()?;
                function.kind(&kinds, at)?
            }
            Node::Over(builtin, list, predicate) => self.over(*builtin, list, predicate, at)?,
        })
    }

    fn list(&mut self, items: &[Expr]) -> Result<Kind> {
        let mut all: Option<Kind> = None;
        for item in items {
            let kind = self.kind(item)?;
            all = Some(match all {
                None => kind,
                Some(before) => same_or_any(before, &kind),
            });
        }
        Ok(Kind::List(all.unwrap_or(Kind::Any).into()))
    }

    fn index(&mut self, of: &Expr, index: &Expr, at: usize) -> Result<Kind> {
        let key = self.kind(index)?;
        match self.kind(of)? {
            Kind::Any => Ok(Kind::Any),
            Kind::List(element) => needs(&key, &Kind::Int, at).map(|()| *element),
            Kind::Map => needs(&key, &Kind::Text, at).map(|()| Kind::Any),
            other => fail(format!("{} has no elements", other.name()), at),
        }
    }

    fn slice(&mut self, of: &Expr, bounds: [&Option<Box<Expr>>; 2], at: usize) -> Result<Kind> {
        for bound in bounds.into_iter().flatten() {
            needs(&self.kind(bound)?, &Kind::Int, at)?;
        }
        match self.kind(of)? {
            kind @ (Kind::Any | Kind::List(_) | Kind::Text) => Ok(kind),
            other => fail(format!("{} cannot be sliced", other.name()), at),
        }
    }

    fn over(&mut self, builtin: Builtin, list: &Expr, predicate: &Expr, at: usize) -> Result<Kind> {
        let element = match self.kind(list)? {
            Kind::Any => Kind::Any,
            Kind::List(element) => *element,
            other => return fail(format!("a list is needed, not {}", other.name()), at),
        };
        self.elements.push(element.clone());
        let answer = self.kind(predicate);
        self.elements.pop();
        let answer = answer?;
        if builtin == Builtin::Map {
            return Ok(Kind::List(answer.into()));
        }
        needs(&answer, &Kind::Bool, predicate.at)?;
        Ok(match builtin {
            Builtin::All | Builtin::None | Builtin::Any | Builtin::One => Kind::Bool,
            Builtin::Filter | Builtin::Map => Kind::List(element.into()),
            Builtin::Count => Kind::Int,
        })
    }
}

fn same_or_any(one: Kind, other: &Kind) -> Kind {
    if one == *other { one } else { Kind::Any }
}

fn needs(kind: &Kind, wanted: &Kind, at: usize) -> Result<()> {
    if kind == wanted || *kind == Kind::Any {
        return Ok(());
    }
    fail(format!("{} is needed, not {}", wanted.name(), kind.name()), at)
}

fn is_number(kind: &Kind) -> bool {
    matches!(kind, Kind::Any | Kind::Int | Kind::Float)
}

fn of_unary(unary: Unary, inner: Kind, at: usize) -> Result<Kind> {
    match unary {
        Unary::Not => needs(&inner, &Kind::Bool, at).map(|()| Kind::Bool),
        Unary::Minus | Unary::Plus if is_number(&inner) => Ok(inner),
        Unary::Minus | Unary::Plus => fail(format!("a number is needed, not {}", inner.name()), at),
    }
}

fn of_binary(binary: Binary, left: &Kind, right: &Kind, at: usize) -> Result<Kind> {
    let mismatch = || fail(format!("{} and {} do not go together", left.name(), right.name()), at);
    let are_numbers = is_number(left) && is_number(right);
    let are_texts = needs(left, &Kind::Text, at).is_ok() && needs(right, &Kind::Text, at).is_ok();
    match binary {
        Binary::Or | Binary::And => {
            needs(left, &Kind::Bool, at)?;
            needs(right, &Kind::Bool, at).map(|()| Kind::Bool)
        }
        Binary::Equal | Binary::NotEqual => {
            let is_nil = *left == Kind::Nil || *right == Kind::Nil;
            let is_alike = matches!((left, right), (Kind::List(_), Kind::List(_)));
            if left == right
                || are_numbers
                || are_texts
                || is_nil
                || is_alike
                || is_any(left, right)
            {
                Ok(Kind::Bool)
            } else {
                mismatch()
            }
        }
        Binary::Less | Binary::LessOrEqual | Binary::Greater | Binary::GreaterOrEqual => {
            if are_numbers || are_texts {
                Ok(Kind::Bool)
            } else {
                mismatch()
            }
        }
        Binary::In | Binary::NotIn => match right {
            Kind::Any | Kind::List(_) | Kind::Map => Ok(Kind::Bool),
            other => fail(format!("a list is needed, not {}", other.name()), at),
        },
        Binary::Matches | Binary::Contains | Binary::StartsWith | Binary::EndsWith => {
            needs(left, &Kind::Text, at)?;
            needs(right, &Kind::Text, at).map(|()| Kind::Bool)
        }
        Binary::Range | Binary::Remainder => {
            needs(left, &Kind::Int, at)?;
            needs(right, &Kind::Int, at)?;
            Ok(if binary == Binary::Range { Kind::List(Kind::Int.into()) } else { Kind::Int })
        }
        Binary::Add if are_texts && !is_any(left, right) => Ok(Kind::Text),
        Binary::Add if is_any(left, right) => Ok(Kind::Any),
        Binary::Power if are_numbers => Ok(Kind::Float),
        Binary::Add | Binary::Subtract | Binary::Multiply | Binary::Divide if are_numbers => {
            Ok(match (left, right) {
                (Kind::Int, Kind::Int) => Kind::Int,
                (Kind::Any, _) | (_, Kind::Any) => Kind::Any,
                _ => Kind::Float,
            })
        }
        Binary::Add | Binary::Subtract | Binary::Multiply | Binary::Divide | Binary::Power => {
            mismatch()
        }
    }
}

fn is_any(left: &Kind, right: &Kind) -> bool {
    *left == Kind::Any || *right == Kind::Any
}
