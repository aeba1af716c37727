//! `pattern`s in Go's RE2 syntax, run by the `regex` crate.
//!
//! Both run in linear time and have nearly the same syntax. Differences are translated: Go's `\d`,
//! `\w`, `\s` and `\b` are ASCII, a `{` without a repetition is literal, `[` and `&&` are literal
//! inside a class, and `\Q...\E` quotes.

use regex::{Regex, RegexBuilder};

/// Size limit of a compiled program: `((a{100}){100}){100}` is a short text with a large program.
const MAX_PROGRAM_BYTES: usize = 2 << 20;

/// Maximum length of a pattern. The longest in use, for semantic versions and qualified names, have
/// some hundreds of characters.
const MAX_PATTERN_BYTES: usize = 32 << 10;

/// A compiled pattern with its source text.
#[derive(Debug)]
pub(super) struct Pattern {
    pub(super) source: String,
    regex: Regex,
}

impl Pattern {
    pub(super) fn compile(source: &str) -> Result<Self, String> {
        Ok(Self { source: source.to_owned(), regex: compile(source)? })
    }

    pub(super) fn matches(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }
}

/// Compiles a pattern in Go's syntax.
pub(super) fn compile(source: &str) -> Result<Regex, String> {
    if source.len() > MAX_PATTERN_BYTES {
        return Err(format!("expression is longer than {MAX_PATTERN_BYTES} bytes"));
    }
    RegexBuilder::new(&translate(source))
        .size_limit(MAX_PROGRAM_BYTES)
        .build()
        .map_err(|error| error.to_string())
}

fn translate(source: &str) -> String {
    let mut out = String::with_capacity(source.len() + 16);
    let mut rest = source;
    let mut class = Class::Outside;
    while let Some(first) = rest.chars().next() {
        let tail = &rest[first.len_utf8()..];
        let inside = class != Class::Outside;
        rest = match first {
            '\\' => translate_escape(tail, inside, &mut out),
            '[' if !inside => {
                out.push('[');
                let (negation, tail) = match tail.strip_prefix('^') {
                    Some(tail) => ("^", tail),
                    None => ("", tail),
                };
                out.push_str(negation);
                class = Class::Start;
                tail
            }
            '[' if tail.starts_with(':') => {
                out.push('[');
                tail
            }
            // A `]` right after the opening is literal.
            ']' if class == Class::Start => {
                out.push_str("\\]");
                class = Class::Inside;
                tail
            }
            ']' if inside && ends_named_class(&out) => {
                out.push(']');
                tail
            }
            ']' if inside => {
                out.push(']');
                class = Class::Outside;
                tail
            }
            '[' | '&' | '~' if inside => {
                out.push('\\');
                out.push(first);
                class = Class::Inside;
                tail
            }
            '-' if inside && tail.starts_with('-') => {
                out.push_str("\\-");
                class = Class::Inside;
                tail
            }
            '{' if !inside && !begins_repetition(tail) => {
                out.push_str("\\{");
                tail
            }
            other => {
                out.push(other);
                if inside {
                    class = Class::Inside;
                }
                tail
            }
        };
        if class == Class::Start && first != '[' {
            class = Class::Inside;
        }
    }
    out
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Outside,
    Start,
    Inside,
}

/// Translates the escape after a backslash and returns the rest.
fn translate_escape<'a>(tail: &'a str, inside: bool, out: &mut String) -> &'a str {
    let Some(escaped) = tail.chars().next() else {
        out.push('\\');
        return tail;
    };
    let after = &tail[escaped.len_utf8()..];
    let (plain, negated) = match escaped {
        'd' => ("0-9", false),
        'D' => ("0-9", true),
        'w' => ("0-9A-Za-z_", false),
        'W' => ("0-9A-Za-z_", true),
        's' => ("\\t\\n\\f\\r\\x20", false),
        'S' => ("\\t\\n\\f\\r\\x20", true),
        'b' if !inside => {
            out.push_str("(?-u:\\b)");
            return after;
        }
        'Q' => {
            let (quoted, rest) = after.split_once("\\E").unwrap_or((after, ""));
            out.push_str(&regex::escape(quoted));
            return rest;
        }
        other => {
            out.push('\\');
            out.push(other);
            return after;
        }
    };
    match (inside, negated) {
        (true, false) => out.push_str(plain),
        (_, true) => out.extend(["[^", plain, "]"]),
        (false, false) => out.extend(["[", plain, "]"]),
    }
    after
}

/// True after `[:alpha:`, where the next `]` closes the name and not the class.
fn ends_named_class(out: &str) -> bool {
    out.ends_with(':')
        && out.rfind("[:").is_some_and(|start| {
            let name = &out[start + 2..out.len() - 1];
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'^')
        })
}

/// `3}`, `3,}` or `3,5}`.
fn begins_repetition(tail: &str) -> bool {
    let Some((counts, _)) = tail.split_once('}') else { return false };
    let (least, most) = counts.split_once(',').unwrap_or((counts, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    !least.is_empty() && digits(least) && digits(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_mean_what_they_mean_in_go() {
        let cases = [
            ("digits are ASCII", r"^\d+$", "123", true),
            ("Arabic digits are no digits", r"^\d+$", "١٢٣", false),
            ("classes take shorthands", r"^[\w.-]+$", "a.b-c_1", true),
            ("accents are no word characters", r"^\w+$", "é", false),
            ("a negated shorthand in a class", r"^[\D]+$", "abc", true),
            ("a lone brace is itself", r"^{a}$", "{a}", true),
            ("a repetition repeats", r"^a{2,3}$", "aaa", true),
            ("a repetition ends", r"^a{2}$", "aaa", false),
            ("a bracket in a class is itself", r"^[a[]+$", "a[", true),
            ("a bracket first in a class is itself", r"^[]a]+$", "a]", true),
            ("so it is after a negation", r"^[^]a]+$", "b", true),
            ("named classes work", r"^[[:alpha:]_]+$", "ab_", true),
            ("ampersands are themselves", r"^[a&&b]+$", "a&b", true),
            ("dashes too", r"^[a--]+$", "a-", true),
            ("quoting quotes", r"^\Qa.b\E$", "a.b", true),
            ("quoting quotes only what it encloses", r"^\Qa.b\Ec*$", "axb", false),
            ("an escaped bracket is escaped", r"^\[x\]$", "[x]", true),
            ("boundaries", r"\bfoo\b", "a foo b", true),
        ];
        for (reason, pattern, text, want) in cases {
            let pattern = Pattern::compile(pattern).expect(reason);
            assert_eq!(pattern.matches(text), want, "{reason}");
        }
    }

    #[test]
    fn hostile_patterns_are_refused_and_not_compiled() {
        for pattern in ["(((a{1000}){1000}){1000})", "(", "[a", r"\", &"(".repeat(40_000)] {
            assert!(Pattern::compile(pattern).is_err());
        }
    }
}
