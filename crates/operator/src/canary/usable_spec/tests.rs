use serde_json::{Value, json};
use tidegate_providers::workload::{DAEMON_SET, DEPLOYMENT};

use super::*;
use crate::{
    canary::observe::testing::{Bench, deployment, owned},
    cluster::cache::TableState,
};

fn usable(bench: &Bench) -> UsableSpec {
    bench.with_env(|env| {
        let canary: Canary = serde_json::from_value(bench.canary.clone()).unwrap();
        let status = canary.status.clone().unwrap_or_default();
        let remembered = Remembered::of(status, canary.spec.manual_step.is_some());
        usable_spec(env, &Arc::new(canary), &remembered).unwrap()
    })
}

/// A rollout in progress by Istio, of Deployment `web`.
fn under_way() -> Bench {
    Bench::new("istio").remembering(&json!({
        "phase": "Progressing", "canaryWeight": 20,
        "rollout": {
            "provider": "istio",
            "target": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
        },
    }))
}

#[test]
fn a_sound_spec_is_used_as_it_is() {
    let spec = usable(&Bench::new("istio"));
    assert_eq!((spec.mesh, spec.errors, spec.blockers), (Mesh::Istio, vec![], vec![]));
}

#[test]
fn an_invalid_spec_blocks_at_first_and_is_an_error_once_a_route_is_remembered() {
    let unknown = json!({ "targetRef": { "kind": "StatefulSet" } });
    let fresh = usable(&Bench::new("istio").spec(&unknown));
    assert_eq!(fresh.errors, Vec::<String>::new());
    assert!(fresh.blockers[0].contains("StatefulSet"), "{:?}", fresh.blockers);

    let bench = under_way().spec(&unknown);
    bench.put(DEPLOYMENT, owned(deployment("web-primary", "web:1.0", 2)));
    let edited = usable(&bench);
    assert_eq!(edited.blockers, Vec::<String>::new());
    assert!(edited.errors.iter().any(|it| it.contains("StatefulSet")), "{:?}", edited.errors);
    assert_eq!(edited.canary.spec.target_ref.kind, TargetKind::Deployment, "as the primary");
}

#[test]
fn the_kind_of_a_rollout_is_that_of_its_primary() {
    let mut bench = Bench::new("istio").spec(&json!({ "targetRef": { "kind": "DaemonSet" } }));
    bench =
        bench.remembering(&json!({ "phase": "Progressing", "rollout": { "provider": "istio" } }));
    bench.put(DEPLOYMENT, owned(deployment("web-primary", "web:1.0", 2)));
    let spec = usable(&bench);
    assert_eq!(spec.canary.spec.target_ref.kind, TargetKind::Deployment);
    assert!(spec.errors[0].starts_with("spec.targetRef.kind: "), "{:?}", spec.errors);
    assert!(spec.errors[0].contains("that of a Deployment"), "{:?}", spec.errors);

    bench.put(DAEMON_SET, owned(deployment("web-primary", "web:1.0", 2)));
    assert_eq!(usable(&bench).errors, Vec::<String>::new(), "it has a primary of its kind");

    let foreign = Bench::new("istio")
        .spec(&json!({ "targetRef": { "kind": "DaemonSet" } }))
        .remembering(&json!({ "phase": "Progressing" }));
    foreign.put(DEPLOYMENT, deployment("web-primary", "web:1.0", 2));
    assert_eq!(usable(&foreign).errors, Vec::<String>::new(), "that primary is not its own");

    let at_rest = Bench::new("istio").spec(&json!({ "targetRef": { "kind": "DaemonSet" } }));
    at_rest.put(DEPLOYMENT, owned(deployment("web-primary", "web:1.0", 2)));
    assert_eq!(usable(&at_rest).errors, Vec::<String>::new(), "nothing is under way");
}

#[test]
fn the_kind_of_a_primary_is_not_guessed_before_workloads_are_listed() {
    let mut bench = Bench::new("istio").spec(&json!({ "targetRef": { "kind": "DaemonSet" } }));
    bench = bench.remembering(&json!({ "phase": "Progressing" }));
    bench.fail(DAEMON_SET, TableState::Pending);
    let found = bench.with_env(|env| {
        let canary: Canary = serde_json::from_value(bench.canary.clone()).unwrap();
        let remembered = Remembered::of(canary.status.clone().unwrap_or_default(), false);
        usable_spec(env, &Arc::new(canary), &remembered).err()
    });
    assert_eq!(found, Some(NotYet::Listing));
    assert!(bench.watched.lock().contains(&DAEMON_SET));
}

