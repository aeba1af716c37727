//! Parser of paths.
//!
//! A cursor takes steps off the front of the text. Nesting is limited to a filter's two sides and a
//! union's branches, because both end at the first bracket that could close them.

use serde_json::Value;

use super::{Comparison, End, Operand, Path, Slice, Step};

/// Longer than any useful path; limits the work for a malicious one.
const TEXT_MAX: usize = 4096;

pub(super) fn path(text: &str) -> Result<Path, String> {
    if text.len() > TEXT_MAX {
        return Err(format!("path is longer than {TEXT_MAX} bytes"));
    }
    let text = text.trim();
    let inner = match text.strip_prefix('{') {
        Some(rest) => rest.strip_suffix('}').ok_or("unclosed action")?.trim(),
        None => text,
    };
    // `spec.replicas` is accepted for `.spec.replicas`, as in kubectl.
    let relaxed = inner.starts_with(|first: char| first == '_' || first.is_alphabetic());
    let steps = if relaxed { steps(&format!(".{inner}")) } else { steps(inner) }?;
    Ok(Path { steps })
}

fn steps(text: &str) -> Result<Vec<Step>, String> {
    let mut steps = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("[?(") {
            let (step, after) = filter(after)?;
            steps.push(step);
            rest = after;
        } else if let Some(after) = rest.strip_prefix("..") {
            if steps.last() == Some(&Step::Recursive) {
                return Err("invalid multiple recursive descent".to_owned());
            }
            steps.push(Step::Recursive);
            rest = after;
            if rest.starts_with(|next: char| next == '_' || next == '*' || next.is_alphanumeric()) {
                let (step, after) = field(rest);
                steps.push(step);
                rest = after;
            }
        } else if let Some(after) = rest.strip_prefix('[') {
            rest = bracket(after, &mut steps)?;
        } else if let Some(after) = rest.strip_prefix('.') {
            let (step, after) = field(after);
            steps.push(step);
            rest = after;
        } else if let Some(after) = rest.strip_prefix([' ', '@', '$']) {
            rest = after;
        } else {
            return Err(format!("unrecognized character in action: {first:?}"));
        }
    }
    Ok(steps)
}

/// A field name up to the next delimiter; a backslash escapes a delimiter.
fn field(text: &str) -> (Step, &str) {
    let mut name = String::new();
    let mut end = text.len();
    let mut escaped = false;
    for (at, character) in text.char_indices() {
        match character {
            _ if escaped => {
                name.push(character);
                escaped = false;
            }
            '\\' => escaped = true,
            ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}' => {
                end = at;
                break;
            }
            _ => name.push(character),
        }
    }
    let rest = text.get(end..).unwrap_or_default();
    (if name == "*" { Step::Wildcard } else { Step::Field(name) }, rest)
}

/// Parses the contents of `[...]` other than a filter. `text` begins after the opening bracket.
fn bracket<'t>(text: &'t str, steps: &mut Vec<Step>) -> Result<&'t str, String> {
    let (inner, rest) = text.split_once(']').ok_or("unterminated array")?;
    if inner.contains(',') {
        let branch = |part: &str| {
            let mut branch = Vec::new();
            selector(part.trim(), &mut branch).map(|()| branch)
        };
        steps.push(Step::Union(inner.split(',').map(branch).collect::<Result<_, _>>()?));
    } else {
        selector(inner, steps)?;
    }
    Ok(rest)
}

fn selector(inner: &str, out: &mut Vec<Step>) -> Result<(), String> {
    let quoted = inner.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
    if let Some(key) = quoted.filter(|key| !key.contains('\'')) {
        out.extend(steps(&format!(".{key}"))?);
        return Ok(());
    }
    out.push(Step::Slice(slice(if inner == "*" { ":" } else { inner })?));
    Ok(())
}

