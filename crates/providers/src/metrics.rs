//! Checks: a metric becomes a query, an answer becomes a number, a number becomes a verdict.
//!
//! ```text
//! AnalysisMetric --sources--> builtin -> observer::builtin --+
//!                             inline  -> template::render ---+--> prometheus::request
//!                                                            |     Sample <- prometheus::parse
//!                             template -> template::render --+--> QueryMachine::of, driven to an Outcome
//!                             limits::judge(metric, measure, sample) -> Check
//! ```
//!
//! A template names one of eleven providers. Each is a file here that builds its requests and reads its
//! answers; [`query_machine`] drives them all alike. The outcome is one of three: a value, no data, or a
//! failure. No data comes from a server that works and has no value, which is fixed elsewhere than a server
//! that fails.
//!
//! Missing, malformed and infinite data is never a pass. Nothing of what a metrics server answers
//! gets into an error but its status and words from a fixed list.

pub mod aws;
mod cloud_environment;
mod cloud_identity;
mod cloudwatch;
mod datadog;
mod dynatrace;
mod external;
pub mod google;
mod graphite;
mod influxdb;
mod keptn;
mod language;
pub mod limits;
mod newrelic;
pub mod observer;
pub mod prometheus;
pub mod query_machine;
mod splunk;
mod stackdriver;
mod support;
#[cfg(test)]
mod testing;
mod text;

use tidegate_api::canary::analysis::{AnalysisMetric, ObjectRef};

pub use self::{
    cloud_environment::CloudEnvironment,
    language::query_language,
    limits::{Check, Measure, Warning},
    observer::{Dialect, Observer},
    query_machine::{ProviderError, QueryMachine, Question, Reply, Step},
    support::Fingerprint,
};

/// A measurement. May be infinite, is never NaN: the only way in is [`Sample::new`].
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Sample(f64);

/// A value, and how sure it is that this one was meant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// The value. Of several series it is one of them, each provider says which.
    pub sample: Sample,
    /// How many series there were. More than one is worth a warning: which one counts is chance.
    pub series: usize,
}

/// The outcome of a query.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outcome {
    /// A number.
    Value(Reading),
    /// The server works and has no number: mostly there is no traffic to measure.
    NoData,
    /// The result is unknown: the server fails, refuses, or answers in an unknown form.
    Failure(QueryError),
}

/// The metrics every provider has a query for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Builtin {
    /// Share of requests without a server error, in percent.
    SuccessRate,
    /// 99th percentile of the time to answer, in milliseconds; with some observers the mean.
    Duration,
}

/// Where the value of a metric comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source<'a> {
    /// A query of ours.
    Builtin(Builtin),
    /// A template in the metric itself, for the Prometheus of the canary.
    Inline(&'a str),
    /// A template of its own, for the provider it names.
    Template(&'a ObjectRef),
}

/// Why there is no sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// The query has no result, or the result is not a number.
    #[error("no values found")]
    NoValue,
    /// The result is a list of values over time.
    #[error("the query returned values over time where one was expected")]
    ManyValues,
    /// The server refused.
    #[error("the server answered {status}{}", reason.map(|word| format!(" ({word})")).unwrap_or_default())]
    Refused {
        /// Status of the answer.
        status: u16,
        /// Its kind of error, if that is one of the known words.
        reason: Option<&'static str>,
    },
    /// The answer has another form than this kind of server gives.
    #[error("the server's answer could not be read")]
    Malformed,
    /// The answer is longer than any that holds a number.
    #[error("the server's answer is too long")]
    TooLong,
    /// No answer, or none in time.
    #[error("the server did not answer")]
    Unreachable,
    /// The awaited result did not come in time.
    #[error("there was no result in time")]
    NotInTime,
    /// The cloud does not give or does not accept credentials.
    #[error("no credentials could be obtained")]
    Identity,
}

// === impl Sample ===

impl Sample {
    /// The measurement, if it is a number.
    pub fn new(value: f64) -> Option<Self> {
        (!value.is_nan()).then_some(Self(value))
    }

    /// The number.
    pub const fn get(self) -> f64 {
        self.0
    }

    /// False for the two infinities, which are out of any range.
    pub fn is_finite(self) -> bool {
        self.0.is_finite()
    }
}

// === impl Reading ===

impl Reading {
    /// The reading of a probe that went well.
    pub(crate) const ONLINE: Self = Self { sample: Sample(1.0), series: 1 };
}

// === impl Outcome ===

impl Outcome {
    /// A fixed word for metrics of our own.
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Value(_) => "value",
            Self::NoData => QueryError::NoValue.label(),
            Self::Failure(error) => error.label(),
        }
    }
}

