//! Times as objects have them: whole seconds, in UTC.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;
use tidegate_engine::Moment;

/// As an object has it.
pub(super) fn text(moment: Moment) -> String {
    stamp(moment).to_string()
}

/// As a typed object has it.
pub(super) fn time(moment: Moment) -> Time {
    Time(stamp(moment))
}

/// As the engine has it.
pub(super) fn moment(time: &Time) -> Moment {
    Moment(time.0.as_millisecond())
}

/// The time in an object, if it is one.
pub(super) fn read(value: &Value) -> Option<Moment> {
    let time: Timestamp = value.as_str()?.parse().ok()?;
    Some(Moment(time.as_millisecond()))
}

fn stamp(moment: Moment) -> Timestamp {
    Timestamp::from_second(moment.0.div_euclid(1000)).unwrap_or(Timestamp::UNIX_EPOCH)
}
