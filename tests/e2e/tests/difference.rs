//! Flagger 1.44 and Tidegate, side by side: a difference that is on no page fails.

#![expect(clippy::print_stdout, reason = "all of this file is tests")]

use std::{collections::BTreeSet, path::Path, time::Duration};

use anyhow::ensure;
use futures::StreamExt as _;
use tidegate_e2e::{
    difference::{ACCEPTED, Difference, Ground, Row, Scenario, all},
    inside_for,
};

/// Pairs at a time, or `E2E_AT_ONCE`: each has two operators, which mostly wait for the next interval.
const AT_ONCE: usize = 25;
const AT_ONCE_AGAIN: usize = 3;
const PATIENCE: Duration = Duration::from_mins(50);
/// With more scenarios to repeat than one in so many, and two, there is a defect.
const REPLAYED_OF: usize = 10;

fn number(name: &str) -> Option<usize> {
    std::env::var(name).ok().and_then(|it| it.parse().ok())
}

/// All scenarios, or those whose names contain `E2E_SCRIPT`. With `CI=true` every fifth of them, from the
/// first on or that of `E2E_FROM`.
fn chosen() -> Vec<Scenario> {
    let wanted = std::env::var("E2E_SCRIPT").unwrap_or_default();
    let is_ci = std::env::var("CI").is_ok_and(|it| it == "true");
    let every = if is_ci { 5 } else { 1 };
    let from = if is_ci { number("E2E_FROM").unwrap_or(0) % every } else { 0 };
    let scenarios = all().into_iter().filter(|it| it.name.contains(&wanted));
    scenarios.skip(from).step_by(every).collect()
}

fn unexplained(differences: &[Difference]) -> Vec<&Difference> {
    differences.iter().filter(|it| !ACCEPTED.iter().any(|row| row.explains(it))).collect()
}

/// Plays scenarios; those with unexplained differences are returned by name, with all differences.
async fn play(
    ground: &Ground,
    round: usize,
    at_once: usize,
    scenarios: &[Scenario],
) -> (Vec<Difference>, BTreeSet<&'static str>) {
    let one = async |(index, scenario): (usize, &Scenario)| {
        let differences = ground.play(scenario, &format!("{round}x{index}")).await;
        (scenario.name, differences)
    };
    let played = futures::stream::iter(scenarios.iter().enumerate()).map(one);
    let mut played = std::pin::pin!(played.buffer_unordered(at_once).enumerate());
    let (mut all, mut differing) = (Vec::new(), BTreeSet::new());
    while let Some((before, (name, differences))) = played.next().await {
        println!("so far: {} of {} scenarios", before + 1, scenarios.len());
        for difference in unexplained(&differences) {
            println!("{difference}");
            differing.insert(name);
        }
        all.extend(differences);
    }
    (all, differing)
}

#[test]
fn differences_from_flagger_are_on_the_page() {
    inside_for(PATIENCE, "differences_from_flagger_are_on_the_page", async || {
        let mut scenarios = chosen();
        let (total, is_all) = (scenarios.len(), scenarios.len() == all().len());
        ensure!(total > 0, "no scenario is called so");
        let ground = Ground::open().await?;
        let at_once = number("E2E_AT_ONCE").unwrap_or(AT_ONCE);
        let (mut found, differing) = play(&ground, 0, at_once, &scenarios).await;
        // An interval that comes late on a busy machine changes a history; a difference comes again.
        let again = differing.len();
        ensure!(again <= total / REPLAYED_OF + 2, "{again} scenarios differ: {differing:?}");
        scenarios.retain(|it| differing.contains(it.name));
        let (later, differing) = play(&ground, 1, AT_ONCE_AGAIN, &scenarios).await;
        ensure!(differing.is_empty(), "these differ: {differing:?}");
        found.extend(later);
        if std::env::var_os("TIDEGATE_DIFFERENCE_ROWS").is_some() {
            for difference in &found {
                println!("{difference}");
            }
        }
        if is_all {
            let is_unused = |row: &&Row| !found.iter().any(|it| row.explains(it));
            let unused: Vec<_> =
                ACCEPTED.iter().filter(is_unused).map(|row| (row.path, row.page)).collect();
            ensure!(unused.is_empty(), "rows that explain nothing: {unused:?}");
        }
        println!(
            "{total} scenarios, {again} of them played twice; {} differences, all on the page",
            found.len()
        );
        Ok(())
    });
}

/// Each accepted difference belongs to a row of the page, which has it in its first column.
#[test]
fn accepted_differences_are_rows_of_the_page() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = root.join("docs/reference/differences-from-flagger.md");
    let page = std::fs::read_to_string(page).unwrap();
    let subjects: BTreeSet<_> =
        page.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next()).collect();
    let missing: Vec<_> = ACCEPTED.iter().filter(|row| !subjects.contains(row.page)).collect();
    let missing: BTreeSet<_> = missing.iter().map(|row| row.page).collect();
    assert!(missing.is_empty(), "not on the page: {missing:#?}");
}

#[test]
fn scenarios_have_names_of_their_own_and_are_enough() {
    let names: BTreeSet<_> = all().iter().map(|it| it.name).collect();
    assert_eq!(names.len(), all().len());
    assert!(names.len() >= 60, "{} scenarios", names.len());
}
