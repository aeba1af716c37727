//! `x-kubernetes-validations`: CEL rules, compiled with the schema and run on each write.
//!
//! A rule sees its node as `self` and, on update, the node's predecessor as `oldSelf`. Both are
//! typed by the schema: integers are `int`, numbers `double`, `date-time` strings timestamps.
//!
//! Rules are untrusted programs, so they are measured before they run: a deeply nested rule runs on
//! a thread with a large stack, one that could loop for too long is refused, and one that panics in
//! the interpreter fails like any other.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, LazyLock},
    thread,
};

use cel::{Context, Env, ExecutionError, Program, common::types::CelOptional};
use serde_json::Value;

use super::{Additional, Kind, Kinds, Schema, path::Path, ratchet, raw, validate};
use crate::failure::{FieldError, FieldErrorKind};

mod check;
mod compile;
mod extra;
mod library;
mod measure;
mod network;
mod values;

pub(super) use compile::compile;

/// The functions and types available to rules.
static ENVIRONMENT: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(library::environment()));

/// Rules up to this depth run on the caller's stack. Measured below 128 KiB of stack in a debug
/// build with optimised dependencies; without, a runtime thread's 2 MiB still suffice.
const INLINE_DEPTH: usize = 24;

/// Stack for the deepest rule that the parser accepts, in a debug build. Untouched pages cost
/// nothing.
const STACK_BYTES: usize = 256 << 20;

/// A rule with a higher bound on its steps for the given value is not run. A step takes some 100
/// ns, so this is a matter of seconds.
const MAX_STEPS: u64 = 50_000_000;

/// Longer messages are replaced by the rule's static one.
const MAX_MESSAGE_BYTES: usize = 5 * 1024;

/// One compiled rule.
#[derive(Debug)]
pub(super) struct Rule {
    program: Program,
    message_program: Option<Program>,
    /// The rule's text, trimmed.
    source: String,
    /// The static message, trimmed.
    message: String,
    reason: Reason,
    /// The field of the error, relative to the node.
    field_path: Option<String>,
    uses_old: bool,
    optional_old: bool,
    measure: measure::Measure,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reason {
    Invalid,
    Forbidden,
    Required,
    Duplicate,
}

/// Runs all rules of an object. `old` is the stored object on update.
pub(super) fn evaluate(schema: &Schema, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    with_room(schema.below.rule_depth, || {
        let mut run = Run { base: "", errors: Vec::new() };
        let place = Place { path: &Path::Root, old, ratchet: Ratchet::root(schema, old) };
        run.node(schema, new, place, true);
        run.errors
    })
}

/// Runs the rules of a value outside of an object, such as a default.
pub(super) fn evaluate_at(schema: &Schema, value: &Value, base: &str) -> Vec<FieldError> {
    with_room(schema.below.rule_depth, || {
        let mut run = Run { base, errors: Vec::new() };
        let place = Place { path: &Path::Root, old: None, ratchet: Ratchet::default() };
        run.node(schema, value, place, schema.embedded);
        run.errors
    })
}

/// Runs work with recursion up to `depth`, on a thread of its own if needed. Failure to start the
/// thread is an error.
fn with_room(depth: usize, work: impl FnOnce() -> Vec<FieldError> + Send) -> Vec<FieldError> {
    if depth <= INLINE_DEPTH {
        return work();
    }
    let failed = |why: &str| {
        let detail = format!("validation rules could not be run: {why}");
        let (path, shown) = ("<nil>".to_owned(), String::new());
        vec![FieldError { kind: FieldErrorKind::Internal, path, shown, detail }]
    };
    thread::scope(|scope| {
        let builder = thread::Builder::new().name("cel".to_owned()).stack_size(STACK_BYTES);
        match builder.spawn_scoped(scope, work) {
            Ok(thread) => thread.join().unwrap_or_else(|_| failed("the interpreter panicked")),
            Err(error) => failed(&error.to_string()),
        }
    })
}

/// The predecessor that decides whether an error is tolerated, or the nearest one above it.
#[derive(Clone, Copy, Default)]
struct Ratchet<'a> {
    current: Option<(ratchet::Correlated<'a>, &'a Value)>,
    nearest: Option<(ratchet::Correlated<'a>, &'a Value)>,
}

impl<'a> Ratchet<'a> {
    fn root(schema: &'a Schema, old: Option<&'a Value>) -> Self {
        // The first step down sets the new value; the root itself always differs, because its
        // metadata is outside the schema.
        let current = old.map(|old| (ratchet::Correlated { schema, old }, &Value::Null));
        Self { current, nearest: None }
    }

    fn step(self, next: Option<ratchet::Correlated<'a>>, new: &'a Value) -> Self {
        match self.current {
            None => self,
            Some(_) => Self { current: next.map(|next| (next, new)), nearest: self.current },
        }
    }

    fn field(self, name: &str, new: &'a Value) -> Self {
        // Changes of these two are not visible here, so errors in them are not tolerated.
        if self.nearest.is_none() && matches!(name, "apiVersion" | "kind") {
            return Self::default();
        }
        self.step(self.current.and_then(|(correlated, _)| correlated.field(name)), new)
    }

