//! A sans-I/O state machine for one query of a metric provider; the operator performs its requests.
//!
//! ```text
//! Question -- QueryMachine::of / QueryMachine::probe --> QueryMachine
//!
//!                  +---- replies so far <-----+
//!                  v                          |
//!     QueryMachine::next --> Step::Send ------+   over HTTP, to the outside
//!                        --> Step::Cluster ---+   to the API server, as the operator
//!                        --> Step::Wait ------+
//!                        --> Step::Done(Outcome)
//! ```
//!
//! [`QueryMachine::next`] is a function of the replies alone: the same replies give the same step, so a
//! driver may be dropped anywhere and started again. Each step but the last is answered with one [`Reply`],
//! pushed behind the others; a call that failed or took too long is [`Reply::Lost`], after which cleanup may
//! still be needed. At most [`STEPS_MAX`] steps are taken.

use std::{collections::BTreeMap, fmt, time::Duration};

use http::{HeaderValue, Method};
use jiff::{SignedDuration, Timestamp};
use tidegate_api::metric_template::MetricProvider;

use super::{
    CloudEnvironment, Outcome, QueryError, Reading,
    aws::Signing,
    cloud_identity::{CloudIdentity, Stage},
    cloudwatch, datadog, dynatrace, external, graphite, influxdb, keptn, newrelic, prometheus,
    splunk, stackdriver,
    support::{self, Fingerprint},
};
use crate::{
    hook::excerpt,
    request::{AddressError, Request},
};

/// The inputs of a query.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The provider, as the template describes it.
    pub provider: &'a MetricProvider,
    /// The data of the Secret that the provider refers to; nothing if it refers to none.
    pub secret: Option<&'a BTreeMap<String, Vec<u8>>>,
    /// The rendered query. A probe does not look at it.
    pub query: &'a str,
    /// Span of time the metric looks back over, as it is written: `1m`.
    pub interval: &'a str,
    /// Now.
    pub now: Timestamp,
    /// The metric of the query, for instance `test/podinfo/errors`: distinguishes the objects of two canaries
    /// that query at the same time.
    pub asker: &'a str,
    /// The only namespace objects may be looked at in, where references across namespaces are off.
    pub confined_to: Option<&'a str>,
    /// The operator's own cloud credentials.
    pub environment: &'a CloudEnvironment,
}

/// A query and its requests. Prints as the name of its provider.
pub struct QueryMachine {
    provider: &'static str,
    plan: Plan,
}

/// The next step.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Send this over HTTP.
    Send(Box<Call>),
    /// Send this to the API server.
    Cluster(ClusterCall),
    /// Wait, and reply [`Reply::Waited`]; or [`Reply::Lost`] at once if time is up.
    Wait(Duration),
    /// The query is over.
    Done(Outcome),
}

/// A request to the outside, with the settings for sending it.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The request to send.
    pub request: Request,
    /// Off only where the template says so.
    pub verify_tls: bool,
    /// Authorities to trust instead of the machine's, as PEM.
    pub ca_pem: Option<Vec<u8>>,
    /// The client certificate.
    pub certificate: Option<ClientCertificate>,
    /// How to sign it just before it is sent.
    pub signing: Option<Signing>,
    /// The address is not from the template but from the operator's own surroundings, such as the
    /// metadata service of its node: it is not checked.
    pub trusted: bool,
    /// The address is that of the node itself, where no proxy leads.
    pub direct: bool,
}

/// A certificate and its key, as PEM. Prints as nothing.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientCertificate {
    /// The certificate, and those that vouch for it.
    pub chain_pem: Vec<u8>,
    /// Its key.
    pub key_pem: Vec<u8>,
}

/// A request to the API server of the cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterCall {
    /// GET, POST or DELETE.
    pub method: Method,
    /// Path and query, encoded.
    pub path: String,
    /// JSON, or nothing.
    pub body: Vec<u8>,
    /// Sent as `Authorization` instead of the operator's own.
    pub authorization: Option<HeaderValue>,
}

/// The result of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// An answer, of any status.
    Answered {
        /// The status.
        status: u16,
        /// The body, as far as it was read.
        body: Vec<u8>,
        /// There was more than `body` holds.
        truncated: bool,
    },
    /// The wait is over.
    Waited,
    /// No answer, or none in time.
    Lost,
}

