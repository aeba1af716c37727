//! Conversion of JSON to CEL values, typed by the schema.
//!
//! Called before a rule runs, once for `self` and once for `oldSelf`. Types follow the schema, not
//! the JSON, as in Kubernetes.

use std::{any::Any, borrow::Cow, collections::HashMap};

use cel::common::{
    types::{CelBool, CelDouble, CelInt, CelList, CelMap, CelMapKey, CelNull, CelString, Type},
    value::{CowVal, StaticVal, Val},
};
use serde_json::{Map, Value};

use super::ENVIRONMENT;
use crate::schema::{Additional, Kind, Kinds, Schema};

const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// A member that rules cannot name. It exists for comparison only: `self == oldSelf` notices a
/// change in preserved unknown fields.
#[derive(Debug)]
struct Hidden(Value);

static HIDDEN: Type = Type::new_unspecified_type("hidden");

/// The value of a node. Parts outside the schema can be compared but not named; a resource always
/// exposes its `apiVersion`, `kind` and names.
pub(super) fn convert<'v>(
    schema: &'v Schema,
    value: &'v Value,
    is_resource: bool,
) -> Box<dyn Val + 'v> {
    match (value, schema.kinds) {
        (Value::Null, _) => Box::new(CelNull),
        (Value::Bool(flag), _) => Box::new(CelBool::from(*flag)),
        (Value::Number(number), Kinds::One(Kind::Number)) => {
            Box::new(CelDouble::from(number.as_f64().unwrap_or_default()))
        }
        (Value::Number(number), _) => convert_number(number),
        (Value::String(text), kinds) => {
            let format = schema.limits.format.as_ref().map_or("", |format| format.name.as_str());
            let is_string = kinds == Kinds::One(Kind::String);
            convert_text(text, if is_string { format } else { "" })
        }
        (Value::Array(list), _) => {
            let items = schema.items.as_deref();
            let each = list.iter().map(|item| match items {
                Some(items) => convert(items, item, items.embedded),
                None => plain(item),
            });
            Box::new(CelList::from(each.collect::<Vec<_>>()))
        }
        (Value::Object(map), _) => convert_object(schema, map, is_resource),
    }
}

/// Whether rules can see values of this schema at all: a value without a type has no CEL type.
pub(super) fn is_exposed(schema: &Schema) -> bool {
    match schema.kinds {
        Kinds::Any => false,
        Kinds::One(Kind::Array) => schema.items.as_deref().is_some_and(is_exposed),
        Kinds::One(Kind::Object) => match &schema.additional {
            Additional::Each(each) => is_exposed(each),
            Additional::Unset | Additional::Allowed(_) => true,
        },
        Kinds::One(_) | Kinds::IntegerOrString => true,
    }
}

/// A property name as an identifier: `my-field` is `my__dash__field`. Some names have none.
pub(super) fn escape(name: &str) -> Option<Cow<'_, str>> {
    let first = name.bytes().next()?;
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./".contains(&byte);
    if first.is_ascii_digit() || !name.bytes().all(allowed) {
        return None;
    }
    if RESERVED.contains(&name) {
        return Some(Cow::Owned(format!("__{name}__")));
    }
    if !name.contains("__") && !name.contains(['-', '.', '/']) {
        return Some(Cow::Borrowed(name));
    }
    let escaped = name
        .replace("__", "\0")
        .replace('-', "__dash__")
        .replace('.', "__dot__")
        .replace('/', "__slash__")
        .replace('\0', "__underscores__");
    Some(Cow::Owned(escaped))
}

