//! Lists of weighted members: where most providers say how traffic is divided.
//!
//! ```text
//!   object ─ rules ─┬─ members ─┬─ { name, weight }     the rule that divides
//!                   │           └─ { name, weight }
//!                   └─ members ── …                     the rule for the rest, if there is one
//! ```
//!
//! The words differ and the meaning does not, so [`Words`] has the words and everything else is
//! here. The first rule with both sides in it divides traffic.

use serde_json::{Map, Value, json};
use tidegate_engine::Percent;

use super::{Cookies, Scene, plan::Seen, takeover::merge_patch, weights::Weights};
use crate::object::{Change, Kind};

/// One provider's words. Paths are JSON pointers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Words {
    /// From the object to its rules; empty where it has no more than one, which is the object.
    pub(super) rules: &'static str,
    /// From a rule to its members; the first that is there counts.
    pub(super) members: &'static [&'static str],
    /// From a member to its name.
    pub(super) name: &'static str,
    /// Whether a side is known by the beginning of the name, not by all of it.
    pub(super) begins: bool,
    /// What a missing weight means.
    pub(super) absent: i64,
    /// From a rule to lists of conditions on requests, and from an item there to what makes it one.
    pub(super) conditions: &'static [(&'static str, &'static str)],
}

/// The names of the two sides, in a provider's words.
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

/// What goes where: conditions of a rule, and the canary's share of what fits them.
#[derive(Clone, Debug)]
pub(super) struct Part<T> {
    /// `None` for all requests, or all that are left.
    pub(super) of: Option<T>,
    pub(super) canary: Percent,
}

/// The rules of a route: one for everything, or one for each condition and one for the rest, which
/// stays with the primary.
pub(super) fn parts<T>(scene: &Scene<'_>, canary: Percent, conditions: Vec<T>) -> Vec<Part<T>> {
    if !scene.is_scoped() {
        return vec![Part { of: None, canary }];
    }
    let matched = conditions.into_iter().map(|of| Part { of: Some(of), canary });
    matched.chain([Part { of: None, canary: Percent::ZERO }]).collect()
}

/// A rule or member as we want it, with what somebody else put on the live one. `own` are the
/// fields that are ours to say, whether we say something or not.
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

// === impl Words ===

impl Words {
    /// The rules of an object.
    fn rules<'a>(&self, object: &'a Value) -> Vec<&'a Value> {
        if self.rules.is_empty() {
            return vec![object];
        }
        object.pointer(self.rules).and_then(Value::as_array).into_iter().flatten().collect()
    }

    fn members<'a>(&self, rule: &'a Value) -> &'a [Value] {
        let lists = self.members.iter().filter_map(|path| rule.pointer(path)?.as_array());
        lists.map(Vec::as_slice).next().unwrap_or_default()
    }

    fn is(&self, member: &Value, side: &str) -> bool {
        let name = member.pointer(self.name).and_then(Value::as_str).unwrap_or_default();
        if self.begins { name.starts_with(side) } else { name == side }
    }

    fn found<'a>(&self, rule: &'a Value, sides: &Sides) -> Found<'a> {
        let of = |side: &str| self.members(rule).iter().find(|member| self.is(member, side));
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

    /// What a live route says.
    pub(super) fn seen(&self, object: &Value, sides: &Sides) -> Option<Seen> {
        let found = self.divided(object, sides)?;
        Some(Seen { scoped: self.is_scoped(found.rule), ..self.weighed(&found) })
    }

    /// Whether a rule is about some requests only. Others after it tell nothing: anybody may add one.
    fn is_scoped(&self, rule: &Value) -> bool {
        self.conditions.iter().any(|(list, condition)| {
            let items = rule.pointer(list).and_then(Value::as_array).into_iter().flatten();
            items.filter_map(|item| item.pointer(condition)).any(|found| !found.is_null())
        })
    }

    /// What one rule says. A side that is not there has nothing; what goes to others is not the
    /// canary's, so that two sides that add up are no split with somebody else in the list.
    pub(super) fn weighed(&self, found: &Found<'_>) -> Seen {
        let weight = |member: Option<&Value>| member.map_or(Some(0), |it| self.weight(it));
        let is = |member: &Value, side: Option<&Value>| {
            side.is_some_and(|side| std::ptr::eq(side, member))
        };
        let others = self.members(found.rule).iter();
        let others = others.filter(|it| !is(it, found.primary) && !is(it, found.canary));
        let mut rest = weight(found.primary);
        for other in others {
            let both = rest.zip(weight(Some(other)));
            rest = both.map(|(rest, other)| rest.saturating_add(other.max(0)));
        }
        let weights = rest.zip(weight(found.canary));
        Seen {
            weights: weights.map(|(primary, canary)| Weights { primary, canary }),
            mirrored: false,
            scoped: false,
            cookies: Cookies::default(),
        }
    }

    /// The weight of a member. A quantity is a number in quotes.
    fn weight(&self, member: &Value) -> Option<i64> {
        match &member["weight"] {
            Value::Null => Some(self.absent),
            Value::String(text) => text.parse().ok(),
            found => found.as_i64(),
        }
    }

    /// What sends everything to the primary in every rule that has both sides, and changes nothing
    /// else. Weights stay numbers or texts, whichever they are.
    pub(super) fn retreat(&self, kind: Kind, live: &Value, sides: &Sides) -> Option<Change> {
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
            for path in self.members {
                let members = rule.pointer_mut(path).and_then(Value::as_array_mut);
                members.into_iter().flatten().for_each(|member| self.settle(member, sides));
            }
        }
        respecified(kind, live, &object["spec"])
    }

    fn settle(&self, member: &mut Value, sides: &Sides) {
        let percent: Percent = match () {
            () if self.is(member, &sides.primary) => Percent::ALL,
            () if self.is(member, &sides.canary) => Percent::ZERO,
            () => return,
        };
        let is_text = member["weight"].is_string();
        let weight = if is_text { json!(percent.to_string()) } else { json!(percent.get()) };
        if let Some(fields) = member.as_object_mut() {
            fields.insert("weight".to_owned(), weight);
        }
    }
}

// === impl Scene ===

impl Scene<'_> {
    /// The two sides by the names of their Services.
    pub(super) fn sides(&self) -> Sides {
        Sides { primary: self.names.primary.clone(), canary: self.names.canary.clone() }
    }
}

// === impl Found ===

impl<'a> Found<'a> {
    /// The live member to take fields of others from: the side itself or else the other, which is
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
