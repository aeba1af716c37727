//! The manifests of our own kinds: the good ones created and changed, the bad ones refused.

use std::{collections::BTreeMap, fs, path::Path};

use serde_json::{Value, json};

use super::kinds::{Sample, merged, parsed};
use crate::conformance::request::{APPLY, MERGE, PARTIAL, Request, Story, TABLE};

/// So many bad manifests make a story.
const CHAPTER: usize = 25;

pub(super) fn stories() -> Vec<Story> {
    let good: Vec<Sample> = documents("manifests").into_iter().map(Sample::new).collect();
    let mut stories: Vec<Story> = good.iter().map(accepted).collect();
    let by_name: BTreeMap<String, &Sample> = good
        .iter()
        .map(|sample| (format!("{}/{}", sample.kind.kind, sample.name()), sample))
        .collect();
    for (number, chapter) in documents("bad").chunks(CHAPTER).enumerate() {
        stories.push(refused(&format!("bad manifests {number}"), chapter, &by_name));
    }
    stories
}

/// All documents of a folder under `testdata`, by file name.
fn documents(folder: &str) -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(folder);
    let entries = fs::read_dir(&folder).expect("the manifests are in the repository");
    let mut files: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.sort();
    let texts = files.iter().map(|path| fs::read_to_string(path).expect("manifests are text"));
    texts.flat_map(|text| parsed(&text)).collect()
}

fn accepted(sample: &Sample) -> Story {
    let mut story = Story::new(sample.title("a good manifest"));
    let mut object = sample.object.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("namespace");
    }
    let sample = Sample { kind: sample.kind, object };
    let one = sample.path();
    story.post("made", format!("{}?fieldValidation=Strict", sample.collection()), &sample.object);
    let read = story.get("read", one.clone());
    story.ask(Request::new("GET", one.clone()).note("a table").accept(TABLE));
    story.ask(Request::new("GET", one.clone()).note("metadata").accept(PARTIAL));
    story.put("put back without a version", one.clone(), &sample.object);
    let label = json!({ "metadata": { "labels": { "a": "b" } } });
    let fresh = json!({ "metadata": { "resourceVersion": read.version() } });
    story.put("put with a version", one.clone(), &sample.with(&merged(&label, &fresh)));
    if !sample.object["status"].is_null() {
        story.put("its status", format!("{one}/status"), &sample.object);
    }
    story.patch("spec gone", one.clone(), MERGE, &json!({ "spec": null }));
    story.patch("applied", format!("{one}?fieldManager=a"), APPLY, &sample.object);
    story.patch("by force", format!("{one}?fieldManager=a&force=true"), APPLY, &sample.object);
    story.patch(
        "unknown",
        format!("{one}?fieldValidation=Strict"),
        MERGE,
        &json!({ "spec": { "unheard": 1 } }),
    );
    story.delete("gone", one);
    story
}

fn refused(title: &str, cases: &[Value], good: &BTreeMap<String, &Sample>) -> Story {
    let mut story = Story::new(title);
    for (number, case) in cases.iter().enumerate() {
        let base = case["base"].as_str().unwrap_or_default();
        let sample = good.get(base).expect("a bad manifest is a good one, spoilt");
        let name = format!("case-{number}");
        let named = json!({ "metadata": { "name": name, "namespace": null } });
        let before = merged(&sample.with(case.get("before").unwrap_or(&json!({}))), &named);
        let reason = case["reason"].as_str().unwrap_or_default();
        if case["update"] == json!(true) {
            story.post(reason, sample.collection(), &before);
            let path = format!("{}/{name}", sample.collection());
            story.patch(reason, path, MERGE, &case["merge"]);
        } else {
            story.post(reason, sample.collection(), &merged(&before, &case["merge"]));
        }
    }
    story
}
