//! The text of a script: commands at the left edge, their outcome indented under them.

use std::fmt;

/// A script, in the order of its lines.
pub struct Script {
    parts: Vec<Part>,
}

enum Part {
    /// Title, remarks, blank lines: kept as they are.
    Text(String),
    Step(Step),
}

/// A command and its outcome.
pub struct Step {
    /// Where it is in the file, from 1.
    pub line: usize,
    pub text: String,
    pub outcome: Vec<String>,
}

/// Before each line of an outcome.
const INDENT: &str = "    ";
/// Lines shown around a difference.
const AROUND: usize = 4;

// === impl Script ===

impl Script {
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut lines = text.lines().enumerate();
        let (_, title) = lines.next().filter(|(_, line)| !line.is_empty()).ok_or("no title")?;
        parts.push(Part::Text(title.to_owned()));
        let mut in_title = true;
        for (index, line) in lines {
            in_title &= !line.is_empty();
            if line.is_empty() || line.starts_with('#') || in_title {
                parts.push(Part::Text(line.to_owned()));
            } else if let Some(outcome) = line.strip_prefix(INDENT) {
                match parts.last_mut() {
                    Some(Part::Step(step)) => step.outcome.push(outcome.to_owned()),
                    _ => return Err(format!("line {}: an outcome of nothing", index + 1)),
                }
            } else if line.starts_with(' ') {
                return Err(format!("line {}: outcomes are indented by four", index + 1));
            } else {
                let (line, text) = (index + 1, line.to_owned());
                parts.push(Part::Step(Step { line, text, outcome: Vec::new() }));
            }
        }
        Ok(Self { parts })
    }

    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        self.parts.iter().filter_map(|part| match part {
            Part::Text(_) => None,
            Part::Step(step) => Some(step),
        })
    }

    pub fn steps_mut(&mut self) -> impl Iterator<Item = &mut Step> {
        self.parts.iter_mut().filter_map(|part| match part {
            Part::Text(_) => None,
            Part::Step(step) => Some(step),
        })
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in &self.parts {
            match part {
                Part::Text(text) => writeln!(f, "{text}")?,
                Part::Step(step) => {
                    writeln!(f, "{}", step.text)?;
                    for line in &step.outcome {
                        writeln!(f, "{INDENT}{line}")?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// The lines that differ, with some around them.
pub fn difference(want: &str, got: &str) -> String {
    let (want, got): (Vec<&str>, Vec<&str>) = (want.lines().collect(), got.lines().collect());
    let marked = marked(&want, &got);
    let is_near = |index: usize| {
        let near = index.saturating_sub(AROUND)..=index + AROUND;
        near.into_iter().any(|other| marked.get(other).is_some_and(|(mark, _)| *mark != ' '))
    };
    let mut text = String::new();
    let mut is_cut = false;
    for (index, (mark, line)) in marked.iter().enumerate() {
        if is_near(index) {
            text.extend([*mark, ' ']);
            text.push_str(line);
            text.push('\n');
            is_cut = false;
        } else if !is_cut {
            text.push_str("  ...\n");
            is_cut = true;
        }
    }
    text
}

/// Every line of both, by the longest common subsequence.
fn marked<'a>(want: &[&'a str], got: &[&'a str]) -> Vec<(char, &'a str)> {
    let width = got.len() + 1;
    let mut common = vec![0_usize; (want.len() + 1) * width];
    for (row, ours) in want.iter().enumerate().rev() {
        for (column, theirs) in got.iter().enumerate().rev() {
            let at = row * width + column;
            common[at] = if ours == theirs {
                common[at + width + 1] + 1
            } else {
                common[at + width].max(common[at + 1])
            };
        }
    }
    let (mut row, mut column) = (0, 0);
    let mut marked = Vec::new();
    while row < want.len() || column < got.len() {
        let at = row * width + column;
        if row < want.len() && column < got.len() && want[row] == got[column] {
            marked.push((' ', want[row]));
            row += 1;
            column += 1;
        } else if column == got.len() || (row < want.len() && common[at + width] >= common[at + 1])
        {
            marked.push(('-', want[row]));
            row += 1;
        } else {
            marked.push(('+', got[column]));
            column += 1;
        }
    }
    marked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_printed_as_it_was_read() {
        let text = "A title\n  and more\n\n# why\nwait 10s\n    0:10  route 80/20\n\nshow it\n";
        let mut script = Script::parse(text).unwrap();
        assert_eq!(script.to_string(), text);
        let steps: Vec<_> = script.steps_mut().map(|step| (step.line, step.text.clone())).collect();
        assert_eq!(steps, [(5, "wait 10s".to_owned()), (8, "show it".to_owned())]);
    }

    #[test]
    fn what_is_no_script_is_refused() {
        let cases = [
            ("", "there is no title"),
            ("A\n\n    0:10  nobody did this\n", "an outcome without a command"),
            ("A\n\nwait 1s\n  0:10  two\n", "indented by two"),
        ];
        for (text, reason) in cases {
            assert!(Script::parse(text).is_err(), "{reason}");
        }
    }

    #[test]
    fn a_difference_shows_both_sides() {
        let shown = difference("a\nb\nc\n", "a\nx\nc\n");
        assert_eq!(shown, "  a\n- b\n+ x\n  c\n");
    }
}
