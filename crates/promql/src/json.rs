//! JSON answers, with the fields of Prometheus.

use serde::{Serialize, Serializer, ser::SerializeStruct};

use super::{
    database::Point,
    labels::Labels,
    numbers::{as_digits, as_sample, seconds},
    query::{QueryError, Sample, Series, Value},
};

/// The envelope of every answer.
#[derive(Serialize)]
struct Envelope<'e, T> {
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<T>,
    #[serde(rename = "errorType", skip_serializing_if = "Option::is_none")]
    error_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    warnings: &'e [&'static str],
}

/// The value of a query and its evaluation time.
pub(super) struct QueryData<'v> {
    pub(super) value: &'v Value,
    pub(super) at_ms: i64,
}

/// A time in seconds; whole ones without a point.
struct Moment(i64);

/// A sample in JSON: the time, and the number as text.
type Pair = (Moment, String);

#[derive(Serialize)]
struct InstantRow<'v> {
    metric: &'v Labels,
    value: Pair,
}

#[derive(Serialize)]
struct SeriesRow<'v> {
    metric: &'v Labels,
    values: Vec<Pair>,
}

pub(super) fn success(data: &impl Serialize, warnings: &[&'static str]) -> String {
    let envelope =
        Envelope { status: "success", data: Some(data), error_type: None, error: None, warnings };
    text(&envelope)
}

pub(super) fn failure(error: &QueryError) -> String {
    let envelope: Envelope<'_, ()> = Envelope {
        status: "error",
        data: None,
        error_type: Some(error.kind()),
        error: Some(error.to_string()),
        warnings: &[],
    };
    text(&envelope)
}

fn text(envelope: &impl Serialize) -> String {
    // Maps with text keys and numbers as text always serialize.
    serde_json::to_string(envelope).unwrap_or_default()
}

fn pair(at_ms: i64, value: f64) -> Pair {
    (Moment(at_ms), as_sample(value))
}

fn instant_rows(samples: &[Sample], at_ms: i64) -> Vec<InstantRow<'_>> {
    let rows = samples.iter();
    rows.map(|row| InstantRow { metric: &row.labels, value: pair(at_ms, row.value) }).collect()
}

fn series_rows(series: &[Series]) -> Vec<SeriesRow<'_>> {
    let pairs =
        |points: &[Point]| points.iter().map(|point| pair(point.at_ms, point.value)).collect();
    series.iter().map(|row| SeriesRow { metric: &row.labels, values: pairs(&row.points) }).collect()
}

impl Serialize for QueryData<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut data = serializer.serialize_struct("QueryData", 2)?;
        let at_ms = self.at_ms;
        let kind = match self.value {
            Value::Scalar(_) => "scalar",
            Value::Text(_) => "string",
            Value::Vector(_) => "vector",
            Value::Matrix(_) => "matrix",
        };
        data.serialize_field("resultType", kind)?;
        match self.value {
            Value::Scalar(number) => {
                data.serialize_field("result", &(Moment(at_ms), as_digits(*number)))?;
            }
            Value::Text(text) => data.serialize_field("result", &(Moment(at_ms), text))?,
            Value::Vector(samples) => {
                data.serialize_field("result", &instant_rows(samples, at_ms))?;
            }
            Value::Matrix(series) => data.serialize_field("result", &series_rows(series))?,
        }
        data.end()
    }
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0 % 1_000 == 0 {
            serializer.serialize_i64(self.0 / 1_000)
        } else {
            serializer.serialize_f64(seconds(self.0))
        }
    }
}
