//! Dashboards and alert rules against the metrics of the operator: each expression is evaluated by a
//! Prometheus that has scraped it.

use std::{collections::BTreeSet, fs, time::Duration};

use jiff::Timestamp;
use promql::{Database, Labels, Query, Value as Answer};
use serde_json::Value;
use tidegate_api::canary::CanaryPhase;
use tidegate_operator::telemetry::{
    Analysis, Format, Outcome, Strategy, Target, Telemetry, Verdict,
};
use tidegate_providers::workload::SERVICE;

use crate::markdown::repository;

const NOW_MS: i64 = 1_767_225_600_000;
const MINUTE_MS: i64 = 60_000;

/// The history of the operator.
#[derive(Clone, Copy)]
enum Day {
    /// Without failures.
    Good,
    /// Nothing but failures.
    Bad,
    /// Without failures, but for one of each kind.
    One,
}

/// The time of that failure, in minutes before now.
const ONCE_MIN: i64 = 10;

/// Adds one minute of such a history.
fn live(telemetry: &Telemetry, day: Day) {
    let target = Target::new("shop", "web");
    telemetry.expect(&target, Strategy::Canary);
    let moment = Duration::from_millis(20);
    telemetry.set_total("shop", 1);
    telemetry.set_weight(&target, 90, 10);
    telemetry.observe_duration(&target, moment);
    telemetry.set_metric(&target, "request-success-rate", 99.9);
    telemetry.count_decision("Idle");
    telemetry.count_reconcile("ok", moment);
    telemetry.count_hook("rollout", Outcome::Success);
    // A closed gate is no reason for an alert.
    telemetry.count_hook("confirm-promotion", Outcome::Refused);
    telemetry.count_query("prometheus", Outcome::Success, moment);
    telemetry.count_query("datadog", Outcome::Error("no_value"), moment);
    telemetry.count_alert("slack", Outcome::Success);
    telemetry.count_check(&target, Verdict::Passed);
    telemetry.count_success(&target, Strategy::Canary, Analysis::Completed);
    telemetry.set_queue(1);
    match day {
        Day::Good | Day::One => {
            telemetry.set_status(&target, CanaryPhase::Succeeded);
            telemetry.set_leader(true);
            telemetry.set_watch_silent(SERVICE, false);
        }
        Day::Bad => {
            telemetry.set_status(&target, CanaryPhase::Failed);
            telemetry.set_status(&Target::new("shop", "cart"), CanaryPhase::WaitingPromotion);
            telemetry.set_status(&Target::new("shop", "search"), CanaryPhase::Progressing);
            telemetry.set_leader(false);
            telemetry.set_watch_silent(SERVICE, true);
            telemetry.count_rewind();
            telemetry.count_failure(&target, Strategy::Canary, Analysis::Completed);
            telemetry.count_panic();
            telemetry.count_alert_retry("slack");
            telemetry.count_alert("slack", Outcome::Error("timeout"));
            telemetry.count_check(&target, Verdict::NoData);
            for _ in 0..2 {
                telemetry.count_reconcile("error", moment);
                telemetry.count_hook("rollout", Outcome::Error("connect"));
                telemetry.count_query("prometheus", Outcome::Error("timeout"), moment);
            }
        }
    }
}

/// The failure of each kind.
fn stumble(telemetry: &Telemetry) {
    let target = Target::new("shop", "web");
    telemetry.count_failure(&target, Strategy::Canary, Analysis::Completed);
    telemetry.count_panic();
    telemetry.count_alert("discord", Outcome::Error("timeout"));
}

/// A Prometheus that has scraped the operator every minute for an hour of such a history.
fn scraped(day: Day) -> Database {
    let telemetry = Telemetry::new("1.0.0", "istio", Timestamp::UNIX_EPOCH);
    let database = Database::new();
    for minute in (0..60).rev() {
        live(&telemetry, day);
        if matches!(day, Day::One) && minute == ONCE_MIN {
            stumble(&telemetry);
        }
        let page = telemetry.render(Format::Prometheus);
        for line in page.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let at = NOW_MS - minute * MINUTE_MS;
            database.append(&labels(series), at, value.parse().unwrap()).unwrap();
        }
    }
    database
}

/// `name{a="b",c="d"}`. No value here has a quote in it.
fn labels(series: &str) -> Labels {
    let (name, inside) = series.split_once('{').unwrap_or((series, ""));
    let pairs = inside.trim_end_matches('}').split("\",").filter_map(|it| it.split_once("=\""));
    let pairs: Vec<(&str, &str)> =
        pairs.map(|(name, value)| (name, value.trim_end_matches('"'))).collect();
    Labels::of(name, &pairs)
}

/// How many series an expression has.
fn count(database: &Database, expression: &str) -> Result<usize, String> {
    match Query::new(expression).instant(database, NOW_MS) {
        Ok(Answer::Vector(samples)) => Ok(samples.len()),
        Ok(other) => Err(format!("{other:?} where a vector is wanted")),
        Err(error) => Err(error.to_string()),
    }
}

fn boards() -> Vec<(String, Value)> {
    let folder = fs::read_dir(repository("deploy/grafana")).unwrap();
    let paths = folder.map(|entry| entry.unwrap().path());
    let boards = paths.filter(|path| path.extension().is_some_and(|it| it == "json"));
    boards
        .map(|path| {
            let board = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
            (path.file_name().unwrap().to_string_lossy().into_owned(), board)
        })
        .collect()
}

