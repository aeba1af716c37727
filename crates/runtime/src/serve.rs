//! Serves a router over HTTP/1.1 to callers that are not trusted, until it is stopped.
//!
//! A port that is open to a cluster must answer its probes whatever else connects:
//!
//! - A connection is always accepted. When all places are taken, the oldest connection without a complete request
//!   gives way (see [`connections`]).
//! - A head must arrive within 5 s, an answer must be read within a minute.
//! - Requests other than probes get three quarters of the places; more are answered 503.
//!
//! On stop no connection is accepted any more, and requests in progress are finished, for [`Bounds::grace`] at
//! most. A caller who disconnects cancels its request.

mod connections;

use std::{
    convert::Infallible,
    future::Future,
    io,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes},
    http::{Request, Response, StatusCode, header},
    response::IntoResponse,
};
use hyper::{
    body::{Body as _, Frame, Incoming, SizeHint},
    service::{Service as _, service_fn},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
    time::{MissedTickBehavior, interval, timeout},
};
use tracing::warn;

use self::connections::{Connection, Connections, Refused};

/// The bounds of a server.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Connections at a time.
    pub connections_max: usize,
    /// For requests in progress on stop.
    pub grace: Duration,
}

/// Paths of probes: their handlers answer at once, and they are never refused.
const PROBES: [&str; 2] = ["/healthz", "/readyz"];
/// For the head of a request, and so for the silence of a kept connection. As Flagger.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// For an answer to be read. As Flagger.
const ANSWER_TIMEOUT: Duration = Duration::from_mins(1);
/// All headers of a request, and an answer on its way, per connection. Proxies send up to 16 KiB.
const BUFFER_BYTES_MAX: usize = 32 * 1024;
/// Between two looks for answers that are not read.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// After an accept that failed, most likely because no file handle is free.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The body of a request; its end is reported to the table of connections.
struct RequestBody {
    body: Incoming,
    connection: Arc<Connection>,
}

/// Serves `router` until `stop` resolves, then finishes what was begun.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    stop: impl Future<Output = ()>,
    bounds: Bounds,
) {
    let mut stop = pin!(stop);
    let connections = Connections::new(bounds.connections_max);
    let (stopping, stopped) = watch::channel(false);
    let mut tasks = JoinSet::new();
    let mut look = interval(LOOK_INTERVAL);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let accept = async {
            connections.room().await;
            listener.accept().await
        };
        tokio::select! {
            biased;
            () = &mut stop => break,
            Some(_ended) = tasks.join_next() => {}
            _ = look.tick() => connections.close_older_than(ANSWER_TIMEOUT),
            accepted = accept => match accepted {
                Ok((stream, peer)) => {
                    let connection = connections.add(peer.ip());
                    tasks.spawn(converse(stream, router.clone(), stopped.clone(), connection));
                }
                Err(error) => recover(&connections, &error).await,
            },
        }
    }
    drop(listener);
    stopping.send_replace(true);
    let all_ended = async { while tasks.join_next().await.is_some() {} };
    if timeout(bounds.grace, all_ended).await.is_err() {
        tasks.shutdown().await;
    }
}

/// Frees a file handle: where the process has fewer than places, connections without a request would keep them all.
async fn recover(connections: &Connections, error: &io::Error) {
    warn!(%error, "A connection could not be accepted");
    connections.close_oldest();
    tokio::time::sleep(ACCEPT_PAUSE).await;
}

/// One connection, until it ends, gives way or the server stops.
async fn converse(
    stream: TcpStream,
    router: Router,
    mut stopped: watch::Receiver<bool>,
    connection: Connection,
) {
    // Answers are small; they are given without this, too.
    let _best_effort = stream.set_nodelay(true);
    let connection = Arc::new(connection);
    let router = TowerToHyperService::new(router);
    let service = service_fn(|request| answer(Arc::clone(&connection), router.clone(), request));
    let conversation = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(BUFFER_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    let mut conversation = pin!(conversation);
    tokio::select! {
        biased;
        _ = stopped.wait_for(|stopped| *stopped) => {}
        // Before the next: a request that has arrived counts. A caller that breaks off needs no answer.
        _ended = conversation.as_mut() => return,
        () = connection.asked_to_close() => return,
    }
    conversation.as_mut().graceful_shutdown();
    let _ended = conversation.await;
}

async fn answer(
    connection: Arc<Connection>,
    router: TowerToHyperService<Router>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    if PROBES.contains(&request.uri().path()) {
        connection.probed();
    } else if let Err(Refused) = connection.asked(!request.body().is_end_stream()) {
        let headers = [(header::CONNECTION, "close"), (header::RETRY_AFTER, "10")];
        let text = "too many requests in progress";
        return Ok((StatusCode::SERVICE_UNAVAILABLE, headers, text).into_response());
    }
    let reported = Arc::clone(&connection);
    let request = request.map(|body| RequestBody { body, connection: reported });
    let response = router.call(request).await;
    connection.answered();
    response
}

// === impl RequestBody ===

impl hyper::body::Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.body).poll_frame(cx);
        if matches!(polled, Poll::Ready(None)) {
            this.connection.read_whole();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests;
