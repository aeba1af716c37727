//! The scripted network of a script, on real sockets.

use std::{fmt, net::SocketAddr};

use anyhow::Result;
use bytes::Bytes;
use http::{Request, Response, header::HOST};
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use tidegate_tests::network::{Network, PROMETHEUS, Reply};
use tokio::{net::TcpListener, task::JoinHandle};

/// The hosts of scripts, and their loopback addresses.
const HOSTS: [(&str, &str); 3] =
    [("hooks", "127.0.0.2"), (PROMETHEUS, "127.0.0.3"), ("chat", "127.0.0.4")];

/// A refused connection. A server that has to record a call cannot refuse it, so it closes the connection.
#[derive(Debug)]
struct HangUp;

/// Answers for all hosts of a script on one port. Dropping it ends it.
pub(crate) struct Server {
    port: u16,
    task: JoinHandle<()>,
}

// === impl Server ===

impl Server {
    pub(crate) async fn start(network: Network) -> Result<Self> {
        let listener = TcpListener::bind(SocketAddr::from(([0, 0, 0, 0], 0))).await?;
        let port = listener.local_addr()?.port();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let network = network.clone();
                tokio::spawn(async move {
                    let service = service_fn(|request| answer(network.clone(), request));
                    let connection = hyper::server::conn::http1::Builder::new();
                    // A client that closed the connection needs no answer.
                    let _ended = connection.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Ok(Self { port, task })
    }

    /// The URL of the metrics server.
    pub(crate) fn metrics(&self) -> String {
        self.outward("http://prometheus:9090")
    }

    /// Replaces addresses of scripts by the ones here.
    pub(crate) fn outward(&self, text: &str) -> String {
        let text = text.replace("http://prometheus:9090", "http://prometheus");
        HOSTS.iter().fold(text, |text, (host, address)| {
            text.replace(&format!("http://{host}"), &format!("http://{address}:{}", self.port))
        })
    }

    /// Replaces the addresses here by those of scripts.
    pub(crate) fn inward(&self, text: &str) -> String {
        HOSTS.iter().fold(text.to_owned(), |text, (host, address)| {
            let port = if *host == PROMETHEUS { ":9090" } else { "" };
            text.replace(&format!("{address}:{}", self.port), &format!("{host}{port}"))
                .replace(address, host)
                // See `HangUp`.
                .replace(
                    &format!("`{host}{port}` closed the connection"),
                    &format!("cannot connect to `{host}`"),
                )
        })
    }
}

// === impl HangUp ===

impl fmt::Display for HangUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the script says that nobody is there")
    }
}

impl std::error::Error for HangUp {}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn answer(
    network: Network,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, HangUp> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let address = head.headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let address = address.split(':').next().unwrap_or_default();
    let host = HOSTS.iter().find(|(_, known)| *known == address).map_or("", |(host, _)| host);
    let reply = network.reply(host, &head.uri, head.headers, &body);
    let (status, text) = match reply {
        Some(Reply::Status(status, text)) => (status, text),
        // Until the caller's timeout.
        Some(Reply::Hang) => std::future::pending().await,
        Some(Reply::Refuse) => return Err(HangUp),
        other => (500, format!("a script on a real cluster cannot answer {other:?}")),
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = http::StatusCode::from_u16(status).unwrap_or_default();
    Ok(response)
}
