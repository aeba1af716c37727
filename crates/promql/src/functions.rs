//! Function calls: supported functions, their arguments and results.
//!
//! Functions of one number or one window are rows of a table ([`tables`]); those here take more
//! arguments, or change labels.

use promql_parser::parser::{self, Expr, value::ValueType};
use regex::Regex;

use super::{
    evaluate::Evaluator,
    histogram::{self, Question},
    labels::Labels,
    numbers::{greater, lesser, nan_last, seconds},
    plan::{Plan, Planner, Selection, WindowSource, absent_labels, unsupported},
    query::{QueryError, Sample, Value},
    tables::{self, Calendar, Math, OverWindow},
};

/// A function and its arguments.
#[derive(Debug)]
pub(super) enum Call {
    Math {
        function: Math,
        vector: Plan,
    },
    Calendar {
        function: Calendar,
        vector: Option<Plan>,
    },
    OverWindow {
        function: OverWindow,
        source: WindowSource,
        parameter: Plan,
        keeps_name: bool,
    },
    Absent {
        vector: Plan,
        labels: Labels,
    },
    AbsentOverTime {
        source: WindowSource,
        labels: Labels,
    },
    Scalar {
        vector: Plan,
    },
    Vector {
        scalar: Plan,
    },
    Time,
    /// Timestamps of a selector's samples.
    SampleTime {
        selection: Selection,
    },
    /// The time of the evaluation, for each element.
    EvaluationTime {
        vector: Plan,
    },
    Sort {
        vector: Plan,
        is_descending: bool,
    },
    Clamp {
        vector: Plan,
        min: Plan,
        max: Plan,
    },
    Round {
        vector: Plan,
        nearest: Plan,
    },
    HistogramQuantile {
        quantile: Plan,
        buckets: Plan,
    },
    HistogramFraction {
        lower: Plan,
        upper: Plan,
        buckets: Plan,
    },
    LabelReplace {
        vector: Plan,
        target: String,
        replacement: String,
        source: String,
        pattern: Regex,
    },
    LabelJoin {
        vector: Plan,
        target: String,
        separator: String,
        sources: Vec<String>,
    },
}

/// The arguments of a call, by position.
struct Arguments<'a> {
    planner: &'a Planner<'a>,
    call: &'a parser::Call,
    depth: usize,
}

// === impl Call ===

impl Call {
    pub(super) fn plan(
        planner: &Planner<'_>,
        call: &parser::Call,
        depth: usize,
    ) -> Result<Plan, QueryError> {
        let name = call.func.name;
        let arguments = Arguments { planner, call, depth };
        let function = if let Some(function) = tables::math(name) {
            Self::Math { function, vector: arguments.vector(0)? }
        } else if let Some(function) = tables::calendar(name) {
            let has_vector = !call.args.is_empty();
            let vector = has_vector.then(|| arguments.vector(0)).transpose()?;
            Self::Calendar { function, vector }
        } else if let Some(function) = tables::over_window(name) {
            Self::over_window(name, function, &arguments)?
        } else if name == "pi" {
            return Ok(Plan::Number(std::f64::consts::PI));
        } else {
            Self::other(name, &arguments)?
        };
        Ok(Plan::Call(Box::new(function)))
    }

    fn over_window(
        name: &str,
        function: OverWindow,
        arguments: &Arguments<'_>,
    ) -> Result<Self, QueryError> {
        let (window, parameter) = match name {
            "quantile_over_time" => (1, arguments.scalar(0)?),
            "predict_linear" => (0, arguments.scalar(1)?),
            _ => (0, Plan::Number(f64::NAN)),
        };
        // These two return a sample unchanged, so the metric's name still fits.
        let keeps_name = matches!(name, "first_over_time" | "last_over_time");
        let source = arguments.window(window)?;
        Ok(Self::OverWindow { function, source, parameter, keeps_name })
    }

