//! Texts of users: flags of the operator, and templates of metric queries.
//!
//! Laws: flags that were made ready for clap are ready; a template renders the same each time, and
//! never to more than its bound.

use std::{ffi::OsString, sync::LazyLock};

use clap::Parser;
use tidegate_api::canary::{Canary, analysis::AnalysisMetric};
use tidegate_operator::args::{Args, Settings, preprocess};
use tidegate_providers::template::{Model, render};

/// Most words of a command line; each costs clap a millisecond in a build without optimisation.
const WORDS_MAX: usize = 64;
/// As much as a template may render to.
const OUTPUT_MAX: usize = 64 * 1024;

#[derive(Debug, Parser)]
struct Program {
    #[command(flatten)]
    args: Args,
}

static MODEL: LazyLock<Model> = LazyLock::new(|| {
    let canary: Canary = serde_json::from_value(serde_json::json!({
        "apiVersion": "flagger.app/v1beta1",
        "kind": "Canary",
        "metadata": {"name": "podinfo", "namespace": "test"},
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "podinfo"},
            "service": {"port": 9898},
            "analysis": {"interval": "1m", "threshold": 5, "stepWeight": 10, "maxWeight": 50},
        },
    }))
    .expect("a canary of the smallest kind");
    let metric: AnalysisMetric = serde_json::from_value(serde_json::json!({
        "name": "errors",
        "interval": "1m",
        "templateVariables": {"direction": "inbound", "quoted": "a\"b", "empty": ""},
    }))
    .expect("a metric of the smallest kind");
    Model::of(&canary, &metric).expect("its values are names")
});

/// Input: a command line, one word a line, if it begins with a dash; a template otherwise.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if text.starts_with('-') { flags(text) } else { template(text) }
}

fn flags(text: &str) {
    let words = text.lines().take(WORDS_MAX).map(OsString::from);
    let ready = preprocess(words);
    assert_eq!(preprocess(ready.clone()), ready, "flags that are ready are ready");
    let line = [OsString::from("operator")].into_iter().chain(ready);
    if let Ok(Program { args }) = Program::try_parse_from(line) {
        let _ = Settings::new(args, |_| None);
    }
}

fn template(text: &str) {
    let rendered = render("fuzz", text, &MODEL);
    assert_eq!(render("fuzz", text, &MODEL), rendered, "the same each time");
    if let Ok(query) = rendered {
        assert!(query.len() <= OUTPUT_MAX, "a query of {} bytes", query.len());
    }
}
