//! Objects of routers and scalers, sent to a real API server with the real definitions: no field may be
//! refused, dropped or defaulted so that it looks like another's edit.
//!
//! For providers whose definitions cannot be obtained by package name, see [`WITHOUT`].

use std::{collections::BTreeMap, path::Path};

use anyhow::{Context as _, Result, ensure};
use kube::{
    Client,
    api::{Patch, PatchParams, ValidationDirective},
    core::TypeMeta,
};
use serde_json::{Map, Value, json};
use tidegate_api::canary::{Canary, CanarySpec};
use tidegate_e2e::{ControlPlane, Options, Parts, api_of, apply, apply_folder, inside};
use tidegate_engine::{Percent, Split};
use tidegate_providers::{
    object::{Change, Kind, Live, Owner},
    traffic::{
        Affinity, Cookies, HTTP_ROUTE_V1, HTTP_ROUTE_V1BETA1, IngressOptions, KNATIVE_SERVICE,
        Mesh, RouteCx, RouteFields, Support,
    },
    workload::{Cx, LabelPrefixes, SCALED_OBJECT, WorkloadKind, scaler::Scaler},
};
use tidegate_tests::{
    providers::{all, canary_for, users_objects},
    rollout::scaled_object,
};

/// In a folder of its own, as each file beside this one is a suite.
mod providers {
    mod definitions;
}

/// Providers whose definitions cannot be obtained: their modules are not published, or are written for
/// servers of another time.
const WITHOUT: [&str; 10] = [
    "linkerd",
    "osm",
    "smi:v1alpha1",
    "smi:v1alpha2",
    "smi:v1alpha3",
    "appmesh",
    "appmesh:v1beta2",
    "gloo",
    "kuma",
    "apisix",
];

const OWNER: Owner<'static> = Owner {
    name: "web",
    namespace: "default",
    uid: "0f5e9b7c-8d1a-4b52-9c39-2f6f0c9d7a10",
    can_own: true,
};

/// A server with the definitions of all providers that can be obtained.
async fn server() -> Result<ControlPlane> {
    let options = Options { without_controllers: true, ..Options::default() };
    let plane = ControlPlane::start_with(&Parts::find()?, &options).await?;
    let client = plane.client();
    for part in ["gateway-api", "istio"] {
        apply_folder(&client, plane.parts().folder(part)?).await?;
    }
    for name in ["contour", "traefik", "knative", "keda"] {
        apply_folder(&client, &plane.parts().folder("providers")?.join(name)).await?;
    }
    // The server has to know the kinds of owners.
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds");
    apply_folder(&client, &ours).await?;
    Ok(plane)
}

fn types(kind: Kind) -> TypeMeta {
    TypeMeta { api_version: kind.api_version(), kind: kind.kind.to_owned() }
}

/// Sends a change as the operator does; no error is tolerated.
async fn carry_out(client: &Client, change: &Change) -> Result<()> {
    let strictly = |parameters| PatchParams {
        field_validation: Some(ValidationDirective::Strict),
        ..parameters
    };
    match change {
        Change::Apply { body, exact: _ } => {
            let text = |field: &str| body[field].as_str().unwrap_or_default().to_owned();
            let types = TypeMeta { api_version: text("apiVersion"), kind: text("kind") };
            let name = body["metadata"]["name"].as_str().context("no name")?;
            let api = api_of(client, &types, Some("default")).await?;
            let parameters = strictly(PatchParams::apply("tidegate").force());
            let applied = api.patch(name, &parameters, &Patch::Apply(body)).await;
            applied.with_context(|| format!("{} was not taken: {body:#}", types.kind))?;
        }
        Change::Merge { kind, name, patch } => {
            let api = api_of(client, &types(*kind), Some("default")).await?;
            let parameters = strictly(PatchParams::default());
            let merged = api.patch(name, &parameters, &Patch::Merge(patch)).await;
            merged.with_context(|| format!("{} was not taken: {patch:#}", kind.kind))?;
        }
        Change::Delete { kind, name, .. } => {
            let api = api_of(client, &types(*kind), Some("default")).await?;
            api.delete(name, &kube::api::DeleteParams::default()).await?;
        }
    }
    Ok(())
}

