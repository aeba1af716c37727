//! Compiles a syntax tree into a plan: names resolved, series found, arguments checked.
//!
//! A plan holds the series as of its creation, so all steps of a query agree. Unsupported
//! expressions are refused here by name; evaluation can only run out of its budget.

use std::time::{Duration, SystemTime};

use promql_parser::{
    label::{MatchOp, Matchers},
    parser::{
        AggregateExpr, AtModifier, BinaryExpr, Expr, LabelModifier, Offset, SubqueryExpr,
        VectorMatchCardinality, VectorSelector, token,
    },
};

use super::{
    aggregate::{Grouping, Operator as Reduction},
    binary::{Cardinality, Matching, Operator},
    database::{Database, Found},
    functions::Call,
    labels::{Labels, METRIC_NAME},
    query::{QueryError, TIME_MS_MAX},
};

/// An expression that can be evaluated.
#[derive(Debug)]
pub(super) enum Plan {
    Number(f64),
    Text(String),
    /// The newest sample of each series.
    Select(Selection),
    /// All samples of each series in a window.
    Window(WindowSource),
    Negate(Box<Plan>),
    Binary(Box<Binary>),
    Aggregate(Box<Aggregate>),
    Call(Box<Call>),
}

/// Series, and their evaluation time.
#[derive(Debug)]
pub(super) struct Selection {
    pub(super) series: Vec<Found>,
    pub(super) reference: Reference,
}

/// Source of a window's samples.
#[derive(Debug)]
pub(super) struct WindowSource {
    pub(super) samples: Samples,
    pub(super) reference: Reference,
    pub(super) range_ms: i64,
}

#[derive(Debug)]
pub(super) enum Samples {
    Stored(Vec<Found>),
    /// A subquery, evaluated at intervals.
    Computed {
        plan: Box<Plan>,
        step_ms: i64,
    },
}

/// A time relative to the evaluation, unless it is fixed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reference {
    fixed_ms: Option<i64>,
    offset_ms: i64,
}

#[derive(Debug)]
pub(super) struct Binary {
    pub(super) operator: Operator,
    pub(super) returns_bool: bool,
    pub(super) matching: Matching,
    pub(super) left: Plan,
    pub(super) right: Plan,
}

#[derive(Debug)]
pub(super) struct Aggregate {
    pub(super) operator: Reduction,
    pub(super) parameter: Option<Plan>,
    pub(super) grouping: Grouping,
    pub(super) vector: Plan,
}

/// Builds plans over a database, for a query over these times.
#[derive(Debug, Clone, Copy)]
pub(super) struct Planner<'d> {
    pub(super) database: &'d Database,
    pub(super) start_ms: i64,
    pub(super) end_ms: i64,
}

/// Deeper than any useful query, and safe for a thread's stack.
const DEPTH_MAX: usize = 200;

/// Default resolution of a subquery, as in Prometheus.
const SUBQUERY_STEP_MS: i64 = 60_000;

/// The longest duration that Prometheus can represent, about 292 years.
const DURATION_MS_MAX: i64 = 9_223_372_036_854;

// === impl Reference ===

impl Reference {
    pub(super) fn at_ms(self, now_ms: i64) -> i64 {
        self.fixed_ms.unwrap_or(now_ms) - self.offset_ms
    }
}

// === impl Planner ===

