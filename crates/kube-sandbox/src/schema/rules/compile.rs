//! Compiles the rules of a schema, each checked against the type of its node.
//!
//! Called when a schema is compiled. Errors have the texts of cel-go, as in Kubernetes.

use cel::Program;
use serde_json::Value;

use super::{ENVIRONMENT, Reason, Rule, check, measure::Measure, with_room};
use crate::{
    failure::{FieldError, FieldErrorKind},
    schema::{Additional, FieldPath, ListKind, Schema, raw},
};

/// Maximum depth of expressions; the deepest in the Gateway API has 20 levels.
const MAX_DEPTH: usize = 250;

/// Compiles all rules below a node. The schema is usable only without errors.
pub(in crate::schema) fn compile(schema: &mut Schema, raw: &Value, path: &str) -> Vec<FieldError> {
    if !schema.below.rules {
        return Vec::new();
    }
    // The parser itself needs the large stack.
    with_room(usize::MAX, || {
        let mut errors = Vec::new();
        compile_node(
            schema,
            raw,
            Place { path, is_resource: true, uncorrelated: None },
            &mut errors,
        );
        errors
    })
}

#[derive(Clone, Copy)]
struct Place<'a> {
    path: &'a str,
    is_resource: bool,
    /// The nearest ancestor list whose items have no predecessors.
    uncorrelated: Option<&'a str>,
}

fn compile_node(schema: &mut Schema, raw: &Value, place: Place<'_>, errors: &mut Vec<FieldError>) {
    if !schema.below.rules {
        return;
    }
    let mut compiled = Vec::new();
    for (index, rule) in raw::list(raw, "x-kubernetes-validations").iter().enumerate() {
        let path = format!("{}.x-kubernetes-validations[{index}]", place.path);
        match compile_rule(schema, rule, &path, place) {
            Ok(rule) => compiled.push(rule),
            Err(found) => errors.extend(found),
        }
    }
    schema.rules = compiled;
    let mut depth = schema.rules.iter().map(|rule| rule.measure.depth).max().unwrap_or_default();
    for (name, property) in &mut schema.properties {
        let Some(raw) = raw::map(raw, "properties").get(name) else { continue };
        let path = format!("{}.properties[{name}]", place.path);
        let is_resource = property.embedded;
        compile_node(property, raw, Place { path: &path, is_resource, ..place }, errors);
        depth = depth.max(property.below.rule_depth);
    }
    if let (Additional::Each(each), Some(raw)) =
        (&mut schema.additional, raw::child(raw, "additionalProperties"))
    {
        let path = format!("{}.additionalProperties", place.path);
        let is_resource = each.embedded;
        compile_node(each, raw, Place { path: &path, is_resource, ..place }, errors);
        depth = depth.max(each.below.rule_depth);
    }
    if let (Some(items), Some(raw)) = (&mut schema.items, raw::child(raw, "items")) {
        let path = format!("{}.items", place.path);
        let keyed = matches!(schema.list.kind, Some(ListKind::Map(_)));
        let uncorrelated = place.uncorrelated.or((!keyed).then_some(place.path));
        let is_resource = items.embedded;
        compile_node(items, raw, Place { path: &path, is_resource, uncorrelated }, errors);
        depth = depth.max(items.below.rule_depth);
    }
    schema.below.rule_depth = depth;
}

fn compile_rule(
    schema: &Schema,
    rule: &Value,
    path: &str,
    place: Place<'_>,
) -> Result<Rule, Vec<FieldError>> {
    let mut errors = Vec::new();
    let optional_old = raw::flag(rule, "optionalOldSelf");
    let scope = check::Scope { schema, is_resource: place.is_resource, optional_old };
    let source = raw::text(rule, "rule").trim();
    let program = compile_expression(source, scope, check::Want::Bool)
        .map_err(|detail| refused(rule, format!("{path}.rule"), detail));
    let message_source = raw::text(rule, "messageExpression");
    let message_program = (!message_source.is_empty()).then(|| {
        compile_expression(message_source, scope, check::Want::Text).map_err(|detail| {
            let detail = format!("messageExpression {detail}");
            refused(rule, format!("{path}.messageExpression"), detail)
        })
    });
    let program = program.map_err(|error| errors.push(error)).ok();
    let message_program =
        message_program.and_then(|program| program.map_err(|error| errors.push(error)).ok());
    let uses_old =
        program.as_ref().is_some_and(|(program, _)| program.references().has_variable("oldSelf"));
    if let (true, Some(ancestor)) = (uses_old, place.uncorrelated) {
        let detail = format!(
            "oldSelf cannot be used on the uncorrelatable portion of the schema within {ancestor}"
        );
        errors.push(FieldError::invalid(format!("{path}.rule"), &source.into(), detail));
    }
    if let Some(flag) = raw::set(rule, "optionalOldSelf").filter(|_| program.is_some() && !uses_old)
    {
        let detail = "may not be set if oldSelf is not used in rule";
        errors.push(FieldError::invalid(format!("{path}.optionalOldSelf"), flag, detail));
    }
    let (Some((program, measure)), true) = (program, errors.is_empty()) else {
        return Err(errors);
    };
    Ok(Rule {
        program,
        message_program: message_program.map(|(program, _)| program),
        source: source.to_owned(),
        message: raw::text(rule, "message").trim().to_owned(),
        reason: Reason::of(rule),
        field_path: FieldPath::parse(raw::text(rule, "fieldPath"))
            .ok()
            .and_then(|path| path.normalized(schema))
            .filter(|path| !path.is_empty()),
        uses_old,
        optional_old,
        measure,
    })
}

/// An error in a rule prints the whole rule, in the internal form of Kubernetes.
fn refused(rule: &Value, path: String, detail: String) -> FieldError {
    let text = |name: &str| Value::from(raw::text(rule, name));
    let null = Value::Null;
    let shown = format!(
        r#"{{"Rule":{},"Message":{},"MessageExpression":{},"Reason":{},"FieldPath":{},"OptionalOldSelf":{}}}"#,
        text("rule"),
        text("message"),
        text("messageExpression"),
        raw::set(rule, "reason").unwrap_or(&null),
        text("fieldPath"),
        raw::set(rule, "optionalOldSelf").unwrap_or(&null),
    );
    // Go's encoder escapes characters with a meaning in HTML.
    let shown = shown.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
    FieldError { kind: FieldErrorKind::Invalid, path, shown, detail }
}

fn compile_expression(
    source: &str,
    scope: check::Scope<'_>,
    want: check::Want,
) -> Result<(Program, Measure), String> {
    let program = ENVIRONMENT
        .compile(source)
        .map_err(|errors| format!("compilation failed: {errors}").replace("\n| ", "\n | "))?;
    let measure = Measure::of(program.expression());
    if measure.depth > MAX_DEPTH {
        return Err(format!("compilation failed: nesting is deeper than {MAX_DEPTH} levels"));
    }
    let issues = check::check(&program, source, scope, want);
    if issues.is_empty() { Ok((program, measure)) } else { Err(issues) }
}