fn convert_object<'v>(
    schema: &'v Schema,
    map: &'v Map<String, Value>,
    is_resource: bool,
) -> Box<dyn Val + 'v> {
    let mut members: HashMap<CelMapKey<'v>, Box<dyn Val + 'v>> = HashMap::with_capacity(map.len());
    if let Additional::Each(each) = &schema.additional {
        for (key, value) in map {
            members.insert(key.as_str().into(), convert(each, value, each.embedded));
        }
        return Box::new(CelMap::from(members));
    }
    for (name, value) in map {
        if is_resource && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
            members.insert(name.as_str().into(), convert_meta(value));
            continue;
        }
        // As in Kubernetes: `has` does not find a null.
        let property = schema.properties.get(name).filter(|_| !value.is_null());
        let property = property.filter(|each| is_exposed(each));
        let key = match escape(name) {
            Some(Cow::Borrowed(name)) => Some(CelMapKey::from(name)),
            Some(Cow::Owned(name)) => Some(CelMapKey::from(name)),
            None => None,
        };
        match (property, key) {
            (Some(property), Some(key)) => {
                members.insert(key, convert(property, value, property.embedded));
            }
            _ => hide(&mut members, name, value),
        }
    }
    Box::new(CelMap::from(members))
}

/// Stores a member under a key that is no valid identifier.
fn hide<'v>(members: &mut HashMap<CelMapKey<'v>, Box<dyn Val + 'v>>, name: &str, value: &Value) {
    members.insert(format!("\0{name}").into(), Box::new(Hidden(value.clone())));
}

/// `apiVersion` and `kind` unchanged; of `metadata` the names only.
fn convert_meta(value: &Value) -> Box<dyn Val + '_> {
    let Value::Object(metadata) = value else { return plain(value) };
    let mut names: HashMap<CelMapKey<'_>, Box<dyn Val + '_>> = HashMap::new();
    for (name, value) in metadata {
        if matches!(name.as_str(), "name" | "generateName") {
            names.insert(name.as_str().into(), plain(value));
        } else {
            hide(&mut names, name, value);
        }
    }
    Box::new(CelMap::from(names))
}

/// A value without a schema type.
fn plain(value: &Value) -> Box<dyn Val + '_> {
    match value {
        Value::Null => Box::new(CelNull),
        Value::Array(_) | Value::Object(_) => Box::new(Hidden(value.clone())),
        Value::Bool(flag) => Box::new(CelBool::from(*flag)),
        Value::Number(number) => convert_number(number),
        Value::String(text) => Box::new(CelString::from(text.as_str())),
    }
}

/// A whole number is an `int` in any notation.
#[expect(clippy::cast_possible_truncation, reason = "only whole numbers within range are cast")]
fn convert_number<'v>(number: &serde_json::Number) -> Box<dyn Val + 'v> {
    if let Some(whole) = number.as_i64() {
        return Box::new(CelInt::from(whole));
    }
    match number.as_f64() {
        Some(float) if float.fract() == 0.0 && float.abs() < 9.0e18 => {
            Box::new(CelInt::from(float as i64))
        }
        float => Box::new(CelDouble::from(float.unwrap_or_default())),
    }
}

/// Converts dates to timestamps, durations to durations and base64 to bytes; invalid text stays
/// text.
fn convert_text<'v>(text: &'v str, format: &str) -> Box<dyn Val + 'v> {
    let converted = match format {
        "date-time" => call("timestamp", text.to_owned()),
        "date" => call("timestamp", format!("{text}T00:00:00Z")),
        "duration" => call("duration", text.to_owned()),
        "byte" => call("base64.decode", text.to_owned()),
        _ => None,
    };
    converted.unwrap_or_else(|| Box::new(CelString::from(text)))
}

/// Calls a function of the standard environment on a text.
pub(super) fn call<'v>(function: &str, text: String) -> Option<Box<dyn Val + 'v>> {
    let arguments = vec![CowVal::owned(CelString::from(text))];
    let overload = ENVIRONMENT.find_overload(function, &arguments)?;
    overload(arguments).ok().map(CowVal::into_owned)
}

// === impl Hidden ===

impl Val for Hidden {
    fn get_type(&self) -> &Type {
        <Self as Val>::cel_type()
    }

    fn cel_type() -> &'static Type {
        &HIDDEN
    }

    fn equals(&self, other: &dyn Val) -> bool {
        other.downcast_ref::<Self>().is_some_and(|other| other.0 == self.0)
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v> {
        Box::new(Self(self.0.clone()))
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

impl StaticVal for Hidden {}
