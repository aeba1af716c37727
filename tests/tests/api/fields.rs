//! Unknown and duplicate fields: refused, warned of, or ignored.

use http::Method;
use serde_json::json;
use tidegate_tests::api::{Api, JSON_PATCH, MERGE_PATCH, Reply, STRATEGIC_PATCH};

use super::fixtures::{
    CONFIG_MAPS, DEPLOYMENTS, WIDGETS, cluster, config_map, deployment, widget, with_widgets,
};

async fn send(api: &Api, path: &str, validation: &str, body: &str) -> Reply {
    let path = format!("{path}?fieldValidation={validation}");
    api.ask(Method::POST, &path).body("application/json", body.to_owned()).send().await
}

#[tokio::test]
async fn strict_refuses_warn_warns_and_ignore_ignores() {
    let (_sandbox, api) = with_widgets().await;
    let mut built_in = deployment("d");
    built_in["spec"]["speed"] = 5.into();
    built_in["metadata"]["colour"] = "red".into();
    let mut custom = widget("w");
    custom["spec"]["speed"] = 5.into();
    custom["metadata"]["colour"] = "red".into();
    let cases = [
        (
            DEPLOYMENTS,
            built_in,
            "Deployment in version \"v1\" cannot be handled as a Deployment",
            ["metadata.colour", "spec.speed"],
        ),
        (
            WIDGETS,
            custom,
            "Widget in version \"v1\" cannot be handled as a Widget",
            ["metadata.colour", "spec.speed"],
        ),
    ];
    for (path, body, prefix, unknown) in cases {
        let body = body.to_string();
        let listed = unknown.map(|field| format!("unknown field \"{field}\""));
        let message = send(&api, path, "Strict", &body).await.refused(400, "BadRequest");
        let want = format!("{prefix}: strict decoding error: {}", listed.join(", "));
        assert_eq!(message, want);
        let ignored = send(&api, path, "Ignore", &body).await;
        assert_eq!(ignored.warnings(), Vec::<String>::new());
        let made = ignored.expect(201);
        assert_eq!(made["spec"].get("speed"), None);
        assert_eq!(made["metadata"].get("colour"), None);
        let name = made["metadata"]["name"].as_str().unwrap();
        let renamed = body.replace(&format!("\"name\":\"{name}\""), "\"name\":\"other\"");
        let warned = send(&api, path, "Warn", &renamed).await;
        let want = unknown.map(|field| format!("\"unknown field \\\"{field}\\\"\""));
        assert_eq!(warned.warnings(), want);
        warned.expect(201);
    }
}

#[tokio::test]
async fn a_field_given_twice_counts_as_a_problem() {
    let (_sandbox, api) = with_widgets().await;
    let body = r#"{"metadata":{"name":"a"},"data":{"x":"1","x":"2"}}"#;
    let message = send(&api, CONFIG_MAPS, "Strict", body).await.refused(400, "BadRequest");
    assert!(message.ends_with("strict decoding error: duplicate field \"data.x\""), "{message}");
    let warned = send(&api, CONFIG_MAPS, "", body).await;
    assert_eq!(warned.warnings(), ["\"duplicate field \\\"data.x\\\"\""], "warning is the default");
    assert_eq!(warned.expect(201)["data"]["x"], "2", "the last one counts");
    let yaml = "metadata: {name: b}\ndata:\n  x: '1'\n  x: '2'\n";
    let ask = |query: &str| {
        let path = format!("{CONFIG_MAPS}{query}");
        api.ask(Method::POST, &path).body("application/yaml", yaml)
    };
    let message = ask("?fieldValidation=Strict").send().await.refused(400, "BadRequest");
    assert!(message.contains("line 4: key \"x\" already set in map"), "{message}");
    let warned = ask("").send().await;
    assert_eq!(warned.warnings(), ["\"line 4: key \\\"x\\\" already set in map\""]);
    assert_eq!(warned.expect(201)["data"]["x"], "2");
}

#[tokio::test]
async fn patches_are_held_to_the_same() {
    let (_sandbox, api) = cluster();
    api.post(DEPLOYMENTS, deployment("d")).await.expect(201);
    let path = format!("{DEPLOYMENTS}/d");
    let merge = json!({ "spec": { "speed": 5 } });
    let steps = json!([{ "op": "add", "path": "/spec/speed", "value": 5 }]);
    for (media, patch, shown) in [
        (MERGE_PATCH, &merge, "\"{\\\"apiVersion\\\":\\\"apps/v1\\\""),
        (STRATEGIC_PATCH, &merge, "\"map[spec:map[speed:5]]\""),
        (JSON_PATCH, &steps, "\"{\\\"apiVersion\\\":\\\"apps/v1\\\""),
    ] {
        let strict = format!("{path}?fieldValidation=Strict");
        let reply = api.patch(&strict, media, patch.clone()).await;
        assert_eq!(reply.json()["details"]["causes"][0]["field"], "patch", "{media}");
        let message = reply.refused(422, "Invalid");
        let prefix = format!(" \"\" is invalid: patch: Invalid value: {shown}");
        assert!(message.starts_with(&prefix), "{media}: {message}");
        assert!(message.ends_with("strict decoding error: unknown field \"spec.speed\""));
        let warned = api.patch(&path, media, patch.clone()).await;
        assert_eq!(warned.warnings(), ["\"unknown field \\\"spec.speed\\\"\""], "{media}");
        assert_eq!(warned.expect(200)["spec"].get("speed"), None, "{media}");
    }
    let twice = r#"{"metadata":{"labels":{"a":"1","a":"2"}}}"#;
    let ask = api.ask(Method::PATCH, &path).body(MERGE_PATCH, twice);
    let warned = ask.send().await;
    assert_eq!(warned.warnings(), ["\"duplicate field \\\"metadata.labels.a\\\"\""]);
}

#[tokio::test]
async fn each_warning_is_given_once() {
    let (_sandbox, api) = cluster();
    let mut object = config_map("a");
    for index in 0..40 {
        object[format!("{index:03}{}", "x".repeat(300))] = 1.into();
    }
    let warnings = api.post(CONFIG_MAPS, object).await.warnings();
    assert!(warnings.len() < 40, "there is a bound: {}", warnings.len());
    assert!(warnings.iter().all(|text| text.len() < 270), "and the long ones are cut");
}
