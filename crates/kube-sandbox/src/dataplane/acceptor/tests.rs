//! Conditions of routes and gateways, as the sandbox's gateway controller writes them.

use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::{
    Sandbox, Settings,
    cluster::Resource,
    controllers,
    dataplane::crds::{GATEWAYS, HTTP_ROUTES, routing_crds},
    runtime::{Order, Runtime},
    server::{User, local::Local},
};

/// A cluster with the sandbox's gateway class and a gateway `infra/gw` that takes all namespaces.
struct Rig {
    sandbox: Sandbox,
    runtime: Runtime,
    admin: Local,
}

impl Rig {
    fn new() -> Self {
        let sandbox = Sandbox::new(Settings::for_tests());
        sandbox.load(routing_crds()).unwrap();
        sandbox.settle();
        let loops = super::controllers();
        let runtime = Runtime::new(Arc::clone(sandbox.server()), loops, Order::Fair);
        let admin = sandbox.local(User::admin());
        let mut rig = Self { sandbox, runtime, admin };
        rig.load(vec![
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "infra" } }),
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "test" } }),
            gateway_class(),
            gateway("All"),
            service("shop-primary"),
            service("shop-canary"),
        ]);
        rig
    }

    /// Applies objects and runs the gateway controller's loops on them.
    fn load(&mut self, objects: Vec<Value>) {
        self.sandbox.load(objects).unwrap();
        self.look();
    }

    /// Reconciles every object in the gateway controller's loops, which otherwise wait for changes.
    fn look(&mut self) {
        self.sandbox.settle();
        for name in ["gatewayclass", "gateway", "httproute"] {
            self.runtime.requeue(name);
        }
        assert!(self.runtime.settle(10_000));
    }

    fn get(&self, resource: Resource, namespace: &str, name: &str) -> Value {
        self.admin.get(resource, namespace, name).unwrap()
    }

    /// Status, reason and observed generation of a condition for the route's first parent.
    fn condition(&self, kind: &str) -> (String, String, i64) {
        let route = self.get(HTTP_ROUTES, "test", "shop");
        let parents = items(&route, "/status/parents");
        let conditions = items(parents.first().unwrap(), "/conditions");
        let condition = conditions.iter().find(|c| text(c, "/type") == kind).unwrap();
        assert_eq!(parents[0]["parentRef"], route["spec"]["parentRefs"][0]);
        (
            text(condition, "/status").to_owned(),
            text(condition, "/reason").to_owned(),
            count(condition, "/observedGeneration"),
        )
    }
}

fn gateway(from: &str) -> Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
        "metadata": { "name": "gw", "namespace": "infra" },
        "spec": {
            "gatewayClassName": GATEWAY_CLASS,
            "listeners": [{
                "name": "http", "port": 80, "protocol": "HTTP", "hostname": "*.example.com",
                "allowedRoutes": { "namespaces": { "from": from } },
            }],
        },
    })
}

fn service(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": name, "namespace": "test" },
        "spec": { "selector": { "app": name }, "ports": [{ "port": 80 }] },
    })
}

#[expect(clippy::needless_pass_by_value, reason = "callers make it in place")]
fn route(parent: Value, weight: u32) -> Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": { "name": "shop", "namespace": "test" },
        "spec": {
            "parentRefs": [parent], "hostnames": ["shop.example.com"],
            "rules": [{ "backendRefs": [
                { "name": "shop-primary", "port": 80, "weight": 100 - weight },
                { "name": "shop-canary", "port": 80, "weight": weight },
            ] }],
        },
    })
}

fn parent() -> Value {
    json!({ "name": "gw", "namespace": "infra" })
}

#[test]
fn a_route_is_accepted_and_each_new_generation_observed() {
    let mut rig = Rig::new();
    rig.load(vec![route(parent(), 0)]);
    assert_eq!(rig.condition("Accepted"), ("True".into(), "Accepted".into(), 1));
    assert_eq!(rig.condition("ResolvedRefs"), ("True".into(), "ResolvedRefs".into(), 1));
    rig.load(vec![route(parent(), 10)]);
    assert_eq!(rig.condition("Accepted"), ("True".into(), "Accepted".into(), 2));
    let gateway = rig.get(GATEWAYS, "infra", "gw");
    assert_eq!(gateway["status"]["listeners"][0]["attachedRoutes"], 1);
    let conditions = items(&gateway, "/status/conditions");
    assert!(conditions.iter().all(|condition| condition["status"] == "True"));
    let class = rig.get(GATEWAY_CLASSES, "", GATEWAY_CLASS);
    assert_eq!(class["status"]["conditions"][0]["type"], "Accepted");
}

#[test]
fn nothing_is_written_when_nothing_changed() {
    let mut rig = Rig::new();
    rig.load(vec![route(parent(), 0)]);
    let before = rig.sandbox.server().store.revision();
    rig.sandbox.advance(std::time::Duration::from_mins(10));
    rig.look();
    assert_eq!(rig.sandbox.server().store.revision(), before);
}

