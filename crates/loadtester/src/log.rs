//! Logs: a line of JSON for each event, as Flagger's load tester writes them.
//!
//! Keys are `level`, `ts`, `caller` and `msg`, then the fields of the event. Of a message that comes
//! more than a hundred times in a second every hundredth is kept.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
    io::{self, IsTerminal, Write},
    sync::{Mutex, PoisonError},
};

use jiff::Timestamp;
use serde_json::Value;
use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
    level_filters::LevelFilter,
};
use tracing_subscriber::{
    Layer,
    filter::Targets,
    fmt::MakeWriter,
    layer::{Context, SubscriberExt as _},
    util::{SubscriberInitExt as _, TryInitError},
};

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Encoding {
    Json,
    Console,
}

struct JsonLines<W> {
    writer: W,
    sampler: Mutex<Sampler>,
}

/// How often each message came in the current second.
#[derive(Default)]
struct Sampler {
    second: i64,
    counts: HashMap<u64, u32>,
}

#[derive(Default)]
struct Fields(BTreeMap<&'static str, Value>);

/// As zap's: the first hundred in a second, then every hundredth.
const SAMPLE: u32 = 100;
/// Different messages in one second that are counted; beyond this nothing is left out.
const MESSAGES_MAX: usize = 4096;

/// Sends what is logged to stderr from here on.
pub fn init(level: Level, encoding: Encoding) -> Result<(), TryInitError> {
    let filter = targets(level);
    let output = match encoding {
        Encoding::Json => JsonLines { writer: io::stderr, sampler: Mutex::default() }.boxed(),
        Encoding::Console => {
            let is_coloured = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
            tracing_subscriber::fmt::layer().with_writer(io::stderr).with_ansi(is_coloured).boxed()
        }
    };
    tracing_subscriber::registry().with(output.with_filter(filter)).try_init()
}

/// The level that `-log-level` means: zap's names, and `warning`, which Flagger's help names and its
/// parser does not know. Anything else means `info`; `fatal` and `panic` are `error`.
pub fn level(text: &str) -> Level {
    match text.trim().to_ascii_lowercase().as_str() {
        "debug" => Level::DEBUG,
        "warn" | "warning" => Level::WARN,
        "error" | "fatal" | "panic" => Level::ERROR,
        _ => Level::INFO,
    }
}

/// Our own events at the level asked for; those of libraries only when something is wrong.
fn targets(level: Level) -> Targets {
    let of_libraries = LevelFilter::from_level(level).min(LevelFilter::WARN);
    Targets::new().with_default(of_libraries).with_target("tidegate", level)
}

// === impl Sampler ===

impl Sampler {
    fn keeps(&mut self, level: Level, message: &str, second: i64) -> bool {
        if self.second != second {
            self.second = second;
            self.counts.clear();
        }
        let mut hasher = DefaultHasher::new();
        (level.as_str(), message).hash(&mut hasher);
        let is_full = self.counts.len() >= MESSAGES_MAX;
        let hash = hasher.finish();
        if is_full && !self.counts.contains_key(&hash) {
            return true;
        }
        let count = self.counts.entry(hash).or_default();
        *count = count.saturating_add(1);
        *count <= SAMPLE || count.is_multiple_of(SAMPLE)
    }
}

// === impl Fields ===

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.insert(field.name(), value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.insert(field.name(), value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.insert(field.name(), value.into());
    }

    /// The whole chain of causes, once.
    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        let causes = std::iter::successors(Some(value), |error| error.source());
        let text = causes.map(ToString::to_string).collect::<Vec<_>>().join(": ");
        self.0.insert(field.name(), text.into());
    }
}

// === impl JsonLines ===

impl<S, W> Layer<S> for JsonLines<W>
where
    S: Subscriber,
    W: for<'writer> MakeWriter<'writer> + 'static,
{
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let message = fields.0.remove("message").unwrap_or_else(|| Value::from(""));
        let metadata = event.metadata();
        let now = Timestamp::now();
        let is_kept = {
            let mut sampler = self.sampler.lock().unwrap_or_else(PoisonError::into_inner);
            sampler.keeps(*metadata.level(), message.as_str().unwrap_or_default(), now.as_second())
        };
        if !is_kept {
            return;
        }
        let file = metadata.file().unwrap_or_default();
        let file = file.rsplit('/').next().unwrap_or_default();
        let head: [(&str, Value); 4] = [
            ("level", metadata.level().as_str().to_ascii_lowercase().into()),
            ("ts", format!("{now:.3}").into()),
            ("caller", format!("{file}:{}", metadata.line().unwrap_or_default()).into()),
            ("msg", message),
        ];
        // An empty field says nothing, and one of the head's names would say it twice.
        let is_said = |(name, value): &(&str, Value)| {
            *value != "" && !head.iter().any(|(known, _)| known == name)
        };
        let rest = fields.0.into_iter().filter(is_said);
        let pairs = head.iter().cloned().chain(rest);
        let pairs = pairs.map(|(name, value)| format!("{}:{value}", Value::from(name)));
        let line = format!("{{{}}}\n", pairs.collect::<Vec<_>>().join(","));
        // Nowhere to complain to if the log cannot be written.
        let _best_effort = self.writer.make_writer().write_all(line.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tracing::{error, info};

    use super::*;

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What is logged while `act` runs.
    fn logged(act: impl FnOnce()) -> Vec<Value> {
        let sink = Sink::default();
        let writer = sink.clone();
        let layer = JsonLines { writer: move || writer.clone(), sampler: Mutex::default() };
        let subscriber =
            tracing_subscriber::registry().with(layer.with_filter(targets(Level::INFO)));
        tracing::subscriber::with_default(subscriber, act);
        let bytes = sink.0.lock().unwrap().clone();
        let lines = String::from_utf8(bytes).unwrap();
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn lt_2_lines_have_flaggers_keys() {
        let lines = logged(|| {
            let canary = "podinfo.test";
            info!(%canary, output = "", msg = "fake", "command finished \"x\"\n{{}}");
            let cause = io::Error::other("no room");
            error!(error = &cause as &dyn std::error::Error, "failed");
        });
        let keys: Vec<_> = lines[0].as_object().unwrap().keys().cloned().collect();
        assert_eq!(keys, ["caller", "canary", "level", "msg", "ts"]);
        assert_eq!(lines[0]["msg"], "command finished \"x\"\n{}");
        assert_eq!(
            (&lines[0]["level"], &lines[0]["canary"]),
            (&"info".into(), &"podinfo.test".into())
        );
        assert!(lines[0]["ts"].as_str().unwrap().ends_with('Z'));
        assert_eq!(lines[1]["error"], "no room");
    }

    #[test]
    fn lt_2_a_flood_is_thinned_out() {
        let mut sampler = Sampler::default();
        let mut kept = |message: &str, second, times: u32| {
            (0..times).filter(|_| sampler.keeps(Level::INFO, message, second)).count()
        };
        assert_eq!(kept("a", 1, 350), 102, "a hundred, then the 200th and 300th");
        assert_eq!(kept("b", 1, 50), 50);
        assert_eq!(kept("a", 2, 50), 50, "the next second is another");
    }

    #[test]
    fn lt_1_level_names_are_flaggers() {
        let cases = [
            ("debug", Level::DEBUG),
            ("info", Level::INFO),
            ("warn", Level::WARN),
            ("warning", Level::WARN),
            ("error", Level::ERROR),
            ("fatal", Level::ERROR),
            ("panic", Level::ERROR),
            ("verbose", Level::INFO),
        ];
        for (text, want) in cases {
            assert_eq!(level(text), want, "{text}");
        }
    }
}
