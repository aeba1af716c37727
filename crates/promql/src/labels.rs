//! The label set of a series, which identifies it.
//!
//! Cheap to clone and ordered as in Prometheus: pair by pair, names first. A label with an empty
//! value is the same as no label and is never stored.

use std::{collections::BTreeMap, fmt, sync::Arc};

use promql_parser::util::escape_string;
use serde::{Serialize, Serializer};

/// The label that holds a metric's name.
pub const METRIC_NAME: &str = "__name__";

/// A set of label names and values, including the metric's name.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Labels(Arc<BTreeMap<String, String>>);

// === impl Labels ===

impl Labels {
    /// The labels of a metric: its name and other pairs.
    pub fn of(name: &str, pairs: &[(&str, &str)]) -> Self {
        pairs.iter().copied().chain([(METRIC_NAME, name)]).collect()
    }

    /// The value of a label; empty if there is none.
    pub fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    /// Whether there is no label at all.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Names and values, in the order of names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Sets one label; an empty value removes it.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        if self.get(name) != value {
            let labels = Arc::make_mut(&mut self.0);
            if value.is_empty() {
                labels.remove(name);
            } else {
                labels.insert(name.to_owned(), value.to_owned());
            }
        }
        self
    }

    /// Only the labels named.
    #[must_use]
    pub fn only(&self, names: &[String]) -> Self {
        names.iter().map(|name| (name.as_str(), self.get(name))).collect()
    }

    /// All but the labels named.
    #[must_use]
    pub fn without(&self, names: &[String]) -> Self {
        if names.iter().all(|name| self.get(name).is_empty()) {
            return self.clone();
        }
        self.iter().filter(|(name, _)| !names.iter().any(|gone| gone == name)).collect()
    }

    /// The labels without the metric's name, for values that no longer mean the metric.
    #[must_use]
    pub fn unnamed(self) -> Self {
        self.with(METRIC_NAME, "")
    }
}

impl<'a> FromIterator<(&'a str, &'a str)> for Labels {
    fn from_iter<I: IntoIterator<Item = (&'a str, &'a str)>>(pairs: I) -> Self {
        let kept = pairs.into_iter().filter(|(_, value)| !value.is_empty());
        Self(Arc::new(kept.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()))
    }
}

impl fmt::Display for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{{", self.get(METRIC_NAME))?;
        let others = self.iter().filter(|(name, _)| *name != METRIC_NAME);
        for (index, (name, value)) in others.enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{name}=\"{}\"", escape_string(value))?;
        }
        f.write_str("}")
    }
}

impl Serialize for Labels {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_label_is_no_label() {
        let labels = Labels::of("up", &[("job", "api"), ("zone", "")]);
        assert_eq!(labels, Labels::of("up", &[("job", "api")]));
        assert_eq!(labels.get("zone"), "");
        assert_eq!(labels.clone().with("job", ""), Labels::of("up", &[]));
        assert_eq!(labels.unnamed().to_string(), "{job=\"api\"}");
    }

    #[test]
    fn labels_are_kept_and_dropped_by_name() {
        let labels = Labels::of("up", &[("job", "api"), ("pod", "a\"b")]);
        let names = ["job".to_owned(), "nowhere".to_owned()];
        assert_eq!(labels.only(&names).to_string(), "{job=\"api\"}");
        assert_eq!(labels.without(&names).to_string(), "up{pod=\"a\\\"b\"}");
    }
}
