//! Deletion: policies, preconditions, grace, finalizers, collections, namespaces.

use serde_json::{Value, json};

use super::kinds::{Sample, samples};
use crate::conformance::request::{JSON, MERGE, Request, Story};

pub(super) fn stories() -> Vec<Story> {
    let samples = samples();
    let small = |sample: &&Sample| sample.name().ends_with("small");
    let mut stories: Vec<Story> = samples.iter().filter(small).map(one_by_one).collect();
    stories.extend(samples.iter().filter(small).map(policies));
    let namespaced = samples.iter().filter(small).filter(|sample| sample.kind.is_namespaced);
    stories.extend(namespaced.map(collections));
    stories.extend([pods(), namespaces(), options()]);
    stories
}

fn one_by_one(sample: &Sample) -> Story {
    let mut story = Story::new(sample.title("deleting"));
    let (all, one) = (sample.collection(), sample.path());
    story.delete("what is not there", one.clone());
    let made = story.post("made", all.clone(), &sample.object);
    story.delete("a rehearsal", format!("{one}?dryRun=All"));
    let wrong = "11111111-2222-3333-4444-555555555555";
    story.delete_with("another uid", one.clone(), &json!({ "preconditions": { "uid": wrong } }));
    let stale = json!({ "preconditions": { "resourceVersion": "1" } });
    story.delete_with("another version", one.clone(), &stale);
    let right =
        json!({ "preconditions": { "uid": made.uid(), "resourceVersion": made.version() } });
    story.delete_with("the right one", one.clone(), &right);
    story.get("gone", one.clone());
    story.delete("again", one.clone());
    let held = json!({ "metadata": { "finalizers": ["example.com/hold"] } });
    story.post("made with a finalizer", all, &sample.with(&held));
    story.delete("held", one.clone());
    story.get("still there", one.clone());
    story.delete("asked again", one.clone());
    story.delete_with("now at once", one.clone(), &json!({ "gracePeriodSeconds": 0 }));
    story.patch(
        "a change while held",
        one.clone(),
        MERGE,
        &json!({ "metadata": { "labels": { "a": "b" } } }),
    );
    let more = json!({ "metadata": { "finalizers": ["example.com/hold", "example.com/more"] } });
    story.patch("one more", one.clone(), MERGE, &more);
    story.patch("let go", one.clone(), MERGE, &json!({ "metadata": { "finalizers": null } }));
    story.get("gone at last", one);
    story
}

fn policies(sample: &Sample) -> Story {
    let mut story = Story::new(sample.title("policies"));
    let (all, one) = (sample.collection(), sample.path());
    for policy in ["Background", "Foreground", "Orphan", "Sideways", ""] {
        story.post("made", all.clone(), &sample.object);
        story.delete_with(policy, one.clone(), &json!({ "propagationPolicy": policy }));
        story.get("after", one.clone());
        story.patch("let go", one.clone(), MERGE, &json!({ "metadata": { "finalizers": null } }));
    }
    for query in ["propagationPolicy=Foreground", "orphanDependents=true", "orphanDependents=false"]
    {
        story.post("made", all.clone(), &sample.object);
        story.delete(query, format!("{one}?{query}"));
        story.get("after", one.clone());
        story.patch("let go", one.clone(), MERGE, &json!({ "metadata": { "finalizers": null } }));
    }
    let both = json!({ "propagationPolicy": "Orphan", "orphanDependents": true });
    story.post("made", all, &sample.object);
    story.delete_with("both ways", one.clone(), &both);
    story.delete_with("negative grace", one, &json!({ "gracePeriodSeconds": -1 }));
    story
}

fn collections(sample: &Sample) -> Story {
    let mut story = Story::new(sample.title("collections"));
    let all = sample.collection();
    for (name, group) in [("a", "x"), ("b", "x"), ("c", "y"), ("d", "y"), ("e", "z")] {
        let patch = json!({ "metadata": { "name": name, "labels": { "group": group } } });
        story.post("made", all.clone(), &sample.with(&patch));
    }
    story.delete("a rehearsal", format!("{all}?dryRun=All&labelSelector=group=x"));
    story.delete("some", format!("{all}?labelSelector=group=x"));
    story.get("left", all.clone());
    story.delete("one by field", format!("{all}?fieldSelector=metadata.name=c"));
    story.delete("none", format!("{all}?labelSelector=group=q"));
    story.delete("a bad selector", format!("{all}?labelSelector=a%20b"));
    story.delete_with("kept dependents", all.clone(), &json!({ "propagationPolicy": "Orphan" }));
    story.get("left", all.clone());
    story.delete("the rest", all.clone());
    story.get("left", all);
    story
}

