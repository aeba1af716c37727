//! Reads tokens into an expression, by precedence.

use super::{
    DEPTH_MAX, OPERATORS_MAX, Result, fail,
    functions::{Builtin, Function},
    lex::{Token, TokenKind},
};

/// An expression and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Expr {
    pub(super) node: Node,
    pub(super) at: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    Nil,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    List(Vec<Expr>),
    Map(Vec<(String, Expr)>),
    /// The measured value.
    Result,
    /// The element that a predicate is about.
    Element,
    Unary(Unary, Box<Expr>),
    Binary(Binary, Box<Expr>, Box<Expr>),
    /// Condition, then, else.
    Choice(Box<Expr>, Box<Expr>, Box<Expr>),
    /// `a ?: b`.
    Either(Box<Expr>, Box<Expr>),
    Member(Box<Expr>, String),
    Index(Box<Expr>, Box<Expr>),
    Slice(Box<Expr>, Option<Box<Expr>>, Option<Box<Expr>>),
    Call(Function, Vec<Expr>),
    Over(Builtin, Box<Expr>, Box<Expr>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unary {
    Not,
    Minus,
    Plus,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binary {
    Or,
    And,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    NotIn,
    Matches,
    Contains,
    StartsWith,
    EndsWith,
    Range,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Power,
}

pub(super) fn parse(tokens: &[Token]) -> Result<Expr> {
    let mut parser = Parser { tokens, at: 0, depth: 0, is_inside: false, operators: 0 };
    let expr = parser.expression()?;
    match parser.peek() {
        TokenKind::End => Ok(expr),
        _ => fail("this was not expected", parser.place()),
    }
}

struct Parser<'a> {
    tokens: &'a [Token],
    at: usize,
    depth: usize,
    /// In a predicate, where `#` has a meaning.
    is_inside: bool,
    /// Operators read so far. A chain of them nests to the left, so their number bounds the depth.
    operators: usize,
}

impl Parser<'_> {
    fn peek(&self) -> &TokenKind {
        self.tokens.get(self.at).map_or(&TokenKind::End, |token| &token.kind)
    }

    fn place(&self) -> usize {
        self.tokens.get(self.at).or(self.tokens.last()).map_or(0, |token| token.at)
    }

    fn is_sign(&self, sign: &str) -> bool {
        matches!(self.peek(), TokenKind::Sign(next) if *next == sign)
    }

    fn take(&mut self, sign: &str) -> bool {
        let is_next = self.is_sign(sign);
        self.at += usize::from(is_next);
        is_next
    }

    fn takes_word(&mut self, word: &str) -> bool {
        let is_next = matches!(self.peek(), TokenKind::Name(name) if name == word);
        self.at += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, sign: &'static str) -> Result<()> {
        if self.take(sign) { Ok(()) } else { fail(format!("`{sign}` is missing"), self.place()) }
    }

    /// One level deeper, if that is not too deep.
    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth >= DEPTH_MAX {
            return fail("this nests too deeply", self.place());
        }
        self.depth += 1;
        let answer = read(self);
        self.depth -= 1;
        answer
    }

    fn count(&mut self, at: usize) -> Result<()> {
        self.operators += 1;
        if self.operators > OPERATORS_MAX {
            fail("there are too many operators", at)
        } else {
            Ok(())
        }
    }

    fn expression(&mut self) -> Result<Expr> {
        self.nested(Self::choice)
    }

    fn choice(&mut self) -> Result<Expr> {
        let condition = self.binary(0)?;
        let at = self.place();
        if self.take("?:") {
            let other = self.expression()?;
            return Ok(Expr { node: Node::Either(condition.into(), other.into()), at });
        }
        if !self.take("?") {
            return Ok(condition);
        }
        let then = self.expression()?;
        self.expect(":")?;
        let other = self.expression()?;
        Ok(Expr { node: Node::Choice(condition.into(), then.into(), other.into()), at })
    }

    /// Operators of this level and above; those of one level bind to the left.
    fn binary(&mut self, level: usize) -> Result<Expr> {
        if level == 5 {
            return self.not();
        }
        let mut left = self.binary(level + 1)?;
        while let Some((operator, at)) = self.operator(level) {
            self.count(at)?;
            let right = self.binary(level + 1)?;
            left = Expr { node: Node::Binary(operator, left.into(), right.into()), at };
        }
        Ok(left)
    }

    fn not(&mut self) -> Result<Expr> {
        let at = self.place();
        if self.take("!") || self.takes_word("not") {
            let inner = self.nested(Self::not)?;
            return Ok(Expr { node: Node::Unary(Unary::Not, inner.into()), at });
        }
        self.product()
    }

    fn product(&mut self) -> Result<Expr> {
        let mut left = self.power()?;
        while let Some((operator, at)) = self.operator(6) {
            self.count(at)?;
            let right = self.power()?;
            left = Expr { node: Node::Binary(operator, left.into(), right.into()), at };
        }
        Ok(left)
    }

    /// Binds to the right.
    fn power(&mut self) -> Result<Expr> {
        let base = self.signed()?;
        let at = self.place();
        if !self.take("**") {
            return Ok(base);
        }
        let exponent = self.nested(Self::power)?;
        Ok(Expr { node: Node::Binary(Binary::Power, base.into(), exponent.into()), at })
    }

    fn signed(&mut self) -> Result<Expr> {
        let at = self.place();
        let sign = match self.peek() {
            TokenKind::Sign("-") => Unary::Minus,
            TokenKind::Sign("+") => Unary::Plus,
            _ => return self.postfix(),
        };
        self.at += 1;
        let inner = self.nested(Self::signed)?;
        Ok(Expr { node: Node::Unary(sign, inner.into()), at })
    }

    fn operator(&mut self, level: usize) -> Option<(Binary, usize)> {
        let at = self.place();
        let (operator, words) = match self.peek() {
            TokenKind::Sign(sign) => (of_sign(sign)?, 1),
            TokenKind::Name(name) if name == "not" => {
                let next = self.tokens.get(self.at + 1).map(|token| &token.kind);
                let is_in = matches!(next, Some(TokenKind::Name(name)) if name == "in");
                is_in.then_some(((Binary::NotIn, 2), 2))?
            }
            TokenKind::Name(name) => (of_word(name)?, 1),
            _ => return None,
        };
        let (operator, its_level) = operator;
        if its_level != level {
            return None;
        }
        self.at += words;
        Some((operator, at))
    }

    fn postfix(&mut self) -> Result<Expr> {
        let mut expr = self.primary()?;
        loop {
            let at = self.place();
            self.count(at)?;
            if self.take(".") {
                let name = self.name()?;
                expr = Expr { node: Node::Member(expr.into(), name), at };
            } else if self.take("[") {
                expr = self.nested(|parser| parser.bracket(expr, at))?;
            } else {
                return Ok(expr);
            }
        }
    }

    fn name(&mut self) -> Result<String> {
        match self.peek() {
            TokenKind::Name(name) => {
                let name = name.clone();
                self.at += 1;
                Ok(name)
            }
            _ => fail("a name is expected", self.place()),
        }
    }

    fn bracket(&mut self, of: Expr, at: usize) -> Result<Expr> {
        let start = if self.is_sign(":") { None } else { Some(Box::new(self.expression()?)) };
        if self.take(":") {
            let end = if self.is_sign("]") { None } else { Some(Box::new(self.expression()?)) };
            self.expect("]")?;
            return Ok(Expr { node: Node::Slice(of.into(), start, end), at });
        }
        self.expect("]")?;
        match start {
            Some(index) => Ok(Expr { node: Node::Index(of.into(), index), at }),
            None => fail("an index is expected", at),
        }
    }

    fn primary(&mut self) -> Result<Expr> {
        let at = self.place();
        let token = self.peek().clone();
        self.at += 1;
        let node = match token {
            TokenKind::Int(number) => Node::Int(number),
            TokenKind::Float(number) => Node::Float(number),
            TokenKind::Text(text) => Node::Text(text),
            TokenKind::Name(name) => return self.named(&name, at),
            TokenKind::Sign("(") => {
                let inner = self.expression()?;
                self.expect(")")?;
                return Ok(inner);
            }
            TokenKind::Sign("[") => Node::List(self.list("]")?),
            TokenKind::Sign("{") => Node::Map(self.nested(Self::map)?),
            TokenKind::Sign("#") if self.is_inside => Node::Element,
            TokenKind::Sign("#") => return fail("`#` has a meaning only in a predicate", at),
            // `.field` is short for `#.field`.
            TokenKind::Sign(".") if self.is_inside => {
                let name = self.name()?;
                let element = Expr { node: Node::Element, at };
                Node::Member(element.into(), name)
            }
            TokenKind::Sign(sign) => return fail(format!("`{sign}` was not expected"), at),
            TokenKind::End => return fail("the condition ends too early", at),
        };
        Ok(Expr { node, at })
    }

    fn list(&mut self, end: &'static str) -> Result<Vec<Expr>> {
        let mut items = Vec::new();
        while !self.take(end) {
            if !items.is_empty() {
                self.expect(",")?;
                // A comma may stand at the end.
                if self.take(end) {
                    break;
                }
            }
            items.push(self.expression()?);
        }
        Ok(items)
    }

    fn map(&mut self) -> Result<Vec<(String, Expr)>> {
        let mut members: Vec<(String, Expr)> = Vec::new();
        while !self.take("}") {
            if !members.is_empty() {
                self.expect(",")?;
            }
            let (TokenKind::Name(name) | TokenKind::Text(name)) = self.peek().clone() else {
                return fail("a name is expected", self.place());
            };
            self.at += 1;
            self.expect(":")?;
            members.push((name, self.expression()?));
        }
        Ok(members)
    }

    fn named(&mut self, name: &str, at: usize) -> Result<Expr> {
        let node = match name {
            "true" => Node::Bool(true),
            "false" => Node::Bool(false),
            "nil" => Node::Nil,
            "result" => Node::Result,
            _ if self.take("(") => return self.nested(|parser| parser.call(name, at)),
            _ => return fail(format!("`{name}` is not known"), at),
        };
        Ok(Expr { node, at })
    }

    fn call(&mut self, name: &str, at: usize) -> Result<Expr> {
        if let Some(builtin) = Builtin::named(name) {
            let list = self.expression()?;
            self.expect(",")?;
            let has_braces = self.take("{");
            let was_inside = std::mem::replace(&mut self.is_inside, true);
            let predicate = self.expression();
            self.is_inside = was_inside;
            let predicate = predicate?;
            if has_braces {
                self.expect("}")?;
            }
            self.expect(")")?;
            return Ok(Expr { node: Node::Over(builtin, list.into(), predicate.into()), at });
        }
        let Some(function) = Function::named(name) else {
            return fail(format!("`{name}` is not a function"), at);
        };
        let arguments = self.list(")")?;
        if arguments.len() != function.arity() {
            return fail(format!("`{name}` takes {} arguments", function.arity()), at);
        }
        Ok(Expr { node: Node::Call(function, arguments), at })
    }
}

/// The operator and its level.
fn of_sign(sign: &str) -> Option<(Binary, usize)> {
    Some(match sign {
        "||" => (Binary::Or, 0),
        "&&" => (Binary::And, 1),
        "==" => (Binary::Equal, 2),
        "!=" => (Binary::NotEqual, 2),
        "<" => (Binary::Less, 2),
        "<=" => (Binary::LessOrEqual, 2),
        ">" => (Binary::Greater, 2),
        ">=" => (Binary::GreaterOrEqual, 2),
        ".." => (Binary::Range, 3),
        "+" => (Binary::Add, 4),
        "-" => (Binary::Subtract, 4),
        "*" => (Binary::Multiply, 6),
        "/" => (Binary::Divide, 6),
        "%" => (Binary::Remainder, 6),
        _ => return None,
    })
}

fn of_word(word: &str) -> Option<(Binary, usize)> {
    Some(match word {
        "or" => (Binary::Or, 0),
        "and" => (Binary::And, 1),
        "in" => (Binary::In, 2),
        "matches" => (Binary::Matches, 2),
        "contains" => (Binary::Contains, 2),
        "startsWith" => (Binary::StartsWith, 2),
        "endsWith" => (Binary::EndsWith, 2),
        _ => return None,
    })
}
