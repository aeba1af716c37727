//! Objects that the schemas accept and refuse: the manifests under `testdata`.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::corpus::{self, Kinds, merge, through_types};

#[test]
fn good_manifests_are_accepted_and_nothing_is_dropped() {
    let kinds = Kinds::compile();
    for manifest in corpus::documents("manifests") {
        let (stored, dropped) = kinds.stored(&manifest.object);
        let name = format!("{} in {}", manifest.name(), manifest.file);
        assert_eq!(dropped, Vec::<String>::new(), "{name}");
        assert_eq!(kinds.refusals(&stored, None), Vec::<String>::new(), "{name}");
        let unchanged = kinds.refusals(&stored, Some(&stored));
        assert_eq!(unchanged, Vec::<String>::new(), "{name}, written back as it is");
    }
}

#[test]
fn good_manifests_survive_decoding_and_encoding() {
    let kinds = Kinds::compile();
    for manifest in corpus::documents("manifests") {
        let name = format!("{} in {}", manifest.name(), manifest.file);
        let (stored, _) = kinds.stored(&manifest.object);
        for object in [&manifest.object, &stored] {
            assert_eq!(&through_types(object).expect(&name), object, "{name}");
        }
    }
}

#[test]
fn bad_manifests_are_refused_and_the_refusal_names_the_field() {
    let kinds = Kinds::compile();
    let good = corpus::by_name();
    let cases = corpus::documents("bad");
    assert!(cases.len() >= 80, "only {} cases", cases.len());
    for case in cases {
        let (file, case) = (case.file, case.object);
        let reason = case["reason"].as_str().unwrap();
        let base = case["base"].as_str().unwrap();
        let mut object = good.get(base).unwrap_or_else(|| panic!("no manifest {base}")).clone();
        if let Some(before) = case.get("before") {
            merge(&mut object, before);
        }
        let old = (case.get("update") == Some(&json!(true))).then(|| kinds.stored(&object).0);
        merge(&mut object, &case["merge"]);
        let refusals = kinds.refusals(&kinds.stored(&object).0, old.as_ref());
        let parts = [case["field"].as_str().unwrap(), case["says"].as_str().unwrap()];
        let named = refusals.iter().any(|text| parts.iter().all(|part| text.contains(part)));
        assert!(named, "{file}: {reason}: wanted {parts:?}, got {refusals:#?}");
    }
}

#[test]
fn lists_have_an_end() {
    let kinds = Kinds::compile();
    let good = corpus::by_name();
    let metric = |index: usize| json!({"name": format!("m{index}"), "provider": {"prometheus": {"address": "", "query": ""}}});
    let cases = [
        (
            "a route has so many parents",
            "Canary/service-gateway-api",
            json!({"spec": {"service": {"gatewayRefs": vec![json!({"name": "a"}); 33]}}}),
            "spec.service.gatewayRefs: Too many: 33: must have at most 32 items",
        ),
        (
            "nobody takes so many steps",
            "GameDeployment/arena",
            json!({"spec": {"updateStrategy": {"canary": {"steps": vec![json!({"pause": {}}); 101]}}}}),
            "spec.updateStrategy.canary.steps: Too many: 101: must have at most 100 items",
        ),
        (
            "nobody reads so many metrics",
            "HookTemplate/smoke",
            json!({"spec": {"metrics": (0..101).map(metric).collect::<Vec<_>>()}}),
            "spec.metrics: Too many: 101: must have at most 100 items",
        ),
    ];
    for (reason, base, patch, want) in cases {
        let mut object = good[base].clone();
        merge(&mut object, &patch);
        let refusals = kinds.refusals(&kinds.stored(&object).0, None);
        assert!(refusals.iter().any(|text| text == want), "{reason}: {refusals:#?}");
    }
}

