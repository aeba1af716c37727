//! Where a variable may have which characters, by the query language of a template.
//!
//! A template of another namespace is queried with that namespace's login, so the author of a canary may choose
//! values in its query and no more of it. Within a string of the query language nearly any text is a value. Outside
//! of strings, in comments, and where it is not certain which of these it is, a variable is letters, digits and
//! `_.:-`.
//!
//! ```text
//! rendered text ─► strings, comments, code ─► each character of a variable: refused, or not
//! ```
//!
//! The template's own text is trusted and only read for where its strings are. A variable can neither begin nor end
//! a string, a comment or an escape, so what it contains never changes how the rest is read.

use super::{Problem, inserted::Inserted};

/// The query languages of metric providers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryLanguage {
    /// `PromQL`.
    PromQl,
    /// Flux of `InfluxDB`.
    Flux,
    /// New Relic's.
    Nrql,
    /// The parameters of Graphite's URL, with its functions.
    Graphite,
    /// A metric selector of Dynatrace.
    Dynatrace,
    /// `SignalFlow` of Splunk.
    SignalFlow,
    /// A list of queries of `CloudWatch`, as JSON.
    CloudWatch,
    /// Google's monitoring query language.
    Mql,
    /// A language without strings, or whose strings are not known for certain.
    Plain,
}

/// The marks of a language.
struct Grammar {
    /// Begin and end a string.
    quotes: &'static str,
    /// Begin and end a string in which nothing is special.
    raw_quotes: &'static str,
    /// Whether a backslash escapes the next character of a string. If not, its meaning is not known for certain.
    has_escapes: bool,
    line_comments: &'static [&'static str],
    has_block_comments: bool,
    /// From here on it is not certain where strings are: outside of a string.
    unclear: &'static [&'static str],
    /// The same, within a string.
    unclear_inside: &'static [&'static str],
    /// Strings before a colon name members, and the value of `Expression` is code.
    has_members: bool,
}

/// A string that is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Open {
    quote: char,
    start: usize,
    is_raw: bool,
    /// A variable's action printed the quote, as `printf "%q"` does.
    by_variable: bool,
    /// The string is code of its own.
    is_code: bool,
}

/// The position between two characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Code,
    Text(Open),
    Escape(Open),
    LineComment,
    BlockComment,
    Unclear,
}

/// A string that has just ended.
#[derive(Clone, Copy)]
struct Ended {
    start: usize,
    end: usize,
    quote: char,
}

struct Reader<'a> {
    text: &'a str,
    inserted: &'a [Inserted],
    grammar: Grammar,
    state: State,
    ended: Option<Ended>,
    /// The value that comes next is code.
    is_code_next: bool,
}

const NONE: Grammar = Grammar {
    quotes: "",
    raw_quotes: "",
    has_escapes: false,
    line_comments: &[],
    has_block_comments: false,
    unclear: &[],
    unclear_inside: &[],
    has_members: false,
};

/// Fails at the first character of a variable that may not be where it is.
pub(super) fn check(
    text: &str,
    inserted: &[Inserted],
    language: QueryLanguage,
) -> Result<(), (usize, Problem)> {
    match Reader::of(text, inserted, language, State::Code).read()? {
        State::Code | State::LineComment | State::Unclear => Ok(()),
        // Something is not closed, so it was perhaps never open.
        State::Text(_) | State::Escape(_) | State::BlockComment => {
            Reader::of(text, inserted, language, State::Unclear).read().map(|_| ())
        }
    }
}

/// Characters of names, numbers and times. No language begins or ends anything with one of them alone.
fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_.:-".contains(c)
}

// === impl QueryLanguage ===

impl QueryLanguage {
    const fn grammar(self) -> Grammar {
        match self {
            Self::PromQl => Grammar {
                quotes: "\"'",
                raw_quotes: "`",
                has_escapes: true,
                line_comments: &["#"],
                ..NONE
            },
            // A slash is a division, or begins a regular expression that may have quotes. `${` begins code.
            Self::Flux => Grammar {
                quotes: "\"",
                has_escapes: true,
                line_comments: &["//"],
                unclear: &["/", "'", "`"],
                unclear_inside: &["${"],
                ..NONE
            },
            Self::Nrql => Grammar {
                quotes: "'",
                raw_quotes: "`",
                line_comments: &["--", "//"],
                has_block_comments: true,
                unclear: &["\""],
                ..NONE
            },
            // Marks of a URL count within strings too.
            Self::Graphite => Grammar {
                quotes: "\"'",
                unclear: &["%", ";", "#"],
                unclear_inside: &["%", ";", "#", "&"],
                ..NONE
            },
            // A tilde escapes, also the quotes of strings within an entity selector.
            Self::Dynatrace => Grammar {
                quotes: "\"",
                unclear: &["entitySelector", "'", "~"],
                unclear_inside: &["~"],
                ..NONE
            },
            Self::SignalFlow => {
                Grammar { quotes: "\"'", line_comments: &["#"], unclear: &["`"], ..NONE }
            }
            Self::CloudWatch => {
                Grammar { quotes: "\"", has_escapes: true, has_members: true, ..NONE }
            }
            Self::Mql => Grammar { quotes: "\"'", unclear: &["#", "//", "/*", "`"], ..NONE },
            Self::Plain => NONE,
        }
    }
}

// === impl Reader ===

impl<'a> Reader<'a> {
    const fn of(
        text: &'a str,
        inserted: &'a [Inserted],
        language: QueryLanguage,
        state: State,
    ) -> Self {
        let grammar = language.grammar();
        Self { text, inserted, grammar, state, ended: None, is_code_next: false }
    }

