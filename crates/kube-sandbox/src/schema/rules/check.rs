//! Static checks of a rule.
//!
//! CEL for Kubernetes is typed: a rule that names a field outside its schema, or compares a number
//! with a text, is refused with the definition. The interpreter checks no types, so this module
//! does, for plain types; other errors appear at run time.

use std::fmt::Write as _;

use cel::{
    Program,
    common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue},
};

use super::values;
use crate::schema::{Additional, Kind, Kinds, Schema, pattern};

/// Context of a rule.
#[derive(Clone, Copy)]
pub(super) struct Scope<'a> {
    pub(super) schema: &'a Schema,
    pub(super) is_resource: bool,
    pub(super) optional_old: bool,
}

/// Required type of an expression.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Want {
    Bool,
    Text,
}

/// The errors, in the layout of cel-go; empty if there are none.
pub(super) fn check(program: &Program, source: &str, scope: Scope<'_>, want: Want) -> String {
    let mut checker = Checker { program, source, scope, locals: Vec::new(), issues: String::new() };
    let given = checker.infer(program.expression());
    if !checker.issues.is_empty() {
        return format!("compilation failed: {}", checker.issues);
    }
    let (fits, detail) = match (want, given.plain()) {
        (_, None) => (true, ""),
        (Want::Bool, Some(plain)) => {
            (plain == Plain::Bool, "cel expression must evaluate to a bool")
        }
        (Want::Text, Some(plain)) => (plain == Plain::Text, "must evaluate to a string"),
    };
    if fits { String::new() } else { detail.to_owned() }
}

/// The static type of an expression, as far as known.
#[derive(Clone, Copy)]
enum Static<'a> {
    Unknown,
    Plain(Plain),
    Node(&'a Schema, bool),
    /// The metadata of a resource.
    Metadata,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Plain {
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    List,
    Map,
    Null,
    Timestamp,
    Duration,
}

impl Static<'_> {
    fn plain(self) -> Option<Plain> {
        match self {
            Self::Unknown => None,
            Self::Plain(plain) => Some(plain),
            Self::Metadata => Some(Plain::Map),
            Self::Node(schema, _) => match schema.kinds {
                Kinds::Any | Kinds::IntegerOrString => None,
                Kinds::One(Kind::Boolean) => Some(Plain::Bool),
                Kinds::One(Kind::Integer) => Some(Plain::Int),
                Kinds::One(Kind::Number) => Some(Plain::Double),
                Kinds::One(Kind::Array) => Some(Plain::List),
                Kinds::One(Kind::Object) => Some(Plain::Map),
                Kinds::One(Kind::String) => {
                    let format = schema.limits.format.as_ref();
                    match format.map_or("", |format| format.name.as_str()) {
                        "byte" => Some(Plain::Bytes),
                        "date" | "date-time" => Some(Plain::Timestamp),
                        "duration" => Some(Plain::Duration),
                        _ => Some(Plain::Text),
                    }
                }
            },
        }
    }

    fn item(self) -> Self {
        match self {
            Self::Node(schema, _) => match (&schema.items, &schema.additional) {
                (Some(items), _) => Self::Node(items, items.embedded),
                (None, Additional::Each(each)) => Self::Node(each, each.embedded),
                _ => Self::Unknown,
            },
            _ => Self::Unknown,
        }
    }

    fn is_iterable(self) -> bool {
        match self {
            Self::Unknown | Self::Plain(Plain::List | Plain::Map) => true,
            Self::Node(..) => self.plain() == Some(Plain::List) || self.is_map(),
            Self::Plain(_) | Self::Metadata => false,
        }
    }

    fn is_map(self) -> bool {
        matches!(self, Self::Node(schema, _) if matches!(schema.additional, Additional::Each(_)))
    }
}

impl Plain {
    const fn name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::Text => "string",
            Self::Bytes => "bytes",
            Self::List => "list(dyn)",
            Self::Map => "object",
            Self::Null => "null",
            Self::Timestamp => "timestamp",
            Self::Duration => "duration",
        }
    }

    fn is_scalar(self) -> bool {
        !matches!(self, Self::List | Self::Map)
    }
}

const TYPE_NAMES: [&str; 11] = [
    "bool",
    "bytes",
    "double",
    "int",
    "list",
    "map",
    "null_type",
    "string",
    "type",
    "uint",
    "optional_type",
];

const NAMESPACES: [&str; 6] = ["optional", "sets", "lists", "strings", "ip", "google"];

/// Methods of strings; some are also methods of lists.
const TEXT_METHODS: [&str; 12] = [
    "matches",
    "startsWith",
    "endsWith",
    "contains",
    "lowerAscii",
    "upperAscii",
    "trim",
    "split",
    "substring",
    "replace",
    "charAt",
    "find",
];

