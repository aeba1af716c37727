//! The budget of a template: bounds on its steps and on the size of its values.
//!
//! The template engine bounds nesting and the turns of loops, and nothing else. Text that fits into
//! a tweet can still double a string forty times, or define templates that call each other twice,
//! sixty levels deep. So every template is rewritten before it runs: a guard stands behind each
//! command, counts it, and refuses values that are too large.
//!
//! ```text
//! {{ $x = print $x $x }}          ->  {{ $x = print $x $x | guard }}
//! {{ template "a" }}              ->  {{ template "a" (guard) }}
//! {{ printf "%d" (len "abc") }}   ->  {{ printf ("%d" | format) (len "abc" | guard) | guard }}
//! ```
//!
//! Before each action stands one that notes its line and prints nothing, so that an error can say
//! where it happened; the engine itself does not.
//!
//! The names of the guards have a blank in them, so that no template can call them or define them.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering},
};

use gotmpl::{
    FuncMap, TemplateError, Value,
    parse::{
        ActionNode, BranchNode, CommandNode, Expr, ListNode, Node, Number, PipeNode, Pos, SmolStr,
    },
};

use super::Problem;
use crate::hook::excerpt;

/// Longest query. Prometheus itself has no limit; proxies in front of it stop far below.
pub(super) const OUTPUT_MAX: usize = 64 * 1024;
/// Longest value within a template. With at most [`ARGUMENTS_MAX`] of them joined at a time, no
/// command makes more than 128 KiB before its result is refused.
pub(super) const VALUE_MAX: usize = 4 * 1024;
/// Most turns of all loops together.
pub(super) const RANGE_MAX: u64 = 10_000;
/// Most commands that are carried out: loops included, some milliseconds of work.
const STEPS_MAX: u32 = 20_000;
/// Most arguments of one command.
const ARGUMENTS_MAX: usize = 32;
/// Widest field `printf` may be asked for: three digits.
const WIDTH_DIGITS_MAX: usize = 3;

const GUARD: &str = "step guard";
const FORMAT: &str = "format guard";
const LINE: &str = "line guard";
/// Ours and Go's own; anything else is refused before it runs, as in Go.
const FUNCTIONS: [&str; 27] = [
    "name",
    "namespace",
    "target",
    "service",
    "ingress",
    "route",
    "interval",
    "variables",
    "and",
    "or",
    "not",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "len",
    "index",
    "slice",
    "print",
    "printf",
    "println",
    "html",
    "js",
    "urlquery",
    "call",
];

/// The rest of the budget of one rendering. Clones share it: functions of templates must own what
/// they use.
#[derive(Clone, Default)]
pub(super) struct Budget {
    steps: Arc<AtomicU32>,
    spent: Arc<AtomicBool>,
    line: Arc<AtomicUsize>,
}

// === impl Budget ===

impl Budget {
    /// Whether rendering stopped because it cost too much.
    pub(super) fn is_spent(&self) -> bool {
        self.spent.load(Ordering::Relaxed)
    }

    /// The line that is being carried out; nothing before the first action.
    pub(super) fn line(&self) -> Option<usize> {
        Some(self.line.load(Ordering::Relaxed)).filter(|line| *line > 0)
    }

    /// The guards, and `index` as Go has it for a map of texts.
    pub(super) fn functions(&self) -> FuncMap {
        let (steps, formats, lines) = (self.clone(), self.clone(), self.clone());
        let mut functions = FuncMap::new();
        functions.insert(GUARD.to_owned(), Arc::new(move |values| steps.step(values)));
        functions.insert(FORMAT.to_owned(), Arc::new(move |values| formats.format(values)));
        functions.insert(LINE.to_owned(), Arc::new(move |values| Ok(lines.note(values))));
        functions.insert("index".to_owned(), Arc::new(index));
        functions
    }

    fn note(&self, values: &[Value]) -> Value {
        if let Some(Value::Int(line)) = values.first() {
            self.line.store(usize::try_from(*line).unwrap_or_default(), Ordering::Relaxed);
        }
        Value::String(Arc::from(""))
    }

    fn step(&self, values: &[Value]) -> Result<Value, TemplateError> {
        if self.steps.fetch_add(1, Ordering::Relaxed) >= STEPS_MAX {
            return Err(self.refuse());
        }
        match values.first() {
            Some(Value::String(text)) if text.len() > VALUE_MAX => Err(self.refuse()),
            Some(value) => Ok(value.clone()),
            // The dot of a template without an argument.
            None => Ok(Value::Map(Arc::default())),
        }
    }

    fn format(&self, values: &[Value]) -> Result<Value, TemplateError> {
        let value = values.first().cloned().unwrap_or(Value::Nil);
        match &value {
            Value::String(text) if text.len() > VALUE_MAX || !is_narrow(text) => Err(self.refuse()),
            _ => Ok(value),
        }
    }

    fn refuse(&self) -> TemplateError {
        self.spent.store(true, Ordering::Relaxed);
        TemplateError::RangeIterLimit
    }
}

/// Puts guards into a template.
pub(super) fn guard(tree: &ListNode) -> Result<ListNode, Problem> {
    let mut tree = tree.clone();
    guard_list(&mut tree)?;
    Ok(tree)
}

fn guard_list(list: &mut ListNode) -> Result<(), Problem> {
    let mut guarded = Vec::with_capacity(list.nodes.len() * 2);
    for mut node in std::mem::take(&mut list.nodes) {
        guarded.extend(pos_of(&node).map(line_note));
        guard_node(&mut node)?;
        guarded.push(node);
    }
    list.nodes = guarded;
    Ok(())
}