    /// The position at the end.
    fn read(mut self) -> Result<State, (usize, Problem)> {
        let (mut at, mut before) = (0, None);
        while let Some(c) = self.text.get(at..).and_then(|rest| rest.chars().next()) {
            let part = self.part_at(at);
            if part.is_none_or(|part| part.range.start == at) {
                before = Some(self.state);
            }
            let end = part.map(|part| part.range.end);
            let next = self.step(c, at).map_err(|problem| (self.line(at), problem))?;
            if end.is_some_and(|end| end <= next) && before != Some(self.state) {
                return Err((self.line(at), Problem::Structure(c)));
            }
            at = next;
        }
        Ok(self.state)
    }

    /// The line of the variable that is here, or else of the next one.
    fn line(&self, at: usize) -> usize {
        let part = self.inserted.iter().find(|part| part.range.end > at);
        part.map_or(1, |part| part.line)
    }

    /// The part with this byte.
    fn part_at(&self, at: usize) -> Option<&Inserted> {
        let after = self.inserted.partition_point(|part| part.range.start <= at);
        let part = self.inserted.get(after.checked_sub(1)?)?;
        part.range.contains(&at).then_some(part)
    }

    fn is_inserted(&self, at: usize, length: usize) -> bool {
        (at..at + length).any(|at| self.part_at(at).is_some())
    }

    /// The length of the first of these marks that is here. A variable must have no part in it.
    fn mark(&self, marks: &[&str], at: usize, c: char) -> Result<Option<usize>, Problem> {
        let rest = self.text.get(at..).unwrap_or_default();
        match marks.iter().find(|mark| rest.starts_with(**mark)) {
            Some(mark) if self.is_inserted(at, mark.len()) => Err(Problem::Structure(c)),
            found => Ok(found.map(|mark| mark.len())),
        }
    }

    /// Reads one character or mark; the position behind it.
    fn step(&mut self, c: char, at: usize) -> Result<usize, Problem> {
        let next = at + c.len_utf8();
        let is_inserted = self.is_inserted(at, 1);
        if let State::Text(open) = self.state {
            return self.step_in_text(open, c, at);
        }
        if let State::Escape(open) = self.state {
            self.state = if c == '\n' { State::Unclear } else { State::Text(open) };
            return Ok(next);
        }
        let quotes = [self.grammar.quotes, self.grammar.raw_quotes];
        let is_quote = self.state == State::Code && quotes.iter().any(|it| it.contains(c));
        if is_inserted && !is_quote && !is_plain(c) {
            return Err(Problem::OutsideString(c));
        }
        let comment = self.mark(self.grammar.line_comments, at, c)?;
        let block = if self.grammar.has_block_comments { self.mark(&["/*"], at, c)? } else { None };
        match self.state {
            State::Code => {}
            State::LineComment if c == '\n' => {
                self.state = State::Code;
                return Ok(next);
            }
            State::BlockComment => {
                let Some(length) = self.mark(&["*/"], at, c)? else { return Ok(next) };
                self.state = State::Code;
                return Ok(at + length);
            }
            State::LineComment | State::Unclear | State::Text(_) | State::Escape(_) => {
                return Ok(next);
            }
        }
        for (length, state) in [(comment, State::LineComment), (block, State::BlockComment)] {
            if let Some(length) = length {
                self.state = state;
                return Ok(at + length);
            }
        }
        if let Some(length) = self.mark(self.grammar.unclear, at, c)? {
            self.state = State::Unclear;
            return Ok(at + length);
        }
        if is_quote {
            self.begin(c, at, is_inserted);
        } else if self.grammar.has_members && c == ':' {
            self.name_member();
        }
        Ok(next)
    }

    fn begin(&mut self, quote: char, at: usize, by_variable: bool) {
        // Three quotes begin a string of another kind in some languages.
        let is_third = |ended: Ended| {
            ended.quote == quote && ended.end == at && ended.start + quote.len_utf8() == at - 1
        };
        if self.ended.is_some_and(is_third) {
            self.state = State::Unclear;
            return;
        }
        let is_raw = self.grammar.raw_quotes.contains(quote);
        let is_code = std::mem::take(&mut self.is_code_next);
        self.state = State::Text(Open { quote, start: at, is_raw, by_variable, is_code });
    }

    /// The string before this colon is the name of a member.
    fn name_member(&mut self) {
        let Some(Ended { start, end, .. }) = self.ended else { return };
        let name = self.text.get(start + 1..end - 1).unwrap_or_default();
        if name.contains('\\') || self.is_inserted(start, end - start) {
            self.state = State::Unclear;
        }
        self.is_code_next = name.eq_ignore_ascii_case("Expression");
    }

    fn step_in_text(&mut self, open: Open, c: char, at: usize) -> Result<usize, Problem> {
        let next = at + c.len_utf8();
        let is_inserted = self.is_inserted(at, 1);
        if !open.is_raw
            && let Some(length) = self.mark(self.grammar.unclear_inside, at, c)?
        {
            self.state = State::Unclear;
            return Ok(at + length);
        }
        if c == open.quote {
            if is_inserted && !open.by_variable {
                return Err(Problem::Structure(c));
            }
            self.ended = Some(Ended { start: open.start, end: next, quote: c });
            self.state = State::Code;
        } else if c == '\\' && !open.is_raw && self.grammar.has_escapes {
            self.state = State::Escape(open);
        } else if is_inserted {
            if c.is_control() || "\"'`\\".contains(c) {
                return Err(Problem::Structure(c));
            }
            if open.is_code && !is_plain(c) {
                return Err(Problem::OutsideString(c));
            }
        } else if !open.is_raw && matches!(c, '\n' | '\\') {
            self.state = State::Unclear;
        }
        Ok(next)
    }
}

#[cfg(test)]
mod tests;