impl Planner<'_> {
    pub(super) fn plan(&self, expression: &Expr) -> Result<Plan, QueryError> {
        self.node(expression, DEPTH_MAX)
    }

    pub(super) fn node(&self, expression: &Expr, depth: usize) -> Result<Plan, QueryError> {
        let Some(depth) = depth.checked_sub(1) else {
            let message = format!("the query is nested more than {DEPTH_MAX} levels deep");
            return Err(QueryError::bad_data(message));
        };
        match expression {
            Expr::NumberLiteral(literal) => Ok(Plan::Number(literal.val)),
            Expr::StringLiteral(literal) => Ok(Plan::Text(literal.val.clone())),
            Expr::Paren(inner) => self.node(&inner.expr, depth),
            Expr::Unary(inner) => Ok(Plan::Negate(Box::new(self.node(&inner.expr, depth)?))),
            Expr::VectorSelector(selector) => self.selection(selector).map(Plan::Select),
            Expr::MatrixSelector(selector) => {
                let Selection { series, reference } = self.selection(&selector.vs)?;
                let range_ms = window_ms(selector.range)?;
                let samples = Samples::Stored(series);
                Ok(Plan::Window(WindowSource { samples, reference, range_ms }))
            }
            Expr::Subquery(subquery) => self.subquery(subquery, depth).map(Plan::Window),
            Expr::Binary(binary) => self.binary(binary, depth),
            Expr::Aggregate(aggregate) => self.aggregate(aggregate, depth),
            Expr::Call(call) => Call::plan(self, call, depth),
            Expr::Extension(_) => Err(unsupported("extended syntax")),
        }
    }

    fn selection(&self, selector: &VectorSelector) -> Result<Selection, QueryError> {
        let reference = self.reference(selector.at.as_ref(), selector.offset.as_ref())?;
        let series = find(self.database, selector)?;
        Ok(Selection { series, reference })
    }

    fn subquery(&self, expr: &SubqueryExpr, depth: usize) -> Result<WindowSource, QueryError> {
        let reference = self.reference(expr.at.as_ref(), expr.offset.as_ref())?;
        let range_ms = window_ms(expr.range)?;
        let step_ms = expr.step.map(window_ms).transpose()?.unwrap_or(SUBQUERY_STEP_MS);
        let plan = Box::new(self.node(&expr.expr, depth)?);
        Ok(WindowSource { samples: Samples::Computed { plan, step_ms }, reference, range_ms })
    }

    fn reference(
        &self,
        at: Option<&AtModifier>,
        offset: Option<&Offset>,
    ) -> Result<Reference, QueryError> {
        let fixed_ms = match at {
            None => None,
            Some(AtModifier::Start) => Some(self.start_ms),
            Some(AtModifier::End) => Some(self.end_ms),
            Some(AtModifier::At(time)) => Some(time_ms(*time)?),
        };
        let offset_ms = match offset {
            None => 0,
            Some(Offset::Pos(duration)) => duration_ms(*duration)?,
            Some(Offset::Neg(duration)) => -duration_ms(*duration)?,
        };
        Ok(Reference { fixed_ms, offset_ms })
    }

    fn binary(&self, expression: &BinaryExpr, depth: usize) -> Result<Plan, QueryError> {
        let name = expression.op.to_string();
        let operator = Operator::named(&name).ok_or_else(|| unsupported(&name))?;
        let modifier = expression.modifier.as_ref();
        let fill = modifier.map(|modifier| &modifier.fill_values);
        if fill.is_some_and(|fill| fill.lhs.is_some() || fill.rhs.is_some()) {
            return Err(unsupported("fill"));
        }
        let (on, ignoring) = match modifier.and_then(|modifier| modifier.matching.as_ref()) {
            None => (None, vec![METRIC_NAME.to_owned()]),
            Some(LabelModifier::Include(names)) => (Some(names.labels.clone()), Vec::new()),
            Some(LabelModifier::Exclude(names)) => {
                (None, names.labels.iter().cloned().chain([METRIC_NAME.to_owned()]).collect())
            }
        };
        let cardinality = match modifier.map(|modifier| &modifier.card) {
            None | Some(VectorMatchCardinality::OneToOne | VectorMatchCardinality::ManyToMany) => {
                Cardinality::OneToOne
            }
            Some(VectorMatchCardinality::ManyToOne(included)) => {
                Cardinality::ManyToOne { included: included.labels.clone() }
            }
            Some(VectorMatchCardinality::OneToMany(included)) => {
                Cardinality::OneToMany { included: included.labels.clone() }
            }
        };
        Ok(Plan::Binary(Box::new(Binary {
            operator,
            returns_bool: modifier.is_some_and(|modifier| modifier.return_bool),
            matching: Matching { on, ignoring, cardinality },
            left: self.node(&expression.lhs, depth)?,
            right: self.node(&expression.rhs, depth)?,
        })))
    }

    fn aggregate(&self, expression: &AggregateExpr, depth: usize) -> Result<Plan, QueryError> {
        let operator = match expression.op.id() {
            token::T_SUM => Reduction::Sum,
            token::T_AVG => Reduction::Average,
            token::T_COUNT => Reduction::Count,
            token::T_MIN => Reduction::Min,
            token::T_MAX => Reduction::Max,
            token::T_GROUP => Reduction::Group,
            token::T_STDDEV => Reduction::Deviation,
            token::T_STDVAR => Reduction::Variance,
            token::T_QUANTILE => Reduction::Quantile,
            token::T_TOPK => Reduction::Top,
            token::T_BOTTOMK => Reduction::Bottom,
            token::T_COUNT_VALUES => Reduction::CountValues,
            _ => return Err(unsupported(&expression.op.to_string())),
        };
        let grouping = match &expression.modifier {
            None => Grouping::By(Vec::new()),
            Some(LabelModifier::Include(names)) => Grouping::By(names.labels.clone()),
            Some(LabelModifier::Exclude(names)) => {
                let gone = names.labels.iter().cloned().chain([METRIC_NAME.to_owned()]);
                Grouping::Without(gone.collect())
            }
        };
        let parameter = expression.param.as_ref();
        let parameter = parameter.map(|parameter| self.node(parameter, depth)).transpose()?;
        let vector = self.node(&expression.expr, depth)?;
        let aggregate = Aggregate { operator, parameter, grouping, vector };
        Ok(Plan::Aggregate(Box::new(aggregate)))
    }
}

