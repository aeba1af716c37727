//! A question that starts from one honest default and changes one thing a line.

use std::collections::BTreeMap;

use serde_json::json;
use tidegate_api::metric_template::{MetricProvider, SecretRef};

use super::{
    CloudEnvironment, Outcome, ProviderError, QueryMachine, Question, Reading, Reply, Sample, Step,
    query_machine::{Call, ClusterCall},
};

/// All parts of a question, owned.
#[derive(Clone)]
pub(super) struct Asked {
    pub(super) provider: MetricProvider,
    pub(super) secret: Option<BTreeMap<String, Vec<u8>>>,
    pub(super) query: String,
    pub(super) interval: String,
    pub(super) confined_to: Option<String>,
    pub(super) environment: CloudEnvironment,
}

/// When all of it happens: 1772366400 in Unix seconds.
pub(super) const NOW: &str = "2026-03-01T12:00:00Z";

/// A question to a provider of this type.
pub(super) fn asked(provider: &str) -> Asked {
    Asked {
        provider: serde_json::from_value(json!({ "type": provider })).unwrap(),
        secret: None,
        query: "up".into(),
        interval: "1m".into(),
        confined_to: None,
        environment: CloudEnvironment::default(),
    }
}

/// An answer as it came over the wire.
pub(super) fn answered(status: u16, body: &str) -> Reply {
    Reply::Answered { status, body: body.as_bytes().to_vec(), truncated: false }
}

/// A value that was the only one.
pub(super) fn value(value: f64) -> Outcome {
    of_several(value, 1)
}

/// A value that was one of several.
pub(super) fn of_several(value: f64, series: usize) -> Outcome {
    Outcome::Value(Reading { sample: Sample::new(value).unwrap(), series })
}

// === impl Asked ===

impl Asked {
    pub(super) fn at(mut self, address: &str) -> Self {
        self.provider.address = Some(address.into());
        self
    }

    pub(super) fn secret(mut self, pairs: &[(&str, &str)]) -> Self {
        self.provider.secret_ref = Some(SecretRef { name: "login".into() });
        let pairs = pairs.iter().map(|(key, value)| ((*key).into(), value.as_bytes().to_vec()));
        self.secret = Some(pairs.collect());
        self
    }

    pub(super) fn query(mut self, query: &str) -> Self {
        self.query = query.into();
        self
    }

    pub(super) fn interval(mut self, interval: &str) -> Self {
        self.interval = interval.into();
        self
    }

    pub(super) fn region(mut self, region: &str) -> Self {
        self.provider.region = Some(region.into());
        self
    }

    pub(super) fn header(mut self, name: &str, value: &str) -> Self {
        self.provider.headers.insert(name.into(), vec![value.into()]);
        self
    }

    fn question(&self) -> Question<'_> {
        Question {
            provider: &self.provider,
            secret: self.secret.as_ref(),
            query: &self.query,
            interval: &self.interval,
            now: NOW.parse().unwrap(),
            asker: "test/podinfo/errors",
            confined_to: self.confined_to.as_deref(),
            environment: &self.environment,
        }
    }

    pub(super) fn machine(&self) -> Result<QueryMachine, ProviderError> {
        QueryMachine::of(&self.question())
    }

    pub(super) fn probe(&self) -> Result<QueryMachine, ProviderError> {
        QueryMachine::probe(&self.question())
    }

    /// Why it cannot be sent.
    pub(super) fn refusal(&self) -> ProviderError {
        self.machine().unwrap_err()
    }

    /// The first request.
    pub(super) fn call(&self) -> Call {
        sent(&self.machine().unwrap(), &[])
    }

    /// The first request of a probe.
    pub(super) fn probe_call(&self) -> Call {
        sent(&self.probe().unwrap(), &[])
    }

    /// The outcome of this answer to the first request.
    pub(super) fn outcome(&self, status: u16, body: &str) -> Outcome {
        done(&self.machine().unwrap(), &[answered(status, body)])
    }

    /// Whether a probe that gets this answer finds it online.
    pub(super) fn is_online(&self, status: u16, body: &str) -> bool {
        let outcome = done(&self.probe().unwrap(), &[answered(status, body)]);
        matches!(outcome, Outcome::Value(_))
    }
}

/// The request that comes next.
pub(super) fn sent(machine: &QueryMachine, replies: &[Reply]) -> Call {
    match machine.next(replies) {
        Step::Send(call) => *call,
        other => panic!("{other:?} where a request was expected"),
    }
}

/// The request to the API server that comes next.
pub(super) fn to_cluster(machine: &QueryMachine, replies: &[Reply]) -> ClusterCall {
    match machine.next(replies) {
        Step::Cluster(call) => call,
        other => panic!("{other:?} where a request to the cluster was expected"),
    }
}

/// The outcome that comes next.
pub(super) fn done(machine: &QueryMachine, replies: &[Reply]) -> Outcome {
    match machine.next(replies) {
        Step::Done(outcome) => outcome,
        other => panic!("{other:?} where the end was expected"),
    }
}
