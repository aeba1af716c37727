//! CRDs of Gateway API and Istio, which the data plane reads, and the names of its kinds.

use serde_json::Value;

use crate::{cluster::Resource, definitions};

const GATEWAY_GROUP: &str = "gateway.networking.k8s.io";

pub(crate) const GATEWAY_CLASSES: Resource =
    Resource { group: GATEWAY_GROUP, plural: "gatewayclasses" };
pub(crate) const GATEWAYS: Resource = Resource { group: GATEWAY_GROUP, plural: "gateways" };
pub(crate) const HTTP_ROUTES: Resource = Resource { group: GATEWAY_GROUP, plural: "httproutes" };
pub(crate) const GRPC_ROUTES: Resource = Resource { group: GATEWAY_GROUP, plural: "grpcroutes" };
pub(crate) const REFERENCE_GRANTS: Resource =
    Resource { group: GATEWAY_GROUP, plural: "referencegrants" };
pub(crate) const VIRTUAL_SERVICES: Resource =
    Resource { group: "networking.istio.io", plural: "virtualservices" };

pub(crate) const INGRESSES: Resource = Resource { group: "networking.k8s.io", plural: "ingresses" };
/// Not defined here: Traefik's CRDs come with Traefik.
pub(crate) const INGRESS_ROUTES: Resource =
    Resource { group: "traefik.io", plural: "ingressroutes" };
pub(crate) const TRAEFIK_SERVICES: Resource =
    Resource { group: "traefik.io", plural: "traefikservices" };

