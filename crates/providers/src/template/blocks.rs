//! Whether the blocks of a template are all opened and closed.
//!
//! The template engine takes the end of the text for the end of every open block, and stops reading
//! at an `end` too many. Go refuses both, and so must we: half of a query is a query too, and may
//! well pass. A long chain of `else if` is refused as well; the engine goes one level deeper for
//! each.

use super::Problem;

/// Most `else` in one template. The engine's own limit for nested blocks is the same.
const ELSE_MAX: usize = 100;

/// One action, `{{ ... }}`.
struct Action<'a> {
    /// The line it starts in.
    line: usize,
    /// The word it starts with; empty if it is no word.
    word: &'a str,
}

/// Fails at the first block that is not opened or not closed.
pub(super) fn check(source: &str) -> Result<(), Problem> {
    let mut open = Vec::new();
    let mut elses = 0;
    for action in actions(source)? {
        let Action { line, word } = action;
        match word {
            "if" | "range" | "with" | "define" | "block" => open.push(action),
            "end" if open.pop().is_none() => return Err(syntax(line, "there is nothing to end")),
            "else" if open.is_empty() => return Err(syntax(line, "there is no if to this else")),
            "else" => elses += 1,
            _ => {}
        }
    }
    match open.pop() {
        Some(Action { line, word }) => Err(syntax(line, &format!("this {word} has no end"))),
        None if elses > ELSE_MAX => Err(Problem::TooBusy),
        None => Ok(()),
    }
}

fn actions(source: &str) -> Result<Vec<Action<'_>>, Problem> {
    let mut found = Vec::new();
    let mut rest = source;
    let mut line = 1;
    while let Some((text, inside)) = rest.split_once("{{") {
        line += text.matches('\n').count();
        let trimmed = inside.strip_prefix('-').unwrap_or(inside).trim_start();
        let end = if trimmed.starts_with("/*") { comment_end(inside) } else { action_end(inside) };
        let Some((action, after)) = end.and_then(|end| inside.split_at_checked(end)) else {
            return Err(syntax(line, "this action is not closed"));
        };
        let letters = trimmed.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let word = trimmed.get(..letters.unwrap_or(trimmed.len())).unwrap_or_default();
        found.push(Action { line, word });
        line += action.matches('\n').count();
        rest = after;
    }
    Ok(found)
}

/// Where a comment's action ends; nothing in a comment is special.
fn comment_end(inside: &str) -> Option<usize> {
    let comment = inside.find("*/")?;
    Some(comment + inside.get(comment..)?.find("}}")? + 2)
}

/// Where an action ends, which is not within quotes.
fn action_end(inside: &str) -> Option<usize> {
    let mut quote = None;
    let mut characters = inside.char_indices();
    while let Some((at, c)) = characters.next() {
        match (quote, c) {
            // The character behind a backslash is part of the text; between backquotes nothing is
            // special.
            (Some('"' | '\''), '\\') => {
                characters.next();
            }
            (Some(open), c) if c == open => quote = None,
            (None, '"' | '\'' | '`') => quote = Some(c),
            (None, '}') if inside.get(at..).is_some_and(|rest| rest.starts_with("}}")) => {
                return Some(at + 2);
            }
            _ => {}
        }
    }
    None
}

fn syntax(line: usize, why: &str) -> Problem {
    Problem::Syntax { line, why: why.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_opened_and_closed() {
        let sound = [
            "up",
            "{{ if true }}a{{ else if false }}b{{ else }}c{{ end }}",
            "{{- range 3 -}}{{ with . }}{{ end }}{{- end -}}",
            r#"{{ define "a" }}{{ end }}{{ block "b" . }}{{ end }}"#,
            r#"{{ "end" }}{{ "}} {{ end }}" }}{{ `\` }}{{ '"' }}{{ "\"" }}"#,
            "{{/* end }} if */}}{{- /* if */ -}}",
            "{{ $end := 1 }}{{ ending }}",
            "{{if(true)}}{{end}}",
            "} }} {",
        ];
        for source in sound {
            assert_eq!(check(source), Ok(()), "{source}");
        }
    }

    #[test]
    fn unbalanced_blocks_are_named_with_their_line() {
        let cases = [
            ("up\n{{ end }} or vector(1)", 2, "there is nothing to end"),
            ("{{ if true }}a{{ end }}{{ end }}", 1, "there is nothing to end"),
            ("{{ else }}", 1, "there is no if to this else"),
            ("\n\n{{- if true }}up", 3, "this if has no end"),
            ("{{ range 3 }}\n{{ with . }}{{ end }}", 1, "this range has no end"),
            ("a\n{{ name", 2, "this action is not closed"),
            ("{{ \"}}", 1, "this action is not closed"),
            ("{{/* a }}", 1, "this action is not closed"),
        ];
        for (source, line, why) in cases {
            assert_eq!(check(source), Err(syntax(line, why)), "{source}");
        }
    }
}
