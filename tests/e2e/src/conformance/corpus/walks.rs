//! Random writes of several clients to few objects.
//!
//! A walk is seeded: the same seed is the same story. Each step is one write by one of three managers to
//! one of two objects, of any type, mostly valid.

use kube_sandbox::random::Random;
use serde_json::{Value, json};

use crate::conformance::request::{APPLY, JSON_PATCH, MERGE, STRATEGIC, Story};

const WALKS: u64 = 24;
const STEPS: usize = 40;

pub(super) fn stories() -> Vec<Story> {
    (0..WALKS).map(walk).collect()
}

fn pick<T: Copy>(random: &Random, from: &[T]) -> T {
    let index = usize::try_from(random.below(from.len() as u64)).unwrap_or_default();
    from[index]
}

#[derive(Debug, Clone, Copy)]
enum Ground {
    Map,
    Deployment,
    Service,
    Widget,
}

const GROUNDS: [Ground; 4] = [Ground::Map, Ground::Deployment, Ground::Service, Ground::Widget];

fn walk(seed: u64) -> Story {
    let random = Random::seeded(seed);
    let ground = pick(&random, &GROUNDS);
    let mut story = Story::new(format!("walk {seed}: {ground:?}"));
    for _ in 0..STEPS {
        step(&mut story, ground, &random);
    }
    story.get("in the end", ground.path());
    story
}

fn step(story: &mut Story, ground: Ground, random: &Random) {
    let name = pick(random, &["a", "b"]);
    let manager = pick(random, &["ann", "bob", "eve"]);
    let one = format!("{}/{name}", ground.path());
    let object = ground.object(name, random);
    let by = format!("fieldManager={manager}");
    match random.below(12) {
        0 => story.post("post", format!("{}?{by}", ground.path()), &object),
        1 => story.put("put", format!("{one}?{by}"), &object),
        2 | 3 => story.patch("merge", format!("{one}?{by}"), MERGE, &ground.change(random)),
        4 if !matches!(ground, Ground::Widget) => {
            story.patch("strategic", format!("{one}?{by}"), STRATEGIC, &ground.change(random))
        }
        4 | 5 => {
            let operation =
                json!([{ "op": "add", "path": "/metadata/labels", "value": { "l": manager } }]);
            story.patch("json", format!("{one}?{by}"), JSON_PATCH, &operation)
        }
        6 | 7 => story.patch("apply", format!("{one}?{by}"), APPLY, &ground.partial(name, random)),
        8 | 9 => story.patch("apply all", format!("{one}?{by}&force=true"), APPLY, &object),
        10 if random.chance(0.3) => story.delete("delete", one),
        10 => story.patch(
            "status",
            format!("{one}/status?{by}"),
            MERGE,
            &json!({ "status": { "replicas": random.below(3) } }),
        ),
        _ => story.get("list", ground.path()),
    };
}

// === impl Ground ===

impl Ground {
    fn path(self) -> &'static str {
        match self {
            Self::Map => "/api/v1/namespaces/${ns}/configmaps",
            Self::Deployment => "/apis/apps/v1/namespaces/${ns}/deployments",
            Self::Service => "/api/v1/namespaces/${ns}/services",
            Self::Widget => "/apis/example.com/v1/namespaces/${ns}/widgets",
        }
    }

    fn header(self, name: &str) -> Value {
        let (version, kind) = match self {
            Self::Map => ("v1", "ConfigMap"),
            Self::Deployment => ("apps/v1", "Deployment"),
            Self::Service => ("v1", "Service"),
            Self::Widget => ("example.com/v1", "Widget"),
        };
        json!({ "apiVersion": version, "kind": kind, "metadata": { "name": name } })
    }

    /// A whole object, with some of its fields chosen at random.
    fn object(self, name: &str, random: &Random) -> Value {
        let needed = match self {
            Self::Map => json!({}),
            Self::Deployment => json!({ "spec": {
                "selector": { "matchLabels": { "app": "web" } },
                "template": {
                    "metadata": { "labels": { "app": "web" } },
                    "spec": { "containers": [{ "name": "app", "image": pick(random, &["web:1", "web:2"]) }] },
                },
            } }),
            Self::Service => json!({ "spec": { "ports": [{ "port": 80, "name": "http" }] } }),
            Self::Widget => json!({ "spec": { "size": 3 } }),
        };
        let whole = super::merged(&self.header(name), &needed);
        super::merged(&whole, &self.change(random))
    }

    /// A partial object with one or two fields.
    fn partial(self, name: &str, random: &Random) -> Value {
        super::merged(&self.header(name), &self.change(random))
    }

    /// A change of one to three fields.
    fn change(self, random: &Random) -> Value {
        let mut change = json!({});
        for _ in 0..=random.below(3) {
            change = super::merged(&change, &self.field(random));
        }
        change
    }

    fn field(self, random: &Random) -> Value {
        let number = random.below(3);
        let key = pick(random, &["x", "y", "z"]);
        if random.chance(0.25) {
            return json!({ "metadata": { "labels": { key: number.to_string() } } });
        }
        match self {
            Self::Map => json!({ "data": { key: number.to_string() } }),
            Self::Deployment => deployment_field(random, number, key),
            Self::Service => service_field(random, number, key),
            Self::Widget => widget_field(random, number, key),
        }
    }
}

fn deployment_field(random: &Random, number: u64, key: &str) -> Value {
    let pod = |change: Value| json!({ "spec": { "template": { "spec": change } } });
    match random.below(6) {
        0 => json!({ "spec": { "replicas": number } }),
        1 => json!({ "spec": { "paused": number == 1 } }),
        2 => pod(
            json!({ "containers": [{ "name": "app", "image": format!("web:{number}"), "env": [{ "name": key, "value": "1" }] }] }),
        ),
        3 => pod(json!({ "containers": [{ "name": key, "image": "side:1" }] })),
        4 => pod(json!({ "tolerations": [{ "key": key, "operator": "Exists" }] })),
        _ => pod(json!({ "nodeSelector": { key: number.to_string() } })),
    }
}

fn service_field(random: &Random, number: u64, key: &str) -> Value {
    match random.below(5) {
        0 => json!({ "spec": { "selector": { key: number.to_string() } } }),
        1 => json!({ "spec": { "ports": [{ "port": 80 + number, "name": key }] } }),
        2 => {
            json!({ "spec": { "ports": [{ "port": 80, "name": "http", "targetPort": number + 1 }] } })
        }
        3 => json!({ "spec": { "sessionAffinity": pick(random, &["None", "ClientIP"]) } }),
        _ => json!({ "spec": { "publishNotReadyAddresses": number == 0 } }),
    }
}

fn widget_field(random: &Random, number: u64, key: &str) -> Value {
    match random.below(6) {
        0 => json!({ "spec": { "size": 3 + number } }),
        1 => json!({ "spec": { "tags": [key] } }),
        2 => json!({ "spec": { "parts": [{ "name": key, "count": number }] } }),
        3 => json!({ "spec": { "free": { key: { "n": number } } } }),
        4 => json!({ "spec": { "limits": { "low": number } } }),
        _ => json!({ "spec": { "note": null } }),
    }
}
