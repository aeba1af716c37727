//! Parses a query into a syntax tree, after checks for texts that the parser cannot handle.
//!
//! The tree is dropped and walked by recursion, so its depth is limited before it exists, by the
//! number of tokens. The parser also panics on numbers that are no duration in the place of one
//! (`[1e30]`, `offset NaN`).

use promql_parser::parser::{self, Expr};

use super::query::QueryError;

/// Four times the longest query in published dashboards.
const BYTES_MAX: usize = 16 * 1024;

/// A tree with this many levels is still dropped within a few hundred KiB of stack.
const TOKENS_MAX: usize = 2_000;

/// Range of a duration in plain seconds: the 292 years that Prometheus can represent.
const DURATION_SECONDS: std::ops::RangeInclusive<f64> = 0.0..=9.2e9;

/// Parses a query; errors are `bad_data`.
pub(super) fn parse(text: &str) -> Result<Expr, QueryError> {
    if text.len() > BYTES_MAX {
        return Err(QueryError::bad_data(format!("the query is longer than {BYTES_MAX} bytes")));
    }
    check(text)?;
    parser::parse(text).map_err(|problem| QueryError::bad_data(format!("parse error: {problem}")))
}

/// Checks the tokens for input that the parser cannot handle.
fn check(text: &str) -> Result<(), QueryError> {
    let (mut in_brackets, mut after_offset) = (false, false);
    let mut rest = text;
    for _ in 0..TOKENS_MAX {
        let Some((token, after)) = next_token(rest) else { return Ok(()) };
        rest = after;
        let is_duration = in_brackets || after_offset;
        let number = token.parse::<f64>().ok().filter(|_| is_duration);
        if number.is_some_and(|seconds| !DURATION_SECONDS.contains(&seconds)) {
            return Err(QueryError::bad_data(format!("parse error: `{token}` is no duration")));
        }
        match token {
            "[" => in_brackets = true,
            "]" => in_brackets = false,
            "+" | "-" => continue,
            _ => {}
        }
        after_offset = token.eq_ignore_ascii_case("offset");
    }
    Err(QueryError::bad_data(format!("the query has more than {TOKENS_MAX} tokens")))
}

/// The next word, number, string or sign, and the rest. Blanks and comments are skipped.
fn next_token(text: &str) -> Option<(&str, &str)> {
    let mut text = text.trim_start();
    while let Some(comment) = text.strip_prefix('#') {
        let line_end = comment.find(['\n', '\r']).unwrap_or(comment.len());
        text = comment.get(line_end..).unwrap_or_default().trim_start();
    }
    let first = text.chars().next()?;
    let length = match first {
        '"' | '\'' | '`' => string_length(text, first),
        _ if is_word(first) => word_length(text, first),
        _ => first.len_utf8(),
    };
    text.split_at_checked(length)
}

fn is_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_' || letter == '.'
}

/// A number includes the sign of its exponent.
fn word_length(text: &str, first: char) -> usize {
    let is_number = first.is_ascii_digit() || first == '.';
    let mut before = first;
    let end = text.find(|letter: char| {
        let is_exponent = is_number && matches!(before, 'e' | 'E') && matches!(letter, '+' | '-');
        before = letter;
        !is_word(letter) && !is_exponent
    });
    end.unwrap_or(text.len())
}

/// Length up to the closing quote, or of the whole text.
fn string_length(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (place, letter) in text.char_indices().skip(1) {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            _ if letter == quote => return place + quote.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_into_tokens() {
        let mut rest = "rate(a_b{c=\"d)\\\" e\"}[5m]) # (((\n > 1e+5 offset -.5";
        let mut tokens = Vec::new();
        while let Some((token, after)) = next_token(rest) {
            tokens.push(token);
            rest = after;
        }
        let want = [
            "rate",
            "(",
            "a_b",
            "{",
            "c",
            "=",
            "\"d)\\\" e\"",
            "}",
            "[",
            "5m",
            "]",
            ")",
            ">",
            "1e+5",
            "offset",
            "-",
            ".5",
        ];
        assert_eq!(tokens, want);
    }

    #[test]
    fn what_the_parser_cannot_take_is_refused_before_it() {
        let deep = format!("{}1{}", "(".repeat(1_500), ")".repeat(1_500));
        let long = format!("a{}", " ".repeat(BYTES_MAX));
        let cases = [
            ("a window of astronomical length", "a[1e30]"),
            ("an offset that is no number", "a offset NaN"),
            ("an offset without end", "a offset - Inf"),
            ("a resolution of astronomical length", "a[5m:1e+300]"),
            ("a deep tree", &deep),
            ("a long text", &long),
        ];
        for (reason, text) in cases {
            assert!(matches!(parse(text), Err(QueryError::BadData(_))), "{reason}");
        }
        for text in ["a[90]", "a offset 5", "a > 1e30", "a{b=\"[1e30]\"}", "a @ 1e5"] {
            assert!(parse(text).is_ok(), "{text}");
        }
    }
}
