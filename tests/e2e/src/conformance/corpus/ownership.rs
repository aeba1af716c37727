//! Ownership of fields: applies by several managers on lists, maps, defaults, subresources.

use serde_json::{Value, json};

use crate::conformance::request::{APPLY, JSON_PATCH, MERGE, STRATEGIC, Story};

const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/${ns}/deployments/web";
const WIDGET: &str = "/apis/example.com/v1/namespaces/${ns}/widgets/w";
const SERVICE: &str = "/api/v1/namespaces/${ns}/services/web";
const MAP: &str = "/api/v1/namespaces/${ns}/configmaps/m";

pub(super) fn stories() -> Vec<Story> {
    vec![
        deployments(),
        widgets(),
        services(),
        maps(),
        takeover(),
        edited_by_hand(),
        versions(),
        controllers(),
        binary(),
    ]
}

fn deployment(spec: &Value) -> Value {
    let object =
        json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" } });
    super::merged(&object, &json!({ "spec": spec }))
}

fn whole() -> Value {
    json!({
        "selector": { "matchLabels": { "app": "web" } },
        "template": {
            "metadata": { "labels": { "app": "web" } },
            "spec": { "containers": [{ "name": "app", "image": "web:1", "ports": [{ "containerPort": 80 }] }] },
        },
    })
}

fn apply(story: &mut Story, note: &str, path: &str, manager: &str, body: &Value) {
    story.patch(note, format!("{path}?fieldManager={manager}"), APPLY, body);
}

fn force(story: &mut Story, note: &str, path: &str, manager: &str, body: &Value) {
    story.patch(note, format!("{path}?fieldManager={manager}&force=true"), APPLY, body);
}

#[expect(clippy::too_many_lines, reason = "a table")]
fn deployments() -> Story {
    let mut story = Story::new("ownership of a Deployment");
    let replicas = |count: u32| deployment(&super::merged(&whole(), &json!({ "replicas": count })));
    let containers =
        |list: Value| deployment(&json!({ "template": { "spec": { "containers": list } } }));
    apply(&mut story, "made", DEPLOYMENT, "owner", &replicas(2));
    apply(
        &mut story,
        "a side container",
        DEPLOYMENT,
        "mesh",
        &containers(json!([{ "name": "side", "image": "side:1" }])),
    );
    apply(
        &mut story,
        "a variable",
        DEPLOYMENT,
        "config",
        &containers(json!([{ "name": "app", "env": [{ "name": "A", "value": "1" }] }])),
    );
    apply(
        &mut story,
        "replicas in conflict",
        DEPLOYMENT,
        "scaler",
        &deployment(&json!({ "replicas": 5 })),
    );
    apply(
        &mut story,
        "replicas shared",
        DEPLOYMENT,
        "scaler",
        &deployment(&json!({ "replicas": 2 })),
    );
    apply(&mut story, "the owner lets them go", DEPLOYMENT, "owner", &deployment(&whole()));
    apply(
        &mut story,
        "the scaler scales",
        DEPLOYMENT,
        "scaler",
        &deployment(&json!({ "replicas": 5 })),
    );
    apply(&mut story, "the scaler lets go", DEPLOYMENT, "scaler", &deployment(&json!({})));
    story.patch(
        "an image by hand",
        format!("{DEPLOYMENT}?fieldManager=hand"),
        STRATEGIC,
        &containers(json!([{ "name": "app", "image": "web:9" }])),
    );
    apply(&mut story, "a conflict with the hand", DEPLOYMENT, "owner", &deployment(&whole()));
    force(&mut story, "by force", DEPLOYMENT, "owner", &deployment(&whole()));
    apply(&mut story, "the mesh leaves", DEPLOYMENT, "mesh", &deployment(&json!({})));
    let two = json!([{ "name": "app", "image": "web:1", "ports": [{ "containerPort": 80 }, { "containerPort": 80 }] }]);
    apply(&mut story, "a port twice", DEPLOYMENT, "owner", &containers(two));
    apply(
        &mut story,
        "a container without a name",
        DEPLOYMENT,
        "mesh",
        &containers(json!([{ "image": "side:1" }])),
    );
    apply(
        &mut story,
        "a wrong type",
        DEPLOYMENT,
        "owner",
        &deployment(&json!({ "replicas": "two" })),
    );
    story.patch(
        "a status",
        format!("{DEPLOYMENT}/status?fieldManager=kcm"),
        MERGE,
        &json!({ "status": { "replicas": 1 } }),
    );
    story.patch(
        "scaled",
        format!("{DEPLOYMENT}/scale?fieldManager=hpa"),
        MERGE,
        &json!({ "spec": { "replicas": 7 } }),
    );
    apply(
        &mut story,
        "a conflict with the scale",
        DEPLOYMENT,
        "scaler",
        &deployment(&json!({ "replicas": 5 })),
    );
    force(
        &mut story,
        "by force over the scale",
        DEPLOYMENT,
        "scaler",
        &deployment(&json!({ "replicas": 5 })),
    );
    story.patch(
        "scaled again",
        format!("{DEPLOYMENT}/scale?fieldManager=hpa"),
        MERGE,
        &json!({ "spec": { "replicas": 8 } }),
    );
    story.get("in the end", DEPLOYMENT);
    story
}

