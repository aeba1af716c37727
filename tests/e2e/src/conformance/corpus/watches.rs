//! Watches: their start, their events and the order of those, their end.

use serde_json::{Value, json};

use super::kinds::{Sample, samples};
use crate::conformance::{
    request::{MERGE, PARTIAL, Request, Story, TABLE},
    run::LIVE,
};

const MAPS: &str = "/api/v1/namespaces/${ns}/configmaps";

pub(super) fn stories() -> Vec<Story> {
    let mut stories = vec![starts(), selected(), forms(), refused()];
    let small = samples().into_iter().filter(|sample| sample.name() == "small");
    stories.extend(small.map(|sample| kinds(&sample)));
    stories
}

fn map(name: &str, app: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": name, "labels": { "app": app } },
    })
}

fn label(app: &str) -> Value {
    json!({ "metadata": { "labels": { "app": app } } })
}

/// The events of all stories: created, changed, relabelled, held by a finalizer, deleted.
fn events(story: &mut Story) {
    story.post("b made", MAPS, &map("b", "web"));
    story.patch("a changed", format!("{MAPS}/a"), MERGE, &json!({ "data": { "x": "1" } }));
    story.patch("nothing changed", format!("{MAPS}/a"), MERGE, &json!({ "data": { "x": "1" } }));
    story.patch("a leaves", format!("{MAPS}/a"), MERGE, &label("shop"));
    story.patch("a comes back", format!("{MAPS}/a"), MERGE, &label("web"));
    let held = json!({ "metadata": { "finalizers": ["example.com/hold"] } });
    story.patch("b is held", format!("{MAPS}/b"), MERGE, &held);
    story.delete("b marked", format!("{MAPS}/b"));
    story.patch(
        "b let go",
        format!("{MAPS}/b"),
        MERGE,
        &json!({ "metadata": { "finalizers": null } }),
    );
    story.delete("a gone", format!("{MAPS}/a"));
    story.post("a again", MAPS, &map("a", "shop"));
}

fn starts() -> Story {
    let mut story = Story::new("where watches start");
    let made = story.post("a made", MAPS, &map("a", "web"));
    let list = story.get("listed", MAPS);
    let live = format!("watch=true&{LIVE}");
    story.get("live, from a list", format!("{MAPS}?{live}&resourceVersion={}", list.version()));
    story.get("live, with state", format!("{MAPS}?{live}"));
    story.get("live, from any version", format!("{MAPS}?{live}&resourceVersion=0"));
    story.get(
        "live, bookmarks",
        format!("{MAPS}?{live}&allowWatchBookmarks=true&resourceVersion={}", list.version()),
    );
    let initial =
        "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    story.get("live, streamed", format!("{MAPS}?{live}&{initial}"));
    story.get(
        "live, the older path",
        format!("/api/v1/watch/namespaces/${{ns}}/configmaps?{LIVE}&watch=true"),
    );
    events(&mut story);
    story.get("history, from a list", format!("{MAPS}?{live}&resourceVersion={}", list.version()));
    story.get(
        "history, from an object",
        format!("{MAPS}?{live}&resourceVersion={}", made.version()),
    );
    story.get("streamed after", format!("{MAPS}?{live}&{initial}"));
    story.get(
        "streamed from then",
        format!("{MAPS}?{live}&{initial}&resourceVersion={}", list.version()),
    );
    let without =
        "sendInitialEvents=false&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    story.get("no initial events", format!("{MAPS}?{live}&{without}"));
    story.get(
        "no initial events, from then",
        format!("{MAPS}?{live}&{without}&resourceVersion={}", list.version()),
    );
    story
}

fn selected() -> Story {
    let mut story = Story::new("what watches tell of a selection");
    story.post("a made", MAPS, &map("a", "web"));
    let list = story.get("listed", MAPS);
    events(&mut story);
    let from = format!("watch=true&{LIVE}&resourceVersion={}", list.version());
    for selector in [
        "labelSelector=app%3Dweb",
        "labelSelector=app%3Dshop",
        "labelSelector=!app",
        "labelSelector=app!%3Dweb",
        "fieldSelector=metadata.name%3Da",
        "fieldSelector=metadata.name!%3Da",
        "labelSelector=app%3Dweb&fieldSelector=metadata.name%3Db",
    ] {
        story.get(selector, format!("{MAPS}?{from}&{selector}"));
    }
    let initial = format!(
        "watch=true&{LIVE}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    );
    story.get("streamed", format!("{MAPS}?{initial}&labelSelector=app%3Dshop"));
    story.get("streamed, none", format!("{MAPS}?{initial}&labelSelector=app%3Dnone"));
    story
}

fn forms() -> Story {
    let mut story = Story::new("forms of watches");
    story.post("a made", MAPS, &map("a", "web"));
    let list = story.get("listed", MAPS);
    events(&mut story);
    let path = format!("{MAPS}?watch=true&{LIVE}&resourceVersion={}", list.version());
    for accept in [
        TABLE,
        PARTIAL,
        "application/json",
        "application/json;stream=watch",
        "*/*",
        "application/yaml",
        "application/vnd.kubernetes.protobuf,application/json",
        "text/html",
        "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
        "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
    ] {
        story.ask(Request::new("GET", path.clone()).note("a form").accept(accept));
    }
    story
}

fn refused() -> Story {
    let mut story = Story::new("refused watches");
    story.post("a made", MAPS, &map("a", "web"));
    for query in [
        "resourceVersion=abc",
        "resourceVersion=-1",
        "resourceVersionMatch=Exact",
        "resourceVersionMatch=NotOlderThan",
        "sendInitialEvents=true",
        "sendInitialEvents=maybe",
        "sendInitialEvents=true&resourceVersionMatch=Exact&allowWatchBookmarks=true",
        "sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
        "labelSelector=a%20b",
        "fieldSelector=data.a%3D1",
        "limit=1",
        "continue=abc",
        "resourceVersion=1&resourceVersionMatch=NotOlderThan",
        "timeoutSeconds=x",
        "resourceVersion=1",
    ] {
        story.get(query, format!("{MAPS}?watch=true&{LIVE}&{query}"));
    }
    story.get("one object by its name", format!("{MAPS}/a?watch=true&{LIVE}"));
    story.get("a kind nobody knows", format!("/apis/nope.com/v1/things?watch=true&{LIVE}"));
    story
}

/// One object of each kind, watched live and again from its first version.
fn kinds(sample: &Sample) -> Story {
    let mut story = Story::new(sample.title("watching"));
    let (all, one) = (sample.collection(), sample.path());
    let list = story.get("listed", all.clone());
    let from = format!("resourceVersion={}", list.version());
    story.get("live", format!("{all}?watch=true&{LIVE}&{from}"));
    story.post("made", all.clone(), &sample.object);
    story.patch("labelled", one.clone(), MERGE, &label("web"));
    story.patch(
        "its status",
        format!("{one}/status"),
        MERGE,
        &json!({ "status": { "observedGeneration": 1 } }),
    );
    story.delete_with("deleted", one, &json!({ "gracePeriodSeconds": 0 }));
    let told = format!("{all}?watch=true&{LIVE}&{from}");
    story.get("told", told.clone());
    story.ask(Request::new("GET", told.clone()).note("told as tables").accept(TABLE));
    story.ask(Request::new("GET", told).note("told as metadata").accept(PARTIAL));
    story
}
