use std::sync::Arc;

use tracing::{debug, error, info, info_span, warn};

use super::*;

#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The lines that `act` logs.
fn logged(level: Level, act: impl FnOnce()) -> Vec<String> {
    captured(level, None, act)
}

fn captured(level: Level, sampler: Option<Mutex<Sampler>>, act: impl FnOnce()) -> Vec<String> {
    let sink = Sink::default();
    let writer = sink.clone();
    let now = || Timestamp::constant(1_767_225_600, 0);
    let layer = JsonLayer { now, writer: move || writer.clone(), sampler };
    let subscriber = tracing_subscriber::registry().with(layer.with_filter(targets(level)));
    tracing::subscriber::with_default(subscriber, act);
    let bytes = sink.0.lock().clone();
    String::from_utf8(bytes).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn a_line_has_zaps_keys_and_the_fields_around_it() {
    let lines = logged(Level::INFO, || {
        let span = info_span!("reconcile", canary = "test/podinfo", phase = tracing::field::Empty);
        let _entered = span.enter();
        span.record("phase", "Progressing");
        info!(weight = 30, share = 0.5, done = false, "Shifted \"traffic\"");
    });
    let [line] = lines.as_slice() else { panic!("one line, not {lines:?}") };
    let start = r#"{"level":"info","ts":"2026-01-01T00:00:00.000Z","caller":"tests.rs:"#;
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

#[test]
fn a_sampled_log_has_no_empty_fields_and_no_floods() {
    let lines = captured(Level::INFO, Some(Mutex::default()), || {
        let canary = "podinfo.test";
        info!(%canary, output = "", msg = "fake", "command finished \"x\"\n{{}}");
        let cause = io::Error::other("no room");
        error!(error = &cause as &dyn std::error::Error, "failed");
        for _ in 0..150 {
            info!("flood");
        }
    });
    assert_eq!(lines.len(), 102);
    let lines: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let keys: Vec<_> = lines[0].as_object().unwrap().keys().cloned().collect();
    assert_eq!(keys, ["caller", "canary", "level", "msg", "ts"]);
    assert_eq!(lines[0]["msg"], "command finished \"x\"\n{}");
    assert_eq!(lines[0]["canary"], "podinfo.test");
    assert_eq!(lines[1]["error"], "no room");
}