/// Why a query cannot be sent. Quotes nothing that may be secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    /// An unknown type.
    #[error("there is no metric provider {found:?}; there are {}", known_types())]
    Unknown {
        /// The type in the template.
        found: String,
    },
    /// Something that must be set and is not.
    #[error("{provider} needs {what}")]
    Missing {
        /// The provider that needs it.
        provider: &'static str,
        /// The missing field.
        what: &'static str,
    },
    /// The Secret lacks something.
    #[error("{provider} credentials do not contain {key}")]
    MissingKey {
        /// The provider that needs it.
        provider: &'static str,
        /// Key of the Secret.
        key: &'static str,
    },
    /// A key of the Secret has an unusable value.
    #[error("{provider} credentials: {key} cannot be used")]
    BadKey {
        /// The provider that needs it.
        provider: &'static str,
        /// Key of the Secret.
        key: &'static str,
    },
    /// The address cannot be used.
    #[error("{provider}: {why}")]
    Address {
        /// The provider of that address.
        provider: &'static str,
        /// The problem.
        why: AddressError,
    },
    /// An address where a token would travel in the clear.
    #[error("{0} needs an https address")]
    NotSecure(&'static str),
    /// A header that HTTP does not allow, by name.
    #[error("header {0:?} is not allowed by HTTP")]
    Header(String),
    /// The query is not one of this provider's.
    #[error("error parsing metric query: {provider}: {why}")]
    Query {
        /// The provider of that query.
        provider: &'static str,
        /// The problem.
        why: &'static str,
    },
    /// Credentials of a kind that is not supported.
    #[error(
        "{provider} credentials of type {found:?} are not supported; service_account and authorized_user are, and without a key the identity of the operator's pod"
    )]
    CredentialType {
        /// The provider of those credentials.
        provider: &'static str,
        /// Their type.
        found: String,
    },
    /// The interval is not a span of time.
    #[error("error parsing metric interval: {0:?} is no duration such as 1m or 90s")]
    Interval(String),
    /// The query names a forbidden namespace.
    #[error(
        "{provider}: namespace {namespace} is another one, and references across namespaces are off"
    )]
    Confined {
        /// The provider of that query.
        provider: &'static str,
        /// The namespace in the query.
        namespace: String,
    },
}

/// Reads the number in an answer.
pub(super) type Read = Box<dyn Fn(u16, &[u8]) -> Result<Reading, QueryError> + Send + Sync>;

/// The requests that lead to an answer.
pub(super) enum Plan {
    /// Obtain credentials if need be, then one request over HTTP.
    Http(Box<HttpPlan>),
    /// One request to the API server.
    Cluster(ClusterCall, Read),
    /// An object that is made, watched and removed.
    Analysis(keptn::Analysis),
    /// The answer is known already.
    Known(Reading),
}

/// One request over HTTP, and the identity it is sent with.
pub(super) struct HttpPlan {
    pub(super) identity: CloudIdentity,
    pub(super) call: Call,
    pub(super) read: Read,
    pub(super) now: Timestamp,
}

/// Most steps of one query. The longest is an analysis of Keptn's: it is made, looked at ten
/// times a second apart, and removed.
pub const STEPS_MAX: usize = 24;
/// Most bytes of an answer that are worth reading. One number needs some hundred; lists of points,
/// which two of the providers send, some ten thousand.
pub const BODY_BYTES_MAX: usize = 1024 * 1024;
/// Credentials are not used in this time before their end.
const BEFORE_THE_END: SignedDuration = SignedDuration::from_secs(60);
/// The host name of the cluster's own API server.
const API_SERVER: &str = "kubernetes.default.svc";
/// An analysis is looked at ten times, a second apart.
const LOOKING: Duration = Duration::from_secs(10);

/// How often a request is repeated that was refused for the moment, and how long after the first time.
const TRIES_MORE: u32 = 3;
const FIRST_WAIT: Duration = Duration::from_millis(200);

