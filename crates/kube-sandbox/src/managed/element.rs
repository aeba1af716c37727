//! One step of a path into an object: a field, a list item by its key or value, or an index.
//!
//! Elements have a total order, by which field sets are sorted, and two spellings: the one of
//! `fieldsV1` (`f:spec`, `k:{"name":"app"}`, `v:"x"`, `i:0`) and the one in conflict messages
//! (`.spec`, `[name="app"]`, `[="x"]`, `[0]`).

use std::{cmp::Ordering, fmt};

use serde_json::{Number, Value};

/// One step from a value to a part of it.
#[derive(Debug, Clone)]
pub(crate) enum PathElement {
    /// Member of an object.
    Field(Box<str>),
    /// The item of a list whose keys have these values; sorted by key.
    Key(Box<[(Box<str>, Value)]>),
    /// The item of a set that equals this scalar.
    Value(Box<Value>),
    /// The item at this position, in lists without better identities.
    Index(i64),
}

// === impl PathElement ===

impl PathElement {
    pub(crate) fn field(name: &str) -> Self {
        Self::Field(name.into())
    }

    /// Parses the `fieldsV1` spelling. `None` for element types that this version does not know,
    /// which are skipped rather than refused.
    pub(super) fn decode(text: &str) -> Result<Option<Self>, String> {
        let mut parts = text.splitn(2, ':');
        let (Some(kind), Some(rest)) = (parts.next(), parts.next()) else {
            return Err(format!("missing colon: {text}"));
        };
        let unreadable = |error| format!("parsing key as path element: {error}");
        Ok(match kind {
            "f" => Some(Self::field(rest)),
            "v" => Some(Self::Value(serde_json::from_str(rest).map_err(unreadable)?)),
            "i" => {
                let index = rest.parse().map_err(|_| format!("invalid index: {text}"))?;
                Some(Self::Index(index))
            }
            "k" => {
                let keys: serde_json::Map<String, Value> =
                    serde_json::from_str(rest).map_err(unreadable)?;
                Some(Self::key(keys.into_iter().map(|(key, value)| (key.into(), value)).collect()))
            }
            _ => None,
        })
    }

    pub(super) fn key(mut keys: Vec<(Box<str>, Value)>) -> Self {
        keys.sort_by(|(left, _), (right, _)| left.cmp(right));
        Self::Key(keys.into())
    }

    /// The spelling of `fieldsV1`.
    pub(super) fn encode(&self) -> String {
        match self {
            Self::Field(name) => {
                let mut text = String::with_capacity(2 + name.len());
                text.push_str("f:");
                text.push_str(name);
                text
            }
            Self::Key(keys) => {
                let pair = |(key, value): &(Box<str>, Value)| {
                    format!("{}:{value}", Value::from(key.as_ref()))
                };
                let pairs: Vec<_> = keys.iter().map(pair).collect();
                format!("k:{{{}}}", pairs.join(","))
            }
            Self::Value(value) => format!("v:{value}"),
            Self::Index(index) => format!("i:{index}"),
        }
    }

