//! The providers and their capabilities.

use tidegate_api::canary::Provider;

use super::{fixtures::*, *};

/// A condition on one user, by a header.
fn one_user() -> Value {
    json!([{ "headers": { "x-user": { "exact": "a" } } }])
}

/// A/B testing with one user.
fn test() -> Value {
    json!({ "stepWeight": null, "iterations": 5, "match": one_user() })
}

#[test]
fn every_provider_of_the_definition_has_a_router_and_an_own_name() {
    for provider in Provider::ALL {
        assert_eq!(select(provider.as_str()).unwrap().as_str(), provider.as_str());
    }
    assert_eq!(Mesh::ALL.len(), Provider::ALL.len());
    let rows = matrix().into_iter().filter(|row| row.form.is_empty());
    assert_eq!(rows.count(), Mesh::ALL.len());
}

#[test]
fn a_mesh_behind_the_name_of_a_provider_is_taken_and_a_typo_is_not() {
    let cases = [
        (
            "smi:v1alpha1:istio",
            Mesh::Smi { version: SmiVersion::V1Alpha1, target: SmiTarget::Istio },
        ),
        (
            "smi:v1alpha2:istio",
            Mesh::Smi { version: SmiVersion::V1Alpha2, target: SmiTarget::Istio },
        ),
        ("smi:v1alpha3:other", Mesh::Smi { version: SmiVersion::V1Alpha3, target: SmiTarget::Any }),
        ("appmesh:v1beta2:x", Mesh::AppMeshV1Beta2),
        ("gloo:x", Mesh::Gloo),
        ("gatewayapi:v1:x", Mesh::GatewayApiV1),
        ("gatewayapi:v1beta1:x", Mesh::GatewayApiV1Beta1),
    ];
    for (provider, mesh) in cases {
        assert_eq!(select(provider), Ok(mesh), "{provider}");
    }
}

#[test]
fn an_unknown_provider_never_drives_istio() {
    let typos = [
        "",
        "smi",
        "smi:crossover",
        "smi:v1alpha4",
        "appmesh:v1beta1",
        "gatewayapi:v1alpha2",
        "istio:x",
        "linkerd:x",
        "osm:v1",
        "kubernetes:x",
        "glooedge",
        "traefik ",
        "Nginx",
    ];
    for typo in typos {
        let error = select(typo).unwrap_err();
        for known in ["istio", "linkerd", "appmesh:v1beta2", "knative"] {
            assert!(error.to_string().contains(known), "{error}");
        }
    }
}

#[test]
fn a_test_that_a_provider_cannot_do_is_refused_with_its_capabilities() {
    for mesh in dividing() {
        let world = World::new(mesh, json!({}), test());
        let impossible = mesh.impossible(&world.spec);
        assert_eq!(impossible.is_empty(), mesh.support().ab.is_some(), "{mesh:?}");
        let Some(found) = impossible.first() else { continue };
        assert_eq!(found.field, "spec.analysis.match");
        for word in [mesh.as_str(), "it supports rollouts by weight", "blue/green", "remove"] {
            assert!(found.why.contains(word), "{found}");
        }
        let error = world.check().unwrap_err();
        assert!(error.to_string().ends_with(&found.to_string()), "{error}");
        assert_eq!(mesh.ignored(&world.spec), [], "{mesh:?}: refused, not left out");
    }
    let tcp = World::new(Mesh::Istio, json!({ "appProtocol": "tcp" }), test());
    let [found] = tcp.mesh.impossible(&tcp.spec).try_into().unwrap();
    let want = "the provider \"istio\" cannot tell requests apart over plain TCP; there it supports \
                rollouts by weight and blue/green; remove match or appProtocol";
    assert_eq!((&*found.field, found.why.as_str()), ("spec.analysis.match", want));
    let error = tcp.check().unwrap_err();
    assert!(error.to_string().ends_with(want), "{error}");
}

/// The same with checks in place of steps.
fn iterations(mut analysis: Value) -> Value {
    analysis["stepWeight"] = Value::Null;
    analysis["iterations"] = json!(5);
    analysis
}

