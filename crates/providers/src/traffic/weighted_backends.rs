//! Lists of weighted backends: the place where most providers divide traffic.
//!
//! ```text
//!   object ─ rules ─┬─ backends ─┬─ { name, weight }     the rule that divides
//!                   │           └─ { name, weight }
//!                   └─ backends ── …                     the rule for the rest, if there is one
//! ```
//!
//! Field names differ and the meaning does not, so [`BackendSchema`] has the names and everything
//! else is here. The first rule with both sides in it divides traffic.

use serde_json::{Map, Value, json};
use tidegate_engine::Percent;

use super::{Cookies, RouteCase, plan::LiveRule, takeover::merge_patch, weights::Weights};
use crate::object::{Change, Kind};

/// One provider's fields. Paths are JSON pointers.
#[derive(Clone, Copy, Debug)]
pub(super) struct BackendSchema {
    /// From the object to its rules; empty where it has no more than one, which is the object.
    pub(super) rules: &'static str,
    /// From a rule to its backends; the first that is there counts.
    pub(super) backends: &'static [&'static str],
    /// From a backend to its name.
    pub(super) name: &'static str,
    /// Whether a side is known by the beginning of the name, not by all of it.
    pub(super) begins: bool,
    /// The meaning of a missing weight.
    pub(super) absent: i64,
    /// From a rule to lists of conditions on requests, and from an item there to what makes it one.
    pub(super) conditions: &'static [(&'static str, &'static str)],
}

/// The names of the two sides, as the provider writes them.
#[derive(Clone, Debug)]
pub(super) struct Sides {
    pub(super) primary: String,
    pub(super) canary: String,
}

/// A rule with at least one side in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found<'a> {
    pub(super) rule: &'a Value,
    pub(super) primary: Option<&'a Value>,
    pub(super) canary: Option<&'a Value>,
}

/// A part of the traffic: conditions of a rule, and the canary's share of the requests that fit.
#[derive(Clone, Debug)]
pub(super) struct Part<T> {
    /// `None` for all requests, or all that are left.
    pub(super) of: Option<T>,
    pub(super) canary: Percent,
}

/// The rules of a route: one for everything, or one for each condition and one for the rest, which
/// stays with the primary.
pub(super) fn parts<T>(case: &RouteCase<'_>, canary: Percent, conditions: Vec<T>) -> Vec<Part<T>> {
    if !case.is_scoped() {
        return vec![Part { of: None, canary }];
    }
    let matched = conditions.into_iter().map(|of| Part { of: Some(of), canary });
    matched.chain([Part { of: None, canary: Percent::ZERO }]).collect()
}

/// A rule or backend as we want it, with the fields that others put on the live one. `own` are the fields
/// that are ours to set or to leave out.
pub(super) fn over(live: Option<&Value>, own: &[&str], mut wanted: Value) -> Value {
    let (Some(fields), Some(found)) = (wanted.as_object_mut(), live.and_then(Value::as_object))
    else {
        return wanted;
    };
    for (key, value) in found {
        if !own.contains(&key.as_str()) && !fields.contains_key(key) {
            fields.insert(key.clone(), value.clone());
        }
    }
    wanted
}

/// A merge patch of a live object that makes its spec another one; none if it is that already.
pub(super) fn respecified(kind: Kind, live: &Value, spec: &Value) -> Option<Change> {
    let difference = merge_patch(&live["spec"], spec)?;
    let metadata = &live["metadata"];
    Some(Change::Merge {
        kind,
        name: metadata["name"].as_str()?.to_owned(),
        patch: json!({
            "metadata": { "resourceVersion": metadata["resourceVersion"] },
            "spec": difference,
        }),
    })
}

// === impl BackendSchema ===

