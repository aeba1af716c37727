//! The life of one object, for each kind: created, refused, read, changed, deleted.

use serde_json::{Value, json};

use super::kinds::{Kind, Sample, samples};
use crate::conformance::request::{
    APPLY, JSON, JSON_PATCH, MERGE, PARTIAL, Request, STRATEGIC, Story, TABLE,
};

pub(super) fn stories() -> Vec<Story> {
    let samples = samples();
    let mut stories: Vec<Story> = Vec::new();
    for sample in &samples {
        let chapters: [fn(&Sample) -> Story; 6] =
            [creating, refusing, replacing, patching, applying, subresources];
        stories.extend(chapters.iter().map(|chapter| chapter(sample)));
    }
    stories
}

/// A label that both managers set to the same value.
fn label(value: &str) -> Value {
    json!({ "metadata": { "labels": { "step": value } } })
}

fn creating(sample: &Sample) -> Story {
    let mut story = Story::new(sample.title("creating"));
    let (all, one) = (sample.collection(), sample.path());
    let object = &sample.object;
    story.get("before", one.clone());
    story.post("a rehearsal", format!("{all}?dryRun=All"), object);
    story.get("after the rehearsal", one.clone());
    story.post("made", format!("{all}?fieldManager=maker"), object);
    story.post("made again", all.clone(), object);
    story.get("read", one.clone());
    story.ask(Request::new("GET", one.clone()).note("as a table").accept(TABLE));
    story.ask(Request::new("GET", one.clone()).note("metadata alone").accept(PARTIAL));
    let generated = json!({ "metadata": { "name": null, "generateName": "${ns}-g-" } });
    let made = story.post("a name made up", all.clone(), &sample.with(&generated));
    story.get("by the name made up", format!("{all}/{}", made.name()));
    story.delete("gone", format!("{all}/{}", made.name()));
    story.get("read after", format!("{all}/{}", made.name()));
    let server_set = json!({ "metadata": {
        "name": "${ns}-set", "uid": "11111111-2222-3333-4444-555555555555", "generation": 7,
        "creationTimestamp": "2001-01-01T00:00:00Z", "deletionTimestamp": "2001-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 9, "selfLink": "/x",
    } });
    story.post("with what servers set", all.clone(), &sample.with(&server_set));
    let status = json!({ "metadata": { "name": "${ns}-status" }, "status": { "replicas": 3 } });
    story.post("with a status", all.clone(), &sample.with(&status));
    let versioned = json!({ "metadata": { "name": "${ns}-v", "resourceVersion": "1" } });
    story.post("with a version", all.clone(), &sample.with(&versioned));
    story.post("null metadata members", all, &sample.with(&json!({ "metadata": {
        "name": "${ns}-nulls", "labels": {}, "annotations": {}, "finalizers": [], "ownerReferences": [],
    } })));
    story
}

