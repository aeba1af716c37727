//! Current values of metrics, and the replica count that each of them asks for.
//!
//! The autoscaler asks for one [`Demand`] per entry of `spec.metrics` and takes the highest. Values
//! come from annotations or [`MetricsKnob`], never from a measurement.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};

use crate::{
    controllers::{
        object::{annotation, int, items, name, namespace, text},
        pods,
    },
    quantity::Quantity,
};

const CPU_ANNOTATION: &str = "sandbox.tidegate.dev/cpu-utilization";
const METRIC_ANNOTATION: &str = "sandbox.tidegate.dev/metric.";

/// Deviation of the ratio from 1 that causes no change, as `--horizontal-pod-autoscaler-tolerance`.
const TOLERANCE: f64 = 0.1;

/// Metric values set from outside, shared between the test and the controller.
#[derive(Debug, Clone, Default)]
pub struct MetricsKnob(Arc<Mutex<Values>>);

/// By namespace, autoscaler and metric.
type Values = BTreeMap<(String, String, String), f64>;

/// Replica count for one metric.
#[derive(Debug)]
pub(super) struct Demand {
    pub(super) replicas: i64,
    /// The metric in words, for events and conditions.
    pub(super) what: String,
    /// Its entry in `status.currentMetrics`.
    pub(super) status: Value,
}

/// A metric that has no value.
#[derive(Debug)]
pub(super) struct MetricFailure {
    pub(super) reason: &'static str,
    pub(super) message: String,
    /// Description of the missing value, in the words of the real controller.
    pub(super) what: String,
}

/// Inputs of the replica calculation.
pub(super) struct Sight<'a> {
    pub(super) autoscaler: &'a Value,
    pub(super) knob: &'a MetricsKnob,
    /// Pods of the target that are not being deleted.
    pub(super) pods: &'a [Value],
    pub(super) replicas: i64,
}

/// One entry of `spec.metrics`, of any type.
struct Metric<'a> {
    kind: &'a str,
    /// The member of the entry that describes it: `resource`, `pods`, ...
    member: &'static str,
    name: &'a str,
    /// The container it is measured on; empty for the whole pod.
    container: &'a str,
    target: &'a Value,
    reason: &'static str,
}

// === impl MetricsKnob ===

impl MetricsKnob {
    /// Sets what `autoscaler` will read for `metric` (`cpu`, or a metric's own name).
    pub fn set(&self, namespace: &str, autoscaler: &str, metric: &str, value: f64) {
        let key = (namespace.to_owned(), autoscaler.to_owned(), metric.to_owned());
        self.values().insert(key, value);
    }

    /// Takes a value away: the metric cannot be read any more.
    pub fn clear(&self, namespace: &str, autoscaler: &str, metric: &str) {
        let key = (namespace.to_owned(), autoscaler.to_owned(), metric.to_owned());
        self.values().remove(&key);
    }

    fn get(&self, autoscaler: &Value, metric: &str) -> Option<f64> {
        let (namespace, name) = (namespace(autoscaler), name(autoscaler));
        let key = (namespace.to_owned(), name.to_owned(), metric.to_owned());
        self.values().get(&key).copied()
    }

    fn values(&self) -> MutexGuard<'_, Values> {
        self.0.lock()
    }
}

// === impl Sight ===

impl Sight<'_> {
    pub(super) fn demand(&self, entry: &Value) -> Result<Demand, MetricFailure> {
        let metric = Metric::of(entry);
        let value = self.value(&metric).ok_or_else(|| metric.failure())?;
        let goal = metric.goal().ok_or_else(|| metric.failure())?;
        let replicas = if metric.is_total() {
            self.for_total(value, goal)
        } else {
            self.for_average(value / goal)
        };
        Ok(Demand {
            replicas,
            what: metric.words(),
            status: metric.status(entry, value, self.pods),
        })
    }

    fn value(&self, metric: &Metric<'_>) -> Option<f64> {
        let by_name = format!("{METRIC_ANNOTATION}{}", metric.name);
        let mut said = annotation(self.autoscaler, &by_name);
        if said.is_none() && metric.name == "cpu" {
            said = annotation(self.autoscaler, CPU_ANNOTATION);
        }
        let said = said.and_then(|said| quantity(said.trim_end_matches('%')));
        said.or_else(|| self.knob.get(self.autoscaler, metric.name))
    }

    /// Replica count for a value averaged over pods.
    #[expect(clippy::cast_precision_loss, reason = "pods are counted in thousands at most")]
    fn for_average(&self, ratio: f64) -> i64 {
        let ready = self.pods.iter().filter(|pod| pods::is_ready(pod)).count();
        let all = self.pods.len();
        if ready == 0 || is_close(ratio) {
            return self.replicas;
        }
        if ratio < 1.0 || ready == all {
            return ceil(ratio * ready as f64);
        }
        // Pods that are still starting will take over load; they count as idle.
        let spread = ratio * ready as f64 / all as f64;
        if spread <= 1.0 || is_close(spread) {
            return self.replicas;
        }
        ceil(spread * all as f64).max(self.replicas)
    }

    /// Replica count for one value of the whole workload, of which each pod should have `goal`.
    #[expect(clippy::cast_precision_loss, reason = "pods are counted in thousands at most")]
    fn for_total(&self, value: f64, goal: f64) -> i64 {
        if self.replicas > 0 && is_close(value / (goal * self.replicas as f64)) {
            return self.replicas;
        }
        ceil(value / goal)
    }
}

