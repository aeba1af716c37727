//! Conversion of autoscalers to and from `autoscaling/v1`, which has CPU utilization only and keeps
//! the rest in annotations.
//!
//! The two functions are inverse to each other for everything that the API server keeps, so that a
//! client of version 1 can read and write an autoscaler of version 2 without loss. The server's
//! version conversion calls them.

use serde_json::{Map, Value, json};

use super::{
    autoscaler::cpu_utilization,
    edit::{default_to, object, remove, set, text},
};

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const TOLERANCES: [&str; 2] = [
    "autoscaling.alpha.kubernetes.io/scale-down-tolerance",
    "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
];

const TARGET_CPU: &str = "targetCPUUtilizationPercentage";
const CURRENT_CPU: &str = "currentCPUUtilizationPercentage";
const DEFAULT_UTILIZATION: i64 = 80;

/// An object written by a client of version 1, as version 2.
pub(crate) fn hpa_v1_to_v2(v1: &Value) -> Value {
    let mut v2 = v1.clone();
    set(&mut v2, "apiVersion", "autoscaling/v2");
    let kept = take_annotations(&mut v2);
    let read =
        |name: &str| -> Option<Value> { serde_json::from_str(kept.get(name)?.as_str()?).ok() };
    let read_list = |name: &str| match read(name) {
        Some(Value::Array(items)) => Some(items),
        _ => None,
    };
    if let Some(spec) = object(&mut v2, "spec") {
        let cpu = remove(spec, TARGET_CPU).and_then(|percent| percent.as_i64());
        let others = read_list(METRICS).unwrap_or_default();
        let mut metrics: Vec<Value> =
            others.iter().map(|metric| metric_to_v2(metric, &SPEC)).collect();
        metrics.extend(cpu.map(cpu_utilization));
        if metrics.is_empty() {
            metrics.push(cpu_utilization(DEFAULT_UTILIZATION));
        }
        set(spec, "metrics", metrics);
        if let Some(behavior) = read(BEHAVIOR).filter(Value::is_object) {
            set(spec, "behavior", recase(&behavior, lower_first));
        }
    }
    if let Some(status) = object(&mut v2, "status") {
        let cpu = remove(status, CURRENT_CPU).and_then(|percent| percent.as_i64());
        if let Some(percent) = cpu {
            let current = json!({"averageUtilization": percent});
            let metric =
                json!({"type": "Resource", "resource": {"name": "cpu", "current": current}});
            set(status, "currentMetrics", json!([metric]));
        }
        if let Some(metrics) = read_list(CURRENT_METRICS) {
            let metrics: Vec<_> = metrics.iter().map(|m| metric_to_v2(m, &STATUS)).collect();
            set(status, "currentMetrics", metrics);
        }
        if let Some(conditions) = read(CONDITIONS).filter(Value::is_array) {
            set(status, "conditions", conditions);
        }
        default_to(status, "currentMetrics", Value::Null);
    }
    v2
}

/// A stored object, as a client of version 1 reads it.
pub(crate) fn hpa_v2_to_v1(v2: &Value) -> Value {
    let mut v1 = v2.clone();
    set(&mut v1, "apiVersion", "autoscaling/v1");
    take_annotations(&mut v1);
    let mut notes = Vec::new();
    if let Some(spec) = object(&mut v1, "spec") {
        let metrics = match remove(spec, "metrics") {
            Some(Value::Array(metrics)) => metrics,
            _ => Vec::new(),
        };
        let (cpu, others): (Vec<_>, Vec<_>) =
            metrics.iter().partition(|metric| cpu_target(metric).is_some());
        if let Some(percent) = cpu.first().and_then(|metric| cpu_target(metric)) {
            set(spec, TARGET_CPU, percent.clone());
        }
        if !others.is_empty() {
            let others: Vec<_> = others.into_iter().map(|m| metric_to_v1(m, &SPEC)).collect();
            notes.push((METRICS, Value::from(others)));
        }
        if let Some(behavior) = remove(spec, "behavior").filter(Value::is_object) {
            notes.push((BEHAVIOR, recase(&behavior, upper_first)));
        }
    }
    if let Some(status) = object(&mut v1, "status") {
        default_to(status, "currentReplicas", 0);
        if let Some(Value::Array(metrics)) = remove(status, "currentMetrics") {
            let percent = metrics.iter().find_map(|metric| {
                let is_cpu = metric.pointer("/resource/name") == Some(&json!("cpu"));
                metric.pointer("/resource/current/averageUtilization").filter(|_| is_cpu)
            });
            if let Some(percent) = percent {
                set(status, CURRENT_CPU, percent.clone());
            }
            let metrics: Vec<_> = metrics.iter().map(|m| metric_to_v1(m, &STATUS)).collect();
            if !metrics.is_empty() {
                notes.push((CURRENT_METRICS, Value::from(metrics)));
            }
        }
        if let Some(conditions) = remove(status, "conditions") {
            notes.push((CONDITIONS, conditions));
        }
    }
    let annotations = object(&mut v1, "metadata").filter(|_| !notes.is_empty());
    if let Some(annotations) = annotations.and_then(|meta| object(meta, "annotations")) {
        for (name, value) in notes {
            set(annotations, name, value.to_string());
        }
    }
    v1
}