/// Where a node is that may fail.
fn pos_of(node: &Node) -> Option<Pos> {
    match node {
        Node::Action(action) => Some(action.pos),
        Node::If(branch) | Node::With(branch) | Node::Range(branch) => Some(branch.pos),
        Node::Template(call) => Some(call.pos),
        Node::List(_) | Node::Text(_) | Node::Define(_) | Node::Break(_) | Node::Continue(_) => {
            None
        }
    }
}

fn line_note(pos: Pos) -> Node {
    let line = i64::try_from(pos.line).unwrap_or_default();
    let mut note = command(LINE, pos);
    note.args.push(Expr::Number(pos, Number::Int(line)));
    let pipe = PipeNode { pos, decl: Vec::new(), commands: vec![note], is_assign: false };
    Node::Action(ActionNode { pos, pipe })
}

fn guard_node(node: &mut Node) -> Result<(), Problem> {
    match node {
        Node::Text(_) | Node::Break(_) | Node::Continue(_) => Ok(()),
        Node::List(list) => guard_list(list),
        Node::Define(define) => guard_list(&mut define.body),
        Node::Action(action) => guard_pipe(&mut action.pipe),
        Node::If(branch) | Node::With(branch) | Node::Range(branch) => guard_branch(branch),
        Node::Template(call) => match &mut call.pipe {
            Some(pipe) => guard_pipe(pipe),
            absent => {
                let commands = vec![command(GUARD, call.pos)];
                *absent =
                    Some(PipeNode { pos: call.pos, decl: Vec::new(), commands, is_assign: false });
                Ok(())
            }
        },
    }
}

fn guard_branch(branch: &mut BranchNode) -> Result<(), Problem> {
    guard_pipe(&mut branch.pipe)?;
    guard_list(&mut branch.body)?;
    branch.else_body.as_mut().map_or(Ok(()), guard_list)
}

fn guard_pipe(pipe: &mut PipeNode) -> Result<(), Problem> {
    let mut guarded = Vec::with_capacity(pipe.commands.len() * 2);
    for mut one in std::mem::take(&mut pipe.commands) {
        let pos = one.pos;
        let is_piped = !guarded.is_empty();
        guard_command(&mut one)?;
        if let [Expr::Identifier(_, name), arguments @ ..] = one.args.as_mut_slice()
            && name == "printf"
        {
            match arguments.first_mut() {
                Some(format) => guard_format(format, pos),
                None if is_piped => guarded.push(command(FORMAT, pos)),
                None => {}
            }
        }
        guarded.push(one);
        guarded.push(command(GUARD, pos));
    }
    pipe.commands = guarded;
    Ok(())
}

fn guard_command(one: &mut CommandNode) -> Result<(), Problem> {
    if one.args.len() > ARGUMENTS_MAX {
        return Err(Problem::TooBusy);
    }
    one.args.iter_mut().try_for_each(guard_expression)
}

fn guard_expression(expression: &mut Expr) -> Result<(), Problem> {
    match expression {
        Expr::Pipe(_, pipe) => guard_pipe(pipe),
        Expr::Chain(_, inner, _) => guard_expression(inner),
        Expr::Identifier(pos, name) if !FUNCTIONS.contains(&name.as_str()) => {
            let why = format!("there is no function {:?}", excerpt(name.as_bytes()));
            Err(Problem::Syntax { line: pos.line, why })
        }
        Expr::String(_, text) if text.len() > VALUE_MAX => Err(Problem::TooBusy),
        Expr::Identifier(..)
        | Expr::String(..)
        | Expr::Dot(_)
        | Expr::Field(..)
        | Expr::Variable(..)
        | Expr::Number(..)
        | Expr::Bool(..)
        | Expr::Nil(_) => Ok(()),
    }
}

/// Puts `(format | guard)` where the format was.
fn guard_format(format: &mut Expr, pos: Pos) {
    let plain = std::mem::replace(format, Expr::Nil(pos));
    let commands = vec![CommandNode { pos, args: vec![plain] }, command(FORMAT, pos)];
    *format = Expr::Pipe(pos, PipeNode { pos, decl: Vec::new(), commands, is_assign: false });
}

fn command(function: &'static str, pos: Pos) -> CommandNode {
    CommandNode { pos, args: vec![Expr::Identifier(pos, SmolStr::new_static(function))] }
}

/// Whether no field of a format is wider than three digits; one such is four bytes of format, so
/// the longest format makes less than a mebibyte.
fn is_narrow(format: &str) -> bool {
    format.split('%').skip(1).all(|field| {
        let end = field.find(|c: char| !(c.is_ascii_digit() || "+-# .[]*".contains(c)));
        let flags = field.get(..end.unwrap_or(field.len())).unwrap_or_default();
        let digits = flags.split(|c: char| !c.is_ascii_digit());
        !flags.contains('*') && digits.map(str::len).all(|digits| digits <= WIDTH_DIGITS_MAX)
    })
}

/// As Go: a key that a map of texts does not have is the empty text.
fn index(values: &[Value]) -> Result<Value, TemplateError> {
    let [first, keys @ ..] = values else {
        return Err(TemplateError::ArgCount { name: "index".to_owned(), expected: 1, got: 0 });
    };
    keys.iter().try_fold(first.clone(), |value, key| match value.index(key)? {
        Value::Nil => Ok(Value::String(Arc::from(""))),
        found => Ok(found),
    })
}