#[expect(clippy::too_many_lines, reason = "a table")]
fn widgets() -> Story {
    let mut story = Story::new("ownership of a Widget");
    let widget = |spec: Value| {
        json!({
            "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "w" }, "spec": spec,
        })
    };
    apply(
        &mut story,
        "made",
        WIDGET,
        "a",
        &widget(
            json!({ "size": 3, "tags": ["x"], "parts": [{ "name": "one" }], "limits": { "low": 1 } }),
        ),
    );
    apply(
        &mut story,
        "more tags",
        WIDGET,
        "b",
        &widget(json!({ "tags": ["y"], "parts": [{ "name": "two", "count": 2 }] })),
    );
    apply(&mut story, "an atomic map", WIDGET, "b", &widget(json!({ "limits": { "high": 9 } })));
    force(
        &mut story,
        "an atomic map by force",
        WIDGET,
        "b",
        &widget(json!({ "limits": { "high": 9 } })),
    );
    apply(
        &mut story,
        "the default of a part",
        WIDGET,
        "c",
        &widget(json!({ "parts": [{ "name": "one", "count": 1 }] })),
    );
    apply(&mut story, "the default changed", WIDGET, "c", &widget(json!({ "colour": "blue" })));
    apply(&mut story, "free form", WIDGET, "c", &widget(json!({ "free": { "a": { "b": 1 } } })));
    apply(
        &mut story,
        "free form of another",
        WIDGET,
        "d",
        &widget(json!({ "free": { "a": { "c": 1 } } })),
    );
    apply(
        &mut story,
        "free form in conflict",
        WIDGET,
        "d",
        &widget(json!({ "free": { "a": { "b": 2 } } })),
    );
    apply(&mut story, "c drops all", WIDGET, "c", &widget(json!({})));
    apply(&mut story, "a drops a tag", WIDGET, "a", &widget(json!({ "size": 3 })));
    apply(&mut story, "an unknown field", WIDGET, "a", &widget(json!({ "size": 3, "weird": 1 })));
    apply(&mut story, "a null", WIDGET, "a", &widget(json!({ "size": 3, "note": null })));
    apply(&mut story, "tags twice", WIDGET, "a", &widget(json!({ "size": 3, "tags": ["z", "z"] })));
    apply(
        &mut story,
        "a status is not taken here",
        WIDGET,
        "s",
        &json!({
            "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "w" }, "status": { "phase": "Old" },
        }),
    );
    apply(
        &mut story,
        "a status",
        &format!("{WIDGET}/status"),
        "s",
        &json!({
            "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "w" }, "status": { "phase": "Old" },
        }),
    );
    story.patch(
        "scaled",
        format!("{WIDGET}/scale?fieldManager=hpa"),
        MERGE,
        &json!({ "spec": { "replicas": 4 } }),
    );
    apply(
        &mut story,
        "a conflict with the scale",
        WIDGET,
        "a",
        &widget(json!({ "size": 3, "replicas": 2 })),
    );
    story.get("in the end", WIDGET);
    story.get("in the other version", WIDGET.replace("/v1/", "/v2/"));
    story
}

