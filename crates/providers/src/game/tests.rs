//! What a hook may ask of the cluster.

use serde_json::{Value, json};
use tidegate_api::game::hook::HookMetric;
use tidegate_engine::game::arguments::Argument;

use super::measure::{Question, judge_object, question, setting};

fn asked(function: &str, path: &str, arguments: &[(&str, &str)]) -> Result<Question, String> {
    let metric: HookMetric = serde_json::from_value(json!({
        "name": "m",
        "provider": { "kubernetes": {
            "function": function, "fields": [{ "path": path, "value": "yes" }],
        } },
    }))
    .unwrap();
    let pod = [("PodName", "arena-0"), ("PodNamespace", "default")];
    let arguments: Vec<Argument> = pod
        .iter()
        .chain(arguments)
        .map(|(name, value)| Argument { name: (*name).to_owned(), value: (*value).to_owned() })
        .collect();
    question(&metric, &arguments)
}

#[test]
fn a_hook_looks_at_pods_and_never_at_secrets() {
    let path = "metadata.annotations.example.com/drained";
    let Ok(Question::Object(pod)) = asked("get", path, &[]) else { unreachable!("pods are fine") };
    let object = |value: Value| json!({ "metadata": { "annotations": value } });
    let found = judge_object(&pod, Some(&object(json!({ "example.com/drained": "yes" }))));
    assert_eq!((found.phase.as_str(), found.value.as_str()), ("Successful", "yes"));
    let other = judge_object(&pod, Some(&object(json!({}))));
    assert_eq!(other.phase.as_str(), "Failed", "absent is a no, not an error");
    for kind in ["Secret", "ConfigMap"] {
        let arguments = [("Version", "v1"), ("Kind", kind)];
        assert!(asked("get", "data.token", &arguments).is_err(), "{kind}");
    }
}

#[test]
fn a_hook_sets_annotations_and_labels_and_nothing_else() {
    let Ok(Question::Object(set)) = asked("patch", "metadata.annotations.a/b.c", &[]) else {
        unreachable!("annotations may be set")
    };
    assert_eq!(setting(&set), json!({ "metadata": { "annotations": { "a/b.c": "yes" } } }));
    for path in ["spec.nodeName", "status.phase", "metadata.name"] {
        assert!(asked("patch", path, &[]).is_err(), "{path}");
        assert!(asked("get", path, &[]).is_ok(), "{path} may be looked at");
    }
}