#[rustfmt::skip]
const FUNCTIONS: [&str; 105] = [
    // CEL.
    "bool", "bytes", "contains", "double", "duration", "dyn", "endsWith", "getDate",
    "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getFullYear", "getHours",
    "getMilliseconds", "getMinutes", "getMonth", "getSeconds", "int", "matches", "size",
    "startsWith", "string", "timestamp", "type", "uint",
    // Optionals, from macros and `optional.*`.
    "hasValue", "value", "or", "orValue", "of", "ofNonZeroValue", "none", "optMap", "optFlatMap",
    // Strings.
    "charAt", "indexOf", "lastIndexOf", "join", "lowerAscii", "upperAscii", "replace", "split",
    "substring", "trim", "format", "reverse", "quote", "find", "findAll",
    // Lists.
    "isSorted", "sum", "min", "max", "slice", "flatten", "distinct", "sort", "sortBy", "range",
    "equivalent", "intersects", "@sortByAssociatedKeys",
    // URLs, addresses, quantities.
    "url", "isURL", "getScheme", "getHost", "getHostname", "getPort", "getEscapedPath", "getQuery",
    "ip", "isIP", "isCanonical", "family", "isUnspecified", "isLoopback", "isLinkLocalMulticast",
    "isLinkLocalUnicast", "isGlobalUnicast", "cidr", "isCIDR", "containsIP", "containsCIDR",
    "prefixLength", "masked", "quantity", "isQuantity", "sign", "isGreaterThan", "isLessThan",
    "compareTo", "asApproximateFloat", "asInteger", "isInteger", "add", "sub",
    // Macros that were not expanded because of their arguments, and operators.
    "has", "all", "exists", "exists_one", "map", "filter", "@in", "@not_strictly_false", "-_",
];

struct Checker<'a> {
    program: &'a Program,
    source: &'a str,
    scope: Scope<'a>,
    locals: Vec<(&'a str, Static<'a>)>,
    issues: String,
}

impl<'a> Checker<'a> {
    fn infer(&mut self, expression: &'a IdedExpr) -> Static<'a> {
        match &expression.expr {
            Expr::Literal(literal) => Static::Plain(match literal {
                LiteralValue::Boolean(_) => Plain::Bool,
                LiteralValue::Bytes(_) => Plain::Bytes,
                LiteralValue::Double(_) => Plain::Double,
                LiteralValue::Int(_) => Plain::Int,
                LiteralValue::Null => Plain::Null,
                LiteralValue::String(_) => Plain::Text,
                LiteralValue::UInt(_) => Plain::Uint,
            }),
            Expr::Ident(name) => self.identifier(expression, name),
            Expr::Select(select) => {
                if names_namespace(&select.operand) {
                    return Static::Unknown;
                }
                let operand = self.infer(&select.operand);
                let field = self.select(expression, operand, &select.field);
                if select.test { Static::Plain(Plain::Bool) } else { field }
            }
            Expr::List(list) => {
                for element in &list.elements {
                    self.infer(element);
                }
                Static::Plain(Plain::List)
            }
            Expr::Map(map) => {
                for entry in &map.entries {
                    if let EntryExpr::MapEntry(entry) = &entry.expr {
                        self.infer(&entry.key);
                        self.infer(&entry.value);
                    }
                }
                Static::Plain(Plain::Map)
            }
            Expr::Unspecified | Expr::Struct(_) => Static::Unknown,
            Expr::Call(call) => self.call(expression, call),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
        }
    }

    fn identifier(&mut self, expression: &IdedExpr, name: &str) -> Static<'a> {
        let local = self.locals.iter().rev().find(|(local, _)| *local == name);
        if let Some((_, kind)) = local {
            return *kind;
        }
        let own = Static::Node(self.scope.schema, self.scope.is_resource);
        match name {
            "oldSelf" if self.scope.optional_old => Static::Unknown,
            "self" | "oldSelf" => own,
            name if TYPE_NAMES.contains(&name) || NAMESPACES.contains(&name) => Static::Unknown,
            name => {
                self.issue(expression, &undeclared(name));
                Static::Unknown
            }
        }
    }