/// The existing objects of a canary.
async fn live(client: &Client, mesh: Mesh, cx: &RouteCx<'_>) -> Result<Live> {
    let mut live = Live::default();
    for (kind, name) in mesh.names(cx) {
        let api = api_of(client, &types(kind), Some("default")).await?;
        if let Some(object) = api.get_opt(&name).await? {
            live.insert(kind, serde_json::to_value(object)?);
        }
    }
    // No controller acts on routes here.
    Ok(live.without_status())
}

/// One way to use a provider: the additional settings of the canary, and its splits one after the other.
struct Shape {
    name: &'static str,
    service: Value,
    /// The kind of the user's route that is referred to.
    referred: Option<Kind>,
    analysis: Value,
    splits: Vec<Split>,
}

/// Every way that a provider has.
fn shapes(support: &Support) -> Vec<Shape> {
    let at = |percent: i64| Split::canary(Percent::clamped(percent));
    let steps = json!({ "stepWeight": 10, "maxWeight": 50 });
    let by_weight = vec![at(20), at(60), at(100), at(0)];
    let shape = |name, analysis: Value, splits| Shape {
        name,
        service: json!({}),
        referred: None,
        analysis,
        splits,
    };
    let mut shapes = vec![
        shape("by weight", steps.clone(), by_weight.clone()),
        shape("blue/green", json!({ "iterations": 5 }), vec![at(100), at(0)]),
        Shape {
            service: service_of(support),
            ..shape("with all that its service can say", steps.clone(), by_weight.clone())
        },
    ];
    let route = [HTTP_ROUTE_V1, HTTP_ROUTE_V1BETA1];
    if let Some(kind) = route.into_iter().find(|kind| support.mesh.kinds().contains(kind)) {
        shapes.push(Shape {
            referred: Some(kind),
            ..shape("over a route of the user's", steps.clone(), by_weight)
        });
    }
    if support.ab.is_some() {
        let somebody = json!([{ "headers": { "x-canary": { "exact": "yes" } } }]);
        let test = json!({ "iterations": 5, "match": somebody });
        shapes.push(shape("A/B testing", test, vec![at(100), at(0)]));
    }
    if support.mirror {
        let mut analysis = steps.clone();
        analysis["mirror"] = json!(true);
        analysis["mirrorWeight"] = json!(50);
        let copies = Split { mirrored: true, ..Split::PRIMARY };
        shapes.push(shape("mirroring", analysis, vec![copies, at(20), at(0)]));
    }
    if support.affinity != Affinity::None {
        let mut analysis = steps;
        analysis["sessionAffinity"] = json!({ "cookieName": "side", "primaryCookieName": "main" });
        shapes.push(shape("session affinity", analysis, vec![at(20), at(60), at(0)]));
    }
    shapes
}

/// The members of `spec.service` that shape a route of this provider, each with a value.
fn service_of(support: &Support) -> Value {
    let values = json!({
        "hosts": ["web.test"],
        "gateways": ["default/edge"],
        "match": [{ "uri": { "prefix": "/shop" } }],
        "timeout": "15s",
        "backendTimeout": "10s",
        "retries": { "attempts": 3, "perTryTimeout": "1s", "retryOn": "gateway-error,connect-failure" },
        "rewrite": { "uri": "/" },
        "headers": {
            "request": { "set": { "x-from": "web" } }, "response": { "remove": ["x-internal"] },
        },
        "mirror": [{ "backendRef": { "name": "audit", "port": 80 } }],
        "corsPolicy": {
            "allowOrigins": [{ "exact": "https://web.test" }], "allowMethods": ["GET"],
            "maxAge": "24h",
        },
        "trafficPolicy": { "tls": { "mode": "DISABLE" } },
    });
    let known = support.fields.iter().filter(|name| !values[**name].is_null());
    known.map(|name| ((*name).to_owned(), values[*name].clone())).collect::<Map<_, _>>().into()
}

