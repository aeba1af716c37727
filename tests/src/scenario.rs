//! Scripts of the actions of users, cluster and clock, with the outcome recorded under each line.
//!
//! ```text
//! A good release                         the title, and indented under it a description
//!   By weight, on Gateway API.
//!
//! release web:2.0                        a command
//!     0:10  phase Initialized -> ...     the outcome, and when: written by a run, read by a person
//!           * NewRevision: ...           `*` is an event, `!` one of type Warning
//!
//! # A remark.
//! ```
//!
//! A script is run with the real operator over the sandbox, in virtual time; the text it makes must equal
//! the file. `UPDATE_SCENARIOS=1` writes the file instead, to be read before it is committed. All commands
//! are in `tests/scenarios/README.md`.

mod chronicle;
mod command;
mod examine;
mod ground;
mod lines;
mod routes;
mod script;
mod settings;
mod stage;

use std::{fs, path::Path};

use self::{ground::Sandboxed, stage::Stage};
pub use self::{
    ground::{Done, Ground},
    lines::{Revisions, call as tell_call, pods as tell_pods, write as tell_write},
    script::{Script, Step, difference},
};

/// Runs the script in a file. `Err` shows the differences.
pub async fn check(path: &Path) -> Result<(), String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let script = Script::parse(&text).map_err(|why| format!("{}: {why}", path.display()))?;
    let played = play(script, Sandboxed::new().await).await;
    let (played, _) = played.map_err(|why| format!("{}:{why}", path.display()))?;
    let got = played.to_string();
    if got == text {
        return Ok(());
    }
    if std::env::var_os("UPDATE_SCENARIOS").is_some() {
        if std::env::var_os("CI").is_some() {
            return Err("UPDATE_SCENARIOS is for people: CI compares".to_owned());
        }
        return fs::write(path, got).map_err(|error| format!("{}: {error}", path.display()));
    }
    let difference = script::difference(&text, &got);
    Err(format!(
        "{} does not tell what happens (- the script, + the run):\n\n{difference}\n\
         UPDATE_SCENARIOS=1 writes the script anew; read it before committing.",
        path.display()
    ))
}

/// Runs a script on a ground, and writes the outcome under each command.
pub async fn play<G: Ground>(mut script: Script, ground: G) -> Result<(Script, G), String> {
    let mut stage = Stage::on(ground);
    for step in script.steps_mut() {
        let at = |why: String| format!("{}: `{}`: {why}", step.line, step.text);
        let command = command::parse(&step.text).map_err(at)?;
        stage.expect(&step.outcome);
        step.outcome = stage.carry_out(command).await.map_err(at)?;
    }
    Ok((script, stage.into_ground()))
}
