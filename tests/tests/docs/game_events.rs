//! The part of `events.md` about game workloads.

use std::{collections::BTreeSet, fmt::Write as _, fs};

use tidegate_engine::{
    Moment, Revision, Tone,
    game::{
        Command as Verb, ConditionKind, Fact, HookKind, HookPhase, PauseReason, Refusal, ResumeBy,
        UpdateWay,
    },
};

use crate::markdown::{cell, code, repository, table};

const INTRO: &str = "
## Game workloads

These are the events of GameDeployments, GameStatefulSets and HookRuns. `status.message` has the
message of the current state. *Status only* marks reasons that appear there, in conditions and in
`tidegate_decisions_total`. In the examples the workload is `arena`.
";

/// Events of the operator's own actions: reason, type, meaning, and the file that sends it.
const OF_ACTS: [(&str, &str, &str, &str); 14] = [
    ("SuccessfulCreate", "Normal", "A pod was created", "act/writer"),
    ("SuccessfulDelete", "Normal", "A pod was deleted; the message has the reason", "act/writer"),
    ("SuccessfulForceDelete", "Normal", "A pod was deleted from a lost node", "act/writer"),
    (
        "SuccessfulUpdatePodReCreate",
        "Normal",
        "A pod was deleted to be replaced by a new one",
        "act/writer",
    ),
    ("SuccessfulUpdatePodInPlace", "Normal", "A pod is updated in place", "act/writer"),
    ("SuccessfulUpdatePodHotPatch", "Normal", "A pod is updated while it serves", "act/writer"),
    (
        "FailedCreate",
        "Warning",
        "The cluster refused to create a pod, for example by a quota or a policy",
        "act",
    ),
    ("FailedDelete", "Warning", "The cluster refused to delete a pod", "act"),
    ("FailedUpdatePodReCreate", "Warning", "The same, for a pod to be replaced", "act"),
    ("FailedUpdatePodInPlace", "Warning", "The cluster refused to update a pod in place", "act"),
    ("FailedUpdatePodHotPatch", "Warning", "The same, for a hot patch", "act"),
    ("FailedUpdate", "Warning", "The cluster refused another write, which is retried", "act"),
    (
        "MetricDoubtful",
        "Warning",
        "On a HookRun: a metric continues until it fails or the run is ended",
        "hook_run",
    ),
    (
        "Complete",
        "Normal",
        "On a HookRun: it or one of its metrics ended; `Failed`, a Warning, if it did not pass",
        "told",
    ),
];

