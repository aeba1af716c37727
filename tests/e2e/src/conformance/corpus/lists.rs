//! Lists: selectors, pages, versions, forms.

use serde_json::json;

use super::kinds::{Sample, samples};
use crate::conformance::request::{PARTIAL_LIST, Request, Story, TABLE};

pub(super) fn stories() -> Vec<Story> {
    let mut stories = vec![selectors(), pages(), versions(), everywhere()];
    let namespaced = samples().into_iter().filter(|sample| sample.kind.is_namespaced);
    stories.extend(namespaced.filter(|s| s.name().ends_with("small")).map(|s| forms(&s)));
    stories
}

const MAPS: &str = "/api/v1/namespaces/${ns}/configmaps";

fn with_maps(title: &str) -> Story {
    let mut story = Story::new(title);
    for (name, labels) in [
        ("a", json!({ "app": "web", "tier": "front" })),
        ("b", json!({ "app": "web", "tier": "back" })),
        ("c", json!({ "app": "shop" })),
        ("d", json!({ "app": "", "example.com/x": "1" })),
        ("e", json!({ "size": "10" })),
        ("f", json!({})),
    ] {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name, "labels": labels },
        });
        story.post("made", MAPS, &map);
    }
    story
}

const LABELS: &[&str] = &[
    "",
    "app",
    "!app",
    "app=web",
    "app==web",
    "app!=web",
    "app=",
    "app in (web,shop)",
    "app notin (web)",
    "app in ()",
    "app in (web",
    "app=web,tier=front",
    "app=web,tier!=front",
    "app=web,,tier=front",
    ",app",
    "app=web,",
    "example.com/x",
    "example.com/x=1",
    "size>5",
    "size<5",
    "size>x",
    "app>5",
    " app = web ",
    "app web",
    "=web",
    "a b",
    "app=a b",
    "!app=web",
    "app=web/x",
    "-app",
    "app in (web, shop) , !tier",
    "in in (in)",
    "notin",
    "app=='web'",
    "UPPER=Case",
    "app=!",
    "a/b/c",
    "app in (,web)",
    "x in (a),y notin (b,c),z",
];

const FIELDS: &[&str] = &[
    "metadata.name=a",
    "metadata.name!=a",
    "metadata.name==b",
    "metadata.namespace=${ns}",
    "metadata.namespace!=${ns}",
    "metadata.name=a,metadata.name=b",
    "metadata.labels.app=web",
    "data.a=1",
    "metadata.name",
    "metadata.name=",
    "=a",
    ",",
    "metadata.name=a,",
    "metadata.uid=x",
    "metadata.name=a\\,b",
    "metadata.name in (a)",
    "status.phase=Running",
];

const OTHERS: &[(&str, &str)] = &[
    ("pods", "status.phase=Pending"),
    ("pods", "spec.nodeName="),
    ("pods", "spec.nodeName!=a"),
    ("pods", "spec.restartPolicy=Always"),
    ("pods", "spec.schedulerName=x"),
    ("pods", "status.podIP=1"),
    ("pods", "spec.serviceAccountName=x"),
    ("pods", "spec.hostNetwork=false"),
    ("pods", "status.nominatedNodeName="),
    ("pods", "spec.colour=x"),
    ("events", "involvedObject.name=a"),
    ("events", "involvedObject.kind=Pod"),
    ("events", "reason=Started"),
    ("events", "type=Normal"),
    ("events", "source=x"),
    ("events", "reportingComponent=x"),
    ("events", "involvedObject.uid=x"),
    ("events", "message=x"),
    ("secrets", "type=Opaque"),
    ("secrets", "data=1"),
    ("services", "spec.clusterIP=None"),
    ("services", "spec.type=ClusterIP"),
    ("services", "spec.ports=1"),
    ("serviceaccounts", "metadata.name=a"),
    ("endpoints", "metadata.name=a"),
];

