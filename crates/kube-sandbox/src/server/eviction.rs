//! Eviction: a delete that a `PodDisruptionBudget` may refuse.
//!
//! A granted eviction is recorded in the budget at once, so that the next one takes it into account
//! before the budget's controller has seen the pod's deletion.

use serde_json::Value;

use super::{Answer, Call, Server, options::DeleteOptions};
use crate::{
    controllers::{
        object::{Condition, condition, count, is_deleting, items, name, set_at, text},
        pods,
    },
    failure::{Cause, Failure, Outcome},
    selector::LabelSelector,
    store::{TableKey, Transaction},
};

/// Maximum number of granted evictions that the budget's controller has not confirmed yet.
const UNCONFIRMED_MAX: usize = 2000;

const REFUSED: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

// === impl Server ===

impl Server {
    /// `POST pods/NAME/eviction`
    pub(super) fn evict_pod(&self, call: &Call<'_>) -> Outcome<Answer> {
        let (eviction, _) = call.body_object()?;
        let (namespace, pod_name) = (call.namespace(), &call.request.info.name);
        let given = text(&eviction, "/metadata/name");
        if !given.is_empty() && given != pod_name {
            let why = "name in URL does not match name in Eviction object";
            return Err(Failure::bad_request(why));
        }
        let options = DeleteOptions::parse(&call.request.query, &eviction["deleteOptions"])?;
        let tx = self.store.begin();
        let (def, stored) = self.pod(&tx, namespace, pod_name)?;
        let mut pod = stored.value();
        if is_guarded(&pod) {
            self.ask_budgets(&tx, namespace, &pod, options.dry_run)?;
        }
        let mut latest = stored;
        if !options.dry_run {
            let mut conditions = items(&pod, "/status/conditions").to_vec();
            let reason = "EvictionByEvictionAPI";
            let message = "Eviction API: evicting";
            Condition { kind: "DisruptionTarget", status: "True", reason, message }
                .put(&mut conditions, self.clock.now());
            // Pod conditions have this field, which is always null.
            for condition in conditions.iter_mut().filter_map(Value::as_object_mut) {
                condition.entry("lastProbeTime").or_insert(Value::Null);
            }
            set_at(&mut pod, &["status", "conditions"], conditions);
            latest = tx.put(&def.table, pod);
        }
        self.delete_stored(&tx, &def, &latest, &options)?;
        Ok(Answer::success(201, &Value::Null))
    }

    /// Records the eviction in the pod's budget, or refuses it.
    fn ask_budgets(
        &self,
        tx: &Transaction<'_>,
        namespace: &str,
        pod: &Value,
        dry_run: bool,
    ) -> Outcome<()> {
        let table = TableKey::new("policy", "poddisruptionbudgets");
        let budgets = tx.list(&table, Some(namespace));
        let mut budgets = budgets.iter().map(|budget| budget.value()).filter(|budget| {
            let selector = LabelSelector::from_json(budget.pointer("/spec/selector"));
            selector.is_ok_and(|selector| selector.selects(pod))
        });
        let Some(mut budget) = budgets.next() else { return Ok(()) };
        if budgets.next().is_some() {
            let why = "This pod has more than one PodDisruptionBudget, which the eviction \
                       subresource does not support.";
            return Err(Failure::new(500, "", why));
        }
        if !pods::is_ready(pod) && allows_unhealthy(&budget) {
            return Ok(());
        }
        check(&budget)?;
        if dry_run {
            return Ok(());
        }
        let allowed = count(&budget, "/status/disruptionsAllowed") - 1;
        set_at(&mut budget, &["status", "disruptionsAllowed"], allowed);
        let at = self.now_text();
        set_at(&mut budget, &["status", "disruptedPods", name(pod)], at);
        if allowed == 0 {
            let mut conditions = items(&budget, "/status/conditions").to_vec();
            let reason = "InsufficientPods";
            Condition { kind: "DisruptionAllowed", status: "False", reason, message: "" }
                .put(&mut conditions, self.clock.now());
            let generation = count(&budget, "/metadata/generation");
            for condition in &mut conditions {
                set_at(condition, &["observedGeneration"], generation);
            }
            set_at(&mut budget, &["status", "conditions"], conditions);
        }
        tx.put(&table, budget);
        Ok(())
    }
}

/// Whether budgets protect a pod: not while it is pending, finished or being deleted.
fn is_guarded(pod: &Value) -> bool {
    !is_deleting(pod) && !matches!(pods::phase(pod), "Succeeded" | "Failed" | "Pending")
}

/// Whether an unhealthy pod may be evicted, because that makes nothing worse.
fn allows_unhealthy(budget: &Value) -> bool {
    let desired = count(budget, "/status/desiredHealthy");
    text(budget, "/spec/unhealthyPodEvictionPolicy") == "AlwaysAllow"
        || (desired > 0 && count(budget, "/status/currentHealthy") >= desired)
}

fn check(budget: &Value) -> Outcome<()> {
    let budget_name = name(budget);
    if count(budget, "/status/observedGeneration") < count(budget, "/metadata/generation") {
        let why =
            format!("The disruption budget {budget_name} is still being processed by the server.");
        return Err(Failure { retry_after_s: Some(10), ..refused(why) });
    }
    let unconfirmed = budget.pointer("/status/disruptedPods").and_then(Value::as_object);
    if unconfirmed.is_some_and(|pods| pods.len() > UNCONFIRMED_MAX) {
        let why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
        return Err(Failure::forbidden("policy", "poddisruptionbudget", budget_name, why));
    }
    if count(budget, "/status/disruptionsAllowed") > 0 {
        return Ok(());
    }
    let (desired, healthy) =
        (count(budget, "/status/desiredHealthy"), count(budget, "/status/currentHealthy"));
    let failed = condition(budget, "DisruptionAllowed")
        .filter(|condition| text(condition, "/reason") == "SyncFailed")
        .map(|condition| text(condition, "/message"));
    Err(refused(match failed {
        Some(why) => format!(
            "The disruption budget {budget_name} does not allow evicting pods currently because it \
             failed sync: {why}"
        ),
        None if healthy <= desired => format!(
            "The disruption budget {budget_name} needs {desired} healthy pods and has {healthy} \
             currently"
        ),
        None => {
            format!("The disruption budget {budget_name} does not allow evicting pods currently")
        }
    }))
}

fn refused(why: String) -> Failure {
    let mut failure = Failure::new(429, "TooManyRequests", REFUSED);
    let cause = Cause { reason: "DisruptionBudget".into(), message: why, field: String::new() };
    failure.causes.push(cause);
    failure
}
