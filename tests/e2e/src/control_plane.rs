//! etcd, kube-apiserver and kube-controller-manager, on free ports of the loopback device.
//!
//! No kubelet, no scheduler: [`crate::Node`] replaces both. Authorisation is RBAC; the administrator and
//! the controller manager log in by token, every other user by impersonation or by a service account's
//! token. State lives in a scratch folder that is removed with the control plane.

use std::{
    net::TcpListener,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use anyhow::{Context as _, Result};
use http::Request;
use k8s_openapi::{
    ByteString,
    api::{
        authentication::v1::TokenRequest,
        core::v1::{ConfigMap, ServiceAccount},
    },
};
use kube::{
    Api, Client, Config,
    api::PostParams,
    config::{KubeConfigOptions, Kubeconfig},
};
use ring::{
    rand::SystemRandom,
    signature::{self, KeyPair as _},
};
use serde_json::{Value, json};

use crate::{
    Parts, Process,
    audit::{self, Asked},
    scratch::Scratch,
};

/// Two busy cores need a tenth of it.
const PATIENCE: Duration = Duration::from_mins(3);

/// The enabled controllers: without those of nodes (which would mark ours as unhealthy) and volumes.
const CONTROLLERS: &str = "deployment-controller,replicaset-controller,statefulset-controller,\
    daemonset-controller,job-controller,cronjob-controller,endpoints-controller,\
    endpointslice-controller,garbage-collector-controller,namespace-controller,\
    serviceaccount-controller,root-ca-certificate-publisher-controller,\
    horizontal-pod-autoscaler-controller,disruption-controller,resourcequota-controller,\
    clusterrole-aggregation-controller";

/// The prefix that makes a public key of the 65 bytes of a P-256 point (RFC 5480): the lengths,
/// `id-ecPublicKey`, `prime256v1`, and the head of a bit string.
const P256_KEY_INFO: &[u8] = &[
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

const ADMIN: &str = "admin";
const CONTROLLER_MANAGER: &str = "system:kube-controller-manager";

/// A running control plane. Dropping it ends it.
pub struct ControlPlane {
    // They end in this order: no client is left that misses its server.
    controller_manager: Option<Process>,
    api_server: Process,
    etcd: Process,
    client: Client,
    access: Access,
    parts: Parts,
    scratch: Scratch,
}

/// Further flags, after the usual ones.
#[derive(Debug, Clone, Default)]
pub struct Options {
    pub api_server: Vec<String>,
    pub controller_manager: Vec<String>,
    /// The API server alone: only clients write.
    pub without_controllers: bool,
    /// The user whose requests are logged, for [`ControlPlane::asked`].
    pub audited: Option<String>,
}

/// The address of the API server and its certificate.
#[derive(Debug, Clone)]
struct Access {
    url: String,
    certificate: PathBuf,
}

// === impl ControlPlane ===

impl ControlPlane {
    /// Starts a control plane and waits until it is ready.
    pub async fn start(parts: &Parts) -> Result<Self> {
        Self::start_with(parts, &Options::default()).await
    }

    pub async fn start_with(parts: &Parts, options: &Options) -> Result<Self> {
        let scratch = Scratch::new().context("no scratch folder can be made")?;
        let [client_port, peer_port, api_port, manager_port] = free_ports()?;
        let etcd = start_etcd(parts, scratch.path(), client_port, peer_port)?;
        let [private, public] = signing_keys()?;
        scratch.write("accounts.key", &private)?;
        scratch.write("accounts.pub", &public)?;
        scratch.write("tokens.csv", &tokens())?;
        if let Some(user) = &options.audited {
            scratch.write(audit::POLICY, &audit::policy(user))?;
        }
        let api_server = start_api_server(parts, scratch.path(), client_port, api_port, options)?;
        let access = Access {
            url: format!("https://127.0.0.1:{api_port}"),
            certificate: scratch.path().join("certificates/apiserver.crt"),
        };
        let user = json!({ "token": token(ADMIN) });
        let admin = scratch.write("admin.kubeconfig", &access.kubeconfig(&user))?;
        let answers = async || {
            let readyz = Request::get("/readyz").body(Vec::new())?;
            let text = client_of(&admin).await?.request_text(readyz).await?;
            Ok(text == "ok")
        };
        let ready = api_server.ready(PATIENCE, answers).await;
        ready.with_context(|| format!("etcd's last lines:\n{}", etcd.tail()))?;
        let client = client_of(&admin).await?;
        let user = json!({ "token": token(CONTROLLER_MANAGER) });
        scratch.write("controller-manager.kubeconfig", &access.kubeconfig(&user))?;
        let controller_manager = if options.without_controllers {
            None
        } else {
            Some(start_controller_manager(parts, scratch.path(), manager_port, options)?)
        };
        let parts = parts.clone();
        let plane = Self { controller_manager, api_server, etcd, client, access, parts, scratch };
        if let Some(manager) = &plane.controller_manager {
            // The objects that pods need to start, in the default namespace.
            manager.ready(PATIENCE, async || plane.is_furnished("default").await).await?;
        }
        Ok(plane)
    }

    /// As the administrator.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    pub fn parts(&self) -> &Parts {
        &self.parts
    }

    pub fn url(&self) -> &str {
        &self.access.url
    }

    /// The PEM file of the API server's certificate authority.
    pub fn certificate(&self) -> &Path {
        &self.access.certificate
    }

    /// The administrator's bearer token.
    pub fn token(&self) -> String {
        token(ADMIN)
    }

    /// The folder of logs, keys and kubeconfigs, for as long as the control plane runs.
    pub fn folder(&self) -> &Path {
        self.scratch.path()
    }

    /// The processes, in the order they were started.
    pub fn processes(&self) -> Vec<&Process> {
        let manager = self.controller_manager.iter();
        [&self.etcd, &self.api_server].into_iter().chain(manager).collect()
    }

    /// The last lines each process wrote.
    pub fn logs(&self) -> String {
        let tail =
            |process: &Process| format!("{}:\n{}\n", process.log().display(), process.tail());
        self.processes().into_iter().map(tail).collect()
    }

    /// A kubeconfig of `admin`, who may do everything, or of another user, with the permissions of RBAC.
    pub fn kubeconfig(&self, user: &str) -> Result<PathBuf> {
        let mut login = json!({ "token": token(ADMIN) });
        if user != ADMIN {
            login["as"] = user.into();
        }
        let file = format!("{}.kubeconfig", user.replace(['/', ':'], "-"));
        Ok(self.scratch.write(&file, &self.access.kubeconfig(&login))?)
    }

    /// A kubeconfig with a token of that service account, as in a pod. The account must exist.
    pub async fn service_account_kubeconfig(&self, namespace: &str, name: &str) -> Result<PathBuf> {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client(), namespace);
        let wanted = TokenRequest::default();
        let made = accounts.create_token_request(name, &PostParams::default(), &wanted).await?;
        let token = made.status.context("the token request has no answer")?.token;
        // Each login is a new one, as that of another pod would be.
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let file = format!("{namespace}-{name}-{serial}.kubeconfig");
        let text = self.access.kubeconfig(&json!({ "token": token }));
        Ok(self.scratch.write(&file, &text)?)
    }

    /// The requests of the audited user since the start, in order.
    pub fn asked(&self) -> Result<Vec<Asked>> {
        audit::read(self.scratch.path())
    }

    /// A client that logs in with a kubeconfig made here.
    pub async fn client_of(&self, kubeconfig: &Path) -> Result<Client> {
        client_of(kubeconfig).await
    }

    /// Whether a namespace has the objects that the controller manager puts into each.
    async fn is_furnished(&self, namespace: &str) -> Result<bool> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client(), namespace);
        let maps: Api<ConfigMap> = Api::namespaced(self.client(), namespace);
        let account = accounts.get_opt("default").await?;
        Ok(account.is_some() && maps.get_opt("kube-root-ca.crt").await?.is_some())
    }
}

