//! `events.md`: every reason that events, conditions and decisions can have, with an example.

use std::{collections::BTreeSet, fmt::Write as _, fs};

use tidegate_engine::{Fact, Form, GateKind, ManagedObject, Names, Note, Percent, Phase, Tone};

use crate::{
    game_events,
    markdown::{cell, code, repository, table},
};

const INTRO: &str = "\
# Events and reasons

A reason is one word with one meaning. It is the `reason` of events, of the conditions `Ready`, `Reconciling` and `Stalled`, of
`status.lastDecision`, and the label `decision` of `tidegate_decisions_total`. Events come when something happened; the same fact at the
same place in a rollout is told once. They are on the Canary, from the source `tidegate`:

```sh
kubectl get events --field-selector involvedObject.kind=Canary
```

Reasons are stable; sentences are for people and may change. In the examples the canary `web` rolls out the Deployment `web` in
the namespace `shop`. *Status only* marks what is never an event.
";

/// The places in which a fact is published.
#[derive(Clone, Copy)]
enum Told {
    Event,
    Status,
}

/// A fact, its places, and its meaning for the reader.
type Entry = (Fact, Told, &'static str);

pub(crate) fn page() -> String {
    let mut text = INTRO.to_owned();
    for (title, entries) in chapters() {
        let rows: Vec<_> = entries.iter().map(row).collect();
        let rows = table(["Reason", "Type", "Example", "What it means for you"], &rows);
        write!(text, "\n## {title}\n\n{rows}").unwrap();
    }
    text + &game_events::section()
}

fn row((fact, told, meaning): &Entry) -> [String; 4] {
    let names = Names {
        canary: "web.shop".to_owned(),
        target: "web.shop".to_owned(),
        primary: "web-primary.shop".to_owned(),
        form: Form::Replicas,
    };
    let kind = match (told, fact.tone()) {
        (Told::Status, _) => "*status only*",
        (Told::Event, Tone::Normal) => "Normal",
        (Told::Event, Tone::Warning) => "Warning",
    };
    [code(fact.reason()), kind.to_owned(), cell(&fact.text(&names)), (*meaning).to_owned()]
}

fn chapters() -> [(&'static str, Vec<Entry>); 5] {
    [
        ("Setting up", setting_up().into_iter().chain(noted()).collect()),
        ("A rollout", rollout()),
        ("Gates and people", gates()),
        ("The end", ends()),
        ("Deletion", deletion()),
    ]
}

fn setting_up() -> Vec<Entry> {
    use Told::{Event, Status};
    let metrics = "prometheus is not available: connection refused";
    let route = "HTTPRoute shop/web belongs to somebody else";
    vec![
        (Fact::Placed(ManagedObject::Primary), Status, "An object was created or put right"),
        (Fact::BackendsAvailable, Event, "Metrics can be asked for"),
        (
            Fact::BackendsUnavailable(metrics.into()),
            Event,
            "A warning only; a rollout will fail its checks until they answer",
        ),
        (
            Fact::PrimaryNotReady("waiting for 1 of 2 pods".into()),
            Event,
            "Wait; or look at the pods of the primary",
        ),
        (
            Fact::PrimaryStuck("no progress for 600 s".into()),
            Event,
            "Look at the pods of the primary. The target still serves",
        ),
        (Fact::Initialized, Event, "Done. The target was scaled to zero, the primary serves"),
        (Fact::Adopted, Event, "A canary that Flagger left is carried on"),
        (
            Fact::TargetChanged { former: "the Deployment shop".into() },
            Event,
            "`targetRef` names another workload. Delete the primary of the one before, and scale that one, as you see fit",
        ),
        (Fact::Idle, Status, "Nothing to do"),
        (Fact::Suspended, Event, "Set `spec.suspend` to false to go on"),
        (
            Fact::Refused(vec![
                "spec.service: needed to reach the workload; set at least its port".into(),
            ]),
            Event,
            "Change the spec; nothing is done before",
        ),
        (
            Fact::Obstructed(route.into()),
            Event,
            "Something around the workload is in the way; the rollout holds and tries again",
        ),
        (
            Fact::IdleTargetRuns(Some(2)),
            Event,
            "Two full sets of pods run. Remove `replicas` from what re-applies the target",
        ),
    ]
}

/// Settings that may be a mistake, are less safe than they could be, or were corrected on the way.
fn noted() -> Vec<Entry> {
    use Told::Event;
    vec![
        (
            Fact::Noted(Note::WeightsIgnored { iterations: 10 }),
            Event,
            "A part of the spec has no effect here. Told when the canary is set up and with every rollout",
        ),
        (
            Fact::Noted(Note::Unverified(
                "Webhook load has disableTLS: whoever answers in its place is believed, and sees what it is sent."
                    .into(),
            )),
            Event,
            "`disableTLS` or `insecureSkipVerify` is set. Nothing is changed about it; give the server a certificate that is trusted",
        ),
        (
            Fact::Noted(Note::Doubtful(
                "Metric errors has no limit, which counts as a threshold of 0.".into(),
            )),
            Event,
            "A metric may not say what you mean. Nothing is changed about it",
        ),
        (
            Fact::ServiceTakenOver("web".into()),
            Event,
            "How it was before is kept in an annotation; with `revertOnDeletion` it comes back",
        ),
        (
            Fact::ServiceRecreated { service: "web".into(), headless: true },
            Event,
            "`service.headless` was changed, which needs another Service. Clients look its name up anew",
        ),
        (
            Fact::AlertLost { to: "slack".into(), why: "slack answered 404".into() },
            Event,
            "Nobody was told in the chat. Look at the AlertProvider and its Secret",
        ),
    ]
}

fn rollout() -> Vec<Entry> {
    use Told::{Event, Status};
    let percent = Percent::clamped;
    let check = "success rate 94.20% < 99%";
    let silence = "no values found for istio metric request-success-rate, probably web.shop is not receiving traffic";
    vec![
        (Fact::NewRevision, Event, "A rollout starts"),
        (Fact::Restarted, Event, "Traffic went back to the primary, counting starts anew"),
        (Fact::ScaledUpAgain, Event, "Somebody or something scaled the target in mid-rollout"),
        (
            Fact::CanaryNotReady("1 of 2 pods is available".into()),
            Event,
            "Wait; or look at the pods of the target",
        ),
        (Fact::CanaryDown("0 of 2 pods are available".into()), Event, "Counts as a failed check"),
        (Fact::AnalysisStarted, Event, "The pods are ready; checks begin"),
        (Fact::AwaitingInterval, Status, "The next check is less than an interval away"),
        (
            Fact::CheckFailed(check.into()),
            Event,
            "One more failed check; at `analysis.threshold` the rollout goes back",
        ),
        (
            Fact::Ambiguous("errors".into()),
            Event,
            "Which of the results counts is chance: the query should have one. Told once a rollout",
        ),
        (
            Fact::NoData(silence.into()),
            Event,
            "Nothing to measure, mostly no traffic: one more failed check",
        ),
        (
            Fact::AwaitingData(silence.into()),
            Event,
            "The same for metrics with `onNoData: hold`: nothing is counted, and nothing moves until there is data or `progressDeadlineSeconds` are over",
        ),
        (Fact::Mirroring, Event, "Copies of requests go to the canary; answers are dropped"),
        (Fact::Advanced(percent(20)), Event, "Checks passed, more traffic"),
        (
            Fact::Iterated { at: 3, of: 10 },
            Event,
            "A/B testing and blue/green: one more check passed",
        ),
        (Fact::RoutedToCanary { was_mirrored: false }, Event, "Blue/green: every check passed"),
        (
            Fact::RouteLeft,
            Event,
            "The spec names another route, provider or Service in mid-rollout. The new route takes over the share, if it is there",
        ),
        (
            Fact::Drifted { seen: percent(90), now: percent(20) },
            Event,
            "Somebody edited the route; it was put back to what was approved",
        ),
        (Fact::Copying, Event, "The primary gets the new revision"),
        (
            Fact::PrimaryAdvanced(percent(50)),
            Event,
            "Traffic goes back to the primary step by step",
        ),
        (Fact::RoutedToPrimary, Event, "The primary has all traffic"),
    ]
}

fn gates() -> Vec<Entry> {
    use Told::Event;
    let percent = Percent::clamped;
    let passed = |kind| Fact::GatePassed(kind, "approve".to_owned());
    let closed = || "approve has not said yes (answered 403)".to_owned();
    vec![
        (passed(GateKind::ConfirmRollout), Event, "The rollout may start"),
        (passed(GateKind::PreRollout), Event, "Traffic may come"),
        (passed(GateKind::ConfirmTrafficIncrease), Event, "More traffic may come"),
        (passed(GateKind::ConfirmPromotion), Event, "The promotion may start"),
        (passed(GateKind::PostRollout), Event, "A hook was told of the end"),
        (Fact::AwaitingApproval(closed()), Event, "Open the gate"),
        (Fact::AwaitingIncrease(closed()), Event, "Open the gate"),
        (Fact::AwaitingPromotion(closed()), Event, "Open the gate"),
        (
            Fact::PreRolloutFailed { hook: "smoke-test".into(), why: "answered 500".into() },
            Event,
            "A failed check; no traffic came yet",
        ),
        (
            Fact::PostRolloutFailed { hook: "notify".into(), why: "answered 500".into() },
            Event,
            "Changes nothing",
        ),
        (Fact::RollbackAsked("abort".into()), Event, "A rollback hook answered 2xx"),
        (
            Fact::Held(percent(20)),
            Event,
            "Resume when you are ready: [manual steps](../guide/manual-step.md)",
        ),
        (Fact::Resumed(percent(20)), Event, "The rollout goes on by itself"),
        (Fact::HoldRaised(percent(40)), Event, "It goes on to the new weight and holds there"),
        (Fact::NothingToResume, Event, "The resume came when nothing was held"),
        (
            Fact::ResumeStays("not allowed".into()),
            Event,
            "The rollout goes on; remove `spec.manualStep` yourself if this does not end",
        ),
        (Fact::ResumeVoid, Event, "Look at the new revision and resume again"),
    ]
}

fn ends() -> Vec<Entry> {
    use Told::Event;
    let stuck = "no progress for 600 s";
    vec![
        (Fact::Promoted, Event, "The new revision is the primary"),
        (Fact::PromotedUnchecked, Event, "`skipAnalysis` was set"),
        (
            Fact::WentBack(Phase::Progressing),
            Event,
            "The target was put back to what the primary runs",
        ),
        (Fact::ThresholdReached(5), Event, "Too many failed checks"),
        (Fact::DeadlineExceeded(stuck.into()), Event, "`progressDeadlineSeconds` passed"),
        (Fact::RolledBackByHook, Event, "See `RollbackRequested`"),
        (Fact::Failed, Event, "All traffic is on the primary. Push another revision to try again"),
        (
            Fact::RollbackHeld("0 of 2 pods are available".into()),
            Event,
            "**Act:** neither side is well; traffic stays with the one that serves",
        ),
        (
            Fact::PromotionFailed(stuck.into()),
            Event,
            "**Act:** traffic stays on the canary, which works. Push a revision that the primary can run",
        ),
    ]
}

fn deletion() -> Vec<Entry> {
    use Told::{Event, Status};
    vec![
        (Fact::Terminating, Event, "`revertOnDeletion`: the target comes back"),
        (
            Fact::AwaitingTarget("1 of 2 pods is available".into()),
            Status,
            "Services and routes go back once its pods are ready",
        ),
        (Fact::Terminated, Event, "Everything is as it was before the canary"),
        (
            Fact::RevertGivenUp("the target does not become ready".into()),
            Event,
            "**Act:** after three progress deadlines the canary goes; put right what is left",
        ),
    ]
}

#[test]
fn every_fact_has_an_entry() {
    let source = fs::read_to_string(repository("crates/engine/src/fact.rs")).unwrap();
    let body = source.split("pub enum Fact {").nth(1).and_then(|rest| rest.split("\n}").next());
    let is_variant =
        |line: &&str| line.starts_with("    ") && line[4..].starts_with(char::is_uppercase);
    let variants = body.unwrap().lines().filter(is_variant).map(name);
    let listed = chapters().into_iter().flat_map(|(_, entries)| entries);
    let listed: BTreeSet<String> = listed.map(|(fact, ..)| name(&format!("{fact:?}"))).collect();
    assert_eq!(listed, variants.collect(), "a reason without an entry, or an entry without a fact");
}

fn name(text: &str) -> String {
    text.trim().chars().take_while(|it| it.is_alphanumeric()).collect()
}
