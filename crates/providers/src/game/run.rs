//! Runs of hooks: their purpose, their metrics, their results.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tidegate_api::{
    duration::GoDuration,
    game::{
        HookPhase as ApiPhase, HookRunSpec, HookRunStatus, HookTemplateSpec,
        hook::{
            HookArgument, HookMetric, HookPolicy, Measurement as ApiMeasurement,
            MetricResult as ApiResult,
        },
    },
};
use tidegate_engine::{
    Moment, Revision,
    game::{
        HookKind, HookPhase, HookRun, HookStart, KnownTemplate, Pod, Purpose,
        arguments::{Argument, Declared},
        hook::{Assessment, Measurement, Metric, MetricResult, Policy, Run},
    },
};

use super::{HOOK_RUN, measure, names, revision::owner, time};
use crate::object::Kind;

/// Labels of runs for pods, by kind of hook.
const POD_TYPES: [(HookKind, &str); 3] = [
    (HookKind::PreDelete, "pre-delete-step"),
    (HookKind::PreInPlace, "pre-inplace-step"),
    (HookKind::PostInPlace, "post-inplace-step"),
];

/// A run as its workload sees it. `None` without a known purpose: it is not this controller's.
pub fn read(object: &Value) -> Option<HookRun> {
    let metadata = &object["metadata"];
    Some(HookRun {
        name: metadata["name"].as_str()?.to_owned(),
        purpose: purpose(metadata)?,
        phase: phase(&object["status"]["phase"]),
        is_terminated: object["spec"]["terminate"] == true,
        created: time::read(&metadata["creationTimestamp"]).unwrap_or_default(),
    })
}

fn purpose(metadata: &Value) -> Option<Purpose> {
    let label = |name: &str| metadata["labels"][name].as_str();
    let annotation = |name: &str| metadata["annotations"][name].as_str();
    let kind = label(names::RUN_TYPE)?;
    if kind == names::STEP_RUN {
        return Some(Purpose::Step {
            revision: Revision::new(label(names::RUN_REVISION)?),
            index: label(names::RUN_STEP)?.parse().ok()?,
        });
    }
    let (kind, _) = POD_TYPES.into_iter().find(|(_, word)| *word == kind)?;
    Some(Purpose::Pod {
        kind,
        pod: annotation(names::RUN_POD)?.to_owned(),
        uid: annotation(names::RUN_POD_UID)?.to_owned(),
        target: annotation(names::RUN_TARGET).map(Revision::new),
    })
}

/// The purpose of a run, as its label has it.
pub fn type_of(purpose: &Purpose) -> &'static str {
    match purpose {
        Purpose::Step { .. } => names::STEP_RUN,
        Purpose::Pod { kind, .. } => {
            let word = POD_TYPES.into_iter().find(|(known, _)| known == kind);
            word.map_or("", |(_, word)| word)
        }
    }
}

/// A template, for the engine.
pub fn template(template: &Value) -> KnownTemplate {
    KnownTemplate { declared: declared(template), problems: problems(template) }
}

/// The problems of a template, with any arguments.
fn problems(template: &Value) -> Vec<String> {
    let spec = serde_json::from_value::<HookTemplateSpec>(template["spec"].clone());
    let Ok(spec) = spec else { return vec!["the spec cannot be read".to_owned()] };
    let metrics = match spec.metrics.iter().map(metric).collect::<Result<Vec<_>, _>>() {
        Ok(metrics) => metrics,
        Err(why) => return vec![why],
    };
    let run = Run {
        phase: None,
        started: None,
        terminate: false,
        policy: Policy::Parallel,
        deadline: None,
        metrics,
        results: Vec::new(),
    };
    if let Err(invalid) = run.validate() {
        return vec![invalid.to_string()];
    }
    let argument = |it: &HookArgument| Argument { name: it.name.clone(), value: String::new() };
    let declared: Vec<Argument> = spec.args.iter().map(argument).collect();
    let doubts = spec.metrics.iter().filter_map(|metric| {
        let doubt = measure::doubt(metric, &declared)?;
        Some(format!("metric {}: {doubt}", metric.name))
    });
    doubts.collect()
}