impl BackendSchema {
    /// The rules of an object.
    fn rules<'a>(&self, object: &'a Value) -> Vec<&'a Value> {
        if self.rules.is_empty() {
            return vec![object];
        }
        object.pointer(self.rules).and_then(Value::as_array).into_iter().flatten().collect()
    }

    fn backends<'a>(&self, rule: &'a Value) -> &'a [Value] {
        let lists = self.backends.iter().filter_map(|path| rule.pointer(path)?.as_array());
        lists.map(Vec::as_slice).next().unwrap_or_default()
    }

    fn is(&self, backend: &Value, side: &str) -> bool {
        let name = backend.pointer(self.name).and_then(Value::as_str).unwrap_or_default();
        if self.begins { name.starts_with(side) } else { name == side }
    }

    fn found<'a>(&self, rule: &'a Value, sides: &Sides) -> Found<'a> {
        let of = |side: &str| self.backends(rule).iter().find(|backend| self.is(backend, side));
        Found { rule, primary: of(&sides.primary), canary: of(&sides.canary) }
    }

    /// The rule that divides traffic: the first with both sides.
    pub(super) fn divided<'a>(&self, object: &'a Value, sides: &Sides) -> Option<Found<'a>> {
        let rules = self.rules(object).into_iter().map(|rule| self.found(rule, sides));
        rules.into_iter().find(|found| found.primary.is_some() && found.canary.is_some())
    }

    /// The first rule with any side, where a side without traffic is left out.
    pub(super) fn any<'a>(&self, object: &'a Value, sides: &Sides) -> Option<Found<'a>> {
        let rules = self.rules(object).into_iter().map(|rule| self.found(rule, sides));
        rules.into_iter().find(|found| found.primary.is_some() || found.canary.is_some())
    }

    /// The meaning of a live route.
    pub(super) fn seen(&self, object: &Value, sides: &Sides) -> Option<LiveRule> {
        let found = self.divided(object, sides)?;
        Some(LiveRule { scoped: self.is_scoped(found.rule), ..self.weighed(&found) })
    }

    /// Whether a rule is about some requests only. Rules after it prove nothing: any user may add one.
    fn is_scoped(&self, rule: &Value) -> bool {
        self.conditions.iter().any(|(list, condition)| {
            let items = rule.pointer(list).and_then(Value::as_array).into_iter().flatten();
            items.filter_map(|item| item.pointer(condition)).any(|found| !found.is_null())
        })
    }

    /// The meaning of one rule. A missing side has weight 0; weights of other backends count with
    /// the primary's, so that two sides that add up to 100 are no split with a third in the list.
    pub(super) fn weighed(&self, found: &Found<'_>) -> LiveRule {
        let weight = |backend: Option<&Value>| backend.map_or(Some(0), |it| self.weight(it));
        let is = |backend: &Value, side: Option<&Value>| {
            side.is_some_and(|side| std::ptr::eq(side, backend))
        };
        let others = self.backends(found.rule).iter();
        let others = others.filter(|it| !is(it, found.primary) && !is(it, found.canary));
        let mut rest = weight(found.primary);
        for other in others {
            let both = rest.zip(weight(Some(other)));
            rest = both.map(|(rest, other)| rest.saturating_add(other.max(0)));
        }
        let weights = rest.zip(weight(found.canary));
        LiveRule {
            weights: weights.map(|(primary, canary)| Weights { primary, canary }),
            mirrored: false,
            scoped: false,
            cookies: Cookies::default(),
        }
    }

    /// The weight of a backend. A quantity is a number in quotes.
    fn weight(&self, backend: &Value) -> Option<i64> {
        match &backend["weight"] {
            Value::Null => Some(self.absent),
            Value::String(text) => text.parse().ok(),
            found => found.as_i64(),
        }
    }

    /// Sends everything to the primary in every rule that has both sides, and changes nothing else.
    /// Weights stay numbers or texts, as they were.
    pub(super) fn reset_to_primary(
        &self,
        kind: Kind,
        live: &Value,
        sides: &Sides,
    ) -> Option<Change> {
        let mut object = live.clone();
        let rules = if self.rules.is_empty() {
            vec![&mut object]
        } else {
            object.pointer_mut(self.rules)?.as_array_mut()?.iter_mut().collect()
        };
        for rule in rules {
            let found = self.found(rule, sides);
            if found.primary.is_none() || found.canary.is_none() {
                continue;
            }
            for path in self.backends {
                let backends = rule.pointer_mut(path).and_then(Value::as_array_mut);
                backends.into_iter().flatten().for_each(|backend| self.settle(backend, sides));
            }
        }
        respecified(kind, live, &object["spec"])
    }

    fn settle(&self, backend: &mut Value, sides: &Sides) {
        let percent: Percent = match () {
            () if self.is(backend, &sides.primary) => Percent::ALL,
            () if self.is(backend, &sides.canary) => Percent::ZERO,
            () => return,
        };
        let is_text = backend["weight"].is_string();
        let weight = if is_text { json!(percent.to_string()) } else { json!(percent.get()) };
        if let Some(fields) = backend.as_object_mut() {
            fields.insert("weight".to_owned(), weight);
        }
    }
}

// === impl RouteCase ===

impl RouteCase<'_> {
    /// The two sides by the names of their Services.
    pub(super) fn sides(&self) -> Sides {
        Sides { primary: self.names.primary.clone(), canary: self.names.canary.clone() }
    }
}

// === impl Found ===

impl<'a> Found<'a> {
    /// The live backend to take fields of others from: the side itself or else the other, which is
    /// reached in the same way.
    pub(super) fn like(self, is_canary: bool) -> Option<&'a Value> {
        if is_canary { self.canary.or(self.primary) } else { self.primary.or(self.canary) }
    }
}

/// Fields that are there, and none that are not.
pub(super) fn fields<const N: usize>(entries: [(&str, Option<Value>); N]) -> Map<String, Value> {
    let said = entries.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
    said.collect()
}
