//! A release by weight with every provider: its objects, and its queries.
//!
//! Kuma's `TrafficRoute` is one for the whole cluster, so it cannot be played side by side. Knative needs its
//! own controller, which reports the traffic of each revision.

use serde_json::json;

use super::{Scenario, builtin_metrics, by_weight_with};

const TCP: &str = "istio over TCP";

const PROVIDERS: [(&str, &str); 16] = [
    ("provider: istio", "istio"),
    ("provider: istio over TCP", TCP),
    ("provider: gateway v1", "gatewayapi:v1"),
    ("provider: gateway v1beta1", "gatewayapi:v1beta1"),
    ("provider: traefik", "traefik"),
    ("provider: contour", "contour"),
    ("provider: nginx", "nginx"),
    ("provider: skipper", "skipper"),
    ("provider: linkerd", "linkerd"),
    ("provider: smi v1alpha1", "smi:v1alpha1"),
    ("provider: smi v1alpha2", "smi:v1alpha2"),
    ("provider: smi v1alpha3", "smi:v1alpha3"),
    ("provider: osm", "osm"),
    ("provider: app mesh v1beta1", "appmesh"),
    ("provider: app mesh v1beta2", "appmesh:v1beta2"),
    ("provider: gloo", "gloo"),
];

pub(super) fn all() -> Vec<Scenario> {
    let analysis = || by_weight_with(json!({ "metrics": builtin_metrics() }));
    let released = |(name, provider): (&'static str, &str)| {
        Scenario::new(name, provider, analysis()).released()
    };
    let mut all: Vec<_> = PROVIDERS.into_iter().map(released).collect();
    // Flagger crashes at an Ingress without annotations.
    for object in all.iter_mut().flat_map(|it| &mut it.objects).filter(|it| it["kind"] == "Ingress")
    {
        object["metadata"]["annotations"] =
            json!({ "zalando.org/backend-load-balancer": "random" });
    }
    all.push(Scenario::new("provider: apisix", "apisix", analysis()).released());
    all.push(
        Scenario::new("provider: of the flag", "istio", analysis())
            .spec(json!({ "provider": null }))
            .flag("--mesh-provider=istio")
            .released(),
    );
    all
}
