//! Which providers there are, and what they can do.

use tidegate_api::canary::Provider;

use super::{fixtures::*, *};

/// Somebody by a header.
fn somebody() -> Value {
    json!([{ "headers": { "x-user": { "exact": "a" } } }])
}

/// A/B testing of somebody.
fn test() -> Value {
    json!({ "stepWeight": null, "iterations": 5, "match": somebody() })
}

#[test]
fn every_provider_of_the_definition_has_a_router_and_an_own_name() {
    for provider in Provider::ALL {
        assert_eq!(select(provider.as_str()).unwrap().as_str(), provider.as_str());
    }
    assert_eq!(Mesh::ALL.len(), Provider::ALL.len());
    assert_eq!(matrix().len(), Mesh::ALL.len());
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
fn a_test_that_a_provider_cannot_do_is_refused_with_what_it_can() {
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
    assert_eq!(tcp.mesh.impossible(&tcp.spec).len(), 1);
    assert_eq!(tcp.check().unwrap_err().label(), "spec");
}

#[test]
fn what_else_a_provider_cannot_do_is_left_out_with_a_note() {
    let sticky = json!({ "cookieName": "ck" });
    let iterations = |mut analysis: Value| {
        analysis["stepWeight"] = Value::Null;
        analysis["iterations"] = json!(5);
        analysis
    };
    for mesh in dividing() {
        let Support { ab, mirror, affinity, .. } = mesh.support();
        let steps = json!({ "mirror": true });
        let cases = [
            ("match", json!({ "match": somebody() }), ab.is_some()),
            ("mirror", steps.clone(), mirror),
            ("mirror", iterations(steps), mirror),
            ("sessionAffinity", json!({ "sessionAffinity": sticky }), affinity != Affinity::None),
            ("sessionAffinity", iterations(json!({ "sessionAffinity": sticky })), false),
        ];
        for (member, analysis, can) in cases {
            let mut world = World::new(mesh, json!({}), analysis.clone()).with_cookies();
            let case = format!("{mesh:?} {analysis}");
            assert_eq!(world.check(), Ok(()), "{case}");
            assert_eq!(mesh.impossible(&world.spec), [], "{case}");
            let notes = mesh.ignored(&world.spec);
            assert_eq!(notes.is_empty(), can, "{case}: {notes:?}");
            if let Some(note) = notes.first() {
                assert_eq!(note.field, format!("spec.analysis.{member}"));
                assert!(note.why.ends_with(&format!("{member} has no effect")), "{note}");
            }
            // And the rollout goes as if it had not been asked for.
            world.reconcile();
            world.write(split(20));
            assert_eq!(world.read(), Ok(split(20)), "{case}");
        }
    }
    let tcp = json!({ "appProtocol": "tcp" });
    let mut tcp = World::new(Mesh::Istio, tcp, json!({ "match": somebody(), "mirror": true }));
    assert_eq!(tcp.check(), Ok(()));
    assert_eq!(tcp.mesh.ignored(&tcp.spec).len(), 2);
    tcp.write(split(20));
    assert_eq!(tcp.read(), Ok(split(20)));
}

#[test]
fn without_a_b_testing_nobody_is_sent_to_the_canary_for_the_test() {
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
fn an_empty_condition_never_sends_everybody_to_the_canary() {
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
    // A virtual service of Istio is none of App Mesh, whatever it is called.
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