const GROUPS: &[(&str, &str, &str)] = &[
    ("apps/v1", "deployments", "metadata.name=a"),
    ("apps/v1", "deployments", "status.replicas=1"),
    ("apps/v1", "replicasets", "status.replicas=1"),
    ("apps/v1", "replicasets", "spec.replicas=1"),
    ("example.com/v1", "widgets", "spec.colour=red"),
    ("example.com/v1", "widgets", "spec.size=1"),
    ("example.com/v2", "widgets", "spec.colour=red"),
    ("flagger.app/v1beta1", "canaries", "status.phase=x"),
    ("coordination.k8s.io/v1", "leases", "spec.holderIdentity=x"),
    ("events.k8s.io/v1", "events", "regarding.name=x"),
    ("events.k8s.io/v1", "events", "involvedObject.name=x"),
];

fn selectors() -> Story {
    let mut story = with_maps("selectors");
    for selector in LABELS {
        story.get(selector, format!("{MAPS}?labelSelector={}", encoded(selector)));
    }
    for selector in FIELDS {
        story.get(selector, format!("{MAPS}?fieldSelector={}", encoded(selector)));
    }
    for (plural, selector) in OTHERS {
        let path =
            format!("/api/v1/namespaces/${{ns}}/{plural}?fieldSelector={}", encoded(selector));
        story.get(&format!("{plural} {selector}"), path);
    }
    for (version, plural, selector) in GROUPS {
        let path = format!(
            "/apis/{version}/namespaces/${{ns}}/{plural}?fieldSelector={}",
            encoded(selector)
        );
        story.get(&format!("{plural} {selector}"), path);
    }
    let one = format!("{MAPS}/a?labelSelector=app%3Dshop");
    story.get("a get takes no notice", one);
    story
}

fn pages() -> Story {
    let mut story = with_maps("pages");
    let first = story.get("two", format!("{MAPS}?limit=2"));
    let token = first.at("/metadata/continue");
    story.get("two more", format!("{MAPS}?limit=2&continue={token}"));
    story.get("the rest", format!("{MAPS}?continue={token}"));
    let gone = format!("{MAPS}/c");
    story.delete("one of the next page", gone);
    let next = story.get("the past as it was", format!("{MAPS}?limit=2&continue={token}"));
    let token = next.at("/metadata/continue");
    story.get("the last", format!("{MAPS}?limit=2&continue={token}"));
    story.get("exactly all", format!("{MAPS}?limit=5"));
    story.get("more than all", format!("{MAPS}?limit=50"));
    let first = story.get("selected", format!("{MAPS}?limit=1&labelSelector=app"));
    let token = first.at("/metadata/continue");
    story.get("selected, on", format!("{MAPS}?limit=1&labelSelector=app&continue={token}"));
    story.get("with a version", format!("{MAPS}?limit=1&continue={token}&resourceVersion=1"));
    story.get("with version zero", format!("{MAPS}?limit=1&continue={token}&resourceVersion=0"));
    for query in [
        "limit=0",
        "limit=-1",
        "limit=x",
        "continue=abc",
        "continue=",
        "limit=2&continue=e30",
        "limit=1&resourceVersion=0",
        "limit=1&resourceVersion=0&resourceVersionMatch=NotOlderThan",
    ] {
        story.get(query, format!("{MAPS}?{query}"));
    }
    let request = Request::new("GET", format!("{MAPS}?limit=2")).accept(TABLE);
    story.ask(request.note("a page of a table"));
    let request = Request::new("GET", format!("{MAPS}?limit=2")).accept(PARTIAL_LIST);
    story.ask(request.note("a page of metadata"));
    story
}