/// Removes the annotations that stand for fields, and returns them.
fn take_annotations(autoscaler: &mut Value) -> Map<String, Value> {
    let mut taken = Map::new();
    let Some(meta) = object(autoscaler, "metadata") else { return taken };
    let Some(annotations) = meta.get_mut("annotations").and_then(Value::as_object_mut) else {
        return taken;
    };
    let names = [METRICS, CURRENT_METRICS, CONDITIONS, BEHAVIOR].into_iter().chain(TOLERANCES);
    for name in names {
        taken.extend(annotations.remove_entry(name));
    }
    if annotations.is_empty() {
        remove(meta, "annotations");
    }
    taken
}

fn cpu_target(metric: &Value) -> Option<&Value> {
    let is_cpu = metric.pointer("/resource/name") == Some(&json!("cpu"));
    let is_resource = text(metric, "type") == "Resource";
    let percent = metric.pointer("/resource/target/averageUtilization");
    percent.filter(|percent| is_cpu && is_resource && !percent.is_null())
}

/// Version 1 names of the fields that version 2 nests in `inner`.
struct Names {
    inner: &'static str,
    value: &'static str,
    average_value: &'static str,
    utilization: &'static str,
}

const SPEC: Names = Names {
    inner: "target",
    value: "targetValue",
    average_value: "targetAverageValue",
    utilization: "targetAverageUtilization",
};

const STATUS: Names = Names {
    inner: "current",
    value: "currentValue",
    average_value: "currentAverageValue",
    utilization: "currentAverageUtilization",
};

const SOURCES: [(&str, &str); 5] = [
    ("Object", "object"),
    ("Pods", "pods"),
    ("Resource", "resource"),
    ("ContainerResource", "containerResource"),
    ("External", "external"),
];

fn metric_to_v1(metric: &Value, names: &Names) -> Value {
    let mut old = json!({"type": text(metric, "type")});
    for (kind, key) in SOURCES {
        if let Some(source) = metric.get(key) {
            set(&mut old, key, source_to_v1(source, kind, names));
        }
    }
    old
}

fn source_to_v1(source: &Value, kind: &str, names: &Names) -> Value {
    let inner = source.get(names.inner);
    let amount = |key: &str| inner.and_then(|inner| inner.get(key)).cloned();
    let mut old = json!({});
    let mut put = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            set(&mut old, key, value);
        }
    };
    let metric_name = source.pointer("/metric/name").cloned();
    let selector = source.pointer("/metric/selector").cloned();
    match kind {
        "Resource" | "ContainerResource" => {
            put("name", source.get("name").cloned());
            put("container", source.get("container").cloned());
            put(names.utilization, amount("averageUtilization"));
            put(names.average_value, amount("averageValue"));
        }
        "Object" => {
            put("target", source.get("describedObject").cloned());
            put("metricName", metric_name);
            put("selector", selector);
            put(names.value, Some(amount("value").unwrap_or(json!("0"))));
            put("averageValue", amount("averageValue"));
        }
        "Pods" => {
            put("metricName", metric_name);
            put("selector", selector);
            put(names.average_value, Some(amount("averageValue").unwrap_or(json!("0"))));
        }
        _ => {
            put("metricName", metric_name);
            put("metricSelector", selector);
            put(names.value, amount("value"));
            put(names.average_value, amount("averageValue"));
        }
    }
    old
}

fn metric_to_v2(metric: &Value, names: &Names) -> Value {
    let mut new = json!({"type": text(metric, "type")});
    for (kind, key) in SOURCES {
        if let Some(source) = metric.get(key) {
            set(&mut new, key, source_to_v2(source, kind, names));
        }
    }
    new
}