    fn item(self, new: &'a Value) -> Self {
        self.step(self.current.and_then(|(correlated, _)| correlated.item(new)), new)
    }

    fn forgives(self) -> bool {
        let decisive = self.current.or(self.nearest);
        decisive.is_some_and(|(correlated, new)| correlated.is_unchanged(new))
    }
}

/// Path of a node, and its predecessor.
#[derive(Clone, Copy)]
struct Place<'a> {
    path: &'a Path<'a>,
    old: Option<&'a Value>,
    ratchet: Ratchet<'a>,
}

struct Run<'b> {
    base: &'b str,
    errors: Vec<FieldError>,
}

impl Run<'_> {
    fn node(&mut self, schema: &Schema, value: &Value, place: Place<'_>, is_resource: bool) {
        if !schema.below.rules || value.is_null() {
            return;
        }
        if !schema.rules.is_empty() {
            self.rules(schema, value, place, is_resource);
        }
        match value {
            Value::Object(map) => {
                for (name, member) in map {
                    let (child, path) = match (schema.properties.get(name), &schema.additional) {
                        (Some(property), _) => (property, place.path.field(name)),
                        (None, Additional::Each(each)) => (each.as_ref(), place.path.key(name)),
                        (None, Additional::Unset | Additional::Allowed(_)) => continue,
                    };
                    let old = place.old.and_then(|old| old.get(name));
                    let ratchet = place.ratchet.field(name, member);
                    let inner = Place { path: &path, old, ratchet };
                    self.node(child, member, inner, child.embedded);
                }
            }
            Value::Array(list) => {
                let Some(items) = schema.items.as_deref() else { return };
                for (index, item) in list.iter().enumerate() {
                    let old = place.old.and_then(|old| ratchet::old_item(schema, old, item));
                    let path = place.path.index(index);
                    let inner = Place { path: &path, old, ratchet: place.ratchet.item(item) };
                    self.node(items, item, inner, items.embedded);
                }
            }
            _ => {}
        }
    }

    fn rules(&mut self, schema: &Schema, value: &Value, place: Place<'_>, is_resource: bool) {
        let old = place.old.filter(|old| !old.is_null());
        let size =
            measure::Size::of(value).max(old.map_or_else(Default::default, measure::Size::of));
        let mut plain = None;
        let mut optional = None;
        for rule in &schema.rules {
            if rule.uses_old && old.is_none() && !rule.optional_old {
                continue;
            }
            if rule.measure.steps(size) > MAX_STEPS {
                let detail = format!(
                    "'operation cancelled: actual cost limit exceeded': no further validation \
                     rules will be run due to call cost exceeds limit for rule: {}",
                    rule.name()
                );
                self.errors.push(self.type_error(schema, place.path, detail));
                return;
            }
            let context = if rule.optional_old { &mut optional } else { &mut plain };
            let context = context
                .get_or_insert_with(|| bind(schema, value, old, is_resource, rule.optional_old));
            if let Some(error) = self.rule(schema, rule, value, place, context) {
                self.errors.push(error);
            }
        }
    }

    fn rule(
        &self,
        schema: &Schema,
        rule: &Rule,
        value: &Value,
        place: Place<'_>,
        context: &Context<'_, '_>,
    ) -> Option<FieldError> {
        let verdict = match mistyped(schema, value) {
            Some(why) => Err(why),
            None => execute(&rule.program, context),
        };
        match verdict {
            Ok(cel::Value::Bool(true)) => return None,
            Ok(cel::Value::Bool(false)) => {}
            Ok(_) => {
                let detail = format!("unexpected result evaluating rule: {}", rule.name());
                return Some(self.type_error(schema, place.path, detail));
            }
            Err(why) if why == NO_OVERLOAD => {
                let detail = format!(
                    "'{why}': call arguments did not match a supported operator, function or \
                     macro signature for rule: {}",
                    rule.name()
                );
                return Some(self.type_error(schema, place.path, detail));
            }
            Err(why) => {
                let detail = format!("{why} evaluating rule: {}", rule.name());
                return Some(self.type_error(schema, place.path, detail));
            }
        }
        if !rule.uses_old && place.ratchet.forgives() {
            return None;
        }
        let message = rule.message_program.as_ref().and_then(|program| message(program, context));
        let detail = message.unwrap_or_else(|| rule.default_message());
        let path = match (self.path(place.path), &rule.field_path) {
            (path, None) => path,
            (path, Some(field)) if path == "<nil>" => field.clone(),
            (path, Some(field)) => format!("{path}.{field}"),
        };
        Some(rule.error(path, shown(schema, value), detail))
    }

    fn path(&self, path: &Path<'_>) -> String {
        match (self.base, path) {
            ("", path) => path.bracketed(),
            (base, Path::Root) => base.to_owned(),
            (base, path) => format!("{base}.{}", path.bracketed()),
        }
    }

    /// Evaluation errors show the type of the node in place of its value.
    fn type_error(&self, schema: &Schema, path: &Path<'_>, detail: String) -> FieldError {
        let kind = match schema.kinds {
            Kinds::One(kind) => kind.name(),
            Kinds::Any | Kinds::IntegerOrString => "",
        };
        FieldError::invalid(self.path(path), &kind.into(), detail)
    }
}