/// The fields of the installed definition, as the operator finds them.
async fn fields(client: &Client, mesh: Mesh, spec: &CanarySpec) -> Result<RouteFields> {
    let route = mesh.kinds_for(spec).into_iter().next();
    let Some(kind) = route.filter(|kind| kind.group == HTTP_ROUTE_V1.group) else {
        return Ok(RouteFields::default());
    };
    let definitions = TypeMeta {
        api_version: "apiextensions.k8s.io/v1".to_owned(),
        kind: "CustomResourceDefinition".to_owned(),
    };
    let name = format!("{}.{}", kind.plural, kind.group);
    let definition = api_of(client, &definitions, None).await?.get(&name).await?;
    let definition = serde_json::to_value(definition)?;
    let versions = definition["spec"]["versions"].as_array().cloned().unwrap_or_default();
    let version = versions.into_iter().find(|version| version["name"] == kind.version);
    let version = version.with_context(|| format!("{name} has no {}", kind.version))?;
    Ok(RouteFields::in_schema(&version["schema"]["openAPIV3Schema"]))
}

/// The objects of a user of that provider, with the status of its controllers.
async fn furnish(client: &Client, provider: &str, mesh: Mesh) -> Result<()> {
    for object in users_objects(provider) {
        apply(client, &object).await?;
    }
    if mesh == Mesh::Knative {
        let status = json!({ "status": {
            "latestCreatedRevisionName": "web-00001", "latestReadyRevisionName": "web-00001",
        } });
        let api = api_of(client, &types(KNATIVE_SERVICE), Some("default")).await?;
        api.patch_status("web", &PatchParams::default(), &Patch::Merge(&status)).await?;
    }
    Ok(())
}

/// A route of the user's to the apex, of which only backends are to be divided.
fn users_route(kind: Kind) -> Value {
    let filter = json!({ "type": "RequestHeaderModifier", "requestHeaderModifier": {
        "set": [{ "name": "x-from", "value": "web" }],
    } });
    let path = json!([{ "path": { "type": "PathPrefix", "value": "/shop" } }]);
    let apex = json!([{ "name": "web", "port": 80 }]);
    json!({
        "apiVersion": kind.api_version(), "kind": kind.kind,
        "metadata": { "name": "front", "namespace": "default" },
        "spec": {
            "parentRefs": [{ "name": "edge" }], "hostnames": ["web.test"],
            "rules": [
                { "matches": path, "filters": [filter], "backendRefs": apex },
                { "backendRefs": apex },
            ],
        },
    })
}

/// The canary of a shape, without settings that this cluster has no field for.
async fn canary_of(client: &Client, provider: &str, mesh: Mesh, shape: &Shape) -> Result<Canary> {
    let mut analysis = json!({ "interval": "1m", "threshold": 1 });
    let mut canary = {
        for (key, value) in shape.analysis.as_object().into_iter().flatten() {
            analysis[key] = value.clone();
        }
        canary_for(provider, analysis)
    };
    for (key, value) in shape.service.as_object().into_iter().flatten() {
        canary["spec"]["service"][key] = value.clone();
    }
    if let Some(kind) = shape.referred {
        canary["spec"]["routeRef"] =
            json!({ "apiVersion": kind.api_version(), "kind": kind.kind, "name": "front" });
    }
    let plain: Canary = serde_json::from_value(canary.clone())?;
    if !fields(client, mesh, &plain.spec).await?.cors
        && let Some(service) = canary["spec"]["service"].as_object_mut()
    {
        service.remove("corsPolicy");
    }
    Ok(serde_json::from_value(canary)?)
}