/// The series that a selector matches.
pub(super) fn find(
    database: &Database,
    selector: &VectorSelector,
) -> Result<Vec<Found>, QueryError> {
    let Matchers { matchers, or_matchers } = &selector.matchers;
    if !or_matchers.is_empty() {
        return Err(unsupported("`or` between matchers"));
    }
    Ok(database.select(|labels| {
        selector.name.as_ref().is_none_or(|name| labels.get(METRIC_NAME) == name)
            && matchers.iter().all(|matcher| matcher.is_match(labels.get(&matcher.name)))
    }))
}

/// The labels that a missing series would certainly have.
pub(super) fn absent_labels(expression: &Expr) -> Labels {
    let matchers = match expression {
        Expr::Paren(inner) => return absent_labels(&inner.expr),
        Expr::VectorSelector(selector) => &selector.matchers,
        Expr::MatrixSelector(selector) => &selector.vs.matchers,
        _ => return Labels::default(),
    };
    let mut labels = Labels::default();
    let mut seen = Vec::new();
    for matcher in &matchers.matchers {
        let is_certain = matches!(matcher.op, MatchOp::Equal) && !seen.contains(&&matcher.name);
        if is_certain {
            seen.push(&matcher.name);
        }
        labels = labels.with(&matcher.name, if is_certain { &matcher.value } else { "" });
    }
    labels.unnamed()
}

pub(super) fn unsupported(what: &str) -> QueryError {
    QueryError::bad_data(format!("{what} is not supported"))
}

/// The length of a window or the resolution of a subquery; zero is refused.
fn window_ms(duration: Duration) -> Result<i64, QueryError> {
    match duration_ms(duration)? {
        0 => Err(QueryError::bad_data("a duration must be greater than 0")),
        ms => Ok(ms),
    }
}

fn duration_ms(duration: Duration) -> Result<i64, QueryError> {
    let ms = i64::try_from(duration.as_millis()).ok().filter(|ms| *ms <= DURATION_MS_MAX);
    ms.ok_or_else(|| QueryError::bad_data("a duration is out of range"))
}

fn time_ms(time: SystemTime) -> Result<i64, QueryError> {
    let ms = |duration: Duration| {
        i64::try_from(duration.as_millis()).ok().filter(|ms| *ms <= TIME_MS_MAX)
    };
    let ms = match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => ms(after),
        Err(before) => ms(before.duration()).map(|ms| -ms),
    };
    ms.ok_or_else(|| QueryError::bad_data("the time after @ is out of range"))
}
