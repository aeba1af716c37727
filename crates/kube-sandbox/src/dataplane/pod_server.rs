//! Serves one pod's application on a socket.

use std::{net::SocketAddr, sync::Arc, time::Instant};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header::CONTENT_TYPE};

use super::{
    Meter, Pod,
    app::Outcome,
    serve::{Handler, HttpServer},
};
use crate::random::Random;

/// The running application of one pod. Dropping it stops it.
#[derive(Debug)]
pub struct PodServer {
    pub(super) pod: Arc<Pod>,
    server: HttpServer,
}

#[derive(Clone)]
struct PodHandler {
    pod: Arc<Pod>,
    meter: Arc<Meter>,
    random: Arc<Random>,
}

// === impl PodServer ===

impl PodServer {
    /// Binds to `address` (port 0 for any) and starts to answer.
    pub async fn start(
        address: SocketAddr,
        pod: Arc<Pod>,
        meter: Arc<Meter>,
        random: Random,
    ) -> std::io::Result<Self> {
        let handler = PodHandler { pod: Arc::clone(&pod), meter, random: Arc::new(random) };
        Ok(Self { pod, server: HttpServer::start(address, handler).await? })
    }

    /// The address of the socket.
    pub fn address(&self) -> SocketAddr {
        self.server.address
    }
}

// === impl PodHandler ===

impl Handler for PodHandler {
    async fn handle(self, request: Request<Bytes>) -> Response<Bytes> {
        // In its own task: an application completes and counts a request even if the client does
        // not wait for it.
        let answer = tokio::spawn(self.answer(request));
        answer.await.unwrap_or_else(|_| {
            let mut response = Response::new(Bytes::new());
            *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
            response
        })
    }
}

impl PodHandler {
    async fn answer(self, request: Request<Bytes>) -> Response<Bytes> {
        let started = Instant::now();
        let path = request.uri().path();
        let Outcome { status, latency } = self.pod.app.answer(path, self.random.next_u64());
        tokio::time::sleep(latency).await;
        self.meter.served(&self.pod, Outcome { status, latency: started.elapsed() });
        let body = self.pod.app.body(&self.pod.name.name, path, status);
        let mut response = Response::new(Bytes::from(format!("{body}\n")));
        *response.status_mut() = StatusCode::from_u16(status).unwrap_or_default();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }
}