/// Sets up, divides and restores a route; after each write nothing is left to write.
async fn lives_through(client: &Client, provider: &str, mesh: Mesh, shape: &Shape) -> Result<()> {
    furnish(client, provider, mesh).await?;
    if let Some(kind) = shape.referred {
        apply(client, &users_route(kind)).await?;
    }
    let canary = canary_of(client, provider, mesh, shape).await?;
    let cookies = Cookies {
        canary: Some("side=CanarySide".to_owned()),
        primary: Some("main=MainMainMa".to_owned()),
        previous: Some("side=FormerSide".to_owned()),
    };
    let annotations = BTreeMap::new();
    let cx = RouteCx {
        owner: OWNER,
        spec: &canary.spec,
        cookies: &cookies,
        primary: None,
        iterating: false,
        inherited: Split::PRIMARY,
        fields: fields(client, mesh, &canary.spec).await?,
        annotations: &annotations,
        ingress: IngressOptions::default(),
    };
    let first = match mesh {
        // Its status has the revision.
        Mesh::Knative => {
            let api = api_of(client, &types(KNATIVE_SERVICE), Some("default")).await?;
            let mut with_status = Live::default();
            with_status.insert(KNATIVE_SERVICE, serde_json::to_value(api.get("web").await?)?);
            with_status
        }
        _ => live(client, mesh, &cx).await?,
    };
    let mut changes = mesh.prepare(&cx, &first)?;
    changes.extend(mesh.reconcile(&cx, &first)?);
    ensure!(!changes.is_empty(), "nothing is written");
    let mut reached = Split::PRIMARY;
    for next in shape.splits.iter().map(Some).chain([None]) {
        for change in &changes {
            carry_out(client, change).await.with_context(|| format!("at {reached:?}"))?;
        }
        let now = live(client, mesh, &cx).await?;
        let read = mesh.read(&cx, &now)?;
        ensure!(read == reached, "{read:?} and not {reached:?}");
        let again = mesh.reconcile(&cx, &now)?;
        ensure!(again.is_empty(), "at {reached:?}, written again: {again:#?}");
        let Some(next) = next else { break };
        changes = mesh.write(&cx, &now, *next)?;
        reached = *next;
    }
    for change in mesh.finalize(&cx, &live(client, mesh, &cx).await?)? {
        carry_out(client, &change).await.context("the way back")?;
    }
    let again = mesh.finalize(&cx, &live(client, mesh, &cx).await?)?;
    ensure!(again.is_empty(), "given back again: {again:#?}");
    Ok(())
}

#[test]
fn what_routers_write_is_taken_as_it_is() {
    inside("what_routers_write_is_taken_as_it_is", async || {
        let plane = server().await?;
        let client = plane.client();
        let mut taken = Vec::new();
        for (provider, support) in all() {
            let mesh = support.mesh;
            let is_had = !mesh.kinds().is_empty() && mesh != Mesh::KumaHttp;
            if !is_had || WITHOUT.contains(&provider) {
                continue;
            }
            for shape in shapes(&support) {
                let lived = lives_through(&client, provider, mesh, &shape).await;
                lived.with_context(|| format!("{provider}, {}", shape.name))?;
                // The next one may have objects of the same name.
                for kind in mesh.kinds() {
                    let api = api_of(&client, &types(*kind), Some("default")).await?;
                    let (delete, list) = (kube::api::DeleteParams::default(), <_>::default());
                    api.delete_collection(&delete, &list).await?;
                }
                taken.push(format!("{provider}, {}", shape.name));
            }
        }
        println!("{} ways: {}", taken.len(), taken.join("; "));
        ensure!(taken.len() >= 30, "{taken:?}");
        Ok(())
    });
}

#[test]
fn what_is_written_for_keda_is_taken_as_it_is() {
    inside("what_is_written_for_keda_is_taken_as_it_is", async || {
        let plane = server().await?;
        let client = plane.client();
        let mut target = scaled_object("web", 2, 4);
        target["metadata"]["namespace"] = json!("default");
        target["spec"]["pollingInterval"] = json!(15);
        target["spec"]["advanced"] = json!({ "horizontalPodAutoscalerConfig": { "name": "web" } });
        apply(&client, &target).await?;
        let (labels, included) = (vec!["app".to_owned()], LabelPrefixes::parse(""));
        let cx = Cx {
            owner: OWNER,
            workload: WorkloadKind::Deployment,
            target: "web",
            selector_labels: &labels,
            included: &included,
        };
        let reference = serde_json::from_value(json!({
            "apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "name": "web",
            "primaryScalerReplicas": { "minReplicas": 3, "maxReplicas": 5 },
        }))?;
        let api = api_of(&client, &types(SCALED_OBJECT), Some("default")).await?;
        let stored = serde_json::to_value(api.get("web").await?)?;
        let made = Scaler::ScaledObject.sync(&cx, &reference, &stored, None)?;
        carry_out(&client, &made.context("nothing is written")?).await?;
        let primary: Value = serde_json::to_value(api.get("web-primary").await?)?;
        ensure!(primary["spec"]["maxReplicaCount"] == 5, "{primary:#}");
        let again = Scaler::ScaledObject.sync(&cx, &reference, &stored, Some(&primary))?;
        ensure!(again.is_none(), "written again: {again:#?}");
        let pause = Scaler::ScaledObject.pause(&stored, true).context("nothing pauses it")?;
        carry_out(&client, &pause).await
    });
}
