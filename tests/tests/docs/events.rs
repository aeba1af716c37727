//! `events.md`: every reason that events, conditions and decisions can have, with an example.

use std::{collections::BTreeSet, fmt::Write as _, fs};

use tidegate_engine::{
    Fact, Form, GateKind, ManagedObject, Names, Note, Percent, Phase, Tone, Unready,
};

use crate::{
    game_events,
    markdown::{cell, code, repository, table},
};

const INTRO: &str = "\
# Events and reasons

A reason is one word with one meaning. It is the `reason` of events, of the conditions `Ready`,
`Reconciling` and `Stalled`, and of `status.lastDecision`. It is also the label `decision` of
`tidegate_decisions_total`. Events are recorded for the Canary, with the source `tidegate`. The same
fact at the same place in a rollout is recorded once.

```sh
kubectl get events --field-selector involvedObject.kind=Canary
```

Reasons are stable; messages are for people and may change. In the examples the canary `web` rolls
out the Deployment `web` in the namespace `shop`. *Status only* marks reasons that are never an
event.
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
        let rows = table(["Reason", "Type", "Example", "Meaning and action"], &rows);
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
        ("Initialization", setting_up().into_iter().chain(noted()).collect()),
        ("Rollout", rollout()),
        ("Gates and manual steps", gates()),
        ("End of a rollout", ends()),
        ("Deletion", deletion()),
    ]
}