fn declared(template: &Value) -> Vec<Declared> {
    let arguments = template["spec"]["args"].as_array().into_iter().flatten();
    let declared = arguments.filter_map(|argument| {
        Some(Declared {
            name: argument["name"].as_str()?.to_owned(),
            value: argument["value"].as_str().map(str::to_owned),
        })
    });
    declared.collect()
}

/// A run to make: a copy of its template. `pod` is the one it is for, if it is for one.
pub fn new(
    kind: Kind,
    workload: &Value,
    template: &Value,
    start: &HookStart,
    pod: Option<&Pod>,
) -> Value {
    let mut labels = Map::new();
    let mut annotations = Map::new();
    let mut label = |name: &str, value: &str| labels.insert(name.to_owned(), value.into());
    match &start.purpose {
        Purpose::Step { revision, index } => {
            label(names::RUN_TYPE, type_of(&start.purpose));
            label(names::RUN_REVISION, revision.as_str());
            label(names::RUN_STEP, &index.to_string());
        }
        Purpose::Pod { kind: _, pod: name, uid, target } => {
            label(names::RUN_TYPE, type_of(&start.purpose));
            label(names::RUN_INSTANCE, pod.map_or("", |pod| pod.id.as_str()));
            // The pod's revision now, not the one to come: people look for runs by it.
            if let Some(revision) = pod.and_then(|pod| pod.revision.as_ref()) {
                label(names::RUN_REVISION, revision.as_str());
            }
            if let Some(target) = target {
                annotations.insert(names::RUN_TARGET.to_owned(), target.as_str().into());
            }
            annotations.insert(names::RUN_POD.to_owned(), name.as_str().into());
            annotations.insert(names::RUN_POD_UID.to_owned(), uid.as_str().into());
        }
    }
    let mut metadata = json!({
        "name": start.name, "namespace": workload["metadata"]["namespace"], "labels": labels,
        "ownerReferences": [owner(kind, workload)],
    });
    if !annotations.is_empty() {
        metadata["annotations"] = annotations.into();
    }
    json!({
        "apiVersion": HOOK_RUN.api_version(), "kind": HOOK_RUN.kind,
        "metadata": metadata, "spec": spec(template, &start.arguments),
    })
}

/// Members without effect are left out; a limit of zero stays where its absence means something else.
fn spec(template: &Value, arguments: &[Argument]) -> Value {
    let metrics = template["spec"]["metrics"].as_array().into_iter().flatten();
    let mut spec = json!({ "metrics": metrics.map(copied).collect::<Vec<_>>() });
    if !arguments.is_empty() {
        let argument = |it: &Argument| json!({ "name": it.name, "value": it.value });
        spec["args"] = arguments.iter().map(argument).collect();
    }
    if let Some(policy) = template["spec"]["policy"].as_str() {
        spec["policy"] = policy.into();
    }
    if template["spec"]["deadlineSeconds"].is_i64() {
        spec["deadlineSeconds"] = template["spec"]["deadlineSeconds"].clone();
    }
    spec
}

fn copied(metric: &Value) -> Value {
    let Some(members) = metric.as_object() else { return metric.clone() };
    let waits = metric["successfulLimit"].as_i64().unwrap_or(0) > 0
        || metric["consecutiveSuccessfulLimit"].is_i64();
    let says_nothing = |name: &str, value: &Value| match name {
        // Absent means no limit of failures where a metric waits, and four where it checks.
        "failureLimit" => *value == 0 && !waits,
        "consecutiveErrorLimit" => false,
        _ => *value == 0 || *value == "",
    };
    let kept = members.iter().filter(|(name, value)| !says_nothing(name, value));
    Value::Object(kept.map(|(name, value)| (name.clone(), value.clone())).collect())
}