fn pods() -> Story {
    let mut story = Story::new("deleting pods with grace");
    let pods = "/api/v1/namespaces/${ns}/pods";
    let pod = |name: &str, node: &str| {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
            "spec": { "containers": [{ "name": "app", "image": "web:1" }], "terminationGracePeriodSeconds": 20 },
        });
        if !node.is_empty() {
            pod["spec"]["nodeName"] = node.into();
        }
        pod
    };
    story.post("not bound", pods, &pod("loose", ""));
    story.delete("gone at once", format!("{pods}/loose"));
    story.get("gone", format!("{pods}/loose"));
    story.post("bound", pods, &pod("bound", "node-1"));
    story.delete("with its grace", format!("{pods}/bound"));
    story.get("terminating", format!("{pods}/bound"));
    let grace = |seconds: i64| json!({ "gracePeriodSeconds": seconds });
    story.delete_with("a longer grace", format!("{pods}/bound"), &grace(60));
    story.delete_with("a shorter grace", format!("{pods}/bound"), &grace(5));
    story.delete_with("a rehearsal", format!("{pods}/bound?dryRun=All"), &grace(0));
    story.delete_with("now", format!("{pods}/bound"), &grace(0));
    story.get("gone", format!("{pods}/bound"));
    story.post("bound by a scheduler", pods, &pod("later", ""));
    let binding = |node: &str| {
        json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": { "name": "later" },
            "target": { "kind": "Node", "name": node },
        })
    };
    story.post("no node", format!("{pods}/later/binding"), &binding(""));
    story.post("bind", format!("{pods}/later/binding"), &binding("node-1"));
    story.get("bound", format!("{pods}/later"));
    story.post("bind again", format!("{pods}/later/binding"), &binding("node-2"));
    story.patch(
        "moved",
        format!("{pods}/later"),
        MERGE,
        &json!({ "spec": { "nodeName": "node-2" } }),
    );
    story.delete("by query", format!("{pods}/later?gracePeriodSeconds=3"));
    story.get("terminating", format!("{pods}/later"));
    let eviction = json!({
        "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": "later", "namespace": "${ns}" },
    });
    story.post("evicted", format!("{pods}/later/eviction"), &eviction);
    story.post("evict nobody", format!("{pods}/nobody/eviction"), &eviction);
    story.delete_with("now", format!("{pods}/later"), &grace(0));
    for phase in ["Succeeded", "Failed"] {
        story.post("bound", pods, &pod("done", "node-1"));
        story.patch(
            "it ends",
            format!("{pods}/done/status"),
            MERGE,
            &json!({ "status": { "phase": phase } }),
        );
        story.delete("no grace for the ended", format!("{pods}/done"));
        story.get("gone", format!("{pods}/done"));
    }
    story
}

fn namespaces() -> Story {
    let mut story = Story::new("deleting a namespace");
    let all = "/api/v1/namespaces";
    let maps = "/api/v1/namespaces/${ns}/configmaps";
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "m" } });
    story.post("made", maps, &map);
    story.post("no such namespace", format!("{all}/nowhere/configmaps"), &map);
    story.get("list of nowhere", format!("{all}/nowhere/configmaps"));
    story.get("get of nowhere", format!("{all}/nowhere/configmaps/m"));
    story.get("the namespace", format!("{all}/${{ns}}"));
    story.patch(
        "labelled",
        format!("{all}/${{ns}}"),
        MERGE,
        &json!({ "metadata": { "labels": { "a": "b" } } }),
    );
    story.patch(
        "its finalizers",
        format!("{all}/${{ns}}"),
        MERGE,
        &json!({ "spec": { "finalizers": [] } }),
    );
    story.delete("a rehearsal", format!("{all}/${{ns}}?dryRun=All"));
    story.delete("deleted", format!("{all}/${{ns}}"));
    story.get("terminating", format!("{all}/${{ns}}"));
    story.delete("deleted again", format!("{all}/${{ns}}"));
    let other = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "late" } });
    story.post("too late", maps, &other);
    story.post("too late even to rehearse", format!("{maps}?dryRun=All"), &other);
    story.patch("changes are fine", format!("{maps}/m"), MERGE, &json!({ "data": { "a": "b" } }));
    story.delete("and deletes", format!("{maps}/m"));
    let finalize = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "${ns}" },
        "spec": { "finalizers": [] },
    });
    story.put("finalized", format!("{all}/${{ns}}/finalize"), &finalize);
    story.get("gone", format!("{all}/${{ns}}"));
    story.delete("the default one", format!("{all}/default?dryRun=All"));
    story.delete("the collection", all);
    story
}

fn options() -> Story {
    let mut story = Story::new("options of a delete");
    let maps = "/api/v1/namespaces/${ns}/configmaps";
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "m" } });
    let bodies: [(&str, Value); 7] = [
        (
            "options with a kind",
            json!({ "apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0 }),
        ),
        ("options of meta", json!({ "apiVersion": "meta.k8s.io/v1", "kind": "DeleteOptions" })),
        ("options of apps", json!({ "apiVersion": "apps/v1", "kind": "DeleteOptions" })),
        ("no options", json!({ "apiVersion": "v1", "kind": "ConfigMap" })),
        ("unknown options", json!({ "colour": "red" })),
        ("options of the wrong type", json!({ "gracePeriodSeconds": "0" })),
        ("a rehearsal in the body", json!({ "dryRun": ["All"] })),
    ];
    for (note, body) in &bodies {
        story.post("made", maps, &map);
        story.delete_with(note, format!("{maps}/m"), body);
        story.get("after", format!("{maps}/m"));
    }
    for text in ["{", "null", "[]", "{}", "text"] {
        story.post("made", maps, &map);
        story.ask(Request::new("DELETE", format!("{maps}/m")).note(text).body(JSON, text));
    }
    for media in ["text/plain", "application/yaml", ""] {
        story.post("made", maps, &map);
        story.ask(Request::new("DELETE", format!("{maps}/m")).note(media).body(media, "{}"));
    }
    for query in
        ["gracePeriodSeconds=x", "gracePeriodSeconds=-5", "dryRun=Some", "propagationPolicy=Nope"]
    {
        story.post("made", maps, &map);
        story.delete(query, format!("{maps}/m?{query}"));
    }
    story
}
