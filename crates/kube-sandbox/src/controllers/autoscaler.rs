//! Scales workloads for `HorizontalPodAutoscalers`, by metric values that are set, not measured.
//!
//! A sandbox uses no processor time, so the value of a metric is set by hand. Sources in order:
//!
//! - the annotation `sandbox.tidegate.dev/cpu-utilization: "85"` on the autoscaler (per cent of the
//!   request), or `sandbox.tidegate.dev/metric.<name>: <quantity>` for any metric by its name;
//! - the [`MetricsKnob`] given to the controller.
//!
//! The arithmetic is that of Kubernetes: ratio to the target, ten per cent of tolerance,
//! stabilisation and scaling policies, minimum and maximum. Every autoscaler is reconciled every
//! fifteen seconds.
//!
//! A target is a built-in workload, or any custom resource with a scale subresource.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Value, json};

use crate::{
    cluster::{AUTOSCALERS, Cluster, DEPLOYMENTS, PODS, REPLICA_SETS, Resource, STATEFUL_SETS},
    controllers::{
        Change, Controller, Key, Next,
        events::{Recorder, normal, warning},
        object::{
            Condition, Kind, count, int, items, name, namespace, selector, set_at, settle, stamp,
            text, unset, write_status,
        },
        pods,
    },
    failure::{Failure, Outcome},
    jsonpath::Path,
    selector::LabelSelector,
};

mod metrics;
mod pace;

pub use metrics::MetricsKnob;
use metrics::{Demand, MetricFailure, Sight};
use pace::{Bounds, Pace};

const AUTOSCALER: Kind = Kind { api_version: "autoscaling/v2", kind: "HorizontalPodAutoscaler" };

const DEFINITIONS: Resource =
    Resource { group: "apiextensions.k8s.io", plural: "customresourcedefinitions" };

/// Interval between two reconciles, as `--horizontal-pod-autoscaler-sync-period`.
const SYNC_PERIOD: Duration = Duration::from_secs(15);

#[derive(Debug)]
pub(crate) struct AutoscalerController {
    metrics: MetricsKnob,
    recorder: Recorder,
    paces: BTreeMap<Key, Pace>,
    /// Custom resources with a scale subresource, by version and kind. Cached, because reading all
    /// definitions takes longer than the rest of a reconcile.
    scaled: BTreeMap<(String, String), Scaled>,
}

/// A custom resource with a scale subresource.
#[derive(Debug, Clone)]
struct Scaled {
    resource: Resource,
    /// JSON pointer of the replica count.
    replicas: String,
    /// JSON pointer of the selector in text form.
    selector: String,
}

/// State of one reconcile of one autoscaler: its status as it will be written.
struct Look<'a> {
    cluster: &'a dyn Cluster,
    autoscaler: &'a Value,
    conditions: Vec<Value>,
}

/// The workload to be scaled.
struct Target {
    resource: Resource,
    object: Value,
    replicas: i64,
    /// `None` if the scale has no selector.
    selector: Option<LabelSelector>,
}

/// The size that the metrics ask for.
struct Verdict {
    desired: i64,
    metrics: Option<Vec<Value>>,
    /// The reason for a change of size.
    reason: String,
}

// === impl AutoscalerController ===

impl Controller for AutoscalerController {
    fn name(&self) -> &'static str {
        "horizontalpodautoscaler"
    }

    fn watches(&self) -> &'static [(&'static str, &'static str)] {
        &[("autoscaling", "horizontalpodautoscalers")]
    }

    fn keys(&self, _: &dyn Cluster, change: &Change<'_>) -> Vec<Key> {
        // Ignores the controller's own status writes.
        let part = |object: &Value| {
            (object.get("spec").cloned(), object.pointer("/metadata/annotations").cloned())
        };
        if change.old.is_some() && change.old.map(part) == change.new.map(part) {
            return Vec::new();
        }
        vec![Key { namespace: change.namespace.to_owned(), name: change.name.to_owned() }]
    }

    fn reconcile(&mut self, cluster: &dyn Cluster, key: &Key) -> Next {
        let Some(autoscaler) = cluster.get(AUTOSCALERS, &key.namespace, &key.name) else {
            self.paces.remove(key);
            return Next::Idle;
        };
        let outcome = self.sync(cluster, key, &autoscaler);
        settle(outcome.map(|()| Next::After(SYNC_PERIOD)))
    }
}