#[test]
fn a_mirror_or_affinity_that_a_provider_cannot_do_is_refused_with_its_capabilities() {
    let sticky = json!({ "sessionAffinity": { "cookieName": "ck" } });
    let mirror = json!({ "mirror": true });
    for mesh in dividing() {
        let support = mesh.support();
        let cases = [
            ("mirror", mirror.clone(), support.mirror),
            ("mirror", iterations(mirror.clone()), support.mirror),
            ("sessionAffinity", sticky.clone(), support.affinity != Affinity::None),
            ("sessionAffinity", iterations(sticky.clone()), support.affinity != Affinity::None),
        ];
        for (member, analysis, can) in cases {
            let case = format!("{mesh:?} {analysis}");
            let mut world = World::new(mesh, json!({}), analysis).with_cookies();
            let impossible = mesh.impossible(&world.spec);
            assert_eq!(impossible.is_empty(), can, "{case}: {impossible:?}");
            if let Some(found) = impossible.first() {
                assert_eq!(found.field, format!("spec.analysis.{member}"), "{case}");
                let remove = format!("remove {member}");
                for word in [mesh.as_str(), "it supports rollouts by weight", &remove] {
                    assert!(found.why.contains(word), "{found}");
                }
            }
            // And a rollout in progress goes on without it.
            assert_eq!(world.check(), Ok(()), "{case}");
            world.reconcile();
            world.write(split(20));
            assert_eq!(world.read(), Ok(split(20)), "{case}");
        }
    }
}

#[test]
fn a_form_of_a_provider_that_can_do_less_refuses_more() {
    let wishes = json!({ "mirror": true, "sessionAffinity": { "cookieName": "ck" } });
    let referred = json!({ "routeRef": {
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "name": "front" } });
    let both = "rollouts by weight and blue/green";
    let cases = [
        ("over plain TCP", Mesh::Istio, json!({ "appProtocol": "tcp" }), json!({}), 2, both),
        (
            "over gRPC",
            Mesh::GatewayApiV1,
            json!({ "appProtocol": "grpc" }),
            json!({}),
            1,
            "mirroring",
        ),
        ("only referred to", Mesh::GatewayApiV1, json!({}), referred, 2, both),
        ("", Mesh::Istio, json!({}), json!({}), 0, ""),
    ];
    for (way, mesh, service, spec, count, can) in cases {
        let mut world = World::new(mesh, service, wishes.clone());
        world.edit_spec(spec);
        let found = mesh.impossible(&world.spec);
        assert_eq!(found.len(), count, "{way}: {found:?}");
        for found in found {
            assert!(found.why.contains(way) && found.why.contains(can), "{found}");
        }
    }
}

#[test]
fn settings_without_meaning_for_a_strategy_are_left_out_with_a_note() {
    let sticky = json!({ "sessionAffinity": { "cookieName": "ck" } });
    for mesh in dividing() {
        let support = mesh.support();
        let keeps = support.affinity != Affinity::None;
        let cases = [
            ("match", json!({ "match": one_user() }), support.ab.is_none()),
            ("sessionAffinity", iterations(sticky.clone()), keeps),
            ("sessionAffinity", sticky.clone(), false),
        ];
        for (member, analysis, is_noted) in cases {
            let case = format!("{mesh:?} {analysis}");
            let mut world = World::new(mesh, json!({}), analysis).with_cookies();
            if !mesh.impossible(&world.spec).is_empty() {
                continue;
            }
            let notes = mesh.ignored(&world.spec);
            assert_eq!(notes.len(), usize::from(is_noted), "{case}: {notes:?}");
            if let Some(note) = notes.first() {
                assert_eq!(note.field, format!("spec.analysis.{member}"));
                assert!(note.why.ends_with(&format!("{member} has no effect")), "{note}");
            }
            world.reconcile();
            world.write(split(20));
            assert_eq!(world.read(), Ok(split(20)), "{case}");
        }
    }
    let tcp = json!({ "appProtocol": "tcp" });
    let mut tcp = World::new(Mesh::Istio, tcp, json!({ "match": one_user() }));
    assert_eq!(tcp.check(), Ok(()));
    assert_eq!(tcp.mesh.impossible(&tcp.spec), []);
    assert_eq!(tcp.mesh.ignored(&tcp.spec).len(), 1);
    tcp.write(split(20));
    assert_eq!(tcp.read(), Ok(split(20)));
}

#[test]
fn a_built_in_metric_is_noted_where_requests_are_not_counted() {
    let metric = |metric: Value| json!({ "metrics": [metric] });
    let built_in =
        metric(json!({ "name": "request-success-rate", "thresholdRange": { "min": 99 } }));
    let own = metric(json!({ "name": "bytes", "query": "q", "thresholdRange": { "min": 1 } }));
    let over_tcp = |analysis: &Value| {
        World::new(Mesh::Istio, json!({ "appProtocol": "tcp" }), analysis.clone())
    };
    let mut tcp = over_tcp(&built_in);
    let [note] = tcp.mesh.ignored(&tcp.spec).try_into().unwrap();
    assert_eq!(note.field, "spec.analysis.metrics");
    assert!(note.why.contains("request-success-rate"), "{note}");
    tcp.edit_spec(json!({ "skipAnalysis": true }));
    assert_eq!(tcp.mesh.ignored(&tcp.spec), [], "nothing is measured");
    let tcp = over_tcp(&own);
    assert_eq!(tcp.mesh.ignored(&tcp.spec), [], "a query of one's own");
    for mesh in dividing() {
        let world = World::new(mesh, json!({}), built_in.clone());
        assert_eq!(mesh.ignored(&world.spec), [], "{mesh:?}");
    }
}

