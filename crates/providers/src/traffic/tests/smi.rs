//! Traffic splits.

use super::*;

const GATEWAYS: &str = "VirtualService.v1alpha3.networking.istio.io/spec.gateways";

fn smi(version: SmiVersion) -> Mesh {
    Mesh::Smi { version, target: SmiTarget::Any }
}

#[test]
fn a_split_names_the_canary_first_and_every_weight() {
    let cases = [
        (Mesh::LINKERD, "split.smi-spec.io/v1alpha1", json!("0"), json!("100")),
        (Mesh::OSM, "split.smi-spec.io/v1alpha2", json!(0), json!(100)),
        (smi(SmiVersion::V1Alpha1), "split.smi-spec.io/v1alpha1", json!("0"), json!("100")),
        (smi(SmiVersion::V1Alpha2), "split.smi-spec.io/v1alpha2", json!(0), json!(100)),
        (smi(SmiVersion::V1Alpha3), "split.smi-spec.io/v1alpha3", json!(0), json!(100)),
    ];
    for (mesh, api_version, none, all) in cases {
        let mut world = World::plain(mesh);
        world.reconcile();
        let split_object = world.route();
        assert_eq!(split_object["apiVersion"], api_version);
        let backends = json!([
            { "service": "shop-canary", "weight": none },
            { "service": "shop-primary", "weight": all },
        ]);
        assert_eq!(split_object["spec"], json!({ "service": "shop", "backends": backends }));
        world.write(split(50));
        assert_eq!(world.read(), Ok(split(50)));
    }
}

#[test]
fn the_first_host_is_the_root_and_gateways_are_told_to_istio_only() {
    let service = json!({ "hosts": ["shop.example.com", "b"], "gateways": ["infra/gw", "mesh"] });
    let mut world = World::new(select("smi:v1alpha2:istio").unwrap(), service.clone(), json!({}));
    world.reconcile();
    assert_eq!(world.route()["spec"]["service"], "shop.example.com");
    assert_eq!(world.route()["metadata"]["annotations"][GATEWAYS], "[\"infra/gw\",\"mesh\"]");
    let mut other = World::new(smi(SmiVersion::V1Alpha2), service, json!({}));
    other.reconcile();
    assert_eq!(other.route()["metadata"]["annotations"][GATEWAYS], Value::Null);
}

#[test]
fn a_missing_weight_does_not_crash_and_live_matches_are_not_dropped() {
    let mut world = World::plain(smi(SmiVersion::V1Alpha3));
    world.reconcile();
    world.edit_route(|route| {
        route["spec"]["matches"] = json!([{ "kind": "HTTPRouteGroup", "name": "a" }]);
        route["spec"]["backends"][0].as_object_mut().unwrap().remove("weight");
    });
    assert_eq!(world.read(), Ok(Split::PRIMARY), "nothing of it is 0 of it");
    world.write(split(10));
    assert_eq!(world.route()["spec"]["matches"][0]["name"], "a");
    world.edit_route(|route| {
        for backend in route["spec"]["backends"].as_array_mut().unwrap() {
            backend.as_object_mut().unwrap().remove("weight");
        }
    });
    assert_eq!(world.read().unwrap_err().label(), "malformed", "0 and 0 is no split");
}

#[test]
fn a_quantity_that_is_no_number_is_an_error() {
    let mut world = World::plain(Mesh::LINKERD);
    world.reconcile();
    for text in ["1k", "500m", "", "-"] {
        world.edit_route(|route| route["spec"]["backends"][0]["weight"] = json!(text));
        assert_eq!(world.read().unwrap_err().label(), "malformed", "{text:?}");
    }
    world.edit_route(|route| {
        route["spec"]["backends"][0]["weight"] = json!(40);
        route["spec"]["backends"][1]["weight"] = json!("60");
    });
    assert_eq!(world.read(), Ok(split(40)), "some servers answer with numbers");
}

#[test]
fn the_way_back_of_quantities_is_in_quantities() {
    let mut world = World::plain(Mesh::LINKERD);
    world.write(split(30));
    world.edit_spec(json!({ "analysis": fixtures::inexpressible() }));
    assert_eq!(world.check().unwrap_err().label(), "spec", "nothing but the way back is left");
    world.write(Split::PRIMARY);
    let backends = json!([
        { "service": "shop-canary", "weight": "0" },
        { "service": "shop-primary", "weight": "100" },
    ]);
    assert_eq!(world.route()["spec"]["backends"], backends);
    assert_eq!(world.read(), Ok(Split::PRIMARY));
}