/// A run with its metrics, for the part that measures. `Err` says what cannot be read.
pub struct Reading {
    /// For the engine.
    pub run: Run,
    /// The metrics, in the same order.
    pub metrics: Vec<HookMetric>,
    /// Arguments to fill in.
    pub arguments: Vec<Argument>,
}

/// Whether nothing will change in a run any more.
pub fn is_over(object: &Value) -> bool {
    phase(&object["status"]["phase"]).is_some_and(HookPhase::is_final)
}

impl Reading {
    /// The problem of a metric before any measurement; nothing if all can be measured.
    pub fn problem(&self) -> Option<String> {
        self.metrics.iter().find_map(|metric| {
            let problem = measure::problem(metric, &self.arguments)?;
            Some(format!("metric {}: {problem}", metric.name))
        })
    }
}

/// A run as it is.
pub fn measured(object: &Value) -> Result<Reading, String> {
    let spec: HookRunSpec = serde_json::from_value(object["spec"].clone())
        .map_err(|error| format!("the spec cannot be read: {error}"))?;
    let status: HookRunStatus =
        serde_json::from_value(object["status"].clone()).unwrap_or_default();
    let argument =
        |it: &HookArgument| Some(Argument { name: it.name.clone(), value: it.value.clone()? });
    let metrics = spec.metrics.iter().map(metric).collect::<Result<Vec<_>, _>>()?;
    let run = Run {
        phase: status.phase.map(engine_phase),
        started: status.started_at.as_ref().map(time::moment),
        terminate: spec.terminate == Some(true),
        policy: match spec.policy {
            Some(HookPolicy::Ordered) => Policy::Ordered,
            Some(HookPolicy::Parallel) | None => Policy::Parallel,
        },
        deadline: spec
            .deadline_seconds
            .and_then(|it| u64::try_from(it).ok())
            .map(Duration::from_secs),
        metrics,
        results: status.metric_results.iter().map(result).collect(),
    };
    let arguments = spec.args.iter().filter_map(argument).collect();
    Ok(Reading { run, metrics: spec.metrics, arguments })
}

fn metric(metric: &HookMetric) -> Result<Metric, String> {
    let duration = |member: &str, text: &Option<String>| -> Result<Option<Duration>, String> {
        let Some(text) = text.as_deref().filter(|text| !text.is_empty()) else { return Ok(None) };
        let parsed = text.parse::<GoDuration>().ok().and_then(GoDuration::to_std);
        parsed
            .map(Some)
            .ok_or_else(|| format!("{member} of metric {} is no duration: {text}", metric.name))
    };
    let limit = |limit: Option<i32>| i64::from(limit.unwrap_or(0));
    let provider = &metric.provider;
    let providers =
        [provider.web.is_some(), provider.prometheus.is_some(), provider.kubernetes.is_some()];
    Ok(Metric {
        name: metric.name.clone(),
        interval: duration("interval", &metric.interval)?,
        initial_delay: duration("initialDelay", &metric.initial_delay)?,
        count: limit(metric.count),
        failure_limit: metric.failure_limit.map(i64::from),
        successful_limit: limit(metric.successful_limit),
        inconclusive_limit: limit(metric.inconclusive_limit),
        consecutive_error_limit: metric.consecutive_error_limit.map(i64::from),
        consecutive_successful_limit: metric.consecutive_successful_limit.map(i64::from),
        providers: providers.into_iter().filter(|it| *it).count(),
    })
}

fn result(result: &ApiResult) -> MetricResult {
    MetricResult {
        name: result.name.clone(),
        phase: result.phase.map(engine_phase),
        message: result.message.clone(),
        measurements: result.measurements.iter().map(measurement).collect(),
        count: result.count.into(),
        successful: result.successful.into(),
        failed: result.failed.into(),
        inconclusive: result.inconclusive.into(),
        error: result.error.into(),
        consecutive_error: result.consecutive_error.into(),
        consecutive_successful: result.consecutive_successful.into(),
    }
}