#[test]
fn a_rollout_keeps_its_target_until_it_is_over() {
    let moved = json!({ "targetRef": { "name": "shop" } });
    let status = |phase: &str, weight: i64| json!({ "phase": phase, "canaryWeight": weight });
    let cases = [
        ("under way", status("Progressing", 20), false, true),
        ("promoting", status("Promoting", 0), false, true),
        ("waiting for approval to begin", status("Waiting", 0), false, false),
        ("at rest", status("Succeeded", 0), false, false),
        ("failed with traffic on the canary", status("Failed", 100), false, true),
        ("deleted", status("Succeeded", 0), true, true),
    ];
    for (reason, status, is_deleted, is_kept) in cases {
        let mut bench = under_way().spec(&moved).remembering(&status);
        if is_deleted {
            bench = bench.deleted();
        }
        let spec = usable(&bench);
        let want = if is_kept { "web" } else { "shop" };
        assert_eq!(spec.canary.spec.target_ref.name, want, "{reason}");
        let is_said = spec.errors.iter().any(|it| {
            it.starts_with(
                "spec.targetRef.name: the rollout under way is that of the Deployment `web`",
            )
        });
        assert_eq!(is_said, is_kept, "{reason}: {:?}", spec.errors);
    }
}

#[test]
fn an_unknown_provider_is_replaced_by_the_remembered_one() {
    let spec = usable(&under_way().spec(&json!({ "targetRef": { "kind": "StatefulSet" } })));
    assert_eq!(spec.mesh, Mesh::Istio);
    let mut bench = under_way();
    bench.canary["spec"].as_object_mut().unwrap().remove("provider");
    bench.options.mesh_provider = "istoi".to_owned();
    let spec = usable(&bench);
    assert_eq!((spec.mesh, spec.blockers.len()), (Mesh::Istio, 0));
    assert!(spec.errors[0].starts_with("spec.provider: "), "{:?}", spec.errors);
    let mut bench = Bench::new("istio");
    bench.canary["spec"].as_object_mut().unwrap().remove("provider");
    bench.options.mesh_provider = "istoi".to_owned();
    assert!(usable(&bench).blockers[0].starts_with("spec.provider: "), "no route is remembered");
}

#[test]
fn the_older_canary_of_a_target_acts_and_the_younger_is_blocked() {
    let other = |name: &str, created: &str, target: Value| {
        json!({
            "metadata": { "name": name, "uid": format!("canary-{name}"), "creationTimestamp": created },
            "spec": { "targetRef": target },
        })
    };
    let web = json!({ "kind": "Deployment", "name": "web" });
    let daemons = json!({ "kind": "DaemonSet", "name": "web" });
    let shop = json!({ "kind": "Deployment", "name": "shop" });
    let (older, younger) = ("2025-11-01T00:00:00Z", "2025-12-02T00:00:00Z");
    let cases = [
        ("older", other("a", older, web.clone()), Some("is the target of the older canary `a`")),
        ("younger", other("a", younger, web.clone()), None),
        ("older, of another target", other("a", older, shop), None),
        ("older, of another kind", other("a", older, daemons), Some("have the same names")),
    ];
    for (reason, object, want) in cases {
        let bench = Bench::new("istio");
        bench.put(CANARY, object);
        let blockers = usable(&bench).blockers;
        match want {
            Some(text) => assert!(blockers[0].contains(text), "{reason}: {blockers:?}"),
            None => assert_eq!(blockers, Vec::<String>::new(), "{reason}"),
        }
    }
    let bench = Bench::new("istio");
    let mut elsewhere = other("a", older, web);
    elsewhere["metadata"]["namespace"] = json!("another");
    bench.put(CANARY, elsewhere);
    assert_eq!(usable(&bench).blockers, Vec::<String>::new(), "another namespace");
    let itself = bench.canary.clone();
    bench.put(CANARY, itself);
    assert_eq!(usable(&bench).blockers, Vec::<String>::new(), "the canary itself");
}

#[test]
fn an_upstream_of_a_namespace_that_is_not_watched_is_not_said_to_be_missing() {
    let bench = |provider: &str, namespace: Option<&str>, watched: Option<&str>| {
        let upstream = json!({ "apiVersion": "gloo.solo.io/v1", "kind": "Upstream",
            "name": "settings", "namespace": namespace });
        let mut bench = Bench::new(provider).spec(&json!({ "upstreamRef": upstream }));
        bench.cluster.namespace = watched.map(str::to_owned);
        bench
    };
    let cases = [
        ("in its own namespace", None, "gloo", Some("shop"), false),
        ("in the watched one", Some("shop"), "gloo", Some("shop"), false),
        ("all are watched", Some("infra"), "gloo", None, false),
        ("no Upstream is used", Some("infra"), "istio", Some("shop"), false),
        ("not watched", Some("infra"), "gloo", Some("shop"), true),
    ];
    for (reason, namespace, provider, watched, is_refused) in cases {
        let spec = usable(&bench(provider, namespace, watched));
        let all = [spec.errors, spec.blockers].concat();
        let is_said = all.iter().any(|it| it.starts_with("spec.upstreamRef.namespace: "));
        assert_eq!(is_said, is_refused, "{reason}: {all:?}");
    }
}

