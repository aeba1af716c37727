//! Parses JSON paths.

use serde_json::{Number, Value};

use super::{Comparison, DEPTH_MAX, Filter, Node, Path, PathError, Step};

type Result<T> = std::result::Result<T, PathError>;

pub(super) fn parse(text: &str) -> Result<Vec<Node>> {
    let text = if text.contains('{') { text.to_owned() } else { format!("{{{text}}}") };
    let mut parser = Parser { letters: text.chars().collect(), at: 0 };
    let (nodes, end) = parser.nodes(0)?;
    match end {
        End::OfText => Ok(nodes),
        End::OfRange(at) => Err(PathError::Malformed { what: "an end without a range", at }),
    }
}

/// Where a list of nodes ends.
enum End {
    /// Nothing is left.
    OfText,
    /// At an `{end}`, which begins there.
    OfRange(usize),
}

struct Parser {
    letters: Vec<char>,
    at: usize,
}

impl Parser {
    fn fail<T>(&self, what: &'static str) -> Result<T> {
        Err(PathError::Malformed { what, at: self.at })
    }

    fn peek(&self) -> Option<char> {
        self.letters.get(self.at).copied()
    }

    fn take(&mut self, wanted: char) -> bool {
        let is_next = self.peek() == Some(wanted);
        if is_next {
            self.at += 1;
        }
        is_next
    }

    fn takes(&mut self, word: &str) -> bool {
        let is_next = word
            .chars()
            .enumerate()
            .all(|(offset, letter)| self.letters.get(self.at + offset) == Some(&letter));
        if is_next {
            self.at += word.chars().count();
        }
        is_next
    }

    fn blanks(&mut self) {
        while self.peek().is_some_and(char::is_whitespace) {
            self.at += 1;
        }
    }

    /// Up to the end of the text, or behind the `{end}` of the range around it.
    fn nodes(&mut self, depth: usize) -> Result<(Vec<Node>, End)> {
        if depth > DEPTH_MAX {
            return self.fail("ranges nest too deeply");
        }
        let mut nodes = Vec::new();
        loop {
            let text = self.literal();
            if !text.is_empty() {
                nodes.push(Node::Text(text));
            }
            let start = self.at;
            if !self.take('{') {
                return Ok((nodes, End::OfText));
            }
            self.blanks();
            if self.takes("end") {
                self.blanks();
                if !self.take('}') {
                    return self.fail("`}` is missing");
                }
                return Ok((nodes, End::OfRange(start)));
            }
            if self.takes("range ") {
                let path = self.path_to_brace()?;
                let (body, end) = self.nodes(depth + 1)?;
                if let End::OfText = end {
                    self.at = start;
                    return self.fail("a range without an end");
                }
                nodes.push(Node::Range(path, body));
                continue;
            }
            nodes.push(self.inside()?);
        }
    }

    fn literal(&mut self) -> String {
        let mut text = String::new();
        while let Some(letter) = self.peek().filter(|letter| *letter != '{') {
            text.push(letter);
            self.at += 1;
        }
        text
    }

    /// After `{`: a quoted text or a path.
    fn inside(&mut self) -> Result<Node> {
        self.blanks();
        if let Some(quote @ ('"' | '\'')) = self.peek() {
            let text = self.quoted(quote)?;
            self.blanks();
            return if self.take('}') { Ok(Node::Text(text)) } else { self.fail("`}` is missing") };
        }
        self.path_to_brace().map(Node::Path)
    }

    fn path_to_brace(&mut self) -> Result<Path> {
        self.blanks();
        let is_absolute = self.take('$');
        if !is_absolute {
            self.take('@');
        }
        let mut steps = Vec::new();
        loop {
            self.blanks();
            if self.take('}') {
                return Ok(Path { is_absolute, steps });
            }
            self.step(&mut steps, 0)?;
        }
    }

    fn step(&mut self, steps: &mut Vec<Step>, depth: usize) -> Result<()> {
        if self.take('[') {
            steps.push(self.bracket(depth)?);
            return Ok(());
        }
        if self.takes("..") {
            steps.push(Step::Descend);
            if matches!(self.peek(), Some('[' | '}')) {
                return Ok(());
            }
        } else if !self.take('.') && !steps.is_empty() {
            return self.fail("`.` or `[` is expected");
        }
        if self.take('*') {
            steps.push(Step::All);
            return Ok(());
        }
        let name = self.name();
        // A lone point is the value itself.
        let is_self = steps.is_empty() && matches!(self.peek(), Some('}'));
        match (name.is_empty(), is_self || self.peek() == Some('[')) {
            (false, _) => steps.push(Step::Field(name)),
            (true, true) => {}
            (true, false) => return self.fail("a name is expected"),
        }
        Ok(())
    }

