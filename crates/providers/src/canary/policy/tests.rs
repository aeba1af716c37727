//! Tables of policies: the doubtful ones with their findings, and hooks that cannot be called.

use serde_json::{Value, json};
use tidegate_api::canary::Canary;

use super::*;

/// Good but for the fields that are given; `null` removes one.
fn spec(analysis: Value) -> CanarySpec {
    let mut all = json!({
        "interval": "1m", "threshold": 5, "stepWeight": 10, "maxWeight": 50,
        "metrics": [{ "name": "request-success-rate", "thresholdRange": { "min": 99 } }],
    });
    if let (Some(all), Value::Object(fields)) = (all.as_object_mut(), analysis) {
        all.extend(fields);
        all.retain(|_, value| !value.is_null());
    }
    let canary: Canary = serde_json::from_value(json!({
        "metadata": { "name": "web", "namespace": "shop" },
        "spec": {
            "targetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
            "service": { "port": 80 },
            "analysis": all,
        },
    }))
    .unwrap();
    canary.spec
}

fn url_error(text: &str) -> Option<String> {
    (!text.starts_with("http://")).then(|| "it is odd".to_owned())
}

fn of(spec: &CanarySpec, mesh: Mesh) -> Vec<String> {
    let found = findings(spec, mesh, url_error);
    found.into_iter().map(|it| format!("{}: {}", it.id, it.text)).collect()
}

fn hook(kind: &str, url: &str) -> Value {
    json!([{ "name": "h", "type": kind, "url": url }])
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table")]
fn a_doubtful_policy_is_told_with_the_field_and_its_effect() {
    let by =
        |weights: Value| json!({ "stepWeight": null, "maxWeight": null, "stepWeights": weights });
    let (istio, plain) = (Mesh::Istio, Mesh::Kubernetes);
    let rounds = |count: i64| json!({ "iterations": count, "stepWeight": null, "maxWeight": null });
    let unchecked = |hooks: Value| json!({ "metrics": null, "webhooks": hooks });
    let nothing =
        "TG008: spec.analysis: no metric and no webhook checks the canary; time alone promotes it";
    let cases = [
        ("good", istio, json!({}), vec![]),
        (
            "not rising",
            istio,
            by(json!([50, 20, 10])),
            vec![
                "TG013: spec.analysis.stepWeights: the steps are 50, then promotion; [50, 20, 10] has \
                 others",
            ],
        ),
        (
            "beyond everything",
            istio,
            by(json!([200, 300])),
            vec![
                "TG013: spec.analysis.stepWeights: the steps are 100, then promotion; [200, 300] has \
                 others",
            ],
        ),
        ("rising", istio, by(json!([1, 2, 10, 100])), vec![]),
        (
            "one step",
            istio,
            json!({ "stepWeight": 101 }),
            vec!["TG013: spec.analysis.stepWeight: 101 is one step of 100"],
        ),
        (
            "no weight",
            istio,
            json!({ "maxWeight": 0 }),
            vec!["TG013: spec.analysis.maxWeight: 0 counts as 100"],
        ),
        (
            "a negative one",
            istio,
            json!({ "maxWeight": -1 }),
            vec!["TG013: spec.analysis.maxWeight: -1 counts as 100"],
        ),
        (
            "more than everything",
            istio,
            json!({ "maxWeight": 101 }),
            vec!["TG013: spec.analysis.maxWeight: 101 counts as 100"],
        ),
        ("weights of blue/green", istio, json!({ "maxWeight": 101, "iterations": 2 }), vec![]),
        (
            "no iterations",
            plain,
            rounds(0),
            vec!["TG017: spec.analysis.iterations: 0 counts as 10 with the provider `kubernetes`"],
        ),
        ("weights mean nothing there", plain, json!({ "maxWeight": 101 }), vec![]),
        (
            "no number",
            istio,
            json!({ "interval": "99999999999999999999s" }),
            vec![
                "TG016: spec.analysis.interval: \"99999999999999999999s\" is not a duration, so 60s is \
                 used; write one such as \"30s\"",
            ],
        ),
        (
            "space",
            istio,
            json!({ "interval": "1m " }),
            vec![
                "TG016: spec.analysis.interval: \"1m \" is not a duration, so 60s is used; write one such \
                 as \"30s\"",
            ],
        ),
        (
            "too often",
            istio,
            json!({ "interval": "9.9s" }),
            vec!["TG016: spec.analysis.interval: \"9.9s\" is raised to 10s"],
        ),
        ("as often as can be", istio, json!({ "interval": "10s" }), vec![]),
        ("nothing checks", istio, unchecked(json!([])), vec![nothing]),
        ("events check nothing", istio, unchecked(hook("event", "http://a")), vec![nothing]),
        ("nor what comes after", istio, unchecked(hook("post-rollout", "http://a")), vec![nothing]),
        ("a hook checks", istio, unchecked(hook("rollout", "http://a")), vec![]),
        ("a person checks", istio, unchecked(hook("confirm-promotion", "http://a")), vec![]),
        (
            "an event to nowhere",
            istio,
            json!({ "webhooks": hook("event", "ftp://a") }),
            vec!["TG021: spec.analysis.webhooks[0].url: it is odd, so the hook is never called"],
        ),
    ];
    for (reason, mesh, analysis, want) in cases {
        assert_eq!(of(&spec(analysis), mesh), want, "{reason}");
    }
}

#[test]
fn a_deadline_of_zero_is_told_and_a_skipped_analysis_is_not() {
    let mut late = spec(json!({ "stepWeight": 101 }));
    late.progress_deadline_seconds = Some(0);
    assert_eq!(of(&late, Mesh::Istio).len(), 2);
    late.skip_analysis = Some(true);
    assert_eq!(
        of(&late, Mesh::Istio),
        [
            "TG041: spec.progressDeadlineSeconds: 0 leaves no time: pods have to be ready at the next \
             look"
        ]
    );
}

#[test]
fn hooks_without_an_address_are_refused_but_for_events_and_approvals() {
    let errors = |kind, url| hook_errors(&spec(json!({ "webhooks": hook(kind, url) })), url_error);
    assert_eq!(
        errors("rollout", "ftp://a"),
        ["spec.analysis.webhooks[0].url: it is odd; `h` could never be called"]
    );
    assert_eq!(errors("confirm-promotion", "approval:release-managers"), [""; 0]);
    assert_eq!(errors("event", "ftp://a"), [""; 0]);
    assert_eq!(errors("rollout", "http://a"), [""; 0]);
}