fn measurement(measurement: &ApiMeasurement) -> Measurement {
    Measurement {
        phase: measurement.phase.map_or(HookPhase::Error, engine_phase),
        message: measurement.message.clone(),
        started: measurement.started_at.as_ref().map(time::moment).unwrap_or_default(),
        finished: measurement.finished_at.as_ref().map(time::moment),
        resume: measurement.resume_at.as_ref().map(time::moment),
        value: measurement.value.clone().unwrap_or_default(),
    }
}

/// The merge patch of the status that records the result of a run.
pub fn patch(object: &Value, assessment: &Assessment) -> Value {
    let status = HookRunStatus {
        phase: Some(api_phase(assessment.phase)),
        message: assessment.message.clone(),
        started_at: Some(time::time(assessment.started)),
        completed_at: assessment.completed.map(time::time),
        metric_results: assessment.results.iter().map(api_result).collect(),
    };
    let mut status = serde_json::to_value(status).unwrap_or_default();
    for member in ["message", "completedAt"] {
        if status[member].is_null() && !object["status"][member].is_null() {
            status[member] = Value::Null;
        }
    }
    json!({
        "metadata": { "resourceVersion": object["metadata"]["resourceVersion"] },
        "status": status,
    })
}

fn api_result(result: &MetricResult) -> ApiResult {
    let number = |number: i64| i32::try_from(number).unwrap_or(i32::MAX);
    ApiResult {
        name: result.name.clone(),
        phase: result.phase.map(api_phase),
        message: result.message.clone(),
        measurements: result.measurements.iter().map(api_measurement).collect(),
        count: number(result.count),
        successful: number(result.successful),
        failed: number(result.failed),
        inconclusive: number(result.inconclusive),
        error: number(result.error),
        consecutive_error: number(result.consecutive_error),
        consecutive_successful: number(result.consecutive_successful),
    }
}

fn api_measurement(measurement: &Measurement) -> ApiMeasurement {
    ApiMeasurement {
        phase: Some(api_phase(measurement.phase)),
        message: measurement.message.clone(),
        started_at: Some(time::time(measurement.started)),
        finished_at: measurement.finished.map(time::time),
        resume_at: measurement.resume.map(time::time),
        value: (!measurement.value.is_empty()).then(|| measurement.value.clone()),
    }
}

/// The phase in an object, if it is one.
fn phase(value: &Value) -> Option<HookPhase> {
    serde_json::from_value::<ApiPhase>(value.clone()).ok().map(engine_phase)
}

pub(super) fn engine_phase(phase: ApiPhase) -> HookPhase {
    match phase {
        ApiPhase::Pending => HookPhase::Pending,
        ApiPhase::Running => HookPhase::Running,
        ApiPhase::Successful => HookPhase::Successful,
        ApiPhase::Failed => HookPhase::Failed,
        ApiPhase::Error => HookPhase::Error,
        ApiPhase::Inconclusive => HookPhase::Inconclusive,
    }
}

pub(super) fn api_phase(phase: HookPhase) -> ApiPhase {
    match phase {
        HookPhase::Pending => ApiPhase::Pending,
        HookPhase::Running => ApiPhase::Running,
        HookPhase::Successful => ApiPhase::Successful,
        HookPhase::Failed => ApiPhase::Failed,
        HookPhase::Error => ApiPhase::Error,
        HookPhase::Inconclusive => ApiPhase::Inconclusive,
    }
}

/// The event at the end of a run or a metric.
pub fn completion_event(phase: HookPhase, what: &str) -> (&'static str, bool, String) {
    let is_bad = matches!(phase, HookPhase::Failed | HookPhase::Error);
    let reason = if is_bad { "Failed" } else { "Complete" };
    (reason, is_bad, format!("{what} completed {}", phase.as_str()))
}

/// The moment a measurement is stamped with.
pub fn now_in_seconds(now: Moment) -> Moment {
    Moment(now.0.div_euclid(1000) * 1000)
}
