//! Performs metric queries: over HTTP, through the API server, or after a wait.
//!
//! The queries themselves are state machines of `providers::metrics`; here are their requests, shared by all
//! metrics of a check with the same query. A check may be given up at any time: objects that a query created
//! in the cluster are then deleted in the background.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use http::Request;
use http_body_util::{BodyExt as _, Limited};
use kube::client::Body;
use parking_lot::Mutex;
use tidegate_providers::metrics::{
    CloudEnvironment, Outcome, QueryError, QueryMachine, Reading, Reply, Step,
    prometheus::{self, Credentials, PROBE},
    query_machine::{BODY_BYTES_MAX, Call, ClusterCall, STEPS_MAX},
};
use tokio::sync::OnceCell;
use tracing::{debug, warn};

use super::{aws_signing, canary_ref::CanaryRef};
use crate::{
    cluster::cache::Key,
    context::Context,
    http::{HttpError, RequestPermit, Transport},
    outgoing::outgoing,
    telemetry,
};

/// Answers of metric servers; one number needs a few hundred bytes.
const QUERY_BYTES_MAX: usize = 1024 * 1024;
/// Objects that a query created are deleted even when its time is up.
const CLEANUP_MAX: Duration = Duration::from_secs(2);

/// The Prometheus of built-in and inline queries.
pub(super) struct Server {
    pub(super) address: String,
    /// From a flag of the administrator.
    pub(super) trusted: bool,
}

/// Deduplicates the queries of one check: metrics with the same query judge the same number.
#[derive(Default)]
pub(super) struct Shared(Mutex<BTreeMap<String, Arc<Pending>>>);

/// An answer, or a query in progress.
type Pending = OnceCell<Result<Reading, QueryFailure>>;

/// Why a query has no value.
#[derive(Clone)]
pub(super) enum QueryFailure {
    Request(String),
    Unreachable(HttpError),
    Answer(QueryError),
    /// The server works and has no number.
    NoData,
}

/// Runs a query to its value.
pub(super) async fn run(
    canary: &CanaryRef,
    machine: &QueryMachine,
) -> Result<Reading, QueryFailure> {
    let start = canary.cx.clock.monotonic();
    let planned_end = start + machine.patience(canary.cx.options.query_timeout);
    let mut end = planned_end;
    let identity = machine.identity();
    let known = identity.map(|of| canary.cx.cloud_tokens.get(&of, canary.cx.clock.now()));
    let mut replies = known.unwrap_or_default();
    let is_known = !replies.is_empty();
    let mut made = Created { cx: &canary.cx, leftover: None };
    let mut trouble = None;
    let outcome = loop {
        let left = end.saturating_sub(canary.cx.clock.monotonic());
        let step = machine.next(&replies);
        // When time is up only cleanup is left.
        let reply = match step {
            Step::Done(outcome) => break outcome,
            Step::Send(_) | Step::Wait(_) if left.is_zero() => Reply::Lost,
            Step::Send(call) => {
                send_with_retries(canary, machine, &call, &mut end).await.unwrap_or_else(|error| {
                    trouble = Some(error);
                    Reply::Lost
                })
            }
            Step::Wait(wait) => {
                canary.cx.clock.sleep(wait.min(left)).await;
                Reply::Waited
            }
            Step::Cluster(call) => {
                // From here on the object may exist.
                made.leftover = machine.leftover();
                ask_cluster(&canary.cx, call, left.max(CLEANUP_MAX)).await
            }
        };
        replies.push(reply);
        if replies.len() > STEPS_MAX {
            warn!(provider = machine.provider(), "A query takes too many steps");
            break Outcome::Failure(QueryError::NotInTime);
        }
    };
    made.leftover = None;
    if let Some(of) = identity {
        let is_refused = matches!(
            outcome,
            Outcome::Failure(QueryError::Refused { status: 400 | 401 | 403, .. })
        );
        if is_known && is_refused {
            // The server may reject the token: the next check obtains a new one.
            canary.cx.cloud_tokens.forget(&of);
        } else if !is_known && let Some((kept, until)) = machine.reusable_replies(&replies) {
            canary.cx.cloud_tokens.keep(of, kept, until, canary.cx.clock.now());
        }
    }
    let waited = end.saturating_sub(planned_end);
    let took = canary.cx.clock.monotonic().saturating_sub(start + waited);
    let label = match outcome {
        Outcome::Value(_) => telemetry::Outcome::Success,
        Outcome::NoData | Outcome::Failure(_) => telemetry::Outcome::Error(outcome.label()),
    };
    canary.cx.telemetry.count_query(machine.provider(), label, took);
    match (outcome, trouble) {
        (Outcome::Value(reading), _) => Ok(reading),
        (Outcome::NoData, _) => Err(QueryFailure::NoData),
        (Outcome::Failure(_), Some(error)) => Err(QueryFailure::Unreachable(error)),
        (Outcome::Failure(error), None) => Err(QueryFailure::Answer(error)),
    }
}

