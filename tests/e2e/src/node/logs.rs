//! Logs of containers, served as a kubelet does: the API server asks the pod's node for them.
//!
//! ```text
//! kubectl logs ──► API server ──TLS──► node address:10250/containerLogs/NAMESPACE/POD/CONTAINER
//! ```

use std::{process::Command, sync::Arc};

use anyhow::{Context as _, Result, ensure};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{Api, Client, api::ListParams};
use kube_sandbox::kubelet::log_entries;
use rustls::{ServerConfig, crypto::ring};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_rustls::TlsAcceptor;

use crate::ControlPlane;

/// The port of kubelets.
const PORT: u16 = 10_250;
/// The head of a request of the API server's is a few hundred bytes.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// Serves the logs of all pods, on the addresses of all nodes. Ends when dropped.
#[derive(Debug)]
pub struct Logs(JoinHandle<()>);

// === impl Logs ===

impl Logs {
    /// Needs a network of its own, in which nodes may have any address ([`crate::inside`]).
    pub async fn start(plane: &ControlPlane) -> Result<Self> {
        let client = plane.client();
        for node in Api::<Node>::all(client.clone()).list(&ListParams::default()).await? {
            let status = node.status.unwrap_or_default();
            let addresses = status.addresses.unwrap_or_default();
            for address in addresses.iter().filter(|it| it.type_ == "InternalIP") {
                let range = format!("{}/32", address.address);
                let added =
                    Command::new("ip").args(["addr", "add", &range, "dev", "lo"]).status()?;
                ensure!(added.success(), "the node cannot have the address {range}");
            }
        }
        let acceptor = acceptor(plane)?;
        let listener =
            TcpListener::bind(("0.0.0.0", PORT)).await.context("the port of kubelets")?;
        Ok(Self(tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, client) = (acceptor.clone(), client.clone());
                // A client that disconnects early needs no more.
                tokio::spawn(async move { drop(answer(acceptor, stream, client).await) });
            }
        })))
    }
}

impl Drop for Logs {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The API server does not verify a node's certificate here; its own is at hand.
fn acceptor(plane: &ControlPlane) -> Result<TlsAcceptor> {
    let certificate = plane.certificate();
    let chain = CertificateDer::pem_file_iter(certificate)?.collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_file(certificate.with_extension("key"))?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

async fn answer(acceptor: TlsAcceptor, stream: TcpStream, client: Client) -> Result<()> {
    let mut stream = acceptor.accept(stream).await?;
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") && head.len() < HEAD_BYTES_MAX {
        ensure!(stream.read_buf(&mut head).await? > 0, "half a request");
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let target = head.split(' ').nth(1).unwrap_or_default();
    let (status, body) = match written(target, client).await {
        Ok(text) => ("200 OK", text),
        Err(error) => ("404 Not Found", format!("{error:#}\n")),
    };
    let kind = "Content-Type: text/plain\r\nConnection: close";
    let length = body.len();
    let answer = format!("HTTP/1.1 {status}\r\n{kind}\r\nContent-Length: {length}\r\n\r\n{body}");
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    Ok(())
}

async fn written(target: &str, client: Client) -> Result<String> {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut parts = path.strip_prefix("/containerLogs/").unwrap_or_default().split('/');
    let mut part = || parts.next().filter(|it| !it.is_empty()).context("no container is named");
    let (namespace, name, container) = (part()?, part()?, part()?);
    let pod = Api::<Pod>::namespaced(client, namespace).get(name).await?;
    let mut lines = log_entries(&serde_json::to_value(pod)?, container, false, Timestamp::now());
    let tail = query.split('&').find_map(|it| it.strip_prefix("tailLines="));
    if let Some(tail) = tail.and_then(|it| it.parse::<usize>().ok()) {
        lines.drain(..lines.len().saturating_sub(tail));
    }
    Ok(lines.into_iter().map(|(_, line)| line + "\n").collect())
}