impl From<Result<Reading, QueryError>> for Outcome {
    fn from(read: Result<Reading, QueryError>) -> Self {
        match read {
            Ok(reading) => Self::Value(reading),
            Err(QueryError::NoValue) => Self::NoData,
            Err(error) => Self::Failure(error),
        }
    }
}

// === impl Builtin ===

impl Builtin {
    /// The metric of this name, if it is built in.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "request-success-rate" => Some(Self::SuccessRate),
            "request-duration" => Some(Self::Duration),
            _ => None,
        }
    }

    /// How its values are compared and printed.
    pub const fn measure(self) -> Measure {
        match self {
            Self::SuccessRate => Measure::SuccessRate,
            Self::Duration => Measure::Duration,
        }
    }
}

// === impl Source ===

impl Source<'_> {
    /// How values of this source are compared and printed.
    pub const fn measure(&self) -> Measure {
        match self {
            Self::Builtin(builtin) => builtin.measure(),
            Self::Inline(_) | Self::Template(_) => Measure::Custom,
        }
    }
}

// === impl QueryError ===

impl QueryError {
    /// A fixed word for metrics of our own.
    pub const fn label(&self) -> &'static str {
        match self {
            Self::NoValue => "no_value",
            Self::ManyValues => "many_values",
            Self::Refused { .. } => "refused",
            Self::Malformed => "malformed",
            Self::TooLong => "too_long",
            Self::Unreachable => "unreachable",
            Self::NotInTime => "not_in_time",
            Self::Identity => "identity",
        }
    }
}

/// The sources of a metric, in the order of their queries; nothing if it has none at all, which is a failed
/// check.
///
/// As Flagger: a built-in name, a query and a template of one metric are all queried, against the same
/// limits. Templates are queried after the built-in and inline queries of all metrics.
pub fn sources(metric: &AnalysisMetric) -> Vec<Source<'_>> {
    let builtin = Builtin::named(&metric.name).map(Source::Builtin);
    let inline = metric.query.as_deref().filter(|query| !query.is_empty()).map(Source::Inline);
    let template = metric.template_ref.as_ref().map(Source::Template);
    builtin.into_iter().chain(inline).chain(template).collect()
}

/// The success rate when it has no value, given the rate of all requests.
///
/// A canary that has answered nothing but errors has no series of good requests, so the quotient is empty. If
/// there were requests, that is 0 percent and not an absent value.
pub fn success_rate_without_value(
    all_requests: Result<Sample, QueryError>,
) -> Result<Sample, QueryError> {
    match all_requests {
        Ok(rate) if rate.get() > 0.0 => Ok(Sample(0.0)),
        Ok(_) => Err(QueryError::NoValue),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_metric_may_have_several_sources_or_none() {
        let metric = |value| serde_json::from_value::<AnalysisMetric>(value).unwrap();
        let reference = ObjectRef { name: "t".into(), namespace: None };
        let cases = [
            ("only a label", json!({ "name": "mine" }), vec![]),
            ("an empty query", json!({ "name": "mine", "query": "" }), vec![]),
            (
                "built in",
                json!({ "name": "request-duration" }),
                vec![Source::Builtin(Builtin::Duration)],
            ),
            ("inline", json!({ "name": "mine", "query": "q" }), vec![Source::Inline("q")]),
            (
                "all three",
                json!({ "name": "request-success-rate", "query": "q", "templateRef": { "name": "t" } }),
                vec![
                    Source::Builtin(Builtin::SuccessRate),
                    Source::Inline("q"),
                    Source::Template(&reference),
                ],
            ),
        ];
        for (reason, value, want) in cases {
            assert_eq!(sources(&metric(value)), want, "{reason}");
        }
    }

    #[test]
    fn nothing_but_errors_is_not_silence() {
        let sample = |value| Sample::new(value).unwrap();
        let cases = [
            ("there were requests", Ok(sample(0.4)), Ok(sample(0.0))),
            ("there were none", Ok(sample(0.0)), Err(QueryError::NoValue)),
            ("nobody counted", Err(QueryError::NoValue), Err(QueryError::NoValue)),
            ("the server is ill", Err(QueryError::Malformed), Err(QueryError::Malformed)),
        ];
        for (reason, all_requests, want) in cases {
            assert_eq!(success_rate_without_value(all_requests), want, "{reason}");
        }
    }

    #[test]
    fn a_sample_is_never_nan() {
        assert_eq!(Sample::new(f64::NAN), None);
        assert_eq!(Sample::new(-f64::NAN), None);
        assert!(!Sample::new(f64::INFINITY).unwrap().is_finite());
    }
}