fn setting_up() -> Vec<Entry> {
    use Told::{Event, Status};
    let metrics = "prometheus is not available: connection refused";
    let route = "HTTPRoute shop/web belongs to somebody else";
    vec![
        (Fact::Placed(ManagedObject::Primary), Status, "An object was created or corrected"),
        (Fact::BackendsAvailable, Event, "Metric queries work"),
        (
            Fact::BackendsUnavailable(metrics.into()),
            Event,
            "A warning only; checks of a rollout will fail until they answer",
        ),
        (
            Fact::PrimaryNotReady(Unready::new("waiting for 1 of 2 pods", false)),
            Event,
            "Wait, or inspect the pods of the primary",
        ),
        (
            Fact::PrimaryStuck("no progress for 600 s".into()),
            Event,
            "Inspect the pods of the primary. The target still serves",
        ),
        (Fact::Initialized, Event, "Done. The target was scaled to zero, the primary serves"),
        (Fact::Adopted, Event, "A canary of Flagger is continued"),
        (
            Fact::TargetChanged { former: "the Deployment shop".into() },
            Event,
            "`targetRef` names another workload. Delete the primary of the previous one, and scale the previous one, as you see fit",
        ),
        (Fact::Idle, Status, "Nothing to do"),
        (Fact::Suspended, Event, "Set `spec.suspend` to false to continue"),
        (
            Fact::Refused(vec![
                "spec.service: needed to reach the workload; set at least its port".into(),
            ]),
            Event,
            "Correct the spec; nothing is done until then",
        ),
        (
            Fact::Obstructed(route.into()),
            Event,
            "An object outside the workload blocks the rollout, which is retried",
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
            "A part of the spec has no effect here. Recorded when the canary is initialized and with every rollout",
        ),
        (
            Fact::Noted(Note::Unverified(
                "Webhook load has disableTLS: its certificate is not verified, so an impostor can answer it and read its requests."
                    .into(),
            )),
            Event,
            "A warning only: `disableTLS` or `insecureSkipVerify` is set. Give the server a trusted certificate",
        ),
        (
            Fact::Noted(Note::Doubtful(
                "Metric errors has no limit, which counts as a threshold of 0.".into(),
            )),
            Event,
            "A warning only: a metric is probably a mistake",
        ),
        (
            Fact::ServiceTakenOver("web".into()),
            Event,
            "The original is kept in an annotation, and restored with `revertOnDeletion`",
        ),
        (
            Fact::ServiceRecreated { service: "web".into(), headless: true },
            Event,
            "`service.headless` was changed, which needs a new Service. Clients resolve its name again",
        ),
        (
            Fact::PolicyDoubtful("TG013: spec.analysis.stepWeight: 101 is one step of 100".into()),
            Event,
            "A warning only: the policy runs as with Flagger, and probably not as it is meant. The condition `PolicySound` has the same text; see [policy findings](policy-findings.md)",
        ),
        (
            Fact::AlertLost { to: "slack".into(), why: "slack answered 404".into() },
            Event,
            "The alert did not reach the chat. Check the AlertProvider and its Secret",
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
        (Fact::Restarted, Event, "Traffic is on the primary again, and counters start at zero"),
        (Fact::ScaledUpAgain, Event, "The target was scaled by another client during the rollout"),
        (
            Fact::CanaryNotReady(Unready {
                cause: Some("container `app` exits with code 1 (CrashLoopBackOff)".into()),
                ..Unready::new("0 of 2 updated replicas are available", false)
            }),
            Event,
            "Wait, or inspect the pods of the target",
        ),
        (Fact::CanaryDown("0 of 2 pods are available".into()), Event, "Counts as a failed check"),
        (Fact::AnalysisStarted, Event, "The pods are ready; checks start"),
        (Fact::AwaitingInterval, Status, "The next check is less than an interval away"),
        (
            Fact::CheckFailed(check.into()),
            Event,
            "One more failed check; at `analysis.threshold` the rollout is rolled back",
        ),
        (
            Fact::Ambiguous("errors".into()),
            Event,
            "The query should return one result; which of several counts is arbitrary. Recorded once per rollout",
        ),
        (
            Fact::SecretNotLabelled(
                tidegate_providers::consent::Consent::of("shop", "login", &serde_json::Value::Null)
                    .warning("datadog", "api.datadoghq.com")
                    .unwrap_or_default(),
            ),
            Event,
            "A warning only, unless `--require-metric-secret-label` is set. Recorded once for each generation of the canary",
        ),
        (
            Fact::NoData(silence.into()),
            Event,
            "No data, usually because there is no traffic: one more failed check",
        ),
        (
            Fact::AwaitingData(silence.into()),
            Event,
            "The same for metrics with `onNoData: hold`: the check does not count, and the weight does not change until there is data or `progressDeadlineSeconds` have passed",
        ),
        (Fact::Mirroring, Event, "Copies of requests go to the canary; its answers are dropped"),
        (Fact::Advanced(percent(20)), Event, "Checks passed, more traffic"),
        (
            Fact::Iterated { at: 3, of: 10 },
            Event,
            "A/B testing and blue/green: one more check passed",
        ),
        (Fact::RoutedToCanary { was_mirrored: false }, Event, "Blue/green: every check passed"),
        (
            Fact::PreviousRouteRetired,
            Event,
            "The spec names another route, provider or Service during a rollout. The new route takes over the weight, if it exists",
        ),
        (
            Fact::Drifted { seen: percent(90), now: percent(20) },
            Event,
            "The route was edited by another client, and reverted to the approved weight",
        ),
        (Fact::Copying, Event, "The new revision is copied to the primary"),
        (Fact::PrimaryAdvanced(percent(50)), Event, "Traffic returns to the primary in steps"),
        (Fact::RoutedToPrimary, Event, "The primary has all traffic"),
    ]
}

fn gates() -> Vec<Entry> {
    use Told::Event;
    let percent = Percent::clamped;
    let passed = |kind| Fact::GatePassed(kind, "approve".to_owned());
    let closed = || "approve has not passed (answered 403)".to_owned();
    vec![
        (passed(GateKind::ConfirmRollout), Event, "The rollout may start"),
        (passed(GateKind::PreRollout), Event, "Traffic may start"),
        (passed(GateKind::ConfirmTrafficIncrease), Event, "The weight may increase"),
        (passed(GateKind::ConfirmPromotion), Event, "The promotion may start"),
        (passed(GateKind::PostRollout), Event, "A hook was called after the end"),
        (Fact::AwaitingApproval(closed()), Event, "Open the gate"),
        (Fact::AwaitingIncrease(closed()), Event, "Open the gate"),
        (Fact::AwaitingPromotion(closed()), Event, "Open the gate"),
        (
            Fact::PreRolloutFailed { hook: "smoke-test".into(), why: "answered 500".into() },
            Event,
            "A failed check; there was no traffic yet",
        ),
        (
            Fact::PostRolloutFailed { hook: "notify".into(), why: "answered 500".into() },
            Event,
            "The result of the rollout does not change",
        ),
        (Fact::RollbackRequested("abort".into()), Event, "A rollback hook answered 2xx"),
        (
            Fact::Held(percent(20)),
            Event,
            "Resume when you are ready: [manual steps](../guide/manual-step.md)",
        ),
        (Fact::Resumed(percent(20)), Event, "The rollout continues"),
        (Fact::HoldRaised(percent(40)), Event, "It advances to the new weight and is held there"),
        (Fact::NothingToResume, Event, "There was no pause to resume"),
        (
            Fact::ResumeStays("not allowed".into()),
            Event,
            "The rollout continues; remove `spec.manualStep` yourself if the event is repeated",
        ),
        (Fact::ResumeVoid, Event, "Inspect the new revision and resume again"),
    ]
}

fn ends() -> Vec<Entry> {
    use Told::Event;
    let stuck = "no progress for 600 s";
    vec![
        (Fact::Promoted, Event, "The new revision is the primary"),
        (Fact::PromotedUnchecked, Event, "`skipAnalysis` was set"),
        (
            Fact::Reverted(Phase::Progressing),
            Event,
            "The target was changed back to the revision of the primary",
        ),
        (Fact::ThresholdReached(5), Event, "Too many failed checks"),
        (Fact::DeadlineExceeded(stuck.into()), Event, "`progressDeadlineSeconds` passed"),
        (Fact::RolledBackByHook, Event, "See `RollbackRequested`"),
        (Fact::Failed, Event, "All traffic is on the primary. Push another revision to try again"),
        (
            Fact::RollbackHeld("0 of 2 pods are available".into()),
            Event,
            "**Act:** neither side is healthy; traffic stays with the one that serves",
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
        (Fact::Terminating, Event, "`revertOnDeletion`: the target is scaled up again"),
        (
            Fact::AwaitingTarget("1 of 2 pods is available".into()),
            Status,
            "Services and routes are restored once its pods are ready",
        ),
        (Fact::Terminated, Event, "The objects are restored to their state before the canary"),
        (
            Fact::RevertGivenUp("the target does not become ready".into()),
            Event,
            "**Act:** after three progress deadlines the canary is deleted; correct the remaining objects",
        ),
        (
            Fact::TargetLeftAtZero("kubectl scale deployment web -n shop --replicas=2".into()),
            Event,
            "**Act:** without `revertOnDeletion`, the pods of the primary are deleted with the canary. Recorded for the target, within a second of the deletion; not if the operator was down then",
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