    fn other(name: &str, arguments: &Arguments<'_>) -> Result<Self, QueryError> {
        let vector = |place| arguments.vector(place);
        let scalar = |place| arguments.scalar(place);
        Ok(match name {
            "absent" => Self::Absent { vector: vector(0)?, labels: arguments.absent_labels() },
            "absent_over_time" => {
                let labels = arguments.absent_labels();
                Self::AbsentOverTime { source: arguments.window(0)?, labels }
            }
            "scalar" => Self::Scalar { vector: vector(0)? },
            "vector" => Self::Vector { scalar: scalar(0)? },
            "time" => Self::Time,
            "timestamp" => match vector(0)? {
                Plan::Select(selection) => Self::SampleTime { selection },
                vector => Self::EvaluationTime { vector },
            },
            "sort" => Self::Sort { vector: vector(0)?, is_descending: false },
            "sort_desc" => Self::Sort { vector: vector(0)?, is_descending: true },
            "clamp" => Self::Clamp { vector: vector(0)?, min: scalar(1)?, max: scalar(2)? },
            "clamp_min" => {
                let max = Plan::Number(f64::INFINITY);
                Self::Clamp { vector: vector(0)?, min: scalar(1)?, max }
            }
            "clamp_max" => {
                let min = Plan::Number(f64::NEG_INFINITY);
                Self::Clamp { vector: vector(0)?, min, max: scalar(1)? }
            }
            "round" => {
                let has_nearest = arguments.count() > 1;
                let nearest = if has_nearest { scalar(1)? } else { Plan::Number(1.0) };
                Self::Round { vector: vector(0)?, nearest }
            }
            "histogram_quantile" => {
                Self::HistogramQuantile { quantile: scalar(0)?, buckets: vector(1)? }
            }
            "histogram_fraction" => {
                let (lower, upper) = (scalar(0)?, scalar(1)?);
                Self::HistogramFraction { lower, upper, buckets: vector(2)? }
            }
            "label_replace" => Self::label_replace(arguments)?,
            "label_join" => Self::label_join(arguments)?,
            _ => return Err(unsupported(&format!("the function {name}()"))),
        })
    }

    fn label_replace(arguments: &Arguments<'_>) -> Result<Self, QueryError> {
        let expression = arguments.text(4)?;
        let pattern = Regex::new(&format!("^(?s:{expression})$")).map_err(|_| {
            QueryError::execution(format!(
                "label_replace(): `{expression}` is no regular expression"
            ))
        })?;
        Ok(Self::LabelReplace {
            vector: arguments.vector(0)?,
            target: arguments.label(1)?,
            replacement: arguments.text(2)?,
            source: arguments.text(3)?,
            pattern,
        })
    }

    fn label_join(arguments: &Arguments<'_>) -> Result<Self, QueryError> {
        let sources = (3..arguments.count()).map(|place| arguments.label(place));
        Ok(Self::LabelJoin {
            vector: arguments.vector(0)?,
            target: arguments.label(1)?,
            separator: arguments.text(2)?,
            sources: sources.collect::<Result<_, _>>()?,
        })
    }

    pub(super) fn value(&self, cx: &Evaluator, now_ms: i64) -> Result<Value, QueryError> {
        let scalar = |plan| cx.scalar(plan, now_ms);
        let vector = |plan| cx.vector(plan, now_ms);
        let samples = match self {
            Self::Scalar { vector: plan } => return Ok(Value::Scalar(only_value(&vector(plan)?))),
            Self::Time => return Ok(Value::Scalar(seconds(now_ms))),
            // Neither changes a value or a label, so no duplicates can arise.
            Self::Sort { vector: plan, is_descending } => {
                return Ok(Value::Vector(sorted(vector(plan)?, *is_descending)));
            }
            Self::Vector { scalar: plan } => vec![unlabelled(scalar(plan)?)],
            Self::Math { function, vector: plan } => each(vector(plan)?, function),
            Self::Calendar { function, vector: None } => {
                vec![unlabelled(tables::read_calendar(*function, seconds(now_ms)))]
            }
            Self::Calendar { function, vector: Some(plan) } => {
                each(vector(plan)?, |value| tables::read_calendar(*function, value))
            }
            Self::OverWindow { function, source, parameter, keeps_name } => {
                let parameter = scalar(parameter)?;
                cx.over_window(*function, source, parameter, now_ms, *keeps_name)?
            }
            Self::Absent { vector: plan, labels } => absent(vector(plan)?.is_empty(), labels),
            Self::AbsentOverTime { source, labels } => {
                absent(cx.windows(source, now_ms)?.is_empty(), labels)
            }
            Self::SampleTime { selection } => cx.sample_times(selection, now_ms)?,
            Self::EvaluationTime { vector: plan } => each(vector(plan)?, |_| seconds(now_ms)),
            Self::Clamp { vector: plan, min, max } => {
                clamp(vector(plan)?, scalar(min)?, scalar(max)?)
            }
            Self::Round { vector: plan, nearest } => {
                // The inverse loses fewer digits: a tenth has no exact form, ten has.
                let inverse = 1.0 / scalar(nearest)?;
                each(vector(plan)?, |value| (value * inverse + 0.5).floor() / inverse)
            }
            Self::HistogramQuantile { quantile, buckets } => {
                histogram::ask(vector(buckets)?, Question::Quantile(scalar(quantile)?))
            }
            Self::HistogramFraction { lower, upper, buckets } => {
                let (lower, upper) = (scalar(lower)?, scalar(upper)?);
                histogram::ask(vector(buckets)?, Question::Fraction { lower, upper })
            }
            Self::LabelReplace { vector: plan, .. } | Self::LabelJoin { vector: plan, .. } => {
                let samples = vector(plan)?.into_iter();
                let relabel =
                    |Sample { labels, value }| Sample { labels: self.relabel(labels), value };
                samples.map(relabel).collect()
            }
        };
        unique(samples).map(Value::Vector)
    }

