//! `flags.md`: the flags of `tidegate operator`, from the parser.

use std::{collections::BTreeMap, fmt::Write as _};

use clap::{Arg, Args as _, Command};
use tidegate_operator::args::Args;

use crate::markdown::{cell, code, table};

const INTRO: &str = "\
# Flags of `tidegate operator`

The operator takes Flagger's flags with Flagger's defaults, and a few more. A flag has one dash or
two. Booleans are `-x`, `-x=true` or `-x=false`. Flags of klog, which Flagger's libraries add, are
accepted and ignored, so the arguments of a Flagger Deployment work unchanged.

These environment variables override their flags if they are not empty: `SLACK_URL`, `SLACK_TOKEN`,
`SLACK_PROXY_URL`, `MSTEAMS_URL`, `MSTEAMS_PROXY_URL`, `EVENT_WEBHOOK_URL`. `RUST_LOG` overrides
`--log-level`. `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY` are respected.
";

/// The order of chapters.
const CHAPTERS: [&str; 6] = ["Cluster", "Running", "Rollouts", "Alerts", "Safety", "Logs"];

pub(crate) fn page() -> String {
    let command = Args::augment_args(Command::new("operator"));
    let mut chapters: BTreeMap<String, Vec<[String; 3]>> = BTreeMap::new();
    for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
        if let Some(row) = row(argument) {
            let heading = argument.get_help_heading().unwrap_or("Other");
            chapters.entry(heading.to_owned()).or_default().push(row);
        }
    }
    let mut text = INTRO.to_owned();
    for chapter in CHAPTERS {
        let rows = chapters.remove(chapter).unwrap_or_default();
        let rows = table(["Flag", "Default", "Meaning"], &rows);
        write!(text, "\n## {chapter}\n\n{rows}").unwrap();
    }
    assert!(chapters.is_empty(), "no place for {:?}", chapters.keys());
    text
}

fn row(argument: &Arg) -> Option<[String; 3]> {
    let name = argument.get_long()?;
    let value = argument.get_value_names().unwrap_or_default().first();
    let flag = value.map_or_else(|| format!("--{name}"), |value| format!("--{name} {value}"));
    let defaults = argument.get_default_values();
    let default: Vec<_> = defaults.iter().map(|value| value.to_string_lossy()).collect();
    let default = default.join(",");
    let default = if default.is_empty() { String::new() } else { code(&default) };
    let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
    Some([code(&flag), default, cell(&help)])
}
