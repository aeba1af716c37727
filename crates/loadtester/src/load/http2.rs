//! HTTP/2 on one connection, one request at a time: the number of connections sets the load, as with
//! HTTP/1.1.

use bytes::Bytes;
use http::{Request, Uri};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};

use super::{
    http1::{Answer, ExchangeError},
    plan::Plan,
    stats::Failure,
};

pub(super) struct Http2 {
    sender: SendRequest<Full<Bytes>>,
}

/// The request to make copies of.
pub(super) struct Template {
    request: Request<Full<Bytes>>,
}

/// Bytes that a server may have in flight to us, and make us keep, for each connection. 64 KiB in a
/// millisecond, as long as a round trip in a cluster takes, are 64 MB a second on each.
const WINDOW_BYTES: u32 = 64 * 1024;

// === impl Template ===

impl Template {
    pub(super) fn of(plan: &Plan) -> Self {
        let scheme = if plan.target.tls { "https" } else { "http" };
        let uri = Uri::builder()
            .scheme(scheme)
            .authority(plan.target.authority.as_str())
            .path_and_query(plan.target.path.as_str())
            .build()
            .unwrap_or_default();
        let mut request = Request::new(Full::new(plan.body.clone()));
        *request.method_mut() = plan.method.clone();
        *request.uri_mut() = uri;
        *request.headers_mut() = plan.headers.clone();
        Self { request }
    }
}

// === impl Http2 ===

impl Http2 {
    pub(super) async fn begin<S>(stream: S) -> Result<Box<Self>, Failure>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let mut builder = Builder::new(TokioExecutor::new());
        builder.initial_stream_window_size(WINDOW_BYTES);
        builder.initial_connection_window_size(WINDOW_BYTES);
        let (sender, connection) =
            builder.handshake(TokioIo::new(stream)).await.map_err(|_| Failure::Protocol)?;
        // Ends with the sender; why it ended is seen in the request it cut short.
        tokio::spawn(connection);
        Ok(Box::new(Self { sender }))
    }

    pub(super) async fn exchange(&mut self, template: &Template) -> Result<Answer, ExchangeError> {
        if self.sender.ready().await.is_err() {
            return Err(ExchangeError::Unsent);
        }
        let answer = self.sender.send_request(template.request.clone()).await;
        let answer = answer.map_err(|error| {
            // The connection ended, or got a GOAWAY, before the request left the queue.
            if error.is_canceled() {
                ExchangeError::Unsent
            } else {
                ExchangeError::Failed(of(&error))
            }
        })?;
        let status = answer.status().as_u16();
        if status >= 600 {
            return Err(ExchangeError::Failed(Failure::Protocol));
        }
        let mut body = answer.into_body();
        let mut bytes = 0;
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| ExchangeError::Failed(of(&error)))?;
            bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
        }
        Ok(Answer { status, bytes, reusable: true, http2: true })
    }
}

fn of(error: &hyper::Error) -> Failure {
    if error.is_parse() || error.is_user() { Failure::Protocol } else { Failure::Broken }
}
