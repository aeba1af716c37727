//! Forms of answers: accepted media types, their order, and refusals.

use serde_json::json;

use super::kinds::samples;
use crate::conformance::request::{JSON, PARTIAL, PARTIAL_LIST, PROTOBUF, Request, Story, TABLE};

const ACCEPTS: &[&str] = &[
    "",
    "*/*",
    JSON,
    "application/*",
    "application/yaml",
    PROTOBUF,
    "text/html",
    "text/plain",
    "nonsense",
    ";;",
    "application/json;charset=utf-8",
    "application/json; q=0.1, application/yaml",
    "text/html,application/xhtml+xml,*/*;q=0.8",
    "application/vnd.kubernetes.protobuf,application/json",
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
    "application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
    "application/json;as=Table;v=v9;g=meta.k8s.io",
    "application/json;as=Chair;v=v1;g=meta.k8s.io",
    "application/json;as=Table;v=v1;g=elsewhere.io",
    "application/json;as=Table",
    "application/json;as=PartialObjectMetadata;v=v1beta1;g=meta.k8s.io",
    "application/yaml;as=Table;v=v1;g=meta.k8s.io",
    "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io",
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    TABLE,
    PARTIAL,
    PARTIAL_LIST,
    "application/cbor",
    "application/json;as=Scale;v=v1;g=autoscaling",
    "application/json;pretty=1",
];

pub(super) fn stories() -> Vec<Story> {
    let picked = ["ConfigMap", "Deployment", "Widget", "Canary", "Pod"];
    let samples =
        samples().into_iter().filter(|s| picked.contains(&s.kind.kind) && s.name() == "small");
    samples
        .map(|sample| {
            let mut story = Story::new(sample.title("negotiation"));
            let (all, one) = (sample.collection(), sample.path());
            for accept in ACCEPTS {
                let note = format!("made, accepting {accept:?}");
                let dry = format!("{all}?dryRun=All");
                story.ask(Request::new("POST", dry).note(note).json(&sample.object).accept(accept));
            }
            story.post("made", all.clone(), &sample.object);
            for accept in ACCEPTS {
                let note = format!("accepting {accept:?}");
                story.ask(Request::new("GET", one.clone()).note(&*note).accept(accept));
                story.ask(Request::new("GET", all.clone()).note(&*note).accept(accept));
                let missing = format!("{all}/missing");
                story.ask(Request::new("GET", missing).note(&*note).accept(accept));
                let dry = format!("{one}?dryRun=All");
                story.ask(Request::new("DELETE", dry).note(note).accept(accept));
            }
            let patch = json!({ "metadata": { "labels": { "a": "b" } } }).to_string();
            for accept in [TABLE, PARTIAL, PROTOBUF, "application/yaml", "text/html"] {
                let request = Request::new("PATCH", one.clone()).note("patched").accept(accept);
                story.ask(request.body("application/merge-patch+json", patch.clone()));
            }
            story
        })
        .collect()
}
