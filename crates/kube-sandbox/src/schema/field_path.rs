//! Field paths in rules and definitions: `.spec.replicas`, `.spec['a.b']`.

use serde_json::Value;

use super::{Additional, Schema, raw};

/// A parsed path of fields and map keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FieldPath {
    steps: Vec<String>,
    bracketed: bool,
}

impl FieldPath {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut steps = Vec::new();
        let mut bracketed = false;
        let mut rest = text;
        while !rest.is_empty() {
            if let Some(tail) = rest.strip_prefix('.') {
                let end = tail.find(['.', '[', ']']).unwrap_or(tail.len());
                let (name, tail) = tail.split_at(end);
                if name.is_empty() {
                    return Err("unexpected end of JSON path".to_owned());
                }
                steps.push(name.to_owned());
                rest = tail;
            } else if let Some(tail) = rest.strip_prefix('[') {
                let (key, tail) = parse_quoted(tail)?;
                steps.push(key);
                bracketed = true;
                rest = tail
                    .strip_prefix(']')
                    .ok_or_else(|| "unexpected end of JSON path".to_owned())?;
            } else {
                let end = rest.find(['.', '[', ']']).filter(|end| *end > 0).unwrap_or(rest.len());
                return Err(format!("expected [ or . but got: {}", &rest[..end]));
            }
        }
        Ok(Self { steps, bracketed })
    }

    pub(crate) fn uses_brackets(&self) -> bool {
        self.bracketed
    }

    pub(crate) fn first(&self) -> Option<&str> {
        self.steps.first().map(String::as_str)
    }

    /// Whether an `openAPIV3Schema` declares the field at this path.
    pub(super) fn exists_in(&self, schema: &Value) -> bool {
        let mut node = schema;
        for step in &self.steps {
            let properties = raw::map(node, "properties");
            let next = if properties.is_empty() {
                raw::child(node, "additionalProperties")
            } else {
                properties.get(step)
            };
            let Some(next) = next else { return false };
            node = next;
        }
        true
    }

    /// The schema node at this path.
    pub(super) fn resolve<'a>(&self, schema: &'a Schema) -> Option<&'a Schema> {
        self.steps.iter().try_fold(schema, |node, step| step_into(node, step).map(|(next, _)| next))
    }

    /// The path as printed in field errors: `spec.labels[app]`.
    pub(super) fn normalized(&self, schema: &Schema) -> Option<String> {
        let mut text = String::new();
        let mut node = schema;
        for step in &self.steps {
            let (next, is_key) = step_into(node, step)?;
            if is_key {
                text.extend(["[", step, "]"]);
            } else {
                if !text.is_empty() {
                    text.push('.');
                }
                text.push_str(step);
            }
            node = next;
        }
        Some(text)
    }
}

fn step_into<'a>(node: &'a Schema, step: &str) -> Option<(&'a Schema, bool)> {
    if !node.properties.is_empty() {
        return node.properties.get(step).map(|next| (next, false));
    }
    match &node.additional {
        Additional::Each(next) => Some((next, true)),
        Additional::Unset | Additional::Allowed(_) => None,
    }
}

fn parse_quoted(text: &str) -> Result<(String, &str), String> {
    let Some(tail) = text.strip_prefix('\'') else {
        let end = text.find(']').unwrap_or(text.len());
        return Err(format!("expected single quoted string but got {}", &text[..end]));
    };
    let mut key = String::new();
    let mut characters = tail.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '\'' => return Ok((key, &tail[at + 1..])),
            '\\' => match characters.next() {
                Some((_, escaped)) => key.push(unescape(escaped)?),
                None => break,
            },
            other => key.push(other),
        }
    }
    Err("unexpected end of JSON path".to_owned())
}

fn unescape(escaped: char) -> Result<char, String> {
    Ok(match escaped {
        'a' => '\x07',
        'b' => '\x08',
        'f' => '\x0c',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\x0b',
        '\'' | '\\' => escaped,
        other => return Err(format!("invalid string literal: invalid escape char \\{other}")),
    })
}