impl AutoscalerController {
    pub(crate) fn new(metrics: MetricsKnob) -> Self {
        let recorder = Recorder::new("horizontal-pod-autoscaler");
        Self { metrics, recorder, paces: BTreeMap::new(), scaled: BTreeMap::new() }
    }

    fn sync(&mut self, cluster: &dyn Cluster, key: &Key, autoscaler: &Value) -> Outcome<()> {
        let conditions = items(autoscaler, "/status/conditions").to_vec();
        let mut look = Look { cluster, autoscaler, conditions };
        let target = match self.target(cluster, autoscaler) {
            Ok(target) => target,
            Err(problem) => {
                let message = format!(
                    "the HPA controller was unable to get the target's current scale: {problem}"
                );
                if look.set("AbleToScale", "False", "FailedGetScale", &message) {
                    self.warn(cluster, autoscaler, "FailedGetScale", &problem);
                }
                return look.write(None, None, false);
            }
        };
        let message = "the HPA controller was able to get the target's current scale";
        look.set("AbleToScale", "True", "SucceededGetScale", message);
        let current = target.replicas;
        let Some(verdict) = self.judge(&mut look, key, &target) else {
            let metrics = Some(Vec::new());
            return look.write(Some((current, None)), metrics, false);
        };
        let rescale = verdict.desired != current;
        if rescale {
            self.rescale(&mut look, key, &target, &verdict)?;
        }
        look.write(Some((current, Some(verdict.desired))), verdict.metrics, rescale)
    }

    /// The target workload, or why it cannot be read.
    fn target(&mut self, cluster: &dyn Cluster, autoscaler: &Value) -> Result<Target, String> {
        let kind = text(autoscaler, "/spec/scaleTargetRef/kind");
        let target = text(autoscaler, "/spec/scaleTargetRef/name");
        let get = |resource: Resource| {
            let object = cluster.get(resource, namespace(autoscaler), target);
            object
                .ok_or_else(|| Failure::not_found(resource.group, resource.plural, target).message)
        };
        let resource = match kind {
            "Deployment" => DEPLOYMENTS,
            "ReplicaSet" => REPLICA_SETS,
            "StatefulSet" => STATEFUL_SETS,
            _ => {
                let api_version = text(autoscaler, "/spec/scaleTargetRef/apiVersion");
                let scaled = self.scaled(cluster, api_version, kind).ok_or_else(|| {
                    format!("no matches for kind {kind:?} with a scale of its own")
                })?;
                let object = get(scaled.resource)?;
                return scaled.target(object);
            }
        };
        let object = get(resource)?;
        let replicas = int(&object, "/spec/replicas").unwrap_or(1);
        let selector = Some(selector(&object));
        Ok(Target { resource, object, replicas, selector })
    }

    fn scaled(&mut self, cluster: &dyn Cluster, version: &str, kind: &str) -> Option<Scaled> {
        let key = (version.to_owned(), kind.to_owned());
        if let Some(known) = self.scaled.get(&key) {
            return Some(known.clone());
        }
        let found = Scaled::find(cluster, version, kind)?;
        self.scaled.insert(key, found.clone());
        Some(found)
    }

