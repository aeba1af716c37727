//! Parser of label selectors in queries.
//!
//! It follows the API server's parser token by token, so that oddities (`a in (,)`, `in` as a
//! value) and error texts are the same.

use std::collections::BTreeSet;

use super::{Operator, Requirement};
use crate::names;

/// The longer ones first, so that `==` is not two `=`.
const SYMBOLS: [&str; 9] = ["==", "!=", "=", "!", "(", ")", ",", ">", "<"];

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    End,
    Word(String),
    In,
    NotIn,
    Symbol(&'static str),
}

struct Parser {
    tokens: Vec<Token>,
    next: usize,
}

pub(super) fn requirements(text: &str) -> Result<Vec<Requirement>, String> {
    let mut parser = Parser { tokens: scan(text), next: 0 };
    let mut found = Vec::new();
    loop {
        match parser.peek_value() {
            Token::End => return Ok(found),
            Token::Word(_) | Token::Symbol("!") => {}
            other => {
                let literal = other.literal();
                return Err(format!(
                    "found '{literal}', expected: !, identifier, or 'end of string'"
                ));
            }
        }
        let requirement = parser.requirement();
        found.push(requirement.map_err(|why| format!("unable to parse requirement: {why}"))?);
        match parser.take_value() {
            Token::End => return Ok(found),
            Token::Symbol(",") => match parser.peek_value() {
                Token::Word(_) | Token::Symbol("!") => {}
                other => {
                    let literal = other.literal();
                    return Err(format!("found '{literal}', expected: identifier after ','"));
                }
            },
            other => {
                let literal = other.literal();
                return Err(format!("found '{literal}', expected: ',' or 'end of string'"));
            }
        }
    }
}

fn scan(text: &str) -> Vec<Token> {
    let is_special = |c: char| "=!(),><".contains(c);
    let is_blank = |c: char| " \t\r\n".contains(c);
    let mut tokens = Vec::new();
    let mut rest = text.trim_start_matches(is_blank);
    while let Some(first) = rest.chars().next() {
        let (token, len) = if is_special(first) {
            let found = SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol));
            let found = found.expect("every special character is a symbol by itself");
            (Token::Symbol(found), found.len())
        } else {
            let end = rest.find(|c| is_special(c) || is_blank(c)).unwrap_or(rest.len());
            let word = rest.get(..end).unwrap_or_default();
            let token = match word {
                "in" => Token::In,
                "notin" => Token::NotIn,
                _ => Token::Word(word.to_owned()),
            };
            (token, end)
        };
        tokens.push(token);
        rest = rest.get(len..).unwrap_or_default().trim_start_matches(is_blank);
    }
    tokens.push(Token::End);
    tokens
}

// === impl Token ===

impl Token {
    fn literal(&self) -> String {
        match self {
            Self::End => String::new(),
            Self::Word(word) => word.clone(),
            Self::In => "in".to_owned(),
            Self::NotIn => "notin".to_owned(),
            Self::Symbol(symbol) => (*symbol).to_owned(),
        }
    }

    /// In the place of a value, `in` and `notin` are plain words.
    fn as_value(&self) -> Self {
        match self {
            Self::In | Self::NotIn => Self::Word(self.literal()),
            other => other.clone(),
        }
    }
}

// === impl Parser ===

impl Parser {
    fn peek_value(&self) -> Token {
        self.tokens.get(self.next).map_or(Token::End, Token::as_value)
    }

    fn take_value(&mut self) -> Token {
        self.take().as_value()
    }

    fn take(&mut self) -> Token {
        let token = self.tokens.get(self.next).cloned().unwrap_or(Token::End);
        self.next += 1;
        token
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let mut token = self.take_value();
        let negated = token == Token::Symbol("!");
        if negated {
            token = self.take_value();
        }
        let Token::Word(key) = token else {
            return Err(format!("found '{}', expected: identifier", token.literal()));
        };
        let wrong = names::qualified_name(&key);
        if !wrong.is_empty() {
            return Err(format!("<nil>: Invalid value: {key:?}: {}", wrong.join("; ")));
        }
        let alone = matches!(self.peek_value(), Token::End | Token::Symbol(","));
        if negated || alone {
            let operator = if negated { Operator::DoesNotExist } else { Operator::Exists };
            return Requirement::new(&key, operator, []);
        }
        let operator = self.operator()?;
        let values = match operator {
            Operator::In | Operator::NotIn => self.value_set()?,
            _ => BTreeSet::from([self.exact_value()?]),
        };
        Requirement::new(&key, operator, values.iter().map(String::as_str))
    }

    fn operator(&mut self) -> Result<Operator, String> {
        match self.take() {
            Token::In => Ok(Operator::In),
            Token::NotIn => Ok(Operator::NotIn),
            Token::Symbol("=") => Ok(Operator::Equals),
            Token::Symbol("==") => Ok(Operator::DoubleEquals),
            Token::Symbol("!=") => Ok(Operator::NotEquals),
            Token::Symbol(">") => Ok(Operator::GreaterThan),
            Token::Symbol("<") => Ok(Operator::LessThan),
            other => {
                let literal = other.literal();
                Err(format!("found '{literal}', expected: in, notin, =, ==, !=, gt, lt"))
            }
        }
    }

    fn exact_value(&mut self) -> Result<String, String> {
        if matches!(self.peek_value(), Token::End | Token::Symbol(",")) {
            return Ok(String::new());
        }
        match self.take_value() {
            Token::Word(word) => Ok(word),
            other => Err(format!("found '{}', expected: identifier", other.literal())),
        }
    }

    /// `(a,b)`; nothing between two commas is the empty value.
    fn value_set(&mut self) -> Result<BTreeSet<String>, String> {
        let open = self.take_value();
        if open != Token::Symbol("(") {
            return Err(format!("found '{}' expected: '('", open.literal()));
        }
        match self.peek_value() {
            Token::Symbol(")") => {
                self.take();
                return Ok(BTreeSet::from([String::new()]));
            }
            Token::Word(_) | Token::Symbol(",") => {}
            other => {
                let literal = other.literal();
                return Err(format!("found '{literal}', expected: ',', ')' or identifier"));
            }
        }
        let mut values = BTreeSet::new();
        loop {
            match (self.take_value(), self.peek_value()) {
                (Token::Word(word), next) => {
                    values.insert(word);
                    match next {
                        Token::Symbol(",") => {}
                        Token::Symbol(")") => break,
                        other => {
                            let literal = other.literal();
                            return Err(format!("found '{literal}', expected: ',' or ')'"));
                        }
                    }
                }
                (Token::Symbol(","), next) => {
                    let closes = next == Token::Symbol(")");
                    if values.is_empty() || closes || next == Token::Symbol(",") {
                        values.insert(String::new());
                    }
                    if closes {
                        break;
                    }
                }
                (other, _) => {
                    let literal = other.literal();
                    return Err(format!("found '{literal}', expected: ',', or identifier"));
                }
            }
        }
        self.take();
        Ok(values)
    }
}
