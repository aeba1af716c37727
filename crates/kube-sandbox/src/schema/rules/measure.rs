//! Static upper bound on the work of a rule.
//!
//! Computed when a rule is compiled; before each run the bound for the given value is compared with
//! the limit.

use cel::common::ast::{EntryExpr, Expr, IdedExpr};
use serde_json::Value;

/// Cost factors in a rule's text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Measure {
    /// Nesting of the expression.
    pub(super) depth: usize,
    nodes: u64,
    /// Maximum number of loops nested in, or feeding, one another.
    loops: u32,
    /// Length of the longest list or map literal.
    literal: u64,
    /// Whether a list can be as long as a text: `split`, `findAll`.
    splits: bool,
    /// Whether lists of arbitrary length are created: `lists.range`.
    ranges: bool,
}

/// Size of a value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Size {
    /// Length of the longest list or map.
    longest: u64,
    /// Length of the longest text in bytes.
    text: u64,
}

impl Measure {
    pub(super) fn of(expression: &IdedExpr) -> Self {
        let mut measure = Self::default();
        measure.loops = measure.visit(expression, 1);
        measure
    }

    /// An upper bound on the steps of the rule for a value of this size.
    pub(super) fn steps(&self, size: Size) -> u64 {
        let mut longest = size.longest.max(self.literal).max(1);
        if self.splits {
            longest = longest.max(size.text);
        }
        if self.ranges {
            longest = longest.max(1_000_000);
        }
        longest.saturating_pow(self.loops).saturating_mul(self.nodes)
    }

    /// Returns the number of nested loops in the expression.
    fn visit(&mut self, expression: &IdedExpr, depth: usize) -> u32 {
        self.depth = self.depth.max(depth);
        self.nodes += 1;
        let depth = depth + 1;
        match &expression.expr {
            Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => 0,
            Expr::Select(select) => self.visit(&select.operand, depth),
            Expr::List(list) => {
                self.literal = self.literal.max(length(list.elements.len()));
                self.most(&list.elements, depth)
            }
            Expr::Map(map) => {
                self.literal = self.literal.max(length(map.entries.len()));
                self.entries(map.entries.iter().map(|entry| &entry.expr), depth)
            }
            Expr::Struct(fields) => {
                self.entries(fields.entries.iter().map(|entry| &entry.expr), depth)
            }
            Expr::Call(call) => {
                match call.func_name.as_str() {
                    "split" | "findAll" => self.splits = true,
                    "range" => self.ranges = true,
                    _ => {}
                }
                let target = call.target.as_ref().map_or(0, |target| self.visit(target, depth));
                target.max(self.most(&call.args, depth))
            }
            Expr::Comprehension(comprehension) => {
                let range = self.visit(&comprehension.iter_range, depth);
                let outside = self
                    .visit(&comprehension.accu_init, depth)
                    .max(self.visit(&comprehension.result, depth));
                let inside = self
                    .visit(&comprehension.loop_cond, depth)
                    .max(self.visit(&comprehension.loop_step, depth));
                outside.max(range + 1 + inside)
            }
        }
    }

    fn most(&mut self, expressions: &[IdedExpr], depth: usize) -> u32 {
        expressions.iter().map(|each| self.visit(each, depth)).max().unwrap_or_default()
    }

    fn entries<'a>(&mut self, entries: impl Iterator<Item = &'a EntryExpr>, depth: usize) -> u32 {
        let mut most = 0;
        for entry in entries {
            let loops = match entry {
                EntryExpr::StructField(field) => self.visit(&field.value, depth),
                EntryExpr::MapEntry(entry) => {
                    self.visit(&entry.key, depth).max(self.visit(&entry.value, depth))
                }
            };
            most = most.max(loops);
        }
        most
    }
}

impl Size {
    pub(super) fn of(value: &Value) -> Self {
        match value {
            Value::String(text) => Self { longest: 0, text: length(text.len()) },
            Value::Array(list) => list
                .iter()
                .map(Self::of)
                .fold(Self { longest: length(list.len()), text: 0 }, Self::max),
            Value::Object(map) => map
                .values()
                .map(Self::of)
                .fold(Self { longest: length(map.len()), text: 0 }, Self::max),
            _ => Self::default(),
        }
    }

    pub(super) fn max(self, other: Self) -> Self {
        Self { longest: self.longest.max(other.longest), text: self.text.max(other.text) }
    }
}

fn length(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
