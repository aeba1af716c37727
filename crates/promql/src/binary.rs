//! Binary operators between scalars and vectors, and vector matching.
//!
//! Elements match by the labels after `on`, or by all but those after `ignoring`. At least one side
//! must have unique labels; `group_left` and `group_right` name the side that may not.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    labels::{Labels, METRIC_NAME},
    query::{QueryError, Sample},
};

/// An operator with two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Calculate(Calculation),
    Compare(Comparison),
    Set(SetOperator),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Calculation {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Power,
    Angle,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Greater,
    Less,
    GreaterOrEqual,
    LessOrEqual,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SetOperator {
    And,
    Or,
    Unless,
}

/// The scalar of an operation with a vector, and its side.
#[derive(Debug, Clone, Copy)]
pub(super) enum Side {
    Left(f64),
    Right(f64),
}

/// Rules of vector matching.
#[derive(Debug, Clone)]
pub(super) struct Matching {
    /// Matches by these labels only, if present.
    pub(super) on: Option<Vec<String>>,
    /// Otherwise by all labels but these and the metric's name.
    pub(super) ignoring: Vec<String>,
    pub(super) cardinality: Cardinality,
}

#[derive(Debug, Clone)]
pub(super) enum Cardinality {
    OneToOne,
    /// `group_left`: labels to copy from the right.
    ManyToOne {
        included: Vec<String>,
    },
    /// `group_right`: labels to copy from the left.
    OneToMany {
        included: Vec<String>,
    },
}

/// Result of an operator on two values, and whether a filter keeps it.
struct Outcome {
    value: f64,
    is_kept: bool,
}

// === impl Operator ===

impl Operator {
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "+" => Self::Calculate(Calculation::Add),
            "-" => Self::Calculate(Calculation::Subtract),
            "*" => Self::Calculate(Calculation::Multiply),
            "/" => Self::Calculate(Calculation::Divide),
            "%" => Self::Calculate(Calculation::Remainder),
            "^" => Self::Calculate(Calculation::Power),
            "atan2" => Self::Calculate(Calculation::Angle),
            "==" => Self::Compare(Comparison::Equal),
            "!=" => Self::Compare(Comparison::NotEqual),
            ">" => Self::Compare(Comparison::Greater),
            "<" => Self::Compare(Comparison::Less),
            ">=" => Self::Compare(Comparison::GreaterOrEqual),
            "<=" => Self::Compare(Comparison::LessOrEqual),
            "and" => Self::Set(SetOperator::And),
            "or" => Self::Set(SetOperator::Or),
            "unless" => Self::Set(SetOperator::Unless),
            _ => return None,
        })
    }

    /// Applies the operator to two scalars; a comparison gives one or zero.
    pub(super) fn scalar(self, left: f64, right: f64) -> f64 {
        let Outcome { value, is_kept } = self.outcome(left, right);
        if matches!(self, Self::Compare(_)) { truth(is_kept) } else { value }
    }

    fn outcome(self, left: f64, right: f64) -> Outcome {
        match self {
            Self::Calculate(calculation) => {
                Outcome { value: calculation.apply(left, right), is_kept: true }
            }
            Self::Compare(comparison) => {
                Outcome { value: left, is_kept: comparison.holds(left, right) }
            }
            // Unreachable: the parser refuses set operators on scalars.
            Self::Set(_) => Outcome { value: left, is_kept: true },
        }
    }

    /// Whether the result loses the metric's name.
    fn changes_meaning(self) -> bool {
        matches!(self, Self::Calculate(_))
    }
}

// === impl Calculation ===

impl Calculation {
    fn apply(self, left: f64, right: f64) -> f64 {
        match self {
            Self::Add => left + right,
            Self::Subtract => left - right,
            Self::Multiply => left * right,
            Self::Divide => left / right,
            Self::Remainder => left % right,
            Self::Power => left.powf(right),
            Self::Angle => left.atan2(right),
        }
    }
}

// === impl Comparison ===

impl Comparison {
    #[expect(clippy::float_cmp, reason = "`==` is what was asked for")]
    fn holds(self, left: f64, right: f64) -> bool {
        match self {
            Self::Equal => left == right,
            Self::NotEqual => left != right,
            Self::Greater => left > right,
            Self::Less => left < right,
            Self::GreaterOrEqual => left >= right,
            Self::LessOrEqual => left <= right,
        }
    }
}

// === impl Matching ===

impl Matching {
    pub(super) fn combine(
        &self,
        operator: Operator,
        left: Vec<Sample>,
        right: Vec<Sample>,
        returns_bool: bool,
    ) -> Result<Vec<Sample>, QueryError> {
        match operator {
            Operator::Set(set) => Ok(self.sets(set, left, right)),
            Operator::Calculate(_) | Operator::Compare(_) => {
                self.pairs(operator, left, right, returns_bool)
            }
        }
    }

