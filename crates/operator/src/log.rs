//! Logs: JSON lines with the keys that zap writes, or text for people.
//!
//! ```text
//! {"level":"info","ts":"2026-01-01T00:00:00.000Z","caller":"act.rs:42","msg":"Shifted traffic","canary":"test/podinfo","weight":30}
//! ```
//!
//! `level`, `ts`, `caller` and `msg` come first, then the fields of the spans around the event and of
//! the event itself, in order of their names. Everything goes to stderr: stdout is for data.

use std::{
    collections::BTreeMap,
    fmt,
    io::{self, IsTerminal, Write},
    sync::Arc,
};

use clap::ValueEnum;
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

use crate::clock::Clock;

/// How much to log, and in which form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogSettings {
    pub level: Level,
    pub format: LogFormat,
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
    clock: Arc<dyn Clock>,
    writer: W,
}

/// Sends all events of this process to stderr. Once; a second call fails.
///
/// `RUST_LOG` overrides the level, for looking into libraries.
pub fn init(settings: LogSettings, clock: Arc<dyn Clock>) -> Result<(), TryInitError> {
    let filter: Box<dyn Filter<Registry> + Send + Sync> = match EnvFilter::try_from_default_env() {
        Ok(filter) => Box::new(filter),
        Err(_) => Box::new(targets(settings.level)),
    };
    let output = match settings.format {
        LogFormat::Json => JsonLayer { clock, writer: io::stderr }.boxed(),
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
/// We have nothing above `error`, so `fatal` and `panic` are that.
pub fn level(text: &str) -> Level {
    match text.trim().to_ascii_lowercase().as_str() {
        "debug" => Level::DEBUG,
        "warn" | "warning" => Level::WARN,
        "error" | "dpanic" | "fatal" | "panic" => Level::ERROR,
        _ => Level::INFO,
    }
}

/// Our own events at the level asked for; those of libraries only when something is wrong.
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
        let causes = std::iter::successors(Some(value), |error| error.source());
        let text = causes.map(ToString::to_string).collect::<Vec<_>>().join(": ");
        self.0.insert(field.name(), text.into());
    }
}

// === impl JsonLayer ===

impl<W> JsonLayer<W> {
    fn line(&self, event: &Event<'_>, mut fields: Fields) -> String {
        event.record(&mut fields);
        let metadata = event.metadata();
        let message = fields.0.remove("message").unwrap_or_else(|| Value::from(""));
        let file = metadata.file().unwrap_or_default();
        let file = file.rsplit('/').next().unwrap_or_default();
        let caller = format!("{file}:{}", metadata.line().unwrap_or_default());
        let head: [(&str, Value); 4] = [
            ("level", metadata.level().as_str().to_ascii_lowercase().into()),
            ("ts", format!("{:.3}", self.clock.now()).into()),
            ("caller", caller.into()),
            ("msg", message),
        ];
        let is_head = |name: &str| head.iter().any(|(known, _)| *known == name);
        let rest = fields.0.into_iter().filter(|(name, _)| !is_head(name));
        let pairs = head.iter().cloned().chain(rest);
        let pairs = pairs.map(|(name, value)| format!("{}:{value}", Value::from(name)));
        format!("{{{}}}\n", pairs.collect::<Vec<_>>().join(","))
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
        let line = self.line(event, fields);
        // Nowhere to complain to if the log cannot be written.
        let _best_effort = self.writer.make_writer().write_all(line.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use kube_sandbox::Settings;
    use tracing::{debug, info, info_span, warn};

    use super::*;
    use crate::clock::testing::VirtualClock;

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
    fn logged(level: Level, act: impl FnOnce()) -> Vec<String> {
        let sink = Sink::default();
        let writer = sink.clone();
        let clock = Arc::new(VirtualClock::of(&Settings::for_tests().clock));
        let layer = JsonLayer { clock, writer: move || writer.clone() };
        let subscriber = tracing_subscriber::registry().with(layer.with_filter(targets(level)));
        tracing::subscriber::with_default(subscriber, act);
        let bytes = sink.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_line_has_zaps_keys_and_the_fields_around_it() {
        let lines = logged(Level::INFO, || {
            let span =
                info_span!("reconcile", canary = "test/podinfo", phase = tracing::field::Empty);
            let _entered = span.enter();
            span.record("phase", "Progressing");
            info!(weight = 30, share = 0.5, done = false, "Shifted \"traffic\"");
        });
        let [line] = lines.as_slice() else { panic!("one line, not {lines:?}") };
        let start = r#"{"level":"info","ts":"2026-01-01T00:00:00.000Z","caller":"log.rs:"#;
        assert!(line.starts_with(start), "{line}");
        let end = r#","msg":"Shifted \"traffic\"","canary":"test/podinfo","done":false,"phase":"Progressing","share":0.5,"weight":30}"#;
        assert!(line.ends_with(end), "{line}");
    }

    #[test]
    fn fields_cannot_break_or_forge_a_line() {
        let lines = logged(Level::INFO, || {
            warn!(
                level = "fake",
                msg = "fake",
                value = f64::NAN,
                evil = "a\n{\"level\":\"error\"}",
                "x"
            );
        });
        let [line] = lines.as_slice() else { panic!("one line, not {lines:?}") };
        let parsed: Value = serde_json::from_str(line).unwrap();
        assert_eq!(parsed["level"], "warn");
        assert_eq!(parsed["msg"], "x");
        assert_eq!(parsed["value"], "NaN");
        assert_eq!(parsed["evil"], "a\n{\"level\":\"error\"}");
    }

    #[test]
    fn an_error_is_logged_with_its_causes() {
        #[derive(Debug, thiserror::Error)]
        #[error("failed to read Secret `a`")]
        struct Outer(#[source] io::Error);
        let lines = logged(Level::INFO, || {
            let error = Outer(io::Error::other("refused"));
            warn!(error = &error as &dyn std::error::Error, "Retrying");
        });
        assert!(lines[0].contains(r#""error":"failed to read Secret `a`: refused""#), "{lines:?}");
    }

    #[test]
    fn libraries_are_quiet_unless_something_is_wrong() {
        let lines = logged(Level::DEBUG, || {
            debug!("ours");
            info!(target: "kube_client::client", "theirs");
            warn!(target: "kube_client::client", "wrong");
        });
        assert_eq!(lines.len(), 2, "{lines:?}");
        let lines = logged(Level::ERROR, || warn!(target: "kube_client::client", "wrong"));
        assert!(lines.is_empty());
    }

    #[test]
    fn level_names_are_flaggers() {
        let cases = [
            ("debug", Level::DEBUG),
            ("info", Level::INFO),
            ("warn", Level::WARN),
            ("warning", Level::WARN),
            ("error", Level::ERROR),
            ("fatal", Level::ERROR),
            ("panic", Level::ERROR),
            ("", Level::INFO),
            ("verbose", Level::INFO),
        ];
        for (text, want) in cases {
            assert_eq!(level(text), want, "{text}");
        }
    }
}