fn slice(inner: &str) -> Result<Slice, String> {
    let number = |part: &str| match part {
        "" => Ok(None),
        digits => digits.parse::<i64>().map(Some).map_err(|_| {
            let shown = if inner == ":" { "*" } else { inner };
            format!("invalid array index {shown}")
        }),
    };
    let mut parts = inner.split(':');
    let start = number(parts.next().unwrap_or_default())?;
    let end = match parts.next() {
        None => End::AfterStart,
        Some(part) => number(part)?.map_or(End::Last, End::At),
    };
    let step = number(parts.next().unwrap_or_default())?;
    if parts.next().is_some() {
        return Err(format!("invalid array index {inner}"));
    }
    Ok(Slice { start, end, step })
}

/// Parses a filter's condition; returns the rest. `text` begins after `[?(`.
fn filter(text: &str) -> Result<(Step, &str), String> {
    let end = closing_parenthesis(text).ok_or("unterminated filter")?;
    let (condition, rest) = text.split_at(end);
    let rest = rest.strip_prefix(")]").ok_or("unclosed array expect ]")?;
    Ok((comparison(condition)?, rest))
}

/// The position of the first `)` outside quotes.
fn closing_parenthesis(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut before = ' ';
    for (at, character) in text.char_indices() {
        match character {
            '"' | '\'' if quote.is_none() => quote = Some(character),
            '"' | '\'' if quote == Some(character) && before != '\\' => quote = None,
            ')' if quote.is_none() => return Some(at),
            _ => {}
        }
        before = character;
    }
    None
}

fn comparison(condition: &str) -> Result<Step, String> {
    let is_operator = |character: char| "!<>=".contains(character);
    let Some(at) = condition.find(is_operator).filter(|at| *at > 0) else {
        return Ok(Step::Filter { left: operand(condition)?, compared: None });
    };
    let (left, rest) = condition.split_at(at);
    let length = rest.find(|character| !is_operator(character)).unwrap_or(rest.len());
    let (sign, right) = rest.split_at(length);
    let comparison = match sign {
        "==" => Comparison::Equal,
        "!=" => Comparison::NotEqual,
        "<" => Comparison::Less,
        "<=" => Comparison::LessOrEqual,
        ">" => Comparison::Greater,
        ">=" => Comparison::GreaterOrEqual,
        other => return Err(format!("unrecognized filter operator {other}")),
    };
    if right.trim().is_empty() {
        return Err("a comparison has two sides".to_owned());
    }
    let compared = Some((comparison, operand(right)?));
    Ok(Step::Filter { left: operand(left)?, compared })
}

fn operand(text: &str) -> Result<Operand, String> {
    let text = text.trim();
    let literal = match text.chars().next() {
        Some(quote @ ('"' | '\'')) => quoted(text, quote)?.into(),
        Some('+' | '-' | '0'..='9') => number(text)?,
        _ if text == "true" || text == "false" => (text == "true").into(),
        _ => return Ok(Operand::Path(steps(text)?)),
    };
    Ok(Operand::Literal(literal))
}

fn number(text: &str) -> Result<Value, String> {
    if let Ok(whole) = text.parse::<i64>() {
        return Ok(whole.into());
    }
    let broken = text.parse::<f64>().ok().and_then(serde_json::Number::from_f64);
    broken.map(Value::Number).ok_or_else(|| format!("cannot parse number {text}"))
}

fn quoted(text: &str, quote: char) -> Result<String, String> {
    let inner = text
        .strip_prefix(quote)
        .and_then(|rest| rest.strip_suffix(quote))
        .ok_or("unterminated quoted string")?;
    let mut plain = String::with_capacity(inner.len());
    let mut characters = inner.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some('n') => plain.push('\n'),
                Some('t') => plain.push('\t'),
                Some(kept) => plain.push(kept),
                None => return Err("unterminated quoted string".to_owned()),
            },
            _ if character == quote => return Err(format!("unquote string {text} error")),
            _ => plain.push(character),
        }
    }
    Ok(plain)
}