#[test]
fn a_route_that_no_listener_takes_is_told_why() {
    let with = |extra: Value| {
        let mut parent = parent();
        for (key, value) in extra.as_object().unwrap() {
            parent[key] = value.clone();
        }
        parent
    };
    let cases = [
        ("All", with(json!({ "sectionName": "http" })), "Accepted"),
        ("All", with(json!({ "sectionName": "https" })), "NoMatchingParent"),
        ("All", with(json!({ "port": 8080 })), "NoMatchingParent"),
        ("Same", parent(), "NotAllowedByListeners"),
    ];
    for (from, parent, want) in cases {
        let mut rig = Rig::new();
        rig.load(vec![gateway(from), route(parent.clone(), 0)]);
        assert_eq!(rig.condition("Accepted").1, want, "{from} {parent}");
    }
    let mut rig = Rig::new();
    let mut elsewhere = route(parent(), 0);
    elsewhere["spec"]["hostnames"] = json!(["shop.elsewhere.com"]);
    rig.load(vec![elsewhere]);
    let (status, reason, _) = rig.condition("Accepted");
    assert_eq!((status.as_str(), reason.as_str()), ("False", "NoMatchingListenerHostname"));
}

#[test]
fn backends_that_are_missing_are_named_and_found_later() {
    let mut rig = Rig::new();
    let mut lost = route(parent(), 0);
    lost["spec"]["rules"][0]["backendRefs"][1]["name"] = "shop-next".into();
    rig.load(vec![lost.clone()]);
    assert_eq!(rig.condition("ResolvedRefs").1, "BackendNotFound");
    assert_eq!(rig.condition("Accepted").0, "True", "it is attached all the same");
    rig.load(vec![service("shop-next")]);
    assert_eq!(rig.condition("ResolvedRefs").1, "ResolvedRefs");
    lost["spec"]["rules"][0]["backendRefs"][1]["namespace"] = "infra".into();
    rig.load(vec![lost]);
    assert_eq!(rig.condition("ResolvedRefs").1, "RefNotPermitted");
}

#[test]
fn what_others_answer_for_is_left_alone() {
    let mut rig = Rig::new();
    let mut foreign = gateway("All");
    foreign["metadata"]["name"] = "foreign".into();
    foreign["spec"]["gatewayClassName"] = "someone-else".into();
    rig.load(vec![foreign, route(json!({ "name": "foreign", "namespace": "infra" }), 0)]);
    assert!(rig.get(GATEWAYS, "infra", "foreign").get("status").is_none());
    assert!(rig.get(HTTP_ROUTES, "test", "shop").get("status").is_none());
    // Another controller's status for one parent stays when the sandbox adds one for another.
    let others = json!({
        "parentRef": { "group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "foreign" },
        "controllerName": "someone.else/gateway",
        "conditions": [{
            "type": "Accepted", "status": "True", "reason": "Accepted", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }],
    });
    let status = json!({ "status": { "parents": [others] } });
    rig.admin.patch(HTTP_ROUTES, "test", "shop", "status", &status).unwrap();
    rig.load(vec![route(parent(), 0)]);
    let route = rig.get(HTTP_ROUTES, "test", "shop");
    let names: Vec<_> =
        items(&route, "/status/parents").iter().map(|p| text(p, "/controllerName")).collect();
    assert_eq!(names, ["someone.else/gateway", CONTROLLER_NAME]);
}

#[test]
fn a_service_of_a_mesh_can_be_a_parent() {
    let mut rig = Rig::new();
    let shop = json!({ "group": "core", "kind": "Service", "name": "shop-primary", "port": 80 });
    rig.load(vec![route(shop, 0)]);
    assert_eq!(rig.condition("Accepted").0, "True");
}

#[test]
fn changes_elsewhere_reach_the_routes_they_concern() {
    let rig = Rig::new();
    rig.sandbox.load(vec![route(parent(), 0)]).unwrap();
    let controller = route::RouteController::HTTP;
    let keys = |group: &str, plural: &str, old: Option<&Value>, new: Option<&Value>| {
        let (namespace, name) = ("test", "shop");
        let change = controllers::Change { group, plural, namespace, name, old, new };
        controller.keys(&rig.admin, &change).len()
    };
    let service = service("shop-primary");
    let mut moved = service.clone();
    moved["spec"]["ports"][0]["port"] = 81.into();
    let mut relabelled = service.clone();
    relabelled["metadata"]["labels"] = json!({ "a": "b" });
    assert_eq!(keys("", "services", None, Some(&service)), 1, "a Service came");
    assert_eq!(keys("", "services", Some(&service), Some(&moved)), 1, "its port changed");
    assert_eq!(keys("", "services", Some(&service), Some(&relabelled)), 0, "not its ports");
    assert_eq!(keys("", "services", Some(&service), None), 1, "a Service went");
    let mut programmed = gateway("All");
    programmed["status"] = json!({ "addresses": [] });
    let group = "gateway.networking.k8s.io";
    let same = keys(group, "gateways", Some(&gateway("All")), Some(&programmed));
    assert_eq!(same, 0, "a gateway's status is not a reason to look");
    assert_eq!(keys(group, "gateways", Some(&gateway("All")), Some(&gateway("Same"))), 1);
}
