//! The two texts that Prometheus reads.
//!
//! The encoder writes `OpenMetrics`, which names a counter `x` and its sample `x_total`. The older
//! text names both `x_total` and knows no end mark; a scraper that did not ask for `OpenMetrics` gets
//! that, as from Go's client.

use prometheus_client::{encoding::text::encode, registry::Registry};

/// A text format for `/metrics`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Version 0.0.4 of Prometheus' own.
    Prometheus,
    OpenMetrics,
}

pub(super) fn render(registry: &Registry, format: Format) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _infallible = encode(&mut text, registry);
    match format {
        Format::OpenMetrics => text,
        Format::Prometheus => without_openmetrics(&text),
    }
}

fn without_openmetrics(text: &str) -> String {
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let counters: Vec<&str> = types.filter_map(|line| line.strip_suffix(" counter")).collect();
    let mut plain = String::with_capacity(text.len());
    for line in text.lines() {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some("EOF" | "UNIT"), ..) => continue,
            (Some("#"), Some(keyword), Some(name), Some(rest)) if counters.contains(&name) => {
                plain.extend(["# ", keyword, " ", name, "_total ", rest]);
            }
            _ => push_sample(&mut plain, line),
        }
        plain.push('\n');
    }
    plain
}

/// A bound of a histogram as Go writes it: `1`, not `1.0`. Older Prometheus tell the two apart.
fn push_sample(plain: &mut String, line: &str) {
    // The first brace is where the labels begin, and a bound is always the first of them.
    let bucket =
        line.split_once('{').and_then(|(name, rest)| Some((name, rest.strip_prefix("le=\"")?)));
    let whole = bucket.and_then(|(name, rest)| Some((name, rest.split_once('"')?)));
    match whole.and_then(|(name, (bound, rest))| Some((name, bound.strip_suffix(".0")?, rest))) {
        Some((name, bound, rest)) => plain.extend([name, "{le=\"", bound, "\"", rest]),
        None => plain.push_str(line),
    }
}

// === impl Format ===

impl Format {
    /// The format that a scraper's `Accept` header asks for.
    pub fn accepted(accept: Option<&str>) -> Self {
        match accept {
            Some(accept) if accept.contains("application/openmetrics-text") => Self::OpenMetrics,
            _ => Self::Prometheus,
        }
    }

    pub fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}