    fn sets(&self, operator: SetOperator, left: Vec<Sample>, right: Vec<Sample>) -> Vec<Sample> {
        let signatures = |samples: &[Sample]| -> BTreeSet<Labels> {
            samples.iter().map(|sample| self.signature(&sample.labels)).collect()
        };
        let keep = |samples: Vec<Sample>, others: &BTreeSet<Labels>, wanted: bool| -> Vec<Sample> {
            let is_wanted =
                |sample: &Sample| others.contains(&self.signature(&sample.labels)) == wanted;
            samples.into_iter().filter(is_wanted).collect()
        };
        match operator {
            SetOperator::And => keep(left, &signatures(&right), true),
            SetOperator::Unless => keep(left, &signatures(&right), false),
            SetOperator::Or => {
                let others = keep(right, &signatures(&left), false);
                left.into_iter().chain(others).collect()
            }
        }
    }

    fn pairs(
        &self,
        operator: Operator,
        left: Vec<Sample>,
        right: Vec<Sample>,
        returns_bool: bool,
    ) -> Result<Vec<Sample>, QueryError> {
        if left.is_empty() || right.is_empty() {
            return Ok(Vec::new());
        }
        // From here on the "many" side is the first one.
        let is_swapped = matches!(self.cardinality, Cardinality::OneToMany { .. });
        let (many, one) = if is_swapped { (right, left) } else { (left, right) };
        let one = self.by_signature(one, if is_swapped { "left" } else { "right" })?;
        let mut seen = BTreeSet::new();
        let mut result = Vec::new();
        for sample in many {
            let signature = self.signature(&sample.labels);
            let Some(other) = one.get(&signature) else { continue };
            let (left, right) =
                if is_swapped { (other.value, sample.value) } else { (sample.value, other.value) };
            let Outcome { mut value, is_kept } = operator.outcome(left, right);
            let labels = self.result_labels(operator, &sample.labels, &other.labels, returns_bool);
            let is_one_to_one = matches!(self.cardinality, Cardinality::OneToOne);
            let told_apart_by = (!is_one_to_one).then(|| labels.clone());
            if !seen.insert((signature, told_apart_by)) {
                return Err(self.many_matches(&sample.labels));
            }
            if returns_bool {
                value = truth(is_kept);
            }
            if is_kept || returns_bool {
                result.push(Sample { labels, value });
            }
        }
        Ok(result)
    }

    /// The side on which labels must be unique, by signature.
    fn by_signature(
        &self,
        samples: Vec<Sample>,
        side: &str,
    ) -> Result<BTreeMap<Labels, Sample>, QueryError> {
        let mut found = BTreeMap::new();
        for sample in samples {
            let signature = self.signature(&sample.labels);
            let labels = sample.labels.clone();
            let Some(other) = found.insert(signature.clone(), sample) else { continue };
            return Err(QueryError::execution(format!(
                "{labels} and {} on the {side} hand side both match {signature}: \
                 many-to-many matching is not allowed",
                other.labels
            )));
        }
        Ok(found)
    }

    fn many_matches(&self, labels: &Labels) -> QueryError {
        let hint = match self.cardinality {
            Cardinality::OneToOne => "many-to-one matching needs group_left or group_right",
            _ => "the grouping labels do not tell the results apart",
        };
        QueryError::execution(format!("{labels} has more than one match: {hint}"))
    }

    fn signature(&self, labels: &Labels) -> Labels {
        match &self.on {
            Some(names) => labels.only(names),
            None => labels.without(&self.ignoring),
        }
    }

    fn result_labels(
        &self,
        operator: Operator,
        many: &Labels,
        one: &Labels,
        returns_bool: bool,
    ) -> Labels {
        let mut labels = many.clone();
        if operator.changes_meaning() || returns_bool {
            labels = labels.unnamed();
        }
        match &self.cardinality {
            Cardinality::OneToOne => {
                if let Some(names) = &self.on {
                    return labels.only(names);
                }
                // A comparison keeps the name, although names do not have to match.
                let name = labels.get(METRIC_NAME).to_owned();
                labels.without(&self.ignoring).with(METRIC_NAME, &name)
            }
            Cardinality::ManyToOne { included } | Cardinality::OneToMany { included } => {
                included.iter().fold(labels, |labels, name| labels.with(name, one.get(name)))
            }
        }
    }
}

/// Applies an operator to each element and a scalar.
pub(super) fn with_scalar(
    operator: Operator,
    samples: Vec<Sample>,
    scalar: Side,
    returns_bool: bool,
) -> Vec<Sample> {
    let apply = |Sample { labels, value: element }| {
        let Outcome { mut value, is_kept } = match scalar {
            Side::Left(scalar) => operator.outcome(scalar, element),
            Side::Right(scalar) => operator.outcome(element, scalar),
        };
        if !is_kept && !returns_bool {
            return None;
        }
        if returns_bool {
            value = truth(is_kept);
        } else if matches!(operator, Operator::Compare(_)) {
            // A comparison keeps the element, on either side.
            value = element;
        }
        let keeps_name = !operator.changes_meaning() && !returns_bool;
        Some(Sample { labels: if keeps_name { labels } else { labels.unnamed() }, value })
    };
    samples.into_iter().filter_map(apply).collect()
}

fn truth(is_so: bool) -> f64 {
    if is_so { 1.0 } else { 0.0 }
}
