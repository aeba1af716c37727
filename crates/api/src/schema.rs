//! Building blocks of the schemas, for fields whose Rust type differs from the CRD's.
//!
//! The marker types stand in for a field's type with `#[schemars(with = "...")]`; they are never
//! built. The functions make the values of `x-kubernetes-validations` and of `oneOf`.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

/// Key under which a field's stored default waits until [`crate::crd`] has dropped the defaults
/// that only serde knows about.
pub(crate) const STORED_DEFAULT: &str = "storedDefault";

/// `type: number`, also for fields that must decode to an integer: Flagger's schema says so, and a
/// stricter one would refuse objects it accepts.
pub(crate) struct Number;

/// `type: integer` without a format, where Flagger's schema has none.
pub(crate) struct Integer;

/// An integer or a text, without further rules.
pub(crate) struct IntOrText;

/// A number of pods, absolute or as a percentage.
pub(crate) struct PodShare;

/// A Go duration, or nothing.
pub(crate) struct DurationText;

/// A time in RFC 3339.
pub(crate) struct Timestamp;

/// One CEL rule with the message for users who break it.
pub(crate) fn rule(rule: &str, message: &str) -> Value {
    json!({ "rule": rule, "message": message })
}

/// The same, for a rule that is asked of a whole object but is about one member of it.
pub(crate) fn rule_at(field_path: &str, rule: &str, message: &str) -> Value {
    json!({ "fieldPath": field_path, "rule": rule, "message": message })
}

/// `oneOf` over members of which exactly one must be present.
pub(crate) fn exactly_one_of(members: &[&str]) -> Value {
    members.iter().map(|member| json!({ "required": [member] })).collect()
}

/// `oneOf` over members of which at most one may be present.
pub(crate) fn at_most_one_of(members: &[&str]) -> Value {
    let any: Vec<_> = members.iter().map(|member| json!({ "required": [member] })).collect();
    let none = json!({ "not": { "anyOf": any } });
    std::iter::once(none).chain(any).collect()
}

/// `oneOf` over sets of members of which exactly one must be complete.
pub(crate) fn one_set_of(sets: &[&[&str]]) -> Value {
    sets.iter().map(|set| json!({ "required": set })).collect()
}

macro_rules! marker {
    ($name:ident, $schema:tt) => {
        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    };
}

marker!(Number, { "type": "number" });
marker!(Integer, { "type": "integer" });
marker!(IntOrText, { "x-kubernetes-int-or-string": true });
marker!(Timestamp, { "type": "string", "format": "date-time" });
marker!(PodShare, {
    "x-kubernetes-int-or-string": true,
    // The bound keeps the estimated cost of the rule small; `100%` has four characters.
    "maxLength": 10,
    "x-kubernetes-validations": [rule(
        r#"type(self) == int ? self >= 0 : self.matches("^(100|[1-9]?[0-9])%$")"#,
        "must be a number of pods that is not negative, or a percentage from 0% to 100%",
    )],
});
marker!(DurationText, {
    "type": "string",
    // Go prints its longest duration in 26 characters; this leaves room for odd spellings.
    "maxLength": 64,
    "x-kubernetes-validations": [rule(
        "self.matches(\"^([+-]?(0|(([0-9]+([.][0-9]*)?|[.][0-9]+)\
         (ns|us|\u{b5}s|\u{3bc}s|ms|s|m|h))+))?$\")",
        "must be a duration such as 90s, 1h30m or 1.5m (units: ns, us, ms, s, m, h)",
    )],
});
