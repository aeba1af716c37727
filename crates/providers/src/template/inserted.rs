//! Notes which parts of a rendered text depend on `templateVariables`.
//!
//! Every action that may print a variable stands between two that print nothing and say so:
//!
//! ```text
//! x="{{ variables.shop }}"   ->   x="{{ insert 1 }}{{ variables.shop }}{{ insert 0 }}"
//! ```
//!
//! Actions are taken for the template's own text only if nothing in them can have come from a variable: the dot
//! and `$x` may hold one.

use std::{
    fmt, iter,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use gotmpl::{
    FuncMap, Value,
    parse::{ActionNode, BranchNode, CommandNode, Expr, ListNode, Node, Number, PipeNode, Pos},
};

use super::budget::OUTPUT_MAX;

/// Has a blank in it, so that no template can call it or define it.
const INSERT: &str = "insert note";

/// A part of a rendered text that depends on variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Inserted {
    /// Bytes of the text.
    pub(super) range: Range<usize>,
    /// Line of the template, from 1.
    pub(super) line: usize,
}

/// The text printed so far, up to the limit.
#[derive(Default)]
pub(super) struct Output {
    pub(super) text: String,
    pub(super) inserted: Vec<Inserted>,
    pub(super) is_full: bool,
    /// Line of the action that prints a variable; 0 outside of such actions.
    inserting: Arc<AtomicUsize>,
}

// === impl Output ===

impl Output {
    /// The function of the notes.
    pub(super) fn functions(&self) -> FuncMap {
        let inserting = Arc::clone(&self.inserting);
        let mut functions = FuncMap::new();
        functions.insert(
            INSERT.to_owned(),
            Arc::new(move |values: &[Value]| {
                let line = match values.first() {
                    Some(Value::Int(line)) => usize::try_from(*line).unwrap_or_default(),
                    _ => 0,
                };
                inserting.store(line, Ordering::Relaxed);
                Ok(Value::String(Arc::from("")))
            }),
        );
        functions
    }
}

impl fmt::Write for Output {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let start = self.text.len();
        if start + text.len() > OUTPUT_MAX {
            self.is_full = true;
            return Err(fmt::Error);
        }
        self.text.push_str(text);
        let (line, end) = (self.inserting.load(Ordering::Relaxed), self.text.len());
        if line > 0 && end > start {
            match self.inserted.last_mut() {
                Some(last) if last.range.end == start => last.range.end = end,
                _ => self.inserted.push(Inserted { range: start..end, line }),
            }
        }
        Ok(())
    }
}

/// Puts notes around actions that may print a variable.
pub(super) fn note(mut tree: ListNode) -> ListNode {
    note_list(&mut tree);
    tree
}

fn note_list(list: &mut ListNode) {
    let mut noted = Vec::with_capacity(list.nodes.len());
    for mut node in std::mem::take(&mut list.nodes) {
        match &mut node {
            Node::Text(_) | Node::Break(_) | Node::Continue(_) | Node::Template(_) => {}
            Node::List(inner) => note_list(inner),
            Node::Define(define) => note_list(&mut define.body),
            Node::If(branch) | Node::With(branch) | Node::Range(branch) => note_branch(branch),
            Node::Action(action) => {
                let pos = action.pos;
                if may_have_variables(&action.pipe) {
                    noted.extend([insert(pos, pos.line.max(1)), node, insert(pos, 0)]);
                    continue;
                }
            }
        }
        noted.push(node);
    }
    list.nodes = noted;
}

fn note_branch(branch: &mut BranchNode) {
    note_list(&mut branch.body);
    branch.else_body.iter_mut().for_each(note_list);
}

fn may_have_variables(pipe: &PipeNode) -> bool {
    pipe.commands.iter().flat_map(|command| &command.args).any(expression_may_have_variables)
}

fn expression_may_have_variables(expression: &Expr) -> bool {
    match expression {
        Expr::Dot(_) | Expr::Field(..) | Expr::Variable(..) => true,
        Expr::Identifier(_, name) => name == "variables",
        Expr::Chain(_, inner, _) => expression_may_have_variables(inner),
        Expr::Pipe(_, pipe) => may_have_variables(pipe),
        Expr::String(..) | Expr::Number(..) | Expr::Bool(..) | Expr::Nil(_) => false,
    }
}

fn insert(pos: Pos, line: usize) -> Node {
    let line = Expr::Number(pos, Number::Int(i64::try_from(line).unwrap_or(i64::MAX)));
    let args = iter::once(Expr::Identifier(pos, INSERT.into())).chain([line]).collect();
    let commands = vec![CommandNode { pos, args }];
    Node::Action(ActionNode {
        pos,
        pipe: PipeNode { pos, decl: Vec::new(), commands, is_assign: false },
    })
}