    fn select(&mut self, expression: &IdedExpr, operand: Static<'a>, field: &str) -> Static<'a> {
        let (schema, is_resource) = match operand {
            Static::Node(schema, is_resource) => (schema, is_resource),
            Static::Metadata if matches!(field, "name" | "generateName") => {
                return Static::Plain(Plain::Text);
            }
            Static::Metadata => {
                self.issue(expression, &format!("undefined field '{field}'"));
                return Static::Unknown;
            }
            Static::Plain(plain) if plain.is_scalar() => {
                let name = plain.name();
                self.issue(expression, &format!("type '{name}' does not support field selection"));
                return Static::Unknown;
            }
            Static::Plain(_) | Static::Unknown => return Static::Unknown,
        };
        if is_resource {
            match field {
                "metadata" => return Static::Metadata,
                "apiVersion" | "kind" => return Static::Plain(Plain::Text),
                _ => {}
            }
        }
        match (schema.kinds, &schema.additional) {
            (Kinds::Any | Kinds::IntegerOrString, _) => Static::Unknown,
            (Kinds::One(Kind::Object), Additional::Each(each)) => Static::Node(each, each.embedded),
            (Kinds::One(Kind::Object), _) => {
                let named = schema
                    .properties
                    .iter()
                    .find(|(name, _)| values::escape(name).is_some_and(|escaped| escaped == field));
                match named {
                    Some((_, property)) if values::is_exposed(property) => {
                        Static::Node(property, property.embedded)
                    }
                    _ => {
                        self.issue(expression, &format!("undefined field '{field}'"));
                        Static::Unknown
                    }
                }
            }
            (Kinds::One(_), _) => {
                let name = operand.plain().map_or("dyn", Plain::name);
                self.issue(expression, &format!("type '{name}' does not support field selection"));
                Static::Unknown
            }
        }
    }

    fn call(&mut self, expression: &'a IdedExpr, call: &'a CallExpr) -> Static<'a> {
        let name = call.func_name.as_str();
        self.check_target(expression, call);
        self.check_literal(call);
        if name == "_?._" {
            return self.optional_select(expression, call);
        }
        let arguments: Vec<Static<'a>> = call.args.iter().map(|each| self.infer(each)).collect();
        let plain = |at: usize| arguments.get(at).and_then(|argument| argument.plain());
        match name {
            "_&&_" | "_||_" | "!_" => {
                for (argument, kind) in call.args.iter().zip(&arguments) {
                    if let Some(plain) = kind.plain().filter(|plain| *plain != Plain::Bool) {
                        let name = plain.name();
                        let words = format!("expected type 'bool' but found '{name}'");
                        self.issue(argument, &words);
                    }
                }
                Static::Plain(Plain::Bool)
            }
            "_==_" | "_!=_" | "_<_" | "_<=_" | "_>_" | "_>=_" => {
                if !comparable(name, plain(0), plain(1)) {
                    self.no_overload(expression, name, &arguments);
                }
                Static::Plain(Plain::Bool)
            }
            "_+_" | "_-_" | "_*_" | "_/_" | "_%_" => {
                let (left, right) = (plain(0), plain(1));
                let times = |plain| matches!(plain, Some(Plain::Timestamp | Plain::Duration));
                if times(left) || times(right) {
                    return Static::Unknown;
                }
                let scalars =
                    left.is_some_and(Plain::is_scalar) && right.is_some_and(Plain::is_scalar);
                if scalars && left != right {
                    self.no_overload(expression, name, &arguments);
                }
                left.filter(|_| left == right).map_or(Static::Unknown, Static::Plain)
            }
            "_?_:_" => match (plain(1), plain(2)) {
                (Some(left), Some(right)) if left == right => Static::Plain(left),
                _ => Static::Unknown,
            },
            "_[_]" => arguments.first().map_or(Static::Unknown, |list| list.item()),
            "_[?_]" => Static::Unknown,
            "@in" | "contains" | "startsWith" | "endsWith" | "matches" | "isSorted"
            | "hasValue" => Static::Plain(Plain::Bool),
            "size" | "int" => Static::Plain(Plain::Int),
            "string" | "join" | "trim" | "lowerAscii" | "upperAscii" | "substring" | "replace"
            | "format" | "charAt" => Static::Plain(Plain::Text),
            "double" => Static::Plain(Plain::Double),
            name if FUNCTIONS.contains(&name) => Static::Unknown,
            name => {
                self.issue(expression, &undeclared(name));
                Static::Unknown
            }
        }
    }

    /// String methods need a string.
    fn check_target(&mut self, expression: &IdedExpr, call: &'a CallExpr) {
        let Some(target) = call.target.as_deref().filter(|target| !names_namespace(target)) else {
            return;
        };
        let name = call.func_name.as_str();
        if let Some(plain) = self.infer(target).plain()
            && TEXT_METHODS.contains(&name)
            && !matches!(plain, Plain::Text | Plain::List)
        {
            let words = format!(
                "found no matching overload for '{name}' applied to '{}.({})'",
                plain.name(),
                vec!["string"; call.args.len()].join(", ")
            );
            self.issue(expression, &words);
        }
    }

