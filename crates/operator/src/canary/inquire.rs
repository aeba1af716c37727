//! Drives an inquiry of a metric provider: over HTTP, to the API server, or through a wait.

use std::{collections::BTreeMap, time::Duration};

use http::Request;
use http_body_util::{BodyExt as _, Limited};
use kube::client::Body;
use tidegate_providers::metrics::{
    Ambient, Inquiry, Outcome, Reply, Sample, Step,
    inquiry::{BODY_BYTES_MAX, Call, ClusterCall, STEPS_MAX},
};
use tracing::{debug, warn};

use super::{ask::outgoing, measure::QueryFailure, task::Task};
use crate::{http::HttpError, telemetry};

impl Task {
    /// The value an inquiry comes to.
    pub(super) async fn inquire(&self, inquiry: &Inquiry) -> Result<Sample, QueryFailure> {
        let start = self.cx.clock.monotonic();
        let end = start + inquiry.patience();
        let mut replies = Vec::new();
        let mut trouble = None;
        let outcome = loop {
            let left = end.saturating_sub(self.cx.clock.monotonic());
            let step = inquiry.next(&replies);
            // What is left when time is up is to tidy up.
            let reply = match step {
                Step::Done(outcome) => break outcome,
                Step::Send(_) | Step::Wait(_) if left.is_zero() => Reply::Lost,
                Step::Send(call) => self.send(*call, left).await.unwrap_or_else(|error| {
                    trouble = Some(error);
                    Reply::Lost
                }),
                Step::Wait(wait) => {
                    self.cx.clock.sleep(wait.min(left)).await;
                    Reply::Waited
                }
                Step::Cluster(call) => self.ask_cluster(call, left.max(TIDY_UP)).await,
            };
            replies.push(reply);
            if replies.len() > STEPS_MAX {
                warn!(provider = inquiry.provider(), "An inquiry takes too many steps");
                break Outcome::NoData;
            }
        };
        let took = self.cx.clock.monotonic().saturating_sub(start);
        let label = match outcome {
            Outcome::Value(_) => telemetry::Outcome::Success,
            Outcome::NoData | Outcome::Failure(_) => telemetry::Outcome::Error(outcome.label()),
        };
        self.cx.telemetry.count_query(inquiry.provider(), label, took);
        match (outcome, trouble) {
            (Outcome::Value(reading), _) => {
                if reading.series > 1 {
                    let (provider, series) = (inquiry.provider(), reading.series);
                    debug!(provider, series, "The query has several results, one of them counts");
                }
                Ok(reading.sample)
            }
            (Outcome::NoData, _) => Err(QueryFailure::NoData),
            (Outcome::Failure(_), Some(error)) => Err(QueryFailure::Unreachable(error)),
            (Outcome::Failure(error), None) => Err(QueryFailure::Answer(error)),
        }
    }

    async fn send(&self, call: Call, left: Duration) -> Result<Reply, QueryFailureCause> {
        let mut sent = outgoing(call.request, &self.key).map_err(HttpError::Url)?;
        sent.timeout = left;
        sent.max_bytes = BODY_BYTES_MAX;
        sent.verify_tls = call.verify_tls;
        sent.trusted = call.trusted;
        sent.authorities = call.ca_pem;
        let answer = self.cx.http.send(sent).await?;
        let (status, truncated) = (answer.status.as_u16(), answer.truncated);
        Ok(Reply::Answered { status, body: answer.body.to_vec(), truncated })
    }

    /// As the operator itself; its role decides.
    async fn ask_cluster(&self, call: ClusterCall, left: Duration) -> Reply {
        if call.authorization.is_some() {
            // Our own login is added to every request of this client.
            warn!(
                "externalmetrics with a token of its own is not supported; \
                   let the operator's account read external.metrics.k8s.io instead"
            );
            return Reply::Lost;
        }
        let client = &self.cx.cluster.client;
        let asked = async {
            let request = Request::builder()
                .method(call.method)
                .uri(call.path)
                .header(http::header::CONTENT_TYPE, "application/json")
                .body(Body::from(call.body))
                .ok()?;
            let response = client.send(request).await.ok()?;
            let status = response.status().as_u16();
            let body = Limited::new(response.into_body(), BODY_BYTES_MAX).collect().await.ok()?;
            let body = body.to_bytes().to_vec();
            Some(Reply::Answered { status, body, truncated: false })
        };
        tokio::time::timeout(left, asked).await.ok().flatten().unwrap_or(Reply::Lost)
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

/// What a Secret holds.
pub(super) type SecretData = BTreeMap<String, Vec<u8>>;