/// The `CustomResourceDefinition` objects of Gateway API and Istio, ready to be loaded.
pub fn routing_crds() -> Vec<Value> {
    definitions::of_groups(&[GATEWAY_GROUP, "networking.istio.io"])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        Sandbox, Settings,
        cluster::{Cluster, Resource},
        server::User,
    };

    fn sandbox() -> Sandbox {
        let sandbox = Sandbox::new(Settings::for_tests());
        sandbox.load(routing_crds()).unwrap();
        sandbox.settle();
        sandbox
    }

    #[test]
    fn the_definitions_are_sound_and_their_kinds_served() {
        let sandbox = sandbox();
        let registry = sandbox.server().registry();
        let kinds = [
            ("gateway.networking.k8s.io/v1", "GatewayClass"),
            ("gateway.networking.k8s.io/v1beta1", "GatewayClass"),
            ("gateway.networking.k8s.io/v1", "Gateway"),
            ("gateway.networking.k8s.io/v1beta1", "Gateway"),
            ("gateway.networking.k8s.io/v1", "HTTPRoute"),
            ("gateway.networking.k8s.io/v1beta1", "HTTPRoute"),
            ("gateway.networking.k8s.io/v1", "GRPCRoute"),
            ("gateway.networking.k8s.io/v1beta1", "ReferenceGrant"),
            ("networking.istio.io/v1", "VirtualService"),
            ("networking.istio.io/v1beta1", "VirtualService"),
            ("networking.istio.io/v1beta1", "DestinationRule"),
            ("networking.istio.io/v1beta1", "Gateway"),
        ];
        for (version, kind) in kinds {
            assert!(registry.find_kind(version, kind).is_some(), "{version} {kind}");
        }
    }

    #[test]
    fn an_http_route_gets_the_defaults_of_gateway_api() {
        let sandbox = sandbox();
        let route = json!({
            "apiVersion": "gateway.networking.k8s.io/v1beta1", "kind": "HTTPRoute",
            "metadata": { "name": "shop", "namespace": "default" },
            "spec": {
                "parentRefs": [{ "name": "gw" }],
                "rules": [
                    { "backendRefs": [{ "name": "shop", "port": 80 }] },
                    { "matches": [{ "headers": [{ "name": "Cookie", "value": "x" }] }] },
                ],
            },
        });
        let stored = sandbox.load(vec![route]).unwrap().remove(0);
        let path = json!({ "type": "PathPrefix", "value": "/" });
        let want = json!({
            "parentRefs":
                [{ "group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "gw" }],
            "rules": [
                {
                    "matches": [{ "path": path }],
                    "backendRefs":
                        [{ "group": "", "kind": "Service", "name": "shop", "port": 80, "weight": 1 }],
                },
                {
                    "matches": [{
                        "path": path,
                        "headers": [{ "type": "Exact", "name": "Cookie", "value": "x" }],
                    }],
                },
            ],
        });
        assert_eq!(stored["spec"], want);
        let admin = sandbox.local(User::admin());
        let v1 = admin.get(HTTP_ROUTES, "default", "shop").unwrap();
        assert_eq!(v1["apiVersion"], "gateway.networking.k8s.io/v1");
    }

    #[test]
    fn a_grpc_route_gets_the_defaults_of_gateway_api_and_no_condition() {
        let sandbox = sandbox();
        let route = json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GRPCRoute",
            "metadata": { "name": "shop", "namespace": "default" },
            "spec": { "rules": [
                { "backendRefs": [{ "name": "shop", "port": 80 }] },
                { "matches": [{ "method": { "service": "shop.v1.Orders" } }] },
            ] },
        });
        let stored = sandbox.load(vec![route.clone()]).unwrap().remove(0);
        let backend =
            json!({ "group": "", "kind": "Service", "name": "shop", "port": 80, "weight": 1 });
        let method = json!({ "type": "Exact", "service": "shop.v1.Orders" });
        let want = json!([{ "backendRefs": [backend] }, { "matches": [{ "method": method }] }]);
        assert_eq!(stored["spec"]["rules"], want);
        let mut nothing = route;
        nothing["metadata"]["name"] = json!("nothing");
        nothing["spec"]["rules"][1]["matches"][0]["method"] = json!({ "type": "Exact" });
        assert!(sandbox.load(vec![nothing]).is_err(), "a method match names a service or a method");
    }

    #[test]
    fn what_gateway_api_refuses_is_refused() {
        let sandbox = sandbox();
        let admin = sandbox.local(User::admin());
        let create = |rule: Value| {
            let route = json!({
                "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
                "metadata": { "generateName": "shop-" }, "spec": { "rules": [rule] },
            });
            admin.create(HTTP_ROUTES, "default", route)
        };
        let cases = [
            ("a weight below zero", json!({ "backendRefs": [{ "name": "a", "weight": -1 }] })),
            ("a backend without a name", json!({ "backendRefs": [{ "port": 80 }] })),
            ("an unknown path type", json!({ "matches": [{ "path": { "type": "Suffix" } }] })),
            ("an unknown method", json!({ "matches": [{ "method": "FETCH" }] })),
            ("a timeout that is none", json!({ "timeouts": { "request": "soon" } })),
            ("an unknown filter", json!({ "filters": [{ "type": "Magic" }] })),
        ];
        for (reason, rule) in cases {
            assert!(create(rule).is_err_and(|failure| failure.code == 422), "{reason}");
        }
        create(json!({ "backendRefs": [{ "name": "a", "port": 80, "weight": 0 }] })).unwrap();
    }

    #[test]
    fn a_virtual_service_keeps_fields_that_are_not_spelled_out() {
        let sandbox = sandbox();
        let http = json!([{
            "match": [{ "headers": { "cookie": { "regex": ".*" } } }],
            "retries": { "attempts": 3, "perTryTimeout": "1s" },
            "corsPolicy": { "allowOrigin": ["*"] },
            "route": [{ "destination": { "host": "shop" }, "weight": 100 }],
        }]);
        let object = json!({
            "apiVersion": "networking.istio.io/v1beta1", "kind": "VirtualService",
            "metadata": { "name": "shop", "namespace": "default" },
            "spec": { "hosts": ["shop"], "http": http },
        });
        let stored = sandbox.load(vec![object]).unwrap().remove(0);
        assert_eq!(stored["spec"]["http"], http);
        let rule = json!({
            "apiVersion": "networking.istio.io/v1beta1", "kind": "DestinationRule",
            "metadata": { "name": "shop", "namespace": "default" },
            "spec": { "host": "shop", "trafficPolicy": { "loadBalancer": { "simple": "RANDOM" } } },
        });
        sandbox.load(vec![rule]).unwrap();
        let resource = Resource { group: "networking.istio.io", plural: "destinationrules" };
        let stored = sandbox.local(User::admin()).get(resource, "default", "shop").unwrap();
        assert_eq!(stored["spec"]["trafficPolicy"]["loadBalancer"]["simple"], "RANDOM");
    }
}
