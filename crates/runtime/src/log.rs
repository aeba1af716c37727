//! Logs: JSON lines with the keys that zap writes, or text for people.
//!
//! ```text
//! {"level":"info","ts":"2026-01-01T00:00:00.000Z","caller":"act.rs:42","msg":"Shifted traffic","canary":"test/podinfo","weight":30}
//! ```
//!
//! `level`, `ts`, `caller` and `msg` come first, then the fields of the spans around the event and of
//! the event itself, in order of their names. Everything goes to stderr: stdout is for data.

mod sample;

use std::{
    collections::BTreeMap,
    fmt,
    io::{self, IsTerminal, Write},
};

use clap::ValueEnum;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::Value;
use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
    level_filters::LevelFilter,
    span::{Attributes, Id, Record},
};
use tracing_subscriber::{
    EnvFilter, Layer, Registry,
    filter::Targets,
    fmt::MakeWriter,
    layer::{Context, Filter, SubscriberExt},
    registry::{LookupSpan, Scope},
    util::{SubscriberInitExt, TryInitError},
};

use self::sample::Sampler;

/// How much to log, and in which form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogSettings {
    pub level: Level,
    pub format: LogFormat,
    /// `RUST_LOG` overrides the level, for looking into libraries.
    pub obeys_rust_log: bool,
    /// For programs whose callers decide what is logged: fields without text are left out, and messages that come too
    /// often are sampled.
    pub is_sampled: bool,
}

/// One line of JSON an event, or text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    Json,
    Text,
}

/// Fields by name. Sorted, so that equal events are equal lines.
#[derive(Debug, Default, Clone)]
struct Fields(BTreeMap<&'static str, Value>);

/// Writes events as JSON.
struct JsonLayer<W> {
    now: fn() -> Timestamp,
    writer: W,
    /// `None` keeps every event and every field.
    sampler: Option<Mutex<Sampler>>,
}

/// Sends all events of this process to stderr. Once; a second call fails.
pub fn init(settings: LogSettings) -> Result<(), TryInitError> {
    let LogSettings { level, format, obeys_rust_log, is_sampled } = settings;
    let environment = obeys_rust_log.then(|| EnvFilter::try_from_default_env().ok()).flatten();
    let filter: Box<dyn Filter<Registry> + Send + Sync> = match environment {
        Some(filter) => Box::new(filter),
        None => Box::new(targets(level)),
    };
    let output = match format {
        LogFormat::Json => {
            let sampler = is_sampled.then(Mutex::default);
            JsonLayer { now: Timestamp::now, writer: io::stderr, sampler }.boxed()
        }
        LogFormat::Text => {
            let is_coloured = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
            tracing_subscriber::fmt::layer().with_writer(io::stderr).with_ansi(is_coloured).boxed()
        }
    };
    tracing_subscriber::registry().with(output.with_filter(filter)).try_init()
}

/// The level that Flagger's `-log-level` means: zap's names, and `warning`, which Flagger's help
/// names and its parser does not know. Anything else means `info`.
///
/// There is no level above `error`, so `fatal` and `panic` are that.
pub fn level(text: &str) -> Level {
    match text.trim().to_ascii_lowercase().as_str() {
        "debug" => Level::DEBUG,
        "warn" | "warning" => Level::WARN,
        "error" | "dpanic" | "fatal" | "panic" => Level::ERROR,
        _ => Level::INFO,
    }
}

/// An error with its whole chain of causes, each once: many errors have the text of their cause in their own.
pub fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |error| error.source());
    causes.map(ToString::to_string).fold(error.to_string(), |text, cause| {
        if text.ends_with(&cause) { text } else { format!("{text}: {cause}") }
    })
}

/// Events of this workspace at the level asked for; those of libraries only when something is wrong.
fn targets(level: Level) -> Targets {
    let of_libraries = LevelFilter::from_level(level).min(LevelFilter::WARN);
    Targets::new().with_default(of_libraries).with_target("tidegate", level)
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

    fn record_f64(&mut self, field: &Field, value: f64) {
        // JSON has no NaN and no infinity; their names are better than nothing.
        let value = serde_json::Number::from_f64(value)
            .map_or_else(|| Value::from(value.to_string()), Value::Number);
        self.0.insert(field.name(), value);
    }

    /// The whole chain of causes, once.
    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.0.insert(field.name(), chain(value).into());
    }
}

// === impl JsonLayer ===

impl<W> JsonLayer<W> {
    /// `None` if the event is sampled away.
    fn line(&self, event: &Event<'_>, mut fields: Fields) -> Option<String> {
        event.record(&mut fields);
        let metadata = event.metadata();
        let message = fields.0.remove("message").unwrap_or_else(|| Value::from(""));
        let now = (self.now)();
        if let Some(sampler) = &self.sampler {
            let text = message.as_str().unwrap_or_default();
            if !sampler.lock().keeps(*metadata.level(), text, now.as_second()) {
                return None;
            }
            fields.0.retain(|_, value| *value != "");
        }
        let file = metadata.file().unwrap_or_default();
        let file = file.rsplit('/').next().unwrap_or_default();
        let caller = format!("{file}:{}", metadata.line().unwrap_or_default());
        let head: [(&str, Value); 4] = [
            ("level", metadata.level().as_str().to_ascii_lowercase().into()),
            ("ts", format!("{now:.3}").into()),
            ("caller", caller.into()),
            ("msg", message),
        ];
        let is_head = |name: &str| head.iter().any(|(known, _)| *known == name);
        let rest = fields.0.into_iter().filter(|(name, _)| !is_head(name));
        let pairs = head.iter().cloned().chain(rest);
        let pairs = pairs.map(|(name, value)| format!("{}:{value}", Value::from(name)));
        Some(format!("{{{}}}\n", pairs.collect::<Vec<_>>().join(",")))
    }
}

impl<S, W> Layer<S> for JsonLayer<W>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    W: for<'writer> MakeWriter<'writer> + 'static,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        for span in context.event_scope(event).into_iter().flat_map(Scope::from_root) {
            if let Some(of_span) = span.extensions().get::<Fields>() {
                fields.0.extend(of_span.0.clone());
            }
        }
        let Some(line) = self.line(event, fields) else { return };
        // There is no other place to report that the log cannot be written.
        let _best_effort = self.writer.make_writer().write_all(line.as_bytes());
    }
}

#[cfg(test)]
mod tests;