fn services() -> Story {
    let mut story = Story::new("ownership of a Service");
    let service = |spec: Value| json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "web" }, "spec": spec });
    apply(
        &mut story,
        "made",
        SERVICE,
        "a",
        &service(json!({ "ports": [{ "port": 80 }], "selector": { "app": "web" } })),
    );
    apply(
        &mut story,
        "another port",
        SERVICE,
        "b",
        &service(json!({ "ports": [{ "port": 81, "name": "b" }] })),
    );
    apply(
        &mut story,
        "ports with names",
        SERVICE,
        "b",
        &service(json!({ "ports": [{ "port": 80, "name": "a" }, { "port": 81, "name": "b" }] })),
    );
    apply(
        &mut story,
        "an atomic selector",
        SERVICE,
        "b",
        &service(json!({ "selector": { "version": "1" } })),
    );
    force(
        &mut story,
        "an atomic selector by force",
        SERVICE,
        "b",
        &service(json!({ "selector": { "version": "1" } })),
    );
    apply(&mut story, "a type", SERVICE, "c", &service(json!({ "type": "NodePort" })));
    apply(
        &mut story,
        "the same protocol",
        SERVICE,
        "c",
        &service(json!({ "type": "NodePort", "ports": [{ "port": 80, "protocol": "TCP" }] })),
    );
    apply(
        &mut story,
        "a port of another protocol",
        SERVICE,
        "c",
        &service(
            json!({ "type": "NodePort", "ports": [{ "port": 80, "protocol": "UDP", "name": "u" }] }),
        ),
    );
    apply(&mut story, "c leaves", SERVICE, "c", &service(json!({})));
    apply(&mut story, "b leaves", SERVICE, "b", &service(json!({})));
    story.get("in the end", SERVICE);
    story
}

fn maps() -> Story {
    let mut story = Story::new("ownership of a ConfigMap");
    let map = |data: Value| json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "m" }, "data": data });
    story.post(
        "made",
        "/api/v1/namespaces/${ns}/configmaps?fieldManager=creator",
        &map(json!({ "a": "1", "b": "1" })),
    );
    apply(&mut story, "a conflict with the creator", MAP, "a", &map(json!({ "a": "2" })));
    apply(&mut story, "agreed", MAP, "a", &map(json!({ "a": "1" })));
    story.patch(
        "the creator drops a",
        format!("{MAP}?fieldManager=creator"),
        MERGE,
        &json!({ "data": { "a": null } }),
    );
    story.patch(
        "a JSON patch",
        format!("{MAP}?fieldManager=creator"),
        JSON_PATCH,
        &json!([{ "op": "add", "path": "/data/c", "value": "1" }]),
    );
    apply(&mut story, "another comes", MAP, "b", &map(json!({ "c": "1", "d": "1" })));
    apply(
        &mut story,
        "another goes",
        MAP,
        "b",
        &json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "m" } }),
    );
    apply(&mut story, "an empty data", MAP, "b", &map(json!({})));
    apply(
        &mut story,
        "null data",
        MAP,
        "b",
        &json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "m" }, "data": null }),
    );
    apply(
        &mut story,
        "annotations and owners",
        MAP,
        "b",
        &json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": "m", "annotations": { "x": "1" }, "finalizers": ["example.com/f"],
                "ownerReferences": [{ "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "1" }],
            },
        }),
    );
    apply(
        &mut story,
        "another owner",
        MAP,
        "c",
        &json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": "m", "ownerReferences": [{ "apiVersion": "v1", "kind": "Pod", "name": "q", "uid": "2" }] },
        }),
    );
    apply(
        &mut story,
        "b goes",
        MAP,
        "b",
        &json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "m" } }),
    );
    story.get("in the end", MAP);
    story
}

fn takeover() -> Story {
    let mut story = Story::new("from client-side to server-side apply");
    let last = r#"{"apiVersion":"v1","data":{"a":"1","b":"1"},"kind":"ConfigMap","metadata":{"annotations":{},"name":"m","namespace":"${ns}"}}"#;
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "m", "annotations": { "kubectl.kubernetes.io/last-applied-configuration": last } },
        "data": { "a": "1", "b": "1" },
    });
    story.post(
        "made",
        "/api/v1/namespaces/${ns}/configmaps?fieldManager=kubectl-client-side-apply",
        &map,
    );
    let applied = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "m" }, "data": { "a": "2" } });
    apply(&mut story, "by kubectl, in conflict", MAP, "kubectl", &applied);
    force(&mut story, "by force", MAP, "kubectl", &applied);
    apply(&mut story, "again", MAP, "kubectl", &applied);
    story.get("in the end", MAP);
    story
}