    /// Compares with `Field(name)` without allocating one.
    pub(super) fn cmp_field(&self, name: &str) -> Ordering {
        match self {
            Self::Field(own) => own.as_ref().cmp(name),
            Self::Key(_) | Self::Value(_) | Self::Index(_) => Ordering::Greater,
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

impl Ord for PathElement {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(left), Self::Field(right)) => left.cmp(right),
            (Self::Key(left), Self::Key(right)) => compare_keys(left, right),
            (Self::Value(left), Self::Value(right)) => compare_values(left, right),
            (Self::Index(left), Self::Index(right)) => left.cmp(right),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for PathElement {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PathElement {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for PathElement {}

impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(keys) => {
                let pair =
                    |(key, value): &(Box<str>, Value)| format!("{key}={}", shown_value(value));
                let pairs: Vec<_> = keys.iter().map(pair).collect();
                write!(f, "[{}]", pairs.join(","))
            }
            Self::Value(value) => write!(f, "[={}]", shown_value(value)),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// Equality that treats `1` and `1.0` as the same, like JSON writers of clients.
pub(super) fn same(left: &Value, right: &Value) -> bool {
    left == right || compare_values(left, right) == Ordering::Equal
}

fn compare_keys(left: &[(Box<str>, Value)], right: &[(Box<str>, Value)]) -> Ordering {
    let pairs = left.iter().zip(right).map(|((left_key, left_value), (right_key, right_value))| {
        left_key.cmp(right_key).then_with(|| compare_values(left_value, right_value))
    });
    first_difference(pairs).then(left.len().cmp(&right.len()))
}

/// A total order: numbers by value, then text, booleans, lists, objects, null.
fn compare_values(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => compare_numbers(left, right),
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        (Value::Array(left), Value::Array(right)) => {
            let pairs = left.iter().zip(right).map(|(left, right)| compare_values(left, right));
            first_difference(pairs).then(left.len().cmp(&right.len()))
        }
        (Value::Object(left), Value::Object(right)) => {
            let pairs = left.iter().zip(right).map(|((left_name, left), (right_name, right))| {
                left_name.cmp(right_name).then_with(|| compare_values(left, right))
            });
            first_difference(pairs).then(left.len().cmp(&right.len()))
        }
        _ => value_rank(left).cmp(&value_rank(right)),
    }
}

fn first_difference(mut pairs: impl Iterator<Item = Ordering>) -> Ordering {
    pairs.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

fn value_rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

/// Exact, also between integers and floats: sorting needs a transitive order.
fn compare_numbers(left: &Number, right: &Number) -> Ordering {
    match (integer(left), integer(right)) {
        (Some(left), Some(right)) => left.cmp(&right),
        (Some(left), None) => compare_with_float(left, float(right)),
        (None, Some(right)) => compare_with_float(right, float(left)).reverse(),
        (None, None) => float(left).total_cmp(&float(right)),
    }
}

/// Whole numbers in any spelling count as integers.
fn integer(number: &Number) -> Option<i128> {
    let written = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
    written.or_else(|| {
        let float = float(number);
        // Beyond 2^100 floats stay floats; every integer JSON holds here is below 2^64.
        let is_whole = float.fract() == 0.0 && float.abs() < 2_f64.powi(100);
        is_whole.then(|| whole(float))
    })
}

fn compare_with_float(integer: i128, float: f64) -> Ordering {
    // `float` has a fraction or is huge; a huge one saturates to the right side of any integer.
    integer.cmp(&whole(float)).then(if float > 0.0 { Ordering::Less } else { Ordering::Greater })
}

#[expect(clippy::cast_possible_truncation, reason = "saturates, which is what comparing needs")]
fn whole(float: f64) -> i128 {
    float.trunc() as i128
}

fn float(number: &Number) -> f64 {
    number.as_f64().unwrap_or_default()
}

fn shown_value(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            let texts: Vec<_> = items.iter().map(shown_value).collect();
            format!("[{}]", texts.join(","))
        }
        Value::Object(members) => {
            let member = |(name, value)| format!("{name}={}", shown_value(value));
            members.iter().map(member).collect::<Vec<_>>().concat()
        }
        Value::String(text) => format!("{text:?}"),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn by_keys(keys: Value) -> PathElement {
        let Value::Object(keys) = keys else { unreachable!() };
        PathElement::key(keys.into_iter().map(|(key, value)| (key.into(), value)).collect())
    }

    #[test]
    fn elements_have_two_spellings() {
        let cases = [
            (PathElement::field("spec"), "f:spec", ".spec"),
            (PathElement::field("a:b"), "f:a:b", ".a:b"),
            (by_keys(json!({"name": "app"})), r#"k:{"name":"app"}"#, r#"[name="app"]"#),
            (
                by_keys(json!({"protocol": "TCP", "containerPort": 80})),
                r#"k:{"containerPort":80,"protocol":"TCP"}"#,
                r#"[containerPort=80,protocol="TCP"]"#,
            ),
            (PathElement::Value(json!("x").into()), r#"v:"x""#, r#"[="x"]"#),
            (PathElement::Value(json!(true).into()), "v:true", "[=true]"),
            (PathElement::Index(3), "i:3", "[3]"),
        ];
        for (element, encoded, shown) in cases {
            assert_eq!(element.encode(), encoded);
            assert_eq!(PathElement::decode(encoded), Ok(Some(element.clone())));
            assert_eq!(element.to_string(), shown);
        }
    }

    #[test]
    fn unknown_elements_are_skipped_and_broken_ones_refused() {
        assert_eq!(PathElement::decode("q:future"), Ok(None));
        for broken in ["", "f", "i:x", "v:{", "k:[]", "k:1"] {
            assert!(PathElement::decode(broken).is_err(), "{broken:?}");
        }
    }

    #[test]
    fn numbers_are_compared_by_what_they_count() {
        assert!(same(&json!(1), &json!(1.0)));
        assert!(same(&json!([{"a": 2.0}]), &json!([{"a": 2}])));
        assert!(!same(&json!(1), &json!("1")));
        assert!(!same(&json!(u64::MAX), &json!(1.8e19)));
    }

    fn any_number() -> impl Strategy<Value = Value> {
        prop_oneof![
            (-3_i64..3).prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_filter("JSON has no others", |f| f.is_finite()).prop_map(Value::from),
            (-3_i8..3).prop_map(|half| Value::from(f64::from(half) / 2.0)),
        ]
    }

    proptest! {
        #[test]
        fn the_order_of_numbers_is_total(a in any_number(), b in any_number(), c in any_number()) {
            prop_assert_eq!(compare_values(&a, &b), compare_values(&b, &a).reverse());
            if compare_values(&a, &b).is_le() && compare_values(&b, &c).is_le() {
                prop_assert!(compare_values(&a, &c).is_le(), "{} {} {}", a, b, c);
            }
        }
    }
}
