//! The result of a comparison, for people.

use std::{collections::BTreeMap, fmt, time::Duration};

use serde_json::Value;

use super::{accepted::ACCEPTED, difference::Difference};

/// The result of all stories on both servers.
#[derive(Debug, Default)]
pub struct Report {
    pub stories: usize,
    pub requests: usize,
    /// Requests that the real server did not answer at all: nothing was compared.
    pub unanswered: Vec<String>,
    pub elapsed: Duration,
    /// Differences without a row.
    pub unexplained: Vec<Difference>,
    /// The differences that each row of accepted ones explained, by its reason: classes and their numbers.
    pub explained: BTreeMap<&'static str, BTreeMap<String, usize>>,
}

/// Examples that are printed for a class of differences.
const EXAMPLES: usize = 3;

// === impl Report ===

impl Report {
    pub fn note(&mut self, difference: Difference) {
        match difference.explanation() {
            Some(row) => {
                let classes = self.explained.entry(row.why).or_default();
                *classes.entry(difference.class()).or_default() += 1;
            }
            None => self.unexplained.push(difference),
        }
    }

    /// Rows of accepted differences that explained nothing.
    pub fn idle_rows(&self) -> Vec<&'static str> {
        let reasons = ACCEPTED.iter().map(|row| row.why);
        reasons.filter(|why| !self.explained.contains_key(why)).collect()
    }

    /// Rows that explained more than their limit, and a little.
    pub fn swollen_rows(&self) -> Vec<String> {
        let swollen = ACCEPTED.iter().filter_map(|row| {
            let classes = self.explained.get(row.why)?.iter();
            let counted = classes.filter(|(class, _)| !class.contains("/managedFields"));
            let count = counted.map(|(_, count)| count).sum::<usize>();
            let most = row.most.saturating_add(row.most / 20 + 2);
            (count > most).then(|| format!("{count} instead of {}: {}", row.most, row.why))
        });
        swollen.collect()
    }

    /// The unexplained differences by class, most frequent first.
    fn classes(&self) -> Vec<(String, Vec<&Difference>)> {
        let mut classes: BTreeMap<String, Vec<&Difference>> = BTreeMap::new();
        for difference in &self.unexplained {
            classes.entry(difference.class()).or_default().push(difference);
        }
        let mut classes: Vec<_> = classes.into_iter().collect();
        classes.sort_by_key(|(class, members)| (usize::MAX - members.len(), class.clone()));
        classes
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (class, members) in self.classes() {
            writeln!(f, "{} x {class}", members.len())?;
            for difference in members.iter().take(EXAMPLES) {
                writeln!(f, "{difference}")?;
            }
        }
        let accepted: usize = self.explained.values().flat_map(BTreeMap::values).sum();
        writeln!(f, "{:>8} stories", self.stories)?;
        writeln!(f, "{:>8} requests to each server", self.requests)?;
        writeln!(f, "{:>8.1} seconds", self.elapsed.as_secs_f64())?;
        writeln!(f, "{accepted:>8} differences accepted, for these reasons:")?;
        for (why, classes) in &self.explained {
            writeln!(f, "{:>16} {why}", classes.values().sum::<usize>())?;
            // In full with `{:#}`.
            let shown = if f.alternate() { classes.len() } else { 0 };
            for (class, count) in classes.iter().take(shown) {
                writeln!(f, "{count:>24} {class}")?;
            }
        }
        writeln!(f, "{:>8} differences unexplained", self.unexplained.len())
    }
}

// === impl Difference ===

impl Difference {
    /// The place with its numbers and names made general.
    pub fn class(&self) -> String {
        let place: Vec<&str> = self.place.split('/').map(general).collect();
        let shown = |value: &Option<Value>| match value {
            None => "nothing".to_owned(),
            Some(Value::Object(said)) if self.place == "/code" => {
                let part = |key: &str| said.get(key).cloned().unwrap_or_default();
                format!("{} {}", part("code"), part("reason"))
            }
            Some(Value::Object(_)) => "an object".to_owned(),
            Some(Value::Array(_)) => "a list".to_owned(),
            Some(Value::String(text)) if text.starts_with('\u{1}') => "a symbol".to_owned(),
            Some(value) => clipped(&value.to_string(), 60),
        };
        format!("{}: {} | {}", place.join("/"), shown(&self.real), shown(&self.ours))
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { story, step, request, place, real, ours, said } = self;
        let shown = |value: &Option<Value>| {
            value.as_ref().map_or("nothing".to_owned(), |value| clipped(&value.to_string(), 400))
        };
        writeln!(f, "    {story} #{step} ({})", request.note)?;
        writeln!(f, "        {} {} {}", request.method, request.path, request.accept)?;
        if !request.body.is_empty() {
            writeln!(f, "        {} {}", request.content_type, clipped(&request.body, 600))?;
        }
        writeln!(f, "        at {place}")?;
        writeln!(f, "        real: {}", shown(real))?;
        writeln!(f, "        ours: {}", shown(ours))?;
        let [real, ours] = said;
        write!(f, "        said: {real}\n              {ours}")
    }
}

fn general(segment: &str) -> &str {
    let is_number = !segment.is_empty() && segment.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { "*" } else { segment }
}

fn clipped(text: &str, length: usize) -> String {
    let short: String = text.chars().take(length).collect();
    if short.len() < text.len() { short + "…" } else { short }
}