/// Sends a call, and retries where the provider may only be busy. The wait for a permit extends the deadline: a
/// check must not fail because many are made at once.
async fn send_with_retries(
    canary: &CanaryRef,
    machine: &QueryMachine,
    call: &Call,
    end: &mut Duration,
) -> Result<Reply, HttpError> {
    let mut tries = 0;
    loop {
        let asked = canary.cx.clock.monotonic();
        let permit = canary.cx.http.permit(&canary.key.namespace).await;
        *end += canary.cx.clock.monotonic().saturating_sub(asked);
        let left = end.saturating_sub(canary.cx.clock.monotonic());
        let reply = send(canary, call.clone(), left, permit).await?;
        let wait = machine.again(&reply, tries);
        let left = end.saturating_sub(canary.cx.clock.monotonic());
        let Some(wait) = wait.filter(|wait| *wait < left) else { return Ok(reply) };
        debug!(provider = machine.provider(), tries, "Turned away for the moment");
        canary.cx.clock.sleep(wait).await;
        tries += 1;
    }
}

async fn send(
    canary: &CanaryRef,
    mut call: Call,
    left: Duration,
    permit: Option<RequestPermit>,
) -> Result<Reply, HttpError> {
    if let Some(signing) = call.signing.take()
        && aws_signing::sign(&mut call.request, &signing, canary.cx.clock.now()).is_none()
    {
        warn!("A request could not be signed");
        return Ok(Reply::Lost);
    }
    let mut sent = outgoing(call.request, &canary.key).map_err(HttpError::Url)?;
    sent.timeout = left;
    sent.patience = Some(left);
    sent.permit = permit;
    sent.max_bytes = BODY_BYTES_MAX;
    sent.verify_tls = call.verify_tls;
    sent.trusted = call.trusted;
    sent.authorities = call.ca_pem;
    sent.certificate = call.certificate;
    sent.direct = call.direct;
    let answer = canary.cx.http.send(sent).await?;
    let (status, truncated) = (answer.status.as_u16(), answer.truncated);
    Ok(Reply::Answered { status, body: answer.body.to_vec(), truncated })
}

pub(super) async fn query(
    canary: &CanaryRef,
    server: &Server,
    query: &str,
) -> Result<Reading, QueryFailure> {
    let request = prometheus::request(&server.address, query, &BTreeMap::new(), &Credentials::None)
        .map_err(|error| QueryFailure::Request(error.to_string()))?;
    let mut outgoing =
        outgoing(request, &canary.key).map_err(|error| QueryFailure::Request(error.to_string()))?;
    outgoing.timeout = canary.cx.options.query_timeout;
    outgoing.max_bytes = QUERY_BYTES_MAX;
    outgoing.trusted = server.trusted;
    debug!(canary = %canary.key, query, "Query");
    outgoing.permit = canary.cx.http.permit(&canary.key.namespace).await;
    let start = canary.cx.clock.monotonic();
    let answer = canary.cx.http.send(outgoing).await;
    let took = canary.cx.clock.monotonic().saturating_sub(start);
    let reading = match answer {
        Ok(answer) if answer.truncated => Err(QueryFailure::Answer(QueryError::Malformed)),
        Ok(answer) => {
            prometheus::parse(answer.status.as_u16(), &answer.body).map_err(QueryFailure::Answer)
        }
        Err(error) => Err(QueryFailure::Unreachable(error)),
    };
    let outcome = match &reading {
        Ok(_) => telemetry::Outcome::Success,
        Err(error) => telemetry::Outcome::Error(error.label()),
    };
    canary.cx.telemetry.count_query("prometheus", outcome, took);
    reading
}

