//! Splits a command line into words as a POSIX shell would, without a shell.
//!
//! Quotes, backslashes and joined lines are understood. Syntax that only a shell can run (pipes, variables,
//! several commands) is either refused or taken literally, as [`Meta`] says; it is never carried
//! out. Wildcards stay as they are written, as in a shell when they match no file:
//! `http://app/search?q=1` is a usual address.

/// Handling of characters that have a meaning to a shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meta {
    /// For lines that were written for a shell: without one they would mean something else.
    Refuse,
    /// For lines that never saw a shell: arguments of `helm` and `kubectl`.
    Keep,
}

/// Why a line cannot be split.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WordsError {
    #[error("a {0} quote is not closed")]
    Unclosed(&'static str),
    #[error("{} needs a shell unless it is quoted", shown(*.0))]
    NeedsShell(char),
}

/// The words of `line`.
pub fn split(line: &str, meta: Meta) -> Result<Vec<String>, WordsError> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut rest = line.trim_end().chars();
    while let Some(c) = rest.next() {
        match c {
            '\n' if meta == Meta::Refuse => return Err(WordsError::NeedsShell(c)),
            ' ' | '\t' | '\r' | '\n' => words.extend(word.take()),
            '\'' => single_quoted(&mut rest, word.get_or_insert_default())?,
            '"' => double_quoted(&mut rest, word.get_or_insert_default(), meta)?,
            '\\' => match rest.next() {
                // The line goes on below.
                Some('\n') => {}
                Some(escaped) => word.get_or_insert_default().push(escaped),
                None => word.get_or_insert_default().push('\\'),
            },
            '#' if word.is_none() && meta == Meta::Refuse => {
                return Err(WordsError::NeedsShell(c));
            }
            '|' | '&' | ';' | '<' | '>' | '(' | ')' | '$' | '`' if meta == Meta::Refuse => {
                return Err(WordsError::NeedsShell(c));
            }
            _ => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Ok(words)
}

fn single_quoted(
    rest: &mut impl Iterator<Item = char>,
    word: &mut String,
) -> Result<(), WordsError> {
    for c in rest {
        if c == '\'' {
            return Ok(());
        }
        word.push(c);
    }
    Err(WordsError::Unclosed("single"))
}

fn double_quoted(
    rest: &mut impl Iterator<Item = char>,
    word: &mut String,
    meta: Meta,
) -> Result<(), WordsError> {
    while let Some(c) = rest.next() {
        match c {
            '"' => return Ok(()),
            '\\' => match rest.next() {
                Some('\n') => {}
                Some(escaped @ ('"' | '\\' | '$' | '`')) => word.push(escaped),
                // Before anything else a backslash is only a backslash.
                Some(other) => word.extend(['\\', other]),
                None => break,
            },
            '$' | '`' if meta == Meta::Refuse => return Err(WordsError::NeedsShell(c)),
            _ => word.push(c),
        }
    }
    Err(WordsError::Unclosed("double"))
}

fn shown(c: char) -> String {
    if c == '\n' { "a second line".to_owned() } else { format!("`{c}`") }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(line: &str) -> Vec<String> {
        split(line, Meta::Refuse).unwrap()
    }

    #[test]
    fn lines_are_split_as_a_shell_would() {
        let cases: [(&str, &str, &[&str]); 9] = [
            ("blanks", "  hey  -z\t1m ", &["hey", "-z", "1m"]),
            ("nothing", " \n", &[]),
            ("single quotes keep all", r#"a '$x "\y' b"#, &["a", r#"$x "\y"#, "b"]),
            ("double quotes keep blanks", r#"-H "X-A: 1 \"2\"""#, &["-H", r#"X-A: 1 "2""#]),
            ("a backslash before an ordinary letter stays", r#""\d\\""#, &[r"\d\"]),
            ("quotes inside a word", r#"-H'A: b'"c""#, &["-HA: bc"]),
            ("an empty word is a word", "-d ''", &["-d", ""]),
            ("escaped blanks", r"a\ b \$c", &["a b", "$c"]),
            ("joined lines", "hey \\\n  -z 1m\n", &["hey", "-z", "1m"]),
        ];
        for (reason, line, want) in cases {
            assert_eq!(words(line), want, "{reason}");
        }
        assert_eq!(words("hey http://a/?q=*~[x]{y}"), ["hey", "http://a/?q=*~[x]{y}"], "wildcards");
    }

    #[test]
    fn shell_syntax_is_refused_or_kept_and_never_run() {
        for line in
            ["a | b", "a $b", "a & b", "a;b", "a > f", "$(b)", "a `b`", "a \"$b\"", "# a", "a\nb"]
        {
            let refused = split(line, Meta::Refuse);
            assert!(matches!(refused, Err(WordsError::NeedsShell(_))), "{line}: {refused:?}");
            assert!(split(line, Meta::Keep).is_ok(), "{line}");
        }
        let kept = split("get pods -o jsonpath={.items[*]} $HOME", Meta::Keep).unwrap();
        assert_eq!(kept, ["get", "pods", "-o", "jsonpath={.items[*]}", "$HOME"]);
        assert_eq!(split("a 'b", Meta::Keep), Err(WordsError::Unclosed("single")));
        assert_eq!(split("a \"b\\", Meta::Keep), Err(WordsError::Unclosed("double")));
    }

    #[test]
    fn a_json_argument_with_spaces_stays_in_one_piece() {
        let line = r#"run test --image=alpine --overrides='{ "spec": { "a": "b c" } }'"#;
        let words = split(line, Meta::Keep).unwrap();
        assert_eq!(words[3], r#"--overrides={ "spec": { "a": "b c" } }"#);
        assert_eq!(words.len(), 4);
    }

    proptest! {
        #[test]
        fn any_line_is_split_or_refused(line in any::<String>()) {
            let _whatever = split(&line, Meta::Keep);
            let _whatever = split(&line, Meta::Refuse);
        }

        #[test]
        fn quoted_words_come_out_whole(words in prop::collection::vec(any::<String>(), 0..6)) {
            let quoted = words.iter().map(|word| format!("'{}'", word.replace('\'', r"'\''")));
            let line = quoted.collect::<Vec<_>>().join(" ");
            for meta in [Meta::Keep, Meta::Refuse] {
                prop_assert_eq!(split(&line, meta), Ok(words.clone()));
            }
        }
    }
}