fn versions() -> Story {
    let mut story = with_maps("versions of lists");
    let list = story.get("now", MAPS);
    let then = list.version();
    story.delete("one goes", format!("{MAPS}/a"));
    // The real server's cache may be behind until a client has asked for the stored state.
    story.get("without it", MAPS);
    for (note, query) in [
        ("any", "resourceVersion=0".to_owned()),
        ("empty", "resourceVersion=".to_owned()),
        ("not older", format!("resourceVersion={then}&resourceVersionMatch=NotOlderThan")),
        ("exactly then", format!("resourceVersion={then}&resourceVersionMatch=Exact")),
        ("then, no match", format!("resourceVersion={then}")),
        ("then, a page", format!("resourceVersion={then}&limit=2")),
        (
            "then exactly, a page",
            format!("resourceVersion={then}&limit=2&resourceVersionMatch=Exact"),
        ),
        ("exactly zero", "resourceVersion=0&resourceVersionMatch=Exact".to_owned()),
        ("match alone", "resourceVersionMatch=Exact".to_owned()),
        ("not older alone", "resourceVersionMatch=NotOlderThan".to_owned()),
        ("an unknown match", format!("resourceVersion={then}&resourceVersionMatch=Sometime")),
        ("no number", "resourceVersion=abc".to_owned()),
        ("negative", "resourceVersion=-1".to_owned()),
        ("too early to keep", "resourceVersion=1&resourceVersionMatch=Exact".to_owned()),
        ("initial events of a list", "sendInitialEvents=true".to_owned()),
    ] {
        story.get(note, format!("{MAPS}?{query}"));
    }
    for version in ["0", "", &then, "abc", "-1"] {
        let path = format!("{MAPS}/b?resourceVersion={version}");
        story.get("one at a version", path);
    }
    story.get(
        "one, with a match",
        format!("{MAPS}/b?resourceVersion={then}&resourceVersionMatch=Exact"),
    );
    story
}

fn everywhere() -> Story {
    let mut story = with_maps("paths");
    let selected = "labelSelector=nobody%3Dhas";
    for path in [
        "/api/v1/configmaps",
        "/apis/apps/v1/deployments",
        "/api/v1/namespaces",
        "/api/v1/nodes",
        "/apis/example.com/v1/widgets",
        "/apis/example.com/v1/planets",
        "/api/v1/namespaces/${ns}/nodes",
        "/apis/example.com/v3/widgets",
        "/apis/example.com/v1/gadgets",
        "/apis/nope.com/v1/things",
        "/api/v2/pods",
        "/api/v1/things",
        "/apis/apps/v1beta1/deployments",
        "/api/v1/namespaces/${ns}/things",
        "/apis/apps/v1/namespaces/${ns}/pods",
        "/nothing",
        "/api/",
        "/apis/",
        "/apis/apps/",
        "/api/v1/",
        "/apis/nope.com",
        "/apis/apps/v7",
        "/api/v1/watch/namespaces/${ns}/nothing",
        "/healthz",
        "/livez",
        "/readyz",
    ] {
        story.get("a path", format!("{path}?{selected}"));
    }
    for path in
        ["/api/v1/configmaps/a", "/apis/apps/v1/deployments/a", "/apis/example.com/v1/widgets/a"]
    {
        story.get("a name without its namespace", path);
    }
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "z", "namespace": "${ns}" } });
    story.post("made without its namespace in the path", "/api/v1/configmaps", &map);
    story.get("a namespace and a node", "/api/v1/nodes/nobody");
    story
}

/// A kind as a list, a table, and metadata.
fn forms(sample: &Sample) -> Story {
    let mut story = Story::new(sample.title("lists"));
    let all = sample.collection();
    story.get("nothing", all.clone());
    story.ask(Request::new("GET", all.clone()).note("an empty table").accept(TABLE));
    for name in ["b", "a"] {
        let patch = json!({ "metadata": { "name": name, "labels": { "list": name } } });
        story.post("made", all.clone(), &sample.with(&patch));
    }
    story.get("both", all.clone());
    story.get("one", format!("{all}?labelSelector=list%3Da"));
    story.get("a page", format!("{all}?limit=1"));
    story.ask(Request::new("GET", all.clone()).note("a table").accept(TABLE));
    for include in ["None", "Metadata", "Object", "Everything"] {
        let path = format!("{all}?includeObject={include}");
        story.ask(Request::new("GET", path).note(include).accept(TABLE));
    }
    story.ask(Request::new("GET", all.clone()).note("metadata").accept(PARTIAL_LIST));
    let older = TABLE.replace("v=v1", "v=v1beta1");
    story.ask(Request::new("GET", all).note("an older table").accept(&older));
    story
}

fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    // `${ns}` is filled in later, so its characters stay.
    for character in text.chars() {
        match character {
            ' ' => encoded.push_str("%20"),
            '=' => encoded.push_str("%3D"),
            '<' => encoded.push_str("%3C"),
            '>' => encoded.push_str("%3E"),
            '\\' => encoded.push_str("%5C"),
            '\'' => encoded.push_str("%27"),
            other => encoded.push(other),
        }
    }
    encoded
}
