//! Compares two records, and explains differences by rows.

use std::{collections::BTreeSet, fmt};

use super::record::{NONE, Record};

/// A field, or a whole object, that had other values.
#[derive(Debug)]
pub struct Difference {
    pub scenario: &'static str,
    pub subject: String,
    /// Empty for an object that only one of them has.
    pub path: String,
    pub flagger: String,
    pub tidegate: String,
}

/// A class of accepted differences. A star in a pattern is any text.
pub struct Row {
    pub scenario: &'static str,
    pub subject: &'static str,
    pub path: &'static str,
    /// The values of Flagger and of Tidegate.
    pub values: [&'static str; 2],
    /// The subject of the row on the page of differences.
    pub page: &'static str,
}

/// All differences between the record of Flagger and that of Tidegate.
pub(super) fn compare(
    scenario: &'static str,
    flagger: &Record,
    tidegate: &Record,
) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut add = |subject: &str, path: &str, values: [&str; 2]| {
        found.push(Difference {
            scenario,
            subject: subject.to_owned(),
            path: path.to_owned(),
            flagger: values[0].to_owned(),
            tidegate: values[1].to_owned(),
        });
    };
    // A scenario that neither plays to its end is wrong.
    if flagger.missed.is_some() || tidegate.missed.is_some() {
        let missed =
            |it: &Record| it.missed.clone().unwrap_or_else(|| "reached the end".to_owned());
        add("scenario", "", [&missed(flagger), &missed(tidegate)]);
    }
    let subjects: BTreeSet<_> = flagger.subjects.keys().chain(tidegate.subjects.keys()).collect();
    for subject in subjects {
        let (theirs, ours) = (flagger.subjects.get(subject), tidegate.subjects.get(subject));
        let (Some(theirs), Some(ours)) = (theirs, ours) else {
            let is_there = |it: Option<_>| if it.is_some() { "there" } else { NONE };
            add(subject, "", [is_there(theirs.map(drop)), is_there(ours.map(drop))]);
            continue;
        };
        let paths: BTreeSet<_> = theirs.keys().chain(ours.keys()).collect();
        for path in paths {
            let none = || NONE.to_owned();
            let history =
                |values: Option<&Vec<String>>| values.map_or_else(none, |it| it.join(" → "));
            let (theirs, ours) = (history(theirs.get(path)), history(ours.get(path)));
            if theirs != ours {
                add(subject, path, [&theirs, &ours]);
            }
        }
    }
    found
}

// === impl Row ===

impl Row {
    pub fn explains(&self, difference: &Difference) -> bool {
        matches(self.scenario, difference.scenario)
            && matches(self.subject, &difference.subject)
            && matches(self.path, &difference.path)
            && matches(self.values[0], &difference.flagger)
            && matches(self.values[1], &difference.tidegate)
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scenario, subject, path, flagger, tidegate } = self;
        write!(
            f,
            "{scenario} | {subject} | {path}\n    flagger  {flagger}\n    tidegate {tidegate}"
        )
    }
}

/// Whether a text is as a pattern says, in which a star is any text and `|` separates alternatives.
fn matches(pattern: &str, text: &str) -> bool {
    pattern.split('|').any(|pattern| {
        let Some((start, rest)) = pattern.split_once('*') else { return pattern == text };
        let Some(mut text) = text.strip_prefix(start) else { return false };
        let mut parts: Vec<_> = rest.split('*').collect();
        let end = parts.pop().unwrap_or_default();
        for part in parts {
            let Some(at) = text.find(part) else { return false };
            text = &text[at + part.len()..];
        }
        text.ends_with(end)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{super::witness::Seen, *};

    fn record(states: &[Value]) -> Record {
        let seen = |(version, object): (usize, &Value)| Seen {
            version: version as u64,
            kind: "Service".to_owned(),
            name: "web".to_owned(),
            object: object.clone(),
        };
        let mut record = Record::default();
        let seen: Vec<_> = states.iter().enumerate().map(seen).collect();
        record.add_objects(&seen, ToOwned::to_owned);
        record
    }

    fn differences(theirs: &[Value], ours: &[Value]) -> Vec<(String, String, String)> {
        let found = compare("one", &record(theirs), &record(ours));
        found.into_iter().map(|it| (it.path, it.flagger, it.tidegate)).collect()
    }

    fn row(path: &str, flagger: &str, tidegate: &str) -> (String, String, String) {
        (path.to_owned(), flagger.to_owned(), tidegate.to_owned())
    }

    #[test]
    fn the_number_of_writes_is_no_difference_and_a_value_between_is() {
        let at = |weight: i64, note: Option<&str>| json!({ "spec": { "w": weight, "note": note } });
        let theirs = [at(0, None), at(0, None), at(10, None), at(10, Some("a")), at(0, Some("a"))];
        let ours = [at(0, None), at(10, Some("a")), at(0, Some("a"))];
        assert_eq!(differences(&theirs, &ours), vec![]);
        let skipped = [at(0, None), at(0, Some("a"))];
        assert_eq!(differences(&theirs, &skipped), vec![row("/spec/w", "0 → 10 → 0", "0")]);
    }

    #[test]
    fn an_object_that_one_of_them_has_is_one_difference() {
        let there = [json!({ "spec": { "a": 1, "b": 2 } })];
        assert_eq!(differences(&there, &[]), vec![row("", "there", "-")]);
        let gone = [there[0].clone(), Value::Null];
        assert_eq!(differences(&there, &gone), vec![row("exists", "yes", "yes → no")]);
    }

    #[test]
    fn a_scenario_that_neither_ends_is_a_difference() {
        let mut late = record(&[]);
        late.missed = Some("phase Succeeded".to_owned());
        let mut late_too = record(&[]);
        late_too.missed.clone_from(&late.missed);
        assert_eq!(compare("one", &late, &late_too).len(), 1);
    }

    #[test]
    fn patterns_have_stars_and_alternatives() {
        let cases = [
            ("Service web", "Service web", true),
            ("Service web", "Service web-primary", false),
            ("Service *", "Service web", true),
            ("*/labels/*", "/metadata/labels/app", true),
            ("*/labels/*", "/metadata/annotations/app", false),
            ("a*b*c", "axbxc", true),
            ("a*b*c", "axcxb", false),
            ("a|b*", "bc", true),
            ("a|b", "c", false),
        ];
        for (pattern, text, wanted) in cases {
            assert_eq!(matches(pattern, text), wanted, "{pattern} {text}");
        }
    }
}