#[test]
fn what_the_schema_cannot_refuse_fails_to_decode() {
    let kinds = Kinds::compile();
    let good = corpus::by_name();
    let cases = [
        ("half a check", "Canary/weights", json!({"spec": {"analysis": {"threshold": 2.5}}})),
        ("half a percent", "Canary/weights", json!({"spec": {"analysis": {"stepWeight": 50.5}}})),
        (
            "half an iteration",
            "Canary/blue-green",
            json!({"spec": {"analysis": {"iterations": 0.5}}}),
        ),
        (
            "half a step in a list",
            "Canary/step-weights",
            json!({"spec": {"analysis": {"stepWeights": [1, 2.5]}}}),
        ),
        ("half a port", "Canary/weights", json!({"spec": {"service": {"port": 80.5}}})),
        (
            "a port beyond 32 bits",
            "Canary/weights",
            json!({"spec": {"service": {"port": 4_294_967_376_u64}}}),
        ),
        ("half a second", "Canary/weights", json!({"spec": {"progressDeadlineSeconds": 0.5}})),
        ("half a failed check", "Canary/phase-waiting", json!({"status": {"failedChecks": 0.5}})),
        ("no spec at all", "Canary/weights", json!({"spec": null})),
        ("nor for a template", "MetricTemplate/error-rate-keptn", json!({"spec": null})),
    ];
    for (reason, base, patch) in cases {
        let mut object = good[base].clone();
        merge(&mut object, &patch);
        let (stored, _) = kinds.stored(&object);
        assert_eq!(kinds.refusals(&stored, None), Vec::<String>::new(), "{reason}");
        assert!(through_types(&stored).is_err(), "{reason}");
    }
}

#[test]
fn an_object_of_another_kind_does_not_decode() {
    let good = corpus::by_name();
    let mut object = good["Canary/weights"].clone();
    object["apiVersion"] = json!("flagger.app/v1alpha3");
    let error = through_types(&object).unwrap_err().to_string();
    assert_eq!(error, "expected flagger.app/v1beta1 Canary, found flagger.app/v1alpha3 Canary");
    // Items of a list come without either.
    object.as_object_mut().unwrap().remove("apiVersion");
    assert!(through_types(&object).is_ok());
}

#[test]
fn the_changes_a_release_is_made_of_are_accepted() {
    let kinds = Kinds::compile();
    let good = corpus::by_name();
    let image = |image: &str| json!([{"name": "python", "image": image}]);
    let cases = [
        (
            "a new image in place",
            "GameDeployment/arena",
            json!({"spec": {"template": {"spec": {"containers": image("python:3.5")}}}}),
        ),
        (
            "a new container by replacement",
            "GameDeployment/arena",
            json!({"spec": {
                "updateStrategy": {"type": "RollingUpdate"},
                "template": {"spec": {"containers": [{"name": "a"}, {"name": "b"}]}},
            }}),
        ),
        (
            "a resume",
            "GameDeployment/arena-paused",
            json!({"spec": {"updateStrategy": {"paused": false}}}),
        ),
        ("a new scale", "GameStatefulSet/realm", json!({"spec": {"replicas": 9}})),
        ("the end of a run", "HookRun/run-failed", json!({"spec": {"terminate": true}})),
        (
            "the result of a run",
            "HookRun/arena-9d78dd5db-4-player-age",
            json!({"status": {"phase": "Successful"}}),
        ),
        (
            "other metrics of a template",
            "HookTemplate/error-rate",
            json!({"spec": {"policy": "Ordered"}}),
        ),
        ("a resumed rollout", "Canary/shop-resumed", json!({"spec": {"manualStep": null}})),
        ("a canary without a spec", "Canary/weights", json!({"spec": null})),
    ];
    for (reason, base, patch) in cases {
        let (old, _) = kinds.stored(&good[base]);
        let mut object = old.clone();
        merge(&mut object, &patch);
        let (new, _) = kinds.stored(&object);
        assert_eq!(kinds.refusals(&new, Some(&old)), Vec::<String>::new(), "{reason}");
    }
}

