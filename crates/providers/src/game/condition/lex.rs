//! Splits a condition into tokens.

use super::{Result, fail};

/// A token and where it begins.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Token {
    pub(super) kind: TokenKind,
    pub(super) at: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum TokenKind {
    Int(i64),
    Float(f64),
    Text(String),
    /// A name or a word such as `and`.
    Name(String),
    /// An operator or a bracket.
    Sign(&'static str),
    End,
}

/// Longer ones first: the first that fits is taken.
const SIGNS: [&str; 32] = [
    "?:", "||", "&&", "==", "!=", "<=", ">=", "**", "..", "<", ">", "+", "-", "*", "/", "%", "!",
    "?", ":", "(", ")", "[", "]", "{", "}", ",", ".", "#", ";", "=", "&", "|",
];

pub(super) fn lex(text: &str) -> Result<Vec<Token>> {
    let letters: Vec<char> = text.chars().collect();
    let mut lexer = Lexer { letters: &letters, at: 0 };
    let mut tokens = Vec::new();
    loop {
        while lexer.peek(0).is_some_and(char::is_whitespace) {
            lexer.at += 1;
        }
        let at = lexer.at;
        let Some(letter) = lexer.peek(0) else {
            tokens.push(Token { kind: TokenKind::End, at });
            return Ok(tokens);
        };
        let kind = match letter {
            '0'..='9' => lexer.number()?,
            '.' if lexer.peek(1).is_some_and(|next| next.is_ascii_digit()) => lexer.number()?,
            '"' | '\'' => TokenKind::Text(lexer.text(letter)?),
            _ if letter.is_alphabetic() || letter == '_' => TokenKind::Name(lexer.name()),
            _ => lexer.sign()?,
        };
        tokens.push(Token { kind, at });
    }
}

struct Lexer<'a> {
    letters: &'a [char],
    at: usize,
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.letters.get(self.at + ahead).copied()
    }

    fn run(&mut self, into: &mut String, accepts: impl Fn(char) -> bool) {
        while let Some(letter) = self.peek(0).filter(|letter| accepts(*letter) || *letter == '_') {
            if letter != '_' {
                into.push(letter);
            }
            self.at += 1;
        }
    }

    fn number(&mut self) -> Result<TokenKind> {
        let start = self.at;
        let mut text = String::new();
        if self.peek(0) == Some('0') && matches!(self.peek(1), Some('x' | 'X')) {
            self.at += 2;
            self.run(&mut text, |letter| letter.is_ascii_hexdigit());
            return i64::from_str_radix(&text, 16).map_or_else(
                |_| fail("this is no number", start),
                |number| Ok(TokenKind::Int(number)),
            );
        }
        self.run(&mut text, |letter| letter.is_ascii_digit());
        let mut is_float = false;
        // Two points are a range.
        if self.peek(0) == Some('.') && self.peek(1) != Some('.') {
            is_float = true;
            text.push('.');
            self.at += 1;
            self.run(&mut text, |letter| letter.is_ascii_digit());
        }
        if let Some('e' | 'E') = self.peek(0) {
            is_float = true;
            text.push('e');
            self.at += 1;
            if let Some(sign @ ('+' | '-')) = self.peek(0) {
                text.push(sign);
                self.at += 1;
            }
            self.run(&mut text, |letter| letter.is_ascii_digit());
        }
        if self.peek(0).is_some_and(char::is_alphanumeric) {
            return fail("this is no number", start);
        }
        let number = if is_float {
            text.parse().ok().filter(|number: &f64| number.is_finite()).map(TokenKind::Float)
        } else {
            text.parse().ok().map(TokenKind::Int)
        };
        number.map_or_else(|| fail("this is no number", start), Ok)
    }

    fn name(&mut self) -> String {
        let mut name = String::new();
        while let Some(letter) =
            self.peek(0).filter(|letter| letter.is_alphanumeric() || *letter == '_')
        {
            name.push(letter);
            self.at += 1;
        }
        name
    }

    fn text(&mut self, quote: char) -> Result<String> {
        let start = self.at;
        self.at += 1;
        let mut text = String::new();
        while let Some(letter) = self.peek(0) {
            self.at += 1;
            if letter == quote {
                return Ok(text);
            }
            if letter != '\\' {
                text.push(letter);
                continue;
            }
            let escaped = self.peek(0);
            self.at += 1;
            match escaped {
                Some('n') => text.push('\n'),
                Some('t') => text.push('\t'),
                Some('r') => text.push('\r'),
                Some(letter @ ('\\' | '"' | '\'' | '/')) => text.push(letter),
                Some('u') => text.push(self.code_point()?),
                Some(_) => return fail("this escape is not known", self.at.saturating_sub(2)),
                None => break,
            }
        }
        fail("a quote is not closed", start)
    }

    fn code_point(&mut self) -> Result<char> {
        let start = self.at;
        let digits: String = self.letters.iter().skip(start).take(4).collect();
        self.at += 4;
        let code = u32::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 4);
        code.and_then(char::from_u32).map_or_else(|| fail("this is no character", start), Ok)
    }

    fn sign(&mut self) -> Result<TokenKind> {
        let found = SIGNS.into_iter().find(|sign| {
            sign.chars().enumerate().all(|(offset, letter)| self.peek(offset) == Some(letter))
        });
        match found {
            Some(sign @ (";" | "=" | "&" | "|")) => {
                fail(format!("`{sign}` is not an operator"), self.at)
            }
            Some(sign) => {
                self.at += sign.chars().count();
                Ok(TokenKind::Sign(sign))
            }
            None => fail("this character has no meaning", self.at),
        }
    }
}