/// A fact, whether it is an event, and its meaning for the reader.
type Entry = (Fact, bool, &'static str);

pub(crate) fn section() -> String {
    let mut text = INTRO.to_owned();
    for (title, entries) in
        [("Releases", release()), ("Manual control", people()), ("Pods", pods())]
    {
        let rows: Vec<_> = entries.iter().map(row).collect();
        let rows = table(["Reason", "Type", "Example", "Meaning and action"], &rows);
        write!(text, "\n### {title}\n\n{rows}").unwrap();
    }
    let rows = OF_ACTS
        .map(|(reason, kind, meaning, _)| [code(reason), kind.to_owned(), meaning.to_owned()]);
    let rows = table(["Reason", "Type", "Meaning"], &rows);
    write!(text, "\n### Single pods and HookRuns\n\n{rows}").unwrap();
    text
}

fn row((fact, is_event, meaning): &Entry) -> [String; 4] {
    let kind = match (is_event, fact.tone()) {
        (false, _) => "*status only*",
        (true, Tone::Normal) => "Normal",
        (true, Tone::Warning) => "Warning",
    };
    [code(fact.reason()), kind.to_owned(), cell(&fact.text()), (*meaning).to_owned()]
}

fn revision() -> Revision {
    Revision::new("arena-9d78dd5db")
}

fn run() -> String {
    "arena-9d78dd5db-4-test".to_owned()
}

fn release() -> Vec<Entry> {
    let failed =
        Fact::HookFailed { run: run(), phase: Some(HookPhase::Failed), is_terminated: false };
    let partition = "Step 2 keeps 3 pods as they are, step 0 only 2: it updates none.";
    let template = "The predelete hook is invalid: there is no hook template drained.";
    let rival = "GameDeployment lobby is older and selects the same pods";
    vec![
        (Fact::AtRest, false, "Nothing to do"),
        (Fact::BeingDeleted, false, "Its pods are deleted with it"),
        (
            Fact::Refused(vec![rival.to_owned()]),
            true,
            "Nothing is done until that is corrected. Also the condition `FailedUpdate`",
        ),
        (
            Fact::NewRevision(revision()),
            true,
            "The template changed; the release starts with the first step",
        ),
        (Fact::Reverted(revision()), true, "The template is the stable one again: no steps"),
        (Fact::StepsChanged, true, "The steps were edited"),
        (Fact::StepDoubtful(partition.to_owned()), true, "A step is probably a mistake"),
        (
            Fact::SpecDoubtful(template.to_owned()),
            true,
            "Another part of the spec is probably a mistake",
        ),
        (
            Fact::StepSet(3),
            true,
            "The index of the current step; the number of steps means that all are done",
        ),
        (Fact::Paused(PauseReason::Step), true, "See `status.pauseConditions`"),
        (Fact::AwaitingTime(Moment(0)), false, "A timed pause; a resume ends it early"),
        (Fact::AwaitingHook(run()), false, "Inspect the HookRun"),
        (failed, true, "The release pauses, or is rolled back with `onFailure: rollback`"),
        (
            Fact::HookBlocked("there is no hook template test".to_owned()),
            true,
            "Correct it within ten minutes, or the release pauses",
        ),
        (
            Fact::ArgumentsDropped(vec!["room".to_owned()]),
            true,
            "An argument that the HookTemplate does not declare is dropped",
        ),
        (Fact::Promoted(revision()), true, "This revision is now the stable one"),
        (Fact::RollsBack(revision()), true, "`onFailure: rollback`"),
        (Fact::AwaitingPods { available: 1, wanted: 2 }, false, "Inspect pods that are not ready"),
        (
            Fact::OldPodsKept(3),
            false,
            "`OnDelete`: delete pods when you want them to run the template",
        ),
    ]
}

fn people() -> Vec<Entry> {
    vec![
        (
            Fact::AwaitingPerson(PauseReason::Hook, ResumeBy::Field),
            false,
            "Resume, roll back, or run the hook again",
        ),
        (
            Fact::ResumeIgnored,
            true,
            "`resumeBy: Annotation`: use `tidegate.dev/ask` instead. The usual cause is a tool that applies a manifest",
        ),
        (Fact::Obeyed(Verb::Resume), true, "The request of `tidegate.dev/ask` was carried out"),
        (Fact::NothingTo(Verb::Abort), true, "The request did not apply"),
        (
            Fact::AskedTooLate(Verb::SkipAll),
            true,
            "The request was for another revision; ask again",
        ),
        (Fact::UnknownVerb("reusme".to_owned()), true, "The annotation was removed; ask again"),
        (Fact::HooksRetried(HookKind::PreDelete), true, "`retry` was set"),
    ]
}

fn pods() -> Vec<Entry> {
    let pod = || "arena-k7xq2".to_owned();
    let not_in_place =
        |way| Fact::NotInPlace { pod: pod(), way, path: "spec.containers[0].env".to_owned() };
    let range = "annotation tkex.bkbcs.tencent.com/gamedeployment-index-range must be like {\"podStartIndex\":0,\"podEndIndex\":100}";
    let refusal = Refusal {
        kind: ConditionKind::FailedScale,
        message: "Pod shop/arena-* was refused: exceeded quota".to_owned(),
    };
    vec![
        (Fact::Scaling { created: 2, deleted: 0 }, false, "Wait"),
        (
            Fact::NoIndex { replicas: 5, indexes: 4 },
            true,
            "Widen the range of indexes, or lower `replicas`. Condition `FailedScale`",
        ),
        (Fact::IndexesUnreadable(range.to_owned()), true, "Correct the annotation"),
        (Fact::AwaitingIndex, false, "A pod is created when one of them is gone"),
        (Fact::Updating(1), false, "Wait"),
        (Fact::Refreshing(1), false, "Wait"),
        (Fact::AwaitingNode(pod()), false, "At most a minute"),
        (
            Fact::AwaitingBudget,
            false,
            "`maxUnavailable`: pods must be ready before others are updated",
        ),
        (Fact::NoBudget, false, "Raise `maxUnavailable`"),
        (
            not_in_place(UpdateWay::InPlace),
            true,
            "Condition `FailedUpdate`; or `tidegate.dev/in-place-if-possible`",
        ),
        (not_in_place(UpdateWay::HotPatch), true, "The same with `HotPatchUpdate`"),
        (
            Fact::AwaitingPodHook { pod: pod(), kind: HookKind::PreDelete },
            false,
            "Inspect the HookRun",
        ),
        (
            Fact::PodHookFailed { pod: pod(), kind: HookKind::PreDelete, phase: HookPhase::Failed },
            true,
            "Condition `HookBlocked`",
        ),
        (
            Fact::PodHookBlocked {
                pod: pod(),
                why: "there is no hook template drained".to_owned(),
            },
            true,
            "Condition `HookBlocked`",
        ),
        (Fact::PodFailed(pod()), true, "Evicted, or its containers failed"),
        (
            Fact::PodEnded(pod()),
            true,
            "All its containers completed, which pods of these kinds should not",
        ),
        (Fact::PodLost(pod()), true, "See `node-lost-force-delete`"),
        (Fact::AwaitingOrder(pod()), false, "`OrderedReady`"),
        (Fact::AwaitingDeletion(pod()), false, "Wait"),
        (
            Fact::WriteRefused(refusal),
            false,
            "Conditions `FailedScale`, `FailedUpdate`; the write is retried",
        ),
    ]
}

#[test]
fn every_fact_of_a_game_workload_has_an_entry() {
    let source = fs::read_to_string(repository("crates/engine/src/game/fact.rs")).unwrap();
    let body = source.split("pub enum Fact {").nth(1).and_then(|rest| rest.split("\n}").next());
    let is_variant =
        |line: &&str| line.starts_with("    ") && line[4..].starts_with(char::is_uppercase);
    let variants = body.unwrap().lines().filter(is_variant).map(name);
    let listed = [release(), people(), pods()].into_iter().flatten();
    let listed: BTreeSet<String> = listed.map(|(fact, ..)| name(&format!("{fact:?}"))).collect();
    assert_eq!(listed, variants.collect(), "a reason without an entry, or an entry without a fact");
}

#[test]
fn what_is_told_of_single_pods_and_runs_is_told_by_the_code() {
    let source = |file: &str| {
        let path = match file {
            "told" => "crates/providers/src/game/run.rs".to_owned(),
            file => format!("crates/operator/src/game/{file}.rs"),
        };
        fs::read_to_string(repository(&path)).unwrap()
    };
    for (reason, _, _, file) in OF_ACTS {
        assert!(source(file).contains(&format!("\"{reason}\"")), "{reason} is not in {file}");
    }
}

fn name(text: &str) -> String {
    text.trim().chars().take_while(|it| it.is_alphanumeric()).collect()
}
