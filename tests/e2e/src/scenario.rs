//! The scripts of `tests/scenarios`, run on a real cluster in real time.
//!
//! Each script has a namespace, an operator for that namespace alone, and hooks and metrics of its own, so
//! that many run side by side. The outcome is read from watches and put in order by resource version, which
//! all kinds of one cluster share.
//!
//! ```text
//! script ── Place ──► API server ◄── operator --namespace=script-7
//!             └─ Network on 127.0.0.2 (hooks), .3 (metrics), .4 (chat) ◄──┘
//! ```
//!
//! The order of all writes, the order of all calls, and everything a script shows are compared. Times,
//! which are compared in virtual time elsewhere, and the changes of pods between two moments are not.
//!
//! A script needs nothing but pods of three images, so a user's own cluster will do as well
//! ([`Theatre::borrow`]).

mod clerk;
mod compare;
mod pace;
mod place;
mod server;
mod theatre;

use std::path::Path;

use anyhow::{Context as _, Result, anyhow};
use tidegate_tests::scenario::{self, Script};

use self::place::Place;
pub(crate) use self::server::Server;
pub use self::{compare::Differs, theatre::Theatre};

/// The reason why a script cannot run here, if there is one.
pub fn unsuited(theatre: &Theatre, text: &str) -> Result<Option<&'static str>> {
    let script = Script::parse(text).map_err(|why| anyhow!("{why}"))?;
    let has = |words: &str| script.steps().any(|step| step.text.contains(words));
    let reasons = [
        ("the operator may not", "the sandbox refuses the operator's requests there"),
        ("set the autoscaler", "autoscalers act in their own time"),
        ("given a scaled object", "there is no KEDA"),
    ];
    let reason = reasons.iter().find(|(words, _)| has(words)).map(|(_, why)| *why);
    Ok(reason.or_else(|| theatre.lacks(text)))
}

/// The time a script takes: up to its last line, or all its waits.
pub fn length_s(text: &str) -> u64 {
    let moment = |line: &str| {
        let (minutes, seconds) = line.get(..9)?.trim().split_once(':')?;
        Some(minutes.parse::<u64>().ok()? * 60 + seconds.parse::<u64>().ok()?)
    };
    let wait = |line: &str| {
        let time = line.strip_prefix("wait ")?;
        let (number, factor) = match time.strip_suffix('m') {
            Some(minutes) => (minutes, 60),
            None => (time.strip_suffix('s')?, 1),
        };
        Some(number.parse::<u64>().ok()? * factor)
    };
    let last = text.lines().filter_map(moment).max().unwrap_or(0);
    last.max(text.lines().filter_map(wait).sum())
}

/// Whether a script did not reach its end in time.
pub fn is_late(error: &anyhow::Error) -> bool {
    let differs = error.downcast_ref::<Differs>().is_some_and(|differs| differs.is_late);
    differs || format!("{error:#}").contains(" s in vain: ")
}

/// Runs a script in a namespace of its own. `Err` has the differences.
pub async fn play(theatre: &Theatre, name: &str, path: &Path) -> Result<()> {
    let text = std::fs::read_to_string(path)?;
    let script = Script::parse(&text).map_err(|why| anyhow!("{why}"))?;
    let namespace = theatre.make_namespace(name).await?;
    let outcome = async {
        let place = Place::new(theatre, &namespace, length_s(&text)).await?;
        let played = scenario::play(script, place).await;
        let (played, place) = played.map_err(|why| anyhow!("{why}"))?;
        let at_the_end = place.told();
        let told = place.tell().await.context("what happened cannot be told")?;
        let wanted = Script::parse(&text).map_err(|why| anyhow!("{why}"))?;
        Ok(compare::compare(&wanted, &played, &at_the_end, &told)?)
    };
    let outcome = outcome.await;
    // The first error is worth more than the one of the cleanup.
    let removed = theatre.remove_namespace(&namespace).await;
    outcome.and(removed)
}
