//! The one place that writes to the terminal: data to stdout, messages to stderr.

use std::io::{self, IsTerminal, Write};

use tidegate_runtime::log;

use crate::error::Hinted;

/// Knows whether stderr is a terminal, and whether it may have colour.
pub(crate) struct Printer {
    colour: bool,
    terminal: bool,
}

/// How a piece of text is shown. Colour is never the only carrier of meaning.
#[derive(Clone, Copy)]
pub(crate) enum Tone {
    Strong,
    Faint,
    Good,
    New,
    Bad,
}

// === impl Printer ===

impl Printer {
    pub(crate) fn new() -> Self {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let terminal = io::stderr().is_terminal();
        Self { colour: terminal && !refused, terminal }
    }

    /// Data, exactly as it is.
    pub(crate) fn data(&self, text: &str) -> io::Result<()> {
        let _ = self;
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    /// A line of a message. A terminal that is gone does not stop the work.
    pub(crate) fn line(&self, text: &str) {
        let _ = self;
        let _ = writeln!(io::stderr().lock(), "{text}");
    }

    /// Whether stderr is a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Draws lines over the `above` lines drawn before.
    pub(crate) fn redraw(&self, above: usize, lines: &[String]) {
        let _ = self;
        let mut text = if above > 0 { format!("\u{1b}[{above}A") } else { String::new() };
        let width = width();
        for line in lines {
            text.push_str("\u{1b}[2K");
            text.push_str(&cut(line, width));
            text.push('\n');
        }
        let mut out = io::stderr().lock();
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }

    pub(crate) fn paint(&self, tone: Tone, text: &str) -> String {
        if !self.colour {
            return text.to_owned();
        }
        let code = match tone {
            Tone::Strong => "1",
            Tone::Faint => "2",
            Tone::Good => "32",
            Tone::New => "36",
            Tone::Bad => "31",
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }

    /// The whole chain of causes once, and the hint if there is one.
    pub(crate) fn error(&self, error: &anyhow::Error) {
        self.line(&format!("error: {}", log::chain(error.as_ref())));
        if let Some(hinted) = error.downcast_ref::<Hinted>() {
            self.line(&format!("hint: {}", hinted.hint));
        }
    }
}

/// Columns of the terminal; wide enough where they are not known.
fn width() -> usize {
    let size = terminal_size::terminal_size_of(io::stderr());
    size.map_or(usize::MAX, |(columns, _)| usize::from(columns.0))
}

/// A line that wraps would put the next picture in the wrong place.
fn cut(line: &str, width: usize) -> String {
    let mut shown = 0;
    let mut text = String::with_capacity(line.len());
    let mut rest = line.chars();
    while let Some(c) = rest.next() {
        if c == '\u{1b}' {
            text.push(c);
            // A colour code takes no columns; it ends with a letter.
            for c in rest.by_ref() {
                text.push(c);
                if c.is_ascii_alphabetic() {
                    break;
                }
            }
            continue;
        }
        if shown < width {
            text.push(c);
            shown += 1;
        }
    }
    text
}

/// The reader of our output closed it: that is no error.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.chain().find_map(|cause| cause.downcast_ref::<io::Error>());
    io.is_some_and(|io| io.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_by_its_visible_width() {
        let line = "\u{1b}[31mfailed\u{1b}[0m checks";
        assert_eq!(cut(line, 8), "\u{1b}[31mfailed\u{1b}[0m c");
        assert_eq!(cut(line, 3), "\u{1b}[31mfai\u{1b}[0m");
        assert_eq!(cut("short", 80), "short");
    }
}