#[test]
fn the_documented_json_patches_find_their_targets() {
    let kinds = Kinds::compile();
    let good = corpus::by_name();
    // A JSON patch cannot replace a member that is not there, so the schema stores its default.
    let paused = kinds.stored(&good["GameDeployment/arena"]).0;
    assert_eq!(paused.pointer("/spec/updateStrategy/paused"), Some(&json!(false)));
    let mut hooked = good["GameDeployment/arena"].clone();
    merge(
        &mut hooked,
        &json!({"spec": {"preDeleteUpdateStrategy": {"hook": {"templateName": "a"}}}}),
    );
    let hooked = kinds.stored(&hooked).0;
    assert_eq!(hooked.pointer("/spec/preDeleteUpdateStrategy/retry"), Some(&json!(false)));
}

#[test]
fn an_empty_pause_stays_an_empty_pause() {
    let stored = Kinds::compile().stored(&corpus::by_name()["GameDeployment/arena"]).0;
    let steps = "/spec/updateStrategy/canary/steps/1";
    assert_eq!(stored.pointer(steps), Some(&json!({"pause": {}})));
    let again = through_types(&stored).unwrap();
    assert_eq!(again.pointer(steps), Some(&json!({"pause": {}})));
}

#[test]
fn a_template_is_kept_to_the_letter() {
    let good = corpus::by_name();
    let template = &good["GameDeployment/match"]["spec"]["template"];
    assert_eq!(template["metadata"]["creationTimestamp"], Value::Null);
    let (stored, _) = Kinds::compile().stored(&good["GameDeployment/match"]);
    assert_eq!(&stored["spec"]["template"], template);
    assert_eq!(&through_types(&stored).unwrap()["spec"]["template"], template);
}

#[test]
fn every_field_and_every_value_of_an_enum_is_shown_by_a_manifest() {
    let manifests = corpus::documents("manifests");
    let (mut seen, mut declared) = (BTreeSet::new(), BTreeSet::new());
    for crd in tidegate_api::crds() {
        let kind = crd["spec"]["names"]["kind"].as_str().unwrap();
        for manifest in manifests.iter().filter(|m| m.kind() == kind) {
            note_members(&manifest.object, corpus::schema_of(&crd), kind, &mut seen);
        }
        declare_members(corpus::schema_of(&crd), kind, &mut declared);
    }
    let missing: Vec<_> = declared.difference(&seen).collect();
    assert_eq!(missing, Vec::<&String>::new());
}

/// Lists every path and enum value a schema declares.
fn declare_members(schema: &Value, path: &str, declared: &mut BTreeSet<String>) {
    declared.insert(path.to_owned());
    for option in schema["enum"].as_array().into_iter().flatten() {
        declared.insert(choice(path, schema, option));
    }
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        declare_members(inner, &format!("{path}.{name}"), declared);
    }
    for (keyword, mark) in [("items", "[]"), ("additionalProperties", "{}")] {
        if let Some(inner) = schema.get(keyword) {
            declare_members(inner, &format!("{path}{mark}"), declared);
        }
    }
}

/// A value of an enum. Fields of one name with the same options are taken together.
fn choice(path: &str, schema: &Value, value: &Value) -> String {
    let field = path.rsplit('.').next().unwrap_or(path);
    format!("{field} = {value} of {}", schema["enum"])
}

/// Lists every declared path and enum value an object uses.
fn note_members(value: &Value, schema: &Value, path: &str, seen: &mut BTreeSet<String>) {
    seen.insert(path.to_owned());
    if schema.get("enum").is_some() {
        seen.insert(choice(path, schema, value));
    }
    for (name, inner) in value.as_object().into_iter().flatten() {
        if let Some(schema) = schema["properties"].get(name) {
            note_members(inner, schema, &format!("{path}.{name}"), seen);
        } else if let Some(schema) = schema.get("additionalProperties") {
            note_members(inner, schema, &format!("{path}{{}}"), seen);
        }
    }
    for inner in value.as_array().into_iter().flatten() {
        note_members(inner, &schema["items"], &format!("{path}[]"), seen);
    }
}