    /// The size that the target should have; `None` when no metric could be read.
    fn judge(&mut self, look: &mut Look<'_>, key: &Key, target: &Target) -> Option<Verdict> {
        let bounds = Bounds::of(look.autoscaler);
        let current = target.replicas;
        let fixed = |desired: i64, reason: &str| {
            Some(Verdict { desired, metrics: Some(Vec::new()), reason: reason.to_owned() })
        };
        if current == 0 && bounds.min != 0 {
            let message = "scaling is disabled since the replica count of the target is zero";
            look.set("ScalingActive", "False", "ScalingDisabled", message);
            return fixed(0, "");
        }
        if current > bounds.max {
            return fixed(bounds.max, "Current number of replicas above Spec.MaxReplicas");
        }
        if current < bounds.min {
            return fixed(bounds.min, "Current number of replicas below Spec.MinReplicas");
        }
        let Some(selector) = &target.selector else {
            let message = "the HPA target's scale is missing a selector";
            if look.set("ScalingActive", "False", "InvalidSelector", message) {
                let problem = "selector is required";
                self.warn(look.cluster, look.autoscaler, "SelectorRequired", problem);
            }
            return None;
        };
        let (demands, failures) = self.demands(look, current, selector);
        let all = demands.len() + failures.len();
        let Some(highest) = demands.iter().max_by_key(|demand| demand.replicas) else {
            self.report_failures(look, &failures, all);
            return None;
        };
        if failures.is_empty() || highest.replicas >= current {
            let message = format!(
                "the HPA was able to successfully calculate a replica count from {}",
                highest.what
            );
            look.set("ScalingActive", "True", "ValidMetricFound", &message);
        } else {
            // With some metrics missing, scaling down would be unsafe.
            self.report_failures(look, &failures, all);
            return None;
        }
        let reason = match highest.replicas.cmp(&current) {
            std::cmp::Ordering::Greater => format!("{} above target", highest.what),
            std::cmp::Ordering::Less => "All metrics below target".to_owned(),
            std::cmp::Ordering::Equal => String::new(),
        };
        let pace = self.paces.entry(key.clone()).or_default();
        let now = look.cluster.now();
        let paced = pace.limit(look.autoscaler, bounds, current, highest.replicas, now);
        look.set("AbleToScale", "True", paced.able.0, paced.able.1);
        let limited = if paced.limited { "True" } else { "False" };
        look.set("ScalingLimited", limited, paced.limit.0, paced.limit.1);
        let metrics = demands.into_iter().map(|demand| demand.status).collect();
        Some(Verdict { desired: paced.replicas, metrics: Some(metrics), reason })
    }

    fn demands(
        &self,
        look: &Look<'_>,
        replicas: i64,
        selector: &LabelSelector,
    ) -> (Vec<Demand>, Vec<MetricFailure>) {
        let place = namespace(look.autoscaler);
        let mut members = look.cluster.select(PODS, place, selector);
        members.retain(pods::is_active);
        let sight =
            Sight { autoscaler: look.autoscaler, knob: &self.metrics, pods: &members, replicas };
        let default = [json!({ "type": "Resource", "resource": {
            "name": "cpu", "target": { "type": "Utilization", "averageUtilization": 80 },
        } })];
        let listed = items(look.autoscaler, "/spec/metrics");
        let listed = if listed.is_empty() { &default[..] } else { listed };
        let (mut demands, mut failures) = (Vec::new(), Vec::new());
        for metric in listed {
            match sight.demand(metric) {
                Ok(demand) => demands.push(demand),
                Err(failure) => failures.push(failure),
            }
        }
        (demands, failures)
    }

    /// Reports the metrics, out of `all`, that cannot be read.
    fn report_failures(&mut self, look: &mut Look<'_>, failures: &[MetricFailure], all: usize) {
        let Some(first) = failures.first() else { return };
        let message = format!("the HPA was unable to compute the replica count: {}", first.message);
        if look.set("ScalingActive", "False", first.reason, &message) {
            self.warn(look.cluster, look.autoscaler, first.reason, &first.message);
            let problem = format!(
                "invalid metrics ({} invalid out of {all}), first error is: failed to get {}: {}",
                failures.len(),
                first.what,
                first.message
            );
            self.warn(look.cluster, look.autoscaler, "FailedComputeMetricsReplicas", &problem);
        }
    }

    fn rescale(
        &mut self,
        look: &mut Look<'_>,
        key: &Key,
        target: &Target,
        verdict: &Verdict,
    ) -> Outcome<()> {
        let size = verdict.desired;
        let patch = json!({ "spec": { "replicas": size } });
        let (home, target_name) = (namespace(&target.object), name(&target.object));
        let written = look.cluster.patch(target.resource, home, target_name, "scale", &patch);
        if let Err(failure) = written {
            let reason = &verdict.reason;
            let message = format!("New size: {size}; reason: {reason}; error: {failure}");
            self.warn(look.cluster, look.autoscaler, "FailedRescale", &message);
            return Err(failure);
        }
        let message = format!("the HPA controller was able to update the target scale to {size}");
        look.set("AbleToScale", "True", "SucceededRescale", &message);
        let message = format!("New size: {size}; reason: {}", verdict.reason);
        let what = normal("SuccessfulRescale", &message);
        self.recorder.record(look.cluster, AUTOSCALER, look.autoscaler, what);
        let pace = self.paces.entry(key.clone()).or_default();
        pace.scaled(size - target.replicas, look.cluster.now());
        Ok(())
    }