fn is_close(ratio: f64) -> bool {
    (1.0 - ratio).abs() <= TOLERANCE
}

#[expect(clippy::cast_possible_truncation, reason = "a saturating cast is what is wanted")]
fn ceil(number: f64) -> i64 {
    number.ceil() as i64
}

// === impl Metric ===

impl<'a> Metric<'a> {
    fn of(entry: &'a Value) -> Self {
        let kind = text(entry, "/type");
        let (member, reason) = match kind {
            "Pods" => ("pods", "FailedGetPodsMetric"),
            "Object" => ("object", "FailedGetObjectMetric"),
            "External" => ("external", "FailedGetExternalMetric"),
            "ContainerResource" => ("containerResource", "FailedGetContainerResourceMetric"),
            _ => ("resource", "FailedGetResourceMetric"),
        };
        let source = &entry[member];
        let own = text(source, "/name");
        let name = if own.is_empty() { text(source, "/metric/name") } else { own };
        let container = text(source, "/container");
        Self { kind, member, name, container, target: &source["target"], reason }
    }

    fn is_resource(&self) -> bool {
        matches!(self.member, "resource" | "containerResource")
    }

    /// True if the value is for the whole workload and the target is per pod.
    fn is_total(&self) -> bool {
        matches!(self.kind, "Object" | "External") && self.target.get("averageValue").is_some()
    }

    fn goal(&self) -> Option<f64> {
        let utilization =
            int(self.target, "/averageUtilization").and_then(|u| u32::try_from(u).ok());
        let by_value = || {
            let keys = ["averageValue", "value"].iter();
            keys.filter_map(|key| self.target.get(key)?.as_str()).find_map(quantity)
        };
        utilization.map(f64::from).or_else(by_value).filter(|goal| *goal > 0.0)
    }

    fn words(&self) -> String {
        let name = self.name;
        match self.kind {
            "Pods" => format!("pods metric {name}"),
            "Object" => format!("object metric {name}"),
            "External" => format!("external metric {name}(nil)"),
            _ if self.target.get("averageUtilization").is_some() => {
                format!("{name} resource utilization (percentage of request)")
            }
            _ => format!("{name} resource"),
        }
    }

    fn failure(&self) -> MetricFailure {
        let name = self.name;
        let message = if self.is_resource() {
            format!(
                "failed to get {name} utilization: unable to get metrics for resource {name}: \
                 no metrics returned from resource metrics API"
            )
        } else {
            format!("unable to get metric {name}: no metrics returned from custom metrics API")
        };
        let what = match self.member {
            "pods" | "object" => format!("{} metric value", self.member),
            "external" => format!("{name} external metric value"),
            "containerResource" => format!("{} container metric value", self.container),
            _ => format!("{name} resource metric value"),
        };
        MetricFailure { reason: self.reason, message, what }
    }

    fn status(&self, entry: &Value, value: f64, pods: &[Value]) -> Value {
        let current = if self.target.get("averageUtilization").is_some() {
            let request = pods.first().map_or(0.0, |pod| request(pod, self.name));
            json!({
                "averageUtilization": ceil(value.floor()),
                "averageValue": milli(request * value / 100.0),
            })
        } else if self.target.get("averageValue").is_some() {
            json!({ "averageValue": milli(value) })
        } else {
            json!({ "value": milli(value) })
        };
        let mut source = entry[self.member].clone();
        if let Some(members) = source.as_object_mut() {
            members.remove("target");
            members.insert("current".to_owned(), current);
        }
        json!({ "type": text(entry, "/type"), self.member: source })
    }
}

/// The sum of a pod's container requests for a resource.
fn request(pod: &Value, resource: &str) -> f64 {
    let containers = items(pod, "/spec/containers").iter();
    let requests = containers.filter_map(|container| {
        quantity(container.pointer("/resources/requests")?.get(resource)?.as_str()?)
    });
    requests.sum()
}

/// A number as a canonical quantity, to the thousandth.
fn milli(number: f64) -> String {
    let thousandths = ceil(number * 1000.0);
    if thousandths % 1000 == 0 {
        (thousandths / 1000).to_string()
    } else {
        format!("{thousandths}m")
    }
}

/// Parses a Kubernetes quantity.
fn quantity(text: &str) -> Option<f64> {
    text.parse::<Quantity>().ok().map(Quantity::approximate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_and_written() {
        let cases = [("500m", Some(0.5)), ("2", Some(2.0)), ("1Ki", Some(1024.0)), ("x", None)];
        for (text, want) in cases {
            assert_eq!(quantity(text), want, "{text}");
        }
        assert_eq!((milli(0.25), milli(3.0)), ("250m".to_owned(), "3".to_owned()));
    }
}
