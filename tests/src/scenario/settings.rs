//! The settings of a canary, as a list of words: `interval 10s, stepWeight 20, maxWeight 60`.

use serde_json::{Value, json};

use super::command::number;

/// Puts each of the settings into the spec.
pub(super) fn apply(canary: &mut Value, settings: &str) -> Result<(), String> {
    for setting in settings.split(", ") {
        let words: Vec<&str> = setting.split_whitespace().collect();
        let spec = &mut canary["spec"];
        of_spec(spec, &words)
            .or_else(|| of_analysis(&mut spec["analysis"], &words))
            .or_else(|| of_lists(&mut spec["analysis"], &words))
            .unwrap_or_else(|| Err(format!("no such setting: `{setting}`")))?;
    }
    Ok(())
}

/// The hooks of a canary, as `type/name`.
pub(super) fn hooks(canary: &Value) -> Vec<String> {
    let hooks = canary["spec"]["analysis"]["webhooks"].as_array().into_iter().flatten();
    let url = |hook: &Value| hook["url"].as_str()?.strip_prefix("http://").map(str::to_owned);
    hooks.filter_map(url).collect()
}

/// `None` if the words are no setting of the spec.
fn of_spec(spec: &mut Value, words: &[&str]) -> Option<Result<(), String>> {
    let outcome = match words {
        ["provider", provider] => {
            spec["provider"] = json!(provider);
            if provider.starts_with("gatewayapi") {
                spec["service"]["gatewayRefs"] =
                    json!([{ "name": "gateway", "namespace": "default" }]);
            }
            Ok(())
        }
        ["progressDeadlineSeconds", seconds] => put(spec, "progressDeadlineSeconds", seconds),
        ["skipAnalysis" | "revertOnDeletion" | "suspend"] => {
            spec[words[0]] = json!(true);
            Ok(())
        }
        ["no", field @ ("skipAnalysis" | "revertOnDeletion" | "suspend" | "manualStep")] => {
            spec[*field] = Value::Null;
            Ok(())
        }
        ["manualStep", weight] => number::<i64>(weight).map(|weight| {
            spec["manualStep"] = json!({ "weight": weight });
        }),
        ["resume"] => {
            spec["manualStep"]["resume"] = json!(true);
            Ok(())
        }
        ["autoscaler"] => {
            spec["autoscalerRef"] = json!({
                "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "name": "web",
            });
            Ok(())
        }
        ["daemon", "set"] => {
            spec["targetRef"]["kind"] = json!("DaemonSet");
            Ok(())
        }
        ["service", "target"] => {
            spec["targetRef"] = json!({ "apiVersion": "v1", "kind": "Service", "name": "web" });
            Ok(())
        }
        ["scaled", "object"] => {
            spec["autoscalerRef"] = json!({
                "apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "name": "web",
            });
            Ok(())
        }
        _ => return None,
    };
    Some(outcome)
}

fn of_analysis(analysis: &mut Value, words: &[&str]) -> Option<Result<(), String>> {
    const NUMBERS: [&str; 8] = [
        "threshold",
        "stepWeight",
        "maxWeight",
        "stepWeightPromotion",
        "iterations",
        "mirrorWeight",
        "primaryReadyThreshold",
        "canaryReadyThreshold",
    ];
    let outcome = match words {
        ["interval", time] => {
            analysis["interval"] = json!(time);
            Ok(())
        }
        ["stepWeights", weights] => {
            let weights: Result<Vec<i64>, String> = weights.split('/').map(number).collect();
            weights.map(|weights| analysis["stepWeights"] = json!(weights))
        }
        ["mirror"] => {
            analysis["mirror"] = json!(true);
            Ok(())
        }
        ["match"] => {
            analysis["match"] = json!([{ "headers": { "x-canary": { "exact": "yes" } } }]);
            Ok(())
        }
        ["sessionAffinity"] => {
            analysis["sessionAffinity"] = json!({ "cookieName": "tide", "maxAge": 3600 });
            Ok(())
        }
        ["alerts", severity] => {
            let alert = json!({
                "name": "chat", "severity": severity, "providerRef": { "name": "chat" },
            });
            analysis["alerts"] = json!([alert]);
            Ok(())
        }
        ["no", field @ ("stepWeight" | "stepWeights" | "mirror" | "sessionAffinity")] => {
            analysis[*field] = Value::Null;
            Ok(())
        }
        ["no", "hooks"] => {
            analysis["webhooks"] = json!([]);
            Ok(())
        }
        [field, value] if NUMBERS.contains(field) => put(analysis, field, value),
        _ => return None,
    };
    Some(outcome)
}

/// Settings that add to a list.
fn of_lists(analysis: &mut Value, words: &[&str]) -> Option<Result<(), String>> {
    let outcome = match words {
        ["metrics"] => {
            push(analysis, "metrics", builtin("request-success-rate", &json!({ "min": 99 })));
            push(analysis, "metrics", builtin("request-duration", &json!({ "max": 500 })));
            Ok(())
        }
        ["inline", "metric", name, "max", max] => number::<f64>(max).map(|max| {
            let metric = json!({
                "name": name, "interval": "1m", "query": name, "thresholdRange": { "max": max },
            });
            push(analysis, "metrics", metric);
        }),
        ["templated", "metric", name, "max", max] => number::<f64>(max).map(|max| {
            let metric = json!({
                "name": name, "interval": "1m", "templateRef": { "name": name },
                "thresholdRange": { "max": max },
            });
            push(analysis, "metrics", metric);
        }),
        ["hook", kind, name, rest @ ..] => {
            hook(kind, name, rest).map(|hook| push(analysis, "webhooks", hook))
        }
        _ => return None,
    };
    Some(outcome)
}

fn builtin(name: &str, range: &Value) -> Value {
    json!({ "name": name, "interval": "1m", "thresholdRange": range })
}

fn hook(kind: &str, name: &str, options: &[&str]) -> Result<Value, String> {
    let mut hook =
        json!({ "name": name, "type": kind, "url": format!("http://hooks/{kind}/{name}") });
    match options {
        [] => {}
        ["muted"] => hook["muteAlert"] = json!(true),
        ["retries", retries] => hook["retries"] = json!(number::<i64>(retries)?),
        ["timeout", time] => hook["timeout"] = json!(time),
        _ => return Err("a hook can be `muted`, or have `retries N` or `timeout T`".to_owned()),
    }
    Ok(hook)
}

fn put(object: &mut Value, field: &str, value: &str) -> Result<(), String> {
    object[field] = json!(number::<i64>(value)?);
    Ok(())
}

fn push(object: &mut Value, field: &str, value: Value) {
    match object[field].as_array_mut() {
        Some(list) => list.push(value),
        None => object[field] = json!([value]),
    }
}
