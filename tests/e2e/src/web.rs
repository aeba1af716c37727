//! A small HTTP client for requests to gateways, pods and Prometheus.

use std::time::Duration;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use http::{Method, Request, header::HOST};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use serde_json::Value;

/// The largest answer.
const BODY_BYTES_MAX: usize = 16 * 1024 * 1024;
const PATIENCE: Duration = Duration::from_secs(30);

/// An HTTP client; clones share connections.
#[derive(Debug, Clone)]
pub struct Web(Client<HttpConnector, Full<Bytes>>);

/// An answer.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub body: Bytes,
}

// === impl Web ===

impl Default for Web {
    fn default() -> Self {
        Self(Client::builder(TokioExecutor::new()).build_http())
    }
}

impl Web {
    pub async fn get(&self, url: &str) -> Result<Answer> {
        self.get_with(url, &[]).await
    }

    /// As a client of `host` that reached the server at `url`.
    pub async fn get_as(&self, url: &str, host: &str) -> Result<Answer> {
        self.get_with(url, &[(HOST.as_str(), host)]).await
    }

    pub async fn get_with(&self, url: &str, headers: &[(&str, &str)]) -> Result<Answer> {
        self.send(Method::GET, url, headers, Bytes::new()).await
    }

    pub async fn post(
        &self,
        url: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Result<Answer> {
        self.send(Method::POST, url, headers, body.into()).await
    }

    async fn send(
        &self,
        method: Method,
        url: &str,
        headers: &[(&str, &str)],
        body: Bytes,
    ) -> Result<Answer> {
        let mut request = Request::builder().method(method).uri(url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body))?;
        let exchange = async {
            let response = self.0.request(request).await?;
            let status = response.status().as_u16();
            let body = Limited::new(response.into_body(), BODY_BYTES_MAX).collect().await;
            let body = body.map_err(|error| anyhow::anyhow!(error))?.to_bytes();
            anyhow::Ok(Answer { status, body })
        };
        let answer = tokio::time::timeout(PATIENCE, exchange).await;
        answer.with_context(|| format!("{url} took too long"))?.with_context(|| url.to_owned())
    }
}

// === impl Answer ===

impl Answer {
    pub fn json(&self) -> Result<Value> {
        serde_json::from_slice(&self.body)
            .with_context(|| format!("not JSON: {}", String::from_utf8_lossy(&self.body)))
    }
}
