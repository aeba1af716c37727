//! `status.md`: phases, conditions and every field of a canary's status.

use tidegate_api::canary::CanaryPhase;

use crate::{
    fields::{fields, schema_of},
    markdown::{code, table},
};

const INTRO: &str = "\
# Status of a Canary

`kubectl get canary` shows the phase and the weight, `kubectl get canary NAME -o yaml` all of the
status. `status.lastDecision` has the current state in short: the reason, a message, the measured
values with their limits, and the time of the next step.

## Phases
";

const CONDITIONS: &str = "
## Conditions

| Condition | Meaning |
| --- | --- |
| `Promoted` | Flagger's condition, for `kubectl wait`. `True`: the primary runs the current revision. `False`: the last rollout failed, or was called off. `Unknown`: a rollout is under way, or a new revision waits for its start. Its reason is the phase, or `RevisionReverted` |
| `Ready` | `True`: the canary is healthy and idle, and the primary runs the target's revision |
| `Reconciling` | `True`: work is in progress. The message names what it waits for: pods, the next interval, an approval, a resume, the end of `suspend` |
| `Stalled` | `True`: no progress without a change by a person. The message names the problem: an invalid spec, a refused write, a failed rollout |
| `PolicySound` | `False`: a part of the policy is probably not meant so; [policy findings](policy-findings.md). Absent until there is a finding |

Exactly one of `Ready`, `Reconciling` and `Stalled` is `True`. Their reason is one of [the list of
events](events.md).

## Fields
";

pub(crate) fn page() -> String {
    let rows: Vec<_> = CanaryPhase::ALL
        .iter()
        .map(|phase| {
            let (meaning, traffic) = about(*phase);
            let name = match phase.as_str() {
                "" => "(none)".to_owned(),
                name => code(name),
            };
            [name, meaning.to_owned(), traffic.to_owned()]
        })
        .collect();
    let phases = table(["Phase", "Meaning", "Live traffic"], &rows);
    let crds = tidegate_api::crds();
    let canary = crds.iter().find(|crd| crd["spec"]["names"]["kind"] == "Canary").unwrap();
    let fields = fields("status", &schema_of(canary)["properties"]["status"]);
    format!("{INTRO}\n{phases}{CONDITIONS}\n{fields}")
}

/// The meaning of a phase, and the side that has live traffic.
fn about(phase: CanaryPhase) -> (&'static str, &'static str) {
    match phase {
        CanaryPhase::Unset => ("The canary is new", "the target"),
        CanaryPhase::Initializing => {
            ("Services and the primary are created", "the target, until the primary is ready")
        }
        CanaryPhase::Initialized => ("The primary runs; there was no rollout yet", "the primary"),
        CanaryPhase::Waiting => (
            "A confirm-rollout hook has not passed; or the rollout is held by `manualStep`, and `status.manualPause` is set",
            "the primary; when held, divided at the held weight",
        ),
        CanaryPhase::Progressing => {
            ("A revision is analysed, and gets more traffic with each passed check", "divided")
        }
        CanaryPhase::WaitingPromotion => (
            "All checks passed; a confirm-promotion hook has not passed, or blue/green has just moved traffic",
            "unchanged; blue/green: the canary, once approved",
        ),
        CanaryPhase::Promoting => (
            "The new revision is copied to the primary",
            "the canary's traffic returns to the primary once that is ready",
        ),
        CanaryPhase::Finalising => ("The canary is about to be scaled to zero", "the primary"),
        CanaryPhase::Succeeded => {
            ("The last rollout was promoted, or cancelled by its author", "the primary")
        }
        CanaryPhase::Failed => (
            "The last rollout was rolled back. That revision is not tried again",
            "the primary; the canary, if the promotion itself failed",
        ),
        CanaryPhase::Terminating => {
            ("The objects are restored (`revertOnDeletion`)", "the target again")
        }
        CanaryPhase::Terminated => ("The objects were restored", "the target"),
    }
}
