//! `status.md`: phases, conditions and every field of a canary's status.

use tidegate_api::canary::CanaryPhase;

use crate::{
    fields::{fields, schema_of},
    markdown::{code, table},
};

const INTRO: &str = "\
# Status of a Canary

`kubectl get canary` shows phase and weight; `kubectl get canary NAME -o yaml` the rest. `status.lastDecision` is the short answer to
\"what is it doing?\": the reason, the same in a sentence, what was measured against which limits, and when the next step can come.

## Phases
";

const CONDITIONS: &str = "
## Conditions

| Condition | Meaning |
| --- | --- |
| `Promoted` | Flagger's condition, for `kubectl wait`. `True`: the primary runs the current revision. `False`: the last rollout failed. `Unknown`: under way. Its reason is the phase |
| `Ready` | `True`: all is well and nothing is to be done |
| `Reconciling` | `True`: on its way. The message says what is waited for: pods, the next interval, an approval, a resume, the end of `suspend` |
| `Stalled` | `True`: it does not go on until somebody mends something. The message says what: a spec that cannot be acted upon, a cluster that refuses, a failed rollout |

Of `Ready`, `Reconciling` and `Stalled` exactly one is `True`. Their reason is one of [the list of events](events.md).

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
    let phases = table(["Phase", "What happens", "Live traffic"], &rows);
    let crds = tidegate_api::crds();
    let canary = crds.iter().find(|crd| crd["spec"]["names"]["kind"] == "Canary").unwrap();
    let fields = fields("status", &schema_of(canary)["properties"]["status"]);
    format!("{INTRO}\n{phases}{CONDITIONS}\n{fields}")
}

/// The meaning of a phase, and the side that has live traffic.
fn about(phase: CanaryPhase) -> (&'static str, &'static str) {
    match phase {
        CanaryPhase::Unset => ("Nobody has looked at it yet", "the target"),
        CanaryPhase::Initializing => {
            ("Services and the primary are put in place", "the target, until the primary is ready")
        }
        CanaryPhase::Initialized => ("The primary runs; nothing was rolled out yet", "the primary"),
        CanaryPhase::Waiting => (
            "A confirm-rollout hook has not said yes; or held by `manualStep`, then `status.manualPause` is set",
            "the primary; when held, as held",
        ),
        CanaryPhase::Progressing => {
            ("A revision is checked, and gets more traffic as it passes", "divided")
        }
        CanaryPhase::WaitingPromotion => {
            ("All checks passed; a confirm-promotion hook has not said yes", "as it was")
        }
        CanaryPhase::Promoting => (
            "The primary is given the new revision",
            "the canary's share goes back once the primary is ready",
        ),
        CanaryPhase::Finalising => ("The canary is about to be scaled to zero", "the primary"),
        CanaryPhase::Succeeded => {
            ("The last rollout was promoted, or called off by its author", "the primary")
        }
        CanaryPhase::Failed => (
            "The last rollout was taken back. That revision is not tried again",
            "the primary; the canary, if the promotion itself failed",
        ),
        CanaryPhase::Terminating => {
            ("Everything is given back (`revertOnDeletion`)", "the target again")
        }
        CanaryPhase::Terminated => ("Everything was given back", "the target"),
    }
}