fn edited_by_hand() -> Story {
    let mut story = Story::new("managed fields written by clients");
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "m" }, "data": { "a": "1" } });
    apply(&mut story, "made", MAP, "a", &map);
    let managed = |list: Value| json!({ "metadata": { "managedFields": list } });
    let entry = json!({
        "manager": "x", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1",
        "fieldsV1": { "f:data": { "f:a": {} } },
    });
    story.patch("another manager", MAP, MERGE, &managed(json!([entry])));
    let bad = [
        ("no operation", json!({ "operation": null })),
        ("an unknown operation", json!({ "operation": "Paint" })),
        ("no fields type", json!({ "fieldsType": null })),
        ("bad fields", json!({ "fieldsV1": { "g": 1 } })),
        ("a bad time", json!({ "time": "yesterday" })),
        ("another version", json!({ "apiVersion": "v2" })),
        ("no version", json!({ "apiVersion": null })),
        ("a subresource", json!({ "subresource": "status" })),
    ];
    for (note, patch) in bad {
        story.patch(note, MAP, MERGE, &managed(json!([super::merged(&entry, &patch)])));
    }
    story.patch("emptied", MAP, MERGE, &managed(json!([{}])));
    story.patch(
        "changed after",
        format!("{MAP}?fieldManager=later"),
        MERGE,
        &json!({ "data": { "b": "2" } }),
    );
    story.patch("an empty list", MAP, MERGE, &managed(json!([])));
    story.patch("null", MAP, MERGE, &managed(json!(null)));
    apply(&mut story, "applied after", MAP, "a", &map);
    story.get("in the end", MAP);
    story
}

fn versions() -> Story {
    let mut story = Story::new("ownership at two versions");
    let second = WIDGET.replace("/v1/", "/v2/");
    let widget = |version: &str, spec: Value| {
        json!({
            "apiVersion": format!("example.com/{version}"), "kind": "Widget", "metadata": { "name": "w" }, "spec": spec,
        })
    };
    apply(&mut story, "made at v1", WIDGET, "a", &widget("v1", json!({ "size": 3 })));
    apply(&mut story, "applied at v2", &second, "a", &widget("v2", json!({ "size": 3 })));
    apply(&mut story, "another at v2", &second, "b", &widget("v2", json!({ "colour": "green" })));
    apply(
        &mut story,
        "the wrong version for its path",
        &second,
        "b",
        &widget("v1", json!({ "colour": "green" })),
    );
    story.patch(
        "patched at v2",
        format!("{second}?fieldManager=u"),
        MERGE,
        &json!({ "spec": { "note": "x" } }),
    );
    story.get("at v1", WIDGET);
    story.get("at v2", second);
    story
}

fn controllers() -> Story {
    let mut story = Story::new("an autoscaler and its two versions");
    let v1 = "/apis/autoscaling/v1/namespaces/${ns}/horizontalpodautoscalers";
    let v2 = "/apis/autoscaling/v2/namespaces/${ns}/horizontalpodautoscalers";
    let first = json!({
        "apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "metadata": { "name": "h" },
        "spec": { "scaleTargetRef": { "kind": "Deployment", "name": "web" }, "maxReplicas": 3, "targetCPUUtilizationPercentage": 60 },
    });
    story.post("made at v1", v1, &first);
    story.get("at v2", format!("{v2}/h"));
    story.patch("changed at v2", format!("{v2}/h"), MERGE, &json!({ "spec": { "metrics": [{ "type": "Resource", "resource": { "name": "memory", "target": { "type": "Utilization", "averageUtilization": 50 } } }], "behavior": { "scaleDown": { "selectPolicy": "Disabled" } } } }));
    story.get("at v1", format!("{v1}/h"));
    story.patch(
        "changed at v1",
        format!("{v1}/h"),
        MERGE,
        &json!({ "spec": { "maxReplicas": 5 } }),
    );
    story.get("at v2 again", format!("{v2}/h"));
    story.get("listed at v1", v1);
    story.patch(
        "cpu at v1",
        format!("{v1}/h"),
        MERGE,
        &json!({ "spec": { "targetCPUUtilizationPercentage": 10 } }),
    );
    story.get("at v2 at last", format!("{v2}/h"));
    story
}

/// A quantity that the real server considers unequal to itself.
fn binary() -> Story {
    let mut story = Story::new("a metric of 200Mi");
    let all = "/apis/autoscaling/v2/namespaces/${ns}/horizontalpodautoscalers";
    let one = format!("{all}/h");
    let metric = json!({
        "type": "Resource",
        "resource": { "name": "memory", "target": { "type": "AverageValue", "averageValue": "200Mi" } },
    });
    let object = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": { "name": "h" },
        "spec": {
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
            "maxReplicas": 3, "metrics": [metric],
        },
    });
    story.post("made", format!("{all}?fieldManager=maker"), &object);
    let label = json!({ "metadata": { "labels": { "a": "b" } } });
    story.patch("labelled", format!("{one}?fieldManager=other"), MERGE, &label);
    story.patch("nothing changed", format!("{one}?fieldManager=third"), MERGE, &label);
    story.put("put", format!("{one}?fieldManager=fourth"), &super::merged(&object, &label));
    story.get("in the end", one);
    story
}