// === impl Access ===

impl Access {
    /// JSON, which is YAML too.
    fn kubeconfig(&self, user: &Value) -> String {
        let cluster = json!({
            "server": self.url, "certificate-authority": self.certificate,
            "tls-server-name": "kubernetes",
        });
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "e2e",
            "clusters": [{ "name": "e2e", "cluster": cluster }],
            "users": [{ "name": "e2e", "user": user }],
            "contexts": [{ "name": "e2e", "context": { "cluster": "e2e", "user": "e2e" } }],
        })
        .to_string()
    }
}

/// Whether a client goes through a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proxy {
    /// As in kubeconfig and environment.
    AsConfigured,
    Never,
}

/// A client of an API server on this machine, without the proxies of the environment.
pub(crate) async fn client_of(kubeconfig: &Path) -> Result<Client> {
    client_by(kubeconfig, Proxy::Never).await
}

pub(crate) async fn client_by(kubeconfig: &Path, proxy: Proxy) -> Result<Client> {
    let read = Kubeconfig::read_from(kubeconfig)?;
    let mut config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?;
    if proxy == Proxy::Never {
        config.proxy_url = None;
    }
    Ok(Client::try_from(config)?)
}

fn start_etcd(parts: &Parts, folder: &Path, client_port: u16, peer_port: u16) -> Result<Process> {
    let [client, peer] = [client_port, peer_port].map(|port| format!("http://127.0.0.1:{port}"));
    let arguments = [
        "--data-dir=etcd".to_owned(),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=default={peer}"),
        // The data is not needed after a crash of the machine.
        "--unsafe-no-fsync".to_owned(),
        "--log-level=warn".to_owned(),
    ];
    Process::start("etcd", &parts.program("etcd", "etcd")?, &arguments, folder)
}