/// How one provider is queried and probed.
struct Provider {
    name: &'static str,
    ask: fn(&Question<'_>) -> Result<Plan, ProviderError>,
    probe: fn(&Question<'_>) -> Result<Plan, ProviderError>,
}

macro_rules! providers {
    ($($module:ident),*) => {
        [$(Provider { name: $module::NAME, ask: $module::ask, probe: $module::probe }),*]
    };
}

static PROVIDERS: [Provider; 11] = providers!(
    prometheus,
    influxdb,
    datadog,
    external,
    stackdriver,
    cloudwatch,
    newrelic,
    graphite,
    dynatrace,
    keptn,
    splunk
);

fn provider_of(question: &Question<'_>) -> Result<&'static Provider, ProviderError> {
    let name = question.provider.provider_type.as_str();
    // Flagger takes an unknown type for Prometheus, and sends it a query it does not understand.
    let provider = PROVIDERS
        .iter()
        .find(|provider| provider.name == name)
        .ok_or_else(|| ProviderError::Unknown { found: excerpt(name.as_bytes()) })?;
    if let Some(secret) = question.secret {
        let (chain, key) = (secret.contains_key("tls.crt"), secret.contains_key("tls.key"));
        if chain != key {
            // Without its certificate the query would be another one.
            let key = if chain { "tls.key" } else { "tls.crt" };
            return Err(ProviderError::MissingKey { provider: provider.name, key });
        }
    }
    if question.provider.secret_ref.is_some() && question.secret.is_none() {
        // Without its login the query would be another one.
        let what = "the Secret it refers to";
        return Err(ProviderError::Missing { provider: provider.name, what });
    }
    Ok(provider)
}

fn known_types() -> String {
    let mut names: Vec<_> = PROVIDERS.iter().map(|provider| provider.name).collect();
    names.sort_unstable();
    names.join(", ")
}

// === impl QueryMachine ===

impl QueryMachine {
    /// The query for the value of a metric.
    pub fn of(question: &Question<'_>) -> Result<Self, ProviderError> {
        let provider = provider_of(question)?;
        Ok(Self { provider: provider.name, plan: (provider.ask)(question)? })
    }

    /// The query that checks whether the provider answers at all. It does if the outcome is a value.
    pub fn probe(question: &Question<'_>) -> Result<Self, ProviderError> {
        let provider = provider_of(question)?;
        Ok(Self { provider: provider.name, plan: (provider.probe)(question)? })
    }

    /// The type of the provider, a fixed word.
    pub const fn provider(&self) -> &'static str {
        self.provider
    }

    /// How long all steps together may take, credentials included, where a query may take this long.
    pub fn patience(&self, query: Duration) -> Duration {
        match self.plan {
            Plan::Analysis(_) => query + LOOKING,
            Plan::Http(_) | Plan::Cluster(..) | Plan::Known(_) => query,
        }
    }

    /// How long to wait before sending the same request once more, where that is usual: Amazon turns requests
    /// away while there are many, and its own clients try three times more. `tries` is how often it was repeated.
    pub fn again(&self, reply: &Reply, tries: u32) -> Option<Duration> {
        let Reply::Answered { status, body, .. } = reply else { return None };
        let is_passing = self.provider == cloudwatch::NAME && cloudwatch::is_passing(*status, body);
        (is_passing && tries < TRIES_MORE).then(|| FIRST_WAIT * 2_u32.pow(tries))
    }

    /// Distinguishes the identity of its requests; nothing if that takes no request to obtain.
    pub fn identity(&self) -> Option<Fingerprint> {
        match &self.plan {
            Plan::Http(plan) => plan.identity.fingerprint(),
            Plan::Cluster(..) | Plan::Analysis(_) | Plan::Known(_) => None,
        }
    }

    /// The first replies that only obtained credentials, and until when those are good. A machine
    /// of the same [`QueryMachine::identity`] may begin with them.
    pub fn reusable_replies<'a>(&self, replies: &'a [Reply]) -> Option<(&'a [Reply], Timestamp)> {
        let Plan::Http(plan) = &self.plan else { return None };
        match plan.identity.next(replies, plan.now) {
            Stage::Ready { used, until: Some(until), .. } => {
                let until = until.checked_sub(BEFORE_THE_END).ok()?;
                replies.get(..used).map(|replies| (replies, until))
            }
            Stage::Ready { .. } | Stage::Ask(_) | Stage::Failed(_) => None,
        }
    }

    /// The host that the contents of the Secret are sent to; nothing if they are not used.
    pub fn receiver(&self) -> Option<&str> {
        match &self.plan {
            Plan::Http(plan) => plan.call.request.url.host(),
            Plan::Cluster(call, _) => call.authorization.as_ref().map(|_| API_SERVER),
            Plan::Analysis(_) | Plan::Known(_) => None,
        }
    }

    /// Deletes the object that it makes in the cluster, if it makes one: for a driver that gives up early.
    pub fn leftover(&self) -> Option<ClusterCall> {
        match &self.plan {
            Plan::Analysis(analysis) => Some(analysis.removal()),
            Plan::Http(_) | Plan::Cluster(..) | Plan::Known(_) => None,
        }
    }

    /// The next step, given the results of those before.
    pub fn next(&self, replies: &[Reply]) -> Step {
        match &self.plan {
            Plan::Http(plan) => plan.next(replies),
            Plan::Cluster(call, read) => match replies {
                [] => Step::Cluster(call.clone()),
                [reply, ..] => Step::done(reply.read(read)),
            },
            Plan::Analysis(analysis) => analysis.next(replies),
            Plan::Known(reading) => Step::Done(Outcome::Value(*reading)),
        }
    }
}

impl fmt::Debug for QueryMachine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "QueryMachine({})", self.provider)
    }
}

