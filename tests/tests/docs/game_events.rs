//! The part of `events.md` about game workloads.

use std::{collections::BTreeSet, fmt::Write as _, fs};

use tidegate_engine::{
    Moment, Revision, Tone,
    game::{
        ConditionKind, Fact, HookKind, HookPhase, PauseReason, Refusal, ResumeBy, UpdateWay, Verb,
    },
};

use crate::markdown::{cell, code, repository, table};

const INTRO: &str = "
## Game workloads

Events of GameDeployments, GameStatefulSets and HookRuns. The sentence of what is done or waited for is `status.message`; *status only* is
told there, in conditions and in `tidegate_decisions_total`. In the examples the workload is `arena`.
";

/// Events of the operator's own actions: reason, type, meaning, and the file that sends it.
const OF_ACTS: [(&str, &str, &str, &str); 14] = [
    ("SuccessfulCreate", "Normal", "A pod was made", "act"),
    ("SuccessfulDelete", "Normal", "A pod was deleted; the sentence says why", "act"),
    ("SuccessfulForceDelete", "Normal", "A pod was taken from a lost node", "act"),
    (
        "SuccessfulUpdatePodReCreate",
        "Normal",
        "A pod was deleted to be replaced by a new one",
        "act",
    ),
    ("SuccessfulUpdatePodInPlace", "Normal", "A pod is updated in place", "act"),
    ("SuccessfulUpdatePodHotPatch", "Normal", "A pod is updated while it serves", "act"),
    ("FailedCreate", "Warning", "The cluster refuses to make a pod: a quota, a policy", "act"),
    ("FailedDelete", "Warning", "The cluster refuses to delete a pod", "act"),
    ("FailedUpdatePodReCreate", "Warning", "The same, of a pod to be replaced", "act"),
    ("FailedUpdatePodInPlace", "Warning", "The cluster refuses to change a pod", "act"),
    ("FailedUpdatePodHotPatch", "Warning", "The same, of one that would go on serving", "act"),
    ("FailedUpdate", "Warning", "The cluster refuses another write; it is tried again", "act"),
    (
        "MetricDoubtful",
        "Warning",
        "On a HookRun: a metric goes on until it fails or the run is ended",
        "run",
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
    for (title, entries) in [("A release", release()), ("People", people()), ("Pods", pods())] {
        let rows: Vec<_> = entries.iter().map(row).collect();
        let rows = table(["Reason", "Type", "Example", "What it means for you"], &rows);
        write!(text, "\n### {title}\n\n{rows}").unwrap();
    }
    let rows = OF_ACTS
        .map(|(reason, kind, meaning, _)| [code(reason), kind.to_owned(), meaning.to_owned()]);
    let rows = table(["Reason", "Type", "What happened"], &rows);
    write!(text, "\n### Single pods and runs\n\n{rows}").unwrap();
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
    let template = "The predelete hook cannot be run as it is: there is no hook template drained.";
    let rival = "GameDeployment lobby is older and selects the same pods";
    vec![
        (Fact::AtRest, false, "Nothing to do"),
        (Fact::BeingDeleted, false, "Its pods go with it"),
        (
            Fact::Refused(vec![rival.to_owned()]),
            true,
            "Nothing is done until that is put right. Also the condition `FailedUpdate`",
        ),
        (
            Fact::NewRevision(revision()),
            true,
            "The template changed; steps are taken from the first",
        ),
        (Fact::WentBack(revision()), true, "The template is the stable one again: no steps"),
        (Fact::StepsChanged, true, "Somebody edited the steps"),
        (Fact::StepDoubtful(partition.to_owned()), true, "A step may not say what you mean"),
        (Fact::SpecDoubtful(template.to_owned()), true, "Something else may not"),
        (Fact::StepSet(3), true, "This step is taken now; as many as there are means all are done"),
        (Fact::Paused(PauseReason::Step), true, "See `status.pauseConditions`"),
        (Fact::AwaitingTime(Moment(0)), false, "A timed pause; resuming ends it early"),
        (Fact::AwaitingHook(run()), false, "Look at the HookRun"),
        (failed, true, "The release pauses, or goes back if `onFailure` says so"),
        (
            Fact::HookBlocked("there is no hook template test".to_owned()),
            true,
            "Put it right within ten minutes, or the release pauses",
        ),
        (
            Fact::ArgumentsDropped(vec!["room".to_owned()]),
            true,
            "An argument that the HookTemplate does not declare goes nowhere",
        ),
        (Fact::Promoted(revision()), true, "This revision is the stable one now"),
        (Fact::RollsBack(revision()), true, "`onFailure: rollback`"),
        (Fact::AwaitingPods { available: 1, wanted: 2 }, false, "Look at pods that are not ready"),
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
            "Go on, go back, or run the hook again",
        ),
        (
            Fact::ResumeIgnored,
            true,
            "`resumeBy: Annotation`: ask by `tidegate.dev/ask` instead. Mostly a tool that applies a manifest",
        ),
        (Fact::Obeyed(Verb::Resume), true, "What `tidegate.dev/ask` said was done"),
        (Fact::NothingTo(Verb::Abort), true, "There was nothing to do it to"),
        (Fact::AskedTooLate(Verb::SkipAll), true, "It was asked for another revision; ask again"),
        (Fact::UnknownVerb("reusme".to_owned()), true, "It was taken away; ask again"),
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
            "Widen the range of numbers, or lower `replicas`. Condition `FailedScale`",
        ),
        (Fact::IndexesUnreadable(range.to_owned()), true, "Put the annotation right"),
        (Fact::AwaitingIndex, false, "A pod is made when one of them is gone"),
        (Fact::Updating(1), false, "Wait"),
        (Fact::Refreshing(1), false, "Wait"),
        (Fact::AwaitingNode(pod()), false, "At most a minute"),
        (Fact::AwaitingBudget, false, "`maxUnavailable`: pods must be ready before others leave"),
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
            "Look at the HookRun",
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
            "All its containers ended well, which pods of these kinds do not",
        ),
        (Fact::PodLost(pod()), true, "See `node-lost-force-delete`"),
        (Fact::AwaitingOrder(pod()), false, "`OrderedReady`"),
        (Fact::AwaitingDeletion(pod()), false, "Wait"),
        (
            Fact::WriteRefused(refusal),
            false,
            "Conditions `FailedScale`, `FailedUpdate`; tried again",
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