fn source_to_v2(source: &Value, kind: &str, names: &Names) -> Value {
    let of = |key: &str| source.get(key).cloned();
    let average_value = if kind == "Object" { of("averageValue") } else { of(names.average_value) };
    let value = of(names.value).filter(|value| {
        // Version 1 cannot leave an object's value out; zero beside an average means absent.
        !(kind == "Object" && average_value.is_some() && *value == json!("0"))
    });
    let utilization = of(names.utilization);
    let mut inner = json!({});
    if names.inner == "target" {
        let kind = match (&utilization, &value, &average_value) {
            (Some(_), _, _) => "Utilization",
            (None, _, Some(_)) if kind != "External" || value.is_none() => "AverageValue",
            (None, Some(_), _) => "Value",
            _ => "AverageValue",
        };
        set(&mut inner, "type", kind);
    }
    for (key, amount) in
        [("averageUtilization", utilization), ("value", value), ("averageValue", average_value)]
    {
        if let Some(amount) = amount {
            set(&mut inner, key, amount);
        }
    }
    let mut new = json!({});
    set(&mut new, names.inner, inner);
    if matches!(kind, "Resource" | "ContainerResource") {
        for key in ["name", "container"] {
            if let Some(value) = of(key) {
                set(&mut new, key, value);
            }
        }
        return new;
    }
    let mut metric = json!({"name": text(source, "metricName")});
    let selector = if kind == "External" { of("metricSelector") } else { of("selector") };
    if let Some(selector) = selector {
        set(&mut metric, "selector", selector);
    }
    set(&mut new, "metric", metric);
    if kind == "Object" {
        set(&mut new, "describedObject", of("target").unwrap_or(json!({})));
    }
    new
}

/// Behavior is kept in the API server's internal type, whose fields begin with a capital.
fn recase(value: &Value, first: fn(&str) -> String) -> Value {
    match value {
        Value::Object(members) => members
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (first(key), recase(value, first)))
            .collect::<Map<_, _>>()
            .into(),
        Value::Array(items) => items.iter().map(|item| recase(item, first)).collect(),
        other => other.clone(),
    }
}

fn upper_first(key: &str) -> String {
    let mut chars = key.chars();
    chars.next().map(|c| c.to_ascii_uppercase()).into_iter().chain(chars).collect()
}

fn lower_first(key: &str) -> String {
    let mut chars = key.chars();
    chars.next().map(|c| c.to_ascii_lowercase()).into_iter().chain(chars).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_autoscaler_of_version_2_survives_version_1() {
        let v2 = json!({
            "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "web", "annotations": {"a": "b"}},
            "spec": {
                "minReplicas": 1, "maxReplicas": 5,
                "metrics": [
                    {"type": "Resource", "resource": {"name": "memory",
                     "target": {"type": "AverageValue", "averageValue": "1Gi"}}},
                    {"type": "Pods", "pods": {"metric": {"name": "rps"},
                     "target": {"type": "AverageValue", "averageValue": "10"}}},
                    {"type": "Object", "object": {"metric": {"name": "rps"},
                     "describedObject": {"kind": "Service", "name": "web"},
                     "target": {"type": "AverageValue", "averageValue": "10"}}},
                    {"type": "External", "external": {"metric": {"name": "queue",
                     "selector": {"matchLabels": {"q": "a"}}},
                     "target": {"type": "Value", "value": "30"}}},
                    {"type": "Resource", "resource": {"name": "cpu",
                     "target": {"type": "Utilization", "averageUtilization": 70}}},
                ],
                "behavior": {"scaleDown": {"selectPolicy": "Max",
                    "policies": [{"type": "Percent", "value": 10, "periodSeconds": 60}]}},
            },
            "status": {
                "desiredReplicas": 2, "currentReplicas": 2,
                "currentMetrics": [{"type": "Resource", "resource": {"name": "cpu",
                    "current": {"averageUtilization": 12, "averageValue": "100m"}}}],
                "conditions": [{"type": "AbleToScale", "status": "True"}],
            },
        });
        let v1 = hpa_v2_to_v1(&v2);
        assert_eq!(v1["apiVersion"], "autoscaling/v1");
        assert_eq!(v1["spec"][TARGET_CPU], 70);
        assert_eq!(v1["status"][CURRENT_CPU], 12);
        assert_eq!(v1["spec"].get("metrics"), None);
        let behavior = v1["metadata"]["annotations"][BEHAVIOR].as_str().unwrap_or_default();
        assert!(behavior.contains("\"PeriodSeconds\":60"), "{behavior}");
        assert_eq!(hpa_v1_to_v2(&v1), v2);
    }

    #[test]
    fn version_1_without_a_target_means_eighty_percent() {
        let v1 = json!({"spec": {"maxReplicas": 3}, "metadata": {"name": "web"}});
        let v2 = hpa_v1_to_v2(&v1);
        let target = "/spec/metrics/0/resource/target/averageUtilization";
        assert_eq!(v2.pointer(target), Some(&json!(80)));
    }
}