/// Whether the Prometheus of a flag answers.
pub async fn probe_server(
    http: &dyn Transport,
    address: &str,
    timeout: Duration,
) -> Result<(), String> {
    let request = prometheus::request(address, PROBE, &BTreeMap::new(), &Credentials::None)
        .map_err(|error| error.to_string())?;
    let mut sent = outgoing(request, &Key::new("", "")).map_err(|error| error.to_string())?;
    sent.timeout = timeout;
    sent.max_bytes = QUERY_BYTES_MAX;
    sent.trusted = true;
    let answer = http.send(sent).await.map_err(|error| error.to_string())?;
    let read = prometheus::parse(answer.status.as_u16(), &answer.body);
    match read {
        _ if prometheus::is_online(&read) => Ok(()),
        Ok(_) => Err("it gives an answer that cannot be read".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

// === impl Shared ===

impl Shared {
    /// The answer to a query: the first caller sends it, the others wait for the same answer.
    pub(super) async fn once(
        &self,
        question: String,
        ask: impl Future<Output = Result<Reading, QueryFailure>>,
    ) -> Result<Reading, QueryFailure> {
        let cell = {
            let mut cells = self.0.lock();
            Arc::clone(cells.entry(question).or_default())
        };
        cell.get_or_init(|| ask).await.clone()
    }
}

// === impl QueryFailure ===

impl QueryFailure {
    pub(super) fn text(&self) -> String {
        match self {
            Self::Request(why) => why.clone(),
            Self::Unreachable(error) => error.to_string(),
            Self::Answer(error) => error.to_string(),
            Self::NoData => QueryError::NoValue.to_string(),
        }
    }

    fn label(&self) -> &'static str {
        match self {
            Self::Request(_) => "request",
            Self::Unreachable(error) => error.label(),
            Self::Answer(error) => error.label(),
            Self::NoData => QueryError::NoValue.label(),
        }
    }
}

/// As the operator itself, whose role decides; or with the credentials of the call.
async fn ask_cluster(cx: &Context, call: ClusterCall, left: Duration) -> Reply {
    let cluster = &cx.cluster;
    // Our own client puts our own credentials on every request.
    let client = match &call.authorization {
        None => &cluster.client,
        Some(_) => match &cluster.anonymous {
            Some(client) => client,
            None => return Reply::Lost,
        },
    };
    let asked = async {
        let mut request = Request::builder()
            .method(call.method)
            .uri(call.path)
            .header(http::header::CONTENT_TYPE, "application/json");
        if let Some(value) = call.authorization {
            request = request.header(http::header::AUTHORIZATION, value);
        }
        let request = request.body(Body::from(call.body)).ok()?;
        let response = client.send(request).await.ok()?;
        let status = response.status().as_u16();
        let body = Limited::new(response.into_body(), BODY_BYTES_MAX).collect().await.ok()?;
        let body = body.to_bytes().to_vec();
        Some(Reply::Answered { status, body, truncated: false })
    };
    tokio::time::timeout(left, asked).await.ok().flatten().unwrap_or(Reply::Lost)
}

/// An object that a query created, until it is deleted.
struct Created<'a> {
    cx: &'a Arc<Context>,
    /// The call that deletes it.
    leftover: Option<ClusterCall>,
}

impl Drop for Created<'_> {
    fn drop(&mut self) {
        if let Some(call) = self.leftover.take() {
            let cx = Arc::clone(self.cx);
            self.cx.spawn_cleanup(async move {
                let outcome = ask_cluster(&cx, call, CLEANUP_MAX).await;
                debug!(gone = outcome != Reply::Lost, "Removed the object of a check");
            });
        }
    }
}

/// Credentials in the operator's environment. Read for each check: tokens in files are replaced meanwhile.
pub(super) fn cloud_environment() -> CloudEnvironment {
    CloudEnvironment::from_environment(
        |name| std::env::var(name).ok(),
        |path| std::fs::read_to_string(path).ok(),
    )
}

#[cfg(test)]
mod tests;