fn refusing(sample: &Sample) -> Story {
    let mut story = Story::new(sample.title("refusing"));
    let all = sample.collection();
    let kind = sample.kind;
    let dry = format!("{all}?dryRun=All");
    let names = ["Upper", "-a", "a_b", "a..b", "", "a/b", "a%b", &"x".repeat(64), &"y".repeat(254)];
    for name in names {
        let body = sample.with(&json!({ "metadata": { "name": name } }));
        story.post(&format!("the name {name:?}"), dry.clone(), &body);
    }
    let bodies = [
        ("no name at all", json!({ "metadata": { "name": null } })),
        ("no metadata", json!({ "metadata": null })),
        ("another kind", json!({ "kind": "Gadget" })),
        ("no kind", json!({ "kind": null })),
        ("another version", json!({ "apiVersion": "v9" })),
        ("another group", json!({ "apiVersion": "elsewhere.io/v1" })),
        ("no version", json!({ "apiVersion": null })),
        ("a bad label", json!({ "metadata": { "labels": { "a b": "c" } } })),
        ("a bad label value", json!({ "metadata": { "labels": { "a": "c d" } } })),
        ("a label that is a number", json!({ "metadata": { "labels": { "a": 1 } } })),
        ("a bad annotation", json!({ "metadata": { "annotations": { "a b": "c" } } })),
        ("a bad finalizer", json!({ "metadata": { "finalizers": ["a b"] } })),
        ("a bare finalizer", json!({ "metadata": { "finalizers": ["bare"] } })),
        ("a bad owner", json!({ "metadata": { "ownerReferences": [{ "kind": "A" }] } })),
        ("two controllers", json!({ "metadata": { "ownerReferences": [owner("a"), owner("b")] } })),
        ("another namespace", json!({ "metadata": { "namespace": "elsewhere" } })),
        ("an unknown field", json!({ "colour": 1, "spec": { "unheard": { "of": 1 } } })),
        ("unknown metadata", json!({ "metadata": { "colour": "red" } })),
        ("a bad prefix", json!({ "metadata": { "name": null, "generateName": "Not_good" } })),
    ];
    for (note, patch) in &bodies {
        story.post(note, dry.clone(), &sample.with(patch));
    }
    let unknown =
        sample.with(&json!({ "metadata": { "colour": "red" }, "spec": { "unheard": 1 } }));
    for validation in ["Strict", "Warn", "Ignore", "Loud", ""] {
        let path = format!("{dry}&fieldValidation={validation}");
        story.post(&format!("unknown fields, {validation:?}"), path, &unknown);
        let twice = sample.object.to_string().replacen('{', r#"{"kind":"Twice","#, 1);
        let path = format!("{dry}&fieldValidation={validation}");
        story.ask(Request::new("POST", path).note("a field twice").body(JSON, twice));
    }
    let texts = ["", "{", "null", "[]", "\"text\"", "{}", "{\"a\":1}", "kind: Yaml", "{} {}"];
    for text in texts {
        let request = Request::new("POST", dry.clone()).note(format!("the body {text:?}"));
        story.ask(request.body(JSON, text));
    }
    for media in ["text/plain", "application/xml", "application/yaml", "nonsense", MERGE, ""] {
        let request = Request::new("POST", dry.clone()).note(format!("sent as {media:?}"));
        story.ask(request.body(media, sample.object.to_string()));
    }
    for query in ["dryRun=Some", "dryRun=", "fieldManager=%01", &long_manager(), "pretty=maybe"] {
        let path = format!("{all}?{query}&dryRun=All");
        story.post(&format!("the query {query}"), path, &sample.object);
    }
    wrong_methods(&mut story, kind);
    story
}

fn long_manager() -> String {
    format!("fieldManager={}", "m".repeat(129))
}

fn owner(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": name, "controller": true })
}

fn wrong_methods(story: &mut Story, kind: Kind) {
    let all = kind.path();
    story.ask(Request::new("PUT", all.clone()).note("replace the collection").json(&json!({})));
    story.ask(Request::new("PATCH", all.clone()).note("patch the collection").body(MERGE, "{}"));
    story.ask(Request::new("POST", format!("{all}/a")).note("post to a name").json(&json!({})));
    story.get("an unknown subresource", format!("{all}/a/colour"));
    story.get("too deep", format!("{all}/a/status/b/c"));
    story.ask(Request::new("OPTIONS", all).note("options"));
}

fn replacing(sample: &Sample) -> Story {
    let mut story = Story::new(sample.title("replacing"));
    let (all, one) = (sample.collection(), sample.path());
    story.put("what is not there", one.clone(), &sample.object);
    story.post("made", all.clone(), &sample.object);
    // The first request created some kinds, and refused this one.
    let made = story.get("as made", one.clone());
    let with = |value: &str, metadata: Value| {
        sample.with(&super::merged(&label(value), &json!({ "metadata": metadata })))
    };
    story.put("without a version", one.clone(), &with("a", json!({})));
    let stale = json!({ "resourceVersion": made.version() });
    story.put("with an old version", one.clone(), &with("b", stale.clone()));
    let read = story.get("read", one.clone());
    let fresh = json!({ "resourceVersion": read.version() });
    story.put("a rehearsal", format!("{one}?dryRun=All"), &with("c", fresh.clone()));
    story.put("with the version", format!("{one}?fieldManager=replacer"), &with("c", fresh));
    story.put("the same again", format!("{one}?fieldManager=replacer"), &with("c", json!({})));
    story.put("by another", format!("{one}?fieldManager=other"), &with("c", json!({})));
    story.put("another name", one.clone(), &with("d", json!({ "name": "${ns}-other" })));
    story.put("no name", one.clone(), &with("d", json!({ "name": null })));
    let uid = json!({ "uid": "11111111-2222-3333-4444-555555555555" });
    story.put("another uid", one.clone(), &with("d", uid));
    story.put("a bad version", one.clone(), &with("d", json!({ "resourceVersion": "abc" })));
    story.put("version zero", one.clone(), &with("d", json!({ "resourceVersion": "0" })));
    story.put("another namespace", one.clone(), &with("d", json!({ "namespace": "elsewhere" })));
    story.put("a finalizer", one.clone(), &with("e", json!({ "finalizers": ["example.com/f"] })));
    story.delete("marked", one.clone());
    story.put("while marked", one.clone(), &with("f", json!({ "finalizers": ["example.com/f"] })));
    let two = json!({ "finalizers": ["example.com/f", "example.com/g"] });
    story.put("a new finalizer while marked", one.clone(), &with("f", two));
    story.put("let go", one.clone(), &with("f", json!({ "finalizers": [] })));
    story.get("gone", one);
    story
}

fn patching(sample: &Sample) -> Story {
    let mut story = Story::new(sample.title("patching"));
    let (all, one) = (sample.collection(), sample.path());
    story.patch("what is not there", one.clone(), MERGE, &label("a"));
    let made = story.post("made", all, &sample.object);
    for media in [MERGE, STRATEGIC] {
        story.patch("a label", format!("{one}?fieldManager=p1"), media, &label("a"));
        story.patch("no change", format!("{one}?fieldManager=p1"), media, &label("a"));
        story.patch("no change by another", format!("{one}?fieldManager=p2"), media, &label("a"));
        story.patch("nothing", one.clone(), media, &json!({}));
        let gone = json!({ "metadata": { "labels": { "step": null } } });
        story.patch("a rehearsal", format!("{one}?dryRun=All"), media, &gone);
        story.patch("the label gone", one.clone(), media, &gone);
        let stale =
            json!({ "metadata": { "resourceVersion": made.version(), "labels": { "x": "y" } } });
        story.patch("with an old version", one.clone(), media, &stale);
        story.patch("another name", one.clone(), media, &json!({ "metadata": { "name": "b" } }));
        story.patch("another kind", one.clone(), media, &json!({ "kind": "Gadget" }));
        story.patch("another version", one.clone(), media, &json!({ "apiVersion": "v9" }));
        story.patch(
            "a bad label",
            one.clone(),
            media,
            &json!({ "metadata": { "labels": { "a b": "" } } }),
        );
        story.patch("a list", one.clone(), media, &json!([]));
        story.patch("a text", one.clone(), media, &json!("text"));
        story.patch(
            "labels as text",
            one.clone(),
            media,
            &json!({ "metadata": { "labels": "x" } }),
        );
        let unknown = json!({ "colour": 1, "metadata": { "colour": 2 } });
        for validation in ["Strict", "Warn", "Ignore"] {
            let path = format!("{one}?fieldValidation={validation}");
            story.patch("an unknown field", path, media, &unknown);
        }
        story.ask(Request::new("PATCH", one.clone()).note("no JSON").body(media, "{"));
        story.ask(Request::new("PATCH", one.clone()).note("no body").body(media, ""));
    }
    for (note, operations) in json_patches(&made.version()) {
        story.patch(note, one.clone(), JSON_PATCH, &operations);
    }
    for media in [JSON, "text/plain", "application/merge-patch+yaml", ""] {
        let request = Request::new("PATCH", one.clone()).note(format!("sent as {media:?}"));
        story.ask(request.body(media, label("z").to_string()));
    }
    story.get("in the end", one);
    story
}

fn json_patches(version: &str) -> Vec<(&'static str, Value)> {
    let labels = "/metadata/labels";
    vec![
        ("add labels", json!([{ "op": "add", "path": labels, "value": { "a": "1" } }])),
        (
            "test and replace",
            json!([
                { "op": "test", "path": "/metadata/labels/a", "value": "1" },
                { "op": "replace", "path": "/metadata/labels/a", "value": "2" },
            ]),
        ),
        ("a failed test", json!([{ "op": "test", "path": "/metadata/labels/a", "value": "9" }])),
        ("a test of what is not there", json!([{ "op": "test", "path": "/nope", "value": 1 }])),
        ("remove what is not there", json!([{ "op": "remove", "path": "/metadata/labels/zz" }])),
        (
            "replace what is not there",
            json!([{ "op": "replace", "path": "/metadata/labels/zz", "value": "1" }]),
        ),
        ("add below nothing", json!([{ "op": "add", "path": "/a/b/c", "value": 1 }])),
        (
            "copy",
            json!([{ "op": "copy", "from": "/metadata/labels/a", "path": "/metadata/labels/b" }]),
        ),
        (
            "move",
            json!([{ "op": "move", "from": "/metadata/labels/b", "path": "/metadata/labels/c" }]),
        ),
        ("an unknown operation", json!([{ "op": "paint", "path": "/metadata", "value": 1 }])),
        ("no path", json!([{ "op": "add", "value": 1 }])),
        ("no list", json!({ "op": "add", "path": "/metadata/labels/q", "value": "1" })),
        ("an empty list", json!([])),
        ("escapes", json!([{ "op": "add", "path": "/metadata/labels/a.b~1c", "value": "1" }])),
        (
            "an old version",
            json!([{ "op": "replace", "path": "/metadata/resourceVersion", "value": version }]),
        ),
        ("the name", json!([{ "op": "replace", "path": "/metadata/name", "value": "other" }])),
        ("the uid", json!([{ "op": "replace", "path": "/metadata/uid", "value": "other" }])),
        ("the whole", json!([{ "op": "replace", "path": "", "value": {} }])),
        ("a number as a label", json!([{ "op": "add", "path": "/metadata/labels/n", "value": 1 }])),
    ]
}

fn applying(sample: &Sample) -> Story {
    let mut story = Story::new(sample.title("applying"));
    let one = sample.path();
    let by = |manager: &str| format!("{one}?fieldManager={manager}");
    story.patch("without a manager", one.clone(), APPLY, &sample.object);
    story.patch("a rehearsal", format!("{}&dryRun=All", by("a")), APPLY, &sample.object);
    story.patch("made", by("a"), APPLY, &sample.object);
    story.patch("again", by("a"), APPLY, &sample.object);
    let labelled = sample.with(&label("x"));
    story.patch("a label more", by("a"), APPLY, &labelled);
    story.patch("the same by another", by("b"), APPLY, &labelled);
    let other = sample.with(&label("y"));
    story.patch("a conflict", by("b"), APPLY, &other);
    story.patch("a rehearsed conflict", format!("{}&dryRun=All", by("b")), APPLY, &other);
    story.patch("by force", format!("{}&force=true", by("b")), APPLY, &other);
    story.patch("the first drops it", by("a"), APPLY, &sample.object);
    story.patch("the other drops it too", by("b"), APPLY, &sample.object);
    let minimal = json!({
        "apiVersion": sample.kind.api_version, "kind": sample.kind.kind,
        "metadata": { "name": sample.name() },
    });
    story.patch("almost nothing", by("b"), APPLY, &minimal);
    story.patch("an update between", format!("{one}?fieldManager=u"), MERGE, &label("u"));
    story.patch("a conflict with an update", by("a"), APPLY, &labelled);
    story.patch("by force over an update", format!("{}&force=true", by("a")), APPLY, &labelled);
    let bodies = [
        ("no kind", json!({ "kind": null })),
        ("another kind", json!({ "kind": "Gadget" })),
        ("another name", json!({ "metadata": { "name": "b" } })),
        ("managed fields", json!({ "metadata": { "managedFields": [{ "manager": "x" }] } })),
        ("an unknown field", json!({ "colour": "red" })),
        ("an old version", json!({ "metadata": { "resourceVersion": "1" } })),
        ("a uid", json!({ "metadata": { "uid": "11111111-2222-3333-4444-555555555555" } })),
        ("labels as text", json!({ "metadata": { "labels": "x" } })),
    ];
    for (note, patch) in &bodies {
        story.patch(note, by("a"), APPLY, &sample.with(patch));
    }
    for validation in ["Strict", "Warn", "Ignore"] {
        let path = format!("{}&fieldValidation={validation}", by("a"));
        story.patch("an unknown field", path, APPLY, &sample.with(&json!({ "colour": "red" })));
    }
    for text in ["", "- a", "{", "a: [", "kind: A\nkind: B\n"] {
        let request = Request::new("PATCH", by("a")).note(format!("the body {text:?}"));
        story.ask(request.body(APPLY, text));
    }
    story.patch("force of a merge patch", format!("{one}?force=true"), MERGE, &label("m"));
    story.get("in the end", one);
    story
}

fn subresources(sample: &Sample) -> Story {
    let mut story = Story::new(sample.title("subresources"));
    let (all, one) = (sample.collection(), sample.path());
    let status = format!("{one}/status");
    let scale = format!("{one}/scale");
    story.get("status of nothing", status.clone());
    story.get("scale of nothing", scale.clone());
    story.post("made", all, &sample.object);
    story.get("status", status.clone());
    let phase = json!({ "status": { "phase": "Active", "replicas": 2, "observedGeneration": 1 } });
    story.patch("status patched", format!("{status}?fieldManager=s"), MERGE, &phase);
    story.patch("status patched again", format!("{status}?fieldManager=s"), MERGE, &phase);
    let mixed = super::merged(&phase, &label("status"));
    story.patch("status and a label", status.clone(), MERGE, &mixed);
    story.put("status replaced", status.clone(), &sample.with(&mixed));
    let spoiled = json!({ "status": { "replicas": -1, "phase": 7 } });
    story.patch("a bad status", status.clone(), MERGE, &spoiled);
    story.patch("status and spec", status.clone(), MERGE, &json!({ "spec": null }));
    story.patch(
        "status at the object",
        one.clone(),
        MERGE,
        &json!({ "status": { "replicas": 9 } }),
    );
    let applied = json!({
        "apiVersion": sample.kind.api_version, "kind": sample.kind.kind,
        "metadata": { "name": sample.name() }, "status": { "replicas": 4 },
    });
    story.patch("status applied", format!("{status}?fieldManager=sa"), APPLY, &applied);
    story.get("scale", scale.clone());
    let size = |replicas: Value| json!({ "spec": { "replicas": replicas } });
    story.patch("scaled", format!("{scale}?fieldManager=sc"), MERGE, &size(json!(3)));
    story.patch("scaled to nothing", scale.clone(), MERGE, &size(json!(0)));
    story.patch("scaled below", scale.clone(), MERGE, &size(json!(-1)));
    story.patch("scaled by a text", scale.clone(), MERGE, &size(json!("3")));
    let whole = json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale",
        "metadata": { "name": sample.name(), "namespace": "${ns}" }, "spec": { "replicas": 5 },
    });
    story.put("scale replaced", scale.clone(), &whole);
    story.put(
        "scale stale",
        scale.clone(),
        &super::merged(&whole, &json!({ "metadata": { "resourceVersion": "1" } })),
    );
    story.put(
        "scale of another",
        scale.clone(),
        &super::merged(&whole, &json!({ "metadata": { "name": "b" } })),
    );
    story.put(
        "scale of another kind",
        scale.clone(),
        &super::merged(&whole, &json!({ "kind": "Gadget" })),
    );
    story.patch("scale applied", format!("{scale}?fieldManager=ap"), APPLY, &whole);
    story.ask(Request::new("GET", scale).note("scale as a table").accept(TABLE));
    story.get("in the end", one.clone());
    story.delete("status deleted", status);
    story.delete("deleted", one);
    story
}
