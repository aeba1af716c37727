use serde_json::json;
use tidegate_providers::{
    traffic::VIRTUAL_SERVICE,
    workload::{HORIZONTAL_POD_AUTOSCALER, SCALED_OBJECT},
};

use super::*;
use crate::canary::{
    observe::testing::{Bench, SHOP},
    testing::knative,
};

fn inputs(bench: &Bench) -> Inputs {
    bench.observe().inputs
}

fn of(spec: &Value) -> Inputs {
    inputs(&Bench::new("istio").set_up().spec(spec))
}

#[test]
fn a_reference_is_to_the_canarys_own_namespace_unless_it_names_another() {
    let of = |namespace: Option<&str>| {
        let reference = ObjectRef { name: "t".to_owned(), namespace: namespace.map(str::to_owned) };
        reference_key(SHOP, &reference)
    };
    assert_eq!(of(None), Key::new(SHOP, "t"));
    assert_eq!(of(Some("")), Key::new(SHOP, "t"));
    assert_eq!(of(Some("ops")), Key::new("ops", "t"));
}

#[test]
fn the_present_route_is_the_one_of_the_spec() {
    let route = of(&json!({ "service": { "name": "shop" } })).present_route().unwrap();
    let want = ("istio", "VirtualService", "shop", "shop");
    assert_eq!((&*route.provider, &*route.kind, &*route.name, &*route.service), want);
}

#[test]
fn routing_objects_are_taken_along() {
    let inputs = of(&json!({}));
    assert!(inputs.live.get(VIRTUAL_SERVICE, "web").is_some());
    assert!(inputs.target.is_some() && inputs.primary.is_some());
    assert_eq!(inputs.owner().uid, "canary-web");
    assert_eq!(inputs.workload_cx().target, "web");
    assert_eq!(inputs.primary_revision(), None, "only those of Knative have one");
    assert_eq!(inputs.distribution(), None);
    let near = of(&json!({ "service": { "trafficDistribution": "PreferClose" } }));
    assert_eq!(near.distribution(), Some("PreferClose"));
}

#[test]
fn a_canary_that_is_being_deleted_says_so() {
    assert!(!of(&json!({})).is_deleted());
    assert!(inputs(&Bench::new("istio").set_up().deleted()).is_deleted());
}

#[test]
fn an_annotation_asks_for_another_try_at_once() {
    let held = || {
        Bench::new("istio").set_up().remembering(&json!({
            "phase": "Waiting", "lastTransitionTime": "2026-01-01T00:00:59Z",
        }))
    };
    let asked = held().metadata(&json!({ "annotations": { RETRY: "now" } }));
    let empty = held().metadata(&json!({ "annotations": { RETRY: "" } }));
    assert_eq!(inputs(&held()).interval_state, inputs(&empty).interval_state);
    assert_ne!(inputs(&held()).interval_state, inputs(&asked).interval_state);
}

#[test]
fn the_primarys_scaler_follows_the_targets() {
    let reference =
        |kind: &str| json!({ "autoscalerRef": { "apiVersion": "v", "kind": kind, "name": "web" } });
    let hpa = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": { "name": "web", "namespace": SHOP },
        "spec": { "minReplicas": 2, "maxReplicas": 9,
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" } },
    });
    let inputs = of(&reference("HorizontalPodAutoscaler"));
    let target = || Some(Arc::new(hpa.clone()));
    let changes = |scalers: &Scalers| inputs.refreshed_scaler(scalers);
    let both = Scalers { target: target(), primary: None };
    assert_eq!(changes(&both).unwrap().len(), 1, "the copy is made");
    let gone = Scalers { target: None, primary: target() };
    assert_eq!(changes(&gone).unwrap(), [], "deleted since: the primary keeps its settings");
    let never = changes(&Scalers::default());
    assert!(matches!(never, Err(WorkloadError::ScalerMissing { .. })), "{never:?}");
    assert_eq!(of(&json!({})).refreshed_scaler(&both).unwrap(), [], "it has none");
    assert_eq!(inputs.pause_scaler(&both, true), None, "a parked target stops it by itself");
    assert_eq!(of(&json!({})).pause_scaler(&both, true), None);
    let keda = of(&reference("ScaledObject"));
    assert!(keda.pause_scaler(&both, true).is_some());
    assert_eq!(keda.pause_scaler(&Scalers::default(), true), None);
}

#[test]
fn scalers_are_found_by_the_name_of_the_reference() {
    let bench = Bench::new("istio").spec(&json!({ "autoscalerRef": {
        "apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "name": "sizes",
    } }));
    bench.put(SCALED_OBJECT, json!({ "metadata": { "name": "sizes" } }));
    bench.put(SCALED_OBJECT, json!({ "metadata": { "name": "sizes-primary" } }));
    bench.put(HORIZONTAL_POD_AUTOSCALER, json!({ "metadata": { "name": "sizes" } }));
    let scalers = inputs(&bench).scalers;
    let name = |it: Option<Arc<Value>>| it.map(|it| it["metadata"]["name"].clone());
    assert_eq!(name(scalers.target), Some(json!("sizes")));
    assert_eq!(name(scalers.primary), Some(json!("sizes-primary")));
    let none = inputs(&Bench::new("istio")).scalers;
    assert!(none.target.is_none() && none.primary.is_none());
}

#[test]
fn a_template_that_trusts_any_certificate_is_noted() {
    let metric = json!({ "name": "lag", "templateRef": { "name": "t" } });
    let bench = Bench::new("istio").spec(&json!({ "analysis": { "metrics": [metric] } }));
    let notes = |bench: &Bench| inputs(bench).plan.notes.len();
    let before = notes(&bench);
    for (skips, more) in [(json!(false), 0), (json!(true), 1)] {
        let provider = json!({ "type": "prometheus", "insecureSkipVerify": skips });
        bench.put(
            METRIC_TEMPLATE,
            json!({ "metadata": { "name": "t" }, "spec": { "provider": provider } }),
        );
        assert_eq!(notes(&bench), before + more);
    }
}

#[test]
fn the_primary_of_knative_is_a_revision_of_the_target() {
    let none = json!([]);
    let of = |bench: &Bench| {
        let inputs = inputs(bench);
        (inputs.primary_revision().map(str::to_owned), inputs.primary.is_some())
    };
    assert_eq!(of(&knative(None, &none)), (None, false));
    let chosen = Some("web-00001".to_owned());
    assert_eq!(of(&knative(Some("web-00001"), &none)), (chosen.clone(), true));
    let written = json!({ "rollout": { "primaryRevision": "web-00001" } });
    let remembered = knative(None, &none).remembering(&written);
    assert_eq!(of(&remembered), (chosen, false), "when it was last written down");
    let newer = knative(Some("web-00003"), &none).remembering(&written);
    assert_eq!(of(&newer).0.as_deref(), Some("web-00003"), "the target says it itself");
}