    /// A literal pattern, time or duration must parse.
    fn check_literal(&mut self, call: &'a CallExpr) {
        let Some(argument) = call.args.first() else { return };
        let Expr::Literal(LiteralValue::String(text)) = &argument.expr else { return };
        let parses = match call.func_name.as_str() {
            "matches" => pattern::compile(text.inner()).is_ok(),
            name @ ("timestamp" | "duration") => {
                values::call(name, text.inner().to_owned()).is_some()
            }
            _ => true,
        };
        if !parses {
            self.issue(argument, &format!("invalid {} argument", call.func_name));
        }
    }

    /// `self.?field`: the schema must have the field, the value need not.
    fn optional_select(&mut self, expression: &'a IdedExpr, call: &'a CallExpr) -> Static<'a> {
        let [operand, field] = call.args.as_slice() else { return Static::Unknown };
        let operand = self.infer(operand);
        if let Expr::Literal(LiteralValue::String(field)) = &field.expr {
            self.select(expression, operand, field.inner());
        }
        Static::Unknown
    }

    fn comprehension(&mut self, comprehension: &'a ComprehensionExpr) -> Static<'a> {
        let range = self.infer(&comprehension.iter_range);
        if let Some(name) = range.plain().filter(|_| !range.is_iterable()).map(Plain::name) {
            let words = format!(
                "expression of type '{name}' cannot be range of a comprehension (must be list, \
                 map, or dynamic)"
            );
            self.issue(&comprehension.iter_range, &words);
        }
        let start = self.infer(&comprehension.accu_init);
        let key = Static::Plain(Plain::Text);
        let mark = self.locals.len();
        match &comprehension.iter_var2 {
            None => {
                let item = if range.is_map() { key } else { range.item() };
                self.locals.push((&comprehension.iter_var, item));
            }
            Some(second) => {
                let first = if range.is_map() { key } else { Static::Unknown };
                self.locals.push((&comprehension.iter_var, first));
                self.locals.push((second, range.item()));
            }
        }
        self.locals.push((&comprehension.accu_var, start));
        self.infer(&comprehension.loop_cond);
        self.infer(&comprehension.loop_step);
        let result = self.infer(&comprehension.result);
        self.locals.truncate(mark);
        result
    }

    fn no_overload(&mut self, expression: &IdedExpr, name: &str, arguments: &[Static<'a>]) {
        let names: Vec<&str> =
            arguments.iter().map(|argument| argument.plain().map_or("dyn", Plain::name)).collect();
        let words =
            format!("found no matching overload for '{name}' applied to '({})'", names.join(", "));
        self.issue(expression, &words);
    }

    /// Adds an error with its position, in the format of cel-go.
    fn issue(&mut self, expression: &IdedExpr, words: &str) {
        let start =
            self.program.source_info().offset_for(expression.id).map_or(0, |(start, _)| start);
        let start = usize::try_from(start).unwrap_or_default();
        let before: String = self.source.chars().take(start).collect();
        let line = before.matches('\n').count();
        let column = before.rsplit('\n').next().map_or(0, |rest| rest.chars().count());
        let text = self.source.lines().nth(line).unwrap_or_default();
        if !self.issues.is_empty() {
            self.issues.push('\n');
        }
        let dots = ".".repeat(column);
        let _ = write!(
            self.issues,
            "ERROR: <input>:{}:{}: {words}\n | {text}\n | {dots}^",
            line + 1,
            column + 1
        );
    }
}

fn undeclared(name: &str) -> String {
    format!("undeclared reference to '{name}' (in container '')")
}

/// `optional` in `optional.none()`, `google.protobuf` in `google.protobuf.Duration`.
fn names_namespace(expression: &IdedExpr) -> bool {
    match &expression.expr {
        Expr::Ident(name) => NAMESPACES.contains(&name.as_str()),
        Expr::Select(select) => names_namespace(&select.operand),
        _ => false,
    }
}

/// Whether two types can be compared; unknown types can.
fn comparable(operator: &str, left: Option<Plain>, right: Option<Plain>) -> bool {
    let (Some(left), Some(right)) = (left, right) else { return true };
    let numeric = |plain| matches!(plain, Plain::Int | Plain::Uint | Plain::Double);
    let is_equality = matches!(operator, "_==_" | "_!=_");
    if left == right || !left.is_scalar() || !right.is_scalar() {
        return true;
    }
    // Order is defined across numeric types, equality only within a type.
    !is_equality && numeric(left) && numeric(right)
}
