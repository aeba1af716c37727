//! Aggregation operators: one element per group, or the first few elements of each group.
//!
//! Called by the evaluator, once per step. Groups keep the order of their first elements.

use std::collections::{BTreeMap, btree_map::Entry};

use super::{
    labels::Labels,
    numbers::{self, Mean, Sum, as_digits, float, nan_last, whole},
    query::{QueryError, Sample},
};

/// Aggregation operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Sum,
    Average,
    Count,
    Min,
    Max,
    Group,
    Deviation,
    Variance,
    Quantile,
    Top,
    Bottom,
    CountValues,
}

/// The labels by which elements are grouped.
#[derive(Debug, Clone)]
pub(super) enum Grouping {
    By(Vec<String>),
    /// All labels but these and the metric's name.
    Without(Vec<String>),
}

/// The parameter of an aggregation must fit an integer; these bounds are the first that do not.
const INTEGERS: std::ops::Range<f64> = -9_223_372_036_854_775_807.0..9_223_372_036_854_775_807.0;

// === impl Grouping ===

impl Grouping {
    fn labels(&self, of: &Labels) -> Labels {
        match self {
            Self::By(names) => of.only(names),
            Self::Without(names) => of.without(names),
        }
    }

    /// Groups in the order of their first elements.
    fn groups(&self, samples: Vec<Sample>) -> Vec<(Labels, Vec<Sample>)> {
        let mut places = BTreeMap::new();
        let mut groups: Vec<(Labels, Vec<Sample>)> = Vec::new();
        for sample in samples {
            let labels = self.labels(&sample.labels);
            let place = match places.entry(labels) {
                Entry::Occupied(entry) => *entry.get(),
                Entry::Vacant(entry) => {
                    groups.push((entry.key().clone(), Vec::new()));
                    *entry.insert(groups.len() - 1)
                }
            };
            if let Some((_, members)) = groups.get_mut(place) {
                members.push(sample);
            }
        }
        groups
    }
}

/// Aggregates each group to one element.
pub(super) fn reduce(
    operator: Operator,
    samples: Vec<Sample>,
    grouping: &Grouping,
    parameter: f64,
) -> Vec<Sample> {
    let groups = grouping.groups(samples).into_iter();
    let reduced = groups.map(|(labels, members)| {
        let values: Vec<_> = members.into_iter().map(|member| member.value).collect();
        Sample { labels, value: reduced(operator, values, parameter) }
    });
    reduced.collect()
}

/// Aggregation with a parameter: quantile, or the first few elements of each group.
pub(super) fn parametric(
    operator: Operator,
    samples: Vec<Sample>,
    grouping: &Grouping,
    parameter: f64,
) -> Result<Vec<Sample>, QueryError> {
    let is_descending = match operator {
        Operator::Top => true,
        Operator::Bottom => false,
        _ => return Ok(reduce(operator, samples, grouping, parameter)),
    };
    if parameter < 1.0 {
        return Ok(Vec::new());
    }
    if !INTEGERS.contains(&parameter) {
        let message = format!("{} is no number of elements", as_digits(parameter));
        return Err(QueryError::execution(message));
    }
    let sign = if is_descending { -1.0 } else { 1.0 };
    let groups = grouping.groups(samples).into_iter();
    let first_few = groups.flat_map(|(_, mut members)| {
        members.sort_by(|a, b| nan_last(a.value * sign, b.value * sign));
        members.truncate(whole(parameter));
        members
    });
    Ok(first_few.collect())
}

/// Counts the elements with each value; the value becomes a label.
pub(super) fn count_values(
    samples: Vec<Sample>,
    grouping: &Grouping,
    label: &str,
) -> Result<Vec<Sample>, QueryError> {
    if label.is_empty() {
        return Err(QueryError::execution("count_values(): a label needs a name"));
    }
    let grouping = match grouping {
        Grouping::By(names) => {
            Grouping::By(names.iter().cloned().chain([label.to_owned()]).collect())
        }
        Grouping::Without(_) => grouping.clone(),
    };
    let labelled = samples.into_iter().map(|Sample { labels, value }| {
        let labels = labels.with(label, &as_digits(value));
        Sample { labels, value }
    });
    Ok(reduce(Operator::Count, labelled.collect(), &grouping, f64::NAN))
}

fn reduced(operator: Operator, values: Vec<f64>, parameter: f64) -> f64 {
    match operator {
        Operator::Sum => {
            let mut values = values.into_iter();
            // Starting with the first value instead of zero keeps the sign of a negative zero.
            let first = Sum { total: values.next().unwrap_or(0.0), lost: 0.0 };
            values.fold(first, Sum::plus).value()
        }
        Operator::Average => {
            let mut mean = Mean::default();
            for value in values {
                mean.add(value);
            }
            mean.value()
        }
        Operator::Count => float(values.len()),
        Operator::Min => pick(values, |least, value| least > value),
        Operator::Max => pick(values, |most, value| most < value),
        Operator::Deviation => variance(&values).sqrt(),
        Operator::Variance => variance(&values),
        Operator::Quantile => numbers::quantile(parameter, values),
        Operator::Group | Operator::Top | Operator::Bottom | Operator::CountValues => 1.0,
    }
}

/// The best value; NaN only if there is nothing else.
fn pick(values: Vec<f64>, is_worse: fn(f64, f64) -> bool) -> f64 {
    let better =
        |best: f64, value| if is_worse(best, value) || best.is_nan() { value } else { best };
    values.into_iter().reduce(better).unwrap_or(f64::NAN)
}

fn variance(values: &[f64]) -> f64 {
    let Some((first, others)) = values.split_first() else { return f64::NAN };
    let (mut count, mut mean) = (1.0, *first);
    let mut squares = if first.is_finite() { 0.0 } else { f64::NAN };
    for value in others {
        count += 1.0;
        let distance = value - mean;
        mean += distance / count;
        squares += distance * (value - mean);
    }
    squares / count
}
