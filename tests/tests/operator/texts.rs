//! Hostile texts in every field that goes into a routing object, for every router.
//!
//! A text is refused with the name of its field before anything is written, or the object is taken by the route's
//! definition. Definitions are the real ones, where they can be had.

use std::collections::{BTreeMap, BTreeSet};

use kube_sandbox::{
    cluster::{Cluster as _, Deletion, Resource},
    server::User,
};
use serde_json::{Map, Value, json};
use tidegate_api::canary::{Canary, CrossNamespace};
use tidegate_engine::{Percent, Split};
use tidegate_providers::{
    canary::spec_errors,
    object::{Change, Kind, Live, Owner},
    traffic::{Cookies, HTTP_ROUTE_V1, IngressOptions, Mesh, RouteCx, RouteFields, Support},
    workload::SERVICE,
};
use tidegate_tests::{
    providers::{KNATIVE, all, canary_for, definitions, furnish, users_objects},
    rollout::{CANARIES, DEPLOYMENTS, SERVICES, VIRTUAL_SERVICES, World},
};

use crate::stage::{ab_test, by_weight, condition, reach, release, with_canary};

const TEXT: &str = "TEXT";

/// A field, as a refusal names it, and a spec with a text in it.
type Field = (&'static str, Value);

/// Every free text that some router writes.
#[expect(clippy::too_many_lines, reason = "a table")]
fn fields() -> Vec<Field> {
    let service = |members: Value| json!({ "service": members });
    let headers = |way: &str, what: &str, entries: Value| {
        service(json!({ "headers": { way: { what: entries } } }))
    };
    let cors = |members: Value| service(json!({ "corsPolicy": members }));
    let sticky = |member: &str| {
        let mut affinity = json!({ "cookieName": "side" });
        affinity[member] = json!(TEXT);
        json!({ "analysis": { "sessionAffinity": affinity } })
    };
    let matched = |condition: Value| json!({ "analysis": { "match": [condition] } });
    vec![
        ("spec.service.hosts", service(json!({ "hosts": [TEXT] }))),
        ("spec.service.gateways", service(json!({ "gateways": [TEXT] }))),
        ("spec.service.match[0].uri", service(json!({ "match": [{ "uri": { "prefix": TEXT } }] }))),
        ("spec.service.match[0].uri", service(json!({ "match": [{ "uri": { "exact": TEXT } }] }))),
        ("spec.service.match[0].uri", service(json!({ "match": [{ "uri": { "regex": TEXT } }] }))),
        (
            "spec.service.match[0].method",
            service(json!({ "match": [{ "method": { "exact": TEXT } }] })),
        ),
        (
            "spec.service.match[0].headers",
            service(json!({ "match": [{ "headers": { TEXT: { "exact": "a" } } }] })),
        ),
        (
            "spec.service.match[0].headers",
            service(json!({ "match": [{ "headers": { "x-a": { "exact": TEXT } } }] })),
        ),
        (
            "spec.service.match[0].queryParams",
            service(json!({ "match": [{ "queryParams": { TEXT: { "exact": TEXT } } }] })),
        ),
        (
            "spec.service.match[0].sourceLabels",
            service(json!({ "match": [{ "sourceLabels": { TEXT: TEXT } }] })),
        ),
        ("spec.service.headers.request.set", headers("request", "set", json!({ TEXT: "a" }))),
        ("spec.service.headers.request.set", headers("request", "set", json!({ "x-a": TEXT }))),
        ("spec.service.headers.response.add", headers("response", "add", json!({ TEXT: "a" }))),
        ("spec.service.headers.response.add", headers("response", "add", json!({ "x-a": TEXT }))),
        ("spec.service.headers.response.remove", headers("response", "remove", json!([TEXT]))),
        ("spec.service.rewrite.uri", service(json!({ "rewrite": { "uri": TEXT } }))),
        ("spec.service.rewrite.authority", service(json!({ "rewrite": { "authority": TEXT } }))),
        ("spec.service.timeout", service(json!({ "timeout": TEXT }))),
        ("spec.service.backendTimeout", service(json!({ "backendTimeout": TEXT }))),
        (
            "spec.service.retries",
            service(json!({ "retries": { "attempts": 1, "perTryTimeout": TEXT } })),
        ),
        ("spec.service.retries", service(json!({ "retries": { "attempts": 1, "retryOn": TEXT } }))),
        ("spec.service.corsPolicy", cors(json!({ "allowOrigin": [TEXT] }))),
        ("spec.service.corsPolicy", cors(json!({ "allowOrigins": [{ "exact": TEXT }] }))),
        ("spec.service.corsPolicy", cors(json!({ "allowMethods": [TEXT] }))),
        ("spec.service.corsPolicy", cors(json!({ "allowHeaders": [TEXT] }))),
        ("spec.service.corsPolicy", cors(json!({ "exposeHeaders": [TEXT] }))),
        ("spec.service.corsPolicy", cors(json!({ "maxAge": TEXT }))),
        (
            "spec.service.trafficPolicy",
            service(
                json!({ "trafficPolicy": { "connectionPool": { "http": { "idleTimeout": TEXT } } } }),
            ),
        ),
        (
            "spec.service.trafficPolicy",
            service(json!({ "trafficPolicy": {
                "loadBalancer": { "consistentHash": { "httpHeaderName": TEXT } } } })),
        ),
        ("spec.service.meshName", service(json!({ "meshName": TEXT }))),
        ("spec.service.backends", service(json!({ "backends": [TEXT] }))),
        ("spec.service.apex.labels", service(json!({ "apex": { "labels": { TEXT: "a" } } }))),
        ("spec.service.apex.labels", service(json!({ "apex": { "labels": { "a": TEXT } } }))),
        (
            "spec.service.apex.annotations",
            service(json!({ "apex": { "annotations": { TEXT: "a" } } })),
        ),
        ("spec.analysis.match", matched(json!({ "headers": { TEXT: { "exact": "a" } } }))),
        ("spec.analysis.match", matched(json!({ "headers": { "x-a": { "exact": TEXT } } }))),
        ("spec.analysis.match", matched(json!({ "headers": { "cookie": { "exact": TEXT } } }))),
        ("spec.analysis.match", matched(json!({ "headers": { "x-a": { "suffix": TEXT } } }))),
        ("spec.analysis.match", matched(json!({ "headers": { "x-a": { "regex": TEXT } } }))),
        ("spec.analysis.match", matched(json!({ "queryParams": { TEXT: { "exact": TEXT } } }))),
        ("spec.analysis.sessionAffinity", sticky("cookieName")),
        ("spec.analysis.sessionAffinity", sticky("primaryCookieName")),
        ("spec.analysis.sessionAffinity", sticky("domain")),
        ("spec.analysis.sessionAffinity", sticky("path")),
    ]
}

fn hostile() -> Vec<String> {
    let texts = [
        "a\r\nx-evil: 1",
        "a\nb",
        "a\0b",
        "\u{7f}",
        "a\u{85}b",
        "a\tb",
        "",
        " ",
        "a b",
        "ä",
        "a;b",
        "a,b",
        "a=b",
        "../..",
        "/a/../b",
        "/a b",
        "/a//b",
        "%zz",
        "*",
        "A.B",
        "soon",
        "1m1",
        "-1s",
        "{{a}}",
        "$(x)",
        "\"",
        "a/b/c",
    ];
    let long = ["a".repeat(300), "a".repeat(5000), format!("/{}", "a".repeat(2000))];
    texts.into_iter().map(str::to_owned).chain(long).collect()
}

/// The value with a text in the place of the placeholder.
fn filled(value: &Value, text: &str) -> Value {
    let of = |it: &str| if it == TEXT { text.to_owned() } else { it.to_owned() };
    match value {
        Value::String(it) => json!(of(it)),
        Value::Array(items) => items.iter().map(|item| filled(item, text)).collect(),
        Value::Object(members) => {
            let members = members.iter().map(|(key, member)| (of(key), filled(member, text)));
            Value::Object(members.collect::<Map<_, _>>())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// The canary of a provider with a text in a field.
fn canary_with(provider: &str, field: &Field, text: &str) -> Value {
    let is_test = field.0 == "spec.analysis.match";
    let mut canary = canary_for(provider, if is_test { ab_test() } else { by_weight() });
    canary["metadata"]["namespace"] = json!("default");
    for (part, members) in field.1.as_object().into_iter().flatten() {
        for (key, value) in members.as_object().into_iter().flatten() {
            canary["spec"][part][key] = filled(value, text);
        }
    }
    canary
}

/// Every text of a value, keys too.
fn texts_in(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => found.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| texts_in(item, found)),
        Value::Object(members) => {
            found.extend(members.keys().cloned());
            members.values().for_each(|member| texts_in(member, found));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

struct Rig {
    world: World,
    fields: RouteFields,
}

impl Rig {
    fn new() -> Self {
        let world = World::new();
        let mut kinds = definitions();
        kinds.extend(kube_sandbox::controllers::knative_crds());
        world.sandbox.load(kinds).expect("definitions are accepted");
        let upstream = kube_sandbox::upstream_crds();
        let route = upstream.iter().find(|it| it["spec"]["names"]["kind"] == "HTTPRoute");
        let route = route.expect("the sandbox has it");
        let fields =
            RouteFields::in_schema(&route["spec"]["versions"][0]["schema"]["openAPIV3Schema"]);
        Self { world, fields }
    }

    fn live(mesh: Mesh, provider: &str) -> Live {
        let mut live = Live::default();
        for object in users_objects(provider) {
            let kind = mesh.kinds().iter().find(|kind| object["kind"] == kind.kind);
            if let Some(kind) = kind {
                live.insert(*kind, object);
            }
        }
        for name in ["web", "web-primary", "web-canary"] {
            let service =
                json!({ "metadata": { "name": name }, "spec": { "selector": { "app": name } } });
            live.insert(SERVICE, service);
        }
        live
    }

    /// Refusals of a canary; if there are none, the objects of its route.
    fn outcome(
        &self,
        provider: &str,
        mesh: Mesh,
        canary: &Canary,
    ) -> Result<Vec<Value>, Vec<String>> {
        let errors = spec_errors(canary, mesh, CrossNamespace::Allowed);
        if !errors.is_empty() {
            return Err(errors);
        }
        let affinity = canary.spec.analysis.session_affinity.clone().unwrap_or_default();
        let cookie = |name: &str| Some(format!("{name}=AbCdEfGhIj"));
        let cookies = Cookies {
            canary: cookie(&affinity.cookie_name),
            primary: cookie(affinity.primary_cookie_name.as_deref().unwrap_or("main")),
            previous: cookie(&affinity.cookie_name),
        };
        let cx = RouteCx {
            owner: Owner { name: "web", namespace: "default", uid: "1", can_own: false },
            spec: &canary.spec,
            cookies: &cookies,
            primary: None,
            iterating: false,
            inherited: Split::PRIMARY,
            fields: if mesh.kinds().contains(&HTTP_ROUTE_V1) {
                self.fields
            } else {
                RouteFields::default()
            },
            annotations: &BTreeMap::new(),
            ingress: IngressOptions::default(),
        };
        let live = Self::live(mesh, provider);
        let full = Split::canary(Percent::clamped(if canary.spec.analysis.matches.is_empty() {
            20
        } else {
            100
        }));
        let mut changes = Vec::new();
        for made in [
            mesh.prepare(&cx, &live),
            mesh.reconcile(&cx, &live),
            mesh.write(&cx, &live, full),
            mesh.write(&cx, &live, Split::PRIMARY),
        ] {
            changes.extend(made.map_err(|error| vec![error.to_string()])?);
        }
        let bodies = changes.into_iter().filter_map(|change| match change {
            Change::Apply { body, .. } => Some(body),
            Change::Merge { .. } | Change::Delete { .. } => None,
        });
        Ok(bodies.collect())
    }

    /// Why the server does not take an object, if it does not.
    fn refusal(&self, mesh: Mesh, mut body: Value) -> Option<String> {
        let named = |kind: &&Kind| body["kind"] == kind.kind;
        let kind = mesh.kinds().iter().find(named).copied().unwrap_or(SERVICE);
        let admin = self.world.sandbox.local(User::admin());
        let resource = Resource { group: kind.group, plural: kind.plural };
        let metadata = body["metadata"].as_object_mut()?;
        let name = format!("tried-{}", kind.plural);
        metadata.insert("name".to_owned(), json!(name));
        metadata.remove("resourceVersion");
        let namespace = if kind.is_namespaced() { "default" } else { "" };
        // By the version of the object, where a kind has several.
        let loaded = self.world.sandbox.load(vec![body]);
        let _ = admin.delete(resource, namespace, &name, &Deletion::default());
        loaded.err().map(|failure| failure.message)
    }
}

/// Providers by what they are called; SMI's differ in version only.
fn routers() -> Vec<(&'static str, Support)> {
    all().into_iter().filter(|(provider, _)| *provider != KNATIVE).collect()
}

#[tokio::test(start_paused = true)]
async fn a_hostile_text_is_refused_by_its_field_or_taken_by_the_definition() {
    let rig = Rig::new();
    let (mut wrong, mut refused, mut taken) = (BTreeSet::new(), 0, 0);
    for (provider, support) in routers() {
        let mesh = support.mesh;
        for field in fields() {
            for text in hostile() {
                let canary = canary_with(provider, &field, &text);
                let Ok(canary) = serde_json::from_value::<Canary>(canary) else { continue };
                let shown: String = text.chars().take(30).collect();
                let about = format!("{provider}, {} {shown:?}", field.0);
                match rig.outcome(provider, mesh, &canary) {
                    Err(errors) => {
                        refused += 1;
                        let is_named = errors.iter().any(|error| error.contains(field.0));
                        let is_line = errors.iter().all(|it| !it.chars().any(char::is_control));
                        if !is_named || !is_line {
                            wrong.insert(format!(
                                "{about}: names no field, or is no line: {errors:?}"
                            ));
                        }
                    }
                    Ok(bodies) => {
                        taken += 1;
                        for body in bodies {
                            let mut texts = Vec::new();
                            texts_in(&body, &mut texts);
                            let is_control = |it: char| it.is_control() && it != '\t';
                            if texts.iter().any(|it| it.chars().any(is_control)) {
                                wrong.insert(format!("{about}: is written"));
                            }
                            if let Some(why) = rig.refusal(mesh, body) {
                                wrong.insert(format!("{about}: the server says: {why}"));
                            }
                        }
                    }
                }
            }
        }
    }
    let shown: Vec<_> = wrong.iter().map(String::as_str).take(40).collect();
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), shown.join("\n"));
    assert!(refused > 2000 && taken > 2000, "{refused} refused, {taken} taken");
}

#[test]
fn texts_that_flagger_runs_with_are_not_refused() {
    let cases = [
        (
            "istio",
            json!({ "hosts": ["web.test", "*.web.test", "web.default.svc.cluster.local", "*"] }),
        ),
        ("istio", json!({ "gateways": ["mesh", "istio-system/public-gateway"] })),
        ("istio", json!({ "match": [{ "headers": { ":authority": { "exact": "a" } } }] })),
        (
            "istio",
            json!({ "match": [{ "headers": { "@request.auth.claims[a b]": { "exact": "a" } } }] }),
        ),
        (
            "istio",
            json!({ "headers": { "request": { "set": { "x-a": "%DOWNSTREAM_REMOTE_ADDRESS%" } } } }),
        ),
        ("istio", json!({ "retries": { "attempts": 1, "perTryTimeout": "" } })),
        ("istio", json!({ "corsPolicy": { "allowOrigin": ["a b"], "maxAge": "" } })),
        ("istio", json!({ "timeout": "" })),
        ("gatewayapi:v1", json!({ "hosts": ["*.web.test"], "rewrite": { "uri": "/a b?c#d" } })),
        ("gatewayapi:v1", json!({ "match": [{ "uri": { "regex": "^/a b(c|d)$" } }] })),
        (
            "gatewayapi:v1",
            json!({ "headers": { "response": { "add": { "x-a": "a; b=\"c\"\td" } } } }),
        ),
        (
            "gatewayapi:v1beta1",
            json!({ "timeout": "soon", "corsPolicy": { "allowMethods": ["get"] } }),
        ),
        ("contour", json!({ "timeout": "1.5s", "retries": { "retryOn": "5xx, gateway-error" } })),
        ("appmesh:v1beta2", json!({ "timeout": "soon", "hosts": ["*"], "backends": ["a.b"] })),
        ("gloo", json!({ "timeout": "soon", "retries": { "retryOn": "anything" } })),
        (
            "nginx",
            json!({ "timeout": "soon", "headers": { "request": { "set": { "a b": "\n" } } } }),
        ),
        (
            "kubernetes",
            json!({ "timeout": "soon", "hosts": ["\n"], "apex": { "annotations": { "a/B": "x\ny" } } }),
        ),
    ];
    for (provider, service) in cases {
        let (_, support) = all().into_iter().find(|(it, _)| *it == provider).unwrap();
        let mut canary = canary_for(provider, by_weight());
        for (key, value) in service.as_object().unwrap() {
            canary["spec"]["service"][key] = value.clone();
        }
        let canary: Canary = serde_json::from_value(canary).unwrap();
        let errors = spec_errors(&canary, support.mesh, CrossNamespace::Allowed);
        assert_eq!(errors, Vec::<String>::new(), "{provider}: {service}");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_for_a_cookie_with_a_line_end() {
    let mut analysis = by_weight();
    analysis["sessionAffinity"] = json!({ "cookieName": "side\r\nSet-Cookie: admin=1" });
    let mut world = with_canary(canary_for("istio", analysis));
    furnish(&world, "istio");
    world.start().await;
    world.advance_s(120).await;
    let (stalled, _, message) = condition(&world, "web", "Stalled");
    assert_eq!(stalled, "True", "{message}");
    assert!(message.contains("spec.analysis.sessionAffinity.cookieName: a line end"), "{message}");
    assert!(
        world.get(DEPLOYMENTS, "web-primary").is_none()
            && world.get(SERVICES, "web-primary").is_none()
    );
    assert!(world.get(VIRTUAL_SERVICES, "web").is_none());
    world.patch(
        CANARIES,
        "web",
        &json!({ "spec": { "analysis": { "sessionAffinity": { "cookieName": "side" } } } }),
    );
    reach(&world, "Initialized").await;
}

#[tokio::test(start_paused = true)]
async fn a_rollout_under_way_goes_back_when_a_text_becomes_unusable() {
    let mut world = with_canary(canary_for("istio", by_weight()));
    furnish(&world, "istio");
    world.start().await;
    reach(&world, "Initialized").await;
    release(&world, "web:2.0");
    assert!(world.until(600, |world| world.status("web")["canaryWeight"] == 20).await);
    let headers = json!({ "request": { "set": { "x-a": "a\r\nb" } } });
    world.patch(CANARIES, "web", &json!({ "spec": { "service": { "headers": headers } } }));
    reach(&world, "Failed").await;
    let route = world.get(VIRTUAL_SERVICES, "web").unwrap();
    let weights: Vec<_> = route["spec"]["http"][0]["route"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["weight"].clone())
        .collect();
    assert_eq!(weights, [100, 0], "{route:#}");
    assert!(condition(&world, "web", "Stalled").2.contains("spec.service.headers.request.set.x-a"));
}
