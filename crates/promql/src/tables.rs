//! Tables of `PromQL` functions that depend on one number or one window only.

use std::f64::consts::PI;

use jiff::{Timestamp, civil::DateTime, tz::TimeZone};

use super::{
    over_time,
    rate::{self, Window},
};

/// A function of a value.
pub(super) type Math = fn(f64) -> f64;

/// A function of a UTC time.
pub(super) type Calendar = fn(DateTime) -> i16;

/// A function of the samples in a window; `None` if there are too few.
pub(super) type OverWindow = fn(Window<'_>) -> Option<f64>;

const MATH: &[(&str, Math)] = &[
    ("abs", f64::abs),
    ("acos", f64::acos),
    ("acosh", f64::acosh),
    ("asin", f64::asin),
    ("asinh", f64::asinh),
    ("atan", f64::atan),
    ("atanh", f64::atanh),
    ("ceil", f64::ceil),
    ("cos", f64::cos),
    ("cosh", f64::cosh),
    ("deg", |radians| radians * 180.0 / PI),
    ("exp", f64::exp),
    ("floor", f64::floor),
    ("ln", f64::ln),
    ("log10", f64::log10),
    ("log2", f64::log2),
    ("rad", |degrees| degrees * PI / 180.0),
    ("sgn", sign),
    ("sin", f64::sin),
    ("sinh", f64::sinh),
    ("sqrt", f64::sqrt),
    ("tan", f64::tan),
    ("tanh", f64::tanh),
];

const CALENDAR: &[(&str, Calendar)] = &[
    ("day_of_month", |at| at.day().into()),
    ("day_of_week", |at| at.weekday().to_sunday_zero_offset().into()),
    ("day_of_year", DateTime::day_of_year),
    ("days_in_month", |at| at.days_in_month().into()),
    ("hour", |at| at.hour().into()),
    ("minute", |at| at.minute().into()),
    ("month", |at| at.month().into()),
    ("year", DateTime::year),
];

const OVER_WINDOW: &[(&str, OverWindow)] = &[
    ("avg_over_time", |window| Some(over_time::average(window))),
    ("changes", |window| Some(rate::changes(window))),
    ("count_over_time", |window| Some(over_time::count(window))),
    ("delta", rate::delta),
    ("deriv", over_time::slope),
    ("first_over_time", over_time::first),
    ("idelta", rate::idelta),
    ("increase", rate::increase),
    ("irate", rate::irate),
    ("last_over_time", over_time::last),
    ("max_over_time", over_time::max),
    ("min_over_time", over_time::min),
    ("predict_linear", over_time::prediction),
    ("present_over_time", |_| Some(1.0)),
    ("quantile_over_time", |window| Some(over_time::quantile(window))),
    ("rate", rate::rate),
    ("resets", |window| Some(rate::resets(window))),
    ("stddev_over_time", |window| Some(over_time::deviation(window))),
    ("stdvar_over_time", |window| Some(over_time::variance(window))),
    ("sum_over_time", |window| Some(over_time::sum(window))),
];

pub(super) fn math(name: &str) -> Option<Math> {
    find(MATH, name)
}

pub(super) fn calendar(name: &str) -> Option<Calendar> {
    find(CALENDAR, name)
}

pub(super) fn over_window(name: &str) -> Option<OverWindow> {
    find(OVER_WINDOW, name)
}

/// Applies a calendar function to a time in seconds; NaN for a time out of range.
#[expect(clippy::cast_possible_truncation, reason = "the cast saturates, and no year is that far")]
pub(super) fn read_calendar(function: Calendar, seconds: f64) -> f64 {
    let moment = Some(seconds).filter(|seconds| !seconds.is_nan());
    let moment = moment.and_then(|seconds| Timestamp::from_second(seconds as i64).ok());
    moment.map_or(f64::NAN, |at| function(at.to_zoned(TimeZone::UTC).datetime()).into())
}

fn find<F: Copy>(table: &[(&str, F)], name: &str) -> Option<F> {
    table.iter().find(|(known, _)| *known == name).map(|(_, function)| *function)
}

/// One with the sign of a value; zero and NaN stay.
fn sign(value: f64) -> f64 {
    if value < 0.0 {
        -1.0
    } else if value > 0.0 {
        1.0
    } else {
        value
    }
}