fn rules() -> Vec<Value> {
    let text = fs::read_to_string(repository("deploy/prometheus/rules.yaml")).unwrap();
    let file: Value = serde_saphyr::from_str(&text).unwrap();
    let groups = file["groups"].as_array().unwrap().clone();
    groups.iter().flat_map(|group| group["rules"].as_array().unwrap().clone()).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}

/// An expression as Grafana sends it with all values selected.
fn filled(expression: &str) -> String {
    let filled = expression.replace("$__rate_interval", "5m");
    filled.replace("$namespace", ".*").replace("$name", ".*")
}

#[test]
fn every_panel_shows_something_of_a_bad_day() {
    let database = scraped(Day::Bad);
    let mut problems = Vec::new();
    let mut expressions = 0;
    for (name, board) in boards() {
        for panel in board["panels"].as_array().unwrap() {
            for target in panel["targets"].as_array().unwrap() {
                expressions += 1;
                let found = count(&database, &filled(text(&target["expr"])));
                if !matches!(found, Ok(1..)) {
                    problems.push(format!("{name}, {}: {found:?}: {target:#}", panel["title"]));
                }
            }
        }
    }
    assert!(expressions > 20 && problems.is_empty(), "{problems:#?}");
}

#[test]
fn boards_are_complete_and_do_not_overlap() {
    let boards = boards();
    assert_eq!(boards.len(), 2);
    for (name, board) in &boards {
        assert!(text(&board["uid"]).starts_with("tidegate-"), "{name}");
        let (mut ids, mut cells) = (BTreeSet::new(), BTreeSet::new());
        for panel in board["panels"].as_array().unwrap() {
            assert!(ids.insert(panel["id"].as_u64()), "{name}: the id of {}", panel["title"]);
            assert_ne!(text(&panel["description"]), "", "{name}: {}", panel["title"]);
            assert_eq!(panel["datasource"]["uid"], "${datasource}", "{name}");
            let at = |field: &str| panel["gridPos"][field].as_u64().unwrap();
            assert!(at("x") + at("w") <= 24, "{name}: {} is too wide", panel["title"]);
            for x in at("x")..at("x") + at("w") {
                for y in at("y")..at("y") + at("h") {
                    assert!(cells.insert((x, y)), "{name}: {} overlaps", panel["title"]);
                }
            }
        }
    }
}

#[test]
fn every_series_of_ours_is_on_a_board() {
    let telemetry = Telemetry::new("1.0.0", "istio", Timestamp::UNIX_EPOCH);
    live(&telemetry, Day::Bad);
    let page = telemetry.render(Format::Prometheus);
    let all = boards().iter().map(|(_, board)| board.to_string()).collect::<String>();
    let named = page.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    for name in named.filter_map(|line| line.split(' ').next()) {
        let is_ours = name.starts_with("tidegate_") || name.starts_with("flagger_");
        assert!(!is_ours || all.contains(name), "{name} is on no board");
    }
}

#[test]
fn rules_are_silent_on_a_good_day_and_raised_on_a_bad_one() {
    let (good, bad) = (scraped(Day::Good), scraped(Day::Bad));
    let rules = rules();
    assert!(rules.len() >= 10);
    for rule in &rules {
        let (name, expression) = (text(&rule["alert"]), text(&rule["expr"]));
        assert_eq!(count(&good, expression), Ok(0), "{name} is raised for nothing");
        assert!(matches!(count(&bad, expression), Ok(1..)), "{name} is never raised");
    }
    // An operator that is not there is not scraped.
    let leader = rules.iter().find(|rule| rule["alert"] == "TidegateNoLeader").unwrap();
    assert_eq!(count(&Database::new(), text(&leader["expr"])), Ok(1));
}

#[test]
fn what_goes_wrong_once_is_told_and_shown() {
    let database = scraped(Day::One);
    for rule in rules() {
        let (name, expression) = (text(&rule["alert"]), text(&rule["expr"]));
        let is_told = ["TidegateAlertsLost", "TidegatePanicked"].contains(&name);
        assert_eq!(count(&database, expression), Ok(is_told.into()), "{name}");
    }
    let mut shown = BTreeSet::new();
    for (_, board) in boards() {
        for panel in board["panels"].as_array().unwrap() {
            let title = text(&panel["title"]);
            if ["Alerts lost in an hour", "Taken back in a day"].contains(&title) {
                let expression = filled(text(&panel["targets"][0]["expr"]));
                let Ok(Answer::Vector(samples)) =
                    Query::new(&expression).instant(&database, NOW_MS)
                else {
                    panic!("{title}: {expression}")
                };
                assert!(samples.iter().any(|sample| sample.value > 0.5), "{title}: {samples:?}");
                shown.insert(title.to_owned());
            }
        }
    }
    assert_eq!(shown.len(), 2, "{shown:?}");
}

#[test]
fn rules_say_what_is_the_matter() {
    let mut names = BTreeSet::new();
    for rule in rules() {
        let name = text(&rule["alert"]).to_owned();
        assert!(["info", "warning", "critical"].contains(&text(&rule["labels"]["severity"])));
        for field in ["summary", "description"] {
            assert!(text(&rule["annotations"][field]).ends_with('.'), "{name}: {field}");
        }
        assert!(names.insert(name.clone()), "{name} is there twice");
    }
}