/// The error for a value of the wrong type, which an update may keep.
fn mistyped(schema: &Schema, value: &Value) -> Option<String> {
    let (word, fits) = match schema.kinds {
        Kinds::One(Kind::Array) => ("an array", value.is_array()),
        Kinds::One(Kind::Object) => ("a map", value.is_object()),
        _ => return None,
    };
    let kind = schema.kinds.text();
    (!fits)
        .then(|| format!("invalid data, expected {word} for the provided schema with type={kind}"))
}

/// The value in an error; objects and arrays are left out.
fn shown(schema: &Schema, value: &Value) -> String {
    match schema.kinds {
        Kinds::One(Kind::Object | Kind::Array) => String::new(),
        _ => validate::shown(value),
    }
}

fn bind<'v>(
    schema: &'v Schema,
    value: &'v Value,
    old: Option<&'v Value>,
    is_resource: bool,
    optional_old: bool,
) -> Context<'v, 'v> {
    let mut context = Context::with_env(Arc::clone(&ENVIRONMENT));
    context.add_variable_as_val("self", values::convert(schema, value, is_resource));
    let old = old.map(|old| values::convert(schema, old, is_resource));
    if optional_old {
        let old = old.map_or_else(CelOptional::none, CelOptional::of);
        context.add_variable_as_val("oldSelf", Box::new(old));
    } else if let Some(old) = old {
        context.add_variable_as_val("oldSelf", old);
    }
    context
}

const NO_OVERLOAD: &str = "no such overload";

/// Evaluates a program; errors have the text of cel-go.
fn execute(program: &Program, context: &Context<'_, '_>) -> Result<cel::Value, String> {
    // A panic of the interpreter is a failed rule, not a crashed server.
    let outcome = catch_unwind(AssertUnwindSafe(|| program.execute(context)));
    match outcome {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(go_words(&error)),
        Err(_) => Err("internal error".to_owned()),
    }
}

fn go_words(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        ExecutionError::IndexOutOfBounds(index) => match index {
            cel::Value::Int(index) => format!("index out of bounds: {index}"),
            _ => "index out of bounds".to_owned(),
        },
        ExecutionError::DivisionByZero(_) => "division by zero".to_owned(),
        ExecutionError::RemainderByZero(_) => "modulus by zero".to_owned(),
        ExecutionError::Overflow(..) => "integer overflow".to_owned(),
        ExecutionError::FunctionError { function, message } => match function.as_str() {
            "int" | "uint" | "double" | "bool" => {
                format!("type conversion error from 'string' to '{function}'")
            }
            "duration" => {
                "type conversion error from 'string' to 'google.protobuf.Duration'".to_owned()
            }
            "timestamp" => {
                "type conversion error from 'string' to 'google.protobuf.Timestamp'".to_owned()
            }
            _ => message.clone(),
        },
        ExecutionError::NoSuchOverload(_)
        | ExecutionError::ValuesNotComparable(..)
        | ExecutionError::UnsupportedBinaryOperator(..)
        | ExecutionError::UnexpectedType { .. }
        | ExecutionError::UnsupportedKeyType(_)
        | ExecutionError::UnsupportedIndex(..)
        | ExecutionError::UnsupportedTargetType { .. } => NO_OVERLOAD.to_owned(),
        other => other.to_string(),
    }
}

/// The result of a message expression, if it can be shown.
fn message(program: &Program, context: &Context<'_, '_>) -> Option<String> {
    let Ok(cel::Value::String(text)) = execute(program, context) else { return None };
    let text = text.trim();
    let fits = !text.is_empty() && text.len() <= MAX_MESSAGE_BYTES && !text.contains('\n');
    fits.then(|| text.to_owned())
}

// === impl Rule ===

impl Rule {
    /// The name of the rule in errors: its message, else its text.
    fn name(&self) -> &str {
        if self.message.is_empty() { &self.source } else { &self.message }
    }

    fn default_message(&self) -> String {
        if self.message.is_empty() {
            format!("failed rule: {}", self.source)
        } else {
            self.message.clone()
        }
    }

    fn error(&self, path: String, shown: String, detail: String) -> FieldError {
        match self.reason {
            Reason::Forbidden => FieldError::forbidden(path, detail),
            Reason::Required => FieldError::required(path, detail),
            Reason::Duplicate => {
                FieldError { kind: FieldErrorKind::Duplicate, path, shown, detail: String::new() }
            }
            Reason::Invalid => FieldError { kind: FieldErrorKind::Invalid, path, shown, detail },
        }
    }
}

// === impl Reason ===

impl Reason {
    fn of(rule: &Value) -> Self {
        match raw::text(rule, "reason") {
            "FieldValueForbidden" => Self::Forbidden,
            "FieldValueRequired" => Self::Required,
            "FieldValueDuplicate" => Self::Duplicate,
            _ => Self::Invalid,
        }
    }
}