    fn warn(&mut self, cluster: &dyn Cluster, autoscaler: &Value, reason: &str, message: &str) {
        self.recorder.record(cluster, AUTOSCALER, autoscaler, warning(reason, message));
    }
}

// === impl Scaled ===

impl Scaled {
    /// The kind of this version, if it is defined and has a scale subresource.
    fn find(cluster: &dyn Cluster, api_version: &str, kind: &str) -> Option<Self> {
        let (group, version) = api_version.split_once('/')?;
        let definitions = cluster.list(DEFINITIONS, None);
        let definition = definitions
            .iter()
            .find(|it| text(it, "/spec/group") == group && text(it, "/spec/names/kind") == kind)?;
        let mut versions = items(definition, "/spec/versions").iter();
        let version = versions.find(|it| text(it, "/name") == version)?;
        let scale = version.pointer("/subresources/scale")?;
        // Leaked on purpose, once for each scaled kind.
        let keep = |text: &str| -> &'static str { Box::leak(text.to_owned().into_boxed_str()) };
        Some(Self {
            resource: Resource {
                group: keep(group),
                plural: keep(text(definition, "/spec/names/plural")),
            },
            replicas: text(scale, "/specReplicasPath").to_owned(),
            selector: text(scale, "/labelSelectorPath").to_owned(),
        })
    }

    fn target(self, object: Value) -> Result<Target, String> {
        let Self { resource, replicas: path, selector } = self;
        let found = |path: &str| Path::parse(path).ok()?.first(&object).cloned();
        let replicas = found(&path).and_then(|count| count.as_i64());
        let replicas =
            replicas.ok_or_else(|| format!("the spec replicas field {path:?} does not exist"))?;
        let selector = found(&selector).and_then(|it| LabelSelector::parse(it.as_str()?).ok());
        let selector = selector.filter(|selector| !selector.is_everything());
        Ok(Target { resource, object, replicas, selector })
    }
}

// === impl Look ===

impl Look<'_> {
    /// Sets a condition; true if it changed.
    fn set(&mut self, kind: &str, status: &str, reason: &str, message: &str) -> bool {
        let old = self.conditions.iter().find(|c| text(c, "/type") == kind);
        let same =
            old.is_some_and(|old| text(old, "/status") == status && text(old, "/reason") == reason);
        let condition = Condition { kind, status, reason, message };
        condition.put(&mut self.conditions, self.cluster.now());
        !same
    }

    /// Writes the status: current and wanted replicas, metrics, conditions.
    fn write(
        self,
        replicas: Option<(i64, Option<i64>)>,
        metrics: Option<Vec<Value>>,
        rescaled: bool,
    ) -> Outcome<()> {
        let autoscaler = self.autoscaler;
        let mut status = autoscaler.get("status").cloned().unwrap_or_else(|| json!({}));
        if let Some((current, desired)) = replicas {
            set_at(&mut status, &["currentReplicas"], current);
            let before = count(autoscaler, "/status/desiredReplicas");
            set_at(&mut status, &["desiredReplicas"], desired.unwrap_or(before));
        }
        match metrics {
            Some(metrics) if metrics.is_empty() => unset(&mut status, "", "currentMetrics"),
            Some(metrics) => set_at(&mut status, &["currentMetrics"], metrics),
            None => {}
        }
        if rescaled {
            set_at(&mut status, &["lastScaleTime"], stamp(self.cluster.now()));
        }
        set_at(&mut status, &["conditions"], self.conditions);
        write_status(self.cluster, AUTOSCALERS, autoscaler, status).map(|_| ())
    }
}

#[cfg(test)]
mod tests;
