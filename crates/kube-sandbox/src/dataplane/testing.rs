//! Clusters with traffic, for tests.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{Sink, routing_crds};
use crate::{Sandbox, Settings};

/// Keeps every sample: by series, in the text form of metrics pages, with times and values.
#[derive(Debug, Default)]
pub(super) struct Samples(Mutex<BTreeMap<String, Vec<(i64, f64)>>>);

impl Sink for Samples {
    fn append(&self, name: &str, labels: &[(&str, &str)], at_ms: i64, value: f64) {
        let mut pairs: Vec<_> =
            labels.iter().map(|(key, value)| format!("{key}={value:?}")).collect();
        pairs.sort();
        let series = format!("{name}{{{}}}", pairs.join(","));
        let mut samples = self.0.lock();
        samples.entry(series).or_default().push((at_ms, value));
    }
}

impl Samples {
    pub(super) fn all(&self) -> BTreeMap<String, Vec<(i64, f64)>> {
        self.0.lock().clone()
    }

    /// The sum of the last values of the series of `name` whose labels contain all of `parts`. All
    /// of them are counters, so the sum is a whole number.
    pub(super) fn last(&self, name: &str, parts: &[&str]) -> u64 {
        let series = self.matching(name, parts);
        let sum: f64 = series.iter().filter_map(|samples| samples.last()).map(|last| last.1).sum();
        sum.to_string().parse().unwrap()
    }

    pub(super) fn matching(&self, name: &str, parts: &[&str]) -> Vec<Vec<(i64, f64)>> {
        let prefix = format!("{name}{{");
        let all = self.all();
        let is_it = |series: &String| {
            series.starts_with(&prefix) && parts.iter().all(|part| series.contains(part))
        };
        all.into_iter().filter(|(series, _)| is_it(series)).map(|(_, samples)| samples).collect()
    }
}

/// A Deployment and its Service.
pub(super) fn workload(name: &str, image: &str, replicas: u32) -> Vec<Value> {
    let labels = json!({ "app": name });
    vec![
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": name, "namespace": "test" },
            "spec": {
                "replicas": replicas, "selector": { "matchLabels": labels },
                "template": {
                    "metadata": { "labels": labels },
                    "spec": { "containers": [{ "name": "web", "image": image }] },
                },
            },
        }),
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": { "name": name, "namespace": "test" },
            "spec": { "selector": labels, "ports": [{ "port": 80, "targetPort": 8080 }] },
        }),
    ]
}

/// A route for `shop.example.com` with these weights.
pub(super) fn split(primary: u32, canary: u32) -> Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": { "name": "shop", "namespace": "test" },
        "spec": {
            "parentRefs": [{ "name": "gw" }], "hostnames": ["shop.example.com"],
            "rules": [{ "backendRefs": [
                { "name": "shop-primary", "port": 80, "weight": primary },
                { "name": "shop-canary", "port": 80, "weight": canary },
            ] }],
        },
    })
}

/// A cluster with `shop-primary` (version 1, two pods), `shop-canary` (image tag `canary`, one pod)
/// and an even split between them.
pub(super) fn shop(settings: Settings, canary: &str) -> Sandbox {
    let sandbox = Sandbox::new(settings);
    let namespace =
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "test" } });
    let mut objects = vec![namespace];
    objects.extend(routing_crds());
    objects.extend(workload("shop-primary", "shop:1", 2));
    objects.extend(workload("shop-canary", &format!("shop:{canary}"), 1));
    objects.push(split(50, 50));
    sandbox.load(objects).unwrap();
    sandbox
}
