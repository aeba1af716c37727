//! A Prometheus on a socket: the HTTP API of a [`promql::Database`] as of the cluster's time.

use std::{
    convert::Infallible,
    future::Future,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body::Body;
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto::Builder,
    service::TowerToHyperService,
};
use promql::{Answer, Database, respond};
use tokio::net::TcpStream;
use tower::Service;

use super::{BoxError, listen::Listener};
use crate::clock::Clock;

/// Answers queries at the time of its clock. Cheap to clone.
#[derive(Debug, Clone)]
pub struct QueryService {
    database: Database,
    clock: Clock,
}

/// The longest allowed query takes 48 KiB as a percent-encoded form.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// Binds to `address` (port 0 for any) and starts to serve.
pub async fn start(
    address: SocketAddr,
    database: Database,
    clock: Clock,
) -> std::io::Result<Listener> {
    let service = QueryService::new(database, clock);
    Listener::serve(address, move |stream| connection(stream, service.clone())).await
}

async fn connection(stream: TcpStream, service: QueryService) {
    let builder = Builder::new(TokioExecutor::new());
    let service = TowerToHyperService::new(service);
    // Errors here come from clients that disconnected.
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
}

// === impl QueryService ===

impl QueryService {
    /// Queries of `database`, as of the time of `clock`.
    pub fn new(database: Database, clock: Clock) -> Self {
        Self { database, clock }
    }

    async fn answer<B>(self, request: Request<B>) -> Response<Full<Bytes>>
    where
        B: Body,
        B::Error: Into<BoxError>,
    {
        let (parts, body) = request.into_parts();
        let Ok(body) = Limited::new(body, BODY_BYTES_MAX).collect().await else {
            return status(StatusCode::PAYLOAD_TOO_LARGE);
        };
        let body = body.to_bytes();
        // A query may take a second of work, which would block a connection thread.
        let answer = tokio::task::spawn_blocking(move || {
            let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
            respond(&self.database, self.clock.now(), &parts.method, path, &body)
        });
        let Ok(Answer { status: code, content_type, body }) = answer.await else {
            return status(StatusCode::INTERNAL_SERVER_ERROR);
        };
        let response = Response::builder().status(code).header(header::CONTENT_TYPE, content_type);
        response
            .body(Full::from(body))
            .unwrap_or_else(|_| status(StatusCode::INTERNAL_SERVER_ERROR))
    }
}

impl<B> Service<Request<B>> for QueryService
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move { Ok(service.answer(request).await) })
    }
}

fn status(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn it_answers_on_a_socket_as_of_its_clock() {
        let clock = Clock::virtual_from(Timestamp::from_second(90).unwrap());
        let any = "127.0.0.1:0".parse().unwrap();
        let listener = start(any, Database::new(), clock).await.unwrap();
        let mut stream = TcpStream::connect(listener.address).await.unwrap();
        let request = "POST /api/v1/query HTTP/1.1\r\nhost: prometheus\r\nconnection: close\r\n\
                       content-length: 12\r\n\r\nquery=time()";
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.contains("content-type: application/json\r\n"), "{answer}");
        let body = r#"{"status":"success","data":{"resultType":"scalar","result":[90,"90"]}}"#;
        assert!(answer.ends_with(body), "{answer}");
        listener.stop().await;
    }
}
