//! CRDs of routes and scalers, as their projects publish them, without sentences.
//!
//! `tools/route-definitions` writes `data/crds/upstream` from the real definitions: fields, types, patterns, lengths,
//! enums, defaults and rules. A test of the end-to-end suite `providers` compares the two. The README there names the
//! kinds whose definitions cannot be had.

use std::{collections::BTreeMap, sync::LazyLock};

use serde_json::Value;

use crate::manifests;

macro_rules! upstream {
    ($($name:literal),* $(,)?) => {
        [$(include_str!(concat!("../data/crds/upstream/", $name, ".json"))),*]
    };
}

const UPSTREAM: [&str; 13] = upstream![
    "destinationrules.networking.istio.io",
    "gatewayclasses.gateway.networking.k8s.io",
    "gateways.gateway.networking.k8s.io",
    "gateways.networking.istio.io",
    "grpcroutes.gateway.networking.k8s.io",
    "httpproxies.projectcontour.io",
    "httproutes.gateway.networking.k8s.io",
    "ingressroutes.traefik.io",
    "referencegrants.gateway.networking.k8s.io",
    "scaledobjects.keda.sh",
    "services.serving.knative.dev",
    "traefikservices.traefik.io",
    "virtualservices.networking.istio.io",
];

/// By group. Parsed once a process.
static BY_GROUP: LazyLock<BTreeMap<String, Vec<Value>>> = LazyLock::new(|| {
    let mut by_group: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for text in UPSTREAM {
        for mut crd in manifests::parse(text).expect("our own definitions are JSON") {
            share_schemas(&mut crd);
            let group = crd["spec"]["group"].as_str().unwrap_or_default().to_owned();
            by_group.entry(group).or_default().push(crd);
        }
    }
    by_group
});

/// The `CustomResourceDefinition` objects of these groups, ready to be loaded.
pub(crate) fn of_groups(groups: &[&str]) -> Vec<Value> {
    groups.iter().filter_map(|group| BY_GROUP.get(*group)).flatten().cloned().collect()
}

/// All of them: every kind of a router or scaler whose real definition can be had.
pub fn upstream_crds() -> Vec<Value> {
    BY_GROUP.values().flatten().cloned().collect()
}

/// A version without a schema gets that of the first: the versions of a kind differ in name only.
fn share_schemas(crd: &mut Value) {
    let versions = crd.pointer_mut("/spec/versions").and_then(Value::as_array_mut);
    let Some((first, others)) = versions.and_then(|versions| versions.split_first_mut()) else {
        return;
    };
    for version in others {
        for key in ["schema", "additionalPrinterColumns", "subresources"] {
            if version.get(key).is_none() && first.get(key).is_some() {
                version[key] = first[key].clone();
            }
        }
    }
}