#[test]
fn parts_that_must_not_be_read_are_stripped() {
    let elsewhere = json!({ "name": "a", "namespace": "other" });
    let spec = json!({
        "targetRef": { "apiVersion": "v1", "kind": "Service", "name": "web" },
        "autoscalerRef": { "apiVersion": "v1", "kind": "ScaledObject", "name": "web" },
        "upstreamRef": { "apiVersion": "v1", "kind": "Upstream", "name": "a", "namespace": "gloo" },
        "analysis": {
            "interval": "1m", "threshold": 1, "stepWeight": 10,
            "sessionAffinity": { "cookieName": "a", "primaryCookieName": "a" },
            "metrics": [
                { "name": "theirs", "templateRef": elsewhere },
                { "name": "own", "templateRef": { "name": "a", "namespace": "shop" } },
                { "name": "request-success-rate" },
            ],
            "alerts": [{ "name": "theirs", "providerRef": elsewhere }],
        },
    });
    let stripped = |others: CrossNamespace, is_upstream_visible: bool| {
        let canary = json!({ "metadata": { "name": "web" }, "spec": spec });
        let mut canary: Canary = serde_json::from_value(canary).unwrap();
        strip(&mut canary, "shop", others, is_upstream_visible);
        json!(canary.spec)
    };
    let names = |list: &Value| -> Vec<Value> {
        list.as_array().into_iter().flatten().map(|it| it["name"].clone()).collect()
    };
    let few = stripped(CrossNamespace::Forbidden, true);
    assert_eq!(names(&few["analysis"]["metrics"]), ["own", "request-success-rate"]);
    assert_eq!(names(&few["analysis"]["alerts"]), Vec::<Value>::new());
    for gone in ["upstreamRef", "autoscalerRef"] {
        assert_eq!(few.get(gone), None, "{gone}");
    }
    let cookies = &few["analysis"]["sessionAffinity"];
    assert_eq!(cookies["cookieName"], "a");
    assert_eq!(cookies.get("primaryCookieName"), None, "two cookies of one name");

    let many = stripped(CrossNamespace::Allowed, true);
    assert_eq!(names(&many["analysis"]["metrics"]).len(), 3);
    assert_eq!(names(&many["analysis"]["alerts"]).len(), 1);
    assert!(many.get("upstreamRef").is_some());
    assert_eq!(stripped(CrossNamespace::Allowed, false).get("upstreamRef"), None, "out of sight");
}

#[test]
fn refused_names_are_replaced_by_those_of_the_live_route_while_a_rollout_goes_back() {
    let refused = json!({ "service": {
        "hosts": ["api.other.svc", "app.example.com"], "gateways": ["other/public"],
    } });
    let confined = |mut bench: Bench| {
        bench.options.cross_namespace = CrossNamespace::Forbidden;
        bench.options.shared_gateways = vec!["edge/public".to_owned()];
        bench.spec(&refused)
    };
    let names = |spec: &UsableSpec| {
        let service = spec.canary.spec.service.clone().unwrap();
        (service.hosts, service.gateways)
    };
    let spec = usable(&confined(under_way()));
    let fields: Vec<_> = spec.errors.iter().filter_map(|it| it.split(": ").next()).collect();
    assert_eq!(fields, ["spec.service.hosts[0]", "spec.service.gateways[0]"]);
    assert_eq!(names(&spec), (vec![], vec![]), "without a route, those of the apex Service");

    let bench = confined(under_way());
    bench.put(
        VIRTUAL_SERVICE,
        json!({
            "metadata": { "name": "web" },
            "spec": { "hosts": ["shop.example.com", "web"], "gateways": ["edge/public", "mesh"] },
        }),
    );
    let hosts = ["shop.example.com", "web"].map(str::to_owned).to_vec();
    assert_eq!(
        names(&usable(&bench)),
        (hosts, ["edge/public", "mesh"].map(str::to_owned).to_vec())
    );

    let allowed = usable(&under_way().spec(&refused));
    assert_eq!(allowed.errors, Vec::<String>::new(), "without the flags");
}
