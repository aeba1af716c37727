//! Drives an inquiry of a metric provider: over HTTP, to the API server, or through a wait.
//!
//! A check may be given up anywhere: when the operator stops, or its canary goes. What an inquiry has made in
//! the cluster is then removed beside it.

use std::{collections::BTreeMap, ops::Deref, sync::Arc, time::Duration};

use http::Request;
use http_body_util::{BodyExt as _, Limited};
use kube::client::Body;
use tidegate_providers::metrics::{
    Ambient, Inquiry, Outcome, QueryError, Reading, Reply, Step,
    inquiry::{BODY_BYTES_MAX, Call, ClusterCall, STEPS_MAX},
};
use tracing::{debug, warn};

use super::{Context, amazon, ask::outgoing, measure::QueryFailure, task::Task};
use crate::{http::HttpError, telemetry};

impl Task {
    /// The value an inquiry comes to.
    pub(super) async fn inquire(&self, inquiry: &Inquiry) -> Result<Reading, QueryFailure> {
        let start = self.cx.clock.monotonic();
        let end = start + inquiry.patience(self.cx.options.query_timeout);
        let identity = inquiry.identity();
        let known = identity.map(|of| self.cx.identities.get(&of, self.cx.clock.now()));
        let mut replies = known.unwrap_or_default();
        let is_known = !replies.is_empty();
        let mut made = Made { cx: &self.cx, leftover: None };
        let mut trouble = None;
        let outcome = loop {
            let left = end.saturating_sub(self.cx.clock.monotonic());
            let step = inquiry.next(&replies);
            // What is left when time is up is to tidy up.
            let reply = match step {
                Step::Done(outcome) => break outcome,
                Step::Send(_) | Step::Wait(_) if left.is_zero() => Reply::Lost,
                Step::Send(call) => {
                    self.send_patiently(inquiry, &call, end).await.unwrap_or_else(|error| {
                        trouble = Some(error);
                        Reply::Lost
                    })
                }
                Step::Wait(wait) => {
                    self.cx.clock.sleep(wait.min(left)).await;
                    Reply::Waited
                }
                Step::Cluster(call) => {
                    // From here on it may be there.
                    made.leftover = inquiry.leftover();
                    ask_cluster(&self.cx, call, left.max(TIDY_UP)).await
                }
            };
            replies.push(reply);
            if replies.len() > STEPS_MAX {
                warn!(provider = inquiry.provider(), "An inquiry takes too many steps");
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
                // Perhaps it is not liked any more: the next check finds out anew.
                self.cx.identities.forget(&of);
            } else if !is_known && let Some((lent, until)) = inquiry.lent(&replies) {
                self.cx.identities.keep(of, lent, until, self.cx.clock.now());
            }
        }
        let took = self.cx.clock.monotonic().saturating_sub(start);
        let label = match outcome {
            Outcome::Value(_) => telemetry::Outcome::Success,
            Outcome::NoData | Outcome::Failure(_) => telemetry::Outcome::Error(outcome.label()),
        };
        self.cx.telemetry.count_query(inquiry.provider(), label, took);
        match (outcome, trouble) {
            (Outcome::Value(reading), _) => Ok(reading),
            (Outcome::NoData, _) => Err(QueryFailure::NoData),
            (Outcome::Failure(_), Some(error)) => Err(QueryFailure::Unreachable(error)),
            (Outcome::Failure(error), None) => Err(QueryFailure::Answer(error)),
        }
    }

    /// Sends a call, and again where the provider may only be busy.
    async fn send_patiently(
        &self,
        inquiry: &Inquiry,
        call: &Call,
        end: Duration,
    ) -> Result<Reply, QueryFailureCause> {
        let mut tries = 0;
        loop {
            let left = end.saturating_sub(self.cx.clock.monotonic());
            let reply = self.send(call.clone(), left).await?;
            let wait = inquiry.again(&reply, tries);
            let left = end.saturating_sub(self.cx.clock.monotonic());
            let Some(wait) = wait.filter(|wait| *wait < left) else { return Ok(reply) };
            debug!(provider = inquiry.provider(), tries, "Turned away for the moment");
            self.cx.clock.sleep(wait).await;
            tries += 1;
        }
    }

    async fn send(&self, mut call: Call, left: Duration) -> Result<Reply, QueryFailureCause> {
        if let Some(signing) = call.signing.take()
            && amazon::sign(&mut call.request, &signing, self.cx.clock.now()).is_none()
        {
            warn!("A request could not be signed");
            return Ok(Reply::Lost);
        }
        let mut sent = outgoing(call.request, &self.key).map_err(HttpError::Url)?;
        sent.timeout = left;
        sent.patience = Some(left);
        sent.max_bytes = BODY_BYTES_MAX;
        sent.verify_tls = call.verify_tls;
        sent.trusted = call.trusted;
        sent.authorities = call.ca_pem;
        sent.certificate = call.certificate;
        sent.direct = call.direct;
        let answer = self.cx.http.send(sent).await?;
        let (status, truncated) = (answer.status.as_u16(), answer.truncated);
        Ok(Reply::Answered { status, body: answer.body.to_vec(), truncated })
    }
}

/// As the operator itself, whose role decides; or as whoever the call says.
async fn ask_cluster(cx: &Context, call: ClusterCall, left: Duration) -> Reply {
    let cluster = &cx.cluster;
    // Our own client puts our own login on every request, whatever login it has.
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

/// What an inquiry has made, until it is gone.
struct Made<'a> {
    cx: &'a Arc<Context>,
    /// What removes it.
    leftover: Option<ClusterCall>,
}

impl Drop for Made<'_> {
    fn drop(&mut self) {
        if let Some(call) = self.leftover.take() {
            let cx = Arc::clone(self.cx);
            self.cx.spawn_tidying(async move {
                let outcome = ask_cluster(&cx, call, TIDY_UP).await;
                debug!(gone = outcome != Reply::Lost, "Removed what a check had made");
            });
        }
    }
}

/// What ends a call before there is an answer.
pub(super) type QueryFailureCause = HttpError;

/// An object of ours that nobody needs any more is removed even when time is up.
const TIDY_UP: Duration = Duration::from_secs(2);

/// What the operator's surroundings lend it, read anew: tokens in files are replaced while it runs.
pub(super) fn ambient() -> Ambient {
    Ambient::from_environment(
        |name| std::env::var(name).ok(),
        |path| std::fs::read_to_string(path).ok(),
    )
}

/// What a Secret holds. Prints as nothing, and leaves nothing in memory.
pub(super) struct SecretData(pub(super) BTreeMap<String, Vec<u8>>);

// === impl SecretData ===

impl Deref for SecretData {
    type Target = BTreeMap<String, Vec<u8>>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Drop for SecretData {
    fn drop(&mut self) {
        self.0.values_mut().for_each(zeroize::Zeroize::zeroize);
    }
}
