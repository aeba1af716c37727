//! Rows of custom resources, by the printer columns of their definition.
//!
//! A column whose path finds no value, or a value of the wrong type, has a `null` cell. A path that
//! does not parse ends the list of columns, because the real server stops at the first invalid one.

use jiff::Timestamp;
use serde_json::{Number, Value};

use super::{Column, Definition, NAME, read};
use crate::jsonpath::Path;

/// One entry of `additionalPrinterColumns`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PrinterColumn {
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub type_: String,
    pub format: String,
    pub description: String,
    /// 0 is always shown, higher ones only in wide tables.
    pub priority: i32,
    pub json_path: String,
}

/// The printer columns of one version of a custom resource, with their paths parsed.
#[derive(Debug, Clone)]
pub(crate) struct CustomColumns(Vec<(Column, Path)>);

// === impl PrinterColumn ===

impl PrinterColumn {
    /// Parses an entry of `additionalPrinterColumns`.
    pub fn from_json(column: &Value) -> Self {
        let text = |key: &str| column[key].as_str().unwrap_or_default().to_owned();
        let priority = column["priority"].as_i64().unwrap_or_default();
        Self {
            name: text("name"),
            type_: text("type"),
            format: text("format"),
            description: text("description"),
            priority: i32::try_from(priority).unwrap_or(i32::MAX),
            json_path: text("jsonPath"),
        }
    }

    fn age() -> Self {
        Self {
            name: "Age".to_owned(),
            type_: "date".to_owned(),
            description: super::AGE.3.to_owned(),
            json_path: ".metadata.creationTimestamp".to_owned(),
            ..Self::default()
        }
    }

    fn into_column(self) -> Column {
        let Self { name, type_, format, description, priority, json_path } = self;
        let described = if description.is_empty() {
            format!("Custom resource definition column (in JSONPath format): {json_path}")
        } else {
            description
        };
        Column { name, type_, format, description: described, priority }
    }
}

// === impl CustomColumns ===

impl CustomColumns {
    /// With no columns given there is one, the age.
    pub(crate) fn new(mut columns: Vec<PrinterColumn>) -> Self {
        if columns.is_empty() {
            columns.push(PrinterColumn::age());
        }
        let parsed = columns.into_iter().map_while(|column| {
            let path = Path::parse(&column.json_path).ok()?;
            Some((column.into_column(), path))
        });
        Self(parsed.collect())
    }

    pub(super) fn columns(&self) -> Vec<Column> {
        let name = Definition::to_column(NAME);
        std::iter::once(name).chain(self.0.iter().map(|(column, _)| column.clone())).collect()
    }

    pub(super) fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let declared = self.0.iter().map(|(column, path)| match path.first(object) {
            Some(value) => cell(&column.type_, value, now),
            None => Value::Null,
        });
        std::iter::once(read::name(object)).chain(declared).collect()
    }
}

fn cell(type_: &str, value: &Value, now: Timestamp) -> Value {
    match (type_, value) {
        ("string", value) => printed(value).into(),
        ("integer", Value::Number(number)) => whole(number).map_or(Value::Null, Into::into),
        ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) => value.clone(),
        ("date", Value::String(text)) => date(text, now).into(),
        _ => Value::Null,
    }
}

fn date(text: &str, now: Timestamp) -> String {
    match text.parse() {
        _ if text.is_empty() || text == "null" => "<unknown>".to_owned(),
        Ok(then) => read::between(then, now),
        Err(_) => "<invalid>".to_owned(),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "as the real server, cut towards zero")]
fn whole(number: &Number) -> Option<i64> {
    number.as_i64().or_else(|| number.as_f64().map(|broken| broken as i64))
}

/// A value in a string column: scalars in Go's formatting, anything else as JSON.
fn printed(value: &Value) -> String {
    match value {
        Value::Null => "<no value>".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => float(number.as_f64().unwrap_or_default()),
        Value::Number(number) => number.to_string(),
        Value::Array(_) | Value::Object(_) => {
            // Go escapes these three in JSON, so that browsers do not parse it as HTML.
            let text = value.to_string();
            text.replace('&', "\\u0026").replace('<', "\\u003c").replace('>', "\\u003e")
        }
    }
}

/// The shortest text of a number; with an exponent from 1e+06 on and below 1e-04.
fn float(number: f64) -> String {
    let scientific = format!("{number:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    match exponent.parse::<i32>() {
        Ok(exponent) if !(-4..6).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.abs())
        }
        _ => number.to_string(),
    }
}