#[test]
fn plain_services_refuse_nothing_and_say_what_they_leave_out() {
    let wishes = json!({ "match": one_user(), "mirror": true,
        "sessionAffinity": { "cookieName": "ck" } });
    let world = World::new(Mesh::Kubernetes, json!({}), wishes);
    assert_eq!(world.mesh.impossible(&world.spec), []);
    let notes = world.mesh.ignored(&world.spec);
    assert_eq!(notes.len(), 3, "{notes:?}");
    assert!(notes.iter().all(|note| note.why.contains("it supports blue/green;")), "{notes:?}");
}

/// The capabilities of Flagger 1.44 with each provider, as written down from its behaviour, and
/// improvements here: provider, by weight, A/B testing, blue/green with users, mirroring, affinity,
/// how requests are counted.
///
/// Better than Flagger: Gateway API copies requests before steps too and keeps users of both versions in
/// either version of its API.
#[rustfmt::skip]
const CAN: [(&str, bool, bool, bool, bool, bool, &str); 20] = [
    ("kubernetes",         false, false, false, false, false, "the application"),
    ("gatewayapi:v1",      true,  true,  true,  true,  true,  "the application"),
    ("gatewayapi:v1beta1", true,  true,  true,  true,  true,  "the application"),
    ("istio",              true,  true,  true,  true,  true,  "Istio"),
    ("istio (TCP)",        true,  false, true,  false, false, ""),
    ("linkerd",            true,  false, true,  false, false, "Linkerd"),
    ("osm",                true,  false, true,  false, false, "Open Service Mesh"),
    ("smi:v1alpha1",       true,  false, true,  false, false, "Istio"),
    ("smi:v1alpha2",       true,  false, true,  false, false, "Istio"),
    ("smi:v1alpha3",       true,  false, true,  false, false, "Istio"),
    ("appmesh",            true,  true,  true,  false, false, "App Mesh"),
    ("appmesh:v1beta2",    true,  true,  true,  false, false, "App Mesh"),
    ("contour",            true,  true,  true,  false, false, "Contour"),
    ("nginx",              true,  true,  true,  false, false, "NGINX, mean"),
    ("skipper",            true,  false, true,  false, false, "Skipper, mean"),
    ("gloo",               true,  true,  true,  false, false, "Gloo"),
    ("traefik",            true,  false, true,  false, false, "Traefik"),
    ("kuma",               true,  false, true,  false, false, "Kuma"),
    ("apisix",             true,  false, true,  false, false, "APISIX"),
    ("knative",            true,  false, true,  false, false, "Knative"),
];

#[test]
fn the_table_of_providers_is_what_flagger_can_do_and_what_is_better_here() {
    let row = |it: &Support| {
        let counted = it.metrics.map_or_else(String::new, |metrics| {
            let mean = if metrics.is_mean() { ", mean" } else { "" };
            format!("{}{mean}", metrics.counted_by())
        });
        let affinity = it.affinity != Affinity::None;
        (it.name(), it.weighted, it.ab.is_some(), it.switched, it.mirror, affinity, counted)
    };
    let mut can: Vec<_> = matrix().iter().map(row).collect();
    let want = |it: (&str, bool, bool, bool, bool, bool, &str)| {
        (it.0.to_owned(), it.1, it.2, it.3, it.4, it.5, it.6.to_owned())
    };
    let mut wanted: Vec<_> = CAN.into_iter().map(want).collect();
    can.sort();
    wanted.sort();
    assert_eq!(can, wanted);
}

#[test]
fn without_a_b_testing_no_user_is_sent_to_the_canary_for_the_test() {
    let analysis = test();
    let without = dividing().into_iter().filter(|mesh| mesh.support().ab.is_none());
    for mesh in without {
        let mut world = World::plain(mesh);
        world.reconcile();
        world.edit_spec(json!({ "analysis": analysis }));
        assert_eq!(world.planned(Split::CANARY).unwrap_err().label(), "spec", "{mesh:?}");
        assert_eq!(world.drift().unwrap_err().label(), "spec", "{mesh:?}");
        assert_eq!(world.read(), Ok(Split::PRIMARY), "{mesh:?}");
    }
}

#[test]
fn a_provider_that_cannot_mirror_never_says_it_does() {
    for mesh in dividing().into_iter().filter(|mesh| !mesh.support().mirror) {
        let mut world = World::plain(mesh);
        world.reconcile();
        assert!(!mesh.capabilities(&world.spec).mirror, "{mesh:?}");
        assert_eq!(world.planned(mirrored(0)).unwrap_err().label(), "unsupported", "{mesh:?}");
    }
}

