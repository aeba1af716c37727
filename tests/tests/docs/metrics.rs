//! `metrics.md`: the operator's metrics, from an operator on which everything happened once.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use tidegate_api::canary::CanaryPhase;
use tidegate_operator::telemetry::{
    Analysis, Format, GameKind, GameSeries, GameWorkload, HookRun, Outcome, PodWork, Replicas,
    Strategy, Target, Telemetry, Verdict,
};
use tidegate_providers::workload::SERVICE;

use crate::markdown::{cell, code, table};

const INTRO: &str = "\
# Metrics of the operator

The operator serves its metrics on `/metrics` of `--port` (8080), in the text format of Prometheus
or OpenMetrics, as the scraper requests.
";

const FLAGGER: &str = "
## Flagger's

Names, labels and values are Flagger's, so existing dashboards and alerts go on working. `name` is
the name of the **target**, not of the canary. The series of a canary are removed when it is
deleted.
";

const OWN: &str = "
## Tidegate's

The labels have these values:

| Label | Values |
| --- | --- |
| `decision` | a reason of [the list of events](events.md) |
| `outcome` | `success`, `refused` (a negative answer), or the kind of error: `timeout`, `connect` and so on |
| `verdict` | `passed`, `failed`, `no_data` (nothing to measure, a failed check) or `held` (the same with `onNoData: hold`, which is not counted) |
";

const GAME: &str = "
## Of game workloads

Names and labels are those of the original operators of these kinds.

| Label | Value |
| --- | --- |
| `gd` | `namespace/name` of a GameDeployment |
| `owner` | the workload that a HookRun belongs to |
| `grace` | `true` if a hook runs before |

Durations are those of requests to the API server. The exceptions are
`bkbcs_hook_metric_exec_duration_seconds` and `bkbcs_hook_hookrun_exec_duration_seconds`, which are
durations of the measured service. Series are removed with their workload or HookRun.
";

const MORE: &str = "
The usual `process_*` series are served too.

## Examples

Rollouts that failed in the last day, and canaries that wait for a person:

```text
sum by (namespace, name) (increase(flagger_canary_failures_total[1d]))
tidegate_canary_phase{phase=~\"Waiting|WaitingPromotion\"} == 1
```

Grafana dashboards are in `deploy/grafana`, alert rules for Prometheus in `deploy/prometheus`.
[Watch a rollout](../guide/watch.md#dashboards-and-alerts-for-prometheus) explains how to install
them.
";

pub(crate) fn page() -> String {
    let series = series(&rendered());
    let of = |prefix: &str| {
        let ours = series.iter().filter(|row| row[0].starts_with(&format!("`{prefix}")));
        table(["Name", "Type", "Labels", "Meaning"], &ours.cloned().collect::<Vec<_>>())
    };
    let [flagger, own, game] = ["flagger_", "tidegate_", "bkbcs_"].map(of);
    format!("{INTRO}{FLAGGER}\n{flagger}{OWN}\n{own}{GAME}\n{game}{MORE}")
}

/// The metrics of an operator that has done everything once: only then all labels are there.
fn rendered() -> String {
    let telemetry = Telemetry::new("1.0.0", "istio", Timestamp::UNIX_EPOCH);
    let target = Target::new("shop", "web");
    let moment = Duration::from_millis(20);
    telemetry.set_total("shop", 1);
    telemetry.set_status(&target, CanaryPhase::Progressing);
    telemetry.set_weight(&target, 90, 10);
    telemetry.observe_duration(&target, moment);
    telemetry.set_metric(&target, "request-success-rate", 99.9);
    telemetry.count_success(&target, Strategy::Canary, Analysis::Completed);
    telemetry.count_failure(&target, Strategy::Canary, Analysis::Completed);
    telemetry.count_reconcile("ok", moment);
    telemetry.count_decision("Idle");
    telemetry.count_hook("rollout", Outcome::Success);
    telemetry.count_query("prometheus", Outcome::Success, moment);
    telemetry.count_alert("slack", Outcome::Success);
    telemetry.count_alert_retry("slack");
    telemetry.count_check(&target, Verdict::Passed);
    telemetry.count_panic();
    telemetry.set_queue(1);
    telemetry.set_leader(true);
    telemetry.set_watch_silent(SERVICE, false);
    telemetry.count_rewind();
    play_games(&telemetry.game);
    telemetry.render(Format::Prometheus)
}

fn play_games(series: &GameSeries) {
    let moment = Duration::from_millis(20);
    for kind in [GameKind::Deployment, GameKind::StatefulSet] {
        let who = GameWorkload { kind, namespace: "shop", name: "lobby" };
        series.observe_look(who, true, moment);
        for work in [PodWork::Create, PodWork::UpdateInPlace, PodWork::Delete] {
            series.observe_pod(who, work, true, true, moment);
        }
        series.set_replicas(who, Replicas::default());
        series.observe_run_made(who, "canary-step", true, moment);
    }
    let run = HookRun { namespace: "shop", owner: "lobby", name: "lobby-1", uid: "1" };
    series.observe_run_look(run, true, moment);
    series.observe_run(run, true, moment);
    series.observe_measurement(run, "age", "Successful", moment);
    series.set_survived(run, "Successful", moment);
}

/// Name, type, labels and meaning of every series, in the order of the page.
fn series(page: &str) -> Vec<[String; 4]> {
    let mut helps: Vec<(String, String)> = Vec::new();
    let mut kinds = BTreeMap::new();
    let mut labels: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in page.lines() {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some("HELP"), Some(name), Some(help)) => {
                helps.push((name.to_owned(), help.trim_end_matches('.').to_owned()));
            }
            (Some("#"), Some("TYPE"), Some(name), Some(kind)) => {
                kinds.insert(name.to_owned(), kind.to_owned());
            }
            _ => {
                let (name, inside) = line.split_once('{').unwrap_or((line, ""));
                let names = inside.split("\",").filter_map(|pair| pair.split_once('='));
                let names = names.map(|(name, _)| name.to_owned()).filter(|name| name != "le");
                labels
                    .insert(name.split(' ').next().unwrap_or_default().to_owned(), names.collect());
            }
        }
    }
    helps
        .into_iter()
        .map(|(name, help)| {
            let samples = [name.clone(), format!("{name}_count")];
            let found = samples.iter().find_map(|sample| labels.get(sample));
            let found = found.unwrap_or_else(|| panic!("nothing was counted in {name}"));
            let found: Vec<String> = found.iter().map(|label| code(label)).collect();
            [code(&name), kinds[&name].clone(), found.join(", "), cell(&help)]
        })
        .collect()
}