// === impl Plan ===

impl Plan {
    /// A request that has all its credentials.
    pub(super) fn once(question: &Question<'_>, call: Call, read: Read) -> Self {
        Self::named(question, CloudIdentity::None, call, read)
    }

    /// A request whose answer has no value.
    pub(super) fn greeting(question: &Question<'_>, call: Call) -> Self {
        let read = |status, _: &[u8]| support::online(status == 200, status);
        Self::once(question, call, Box::new(read))
    }

    /// A request with an identity.
    pub(super) fn named(
        question: &Question<'_>,
        identity: CloudIdentity,
        call: Call,
        read: Read,
    ) -> Self {
        Self::Http(Box::new(HttpPlan { identity, call, read, now: question.now }))
    }
}

impl HttpPlan {
    fn next(&self, replies: &[Reply]) -> Step {
        let (key, used) = match self.identity.next(replies, self.now) {
            Stage::Ask(call) => return Step::Send(call),
            Stage::Failed(error) => return Step::done(Err(error)),
            Stage::Ready { key, used, .. } => (key, used),
        };
        match replies.get(used..) {
            Some([reply, ..]) => Step::done(reply.read(&self.read)),
            Some([]) | None => match key.put_on(&self.call) {
                Some(call) => Step::Send(Box::new(call)),
                None => Step::done(Err(QueryError::Identity)),
            },
        }
    }
}

// === impl Step ===

impl Step {
    /// The end.
    pub(super) fn done(read: Result<Reading, QueryError>) -> Self {
        Self::Done(Outcome::from(read))
    }
}

// === impl Reply ===

impl Reply {
    /// Status and whole body, if there are both.
    pub(super) fn answer(&self) -> Result<(u16, &[u8]), QueryError> {
        match self {
            Self::Answered { truncated: true, .. } => Err(QueryError::TooLong),
            Self::Answered { status, body, truncated: false } => Ok((*status, body)),
            Self::Waited | Self::Lost => Err(QueryError::Unreachable),
        }
    }

    fn read(&self, read: &Read) -> Result<Reading, QueryError> {
        let (status, body) = self.answer()?;
        read(status, body)
    }
}

// === impl Call ===

impl Call {
    /// A request to the address of a template.
    pub(super) fn of(question: &Question<'_>, request: Request) -> Self {
        let held = |key: &str| question.secret.and_then(|secret| secret.get(key)).cloned();
        let certificate = held("tls.crt").zip(held("tls.key"));
        let certificate =
            certificate.map(|(chain_pem, key_pem)| ClientCertificate { chain_pem, key_pem });
        let verify_tls = question.provider.insecure_skip_verify != Some(true);
        Self { verify_tls, ca_pem: held("ca.crt"), certificate, ..Self::known(request) }
    }

    /// A request to an address we know.
    pub(super) const fn known(request: Request) -> Self {
        Self {
            request,
            verify_tls: true,
            ca_pem: None,
            certificate: None,
            signing: None,
            trusted: false,
            direct: false,
        }
    }

    /// A request to an address of the operator's surroundings.
    pub(super) fn of_environment(request: Request) -> Self {
        Self { trusted: true, ..Self::known(request) }
    }

    /// A request to the node that the operator runs on.
    pub(super) fn of_node(request: Request) -> Self {
        Self { direct: true, ..Self::of_environment(request) }
    }
}

// === impl ClientCertificate ===

impl fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests;