#[test]
fn an_empty_condition_never_sends_all_users_to_the_canary() {
    let conditions = [
        json!({}),
        json!({ "queryParams": { "q": { "exact": "a" } } }),
        json!({ "sourceLabels": { "app": "a" } }),
        json!({ "headers": { "x-a": {} } }),
        json!({ "headers": { "x-a": { "exact": "" } } }),
        json!({ "headers": { "x-a": { "exact": "a" } }, "sourceLabels": { "app": "a" } }),
    ];
    let testing = dividing().into_iter().filter(|mesh| mesh.support().ab.is_some());
    for mesh in testing.filter(|mesh| !MOVING.contains(mesh)) {
        for condition in &conditions {
            let analysis = json!({ "stepWeight": null, "iterations": 5, "match": [condition] });
            let world = World::new(mesh, json!({}), analysis);
            let error = world.check().unwrap_err();
            assert!(error.to_string().contains("spec.analysis.match[0]"), "{mesh:?}: {error}");
            assert_eq!(world.planned(Split::CANARY), Err(error), "{mesh:?}");
        }
    }
}

#[test]
fn linkerd_is_not_held_to_a_version_that_is_not_served() {
    let served = |version: &'static str| move |kind: Kind| kind.version == version;
    let version = |mesh: Mesh| mesh.kinds()[0].version;
    assert_eq!(version(Mesh::LINKERD), "v1alpha1");
    assert_eq!(version(Mesh::LINKERD.served(served("v1alpha2"))), "v1alpha2");
    assert_eq!(Mesh::LINKERD.served(served("v1alpha2")).as_str(), "linkerd");
    assert_eq!(Mesh::LINKERD.served(|_| true), Mesh::LINKERD, "the usual one if it is served");
    assert_eq!(Mesh::OSM.served(|_| false), Mesh::OSM, "nothing is known to be better");
    let named = select("smi:v1alpha1").unwrap();
    assert_eq!(named.served(served("v1alpha3")), named, "the user said which");
}

#[test]
fn no_two_kinds_of_a_provider_are_taken_for_one() {
    for mesh in Mesh::ALL {
        let mut kinds: Vec<_> = mesh.kinds().iter().map(|kind| kind.kind).collect();
        kinds.sort_unstable();
        kinds.dedup();
        assert_eq!(kinds.len(), mesh.kinds().len(), "{mesh:?}");
    }
    // A virtual service of Istio is none of App Mesh, under any name.
    let mut istio = World::plain(Mesh::Istio);
    istio.reconcile();
    let route = istio.route().clone();
    let left = Mesh::AppMeshV1Beta2.leftovers(&istio.cx(), VIRTUAL_SERVICE, &[&route]);
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn nothing_is_written_but_what_the_operator_has_permission_for() {
    let written = Mesh::ALL.into_iter().flat_map(|mesh| mesh.kinds().iter());
    let written: std::collections::BTreeSet<_> =
        written.map(|kind| format!("{}/{}", kind.group, kind.plural)).collect();
    let granted = [
        "apisix.apache.org/apisixroutes",
        "appmesh.k8s.aws/virtualnodes",
        "appmesh.k8s.aws/virtualrouters",
        "appmesh.k8s.aws/virtualservices",
        "gateway.networking.k8s.io/grpcroutes",
        "gateway.networking.k8s.io/httproutes",
        "gateway.solo.io/routetables",
        "gloo.solo.io/upstreams",
        "kuma.io/meshhttproutes",
        "kuma.io/trafficroutes",
        "networking.istio.io/destinationrules",
        "networking.istio.io/virtualservices",
        "networking.k8s.io/ingresses",
        "projectcontour.io/httpproxies",
        "serving.knative.dev/services",
        "split.smi-spec.io/trafficsplits",
        "traefik.io/traefikservices",
    ];
    assert_eq!(written.iter().map(String::as_str).collect::<Vec<_>>(), granted);
}

#[test]
fn objects_of_every_provider_are_left_over_when_another_takes_its_place() {
    for mesh in making().into_iter().chain(COPYING) {
        let mut world = World::plain(mesh);
        world.reconcile();
        let (kind, _) = mesh.names(&world.cx()).pop().unwrap();
        let route = world.route().clone();
        let cx = world.cx();
        assert_eq!(mesh.leftovers(&cx, kind, &[&route]), [], "{mesh:?}: in use");
        let left = Mesh::Kubernetes.leftovers(&cx, kind, &[&route]);
        assert_eq!(left.len(), 1, "{mesh:?}: {left:?}");
        let other = RouteCx { owner: Owner { name: "other", ..cx.owner }, ..cx };
        assert_eq!(
            Mesh::Kubernetes.leftovers(&other, kind, &[&route]),
            [],
            "{mesh:?}: not its own"
        );
    }
}