    /// The new labels of `label_replace` and `label_join`.
    fn relabel(&self, labels: Labels) -> Labels {
        match self {
            Self::LabelReplace { target, replacement, source, pattern, .. } => {
                let Some(captures) = pattern.captures(labels.get(source)) else { return labels };
                let mut value = String::new();
                captures.expand(replacement, &mut value);
                drop(captures);
                labels.with(target, &value)
            }
            Self::LabelJoin { target, separator, sources, .. } => {
                let values: Vec<_> = sources.iter().map(|source| labels.get(source)).collect();
                let joined = values.join(separator);
                labels.with(target, &joined)
            }
            _ => labels,
        }
    }
}

// === impl Arguments ===

impl Arguments<'_> {
    fn count(&self) -> usize {
        self.call.args.len()
    }

    fn scalar(&self, place: usize) -> Result<Plan, QueryError> {
        self.plan(place, ValueType::Scalar)
    }

    fn vector(&self, place: usize) -> Result<Plan, QueryError> {
        self.plan(place, ValueType::Vector)
    }

    fn window(&self, place: usize) -> Result<WindowSource, QueryError> {
        match self.plan(place, ValueType::Matrix)? {
            Plan::Window(source) => Ok(source),
            _ => Err(self.wrong(place, ValueType::Matrix)),
        }
    }

    fn text(&self, place: usize) -> Result<String, QueryError> {
        match self.plan(place, ValueType::String)? {
            Plan::Text(text) => Ok(text),
            _ => Err(self.wrong(place, ValueType::String)),
        }
    }

    fn label(&self, place: usize) -> Result<String, QueryError> {
        let name = self.text(place)?;
        if name.is_empty() {
            let function = self.call.func.name;
            return Err(QueryError::execution(format!("{function}(): a label needs a name")));
        }
        Ok(name)
    }

    fn absent_labels(&self) -> Labels {
        self.call.args.args.first().map_or_else(Labels::default, |first| absent_labels(first))
    }

    fn plan(&self, place: usize, wanted: ValueType) -> Result<Plan, QueryError> {
        let argument: Option<&Expr> = self.call.args.args.get(place).map(AsRef::as_ref);
        let argument = argument.filter(|argument| argument.value_type() == wanted);
        let argument = argument.ok_or_else(|| self.wrong(place, wanted))?;
        self.planner.node(argument, self.depth)
    }

    fn wrong(&self, place: usize, wanted: ValueType) -> QueryError {
        let (name, number) = (self.call.func.name, place + 1);
        QueryError::bad_data(format!("argument {number} of {name}() must be a {wanted}"))
    }
}

/// Checks that all elements have different labels.
pub(super) fn unique(samples: Vec<Sample>) -> Result<Vec<Sample>, QueryError> {
    let mut seen: Vec<_> = samples.iter().map(|sample| &sample.labels).collect();
    seen.sort_unstable();
    if let Some([labels, _]) = seen.windows(2).find(|pair| matches!(pair, [a, b] if a == b)) {
        let message = format!("the result would hold {labels} more than once");
        return Err(QueryError::execution(message));
    }
    Ok(samples)
}

fn each(samples: Vec<Sample>, function: impl Fn(f64) -> f64) -> Vec<Sample> {
    let apply =
        |Sample { labels, value }| Sample { labels: labels.unnamed(), value: function(value) };
    samples.into_iter().map(apply).collect()
}

fn unlabelled(value: f64) -> Sample {
    Sample { labels: Labels::default(), value }
}

fn only_value(samples: &[Sample]) -> f64 {
    match samples {
        [only] => only.value,
        _ => f64::NAN,
    }
}

fn absent(is_absent: bool, labels: &Labels) -> Vec<Sample> {
    let sample = Sample { labels: labels.clone(), value: 1.0 };
    is_absent.then_some(sample).into_iter().collect()
}

fn clamp(samples: Vec<Sample>, min: f64, max: f64) -> Vec<Sample> {
    if max < min {
        return Vec::new();
    }
    each(samples, |value| greater(min, lesser(max, value)))
}

/// Sorted by value; NaN comes last in both directions.
fn sorted(mut samples: Vec<Sample>, is_descending: bool) -> Vec<Sample> {
    let sign = if is_descending { -1.0 } else { 1.0 };
    samples.sort_by(|a, b| nan_last(a.value * sign, b.value * sign));
    samples
}