fn start_api_server(
    parts: &Parts,
    folder: &Path,
    etcd_port: u16,
    port: u16,
    options: &Options,
) -> Result<Process> {
    let mut arguments = vec![
        format!("--etcd-servers=http://127.0.0.1:{etcd_port}"),
        format!("--secure-port={port}"),
    ];
    let fixed = [
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        "--cert-dir=certificates",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--service-account-key-file=accounts.pub",
        "--service-account-signing-key-file=accounts.key",
        "--token-auth-file=tokens.csv",
        "--authorization-mode=RBAC",
        // Off by default, and on in clusters that are strict about owner references.
        "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
        // A loopback address cannot be an endpoint of the Service `kubernetes`.
        "--endpoint-reconciler-type=none",
        "--allow-privileged=true",
    ];
    arguments.extend(fixed.map(str::to_owned));
    if options.audited.is_some() {
        arguments.extend(audit::flags());
    }
    arguments.extend(options.api_server.iter().cloned());
    let program = parts.program("kubernetes", "kube-apiserver")?;
    Process::start("kube-apiserver", &program, &arguments, folder)
}

fn start_controller_manager(
    parts: &Parts,
    folder: &Path,
    port: u16,
    options: &Options,
) -> Result<Process> {
    let mut arguments =
        vec![format!("--secure-port={port}"), format!("--controllers={CONTROLLERS}")];
    let fixed = [
        "--kubeconfig=controller-manager.kubeconfig",
        "--authentication-kubeconfig=controller-manager.kubeconfig",
        "--authorization-kubeconfig=controller-manager.kubeconfig",
        "--bind-address=127.0.0.1",
        "--cert-dir=manager-certificates",
        "--root-ca-file=certificates/apiserver.crt",
        "--leader-elect=false",
        "--use-service-account-credentials=false",
        "--service-account-private-key-file=accounts.key",
        // The API server is local and idle: no need for a client-side limit.
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
    ];
    arguments.extend(fixed.map(str::to_owned));
    arguments.extend(options.controller_manager.iter().cloned());
    let program = parts.program("kubernetes", "kube-controller-manager")?;
    Process::start("kube-controller-manager", &program, &arguments, folder)
}

/// With `--use-service-account-credentials=false` all controllers share one user, who needs the permissions
/// of each.
fn tokens() -> String {
    [ADMIN, CONTROLLER_MANAGER]
        .map(|user| format!("{},{user},{user},\"system:masters\"\n", token(user)))
        .concat()
}

fn token(user: &str) -> String {
    format!("{user}-token")
}

/// A pair of keys that sign and verify service accounts' tokens, private one first, as PEM.
fn signing_keys() -> Result<[String; 2]> {
    let no_key = |_| anyhow::anyhow!("no key can be made");
    let (kind, random) = (&signature::ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
    let private = signature::EcdsaKeyPair::generate_pkcs8(kind, &random).map_err(no_key)?;
    let pair = signature::EcdsaKeyPair::from_pkcs8(kind, private.as_ref(), &random);
    let pair = pair.map_err(|error| anyhow::anyhow!("the key is not one: {error}"))?;
    let public = [P256_KEY_INFO, pair.public_key().as_ref()].concat();
    Ok([pem("PRIVATE KEY", private.as_ref().to_vec())?, pem("PUBLIC KEY", public)?])
}

fn pem(label: &str, bytes: Vec<u8>) -> Result<String> {
    // Base64 as Kubernetes has it: without line breaks, which PEM readers accept.
    let text = serde_json::to_value(ByteString(bytes))?;
    let text = text.as_str().unwrap_or_default();
    Ok(format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n"))
}

/// Free ports of the loopback device. None is returned twice, and all are below those that the kernel
/// chooses from for others (32768 and up): they stay free for a moment.
pub(crate) fn free_ports<const N: usize>() -> Result<[u16; N]> {
    const FIRST: u32 = 10_000;
    const COUNT: u32 = 20_000;
    static TURN: AtomicU32 = AtomicU32::new(0);
    // Other processes that do the same on this machine begin elsewhere.
    let begin = std::process::id().wrapping_mul(131);
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let next = || begin.wrapping_add(TURN.fetch_add(1, Ordering::Relaxed)) % COUNT + FIRST;
    let tried = (0..COUNT).map(|_| next()).filter_map(|port| u16::try_from(port).ok());
    let ports: Vec<u16> = tried.filter(is_free).take(N).collect();
    ports.try_into().map_err(|_| anyhow::anyhow!("no port of this machine is free"))
}
