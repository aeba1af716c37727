//! What may be carried out as it is written, and may not be meant so. It is told where a release begins.

use super::{CanaryStep, Observed, Share, arguments};

/// One sentence for each.
pub(super) fn of(seen: &Observed) -> Vec<String> {
    let replicas = seen.plan.replicas;
    let mut doubts = Vec::new();
    let mut before: Option<(usize, usize)> = None;
    for (index, step) in seen.plan.steps().iter().enumerate() {
        match step {
            CanaryStep::Partition(share) => {
                if let Share::Count(count) = share
                    && *count > replicas
                {
                    doubts.push(format!(
                        "Step {index} keeps {count} pods as they are, and there are {replicas}: it updates none."
                    ));
                }
                let kept = share.as_partition(replicas);
                if let Some((earlier, least)) = before
                    && kept > least
                {
                    doubts.push(format!(
                        "Step {index} keeps {kept} pods as they are, step {earlier} only {least}: it updates none."
                    ));
                }
                if before.is_none_or(|(_, least)| kept < least) {
                    before = Some((index, kept));
                }
            }
            CanaryStep::Hook(hook) => {
                let template = &hook.call.template;
                let why = match seen.templates.get(template) {
                    None => Some(format!("there is no hook template {template}")),
                    Some(declared) => arguments::merge(declared, &hook.call.arguments)
                        .err()
                        .map(|error| error.to_string()),
                };
                doubts.extend(
                    why.map(|why| format!("Step {index} cannot be taken as it is: {why}.")),
                );
            }
            CanaryStep::Pause(_) => {}
        }
    }
    doubts
}
