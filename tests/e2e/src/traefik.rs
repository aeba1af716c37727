//! Traefik as the data plane for `HTTPRoutes`, `TraefikServices` and the canary annotations of
//! ingress-nginx.
//!
//! Its weighted round robin is deterministic, so on a quiet proxy a split of 90 to 10 over a thousand
//! requests is 900 to 100 and a test may say so.

use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::{ControlPlane, Process, Web, apply, apply_folder, control_plane::free_ports, objects};

const PATIENCE: Duration = Duration::from_mins(2);

/// The class for Gateways of routes by the Gateway API.
const GATEWAY_CLASS: &str = "traefik";
/// The class of Ingresses that follow ingress-nginx.
const INGRESS_CLASS: &str = "nginx";

/// Kinds of `traefik.io`, all of which its provider needs, and their plurals.
const KINDS: [(&str, &str); 10] = [
    ("IngressRoute", "ingressroutes"),
    ("IngressRouteTCP", "ingressroutetcps"),
    ("IngressRouteUDP", "ingressrouteudps"),
    ("Middleware", "middlewares"),
    ("MiddlewareTCP", "middlewaretcps"),
    ("ServersTransport", "serverstransports"),
    ("ServersTransportTCP", "serverstransporttcps"),
    ("TLSOption", "tlsoptions"),
    ("TLSStore", "tlsstores"),
    ("TraefikService", "traefikservices"),
];

/// A running Traefik. Dropping it ends it.
#[derive(Debug)]
pub struct Traefik {
    _process: Process,
    port: u16,
    admin_port: u16,
    web: Web,
}

// === impl Traefik ===

impl Traefik {
    /// Defines its kinds, and starts it once they exist: it does not notice later.
    pub async fn start(plane: &ControlPlane) -> Result<Self> {
        prepare(plane).await?;
        let [port, admin_port] = free_ports()?;
        let config = plane.folder().join("traefik.yaml");
        std::fs::write(&config, configuration(plane, port, admin_port).to_string())?;
        let program = plane.parts().program("traefik", "traefik")?;
        let arguments = [format!("--configFile={}", config.display())];
        let process = Process::start("traefik", &program, &arguments, plane.folder())?;
        let web = Web::default();
        let ping = format!("http://127.0.0.1:{admin_port}/ping");
        process.ready(PATIENCE, async || Ok(web.get(&ping).await?.status == 200)).await?;
        Ok(Self { _process: process, port, admin_port, web })
    }

    /// The address for clients.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The port of a Gateway's listener that is served here.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Host and port that Prometheus scrapes.
    pub fn metrics(&self) -> String {
        format!("127.0.0.1:{}", self.admin_port)
    }

    /// A Gateway for routes of all namespaces.
    pub fn gateway(&self, namespace: &str, name: &str) -> Value {
        json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
            "metadata": { "namespace": namespace, "name": name },
            "spec": {
                "gatewayClassName": GATEWAY_CLASS,
                "listeners": [{
                    "name": "http", "port": self.port, "protocol": "HTTP",
                    "allowedRoutes": { "namespaces": { "from": "All" } },
                }],
            },
        })
    }

    /// Waits until a client of `host` gets something other than 404.
    pub async fn routes(&self, host: &str) -> Result<()> {
        let url = self.url();
        objects::eventually(&format!("{host} is routed"), PATIENCE, async || {
            Ok((self.web.get_as(&url, host).await?.status < 400).then_some(()))
        })
        .await
    }

    /// Its current weight of a Service, independent of the route; `None` if no active split contains the
    /// Service.
    pub async fn weight(&self, service: &str) -> Result<Option<i64>> {
        let url = format!("http://127.0.0.1:{}/api/http/services?per_page=1000", self.admin_port);
        let services = self.web.get(&url).await?.json()?;
        let services = services.as_array().into_iter().flatten();
        let splits = services.filter_map(|it| it["weighted"]["services"].as_array());
        let is_it = |side: &&Value| side["name"].as_str().is_some_and(|it| it.contains(service));
        Ok(splits.flatten().find(is_it).map(|side| side["weight"].as_i64().unwrap_or(1)))
    }

    /// The number of `requests` for `host`, one after another, that each version of the sample application
    /// answered. An answer other than 200 is an error.
    pub async fn versions(
        &self,
        host: &str,
        requests: usize,
    ) -> Result<std::collections::BTreeMap<String, usize>> {
        let url = self.url();
        let mut counts = std::collections::BTreeMap::new();
        for _ in 0..requests {
            let answer = self.web.get_as(&url, host).await?;
            anyhow::ensure!(answer.status == 200, "{host} answered {}", answer.status);
            let version = answer.json()?["version"].as_str().map(str::to_owned);
            *counts.entry(version.context("the answer names no version")?).or_default() += 1;
        }
        Ok(counts)
    }
}

/// The objects that must exist before Traefik starts.
async fn prepare(plane: &ControlPlane) -> Result<()> {
    let client = plane.client();
    let known = objects::discovered(&client).await?.unwrap_or_default();
    if !known.contains("httproutes.gateway.networking.k8s.io") {
        apply_folder(&client, plane.parts().folder("gateway-api")?).await?;
    }
    let own = KINDS.map(|(kind, plural)| definition(kind, plural));
    objects::define(&client, &own).await?;
    let gateway_class = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass",
        "metadata": { "name": GATEWAY_CLASS },
        "spec": { "controllerName": "traefik.io/gateway-controller" },
    });
    let ingress_class = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "IngressClass",
        "metadata": { "name": INGRESS_CLASS },
        "spec": { "controller": "k8s.io/ingress-nginx" },
    });
    apply(&client, &gateway_class).await?;
    apply(&client, &ingress_class).await?;
    Ok(())
}

fn configuration(plane: &ControlPlane, port: u16, admin_port: u16) -> Value {
    let cluster = json!({
        "endpoint": plane.url(), "token": plane.token(), "certAuthFilePath": plane.certificate(),
    });
    let buckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
    json!({
        "global": { "checkNewVersion": false, "sendAnonymousUsage": false },
        "log": { "level": "INFO" },
        "api": { "insecure": true },
        "ping": {},
        "entryPoints": {
            "web": { "address": format!("127.0.0.1:{port}") },
            "traefik": { "address": format!("127.0.0.1:{admin_port}") },
        },
        "metrics": { "prometheus": {
            "addEntryPointsLabels": true, "addRoutersLabels": true, "addServicesLabels": true,
            "buckets": buckets,
        } },
        "providers": {
            // As fast as possible: a test waits for every change of a weight.
            "providersThrottleDuration": "100ms",
            "kubernetesGateway": cluster, "kubernetesCRD": cluster, "kubernetesIngressNGINX": cluster,
        },
    })
}

/// Traefik's own kinds come without definitions; it reads objects, not schemas, so any will do.
fn definition(kind: &str, plural: &str) -> Value {
    let anything = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.traefik.io") },
        "spec": {
            "group": "traefik.io", "scope": "Namespaced",
            "names": { "kind": kind, "plural": plural, "singular": kind.to_lowercase() },
            "versions": [{
                "name": "v1alpha1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": anything },
            }],
        },
    })
}