    fn name(&mut self) -> String {
        let mut name = String::new();
        while let Some(letter) = self.peek() {
            match letter {
                '\\' => {
                    self.at += 1;
                    let Some(escaped) = self.peek() else { return name };
                    name.push(escaped);
                }
                '.' | '[' | ']' | '}' | '{' | '*' | '(' | ')' | ',' | '=' | '!' | '<' | '>' => {
                    return name;
                }
                _ if letter.is_whitespace() => return name,
                _ => name.push(letter),
            }
            self.at += 1;
        }
        name
    }

    fn quoted(&mut self, quote: char) -> Result<String> {
        let start = self.at;
        self.at += 1;
        let mut text = String::new();
        while let Some(letter) = self.peek() {
            self.at += 1;
            match letter {
                _ if letter == quote => return Ok(text),
                '\\' => match self.peek() {
                    Some('n') => text.push('\n'),
                    Some('t') => text.push('\t'),
                    Some(escaped) => text.push(escaped),
                    None => break,
                },
                _ => text.push(letter),
            }
            if letter == '\\' {
                self.at += 1;
            }
        }
        self.at = start;
        self.fail("a quote is not closed")
    }

    /// After `[`.
    fn bracket(&mut self, depth: usize) -> Result<Step> {
        self.blanks();
        if self.takes("?(") {
            let filter = self.filter(depth)?;
            return if self.takes(")]") {
                Ok(Step::Filter(filter))
            } else {
                self.fail("`)]` is missing")
            };
        }
        let mut parts = Vec::new();
        loop {
            parts.push(self.part()?);
            self.blanks();
            if self.take(']') {
                break;
            }
            if !self.take(',') {
                return self.fail("`]` is missing");
            }
        }
        if parts.len() > 1 {
            return Ok(Step::Union(parts));
        }
        parts.pop().map_or_else(|| self.fail("brackets are empty"), Ok)
    }

    fn part(&mut self) -> Result<Step> {
        self.blanks();
        match self.peek() {
            Some('*') => {
                self.at += 1;
                Ok(Step::All)
            }
            Some(quote @ ('"' | '\'')) => self.quoted(quote).map(Step::Field),
            _ => self.index_or_slice(),
        }
    }

    fn index_or_slice(&mut self) -> Result<Step> {
        let start = self.integer()?;
        if !self.take(':') {
            return start
                .map_or_else(|| self.fail("an index is expected"), |at| Ok(Step::Index(at)));
        }
        let end = self.integer()?;
        let step = if self.take(':') { self.integer()? } else { None };
        match step.unwrap_or(1) {
            step if step > 0 => Ok(Step::Slice(start, end, step)),
            _ => self.fail("a step must be greater than 0"),
        }
    }

    fn integer(&mut self) -> Result<Option<i64>> {
        self.blanks();
        let mut text = String::new();
        if self.take('-') {
            text.push('-');
        }
        while let Some(digit) = self.peek().filter(char::is_ascii_digit) {
            text.push(digit);
            self.at += 1;
        }
        self.blanks();
        if text.is_empty() {
            return Ok(None);
        }
        text.parse().map_or_else(|_| self.fail("a number is expected"), |number| Ok(Some(number)))
    }

    /// After `?(`.
    fn filter(&mut self, depth: usize) -> Result<Filter> {
        if depth >= DEPTH_MAX {
            return self.fail("filters nest too deeply");
        }
        self.blanks();
        if !self.take('@') {
            return self.fail("`@` is expected");
        }
        let mut steps = Vec::new();
        while matches!(self.peek(), Some('.' | '[')) {
            self.step(&mut steps, depth + 1)?;
        }
        self.blanks();
        let Some(comparison) = self.comparison() else {
            return Ok(Filter { steps, test: None });
        };
        self.blanks();
        let right = self.operand()?;
        self.blanks();
        Ok(Filter { steps, test: Some((comparison, right)) })
    }

    fn comparison(&mut self) -> Option<Comparison> {
        let all = [
            ("==", Comparison::Equal),
            ("!=", Comparison::NotEqual),
            ("<=", Comparison::LessOrEqual),
            (">=", Comparison::GreaterOrEqual),
            ("<", Comparison::Less),
            (">", Comparison::Greater),
        ];
        all.into_iter().find(|(sign, _)| self.takes(sign)).map(|(_, comparison)| comparison)
    }

    fn operand(&mut self) -> Result<Value> {
        if let Some(quote @ ('"' | '\'')) = self.peek() {
            return self.quoted(quote).map(Value::String);
        }
        let mut text = String::new();
        while let Some(letter) =
            self.peek().filter(|letter| letter.is_alphanumeric() || "+-.".contains(*letter))
        {
            text.push(letter);
            self.at += 1;
        }
        match text.as_str() {
            "true" => return Ok(Value::Bool(true)),
            "false" => return Ok(Value::Bool(false)),
            _ => {}
        }
        if let Ok(number) = text.parse::<i64>() {
            return Ok(Value::from(number));
        }
        if let Ok(number) = text.parse::<u64>() {
            return Ok(Value::from(number));
        }
        let number = text.parse().ok().and_then(Number::from_f64);
        number.map_or_else(|| self.fail("a value is expected"), |number| Ok(Value::Number(number)))
    }
}
